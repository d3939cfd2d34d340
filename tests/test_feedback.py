"""One learner's feedback page, out of records in data/class_records.json and of another nbgrader course."""

import json
import re
import shutil
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest

from autograder import feedback, gradebook, pages
from autograder.engine.limits import Limits
from autograder.folders import Folders
from autograder.grading import Options, grade
from autograder.records import GradedSubmission

DATA = Path(__file__).parent / "data" / "class_records.json"
CASES = Path(__file__).parent / "cases" / "submissions"

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@pytest.fixture
def submissions():
    """The small class, by student."""
    found = json.loads(DATA.read_text(encoding="utf-8"))
    return {one["student"]: GradedSubmission(**one) for one in found}


def page_of(submissions, student):
    return feedback.page("Accumulating gradients", submissions[student])


def row_of(submissions, student, exercise):
    return next(row for row in submissions[student].rows if row["exercise"] == exercise)


def record_of(submissions, student, exercise="fresh_gradients"):
    return row_of(submissions, student, exercise)["record"]


def words(page):
    """The page's text, as a reader sees it."""
    body = page.partition("<main>")[2].replace("<wbr>", "")
    return " ".join(unescape(re.sub("<[^>]*>", " ", body)).split())


def section(page, exercise):
    """The words of one exercise's part of the page."""
    parts = [words(f"<main>{part}") for part in page.split("<section")[1:]]
    return next(part for part in parts if f"{exercise}: " in part)


def test_it_shows_what_was_met_and_missed_the_case_and_the_question(submissions):
    text = words(page_of(submissions, "learner-2"))
    assert "each step returns the gradient of that step alone ✗ missed" in text
    assert "after the call w.grad holds the last step's gradient ✓ met" in text
    assert "fresh_gradients(tensor(1.3, requires_grad=True), tensor(0.7), 3)" in text
    assert "Yours [0.7, 1.4, 2.1] Expected [0.7, 0.7, 0.7]" in text
    assert "What does w.grad hold when the second step begins? (A01, never zeroes)" in text


def test_what_was_not_judged_is_not_called_missed(submissions):
    record_of(submissions, "learner-2")["requirements"] = [
        {"words": "the first", "weight": 1, "met": False, "judged": True, "gate": True},
        {"words": "the second", "weight": 1, "met": False, "judged": False, "gate": False},
    ]
    text = words(page_of(submissions, "learner-2"))
    assert "the first ✗ missed the second - not judged while the first is missed" in text


def test_it_shows_the_learner_their_own_code(submissions):
    assert "gradients.append(w.grad.item())" in words(page_of(submissions, "learner-2"))


def test_an_exception_is_shown_with_its_traceback(submissions):
    text = words(page_of(submissions, "learner-3"))
    assert "It raised ZeroDivisionError: division by zero line 3, in accumulated_loss return loss / 0" in text


def test_a_wrong_answer_that_nothing_explains_still_gets_a_question(submissions):
    assert "This is not a mistake that the course knows. Which line of yours" in words(
        page_of(submissions, "learner-3")
    )


def test_a_prediction_that_nothing_explains_is_not_asked_for_a_line_of_code(submissions):
    record_of(submissions, "learner-3").update(prediction=True, unexplained=[0], misconceptions=[])
    assert "What did you expect to happen there, and why?" in words(page_of(submissions, "learner-3"))


def test_a_wrong_answer_without_a_case_shows_what_the_check_said(submissions):
    row = row_of(submissions, "learner-2", "fresh_gradients")
    row["record"] |= {"case": None, "misconceptions": []}
    row["text"] = "fresh_gradients is 3 here, so it cannot be called."
    assert "fresh_gradients is 3 here, so it cannot be called." in words(page_of(submissions, "learner-2"))


def test_an_untouched_answer_a_missing_one_and_a_missing_verdict_are_told_apart(submissions):
    page = page_of(submissions, "learner-4")
    assert "meter_reading: - not attempted 0 of 3 points. The answer is as it was handed out." in section(
        page, "meter_reading"
    )
    assert "explain: - missing 0 of 1 points. The answer cell was not in your file." in section(page, "explain")
    assert "! no verdict 0 of 3 points. The test left no verdict" in section(page, "accumulated_loss")


def test_a_submission_without_a_grade_says_why(submissions):
    assert "This submission has no grade. 05_small.ipynb, line 3: Expecting value." in words(
        page_of(submissions, "learner-5")
    )
    assert "This submission has no grade. 05_small.ipynb was not handed in." in words(page_of(submissions, "learner-8"))
    assert "This submission has no grade. The process that graded it ended" in words(page_of(submissions, "learner-9"))


def test_a_limit_that_was_hit_is_told_in_words(submissions):
    page = page_of(submissions, "learner-6")
    timeout = section(page, "fresh_gradients")
    assert "fresh_gradients: ■ took too long" in timeout
    assert "fresh_gradients was stopped. The time limit of 30 s for one cell was reached." in timeout
    memory = section(page, "accumulated_loss")
    assert "■ used too much memory 0 of 3 points. The memory limit of 2048 MiB was reached. It was stopped." in memory
    assert "The cell ended with MemoryError" in memory
    died = section(page_of(submissions, "learner-7"), "slope_table")
    assert "■ ended its process" in died and "The process ended by itself (signal SIGSEGV)." in died


def test_every_repair_is_listed_and_what_is_flagged_to_the_instructor_is_not(submissions):
    text = words(page_of(submissions, "learner-6"))
    for sentence in submissions["learner-6"].notebooks[0]["repairs"]:
        assert sentence in text
    assert "skip-execution" not in text


def test_a_second_try_is_told(submissions):
    text = section(page_of(submissions, "learner-2"), "slope_table")
    assert "Tried twice. It is missed in the notebook as it stands, and met in a fresh session." in text
    assert "The test gave 1. Which part of the task" in text


def test_marks_and_comments_by_hand_are_shown_with_what_they_replace(submissions):
    marked = section(page_of(submissions, "learner-1"), "explain")
    assert "● marked by a person 1 of 1 points. Comment Well put. What would zero_() change? Your answer" in marked
    replaced = section(page_of(submissions, "learner-7"), "slope_table")
    assert "1.5 of 2 points. 0.5 of them extra credit. A person has set them; the automatic score was 0." in replaced
    assert "The machine was at fault." in replaced


def test_points_that_wait_for_a_person_are_not_called_lost(submissions):
    text = words(page_of(submissions, "learner-2"))
    assert "2.5 of 12 points. An answer worth 1 waits for a person to mark it." in text
    assert "explain … to be marked by a person 1 " in text


def test_a_late_submission_says_what_is_taken_off_and_what_is_left(submissions):
    submissions["learner-6"].rows[0]["score"] = 2.0
    text = words(page_of(submissions, "learner-6"))
    assert "It was handed in late: 0.5 are taken off, which leaves 1.5." in text


def test_a_page_that_the_gradebook_contradicts_says_so(submissions):
    stale = GradedSubmission(**(vars(submissions["learner-2"]) | {"is_current": False}))
    assert "The gradebook has other scores than this page" in words(feedback.page("Unit", stale))


def test_what_the_answer_cell_raised_by_itself_is_shown(submissions):
    text = section(page_of(submissions, "learner-3"), "slope_table")
    assert "What your cell raised SyntaxError: expected a colon (cell, line 1)" in text


def test_what_the_learner_wrote_is_escaped_and_control_characters_are_shown(submissions):
    page = page_of(submissions, "learner-2")
    assert "<script" not in page and "\x00" not in page and "\x1b" not in page
    assert "<script>alert('x')</script>\\x00 & \"quotes\"" in words(page)


def test_characters_that_turn_or_hide_text_are_shown_as_their_code(submissions):
    page = page_of(submissions, "learner-3")
    assert "AssertionError: <b>slope_table</b> of 2 points\\u202e gave 3" in words(page)
    assert "\u202e" not in page
    assert pages.plain("a\u2066b\u200bc\ufeffd\U000e0041\u2028") == r"a\u2066b\u200bc\ufeffd\U000e0041\u2028"
    assert pages.plain("שלום ñ 👩\u200d💻\n\t") == "שלום ñ 👩\u200d💻\n\t"


@pytest.mark.parametrize("place", ["code", "text", "error", "limit", "note", "exercise", "notebook"])
def test_no_field_of_a_row_can_bring_markup_into_the_page(submissions, place):
    for row in submissions["learner-3"].rows:
        row[place] = "<img src=x onerror=alert(1)>"
        row["comments"] = ["<b onclick='x'>"]
    submissions["learner-3"].notebooks[0]["repairs"] = ["<i>tag</i>"]
    page = page_of(submissions, "learner-3")
    assert not re.search("<img|<b onclick|<i>", page)


def test_lone_surrogates_can_be_written(submissions, tmp_path):
    row_of(submissions, "learner-1", "fresh_gradients")["code"] = "x = '\ud800'"
    path = pages.write(tmp_path / "page.html", page_of(submissions, "learner-1"))
    assert "\\xd800" not in path.read_text(encoding="utf-8") and "\\ud800" in path.read_text(encoding="utf-8")


def test_it_opens_offline_and_runs_nothing(submissions):
    for student in submissions:
        page = page_of(submissions, student)
        assert not re.search(r"<script|<link|\bsrc=|url\(|https?:", page)
        assert "default-src 'none'" in page


def test_it_stays_small_whatever_the_learner_returned(submissions):
    for row in submissions["learner-2"].rows:
        if row["record"] and row["record"]["case"]:
            row["record"]["case"] |= {"yours": "&" * 1_000_000, "call": "<" * 1_000_000}
        row |= {"code": "'" * 500_000, "text": "\x00" * 500_000}
    submissions["learner-2"].notebooks[0]["repairs"] = ["A tag was removed. " * 100] * 10_000
    page = page_of(submissions, "learner-2")
    assert len(page.encode()) < 300_000
    assert page.rstrip().endswith("</html>")
    assert "more changes of this kind" in page


def test_it_stays_small_with_hundreds_of_exercises_and_keeps_their_scores(submissions):
    long = submissions["learner-2"].rows[0] | {"code": "&" * 10_000}
    rows = [long | {"exercise": f"exercise_{number}"} for number in range(400)]
    page = feedback.page("Unit", GradedSubmission("learner-2", "graded", "", submissions["learner-2"].notebooks, rows))
    assert len(page.encode()) < 300_000
    assert page.count('<th scope="row">exercise') == 400
    assert "There is more to say on each exercise than a page can hold." in words(page)


def test_names_in_backticks_are_set_as_code_and_nothing_else_is(submissions):
    record_of(submissions, "learner-2")["requirements"][0]["words"] = "`w.grad` holds <b>the</b> sum"
    assert "<code>w.grad</code> holds &lt;b&gt;the&lt;/b&gt; sum" in page_of(submissions, "learner-2")


# ------------------------------------------------------------------------------------------ another nbgrader's course

PEEKS = """\
def squares(n):
    import sys, linecache
    caller = sys._getframe(1)
    raise ValueError("".join(linecache.getlines(caller.f_code.co_filename)))
"""
PRINTS = """\
def squares(n):
    import sys, linecache
    print("".join(linecache.getlines(sys._getframe(1).f_code.co_filename)))
    return []
"""
QUOTES = PEEKS.replace("raise ValueError(", "raise ValueError(repr(").replace("))", ")))")
HIDDEN = ("squares(11)", "121", "squares(0)", "BEGIN HIDDEN", "END HIDDEN")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course of the damaged submissions with some of them, and with some that look for the tests, graded."""
    root = tmp_path_factory.mktemp("feedback") / "course"
    shutil.copytree(CASES / "course", root)
    for case, student in (("00-control", "naive"), ("03-duplicated-test-cell", "m5"), ("05-utf8-bom", "s1")):
        shutil.copytree(CASES / case / "submitted" / student, root / "submitted" / student)
    shutil.copytree(CASES / "09-kernel-death" / "submitted" / "s1", root / "submitted" / "dies")
    broken = "def squares(n)\n    return []"
    for student, source in {"peeks": PEEKS, "quotes": QUOTES, "prints": PRINTS, "breaks": broken}.items():
        notebook = nbformat.read(CASES / "00-control" / "submitted" / "good" / "ps1" / "problem1.ipynb", 4)
        cell = next(one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("grade_id") == "squares")
        cell.source = source
        (root / "submitted" / student / "ps1").mkdir(parents=True)
        nbformat.write(notebook, root / "submitted" / student / "ps1" / "problem1.ipynb")
    grade(root=root, options=Options(limits=Limits(cell_seconds=10), jobs=1))
    with gradebook.opened(Folders(root)) as opened:
        opened.find_grade("explain", "problem1", "ps1", "m5").manual_score = 0.5
        opened.find_comment("explain", "problem1", "ps1", "m5").manual_comment = "Sums of <what>?"
        opened.find_comment("squares", "problem1", "ps1", "m5").manual_comment = "Where is n used?"
        opened.find_submission_notebook("problem1", "ps1", "m5").late_submission_penalty = 1.0
        opened.db.commit()
    return root, {path.parent.parent.name: path.read_text(encoding="utf-8") for path in feedback.feedback("ps1", root)}


@needs_linux
def test_every_learner_of_another_course_has_a_page_where_nbgrader_puts_its_own(course):
    root, written = course
    assert set(written) == {"naive", "m5", "s1", "dies", "peeks", "quotes", "prints", "breaks"}
    assert (root / "feedback" / "naive" / "ps1" / "ps1.html").is_file()


@needs_linux
@pytest.mark.parametrize("student", ["naive", "m5", "s1", "dies", "peeks", "quotes", "prints", "breaks"])
def test_no_line_of_a_test_is_on_a_page_whatever_the_learner_did_to_get_it_there(course, student):
    text = unescape(course[1][student])
    assert not [line for line in HIDDEN if line in text]
    assert not re.search(r"assert squares|score \+= mean", text)


@needs_linux
def test_a_learner_who_raised_the_tests_source_sees_that_it_was_left_out(course):
    text = section(course[1]["peeks"], "test_squares")
    assert "The test did not hold to its end. ValueError: (its message has lines of the test and is left out)" in text


@needs_linux
def test_an_ordinary_test_tells_the_exceptions_type_and_message_and_asks(course):
    text = section(course[1]["m5"], "test_squares")
    assert "✗ wrong 0 of 2 points." in text
    assert "The test did not hold to its end. AssertionError It says no more than that." in text
    assert "Your code def squares(n): return []" in text
    assert "The test gave 1. Which part of the task" in section(course[1]["naive"], "test_mean")


@needs_linux
def test_an_answer_that_does_not_compile_says_so_in_its_own_words(course):
    text = section(course[1]["breaks"], "test_squares")
    assert "NameError: name 'squares' is not defined" in text
    assert "What your cell raised SyntaxError: expected ':'" in text


@needs_linux
def test_repairs_and_ends_of_processes_are_told(course):
    assert "What was changed in your file" in words(course[1]["s1"])
    assert "byte order mark; read as such." in words(course[1]["s1"])
    assert "■ ended its process" in section(course[1]["dies"], "test_squares")
    assert "✓ right 3 of 3 points. The test held to its end." in section(course[1]["dies"], "test_mean")


@needs_linux
def test_what_people_entered_in_the_gradebook_is_on_the_page(course):
    page = course[1]["m5"]
    assert "3.5 of 6 points. It was handed in late: 1 is taken off, which leaves 2.5." in words(page)
    assert "● marked by a person 0.5 of 1 points. Comment Sums of <what>?" in section(page, "explain")
    assert "Comment Where is n used?" in section(page, "test_squares")


@pytest.fixture(scope="module")
def with_verdicts(course):
    """The notebooks with verdicts, by student."""
    root, _ = course
    feedback.feedback("ps1", root, notebooks=True)
    paths = (root / "feedback").glob("*/ps1/problem1.ipynb")
    return {path.parent.parent.name: nbformat.read(path, as_version=4) for path in paths}


@needs_linux
def test_a_notebook_has_each_verdict_below_its_test_and_the_comments(with_verdicts):
    cells = with_verdicts["m5"].cells
    nbformat.validate(with_verdicts["m5"])
    assert cells[0].source.startswith("**This is what was graded: 3.5 of 6 points.**")
    place = next(place for place, cell in enumerate(cells) if cell.id == "verdict-test_squares")
    assert cells[place].source.startswith("**✗ test\\_squares: wrong**, 0 of 2 points\n\n    AssertionError")
    assert "> **Comment**\n>\n> Where is n used?" in cells[place].source
    assert cells[place - 1].cell_type == "code" and not cells[place - 1].outputs
    assert "> Sums of <what>?" in next(cell.source for cell in cells if cell.id == "verdict-explain")
    assert any(cell.source == "def squares(n):\n    return []" for cell in cells)
    assert not any("nbgrader" in cell.metadata or "autogradlab" in cell.metadata for cell in cells)


@needs_linux
@pytest.mark.parametrize("student", ["naive", "m5", "s1", "dies", "peeks", "quotes", "prints", "breaks"])
def test_no_hidden_line_of_a_test_is_in_a_notebook_with_verdicts(with_verdicts, student):
    text = nbformat.writes(with_verdicts[student])
    assert not [line for line in HIDDEN if line in text]


@needs_linux
def test_the_page_of_one_submission_is_that_of_the_class(course):
    root, written = course
    with feedback.opened(Folders(root)) as found:
        path = found.path("ps1", "m5")
        path.unlink()
        assert found.write("ps1", "m5") == path
    assert path.read_text(encoding="utf-8") == written["m5"]
    assert not list(path.parent.glob("*.part"))


@needs_linux
def test_a_page_is_made_of_what_grading_has_at_hand_without_reading_it_again(course):
    root, written = course
    folders = Folders(root)
    node = nbformat.read(root / "autograded" / "naive" / "ps1" / "problem1.ipynb", 4)
    node.cells[3].source = "def squares(n):\n    return 'of the node'"
    result = folders.result("ps1", "naive") | {}
    result["notebooks"][0]["repairs"] = ["A sentence of the result."]
    with feedback.opened(folders) as found:
        text = found.write("ps1", "naive", result, {"problem1": node}).read_text(encoding="utf-8")
        assert "of the node" in unescape(text) and "A sentence of the result." in text
        assert found.write("ps1", "naive").read_text(encoding="utf-8") == written["naive"]


@needs_linux
def test_a_grade_that_came_by_another_door_is_noticed(course):
    root, _ = course
    with gradebook.opened(Folders(root)) as opened:
        opened.find_grade("test_mean", "problem1", "ps1", "prints").auto_score = 0.0
        opened.db.commit()
    (path,) = feedback.feedback("ps1", root, ["prints"])
    assert "The gradebook has other scores than this page" in words(path.read_text(encoding="utf-8"))
