"""Templates for a new unit or exercise, and wrong programs that the machine proposes for an exercise."""

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

from autogradlab.diagnosis import Candidate, judge
from autogradlab.exercises import define, load_cases
from autogradlab.observation import observe
from autogradlab.recorded import SEED

from autograder.gates.attempts import read_catalogue
from autograder.gates.text import ruff_formatted
from autograder.lessons import (
    COURSE,
    ContentError,
    Problem,
    attempts,
    namespace,
    read,
    references,
    units,
)
from autograder.mutants import Mutant, mutants

TEMPLATES = Path(__file__).parent / "templates" / "new"
# A mutant that never ends costs this many steps.
STEP_LIMIT = 200_000
PROPOSALS = 10


def new(what, from_mutants=False, course=COURSE):
    """Writes a template for `UNIT` or `UNIT/EXERCISE`, or proposals for the exercise's attempts; returns the files.

    Raises ContentError where the name cannot be used. Says on standard error what to do next.
    """
    unit, _, exercise = what.partition("/")
    if from_mutants:
        return _propose(unit, exercise, course)
    if exercise:
        _usable(unit, exercise, course)
    written = [] if exercise and unit in units(course) else _new_unit(unit, course)
    if exercise:
        written += [file for file in _new_exercise(unit, exercise, course) if file not in written]
    for file in written:
        _say(f"wrote {file}")
    _say("Each TODO says what is missing; `audit` names those that are left. docs/authoring.md shows the way.")
    return written


def _say(text):
    print(text, file=sys.stderr)


def _refuse(file, message, way_out, line=1):
    raise ContentError([Problem(file, line, message, way_out)])


def _new_unit(unit, course):
    directory = course / "units" / unit
    if not re.fullmatch(r"\d\d_[a-z][a-z0-9_]*", unit):
        _refuse(directory, f"{unit!r} is no unit's name", "Use two digits, `_`, words: 08_second_derivatives")
    if directory.exists():
        _refuse(directory, f"{unit} exists", f"Name an exercise to add: new {unit}/EXERCISE")
    directory.mkdir(parents=True)
    return [
        _fill(directory / name, f"{name.removesuffix('.py').removesuffix('.toml')}.txt", unit=unit)
        for name in ("lesson.py", "cases.py", "attempts.py", "unit.toml")
    ]


def _usable(unit, exercise, course):
    file = course / "units" / unit / "lesson.py"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", exercise):
        _refuse(file, f"{exercise!r} is no exercise's name", "Use a function's name, in words that say what it gives")
    for name in units(course):
        if exercise in read(name, course).exercises:
            _refuse(file, f"{name} has an exercise {exercise}", "Choose another name, or edit that one")


def _new_exercise(unit, exercise, course):
    return [
        _fill(course / "units" / unit / f"{part}.py", f"{part}_exercise.txt", exercise=exercise)
        for part in ("lesson", "cases", "attempts")
    ]


def _fill(file, template, **names):
    """Writes the filled template, or appends it to a file that is there."""
    before = file.read_text("utf-8") if file.exists() else ""
    text = before + Template((TEMPLATES / template).read_text("utf-8")).substitute(names)
    if file.suffix == ".py":
        text = ruff_formatted(file, text)
    file.write_text(text, encoding="utf-8", newline="\n")
    return file


# ------------------------------------------------------------------------------------------------- from mutants


@dataclass
class Proposal:
    """Mutants of a reference that behave alike and that no attempt explains."""

    mutants: list[Mutant]
    observations: list
    difference: str


def proposals(unit, exercise, course=COURSE):
    """The wrong programs that a machine finds and the attempts at the exercise do not explain, the commonest first."""
    lesson = read(unit, course)
    cases = load_cases(lesson.directory / "cases.py")
    if exercise not in cases or exercise not in lesson.exercises:
        _refuse(lesson.file, f"there is no exercise {exercise!r}", f"Exercises here: {', '.join(lesson.exercises)}")
    declared, answer = cases[exercise], lesson.exercises[exercise]
    if declared.is_prediction:
        _refuse(lesson.file, f"{exercise} is answered with data", "Think of wrong mental models instead", answer.line)

    def watch(program):
        return [observe(declared, program, SEED, index, step_limit=STEP_LIMIT) for index in range(declared.visible)]

    expected = watch(references(lesson)[exercise])
    catalogue = read_catalogue(course)
    candidates = [
        Candidate(
            attempt.key,
            attempt.id,
            catalogue.get(attempt.id, {}).get("name", attempt.id),
            attempt.message or "",
            watch(attempt.program),
        )
        for attempt in attempts(lesson, cases)
        if attempt.exercise == exercise and attempt.kind == "misconception"
    ]
    found, names = [], namespace(lesson, declared.needs)
    for mutant in mutants(answer.cell.source, answer.line + 1):
        yours = watch(define(exercise, mutant.source, names))
        verdict = judge(declared, yours, expected, candidates)
        explained = verdict.diagnosis and not verdict.unexplained
        if all(verdict.met) or explained or all(observation["raised"] for observation in yours):
            continue
        for proposal in found:
            if all(each.alike(declared, yours, proposal.observations, expected) for each in declared.requirements):
                proposal.mutants.append(mutant)
                break
        else:
            found.append(Proposal([mutant], yours, f"case {verdict.case}: {verdict.difference.words}"))
    return sorted(found, key=lambda proposal: -len(proposal.mutants))


def _propose(unit, exercise, course):
    found = proposals(unit, exercise, course)
    file = course / "units" / unit / "attempts.py"
    if not found:
        _say(f"every mutant of {exercise} that fails is explained by an attempt; there is nothing to propose")
        return []
    text = file.read_text("utf-8")
    lines = text.split("\n")
    own = [node.end_lineno for node in ast.parse(text).body if getattr(node, "name", None) == exercise]
    place = max(own, default=len(lines))
    skeletons = [_skeleton(proposal) for proposal in found[:PROPOSALS]]
    text = "\n".join([*lines[:place], *skeletons, *lines[place:]])
    file.write_text(ruff_formatted(file, text), encoding="utf-8", newline="\n")
    _say(f"proposed {len(skeletons)} of {len(found)} wrong programs in {file}")
    _say("Keep those that a person would write: give each an ID and a message, and delete the rest.")
    return [file]


def _skeleton(proposal):
    first, *others = proposal.mutants
    about = [
        f"TODO: would a person write this? lesson.py, {first.description}",
        *(f"the same as lesson.py, {mutant.description}" for mutant in others[:3]),
        f"{proposal.difference}"[:110],
    ]
    comment = "\n".join(f"# {line}" for line in about)
    message = "TODO: what happens, in words that fit what the learner sees. Which question leads on?"
    return f'\n\n{comment}\n@misconception("TODO", "{message}")\n{first.source}\n'
