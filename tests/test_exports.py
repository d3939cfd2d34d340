"""Scores for other programs: what is final, what is not, and files as Canvas and Moodle have them."""

import csv
import stat
import subprocess
import sys

import pytest
from graded_class import course, enter, mark

from autograder import gradebook
from autograder.exports import export
from autograder.folders import GradingError

LATE = "c.LateSubmissionPlugin.penalty_method = 'zero'\n"
IN_TIME, TOO_LATE = "2026-01-01 11:00:00 UTC", "2026-01-03 12:00:00 UTC"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Good in time and whole, naive late, blank with an answer that waits for a person; other has handed in nothing."""
    root = tmp_path_factory.mktemp("exports") / "course"
    made = course(root, LATE, timestamps={"good": IN_TIME, "naive": TOO_LATE})
    enter(made, {"good": (2.0, 3.0, None), "naive": (2.0, 0.0, None), "blank": (0.0, 0.0, None)})
    with gradebook.opened(made) as opened:
        people = {"good": ("Ada", "Lovelace"), "naive": ("Émilie", "du Châtelet"), "blank": ("Evariste", "Galois")}
        for number, (student, (first, last)) in enumerate({**people, "other": ("Grace", "Hopper")}.items(), 101):
            names = {"first_name": first, "last_name": last, "email": f"{student}@example.org"}
            opened.update_or_create_student(student, lms_user_id=str(number), **names)
    mark(made, "good", 0.5)
    return made


def table(path, delimiter=","):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def written(folders, form="csv", **options):
    path, remarks = export(["ps1"], folders.root, form, **options)
    return table(path), remarks


def test_the_plain_file_has_nbgraders_columns_then_exercises_then_misconceptions(folders):
    (head, *rows), _ = written(folders)
    assert head[:4] == ["assignment", "duedate", "timestamp", "student_id"]
    assert head[4:8] == ["last_name", "first_name", "email", "raw_score"]
    assert head[8:12] == ["late_submission_penalty", "score", "max_score", "status"]
    assert head[12:] == ["test_squares", "test_mean", "explain", "A01"]
    found = {row[3]: row for row in rows}
    assert found["good"][4:7] == ["Lovelace", "Ada", "good@example.org"]
    assert found["good"][7:] == ["5.5", "0.0", "5.5", "6.0", "graded", "2.0", "3.0", "0.5", "0"]
    assert found["blank"][11:] == ["to be marked", "0.0", "0.0", "", "2"]
    assert found["other"][7:] == ["0.0", "0.0", "0.0", "6.0", "not handed in", "", "", "", ""]


def test_its_first_columns_are_what_nbgraders_own_export_writes(folders, tmp_path):
    command = [sys.executable, "-m", "nbgrader", "export", "--to", str(tmp_path / "theirs.csv")]
    subprocess.run(command, cwd=folders.root, check=True, capture_output=True)
    theirs = table(tmp_path / "theirs.csv")
    (head, *rows), _ = written(folders)
    assert head[: len(theirs[0])] == theirs[0]
    numbers = slice(7, 11)
    for ours, other in zip(sorted(row[:11] for row in rows), sorted(theirs[1:]), strict=True):
        assert [*ours[:7], *map(float, ours[numbers])] == [*other[:7], *map(float, other[numbers])]


def test_a_point_given_by_hand_later_does_not_escape_the_penalty(folders):
    mark(folders, "naive", 1.0)
    (head, *rows), _ = written(folders)
    naive = dict(zip(head, next(row for row in rows if row[3] == "naive")))
    assert (naive["raw_score"], naive["late_submission_penalty"], naive["score"]) == ("3.0", "3.0", "0.0")


def test_canvas_gets_its_columns_the_points_and_final_scores_alone(folders):
    mark(folders, "naive", 1.0)
    rows, remarks = written(folders, "canvas", columns={"ps1": "Problem set 1 (4711)"})
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Problem set 1 (4711)"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "6"]
    assert rows[2:] == [
        ["Galois, Evariste", "103", "", "blank", "", ""],
        ["Lovelace, Ada", "101", "", "good", "", "5.5"],
        ["du Châtelet, Émilie", "102", "", "naive", "", "0"],
        ["Hopper, Grace", "104", "", "other", "", ""],
    ]
    assert remarks == ["blank, ps1: no score is written, a person has yet to mark explain."]


def test_a_score_that_waits_for_a_person_is_written_where_that_is_asked_for(folders):
    rows, remarks = written(folders, "canvas", partial=True)
    assert {row[3]: row[5] for row in rows}["blank"] == "0" and not remarks


def test_moodle_gets_users_by_name_and_email(folders):
    rows, _ = written(folders, "moodle")
    assert rows[0] == ["Username", "First name", "Last name", "Email address", "ps1"]
    assert rows[2] == ["good", "Ada", "Lovelace", "good@example.org", "5.5"]


def test_moodles_worksheet_is_filled_in_and_otherwise_left_as_it_was(folders, tmp_path):
    sheet = tmp_path / "Grades.csv"
    sheet.write_text(
        "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Feedback comments\n"
        'Participant 7,Ada Lovelace,GOOD@example.org,"Submitted, late",,6.00,"Well\ndone"\n'
        "Participant 8,Nobody Known,nobody@example.org,,3.00,6.00,\n",
        encoding="utf-8",
    )
    rows, remarks = written(folders, "moodle", into=sheet, to=tmp_path / "filled.csv")
    assert rows[1] == [
        "Participant 7",
        "Ada Lovelace",
        "GOOD@example.org",
        "Submitted, late",
        "5.5",
        "6.00",
        "Well\ndone",
    ]
    assert rows[2][4] == "3.00"
    assert any("“Nobody Known” (number 8)" in remark for remark in remarks)
    assert any("naive has a score and no row in Grades.csv" in remark for remark in remarks)


def test_a_worksheet_with_another_maximum_is_refused(folders, tmp_path):
    sheet = tmp_path / "Grades.csv"
    sheet.write_text("Identifier,Full name,Email address,Grade,Maximum Grade\nParticipant 7,Ada Lovelace,,,100\n")
    with pytest.raises(GradingError, match="gives at most 100, and ps1 has 6 points"):
        export(["ps1"], folders.root, "moodle", into=sheet)


def test_canvas_own_file_is_filled_in_where_the_column_bears_the_name(folders, tmp_path):
    gradebook_csv = tmp_path / "canvas.csv"
    gradebook_csv.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,ps1 (4711),ps12 (4712)\n    Points Possible,,,,,6,6\n"
        '"Lovelace, Ada",101,,,A,,\n"Student, Test",999,,,A,,\n',
        encoding="utf-8",
    )
    rows, remarks = written(folders, "canvas", into=gradebook_csv, to=tmp_path / "filled.csv")
    assert rows[2] == ["Lovelace, Ada", "101", "", "", "A", "5.5", ""]
    assert any("“Student, Test” (number 999)" in remark for remark in remarks)


def test_a_column_that_is_not_there_is_asked_for(folders, tmp_path):
    other = tmp_path / "canvas.csv"
    other.write_text("Student,ID,SIS User ID,SIS Login ID,Section,Homework (1)\n")
    with pytest.raises(GradingError, match=r"has no columns for ps1.*--column ps1='ps1 \(4711\)'"):
        export(["ps1"], folders.root, "canvas", into=other)


def test_nbgraders_own_command_takes_the_plugins_and_their_configuration(folders, tmp_path):
    with open(folders.root / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write("c.CanvasExport.columns = {'ps1': 'Set one (12)'}\n")
    to = tmp_path / "canvas.csv"
    command = [sys.executable, "-m", "nbgrader", "export", "--exporter=autograder.exports.CanvasExport", f"--to={to}"]
    done = subprocess.run(command, cwd=folders.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert table(to)[0][-1] == "Set one (12)"
    assert "blank, ps1: no score is written, a person has yet to mark explain." in done.stderr


def test_the_file_is_for_its_owner_alone(folders):
    path, _ = export(["ps1"], folders.root)
    assert path == folders.grading / "exports" / "grades.csv"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_assignment_or_a_learner_that_is_unknown_is_refused(folders):
    with pytest.raises(GradingError, match=r"does not know ps9\. Expected one of ps1; grade it first"):
        export(["ps9"], folders.root)
