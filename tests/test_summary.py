"""What a run says of a class: counts with reasons, a bar on a terminal alone, and JUnit XML."""

from xml.etree import ElementTree

import pytest

from autograder import junit
from autograder.graded import Graded
from autograder.summary import progress, summarise


def cell(score, most, reason=None, message="", misconceptions=()):
    return {"score": score, "max": most, "reason": reason, "message": message, "misconceptions": list(misconceptions)}


def notebook(cells, status="graded", message="", repairs=(), flags=()):
    told = {"notebook": "ps1", "status": status, "message": message, "cells": cells}
    return told | {"repairs": list(repairs), "flags": list(flags)}


RAN_OUT = cell(0.0, 2, "timeout", "The limit of 3 s was reached.\nWhich loop never ends?")
CLASS = [
    Graded("u", "ada", "graded", "", 1.5, [notebook({"a": cell(2.0, 2), "b": cell(None, 1)})]),
    Graded("u", "bob", "graded", "", 0.5, [notebook({"a": RAN_OUT, "b": cell(1.0, 1)}, repairs=["A cell was moved."])]),
    Graded("u", "cyd", "graded", "", 0.5, [notebook({"a": cell(0.0, 2, "wrong", "bad \x00 <tag>", ["A01"])})]),
    Graded(
        "u",
        "dee",
        "unreadable",
        "u.ipynb, line 3: no JSON.",
        0.1,
        [notebook({"a": cell(None, 2, "not run")}, "unreadable")],
    ),
    Graded("v", "ada", "not graded", "The process ended."),
    Graded("v", "bob", "unchanged", "", 0.0, [notebook({"a": cell(1.0, 2, "wrong", "half")})]),
]


def test_the_summary_counts_by_status_and_says_what_was_out_of_the_ordinary(capsys):
    summarise(CLASS)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Submissions: 3 graded, 1 unchanged since the last run and skipped, 1 unreadable, 1 not graded"
    assert lines[1] == "  of those graded: 1 repaired, 1 timed out"
    assert "  bob, u: A cell was moved." in lines
    assert "  bob, u: a: The limit of 3 s was reached." in lines
    assert "  dee, u: unreadable. u.ipynb, line 3: no JSON." in lines


def test_of_one_submission_no_more_is_said_than_people_read(capsys):
    repairs = [f"The cell {number} was moved." for number in range(40)]
    summarise([Graded("u", "ada", "graded", "", 1.0, [notebook({"a": RAN_OUT}, repairs=repairs)])])
    lines = capsys.readouterr().err.splitlines()[2:]
    assert lines[:4] == [f"  ada, u: {sentence}" for sentence in repairs[:4]]
    assert lines[4:] == ["  ada, u: 37 more of this kind are in the class report."]


def test_there_is_no_bar_but_on_a_terminal(capsys):
    with progress() as bar:
        bar.update(bar.add_task("ada graded", total=2), advance=1)
    assert capsys.readouterr() == ("", "")


def test_the_bar_shows_learner_rate_and_time_left_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with progress() as bar:
        task = bar.add_task("starting", total=4)
        for _ in range(3):
            bar.update(task, advance=1, description="ada [b] graded")
        bar.refresh()
    said = capsys.readouterr().err
    assert "3/4" in said and "/min" in said and "ada [b] graded" in said and "0:00:" in said


@pytest.fixture
def suites(tmp_path):
    junit.write(tmp_path / "junit.xml", CLASS)
    return {suite.get("name"): suite for suite in ElementTree.parse(tmp_path / "junit.xml").getroot()}


def test_junit_has_a_suite_per_unit_with_its_counts(suites):
    counts = {
        name: [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] for name, suite in suites.items()
    }
    assert counts == {"u": ["6", "1", "2", "1"], "v": ["2", "1", "1", "0"]}
    assert suites["u"].get("time") == "2.600"


def test_junit_tells_failures_errors_and_what_a_person_must_mark(suites):
    cases = {(case.get("classname"), case.get("name")): case for suite in suites.values() for case in suite}
    assert len(cases["u.ada", "ps1/a"]) == 0
    assert cases["u.ada", "ps1/b"].find("skipped").get("message") == "A person has yet to mark it."
    wrong = cases["u.cyd", "ps1/a"].find("failure")
    assert wrong.get("message") == "wrong A01, 0 of 2 points" and wrong.text == "bad \\x00 <tag>"
    assert cases["u.bob", "ps1/a"].find("error").get("type") == "timeout"
    assert cases["u.dee", "submission"].find("error").text == "u.ipynb, line 3: no JSON."
    assert cases["v.ada", "submission"].find("error").get("type") == "not graded"
