"""The units as static pages in a real browser: light, dark, and as narrow as 400 % zoom makes them."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from autograder.static_pages import build_pages

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["index", *sorted(path.name for path in (ROOT / "release").iterdir())]

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The pages that were written, by name."""
    return {path.stem: path for path in build_pages(into=tmp_path_factory.mktemp("pages"))}


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_and_the_page_fits_light_dark_and_narrow(sheet, written, artifacts, name):
    assert sorted(written) == sorted(NAMES)
    sheet.goto(written[name].as_uri())
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 320)):
        sheet.emulate_media(color_scheme=scheme)
        sheet.set_viewport_size({"width": width, "height": 900})
        sheet.screenshot(path=artifacts / f"{name}-{scheme}-{width}.png")
        assert [one["id"] for one in Axe().run(sheet).response["violations"]] == [], (scheme, width)
        assert sheet.evaluate("document.documentElement.scrollWidth") == width, (scheme, width)
