"""One graded cell as a row of the class: how it came out, why, and what the learner wrote."""

import json
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from autograder.asked import Asked, AskedCell
from autograder.engine.limits import Limits, words
from autograder.execution import record_of
from autograder.marks import Mark, Marks

#: Reasons that are a limit, or the end of the process.
STOPPED = ("timeout", "memory", "disk", "output", "processes", "threads", "files", "died")
#: Other reasons that say more than that there are no points.
NOT_JUDGED = ("not attempted", "missing", "invalid score", "not run")
#: What becomes of a submission, or of one of its notebooks, that has no grade.
UNGRADED = ("unreadable", "skipped", "not graded")


class RanNotebook:
    """A notebook as it was run: answers and verdicts by grade_id."""

    def __init__(self, cells: Iterable[Mapping]):
        self._cells = list(cells)

    @classmethod
    def read(cls, path: Path) -> "RanNotebook":
        """The notebook at a path; without any cell where there is none."""
        # The writer made it and validated it, which takes longer than all else here.
        return cls(json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else ())

    @cached_property
    def _by_id(self) -> dict[str, Mapping]:
        marked = ((cell["metadata"].get("nbgrader", {}).get("grade_id"), cell) for cell in self._cells)
        return {grade_id: cell for grade_id, cell in marked if grade_id is not None}

    def code(self, answers: Iterable[str]) -> str:
        """The sources of these answers, one below the other."""
        sources = (cell["source"] for cell in self._cells_of(answers))
        return "\n\n".join(source if isinstance(source, str) else "".join(source) for source in sources)

    def error(self, answers: Iterable[str]) -> str:
        """What the first of these cells raised when it was run, as `Type: message`; empty if none did."""
        outputs = (output for cell in self._cells_of(answers) for output in cell.get("outputs", ()))
        errors = (output for output in outputs if output["output_type"] == "error")
        return next((f"{error['ename']}: {error['evalue']}" for error in errors), "")

    def _cells_of(self, grade_ids: Iterable[str]) -> list[Mapping]:
        return [self._by_id[name] for name in grade_ids if name in self._by_id]

    def record(self, grade_id: str, cell: dict) -> dict | None:
        """What a verdict left in a cell, if it is the verdict that grading noted."""
        record = record_of(self._by_id[grade_id]) if cell["refereed"] and grade_id in self._by_id else None
        if record is None or record["score"] != cell["score"]:
            return None
        named = [misconception["id"] for misconception in record["misconceptions"]]
        return record if named == cell["misconceptions"] else None


def rows_without_grade(student: str, asked: Asked, result: dict, found: Marks) -> list[dict]:
    """The rows of a submission that the grader could not grade."""
    return [
        _ungraded(student, cell, cell.points, None, result["status"], result["reason"], found) for cell in asked.cells
    ]


def rows_of_notebook(student: str, asked: Asked, notebook: dict, found: Marks, ran: RanNotebook) -> list[dict]:
    """The rows of one notebook from its record, in the assignment's order."""
    name, cells = notebook["notebook"], notebook["cells"]
    known = {cell.id: cell for cell in asked.cells if cell.notebook == name and cell.id in cells}
    # Cells that were graded and that the assignment has no more come last.
    gone = {
        grade_id: AskedCell(name, grade_id, grade_id, cell["needs_manual"], cell["max"], ())
        for grade_id, cell in cells.items()
        if grade_id not in known
    }
    return [
        _graded(student, asked, one, notebook, found, ran)
        if notebook["status"] == "graded"
        else _ungraded(
            student, one, cells[grade_id]["max"], cells[grade_id], notebook["status"], notebook["message"], found
        )
        for grade_id, one in (known | gone).items()
    ]


def _common(student: str, asked: AskedCell, points: float, automatic: float | None, found: Marks) -> dict:
    """What every row has: whose, of what, and what people said about it."""
    mark = _mark(asked, found)
    said = (found.comments.get((asked.notebook, name)) for name in dict.fromkeys((*asked.answers, asked.id)))
    counted = mark.manual if mark.manual is not None else automatic
    return {
        "student": student,
        "notebook": asked.notebook,
        "cell": asked.id,
        "exercise": asked.exercise,
        "by_hand": asked.by_hand,
        "points": float(points),
        "score": math.nan if counted is None else counted + (mark.extra or 0.0),
        "automatic": automatic,
        "manual": mark.manual,
        "extra": mark.extra or 0.0,
        "comments": [comment for comment in said if comment],
    }


def _mark(asked: AskedCell, found: Marks) -> Mark:
    return found.cells.get((asked.notebook, asked.id), Mark(None, None, None))


def _ungraded(
    student, asked: AskedCell, points: float, cell: dict | None, status: str, text: str, found: Marks
) -> dict:
    """A row without a verdict: it earned nothing so far, unless a person gave something."""
    row = _common(student, asked, points, cell["score"] if cell else None, found)
    row["score"] = 0.0 if math.isnan(row["score"]) else row["score"]
    told = {"status": status, "reason": None, "text": text, "limit": "", "note": ""}
    return row | told | {"misconceptions": [], "code": "", "error": "", "record": None}


def _graded(student: str, asked: Asked, one: AskedCell, notebook: dict, found: Marks, ran: RanNotebook) -> dict:
    """A row with a verdict, or with an answer that waits for a person."""
    cell = notebook["cells"][one.id]
    record = ran.record(one.id, cell)
    text = _text(cell, record)
    return _common(student, one, cell["max"], cell["score"], found) | {
        "status": _status(cell, one.by_hand, _mark(one, found)),
        "reason": cell["reason"],
        "text": text if cell["refereed"] else asked.without_tests(text),
        "limit": _limit(cell["reason"], text, notebook["limits"]),
        "note": cell["message"] if cell["second_try"] else "",
        "misconceptions": list(cell["misconceptions"]),
        "code": ran.code(one.answers),
        "error": asked.without_tests(ran.error(one.answers)),
        "record": record,
    }


def _status(cell: dict, by_hand: bool, mark: Mark) -> str:
    """How an answer came out, as `pages.STATUSES` has it."""
    reason, score = cell["reason"], cell["score"]
    if by_hand and mark.manual is not None:
        return "marked"
    if score is None:
        return "to be marked"
    if reason is None:
        return "right"
    if score:
        return "partly"
    # What was recognised says more than the limit that it ran into.
    told = NOT_JUDGED if cell["misconceptions"] else (*NOT_JUDGED, *STOPPED)
    return reason if reason in told else "wrong"


def _text(cell: dict, record: dict | None) -> str:
    """Why it is not all of the points; of a verdict without its heading, which pages tell in their own way."""
    if not cell["refereed"]:
        return "" if cell["second_try"] else cell["message"]
    told = record["text"] if record else cell["message"]
    return "\n\n".join(paragraph for paragraph in told.split("\n\n")[1:] if paragraph != cell["message"])


def _limit(reason: str | None, text: str, limits: dict) -> str:
    """The limit that was hit, as a sentence, unless the text says it already."""
    if reason not in STOPPED or reason == "died" or "limit of" in text:
        return ""
    told = words(reason, Limits(**limits))
    return f"{told[:1].upper()}{told[1:]}."
