"""The bytes that graphs keep alive are counted exactly, and counting leaves no trace."""

import base64
import collections
import gc
import re
import subprocess
import sys
import textwrap
import threading
import weakref
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from autogradlab import accelerator, memory
from autogradlab.memory import growth, held_by, watch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

FLOAT = 4
DOCS = Path(__file__).parents[1] / "docs"
STACKING = ("_push_saved_tensors_default_hooks", "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable")


def stacking():
    return [getattr(torch._C._autograd, name) for name in STACKING]


UNTOUCHED = stacking()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    assert stacking() == UNTOUCHED
    assert not torch._C._autograd._top_saved_tensors_default_hooks(False)
    assert torch._C._autograd._saved_tensors_hooks_is_enabled()


def tracked(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))


@pytest.fixture
def sim():
    reason = accelerator.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    return accelerator.register(note=False)


def loss_of(model, batch=256):
    return ((model(torch.randn(batch, 64)) - torch.randn(batch, 1)) ** 2).mean()


def after_backward(loss):
    loss.backward()
    return loss


# -------------------------------------------------------------------------------------- what the lesson's table says


@pytest.mark.parametrize(("batch", "kib"), [(256, 577.0), (2048, 4616.0)])
def test_a_logged_loss_holds_what_the_lesson_says(model, batch, kib):
    with watch() as watched:
        loss = loss_of(model, batch)
    assert watched.now / 1024 == watched.peak / 1024 == kib
    assert held_by(loss).bytes / 1024 == kib
    assert f"{kib} KiB" in held_by(loss).text
    assert f"{kib} KiB" in watched.text


def test_growth_gives_the_lessons_four_ways_to_log(model):
    variants = {
        "loss": lambda loss: loss,
        "loss after backward()": after_backward,
        "loss.detach()": torch.Tensor.detach,
        "loss.item()": torch.Tensor.item,
    }
    grown = growth(lambda keep: keep(loss_of(model)), steps=4, variants=variants)
    step = 577 * 1024
    assert grown.held == {
        "loss": [step, 2 * step, 3 * step, 4 * step],
        "loss after backward()": [0, 0, 0, 0],
        "loss.detach()": [0, 0, 0, 0],
        "loss.item()": [0, 0, 0, 0],
    }
    # The graphs share the nodes of the six parameters.
    assert grown.nodes == {
        "loss": 4 * 11 + 6,
        "loss after backward()": 4 * 11 + 6,
        "loss.detach()": 0,
        "loss.item()": 0,
    }
    assert grown.peak == {label: 4 * step if label == "loss" else step for label in variants}


def test_backward_frees_what_was_saved_and_leaves_the_nodes(model):
    loss = loss_of(model)
    before = held_by(loss)
    loss.backward()
    after = held_by(loss)
    assert (before.bytes, after.bytes) == (577 * 1024, 0)
    assert before.nodes == after.nodes == 17
    assert after.text.startswith("Nodes only, 17 nodes:")


def test_a_number_and_a_detached_loss_have_no_graph(model):
    loss = loss_of(model)
    for value in (loss.detach(), loss.item(), [loss.detach().numpy(), None, "loss"], torch.ones(2), tracked(2)):
        assert (held_by(value).bytes, held_by(value).nodes) == (0, 0)
        assert held_by(value).text == "No graph: nothing is kept."


def test_retain_graph_keeps_everything(model):
    loss = loss_of(model)
    loss.backward(retain_graph=True)
    assert held_by(loss).bytes == 577 * 1024


def test_one_backward_for_eight_parts_needs_eight_times_the_memory(model):
    def peak(at_once):
        total = 0.0
        with watch() as watched:
            for _ in range(8):
                loss = loss_of(model)
                if at_once:
                    total = total + loss
                else:
                    loss.backward()
                del loss
        return watched.peak / 1024

    assert peak(at_once=False) == 577
    assert peak(at_once=True) == 8 * 577


def test_a_running_sum_and_a_moving_average_are_seen_to_grow():
    w = tracked()
    total = 0.0
    for i in range(50):
        total = total + w * i
    # A sum and a product in each step, and the leaf.
    assert held_by(total).nodes == 101
    average, nodes = w.detach(), []
    for _ in range(3):
        average = 0.9 * average + 0.1 * w
        nodes.append(held_by(average).nodes)
    assert nodes == [3, 6, 9]


# ------------------------------------------------------------------------------------------------ exactly which bytes


def test_views_of_a_storage_count_once_and_in_full():
    w = tracked(100)
    with watch() as watched:
        y = w * 2
        parts = [y[:10].exp(), y[50:].sin(), y.view(10, 10).cos(), y.square()]
    # y, which three of them saved as views, and what exp() made.
    assert watched.now == held_by(parts).bytes == (100 + 10) * FLOAT


def test_a_small_view_keeps_its_whole_storage():
    big = torch.randn(1000)
    assert held_by(big[:2] * tracked(2)).bytes == 1000 * FLOAT


def test_two_nodes_that_share_a_storage_are_told():
    w = tracked(5)
    y = w.exp()
    kinds = {kind.name: kind for kind in held_by(y.sin()).kinds}
    # sin() saved its input, which is what exp() made and saved.
    assert (kinds["SinBackward0"].bytes, kinds["SinBackward0"].again) == (5 * FLOAT, 0)
    assert (kinds["ExpBackward0"].bytes, kinds["ExpBackward0"].again) == (0, 5 * FLOAT)
    assert "counts once" in held_by(y.sin()).text


def test_the_rows_add_up(model):
    kept = held_by([loss_of(model), loss_of(model)])
    assert sum(kind.bytes for kind in kept.kinds) == kept.bytes == 2 * 577 * 1024
    assert sum(kind.nodes for kind in kept.kinds) == kept.nodes
    assert kept.text.splitlines()[-1].split() == ["all", "28", "16", str(kept.bytes), str(4 * 256 * 256 * FLOAT)]


def test_parameters_count_nowhere():
    frozen, w, x = nn.Linear(3, 4).requires_grad_(False), tracked(4, 2), torch.randn(5, 3, requires_grad=True)
    with watch() as watched:
        # Saved: the weights, w, a detached w, and of tensors that count the hidden layer and what sin() was given.
        loss = (frozen(x) @ w * (w.detach().sum() + frozen(x).sum())).sin().sum()
    hidden, product, factor = 5 * 4, 5 * 2, 1
    assert watched.now == held_by(loss).bytes == (hidden + 2 * product + factor) * FLOAT


def test_a_parameter_that_is_saved_only_detached_has_to_be_told():
    w = tracked(5)
    with watch() as watched:
        told = w * w.detach()
        assert watched.now == 5 * FLOAT
        watched.exclude(w)
        assert watched.now == 0
        del told
    assert watched.now == 0
    # Of a graph that exists, every parameter is known.
    assert held_by(w * w.detach()).bytes == 0


def test_plain_numbers_count_nowhere():
    w = tracked(7, dtype=torch.float64)
    with watch() as watched:
        losses = [w * 2.5, w / 3, 2 * w, w * complex(1, 2)]
        kept = w * torch.tensor(2.5, dtype=torch.float64)
    assert held_by(losses).bytes == 0
    assert watched.now == held_by(kept).bytes == 8


def test_a_saved_tensor_that_was_changed_in_place_is_still_counted():
    w = tracked(6)
    y = w * 2
    loss = y.sin()
    y.add_(1)
    assert held_by(loss).bytes == 6 * FLOAT


def test_sparse_tensors_count_with_their_indices():
    w = tracked(3, 2)
    with watch() as watched:
        loss = torch.sparse.mm(torch.eye(3).to_sparse(), w).sum()
    assert watched.now == held_by(loss).bytes == 2 * 3 * 8 + 3 * FLOAT


def test_the_graph_of_a_gradient_counts_too():
    w = tracked(10)
    with watch() as watched:
        (w.grad,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
        assert held_by(w).bytes == watched.now > 0
        (gradient,) = torch.autograd.grad(w.exp().sum(), w, create_graph=True)
        assert held_by([w, gradient]).bytes == watched.now > held_by(w).bytes
    w.grad = None
    del gradient
    assert watched.now == 0


class Keeping(torch.autograd.Function):
    """Saves one tensor as it should, and hangs one on `ctx`."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 2)
        ctx.hung = {"here": x * 3}
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def test_what_a_function_hangs_on_ctx_is_kept_even_after_backward():
    w = tracked(10)
    y = Keeping.apply(w)
    assert held_by(y).bytes == 20 * FLOAT
    y.sum().backward()
    assert held_by(y).bytes == 10 * FLOAT


def test_a_deep_and_a_wide_graph_are_no_problem():
    x = tracked(2)
    deep, wide = x, x
    for _ in range(5000):
        deep = deep + 1
    for _ in range(40):
        wide = wide + wide
    assert (held_by(deep).nodes, held_by(wide).nodes) == (5001, 41)
    with watch() as watched:
        for _ in range(5000):
            x = x.sin()
        assert watched.now == 4999 * 2 * FLOAT  # all but the leaf
    assert "5000" in watched.by_node().text


OPERATIONS = {
    "exp": lambda a, b: a.exp(),
    "sin": lambda a, b: a.sin(),
    "product": lambda a, b: a * b,
    "sum": lambda a, b: a + b.mean(),
    "relu": lambda a, b: a.relu(),
    "softmax": lambda a, b: a.softmax(0),
    "part": lambda a, b: a[:3].cos(),
    "flip and join": lambda a, b: torch.cat([a.flip(0), b])[: a.numel()],
    "in place": lambda a, b: a.clone().mul_(b[: a.numel()]) if a.numel() <= b.numel() else a.clone().exp_(),
    "constant": lambda a, b: a * torch.ones(a.shape),
    "number": lambda a, b: 3 * a,
    "detached": lambda a, b: a * a.detach(),
    "picked": lambda a, b: a[torch.tensor([0, 1, 1])],
    "packed": lambda a, b: with_halving(a.tanh),
    "custom": lambda a, b: Power.apply(a),
}


def halving():
    """Hooks that keep every tensor in half precision."""
    return saved_tensors_hooks(lambda tensor: (tensor.dtype, tensor.detach().half()), lambda kept: kept[1].to(kept[0]))


def with_halving(operation):
    with halving():
        return operation()


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient * ctx.saved_tensors[0]


step = st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 99), st.integers(0, 99))


@settings(max_examples=200)
@given(st.lists(step, min_size=1, max_size=12))
def test_watching_a_program_and_walking_its_graph_give_the_same_bytes(program):
    tensors = [torch.linspace(-1, 1, 4, requires_grad=True), torch.linspace(0.1, 1, 4)]
    most = 0
    with watch() as watched:
        watched.exclude(tensors)
        for name, first, second in program:
            a, b = tensors[first % len(tensors)], tensors[second % len(tensors)]
            if name not in ("flip and join", "product") or a.shape == b.shape:
                tensors.append(OPERATIONS[name](a, b))
            assert watched.now == held_by(tensors).bytes
            most = max(most, watched.now)
        assert watched.peak == most
        del a, b
        tensors.clear()
        assert watched.now == 0


def test_the_nodes_of_all_that_is_held_are_found():
    tensors = [torch.linspace(-1, 1, 4, requires_grad=True), torch.linspace(0.1, 1, 4)]
    with watch() as watched:
        tensors += [operation(*tensors) for operation in OPERATIONS.values()]
    *_, last = watched.by_node().text.splitlines()
    assert last.split()[3] == str(watched.now) == str(held_by(tensors).bytes)
    assert "no node found" not in watched.by_node().text


# ---------------------------------------------------------------------------------------------- it leaves no trace


def test_what_is_watched_is_freed_like_what_is_not():
    model = nn.Linear(3, 4)
    with watch() as watched:
        # Of a tracked input's layer, the weight is saved too.
        loss = model(tracked(2, 3)).exp().sum()
        found = [weakref.ref(one) for one in (loss, model.weight, model)]
        storage = StorageWeakRef(model.weight.untyped_storage())
        shown = [held_by(loss), watched.text, watched.by_node(), watched.by_line(), held_by(model)]
        del loss, model
    gc.collect()
    assert [one() for one in found] == [None] * 3
    assert storage.expired()
    assert watched.now == 0
    assert len(shown) == 5


def test_the_memory_of_a_parameter_is_given_back_and_does_not_hide_what_takes_its_place():
    with watch() as watched:
        for _ in range(20):
            tracked(1000).exp()
        w = tracked(1000)
        kept = [(w * 2).exp() for _ in range(20)]
    assert watched.now == 20 * 1000 * FLOAT
    del kept


def test_what_growth_kept_is_dropped():
    made = []

    def step():
        loss = tracked(3).exp().sum()
        made.append(weakref.ref(loss))
        return loss

    grown = growth(step, steps=3)
    assert grown.held == {"held": [12, 24, 36]}
    assert [one() for one in made] == [None] * 3


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.usefixtures("sim")  # its allocator is asked too
@pytest.mark.parametrize("mode", [Calls, Operators])
def test_a_mode_of_the_programs_own_sees_nothing_of_it(mode):
    x = torch.randn(4, 3)

    def names(watching):
        model = nn.Linear(3, 2)
        # PyTorch detaches every result that it saves; the hooks do that instead, unseen.
        with mode() as seen:
            if not watching:
                loss = (model(x).exp() * 2).sum()
            else:
                with watch() as watched:
                    loss = (model(x).exp() * 2).sum()
            if watching:
                length = len(seen.names)
                held_by([loss, model])
                watched.by_node(), watched.by_line(), watched.text
                assert len(seen.names) == length
            loss.backward()
        return [name for name in seen.names if name != "aten.detach.default"]

    assert names(watching=True) == names(watching=False)


def test_gradients_flags_and_versions_stay_as_they_are(model):
    x, y = torch.randn(8, 64, requires_grad=True), torch.randn(8, 1)

    def run():
        model.zero_grad()
        x.grad = None
        loss = ((model(x) - y) ** 2).mean()
        held_by(loss)
        loss.backward()
        return [loss.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]

    plain = run()
    versions = [parameter._version for parameter in model.parameters()]
    with watch() as watched:
        same = run()
        watched.by_node()
    assert all(torch.equal(a, b) for a, b in zip(plain, same, strict=True))
    assert [parameter._version for parameter in model.parameters()] == versions
    assert all(parameter.is_leaf and parameter.requires_grad for parameter in model.parameters())
    assert torch.is_grad_enabled()


def test_a_saved_tensor_changed_in_place_raises_as_it_does_unwatched():
    def wrong():
        w = tracked(3)
        y = w.exp()
        y.add_(1)
        y.sum().backward()

    with pytest.raises(RuntimeError) as unwatched:
        wrong()
    with pytest.raises(RuntimeError) as in_the_block, watch():
        wrong()
    beginning = "one of the variables needed for gradient computation has been modified by an inplace operation"
    assert str(unwatched.value).startswith(beginning)
    assert str(in_the_block.value).startswith(beginning)
    assert "is at version 1; expected version 0 instead" in str(in_the_block.value)


def test_a_class_of_tensors_with_operators_of_its_own_stays_itself():
    a = TwoTensor(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).requires_grad_()

    def gradient():
        (found,) = torch.autograd.grad((a * 2).exp().sum(), a)
        return found.a.tolist(), found.b.tolist()

    plain = gradient()
    with watch():
        assert gradient() == plain


@pytest.mark.parametrize("order", [2, 3])
def test_higher_derivatives_are_the_same_when_watched(order):
    def derivative():
        w = torch.tensor(2.0, requires_grad=True)
        value = w.exp() * w**3
        for _ in range(order):
            (value,) = torch.autograd.grad(value, w, create_graph=True)
        return value.item()

    plain = derivative()
    with watch():
        assert derivative() == plain


def test_an_exception_ends_the_watching_and_passes_on():
    with pytest.raises(KeyError), watch() as watched:
        loss = tracked(3).exp()
        raise KeyError
    assert watched.now == 3 * FLOAT
    kept = tracked(3).exp()
    assert watched.now == 3 * FLOAT
    del loss, kept
    gc.collect()  # the traceback's frame
    assert watched.now == 0


def test_the_figures_follow_graphs_that_outlive_the_block():
    with watch() as watched:
        loss = (tracked(3).exp() ** 2).sum()
    assert watched.now == 2 * 0 + 3 * FLOAT
    loss.backward()
    assert (watched.now, watched.peak) == (0, 3 * FLOAT)


def test_graphs_from_before_the_block_do_not_count():
    before = tracked(100).exp()
    with watch() as watched:
        after = before.sum().exp()
    assert watched.now == FLOAT
    assert held_by(after).bytes == 101 * FLOAT


# ------------------------------------------------------------------------ other hooks, other watches, other threads


def test_a_watch_within_a_watch_counts_for_both():
    w = tracked(5)
    with watch() as outer:
        a = w.exp()
        with watch() as inner:
            b = (w * 2).exp()
            assert (outer.now, inner.now) == (40, 20)
            assert held_by([a, b]).bytes == 40
        c = (w * 3).exp()
    assert (outer.now, inner.now) == (60, 20)
    assert [one.by_node().text.splitlines()[-1].split()[1:4] for one in (outer, inner)] == [
        ["3", "3", "60"],
        ["1", "1", "20"],
    ]
    b.sum().backward()
    assert (outer.now, inner.now) == (40, 0)
    assert w.grad is not None
    del a, c


def test_watches_may_end_in_another_order_than_they_began():
    w = tracked(5)
    first, second = watch(), watch()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    kept = w.exp()
    second.__exit__(None, None, None)
    assert second.now == 20
    del kept


def test_a_watch_is_entered_once_at_a_time():
    with watch() as watched, pytest.raises(RuntimeError, match="counting already"), watched:
        pass
    with watched:
        kept = tracked(2).exp()
    assert watched.now == 2 * FLOAT
    del kept


@pytest.mark.parametrize("outside", [True, False])
def test_hooks_of_the_programs_own_stay_in_force_and_what_they_keep_is_counted(outside):
    w = torch.tensor([0.5, 1.001, 2.0], requires_grad=True)

    def run():
        loss = (w * 2).sin().sum()
        held = held_by(loss).bytes
        (gradient,) = torch.autograd.grad(loss, w)
        return gradient, held

    with halving():
        expected, held = run()
    assert held == 3 * 2
    first, second = (halving(), watch()) if outside else (watch(), halving())
    with first as a, second as b:
        gradient, held = run()
    assert held == 3 * 2
    assert (a or b).peak == 3 * 2
    assert torch.equal(gradient, expected)
    assert not torch.equal(gradient, 2 * (w * 2).cos())


def test_hooks_inside_two_watches_count_for_both():
    w = tracked(8)
    with watch() as outer, watch() as inner, save_on_cpu():
        loss = (w * 2).sin().sum()
        loss_again = (w * 3).sin()
    assert outer.now == inner.now == 2 * 8 * FLOAT
    loss.backward()
    assert outer.now == inner.now == 8 * FLOAT
    del loss_again


def test_a_graph_kept_by_hooks_without_a_tensor_says_so():
    packed = []
    with saved_tensors_hooks(lambda tensor: packed.append(tensor.detach()) or len(packed) - 1, packed.__getitem__):
        loss = (tracked(3) * 2).sin()
    kept = held_by(loss)
    assert (kept.bytes, kept.hidden) == (0, 1)
    assert "the bytes cannot be seen" in kept.text


def test_looking_at_a_checkpoint_does_not_run_it():
    runs = []

    def segment(x):
        runs.append(1)
        return x.exp().sin()

    with watch() as watched:
        loss = checkpoint(segment, tracked(4) * 2, use_reentrant=False).sum()
        assert watched.now == 4 * FLOAT
        # No edge leads from the loss to what keeps the input.
        assert (held_by(loss).bytes, held_by(loss).hidden) == (0, 2)
        assert "no node found" in watched.by_node().text
    assert runs == [1]


def test_a_checkpoint_holds_only_its_input_and_needs_the_rest_for_a_moment():
    x = torch.randn(100, requires_grad=True)

    def segment(x):
        return x.exp().sin().exp()

    def run(forward):
        with watch() as watched:
            loss = forward(forward(x * 2)).sum()
            held = watched.now
            loss.backward()
        gradient, x.grad = x.grad, None
        return held, watched.peak, gradient

    held, peak, gradient = run(segment)
    # Of each of the two: what the first exp() made, and the second, which is the last that is saved.
    assert held == peak == 2 * 2 * 100 * FLOAT
    held, peak, same = run(lambda x: checkpoint(segment, x, use_reentrant=False))
    # The two inputs; then what one of the two saves.
    assert held == 2 * 100 * FLOAT
    assert peak == (2 + 2) * 100 * FLOAT
    assert torch.equal(gradient, same)


def test_transforms_of_torch_func_work_inside():
    x = torch.tensor([1.0, 2.0])
    with watch() as watched:
        assert torch.func.grad(lambda x: (x**3).sum())(x).tolist() == [3.0, 12.0]
        jacobian = torch.func.vmap(torch.func.jacrev(torch.sin))(x.unsqueeze(1))
        assert jacobian.shape == (2, 1, 1)
        with pytest.raises(RuntimeError, match="don't yet support"), halving():
            torch.func.grad(lambda x: (x**3).sum())(x)
        with pytest.raises(ZeroDivisionError):
            torch.func.grad(lambda x: 1 / 0)(x)
        kept = tracked(3).exp()
    assert watched.now == 3 * FLOAT
    del kept


def test_another_threads_graphs_do_not_count_but_another_thread_may_free():
    w = tracked(5)
    results = []

    def elsewhere(mine):
        results.append(w.exp())
        with watch() as own:
            results.append(w.exp())
        results.append(own.now)
        mine.pop().sum().backward()

    with watch() as watched:
        mine = [w.exp()]
        thread = threading.Thread(target=elsewhere, args=(mine,))
        thread.start()
        thread.join()
        assert watched.now == 0
        assert results[2] == 20
    assert watched.peak == 20


def test_many_threads_watch_at_once():
    barrier, seen = threading.Barrier(4), []

    def work(count):
        w = tracked(count)
        barrier.wait()
        with watch() as watched:
            for _ in range(50):
                w.exp().sin().sum().backward()
        seen.append((watched.now, watched.peak, count * FLOAT))

    threads = [threading.Thread(target=work, args=(count,)) for count in (3, 5, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all(now == 0 and peak == expected for now, peak, expected in seen)


# --------------------------------------------------------------------------------- whatever the learner left behind


@pytest.fixture
def _left_behind(request):
    def undo():
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)

    request.addfinalizer(undo)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")


@pytest.mark.usefixtures("_left_behind")
def test_it_works_with_recording_off_another_dtype_and_another_device():
    x = torch.ones(6, device="cpu", requires_grad=True)
    with watch() as watched:
        nothing = x.exp()
        with torch.enable_grad():
            loss = (x * 2.5).exp().sum()
    assert watched.now == held_by(loss).bytes == 6 * 8
    assert "Recording was off" in watched.text
    assert held_by(nothing).nodes == 0
    assert watched.by_node().text.split()[-2] == str(6 * 8)
    grown = growth(lambda: torch.enable_grad()(lambda: x.exp())(), steps=2)
    assert grown.held == {"held": [48, 96]}
    assert "stays" not in grown._repr_mimebundle_()["text/plain"].splitlines()[0]
    assert not torch.is_grad_enabled()


def test_nothing_is_recorded_in_inference_mode():
    with torch.inference_mode(), watch() as watched:
        kept = tracked(3).exp()
    assert (watched.now, held_by(kept).nodes) == (0, 0)


# ------------------------------------------------------------------------------------------------- other allocators


class Backend:
    """A stand-in for `torch.cuda` with two devices."""

    def __init__(self):
        self.now, self.most = [100, 7], [500, 7]

    def is_initialized(self):
        return True

    def device_count(self):
        return 2

    def memory_allocated(self, index):
        return self.now[index]

    def max_memory_allocated(self, index):
        return self.most[index]


def test_the_allocators_own_figures_stand_beside(monkeypatch):
    backend = Backend()
    monkeypatch.setattr(torch, "cuda", backend)
    with watch() as watched:
        backend.now, backend.most = [300, 40], [500, 90]
    backend.now = [0, 0]
    assert watched.allocated["cuda:0"] == memory.Allocated(before=100, now=300, peak=None)
    assert watched.allocated["cuda:1"] == memory.Allocated(before=7, now=40, peak=90)
    assert "below an earlier peak" in watched.text

    def step():
        backend.now[0] += 8

    assert growth(step, steps=3).allocated["cuda:0"] == {"held": [8, 16, 24]}


def test_cuda_is_not_started_by_watching():
    with watch():
        pass
    assert not torch.cuda.is_initialized()


def test_on_the_simulated_accelerator_graph_and_allocator_agree(sim):
    gc.collect()  # what other tests left there would go at some moment inside the block
    torch.sim.reset_peak_memory_stats()
    model = nn.Linear(64, 32).to(sim)
    x = torch.randn(256, 64, device=sim)
    with watch() as watched:
        history = [model(x).exp().sum() for _ in range(3)]
    # The input once; of each step what exp() made. The allocator has three losses more, and no input.
    held = (256 * 64 + 3 * 256 * 32) * FLOAT
    assert watched.now == held_by(history).bytes == held
    allocated = watched.allocated["sim:0"]
    assert allocated.now - allocated.before == 3 * 256 * 32 * FLOAT + 3 * FLOAT
    assert allocated.peak >= allocated.now
    assert "sim:0" in watched.text
    before = torch.sim.memory_allocated()
    watched.by_node(), watched.by_line()
    assert torch.sim.memory_allocated() == before


def test_a_leak_grows_until_memory_runs_out_and_the_others_go_on(sim):
    model = nn.Linear(64, 128).to(sim)
    x = torch.randn(256, 64, device=sim)

    def step(keep):
        return keep(model(x).relu().square().mean())

    variants = {"loss": lambda loss: loss, "loss.item()": torch.Tensor.item}
    with accelerator.limits(capacity=torch.sim.memory_allocated() + 2**20):
        grown = growth(step, steps=20, variants=variants)
    # A step leaves 128 KiB that relu() made, of 1 MiB; the next one needs as much twice, for what it computes.
    assert grown.stopped == {"loss": len(grown.held["loss"]) + 1}
    assert 4 <= grown.stopped["loss"] <= 8
    assert len(grown.held["loss.item()"]) == 20
    assert grown.allocated["sim:0"]["loss.item()"] == [0] * 20
    words = grown.text.splitlines()[0]
    assert f"runs out of memory in step {grown.stopped['loss']}" in words
    assert "Bytes allocated on sim:0" in grown.text
    rows = [line.split() for line in grown.text.split("\n\n")[1].splitlines()]
    assert [str(grown.stopped["loss"] - 1), str(grown.held["loss"][-1]), "0"] in rows
    assert rows[-1] == ["20", "-", "0"]


# ------------------------------------------------------------------------------------------------------- what it shows


class Elements(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = collections.defaultdict(list)
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found[tag].append(dict(attributes))


def test_growth_is_a_picture_with_its_point_as_alt_and_its_numbers_as_text():
    w = tracked(256)
    grown = growth(lambda keep: keep(w.exp().mean()), 3, {"loss": lambda loss: loss, "loss.item()": torch.Tensor.item})
    shown = grown._repr_mimebundle_()
    elements = Elements(shown["text/html"]).found
    (image,) = elements["img"]
    assert image["alt"] == ("Held by graphs after 3 steps: loss grows to 3.0 KiB; loss.item() stays at 0 bytes.")
    assert image["alt"] == grown.text.splitlines()[0]
    assert len(elements["table"]) == 2
    assert all(cell["scope"] in ("col", "row") for cell in elements["th"])
    svg = base64.b64decode(re.search('base64,([^"]+)', shown["text/html"]).group(1)).decode()
    assert "held by graphs, KiB" in svg
    assert "loss.item()" in svg
    assert shown["text/plain"] == grown.text
    assert re.search(r"3\s+3072\s+0\n", grown.text)


def test_a_long_growth_shows_some_of_its_steps_the_last_among_them():
    grown = growth(lambda: tracked(1).exp(), steps=100)
    rows = grown.text.split("\n\n")[1].splitlines()
    assert rows[0].endswith("12 of 100 steps")
    assert (rows[2].split(), rows[-1].split()) == (["1", "4"], ["100", "400"])


def test_the_last_step_before_memory_ran_out_is_shown():
    done = []

    def step():
        if len(done) == 9:
            raise torch.OutOfMemoryError("full")
        done.append(tracked(1).exp())

    grown = growth(lambda keep: keep(), steps=20, variants={"leak": step, "none": lambda: None})
    rows = [line.split() for line in grown.text.split("\n\n")[1].splitlines()]
    assert ["9", "36", "0"] in rows
    assert ["10", "-", "0"] in rows
    assert grown.text.startswith(
        "Held by graphs after 20 steps: leak grows to 36 bytes and runs out of memory in step 10;"
    )


def test_memory_may_run_out_in_the_first_step():
    def step():
        raise torch.OutOfMemoryError("full")

    grown = growth(step, steps=2)
    assert grown.text.startswith("Held by graphs after 2 steps: held runs out of memory in step 1.")
    assert "runs out of memory in step 1" in grown.html


def test_growth_needs_a_step():
    with pytest.raises(ValueError, match="Expected at least one step"):
        growth(lambda: None, steps=0)


def test_a_watch_shows_its_figures_and_the_lines_that_hold():
    w = tracked(10)
    with watch() as watched:
        kept = (w * 2).exp()  # this line
        more = [(w * 3).sin() for _ in range(2)]
    lines = watched.text.splitlines()
    assert lines[1].split() == ["now", "120", "120", "bytes"]
    assert lines[2].split() == ["at", "peak", "120", "120", "bytes"]
    by_line = watched.by_line().text.splitlines()
    assert by_line[2].split()[:5] == ["test_memory.py,", "line", by_line[2].split()[2], "2", "80"]
    assert "(w * 3).sin()" in by_line[2]
    assert "kept = (w * 2).exp()  # this line" in by_line[3]
    assert set(watched._repr_mimebundle_()) == {"text/html", "text/plain"}
    # Where tensors of other tests lie on a device, its allocator's figures are a table more.
    more_tables = any(one.before or one.now or one.peak for one in watched.allocated.values())
    assert len(Elements(watched.html).found["table"]) == 2 + more_tables
    del kept, more


def test_bytes_whose_node_python_cannot_find_are_said_to_be_there():
    w = tracked(10)
    with watch() as watched:
        loss = (w * 2).exp()
    gc.freeze()
    try:
        assert "no node found" in watched.by_node().text
    finally:
        gc.unfreeze()
    assert "no node found" not in watched.by_node().text
    del loss


def test_a_node_is_a_beginning_too():
    loss = (tracked(4) * 2).exp().sum()
    assert held_by(loss.grad_fn).bytes == held_by([loss, loss.grad_fn]).bytes == 16
    node = loss.grad_fn
    with watch() as watched:
        node = (tracked(4) * 2).exp().grad_fn
    assert "ExpBackward0" in watched.by_node().text
    del node


def test_what_can_have_no_graph_is_refused_in_words():
    with pytest.raises(TypeError, match=r"Found a set where a graph was looked for\. .*try held_by\(loss\)"):
        held_by([tracked(1), {1}])


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (4726784, "4616.0 KiB"), (20 * 2**20, "20.0 MiB")],
)
def test_sizes_read_as_people_write_them(count, words):
    assert memory.size(count) == words


def test_the_examples_of_the_page_and_of_the_docstrings_run():
    # In a process of its own: a device that other tests use would be in what the examples show.
    program = """
        import doctest, sys
        from autogradlab import memory
        for result in (doctest.testfile(sys.argv[1], module_relative=False), doctest.testmod(memory)):
            print(result.attempted > 5, result.failed)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(DOCS / "memory.md")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("True 0\nTrue 0\n", "")
