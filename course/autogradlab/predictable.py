"""Answers that are data: brought to one written form, and turned into salted digests so that none stands in clear."""

import hashlib
import numbers
import re

import numpy
import torch

#: Python refuses to write much longer whole numbers as text.
MAX_BITS = 10_000


class NoAnswer(ValueError):
    """An answer of a kind that no prediction has."""


def normalise(answer) -> str:
    """One written form for equal answers: 42, 42.0, "42" and tensor(42.) are one, as are (2, 3) and torch.Size([2, 3]).

    Numbers that are not whole are rounded to five significant digits. Raises NoAnswer for what no prediction can be.
    """
    try:
        return _written(answer)
    except RecursionError as error:
        raise NoAnswer("a list that holds itself is no answer to a prediction") from error


def _written(answer) -> str:
    if answer is None or isinstance(answer, (bool, numpy.bool_)):
        return str(None if answer is None else bool(answer)).casefold()
    if isinstance(answer, str):
        text = " ".join(answer.split()).removeprefix("torch.").casefold()
        return _number(float(text)) if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", text) else text
    if isinstance(answer, (torch.dtype, torch.device)):
        return str(answer).removeprefix("torch.")
    if isinstance(answer, (torch.Tensor, numpy.ndarray, numpy.generic)):
        return _written(answer.tolist())
    if isinstance(answer, numbers.Integral) and int(answer).bit_length() > MAX_BITS:
        raise NoAnswer("a number of thousands of digits is no answer to a prediction")
    if isinstance(answer, numbers.Integral) and abs(answer) >= 1 << 53:
        return str(int(answer))
    if isinstance(answer, numbers.Real):
        return _number(float(answer))
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(_written(item) for item in answer)}]"
    raise NoAnswer(
        f"a value of type {type(answer).__name__} is no answer to a prediction; "
        f"use numbers, None, True, False, text or lists of those"
    )


def _number(value: float) -> str:
    # Whole numbers keep all their digits: 1000001 paths are not a million.
    rounded = value if value.is_integer() else float(f"{value:.5g}")
    return str(int(rounded)) if rounded.is_integer() else f"{value:.5g}"


def answer_digests(exercise: str, variant: int, answers: list) -> list:
    """One salted digest for each normalised answer; the same answer elsewhere has another digest."""
    return [_digest(exercise, variant, number, answer) for number, answer in enumerate(answers)]


def _digest(exercise, variant, number, answer) -> str:
    salt = f"{exercise}/{variant}/{number}".encode()
    return hashlib.blake2b(answer.encode(), key=hashlib.sha256(salt).digest(), digest_size=16).hexdigest()
