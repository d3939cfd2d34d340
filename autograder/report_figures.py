"""The figures of a class report, each with the text for who cannot see it."""

import base64
import io
from dataclasses import dataclass

import pandas as pd
from autogradlab import figures

from autograder import comparison, pages, statistics
from autograder.comparison import Summary

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
