"""Answers that are data: brought to one written form, and turned into salted digests so that none stands in clear."""

import hashlib
import numbers

import numpy
import torch


class NoAnswer(ValueError):
    """An answer of a kind that no prediction has."""


def normalise(answer) -> str:
    """One written form for equal answers: 42, 42.0 and tensor(42.) are one, as are (2, 3), [2, 3] and torch.Size([2, 3])."""
    if answer is None or isinstance(answer, (bool, numpy.bool_)):
        return str(None if answer is None else bool(answer))
    if isinstance(answer, str):
        return " ".join(answer.split()).removeprefix("torch.").casefold()
    if isinstance(answer, torch.dtype):
        return str(answer).removeprefix("torch.")
    if isinstance(answer, (torch.Tensor, numpy.ndarray, numpy.generic)):
        return normalise(answer.tolist())
    if isinstance(answer, numbers.Real):
        value = float(answer)
        return f"{value + 0.0:.5g}"
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(normalise(item) for item in answer)}]"
    raise NoAnswer(
        f"a {type(answer).__name__} is no answer to a prediction; use numbers, None, True, False, text or lists of those"
    )


def answer_digests(exercise: str, variant: int, answers: list) -> list:
    """One salted digest for each normalised answer; the same answer elsewhere has another digest."""
    return [_digest(exercise, variant, number, answer) for number, answer in enumerate(answers)]


def _digest(exercise, variant, number, answer) -> str:
    salt = f"{exercise}/{variant}/{number}".encode()
    return hashlib.blake2b(answer.encode(), key=hashlib.sha256(salt).digest(), digest_size=16).hexdigest()
