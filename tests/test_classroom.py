"""The made-up class: who gets which program, and what counts as graded right."""

import random
import shutil
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from autograder import classroom
from autograder.classroom import Answer, Choice
from autograder.folders import Folders, GradingError

ROOT = Path(__file__).resolve().parent.parent
UNIT = "05_accumulating_gradients"


def choice(number, needs=()):
    """A choice of one reference, one alternative and so many misconceptions."""

    def always(answer):
        return lambda generator: answer

    wrong = [Answer("misconception", f"Z{n:02}", source=f"wrong {n}", accepted=(f"Z{n:02}",)) for n in range(number)]
    other = Answer("alternative", words="in other words", source="other")
    return Choice(needs, Answer("reference", source="right"), (always(other),), tuple(map(always, wrong)))


@pytest.fixture
def answers():
    choices = {"first": choice(6), "second": choice(8, needs=("first",)), "third": choice(0)}
    return classroom.assign(choices, 24, random.Random("a class"))


def test_the_first_learner_is_perfect_and_the_last_one_hands_in_nothing(answers):
    names = list(answers)
    assert all(answer.right for answer in answers[names[0]].values())
    assert {answer.kind for answer in answers[names[-1]].values()} == {"untouched"}


def test_every_misconception_is_put_in_at_least_once(answers):
    for exercise, number in (("first", 6), ("second", 8)):
        found = {given[exercise].id for given in answers.values()} - {None}
        assert found == {f"Z{n:02}" for n in range(number)}


def test_the_others_are_mixed(answers):
    kinds = {answer.kind for given in answers.values() for answer in given.values()}
    assert kinds == {"reference", "alternative", "misconception", "untouched"}


def test_who_lacks_what_an_exercise_needs_leaves_it(answers):
    assert all(given["second"].kind == "untouched" for given in answers.values() if not given["first"].right)


def test_the_same_seed_gives_the_same_class():
    one, again, other = (classroom.assign({"first": choice(6)}, 24, random.Random(seed)) for seed in ("a", "a", "b"))
    assert one == again != other


def plan(**entry):
    return {"learners": {"learner-01": {"first": {"id": None, "words": None, "accepted": []} | entry}}}


def frame(status, *misconceptions):
    row = {"student": "learner-01", "exercise": "first", "status": status, "misconceptions": list(misconceptions)}
    return pd.DataFrame([row])


WRONG = {"kind": "misconception", "id": "A01", "accepted": ["A01", "A02"]}


@pytest.mark.parametrize(
    ("entry", "status", "named"),
    [
        (WRONG, "wrong", ["A01"]),
        (WRONG, "partly", ["A02"]),
        ({"kind": "reference"}, "right", []),
        ({"kind": "alternative", "words": "by hand"}, "right", []),
        ({"kind": "untouched"}, "not attempted", []),
    ],
)
def test_an_answer_graded_as_what_was_put_in_is_no_mistake(entry, status, named):
    assert classroom.mistakes(plan(**entry), frame(status, *named)) == []


@pytest.mark.parametrize(
    ("entry", "status", "named", "words"),
    [
        (WRONG, "wrong", [], "came out wrong and named nothing; expected wrong or partly, named one of A01, A02"),
        (WRONG, "wrong", ["A01", "A05"], "named A01 A05"),
        (WRONG, "right", [], "misconception A01 came out right"),
        ({"kind": "reference"}, "partly", ["A01"], "reference came out partly and named A01; expected right"),
        ({"kind": "untouched"}, "wrong", [], "untouched came out wrong and named nothing; expected not attempted"),
    ],
)
def test_an_answer_graded_as_something_else_is_told_in_a_sentence(entry, status, named, words):
    (sentence,) = classroom.mistakes(plan(**entry), frame(status, *named))
    assert sentence.startswith("learner-01, first: ") and words in sentence


def test_an_answer_that_was_not_graded_is_a_mistake():
    assert classroom.mistakes(plan(kind="reference"), frame("right").iloc[:0]) == [
        "learner-01, first: reference was handed in and not graded"
    ]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course folder with the real unit and its made-up class: (folders, plan)."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    for folder in ("course", "source", "release"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Folders(root), classroom.make_class(UNIT, root)


def submitted(folders, learner):
    return nbformat.read(folders.notebook("submitted", learner, UNIT), as_version=4)


def test_the_empty_learner_hands_in_the_release_as_it_is(course):
    folders, plan = course
    empty = submitted(folders, list(plan["learners"])[-1])
    assert empty == nbformat.read(folders.notebook("release", ".", UNIT), as_version=4)


def test_only_answer_cells_differ_from_the_release(course):
    folders, plan = course
    released = nbformat.read(folders.notebook("release", ".", UNIT), as_version=4)
    for mine, theirs in zip(submitted(folders, "learner-01").cells, released.cells, strict=True):
        assert mine == theirs or mine.metadata.nbgrader.grade_id in plan["learners"]["learner-01"]


def test_no_submission_holds_a_solution_marker(course):
    folders, plan = course
    for learner in plan["learners"]:
        text = folders.notebook("submitted", learner, UNIT).read_text(encoding="utf-8")
        assert "BEGIN SOLUTION" not in text and "@misconception" not in text


def test_every_misconception_of_the_unit_is_in_the_class(course):
    folders, plan = course
    put_in = {
        (name, entry["id"], entry["words"])
        for given in plan["learners"].values()
        for name, entry in given.items()
        if entry["kind"] == "misconception"
    }
    generator = random.Random(0)
    known = {
        (name, answer.id, answer.words)
        for name, choice in classroom.choices(UNIT, folders.root / "course").items()
        for answer in (draw(generator) for draw in choice.misconceptions)
    }
    assert put_in == known


def test_making_the_same_class_again_leaves_the_files_alone(course):
    folders, plan = course
    path = folders.notebook("submitted", "learner-01", UNIT)
    before = path.stat().st_mtime_ns
    assert classroom.make_class(UNIT, folders.root) == plan
    assert path.stat().st_mtime_ns == before


def test_a_smaller_class_takes_the_learners_of_the_larger_one_away(course, tmp_path):
    shutil.copytree(course[0].root, tmp_path, dirs_exist_ok=True)
    plan = classroom.make_class(UNIT, tmp_path, learners=5)
    assert {student for _, student in Folders(tmp_path).submissions()} == set(plan["learners"])


def test_a_folder_with_real_submissions_is_refused(course, tmp_path):
    shutil.copytree(course[0].root, tmp_path, dirs_exist_ok=True)
    folders = Folders(tmp_path)
    shutil.copytree(folders.step("release", ".", UNIT), folders.step("submitted", "ada", UNIT))
    with pytest.raises(GradingError, match=r"did not make up \(ada\)"):
        classroom.make_class(UNIT, tmp_path)
