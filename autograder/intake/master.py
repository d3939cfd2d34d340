"""An assignment as its instructor has it: its notebooks as released, with the tests that learners do not see."""

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from nbformat.notebooknode import NotebookNode
from nbgrader import __version__ as nbgrader_version
from nbgrader.utils import find_all_files

from autograder import gradebook, private
from autograder.folders import Folders, GradingError
from autograder.generating import register

#: Changes when what is kept of a master does.
FORMAT = 1


@dataclass(frozen=True)
class MasterCell:
    """One cell of the release. `source` is what is graded, `released` what learners got: tests may hide lines."""

    id: str | None
    role: str
    type: str
    source: str
    released: str
    #: The cell's metadata in the release, with the gradebook's checksum.
    metadata: Mapping
    #: nbformat's own id of the cell.
    cell_id: str
    points: float | None = None

    @property
    def tags(self) -> frozenset[str]:
        """Tags as the instructor set them."""
        return frozenset(self.metadata.get("tags", ()))

    @property
    def is_graded(self) -> bool:
        """Whether the gradebook has a score of the cell."""
        return self.points is not None

    @property
    def is_restored(self) -> bool:
        """Whether the cell always reads as the master has it."""
        return self.role in ("setup", "test") or bool(self.metadata.get("nbgrader", {}).get("task"))

    @property
    def is_required(self) -> bool:
        """Whether the cell is put back where it is missing."""
        return self.id is not None or self.role == "setup"


@dataclass(frozen=True)
class MasterNotebook:
    """One notebook of the assignment, in the order of the release."""

    name: str
    cells: tuple[MasterCell, ...]
    metadata: Mapping

    @cached_property
    def by_id(self) -> dict[str, int]:
        """grade_id -> place among the cells."""
        return {cell.id: place for place, cell in enumerate(self.cells) if cell.id is not None}


@dataclass(frozen=True)
class Master:
    """Plain data about an assignment; `files` is what travels with its notebooks, by relative name."""

    assignment: str
    notebooks: Mapping[str, MasterNotebook]
    files: Mapping[str, bytes]
    #: Files that a learner's own version may replace (nbgrader's `exclude_overwriting`).
    replaceable: frozenset[str]
    #: Names that are never part of a submission (nbgrader's `CourseDirectory.ignore`).
    ignored: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Differs when anything does that a grade depends on."""
        files = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(self.files.items())}
        plain = [self.assignment, _plain(self.notebooks), files, sorted(self.replaceable), self.ignored]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @classmethod
    def of(cls, folders: Folders, assignment: str) -> "Master":
        """The assignment; generated into the gradebook first where that lacks it or holds older cells than source/.

        Raises GradingError, in words, when neither source/ nor the gradebook and release/ have it.
        """
        source = folders.step("source", ".", assignment)
        notebooks = _current(folders, assignment, source) if source.is_dir() else _as_released(folders, assignment)
        directory = source if source.is_dir() else folders.step("release", ".", assignment)
        replaceable = folders.config.get("Autograde", {}).get("exclude_overwriting", {}).get(assignment, ())
        ignored = gradebook.course_directory(folders).ignore
        return cls(assignment, notebooks, _files(directory, ignored), frozenset(replaceable), tuple(ignored))


def _current(folders: Folders, assignment: str, source: Path) -> dict[str, MasterNotebook]:
    """The notebooks as nbgrader makes them of source/; what an earlier run has kept holds while nothing has changed."""
    made_of = _made_of(folders, source)
    kept = folders.results_folder / ".masters" / f"{assignment}.json"
    known = gradebook.source_cells(folders, assignment)
    if kept.is_file():
        content = json.loads(kept.read_text(encoding="utf-8"))
        if content["made_of"] == made_of and content["cells"] == known:
            return _notebooks(content["notebooks"])
    with tempfile.TemporaryDirectory() as place:
        register(folders, assignment, Path(place))
        released = {path.stem: gradebook.read_notebook(path) for path in sorted(Path(place).glob("*.ipynb"))}
    known = gradebook.source_cells(folders, assignment)
    notebooks = {name: _notebook(name, node, known[name]) for name, node in released.items()}
    private.write(kept, json.dumps({"made_of": made_of, "cells": known, "notebooks": _plain(notebooks)}))
    return notebooks


def _made_of(folders: Folders, source: Path) -> str:
    """A digest of all that generating the assignment reads, by name and content."""
    digest = hashlib.sha256(f"{FORMAT} {platform.python_version()} {nbgrader_version}".encode())
    notebooks = [*source.glob("*.ipynb"), *source.glob("*.yml"), *source.parent.glob("*.ipynb")]
    for path in [folders.root / "nbgrader_config.py", *_shared(folders), *sorted(notebooks)]:
        content = path.read_bytes()
        digest.update(f"\n{os.path.relpath(path, folders.root)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _shared(folders: Folders) -> list[Path]:
    """What every assignment may be made with: header, footer, and the tests that `AUTOTEST` stands for."""
    around, tests = (folders.config.get(name, {}) for name in ("IncludeHeaderFooter", "InstantiateTests"))
    names = [around.get("header"), around.get("footer"), tests.get("autotest_filename", "autotests.yml")]
    # nbgrader reads them from the course's folder, which it works in.
    return [folders.root / name for name in names if isinstance(name, str) and (folders.root / name).is_file()]


def _as_released(folders: Folders, assignment: str) -> dict[str, MasterNotebook]:
    """The notebooks of a course whose source/ is elsewhere: release/ for the order, the gradebook for the cells."""
    known = gradebook.source_cells(folders, assignment)
    release = folders.step("release", ".", assignment)
    missing = [name for name in known if not (release / f"{name}.ipynb").is_file()]
    if not known or missing:
        raise GradingError(
            f"{assignment} cannot be graded: there is no {folders.step('source', '.', assignment)}, and "
            + (f"{release} lacks {', '.join(missing)}. " if missing else "the gradebook does not know it. ")
            + "Expected its source notebooks, or its release and gradebook; put one of them back."
        )
    released = {name: gradebook.read_notebook(release / f"{name}.ipynb") for name in known}
    return {name: _notebook(name, node, known[name]) for name, node in released.items()}


def _notebook(name: str, node: NotebookNode, known: dict[str, dict]) -> MasterNotebook:
    cells = []
    for number, cell in enumerate(node.cells):
        metadata = json.loads(json.dumps(cell.metadata))
        marks = metadata.get("nbgrader", {})
        grade_id = marks.get("grade_id")
        entry = known.get(grade_id) if _is_marked(marks) else None
        if entry is None:
            metadata.pop("nbgrader", None)
            grade_id = None
        else:
            marks["checksum"] = entry["checksum"]
        cells.append(
            MasterCell(
                id=grade_id,
                role=role(metadata),
                type=cell.cell_type,
                source=cell.source if entry is None else entry["source"],
                released=cell.source,
                metadata=metadata,
                cell_id=cell.get("id") or f"cell-{number}",
                points=None if entry is None else entry["points"],
            )
        )
    kept = ("kernelspec", "language_info")
    return MasterNotebook(name, tuple(cells), {key: dict(node.metadata[key]) for key in kept if key in node.metadata})


def _is_marked(marks: dict) -> bool:
    return any(marks.get(flag) for flag in ("grade", "solution", "locked", "task"))


def role(metadata: Mapping) -> str:
    """What a cell of the release is for, by its nbgrader flags and its tags."""
    marks, tags = metadata.get("nbgrader", {}), metadata.get("tags", ())
    if marks.get("task") or marks.get("grade") and marks.get("solution"):
        return "manual"
    if marks.get("grade"):
        return "test"
    if marks.get("solution"):
        return "answer"
    if marks.get("locked") or "setup" in tags:
        return "setup"
    return "demonstration" if "demonstration" in tags else "given"


def _files(directory: Path, ignored: list[str]) -> dict[str, bytes]:
    """What nbgrader copies beside a submission's notebooks."""
    found = sorted(find_all_files(str(directory), [*ignored, "*.ipynb"]))
    return {Path(path).relative_to(directory).as_posix(): Path(path).read_bytes() for path in found}


def _plain(notebooks: Mapping[str, MasterNotebook]) -> dict:
    return {name: asdict(notebook) for name, notebook in notebooks.items()}


def _notebooks(plain: dict) -> dict[str, MasterNotebook]:
    return {
        name: MasterNotebook(name, tuple(MasterCell(**cell) for cell in notebook["cells"]), notebook["metadata"])
        for name, notebook in plain.items()
    }
