"""The course at a glance: its units, what each requires, and what is done; `run.py progress` and `progress()`.

Read from the notebooks on this machine as they were last saved. Nothing is counted elsewhere, and nothing is sent.
"""

import argparse
import json
import sys
from html import escape
from pathlib import Path

from autogradlab import outline, units
from autogradlab.figures import PALETTE
from autogradlab.outline import DONE, PARTLY, TIERS, UNTOUCHED
from autogradlab.output import Output, Picture, Table

# Words and outlines tell the states apart, colour only repeats it.
_STYLES = {
    DONE: {"peripheries": "2", "fillcolor": PALETTE["sky blue"]},
    PARTLY: {"fillcolor": PALETTE["yellow"]},
    UNTOUCHED: {"style": "filled,dashed", "fillcolor": "#ffffff"},
}


def progress(folder=None) -> Output:
    """The units beside the open notebook's, what is done in each, and what to do next, as a picture and a table.

    `folder` is another folder of units. Notebooks count as they were last saved, the open one's checks at once.
    """
    from autogradlab.checking import records_of

    opened = units.opened()
    if folder is None:
        folder = opened.directory.parent if opened else _units_near(Path.cwd())
    found = outline.read_units(folder)
    if opened:
        mine = records_of(opened)
        found = [one.checked(mine) if one.notebook.parent == opened.directory else one for one in found]
    return course_map(found, folder)


def course_map(found: list, folder) -> Output:
    """The picture of the units with what is done, the same as a table, and the next step."""
    if not found:
        text = f"There is no unit in {folder}. Start from the folder with the units, or try progress('that folder')."
        return Output(f"<p>{escape(text)}</p>", text)
    table = Table(
        ["unit", "requires", "right", "begun", "untouched", "points"],
        [_row(one) for one in found],
        caption="The units of the course",
    )
    picture = map_svg(found)
    shown = table if picture is None else Picture(picture, alt_text(found), text=[table])
    words = [*(unit.problem for unit in found if unit.problem), next_words(found)]
    return Output(shown.html + "".join(f"<p>{escape(one)}</p>" for one in words), "\n\n".join([table.text, *words]))


def state_of(unit) -> str:
    """Whether a unit is done, begun or untouched."""
    if unit.exercises and unit.is_done:
        return DONE
    return PARTLY if unit.is_touched else UNTOUCHED


def next_words(found: list, named=lambda unit: f"unit {unit.number}, {unit.title}") -> str:
    """What to do next, in one sentence: an exercise of a unit that was begun, else a unit whose needs are met.

    `named(unit)` is how the sentence names a unit.
    """
    done = {unit.name for unit in found if state_of(unit) == DONE}
    known = {unit.name for unit in found}
    left = [unit for unit in found if unit.exercises and unit.name not in done]
    if not left:
        return "Every exercise is right."
    begun = [unit for unit in left if state_of(unit) == PARTLY]
    ready = [unit for unit in left if set(unit.requires) & known <= done]
    unit = (begun or ready or left)[0]
    if state_of(unit) == UNTOUCHED:
        return f"Next: begin {named(unit)}."
    open_ones = [exercise for exercise in unit.exercises if exercise.state != DONE]
    exercise = min(open_ones, key=lambda one: TIERS.index(one.tier) if one.tier in TIERS else 0)
    return f"Next: “{exercise.title}” ({exercise.words}) in {named(unit)}."


def alt_text(found: list) -> str:
    """The point of the picture, in words."""
    states = [state_of(unit) for unit in found]
    right = sum(unit.count(DONE) for unit in found)
    exercises = sum(len(unit.exercises) for unit in found)
    return (
        f"A map of {len(found)} units, arrows from what a unit requires: {states.count(DONE)} done, "
        f"{states.count(PARTLY)} begun, {states.count(UNTOUCHED)} untouched; {right} of {exercises} exercises right."
    )


def _row(unit):
    numbers = ", ".join(name.partition("_")[0].lstrip("0") for name in unit.requires) or "-"
    total = sum(exercise.points for exercise in unit.exercises)
    points = f"{sum(exercise.score for exercise in unit.exercises):g} of {total:g}"
    counts = [unit.count(state) for state in (DONE, PARTLY, UNTOUCHED)]
    return [f"{unit.number} {unit.title}", numbers, *counts, points]


def map_svg(found: list, with_progress: bool = True) -> str | None:
    """The map as SVG, with what is done or with how much there is to do; None where nothing here can draw."""
    from autogradlab.graph.drawing import bold, empty_digraph, html_label, short  # takes as long as all the rest
    from autogradlab.graph.rendering import NoRenderer, svg

    known = {unit.name: unit for unit in found}
    try:
        digraph = empty_digraph()
        for unit in found:
            state, counted = state_of(unit), f"{len(unit.exercises)} exercises"
            if with_progress:
                counted = f"{state}: {unit.count(DONE)} of {len(unit.exercises)} right"
            lines = [bold(f"{unit.number} {unit.title}"), short(counted)]
            digraph.node(unit.name, html_label(lines), shape="box", **_STYLES[state if with_progress else PARTLY])
            digraph.edges([(required, unit.name) for required in _direct(unit, known)])
        return svg(digraph.source)
    except NoRenderer:
        return None


def _direct(unit, known: dict) -> list:
    """What a unit requires, without what that requires already: an arrow for each of those would hide the others."""
    implied = set().union(*(_all_required(name, known) for name in unit.requires))
    return [name for name in unit.requires if name in known and name not in implied]


def _all_required(name: str, known: dict) -> set:
    """All that a unit requires, and what that requires."""
    own = set(known[name].requires) if name in known else set()
    return own.union(*(_all_required(one, known) for one in own))


def _units_near(folder: Path) -> Path:
    """The folder of units that a notebook in `folder` belongs to: itself, or the one above."""
    return folder if any(folder.glob("*/recorded.bin")) else folder.parent


def main(arguments: list[str] | None = None) -> int:
    """Print the table of the learner's copy; the exit code."""
    parser = argparse.ArgumentParser(
        prog="run.py progress", description="What is done in your copy of the units, as last saved.", allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, default=outline.WORK, help="where your copy is (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="the same as data, exercise by exercise")
    options = parser.parse_args(arguments)
    found = outline.read_units(options.folder)
    if not found:
        print(f"There is no unit in {options.folder}: `python3 run.py lab` makes your copy there.", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({unit.name: [vars(exercise) for exercise in unit.exercises] for unit in found}))
    else:
        print(course_map(found, options.folder).text)
    return 0
