"""Gates on a unit's files as text: their names, line ends, format, TODOs, and unit.toml."""

import ast
import re
import subprocess
import sys

import jupytext

from autograder.lessons import ROOT, SETTINGS, Problem, format_options, line_of

AUTHORED = ("lesson.py", "cases.py", "attempts.py")
# Everything else in a unit's folder that does not go to learners is named here or ends in .toml.
PRIVATE = {"lesson.py", "attempts.py"}
DATA = {".npz", ".npy", ".csv", ".json", ".png", ".svg", ".txt"}

# An objective says what the learner will do, so it begins with a verb.
NO_VERB = {"A", "An", "The", "You", "Your", "We", "It", "This", "That", "These", "How", "Why", "What", "When", "Where"}


def text(lesson):
    """Problems of a unit's files that show in their text alone."""
    problems = [*_files(lesson), *_settings(lesson)]
    for name in AUTHORED:
        file = lesson.directory / name
        if file.is_file():
            problems += [*_line_ends(file), *_todo(file), *_formatted(file)]
    return [*problems, *_todo(lesson.directory / "unit.toml"), *_canonical(lesson), *_plain_cells(lesson)]


def travels(file):
    """Whether a file of a unit's folder goes to learners beside the notebook."""
    return file.name in {"cases.py", "unit.toml"} or file.suffix in DATA


def unit_files(directory):
    """The files of a unit's folder, caches aside."""
    hidden = (".", "__")
    return [
        file
        for file in sorted(directory.rglob("*"))
        if file.is_file() and not any(part.startswith(hidden) for part in file.relative_to(directory).parts)
    ]


def _files(lesson):
    for name in AUTHORED:
        if not (lesson.directory / name).is_file():
            yield Problem(
                lesson.directory / name, 1, f"{name} is missing", f"Write it, or copy it from `new {lesson.unit}`"
            )
    for file in unit_files(lesson.directory):
        if not (travels(file) or file.name in PRIVATE or file.suffix == ".toml"):
            kinds = ", ".join(sorted(DATA))
            yield Problem(
                file, 1, "nothing says whether learners get this file", f"Data for learners is one of {kinds}"
            )


def _line_ends(file):
    data = file.read_bytes()
    if b"\r" in data:
        line = data[: data.index(b"\r")].count(b"\n") + 1
        yield Problem(file, line, "the line ends in CR", "Save the file with LF line ends")
    if b"\t" in data:
        line = data[: data.index(b"\t")].count(b"\n") + 1
        yield Problem(file, line, "a tab", "Indent with four spaces; write \\t in strings")


def _todo(file):
    for number, line in enumerate(file.read_text("utf-8").split("\n"), 1):
        if "TODO" in line:
            yield Problem(file, number, "a TODO is left", "Write what it asks for, and take the word out")


def _formatted(file):
    source = file.read_text("utf-8")
    try:
        ast.parse(source)
    except SyntaxError as error:
        yield Problem(file, error.lineno or 1, f"not Python: {error.msg}", "Mend the line")
        return
    way_out = f"Run: ruff format {file.name}"
    yield from _difference(file, source, ruff_formatted(file, source), "as ruff formats it", way_out)


def ruff_formatted(file, source):
    """Python source as ruff formats it with the repository's settings; `file` is what messages call it."""
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--config", str(ROOT / "pyproject.toml")]
    command += ["--stdin-filename", str(file), "-"]
    return subprocess.run(command, input=source.encode(), capture_output=True, check=True).stdout.decode()


def _canonical(lesson):
    options = format_options(lesson.course)
    written = jupytext.writes(jupytext.reads(lesson.text, "py:percent", config=options), "py:percent", config=options)
    way_out = "Write the line so, or open lesson.py in JupyterLab and save it"
    yield from _difference(lesson.file, lesson.text, written, "as jupytext writes it", way_out)


def _difference(file, source, wanted, what, way_out):
    if source == wanted:
        return
    there, then = source.split("\n"), wanted.split("\n")
    number = next((i for i, (a, b) in enumerate(zip(there, then, strict=False)) if a != b), min(len(there), len(then)))
    expected = repr(then[number]) if number < len(then) else "the end of the file"
    yield Problem(file, number + 1, f"not {what}, which is {expected}", way_out)


def _plain_cells(lesson):
    """Cells that are not Python by themselves: a magic, or a cell cut in two by `# %%` in the midst of a function."""
    for cell in lesson.cells:
        if cell.kind == "raw":
            yield Problem(lesson.file, cell.line, "a raw cell, which notebooks do not show", "Make it Markdown or code")
        if cell.kind == "markdown" and "attachment:" in cell.source:
            yield Problem(
                lesson.file, cell.line, "an attachment, which text cannot hold", "Put the image beside lesson.py"
            )
        if cell.kind == "code":
            try:
                ast.parse(cell.source)
            except SyntaxError as error:
                line = cell.line + (error.lineno or 1)
                way_out = "Cells are plain Python: no `# %%` inside a function, no `%` or `!` commands"
                yield Problem(lesson.file, line, f"the cell is not Python: {error.msg}", way_out)


def _settings(lesson):
    file = lesson.directory / "unit.toml"
    for key in sorted(set(lesson.settings) - set(SETTINGS)):
        yield Problem(file, line_of(file, rf"\[?{key}\b"), f"unknown key `{key}`", f"Known: {', '.join(SETTINGS)}")
    if not lesson.title:
        yield Problem(file, line_of(file, "title"), "the title is empty", "Write the unit's title")
    if not lesson.objectives:
        yield Problem(file, line_of(file, "objectives"), "no objectives", "Say in sentences what the learner will do")
    for objective in lesson.objectives:
        first = objective.split(" ")[0]
        if not re.fullmatch(r"[A-Z][a-z]+", first) or first in NO_VERB:
            line = line_of(file, rf".*{re.escape(objective[:40])}")
            yield Problem(
                file, line, f"the objective {objective!r} begins with no verb", "Say what the learner will do"
            )
    for concept, meaning in lesson.concepts.items():
        if not meaning:
            yield Problem(
                file, line_of(file, concept), f"the concept `{concept}` is not explained", "Write one line of text"
            )
