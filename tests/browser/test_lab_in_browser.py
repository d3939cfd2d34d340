"""A learner's first hour in a real JupyterLab: run all, answer rightly and wrongly, validate, in light and dark."""

from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = "05_accumulating_gradients"
EXERCISE = "fresh_gradients"

pytestmark = pytest.mark.browser


def solution(exercise):
    """The answer cell of an exercise in the instructors' notebook."""
    notebook = nbformat.read(ROOT / "source" / UNIT / f"{UNIT}.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise]
    return cell.source


@pytest.fixture
def notebook(open_notebook):
    return open_notebook(f"{UNIT}/{UNIT}.ipynb")


def test_a_learner_runs_answers_and_validates_a_unit(notebook, artifacts):
    notebook.execute("notebook:run-all-cells")
    cells = notebook.cells()
    outputs = [(cell["source"], output) for cell in cells for output in cell.get("outputs", ())]
    assert not [(source, output["evalue"]) for source, output in outputs if output["output_type"] == "error"]
    checks = [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert len(checks) >= 7
    assert {notebook.record(cell)["status"] for cell in checks} == {"not attempted"}
    notebook.activate(f"{EXERCISE}_tests")
    notebook.page.locator(".jp-Cell.jp-mod-active .jp-OutputArea", has_text="not attempted yet").wait_for()

    wrong = "def fresh_gradients(w, x, steps):\n    return [0.0] * steps"
    notebook.write(EXERCISE, wrong)
    assert notebook.check(EXERCISE)["status"] == "wrong"

    notebook.write(EXERCISE, solution(EXERCISE))
    record = notebook.check(EXERCISE)
    assert record["status"] == "right"
    assert record["score"] == record["points"] > 0

    assert "not attempted yet" in notebook.validate()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.execute("apputils:change-theme", theme=theme)
        assert notebook.accessibility() == []
        notebook.screenshot(artifacts / f"{theme.split()[-1].lower()}.png")


def test_the_learners_profile_shows_validate_and_no_instructors_panel(notebook):
    assert notebook.page.locator(".jp-NotebookPanel-toolbar >> text=Validate").count() == 1
    commands = notebook.page.evaluate("() => window.jupyterapp.commands.listCommands()")
    assert not [command for command in commands if command.startswith("nbgrader:")]
    text = notebook.page.inner_text("body")
    assert not [words for words in ("Create Assignment", "Formgrader", "Nbgrader", "Jupyter news") if words in text]
