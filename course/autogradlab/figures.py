"""Figures in one style that everybody can read, shown by one call.

    from autogradlab import figures

    figure, axes = figures.axes(x="step", y="loss")
    axes.plot(losses, label="with zeroing")
    axes.plot(others, label="without")
    figures.show(figure, alt="With zeroing the loss falls to 0.1; without it swings between 0 and 9.")

The colours are those of Okabe and Ito (2008, "Color Universal Design"), told apart with every common kind of colour
vision; each series has its own line style and marker besides. Nothing here touches pyplot or its backend; matplotlib is
imported by the first figure.
"""

import io
import sys
from dataclasses import dataclass

import numpy

from .output import Picture, Table, as_text
from .output import show as show_output

PALETTE = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "yellow": "#F0E442",  # fills only: a yellow line is invisible on white
}
# The order of series: those with a contrast of 3:1 on white come first.
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (9, 2)), (0, (2, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")

WIDTH, HEIGHT = 6.4, 3.6  # inches; about 614 by 346 pixels in a notebook
MAX_ROWS = 12
MAX_SVG = 300_000  # bytes; above this (tens of thousands of points) a PNG is smaller


def axes(rows: int = 1, columns: int = 1, *, x: str, y: str, title: str = "", size: tuple | None = None):
    """A new figure and its axes, as `plt.subplots` gives them, in the course's style and with labels on the axes.

    x, y:  what the axes show, with the unit
    title: one line above the whole figure
    size:  width and height in inches
    """
    from matplotlib.figure import Figure

    if size is None:
        size = (WIDTH if columns == 1 else 1.25 * WIDTH, HEIGHT * rows)
    with style():
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns)
        for one in numpy.ravel(grid):
            one.set(xlabel=x, ylabel=y)
        if title:
            figure.suptitle(title)
    return figure, grid


def show(figure, alt: str, text=None):
    """Show a matplotlib figure here, with its alternative text and the numbers in it, and close it.

    alt:  a sentence with the figure's point
    text: what to give instead of the table of the plotted lines, points and bars
    """
    show_output(picture(figure, alt, text))


def picture(figure, alt: str, text=None) -> Picture:
    """The figure as a `Picture`, and the figure closed: what `show` shows. Two labelled series or more get a legend."""
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        raise TypeError(f"Expected a matplotlib figure, got {type(figure).__name__}; of axes, try `axes.figure`.")
    with style():
        for one in figure.axes:
            _add_legend(one)
            _keep_ticks_whole(one)
        image, width = _drawn(figure)
        result = Picture(image, alt, _numbers(figure) if text is None else text, width)
    # A figure of pyplot would be shown a second time at the end of the cell.
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return result


def style():
    """A context in which matplotlib draws in the course's style, whatever was set before; for figures of pyplot."""
    import matplotlib.style
    from cycler import cycler

    colours = [PALETTE[name] for name in list(PALETTE)[: len(LINES)]]
    # Markers at equal distances, not at every point, and not at the same places on two lines that lie on each other.
    marked = [(0.03 * number, 0.12) for number in range(len(LINES))]
    cycle = cycler(color=colours, linestyle=LINES, marker=MARKERS, markevery=marked)
    settings = {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.prop_cycle": cycle,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.titlesize": "large",
        "font.size": 10.5,
        "grid.color": "#d9d9d9",
        "image.cmap": "cividis",
        "legend.framealpha": 1.0,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "svg.hashsalt": "autogradlab",
    }
    return matplotlib.style.context(["default", settings])


# --------------------------------------------------------------------------------------------------------- the picture


def _add_legend(one):
    handles, _ = one.get_legend_handles_labels()
    if len(handles) < 2 or one.get_legend() is not None or one.figure.legends:
        return
    if len(handles) <= 4:
        one.legend()
    else:
        # Beside the axes: a long legend covers the lines wherever it lies.
        one.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _keep_ticks_whole(one):
    """No tick at "step 1.25" where every series stands at whole numbers."""
    from matplotlib.ticker import AutoLocator

    positions = [series.positions for series in _series(one) if series.position == (one.get_xlabel() or "x")]
    if not positions or not isinstance(one.xaxis.get_major_locator(), AutoLocator):
        return
    if all(at.dtype.kind in "iuf" and (at == numpy.round(at)).all() for at in positions):
        one.xaxis.get_major_locator().set_params(integer=True)


def _drawn(figure):
    """The bytes of the figure, the same for the same figure, and the width to show a PNG with."""
    background = figure.get_facecolor()
    common = {
        "facecolor": background if background[3] == 1 else "white",
        "bbox_inches": "tight" if figure.get_layout_engine() is None else None,
    }
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None}, **common)
    if len(svg.getvalue()) <= MAX_SVG:
        return svg.getvalue(), None
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=192, **common)
    # Twice the pixels for sharp screens, hence half the width.
    return png.getvalue(), int.from_bytes(png.getvalue()[16:20]) // 2


# --------------------------------------------------------------------------------------------------------- its numbers


@dataclass
class _Series:
    """One line, set of points or set of bars: values at positions, with what their columns are called."""

    position: str
    value: str
    positions: numpy.ndarray
    values: numpy.ndarray


def _numbers(figure):
    """What is plotted: a table for all series at the same positions, a sentence per reference line or image."""
    parts = []
    for one in figure.axes:
        for group in _groups(_series(one)):
            parts.append(_table(one.get_title() or None, group))
        for line in one.lines:
            along_x, along_y = _in_data_units(one, line)
            if along_x != along_y and not line.get_label().startswith("_"):
                at = f"x = {as_text(line.get_xdata()[0])}" if along_x else f"y = {as_text(line.get_ydata()[0])}"
                parts.append(f"{line.get_label()}: {at}")
        for image in one.images:
            values = image.get_array()
            size = " by ".join(map(str, values.shape))
            name = one.get_title() or "An image"
            parts.append(f"{name}: {size} values from {as_text(values.min())} to {as_text(values.max())}")
    return parts


def _in_data_units(one, line):
    """Whether x and y of a line are data: those of `axhline` and `axvline` are so in one direction only."""
    return line.get_transform().contains_branch_seperately(one.transData)


def _series(one):
    """Everything in these axes that has positions and values."""
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer, ErrorbarContainer

    x, y = one.get_xlabel() or "x", one.get_ylabel() or "y"
    # The line of an error bar is unnamed; its container has the label.
    labels = {group.lines[0]: group.get_label() for group in one.containers if isinstance(group, ErrorbarContainer)}
    found = []
    for line in one.lines:
        if all(_in_data_units(one, line)):
            at = _named(one.xaxis, line.get_xdata(), reach=0)
            found.append((labels.get(line, line.get_label()), x, y, at, line.get_ydata()))
    for points in one.collections:
        if isinstance(points, PathCollection):
            at, values = numpy.ma.filled(points.get_offsets(), numpy.nan).T
            found.append((points.get_label(), x, y, _named(one.xaxis, at, reach=0), values))
    for bars in one.containers:
        if isinstance(bars, BarContainer) and bars.orientation == "vertical":
            at = [bar.get_x() + bar.get_width() / 2 for bar in bars]
            found.append((bars.get_label(), x, y, _named(one.xaxis, at, reach=0.5), bars.datavalues))
        elif isinstance(bars, BarContainer):
            at = [bar.get_y() + bar.get_height() / 2 for bar in bars]
            found.append((bars.get_label(), y, x, _named(one.yaxis, at, reach=0.5), bars.datavalues))
    series = []
    for number, (label, position, value, positions, values) in enumerate(found, 1):
        if label.startswith("_"):
            label = value if len(found) == 1 else f"series {number}"
        series.append(_Series(position, label, numpy.asarray(positions), numpy.asarray(values)))
    return series


def _named(axis, positions, reach):
    """The names of the ticks at these positions where each has one within reach, else the positions."""
    from matplotlib.ticker import LogFormatter, ScalarFormatter

    positions = numpy.asarray(positions)
    if isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter) or positions.dtype.kind not in "iuf":
        return positions
    ticks = numpy.asarray(axis.get_ticklocs(), dtype=float)
    names = [label.get_text() for label in axis.get_ticklabels()]
    distances = numpy.abs(positions[:, None] - ticks)
    if not len(ticks) or (distances.min(axis=1) > reach).any():
        return positions
    return numpy.array([names[nearest] for nearest in distances.argmin(axis=1)])


def _groups(series):
    """The series in groups that have the same positions."""
    groups = []
    for one in series:
        for group in groups:
            if numpy.array_equal(one.positions, group[0].positions):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _table(title, group):
    first = group[0]
    count = len(first.positions)
    kept = _thinned(count, [one.values for one in group])
    notes = [] if title is None else [title]
    if len(kept) < count:
        notes.append(f"{len(kept)} of {count} points, extremes included")
    rows = [[first.positions[row], *(one.values[row] for one in group)] for row in kept]
    return Table([first.position, *(one.value for one in group)], rows, "; ".join(notes) or None)


def _thinned(count, columns):
    """About `MAX_ROWS` row numbers: the ends, the extremes of each column, and rows at equal distances between."""
    if count <= MAX_ROWS:
        return range(count)
    kept = {0, count - 1}
    for values in columns:
        finite = numpy.flatnonzero(numpy.isfinite(values))
        if len(finite):
            kept |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
    for row in numpy.linspace(0, count - 1, max(MAX_ROWS - len(kept), 0) + 2)[1:-1]:
        kept.add(int(row))
    return sorted(kept)
