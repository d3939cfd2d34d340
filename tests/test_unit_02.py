"""What unit 2 says is what runs: its numbers, its errors, and the mistakes that it shows or recognises."""

import collections
import operator
import re
import statistics
import tomllib
import warnings
from unittest import mock

import numpy
import pytest
import torch
from autogradlab import accelerator, commit, memory, predictions
from autogradlab.diagnosis import judge
from autogradlab.observation import observe
from autogradlab.recorded import visible
from claims import claims
from lesson_runs import prose, unanswered

from autograder import lessons
from autograder.engine.knowledge import devices_for

UNIT = "02_moving_between_devices"

pytestmark = pytest.mark.skipif(not accelerator.is_available(), reason=accelerator.why_unavailable() or "")


@pytest.fixture(scope="module")
def references(lesson, run):
    return lessons.references(lesson)


def shown(run, beginning):
    """What follows on the one line of the output that begins like this."""
    (line,) = [line for line in run.output.splitlines() if line.startswith(beginning)]
    return line.removeprefix(beginning).strip()


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds_without_a_warning(run):
    assert run.seconds < 10


def test_a_prediction_shows_nothing_before_an_answer(lesson):
    asked = [cell for cell in lesson.cells if cell.role == "prediction"]
    revealing = [cell for cell in lesson.cells if "@reveal" in cell.source]
    lines = unanswered(lesson, [*lesson.setup, *asked, *revealing])
    assert lines.count("Commit an answer and a confidence first.") == len(asked) == len(revealing) >= 4
    assert not any(line.startswith("It is") for line in lines)


@claims(
    "Before most results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).",
)
def test_confidence_goes_from_1_to_5(lesson, monkeypatch, capsys):
    assert any(cell.role == "prediction" for cell in lesson.cells)
    monkeypatch.setattr(predictions, "_predictions", type(predictions._predictions)())
    taken = []
    for confidence in range(-1, 8):
        commit("of no lesson", answer=1, confidence=confidence)
        if f"confidence {confidence} of 5" in capsys.readouterr().out:
            taken.append(confidence)
    assert taken == [1, 2, 3, 4, 5]


@claims(
    "The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.",
)
def test_every_number_gives_a_warm_up_whose_answers_differ(run):
    programs = [run.names["cases"].warm_up(variant) for variant in range(100)]
    answers = collections.Counter()
    for program in programs:
        names = {}
        exec(program, names)
        assert names["copied"][0] != names["shared"][0]
        shape = (names["column"] - torch.ones(2)).shape
        assert len(shape) == 2 and names["w"].grad is not None
        answers[(names["copied"][0].item(), names["shared"][0].item(), *shape, names["w"].grad.item())] += 1
    assert len(answers) > 50


@claims(
    "This program takes three steps down `w**2` from 1 and notes `w` after each of them",
    "Each step makes `w` a fifth smaller: 0.8, then 0.64, then 0.512.",
    "One program, no error, and two different logs; and the one on the CPU, where you would try it first, is wrong.",
)
def test_one_program_has_two_histories(run, lesson):
    assert "0.8, then 0.64, then 0.512" in prose(lesson)
    assert "It is [[0.512, 0.512, 0.512], [0.8, 0.64, 0.512]].\n" in run.output
    w, right = 1.0, []
    for _ in range(3):
        w -= 0.1 * 2 * w
        right.append(pytest.approx(w, abs=1e-3))
    assert right == [0.8, 0.64, 0.512] == run.names["history"]("sim") != run.names["history"]("cpu")


@claims(
    "`.detach()` takes the numbers without the tracking, and `.cpu()` brings them to the CPU.",
)
def test_detach_and_cpu_take_the_numbers_along(run):
    for place in ("cpu", "sim"):
        w = torch.tensor([1.5, 2.5], device=place, requires_grad=True)
        assert w.detach().tolist() == w.tolist() and w.detach().device == w.device and not w.detach().requires_grad
        assert w.cpu().device.type == "cpu" and w.cpu().requires_grad and w.cpu().tolist() == w.tolist()


@claims(
    "`torch.device` writes down an address: a kind and, if you like, a number.",
    "Nobody looks whether anything is there.",
    "Only the first tensor that is sent there finds out.",
    "it lists the words that torch was built to know, whether or not your machine has such a thing.",
    "(`sim` stands there as `privateuseone`, the place kept free for devices that come later.)",
    "`torch.device` takes text as well as a device, and complains of words by itself.",
)
def test_an_address_is_written_down_without_a_look(run):
    far = torch.device("cuda:99")
    assert (far.type, far.index, torch.device(far)) == ("cuda", 99, far)
    with pytest.raises((RuntimeError, AssertionError)):
        torch.zeros(1).to(far)
    with pytest.raises(RuntimeError, match="Expected one of") as caught:
        torch.device("gpu")
    listed = re.search("Expected one of (.*) device type", str(caught.value))[1].split(", ")
    assert len(listed) > 10 and {"cpu", "cuda", "mps", "meta"} <= set(listed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the words will go away some day, torch says
        found = {word: torch.device(word).type for word in listed}
    assert "sim" not in listed and found["privateuseone"] == "sim"
    assert shown(run, "'gpu' raises:") == str(caught.value)


@claims(
    "`meta` is a place without numbers: a tensor there has a shape and a dtype, and no values.",
)
def test_a_tensor_on_meta_has_no_values():
    t = torch.ones(2, 3, device="meta", dtype=torch.float16)
    assert t.shape == (2, 3) and t.dtype == torch.float16 and (t + t).shape == (2, 3)
    for read in (torch.Tensor.tolist, lambda t: t.sum().item(), lambda t: t.to("cpu")):
        with pytest.raises((RuntimeError, NotImplementedError)):
            read(t)


@claims(
    "A device is never equal to a piece of text, and an address with a number is not equal to one without.",
    "it is `False` on every machine there is.",
    "A tensor on the accelerator says that it lives at `sim:0`.",
)
def test_devices_are_compared_by_kind(run):
    assert shown(run, "compared with text, with an address, by kind:") == "False False True"
    assert str(torch.ones(2, device="sim").device) == "sim:0"
    for name in ("cpu", "cuda", "sim", "meta"):
        assert torch.device(name) != name and torch.device(f"{name}:0") != f"{name}:0"
        assert torch.device(name) != torch.device(f"{name}:0")
    with mock.patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 8):
        assert torch.device("cuda").index is None


@claims(
    "Left to choose, a colleague's function always ends on the CPU:",
)
def test_the_broken_choice_ends_on_the_cpu_on_every_machine(run):
    broken, machine = run.names["broken_pick_device"], run.names["cases"].machine
    for cuda in (False, True):
        for mps in (False, True):
            with machine(cuda, mps):
                assert broken() == "cpu" and (torch.cuda.is_available(), torch.mps.is_available()) == (cuda, mps)


@claims(
    "`.to` leaves the tensor where it is and gives you a *twin* on the other side, with memory of its own.",
    "Where there is nothing to change, though, you get the tensor itself, and no second memory.",
    "A tensor lives in one place, and its `.to` leaves it there: you get a twin elsewhere, or the tensor itself "
    "where nothing has to change.",
)
def test_a_tensor_stays_and_its_twin_is_elsewhere(run):
    assert shown(run, "after x.to(device):") == "x is on cpu"
    assert shown(run, "after y = x.to(device):") == "y is on sim:0 and x on cpu"
    assert shown(run, "after x += 1:") == "x [2.0, 2.0, 2.0]  y [1.0, 1.0, 1.0]"
    assert shown(run, "y.to(device) is y:") == shown(run, "x.to('cpu') is x:") == "True"


@claims(
    "what is computed from the twin alone stays where the twin is.",
)
def test_results_stay_where_they_were_computed(run):
    assert shown(run, "y.sum().device") == shown(run, "(y * 2).device") == "sim:0"
    assert shown(run, "torch.zeros(3).device") == "cpu"


@pytest.mark.parametrize("line", ["x + y", "y + torch.ones(1)", "x * y.sum()"])
def test_two_places_do_not_meet(run, line):
    assert f"{line}\n    RuntimeError: Expected all tensors to be on the same device" in run.output


def test_a_cpu_tensor_without_dimensions_may_join(run):
    assert shown(run, "y + torch.tensor(2.0)") == "tensor([3., 3., 3.], device='sim:0')"


@claims(
    "In arithmetic two tensors in two places do not meet, with one exception, the last line: a tensor *without "
    "dimensions* on the CPU is treated like a Python number.",
    "A vector of one element is not, and neither is a tensor without dimensions that lives on the accelerator.",
    "Arithmetic wants all its tensors in one place and leaves the result there; only a CPU tensor without "
    "dimensions may join from elsewhere.",
)
def test_only_a_cpu_tensor_without_dimensions_joins_in_arithmetic():
    here, there = torch.ones(3), torch.ones(3, device="sim")
    arithmetic = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt)
    for compute in arithmetic:
        assert compute(there, there).device == there.device and compute(here, here).device == here.device
        for pair in ((here, there), (torch.ones(1), there), (here, there.sum())):
            for ordered in (pair, pair[::-1]):
                with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                    compute(*ordered)
        joined = compute(there, torch.tensor(2.0))
        assert joined.device == there.device and torch.equal(joined, compute(there, 2.0))


@claims(
    "(Outside arithmetic there are others: an index may come from the CPU, and `a.copy_(b)` fetches the numbers of `b` "
    "from anywhere.)",
)
def test_an_index_and_a_copy_meet_from_elsewhere():
    here, there, index = torch.arange(3.0), torch.arange(3.0).to("sim"), torch.tensor([2, 0])
    assert there[index].device == there.device and there[index].tolist() == [2, 0]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        here[index.to("sim")]
    for a, b in ((here, there), (there, here)):
        copied = torch.zeros_like(a).copy_(b)
        assert copied.device == a.device and copied.tolist() == [0, 1, 2]


@claims(
    "The product of a CPU matrix and a meta matrix ran, in this version of torch, and returned numbers that nobody "
    "computed.",
)
def test_a_product_with_meta_returns_memory_that_nobody_wrote():
    """torch can be told to mark the memory that nobody wrote into."""
    torch.use_deterministic_algorithms(True)
    try:
        product = torch.ones(2, 2) @ torch.ones(2, 2, device="meta")
        computed = torch.ones(2, 2) @ torch.ones(2, 2)
    finally:
        torch.use_deterministic_algorithms(False)
    assert product.device.type == "cpu" and product.isnan().all() and not computed.isnan().any()


@claims(
    "A constructor that is shown no tensor and no device makes its tensor on the CPU, unless a "
    "`with torch.device(...)` says otherwise.",
)
def test_constructors_make_on_the_cpu():
    y = torch.ones(3, device="sim")
    plain = (torch.zeros(len(y)), torch.full(y.shape, 2.0), torch.arange(3), torch.tensor(y.tolist()), torch.randn(2))
    assert {one.device.type for one in plain} == {"cpu"}
    assert torch.zeros_like(y).device == torch.zeros(2, device=y.device).device == y.device


@claims(
    "`with torch.device(...)` says where a constructor makes its tensor that is shown no tensor and no device; what "
    "`from_numpy` returns lies in the array's memory, and stays there.",
)
def test_a_device_as_context_moves_no_array(run):
    assert shown(run, "torch.from_numpy(array)") == "cpu"
    assert {shown(run, f"{line} ") for line in ("torch.zeros(2)", "torch.as_tensor(array)")} == {"sim:0"}
    array = numpy.ones(2)
    with torch.device("sim"):
        assert numpy.shares_memory(torch.from_numpy(array).numpy(), array)
        assert {make(2).device.type for make in (torch.zeros, torch.ones, torch.randn, torch.arange)} == {"sim"}
        x = torch.ones(2, device="cpu")
        shown_one = (torch.zeros_like(x), x.new_zeros(2), torch.zeros(2, device=x.device), torch.randn_like(x))
        assert {made.device.type for made in shown_one} == {"cpu"}
    assert torch.zeros(2).device.type == "cpu"


@claims(
    "Every copy between two places is a trip, and a trip costs time whatever it carries.",
    "`accelerator.counts()` counts the trips and their bytes.",
    "Many small tensors make many trips, unless they travel as one.",
    "In this cell each trip takes a twentieth of a second, so that you feel them.",
    "The bytes are the same for taxis and lorry, and twice as many in float64.",
)
def test_four_taxis_and_a_lorry_carry_the_same_bytes_and_float64_twice_as_many(run):
    assert shown(run, "four taxis, float32:").startswith("4 trips, 4000 bytes")
    assert shown(run, "one lorry,  float32:").startswith("1 trips, 4000 bytes")
    assert shown(run, "one lorry,  float64:").startswith("1 trips, 8000 bytes")
    for line, trips in (("four taxis, float32:", 4), ("one lorry,  float32:", 1), ("one lorry,  float64:", 1)):
        assert float(shown(run, line).split(", ")[2].removesuffix(" seconds")) >= trips / 20


@claims(
    "`torch.cat` makes one new tensor of several, and `split` cuts a tensor into pieces of given lengths, without "
    "copying:",
    "`t.flatten()` has one dimension and `t.numel()` elements, also where `t` has no dimensions; `view(t.shape)` "
    "gives the shape back.",
)
def test_cat_copies_and_split_does_not():
    tensors = [torch.ones(1), torch.zeros(2), torch.ones(3)]
    joined = torch.cat(tensors)
    pieces = joined.split([1, 2, 3])
    assert [piece.tolist() for piece in pieces] == [one.tolist() for one in tensors]
    assert all(piece.untyped_storage().data_ptr() == joined.untyped_storage().data_ptr() for piece in pieces)
    assert all(one.untyped_storage().data_ptr() != joined.untyped_storage().data_ptr() for one in tensors)
    for shape in ((), (3,), (2, 3), (0, 2)):
        t = torch.randn(shape)
        assert t.flatten().shape == (t.numel(),) and torch.equal(t.flatten().view(t.shape), t)


@claims(
    "`x.new_zeros(size)` asks `x` for place and dtype; so do `zeros_like(x)` and `torch.zeros(size, "
    "device=x.device, dtype=x.dtype)`.",
    "The second line of output is the quiet one: float16 went in, and float32 came out.",
)
def test_a_helper_from_elsewhere_raises_or_widens(run):
    assert shown(run, "with_first_step          torch.float16 on cpu:") == "torch.float32 on cpu"
    assert shown(run, "with_first_step          torch.float32 on sim:0:").startswith("Expected all tensors")
    assert shown(run, "with_first_step_at_home  torch.float32 on sim:0:") == "torch.float32 on sim:0"
    second = [line for line in run.output.splitlines() if line.startswith("with_first_step")][1]
    assert "torch.float16 on cpu: torch.float32" in second
    for place in ("cpu", "sim"):
        for dtype in (torch.float16, torch.float64):
            x = torch.ones(3, device=place, dtype=dtype)
            for made in (x.new_zeros(2), torch.zeros_like(x), torch.zeros(2, device=x.device, dtype=x.dtype)):
                assert (made.device, made.dtype) == (x.device, dtype) and not made.any()


@claims(
    "`lengths` is int64 of shape (rows,), from 1 to `places`, and lives where `x` lives.",
    "each `int(length)` of the loop reads one, and Python waits for it.",
    "a mask of `True` and `False` times a float tensor keeps the float tensor's dtype.",
)
def test_rows_of_every_length_have_a_mean_and_a_read_length_makes_python_wait(references):
    x = torch.tensor([[1.0, 3.0, 8.0], [5.0, 7.0, 9.0]])
    for place in ("cpu", "sim"):
        for first in (1, 2, 3):
            for second in (1, 2, 3):
                lengths = torch.tensor([first, second], device=place)
                expected = [x[0, :first].mean().item(), x[1, :second].mean().item()]
                assert references["masked_mean"](x.to(place), lengths).tolist() == pytest.approx(expected)
    with accelerator.counts() as walked:
        rows = list(lengths)
    with accelerator.counts() as read:
        assert [int(length) for length in rows] == [3, 3]
    assert (walked.syncs, read.syncs) == (0, 2)
    for dtype in (torch.float16, torch.float32, torch.float64):
        assert (torch.ones(2, dtype=dtype) * torch.tensor([True, False])).dtype == dtype


@claims(
    "What it takes are *leaves*: tensors that no recorded operation made, and others only on special request.",
    "A real move is an operation, and on a tracked tensor torch records it.",
    "So `w` is a *result*, of a tensor on the CPU that has no name any more, and the gradient goes there.",
    "On the CPU `.to` does nothing, and all seems well.",
    "Make it there, or move first and track afterwards:",
    "The third line is the second with another place, and it has put a flag on somebody else's tensor: where `.to` "
    "has nothing to do, it hands back what it was given.",
    "`start.to(device, copy=True)` copies in any case.",
    "A move of a tracked tensor is an operation, so make weights where they will live, or track them on arrival.",
)
def test_a_moved_tracked_tensor_is_no_leaf_and_no_optimizer_takes_it(run):
    assert "can't optimize a non-leaf Tensor\nIt is [True, False].\n" in run.output
    assert shown(run, "start.to('cpu').requires_grad_() ").endswith("start itself: True")
    assert shown(run, "start is tracked now:") == "True"
    home = torch.ones(3, requires_grad=True)
    w = home.to("sim")
    w.sum().backward()
    assert home.grad.tolist() == [1, 1, 1] and w.grad_fn is not None and not w.is_leaf and not w.retains_grad
    assert home.to("cpu") is home
    for leaf in (torch.ones(3, device="sim", requires_grad=True), torch.ones(3).to("sim").requires_grad_()):
        assert leaf.is_leaf and torch.optim.SGD([leaf], lr=0.1)
    for made in (w, home * 2):
        with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
            torch.optim.SGD([made], lr=0.1)
        assert torch.optim.SGD([made], lr=0.1, differentiable=True), "a special request"
        made.retain_grad()
        assert torch.optim.SGD([made], lr=0.1), "and another one"
    start = torch.ones(3)
    assert all(start.to(place, copy=True).requires_grad_() is not start for place in ("cpu", "sim"))
    assert not start.requires_grad


@claims(
    "An *optimizer* does the step of unit 1 for you.",
    "`torch.optim.SGD([w], lr=0.1)` is given the tensors that shall move, and its `step()` moves each of them by "
    "`lr` times its gradient, downwards.",
)
def test_sgd_takes_the_step_of_unit_1():
    w, v = torch.tensor([1.0, -2.0], requires_grad=True), torch.tensor(3.0, requires_grad=True)
    optimizer = torch.optim.SGD([w, v], lr=0.1)
    ((w**2).sum() * v).backward()
    expected = [(one - 0.1 * one.grad).tolist() for one in (w, v)]
    optimizer.step()
    assert w.tolist() == pytest.approx(expected[0]) and v.item() == pytest.approx(expected[1])


@claims(
    "`.detach()`, `.cpu()`, `.numpy()` and `.to()` all give you the values, and none of them promises a copy by "
    "itself.",
    "Here `w` is edited after five lines that keep it:",
    "`.cpu()` copies only if it has to.",
    "From an accelerator it has to; on the CPU it hands over the tensor itself, and every later edit rewrites the "
    "whole log.",
    "`.clone()` copies always.",
    "For one number there is `.item()`, which gives a number of Python's.",
    "is right for a loss, which nobody edits, and wrong for a weight on the CPU: "
    "`history.append(w.detach().cpu().numpy())`.",
    "`.cpu()` copies only where it must, `.detach()` and `.numpy()` never do, so a program that keeps values "
    "clones them.",
    "One of them meets all three demands in both places.",
)
def test_what_is_kept_without_a_clone_changes_on_the_cpu(run):
    kept = {}
    for line in run.output.splitlines():
        if found := re.match(r"(cpu|sim) +(w\.detach\S+) +(\S+)$", line):
            kept.setdefault(found[2], []).append(float(found[3]))
    assert kept == {
        "w.detach()": [2, 2],
        "w.detach().cpu()": [2, 1],
        "w.detach().cpu().numpy()": [2, 1],
        "w.detach().clone()": [1, 1],
        "w.detach().cpu().clone()": [1, 1],
    }
    w = torch.ones(1)
    assert w.cpu() is w and w.to("cpu") is w
    assert w.numpy().ctypes.data == w.detach().data_ptr() == w.data_ptr() != w.clone().data_ptr()
    assert type(w.item()) is float and type(torch.tensor(3, device="sim").item()) is int
    history = []
    for _ in range(2):
        loss = (w * 2).sum()  # a new tensor in every step
        history.append(loss.detach().cpu().numpy())
        w += 1
    assert [value.item() for value in history] == [2, 4]
    meets = [w.detach().cpu().clone() for w in (torch.ones(2, requires_grad=True), torch.ones(2, device="sim"))]
    assert all(one.device.type == "cpu" and not one.requires_grad for one in meets)
    assert torch.ones(2, device="sim").detach().clone().device.type == "sim", "the other clone stays there"


@claims(
    "`.detach()` leaves the past behind without copying.",
    "`.to` takes a device, a dtype and `copy=True` together.",
)
def test_what_the_hints_for_a_leaf_say():
    result = torch.ones(2, requires_grad=True) * 2
    assert result.detach().grad_fn is None and result.detach().data_ptr() == result.data_ptr()
    made = torch.ones(2).to("sim", torch.float64, copy=True)
    assert made.device.type == "sim" and made.dtype == torch.float64


@claims(
    "The module moved itself, so that there is no other one left behind.",
    "It does what a tensor's own `.to` never does: on the way to an accelerator each of its weights is the same object "
    "as before, with its numbers in another place, so that an optimizer that was given the weights still holds the "
    "right ones.",
    "On the passenger list are parameters, buffers and the modules inside.",
    "`mask` is a plain attribute and stayed: `register_buffer` puts a tensor on the list that is no weight.",
)
def test_a_module_moves_itself_and_leaves_a_plain_attribute_behind(run):
    assert shown(run, "moved is model:") == "True"
    assert shown(run, "the same weight, still leaf:") == "True True"
    assert [shown(run, f"{name:13} on") for name in ("weight", "scale", "inner.weight")] == ["sim:0"] * 3
    assert shown(run, "mask          on") == "cpu"
    model = run.names["Luggage"]()
    before, optimizer = dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("sim")
    after = dict(model.named_parameters())
    assert all(after[name] is one and one.device.type == "sim" for name, one in before.items())
    assert "scale" not in after and "scale" in dict(model.named_buffers())
    model.weight.sum().backward()
    optimizer.step()
    assert model.weight.tolist() == pytest.approx([0.9] * 3)


@claims(
    'No line says "wait", and four of the six do.',
)
def test_four_of_six_lines_wait(run, lesson):
    assert 'No line says "wait", and four of the six do.' in prose(lesson)
    assert "It is [0, 1, 1, 1, 1, 0].\n" in run.output
    assert shown(run, "item() in every step:") == "45.0  waits: 10"
    assert shown(run, "item() at the end:") == "45.0  waits: 1"


@claims(
    "a running total of tracked losses is itself a result, and keeps alive what is recorded for each of them.",
    "`total = total + step().detach()` stays on the device.",
)
def test_a_total_of_tracked_losses_keeps_what_was_recorded():
    w = torch.ones(100, device="sim", requires_grad=True)
    held = []
    for take in (lambda loss: loss, torch.Tensor.detach):
        total = 0.0
        for _ in range(5):
            total = total + take((w * 1.5).square().sum())
        held.append(memory.held_by(total).bytes)
        assert total.device == w.device
    assert held[0] >= 5 * 400 and held[1] == 0 and total.grad_fn is None


@claims(
    "Find what is wrong with it; there are two things, and no error shows either.",
    "Call it `steps` times; `steps` and `every` are whole numbers from 1.",
)
def test_the_broken_log_waits_in_every_step_and_forgets_the_short_window(run, references):
    for every in (1, 2, 3, 7):
        for steps in (1, 2, 6, 7):
            losses, windows = [float(number) for number in range(steps)], -(-steps // every)
            means = [statistics.mean(losses[start : start + every]) for start in range(0, steps, every)]
            for function, waits in ((references["window_means"], windows), (run.names["broken_window_means"], steps)):
                coming = iter([torch.tensor(loss, device="sim") for loss in losses])
                with accelerator.counts() as seen:
                    found = function(lambda coming=coming: next(coming), steps, every)
                assert seen.syncs == waits and next(coming, None) is None
                full = windows if function is references["window_means"] else steps // every
                assert found == pytest.approx(means[:full])


@claims(
    "Let the accelerator have one MiB to spare, and send it batches of shape (256, 64) in float32, keeping each of "
    "them in a list.",
    "Answer with its number, counting from 1.",
    "The error comes where memory is asked for, which need not be the line that holds too much: here the list "
    "does, and `.to` is blamed.",
)
def test_one_mebibyte_holds_sixteen_batches(run):
    assert "sim out of memory. at batch 17\n" in run.output and "It is 17.\n" in run.output
    assert shown(run, "bytes of one batch:") == str(256 * 64 * 4) and 16 * 256 * 64 * 4 == 2**20
    assert shown(run, "without the list, 100 batches went through;").endswith("on sim:0")


@claims(
    "A device has so many bytes, and a tensor holds its share until no name, no list and no window leads to it any "
    "more.",
    "`torch.cuda.memory_allocated()` counts what tensors take on a CUDA device, and nothing else:",
)
def test_memory_is_held_until_the_last_name_is_gone(run):
    assert shown(run, "torch.sim, with a window of one:") == shown(run, "torch.sim:") == "1048576 bytes more"
    assert shown(run, "torch.sim, with no name left:") == "0 bytes more"
    before = torch.sim.memory_allocated(), torch.cuda.memory_allocated()
    kept = [torch.zeros(2**10, device="sim")]
    kept.append(kept[0][:1])
    for _ in range(2):
        assert torch.sim.memory_allocated() - before[0] == 2**12 and torch.cuda.memory_allocated() == before[1]
        del kept[0]
    assert torch.sim.memory_allocated() == before[0]


@claims(
    "The first reading timed placing an order.",
    "The second timed two dinners, because the first was still waiting to be cooked.",
    "Only the third is a measurement: wait, start the clock, work, wait, read the clock.",
)
def test_only_the_third_reading_of_the_kitchen_is_a_measurement(run):
    words = ("read when the order is taken:", "read after the wait:           ", "once more, nothing left over:")
    assert [shown(run, word).split()[0] for word in words] == ["0.001", "4.001", "2.001"]


@claims(
    "A call before the clock starts deals with the one, and the *median* of several timings with the other.",
    "After it, and after each timed call, `sync()`.",
)
def test_a_first_call_and_one_slow_call_do_not_show_in_the_median(run, references):
    kitchen, times = run.names["cases"].Kitchen(), iter([30.0, 2.0, 2.0, 50.0, 2.0, 2.0])
    seconds = references["bench"](lambda: kitchen.order(next(times)), kitchen.wait, kitchen.clock, 5)
    assert seconds == pytest.approx(2.001) and next(times, None) is None


@claims(
    "Every trip, every value that Python reads and every byte that somebody keeps has its price, and all three can "
    "be counted on any machine.",
)
def test_trips_waits_and_bytes_are_counted_without_a_gpu(run):
    before = torch.sim.memory_allocated()
    kept = []
    line = run.names["crossings"](lambda batch: kept.append(batch.to("sim")) or kept[0].sum().item(), torch.ones(4, 3))
    assert line == "1 trips, 48 bytes, 1 waits" and torch.sim.memory_allocated() - before == 48


# --- the catalogue ---------------------------------------------------------------------------------------------------

#: What the lesson shows against a mistake that no exercise is about: where its line begins, what it shows, and what the
#: line would show if the mistake were none.
REFUTED = {
    "D05": ("compared with text, with an address, by kind:", "False False True", "True True True"),
    "D13": (
        "torch.ones(2, 2) @ torch.ones(2, 2, device='meta'):",
        "no error, shape (2, 2) on cpu",
        "Tensor on device meta is not on the expected device cpu!",
    ),
    "D18": ("read at once: ", "[0.0, 0.0]", "[1.0, 1.0]"),
    **({} if torch.cuda.is_available() else {"D19": ("torch.cuda.memory_allocated() says", "0", "1048576")}),
}


def test_every_silent_mistake_of_the_unit_is_recognised_or_refuted(run, lesson, exercises):
    catalogue = tomllib.loads((lesson.course / "misconceptions.toml").read_text("utf-8"))
    silent = {name for name, entry in catalogue.items() if entry["unit"] == UNIT and entry["silent"]}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises) if attempt.kind == "misconception"}
    for beginning, result, believed in REFUTED.values():
        assert shown(run, beginning) == result != believed
    assert sorted(silent - recognised - set(REFUTED) - ({"D19"} if torch.cuda.is_available() else set())) == []


#: What the catalogue says was measured: an expression with x on the CPU and y on the accelerator, and its value.
MEASURED = {
    "D02": ("(lambda model: model.to('sim') is model)(torch.nn.Linear(2, 1))", True),
    "D11": ("[setattr(m := torch.nn.Linear(1, 1), 'mask', x), m.to('sim').mask.device.type][1]", "cpu"),
    "D14": ("(y * torch.tensor(2.0)).device.type", "sim"),
    "D20": ("y.sum().device.type", "sim"),
    "D23": ("torch.zeros(len(y)).device.type", "cpu"),
    "D26": ("torch.device(torch.device('cuda:1').type).index", None),
    "D30": ("y.to('sim', copy=True) is y", False),
    "D32": ("torch.ones(2, requires_grad=True).detach().to('sim').requires_grad", False),
    "D35": ("torch.ones(2, requires_grad=True).to('sim', copy=True).requires_grad_().is_leaf", False),
    "D56": ("registered(mask=torch.nn.Parameter(x, requires_grad=False))", (["mask"], [])),
    "D57": ("registered(scale=torch.nn.Buffer(torch.tensor(1.0, requires_grad=True)))", ([], ["scale"])),
}


def registered(**attributes):
    """The names of a module's parameters and of its buffers when these attributes were assigned."""
    module = torch.nn.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    return [name for name, _ in module.named_parameters()], [name for name, _ in module.named_buffers()]


@pytest.mark.parametrize("name", MEASURED)
def test_what_the_catalogue_measured_is_what_happens(run, name):
    expression, value = MEASURED[name]
    names = {"torch": torch, "registered": registered, "x": torch.ones(2), "y": torch.ones(2, device="sim")}
    assert eval(expression, names) == value


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_table_at_the_end_names_every_objective_and_every_exercise(lesson):
    (table,) = [cell.source for cell in lesson.cells if cell.source.startswith("## What you can do now")]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")][1:]
    assert [row[0] for row in rows] == list(lesson.objectives)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[1])} == set(lesson.exercises)


def test_forms_are_mixed(lesson):
    forms = [exercise.tagged("form")[0] for exercise in lesson.exercises.values()]
    assert {"predict", "repair", "complete", "review", "write"} <= set(forms) and forms.count("review") >= 2


def test_exercises_about_places_are_graded_in_both(exercises):
    both = {name for name, exercise in exercises.items() if devices_for(exercise)[-1] == "sim"}
    assert {"to_device", "one_trip", "masked_mean", "make_param", "weight_log", "window_means", "Masked"} <= both
    assert all(devices_for(exercise)[0] == "cpu" for exercise in exercises.values())


@pytest.mark.parametrize("name", ["make_param", "weight_log", "window_means", "pick_device", "masked_mean"])
def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, references, name):
    exercise = exercises[name]
    expected = visible(exercise, references[name])
    assert judge(exercise, visible(exercise, run.names[f"broken_{name}"]), expected, []).status != "right"


@claims(
    "Four things tie the module to the CPU, to float32, or keep a weight from learning:",
    "`parameters()` lists `weight` and `scale` and nothing else. Both get gradients from what the module returns. "
    "`state_dict()`, which gives by name what belongs into a file, has `mask` as well.",
)
def test_the_broken_module_of_the_lesson_is_tied_four_times(run, exercises, references):
    """Each of the four mended by itself does away with what it breaks."""
    broken, mask = run.names["BrokenMasked"], torch.tensor([[True, False, True]])
    module, x = broken(mask), torch.tensor([[5.0, 7.0]])
    right = references["Masked"](mask)
    assert torch.equal(module(x), right(x)) and module(x).item() == 6
    assert sorted(right.state_dict()) == ["mask", "scale", "weight"]
    assert sorted(name for name, _ in right.named_parameters()) == ["scale", "weight"]
    right(x).sum().backward()
    assert all(parameter.grad is not None for parameter in right.parameters())
    found = {name for name, _ in module.named_parameters()}, {name for name, _ in module.named_buffers()}
    assert found == ({"weight"}, set()), "the mask and the scale are no passengers"
    with pytest.raises(RuntimeError, match="same device"):
        broken(mask).to("sim")(x.to("sim"))
    tied = broken(mask).to("sim")
    tied.mask = mask.to("sim")
    with pytest.raises(RuntimeError, match="same device"):
        tied(x.to("sim"))  # the ones
    with pytest.raises(RuntimeError, match="same dtype"):
        broken(mask).half()(x.half())
    module(x).sum().backward()
    assert module.weight.grad is not None and module.scale.grad is None, "the number that was read knows nothing"
    seen, expected = (visible(exercises["Masked"], program) for program in (broken, references["Masked"]))
    assert judge(exercises["Masked"], seen, expected, []).status == "wrong"


@claims(
    "`mask` is a bool table of shape (outputs, inputs + 1), on the CPU; `x` has shape (rows, inputs), and is where the "
    "module is and of its float dtype.",
)
def test_the_module_is_handed_what_the_contract_says(exercises, references):
    masks, rows = [], []

    class Noting(references["Masked"]):
        def __init__(self, mask):
            super().__init__(mask)
            masks.append((mask.dtype, mask.device.type, tuple(mask.shape) == tuple(self.weight.shape)))

        def forward(self, x):
            rows.append((x.dtype, x.device.type))
            assert (x.device, x.dtype, x.shape[1] + 1) == (self.weight.device, self.weight.dtype, self.weight.shape[1])
            return super().forward(x)

    exercise = exercises["Masked"]
    verdict = judge(exercise, visible(exercise, Noting), visible(exercise, references["Masked"]), [])
    assert verdict.status == "right" and set(masks) == {(torch.bool, "cpu", True)}
    assert {dtype for dtype, _ in rows} == {torch.float16, torch.float32}
    assert {place for _, place in rows} == {"cpu", "sim"}


def test_a_batch_in_lists_for_tuples_misses_that_alone(exercises, references):
    exercise, right = exercises["to_device"], references["to_device"]

    def lists(value):
        if isinstance(value, dict):
            return {key: lists(part) for key, part in value.items()}
        return [lists(part) for part in value] if isinstance(value, (list, tuple)) else value

    seen = visible(exercise, lambda batch, device: lists(right(batch, device)))
    verdict = judge(exercise, seen, visible(exercise, right), [])
    words = "a list is a list, a tuple a tuple, and the rest comes back as it was"
    assert [one.words for one, met in zip(exercise.requirements, verdict.met) if not met] == [words]


def test_a_batch_that_needs_no_move_may_come_back_itself(exercises, references):
    exercise, right = exercises["to_device"], references["to_device"]
    itself = []

    def tensors(value):
        if isinstance(value, torch.Tensor):
            return [value]
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        return [tensor for part in parts for tensor in tensors(part)]

    def frugal(batch, device):
        itself.append(all(tensor.device.type == device.type for tensor in tensors(batch)))
        return batch if itself[-1] else right(batch, device)

    assert judge(exercise, visible(exercise, frugal), visible(exercise, right), []).status == "right"
    assert True in itself and False in itself


@pytest.mark.parametrize("place", ["cpu", "sim"])
@pytest.mark.parametrize("name", ["to_device", "one_trip", "masked_mean", "make_param", "weight_log", "window_means"])
def test_the_solutions_raise_nothing_in_either_place(exercises, references, name, place):
    exercise = exercises[name]
    seen = [observe(exercise, references[name], 0, index, device=place) for index in range(exercise.visible)]
    assert [one["raised"] for one in seen] == [None] * exercise.visible


def test_a_log_that_is_wrong_on_the_cpu_alone_is_found_in_either_place(exercises, references):
    exercise = exercises["weight_log"]

    def aliases(w, step, steps):
        log = []
        for _ in range(steps):
            step()
            log.append(w.detach().cpu())
        return log

    for place in ("cpu", "sim"):
        programs = (aliases, references["weight_log"])
        seen, expected = ([observe(exercise, one, 0, 0, device=place)] for one in programs)
        assert not judge(exercise, seen, expected, []).met[0]


@pytest.mark.parametrize("answer", [None, 3, [], {}, torch.ones(2), ["text"]])
@pytest.mark.parametrize(
    "name",
    ["to_device", "one_trip", "masked_mean", "make_param", "weight_log", "window_means", "pick_device", "bench"],
)
def test_an_answer_of_any_type_is_a_miss_in_words(exercises, references, name, answer):
    exercise = exercises[name]
    seen = visible(exercise, lambda *arguments: answer)
    assert [one["raised"] for one in seen] == [None] * exercise.visible
    verdict = judge(exercise, seen, visible(exercise, references[name]), [])
    assert verdict.status == "wrong" and verdict.difference.words
