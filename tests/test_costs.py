"""Costs are counted exactly, and watching leaves no trace."""

import gc
import weakref

import numpy
import pytest
import torch
from autogradlab.costs import Meter, parameters_in
from torch import nn

FLOAT = 4


def test_a_graph_holds_what_it_saved_until_backward():
    w = torch.randn(3, requires_grad=True)
    x = torch.randn(7, 3)
    with Meter() as meter:
        meter.exclude([w, x])
        loss = ((x * w) ** 2).sum()
        # x, and the product that the power saved.
        assert meter.graph_bytes == (7 * 3 + 7 * 3) * FLOAT
        loss.backward()
        assert meter.graph_bytes == 0
    assert meter.peak_bytes == (7 * 3 + 7 * 3) * FLOAT


def test_a_storage_that_is_saved_twice_counts_once():
    w = torch.randn(5, requires_grad=True)
    with Meter() as meter:
        meter.exclude(w)
        y = w * 2
        z = y.exp() * y[1:3].sum() * y
        assert meter.graph_bytes < 5 * 5 * FLOAT
    del z


def test_dropping_the_result_frees_the_graph():
    w = torch.randn(4, requires_grad=True)
    with Meter() as meter:
        y = (w * 2).exp()
        assert meter.graph_bytes == 4 * FLOAT
        del y
        assert meter.graph_bytes == 0


@pytest.mark.parametrize("function", [torch.exp, torch.sigmoid, torch.softmax, torch.square], ids=lambda f: f.__name__)
def test_a_watched_result_is_freed_like_an_unwatched_one(function):
    w = torch.randn(4, requires_grad=True)
    with Meter():
        result = function(w, 0) if function is torch.softmax else function(w)
        alive = weakref.ref(result)
        del result
    assert alive() is None


def test_without_recording_nothing_is_held():
    w = torch.randn(4, requires_grad=True)
    with Meter() as meter, torch.no_grad():
        kept = [(w * 2).exp() for _ in range(3)]
    assert meter.peak_bytes == 0
    assert len(kept) == 3


def test_the_parameters_of_a_module_made_inside_are_left_out():
    x = torch.randn(2, 3)
    with Meter() as meter:
        first, second = nn.Linear(3, 5, bias=False), nn.Linear(5, 1, bias=False)
        loss = second(first(x)).sum()
        # x, and the hidden layer, but no weight.
        assert meter.graph_bytes == (2 * 3 + 2 * 5) * FLOAT
        loss.backward()


def test_a_freed_parameter_does_not_hide_what_takes_its_place():
    with Meter() as meter:
        for _ in range(20):
            meter.exclude(torch.randn(1000, requires_grad=True))
        w = torch.randn(1000, requires_grad=True)
        kept = [(w * 2).exp() for _ in range(20)]
        assert meter.graph_bytes == 20 * 1000 * FLOAT
    del kept


def test_a_sparse_tensor_may_be_saved():
    matrix = torch.eye(3).to_sparse()
    w = torch.randn(3, 2, requires_grad=True)
    with Meter() as meter:
        loss = torch.sparse.mm(matrix, w).sum()
        assert meter.graph_bytes == 2 * 3 * 8 + 3 * FLOAT
        loss.backward()
    assert meter.graph_bytes == 0


READS = {
    "item": lambda t: t[0].item(),
    "float": lambda t: float(t[0]),
    "bool": lambda t: bool(t[0] > 0),
    "if": lambda t: 1 if t[0] > 0 else 2,
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: t.numpy(),
    "asarray": lambda t: numpy.asarray(t),
    "int": lambda t: int(t[0]),
    "format": lambda t: f"{t[0]:.3f}",
}


@pytest.mark.parametrize("name", READS)
def test_each_read_by_python_counts_once(name):
    tensor = torch.randn(4)
    with Meter() as meter:
        READS[name](tensor)
    assert meter.syncs == 1


def test_computing_is_no_read():
    tensor = torch.randn(4)
    with Meter() as meter:
        tensor.sum().detach().clone().view(1).add_(1)
        _ = tensor.shape, len(tensor), tensor.dtype
    assert meter.syncs == 0


def test_operations_count_forward_and_backward_but_not_what_watching_adds():
    w = torch.randn(3, requires_grad=True)

    def count(steps):
        with Meter() as meter:
            for _ in range(steps):
                torch.autograd.grad((w * 2).exp().sum(), w)
        return meter.operations

    assert count(4) - count(3) == count(3) - count(2) > 0
    with Meter() as meter:
        (torch.ones(3) * 2).exp()
    assert meter.operations == 3
    with Meter() as meter:
        kept = w.exp()
    assert meter.operations == 1
    del kept


def test_a_gradient_of_a_gradient_is_the_same_when_it_is_watched():
    def third():
        w = torch.tensor(2.0, requires_grad=True)
        value = w.exp() * w**3
        for _ in range(3):
            (value,) = torch.autograd.grad(value, w, create_graph=True)
        return value.item()

    plain = third()
    with Meter():
        assert third() == plain


def test_watching_ends_with_the_block():
    before = torch.Tensor.tolist, torch.Tensor.numpy
    with pytest.raises(KeyError), Meter() as meter:
        raise KeyError
    assert (torch.Tensor.tolist, torch.Tensor.numpy) == before
    assert not torch._C._autograd._top_saved_tensors_default_hooks(False)
    operations = meter.operations
    nn.Linear(2, 2)(torch.ones(1, 2)).sum().item()
    assert meter.operations == operations and meter.syncs == 0


def test_bytes_are_given_back_when_the_graph_outlives_the_meter():
    w = torch.randn(4, requires_grad=True)
    with Meter() as meter:
        y = w.exp()
    assert meter.graph_bytes == 4 * FLOAT
    del y
    gc.collect()
    assert meter.graph_bytes == 0


def test_meters_within_meters_count_each_for_itself():
    w = torch.randn(4, requires_grad=True)
    with Meter() as outer:
        a = w.exp()
        with Meter() as inner:
            b = a.exp()
            b.tolist()
    assert (inner.operations, inner.syncs) == (1, 1)
    assert outer.operations >= 2
    assert outer.syncs == 1


def test_counts_are_plain_numbers():
    with Meter() as meter:
        torch.ones(2).sum().item()
    assert meter.counts() == {
        "graph_bytes": 0,
        "peak_bytes": 0,
        "syncs": 1,
        "transfers": 0,
        "transfer_bytes": 0,
        "operations": 3,
    }


def test_parameters_are_found_in_containers_modules_and_optimizers():
    w, v = torch.ones(1, requires_grad=True), torch.ones(1)
    module = nn.Linear(2, 1)
    optimizer = torch.optim.SGD([w], lr=0.1)
    assert [id(p) for p in parameters_in([{"a": (w, v)}, w * 2])] == [id(w)]
    assert len(parameters_in([module])) == 2
    assert parameters_in((optimizer,)) == [w]
