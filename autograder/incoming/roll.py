"""The learners of a class, from a CSV: who they are, when their work is due, and whom a name or a number means."""

import csv
import datetime
import io
import re
import unicodedata
import zoneinfo
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder.folders import GradingError
from autograder.intake.decoding import decode

# Python's own bound is 128 KiB for a field. Moodle's worksheet has a column of what learners typed, of any length.
csv.field_size_limit(1 << 30)

#: The `id` of the row that says what holds for everybody.
ALL = "*"
#: The three kinds of columns about one assignment, each `kind:ASSIGNMENT`; `extension` alone is for every one.
ABOUT = ("due", "extension", "submitted")
#: Column -> what it is called in an own list; spaces and case do not matter.
NAMES = {"student_id": "id", "first": "first_name", "last": "last_name", "canvas_id": "lms_user_id"}
NAMES |= {"moodle_id": "lms_user_id", "name": "full_name"}
KNOWN = ("id", "first_name", "last_name", "full_name", "email", "lms_user_id", "extension")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(days?|d|hours?|h|minutes?|min)")
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d(?::\d\d)?)\s*(?P<zone>[+-]\d\d:?\d\d|[A-Za-z][\w/+-]*)?"
)
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


class NotMatched(Exception):
    """Why nobody, or nobody in particular, is meant."""


class NotAskedFor(NotMatched):
    """The unit is told, and is another than those that were asked for."""


@dataclass(frozen=True)
class Learner:
    """One learner. Times are in UTC without a zone, as nbgrader keeps them; the key "" of `extension` is for all."""

    id: str
    first_name: str = ""
    last_name: str = ""
    full_name: str = ""
    email: str = ""
    lms_user_id: str = ""
    due: dict[str, datetime.datetime] = field(default_factory=dict)
    extension: dict[str, datetime.timedelta] = field(default_factory=dict)
    submitted: dict[str, datetime.datetime] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """What a system may make of the name, in either order."""
        last, comma, first = self.full_name.partition(",")
        told = [(self.first_name, self.last_name), (self.last_name, self.first_name), (last, first)]
        told += [(first, last)] if comma else []
        return {squashed("".join(parts)) for parts in told} - {""}


def squashed(name: str) -> str:
    """A name without what systems change in it: case, accents, spaces and signs."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if letter.isalnum())


class Roll:
    """Whom an id, a name or a number of a learning management system means; nothing is guessed."""

    def __init__(self, learners: Iterable[Learner], everybody: Learner = Learner(ALL), source: str = ""):
        self.learners = {one.id: one for one in learners}
        self.everybody, self.source = everybody, source
        self._numbers, self._names, self._folded = defaultdict(set), defaultdict(set), defaultdict(set)
        self._emails = defaultdict(set)
        for one in self.learners.values():
            self._folded[one.id.casefold()].add(one.id)
            if one.lms_user_id:
                self._numbers[one.lms_user_id].add(one.id)
            if one.email:
                self._emails[one.email.casefold()].add(one.id)
            for name in one.names:
                self._names[name].add(one.id)

    def by_id(self, identity: str) -> Learner:
        """The learner of this id; where there is no list, whoever bears it. Raises NotMatched."""
        if not self.learners:
            return Learner(_usable(identity))
        if identity in self.learners:
            return self.learners[_usable(identity)]
        return self._one(self._folded[identity.casefold()], f"no learner {identity} is in {self.source}")

    def by_name(self, name: str, number: str = "", email: str = "", number_alone: bool = False) -> Learner:
        """The learner whom all of these mean, as far as the list knows them. Raises NotMatched.

        A number says something for itself only with `number_alone`: Moodle's are those of one assignment, and may be
        anybody's in another. Else it tells learners of one name apart, or contradicts the name.
        """
        told = f"“{name}”" + (f" (number {number})" if number else "")
        if not self.learners:
            raise NotMatched(f"{told} has no id: give a list of learners with --learners")
        named, numbered = self._names[squashed(name)], self._numbers[number] if number else set()
        posted = self._emails[email.casefold()] if email else set()
        sure = [one for one in (posted, numbered, named) if one] if posted or named or number_alone else []
        common = set.intersection(*sure) if sure else set()
        if sure and not common:
            who = ", ".join(sorted(set.union(*sure)))
            raise NotMatched(f"{told} is one learner by name and another by number: {who} in {self.source}")
        return self._one(common, f"nobody in {self.source} has the name or the number of {told}")

    def _one(self, found: set[str], nobody: str) -> Learner:
        if not found:
            raise NotMatched(f"{nobody}: add them there, or correct it")
        if len(found) > 1:
            raise NotMatched(f"{', '.join(sorted(found))} of {self.source} are all meant: give them LMS numbers there")
        return self.learners[_usable(next(iter(found)))]


def _usable(identity: str) -> str:
    """An id that can be the name of a folder, on any system."""
    if not identity or identity in (".", "..") or identity.startswith(".") or len(identity) > 128:
        raise NotMatched(f"{identity!r} is no learner's id: rename it")
    if re.search(r'[/\\:*?"<>|]', identity) or not identity.isprintable():
        raise NotMatched(f"{identity!r} has signs that no folder's name may have: rename it")
    return identity


def read_roll(path: Path, assignments: Iterable[str]) -> Roll:
    """The list in a CSV of ours, of nbgrader's, Canvas's gradebook or Moodle's grading worksheet.

    Raises GradingError with the line of what cannot be read. `assignments` are those that a column may be about.
    """
    if not path.is_file():
        raise GradingError(f"There is no list of learners {path}. Expected a CSV with a column `id`.")
    text, _ = decode(path.read_bytes(), path.name)
    head = text.split("\n", 1)[0]
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), strict=True)
    columns = [column.strip() for column in rows.fieldnames or ()]
    rows.fieldnames = columns
    read = _reader(path, columns, sorted(assignments))
    learners, everybody = {}, Learner(ALL)
    try:
        for row in rows:
            learner = read(row, f"{path}, line {rows.line_num}")
            if learner is None:
                continue
            if learner.id == ALL:
                everybody = learner
            elif learner.id in learners:
                raise GradingError(f"{path}, line {rows.line_num}: {learner.id} is there twice. Leave one of them.")
            else:
                learners[learner.id] = learner
    except csv.Error as error:
        raise GradingError(f"{path}, line {rows.line_num}: {error}. Expected a CSV; save it anew.") from error
    return Roll(learners.values(), everybody, path.name)


def _reader(path: Path, columns: list[str], assignments: list[str]):
    """What makes a learner, or None, of a row of a file with these columns."""
    if {"Student", "ID"} <= set(columns) and {"SIS Login ID", "SIS User ID"} & set(columns):
        return _from_canvas
    if {"Identifier", "Full name"} <= set(columns):
        return _from_moodle
    names = {column: NAMES.get(name := column.lower().replace(" ", "_"), name) for column in columns}
    if "id" not in names.values():
        raise GradingError(f"{path} has no column `id`, but {', '.join(columns) or 'nothing'}. Expected one; add it.")
    for column, name in names.items():
        kind, _, about = name.partition(":")
        wanted = column.partition(":")[2].strip()
        if about and kind in ABOUT:
            if wanted not in assignments:
                raise GradingError(f"{path}: {column} is about no assignment here ({', '.join(assignments)}).")
            names[column] = f"{kind}:{wanted}"
        elif name not in KNOWN:
            expected = ", ".join((*KNOWN, *(f"{kind}:ASSIGNMENT" for kind in ABOUT)))
            raise GradingError(f"{path}: the column {column} is not known. Expected {expected}; rename or remove it.")
    return lambda row, where: _own({names.get(key, key): value for key, value in row.items()}, where)


def _own(row: dict, where: str) -> Learner | None:
    given = {key: value.strip() for key, value in row.items() if isinstance(value, str) and key is not None}
    if not any(given.values()):
        return None
    if not given.get("id"):
        raise GradingError(f"{where}: there is no id. Expected one in each row, or * for everybody; add it.")
    plain = {key: given.get(key, "") for key in KNOWN if key != "extension"}
    if plain["id"] != ALL:
        try:
            _usable(plain["id"])
        except NotMatched as error:
            raise GradingError(f"{where}: {error}.") from error
    about = {kind: dict(_about(given, kind, where)) for kind in ABOUT}
    return Learner(**plain, **about)


def _about(row: dict[str, str], kind: str, where: str) -> Iterator[tuple[str, object]]:
    """Yields (assignment, value) of the columns of a kind that hold something."""
    for column, value in row.items():
        its, _, assignment = column.partition(":")
        if its == kind and value:
            yield assignment, span(value, where) if kind == "extension" else moment(value, where)


def span(text: str, where: str) -> datetime.timedelta:
    """How long `3 days`, `36 h` or `1 d 12 h` is. Raises GradingError."""
    parts = _SPAN.findall(text.lower())
    if not parts or _SPAN.sub("", text.lower()).strip(" ,+"):
        raise GradingError(f"{where}: {text!r} is no span of time. Expected one like `3 days`, `36 h` or `90 min`.")
    return sum((datetime.timedelta(**{_UNITS[unit[0]]: float(size)}) for size, unit in parts), datetime.timedelta())


def moment(text: str, where: str) -> datetime.datetime:
    """The time in UTC; without a zone it is UTC, as with nbgrader. Raises GradingError."""
    # Not nbgrader's reader, which takes no notice of a zone like +01:00 behind a space.
    found = _MOMENT.fullmatch(text)
    try:
        if found is None:
            raise ValueError("of another shape")
        zone = found["zone"] or "UTC"
        if zone[0] in "+-":
            told = datetime.datetime.fromisoformat(f"{found['day']}T{found['time']}{zone}")
        else:
            told = datetime.datetime.fromisoformat(f"{found['day']}T{found['time']}")
            told = told.replace(tzinfo=zoneinfo.ZoneInfo("UTC" if zone in ("Z", "GMT") else zone))
    except (ValueError, OverflowError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise GradingError(
            f"{where}: {text!r} is no time. Expected one like `2026-11-30 23:59 +01:00` or `2026-11-30 23:59 "
            "Europe/Berlin`, in UTC where no zone is said."
        ) from error
    return told.astimezone(datetime.UTC).replace(tzinfo=None)


def _from_canvas(row: dict, where: str) -> Learner | None:
    """A row of Canvas's gradebook; the rows below its head and the test student have no login."""
    identity = (row.get("SIS Login ID") or row.get("SIS User ID") or "").strip()
    if not identity or not (row.get("ID") or "").strip():
        return None
    last, _, first = (part.strip() for part in row["Student"].partition(","))
    return Learner(identity, first, last, row["Student"].strip(), lms_user_id=row["ID"].strip())


def _from_moodle(row: dict, where: str) -> Learner | None:
    """A row of Moodle's grading worksheet, whose numbers are those of one assignment."""
    email = (row.get("Email address") or "").strip()
    identity = (row.get("Username") or row.get("ID number") or email).strip()
    number = re.search(r"(\d+)$", (row.get("Identifier") or "").strip())
    if not identity or not number:
        raise GradingError(f"{where}: there is no username, ID number or email address. Export the worksheet with one.")
    return Learner(identity, full_name=row["Full name"].strip(), email=email, lms_user_id=number[1])


def times_of(
    roll: Roll, unit: str, known: datetime.datetime | None = None
) -> tuple[datetime.datetime | None, dict[str, datetime.timedelta]]:
    """When a unit is due for everybody, as the list says or else is `known`, and by how much later for whom."""
    due = roll.everybody.due.get(unit, known)
    everybody = roll.everybody.extension.get(unit, roll.everybody.extension.get(""))
    more: dict[str, datetime.timedelta] = {}
    for learner in roll.learners.values():
        own = learner.extension.get(unit, learner.extension.get("", everybody))
        if unit in learner.due:
            if due is None:
                raise GradingError(
                    f"{roll.source}: {learner.id} has an own due date of {unit}, and everybody has none. Add a row "
                    f"with the id {ALL} and the due date."
                )
            more[learner.id] = learner.due[unit] - due
        elif own is not None:
            more[learner.id] = own
    return due, more
