"""The `assemble` command: any exercises of any units become one assignment, in a course's folder of its own."""

import ast
import contextlib
import json
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autogradlab.exercises import load_cases

from autograder import lessons, private
from autograder.build import build
from autograder.cohort import Cohort
from autograder.gates.attempts import headings
from autograder.gates.text import ruff_formatted, travels, unit_files
from autograder.lessons import ROOT, Cell, ContentError, Lesson, Problem
from autograder.splicing import Statement, bound, imports, needed, read, renamed, statements

#: Where an assembled assignment goes unless it is said: with all else about one class, which git ignores.
INTO = "grading/assembled"
LIST = "assignments.toml"
#: More than a unit may have on its spine, and all of them are chosen anyway.
MOST_ON_SPINE = 15
_CASES = re.compile(r"\bcases\.(\w+)")
_UNIT = re.compile(r'\bunit\(\s*"[^"]*"\s*\)')


@dataclass
class Part:
    """What an assignment takes from one unit: the exercises, and the places of the cells in the lesson."""

    lesson: Lesson
    exercises: list[str]
    cells: list[int]
    setup: list[int]
    cases: list[Statement]
    attempts: list[Statement]

    @property
    def suffix(self) -> str:
        """What tells this unit's names from those of others: its number."""
        return re.match(r"\d*", self.lesson.unit)[0] or self.lesson.unit


def assemble(
    name: str,
    exercises: Iterable[str] = (),
    folder: Path | None = None,
    into: Path | None = None,
    root: Path = ROOT,
) -> Path:
    """The course's folder in which `source/NAME` and `release/NAME` lie then, ready to be handed out and graded.

    Without exercises, they are those that assignments.toml lists under the name, in the private `folder` or in course/.
    `into` defaults to grading/assembled. Raises ContentError where what is named is not there or does not go together.
    """
    public, into = root / "course", Path(into or root / INTO).resolve()
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise _problem(into, f"{name!r} is no assignment's name", "Use letters, digits and _, beginning with a letter")
    if name in lessons.units(public):
        raise _problem(public / "units" / name, f"{name} is a unit", "Choose another name for the assignment")
    cohort = Cohort.of(folder)
    with tempfile.TemporaryDirectory() as scratch, _own_places(Path(scratch), folder, public, into / "course"):
        course = cohort.course(public, Path(scratch) / "all")
        title, chosen = _chosen(name, list(exercises), folder, public)
        parts = _parts(course, chosen)
        own = Path(scratch) / "own"
        _write(own, name, title, parts, cohort, cohort.catalogue(public))
        (own / "jupytext.toml").write_bytes((public / "jupytext.toml").read_bytes())
        _link(own, name, {part.lesson.unit for part in parts})
        into.mkdir(parents=True, exist_ok=True)
        build([name], into, own)
        _install(own, into, name, root)
    seed = cohort.grading_seed(name)
    if seed is not None:
        _keep_seed(into / "grading" / "results" / "seeds.json", name, seed)
    _say(name, parts, chosen)
    return into


def _problem(file: Path, message: str, way_out: str) -> ContentError:
    return ContentError([Problem(file, 1, message, way_out)])


@contextlib.contextmanager
def _own_places(scratch: Path, folder: Path | None, public: Path, into: Path) -> Iterator[None]:
    """Has problems in a scratch copy name the file that they come from."""
    try:
        yield
    except ContentError as error:
        raise ContentError(
            problem._replace(file=_own_place(problem.file, scratch, folder, public, into)) for problem in error.problems
        ) from error


def _own_place(file: Path, scratch: Path, folder: Path | None, public: Path, into: Path) -> Path:
    if not file.is_relative_to(scratch):
        return file
    copy, *rest = file.relative_to(scratch).parts
    if copy == "own":
        return into.joinpath(*rest)
    is_private = folder is not None and len(rest) > 1 and folder.joinpath(*rest[:2]).is_dir()
    return (folder if is_private else public).joinpath(*rest)


def _say(name: str, parts: list[Part], chosen: list[str]) -> None:
    for part in parts:
        added = [one for one in part.exercises if one not in chosen]
        more = f", with {', '.join(added)}, which they need" if added else ""
        listed = ", ".join(one for one in part.exercises if one in chosen) or "what others need to know"
        print(f"{name}: {listed}, of {part.lesson.unit}{more}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------- what is taken


def _chosen(name: str, exercises: list[str], folder: Path | None, public: Path) -> tuple[str, list[str]]:
    """Title and exercises of the assignment, as named or as listed."""
    title = name.replace("_", " ").capitalize()
    if exercises:
        return title, exercises
    files = [place / LIST for place in (folder, public) if place is not None]
    for file in filter(Path.is_file, files):
        try:
            listed = tomllib.loads(file.read_text(encoding="utf-8")).get(name)
        except tomllib.TOMLDecodeError as error:
            raise _problem(file, f"not TOML: {error}", "Mend the line") from error
        if listed is not None:
            own = listed if isinstance(listed, list) else listed.get("exercises")
            if not own or not all(isinstance(one, str) for one in own):
                raise _problem(file, f"{name} has no exercises", f'Write {name} = ["exercise", …]')
            return (title if isinstance(listed, list) else listed.get("title", title)), own
    places = " and ".join(map(str, files))
    raise _problem(files[-1], f"nothing says what {name} consists of", f"Name its exercises, or list them in {places}")


def _parts(course: Path, chosen: list[str]) -> list[Part]:
    """What is taken from each unit, in the course's order; what an exercise rests on comes with it."""
    found = {unit: lessons.read(unit, course) for unit in lessons.units(course)}
    where = {exercise: unit for unit, lesson in found.items() for exercise in lesson.exercises}
    for name in chosen:
        if name not in where:
            raise _problem(
                course / "units", f"no unit has an exercise {name}", f"Exercises: {', '.join(sorted(where))}"
            )
    parts = []
    for unit, lesson in found.items():
        own = [name for name in chosen if where[name] == unit]
        if own:
            parts.append(_part(lesson, own, found))
    return [part for part in _with_teaching(parts, found) if part.cells]


def _part(lesson: Lesson, chosen: list[str], found: Mapping[str, Lesson]) -> Part:
    declared = load_cases(lesson.directory / "cases.py")
    own, waiting = set(), list(chosen)
    while waiting:
        name = waiting.pop()
        if name not in own:
            own.add(name)
            waiting += declared[name].needs
    exercises = [name for name in lesson.exercises if name in own]
    cells = set().union(*(_cells_of(lesson, name) for name in exercises))
    return Part(lesson, exercises, sorted(cells), [], [], [])


def _cells_of(lesson: Lesson, exercise: str) -> set[int]:
    """The places of the contract, the hints, the answer and the test."""
    answer = next(place for place, cell in enumerate(lesson.cells) if cell.nbgrader.get("grade_id") == exercise)
    first = answer
    while first and lesson.cells[first - 1].kind == "markdown":
        first -= 1
        if not lesson.cells[first].source.lstrip().startswith("<details>"):
            break
    return set(range(first, answer + 2))


def _with_teaching(parts: list[Part], found: Mapping[str, Lesson]) -> list[Part]:
    """The parts with the sections that teach what their exercises need, in their own unit or in those it requires."""
    by_unit = {part.lesson.unit: part for part in parts}
    for part in parts:
        concepts = {
            concept
            for name in part.exercises
            for key in ("needs", "teaches")
            for concept in part.lesson.exercises[name].tagged(key)
        }
        for unit in [part.lesson.unit, *_required(part.lesson, found)]:
            places = _sections(found[unit], concepts)
            if places and unit not in by_unit:
                by_unit[unit] = Part(found[unit], [], [], [], [], [])
            if places:
                by_unit[unit].cells = sorted({*by_unit[unit].cells, *places})
    ordered = [by_unit[unit] for unit in found if unit in by_unit]
    for part in ordered:
        _complete(part)
    return ordered


def _required(lesson: Lesson, found: Mapping[str, Lesson]) -> list[str]:
    known, waiting = [], list(lesson.requires)
    while waiting:
        unit = waiting.pop()
        if unit not in known and unit in found:
            known.append(unit)
            waiting += found[unit].requires
    return known


def _sections(lesson: Lesson, concepts: set[str]) -> set[int]:
    """The places of text, predictions and demonstrations in the sections that teach one of the concepts.

    A section to which the answer of a prediction refers comes with it.
    """
    section, places, by_heading = 0, {}, {}
    exercises = set().union(*(_cells_of(lesson, name) for name in lesson.exercises))
    for place, cell in enumerate(lesson.cells):
        if cell.kind == "markdown" and cell.source.startswith("#"):
            section = place
            by_heading[cell.source.partition("\n")[0].lstrip("# ")] = section
        if place not in exercises and cell.role in ("text", "prediction", "demonstration"):
            places.setdefault(section, []).append(place)
    waiting = [
        section
        for section, own in places.items()
        if any(concepts & set(lesson.cells[place].tagged("teaches")) for place in own)
    ]
    taken: set[int] = set()
    while waiting:
        own = places.get(waiting.pop(), [])
        if not taken.issuperset(own):
            taken |= set(own)
            waiting += [by_heading[see] for place in own for see in _seen(lesson.cells[place]) if see in by_heading]
    return taken


def _seen(cell: Cell) -> list[str]:
    """The headings to which a cell that opens a prediction refers."""
    if cell.kind != "code":
        return []
    keywords = [one for one in ast.walk(ast.parse(cell.source)) if isinstance(one, ast.keyword) and one.arg == "see"]
    return [one.value.value for one in keywords if isinstance(one.value, ast.Constant)]


def _complete(part: Part) -> None:
    """Adds the statements of cases.py and attempts.py, and the set-up cells, that the chosen cells need."""
    lesson = part.lesson
    attempts = statements((lesson.directory / "attempts.py").read_text(encoding="utf-8"))
    decorated = [one for one in attempts if getattr(one.node, "decorator_list", [])]
    tried = [one for one in decorated if one.binds & set(part.exercises)]
    helpers = [one for one in attempts if one not in decorated and one.binds]
    reads = set().union(*(one.reads for one in tried))
    part.attempts = [*needed(helpers, reads), *tried]
    setup = [place for place, cell in enumerate(lesson.cells) if cell.role == "setup"]
    code = [lesson.cells[place].source for place in part.cells if lesson.cells[place].kind == "code"]
    wanted = set().union(*(read(ast.parse(text)) for text in code), *(one.reads for one in part.attempts))
    cells = {place: ast.parse(lesson.cells[place].source) for place in setup}
    binds = {place: set().union(*map(bound, tree.body)) for place, tree in cells.items()}
    # The first opens the unit and has the imports.
    part.setup = setup[:1]
    while more := [place for place in setup if place not in part.setup and binds[place] & _wanted(part, wanted)]:
        part.setup = sorted([*part.setup, *more])
    texts = [lesson.cells[place].source for place in (*part.setup, *part.cells)] + [one.text for one in part.attempts]
    seen = {name for text in texts for name in _CASES.findall(text)}
    every = statements((lesson.directory / "cases.py").read_text(encoding="utf-8"))
    part.cases = needed(every, {*part.exercises, *seen})


def _wanted(part: Part, wanted: set[str]) -> set[str]:
    return wanted.union(*(read(ast.parse(part.lesson.cells[place].source)) for place in part.setup))


# --------------------------------------------------------------------------------------------------- what is written


def _write(own: Path, name: str, title: str, parts: list[Part], cohort: Cohort, catalogue: Mapping) -> None:
    """The assignment as a unit's folder below `own`, a course's folder."""
    directory = own / "units" / name
    directory.mkdir(parents=True)
    _beside(directory, parts)
    exercises = {one for part in parts for one in part.exercises}
    setup = _clashes(parts, [_setup_names(part, name) for part in parts])
    cases = _clashes(parts, [_names(part, part.cases) for part in parts])
    attempts = _clashes(parts, [_names(part, part.attempts) for part in parts])
    texts: dict[str, str] = dict.fromkeys(exercises, "")
    lesson, scripts, tried = [_opening(name, title, parts)], [], []
    for part, *clashes in zip(parts, setup, cases, attempts, strict=True):
        other, helper, own_names = ({key: f"{key}_{part.suffix}" for key in clash} for clash in clashes)
        lesson += _cells(part, other, helper, cohort, texts, len(exercises) > MOST_ON_SPINE)
        scripts += [_script(one, renamed(one.text, helper), cohort, texts) for one in part.cases if not one.is_import]
        for one in part.attempts:
            if not one.is_import:
                text = _with_message(_of_cases(renamed(one.text, other | own_names), helper), cohort.messages)
                tried.append(_script(one, text, cohort, texts))
    cohort.check(texts)
    lines = [f'"""Cases and requirements of {title}."""', imports(part.cases for part in parts), *scripts]
    _python(directory / "cases.py", lines)
    known = "from autogradlab.exercises import alternative, misconception, reference"
    more = imports(_helper_imports(part) for part in parts)
    _python(directory / "attempts.py", [f'"""What people write instead in {title}."""', f"{more}\n{known}", *tried])
    file = directory / "lesson.py"
    file.write_text(ruff_formatted(file, "\n\n".join(lesson) + "\n"), encoding="utf-8", newline="\n")
    text = _toml({"title": title, "requires": [], "assumes": _concepts(parts), "objectives": _objectives(parts)})
    (directory / "unit.toml").write_text(f"{text}\n[concepts]\n", encoding="utf-8")
    told = {identifier: {**entry} for identifier, entry in catalogue.items()}
    (own / "misconceptions.toml").write_text(_tables(told), encoding="utf-8")


def _helper_imports(part: Part) -> list[Statement]:
    """Imports of attempts.py that some attempt or helper reads, the decorators aside."""
    text = (part.lesson.directory / "attempts.py").read_text(encoding="utf-8")
    reads = set().union(*(one.reads for one in part.attempts)) - {"alternative", "misconception", "reference"}
    return [one for one in statements(text) if one.is_import and one.binds & reads and not _is_decorators(one)]


def _is_decorators(statement: Statement) -> bool:
    return isinstance(statement.node, ast.ImportFrom) and statement.node.module == "autogradlab.exercises"


def _python(file: Path, pieces: list[str]) -> None:
    file.write_text(ruff_formatted(file, "\n\n\n".join(filter(None, pieces)) + "\n"), encoding="utf-8", newline="\n")


def _beside(directory: Path, parts: list[Part]) -> None:
    """Copies the files that the chosen cells or cases name, as learners get them beside their notebooks."""
    for part in parts:
        texts = [part.lesson.cells[place].source for place in (*part.setup, *part.cells)]
        used = "\n".join([*texts, *(one.text for one in part.cases)])
        for file in unit_files(part.lesson.directory):
            if not travels(file) or file.name in ("cases.py", "unit.toml") or file.name not in used:
                continue
            place = directory / file.relative_to(part.lesson.directory)
            if place.is_file() and place.read_bytes() != file.read_bytes():
                raise _problem(file, f"another unit of the assignment has another {place.name}", "Rename one of them")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)


def _setup_names(part: Part, name: str) -> dict[str, str]:
    """The names that the set-up cells bind, each with what tells whether another unit's is the same."""
    first, *others = [part.lesson.cells[place].source for place in part.setup]
    # Beside imports, the first cell has what units have word for word in common.
    found = {own: one.text for one in statements(_opened(first, name)) if not one.is_import for own in one.binds}
    return found | {own: part.lesson.unit for text in others for node in ast.parse(text).body for own in bound(node)}


def _names(part: Part, found: list[Statement]) -> dict[str, str]:
    """The names that statements bind; two units' are never the same, since they may rest on different ones."""
    return {name: part.lesson.unit for one in found if not one.is_import for name in one.binds}


def _clashes(parts: list[Part], names: list[dict[str, str]]) -> list[set[str]]:
    """Of each part, the names that are another thing in a part before it, or the exercise of another part."""
    found: list[set[str]] = []
    seen: dict[str, str] = {}
    for part, own in zip(parts, names, strict=True):
        others = {exercise for one in parts if one is not part for exercise in one.exercises}
        clash = {name for name, what in own.items() if seen.get(name, what) != what or name in others}
        found.append(clash - set(part.exercises))
        seen = own | seen
    return found


def _opened(text: str, name: str) -> str:
    return _UNIT.sub(f'unit("{name}")', text)


def _opening(name: str, title: str, parts: list[Part]) -> str:
    """The title and the first set-up cell, with what all units import."""
    block = imports(statements(part.lesson.cells[part.setup[0]].source) for part in parts)
    rest = dict.fromkeys(
        one.text
        for part in parts
        for one in statements(_opened(part.lesson.cells[part.setup[0]].source, name))
        if not one.is_import
    )
    return f'# %% [markdown]\n# # {title}\n\n# %% tags=["setup"]\n{block}\n\n' + "\n".join(rest)


def _cells(
    part: Part, other: Mapping, helper: Mapping, cohort: Cohort, texts: dict[str, str], is_full: bool
) -> list[str]:
    """The chosen cells as they stand in the lesson, with other names where they clash.

    `is_full` says that they are more exercises than a spine may have, so that none is called one of a spine.
    """
    lesson, lines = part.lesson, part.lesson.text.split("\n")
    starts = [cell.line for cell in lesson.cells] + [len(lines) + 1]
    whose = {place: name for name in part.exercises for place in _cells_of(lesson, name)}
    found = []
    for place in sorted({*part.setup[1:], *part.cells}):
        header, *body = lines[starts[place] - 1 : starts[place + 1] - 1]
        text = "\n".join(body).strip("\n")
        if lesson.cells[place].kind == "code":
            text = renamed(text, other)
        else:
            text = re.sub(r"`(\w+)`", lambda code: f"`{other.get(code[1], code[1])}`", text)
        text = _of_cases(text, helper)
        header = _header(header, lesson.cells[place], is_full)
        if place in whose:
            name = whose[place]
            texts[name] += text
            text = cohort.replaced(name, text)
            if lesson.cells[place].role == "test" and name in cohort.points:
                header = re.sub(r'"points": \d+', f'"points": {cohort.points[name]}', header)
        found.append(f"{header}\n{text}")
    return found


def _header(header: str, cell: Cell, is_full: bool) -> str:
    """The cell's first line; what is shown teaches nothing in the sense of a unit, whose order the assignment lacks."""
    if cell.role in ("text", "demonstration", "prediction"):
        kept = [tag for tag in cell.tags if not tag.startswith(("teaches:", "needs:"))]
        header = re.sub(r" tags=\[[^\]]*\]", f" tags={json.dumps(kept)}" if kept else "", header)
    return header.replace('"tier:spine"', '"tier:depth"') if is_full else header


def _of_cases(text: str, helper: Mapping[str, str]) -> str:
    return _CASES.sub(lambda name: f"cases.{helper.get(name[1], name[1])}", text)


def _script(statement: Statement, text: str, cohort: Cohort, texts: dict[str, str]) -> str:
    """A definition as this class has it, if it is one of an exercise's."""
    (name,) = statement.binds if len(statement.binds) == 1 else ("",)
    if name in texts:
        texts[name] += text
        return cohort.replaced(name, text)
    return text


def _with_message(text: str, messages: Mapping[str, str]) -> str:
    """An attempt whose own message gives way to the class's, which is for every exercise."""
    node = ast.parse(text).body[0]
    for decorator in getattr(node, "decorator_list", []):
        arguments = getattr(decorator, "args", [])
        if len(arguments) == 2 and getattr(arguments[0], "value", None) in messages:
            old = ast.get_source_segment(text, arguments[1])
            return text.replace(old, json.dumps(messages[arguments[0].value], ensure_ascii=False), 1)
    return text


def _concepts(parts: list[Part]) -> list[str]:
    """All that is taught or needed: the assignment asks, and teaches no order."""
    cells = [part.lesson.cells[place] for part in parts for place in part.cells]
    return sorted({concept for cell in cells for key in ("teaches", "needs") for concept in cell.tagged(key)})


def _objectives(parts: list[Part]) -> list[str]:
    return list(dict.fromkeys(one for part in parts if part.exercises for one in part.lesson.objectives))


def _toml(entry: Mapping) -> str:
    """Keys and values as TOML; JSON's texts, truths and lists are TOML's."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items())


def _tables(entries: Mapping[str, Mapping]) -> str:
    return "\n".join(f"[{name}]\n{_toml(entry)}" for name, entry in entries.items())


def _link(own: Path, name: str, taken: set[str]) -> None:
    """Has misconceptions point to demonstrations that are in the assignment, and to no others."""
    file = own / "misconceptions.toml"
    entries = tomllib.loads(file.read_text(encoding="utf-8"))
    there = headings(name, own) or ()
    for entry in entries.values():
        unit, _, heading = entry.pop("demonstration", "").partition("#")
        if unit in taken and heading in there:
            entry["demonstration"] = f"{name}#{heading}"
    file.write_text(_tables(entries), encoding="utf-8")


def _install(own: Path, into: Path, name: str, root: Path) -> None:
    """Puts what the assignment was built from into the folder, so that it can be graded there."""
    shutil.copyfile(root / "nbgrader_config.py", into / "nbgrader_config.py")
    course = into / "course"
    shutil.rmtree(course / "units" / name, ignore_errors=True)
    shutil.copytree(own / "units" / name, course / "units" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(own / "jupytext.toml", course / "jupytext.toml")
    file = course / "misconceptions.toml"
    before = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    entries = tomllib.loads((own / "misconceptions.toml").read_text(encoding="utf-8"))
    for identifier, entry in before.items():
        kept = entry.get("demonstration", "")
        # Another assignment of the folder shows it.
        if "demonstration" not in entries.setdefault(identifier, entry) and kept and not kept.startswith(f"{name}#"):
            entries[identifier]["demonstration"] = kept
    file.write_text(_tables(entries), encoding="utf-8")


def _keep_seed(file: Path, name: str, seed: str) -> None:
    seeds = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    private.write(file, json.dumps(seeds | {name: seed}, indent=1))
