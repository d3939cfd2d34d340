"""The class report and a feedback page in a real browser: light, dark, and as narrow as 400 % zoom makes them."""

import json
from pathlib import Path

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

from autograder import comparison, feedback, pages, records, report, report_figures
from autograder.records import GradedSubmission

RECORDS = Path(__file__).resolve().parents[1] / "data" / "class_records.json"

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def several(submission):
    """The submission as if half of its exercises were another notebook's, which could not be read."""
    rows = [row | {"notebook": f"problem_{number % 2}"} for number, row in enumerate(submission.rows)]
    rows[1] |= {"status": "unreadable"}
    read, unread = ({"notebook": f"problem_{number}", "message": "", "repairs": [], "flags": []} for number in range(2))
    read |= {"status": "graded", "repairs": submission.notebooks[0]["repairs"]}
    unread |= {"status": "unreadable", "message": "problem_1.ipynb, line 3: Expecting value."}
    return GradedSubmission(**(vars(submission) | {"rows": rows, "notebooks": [read, unread], "is_current": False}))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The pages of the small class, by name."""
    submissions = [GradedSubmission(**one) for one in json.loads(RECORDS.read_text(encoding="utf-8"))]
    frame = records.frame_of(submissions)
    now = comparison.summary("05_small", frame)
    before = comparison.summary("05_small", frame[frame["student"] != "learner-1"])
    timed = pd.DataFrame({"minutes": 7.5, "timed": 3}, index=frame["exercise"].unique())
    drawn = [*report_figures.draw(frame), report_figures.draw_change(now, before)]
    texts = {"report": report.page("Accumulating gradients", submissions, drawn, timed, now, before)}
    texts |= {one.student: feedback.page("Accumulating gradients", one) for one in submissions}
    texts["several"] = feedback.page("Two notebooks", several(submissions[5]))
    folder = tmp_path_factory.mktemp("pages")
    return {name: pages.write(folder / f"{name}.html", text) for name, text in texts.items()}


@pytest.fixture
def opened(sheet, written):
    """Opens a page of the class by its name, in a width."""

    def opened(name, width):
        sheet.set_viewport_size({"width": width, "height": 900})
        sheet.goto(written[name].as_uri())
        return sheet

    return opened


@pytest.mark.parametrize("name", ["report", "several", *(f"learner-{number}" for number in range(1, 10))])
def test_axe_finds_nothing_and_the_page_fits_light_dark_and_narrow(opened, artifacts, name):
    page = opened(name, 1200)
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 320)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=artifacts / f"{name}-{scheme}-{width}.png", full_page=True)
        assert Axe().run(page).response["violations"] == [], (scheme, width)
        assert page.evaluate("document.documentElement.scrollWidth") == width, (scheme, width)


def test_every_wide_table_can_be_reached_and_scrolled_with_the_keyboard(opened):
    page = opened("report", 320)
    reached = set()
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    changes = {"Change of exercises", "Change of misconceptions"}
    assert reached == {"Learners and exercises", "Out of the ordinary", "Exercises", "Misconceptions"} | changes
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")
