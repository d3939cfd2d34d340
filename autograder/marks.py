"""What people entered in the gradebook about a submission: marks and comments by hand, and what is taken off."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Select, select

from autograder.rows import ASSIGNMENT, CELL, COMMENT, GRADE, NOTEBOOK, SUBMISSION, SUBMITTED


@dataclass(frozen=True)
class Mark:
    """A cell's scores: the automatic one, a person's in its place, and a person's on top; None is none."""

    automatic: float | None
    manual: float | None
    extra: float | None


@dataclass(frozen=True)
class Marks:
    """One submission in the gradebook; cells are known by (notebook, grade_id), penalties by notebook."""

    cells: dict[tuple[str, str], Mark] = field(default_factory=dict)
    comments: dict[tuple[str, str], str] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)


NO_MARKS = Marks()


def marks(connection: Connection, assignment: str, student: str | None = None) -> Mapping[str, Marks]:
    """Student -> what the gradebook has of an assignment, of one student or of all; who is not in it is left out."""
    found: dict[str, Marks] = {}
    columns = (SUBMISSION.c.student_id, NOTEBOOK.c.name.label("notebook"))
    penalties = select(*columns, SUBMITTED.c.late_submission_penalty.label("penalty"))
    for row in connection.execute(_of(penalties, assignment, student)):
        its = found.setdefault(row.student_id, Marks())
        if row.penalty:
            its.penalties[row.notebook] = row.penalty
    columns += (CELL.c.name.label("cell"),)
    grades = select(*columns, GRADE.c.auto_score, GRADE.c.manual_score, GRADE.c.extra_credit)
    for row in connection.execute(_of(grades, assignment, student, GRADE)):
        mark = Mark(row.auto_score, row.manual_score, row.extra_credit)
        found[row.student_id].cells[row.notebook, row.cell] = mark
    comments = select(*columns, COMMENT.c.manual_comment).where(COMMENT.c.manual_comment.is_not(None))
    for row in connection.execute(_of(comments, assignment, student, COMMENT)):
        if row.manual_comment.strip():
            found[row.student_id].comments[row.notebook, row.cell] = row.manual_comment.strip()
    return found


def _of(query: Select, assignment: str, student: str | None, by_cell=None) -> Select:
    """The query over the submitted notebooks of an assignment, or over what the gradebook holds of their cells."""
    joined = SUBMITTED.join(SUBMISSION, SUBMITTED.c.assignment_id == SUBMISSION.c.id)
    joined = joined.join(ASSIGNMENT, SUBMISSION.c.assignment_id == ASSIGNMENT.c.id)
    joined = joined.join(NOTEBOOK, SUBMITTED.c.notebook_id == NOTEBOOK.c.id)
    if by_cell is not None:
        joined = joined.join(by_cell, by_cell.c.notebook_id == SUBMITTED.c.id)
        joined = joined.join(CELL, by_cell.c.cell_id == CELL.c.id)
    query = query.select_from(joined).where(ASSIGNMENT.c.name == assignment)
    return query if student is None else query.where(SUBMISSION.c.student_id == student)
