"""What travels between coordinator and graders, as bytes, and how it is checked when it arrives."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.engine.job import VERSION, Settings, Submission
from autograder.engine.limits import Limits
from autograder.engine.runner import Scored
from autograder.intake import Master
from autograder.intake.files import Folder, travelling
from autograder.sandbox import Report

#: What a score may be above the maximum, since it is rounded.
ROUNDING = 1e-6


class BadParcel(Exception):
    """What arrived is not what was asked for, in words."""


@dataclass(frozen=True)
class Run:
    """What a grader has to know for every submission of a run; `level` is what the sandbox has to come to there."""

    limits: Limits
    seeds: dict[str, str]
    all_cells: bool
    strong_sandbox: bool
    level: str
    masters: dict[str, Master]
    #: The authors' part of the course, by relative name: lessons, cases and attempts, which the referee runs.
    course: dict[str, bytes]

    @classmethod
    def of(cls, settings: Settings, masters: Mapping[str, Master], strong_sandbox: bool, level: str) -> "Run":
        """The run that these settings make of the course."""
        course = settings.course / "course"
        paths = [*course.glob("*.toml"), *(path for path in (course / "units").rglob("*") if path.is_file())]
        content = {
            path.relative_to(settings.course).as_posix(): path.read_bytes()
            for path in sorted(paths)
            if "__pycache__" not in path.parts
        }
        given = settings.limits, dict(settings.seeds), settings.all_cells, strong_sandbox, level, dict(masters)
        return cls(*given, content)


@dataclass(frozen=True)
class HandedIn:
    """One submission with all that it holds, as intake read it."""

    assignment: str
    student: str
    stamp: str
    #: Drawn for this sending, so that no other answer can be taken for the one to it.
    token: str
    #: What intake read, but for the refusals: the name of a refused file may be no text, and so travels as bytes.
    content: Folder
    refused: list[tuple[bytes, str]]

    @classmethod
    def read(cls, submission: Submission) -> "HandedIn":
        """The submission as it lies in the coordinator's folder; where it lies there tells no grader anything."""
        folder = Folder.read(submission.folder)
        refused = [(name.encode("utf-8", "surrogatepass"), reason) for name, reason in folder.refused.items()]
        its = submission.assignment, submission.student, submission.stamp, secrets.token_hex(16)
        return cls(*its, replace(folder, refused={}), refused)

    @property
    def folder(self) -> Folder:
        """The folder as intake read it."""
        refused = {name.decode("utf-8", "surrogatepass"): reason for name, reason in self.refused}
        return replace(self.content, refused=refused)

    def files_beside(self, master: Master) -> dict[str, bytes]:
        """What lies beside the notebooks while they run."""
        return travelling(replace(self.content, flags=[]), master)[0]

    @property
    def size(self) -> int:
        """Bytes of its files and notebooks."""
        return sum(len(data) for data in (*self.content.notebooks.values(), *self.content.files.values()))


def packed(content) -> bytes:
    """The bytes of a Run, of what is installed, or of a submission."""
    return msgspec.msgpack.encode(content)


def unpacked(data: bytes, kind: type):
    """What the bytes hold; raises BadParcel where that is not of this kind."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise BadParcel(f"a parcel is no {kind.__name__}: {error}") from error


# ------------------------------------------------------------------------------------------------ what graders answer


@dataclass(frozen=True)
class Place:
    """Where something was graded: the worker, its machine, and the level of the sandbox there."""

    worker: str
    host: str
    level: str


class Ready(msgspec.Struct, tag_field="kind", tag="ready", forbid_unknown_fields=True):
    """The grader can begin; this is what its sandbox enforces."""

    report: Report
    place: Place


class Refused(msgspec.Struct, tag_field="kind", tag="refused", forbid_unknown_fields=True):
    """The grader may not be used for this run."""

    reason: str


class Failed(msgspec.Struct, tag_field="kind", tag="failed", forbid_unknown_fields=True):
    """The grader itself failed with a submission, which is no result."""

    reason: str


class Lost(msgspec.Struct, tag_field="kind", tag="lost", forbid_unknown_fields=True):
    """The grader ended before it had answered."""

    reason: str


class Results(msgspec.Struct, tag_field="kind", tag="results", forbid_unknown_fields=True):
    """The results of a submission, one for each notebook of the assignment, with the notebook as it was run."""

    token: str
    results: list[dict[str, Any]]
    notebooks: list[dict[str, Any] | None]


class _Result(msgspec.Struct):
    """What a result has to be for records, pages and gradebook to be written from it."""

    version: Literal[VERSION]
    student: str
    assignment: str
    notebook: str
    status: Literal["graded", "unreadable", "skipped"]
    repairs: list[str]
    flags: list[str]
    message: str
    seconds: float
    started: str
    stamp: str
    seed: str
    versions: dict[str, str]
    limits: Limits
    cells: dict[str, Scored]
    graded_on: Place


class _Origin(msgspec.Struct):
    role: str
    changed: bool


class _Metadata(msgspec.Struct):
    autogradlab: _Origin


class _Cell(msgspec.Struct):
    metadata: _Metadata


class _Ran(msgspec.Struct):
    nbformat: Literal[4]
    nbformat_minor: int
    cells: list[_Cell]


Answer = Ready | Refused | Failed | Lost | Results


def answered(answer: Answer) -> bytes:
    """The bytes of an answer: JSON in ASCII, since a learner's text may hold halves of characters."""
    plain = {"kind": answer.__struct_config__.tag}
    plain |= {name: getattr(answer, name) for name in answer.__struct_fields__}
    return json.dumps(plain, default=asdict).encode("ascii")


def answer_in(data: bytes) -> Answer:
    """The answer that the bytes hold, as far as its own fields go; raises BadParcel."""
    try:
        if type(data) is not bytes:
            raise BadParcel(f"the answer is {type(data).__name__}, not bytes")
        return msgspec.convert(json.loads(data), Answer)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise BadParcel(f"the answer is none: {error}") from error


@dataclass(frozen=True)
class Sent:
    """What an answer has to be one to: a submission, the token of its sending, the worker, and the files beside it."""

    submission: Submission
    token: str
    worker: str
    files: Mapping[str, bytes]


def outcome(
    answer: Results, sent: Sent, master: Master, settings: Settings
) -> list[tuple[dict, NotebookNode | None, Mapping[str, bytes]]]:
    """What `Job.grade` gives for the submission; raises BadParcel where the answer is no answer to that.

    The files are the coordinator's own: no name and no content of a file is taken from a grader.
    """
    if answer.token != sent.token:
        raise BadParcel("it is the answer to something else")
    names = [result.get("notebook") for result in answer.results]
    if names != list(master.notebooks) or len(answer.notebooks) != len(names):
        raise BadParcel(f"it has results of {names}, not of {list(master.notebooks)}")
    found = []
    for result, node in zip(answer.results, answer.notebooks):
        result = _checked(result, sent, master, settings)
        if (node is not None) != (result["status"] == "graded"):
            raise BadParcel(
                f"{result['notebook']} is {result['status']} with{'out' if node is None else ''} a notebook"
            )
        found.append((result, None if node is None else _notebook(node, result["notebook"]), sent.files))
    return found


def _checked(plain: dict, sent: Sent, master: Master, settings: Settings) -> dict:
    """The result, with what a result has and nothing else."""
    submission = sent.submission
    try:
        result = msgspec.convert(plain, _Result)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise BadParcel(f"a result is none: {error}") from error
    asked = {
        "student": submission.student,
        "assignment": submission.assignment,
        "stamp": submission.stamp,
        "seed": settings.seeds[submission.assignment],
        "versions": dict(settings.versions),
        "limits": settings.limits,
    }
    for name, wanted in asked.items():
        if getattr(result, name) != wanted:
            raise BadParcel(f"its {name} is {getattr(result, name)!r}, not {wanted!r}")
    if result.graded_on.worker != sent.worker:
        raise BadParcel(f"it says that {result.graded_on.worker} graded it, not {sent.worker}")
    graded = {cell.id: cell.points for cell in master.notebooks[result.notebook].cells if cell.is_graded}
    if result.cells.keys() != graded.keys():
        raise BadParcel(f"it has scores of {sorted(result.cells)}, not of {sorted(graded)}")
    for name, scored in result.cells.items():
        score, highest = scored.score, graded[name]
        if scored.max != highest or score is not None and not (0 <= score <= highest + ROUNDING):
            raise BadParcel(f"{name} has {score} of {scored.max} points, and there are 0 to {highest:g}")
    if not (math.isfinite(result.seconds) and result.seconds >= 0):
        raise BadParcel(f"it took {result.seconds} s")
    return msgspec.to_builtins(result)


def _notebook(plain: dict, name: str) -> NotebookNode:
    """The notebook as it was run, with what gradebook and pages read in each of its cells."""
    try:
        msgspec.convert(plain, _Ran)
        node = nbformat.from_dict(plain)
        nbformat.validate(node)
    except (msgspec.ValidationError, nbformat.ValidationError, RecursionError) as error:
        raise BadParcel(f"{name} is no notebook: {str(error).splitlines()[0]}") from error
    return node


def results_of(outcomes: Sequence[tuple[dict, NotebookNode | None, Mapping]], place: Place, token: str) -> Results:
    """The answer that the results of `Job.grade` make to what came with this token, with where they come from."""
    return Results(
        token,
        [result | {"graded_on": asdict(place)} for result, _, _ in outcomes],
        [node for _, node, _ in outcomes],
    )


def unpack_course(run: Run, folder: Path) -> None:
    """Write the course's files into a folder that is the grader's own."""
    for name, data in run.course.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
