"""Verdicts on checks: the child is asked what its program does, and what it says is compared here."""

import contextlib
from collections.abc import Callable

from autogradlab.checking import Answer, AnswerRaised, verdict_on
from autogradlab.diagnosis import Verdict
from autogradlab.encoding import Storages, decode_tree, pack
from autogradlab.predictable import NoAnswer, normalise
from autogradlab.verdicts import MIME, CheckResult, Told

from autograder.engine.comparing import NoVerdict, comparing, few_elements, plain, plain_text, told
from autograder.engine.knowledge import Known, Unit

#: Bytes that the answers to a prediction may take, and elements of one tensor among them.
MAX_ANSWERS = 1 << 16
MAX_ELEMENTS = 1 << 12


class RemoteAnswer(Answer):
    """An answer in another process, which may say anything about it."""

    def __init__(self, known: Known, ask: Callable[..., dict | bytes]):
        """`ask(request, foreseen)` is the reply to a request, or `foreseen` where the reply's frame is equal to it."""
        super().__init__(known.exercise, None)
        self._known, self._ask = known, ask

    def look(self) -> dict:
        reply = self._asked("look")
        if reply.get("defined") is not True:
            return {"defined": False}
        shown = {"stub": plain_text(reply.get("stub")), "callable": reply.get("callable") is True}
        return {"defined": True, "shown": plain_text(reply.get("shown")), **shown}

    def observed(self) -> list:
        cases = self._known.cases
        reply = self._asked("observe", self._known.foreseen, cases=cases, describe=False)
        if reply is self._known.foreseen:
            return self._known.expected()
        return self._checked(reply.get("observations"), range(len(cases)))

    def described(self, number: int) -> dict:
        reply = self._asked("observe", cases=[self._known.cases[number]], describe=True)
        return self._checked(reply.get("observations"), [number])[0]

    def given(self):
        reply = self._asked("predict")
        with self._comparing():
            if reply.get("raised") is None:
                return self._read(reply["given"])
            name, value = plain_text(reply["raised"]["name"]), plain_text(reply["raised"]["value"])
        raise AnswerRaised(name, value)

    def _read(self, encoded: dict):
        """What a prediction's program returned, if it is small and every answer of it can be written down."""
        if len(pack(encoded)) > MAX_ANSWERS:
            raise NoVerdict(f"What {self.exercise.name}() returned is too large for answers to a prediction.")
        given = decode_tree(encoded["tree"], Storages(encoded["storages"], MAX_ELEMENTS))
        if type(given) is tuple and len(given) == 2 and type(given[1]) in (list, tuple):
            with contextlib.suppress(NoAnswer):  # which the verdict tells better
                for answer in given[1]:
                    normalise(answer)
        return given

    def judge(self, yours: list, known: Known) -> Verdict:
        expected = known.expected()
        if yours is expected:
            return known.verdict_on_itself
        verdict = self._compared(yours, expected)
        return verdict if verdict.case is None else self._compared(yours, expected, known.candidates())

    def _compared(self, yours: list, expected: list, candidates=()) -> Verdict:
        trial = self._known.trial
        try:
            with self._comparing():
                return told(trial.judge(yours, expected, candidates))
        except NoVerdict:
            # What fails on the reference too is a mistake of the exercise, and no zero.
            trial.judge(expected, expected, candidates)
            raise

    def _comparing(self):
        return comparing(f"What {self.exercise.name} returned")

    def _asked(self, op: str, foreseen: bytes | None = None, **more) -> dict | bytes:
        reply = self._ask({"op": op, "exercise": self.exercise.name, **more}, foreseen)
        if type(reply) is dict and "failed" in reply:
            raise NoVerdict(f"What {self.exercise.name} did cannot be told: {plain_text(reply['failed'])}.")
        return reply

    def _checked(self, observations, numbers) -> list:
        """The observations with what the referee knows better put right, and texts made harmless."""
        if type(observations) is not list or len(observations) != len(numbers):
            raise NoVerdict("What came back is not one observation for each case.")
        expected = self._known.expected()
        with self._comparing():
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
#: The parts of an observation that hold values.
_VALUES = ("returned", "arguments", "watched")


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


_ALWAYS = {"raised", "mode", "calls", "returned", "arguments", "returned_none"}


def _sound(observation, expected: dict) -> dict:
    """An observation as it may be judged. Raises NoVerdict where it is none."""
    if type(observation) is not dict or not set(observation) >= _ALWAYS:
        raise NoVerdict("What came back is no observation.")
    for key, value in observation.items():
        if key not in ("dtype", "facts") and (key not in _SHAPES or not _SHAPES[key](value)):
            raise NoVerdict(f"The part {key[:40]!r} of what came back is malformed.")
    # Bounds and predicates are computed from facts, so these are the referee's own.
    sound = observation | {"facts": expected["facts"], "dtype": expected["dtype"]}
    sound |= few_elements({key: sound[key] for key in _VALUES if key in sound}, expected)
    if sound["raised"]:
        texts = {key: plain_text(sound["raised"].get(key, "")) for key in ("message", "traceback")}
        types = [plain_text(name) for name in sound["raised"]["types"]]
        sound["raised"] = sound["raised"] | texts | {"types": types, "inside": bool(sound["raised"].get("inside"))}
    if "texts" in sound:
        sound["texts"] = [plain_text(text) for text in sound["texts"]]
    return sound


def check(unit: Unit, name: str, ask: Callable[..., dict | bytes]) -> CheckResult:
    """The verdict on the answer `name` in the child that `ask(request, foreseen)` reaches; what it raises goes on."""
    known = unit.exercises[name]
    try:
        result = verdict_on(unit.name, known, RemoteAnswer(known, ask))
    except NoVerdict as error:
        result = refused(unit, name, f"{error} What does {name} return?")
    return refereed(result)


def refused(unit: Unit, name: str, sentence: str) -> CheckResult:
    """A verdict of 0 with the reason, for an answer that cannot be judged."""
    known = unit.exercises[name]
    return refereed(Told(unit=unit.name, exercise=known.exercise, points=known.points).unusable(sentence))


def refereed(result: CheckResult) -> CheckResult:
    """The same verdict, marked as made by the referee, and with no text of a learner's but what is harmless."""
    record = plain(result.record) | {"refereed": True, "seed": None}
    return CheckResult(float(result), record, plain(result.html))


def output(result: CheckResult) -> dict:
    """The verdict as data of a notebook's output."""
    return {"text/plain": repr(result), "text/html": result.html, MIME: result.record}
