"""nbgrader's own example course, in both editions and as it is, graded by our command and by nbgrader."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps import NbGraderAPI, quickstartapp

from autograder import gradebook
from autograder.folders import Folders
from autograder.nbgrader_context import nbgrader_context

ROOT = Path(__file__).resolve().parent.parent
EDITIONS = {"plain": [], "autotest": ["--autotest"]}
#: grade_id -> points of the tests; all else a person marks, if it was touched.
TESTED = {
    "correct_squares": 1,
    "squares_invalid_input": 1,
    "correct_sum_of_squares": 0.5,
    "sum_of_squares_uses_squares": 0.5,
}
WRONG = {
    "squares": "def squares(n):\n    return [i ** 3 for i in range(n)]\n",
    "sum_of_squares": "def sum_of_squares(n):\n    return n\n",
}
#: The sums without the function that they should call, and no error where there should be one.
HALF = {
    "squares": "def squares(n):\n    return [i ** 2 for i in range(1, n + 1)]\n",
    "sum_of_squares": "def sum_of_squares(n):\n    return sum(i ** 2 for i in range(1, n + 1))\n",
}
WARNS = {
    "squares": "import warnings\n\n\ndef squares(n):\n    warnings.warn(f'squares of {n}')\n    if n < 1:\n"
    "        raise ValueError(n)\n    return [i ** 2 for i in range(1, n + 1)]\n"
}
CLASS = {"right": {}, "wrong": WRONG, "half": HALF, "warns": WARNS, "untouched": None}


def quickstart(place, edition, monkeypatch):
    """The course that `nbgrader quickstart` makes."""
    call = subprocess.call

    def configure_only(command, **options):
        # Its `nbgrader db` commands write into the folder that it is started in, and nothing into the course.
        return call(command, **options) if "generate_config" in command else 0

    monkeypatch.setattr(quickstartapp.subprocess, "call", configure_only)
    monkeypatch.chdir(place)
    app = quickstartapp.QuickStartApp()
    app.initialize(["course", *EDITIONS[edition]])
    app.start()
    return place / "course"


def hand_in(course, learner, answers):
    """The release with the solutions of source/ and these answers in their place; with None as it was handed out."""
    folder = course / "submitted" / learner / "ps1"
    shutil.copytree(course / "release" / "ps1", folder)
    for path in folder.glob("*.ipynb"):
        notebook = nbformat.read(path, 4)
        solved = nbformat.read(course / "source" / "ps1" / path.name, 4)
        solutions = {
            cell.metadata.nbgrader.grade_id: cell.source for cell in solved.cells if "nbgrader" in cell.metadata
        }
        for cell in notebook.cells:
            if answers is not None and cell.metadata.get("nbgrader", {}).get("solution"):
                name = cell.metadata.nbgrader.grade_id
                cell.source = answers.get(name, solutions[name])
        nbformat.write(notebook, path)


def run(folder, *command):
    """What a command said on stderr that ended well."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = [sys.executable, "-m", *command]
    done = subprocess.run(started, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module", params=EDITIONS)
def courses(request, tmp_path_factory):
    """The course graded by nbgrader, the same graded by us, our records by learner and notebook, and what was said."""
    place = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as monkeypatch, nbgrader_context():
        theirs = quickstart(place, request.param, monkeypatch)
        # In a process of its own, since it leaves sockets of the kernel open that makes the tests of `AUTOTEST`.
        run(theirs, "nbgrader", "generate_assignment", "ps1")
        api = NbGraderAPI(config=Folders(theirs).config)
        for learner, answers in CLASS.items():
            hand_in(theirs, learner, answers)
        ours = shutil.copytree(theirs, place / "ours", ignore=shutil.ignore_patterns("gradebook.db"))
        for learner in CLASS:
            result = api.autograde("ps1", learner)
            assert result["success"], result
    said = run(ROOT, "autograder", "grade", "--course", ours, "--json", place / "run.json", "--jobs", "1")
    records = json.loads((place / "run.json").read_text(encoding="utf-8"))["submissions"]
    return theirs, ours, {(record["student"], record["notebook"]): record for record in records}, said


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the engine's sandbox needs Linux")


def grades(course):
    """(learner, notebook, cell) -> automatic score, whether a person has to mark, maximum."""
    with gradebook.opened(Folders(course)) as opened:
        return {
            (submission.student.id, notebook.name, grade.name): (
                grade.auto_score,
                grade.needs_manual_grade,
                grade.max_score,
            )
            for submission in opened.assignment_submissions("ps1")
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def test_scores_differ_where_a_warning_costs_points_in_nbgrader_and_nowhere_else(courses):
    theirs, ours = map(grades, courses[:2])
    assert theirs.keys() == ours.keys()
    differing = {place: (theirs[place], ours[place]) for place in ours if theirs[place] != ours[place]}
    # The fourth test takes `squares` away, so that nothing warns there.
    warned = list(TESTED.items())[:3]
    assert differing == {("warns", "problem1", name): ((0, False, most), (most, False, most)) for name, most in warned}


def test_right_wrong_and_half_right_answers_have_their_points(courses):
    _, ours, _, _ = courses
    found = grades(ours)
    scores = {name: [found[name, "problem1", cell][0] for cell in TESTED] for name in CLASS}
    everything = list(TESTED.values())
    assert scores.pop("right") == scores.pop("warns") == everything
    assert scores == {"wrong": [0] * 4, "half": [1, 0, 0.5, 0], "untouched": [0] * 4}


def test_what_a_person_marks_waits_for_one_unless_it_was_left_as_it_was(courses):
    _, ours, _, _ = courses
    waiting = {place for place, (score, waits, _) in grades(ours).items() if waits and score is None}
    by_hand = [("problem1", "sum_of_squares_equation"), ("problem1", "sum_of_squares_application")]
    by_hand += [("problem2", "part-a"), ("problem2", "part-b")]
    task = ("problem1", "cell-938593c4a215c6cc")
    expected = {(learner, *place) for learner in CLASS if learner != "untouched" for place in by_hand}
    assert waiting == expected | {(learner, *task) for learner in CLASS}


def test_every_test_of_an_untouched_answer_says_that_it_was_not_attempted(courses):
    cells = courses[2]["untouched", "problem1"]["cells"]
    assert {cells[name]["reason"] for name in cells if not cells[name]["needs_manual"]} == {"not attempted"}


def test_nothing_had_to_be_repaired_and_nothing_is_flagged(courses):
    _, _, records, said = courses
    assert len(records) == 2 * len(CLASS)
    assert not any(record["repairs"] or record["flags"] for record in records.values())
    assert f"Submissions: {len(CLASS)} graded" in said


def test_no_page_shows_a_line_of_a_test(courses):
    _, ours, _, _ = courses
    hidden = {"plain": "squares(11) ==", "autotest": "sha1("}
    for learner in CLASS:
        page = (ours / "feedback" / learner / "ps1" / "ps1.html").read_text(encoding="utf-8")
        assert "sum_<wbr>of_<wbr>squares_<wbr>equation" in page
        assert not any(line in page for line in hidden.values())
        # What a task asks for is nobody's answer.
        assert "State the formulae for an arithmetic" not in page
