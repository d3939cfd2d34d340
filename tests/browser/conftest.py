"""A real JupyterLab with the learner's profile, and a real Chromium that looks at it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from autogradlab.verdicts import MIME
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",  # which Chromium refuses to root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing here may need a network
]
TOKEN = "learner"
PANEL = "window.jupyterapp.shell.currentWidget"
NOTEBOOK = f"{PANEL}.content"
START = 60  # seconds that the server may take
PATIENCE = 60  # seconds that anything in the page may take, such as a notebook that is run
ARTIFACTS = Path(__file__).resolve().parents[2] / "dist" / "browser"


@dataclass(frozen=True)
class Server:
    address: str
    folder: Path

    def page(self, path: str | None = None) -> str:
        """The address at which JupyterLab opens, with a file of the folder, in a fresh workspace."""
        return f"{self.address}/lab{f'/tree/{path}' if path else ''}?token={TOKEN}&reset"

    def home(self) -> str:
        """The address that JupyterLab opens by itself when it starts."""
        return f"{self.address}/?token={TOKEN}"


def environment(home: Path) -> dict[str, str]:
    """The environment variables with which Jupyter neither sees nor leaves anything outside `home`."""
    names = "JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR JUPYTERLAB_SETTINGS_DIR JUPYTERLAB_WORKSPACES_DIR"
    folders = {name: str(home / name.lower()) for name in [*names.split(), "IPYTHONDIR", "MPLCONFIGDIR"]}
    # As run.py sets it: nbgrader calls programs by their names.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, **folders, "PATH": path}


def wait_until_up(address: str, process: subprocess.Popen, log: Path) -> None:
    """Return when the server answers; fail with what it wrote if it does not."""
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=2):
                return
        except urllib.error.URLError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not come up at {address}:\n{log.read_text(encoding='utf-8')}")


@contextmanager
def jupyterlab(home: Path, folder: Path, command: list):
    """A JupyterLab that `command` starts in a session of its own, on a folder, until the context ends."""
    settings = home / "jupyterlab_settings_dir" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells are drawn, not only those in sight, so that axe sees them.
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}', encoding="utf-8")
    log = home / "server.log"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    options += [f"--IdentityProvider.token={TOKEN}", "--LabApp.expose_app_in_browser=True"]
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, *command, *options],
            env=environment(home),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        wait_until_up(address, process, log)
        yield Server(address, folder)
    finally:
        if os.name == "nt":
            process.terminate()  # kernels look there whether whoever started them is alive
        else:
            os.killpg(process.pid, signal.SIGTERM)  # kernels too
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """`run.py lab` on a learner's copy of the release, until the module ends."""
    home = tmp_path_factory.mktemp("lab")
    folder = home / "work"
    with jupyterlab(home, folder, ["-m", "autogradlab.lab", "--folder", folder]) as server:
        yield server


@pytest.fixture(scope="module")
def serving(browser):
    """What starts another JupyterLab: `serving(home, folder, command)` is a context with its Server.

    As `lab`, it asks for the browser first: where there is none, nothing is started.
    """
    return jupyterlab


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium. It ends with the module: while it is there, an event loop runs in this process."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH: on Debian `apt install chromium`")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def sheet(browser):
    """A page for a module's own HTML pages, in which their policy does not keep axe out."""
    context = browser.new_context(bypass_csp=True)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The folder for screenshots: BROWSER_ARTIFACTS if it is set, else one that git ignores."""
    folder = Path(os.environ.get("BROWSER_ARTIFACTS", ARTIFACTS))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(browser, artifacts, request):
    """An empty page; what it shows when the test ends, also by failing, is kept as a screenshot."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    yield page
    page.screenshot(path=artifacts / f"{request.node.name}.png")
    context.close()


class Notebook:
    """A notebook that is open in JupyterLab, and what a learner does with it."""

    NOTEBOOK = NOTEBOOK

    def __init__(self, page: Page):
        self.page = page
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.ready()

    def ready(self) -> None:
        """Return when there is a kernel that answers; the toolbar's indicator is idle before that, too."""
        self.wait_for(f"{PANEL}.sessionContext.ready")
        self.wait_for(f"{PANEL}.sessionContext.session.kernel.info")

    def wait_for(self, promise: str, argument=None) -> None:
        """Return when a promise of JupyterLab is kept; playwright alone would wait for ever."""
        words = "document.querySelector('.jp-Dialog')?.innerText ?? 'no dialog is open'"
        late = f"new Promise((_, reject) => setTimeout(() => reject(new Error({words})), {PATIENCE * 1000}))"
        self.page.evaluate(f"argument => Promise.race([{promise}, {late}])", argument)

    def execute(self, command: str, **arguments) -> None:
        """Run a command of JupyterLab to its end; menus are slower and were seen to miss a click."""
        self.wait_for("window.jupyterapp.commands.execute(...argument)", [command, arguments])

    def start(self, command: str) -> None:
        """Begin a command of JupyterLab that ends later, or asks something before."""
        self.page.evaluate("command => void window.jupyterapp.commands.execute(command)", command)

    def until(self, condition: str, argument=None) -> None:
        """Return when a condition holds, in which {panel} and {notebook} are JupyterLab's."""
        self.page.wait_for_function(condition.replace("{notebook}", NOTEBOOK).replace("{panel}", PANEL), arg=argument)

    def cells(self) -> list[dict]:
        """The cells as JupyterLab holds them, outputs included."""
        return json.loads(self.page.evaluate(f"() => JSON.stringify({NOTEBOOK}.model.toJSON().cells)"))

    def activate(self, grade_id: str) -> int:
        """Make the cell with a grade_id the active one, on the screen; its place."""
        ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in self.cells()]
        index = ids.index(grade_id)
        self.page.evaluate(f"index => {{ {NOTEBOOK}.activeCellIndex = index }}", index)
        self.page.evaluate(f"index => {NOTEBOOK}.scrollToItem(index)", index)
        return index

    def write(self, grade_id: str, source: str) -> int:
        """Replace an answer as a learner does, by typing into its cell, and run it; the cell's place."""
        index = self.activate(grade_id)
        self._type(source)
        self.execute("notebook:run-cell")
        return index

    def own(self, source: str, wait: bool = True) -> None:
        """Write a cell of the learner's own below all others, and run it."""
        self.page.evaluate(f"{NOTEBOOK}.activeCellIndex = {NOTEBOOK}.widgets.length - 1")
        self.execute("notebook:insert-cell-below")
        self.page.evaluate(f"{NOTEBOOK}.scrollToItem({NOTEBOOK}.activeCellIndex)")
        self._type(source)
        if wait:
            self.execute("notebook:run-cell")
        else:
            self.start("notebook:run-cell")

    def _type(self, source: str) -> None:
        self.page.click(".jp-Cell.jp-mod-active .cm-content")
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Escape")

    def check(self, exercise: str) -> dict:
        """The record that an exercise's check leaves in its cell."""
        index = self.activate(f"{exercise}_tests")
        self.execute("notebook:run-cell")
        return self.record(self.cells()[index])

    @staticmethod
    def record(cell: dict) -> dict:
        """The record in a check's output."""
        (found,) = [output["data"][MIME] for output in cell["outputs"] if MIME in output.get("data", {})]
        return found

    def validate(self) -> str:
        """The text of the Validate button's answer."""
        self.execute("docmanager:save")
        self.page.click(".jp-NotebookPanel-toolbar >> text=Validate")
        dialog = self.page.locator(".jp-Dialog", has_text="Validation Results")
        dialog.wait_for()
        text = dialog.inner_text()
        dialog.locator("button.jp-mod-accept").click()
        dialog.wait_for(state="detached")
        return text

    def accessibility(self) -> list[dict]:
        """What axe has against the outputs, all of which it sees."""
        outputs = sum(len(cell.get("outputs", ())) for cell in self.cells())
        assert outputs > 0
        drawn = "document.querySelectorAll('.jp-OutputArea-output').length"
        self.page.wait_for_function(f"outputs => {drawn} >= outputs", arg=outputs)
        return Axe().run(self.page, context=".jp-OutputArea").response["violations"]

    def screenshot(self, path: Path) -> None:
        self.page.screenshot(path=path)


@pytest.fixture
def open_notebook(page, lab):
    """Opens a notebook of the learner's copy by its path."""

    def opened(path: str) -> Notebook:
        page.goto(lab.page(path))
        return Notebook(page)

    return opened


@pytest.fixture
def opened_notebook(page):
    """The notebook that JupyterLab is opening, or has opened."""
    return lambda: Notebook(page)
