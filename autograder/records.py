"""The checks' records, read back from the notebooks that nbgrader graded."""

from collections.abc import Iterable
from pathlib import Path

import nbformat
import pandas as pd

from autograder.execution import checked_exercise, error_of, record_of
from autograder.folders import Folders, GradingError


def records(unit: str, root: Path | None = None, students: Iterable[str] | None = None) -> pd.DataFrame:
    """A row per student and exercise: student, exercise, status, score, points, misconceptions, text, code and record.

    `misconceptions` is a list of IDs and `record` what `check` left, or None. Beside check's own, `status` may be
    `not run` where the check left nothing, and `unreadable` or `failed` for a submission that has no grade; `text` then
    says why.
    """
    folders = Folders(root)
    wanted = None if students is None else set(students)
    master = _exercises(folders.notebook("source", ".", unit))
    rows = [
        row
        for student, result in folders.results(unit).items()
        if result and (wanted is None or student in wanted)
        for row in _rows(folders, unit, student, result, master)
    ]
    if not rows:
        raise GradingError(f"No submission of {unit} has been graded. Try `python3 run.py grade {unit}` first.")
    return pd.DataFrame(rows)


def _rows(folders: Folders, unit: str, student: str, result: dict, master: dict) -> list[dict]:
    """One student's rows, with every exercise of the unit."""
    graded = result["status"] == "graded"
    found = _exercises(folders.notebook("autograded", student, unit)) if graded else {}
    rows = []
    for name, (points, *_) in master.items():
        _, record, code, error = found.get(name, (points, None, "", "The test cell is missing."))
        row = {"student": student, "exercise": name, "points": float(points), "code": code, "record": record}
        if record is None:
            row |= {"status": "not run" if graded else result["status"], "score": 0.0, "misconceptions": []}
            row |= {"text": error if graded else result["reason"]}
        else:
            row |= {"status": record["status"], "score": float(record["score"]), "text": record["text"]}
            row |= {"misconceptions": [misconception["id"] for misconception in record["misconceptions"]]}
        rows.append(row)
    return rows


def _exercises(path: Path) -> dict[str, tuple[float, dict | None, str, str]]:
    """Exercise -> (points, record or None, source of its answer cell, what the check raised), in their order."""
    # nbgrader wrote the notebook and validated it, which takes longer than all else here.
    cells = nbformat.v4.reads(path.read_text(encoding="utf-8")).cells
    answers = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in cells
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.metadata.nbgrader.get("grade_id")
    }
    return {
        name: (cell.metadata.nbgrader.points, record_of(cell), answers.get(name, ""), error_of(cell))
        for cell in cells
        if (name := checked_exercise(cell))
    }
