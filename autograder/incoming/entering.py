"""The list of learners in the gradebook: names, and when whose work is due."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from autograder import gradebook
from autograder.exports.scores import people
from autograder.folders import Folders
from autograder.incoming.placing import Taken, take_in
from autograder.incoming.roll import Learner, Roll, read_roll, times_of
from autograder.intake import Master


def come_in(
    folders: Folders,
    paths: Sequence[Path] = (),
    wanted: Iterable[str] = (),
    learners: Path | None = None,
    replace: bool = False,
) -> Taken:
    """What became of the files at these paths; who is in the list `learners` is in the gradebook then.

    Without a list, names are matched with the learners that the gradebook knows already.
    """
    units = folders.assignments()
    asked = list(wanted) or units
    # Of units that were not asked for, the names alone, so that what is theirs is told apart.
    notebooks = {unit: list(Master.of(folders, unit).notebooks) if unit in asked and paths else [] for unit in units}
    roll = read_roll(learners, units) if learners else _roll_of(folders)
    taken = take_in(folders, paths, notebooks, wanted, roll, replace) if paths else Taken()
    if learners:
        enter(folders, roll)
    return taken


def _roll_of(folders: Folders) -> Roll:
    """The learners whose names or numbers the gradebook has, if it has any."""
    with gradebook.opened(folders) as book, book.engine.connect() as connection:
        named = [one for one in people(folders, connection, ()) if one.name or one.lms_user_id]
    learners = [Learner(one.id, one.first_name, one.last_name, "", one.email, one.lms_user_id) for one in named]
    return Roll(learners, source="the gradebook")


def enter(folders: Folders, roll: Roll) -> None:
    """Put the list into the gradebook: what it says of a learner replaces what is there, what it leaves open stays."""
    submitted = set(folders.submissions())
    units = _units(roll, {unit for unit, _ in submitted})
    for unit in units:
        Master.of(folders, unit)  # so that the gradebook has the assignment
    with gradebook.opened(folders) as book:
        for learner in roll.learners.values():
            book.update_or_create_student(learner.id, **_told(learner))
        for unit in units:
            assignment = book.find_assignment(unit)
            due, extensions = times_of(roll, unit, assignment.duedate)
            assignment.duedate = due
            for student, extension in extensions.items():
                # Only for who handed in: in the gradebook a submission is what was handed in.
                if (unit, student) in submitted:
                    book.update_or_create_submission(unit, student, extension=extension)
        book.db.commit()


def _told(learner: Learner) -> dict[str, str]:
    """What the list says of a learner, as the gradebook's columns; of a whole name only a comma tells the parts."""
    last, comma, first = (part.strip() for part in learner.full_name.partition(","))
    parts = {"first_name": first, "last_name": last} if comma else {"last_name": learner.full_name}
    if learner.first_name or learner.last_name:
        parts = {"first_name": learner.first_name, "last_name": learner.last_name}
    told = parts | {"email": learner.email, "lms_user_id": learner.lms_user_id}
    return {column: value for column, value in told.items() if value}


def _units(roll: Roll, submitted: set[str]) -> list[str]:
    """The units that the list says times of; an extension of all concerns every unit that somebody handed in."""
    everybody = [roll.everybody, *roll.learners.values()]
    named = {unit for one in everybody for told in (one.due, one.extension) for unit in told}
    return sorted((named - {""}) | (submitted if "" in named else set()))
