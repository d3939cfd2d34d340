"""Hostile and unlucky cells in the answers of a real unit, graded by the real command: each has its right outcome."""

import copy
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest
from left_over import left_over, processes_of

ROOT = Path(__file__).resolve().parent.parent
CASES = Path(__file__).parent / "cases" / "attacks"
UNIT = "05_accumulating_gradients"
#: A function of tensors, with exercises on gradients after it.
ANSWER = "fresh_gradients"
TEST = f"{ANSWER}_tests"
SECONDS = 10
EXPECTED = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))
FIXTURES = json.loads((CASES / "submission.json").read_text(encoding="utf-8"))["fixtures"]
#: The limits that a message may name.
LIMITS = {"timeout", "memory", "disk", "output", "processes", "threads", "files"}
#: Left out of the tree that must not change: what grading itself writes.
WRITTEN = (
    "course/grading/autograded",
    "course/grading/feedback",
    "course/grading/results",
    "course/grading/gradebook.db",
    "out.json",
    "cache",
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def _bound(kind):
    """A socket on that port; another run of these tests on this machine may have it for a while."""
    one, deadline = socket.socket(socket.AF_INET, kind), time.monotonic() + 200
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
    while True:
        try:
            one.bind(("127.0.0.1", 47123))
            return one
        except OSError:
            if time.monotonic() > deadline:
                one.close()
                raise
            time.sleep(0.5)


class Listener:
    """Something to reach on the port that the payloads try."""

    def __init__(self):
        self.heard = []
        self._sockets = [_bound(socket.SOCK_STREAM), _bound(socket.SOCK_DGRAM)]
        self._sockets[0].listen()
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._receive, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.heard.append(self._sockets[0].accept()[1])
            except OSError:
                return

    def _receive(self):
        while True:
            try:
                self.heard.append(self._sockets[1].recvfrom(100))
            except OSError:
                return

    def close(self):
        for one in self._sockets:
            one.close()


def released():
    return nbformat.read(ROOT / "release" / UNIT / f"{UNIT}.ipynb", 4)


def solutions():
    source = nbformat.read(ROOT / "source" / UNIT / f"{UNIT}.ipynb", 4)
    marks = re.compile(r"^.*### (BEGIN|END) SOLUTION.*\n?", re.MULTILINE)
    return {
        cell.metadata.nbgrader.grade_id: marks.sub("", cell.source)
        for cell in source.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def cell_of(notebook, grade_id):
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def answered(first):
    """The release with right answers, and this one in the exercise that is attacked."""
    notebook = released()
    for name, source in solutions().items():
        cell_of(notebook, name).source = source
    cell_of(notebook, ANSWER).source = first
    return notebook


def payload(path):
    return (
        path.read_text(encoding="utf-8").replace("__ANSWER__", ANSWER).replace("# @@REFERENCE@@", solutions()[ANSWER])
    )


WRONG = f"def {ANSWER}(*args, **kwargs):\n    return 123456.0\n"


def write(folder, notebook):
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{UNIT}.ipynb")


def apply(folder, changes):
    """Write a submission that was changed as one of the fixtures says."""
    right = any(change["op"] == "correct_answer" for change in changes)
    notebook = answered(solutions()[ANSWER] if right else WRONG)
    test, answer = cell_of(notebook, TEST), cell_of(notebook, ANSWER)
    places = {"first_test": test, "first_answer": answer}
    later = []
    for change in changes:
        cell = places.get(change.get("cell"))
        match change["op"]:
            case "metadata":
                cell.metadata.update(change["set"])
            case "insert":
                notebook.cells.insert(change["index"], nbformat.v4.new_code_cell(change["source"]))
            case "source":
                cell.source = change["text"]
            case "append_source":
                cell.source += change["text"]
            case "cell_type":
                cell.cell_type = change["value"]
                del cell["outputs"], cell["execution_count"]
            case "duplicate":
                double = copy.deepcopy(cell) | {"id": "a-double", "source": change["source"]}
                notebook.cells.append(nbformat.from_dict(double))
            case "nbgrader":
                cell.metadata.nbgrader.update(change["set"])
            case "outputs":
                cell.outputs = [nbformat.from_dict(output) for output in change["value"]]
            case "insert_big":
                text = "x" * (change["megabytes"] << 20)
                notebook.cells.insert(change["index"], nbformat.v4.new_markdown_cell(text))
            case "correct_answer":
                pass
            case _:
                later.append(change)
    folder.mkdir(parents=True)
    if not any(change["op"] == "no_notebook" for change in later):
        (folder / f"{UNIT}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    for change in later:
        match change["op"]:
            case "symlink":
                (folder / change["path"]).symlink_to(change["target"])
            case "file":
                # A folder can hold a name that leads outside only with the other system's separators.
                place = folder / change["path"].replace("/", "\\")
                place.write_text(change["text"], encoding="utf-8")
            case "raw_repeat":
                (folder / f"{UNIT}.ipynb").write_text(change["text"] * change["times"], encoding="utf-8")
            case "no_notebook":
                pass
            case other:
                raise AssertionError(f"nobody knows the operation {other}")


def digest(root):
    """What lies where in the tree, beside what grading writes."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and not path.relative_to(root).as_posix().startswith(WRITTEN)
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """All payloads and fixtures, each a learner's submission beside two honest ones, graded by one command."""
    root = tmp_path_factory.mktemp("attacked")
    course = root / "course"
    shutil.copytree(ROOT / "course" / "units", course / "course" / "units")
    for name in ("misconceptions.toml", "jupytext.toml"):
        shutil.copy(ROOT / "course" / name, course / "course")
    for name in ("source", "release"):
        shutil.copytree(ROOT / name, course / name)
    shutil.copy(ROOT / "nbgrader_config.py", course)
    submitted = course / "grading" / "submitted"
    for name in ("a-honest", "z-honest"):
        write(submitted / name / UNIT, answered(solutions()[ANSWER]))
    for path in sorted(CASES.glob("*.py")):
        write(submitted / f"p{path.name[:3]}" / UNIT, answered(payload(path)))
    for fixture in FIXTURES:
        apply(submitted / fixture["name"] / UNIT, fixture["changes"])
    # What the payloads look for, all of it false.
    hidden = "assert secret == 'HIDDEN'\n"
    for place in ("gradebook.db", "grading/autograded/x-other/hidden.py", "hidden/source/ps1/hidden.py"):
        path = course / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"SQLite format 3\0" + hidden.encode())
    home = root / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".netrc").write_text("machine HIDDEN login HIDDEN password HIDDEN\n")
    (home / ".ssh" / "id_rsa").write_text("HIDDEN\n")
    before = digest(root)
    listener = Listener()
    environment = os.environ | {"HOME": str(home), "GRADER_CANARY": "HIDDEN", "XDG_CACHE_HOME": str(root / "cache")}
    command = [sys.executable, "-m", "autograder", "grade", "--course", course, "--json", root / "out.json"]
    done = subprocess.run(
        [*command, "--cell-timeout", str(SECONDS)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    listener.close()
    return {
        "root": root,
        "course": course,
        "done": done,
        "found": json.loads((root / "out.json").read_text(encoding="utf-8")) if (root / "out.json").is_file() else None,
        "before": before,
        "after": digest(root),
        "heard": listener.heard,
    }


@pytest.fixture(scope="module")
def records(run):
    assert run["found"] is not None, run["done"].stderr
    return {record["student"]: record for record in run["found"]["submissions"]}


def others_keep_their_points(record):
    return [
        (name, cell["score"], cell["message"])
        for name, cell in record["cells"].items()
        if name != TEST and cell["score"] != cell["max"]
    ]


def test_the_sandbox_is_standard_and_the_run_says_that_some_were_not_graded(run):
    assert run["found"]["level"] in ("STANDARD", "STRONG")
    assert run["done"].returncode == 1, run["done"].stderr


def test_honest_submissions_are_graded_beside_all_of_them(records):
    for name in ("a-honest", "z-honest"):
        assert records[name]["status"] == "graded"
        assert all(cell["score"] == cell["max"] and cell["refereed"] for cell in records[name]["cells"].values())


def test_nothing_outside_changed_and_nothing_was_reached(run):
    assert run["after"] == run["before"]
    assert run["heard"] == []


def test_no_marker_is_in_any_output_record_page_or_name(run):
    said = run["done"].stdout + run["done"].stderr + (run["root"] / "out.json").read_text(encoding="utf-8")
    assert "PWNED:" not in said
    for path in run["course"].rglob("*"):
        assert "PWNED" not in path.name or "submitted" in path.parts, path
    for path in (run["course"] / "grading" / "autograded").rglob("*.ipynb"):
        for cell in nbformat.read(path, 4).cells:
            assert "PWNED" not in json.dumps(cell.get("outputs", [])), (path, cell.source)


def test_no_process_is_left(run):
    assert left_over(run["root"]) == []
    with subprocess.Popen(["sleep", "60"], env={"HOME": str(run["root"])}) as left:
        assert processes_of(run["root"]) == [left.pid]
        left.kill()


@pytest.mark.parametrize("name", sorted(EXPECTED["expected"]))
def test_a_cell_has_its_right_outcome(records, run, name):
    record, kind = records[f"p{name[:3]}"], EXPECTED["expected"][name]
    cell = record["cells"][TEST]
    assert record["status"] == "graded"
    assert others_keep_their_points(record) == []
    limit = EXPECTED["details"][name].get("max_seconds", 90)
    assert record["seconds"] <= limit
    if kind == "full":
        assert cell["score"] == cell["max"], cell["message"]
    elif kind == "full_or_message":
        assert cell["score"] == cell["max"] or cell["message"], cell
    else:
        assert cell["score"] == 0
        assert cell["reason"] is not None
    if kind == "zero_limit":
        assert cell["reason"] in LIMITS, cell
        assert "limit" in cell["message"] or "not allowed" in cell["message"], cell
    if kind == "zero_crash":
        assert cell["reason"] == "died", cell
        assert "signal" in cell["message"] or "exit status" in cell["message"], cell


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_a_tampered_submission_has_its_right_outcome(records, fixture):
    record, kind = records[fixture["name"]], fixture["expect"]
    if kind == "reported":
        assert record["status"] in ("unreadable", "skipped")
        assert record["message"]
        assert all(cell["score"] is None for cell in record["cells"].values())
        return
    assert record["status"] == "graded"
    assert others_keep_their_points(record) == []
    cell = record["cells"][TEST]
    assert cell["score"] == (cell["max"] if kind == "full" else 0)
