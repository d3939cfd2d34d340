"""Grading a class of a small course whose check needs no torch: scores, what goes wrong, what is skipped."""

import json
import shutil
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder import gradebook
from autograder.folders import Folders, GradingError
from autograder.grading import Waiting, _outcome, grade
from autograder.intake import unreadable
from autograder.nbgrader_context import nbgrader_context
from autograder.records import records

ROOT = Path(__file__).resolve().parent.parent
UNIT = "09_small"

# The shape of the real check's result, around a check that runs in no time.
CHECK = """
import __main__

class Verdict(float):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": f"{float(self):g}", "application/vnd.autogradlab+json": self.record}

def check(name):
    value = getattr(__main__, name)(3)
    verdict = Verdict({9: 3.0, 6: 0.0}.get(value, 1.5))
    status = {3.0: "right", 0.0: "wrong"}.get(float(verdict), "partly")
    named = [{"id": "Z01", "name": "doubles", "message": "It doubles. Is that a square?", "explains": [0]}]
    verdict.record = {"status": status, "score": float(verdict), "text": f"{name}: {status}",
                      "misconceptions": named if status == "wrong" else []}
    return verdict
"""


def cell(source, grade_id, **flags):
    metadata = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3}
    return new_code_cell(source, id=grade_id, metadata={"nbgrader": metadata | {"grade_id": grade_id} | flags})


def master(exercises=("square",)):
    cells = [
        new_code_cell("from small import check", id="setup", metadata={"tags": ["setup"]}),
        new_code_cell("print('demonstration')", id="demonstration", metadata={"tags": ["demonstration"]}),
    ]
    for name in exercises:
        solution = f"def {name}(x):\n    ### BEGIN SOLUTION\n    return x * x\n    ### END SOLUTION"
        cells.append(cell(solution, name, solution=True))
        cells.append(cell(f'check("{name}")', f"{name}_tests", grade=True, locked=True, points=3))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def write_master(root, notebook):
    source = root / "source" / UNIT
    source.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, source / f"{UNIT}.ipynb")
    (source / "small.py").write_text(CHECK)


def hand_in(root, learner, body, change=lambda notebook: None):
    """Put a submission into the course: the release with another body of `square`, then changed by hand."""
    notebook = master()
    notebook.cells[2].source = f"def square(x):\n    {body}"
    change(notebook)
    folder = root / "grading" / "submitted" / learner / UNIT
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / f"{UNIT}.ipynb")


def skip_the_test(notebook):
    notebook.cells[3].metadata["tags"] = ["skip-execution"]


def copy_the_test(notebook):
    notebook.cells.append(nbformat.from_dict(notebook.cells[3] | {"id": "copy"}))


def edit_the_demonstration(notebook):
    notebook.cells[1].source = "print('changed')"


CLASS = {
    "right": ("return x * x",),
    "wrong": ("return x + x",),
    "half": ("return 0",),
    "skips": ("return x + x", skip_the_test),
    "copies": ("return x * x", copy_the_test),
    "edits": ("return x * x", edit_the_demonstration),
    "cheats": ("return 0\ncheck = lambda name: None",),
    "late": ("return x * x",),
    "spoilt": ("return x * x",),
    "dies": ("import os; os._exit(1)",),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course with its class graded once: (root, outcome by student)."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    write_master(root, master())
    shutil.copytree(root / "source", root / "release")
    for learner, submission in CLASS.items():
        hand_in(root, learner, *submission)
    hand_in(root, "breaks", "return x * x")
    (root / "grading" / "submitted" / "breaks" / UNIT / f"{UNIT}.ipynb").write_text('{\n "cells": [\n oops')
    return root, {graded.student: graded for graded in grade(root=root)}


def rows(root):
    return records(UNIT, root).set_index("student")


def scores(root):
    with gradebook.opened(Folders(root)) as opened:
        return {one.student.id: one.score for one in opened.assignment_submissions(UNIT)}


def outputs(root, learner, place):
    notebook = nbformat.read(root / "grading" / "autograded" / learner / UNIT / f"{UNIT}.ipynb", as_version=4)
    return notebook.cells[place].outputs


def test_one_bad_submission_stops_no_other(course):
    _, graded = course
    bad = {"breaks": "unreadable", "dies": "failed"}
    assert {student: one.status for student, one in graded.items()} == dict.fromkeys(CLASS, "graded") | bad


def test_what_could_not_be_graded_says_why(course):
    _, graded = course
    assert "line 3" in graded["breaks"].reason
    assert "Kernel died" in graded["dies"].reason


def test_records_and_gradebook_agree(course):
    root, _ = course
    frame = rows(root)
    assert frame.loc[["right", "wrong", "half"], "score"].tolist() == [3.0, 0.0, 1.5]
    assert frame.loc[["right", "wrong", "half"], "status"].tolist() == ["right", "wrong", "partly"]
    assert frame.loc["wrong", "misconceptions"] == ["Z01"]
    assert {student: scores(root)[student] for student in frame.index if student in scores(root)} == {
        student: score for student, score in frame["score"].items() if student in scores(root)
    }


def test_records_list_those_without_a_grade(course):
    root, _ = course
    frame = rows(root)
    assert frame.loc["breaks", "status"] == "unreadable"
    assert frame.loc["dies", "status"] == "failed"
    assert frame.loc["breaks", "record"] is None


def test_a_test_cell_tagged_to_be_skipped_is_run_all_the_same(course):
    root, _ = course
    assert rows(root).loc["skips", "status"] == "wrong"
    assert scores(root)["skips"] == 0


def test_a_check_that_was_replaced_earns_nothing(course):
    root, _ = course
    assert rows(root).loc["cheats", "status"] == "not run"
    assert scores(root)["cheats"] == 0


def test_a_copied_test_cell_counts_once(course):
    root, _ = course
    assert scores(root)["copies"] == 3


def test_demonstrations_are_run_only_where_the_learner_changed_them(course):
    root, _ = course
    assert outputs(root, "right", 1) == []
    assert outputs(root, "edits", 1)[0].text == "changed\n"


def test_a_second_run_grades_nothing_and_says_so(course, capsys):
    root, _ = course
    again = grade(root=root, students=["right", "wrong", "breaks"])
    assert [one.status for one in again] == ["unreadable", "unchanged", "unchanged"]
    assert "2 unchanged since the last run and skipped, " in capsys.readouterr().err


def test_only_a_changed_submission_is_graded_again_and_an_unreadable_one_loses_its_old_marks(course):
    root, _ = course
    assert scores(root)["late"] == scores(root)["spoilt"] == 3
    hand_in(root, "late", "return x + x")
    (root / "grading" / "submitted" / "spoilt" / UNIT / f"{UNIT}.ipynb").write_text("no notebook")
    again = {one.student: one.status for one in grade(root=root, students=["late", "spoilt", "right"])}
    assert again == {"late": "graded", "spoilt": "unreadable", "right": "unchanged"}
    assert scores(root)["late"] == scores(root)["spoilt"] == 0
    assert not (root / "grading" / "autograded" / "spoilt" / UNIT).exists()


@pytest.fixture
def marked(tmp_path, course):
    """A copy of the graded course whose unit has got another exercise."""
    root, _ = course
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    write_master(tmp_path, master(["square", "quadrat"]))
    return Folders(tmp_path)


def test_a_unit_with_a_new_exercise_can_be_registered_again(marked):
    gradebook.register(marked, UNIT)
    assert gradebook.students_with_submission(marked, UNIT) == set()
    with gradebook.opened(marked) as opened:
        assert opened.find_assignment(UNIT).max_score == 6


def test_marks_given_by_hand_are_not_lost_to_a_new_exercise(marked):
    with gradebook.opened(marked) as opened:
        opened.find_grade("square_tests", UNIT, UNIT, "half").manual_score = 2
        opened.db.commit()
    with pytest.raises(GradingError, match="half got marks or comments by hand"):
        gradebook.register(marked, UNIT)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{\n"cells": [}', "line 2"),
        (b"", "line 1"),
        ('{"cells": "\xe9"}'.encode("latin-1"), "not UTF-8"),
        (b"[1, 2]", "not a notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "code"}]}', "not a notebook"),
    ],
)
def test_a_file_that_is_no_notebook_is_told_in_words(tmp_path, content, words):
    (tmp_path / "unit.ipynb").write_bytes(content)
    assert words in unreadable(tmp_path / "unit.ipynb")


def test_a_notebook_without_nbgraders_marks_is_told_in_words(tmp_path):
    notebook = master()
    for one in notebook.cells:
        one.metadata = {}
    nbformat.write(notebook, tmp_path / "unit.ipynb")
    assert "lost nbgrader's marks" in unreadable(tmp_path / "unit.ipynb")


def test_a_notebook_as_handed_out_can_be_read(tmp_path):
    nbformat.write(master(), tmp_path / "unit.ipynb")
    assert unreadable(tmp_path / "unit.ipynb") == ""


def test_a_grading_process_that_dies_costs_its_submission():
    future = Future()
    future.set_exception(BrokenProcessPool("a process was terminated abruptly"))
    graded = _outcome(Waiting(UNIT, "unlucky", "stamp"), future)
    assert (graded.student, graded.status) == ("unlucky", "failed")
    assert "terminated abruptly" in graded.reason


def test_a_notebook_under_another_name_is_told_in_words(tmp_path):
    nbformat.write(master(), tmp_path / "unit (1).ipynb")
    assert unreadable(tmp_path / "unit.ipynb").startswith("The folder holds unit (1).ipynb. Expected unit.ipynb")


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
