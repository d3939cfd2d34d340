"""The class report of a unit: one page that stands alone, its figures as PNG and its tables as CSV."""

import base64
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from autogradlab import figures

from autograder import comparison, pages, records, statistics
from autograder.asked import Asked
from autograder.comparison import Summary
from autograder.folders import Folders
from autograder.graded_cells import UNGRADED
from autograder.records import GradedSubmission
from autograder.spreadsheets import inert
from autograder.timing import times
from autograder.unrecognised import Group, groups

# Column of `statistics.exercises`, words, colour.
BARS = (("right", "right", "green"), ("named", "wrong, named", "orange"), ("unnamed", "wrong, not named", "vermillion"))
BARS += (("untouched", "not attempted", "white"), ("stopped", "stopped", "purple"), ("marked", "marked", "sky blue"))
BARS += (("waiting", "to be marked", "yellow"), ("ungraded", "no verdict", "black"))
HATCHES = (*figures.HATCHES, "--")
# An exercise whose item-rest correlation is below this tells hardly who can do the rest.
WEAK = 0.1
# The page shows so many groups of unrecognised answers of one exercise, and so much of each text; CSV has all.
GROUPS, TEXT = 5, 600


@dataclass(frozen=True)
class Figure:
    """A figure of the report: file name, what it is about, the text for who cannot see it, and the PNG."""

    name: str
    caption: str
    alt: str
    png: bytes

    @property
    def source(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


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
        shown=GROUPS,
        text=TEXT,
        ungraded=[(one, *reason) for one in submissions for reason in _without_grade(one)],
        remarks=[remark for one in submissions for remark in one.remarks()],
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


def _without_grade(submission: GradedSubmission) -> list[tuple[str, str]]:
    """(status, reason) of what has no grade: of each such notebook, or of the submission as a whole."""
    if not submission.notebooks:
        return [(submission.status, submission.reason)]
    return [(one["status"], one["message"]) for one in submission.notebooks if one["status"] in UNGRADED]


def draw(frame: pd.DataFrame) -> list[Figure]:
    """The report's figures: how the exercises came out, the score distribution, and the map of misconceptions."""
    drawn = [_outcomes(frame), _scores(frame)]
    if len(statistics.misconceptions(frame)):
        drawn.append(_map(frame))
    return drawn


def _outcomes(frame: pd.DataFrame) -> Figure:
    """Bars of how many answers to each exercise came out how, with the facility at their ends."""
    exercises = statistics.exercises(frame)[::-1]
    size = (9.0, 1.7 + 0.42 * len(exercises))
    figure, axes = figures.axes(x="learners", y="", title="How the exercises came out", size=size)
    left = pd.Series(0, index=exercises.index)
    with figures.style():
        for (column, label, colour), hatch in zip(BARS, HATCHES):
            if exercises[column].any():
                fill = figures.PALETTE.get(colour, colour)
                axes.barh(
                    exercises.index, exercises[column], left=left, label=label, color=fill, hatch=hatch, ec="black"
                )
            left += exercises[column]
        for row, facility in enumerate(exercises["facility"]):
            axes.annotate(
                pages.percent(facility), (left.iloc[row], row), (6, 0), textcoords="offset points", va="center"
            )
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, left.max() * 1.08)
        figure.legend(loc="outside lower center", ncols=4)
    listed = ", ".join(f"{name} {pages.percent(share)}" for name, share in exercises["facility"][::-1].items())
    alt = f"Stacked bars, one per exercise. Mean share of the points: {listed}."
    return _figure("exercises", "How many answers came out how; at the end of each bar, the facility.", alt, figure)


def _scores(frame: pd.DataFrame) -> Figure:
    """A histogram of the learners' totals in ten steps."""
    totals = statistics.totals(frame)
    steps = (totals * 10).astype(int).clip(upper=9)
    counts = steps.value_counts().reindex(range(10), fill_value=0)
    figure, axes = figures.axes(
        x="share of the unit's points (%)", y="learners", title="Score distribution", size=(9.0, 3.4)
    )
    with figures.style():
        axes.bar(
            [10 * step + 5 for step in counts.index], counts, width=10, color=figures.PALETTE["sky blue"], ec="black"
        )
        axes.axvline(100 * totals.mean(), color=figures.PALETTE["black"], label=f"mean {pages.percent(totals.mean())}")
        axes.set(xlim=(0, 100), xticks=range(0, 101, 10))
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.legend()
    listed = ", ".join(f"{10 * step} to {10 * step + 10} %: {count}" for step, count in counts.items() if count)
    alt = f"Histogram of {len(totals)} totals, mean {pages.percent(totals.mean())}. Learners by share: {listed}."
    return _figure("scores", "How many learners reached which share of the points.", alt, figure)


def _map(frame: pd.DataFrame) -> Figure:
    """Misconceptions by exercises, with the number of answers in each field."""
    counts = statistics.misconceptions(frame)
    names = statistics.misconception_names(frame)
    size = (9.0, 2.2 + 0.28 * len(counts))
    figure, axes = figures.axes(x="", y="", title="Misconceptions by exercise", size=size)
    with figures.style():
        axes.imshow(counts, cmap="Blues", aspect="auto", vmin=0, vmax=counts.to_numpy().max() * 1.4)
        axes.set_xticks(range(len(counts.columns)), counts.columns, rotation=30, ha="right")
        axes.set_yticks(range(len(counts)), [f"{identifier} {names[identifier]}" for identifier in counts.index])
        axes.grid(visible=False)
        for row, column in zip(*counts.to_numpy().nonzero(), strict=True):
            axes.text(column, row, counts.iat[row, column], ha="center", va="center")
    most = counts.index[0]
    alt = (
        f"Map of {len(counts)} misconceptions by {len(counts.columns)} exercises. Most frequent: {most} {names[most]}, "
        f"in {counts.loc[most].sum()} answers. The table below has all the numbers."
    )
    return _figure("misconceptions", "How many answers to each exercise showed which misconception.", alt, figure)


def draw_change(now: Summary, before: Summary) -> Figure:
    """How each exercise's facility changed: then an open mark, now a full one, and the line between them."""
    table = comparison.exercises(now, before)[::-1]
    size = (9.0, 1.9 + 0.36 * len(table))
    figure, axes = figures.axes(x="facility (%)", y="", title="Then and now", size=size)
    with figures.style():
        rows = range(len(table))
        axes.hlines(rows, 100 * table["before"], 100 * table["now"], color=figures.PALETTE["black"], linewidth=1.2)
        # Every value has its mark: the style thins out those of long lines.
        marks = {"linestyle": "", "markevery": 1}
        axes.plot(100 * table["before"], rows, **marks, marker="o", mfc="white", mec="black", ms=8, label="then")
        axes.plot(100 * table["now"], rows, **marks, marker="D", color=figures.PALETTE["blue"], ms=7, label="now")
        axes.set_yticks(rows, table.index)
        axes.set(xlim=(-3, 103), xticks=range(0, 101, 20))
        figure.legend(loc="outside lower center", ncols=2)
    listed = ", ".join(
        f"{name} {pages.percent(row['before'])} then and {pages.percent(row['now'])} now"
        for name, row in table[::-1].iterrows()
    )
    alt = f"Facility of {len(table)} exercises in two classes: {listed}."
    return _figure("change", "The facility of each exercise, then and now.", alt, figure)


def _figure(name: str, caption: str, alt: str, figure) -> Figure:
    """The figure as PNG, which carries its alternative text too."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=144, facecolor="white", metadata={"Description": alt, "Software": None})
    return Figure(name, caption, alt, image.getvalue())
