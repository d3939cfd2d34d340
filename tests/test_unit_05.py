"""What unit 5 says is what runs: its numbers, its data, and the wrong answers that its exercises spell out."""

import hashlib
import inspect
import itertools
import math
import re
import runpy
import sys
import types
from pathlib import Path

import numpy
import pytest
import torch
from autogradlab import commit, predictions, reveal
from autogradlab.costs import Meter
from autogradlab.diagnosis import Candidate, judge
from autogradlab.exercises import define
from autogradlab.recorded import visible
from claims import claims
from lesson_runs import tracked, unanswered
from torch import nn
from torch.nn import functional as F

from autograder import lessons

UNIT = "05_accumulating_gradients"
SCRIPT = Path(__file__).parent.parent / "scripts" / "make_digits.py"


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds(run):
    assert run.seconds < 10


def test_a_prediction_shows_nothing_before_an_answer(lesson):
    cells = [cell for cell in lesson.cells if cell.role in ("setup", "prediction") or "@reveal" in cell.source]
    names = [cell for cell in cells if cell.role == "prediction"]
    needed = [cell for cell in lesson.cells if cell.role == "setup" or "def trap" in cell.source]
    shown = unanswered(lesson, [*needed, *(cell for cell in cells if cell.role != "setup")])
    assert shown.count("Commit an answer and a confidence first.") == len(names) >= 4
    assert not any(line.startswith("It is") for line in shown)


@claims(
    "Before many results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain). A wrong "
    "guess costs nothing."
)
def test_a_confidence_is_a_whole_number_from_1_to_5_and_a_wrong_guess_counts_as_committed(lesson, monkeypatch):
    monkeypatch.setattr(predictions, "_predictions", {})
    for confidence in range(8):
        commit(f"with {confidence}", answer=1, confidence=confidence)
        reveal(f"with {confidence}")(lambda: 2)
    assert [one["name"] for one in predictions.commitments() if one["committed"]] == [f"with {n}" for n in range(1, 6)]
    assert sum("@reveal" in cell.source for cell in lesson.cells) >= 10


@claims("The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.")
def test_every_number_from_0_to_99_makes_a_warm_up_whose_answers_are_those_of_the_units_before(
    run, monkeypatch, capsys
):
    monkeypatch.setattr(predictions, "_predictions", {})
    for variant in range(100):
        script, names = run.names["cases"].warm_up(variant), {}
        exec(script, names)
        x, w, c = (int(re.search(before + r"(\d)", script)[1]) for before in (r"x = .*\(", r"w = .*\(", "- "))
        slope = 2 * (w * x - c) * x
        assert (names["w"].grad.item(), names["x"].is_leaf, names["slope"].item()) == (slope, True, c * x)
        assert names["w"].item() == w - 0.5 * slope
        commit("warm_up", answer=[0, True, 0, 0], confidence=1, variant=variant, answers=4)
        assert f"Variant {variant}." in capsys.readouterr().out
    commit("warm_up", answer=[0, True, 0, 0], confidence=1, variant=100, answers=4)
    assert "Not recorded." in capsys.readouterr().out


@claims(
    "One step is right: the chain rule gives `2 * z * x`.",
    "Nothing in the loop changes `w`.",
    "`backward()` does not overwrite what `.grad` holds. It adds the gradient to what is there.",
    "it shows all that has run through since it was last reset, and what one day used is the difference of two "
    "readings. The first reading of `trap` was right only because the meter was new.",
    "`trap` never moves `w`, so its total grows evenly.",
)
def test_the_trap_reads_the_running_total_of_42(run):
    assert run.names["trap"](3) == [42.0, 84.0, 126.0]
    assert "one step: [42.0]\nby hand:  42\n" in run.output
    readings = run.names["trap"](20)
    assert numpy.diff(readings, prepend=0).tolist() == [42] * 20
    w, x = tracked(2.0, 3.0)
    w.grad = torch.tensor(100.0)
    z = w * x + 1
    (z**2).backward()
    assert w.grad.item() == 100 + 2 * z * x and w.item() == 2


@claims("Behind each tracked leaf stands a node that does the adding:")
def test_the_node_behind_a_leaf_does_the_adding(run):
    assert "PowBackward0\nAddBackward0\nMulBackward0\ntorch::autograd::AccumulateGrad\n" in run.output
    w, v = tracked(2.0, 5.0)
    for node, _ in (w * v).grad_fn.next_functions:
        node(torch.tensor(3.0))
        node(torch.tensor(4.0))
    assert (w.grad.item(), v.grad.item()) == (7, 7)


@claims(
    "A weight that is used twice in one forward pass gets a gradient from each use, and the gradient of the whole is "
    "their sum. So adding is what the engine has to do inside one `backward()`. It does the same across two calls:",
    "`backward()` adds to `.grad`, because the gradient of a sum is the sum of the gradients.",
)
def test_two_uses_and_two_calls_add_up_alike(run):
    assert "one loss with two uses:      tensor(17.)\n" in run.output
    assert "two losses, two backwards:   tensor(17.)\n" in run.output
    first, second = (torch.autograd.grad(loss(w), w)[0] for w in [tracked(2.0)] for loss in (torch.exp, torch.sin))
    once, twice = tracked(2.0, 2.0)
    (once.exp() + once.sin()).backward()
    twice.exp().backward()
    twice.sin().backward()
    assert once.grad.item() == twice.grad.item() == pytest.approx((first + second).item(), rel=1e-6)


@claims(
    "The first `backward()` frees what the forward pass saved, and a second one that needs it raises an error; "
    "`retain_graph=True` has the first one keep it. The second adds the same gradient again:"
)
def test_a_retained_graph_adds_again_and_a_freed_one_raises(run):
    assert "once:   tensor(12.)\ntwice:  tensor(24.)\nthrice: Trying to backward through the graph a" in run.output
    w = tracked(2.0)
    needs, needs_nothing = w**3, w + 1
    for loss in (needs, needs_nothing):
        loss.backward()
    needs_nothing.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        needs.backward()
    assert w.grad.item() == 12 + 1 + 1


@claims(
    "A batch too large for the memory can be cut into parts, and the parts, each with its proper weight, add up to the "
    "gradient of the whole;",
    "Two ways lead there: weigh each part's mean by its share of the rows, or add up sums and divide by the number of "
    "all rows.",
    "What counts equally is a *row*: it should enter with one over the number of all rows, whichever part it is in.",
    "In a batch cut into parts, rows count equally and parts do not, and one `backward()` for each part keeps the "
    "memory of one part.",
)
def test_parts_weighed_by_their_rows_add_up_to_the_gradient_of_the_whole():
    torch.manual_seed(11)
    x, y, start = torch.randn(7, 3), torch.randn(7), torch.randn(3)
    parts = [slice(0, 4), slice(4, 6), slice(6, 7)]

    def gradient(losses):
        w = start.clone().requires_grad_()
        for loss in losses(w):
            loss.backward()
        return w.grad

    whole = gradient(lambda w: [F.mse_loss(x @ w, y)])
    shares = gradient(lambda w: (F.mse_loss(x[part] @ w, y[part]) * (len(y[part]) / 7) for part in parts))
    sums = gradient(lambda w: (F.mse_loss(x[part] @ w, y[part], reduction="sum") / 7 for part in parts))
    rows = gradient(lambda w: ((x[row] @ w - y[row]) ** 2 / 7 for row in range(7)))
    votes = gradient(lambda w: (F.mse_loss(x[part] @ w, y[part]) / 3 for part in parts))
    for same in (shares, sums, rows):
        assert torch.allclose(same, whole, rtol=1e-5)
    peaks = []
    for chosen in ([slice(0, 7)], parts, parts[:1]):
        with Meter() as meter:
            gradient(lambda w, chosen=chosen: (F.mse_loss(x[part] @ w, y[part]) for part in chosen))
        peaks.append(meter.peak_bytes)
    assert peaks[0] > peaks[1] == peaks[2] > 0
    assert not torch.allclose(votes, whole, rtol=0.05)


@claims(
    "All this holds where the loss of a row depends on that row alone. Some layers, such as `nn.BatchNorm1d`, take "
    "means over the rows that they are given, and in parts those are others: there the gradient of the whole is not to "
    "be had in parts."
)
def test_parts_of_a_batch_that_is_normalized_do_not_add_up_to_the_gradient_of_the_whole():
    torch.manual_seed(12)
    x, y = torch.randn(6, 2), torch.randn(6, 2)

    def gradient(model, parts):
        model.zero_grad()
        for part in parts:
            (F.mse_loss(model(x[part]), y[part]) * (len(y[part]) / 6)).backward()
        return model.weight.grad.clone()

    for model, adds_up in ((nn.Linear(2, 2), True), (nn.BatchNorm1d(2), False)):
        whole, parts = gradient(model, [slice(0, 6)]), gradient(model, [slice(0, 3), slice(3, 6)])
        assert torch.allclose(whole, parts, rtol=1e-4) == adds_up


@claims(
    "Each tracked leaf has a meter of its own.",
    "It tracks `w` and `x`, and clears one of them.",
)
def test_the_half_fix_leaves_x_growing(run):
    assert "step 3: w.grad  42.0   x.grad  84.0" in run.output
    assert run.names["half_fixed"](3) == [(42, 28), (42, 56), (42, 84)]


def test_the_half_fix_stands_before_the_exercise_on_it(lesson):
    sources = [cell.source for cell in lesson.cells]
    (prediction,) = [number for number, source in enumerate(sources) if 'commit("half_a_fix"' in source]
    (exercise,) = [number for number, source in enumerate(sources) if source == 'check("first_wrong")']
    assert prediction < exercise


@claims(
    "`torch.autograd.grad(loss, tensors)` hands the gradients back and leaves every `.grad` alone:",
)
def test_gradients_that_are_handed_back_leave_every_meter_alone(run):
    assert "handed back:      (tensor(42.), tensor(28.))\nw.grad and x.grad: None None\n" in run.output
    w, x = tracked(2.0, 3.0)
    w.grad = torch.tensor(9.0)
    assert torch.autograd.grad((w * x + 1) ** 2, (w, x)) == (42, 28)
    assert w.grad.item() == 9 and x.grad is None


@claims(
    "With `create_graph=True` the backward pass is recorded like a forward pass, so that one can take the gradient of "
    "a gradient, as the unit before did in *Slopes of slopes*:",
    "`.detach().clone()` takes the numbers, without their memory and without a past.",
)
def test_only_a_detached_copy_of_a_gradient_has_no_past(run):
    (shown,) = [line for line in run.output.splitlines() if line.startswith("clone():")]
    assert shown == "clone():          tensor(12., grad_fn=<CloneBackward0>)"
    assert "detach().clone(): tensor(12.)\n" in run.output
    w = tracked(2.0)
    (plain,) = torch.autograd.grad(w**3, w)
    (slope,) = torch.autograd.grad(w**3, w, create_graph=True)
    assert plain.grad_fn is None and torch.autograd.grad(slope, w, retain_graph=True)[0].item() == 6 * 2
    copy = slope.detach().clone()
    assert copy.grad_fn is None and not copy.requires_grad
    assert copy.data_ptr() != slope.data_ptr() == slope.detach().data_ptr()


@claims(
    "Take `0.5 * w**2` from 5 with a learning rate of 0.3, ten steps, and never clear. What does `w` do? - A: it comes "
    "to rest at 0, sooner than with clearing - B: it runs away, faster and faster - C: it swings through 0 to the "
    "other side and back, and does not come to rest",
    "In a loop that updates `w`, each step uses the sum of all slopes so far.",
    "Three programs, one line apart, and no error in any of them.",
    "Cleared before `backward()`, each step is a share of the slope here and now. Cleared between `backward()` and the "
    "update, `w` stays where it was: the update reads zeros. Never cleared, the slopes of the way down still push when "
    "`w` passes through 0.",
)
def test_a_loop_that_never_clears_swings(run):
    path_of = run.names["path_of"]
    swing = [3.5, 0.95, -1.885, -4.1545, -5.1776, -4.6475, -2.7231, 0.0182, 2.7541, 4.6637]
    never = path_of("never")
    assert never[1:] == pytest.approx(swing, abs=1e-4)
    assert numpy.diff(never) == pytest.approx(-0.3 * numpy.cumsum(never[:-1]), abs=1e-4)  # the slope of 0.5 w² is w
    cleared = path_of("before backward")
    assert cleared[1:5] == pytest.approx([3.5, 2.45, 1.715, 1.2005])
    assert numpy.diff(cleared) == pytest.approx(-0.3 * numpy.array(cleared[:-1]), abs=1e-6)
    assert path_of("before the update") == [5.0] * 11
    long = path_of("never", steps=400)
    assert max(map(abs, long)) < 5.3 and max(long[-30:]) > 5 and min(long[-30:]) < -5
    assert "It is C." in run.output


@claims(
    "Before the first `backward()` there is no tensor yet, and nothing to write zeros into.",
    "`w.grad.zero_()` writes zeros into the tensor that is there. `w.grad = None` takes the tensor away, and the next "
    "`backward()` puts a new one there.",
    "`None` is also what a tensor shows that was never tracked, and a tracked one that no `backward()` has reached. On "
    "a tracked leaf it says that nothing has arrived since it was cleared. A zero leaves that open: it may be an "
    "emptied meter, or a gradient that is zero.",
)
def test_zeros_are_written_into_a_tensor_and_none_takes_it_away(run):
    assert "zero_() on it:   'NoneType' object has no attribute 'zero_'\n" in run.output
    w, unreached = tracked(2.0, 3.0)
    assert w.grad is None
    (3 * w).backward()
    there = w.grad
    w.grad.zero_()
    assert w.grad is there and there.item() == 0
    (3 * w).backward()
    assert w.grad is there and there.item() == 3
    w.grad = None
    (5 * w).backward()
    assert w.grad is not there and (there.item(), w.grad.item()) == (3, 5)
    w.grad = None
    (0 * w).backward()
    assert w.grad.item() == 0
    assert unreached.grad is None and torch.tensor(2.0).grad is None


@claims(
    "With momentum 1 on `0.5 * w**2` two steps in a row are tied by `w_next - 2 * w + w_before = -lr * w`. For a "
    "learning rate between 0 and 4 a cosine solves that, and its period follows from the learning rate alone; from 4 "
    "on the swing grows without end. The measured period comes from the passages through 0:",
)
def test_the_swing_has_the_period_of_the_formula(run):
    assert "measured period 11.325 steps, by formula 11.325 steps" in run.output
    pendulum = run.names["pendulum"]
    for lr in (0.01, 0.3, 1.0, 2.5, 3.9):
        path = numpy.array(pendulum(lambda w: w, 5.0, lr, 1, 300))
        before, now, following = path[:-2], path[1:-1], path[2:]
        assert following - 2 * now + before == pytest.approx(-lr * now, abs=1e-9)
        angle = math.acos(1 - lr / 2)  # the cosine with this angle for each step, through the first two points
        size = numpy.linalg.solve([[1, 0], [math.cos(angle), math.sin(angle)]], path[:2])
        steps = numpy.arange(301) * angle
        assert path == pytest.approx(size[0] * numpy.cos(steps) + size[1] * numpy.sin(steps), abs=1e-7)
        other = numpy.array(pendulum(lambda w: w, 11.0, lr, 1, 300))
        assert numpy.sign(other).tolist() == numpy.sign(path).tolist()
    for lr in (4.0, 4.1):
        path = numpy.abs(pendulum(lambda w: w, 5.0, lr, 1, 300))
        assert (numpy.diff(path) > 0).all() and path[-1] > 1000


@claims(
    "at 0 it forgets everything, which is the loop that clears; at 0.9 it forgets a tenth at each step; at 1 it "
    "forgets nothing. Plain SGD that is never cleared is SGD with momentum 1: a ball in a bowl without friction.",
    "Plain SGD that is never cleared is SGD with momentum 1, and sometimes it scores better than the right loop,",
)
def test_momentum_is_a_factor_in_front_of_what_is_remembered(run):
    gap = float(re.search(r"largest gap (\S+)\n", run.output)[1])
    assert gap < 1e-5

    def path(momentum, clears=True):
        w = torch.tensor([1.5, -1.0], dtype=torch.float64, requires_grad=True)
        optimizer, seen = torch.optim.SGD([w], lr=0.05, momentum=momentum), []
        for _ in range(12):
            if clears:
                optimizer.zero_grad()
            (w**2 + 0.1 * w**4).sum().backward()
            optimizer.step()
            seen.append(w.detach().clone())
        return torch.stack(seen)

    def by_hand(factor):
        w, velocity, seen = torch.tensor([1.5, -1.0], dtype=torch.float64), 0.0, []
        for _ in range(12):
            velocity = factor * velocity + 2 * w + 0.4 * w**3
            w = w - 0.05 * velocity
            seen.append(w)
        return torch.stack(seen)

    for factor in (0, 0.9, 1):
        assert torch.allclose(path(factor), by_hand(factor))
    assert torch.allclose(path(0, clears=False), path(1))
    assert run.names["share_read"](0.001, clears=False) > run.names["share_read"](0.001, clears=True)


@claims(
    "A step along the sum of `n` equal slopes is `n` times as long, so a rate that is far too small gets help; one "
    "that is large enough swings past the goal, and no friction ends it. Momentum between 0 and 1 takes the help and "
    "keeps the friction."
)
def test_remembered_slopes_help_a_small_rate_and_friction_ends_the_swing(run):
    pendulum = run.names["pendulum"]
    steps = numpy.diff(pendulum(lambda w: 1.0, 0.0, 0.1, 1, 10))
    assert steps == pytest.approx([-0.1 * n for n in range(1, 11)])
    far = {momentum: pendulum(lambda w: w, 5.0, 0.001, momentum, 60) for momentum in (0, 0.9, 1)}
    assert far[1][-1] < far[0.9][-1] < far[0][-1] and far[0][-1] > 4.7
    swings = {momentum: numpy.abs(pendulum(lambda w: w, 5.0, 0.3, momentum, 300)[-40:]).max() for momentum in far}
    assert min(pendulum(lambda w: w, 5.0, 0.3, 1, 20)) < -5
    assert swings[1] > 5 and swings[0.9] < 1e-4 and swings[0] < 1e-4


@claims(
    "SGD, Adam and most other optimizers pass over a parameter whose `.grad` is `None`.",
    "Zeros and `None` both empty it, but SGD and Adam may move a parameter of zeros and pass over one of `None`.",
)
def test_most_optimizers_pass_over_a_parameter_without_a_gradient():
    passing, reading = [], []
    for name, kind in vars(torch.optim).items():
        if not inspect.isclass(kind) or not issubclass(kind, torch.optim.Optimizer) or kind is torch.optim.Optimizer:
            continue
        w = torch.ones(2, 2, requires_grad=True)
        optimizer = kind([w], lr=0.1)

        def loss(w=w, optimizer=optimizer):
            optimizer.zero_grad()
            value = (w**2).sum()
            value.backward()
            if isinstance(optimizer, torch.optim.SparseAdam):
                w.grad = w.grad.to_sparse()
            return value

        loss()
        optimizer.step(loss)
        before, state = w.detach().clone(), str(optimizer.state)
        w.grad = None
        optimizer.step(lambda: torch.tensor(0.0))
        same = torch.equal(w, before) and str(optimizer.state) == state
        (passing if same else reading).append(name)
    assert {"SGD", "Adam", "AdamW"} <= set(passing) and len(passing) > 5 * len(reading)


@claims(
    "With plain SGD it rests.",
    "One of zeros takes part in the step: momentum coasts on, Adam's average remembers, decay shrinks the weight "
    "whatever the slope. Of the four here plain SGD alone leaves it where it is. So under the other three it matters, "
    "for a weight that the next `backward()` does not reach, in which of the two ways it was cleared.",
)
def test_zeros_move_a_weight_under_momentum_adam_and_decay_and_none_does_not(run):
    resting, optim = run.names["resting"], torch.optim
    zero = torch.tensor(0.0)
    for make, steps, before, after in (
        (lambda w: optim.SGD(w, lr=0.1, momentum=0.9), 1, 0.8, 0.62),
        (lambda w: optim.Adam(w, lr=0.1), 1, 0.9, 0.833),
        (lambda w: optim.SGD(w, lr=0.1, weight_decay=0.5), 0, 1.0, 0.95),
        (lambda w: optim.SGD(w, lr=0.1), 1, 0.8, 0.8),
    ):
        assert resting(make, steps, zero.clone()) == pytest.approx((before, after), abs=1e-3)
        start, end = resting(make, steps, None)
        assert start == end == pytest.approx(before)
    assert "It is [True, True, True]." in run.output


@claims(
    "The loss of step `k` is `k * w`, so the gradients are 1, 2 and 3. The list is read after the loop, in which "
    "`w.grad.zero_()` cleared before each `backward()`.",
    "The list holds one tensor three times. `zero_()` writes zeros into it, and an ordinary `backward()` adds into it. "
    "Clearing by `None` lets each step begin a new tensor, so that the list comes out right by luck of the way you "
    "clear. A copy is right with every way of clearing:",
)
def test_a_list_of_gradients_shows_one_whiteboard(run):
    kept = run.names["kept"]
    assert kept(run.names["write_zeros"]) == [3.0, 3.0, 3.0]
    assert kept(run.names["take_away"]) == [1.0, 2.0, 3.0]
    assert kept(lambda w: None) == [6.0, 6.0, 6.0]
    for clear, tensors in ((run.names["write_zeros"], 1), (run.names["take_away"], 3)):
        w, held, copies = tracked(1.0), [], []
        for k in (1, 2, 3):
            clear(w)
            (k * w).backward()
            held.append(w.grad)
            copies.append(w.grad.detach().clone())
        assert len({id(grad) for grad in held}) == tensors
        assert [copy.item() for copy in copies] == [1, 2, 3]


@claims(
    "A *module* owns tensors: its parameters are leaves, tracked unless somebody takes the flag away, and calling the "
    "module is a forward pass.",
    "An *optimizer* holds on to the parameters it was given and changes them in place. `step()` reads the `.grad` of "
    "each, and for plain SGD it does what you have written by hand: `w -= lr * w.grad`.",
    "`nn.Sequential(a, b)` calls `b` on what `a` returns and owns the parameters of both. `F.mse_loss` is the mean of "
    "the squared differences;",
    "remember something about each parameter between steps; that memory is their *state*. None of them clears a "
    "gradient unless you say so.",
)
def test_modules_own_leaves_and_optimizers_change_them_in_place():
    torch.manual_seed(0)
    first, second = nn.Linear(2, 3), nn.Linear(3, 1)
    model, x, y = nn.Sequential(first, second), torch.randn(4, 2), torch.randn(4, 1)
    assert torch.equal(model(x), second(first(x))) and first(x).allclose(x @ first.weight.T + first.bias)
    assert [id(p) for p in model.parameters()] == [id(p) for layer in (first, second) for p in layer.parameters()]
    assert all(parameter.is_leaf and parameter.requires_grad for parameter in model.parameters())
    frozen = nn.Linear(2, 3).requires_grad_(False)
    assert all(parameter.is_leaf and not parameter.requires_grad for parameter in frozen.parameters())
    assert F.mse_loss(x, x + y).item() == pytest.approx((y.expand(4, 2) ** 2).mean().item())
    for optimizer, remembers in (
        (torch.optim.SGD(model.parameters(), lr=0.1), False),
        (torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), True),
        (torch.optim.Adam(model.parameters(), lr=0.1), True),
    ):
        model.zero_grad()
        F.mse_loss(model(x), y).backward()
        addresses = [parameter.data_ptr() for parameter in model.parameters()]
        grads = [parameter.grad.clone() for parameter in model.parameters()]
        by_hand = [parameter.detach() - 0.1 * parameter.grad for parameter in model.parameters()]
        optimizer.step()
        assert [parameter.data_ptr() for parameter in model.parameters()] == addresses
        assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), grads, strict=True))
        remembered = [v for state in optimizer.state.values() for v in state.values() if v is not None]
        assert bool(remembered) == remembers
        if not remembers:
            assert all(torch.allclose(p, hand) for p, hand in zip(model.parameters(), by_hand, strict=True))


@claims(
    "An optimizer and a module each have `zero_grad()`, and each sweeps its own room. Both set `.grad` to `None`, or "
    "write zeros into it with `set_to_none=False`.",
    "After `backward()` both have gradients.",
    "So you have four ways to clear: `.grad.zero_()`, `.grad = None`, the optimizer's `zero_grad()` and the module's. "
    "Code that uses `.grad` right after `zero_grad()` meets `None`.",
)
def test_each_cleaner_sweeps_its_own_room(run):
    left = run.names["what_is_left"]
    assert left("optimizer") == ["kept", "None"]
    assert left("optimizer", set_to_none=False) == ["kept", "zeros"]
    assert left("model") == ["None", "None"]
    assert left("model", set_to_none=False) == ["zeros", "zeros"]
    w = nn.Parameter(torch.tensor(2.0))
    optimizer, module = torch.optim.SGD([w], lr=0.1), nn.ParameterList([w])
    for clear in (
        lambda: w.grad.zero_(),
        lambda: setattr(w, "grad", None),
        optimizer.zero_grad,
        module.zero_grad,
    ):
        (3 * w).backward()
        clear()
        (3 * w).backward()
        assert w.grad.item() == 3
        w.grad = None


@claims("This loop runs, and reports a loss for each batch.")
def test_the_broken_loop_reports_losses_and_moves_nothing(run):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    batches = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(3)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = run.names["broken_train"](model, optimizer, F.mse_loss, batches)
    assert len(losses) == 3 and min(losses) > 0 and torch.equal(model.weight, before)
    assert "moved by 0.0\n" in run.output


@claims(
    "The mean over the batch is what you want; each part gives you the mean over its own rows.",
    "A part has no vote of its own.",
)
def test_uneven_parts_need_more_than_their_number(run):
    in_parts = run.names["in_parts"]
    whole = in_parts([0, 1, 2, 3])
    assert in_parts([0, 1], [2, 3]) == pytest.approx(whole, rel=1e-5)
    assert in_parts([0, 1, 2], [3]) != pytest.approx(whole, rel=0.05)
    assert "It is False." in run.output


@claims(
    "Answer with a number; within 10 % counts as right.",
    "Up to rounding both ways give one gradient. But with a single `backward()` the saved tensors of all parts are in "
    "memory together,",
)
def test_one_backward_for_eight_parts_holds_eight_graphs(lesson, run, monkeypatch, capsys):
    peak_and_gradient = run.names["peak_and_gradient"]
    (single, _), (each, gradient) = (peak_and_gradient(parts, at_once=False) for parts in (1, 8))
    once, other = peak_and_gradient(8, at_once=True)
    assert each == single and once == 8 * each
    assert (gradient - other).abs().max() < 1e-6 * gradient.abs().max()
    (table,) = re.findall(r"^ +8 +([\d,]+) +([\d,]+) ", run.output, re.M)
    assert [int(number.replace(",", "")) for number in table] == [each, once]
    (cell,) = [cell.source for cell in lesson.cells if '@reveal("peak"' in cell.source]
    for answer, words in ((8.7, "As you said."), (7.3, "As you said."), (9.0, "Not what you said.")):
        monkeypatch.setattr(predictions, "_predictions", {})
        commit("peak", answer=answer, confidence=1)
        capsys.readouterr()
        exec(cell, {**run.names})
        assert words in capsys.readouterr().out


@claims("Eight parts of 100 rows each.")
def test_each_of_the_eight_parts_has_100_rows(run, monkeypatch):
    rows, loss = [], F.mse_loss
    monkeypatch.setattr(
        F, "mse_loss", lambda output, *rest, **more: (rows.append(len(output)), loss(output, *rest, **more))[1]
    )
    run.names["peak_and_gradient"](8, at_once=False)
    assert rows == [100] * 8


@claims(
    "The forward pass saves tensors for the backward pass, and `backward()` frees what its own graph has saved. A "
    "`Meter` counts those bytes:"
)
def test_backward_frees_what_its_own_graph_has_saved():
    w, x, y = torch.randn(64, requires_grad=True), torch.randn(100, 64), torch.randn(100)
    with Meter() as meter:
        first = F.mse_loss(x @ w, y)
        one = meter.graph_bytes
        second = F.mse_loss(x.clone() @ w, y.clone())
        assert meter.graph_bytes == 2 * one > 0
        first.backward()
        assert meter.graph_bytes == one
        second.backward()
        assert meter.graph_bytes == 0


@claims(
    "64 pixels, 32 hidden units, 10 classes, plain SGD, batches of 64. It is trained at six learning rates, each time "
    "once with `zero_grad()` and once without. Nothing else differs, and a fifth of the digits is kept aside for the "
    "score. An *epoch* is one pass over all the others.",
    "Who reads more of those kept aside after 20 epochs, at the smallest rate (0.001) and at the largest (0.3)?",
)
def test_the_network_that_reads_digits_is_the_one_described(lesson, run, monkeypatch):
    names, made, rows, loss = run.names, [], [], F.cross_entropy

    def noted(kind):
        def begin(self, *arguments, real=kind.__init__, **named):
            made.append((kind.__name__, *arguments[: 2 * (kind is nn.Linear)], named))
            real(self, *arguments, **named)

        monkeypatch.setattr(kind, "__init__", begin)

    def of_a_batch(output, wanted):
        rows.append(len(wanted))
        return loss(output, wanted)

    noted(nn.Linear)
    noted(torch.optim.SGD)
    monkeypatch.setattr(F, "cross_entropy", of_a_batch)
    names["share_read"](0.1, clears=True, epochs=2)
    assert made == [("Linear", 64, 32, {}), ("Linear", 32, 10, {}), ("SGD", {"lr": 0.1})]
    assert set(rows) <= {64, names["training"] % 64} and sum(rows) == 2 * names["training"]
    assert len(names["table"]) - names["training"] == pytest.approx(len(names["table"]) / 5, abs=1)

    asked = []
    (cell,) = [cell.source for cell in lesson.cells if '@reveal("winner"' in cell.source]
    monkeypatch.setenv("AUTOGRADLAB_REVEAL", "all")
    again = {**names, "share_read": lambda lr, clears: asked.append((lr, clears)) or 50.0}
    exec(cell[cell.index('@reveal("winner"') :], again)
    rates = sorted({lr for lr, _ in asked})
    assert sorted(asked) == sorted((lr, clears) for lr in rates for clears in (False, True))
    assert (len(rates), rates[0], rates[-1]) == (6, 0.001, 0.3)


@claims(
    "At a small learning rate the loop with the bug is the better one, by far. The reason is the sum: as long as the "
    "slopes agree it grows, and tiny steps become long ones. At a large rate the same sum throws the weights about.",
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_bug_wins_at_the_small_rate_and_loses_at_the_large_one(run, monkeypatch, seed):
    share_read, real = run.names["share_read"], torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda number: real(number + seed))
    assert share_read(0.001, clears=False) > share_read(0.001, clears=True) + 50
    assert share_read(0.3, clears=True) > share_read(0.3, clears=False) + 50


@claims(
    "the targets behind a sentence's end are -100.",
    "`F.cross_entropy` compares them with the targets and leaves those of -100 out: its mean is over the *valid* "
    "tokens, and so is its sum.",
    "The number of valid tokens may differ from batch to batch, even where the batches have equal shapes.",
)
def test_padding_counts_for_nothing(run):
    shown = dict(
        re.findall(r"^(valid tokens|mean|sum / valid|mean over nothing|sum over nothing): +(.*)$", run.output, re.M)
    )
    assert (
        shown["valid tokens"] == "4 of 6" and shown["mean over nothing"] == "nan" and shown["sum over nothing"] == "0.0"
    )
    torch.manual_seed(1)
    logits, targets = torch.randn(6, 5), torch.tensor([4, 1, 0, 2, -100, -100])
    valid, per_token = targets != -100, -logits.log_softmax(dim=1)
    by_hand = per_token[valid].gather(1, targets[valid, None])
    assert F.cross_entropy(logits, targets).item() == pytest.approx(by_hand.mean().item())
    assert F.cross_entropy(logits, targets, reduction="sum").item() == pytest.approx(by_hand.sum().item())
    fuller = targets.where(valid, 3)
    assert fuller.shape == targets.shape and (fuller != -100).sum() != valid.sum()


@claims(
    "`torch.nn.utils.clip_grad_norm_(parameters, max_norm)` shortens all gradients together if their common norm is "
    "larger than `max_norm`, and returns the norm from before."
)
def test_clipping_shortens_all_gradients_together():
    w, v = tracked([3.0, 0.0], [0.0, 4.0])
    for limit, scale in ((1.0, 0.2), (2.5, 0.5), (10.0, 1.0)):
        w.grad, v.grad = w.detach().clone(), v.detach().clone()
        assert nn.utils.clip_grad_norm_([w, v], limit).item() == 5
        assert torch.allclose(w.grad, scale * w) and torch.allclose(v.grad, scale * v)


@claims(
    "The first is the order of a step; with micro-batches the middle repeats. The second asks, before a `backward()`, "
    "whether something is left over from an earlier one."
)
def test_what_is_kept_takes_one_step_and_tells_what_is_left_over(run):
    step, leftovers = run.names["step"], run.names["leftovers"]
    torch.manual_seed(0)
    x, y, ends, means = torch.randn(7, 2), torch.randn(7, 1), [], []
    for parts in ([slice(0, 7)], [slice(0, 4), slice(4, 7)]):
        torch.manual_seed(1)
        model = nn.Linear(2, 1)
        assert leftovers(model) == []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        means.append(step(model, optimizer, F.mse_loss, [(x[part], y[part]) for part in parts]))
        ends.append(model.weight.detach())
        assert leftovers(model) == ["weight", "bias"]
        optimizer.zero_grad(set_to_none=False)
        assert leftovers(model) == []
    assert means[0] == pytest.approx(means[1], rel=1e-5) and torch.allclose(*ends)


def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, lesson):
    references = lessons.references(lesson)
    for name in ("train", "frozen_step", "diary"):
        exercise = exercises[name]
        expected = visible(exercise, references[name])
        broken = visible(exercise, run.names[f"broken_{name}"])
        assert not judge(exercise, broken, expected, []).met[0], name


def test_a_loss_that_is_computed_after_the_update_belongs_to_the_next_weights():
    w = tracked(1.0)
    optimizer = torch.optim.SGD([w], lr=0.1)
    (w**2).backward()
    optimizer.step()
    assert (w**2).item() == pytest.approx(0.64)  # A26, where the gradient belongs to a loss of 1


# --- the data --------------------------------------------------------------------------------------------------------


def test_the_digits_are_those_of_scikit_learn(lesson):
    file = lesson.directory / "digits.npy"
    digest = "c45cf27f9e6d1507aa17aa9949fab3d046c8ffa373a108f49991e27f232ad83b"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    table = numpy.load(file)
    assert table.shape == (1797, 65) and table.dtype == numpy.uint8 and table[:, :64].max() == 16
    # As load_digits() counts them.
    assert numpy.bincount(table[:, 64]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_script_writes_the_digits_byte_for_byte(lesson, tmp_path, monkeypatch):
    file = lesson.directory / "digits.npy"
    table = numpy.load(file).astype(float)
    datasets = types.ModuleType("sklearn.datasets")
    datasets.load_digits = lambda return_X_y: (table[:, :64], table[:, 64].astype(int))
    monkeypatch.setitem(sys.modules, "sklearn", types.ModuleType("sklearn"))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", datasets)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path / "digits.npy")])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert (tmp_path / "digits.npy").read_bytes() == file.read_bytes()


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_solution_of_the_meter_is_what_its_lines_do(lesson, run):
    variant, answers = lessons.references(lesson)["meter_reading"]()
    names, readings = {"torch": torch}, []
    for line in run.names["cases"].meter_script(variant):
        exec(line, names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    assert readings == answers


@claims(
    "for each tensor whose `.grad` can be wrong, its name and the smallest number of steps after which it is, for "
    'example `{"w": 4, "x": 1}`. For the right loop return `{}`.',
)
def test_the_wrong_loops_are_wrong_where_the_review_says_and_not_before(lesson, run):
    verdicts, loops = lessons.references(lesson)["first_wrong"], run.names["cases"].loops

    def gradients(loop, steps):
        w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
        loop(w, x, steps)
        return {"w": w.grad.item(), "x": x.grad.item()}

    fresh = {"w": 42.0, "x": 28.0}
    for name, loop in loops.items():
        wrong = {}
        for steps in range(1, 10):
            for tensor, value in gradients(loop, steps).items():
                if value != fresh[tensor]:
                    wrong.setdefault(tensor, steps)
        assert verdicts(name) == wrong, name


def shown(lesson, exercise, program):
    """The verdict on a program, with no wrong program at hand."""
    reference = lessons.references(lesson)[exercise.name]
    seen = visible(exercise, program)
    assert [observation["raised"] for observation in seen] == [None] * len(seen)
    return judge(exercise, seen, visible(exercise, reference), [])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        *((entry, "not a whole number from 1 to 100") for entry in ("two", None, [2], torch.ones(2), True, 10**9, 2.5)),
        (2.0, None),
        (numpy.int64(2), None),
        (9, "after that many steps w.grad is right"),
    ],
)
def test_an_entry_of_any_type_in_the_review_is_a_hit_or_a_miss_in_words(lesson, exercises, entry, words):
    right = lessons.references(lesson)["first_wrong"]
    verdict = shown(lesson, exercises["first_wrong"], lambda loop: {"w": entry, "x": 2} if loop == "B" else right(loop))
    if words is None:
        assert verdict.status == "right"
    else:
        assert verdict.status == "partly" and words in verdict.difference.words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "a value of type NoneType came back, and no dict"),
        (["w"], "a value of type list came back, and no dict"),
        ({}, "a tensor whose .grad can be wrong is not named"),
        ({"w": 2, 3: 1}, 'a key is neither "w" nor "x"'),
        ({"w": 2, "x": 1}, "x is named, and its .grad is right after any number of steps"),
    ],
)
def test_an_answer_of_any_form_to_the_review_is_a_miss_in_words(lesson, exercises, answer, words):
    right = lessons.references(lesson)["first_wrong"]
    verdict = shown(lesson, exercises["first_wrong"], lambda loop: answer if loop == "A" else right(loop))
    assert verdict.status == "wrong" and words in verdict.difference.words


def test_the_path_that_differs_is_told_by_its_call(lesson, exercises):
    right = lessons.references(lesson)["pendulum"]

    def never_fades(slope, start, lr, momentum, steps):
        return right(slope, start, lr, momentum and 1, steps)

    verdict = shown(lesson, exercises["pendulum"], never_fades)
    assert verdict.met == [True, True, False] and "the path of call 3" in verdict.difference.words


def test_the_weights_that_differ_are_told_by_their_call(lesson, exercises):
    def steps_for_all(optimizer, frozen):
        optimizer.step()

    verdict = shown(lesson, exercises["frozen_step"], steps_for_all)
    assert "frozen weights after call 2" in verdict.difference.words and "0.weight" in verdict.difference.words


ARRANGED = """
def accumulate(w, batches):
    {first}
    {second}
    {third}
    for x, y in batches:
        {loss}
        {fourth}
        {fifth}
    return total
"""
BEFORE = ("rows = sum(len(y) for _, y in batches)", "w.grad = None", "total = 0.0")
INSIDE = ("loss.backward()", "total += loss.item()")
RIGHT = "loss = ((x @ w - y) ** 2).sum() / rows"
DISTRACTORS = {
    "A08": "loss = ((x @ w - y) ** 2).mean()",
    "A09": "loss = ((x @ w - y) ** 2).mean() / len(batches)",
    "B07": "loss = ((x @ w - y) ** 2).sum()",
}


def arranged(before, inside, loss, namespace):
    first, second, third = before
    source = ARRANGED.format(first=first, second=second, third=third, loss=loss, fourth=inside[0], fifth=inside[1])
    return define("accumulate", source, namespace)


@pytest.fixture(scope="module")
def accumulate(lesson, exercises):
    """What judges an answer to `accumulate`, misconceptions at hand."""
    exercise = exercises["accumulate"]
    expected = visible(exercise, lessons.references(lesson)["accumulate"])
    candidates = [
        Candidate(attempt.key, attempt.id, attempt.id, attempt.message or "?", visible(exercise, attempt.program))
        for attempt in lessons.attempts(lesson, exercises)
        if attempt.exercise == "accumulate" and attempt.kind == "misconception"
    ]
    return lambda program: judge(exercise, visible(exercise, program), expected, candidates)


def test_the_lines_to_arrange_are_those_of_the_contract(lesson):
    contract = lesson.exercises["accumulate"].contract
    for line in (*BEFORE, *INSIDE, RIGHT, *DISTRACTORS.values()):
        assert f" {line}\n" in contract


def test_every_right_order_of_the_lines_passes(lesson, accumulate):
    namespace = lessons.namespace(lesson)
    for before, inside in itertools.product(itertools.permutations(BEFORE), itertools.permutations(INSIDE)):
        assert accumulate(arranged(before, inside, RIGHT, namespace)).status == "right", (before, inside)


@pytest.mark.parametrize("name", DISTRACTORS)
def test_each_distractor_gives_its_own_id(lesson, accumulate, name):
    program = arranged(BEFORE, INSIDE, DISTRACTORS[name], lessons.namespace(lesson))
    verdict = accumulate(program)
    assert verdict.status == "wrong" and [candidate.id for candidate, _ in verdict.diagnosis] == [name]
