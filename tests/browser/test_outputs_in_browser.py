"""What every unit shows when it is run, in a real browser, light and dark: axe finds nothing in it."""

import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from autogradlab.verdicts import MIME
from axe_playwright_python.sync_playwright import Axe
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted(path.name for path in (ROOT / "release").iterdir())
EXAMPLES = ROOT / "docs" / "examples.py"
#: The answer to every second exercise; the others are right. Demonstrations that call an answer expect this error.
WRONG = 'def {name}(*values, **options):\n    raise NotImplementedError("later")'

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def answered(unit):
    """A unit's notebook with every prediction made, and answers right and wrong by turns: all that can be seen."""
    released = nbformat.read(ROOT / "release" / unit / f"{unit}.ipynb", as_version=4)
    solved = nbformat.read(ROOT / "source" / unit / f"{unit}.ipynb", as_version=4)
    right = {name_of(cell): cell.source for cell in solved.cells}
    answers = [cell for cell in released.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    for number, cell in enumerate(answers):
        cell.source = WRONG.format(name=name_of(cell)) if number % 2 else right[name_of(cell)]
    for cell in released.cells:
        if "prediction" in cell.metadata.get("tags", ()):
            cell.source = predicted(cell.source)
    return released


def predicted(source):
    """A call of commit() with something in every place that waits for it."""
    several = re.search(r"answers=(\d+)", source)
    answer = [0] * int(several[1]) if several else 0
    made = source.replace("answer=None", f"answer={answer}").replace("confidence=None", "confidence=5")
    return made.replace("variant=None", "variant=7")


def name_of(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id")


@pytest.fixture(scope="module")
def run():
    """Runs a notebook in a folder, and gives it back with its outputs; one kernel serves all, emptied before each."""
    manager = NotebookClient(nbformat.v4.new_notebook(), kernel_name="python3").create_kernel_manager()

    def run(notebook, folder):
        notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%reset -f\nimport os\nos.chdir({str(folder)!r})"))
        client = NotebookClient(notebook, km=manager, timeout=120)
        client.execute()
        client.kc.stop_channels()
        del notebook.cells[0]
        return notebook

    yield run
    run_sync(manager.shutdown_kernel)(now=True)


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def pictures(notebook):
    """The MIME types of outputs that JupyterLab shows as pictures without a text."""
    return [mime for output in outputs_of(notebook) for mime in output.get("data", {}) if mime.startswith("image/")]


def problems(browser, notebook, path, artifacts):
    """What axe has against the notebook's outputs in JupyterLab's two themes, by theme."""
    found = {}
    for theme in ("light", "dark"):
        exporter = HTMLExporter(template_name="lab", theme=theme, mathjax_url="", require_js_url="")
        exporter.exclude_input = exporter.exclude_markdown = exporter.exclude_output_prompt = True
        path.write_text(exporter.from_notebook_node(notebook)[0], encoding="utf-8")
        context = browser.new_context(viewport={"width": 1280, "height": 1000}, bypass_csp=True)
        page = context.new_page()
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        page.screenshot(path=artifacts / f"outputs-{path.stem}-{theme}.png", full_page=True)
        seen = Axe().run(page, context=".jp-OutputArea-output").response["violations"]
        found[theme] = [(one["id"], one["nodes"][0]["html"][:200]) for one in seen]
        assert page.locator(".jp-OutputArea-output").count() > 0
        context.close()
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_axe_finds_nothing_in_what_a_unit_shows(run, browser, tmp_path, artifacts, unit):
    notebook = run(answered(unit), ROOT / "release" / unit)
    statuses = {output.data[MIME]["status"] for output in outputs_of(notebook) if MIME in output.get("data", {})}
    assert {"right", "wrong"} <= statuses
    assert "Commit an answer and a confidence first." not in nbformat.writes(notebook)
    assert pictures(notebook) == []
    assert problems(browser, notebook, tmp_path / f"{unit}.html", artifacts) == {"light": [], "dark": []}


def test_everybody_can_read_the_examples_and_nothing_moves_for_who_wants_no_motion(run, browser, tmp_path, artifacts):
    notebook = run(jupytext.read(EXAMPLES), tmp_path)
    html = [output.data["text/html"] for output in outputs_of(notebook) if "text/html" in output.get("data", {})]
    images = [one for text in html for one in re.findall("<img [^>]*>", text)]
    assert len(images) >= 5
    assert [one[:80] for one in images if not re.search('alt="[^"]+"', one)] == []
    assert pictures(notebook) == []
    assert problems(browser, notebook, tmp_path / "examples.html", artifacts) == {"light": [], "dark": []}
    for motion, buttons in (("no-preference", 1), ("reduce", 0)):
        context = browser.new_context(reduced_motion=motion)
        page = context.new_page()
        page.goto((tmp_path / "examples.html").as_uri(), wait_until="domcontentloaded")
        steps = page.locator(".jp-OutputArea-output", has=page.get_by_role("button", name="All steps")).first
        expect(steps.get_by_role("button", name="Next")).to_be_visible()
        expect(steps.get_by_role("button", name="Play")).to_have_count(buttons)
        context.close()
