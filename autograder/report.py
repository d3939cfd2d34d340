"""The class report of a unit: one page that stands alone, its figures as PNG and its tables as CSV."""

import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from autograder import comparison, pages, records, statistics
from autograder.asked import Asked
from autograder.comparison import Summary
from autograder.folders import Folders
from autograder.graded_cells import UNGRADED
from autograder.records import GradedSubmission
from autograder.report_figures import Figure, draw, draw_change
from autograder.spreadsheets import inert
from autograder.timing import times
from autograder.unrecognised import Group, groups

# An exercise whose item-rest correlation is below this tells hardly who can do the rest.
WEAK = 0.1
# The page shows so many groups of unrecognised answers of one exercise, and so much of each text; CSV has all.
GROUPS, TEXT = 5, 600
# Of one learner's remarks of one kind the page shows so many.
REMARKS = 2


def report(
    unit: str, root: Path | None = None, students: Iterable[str] | None = None, against: Path | None = None
) -> Path:
    """The page written to `reports/UNIT/index.html` under the grading folder, PNG and CSV files beside it.

    `class.json` there is what a later report can be compared with: `against` is such a file, its folder, or another
    course's folder.
    """
    folders = Folders(root)
    with records.opened(folders) as found:
        submissions = found.submissions(unit, students)
    frame = records.frame_of(submissions)
    now = comparison.summary(unit, frame)
    # Before anything is written: it may be what stands here.
    before = None if against is None else comparison.loaded(against, unit)
    timed = times(folders, unit, Asked.of(folders, unit).cells, [one.student for one in submissions])
    directory = folders.reports(unit)
    drawn = draw(frame)
    if before is not None:
        drawn.append(draw_change(now, before))
    written = page(folders.title(unit), submissions, drawn, timed, now, before)
    path = pages.write(directory / "index.html", written)
    for figure in drawn:
        (directory / f"{figure.name}.png").write_bytes(figure.png)
    for name, table in tables(submissions, timed, now, before).items():
        table.map(inert).rename(index=inert).to_csv(directory / f"{name}.csv", lineterminator="\n")
    pages.write(directory / comparison.FILE, now.dumps())
    return path


def tables(
    submissions: list[GradedSubmission],
    timed: pd.DataFrame | None = None,
    now: Summary | None = None,
    before: Summary | None = None,
) -> dict[str, pd.DataFrame]:
    """Name -> table of each CSV file.

    marks, answers, exercises, misconceptions, those not recognised, and remarks on submissions; with a class to compare
    with, the changes of exercises and of misconceptions.
    """
    frame = records.frame_of(submissions)
    marks = frame.pivot(index="student", columns="exercise", values="score")[frame["exercise"].unique()]
    answers = frame[["student", "exercise", "status", "score", "points"]].set_index(["student", "exercise"])
    answers["misconceptions"] = [" ".join(ids) for ids in frame["misconceptions"]]
    counts = statistics.misconceptions(frame)
    names = statistics.misconception_names(frame)
    held = statistics.holders(frame)
    counts.insert(0, "name", [names[identifier] for identifier in counts.index])
    for place, column in enumerate(("learners", "begun"), 1):
        counts.insert(place, column, held[column])
    said = [remark | {"what": pages.plain(remark["what"])} for one in submissions for remark in one.remarks()]
    found = {
        "marks": marks.assign(total=marks.sum(axis=1)),
        "answers": answers,
        "exercises": _exercises(frame, timed),
        "misconceptions": counts,
        "not_recognised": _not_recognised(submissions),
        "remarks": pd.DataFrame(said, columns=["student", "kind", "where", "what"]).set_index("student"),
    }
    if now is not None and before is not None:
        found["change_of_exercises"] = comparison.exercises(now, before)
        found["change_of_misconceptions"] = comparison.misconceptions(now, before)
    return found


def _exercises(frame: pd.DataFrame, timed: pd.DataFrame | None) -> pd.DataFrame:
    """`statistics.exercises` with discrimination, and with learners' times where some are known."""
    found = statistics.exercises(frame)
    found.insert(2, "discrimination", statistics.discrimination(frame))
    return found if timed is None or not timed["timed"].any() else found.join(timed)


def _not_recognised(submissions: list[GradedSubmission]) -> pd.DataFrame:
    columns = ("exercise", "answers", "missed", "call", "yours", "expected", "told", "learners")
    rows = []
    for one in _groups(submissions):
        texts = (one.call, one.yours, one.expected, one.told, " ".join(one.learners))
        rows.append((one.exercise, len(one.answers), "; ".join(one.missed), *map(pages.plain, texts)))
    return pd.DataFrame(rows, columns=columns).set_index("exercise")


def _groups(submissions: list[GradedSubmission]) -> list[Group]:
    return groups(row for one in submissions for row in one.rows)


def page(
    title: str,
    submissions: list[GradedSubmission],
    drawn: list[Figure],
    timed: pd.DataFrame | None = None,
    now: Summary | None = None,
    before: Summary | None = None,
) -> str:
    """The page of a class."""
    frame = records.frame_of(submissions)
    counts = statistics.misconceptions(frame)
    exercises = _exercises(frame, timed)
    held = statistics.holders(frame)
    compared = now is not None and before is not None
    changes = comparison.exercises(now, before) if compared else None
    return pages.render(
        "report.html.j2",
        title=f"Class report: {title}",
        learners={one.student: {row["exercise"]: row for row in one.rows} for one in submissions},
        totals=frame.groupby("student")["score"].sum().to_dict(),
        points=float(exercises["points"].sum()),
        mean=statistics.totals(frame).mean(),
        exercises=exercises,
        weak=list(exercises.index[exercises["discrimination"] < WEAK]),
        counts=counts,
        held=held,
        shared=held[(held["share"] >= statistics.SHARED) & (held["learners"] > 1)],
        shared_from=statistics.SHARED,
        names=statistics.misconception_names(frame),
        groups=_shown_groups(submissions),
        # Wrong answers of which nothing tells what they did.
        untold=int(exercises["unnamed"].sum()) - sum(len(one.answers) for one in _groups(submissions)),
        shown=GROUPS,
        text=TEXT,
        ungraded=[(one, *reason) for one in submissions for reason in _without_grade(one)],
        remarks=_shown_remarks(submissions),
        figures=drawn,
        before=before if compared else None,
        before_mean=math.nan if before is None or before.mean is None else before.mean,
        signed=_signed,
        in_points=_in_points,
        changes=changes,
        differing=list(comparison.differing(changes)) if compared else [],
        moved=comparison.misconceptions(now, before) if compared else None,
    )


def _signed(correlation: float) -> str:
    """A correlation as people write it; of nothing a dash."""
    return "-" if math.isnan(correlation) else f"{correlation:.2f}"


def _in_points(change: float) -> str:
    """A change of a share, in percentage points."""
    return "-" if math.isnan(change) else f"{100 * change:+.0f}"


def _shown_groups(submissions: list[GradedSubmission]) -> dict[str, tuple[list[Group], int]]:
    """Exercise -> the groups of its unrecognised answers that the page shows, and how many there are in all."""
    found: dict[str, list[Group]] = {}
    for group in _groups(submissions):
        found.setdefault(group.exercise, []).append(group)
    return {exercise: (own[:GROUPS], len(own)) for exercise, own in found.items()}


def _shown_remarks(submissions: list[GradedSubmission]) -> list[dict]:
    """The first remarks of each kind on each submission, and how many more there are."""
    shown = []
    for one in submissions:
        kinds: dict[str, list[dict]] = {}
        for remark in one.remarks():
            kinds.setdefault(remark["kind"], []).append(remark)
        for own in kinds.values():
            shown += own[:REMARKS]
            if len(own) > REMARKS:
                shown.append(own[0] | {"where": "", "what": f"{len(own) - REMARKS} more are in remarks.csv."})
    return shown


def _without_grade(submission: GradedSubmission) -> list[tuple[str, str]]:
    """(status, reason) of what has no grade: of each such notebook, or of the submission as a whole."""
    if not submission.notebooks:
        return [(submission.status, submission.reason)]
    return [(one["status"], one["message"]) for one in submission.notebooks if one["status"] in UNGRADED]
