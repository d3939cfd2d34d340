"""nbgrader's gradebook: what it knows of an assignment, and the one writer of what grading found."""

import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import DBAPIError, NoSuchModuleError

from autograder import rows
from autograder.autograded import Autograded
from autograder.folders import Folders, GradingError
from autograder.nbgrader_context import nbgrader_context
from autograder.timestamps import FILE, handed_in_at


def course_directory(folders: Folders) -> CourseDirectory:
    """nbgrader's view of the course's folders and settings."""
    return CourseDirectory(config=folders.config)


def read_notebook(path: Path) -> NotebookNode:
    """An instructor's notebook in format 4; old ones lack cell ids, which nbformat would make up anew each time."""
    return nbformat.convert(nbformat.reader.reads(path.read_text(encoding="utf-8")), 4)


@contextmanager
def opened(folders: Folders):
    """nbgrader's gradebook of the course, made if there is none. Raises GradingError where it cannot be used."""
    folders.grading.mkdir(parents=True, exist_ok=True)
    directory = course_directory(folders)
    with nbgrader_context(), _in_words(folders), Gradebook(directory.db_url, directory.course_id) as gradebook:
        yield gradebook


@contextmanager
def _in_words(folders: Folders):
    """Turns what a database refuses into a GradingError; what was not committed is not in it."""
    try:
        yield
    except DBAPIError as error:
        cause = " ".join(str(error.orig).split()).rstrip(".")
        raise GradingError(
            f"The gradebook {_shown(folders)} cannot be used: {cause}. Nothing half-written is in "
            "it. Expected a database that can be read and written, and that no other program keeps locked; "
            "mend that and run the same command again, which goes on where it stopped."
        ) from error
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise GradingError(
            f"The gradebook {_shown(folders)} needs a driver that is not installed: {error}. Install the one that its "
            "address names, for postgresql+psycopg `pip install psycopg[binary]`."
        ) from error


def _shown(folders: Folders) -> str:
    """The gradebook's address without a password."""
    return make_url(folders.db_url).render_as_string(hide_password=True)


class NotWritten(GradingError):
    """Why one submission's grade could not be written, although the gradebook itself can be used."""


class Writer:
    """The one writer of a run: each submission's rows in one transaction, its autograded/ folder with it."""

    def __init__(self, folders: Folders):
        self._folders = folders
        with opened(folders):  # makes the gradebook, if there is none
            self._engine = create_engine(folders.db_url)
        self._file = _identity(self._engine.url)
        with _in_words(folders):
            self._connection = self._engine.connect()
        settings = {"coursedir": course_directory(folders), "config": folders.config}
        self._permissions = int(str(Autograde(**settings).permissions), 8)
        self._late = AssignLatePenalties(config=folders.config)
        self._late.init_plugin()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._engine.dispose()

    def apply(self, outcome: Sequence[tuple[dict, NotebookNode | None, Mapping[str, bytes]]]) -> None:
        """Write one submission: of each notebook its result, the notebook as it was run, and the files beside it.

        Automatic scores are set for every cell of the master, so that none of an earlier attempt stays; what people
        entered is kept. Raises GradingError, and has written nothing then, where the gradebook refuses, and NotWritten
        where a file or folder does.
        """
        first, _, files = outcome[0]
        student, assignment = first["student"], first["assignment"]
        graded = {result["notebook"]: node for result, node, _ in outcome if result["status"] == "graded"}
        folder = Autograded(self._folders.step("autograded", student, assignment), self._permissions)
        if _identity(self._engine.url) != self._file:
            raise GradingError(
                f"The gradebook {_shown(self._folders)} was removed or replaced while grading. Nothing was written "
                f"for {student}. Put it back, or run the same command again for a new one."
            )
        try:
            with _in_words(self._folders), self._connection.begin():
                folder.write(graded, files)
                self._rows(assignment, student, outcome, handed_in_at(files.get(FILE)))
                folder.install()
        except OSError as error:
            folder.undo()
            raise NotWritten(
                f"The grades of {student} could not be written: {error.strerror} ({error.filename}). Nothing of them "
                "was. Make room and run the same command again, which goes on where it stopped."
            ) from error
        except BaseException:
            folder.undo()
            raise
        folder.finish()

    def settle_penalties(self, assignment: str) -> list[str]:
        """The students whose penalty for lateness is another now: what is taken off follows the present score.

        nbgrader keeps a penalty as it was when the submission was graded, so that a point added by hand would stay.
        """
        changed = set()
        with _in_words(self._folders), self._connection.begin():
            known = rows.entered(self._connection, assignment)
            for late in rows.late(self._connection, known) if known else ():
                penalty = self._penalty(late.student, late.score, late.seconds) if late.seconds > 0 else None
                if penalty != late.penalty:
                    rows.set_penalty(self._connection, late.submitted, penalty)
                    changed.add(late.student)
        return sorted(changed)

    def _rows(self, assignment: str, student: str, outcome: Sequence, timestamp) -> None:
        known = rows.entered(self._connection, assignment)
        results = {result["notebook"]: (result, node) for result, node, _ in outcome}
        if known is None or set(known.books) != set(results):
            raise GradingError(
                f"The gradebook's {assignment} is another than the one that was graded. Nothing was written for "
                f"{student}. Run the same command again."
            )
        submitted, late = rows.hand_in(self._connection, known, student, timestamp)
        for name, book in known.books.items():
            result, node = results[name]
            scores = {cell: entry["score"] for cell, entry in result["cells"].items()}
            if set(scores) != set(book.scored):
                raise GradingError(
                    f"{name} has other cells in the gradebook than were graded. Nothing was written for {student}. "
                    "Run the same command again."
                )
            is_graded = result["status"] == "graded"
            rows.score(
                self._connection,
                book,
                submitted[name],
                scores,
                _unanswered(node) if is_graded else set(),
                lambda total, counts=is_graded: self._penalty(student, total, late) if counts and late > 0 else None,
            )

    def _penalty(self, student: str, score: float, late: float) -> float | None:
        """What the course's plugin takes off, within nbgrader's bounds."""
        penalty = self._late.plugin_inst.late_submission_penalty(student, score, late)
        return None if penalty is None else min(max(penalty, 0), score)


def _identity(url: URL) -> tuple[int, int] | None:
    """What tells SQLite's file from another of its name; None for a server, and for a file that is not there."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    try:
        status = os.stat(url.database)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _unanswered(node: NotebookNode) -> set[str]:
    """The answers that read as they were released; tasks have no answer of their own."""
    return {
        cell.metadata.nbgrader.grade_id
        for cell in node.cells
        if cell.metadata.get("nbgrader", {}).get("solution") and not cell.metadata["autogradlab"]["changed"]
    }


def source_cells(folders: Folders, assignment: str) -> dict[str, dict[str, dict]]:
    """Notebook -> grade_id -> source, cell_type, locked, checksum and points (None where nothing is scored)."""
    with opened(folders) as gradebook:
        try:
            notebooks = gradebook.find_assignment(assignment).notebooks
        except MissingEntry:
            return {}
        found = {}
        for notebook in notebooks:
            points = {cell.name: cell.max_score for cell in [*notebook.grade_cells, *notebook.task_cells]}
            found[notebook.name] = {
                cell.name: {
                    "source": cell.source,
                    "cell_type": cell.cell_type,
                    "locked": cell.locked,
                    "checksum": cell.checksum,
                    "points": points.get(cell.name),
                }
                for cell in notebook.source_cells
            }
        return found


def students_with_submission(folders: Folders, unit: str) -> set[str]:
    """Students whose submission of a unit the gradebook holds."""
    with opened(folders) as gradebook:
        return {submission.student.id for submission in gradebook.assignment_submissions(unit)}
