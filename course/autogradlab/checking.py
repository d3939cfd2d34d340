"""`check("name")`: the learner's program in the visible cases, beside what the reference and the misconceptions did."""

import builtins
import contextlib
import difflib
import inspect
import io
import linecache
import os
import sys

from autogradlab import units
from autogradlab.diagnosis import judge
from autogradlab.encoding import type_name
from autogradlab.exercises import stub_digest
from autogradlab.observation import message_of, observe
from autogradlab.predictable import NoAnswer, normalise
from autogradlab.recorded import SEED, Recorded, prediction
from autogradlab.requirements import Difference
from autogradlab.state import preserved
from autogradlab.texts import value_text
from autogradlab.verdicts import CheckFailed, CheckResult, Told

_read = {}
_told = {}


def check(name: str) -> CheckResult:
    """The verdict on the notebook's answer `name`: a float (the points earned) that shows itself as a table.

    The answer is looked up in the notebook by its name, used in the exercise's visible cases, and compared with what
    the reference did there. Under nbgrader's Validate a miss raises CheckFailed with the same text.
    """
    unit = units.current()
    recorded = _recorded(unit)
    if name not in unit.exercises or name not in recorded:
        near = difflib.get_close_matches(str(name), recorded.names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LookupError(f"unit {unit.name} has no exercise {name!r}.{hint} It has {', '.join(recorded.names)}.")
    exercise, record = unit.exercises[name], recorded.exercise(name)
    program = _namespace().get(name, ...)
    # One outer block for all cases, so that the process's random streams are saved once. To nbgrader, anything on
    # stderr is a failure.
    with preserved(SEED), contextlib.redirect_stderr(io.StringIO()):
        result = _result(unit.name, exercise, record, program)
    if os.environ.get("NBGRADER_EXECUTION") == "validate" and result.record["status"] != "right":
        raise CheckFailed(result.text)
    return result


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


def _result(unit: str, exercise, record, program) -> CheckResult:
    told = Told(unit=unit, exercise=exercise, points=record.points)
    if program is ...:
        return told.not_attempted(
            f"{exercise.name} is not defined yet. Run the cell that defines it, then check again."
        )
    if stub_digest(answer_source(program)) == record.stub:
        return told.not_attempted("Write your answer in the cell above, run it, then check again.")
    if not callable(program):
        shown = value_text(program, 80)
        return told.unusable(
            f"{exercise.name} is {shown} here, so it cannot be called. "
            f"Does a later line use the same name for something else?"
        )
    if exercise.is_prediction:
        return _predicted(told, exercise, record, program)
    yours = [observe(exercise, program, SEED, index) for index in range(exercise.visible)]
    expected = record.expected()
    verdict = judge(exercise, yours, expected, record.candidates())
    shown = None
    if verdict.case is not None:
        shown = observe(exercise, program, SEED, verdict.case, describe=True)
        missing = any(shown["returned_none"]) and not any(expected[verdict.case]["returned_none"])
        told.returned_none = missing
    return told.judged(verdict, shown, _times_told(exercise.name, verdict))


def _predicted(told, exercise, record, program) -> CheckResult:
    """The verdict on answers that are data: the program returns `(variant, answers)`."""
    last = exercise.variants - 1
    try:
        with preserved(SEED), contextlib.redirect_stdout(io.StringIO()):
            given = program()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and whatever else an answer raises
        raised = ": ".join(filter(None, (type_name(error), message_of(error)[:200])))
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
        written = [normalise(answer) for answer in answers]
    except NoAnswer as error:
        words = str(error)
        return told.unusable(f"{words[:1].upper()}{words[1:]}. Which of your answers is it?")
    yours = prediction(exercise, variant, written) | {"answer_texts": [value_text(answer, 60) for answer in answers]}
    verdict = judge(exercise, [yours], record.expected(variant), record.candidates(variant))
    return told.judged(verdict, yours, _times_told(exercise.name, verdict))


def answer_source(program) -> str:
    """The source of the cell or file in which a function or class was defined; empty where it cannot be found."""
    try:
        program = inspect.unwrap(program)
        functions = list(vars(program).values()) if isinstance(program, type) else [program]
    except Exception:  # an object with a __getattr__ or __wrapped__ of its own
        return ""
    # A class's methods may have been made by a decorator; the first that stands in a cell tells which cell.
    sources = ("".join(linecache.getlines(f.__code__.co_filename)) for f in functions if inspect.isfunction(f))
    return next(filter(None, sources), "")


def _times_told(name: str, verdict) -> int:
    """How often in a row this behaviour was seen: 1 for the first time."""
    difference = verdict.difference or Difference("", "", "")
    behaviour = (
        tuple(verdict.met),
        tuple(candidate.key for candidate, _ in verdict.diagnosis),
        verdict.case,
        difference.words,
    )
    last, times = _told.get(name, (None, 0))
    times = times + 1 if last == behaviour else 1
    _told[name] = (behaviour, times)
    return 3 if os.environ.get("NBGRADER_EXECUTION") == "autograde" else times
