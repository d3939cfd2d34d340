"""A learner's copy of the release, and what an update does to its files."""

import copy
import json
import shutil

import pytest
from autogradlab import updates


def cell(kind, id, source, **metadata):
    more = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": id, "metadata": metadata, "source": source} | more


ANSWER = {"grade_id": "peek", "solution": True, "grade": False, "locked": False, "schema_version": 3, "task": False}
BOOK = {
    "cells": [cell("markdown", "t", "# Title"), cell("code", "peek", "pass", nbgrader=ANSWER)],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def write(file, **sources):
    """A notebook with other texts in the cells of these ids."""
    book = copy.deepcopy(BOOK)
    for one in book["cells"]:
        one["source"] = sources.get(one["id"], one["source"])
    file.write_text(json.dumps(book), encoding="utf-8")


def sources(file):
    return [one["source"] for one in json.loads(file.read_text(encoding="utf-8"))["cells"]]


@pytest.fixture
def release(tmp_path):
    """A release of one unit."""
    unit = tmp_path / "release" / "05_unit"
    (unit / "images").mkdir(parents=True)
    write(unit / "05_unit.ipynb")
    (unit / "cases.py").write_text("cases = 1")
    (unit / "recorded.bin").write_bytes(b"1")
    (unit / "images" / "plot.png").write_bytes(b"plot")
    return unit


@pytest.fixture
def copied(tmp_path, release):
    """A learner's copy of it, who has written an answer."""
    copied = tmp_path / "work" / "05_unit"
    updates.bring(release, copied)
    write(copied / "05_unit.ipynb", peek="mine")
    return copied


def kept(copied):
    """The files that were kept, by name."""
    return {file.name: file for file in (copied.parent / updates.KEPT).rglob("*") if file.is_file()}


def test_a_new_unit_is_copied_whole_and_said_to_be_new(release, tmp_path):
    copied = tmp_path / "work" / "05_unit"
    assert updates.bring(release, copied) == f"new in {copied}"
    assert (copied / "05_unit.ipynb").read_bytes() == (release / "05_unit.ipynb").read_bytes()
    assert (copied / "images" / "plot.png").read_bytes() == b"plot"


def test_an_update_brings_the_course_s_text_leaves_the_answer_and_keeps_the_file_as_it_was(release, copied):
    before = (copied / "05_unit.ipynb").read_bytes()
    write(release / "05_unit.ipynb", t="# New title")
    words = updates.bring(release, copied)
    assert words.startswith("updated 05_unit.ipynb, with all that you wrote (as it was: kept")
    assert sources(copied / "05_unit.ipynb") == ["# New title", "mine"]
    assert kept(copied)["05_unit.ipynb"].read_bytes() == before


def test_an_update_says_where_to_look_again(release, copied):
    write(copied / "05_unit.ipynb", peek="mine", t="# My title")
    write(release / "05_unit.ipynb", t="# New title", peek="pass  # and more")
    words = updates.bring(release, copied)
    assert "look again at peek: what is asked there has changed" in words
    assert "look for “Kept from your copy”, 1 times" in words


def test_two_updates_at_the_same_moment_keep_two_files(release, copied):
    for title in ("# Two", "# Three"):
        write(release / "05_unit.ipynb", t=title)
        updates.bring(release, copied)
    assert len([*(copied.parent / updates.KEPT).rglob("*.ipynb")]) == 2


def test_a_notebook_that_the_learner_never_changed_becomes_the_release_s(release, tmp_path):
    copied = tmp_path / "work" / "05_unit"
    updates.bring(release, copied)
    write(release / "05_unit.ipynb", t="# New title")
    assert updates.bring(release, copied) == "updated 05_unit.ipynb"
    assert (copied / "05_unit.ipynb").read_bytes() == (release / "05_unit.ipynb").read_bytes()
    assert kept(copied) == {}


def test_without_an_update_a_notebook_is_the_learner_s(release, copied):
    write(copied / "05_unit.ipynb", t="# My title", peek="mine")
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    assert updates.bring(release, copied) == "up to date"
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_a_copy_from_before_the_releases_were_noted_loses_nothing(release, copied):
    shutil.rmtree(copied.parent / updates.RELEASED)
    write(copied / "05_unit.ipynb", t="# My title", peek="mine")
    updates.bring(release, copied)
    title, mine, answer = sources(copied / "05_unit.ipynb")
    assert (title, answer) == ("# Title", "mine")
    assert "# My title" in mine


def test_an_update_that_was_broken_off_is_made_up_for(release, copied, monkeypatch):
    write(release / "05_unit.ipynb", t="# New title")

    def broken_off(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(updates, "_copy", broken_off)
        updates.bring(release, copied)
    updates.bring(release, copied)
    assert sources(copied / "05_unit.ipynb") == ["# New title", "mine"]
    assert updates.bring(release, copied) == "up to date"


@pytest.mark.parametrize("text", ["{", "[]", '{"nbformat": 3, "worksheets": []}'])
def test_a_notebook_that_cannot_be_read_is_left_alone(release, copied, text):
    (copied / "05_unit.ipynb").write_text(text)
    write(release / "05_unit.ipynb", t="# New title")
    assert "left 05_unit.ipynb alone" in updates.bring(release, copied)
    assert (copied / "05_unit.ipynb").read_text() == text
    # It stays so until the learner does something about it.
    assert "left 05_unit.ipynb alone" in updates.bring(release, copied)
    (copied / "05_unit.ipynb").unlink()
    assert updates.bring(release, copied) == "added 05_unit.ipynb"


def test_what_the_checks_read_follows_the_release(release, copied):
    (release / "cases.py").write_text("cases = 2")
    (release / "recorded.bin").write_bytes(b"2")
    assert updates.bring(release, copied) == "updated cases.py; updated recorded.bin"
    assert (copied / "cases.py").read_text() == "cases = 2"
    assert kept(copied) == {}


def test_a_file_that_the_learner_changed_is_kept_before_it_becomes_the_release_s(release, copied):
    (copied / "cases.py").write_text("mine = 1")
    assert updates.bring(release, copied).startswith("updated cases.py (yours is in kept")
    assert (copied / "cases.py").read_text() == "cases = 1"
    assert kept(copied)["cases.py"].read_text() == "mine = 1"


def test_what_a_release_gains_is_added(release, copied):
    (release / "digits.npy").write_bytes(b"digits")
    assert updates.bring(release, copied) == "added digits.npy"
    assert (copied / "digits.npy").exists()


def test_a_deleted_notebook_comes_back_as_released(release, copied):
    (copied / "05_unit.ipynb").unlink()
    assert updates.bring(release, copied) == "added 05_unit.ipynb"


def test_what_python_and_jupyter_leave_behind_is_not_copied(release, tmp_path):
    (release / "__pycache__").mkdir()
    (release / "__pycache__" / "cases.pyc").touch()
    updates.bring(release, tmp_path / "work" / "copy")
    assert not (tmp_path / "work" / "copy" / "__pycache__").exists()


def test_a_page_of_the_course_s_is_made_anew_and_what_was_written_into_it_is_kept(tmp_path):
    for text in ("one", "two"):
        updates.put(text, tmp_path / "start.md")
    assert not (tmp_path / updates.KEPT).exists()
    (tmp_path / "start.md").write_text("my notes")
    updates.put("three", tmp_path / "start.md")
    assert (tmp_path / "start.md").read_text() == "three"
    (file,) = (file for file in (tmp_path / updates.KEPT).rglob("*") if file.is_file())
    assert file.read_text() == "my notes"
