# %% [markdown]
# # 6 Leaving the graph
#
# A tracked tensor drags its past along. That is what gradients are made of, and in a validation, in a log or in a target
# it is only in the way. This unit is about the ways out: what each of them copies, shares and keeps, where a cut belongs,
# and what happens to a program that forgets to cut, or cuts in the wrong place. Hardly any of it raises an error.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before many
# results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain). A wrong guess costs
# nothing.

# %% tags=["setup"]
import contextlib
import copy
import functools
import inspect
import itertools
import json
import threading

import numpy
import torch
from autogradlab import accelerator, check, commit, graph, memory, reveal, unit
from torch import nn
from torch.nn import functional as F

cases = unit("06_leaving_the_graph")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up
device = accelerator.register()

# %% [markdown]
# ## Warm-up: four questions
#
# A look back at the units on accumulating gradients, on the graph and on creating tensors. The numbers are yours: change
# 7 to any whole number from 0 to 99, and run the cell. Then read the program that it prints, and work it out on paper.

# %% tags=["demonstration", "needs:running-total", "needs:photocopies"]
print(cases.warm_up(7))

# %% [markdown]
# When the program has run: what is `w.grad`, is `product` a leaf, what is `copied`, and what is `shared`? Answer with a
# list of four, for example `[3, True, 5, 8]`, and give your number as the variant.

# %% tags=["prediction"]
commit("ways_back", answer=None, confidence=None, variant=None, answers=4)


# %% tags=["demonstration", "needs:running-total", "needs:leaves-and-results", "needs:photocopies"]
@reveal("ways_back", see="Two things to share", answers=4)
def _(variant):
    names = {}
    exec(cases.warm_up(variant), names)
    print(
        "backward() adds; a product of a tracked tensor is a result; shared lies on the memory of w, copied does not."
    )
    return [names["w"].grad, names["product"].is_leaf, names["copied"], names["shared"]]


# %% [markdown]
# ## Eight minutes first: how good is it?
#
# Before anything is explained, write a validation. `score(model, batches)` gets a module and a list of batches `(x, y)`.
# It returns the mean of `F.mse_loss(model(x), y)` over the batches, as a float, and after the call everything is as if it
# had never been made. Nothing here is graded. After eight minutes go on, whatever you have: further down it stands beside
# two others.


# %% tags=["demonstration", "needs:modules-and-optimizers"]
def score(model, batches):
    return None  # your lines


torch.manual_seed(0)
some_model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 1))
some_batches = [(torch.randn(32, 4), torch.randn(32, 1)) for _ in range(3)]
print(score(some_model, some_batches))

# %% [markdown]
# ## Two things to share
#
# What a line makes of a tensor `y` can have two things in common with it: the *history*, so that a `backward()` leads on
# to the leaves behind `y`, and the *memory*, so that an edit of one shows in the other. Start with the best-known way
# out. `y` is `[3, 6]`; somebody wants to try something on a copy:
#
# - `d = y.detach()`
# - `d[0] = 99`
#
# What is `y[0]` after that?

# %% tags=["prediction"]
commit("written_through", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:ways-out", "form:worked", "needs:photocopies", "needs:leaves-and-results"]
@reveal("written_through", see="Two things to share")
def _():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    d = y.detach()
    d[0] = 99
    print("y after the edit of d:   ", y)
    y = x * 3
    d = y.detach().clone()
    d[0] = 99
    print("and with a clone between:", y)
    return 99.0


# %% [markdown]
# `detach()` cuts the history and keeps the memory. `clone()` is its mirror image: new memory, the old history. Who wants
# a copy that is on its own needs both. Here are the ways out that people use, each asked for its history and its memory:


# %% tags=["demonstration", "teaches:ways-out", "form:worked", "needs:photocopies", "needs:asking-for-gradients"]
def ties(make):
    """Whether what `make(y)` returns leads back to x, and whether it shares the memory of y."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    made = make(y)
    leads_back = isinstance(made, torch.Tensor) and made.requires_grad
    if leads_back:
        leads_back = torch.autograd.grad(made.sum(), x, allow_unused=True)[0] is not None
    before = y.detach().clone()
    if isinstance(made, torch.Tensor):
        made = made.detach()
    made[0] = 99
    return leads_back, not torch.equal(y.detach(), before)


print(f"{'':26}history  memory")
for line in (
    "y[:1]",
    "y.clone()",
    "y.detach()",
    "y.detach().clone()",
    "y.data",
    "y.detach().numpy()",
    "y.detach().cpu()",
    "y.tolist()",
    "y.detach().requires_grad_()",
):
    history, shared = ties(eval(f"lambda y: {line}"))
    print(f"{line:28}{history!s:8} {shared}")

# %% [markdown]
# Three of these lines deserve a second look. `.cpu()` copies where there is something to move, and not here: the unit on
# moving between devices shows a log that this spoiled. `.data` looks like `detach()`, and edits through it do not raise
# the version of `y`: the unit on the graph shows what comes of that. (The *version* counts a tensor's edits in place; by
# it `backward()` notices that something it needs was edited.) And a flag set on what was detached starts a *new* history,
# which does not lead back to `x`.
#
# Some programs have `detach()` on a line of its own. What is `y.requires_grad` after the line `y.detach()`, and what is it
# after `y = y.detach()`? Answer with a list of two.

# %% tags=["prediction"]
commit("as_a_statement", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:ways-out", "form:worked", "needs:photocopies"]
@reveal("as_a_statement", see="Two things to share", answers=2)
def _():
    y = torch.tensor([1.0, 2.0], requires_grad=True) * 3
    y.detach()
    dropped = y.requires_grad
    y = y.detach()
    print("y.detach() as a statement:", dropped)
    print("y = y.detach():           ", y.requires_grad)
    return [dropped, y.requires_grad]


# %% [markdown]
# `detach()` returns what it makes and leaves `y` as it is, so a line that drops what it returns has changed nothing.
# `detach_()`, with the underscore of an edit in place, cuts `y` itself.
#
# Four ways out are locked, and say so. `item()` is for one element, `deepcopy` for leaves, `detach_()` is not for views,
# and NumPy takes neither a tracked tensor nor a list of them:

# %% tags=["demonstration", "teaches:ways-out", "form:worked", "needs:leaves-and-results"]
y = torch.tensor([1.0, 2.0], requires_grad=True) * 3
attempts = {
    "y.item()": lambda: y.item(),
    "copy.deepcopy(y)": lambda: copy.deepcopy(y),
    "y[:1].detach_()": lambda: y[:1].detach_(),
    "numpy.mean([y[0], y[1]])": lambda: numpy.mean([y[0], y[1]]),
}
for line, attempt in attempts.items():
    try:
        attempt()
    except RuntimeError as error:
        print(f"{line:25}", str(error).split(".")[0])
print("numbers in the list:      ", numpy.mean([y[0].item(), y[1].item()]))

# %% [markdown]
# ### Exercise: scissors (depth, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell. It prints two lines, and then twelve, each of which makes a
# `k` out of `y`.

# %% tags=["demonstration", "needs:ways-out"]
print(cases.scissors.script(7))

# %% [markdown]
# For each of the twelve, taken by itself: what does `k` still have of `y`? `"history"` if a `backward()` from `k` would
# reach `x`, `"memory"` if an edit of `k` would show in `y`, or `"both"`, or `"neither"`.
#
# In the answer cell, return your number and a list of twelve of these words, as in `return 7, ["both", "neither", ...]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Ask the two questions apart. Which words in a line cut the history? Which word always makes new memory?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A conversion that has nothing to do returns its own tensor. A slice is a window. A flag on a new leaf begins a new
# history.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "scissors", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:predict", "teaches:ways-out", "needs:sharing-or-copying", "needs:photocopies"]
def scissors():
    """Your variant, and for each line what `k` still shares with `y`."""
    ### BEGIN SOLUTION
    cuts = ["memory", "neither", "history", "memory"]
    windows = ["both", "both", "memory", "history"]
    others = ["memory", "memory", "neither", "neither"]
    return 7, [*cuts, *windows, *others]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "scissors_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("scissors")

# %% [markdown]
# ## A block in which nothing is recorded
#
# `with torch.no_grad():` is the way out for whole stretches of a program. The lesson from which this course grew says of
# it: "no computation graph is built, no gradients are computed". Is that so? Here `loss` is `w**2` at 3, computed *before*
# the block; inside it stand two lines:
#
# - `loss.backward()`
# - `product = w * 2`
#
# What is `w.grad` afterwards, and what is `product.requires_grad`? Answer with a list of two.

# %% tags=["prediction"]
commit("inside_the_block", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:unrecorded-blocks", "form:worked", "needs:recording"]
@reveal("inside_the_block", see="A block in which nothing is recorded", answers=2)
def _():
    w = torch.tensor(3.0, requires_grad=True)
    loss = w**2
    with torch.no_grad():
        loss.backward()
        product = w * 2
    print("w.grad:               ", w.grad)
    print("product.requires_grad:", product.requires_grad)
    return [w.grad, product.requires_grad]


# %% [markdown]
# The first half of the sentence holds: what is computed in the block is not *recorded*. The second is another matter, for
# `backward()` walks a graph that exists, and the block does not hinder it. (With `create_graph=True` it even records its
# own way, here as elsewhere.) A loss that was computed inside has none to walk:

# %% tags=["demonstration", "teaches:unrecorded-blocks", "form:worked", "needs:recording", "needs:leaves-and-results"]
w = torch.tensor(3.0, requires_grad=True)
with torch.no_grad():
    loss = w**2
try:
    loss.backward()
except RuntimeError as error:
    print("forward inside, backward outside:", error)

# %% [markdown]
# Flags that you set stay as you set them. `w = w - 0.1 * w.grad` in the block puts another tensor under the name `w`, one
# without a flag, where `w -= 0.1 * w.grad` edits the tracked one. A view that was made in the block is a trap: it has the
# flag of its tensor and leads nowhere. A `backward()` from it raises no error and fills no `.grad`, not even its own. Only
# an edit of it outside a block is refused.

# %% tags=["demonstration", "teaches:unrecorded-blocks", "form:worked", "needs:sharing-or-copying", "needs:first-step"]
w = torch.tensor(3.0, requires_grad=True)
(w**2).backward()
with torch.no_grad():
    rebound = w - 0.1 * w.grad
    w -= 0.1 * w.grad
print("w = w - ...: tracked", rebound.requires_grad, "  w -= ...: tracked", w.requires_grad)
try:
    (rebound**2).backward()
except RuntimeError as error:
    print("backward from the new name:", error)

y = torch.ones(3, requires_grad=True) * 2
with torch.no_grad():
    window = y[:1]
print("the window:", window.requires_grad, window.grad_fn)
(window**2).sum().backward()
print("after backward() from it:", window.grad)
try:
    window.mul_(2)
except RuntimeError as error:
    print("an edit outside:", str(error).split(". ")[0])

# %% [markdown]
# ## A switch, and who puts it back
#
# Behind the block is a switch, which `torch.is_grad_enabled()` reads. The block notes how it stands, turns it off, and
# puts it back at its end. Here are four ways in which programs try to turn it off. Each is tried by itself, with the
# switch on before, and one line after it asks whether the product of a tracked tensor is tracked:
#
# - A: `torch.no_grad()` on a line of its own
# - B: `torch.inference_mode()`, a stricter relative of `no_grad`, on a line of its own
# - C: `torch.set_grad_enabled(False)` on a line of its own
# - D: a `with torch.no_grad():` block that is over
#
# Answer with a list of four `True` or `False`.

# %% tags=["prediction"]
commit("four_switches", answer=None, confidence=None, answers=4)


# %% tags=["demonstration", "teaches:recording-switch", "form:worked", "needs:unrecorded-blocks"]
def tracked():
    """Whether a product of a tracked tensor is recorded here and now."""
    return (torch.ones(1, requires_grad=True) * 2).requires_grad


@reveal("four_switches", see="A switch, and who puts it back", answers=4)
def _():
    found = []
    torch.no_grad()
    found.append(tracked())
    torch.inference_mode()
    found.append(tracked())
    torch.set_grad_enabled(False)
    found.append(tracked())
    torch.set_grad_enabled(True)
    with torch.no_grad():
        pass
    found.append(tracked())
    for letter, is_tracked in zip("ABCD", found):
        print(letter, "recorded:", is_tracked)
    return found


# %% [markdown]
# A and B make an object that would be a block, and drop it: nobody entered it. C works, and goes on working: without the
# line that turned the switch on again, later cells of this notebook would run without recording, and the first to notice
# would be a `backward()` somewhere else. A `with` block puts the switch back, also when an error leaves it.

# %% [markdown]
# ## A stricter door
#
# `inference_mode` is a block that gives up more, and saves torch some book-keeping: what is computed there has no
# version counter. (A window on a tensor from outside is not computed, and remains as ordinary as that one.) Outside,
# no node can save it for a `backward()`, and an edit in place or a flag raises an error. And `enable_grad` does not
# turn recording on in it, although the switch says that it is on; in `no_grad` the same line does:

# %% tags=["demonstration", "teaches:strict-blocks", "form:worked", "needs:unrecorded-blocks"]
w = torch.tensor(3.0, requires_grad=True)
for block in (torch.no_grad, torch.inference_mode):
    with block():
        features = w.detach() * 2
        with torch.enable_grad():
            product = w * 2
            print(f"{block.__name__:15} the switch: {torch.is_grad_enabled()}, recorded: {product.requires_grad}")
    try:
        (w * features).backward()
        print(f"{block.__name__:15} used in training: w.grad is {w.grad}")
    except RuntimeError as error:
        print(f"{block.__name__:15} used in training: {str(error).split('. ')[0]}")
(w * features.clone()).backward()
print("a clone, made outside, may be used again")

# %% [markdown]
# So: `inference_mode` where results only leave as numbers, `no_grad` where they may come back as inputs or targets.

# %% [markdown]
# ## Two switches that are taken for one
#
# A module has a flag of its own, `training`, which `train()` and `eval()` set in it and in all modules inside. Layers like
# `nn.Linear` and `nn.Tanh` do not care. Dropout sets elements to zero at random, in training alone. Batch norm subtracts a
# mean from each column and divides by a deviation. In training these are the batch's own, and each call moves the layer's
# *running statistics* some way towards them; in evaluation the running statistics are used and stay.
#
# Here is a model with both layers, called twice on one batch, with and without `eval()`, with and without `no_grad`. Are
# the two outputs equal, did the running mean move, and are the outputs tracked? Answer for one of the four, `no_grad`
# without `eval()`, with a list of three `True` or `False`.

# %% tags=["prediction"]
commit("other_half", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:two-switches", "form:worked", "needs:modules-and-optimizers", "needs:unrecorded-blocks"]
def called_twice(evaluation, unrecorded):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 1))
    model.train(not evaluation)
    x = torch.randn(32, 4) + 1
    with torch.set_grad_enabled(not unrecorded):
        first, second = model(x), model(x)
    moved = model[1].running_mean.abs().max().item()
    return torch.equal(first, second), moved > 0, first.requires_grad


@reveal("other_half", see="Two switches that are taken for one", answers=3)
def _():
    print(f"{'':22}equal   moved   tracked")
    for name, evaluation, unrecorded in (
        ("neither", False, False),
        ("eval()", True, False),
        ("no_grad", False, True),
        ("eval() and no_grad", True, True),
    ):
        print(f"{name:22}" + "".join(f"{answer!s:8}" for answer in called_twice(evaluation, unrecorded)))
    return list(called_twice(False, True))


# %% [markdown]
# `eval()` changes what layers do, and the outputs are as tracked as before. `no_grad` changes what is recorded, and the
# layers draw, use and move what they always do. A validation wants both. Here is your `score` from the beginning beside
# two that have one of them each:


# %% tags=["demonstration", "teaches:two-switches", "form:worked", "needs:modules-and-optimizers"]
def only_evaluates(model, batches):
    model.eval()
    return sum(F.mse_loss(model(x), y).item() for x, y in batches) / len(batches)


def only_unrecorded(model, batches):
    with torch.no_grad():
        return sum(F.mse_loss(model(x), y).item() for x, y in batches) / len(batches)


def looked_at(validate):
    """What a validation returns when it is called twice, and what it does meanwhile and leaves behind."""
    model = copy.deepcopy(some_model).train()  # whatever your score() has left
    before = copy.deepcopy(model.state_dict())
    with memory.watch() as watched:
        first, second = validate(model, some_batches), validate(model, some_batches)
    if first is None:
        return "returns nothing yet"
    same = all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    return f"{first == second!s:13}{watched.peak:<22}{same!s:18}{model.training}"


print(f"{'':18}same twice   peak of bytes saved   model as before   in training as before")
for name, validate in {"your score()": score, "eval() alone": only_evaluates, "no_grad alone": only_unrecorded}.items():
    try:
        print(f"{name:18}{looked_at(validate)}")
    except Exception as error:  # whatever your eight minutes led to
        print(f"{name:18}{type(error).__name__}: {error}")

# %% [markdown]
# ### Exercise: a validation that leaves no trace (spine, repair)
#
# This one runs, and returns what looks like a loss. Five things are wrong with it.


# %% tags=["demonstration", "needs:two-switches", "needs:recording-switch"]
def broken_evaluate(model, loss_fn, batches):
    torch.no_grad()
    model.eval()
    total = 0.0
    count = 0
    for x, y in batches:
        total += loss_fn(model(x), y)
        count += 1
    model.train()
    return total / count


print(broken_evaluate(some_model, F.mse_loss, some_batches))

# %% [markdown]
# Repair it as `evaluate(model, loss_fn, batches)`. `batches` may be an iterator, which gives its batches only once;
# `loss_fn` gives the mean over the rows of a batch, and batches differ in length. Return the mean over all rows as a
# float, with every module of the model in evaluation.
#
# No output is tracked. Afterwards, also where an error in a batch comes out of the call, recording is switched as before,
# and the model is as before, the `training` flag of every single module included: some may have been in evaluation.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `model.modules()` goes through the model and all modules inside. Which of them do you have to remember?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `try: ... finally: ...` runs its last part whatever happens. `module.training = True` sets one flag, `module.train()`
# those of all modules inside as well.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:repair", "teaches:two-switches", "teaches:recording-switch", "needs:modules-and-optimizers", "needs:micro-batches"]
def evaluate(model, loss_fn, batches):
    """The mean loss over all rows, as a float; the model and the recording are as before."""
    ### BEGIN SOLUTION
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y).item() * len(y)
                rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "evaluate_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("evaluate")

# %% [markdown]
# ## The suspect and the culprit
#
# The lesson from which this course grew warns of logs: "If you appended `loss` directly instead of `loss.detach()`, ...
# PyTorch keeps the entire computation graph alive for that step. In a long training run, this silently accumulates until
# you run out of GPU memory."
#
# A network of 64, 256, 256 and 1 units is trained on batches of 256 rows, and `history.append(loss)` stands after
# `loss.backward()`. How many KiB of saved tensors does each entry of `history` keep alive?

# %% tags=["prediction"]
commit("per_entry", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:logs-and-graphs", "form:worked", "needs:kept-for-backward", "needs:graph-memory"]
def network(*sizes):
    """Linear layers of these sizes with ReLU between them."""
    layers = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


model = network(64, 256, 256, 1)
rows, values = torch.randn(256, 64), torch.randn(256, 1)


def loss_of_a_batch():
    return F.mse_loss(model(rows), values)


def after_backward(loss):
    model.zero_grad()
    loss.backward()
    return loss


def retained(loss):
    model.zero_grad()
    loss.backward(retain_graph=True)
    return loss


ways_to_log = {
    "loss, after backward()": after_backward,
    "loss, no backward()": lambda loss: loss,
    "loss, graph retained": retained,
    "loss.detach()": torch.Tensor.detach,
    "loss.item()": torch.Tensor.item,
}


@reveal("per_entry", see="The suspect and the culprit")
def _():
    print(f"{'kept for each step':26}KiB saved   nodes")
    for name, keep in ways_to_log.items():
        kept = memory.held_by(keep(loss_of_a_batch()))
        print(f"{name:26}{kept.bytes / 1024:9.1f}   {kept.nodes:5}")
    return memory.held_by(after_backward(loss_of_a_batch())).bytes / 1024


# %% [markdown]
# The suspect is innocent of the charge, or nearly. `backward()` frees what its graph saved, and what an entry keeps after
# that are the nodes themselves, as many of them at any size of batch. The culprits stand below it. A loss on which nobody
# calls `backward()`, as in a validation without `no_grad`, keeps everything; so does one whose `backward()` was told to
# retain. Step by step, always with the same batch, so that what all the graphs share, the batch and the nodes of the
# leaves, is counted once:

# %% tags=["demonstration", "teaches:logs-and-graphs", "form:worked", "needs:graph-memory"]
memory.growth(lambda keep: keep(loss_of_a_batch()), steps=8, variants=ways_to_log)

# %% [markdown]
# ## Predict the step at which it dies
#
# A small network, 64, 128, 128 and 10 units with ReLU between, on the simulated accelerator with 16 MiB of memory in all.
# Batches of 256 rows in float32. A validation appends its losses to a list and has no `no_grad`. For each batch the graph
# keeps the two hidden layers, of 128 units each, and what the loss needs, 10 numbers a row. Already on the device before
# the first step are the parameters and the batch:

# %% tags=["demonstration", "needs:device-memory", "needs:logs-and-graphs"]
torch.manual_seed(0)
on_device = network(64, 128, 128, 10).to(device)
inputs, labels = torch.randn(256, 64, device=device), torch.randint(10, (256,), device=device)
there_before = sum(tensor.nbytes for tensor in (*on_device.parameters(), inputs, labels))
print("there before:", there_before / 1024, "KiB of", 16 * 1024)
print("one column of a batch in float32:", 256 * 4 / 1024, "KiB")

# %% [markdown]
# Take your time and work it out on paper. In which step does `torch.OutOfMemoryError` come?

# %% tags=["prediction"]
commit("last_step", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:logs-and-graphs", "form:worked", "needs:device-memory"]
def run_until(keep, steps):
    """The step at which memory ran out, with the words of the error; else None, and how many bytes came after step 10."""
    history, in_use = [], []
    with accelerator.limits(capacity=torch.sim.memory_allocated() - there_before + 16 * 2**20):
        try:
            for _ in range(steps):
                history.append(keep(F.cross_entropy(on_device(inputs), labels)))
                in_use.append(torch.sim.memory_allocated())
        except torch.OutOfMemoryError as error:
            return len(history) + 1, str(error).split(" Tried")[0]
    on_device.zero_grad()
    return None, in_use[-1] - in_use[9]


@reveal("last_step", see="Predict the step at which it dies")
def _():
    step, words = run_until(lambda loss: loss, 2000)
    print("kept, no backward():", words, "in step", step)
    per_step = 128 + 128 + 10
    print(f"by hand: ({16 * 1024} - {there_before / 1024:.0f}) / {per_step} KiB =", end=" ")
    print(f"{(16 * 1024 - there_before / 1024) / per_step:.2f} steps fit")
    return step


# %% [markdown]
# The error comes in a forward pass like all the others, which did nothing wrong. With any of the four cuts below the loop
# does not end there. The last of them has the log that the lesson suspects:


# %% tags=["demonstration", "teaches:logs-and-graphs", "form:worked", "needs:device-memory", "needs:graph-memory"]
def with_backward(loss):
    on_device.zero_grad()
    loss.backward()
    return loss


for name, keep, block in (
    ("loss.item()", torch.Tensor.item, contextlib.nullcontext),
    ("loss.detach()", torch.Tensor.detach, contextlib.nullcontext),
    ("loss, in no_grad", lambda loss: loss, torch.no_grad),
    ("loss, after backward()", with_backward, contextlib.nullcontext),
):
    with block():
        ended, more = run_until(keep, 300)
    print(f"{name:24} out of memory: {ended}   after 300 steps {more:5} bytes more than after 10")

# %% [markdown]
# Where no byte comes, the device never fills. Where a tensor of one number comes with each step, four bytes, the log
# itself would fill it in the end, after millions of steps here. `item()` is still the best habit for a log: a number has
# no graph to keep and takes nothing on the device, and a plot or a file takes it as it is. It waits for the device, which
# the unit on moving between devices counts.
#
# The line for logs in the lesson from which this course grew is `loss.detach().cpu().numpy()`. It keeps no graph either, and
# what it appends is an array without dimensions:

# %% tags=["demonstration", "teaches:logs-and-graphs", "needs:ways-out"]
loss = loss_of_a_batch()
for entry in (loss.detach().cpu().numpy(), loss.item()):
    try:
        json.dumps([entry])
        print(type(entry).__name__, "in a file: as it is")
    except TypeError as error:
        print(type(entry).__name__, "in a file:", error)

# %% [markdown]
# Some leaks need no list, and where the operations behind them save no tensor, they have hardly any bytes. A sum or an
# average that is computed from tracked tensors gets a longer past with every step:

# %% tags=["demonstration", "teaches:endless-averages", "form:worked", "needs:logs-and-graphs"]
w = torch.tensor(1.0, requires_grad=True)
average = 0.0
for step in range(1, 51):
    average = 0.9 * average + 0.1 * w
    if step in (1, 2, 3, 50):
        print(f"step {step:2}: {memory.held_by(average).nodes:3} nodes, {memory.held_by(average).bytes} bytes saved")

average = 0.0
with torch.no_grad():
    for _ in range(50):
        average = 0.9 * average + 0.1 * w
print("the same in no_grad:", memory.held_by(average).nodes, "nodes")

# %% [markdown]
# ### Exercise: eight logs (spine, review)
#
# Eight loops over batches, each of which keeps something. Their updates are left out.

# %% tags=["demonstration", "needs:logs-and-graphs", "needs:endless-averages", "needs:modules-and-optimizers"]
for name, log in cases.logs.items():
    print(name, inspect.getsource(log), sep=": ")

# %% [markdown]
# `what_grows(log)` gets a letter from `"A"` to `"H"`. While the loop runs, what do graphs hold more of with every further
# step? Return
#
# - `"tensors"` if the tensors that graphs have saved become more with every step,
# - `"nodes"` if only nodes do,
# - `"nothing"` if neither does.
#
# The model is a small network with tracked weights, the number of batches any. You may read, and you may run:
# `cases.logs["A"](model, batches)`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two questions for each: has `backward()` run on what is kept, and did it free? Does what is kept have a `grad_fn`?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A graph that nobody holds is gone, whatever was said to its `backward()`. And it does not matter what the last line
# returns, if the loop holds it until then.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "what_grows", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:review", "teaches:logs-and-graphs", "teaches:endless-averages", "needs:modules-and-optimizers"]
def what_grows(log):
    """What graphs hold more of with every step: "tensors", "nodes" or "nothing"."""
    ### BEGIN SOLUTION
    verdicts = {
        "A": "nodes",
        "B": "tensors",
        "C": "nothing",
        "D": "tensors",
        "E": "nothing",
        "F": "tensors",
        "G": "nodes",
        "H": "nothing",
    }
    return verdicts[log]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "what_grows_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("what_grows")

# %% [markdown]
# ## Cut in the right place
#
# A cut decides who learns. This loss has an error term and a term that keeps the weight small; somebody has put the
# `detach()` on the prediction instead of on the target:
#
# - `prediction = w * x`
# - `loss = (prediction.detach() - y) ** 2 + 0.01 * w**2`
#
# At `w = 1`, `x = 2`, `y = 10`: what is `w.grad` after `loss.backward()`?

# %% tags=["prediction"]
commit("regulariser", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:where-to-cut", "form:worked", "needs:ways-out", "needs:dead-ends"]
@reveal("regulariser", see="Cut in the right place")
def _():
    w, x, y = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0), torch.tensor(10.0)
    losses = {
        "prediction cut": (w * x).detach() - y,
        "read by item()": (w * x).item() - y,
        "target cut": w * x - y.detach(),
    }
    for name, error in losses.items():
        w.grad = None
        loss = error**2 + 0.01 * w**2
        loss.backward()
        print(f"{name:15} loss {loss.item():.2f}   w.grad {w.grad.item():.2f}")
        if name == "prediction cut":
            answer = w.grad.item()
    return answer


# %% [markdown]
# The three losses are the same number, and no line raises an error. In two of them the weight learns to be small and
# nothing about the data. Which terms of a loss still have a `grad_fn` is the question to ask, and the graph answers it:

# %% tags=["demonstration", "teaches:where-to-cut", "form:worked", "needs:ways-out"]
w, x, y = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0), torch.tensor(10.0)
graph.compare((w * x - y) ** 2, ((w * x).detach() - y) ** 2, names={"w": w, "x": x}, titles=("whole", "cut"))

# %% [markdown]
# A case in which the cut is wanted: a model, called *online*, learns to foretell what it will say one step later plus a
# reward, as in learning from rewards. `wanted = reward + gamma * target(following)` is computed by a second model, the
# *target*, and has to stand still: the prediction moves towards what is wanted, never the other way round. With one
# parameter for both sides the difference shows in a line:

# %% tags=["demonstration", "teaches:where-to-cut", "form:worked", "needs:ways-out", "needs:unrecorded-blocks"]
w = torch.tensor(1.0, requires_grad=True)
x, following, reward = torch.tensor(1.0), torch.tensor(2.0), 0.5
whole = (w * x - (reward + 0.9 * w * following)) ** 2
with torch.no_grad():
    wanted = reward + 0.9 * w * following
towards = (w * x - wanted) ** 2
print("both sides may move:   ", torch.autograd.grad(whole, w)[0].item())
print("the prediction alone:  ", torch.autograd.grad(towards, w)[0].item())

# %% [markdown]
# Here the two point in opposite directions. The target is no copy, either: it *follows*, each of its weights moved by a small
# share of the way towards the other model's. That is an average over time, so it belongs in a block that records nothing,
# and it has to be an edit in place, or the name moves and the weight does not:

# %% tags=["demonstration", "teaches:following", "form:worked", "needs:unrecorded-blocks", "needs:edit-or-rebind"]
fast, slow = nn.Linear(2, 1), nn.Linear(2, 1)
before = slow.weight.detach().clone()
with torch.no_grad():
    for to, weight in zip(slow.parameters(), fast.parameters()):
        to = to + 0.1 * (weight - to)
print("rebound:  moved", not torch.equal(slow.weight, before))
with torch.no_grad():
    for to, weight in zip(slow.parameters(), fast.parameters()):
        to += 0.1 * (weight - to)
print("in place: moved", not torch.equal(slow.weight, before), "and a leaf", slow.weight.is_leaf)

# %% [markdown]
# ### Exercise: one step towards a target (depth, repair)
#
# With two models of tracked weights this step runs, and neither of them ever moves.


# %% tags=["demonstration", "needs:where-to-cut", "needs:following", "needs:zero-grad"]
def broken_bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x).detach(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow = slow + share * (fast - slow)
    return loss.item()


# %% [markdown]
# Repair it as `bootstrap_step(online, target, optimizer, batch, gamma, share)`. `batch` is `(x, reward, following)`; the
# loss is the mean squared error between `online(x)` and `reward + gamma * target(following)`, and its gradient goes
# through the prediction alone. Leftover gradients do not count. The optimizer owns the online weights and makes one step.
#
# *After* it, every weight of the target moves by `share` of its way to the online weight: in place, and without a history.
# No gradient reaches the target. `target` may be frozen, and it may be `online` itself.
#
# Return the loss as a float.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are two faults and a risk: which side of the loss is cut, which name is moved, and whose `.grad` is filled?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The forward pass of the target needs no history at all. `slow += ...` edits the weight that the model owns.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "bootstrap_step", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:where-to-cut", "teaches:following", "needs:zero-grad"]
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    """The loss before the step, as a float; the online weights have made a step, and the target has followed."""
    ### BEGIN SOLUTION
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "bootstrap_step_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("bootstrap_step")

# %% [markdown]
# What follows goes deeper into two cuts that are tools, and then builds three things to keep: a
# switch, a leak detector, and a detector for loops that are wrong without an error.

# %% [markdown]
# ## The rope between chunks
#
# Depth. A recurrent layer such as `nn.RNNCell` takes an input and a *state* and returns the next state, `h = cell(x, h)`.
# A long sequence goes through it in chunks, and the state at the end of one chunk is the beginning of the next. A state
# is a result, so it has a past. What happens if the loop carries it on as it is?

# %% tags=["demonstration", "teaches:cut-states", "form:worked", "needs:modules-and-optimizers", "needs:running-total"]
torch.manual_seed(0)
cell = nn.RNNCell(1, 4)
sequence = torch.randn(12, 1, 1)


def loss_by_chunks(carry, size=4):
    """The gradient of the first weight, and the nodes behind the last state."""
    cell.zero_grad()
    h = torch.zeros(1, 4)
    for chunk in sequence.split(size):
        for x in chunk:
            h = cell(x, h)
        nodes = memory.held_by(h).nodes
        (h**2).sum().backward()
        h = carry(h)
    return cell.weight_hh.grad[0, 0].item(), nodes


try:
    loss_by_chunks(lambda h: h)
except RuntimeError as error:
    print("carried as it is:", str(error).split(" (")[0])
print("its value alone: ", loss_by_chunks(torch.Tensor.detach))

# %% [markdown]
# The second `backward()` walked on into the first chunk, whose saved tensors were gone. Pages that answer this error
# often recommend `retain_graph=True`, which makes it disappear here: the later chunks then go back to the very beginning,
# the gradient is another one, and the graph grows. With an optimizer's step after each chunk another error takes its
# place, for the step edits weights that the chunks before have saved. `h.detach()` keeps the value and cuts the rope. It
# is a decision about the model, too: no gradient crosses a cut, so the loss of a chunk teaches nothing to the chunks
# before it.

# %% [markdown]
# ### Exercise: chunk by chunk (depth, complete)
#
# `truncated(cell, head, h, inputs, targets, size)` gets an `nn.RNNCell`, a module `head` that makes an output of a state,
# and a first state `h`, which may have a past of its own. `inputs` and `targets` are lists with one tensor for each step,
# of shapes (rows, features) and (rows, outputs).
#
# The steps are taken in chunks of `size`, the last of which may be shorter. The loss is the mean over all steps of
# `F.mse_loss(head(state), target)`. Leave its gradient in the parameters of `cell` and `head`, as it is when no gradient
# crosses from a chunk into the one before, nor into the past of `h`. Values cross: the states are those of one long run.
# There is never more than one chunk's graph in memory. Leftover gradients do not count.
#
# Return the loss as a float and the last state, without a history. The frame is given.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Cut at the beginning of a chunk rather than at its end. Why does that matter for the first one?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Add up the errors of a chunk's steps, each divided by the number of all steps, and call `backward()` once for each
# chunk. `steps[start : start + size]` ends where the list ends.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "truncated", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:cut-states", "needs:micro-batches", "needs:zero-grad"]
def truncated(cell, head, h, inputs, targets, size):
    """The loss over all steps as a float, and the last state; the gradients of the chunks are in the parameters."""
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        ### BEGIN SOLUTION
        h = h.detach()
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
        ### END SOLUTION
    return total, h.detach()


# %% nbgrader={"grade": true, "grade_id": "truncated_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("truncated")

# %% [markdown]
# ## A useful lie
#
# Depth. Rounding has the slope 0, in torch at every number, so what stands in front of it gets a gradient of zeros. One
# line lets the value be rounded and the gradient pass as if it were not:
#
# `y = x + (x.round() - x).detach()`
#
# At `x = 2.7`: what is `y`, and what is the gradient of `y` in `x`? Answer with a list of two.

# %% tags=["prediction"]
commit("straight", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:straight-through", "form:worked", "needs:ways-out", "needs:dead-ends"]
def value_and_slope(function, at):
    x = torch.tensor(at, requires_grad=True)
    y = function(x)
    slope = torch.autograd.grad(y, x)[0].item() if y.requires_grad else None
    return y.item(), slope


@reveal("straight", see="A useful lie", answers=2)
def _():
    ways = {
        "x.round()": torch.Tensor.round,
        "x.round().detach()": lambda x: x.round().detach(),
        "x.detach() + (x.round() - x)": lambda x: x.detach() + (x.round() - x),
        "x + (x.round() - x).detach()": lambda x: x + (x.round() - x).detach(),
    }
    for line, function in ways.items():
        print(f"{line:30}", *value_and_slope(function, 2.7))
    return list(value_and_slope(ways["x + (x.round() - x).detach()"], 2.7))


# %% [markdown]
# Forward, the two `x` cancel and the rounded value remains. Backward, the bracket is a constant, and `x` has the slope 1.
# With the `detach()` on the other term the value is the same and the slope has the wrong sign. So `detach()` is a tool
# as well: it says which term of a sum gives the value and which the gradient. The method has a name, *straight-through*.
#
# `clamp(low, high)` limits a tensor. Its slope is 1 inside and 0 outside, and in torch 1 at the two ends:

# %% tags=["demonstration", "teaches:straight-through", "form:worked", "needs:first-gradient"]
x = torch.tensor([-2.0, -1.0, 0.3, 1.0, 1.2], requires_grad=True)
x.clamp(-1, 1).sum().backward()
print(x.clamp(-1, 1).tolist())
print(x.grad.tolist())

# %% [markdown]
# ### Exercise: whole numbers that can learn (depth, repair)
#
# Weights are to be whole numbers from `low` to `high`, as on a small chip. This rounds, and nothing in front of it learns.


# %% tags=["demonstration", "needs:straight-through"]
def broken_quantize(x, low, high):
    return x.round().clamp(low, high)


x = torch.tensor([0.4, 1.6, 7.0], requires_grad=True)
broken_quantize(x, -3, 3).sum().backward()
print(broken_quantize(x, -3, 3).tolist(), x.grad.tolist())

# %% [markdown]
# Repair it as `quantize(x, low, high)`. `x` is a float tensor of any shape, tracked, a leaf or a result; `low` and `high`
# are whole numbers. Return the tensor of the nearest whole numbers within the range. Its gradient is handed through to
# `x` where `low <= x <= high`, and is 0 where `x` lies outside, however little.
#
# A second derivative can be taken through the result. `x` stays as it is, and the result shares no memory with it.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which of the two, rounding and limiting, has the right slope already? Let that one be recorded.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The order matters for a value just outside the range. Limit first, then lie.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "quantize", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:straight-through", "needs:ways-out"]
def quantize(x, low, high):
    """The nearest whole numbers from low to high, with the gradient of the limited values."""
    ### BEGIN SOLUTION
    limited = x.clamp(low, high)
    return limited + (limited.round() - limited).detach()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "quantize_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("quantize")

# %% [markdown]
# ## A switch that sleeps
#
# Workshop. A generator function stops at each `yield` and goes on when the next value is asked for. This one computes
# predictions without a graph, or so it was meant:
#
# ```python
# def predictions(data):
#     with torch.no_grad():
#         for x in data:
#             yield x * 2
# ```
#
# A training loop makes `waiting = predictions(data)`, asks it for one value, `next(waiting)`, and goes on training while
# the generator waits. Is a product of tracked tensors recorded in the training loop now? Answer with `True` or `False`.

# %% tags=["prediction"]
commit("asleep", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:recording-switch", "form:worked", "needs:unrecorded-blocks"]
def yields_inside(data):
    with torch.no_grad():
        for x in data:
            yield x * 2


def yields_outside(data):
    for x in data:
        with torch.no_grad():
            prediction = x * 2
        yield prediction


@torch.no_grad()
def decorated(data):
    for x in data:
        yield x * 2


@reveal("asleep", see="A switch that sleeps")
def _():
    found = {}
    for predictions in (yields_inside, yields_outside, decorated):
        waiting = predictions([torch.ones(2), torch.ones(2)])
        next(waiting)
        found[predictions.__name__] = tracked()
        waiting.close()
    for name, recorded in found.items():
        print(f"{name:15} recorded while it waits: {recorded}")
    return found["yields_inside"]


# %% [markdown]
# A `yield` does not leave the block, so the switch stays off for its caller too, until the generator has run to the end of
# the block or is closed. (A generator that no name holds is closed at once, which is why `next(predictions(data))` seems
# harmless.) Compute inside, yield outside. As a decorator of a generator function `no_grad` does just that: it turns the
# switch off for each piece between two yields.
#
# And the switch belongs to a thread. A new thread begins with recording on, whatever holds where it was started:

# %% tags=["demonstration", "teaches:recording-switch", "form:worked", "needs:unrecorded-blocks"]
notes = []
with torch.no_grad():
    worker = threading.Thread(target=lambda: notes.append(tracked()))
    worker.start()
    worker.join()
    print("recorded here:", tracked(), "  in the thread started here:", notes[0])

# %% [markdown]
# How is such a thing built? `with thing:` calls `thing.__enter__()` at the beginning and `thing.__exit__(type, error,
# traceback)` at the end, also when an error leaves the block; then `__exit__` is told of it, and the error goes on unless
# `__exit__` returns something true. `@thing` above a function calls `thing(function)` and puts what that returns in its
# place. Here is a counter that is confused neither by errors nor by blocks within blocks:


# %% tags=["demonstration", "teaches:recording-switch", "form:worked"]
class Counting:
    """Counts how deep we are in its blocks, and prints it."""

    def __init__(self):
        self.depths = [0]

    def __enter__(self):
        self.depths.append(self.depths[-1] + 1)
        print("in:", self.depths[-1])

    def __exit__(self, kind, error, traceback):
        print("out:", self.depths.pop(), kind and kind.__name__)

    def __call__(self, function):
        @functools.wraps(function)  # the name and the docstring of the function
        def counted(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return counted


counting = Counting()


@counting
def half(x):
    """Half of it."""
    with counting:
        return x / 2


print(half(3), half.__name__, inspect.isgeneratorfunction(half), inspect.isgeneratorfunction(decorated))

# %% [markdown]
# ### Exercise: a quiet of your own (workshop, write)
#
# Write `quiet`, a `no_grad` of your own, out of `torch.is_grad_enabled()` and `torch.set_grad_enabled(...)`; `no_grad` and
# `inference_mode` are not at hand here.
#
# - `with quiet():` records nothing. At its end, also by an error, which comes out, recording is as it was before: off, if
#   it was off. One object may be entered again, also inside itself, and `enable_grad` may stand between.
# - `@quiet()` above a function has it run unrecorded, with all its arguments, its result and its name.
# - `@quiet()` above a generator function has the pieces between its yields run unrecorded, and its caller recorded
#   meanwhile, also when the caller stops asking. It keeps its name. Values go out of it only; nothing is sent in.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What does an object have to remember that is entered twice before it is left once? `Counting` has a list.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A wrapper for a generator function is a generator function: it asks for the next value inside the block, and yields it
# outside. `next(steps)` raises `StopIteration` at the end; `next(steps, end)` returns `end` instead.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "quiet", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:write", "teaches:recording-switch", "needs:unrecorded-blocks"]
class quiet:
    """Turns recording off: for a block, for the calls of a function, or for the pieces of a generator."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.before = []
        ### END SOLUTION

    def __enter__(self):
        ### BEGIN SOLUTION
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)
        ### END SOLUTION

    def __exit__(self, kind, error, traceback):
        ### BEGIN SOLUTION
        torch.set_grad_enabled(self.before.pop())
        ### END SOLUTION

    def __call__(self, function):
        ### BEGIN SOLUTION
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "quiet_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("quiet")

# %% [markdown]
# ## Hunting a leak
#
# Workshop. Memory that is used is no leak: a model is large, a window over the last losses fills up once, a list is
# emptied now and then. The leak to look for here is what grows with *every* step, for as long as you look. So look often,
# and pass over the beginning:

# %% tags=["demonstration", "teaches:leak-hunting", "form:worked", "needs:logs-and-graphs", "needs:endless-averages"]
state = {"window": [], "average": torch.zeros(256, 64), "numbers": []}
course = {name: [] for name in state}
for _ in range(8):
    loss = loss_of_a_batch()
    state["window"] = [*state["window"], loss][-3:]
    state["average"] = 0.9 * state["average"] + 0.1 * model[0].weight
    state["numbers"].append(loss.item())
    for name, value in state.items():
        kept = memory.held_by(value)
        course[name].append((kept.bytes, kept.nodes))
for name, counts in course.items():
    print(f"{name:8}", *(f"{kept:>8}/{nodes}" for kept, nodes in counts))

# %% [markdown]
# Bytes saved, and nodes. `window` grows in the first three steps and stays: no leak. `average` saves nothing and gets three
# nodes more at each step: a leak. A comparison of the first step with the last would blame both. One of bytes alone would
# blame the window and miss the average.

# %% [markdown]
# ### Exercise: a leak detector (workshop, complete)
#
# `find_leak(step, state, steps)` looks into a loop. `state` is a dict by name of what the loop keeps: numbers, strings,
# tensors, and lists, tuples and dicts of them. `step(state)` makes one step of the loop and may change, replace and add entries.
# `steps` is an even number, 8 at least.
#
# Call `step(state)` that many times. An entry *leaks* if what its graphs hold is more after each step of the second half
# than it was one step before. Return a dict by name of the entries that leak: `"tensors"` where the bytes of saved tensors
# grow like that, `"nodes"` where only the nodes do. A healthy loop gives `{}`.
#
# The detector keeps nothing of the loop's: what the loop drops is gone. Nor does it touch any gradient. `memory.held_by`
# is at hand, and the run is given.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What `memory.held_by` returns keeps nothing alive; it has `.bytes` and `.nodes`. An entry that does not exist yet holds
# nothing.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `all(a < b for a, b in itertools.pairwise(counts))` says whether a list of counts grows throughout. Where does the part of
# the list begin that counts?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "find_leak", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:complete", "teaches:leak-hunting", "needs:logs-and-graphs"]
def find_leak(step, state, steps):
    """The entries of the state that grow with every step, each with what grows: "tensors" or "nodes"."""
    notes = []
    for _ in range(steps):
        step(state)
        ### BEGIN SOLUTION
        notes.append({name: memory.held_by(value) for name, value in state.items()})
    leaks, nothing = {}, memory.held_by([])
    for name in state:
        late = [note.get(name, nothing) for note in notes[steps // 2 - 1 :]]
        if all(before.bytes < after.bytes for before, after in itertools.pairwise(late)):
            leaks[name] = "tensors"
        elif all(before.nodes < after.nodes for before, after in itertools.pairwise(late)):
            leaks[name] = "nodes"
    return leaks
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "find_leak_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("find_leak")

# %% [markdown]
# ## Loops that are wrong without a word
#
# Workshop. Twelve training loops. Each of them claims the same: for every batch, in order, one forward pass in training
# and one update by the optimizer with the gradient of this batch's loss alone; the losses from before the updates come
# back as floats; and apart from weights, running statistics, gradients and the optimizer's own memory nothing is changed,
# neither a flag nor a switch. Five keep their word.

# %% tags=["demonstration", "needs:where-to-cut", "needs:two-switches", "needs:zero-grad"]
for name, loop in cases.loops.items():
    print(name, inspect.getsource(loop), sep=": ")

# %% [markdown]
# Does a falling loss tell them apart? Of the seven that break their word, how many report a last loss below their first
# on the problem below? Answer with a number.

# %% tags=["prediction"]
commit("falling", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:probing-loops", "form:worked", "needs:modules-and-optimizers"]
def on_a_problem(train, steps=10):
    """The first and the last loss of a loop that fits a line, with some noise in it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    x = torch.randn(64, 2)
    y = x @ torch.tensor([[1.0], [-2.0]]) + 0.1 * torch.randn(64, 1)
    with torch.enable_grad():  # whatever the loop leaves, it is put back here
        losses = train(model, optimizer, F.mse_loss, [(x, y)] * steps)
    return losses[0], losses[-1]


WRONG = "ACEGIKL"


@reveal("falling", see="Loops that are wrong without a word")
def _():
    for name, train in cases.loops.items():
        first, last = on_a_problem(train)
        print(name, f"{first:.3f} -> {last:.3f}", "falls" if last < first else "does not fall")
    falls = [last < first for first, last in (on_a_problem(cases.loops[name]) for name in WRONG)]
    return sum(falls)


# %% [markdown]
# A loss that falls is no evidence, and here one of the wrong loops even ends below the right ones. What a loop leaves
# behind is evidence: run it for a few steps beside one that is known to be right, from the same beginning, and compare
# everything, number by number. Two of the twelve are judged like that here:


# %% tags=["setup"]
def plain(model, optimizer, loss_fn, batches):
    """A training loop that does what it should, in the simplest order."""
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def beginning(remembers, has_statistics):
    """A model in training, an optimizer and three batches, the same ones every time.

    remembers: whether the optimizer has momentum; has_statistics: whether there is a layer with running statistics
    """
    torch.manual_seed(0)
    statistics = [nn.BatchNorm1d(4)] if has_statistics else []
    model = nn.Sequential(nn.Linear(3, 4), *statistics, nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9 if remembers else 0.0)
    batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
    return model, optimizer, batches


# %% tags=["demonstration", "teaches:probing-loops", "form:worked", "needs:modules-and-optimizers"]
def bias_after(train):
    model, optimizer, batches = beginning(remembers=False, has_statistics=False)
    train(model, optimizer, F.mse_loss, batches)
    return model[-1].bias.tolist()


print("plain: ", bias_after(plain))
print("loop A:", bias_after(cases.loops["A"]))
print("loop G:", bias_after(cases.loops["G"]))

# %% [markdown]
# Loop A is caught. Loop G is as wrong and comes out equal, because this probe is too tame: with plain SGD there is nothing
# to forget. A probe finds what it gives a chance to show: an optimizer with a memory, layers that mind their flags,
# several different batches.

# %% [markdown]
# ### Exercise: a detector of silent bugs (workshop, review)
#
# This probe passes every loop whose loss falls.


# %% tags=["demonstration", "needs:probing-loops"]
def broken_suspicious(train):
    first, last = on_a_problem(train)
    return not last < first


# %% [markdown]
# Write `suspicious(train)`: `True` if `train(model, optimizer, loss_fn, batches)` breaks the claim above, `False` if it
# keeps it. It takes any `nn` model in training mode, an optimizer of `torch.optim` such as SGD or Adam, and any list of
# batches; `beginning` and `plain` are at hand, or build your own. The twelve are there to try; you are graded on loops of
# their kinds, other ones among them, and some of them are right.
#
# Some loops leave a switch as it should not be. After your call, recording is on.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Five questions: the weights, everything else in `model.state_dict()`, the losses, the flags of the modules, the switch.
# Which of the seven wrong loops does each of them catch?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Two runs from the same beginning: one function that calls `beginning`, runs a loop and returns what it left, in lists
# that `!=` can compare. `with torch.enable_grad():` puts the switch back for you, and `torch.is_grad_enabled()` inside it
# tells how the loop left it.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "suspicious", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:review", "teaches:probing-loops", "needs:two-switches", "needs:recording-switch", "needs:zero-grad"]
def suspicious(train):
    """Whether a training loop breaks its word."""

    ### BEGIN SOLUTION
    def left_by(loop):
        model, optimizer, batches = beginning(remembers=True, has_statistics=True)
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
            recorded = torch.is_grad_enabled()
        flags = [module.training for module in model.modules()]
        tensors = [tensor.tolist() for tensor in model.state_dict().values()]
        return [losses, recorded, flags, tensors]

    return left_by(train) != left_by(plain)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "suspicious_tests", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("suspicious")

# %% [markdown]
# ## To keep
#
# Three things of yours for later: `evaluate` for every validation, `find_leak` for a loop whose memory grows, `suspicious`
# for a loop that you did not write. And a small one: the bytes that are kept for a `backward()` because of a call, where
# perhaps nobody asked for them.


# %% tags=["demonstration", "needs:logs-and-graphs"]
def recorded_bytes(function, *args):
    """The bytes that graphs hold because of a call, while its result is alive, and what the call returned."""
    with memory.watch() as watched:
        result = function(*args)
        return watched.now, result


print("a forward pass:          ", recorded_bytes(model, rows)[0])
with torch.no_grad():
    print("the same in no_grad:     ", recorded_bytes(model, rows)[0])
print("in evaluation alone:     ", recorded_bytes(model.eval(), rows)[0])

# %% [markdown]
# ## Where this bites in practice
#
# - [SLANTbrainSeg, pull request 17](https://github.com/MASILab/SLANTbrainSeg/pull/17) and
#   [U-2-Net, pull request 112](https://github.com/xuebinqin/U-2-Net/pull/112): `no_grad` where there was none, and far less
#   memory.
# - [PyTorch's own questions and answers](https://docs.pytorch.org/docs/stable/notes/faq.html): a sum of losses that
#   accumulates history across a training loop, first on its list of reasons for running out of memory.
# - [pytorch, pull request 49017](https://github.com/pytorch/pytorch/pull/49017): a generator that is paused inside
#   `no_grad` leaves recording off for its caller.
#   [Pull request 31792](https://github.com/pytorch/pytorch/pull/31792) had taught the decorator to do better.
# - [pytorch, issue 25814](https://github.com/pytorch/pytorch/issues/25814): `detach_()` on a gradient that happened to be
#   a view.
# - [pytorch/examples, pull request 119](https://github.com/pytorch/examples/pull/119): training and evaluation mode in a
#   loop with two models, and whose statistics are to move.
# - [discuss.pytorch.org 6795](https://discuss.pytorch.org/t/6795): "trying to backward through the graph a second time",
#   and what `retain_graph=True` hides.

# %% [markdown]
# ## In five sentences
#
# 1. `detach()` cuts the history and keeps the memory, `clone()` the reverse, and `item()` leaves both behind.
# 2. `no_grad` records no operation in its block and changes nothing else, `eval()` changes layers and records as ever, and a
#    validation needs both and puts both back.
# 3. What fills a memory is a kept loss on which `backward()` never ran or was told to retain; after an ordinary
#    `backward()` only nodes are left.
# 4. A cut decides who learns: cut the target and the state between chunks, never the prediction, and use the cut as a
#    tool where the value should come from one term and the gradient from another.
# 5. Loops that are wrong without an error are found by what they leave after a few steps beside a loop that is right.
