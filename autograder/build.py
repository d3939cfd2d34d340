"""From a unit's text to what nbgrader and learners get: source/ and release/, byte for byte the same every time."""

import contextlib
import copy
import hashlib
import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import nbformat
import torch
from autogradlab.encoding import EncodingError
from autogradlab.exercises import load_cases, stub_digest
from autogradlab.recorded import FILE as RECORDED
from autogradlab.recorded import contents, record_exercise, write
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory

from autograder.bundles import with_first_cell
from autograder.course_map import CourseMap
from autograder.gates import check
from autograder.gates.attempts import read_catalogue
from autograder.gates.built import built
from autograder.gates.text import travels, unit_files
from autograder.lessons import (
    COURSE,
    ROOT,
    ContentError,
    Problem,
    attempts,
    grader_settings,
    problem_in,
    read,
    references,
)
from autograder.lessons import units as all_units
from autograder.sameness import alike

STEPS = ("source", "release")

# Fixed, and without the version of whoever built it.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


def build(units=None, into=None, course=COURSE):
    """Builds the named units (default: all) into `source/` and `release/` of `into`; returns the files that changed.

    The pages that are made of the whole course are made anew as well: the map in README.md, and docs/coverage.md.

    Raises ContentError, and changes nothing, where a gate finds a problem. Says on standard error what it did.
    """
    into = Path(into or ROOT)
    names = list(units or all_units(course))
    _refuse(check(names, course))
    course_map = CourseMap(course)
    pages = course_map.pages(into)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        for name in names:
            _make(read(name, course), course_map, fresh, into)
        leaks = _leaks(names, fresh, course)
        _refuse(leak._replace(file=into / leak.file.relative_to(fresh)) for leak in leaks)
        changed = [change for name in names for change in _install(name, fresh, into)]
    for file, text in _stale(pages):
        file.write_text(text, encoding="utf-8", newline="\n")
        changed.append(("changed", file))
    for words, file in changed:
        print(f"{words} {file.relative_to(into).as_posix()}", file=sys.stderr)
    if not changed:
        print(f"nothing to do: {', '.join(names) or 'no unit'} as built", file=sys.stderr)
    return [file for _, file in changed]


def current(units=None, into=None, course=COURSE):
    """Problems of the built folders: a file that a fresh build would change or miss, or that nobody made."""
    into = Path(into or ROOT)
    names = list(units or all_units(course))
    problems = []
    course_map = CourseMap(course)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        for name in names:
            _make(read(name, course), course_map, fresh, into)
            for step in STEPS:
                problems += _differences(fresh / step / name, into / step / name)
    problems += _leaks([name for name in names if all((into / step / name).is_dir() for step in STEPS)], into, course)
    return [*problems, *([] if units else _strangers(names, into))]


def stale_pages(into=None, course=COURSE):
    """Problems of the pages that are made of the whole course: those that a build would change."""
    way_out = "Run `build` and commit what it makes"
    stale = _stale(CourseMap(course).pages(Path(into or ROOT)))
    return [Problem(file, 1, "is stale: a fresh build differs", way_out) for file, _ in stale]


def _stale(pages):
    """The pages among these, file -> text, whose file says something else."""
    return [
        (file, text) for file, text in pages.items() if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]


def notebook(lesson, course_map):
    """The instructors' notebook of a lesson, with ids that depend on nothing but the cells."""
    seen = {}
    cells = []
    for cell in with_first_cell(lesson):
        metadata = {key: value for key, value in (("nbgrader", cell.nbgrader), ("tags", list(cell.tags))) if value}
        identity = cell.nbgrader.get("grade_id")
        if identity is None:
            position = seen[cell.kind, cell.source] = seen.get((cell.kind, cell.source), -1) + 1
            digest = hashlib.sha256(f"{position}\n{cell.kind}\n{cell.source}".encode()).hexdigest()
            identity = digest[:8]
        make = nbformat.v4.new_code_cell if cell.kind == "code" else nbformat.v4.new_markdown_cell
        source = cell.source if cells else course_map.below_title(lesson)
        cells.append(make(source, id=identity, metadata=metadata))
    return nbformat.v4.new_notebook(cells=cells, metadata=copy.deepcopy(METADATA))


def recorded(lesson):
    """The bytes of `recorded.bin`: what the reference and every misconception do in the visible cases."""
    exercises = load_cases(lesson.directory / "cases.py")
    catalogue = read_catalogue(lesson.course)
    records = {}
    with _one_thread(), _author_at(lesson, lesson.directory / "attempts.py"):
        tried = attempts(lesson, exercises)
        programs = references(lesson, tried)
    for name, exercise in exercises.items():
        own = lesson.exercises[name]
        with _one_thread(), _author_at(lesson, lesson.directory / "cases.py", exercise.line):
            record = record_exercise(exercise, programs[name], tried, catalogue, own.points, stub_digest(own.stub))
        _refuse(_broken_cases(lesson, exercise, record))
        records[name] = _without_tracebacks(record)
    return write(lesson.unit, records)


@contextlib.contextmanager
def _author_at(lesson, file, line=1):
    """Names the author's line where an exception came from; without one, the place that is being worked on."""
    try:
        yield
    except Exception as error:  # an author's code may raise anything
        raise ContentError([problem_in(error, lesson.directory, file, line)]) from error


@contextlib.contextmanager
def _one_thread():
    """Tensors this small are quicker on one thread, and sums come out the same whatever the machine has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _broken_cases(lesson, exercise, record):
    """Cases in which the script itself raises: every answer would do the same there, and pass."""
    for index, observation in enumerate(record["reference"] if not exercise.is_prediction else ()):
        raised = observation["raised"]
        if raised is not None and not raised["inside"]:
            message = f"case {index} of {exercise.name} raises {raised['types'][0]}: {raised['message']}"
            yield Problem(lesson.directory / "cases.py", exercise.line, message, "Mend the case script")


def _without_tracebacks(record):
    """A record as learners may have it: a traceback quotes the attempt that raised, and nothing compares it."""
    observed = [record["reference"], *(candidate["observations"] for candidate in record["candidates"])]
    for observations in observed:
        for observation in observations.values() if isinstance(observations, dict) else observations:
            if observation["raised"] is not None:
                observation["raised"]["traceback"] = ""
    return record


def _refuse(problems):
    problems = list(problems)
    if problems:
        raise ContentError(problems)


def _make(lesson, course_map, fresh, kept):
    """Writes the unit's two folders below `fresh`; a recording below `kept` that says the same is taken over."""
    source = fresh / "source" / lesson.unit
    source.mkdir(parents=True)
    _write_notebook(source / f"{lesson.unit}.ipynb", notebook(lesson, course_map))
    for file in filter(travels, unit_files(lesson.directory)):
        place = source / file.relative_to(lesson.directory)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    (source / RECORDED).write_bytes(_kept_or_new(kept / "source" / lesson.unit / RECORDED, recorded(lesson)))
    _release(lesson.unit, fresh)


def _kept_or_new(file, data):
    """What the file holds if it says the same: processors and zlibs differ in bits, which is no reason to change it."""
    if not file.is_file():
        return data
    old = file.read_bytes()
    try:
        return old if alike(contents(old), contents(data)) else data
    except (EncodingError, zlib.error):  # a recording of another version
        return data


def _write_notebook(file, node):
    nbformat.validate(node)
    file.write_text(nbformat.writes(node, version=4) + "\n", encoding="utf-8", newline="\n")


def _release(unit, folder):
    """nbgrader's own generate_assignment in a course of its own, so that no gradebook hears of it."""
    config = copy.deepcopy(grader_settings())
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.source_directory, config.CourseDirectory.release_directory = STEPS
    config.GenerateAssignment.no_database = True
    config.SaveCells.enabled = False
    directory = CourseDirectory(config=config)
    directory.assignment_id = unit
    GenerateAssignment(coursedir=directory, config=config).start()
    file = folder / "release" / unit / f"{unit}.ipynb"
    _write_notebook(file, nbformat.read(file, as_version=4))


def _leaks(names, into, course):
    return [problem for name in names for problem in built(read(name, course), *(into / step / name for step in STEPS))]


def _install(name, fresh, into):
    """Makes the unit's folders below `into` equal to the fresh ones, file by file; yields what it did."""
    for step in STEPS:
        made, there = fresh / step / name, into / step / name
        wanted = {file.relative_to(made) for file in unit_files(made)}
        for path in sorted(wanted):
            if not (there / path).is_file() or (there / path).read_bytes() != (made / path).read_bytes():
                words = "changed" if (there / path).is_file() else "new    "
                (there / path).parent.mkdir(parents=True, exist_ok=True)
                beside = there / path.with_name(f".{path.name}.new")
                shutil.copyfile(made / path, beside)
                os.replace(beside, there / path)
                yield words, there / path
        for file in unit_files(there):
            if file.relative_to(there) not in wanted:
                file.unlink()
                yield "removed", file


def _differences(made, there):
    wanted = {file.relative_to(made) for file in unit_files(made)}
    for path in sorted(wanted):
        file = there / path
        if not file.is_file():
            yield Problem(file, 1, "is missing", "Run `build` and commit what it makes")
        elif file.read_bytes() != (made / path).read_bytes():
            line = _first_difference(file.read_bytes(), (made / path).read_bytes())
            yield Problem(file, line, "is stale: a fresh build differs", "Run `build` and commit what it makes")
    for file in unit_files(there):
        if file.relative_to(there) not in wanted:
            yield Problem(file, 1, "no build makes this file", "Delete it; `build` does")


def _first_difference(old, new):
    pairs = zip(old.split(b"\n"), new.split(b"\n"), strict=False)
    return next(
        (number for number, (a, b) in enumerate(pairs, 1) if a != b), min(old.count(b"\n"), new.count(b"\n")) + 1
    )


def _strangers(names, into):
    """Folders of units that are no more: `build` leaves them, since it does not know whose they are."""
    for step in STEPS:
        for folder in sorted((into / step).glob("*")):
            if folder.is_dir() and folder.name not in names:
                yield Problem(folder, 1, "belongs to no unit of the course", "Delete the folder")
