"""The instructor's work on a made-up class: build, grade, table, report, feedback, and a check of all of it."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from autograder import classroom, lessons, statistics
from autograder.build import build
from autograder.feedback import feedback
from autograder.folders import Folders
from autograder.grading import grade
from autograder.pages import STATUSES, number, percent
from autograder.records import records
from autograder.report import report

COLOURS = {"right": "green", "partly": "yellow", "wrong": "red", "not attempted": "bright_black"}
MAX_SHOWN = 20


def demo(units: Iterable[str] | None = None, root: Path | None = None, learners: int = classroom.LEARNERS) -> list[str]:
    """A sentence for each answer that was not graded as what had been put in; none if all is well.

    Standard output has the tables and where everything lies; progress goes to standard error.
    """
    folders = Folders(root)
    out, err = Console(soft_wrap=True, highlight=False), Console(stderr=True, highlight=False)
    if not out.is_terminal:
        out.width = 120
    wrong, plans = [], {}
    for unit in units or lessons.units(folders.root / "course"):
        _build(folders, unit, err)
        with err.status(f"Making a class of {learners}"):
            plans[unit] = classroom.make_class(unit, root, learners)
    students = {learner for plan in plans.values() for learner in plan["learners"]}
    # In one go, since the engine takes seconds to start.
    grade(plans, students, root=root)
    for unit, plan in plans.items():
        with err.status("Writing report and feedback"):
            frame = records(unit, root, plan["learners"])
            written = report(unit, root, plan["learners"])
            feedback(unit, root, plan["learners"])
        show(frame, folders.title(unit), out)
        where(folders, unit, written, out)
        wrong += classroom.mistakes(plan, frame)
    if wrong:
        out.print(f"\n{len(wrong)} answers were not graded as what had been put in:", style="bold red")
        for sentence in wrong[:MAX_SHOWN]:
            out.print(f"  {sentence}", markup=False)
        out.print(f"  and {len(wrong) - MAX_SHOWN} more" if len(wrong) > MAX_SHOWN else "")
    else:
        out.print("\nEvery answer was graded as what had been put in, each wrong one by its name.", style="bold")
    return wrong


def note_built(folders: Folders, unit: str) -> None:
    """Keep that the unit is built from what it is made of now."""
    path = _built_path(folders, unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(folders.build_stamp(unit), encoding="utf-8")


def _build(folders: Folders, unit: str, err: Console) -> None:
    """Build the unit, unless nothing that a build reads or makes has changed since the last demo."""
    path = _built_path(folders, unit)
    if path.is_file() and path.read_text(encoding="utf-8") == folders.build_stamp(unit):
        err.print(f"Build: {unit} unchanged since the last run and skipped")
        return
    with err.status(f"Building {unit}"):
        build([unit], folders.root, folders.root / "course")
    note_built(folders, unit)


def _built_path(folders: Folders, unit: str) -> Path:
    return folders.grading / "made_up" / f"{unit}.built"


def show(frame: pd.DataFrame, title: str, out: Console) -> None:
    """Print the class as a table learner x exercise, then what its columns and its misconceptions are."""
    exercises = statistics.exercises(frame)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("learner", no_wrap=True)
    for place in range(1, len(exercises) + 1):
        table.add_column(str(place))
    table.add_column(f"of {number(exercises['points'].sum())}", justify="right", no_wrap=True)
    for student, rows in frame.groupby("student"):
        table.add_row(student, *(_cell(row) for row in rows.itertuples()), number(rows["score"].sum()))
    out.print(table)
    signs = ", ".join(f"{sign} {words}" for sign, words in list(STATUSES.values())[:4])
    out.print(f"{signs}, ? wrong and not named; a number is the points of an answer that is not all right\n")
    key = Table("", "exercise", box=None, title="The columns", title_justify="left")
    for heading in ("points", "facility", "right", "named", "not named"):
        key.add_column(heading, justify="right")
    for place, row in enumerate(exercises.itertuples(), 1):
        counts = (number(row.points), percent(row.facility), *map(str, (row.right, row.named, row.unnamed)))
        key.add_row(str(place), row.Index, *counts)
    out.print(key)
    counts, names = statistics.misconceptions(frame), statistics.misconception_names(frame)
    places = {name: str(place) for place, name in enumerate(exercises.index, 1)}
    found = Table("", "misconception", "answers", "in", box=None, title="\nThe misconceptions", title_justify="left")
    for identifier, row in counts.sort_index().iterrows():
        where_found = ", ".join(places[name] for name in counts.columns if row[name])
        found.add_row(identifier, names[identifier], str(row.sum()), where_found)
    out.print(found)


def where(folders: Folders, unit: str, report_page: Path, out: Console) -> None:
    """Print where everything lies, and how to see what learners see."""
    places = {
        "class report": report_page,
        "figures, CSV": report_page.parent,
        "feedback": folders.step("feedback", "learner-*", unit) / f"{unit}.html",
        "gradebook": folders.grading / "gradebook.db",
        "who did what": classroom.plan_path(folders, unit),
    }
    out.print()
    for name, path in places.items():
        out.print(f"{name:>14}  {path}", markup=False)
    out.print(f"{'JupyterLab':>14}  python3 run.py lab")


def _cell(row) -> str:
    """One answer: a sign, and if it is neither right nor untouched the points and the misconceptions."""
    sign, _ = STATUSES[row.status]
    if row.status in statistics.WRONG:
        points = number(row.score) if row.score else ""
        sign = " ".join(filter(None, (sign, points, " ".join(row.misconceptions) or "?")))
    colour = COLOURS.get(row.status, "red")
    return f"[{colour}]{sign}[/{colour}]"
