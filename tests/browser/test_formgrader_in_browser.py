"""The formgrader in a real JupyterLab: its button grades with the engine; marks and comments reach the feedback."""

import re

import pytest
from autogradlab import lab as learners_lab
from playwright.sync_api import expect
from tiny_course import KEEPS, UNIT, hand_in, tiny_course

from autograder.feedback import feedback
from autograder.grading import grade

LEARNER = "ada"
START = """
import sys
from pathlib import Path
from autogradlab import lab

lab.start(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
"""
COMMENT = "Your loop is nearly there: look at what w.grad holds before it."

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture
def author(serving, tmp_path):
    """JupyterLab with the author's profile, in a course of one tiny unit to which one learner has handed in."""
    course = tiny_course(tmp_path / "course")
    hand_in(course, LEARNER, KEEPS)
    profile = learners_lab.ROOT / ".jupyter" / "author"
    with serving(tmp_path / "home", course, ["-c", START, course, profile]) as server:
        yield server


def test_the_button_grades_and_a_mark_and_a_comment_by_hand_are_in_the_feedback(author, page, artifacts):
    page.goto(author.page())
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('nbgrader:open-formgrader')")
    page.evaluate("window.jupyterapp.commands.execute('nbgrader:open-formgrader')")
    forms = page.frame_locator(".jp-IFrame iframe, iframe")

    forms.locator(".num-submissions a").click()
    row = forms.locator("tr", has_text=LEARNER)
    expect(row).to_contain_text("needs autograding")
    row.locator(".autograde a").click()
    expect(forms.locator("#success-modal")).to_contain_text("Successfully autograded")
    page.screenshot(path=artifacts / "formgrader-graded.png", animations="disabled")
    forms.locator("#success-modal .btn", has_text="OK").click()
    expect(row.locator(".status")).to_contain_text("graded")

    row.locator(".student-name a").click()
    forms.locator("td a", has_text=UNIT).first.click()
    mark = forms.locator("#slope_tests")
    expect(mark).to_have_attribute("placeholder", re.compile(r"\d"))
    for field, text in ((mark, "1.5"), (forms.locator("#slope-comment"), COMMENT)):
        with page.expect_response(lambda response: response.request.method == "PUT") as answered:
            field.fill(text)
            field.press("Tab")
        assert answered.value.ok
    page.screenshot(path=artifacts / "formgrader-by-hand.png")

    (graded,) = grade([UNIT], root=author.folder)  # as before any report; marks by hand stay
    assert graded.status == "graded"
    (written,) = feedback(UNIT, author.folder)
    page.goto(written.as_uri())
    exercise = page.locator("section.exercise", has=page.get_by_role("heading", name=re.compile("^slope:")))
    expect(exercise).to_contain_text("1.5 of 2 points")
    expect(exercise).to_contain_text("A person has set them; the automatic score was")
    expect(exercise.locator(".comment")).to_have_text(COMMENT)
    page.screenshot(path=artifacts / "formgrader-feedback.png", full_page=True)
