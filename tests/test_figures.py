import doctest
import hashlib
import itertools
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy
import pytest
from autogradlab import figures
from matplotlib.figure import Figure

ALT = "The loss falls from 5 to 0."
DOCS = Path(__file__).parents[1] / "docs"
# Machado, Oliveira and Fernandes (2009), severity 1: what somebody without one kind of cone sees, in linear RGB.
VISION = {
    "trichromat": numpy.eye(3),
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    values = numpy.array(matplotlib.colors.to_rgb(colour))
    return numpy.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = numpy.array(to_xyz) @ numpy.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = numpy.where(xyz > 0.008856, numpy.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return numpy.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def smallest_distance(colours, vision):
    seen = [lab(numpy.array(VISION[vision]) @ linear(colour)) for colour in colours]
    return min(numpy.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2))


def drawn(lines=2, points=50):
    figure, axes = figures.axes(x="step", y="loss")
    for number in range(lines):
        axes.plot(numpy.arange(points), 5 * numpy.exp(-numpy.arange(points) / (5 + number)), label=f"run {number}")
    return figure, axes


@pytest.mark.parametrize("vision", VISION)
def test_series_colours_are_told_apart_with_every_kind_of_colour_vision(vision):
    assert smallest_distance(list(figures.PALETTE.values())[:7], vision) > 10


def test_the_measure_of_colours_rejects_matplotlibs_own_order():
    tab10 = matplotlib.colormaps["tab10"].colors[:7]
    assert min(smallest_distance(tab10, vision) for vision in VISION) < 10


def test_the_first_five_colours_have_a_contrast_of_three_on_white():
    for colour in list(figures.PALETTE.values())[:5]:
        assert 1.05 / (linear(colour) @ [0.2126, 0.7152, 0.0722] + 0.05) >= 3, colour


def test_every_series_differs_in_colour_and_in_line_style_and_in_marker():
    _, axes = drawn(lines=7)
    for of in ["get_color", "get_marker", "get_markevery"]:
        assert len({str(getattr(line, of)()) for line in axes.lines}) == 7, of
    # A dash pattern has no getter: `get_linestyle` calls all of them "--".
    assert len({str(line._unscaled_dash_pattern) for line in axes.lines}) == 7


def test_a_figure_is_shown_with_its_sentence_and_its_numbers(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    figure, axes = figures.axes(x="step", y="loss")
    axes.plot([0, 1], [5.0, 2.5])
    assert figures.show(figure, ALT) is None
    assert capsys.readouterr() == (f"{ALT}\n\nstep  loss\n   0     5\n   1   2.5\n", "")


def test_a_text_of_ones_own_replaces_the_table():
    assert figures.picture(drawn()[0], ALT, text="It falls.").text == f"{ALT}\n\nIt falls."


def test_a_figure_without_a_sentence_is_refused():
    with pytest.raises(ValueError, match="does not say what the picture shows"):
        figures.picture(drawn()[0], alt=" ")


def test_axes_in_place_of_a_figure_are_refused_with_what_to_try():
    with pytest.raises(TypeError, match=r"got Axes; of axes, try `axes\.figure`"):
        figures.picture(drawn()[1], ALT)


def test_the_same_figure_gives_the_same_bytes_in_another_process_without_pyplot():
    program = f"""
import sys, hashlib, numpy
import autogradlab.predictions, autogradlab.output
from autogradlab import figures
print("matplotlib" in sys.modules)
figure, axes = figures.axes(x="step", y="loss")
for number in range(2):
    axes.plot(numpy.arange(50), 5 * numpy.exp(-numpy.arange(50) / (5 + number)), label=f"run {{number}}")
print(hashlib.sha256(figures.picture(figure, "{ALT}").image).hexdigest())
print("matplotlib.pyplot" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    here = figures.picture(drawn()[0], ALT).image
    assert result.stdout.split() == ["False", hashlib.sha256(here).hexdigest(), "False"]
    assert b"dc:date" not in here


def test_what_the_learner_set_in_matplotlib_neither_shows_nor_changes():
    plain = figures.picture(drawn()[0], ALT).image
    with matplotlib.rc_context():
        matplotlib.style.use("dark_background")
        matplotlib.rcParams["font.size"] = 30
        before = dict(matplotlib.rcParams)
        assert figures.picture(drawn()[0], ALT).image == plain
        assert dict(matplotlib.rcParams) == before


def test_a_figure_of_pyplot_is_closed():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figure, axes = pyplot.subplots()
    axes.plot([1, 2], [3, 4])
    figures.show(figure, ALT)
    assert not pyplot.fignum_exists(figure.number)


@pytest.mark.parametrize("background", ["none", (0, 0, 0, 0.5), "white"])
def test_the_background_is_opaque(background, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "MAX_SVG", 0)
    figure, axes = drawn()
    figure.set_facecolor(background)
    axes.set_facecolor("none")
    (tmp_path / "figure.png").write_bytes(figures.picture(figure, ALT).image)
    pixels = matplotlib.image.imread(tmp_path / "figure.png")
    assert pixels.shape[2] == 3 or (pixels[..., 3] == 1).all()
    assert (pixels[0, 0, :3] == 1).all()


def test_a_figure_of_many_points_becomes_a_png_of_the_same_size_on_the_screen():
    figure, axes = figures.axes(x="x", y="y")
    axes.scatter(*numpy.random.RandomState(0).randn(2, 10_000))
    picture = figures.picture(figure, ALT)
    assert picture.mime == "image/png"
    assert f'width="{int(figures.WIDTH * 96)}"' in picture.html
    assert len(picture.image) < figures.MAX_SVG


def test_long_series_are_thinned_to_the_ends_the_extremes_and_some_between():
    figure, axes = figures.axes(x="step", y="loss")
    values = numpy.linspace(3, 1, 300)
    values[[77, 133, 200]] = 9, -4, numpy.nan
    axes.plot(values)
    heading, _, *rows = figures.picture(figure, ALT).text.split("\n\n")[1].splitlines()
    cells = dict(row.split() for row in rows)
    assert heading == "12 of 300 points, extremes included"
    assert len(rows) == 12
    assert cells["0"] == "3" and cells["299"] == "1" and cells["77"] == "9" and cells["133"] == "-4"


def test_series_at_the_same_positions_share_a_table_and_others_have_their_own():
    figure, axes = drawn(points=3)
    axes.plot([5, 6], [1, 2], label="later")
    _, shared, other = figures.picture(figure, ALT).text.split("\n\n")
    assert shared.splitlines()[0].split() == ["step", "run", "0", "run", "1"]
    assert other.split() == ["step", "later", "5", "1", "6", "2"]


def test_bars_points_error_bars_reference_lines_and_images_are_in_the_text():
    figure, grid = figures.axes(2, 3, x="kind", y="size", title="All")
    (bars, named, flat), (points, spread, image) = grid
    bars.bar(["kept", "freed"], [3, 1])
    named.bar([0, 1], [4, 2])
    named.set_xticks([0, 1], labels=["a", "b"])
    flat.barh(["loss"], [7])
    points.scatter([1, 2], [5, 6])
    points.axhline(5.5, label="goal")
    points.axvline(1.25, label="start")
    points.axline((0, 0), slope=1, label="diagonal")
    spread.errorbar([1, 2], [8, 9], yerr=1, label="mean")
    image.imshow([[0, 1, 2], [3, 4, 5]])
    assert figures.picture(figure, ALT).text.split("\n\n")[1:] == [
        " kind  size\n kept     3\nfreed     1",
        "kind  size\n   a     4\n   b     2",
        "size  kind\nloss     7",
        "kind  size\n   1     5\n   2     6",
        "goal: y = 5.5",
        "start: x = 1.25",
        "kind  mean\n   1     8\n   2     9",
        "An image: 2 by 3 values from 0 to 5",
    ]


def test_grouped_bars_share_the_names_of_their_groups():
    figure, axes = figures.axes(x="loop", y="KiB")
    axes.bar([-0.2, 0.8], [4, 2], width=0.4, label="now")
    axes.bar([0.2, 1.2], [9, 3], width=0.4, label="peak", hatch=figures.HATCHES[1])
    axes.set_xticks([0, 1], labels=["leaks", "does not"])
    assert figures.picture(figure, ALT).text.split("\n\n")[1:] == [
        "    loop  now  peak\n   leaks    4     9\ndoes not    2     3",
    ]


def test_names_of_ticks_are_not_given_to_points_between_them():
    figure, axes = figures.axes(x="angle", y="height")
    axes.plot([0.0, 0.3], [0, 1])
    axes.set_xticks([0, 3.14], labels=["zero", "pi"])
    assert "0.3" in figures.picture(figure, ALT).text


def test_two_labelled_series_get_a_legend_and_one_or_ones_own_is_left_alone():
    for lines, legend in [(1, False), (2, True), (7, True)]:
        figure, axes = drawn(lines)
        figures.picture(figure, ALT)
        assert (axes.get_legend() is not None) == legend
    figure, axes = drawn(2)
    mine = axes.legend(["a", "b"])
    figures.picture(figure, ALT)
    assert axes.get_legend() is mine


def test_whole_steps_have_whole_ticks_and_others_do_not():
    for steps, whole in [([1, 2, 3], True), ([1, 2.5, 4], False)]:
        figure, axes = figures.axes(x="step", y="loss")
        axes.plot(steps, [14, 28, 42])
        figures.picture(figure, ALT)
        assert all(tick == round(tick) for tick in axes.get_xticks()) == whole


def test_a_figure_without_numbers_has_its_sentence_alone():
    assert figures.picture(Figure(), ALT).text == ALT


def test_the_page_is_true(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    result = doctest.testfile(str(DOCS / "figures.md"), module_relative=False)
    assert result.attempted > 5 and result.failed == 0
