"""What graphs keep alive: bytes held for a backward, now and at peak, by node, by line and step by step.

    from autogradlab import memory

    memory.held_by(loss)                        a graph that exists, by node
    with memory.watch() as watched: ...         what is recorded inside, now and at its peak
    memory.growth(step, variants={...})         a picture: bytes held after each step

Bytes are those of the tensors that nodes saved, exact and the same in every run: each storage counts once, however many
nodes saved it or views of it. Parameters are left out (leaves that require grad, and the parameters of modules): they
live without the graph. So are plain numbers (the 2 of `w * 2`). What nodes themselves take cannot be seen from Python;
they are counted.

`held_by` walks along the edges and looks at what each node keeps. `watch` has PyTorch tell it whenever a node saves a
tensor; only so is the peak exact. Both give the same figures. Neither keeps anything alive or changes what code does.
"""

import gc
import itertools
from dataclasses import dataclass

import numpy
import torch
from torch.utils._pytree import tree_leaves

from autogradlab import figures
from autogradlab.costs import GraphBytes, Held, parameter_of, tensors_in
from autogradlab.counters import MAX_LINES, callers_line, described
from autogradlab.encoding import memory_key
from autogradlab.nodes import leaf_of, walk
from autogradlab.output import Output, Picture, Table

_ONCE = "A storage that several nodes saved counts once, at the first."


def size(count: int) -> str:
    """A number of bytes as people read it: `577.0 KiB`."""
    unit, divisor = _unit(count)
    return f"{count} bytes" if divisor == 1 else f"{count / divisor:.1f} {unit}"


def _unit(count):
    if count < 2**10:
        return "bytes", 1
    return ("KiB", 2**10) if count < 10 * 2**20 else ("MiB", 2**20)


# ------------------------------------------------------------------------------------------------- a graph that exists


@dataclass(frozen=True)
class NodeKind:
    """All nodes of one name.

    nodes:   how many there are
    tensors: how many tensors they saved, those that do not count included
    bytes:   bytes of the storages that no node before has
    again:   bytes of storages that a node before has counted already
    """

    name: str
    nodes: int
    tensors: int
    bytes: int
    again: int


class Kept(Output):
    """What graphs keep alive.

    bytes: of the storages that nodes saved, each once, without parameters
    nodes: how many nodes there are
    kinds: the same by name of node, a list of `NodeKind`, in the order of a walk from the end
    """

    def __init__(self, kinds, hidden=0):
        self.kinds = kinds
        self.bytes = sum(kind.bytes for kind in kinds)
        self.nodes = sum(kind.nodes for kind in kinds)
        self.hidden = hidden
        if self.nodes:
            table = _node_table(kinds, self._words())
            super().__init__(table.html, table.text)
        else:
            super().__init__("<p>No graph: nothing is kept.</p>", "No graph: nothing is kept.")

    def _words(self):
        nodes = _counted(self.nodes, "node")
        words = f"{size(self.bytes)} ({self.bytes:,} bytes) kept by {nodes}. {_ONCE}"
        if not self.bytes:
            words = f"Nodes only, {nodes}: no bytes are kept but theirs."
        if self.hidden:
            words += f" Of {_counted(self.hidden, 'saved tensor')} more the bytes cannot be seen, as hooks keep it."
        return words


def held_by(value) -> Kept:
    """What the graphs behind `value` keep alive; shows itself as a table by node.

    value: a tensor, a node (`loss.grad_fn`), a module, or lists, tuples and dicts of such; what has no graph (numbers,
           strings, None, arrays) keeps nothing. Raises TypeError for anything else.

        >>> w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> loss = (w * w).exp().sum()
        >>> held_by(loss).bytes     # three floats: what exp() made
        12
        >>> loss.backward()
        >>> held_by([loss])
        Nodes only, 4 nodes: no bytes are kept but theirs.
                  node  nodes  tensors  bytes  counted already
          SumBackward0      1        0      0                0
          ExpBackward0      1        0      0                0
          MulBackward0      1        0      0                0
        AccumulateGrad      1        0      0                0
                   all      4        0      0                0
    """
    with torch._C.DisableTorchFunction():
        nodes = walk(*_roots(value))
        parameters, kept = set(), []
        for node in nodes:
            leaf = leaf_of(node)
            if leaf is not None and leaf.layout is torch.strided:
                parameters.add(memory_key(leaf))
            kept.append([*_saved(node)])
        parameters |= {key for packed in itertools.chain(*kept) for key in _parameters_in(packed)}
        tally = _Tally(parameters)
        for node, saved in zip(nodes, kept):
            tally.add(node, [_storages(packed) for packed in saved])
        return Kept(tally.kinds(), hidden=sum(not tensors_in(packed) for packed in itertools.chain(*kept)))


def _roots(value) -> list:
    """The nodes at which the graphs behind a value begin."""
    roots = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            roots += _nodes_of(leaf)
        elif isinstance(leaf, torch.nn.Module):
            roots += [node for tensor in (*leaf.parameters(), *leaf.buffers()) for node in _nodes_of(tensor)]
        elif _is_node(type(leaf)):
            roots.append(leaf)
        elif not isinstance(leaf, str | bytes | int | float | complex | numpy.ndarray | numpy.generic | None):
            raise TypeError(
                f"Found a {type(leaf).__name__} where a graph was looked for. Expected tensors, in lists, tuples or "
                "dicts if there are several; try held_by(loss)."
            )
    return roots


def _nodes_of(tensor) -> list:
    """The node that made a tensor, and that of a leaf's gradient, which has a graph after `create_graph=True`."""
    made = [tensor.grad_fn]
    if tensor.is_leaf and tensor.grad is not None:
        made.append(tensor.grad.grad_fn)
    return [node for node in made if node is not None]


def _is_node(kind) -> bool:
    """Whether objects of this class are nodes."""
    return issubclass(kind, torch._C._FunctionBase) or type(kind) is type and hasattr(kind, "next_functions")


def _saved(node):
    """What a node keeps for each tensor that it saved: the tensor, or what hooks made of it. Runs no hook."""
    for attribute in dir(type(node)):
        if attribute.startswith("_raw_saved_"):
            try:
                raw = getattr(node, attribute)
            except RuntimeError as error:
                if "a second time" not in str(error):
                    raise
                continue  # freed
            for saved in raw if isinstance(raw, tuple) else (raw,):
                if saved.data is not None and not _is_number(saved.data):
                    yield saved.data
    if isinstance(node, torch._C._FunctionBase):
        # What a Function's `forward` hung on `ctx` is kept as well, and `backward()` does not free it.
        yield from (leaf for leaf in tree_leaves(vars(node)) if isinstance(leaf, torch.Tensor))


_NARROW = {
    torch.float64: torch.empty((), dtype=torch.float32, device="cpu"),
    torch.complex128: torch.empty((), dtype=torch.complex64, device="cpu"),
    torch.int64: torch.empty((), dtype=torch.int32, device="cpu"),
}


def _is_number(saved) -> bool:
    """Whether this is a number of Python's that PyTorch has put into a tensor; its hooks are not told of these."""
    if not isinstance(saved, torch.Tensor) or saved.dim() or not saved.is_cpu or saved.dtype not in _NARROW:
        return False
    # PyTorch's own mark is not to be seen from Python, but only a number gives way to a narrower dtype.
    narrow = _NARROW[saved.dtype]
    with torch._C._DisableTorchDispatch():
        return torch.result_type(saved, narrow) == narrow.dtype


def _parameters_in(packed):
    """The keys of what is a parameter's memory."""
    while isinstance(packed, Held):
        yield from (key for key in packed.keys if key in packed.owner._parameters)
        packed = packed.kept
    if isinstance(packed, torch.Tensor) and packed.layout is torch.strided:
        parameter = parameter_of(packed)
        if parameter is not None:
            yield memory_key(parameter)


def _storages(packed) -> list:
    return [(memory_key(part), part.untyped_storage().nbytes()) for part in tensors_in(packed)]


class _Tally:
    """Sums up by name of node; a storage counts where it is met first."""

    def __init__(self, parameters):
        self.parameters, self.rows, self.seen = parameters, {}, set()

    def add(self, node, saved):
        """Takes in a node; `saved` has for each saved tensor its storages as `(key, bytes)`."""
        row = self.rows.setdefault(node.name().rsplit("::", 1)[-1], [0, 0, 0, 0])
        row[0] += 1
        row[1] += len(saved)
        for key, count in itertools.chain(*saved):
            if key not in self.parameters:
                row[3 if key in self.seen else 2] += count
                self.seen.add(key)

    def kinds(self) -> list:
        return [NodeKind(name, *row) for name, row in self.rows.items()]


def _node_table(kinds, caption, rest=0):
    rows = [[kind.name, kind.nodes, kind.tensors, kind.bytes, kind.again] for kind in kinds]
    if rest:
        rows.append(["no node found", "-", "-", rest, 0])
    sums = [sum(column) for column in zip(*((kind.nodes, kind.tensors, kind.bytes, kind.again) for kind in kinds))]
    nodes, tensors, count, again = sums or (0, 0, 0, 0)
    rows.append(["all", nodes, tensors, count + rest, again])
    return Table(["node", "nodes", "tensors", "bytes", "counted already"], rows, caption)


def _counted(count, noun):
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# -------------------------------------------------------------------------------------------------- a block of code


@dataclass(frozen=True)
class Allocated:
    """Bytes that the allocator of a device has given out: for all tensors, parameters and gradients too.

    peak: the most in the block; None where it stayed below a maximum from before
    """

    before: int
    now: int
    peak: int | None


class watch(GraphBytes, Output):
    """Watches the bytes that graphs hold, of what the block records; shows itself as a table.

    now:       bytes held now; it follows the graphs after the block too, until the last of them is gone
    peak:      the most that were held at once
    allocated: `{"cuda:0": Allocated(before, now, peak)}`, for the accelerators in use

        >>> w = torch.ones(1000, requires_grad=True)
        >>> with watch() as watched:
        ...     loss = w.exp().sum()
        ...     held = watched.now
        ...     loss.backward()
        >>> held, watched.now, watched.peak
        (4000, 0, 4000)

    Watched is what this thread records. What hooks in the block pack (a checkpoint, `save_on_cpu`) counts as packed, as
    far as it is tensors. Not seen are tensors that a `Function` hangs on its `ctx` (`held_by` sees them), and what
    `torch.func` records for itself. A parameter is known by being saved, itself or as a view; if only `w.detach()` is,
    tell it: `watched.exclude(w)`.
    """

    def __init__(self):
        super().__init__()
        self._recording, self._before, self._after = True, _allocations(), None

    def __enter__(self):
        self._recording, self._before, self._after = torch.is_grad_enabled(), _allocations(), None
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._after = _allocations()

    @property
    def now(self) -> int:
        return self.graph_bytes

    @property
    def peak(self) -> int:
        return self.peak_bytes

    @property
    def allocated(self) -> dict:
        found = {}
        for device, (now, peak) in (self._after or _allocations()).items():
            before, peak_before = self._before.get(device, (0, 0))
            found[device] = Allocated(before, now, peak if peak > peak_before else None)
        return found

    def _place(self):
        return callers_line()

    def by_line(self) -> Table:
        """The bytes held now by the line of your code that saved them."""
        lines = {}
        for _, count, place in self._counting():
            line = lines.setdefault(place, [0, 0])
            line[0] += 1
            line[1] += count
        ranked = sorted(lines.items(), key=lambda item: -item[1][1])
        rows = [[place, *tally, source] for (place, source), tally in ((described(at), tally) for at, tally in ranked)]
        caption = "Held now, by the line that saved it"
        if len(rows) > MAX_LINES:
            caption += f", the first {MAX_LINES} of {len(rows)}"
        return Table(["line", "storages", "bytes", "code"], rows[:MAX_LINES], caption)

    def by_node(self) -> Table:
        """The bytes held now by name of node. Looks for the nodes from all tensors that are alive in Python."""
        sizes = {key: count for key, count, _ in self._counting()}
        tally = _Tally(set())
        with torch._C.DisableTorchFunction():
            for node in walk(*_live_roots()):
                saved = [held for held in map(self._own, _saved(node)) if held is not None]
                if saved:
                    tally.add(node, [[(key, sizes[key]) for key in held.keys if key in sizes] for held in saved])
        rest = sum(count for key, count in sizes.items() if key not in tally.seen)
        return _node_table(tally.kinds(), f"Held now, by node. {_ONCE}", rest)

    def _counting(self) -> list:
        """`(key, bytes, line)` of each storage that counts."""
        return [(key, *entry[1:]) for key, entry in [*self._held.items()] if key not in self._parameters]

    def _own(self, packed):
        """What this block holds of something that a node keeps, else None."""
        while isinstance(packed, Held) and packed.owner is not self:
            packed = packed.kept
        return packed if isinstance(packed, Held) else None

    @property
    def html(self):
        return "".join(part.html for part in self._parts())

    @property
    def text(self):
        return "\n\n".join(part.text for part in self._parts())

    def _parts(self):
        rows = [["now", self.now, size(self.now)], ["at peak", self.peak, size(self.peak)]]
        caption = None if self._recording else "Recording was off at the beginning: torch.is_grad_enabled() was False."
        parts = [Table(["graphs hold", "bytes", "in short"], rows, caption)]
        rows = [
            [device, one.before, one.now, "below an earlier peak" if one.peak is None else one.peak]
            for device, one in self.allocated.items()
            if one.before or one.now or one.peak
        ]
        if rows:
            parts.append(Table(["allocated on", "before", "now", "at peak"], rows, "Bytes of all tensors"))
        if self.now:
            parts.append(self.by_line())
        return parts


def _live_roots() -> list:
    """The nodes behind all tensors and nodes that Python has."""
    roots, kinds = [], {}
    for one in gc.get_objects():
        kind = type(one)
        if kind not in kinds:
            kinds[kind] = (
                _nodes_of if issubclass(kind, torch.Tensor) else (lambda node: [node]) if _is_node(kind) else None
            )
        if kinds[kind] is not None:
            roots += kinds[kind](one)
    return roots


def _allocations() -> dict:
    """`{device: (bytes now, most bytes so far)}` as the allocators of the accelerators in use say."""
    found = {}
    # A mode of the program's own would see that devices are made.
    with torch._C.DisableTorchFunction():
        for kind in ("cuda", "sim"):
            backend = getattr(torch, kind, None)
            # Asking CUDA for anything else would start it.
            if backend is not None and backend.is_initialized():
                for index in range(backend.device_count()):
                    found[f"{kind}:{index}"] = backend.memory_allocated(index), backend.max_memory_allocated(index)
    return found


# ------------------------------------------------------------------------------------------------------- step by step


class Growth(Output):
    """Bytes that graphs hold after each of several steps; shows itself as a picture with its numbers.

    held:      `{variant: [bytes after step 1, after step 2, ...]}`
    peak:      `{variant: the most bytes at once}`
    nodes:     `{variant: nodes behind all that the steps gave}`
    allocated: `{device: {variant: [bytes more than before]}}`, for the accelerators in use
    stopped:   `{variant: number of the step in which memory ran out}`
    """

    def __init__(self, steps):
        self.steps = steps
        self.held, self.peak, self.nodes, self.allocated, self.stopped = {}, {}, {}, {}, {}

    def picture(self) -> Picture:
        """The picture: a line for each variant, with its numbers as text."""
        most = max(max(series, default=0) for series in self.held.values())
        unit, divisor = _unit(most)
        figure, axes = figures.axes(x="step", y=f"held by graphs, {unit}")
        for label, series in self.held.items():
            axes.plot(range(1, len(series) + 1), [count / divisor for count in series], label=label)
        return figures.picture(figure, self._words(), self._tables())

    @property
    def html(self):
        return self.picture().html

    @property
    def text(self):
        return "\n\n".join([self._words(), *(table.text for table in self._tables())])

    def _words(self):
        ends = []
        for label, series in self.held.items():
            words = [f"{label} {_course(series)}"] if series else [label]
            if label in self.stopped:
                words.append(f"runs out of memory in step {self.stopped[label]}")
            ends.append(" and ".join(words) if series else " ".join(words))
        return f"Held by graphs after {_counted(self.steps, 'step')}: {'; '.join(ends)}."

    def _tables(self):
        tables = [self._table(self.held, "Bytes held by graphs after each step")]
        for device, columns in self.allocated.items():
            if any(map(any, columns.values())):
                tables.append(self._table(columns, f"Bytes allocated on {device}, more than before the first step"))
        rows = [[label, self.peak[label], self.nodes[label]] for label in self.held]
        tables.append(Table(["variant", "bytes at peak", "nodes in what step() gave"], rows))
        return tables

    def _table(self, columns, caption):
        longest = max(map(len, columns.values()))
        # The last step of each, and steps at equal distances.
        shown = {len(series) - 1 for series in columns.values() if series}
        shown |= {round(at) for at in numpy.linspace(0, longest - 1, min(longest, MAX_STEPS))}
        if len(shown) < longest:
            caption += f", {len(shown)} of {longest} steps"
        rows = [
            [number + 1, *(series[number] if number < len(series) else "-" for series in columns.values())]
            for number in sorted(shown)
        ]
        return Table(["step", *columns], rows, caption)


def _course(series) -> str:
    """What a series of bytes does, in words."""
    if min(series) == max(series):
        return f"stays at {size(series[-1])}"
    return f"{'grows to' if series[-1] > series[0] else 'ends at'} {size(series[-1])}"


MAX_STEPS = 12  # rows of a table


def growth(step, steps: int = 10, variants: dict | None = None) -> Growth:
    """How the bytes that graphs hold grow when `step` is called again and again; shows itself as a picture.

    step:     one step of a loop. What it returns is kept as in a history, until the next variant begins
    steps:    how often it is called for each variant, at least once
    variants: names of lines in the picture, each with what `step` is called with; without variants, with nothing

        >>> w = torch.ones(256, requires_grad=True)
        >>> def step(keep):
        ...     return keep(w.exp().mean())
        >>> grown = growth(step, steps=3, variants={"loss": lambda loss: loss, "loss.item()": torch.Tensor.item})
        >>> grown.held
        {'loss': [1024, 2048, 3072], 'loss.item()': [0, 0, 0]}

    Where memory runs out (`torch.OutOfMemoryError`) the line ends. Every other exception is the caller's.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}. Expected at least one step; try steps=10.")
    result = Growth(steps)
    calls = {str(label): (argument,) for label, argument in variants.items()} if variants else {"held": ()}
    for label, arguments in calls.items():
        _grow(result, label, step, arguments)
    return result


def _grow(result, label, step, arguments):
    kept, series, before = [], [], _allocations()
    with watch() as watched:
        for number in range(1, result.steps + 1):
            try:
                kept.append(step(*arguments))
            except torch.OutOfMemoryError:
                result.stopped[label] = number
                break
            series.append(watched.now)
            for device, (now, _) in _allocations().items():
                more = result.allocated.setdefault(device, {}).setdefault(label, [])
                more.append(now - before.get(device, (0, 0))[0])
    result.held[label], result.peak[label] = series, watched.peak
    result.nodes[label] = len(walk(*_roots([one for one in tree_leaves(kept) if isinstance(one, torch.Tensor)])))
