"""The rows of a class, out of records of grading in a course of two notebooks that no engine has run."""

import math
import shutil
from dataclasses import asdict

import nbformat
import pytest
from autogradlab.verdicts import MIME

from autograder import gradebook, records
from autograder.asked import Asked
from autograder.engine.limits import Limits
from autograder.folders import Folders, GradingError

HW = "hw"


def cell(grade_id, source, kind, points=None, cell_type="code"):
    flags = {"grade": kind in ("test", "manual"), "solution": kind in ("answer", "manual"), "locked": kind == "test"}
    marks = {"grade_id": grade_id, "schema_version": 3, "task": False} | flags
    marks |= {} if points is None else {"points": points}
    made = nbformat.v4.new_code_cell if cell_type == "code" else nbformat.v4.new_markdown_cell
    return made(source, metadata={"nbgrader": marks})


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=list(cells))


def first(tests="assert double(2) == 4"):
    return notebook(
        cell("double", "def double(x): ...", "answer"),
        cell("triple", "def triple(x): ...", "answer"),
        cell("test_a", tests, "test", 2),
        cell("test_b", "assert triple(3) == 9, 'is it three times?'", "test", 1),
        cell("slope", "def slope(w): ...", "answer"),
        cell("slope_tests", 'check("slope")', "test", 3),
        cell("why", "Because", "manual", 1, "markdown"),
    )


def second():
    return notebook(cell("last", "def last(x): ...", "answer"), cell("test_a", "assert last([1]) == 1", "test", 4))


def scored(score, most, reason=None, message="", **more):
    usual = {"misconceptions": [], "refereed": False, "needs_manual": False, "seconds": 0.1, "second_try": False}
    return {"score": score, "max": most, "reason": reason, "message": message} | usual | more


def result_of(name, cells, status="graded", **more):
    its = {"notebook": name, "status": status, "repairs": [], "flags": [], "message": "", "cells": cells}
    return its | {"limits": asdict(Limits())} | more


SLOPE = scored(0.0, 3.0, "wrong", "slope: not right\n\nThe case.", misconceptions=["Z01"], refereed=True)
GRADED = {
    "test_a": scored(2.0, 2.0),
    "test_b": scored(0.0, 1.0, "wrong", "AssertionError: is it three times?"),
    "slope_tests": SLOPE,
    "why": scored(None, 1.0, needs_manual=True),
}


def verdict(score=0.0, ids=("Z01",)):
    named = [{"id": identifier, "name": "keeps", "message": "?", "explains": [0]} for identifier in ids]
    return {"score": score, "misconceptions": named, "text": "slope: not right\n\nThe case.", "status": "wrong"}


@pytest.fixture(scope="module")
def empty_gradebook(tmp_path_factory):
    """A gradebook without an assignment; nbgrader takes seconds to make one."""
    root = tmp_path_factory.mktemp("gradebook")
    (root / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'two'\n")
    with gradebook.opened(Folders(root)):
        return root


@pytest.fixture
def course(tmp_path, empty_gradebook):
    """The course; `note(cells, …)` keeps what grading is to have found in the first notebook of `ann`."""
    shutil.copytree(empty_gradebook, tmp_path, dirs_exist_ok=True)
    folders = Folders(tmp_path)
    for name, node in (("first", first()), ("second", second())):
        path = folders.step("source", ".", HW) / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(node, path)
    folders.step("submitted", "ann", HW).mkdir(parents=True)

    def note(cells, node=None, status="graded", notebooks=None, reason=""):
        if notebooks is None:
            skipped = scored(0.0, 4.0, "missing")
            notebooks = [
                result_of("first", cells),
                result_of("second", {"test_a": skipped}, "skipped", message="Where?"),
            ]
        kept = {"status": status, "reason": reason, "seconds": 1.0, "stamp": "", "notebooks": notebooks}
        folders.note_result(HW, "ann", kept)
        if node is not None:
            path = folders.step("autograded", "ann", HW) / "first.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(node, path)
        return records.records(HW, folders.root).set_index(["notebook", "cell"])

    note.folders = folders
    return note


def answered(record=None, error=None):
    node = first()
    node.cells[0].source = "def double(x):\n    return 2 * x"
    if error:
        node.cells[0].outputs = [nbformat.v4.new_output("error", ename="SyntaxError", evalue=error, traceback=[])]
    if record:
        node.cells[5].outputs = [nbformat.v4.new_output("display_data", data={"text/plain": "0", MIME: record})]
    return node


def test_every_graded_cell_of_every_notebook_is_a_row_in_the_assignments_order(course):
    frame = course(dict(reversed(GRADED.items())))
    assert list(frame.index) == [*(("first", name) for name in GRADED), ("second", "test_a")]
    assert list(frame["points"]) == [2, 1, 3, 1, 4]


def test_a_check_bears_the_name_of_its_exercise_and_a_name_of_two_notebooks_that_of_the_notebook(course):
    exercises = list(course(GRADED)["exercise"])
    assert exercises == ["first: test_a", "test_b", "slope", "why", "second: test_a"]


def test_statuses_come_from_the_record_of_grading(course):
    assert list(course(GRADED)["status"]) == ["right", "wrong", "wrong", "to be marked", "skipped"]


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        (scored(1.0, 2.0, "wrong"), "partly"),
        (scored(0.0, 2.0, "timeout", "The time limit of 5 s for one cell was reached."), "timeout"),
        (scored(0.0, 2.0, "memory", misconceptions=["Z01"]), "wrong"),
        (scored(1.0, 2.0, "timeout"), "partly"),
        (scored(0.0, 2.0, "not attempted", "NotImplementedError: "), "not attempted"),
        (scored(0.0, 2.0, "missing"), "missing"),
        (scored(0.0, 2.0, "invalid score", "It gave nan."), "invalid score"),
        (scored(0.0, 2.0, "died"), "died"),
        (scored(0.0, 0.0), "right"),
    ],
)
def test_a_reason_is_a_status_where_it_says_more_than_wrong(course, entry, status):
    assert course(GRADED | {"test_a": entry}).loc[("first", "test_a"), "status"] == status


def test_a_limit_is_told_unless_the_message_tells_it(course):
    said = "The time limit of 5 s for one cell was reached."
    frame = course(
        GRADED | {"test_a": scored(0.0, 2.0, "timeout", said), "test_b": scored(0.0, 1.0, "memory", "MemoryError: ")}
    )
    assert list(frame["limit"])[:2] == ["", "The memory limit of 2048 MiB was reached."]
    assert frame.loc[("first", "test_a"), "text"] == said


def test_an_answer_that_waits_has_no_score_until_a_person_marks_it(course):
    assert math.isnan(course(GRADED).loc[("first", "why"), "score"])


def test_code_is_that_of_the_answers_since_the_test_before_which_tests_in_a_row_share(course):
    frame = course(GRADED, answered())
    both = "def double(x):\n    return 2 * x\n\ndef triple(x): ..."
    assert list(frame["code"]) == [both, both, "def slope(w): ...", "Because", ""]


def test_what_an_answer_cell_raised_is_kept_beside_it(course):
    assert (
        course(GRADED, answered(error="expected ':'")).loc[("first", "test_a"), "error"] == "SyntaxError: expected ':'"
    )


def test_the_verdict_in_a_notebook_is_its_detail(course):
    row = course(GRADED, answered(verdict())).loc[("first", "slope_tests")]
    assert row["record"]["misconceptions"][0]["name"] == "keeps"
    assert (row["text"], row["misconceptions"]) == ("The case.", ["Z01"])


@pytest.mark.parametrize("other", [verdict(score=3.0), verdict(ids=("X99",)), verdict(ids=())])
def test_a_verdict_that_grading_did_not_note_is_not_used(course, other):
    row = course(GRADED, answered(other)).loc[("first", "slope_tests")]
    assert row["record"] is None
    assert (row["status"], row["score"], row["misconceptions"], row["text"]) == ("wrong", 0, ["Z01"], "The case.")


def test_a_verdict_in_the_output_of_an_ordinary_test_is_not_used(course):
    frame = course(GRADED | {"slope_tests": SLOPE | {"refereed": False}}, answered(verdict()))
    assert frame.loc[("first", "slope_tests"), "record"] is None


def test_a_second_try_is_a_note_and_not_the_reason(course):
    tried = scored(1.0, 2.0, "wrong", "In a clean session.", second_try=True)
    row = course(GRADED | {"test_a": tried}).loc[("first", "test_a")]
    assert (row["note"], row["text"], row["status"]) == ("In a clean session.", "", "partly")


def test_a_submission_that_could_not_be_graded_has_a_row_for_all_that_was_asked(course):
    frame = course({}, status="not graded", notebooks=[], reason="The process ended.")
    assert len(frame) == 5 and set(frame["status"]) == {"not graded"} and set(frame["text"]) == {"The process ended."}
    assert frame["score"].sum() == 0


def test_a_cell_that_the_assignment_has_no_more_is_still_told(course):
    frame = course(GRADED | {"gone": scored(1.0, 1.0)})
    assert frame.loc[("first", "gone"), ["exercise", "status", "score"]].tolist() == ["gone", "right", 1.0]


def test_nothing_graded_says_what_to_do(course):
    with pytest.raises(records.NothingGraded, match="No submission of hw has been graded"):
        records.records(HW, course.folders.root)
    assert issubclass(records.NothingGraded, GradingError)


def test_an_assignment_without_graded_cells_says_so(course):
    for path in course.folders.step("source", ".", HW).glob("*.ipynb"):
        nbformat.write(notebook(), path)
    with pytest.raises(records.NothingGraded, match="no graded cell"):
        course({}, notebooks=[result_of("first", {})])


def test_remarks_tell_what_was_out_of_the_ordinary(course):
    stopped = scored(0.0, 2.0, "timeout", "The time limit of 5 s for one cell was reached.")
    tried = scored(1.0, 1.0, None, "In a clean session.", second_try=True)
    first_one = result_of("first", GRADED | {"test_a": stopped, "test_b": tried}, repairs=["Mended."], flags=["Look."])
    course({}, notebooks=[first_one])
    with records.opened(course.folders) as opened:
        (submission,) = opened.submissions(HW)
    assert [(one["kind"], one["where"], one["what"]) for one in submission.remarks()] == [
        ("repaired", "first", "Mended."),
        ("flagged", "first", "Look."),
        ("timeout", "first: test_a", "The time limit of 5 s for one cell was reached."),
        ("second try", "test_b", "In a clean session."),
    ]


def test_the_course_needs_no_gradebook_of_its_own_to_be_read(course):
    course(GRADED)
    with gradebook.opened(course.folders) as opened:
        assert opened.assignments == []


# -------------------------------------------------------------------------------------------------- lines of tests

TEST = """\
total = double(21)  # the answer
assert total == 42, (
    "double(21) should be twice as much"
)
assert double("ab") == "abab", '''a message of
two lines'''
"""


@pytest.fixture
def asked(course):
    path = course.folders.step("source", ".", HW) / "first.ipynb"
    nbformat.write(first(TEST), path)
    return Asked.of(course.folders, HW)


@pytest.mark.parametrize(
    "message",
    [
        TEST,
        repr(TEST),
        "assert total == 42, (",
        "we saw   assert total==42,( there",
        'assert double("ab") == "abab", \'\'\'a message of',
        "# total = double(21)  # the answer",
    ],
)
def test_a_message_with_a_line_of_a_test_is_left_out_however_it_is_quoted(asked, message):
    told = asked.without_tests(f"ValueError: {message}")
    assert told == "ValueError: (its message has lines of the test and is left out)"


@pytest.mark.parametrize(
    "message",
    ["double(21) should be twice as much", "a message of\ntwo lines", "name 'double' is not defined", "total", ""],
)
def test_the_tests_own_messages_are_kept(asked, message):
    assert asked.without_tests(f"AssertionError: {message}") == f"AssertionError: {message}"


def test_a_type_that_is_named_like_a_line_of_a_test_is_left_out_too(asked):
    assert asked.without_tests("assert total == 42, (: x") == "(its message has lines of the test and is left out)"


def test_the_grammar_of_a_check_is_no_secret(asked):
    assert asked.without_tests('NameError: check("slope") failed') == 'NameError: check("slope") failed'


def test_a_test_with_a_magic_is_kept_from_pages_too(course):
    path = course.folders.step("source", ".", HW) / "first.ipynb"
    nbformat.write(first("%time double(10**6)\nassert double(4) == 8"), path)
    told = Asked.of(course.folders, HW).without_tests("ValueError: assert double(4) == 8")
    assert told.endswith("is left out)")
