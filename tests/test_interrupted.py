"""A run that is killed at any moment, again and again, ends after resuming where an undisturbed one ends."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gradebook_rows import rows
from left_over import left_over

from autograder.folders import Folders

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "submissions"
LEARNERS = 12
VICTIMS = ("coordinator", "job", "parent", "child")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def start(course):
    command = [sys.executable, "-m", "autograder", "grade", "--course", course, "--json", course / "run.json"]
    # So that every process of a run but the children bears the folder in its environment.
    environment = os.environ | {"XDG_CACHE_HOME": str(course.parent / "cache")}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def finish(course):
    run = start(course)
    _, said = run.communicate()
    assert run.returncode == 0, said


def children(pid):
    """The processes that this one has started, of which some may be ending."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def find(run, victim):
    """A process of this kind in the run, or None while there is none."""
    jobs = [pid for pid in children(run.pid) if "spawn_main" in command_of(pid)]
    parents = [pid for job in jobs for pid in children(job) if "engine.parent" in command_of(pid)]
    kinds = {"coordinator": [run.pid], "job": jobs, "parent": parents}
    kinds["child"] = [pid for parent in parents for pid in children(parent)]
    return next(iter(kinds[victim]), None)


def disturb(course, chance, victims):
    """Start a run and kill processes of it, of these kinds in this order, at random moments until it has ended.

    Returns those that were not there to be killed.
    """
    run, left = start(course), list(victims)
    moment = time.monotonic() + chance.uniform(0.5, 5)
    while run.poll() is None and left:
        pid = find(run, left[0]) if time.monotonic() > moment else None
        if pid is None:
            time.sleep(0.005)
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        del left[0]
        moment = time.monotonic() + chance.uniform(0, 2)
    run.communicate()
    return left


def made_course(root):
    shutil.copytree(CASES / "course", root)
    for number in range(LEARNERS):
        student = ("good", "naive", "blank")[number % 3]
        shutil.copytree(CASES / "00-control" / "submitted" / student, root / "submitted" / f"{student}-{number:02}")
    return root


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.long)])
def test_the_gradebook_equals_that_of_an_undisturbed_run(tmp_path, rounds):
    undisturbed, disturbed = made_course(tmp_path / "undisturbed"), made_course(tmp_path / "disturbed")
    finish(undisturbed)
    chance = random.Random(rounds)
    left = [victim for _ in range(rounds) for victim in chance.sample(VICTIMS, len(VICTIMS))]
    while left:
        left = disturb(disturbed, chance, left)
        # So that there is something to disturb the next time.
        shutil.rmtree(disturbed / "grading" / "results" / "ps1", ignore_errors=True)
    finish(disturbed)
    assert left_over(tmp_path) == []
    ours, theirs = rows(Folders(disturbed)), rows(Folders(undisturbed))
    for table in theirs:
        assert ours[table] == theirs[table], table
    scores = [
        {record["student"]: {name: cell["score"] for name, cell in record["cells"].items()} for record in found}
        for found in (json.loads((root / "run.json").read_text())["submissions"] for root in (disturbed, undisturbed))
    ]
    assert scores[0] == scores[1]
    assert len(list((disturbed / "autograded").glob("*/ps1/problem1.ipynb"))) == LEARNERS
    assert not [path for path in (disturbed / "autograded").rglob(".*") if path.name != ".ipynb_checkpoints"]
