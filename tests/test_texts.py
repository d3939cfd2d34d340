"""Values in messages are short, the same in every run, and shown whatever they are."""

import math

import numpy
import pytest
import torch
from autogradlab.texts import number_text, value_text
from torch import nn


class Evil:
    def __repr__(self):
        raise RuntimeError("no")

    def __getattr__(self, name):
        raise RuntimeError(name)


class Plain:
    __module__ = "cell"


def cycle():
    itself = [1]
    itself.append(itself)
    return itself


def optimizer(kind=torch.optim.SGD, **options):
    return kind([torch.ones(1, requires_grad=True)], **options)


TEXTS = [
    (None, "None"),
    (3, "3"),
    (3.0, "3.0"),
    (0.30000001192092896, "0.3"),
    (1e-12, "1e-12"),
    (1e20, "1e+20"),
    (math.nan, "nan"),
    (-math.inf, "-inf"),
    ("a\n b", "'a\\n b'"),
    ([1.0, (2.0000000001,), {"a": 0.1}], "[1.0, (2.0,), {'a': 0.1}]"),
    ([], "[]"),
    ((), "()"),
    (list(range(12)), "[0, 1, 2, 3, 4, 5, 6, 7, … 4 more]"),
    ([[[[[[1]]]]]], "[[[[[…]]]]]"),
    (cycle(), "[1, [1, [1, [1, […]]]]]"),
    (numpy.float64(0.5), "np.float64(0.5)" if numpy.__version__ >= "2" else "0.5"),
    (torch.tensor(1.5), "tensor(1.5000)"),
    (torch.tensor([[1.0], [2.0]]), "tensor([[1.], [2.]])"),
    (nn.Parameter(torch.ones(1)), "Parameter([1.], requires_grad=True)"),
    (torch.ones(5, 6), "a tensor of shape (5, 6)"),
    (torch.ones(5, 6, dtype=torch.int32), "a tensor of shape (5, 6), int32"),
    (nn.Parameter(torch.ones(5, 6)), "a Parameter of shape (5, 6)"),
    ([torch.ones(3, 3), torch.ones(2)], "[a tensor of shape (3, 3), tensor([1., 1.])]"),
    (torch.ones(1).expand(10**13), "a tensor of shape (10000000000000,)"),
    (torch.ones(2, device="meta"), "a tensor of shape (2,)"),
    (nn.Linear(2, 3), "Linear(in_features=2, out_features=3, bias=True)"),
    (nn.Sequential(nn.Linear(2, 3), nn.ReLU()), "Sequential(Linear, ReLU)"),
    (torch.nn.functional.cross_entropy, "cross_entropy"),
    (len, "len"),
    (lambda: 0, "a function"),
    (Plain, "<class 'cell.Plain'>"),
    (Plain(), "<cell.Plain object>"),
    (Evil(), "<Evil whose repr raises RuntimeError>"),
    ([Evil()], "<list whose repr raises RuntimeError>"),
    (torch.float32, "torch.float32"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_a_value_has_one_short_line(value, text):
    assert value_text(value) == text


def test_an_optimizer_shows_the_numbers_that_it_was_given():
    assert value_text(optimizer(lr=0.1)) == "SGD(lr=0.1)"
    assert value_text(optimizer(lr=0.1, momentum=0.9)) == "SGD(lr=0.1, momentum=0.9)"


def test_a_text_is_cut_at_the_limit():
    assert value_text("x" * 100_000_000, 10) == "'xxxxxxxx…"
    assert len(value_text(["word" * 10] * 100)) == 300
    assert value_text("x" * 8, 10) == "'xxxxxxxx'"


def test_numbers_have_seven_digits_and_floats_show_that_they_are():
    assert [number_text(value) for value in (1, 1.0, 123456789.0, 1 / 3, True, -2.0, 1e-9)] == [
        "1",
        "1.0",
        "1.234568e+08",
        "0.3333333",
        "True",
        "-2.0",
        "1e-09",
    ]
