"""Where no sandbox is to be had, children are programs of their own: the same grades, and a warning."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import grading, sandbox
from autograder.engine.limits import Limits
from autograder.folders import GradingError
from autograder.grading import Options, grade

CASES = Path(__file__).parent / "cases" / "submissions"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Three submissions, on a machine that has none of the sandbox's layers."""

    def plan(limits, strong):
        return sandbox.plan([], limits, without=dict.fromkeys(sandbox.LAYERS, "not on this system: use WSL2"))

    monkeypatch.setattr(grading, "plan_here", plan)
    shutil.copytree(CASES / "course", tmp_path / "course")
    for case, student in (("00-control", "naive"), ("08-uninterruptible-loop", "s1"), ("09-kernel-death", "s1")):
        shutil.copytree(CASES / case / "submitted" / student, tmp_path / "course" / "submitted" / case)
    return tmp_path / "course"


def test_it_is_refused_unless_accepted_and_then_grades_all_the_same(course, capsys):
    with pytest.raises(GradingError, match="The sandbox is NONE here and has to be STANDARD"):
        grade(root=course, options=Options(jobs=1))
    options = Options(limits=Limits(cell_seconds=5), jobs=1, allow_weak_sandbox=True)
    found = {graded.student: graded.notebooks[0]["cells"] for graded in grade(root=course, options=options)}
    scores = {
        student: [cells[name]["score"] for name in ("test_squares", "test_mean")] for student, cells in found.items()
    }
    assert scores == {"00-control": [2, 1], "08-uninterruptible-loop": [0, 3], "09-kernel-death": [0, 3]}
    assert found["08-uninterruptible-loop"]["test_squares"]["reason"] == "timeout"
    assert found["09-kernel-death"]["test_squares"]["reason"] == "died"
    said = capsys.readouterr().err
    assert "use WSL2" in said and said.count("learners' code is not confined") == 2


WINDOWS = """
import os, platform, signal, socket, sys
import autogradlab.checking, jupytext, matplotlib.pyplot, nbgrader.apps, rich.progress, torch._dynamo

sys.platform = "win32"
platform.system = lambda: "Windows"
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
for owner, names in (
    (os, ("fork", "register_at_fork", "getuid", "setsid", "getppid")),
    (signal, ("setitimer", "SIGPROF", "ITIMER_PROF", "ITIMER_REAL", "ITIMER_VIRTUAL", "SIGKILL")),
    (socket, ("AF_UNIX", "send_fds", "recv_fds")),
):
    for name in names:
        delattr(owner, name)
import autograder.engine.child, autograder.engine.comparing, autograder.engine.referee, autograder.grading
from autograder.engine.limits import Limits
from autograder.engine.supervisor import make_parent

parent = make_parent(autograder.sandbox.plan([], Limits()), Limits())
print(type(parent).__name__, autograder.sandbox.report({}, {}, parent.plan).level)
with autograder.bounds.at_most(1):
    pass
parent.close()
"""


def test_what_other_systems_lack_is_not_asked_for():
    done = subprocess.run([sys.executable, "-c", WINDOWS], capture_output=True, text=True)
    assert done.stdout == "Spawner NONE\n", done.stderr
