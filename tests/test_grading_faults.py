"""A run over a class in which something refuses or is missing: it costs its submission alone, and is mended."""

import shutil
from types import SimpleNamespace

import nbformat
import pytest
from graded_class import course, mark

from autograder import gradebook
from autograder.folders import Folders
from autograder.grading import Options, _Run, grade
from autograder.intake import Master, take

SETTINGS = "c.LateSubmissionPlugin.penalty_method = 'zero'\n"
POINTS = {"test_squares": 2.0, "test_mean": 3.0, "explain": None}


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    times = {"good": "2026-01-01 11:00:00 UTC", "naive": "2026-01-03 12:00:00 UTC"}
    return course(tmp_path_factory.mktemp("faults") / "course", SETTINGS, timestamps=times).root


@pytest.fixture
def folders(ready, tmp_path, monkeypatch):
    """The course with its class, and a run that gives everybody all points, without an engine."""
    found = Folders(shutil.copytree(ready, tmp_path / "course"))
    monkeypatch.setattr(_Run, "_outcomes", outcomes)
    return found


def outcomes(run, waiting):
    run.report = SimpleNamespace(level="STANDARD", json=dict, lines=list)
    for submission in waiting:
        yield submission, outcome(Master.of(run._folders, "ps1"), submission)


def outcome(master, submission):
    (taken,) = take(submission.folder, master)
    common = {"message": "", "misconceptions": [], "refereed": False, "second_try": False}
    cells = {
        name: common | {"score": score, "max": score or 1.0, "reason": None, "needs_manual": score is None}
        for name, score in POINTS.items()
    }
    result = {"student": submission.student, "assignment": "ps1", "notebook": "problem1", "status": "graded"}
    result |= {"cells": cells, "message": "", "repairs": [], "flags": [], "limits": {}, "seconds": 0.1}
    return [(result, taken.node, taken.files)]


def statuses(folders, **options):
    return {one.student: one.status for one in grade(root=folders.root, options=Options(**options))}


def page(folders, student):
    return (folders.step("feedback", student, "ps1") / "ps1.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("step", ["autograded", "feedback"])
def test_a_folder_that_refuses_costs_its_submission_alone_and_the_next_run_mends_it(folders, step, capsys):
    (folders.root / step).mkdir()
    (folders.root / step / "good").write_text("in the way")
    assert statuses(folders) == {"blank": "graded", "good": "not graded", "naive": "graded"}
    said = capsys.readouterr().err
    assert "good, ps1: not graded." in said and f"{step}/good" in said and "un the same command again" in said
    (folders.root / step / "good").unlink()
    assert statuses(folders) == {"blank": "unchanged", "good": "graded", "naive": "unchanged"}


def test_a_submission_that_cannot_be_read_costs_itself_alone(folders, monkeypatch):
    stamp = Folders.stamp

    def refuse(self, unit, student, edition):
        if student == "good":
            raise PermissionError(13, "Permission denied", "submitted/good/ps1/problem1.ipynb")
        return stamp(self, unit, student, edition)

    monkeypatch.setattr(Folders, "stamp", refuse)
    done = {one.student: one for one in grade(root=folders.root)}
    assert {student: one.status for student, one in done.items()} == {
        "blank": "graded",
        "good": "not graded",
        "naive": "graded",
    }
    assert done["good"].reason.startswith(
        "submitted/good/ps1/problem1.ipynb cannot be read or written: Permission denied"
    )


def test_a_page_that_somebody_removed_is_written_again_without_grading(folders):
    statuses(folders)
    before = page(folders, "good")
    shutil.rmtree(folders.root / "feedback" / "good")
    assert set(statuses(folders).values()) == {"unchanged"}
    assert page(folders, "good") == before


def test_a_mark_by_hand_moves_the_penalty_and_the_page_with_the_next_run(folders):
    statuses(folders)
    assert "5 are taken off, which leaves 0" in page(folders, "naive")
    mark(folders, "naive", 0.5, "Late, and well put.")
    assert set(statuses(folders).values()) == {"unchanged"}
    text = page(folders, "naive")
    assert "5.5 are taken off, which leaves 0" in text and "Late, and well put." in text
    with gradebook.opened(folders) as opened:
        assert opened.find_submission("ps1", "naive").late_submission_penalty == 5.5


def test_what_a_killed_run_left_is_graded_again_and_removed(folders):
    statuses(folders)
    left = folders.step("autograded", "good", "ps1").with_name(".ps1.old")
    left.mkdir()
    assert statuses(folders) == {"blank": "unchanged", "good": "graded", "naive": "unchanged"}
    assert not left.exists()


def test_graded_notebooks_have_no_metadata_but_nbgraders(folders):
    statuses(folders)
    for path in (folders.root / "autograded").rglob("*.ipynb"):
        assert not any("autogradlab" in cell.metadata for cell in nbformat.read(path, 4).cells)


def test_an_interrupted_run_says_how_far_it_came_and_the_next_goes_on(folders, monkeypatch, capsys):
    def interrupted(run, waiting):
        yield next(outcomes(run, waiting))
        raise KeyboardInterrupt

    monkeypatch.setattr(_Run, "_outcomes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grade(root=folders.root)
    assert "Interrupted: 1 of 3 are graded and kept; the same command goes on." in capsys.readouterr().err
    monkeypatch.setattr(_Run, "_outcomes", outcomes)
    assert statuses(folders) == {"blank": "unchanged", "good": "graded", "naive": "graded"}


def test_files_that_nobody_could_be_found_for_are_in_the_data(folders):
    grade(root=folders.root, json_file=folders.root / "run.json", not_matched={"x.ipynb": "is nobody's"})
    assert '"x.ipynb": "is nobody\'s"' in (folders.root / "run.json").read_text()
