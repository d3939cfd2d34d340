"""What `audit` proves of a lesson as a whole: it stands without its demonstrations, and a stub earns nothing."""

from collections.abc import Iterator
from pathlib import Path

from autogradlab import units as notebook_units
from autogradlab.exercises import define
from autogradlab.verdicts import CheckResult

from autograder.build import current
from autograder.gates import check
from autograder.lessons import ContentError, Lesson, Problem
from autograder.proofs import Proof, Unit, load, problem_of
from autograder.proofs_of_grading import prove_grading
from autograder.trials import Trial


def prove_lesson(unit: str, course: Path, into: Path) -> Proof:
    """The gates hold, the built files are current, and cells run without the demonstrations, here and in the engine."""
    proof = Proof(problems=list(check([unit], course)))
    try:
        loaded = load(unit, course)
        # What the checks say with files that are not current would lead astray.
        proof.problems += proof.problems or current([unit], into, course) or _checked(loaded, into / "source" / unit)
    except ContentError as error:
        proof.problems += error.problems
        return proof
    proof.problems += _unknown_equivalents(loaded)
    for name, exercise in loaded.exercises.items():
        if not exercise.is_prediction:
            proof.problems += _scoring_stub(loaded, name)
    if not proof.problems:
        graded = prove_grading(unit, course, into)
        proof.problems += graded.problems
        proof.remarks += graded.remarks
    return proof


def _checked(unit: Unit, built: Path) -> Iterator[Problem]:
    """Problems of the checks as learners run them, with every solution and with every stub."""
    lesson = unit.lesson
    try:
        solved = checks(lesson, built, {name: one.solution for name, one in lesson.exercises.items()})
        empty = checks(lesson, built, {name: one.stub for name, one in lesson.exercises.items()})
    except Exception as error:  # an author's cell may raise anything
        problem = problem_of(error, lesson.directory)
        way_out = "Set-up, answers and checks must run without the demonstrations: tag what they need `setup`"
        yield problem._replace(way_out=way_out)
        return
    for name, result in solved.items():
        if result.record["status"] != "right":
            message = f"the check of {name} says of its own solution: {result.text.strip()}"
            yield Problem(lesson.file, lesson.exercises[name].line, message, "Run `build`, or mend the solution")
    for name, result in empty.items():
        if result.record["status"] != "not attempted" or result != 0:
            message = (
                f"the check of {name} takes its stub for an answer: {result.record['status']}, {float(result)} points"
            )
            yield Problem(lesson.file, lesson.exercises[name].line, message, "Run `build`, so that the stub is known")


def checks(lesson: Lesson, built: Path, answers: dict[str, str]) -> dict[str, CheckResult]:
    """What every check says when only set-up cells, these answers and the checks are run, beside the built files."""
    names, results = {"__name__": "__main__"}, {}
    with notebook_units.at(lesson.unit, built):
        for cell in lesson.cells:
            name = cell.nbgrader.get("grade_id")
            above = "\n" * cell.line
            if cell.role == "setup":
                exec(compile(above + cell.source, str(lesson.file), "exec"), names)
            elif cell.role == "solution":
                # In a file of its own, as in a notebook: the check reads there whether it is still the stub.
                names[name] = define(name, answers[name], names)
            elif cell.role == "test":
                code = compile(above + cell.source.strip(), str(lesson.file), "eval")
                results[name.removesuffix("_tests")] = eval(code, names)
    return results


def _scoring_stub(unit: Unit, name: str) -> Iterator[Problem]:
    """The problem of a stub that would earn points if a learner added a comment to it."""
    exercise, lesson = unit.exercises[name], unit.lesson
    try:
        stub = define(name, lesson.exercises[name].stub, unit.namespace(name))
    except Exception as error:  # an author's stub may raise anything
        message = f"the stub of {name} raises {type(error).__name__} when its cell is run: {error}"
        yield Problem(
            lesson.file, lesson.exercises[name].line, message, "Put the solution's markers inside the function"
        )
        return
    trial = Trial(exercise)
    yours, expected = (trial.watch(program, trial.near()) for program in (stub, unit.references[name]))
    score = trial.judge(yours, expected).score
    if score > 0:
        message = f"the stub of {name} would score {score:.0%}"
        way_out = "Make what the stub gets wrong the first requirement, or give less in the stub"
        yield Problem(lesson.file, lesson.exercises[name].line, message, way_out)


def _unknown_equivalents(unit: Unit) -> Iterator[Problem]:
    for entry in unit.equivalents:
        if entry["exercise"] not in unit.exercises:
            message = f"an equivalent mutant of {entry['exercise']!r}, which is no exercise"
            yield unit.listed(entry["at"], message, f"Exercises here: {', '.join(unit.exercises)}")
