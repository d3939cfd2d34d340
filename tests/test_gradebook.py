"""The writer of the gradebook: rows as nbgrader's own, one transaction each, what people entered kept."""

import copy
import json
import os
import pickle
import secrets
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from gradebook_rows import rows
from nbgrader.apps import NbGraderAPI
from nbgrader.utils import determine_grade, is_grade

from autograder import gradebook
from autograder.folders import Folders, GradingError
from autograder.gradebook import Writer
from autograder.grading import Options, grade
from autograder.intake import Master, take
from autograder.nbgrader_context import nbgrader_context

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "submissions"
LATE = "c.LateSubmissionPlugin.penalty_method = 'zero'\n"
DUE = "2026-01-01 12:00:00 UTC"
#: student -> timestamp.txt, or none.
CLASS = {"good": "2026-01-01 11:00:00 UTC", "blank": None, "naive": "2026-01-03 12:00:00 UTC"}


def make_course(root, settings=LATE):
    """The small course with its due date and the three ordinary submissions; not generated yet."""
    shutil.copytree(CASES / "course", root, dirs_exist_ok=True)
    with open(root / "nbgrader_config.py", "a") as file:
        file.write(settings)
    shutil.copytree(CASES / "00-control" / "submitted", root / "submitted")
    for student, timestamp in CLASS.items():
        folder = root / "submitted" / student / "ps1"
        (folder / "data").mkdir()
        (folder / "data" / "notes.txt").write_text(student)
        if timestamp:
            (folder / "timestamp.txt").write_text(timestamp)
    return root


def set_due(folders):
    with gradebook.opened(folders) as opened:
        opened.update_or_create_assignment("ps1", duedate=DUE)


@pytest.fixture(scope="module")
def by_nbgrader(tmp_path_factory):
    """The class graded by nbgrader alone: its root."""
    root = make_course(tmp_path_factory.mktemp("nbgrader"))
    folders = Folders(root)
    with nbgrader_context():
        api = NbGraderAPI(config=folders.config)
        assert api.generate_assignment("ps1")["success"]
        set_due(folders)
        for student in CLASS:
            result = api.autograde("ps1", student)
            assert result["success"], result
    return root


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A course whose master is in the gradebook, without any submission's rows."""
    root = make_course(tmp_path_factory.mktemp("ready"))
    folders = Folders(root)
    Master.of(folders, "ps1")
    set_due(folders)
    return root


@pytest.fixture
def folders(ready, tmp_path):
    """A copy of that course, to be written to."""
    return Folders(shutil.copytree(ready, tmp_path / "course"))


def outcome(folders, student, executed=None, **changes):
    """What the engine would hand the writer: the outputs and scores of a notebook that nbgrader has run."""
    (taken,) = take(folders.step("submitted", student, "ps1"), Master.of(folders, "ps1"))
    cells = {}
    outputs = {} if executed is None else {cell.metadata.nbgrader.grade_id: cell.get("outputs") for cell in executed}
    for cell in taken.node.cells:
        if is_grade(cell):
            name = cell.metadata.nbgrader.grade_id
            if cell.cell_type == "code":
                cell.outputs = outputs.get(name) or []
            score, most = determine_grade(cell)
            cells[name] = {"score": score, "max": most}
    result = {"student": student, "assignment": "ps1", "notebook": "problem1", "status": "graded", "cells": cells}
    return [(result | changes, taken.node, taken.files)]


def executed(root, student):
    path = root / "autograded" / student / "ps1" / "problem1.ipynb"
    return [cell for cell in nbformat.read(path, as_version=4).cells if "nbgrader" in cell.metadata]


def grades(folders, student):
    """grade_id -> (automatic score, manual score, whether a person has to look)."""
    with gradebook.opened(folders) as opened:
        (notebook,) = opened.find_submission("ps1", student).notebooks
        return {one.name: (one.auto_score, one.manual_score, one.needs_manual_grade) for one in notebook.grades}


def comments(folders, student):
    with gradebook.opened(folders) as opened:
        (notebook,) = opened.find_submission("ps1", student).notebooks
        return {one.name: one.auto_comment for one in notebook.comments}


def wrong(folders, student):
    """A result with all that could be scored at 0."""
    changed = outcome(folders, student)
    for cell in changed[0][0]["cells"].values():
        cell["score"] = 0.0
    return changed


# ------------------------------------------------------------------------------------------------- as nbgrader has it


def test_rows_are_nbgraders_table_by_table(folders, by_nbgrader):
    with Writer(folders) as writer:
        for student in CLASS:
            writer.apply(outcome(folders, student, executed(by_nbgrader, student)))
    ours, theirs = rows(folders), rows(Folders(by_nbgrader))
    assert set(ours) == set(theirs)
    for table in theirs:
        assert ours[table] == theirs[table], table
    assert len(ours["grade"]) == 9 and len(ours["comment"]) == 9
    assert [row["late_submission_penalty"] for row in ours["submitted_notebook"]].count(None) == 2


def texts(root, student):
    """grade_id -> the results and the errors that a graded cell shows."""
    return {
        cell.metadata.nbgrader.grade_id: [
            output.data["text/plain"] if output.output_type == "execute_result" else output.ename
            for output in cell.outputs
            if output.output_type in ("execute_result", "error")
        ]
        for cell in executed(root, student)
        if cell.cell_type == "code"
    }


def test_the_engine_gives_the_rows_and_the_texts_that_nbgrader_gives(folders, by_nbgrader):
    assert all(graded.status == "graded" for graded in grade(root=folders.root, options=Options(jobs=1)))
    ours, theirs = rows(folders), rows(Folders(by_nbgrader))
    for table in theirs:
        assert ours[table] == theirs[table], table
    for student in CLASS:
        assert texts(folders.root, student) == texts(by_nbgrader, student)


def test_grading_again_gives_nbgraders_rows_too(folders, by_nbgrader, tmp_path):
    root = shutil.copytree(by_nbgrader, tmp_path / "again")
    theirs = Folders(root)
    for one in (folders, theirs):
        if one is folders:
            with Writer(one) as writer:
                writer.apply(outcome(one, "naive", executed(by_nbgrader, "naive")))
        with gradebook.opened(one) as opened:
            opened.find_grade("explain", "problem1", "ps1", "naive").manual_score = 0.5
            opened.find_grade("test_mean", "problem1", "ps1", "naive").extra_credit = 0.25
            opened.find_grade("test_squares", "problem1", "ps1", "naive").manual_score = 1.5
            opened.find_comment("explain", "problem1", "ps1", "naive").manual_comment = "half"
            opened.db.commit()
    with Writer(folders) as writer:
        writer.apply(outcome(folders, "naive", executed(by_nbgrader, "naive")))
    with nbgrader_context():
        assert NbGraderAPI(config=theirs.config).autograde("ps1", "naive")["success"]
    for table in ("grade", "comment", "submitted_notebook"):
        mine = [row for row in rows(folders)[table] if "naive" in repr(row)]
        assert mine == [row for row in rows(theirs)[table] if "naive" in repr(row)]
    assert grades(folders, "naive")["explain"] == (None, 0.5, True)
    assert grades(folders, "naive")["test_squares"] == (2, 1.5, True)


def test_the_autograded_folder_is_one_that_nbgrader_goes_on_with(folders, by_nbgrader):
    with Writer(folders) as writer:
        writer.apply(outcome(folders, "good", executed(by_nbgrader, "good")))
    ours, theirs = folders.step("autograded", "good", "ps1"), by_nbgrader / "autograded" / "good" / "ps1"
    names = sorted(path.relative_to(ours).as_posix() for path in ours.rglob("*"))
    assert names == sorted(path.relative_to(theirs).as_posix() for path in theirs.rglob("*"))
    for path in filter(Path.is_file, ours.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((theirs / path.relative_to(ours)).stat().st_mode)
    nbformat.validate(nbformat.read(ours / "problem1.ipynb", as_version=4))
    with nbgrader_context():
        result = NbGraderAPI(config=folders.config).generate_feedback("ps1", "good")
    assert result["success"], result


# --------------------------------------------------------------------------------------------------- what is set anew


def test_an_earlier_attempts_scores_are_gone(folders, by_nbgrader):
    with Writer(folders) as writer:
        writer.apply(outcome(folders, "good", executed(by_nbgrader, "good")))
        assert grades(folders, "good")["test_squares"] == (2, None, False)
        writer.apply(wrong(folders, "good"))
    assert {name: score for name, (score, *_) in grades(folders, "good").items()} == {
        "test_squares": 0,
        "test_mean": 0,
        "explain": 0,
    }


def test_an_unreadable_attempt_has_no_score_and_no_autograded_folder(folders, by_nbgrader):
    with Writer(folders) as writer:
        writer.apply(outcome(folders, "good", executed(by_nbgrader, "good")))
        (result, _, files) = outcome(folders, "good", status="unreadable")[0]
        for cell in result["cells"].values():
            cell["score"] = None
        writer.apply([(result, None, files)])
    assert set(grades(folders, "good").values()) == {(None, None, True)}
    assert not folders.step("autograded", "good", "ps1").exists()


def test_a_notebook_that_was_not_handed_in_is_0_as_nbgrader_has_it(folders):
    (result, _, files) = outcome(folders, "good", status="skipped")[0]
    for cell in result["cells"].values():
        cell["score"] = 0.0
    with Writer(folders) as writer:
        writer.apply([(result, None, files)])
    assert set(grades(folders, "good").values()) == {(0, None, False)}
    assert set(comments(folders, "good").values()) == {None}


def test_untouched_answers_say_so(folders):
    with Writer(folders) as writer:
        writer.apply(wrong(folders, "blank"))
        writer.apply(wrong(folders, "good"))
    assert set(comments(folders, "blank").values()) == {"No response."}
    assert set(comments(folders, "good").values()) == {None}


def test_an_extension_counts_against_the_penalty(folders, by_nbgrader):
    with Writer(folders) as writer:
        writer.apply(outcome(folders, "naive", executed(by_nbgrader, "naive")))
        with gradebook.opened(folders) as opened:
            assert opened.find_submission("ps1", "naive").late_submission_penalty == 3
            opened.grant_extension("ps1", "naive", days=3)
        writer.apply(outcome(folders, "naive", executed(by_nbgrader, "naive")))
    with gradebook.opened(folders) as opened:
        assert not opened.find_submission("ps1", "naive").late_submission_penalty


def test_a_point_that_somebody_adds_later_does_not_escape_the_penalty(folders, by_nbgrader):
    with Writer(folders) as writer:
        for student in CLASS:
            writer.apply(outcome(folders, student, executed(by_nbgrader, student)))
        with gradebook.opened(folders) as opened:
            for student in ("good", "naive"):
                opened.find_grade("explain", "problem1", "ps1", student).manual_score = 1
            opened.db.commit()
            assert opened.find_submission("ps1", "naive").score == 4
        writer.settle_penalties("ps1")
    with gradebook.opened(folders) as opened:
        assert opened.find_submission("ps1", "naive").late_submission_penalty == 4
        assert not opened.find_submission("ps1", "good").late_submission_penalty


def test_a_submission_is_written_in_milliseconds(folders):
    changed = wrong(folders, "good")
    with Writer(folders) as writer:
        writer.apply(changed)
        start = time.perf_counter()
        for number in range(20):
            writer.apply([(result | {"student": f"s{number}"}, node, files) for result, node, files in changed])
        each = (time.perf_counter() - start) / 20
    assert each < 0.05  # 5 ms on a quiet machine; opening nbgrader's gradebook for each takes 55 ms and more


# ------------------------------------------------------------------------------------------------------ what goes wrong


def state(folders):
    """All rows, and all files of autograded/ with their content."""
    autograded = folders.root / "autograded"
    files = {path: path.read_bytes() for path in sorted(autograded.rglob("*")) if path.is_file()}
    return rows(folders), files


@pytest.fixture
def graded(folders, by_nbgrader):
    """The course with one submission written."""
    with Writer(folders) as writer:
        writer.apply(outcome(folders, "good", executed(by_nbgrader, "good")))
    return folders


def test_a_locked_gradebook_ends_in_words_and_nothing_half_written(graded):
    before, changed = state(graded), wrong(graded, "good")
    with (graded.root / "nbgrader_config.py").open("a") as config:
        config.write(f"c.CourseDirectory.db_url = {graded.db_url + '?timeout=0.1'!r}\n")
    with Writer(Folders(graded.root)) as writer, closing(sqlite3.connect(graded.root / "gradebook.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GradingError, match=r"(?s)gradebook\.db.*database is locked.*goes on where it stopped"):
            writer.apply(changed)
        other.rollback()
        assert state(graded) == before
        writer.apply(changed)
    assert grades(graded, "good")["test_squares"] == (0, None, False)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_gradebook_that_vanishes_ends_in_words(graded, how):
    path, changed = graded.root / "gradebook.db", wrong(graded, "good")
    with Writer(graded) as writer:
        copied = path.read_bytes()
        path.rename(path.with_suffix(".away"))
        if how == "replaced":
            path.write_bytes(copied)
        with pytest.raises(GradingError, match=r"removed or replaced while grading. Nothing was written for good"):
            writer.apply(changed)
    assert path.exists() == (how == "replaced")


def test_a_file_that_is_no_gradebook_ends_in_words(folders):
    (folders.root / "gradebook.db").write_bytes(b"no database at all, though long enough to look like one" * 20)
    with pytest.raises(GradingError, match="file is not a database"):
        Writer(folders)


def test_a_full_disk_leaves_the_old_version(graded, monkeypatch):
    before, changed = state(graded), wrong(graded, "good")
    write = Path.write_bytes

    def full(path, data):
        if path.suffix == ".ipynb":
            raise OSError(28, "No space left on device", str(path))
        return write(path, data)

    with Writer(graded) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            with pytest.raises(GradingError, match=r"No space left on device.*Make room"):
                writer.apply(changed)
        assert state(graded) == before
        writer.apply(changed)
    assert state(graded) != before


def test_a_commit_that_fails_takes_the_folder_back(graded, monkeypatch):
    before = state(graded)

    def fail(*_):
        raise KeyboardInterrupt

    with Writer(graded) as writer:
        changed = wrong(graded, "good")
        changed[0][1].cells[3].source = "changed"
        with monkeypatch.context() as patch:
            patch.setattr("sqlalchemy.engine.default.DefaultDialect.do_commit", fail)
            with pytest.raises(KeyboardInterrupt):
                writer.apply(changed)
    assert state(graded) == before


KILLED = """
import os, pickle, sys
from pathlib import Path
from autograder.autograded import Autograded
from autograder.folders import Folders
from autograder.gradebook import Writer
from autograder.grading import Options, grade

root, when, changed = Path(sys.argv[1]), sys.argv[2], pickle.load(open(sys.argv[3], "rb"))
method = getattr(Autograded, when)
def die(self, *arguments):
    if when == "install":
        self._place.rename(self._old)
    os._exit(9)
setattr(Autograded, when, die)
Writer(Folders(root)).apply(changed)
"""


@pytest.mark.parametrize("when", ["write", "install", "finish"])
def test_a_writer_that_was_killed_leaves_one_version_of_the_rows_and_the_next_run_mends_the_rest(
    graded, when, tmp_path
):
    changed = wrong(graded, "good")
    (tmp_path / "changed").write_bytes(pickle.dumps(changed))
    killed = subprocess.run([sys.executable, "-c", KILLED, graded.root, when, tmp_path / "changed"], check=False)
    assert killed.returncode == 9
    assert grades(graded, "good")["test_squares"][0] == (0 if when == "finish" else 2)
    with Writer(graded) as writer:
        writer.apply(changed)
    assert grades(graded, "good")["test_squares"][0] == 0
    assert sorted(os.listdir(graded.root / "autograded" / "good")) == ["ps1"]
    assert (graded.root / "autograded" / "good" / "ps1" / "problem1.ipynb").is_file()


def test_results_of_another_master_are_refused(graded):
    before = state(graded)
    less, other = copy.deepcopy(wrong(graded, "good")), copy.deepcopy(wrong(graded, "good"))
    del less[0][0]["cells"]["test_mean"]
    other[0][0]["notebook"] = "problem9"
    with Writer(graded) as writer:
        with pytest.raises(GradingError, match="problem1 has other cells in the gradebook"):
            writer.apply(less)
        with pytest.raises(GradingError, match="another than the one that was graded"):
            writer.apply(other)
    assert state(graded) == before


def test_a_missing_driver_is_named(folders):
    with (folders.root / "nbgrader_config.py").open("a") as config:
        config.write("c.CourseDirectory.db_url = 'mysql+no_such_driver://u:secret@host/db'\n")
    with pytest.raises(GradingError, match=r"mysql\+no_such_driver://u:\*\*\*@host/db") as caught:
        Writer(Folders(folders.root))
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------- PostgreSQL


class Server:
    """A PostgreSQL server of our own, on a socket in a folder of its own."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        # It refuses to run as root, and then needs a folder that its user can reach.
        self.user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        self.run("initdb", "-D", folder / "data", "-U", "grader", "-A", "trust", "--no-sync")
        self.start()

    def run(self, program, *arguments):
        command = [self.programs / program, *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder, **self.user)
        assert done.returncode == 0, done.stdout

    def start(self):
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-o", options, "-w", "start")

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def url(self, name):
        self.run("createdb", "-h", self.folder, "-U", "grader", name)
        return f"postgresql+psycopg://grader:secret@/{name}?host={self.folder}"


@pytest.fixture(scope="module")
def server():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL is not installed")
    # Not pytest's own folder, which only its owner may enter; and a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    running = Server(Path(initdb).resolve().parent, folder)
    yield running
    running.stop()
    shutil.rmtree(folder)


@pytest.fixture
def on_server(server, tmp_path):
    """The small course with its gradebook on the server, its master in it."""
    address = server.url(f"gradebook_{secrets.token_hex(4)}")
    root = make_course(tmp_path / "on_server", f"{LATE}c.CourseDirectory.db_url = {address!r}\n")
    folders = Folders(root)
    Master.of(folders, "ps1")
    set_due(folders)
    return folders


def test_rows_on_postgresql_are_those_of_sqlite(on_server, folders, by_nbgrader):
    for one in (on_server, folders):
        with Writer(one) as writer:
            for student in CLASS:
                writer.apply(outcome(one, student, executed(by_nbgrader, student)))
                writer.apply(outcome(one, student, executed(by_nbgrader, student)))
    assert rows(on_server) == rows(folders)
    assert not (on_server.root / "gradebook.db").exists()


def test_a_server_that_goes_away_ends_in_words_and_nothing_half_written(on_server, server, by_nbgrader):
    with Writer(on_server) as writer:
        writer.apply(outcome(on_server, "good", executed(by_nbgrader, "good")))
        before, changed = state(on_server), wrong(on_server, "good")
        server.stop()
        try:
            with pytest.raises(GradingError, match=r"postgresql\+psycopg://grader:\*\*\*@.*goes on where") as caught:
                writer.apply(changed)
            with pytest.raises(GradingError, match="cannot be used"):
                Writer(on_server)
        finally:
            server.start()
    assert "secret" not in str(caught.value)
    assert state(on_server) == before
    with Writer(on_server) as writer:
        writer.apply(changed)
    assert grades(on_server, "good")["test_squares"] == (0, None, False)


# ----------------------------------------------------------------------------------------------------- another master


def test_a_changed_set_of_cells_forgets_submissions_unless_somebody_marked_them(graded):
    source = graded.root / "source" / "ps1" / "problem1.ipynb"
    content = json.loads(source.read_text())
    content["cells"] = [one for one in content["cells"] if one["id"] not in ("mean", "test_mean")]
    source.write_text(json.dumps(content))
    with gradebook.opened(graded) as opened:
        opened.find_grade("explain", "problem1", "ps1", "good").manual_score = 1
        opened.db.commit()
    with pytest.raises(GradingError, match="good got marks or comments by hand"):
        Master.of(graded, "ps1")
    with gradebook.opened(graded) as opened:
        opened.find_grade("explain", "problem1", "ps1", "good").manual_score = None
        opened.db.commit()
    assert "mean" not in Master.of(graded, "ps1").notebooks["problem1"].by_id
    assert gradebook.students_with_submission(graded, "ps1") == set()
