# %% [markdown]
# # 7 The training loop
#
# Everything from the units before meets in some twenty lines: data, devices, gradients that add up, values that Python
# waits for, graphs that somebody keeps. Each of these lines is easy. That all of them are right together shows nowhere
# by itself, and this unit is about making it show.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before most
# results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain). A wrong guess costs
# nothing. Of a section that you pass over, run the cells all the same: later ones use what they define.

# %% tags=["setup"]
import copy
import difflib
import inspect
import pathlib

import numpy
import torch
from autogradlab import accelerator, check, commit, counters, figures, memory, reveal, unit
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

cases = unit("07_training_loop")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up
device = accelerator.register()

# %% [markdown]
# ## Warm-up: four questions
#
# A look back at the units before. The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.
# Then read the program that it prints, and work it out on paper.

# %% tags=["demonstration", "needs:running-total", "needs:zero-grad", "needs:unrecorded-blocks"]
print(cases.warm_up(7))

# %% [markdown]
# When the program has run: what is `total`, is `score` tracked, is `score` a leaf, and what is `w`? Answer with a list
# of four, for example `[12.5, True, False, 3]`, and give your number as the variant.

# %% tags=["prediction"]
commit("look_back", answer=None, confidence=None, variant=None, answers=4)


# %% tags=["demonstration", "needs:running-total", "needs:skipped-parameters", "needs:leaves-and-results"]
@reveal("look_back", see="One honest loop", answers=4)
def _(variant):
    names = {}
    exec(cases.warm_up(variant), names)
    w, score = names["w"], names["score"]
    print("Two backward passes add up. score was computed unrecorded, so that it is a leaf and not tracked.")
    print("zero_grad() left no gradient, so that step() passed over w.")
    return [names["total"], score.requires_grad, score.is_leaf, w.item()]


# %% [markdown]
# ## Small images of digits
#
# The data are 1,797 digits that people wrote by hand, as images of 8 by 8 grey values from 0 to 16. They come with
# scikit-learn (`load_digits`) and are part of E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*,
# UCI Machine Learning Repository, 1998, under CC BY 4.0. The file beside this notebook has one image in each row, and
# its label in the last column.

# %% tags=["setup"]
table = torch.from_numpy(numpy.load(pathlib.Path(cases.__file__).with_name("digits.npy")))
table = table[torch.from_numpy(numpy.random.RandomState(0).permutation(len(table)))]
pixels, digits = table[:, :64].float() / 16, table[:, 64].long()
training = len(table) * 4 // 5
train, held_out = (pixels[:training], digits[:training]), (pixels[training:], digits[training:])

# %% tags=["demonstration", "needs:inferred-dtype"]
for name, (x, y) in {"train": train, "held out": held_out}.items():
    print(f"{name:9} x {tuple(x.shape)} {x.dtype}   y {tuple(y.shape)} {y.dtype}")
image, label = table[0, :64].view(8, 8), table[0, 64].item()
print(f"the first image, a {label}:")
for line in image.tolist():
    print(" ".join(f"{value:2}" for value in line))

# %% [markdown]
# A fifth of the rows is held out: no gradient ever comes from them, and they say how well the model reads digits that
# it has not learned. The order was drawn once, from a fixed seed, before the cut.

# %% [markdown]
# ## One honest loop
#
# This is the whole of it. Read it once, from top to bottom, and ask of each line which unit it comes from.

# %% tags=["demonstration", "teaches:loop-anatomy", "form:worked", "needs:modules-and-optimizers", "needs:micro-batches"]
print(cases.HONEST)


# %% [markdown]
# The model is small: 64 pixels, 32 hidden units, 10 classes, and dropout between, which leaves out some hidden units at
# random while the model trains. `make_optimizer` builds an SGD with momentum for the parameters that it is given.
# (Momentum keeps a *velocity* for each parameter, a fading sum of its gradients so far, and moves the parameter
# against it.) A batch has 64 rows and goes through in parts of 24.


# %% tags=["setup"]
def network(dropout=0.3, seed=0):
    """A network for the digits, the same for the same seed."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 10))


def make_optimizer(parameters):
    """SGD with momentum, as all loops of this unit use it."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def share_read(model):
    """How many of the held-out digits the model reads, in percent."""
    model.eval()
    with torch.no_grad():
        right = model(held_out[0]).argmax(dim=1) == held_out[1]
    return 100 * right.float().mean().item()


# %% tags=["demonstration", "teaches:loop-anatomy", "form:worked", "needs:modules-and-optimizers", "needs:two-switches"]
settings = {"epochs": 15, "size": 64, "part": 24, "max_norm": 2.0, "seed": 0}
model = network()
losses, scores = cases.loops["F"](model, make_optimizer, F.cross_entropy, train, held_out, **settings)
figure, axes = figures.axes(1, 2, x="epoch", y="", size=(9, 3.2))
axes[0].plot(range(1, 16), losses)
axes[0].set_ylabel("mean loss")
axes[1].plot(range(1, 16), [100 * score for score in scores])
axes[1].set_ylabel("held-out digits read, %")
figures.show(figure, alt="The loss falls fast and then slowly; the share of digits read rises above nine in ten.")
print(f"read at the end: {share_read(model):.1f} %")

# %% [markdown]
# Three clocks run in it. Once: the optimizer is built, because it holds on to these parameters and remembers their
# velocity. Once an epoch: a new order of rows, `train()` before the updates and `eval()` before the score, and two
# values that Python waits for. Once an update: clear, add up the parts, clip, step.

# %% [markdown]
# ## Counting a loop
#
# PyTorch tells who asks: functions that you leave with it, called *hooks*, run after a model was called, after a
# gradient has arrived, and after an optimizer has stepped. Here are 150 rows, in batches of 64 and parts of 24, for two
# epochs.


# %% tags=["demonstration", "teaches:loop-anatomy", "form:worked", "needs:host-waits", "needs:micro-batches"]
def counts_of(loop, rows, **settings):
    """How often the loop does what it does, over all epochs."""
    seen = dict.fromkeys(["steps", "backward passes", "calls", "calls that are recorded"], 0)
    model, optimizers = network(), []

    def called(module, inputs, output):
        seen["calls"] += 1
        seen["calls that are recorded"] += output.requires_grad

    def arrived(parameter):
        seen["backward passes"] += 1

    def stepped(optimizer, args, kwargs):
        seen["steps"] += 1

    def watched_optimizer(parameters):
        optimizers.append(make_optimizer(parameters))
        optimizers[-1].register_step_post_hook(stepped)
        return optimizers[-1]

    model.register_forward_hook(called)
    model[0].weight.register_post_accumulate_grad_hook(arrived)
    some = tuple(tensor[:rows] for tensor in train)
    with counters.count() as counted:
        loop(model, watched_optimizer, F.cross_entropy, some, held_out, max_norm=2.0, seed=0, **settings)
    return seen | {"waits": counted.syncs}


for what, count in counts_of(cases.loops["F"], rows=150, epochs=2, size=64, part=24).items():
    print(f"{what:24} {count}")

# %% [markdown]
# Batches of 64, 64 and 22 rows are three steps an epoch. Their parts, three, three and one, are seven backward passes.
# The held-out rows are one more call, which nothing records. And in the last batch each row counts one over 22,
# whatever parts it was cut into.

# %% [markdown]
# ### Exercise: count a loop (depth, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell.

# %% tags=["demonstration", "needs:loop-anatomy"]
print(cases.loop_count.script(7))

# %% [markdown]
# Work the six numbers out on paper. All of them are whole numbers. In the answer cell, return your number and the list,
# as in `return 7, [12, 40, 15, 8, 44, 40]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down how many rows each batch of one epoch has, and below each batch how many rows its parts have. The last
# batch takes what is left.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Go through the loop with a pencil and mark the lines that make Python wait: `.item()`, and nothing else here. How deep
# in the loop do they stand?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "loop_count", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:predict", "teaches:loop-anatomy", "needs:micro-batches"]
def loop_count():
    """Your variant, and the six counts."""
    ### BEGIN SOLUTION
    return 7, [18, 69, 23, 6, 72, 69]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "loop_count_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("loop_count")

# %% [markdown]
# ## An order for each epoch
#
# A model that meets its rows in one order, epoch after epoch, takes the same turns in the same places. So each epoch
# has an order of its own; and so that a run can be repeated, or taken up in the middle, that order depends on two
# numbers alone, the seed and the epoch.

# %% tags=["demonstration", "teaches:seeded-epochs", "form:worked", "needs:random-streams"]
for epoch in (0, 1, 2, 1):
    generator = torch.Generator().manual_seed(1000 * 7 + epoch)
    print("epoch", epoch, torch.randperm(10, generator=generator).tolist())

# %% [markdown]
# The generator is the loop's own. Dropout, and whoever else draws from torch's common stream, is not disturbed, and
# does not disturb. The factor keeps the orders of two seeds apart for a thousand epochs: with `seed + epoch` the runs
# of two neighbouring seeds would share all orders but one.
#
# Which of these three lines cuts ten rows into batches of four, with no row lost? Answer with a list of three `True` or
# `False`: `order.split(4)`, `order.chunk(4)`, `[order[i : i + 4] for i in range(0, 10 - 3, 4)]`.

# %% tags=["prediction"]
commit("cut", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:seeded-epochs", "form:worked", "needs:random-streams"]
@reveal("cut", see="An order for each epoch", answers=3)
def _():
    order = torch.arange(10)
    ways = [order.split(4), order.chunk(4), [order[i : i + 4] for i in range(0, 10 - 3, 4)]]
    for words, batches in zip(("split(4):", "chunk(4):", "slices:  "), ways, strict=True):
        print(words, [rows.tolist() for rows in batches])
    return [[len(rows) for rows in batches] == [4, 4, 2] for batches in ways]


# %% [markdown]
# ### Exercise: the batches of an epoch (depth, repair)
#
# This looks as if it did its work, and does three things that it should not.


# %% tags=["demonstration", "needs:seeded-epochs"]
def broken_epoch_batches(rows, size, seed, epoch):
    torch.manual_seed(seed)
    order = torch.randperm(rows)
    return [order[start : start + size] for start in range(0, rows - size + 1, size)]


for epoch in (0, 1):
    print([some.tolist() for some in broken_epoch_batches(7, 3, 100, epoch)])

# %% [markdown]
# Repair it as `epoch_batches(rows, size, seed, epoch)`. Return a list or a tuple of int64 tensors: the numbers of the
# rows, from 0 to `rows - 1`, each once, `size` of them in a batch, and in the last one what is left.
#
# Put one behind the other, the batches are the order that `torch.randperm(rows)` gives right after
# `torch.manual_seed(1000 * seed + epoch)`. The caller's own random numbers go on as if you had drawn none.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Run it for two epochs and compare. Then count the rows. Then draw `torch.rand(1)` after each call.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A generator of your own is made and begun in one line, as in the demonstration; `split` keeps the rest.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "epoch_batches", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:seeded-epochs", "needs:random-streams"]
def epoch_batches(rows, size, seed, epoch):
    """The rows of this epoch in batches, in an order of its own."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    return torch.randperm(rows, generator=generator).split(size)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "epoch_batches_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("epoch_batches")

# %% [markdown]
# ## One update
#
# The innermost part of the loop is where most of the units meet. A batch goes through in parts, each part's mean is
# weighed by its share of the rows, the sum is clipped once, and the optimizer steps once. (To *clip*,
# `nn.utils.clip_grad_norm_(parameters, max_norm)` shortens all gradients together where their common norm is over the
# limit `max_norm`.) Whatever the size of the parts, the weights then come out the same but for rounding, as long as no
# layer draws, as dropout does, or lets the rows of a batch see each other, as batch norm does.


# %% tags=["demonstration", "teaches:one-update", "form:worked", "needs:micro-batches", "needs:padding", "needs:zero-grad"]
def one_update(part, clips_each=False):
    model = network(dropout=0.0)
    optimizer = make_optimizer(model.parameters())
    x, y = (tensor[:64] for tensor in train)
    optimizer.zero_grad()
    for some, wanted in zip(x.split(part), y.split(part), strict=True):
        (F.cross_entropy(model(some), wanted) * (len(some) / len(x))).backward()
        if clips_each:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


whole = one_update(64)
print(f"parts of 24, apart from the whole by at most {(one_update(24) - whole).abs().max():.0e}")
print(f"parts of 24, each clipped, apart by at most  {(one_update(24, clips_each=True) - whole).abs().max():.0e}")

# %% [markdown]
# Clipped part by part, a sum that is over the limit is cut short before the rest comes, and the finished gradient is
# another one. The limit is meant for the gradient that the optimizer reads.

# %% [markdown]
# ## What a log costs
#
# A loss is worth logging. `losses.append(loss.item())` in every part makes Python wait in every part, until the device
# has done all that was ordered. Adding up `loss.detach()` waits for nothing, and one `.item()` at the end of the epoch
# reads the sum. The honest loop does the second.
#
# Put `.item()` into the innermost line instead, for 150 rows in batches of 64 and parts of 24, two epochs: how often
# does Python wait for a value then, where the honest loop waits four times? Answer with a number.

# %% tags=["prediction"]
commit("waits", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:one-update", "form:worked", "needs:host-waits", "needs:loop-anatomy"]
@reveal("waits", see="What a log costs")
def _():
    eager = cases.compiled(
        cases.HONEST.replace("loss.detach() * len(rows)", "loss.item() * len(rows)").replace(
            "(total / len(x)).item()", "total / len(x)"
        )
    )
    sizes = {"rows": 150, "epochs": 2, "size": 64, "part": 24}
    found = {"honest": counts_of(cases.loops["F"], **sizes), "item() in each part": counts_of(eager, **sizes)}
    for name, counts in found.items():
        print(f"{name:20} {counts['waits']} waits")
    return found["item() in each part"]["waits"]


# %% [markdown]
# The score at the end of each epoch makes Python wait too, in both loops.

# %% [markdown]
# ## The same loop on the accelerator
#
# On the accelerator the loop is the same loop. The model is moved before the optimizer is built, the data are moved
# once, and the one tensor that the loop makes from nothing, the order, asks `x` where to go. While it runs, the order
# of each epoch goes over, and two numbers of each epoch are waited for.

# %% tags=["demonstration", "teaches:loop-anatomy", "form:worked", "needs:passengers", "needs:few-trips", "needs:host-waits"]
model = network(dropout=0.0).to(device)
there = tuple(tensor[:150].to(device) for tensor in train)
away = tuple(tensor.to(device) for tensor in held_out)
with counters.count() as counted:
    few = {"epochs": 2, "size": 64, "part": 24, "max_norm": 2.0, "seed": 0}
    losses, _ = cases.loops["F"](model, make_optimizer, F.cross_entropy, there, away, **few)
here = tuple(tensor[:150] for tensor in train)
on_cpu, _ = cases.loops["F"](network(dropout=0.0), make_optimizer, F.cross_entropy, here, held_out, **few)
print("losses on the accelerator:", [round(loss, 4) for loss in losses])
print("losses on the CPU:        ", [round(loss, 4) for loss in on_cpu])
print(f"{counted.syncs} waits, {counted.transfers} transfers")

# %% [markdown]
# ### Exercise: one update (spine, repair)
#
# A loop's innermost function, as it is often written. It runs, and the loss falls.


# %% tags=["demonstration", "needs:one-update"]
def broken_update(model, optimizer, loss_fn, x, y, part, max_norm):
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part), strict=True):
        optimizer.zero_grad()
        loss = loss_fn(model(some), wanted) / len(x.split(part))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        total += loss.item()
    optimizer.step()
    return total


# %% [markdown]
# Repair it as `update(model, optimizer, loss_fn, x, y, part, max_norm)`. `loss_fn` gives the mean over the rows it is
# given. Gradients may be left over from before.
#
# Make one step of the optimizer, from the mean loss over all rows of `x`, which go through the model `part` rows at a
# time, the last part perhaps shorter. The finished gradient is clipped once, to `max_norm`, by
# `nn.utils.clip_grad_norm_`. Never more than one part's saved tensors are in memory.
#
# Return that mean loss: a tensor without dimensions, on the model's device, untracked. Python waits for no value.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are four faults. Ask of each line how often it should run: for each part, or for each update?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A part's share is `len(some) / len(x)`. What `.detach()` gives can be added up without waiting.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "update", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:repair", "teaches:one-update", "needs:micro-batches", "needs:host-waits"]
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    """The mean loss over all rows, from before the one step that this makes."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "update_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("update")

# %% [markdown]
# What follows asks how anybody could know that a loop is right, and then takes it apart: how it
# stops and goes on, how it keeps its best, what its optimizer does, what it costs, and where one of its numbers comes
# from.

# %% [markdown]
# ## Thirteen loops, one of them honest
#
# Here is the honest loop again among twelve copies, each with one fault that people really make. All of them train the
# same network on the same digits, 15 epochs, and log their loss. No copy raises an error or warns.
#
# A loop *passes* if its loss at least halves and its model then reads at least 90 % of the held-out digits. Of the
# twelve copies with a fault, how many pass? Answer with a number.

# %% tags=["prediction"]
commit("pass", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:judged-by-weights", "form:worked", "needs:loop-anatomy"]
@reveal("pass", see="Thirteen loops, one of them honest")
def _():
    figure, axes = figures.axes(x="epoch", y="mean loss", size=(8, 4.5))
    passing, shares = [], {}
    for letter, loop in cases.loops.items():
        model = network()
        losses, _ = loop(model, make_optimizer, F.cross_entropy, train, held_out, **settings)
        shares[letter] = share_read(model)
        axes.semilogy(range(1, 16), losses, label=letter)
        if losses[-1] < losses[0] / 2 and shares[letter] >= 90 and letter != "F":
            passing.append(letter)
    figure.legend(loc="outside upper center", ncols=7)
    figures.show(
        figure, alt="Nine of thirteen curves fall close together, one falls further, two stay above, one rises."
    )
    for letters in ("ABCDEFG", "HIJKLM"):
        print("   ".join(f"{letter} {shares[letter]:.1f} %" for letter in letters))
    better = [letter for letter in passing if shares[letter] > shares["F"]]
    print(f"F is the honest one. Read more digits than it: {', '.join(better)}")
    return len(passing)


# %% [markdown]
# So neither a curve that falls nor a good score says that a loop does what it was asked to. A fault need not cost
# score. It makes the program another one than you think you run, and its results cannot be explained, compared or
# repeated.

# %% [markdown]
# ## Four updates
#
# What tells them apart is arithmetic. From the same start, on the same rows and with the same draws, all right loops
# come to the same weights, but for rounding. Here are four updates: two epochs of 80 rows, in batches of 64 and 16, in
# parts of 24, with a limit of 0.1 for the norm. Shown is the largest gap to the honest weights.


# %% tags=["demonstration", "teaches:judged-by-weights", "form:worked", "needs:loop-anatomy"]
def gap(letter, **changed):
    """The largest difference of this loop's weights to the honest ones, on the first 80 digits."""
    found = []
    few = tuple(tensor[:80] for tensor in train)
    for name in (letter, "F"):
        model = network()
        setting = {"epochs": 2, "size": 64, "part": 24, "max_norm": 0.1, "seed": 0} | changed
        cases.loops[name](model, make_optimizer, F.cross_entropy, few, held_out, **setting)
        found.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    return (found[0] - found[1]).abs().max().item()


for letter in cases.loops:
    print(f"{letter} {gap(letter):9.0e} {gap(letter, epochs=1, size=80, part=80):9.0e}")

# %% [markdown]
# In the first column eleven of the twelve faults show after four updates. In the second is the same for one update with
# the batch in one part, and there all of them hide: a situation must hold what the fault needs. No second epoch, no
# wrong order in it; no dropout, no wrong mode.
#
# One loop has a gap of zero in both columns and is not the honest one. Its weights are right, and something else grows:

# %% tags=["demonstration", "teaches:judged-by-weights", "form:worked", "needs:logs-and-graphs"]
for letter in ("F", "I"):
    for epochs in (1, 2, 4):
        few = tuple(tensor[:80] for tensor in train)
        setting = {"epochs": epochs, "size": 64, "part": 24, "max_norm": 0.1, "seed": 0}
        _, scores = cases.loops[letter](network(), make_optimizer, F.cross_entropy, few, held_out, **setting)
        print(f"{letter}, {epochs} epochs: the scores keep", memory.held_by(scores).bytes, "bytes")

# %% [markdown]
# ### Exercise: where a fault can show (depth, review)
#
# The twelve copies, each as the lines in which it differs from the honest loop: `-` stands in the honest one, `+` in
# the copy.

# %% tags=["demonstration", "needs:judged-by-weights"]
for letter, text in cases.LOOP_TEXTS.items():
    changed = difflib.ndiff(cases.HONEST.splitlines(), text.splitlines())
    print(f"{letter}:", *[line for line in changed if line[0] in "-+"] or ["  (no difference)"], sep="\n")

# %% [markdown]
# They run in a situation so calm that few faults can show: 6 rows in one batch, in one part, one epoch, plain SGD, no
# limit, no dropout. These switches change it:

# %% tags=["demonstration", "needs:judged-by-weights"]
print("calm:", cases.CALM)
for switch, change in cases.SWITCHES.items():
    print(f"{switch:15}", change)

# %% [markdown]
# `expose(loop)` gets a letter from `"A"` to `"M"`. Return a list of switches, by name, with which the weights of this
# loop differ from the honest ones, in float64 by more than rounding, whatever the numbers in the data. No switch is in
# the list that could be left out. Where there are several such lists, any of them is right; an empty one says that the
# calm situation shows it.
#
# Two letters have no such list. Return `"memory"` for the loop that keeps more with every epoch, and `"nothing"` for
# the honest one.
#
# You may read, and you may run: `cases.weights_after("A", ["dropout"])` gives all weights of a small model as one
# vector.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Ask of each copy: in what does the second time differ from the first? The second part, the second batch, the second
# epoch? Then ask whether one of something is enough to see it.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Five of the letters need two switches. What is wrong in the second epoch may still need something on which it acts:
# a velocity to lose, units to leave out, more than one batch to have an order.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "expose", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:judged-by-weights", "needs:loop-anatomy"]
def expose(loop):
    """The switches with which this loop's weights go wrong, or what is to be said of it instead."""
    ### BEGIN SOLUTION
    verdicts = {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }
    return verdicts[loop]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "expose_tests", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("expose")

# %% [markdown]
# ## Stopping, and going on
#
# Trainings are interrupted. A *checkpoint* is what has to be written down so that a training that goes on from it is
# the one that was never stopped, bit for bit on the same machine. `state_dict()` gives a model's parameters and buffers
# by name, without buffers that were registered as `persistent=False`, and what an optimizer remembers beside its
# settings; `load_state_dict()` puts it back. No `.grad` is in it, and not the mode, training or evaluation.
#
# Below, a training with momentum and dropout stops after its second step and goes on in a new model, three times: with
# the weights alone, with the optimizer's state as well, and with the place in torch's stream of random numbers, from
# which dropout draws, as well. Are the weights after two more steps those of the training that never stopped? Answer
# with a list of three `True` or `False`.

# %% tags=["prediction"]
commit("resumed", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:checkpoints", "form:worked", "needs:momentum", "needs:random-streams"]
def two_steps(model, optimizer):
    """All weights after two more steps on the first digits."""
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(train[0][:64]), train[1][:64]).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@reveal("resumed", see="Stopping, and going on", answers=3)
def _():
    model = network()
    optimizer = make_optimizer(model.parameters())
    two_steps(model, optimizer)
    weights, velocity = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    stream = torch.get_rng_state()
    never_stopped = two_steps(model, optimizer)
    found = []
    for parts in (["weights"], ["weights", "velocity"], ["weights", "velocity", "stream"]):
        model = network(seed=5)
        optimizer = make_optimizer(model.parameters())
        model.load_state_dict(weights)
        if "velocity" in parts:
            optimizer.load_state_dict(copy.deepcopy(velocity))
        if "stream" in parts:
            torch.set_rng_state(stream)
        resumed = two_steps(model, optimizer)
        print(f"{' and '.join(parts):32} apart by {(resumed - never_stopped).abs().max():.0e}")
        found.append(torch.equal(resumed, never_stopped))
    return found


# %% [markdown]
# Whatever the next step reads belongs in the checkpoint: weights and buffers, what the optimizer remembers, the place
# in every stream of random numbers, the number of the epoch (and of the batch, where a training stops in the middle of
# one), and the same of whatever else has a memory, such as a learning rate that changes.
#
# One more thing is easy to miss. What `state_dict()` gives lies in the memory of the weights themselves:

# %% tags=["demonstration", "teaches:checkpoints", "form:worked", "needs:sharing-or-copying"]
model = nn.Linear(2, 1)
state, copied = model.state_dict(), copy.deepcopy(model.state_dict())
with torch.no_grad():
    model.weight += 100
print("state_dict():          ", state["weight"] - model.weight.detach())
print("deepcopy of state_dict:", copied["weight"] - model.weight.detach())

# %% [markdown]
# Written to a file at once, that does no harm, because the file is the copy. Kept in memory, as by a program that means
# to go back to its best epoch, it is a photo of a whiteboard again. An optimizer goes one step further: what it loads
# it takes into use as it is, unless dtype or device have to change, where a model copies the numbers into the weights
# that it has.

# %% tags=["demonstration", "teaches:checkpoints", "form:worked", "needs:sharing-or-copying", "needs:momentum"]
model = network(dropout=0.0)
optimizer = make_optimizer(model.parameters())
two_steps(model, optimizer)
saved = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
weight, velocity = saved["model"]["0.weight"], saved["optimizer"]["state"][0]["momentum_buffer"]
before = weight.clone(), velocity.clone()
two_steps(model, optimizer)
print("the loaded weights are as they were:   ", torch.equal(weight, before[0]))
print("the loaded velocities are as they were:", torch.equal(velocity, before[1]))

# %% [markdown]
# So a checkpoint in memory from which somebody may come back twice is copied on the way in, and on the way out.

# %% [markdown]
# ### Exercise: a checkpoint that holds (depth, review)
#
# This was tried once: saved, loaded, and the loss went on falling.


# %% tags=["demonstration", "needs:checkpoints"]
def broken_capture(model, optimizer, generator, epoch):
    return {
        "model": model.state_dict(),
        "optimizer": {"state": {}, "param_groups": optimizer.state_dict()["param_groups"]},
        "generator": torch.Generator().manual_seed(generator.initial_seed()).get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


# %% [markdown]
# Find what is wrong with it, and mend it as `capture(model, optimizer, generator, epoch)`. It returns a dict with these
# five keys, which this function puts back, in the same process or in a new one:

# %% tags=["demonstration", "needs:checkpoints"]
print(inspect.getsource(cases.restore))

# %% [markdown]
# - `model` is any module, `optimizer` an SGD, Adam or AdamW of its parameters that has taken steps, `generator` the CPU
#   generator from which the rows are drawn, `epoch` a whole number. Noise is drawn from torch's own stream on the CPU.
# - What you return is plain data and tensors: `torch.save` writes it, and `torch.load(..., weights_only=True)` reads
#   it.
# - However the training goes on after the call, what was captured stays as it was.
# - The call changes nothing: not the model, not the optimizer, not a stream.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are three faults: one shows in the first step after coming back, one in the first draw, and one only if the
# training went on before somebody came back.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A seed says where a stream begins. Who knows where it is now? `copy.deepcopy` takes a dict and copies the tensors in
# it.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "capture", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:checkpoints", "needs:random-streams", "needs:snapshots"]
def capture(model, optimizer, generator, epoch):
    """All that the next step depends on, as plain data and tensors that nobody else holds."""
    ### BEGIN SOLUTION
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "capture_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("capture")

# %% [markdown]
# ## Keeping the best
#
# A model that learns few rows for long learns them by heart. Its loss on other rows falls and then rises again, even
# where it reads no fewer of them: it grows ever surer of what it gets wrong. So a loop looks at held-out rows after
# each epoch and keeps the weights of its best one. Here 60 digits are learned for 150 epochs, without dropout.

# %% tags=["demonstration", "teaches:keeping-the-best", "form:worked", "needs:two-switches", "needs:loop-anatomy"]
model = network(dropout=0.0)
optimizer = make_optimizer(model.parameters())
x, y = (tensor[:60] for tensor in train)
inside, outside, shares_read = [], [], []
for _ in range(150):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        inside.append(F.cross_entropy(model(x), y).item())
        outside.append(F.cross_entropy(model(held_out[0]), held_out[1]).item())
    shares_read.append(share_read(model))
figure, axes = figures.axes(x="epoch", y="mean loss")
axes.plot(range(1, 151), inside, label="on the 60 digits")
axes.plot(range(1, 151), outside, label="on the held-out digits")
figures.show(figure, alt="The loss on the 60 digits goes to zero; on the held-out digits it falls and then rises.")
best_epoch = outside.index(min(outside)) + 1
print("best epoch for the held-out digits:", best_epoch)
print(f"of them read: {shares_read[best_epoch - 1]:.1f} % after that epoch, {shares_read[-1]:.1f} % after the last")

# %% [markdown]
# A validation wants three things, and leaves none of them behind: `eval()`, so that dropout rests and running averages
# do not move; a block that records nothing; and afterwards the mode in which the next update trains. Which loops of the
# thirteen miss one of them?
#
# Now a program notes `best = model.state_dict()` whenever the held-out loss is the smallest so far, trains to the end,
# and calls `model.load_state_dict(best)`. Which weights does its model have then?
#
# - A: those of the best epoch
# - B: those of the last epoch
# - C: those of the first epoch

# %% tags=["prediction"]
commit("best", answer=None, confidence=None)  # "A", "B" or "C"


# %% tags=["demonstration", "teaches:keeping-the-best", "form:worked", "needs:checkpoints"]
def kept(keep):
    """The weight after each epoch, and the one that comes back."""
    model, seen = nn.Linear(1, 1, bias=False), []
    for value in (4.0, 1.0, 2.0, 3.0):
        with torch.no_grad():
            model.weight.fill_(value)  # what an epoch does, and its held-out loss too
        seen.append(value)
        if value == min(seen):
            best = keep(model.state_dict())
    model.load_state_dict(best)
    return seen, model.weight.item()


@reveal("best", see="Stopping, and going on")
def _():
    print("kept as it is, deepcopied, cloned by name:")
    for keep in (lambda state: state, copy.deepcopy, lambda state: {name: one.clone() for name, one in state.items()}):
        print(kept(keep))
    return {4.0: "C", 1.0: "A", 3.0: "B"}[kept(lambda state: state)[1]]


# %% [markdown]
# ### Exercise: fit (depth, write)
#
# Put it together. `fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed)` gets two pairs
# `(x, y)`, on the model's device, and an optimizer of all its parameters. Use your `epoch_batches` and your `update`.
#
# - In each epoch, make one update for each of the batches that `epoch_batches` gives for it, in their order, in
#   training mode.
# - After each epoch compute `loss_fn` over all held-out rows in one call of the model, in evaluation mode, unrecorded.
#   Return the list of these losses as floats.
# - At the end the model holds all that it held after the epoch with the smallest of them, running averages included.
#   It comes with all its modules in one mode, training or evaluation, and ends in that mode.
#
# There is at least one epoch. Nothing is asked about the optimizer after the call.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the loop over epochs with three lines in it, in words: learn, look, keep. Then ask of each what it must find
# when it begins, and what it must not leave behind.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `model.training` is the mode, and `model.train(mode)` sets it. Which call gives weights and running averages by name,
# and what has to be done so that they stay as they are?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "fit", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:write", "teaches:one-update", "teaches:seeded-epochs", "needs:keeping-the-best", "needs:two-switches"]
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    """The loss on the held-out rows after each epoch; the model is left as it was after the best of them."""
    ### BEGIN SOLUTION
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fit_tests", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("fit")

# %% [markdown]
# ## What step() does
#
# An optimizer is the last black box in the loop, and it holds few lines. SGD, as long as no other setting is touched
# than `lr`, `momentum` and `weight_decay`, goes through its parameters. One without a gradient it passes over. For each
# other one it makes a *slope*, the gradient plus `weight_decay` times the weight; then a *velocity*, `momentum` times
# the old velocity plus the slope; and moves the weight by `-lr` times the velocity. The first velocity is the slope.

# %% tags=["demonstration", "teaches:optimizer-rule", "form:worked", "needs:momentum", "needs:modules-and-optimizers"]
w = torch.tensor(2.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.5)
by_hand, velocity = 2.0, 0.0
for gradient in (1.0, -3.0, 0.5):
    w.grad = torch.tensor(gradient)
    optimizer.step()
    velocity = 0.9 * velocity + (gradient + 0.5 * by_hand)
    by_hand -= 0.1 * velocity
    print(f"by step(): {w.item():.6f}   by hand: {by_hand:.6f}   velocity {velocity:.3f}")

# %% [markdown]
# What it remembers is in `state`, by parameter, and in its `state_dict()` by the number of the parameter. That is the
# part without which the training above went on and came out different:

# %% tags=["demonstration", "teaches:optimizer-rule", "form:worked", "needs:momentum", "needs:modules-and-optimizers"]
print(optimizer.state_dict()["state"])

# %% [markdown]
# ### Exercise: an optimizer of your own (workshop, complete)
#
# Complete `step` of this class. It does what `torch.optim.SGD` does with the same settings, for any number of steps:
#
# - a parameter whose `.grad` is None rests, under momentum and decay too, and its velocity waits;
# - the parameters stay the same tensors, tracked leaves, and nothing that you compute is recorded;
# - `.grad` stays as the caller left it. The caller may write the next gradient into the same tensor.
#
# `velocities` is yours: keep in it what the next step needs.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three lines for each parameter, in the order of the text: slope, velocity, weight. In which of them is the old
# velocity read?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A parameter can be the key of a dict. `velocities.get(parameter, 0.0)` is the old velocity, and an edit in place under
# `no_grad` keeps the parameter a leaf.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "OwnSGD", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:complete", "teaches:optimizer-rule", "needs:skipped-parameters", "needs:unrecorded-blocks"]
class OwnSGD:
    """SGD with momentum and weight decay."""

    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        ### BEGIN SOLUTION
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    slope = parameter.grad + self.weight_decay * parameter
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                    self.velocities[parameter] = velocity
                    parameter -= self.lr * velocity
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "OwnSGD_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("OwnSGD")

# %% [markdown]
# ## A budget of bytes
#
# How large may a part be? As large as the memory allows, and that can be measured before anything is trained. A forward
# pass saves what its backward pass will need, and `memory.held_by(loss)` counts those bytes.


# %% tags=["demonstration", "teaches:byte-budget", "form:worked", "needs:graph-memory", "needs:counting-kept-bytes"]
def saved_by(rows, x=train[0], y=train[1]):
    """The bytes that the forward pass of so many digits saves."""
    return memory.held_by(F.cross_entropy(network()(x[:rows]), y[:rows])).bytes


for rows in (1, 2, 3, 64):
    print(f"{rows:3} rows {saved_by(rows):8,} bytes")

# %% [markdown]
# Two things are paid here. Each row pays for what is computed from it. And once, however many rows there are, the data
# are paid for: `x[:rows]` is a view, and what a view keeps alive is the whole storage that it looks at, here the
# held-out rows too. (The loop takes its rows by their numbers, and `x[some]` is a copy of so many rows.)
#
# The forward pass of 8 rows saves `saved_by(8)` bytes. How many times as many does that of 16 rows save? Answer with a
# number; within 10 % counts as right.

# %% tags=["prediction"]
commit("twice_the_rows", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:byte-budget", "form:worked"]
@reveal("twice_the_rows", see="A budget of bytes", within=0.1)
def _():
    eight, sixteen = saved_by(8), saved_by(16)
    print(f"8 rows {eight:,} bytes, 16 rows {sixteen:,} bytes")
    row = saved_by(2) - saved_by(1)
    print(f"each row {row} bytes, once {saved_by(1) - row:,} bytes; together for 16 rows {saved_by(1) + 15 * row:,}")
    return sixteen / eight


# %% [markdown]
# ### Exercise: the largest part that fits (depth, complete)
#
# `largest_part(model, loss_fn, x, y, budget)` returns how many rows one part may have: the largest whole number, at
# most `len(x)`, for which the forward pass and the loss of so many rows of `x` save at most `budget` bytes for
# backward, as `memory.held_by(loss)` counts them. If a single row is too much, it is 0.
#
# What is saved grows by the same number of bytes with each row. The model is called at most eight times, and its
# gradients stay as they are. Measuring is given; complete the rest.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two measurements tell both prices: what one row more costs, and what is paid once.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Start from what one row costs in all. How many further rows does the rest of the budget pay for? `//` rounds down.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "largest_part", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:byte-budget", "needs:graph-memory"]
def largest_part(model, loss_fn, x, y, budget):
    """The largest number of rows whose forward pass keeps within the budget."""

    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    ### BEGIN SOLUTION
    first = saved(1)
    if first > budget:
        return 0
    each = saved(2) - first
    return min(len(x), 1 + (budget - first) // each)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "largest_part_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("largest_part")

# %% [markdown]
# Cut into parts that fit, a batch makes the same step as in one piece, but for rounding. Here it is with a budget of
# 520,000 bytes, and without one:

# %% tags=["demonstration", "teaches:byte-budget", "needs:one-update"]
largest = max(rows for rows in range(1, 257) if saved_by(rows) <= 520_000)
results = {}
for part in (largest, 256):
    model = network(dropout=0.0)
    optimizer = make_optimizer(model.parameters())
    optimizer.zero_grad()
    x, y = train[0][:256], train[1][:256]
    for some, wanted in zip(x.split(part), y.split(part), strict=True):
        (F.cross_entropy(model(some), wanted) * (len(some) / 256)).backward()
    optimizer.step()
    results[part] = model[0].weight.detach()
    print(f"parts of {part}: {saved_by(part):,} bytes")
small, large = results.values()
print(f"apart by at most {(small - large).abs().max():.0e}")

# %% [markdown]
# ## A gradient on its way down
#
# Between the loss and the first layer a gradient passes all the others, and each multiplies it. Where most of them make
# it smaller, little arrives at the first layers, and plain SGD hardly moves them.
#
# A hook on a tensor is a function that is called with the gradient when it arrives there. A forward hook on a module is
# called after each of its forward passes, with the module, its inputs and its output. What one of these returns, unless
# it is None, takes the place of the gradient or of the output, so ours return nothing. Registering a hook gives a
# handle that takes it off again.

# %% tags=["demonstration", "teaches:gradient-by-layer", "form:worked", "needs:modules-and-optimizers"]
torch.manual_seed(0)
deep = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.Tanh())])
x, arrived = torch.randn(16, 32), []


def listen(module, inputs, output):
    output.register_hook(lambda gradient: arrived.append(gradient.norm().item()))


handle = deep[1].register_forward_hook(listen)
deep(x).sum().backward()
deep(x).sum().backward()
handle.remove()
deep(x).sum().backward()
print("norms that arrived at the output of the first Tanh:", arrived)
deep.zero_grad()

# %% [markdown]
# Three backward passes, and two of them were heard. Twenty layers of 32 units with a Tanh after each, as PyTorch begins
# them: how many times larger is the gradient at the output of the last Tanh than at that of the first?
#
# - A: about as large, within a factor of 2
# - B: more than ten times, and less than ten thousand
# - C: more than ten thousand times

# %% tags=["prediction"]
commit("deep", answer=None, confidence=None)  # "A", "B" or "C"


# %% tags=["demonstration", "teaches:gradient-by-layer", "form:worked", "needs:modules-and-optimizers"]
@reveal("deep", see="A gradient on its way down")
def _():
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(20) for layer in (nn.Linear(32, 32), nn.Tanh())])
    norms = {}

    def listener(number):
        def called(module, inputs, output):
            output.register_hook(lambda gradient: norms.update({number: gradient.norm().item()}))

        return called

    for number, layer in enumerate(model):
        layer.register_forward_hook(listener(number))
    F.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 32)).backward()
    figure, axes = figures.axes(x="layer", y="norm of the gradient")
    axes.semilogy(range(1, 21), [norms[2 * number + 1] for number in range(20)])
    figures.show(
        figure, alt="From the last layer to the first the norm falls by about the same factor with each layer."
    )
    times = norms[39] / norms[1]
    print(f"{times:,.0f} times")
    return "A" if times < 2 else "C" if times > 10_000 else "B" if times > 10 else "between"


# %% [markdown]
# PyTorch begins the weights of `nn.Linear(32, 32)` with a variance of 1/96, a third of 1/32. So each of these layers
# passes on about a third of the squared norm, and the bend of the Tanh takes a little more.

# %% [markdown]
# ### Exercise: a gradient at every layer (depth, complete)
#
# `layer_norms(model, loss_fn, x, y)` returns a dict: for each layer, that is each module of the model, at any depth,
# that has no modules in it (the model itself, if it has none), its name in `model.named_modules()` and the norm of the
# gradient of `loss_fn(model(x), y)` at its output, as a float. The model calls each layer once, `x` is not tracked, and
# at least one parameter is. A layer whose output is not tracked is left out.
#
# The `.grad` of all parameters stay as they are, and no hook is left on any module.
#
# The lines that listen are given. Complete the three steps: listen, run, stop listening.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `register_forward_hook` of each layer takes `listener(name)`, and gives a handle. Which call computes gradients and
# leaves every `.grad` alone?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `torch.autograd.grad(loss, parameters)` wants parameters that require grad, and some may be frozen.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "layer_norms", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:gradient-by-layer", "needs:asking-for-gradients"]
def layer_norms(model, loss_fn, x, y):
    """The norm of the gradient at the output of each layer, by name."""
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    ### BEGIN SOLUTION
    layers = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(listener(name)) for name, module in layers]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    ### END SOLUTION
    return norms


# %% nbgrader={"grade": true, "grade_id": "layer_norms_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("layer_norms")

# %% [markdown]
# ## Explain one number
#
# Pick a weight and read its gradient. Where does the number come from? A gradient is a sum over routes, and each route
# is a product of slopes. The nodes of the graph know the slopes: a node that is called with a gradient returns what it
# sends along its edges. Here one weight is used in two places.

# %% tags=["demonstration", "teaches:route-contributions", "form:worked", "needs:calling-nodes", "needs:routes-and-nodes"]
a, b = torch.tensor(3.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
loss = a * b + a.square()
with torch.no_grad():
    left, right = loss.grad_fn(torch.tensor(1.0))
    first = loss.grad_fn.next_functions[0][0](left)
    second = loss.grad_fn.next_functions[1][0](right)
print("through the product:", first)
print("through the square: ", second)
print("a.grad would be     ", torch.autograd.grad(loss, a)[0])

# %% [markdown]
# The engine adds up what arrives at a node before it calls it, so that it calls each node once. Whoever wants the
# routes apart must not add: a node that two routes reach is called twice, each time with what came along that route.
#
# A node that stands for a leaf is not called: it would put the gradient into `.grad`. It has the leaf as `variable`.

# %% [markdown]
# ### Exercise: explain one number (workshop, complete)
#
# `contributions(loss, leaf)` gets a loss, the result of operations on tensors without dimensions only, and one of the
# tracked leaves. Return a list of floats, in any order: for each route through the graph from the loss to the leaf, the
# product of the slopes along it. Their sum is the gradient of the loss in that leaf. Two routes with equal products are
# two entries; without a route the list is empty.
#
# Every `.grad` stays as it is, and nothing is recorded on the way. The walk is begun; complete what happens to a node
# that was taken from the list.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three sorts of nodes: that of the leaf you look for, that of another leaf, and an operation. Only the last is called.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A call returns a tensor where the node has one edge, and a tuple where it has more. An edge that leads to None carries
# nothing.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "contributions", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:complete", "teaches:route-contributions", "needs:calling-nodes", "needs:routes-and-nodes"]
def contributions(loss, leaf):
    """What each route from the loss to the leaf adds to the gradient, as a list of floats."""
    found, waiting = [], [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            ### BEGIN SOLUTION
            if not hasattr(node, "variable"):
                sent = node(slope)
                slopes = sent if isinstance(sent, tuple) else (sent,)
                waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
            elif node.variable is leaf:
                found.append(slope.item())
            ### END SOLUTION
    return found


# %% nbgrader={"grade": true, "grade_id": "contributions_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("contributions")

# %% [markdown]
# For a network it is the same, with matrices for slopes. Here is a small one made of numbers, one hidden unit and two
# behind it that both read it. For the weight of the first: every route by which it moves the loss, and what autograd
# says.

# %% tags=["demonstration", "needs:route-contributions", "needs:asking-for-gradients"]
torch.manual_seed(1)
w = [torch.randn((), requires_grad=True) for _ in range(6)]
x = torch.tensor(0.5)
h = torch.tanh(w[0] * x)
left, right = torch.tanh(w[1] * h), torch.tanh(w[2] * h)
loss = (w[3] * left + w[4] * right + w[5]) ** 2
try:
    routes = contributions(loss, w[0])
    print("routes: ", [round(route, 6) for route in routes])
    print("sum:    ", round(sum(routes), 6))
except NotImplementedError:
    print("(your contributions() is still to be written)")
print("autograd:", round(torch.autograd.grad(loss, w[0])[0].item(), 6))

# %% [markdown]
# ## What lesson 2 will add
#
# The loop of this unit cuts its batches by hand. PyTorch has tools for that. A `Dataset` of the usual kind answers
# two questions: how many examples are there, and what is example `i`? A `DataLoader` draws the order, cuts it into
# batches, stacks their examples, and can do so in processes of its own while the model computes. The faults stay the
# same.
#
# A loader that does not shuffle has nothing to draw. Does iterating over one leave torch's common stream of random
# numbers where it was? Answer with `True` or `False`.

# %% tags=["prediction"]
commit("loader", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:loaders", "form:worked", "needs:random-streams", "needs:seeded-epochs"]
@reveal("loader", see="What lesson 2 will add")
def _():
    dataset = TensorDataset(*held_out)
    found = {}
    for words, generator in (("without a generator", None), ("with one of its own", torch.Generator())):
        torch.manual_seed(0)
        before = torch.get_rng_state()
        batches = [len(x) for x, _ in DataLoader(dataset, batch_size=100, generator=generator)]
        found[words] = torch.equal(torch.get_rng_state(), before)
        print(f"{words}: batches of {batches}, the stream is where it was: {found[words]}")
    return found["without a generator"]


# %% [markdown]
# It draws a seed for the processes that it might start, whether it starts any or not. So a validation in between
# changes what dropout draws next on the CPU, unless the loader has a generator of its own.
#
# Here is the loop as lesson 2 will have it: a `Dataset`, two loaders, Adam for SGD. Look for the lines that you know.

# %% tags=["demonstration", "teaches:loaders", "form:worked", "needs:keeping-the-best", "needs:modules-and-optimizers"]
loaders = {
    "train": DataLoader(TensorDataset(*train), 64, shuffle=True, generator=torch.Generator().manual_seed(0)),
    "held out": DataLoader(TensorDataset(*held_out), 256, generator=torch.Generator().manual_seed(1)),
}
model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(1, 11):
    model.train()
    total = 0.0
    for x, y in loaders["train"]:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total = total + loss.detach() * len(x)
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loaders["held out"]:
            right = right + (model(x).argmax(dim=1) == y).sum()
    if epoch % 3 == 1:
        read = 100 * right.item() / len(held_out[0])
        print(f"epoch {epoch:2}: loss {total.item() / training:.3f}, held-out digits read {read:.1f} %")

# %% [markdown]
# ## To keep
#
# An instrument for your own loops. Give it two loops that should be the same, or one loop twice, and what both need. It
# says where their weights part, or that they are equal bit for bit.


# %% tags=["demonstration", "needs:judged-by-weights", "needs:checkpoints"]
def apart(one, other, make_model):
    """The names of the parameters and buffers that differ after both loops, with the largest gap of each.

    one, other: functions that train the model that they are given
    """
    states = []
    for loop in (one, other):
        torch.manual_seed(0)
        model = make_model()
        loop(model)
        states.append(copy.deepcopy(model.state_dict()))
    pairs = {name: (states[0][name], states[1][name]) for name in states[0]}
    return {
        name: (mine.double() - yours.double()).abs().max().item()
        for name, (mine, yours) in pairs.items()
        if not torch.equal(mine, yours)  # NaN is not equal to itself, so it shows
    }


few = tuple(tensor[:80] for tensor in train)
short = {"epochs": 2, "size": 64, "part": 24, "max_norm": 0.1, "seed": 0}
loops = [
    lambda model, letter=letter: cases.loops[letter](model, make_optimizer, F.cross_entropy, few, held_out, **short)
    for letter in "FFH"
]
print("the honest loop, twice:    ", apart(loops[0], loops[1], network))
print("honest, and one order for all epochs:")
for name, size in apart(loops[0], loops[2], network).items():
    print(f"    {name:10} {size:.0e}")

# %% [markdown]
# ## Where this bites in practice
#
# - [pytorch/tutorials, pull request 188](https://github.com/pytorch/tutorials/pull/188): the official tutorial on
#   transfer learning kept `model.state_dict()` as its best, which "changes always to last epoch's state".
# - [ignite, issue 746](https://github.com/pytorch/ignite/issues/746): the example on the front page of a library for
#   training stayed in evaluation mode after its first validation.
# - [transformers, pull request 8878](https://github.com/huggingface/transformers/pull/8878) and
#   [issue 17032](https://github.com/huggingface/transformers/issues/17032): a trainer used by many went on with the
#   rows in the order of epoch 0, and later with random numbers from somewhere else.
# - [transformers, issue 1563](https://github.com/huggingface/transformers/issues/1563): clipping after each
#   `backward()` while gradients are still being added up.
# - [RAE, issue 67](https://github.com/bytetriper/RAE/issues/67): gradients cleared for every part of a batch.
# - [pytorch, issue 11062](https://github.com/pytorch/pytorch/issues/11062): a loader that does not shuffle moves the
#   stream from which another one shuffles.

# %% [markdown]
# ## What you can do now
#
# | You can | You did it in |
# |---|---|
# | Say of every line of a training loop how often it runs, what it costs, and what is wrong without it. | `loop_count` |
# | Write one update from parts of a batch: weighed by rows, clipped once, without waiting for a value. | `update` |
# | Draw every epoch in an order of its own that comes back with its seed and disturbs nobody. | `epoch_batches` |
# | Judge a loop by exact weights after a few steps, in a situation in which its fault can show. | `expose` |
# | Stop a training and go on from a file so that nobody can tell, bit for bit. | `capture` |
# | Write the whole loop from your own parts, and keep what it was at its best. | `fit` |
# | Build an optimizer that does what SGD does, and say what it remembers. | `OwnSGD` |
# | Choose the size of a part by measuring what it saves. | `largest_part` |
# | Follow a gradient through the layers, and take one of its numbers apart into routes. | `layer_norms`, `contributions` |

# %% [markdown]
# ## In five sentences
#
# 1. A training loop has three clocks, once, each epoch and each update, and most of its faults are a line that stands
#    at the wrong one.
# 2. An update clears once, adds up parts by their share of the rows, clips once and steps once, and nothing in it has
#    to wait for a value.
# 3. Most broken loops learn, and one may even score better than the right one, so a loop is judged by its exact weights
#    after a few updates, in a situation in which its fault can show.
# 4. What the next step reads is what a checkpoint holds: weights and buffers, what the optimizer remembers, the places
#    in all streams of random numbers, and the count, copied.
# 5. Validation is done in evaluation mode, unrecorded, and leaves the model, the streams and the modes as it found
#    them.
