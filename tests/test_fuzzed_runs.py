"""A class of notebooks damaged at random, 100 in every run and 1,000 with --long: graded, all of it, by one command."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest
from damages import damaged

from autograder import gradebook
from autograder.engine.limits import WORDS
from autograder.folders import Folders
from autograder.grading import Options, grade, limits_of

CASES = Path(__file__).parent / "cases" / "submissions"
REASONS = {None, "wrong", "not attempted", "missing", "not run", "invalid score", *WORDS}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_no_damage_stops_a_run_or_goes_beyond_the_points(tmp_path, count):
    course = tmp_path / "course"
    shutil.copytree(CASES / "course", course)
    seeds = [path for path in CASES.glob("*/submitted*/*/ps1/problem1.ipynb") if "loop" not in str(path)]
    texts = [json.loads(path.read_text(encoding="utf-8-sig")) for path in sorted(seeds)]
    for number in range(count):
        dice = random.Random(f"run {number}")
        folder = course / "submitted" / f"s{number:04}" / "ps1"
        folder.mkdir(parents=True)
        (folder / "problem1.ipynb").write_bytes(damaged(dice.choice(texts), dice))
    limits = limits_of(Folders(course), cell_seconds=5.0)
    done = grade(root=course, options=Options(limits=limits))
    assert len(done) == count
    assert {graded.status for graded in done} == {"graded", "unreadable"}
    with gradebook.opened(Folders(course)) as opened:
        kept = {one.student.id: one.score for one in opened.assignment_submissions("ps1")}
    for graded in done:
        (record,) = graded.notebooks
        scores = [cell["score"] for cell in record["cells"].values()]
        assert set(record["cells"]) == {"test_squares", "test_mean", "explain"}
        assert all(cell["reason"] in REASONS for cell in record["cells"].values())
        if graded.status == "graded":
            assert all(
                score is None or 0 <= score <= cell["max"] for score, cell in zip(scores, record["cells"].values())
            )
            assert kept[graded.student] == sum(score or 0 for score in scores)
        else:
            assert scores == [None, None, None] and record["message"]
