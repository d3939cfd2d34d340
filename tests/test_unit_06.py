"""What unit 6 says is what runs: its numbers, its leaks, its cuts, and the wrong programs that it spells out."""

import copy
import json
import re
import threading
import tomllib

import numpy
import pytest
import torch
from autogradlab import commit, memory, predictions
from claims import claims
from lesson_runs import executed, prose, unanswered, verdict
from torch import nn
from torch.nn import functional as F

from autograder import lessons

UNIT = "06_leaving_the_graph"


def shown(run, beginning):
    """The one line of the output that begins like this, without its beginning."""
    (line,) = [line for line in run.output.splitlines() if line.startswith(beginning)]
    return line.removeprefix(beginning).strip()


def tracked(values):
    """A tracked leaf of float32."""
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def recorded():
    """Whether a product of a tracked tensor is recorded here and now."""
    return (torch.ones(1, requires_grad=True) * 2).requires_grad


def leads_back(made, x):
    """Whether a gradient of what was made goes to x."""
    return torch.autograd.grad(made.sum(), x, allow_unused=True, retain_graph=True)[0] is not None


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
    "Before many results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).",
)
def test_a_confidence_is_a_whole_number_from_1_to_5(lesson, monkeypatch, capsys):
    monkeypatch.setattr(predictions, "_predictions", {})
    for confidence in range(8):
        commit(f"with {confidence}", answer=1, confidence=confidence)
    taken = [line.startswith("Your answer: 1, confidence") for line in capsys.readouterr().out.splitlines()]
    assert taken.count(True) == 5
    assert [one["name"] for one in predictions.commitments() if one["committed"]] == [f"with {n}" for n in range(1, 6)]
    assert sum("@reveal" in cell.source for cell in lesson.cells) >= 10


@claims(
    "The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.",
)
def test_every_number_from_0_to_99_makes_a_warm_up_with_answers_of_its_own(run):
    found = set()
    for variant in range(100):
        script, names = run.names["cases"].warm_up(variant), {}
        exec(script, names)
        x, w, added = (float(re.search(pattern, script)[1]) for pattern in (r"\((\d).0\)", r"\((\d).0, ", r"\+= (\d)"))
        answers = (names["w"].grad.item(), names["product"].is_leaf, names["copied"].item(), names["shared"].item())
        assert answers == (2 * x, False, w, w + added)
        found.add(answers)
    assert len(found) > 50


@claims(
    "What a line makes of a tensor `y` can have two things in common with it: the *history*, so that a `backward()` "
    "leads on to the leaves behind `y`, and the *memory*, so that an edit of one shows in the other.",
    "`detach()` cuts the history and keeps the memory. `clone()` is its mirror image: new memory, the old history. "
    "Who wants a copy that is on its own needs both.",
    "1. `detach()` cuts the history and keeps the memory, `clone()` the reverse, and `item()` leaves both behind.",
)
def test_detach_keeps_the_memory_and_clone_keeps_the_history(run):
    assert shown(run, "y after the edit of d:") == "tensor([99.,  6.], grad_fn=<MulBackward0>)"
    assert shown(run, "and with a clone between:") == "tensor([3., 6.], grad_fn=<MulBackward0>)"
    table = run.output.split("history  memory\n")[1].splitlines()[:9]
    assert [re.split(r"\s{1,}(?=True|False)", line) for line in table] == [
        ["y[:1]", "True", "True"],
        ["y.clone()", "True", "False"],
        ["y.detach()", "False", "True"],
        ["y.detach().clone()", "False", "False"],
        ["y.data", "False", "True"],
        ["y.detach().numpy()", "False", "True"],
        ["y.detach().cpu()", "False", "True"],
        ["y.tolist()", "False", "False"],
        ["y.detach().requires_grad_()", "False", "True"],
    ]
    x = tracked([1.0, 2.0])
    y = x * 3
    cut, copied, alone = y.detach(), y.clone(), y.clone().detach()
    assert cut.data_ptr() == y.data_ptr() != copied.data_ptr() and alone.data_ptr() != y.data_ptr()
    assert leads_back(copied, x) and cut.grad_fn is None and alone.grad_fn is None
    assert type(y[0].item()) is float
    cut[0] = 99
    assert y.tolist() == [99, 6] and copied.tolist() == alone.tolist() == [3, 6]
    y.data[1] = 7
    assert cut.tolist() == [99, 7]


@claims(
    "`.cpu()` copies where there is something to move, and not here: the unit on moving between devices shows a log "
    "that this spoiled.",
)
def test_cpu_copies_from_an_accelerator_alone(run):
    here, there = torch.ones(2), torch.ones(2, device=run.names["device"])
    assert here.cpu() is here
    moved = there.cpu()
    there[0] = 5
    assert moved.tolist() == [1, 1]
    assert "[0.512, 0.512, 0.512]" in executed(lessons.read("02_moving_between_devices")).output


@claims(
    "`.data` looks like `detach()`, and edits through it do not raise the version of `y`: the unit on the graph "
    "shows what comes of that.",
)
def test_an_edit_through_data_does_not_raise_the_version():
    x = tracked([1.0, 2.0])
    y = x.exp()
    y.data.zero_()
    assert y._version == 0 and not y.data.requires_grad and y.data.data_ptr() == y.data_ptr()
    assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [0, 0]  # wrong, and no error
    y.detach().zero_()
    assert y._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), x)


@claims(
    "And a flag set on what was detached starts a *new* history, which does not lead back to `x`.",
)
def test_a_flag_on_what_was_detached_begins_a_new_history():
    x = tracked([1.0, 2.0])
    new = (x * 3).detach().requires_grad_()
    assert new.is_leaf and not leads_back(new * 1, x)
    (new * 2).sum().backward()
    assert new.grad.tolist() == [2, 2] and x.grad is None


@claims(
    "`detach()` returns what it makes and leaves `y` as it is, so a line that drops what it returns has changed "
    "nothing. `detach_()`, with the underscore of an edit in place, cuts `y` itself.",
)
def test_detach_leaves_its_tensor_and_detach_with_an_underscore_does_not(run):
    assert shown(run, "y.detach() as a statement:") == "True" and shown(run, "y = y.detach():") == "False"
    x = tracked([1.0, 2.0])
    y = x * 3
    made = y.grad_fn
    y.detach()
    assert y.grad_fn is made and leads_back(y, x)
    y.detach_()
    assert y.grad_fn is None and not y.requires_grad and y.is_leaf


@claims(
    "Four ways out are locked, and say so. `item()` is for one element, `deepcopy` for leaves, `detach_()` is not "
    "for views, and NumPy takes neither a tracked tensor nor a list of them:",
)
def test_four_ways_out_are_locked(run):
    y = tracked([1.0, 2.0]) * 3
    assert y[:1].item() == 3 and copy.deepcopy(tracked([1.0])).item() == 1
    for words, locked in {
        "2 elements cannot be converted": y.item,
        "support the deepcopy protocol": lambda: copy.deepcopy(y),
        "Can't detach views in-place": lambda: y[:1].detach_(),
        r"Can't call numpy\(\) on Tensor": lambda: numpy.asarray(y),
        r"Can't call numpy\(\)": lambda: numpy.array([y[0], y[1]]),
        r"call numpy\(\)": y.numpy,
    }.items():
        with pytest.raises(RuntimeError, match=words):
            locked()
    assert shown(run, "numbers in the list:") == "4.5"


@claims(
    "Here `loss` is `w**2` at 3, computed *before* the block; inside it stand two lines:",
    "The first half of the sentence holds: what is computed in the block is not *recorded*. The second is another "
    "matter, for `backward()` walks a graph that exists, and the block does not hinder it. (With "
    "`create_graph=True` it even records its own way, here as elsewhere.) A loss that was computed inside has none "
    "to walk:",
)
def test_backward_works_in_a_block_in_which_nothing_is_recorded(run, lesson):
    assert "no computation graph is built, no gradients are computed" in prose(lesson)
    assert shown(run, "w.grad:") == "tensor(6.)"
    assert shown(run, "product.requires_grad:") == "False"
    words = "element 0 of tensors does not require grad and does not have a grad_fn"
    assert shown(run, "forward inside, backward outside:") == words
    u = tracked(3.0)
    cube = u**3
    with torch.no_grad():
        (slope,) = torch.autograd.grad(cube, u, create_graph=True)
    assert torch.autograd.grad(slope, u)[0].item() == 6 * 3
    w = tracked([2.0, 3.0])
    with torch.no_grad():
        made = [w * 2, w.exp(), w.clone(), w.double(), w[[0]], nn.Linear(2, 1)(w), torch.cat([w, w])]
    assert not any(tensor.requires_grad or tensor.grad_fn for tensor in made)


@claims(
    "Flags that you set stay as you set them. `w = w - 0.1 * w.grad` in the block puts another tensor under the "
    "name `w`, one without a flag, where `w -= 0.1 * w.grad` edits the tracked one.",
)
def test_a_block_changes_no_flag_and_rebinding_loses_it(run):
    assert shown(run, "w = w - ...: tracked") == "False   w -= ...: tracked True"
    assert "does not require grad" in shown(run, "backward from the new name:")
    w, plain = tracked([3.0]), torch.ones(1)
    with torch.no_grad():
        made = torch.ones(1, requires_grad=True)
        assert (w.requires_grad, plain.requires_grad, made.requires_grad) == (True, False, True)
        address = w.data_ptr()
        w -= 1
    assert w.requires_grad and w.is_leaf and w.data_ptr() == address


@claims(
    "A view that was made in the block is a trap: it has the flag of its tensor and leads nowhere. A `backward()` "
    "from it raises no error and fills no `.grad`, not even its own. Only an edit of it outside a block is refused.",
)
def test_a_view_from_the_block_has_a_flag_and_leads_nowhere(run):
    assert shown(run, "the window:") == "True None"
    y = torch.ones(3, requires_grad=True) * 2
    with torch.no_grad():
        window = y[:1]
    assert torch.autograd.grad((window * 2).sum(), y, allow_unused=True) == (None,)
    leaf, plain = tracked([1.0, 2.0]), torch.ones(2)
    with torch.no_grad():
        of_a_leaf, of_none = leaf[:1], plain[:1]
    assert of_a_leaf.requires_grad and not of_none.requires_grad
    (of_a_leaf**2).sum().backward()
    assert leaf.grad is None and of_a_leaf.grad is None and shown(run, "after backward() from it:") == "None"
    for view in (window, of_a_leaf):
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            view.mul_(2)
    with torch.no_grad():
        window.mul_(2)
    assert y.tolist() == [4, 2, 2]


@claims(
    "Behind the block is a switch, which `torch.is_grad_enabled()` reads. The block notes how it stands, turns it "
    "off, and puts it back at its end.",
    "A `with` block puts the switch back, also when an error leaves it.",
)
@pytest.mark.parametrize("before", [True, False])
def test_a_block_puts_back_what_it_found_also_after_an_error(before):
    with torch.set_grad_enabled(before):
        with torch.no_grad():
            assert not torch.is_grad_enabled() and not recorded()
        assert torch.is_grad_enabled() == recorded() == before
        with pytest.raises(KeyError), torch.no_grad():
            raise KeyError
        assert torch.is_grad_enabled() == before


@claims(
    "A and B make an object that would be a block, and drop it: nobody entered it. C works, and goes on working: "
    "without the line that turned the switch on again, later cells of this notebook would run without recording, "
    "and the first to notice would be a `backward()` somewhere else.",
)
def test_a_switch_that_stays_off_is_noticed_by_a_later_backward(lesson):
    demonstrations = [cell for cell in lesson.cells if cell.kind == "code" and cell.role == "demonstration"]
    (place,) = [n for n, cell in enumerate(demonstrations) if '@reveal("four_switches"' in cell.source]
    with torch.enable_grad():
        torch.set_grad_enabled(False)
        with pytest.raises(RuntimeError, match="does not require grad") as error:
            lessons.execute(lesson, [lesson.setup[0], demonstrations[place + 1]])
    assert any("backward" in str(entry.name) for entry in error.traceback)


def test_only_a_block_that_is_entered_turns_recording_off_and_puts_it_back(run):
    assert "It is [True, True, False, True].\n" in run.output
    assert torch.is_grad_enabled()


@claims(
    "`inference_mode` is a block that gives up more, and saves torch some book-keeping: what is computed there has "
    "no version counter. (A window on a tensor from outside is not computed, and remains as ordinary as that one.) "
    "Outside, no node can save it for a `backward()`, and an edit in place or a flag raises an error. And "
    "`enable_grad` does not turn recording on in it, although the switch says that it is on; in `no_grad` the same "
    "line does:",
    "So: `inference_mode` where results only leave as numbers, `no_grad` where they may come back as inputs or "
    "targets.",
)
def test_what_inference_mode_computes_cannot_come_back(run):
    assert shown(run, "inference_mode  the switch:") == "True, recorded: False"
    assert shown(run, "no_grad         the switch:") == "True, recorded: True"
    w = tracked([1.0, 2.0])
    with torch.inference_mode():
        strict = torch.ones(2) * 2
    with torch.no_grad():
        loose = torch.ones(2) * 2
    uses = {
        "do not track version counter": lambda made: made._version,
        "cannot be saved for backward": lambda made: w * made,
        "saved for backward": lambda made: nn.Linear(2, 1)(made),
        "saved for": lambda made: F.mse_loss(w * 1, made),
        "Inplace update to inference tensor outside": lambda made: made.add_(1),
        "Setting requires_grad=True on inference tensor": lambda made: made.requires_grad_(),
    }
    for words, use in uses.items():
        use(loose)
        with pytest.raises(RuntimeError, match=words):
            use(strict)
    assert type(strict.sum().item()) is float and (w * strict.clone()).requires_grad
    outside = torch.ones(3)
    with torch.inference_mode():
        window, of_strict = outside[:1], strict[:1]
    assert of_strict.is_inference() and not window.is_inference()
    window += 1
    assert outside._version == window._version == 1 and (w * window).requires_grad


@claims(
    "A module has a flag of its own, `training`, which `train()` and `eval()` set in it and in all modules inside. "
    "Layers like `nn.Linear` and `nn.Tanh` do not care. Dropout sets elements to zero at random, in training alone.",
)
def test_flags_of_modules_and_the_layers_that_mind_them():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5), nn.Tanh()))
    assert all(module.training for module in model.modules())
    assert not any(module.training for module in model.eval().modules())
    assert all(module.training for module in model.train().modules())
    x = torch.ones(400, 4)
    for layer in (nn.Linear(4, 3), nn.Tanh()):
        assert torch.equal(layer.train()(x), layer.eval()(x))
    dropout = nn.Dropout(0.5)
    once, again = dropout(x), dropout(x)
    assert (once == 0).any() and not torch.equal(once, again)
    assert torch.equal(dropout.eval()(x), x)


@claims(
    "Batch norm subtracts a mean from each column and divides by a deviation. In training these are the batch's "
    "own, and each call moves the layer's *running statistics* some way towards them; in evaluation the running "
    "statistics are used and stay.",
)
def test_batch_norm_uses_the_batch_in_training_and_its_running_statistics_in_evaluation():
    norm, x = nn.BatchNorm1d(3), torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 4 + 7
    own = (x - x.mean(0)) / (x.var(0, unbiased=False) + norm.eps).sqrt()
    distances = [(norm.running_mean - x.mean(0)).abs().max().item()]
    for _ in range(3):
        assert torch.allclose(norm(x), own, atol=1e-5)
        distances.append((norm.running_mean - x.mean(0)).abs().max().item())
    assert distances == sorted(distances, reverse=True) and len(set(distances)) == 4 and distances[-1] > 1
    before = copy.deepcopy(norm.state_dict())
    running = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    assert torch.allclose(norm.eval()(x), running, atol=1e-5) and not torch.allclose(running, own, atol=0.1)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


@claims(
    "`eval()` changes what layers do, and the outputs are as tracked as before. `no_grad` changes what is recorded, "
    "and the layers draw, use and move what they always do. A validation wants both.",
    "2. `no_grad` records no operation in its block and changes nothing else, `eval()` changes layers and records "
    "as ever, and a validation needs both and puts both back.",
)
def test_eval_does_not_stop_recording_and_no_grad_does_not_stop_dropout(run):
    table = run.output.split("equal   moved   tracked\n")[1].splitlines()[:4]
    assert [line.split()[-3:] for line in table] == [
        ["False", "True", "True"],
        ["True", "False", "True"],
        ["False", "True", "False"],
        ["True", "False", "False"],
    ]


@claims(
    "Here is your `score` from the beginning beside two that have one of them each:",
)
def test_the_two_common_validations_leave_a_trace(run):
    assert shown(run, "your score()") == "returns nothing yet"
    assert shown(run, "eval() alone").split() == ["True", "4992", "True", "False"]
    assert shown(run, "no_grad alone").split() == ["False", "0", "False", "True"]


def validation(*faults):
    """A validation with these of the five faults of the broken one."""

    def evaluate(model, loss_fn, batches):
        flags = {module: module.training for module in model.modules()}

        def put_back():
            for module, flag in flags.items():
                module.training = flag

        total = weights = 0
        model.eval()
        try:
            with torch.set_grad_enabled("recorded" in faults and torch.is_grad_enabled()):
                for x, y in batches:
                    weight = 1 if "rows alike" in faults else len(y)
                    loss = loss_fn(model(x), y)
                    total += weight * (loss if "a tensor" in faults else loss.item())
                    weights += weight
            if "all in training" in faults:
                model.train()
            else:
                put_back()
            return total / weights
        except Exception:
            if "error" not in faults:
                put_back()
            raise

    return evaluate


FAULTS = "recorded", "rows alike", "a tensor", "all in training", "error"


@claims(
    "This one runs, and returns what looks like a loss. Five things are wrong with it.",
)
def test_each_of_the_five_faults_of_the_broken_validation_is_one(run, lesson, exercises):
    assert verdict(lesson, exercises["evaluate"], validation()).status == "right"
    for fault in FAULTS:
        assert verdict(lesson, exercises["evaluate"], validation(fault)).status != "right", fault
    all_five, broken = validation(*FAULTS), run.names["broken_evaluate"]
    found = [verdict(lesson, exercises["evaluate"], program).met for program in (all_five, broken)]
    assert found[0] == found[1]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    batches = [(torch.randn(count, 2), torch.randn(count, 3)) for count in (4, 9)]
    results = [program(copy.deepcopy(model), F.mse_loss, batches) for program in (all_five, broken)]
    assert torch.equal(*results) and all(result.requires_grad for result in results)


@claims(
    "A network of 64, 256, 256 and 1 units is trained on batches of 256 rows, and `history.append(loss)` stands "
    "after `loss.backward()`.",
    "The suspect is innocent of the charge, or nearly. `backward()` frees what its graph saved, and what an entry "
    "keeps after that are the nodes themselves, as many of them at any size of batch. The culprits stand below it. "
    "A loss on which nobody calls `backward()`, as in a validation without `no_grad`, keeps everything; so does one "
    "whose `backward()` was told to retain.",
    "3. What fills a memory is a kept loss on which `backward()` never ran or was told to retain; after an ordinary "
    "`backward()` only nodes are left.",
)
def test_after_backward_a_kept_loss_holds_nodes_alone_and_without_it_everything(run):
    assert shown(run, "loss, after backward()     ").split() == ["0.0", "15"]
    assert shown(run, "loss, no backward()").split() == ["578.0", "15"]
    assert shown(run, "loss, graph retained").split() == ["578.0", "15"]
    loss_of_a_batch, after_backward = run.names["loss_of_a_batch"], run.names["after_backward"]
    units = [layer.in_features for layer in run.names["network"](64, 256, 256, 1) if isinstance(layer, nn.Linear)]
    assert units == [64, 256, 256] and len(run.names["rows"]) == len(run.names["values"]) == 256
    kept = [after_backward(loss_of_a_batch()) for _ in range(3)]
    assert memory.held_by(kept).bytes == 0 < memory.held_by([loss_of_a_batch() for _ in range(3)]).bytes
    small = F.mse_loss(run.names["model"](torch.randn(2, 64)), torch.randn(2, 1))
    assert memory.held_by(after_backward(small)).nodes == memory.held_by(after_backward(loss_of_a_batch())).nodes


@claims(
    "A small network, 64, 128, 128 and 10 units with ReLU between, on the simulated accelerator with 16 MiB of "
    "memory in all. Batches of 256 rows in float32. A validation appends its losses to a list and has no `no_grad`. "
    "For each batch the graph keeps the two hidden layers, of 128 units each, and what the loss needs, 10 numbers a "
    "row. Already on the device before the first step are the parameters and the batch:",
    "The error comes in a forward pass like all the others, which did nothing wrong.",
)
def test_a_log_of_validation_losses_ends_in_step_61_and_by_hand_too(run):
    assert "kept, no backward(): sim out of memory. in step 61\n" in run.output
    assert "by hand: (16384 - 168) / 266 KiB = 60.96 steps fit\n" in run.output
    on_device, inputs, labels = run.names["on_device"], run.names["inputs"], run.names["labels"]
    assert [tuple(one.shape) for one in on_device.parameters()] == [
        (128, 64),
        (128,),
        (128, 128),
        (128,),
        (10, 128),
        (10,),
    ]
    assert inputs.shape == (256, 64) and inputs.dtype == torch.float32
    kept = memory.held_by(F.cross_entropy(on_device(inputs), labels)).bytes - inputs.nbytes - labels.nbytes
    assert 0 <= kept - (128 + 128 + 10) * 256 * 4 <= 4  # a divisor of the loss's own may be there as well


@claims(
    "With any of the four cuts below the loop does not end there.",
)
@pytest.mark.parametrize("name", ["loss.item()", "loss.detach()", "loss, in no_grad", "loss, after backward()"])
def test_a_log_that_is_cut_does_not_end_and_keeps_at_most_a_number_a_step(run, name):
    (line,) = [line for line in run.output.splitlines() if line.startswith(name) and "out of memory" in line]
    assert "out of memory: None" in line
    assert int(line.split("300 steps")[1].split()[0]) <= 290 * 4


@claims(
    "Where no byte comes, the device never fills. Where a tensor of one number comes with each step, four bytes, "
    "the log itself would fill it in the end, after millions of steps here. `item()` is still the best habit for a "
    "log: a number has no graph to keep and takes nothing on the device, and a plot or a file takes it as it is.",
)
def test_a_number_takes_nothing_on_the_device_and_a_tensor_of_one_number_four_bytes(run):
    more = {}
    for name in ("loss.item()", "loss.detach()", "loss, in no_grad", "loss, after backward()"):
        (line,) = [line for line in run.output.splitlines() if line.startswith(name) and "out of memory" in line]
        more[name] = int(line.split("300 steps")[1].split()[0])
    assert more.pop("loss.item()") == 0 and set(more.values()) == {(300 - 10) * 4}
    free = 16 * 2**20 - run.names["there_before"]
    assert free / 4 > 2e6
    number = torch.tensor(0.5, device=run.names["device"]).item()
    assert type(number) is float and json.loads(json.dumps([number])) == [0.5]
    assert numpy.asarray([number]).dtype == numpy.float64


@claims(
    "It keeps no graph either, and what it appends is an array without dimensions:",
)
def test_the_line_for_logs_appends_what_no_file_takes(run):
    assert shown(run, "ndarray in a file:") == "Object of type ndarray is not JSON serializable"
    assert shown(run, "float in a file:") == "as it is"
    entry = (tracked([1.0, 2.0]) ** 2).sum().detach().cpu().numpy()
    assert type(entry) is numpy.ndarray and entry.shape == () and memory.held_by(entry).nodes == 0


@claims(
    "A sum or an average that is computed from tracked tensors gets a longer past with every step:",
)
def test_an_average_of_tracked_weights_grows_by_three_nodes_a_step(run):
    assert shown(run, "step 50:") == "150 nodes, 0 bytes saved"
    assert "the same in no_grad: 0 nodes\n" in run.output
    w, total, past = tracked(1.0), 0.0, []
    for _ in range(5):
        total = total + w * 1
        past.append(memory.held_by(total).nodes)
    assert past == sorted(set(past))


@claims(
    "A recurrent layer such as `nn.RNNCell` takes an input and a *state* and returns the next state, `h = cell(x, h)`.",
    "A state is a result, so it has a past.",
)
def test_a_state_is_a_result():
    cell = nn.RNNCell(1, 4)
    state = cell(torch.ones(1, 1), torch.zeros(1, 4))
    assert state.shape == (1, 4) and state.grad_fn is not None and not torch.equal(cell(torch.ones(1, 1), state), state)


@claims(
    "A conversion that has nothing to do returns its own tensor. A slice is a window. A flag on a new leaf begins a "
    "new history.",
    "`module.training = True` sets one flag, `module.train()` those of all modules inside as well.",
    "`next(steps)` raises `StopIteration` at the end; `next(steps, end)` returns `end` instead.",
    "A graph that nobody holds is gone, whatever was said to its `backward()`.",
    "What `memory.held_by` returns keeps nothing alive; it has `.bytes` and `.nodes`.",
)
def test_what_the_hints_say_holds():
    y = tracked([1.0, 2.0]) * 3
    assert y.float() is y and y.cpu() is y and y.to("cpu") is y and y[:1].data_ptr() == y.data_ptr()
    assert y.detach().requires_grad_().is_leaf
    model = nn.Sequential(nn.Sequential(nn.Tanh())).eval()
    model.training = True
    assert [module.training for module in model.modules()] == [True, False, False]
    assert all(module.training for module in model.train().modules())
    steps = iter([1])
    assert next(steps) == 1 and next(steps, "end") == "end"
    with pytest.raises(StopIteration):
        next(steps)
    with memory.watch() as watched:
        loss = tracked([1.0, 2.0]).exp().exp().sum()
        loss.backward(retain_graph=True)
        kept = memory.held_by(loss)
        assert watched.now == kept.bytes == 16 and kept.nodes == 4
        del loss
        assert watched.now == 0 < kept.bytes


@claims(
    "A cut decides who learns.",
    "The three losses are the same number, and no line raises an error. In two of them the weight learns to be "
    "small and nothing about the data.",
)
def test_a_cut_prediction_learns_the_regulariser_alone(run):
    assert shown(run, "prediction cut ") == "loss 64.01   w.grad 0.02"
    assert shown(run, "read by item() ") == "loss 64.01   w.grad 0.02"
    assert shown(run, "target cut ") == "loss 64.01   w.grad -31.98"
    slopes = {}
    for y in (10.0, -500.0):  # other data, the same gradient: nothing is learned of it
        w = tracked(1.0)
        for name, prediction in {"cut": (w * 2).detach(), "item": (w * 2).item(), "whole": w * 2}.items():
            (slope,) = torch.autograd.grad((prediction - y) ** 2 + 0.01 * w**2, w)
            slopes.setdefault(name, []).append(round(slope.item(), 2))
    assert slopes == {"cut": [0.02] * 2, "item": [0.02] * 2, "whole": [-31.98, 2008.02]}


@claims(
    "Here the two point in opposite directions.",
    "the prediction moves towards what is wanted, never the other way round.",
)
def test_an_uncut_target_turns_the_gradient_round(run):
    assert float(shown(run, "both sides may move:")) == pytest.approx(2.08)
    assert float(shown(run, "the prediction alone:")) == pytest.approx(-2.6)
    x, wanted, online = 1.0, 0.5 + 0.9 * 2.0, tracked(1.0)
    slope = torch.autograd.grad((online * x - wanted) ** 2, online)[0].item()
    distances = [abs((1 - rate * slope) * x - wanted) for rate in (0, 0.01, 0.1)]
    assert distances == sorted(distances, reverse=True) and distances[-1] < distances[0]


@claims(
    "That is an average over time, so it belongs in a block that records nothing, and it has to be an edit in "
    "place, or the name moves and the weight does not:",
)
def test_a_target_follows_only_where_it_is_edited(run):
    assert shown(run, "rebound:") == "moved False"
    assert shown(run, "in place:") == "moved True and a leaf True"
    slow, fast = tracked([0.0]), tracked([1.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        slow += 0.1 * (fast - slow)
    plain, nodes = torch.zeros(1), []
    for _ in range(3):  # outside a block a target without a flag becomes a result with an ever longer past
        plain += 0.1 * (fast - plain)
        nodes.append(memory.held_by(plain).nodes)
    assert nodes == sorted(set(nodes))


@claims(
    "With two models of tracked weights this step runs, and neither of them ever moves.",
)
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_the_broken_step_moves_neither_model(run, make):
    torch.manual_seed(0)
    online, target = nn.Linear(2, 1), nn.Linear(2, 1)
    before = copy.deepcopy([*online.parameters(), *target.parameters()])
    online.weight.grad = torch.ones(1, 2)
    optimizer = make(online.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        batch = torch.randn(5, 2), torch.randn(5, 1), torch.randn(5, 2)
        assert run.names["broken_bootstrap_step"](online, target, optimizer, batch, 0.9, 0.1) > 0
    assert all(torch.equal(*pair) for pair in zip(before, [*online.parameters(), *target.parameters()]))


@claims(
    "The second `backward()` walked on into the first chunk, whose saved tensors were gone. Pages that answer this "
    "error often recommend `retain_graph=True`, which makes it disappear here: the later chunks then go back to the "
    "very beginning, the gradient is another one, and the graph grows.",
    "`h.detach()` keeps the value and cuts the rope.",
)
def test_retaining_goes_back_to_the_beginning_and_gives_another_gradient(run):
    assert shown(run, "carried as it is:") == "Trying to backward through the graph a second time"
    h = tracked([1.0]) * 2
    assert torch.equal(h.detach(), h)

    def gradient(retain):
        torch.manual_seed(0)
        cell, sequence, h = nn.RNNCell(1, 4), torch.randn(12, 1, 1), torch.zeros(1, 4)
        nodes = []
        for chunk in sequence.split(4):
            for x in chunk:
                h = cell(x, h)
            nodes.append(memory.held_by(h).nodes)
            (h**2).sum().backward(retain_graph=retain)
            h = h if retain else h.detach()
        return cell.weight_hh.grad, nodes

    (retained, growing), (cut, steady) = gradient(True), gradient(False)
    assert not torch.allclose(retained, cut)
    assert growing[0] < growing[1] < growing[2] and len(set(steady[1:])) == 1


@claims(
    "With an optimizer's step after each chunk another error takes its place, for the step edits weights that the "
    "chunks before have saved.",
    "no gradient crosses a cut, so the loss of a chunk teaches nothing to the chunks before it.",
)
def test_retaining_fails_where_a_step_is_made_and_a_cut_lets_no_gradient_through():
    def first_slope(retain, cut, step):
        torch.manual_seed(0)
        cell, sequence, h = nn.RNNCell(1, 4), torch.randn(2, 4, 1, 1), torch.zeros(1, 4)
        optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
        first = tracked([[1.0]])
        for number, chunk in enumerate(sequence):
            for x in chunk:
                h = cell(x + first if number == 0 else x, h)
            if number == 1 or step:
                optimizer.zero_grad()
                (h**2).sum().backward(retain_graph=retain)
            if step:
                optimizer.step()
            h = h.detach() if cut else h
        return first.grad

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        first_slope(retain=True, cut=False, step=True)
    first_slope(retain=False, cut=True, step=True)
    assert first_slope(retain=False, cut=False, step=False) != 0
    assert first_slope(retain=False, cut=True, step=False) is None


@claims(
    "Rounding has the slope 0, in torch at every number, so what stands in front of it gets a gradient of zeros. "
    "One line lets the value be rounded and the gradient pass as if it were not:",
    "Forward, the two `x` cancel and the rounded value remains. Backward, the bracket is a constant, and `x` has "
    "the slope 1. With the `detach()` on the other term the value is the same and the slope has the wrong sign.",
)
def test_a_straight_through_sum_has_the_rounded_value_and_the_slope_one(run):
    assert shown(run, "x + (x.round() - x).detach()") == "3.0 1.0"
    assert shown(run, "x.detach() + (x.round() - x)") == "3.0 -1.0"
    assert shown(run, "x.round()       ") == "3.0 0.0"
    torch.manual_seed(0)
    x = torch.cat([torch.randn(10000) * scale for scale in (0.1, 1, 10, 1e3, 1e7)] + [torch.tensor([-1.5, 0.5, 1.0])])
    x.requires_grad_()
    for function, slope in (
        (torch.round, 0),
        (lambda x: x + (x.round() - x).detach(), 1),
        (lambda x: x.detach() + (x.round() - x), -1),
    ):
        y = function(x)
        assert torch.equal(y, x.round())
        assert (torch.autograd.grad(y.sum(), x)[0] == slope).all()
    front = nn.Linear(2, 3)
    front(torch.ones(1, 2)).round().sum().backward()
    assert (front.weight.grad == 0).all()


@claims(
    "`clamp(low, high)` limits a tensor. Its slope is 1 inside and 0 outside, and in torch 1 at the two ends:",
    "Its gradient is handed through to `x` where `low <= x <= high`, and is 0 where `x` lies outside, however little.",
    "This rounds, and nothing in front of it learns.",
)
def test_a_limit_has_the_slope_one_up_to_both_ends_and_zero_beyond(run, lesson):
    assert "[-1.0, -1.0, 0.30000001192092896, 1.0, 1.0]\n[0.0, 1.0, 1.0, 1.0, 0.0]\n" in run.output
    just = torch.finfo(torch.float32).eps
    values, slopes = [-9.0, -2 - 2 * just, -2.0, -1.2, 0.5, 3.0, 3 + 2 * just, 3.4, 9.0], [0, 0, 1, 1, 1, 1, 0, 0, 0]
    for function in (lambda x: x.clamp(-2, 3), lambda x: lessons.references(lesson)["quantize"](x, -2, 3)):
        x = tracked(values)
        assert torch.autograd.grad(function(x).sum(), x)[0].tolist() == slopes
    x = tracked(values)
    quantized = run.names["broken_quantize"](x, -2, 3)
    assert torch.autograd.grad(quantized.sum(), x)[0].tolist() == [0] * len(values)
    assert quantized.tolist() == lessons.references(lesson)["quantize"](x, -2, 3).tolist()


@claims(
    "A `yield` does not leave the block, so the switch stays off for its caller too, until the generator has run to "
    "the end of the block or is closed. (A generator that no name holds is closed at once, which is why "
    "`next(predictions(data))` seems harmless.) Compute inside, yield outside. As a decorator of a generator "
    "function `no_grad` does just that: it turns the switch off for each piece between two yields.",
)
def test_a_generator_that_sleeps_in_a_block_leaves_recording_off(run):
    assert shown(run, "yields_inside") == "recorded while it waits: False"
    assert shown(run, "yields_outside") == "recorded while it waits: True"
    assert shown(run, "decorated") == "recorded while it waits: True"
    inside = run.names["yields_inside"]
    next(inside([torch.ones(1)]))
    assert recorded()
    waiting = inside([torch.ones(1)] * 3)
    for _ in range(3):
        next(waiting)
        assert not recorded()
    assert next(waiting, "the end") == "the end" and recorded()
    waiting = inside([torch.ones(1)] * 3)
    next(waiting)
    assert not recorded()
    waiting.close()
    assert recorded()

    @torch.no_grad()
    def pieces():
        for _ in range(3):
            yield recorded()

    for piece in pieces():
        assert not piece and recorded()


@claims(
    "And the switch belongs to a thread. A new thread begins with recording on, whatever holds where it was started:",
)
def test_a_new_thread_begins_with_recording_on():
    notes = []
    for setting in (True, False):
        with torch.set_grad_enabled(setting):
            worker = threading.Thread(target=lambda: [notes.append(recorded()), torch.set_grad_enabled(False)])
            worker.start()
            worker.join()
            assert recorded() == setting
    assert notes == [True, True]


@claims(
    "`with thing:` calls `thing.__enter__()` at the beginning and `thing.__exit__(type, error, traceback)` at the "
    "end, also when an error leaves the block; then `__exit__` is told of it, and the error goes on unless "
    "`__exit__` returns something true. `@thing` above a function calls `thing(function)` and puts what that "
    "returns in its place. Here is a counter that is confused neither by errors nor by blocks within blocks:",
)
def test_a_block_calls_enter_and_exit_and_a_decorator_calls_the_object(run, capsys):
    class Noting:
        def __init__(self, answer):
            self.answer, self.notes = answer, []

        def __enter__(self):
            self.notes.append("in")

        def __exit__(self, kind, error, traceback):
            self.notes.append(kind)
            return self.answer

        def __call__(self, function):
            return ["instead of", function.__name__]

    with Noting(False) as _, pytest.raises(KeyError), Noting(False) as _:
        raise KeyError
    for answer in (None, True):
        thing = Noting(answer)
        try:
            with thing:
                raise KeyError
        except KeyError:
            thing.notes.append("came out")
        assert thing.notes == ["in", KeyError, *([] if answer else ["came out"])]

    @Noting(None)
    def replaced():
        """Never called."""

    assert replaced == ["instead of", "replaced"]
    counting = run.names["Counting"]()
    with pytest.raises(KeyError), counting:
        with counting:
            pass
        with counting:
            raise KeyError
    assert capsys.readouterr().out.splitlines() == [
        *("in: 1", "in: 2", "out: 2 None"),
        *("in: 2", "out: 2 KeyError", "out: 1 KeyError"),
    ]


@claims(
    "`window` grows in the first three steps and stays: no leak. `average` saves nothing and gets three nodes more "
    "at each step: a leak. A comparison of the first step with the last would blame both. One of bytes alone would "
    "blame the window and miss the average.",
)
def test_a_window_fills_up_and_an_average_does_not_end(run):
    window, average = (
        [tuple(map(int, pair.split("/"))) for pair in shown(run, name).split()] for name in ("window  ", "average ")
    )
    assert window[0] < window[1] < window[2] and len(set(window[2:])) == 1
    assert average == [(0, 3 * step) for step in range(1, 9)]
    assert window[0][0] < window[-1][0] and average[0][0] == average[-1][0]


@claims(
    "This probe passes every loop whose loss falls.",
)
def test_the_broken_detector_passes_every_loop_whose_loss_falls(run):
    passed = {name: not run.names["broken_suspicious"](loop) for name, loop in run.names["cases"].loops.items()}
    falls = {name: run.names["on_a_problem"](loop) for name, loop in run.names["cases"].loops.items()}
    assert passed == {name: last < first for name, (first, last) in falls.items()}
    assert sum(passed[name] for name in run.names["WRONG"]) == 6


@claims(
    "A loss that falls is no evidence, and here one of the wrong loops even ends below the right ones.",
)
def test_the_loss_falls_in_six_of_the_seven_wrong_loops_and_in_one_below_the_right_ones(run):
    assert "It is 6.\n" in run.output
    last = {name: run.names["on_a_problem"](loop)[1] for name, loop in run.names["cases"].loops.items()}
    assert last["A"] < min(last[name] for name in "BDFHJ")


@claims(
    "Loop A is caught. Loop G is as wrong and comes out equal, because this probe is too tame: with plain SGD there "
    "is nothing to forget. A probe finds what it gives a chance to show: an optimizer with a memory, layers that "
    "mind their flags, several different batches.",
    "5. Loops that are wrong without an error are found by what they leave after a few steps beside a loop that is "
    "right.",
)
def test_a_tame_probe_does_not_tell_the_loop_that_forgets(run):
    assert shown(run, "plain: ") == shown(run, "loop G:") != shown(run, "loop A:")
    names = run.names

    def left_by(train, batches=3, **chances):
        with torch.enable_grad():
            model, optimizer, given = names["beginning"](**chances)
            losses = train(model, optimizer, F.mse_loss, given[:batches])
            flags = [module.training for module in model.modules()]
            tensors = [tensor.tolist() for tensor in model.state_dict().values()]
            return losses, torch.is_grad_enabled(), flags, tensors

    def caught(**chances):
        right = left_by(names["plain"], **chances)
        return {name for name, loop in names["cases"].loops.items() if left_by(loop, **chances) != right}

    assert caught(remembers=True, has_statistics=True) == set(names["WRONG"])
    assert "G" not in caught(remembers=False, has_statistics=True)  # no memory to lose
    assert "I" not in caught(remembers=True, has_statistics=False)  # no layer that minds
    assert "A" not in caught(remembers=True, has_statistics=True, batches=1)  # nothing to pile up


#: What the demonstration that refutes a mistake prints: the beginning of the line, the result, and what was believed.
REFUTED = {
    "S23": ("recorded here:", "False   in the thread started here: True", "False   in the thread started here: False")
}


def test_every_silent_mistake_of_the_unit_is_recognised_or_refuted(run, lesson, exercises):
    catalogue = tomllib.loads((lesson.course / "misconceptions.toml").read_text("utf-8"))
    silent = {name for name, entry in catalogue.items() if entry["unit"] == UNIT and entry["silent"]}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises) if attempt.kind == "misconception"}
    for beginning, result, believed in REFUTED.values():
        assert shown(run, beginning) == result != believed
    assert sorted(silent - recognised - set(REFUTED)) == []


def test_the_mistakes_that_raise_are_shown_raising(run):
    for error in (
        "a Tensor with 2 elements cannot be converted to Scalar",  # S10
        "does not require grad and does not have a grad_fn",  # S13, S16
        "Inference tensors cannot be saved for backward",  # S14
        "Can't call numpy() on Tensor that requires grad",  # S18
        "Trying to backward through the graph a second time",  # S20
        "support the deepcopy protocol at the moment",  # S21
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled",  # S24
        "Can't detach views in-place",  # S25
    ):
        assert error in run.output
    assert shown(run, "inference_mode  the switch:") == "True, recorded: False"  # S26
    assert shown(run, "no_grad         the switch:") == "True, recorded: True"


# --- the exercises ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evaluate", "bootstrap_step", "quantize", "suspicious"])
def test_the_broken_programs_of_the_lesson_are_wrong(run, lesson, exercises, name):
    found = verdict(lesson, exercises[name], run.names[f"broken_{name}"])
    assert not found.met[0] and found.score == 0


def test_what_the_logs_pile_up_is_what_memory_says(run, lesson):
    right = lessons.references(lesson)["what_grows"]

    def counted(log):
        """Bytes and nodes that are held, at the beginning of each step but the first two."""
        torch.manual_seed(0)
        model, counts = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), []

        def batches():
            for _ in range(6):
                counts.append((watched.now, nodes_alive()))
                yield torch.randn(5, 3), torch.randn(5, 1)

        kept = []

        def nodes_alive():
            return memory.held_by(kept[0]).nodes if kept else 0

        with memory.watch() as watched:
            kept.append(log(model, batches()))
        return [count for count, _ in counts[2:]], memory.held_by(kept[0]).nodes

    for letter, log in run.names["cases"].logs.items():
        held, nodes = counted(log)
        if right(letter) == "tensors":
            assert held == sorted(set(held)), letter
        else:
            assert len(set(held)) == 1 and (nodes > 0) == (right(letter) == "nodes"), letter


@claims(
    "Twelve training loops.",
    "Five keep their word.",
)
def test_the_wrong_loops_are_those_that_the_lesson_says(run, lesson):
    suspicious = lessons.references(lesson)["suspicious"]
    loops = run.names["cases"].loops
    assert [name for name, loop in loops.items() if suspicious(loop)] == list(run.names["WRONG"])
    assert len(loops) == len(run.names["WRONG"]) + 5 == 12


def test_the_loops_of_a_kind_are_right_or_wrong_together(run, lesson):
    suspicious = lessons.references(lesson)["suspicious"]
    for number, kind in enumerate(run.names["cases"].KINDS):
        assert {bool(suspicious(loop)) for loop in kind} == {number % 2 == 0 or number == 11}, number


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("memory", "the verdict is none of tensors, nodes, nothing"),
        (None, "the verdict is none of tensors, nodes, nothing"),
        ("nothing", "not what running it shows"),
    ],
)
def test_a_verdict_of_any_form_is_a_miss_in_words(lesson, exercises, answer, words):
    right = lessons.references(lesson)["what_grows"]
    found = verdict(lesson, exercises["what_grows"], lambda log: answer if log == "A" else right(log))
    assert found.status == "wrong" and words in found.difference.words


@pytest.mark.parametrize("answer", [None, [], "history", {"losses": 3}, {3: "tensors"}])
def test_an_answer_of_any_form_to_the_leak_is_a_miss(lesson, exercises, answer):
    def finds(step, state, steps):
        for _ in range(steps):
            step(state)
        return answer

    assert verdict(lesson, exercises["find_leak"], finds).status == "wrong"


def test_a_mean_in_a_tensor_is_the_right_number_of_the_wrong_type(lesson, exercises):
    right = lessons.references(lesson)["evaluate"]

    def wraps(model, loss_fn, batches):
        return torch.tensor(right(model, loss_fn, batches))

    assert verdict(lesson, exercises["evaluate"], wraps).met == [True, False, True, True, True, True]


@claims(
    "And a small one: the bytes that are kept for a `backward()` because of a call, where perhaps nobody asked for "
    "them.",
)
def test_what_a_call_keeps_is_counted_and_evaluation_alone_keeps_as_much(run):
    tracked_pass, in_evaluation = shown(run, "a forward pass:"), shown(run, "in evaluation alone:")
    assert tracked_pass == in_evaluation == str((64 + 256 + 256) * 256 * 4)
    assert re.search(r"^the same in no_grad: +0$", run.output, re.M)
    w = tracked([1.0, 2.0, 3.0])
    kept, result = run.names["recorded_bytes"](torch.exp, w)
    assert kept == result.nbytes == 12


@claims(
    "4. A cut decides who learns: cut the target and the state between chunks, never the prediction, and use the "
    "cut as a tool where the value should come from one term and the gradient from another.",
)
@pytest.mark.parametrize("cut", ["prediction", "target"])
def test_who_is_cut_does_not_learn(cut):
    prediction, target = tracked(1.0), tracked(4.0)
    sides = {"prediction": prediction * 1, "target": target * 1}
    sides[cut] = sides[cut].detach()
    (sides["prediction"] - sides["target"]).square().backward()
    grads = {"prediction": prediction.grad, "target": target.grad}
    assert grads.pop(cut) is None and all(grad.abs() == 6 for grad in grads.values())


# --- what the catalogue says was measured ----------------------------------------------------------------------------


def test_the_measurements_of_the_newer_entries_hold(run):
    limited = torch.tensor([7.0], requires_grad=True)
    (limited + (limited.round().clamp(-3, 3) - limited).detach()).backward()
    assert limited.grad == 1  # S37

    slow, fast = torch.zeros(1), torch.ones(1)
    assert (0.1 * slow + (1 - 0.1) * fast).item() == pytest.approx(0.9)  # S34

    with torch.no_grad():
        torch.set_grad_enabled(False)
        torch.set_grad_enabled(True)
        assert run.names["tracked"]()  # S38
    assert memory.held_by(torch.ones(1, requires_grad=True).detach()).nodes == 0  # S32

    batches = iter([3, 4])
    assert (sum(batches), sum(batches)) == (7, 0)  # S49
    with pytest.raises(TypeError, match="object of type 'list_iterator' has no len"):
        len(batches)
