"""One learner's feedback page, out of records in data/class_records.json."""

import json
import re
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from autograder import feedback, pages

DATA = Path(__file__).parent / "data" / "class_records.json"


@pytest.fixture
def frame():
    return pd.DataFrame(json.loads(DATA.read_text(encoding="utf-8")))


def page_of(frame, student):
    return feedback.page("Accumulating gradients", student, frame[frame["student"] == student])


def words(page):
    """The page's text, as a reader sees it."""
    body = page.partition("<main>")[2].replace("<wbr>", "")
    return " ".join(unescape(re.sub("<[^>]*>", " ", body)).split())


def test_it_shows_what_was_met_and_missed_the_case_and_the_question(frame):
    text = words(page_of(frame, "learner-2"))
    assert "each step returns the gradient of that step alone ✗ missed" in text
    assert "after the call w.grad holds the last step's gradient ✓ met" in text
    assert "fresh_gradients(tensor(1.3, requires_grad=True), tensor(0.7), 3)" in text
    assert "Yours [0.7, 1.4, 2.1] Expected [0.7, 0.7, 0.7]" in text
    assert "What does w.grad hold when the second step begins? (A01, never zeroes)" in text


def test_what_was_not_judged_is_not_called_missed(frame):
    record = frame.loc[frame["student"] == "learner-2", "record"].iloc[0]
    record["requirements"] = [
        {"words": "the first", "weight": 1, "met": False, "judged": True, "gate": True},
        {"words": "the second", "weight": 1, "met": False, "judged": False, "gate": False},
    ]
    text = words(page_of(frame, "learner-2"))
    assert "the first ✗ missed the second - not judged while the first is missed" in text


def test_it_shows_the_learner_their_own_code(frame):
    assert "gradients.append(w.grad.item())" in words(page_of(frame, "learner-2"))


def test_it_shows_nothing_of_others(frame):
    frame.loc[frame["student"] == "learner-1", "code"] = "secret_of_learner_1"
    assert "secret_of_learner_1" not in page_of(frame, "learner-2")


def test_an_exception_is_shown_with_its_traceback(frame):
    text = words(page_of(frame, "learner-3"))
    assert "It raised ZeroDivisionError: division by zero line 3, in accumulated_loss return loss / 0" in text


def test_a_wrong_answer_that_nothing_explains_still_gets_a_question(frame):
    assert "This is not a mistake that the course knows. Which line of yours" in words(page_of(frame, "learner-3"))


def test_a_prediction_that_nothing_explains_is_not_asked_for_a_line_of_code(frame):
    wrong = (frame["student"] == "learner-3") & (frame["status"] == "wrong")
    record = frame.loc[wrong, "record"].iloc[0]
    record |= {"prediction": True, "unexplained": [0], "misconceptions": []}
    assert "What did you expect to happen there, and why?" in words(page_of(frame, "learner-3"))


def test_a_wrong_answer_without_a_case_shows_what_the_check_said(frame):
    record = frame.loc[frame["student"] == "learner-2", "record"].iloc[0]
    record |= {"case": None, "misconceptions": [], "text": "fresh_gradients is 3 here, so it cannot be called."}
    assert "fresh_gradients is 3 here, so it cannot be called." in words(page_of(frame, "learner-2"))


def test_an_untouched_answer_and_a_missing_verdict_are_told_apart(frame):
    text = words(page_of(frame, "learner-4"))
    assert "meter_reading: - not attempted" in text
    assert "accumulated_loss: ! no verdict" in text and "left no verdict" in text


def test_a_submission_without_a_grade_says_why(frame):
    text = words(page_of(frame, "learner-5"))
    assert "This submission has no grade. 05_small.ipynb, line 3: Expecting value." in text


def test_what_the_learner_wrote_is_escaped_and_control_characters_are_shown(frame):
    page = page_of(frame, "learner-2")
    assert "<script" not in page and "\x00" not in page and "\x1b" not in page
    assert "<script>alert('x')</script>\\x00 & \"quotes\"" in words(page)


def test_lone_surrogates_can_be_written(frame, tmp_path):
    frame.loc[frame["student"] == "learner-1", "code"] = "x = '\ud800'"
    path = pages.write(tmp_path / "page.html", page_of(frame, "learner-1"))
    assert "\\xd800" in path.read_text(encoding="utf-8")


def test_it_opens_offline_and_runs_nothing(frame):
    page = page_of(frame, "learner-2")
    assert not re.search(r"<script|<link|\bsrc=|url\(|https?:", page)
    assert "default-src 'none'" in page


def test_it_stays_small_whatever_the_learner_returned(frame):
    for record in frame["record"].dropna():
        if record["case"]:
            record["case"] |= {"yours": "&" * 1_000_000, "call": "<" * 1_000_000}
    frame["code"] = "'" * 500_000
    page = page_of(frame, "learner-2")
    assert len(page.encode()) < 300_000
    assert page.rstrip().endswith("</html>")


def test_names_in_backticks_are_set_as_code_and_nothing_else_is(frame):
    record = frame.loc[frame["student"] == "learner-2", "record"].iloc[0]
    record["requirements"][0]["words"] = "`w.grad` holds <b>the</b> sum"
    assert "<code>w.grad</code> holds &lt;b&gt;the&lt;/b&gt; sum" in page_of(frame, "learner-2")
