"""The units as static pages in a real browser: light, dark, and as narrow as 400 % zoom makes them."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from autograder.static_pages import build_pages

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return build_pages(into=tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 320)])
def test_axe_finds_nothing_and_every_page_fits(browser, written, artifacts, scheme, width):
    # The pages' own policy would keep axe out.
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    found = {}
    for path in written:
        page = context.new_page()
        page.goto(path.as_uri())
        page.screenshot(path=artifacts / f"{path.stem}-{scheme}-{width}.png")
        found[path.stem] = [one["id"] for one in Axe().run(page).response["violations"]]
        if page.evaluate("document.documentElement.scrollWidth") != width:
            found[path.stem].append("wider than the window")
        page.close()
    context.close()
    assert {name: problems for name, problems in found.items() if problems} == {}
