"""Static gates: what a unit must satisfy before anything of it is built or audited. Nothing here runs an exercise."""

from autograder.gates.attempts import attempts, catalogue
from autograder.gates.cells import cells
from autograder.gates.exercises import exercises
from autograder.gates.order import order
from autograder.gates.text import text
from autograder.lessons import COURSE, ContentError, Problem, read
from autograder.lessons import units as all_units

__all__ = ["ContentError", "Problem", "check"]

GATES = (text, cells, exercises, attempts, order)


def check(units=None, course=COURSE):
    """The problems of the named units (default: all) and of the catalogue, by file and line; [] if there are none."""
    problems, lessons = catalogue(course), {}
    for unit in sorted({*all_units(course), *(units or ())}):
        try:
            lessons[unit] = read(unit, course)
        except ContentError as error:
            problems += error.problems if not units or unit in units else []
    for unit in units or lessons:
        if unit in lessons:
            problems += _unit(lessons[unit])
    problems += _duplicates(lessons, units or lessons)
    return sorted(set(problems))


def _unit(lesson):
    problems = []
    for gate in GATES:
        try:
            problems += gate(lesson)
        except ContentError as error:  # a unit that this one requires cannot be read
            problems += error.problems
    return problems


def _duplicates(lessons, units):
    """Cells that bear a grade_id that another cell of the course bears: nbgrader and the gradebook know cells by it."""
    seen = {}
    for lesson in lessons.values():
        for cell in lesson.cells:
            name = cell.nbgrader.get("grade_id")
            if name in seen and (lesson.unit in units or seen[name].unit in units):
                way_out = "Choose another; it is the exercise's name in the whole course"
                message = f"grade_id {name!r} is used in {seen[name].unit} already"
                yield Problem(lesson.file, cell.line, message, way_out)
            if name:
                seen.setdefault(name, lesson)
