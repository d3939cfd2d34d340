"""Intake of notebooks damaged at random, 100 in every run and 1,000 with --long: none raises, each comes out whole."""

import json
import random
import shutil
from pathlib import Path

import nbformat
import pytest
from damages import damaged

from autograder.folders import Folders
from autograder.intake import Master, take

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "submissions"
UNIT = "05_accumulating_gradients"
EACH = 25


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
    assert readable > EACH * 0.5
