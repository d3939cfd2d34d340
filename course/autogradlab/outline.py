"""A unit's notebook as a learner has it: its exercises in their order, and how far each of them is.

Read from the notebook's file and what lies beside it, so that it needs neither a kernel nor a network.
"""

import json
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from autogradlab.exercises import stub_digest
from autogradlab.merging import grade_id, source_of
from autogradlab.recorded import FILE, Recorded
from autogradlab.verdicts import MIME

DONE, PARTLY, UNTOUCHED = "done", "begun", "untouched"
TIERS = ("spine", "depth", "workshop")
WORK = Path(__file__).resolve().parents[2] / "work"  # where `run.py lab` makes the learner's copy
_HEADING = re.compile(r"^(#{1,6})\s+(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Exercise:
    """One exercise of a notebook; `words` say where the learner's answer stands, in more detail than `state`."""

    name: str
    heading: str
    tier: str | None
    points: float
    hints: int = 0
    state: str = UNTOUCHED
    words: str = "untouched"
    score: float = 0.0

    @property
    def anchor(self) -> str:
        """The fragment that JupyterLab gives to the heading."""
        return anchor(self.heading)

    @property
    def title(self) -> str:
        """The heading without what it says about the kind of exercise."""
        return re.sub(r"^Exercise: |\s*\([^()]*\)$", "", plain(self.heading))

    def checked(self, record: dict) -> "Exercise":
        """The same exercise after a check with this record."""
        words = {"right": "right", "partly": "partly right", "wrong": "not right yet", "not attempted": "untouched"}
        state = {"right": DONE, "not attempted": UNTOUCHED}.get(record["status"], PARTLY)
        return replace(self, state=state, words=words[record["status"]], score=record["score"])


@dataclass(frozen=True)
class Unit:
    """One unit as it lies in a folder: what it is about, what it requires, and its exercises.

    `problem` says why the notebook could not be read; it has no exercises then.
    """

    name: str
    notebook: Path
    title: str
    requires: tuple[str, ...]
    exercises: tuple[Exercise, ...]
    objectives: tuple[str, ...] = ()
    problem: str | None = None

    def count(self, state: str) -> int:
        """How many exercises are in this state."""
        return sum(exercise.state == state for exercise in self.exercises)

    @property
    def is_done(self) -> bool:
        """Whether every exercise is right."""
        return all(exercise.state == DONE for exercise in self.exercises)

    @property
    def is_touched(self) -> bool:
        """Whether the learner has begun with some exercise."""
        return any(exercise.state != UNTOUCHED for exercise in self.exercises)

    @property
    def number(self) -> str:
        """What the unit's title begins with, as in `5`."""
        return self.name.partition("_")[0].lstrip("0")

    def checked(self, records: dict) -> "Unit":
        """The same unit after checks whose records are given by the exercises' names."""
        checked = (one.checked(records[one.name]) if one.name in records else one for one in self.exercises)
        return replace(self, exercises=tuple(checked))


def read_units(folder) -> list[Unit]:
    """The units whose notebooks lie below a folder, in their order; one that cannot be read says so."""
    places = sorted(path for path in Path(folder).glob("*") if (path / f"{path.name}.ipynb").is_file())
    return [_read_or_told(place) for place in places]


def _read_or_told(directory) -> Unit:
    try:
        return read_unit(directory)
    except ValueError as error:
        return Unit(directory.name, directory / f"{directory.name}.ipynb", directory.name, (), (), problem=str(error))


def read_unit(directory, stubs: dict | None = None) -> Unit:
    """The unit in a folder. Raises ValueError where its notebook cannot be read.

    `stubs` are the digests of the exercises' stubs by name, where they need not be looked up.
    """
    directory = Path(directory)
    notebook = directory / f"{directory.name}.ipynb"
    try:
        cells = json.loads(notebook.read_bytes())["cells"]
        exercises = tuple(_exercises(cells, _stubs(directory) if stubs is None else stubs))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{notebook} cannot be read as a notebook: {type(error).__name__}: {error}") from error
    settings = directory / "unit.toml"
    known = tomllib.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    title = known.get("title") or re.sub(r"^\d+\s+", "", _first_heading(cells) or directory.name)
    requires, objectives = (tuple(known.get(key, ())) for key in ("requires", "objectives"))
    return Unit(directory.name, notebook, title, requires, exercises, objectives)


def anchor(heading: str) -> str:
    """The fragment that JupyterLab gives to a heading."""
    return plain(heading).replace(" ", "-")


def plain(heading: str) -> str:
    """A heading without its marks for code and emphasis."""
    return heading.replace("`", "").replace("*", "").strip()


def _stubs(directory) -> dict:
    """The digest of each exercise's stub, by name; none where what is recorded of the unit is missing."""
    if not (directory / FILE).is_file():
        return {}
    recorded = Recorded(directory)
    return {name: recorded.exercise(name).stub for name in recorded.names}


def _exercises(cells, stubs):
    tests = {grade_id(cell): cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")}
    heading, hints = "", 0
    for cell in cells:
        if cell["cell_type"] == "markdown":
            found = [match[2] for match in _HEADING.finditer(source_of(cell))]
            if found:
                heading, hints = found[-1], 0
            hints += source_of(cell).lstrip().startswith("<details>")
        name = grade_id(cell)
        if name is None or f"{name}_tests" not in tests:
            continue
        test = tests[f"{name}_tests"]
        tags = cell["metadata"].get("tags", ())
        tier = next((tag.removeprefix("tier:") for tag in tags if tag.startswith("tier:")), None)
        points = float(test["metadata"]["nbgrader"].get("points", 0))
        yield _stands(Exercise(name, heading, tier, points, hints), cell, _record(test, name), stubs.get(name))


def _record(test, name):
    """What the last check left in its cell, if it was this exercise's."""
    found = (output.get("data", {}).get(MIME) for output in test.get("outputs", ()))
    return next((record for record in found if record and record.get("exercise") == name), None)


def _stands(exercise, cell, record, stub):
    answer = stub_digest(source_of(cell))
    if record is not None and record.get("answer") == answer:
        return exercise.checked(record)
    if answer == stub:
        return exercise
    # Nobody knows what a changed answer does until it is checked.
    words = "not checked yet" if record is None else "changed since its check"
    return replace(exercise, state=PARTLY, words=words)


def _first_heading(cells):
    texts = (source_of(cell) for cell in cells if cell["cell_type"] == "markdown")
    return next((match[2] for text in texts for match in _HEADING.finditer(text)), None)
