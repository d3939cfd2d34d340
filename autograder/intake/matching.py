"""Which cell of a submission is which cell of the master: by grade_id, by cell id, by source, by name, by order."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from nbformat.notebooknode import NotebookNode

from autograder.intake.master import MasterCell, MasterNotebook

#: From here on two texts are taken for versions of one, if they stand in the same place.
ALIKE = 0.6

_DEFINITION = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)


@dataclass
class Match:
    """Place in the master -> place in the submission, and how each pair was found."""

    pairs: dict[int, int] = field(default_factory=dict)
    how: dict[int, str] = field(default_factory=dict)
    #: grade_id -> places of all cells that bore it, where there were several.
    copies: dict[str, list[int]] = field(default_factory=dict)
    #: grade_ids that may be one of several cells, and which it is was not guessed.
    unclear: list[str] = field(default_factory=list)

    def add(self, master: int, handed_in: int, how: str) -> None:
        """Note that two cells are the same."""
        self.pairs[master] = handed_in
        self.how[master] = how

    @property
    def taken(self) -> set[int]:
        """Places in the submission that are known."""
        return set(self.pairs.values())


def match(cells: Sequence[NotebookNode], master: MasterNotebook) -> Match:
    """The master's cells found among those handed in."""
    found = Match()
    _by_grade_id(cells, master, found)
    _by_cell_id(cells, master, found)
    _by_source(cells, master, found)
    _by_name(cells, master, found)
    _by_order(cells, master, found)
    return found


def grade_id_of(cell: NotebookNode) -> str | None:
    """The id that a cell's nbgrader metadata gives it, whatever else is in there."""
    marks = cell.metadata.get("nbgrader")
    grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
    return grade_id if isinstance(grade_id, str) and grade_id else None


def plain(source: str) -> str:
    """A source without what editors change by themselves: white space at line ends and around the text."""
    return "\n".join(line.rstrip() for line in source.split("\n")).strip()


def same_source(one: str, other: str) -> bool:
    """Whether two sources are equal but for white space at their line ends."""
    return plain(one) == plain(other)


def definitions(source: str) -> list[str]:
    """Names of the functions and classes that a source defines at its top level; it need not be sound Python."""
    return _DEFINITION.findall(source)


def parses(source: str) -> bool:
    """Whether a source is sound Python (IPython's own commands aside)."""
    commands = "\n".join("pass" if line.startswith(("%", "!")) else line for line in source.split("\n"))
    try:
        ast.parse(commands)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _by_grade_id(cells: Sequence[NotebookNode], master: MasterNotebook, found: Match) -> None:
    places = defaultdict(list)
    for place, cell in enumerate(cells):
        if (grade_id := grade_id_of(cell)) in master.by_id:
            places[grade_id].append(place)
    for grade_id, known in master.by_id.items():
        if len(places[grade_id]) == 1:
            found.add(known, places[grade_id][0], "grade_id")
    # Copies are told apart by where they stand, for which the others have to be known.
    for grade_id, known in master.by_id.items():
        if len(places[grade_id]) > 1:
            found.copies[grade_id] = places[grade_id]
            found.add(known, _best_copy(cells, places[grade_id], known, master.cells[known], found), "grade_id")


def _best_copy(cells, places: list[int], known: int, cell: MasterCell, found: Match) -> int:
    """Of several cells with one id: an answer that was changed, in the master's order, the last of those."""
    low, high = _gap(known, found)
    changed = [place for place in places if not same_source(cells[place].source, cell.released)]
    in_order = [place for place in places if low < place < high]
    if cell.is_restored:
        # Its source comes from the master; only the place counts, so the original's rather than a copy's.
        return (in_order or places)[0]
    return ([place for place in in_order if place in changed] or changed or in_order or places)[-1]


def _by_cell_id(cells: Sequence[NotebookNode], master: MasterNotebook, found: Match) -> None:
    places = {cell.id: place for place, cell in enumerate(cells) if cell.id}
    taken = found.taken
    for known, cell in enumerate(master.cells):
        place = places.get(cell.cell_id)
        if known not in found.pairs and place is not None and place not in taken and grade_id_of(cells[place]) is None:
            found.add(known, place, "cell id")


def _by_source(cells: Sequence[NotebookNode], master: MasterNotebook, found: Match) -> None:
    """Equal sources, first in order between cells that are known already, then wherever there is but one."""
    back = {place: known for known, place in found.pairs.items()}

    def key(number: int | None, cell_type: str, source: str) -> Hashable:
        return ("known", number) if number is not None else (cell_type, plain(source))

    ours = [
        key(place if place in found.pairs else None, cell.type, cell.released)
        for place, cell in enumerate(master.cells)
    ]
    theirs = [key(back.get(place), cell.cell_type, cell.source) for place, cell in enumerate(cells)]
    for known, place, size in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for step in range(size):
            if known + step not in found.pairs:
                found.add(known + step, place + step, "source")
    taken = found.taken
    left = {known: ours[known] for known in range(len(ours)) if known not in found.pairs}
    free = {place: theirs[place] for place in range(len(theirs)) if place not in taken}
    once, once_too = Counter(left.values()), Counter(free.values())
    for known, token in left.items():
        if once[token] == once_too[token] == 1 and token[1]:
            found.add(known, next(place for place, other in free.items() if other == token), "source")


def _by_name(cells: Sequence[NotebookNode], master: MasterNotebook, found: Match) -> None:
    """Answers that define what their stub defines, whatever became of their marks."""
    taken = found.taken
    defined = {
        place: set(definitions(cell.source))
        for place, cell in enumerate(cells)
        if cell.cell_type == "code" and place not in taken
    }
    for known, cell in enumerate(master.cells):
        names = set(definitions(cell.released)) if cell.role == "answer" and cell.type == "code" else set()
        if known in found.pairs or not names:
            continue
        low, high = _gap(known, found)
        places = [place for place, others in defined.items() if names <= others and place not in found.taken]
        inside = [place for place in places if low < place < high]
        if chosen := inside or (places if len(places) == 1 else []):
            found.add(known, chosen[-1], "name")


def _by_order(cells: Sequence[NotebookNode], master: MasterNotebook, found: Match) -> None:
    """What is left between two neighbours that are known: as many on both sides, or texts that are much alike."""
    for gap, places in _gaps(cells, master, found):
        for cell_type in ("code", "markdown"):
            ours = [known for known in gap if master.cells[known].type == cell_type]
            theirs = [place for place in places if cells[place].cell_type == cell_type and plain(cells[place].source)]
            _alike(ours, theirs, lambda known, place: _likeness(master.cells[known], cells[place]), found)
            theirs = [place for place in theirs if place not in found.taken]
            answers = [known for known in ours if master.cells[known].role in ("answer", "manual")]
            wanted = [known for known in answers if known not in found.pairs and not master.cells[known].is_restored]
            if len(wanted) == len(theirs):
                for known, place in zip(wanted, theirs):
                    found.add(known, place, "order")
            elif wanted and theirs:
                found.unclear += [master.cells[known].id for known in wanted]


def _gaps(cells, master: MasterNotebook, found: Match) -> Iterable[tuple[list[int], list[int]]]:
    """Runs of cells that are not known, in the master and in the submission, between the same neighbours."""
    taken = found.taken
    runs = defaultdict(list)
    for known in range(len(master.cells)):
        if known not in found.pairs:
            runs[_gap(known, found)].append(known)
    for (low, high), gap in runs.items():
        places = [place for place in range(low + 1, min(high, len(cells))) if place not in taken]
        yield gap, places


def _gap(known: int, found: Match) -> tuple[int, int]:
    """Places in the submission of the nearest known neighbours of a cell of the master, before and after."""
    before = max((other for other in found.pairs if other < known), default=None)
    after = min((other for other in found.pairs if other > known), default=None)
    low = -1 if before is None else found.pairs[before]
    high = 1 << 31 if after is None else found.pairs[after]
    return low, high


def _alike(ours: list[int], theirs: list[int], likeness: Callable[[int, int], float], found: Match) -> None:
    """Pairs that are alike, the most alike first, none twice; few cells lie between two neighbours."""
    if len(ours) * len(theirs) > 400:
        return
    scores = sorted(((likeness(known, place), -known, -place) for known in ours for place in theirs), reverse=True)
    for score, known, place in scores:
        if score >= ALIKE and -known not in found.pairs and -place not in found.taken:
            found.add(-known, -place, "likeness")


def _likeness(cell: MasterCell, other: NotebookNode) -> float:
    ours, theirs = cell.released[:4000], other.source[:4000]
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE else 0.0
