"""Equal answers have one written form, unequal ones do not, and none stands in clear."""

import math

import numpy
import pytest
import torch
from autogradlab.predictable import NoAnswer, answer_digests, normalise
from hypothesis import given
from hypothesis import strategies as st

EQUAL = [
    [
        42,
        42.0,
        "42",
        "42.0",
        " 42 ",
        "+42",
        "4.2e1",
        torch.tensor(42.0),
        torch.tensor(42),
        numpy.int8(42),
        numpy.float32(42),
    ],
    [0, -0.0, 0.0, "0", "-0"],
    [1 / 3, 0.33333, torch.tensor(1 / 3), ".33333", numpy.float64(1 / 3)],
    [99999.99999, 100000, "1e5"],
    [True, numpy.bool_(True), torch.tensor(True), "True", " true "],
    [None, "None", "none"],
    [(2, 3), [2, 3], torch.Size([2, 3]), torch.tensor([2, 3]), numpy.array([2.0, 3.0]), ["2", 3.0]],
    [torch.float32, "float32", "torch.float32", "Float32"],
    [torch.device("cpu"), "cpu", "CPU"],
    ["MulBackward0", "mulbackward0", "  MulBackward0 "],
    ["two words", "two  words", "Two\nWords"],
    [math.nan, torch.tensor(math.nan), "nan"],
    [math.inf, "inf"],
    [10**20, "100000000000000000000"],
]


@pytest.mark.parametrize("answers", EQUAL, ids=lambda answers: str(answers[0]))
def test_equal_answers_have_one_form(answers):
    assert len({normalise(answer) for answer in answers}) == 1


def test_unequal_answers_have_different_forms():
    forms = [normalise(answers[0]) for answers in EQUAL]
    forms += map(normalise, [1, 0.33334, [2, 3, 4], [[2, 3]], [], "", "two", [None], [True], 1000001, 1000002])
    forms += [normalise(2**53 + 1), normalise(2**53 + 2), normalise(True and "yes"), normalise(False)]
    assert len(set(forms)) == len(forms)


def test_a_truth_value_is_no_number():
    assert normalise(True) != normalise(1)
    assert normalise(None) != normalise(0) != normalise(False)


@given(st.integers(-(10**25), 10**25))
def test_whole_numbers_keep_all_their_digits(number):
    assert normalise(number) == str(number)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_number_as_text_is_that_number(number):
    assert normalise(repr(number)) == normalise(number)


def cycle():
    itself = []
    itself.append(itself)
    return itself


@pytest.mark.parametrize("answer", [{"a": 1}, {1, 2}, 1j, object(), [1, {}], b"x", ..., cycle(), lambda: 0], ids=type)
def test_what_no_prediction_can_be_is_refused(answer):
    with pytest.raises(NoAnswer, match="is no answer to a prediction"):
        normalise(answer)


def test_the_same_answer_has_another_digest_elsewhere():
    digests = {
        digest
        for exercise in ("first", "second")
        for variant in (1, 2)
        for digest in answer_digests(exercise, variant, ["42", "42"])
    }
    assert len(digests) == 8
    assert answer_digests("first", 1, ["42"]) == answer_digests("first", 1, ["42", "7"])[:1]
    assert answer_digests("first", 1, ["42"]) != answer_digests("first", 1, ["43"])


def test_a_number_of_thousands_of_digits_is_no_answer():
    with pytest.raises(NoAnswer, match="thousands of digits"):
        normalise(10**5000)
    assert normalise(10**40) == str(10**40)
