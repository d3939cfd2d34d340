"""The way in and the way out attacked: names, archives, lists, damaged notebooks, and what a spreadsheet gets."""

import csv
import json
import os
import signal
import struct
import time
import traceback
import zipfile

import pytest
from graded_class import CASES, course, enter

from autograder import bounds, gradebook
from autograder.engine import outputs, runner
from autograder.exports import export
from autograder.folders import Folders, GradingError
from autograder.incoming import sources
from autograder.incoming.placing import take_in
from autograder.incoming.roll import Learner, Roll, read_roll
from autograder.intake import Master, notebooks, take, taking
from autograder.intake.files import Folder
from autograder.spreadsheets import inert
from autograder.timestamps import handed_in_at

UNITS = {"ps1": ["problem1"], "ps2": ["problem2"]}
CLASS = Roll([Learner("ada", "Ada", "Lovelace"), Learner("mallory", full_name="Mallory")], source="class.csv")
#: The head of a small picture.
PNG = struct.pack(">8sI4sII5B", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 4, 4, 8, 2, 0, 0, 0)
GOOD = CASES / "00-control" / "submitted" / "good" / "ps1" / "problem1.ipynb"


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return course(tmp_path_factory.mktemp("outside") / "course", students=())


@pytest.fixture(scope="module")
def master(ready):
    return Master.of(ready, "ps1")


@pytest.fixture
def folders(ready, tmp_path):
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "nbgrader_config.py").write_bytes((ready.root / "nbgrader_config.py").read_bytes())
    return Folders(tmp_path / "course")


def written(path, names):
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(json.dumps({"nbformat": 4, "cells": [], "said": name}))
    return path


def read(content, master, **files):
    """What becomes of one notebook, given as data or as bytes."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (taken,) = take(Folder(notebooks={"problem1.ipynb": data}, files=files), master)
    return taken


def good():
    return json.loads(GOOD.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------ whose it is


@pytest.mark.parametrize(
    "inside",
    [
        "ada+ps1+2030-01-01 00:00:00 UTC/problem1.ipynb",
        "Ada Lovelace_7_assignsubmission_file_/problem1.ipynb",
        "Ada Lovelace_7_assignsubmission_file/problem1.ipynb",
        "ada/ps1/problem1.ipynb",
    ],
)
@pytest.mark.parametrize(
    "outside",
    ["mallory/ps1", "all/mallory/ps1", "mallory+ps1+2026-01-01 00:00:00 UTC", "Mallory_9_assignsubmission_file"],
)
def test_a_folder_within_a_submission_says_nothing_of_whose_it_is(folders, tmp_path, outside, inside):
    names = [f"{outside}/problem1.ipynb", f"{outside}/{inside}"]
    taken = take_in(folders, [written(tmp_path / "in", names)], UNITS, (), CLASS)
    assert taken.placed == [("mallory", "ps1")]
    assert (folders.step("submitted", "mallory", "ps1") / inside).is_file()


def test_a_submission_to_another_course_cannot_bring_one_of_somebody_else(folders, tmp_path):
    names = ["ada/ps1/problem1.ipynb", "mallory/ps9/ada/ps1/problem1.ipynb"]
    taken = take_in(folders, [written(tmp_path / "in", names)], UNITS, (), CLASS)
    assert taken.placed == [("ada", "ps1")] and "lies deeper" in taken.not_matched[names[1]]
    assert "mallory" not in (folders.step("submitted", "ada", "ps1") / "problem1.ipynb").read_text()


def test_newer_moodles_name_their_folders_without_a_last_sign(folders, tmp_path):
    names = ["Ada Lovelace_7_assignsubmission_file/problem1.ipynb", "Mallory_9_assignsubmission_onlinetext/a.html"]
    taken = take_in(folders, [written(tmp_path / "in", names)], UNITS, ["ps1"], CLASS)
    assert taken.placed == [("ada", "ps1")] and "typed into Moodle" in taken.not_matched[names[1]]


def test_a_files_own_name_does_not_make_it_another_learners(folders, tmp_path):
    name = "Mallory_9_assignsubmission_file_Ada Lovelace_7_assignsubmission_file_problem1.ipynb"
    assert take_in(folders, [written(tmp_path / "in", [name])], UNITS, ["ps1"], CLASS).placed == [("mallory", "ps1")]


def test_in_an_exchange_nobody_hands_in_for_another_learner(folders, tmp_path, monkeypatch):
    place = written(
        tmp_path / "in", [f"{one}+ps1+2026-01-01 00:00:00 UTC/problem1.ipynb" for one in ("ada", "mallory")]
    )
    monkeypatch.setattr(sources, "_user", lambda number: "mallory")
    taken = take_in(folders, [place], UNITS, (), CLASS)
    assert taken.placed == [("mallory", "ps1")]
    (reason,) = taken.not_matched.values()
    assert reason.startswith("is said to be ada's and belongs to the user mallory, another learner")
    monkeypatch.setattr(sources, "_user", lambda number: "instructor")  # who has copied all of it
    assert ("ada", "ps1") in take_in(folders, [place], UNITS, (), CLASS).placed


# ------------------------------------------------------------------------------------------------- archives and lists


def changed(path, at, data):
    content = path.read_bytes()
    path.write_bytes(content[:at] + data + content[at + len(data) :])


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_entry_costs_its_own_submission(folders, tmp_path, method):
    path, names = tmp_path / "in.zip", ["mallory/ps1/problem1.ipynb", "ada/ps1/problem1.ipynb"]
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in names:
            archive.writestr(name, json.dumps({"said": name * 50}))
    changed(path, path.read_bytes().index(names[0].encode()) + len(names[0]) + 12, b"\xff\x00\xff\x00\xff")
    taken = take_in(folders, [path], UNITS, (), CLASS)
    assert taken.placed == [("ada", "ps1")] and "cannot be unpacked (" in taken.not_matched[names[0]]


def test_a_name_that_is_no_utf_8_costs_its_own_submission(folders, tmp_path):
    path, name = tmp_path / "in.zip", "mallory/ps1/é.ipynb"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "{}")
        archive.writestr("ada/ps1/problem1.ipynb", "{}")
    changed(
        path, path.read_bytes().index("é".encode()), b"\xff\xff"
    )  # in front of the entry, not in the list at the end
    taken = take_in(folders, [path], UNITS, (), CLASS)
    assert taken.placed == [("ada", "ps1")] and "cannot be unpacked (" in taken.not_matched[name]


@pytest.mark.parametrize(
    ("place", "data"),
    [(6, struct.pack("<H", 900)), (28, struct.pack("<H", 0)), (46, b"\xff\xff")],
)
def test_a_damaged_list_of_entries_ends_in_words(tmp_path, place, data):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é/ps1/problem1.ipynb", "{}")
    changed(path, path.read_bytes().index(b"PK\x01\x02") + place, data)
    try:
        found = sources.opened(path)
    except GradingError as error:
        assert "Download it again" in str(error)
    else:
        assert not found.entries and found.refused


def test_names_of_files_cannot_speak_to_a_terminal(folders, tmp_path):
    place = written(tmp_path / "in", ["ada/ps1/problem1.ipynb"])
    os.rename(written(tmp_path / "in", ["x/a.ipynb"]) / "x", tmp_path / "in" / "\x1b[2J\x1b]0;title\x07\u202e")
    said = "".join(take_in(folders, [place], UNITS, (), CLASS).lines())
    assert "title" in said and not set(said) & {"\x1b", "\x07", "\u202e"}


def test_a_text_of_any_length_in_moodles_worksheet_leaves_it_readable(tmp_path):
    with open(tmp_path / "class.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Identifier", "Full name", "Username", "Online text"])
        writer.writerow(["Participant 9", "Mallory", "mallory", "x" * 1_000_000])
        writer.writerow(["Participant 7", "Ada Lovelace", "ada", ""])
    assert list(read_roll(tmp_path / "class.csv", UNITS).learners) == ["mallory", "ada"]


@pytest.mark.parametrize("text", ["9" * 1_000_000, "9" * 45 + "m000é+9999Jan"])
def test_a_time_that_is_none_is_said_at_once(text):
    start = time.process_time()
    assert handed_in_at(text.encode()) is None
    assert time.process_time() - start < 2


# --------------------------------------------------------------------------------------------------- damaged notebooks


def test_a_block_that_catches_the_end_of_its_time_is_ended_again():
    with pytest.raises(bounds.TooLong), bounds.at_most(0.1):
        try:
            while True:
                pass
        except bounds.TooLong:
            while True:
                pass
    start = time.process_time()
    while time.process_time() - start < 0.2:
        pass  # and nothing rings behind it


def test_a_ring_while_the_block_is_left_neither_comes_through_nor_keeps_the_timer_running(monkeypatch):
    stop = signal.setitimer

    def stop_late(which, *seconds):
        if seconds == (0,):
            signal.raise_signal(signal.SIGPROF)
        return stop(which, *seconds)

    monkeypatch.setattr(bounds.signal, "setitimer", stop_late)
    before = signal.getsignal(signal.SIGPROF)
    with bounds.at_most(60):
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) == before


def test_what_python_makes_of_the_end_of_time_within_a_syntax_tree_is_no_error_of_ours():
    with pytest.raises(bounds.TooLong), bounds.at_most(0.05):
        try:
            while True:
                pass
        except bounds.TooLong as error:
            raise SystemError("AST constructor recursion depth mismatch") from error
    with pytest.raises(SystemError), bounds.at_most(5):
        raise SystemError("another one")


@pytest.mark.parametrize("kind", ["time", "memory"])
def test_a_notebook_that_takes_endless_reading_is_unreadable_and_no_more(master, monkeypatch, kind):
    content = good()
    answer = next(i for i, one in enumerate(content["cells"]) if "def " in "".join(one["source"]))
    if kind == "time":
        monkeypatch.setattr(taking, "SECONDS", 1)
        half = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "    x = 1"}
        content["cells"][answer + 1 : answer + 1] = [half] * 5000
        data = json.dumps(content).encode()
    else:
        monkeypatch.setattr(taking, "MEMORY", 256 << 20)
        content["metadata"]["x"] = "@"
        data = json.dumps(content).encode().replace(b'"@"', b"[" + b'{"a":{}},' * (1 << 20) + b"0]")

    def found():
        taken = read(data, master)
        assert taken.status == "unreadable" and taken.node is None
        assert taken.message.startswith("problem1.ipynb: It took more than") and "Ask for it again" in taken.message
        assert read(good(), master).status == "readable"

    in_a_child(found)


def in_a_child(check):
    """Runs the check in a process of its own: what is interrupted anywhere may be something that other tests share."""
    child = os.fork()
    if not child:
        status = 1
        try:
            check()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("points", [10**400, -(10**400), 1e308, "\x1b", None])
def test_points_that_are_no_number_are_the_masters_again(master, points):
    content = good()
    test = next(one for one in content["cells"] if one["metadata"].get("nbgrader", {}).get("points") == 2)
    test["metadata"]["nbgrader"]["points"] = points
    taken = read(content, master)
    assert taken.status == "readable"
    assert any("were no number; they are 2 again" in sentence for sentence in taken.repairs)


def test_sentences_about_a_notebook_are_few_short_and_harmless(master):
    content = good()
    test = next(one for one in content["cells"] if one["metadata"].get("nbgrader", {}).get("grade"))
    test["metadata"]["tags"] = ["\x1b]0;title\x07\nSubmissions: 99 graded"]
    content["metadata"]["kernelspec"] = {"name": "\x1b[2J\u202eevil"}
    content["cells"] += [None] * 5000
    taken = read(content, master)
    said = [*taken.repairs, *taken.flags]
    assert taken.status == "readable" and len(said) < 2 * taking.SENTENCES + 4
    assert any("more of this kind" in sentence for sentence in said) and any("99 graded" in one for one in said)
    assert not any(set(sentence) & {"\x1b", "\x07", "\n", "\u202e"} for sentence in said)
    refused = read(json.dumps({"nbformat": 10**4000}).encode(), master)
    assert refused.status == "unreadable" and len(refused.message) < 1200


def test_a_notebook_of_endless_text_is_unreadable(master, monkeypatch):
    monkeypatch.setattr(notebooks, "SOURCES", 1000)
    taken = read(good() | {"cells": [{"cell_type": "markdown", "metadata": {}, "source": "x\n" * 501}]}, master)
    assert taken.status == "unreadable" and "has 1002 characters in its cells, more than 1000" in taken.message


@pytest.mark.parametrize(
    ("event", "bound"),
    [
        ({"type": "stream", "name": "stdout", "text": "x" * 100_000}, 6 * outputs.NOTEBOOK_TEXT // 5),
        ({"type": "display", "text": "", "png": PNG + bytes(1 << 20)}, 3 * outputs.NOTEBOOK_PICTURES // 2),
        ({"type": "display", "text": "x"}, 200 * outputs.NOTEBOOK_OUTPUTS),
    ],
)
def test_all_cells_together_cannot_fill_the_referees_memory(event, bound):
    left, size = outputs.Left(), 0
    first = sum(len(json.dumps(one)) for one in outputs.assemble([event], outputs.Left()))
    for _ in range(1000):
        size += sum(len(json.dumps(one)) for one in outputs.assemble([event] * 10, left))
    assert first < size < bound
    assert "more were" in json.dumps(said := outputs.assemble([event], left)) or "too large" in json.dumps(said)


def test_a_cell_of_megabytes_is_not_parsed_where_nothing_bounds_it():
    source = "def mean(x):\n    return x\n"
    assert runner.defined_in(source) == {"mean"}
    start = time.process_time()
    assert runner.defined_in(source + "x=1\n" * 2_000_000) == set()
    assert time.process_time() - start < 1


# ----------------------------------------------------------------------------------------------------- spreadsheets

FORMULA = "=HYPERLINK(1)"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (FORMULA, f"'{FORMULA}"),
        ("+1", "'+1"),
        ("-a", "'-a"),
        ("@a", "'@a"),
        ("\t=1", "'\t=1"),
        ("a=1", "a=1"),
        (-1, -1),
    ],
)
def test_a_text_that_a_spreadsheet_would_compute_is_marked_as_text(value, written):
    assert inert(value) == written


@pytest.fixture(scope="module")
def named_like_a_formula(tmp_path_factory):
    folders = course(tmp_path_factory.mktemp("formula") / "course", students=("good",))
    enter(folders, {"good": (2.0, 3.0, 1.0)})
    with gradebook.opened(folders) as book:
        book.update_or_create_student("good", first_name=FORMULA, last_name=FORMULA, email=FORMULA)
    return folders.root


@pytest.mark.parametrize("form", ["csv", "canvas", "moodle"])
def test_a_learners_name_is_no_formula_in_any_export(named_like_a_formula, form):
    path, _ = export(["ps1"], named_like_a_formula, form)
    with open(path, encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert any(FORMULA in cell for cell in cells)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
