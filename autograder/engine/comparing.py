"""What a child says, before anybody computes with it or shows it: bounded in time, memory, size and characters."""

import contextlib
import dataclasses
import math
import re
from collections.abc import Iterator

from autogradlab.diagnosis import Verdict
from autogradlab.requirements import Difference

from autograder.bounds import TooLong, at_most, no_more_than

#: Seconds of the referee's own computing, and bytes of addresses, that one comparison may take.
SECONDS = 20
MEMORY = 2 << 30
#: Elements that the values of one observation may have, unless the reference's have a quarter of that or more: views
#: go through them one by one.
ELEMENTS = 1 << 18
#: Characters of one text, and of one side of a difference.
TEXT = 20_000
SIDE = 2_000
#: What comparing hostile data may raise, besides its being too slow.
_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
#: Terminal escapes; control characters, half characters of UTF-16, and what turns the direction of writing round.
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class NoVerdict(Exception):
    """What the child said cannot be judged; the message is for the learner and ends in a full stop."""


@contextlib.contextmanager
def comparing(what: str) -> Iterator[None]:
    """A block in which what a child said is looked into: raises NoVerdict where that fails or takes too much.

    `what` begins the sentence that says so: `What fresh_gradients returned`.
    """
    try:
        with no_more_than(MEMORY), at_most(SECONDS):
            yield
    except TooLong:
        raise NoVerdict(f"{what} took longer to compare than {SECONDS} s.") from None
    except MemoryError:
        raise NoVerdict(f"{what} took more than {MEMORY >> 20} MiB to compare.") from None
    except _ERRORS as error:
        problem = f"{type(error).__name__}: {plain_text(str(error))[:200]}"
        raise NoVerdict(f"{what} came back in a form that cannot be compared ({problem}).") from error


def few_elements(parts: dict, expected: dict) -> dict:
    """The parts of an observation with what is too large to be gone through replaced by a tree that says so.

    A few bytes can stand for a tensor or a range of any length, and the views of exercises count on lengths such as the
    reference's.
    """
    wanted = _Elements(math.inf)
    for key in parts:
        wanted.kept(expected.get(key))
    left = _Elements(max(ELEMENTS, 4 * wanted.taken))
    return {key: left.kept(part) for key, part in parts.items()}


class _Elements:
    """Counts the elements of plain trees up to a bound."""

    def __init__(self, most: float):
        self._most, self.taken = most, 0

    def kept(self, tree):
        """The tree, without what passes the bound."""
        if type(tree) is list:
            return [self.kept(item) if type(item) in (list, dict) else item for item in tree]
        if type(tree) is not dict:
            return tree
        count = _length(tree)
        if self.taken + count > self._most:
            return {"$": "unreadable", "message": "it has too many elements to be compared"}
        self.taken += count
        return {key: self.kept(item) if type(item) in (list, dict) else item for key, item in tree.items()}


def _length(tree: dict) -> float:
    """The elements that a tree stands for without holding them."""
    if tree.get("$") == "range":
        return _length_of_range(tree.get("parts"))
    shape = tree.get("shape")
    is_shape = type(shape) is list and all(type(size) is int for size in shape)
    return abs(math.prod(shape)) if is_shape else 0


def _length_of_range(parts) -> float:
    if type(parts) is not list or len(parts) != 3 or not all(type(part) is int for part in parts):
        return math.inf
    start, stop, step = parts
    return abs(stop - start) // max(abs(step), 1)


def told(verdict: Verdict) -> Verdict:
    """The verdict with its difference in short and harmless texts, made here and now."""
    difference = verdict.difference
    if difference is None:
        return verdict
    texts = [_short(text) for text in (difference.words, difference.yours, difference.expected)]
    short = Difference(*texts, difference.path)
    short.result, short.call = difference.result, difference.call
    return dataclasses.replace(verdict, difference=short)


def _short(text: str) -> str:
    text = plain_text(text)
    return text if len(text) <= SIDE else f"{text[: SIDE - 1]}…"


def plain(value):
    """Data of a record with every text in it made harmless, whatever its length."""
    if type(value) is str:
        return _harmless(value)
    if type(value) is list:
        return [plain(item) for item in value]
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    return value


def plain_text(value) -> str:
    """The beginning of a text without what a terminal or a page obeys; of anything else, nothing."""
    return _harmless(value[:TEXT]) if type(value) is str else ""


def _harmless(text: str) -> str:
    return _CONTROL.sub("", _ESCAPE.sub("", text))
