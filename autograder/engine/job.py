"""One process of a grading run: takes submissions in, has them run and judged, and gives results as plain data."""

import datetime
import hashlib
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nbformat.notebooknode import NotebookNode

from autograder import sandbox
from autograder.engine.knowledge import Unit
from autograder.engine.limits import Limits
from autograder.engine.runner import NotebookRun, Scored
from autograder.engine.supervisor import Child, EngineError, Parent, make_parent
from autograder.intake import Master, Taken, take

VERSION = 1


@dataclass(frozen=True)
class Settings:
    """What a whole run has in common, as plain data that any process can be started with."""

    course: Path
    limits: Limits
    plan: sandbox.Plan
    versions: Mapping[str, str]
    #: Assignment -> its seed in hexadecimal.
    seeds: Mapping[str, str] = field(default_factory=dict)
    all_cells: bool = False


@dataclass(frozen=True)
class Submission:
    """A submission that waits to be graded; `stamp` names what its grade depends on."""

    assignment: str
    student: str
    folder: Path
    stamp: str


class Job:
    """A warm parent, and the units and masters that submissions have needed so far."""

    def __init__(self, settings: Settings, masters: Mapping[str, Master]):
        self._settings, self._masters = settings, masters
        self._parent = make_parent(settings.plan, settings.limits)
        self._units: dict[str, Unit | None] = {}

    def grade(self, submission: Submission) -> list[tuple[dict, NotebookNode | None, Mapping[str, bytes]]]:
        """For each notebook of the assignment its result, the notebook as it was run, and the files beside it.

        A parent that has ended is replaced once. Raises EngineError where the grader itself fails; that is no result.
        """
        try:
            return self._graded(submission)
        except EngineError:
            self._parent.close()
            self._parent = make_parent(self._settings.plan, self._settings.limits)
        return self._graded(submission)

    def _graded(self, submission: Submission) -> list[tuple[dict, NotebookNode | None, Mapping[str, bytes]]]:
        master = self._masters[submission.assignment]
        results = []
        for taken in take(submission.folder, master):
            start = time.monotonic()
            if taken.status == "readable":
                cells = self._run(submission, taken)
            else:
                graded = [cell for cell in master.notebooks[taken.notebook].cells if cell.is_graded]
                cells = {cell.id: _not_run(taken.status, cell.points) for cell in graded}
            results.append((self._result(submission, taken, start) | {"cells": cells}, taken.node, taken.files))
        return results

    def examine(self, secret: Path) -> sandbox.Report:
        """What the sandbox enforces here; `secret` is a file that no child may read."""
        return examine(self._parent, secret)

    def close(self) -> None:
        """End the parent."""
        self._parent.close()

    def _result(self, submission: Submission, taken: Taken, start: float) -> dict:
        settings = self._settings
        return {
            "version": VERSION,
            "student": submission.student,
            "assignment": submission.assignment,
            "notebook": taken.notebook,
            "status": {"readable": "graded"}.get(taken.status, taken.status),
            "repairs": list(taken.repairs),
            "flags": list(taken.flags),
            "message": taken.message,
            "seconds": round(time.monotonic() - start, 4),
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "stamp": submission.stamp,
            "seed": settings.seeds[submission.assignment],
            "versions": dict(settings.versions),
            "limits": asdict(settings.limits),
        }

    def _run(self, submission: Submission, taken: Taken) -> dict:
        run = NotebookRun(
            self._parent,
            taken.node,
            taken.files,
            self._unit(submission.assignment),
            _stream_seed(self._settings.seeds[submission.assignment]),
            self._settings.all_cells,
        )
        run.run()
        return {name: asdict(scored) for name, scored in run.cells.items()}

    def _unit(self, assignment: str) -> Unit | None:
        if assignment not in self._units:
            seed = self._settings.seeds[assignment]
            self._units[assignment] = Unit.of(assignment, self._settings.course / "course", seed)
        return self._units[assignment]


def _not_run(status: str, points: float) -> dict:
    """What a cell comes to whose notebook was not run: 0 if that was not handed in, nothing if it cannot be read."""
    absent = status == "skipped"
    return asdict(Scored(0.0 if absent else None, points, "missing" if absent else "not run"))


def _stream_seed(seed: str) -> int:
    """The seed of a child's random streams, which says nothing about the assignment's."""
    return int.from_bytes(hashlib.sha256(f"streams {seed}".encode()).digest()[:6])


def examine(parent: Parent, secret: Path) -> sandbox.Report:
    """What the sandbox enforces here, as seen from inside a real child that tries to get out."""
    if not parent.plan.layers:
        return sandbox.report({}, {}, parent.plan)
    with tempfile.TemporaryDirectory() as place, sandbox.probes.Targets(Path(place), secret) as targets:
        child = Child(parent, {}, probe=targets.plain)
        try:
            reply = child.open({"op": "probe"})
            attempts = reply["attempts"] | dict.fromkeys(targets.reached(), "allowed")
            return sandbox.report(reply["entered"], attempts, parent.plan)
        finally:
            child.close()
