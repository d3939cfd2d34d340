"""docs/instructors.md: every command that it shows runs, on a class without an engine."""

import json
import re
import shlex
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from tiny_course import RIGHT, UNIT, hand_in, tiny_course

from autograder import cli
from autograder.grading import _Run
from autograder.incoming.roll import read_roll
from autograder.intake import Master, take

PAGE = Path(__file__).resolve().parent.parent / "docs" / "instructors.md"
SHOWN = "05_accumulating_gradients"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if not language for line in block.splitlines()]


def outcomes(run, waiting):
    """All points for everybody."""
    run.report = SimpleNamespace(level="STANDARD", json=dict, lines=list)
    for submission in waiting:
        master = Master.of(run._folders, UNIT)
        (taken,) = take(submission.folder, master)
        common = {"reason": None, "message": "", "misconceptions": [], "refereed": False, "second_try": False}
        graded = [one for one in master.notebooks[UNIT].cells if one.is_graded]
        cells = {one.id: common | {"score": one.points, "max": one.points, "needs_manual": False} for one in graded}
        result = {"student": submission.student, "assignment": UNIT, "notebook": UNIT, "status": "graded"}
        result |= {"cells": cells, "message": "", "repairs": [], "flags": [], "limits": {}, "seconds": 0.1}
        yield submission, [(result, taken.node, taken.files)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A course with two learners' work: Moodle's archive of it, the page's own list, and a worksheet."""
    root = tiny_course(tmp_path_factory.mktemp("instructors"))
    hand_in(root, "x", RIGHT)
    work = root / "grading" / "submitted" / "x" / UNIT / f"{UNIT}.ipynb"
    with zipfile.ZipFile(root / "moodle.zip", "w") as archive:
        for name in ("Ada Lovelace_12345", "Émilie du Châtelet_12346"):
            archive.write(work, f"{name}_assignsubmission_file_/{UNIT}.ipynb")
    shutil.rmtree(root / "grading" / "submitted")
    (text,) = (block for language, block in BLOCKS if language == "csv")
    (root / "class.csv").write_text(text.replace(SHOWN, UNIT), encoding="utf-8")
    sheet = (
        "Identifier,Full name,Email address,Grade,Maximum Grade\nParticipant 12345,Ada Lovelace,ada@example.org,,5.00\n"
    )
    sheet += "Participant 12346,Émilie du Châtelet,emilie@example.org,,5.00\n"
    (root / "worksheet.csv").write_text(sheet, encoding="utf-8")
    return root


@pytest.fixture
def run(place, monkeypatch, capsys):
    """Runs a command of the page in the course: its exit code and what it said."""

    def command(line):
        _, program, *arguments = shlex.split(line.replace(SHOWN, UNIT))
        assert program == "run.py"
        monkeypatch.chdir(place)
        monkeypatch.setattr(_Run, "_outcomes", outcomes)
        monkeypatch.setattr("sys.argv", ["run.py", *arguments, "--course", str(place)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return command


def test_every_command_runs_in_the_order_of_the_page(run, place):
    assert len(COMMANDS) > 8
    for line in COMMANDS:
        if " lab" in line:  # JupyterLab itself is tried in a browser
            continue
        code, out, err = run(line)
        assert code == 0, (line, out, err)
        if "--from" in line:
            assert "Taken in: 2 submissions." in err
            assert sorted(path.name for path in (place / "grading" / "submitted").iterdir()) == ["ada", "emilie"]
        if "--regrade" in line:
            assert "0 of 2 submissions were graded again" in out
    assert {entry["student"] for entry in json.loads((place / "grading" / "run.json").read_text())["submissions"]} == {
        "ada",
        "emilie",
    }
    assert "<testsuites" in (place / "grading" / "junit.xml").read_text()
    assert "ada@example.org,5,5.00" in (place / "filled.csv").read_text()
    assert "Homework 5 (4711)" in (place / "grading" / "exports" / "canvas.csv").read_text()
    feedback = place / "grading" / "feedback" / "ada" / UNIT
    assert {path.name for path in feedback.iterdir()} == {f"{UNIT}.html", f"{UNIT}.ipynb"}
    nbformat.validate(nbformat.read(feedback / f"{UNIT}.ipynb", as_version=4))


def test_the_list_that_it_shows_says_what_it_tells(place):
    roll = read_roll(place / "class.csv", [UNIT])
    assert set(roll.learners) == {"ada", "emilie"}
    assert roll.everybody.due[UNIT].hour == 22 and roll.learners["ada"].extension[UNIT].days == 3
    assert roll.learners["emilie"].submitted[UNIT].hour == 7
