"""One page per learner: what was asked, what their programs did, and a question for each that went wrong."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from autograder import pages
from autograder.folders import Folders
from autograder.records import records

MAX_BYTES = 300_000
# Characters of learner text kept per field: the first that makes a page small enough is used.
LIMITS = (5_000, 1_000, 200, 50)


def feedback(unit: str, root: Path | None = None, students: Iterable[str] | None = None) -> list[Path]:
    """The pages written to `feedback/`, one per learner with a result, where nbgrader would put its own."""
    folders = Folders(root)
    title = folders.title(unit)
    frame = records(unit, root, students)
    return [
        pages.write(folders.step("feedback", student, unit) / f"{unit}.html", page(title, student, rows))
        for student, rows in frame.groupby("student")
    ]


def page(title: str, student: str, rows: pd.DataFrame) -> str:
    """The page of one learner from their rows of `records`; nobody's code or words but their own are in it."""
    exercises = rows.rename(columns={"exercise": "name"}).to_dict("records")
    reasons = [exercise["text"] for exercise in exercises if exercise["status"] in ("unreadable", "skipped", "not graded")]
    content = {
        "title": f"Feedback: {title}",
        "student": student,
        "score": rows["score"].sum(),
        "points": rows["points"].sum(),
        "exercises": exercises,
        "reason": reasons[0] if reasons else "",
    }
    for limit in LIMITS:
        text = pages.render("feedback.html.j2", limit=limit, **content)
        if len(text.encode()) <= MAX_BYTES:
            break
    return text
