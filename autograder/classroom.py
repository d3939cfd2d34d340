"""A made-up class: learners who hand in the unit's own right and wrong programs, and the plan of who did what."""

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from autogradlab.exercises import Attempt, Exercise, load_cases

from autograder import lessons
from autograder.folders import Folders, GradingError
from autograder.statistics import WRONG

LEARNERS = 24
# Of the answers that are not right, the share that was not even begun.
UNTOUCHED = 0.25
# Of the right answers, the share that differs from the reference.
ALTERNATIVE = 0.4


@dataclass(frozen=True)
class Answer:
    """What one learner puts into one answer cell; `kind` is an attempt's, or `untouched` with no source."""

    kind: str
    id: str | None = None
    words: str | None = None
    source: str | None = None
    accepted: tuple[str, ...] = ()
    #: Where it stands in attempts.py.
    line: int = 1

    @property
    def right(self) -> bool:
        return self.kind in ("reference", "alternative")


UNTOUCHED_ANSWER = Answer("untouched")


@dataclass(frozen=True)
class Choice:
    """All that can be put into one answer cell, each ready for a learner (a prediction needs a variant drawn)."""

    needs: tuple[str, ...]
    reference: Answer
    alternatives: tuple[Callable[[random.Random], Answer], ...]
    misconceptions: tuple[Callable[[random.Random], Answer], ...]


def make_class(unit: str, root: Path | None = None, learners: int = LEARNERS, seed: int = 0) -> dict:
    """The plan: unit, seed and learner -> exercise -> what was put in; the submissions are in `submitted/`.

    The first learner is perfect and the last one empty. Every misconception of the unit is put in at least once if
    there are enough learners. Files that are right already are left alone; submissions of others make it refuse.
    """
    folders = Folders(root)
    path = plan_path(folders, unit)
    earlier = set(json.loads(path.read_text(encoding="utf-8"))["learners"]) if path.is_file() else set()
    strangers = {student for _, student in folders.submissions([unit])} - earlier
    if strangers:
        raise GradingError(
            f"{folders.step('submitted', '', '')} holds submissions of {unit} by learners whom the demo did not make "
            f"up ({', '.join(sorted(strangers)[:3])}). Expected none; move the folder aside before the demo."
        )
    answers = assign(choices(unit, folders.root / "course"), learners, random.Random(f"{unit} {seed}"))
    released = nbformat.read(folders.notebook("release", ".", unit), as_version=4)
    for learner, given in answers.items():
        _write_if_new(folders.notebook("submitted", learner, unit), _submission(released, given))
    for learner in earlier - set(answers):
        folders.remove("submitted", learner, unit)
    plan = {
        "unit": unit,
        "seed": seed,
        "learners": {
            learner: {exercise: _entry(answer) for exercise, answer in given.items()}
            for learner, given in answers.items()
        },
    }
    _write_if_new(path, json.dumps(plan, indent=1) + "\n")
    return plan


def plan_path(folders: Folders, unit: str) -> Path:
    """Where the plan of a unit's made-up class lies."""
    return folders.grading / "made_up" / f"{unit}.json"


def mistakes(plan: dict, frame) -> list[str]:
    """A sentence for each answer whose row in `frame`, as of `records`, does not say what was put in."""
    found = {(row.student, row.exercise): row for row in frame.itertuples()}
    return [
        f"{learner}, {exercise}: {problem}"
        for learner, given in plan["learners"].items()
        for exercise, entry in given.items()
        if (problem := _mistake(entry, found.get((learner, exercise))))
    ]


def _mistake(entry: dict, row) -> str:
    """What is wrong with the record of one answer, or an empty string."""
    what = " ".join(filter(None, (entry["kind"], entry["id"], entry["words"])))
    if row is None:
        return f"{what} was handed in and not graded"
    named = " ".join(row.misconceptions) or "nothing"
    if entry["kind"] == "misconception":
        wanted = f"one of {', '.join(entry['accepted'])}" if len(entry["accepted"]) > 1 else entry["id"]
        named_right = bool(row.misconceptions) and set(row.misconceptions) <= set(entry["accepted"])
        fine = row.status in WRONG and named_right
        return (
            "" if fine else f"{what} came out {row.status} and named {named}; expected wrong or partly, named {wanted}"
        )
    wanted = "not attempted" if entry["kind"] == "untouched" else "right"
    return "" if row.status == wanted else f"{what} came out {row.status} and named {named}; expected {wanted}"


def choices(unit: str, course: Path = lessons.COURSE) -> dict[str, Choice]:
    """What can be put into each answer cell of a unit, in the order of the lesson."""
    lesson = lessons.read(unit, course)
    exercises = load_cases(lesson.directory / "cases.py")
    attempts = lessons.attempts(lesson, exercises)
    return {
        name: _choice(exercises[name], solution.solution, [one for one in attempts if one.exercise == name])
        for name, solution in lesson.exercises.items()
    }


def _choice(exercise: Exercise, solution: str, attempts: list[Attempt]) -> Choice:
    same = [{attempt.id, attempt.same_as} for attempt in attempts if attempt.same_as]

    def answer(attempt: Attempt) -> Callable[[random.Random], Answer]:
        alike = {attempt.id}.union(*(pair for pair in same if attempt.id in pair))
        accepted = tuple(sorted(alike)) if attempt.kind == "misconception" else ()

        def draw(generator: random.Random) -> Answer:
            source = _prediction(exercise, attempt, attempts, generator) if exercise.is_prediction else attempt.source
            return Answer(attempt.kind, attempt.id, attempt.variant, source, accepted, attempt.line)

        return draw

    return Choice(
        exercise.needs,
        Answer("reference", source=solution),
        tuple(answer(attempt) for attempt in attempts if attempt.kind == "alternative"),
        tuple(answer(attempt) for attempt in attempts if attempt.kind == "misconception"),
    )


def _prediction(exercise: Exercise, attempt: Attempt, attempts: list[Attempt], generator: random.Random) -> str:
    """The answer cell of a learner with this mental model, for a variant in which it differs from all others."""
    for variant in generator.sample(range(exercise.variants), exercise.variants):
        own = attempt.program(variant)
        others = [
            other.program(variant) for other in attempts if other.id != attempt.id and other.same_as != attempt.id
        ]
        if attempt.same_as or own not in others:
            return f"def {exercise.name}():\n    variant = {variant}\n    return variant, {own!r}\n"
    raise GradingError(f"{exercise.name}: {attempt.key} gives the answers of another attempt in every variant.")


def assign(choices: dict[str, Choice], learners: int, generator: random.Random) -> dict[str, dict[str, Answer]]:
    """Learner -> exercise -> answer; learners differ in how much they know, so that totals spread."""
    names = [f"learner-{number:0{len(str(learners))}}" for number in range(1, learners + 1)]
    perfect, *mixed = names[:-1]
    strength = {name: generator.uniform(0.15, 0.95) for name in mixed}
    answers = {name: {} for name in names}
    for exercise, choice in choices.items():
        # A program that calls a wrong one cannot be judged by itself: who lacks a need leaves the exercise.
        able = [name for name in mixed if all(answers[name][need].right for need in choice.needs)]
        kinds = _kinds(able, strength, len(choice.misconceptions), generator)
        wrong = [name for name in able if kinds[name] == "misconception"]
        given = dict(zip(wrong, _spread(choice.misconceptions, len(wrong), generator), strict=True))
        for name in names:
            if name in given:
                answers[name][exercise] = given[name](generator)
            elif name == perfect or kinds.get(name) == "right":
                answers[name][exercise] = _right(choice, generator)
            else:
                answers[name][exercise] = UNTOUCHED_ANSWER
    return answers


def _kinds(
    able: list[str], strength: dict[str, float], misconceptions: int, generator: random.Random
) -> dict[str, str]:
    """Learner -> right, misconception or untouched; at least as many wrong as misconceptions, if learners suffice."""
    kinds = {}
    for name in able:
        begun = generator.random() >= UNTOUCHED and misconceptions > 0
        wrong = "misconception" if begun else "untouched"
        kinds[name] = "right" if generator.random() < strength[name] else wrong
    missing = misconceptions - list(kinds.values()).count("misconception")
    others = sorted((name for name in able if kinds[name] != "misconception"), key=strength.get)
    return kinds | dict.fromkeys(others[: max(missing, 0)], "misconception")


def _spread(options: tuple, number: int, generator: random.Random) -> list:
    """So many of the options, in random order, each as often as any other."""
    order = generator.sample(options, len(options))
    return [order[place % len(order)] for place in range(number)]


def _right(choice: Choice, generator: random.Random) -> Answer:
    if choice.alternatives and generator.random() < ALTERNATIVE:
        return generator.choice(choice.alternatives)(generator)
    return choice.reference


def _submission(released, given: dict[str, Answer]) -> str:
    """The released notebook with a learner's answers, as text."""
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        answer = given.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if answer is not None and answer.source is not None:
            cell.source = answer.source.rstrip("\n")
    return nbformat.v4.writes(notebook) + "\n"


def _entry(answer: Answer) -> dict:
    """An answer as the plan keeps it."""
    return {"kind": answer.kind, "id": answer.id, "words": answer.words, "accepted": list(answer.accepted)}


def _write_if_new(path: Path, text: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
