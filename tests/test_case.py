"""A case is the same on every machine, and its draws keep away from what would hide a mistake."""

import math

import numpy
import pytest
import torch
from autogradlab.case import Case, derived_seed
from hypothesis import given, settings
from hypothesis import strategies as st


def case(index=0, seed=0, kinds=5, **options) -> Case:
    return Case("some_exercise", seed, index, kinds, **options)


seeds = st.integers(0, 2**31)


def draw_everything(case):
    return (
        case.normal(2, 3).tolist(),
        case.uniform(4).tolist(),
        case.integers(0, 9, 5).tolist(),
        case.integer(1, 6),
        case.number(-1, 1),
        case.choice("abc"),
        case.permutation(6),
        case.size(2, 9),
    )


@settings(max_examples=50)
@given(seeds, st.integers(0, 100))
def test_the_same_case_draws_the_same_again(seed, index):
    assert draw_everything(case(index, seed)) == draw_everything(case(index, seed))


def test_exercise_seed_and_index_make_different_cases():
    cases = [Case(name, seed, index, 5) for name in ("a", "b") for seed in (0, 1) for index in (0, 1)]
    assert len({repr(draw_everything(case)) for case in cases}) == 8


def test_the_draws_are_those_of_every_other_machine():
    assert derived_seed("some_exercise", 0, 0) == 2235949129
    draws = draw_everything(case())
    assert draws[0][0][0] == pytest.approx(1.1056046)
    assert draws[1][0] == pytest.approx(0.3977850)
    assert draws[2:] == ([8, 2, 8, 0, 6], 4, -0.378, "a", [5, 3, 4, 1, 2, 0], 6)


def test_the_process_streams_are_not_touched():
    before = torch.get_rng_state(), numpy.random.get_state()[1].tolist()
    draw_everything(case())
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == numpy.random.get_state()[1].tolist()


@settings(max_examples=100)
@given(seeds)
def test_normal_draws_keep_away_from_zero_and_from_large_numbers(seed):
    values = case(seed=seed).normal(20).abs()
    assert ((values >= 0.2) & (values <= 3.2001)).all()


@settings(max_examples=100)
@given(seeds)
def test_other_draws_keep_their_ranges(seed):
    one = case(seed=seed)
    assert ((one.uniform(20, low=2.0, high=3.0) >= 2) & (one.uniform(20, low=2.0, high=3.0) <= 3)).all()
    assert set(one.integers(3, 6, 40).tolist()) <= {3, 4, 5}
    assert one.integer(3, 5) in (3, 4, 5)
    number = one.number(-2, 2)
    assert -2 <= number <= 2 and math.isclose(number, round(number, 3))
    assert sorted(one.permutation(5)) == [0, 1, 2, 3, 4]


@settings(max_examples=100)
@given(seeds)
def test_sizes_of_one_case_are_all_different(seed):
    one = case(seed=seed)
    sizes = [one.size(2, 8) for _ in range(7)]
    assert sorted(sizes) == [2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(ValueError, match="every size from 2 to 8 is taken in this case; widen the range"):
        one.size(2, 8)


def test_tensors_have_the_dtype_and_device_of_the_case_and_are_leaves():
    one = case(dtype="float64", device="meta")
    for tensor in (one.normal(2, requires_grad=True), one.uniform(2, requires_grad=True)):
        assert tensor.dtype is torch.float64 and tensor.device.type == "meta"
        assert tensor.is_leaf and tensor.requires_grad
    assert one.integers(0, 2, 3).dtype is torch.int64
    assert one.normal(dtype=torch.float16).dtype is torch.float16
    assert case().normal().shape == ()


def test_draws_do_not_depend_on_the_default_dtype_or_device():
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            tensor = case().normal(2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert tensor.dtype is torch.float32 and tensor.device.type == "cpu"


def test_the_kind_repeats_after_the_visible_cases():
    assert [case(index, kinds=3).kind for index in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_only_plain_facts_are_noted():
    one = case()
    one.note(steps=3, names=["a"], bounds={"low": 1.5}, none=None)
    assert one.facts["steps"] == 3
    for fact in ((1, 2), torch.ones(1), {1: 2}, [object()]):
        with pytest.raises(TypeError, match="the fact x is no plain data"):
            one.note(x=fact)


def test_calls_are_counted():
    one = case()
    double = one.counted("double", lambda x, y=1: x * 2 * y)
    assert one.calls == {"double": 0}
    assert [double(1), double(2, y=3)] == [2, 12]
    assert one.calls == {"double": 2}


def test_an_attempt_gives_the_value_or_the_exception():
    one = case()
    assert one.attempt(int, "7") == 7
    error = one.attempt(int, "x")
    assert isinstance(error, ValueError) and error.__traceback__ is None


def test_an_attempt_does_not_hold_what_ends_the_process_or_the_case():
    def leave():
        raise SystemExit

    with pytest.raises(SystemExit):
        case().attempt(leave)


def test_over_multiplies_in_the_scaled_runs_only():
    assert case().over("steps", 3) == 3
    scaled = case(scale={"steps": 4})
    assert scaled.over("steps", 3) == 12 and scaled.over("rows", 3) == 3
    assert scaled.scales == {"steps": 3, "rows": 3}


FACTOR = 10


def tell_tale(tensor, count=2, *rest, flag=True, **options):
    """Its name and its words tell what is wrong with it."""
    total = 0
    shadow = [item * 2 for item in rest]

    def inner(value):
        nonlocal total
        total = total + value * FACTOR
        return total

    for number in range(count):
        inner(number)
    try:
        return tensor.sum() / 0 if flag is None else (total, shadow, sorted(options))
    except ZeroDivisionError as error:
        return str(error)


def test_a_specimen_does_what_the_function_does_under_other_names():
    specimen = case().specimen(tell_tale)
    assert specimen(None, 3, 5, 6, b=1, a=2) == tell_tale(None, 3, 5, 6, b=1, a=2)
    assert specimen(torch.ones(2), flag=None) == tell_tale(torch.ones(2), flag=None)
    code = specimen.__code__
    told = {specimen.__name__, *code.co_varnames, *code.co_cellvars, specimen.__doc__, code.co_filename}
    assert not told & {"tell_tale", "tensor", "total", "shadow", "inner", "number", "count", "value"}
    assert specimen.__doc__ is None
    assert "tell_tale" not in specimen.__qualname__


def test_two_cases_scramble_differently():
    names = {case(index).specimen(tell_tale).__name__ for index in range(5)}
    assert len(names) == 5


def test_a_specimen_keeps_the_names_by_which_it_must_be_called():
    def with_keyword(*, strength):
        return strength * 2

    assert case().specimen(with_keyword)(strength=2) == 4


def test_what_is_no_function_is_no_specimen():
    with pytest.raises(TypeError, match="a specimen is made of a function that a file defines"):
        case().specimen(type("Made", (), {}))
    with pytest.raises(TypeError, match="a specimen is made of a function that a file defines"):
        case().specimen(lambda x: x)
