"""Whose a file is, as its name says: the conventions of nbgrader, Moodle and Canvas, and a flat folder."""

import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from autograder.incoming.roll import Learner, NotAskedFor, NotMatched, Roll
from autograder.intake.files import is_notebook
from autograder.timestamps import handed_in_at

#: `Ada Lovelace_123456_assignsubmission_file_/…`, in newer Moodles without the last sign, or the file in the same name
#: where folders were not asked for. The first number counts: what stands behind it may be of the learner's making.
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<kind>file|onlinetext)(?:_(?P<rest>.*))?", re.DOTALL
)
#: `lovelaceada_LATE_12345_67890_homework-1.ipynb`: the learner's number, and that of the attempt.
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_(?P<attempt>\d+)_(?P<file>.+)", re.DOTALL)
#: `ada+ps1+2026-11-30 10:24:00.000000 UTC`, with a random part behind it in newer exchanges.
_EXCHANGE = re.compile(r"(?P<id>.+?)\+(?P<unit>[^+]+)\+(?P<time>\d{4}-[^+]+)(?:\+[^+]*)?")
#: What Canvas adds to the name of a file that was handed in again, and browsers to one that was there already.
_AGAIN = re.compile(r"(?:-\d+| ?\(\d+\))$")


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a name says: the learner, the unit, the file's name within the submission, and which attempt it is of.

    Files of one `group` were handed in together. `time` is when, where that is said; of files of one name in a group
    that with the highest `attempt` is the newest.
    """

    learner: Learner
    unit: str
    file: str
    group: str
    time: datetime.datetime | None = None
    attempt: int = 0
    #: A system says that it is late, and not by how much.
    is_late: bool = False
    #: The system whose archive it is, which says nothing within a submission.
    system: str = ""
    #: It lies in an exchange, where nbgrader leaves each submission to the learner who made it.
    is_in_exchange: bool = False
    #: In how many folders of the source that lies by which the learner is known.
    depth: int = 0


@dataclasses.dataclass(frozen=True)
class Known:
    """What names are matched against: the learners, each unit's notebooks, and the units that were asked for."""

    roll: Roll
    notebooks: Mapping[str, Iterable[str]]
    wanted: tuple[str, ...] = ()
    #: nbgrader's `c.FileNameCollectorPlugin.named_regexp`, for what zip_collect has made.
    named: str = ""

    def unit_of(self, file: str) -> str:
        """The unit that a notebook's name means; the one that was asked for, whatever the name. Raises NotMatched."""
        if len(self.wanted) == 1:
            return self.wanted[0]
        stems = {stem(file), _AGAIN.sub("", stem(file))}
        units = [unit for unit, names in self.notebooks.items() if stems & set(names)]
        units = [unit for unit in units if unit in (self.wanted or units)]
        if len(units) == 1:
            return units[0]
        told = f"several units ({', '.join(units)})" if units else "no unit that was asked for"
        raise NotMatched(f"is named like a notebook of {told}: name one, as in `grade UNIT --from …`")

    def asked_for(self, unit: str) -> None:
        """Raises NotAskedFor where units were named and this is none of them."""
        if self.wanted and unit not in self.wanted:
            raise NotAskedFor(unit)


def stem(file: str) -> str:
    """A file's name without folders and endings."""
    name = PurePosixPath(file).name
    found = re.match(r"(.+?)\.ipynb(\.txt|\.json)?$", name, re.IGNORECASE | re.DOTALL)
    return found[1] if found else PurePosixPath(name).stem


def claim(name: str, known: Known) -> Claim | None:
    """What a file's name says, by the convention that its outermost part follows; None for one that follows none.

    What lies further in is of the learner's making, and says nothing of whose it is. Raises NotMatched where a name
    follows a convention, and learner or unit cannot be told.
    """
    parts = name.split("/")
    for place in range(len(parts)):
        for convention in (_moodle, _exchange, _nbgrader):
            found = convention(parts, place, known)
            if found is not None:
                return dataclasses.replace(found, depth=place)
    for convention in (_collected, _canvas, _flat):
        found = convention(name, known)
        if found is not None:
            return dataclasses.replace(found, depth=len(parts) - 1)
    return None


def _moodle(parts: list[str], place: int, known: Known) -> Claim | None:
    match = _MOODLE.fullmatch(parts[place])
    if match is None:
        return None
    inside = "/".join(filter(None, (match["rest"], *parts[place + 1 :])))
    if match["kind"] == "onlinetext":
        raise NotMatched("is a text typed into Moodle and no notebook: ask for the file")
    if not inside:
        raise NotMatched("is a file where a folder is expected: download the archive again")
    is_anonymous = match["name"] == "Participant"  # so that the worksheet's numbers are all there is
    learner = known.roll.by_name(match["name"], match["number"], number_alone=is_anonymous)
    group = "/".join([*parts[:place], f"{match['name']}_{match['number']}"])
    return Claim(learner, _unit_or_none(inside, known), inside, group, system="Moodle")


def _canvas(name: str, known: Known) -> Claim | None:
    match = _CANVAS.fullmatch(name.rpartition("/")[2])
    if match is None:
        return None
    learner = known.roll.by_name(match["name"], match["number"], number_alone=True)
    file = match["file"]
    first = _AGAIN.sub("", stem(file))
    if is_notebook(file) and any(first in names for names in known.notebooks.values()):
        file = f"{first}.ipynb"  # Canvas adds -1 to what is handed in again
    group = f"{match['name']}_{match['number']}"
    is_late = bool(match["late"])
    return Claim(learner, _unit_or_none(file, known), file, group, None, int(match["attempt"]), is_late, "Canvas")


def _exchange(parts: list[str], place: int, known: Known) -> Claim | None:
    match = _EXCHANGE.fullmatch(parts[place])
    time = handed_in_at(match["time"].encode()) if match and parts[place + 1 :] else None
    if time is None:
        return None
    if match["unit"] not in known.notebooks:
        raise NotMatched(f"is of {match['unit']}, which is no unit here: build or rename it")
    known.asked_for(match["unit"])
    learner = known.roll.by_id(match["id"])
    return Claim(learner, match["unit"], "/".join(parts[place + 1 :]), parts[place], time, is_in_exchange=True)


def _nbgrader(parts: list[str], place: int, known: Known) -> Claim | None:
    """LEARNER/UNIT/file, in whatever folders."""
    if len(parts) < place + 3 or parts[place + 1] not in known.notebooks:
        return None
    learner, unit = parts[place : place + 2]
    known.asked_for(unit)
    group = "/".join(parts[: place + 2])
    return Claim(known.roll.by_id(learner), unit, "/".join(parts[place + 2 :]), group)


def _collected(name: str, known: Known) -> Claim | None:
    """A name as nbgrader's zip_collect reads it, by the course's own regular expression."""
    if not known.named or not is_notebook(name):
        return None
    match = re.match(known.named, name) or re.match(known.named, name.rpartition("/")[2])
    if match is None:
        return None
    told = match.groupdict()
    learner = known.roll.by_id(told["student_id"])
    time = None
    if told.get("timestamp"):
        # zip_collect's own reading: digits in this order, with anything between them.
        numbers = [int(number) for number in re.findall(r"\d+", told["timestamp"])]
        try:
            time = datetime.datetime(*numbers[:7])
        except (ValueError, TypeError) as error:
            raise NotMatched(f"says {told['timestamp']!r}, which is no time: correct named_regexp") from error
    file = f"{stem(told['file_id'] + '.ipynb')}.ipynb"
    return Claim(learner, known.unit_of(file), file, name, time)


def _flat(name: str, known: Known) -> Claim | None:
    """LEARNER_UNIT.ipynb, or LEARNER.ipynb where one unit was asked for, in one folder."""
    if "/" in name or not is_notebook(name):
        return None
    told = _AGAIN.sub("", stem(name))
    readings: list[tuple[Learner, str]] = []
    failures: list[NotMatched] = []
    for unit in known.notebooks:
        if told.endswith(f"_{unit}"):
            try:
                readings.append((known.roll.by_id(told.removesuffix(f"_{unit}")), unit))
            except NotMatched as error:
                failures.append(error)
    if not readings and not failures and len(known.wanted) == 1:
        if told in known.notebooks[known.wanted[0]]:
            raise NotMatched("is named like the unit and says no learner: rename it LEARNER.ipynb")
        readings.append((known.roll.by_id(told), known.wanted[0]))
    if len(readings) > 1:
        meant = " or ".join(f"{learner.id} and {unit}" for learner, unit in readings)
        raise NotMatched(f"may mean {meant}: put it into LEARNER/UNIT/")
    if failures and not readings:
        raise failures[0]
    if not readings:
        raise NotMatched("ends in no unit's name: rename it LEARNER_UNIT.ipynb, or name one unit")
    learner, unit = readings[0]
    known.asked_for(unit)
    notebooks = list(known.notebooks[unit])
    return Claim(learner, unit, f"{notebooks[0]}.ipynb" if len(notebooks) == 1 else name, name)


def _unit_or_none(file: str, known: Known) -> str:
    """The unit of a file; empty for one that is no notebook, which goes where its notebook goes."""
    return known.unit_of(file) if is_notebook(file) else ""
