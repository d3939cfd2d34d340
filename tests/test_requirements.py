"""Every facet is seen to differ when it differs, in words that a learner can use; and only then."""

import math

import numpy
import pytest
import torch
from autogradlab import requirements
from autogradlab.encoding import pack, unpack
from autogradlab.exercises import AtLeast, AtMost, Flat, Holds, Prediction, Rate, Same, exercise
from autogradlab.observation import observe
from autogradlab.recorded import predicted_once, prediction
from autogradlab.requirements import Facet, close
from hypothesis import given
from hypothesis import strategies as st
from torch import nn


def once(program, case):
    return {"y": program(case.normal(2, requires_grad=True), case.normal(3))}


def exercise_of(requirement, script=once, **options):
    if not isinstance(requirement, tuple):
        requirement = (requirement,)
    conditions = [Same("it is right", one) if isinstance(one, str) else one for one in requirement]
    options.setdefault("arguments", ("w", "x"))
    return exercise(*conditions, **options)(script)


def difference(requirement, yours, expected, script=once, **options):
    """Where two programs part, compared as grading does: after a trip through bytes."""
    one = exercise_of(requirement, script, **options)
    mine, theirs = (unpack(pack(observe(one, program, 0, 0))) for program in (yours, expected))
    assert one.requirements[0].difference(one, theirs, theirs) is None
    assert one.requirements[0].alike_once(one, mine, mine, theirs)
    return one.requirements[0].difference(one, mine, theirs)


def words(*arguments, **options):
    found = difference(*arguments, **options)
    return found and found.words


def given_back(value):
    return lambda w, x: value


def nothing(w, x):
    return None


def silently(program):
    """The program, returning nothing."""

    def silent(w, x):
        program(w, x)

    return silent


def tensor(*numbers, **options):
    return torch.tensor(numbers[0] if len(numbers) == 1 else list(numbers), **options)


# ----------------------------------------------------------------------------------------- values, shapes, kinds

VALUES = [
    (1.0, 1.5, "y is 1.0, expected 1.5"),
    (0.1, 0.30000001192092896, "y is 0.1, expected 0.3"),
    (1.00000001, 1.00004, "y is 1.0, expected 1.00004"),
    (3, 4, "y is 3, expected 4"),
    (True, False, "y is True, expected False"),
    (True, 1, "y is a bool, expected an int"),
    (1, 1.0, "y is an int, expected a float"),
    ("a", "b", "y is 'a', expected 'b'"),
    (None, 1.0, "y is None, expected a float"),
    (0.0, None, "y is 0.0, expected None"),
    (1j, 2j, "y is 1j, expected 2j"),
    (b"a", b"b", "y is b'a', expected b'b'"),
    (2**70, 2**71, "y is 1180591620717411303424, expected 2361183241434822606848"),
    ([1], [1, 2], "y has 1 item, expected 2 items"),
    ([1, 2], [1, 3], "y[1] is 2, expected 3"),
    ((1, 2), [1, 2], "y is a tuple, expected a list"),
    ({"a": [1, (2, 3)]}, {"a": [1, (2, 4)]}, "y['a'][1][1] is 3, expected 4"),
    ({"a": 1}, {"a": 1, "b": 2}, "y has no key 'b'"),
    ({"a": 1, "c": 3}, {"a": 1}, "y has the key 'c', which was not expected"),
    ({1, 2}, {1, 3}, "y is {1, 2}, expected {1, 3}"),
    (frozenset({1}), {1}, "y is a frozenset, expected a set"),
    (torch.Size([2, 3]), (2, 4), "y[1] is 3, expected 4"),
    (torch.float32, torch.float64, "y is torch.float32, expected torch.float64"),
    (torch.device("cpu"), torch.device("meta"), "y is device(type='cpu'), expected device(type='meta')"),
    (slice(1), slice(2), "y is slice(None, 1, None), expected slice(None, 2, None)"),
    (range(3), [0, 1, 2], "y is a range, expected a list"),
    (numpy.float64(1.0), 1.0, "y is a NumPy float64, expected a float"),
    (numpy.float32(1.0), numpy.float64(1.0), "y is a NumPy float32, expected a NumPy float64"),
    (numpy.float64(1.0), numpy.float64(2.0), "y is 1.0, expected 2.0"),
    (print, 1, "y is a builtin_function_or_method, expected an int"),
    (nn.ReLU(), nn.Tanh(), "y is a ReLU, expected a Tanh"),
    (tensor(1.0), tensor(1.5), "y is 1.0, expected 1.5"),
    (tensor([3.0]), tensor([4.0]), "y[0] is 3.0, expected 4.0"),
    (tensor(1.0, 2.0), tensor(1.0, 4.0), "y: 1 of 2 values differ; at [1] it is 2.0, expected 4.0"),
    (tensor(1, 2), tensor(1, 4), "y: 1 of 2 values differ; at [1] it is 2, expected 4"),
    (tensor(True, False), tensor(True, True), "y: 1 of 2 values differ; at [1] it is False, expected True"),
    (tensor(1j, 2.0), tensor(1j, 3.0), "y: 1 of 2 values differ; at [1] it is (2+0j), expected (3+0j)"),
    (torch.ones(2, 3), torch.zeros(2, 3), "y: 6 of 6 values differ; at [0, 0] it is 1.0, expected 0.0"),
    (torch.ones(2), torch.ones(1, 2), "y has shape (2,), expected (1, 2)"),
    (torch.ones(()), torch.ones(1), "y has shape (), expected (1,)"),
    (torch.ones(0, 3), torch.ones(3, 0), "y has shape (0, 3), expected (3, 0)"),
    (torch.ones(2).double(), torch.ones(2), "y has dtype float64, expected float32"),
    (
        torch.ones(2).to(torch.uint16),
        2 * torch.ones(2).to(torch.uint16),
        "y: 2 of 2 values differ; at [0] it is 1, expected 2",
    ),
    (1.0, tensor(1.0), "y is a float, expected a tensor"),
    (numpy.ones(2), torch.ones(2), "y is a NumPy array, expected a tensor"),
    (torch.eye(2).to_sparse(), torch.eye(2), "y is a sparse tensor, expected a tensor"),
    (
        torch.eye(2).to_sparse(),
        2 * torch.eye(2).to_sparse(),
        "y[1]: 2 of 2 values differ; at [0] it is 1.0, expected 2.0",
    ),
    (torch.ones(2, device="meta"), torch.ones(2), "y is a tensor on meta, expected a tensor"),
    (numpy.ones(2), numpy.ones(3), "y is an array of shape (2,), float64, expected an array of shape (3,), float64"),
    (numpy.ones(2), numpy.zeros(2), "y: 2 of 2 values differ; at [0] it is 1.0, expected 0.0"),
    (numpy.arange(2), numpy.zeros(2, dtype=int), "y is array([0, 1]), expected array([0, 0])"),
]


@pytest.mark.parametrize(("yours", "expected", "said"), VALUES, ids=[said for _, _, said in VALUES])
def test_a_wrong_value_is_named_and_a_right_one_is_not(yours, expected, said):
    assert words("returned.y", given_back(yours), given_back(expected)) == said
    assert words("returned", given_back(yours), given_back(expected)) == said
    assert words("returned.y", given_back(yours), given_back(yours)) is None


def test_yours_stands_beside_expected():
    found = difference("returned.y", given_back(tensor(1.0, 2.0)), given_back(tensor(1.0, 4.0)))
    assert (found.yours, found.expected) == ("tensor([1., 2.])", "tensor([1., 4.])")
    found = difference("returned.y", given_back(numpy.ones(2)), given_back(torch.ones(2)))
    assert (found.yours, found.expected) == ("array([1., 1.])", "tensor([1., 1.])")
    found = difference("returned.y", given_back(torch.ones(100)), given_back(torch.zeros(100)))
    assert (found.yours, found.expected) == ("1.0 at [0]", "0.0 at [0]")


def test_numbers_that_look_the_same_are_shown_in_full():
    yours, expected = (tensor(value, dtype=torch.float64) for value in (1.0, 1.00000001))
    found = difference("returned.y", given_back(yours), given_back(expected), dtypes=("float64",))
    assert found.words == "y is 1.0, expected 1.00000001"


@pytest.mark.parametrize("yours", [tensor(1.0, 2.0, 3.0), tensor([[1.0], [2.0]]), tensor(1.0)])
def test_values_alone_differ_where_the_shapes_do_even_if_nobody_asked_for_shapes(yours):
    said = words("returned.y.values", given_back(yours), given_back(tensor(1.0, 2.0)))
    assert said == f"y has shape {tuple(yours.shape)}, expected (2,)"


def test_what_could_not_be_written_down_is_not_right():
    cycle = []
    cycle.append(cycle)
    assert words("returned.y", given_back(cycle), given_back([1])) == (
        "y is something that could not be written down, expected a list"
    )
    one = exercise_of("returned.y")
    mine = observe(one, given_back(cycle), 0, 0)
    assert one.requirements[0].difference(one, mine, mine) is not None


# ------------------------------------------------------------------------------------------------- tolerance


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_tolerance_is_that_of_the_dtype(dtype):
    allowed = {"float32": 1e-5, "float64": 1e-10}[dtype]
    for factor, close_enough in ((0.9, True), (3.0, False)):
        yours = tensor(1.0 + factor * allowed, dtype=getattr(torch, dtype))
        expected = tensor(1.0, dtype=getattr(torch, dtype))
        assert (words("returned.y", given_back(yours), given_back(expected), dtypes=(dtype,)) is None) is close_enough
        assert (
            words("returned.y", given_back(1 + factor * allowed), given_back(1.0), dtypes=(dtype,)) is None
        ) is close_enough


def test_an_exercise_may_have_a_tolerance_of_its_own():
    options = {"tolerance": {"float32": 0.1}}
    assert words("returned.y", given_back(1.05), given_back(1.0), **options) is None
    assert words("returned.y", given_back(1.5), given_back(1.0), **options) is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_a_last_bit_is_no_mistake_in_a_small_dtype(dtype):
    right = torch.tensor([1.0, 1.0], dtype=dtype)
    raw = right.view(torch.uint8).view(torch.int16 if dtype.itemsize == 2 else torch.uint8)
    near, far = ((raw + step).view(torch.uint8).view(dtype) for step in (1, 4))
    assert words("returned.y", given_back(near), given_back(right)) is None
    assert words("returned.y", given_back(far), given_back(right)) is not None


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, 1.0]


@pytest.mark.parametrize("form", [float, tensor, lambda v: tensor(v, dtype=torch.float16), numpy.float32, numpy.array])
@pytest.mark.parametrize("yours", SPECIAL)
@pytest.mark.parametrize("expected", SPECIAL)
def test_nan_is_right_only_where_the_reference_has_it_and_infinity_too(form, yours, expected):
    agree = yours == expected or (yours != yours and expected != expected)
    assert (words("returned.y", given_back(form(yours)), given_back(form(expected))) is None) is agree
    assert (words("returned.y", given_back([form(yours)]), given_back([form(expected)])) is None) is agree


def test_nan_in_a_complex_number_is_no_better():
    assert words("returned.y", given_back(complex(1, math.nan)), given_back(1 + 1j)) is not None
    assert words("returned.y", given_back(tensor(complex(math.nan, 1))), given_back(tensor(1 + 1j))) is not None


def test_minus_zero_is_zero():
    assert words("returned.y", given_back([-0.0, tensor(-0.0)]), given_back([0.0, tensor(0.0)])) is None


@given(st.floats(-1e300, 1e300), st.floats(0, 0.9))
def test_closeness_is_relative_to_the_expected_size(number, share):
    slack = 1e-5 * (1 + abs(number))
    assert close(number + share * slack, number, 1e-5)
    assert not close(number + 3 * slack, number, 1e-5)


@pytest.mark.parametrize(
    "same", [lambda t: t, lambda t: t.clone(), lambda t: t.T.contiguous().T, lambda t: t[:, :1].expand(2, 3)]
)
def test_how_a_tensor_lies_in_memory_is_not_its_value(same):
    base = torch.ones(2, 3)
    assert words("returned.y", given_back(same(base)), given_back(base)) is None


# ------------------------------------------------------------------------------------------------- aspects


def with_grad(value):
    def program(w, x):
        w.grad = value
        return w

    return program


def inference(w, x):
    with torch.inference_mode():
        return torch.ones(1)


ASPECTS = [
    (
        "returned.y.type",
        given_back(nn.Parameter(torch.ones(1))),
        given_back(torch.ones(1)),
        "y is a Parameter, expected a Tensor",
    ),
    ("returned.y.type", given_back([1.0, tensor(1.0)]), given_back([1.0, 2.0]), "y[1] is a tensor, expected a float"),
    ("returned.y.shape", lambda w, x: w, lambda w, x: w[None], "y has shape (2,), expected (1, 2)"),
    ("returned.y.dtype", lambda w, x: w.double(), lambda w, x: w, "y has dtype float64, expected float32"),
    ("returned.y.device", lambda w, x: w.to("meta")[None], lambda w, x: w, "y is a tensor on meta, expected a tensor"),
    ("returned.y.requires_grad", lambda w, x: w.detach(), lambda w, x: w, "y has requires_grad False, expected True"),
    ("returned.y.is_leaf", lambda w, x: w * 1, lambda w, x: w, "y has is_leaf False, expected True"),
    ("returned.y.grad_fn", lambda w, x: w * 1, lambda w, x: w + 1, "y has grad_fn MulBackward, expected AddBackward"),
    ("returned.y.grad_fn", lambda w, x: w.detach(), lambda w, x: w + 1, "y has grad_fn None, expected AddBackward"),
    (
        "returned.y.graph",
        lambda w, x: (w * 2).exp(),
        lambda w, x: w.exp(),
        "the graph behind y is ExpBackward, MulBackward, AccumulateGrad w, expected ExpBackward, AccumulateGrad w",
    ),
    (
        "returned.y.graph",
        lambda w, x: w.detach(),
        lambda w, x: w.exp(),
        "the graph behind y is no graph, expected ExpBackward, AccumulateGrad w",
    ),
    (
        "returned.y.graph",
        lambda w, x: w + 1 + w,
        lambda w, x: w + (w + 1),
        (
            "the graph behind y is AddBackward, AddBackward, AccumulateGrad w, "
            "expected AddBackward, AccumulateGrad w, AddBackward"
        ),
    ),
    (
        "returned.y.graph",
        lambda w, x: torch.unbind(w)[0] * 1,
        lambda w, x: torch.unbind(w)[1] * 1,
        "the graph behind y is connected differently",
    ),
    ("returned.y.memory", lambda w, x: w.clone(), lambda w, x: w.detach(), "y shares memory with nothing, expected w"),
    ("returned.y.memory", lambda w, x: w.detach(), lambda w, x: w.clone(), "y shares memory with w, expected nothing"),
    (
        "returned.y.memory",
        lambda w, x: [x, x[1:]],
        lambda w, x: [x, x[1:].clone()],
        "y[0] shares memory with x, y[1], expected x",
    ),
    (
        "returned.y.identity",
        lambda w, x: w.detach(),
        lambda w, x: w,
        "y is a new object, expected the same object as w",
    ),
    (
        "returned.y.identity",
        lambda w, x: [w, w],
        lambda w, x: [w, x],
        "y[1] is the same object as w, expected the same object as x",
    ),
    (
        "returned.y.identity",
        lambda w, x: [[1], [1]],
        lambda w, x: [[1]] * 2,
        "y[1] is a new object, expected the same object as y[0]",
    ),
    ("returned.y.grad", lambda w, x: w, with_grad(torch.zeros(2)), "y.grad is None, expected a tensor"),
    ("returned.y.grad", with_grad(torch.zeros(2)), lambda w, x: w, "y.grad is tensor([0., 0.]), expected None"),
    (
        "returned.y.version",
        lambda w, x: x.add_(1),
        lambda w, x: x + 1,
        "y has been edited in place 1 time, expected 0 times",
    ),
    (
        "returned.y.version",
        inference,
        lambda w, x: torch.ones(1),
        "y has been edited in place an unknown number of times, expected 0 times",
    ),
    (
        "arguments.w.grad",
        with_grad(torch.zeros(2)),
        lambda w, x: w,
        "w.grad after the call is tensor([0., 0.]), expected None",
    ),
    (
        "arguments.w.grad",
        with_grad(torch.ones(2)),
        with_grad(torch.zeros(2)),
        "w.grad after the call: 2 of 2 values differ; at [0] it is 1.0, expected 0.0",
    ),
    (
        "arguments.*.grad",
        with_grad(torch.zeros(2)),
        lambda w, x: w,
        "w.grad after the call is tensor([0., 0.]), expected None",
    ),
    ("arguments.x", lambda w, x: x.zero_()[0], lambda w, x: x.mul_(0)[0] * 0, None),
    (
        "arguments.x",
        lambda w, x: x.fill_(2.0),
        lambda w, x: x.fill_(3.0),
        "x after the call: 3 of 3 values differ; at [0] it is 2.0, expected 3.0",
    ),
    (
        "arguments",
        lambda w, x: x.fill_(2.0),
        lambda w, x: x.fill_(3.0),
        "x after the call: 3 of 3 values differ; at [0] it is 2.0, expected 3.0",
    ),
    (
        "arguments.x.version",
        lambda w, x: x.zero_().zero_(),
        lambda w, x: x.zero_(),
        "x after the call has been edited in place 2 times, expected 1 time",
    ),
    (
        "arguments.w.requires_grad",
        lambda w, x: w.requires_grad_(False),
        lambda w, x: w,
        "w after the call has requires_grad False, expected True",
    ),
]


@pytest.mark.parametrize(("facet", "yours", "expected", "said"), ASPECTS, ids=[f"{row[0]} {row[3]}" for row in ASPECTS])
def test_an_aspect_that_differs_is_named(facet, yours, expected, said):
    assert words(facet, yours, expected) == said


@pytest.mark.parametrize(
    ("facet", "yours", "expected"),
    [
        ("returned.y.shape", lambda w, x: w, lambda w, x: w * 2),
        ("returned.y.dtype", lambda w, x: w, lambda w, x: w[:1]),
        ("returned.y.type", lambda w, x: [1.0], lambda w, x: [2.0]),
        ("returned.y.grad_fn", lambda w, x: w * 2, lambda w, x: w * 3),
        ("returned.y.graph", lambda w, x: w.exp() * 2, lambda w, x: w.exp() * 3),
        ("returned.y.grad", with_grad(torch.ones(2)), with_grad(torch.ones(2))),
        ("returned.y.requires_grad", lambda w, x: w, lambda w, x: w * 2),
        ("returned.y.identity", lambda w, x: w * 2, lambda w, x: w.clone()),
        ("returned.y.memory", lambda w, x: w, lambda w, x: w.detach()[1:]),
        ("arguments.w.grad", lambda w, x: w.sum().backward(), silently(with_grad(torch.ones(2)))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_aspect_alone_says_nothing_about_the_others(facet, yours, expected):
    assert words(facet, yours, expected) is None


def test_arguments_are_named_by_the_call_after_which_they_differ():
    def script(program, case):
        x = torch.zeros(2)
        program(x, 1)
        program(x, 2)
        return {}

    said = "w after call 2: 2 of 2 values differ; at [0] it is 1.0, expected 0.0"
    assert words("arguments.w", lambda w, x: w.add_(x == 2), nothing, script) == said


def test_an_item_of_an_argument_is_named_before_the_moment():
    def script(program, case):
        program([torch.zeros(2)], 1)
        return {}

    said = "w[0] after the call: 2 of 2 values differ; at [0] it is 1.0, expected 0.0"
    assert words("arguments.w", lambda w, x: w[0].fill_(1), nothing, script) == said
    assert words("arguments.w", lambda w, x: w.append(1), nothing, script) == (
        "w after the call has 2 items, expected 1 item"
    )


def test_a_number_of_calls_that_differs_is_named():
    def script(program, case):
        while program(1, 2):
            pass
        return {}

    def times(count):
        left = [count]

        def program(w, x):
            left[0] -= 1
            return left[0] > 0

        return program

    assert words("arguments.w", times(1), times(3), script) == "there was 1 call with w, expected 3"
    assert words("arguments.w", times(3), times(1), script) == "there were 3 calls with w, expected 1"


# ------------------------------------------------------------------------------------------- modules, optimizers


def with_module(program, case):
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    case.watch(model=model)
    program(model, None)
    return {}


def with_optimizer(program, case):
    w = torch.ones(2, requires_grad=True)
    w.grad = torch.ones(2)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    case.watch(optimizer=optimizer)
    program(w, optimizer)
    return {}


OBJECTS = [
    (with_module, "arguments.model", lambda m, x: m.eval(), "model.training at the end is False, expected True"),
    (with_module, "arguments.model", lambda m, x: m[1].eval(), "model.1.training at the end is False, expected True"),
    (
        with_module,
        "arguments.model",
        lambda m, x: m[0].weight.data.zero_(),
        "model.0.weight at the end: 2 of 2 values differ; at [0, 0] it is 0.0, expected 0.5",
    ),
    (
        with_module,
        "arguments.model",
        lambda m, x: m[1].running_mean.add_(3),
        "model.1.running_mean[0] at the end is 3.0, expected 0.0",
    ),
    (
        with_module,
        "arguments.model",
        lambda m, x: m.pop(1),
        "the parameters of model at the end are 0.weight, 0.bias, expected 0.weight, 0.bias, 1.weight, 1.bias",
    ),
    (
        with_module,
        "arguments.model.requires_grad",
        lambda m, x: m[0].requires_grad_(False),
        "model.0.weight at the end has requires_grad False, expected True",
    ),
    (
        with_module,
        "arguments.model.grad",
        lambda m, x: setattr(m[0].bias, "grad", torch.zeros(1)),
        "model.0.bias.grad at the end is tensor([0.]), expected None",
    ),
    (
        with_optimizer,
        "arguments.optimizer",
        lambda w, o: o.step(),
        "optimizer.state at the end has the key 0, which was not expected",
    ),
    (
        with_optimizer,
        "arguments.optimizer",
        lambda w, o: o.param_groups[0].update(lr=0.2),
        "optimizer.param_groups[0]['lr'] at the end is 0.2, expected 0.1",
    ),
    (
        with_optimizer,
        "arguments.optimizer",
        lambda w, o: o.add_param_group({"params": [torch.ones(1)]}),
        "optimizer at the end has 2 parameter groups, expected 1 parameter group",
    ),
]


@pytest.mark.parametrize(("script", "facet", "yours", "said"), OBJECTS, ids=[row[3] for row in OBJECTS])
def test_what_happened_to_a_module_or_an_optimizer_is_named(script, facet, yours, said):
    assert words(facet, yours, nothing, script) == said
    assert words(facet, nothing, nothing, script) is None


def test_another_state_of_an_optimizer_is_named():
    def steps(count):
        return silently(lambda w, o: [o.step() for _ in range(count)])

    said = "optimizer.state[0]['momentum_buffer'] at the end: 2 of 2 values differ; at [0] it is 1.9, expected 1.0"
    assert words("arguments.optimizer", steps(2), steps(1), with_optimizer) == said


def test_an_option_that_another_version_of_torch_adds_is_no_difference():
    one = exercise_of("arguments.optimizer", with_optimizer)
    mine, theirs = (observe(one, nothing, 0, 0) for _ in range(2))
    mine["watched"]["tree"]["optimizer"]["groups"][0]["newest_option"] = True
    requirement = one.requirements[0]
    assert requirement.difference(one, mine, theirs) is None
    assert requirement.difference(one, theirs, mine) is None


# ------------------------------------------------------------------------------------------------- other parts


def with_tracked(program, case):
    loss = case.normal(2)
    case.track(loss=loss)
    program(loss, None)
    return {}


def with_counted(program, case):
    program(case.counted("step", lambda: 0), None)
    return {}


KEPT = []
NO_GRAD = silently(lambda w, x: torch.set_grad_enabled(False))
PARTS = [
    ("mode", once, NO_GRAD, "after the call grad mode is False, expected True"),
    ("mode.grad", once, NO_GRAD, "after the call grad mode is False, expected True"),
    ("mode.default", once, NO_GRAD, None),
    (
        "mode",
        once,
        lambda w, x: torch.set_default_dtype(torch.float64),
        "after the call default dtype is float64, expected float32",
    ),
    (
        "mode",
        once,
        silently(lambda w, x: torch.rand(1)),
        "after the call torch random stream is advanced, expected untouched",
    ),
    (
        "kept.loss",
        with_tracked,
        lambda w, x: KEPT.append(w),
        "loss is still alive after the result was dropped, expected freed",
    ),
    (
        "calls.step",
        with_counted,
        silently(lambda step, x: (step(), step())),
        "step was called 2 times, expected 0 times",
    ),
    ("calls.step", with_counted, silently(lambda step, x: step()), "step was called 1 time, expected 0 times"),
    ("printed", once, lambda w, x: print("hello"), "it printed 'hello\\n', expected ''"),
]


@pytest.mark.parametrize(("facet", "script", "yours", "said"), PARTS, ids=[f"{row[0]} {row[3]}" for row in PARTS])
def test_what_else_a_program_did_is_named(facet, script, yours, said):
    assert words(facet, yours, nothing, script) == said


def test_a_freed_object_that_should_have_been_kept_is_named():
    assert words("kept.loss", nothing, lambda w, x: KEPT.append(w), with_tracked) == (
        "loss is freed after the result was dropped, expected still alive"
    )


# ------------------------------------------------------------------------------------------------- exceptions


def raising(error):
    def program(w, x):
        raise error

    return program


def attempted(program, case):
    return {"y": case.attempt(program, 1, 2)}


class Special(KeyError):
    pass


def test_an_exception_is_a_difference_to_every_requirement():
    one = difference("returned.y", raising(KeyError("a")), given_back(1))
    assert (one.words, one.yours, one.expected) == (
        "it raised KeyError, expected no exception",
        "KeyError: 'a'",
        "no exception",
    )
    assert words("arguments.w", raising(KeyError("a")), given_back(1)) == "it raised KeyError, expected no exception"
    assert words("returned.y", given_back(1), raising(KeyError("a"))) == "it raised no exception, expected KeyError"
    assert (
        words("returned.y", raising(ValueError("a")), raising(KeyError("a")))
        == "it raised ValueError, expected KeyError"
    )


def test_the_same_exception_is_right_whatever_it_says():
    assert words("returned.y", raising(KeyError("a")), raising(KeyError("b"))) is None


@pytest.mark.parametrize("script", [once, attempted], ids=["raised", "attempted"])
def test_a_declared_set_of_exceptions_counts_as_one(script):
    def same(yours, expected, raises=(LookupError, ValueError)):
        return words(Same("it refuses", "returned.y", raises=raises), yours, expected, script) is None

    assert same(raising(IndexError()), raising(KeyError()))
    assert same(raising(ValueError()), raising(KeyError()))
    assert same(raising(Special()), raising(KeyError()), (KeyError,))
    assert not same(raising(TypeError()), raising(KeyError()))
    assert not same(given_back(1), raising(KeyError()))
    assert not same(raising(KeyError()), given_back(1))


@pytest.mark.parametrize("script", [once, attempted], ids=["raised", "attempted"])
def test_two_mistakes_are_one_whatever_a_declared_exception_says(script):
    def alike(raises, *messages):
        one = exercise(Same("it refuses", "returned.y", raises=raises), arguments=("w", "x"))(script)
        seen = [observe(one, raising(ValueError(message)), 0, 0) for message in messages]
        return one.requirements[0].alike_once(one, *seen, observe(one, given_back(1), 0, 0))

    assert alike((ValueError,), "shapes differ", "one shape, please")
    assert not alike((), "shapes differ", "one shape, please")
    assert alike((), "shape 3", "shape 4")


def test_an_exception_as_a_result_is_named():
    assert words("returned.y", raising(ValueError("v")), raising(KeyError("a")), attempted) == (
        "y is the exception ValueError, expected the exception KeyError"
    )
    assert words("returned.y", given_back(3), raising(KeyError("a")), attempted) == (
        "y is an int, expected the exception KeyError"
    )


def test_arguments_are_compared_after_an_expected_exception_too():
    def zeroing(w, x):
        x.zero_()
        raise ValueError

    for raises in ((), (ValueError,)):
        requirement = Same("it refuses and leaves x alone", "arguments.x", raises=raises)
        assert words(requirement, zeroing, raising(ValueError())).startswith("x after the call: 3 of 3 values differ")
        assert words(requirement, raising(ValueError()), raising(ValueError())) is None


# ------------------------------------------------------------------------------------------------- kinds


def sorted_view(value, facts):
    return sorted(value)


def test_a_view_compares_what_it_returns():
    def said(yours, view=sorted_view, **options):
        return words(Same("it is right", "returned.y", view=view), given_back(yours), given_back([1, 2]), **options)

    assert said([2, 1]) is None
    assert said([2, 3]) == "y comes to [2, 3], expected [1, 2]"
    assert said(7) == "y does not have the form that was asked for (TypeError: 'int' object is not iterable)"
    assert said([1.0, 2.0]) == "y comes to [1.0, 2.0], expected [1, 2]"
    assert said([2, 1], view=lambda value, facts: {"sum": torch.tensor(value).sum(), "all": set(value)}) is None
    assert said([2, 2], view=lambda value, facts: numpy.array(value)) == "y comes to [2, 2], expected [1, 2]"


def test_a_view_is_within_the_tolerance_and_reads_the_facts():
    def script(program, case):
        case.note(steps=2)
        return {"y": program(None, None)}

    view = Same("it is right", "returned.y", view=lambda value, facts: value[: facts["steps"]])
    assert words(view, given_back([1.0000001, 2.0, 9.0]), given_back([1.0, 2.0, 3.0]), script) is None
    assert (
        words(view, given_back([1.1, 2.0]), given_back([1.0, 2.0]), script)
        == "y comes to [1.1, 2.0], expected [1.0, 2.0]"
    )
    assert words(view, given_back([math.nan, 2.0]), given_back([1.0, 2.0]), script) is not None


def test_a_view_of_grads_and_modules_can_be_written():
    grads = Same(
        "the grad is right", "arguments.w.grad", view=lambda w, facts: None if w.grad is None else w.grad.sum()
    )
    assert words(grads, with_grad(torch.ones(2)), with_grad(torch.tensor([0.0, 2.0]))) is None
    assert words(grads, with_grad(torch.ones(2)), with_grad(torch.zeros(2))) == "w comes to 2.0, expected 0.0"
    names = Same("the names", "arguments.model", view=lambda model, facts: [*model.parameters])
    assert words(names, nothing, nothing, with_module) is None


def test_a_view_that_fails_on_the_reference_is_an_authors_mistake():
    one = exercise_of(Same("it is right", "returned.y", view=sorted_view))
    observation = observe(one, given_back(7), 0, 0)
    with pytest.raises(ValueError, match="'it is right': its view fails on what the reference does"):
        one.requirements[0].difference(one, observation, observation)


def test_a_view_of_something_huge_takes_no_memory():
    view = Same("it is right", "returned.y", view=lambda value, facts: value.sum())
    said = words(view, given_back(torch.ones(1).expand(10**13)), given_back(torch.ones(2)))
    assert said == (
        "y does not have the form that was asked for "
        "(EncodingError: a tensor of shape (10000000000000,) has too many elements)"
    )
    assert words("returned.y", given_back(torch.ones(1).expand(10**13)), given_back(torch.ones(2))) == (
        "y has shape (10000000000000,), expected (2,)"
    )


def test_a_predicate_judges_what_was_seen():
    def sums_to_one(seen, facts):
        return abs(sum(seen.returned["y"]) - 1) < 1e-6

    holds = Holds("the weights sum to one", sums_to_one, "returned.y")
    assert words(holds, given_back([0.25, 0.75]), given_back([0.5, 0.5])) is None
    found = difference(holds, given_back([0.5, 0.6]), given_back([0.5, 0.5]))
    assert (found.words, found.yours, found.expected) == (
        "not met: the weights sum to one",
        "y = [0.5, 0.6]",
        "for example y = [0.5, 0.5]",
    )
    assert words(holds, given_back(None), given_back([0.5, 0.5])) == (
        "it does not have the form that was asked for (TypeError: 'NoneType' object is not iterable)"
    )
    assert words(holds, raising(KeyError()), given_back([1.0])) == "it raised KeyError, expected no exception"


def test_a_predicate_sees_every_part():
    def script(program, case):
        case.note(limit=3)
        loss = case.normal(2)
        case.track(loss=loss)
        case.watch(step=[1])
        return {"y": program(case.counted("step", lambda: 1), loss)}

    def look(seen, facts):
        return (
            seen.returned["y"] == 1
            and seen.arguments[0]["x"].shape == (2,)
            and seen.watched["step"] == [1]
            and seen.calls == {"step": 1}
            and seen.kept == {"loss": False}
            and seen.printed == "hello\n"
            and seen.mode == {"grad mode": [True, False]}
            and seen.raised is None
            and seen.cost["syncs"] == 0
            and facts == {"limit": 3}
            and seen.observation["dtype"] == "float32"
        )

    def program(w, x):
        print("hello")
        torch.set_grad_enabled(False)
        return w()

    facets = ("returned", "arguments", "calls", "kept", "printed", "mode", "cost.syncs")
    assert words(Holds("everything is seen", look, *facets), program, program, script) is None


def reads(count):
    return silently(lambda w, x: [x[number].item() for number in range(count)])


def test_a_cost_is_bounded_from_above_and_below():
    most = AtMost("few reads", "cost.syncs", 1)
    assert words(most, reads(1), nothing) is None
    assert words(most, reads(2), nothing) == "reads of values by Python: 2, expected at most 1"
    least = AtLeast("some reads", "cost.syncs", lambda facts: 2)
    assert words(least, reads(2), reads(2)) is None
    found = difference(least, reads(1), reads(2))
    assert (found.words, found.yours, found.expected) == (
        "reads of values by Python: 1, expected at least 2",
        "1",
        "at least 2",
    )
    calls = AtMost("it is called once", "calls.step", 1)
    assert words(calls, silently(lambda step, x: (step(), step())), nothing, with_counted) == (
        "calls of step: 2, expected at most 1"
    )


def test_each_cost_has_a_name():
    def frugal(w, x):
        return w.detach()

    def hungry(w, x):
        (w.exp() * 2).exp().sum().item()
        return w.exp()

    names = {
        "cost.graph_bytes": "bytes that graphs hold at the end: 8, expected at most 0",
        "cost.peak_bytes": "bytes that graphs hold at their peak: 16, expected at most 0",
        "cost.syncs": "reads of values by Python: 1, expected at most 0",
        "cost.operations": "operations: ",
    }
    for facet, said in names.items():
        bound = observe(exercise_of(AtMost("little", facet, 0)), frugal, 0, 0)["cost"][facet[5:]]
        assert bound == 0 or facet == "cost.operations"
        assert words(AtMost("little", facet, bound), hungry, frugal).startswith(said)


def test_a_cost_that_cannot_be_measured_is_not_met():
    def shy(w, x):
        if torch._C._autograd._top_saved_tensors_default_hooks(False):
            raise RuntimeError

    said = "reads of values by Python could not be measured: it fails when it is watched"
    assert words(AtMost("few reads", "cost.syncs", 1), shy, nothing) == said


def test_where_an_exception_is_right_its_cost_is_not_asked():
    assert words(AtMost("few reads", "cost.syncs", 1), raising(KeyError()), raising(KeyError())) is None
    assert words(AtMost("few reads", "cost.syncs", 1), raising(KeyError()), nothing) is not None


def in_steps(program, case):
    return {"y": program(case.normal(2, requires_grad=True), case.over("steps", 2))}


def test_a_flat_cost_does_not_grow_with_the_case():
    def sum_at_the_end(w, steps):
        return sum((w * number).exp().sum() for number in range(steps)).item()

    def sum_as_it_goes(w, steps):
        return sum((w * number).exp().sum().item() for number in range(steps))

    flat = Flat("the memory is flat", "cost.peak_bytes", over="steps")
    assert words(flat, sum_as_it_goes, sum_as_it_goes, in_steps) is None
    found = words(flat, sum_at_the_end, sum_as_it_goes, in_steps)
    assert found == (
        "bytes that graphs hold at their peak, with 1, 2 and 4 times as many steps: 16 → 32 → 64, expected no growth"
    )


def test_what_a_loop_keeps_of_its_last_step_is_no_growth():
    def one_behind(w, steps):
        for number in range(steps):
            loss = (w * number).exp().sum()
        return loss.item()

    def script(program, case):
        return {"y": program(case.normal(2, requires_grad=True), case.over("steps", 1))}

    assert words(Flat("flat", "cost.peak_bytes", over="steps"), one_behind, one_behind, script) is None


def test_a_rate_is_met_by_a_share_of_all_cases():
    def script(program, case):
        return {"y": program(case.index, None)}

    def right_up_to(count):
        return lambda w, x: w if w < count else -1

    one = exercise_of(Rate("mostly right", "returned.y", at_least=0.8), script, visible=5)
    expected = [observe(one, lambda w, x: w, 0, index) for index in range(10)]

    def met(count):
        yours = [observe(one, right_up_to(count), 0, index) for index in range(10)]
        return one.requirements[0].met(one, yours, expected)

    assert [met(count) for count in (10, 9, 8, 7, 0)] == [True, True, True, False, False]


def judging(x):
    """A specimen: whether it is right stands in its last line, not in its name."""
    return x * 2


def test_a_rate_judges_specimens_without_telling_names():
    def script(program, case):
        specimen = case.specimen(judging)
        return {"y": program(specimen, None), "name": specimen.__name__}

    def by_running(w, x):
        return w(3) == 6

    def by_name(w, x):
        return "judging" in w.__name__

    rate = Rate("judges rightly", "returned.y", at_least=0.9)
    assert words(rate, by_running, by_running, script) is None
    assert words(rate, by_name, by_running, script) == "y is False, expected True"


# ------------------------------------------------------------------------------------------------- names


def several(program, case):
    w = case.normal()
    model = nn.Linear(1, 1)
    model.weight.data.fill_(float(program(w, 3)))
    return {"late_ones": [program(w, 1), program(w, 2)], "at_the_end": program(w, 3), "the_model": model}


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("returned.late_ones", "[1] of late ones is 4, expected 2"),
        ("returned.at_the_end", "at the end is 9, expected 3"),
        ("returned.the_model", "weight[0, 0] of the model is 9.0, expected 3.0"),
        (
            Same("as seen", "returned.late_ones", view=lambda value, facts: sum(value)),
            "late ones comes to 5, expected 3",
        ),
        (Holds("at most two", lambda seen, facts: max(seen.returned["late_ones"]) < 3, "returned.late_ones"), None),
    ],
    ids=["item", "result", "module", "view", "predicate"],
)
def test_the_names_of_a_case_script_reach_learners_as_words(requirement, said):
    found = difference(requirement, lambda w, n: n * n, lambda w, n: n, several)
    if said is None:
        assert (found.yours, found.expected) == ("late ones = [1, 4]", "for example late ones = [1, 2]")
    else:
        assert found.words == said
    assert "_" not in found.words + found.yours + found.expected


def test_an_author_can_say_what_a_result_is_called():
    labels = {"late_ones": "your list of late steps"}
    found = difference("returned.late_ones", lambda w, n: n * n, lambda w, n: n, several, labels=labels)
    assert found.words == "[1] of your list of late steps is 4, expected 2"


def test_counts_costs_and_objects_have_words_too():
    def script(program, case):
        step, loss = case.counted("go_back", lambda: None), case.normal(3)
        case.track(first_loss=loss)
        program(step, loss)
        return {}

    def twice(step, loss, kept=[]):  # noqa: B006 (it is to outlive the call)
        kept.append(loss)
        step(), step()

    once = given_back(None)
    assert words("calls.go_back", twice, once, script) == "go back was called 2 times, expected 0 times"
    assert words(AtMost("few", "calls.go_back", 1), twice, once, script) == "calls of go back: 2, expected at most 1"
    assert words("kept.first_loss", twice, once, script).startswith("first loss is still alive after")


def test_a_difference_that_nobody_reads_is_not_written_down(monkeypatch):
    one = exercise_of("returned.y")
    mine, theirs = (observe(one, given_back(torch.full((50,), number)), 0, 0) for number in (1.0, 2.0))
    written = []
    monkeypatch.setattr(requirements, "value_text", lambda value, limit: written.append(value) or "a text")
    found = one.requirements[0].difference(one, mine, theirs)
    assert not one.requirements[0].met(one, [mine], [theirs]) and not written
    assert (found.yours, found.expected, len(written)) == ("1.0 at [0]", "2.0 at [0]", 2)


# ------------------------------------------------------------------------------------------------- predictions


def meter(variant):
    return f"What does {variant} do?"


def predicted(requirement, yours, expected):
    one = exercise(requirement, variants=100)(meter)
    mine = prediction(one, 7, [str(answer) for answer in yours]) | {"answer_texts": [repr(a) for a in yours]}
    return requirement.difference(one, mine, predicted_once(one, lambda variant: expected, 7))


def test_a_prediction_compares_its_own_items():
    every = Prediction("all answers")
    assert predicted(every, [1, 2, 3], [1, 2, 3]) is None
    found = predicted(every, [1, 5, 6], [1, 2, 3])
    assert (found.words, found.yours, found.expected) == (
        "2 of your 3 answers are not what happens: numbers 2 and 3",
        "answer 2: 5; answer 3: 6",
        "what running it shows",
    )
    assert predicted(every, [1, 2, 6], [1, 2, 3]).words == "1 of your 3 answers is not what happens: number 3"
    assert predicted(every, [1, 2], [1, 2, 3]).words == "there are 2 answers, expected 3"
    some = Prediction("the first two", slice(0, 2))
    assert predicted(some, [1, 2, 99], [1, 2, 3]) is None
    assert predicted(some, [1, 99, 3], [1, 2, 3]) is not None


def test_the_answers_do_not_stand_in_the_observation():
    one = exercise(Prediction("all answers"), variants=100)(meter)
    observation = predicted_once(one, lambda variant: [41, "MulBackward"], 7)
    assert b"MulBackward" not in pack(observation) and b"41" not in pack(observation["facts"])
    assert predicted_once(one, lambda variant: [41, "MulBackward"], 8)["answers"] != observation["answers"]


def test_models_are_alike_only_with_as_many_answers():
    requirement = Prediction("the first", slice(0, 1))
    one = exercise(requirement, variants=100)(meter)
    short, long = (predicted_once(one, lambda variant, a=answers: a, 7) for answers in ([1], [1, 2]))
    assert not requirement.alike_once(one, short, long, long)
    assert requirement.alike_once(one, long, predicted_once(one, lambda variant: [1, 3], 7), long)


# ------------------------------------------------------------------------------------------------- naming


def alike(facet, yours, other, script=once):
    one = exercise_of(facet, script)
    mine, theirs, right = (observe(one, program, 0, 0) for program in (yours, other, given_back(-1)))
    return one.requirements[0].alike_once(one, mine, theirs, right)


def test_two_programs_are_alike_where_they_did_the_same():
    assert alike("returned.y", given_back(3.0), given_back(3.0000001))
    assert not alike("returned.y", given_back(3.0), given_back(4.0))
    assert alike("returned.y", given_back(math.nan), given_back(math.nan))


def test_two_exceptions_are_alike_where_they_say_the_same_but_for_numbers():
    def alike_raised(yours, other):
        results = {alike("returned.y", raising(yours), raising(other), script) for script in (once, attempted)}
        assert len(results) == 1
        return results.pop()

    assert alike_raised(ValueError("size 3 at 0x7f"), ValueError("size 14 at 0x8e"))
    assert not alike_raised(ValueError("no w"), ValueError("no x"))
    assert not alike_raised(ValueError("no w"), KeyError("no w"))
    assert not alike("returned.y", raising(ValueError("no w")), given_back(3))


def test_two_costs_are_alike_where_both_are_met_or_missed():
    most = AtMost("few reads", "cost.syncs", 1)
    assert alike(most, reads(2), reads(3))
    assert alike(most, reads(0), reads(1))
    assert not alike(most, reads(1), reads(2))


# ------------------------------------------------------------------------------------------------- paths

PATHS = [
    ("nothing", "'nothing' is not a part; use one of returned, raised, arguments, mode, cost, kept, calls, printed"),
    ("returned.y.z", "after a name only an aspect may follow"),
    ("returned.y.value", "after a name only an aspect may follow; aspects are device, dtype, grad, grad_fn"),
    ("cost.time", "a cost is one of graph_bytes, peak_bytes, syncs"),
    ("cost", "a cost is one of graph_bytes, peak_bytes, syncs"),
    ("mode.gradmode", "a mode is one of inference mode, grad mode"),
    ("printed.text", "printed has no parts; use 'printed'"),
    ("raised.type", "raised has no parts; use 'raised'"),
]


@pytest.mark.parametrize(("path", "message"), PATHS, ids=[path for path, _ in PATHS])
def test_a_path_that_names_nothing_is_refused(path, message):
    with pytest.raises(ValueError, match=f"facet {path!r}: {message}"):
        Facet.parse(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Same("", "returned"),
        lambda: Same(" ", "returned"),
        lambda: Same("words", "returned", weight=0),
        lambda: Same("words", "cost.syncs"),
        lambda: Same("words", "returned.a", "returned.b", view=sorted_view),
        lambda: AtMost("words", "returned.a", 3),
        lambda: AtMost("words", "calls", 3),
        lambda: Flat("words", "calls.step", over="steps"),
        lambda: Rate("words", "returned.a", at_least=0),
        lambda: Rate("words", "returned.a", at_least=1.5),
    ],
)
def test_a_requirement_that_contradicts_itself_is_refused(make):
    with pytest.raises(ValueError, match=r"requirement|a requirement needs words"):
        make()
