"""What code waits for, moves and computes: host syncs, transfers and operations, counted and told line by line.

    from autogradlab import counters

    with counters.count() as counted:
        train(model, batches)
    counted                     # a table, and the lines that wait and move

Every device is counted alike, a CPU too, where nothing has to wait: there the figures say what the same code would do
on an accelerator. Times are not taken.
"""

import linecache
import os
import sys
from dataclasses import dataclass

from autogradlab.costs import Meter
from autogradlab.output import Output, Table
from autogradlab.steps import LIBRARIES

MAX_LINES = 12
MAX_SOURCE = 60  # characters of a line of code that are shown


@dataclass(frozen=True)
class Line:
    """A line of the caller's code, and what it did.

    place:  `In[5], line 3` in a notebook, `train.py, line 40` in a file
    source: its text, empty where nobody has it
    """

    place: str
    source: str
    syncs: int
    transfers: int
    transfer_bytes: int


class count(Meter, Output):
    """Counts what the code in the block does, and shows it as a table and the lines that did it.

    syncs:          times that Python waits for values of a tensor: `item`, `float`, `if tensor > 0`, `tolist`, `numpy`,
                    a copy to the CPU, and operators whose result has a size that depends on values (`nonzero`, a mask)
    transfers:      copies from one device to another
    transfer_bytes: the bytes of these copies
    operations:     calls of torch's operators, forward and backward
    routes:         `{("cpu", "cuda:0"): (transfers, bytes)}`
    lines:          the `Line`s that wait or move, those that do it most often first

        >>> import torch
        >>> losses = torch.tensor([0.5, 0.25, 0.125])
        >>> with count() as counted:
        ...     values = [loss.item() for loss in losses]
        >>> counted.syncs, counted.transfers
        (3, 0)

    Counted is what this thread does, from the beginning of the block to its end; what a block within the block does
    counts for both. Not seen are copies that an operator makes inside itself, other than those of indices. A copy to
    the CPU counts as a wait even where it was asked not to wait (`non_blocking=True`).
    """

    def __init__(self):
        super().__init__()
        self._routes, self._lines = {}, {}

    def _sync(self):
        super()._sync()
        self._here()[0] += 1

    def _transfer(self, source, target, size):
        super()._transfer(source, target, size)
        route, here = self._routes.setdefault((str(source), str(target)), [0, 0]), self._here()
        route[0] += 1
        route[1] += size
        here[1] += 1
        here[2] += size

    def _here(self):
        return self._lines.setdefault(callers_line(), [0, 0, 0])

    @property
    def routes(self) -> dict:
        return {route: tuple(tally) for route, tally in self._routes.items()}

    @property
    def lines(self) -> list:
        found = [Line(*described(line), *tally) for line, tally in self._lines.items()]
        return sorted(found, key=lambda line: -(line.syncs + line.transfers))

    @property
    def html(self):
        return "".join(table.html for table in self._tables())

    @property
    def text(self):
        return "\n\n".join(table.text for table in self._tables())

    def _tables(self):
        rows = [["host syncs", self.syncs, "-"]]
        rows += [[f"transfers {source} to {target}", *tally] for (source, target), tally in self._routes.items()]
        if len(self._routes) != 1:
            rows.append(["transfers", self.transfers, self.transfer_bytes])
        rows.append(["operations", self.operations, "-"])
        tables = [Table(["counted", "times", "bytes"], rows)]
        if self._lines:
            shown = self.lines[:MAX_LINES]
            caption = "The lines that wait and move"
            if len(shown) < len(self._lines):
                caption += f", the first {len(shown)} of {len(self._lines)}"
            rows = [[one.place, one.syncs, one.transfers, one.transfer_bytes, one.source] for one in shown]
            tables.append(Table(["line", "syncs", "transfers", "bytes", "code"], rows, caption))
        return tables


def callers_line():
    """`(file, line)` of the innermost running code that is no library's, None in a thread of PyTorch's own."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_CALLERS):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


_NOT_THE_CALLERS = (*LIBRARIES, "<frozen ")


def described(line) -> tuple:
    """`(place, source)` of what `callers_line` gave, as people name a line."""
    if line is None:
        return "a thread of PyTorch's", ""
    file, number = line
    source = linecache.getline(file, number).strip()
    if len(source) > MAX_SOURCE:
        source = source[: MAX_SOURCE - 1] + "…"
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cell = None if shell is None else shell.compile.format_code_name(file)
    return f"{os.path.basename(file) if cell is None else cell[1]}, line {number}", source
