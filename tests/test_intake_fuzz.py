"""Intake of notebooks damaged at random, 100 in every run and 1,000 with --long: none raises, each comes out whole."""

import copy
import json
import random
import shutil
from pathlib import Path

import nbformat
import pytest

from autograder.folders import Folders
from autograder.intake import Master, take

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "submissions"
UNIT = "05_accumulating_gradients"
EACH = 25
JUNK = [None, True, -1, 10**30, 1.5, "", "x", "\ud800", "\x00", "é\u2028", [], {}, [[]], {"a": {"b": [1]}}, ["a", 2]]


@pytest.fixture(scope="module")
def masters(tmp_path_factory):
    """The small course and a unit of ours: name -> (master, notebooks to be damaged, the name they should have)."""
    found = {}
    for assignment, name in {"ps1": "problem1", UNIT: UNIT}.items():
        root = tmp_path_factory.mktemp(name)
        shutil.copy(CASES / "course" / "nbgrader_config.py", root)
        made = CASES / "course" if assignment == "ps1" else ROOT
        shutil.copytree(made / "source" / assignment, root / "source" / assignment)
        seeds = [made / "release" / assignment / f"{name}.ipynb"]
        seeds += sorted(CASES.glob("*/submitted*/*/ps1/problem1.ipynb")) if assignment == "ps1" else []
        texts = [json.loads(seed.read_text(encoding="utf-8-sig")) for seed in seeds]
        found[assignment] = Master.of(Folders(root), assignment), texts, name
    return found


# Each damages a notebook in place, as people, editors and bad luck do.


def drop(notebook, dice):
    cells = notebook["cells"]
    del cells[dice.randrange(len(cells))]


def double(notebook, dice):
    cells = notebook["cells"]
    cells.insert(dice.randrange(len(cells) + 1), copy.deepcopy(dice.choice(cells)))


def move(notebook, dice):
    cells = notebook["cells"]
    cells.insert(dice.randrange(len(cells)), cells.pop(dice.randrange(len(cells))))


def merge(notebook, dice):
    cells = notebook["cells"]
    place = dice.randrange(len(cells))
    if place + 1 < len(cells):
        below = cells.pop(place + 1)
        cells[place]["source"] = text(cells[place]) + "\n" + text(below)


def split(notebook, dice):
    cells = notebook["cells"]
    place = dice.randrange(len(cells))
    lines = text(cells[place]).splitlines(keepends=True)
    cut = dice.randrange(len(lines) + 1)
    lower = copy.deepcopy(cells[place])
    cells[place]["source"], lower["source"] = lines[:cut], lines[cut:]
    cells.insert(place + 1, lower)


def retype(notebook, dice):
    dice.choice(notebook["cells"])["cell_type"] = dice.choice(["code", "markdown", "raw", "heading", None])


def rewrite(notebook, dice):
    dice.choice(notebook["cells"])["source"] = dice.choice(["", "pass", "def f(:", "%%bash\nls", "a\r\nb", "x" * 10**5])


def strip(notebook, dice):
    share = dice.choice([0.2, 1.0])
    for cell in notebook["cells"]:
        if dice.random() < share:
            cell["metadata"] = {}
            cell.pop("id", None)


def rename(notebook, dice):
    marked = [
        cell for cell in notebook["cells"] if isinstance(cell.get("metadata"), dict) and "nbgrader" in cell["metadata"]
    ]
    if marked:
        marks = dice.choice(marked)["metadata"]["nbgrader"]
        if isinstance(marks, dict):
            others = [cell["metadata"]["nbgrader"] for cell in marked]
            ids = [other.get("grade_id") for other in others if isinstance(other, dict)]
            marks["grade_id"] = dice.choice([*ids, "stranger", "", 7])


def tag(notebook, dice):
    metadata = dice.choice(notebook["cells"]).get("metadata")
    if isinstance(metadata, dict):
        metadata["tags"] = dice.choice([["skip-execution"], ["a", 1], "setup", {"x": 1}])


def litter(notebook, dice):
    """Puts junk in the place of a value anywhere in the notebook."""
    node = notebook
    for _ in range(dice.randrange(1, 6)):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = dice.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and dice.random() < 0.8:
            node = node[key]
        else:
            node[key] = dice.choice(JUNK)
            return


DAMAGES = [drop, double, move, merge, split, retype, rewrite, strip, rename, tag, litter]


def text(cell):
    source = cell.get("source")
    return source if isinstance(source, str) else "".join(map(str, source)) if isinstance(source, list) else ""


def damaged(notebook, dice):
    """The bytes of a notebook after a few damages, sometimes of its bytes too."""
    notebook = copy.deepcopy(notebook)
    for _ in range(dice.randrange(1, 8)):
        cells = notebook.get("cells")
        if not isinstance(cells, list) or not cells or not all(isinstance(cell, dict) for cell in cells):
            break
        dice.choice(DAMAGES)(notebook, dice)
    encoding = dice.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])
    data = json.dumps(notebook, indent=dice.choice([None, 1])).encode(encoding)
    if dice.random() < 0.15:
        data = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data[: dice.randrange(len(data))] if dice.random() < 0.05 else data)


def said(taken, words):
    return any(words in sentence for sentence in taken.repairs)


def check(taken, master, name):
    """What holds of every notebook that was taken, whatever it was."""
    assert taken.notebook == name
    assert all(isinstance(sentence, str) and sentence.endswith(".") for sentence in [*taken.repairs, *taken.flags])
    json.dumps([taken.repairs, taken.flags, taken.message]).encode()
    "".join([*taken.repairs, *taken.flags, taken.message]).encode()
    if taken.status == "unreadable":
        assert taken.node is None and len(taken.message) > 20
        return
    assert (taken.status, taken.message) == ("readable", "")
    nbformat.validate(taken.node)
    nbformat.v4.writes(taken.node).encode()
    ours = master.notebooks[name]
    marked = {}
    for cell in taken.node.cells:
        assert cell.metadata.autogradlab.role in {"added", *(one.role for one in ours.cells)}
        assert cell.cell_type != "code" or (cell.outputs, cell.execution_count) == ([], None)
        if "nbgrader" in cell.metadata:
            assert cell.metadata.nbgrader.grade_id not in marked
            marked[cell.metadata.nbgrader.grade_id] = cell
        else:
            assert cell.metadata.autogradlab.role in ("added", "given", "setup", "demonstration")
    assert set(marked) == set(ours.by_id)
    for grade_id, cell in marked.items():
        known = ours.cells[ours.by_id[grade_id]]
        assert {key: value for key, value in cell.metadata.items() if key != "autogradlab"} == known.metadata
        assert cell.cell_type == known.type
        assert cell.source == known.source or not known.is_restored


@pytest.mark.parametrize("assignment", ["ps1", UNIT])
@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.long) for block in range(2, 20))])
def test_a_damaged_notebook_is_taken_or_refused_in_words(masters, tmp_path, assignment, block):
    master, notebooks, name = masters[assignment]
    readable = 0
    for number in range(block * EACH, (block + 1) * EACH):
        dice = random.Random(f"{assignment} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        data = damaged(dice.choice(notebooks), dice)
        (folder / f"{name}.ipynb").write_bytes(data)
        (taken,) = take(folder, master)
        check(taken, master, name)
        if taken.status == "readable":
            readable += 1
            again = tmp_path / f"{number} again"
            again.mkdir()
            (again / f"{name}.ipynb").write_text(nbformat.v4.writes(taken.node), encoding="utf-8")
            (second,) = take(again, master)
            if said(second, "had been split and was joined"):
                continue  # what stood between the halves of an answer was a copy that is gone now
            assert (second.repairs, second.flags) == ((), ())
            assert [cell.source for cell in second.node.cells] == [cell.source for cell in taken.node.cells]
    # Damage that nothing survives would try nothing but the refusals.
    assert EACH * 0.5 < readable < EACH
