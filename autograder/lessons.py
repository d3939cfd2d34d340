"""A unit's folder as plain data: its settings, the cells of lesson.py with their line numbers, and its exercises."""

import io
import re
import tomllib
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jupytext
import nbformat
from autogradlab import units as notebook_units
from autogradlab.exercises import load_attempts
from jupytext.config import load_jupytext_configuration_file
from nbgrader.preprocessors import ClearSolutions
from traitlets.config import Config, PyFileConfigLoader

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "course"

# The keys of unit.toml.
SETTINGS = {"title": str, "requires": list, "assumes": list, "objectives": list, "concepts": dict}

# What jupytext takes for the start of a cell.
CELL_MARKER = re.compile(r"^\s*#\s*%%%*(\s|$)")
SOLUTION_MARKER = re.compile(r"(BEGIN|END) SOLUTION")


class Problem(NamedTuple):
    """What is wrong with a unit, where it stands, and the way out."""

    file: Path
    line: int
    message: str
    way_out: str

    def __str__(self):
        file = self.file.relative_to(ROOT) if self.file.is_relative_to(ROOT) else self.file
        return f"{file.as_posix()}:{self.line}: {self.message}. {self.way_out}."


class ContentError(Exception):
    """The content cannot be used as it stands; `problems` says why."""

    def __init__(self, problems):
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self):
        # From its message alone, another process could not make it again.
        return ContentError, (self.problems,)


@dataclass(frozen=True)
class Cell:
    """One cell of lesson.py; `line` is that of its `# %%`, so that line n of the source stands at `line` + n."""

    source: str
    kind: str  # "code", "markdown" or "raw"
    tags: tuple[str, ...]
    nbgrader: dict
    line: int

    @property
    def role(self):
        """What the cell is for: solution, test, written, locked, setup, demonstration, prediction, text or other."""
        if self.nbgrader:
            grade, solution = self.nbgrader.get("grade"), self.nbgrader.get("solution")
            if solution:
                return "written" if grade else "solution"
            if grade:
                return "test"
        if self.kind != "code":
            return "text"
        for role in ("setup", "demonstration", "prediction"):
            if role in self.tags:
                return role
        return "other"

    def tagged(self, key):
        """The values of the tags `key:value`, in their order."""
        return tuple(tag.partition(":")[2] for tag in self.tags if tag.startswith(f"{key}:"))


@dataclass(frozen=True)
class Exercise:
    """What lesson.py says of one exercise."""

    name: str
    solution: str  # the answer cell's source without the markers
    stub: str  # the answer cell's source as the release shows it
    regions: tuple[str, ...]  # the marked regions, which no learner may see
    points: float
    tags: tuple[str, ...]
    line: int
    contract: str
    hints: tuple[str, ...]
    cell: Cell

    def tagged(self, key):
        """The values of the tags `key:value`, in their order."""
        return self.cell.tagged(key)


@dataclass(frozen=True)
class Lesson:
    """One unit as its author wrote it."""

    unit: str
    directory: Path
    settings: dict  # unit.toml as it stands
    text: str  # lesson.py as it stands
    cells: tuple[Cell, ...]
    exercises: dict[str, Exercise] = field(default_factory=dict)

    @property
    def file(self):
        return self.directory / "lesson.py"

    @property
    def course(self):
        """The folder with units/, misconceptions.toml and jupytext.toml."""
        return self.directory.parent.parent

    @property
    def title(self):
        return self.settings["title"]

    @property
    def requires(self):
        return tuple(self.settings["requires"])

    @property
    def assumes(self):
        return tuple(self.settings["assumes"])

    @property
    def objectives(self):
        return tuple(self.settings["objectives"])

    @property
    def concepts(self):
        return dict(self.settings["concepts"])

    @property
    def setup(self):
        """The set-up cells, on which solutions, attempts and checks may rely."""
        return tuple(cell for cell in self.cells if cell.role == "setup")


def units(course=COURSE):
    """Names of the course's units, in their order."""
    return sorted(path.name for path in (course / "units").glob("*") if (path / "lesson.py").is_file())


def read(unit, course=COURSE):
    """The Lesson of one unit, or ContentError if lesson.py or unit.toml cannot be read at all."""
    directory = course / "units" / unit
    file = directory / "lesson.py"
    if not file.is_file():
        known = ", ".join(units(course)) or "none yet"
        _refuse(file, 1, f"there is no unit {unit}", f"Units here: {known}")
    text = _text(file)
    cells = _cells(file, text, course)
    return Lesson(unit, directory, _settings(directory / "unit.toml"), text, cells, _exercises(file, cells))


def format_options(course=COURSE):
    """jupytext's settings of the course, for both directions."""
    return load_jupytext_configuration_file(str(course / "jupytext.toml"))


@cache
def grader_settings():
    """The repository's nbgrader_config.py, so that formgrader's Generate makes the release that `build` makes."""
    if not (ROOT / "nbgrader_config.py").is_file():
        return Config()
    return PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()


def namespace(lesson, exercises=()):
    """A fresh dict with the set-up cells' names and those of the named exercises' solutions, made without IPython.

    What the cells print is for learners, and goes nowhere.
    """
    wanted = set(exercises)
    cells = [cell for cell in lesson.cells if cell.role == "setup" or cell.nbgrader.get("grade_id") in wanted]
    with redirect_stdout(io.StringIO()):
        return execute(lesson, cells)


def execute(lesson, cells):
    """The names that the cells define when run in this order; tracebacks show the lines of lesson.py."""
    names = {"__name__": "__main__"}
    with notebook_units.at(lesson.unit, lesson.directory):
        for cell in cells:
            code = compile("\n" * cell.line + cell.source, str(lesson.file), "exec", dont_inherit=True)
            exec(code, names)
    return names


def attempts(lesson, exercises):
    """The attempts of attempts.py; `exercises` are those of cases.py, whose `needs` attempts may call."""
    needed = {name for exercise in exercises.values() for name in exercise.needs}
    return load_attempts(lesson.directory / "attempts.py", namespace(lesson, needed))


def references(lesson, attempts=()):
    """The reference program of each exercise by its name.

    It is the solution as lesson.py defines it; of a prediction exercise, the attempt marked @reference, which knows the
    answers for every variant and not for the solution's alone.
    """
    names = namespace(lesson, lesson.exercises)
    solutions = {name: names[name] for name in lesson.exercises}
    return solutions | {attempt.exercise: attempt.program for attempt in attempts if attempt.kind == "reference"}


def problem_in(error, directory, file, line=1):
    """The Problem of an exception in an author's code: at the last line in `directory`, else at `line` of `file`."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == directory]
    place = (Path(frames[-1].filename), frames[-1].lineno) if frames else (file, line)
    return Problem(*place, f"{type(error).__name__}: {error}", "Mend it: this must run")


def _text(file):
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ContentError([Problem(file, line, f"not UTF-8 ({error.reason})", "Save the file as UTF-8")]) from error


def _settings(file):
    """unit.toml, with every key that the course knows and of the right kind."""
    if not file.is_file():
        _refuse(file, 1, "unit.toml is missing", "Write one: docs/authoring.md lists its keys")
    try:
        settings = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        _refuse(file, int(place[1]) if place else 1, f"not TOML: {error}", "Mend the line")
    for key, kind in SETTINGS.items():
        value = settings.get(key)
        texts = value.values() if kind is dict and isinstance(value, dict) else value if kind is list else ()
        if not isinstance(value, kind) or not all(isinstance(item, str) for item in texts):
            wanted = {str: "text", list: "a list of texts", dict: "a table of texts"}[kind]
            _refuse(file, line_of(file, rf"\[?{key}\b"), f"`{key}` is not {wanted}", f"Write `{key}`; it may be empty")
    return settings


def line_of(file, pattern):
    """Number of the first line of the file that begins with the pattern; 1 if none does."""
    lines = file.read_text("utf-8").split("\n")
    return next((number for number, line in enumerate(lines, 1) if re.match(pattern, line.lstrip())), 1)


def _cells(file, text, course):
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines, 1) if CELL_MARKER.match(line)]
    if not starts or starts[0] != 1:
        found = f"line {starts[0]}" if starts else "none"
        _refuse(file, 1, f"the first line opens no cell (first `# %%`: {found})", "Begin with `# %% [markdown]`")
    options = format_options(course)
    for start in starts:
        _header(file, start, lines[start - 1], options)
    cells = []
    for node, start in zip(jupytext.reads(text, "py:percent", config=options).cells, starts, strict=True):
        # jupytext keeps a marker that stands in a string or a fence; from there on, lines and cells would not agree.
        for number, line in enumerate(node.source.split("\n"), start + 1):
            if CELL_MARKER.match(line if node.cell_type == "code" else f"# {line}"):
                _refuse(file, number, "`# %%` inside a cell", "Keep the two percent signs apart: `# % %`")
        tags = tuple(node.metadata.get("tags", ()))
        cells.append(Cell(node.source, node.cell_type, tags, dict(node.metadata.get("nbgrader", {})), start))
    return tuple(cells)


def _header(file, number, line, options):
    """Refuses a `# %%` line whose keys jupytext cannot read: it would keep them as text, hidden from nbgrader."""
    try:
        metadata = jupytext.reads(f"{line.strip()}\npass\n", "py:percent", config=options).cells[0].metadata
    except nbformat.ValidationError as error:
        _refuse(file, number, f"the cell's line does not fit a notebook: {error.message}", 'Write tags=["a", "b"]')
    if "incorrectly_encoded_metadata" in metadata or not isinstance(metadata.get("nbgrader", {}), dict):
        _refuse(file, number, "the cell's nbgrader metadata or tags are not JSON", 'Write nbgrader={"key": value, ...}')


def _refuse(file, line, message, way_out):
    raise ContentError([Problem(file, line, message, way_out)])


def _exercises(file, cells):
    points = {
        cell.nbgrader.get("grade_id", ""): cell.nbgrader.get("points", 0) for cell in cells if cell.role == "test"
    }
    exercises = {}
    for position, cell in enumerate(cells):
        if cell.role != "solution" or cell.kind != "code":
            continue
        name = cell.nbgrader.get("grade_id", "")
        lines = cell.source.split("\n")
        contract, hints = _prose_before(cells, position)
        exercises[name] = Exercise(
            name=name,
            solution="\n".join(line for line in lines if not SOLUTION_MARKER.search(line)),
            stub=_stub(file, cell),
            regions=regions(lines),
            points=points.get(f"{name}_tests", 0),
            tags=cell.tags,
            line=cell.line,
            contract=contract,
            hints=hints,
            cell=cell,
        )
    return exercises


def _stub(file, cell):
    """What nbgrader leaves of the cell."""
    node = nbformat.v4.new_code_cell(cell.source, metadata={"nbgrader": dict(cell.nbgrader)})
    clear = ClearSolutions(config=grader_settings())
    clear.log.disabled = True
    try:
        node, _ = clear.preprocess_cell(node, {"language": "python"}, 0)
    except RuntimeError as error:
        way_out = "Every `### BEGIN SOLUTION` needs one `### END SOLUTION` below it, in the same cell"
        raise ContentError([Problem(file, cell.line, f"solution markers: {error}", way_out)]) from error
    return node.source


def regions(lines):
    """What stands between the solution's marks, each stretch as one text."""
    regions, inside = [], None
    for line in lines:
        if "BEGIN SOLUTION" in line:
            inside = []
        elif "END SOLUTION" in line:
            # An END without its BEGIN is a gate's matter; ClearSolutions passes over it too.
            if inside is not None:
                regions.append("\n".join(inside))
            inside = None
        elif inside is not None:
            inside.append(line)
    return tuple(regions)


def _prose_before(cells, position):
    """The contract and the hints of the answer cell at `position`: the Markdown cells right above it."""
    hints = []
    for cell in reversed(cells[:position]):
        if cell.kind != "markdown":
            break
        if not cell.source.lstrip().startswith("<details>"):
            return cell.source, tuple(reversed(hints))
        hints.append(cell.source)
    return "", tuple(reversed(hints))
