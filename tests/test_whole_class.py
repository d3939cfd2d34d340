"""A class of which half is damaged, late or handed in twice, from archives to the export: every mark is right."""

import copy
import csv
import json
import sys
import zipfile

import nbformat
import pytest
from tiny_course import KEEPS, RIGHT, SLOPES, UNIT, cell_of, tiny_course

from autograder import gradebook
from autograder.engine.limits import Limits
from autograder.exports import export
from autograder.folders import Folders
from autograder.grading import Options, grade
from autograder.incoming.entering import come_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the engine's sandbox needs Linux")

#: Points of the unit: slope 2, slopes 3. Who keeps the gradient has the slopes wrong too, since they call it.
ALL = 5
LATE, IN_TIME = "2026-01-03 12:00", "2026-01-01 11:00"


def answered(released, body, change=lambda notebook: None):
    notebook = copy.deepcopy(released)
    cell_of(notebook, "slope").source = f"def slope(w, x):\n{body}"
    cell_of(notebook, "slopes").source = SLOPES
    change(notebook)
    return json.dumps(notebook).encode()


def strip(notebook):
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        cell.pop("id", None)


def copy_a_test(notebook):
    notebook.cells.append(nbformat.from_dict(cell_of(notebook, "slope_tests") | {"id": "copy"}))


def lose_a_test(notebook):
    notebook.cells.remove(cell_of(notebook, "slopes_tests"))


def edit_a_test(notebook):
    cell_of(notebook, "slope_tests").source = "100.0"


@pytest.fixture(scope="module")
def finals(tmp_path_factory):
    """Final score and penalty by learner, as the export has them, and what the intake said."""
    root = tiny_course(tmp_path_factory.mktemp("class"))
    with open(root / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    released = nbformat.read(root / "release" / UNIT / f"{UNIT}.ipynb", 4)
    right, wrong = answered(released, RIGHT), answered(released, KEEPS)
    moodle = {
        "Rita Right_1": right,
        "Wim Wrong_2": wrong,
        "Bom Bomber_3": b"\xef\xbb\xbf" + right,
        "Strip Stripper_4": answered(released, RIGHT, strip),
        "Copy Copier_5": answered(released, RIGHT, copy_a_test),
        "Lost Loser_6": answered(released, RIGHT, lose_a_test),
        "Edit Editor_7": answered(released, KEEPS, edit_a_test),
        "Late Later_8": right,
        "Ex Extended_9": right,
        "Cut Cutter_10": right[: len(right) // 2],
    }
    with zipfile.ZipFile(root / "moodle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in moodle.items():
            archive.writestr(f"{name}_assignsubmission_file_/{UNIT}{' (1)' * (name == 'Rita Right_1')}.ipynb", data)
        archive.writestr("No Body_11_assignsubmission_file_/x.ipynb", right)
    for time, data in (("2026-01-01 09:00:00 UTC", wrong), ("2026-01-01 10:00:00 UTC", right)):
        place = root / "exchange" / "inbound" / f"twice+{UNIT}+{time}"
        place.mkdir(parents=True)
        (place / f"{UNIT}.ipynb").write_bytes(data)
    rows = [f"id,full_name,due:{UNIT},extension:{UNIT},submitted:{UNIT}", "*,,2026-01-01 12:00,,", "twice,,,,"]
    for name in moodle:
        full, _, _ = name.partition("_")
        first = full.split()[0].lower()
        extension, time = "3 days" if first == "ex" else "", LATE if first in ("late", "ex") else IN_TIME
        rows.append(f"{first},{full},,{extension},{time}")
    (root / "class.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    folders = Folders(root)
    sources = [root / "moodle.zip", root / "exchange"]
    taken = come_in(folders, sources, [UNIT], root / "class.csv")
    grade(root=root, options=Options(limits=Limits(cell_seconds=10), jobs=1))
    with gradebook.opened(folders) as opened:  # a point by hand, after all was graded
        opened.find_grade("slope_tests", UNIT, UNIT, "wim").manual_score = 1.5
        opened.find_grade("slope_tests", UNIT, UNIT, "late").extra_credit = 1
        opened.db.commit()
    path, _ = export([UNIT], root)
    with open(path, encoding="utf-8", newline="") as file:
        found = {row["student_id"]: row for row in csv.DictReader(file)}
    return found, taken


def test_every_learners_mark_is_right(finals):
    found, _ = finals
    scores = {student: float(row["score"]) for student, row in found.items() if row["status"] == "graded"}
    wrong = scores.pop("edit")
    assert scores.pop("wim") == wrong + 1.5 and wrong < ALL
    names = ("rita", "bom", "strip", "copy", "lost", "ex", "twice")
    assert scores == dict.fromkeys(names, ALL) | {"late": 0}


def test_lateness_costs_the_final_score_and_an_extension_saves_it(finals):
    found, _ = finals
    assert (found["late"]["raw_score"], found["late"]["late_submission_penalty"]) == ("6.0", "6.0")
    assert found["ex"]["late_submission_penalty"] == "0.0"


def test_what_cannot_be_read_or_matched_has_no_score_and_is_named(finals):
    found, taken = finals
    assert found["cut"]["status"] == "unreadable"
    assert list(taken.not_matched) == ["No Body_11_assignsubmission_file_/x.ipynb"]
    assert "10:00:00 counts" in " ".join(taken.remarks)
