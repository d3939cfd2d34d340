"""Submissions taken in from folders and archives: whose they are, which counts, what is refused, and the list."""

import datetime
import json
import os
import shutil
import zipfile

import pytest
from graded_class import course, enter, mark

from autograder import gradebook, penalties
from autograder.folders import GradingError
from autograder.incoming.entering import come_in
from autograder.incoming.placing import take_in
from autograder.incoming.roll import Learner, NotMatched, Roll, moment, read_roll

UNITS = {"ps1": ["problem1"], "05_sums": ["05_sums"], "sums": ["sums"]}
ADA = Learner("ada", "Ada", "Lovelace", email="ada@example.org", lms_user_id="12345")
EMILIE = Learner("emilie", "Émilie", "du Châtelet", lms_user_id="222")
CARL = Learner("carl", full_name="Gauß, Carl Friedrich")
CLASS = Roll([ADA, EMILIE, CARL], source="class.csv")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return course(tmp_path_factory.mktemp("incoming") / "course", students=()).root


@pytest.fixture
def folders(ready, tmp_path):
    from autograder.folders import Folders

    return Folders(shutil.copytree(ready, tmp_path / "course"))


def notebook(words="x = 1"):
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [], "said": words}).encode()


def packed(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def folder(path, files):
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def submitted(folders):
    """learner/unit/file -> its bytes."""
    root = folders.step("submitted", "", "")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def take(folders, path, wanted=(), roll=CLASS, **options):
    return take_in(folders, [path], UNITS, wanted, roll, **options)


# ------------------------------------------------------------------------------------------------------ conventions


def test_moodles_archive_goes_by_name_with_all_files_and_their_folders(folders, tmp_path):
    files = {
        "Ada Lovelace_7001_assignsubmission_file_/problem1.ipynb": notebook(),
        "Ada Lovelace_7001_assignsubmission_file_/data/points.csv": b"1,2",
        "Émilie du Châtelet_7002_assignsubmission_file_/my work (1).ipynb": notebook("other"),
    }
    taken = take(folders, packed(tmp_path / "ps1.zip", files), ["ps1"])
    assert taken.not_matched == {}
    assert sorted(taken.placed) == [("ada", "ps1"), ("emilie", "ps1")]
    assert submitted(folders) == {
        "ada/ps1/problem1.ipynb": notebook(),
        "ada/ps1/data/points.csv": b"1,2",
        "emilie/ps1/my work (1).ipynb": notebook("other"),
    }


def test_moodles_archive_without_folders_is_the_same(folders, tmp_path):
    files = {"Lovelace Ada_7001_assignsubmission_file_problem1.ipynb": notebook()}
    assert take(folders, packed(tmp_path / "ps1.zip", files)).placed == [("ada", "ps1")]
    assert list(submitted(folders)) == ["ada/ps1/problem1.ipynb"]


def test_a_text_typed_into_moodle_is_listed_and_costs_no_other(folders, tmp_path):
    text = "Ada Lovelace_7001_assignsubmission_onlinetext_/onlinetext.html"
    files = {text: b"<p>", "Carl Friedrich Gauss_7003_assignsubmission_file_/problem1.ipynb": notebook()}
    taken = take(folders, packed(tmp_path / "ps1.zip", files))
    assert taken.placed == [("carl", "ps1")]
    assert taken.not_matched == {text: "is a text typed into Moodle and no notebook: ask for the file"}


def test_canvas_archive_goes_by_number_and_name_and_says_that_lateness_has_no_time(folders, tmp_path):
    files = {
        "lovelaceada_12345_67890_problem1-1.ipynb": notebook(),
        "duchâteletémilie_LATE_222_67891_problem1.ipynb": notebook("late"),
        "lovelaceada_12345_67892_points.csv": b"1,2",
    }
    taken = take(folders, packed(tmp_path / "submissions.zip", files))
    assert taken.not_matched == {}
    assert set(submitted(folders)) == {"ada/ps1/problem1.ipynb", "ada/ps1/points.csv", "emilie/ps1/problem1.ipynb"}
    assert "Canvas says that it is late, and not when it came" in taken.remarks[0]
    assert "in the column submitted:ps1" in taken.remarks[0]


def test_of_a_file_handed_in_twice_to_canvas_the_later_attempt_counts(folders, tmp_path):
    files = {
        "lovelaceada_12345_67899_problem1-1.ipynb": notebook("new"),
        "lovelaceada_12345_67890_problem1.ipynb": notebook("old"),
    }
    taken = take(folders, packed(tmp_path / "submissions.zip", files))
    assert submitted(folders) == {"ada/ps1/problem1.ipynb": notebook("new")}
    older = "lovelaceada_12345_67890_problem1.ipynb is an older one of the same name."
    assert taken.remarks == [f"ada, ps1: lovelaceada_12345_67899_problem1-1.ipynb counts; {older}"]


def test_nbgraders_layout_is_taken_from_a_folder_and_from_a_zip_with_one_folder_around(folders, tmp_path):
    late = b"2026-01-03 12:00:00 UTC"
    files = {"submitted/ada/ps1/problem1.ipynb": notebook(), "submitted/ada/ps1/timestamp.txt": late}
    assert take(folders, folder(tmp_path / "in", files)).placed == [("ada", "ps1")]
    assert submitted(folders)["ada/ps1/timestamp.txt"] == b"2026-01-03 12:00:00.000000 UTC\n"
    assert take(folders, packed(tmp_path / "in.zip", files)).unchanged == [("ada", "ps1")]


def test_of_an_exchange_the_newest_counts_and_it_is_said_which(folders, tmp_path):
    old, new = "ada+ps1+2026-01-01 10:00:00.000000 UTC", "ada+ps1+2026-01-02 10:00:00.000000 UTC+abc123"
    files = {f"course/inbound/{new}/problem1.ipynb": notebook("new")}
    files |= {f"course/inbound/{old}/problem1.ipynb": notebook("old")}
    taken = take(folders, folder(tmp_path / "exchange", files))
    assert submitted(folders)["ada/ps1/problem1.ipynb"] == notebook("new")
    assert submitted(folders)["ada/ps1/timestamp.txt"].startswith(b"2026-01-02 10:00:00")
    assert "2026-01-02 10:00:00 counts" in taken.remarks[0] and "is of 2026-01-01 10:00:00" in taken.remarks[0]


def test_what_lies_there_of_units_that_were_not_asked_for_is_counted_and_nothing_unmatched(folders, tmp_path):
    files = {
        "inbound/ada+ps1+2026-11-30 10:24:00 UTC/problem1.ipynb": notebook(),
        "inbound/ada+sums+2026-11-30 10:24:00 UTC/sums.ipynb": notebook(),
        "inbound/carl+sums+2026-11-30 10:24:00 UTC/sums.ipynb": notebook(),
        "emilie/05_sums/05_sums.ipynb": notebook(),
        "inbound/carl+gone+2026-11-30 10:24:00 UTC/gone.ipynb": notebook(),
    }
    found = take(folders, folder(tmp_path / "exchange", files), ["ps1"])
    assert found.placed == [("ada", "ps1")]
    assert found.not_asked_for == {"sums": 2, "05_sums": 1}
    assert list(found.not_matched) == ["inbound/carl+gone+2026-11-30 10:24:00 UTC/gone.ipynb"]
    assert "no unit here" in found.not_matched.popitem()[1]
    assert "left out: 05_sums (1), sums (2)." in found.lines()[-1]


def test_what_zip_collect_has_made_is_read_by_the_courses_own_expression(folders, tmp_path):
    expression = r".*_(?P<student_id>\w+)_attempt_(?P<timestamp>[0-9\-]+)_(?P<file_id>\w+)"
    folders.config.FileNameCollectorPlugin.named_regexp = expression
    files = {"ps1_ada_attempt_2026-01-30-15-00-00_problem1.ipynb": notebook()}
    assert take(folders, folder(tmp_path / "extracted", files)).placed == [("ada", "ps1")]
    assert submitted(folders)["ada/ps1/timestamp.txt"].startswith(b"2026-01-30 15:00:00")


def test_a_flat_folder_goes_by_learner_and_unit(folders, tmp_path):
    files = {"ada_ps1.ipynb": notebook(), "Emilie_ps1.ipynb": notebook("b"), "carl_05_sums (1).ipynb": notebook("c")}
    taken = take(folders, folder(tmp_path / "flat", files))
    assert taken.not_matched == {}
    assert set(submitted(folders)) == {
        "ada/ps1/problem1.ipynb",
        "emilie/ps1/problem1.ipynb",
        "carl/05_sums/05_sums.ipynb",
    }


def test_a_flat_folder_of_one_unit_needs_no_more_than_the_learner(folders, tmp_path):
    files = {"ada.ipynb": notebook(), "problem1.ipynb": notebook("b")}
    taken = take(folders, folder(tmp_path / "flat", files), ["ps1"])
    assert list(submitted(folders)) == ["ada/ps1/problem1.ipynb"]
    assert taken.not_matched == {
        "problem1.ipynb": "is named like the unit and says no learner: rename it LEARNER.ipynb"
    }


def test_without_a_list_a_learner_is_whoever_the_name_says(folders, tmp_path):
    files = {"someone_ps1.ipynb": notebook(), "..%2f_ps1.ipynb": notebook("b"), ".._ps1.ipynb": notebook("c")}
    taken = take(folders, folder(tmp_path / "flat", files), roll=Roll(()))
    assert taken.placed == [("someone", "ps1")]
    assert set(taken.not_matched) == {"..%2f_ps1.ipynb", ".._ps1.ipynb"}


def test_an_anonymous_moodle_archive_goes_by_the_worksheets_numbers(folders, tmp_path):
    files = {"Participant_12345_assignsubmission_file_/problem1.ipynb": notebook()}
    assert take(folders, packed(tmp_path / "ps1.zip", files)).placed == [("ada", "ps1")]


# ---------------------------------------------------------------------------------------- nothing is guessed


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody_ps1.ipynb", "no learner nobody is in class.csv"),
        ("ada_05_sums_sums.ipynb", "no learner ada_05_sums is in class.csv"),
        ("ada.ipynb", "ends in no unit's name: rename it LEARNER_UNIT.ipynb"),
        ("Ada Byron_9_assignsubmission_file_/problem1.ipynb", "nobody in class.csv has the name or the number"),
        ("Somebody New_12345_assignsubmission_file_/problem1.ipynb", "nobody in class.csv has the name or the number"),
        ("Ada Lovelace_222_assignsubmission_file_/problem1.ipynb", "one learner by name and another by number"),
        ("lovelaceada_12345_1_homework.ipynb", "is named like a notebook of no unit that was asked for"),
        ("ada+ps9+2026-01-01 10:00:00 UTC/problem1.ipynb", "is of ps9, which is no unit here"),
        ("ada/readme.txt", "lies beside no submission"),
        ("ada/ps1/notes.txt", "came from ada without any notebook: ask for the notebook"),
    ],
)
def test_what_cannot_be_matched_is_listed_with_the_reason_and_the_way_out(folders, tmp_path, name, reason):
    taken = take(folders, folder(tmp_path / "in", {name: notebook(), "carl/ps1/problem1.ipynb": notebook()}))
    assert reason in taken.not_matched[name]
    assert taken.placed == [("carl", "ps1")]
    assert any(line.startswith(f"  {name} ") for line in taken.lines())


def test_a_name_that_two_learners_bear_is_nobodys(folders, tmp_path):
    two = Roll([ADA, Learner("ada2", "ADA", "Lovelace", lms_user_id="9")], source="class.csv")
    name = "Ada Lovelace_7001_assignsubmission_file_/problem1.ipynb"
    taken = take(folders, folder(tmp_path / "in", {name: notebook()}), roll=two)
    assert "ada, ada2 of class.csv are all meant" in taken.not_matched[name]
    assert two.by_name("Ada Lovelace", "9").id == "ada2"


def test_a_flat_name_that_can_be_read_two_ways_is_listed(folders, tmp_path):
    roll = Roll([Learner("ada"), Learner("ada_05")], source="class.csv")
    taken = take(folders, folder(tmp_path / "in", {"ada_05_sums.ipynb": notebook()}), roll=roll)
    assert (
        "may mean ada and 05_sums or ada_05 and sums: put it into LEARNER/UNIT/"
        in (taken.not_matched["ada_05_sums.ipynb"])
    )


def test_two_submissions_of_which_nothing_says_which_is_newer_are_listed_and_none_counts(folders, tmp_path):
    files = {"ada_ps1.ipynb": notebook("a"), "ada_ps1 (1).ipynb": notebook("b")}
    taken = take(folders, folder(tmp_path / "in", files))
    assert set(taken.not_matched) == set(files) and not taken.placed
    assert "nothing says which is newest: leave one" in taken.not_matched["ada_ps1.ipynb"]
    same = {"ada_ps1.ipynb": notebook("a"), "ada_ps1 (1).ipynb": notebook("a")}
    assert take(folders, folder(tmp_path / "same", same)).placed == [("ada", "ps1")]


def test_what_is_there_stays_unless_the_new_one_is_said_to_be_newer(folders, tmp_path):
    take(folders, folder(tmp_path / "first", {"ada_ps1.ipynb": notebook("first")}))
    again = folder(tmp_path / "again", {"ada_ps1.ipynb": notebook("again")})
    taken = take(folders, again)
    assert "does not say when it was handed in: give --replace" in taken.not_matched["ada_ps1.ipynb"]
    assert submitted(folders)["ada/ps1/problem1.ipynb"] == notebook("first")
    assert take(folders, again, replace=True).placed == [("ada", "ps1")]
    dated = {f"ada+ps1+2026-01-0{day} 10:00:00 UTC/problem1.ipynb": notebook(f"of {day}") for day in (2,)}
    assert take(folders, folder(tmp_path / "dated", dated)).placed == [("ada", "ps1")]
    older = {"ada+ps1+2026-01-01 10:00:00 UTC/problem1.ipynb": notebook("older")}
    taken = take(folders, folder(tmp_path / "older", older))
    assert "what is there is of 2026-01-02 10:00:00, newer than" in taken.remarks[0]
    assert submitted(folders)["ada/ps1/problem1.ipynb"] == notebook("of 2")


def test_the_list_corrects_a_time_and_of_two_at_the_same_time_what_is_there_stays(folders, tmp_path):
    def listed(hour):
        return Roll([Learner("ada", submitted={"ps1": datetime.datetime(2026, 1, 2, hour)})], source="class.csv")

    first = folder(tmp_path / "first", {"ada_ps1.ipynb": notebook("first")})
    for hour in (10, 8):
        assert take(folders, first, roll=listed(hour)).placed == [("ada", "ps1")]
        assert submitted(folders)["ada/ps1/timestamp.txt"].startswith(f"2026-01-02 {hour:02}:00:00".encode())
    assert take(folders, first, roll=listed(8)).unchanged == [("ada", "ps1")]
    taken = take(folders, folder(tmp_path / "other", {"ada_ps1.ipynb": notebook("other")}), roll=listed(8))
    assert "and is said to be of the same time: give --replace" in taken.not_matched["ada_ps1.ipynb"]


def test_what_lies_in_the_place_of_a_submission_costs_no_other(folders, tmp_path):
    folder(folders.step("submitted", "", ""), {"ada": b"no folder"})
    files = {"ada_ps1.ipynb": notebook(), "carl_ps1.ipynb": notebook()}
    taken = take(folders, folder(tmp_path / "in", files))
    assert taken.placed == [("carl", "ps1")] and "could not be written" in taken.not_matched["ada_ps1.ipynb"]


# -------------------------------------------------------------------------------------------------- what does harm


@pytest.mark.parametrize(
    "name", ["../ada/ps1/problem1.ipynb", "/ada/ps1/problem1.ipynb", "ada/ps1/../../../x.ipynb", "ada\\ps1\\a.ipynb"]
)
def test_a_path_that_leaves_the_archive_is_refused(folders, tmp_path, name):
    taken = take(folders, packed(tmp_path / "in.zip", {name: notebook(), "carl/ps1/problem1.ipynb": notebook()}))
    assert list(submitted(folders)) == ["carl/ps1/problem1.ipynb"]
    assert "path" in taken.not_matched[name]


def test_links_are_refused_in_archives_and_in_folders(folders, tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_bytes(notebook("secret"))
    info = zipfile.ZipInfo("ada/ps1/problem1.ipynb")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr(info, str(secret))
    assert "is a symbolic link" in take(folders, tmp_path / "in.zip").not_matched["ada/ps1/problem1.ipynb"]
    place = folder(tmp_path / "in", {"carl/ps1/notes.txt": b""})
    os.symlink(secret, place / "carl" / "ps1" / "problem1.ipynb")
    os.symlink(tmp_path, place / "ada")
    taken = take(folders, place)
    assert taken.not_matched["carl/ps1/problem1.ipynb"] == "is a symbolic link: hand in the file itself"
    assert taken.not_matched["ada"] == "is a symbolic link: hand in the file itself"
    assert submitted(folders) == {}


def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused_and_costs_no_other(folders, tmp_path):
    files = {"ada/ps1/problem1.ipynb": b" " * (32 << 20), "carl/ps1/problem1.ipynb": notebook()}
    taken = take(folders, packed(tmp_path / "in.zip", files))
    assert "times its size, as a zip bomb does" in taken.not_matched["ada/ps1/problem1.ipynb"]
    assert taken.placed == [("carl", "ps1")]


def test_an_archive_whose_files_share_their_bytes_is_refused(folders, tmp_path):
    data = bytearray(packed(tmp_path / "in.zip", {"ada/ps1/problem1.ipynb": os.urandom(1 << 16)}).read_bytes())
    start = data.index(b"PK\x01\x02")
    directory, end = bytes(data[start : data.rindex(b"PK\x05\x06")]), bytearray(data[data.rindex(b"PK\x05\x06") :])
    many = directory * 20
    end[8:10] = end[10:12] = (20).to_bytes(2, "little")
    end[12:16] = len(many).to_bytes(4, "little")
    (tmp_path / "bomb.zip").write_bytes(bytes(data[:start]) + many + bytes(end))
    with pytest.raises(GradingError, match="share their bytes, as a zip bomb does"):
        take(folders, tmp_path / "bomb.zip")
    assert submitted(folders) == {}


def test_a_size_that_is_a_lie_and_a_broken_entry_are_refused(folders, tmp_path):
    path = packed(tmp_path / "in.zip", {"ada/ps1/problem1.ipynb": notebook("x" * 500)})
    data = path.read_bytes()
    place = data.index(b"PK\x01\x02") + 24
    path.write_bytes(data[:place] + (10).to_bytes(4, "little") + data[place + 4 :])
    taken = take(folders, path)
    assert taken.not_matched["ada/ps1/problem1.ipynb"] and submitted(folders) == {}


@pytest.mark.parametrize("data", [b"no zip", b"PK\x03\x04 cut"])
def test_what_is_no_archive_is_refused_in_words(folders, tmp_path, data):
    (tmp_path / "in.zip").write_bytes(data)
    with pytest.raises(GradingError, match="is neither a folder nor a zip"):
        take(folders, tmp_path / "in.zip")
    with pytest.raises(GradingError, match="There is no"):
        take(folders, tmp_path / "nothing.zip")


def test_a_time_that_a_learner_packed_proves_nothing(folders, tmp_path):
    place = "Ada Lovelace_7001_assignsubmission_file_"
    files = {f"{place}/problem1.ipynb": notebook(), f"{place}/timestamp.txt": b"2020-01-01 00:00:00 UTC"}
    taken = take(folders, packed(tmp_path / "in.zip", files))
    assert list(submitted(folders)) == ["ada/ps1/problem1.ipynb"]
    assert taken.remarks == ["ada, ps1: a timestamp.txt of their own was left out; it proves no time."]


def test_names_of_a_file_and_of_a_folder_that_cannot_both_be_cost_their_submission_alone(folders, tmp_path):
    files = {"ada/ps1/problem1.ipynb": notebook(), "ada/ps1/a": b"", "ada/ps1/a/b": b"", "carl/ps1/problem1.ipynb": b""}
    taken = take(folders, packed(tmp_path / "in.zip", files))
    assert taken.placed == [("carl", "ps1")]
    assert "could not be written" in taken.not_matched["ada/ps1/problem1.ipynb"]


# --------------------------------------------------------------------------------------------- the list of learners


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-07-01 12:00", 12),
        ("2026-07-01T12:00:00Z", 12),
        ("2026-07-01 12:00 UTC", 12),
        ("2026-07-01 12:00 +01:00", 11),
        ("2026-07-01 12:00-0500", 17),
        ("2026-07-01 12:00 Europe/Berlin", 10),
    ],
)
def test_times_are_read_with_their_zone(text, hour):
    assert moment(text, "here") == datetime.datetime(2026, 7, 1, hour)


def csv_of(tmp_path, text, name="class.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_list_has_names_numbers_due_dates_extensions_and_times(tmp_path):
    text = (
        "\ufeffid;First name;last_name;email;canvas_id;due:ps1;extension;submitted:ps1\n"
        "*;;;;;2026-01-01 12:00 +01:00;;\n"
        "ada;Ada;Lovelace;ada@example.org;12345;;3 days;2026-01-02 10:00\n"
        ";;;;;;;\n"
    )
    roll = read_roll(csv_of(tmp_path, text), ["ps1"])
    ada = roll.learners["ada"]
    assert (ada.first_name, ada.last_name, ada.lms_user_id) == ("Ada", "Lovelace", "12345")
    assert ada.extension == {"": datetime.timedelta(days=3)}
    assert ada.submitted == {"ps1": datetime.datetime(2026, 1, 2, 10)}
    assert roll.everybody.due == {"ps1": datetime.datetime(2026, 1, 1, 11)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name,email\n", "has no column `id`"),
        ("id,colour\n", "the column colour is not known"),
        ("id,due:ps7\n", "due:ps7 is about no assignment here"),
        ("id\nada\nada\n", "line 3: ada is there twice"),
        ("id,email\n,x\n", "line 2: there is no id"),
        ("id\n../x\n", "line 2: '../x' is no learner's id"),
        ("id,extension\nada,soon\n", "line 2: 'soon' is no span of time"),
        ("id,due:ps1\nada,2026-01-02 10:00 Mars/Base\n", "line 2: '2026-01-02 10:00 Mars/Base' is no time"),
        ("id,due:ps1\nada,01/02/26\n", "line 2: '01/02/26' is no time"),
    ],
)
def test_a_list_that_cannot_be_read_says_where_and_what_was_expected(tmp_path, text, reason):
    with pytest.raises(GradingError, match=reason.replace("(", r"\(")):
        read_roll(csv_of(tmp_path, text), ["ps1"])


def test_canvas_own_gradebook_is_a_list(tmp_path):
    text = (
        "Student,ID,SIS User ID,SIS Login ID,Section,Homework (1)\n    Points Possible,,,,,10\n"
        '"Lovelace, Ada",12345,S1,ada,A,\n"Student, Test",99,,,A,\n'
    )
    roll = read_roll(csv_of(tmp_path, text), ["ps1"])
    assert set(roll.learners) == {"ada"}
    assert roll.by_name("lovelaceada", "12345").id == roll.by_name("Ada Lovelace").id == "ada"


def test_moodles_own_worksheet_is_a_list(tmp_path):
    text = "Identifier,Full name,Email address,Status,Grade\nParticipant 7001,Ada Lovelace,ada@example.org,,\n"
    roll = read_roll(csv_of(tmp_path, text), ["ps1"])
    assert roll.by_name("Ada Lovelace", "7001").id == "ada@example.org"
    with pytest.raises(NotMatched, match="nobody in class"):
        roll.by_name("Grace Hopper", "8")


def test_the_list_enters_the_gradebook_and_lateness_follows_it(tmp_path):
    settings = "c.LateSubmissionPlugin.penalty_method = 'zero'\n"
    times = {"good": "2026-01-01 13:00:00 UTC", "naive": "2026-01-03 12:00:00 UTC"}
    folders = course(tmp_path / "course", settings, timestamps=times)
    enter(folders, {"good": (2.0, 3.0, None), "naive": (2.0, 0.0, None), "blank": (0.0, 0.0, None)})
    assert penalties_of(folders) == {"good": 5, "naive": 2, "blank": None}
    text = "id,first_name,last_name,due:ps1,extension:ps1\n*,,,2026-01-01 12:30,\ngood,Ada,Lovelace,,1 h\nnaive,,,,\n"
    come_in(folders, learners=csv_of(tmp_path, text))
    assert penalties.settle(folders, ["ps1"]) == [("ps1", "good")]
    assert penalties_of(folders) == {"good": None, "naive": 2, "blank": None}
    mark(folders, "naive", 1.0)
    assert penalties.settle(folders, ["ps1"]) == [("ps1", "naive")]
    assert penalties_of(folders)["naive"] == 3
    with gradebook.opened(folders) as opened:
        assert opened.find_student("good").last_name == "Lovelace"


def penalties_of(folders):
    with gradebook.opened(folders) as opened:
        return {
            one.student.id: one.notebooks[0].late_submission_penalty for one in opened.assignment_submissions("ps1")
        }


def test_names_are_matched_with_those_of_the_gradebook_where_no_list_is_given(folders, tmp_path):
    with gradebook.opened(folders) as opened:
        opened.update_or_create_student("ada", first_name="Ada", last_name="Lovelace")
    files = {"Ada Lovelace_7001_assignsubmission_file_/problem1.ipynb": notebook()}
    assert come_in(folders, [packed(tmp_path / "in.zip", files)]).placed == [("ada", "ps1")]
