"""Commit, then reveal: what happens is shown only to somebody who has said what they expect.

A prediction is credited for being made, never for being right, and lives in the memory of this process alone:

>>> commit("third_reading", answer=None, confidence=None)
Still to give: your answer, your confidence (1, a guess, to 5, certain).
Write them in place of None, as in answer=…, confidence=3, and run this cell again.
Nothing is shown until then.
>>> @reveal("third_reading", see="Every backward adds")
... def _():
...     print("14 28 42")
...     return 42
Commit an answer and a confidence first.
They go into the cell that says commit("third_reading", ...); run it, then this one.
>>> commit("third_reading", answer=28, confidence=4)
Your answer: 28, confidence 4 of 5.
>>> @reveal("third_reading", see="Every backward adds")
... def _():
...     print("14 28 42")
...     return 42
14 28 42
You were sure, and it is otherwise.
You said 28, confidence 4 of 5. It is 42.
Which assumption behind your answer does this break?
See: Every backward adds
"""

import inspect
import math
import numbers
import os
from dataclasses import dataclass

import numpy
import torch

from .output import Notice, as_text, show

SURE = 4
_SHOWN_DIFFERENCES = 5
_SHOWN_CHARACTERS = 160


@dataclass(frozen=True)
class Answer:
    """What a learner expects, as plain data, and how sure they are of it, from 1 to 5."""

    value: object
    confidence: int

    def __str__(self):
        return f"{_in_words(self.value)}, confidence {self.confidence} of 5"


@dataclass
class Prediction:
    """The answer that stood when the result was first shown, and the latest one."""

    variant: int | None
    counted: Answer
    latest: Answer
    revealed: bool = False


# name -> variant -> Prediction; the variant committed last stands last.
_predictions: dict[str, dict[int | None, Prediction]] = {}


def commit(
    name: str, answer=None, confidence: int | None = None, variant: int | None = None, answers: int | None = None
):
    """Your prediction is on record, and is shown back; `reveal(name)` can now show what really happens.

    answer:     a number, string, bool, dtype, shape or exception class, or a list of these
    confidence: 1 (a guess) to 5 (certain)
    variant:    where the question has your own number in it: a whole number from 0 to 99
    answers:    how many values the question asks for, where it asks for a list; another number is not recorded

    Until the result has been shown you can change your mind; after that the answer that stood then counts. With a part
    still `None`, the cell says what is missing and records nothing.
    """
    if not isinstance(name, str):
        example = 'commit("third_reading", answer=28, confidence=4)'
        raise TypeError(f"commit was given {name!r:.80}. Expected the name of a prediction first; try {example}.")
    variants = _predictions.setdefault(name, {})
    missing = [
        words
        for words, value in [("your answer", answer), ("your confidence (1, a guess, to 5, certain)", confidence)]
        if _is_blank(value)
    ]
    if missing:
        stands = f"Your earlier answer stands: {_current(name).latest}." if variants else "Nothing is shown until then."
        them, form = "them" if len(missing) > 1 else "it", _form(answers)
        where = f"Write {them} in place of None, as in answer={form}, confidence=3, and run this cell again."
        show(Notice(f"Still to give: {', '.join(missing)}.", where, stands))
        return
    if not _is_whole(confidence, 1, 5):
        show(_refusal("confidence", confidence, "a whole number from 1 (a guess) to 5 (certain)", "confidence=3"))
        return
    if variant is not None and not _is_whole(variant, 0, 99):
        show(_refusal("variant", variant, "a whole number from 0 to 99, your own", "variant=7"))
        return
    try:
        given = Answer(_plain(answer), confidence)
    except TypeError as error:
        show(Notice("Not recorded.", str(error)))
        return
    complaint = _miscounted(given.value, answers)
    if complaint is not None:
        show(Notice("Not recorded.", complaint))
        return
    prediction = variants.pop(variant, None)
    if prediction is None or not prediction.revealed:
        prediction = Prediction(variant, given, given)
    variants[variant] = prediction
    prediction.latest = given
    lines = [] if variant is None else [f"Variant {variant}."]
    if prediction.revealed:
        lines.append(f"The result was shown before, so the answer you gave first counts: {prediction.counted}.")
    show(Notice(f"Your answer: {given}.", *lines))


def reveal(name: str, see: str | None = None, within: float = 1e-3, answers: int | None = None):
    """A decorator: runs the function it stands on once `commit(name, ...)` has an answer, and compares its result.

    The function shows what it likes and returns what really happens; its parameter, if any, is the learner's variant:

    >>> commit("doubled", answer=14, confidence=5, variant=7)
    Your answer: 14, confidence 5 of 5.
    Variant 7.
    >>> @reveal("doubled")
    ... def _(variant):
    ...     return 2 * variant
    As you said.
    You said 14, confidence 5 of 5. It is 14.

    see:     the heading of the same notebook that treats it, for somebody who was sure and wrong
    within:  the relative distance at which two numbers count as the same
    answers: how many values it returns, where it returns a list; an answer with another number has to be given anew

    The name below the decorator keeps what it had before (`_` the last output), so that nothing the function made stays
    alive. With `AUTOGRADLAB_REVEAL=all` in the environment the function also runs where no answer was given.
    """
    if not isinstance(name, str):
        raise TypeError(f'reveal was given {name!r}. Expected the name of a prediction; try @reveal("third_reading").')
    _predictions.setdefault(name, {})

    def run(body):
        _reveal(name, body, see, within, answers)
        # What the name is bound to now: were it anything else, IPython would stop updating `_`.
        return body.__globals__.get(body.__name__)

    return run


def commitments() -> list[dict]:
    """Which predictions of this process were made: `[{"name": "third_reading", "committed": True}]`."""
    return [{"name": name, "committed": bool(variants)} for name, variants in _predictions.items()]


def _current(name):
    return next(reversed(_predictions[name].values()), None)


def _reveal(name, body, see, within, answers):
    prediction = _current(name)
    unasked = os.environ.get("AUTOGRADLAB_REVEAL") == "all"
    wants_variant = bool(inspect.signature(body).parameters)
    if prediction is None and not unasked:
        cell = f'They go into the cell that says commit("{name}", ...); run it, then this one.'
        show(Notice("Commit an answer and a confidence first.", cell))
        return
    variant = None if prediction is None else prediction.variant
    if wants_variant and variant is None:
        if not unasked:
            show(Notice("Commit a variant too.", "A whole number from 0 to 99, your own; try variant=7."))
            return
        variant = 0
    complaint = None if prediction is None else _miscounted(prediction.counted.value, answers)
    if complaint is not None:
        show(Notice("Commit your answer again.", complaint, "Nothing is shown until then."))
        return
    if prediction is not None:
        # Before the body runs: what it prints is already the answer.
        prediction.revealed = True
    happened = _plain(body(variant) if wants_variant else body())
    show(_comparison(prediction, happened, see, within))


def _comparison(prediction, happened, see, within):
    if prediction is None:
        return Notice(f"It is {_in_words(happened)}.")
    answer = prediction.counted
    both = f"You said {answer}. It is {_in_words(happened)}."
    changed = []
    if prediction.latest != answer:
        changed = [f"The answer you gave first counts; afterwards you changed it to {prediction.latest}."]
    if _agree(answer.value, happened, within):
        return Notice("As you said.", both, *changed)
    details = [both, *_differences(answer.value, happened, within), *changed]
    if answer.confidence < SURE:
        return Notice("Not what you said.", *details)
    question = "Which assumption behind your answer does this break?"
    return Notice("You were sure, and it is otherwise.", *details, question, see=see)


def _is_blank(value):
    if isinstance(value, list | tuple):
        # Beside other answers None is one: what .grad reads, say.
        filled = [item for item in value if item is not None]
        return len(value) > 0 and not filled or any(map(_is_blank, filled))
    return value is None or value is ... or (isinstance(value, str) and not value.strip())


def _miscounted(value, answers):
    """What is wrong with the number of values in an answer, in a sentence; None where it is right or not asked for."""
    if answers is None or isinstance(value, list) and len(value) == answers:
        return None
    count = f"a list of {len(value)}" if isinstance(value, list) else "one value"
    form = _form(answers)
    return f"The answer is {count}. Expected a list of {answers}, one for each value asked for; try answer={form}."


def _form(answers):
    """What an answer of so many values looks like."""
    return "…" if answers is None else f"[{', '.join(['…'] * answers)}]"


def _is_whole(value, low, high):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and low <= value <= high


def _refusal(what, value, expected, example):
    return Notice("Not recorded.", f"{what} is {_in_words(repr(value))}. Expected {expected}; try {example}.")


def _plain(value):
    """The value as numbers, strings, bools and lists of these, with nothing alive behind it."""
    if isinstance(value, bool | int | float | complex | str):
        return value
    if isinstance(value, numpy.generic):
        return value.item()
    if value is None or isinstance(value, torch.dtype | torch.device):
        return str(value)
    if isinstance(value, torch.Tensor):
        return value.detach().tolist()
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, BaseException):
        return type(value).__name__
    raise TypeError(
        f"The value is of type {type(value).__name__}. Expected a number, string, bool, dtype, shape or exception, "
        "or a list of these; try a number."
    )


def _in_words(value):
    words = f"[{', '.join(map(_in_words, value))}]" if isinstance(value, list) else as_text(value)
    return words if len(words) <= _SHOWN_CHARACTERS else words[: _SHOWN_CHARACTERS - 2] + " …"


def _agree(said, happened, within):
    if isinstance(said, list) and isinstance(happened, list):
        pairs = zip(said, happened, strict=False)
        return len(said) == len(happened) and all(_agree(one, other, within) for one, other in pairs)
    if isinstance(said, list) or isinstance(happened, list):
        return False
    # Two values that look the same on the screen must never be called different.
    if _folded(said) == _folded(happened):
        return True
    if isinstance(happened, bool):
        return {"yes": True, "no": False}.get(_folded(said)) is happened
    said, happened = _number(said), _number(happened)
    if said is None or happened is None:
        return False
    if isinstance(said, complex) or isinstance(happened, complex):
        return abs(said - happened) <= within * abs(happened)
    # The absolute part lets a rounding error stand where a learner says 0.
    return math.isclose(said, happened, rel_tol=within, abs_tol=1e-9)


def _kind(value) -> str:
    """The kind of an answer in words; what a text stands for, where it stands for something else."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, bool) or _folded(value) in ("true", "false", "yes", "no"):
        return "True or False"
    if _folded(value) == "none":
        return "None"
    return "a word" if _number(value) is None else "a number"


def _folded(value):
    return as_text(value).strip().casefold().removeprefix("torch.")


def _number(value):
    """The number that a value or its text stands for, or None: True is not 1 here."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value


def _differences(said, happened, within):
    """Where two lists differ, a line each; of single values, which stand side by side already, only another kind."""
    if not isinstance(happened, list):
        kinds = [_kind(value) for value in (said, happened)]
        return [] if kinds[0] == kinds[1] else [f"You gave {kinds[0]}; it is {kinds[1]}."]
    if not isinstance(said, list):
        return [f"You gave one value; it is a list of {len(happened)}."]
    if len(said) != len(happened):
        return [f"You gave a list of {len(said)}; it is a list of {len(happened)}."]
    pairs = [
        f"At index {index} you said {_in_words(one)}; it is {_in_words(other)}."
        for index, (one, other) in enumerate(zip(said, happened, strict=True))
        if not _agree(one, other, within)
    ]
    rest = len(pairs) - _SHOWN_DIFFERENCES
    return pairs if rest <= 0 else [*pairs[:_SHOWN_DIFFERENCES], f"And {rest} more."]
