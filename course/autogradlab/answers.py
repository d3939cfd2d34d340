"""The course's own answers to its exercises and the other right ones that it knows.

They are read from the course's repository, where that is on this machine; a release holds none of them.
"""

import ast
import contextlib
import io
import json
import re
from pathlib import Path

from autogradlab import units
from autogradlab.merging import grade_id, source_of

ROOT = Path(__file__).resolve().parents[2]
_MARKER = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION[ \t]*(\n|\Z)", re.MULTILINE)


def are_at_hand(unit: str) -> bool:
    """Whether the course's own answers to a unit's exercises are on this machine."""
    return _notebook(unit).is_file() and _attempts(unit).is_file()


def text_of(unit: str, name: str) -> str:
    """The course's answer to an exercise, as text."""
    sources = {grade_id(cell): source_of(cell) for cell in _cells(unit)}
    return _MARKER.sub("", sources[name]).rstrip()


def alternatives(unit: str, name: str) -> list:
    """The other right answers to an exercise: what is special about each, and its text."""
    text = _attempts(unit).read_text(encoding="utf-8")
    found = []
    for node in ast.parse(text).body:
        if getattr(node, "name", None) != name:
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", None) == "alternative":
                lines = text.split("\n")[node.lineno - 1 : node.end_lineno]
                found.append((ast.literal_eval(decorator.args[0]), "\n".join(lines)))
    return found


def reference(unit, name: str):
    """The program of the course's answer to an exercise, with what the unit's set-up defines and nothing else."""
    names = {"__name__": "answer"}
    with units.at(unit.name, unit.directory), contextlib.redirect_stdout(io.StringIO()):
        for cell in _cells(unit.name):
            is_setup = "setup" in cell["metadata"].get("tags", ())
            is_answer = cell["metadata"].get("nbgrader", {}).get("solution")
            if cell["cell_type"] == "code" and (is_setup or is_answer):
                exec(compile(source_of(cell), f"<the course's {grade_id(cell) or 'set-up'}>", "exec"), names)
    return names[name]


def _cells(unit):
    return json.loads(_notebook(unit).read_bytes())["cells"]


def _notebook(unit):
    return ROOT / "source" / unit / f"{unit}.ipynb"


def _attempts(unit):
    return ROOT / "course" / "units" / unit / "attempts.py"
