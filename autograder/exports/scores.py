"""What every learner of a class has reached in an assignment, with marks by hand and what lateness took off."""

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from autograder.asked import Asked
from autograder.folders import Folders, GradingError
from autograder.graded_cells import UNGRADED
from autograder.marks import Mark, Marks, marks
from autograder.rows import ASSIGNMENT, STUDENT, SUBMISSION


@dataclass(frozen=True)
class Person:
    """A learner as the gradebook has them; what it does not know is empty."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""

    @property
    def name(self) -> str:
        """Last name, first name; what there is of it."""
        return ", ".join(filter(None, (self.last_name, self.first_name)))


@dataclass(frozen=True)
class Score:
    """One learner in one assignment.

    `status` is `graded`, `unreadable`, `not graded`, `to be marked` (a person has yet to mark something) or
    `not handed in`. `exercises` has a score by exercise, None where there is none yet; `misconceptions` says how many
    answers showed each.
    """

    assignment: str
    person: Person
    status: str
    points: float
    duedate: datetime.datetime | None = None
    timestamp: datetime.datetime | None = None
    penalty: float = 0.0
    exercises: Mapping[str, float | None] = field(default_factory=dict)
    misconceptions: Counter[str] = field(default_factory=Counter)

    @property
    def raw(self) -> float:
        """The score before the penalty; what has none yet counts nothing, as nbgrader has it."""
        return sum((score for score in self.exercises.values() if score is not None), 0.0)

    @property
    def final(self) -> float:
        """The score after the penalty."""
        return max(self.raw - self.penalty, 0.0)

    @property
    def is_complete(self) -> bool:
        """Whether the score is what the learner will have."""
        return self.status == "graded"


def people(
    folders: Folders, connection: Connection, assignments: Iterable[str], students: Iterable[str] | None = None
) -> list[Person]:
    """The class by id, or those asked for: who is in the gradebook, and who handed in and could not be graded.

    Raises GradingError for an id that is neither's.
    """
    columns = (STUDENT.c.id, STUDENT.c.first_name, STUDENT.c.last_name, STUDENT.c.email, STUDENT.c.lms_user_id)
    known = {student: Person(student) for _, student in folders.submissions(assignments)}
    known |= {row.id: Person(*(value or "" for value in row)) for row in connection.execute(select(*columns))}
    missing = sorted(set(students or ()) - set(known))
    if missing:
        raise GradingError(f"There is no learner {', '.join(missing)}. Expected ids as the gradebook has them.")
    return [known[one] for one in sorted(known if students is None else set(students))]


def scores(folders: Folders, connection: Connection, assignment: str, persons: Iterable[Person]) -> Iterator[Score]:
    """Yields the score of each person, in the same order."""
    asked, found = Asked.of(folders, assignment), marks(connection, assignment)
    if not asked.cells:
        raise GradingError(f"{assignment} has no graded cell in {folders.root}. Was it removed? Name another.")
    points = sum(cell.points for cell in asked.cells)
    times = {
        row.student_id: row.timestamp
        for row in connection.execute(
            select(SUBMISSION.c.student_id, SUBMISSION.c.timestamp)
            .join(ASSIGNMENT, SUBMISSION.c.assignment_id == ASSIGNMENT.c.id)
            .where(ASSIGNMENT.c.name == assignment)
        )
    }
    due = connection.execute(select(ASSIGNMENT.c.duedate).where(ASSIGNMENT.c.name == assignment)).scalar()
    for person in persons:
        if person.id not in times:
            # One that could not be graded at all is not in the gradebook, and was handed in all the same.
            status = folders.result(assignment, person.id).get("status", "not handed in")
            yield Score(
                assignment, person, status, points, due, exercises={cell.exercise: None for cell in asked.cells}
            )
            continue
        its, result = found.get(person.id, Marks()), folders.result(assignment, person.id)
        exercises = {cell.exercise: _counted(its.cells.get((cell.notebook, cell.id))) for cell in asked.cells}
        yield Score(
            assignment,
            person,
            _status(result, exercises),
            points,
            due,
            times[person.id],
            sum(its.penalties.values(), 0.0),
            exercises,
            Counter(name for cell in _cells(result) for name in dict.fromkeys(cell["misconceptions"])),
        )


def _counted(mark: Mark | None) -> float | None:
    if mark is None:
        return None
    own = mark.manual if mark.manual is not None else mark.automatic
    return mark.extra if own is None else own + (mark.extra or 0.0)


def _status(result: Mapping, exercises: Mapping[str, float | None]) -> str:
    if None not in exercises.values():
        return "graded"  # by whatever door it came, and whoever marked it
    return result["status"] if result.get("status") in UNGRADED else "to be marked"


def _cells(result: Mapping) -> Iterator[Mapping]:
    for notebook in result.get("notebooks", ()):
        yield from notebook["cells"].values()
