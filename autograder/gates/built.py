"""Gates on built folders: no solution, nothing of attempts.py, no text twin and no output in what learners get."""

import ast
import contextlib
import re
import zlib

import nbformat
from autogradlab.encoding import EncodingError
from autogradlab.recorded import FILE as RECORDED
from autogradlab.recorded import contents

from autograder.gates.attempts import read_catalogue
from autograder.gates.cells import RESERVED
from autograder.gates.text import travels, unit_files
from autograder.lessons import Problem

MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "@misconception", "@alternative", "attempts.py", *RESERVED)
# Shorter lines of code say too little to be told from chance.
SECRET_LENGTH = 24
WAY_OUT = "Run `build`; if it stays, mend lesson.py or attempts.py"


def built(lesson, source, release):
    """Problems of a unit's folders in source/ and release/."""
    problems = [problem for folder in (source, release) for problem in [*_twins(lesson, folder), *_outputs(folder)]]
    return [*problems, *_markers(release), *_secrets(lesson, release)]


def _twins(lesson, folder):
    for file in unit_files(folder):
        name = file.relative_to(folder).as_posix()
        if name not in (f"{lesson.unit}.ipynb", RECORDED) and not travels(file):
            yield Problem(file, 1, "does not belong here: nbgrader copies it to learners", "Delete it, or run `build`")


def _outputs(folder):
    for file in folder.glob("*.ipynb"):
        for cell in _cells(file):
            if cell.get("outputs") or cell.get("execution_count") is not None or cell.get("attachments"):
                yield Problem(
                    file, _line(file, cell.id), f"cell {cell.id} holds output", "Run `build`; edit lesson.py only"
                )


def _line(file, cell_id):
    lines = file.read_text("utf-8").split("\n")
    return next((number for number, line in enumerate(lines, 1) if f'"id": "{cell_id}"' in line), 1)


def _markers(folder):
    for file in unit_files(folder):
        for number, line in enumerate(_text(file).split("\n"), 1):
            for marker in MARKERS:
                if marker in line:
                    yield Problem(file, number, f"learners would get the words {marker!r}", WAY_OUT)


def _secrets(lesson, folder):
    """Lines of solutions and attempts in files of the release, unless the author shows them to learners anyway."""
    public = _bare("\n".join(_public(lesson)))
    secrets = {}
    for line, place in _private(lesson):
        bare = _bare(line)
        if len(bare) >= SECRET_LENGTH and bare not in public:
            secrets[bare] = f"{line.strip()!r}, {place}"
    for file in unit_files(folder):
        text = _bare(_text(file))
        for bare, words in secrets.items():
            if bare in text:
                yield Problem(file, 1, f"learners would get {words}", WAY_OUT)


def _public(lesson):
    yield (lesson.directory / "cases.py").read_text("utf-8")
    for cell in lesson.cells:
        yield lesson.exercises[cell.nbgrader["grade_id"]].stub if cell.role == "solution" else cell.source
    for entry in read_catalogue(lesson.course).values():
        yield from map(str, entry.values())
    # An attempt's own message is shown to who earns it.
    for node in _attempts(lesson):
        for decorator in node.decorator_list:
            yield from (text.value for text in ast.walk(decorator) if isinstance(text, ast.Constant) and text.value)


def _private(lesson):
    for exercise in lesson.exercises.values():
        for region in exercise.regions:
            yield from ((line, f"of the solution of {exercise.name}") for line in region.split("\n"))
    lines = (lesson.directory / "attempts.py").read_text("utf-8").split("\n")
    for node in _attempts(lesson):
        for number in range(node.body[0].lineno, node.end_lineno + 1):
            yield lines[number - 1], f"line {number} of the attempts"


def _attempts(lesson):
    tree = ast.parse((lesson.directory / "attempts.py").read_text("utf-8"))
    return [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.decorator_list]


def _bare(text):
    return re.sub(r"\s+", "", text)


def _text(file):
    """The text in a file: sources of a notebook, the strings in a recording, else the bytes as they are."""
    data = file.read_bytes()
    if file.suffix == ".ipynb" and (cells := _cells(file)):
        return "\n".join(cell.source for cell in cells)
    if file.name == RECORDED:
        with contextlib.suppress(EncodingError, zlib.error):  # then `current` calls it stale
            return "\n".join(_strings(contents(data)))
    return data.decode("latin-1")


def _cells(file):
    """The cells of a notebook; none where it cannot be read, which `current` calls stale."""
    try:
        return nbformat.read(file, as_version=4).cells
    except Exception:  # nbformat raises whatever its converters stumble over
        return []


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
