"""The tiny unit of the fixtures as a course of its own, and submissions to it."""

import json
import shutil
from pathlib import Path

import nbformat

from autograder.build import build

ROOT = Path(__file__).resolve().parent.parent.parent
UNIT = "90_tiny"
RIGHT = "    w.grad = None\n    loss = (w * x + 1) ** 2\n    loss.backward()\n    return w.grad.item()"
KEEPS = "    loss = (w * x + 1) ** 2\n    loss.backward()\n    return w.grad.item()"
SLOPES = "def slopes(w, xs):\n    return [slope(w, x) for x in xs]\n"


def tiny_course(root):
    """The tiny unit built as a course of its own."""
    shutil.copytree(ROOT / "tests" / "fixtures", root / "course", ignore=shutil.ignore_patterns("*.py[co]"))
    shutil.copy(ROOT / "nbgrader_config.py", root)
    build([UNIT], root, root / "course")
    return root


def cell_of(notebook, grade_id):
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def hand_in(root, learner, body, change=lambda notebook: None):
    """Put a submission into the course: the release with this body of `slope`, then changed by hand."""
    notebook = nbformat.read(root / "release" / UNIT / f"{UNIT}.ipynb", 4)
    if body is not None:
        cell_of(notebook, "slope").source = f"def slope(w, x):\n{body}"
        cell_of(notebook, "slopes").source = SLOPES
    change(notebook)
    folder = root / "grading" / "submitted" / learner / UNIT
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{UNIT}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
