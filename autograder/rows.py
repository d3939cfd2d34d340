"""The gradebook's rows of one submission, as nbgrader 0.9.6 would have written them, in plain SQL."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from sqlalchemy import Connection, bindparam, insert, select, update

ASSIGNMENT, NOTEBOOK, CELL = Assignment.__table__, Notebook.__table__, BaseCell.__table__
STUDENT, SUBMISSION, SUBMITTED = Student.__table__, SubmittedAssignment.__table__, SubmittedNotebook.__table__
GRADE, COMMENT = Grade.__table__, Comment.__table__


@dataclass
class Book:
    """A notebook of the assignment in the gradebook: the ids of what is scored and of what is commented on, by name."""

    id: str
    scored: dict[str, str] = field(default_factory=dict)
    commented: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entered:
    """An assignment in the gradebook."""

    id: str
    duedate: datetime.datetime | None
    books: Mapping[str, Book]


def entered(connection: Connection, assignment: str) -> Entered | None:
    """The assignment, or None if the gradebook does not know it."""
    wanted = select(ASSIGNMENT.c.id, ASSIGNMENT.c.duedate).where(ASSIGNMENT.c.name == assignment)
    row = connection.execute(wanted).first()
    if row is None:
        return None
    notebooks = select(NOTEBOOK.c.id, NOTEBOOK.c.name).where(NOTEBOOK.c.assignment_id == row.id)
    found = connection.execute(notebooks).all()
    books = {one.id: Book(one.id) for one in found}
    cells = select(CELL.c.id, CELL.c.name, CELL.c.type, CELL.c.notebook_id).where(CELL.c.notebook_id.in_(list(books)))
    for cell in connection.execute(cells):
        book = books[cell.notebook_id]
        if cell.type in ("GradeCell", "TaskCell"):
            book.scored[cell.name] = cell.id
        if cell.type in ("SolutionCell", "TaskCell"):
            book.commented[cell.name] = cell.id
    return Entered(row.id, row.duedate, {one.name: books[one.id] for one in found})


def hand_in(
    connection: Connection, assignment: Entered, student: str, timestamp: datetime.datetime | None
) -> tuple[dict[str, str], float]:
    """The ids of the submitted notebooks by name, and how many seconds late they are; rows that lack are made.

    As nbgrader does, a submission without a timestamp keeps the one that the gradebook has.
    """
    if connection.execute(select(STUDENT.c.id).where(STUDENT.c.id == student)).first() is None:
        connection.execute(insert(STUDENT).values(id=student))
    its = (SUBMISSION.c.assignment_id == assignment.id) & (SUBMISSION.c.student_id == student)
    columns = (SUBMISSION.c.id, SUBMISSION.c.timestamp, SUBMISSION.c.extension)
    row = connection.execute(select(*columns).where(its)).first()
    if row is None:
        identity, extension = new_uuid(), None
        values = {"id": identity, "assignment_id": assignment.id, "student_id": student, "timestamp": timestamp}
        connection.execute(insert(SUBMISSION).values(values))
    else:
        identity, extension = row.id, row.extension
        timestamp = timestamp or row.timestamp
        if timestamp != row.timestamp:
            connection.execute(update(SUBMISSION).where(its).values(timestamp=timestamp))
    return _submitted(connection, assignment, identity), _late(timestamp, assignment.duedate, extension)


def _late(timestamp, duedate, extension) -> float:
    if timestamp is None or duedate is None:
        return 0.0
    return max(0.0, (timestamp - duedate - (extension or datetime.timedelta())).total_seconds())


def _submitted(connection: Connection, assignment: Entered, submission: str) -> dict[str, str]:
    known = select(SUBMITTED.c.notebook_id, SUBMITTED.c.id).where(SUBMITTED.c.assignment_id == submission)
    ids = {row.notebook_id: row.id for row in connection.execute(known)}
    missing = [
        {"id": new_uuid(), "assignment_id": submission, "notebook_id": book.id, "flagged": False}
        for book in assignment.books.values()
        if book.id not in ids
    ]
    if missing:
        connection.execute(insert(SUBMITTED), missing)
        ids |= {row["notebook_id"]: row["id"] for row in missing}
    return {name: ids[book.id] for name, book in assignment.books.items()}


def score(
    connection: Connection,
    book: Book,
    submitted: str,
    scores: Mapping[str, float | None],
    no_response: set[str],
    penalty: Callable[[float], float | None],
) -> None:
    """Set a notebook's automatic scores and comments and its penalty; what people entered stays.

    `scores` has every scored cell by name, None where a person must mark; `no_response` are the answers left untouched.
    """
    graded = _grades(connection, book, submitted, scores)
    _comments(connection, book, submitted, no_response)
    set_penalty(connection, submitted, penalty(sum(_counted(*grade) for grade in graded)))


def set_penalty(connection: Connection, submitted: str, penalty: float | None) -> None:
    """Set what is taken off a submitted notebook's score."""
    connection.execute(update(SUBMITTED).where(SUBMITTED.c.id == submitted).values(late_submission_penalty=penalty))


@dataclass(frozen=True)
class Late:
    """A submitted notebook that came too late, or is no longer late, with its score and its penalty as they are now."""

    submitted: str
    student: str
    score: float
    seconds: float
    penalty: float | None


def late(connection: Connection, assignment: Entered) -> list[Late]:
    """The late notebooks that have a penalty, or a score to take one from, and those that an extension has excused.

    A penalty of a notebook whose time of handing in nobody knows is left alone.
    """
    submissions = connection.execute(
        select(
            SUBMISSION.c.student_id,
            SUBMISSION.c.timestamp,
            SUBMISSION.c.extension,
            SUBMITTED.c.id,
            SUBMITTED.c.late_submission_penalty,
        ).where(SUBMISSION.c.assignment_id == assignment.id, SUBMITTED.c.assignment_id == SUBMISSION.c.id)
    )
    found = []
    for one in submissions.all():
        seconds, penalty = _late(one.timestamp, assignment.duedate, one.extension), one.late_submission_penalty
        is_known = one.timestamp is not None and assignment.duedate is not None
        if seconds <= 0 and (penalty is None or not is_known):
            continue
        grades = select(GRADE.c.auto_score, GRADE.c.manual_score, GRADE.c.extra_credit)
        total = sum(_counted(*grade) for grade in connection.execute(grades.where(GRADE.c.notebook_id == one.id)))
        if total > 0 or penalty is not None:
            found.append(Late(one.id, one.student_id, total, seconds, penalty))
    return found


def _counted(automatic: float | None, manual: float | None, extra: float | None) -> float:
    """What a grade counts, as nbgrader adds it up: a person's score before the automatic one."""
    own = manual if manual is not None else automatic
    return 0.0 if own is None else own + (extra or 0.0)


def _grades(connection: Connection, book: Book, submitted: str, scores: Mapping[str, float | None]) -> list[tuple]:
    """Sets automatic scores; returns (automatic, manual, extra credit) of each cell."""
    columns = (GRADE.c.cell_id, GRADE.c.manual_score, GRADE.c.extra_credit)
    there = {row.cell_id: row for row in connection.execute(select(*columns).where(GRADE.c.notebook_id == submitted))}
    new, old, graded = [], [], []
    for name, cell in book.scored.items():
        automatic, row = scores[name], there.get(cell)
        manual, extra = (None, None) if row is None else (row.manual_score, row.extra_credit)
        # What somebody has marked, they should look at again: it was another run's.
        needed = manual is not None or automatic is None
        values = {"cell_id": cell, "notebook_id": submitted, "auto_score": automatic, "needs_manual_grade": needed}
        if row is None:
            new.append(values | {"id": new_uuid()})
        else:
            old.append({"the_cell": cell, "the_notebook": submitted, "auto": automatic, "needs": needed})
        graded.append((automatic, manual, extra))
    if new:
        connection.execute(insert(GRADE), new)
    if old:
        its = (GRADE.c.cell_id == bindparam("the_cell")) & (GRADE.c.notebook_id == bindparam("the_notebook"))
        changed = {"auto_score": bindparam("auto"), "needs_manual_grade": bindparam("needs")}
        connection.execute(update(GRADE).where(its).values(changed), old)
    return graded


def _comments(connection: Connection, book: Book, submitted: str, no_response: set[str]) -> None:
    there = set(connection.execute(select(COMMENT.c.cell_id).where(COMMENT.c.notebook_id == submitted)).scalars())
    said = {cell: "No response." if name in no_response else None for name, cell in book.commented.items()}
    new = [
        {"id": new_uuid(), "cell_id": cell, "notebook_id": submitted, "auto_comment": comment}
        for cell, comment in said.items()
        if cell not in there
    ]
    if new:
        connection.execute(insert(COMMENT), new)
    old = [{"the_cell": cell, "comment": comment} for cell, comment in said.items() if cell in there]
    if old:
        its = (COMMENT.c.cell_id == bindparam("the_cell")) & (COMMENT.c.notebook_id == submitted)
        connection.execute(update(COMMENT).where(its).values(auto_comment=bindparam("comment")), old)
