"""What grading found in a course's submissions, with what the gradebook has from people and verdicts left beside."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from autograder import gradebook
from autograder.asked import Asked
from autograder.folders import Folders, GradingError
from autograder.graded_cells import STOPPED, RanNotebook, rows_of_notebook, rows_without_grade
from autograder.marks import NO_MARKS, Marks, marks

if TYPE_CHECKING:
    import pandas as pd


class NothingGraded(GradingError):
    """No submission of an assignment has been graded yet."""


@dataclass(frozen=True)
class GradedSubmission:
    """What became of one submission.

    `notebooks` has of each notebook its status, message, repairs and flags; `rows` a row for each graded cell, as
    `records` describes them. `penalty` is taken off for lateness. `is_current` says that the gradebook's automatic
    scores are those of the rows.
    """

    student: str
    status: str
    reason: str
    notebooks: list[dict]
    rows: list[dict]
    penalty: float = 0.0
    is_current: bool = True

    def remarks(self) -> Iterator[dict]:
        """Yields what was out of the ordinary, for the instructor: student, kind, where and what."""
        for notebook in self.notebooks:
            for kind, sentences in (("repaired", notebook["repairs"]), ("flagged", notebook["flags"])):
                for sentence in sentences:
                    yield {"student": self.student, "kind": kind, "where": notebook["notebook"], "what": sentence}
        for row in self.rows:
            its = {"student": self.student, "where": row["exercise"]}
            if row["reason"] in STOPPED:
                yield its | {"kind": row["reason"], "what": row["limit"] or row["text"]}
            if row["note"]:
                yield its | {"kind": "second try", "what": row["note"]}


class Records:
    """The records of a course whose gradebook is open; each assignment is read once."""

    def __init__(self, folders: Folders, connection: Connection):
        self._folders, self._connection = folders, connection
        self._asked: dict[str, Asked] = {}

    def submission(
        self,
        assignment: str,
        student: str,
        result: dict | None = None,
        nodes: Mapping[str, Mapping] | None = None,
    ) -> GradedSubmission:
        """One submission; what was noted about it, and its notebooks as they were run, are read unless given."""
        found = marks(self._connection, assignment, student).get(student, NO_MARKS)
        result = self._folders.result(assignment, student) if result is None else result
        return self._submission(assignment, student, result, found, nodes or {})

    def submissions(self, assignment: str, students: Iterable[str] | None = None) -> list[GradedSubmission]:
        """Every submission with a result, or those of these students. Raises NothingGraded where there is none."""
        wanted = None if students is None else set(students)
        results = self._folders.results(assignment)
        graded = {one: result for one, result in results.items() if result and (wanted is None or one in wanted)}
        if not graded:
            raise NothingGraded(
                f"No submission of {assignment} has been graded. Try `python3 run.py grade {assignment}` first."
            )
        found = marks(self._connection, assignment)
        return [
            self._submission(assignment, student, result, found.get(student, NO_MARKS), {})
            for student, result in graded.items()
        ]

    def _submission(
        self, assignment: str, student: str, result: dict, found: Marks, nodes: Mapping[str, Mapping]
    ) -> GradedSubmission:
        if assignment not in self._asked:
            self._asked[assignment] = Asked.of(self._folders, assignment)
        asked, notebooks = self._asked[assignment], result["notebooks"]
        if not notebooks:
            rows = rows_without_grade(student, asked, result, found)
            return GradedSubmission(student, result["status"], result["reason"], [], rows)
        folder, rows = self._folders.step("autograded", student, assignment), []
        for notebook in notebooks:
            name = notebook["notebook"]
            ran = RanNotebook(nodes[name]["cells"]) if name in nodes else RanNotebook.read(folder / f"{name}.ipynb")
            rows += rows_of_notebook(student, asked, notebook, found, ran)
        kept = ("notebook", "status", "message", "repairs", "flags")
        return GradedSubmission(
            student,
            result["status"],
            result["reason"],
            [{key: notebook[key] for key in kept} for notebook in notebooks],
            rows,
            sum(found.penalties.values()),
            all(
                found.cells[row["notebook"], row["cell"]].automatic == row["automatic"]
                for row in rows
                if (row["notebook"], row["cell"]) in found.cells
            ),
        )


@contextmanager
def opened(folders: Folders) -> Iterator[Records]:
    """The records of a course, with its gradebook open for reading as long as the context is."""
    with gradebook.opened(folders) as book, book.engine.connect() as connection:
        # Every question is a transaction of its own, so that it sees what has been written since the last.
        yield Records(folders, connection.execution_options(isolation_level="AUTOCOMMIT"))


def records(unit: str, root: Path | None = None, students: Iterable[str] | None = None) -> "pd.DataFrame":
    """A row per student and graded cell, made of what grading noted.

    `exercise` is the cell's name, `status` one of `pages.STATUSES`, and `score` what counts: a person's mark before the
    automatic one, with extra credit, NaN where a person has yet to mark. `reason` is the record's, `text` says why it
    is not all of the points, `limit` which limit was hit unless the text does, and `note` that it was tried twice.
    `misconceptions` is a list of IDs, `record` what a verdict left, or None, `code` the learner's answer, and `error`
    what its cell raised by itself.
    """
    with opened(Folders(root)) as found:
        return frame_of(found.submissions(unit, students))


def frame_of(submissions: Iterable[GradedSubmission]) -> "pd.DataFrame":
    """The rows of all submissions. Raises NothingGraded where the assignment has no graded cell."""
    # Not at the top: the processes that grade write pages too, and do without it.
    import pandas as pd

    rows = [row for submission in submissions for row in submission.rows]
    if not rows:
        raise NothingGraded("There is nothing to tell: the assignment has no graded cell. Does its source/ have one?")
    return pd.DataFrame(rows)
