"""Damaged, hostile and unlucky submissions to another nbgrader course, graded by the real command."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder import gradebook
from autograder.folders import Folders

CASES = Path(__file__).parent / "cases" / "submissions"
ROOT = Path(__file__).resolve().parent.parent
EXPECTED = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in CASES.glob("*/expected.json")}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def named(case, student):
    """The students of all cases are graded in one run; only together with their case are their names unique."""
    return f"{case}-{student}"


def command(course, json_file):
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "grade", "--course", course, "--json", json_file],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert json_file.is_file(), done.stderr
    found = json.loads(json_file.read_text(encoding="utf-8"))
    return done, {record["student"]: record for record in found["submissions"]}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Every case in one course, graded once, and the second attempts of those that have one after that."""
    course = tmp_path_factory.mktemp("cases") / "course"
    shutil.copytree(CASES / "course", course)
    for case in EXPECTED:
        for student in (CASES / case / "submitted").iterdir():
            shutil.copytree(student, course / "submitted" / named(case, student.name))
    done, records = command(course, course.parent / "first.json")
    seconds = [place for case in EXPECTED for place in (CASES / case).glob("submitted-2/*")]
    for place in seconds:
        folder = course / "submitted" / named(place.parent.parent.name, place.name)
        shutil.rmtree(folder)
        shutil.copytree(place, folder)
    _, again = command(course, course.parent / "second.json")
    return course, done, records, again


STUDENTS = [(case, student) for case, expected in EXPECTED.items() for student in expected["students"]]


@pytest.mark.parametrize(("case", "student"), STUDENTS, ids=lambda name: name)
def test_a_submission_has_its_right_outcome(graded, case, student):
    expected = EXPECTED[case]["students"][student]
    record = graded[3][named(case, student)]
    assert record["status"] == expected["status"]
    assert {name: cell["score"] for name, cell in record["cells"].items()} == expected["scores"]
    for name, reason in expected.get("reasons", {}).items():
        assert record["cells"][name]["reason"] == reason
    assert bool(record["repairs"]) >= expected.get("repaired", False)
    assert bool(record["flags"]) >= expected.get("flagged", False)
    assert record["seconds"] <= expected.get("max_seconds", 60)


def test_a_record_of_an_unchanged_submission_is_the_earlier_one(graded):
    _, _, first, again = graded
    changed = {named(place.parent.parent.name, place.name) for place in CASES.glob("*/submitted-2/*")}
    assert {name for name, record in again.items() if record != first[name]} == changed


def test_the_exit_status_says_whether_all_were_graded(graded):
    _, done, records, _ = graded
    assert done.returncode == max(expected["run_exit"] for expected in EXPECTED.values())
    assert {record["status"] for record in records.values()} == {"graded"}


def test_the_gradebook_holds_these_scores_and_no_marks_by_hand(graded):
    with gradebook.opened(Folders(graded[0])) as opened:
        for case, student in STUDENTS:
            submission = opened.find_submission_notebook("problem1", "ps1", named(case, student))
            found = {grade.name: grade.auto_score for grade in submission.grades}
            assert found == EXPECTED[case]["students"][student]["scores"]
            assert not [grade.name for grade in submission.grades if grade.manual_score is not None]


def test_a_written_answer_waits_for_a_person(graded):
    with gradebook.opened(Folders(graded[0])) as opened:
        for case, student in STUDENTS:
            waits = opened.find_grade("explain", "problem1", "ps1", named(case, student)).needs_manual_grade
            assert waits == (EXPECTED[case]["students"][student]["scores"]["explain"] is None)


def test_ordinary_test_cells_are_marked_as_not_refereed_and_their_results_shown_as_nbgrader_shows_them(graded):
    course, _, records, _ = graded
    assert not any(cell["refereed"] for record in records.values() for cell in record["cells"].values())
    path = course / "autograded" / named("00-control", "naive") / "ps1" / "problem1.ipynb"
    shown = {
        cell.metadata.nbgrader.grade_id: [output.data["text/plain"] for output in cell.outputs if "data" in output]
        for cell in nbformat.read(path, 4).cells
        if cell.metadata.get("nbgrader", {}).get("grade") and cell.cell_type == "code"
    }
    assert shown == {"test_squares": [], "test_mean": ["1.0"]}
