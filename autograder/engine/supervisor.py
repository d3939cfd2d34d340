"""The referee's side of parent and child: started, asked, watched, and killed when a limit is over."""

import contextlib
import json
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from autograder import sandbox
from autograder.engine import parent as parent_program
from autograder.engine.limits import Limits, words
from autograder.engine.spawning import Spawner
from autograder.engine.wire import Gone, Late, Malformed, RefereeSide
from autograder.sandbox import scratch
from autograder.sandbox.watch import Watch

#: Seconds that a parent may take to import everything, and a child to enter the sandbox.
WARM_UP_SECONDS = 120
ENTER_SECONDS = 20
#: SIGKILL, which Windows has no name for.
KILLED = 9


class EngineError(Exception):
    """The grader itself cannot go on: the submission is not graded, and that is no zero."""


class Stopped(Exception):
    """A child was stopped, or ended by itself: `reason` is one of `limits.WORDS`, `message` says it in words.

    `outputs` are the events that had come before; `killed` says that a SIGKILL came which was not ours: from the
    learner's own code, or from the system or somebody who is none of the learner's business.
    """

    def __init__(self, reason: str, message: str, outputs: list[dict] | None = None, killed: bool = False):
        super().__init__(message)
        self.reason, self.message, self.outputs, self.killed = reason, message, outputs or [], killed


class _Over(Exception):
    """A limit is over."""


@dataclass
class _Made:
    """A child that has been forked, or is being forked, for a notebook to come."""

    scratch: Path
    connection: socket.socket
    number: int


class Parent:
    """A warm parent process, and the plan by which its children shut themselves in.

    Requests are answered in their order, so that the next child is forked while the last one works.
    """

    def __init__(self, plan: sandbox.Plan, limits: Limits):
        self.plan, self.limits = plan, limits
        scratch.sweep()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cache = platformdirs.user_cache_path("tensors-and-autograd") / "matplotlib"
        cache.mkdir(parents=True, exist_ok=True)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the parent
        self._process = subprocess.Popen(
            parent_program.command(theirs.fileno()),
            env={**parent_program.ENVIRONMENT, "MPLCONFIGDIR": str(cache)},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd="/",
        )
        theirs.close()
        self._control = ours
        # The first answer says that the parent is ready.
        self._asked, self._heard, self._answers = 1, 0, {}
        # Numbers of answers that nobody waits for; with each, a folder that can go once the answer has come.
        self._unwanted: dict[int, Path] = {}
        self._spare: _Made | None = None
        #: What the sandbox said when the first child entered it; every other has to say the same.
        self.walls: dict[str, str] | None = None

    def child(self, probe: dict | None = None) -> tuple[int, socket.socket, Path]:
        """A new child: its process number, our end of its socket, and its scratch folder."""
        made = self._fork(probe) if probe else self._spare or self._fork()
        if not probe:
            self._spare = None
        pid = self._answer(made.number, WARM_UP_SECONDS)["pid"]
        if not probe:
            self._spare = self._fork()
        return pid, made.connection, made.scratch

    def reap(self, pid: int) -> int:
        """The exit code of a child, killed if need be; a signal's number with a minus."""
        return self._answer(self._ask({"op": "reap", "pid": pid}), ENTER_SECONDS)["status"]

    def dismiss(self, pid: int, folder: Path) -> None:
        """Have a child killed whose exit code nobody asks for, and then remove its scratch folder."""
        self._unwanted[self._ask({"op": "reap", "pid": pid})] = folder

    def close(self) -> None:
        """End the parent, and with it every child."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()
        if self._spare is not None:
            self._spare.connection.close()
            scratch.remove(self._spare.scratch)
        for folder in self._unwanted.values():
            scratch.remove(folder)

    def _fork(self, probe: dict | None = None) -> _Made:
        folder = scratch.make()
        ours, theirs = socket.socketpair()
        with theirs:
            request = {"op": "fork", "plan": self.plan.plain(), "scratch": str(folder), "probe": probe}
            return _Made(folder, ours, self._ask(request, theirs.fileno()))

    def _ask(self, request: dict, *descriptors: int) -> int:
        """Send a request; the number by which its answer is known."""
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        except OSError as error:
            raise self._dead() from error
        self._asked += 1
        return self._asked

    def _answer(self, number: int, seconds: float) -> dict:
        self._control.settimeout(seconds)
        while number not in self._answers:
            try:
                line = self._control.recv(parent_program.MAX_REQUEST)
            except TimeoutError as error:
                raise EngineError(f"The warm parent gave no answer for {seconds} s.") from error
            except OSError as error:
                raise self._dead() from error
            if not line:
                raise self._dead()
            self._heard += 1
            if self._heard in self._unwanted:
                scratch.remove(self._unwanted.pop(self._heard))
            else:
                self._answers[self._heard] = json.loads(line)
        return self._answers.pop(number)

    def _dead(self) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()[-3:]
        return EngineError(f"The warm parent ended ({self._process.poll()}): {' / '.join(said) or 'it said nothing'}")


def make_parent(plan: sandbox.Plan, limits: Limits) -> "Parent | Spawner":
    """What makes children on this machine: a warm parent that forks, or where no layer is to be had, new programs."""
    return Parent(plan, limits) if plan.layers else Spawner(plan, limits)


class Child:
    """One child, asked one thing at a time under the limits; after a Stopped it is gone."""

    def __init__(self, parent: Parent, files: Mapping[str, bytes], probe: dict | None = None):
        self._parent, self._limits = parent, parent.limits
        self._pid, connection, self.scratch = parent.child(probe)
        self._side, self._status, self._closed = RefereeSide(connection), None, False
        try:
            for name, content in files.items():
                path = self.scratch / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        except OSError:
            self.close()
            raise
        self._watch: Watch | None = None
        self._events: list[dict] = []
        self._printed = 0

    def open(self, request: dict) -> dict:
        """The reply to the first request, when the child is shut in; nothing of a learner's has run before."""
        try:
            reply = self._side.ask(request, ENTER_SECONDS, self._heard, lambda: None)
        except (Gone, Late, Malformed) as error:
            status = self._end()
            self.close()
            raise EngineError(f"A child could not be made ready ({_ending(status)}): {error}.") from error
        walls, first = reply["entered"], self._parent.walls
        if first is not None and walls != first:
            self.close()
            raise EngineError(f"A child is confined otherwise than the one that was tried: {walls}, not {first}.")
        self._parent.walls = walls
        if self._parent.plan.layers:
            self._watch = Watch(self._pid, self.scratch, self._limits)
        return reply

    def ask(self, request: dict, seconds: float, foreseen: bytes | None = None) -> tuple[dict | bytes, list[dict]]:
        """The reply, and the outputs that came before it. Raises Stopped; what had been put out is in its `outputs`.

        A reply that is `foreseen`, byte for byte, is returned as it is.
        """
        self._events, self._printed, killed = [], 0, False
        try:
            reply = self._side.ask(request, seconds, self._heard, self._look, foreseen)
            self._look()
            return reply, self._events
        except _Over as over:
            reason, message = over.args[0], _told(over.args[0], self._limits)
        except Late:
            reason, message = "timeout", _told("timeout", self._limits)
        except Malformed as error:
            reason, message = "died", f"The process was ended, because it broke the protocol: {error}."
        except Gone:
            reason, message = "died", f"The process ended by itself ({_ending(self._end())})."
            killed = self._end() == -KILLED
        self.close()
        raise Stopped(reason, message, self._events, killed)

    def close(self) -> None:
        """End the child and remove its scratch folder; once is enough."""
        if not self._closed:
            self._closed = True
            self._side.close()
            if self._status is None:
                self._parent.dismiss(self._pid, self.scratch)
            else:
                scratch.remove(self.scratch)

    def _heard(self, event: dict) -> None:
        size = sum(len(value) for value in event.values() if type(value) in (str, bytes))
        self._printed += size
        if self._printed > self._limits.output:
            raise _Over("output")
        self._events.append(event)

    def _look(self) -> None:
        over = self._watch.look() if self._watch else None
        if over is not None:
            raise _Over(over)

    def _end(self) -> int:
        """The child's exit code; it is killed if it has not ended."""
        if self._status is None:
            self._status = self._parent.reap(self._pid)
        return self._status


def _told(reason: str, limits: Limits) -> str:
    text = words(reason, limits)
    return f"{text[:1].upper()}{text[1:]}."


def _ending(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
