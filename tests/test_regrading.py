"""`grade --regrade`: what a change touches, and whose marks moved, from what to what and why."""

import shutil
from pathlib import Path

import pytest
from tiny_course import KEEPS, RIGHT, UNIT, hand_in, tiny_course

from autograder import gradebook
from autograder.engine.limits import Limits
from autograder.folders import Folders
from autograder.grading import Options, grade
from autograder.regrading import Change, _knowledge, changes

FIXTURE = Path(__file__).parent / "fixtures"
#: Wrong in a way that no misconception of the unit is.
ODD = "    w.grad = None\n    loss = (w * x + 1) ** 2\n    loss.backward()\n    return w.grad.item() * 3 + 1"
#: The slope is right, and the second requirement is missed.
CLEARS = (
    "    w.grad = None\n    loss = (w * x + 1) ** 2\n    loss.backward()\n    found, w.grad = w.grad.item(), None\n"
)
CLEARS += "    return found"
NEW = f'\n\n@misconception("Z99")\ndef slope(w, x):\n{ODD}\n'
ENTRY = """
[Z99]
unit = "90_tiny"
name = "thrice and one"
message = "Three slopes and one came back. Where does the one come from?"
wrong = "w.grad.item() * 3 + 1"
right = "w.grad.item()"
seen = "never"
silent = true
"""


@pytest.fixture
def unit(tmp_path):
    """A copy of the tiny unit's texts: (its folder, what its digests are now)."""
    shutil.copytree(FIXTURE, tmp_path / "course", ignore=shutil.ignore_patterns("*.py[co]"))
    directory = tmp_path / "course" / "units" / UNIT
    return (
        directory,
        lambda: {"submission": "", "assignment": "", "limits": "", "seed": "", "engine": ""} | _knowledge(directory),
    )


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_comments_prose_and_demonstrations_change_nothing(unit):
    directory, now = unit
    before = now()
    edit(directory / "cases.py", "@exercise(", "# a remark\n@exercise(")
    edit(directory / "attempts.py", '@misconception("Z02")', '# a remark\n@misconception("Z02")')
    edit(directory / "lesson.py", "# %% [markdown]\n", "# %% [markdown]\n# More words.\n#\n")
    assert changes(before, now()) == []


def test_a_new_misconception_concerns_wrong_answers_of_its_exercise_alone(unit):
    directory, now = unit
    before = now()
    with open(directory / "attempts.py", "a", encoding="utf-8") as file:
        file.write(NEW)
    (change,) = changes(before, now())
    assert change == Change("slope", "its misconceptions changed", wrong_only=True)
    exercises = {"slope_tests": "slope", "slopes_tests": "slopes"}
    reasons = {"right": None, "wrong": "wrong", "limit": "timeout", "untouched": "not attempted"}
    touched = {
        name for name, reason in reasons.items() if change.touches({"slope_tests": {"reason": reason}}, exercises)
    }
    assert touched == {"wrong", "limit"}
    assert not change.touches({"slopes_tests": {"reason": "wrong"}}, exercises)


def test_an_alternative_changes_no_grade(unit):
    directory, now = unit
    before = now()
    with open(directory / "attempts.py", "a", encoding="utf-8") as file:
        file.write('\n\n@alternative("another way")\ndef slope(w, x):\n    return 2 * (w * x + 1).item() * x\n')
    assert changes(before, now()) == []


def test_the_words_of_a_misconception_concern_the_exercises_that_name_it(unit):
    directory, now = unit
    before = now()
    edit(directory.parent.parent / "misconceptions.toml", "This is the loss itself.", "That is the loss.")
    assert changes(before, now()) == [Change("slope", "its misconceptions changed", wrong_only=True)]


def test_a_changed_reference_concerns_what_rests_on_it_too(unit):
    directory, now = unit
    before = now()
    edit(directory / "lesson.py", "    w.grad = None\n", "    w.grad = None  # forget\n    assert w.is_leaf\n")
    found = {(change.exercise, change.words) for change in changes(before, now())}
    assert found == {("slope", "its reference changed"), ("slopes", "its reference changed")}


def test_changed_cases_concern_right_answers_too_and_untouched_ones_not(unit):
    directory, now = unit
    before = now()
    edit(directory / "cases.py", "weight=2", "weight=5")
    (change,) = changes(before, now())
    assert change == Change("slope", "its cases or requirements changed")
    assert change.touches({"slope_tests": {"reason": None}}, {"slope_tests": "slope"})
    assert not change.touches({"slope_tests": {"reason": "not attempted"}}, {"slope_tests": "slope"})


def test_what_all_exercises_share_concerns_all(unit):
    directory, now = unit
    before = now()
    with open(directory / "cases.py", "a", encoding="utf-8") as file:
        file.write("\n\ndef helper():\n    return 1\n")
    assert changes(before, now()) == [Change(None, "what all exercises of the unit share changed")]
    assert changes(None, now()) == [Change(None, "what it was made of was not noted")]
    assert changes(before | {"engine": "other"}, now())[0].words == "the grader or a library changed"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the engine's sandbox needs Linux")
def test_only_what_a_change_touches_is_graded_again_and_marks_by_hand_stand(tmp_path, capsys):
    root = tiny_course(tmp_path)
    for learner, body in {"right": RIGHT, "keeps": KEEPS, "odd": ODD, "clears": CLEARS, "empty": None}.items():
        hand_in(root, learner, body)
    hand_in(root, "marked", CLEARS)
    options = Options(limits=Limits(cell_seconds=10), jobs=1)
    assert {one.status for one in grade(root=root, options=options)} == {"graded"}
    with gradebook.opened(Folders(root)) as opened:
        opened.find_grade("slope_tests", UNIT, UNIT, "marked").manual_score = 2
        opened.db.commit()
    again = Options(limits=options.limits, jobs=1, regrade=True)
    assert {one.status for one in grade(root=root, options=again)} == {"unchanged"}
    assert "0 of 6 submissions were graded again" in capsys.readouterr().out

    with open(root / "course" / "units" / UNIT / "attempts.py", "a", encoding="utf-8") as file:
        file.write(NEW)
    with open(root / "course" / "misconceptions.toml", "a", encoding="utf-8") as file:
        file.write(ENTRY)
    statuses = {one.student: one.status for one in grade(root=root, options=again)}
    wrong = ("keeps", "odd", "clears", "marked")
    assert statuses == dict.fromkeys(("right", "empty"), "unchanged") | dict.fromkeys(wrong, "graded")
    said = capsys.readouterr().out
    assert f"odd, {UNIT}, slope: 0 → 0 of 2: was wrong, is wrong Z99. Why: its misconceptions changed." in said
    assert "4 of 6 submissions were graded again; 0 marks moved, and" in said
    # What was not touched holds for an ordinary run too.
    assert {one.status for one in grade(root=root, options=options)} == {"unchanged"}

    edit(root / "course" / "units" / UNIT / "cases.py", "weight=2", "weight=5")
    statuses = {one.student: one.status for one in grade(root=root, options=again)}
    assert statuses == {"empty": "unchanged"} | dict.fromkeys(("right", *wrong), "graded")
    said = capsys.readouterr().out
    assert f"clears, {UNIT}, slope: 1.33 → 1.67 of 2" in said and "Why: its cases or requirements changed." in said
    line = next(line for line in said.splitlines() if line.startswith("marked, "))
    assert "1.33 → 1.67 of 2" in line and "the mark by hand, 2, stands" in line
    assert "5 of 6 submissions were graded again; 1 marks moved" in said
    with gradebook.opened(Folders(root)) as opened:
        kept = opened.find_grade("slope_tests", UNIT, UNIT, "marked")
        assert kept.manual_score == 2 and kept.auto_score == pytest.approx(5 / 3)
