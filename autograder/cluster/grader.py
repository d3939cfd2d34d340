"""The program beside a Dask worker that grades: one submission after the other, each in the sandbox of this machine.

It is told by bytes on a socket what to grade, and answers so. It ends when the other end is closed.
"""

import os
import platform
import select
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import autogradlab

from autograder import sandbox
from autograder.cluster.installed import Installed
from autograder.cluster.parcels import (
    BadParcel,
    Failed,
    HandedIn,
    Place,
    Ready,
    Refused,
    Run,
    answered,
    results_of,
    unpack_course,
    unpacked,
)
from autograder.engine.job import Job, Settings, Submission
from autograder.engine.supervisor import EngineError
from autograder.folders import versions
from autograder.sandbox import scratch

#: The file of the course that a probe tries to read.
SECRET = "secret"


class Grader:
    """A job of the engine for one run, with the course in a folder of its own."""

    def __init__(self, run: Run, folder: Path, worker: str):
        self._run, self._folder, self._worker = run, folder, worker
        unpack_course(run, folder)
        (folder / SECRET).write_text("nobody's business", encoding="utf-8")
        plan = sandbox.plan([Path(autogradlab.__file__).parent], run.limits, run.strong_sandbox)
        self._job = Job(Settings(folder, run.limits, plan, versions(), run.seeds, run.all_cells), run.masters)
        self._place: Place | None = None

    def examine(self) -> Ready | Refused:
        """Whether the sandbox here comes to what is asked for, as tried from inside."""
        try:
            report = self._job.examine(self._folder / SECRET)
        except EngineError as error:
            return Refused(f"The grading engine cannot start there: {error}")
        if sandbox.LEVELS.index(report.level) < sandbox.LEVELS.index(self._run.level):
            weak = [f"{name} {text}" for name, text in report.layers.items() if text.startswith(("off", "open"))]
            return Refused(f"Its sandbox is {report.level} and has to be {self._run.level}: {'; '.join(weak)}.")
        self._place = Place(self._worker, platform.node(), report.level)
        return Ready(report, self._place)

    def grade(self, data: bytes) -> bytes:
        """The answer to one submission."""
        try:
            handed_in = unpacked(data, HandedIn)
            submission = Submission(handed_in.assignment, handed_in.student, handed_in.folder, handed_in.stamp)
            return answered(results_of(self._job.grade(submission), self._place, handed_in.token))
        except Exception as error:  # whatever it is, it is this submission's, and told where people read it
            return answered(Failed(f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        """End the job."""
        self._job.close()


def main() -> None:
    """Say whether this machine will do, then grade as asked until the socket is closed."""
    connection, worker, folder = Connection(int(sys.argv[1])), sys.argv[2], scratch.make()
    working = threading.Lock()
    threading.Thread(target=_end_with_worker, args=(connection.fileno(), working, folder), daemon=True).start()
    try:
        # The other end closes when the worker needs no grader any more or has ended.
        with suppress(EOFError, ConnectionError):
            _serve(connection, working, folder, worker)
    finally:
        scratch.remove(folder)


def _serve(connection: Connection, working: threading.Lock, folder: Path, worker: str) -> None:
    with working:
        try:
            grader = _started(connection.recv_bytes(), connection.recv_bytes(), folder, worker)
        except BadParcel as error:
            connection.send_bytes(answered(Refused(f"Another version of the course is installed there: {error}.")))
            return
    try:
        with working:
            first = grader.examine()
        connection.send_bytes(answered(first))
        while isinstance(first, Ready):
            parcel = connection.recv_bytes()
            with working:
                answer = grader.grade(parcel)
            connection.send_bytes(answer)
    finally:
        grader.close()


def _started(installed: bytes, run: bytes, folder: Path, worker: str) -> Grader:
    """A grader for the run; raises BadParcel where what is installed here is not what the run was made with."""
    # First, since another version may read another run.
    if differences := Installed.here().differences(unpacked(installed, Installed)):
        raise BadParcel(differences)
    return Grader(unpacked(run, Run), folder, worker)


def _end_with_worker(descriptor: int, working: threading.Lock, folder: Path) -> None:
    """End this process, and with it its parent and children, if the worker ends while it is grading."""
    poll = select.poll()
    poll.register(descriptor, 0)  # nothing but the hang-up
    poll.poll()
    if working.locked():
        scratch.remove(folder)
        os._exit(1)


if __name__ == "__main__":
    main()
