"""The class report of a unit: one page that stands alone, its figures as PNG and its tables as CSV."""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from autogradlab import figures

from autograder import pages, records, statistics
from autograder.folders import Folders
from autograder.graded_cells import UNGRADED
from autograder.records import GradedSubmission

# Column of `statistics.exercises`, words, colour.
BARS = (("right", "right", "green"), ("named", "wrong, named", "orange"), ("unnamed", "wrong, not named", "vermillion"))
BARS += (("untouched", "not attempted", "white"), ("stopped", "stopped", "purple"), ("marked", "marked", "sky blue"))
BARS += (("waiting", "to be marked", "yellow"), ("ungraded", "no verdict", "black"))
HATCHES = (*figures.HATCHES, "--")


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


def report(unit: str, root: Path | None = None, students: Iterable[str] | None = None) -> Path:
    """The page written to `reports/UNIT/index.html` under the grading folder, PNG and CSV files beside it."""
    folders = Folders(root)
    with records.opened(folders) as found:
        submissions = found.submissions(unit, students)
    frame = records.frame_of(submissions)
    directory = folders.reports(unit)
    drawn = draw(frame)
    path = pages.write(directory / "index.html", page(folders.title(unit), submissions, drawn))
    for figure in drawn:
        (directory / f"{figure.name}.png").write_bytes(figure.png)
    for name, table in tables(submissions).items():
        table.to_csv(directory / f"{name}.csv", lineterminator="\n")
    return path


def tables(submissions: list[GradedSubmission]) -> dict[str, pd.DataFrame]:
    """Name -> table of each CSV file: marks, answers, exercises, misconceptions, and remarks on submissions."""
    frame = records.frame_of(submissions)
    marks = frame.pivot(index="student", columns="exercise", values="score")[frame["exercise"].unique()]
    answers = frame[["student", "exercise", "status", "score", "points"]].set_index(["student", "exercise"])
    answers["misconceptions"] = [" ".join(ids) for ids in frame["misconceptions"]]
    counts = statistics.misconceptions(frame)
    names = statistics.misconception_names(frame)
    counts.insert(0, "name", [names[identifier] for identifier in counts.index])
    said = [remark | {"what": pages.plain(remark["what"])} for one in submissions for remark in one.remarks()]
    return {
        "marks": marks.assign(total=marks.sum(axis=1)),
        "answers": answers,
        "exercises": statistics.exercises(frame),
        "misconceptions": counts,
        "remarks": pd.DataFrame(said, columns=["student", "kind", "where", "what"]).set_index("student"),
    }


def page(title: str, submissions: list[GradedSubmission], drawn: list[Figure]) -> str:
    """The page of a class."""
    frame = records.frame_of(submissions)
    counts = statistics.misconceptions(frame)
    exercises = statistics.exercises(frame)
    return pages.render(
        "report.html.j2",
        title=f"Class report: {title}",
        learners={one.student: {row["exercise"]: row for row in one.rows} for one in submissions},
        totals=frame.groupby("student")["score"].sum().to_dict(),
        points=float(exercises["points"].sum()),
        mean=statistics.totals(frame).mean(),
        exercises=exercises,
        counts=counts,
        names=statistics.misconception_names(frame),
        ungraded=[(one, *reason) for one in submissions for reason in _without_grade(one)],
        remarks=[remark for one in submissions for remark in one.remarks()],
        figures=drawn,
    )


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


def _figure(name: str, caption: str, alt: str, figure) -> Figure:
    """The figure as PNG, which carries its alternative text too."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=144, facecolor="white", metadata={"Description": alt, "Software": None})
    return Figure(name, caption, alt, image.getvalue())
