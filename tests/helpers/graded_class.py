"""A small class of nbgrader's own example kind, with its scores in the gradebook and no engine run for them."""

import shutil
from pathlib import Path

from autograder import gradebook
from autograder.folders import Folders
from autograder.gradebook import Writer
from autograder.intake import Master, take

CASES = Path(__file__).resolve().parent.parent / "cases" / "submissions"
#: Points that can be had for: test_squares 2, test_mean 3, explain (by hand) 1.
POINTS = 6
DUE = "2026-01-01 12:00:00 UTC"


def course(root, settings="", students=("good", "naive", "blank"), timestamps=()):
    """The course's folders, with these submissions, generated and due at DUE; nothing is graded."""
    shutil.copytree(CASES / "course", root, dirs_exist_ok=True)
    with open(root / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write(settings)
    for student in students:
        shutil.copytree(CASES / "00-control" / "submitted" / student, root / "submitted" / student)
    for student, timestamp in dict(timestamps).items():
        (root / "submitted" / student / "ps1" / "timestamp.txt").write_text(timestamp, encoding="utf-8")
    folders = Folders(root)
    Master.of(folders, "ps1")
    with gradebook.opened(folders) as opened:
        opened.update_or_create_assignment("ps1", duedate=DUE)
    return folders


def enter(folders, scores):
    """Write each student's scores, those of test_squares, test_mean and explain, into gradebook and results."""
    master = Master.of(folders, "ps1")
    with Writer(folders) as writer:
        for student, (squares, mean, explain) in scores.items():
            (taken,) = take(folders.step("submitted", student, "ps1"), master)
            given = {"test_squares": (squares, 2), "test_mean": (mean, 3), "explain": (explain, 1)}
            cells = {
                name: {
                    "score": score,
                    "max": most,
                    "reason": None if score == most else "wrong",
                    "message": "",
                    "misconceptions": ["A01"] if score == 0 else [],
                    "refereed": False,
                    "second_try": False,
                    "needs_manual": name == "explain",
                }
                for name, (score, most) in given.items()
            }
            result = {"student": student, "assignment": "ps1", "notebook": "problem1", "status": "graded"}
            result |= {"cells": cells, "message": "", "repairs": [], "flags": [], "limits": {}}
            writer.apply([(result, taken.node, taken.files)])
            kept = {"status": "graded", "reason": "", "seconds": 0.0, "stamp": "", "notebooks": [result]}
            folders.note_result("ps1", student, kept)


def mark(folders, student, score, comment=None):
    """Mark a student's written answer by hand."""
    with gradebook.opened(folders) as opened:
        opened.find_grade("explain", "problem1", "ps1", student).manual_score = score
        if comment:
            opened.find_comment("explain", "problem1", "ps1", student).manual_comment = comment
        opened.db.commit()
