"""`check("name")`: the learner's program in the visible cases, beside what the reference and the misconceptions did."""

import builtins
import contextlib
import difflib
import inspect
import io
import linecache
import os
import sys

from autogradlab import limits, next_step, units
from autogradlab.diagnosis import Verdict, judge
from autogradlab.encoding import type_name
from autogradlab.exercises import stub_digest
from autogradlab.observation import learners_traceback, message_of, observe
from autogradlab.predictable import NoAnswer, normalise
from autogradlab.recorded import SEED, Recorded, prediction
from autogradlab.state import preserved
from autogradlab.texts import value_text
from autogradlab.verdicts import CheckFailed, CheckResult, Told

_read = {}
_told = {}
_records = {}  # a unit's folder -> exercise -> the record of its last check in this session


def check(name: str) -> CheckResult:
    """The verdict on the notebook's answer `name`: a float (the points earned) that shows itself as a table.

    The answer is looked up in the notebook by its name, used in the exercise's visible cases, and compared with what
    the reference did there. Under nbgrader's Validate a miss raises CheckFailed with the same text.
    """
    unit, _, _ = exercise_named(name)
    times = []
    result = verdict(name, lambda found: times.append(_times_told(name, found)) or times[-1])
    _records.setdefault(str(unit.directory), {})[name] = result.record
    step = next_step.after(result.record, max(times, default=1), unit.directory, records_of(unit))
    if step is not None:
        result = result.with_next(step)
    if os.environ.get("NBGRADER_EXECUTION") == "validate" and result.record["status"] != "right":
        raise CheckFailed(result.text)
    return result


def verdict(name: str, times=lambda verdict: 1) -> CheckResult:
    """The verdict on the notebook's answer `name`, which is told as if for the first time and not remembered."""
    unit, exercise, record = exercise_named(name)
    program = program_named(name)
    # One outer block for all cases, so that the process's random streams are saved once. To nbgrader, anything on
    # stderr is a failure.
    with preserved(SEED), contextlib.redirect_stderr(io.StringIO()):
        try:
            result = limits.within(lambda: verdict_on(unit.name, record, Answer(exercise, program), times))
        except limits.RanTooLong as error:
            told = Told(unit=unit.name, exercise=exercise, points=record.points)
            result = told.unusable(
                f"{name} was still running after {limits.SECONDS:g} seconds, and was interrupted here:\n"
                f"{learners_traceback(error)}",
                "What has to become true for it to stop, and which line brings that about?",
            )
    if program is not ...:
        result.record["answer"] = stub_digest(answer_source(program))
    return result


def exercise_named(name: str) -> tuple:
    """The open unit, its exercise of this name, and what is recorded of it. Raises LookupError for another name."""
    unit = units.current()
    recorded = _recorded(unit)
    if name not in unit.exercises or name not in recorded:
        near = difflib.get_close_matches(str(name), recorded.names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LookupError(f"unit {unit.name} has no exercise {name!r}.{hint} It has {', '.join(recorded.names)}.")
    return unit, unit.exercises[name], recorded.exercise(name)


def program_named(name: str):
    """What the notebook has under this name; `...` where it has nothing."""
    return _namespace().get(name, ...)


def records_of(unit) -> dict:
    """The records of the unit's checks in this session, by exercise."""
    return dict(_records.get(str(unit.directory), {}))


def forget(name: str):
    """Begins anew with what is said about an exercise: as if it had never been checked."""
    _told.pop(name, None)
    _records.get(str(units.current().directory), {}).pop(name, None)


def _recorded(unit) -> Recorded:
    stamp = (
        (unit.directory / "recorded.bin").stat().st_mtime_ns if (unit.directory / "recorded.bin").is_file() else None
    )
    if stamp is None:
        raise units.UnitNotFound(
            f"recorded.bin of unit {unit.name} is not in {unit.directory}; copy it there from the release"
        )
    if _read.get(unit.name, (None,))[0] != (str(unit.directory), stamp):
        _read[unit.name] = ((str(unit.directory), stamp), Recorded(unit.directory))
    return _read[unit.name][1]


def _namespace() -> dict:
    """The names of the notebook: IPython's, else those of the module that called `check`."""
    shell = getattr(builtins, "get_ipython", lambda: None)()
    if shell is not None:
        return shell.user_ns
    frame = sys._getframe()
    while str(frame.f_globals.get("__name__")).split(".")[0] == "autogradlab":
        frame = frame.f_back
    return frame.f_globals


class Answer:
    """The notebook's answer to one exercise, as a verdict asks about it; here it is a program of this process."""

    def __init__(self, exercise, program):
        self.exercise, self._program = exercise, program

    def look(self) -> dict:
        """What stands under the exercise's name: whether anything does, its cell's digest, whether it is callable."""
        if self._program is ...:
            return {"defined": False}
        return {
            "defined": True,
            "stub": stub_digest(answer_source(self._program)),
            "callable": callable(self._program),
            "shown": value_text(self._program, 80),
        }

    def observed(self) -> list:
        """What the program does in the cases."""
        return [observe(self.exercise, self._program, SEED, index) for index in range(self.exercise.visible)]

    def described(self, number: int) -> dict:
        """What it does in the case of this number, with its calls as text."""
        return observe(self.exercise, self._program, SEED, number, describe=True)

    def given(self):
        """What the program of a prediction exercise returns; raises AnswerRaised for what it raises."""
        try:
            with preserved(SEED), contextlib.redirect_stdout(io.StringIO()):
                return self._program()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and whatever else an answer raises
            raise AnswerRaised(type_name(error), message_of(error)) from error

    def judge(self, yours: list, known) -> Verdict:
        """The verdict on observations of the cases."""
        return judge(self.exercise, yours, known.expected(), known.candidates())


class AnswerRaised(Exception):
    """The program of a prediction exercise raised: the type's name and the message."""


def verdict_on(unit: str, known, answer: Answer, times=lambda verdict: 3) -> CheckResult:
    """The verdict on an answer to an exercise of which `known` says the points, the stub and who does what.

    `times(verdict)` says how often in a row the learner has been told this; what is said grows with it.
    """
    exercise = answer.exercise
    told = Told(unit=unit, exercise=exercise, points=known.points)
    found = answer.look()
    if not found["defined"]:
        return told.not_attempted(
            f"{exercise.name} is not defined yet. Run the cell that defines it, then check again."
        )
    if found["stub"] == known.stub:
        return told.not_attempted("Write your answer in the cell above, run it, then check again.")
    if not found["callable"]:
        return told.unusable(
            f"{exercise.name} is {found['shown']} here, so it cannot be called. "
            f"Does a later line use the same name for something else?"
        )
    if exercise.is_prediction:
        return _predicted(told, known, answer, times)
    yours = answer.observed()
    verdict = answer.judge(yours, known)
    shown = None
    if verdict.case is not None:
        shown = answer.described(verdict.case)
        expected = known.expected()[verdict.case]
        told.returned_none = any(shown["returned_none"]) and not any(expected["returned_none"])
    return told.judged(verdict, shown, times(verdict))


def _predicted(told, known, answer, times) -> CheckResult:
    """The verdict on answers that are data: the program returns `(variant, answers)`."""
    exercise = answer.exercise
    last = exercise.variants - 1
    try:
        given = answer.given()
    except AnswerRaised as error:
        name, message = error.args
        raised = ": ".join(filter(None, (name, message[:200])))
        return told.unusable(f"{exercise.name}() raised {raised}. Which line of it did that?")
    form = f"return variant, answers, where variant is a whole number from 0 to {last} and answers is a list"
    if (
        type(given) is not tuple
        or len(given) != 2
        or type(given[0]) is not int
        or not isinstance(given[1], (list, tuple))
    ):
        return told.unusable(
            f"{exercise.name}() returned {value_text(given, 120)}; it should {form}. What does its last line return?"
        )
    variant, answers = given
    if not 0 <= variant < exercise.variants:
        return told.unusable(
            f"There is no variant {variant}; choose a whole number from 0 to {last}. Which one is yours?"
        )
    try:
        written = [normalise(one) for one in answers]
    except NoAnswer as error:
        words = str(error)
        return told.unusable(f"{words[:1].upper()}{words[1:]}. Which of your answers is it?")
    yours = prediction(exercise, variant, written) | {"answer_texts": [value_text(one, 60) for one in answers]}
    verdict = judge(exercise, [yours], known.expected(variant), known.candidates(variant))
    return told.judged(verdict, yours, times(verdict))


def answer_source(program) -> str:
    """The source of the cell or file in which a function or class was defined; empty where it cannot be found."""
    try:
        program = inspect.unwrap(program)
        functions = list(vars(program).values()) if isinstance(program, type) else [program]
        functions = [getattr(function, "__func__", function) for function in functions]  # of static and class methods
    except Exception:  # an object with a __getattr__ or __wrapped__ of its own
        return ""
    # A class's methods may have been made by a decorator; the first that stands in a cell tells which cell.
    sources = ("".join(linecache.getlines(f.__code__.co_filename)) for f in functions if inspect.isfunction(f))
    return next(filter(None, sources), "")


def _times_told(name: str, verdict) -> int:
    """How often in a row this behaviour was seen: 1 for the first time."""
    behaviour = (
        tuple(verdict.met),
        tuple(candidate.key for candidate, _ in verdict.diagnosis),
        verdict.case,
        verdict.difference and verdict.difference.words,
    )
    last, times = _told.get(name, (None, 0))
    times = times + 1 if last == behaviour else 1
    _told[name] = (behaviour, times)
    return 3 if os.environ.get("NBGRADER_EXECUTION") == "autograde" else times
