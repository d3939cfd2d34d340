"""The demo, run on the real unit with a small class: what it shows, what it skips, and what it refuses to call fine."""

import json
import shutil
from pathlib import Path

import pytest

from autograder import classroom
from autograder.demo import demo, note_built
from autograder.folders import Folders

ROOT = Path(__file__).resolve().parent.parent
UNIT = "05_accumulating_gradients"
LEARNERS = 4


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("demo")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    for folder in ("course", "source", "release"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    folders = Folders(root)
    # The repository's built files are current, which test_build proves; building them again takes long.
    note_built(folders, UNIT)
    return folders


@pytest.fixture
def run(course, capsys):
    """Runs the demo: (mistakes, standard output, standard error)."""

    def run():
        wrong = demo([UNIT], course.root, LEARNERS)
        return wrong, *capsys.readouterr()

    return run


def test_the_demo_names_every_wrong_answer_as_what_was_put_in(course, run):
    wrong, out, _ = run()
    assert wrong == []
    assert "Every answer was graded as what had been put in" in out
    plan = json.loads(classroom.plan_path(course, UNIT).read_text(encoding="utf-8"))
    entries = [entry for given in plan["learners"].values() for entry in given.values()]
    put_in = [entry["id"] for entry in entries if entry["kind"] == "misconception"]
    assert put_in and all(identifier in out for identifier in put_in)
    assert "python3 run.py lab" in out


def test_everything_it_speaks_of_is_there(course):
    assert (course.reports(UNIT) / "index.html").is_file()
    assert len(list(course.reports(UNIT).glob("*.png"))) == 3
    assert (course.grading / "gradebook.db").is_file()
    assert len(list(course.step("feedback", "", "").glob(f"*/{UNIT}/{UNIT}.html"))) == LEARNERS


def test_feedback_holds_no_instructors_code_and_is_small(course):
    marker = "BEGIN SOLUTION"
    assert marker in course.notebook("source", ".", UNIT).read_text(encoding="utf-8")
    for page in course.step("feedback", "", "").glob(f"*/{UNIT}/{UNIT}.html"):
        text = page.read_text(encoding="utf-8")
        assert marker not in text and "@misconception" not in text and "<script" not in text
        assert page.stat().st_size < 300_000


def test_done_again_it_grades_nothing_and_says_so(run):
    wrong, _, err = run()
    assert wrong == []
    assert f"Build: {UNIT} unchanged since the last run and skipped" in err
    assert f"Submissions: {LEARNERS} unchanged since the last run and skipped" in err


@pytest.mark.parametrize("name", ["course/units/{}/lesson.py", "course/misconceptions.toml", "release/{}/cases.py"])
def test_whatever_a_build_reads_or_makes_calls_for_a_build_when_it_changes(course, name):
    path, before = course.root / name.format(UNIT), course.build_stamp(UNIT)
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    changed = course.build_stamp(UNIT)
    path.write_bytes(content)
    assert changed != before == course.build_stamp(UNIT)


def test_a_wrong_name_is_found_and_listed(course, run):
    plan = json.loads(classroom.plan_path(course, UNIT).read_text(encoding="utf-8"))
    learner, exercise = next(
        (learner, exercise)
        for learner, given in plan["learners"].items()
        for exercise, entry in given.items()
        if entry["kind"] == "misconception"
    )
    result = course.result(UNIT, learner)
    result["notebooks"][0]["cells"][f"{exercise}_tests"]["misconceptions"] = ["X99"]
    course.note_result(UNIT, learner, result)
    wrong, out, _ = run()
    assert len(wrong) == 1 and wrong[0].startswith(f"{learner}, {exercise}: ") and "named X99" in wrong[0]
    assert wrong[0] in out
