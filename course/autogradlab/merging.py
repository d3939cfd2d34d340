"""A learner's notebook brought up to a new release: what the course wrote follows, what the learner wrote stays.

Three notebooks are looked at, as the plain data of their files: the release that the copy was made from, the copy, and
the new release. The new release gives the cells and their order. Wherever the learner wrote something, that stays;
where the course changed the same cell, its new text stands in the cell and the learner's below it, in a cell that says
so. Answers are the exception: the learner's stays in its cell.
"""

import copy
import hashlib
import re
from dataclasses import dataclass, field

# What the course decides about a cell, whatever a copy says.
COURSE_METADATA = ("nbgrader", "tags", "deletable", "editable")
COURSE_LOCKS = ("nbgrader", "deletable", "editable")
KEPT = "kept-from-your-copy"


class NotMergeable(Exception):
    """The file is no notebook of a format that can be merged; the message says what it is."""


@dataclass
class Merged:
    """The merged notebook, and what a learner should know about it."""

    notebook: dict
    answers: list = field(default_factory=list)  # names of exercises whose answer stays though the stub has changed
    kept: int = 0  # texts of the learner's that now stand in a cell of their own


def merge(before: dict, yours: dict, new: dict) -> Merged:
    """The new release with everything that the learner wrote since `before`, the release that `yours` began as.

    Where `before` is not known, give a notebook without cells: what differs from the new release then counts as the
    learner's. None of the three is changed. Raises NotMergeable for what is no notebook of format 4.
    """
    for notebook in (before, yours, new):
        _check_format(notebook)
    return _Merge(before["cells"], yours, new).merged()


def empty_notebook() -> dict:
    """A notebook without cells, for a copy of which nobody knows what it began as."""
    return {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def source_of(cell: dict) -> str:
    """A cell's text, which the file format may hold in lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def grade_id(cell: dict) -> str | None:
    """The name that nbgrader knows the cell by."""
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def is_answer(cell: dict) -> bool:
    """Whether the cell is where a learner answers: an exercise's answer, or the commitment to a prediction."""
    settings = cell["metadata"].get("nbgrader")
    if settings:
        return bool(settings.get("solution") or settings.get("task"))
    return "prediction" in cell["metadata"].get("tags", ())


def is_locked(cell: dict) -> bool:
    """Whether the cell is the course's alone."""
    settings = cell["metadata"].get("nbgrader")
    return bool(settings) and not is_answer(cell)


def _check_format(notebook) -> None:
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4 or not isinstance(notebook.get("cells"), list):
        raise NotMergeable("it is no notebook of format 4")
    for number, cell in enumerate(notebook["cells"], 1):
        if not _is_sound(cell):
            raise NotMergeable(f"its cell {number} is damaged")


def _is_sound(cell) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    metadata, source = cell.get("metadata"), cell.get("source")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("nbgrader", {}), dict):
        return False
    if not isinstance(metadata.get("tags", []), list):
        return False
    return isinstance(source, str) or isinstance(source, list) and all(isinstance(line, str) for line in source)


class _Merge:
    def __init__(self, before: list, yours: dict, new: dict):
        self.yours, self.new = yours, new
        self.before = _by_key(before)
        self.wanted = _by_key(new["cells"])
        self.ids = {cell.get("id") for cell in new["cells"]}
        self.result = Merged({})
        self.mine = self._matched(yours["cells"])

    def _matched(self, cells: list) -> list:
        """Each of the learner's cells with the key of the course's cell that it is, or None for the learner's own."""
        known = self.before | self.wanted
        # Where a cell was copied, the one with the id keeps its place in the course, else the one that stands first.
        keys = {}
        for number, cell in enumerate(cells):
            for key in _keys(cell):
                if key in known and (key not in keys or cell.get("id") == known[key].get("id")):
                    keys[key] = number
                    break
        found = {number: key for key, number in keys.items()}
        # Some editors drop the ids of cells; what has the text of a cell that is missing is that cell.
        missing = {}
        for key, cell in [*self.before.items(), *self.wanted.items()]:
            if key not in keys:
                missing.setdefault(_text(cell), key)
        for number, cell in enumerate(cells):
            if number not in found and missing.get(_text(cell)) not in {None, *found.values()}:
                found[number] = missing[_text(cell)]
        return [(found.get(number), cell) for number, cell in enumerate(cells)]

    def merged(self) -> Merged:
        following = self._following()
        cells = list(following.pop(None, ()))
        mine = {key: cell for key, cell in self.mine if key is not None}
        for key, new in self.wanted.items():
            cells += self._cell(new, mine.get(key), self.before.get(key))
            cells += following.get(key, ())
        notebook = {**self.yours, "cells": cells, "nbformat_minor": self.new["nbformat_minor"]}
        notebook["metadata"] = {**self.new["metadata"], **self.yours["metadata"]}
        self.result.notebook = copy.deepcopy(notebook)
        return self.result

    def _following(self) -> dict:
        """What the learner wrote that has no cell in the new release, by the key of the cell that it stands below."""
        following, anchor = {}, None
        for key, cell in self.mine:
            if key in self.wanted:
                anchor = key
            elif key is None:
                following.setdefault(anchor, []).append(self._own(cell))
            elif _text(cell) != _text(self.before[key]):
                gone = self._own(cell) if is_answer(self.before[key]) else self._kept(cell)
                following.setdefault(anchor, []).append(gone)
        return following

    def _cell(self, new: dict, mine: dict | None, before: dict | None) -> list:
        """The cells that stand in the place of a cell of the new release: itself, and what must not be lost."""
        if mine is None:
            return [new]
        if _text(mine) == _text(new):
            return [_as_run(new, mine)]
        if before is not None and _text(mine) == _text(before):
            return [new]
        if is_answer(new) and mine["cell_type"] == new["cell_type"]:
            if before is not None and _text(before) != _text(new):
                self.result.answers.append(grade_id(new) or _prediction(new))
            return [_as_run(new, mine)]
        untouched = before is not None and _text(before) == _text(new)
        if untouched and not is_locked(new) and mine["cell_type"] == new["cell_type"]:
            return [_as_run(new, mine)]
        return [new, self._kept(mine)]

    def _kept(self, cell: dict) -> dict:
        """A text cell that shows what the learner had written in a cell of the course's."""
        self.result.kept += 1
        source = source_of(cell)
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
        language = "python" if cell["cell_type"] == "code" else ""
        words = "**Kept from your copy.** An update changed this place of the course. What you had written here:"
        kept = {"cell_type": "markdown", "metadata": {"tags": [KEPT]}}
        kept["source"] = f"{words}\n\n{fence}{language}\n{source}\n{fence}"
        return self._own(kept | {name: cell[name] for name in ("attachments",) if name in cell})

    def _own(self, cell: dict) -> dict:
        """A cell of the learner's, which is none of the course's, whatever it was copied from."""
        metadata = {name: value for name, value in cell["metadata"].items() if name not in COURSE_LOCKS}
        own, copies = cell.get("id"), 0
        while own is None or own in self.ids:
            own = hashlib.sha256(f"{copies} {source_of(cell)}".encode(errors="surrogatepass")).hexdigest()[:8]
            copies += 1
        self.ids.add(own)
        return {**cell, "id": own, "metadata": metadata}


def _text(cell: dict) -> tuple:
    return cell["cell_type"], source_of(cell)


def _prediction(cell: dict) -> str | None:
    """The name of the prediction that a cell commits to."""
    found = re.search(r"\bcommit\(\s*[\"'](\w+)[\"']", source_of(cell))
    return found and found[1]


def _keys(cell: dict) -> list:
    """What a cell is known by in every release, the surest first: a name, or the id that it has by its text."""
    keys = [("id", cell["id"])] if "id" in cell else []
    if grade_id(cell) is not None:
        return [("grade", grade_id(cell)), *keys]
    if is_answer(cell) and _prediction(cell):
        return [("prediction", _prediction(cell)), *keys]
    return keys


def _by_key(cells: list) -> dict:
    """The cells of a release by what each is known by, in their order."""
    found = {}
    for number, cell in enumerate(cells):
        key = next((key for key in _keys(cell) if key not in found), ("place", number))
        found[key] = cell
    return found


def _as_run(new: dict, mine: dict) -> dict:
    """The course's cell with the learner's text, its outputs and how it is shown."""
    shown = {name: value for name, value in mine["metadata"].items() if name not in COURSE_METADATA}
    rest = {name: mine[name] for name in ("source", "outputs", "execution_count", "attachments") if name in mine}
    return {**new, **rest, "metadata": {**shown, **new["metadata"]}}
