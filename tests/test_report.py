"""The class report of a class whose records are in data/class_records.json."""

import json
import re
import shutil
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from autograder import records, report, statistics
from autograder.pages import STATUSES
from autograder.records import GradedSubmission

DATA = Path(__file__).parent / "data" / "class_records.json"


def small_class():
    return [GradedSubmission(**one) for one in json.loads(DATA.read_text(encoding="utf-8"))]


@pytest.fixture
def submissions():
    return small_class()


@pytest.fixture
def frame(submissions):
    return records.frame_of(submissions)


@pytest.fixture(scope="module")
def drawn():
    return report.draw(records.frame_of(small_class()))


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


def test_the_small_class_shows_every_status(frame):
    assert set(frame["status"]) == set(STATUSES)


def test_facility_is_the_mean_share_of_the_points(frame):
    assert statistics.exercises(frame)["facility"].round(3).to_dict() == {
        "fresh_gradients": 0.111,
        "accumulated_loss": 0.167,
        "meter_reading": 0.111,
        "slope_table": 0.25,
        "explain": 0.214,
    }


def test_answers_that_wait_for_a_person_are_in_no_facility_and_in_nobodys_total(frame):
    waiting = frame["status"] == "to be marked"
    without = frame[~waiting]
    assert waiting.sum() == 2 and frame.loc[waiting, "score"].isna().all()
    assert statistics.exercises(frame)["facility"].equals(statistics.exercises(without)["facility"])
    assert statistics.totals(frame)["learner-2"] == 2.5 / 11


def test_a_class_that_nobody_has_marked_has_a_report_too(submissions):
    waiting = [
        vars(one) | {"rows": [row for row in one.rows if row["status"] == "to be marked"]} for one in submissions
    ]
    unmarked = [GradedSubmission(**one) for one in waiting if one["rows"]]
    frame = records.frame_of(unmarked)
    assert statistics.exercises(frame)["facility"].isna().all() and statistics.totals(frame).empty
    page = report.page("Unit", unmarked, report.draw(frame))
    assert "nan" not in re.sub('base64,[^"]*', "", page)


def test_every_answer_is_counted_once(frame):
    counts = statistics.exercises(frame)
    ways = ["right", "partly", "wrong", "untouched", "stopped", "marked", "waiting", "ungraded"]
    assert counts[ways].sum(axis=1).tolist() == [frame["student"].nunique()] * len(counts)
    assert counts[[column for column, *_ in report.BARS]].sum(axis=1).tolist() == [len(set(frame["student"]))] * 5
    assert (counts["named"] + counts["unnamed"]).tolist() == (counts["partly"] + counts["wrong"]).tolist()


def test_misconceptions_are_counted_by_exercise_the_most_frequent_first(frame):
    counts = statistics.misconceptions(frame)
    assert counts.index[0] == "A01"
    assert counts.loc["A01", ["fresh_gradients", "accumulated_loss", "meter_reading"]].tolist() == [2, 0, 0]


def test_a_class_without_misconceptions_has_a_report_too(submissions):
    for submission in submissions:
        submission.rows[:] = [row for row in submission.rows if not row["misconceptions"]]
    assert "No answer showed a misconception" in report.page("Unit", submissions, [])
    assert len(report.draw(records.frame_of(submissions))) == 2


def test_the_page_stands_alone_and_runs_no_script(submissions, drawn):
    tags = Tags(report.page("Unit", submissions, drawn))
    assert not tags.all("script") and not tags.all("link")
    assert all(image["src"].startswith("data:image/png;base64,") for image in tags.all("img"))
    assert len(tags.all("img")) == 3


def test_every_figure_says_in_words_what_it_shows(drawn):
    assert [len(figure.alt.split()) > 10 for figure in drawn] == [True] * 3
    assert all(figure.alt.encode() in figure.png for figure in drawn)


def test_every_table_has_a_caption_and_every_heading_a_scope(submissions, drawn):
    tags = Tags(report.page("Unit", submissions, drawn))
    assert len(tags.all("caption")) == len(tags.all("table")) == 4
    assert {heading["scope"] for heading in tags.all("th")} == {"row", "col"}


def test_statuses_are_told_in_words_and_not_by_colour_alone(submissions, drawn):
    page = report.page("Unit", submissions, drawn)
    cells = re.findall(r'<td class="wrong">.*?</td>', page, re.DOTALL)
    assert cells and all("wrong" in re.sub("<[^>]*>", "", cell) for cell in cells)
    stopped = re.findall(r'<td class="stopped">.*?</td>', page, re.DOTALL)
    assert len(stopped) == 8 and "took too long" in stopped[0]


def test_what_was_repaired_flagged_stopped_or_tried_twice_is_told_of_each_submission(submissions):
    page = report.page("Unit", submissions, [])
    table = page[page.index("Remarks on submissions") :].partition("</table>")[0]
    rows = [
        " ".join(re.sub("<[^>]*>", " ", row.replace("<wbr>", "")).split())
        for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)
    ]
    assert "learner-6 repaired 05_small 05_small.ipynb was saved as UTF-8 with a byte order mark; read as such." in rows
    assert "learner-6 flagged 05_small The test cell slope_table had the tag skip-execution; it was removed." in rows
    assert "learner-6 used too much memory accumulated_loss The memory limit of 2048 MiB was reached." in rows
    assert "learner-7 ended its process slope_table The process ended by itself (signal SIGSEGV)." in rows
    assert [row for row in rows if row.startswith("learner-2 second try slope_table It is missed in the notebook")]
    assert not [row for row in rows if row.startswith("learner-1")]


def test_a_class_in_which_nothing_is_out_of_the_ordinary_says_so(submissions):
    page = report.page("Unit", submissions[:1], [])
    assert "No submission was repaired, flagged, stopped or tried twice." in page


def test_who_has_no_grade_is_listed_with_the_reason(submissions):
    text = re.sub("<[^>]*>", "", report.page("Unit", submissions, []))
    assert "learner-5 (unreadable): 05_small.ipynb, line 3: Expecting value." in text
    assert "learner-8 (not handed in): 05_small.ipynb was not handed in." in text
    assert "learner-9 (could not be graded): The process that graded it ended each time." in text


def test_what_learners_wrote_is_escaped(submissions):
    submissions[4].notebooks[0]["message"] = "<script>alert(1)</script>"
    submissions[5].notebooks[0]["repairs"] = ["The tag <script>alert(2)</script>\u202e was removed."]
    page = report.page("Unit", submissions, [])
    assert "<script>" not in page and "\u202e" not in page
    assert page.count("&lt;script&gt;") == 2


def test_the_report_is_a_page_with_png_and_csv_beside_it(submissions, drawn, tmp_path, monkeypatch):
    class Found:
        def submissions(self, unit, students):
            return submissions

    shutil.copy(Path(__file__).parent.parent / "nbgrader_config.py", tmp_path)
    monkeypatch.setattr(report.records, "opened", lambda _: nullcontext(Found()))
    monkeypatch.setattr(report, "draw", lambda _: drawn)
    page = report.report("05_small", tmp_path)
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"index.html"} | {f"{name}.png" for name in ("exercises", "scores", "misconceptions")} | {
        f"{name}.csv" for name in ("marks", "answers", "exercises", "misconceptions", "remarks")
    }
    marks = pd.read_csv(page.parent / "marks.csv", index_col="student")
    assert marks.loc["learner-2", "total"] == 2.5
    answers = pd.read_csv(page.parent / "answers.csv", keep_default_na=False).set_index(["student", "exercise"])
    assert answers.loc[("learner-2", "fresh_gradients"), "misconceptions"] == "A01"
    remarks = pd.read_csv(page.parent / "remarks.csv")
    assert remarks["kind"].value_counts().to_dict()["repaired"] == 2
