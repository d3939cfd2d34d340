"""A submitted notebook put back into the master's shape, with the learner's answers in it."""

import copy
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.intake.decoding import Unreadable
from autograder.intake.editing import rejoined, taken_apart
from autograder.intake.master import MasterCell, MasterNotebook
from autograder.intake.matching import Match, grade_id_of, match, same_source

#: Tags that change whether a cell is run or how its errors count, here or in other programs.
EXECUTION_TAGS = frozenset({"skip-execution", "raises-exception", "setup", "demonstration", "prediction"})
FLAGS = ("grade", "solution", "locked", "task")
#: More than any cell has; a whole number in JSON may have thousands of digits.
MOST_POINTS = 1e9
WORDS = {"test": "test cell", "answer": "answer cell", "manual": "answer cell", "setup": "set-up cell"}

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass
class Restored:
    """The notebook, what was changed in it, and what an instructor should look at."""

    node: NotebookNode
    repairs: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


@dataclass
class _Placed:
    """A cell of the restored notebook and its place in the master, if it is one of the master's."""

    node: NotebookNode
    known: int | None = None


def restore(handed_in: NotebookNode, master: MasterNotebook) -> Restored:
    """The notebook with each of the master's graded and locked cells once, and the learner's own beside them.

    Raises Unreadable where not one of the master's cells with a grade_id is to be found.
    """
    cells, joined = rejoined(handed_in.cells, master)
    cells, apart = taken_apart(cells, master)
    found = match(cells, master)
    known = [place for place in master.by_id.values() if found.how.get(place, "order") != "order"]
    if master.by_id and not known:
        raise Unreadable(
            f"None of the {len(master.by_id)} marked cells of {master.name} is in the notebook that was handed in, by "
            "id, by source or by name. Is it another assignment's? Ask for the notebook again."
        )
    restored = Restored(nbformat.from_dict({"metadata": copy.deepcopy(dict(master.metadata)), "cells": []}))
    restored.node |= {"nbformat": 4, "nbformat_minor": 5}
    restored.repairs += [*joined, *apart]
    placed = _place(cells, master, found, restored)
    _put_back(placed, master, found, restored)
    _reorder(placed, master, restored)
    _say_how(master, found, restored)
    _say_kernel(handed_in, master, restored)
    _name(placed, master)
    restored.node.cells = [one.node for one in placed]
    return restored


def _place(cells: Sequence[NotebookNode], master: MasterNotebook, found: Match, restored: Restored) -> list[_Placed]:
    """The cells in the order in which they were handed in."""
    back = {place: known for known, place in found.pairs.items()}
    copies = {place: grade_id for grade_id, places in found.copies.items() for place in places}
    placed = []
    for place, cell in enumerate(cells):
        if place in back:
            known = back[place]
            placed += _known(cell, known, master.cells[known], found.how[known] == "likeness", restored)
        elif place not in copies or _says_more(cell, copies[place], cells, master, found):
            placed.append(_Placed(_added(cell, restored, copies.get(place))))
    for grade_id, places in found.copies.items():
        kept = found.pairs[master.by_id[grade_id]]
        which = "the first" if kept == places[0] else "the last" if kept == places[-1] else "a middle one"
        restored.repairs.append(f"The cell {grade_id} was there {len(places)} times; {which} is graded, once.")
    return placed


def _says_more(cell: NotebookNode, grade_id: str, cells, master: MasterNotebook, found: Match) -> bool:
    """Whether a copy is to be run as a cell of the learner's own: neither the released text nor the graded one."""
    known = master.by_id[grade_id]
    others = (master.cells[known].released, master.cells[known].source, cells[found.pairs[known]].source)
    return not any(same_source(cell.source, other) for other in others)


def _known(cell: NotebookNode, known: int, ours: MasterCell, is_alike: bool, restored: Restored) -> list[_Placed]:
    """One of the master's cells, with the learner's source where that is theirs to write.

    A set-up cell that was not locked, or that is merely alike, may hold what the answers need: it runs as well.
    """
    _compare_marks(cell, ours, restored)
    _compare_tags(cell, ours, restored)
    _look_at_outputs(cell, ours, restored)
    changed = not same_source(cell.source, ours.released) and not same_source(cell.source, ours.source)
    if cell.cell_type != ours.type:
        became = f"The {_words(ours)} had become a {cell.cell_type} cell"
        restored.repairs.append(f"{became}; it is a {ours.type} cell again.")
    if not ours.is_restored:
        kept = _node(ours, cell.source, changed)
        if "attachments" in cell and ours.type != "code":
            kept.attachments = cell.attachments
        return [_Placed(kept, known)]
    placed = [_Placed(_node(ours, ours.source, False), known)]
    if changed and ours.role == "setup" and (is_alike or ours.id is None):
        sentence = f"The {_words(ours)} had been changed; it was restored, and the changed one runs after it."
        restored.repairs.append(sentence)
        placed.append(_Placed(_added(cell, restored, None)))
    elif changed:
        restored.repairs.append(f"The {_words(ours)} had been changed; its source was restored.")
    return placed


def _node(ours: MasterCell, source: str, changed: bool, missing: bool = False) -> NotebookNode:
    marks = {"role": ours.role, "changed": changed} | ({"missing": True} if missing else {})
    metadata = copy.deepcopy(dict(ours.metadata)) | {"autogradlab": marks}
    node = {"cell_type": ours.type, "id": ours.cell_id, "metadata": metadata, "source": source}
    if ours.type == "code":
        node |= {"outputs": [], "execution_count": None}
    return nbformat.from_dict(node)


def _added(cell: NotebookNode, restored: Restored, copy_of: str | None) -> NotebookNode:
    """A cell of the learner's own: no marks, no tags."""
    if tags := _tags(cell) & EXECUTION_TAGS:
        restored.flags.append(f"A cell that was added bears the tag {', '.join(sorted(tags))}; it was removed.")
    grade_id = grade_id_of(cell)
    if grade_id is not None and copy_of is None:
        sentence = f"A cell bears the grade_id {grade_id[:80]!r}, which is not the master's; it is not graded."
        restored.repairs.append(sentence)
    node = {"cell_type": cell.cell_type, "id": cell.id, "source": cell.source}
    node |= {key: cell[key] for key in ("outputs", "execution_count", "attachments") if key in cell}
    return nbformat.from_dict(node | {"metadata": {"autogradlab": {"role": "added", "changed": True}}})


def _compare_marks(cell: NotebookNode, ours: MasterCell, restored: Restored) -> None:
    """Says which of nbgrader's flags were changed; the master's stand in any case."""
    theirs = cell.metadata.get("nbgrader")
    if ours.id is None or not isinstance(theirs, dict) or set(theirs) <= {"grade_id"}:
        return
    marks = ours.metadata["nbgrader"]
    flipped = [flag for flag in FLAGS if bool(theirs.get(flag)) != bool(marks.get(flag))]
    if flipped:
        sentence = f"nbgrader's flags of the {_words(ours)} had been changed ({', '.join(flipped)})"
        restored.repairs.append(f"{sentence}; they were restored.")
        restored.flags.append(f"{sentence}, which no editor does by itself.")
    if ours.is_graded and "points" in theirs and theirs["points"] != ours.points:
        points = theirs["points"]
        shown = f"{points:g}" if isinstance(points, int | float) and abs(points) < MOST_POINTS else "no number"
        restored.repairs.append(f"The points of the {_words(ours)} were {shown}; they are {ours.points:g} again.")


def _compare_tags(cell: NotebookNode, ours: MasterCell, restored: Restored) -> None:
    """Says which tags were added; the master's stand in any case."""
    if added := sorted(_tags(cell) - ours.tags):
        shown = ", ".join(tag[:40] for tag in added[:5])
        sentence = f"The {_words(ours)} had the tag {shown}; it was removed."
        flagged = ours.is_restored or EXECUTION_TAGS & set(added)
        (restored.flags if flagged else restored.repairs).append(sentence)


def _tags(cell: NotebookNode) -> set[str]:
    tags = cell.metadata.get("tags")
    return {tag for tag in tags if isinstance(tag, str)} if isinstance(tags, list) else set()


def _look_at_outputs(cell: NotebookNode, ours: MasterCell, restored: Restored) -> None:
    """Flags a test cell's result that no run can have left: Jupyter gives cell and result the same number."""
    for output in cell.get("handed_in", []) if ours.role == "test" else []:
        if output.get("output_type") == "execute_result" and output.get("execution_count") != output.get("count"):
            restored.flags.append(f"The {_words(ours)} came with a result that no run of it left; it was cleared.")
            return


def _put_back(placed: list[_Placed], master: MasterNotebook, found: Match, restored: Restored) -> None:
    """Adds what is missing of the master's, each after its predecessor."""
    for known, ours in enumerate(master.cells):
        if known in found.pairs or not ours.is_required:
            continue
        before = [spot for spot, one in enumerate(placed) if one.known is not None and one.known < known]
        spot = max(before, key=lambda spot: placed[spot].known) + 1 if before else 0
        # What was added right below the predecessor belongs to it.
        while ours.role == "test" and spot < len(placed) and placed[spot].known is None:
            spot += 1
        source = ours.source if ours.is_restored else ours.released
        placed.insert(spot, _Placed(_node(ours, source, False, missing=ours.role in ("answer", "manual")), known))
        if ours.id in found.unclear:
            restored.flags.append(
                f"Which of several cells is the {_words(ours)} could not be told; it was put back as released. "
                "Look into the notebook that was handed in."
            )
        restored.repairs.append(f"The {_words(ours)} was missing and was put back{_as_what(ours)}.")


def _as_what(ours: MasterCell) -> str:
    return "" if ours.is_restored else " as it was released"


def _reorder(placed: list[_Placed], master: MasterNotebook, restored: Restored) -> None:
    """Moves tests below the answers that they test, and set-up cells above all that relies on them."""
    relying = [place for place, cell in enumerate(master.cells) if cell.role in ("answer", "test")]
    spots = _spots(placed)
    for known, ours in enumerate(master.cells):
        if known not in spots or ours.role not in ("test", "setup"):
            continue
        spot = spots[known]
        if ours.role == "test":
            wanted = max((spots[answer] for answer in _answers_above(known, master)), default=spot)
            is_wrong, where = wanted > spot, "stood above its answer and was moved below it"
        else:
            wanted = min((spots[other] for other in relying if other > known), default=spot)
            is_wrong, where = wanted < spot, "stood below what relies on it and was moved above that"
        if is_wrong:
            placed.insert(wanted, placed.pop(spot))
            spots = _spots(placed)
            restored.repairs.append(f"The {_words(ours)} {where}.")


def _spots(placed: list[_Placed]) -> dict[int, int]:
    """Place in the master -> place in the restored notebook."""
    return {one.known: spot for spot, one in enumerate(placed) if one.known is not None}


def _answers_above(known: int, master: MasterNotebook) -> list[int]:
    """The answers between a test and the test before it, which is how nbgrader's courses are built."""
    answers = []
    for place in range(known - 1, -1, -1):
        if master.cells[place].role == "answer":
            answers.append(place)
        elif master.cells[place].role == "test" and answers:
            break
    return answers


def _say_how(master: MasterNotebook, found: Match, restored: Restored) -> None:
    """One sentence for all cells that had lost their marks."""
    recognised = defaultdict(list)
    for grade_id, known in master.by_id.items():
        if found.how.get(known, "grade_id") != "grade_id":
            recognised[found.how[known]].append(grade_id)
    if recognised:
        ways = "; ".join(f"by {how}: {', '.join(ids)}" for how, ids in recognised.items())
        restored.repairs.append(f"Cells had lost nbgrader's marks and were recognised, {ways}.")


def _say_kernel(handed_in: NotebookNode, master: MasterNotebook, restored: Restored) -> None:
    """Says which kernel was asked for where it is not the master's."""
    ours = master.metadata.get("kernelspec", {}).get("name")
    spec = handed_in.metadata.get("kernelspec")
    theirs = spec.get("name") if isinstance(spec, dict) else None
    if ours is not None and theirs != ours:
        asked = f"asked for the kernel {str(theirs)[:80]}" if theirs is not None else "named no kernel"
        restored.repairs.append(f"The notebook {asked}; it is graded with the master's, {ours}.")


def _words(ours: MasterCell) -> str:
    kind = WORDS.get(ours.role, "cell")
    if ours.id is not None:
        return f"{kind} {ours.id}"
    first = ours.released.strip().split("\n")[0]
    return f"{kind} “{first[:40]}”"


def _name(placed: list[_Placed], master: MasterNotebook) -> None:
    """Gives each cell an id that the format allows, once; the master's keep theirs."""
    used = {cell.cell_id for cell in master.cells}
    number = 0
    for one in placed:
        if one.known is not None:
            continue
        if not isinstance(one.node.id, str) or not _CELL_ID.fullmatch(one.node.id) or one.node.id in used:
            while f"added-{number}" in used:
                number += 1
            one.node.id = f"added-{number}"
        used.add(one.node.id)
