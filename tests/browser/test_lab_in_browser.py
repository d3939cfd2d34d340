"""A learner's days in a real JupyterLab: first start, answers right, wrong and none, an update, a lost kernel."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from autogradlab import answers
from autogradlab import lab as learners_lab
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
UNIT = "05_accumulating_gradients"
FILE = f"{UNIT}.ipynb"
EXERCISE = "fresh_gradients"
TITLE = "### Exercise: fresh gradients"
RIGHT = answers.text_of(UNIT, EXERCISE)
WRONG = "def fresh_gradients(w, x, steps):\n    return [0.0] * steps"

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def cell_of(notebook, grade_id):
    (cell,) = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return cell


@pytest.fixture
def short_release(tmp_path, monkeypatch):
    """A release of one unit that was cut down to its set-up and one exercise, instead of the course's own."""
    unit = tmp_path / "release" / UNIT
    unit.mkdir(parents=True)
    for path in (ROOT / "release" / UNIT).iterdir():
        if path.is_file():
            (unit / path.name).write_bytes(path.read_bytes())
    notebook = nbformat.read(unit / FILE, as_version=4)
    kept, is_wanted = [notebook.cells[0]], False
    for cell in notebook.cells[1:]:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            is_wanted = cell.source.startswith(TITLE)
        if is_wanted or "setup" in cell.metadata.get("tags", ()):
            kept.append(cell)
    notebook.cells = kept
    nbformat.write(notebook, unit / FILE)
    monkeypatch.setattr(learners_lab, "RELEASE", unit.parent)
    return unit / FILE


@pytest.fixture
def copied(lab, short_release, request):
    """The name of a folder with a learner's copy of the short release, which JupyterLab can open."""
    name = re.sub(r"\W", "_", request.node.name)[:40]
    update(lab.folder / name)
    return name


def update(folder):
    """What `run.py lab` does before it opens JupyterLab."""
    assert learners_lab.main(["--folder", str(folder), "--update"]) == 0


@pytest.fixture
def notebook(open_notebook, copied):
    """The short unit, open, with its set-up run."""
    notebook = open_notebook(f"{copied}/{UNIT}/{FILE}")
    notebook.execute("notebook:run-all-cells")
    return notebook


def shown(notebook, words):
    """The output with these words in the active cell, once it is on the screen."""
    output = notebook.page.locator(".jp-Cell.jp-mod-active .jp-OutputArea", has_text=words)
    output.wait_for()
    return output


def test_the_first_page_is_the_map_of_the_course_without_news_and_instructors_panels(lab, page, artifacts):
    page.goto(lab.home())
    preview = page.locator(".jp-MarkdownViewer")
    expect(preview.get_by_role("heading", name="Tensors and Autograd")).to_be_visible()
    units = sorted(path.name for path in (ROOT / "release").iterdir())
    assert [link.inner_text()[:1] for link in preview.locator("td a").all()] == [str(int(name[:2])) for name in units]
    picture = preview.locator("img")
    expect(picture).to_have_attribute("alt", re.compile(f"^A map of {len(units)} units"))
    page.wait_for_function("document.querySelector('.jp-MarkdownViewer img').naturalWidth > 0")
    expect(preview.get_by_role("paragraph").filter(has_text="Next: begin")).to_be_visible()
    commands = page.evaluate("window.jupyterapp.commands.listCommands()")
    assert [command for command in commands if command.startswith("nbgrader:")] == []
    text = page.inner_text("body")
    hidden = ("Create Assignment", "Formgrader", "Nbgrader", "Jupyter news", "Would you like to")
    assert [words for words in hidden if words in text] == []
    page.screenshot(path=artifacts / "first-start.png")

    page.set_viewport_size({"width": 320, "height": 256})  # what 400 % zoom leaves of 1280 by 1024
    page.keyboard.press("Control+B")
    page.screenshot(path=artifacts / "first-start-400-percent.png")
    preview.locator("p a", has_text="1 Creating tensors").click()
    expect(page.locator(".jp-NotebookPanel-toolbar")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 1000})
    expect(page.locator(".jp-NotebookPanel-toolbar >> text=Validate")).to_be_visible()


def test_a_whole_unit_runs_without_an_error_and_its_outputs_are_accessible_in_light_and_dark(open_notebook, artifacts):
    notebook = open_notebook(f"{UNIT}/{FILE}")
    notebook.execute("notebook:run-all-cells")
    cells = notebook.cells()
    outputs = [(cell["source"], output) for cell in cells for output in cell.get("outputs", ())]
    assert not [(source, output["evalue"]) for source, output in outputs if output["output_type"] == "error"]
    checks = [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert len(checks) >= 7
    assert {notebook.record(cell)["status"] for cell in checks} == {"not attempted"}
    notebook.activate(f"{EXERCISE}_tests")
    shown(notebook, "not attempted yet")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.execute("apputils:change-theme", theme=theme)
        assert notebook.accessibility() == []
        notebook.screenshot(artifacts / f"unit-{theme.split()[-1].lower()}.png")


def test_an_answer_is_none_then_wrong_then_right_and_validate_and_progress_say_so(notebook, lab, copied, artifacts):
    assert notebook.check(EXERCISE)["status"] == "not attempted"
    notebook.write(EXERCISE, WRONG)
    assert notebook.check(EXERCISE)["status"] == "wrong"
    output = shown(notebook, "not right yet")
    expect(output.get_by_role("status").first).to_contain_text("not right yet")
    expect(output).to_contain_text("Hint 1 of 2 stands above your answer.")
    notebook.screenshot(artifacts / "wrong.png")
    assert "not right yet" in notebook.validate()

    notebook.write(EXERCISE, RIGHT)
    record = notebook.check(EXERCISE)
    assert record["status"] == "right"
    assert record["score"] == record["points"] > 0
    shown(notebook, f"{EXERCISE}: right")
    assert "Success" in notebook.validate()

    notebook.own("from autogradlab import progress\nprogress()")
    picture = shown(notebook, "Every exercise is right.").locator("img")
    expect(picture).to_have_attribute("alt", re.compile("1 done, 0 begun, 0 untouched; 1 of 1 exercises right"))
    notebook.screenshot(artifacts / "progress.png")
    command = [sys.executable, "-m", "autogradlab", "progress", "--folder", lab.folder / copied]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.rstrip().endswith("Every exercise is right.")


def test_reset_turns_the_answer_cell_into_what_was_given_out_and_shows_what_it_was(notebook, short_release, artifacts):
    stub = cell_of(nbformat.read(short_release, as_version=4), EXERCISE).source
    notebook.write(EXERCISE, WRONG)
    index = notebook.write(EXERCISE, f'from autogradlab import reset\nreset("{EXERCISE}")')
    notebook.until("([index, stub]) => {notebook}.model.cells.get(index).sharedModel.source === stub", [index, stub])
    notebook.activate(EXERCISE)
    output = shown(notebook, "is as it was given out")
    output.get_by_text(f"What {EXERCISE} was until now").click()
    expect(output.locator("pre", has_text="return [0.0] * steps")).to_be_visible()
    notebook.screenshot(artifacts / "reset.png")
    notebook.execute("notebook:run-cell")
    assert notebook.check(EXERCISE)["status"] == "not attempted"


def test_an_update_of_the_release_leaves_the_answer_and_brings_the_new_text(
    notebook, open_notebook, short_release, lab, copied, artifacts
):
    notebook.write(EXERCISE, RIGHT)
    notebook.own("mine = 1")
    notebook.execute("docmanager:save")
    released = nbformat.read(short_release, as_version=4)
    (contract,) = [cell for cell in released.cells if cell.source.startswith(TITLE)]
    contract.source += "\n\nThis sentence is new."
    nbformat.write(released, short_release)
    update(lab.folder / copied)

    notebook = open_notebook(f"{copied}/{UNIT}/{FILE}")
    notebook.execute("notebook:run-all-cells")
    sources = [cell["source"] for cell in notebook.cells()]
    assert RIGHT in sources
    assert "mine = 1" in sources
    expect(notebook.page.get_by_role("paragraph").filter(has_text="This sentence is new.")).to_be_visible()
    assert notebook.check(EXERCISE)["status"] == "right"
    notebook.screenshot(artifacts / "update.png")
    (kept,) = (lab.folder / copied / "kept").rglob(FILE)
    assert "mine = 1" in [cell.source for cell in nbformat.read(kept, as_version=4).cells]


def test_after_the_kernel_died_the_answers_are_there_and_the_way_on_works(notebook, artifacts):
    notebook.write(EXERCISE, RIGHT)
    notebook.own("import os\nos._exit(1)", wait=False)
    dialog = notebook.page.locator(".jp-Dialog", has_text="Kernel Restarting")
    expect(dialog).to_contain_text("appears to have died")
    notebook.screenshot(artifacts / "kernel-death.png")
    dialog.locator("button.jp-mod-accept").click()
    dialog.wait_for(state="detached")
    notebook.until("{panel}.sessionContext.session.kernel.status === 'idle'")
    notebook.execute("notebook:delete-cell")

    notebook.activate(f"{EXERCISE}_tests")
    notebook.start("notebook:restart-and-run-to-selected")
    question = notebook.page.locator(".jp-Dialog", has_text="Restart Kernel?")
    question.locator("button.jp-mod-accept").click()
    shown(notebook, f"{EXERCISE}: right")


def test_a_notebook_of_somebody_else_s_shows_its_pictures_and_hints_before_it_is_trusted(
    notebook, open_notebook, lab, copied, artifacts
):
    notebook.write(EXERCISE, WRONG)
    notebook.check(EXERCISE)
    notebook.own("from autogradlab import progress\nprogress()")
    notebook.execute("docmanager:save")
    path = lab.folder / copied / UNIT / FILE
    book = nbformat.read(path, as_version=4)
    book.cells[0].source += "\n\nFrom somebody else."  # so that it is not the notebook that was signed
    (progress,) = [output for cell in book.cells if "progress()" in cell.source for output in cell.outputs]
    progress.data["text/html"] += "<script>document.title = 'run'</script>"
    nbformat.write(book, path.with_name("theirs.ipynb"))

    theirs = open_notebook(f"{copied}/{UNIT}/theirs.ipynb")
    assert theirs.page.evaluate(f"{theirs.NOTEBOOK}.model.cells.get({len(book.cells) - 1}).trusted") is False
    picture = theirs.page.locator(".jp-OutputArea img")
    expect(picture).to_have_attribute("alt", re.compile("^A map of 1 units"))
    theirs.page.wait_for_function("document.querySelector('.jp-OutputArea img').naturalWidth > 0")
    expect(theirs.page.locator(".jp-OutputArea", has_text="not right yet").locator("table").first).to_be_visible()
    hint = theirs.page.locator(".jp-MarkdownCell details", has_text="Hint 1")
    hint.locator("summary").click()
    expect(hint).to_have_attribute("open", "")
    assert theirs.page.title() != "run"
    theirs.screenshot(artifacts / "untrusted.png")


def test_the_keyboard_alone_opens_runs_reads_a_hint_checks_and_validates(lab, page, opened_notebook, copied, artifacts):
    page.goto(lab.page(f"{copied}/start.md"))
    page.locator(".jp-MarkdownViewer td a").wait_for()
    keyboard = page.keyboard

    def press(key, until, most=80):
        """Press a key until the element that has the focus is the right one."""
        seen = []
        for _ in range(most):
            seen.append(page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
            if page.evaluate(f"() => {{ const at = document.activeElement; return Boolean({until}); }}"):
                return
            keyboard.press(key)
        pytest.fail(f"{most} times {key} did not lead to {until}, but to {seen}")

    press("Tab", "at.matches('.jp-MarkdownViewer td a')")
    keyboard.press("Enter")
    notebook = opened_notebook()
    cells = notebook.cells()
    (hint,) = [number for number, cell in enumerate(cells) if "<summary>Hint 1<" in cell["source"]]
    press("Tab", "at.closest('.jp-Notebook')")
    for number in range(hint):
        notebook.until("number => {notebook}.activeCellIndex === number", number)
        keyboard.press("Shift+Enter")
    press("Tab", "at.matches('summary') && at.innerText === 'Hint 1'", most=3)
    keyboard.press("Enter")
    expect(page.locator("details[open]", has_text="Hint 1")).to_be_visible()
    page.screenshot(path=artifacts / "keyboard-hint.png")
    keyboard.press("Escape")
    answer = next(number for number, cell in enumerate(cells) if cell["metadata"].get("nbgrader"))
    for _ in range(answer - hint):
        keyboard.press("ArrowDown")
    notebook.until("number => {notebook}.activeCellIndex === number", answer)
    keyboard.press("Enter")
    keyboard.press("Control+A")
    keyboard.insert_text(RIGHT)
    keyboard.press("Shift+Enter")
    keyboard.press("Shift+Enter")
    expect(page.get_by_role("status").filter(has_text=f"{EXERCISE}: right")).to_be_visible()
    keyboard.press("Escape")  # out of the new cell that JupyterLab makes below the last one
    keyboard.press("Control+S")
    press("Shift+Tab", "at.closest('.jp-NotebookPanel-toolbar')")
    press("ArrowRight", "at.innerText === 'Validate' || at.shadowRoot?.host.innerText === 'Validate'", most=15)
    keyboard.press("Enter")
    dialog = page.locator(".jp-Dialog", has_text="Validation Results")
    expect(dialog).to_contain_text("Success")
    page.screenshot(path=artifacts / "keyboard-validated.png")
    keyboard.press("Enter")
    dialog.wait_for(state="detached")
