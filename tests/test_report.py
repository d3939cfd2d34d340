"""The class report of a class whose records are in data/class_records.json."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from autograder import report, statistics

DATA = Path(__file__).parent / "data" / "class_records.json"


@pytest.fixture
def frame():
    return pd.DataFrame(json.loads(DATA.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def drawn():
    return report.draw(pd.DataFrame(json.loads(DATA.read_text(encoding="utf-8"))))


class Tags(HTMLParser):
    """The start tags of a page with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def all(self, name):
        return [attributes for tag, attributes in self.found if tag == name]


def test_facility_is_the_mean_share_of_the_points(frame):
    assert statistics.exercises(frame)["facility"].round(3).to_dict() == {
        "fresh_gradients": 0.2,
        "accumulated_loss": 0.3,
        "meter_reading": 0.2,
    }


def test_every_answer_is_counted_once(frame):
    counts = statistics.exercises(frame)
    ways = counts[["right", "partly", "wrong", "untouched", "ungraded"]].sum(axis=1)
    assert ways.tolist() == [frame["student"].nunique()] * len(counts)
    assert (counts["named"] + counts["unnamed"]).tolist() == (counts["partly"] + counts["wrong"]).tolist()


def test_misconceptions_are_counted_by_exercise_the_most_frequent_first(frame):
    counts = statistics.misconceptions(frame)
    assert counts.index[0] == "A01"
    assert counts.loc["A01"].to_dict() == {"fresh_gradients": 2, "accumulated_loss": 0, "meter_reading": 0}


def test_a_class_without_misconceptions_has_a_report_too(frame):
    blank = frame[frame["misconceptions"].map(len) == 0]
    assert "No answer showed a misconception" in report.page("Unit", blank, [])
    assert len(report.draw(blank)) == 2


def test_the_page_stands_alone_and_runs_no_script(frame, drawn):
    tags = Tags(report.page("Unit", frame, drawn))
    assert not tags.all("script") and not tags.all("link")
    assert all(image["src"].startswith("data:image/png;base64,") for image in tags.all("img"))
    assert len(tags.all("img")) == 3


def test_every_figure_says_in_words_what_it_shows(frame, drawn):
    assert [len(figure.alt.split()) > 10 for figure in drawn] == [True] * 3
    assert all(figure.alt.encode() in figure.png for figure in drawn)


def test_every_table_has_a_caption_and_every_heading_a_scope(frame, drawn):
    tags = Tags(report.page("Unit", frame, drawn))
    assert len(tags.all("caption")) == len(tags.all("table")) == 3
    assert {heading["scope"] for heading in tags.all("th")} == {"row", "col"}


def test_statuses_are_told_in_words_and_not_by_colour_alone(frame, drawn):
    page = report.page("Unit", frame, drawn)
    cells = re.findall(r'<td class="wrong">.*?</td>', page, re.DOTALL)
    assert cells and all("wrong" in re.sub("<[^>]*>", "", cell) for cell in cells)


def test_what_learners_wrote_is_escaped(frame):
    frame.loc[frame["status"] == "unreadable", "text"] = "<script>alert(1)</script>"
    assert "<script>" not in report.page("Unit", frame, [])


def test_the_report_is_a_page_with_png_and_csv_beside_it(frame, drawn, tmp_path, monkeypatch):
    shutil.copy(Path(__file__).parent.parent / "nbgrader_config.py", tmp_path)
    monkeypatch.setattr(report, "records", lambda *_: frame)
    monkeypatch.setattr(report, "draw", lambda _: drawn)
    page = report.report("05_small", tmp_path)
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"index.html"} | {f"{name}.png" for name in ("exercises", "scores", "misconceptions")} | {
        f"{name}.csv" for name in ("marks", "answers", "exercises", "misconceptions")
    }
    marks = pd.read_csv(page.parent / "marks.csv", index_col="student")
    assert marks.loc["learner-2", "total"] == 1.5
    answers = pd.read_csv(page.parent / "answers.csv", keep_default_na=False)
    assert answers["misconceptions"].tolist()[3] == "A01"
