"""Templates say themselves what is missing; the machine proposes wrong programs that no attempt explains."""

import ast
import shutil
from pathlib import Path

import pytest

from autograder.gates import check
from autograder.gates.attempts import read_attempts
from autograder.lessons import ContentError, read
from autograder.new import new, proposals

FIXTURES = Path(__file__).parent / "fixtures"
TINY = "90_tiny"


@pytest.fixture
def course(tmp_path):
    return Path(shutil.copytree(FIXTURES, tmp_path / "course"))


def attempts_at(course, exercise):
    declared, _ = read_attempts(course / "units" / TINY / "attempts.py")
    return [attempt for attempt in declared if attempt.exercise == exercise]


def test_a_new_unit_lacks_only_what_its_todos_ask_for(course):
    files = new("91_more", course=course)
    assert {file.name for file in files} == {"lesson.py", "cases.py", "attempts.py", "unit.toml"}
    assert {problem.message for problem in check(course=course)} == {"a TODO is left"}


def test_a_new_exercise_lacks_only_todos_and_more_attempts(course):
    files = new(f"{TINY}/steep", course=course)
    assert {file.name for file in files} == {"lesson.py", "cases.py", "attempts.py"}
    lacking = {"a TODO is left", "steep has 1 misconceptions", "steep has 1 alternatives"}
    assert {problem.message for problem in check(course=course)} == lacking


def test_a_new_exercise_leaves_what_was_there(course):
    before = {file: file.read_text() for file in (course / "units" / TINY).glob("*.py")}
    new(f"{TINY}/steep", course=course)
    assert all(file.read_text().startswith(text) for file, text in before.items())
    assert list(read(TINY, course).exercises) == ["slope", "slopes", "steep"]


def test_an_exercise_of_a_new_unit_makes_the_unit(course):
    assert len(new("91_more/steep", course=course)) == 4
    assert list(read("91_more", course).exercises) == ["steep"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("more", "is no unit's name"),
        (TINY, "90_tiny exists"),
        (f"{TINY}/Steep!", "is no exercise's name"),
        (f"{TINY}/slope", "has an exercise slope"),
        ("91_more/slope", "has an exercise slope"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_is_written(course, what, words):
    before = {file: file.read_bytes() for file in course.rglob("*.*") if "__pycache__" not in file.parts}
    with pytest.raises(ContentError, match=words):
        new(what, course=course)
    assert {file: file.read_bytes() for file in course.rglob("*.*") if "__pycache__" not in file.parts} == before


def test_mutants_that_an_attempt_explains_are_not_proposed(course):
    sources = [mutant.source for proposal in proposals(TINY, "slope", course) for mutant in proposal.mutants]
    assert sources
    # Without its first line the reference accumulates, which is Z01.
    assert not any("w.grad = None" not in source for source in sources)


def test_mutants_that_behave_alike_are_proposed_once(course):
    found = proposals(TINY, "slope", course)
    assert len(found[0].mutants) > 1
    assert len({proposal.difference for proposal in found}) == len(found)


def test_without_its_attempt_a_mistake_is_proposed(course):
    file = course / "units" / TINY / "attempts.py"
    text = file.read_text()
    file.write_text(text.replace('@misconception("Z01")\n', "", 1), newline="\n")
    sources = [mutant.source for proposal in proposals(TINY, "slope", course) for mutant in proposal.mutants]
    assert any("w.grad = None" not in source for source in sources)


def test_proposals_are_written_as_attempts_that_wait_for_a_message(course):
    before = len(attempts_at(course, "slope"))
    count = min(len(proposals(TINY, "slope", course)), 10)
    (file,) = new(f"{TINY}/slope", from_mutants=True, course=course)
    waiting = [attempt for attempt in attempts_at(course, "slope") if attempt.arguments[0] == "TODO"]
    assert len(waiting) == count
    assert len(attempts_at(course, "slope")) == before + count
    problems = check(course=course)
    assert {problem.file for problem in problems} == {file}
    assert {problem.message for problem in problems} == {"a TODO is left"}
    names = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert names == sorted(names)  # those at slope stand together


def test_nothing_is_proposed_twice(course):
    new(f"{TINY}/slope", from_mutants=True, course=course)
    before = (course / "units" / TINY / "attempts.py").read_text()
    assert new(f"{TINY}/slope", from_mutants=True, course=course) == []
    assert (course / "units" / TINY / "attempts.py").read_text() == before


def test_proposals_for_no_exercise_are_refused(course):
    with pytest.raises(ContentError, match="Exercises here: slope, slopes"):
        new(f"{TINY}/steep", from_mutants=True, course=course)
