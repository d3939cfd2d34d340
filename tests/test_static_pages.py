"""The units as pages to read: all of the text, no solution, nothing fetched, and every link leads somewhere."""

import html.parser
import json
import re
from pathlib import Path

import pytest
from autogradlab import answers
from autogradlab.merging import source_of

from autograder.lessons import ContentError
from autograder.static_pages import STYLED, build_pages

ROOT = Path(__file__).resolve().parents[1]
UNITS = sorted(path.name for path in (ROOT / "release").glob("*"))


class Page(html.parser.HTMLParser):
    """A page's ids, links, headings, words, and whatever would fetch something."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched, self.levels, self.words, self.spans = [], [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if tag == "a" else []
        self.spans += [attributes["class"]] if tag == "span" and attributes else []
        self.levels += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        if tag in ("script", "link", "iframe") or "src" in attributes and not attributes["src"].startswith("data:"):
            self.fetched.append((tag, attributes))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    into = tmp_path_factory.mktemp("pages")
    return {path.stem: Page(path.read_text(encoding="utf-8")) for path in build_pages(into=into)}


def test_there_is_a_page_for_every_unit_and_one_that_leads_to_them(written):
    assert sorted(written) == sorted([*UNITS, "index"])
    assert {f"{name}.html" for name in UNITS} <= set(written["index"].links)
    assert "run.py lab" in written["index"].text


@pytest.mark.parametrize("unit", UNITS)
def test_every_line_of_code_of_a_unit_can_be_read_and_no_solution(written, unit):
    cells = json.loads((ROOT / "release" / unit / f"{unit}.ipynb").read_bytes())["cells"]
    page = written[unit]
    lines = {line.strip() for cell in cells if cell["cell_type"] == "code" for line in source_of(cell).split("\n")}
    assert not [line for line in lines if line not in page.text]
    released = "\n".join(map(source_of, cells))
    source = json.loads((ROOT / "source" / unit / f"{unit}.ipynb").read_bytes())["cells"]
    for cell in source:
        if cell["metadata"].get("nbgrader", {}).get("solution") and cell["cell_type"] == "code":
            for line in answers.text_of(unit, cell["id"]).split("\n"):
                assert line.strip() not in page.text or line.strip() in released


def test_code_is_marked_up_as_far_as_the_style_sheet_tells_it_apart(written):
    template = (ROOT / "autograder" / "templates" / "unit.html.j2").read_text(encoding="utf-8")
    named = re.findall(r"^(\.\w+(?:, \.\w+)*) {", template, re.MULTILINE)
    assert {name.lstrip(".") for names in named for name in names.split(", ")} == STYLED
    assert {name for unit in UNITS for name in written[unit].spans} == STYLED


def test_no_page_fetches_anything(written):
    assert {name: page.fetched for name, page in written.items() if page.fetched} == {}


def test_every_link_within_the_pages_leads_somewhere(written):
    for name, page in written.items():
        for link in page.links:
            if re.match(r"https?:", link):
                continue
            file, _, anchor = link.partition("#")
            target = file.removesuffix(".html") or name
            assert file in ("", f"{name}.zip") or file.endswith(".html"), f"{name}: {link}"
            if target in written and anchor:
                assert anchor in written[target].ids, f"{name}: {link}"


def test_headings_begin_at_the_first_level_and_skip_none(written):
    for name, page in written.items():
        assert page.levels[0] == 1, name
        assert page.levels.count(1) == 1, name
        assert all(after - before <= 1 for before, after in zip(page.levels, page.levels[1:])), name
        assert len(page.ids) == len(set(page.ids)), name


def test_one_unit_can_be_written_alone(tmp_path):
    (path,) = build_pages([UNITS[0]], tmp_path)
    assert path.name == f"{UNITS[0]}.html"


def test_a_release_that_is_missing_or_damaged_is_told(tmp_path):
    with pytest.raises(ContentError, match="there is no unit in it"):
        build_pages(into=tmp_path / "pages", release=tmp_path)
    (tmp_path / "05_unit").mkdir()
    (tmp_path / "05_unit" / "05_unit.ipynb").write_text("{")
    with pytest.raises(ContentError, match="cannot be read as a notebook"):
        build_pages(into=tmp_path / "pages", release=tmp_path)
