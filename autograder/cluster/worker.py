"""What Dask runs on a worker: start graders, hand bytes on.

It is imported there by name, so that the scheduler needs nothing of the course, and a worker without it says so.
"""

import json
import os
import socket
import subprocess
import sys
import weakref
from multiprocessing.connection import Connection

#: Seconds that a grader may take to import everything and try its sandbox.
START_SECONDS = 300
#: Seconds that a grader may take to end after its socket was closed.
END_SECONDS = 10


def command(descriptor: int, worker: str) -> list[str]:
    """The command that starts a grader at the other end of the socket with this descriptor."""
    # -I: nothing of the worker's environment and nothing of its working directory decides what is imported.
    return [sys.executable, "-I", "-m", "autograder.cluster.grader", str(descriptor), worker]


class GraderEnded(Exception):
    """A grader has ended before it answered."""


class GraderProcess:
    """A grader, and our end of its socket; `first` is what it said when it had started."""

    def __init__(self, installed: bytes, run: bytes, worker: str):
        ours, theirs = socket.socketpair()
        with theirs:
            environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                command(theirs.fileno(), worker),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # an interrupt in the worker's terminal is the worker's
            )
        self._connection = Connection(ours.detach())
        self.first = self._asked(installed, run, seconds=START_SECONDS)

    def grade(self, parcel: bytes) -> bytes:
        """The answer to one submission; raises GraderEnded, after which there is no grader."""
        return self._asked(parcel)

    def hang_up(self) -> None:
        """Have the grader end."""
        self._connection.close()

    def close(self) -> None:
        """Have the grader end, and wait for it."""
        self.hang_up()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _asked(self, *parcels: bytes, seconds: float | None = None) -> bytes:
        try:
            for parcel in parcels:
                self._connection.send_bytes(parcel)
            if not self._connection.poll(seconds):
                self._process.kill()
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            self.close()
            raise GraderEnded(f"The process that graded ended with status {self._process.returncode}.") from error


class Prepared:
    """The graders of one worker for one run: as many as there are tasks at a time, started when they are needed.

    They end when Dask lets go of this object, which is when the coordinator does or has gone.
    """

    def __init__(self, installed: bytes, run: bytes, worker: str):
        self._installed, self._run, self._worker = installed, run, worker
        self._idle: list[GraderProcess] = []
        self._end = weakref.finalize(self, _close, self._idle)
        self._first = self._start()

    def first_answer(self) -> bytes:
        """Whether the worker will do."""
        return self._first

    def grade(self, parcel: bytes) -> bytes:
        """The answer to one submission."""
        try:
            try:
                grader = self._idle.pop()
            except IndexError:
                grader = GraderProcess(self._installed, self._run, self._worker)
                if not _is_ready(grader.first):
                    grader.close()
                    return grader.first
            answer = grader.grade(parcel)
        except GraderEnded as error:
            return _lost(str(error))
        self._idle.append(grader)
        return answer

    def _start(self) -> bytes:
        """What the first grader says; it waits for its first submission."""
        try:
            grader = GraderProcess(self._installed, self._run, self._worker)
        except GraderEnded as error:
            return _lost(str(error))
        if _is_ready(grader.first):
            self._idle.append(grader)
        else:
            grader.close()
        return grader.first

    def __reduce__(self):
        # Dask moves or spills what it has in memory; processes stay where they are.
        return Moved, ()


class Moved:
    """What is left of a Prepared that Dask has moved or spilled."""

    def first_answer(self) -> bytes:
        """Says that there is no grader."""
        return json.dumps({"kind": "refused", "reason": "Dask took from it what it had in memory."}).encode()

    def grade(self, parcel: bytes) -> bytes:
        """Says that there is no grader."""
        return self.first_answer()


def prepare(installed: bytes, run: bytes, worker: str) -> Prepared:
    """The graders of a run on the worker that runs this."""
    return Prepared(installed, run, worker)


def _close(graders: list[GraderProcess]) -> None:
    for grader in graders:
        grader.hang_up()
    while graders:
        graders.pop().close()


def _is_ready(answer: bytes) -> bool:
    return json.loads(answer)["kind"] == "ready"


def _lost(reason: str) -> bytes:
    return json.dumps({"kind": "lost", "reason": reason}).encode()
