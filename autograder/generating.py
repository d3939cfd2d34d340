"""An assignment entered into the gradebook as nbgrader's generate_assignment does it, with release/ left alone."""

import tempfile
from pathlib import Path

from nbgrader.api import MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.utils import capture_log

from autograder.folders import Folders, GradingError
from autograder.gradebook import course_directory, opened, read_notebook
from autograder.nbgrader_context import nbgrader_context


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
        raise GradingError(f"{unit} could not be entered into the gradebook: {_last_words(result)}")


def _last_words(result: dict) -> str:
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
