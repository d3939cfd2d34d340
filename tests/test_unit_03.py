"""What unit 3 says is what runs: its numbers, its graphs, and the wrong programs that its exercises spell out."""

import ast
import contextlib
import gc
import io
import re
import tomllib
import weakref
from pathlib import Path

import pytest
import torch
from autogradlab import commit, predictions
from autogradlab.costs import Meter
from claims import claims
from lesson_runs import nodes_behind, tracked, verdict
from torch import nn

from autograder import lessons

UNIT = "03_building_the_graph"
CATALOGUE = Path(__file__).parent.parent / "course" / "misconceptions.toml"


def kept_tensors(node):
    """The tensors in the attributes of a node that begin with `_saved_`."""
    found = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    return [one for one in found if isinstance(one, torch.Tensor)]


class Mark:
    """Lives exactly as long as the node in whose metadata it is put."""


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds(run):
    assert run.seconds < 10


def test_the_lesson_runs_untouched_and_then_shows_no_result(lesson):
    """The open problem and the picture have stubs, which a cell below them has to live with."""
    cells = [cell for cell in lesson.cells if cell.kind == "code" and cell.role != "test"]
    output = io.StringIO()
    untouched = [cell for cell in cells if cell.role != "solution"]

    def picture(tensor, names):
        raise NotImplementedError

    with contextlib.redirect_stdout(output):
        names = lessons.execute(lesson, untouched[:1])
        names["picture"] = picture
        for cell in untouched[1:]:
            exec(compile(cell.source, "<cell>", "exec"), names)
    lines = output.getvalue().splitlines()
    predictions = [cell for cell in cells if cell.role == "prediction"]
    assert lines.count("Commit an answer and a confidence first.") == len(predictions) >= 10
    assert not any(line.startswith("It is") for line in lines)
    assert "picture() is not written yet." in lines


@claims("Before many results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).")
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
        rows, columns, added = (
            int(re.search(pattern, script)[1]) for pattern in (r"ones\((\d)", r"zeros\((\d)", r"\+= (\d)")
        )
        table, w = names["table"], names["w"]
        assert table.shape == (rows, columns) and rows > 1
        assert (table[0, 0].item(), table[1, 0].item()) == (1 + added, 1)
        assert w.item() == rows - 0.5 * (2 * rows + added)
        commit("warm_up", answer=[0, 0, 0, 0], confidence=1, variant=variant, answers=4)
        assert f"Variant {variant}." in capsys.readouterr().out
    commit("warm_up", answer=[0, 0, 0, 0], confidence=1, variant=100, answers=4)
    assert "Not recorded." in capsys.readouterr().out


@claims(
    "A result knows how it was made: `grad_fn` names the operation that made it, and `next_functions` leads on from "
    "there."
)
def test_grad_fn_names_the_operation_and_next_functions_lead_on(run):
    w, x = tracked(2.0, 3.0)
    product = w * x
    loss = product.exp()
    assert (loss.grad_fn.name(), product.grad_fn.name()) == ("ExpBackward0", "MulBackward0")
    assert loss.grad_fn.next_functions == ((product.grad_fn, 0),)
    assert len(re.findall(r"^ +\(<\w+ object at 0x\w+>, 0\)$", run.output, re.M)) >= 2


@claims(
    "An operation is recorded when a tracked tensor goes in and the operation has a derivative.",
    "A comparison gives `True` or `False`, for which there is no derivative, so nothing is recorded.",
    "A copy by `clone()` is an operation like any other.",
)
def test_operations_on_tracked_tensors_are_recorded_and_comparisons_are_not(run):
    assert "It is [True, False, False, True, True]." in run.output
    w, x = tracked([0.5, 2.0]), torch.tensor([3.0, 1.0])
    differentiable = (torch.exp, torch.sin, torch.clone, torch.sum, torch.round, lambda t: t * x, lambda t: t[0])
    for operation in differentiable:
        assert operation(w).grad_fn is not None and operation(x).grad_fn is None
    for without in (torch.isfinite, torch.argmax, lambda t: t > x, lambda t: t == t):
        assert without(w).grad_fn is None and not without(w).requires_grad
    w.clone().sum().backward()
    assert w.grad.tolist() == [1, 1]


@claims(
    "`grad_fn` stands there right after the forward line: the record is made while you walk forward, and `backward()` "
    "only follows it."
)
def test_the_record_stands_before_backward_and_backward_adds_nothing_to_it():
    w, x = tracked(2.0, 3.0)
    loss = (w * x).exp()
    before = nodes_behind(loss)
    assert [node.name() for node in before[:2]] == ["ExpBackward0", "MulBackward0"]
    loss.backward()
    assert nodes_behind(loss) == before


@claims(
    "`detach()` hands the same numbers on without the past, and in a `no_grad` block nothing that is computed is "
    "recorded.",
    "A change of dtype looks as harmless, and is recorded like a product:",
    "`no_grad` stops the recording of operations and changes no flag that you set: a tensor made there with "
    "`requires_grad=True` is tracked.",
)
def test_detach_and_no_grad_record_nothing_and_a_change_of_dtype_is_recorded(run):
    w = tracked([2.0, 5.0])
    result = w * 3
    assert torch.equal(result.detach(), result) and result.detach().grad_fn is None
    with torch.no_grad():
        computed = [w * 2, w.exp(), w.clone(), w.double(), w[[0]]]
        view = w[0]
        made = torch.ones(2, requires_grad=True)
        assert w.requires_grad
    assert not any(tensor.requires_grad or tensor.grad_fn for tensor in computed)
    assert view.grad_fn is None and not any(hasattr(node, "variable") for node in nodes_behind(view * 2))
    assert made.requires_grad and (made * 2).grad_fn is not None
    assert w.double().grad_fn.name() == "ToCopyBackward0"
    w.double().sum().backward()
    assert w.grad.tolist() == [1, 1]
    assert re.search(r"^double\(\): +True <ToCopyBackward0", run.output, re.M)


@claims(
    "a tensor is a leaf exactly where its `grad_fn` is `None`.",
    "`ones(...) * 2` is one line of yours, and what it names is a result.",
)
def test_a_leaf_is_a_tensor_without_grad_fn(run):
    assert "It is [True, True, False, False, True, True]." in run.output
    table = run.output.split("is_leaf  tracked  grad_fn\n")[1].splitlines()[:6]
    rows = [re.split(r"  +", line.strip()) for line in table]
    assert [row[1] == "True" for row in rows] == [row[3] == "None" for row in rows]
    w, base = tracked([2.0, 5.0]), torch.zeros(2, 2)
    view = base[0]
    base.mul_(w)  # the view is a result from here on, although no line made it anew
    with torch.no_grad():
        unrecorded = w * 2
    row = tracked([[1.0, 2.0]])[0]
    tensors = [w, w * 2, w.detach(), w.int(), w > 3, w[0], unrecorded, base, view, row, nn.Linear(2, 2).weight]
    tensors += [torch.ones(2, requires_grad=True) * 2, torch.empty(0), w.view(1, 2), torch.tensor(3)]
    leaves = [tensor.is_leaf for tensor in tensors]
    assert leaves == [tensor.grad_fn is None for tensor in tensors] and len(set(leaves)) == 2


@claims(
    "`backward()` fills the `.grad` of tracked leaves, and that of a result only where somebody asked for it with "
    "`retain_grad()`. An optimizer that is made as below refuses any other result:",
    "In the line of `named_too_late` two tracked tensors were made. The leaf received the gradient and has no name; "
    "the name belongs to the result.",
    "A leaf is a tensor without `grad_fn`, and `backward()` fills the `.grad` of tracked leaves, and of no result that "
    "did not ask.",
)
def test_a_tensor_that_is_named_too_late_is_refused_by_an_optimizer(run):
    assert "an optimizer:    can't optimize a non-leaf Tensor\n" in run.output
    assert "named in time:   leaf True and .grad tensor([1., 1.])\n" in run.output
    assert "named too late:  leaf False and .grad None\n" in run.output
    assert "asked for:       leaf False and .grad tensor([1., 1.])\n" in run.output
    nameless = run.names["named_too_late"].grad_fn.next_functions[0][0].variable
    assert nameless.requires_grad and nameless.is_leaf and nameless.grad.tolist() == [0.5, 0.5]
    assert not any(value is nameless for value in run.names.values())


@claims(
    "An optimizer does take `asked_for`, and moves the result; the leaf stays where it is, and the next forward pass "
    "computes the old values anew."
)
def test_a_result_whose_gradient_was_asked_for_is_moved_and_its_leaf_is_not():
    leaf = torch.ones(2, requires_grad=True)
    result = leaf * 0.5
    result.retain_grad()
    result.sum().backward()
    torch.optim.SGD([result], lr=0.1).step()
    assert torch.allclose(result.detach(), torch.tensor([0.4, 0.4]))
    assert leaf.tolist() == [1, 1] and (leaf * 0.5).tolist() == [0.5, 0.5]


@claims(
    "The flag of a leaf that holds floats can be changed at any time: it says what is recorded from there on, and "
    "whether `backward()` leaves something there. The flag of a result follows from its history:"
)
def test_a_flag_counts_from_where_it_is_set(run):
    assert "before the flag, edges lead to [None, 'torch::autograd::AccumulateGrad']\n" in run.output
    assert "w.grad None and v.grad tensor(2.)\n" in run.output
    assert "you can only change requires_grad flags of leaf variables\n" in run.output
    with pytest.raises(RuntimeError, match="floating point"):
        torch.ones(2, dtype=torch.int64).requires_grad_()
    plain, w = torch.ones(2), tracked([1.0, 1.0])
    assert not (plain * 2).requires_grad and (plain * w).requires_grad


@claims(
    "The first step works.",
    "The update put a new tensor under the name `w`, a result with the old leaf behind it. The old leaf collects the "
    "second gradient on top of the first, and no name leads to it. `no_grad` and an edit in place keep the leaf, and "
    "record nothing.",
)
def test_an_update_without_no_grad_makes_a_result(run):
    assert "It is [False, None]." in run.output
    assert "a leaf Variable that requires grad is being used in an in-place operation" in run.output
    w = tracked(2.0)
    (w**2).backward()
    w, old = w - 0.1 * w.grad, w
    assert w.item() == pytest.approx(1.6)
    (w**2).backward()
    (place,) = [node for node in nodes_behind(w) if hasattr(node, "variable")]
    assert place.variable is old and not w.is_leaf
    assert old.grad.item() == pytest.approx(2 * 2.0 + 2 * 1.6)
    u = tracked(2.0)
    (u**2).backward()
    address = u.data_ptr()
    with torch.no_grad():
        u -= 0.1 * u.grad
    assert u.is_leaf and u.grad_fn is None and u.data_ptr() == address and u.item() == pytest.approx(1.6)


@claims(
    "The nodes are *operations*: each is an object that can carry a gradient one step back.",
    "A tensor is no node; a result points at the node of the operation that made it, by its `grad_fn`.",
    "An edge is a pair: the next node, and the number of the output of that node which was used.",
    "At the end of the way to a tracked leaf stands a node called `AccumulateGrad`, which holds the leaf in its "
    "attribute `variable`. The number 1 is not tracked, and there the edge leads to `None`. The exponent 2 is no input "
    "that a gradient could go to, and has no edge at all.",
    "Nodes are operations, edges are pairs of a node and an output index, and where nothing is tracked an edge leads "
    "to `None`.",
)
def test_an_edge_is_a_node_and_an_index(run):
    assert "no tensor: 'AddBackward0' object has no attribute 'shape'\n" in run.output
    w, x = tracked(2.0, 3.0)
    loss = (w * x + 1.0) ** 2
    power = loss.grad_fn
    assert not any(isinstance(node, torch.Tensor) for node in nodes_behind(loss))
    assert power(torch.tensor(1.0)).item() == 2 * 7
    ((add, _),) = power.next_functions
    (product, number), (nothing, _) = add.next_functions
    assert (number, nothing) == (0, None)
    assert [gradient.item() for gradient in product(torch.tensor(14.0))] == [42, 28]
    assert [(node.name(), node.variable) for node, _ in product.next_functions] == [
        ("torch::autograd::AccumulateGrad", w),
        ("torch::autograd::AccumulateGrad", x),
    ]
    first, second = tracked([1.0, 2.0]).chunk(2)
    assert [index for _, index in (first * second).grad_fn.next_functions] == [0, 1]


@claims(
    "`x * x` uses one tensor twice. `v.chunk(2)` is one operation with two results, `first` and `second`, of which the "
    "product is taken."
)
def test_two_pieces_share_a_node(run):
    assert "one machine, two chutes: True [0, 1]\n" in run.output
    assert "It is [2, 1, 3]." in run.output


@claims(
    "From the result two edges lead to the one node behind `x`. Do it 40 times.",
    "Nodes are few, and routes double with every line.",
    "Routes multiply and nodes do not, so a walk keeps a set of what it has seen.",
)
def test_forty_doublings_are_41_nodes_and_a_trillion_routes(run):
    assert "It is [41, 1099511627776, A]." in run.output
    assert "12 doublings: 8191 visits for 13 nodes" in run.output
    x, routes = tracked(1.0), run.names["routes"]
    (one, _), (other, _) = (x + x).grad_fn.next_functions
    assert one is other and one.variable is x
    doublings = run.names["cases"].doublings
    for count in (1, 2, 3, 10):
        assert routes(doublings(x, count)) == {x: 2**count}
        assert len(nodes_behind(doublings(x, count))) == count + 1


@claims(
    "The gradient is a sum over all routes, and PyTorch gets it without walking them: it visits each node once, when "
    "everything that arrives there has arrived."
)
def test_each_node_is_visited_once_and_after_all_that_lead_to_it(run):
    x, y = tracked(1.5, 0.5)
    tangle = run.names["cases"].doublings(x * y + x, 4)
    loss = tangle * x.sin() + tangle * y
    nodes, visited = nodes_behind(loss), []
    for node in nodes:
        node.register_prehook(lambda gradients, node=node: visited.append(node))
    loss.backward()
    assert len(visited) == len(set(visited)) == len(nodes)
    for node in nodes:
        for following, _ in node.next_functions:
            assert following is None or visited.index(following) > visited.index(node)
    slopes = {1: 1.0}
    for count in (1, 2, 5):  # every route of a doubling has the slope 1, so that the gradient counts them
        u = tracked(1.0)
        run.names["cases"].doublings(u, count).backward()
        slopes[count] = u.grad.item()
    assert slopes == {1: 2, 2: 4, 5: 32}


@claims("This count is right for `w * x`, and goes wrong in four ways:")
def test_the_broken_count_goes_wrong_in_four_ways(run):
    count, cases = run.names["broken_count_nodes"], run.names["cases"]
    w, x = tracked(2.0, 3.0)
    assert count(w * x) == 3
    for wrong in (w + 1, w):
        with pytest.raises(AttributeError):
            count(wrong)
    assert count(cases.doublings(w, 10)) == 2**11 - 1
    with pytest.raises(RecursionError):
        count(cases.chain(w, 2000))


@claims(
    "A `None` at the end of an edge is no node. A tensor without a `grad_fn` has 0.",
    "Graphs may have routes by the billion and be deeper than functions may call each other: `check` allows 300 calls.",
)
def test_the_graphs_to_count_are_deep_and_have_routes_by_the_billion(lesson, run, exercises):
    count, cases, met = run.names["count_nodes"], run.names["cases"], []
    w = tracked(2.0)
    assert (count(w + 1.0), count(w), count(torch.ones(2))) == (2, 0, 0)

    def noting(tensor):
        if tensor.grad_fn is not None:
            met.append((max(run.names["routes"](tensor).values()), len(nodes_behind(tensor))))
        return count(tensor)

    assert verdict(lesson, exercises["count_nodes"], noting).status == "right"
    assert max(routes for routes, _ in met) > 10**9 and max(nodes for _, nodes in met) > 300

    def deep(calls):
        return calls and deep(calls - 1)

    with cases.shallow():
        assert deep(290) == 0
        with pytest.raises(RecursionError):
            deep(301)


@claims(
    "Nobody declares a graph. It is what ran, so an `if` or a loop of Python needs no special form.",
    "Autograd never sees the `if`. It is shown operations as they run, so the gradient is that of the branch taken: 3 "
    "times the sum of the words, or -5 times. The other branch is in no graph.",
    "The forward pass writes the graph, one node for each recorded operation, and every call writes a new one from "
    "what really ran.",
)
def test_the_gradient_is_that_of_the_branch_taken(run):
    assert "It is [21, 2.5, False]." in run.output
    along = run.names["along"]
    for sentence, factor in (([1.0, 4.0, 2.0], 3), ([-1.0, 0.5], -5), ([2.0], 3), ([], -5)):
        w = tracked(2.0)
        result = along(w, sentence)
        result.backward()
        assert w.grad.item() == factor * sum(sentence)
        straight = w * 0.0
        for word in sentence:
            straight = straight + word * w
        straight = factor * straight
        names = [node.name() for node in nodes_behind(result)]
        assert names == [node.name() for node in nodes_behind(straight)]
        assert len(names) == 1 + 1 + 2 * len(sentence) + 1  # the leaf, w * 0, two for each word, and the branch
        again = set(nodes_behind(along(w, sentence))) & set(nodes_behind(result))
        assert [node.name() for node in again] == ["torch::autograd::AccumulateGrad"]


@claims(
    "The slope of `exp` is its own output; the slope of `x * x` needs the input; `x + 1` has the slope 1 and needs "
    "nothing."
)
@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        (torch.exp, "output"),
        (lambda x: x * x, "input and input"),
        (lambda x: x + 1, "nothing"),
        (lambda x: x**2, "input"),
        (torch.relu, "output"),
        (lambda x: x * 3, "nothing"),
        (torch.sin, "input"),
        (torch.sigmoid, "output"),
    ],
)
def test_a_node_keeps_what_its_slope_needs(run, operation, kept):
    x = torch.tensor([0.5, -1.5], requires_grad=True)
    assert run.names["kept_by"](operation(x), x) == kept
    assert "It is [output, nothing, input, output, nothing]." in run.output


@claims(
    "What PyTorch's own nodes have kept stands in their attributes that begin with `_saved_`.",
    "Numbers are kept as well: the node of `x * 3` has the 3, which is all that its slope needs.",
)
def test_the_saved_attributes_hold_what_the_hooks_are_shown():
    x, v = tracked([0.5, 1.5], [2.0, 3.0])
    shown_to_hooks = []

    def look(tensor):
        shown_to_hooks.append(tensor.data_ptr())
        return tensor.detach()

    lines = (torch.exp, torch.sin, torch.sigmoid, torch.relu, lambda x: x * v, lambda x: x / v, lambda x: x**2)
    for line in (*lines, lambda x: torch.where(x > 1, x, v), lambda x: x.softmax(0), lambda x: x + 1):
        shown_to_hooks.clear()
        with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
            result = line(x)
            kept = {tensor.data_ptr() for tensor in kept_tensors(result.grad_fn)}
        assert kept == set(shown_to_hooks)
    times = (x * 3).grad_fn
    assert times._saved_other == 3 and times._saved_self is None
    assert torch.equal(times(torch.ones(2))[0], torch.tensor([3.0, 3.0]))


@claims(
    "A tensor that is kept takes memory until `backward()` frees it, or until nobody holds the result any more; that "
    "long the nodes themselves stay in any case."
)
@pytest.mark.parametrize("goes_backward", [True, False])
def test_backward_frees_what_was_kept_and_leaves_the_nodes(run, goes_backward):
    assert re.search(r"before: .*\(4,000 bytes\) kept by 4 nodes", run.output)
    assert "after:  Nodes only, 4 nodes: no bytes are kept but theirs.\n" in run.output
    x = torch.randn(1000, requires_grad=True)
    with Meter() as meter:
        loss = (x.exp() ** 2).sum()
        alive = []
        for node in nodes_behind(loss)[:-1]:
            node.metadata["mark"] = mark = Mark()
            alive.append(weakref.ref(mark))
        del node, mark
        assert meter.graph_bytes == 4000
        if goes_backward:
            loss.backward()
        assert meter.graph_bytes == (0 if goes_backward else 4000)
        assert len(alive) == 3 and all(mark() is not None for mark in alive)
        del loss
        gc.collect()
        assert meter.graph_bytes == 0 and not any(mark() is not None for mark in alive)


@claims("A node keeps a tensor and no copy of it.")
def test_a_node_keeps_no_copy():
    x, v = tracked([0.5, 1.5], [2.0, 3.0])
    y = x.exp()
    addresses = {y.data_ptr(), v.data_ptr()}
    assert {tensor.data_ptr() for node in nodes_behind(y * v) for tensor in kept_tensors(node)} == addresses


@claims(
    "Each tensor counts its edits in place, in `_version`, and a node remembers the number it saw.",
    "`y = x * 2` keeps nothing of `y`, and `y.add_(1)` is recorded and harmless.",
)
def test_edits_in_place_are_counted_and_compared(run):
    y = torch.zeros(2)
    y += 1
    y.mul_(2)
    y[0] = 5
    assert y._version == 3 and (y + 1)._version == 0
    assert "kept at version 0\nnow at version  1\n" in run.output
    w = tracked([0.5, 1.5])
    kept = torch.tensor([2.0, 3.0])
    kept += 1
    product = w * kept
    kept += 1
    with pytest.raises(RuntimeError, match="is at version 2; expected version 1 instead"):
        product.sum().backward()
    y = w * 2
    y.add_(1)
    assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert w.grad.tolist() == [2, 2]


@claims(
    "The version counter makes a wrong gradient into an error. It compares numbers of edits and no values: after `y += "
    "0` it refuses too. `.data` and NumPy write past it, and the wrong gradient comes without a word. `detach()` "
    "shares the counter as it shares the memory, so that a write through it is found.",
    "A node keeps tensors and no copies, so an edit in place is harmless only where no node needs the old value, and "
    "one that slips past the version counter is never reported.",
)
def test_data_and_numpy_write_past_the_version_counter_and_detach_does_not(run):
    assert "It is [raises, wrong, wrong]." in run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("y.detach().zero_()")]
    assert line.split() == ["y.detach().zero_()", "version", "1:", "raises", "None"]
    past = (lambda y: y.data.zero_(), lambda y: y.detach().numpy().fill(0))
    seen = (lambda y: y.add_(0), lambda y: y.zero_(), lambda y: y.detach().zero_())
    for write in (*past, *seen):
        x = tracked([0.5, 1.5])
        y = x.exp()
        write(y)
        assert y._version == (write in seen)
        if write in seen:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        else:
            y.sum().backward()
            assert x.grad.tolist() == [0, 0]
    for write in past:  # where no node needs the old value, these do no harm either
        x = tracked([0.5, 1.5])
        y = x * 2
        write(y)
        y.sum().backward()
        assert x.grad.tolist() == [2, 2]


@claims(
    "Each gets a tracked leaf `x`, a vector with values between 0.5 and 2, and returns a loss; then `loss.backward()` "
    "runs."
)
def test_the_pieces_are_judged_on_vectors_between_a_half_and_2(lesson, run, exercises, monkeypatch):
    cases, given = exercises["edited"].script.__globals__, []
    fate = cases["fate"]

    def noting(piece, same, values):
        given.append(values)
        assert piece(values.clone().requires_grad_()).shape == ()
        return fate(piece, same, values)

    monkeypatch.setitem(cases, "fate", noting)
    assert verdict(lesson, exercises["edited"], lessons.references(lesson)["edited"]).status == "right"
    assert len(given) >= 8 and all(values.dim() == 1 for values in given)
    assert all(0.5 <= value <= 2 for values in given for value in values.tolist())


@claims(
    "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` is a block in which `pack` is called with each tensor as "
    "it is kept; what it returns is kept instead, and `unpack` turns that back when `backward()` needs it."
)
def test_hooks_keep_what_pack_returns_and_unpack_when_backward_needs_it():
    x, shelf, asked = tracked([0.5, 1.5]), [], []

    def pack(tensor):
        shelf.append(tensor.detach().clone())
        return len(shelf) - 1

    def unpack(number):
        asked.append(number)
        return shelf[number]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
        loss = (y * y).sum()
        assert len(shelf) == 3
    outside = x.sin()
    assert len(shelf) == 3 and asked == []
    shelf[0].zero_()  # what exp kept: another result comes back from it
    loss.backward()
    assert sorted(asked) == [0, 1, 2] and x.grad.tolist() == [0, 0]
    outside.sum().backward()
    assert len(asked) == 3


@claims(
    "Five tensors were kept, and all of them lie on one storage of 24 bytes.",
    "`looking` returns `tensor.detach()`: a result that is kept in the node that made it would keep itself alive.",
)
def test_a_hook_that_hands_back_its_tensor_keeps_it_alive(run):
    assert run.names["alive_after"](lambda tensor: tensor)
    assert not run.names["alive_after"](lambda tensor: tensor.detach())
    assert run.output.count("of a storage of 24 bytes\n") == 5
    storages = {tensor.untyped_storage().data_ptr() for tensor in kept_by_three_nodes()}
    assert len(storages) == 1


def kept_by_three_nodes():
    """The tensors that are kept by the program of the demonstration, each by itself."""
    x, kept = torch.ones(6, requires_grad=True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.detach()), lambda kept: kept):
        h = x.exp()
        (h[:2] * h[:2]).sum() + (h * h).sum()
    assert len(kept) == 5
    return kept


@claims(
    "Two views of a storage have the same `tensor.untyped_storage().data_ptr()`, the address at which it begins, which "
    "makes it a good key for a dict while the storage is kept."
)
def test_views_share_the_address_of_their_storage_and_no_other_does():
    table = torch.zeros(3, 4)
    views = [table[1:], table.T, table.view(-1)[5:], table.detach()]
    assert {view.untyped_storage().data_ptr() for view in views} == {table.untyped_storage().data_ptr()}
    assert views[0].data_ptr() != table.data_ptr() and table.data_ptr() == table.untyped_storage().data_ptr()
    others = [torch.zeros(3, 4) for _ in range(50)]
    assert len({other.untyped_storage().data_ptr() for other in others}) == 50


@claims(
    "All of them are numbers, and most of them run backward without an error.",
    "*Nothing recorded*: the loss has no `grad_fn`, because the flag came late, a comparison stands in the way, or the "
    "number was wrapped anew; only in some of these cases does `backward()` complain.",
)
def test_of_six_losses_one_moves_the_weight(run):
    assert "It is [True, False, False, False, False, False]." in run.output
    lines = run.output[run.output.index("tensors only ") :].splitlines()[:6]
    assert sum("element 0 of tensors does not require grad" in line for line in lines) == 1
    w, x = torch.tensor([0.7, 0.4]), torch.tensor([1.0, 2.0])
    late = ((w * x) ** 2).sum()
    w.requires_grad_()
    compared = (w * x > 0.5).float().sum()
    wrapped = torch.tensor(((w * x) ** 2).sum().item(), requires_grad=True)
    assert [loss.grad_fn for loss in (late, compared, wrapped)] == [None, None, None]
    for loss in (late, compared):
        with pytest.raises(RuntimeError, match="does not require grad"):
            loss.backward()
    wrapped.backward()
    assert w.grad is None


@claims(
    "*No route*: the loss has a graph, and its edges do not lead to `w`.",
    "*Flat*: every route to `w` runs over a step such as `round`, whose slope is zero. A count and a rounding need a "
    "smooth stand-in, or the gradient is handed past the step:",
)
def test_where_there_is_no_route_none_arrives_and_over_a_step_zeros(run):
    w, v = tracked([0.7, 1.2], [2.0, 3.0])
    (torch.from_numpy(w.detach().numpy() * 2) * v).sum().backward()
    assert w.grad is None and v.grad is not None
    for step in (torch.round, torch.floor, torch.ceil, torch.trunc, torch.sign):
        w.grad = None
        step(w).sum().backward()
        assert w.grad.tolist() == [0, 0]
    assert "round        values tensor([1., 1.]) gradient tensor([0., 0.])\n" in run.output
    assert "handed past  values tensor([1., 1.]) gradient tensor([1., 1.])\n" in run.output
    w.grad = None
    torch.sigmoid(10 * (w - 0.5)).sum().backward()
    assert (w.grad > 0).all()


@claims(
    "Somebody wants a root that is 0 for everything that is not positive, and writes `torch.where(x > 0, x.sqrt(), "
    "0.0)`. The values are right.",
    "`where` is an operation, and both of its branches have run. The branch that was dropped gets a gradient of zero, "
    "and the slope of the root at 0 is infinite: zero times infinity is not a number. A mask does the same.",
    "The remedy is to change what goes *in*. The slope of the logarithm is infinite at 0 too; here it never sees a 0:",
)
def test_the_branch_not_taken_makes_a_slope_that_is_no_number(run):
    assert "It is [0.25, nan]." in run.output
    assert "times a mask           values [2.0, 0.0]  slopes [0.25, nan]\n" in run.output
    assert "values tensor([1.3863, 0.0000]) slopes tensor([0.2500, 0.0000])\n" in run.output
    x = tracked([4.0, 0.0, -1.0])
    root = x.sqrt()
    root.retain_grad()
    chosen = torch.where(x > 0, root, 0.0)
    assert chosen.tolist() == [2, 0, 0] and {"SqrtBackward0", "WhereBackward0"} <= {
        node.name() for node in nodes_behind(chosen)
    }
    chosen.sum().backward()
    assert root.grad.tolist() == [1, 0, 0] and x.grad[1].isnan()
    for infinite in (torch.sqrt, torch.log):
        at_zero = tracked(0.0)
        infinite(at_zero).backward()
        assert at_zero.grad.item() == float("inf")


def test_the_second_slope_of_the_safe_root_is_finite_where_that_of_the_root_is(run):
    for root in (run.names["safe_sqrt"], torch.sqrt):
        x = tracked([1e-30, 1e-12, 4.0])
        (slope,) = torch.autograd.grad(root(x).sum(), x, create_graph=True)
        assert slope.isfinite().all()
        assert torch.autograd.grad(slope.sum(), x)[0].isfinite().tolist() == [False, True, True]


@claims(
    "A *module* collects tensors, and `parameters()` lists those it counts as its own; an optimizer updates what it is "
    "given from that list. A module notices an `nn.Parameter` or another module that is assigned to an attribute. Here "
    "is one with four weights.",
    "The graph is whole, the gradients arrive, and nobody ever reads three of the four. No error says so. The plain "
    "tensor becomes an `nn.Parameter`, the list an `nn.ModuleList`.",
)
def test_a_module_does_not_list_plain_tensors_and_lists(run):
    assert re.search(r"shift +moved by 0\.000\nlayers\[0\]\.weight +moved by 0\.000\n", run.output)
    assert "with nn.Parameter and nn.ModuleList: 4 parameters\nIt is 1." in run.output
    model = run.names["Hidden"]()
    weights = [model.scale, model.shift, model.layers[0].weight, model.layers[0].bias]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [weight.item() for weight in weights]
    model(torch.ones(3, 1)).sum().backward()
    optimizer.step()
    assert all(weight.grad is not None and weight.grad.item() != 0 for weight in weights)
    moved = [weight.item() != old for weight, old in zip(weights, before, strict=True)]
    assert moved == [True, False, False, False]
    model.inner, model.other = nn.Linear(1, 1), nn.Parameter(torch.zeros(1))
    assert len(list(model.parameters())) == 1 + 2 + 1


@claims(
    "The gradient of `x * x + x * y` in `x` has a part for each route from the result to `x`. Routes can be counted "
    "without walking them: hand a 1 to the root, let each node hand what it has to each of its edges, and add up what "
    "arrives.",
    "Three edges lead to the leaf `x`. In this graph they are its three routes, because every node on the way has one "
    "edge into it. After a doubling that is so no more.",
)
def test_edges_are_not_routes(run):
    assert "edges into: [2, 2] and the slope is 4.0\n" in run.output
    x, y = tracked(2.0, 5.0)
    result = x * x + x * y
    into = run.names["edges_into"](result.grad_fn)
    by_name = sorted((node.name(), count) for node, count in into.items())
    leaf = "torch::autograd::AccumulateGrad"
    assert by_name == [("MulBackward0", 1), ("MulBackward0", 1), (leaf, 1), (leaf, 3)]
    assert run.names["routes"](result) == {x: 3, y: 1}
    result.backward()
    assert x.grad.item() == x + x + y
    twice = run.names["cases"].doublings(tracked(2.0), 2)
    (edges,) = [count for node, count in run.names["edges_into"](twice.grad_fn).items() if hasattr(node, "variable")]
    assert edges == 2 and list(run.names["routes"](twice).values()) == [4]


@claims(
    "A node may only hand on when everything that leads to it has arrived.",
    "With a gradient in place of the 1, and a slope on every edge, this is how PyTorch goes backward.",
)
def test_handing_gradients_on_along_the_edges_gives_what_backward_gives(run):
    def computed():
        w, x, v = tracked(2.0, 3.0, [1.0, 4.0])
        first, second = v.chunk(2)
        shared = run.names["cases"].doublings(w * x, 2)
        return (w, x, v), (shared + 1) ** 2 + shared * (first * second).sum()

    (w, x, v), loss = computed()
    waiting, hasty = (handed_on(loss, run.names["edges_into"](loss.grad_fn), waits) for waits in (True, False))
    theirs, loss = computed()
    loss.backward()
    for leaf, other in zip((w, x, v), theirs, strict=True):
        assert torch.equal(waiting[leaf], other.grad)
    assert not torch.equal(hasty[w], theirs[0].grad)


def handed_on(loss, into, waits):
    """The gradients of the leaves behind a loss, by leaf, from calling each node once.

    waits: a node is called when all edges into it have brought theirs, not at the first
    """
    arrived, ready, found = {loss.grad_fn: {0: torch.ones(())}}, [loss.grad_fn], {}
    while ready:
        node = ready.pop()
        gradients = [arrived[node].get(output) for output in range(max(arrived[node]) + 1)]
        if hasattr(node, "variable"):
            found[node.variable] = gradients[0]
            continue
        with torch.no_grad():
            handed = node(*gradients)
        handed = handed if isinstance(handed, tuple) else (handed,)
        for (following, output), gradient in zip(node.next_functions, handed, strict=True):
            if following is not None:
                if following not in arrived and not waits:
                    ready.append(following)
                slots = arrived.setdefault(following, {})
                slots[output] = slots.get(output, 0) + gradient
                into[following] -= 1
                if into[following] == 0 and waits:
                    ready.append(following)
    return found


@claims(
    "A node has a name and a label, an edge an arrow and a label; where there is a label, the name is for the text "
    "only and is not drawn."
)
def test_of_a_labelled_node_the_label_alone_is_drawn(run):
    svg = run.names["svg"]('digraph {\n abc [label="one"]\n plain\n abc -> plain [label="7"]\n}')
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert sorted(drawn) == ["7", "one", "plain"]
    assert "<polygon" in svg and "<path" in svg


@claims(
    "where a chain of results should lead from the weights to the loss, it names the first link that is not tracked. A "
    "flat step is tracked, and so is a number that was wrapped anew with a flag of its own: those it does not find, "
    "and `where_it_died` does."
)
def test_the_first_break_is_the_first_untracked_link_and_no_other_death(run):
    first_break, where_it_died = run.names["first_break"], run.names["where_it_died"]
    assert "first break: shown\n" in run.output
    w = tracked([0.7, 0.4])
    flat, wrapped = (w * 3).round(), torch.tensor((w * 3).sum().item(), requires_grad=True)
    assert first_break(w=w, flat=flat, loss=flat.sum()) is None
    assert first_break(w=w, wrapped=wrapped, loss=wrapped * 2) is None
    assert first_break(w=w, cut=w.detach(), loss=w.sum()) == "cut"
    assert (where_it_died(flat.sum(), w), where_it_died(wrapped * 2, w)) == ("flat", "no route")


def test_the_answers_of_the_lesson_count_draw_and_judge_its_own_graphs(run):
    names = run.names
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    loss = (w * x + 1) ** 2
    assert names["count_nodes"](loss) == 5
    assert names["routes"](loss) == {w: 1, x: 1}
    assert names["routes"](names["cases"].doublings(x, 70)) == {x: 2**70}
    assert names["where_it_died"](loss, w) == "alive"
    assert names["saved_bytes"](lambda: (w * x).exp(), [w, x]) == 4
    assert names["svg"](names["picture"](loss, {"w": w, "x": x})).count("<text") == 9


def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, lesson):
    assert not verdict(lesson, exercises["scaled_leaf"], run.names["broken_scaled_leaf"]).met[0]
    assert not verdict(lesson, exercises["count_nodes"], run.names["broken_count_nodes"]).met[0]
    around = verdict(lesson, exercises["safe_sqrt"], lambda x: torch.where(x > 0, x.sqrt(), 0.0))
    assert around.met == [True, True, False, False, False]


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_solution_of_the_tape_is_what_its_lines_do(lesson, run):
    variant, answers = lessons.references(lesson)["read_tape"]()
    names, found = {"torch": torch}, []
    for name, line in run.names["cases"].tape(variant):
        exec(line, names)
        tensor = names[name]
        found.append(
            [tensor.requires_grad, tensor.is_leaf, tensor.grad_fn and tensor.grad_fn.name().split("Backward")[0]]
        )
    assert found == answers


def test_every_variant_of_the_tape_takes_each_branch_and_sign_somewhere(run):
    tapes = [dict(run.names["cases"].tape(variant)) for variant in range(100)]
    signs = {tape["z"].split()[3] for tape in tapes}
    taken = set()
    for tape in tapes:
        names = {"torch": torch}
        exec("\n".join([tape["w"], tape["x"], tape["p"]]), names)
        taken.add(names["p"].grad_fn.name())
    assert signs == {"+", "-", "*"} and taken == {"MulBackward0", "ExpBackward0"}


def test_the_verdicts_on_the_edits_are_what_backward_does(lesson, run):
    cases, verdict = run.names["cases"], lessons.references(lesson)["edited"]
    values = torch.tensor([0.6, 1.3, 1.9])
    for letter, piece in cases.edits.items():
        assert verdict(letter) == cases.fate(piece, cases.unspoilt[letter], values), letter
    assert {verdict(letter) for letter in cases.edits} == set(cases.FATES)


def test_each_piece_returns_the_loss_of_its_twin_without_an_edit(run):
    cases, x = run.names["cases"], torch.tensor([0.6, 1.3, 1.9])
    for letter, piece in cases.edits.items():
        assert torch.allclose(piece(x.clone()), cases.unspoilt[letter](x)), letter


@pytest.mark.parametrize("answer", [None, "fine", 3, ["right"], "Right"])
def test_a_verdict_of_any_form_is_a_miss_in_words(lesson, exercises, answer):
    found = verdict(lesson, exercises["edited"], lambda piece: answer)
    assert found.status == "wrong" and "none of right, wrong, raises" in found.difference.words


@pytest.mark.parametrize("answer", [None, 3, [1, 2], "x"])
def test_routes_of_any_form_are_a_miss_in_words(lesson, exercises, answer):
    found = verdict(lesson, exercises["routes"], lambda tensor: answer)
    assert found.status == "wrong" and "and no dict" in found.difference.words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "a value of type NoneType came back, and no text"),
        ("", "there is no digraph { ... }"),
        ("// 1 nodes, 0 edges", "there is no digraph { ... }"),
        ('// 1 nodes, 0 edges\ndigraph {\nn0 [label="a"]\nn0 [label="b"]\n}', "a node has two lines"),
        ('// 1 nodes, 0 edges\ndigraph {\nn0 [label="a "b""]\n}', "neither a node nor an edge"),
        ('// 1 nodes, 1 edges\ndigraph {\nn0 -> n1 [label="0"]\n}', "an end that no line declares"),
        ('// 2 nodes, 0 edges\ndigraph {\nn0 [label="a"]\nn1 [label="b"]\n}', "2 nodes have no edge that leads"),
    ],
)
def test_a_picture_that_cannot_be_read_is_a_miss_in_words(lesson, exercises, text, words):
    found = verdict(lesson, exercises["picture"], lambda tensor, names: text)
    assert found.status == "wrong" and words in found.difference.words


def test_a_picture_is_read_as_graphviz_reads_it(run):
    read = run.names["cases"].read
    nodes = ['p [label="a \\"b\\" \\\\n"]', 'q [label="Mul"]']
    text = "\n".join(["// 2 nodes, 2 edges", "digraph {", "  q -> p [label=1];", *nodes, 'q -> p [label="0"]', "}"])
    assert read(text) == {
        "the form of your text": "as agreed",
        "nodes": ["Mul", 'a "b" \\n'],
        "edges": [[[1, 1], [1, 0]], []],
        "first line": [2, 2],
    }


def test_a_pair_of_chutes_is_one_node_with_two_edges_into_it(run):
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    first, second = run.names["cases"].Swap.apply(a, b)
    assert first.grad_fn is second.grad_fn and (first.item(), second.item()) == (10, 6)
    assert torch.autograd.gradcheck(run.names["cases"].Swap.apply, (a.double(), b.double()))


# --- the catalogue ---------------------------------------------------------------------------------------------------

#: Silent entries that no exercise recognises: a demonstration shows the number that refutes each.
SHOWN = {"G22": "with nn.Parameter and nn.ModuleList: 4 parameters"}


def test_every_silent_misconception_is_recognised_or_refuted(lesson, exercises, run):
    silent = {name for name, entry in tomllib.loads(CATALOGUE.read_text("utf-8")).items() if entry["silent"]}
    silent = {name for name in silent if name.startswith("G")}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises)}
    assert all(words in run.output for words in SHOWN.values())
    assert silent - recognised - SHOWN.keys() == set()


def test_what_the_catalogue_measures_is_so():
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    node = (w * x).grad_fn
    assert len(node.next_functions) == 2 and node is not (w * x).grad_fn  # G28
    twice = ((w * x) * w).grad_fn
    walked = {twice, *(n for n, _ in twice.next_functions), *(n for n, _ in twice.next_functions[0][0].next_functions)}
    assert len(walked) == 4 and len({n.name() for n in walked}) == 2  # G29
    for shift, slope in ((1e-6, 500), (0.0, 500_000)):  # G34
        tiny = torch.tensor(1e-12, requires_grad=True, dtype=torch.float64)
        (tiny + shift).sqrt().backward()
        assert tiny.grad.item() == pytest.approx(slope, rel=1e-3)


def test_the_demonstrations_of_the_catalogue_are_headings_of_the_lesson(lesson):
    catalogue = tomllib.loads(CATALOGUE.read_text("utf-8"))
    headings = set(re.findall(r"^#+ (.+)$", "\n".join(cell.source for cell in lesson.cells), re.M))
    named = {
        name: entry["demonstration"] for name, entry in catalogue.items() if name[0] == "G" and "demonstration" in entry
    }
    assert len(named) >= 15
    for name, place in named.items():
        unit, _, heading = place.partition("#")
        assert unit == UNIT and heading in {one.replace(" ", "-") for one in headings}, name


# --- what it covers --------------------------------------------------------------------------------------------------

OBJECTIVES = {
    "Tell of any tensor": ["read_tape"],
    "Make a leaf": ["scaled_leaf"],
    "Read the real graph": ["count_nodes", "picture"],
    "Explain why every call draws": ["read_tape"],
    "Walk a graph of any size": ["count_nodes", "routes"],
    "Say what an operation keeps": ["edited", "saved_bytes"],
    "Find the place where a gradient stops": ["where_it_died", "safe_sqrt"],
    "Draw the graph": ["picture"],
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


def test_the_answers_of_the_tape_stand_nowhere_in_the_cases(lesson):
    tree = ast.parse((lesson.directory / "cases.py").read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert "ToCopy" not in texts and "Clone" not in texts
