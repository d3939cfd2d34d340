"""What unit 4 says is what runs: its slopes, its passes, its engine, and the wrong programs that its exercises tell."""

import ast
import math
import re
import tomllib
import weakref
from collections import Counter
from pathlib import Path

import pytest
import torch
from autogradlab import commit, memory, predictions
from autogradlab.recorded import visible
from claims import claims
from lesson_runs import nodes_behind, prose, tracked, unanswered, verdict
from torch.nn import functional as F

from autograder import lessons

UNIT = "04_running_backward"
CATALOGUE = Path(__file__).parent.parent / "course" / "misconceptions.toml"


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds(run):
    assert run.seconds < 10


def test_the_lesson_runs_untouched_and_then_shows_no_result(lesson):
    cells = [cell for cell in lesson.cells if cell.kind == "code" and cell.role not in ("test", "solution")]
    lines = unanswered(lesson, cells)
    predictions = [cell for cell in cells if cell.role == "prediction"]
    assert lines.count("Commit an answer and a confidence first.") == len(predictions) >= 4
    assert not any(line.startswith("It is") for line in lines)


def test_an_engine_that_is_not_written_yet_is_told_and_nothing_stops(lesson, run, monkeypatch, capsys):
    def unwritten(loss):
        raise NotImplementedError

    (cell,) = [cell for cell in lesson.cells if '@reveal("two_engines"' in cell.source]
    monkeypatch.setenv("AUTOGRADLAB_REVEAL", "all")
    exec(compile(cell.source, "<cell>", "exec"), run.names | {"my_backward": unwritten, "trained": brief(unwritten)})
    assert "my_backward() is not written yet." in capsys.readouterr().out


def brief(engine):
    """A training that asks its engine once."""
    return lambda gradients: engine(None)


def test_slopes_multiply_along_a_route(run):
    assert "w * x in w, at x = 3:     3.000\nw * x in x, at w = 2:     2.000\n" in run.output
    assert "z ** 2, at z = 7:         14.001\n" in run.output
    assert "loss in w: 42\nloss in x: 28\nby torch:  42.0 and 28.0\n" in run.output


def test_nodes_called_by_hand_give_what_backward_gives(run):
    assert "the sum:     (tensor(14.), None)\nthe product: (tensor(42.), tensor(28.))\n" in run.output
    assert "It is [14, 14, 42, 28]." in run.output
    assert "backward() from 49 takes 5 steps" in graph_text(run)


def graph_text(run):
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    return run.names["graph"].steps((w * x + 1.0) ** 2, names={"w": w, "x": x}).text


def test_routes_add_up_and_a_hook_sees_their_sum(run):
    assert "the hook saw: [8.0]\nIt is [47, 1]." in run.output


def test_backward_returns_none_moves_nothing_and_forgets_results(run):
    assert "returned: None  w.grad: tensor(42.)  v.grad: None  z.grad, asked for afterwards: None\n" in run.output
    assert "w itself: 2.0\nz.grad, asked for in time: tensor(14.)\nIt is [True, False, True, True]." in run.output


def test_gradients_that_are_asked_for_come_in_a_tuple(run):
    assert "about one:                     (tensor(42.),)\nw.grad afterwards:             None\n" in run.output


def test_only_what_kept_something_refuses_a_second_pass(run):
    assert "(x + 1).sum()   [1.0, 1.0], then [2.0, 2.0]\n" in run.output
    assert "kept by x * 3:  tensor(3)\nIt is [True, False, True]." in run.output
    assert "retained:         [2.0, 4.0], then [4.0, 8.0]\n" in run.output
    assert "y ** 3, one pass: 27.0, two: 54.0" in run.output


@pytest.mark.parametrize(
    ("loss_of", "raises"),
    [
        (lambda x: (x - x.mean()).sum(), False),
        (lambda x: x.clone().sum(), False),
        (lambda x: torch.cat([x, x]).sum(), False),
        (lambda x: x.exp().sum(), True),
        (lambda x: x.sum() * 2, True),
        (lambda x: x.max(), True),
    ],
)
def test_a_second_pass_raises_where_a_node_kept_something(run, loss_of, raises):
    assert ("Trying to backward" in run.names["twice"](loss_of)) == raises


def test_backward_works_inside_no_grad(run):
    assert "backward() inside no_grad: tensor(4.)\n" in run.output


def test_two_losses_need_one_pass_through_their_trunk(run):
    assert "times that the trunk was gone through: 1\n" in run.output
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    trunk = w.exp()
    torch.autograd.backward([(trunk * 2).sum(), trunk.sum() ** 2])
    assert [f"{value:.4f}" for value in w.grad.tolist()] == ["60.3857", "164.1455"]
    assert "w.grad:          tensor([ 60.3857, 164.1455])\n" in run.output


def test_a_pass_with_ones_adds_the_rows_up(run):
    assert "weights [1.0, 0.0]: [1.0, 2.0]\n" in run.output and "weights [10.0, 1.0]: [13.0, 24.0]\n" in run.output
    assert "It is [4, 6]." in run.output
    assert "all outputs:      [0.0, 0.0, 0.0, 0.0]\nthe first output: [0.75, -0.25, -0.25, -0.25]\n" in run.output
    assert "x[[0, 0, 2]]:     [2.0, 0.0, 1.0, 0.0]\n" in run.output


def test_nothing_is_not_a_zero(run):
    assert "after backward():  u.grad tensor(0.)  v.grad None\n" in run.output
    assert "allow_unused:      (None,)\nmaterialize_grads: (tensor(0.),)\nIt is [0, None]." in run.output
    assert run.output.count("RuntimeError attempting to assign a gradient") == 2


def test_differences_are_best_from_both_sides_in_float64(run):
    assert "It is 0." in run.output
    (row,) = [line for line in run.output.splitlines() if line.startswith("1e-06 ") and "12.0000060022" in line]
    assert row.split()[1:] == ["11.4440917969", "11.4440917969", "12.0000060022", "12.0000000003"]
    one_sided, central = run.names["one_sided"], run.names["central"]
    for step in (1e-3, 1e-5):
        x = torch.tensor(2.0, dtype=torch.float64)
        assert abs(central(x, step) - 12) < abs(one_sided(x, step) - 12) / 100
    best = min(
        (abs(way(torch.tensor(2.0, dtype=dtype), 10.0**-power).item() - 12), way.__name__, dtype, power)
        for way in (one_sided, central)
        for dtype in (torch.float32, torch.float64)
        for power in range(1, 11)
    )
    assert best[1:3] == ("central", torch.float64) and 4 <= best[3] <= 6


def test_relu_and_clamp_differ_at_their_corner_alone(run):
    assert "a central difference at the corner: 0.5\nIt is [0, 1]." in run.output
    assert "at [0, 0]: nan\n" in run.output and "at [0, 0]: 0.0\n" in run.output
    assert re.search(r"x\.sqrt\(\) +at \[0\]: +inf\n", run.output)


def test_a_plain_sum_shows_one_of_four_faults(run):
    assert "It is [True, True, False, True]." in run.output
    tried = run.names["tried"]
    right = tried(run.names["Scaled"], behind=5.0)
    assert tried(run.names["NoUpstream"], behind=5.0) != right == tried(run.names["NoSum"], behind=5.0)
    assert tried(run.names["Scaled"], edit=True) == "an error" != tried(run.names["OnCtx"], edit=True)
    assert tried(run.names["OnCtx"], edit=True) != tried(run.names["OnCtx"])
    assert "NoSum called directly sends a shape of [2] for a number\n" in run.output


def test_gradcheck_in_float32_finds_a_fault_where_none_is(run):
    assert "Scaled     torch.float64 passes True  warnings 0\nScaled     torch.float32 passes False" in run.output


@claims(
    "And what lies on `ctx` stays there after `backward()`.",
)
@pytest.mark.parametrize(("name", "held"), [("Scaled", False), ("OnCtx", True)])
def test_what_lies_on_ctx_stays_after_backward(run, name, held):
    x, scale = torch.tensor([1.0, 2.0]), torch.tensor(10.0, requires_grad=True)
    there, y = weakref.ref(x), run.names[name].apply(x, scale)
    del x
    y.sum().backward()
    assert (there() is not None) == held


def test_a_recorded_gradient_has_slopes_of_its_own(run):
    assert "It is [12, 12, 6]." in run.output
    assert "does not require grad and does not have a grad_fn\n" in run.output


def test_a_slope_in_a_loss_reaches_the_weight(run):
    w = torch.tensor([1.0, -2.0], dtype=torch.float64)
    x = torch.tensor([[1.0, 2.0], [0.5, 0.0]], dtype=torch.float64)

    def cost(w):  # the slopes of (x @ w) ** 2 in x, by hand
        return ((2 * (x @ w))[:, None] * w).square().sum()

    found = torch.autograd.functional.jacobian(cost, w).tolist()
    assert f"what the weight has to say about it:    {found}\n" in run.output


def test_the_engine_and_not_the_node_adds_up_the_surplus(run):
    assert "the node sends: [5, 2]  b.grad: [5.0, 5.0]\nIt is [[5, 2], [2]]." in run.output
    assert "summed to it:           tensor([5., 5.])\n" in run.output
    for operation in (torch.mul, torch.sub, torch.div, torch.maximum):
        table, b = torch.rand(5, 2) + 1, (torch.rand(2) + 1).requires_grad_()
        y = operation(table, b)
        assert y.grad_fn(torch.ones(5, 2))[1].shape == (5, 2), operation
        assert torch.autograd.grad(y.sum(), b)[0].shape == (2,)


def test_called_nodes_record_and_the_node_of_a_leaf_adds(run):
    assert "what a call returns is tracked: True\nin no_grad:                     False\n" in run.output
    assert "v.grad after a call of AccumulateGrad is [1.0, 1.0, 1.0, 1.0]\n" in run.output


def test_the_engine_of_the_lesson_equals_autograd_on_fifty_random_graphs(run):
    mine, cases = run.names["my_backward"], run.names["cases"]
    for seed in range(50):
        case = Drawn(seed)
        leaves = [case.normal().requires_grad_() for _ in range(3)]
        loss = cases.tangle(case, leaves, 6 + seed % 20)
        found = mine(loss)
        expected = torch.autograd.grad(loss, leaves, allow_unused=True)
        for leaf, gradient in zip(leaves, expected, strict=True):
            assert (gradient is None) == (leaf not in found)
            assert gradient is None or torch.allclose(found[leaf], gradient, rtol=1e-9)
        assert all(leaf.grad is None for leaf in leaves)


class Drawn:
    """Draws for `tangle`, in float64."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self):
        return torch.randn((), generator=self.generator, dtype=torch.float64)

    def choice(self, options):
        return options[torch.randint(len(options), (1,), generator=self.generator).item()]


@claims(
    "For such a network this is what happens inside `backward()`.",
)
def test_the_engine_of_the_lesson_trains_to_the_same_bits(run):
    assert "equal to the last bit, weight by weight: [True, True, True, True]\nIt is equal." in run.output
    assert run.names["read"](run.names["by_torch"], run.names["pixels"][run.names["training"] :]) > 94


def test_a_step_along_the_gradient_of_the_picture_does_what_a_random_one_does_not(run):
    rows = re.findall(r"(?:as they are|moved .*?): +([\d.]+) %", run.output)
    whole, random_signs, along = map(float, rows)
    assert whole - random_signs < 3 and along < 60


def test_the_digits_are_those_of_the_unit_on_accumulating(lesson):
    other = lesson.directory.parent / "05_accumulating_gradients" / "digits.npy"
    assert (lesson.directory / "digits.npy").read_bytes() == other.read_bytes()


def test_the_check_to_keep_names_what_is_wrong(run):
    assert "Scaled []\nNoUpstream ['w', 'scale']\n" in run.output


# --- what it says about torch ----------------------------------------------------------------------------------------


@claims("Before most results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).")
def test_a_confidence_is_a_whole_number_from_1_to_5(lesson, monkeypatch, capsys):
    monkeypatch.setattr(predictions, "_predictions", {})
    for confidence in range(8):
        commit(f"with {confidence}", answer=1, confidence=confidence)
    recorded = [line.startswith("Your answer: 1, confidence") for line in capsys.readouterr().out.splitlines()]
    assert recorded.count(True) == 5
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
        rows, columns, doublings = (
            int(re.search(pattern, script)[1]) for pattern in (r"zeros\((\d)", r"ones\((\d)", r"range\((\d)")
        )
        routes = torch.autograd.grad(names["x"], names["w"])[0].item()
        assert (names["table"].numel(), routes, names["y"].is_leaf) == (rows * columns, 2**doublings, True)
        commit(
            "warm_up",
            answer=[rows * columns, doublings + 1, 2**doublings, True],
            confidence=5,
            variant=variant,
            answers=4,
        )
    assert capsys.readouterr().out.count("Your answer:") == 100


@claims(
    "A published lesson says 48 and 72 for the gradients in `x` and `w`; torch said 28 and 42.",
    "The program is three operations: a product, a sum, which we call `z`, and a square.",
)
def test_the_loss_of_the_first_unit_is_three_operations_with_gradients_28_and_42():
    first = prose(lessons.read("01_creating_tensors"))
    assert "## A page says 48 and 72" in first
    assert "The page says that they are 48 and 72." in first and "with a list of two numbers, `x.grad` first." in first
    w, x = tracked(2.0, 3.0)
    loss = (w * x + 1) ** 2
    recorded = [node.name() for node in nodes_behind(loss) if not hasattr(node, "variable")]
    assert recorded == ["PowBackward0", "AddBackward0", "MulBackward0"]
    loss.backward()
    assert (x.grad.item(), w.grad.item()) == (28, 42)


@claims(
    "A product's slope in one factor is the other factor.",
    "Adding a constant has slope 1, and a square has twice what goes in.",
    "(A nudge of a thousandth is not quite little enough to say exactly 14.)",
    "If `w` moves by a little, the product moves 3 times as much, `z` as much as the product, and the loss 14 times as "
    "much as `z`.",
    "Along a route slopes *multiply*.",
)
def test_slopes_of_single_operations_and_of_a_route(run):
    a, b = tracked(1.7, -0.6)
    assert torch.autograd.grad(a * b, (a, b)) == (b, a)
    assert torch.autograd.grad(a + 4.2, a)[0] == 1 and torch.autograd.grad(a**2, a)[0] == 2 * a
    nudged = run.names["nudged"]
    found = [nudged(lambda z: z**2, 7.0, by) for by in (1e-3, 1e-5)]
    assert 14.0005 < found[0] < 14.0015 and abs(found[1] - 14) < 1e-4
    w, by = 2.0, 1e-7
    moves = [[(v * 3, v * 3 + 1, (v * 3 + 1) ** 2) for v in (w, w + by)][end] for end in (0, 1)]
    product, z, loss = (after - before for before, after in zip(*moves, strict=True))
    assert product / by == pytest.approx(3) and z / product == pytest.approx(1) and loss / z == pytest.approx(14)
    value, steps = torch.tensor(0.4, requires_grad=True), (torch.exp, torch.sin, torch.tanh, torch.log1p)
    along, result = 1.0, value
    for step in steps:
        point = result.detach().requires_grad_()
        along *= torch.autograd.grad(step(point), point)[0].item()
        result = step(result)
    assert torch.autograd.grad(result, value)[0].item() == pytest.approx(along)


@claims(
    "It begins with a 1 at the loss, since the loss moves exactly as much as itself.",
    "Each node takes what arrives and multiplies it by its own slopes.",
    "The nodes can do that for you: call one with a gradient, and it returns what it sends along its edges.",
    "Start at `loss.grad_fn` with a 1, and hand each result on.",
    "The sum's second edge leads to `None`, and `None` is what it sends there: nobody asked about the constant.",
    "The node of the square has kept its input, 7, and from that it computes its slope, 14, when it is called; nothing "
    "has been worked out beforehand.",
    "Here is the same run as torch's own engine makes it, one step at a time:",
)
def test_nodes_compute_what_they_send_when_they_are_called(run):
    w, x = tracked(2.0, 3.0)
    z = w * x + 1.0
    loss, seen = z**2, []
    square, add = loss.grad_fn, z.grad_fn
    assert square._saved_self.item() == 7 and add.next_functions[1][0] is None
    with torch.no_grad():
        assert square(torch.tensor(1.0)) == 14 and square(torch.tensor(10.0)) == 140
        assert add(torch.tensor(5.0)) == (5, None)
        assert add.next_functions[0][0](torch.tensor(1.0)) == (x, w)
        z.data.fill_(10.0)  # behind the version counter's back: a slope worked out before would still be 14
        assert square(torch.tensor(1.0)) == 20
    for tensor in (w * x, (w * x + 1.0) ** 2):
        tensor.register_hook(lambda gradient: seen.append(gradient.item()))
        tensor.backward()
    assert seen == [1, 1]
    engine = graph_text(run)
    assert "backward() from 49 takes 5 steps" in engine
    assert all(f"{number}" in engine for number in (14, 42, 28))


@claims("A node with one edge returns a tensor, a node with several a tuple.")
def test_what_a_call_of_a_node_returns_goes_by_its_edges():
    v = tracked([0.5, 1.5, 2.5])
    results = (v.exp(), v.sum(), v * v, v + 1, v.view(3, 1), torch.cat([v, v]), torch.stack([v, v, v]), v @ v, v * 2)
    for result in results:
        with torch.no_grad():
            sent = result.grad_fn(torch.ones_like(result))
        edges = len(result.grad_fn.next_functions)
        assert isinstance(sent, torch.Tensor) if edges == 1 else len(sent) == edges
    assert {len(result.grad_fn.next_functions) for result in results} == {1, 2, 3}


@claims(
    "A tensor that is used twice moves the loss in two ways, and the two add up.",
    "(`z.register_hook(f)` has `f` called with the gradient of `z` on its way down.)",
    "The hook sees one number, the sum. What arrives at `z` is complete before anything is handed on from there, which "
    "is why the engine needs no second visit.",
    "Every node multiplies what arrives by its own slopes; along a route slopes multiply, and routes add up.",
)
def test_a_node_hands_on_once_when_all_has_arrived():
    order = []

    def note(name, tensor):
        tensor.register_hook(lambda gradient: order.append((name, gradient.item())))
        return tensor

    w = tracked(2.0)
    product = note("product", w * 3.0)
    z = note("z", product + 1.0)
    uses = [note("use", z * factor) for factor in (3.0, 5.0, 11.0)]
    sum(uses).backward()
    assert order == [("use", 1)] * 3 + [("z", 19), ("product", 19)] and w.grad == 57
    v = tracked(0.7)
    (v.sin() * 2 + v.exp() * v).backward()
    by_hand = 2 * math.cos(0.7) + math.exp(0.7) * 0.7 + math.exp(0.7)
    assert v.grad.item() == pytest.approx(by_hand)


@claims(
    "`z.retain_grad()`, which asks for the gradient of a result.",
    "`backward()` returns nothing and moves nothing. It leaves a gradient in the `.grad` of every *tracked leaf* "
    "that it reached; whoever wants that of a result says so before it passes.",
    "A weight changes when a line of yours changes it.",
    "`backward()` returns nothing, moves nothing, and adds to the `.grad` of the tracked leaves that it reaches; "
    "`None` there says that nothing arrived.",
)
def test_backward_leaves_gradients_at_tracked_leaves_and_changes_no_value():
    reached, apart, plain = tracked([1.0, 2.0]), tracked([3.0, 4.0]), torch.tensor([5.0, 6.0])
    asked, late = (reached * 2).exp(), reached * 3
    asked.retain_grad()
    tensors = (reached, apart, plain, asked, late)
    before = [tensor.detach().clone() for tensor in tensors]
    loss = (asked * plain).sum() + late.sum()
    assert loss.backward() is None
    late.retain_grad()
    assert all(torch.equal(*pair) for pair in zip(tensors, before, strict=True))
    assert [tensor.grad is None for tensor in tensors] == [False, True, True, False, True]
    first = reached.grad.clone()
    ((reached * 2).exp() * plain).sum().backward()
    assert torch.allclose(reached.grad - first, 2 * asked.detach() * plain)


@claims(
    "`torch.autograd.grad(loss, tensors)` returns a *tuple*, one entry for each tensor asked about, also where "
    "there is only one, and leaves the `.grad` of every leaf alone. (A result that asked for its own with "
    "`retain_grad()` gets it here too.)"
)
def test_grad_hands_a_tuple_over_and_fills_no_leaf():
    w, x = tracked(2.0, 3.0)
    x.grad = torch.tensor(5.0)
    z = w * x
    z.retain_grad()
    for asked in (w, [w], (w, x), (x, z, w)):
        found = torch.autograd.grad(z**2, asked, retain_graph=True)
        assert type(found) is tuple and len(found) == (1 if asked is w else len(asked))
        assert w.grad is None and x.grad == 5
    assert z.grad is not None


@claims(
    "A pass frees the tensors that nodes have kept. The square kept its input and `x * 3` kept the 3, as a tensor; a "
    "second pass asks for them and raises an error.",
    "Adding keeps no tensor, so that the second pass runs, and `.grad` shows both passes added up: a gradient is "
    "*added* to what `.grad` holds.",
    "No error says that the loss was counted twice.",
    "A pass frees what nodes kept, so that a second pass through the same graph raises an error, or runs and counts "
    "twice.",
)
def test_a_pass_frees_kept_tensors_and_a_second_pass_misses_them():
    x = tracked([1.0, 2.0])
    for result, name, kept in ((x**2, "_saved_self", [1, 2]), (x * 3, "_saved_other", 3)):
        assert getattr(result.grad_fn, name).tolist() == kept
        loss = result.sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            getattr(result.grad_fn, name)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
    y = tracked([1.0, 2.0])
    loss = (y + 1).sum()
    saved = [getattr(node, name) for node in nodes_behind(loss) for name in dir(node) if name.startswith("_saved")]
    assert not any(isinstance(one, torch.Tensor) for one in saved)
    for times in (1, 2, 3):
        loss.backward()
        assert y.grad.tolist() == [times, times]


@claims(
    "`retain_graph=True` has a pass leave everything in place. Then a second one runs through the square, too:",
    "`retain_graph=True` turns the question off, keeps the memory, and where the loss is the same one, counts the same "
    "data twice.",
)
@pytest.mark.parametrize(
    "loss_of",
    [
        lambda x: (x**2).sum(),
        lambda x: (x * 3).sum(),
        lambda x: x.exp().prod(),
        lambda x: x.tanh().max(),
        lambda x: x.softmax(dim=0)[0] * x.std(),
    ],
)
def test_retain_graph_keeps_the_memory_and_doubles_the_gradient(loss_of):
    x = tracked([0.5, 1.0, 1.5])
    loss = loss_of(x.exp())
    held = memory.held_by(loss).bytes
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    assert memory.held_by(loss).bytes == held > 0
    loss.backward()
    assert torch.allclose(x.grad, 2 * once) and memory.held_by(loss).bytes < held


@claims("`no_grad` stops new nodes from being made. A pass over nodes that exist needs none.")
def test_no_grad_stops_recording_and_no_pass():
    x, other = tracked([1.0, 2.0], [1.0, 2.0])
    loss, same = (x.exp() * x).sum(), (other.exp() * other).sum()
    with torch.no_grad():
        assert (x * 2).grad_fn is None
        loss.backward()
    same.backward()
    assert torch.equal(x.grad, other.grad) and x.grad.grad_fn is None


@claims("Each gets a tracked leaf `x`, a vector with values between 0.5 and 2 and without a gradient.")
def test_the_passes_are_judged_on_fresh_leaves_between_a_half_and_2(lesson, exercises, monkeypatch):
    pieces, given = exercises["again"].script.__globals__["passes"], []

    def noting(piece):
        def noted(x):
            given.append((x.detach().clone(), x.requires_grad and x.is_leaf, x.grad))
            return piece(x)

        return noted

    for letter, piece in list(pieces.items()):
        monkeypatch.setitem(pieces, letter, noting(piece))
    assert verdict(lesson, exercises["again"], lessons.references(lesson)["again"]).status == "right"
    assert len(given) >= 9 and all(leaf and grad is None for _, leaf, grad in given)
    assert all(values.dim() == 1 and values.min() >= 0.5 and values.max() <= 2 for values, _, _ in given)


@claims(
    "The second finds that what the trunk had kept is gone.",
    "But the gradient of a sum is the sum of the gradients, so the two may as well be added before anybody goes "
    "backward:",
    "`torch.autograd.backward([a, b])` does the same without the addition: it starts at several losses and still "
    "visits each node once.",
)
def test_losses_of_one_trunk_go_backward_together_with_one_visit_to_each_node():
    def of(w):
        trunk, visits = w.exp(), []
        a, b = (trunk * 2).sum(), trunk.sum() ** 2
        for node in {*nodes_behind(a), *nodes_behind(b)}:
            node.register_prehook(lambda gradients, node=node: visits.append(node))
        return a, b, visits

    leaves = tracked([1.0, 2.0], [1.0, 2.0], [1.0, 2.0])
    a, b, _ = of(leaves[0])
    apart = [torch.autograd.grad(loss, leaves[0], retain_graph=True)[0] for loss in (a, b)]
    a.backward()
    with pytest.raises(RuntimeError, match="second time"):
        b.backward()
    a, b, visits = of(leaves[1])
    (a + b).backward()
    a, b, others = of(leaves[2])
    torch.autograd.backward([a, b])
    assert torch.allclose(leaves[1].grad, sum(apart)) and torch.equal(leaves[1].grad, leaves[2].grad)
    for visited in (visits, others):
        assert len(visited) == len(set(visited)) == len({*nodes_behind(a), *nodes_behind(b)})


@claims(
    "`w` is a tracked leaf without a gradient, `trunk` a function of one tensor, and `heads` a list of two "
    "functions or more, each of which makes a loss (0-dim) of what the trunk returned."
)
def test_the_trunks_and_heads_are_as_the_contract_says(exercises, references):
    seen = []

    def noting(w, trunk, heads):
        seen.append(len(heads))
        assert w.requires_grad and w.is_leaf and w.grad is None and type(heads) is list
        assert all(head(w.detach() * 0.5).shape == () for head in heads)
        return references["joined"](w, trunk, heads)

    visible(exercises["joined"], noting)
    assert len(seen) == 5 and min(seen) == 2 and max(seen) > 2


@claims(
    "so its slopes are the four numbers of the matrix: the *Jacobian*, one row for each output. `y.backward()` "
    "raises an error; `y.backward(torch.ones(2))` runs.",
    "The weights are what arrives at the last node in place of the 1. A pass starts from a weight for each output and "
    "answers for that *mix* of outputs alone: with ones it is the sum of the rows, and the single numbers cannot be "
    "read from it.",
    "Weights of 1 and 0 pick out a row.",
    "A pass answers for one mix of outputs: one number needs one pass, and a Jacobian one for each output.",
)
def test_a_pass_answers_for_one_mix_of_outputs(run):
    matrix, x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), tracked([0.3, -0.9])
    assert torch.equal(torch.autograd.functional.jacobian(lambda x: matrix @ x, x), matrix)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (matrix @ x).backward()
    arrived = []
    for weights in torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [10.0, -3.0]]):
        y = matrix @ x
        y.register_hook(lambda gradient: arrived.append(gradient))
        assert torch.allclose(torch.autograd.grad(y, x, weights)[0], weights @ matrix)
        assert torch.equal(arrived[-1], weights)
    other = torch.tensor([[4.0, -1.0], [0.0, 7.0]])  # the same sum of the rows, another Jacobian
    assert torch.equal(torch.autograd.grad(other @ x, x, torch.ones(2))[0], torch.tensor([4.0, 6.0]))
    passes = []
    wide = torch.linspace(-1, 1, 15).view(3, 5)

    def f(x):
        h = x * 1.0
        h.register_hook(lambda gradient: passes.append(gradient))
        return (wide @ h).tanh()

    point = torch.linspace(0.1, 0.5, 5, requires_grad=True)
    assert run.names["jacobian"](f, point).shape == (3, 5) and len(passes) == 3
    f(point).sum().backward()
    assert len(passes) == 4 and point.grad.shape == (5,)


@claims(
    "A mix may cancel out. Of `x - x.mean()` every output has slopes, and their sum is 0 whatever `x` is:",
    "The last line picks the first element twice. Its one node adds up what arrives for both.",
)
def test_outputs_that_cancel_out_and_elements_that_are_picked_twice():
    for size in (2, 3, 7, 10, 100):
        x = torch.randn(size, generator=torch.Generator().manual_seed(size)).requires_grad_()
        assert torch.autograd.grad(x - x.mean(), x, torch.ones(size))[0].tolist() == [0] * size
        for output in range(min(size, 7)):
            assert torch.autograd.grad((x - x.mean())[output], x)[0].abs().min() > 0
    x = tracked([1.0, 2.0, 3.0, 5.0])
    picked = x[[0, 0, 2]]
    ((following, _),) = picked.grad_fn.next_functions
    assert following.variable is x and picked.grad_fn(torch.tensor([1.0, 10.0, 100.0])).tolist() == [11, 0, 100, 0]


@claims(
    "That is one pass for each output, which is why gradients of one loss in a million weights are cheap and the "
    "Jacobian of a million outputs is not."
)
@pytest.mark.parametrize("outputs", [1, 4, 9])
def test_a_jacobian_takes_a_pass_for_each_output_and_a_loss_one_for_any_number_of_weights(run, outputs):
    passes, x = [], torch.linspace(0.5, 1.5, 1000).requires_grad_()

    def f(x):
        h = x.exp()
        h.register_hook(lambda gradient: passes.append(gradient.shape))
        return h[:outputs] * h[-1]

    run.names["jacobian"](f, x)
    assert len(passes) == outputs
    passes.clear()
    f(x).sum().backward()
    assert passes == [x.shape] and x.grad.shape == x.shape


@claims(
    "A zero was computed: there is a route, and it came to nothing. `None` says that nothing arrived; here no edge "
    "leads there.",
    "The two are different faults, and filling in zeros hides the one that is in the graph.",
)
def test_a_zero_has_a_route_and_a_none_has_none_and_filling_in_makes_them_alike():
    w, u, v = tracked(2.0, 2.0, 2.0)
    loss = 3 * w + 0 * u
    leaves = [node.variable for node in nodes_behind(loss) if hasattr(node, "variable")]
    assert any(leaf is u for leaf in leaves) and not any(leaf is v for leaf in leaves)
    found = torch.autograd.grad(loss, (u, v), retain_graph=True, allow_unused=True)
    assert found[0] == 0 and found[1] is None
    filled = torch.autograd.grad(loss, (u, v), materialize_grads=True)
    assert torch.equal(*filled)


@claims(
    "Whoever fills in a gradient by hand brings a tensor of the same shape and dtype, on the same device. A number, "
    "another shape and another dtype are refused:"
)
def test_a_gradient_by_hand_matches_its_tensor():
    x = tracked([1.0, 2.0])
    for value in (0, [1.0, 1.0], torch.ones(3), torch.ones(1, 2), torch.ones(2).double(), torch.ones(2, device="meta")):
        with pytest.raises((TypeError, RuntimeError), match="assign"):
            x.grad = value
        assert x.grad is None
    x.grad = torch.ones(4)[::2]
    assert x.grad.tolist() == [1, 1]


@claims(
    "`x ** 3` at `x = 2` has the slope 12.",
    "The number after 2 in float32 is more than twenty steps of 1e-8 away, and `x + step` is rounded back to `x`.",
    "A step that is too small drowns in rounding; one that is too large meets the bend of the curve.",
    "In a *central* difference, from both sides, the bend cancels out, and what is left shrinks with the square of the "
    "step.",
)
def test_differences_and_their_steps(run):
    two = torch.tensor(2.0)
    point = two.clone().requires_grad_()
    assert torch.autograd.grad(point**3, point)[0] == 12
    assert torch.nextafter(two, torch.tensor(3.0)) - two > 20 * 1e-8 and two + 1e-8 == two

    def errors(f, slope, at, step):
        one = (f(at + step) - f(at)) / step
        both = (f(at + step) - f(at - step)) / (2 * step)
        return abs(one - slope), abs(both - slope)

    for f, slope, at in ((math.exp, math.exp(0.5), 0.5), (math.sin, math.cos(1.0), 1.0), (math.log, 0.5, 2.0)):
        (wide, central_wide), (narrow, central_narrow) = (errors(f, slope, at, step) for step in (1e-2, 1e-3))
        assert wide / narrow == pytest.approx(10, rel=0.05) and central_wide / central_narrow == pytest.approx(
            100, 0.05
        )
        assert all(tiny > at_best for tiny, at_best in zip(errors(f, slope, at, 1e-13), errors(f, slope, at, 1e-6)))
    only_bent = errors(lambda x: 5 * x * x + x, 21, 2.0, 0.5)
    assert only_bent == (2.5, 0)


def test_the_picture_of_the_errors_shows_what_its_words_say(lesson, run):
    (said,) = [cell for cell in lesson.cells if "figures.show(" in cell.source]
    assert "steps between 1e-6 and 1e-5. Each of the four has a best step" in said.source
    best = {}
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor(2.0, dtype=dtype)
        for way in ("one_sided", "central"):
            errors = [abs(run.names[way](x, float(step)).item() - 12) for step in run.names["steps"]]
            place = errors.index(min(errors))
            assert errors[0] > 2 * errors[place] and errors[-1] > 2 * errors[place]
            best[way, dtype] = (errors[place], run.names["steps"][place])
    (error, step) = best["central", torch.float64]
    assert error == min(best.values())[0] and 1e-6 < step < 1e-5


@claims(
    "`x` is a float32 or float64 tensor of any shape, also 0-dim, and it may be a transposed view.",
    "`f` takes a tensor of that shape and returns a 0-dim tensor; it computes in the dtype that it is given, and in "
    "NumPy, so that autograd finds nothing to follow.",
)
def test_the_functions_to_check_are_as_the_contract_says(exercises, references):
    seen = []

    def noting(f, x):
        for dtype in (torch.float32, torch.float64):
            value = f(x.detach().to(dtype).requires_grad_())
            assert value.shape == () and value.dtype == dtype and not value.requires_grad
        seen.append((x.dtype, x.dim(), x.is_contiguous()))
        return references["fd_grad"](f, x)

    visible(exercises["fd_grad"], noting)
    assert {dtype for dtype, _, _ in seen} == {torch.float32, torch.float64}
    assert {dim for _, dim, _ in seen} == {0, 1, 2} and {straight for _, _, straight in seen} == {True, False}


@claims(
    "`relu` has no slope at 0: from the left it is 0, from the right 1.",
    "torch does not refuse; it gives one of the allowed slopes, by convention, and the convention is not the same "
    "everywhere.",
    "The difference of both sides gives one half, which is neither.",
    "Where two values tie, `max()` without `dim` and `maximum` share the gradient evenly among those that tie. `clamp` "
    "gives the slope 1 at its edges, `hardtanh` the slope 0.",
)
def test_corners_and_ties(run):
    def slope(f, at):
        x = tracked(at)
        return torch.autograd.grad(f(x).sum(), x)[0].tolist()

    assert [slope(torch.relu, at) for at in (-1e-6, 1e-6)] == [0, 1]
    assert run.names["nudged"](lambda x: max(x, 0.0), -0.0005) == 0.5
    corners = {slope(f, 0.0) for f in (torch.relu, lambda x: x.clamp(min=0.0), lambda x: torch.maximum(x, 0 * x))}
    assert 0 in corners and 1 in corners and all(0 <= one <= 1 for one in corners)
    assert -1 <= slope(torch.abs, 0.0) <= 1
    for count in (2, 3, 4):
        assert slope(torch.max, [5.0] * count + [1.0]) == pytest.approx([1 / count] * count + [0])
    a, b = tracked(3.0, 3.0)
    assert torch.autograd.grad(torch.maximum(a, b), (a, b)) == (0.5, 0.5)
    assert slope(lambda x: x.clamp(-1, 2), [-1.0, 2.0]) == [1, 1]
    assert slope(F.hardtanh, [-1.0, 1.0]) == [0, 0]


@claims(
    "The length of a vector can be written in two ways, and at zero one of them ends training without an error:",
    "The root's slope at 0 is infinite, and the square behind it has the slope 0; infinity times zero is not a number.",
)
def test_a_length_at_zero_is_the_end_of_a_training_without_an_error(run):
    lengths = (lambda w: w.norm(), lambda w: (w**2).sum().sqrt())
    ends = []
    for length in lengths:
        w = torch.zeros(2, requires_grad=True)
        for _ in range(3):
            loss = (length(w) - 1) ** 2
            (gradient,) = torch.autograd.grad(loss, w)
            with torch.no_grad():
                w -= 0.1 * gradient
        ends.append(w.isnan().any().item())
    assert ends == [False, True]
    zero = tracked(0.0)
    assert torch.autograd.grad(zero.sqrt(), zero)[0] == math.inf and torch.autograd.grad(zero**2, zero)[0] == 0
    assert (torch.tensor(math.inf) * 0).isnan()


@claims(
    "`backward` gets what arrives, and returns one gradient for each argument of `forward` after `ctx`, `None` for "
    "what is no tensor:"
)
def test_a_backward_returns_a_gradient_for_each_argument(run):
    power = run.names["Power"]

    class TooFew(power):
        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class ForANumber(power):
        @staticmethod
        def backward(ctx, gradient):
            return gradient, gradient

    arrived = torch.tensor([3.0, -2.0])
    x = tracked([2.0, 3.0])
    found = power.backward(power.apply(x, 3).grad_fn, arrived)
    assert torch.equal(found[0], arrived * 3 * x**2) and found[1] is None
    for function in (TooFew, ForANumber):
        with pytest.raises(RuntimeError, match="gradient"):
            function.apply(x, 3).sum().backward()


@claims(
    "There are ways to get its backward wrong that raise no error.",
    "With a sum behind it, what arrives is a 1 everywhere, and leaving it out shows nothing; a factor behind the "
    "operation (here 5) brings it out.",
    "The surplus of `NoSum` is added up by the engine; a direct call of `backward` shows it.",
    "`ctx.x` is not watched: an edit between forward and backward goes unnoticed and the gradient is wrong, where "
    "`save_for_backward` raises an error.",
)
def test_faults_of_a_backward_that_a_plain_sum_does_not_show(run):
    def gradients(name, behind, edit=False):
        x, scale = tracked([1.0, 2.0, -0.5], 10.0)
        h, arrived = x.clone(), []
        y = run.names[name].apply(h, scale)
        y.register_hook(lambda gradient: arrived.append(gradient.tolist()))
        loss = (behind * y).sum()
        if edit:
            h.mul_(2)
        loss.backward()
        assert arrived == [[behind] * 3]
        return [None if one is None else one.tolist() for one in (x.grad, scale.grad)]

    right, behind = gradients("Scaled", 1), gradients("Scaled", 5)
    assert gradients("NoUpstream", 1) == right and gradients("NoUpstream", 5) == right != behind
    assert gradients("NoSum", 1) == right and gradients("NoSum", 5) == behind
    assert gradients("Nothing", 1) == [None, None]
    assert gradients("OnCtx", 1) == right and gradients("OnCtx", 5) == behind
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients("Scaled", 1, edit=True)
    x, scale = tracked([1.0, 2.0, -0.5], 10.0)
    no_sum, scaled = (run.names[name] for name in ("NoSum", "Scaled"))
    sent = [f.backward(f.apply(x, scale).grad_fn, torch.ones(3))[1].shape for f in (no_sum, scaled)]
    assert sent == [(3,), ()]
    assert run.names["tried"](run.names["OnCtx"], edit=True) == [[40, 80], 20] != run.names["tried"](scaled)


@claims(
    "`torch.autograd.gradcheck` compares a backward with central differences, for every output by itself.",
    "It wants float64; in float32 it warns, and here it finds a fault where none is:",
)
def test_gradcheck_asks_from_both_sides_about_every_output(run):
    asked = []

    def noted(x):
        asked.append(x.item())
        return x**2

    assert torch.autograd.gradcheck(noted, torch.tensor(1.0, dtype=torch.float64, requires_grad=True))
    assert min(asked) < 1 < max(asked) and 1 - min(asked) == pytest.approx(max(asked) - 1)

    class Cancels(torch.autograd.Function):
        """Two outputs, x and x: the faults of the backward cancel out in their sum."""

        @staticmethod
        def forward(ctx, x):
            return torch.stack([x, x])

        @staticmethod
        def backward(ctx, gradient):
            return 3 * gradient[0] - gradient[1]

    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(Cancels.apply(x).sum(), x)[0] == 2
    assert torch.autograd.gradcheck(lambda x: Cancels.apply(x).sum(), x)
    assert not torch.autograd.gradcheck(Cancels.apply, x, raise_exception=False)
    assert "Scaled     torch.float64 passes True  warnings 0\nScaled     torch.float32 passes False" in run.output
    single = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="double precision"):
        torch.autograd.gradcheck(lambda x: x * 2, single, raise_exception=False)


@claims(
    "`x` is a table, tracked or not; `scale` is tracked, a vector as long as the rows or a single number (0-dim); "
    "`shift` is a Python float.",
)
def test_the_operation_to_mend_is_asked_as_the_contract_says(exercises, references):
    seen = set()

    class Noting(references["Bend"]):
        @staticmethod
        def forward(ctx, x, scale, shift):
            seen.add((x.dim(), x.requires_grad, scale.dim()))
            assert ctx.needs_input_grad[1] and type(shift) is float and scale.shape in ((x.shape[1],), ())
            return references["Bend"].forward(ctx, x, scale, shift)

    visible(exercises["Bend"], Noting)
    assert seen == {(2, tracked, dims) for tracked in (True, False) for dims in (0, 1)}


@claims(
    "The way back computes with tensors, so it can be recorded like a way forward; `create_graph=True` asks for that. "
    "The gradient then has a history, and can go backward itself.",
    "Here the slope in the *input* is the term, and its gradient arrives in the weight:",
    "`y.sum()` mixes the rows with weights of 1, and nothing is lost: the number of a row depends on that row "
    "alone, so each row of `slopes` has one contribution.",
)
def test_a_way_back_can_be_recorded_and_a_slope_can_be_a_term():
    x = tracked(0.6)
    (bare,) = torch.autograd.grad(x.exp().sin(), x)
    (recorded,) = torch.autograd.grad(x.exp().sin(), x, create_graph=True)
    assert bare.grad_fn is None and recorded.grad_fn is not None and bare == recorded.detach()
    (second,) = torch.autograd.grad(recorded, x)
    inner = math.exp(0.6)
    assert second.item() == pytest.approx(inner * math.cos(inner) - inner**2 * math.sin(inner), rel=1e-5)
    w, rows = tracked([1.0, -2.0], [[1.0, 2.0], [0.5, 0.0]])
    y = (rows @ w) ** 2
    (slopes,) = torch.autograd.grad(y.sum(), rows, create_graph=True)
    for number in range(2):
        (alone,) = torch.autograd.grad(y[number], rows, retain_graph=True)
        assert torch.equal(alone[number], slopes[number].detach()) and not alone[1 - number].any()
    (slopes**2).sum().backward()
    assert w.grad.tolist() == [-36, -388]


@claims(
    "A bias `b` of 2 elements is added to a table of 5 rows: `y = table + b`. Each element of `b` is used in five "
    "places.",
    "You call the node of the addition with ones of shape (5, 2).",
    "The node of an addition hands on a gradient for each *use*, in the shape of its output, and so do those of "
    "`-`, `*` and `/`.",
    "The summing is done by the engine, at the edge, before the next node sees anything.",
    "The engine knows the shape that the receiver expects, because every node remembers for each of its results what "
    "it looked like.",
    "`sum_to_size` does the adding up:",
)
def test_the_surplus_of_a_stretched_tensor_is_summed_at_the_edge():
    for operation in (torch.add, torch.sub, torch.mul, torch.div):
        table, b = torch.rand(5, 2) + 1, (torch.rand(2) + 1).requires_grad_()
        between, arrived = b.clone(), []
        between.grad_fn.register_prehook(arrived.extend)
        y = operation(table, between)
        sent = y.grad_fn(torch.ones(5, 2))[1]
        assert sent.shape == y.shape == (5, 2)
        receiver, index = y.grad_fn.next_functions[1]
        expected = receiver._input_metadata[index]
        assert (tuple(expected.shape), expected.dtype) == ((2,), torch.float32)
        y.sum().backward()
        assert [one.shape for one in arrived] == [(2,)]
        assert torch.allclose(arrived[0], sent.sum_to_size(expected.shape)) and torch.allclose(b.grad, sent.sum(dim=0))
    first, second = torch.ones(4, requires_grad=True).split([1, 3])
    assert [tuple(result.shape) for result in first.grad_fn._input_metadata] == [first.shape, second.shape]


@claims(
    "A node with several results is called with one gradient for each of them, `None` for a result of which nothing "
    "arrived.",
    "Called outside a `no_grad` block, nodes record what they compute with tracked tensors.",
    "And the node of a leaf, `AccumulateGrad`, does what its name says when it is called:",
)
def test_calls_of_nodes_with_several_results_and_of_leaves():
    v = tracked([1.0, 2.0, 3.0, 4.0])
    node = v.chunk(2)[0].grad_fn
    assert node(torch.tensor([5.0, 6.0]), None).tolist() == [5, 6, 0, 0]
    assert node(None, torch.tensor([5.0, 6.0])).tolist() == [0, 0, 5, 6]
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        node(torch.ones(2))
    square = (v * v).grad_fn
    assert square(torch.ones(4))[0].grad_fn is not None
    with torch.no_grad():
        assert square(torch.ones(4))[0].grad_fn is None
    leaf = node.next_functions[0][0]
    for times in (1, 2, 3):
        leaf(torch.ones(4))
        assert leaf.variable is v and v.grad.tolist() == [times] * 4


@claims(
    "scikit-learn's handwritten digits: 64 pixels, 32 numbers in between, 10 classes, at most 64 pictures at a time, a "
    "step of 0.5 against the gradient, 20 times through the data.",
    "The network is four tensors and one line of Python. It is trained twice from the same start, once with "
    "gradients of `torch.autograd.grad` and once with yours.",
    "(`F.cross_entropy` is a loss for classes: small where the right class has the largest of the ten numbers by far.)",
)
def test_the_training_of_the_digits_is_as_described(lesson, run):
    names, sizes, starts = run.names, [], []

    def noting(loss, weights):
        (target,) = (node._saved_target for node in nodes_behind(loss) if node.name() == "NllLossBackward0")
        sizes.append(len(target))
        starts.append([weight.detach().clone() for weight in weights])
        return [torch.ones_like(weight) for weight in weights]

    ended = names["trained"](noting)
    assert [tuple(weight.shape) for weight in ended] == [(64, 32), (32,), (32, 10), (10,)]
    assert max(sizes) == 64 and sum(sizes) == 20 * names["training"]
    calls = len(sizes)
    names["trained"](noting, epochs=1)
    assert all(torch.equal(*pair) for pair in zip(starts[0], starts[calls], strict=True))
    assert all(torch.equal(after, before - 0.5) for before, after in zip(starts[0], starts[1], strict=True))
    (cell,) = [cell for cell in lesson.cells if "def scores(" in cell.source]
    (network,) = [one for one in ast.parse(cell.source).body if getattr(one, "name", None) == "scores"]
    assert (
        len(network.body) == 2 and ast.get_docstring(network) and network.body[1].lineno == network.body[1].end_lineno
    )
    assert names["pixels"].shape[1] == 64 and sorted(set(names["digits"].tolist())) == list(range(10))
    scores, right = torch.zeros(1, 10), torch.tensor([3])
    by_lead = [F.cross_entropy(scores + lead * F.one_hot(right, 10), right).item() for lead in (-5, 0, 5, 20)]
    assert by_lead == sorted(by_lead, reverse=True) and by_lead[-1] < 1e-6 and by_lead[1] == pytest.approx(math.log(10))


@claims("torch's engine also runs hooks", "frees what was kept as it goes.")
def test_the_engine_runs_hooks_and_frees_what_was_kept_as_it_goes():
    w, met = tracked(2.0), []
    z = w.exp()
    loss = z**2

    def look(gradient):
        assert z.grad_fn._saved_result.item() == z.item()
        with pytest.raises(RuntimeError, match="already been freed"):
            loss.grad_fn._saved_self  # noqa: B018
        met.append(gradient.item())

    z.register_hook(look)
    loss.backward()
    assert met == [2 * z.item()]


@claims(
    "Where three gradients or more meet, a program that adds them up in another order may differ in the last bit; in "
    "this network no two edges lead to one node."
)
def test_the_order_of_sums_may_show_in_the_last_bit_and_in_this_network_nothing_meets(run):
    a, b, c = (torch.tensor(value) for value in (1.0, 1e8, -1e8))
    assert (a + b) + c != a + (b + c) and a + b == b + a
    names = run.names
    weights = [weight.detach().requires_grad_() for weight in names["by_torch"]]
    loss = F.cross_entropy(names["scores"](weights, names["pixels"][:64]), names["digits"][:64])
    into = Counter(node for behind in nodes_behind(loss) for node, _ in behind.next_functions if node is not None)
    assert len(into) >= 10 and set(into.values()) == {1}


@claims(
    "The picture is an input like any other, and its gradient says which pixel to brighten so that the loss grows.",
    "Take the trained network, and move every pixel of the pictures kept aside by 0.1 (the brightness runs from 0 "
    "to 1) in the direction of the *sign* of its gradient.",
    "The same size of step does next to nothing in a random direction. In the direction that the gradient names, "
    "all 64 small moves pull together.",
)
def test_the_gradient_of_a_picture_names_the_pixels_that_raise_its_loss(run):
    names = run.names
    aside, digits = names["pixels"][names["training"] :], names["digits"][names["training"] :]
    assert (names["pixels"].min(), names["pixels"].max()) == (0, 1)

    def losses(x):
        return F.cross_entropy(names["scores"](names["by_torch"], x), digits, reduction="none")

    x = aside.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(losses(x).sum(), x)
    assert gradient.shape[1] == 64 and (gradient != 0).all()
    with torch.no_grad():
        brightest = gradient.argmax(dim=1, keepdim=True)
        nudge = torch.zeros_like(aside).scatter_(1, brightest, 0.01)
        before, after = losses(aside), losses(aside + nudge)
        told = gradient.gather(1, brightest)[:, 0] > 1e-3  # the others move by less than float32 can say
        assert told.sum() > 50 and (after > before)[told].all()
        generator, read = torch.Generator().manual_seed(5), names["read"]
        whole = read(names["by_torch"], aside)
        for _ in range(8):
            signs = torch.randint(0, 2, aside.shape, generator=generator) * 2 - 1
            assert whole - read(names["by_torch"], aside + 0.1 * signs) < 5
            pull = (gradient * signs).sum(dim=1).abs() / gradient.abs().sum(dim=1)
            assert pull.mean() < 0.25  # against 1 in the direction of the signs
        assert (gradient * gradient.sign() > 0).all()
        assert whole - read(names["by_torch"], aside + 0.1 * gradient.sign()) > 30


@claims(
    "it compares the gradients of a loss with central differences, and names the tensors where they part.",
    "A custom backward can be wrong without a word, and central differences in float64 are the second opinion.",
)
def test_the_check_to_keep_works_on_any_layout_size_and_slope(run):
    suspects = run.names["suspects"]
    generator = torch.Generator().manual_seed(3)
    table = torch.randn(3, 4, generator=generator, dtype=torch.float64).t().requires_grad_()
    number, unused = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (300.0, 1.0))

    def loss(table, number, unused):
        return (table.exp() * number).sum() * number**2

    assert suspects(loss, table=table, number=number, unused=unused) == []
    assert suspects(lambda t, n: (t.detach() * t * n).sum(), t=table, n=number) == ["t"]
    assert suspects(lambda t, n: (t * n.detach()).sum(), t=table, n=number) == ["n"]
    for function in ("NoUpstream", "Nothing"):
        x, scale = (torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in ([1.0, 2.0], 3.0))
        wrong = suspects(lambda x, scale, f=run.names[function]: (2 * f.apply(x, scale)).sum(), x=x, scale=scale)
        assert wrong == ["x", "scale"]


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_answers_about_the_chain_are_what_its_program_does(run, references):
    variant, answers = references["chain"]()
    names = {"torch": torch}
    exec("\n".join(run.names["cases"].chain_script(variant)), names)
    x, w, z = (names[name].item() for name in "xwz")
    assert answers[:5] == [2 * z, x, w, -1, 2 * z * x]
    assert answers[5:] == [names["w"].grad, names["x"].grad, names["v"].grad, names["g"], w]


def test_the_answers_about_kinks_are_what_torch_gives(run, references):
    cases, (variant, answers) = run.names["cases"], references["kinks"]()
    lines, _, _ = cases.kink_lines(variant)
    given = [cases.slope_at(start, line) for _, start, line in lines]
    assert [str(slope) if slope != slope or abs(slope) == float("inf") else slope for slope in given] == answers


def test_the_verdicts_on_the_passes_are_what_they_leave(run, references):
    cases, values = run.names["cases"], torch.tensor([0.6, 1.3, 1.9])
    told = {letter: references["again"](letter) for letter in cases.passes}
    assert told == {
        letter: cases.outcome(piece, cases.losses[letter], values) for letter, piece in cases.passes.items()
    }
    assert set(told.values()) == set(cases.OUTCOMES) - {"more"}


@pytest.mark.parametrize("answer", [None, "fine", 2, ["once"], "Once"])
def test_a_verdict_of_any_form_is_a_miss_in_words(lesson, exercises, answer):
    found = verdict(lesson, exercises["again"], lambda piece: answer)
    assert found.status == "wrong" and "none of raises, none, once, twice, more" in found.difference.words


@pytest.mark.parametrize("answer", [None, 3, [1, 2], "x"])
def test_gradients_of_any_form_are_a_miss_in_words(lesson, exercises, answer):
    found = verdict(lesson, exercises["my_backward"], lambda loss: answer)
    assert found.status == "wrong" and "and no dict" in found.difference.words


def test_the_broken_programs_of_the_lesson_are_wrong(lesson, run, exercises):
    joined = verdict(lesson, exercises["joined"], run.names["broken_joined"])
    assert joined.met == [True, False, False]
    assert not verdict(lesson, exercises["fd_grad"], run.names["broken_fd_grad"]).met[0]
    assert not any(verdict(lesson, exercises["Bend"], run.names["BrokenBend"]).met)


@claims(
    "It has passed its only test, a `.sum().backward()` with one row.",
)
def test_the_faults_of_the_broken_backward_are_there(run):
    broken, mended = run.names["BrokenBend"], run.names["Bend"]
    x = torch.tensor([[0.3, -0.2], [0.1, 0.4]], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    for function, fine in ((broken, False), (mended, True)):
        assert torch.autograd.gradcheck(function.apply, (x, scale, 1.0), raise_exception=False) == fine
        assert torch.autograd.gradgradcheck(function.apply, (x, scale, 1.0), raise_exception=False) == fine
        sent = function.backward(function.apply(x, scale, 1.0).grad_fn, torch.ones_like(x))
        assert (sent[1].shape == scale.shape) == fine
    passed = [torch.autograd.grad(f.apply(x[:1], scale, 1.0).sum(), (x, scale)) for f in (broken, mended)]
    assert all(torch.allclose(one, other) for one, other in zip(*passed, strict=True))  # "its only test"


# --- the catalogue ---------------------------------------------------------------------------------------------------

#: Silent entries that no exercise recognises: a demonstration shows the number that refutes each.
SHOWN = {"B10": "z.grad, asked for afterwards: None\nw itself: 2.0\nz.grad, asked for in time: tensor(14.)\n"}


def test_every_silent_misconception_is_recognised_or_refuted(lesson, exercises, run):
    silent = {name for name, entry in tomllib.loads(CATALOGUE.read_text("utf-8")).items() if entry["silent"]}
    silent = {name for name in silent if name.startswith("B")}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises)}
    assert all(words in run.output for words in SHOWN.values())
    assert silent - recognised - SHOWN.keys() == set()


def test_the_demonstrations_of_the_catalogue_are_headings_of_the_lesson(lesson):
    catalogue = tomllib.loads(CATALOGUE.read_text("utf-8"))
    headings = set(re.findall(r"^#+ (.+)$", "\n".join(cell.source for cell in lesson.cells), re.M))
    named = {
        name: entry["demonstration"] for name, entry in catalogue.items() if name[0] == "B" and "demonstration" in entry
    }
    assert len(named) >= 30
    for name, place in named.items():
        unit, _, heading = place.partition("#")
        assert unit == UNIT and heading in {one.replace(" ", "-") for one in headings}, name


# --- what it covers --------------------------------------------------------------------------------------------------

OBJECTIVES = {
    "Work a gradient out by hand": ["chain"],
    "Say what `backward()` returns": ["chain", "again"],
    "Foresee whether a second backward": ["again"],
    "Bring several losses": ["joined"],
    "Build a Jacobian": ["jacobian"],
    "Check a gradient by differences": ["fd_grad"],
    "Say which slope torch gives": ["kinks"],
    "Write an operation": ["Bend"],
    "Put a slope into a loss": ["penalty"],
    "Run the graph backward": ["my_backward"],
}


def test_every_objective_has_an_exercise_and_every_exercise_an_objective(lesson):
    found = {
        objective: [names for words, names in OBJECTIVES.items() if objective.startswith(words)]
        for objective in lesson.settings["objectives"]
    }
    assert all(len(names) == 1 for names in found.values()), found
    assert {name for names in OBJECTIVES.values() for name in names} == set(lesson.exercises)


def test_the_forms_are_mixed(lesson):
    forms = {cell.tagged("form")[0] for cell in lesson.cells if cell.role == "solution"}
    assert forms >= {"predict", "repair", "review", "complete", "write"}


def test_the_answers_about_kinks_stand_nowhere_in_the_cases(lesson):
    tree = ast.parse((lesson.directory / "cases.py").read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert "nan" not in texts and "inf" not in texts


def test_the_text_ends_in_five_sentences(lesson):
    last = prose(lesson).split("## In five sentences")[1]
    assert re.findall(r"# (\d)\. |(?<= )(\d)\. ", last)[-1][-1] == "5"
