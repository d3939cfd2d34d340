"""The processes that grade on this machine: one that ends, at whatever moment, costs no more than what it was doing."""

import atexit
import pickle
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from autograder import sandbox
from autograder.engine.job import Job, Settings, Submission
from autograder.engine.parent import end_with_parent
from autograder.engine.supervisor import EngineError
from autograder.folders import GradingError
from autograder.intake import Master

#: Submissions that wait in a process beside the one it grades.
AHEAD = 2
#: How often a submission is tried whose grading ended the process that did it.
TRIES = 2
#: Seconds that a process may take to end when it is asked to.
END_SECONDS = 10


class _Process:
    """A process with a job, and our end of its pipe, which it has with nobody else.

    So whatever it was writing when it ended, the end of the pipe is seen: with a queue that several share, a half
    written answer has its reader wait for ever.
    """

    def __init__(self, needs: str):
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        #: What it was asked and has not answered, the oldest first.
        self.asked: deque[Submission] = deque()
        with theirs:
            self._process = context.Process(target=_serve, args=(theirs, needs))
            self._process.start()

    def ask(self, name: str, argument: object) -> None:
        """Have it call a method of its job; a process that has ended is found so when its answer is read."""
        try:
            self.connection.send((name, argument))
        except OSError:
            return

    def answer(self) -> object:
        """What the oldest call returned, else why it did not, a string. Raises EOFError where the process has ended."""
        try:
            return self.connection.recv()
        except OSError as error:
            raise EOFError from error

    def close(self, at_once: bool = False) -> int | None:
        """End the process, `at_once` also in the middle of its work; its exit code."""
        self.connection.close()
        if at_once:
            self._process.terminate()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode


class Jobs:
    """As many processes with a job each as `count` says; they end with the block, or with the one that made them."""

    def __init__(self, count: int, settings: Settings, masters: Mapping[str, Master]):
        # By way of a file: a process that ended while it was being started would leave us writing to it for ever.
        with tempfile.NamedTemporaryFile(delete=False) as file:
            pickle.dump((settings, masters), file)
        self._needs = Path(file.name)
        self._processes: list[_Process] = []
        try:
            for _ in range(count):
                self._processes.append(_Process(file.name))
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __enter__(self) -> "Jobs":
        return self

    def __exit__(self, kind, *_) -> None:
        for one in self._processes:
            one.close(at_once=kind is not None)
        self._needs.unlink()

    def examine(self, secret: Path) -> sandbox.Report:
        """What the sandbox enforces here; `secret` is a file that no learner's code may read."""
        one = self._processes[0]
        one.ask("examine", secret)
        try:
            found = one.answer()
        except EOFError:
            found = f"its process ended with status {one.close()}"
        if isinstance(found, str):
            raise GradingError(f"The grading engine cannot start: {found}")
        return found

    def grade(self, submissions: Sequence[Submission]) -> Iterator[tuple[Submission, object]]:
        """Yields each submission with what `Job.grade` returns for it, or with why it could not, a string."""
        waiting, tries = deque(submissions), dict.fromkeys(submissions, 0)
        while True:
            for one in self._processes:
                while waiting and len(one.asked) < 1 + AHEAD:
                    one.asked.append(waiting.popleft())
                    one.ask("grade", one.asked[-1])
            busy = {one.connection: one for one in self._processes if one.asked}
            if not busy:
                return
            for connection in wait(busy):
                one = busy[connection]
                try:
                    found = one.answer()
                except EOFError:
                    lost = one.asked.popleft()
                    tries[lost] += 1
                    waiting.extendleft(reversed(one.asked))
                    status = self._replace(one)
                    if tries[lost] < TRIES:
                        waiting.append(lost)
                    else:
                        yield lost, f"The process that graded it ended each time ({status}). Please report this."
                else:
                    yield one.asked.popleft(), found

    def _replace(self, one: _Process) -> int | None:
        """Start another process in the place of one that has ended, whose exit code this is."""
        status = one.close()
        self._processes[self._processes.index(one)] = _Process(str(self._needs))
        return status


def _serve(connection: Connection, needs: str) -> None:
    """Be such a process until the other end of the pipe is closed."""
    end_with_parent()
    # An interrupt in the terminal is for the process that writes down what is done; it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    job = Job(*pickle.loads(Path(needs).read_bytes()))
    atexit.register(job.close)
    try:
        while True:
            name, argument = connection.recv()
            connection.send(_called(getattr(job, name), argument))
    except (EOFError, ConnectionError):
        return


def _called(method, argument: object) -> object:
    try:
        return method(argument)
    except EngineError as error:
        return str(error)
    except Exception as error:  # it costs this one submission, and is said there
        return f"{type(error).__name__}: {error}"
