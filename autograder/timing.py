"""How long learners were at each exercise, where their notebooks tell."""

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from autograder.asked import AskedCell
from autograder.folders import Folders

#: Longer than this without running a cell is a pause.
PAUSE = datetime.timedelta(minutes=30)
#: When JupyterLab notes the end of a cell's run, if it is set to note times (`recordTiming`).
NOTED = ("shell.execute_reply", "iopub.status.idle", "iopub.execute_input")


def times(folders: Folders, assignment: str, cells: Iterable[AskedCell], students: Iterable[str]) -> pd.DataFrame:
    """By exercise, the median of learners' minutes and how many learners' notebooks tell: `minutes` and `timed`.

    An editor that notes times keeps each cell's last run. Counted is from the last run of whatever else was run
    before to that of the exercise's own test; what is longer than PAUSE tells nothing, and is left out.
    """
    known = {cell.exercise: [] for cell in cells}
    for student in students:
        folder = folders.step("submitted", student, assignment)
        for exercise, span in _spans(folder, list(cells)):
            known[exercise].append(span.total_seconds() / 60)
    return pd.DataFrame(
        {
            exercise: {"minutes": pd.Series(spans, dtype=float).median(), "timed": len(spans)}
            for exercise, spans in known.items()
        },
        index=["minutes", "timed"],
    ).T


def _spans(folder: Path, cells: list[AskedCell]) -> Iterator[tuple[str, datetime.timedelta]]:
    for notebook in {cell.notebook for cell in cells}:
        runs = _runs(folder / f"{notebook}.ipynb")
        for cell in cells:
            if cell.notebook != notebook or cell.id not in runs.values():
                continue
            end = max(time for time, name in runs.items() if name == cell.id)
            before = [time for time, name in runs.items() if time < end and name not in (*cell.answers, cell.id)]
            if before and end - max(before) <= PAUSE:
                yield cell.exercise, end - max(before)


def _runs(path: Path) -> dict[datetime.datetime, str]:
    """When a cell was last run -> its grade_id, or what else names it; empty where nobody noted it."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        noted = [(cell["metadata"].get("execution", {}), cell) for cell in cells if cell["cell_type"] == "code"]
        found = {}
        for place, (times, cell) in enumerate(noted):
            name = cell["metadata"].get("nbgrader", {}).get("grade_id") or f"cell {place}"
            text = next((times[key] for key in NOTED if key in times), None)
            if text is not None:
                found[_utc(text)] = name
        return found
    # A notebook that had to be repaired: grading says so, and what it says of times is nothing to go by.
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _utc(text: str) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
