"""A CSV that Canvas or Moodle exported, with the scores filled in and everything else as it was."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from autograder.exports.scores import Person
from autograder.folders import GradingError
from autograder.incoming.roll import Learner, NotMatched, Roll
from autograder.intake.decoding import decode

#: Columns that say who a row is about: in Canvas's gradebook, and in Moodle's grading worksheet.
IDS = ("SIS Login ID", "SIS User ID", "Username", "ID number")
NUMBERS, NAMES, EMAILS = ("ID", "Identifier"), ("Student", "Full name"), ("Email address",)
GRADE, MAXIMUM = "Grade", "Maximum Grade"


class Filling:
    """The file filled in; `remarks` says which learners have no row, and which rows nobody could be found for."""

    def __init__(
        self,
        path: Path,
        persons: Iterable[Person],
        marks: Mapping[str, Mapping[str, str]],
        points: Mapping[str, float],
    ):
        if not path.is_file():
            raise GradingError(f"There is no file {path}. Expected one that Canvas or Moodle exported.")
        self._path, self._marks, self._points = path, marks, points
        known = [Learner(one.id, one.first_name, one.last_name, "", one.email, one.lms_user_id) for one in persons]
        self._roll = Roll(known, source="the gradebook")
        self.remarks: list[str] = []

    def content(self, names: Mapping[str, str]) -> str:
        """The file's text; `names` has the heading of each assignment. Raises GradingError where it has no column."""
        text, _ = decode(self._path.read_bytes(), self._path.name)
        delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
        try:
            head, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        except (csv.Error, ValueError) as error:
            raise GradingError(f"{self._path} is no CSV with a head: {error}. Export it anew.") from error
        told = [column.strip() for column in head]
        places = {one: self._column(told, one, name) for one, name in names.items()}
        found: set[str] = set()
        for row in rows:
            row += [""] * (len(head) - len(row))
            learner = self._learner(dict(zip(told, row)))
            if learner is None:
                continue
            found.add(learner.id)
            for assignment, place in places.items():
                score = self._marks[assignment].get(learner.id)
                if score is not None:
                    self._compare(told, row, assignment)
                    row[place] = score
        scored = {one for marks in self._marks.values() for one in marks}
        self.remarks += [f"{one} has a score and no row in {self._path.name}." for one in sorted(scored - found)]
        written = io.StringIO()
        csv.writer(written, delimiter=delimiter, lineterminator="\n").writerows([head, *rows])
        return written.getvalue()

    def _column(self, head: list[str], assignment: str, name: str) -> int:
        """The place of an assignment's column: Canvas adds its own number to the name."""
        if GRADE in head and "Identifier" in head:
            if len(self._marks) > 1:
                raise GradingError(f"{self._path.name} is the worksheet of one assignment. Name the one it is of.")
            return head.index(GRADE)
        own = [place for place, column in enumerate(head) if re.fullmatch(rf"{re.escape(name)}( \(\d+\))?", column)]
        if len(own) == 1:
            return own[0]
        raise GradingError(
            f"{self._path.name} has {len(own) or 'no'} columns for {assignment}, looked for as “{name}”. Expected one; "
            f"name it, as in --column {assignment}='{name} (4711)'."
        )

    def _compare(self, head: list[str], row: list[str], assignment: str) -> None:
        """Refuses a worksheet whose maximum is not the assignment's: a score would mean another share there."""
        if MAXIMUM not in head:
            return
        said = row[head.index(MAXIMUM)].strip().replace(",", ".")
        if said and number_in(said) != self._points[assignment]:
            raise GradingError(
                f"{self._path.name} gives at most {said}, and {assignment} has {self._points[assignment]:g} points. "
                "Set the assignment's maximum grade in Moodle to that and download the worksheet again."
            )

    def _learner(self, row: Mapping[str, str]) -> Learner | None:
        """Who a row is about; None for one about nobody, or about one who cannot be found, which is remarked."""
        name, email = (_first(row, columns) for columns in (NAMES, EMAILS))
        number = re.sub(r"^\D+", "", _first(row, NUMBERS))
        for column in IDS:
            if row.get(column, "").strip() in self._roll.learners:
                return self._roll.learners[row[column].strip()]
        if not number and not email:
            return None  # as Canvas's row of points
        try:
            return self._roll.by_name(name, number, email, number_alone="ID" in row)
        except NotMatched as error:
            self.remarks.append(f"{self._path.name}: {error}.")
            return None


def number_in(text: str) -> float:
    """The number that a text is; of any other, as of a scale of Moodle's, the one that equals none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _first(row: Mapping[str, str], columns: Iterable[str]) -> str:
    return next((row[column].strip() for column in columns if row.get(column, "").strip()), "")
