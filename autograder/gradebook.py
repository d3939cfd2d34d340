"""nbgrader's gradebook: what it knows of an assignment, and the one writer of what grading found."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import capture_log
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
        entered is kept. Raises GradingError, and has written nothing then, where gradebook or disk refuse.
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
            raise GradingError(
                f"The grades of {student} could not be written: {error.strerror} ({error.filename}). Nothing of them "
                "was. Make room and run the same command again, which goes on where it stopped."
            ) from error
        except BaseException:
            folder.undo()
            raise
        folder.finish()

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


class _GenerateInto(GenerateAssignment):
    """nbgrader's generate_assignment with another place for what learners get, and without files beside it."""

    place = ""

    def _format_dest(self, assignment_id: str, student_id: str, escape: bool = False) -> str:
        return self.place


def register(folders: Folders, unit: str, place: Path | None = None) -> None:
    """Give the gradebook the unit's present cells and points, as `generate_assignment` does.

    The notebooks that learners would get are written into the folder `place`; release/ is left alone.
    """
    _forget_other_cells(folders, unit)
    directory = course_directory(folders)
    directory.assignment_id = unit
    directory.ignore = ["*"]
    with nbgrader_context(), tempfile.TemporaryDirectory() as nowhere:
        generate = _GenerateInto(coursedir=directory, config=folders.config)
        generate.place = str(place or nowhere)
        generate.force = generate.create_assignment = True
        result = capture_log(generate)
    if not result["success"]:
        raise GradingError(f"{unit} could not be entered into the gradebook: {last_words(result)}")


def withdraw(folders: Folders, unit: str, student: str) -> None:
    """Take back what an earlier submission earned, since nbgrader keeps a score that a later run does not write."""
    with opened(folders) as gradebook:
        try:
            submission = gradebook.find_submission(unit, student)
        except MissingEntry:
            return
        for notebook in submission.notebooks:
            for grade in notebook.grades:
                grade.auto_score = None
                grade.needs_manual_grade = True
        gradebook.db.commit()


def last_words(result: dict) -> str:
    """The line that says what went wrong in the log that nbgrader captured."""
    lines = [line.strip() for line in (result.get("log", "") + result.get("error", "")).splitlines() if line.strip()]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "Timeout"))]
    return (errors or lines[-1:] or ["nbgrader gave no reason"])[0]


def _forget_other_cells(folders: Folders, unit: str) -> None:
    """Drop submissions of other cells than the unit has now: nbgrader refuses the unit while it holds any.

    They are graded again anyhow, so nothing is lost, unless somebody marked them by hand; then GradingError says so.
    """
    masters = sorted(folders.step("source", ".", unit).glob("*.ipynb"))
    cells = {path.stem: _grade_ids(path) for path in masters}
    with opened(folders) as gradebook:
        try:
            notebooks = gradebook.find_assignment(unit).notebooks
        except MissingEntry:
            return
        known = {notebook.name: {cell.name for cell in notebook.source_cells} for notebook in notebooks}
        if known == cells:
            return
        submissions = gradebook.assignment_submissions(unit)
        marked = sorted({submission.student.id for submission in submissions if _marked_by_hand(submission)})
        if marked:
            raise GradingError(
                f"{unit} has other cells than when {', '.join(marked)} got marks or comments by hand, which grading "
                f"anew would lose. Export them, move {folders.db_url} aside and grade again."
            )
        for submission in submissions:
            gradebook.remove_submission(unit, submission.student.id)


def _grade_ids(path: Path) -> set[str]:
    """The grade_ids that nbgrader takes a notebook to have."""
    marks = [cell.metadata.get("nbgrader", {}) for cell in read_notebook(path).cells]
    flags = ("grade", "solution", "locked", "task")
    return {mark["grade_id"] for mark in marks if any(mark.get(flag) for flag in flags)}


def _marked_by_hand(submission) -> bool:
    return any(
        any(grade.manual_score is not None for grade in notebook.grades)
        or any(comment.manual_comment for comment in notebook.comments)
        for notebook in submission.notebooks
    )
