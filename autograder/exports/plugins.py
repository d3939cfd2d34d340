"""nbgrader's export plugins of this course: `nbgrader export --exporter=autograder.exports.CanvasExport` finds them."""

import csv
import io
import logging
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin
from sqlalchemy import Connection, make_url
from traitlets import Bool, Dict, Unicode

from autograder import private
from autograder.exports.filling import Filling
from autograder.exports.scores import Person, Score, people, scores
from autograder.folders import Folders, GradingError
from autograder.gradebook import opened
from autograder.pages import number
from autograder.penalties import settle
from autograder.spreadsheets import inert


class _Export(ExportPlugin):
    """What the exports have in common; `remarks` says who got no score, and why."""

    #: The file's name where no other is given.
    file = ""
    course = Unicode("", help="folder of the course, where the plugin was not made by nbgrader").tag(config=True)

    def __init__(self, **options):
        super().__init__(**options)
        self.remarks: list[str] = []

    def export(self, gradebook: Gradebook) -> None:
        """Write the file; penalties for lateness are settled first, so that they follow the final scores."""
        folders = Folders(Path(self.course or self.parent.coursedir.root))
        known = sorted(one.name for one in gradebook.assignments)
        # By default without those that the course has dropped, of which the gradebook may tell still.
        assignments = [str(one) for one in self.assignment] or [one for one in known if one in folders.assignments()]
        missing = [one for one in assignments if one not in known]
        if missing or not assignments:
            expected = f"one of {', '.join(known)}" if known else "an assignment in it"
            what = ", ".join(missing) or "an assignment of this course"
            raise GradingError(f"The gradebook does not know {what}. Expected {expected}; grade it first.")
        if gradebook.engine.url == make_url(folders.db_url):
            settle(folders, assignments)
        else:
            self.remarks.append("Late penalties are as they were: --db names another gradebook than the course's.")
        with gradebook.engine.connect() as connection:
            students = [str(one) for one in self.student] or None
            persons = people(folders, connection, assignments, students)
            content = self._content(folders, connection, assignments, persons)
        private.write(self.destination(folders), content)
        for remark in self.remarks:
            self.log.warning("%s", remark)

    def destination(self, folders: Folders) -> Path:
        """Where the file is written: what `--to` says, else its own place in the grading folder."""
        return Path(self.to) if self.to else folders.grading / "exports" / self.file

    def _content(self, folders: Folders, connection: Connection, assignments: list[str], persons: list[Person]) -> str:
        raise NotImplementedError


class CourseExport(_Export):
    """nbgrader's own CSV, a row per learner and assignment, with a column per exercise and per misconception."""

    file = "grades.csv"

    def _content(self, folders, connection, assignments, persons) -> str:
        found = [one for name in assignments for one in scores(folders, connection, name, persons)]
        exercises = list(dict.fromkeys(name for one in found for name in one.exercises))
        misconceptions = sorted({name for one in found for name in one.misconceptions})
        # The first eleven are nbgrader's, in its order, so that whatever reads its file reads this one.
        head = ["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score"]
        head += ["late_submission_penalty", "score", "max_score", "status", *exercises, *misconceptions]
        return _csv([head, *(self._row(one, exercises, misconceptions) for one in found)])

    def _row(self, one: Score, exercises: list[str], misconceptions: list[str]) -> list[object]:
        person = one.person
        who = (person.id, person.last_name, person.first_name, person.email)
        row = [one.assignment, one.duedate, one.timestamp, *map(inert, who)]
        row += [one.raw, one.penalty, one.final, one.points, one.status]
        row += [one.exercises.get(name) for name in exercises]
        return row + [one.misconceptions[name] if one.status != "not handed in" else None for name in misconceptions]


class _LmsExport(_Export):
    """A file for a learning management system: a row per learner, a column per assignment, a score where it is final.

    Who handed in nothing gets no score; whether that is a 0 is the instructor's to say, in the system itself.
    """

    fields = Dict(help="column -> what it holds of a learner: id, name, first_name, last_name, email, lms_user_id")
    columns = Dict(help="assignment -> the name of its column").tag(config=True)
    into = Unicode("", help="a file that the system exported, to be filled in instead of a new one").tag(config=True)
    partial = Bool(False, help="also scores of which a person has yet to mark a part").tag(config=True)

    def _content(self, folders, connection, assignments, persons) -> str:
        marks = {name: self._final(scores(folders, connection, name, persons)) for name in assignments}
        points = {name: self._points(folders, connection, name) for name in assignments}
        names = {name: self.columns.get(name, self.heading(folders, name)) for name in assignments}
        if self.into:
            filling = Filling(Path(self.into), persons, marks, points)
            content = filling.content(names)
            self.remarks += filling.remarks
            return content
        head = [*self.fields, *names.values()]
        rows = [
            [*(self._field(person, attribute) for attribute in self.fields.values())]
            + [marks[name].get(person.id) for name in assignments]
            for person in persons
        ]
        return _csv([head, *self.below(head, [points[name] for name in assignments]), *rows])

    def _field(self, person: Person, attribute: str) -> str:
        if attribute not in ("", "id", "name", "first_name", "last_name", "email", "lms_user_id"):
            expected = "id, name, first_name, last_name, email, lms_user_id or nothing"
            raise GradingError(f"c.{type(self).__name__}.fields asks for {attribute}. Expected {expected}.")
        value = getattr(person, attribute) if attribute else ""
        # By these the system finds the learner again.
        return value if attribute in ("id", "lms_user_id") else inert(value)

    def heading(self, folders: Folders, assignment: str) -> str:
        """The name of an assignment's column unless `columns` has another."""
        return folders.title(assignment)

    def below(self, head: list[str], points: list[float]) -> list[list]:
        """Rows between the head and the learners."""
        return []

    def _points(self, folders, connection, assignment: str) -> float:
        return next(scores(folders, connection, assignment, [Person("")])).points

    def _final(self, found) -> dict[str, str]:
        given = {}
        for one in found:
            if one.is_complete or self.partial and one.status == "to be marked":
                given[one.person.id] = number(one.final)
            elif one.status != "not handed in":
                self.remarks.append(f"{one.person.id}, {one.assignment}: no score is written, {_why(one)}.")
        return given


def _why(one: Score) -> str:
    if one.status == "to be marked":
        waiting = [name for name, score in one.exercises.items() if score is None]
        return f"a person has yet to mark {', '.join(waiting)}"
    return f"the submission is {one.status}"


class CanvasExport(_LmsExport):
    """A file for Canvas: Gradebook, Import. A column named as there, `Homework 1 (4711)`, goes to that assignment."""

    file = "canvas.csv"
    fields = Dict(
        {"Student": "name", "ID": "lms_user_id", "SIS User ID": "", "SIS Login ID": "id", "Section": ""},
        help=_LmsExport.fields.help,
    ).tag(config=True)

    def below(self, head: list[str], points: list[float]) -> list[list]:
        """Canvas takes the points that can be had from a row of this name."""
        return [["    Points Possible", *[""] * (len(head) - len(points) - 1), *map(number, points)]]


class MoodleExport(_LmsExport):
    """A file for Moodle: Grades, Import, CSV file; or with `into` the grading worksheet of one assignment."""

    file = "moodle.csv"
    fields = Dict(
        {"Username": "id", "First name": "first_name", "Last name": "last_name", "Email address": "email"},
        help=_LmsExport.fields.help,
    ).tag(config=True)


def exported(plugin: type[_Export], folders: Folders, **traits) -> tuple[Path, list[str]]:
    """The file that an export has written, and its remarks, without nbgrader's command line."""
    made = plugin(config=folders.config, course=str(folders.root), log=logging.getLogger(__name__))
    for name, value in traits.items():
        setattr(made, name, value)
    made.log.setLevel(logging.ERROR)  # its remarks are returned
    with opened(folders) as gradebook:
        made.export(gradebook)
    return made.destination(folders), made.remarks


def _csv(rows: list[list]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
