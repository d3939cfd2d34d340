"""What grading asks of nbgrader's gradebook before and after nbgrader itself writes the scores."""

import tempfile
from contextlib import contextmanager

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from autograder.folders import Folders, GradingError
from autograder.nbgrader_context import nbgrader_context


@contextmanager
def opened(folders: Folders):
    """nbgrader's gradebook of the course, made if there is none."""
    folders.grading.mkdir(parents=True, exist_ok=True)
    with nbgrader_context(), Gradebook(folders.db_url) as gradebook:
        yield gradebook


def students_with_submission(folders: Folders, unit: str) -> set[str]:
    """Students whose submission of a unit the gradebook holds."""
    with opened(folders) as gradebook:
        return {submission.student.id for submission in gradebook.assignment_submissions(unit)}


def register(folders: Folders, unit: str) -> None:
    """Give the gradebook the unit's present cells and points, as `generate_assignment` does; no file is written."""
    _forget_other_cells(folders, unit)
    with nbgrader_context(), tempfile.TemporaryDirectory() as nowhere:
        config = Config(folders.config)
        config.CourseDirectory.release_directory = nowhere
        result = NbGraderAPI(config=config).generate_assignment(unit)
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
    master = nbformat.read(folders.notebook("source", ".", unit), as_version=4)
    cells = {cell.metadata.nbgrader.grade_id for cell in master.cells if "nbgrader" in cell.metadata}
    with opened(folders) as gradebook:
        try:
            known = {cell.name for cell in gradebook.find_notebook(unit, unit).source_cells}
        except MissingEntry:
            return
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


def _marked_by_hand(submission) -> bool:
    return any(
        any(grade.manual_score is not None for grade in notebook.grades)
        or any(comment.manual_comment for comment in notebook.comments)
        for notebook in submission.notebooks
    )
