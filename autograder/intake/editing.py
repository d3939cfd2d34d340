"""Cells that an editor has split or merged, put back as the master has them before anything is matched."""

import re
from collections.abc import Sequence

import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.intake.master import MasterCell, MasterNotebook
from autograder.intake.matching import definitions, grade_id_of, parses, plain


def rejoined(cells: Sequence[NotebookNode], master: MasterNotebook) -> tuple[list[NotebookNode], list[str]]:
    """The cells with the halves of a split answer together again, and a sentence for each."""
    joined: list[NotebookNode] = []
    repairs = []
    names = {cell.id: _names(cell) for cell in master.cells if cell.role == "answer"}
    for cell in cells:
        answer = _answer_of(joined[-1], master, names) if joined else None
        if answer is not None and _is_continued(joined[-1], cell, answer, master):
            gap = "\n" if answer.type == "code" else "\n\n"
            joined[-1] = nbformat.from_dict(joined[-1] | {"source": joined[-1].source + gap + cell.source})
            sentence = f"The answer cell {answer.id} had been split and was joined again."
            repairs += [sentence] if sentence not in repairs else []
        else:
            joined.append(cell)
    return joined, repairs


def _answer_of(cell: NotebookNode, master: MasterNotebook, names: dict[str, set[str]]) -> MasterCell | None:
    """The answer that a cell is, or begins."""
    if (grade_id := grade_id_of(cell)) in master.by_id:
        answer = master.cells[master.by_id[grade_id]]
        return answer if answer.role in ("answer", "manual") else None
    defined = set(definitions(cell.source))
    matching = [answer for answer, wanted in names.items() if defined & wanted]
    return master.cells[master.by_id[matching[0]]] if len(matching) == 1 else None


def _is_continued(cell: NotebookNode, below: NotebookNode, answer: MasterCell, master: MasterNotebook) -> bool:
    """Whether the cell below is the other half of an answer."""
    if below.cell_type != cell.cell_type or cell.cell_type != answer.type:
        return False
    if grade_id_of(below) not in (None, answer.id):
        return False
    if answer.type == "markdown":
        # A split gives both halves the marks; of a copy one says the same as the other.
        return grade_id_of(below) == answer.id and plain(below.source) not in ("", plain(cell.source))
    released = {plain(other.released) for other in master.cells}
    if plain(below.source) in ("", *released) or parses(cell.source) and parses(below.source):
        return False
    return parses(f"{cell.source}\n{below.source}")


def taken_apart(cells: Sequence[NotebookNode], master: MasterNotebook) -> tuple[list[NotebookNode], list[str]]:
    """The cells with merged ones taken apart where the master's own begin, and a sentence for each."""
    grade_ids = [grade_id_of(cell) for cell in cells]
    present = {*grade_ids, *(cell.id for cell in cells)}
    sources = {plain(cell.source) for cell in cells}
    sought = [
        other
        for other in master.cells
        if other.id is not None and other.type == "code" and plain(other.released) not in sources
    ]
    apart, repairs = [], []
    for cell, grade_id in zip(cells, grade_ids):
        missing = [other for other in sought if other.id == grade_id or not {other.id, other.cell_id} & present]
        parts = _parts(cell, missing) if cell.cell_type == "code" else []
        if len(parts) < 2:
            apart.append(cell)
            continue
        apart += parts
        names = ", ".join(name for part in parts if (name := grade_id_of(part)))
        repairs.append(f"The cells {names} had been merged and were taken apart.")
    return apart, repairs


def _parts(cell: NotebookNode, missing: Sequence[MasterCell]) -> list[NotebookNode]:
    """The cell cut at every test and answer in it; one part where it holds no more than one of them."""
    lines = cell.source.split("\n")
    starts: dict[int, MasterCell] = {}
    ends: set[int] = set()
    for other in missing:
        if other.role == "test" and (place := _block(lines, other.released)) is not None:
            starts[place[0]] = other
            ends.add(place[1])
        elif other.role == "answer" and (line := _definition(lines, other)) is not None:
            starts[line] = other
    own = grade_id_of(cell)
    if not starts or own is not None and {other.id for other in starts.values()} == {own}:
        return [cell]
    if starts[first := min(starts)].role == "answer" and own in (None, *(other.id for other in starts.values())):
        starts[0] = starts.pop(first)  # what it imports and defines for itself stands above it
    cuts = sorted({0, *starts, *(end for end in ends if end < len(lines))})
    parts = []
    for begin, end in zip(cuts, [*cuts[1:], len(lines)]):
        source = "\n".join(lines[begin:end]).strip("\n")
        if not source.strip():
            continue
        known = starts.get(begin)
        part = {key: cell[key] for key in ("cell_type", "outputs", "execution_count", "handed_in")}
        if known is not None:
            part |= {"id": "", "metadata": {"nbgrader": {"grade_id": known.id}}}
        elif begin == 0 and own not in {other.id for other in starts.values()}:
            part |= {"id": cell.id, "metadata": cell.metadata}
        else:
            part |= {"id": "", "metadata": {}}
        parts.append(nbformat.from_dict(part | {"source": source}))
    return parts


def _block(lines: list[str], source: str) -> tuple[int, int] | None:
    """Where the lines of a source stand among others, as (first, after the last)."""
    wanted = plain(source).split("\n")
    stripped = [line.rstrip() for line in lines]
    if wanted == [""]:
        return None
    for begin in range(len(stripped) - len(wanted) + 1):
        if stripped[begin : begin + len(wanted)] == wanted:
            return begin, begin + len(wanted)
    return None


def _names(answer: MasterCell) -> set[str]:
    return set(definitions(answer.released))


def _definition(lines: list[str], answer: MasterCell) -> int | None:
    """The line where the answer's definition begins, its decorators and comments included."""
    names = "|".join(map(re.escape, sorted(_names(answer))))
    if not names:
        return None
    pattern = re.compile(rf"(?:async\s+def|def|class)\s+(?:{names})\b")
    line = next((number for number, text in enumerate(lines) if pattern.match(text)), None)
    while line is not None and line > 0 and lines[line - 1].startswith(("@", "#")):
        line -= 1
    return line
