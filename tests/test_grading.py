"""Grading a class of the tiny unit: scores, what goes wrong, what is skipped, and nbgrader's own doors."""

import json
import shutil
import stat
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps import NbGraderAPI
from tiny_course import KEEPS, RIGHT, ROOT, UNIT, cell_of, hand_in, tiny_course

from autograder import gradebook, grading
from autograder.engine.limits import Limits
from autograder.folders import Folders, GradingError
from autograder.grading import Options, grade, limits_of
from autograder.nbgrader_context import nbgrader_context
from autograder.records import records

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="the engine's sandbox needs Linux")


def skip_the_test(notebook):
    cell_of(notebook, "slope_tests").metadata["tags"] = ["skip-execution"]


def copy_the_test(notebook):
    notebook.cells.append(nbformat.from_dict(cell_of(notebook, "slope_tests") | {"id": "copy"}))


def demonstration(notebook):
    return next(cell for cell in notebook.cells if "demonstration" in cell.metadata.get("tags", []))


def edit_the_demonstration(notebook):
    demonstration(notebook).source = "print('changed')"


CLASS = {
    "right": (RIGHT,),
    "wrong": (KEEPS,),
    "empty": (None,),
    "skips": (KEEPS, skip_the_test),
    "copies": (RIGHT, copy_the_test),
    "edits": (RIGHT, edit_the_demonstration),
    "cheats": (f"{KEEPS}\ncheck = lambda name: 100.0",),
    "late": (RIGHT,),
    "spoilt": (RIGHT,),
    "dies": ("    import os; os._exit(0)",),
    "hangs": ("    while True:\n        try:\n            pass\n        except BaseException:\n            pass",),
}
QUICK = Options(limits=Limits(cell_seconds=3))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course with its class graded once: (root, outcome by student)."""
    root = tiny_course(tmp_path_factory.mktemp("course"))
    for learner, submission in CLASS.items():
        hand_in(root, learner, *submission)
    hand_in(root, "breaks", RIGHT)
    (root / "grading" / "submitted" / "breaks" / UNIT / f"{UNIT}.ipynb").write_text('{\n "cells": [\n oops')
    done = grade(root=root, options=QUICK, json_file=root / "run.json")
    return root, {graded.student: graded for graded in done}


def cells(course, student):
    return course[1][student].notebooks[0]["cells"]


def scores(root):
    with gradebook.opened(Folders(root)) as opened:
        return {one.student.id: one.score for one in opened.assignment_submissions(UNIT)}


def outputs(root, learner, find):
    path = root / "grading" / "autograded" / learner / UNIT / f"{UNIT}.ipynb"
    return find(nbformat.read(path, as_version=4)).outputs


def test_one_bad_submission_stops_no_other(course):
    statuses = {student: one.status for student, one in course[1].items()}
    assert statuses == dict.fromkeys(CLASS, "graded") | {"breaks": "unreadable"}


def test_what_could_not_be_graded_says_why_and_has_no_score(course):
    assert "line 3" in course[1]["breaks"].reason
    assert all(cell["score"] is None for cell in cells(course, "breaks").values())


def test_a_cell_that_ends_or_outlasts_its_process_costs_its_exercise_and_says_so(course):
    for student, reason, words in (("dies", "died", "exit status 0"), ("hangs", "timeout", "limit of 3 s")):
        cell = cells(course, student)["slope_tests"]
        assert (cell["score"], cell["reason"]) == (0, reason)
        assert words in cell["message"]
        assert cell["message"].endswith("?")


def test_records_and_gradebook_agree(course):
    root, _ = course
    frame = records(UNIT, root).set_index(["student", "exercise"])
    assert frame.loc[("right", "slope"), ["status", "score"]].tolist() == ["right", 2.0]
    assert frame.loc[("wrong", "slope"), "status"] in ("wrong", "partly")
    assert frame.loc[("empty", "slope"), "status"] == "not attempted"
    totals = frame.groupby("student")["score"].sum()
    assert scores(root) == totals.to_dict()


def test_records_list_those_without_a_grade(course):
    frame = records(UNIT, course[0]).set_index(["student", "exercise"])
    assert frame.loc[("breaks", "slope"), "status"] == "unreadable"
    assert frame.loc[("breaks", "slope"), "record"] is None


def test_a_wrong_answer_is_named_by_the_referee(course):
    cell = cells(course, "wrong")["slope_tests"]
    assert cell["refereed"] and cell["misconceptions"] == ["Z01"]


def test_a_test_cell_tagged_to_be_skipped_is_run_all_the_same_and_flagged(course):
    assert cells(course, "skips")["slope_tests"]["misconceptions"] == ["Z01"]
    assert "skip-execution" in " ".join(course[1]["skips"].notebooks[0]["flags"])


def test_a_check_that_was_replaced_earns_nothing(course):
    assert cells(course, "cheats")["slope_tests"]["score"] == cells(course, "wrong")["slope_tests"]["score"]


def test_a_copied_test_cell_counts_once(course):
    assert scores(course[0])["copies"] == 5
    assert "2 times" in " ".join(course[1]["copies"].notebooks[0]["repairs"])


def test_demonstrations_are_run_only_where_the_learner_changed_them(course):
    root, _ = course
    assert outputs(root, "right", demonstration_or_changed) == []
    assert outputs(root, "edits", demonstration_or_changed)[0].text == "changed\n"


def demonstration_or_changed(notebook):
    return next(cell for cell in notebook.cells if "for turn in" in cell.source or "changed" in cell.source)


def test_the_run_as_data_holds_every_submission_and_what_is_enforced(course):
    found = json.loads((course[0] / "run.json").read_text(encoding="utf-8"))
    assert {record["student"] for record in found["submissions"]} == {*CLASS, "breaks"}
    assert found["level"] in ("STANDARD", "STRONG") and found["sandbox"]["files"].startswith("enforced")
    assert set(found["seed"]) == {UNIT}


def test_the_seed_is_drawn_once_and_for_its_owner_alone(course):
    root, _ = course
    path = Folders(root).results_folder / "seeds.json"
    seed = json.loads(path.read_text())[UNIT]
    assert len(bytes.fromhex(seed)) == 32
    grade(root=root, students=["right"], options=QUICK)
    assert json.loads(path.read_text())[UNIT] == seed
    telling = [file for file in root.rglob("*") if file.is_file() and seed.encode() in file.read_bytes()]
    assert len(telling) > len(CLASS)
    assert {stat.S_IMODE(file.stat().st_mode) for file in telling} == {0o600}


def test_a_second_run_grades_nothing_and_says_so(course, capsys):
    root, _ = course
    again = grade(root=root, students=["right", "wrong", "breaks"], options=QUICK)
    assert [one.status for one in again] == ["unreadable", "unchanged", "unchanged"]
    assert again[1].notebooks[0]["cells"] == cells(course, "right")
    assert "2 unchanged since the last run and skipped, " in capsys.readouterr().err


def test_other_limits_and_a_new_seed_grade_again(course):
    root, _ = course
    options = Options(limits=Limits(cell_seconds=4))
    assert [one.status for one in grade(root=root, students=["edits"], options=options)] == ["graded"]
    assert [one.status for one in grade(root=root, students=["edits"], options=options)] == ["unchanged"]


def test_only_a_changed_submission_is_graded_again_and_an_unreadable_one_loses_its_old_marks(course):
    root, _ = course
    assert scores(root)["late"] == scores(root)["spoilt"] == 5
    hand_in(root, "late", KEEPS)
    (root / "grading" / "submitted" / "spoilt" / UNIT / f"{UNIT}.ipynb").write_text("no notebook")
    again = {one.student: one.status for one in grade(root=root, students=["late", "spoilt", "right"], options=QUICK)}
    assert again == {"late": "graded", "spoilt": "unreadable", "right": "unchanged"}
    assert scores(root)["late"] < 5
    assert scores(root)["spoilt"] == 0
    assert not (root / "grading" / "autograded" / "spoilt" / UNIT).exists()


def test_every_submission_has_its_page_when_it_is_graded(course):
    root, _ = course
    pages = {path.parent.parent.name: path for path in (root / "grading" / "feedback").glob(f"*/{UNIT}/{UNIT}.html")}
    assert set(pages) == {*CLASS, "breaks"}
    assert "took too long" in pages["hangs"].read_text(encoding="utf-8")
    assert "line 3" in pages["breaks"].read_text(encoding="utf-8")


def test_nothing_to_grade_says_where_it_looked(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    with pytest.raises(GradingError, match=r"No submission of a built unit lies in .*submitted"):
        grade(root=tmp_path)


def test_a_gradebook_is_made_without_an_activated_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    with nbgrader_context():
        assert gradebook.students_with_submission(Folders(tmp_path), UNIT) == set()
    assert (tmp_path / "grading" / "gradebook.db").is_file()


def test_results_are_kept_whole(course):
    root, _ = course
    kept = json.loads((root / "grading" / "results" / UNIT / "right.json").read_text())
    assert kept["status"] == "graded" and len(kept["stamp"]) == 64
    assert not list((root / "grading" / "results").rglob("*.part"))


def test_limits_come_from_the_command_then_the_course_then_the_engine(tmp_path):
    config = "c = get_config()\nc.CourseDirectory.course_id = 'x'\n"
    (tmp_path / "nbgrader_config.py").write_text(config)
    assert limits_of(Folders(tmp_path)).cell_seconds == 30
    (tmp_path / "nbgrader_config.py").write_text(config + "c.Execute.timeout = 5\nc.Limits.files = 7\n")
    assert limits_of(Folders(tmp_path)) == Limits(cell_seconds=5, files=7)
    assert limits_of(Folders(tmp_path), cell_seconds=9.0).cell_seconds == 9
    (tmp_path / "nbgrader_config.py").write_text(config + "c.Limits.cells = 7\n")
    with pytest.raises(GradingError, match=r"c\.Limits\.cells, which is no limit\. The limits are cell_seconds, "):
        limits_of(Folders(tmp_path))


def test_a_sandbox_that_is_too_weak_is_refused_unless_accepted(course, monkeypatch, capsys):
    root, _ = course
    weak = {"landlock": "left out by this test", "seccomp": "left out by this test"}
    monkeypatch.setattr(grading, "plan_here", lambda limits, strong: grading.sandbox.plan([], limits, without=weak))
    options = Options(limits=Limits(cell_seconds=5))
    with pytest.raises(GradingError, match="has to be STANDARD"):
        grade(root=root, students=["copies"], options=options)
    allowed = Options(limits=Limits(cell_seconds=5), allow_weak_sandbox=True)
    assert [one.status for one in grade(root=root, students=["copies"], options=allowed)] == ["graded"]
    said = capsys.readouterr().err
    assert said.count("learners' code is not confined") == 2


def test_nbgraders_own_door_gives_the_same_scores(course, tmp_path):
    root = tmp_path / "course"
    shutil.copytree(course[0], root, ignore=shutil.ignore_patterns("autograded", "gradebook.db"))
    with nbgrader_context():
        api = NbGraderAPI(config=Folders(root).config)
        for student in ("right", "wrong", "cheats", "breaks"):
            done = api.autograde(UNIT, student)
            assert done["success"] == (student != "breaks"), done
    found = scores(root)
    assert {student: found[student] for student in ("right", "wrong", "cheats")} == {
        student: sum(cell["score"] for cell in cells(course, student).values())
        for student in ("right", "wrong", "cheats")
    }
