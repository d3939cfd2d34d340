"""The class report and a feedback page in a real browser: light, dark, and as narrow as 400 % zoom makes them."""

import json
from pathlib import Path

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

from autograder import feedback, pages, report

RECORDS = Path(__file__).resolve().parents[1] / "data" / "class_records.json"

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The pages of the small class, by name."""
    frame = pd.DataFrame(json.loads(RECORDS.read_text(encoding="utf-8")))
    texts = {"report": report.page("Accumulating gradients", frame, report.draw(frame))}
    for student, rows in frame.groupby("student"):
        texts[student] = feedback.page("Accumulating gradients", student, rows)
    folder = tmp_path_factory.mktemp("pages")
    return {name: pages.write(folder / f"{name}.html", text) for name, text in texts.items()}


@pytest.fixture
def opened(browser, written):
    """Opens a page of the class with a colour scheme and a width; the page's own policy would keep axe out."""
    contexts = []

    def opened(name, scheme, width):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
        contexts.append(context)
        page = context.new_page()
        page.goto(written[name].as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 320)])
@pytest.mark.parametrize("name", ["report", "learner-2", "learner-3", "learner-4", "learner-5"])
def test_axe_finds_nothing_and_the_page_fits(opened, artifacts, name, scheme, width):
    page = opened(name, scheme, width)
    page.screenshot(path=artifacts / f"{name}-{scheme}-{width}.png", full_page=True)
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_every_wide_table_can_be_reached_and_scrolled_with_the_keyboard(opened):
    page = opened("report", "light", 320)
    reached = set()
    for _ in range(3):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert reached == {"Learners and exercises", "Exercises", "Misconceptions"}
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")
