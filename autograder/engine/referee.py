"""Verdicts on checks: the child is asked what its program does, and what it says is compared here."""

import contextlib
import re
import signal
import threading
from collections.abc import Callable, Iterator

from autogradlab.checking import Answer, AnswerRaised, verdict_on
from autogradlab.diagnosis import Verdict
from autogradlab.encoding import EncodingError, Storages, decode_tree
from autogradlab.verdicts import MIME, CheckResult, Told

from autograder.engine.knowledge import Known, Unit

#: Elements of a tensor that the referee computes with, and seconds that one verdict may take it.
MAX_ELEMENTS = 1 << 24
JUDGE_SECONDS = 60
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\x1b\[[0-9;?]*[ -/]*[@-~]")


class NoVerdict(Exception):
    """What the child said cannot be judged; the message is for the learner and ends in a full stop or a question."""


class RemoteAnswer(Answer):
    """An answer in another process, which may say anything about it."""

    def __init__(self, known: Known, ask: Callable[[dict], dict]):
        super().__init__(known.exercise, None)
        self._known, self._ask = known, ask

    def look(self) -> dict:
        reply = self._asked("look")
        if reply.get("defined") is not True:
            return {"defined": False}
        shown = {"stub": str(reply.get("stub")), "callable": reply.get("callable") is True}
        return {"defined": True, "shown": plain_text(reply.get("shown")), **shown}

    def observed(self) -> list:
        cases = self._known.cases
        reply = self._asked("observe", cases=cases, describe=False)
        return self._checked(reply.get("observations"), range(len(cases)))

    def described(self, number: int) -> dict:
        reply = self._asked("observe", cases=[self._known.cases[number]], describe=True)
        return self._checked(reply.get("observations"), [number])[0]

    def given(self):
        reply = self._asked("predict")
        if reply.get("raised") is not None:
            raised = reply["raised"]
            raise AnswerRaised(plain_text(raised.get("name")), plain_text(raised.get("value")))
        try:
            plain = reply["given"]
            return decode_tree(plain["tree"], Storages(plain["storages"], MAX_ELEMENTS))
        except (EncodingError, LookupError, TypeError) as error:
            raise NoVerdict(f"What {self.exercise.name}() returned cannot be read: {error}.") from error

    def judge(self, yours: list, known: Known) -> Verdict:
        verdict = known.trial.judge(yours, known.expected())
        return verdict if verdict.case is None else known.trial.judge(yours, known.expected(), known.candidates())

    def _asked(self, op: str, **more) -> dict:
        reply = self._ask({"op": op, "exercise": self.exercise.name, **more})
        if "failed" in reply:
            raise NoVerdict(f"What {self.exercise.name} did cannot be told: {plain_text(reply['failed'])}.")
        return reply

    def _checked(self, observations, numbers) -> list:
        """The observations with what the referee knows better put right, and texts made harmless."""
        if type(observations) is not list or len(observations) != len(numbers):
            raise NoVerdict("What came back is not one observation for each case.")
        expected = self._known.expected()
        return [_sound(one, expected[number]) for one, number in zip(observations, numbers)]


_SHAPES = {
    "raised": lambda value: value is None or _is_raised(value),
    "mode": lambda value: _is(value, dict),
    "calls": lambda value: _is(value, dict) and all(type(count) is int for count in value.values()),
    "returned": lambda value: _is_looked(value),
    "arguments": lambda value: _is(value, list) and all(map(_is_looked, value)),
    "returned_none": lambda value: _is(value, list) and all(type(one) is bool for one in value),
    "watched": lambda value: _is_looked(value),
    "printed": lambda value: _is(value, str),
    "kept": lambda value: _is(value, dict) and all(type(one) is bool for one in value.values()),
    "cost": lambda value: value is None or _is_cost(value),
    "cost_over": lambda value: _is(value, dict) and all(map(_are_costs, value.values())),
    "texts": lambda value: _is(value, list) and all(type(one) is str for one in value),
    "call_count": lambda value: _is(value, int),
    "raising": lambda value: value is None or _is(value, int),
    "sources": lambda value: _is(value, dict) and all(type(one) is int for one in value.values()),
}
_TEXTS = ("texts", "printed")


def _is(value, kind: type) -> bool:
    return type(value) is kind


def _is_looked(value) -> bool:
    return _is(value, dict) and _is(value.get("tree"), dict) and _is(value.get("storages"), list)


def _is_raised(value) -> bool:
    words = {"message": str, "traceback": str, "inside": bool}
    return (
        _is(value, dict)
        and _is(value.get("types"), list)
        and bool(value["types"])
        and all(type(name) is str for name in value["types"])
        and all(type(value.get(key, kind())) is kind for key, kind in words.items())
    )


def _is_cost(value) -> bool:
    return _is(value, dict) and all(type(number) in (int, float, dict, list) for number in value.values())


def _are_costs(value) -> bool:
    return _is(value, list) and len(value) == 3 and all(one is None or _is_cost(one) for one in value)


def _sound(observation, expected: dict) -> dict:
    """An observation as it may be judged. Raises NoVerdict where it is none."""
    if type(observation) is not dict or not {"raised", "mode", "calls", "returned"} <= set(observation):
        raise NoVerdict("What came back is no observation.")
    for key, value in observation.items():
        if key not in ("dtype", "facts") and (key not in _SHAPES or not _SHAPES[key](value)):
            raise NoVerdict(f"The part {key[:40]!r} of what came back is malformed.")
    # Bounds and predicates are computed from facts, so these are the referee's own.
    sound = observation | {"facts": expected["facts"], "dtype": expected["dtype"]}
    if sound["raised"]:
        texts = {key: plain_text(sound["raised"].get(key, "")) for key in ("message", "traceback")}
        sound["raised"] = sound["raised"] | texts | {"inside": bool(sound["raised"].get("inside"))}
    if "texts" in sound:
        sound["texts"] = [plain_text(text) for text in sound["texts"]]
    return sound


def plain_text(value) -> str:
    """Text without terminal escapes and other control characters; of anything else, nothing."""
    return _CONTROL.sub("", value)[:20_000] if type(value) is str else ""


class _TooLong(Exception):
    """A verdict took the referee longer than it may."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """A block that is ended by _TooLong after so many seconds of this process's own computing."""

    def ring(*_):
        raise _TooLong

    if threading.current_thread() is not threading.main_thread():
        # Signals come to the main thread alone; a formgrader that grades elsewhere is watched by its user.
        yield
        return
    previous = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def check(unit: Unit, name: str, ask: Callable[[dict], dict]) -> CheckResult:
    """The verdict on the answer `name` in the child that `ask` reaches; what `ask` raises passes through."""
    known = unit.exercises[name]
    try:
        with _at_most(JUDGE_SECONDS):
            result = verdict_on(unit.name, known, RemoteAnswer(known, ask))
    except NoVerdict as error:
        result = refused(unit, name, str(error))
    except _TooLong:
        result = refused(unit, name, f"What {name} returned took longer to compare than {JUDGE_SECONDS} s.")
    except (EncodingError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # The deeper parts of an observation are read while it is compared.
        problem = f"{type(error).__name__}: {plain_text(str(error))[:200]}"
        result = refused(unit, name, f"What {name} did came back in a form that cannot be compared ({problem}).")
    return refereed(result)


def refused(unit: Unit, name: str, sentence: str) -> CheckResult:
    """A verdict of 0 with the reason, for an answer that cannot be judged."""
    known = unit.exercises[name]
    return refereed(Told(unit=unit.name, exercise=known.exercise, points=known.points).unusable(sentence))


def refereed(result: CheckResult) -> CheckResult:
    """The same verdict, with its record marked as made by the referee."""
    result.record["refereed"] = True
    result.record["seed"] = None
    return result


def output(result: CheckResult) -> dict:
    """The verdict as data of a notebook's output."""
    return {"text/plain": repr(result), "text/html": result.html, MIME: result.record}
