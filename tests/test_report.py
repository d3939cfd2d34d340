"""The class report of a class whose records are in data/class_records.json."""

import json
import re
import shutil
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from autograder import comparison, records, report, report_figures, statistics
from autograder.asked import AskedCell
from autograder.folders import Folders, GradingError
from autograder.pages import STATUSES
from autograder.records import GradedSubmission
from autograder.timing import times

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
    return report_figures.draw(records.frame_of(small_class()))


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
        "explain": 0.3,
    }


def test_answers_that_wait_for_a_person_are_in_no_facility_and_in_nobodys_total(frame):
    waiting = frame["status"] == "to be marked"
    # Those left untouched have their 0 already; alone they would be all that the facility tells.
    early = frame["exercise"].isin(frame.loc[waiting, "exercise"]) & frame["status"].isin(statistics.UNTOUCHED)
    without = frame[~waiting & ~early]
    assert waiting.sum() == 2 and frame.loc[waiting, "score"].isna().all() and early.any()
    assert statistics.exercises(frame)["facility"].equals(statistics.exercises(without)["facility"])
    assert statistics.totals(frame)["learner-2"] == 2.5 / 11


def test_a_class_that_nobody_has_marked_has_a_report_too(submissions):
    waiting = [
        vars(one) | {"rows": [row for row in one.rows if row["status"] == "to be marked"]} for one in submissions
    ]
    unmarked = [GradedSubmission(**one) for one in waiting if one["rows"]]
    frame = records.frame_of(unmarked)
    assert statistics.exercises(frame)["facility"].isna().all() and statistics.totals(frame).empty
    page = report.page("Unit", unmarked, report_figures.draw(frame))
    assert "nan" not in re.sub('base64,[^"]*', "", page)


def test_wrong_answers_of_which_nothing_tells_what_they_did_are_not_said_to_be_recognised(submissions):
    for one in submissions:
        one.rows[:] = [row | {"record": None} for row in one.rows]
    frame = records.frame_of(submissions)
    untold = statistics.exercises(frame)["unnamed"].sum()
    page = report.page("Unit", submissions, [])
    assert untold > 1 and "was recognised." not in page
    assert f"{untold} wrong answers failed a test that does not tell what an answer did" in page


def test_of_one_learners_remarks_the_page_shows_the_first_and_says_how_many_more_the_csv_has(submissions):
    notebook = submissions[0].notebooks[0]
    notebook["repairs"], notebook["flags"] = [f"Cell {number} was moved." for number in range(40)], ["Look at this."]
    page = report.page("Unit", submissions, [])
    assert page.count(" was moved.") == report.REMARKS
    assert f"{40 - report.REMARKS} more are in remarks.csv." in page and "Look at this." in page
    assert report.tables(submissions)["remarks"]["what"].str.contains("was moved").sum() == 40


def test_every_answer_is_counted_once(frame):
    counts = statistics.exercises(frame)
    ways = ["right", "partly", "wrong", "untouched", "stopped", "marked", "waiting", "ungraded"]
    assert counts[ways].sum(axis=1).tolist() == [frame["student"].nunique()] * len(counts)
    assert (
        counts[[column for column, *_ in report_figures.BARS]].sum(axis=1).tolist() == [len(set(frame["student"]))] * 5
    )
    assert (counts["named"] + counts["unnamed"]).tolist() == (counts["partly"] + counts["wrong"]).tolist()


def test_misconceptions_are_counted_by_exercise_the_most_frequent_first(frame):
    counts = statistics.misconceptions(frame)
    assert counts.index[0] == "A01"
    assert counts.loc["A01", ["fresh_gradients", "accumulated_loss", "meter_reading"]].tolist() == [2, 0, 0]


def test_a_class_without_misconceptions_has_a_report_too(submissions):
    for submission in submissions:
        submission.rows[:] = [row for row in submission.rows if not row["misconceptions"]]
    assert "No answer showed a misconception" in report.page("Unit", submissions, [])
    assert len(report_figures.draw(records.frame_of(submissions))) == 2


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
    submissions[2].rows[0]["record"]["requirements"][0]["words"] = "<script>alert(3)</script>"
    page = report.page("Unit", submissions, [])
    assert "<script>" not in page and "\u202e" not in page and "\x1b" not in page
    assert all(f"&lt;script&gt;alert({number})" in page for number in (1, 2, 3))


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
        f"{name}.csv" for name in ("marks", "answers", "exercises", "misconceptions", "not_recognised", "remarks")
    } | {"class.json"}
    marks = pd.read_csv(page.parent / "marks.csv", index_col="student")
    assert marks.loc["learner-2", "total"] == 2.5
    answers = pd.read_csv(page.parent / "answers.csv", keep_default_na=False).set_index(["student", "exercise"])
    assert answers.loc[("learner-2", "fresh_gradients"), "misconceptions"] == "A01"
    remarks = pd.read_csv(page.parent / "remarks.csv")
    assert remarks["kind"].value_counts().to_dict()["repaired"] == 2

    before = page.parent / "before.json"
    shutil.copy(page.parent / "class.json", before)
    for name in ("learner-1", "learner-2"):
        assert name not in before.read_text(encoding="utf-8")
    text = report.report("05_small", tmp_path, against=before).read_text(encoding="utf-8")
    assert "No exercise changed by more than chance explains" in text
    assert (page.parent / "change.png").is_file() and (page.parent / "change_of_exercises.csv").is_file()


# ------------------------------------------------------------------------------------------------ discrimination


def class_of(**scores):
    """Rows of a class: for each exercise the share of one point that each learner got."""
    return pd.DataFrame(
        {"student": f"s{place}", "exercise": exercise, "score": score, "points": 1.0}
        | {"status": "right" if score == 1 else "wrong", "misconceptions": [], "record": None}
        for exercise, own in scores.items()
        for place, score in enumerate(own)
    )


def test_discrimination_is_the_correlation_with_the_rest_without_the_exercise_itself():
    good = [0, 0, 0.5, 1, 1, 1]
    found = statistics.discrimination(class_of(a=good, b=good, c=[1, 1, 1, 0, 0, 1]))
    rest = pd.Series([b + c for b, c in zip(good, [1, 1, 1, 0, 0, 1], strict=True)])
    assert found["a"] == pytest.approx(pd.Series(good).corr(rest)) and found["c"] < 0
    page_of = statistics.discrimination(class_of(a=good, b=good))
    assert page_of.round(6).tolist() == [1, 1]


def test_discrimination_of_what_does_not_vary_of_few_learners_and_of_one_exercise_is_none():
    assert statistics.discrimination(class_of(a=[1] * 6, b=[0, 0, 0, 1, 1, 1])).isna().all()
    assert statistics.discrimination(class_of(a=[0, 1, 0, 1], b=[0, 0, 1, 1])).isna().all()
    assert statistics.discrimination(class_of(a=[0, 0, 0, 1, 1, 1])).isna().all()


# --------------------------------------------------------------------------------------- shared and not recognised


def test_a_misconception_of_a_third_of_those_who_began_is_the_classs(frame, submissions):
    held = statistics.holders(frame)
    assert held.loc["A01", ["learners", "begun"]].tolist() == [2, 6]
    page = report.page("Unit", submissions, [])
    listed = page[page.index("Shared by the class") :].partition("</ul>")[0]
    assert "A01" in listed and "2 of 6 learners (33 %)" in listed and "A17" not in listed


def test_wrong_answers_that_nothing_recognises_are_listed_with_what_they_do(submissions):
    page = report.page("Unit", submissions, [])
    section = page[page.index("<h2>Not recognised") :]
    assert section.count("<strong>1 answer</strong>") == 2
    assert "accumulated_<wbr>loss" in section and "the gradient is that of the whole batch" in section


# ------------------------------------------------------------------------------------------------------- times


def notebook_with_times(path, cells):
    path.parent.mkdir(parents=True)
    listed = []
    for name, time in cells:
        metadata = {"nbgrader": {"grade_id": name}} if name else {}
        metadata |= {"execution": {"shell.execute_reply": f"2026-11-30T10:{time}Z"}} if time else {}
        listed.append({"cell_type": "code", "metadata": metadata, "source": ""})
    path.write_text(json.dumps({"cells": listed}), encoding="utf-8")


def test_minutes_run_from_whatever_was_run_before_to_the_exercises_test(tmp_path):
    shutil.copy(Path(__file__).parent.parent / "nbgrader_config.py", tmp_path)
    folders = Folders(tmp_path)
    asked = [
        AskedCell("u", f"{name}_tests", name, False, 1.0, (name,)) for name in ("first", "second", "third", "never")
    ]
    cells = [(None, "00:00"), ("first", "03:00"), ("first_tests", "04:00"), ("second", None)]
    cells += [("second_tests", "10:00"), ("third_tests", "50:00"), ("never", "51:00"), ("never_tests", None)]
    notebook_with_times(folders.notebook("submitted", "a", "u"), cells)
    notebook_with_times(folders.notebook("submitted", "b", "u"), [(None, "00:00"), ("first_tests", "02:00")])
    notebook_with_times(folders.notebook("submitted", "c", "u"), [(name, None) for name, _ in cells])
    found = times(folders, "u", asked, ["a", "b", "c", "gone"])
    assert found["minutes"].fillna(-1).to_dict() == {"first": 3, "second": 6, "third": -1, "never": -1}
    assert found["timed"].to_dict() == {"first": 2, "second": 1, "third": 0, "never": 0}


def test_minutes_are_on_the_page_only_where_some_are_known(submissions):
    names = list(dict.fromkeys(row["exercise"] for row in submissions[0].rows))
    none = pd.DataFrame({"minutes": float("nan"), "timed": 0}, index=names)
    assert "Minutes" not in report.page("Unit", submissions, [], none)
    some = none.assign(minutes=7.5, timed=[3, *[0] * (len(names) - 1)])
    assert '<td class="count">7.5</td><td class="count">3</td>' in report.page("Unit", submissions, [], some)


# --------------------------------------------------------------------------------------------------- comparison


def test_a_class_is_compared_by_facility_and_by_the_share_that_holds_a_misconception():
    then = class_of(a=[0, 0, 1, 0] * 5, b=[1, 0] * 10)
    now = class_of(a=[1, 1, 0, 1] * 5, c=[1] * 20)
    now.at[2, "misconceptions"] = ["A01"]
    summaries = [comparison.summary("u", one) for one in (now, then)]
    table = comparison.exercises(*summaries)
    assert table.loc["a", ["before", "now", "change"]].tolist() == [0.25, 0.75, 0.5]
    deviation = (0.75 * 0.25 * 20 / 19) ** 0.5
    assert table.loc["a", "error"] == pytest.approx(1.96 * (2 * deviation**2 / 20) ** 0.5)
    assert list(comparison.differing(table)) == ["a"]
    assert table.loc[["b", "c"], "change"].isna().all()
    assert comparison.misconceptions(*summaries).loc["A01", ["before", "now"]].tolist() == [0, 0.05]


def test_what_is_no_class_to_compare_with_is_refused_with_what_would_be(tmp_path):
    with pytest.raises(GradingError, match=r"Expected a class\.json"):
        comparison.loaded(tmp_path, "u")
    (tmp_path / "class.json").write_text('{"version": 1, "unit": "u"}', encoding="utf-8")
    with pytest.raises(GradingError, match="is not what a report writes"):
        comparison.loaded(tmp_path, "u")


@pytest.mark.parametrize("place", ["", "reports/u", "grading"])
def test_another_years_class_is_found_in_its_folder_of_reports(tmp_path, place):
    written = comparison.summary("u", class_of(a=[0, 1, 1, 0, 1, 1]))
    folder = tmp_path / {"": "", "reports/u": "u", "grading": "reports/u"}[place]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "class.json").write_text(written.dumps(), encoding="utf-8")
    assert comparison.loaded(tmp_path, "u") == written


def test_the_figure_of_change_says_then_and_now_of_each_exercise():
    now, then = (comparison.summary("u", class_of(a=own)) for own in ([1, 1, 0, 1, 1], [0, 1, 0, 0, 1]))
    drawn = report_figures.draw_change(now, then)
    assert "a 40 % then and 80 % now" in drawn.alt and drawn.alt.encode() in drawn.png
