# %% [markdown]
# # 5 Accumulating gradients
#
# A training loop calls `backward()` again and again, and `.grad` remembers every call. When a loop forgets that,
# nothing raises an error: it runs, the loss may even fall, and the weights are not the ones you asked for.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before
# many results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain). A wrong guess
# costs nothing.

# %% tags=["setup"]
import inspect
import math
import pathlib

import numpy
import torch
from autogradlab import check, commit, figures, reveal, unit
from autogradlab.costs import Meter
from torch import nn
from torch.nn import functional as F

cases = unit("05_accumulating_gradients")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up

# %% [markdown]
# ## Warm-up: four questions
#
# A look back at the units before. The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.
# Then read the program that it prints, and work it out on paper.

# %% tags=["demonstration", "needs:first-gradient", "needs:leaves-and-results", "needs:asking-for-gradients"]
print(cases.warm_up(7))

# %% [markdown]
# When the program has run: what is `w.grad`, is `x` a leaf, what is `slope`, and what is `w`? Answer with a list of
# four, for example `[3, False, 4, 1.5]`, and give your number as the variant.

# %% tags=["prediction"]
commit("warm_up", answer=None, confidence=None, variant=None, answers=4)


# %% tags=["demonstration", "needs:first-gradient", "needs:leaves-and-results", "needs:asking-for-gradients"]
@reveal("warm_up", see="The fix that was half a fix", answers=4)
def _(variant):
    names = {}
    exec(cases.warm_up(variant), names)
    w, x, slope = names["w"], names["x"], names["slope"]
    print("x is a leaf: no recorded operation made it. autograd.grad() handed over a slope and left w.grad as it was.")
    return [w.grad.item(), x.is_leaf, slope.item(), w.item()]


# %% [markdown]
# ## Eight minutes first: bring it to rest
#
# Before anything is explained, write a descent. The loss is `0.5 * w**2`, the learning rate `lr`. Take `steps` steps
# with `backward()`, and return the list of all values of `w` as floats, the start first. Nothing here is graded.
# After eight minutes go on, whatever you have: *What a loop does that never empties it* draws your path beside others.


# %% tags=["demonstration", "needs:first-gradient", "needs:first-step"]
def descend(steps=10, lr=0.3):
    w = torch.tensor(5.0, requires_grad=True)
    path = [w.item()]
    for _ in range(steps):
        pass  # your lines, and at the end of each step path.append(w.item())
    return path


print(descend())

# %% [markdown]
# ## Is this loop correct?
#
# The lesson from which this course grew shows a loop like this one. Every step computes the same loss at the same `w`,
# goes backward and reads `w.grad`. One step is right: the chain rule gives `2 * z * x`.


# %% tags=["demonstration", "needs:first-gradient"]
def trap(steps):
    x = torch.tensor(3.0, requires_grad=True)
    w = torch.tensor(2.0, requires_grad=True)
    readings = []
    for _ in range(steps):
        z = w * x + 1.0
        loss = z**2
        loss.backward()
        readings.append(w.grad.item())
    return readings


print("one step:", trap(1))
print("by hand: ", 2 * (2 * 3 + 1) * 3)

# %% [markdown]
# Nothing in the loop changes `w`. What does `trap(3)` return? Answer with a list of three numbers.

# %% tags=["prediction"]
commit("three_readings", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:running-total", "needs:first-gradient"]
@reveal("three_readings", see="backward() adds", answers=3)
def _():
    readings = trap(3)
    print("the readings: ", readings)
    print("their changes:", numpy.diff(readings, prepend=0).tolist())
    return readings


# %% [markdown]
# ## backward() adds
#
# `backward()` does not overwrite what `.grad` holds. It adds the gradient to what is there. `.grad` works like an
# electricity meter: it shows all that has run through since it was last reset, and what one day used is the difference
# of two readings. The first reading of `trap` was right only because the meter was new.
#
# The graph says so by name. Behind each tracked leaf stands a node that does the adding:

# %% tags=["demonstration", "teaches:running-total", "form:worked", "needs:first-gradient"]
w = torch.tensor(2.0, requires_grad=True)
loss = (w * 3.0 + 1.0) ** 2
node = loss.grad_fn
while node is not None:
    print(node.name())
    node = node.next_functions[0][0] if node.next_functions else None

# %% [markdown]
# ## Why it adds
#
# A weight that is used twice in one forward pass gets a gradient from each use, and the gradient of the whole is
# their sum. So adding is what the engine has to do inside one `backward()`. It does the same across two calls:

# %% tags=["demonstration", "teaches:running-total", "needs:first-gradient"]
w = torch.tensor(2.0, requires_grad=True)
(w**3 + 5 * w).backward()
print("one loss with two uses:     ", w.grad)

w = torch.tensor(2.0, requires_grad=True)
(w**3).backward()
(5 * w).backward()
print("two losses, two backwards:  ", w.grad)

# %% [markdown]
# One graph can go backward twice as well. The first `backward()` frees what the forward pass saved, and a second one
# that needs it raises an error; `retain_graph=True` has the first one keep it. The second adds the same gradient again:

# %% tags=["demonstration", "teaches:running-total", "form:worked", "needs:first-gradient", "needs:kept-for-backward"]
w = torch.tensor(2.0, requires_grad=True)
loss = w**3
loss.backward(retain_graph=True)
print("once:  ", w.grad)
loss.backward()
print("twice: ", w.grad)
try:
    loss.backward()
except RuntimeError as error:
    print("thrice:", str(error).split(" (")[0])

# %% [markdown]
# Adding is worth having. A batch too large for the memory can be cut into parts, and the parts, each with its proper
# weight, add up to the gradient of the whole; the section on micro-batches does it. The price: nobody but you knows
# where one update ends and the next begins. Somebody has to empty the meter, once for each update.

# %% [markdown]
# ## What a loop does that never empties it
#
# `trap` never moves `w`, so its total grows evenly. In a loop that updates `w`, each step uses the sum of all slopes
# so far. Take `0.5 * w**2` from 5 with a learning rate of 0.3, ten steps, and never clear. What does `w` do?
#
# - A: it comes to rest at 0, sooner than with clearing
# - B: it runs away, faster and faster
# - C: it swings through 0 to the other side and back, and does not come to rest

# %% tags=["prediction"]
commit("swing", answer=None, confidence=None)  # "A", "B" or "C"


# %% tags=["demonstration", "teaches:never-clearing", "form:worked", "needs:running-total", "needs:first-step"]
def path_of(clears, steps=10, lr=0.3):
    w = torch.tensor(5.0, requires_grad=True)
    path = [w.item()]
    for _ in range(steps):
        if clears == "before backward":
            w.grad = None
        loss = 0.5 * w**2
        loss.backward()
        if clears == "before the update":
            w.grad.zero_()
        with torch.no_grad():
            w -= lr * w.grad
        path.append(w.item())
    return path


@reveal("swing", see="What a loop does that never empties it")
def _():
    paths = {
        "cleared before backward": path_of("before backward"),
        "never cleared": path_of("never"),
        "cleared before the update": path_of("before the update"),
    }
    mine = descend()
    if mine and len(mine) > 1:
        paths["your descend()"] = mine
    figure, axes = figures.axes(x="step", y="w")
    for label, path in paths.items():
        axes.plot(path, label=label)
    axes.axhline(0, color="black", linewidth=0.8)
    figure.legend(loc="outside upper center", ncols=2)
    figures.show(figure, alt="Cleared, w sinks towards 0; never cleared, it swings from 5 past -5 and back.")
    return "C"


# %% [markdown]
# Three programs, one line apart, and no error in any of them. Cleared before `backward()`, each step is a share of
# the slope here and now. Cleared between `backward()` and the update, `w` stays where it was: the update reads zeros.
# Never cleared, the slopes of the way down still push when `w` passes through 0. If you wrote a descent, look which
# of the three your path lies on.

# %% [markdown]
# ## Two ways to empty the meter
#
# `w.grad.zero_()` writes zeros into the tensor that is there. `w.grad = None` takes the tensor away, and the next
# `backward()` puts a new one there. Before the first `backward()` there is no tensor yet, and nothing to write zeros
# into.

# %% tags=["demonstration", "teaches:clearing", "form:worked", "needs:running-total"]
w = torch.tensor(2.0, requires_grad=True)
print("new:            ", w.grad)
try:
    w.grad.zero_()
except AttributeError as error:
    print("zero_() on it:  ", error)

(3 * w).backward()
print("one backward(): ", w.grad)
w.grad.zero_()
print("zero_():        ", w.grad)
(3 * w).backward()
(3 * w).backward()
print("two backwards:  ", w.grad)
w.grad = None
print("= None:         ", w.grad)
(3 * w).backward()
print("one backward(): ", w.grad)

# %% [markdown]
# `None` is also what a tensor shows that was never tracked, and a tracked one that no `backward()` has reached. On a
# tracked leaf it says that nothing has arrived since it was cleared. A zero leaves that open: it may be an emptied
# meter, or a gradient that is zero. Later in this unit the difference moves weights.

# %% [markdown]
# ### Exercise: read the meter (depth, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell. It prints a program of numbered lines.

# %% tags=["demonstration", "needs:running-total", "needs:clearing"]
print(cases.meter_reading.script(7))

# %% [markdown]
# For each of its lines: what is `w.grad` after it? Work it out on paper.
#
# In the answer cell, return your number and a list with one reading for each line, each of them a number or `None`,
# as in `return 7, [None, 5, 2.5]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Keep a slip of paper with one number on it. Which lines change the number, and which lines only change `w`?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `w * w` has the slope `2 * w`, at the value that `w` has when that line runs. A loss without `w` in it cannot reach
# `w`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "meter_reading", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:predict", "teaches:running-total", "needs:clearing"]
def meter_reading():
    """Your variant, and what `w.grad` reads after each line of it."""
    ### BEGIN SOLUTION
    return 7, [None, 5, 13, None, 5, 10, 18, 18, 18, 0, 10]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "meter_reading_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("meter_reading")

# %% [markdown]
# ### Exercise: fresh gradients (spine, repair)
#
# `trap` above reads a running total. Repair it, as a function of its own numbers.
#
# `fresh_gradients(w, x, steps)` gets two tracked tensors of one value each (0-dim). `w.grad` may already hold
# something when the call begins. Each of the `steps` steps computes `(w * x + 1) ** 2`, goes backward once and reads
# `w.grad`. The backward passes are counted.
#
# Return the list of the readings as floats; each is the gradient of its own step alone. When the call ends, `w.grad`
# holds the gradient of the last step. Nothing is asked about `x.grad`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The meter has to be empty at one moment of each step. Which moment?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# One of the two ways of clearing needs no look at what is there. `.item()` gives a float.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "fresh_gradients", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:repair", "teaches:clearing", "needs:running-total"]
def fresh_gradients(w, x, steps):
    """The gradient of each step alone, as a list of floats."""
    ### BEGIN SOLUTION
    gradients = []
    for _ in range(steps):
        w.grad = None
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
    return gradients
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fresh_gradients_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("fresh_gradients")

# %% [markdown]
# ## The fix that was half a fix
#
# The same lesson mends its trap like this. It tracks `w` and `x`, and clears one of them.


# %% tags=["demonstration", "needs:clearing"]
def half_fixed(steps):
    x = torch.tensor(3.0, requires_grad=True)
    w = torch.tensor(2.0, requires_grad=True)
    readings = []
    for _ in range(steps):
        if w.grad is not None:
            w.grad.zero_()
        loss = (w * x + 1.0) ** 2
        loss.backward()
        readings.append((w.grad.item(), x.grad.item()))
    return readings


print("one step, w.grad and x.grad:", half_fixed(1))

# %% [markdown]
# What does `x.grad` read after the first, the second and the third step? Answer with a list of three numbers.

# %% tags=["prediction"]
commit("half_a_fix", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:every-leaf", "form:worked", "needs:clearing"]
@reveal("half_a_fix", see="The fix that was half a fix", answers=3)
def _():
    readings = half_fixed(3)
    for step, (w_reading, x_reading) in enumerate(readings, 1):
        print(f"step {step}: w.grad {w_reading:5}   x.grad {x_reading:5}")
    return [x_reading for _, x_reading in readings]


# %% [markdown]
# Each tracked leaf has a meter of its own. Where nobody reads `x.grad`, its growing harms nobody; where a second
# optimizer owns `x`, it is the trap again, in the half of the program that nobody looked at.
#
# The call that hands gradients over, from the unit before, uses no meter. `torch.autograd.grad(loss, tensors)` hands the
# gradients back and leaves every `.grad` alone:

# %% tags=["demonstration", "needs:asking-for-gradients", "needs:running-total"]
x = torch.tensor(3.0, requires_grad=True)
w = torch.tensor(2.0, requires_grad=True)
print("handed back:     ", torch.autograd.grad((w * x + 1.0) ** 2, (w, x)))
print("w.grad and x.grad:", w.grad, x.grad)

# %% [markdown]
# ### Exercise: five loops, one of them right (depth, review)
#
# Five loops that should leave fresh gradients behind:

# %% tags=["demonstration", "needs:every-leaf", "needs:clearing", "needs:asking-for-gradients"]
for name, loop in cases.loops.items():
    print(name, inspect.getsource(loop), sep=": ")

# %% [markdown]
# Both tensors are tracked, of one value each, positive, and start without a gradient. A loop is right if, after any
# number of steps, `w.grad` and `x.grad` each hold the gradient of the last step alone.
#
# `first_wrong(loop)` gets a letter from `"A"` to `"E"`. Return a dict: for each tensor whose `.grad` can be wrong,
# its name and the smallest number of steps after which it is, for example `{"w": 4, "x": 1}`. For the right loop
# return `{}`.
#
# You may read, and you may run: `cases.loops["A"](w, x, 3)`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through one loop with a slip of paper for each tensor. When is it emptied, when is something added?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Three of the wrong loops show themselves within two steps, the fourth in its third. A run with many steps can come
# out right although a shorter one does not.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "first_wrong", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:every-leaf", "needs:asking-for-gradients", "needs:clearing"]
def first_wrong(loop):
    """For each tensor that the loop leaves with a wrong gradient, the smallest number of steps that shows it."""
    ### BEGIN SOLUTION
    verdicts = {
        "A": {"w": 2},
        "B": {"w": 2, "x": 2},
        "C": {},
        "D": {"w": 1, "x": 1},
        "E": {"w": 3},
    }
    return verdicts[loop]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "first_wrong_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("first_wrong")

# %% [markdown]
# ## Just enough nn and optim
#
# Five minutes for the two classes of which training loops are made. A *module* owns tensors: its parameters are leaves,
# tracked unless somebody takes the flag away, and calling the module is a forward pass. `nn.Linear` computes `x @ weight.T + bias`.

# %% tags=["demonstration", "teaches:modules-and-optimizers", "form:worked", "needs:leaves-and-results"]
torch.manual_seed(0)
model = nn.Linear(2, 1)
for name, parameter in model.named_parameters():
    print(name, parameter.data, parameter.requires_grad, parameter.is_leaf, parameter.grad)

x, y = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[1.0], [0.0]])
loss = F.mse_loss(model(x), y)
loss.backward()
print("weight.grad:", model.weight.grad)

# %% [markdown]
# An *optimizer* holds on to the parameters it was given and changes them in place. `step()` reads the `.grad` of
# each, and for plain SGD it does what you have written by hand: `w -= lr * w.grad`.

# %% tags=["demonstration", "teaches:modules-and-optimizers", "form:worked", "needs:first-step"]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
by_hand = model.weight.detach() - 0.1 * model.weight.grad
optimizer.step()
print("by step():", model.weight.data)
print("by hand:  ", by_hand)

# %% [markdown]
# `nn.Sequential(a, b)` calls `b` on what `a` returns and owns the parameters of both. `F.mse_loss` is the mean of the
# squared differences; `F.cross_entropy`, used further down, is the loss for classes. `torch.optim.SGD(...,
# momentum=0.9)` and `torch.optim.Adam` remember something about each parameter between steps; that memory is their
# *state*. None of them clears a gradient unless you say so. Parameters may be handed over in several *groups*, each with
# settings, such as a learning rate, of its own.

# %% [markdown]
# ## Whom zero_grad() reaches
#
# An optimizer and a module each have `zero_grad()`, and each sweeps its own room. Both set `.grad` to `None`, or write
# zeros into it with `set_to_none=False`.
#
# Here the model has two layers, and the optimizer was given the parameters of the second alone, as one does where the
# first is to stay as it is. After `backward()` both have gradients. What does `optimizer.zero_grad()` leave in
# `first.weight.grad` and in `second.weight.grad`? Answer with a list of two words out of `"kept"` and `"None"`.

# %% tags=["prediction"]
commit("rooms", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:zero-grad", "form:worked", "needs:modules-and-optimizers", "needs:clearing"]
def what_is_left(who, set_to_none=True):
    first, second = nn.Linear(2, 3), nn.Linear(3, 1)
    model = nn.Sequential(first, second)
    optimizer = torch.optim.SGD(second.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    {"optimizer": optimizer, "model": model}[who].zero_grad(set_to_none=set_to_none)
    grads = [first.weight.grad, second.weight.grad]
    return ["None" if grad is None else "kept" if grad.any() else "zeros" for grad in grads]


@reveal("rooms", see="Whom zero_grad() reaches", answers=2)
def _():
    for who in ("optimizer", "model"):
        for set_to_none in (True, False):
            print(f"{who}.zero_grad(set_to_none={set_to_none}):".ljust(40), what_is_left(who, set_to_none))
    return what_is_left("optimizer")


# %% [markdown]
# So you have four ways to clear: `.grad.zero_()`, `.grad = None`, the optimizer's `zero_grad()` and the module's. Code
# that uses `.grad` right after `zero_grad()` meets `None`. Older versions of PyTorch wrote zeros; a link at the end of
# this unit leads to a program that relied on them.

# %% [markdown]
# ### Exercise: a training loop (spine, repair)
#
# This loop runs, and reports a loss for each batch. Look at what it does to the weights.


# %% tags=["demonstration", "needs:zero-grad"]
def broken_train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)
model = nn.Linear(2, 1)
before = model.weight.detach().clone()
batches = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(3)]
print(broken_train(model, torch.optim.SGD(model.parameters(), lr=0.1), F.mse_loss, batches))
print("moved by", (model.weight - before).abs().max().item())

# %% [markdown]
# Repair it as `train(model, optimizer, loss_fn, batches)`. For each batch `(x, y)`, in order: one update by the
# optimizer that was passed in, with the gradient of this batch's `loss_fn(model(x), y)` and of nothing else. The
# optimizer is an SGD or Adam with any settings and any number of groups, and may have taken steps before. It owns all
# parameters of the model, and their `.grad` may hold something when the call begins.
#
# Return the list of the losses as floats, each from before its update. The learning rates stay as they are.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three moments need an order: the meters are emptied, the meters are filled, the meters are read.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Who calls your function may have called `backward()` before. Is your first batch clean too?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "train", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:repair", "teaches:zero-grad", "needs:modules-and-optimizers", "needs:clearing"]
def train(model, optimizer, loss_fn, batches):
    """The loss of each batch before its update, as a list of floats."""
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "train_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("train")

# %% [markdown]
# ## Adding on purpose: micro-batches
#
# A batch that does not fit into memory can go through in parts: several `backward()` calls, one update. The mean over
# the batch is what you want; each part gives you the mean over its own rows. Here each part's mean is divided by the
# number of parts:


# %% tags=["demonstration", "teaches:micro-batches", "form:worked", "needs:running-total", "needs:clearing"]
def in_parts(*parts):
    torch.manual_seed(5)
    x, y, w = torch.randn(4, 2), torch.randn(4), torch.randn(2, requires_grad=True)
    for rows in parts:
        mean = F.mse_loss(x[rows] @ w, y[rows])
        (mean / len(parts)).backward()
    return w.grad.tolist()


print("four rows at once:", in_parts([0, 1, 2, 3]))
print("two and two:      ", in_parts([0, 1], [2, 3]))

# %% [markdown]
# The last part of a real data set is often shorter. Is `in_parts([0, 1, 2], [3])` the same gradient again? Answer
# with `True` or `False`.

# %% tags=["prediction"]
commit("three_and_one", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:micro-batches", "form:worked"]
@reveal("three_and_one", see="Adding on purpose: micro-batches")
def _():
    whole, parts = in_parts([0, 1, 2, 3]), in_parts([0, 1, 2], [3])
    print("four rows at once:", whole)
    print("three and one:    ", parts)
    print(f"in the parts, each of the three rows counts {1 / 2 / 3:.3f}, the single one {1 / 2 / 1:.3f}")
    print(f"in the mean over all rows, each counts      {1 / 4:.3f}")
    return numpy.allclose(whole, parts, rtol=1e-5)


# %% [markdown]
# A part has no vote of its own. What counts equally is a *row*: it should enter with one over the number of all rows,
# whichever part it is in. Two ways lead there: weigh each part's mean by its share of the rows, or add up sums and
# divide by the number of all rows.
#
# All this holds where the loss of a row depends on that row alone. Some layers, such as `nn.BatchNorm1d`, take means
# over the rows that they are given, and in parts those are others: there the gradient of the whole is not to be had in
# parts.

# %% [markdown]
# ## Where the memory goes
#
# There is another way to the same gradient: add up the losses first and call `backward()` once. The forward pass
# saves tensors for the backward pass, and `backward()` frees what its own graph has saved. A `Meter` counts those
# bytes:

# %% tags=["demonstration", "teaches:graph-memory", "form:worked", "needs:kept-for-backward"]
w = torch.randn(64, requires_grad=True)
x, y = torch.randn(100, 64), torch.randn(100)
with Meter() as meter:
    loss = F.mse_loss(x @ w, y)
    print("after the forward pass:", meter.graph_bytes, "bytes saved")
    loss.backward()
    print("after backward():      ", meter.graph_bytes, "bytes saved")
print("the nodes stay:        ", loss.grad_fn.name())

# %% [markdown]
# Eight parts of 100 rows each. Adding up the losses and calling `backward()` once, how many times the peak of one
# `backward()` after each part does it need? Answer with a number; within 10 % counts as right.

# %% tags=["prediction"]
commit("peak", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:graph-memory", "form:worked", "needs:micro-batches"]
def peak_and_gradient(parts, at_once):
    torch.manual_seed(3)
    w, total = torch.randn(64, requires_grad=True), 0.0
    with Meter() as meter:
        for _ in range(parts):
            x, y = torch.randn(100, 64), torch.randn(100)
            loss = F.mse_loss(x @ w, y, reduction="sum")
            if at_once:
                total = total + loss
            else:
                loss.backward()
        if at_once:
            total.backward()
    return meter.peak_bytes, w.grad


@reveal("peak", see="Where the memory goes", within=0.1)
def _():
    print("parts  backward each  one backward  gradients apart by")
    for parts in (1, 2, 4, 8):
        (each, gradient), (once, other) = (peak_and_gradient(parts, at_once) for at_once in (False, True))
        apart = ((gradient - other).abs().max() / gradient.abs().max()).item()
        print(f"{parts:5} {each:14,} {once:13,} {apart:19.0e}")
    return once / each


# %% [markdown]
# Up to rounding both ways give one gradient. But with a single `backward()` the saved tensors of all parts are in
# memory together, and saving memory was the reason for cutting the batch.

# %% [markdown]
# ### Exercise: uneven micro-batches (depth, arrange)
#
# `accumulate(w, batches)` gets a tracked vector `w` and a list of batches `(x, y)` with different numbers of rows. It
# leaves in `w.grad` the gradient of the mean squared error over all rows of all batches. What `w.grad` held before
# does not count. It returns the mean over all rows as a float; `w` does not move.
#
# There is never more than one batch's graph in memory: twice as many batches may raise the peak of saved bytes by an
# eighth at most, and no batch's graph is alive when a later one goes backward.
#
# Write these lines in a right order. Of the lines with a letter, take one:
#
# ```python
#     return total
#     total += loss.item()
# a   loss = ((x @ w - y) ** 2).mean()
# b   loss = ((x @ w - y) ** 2).sum()
# c   loss = ((x @ w - y) ** 2).sum() / rows
# d   loss = ((x @ w - y) ** 2).mean() / len(batches)
#     loss.backward()
#     total = 0.0
#     w.grad = None
#     for x, y in batches:
#     rows = sum(len(y) for _, y in batches)
# ```

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which line must know how many rows there are in all, before the first batch goes through?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Emptying the meter belongs to the update, not to the part. Four lines stand before the loop or begin it.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "accumulate", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:arrange", "teaches:micro-batches", "needs:graph-memory", "needs:clearing"]
def accumulate(w, batches):
    """The mean squared error over all rows, with its gradient left in `w.grad`."""
    ### BEGIN SOLUTION
    rows = sum(len(y) for _, y in batches)
    w.grad = None
    total = 0.0
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.item()
    return total
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "accumulate_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("accumulate")

# %% [markdown]
# ## The bug that wins
#
# A small network learns to read scikit-learn's handwritten digits: 64 pixels, 32 hidden units, 10 classes, plain SGD,
# batches of 64. It is trained at six learning rates, each time once with `zero_grad()` and once without. Nothing else
# differs, and a fifth of the digits is kept aside for the score. An *epoch* is one pass over all the others.
#
# Who reads more of those kept aside after 20 epochs, at the smallest rate (0.001) and at the largest (0.3)? Answer with
# a list of two words out of `"cleared"` and `"never"`.

# %% tags=["prediction"]
commit("winner", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:never-clearing", "needs:zero-grad", "needs:modules-and-optimizers"]
table = torch.from_numpy(numpy.load(pathlib.Path(cases.__file__).with_name("digits.npy")))
table = table[torch.from_numpy(numpy.random.RandomState(0).permutation(len(table)))]
pixels, digits = table[:, :64].float() / 16, table[:, 64].long()
training = len(table) * 4 // 5


def share_read(lr, clears, epochs=20):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        for rows in torch.randperm(training).split(64):
            if clears:
                optimizer.zero_grad()
            F.cross_entropy(model(pixels[rows]), digits[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        right = model(pixels[training:]).argmax(dim=1) == digits[training:]
    return 100 * right.float().mean().item()


@reveal("winner", see="The bug that wins", answers=2)
def _():
    rates = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    scores = {clears: [share_read(lr, clears) for lr in rates] for clears in (True, False)}
    figure, axes = figures.axes(x="learning rate", y="test digits read, %")
    axes.semilogx(rates, scores[True], label="cleared")
    axes.semilogx(rates, scores[False], label="never cleared")
    figures.show(figure, alt="Never cleared wins at small learning rates by far and loses at large ones by far.")
    return ["cleared" if scores[True][end] > scores[False][end] else "never" for end in (0, -1)]


# %% [markdown]
# At a small learning rate the loop with the bug is the better one, by far. The reason is the sum: as long as the
# slopes agree it grows, and tiny steps become long ones. At a large rate the same sum throws the weights about. So a
# falling loss, and even the better score, proves nothing about a loop. What a wrong line looks like from outside
# depends on numbers elsewhere.
#
# What follows goes deeper into three places where the meter bites, and then builds the pendulum
# that explains this plot. Who does the spine alone reads *Tokens are rows too* of it.

# %% [markdown]
# ## None is not zero
#
# Depth. You want one weight to rest for a step, so you clear its gradient and call `step()`. With plain SGD it rests.
# Here one weight is to rest under three other optimizers: SGD with momentum and Adam, each after one ordinary step,
# and SGD with weight decay from the start. Its gradient is a tensor of zeros. Does the weight move? Answer with a
# list of three `True` or `False`: momentum, Adam, decay.

# %% tags=["prediction"]
commit("at_rest", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:skipped-parameters", "form:worked", "needs:modules-and-optimizers", "needs:clearing"]
def resting(make_optimizer, steps_before, grad):
    w = torch.tensor(1.0, requires_grad=True)
    optimizer = make_optimizer([w])
    for _ in range(steps_before):
        optimizer.zero_grad()
        (w**2).backward()
        optimizer.step()
    before = w.item()
    w.grad = grad
    optimizer.step()
    return before, w.item()


@reveal("at_rest", see="None is not zero", answers=3)
def _():
    optimizers = {
        "momentum": (lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9), 1),
        "Adam": (lambda w: torch.optim.Adam(w, lr=0.1), 1),
        "decay": (lambda w: torch.optim.SGD(w, lr=0.1, weight_decay=0.5), 0),
    }
    moved = []
    print("            before   after zeros   after None")
    for name, (make, steps) in optimizers.items():
        before, zeros = resting(make, steps, torch.tensor(0.0))
        _, none = resting(make, steps, None)
        print(f"{name:10} {before:7.3f} {zeros:13.3f} {none:12.3f}")
        moved.append(zeros != before)
    return moved


# %% [markdown]
# SGD, Adam and most other optimizers pass over a parameter whose `.grad` is `None`. One of zeros takes part in the
# step: momentum coasts on, Adam's average remembers, decay shrinks the weight whatever the slope. Of the four here
# plain SGD alone leaves it where it is. So under the other three it matters, for a weight that the next `backward()`
# does not reach, in which of the two ways it was cleared.

# %% [markdown]
# ### Exercise: a frozen step (depth, repair)
#
# A colleague freezes weights for single steps. It was tested with plain SGD.


# %% tags=["demonstration", "needs:skipped-parameters"]
def broken_frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.grad.zero_()
    optimizer.step()


# %% [markdown]
# Repair it as `frozen_step(optimizer, frozen)`. It is called after `backward()`: all parameters of the optimizer have
# gradients, and `frozen` is a list of some of them, perhaps empty. The call makes one step of the optimizer in which
#
# - the parameters in `frozen` keep their values, under SGD, Adam or AdamW with any settings;
# - all others move as they would without you;
# - what the optimizer remembers of the frozen ones stays as it is, so that a later call with an empty list goes on
#   from there.
#
# What the `.grad` of a frozen parameter holds afterwards is up to you; it is cleared before the next `backward()`. The
# others keep their gradients: your caller logs them. Learning rates, flags, and the groups with the order of their
# parameters end as they began. Nothing is returned.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What does an optimizer look at to decide whether a parameter takes part in a step?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Putting the old values back hides that the weights took part. The optimizer's memory of them has changed all the
# same.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "frozen_step", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:skipped-parameters", "needs:modules-and-optimizers"]
def frozen_step(optimizer, frozen):
    """One step of the optimizer, in which the frozen parameters take no part."""
    ### BEGIN SOLUTION
    for parameter in frozen:
        parameter.grad = None
    optimizer.step()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "frozen_step_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("frozen_step")

# %% [markdown]
# ## A photo of a whiteboard
#
# Depth. To see how gradients change, somebody keeps `w.grad` in a list at every step. The loss of step `k` is `k *
# w`, so the gradients are 1, 2 and 3. The list is read after the loop, in which `w.grad.zero_()` cleared before each
# `backward()`. What does it show? Answer with a list of three numbers.

# %% tags=["prediction"]
commit("whiteboard", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:snapshots", "form:worked", "needs:clearing", "needs:sharing-or-copying"]
def kept(clear):
    w, history = torch.tensor(1.0, requires_grad=True), []
    for k in (1, 2, 3):
        clear(w)
        (k * w).backward()
        history.append(w.grad)
    return [grad.item() for grad in history]


def write_zeros(w):
    if w.grad is not None:
        w.grad.zero_()


def take_away(w):
    w.grad = None


@reveal("whiteboard", see="A photo of a whiteboard", answers=3)
def _():
    print("cleared by zero_(): ", kept(write_zeros))
    print("cleared by None:    ", kept(take_away))
    print("never cleared:      ", kept(lambda w: None))
    return kept(write_zeros)


# %% [markdown]
# The list holds one tensor three times. `zero_()` writes zeros into it, and an ordinary `backward()` adds into it.
# Clearing by `None` lets each step begin a new tensor, so that the list comes out right by luck of the way you clear.
# A copy is right with every way of clearing: `.detach().clone()` takes the numbers, without their memory and without a
# past.
#
# Some gradients have a past. With `create_graph=True` the backward pass is recorded like a forward pass, so that one
# can take the gradient of a gradient, as the unit before did in *Slopes of slopes*:

# %% tags=["demonstration", "needs:slopes-of-slopes", "needs:asking-for-gradients"]
w = torch.tensor(2.0, requires_grad=True)
(slope,) = torch.autograd.grad(w**3, w, create_graph=True)
print("the gradient:    ", slope)
print("its own gradient:", torch.autograd.grad(slope, w, retain_graph=True))
print("clone():         ", slope.clone())
print("detach().clone():", slope.detach().clone())

# %% [markdown]
# ### Exercise: a gradient diary (depth, review)
#
# This diary runs on many models. Find what is wrong with it, and mend it.


# %% tags=["demonstration", "needs:snapshots"]
def broken_diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: gradient.norm() for name, gradient in gradients.items()})
    return vectors, norms


# %% [markdown]
# `diary(model, backward, steps)` calls `backward()`, without arguments, `steps` times. Each call clears the gradients
# in a way of its own and computes new ones. Some parameters may get none, in every step or in some. Some gradients may
# be all zeros, and some may be results that hang on a graph (`create_graph=True`).
#
# After each call note the gradients and their norms (root of the sum of squares). Return two lists with one dict for
# each step, and in each dict one entry for every name in `model.named_parameters()`:
#
# - `vectors`: the gradient as it was at that time, in a tensor that no later call changes and that holds no graph;
# - `norms`: its norm as a float;
# - in both, `None` where a parameter has no gradient in this step. Zeros are a gradient.
#
# You only read: the `.grad` of the parameters stay as `backward()` left them.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are four faults. Run `broken_diary` on a `backward` that clears with `zero_grad(set_to_none=False)`, then on
# one whose loss does not use the bias.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `x if condition else y` fits into a dict comprehension. What does `type(...)` say of a norm?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "diary", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:snapshots", "needs:slopes-of-slopes", "needs:clearing", "needs:modules-and-optimizers"]
def diary(model, backward, steps):
    """The gradients of each step and their norms, each as a list of dicts by parameter name."""
    ### BEGIN SOLUTION
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {}
        for name, parameter in model.named_parameters():
            gradients[name] = None if parameter.grad is None else parameter.grad.detach().clone()
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "diary_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("diary")

# %% [markdown]
# ## Tokens are rows too
#
# Depth. Sentences in one batch are filled up to equal length, and the targets behind a sentence's end are -100. A model
# gives one number for each class at each place, its *logits*. `F.cross_entropy` compares them with the targets and
# leaves those of -100 out: its mean is over the *valid* tokens, and so is its sum.

# %% tags=["demonstration", "teaches:padding", "form:worked", "needs:micro-batches"]
torch.manual_seed(0)
logits = torch.randn(2, 3, 5)  # two sentences, three places, five classes
targets = torch.tensor([[4, 1, 0], [2, -100, -100]])
flat, wanted = logits.flatten(0, 1), targets.flatten()
valid = (targets != -100).sum()
print("valid tokens:     ", valid.item(), "of", targets.numel())
print("mean:             ", F.cross_entropy(flat, wanted).item())
print("sum / valid:      ", (F.cross_entropy(flat, wanted, reduction="sum") / valid).item())
nothing = torch.full((3,), -100)
print("mean over nothing:", F.cross_entropy(flat[:3], nothing).item())
print("sum over nothing: ", F.cross_entropy(flat[:3], nothing, reduction="sum").item())

# %% [markdown]
# The number of valid tokens may differ from batch to batch, even where the batches have equal shapes. Several libraries
# for training have divided by the number of batches here; the end of this unit links to them.
#
# One more tool: `torch.nn.utils.clip_grad_norm_(parameters, max_norm)` shortens all gradients together if their
# common norm is larger than `max_norm`, and returns the norm from before. The limit is meant for the finished
# gradient.

# %% tags=["demonstration", "teaches:padding", "form:worked", "needs:modules-and-optimizers"]
model = nn.Linear(3, 2)
model(torch.ones(4, 3)).sum().backward()
print("before:", torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
print("after: ", torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())

# %% [markdown]
# ### Exercise: one gradient from padded batches (depth, write)
#
# `token_gradient(model, batches, max_norm)` gets batches `(inputs, targets)` of different shapes: `inputs` of shape
# (sentences, places, features), float; `targets` of shape (sentences, places), int64, -100 where there is no token. A
# batch may have no valid token at all, and the whole list has at least one. `model(inputs)` gives logits of shape
# (sentences, places, classes). Gradients may be left over from before; they do not count.
#
# Leave in the parameters the gradient of the mean cross-entropy over all valid tokens of all batches, clipped once,
# at the end, to `max_norm` with `torch.nn.utils.clip_grad_norm_`. Return the norm from before the clipping as a
# float.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Count first: what one token weighs depends on how many valid ones there are in all batches together. A sum over
# nothing is 0.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# It is `accumulate` again, with valid tokens for rows: `flatten` both tensors as in the demonstration.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "token_gradient", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:write", "teaches:micro-batches", "needs:padding", "needs:zero-grad"]
def token_gradient(model, batches, max_norm):
    """The norm of the gradient over all valid tokens; the clipped gradient is left in the parameters."""
    ### BEGIN SOLUTION
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "token_gradient_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("token_gradient")

# %% [markdown]
# ## The pendulum
#
# Workshop. Write down what a loop without clearing computes. `.grad` is a sum that each step adds its slope to; call
# it the velocity. The update moves the weight against it:
#
# - velocity becomes velocity plus slope
# - weight becomes weight minus learning rate times velocity
#
# Put a factor in front of the old velocity and you have SGD with *momentum*: at 0 it forgets everything, which is the
# loop that clears; at 0.9 it forgets a tenth at each step; at 1 it forgets nothing. Plain SGD that is never cleared is
# SGD with momentum 1: a ball in a bowl without friction.

# %% tags=["demonstration", "teaches:momentum", "form:worked", "needs:never-clearing", "needs:modules-and-optimizers"]
w = torch.tensor(5.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.3, momentum=1.0)
path = [w.item()]
for _ in range(10):
    optimizer.zero_grad()
    (0.5 * w**2).backward()
    optimizer.step()
    path.append(w.item())
gap = max(abs(a - b) for a, b in zip(path, path_of("never"), strict=True))
print("cleared, momentum 1, against never cleared: largest gap", gap)

# %% [markdown]
# ### Exercise: the pendulum (workshop, complete)
#
# `pendulum(slope, start, lr, momentum, steps)` is that ball in plain Python, without autograd. `slope(w)` gives the
# slope at a float `w`. Return the path as a list of `steps + 1` floats, the start first. The velocity begins at 0;
# each step first updates the velocity with the slope where the ball is now, then moves the ball. Complete the loop.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two lines, one for each of the two sentences above. `path[-1]` is where the ball is.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `momentum` belongs in front of the old velocity and nowhere else.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "pendulum", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:complete", "teaches:momentum", "needs:never-clearing"]
def pendulum(slope, start, lr, momentum, steps):
    """The path of a ball with this momentum, as a list of floats."""
    path, velocity = [start], 0.0
    for _ in range(steps):
        ### BEGIN SOLUTION
        velocity = momentum * velocity + slope(path[-1])
        path.append(path[-1] - lr * velocity)
        ### END SOLUTION
    return path


# %% nbgrader={"grade": true, "grade_id": "pendulum_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("pendulum")

# %% [markdown]
# With momentum 1 on `0.5 * w**2` two steps in a row are tied by `w_next - 2 * w + w_before = -lr * w`. For a learning
# rate between 0 and 4 a cosine solves that, and its period follows from the learning rate alone; from 4 on the swing
# grows without end. The measured period comes from the passages through 0:

# %% tags=["demonstration", "teaches:momentum", "form:worked", "needs:never-clearing"]
path = path_of("never", steps=400)
passages = [
    step + path[step] / (path[step] - path[step + 1])
    for step in range(400)
    if path[step] > 0 >= path[step + 1] or path[step] < 0 <= path[step + 1]
]
measured = 2 * (passages[-1] - passages[0]) / (len(passages) - 1)
print(f"measured period {measured:.3f} steps, by formula {2 * math.pi / math.acos(1 - 0.3 / 2):.3f} steps")

# %% [markdown]
# And why did the bug win at a small learning rate and lose at a large one? A step along the sum of `n` equal slopes is
# `n` times as long, so a rate that is far too small gets help; one that is large enough swings past the goal, and no
# friction ends it. Momentum between 0 and 1 takes the help and keeps the friction.

# %% [markdown]
# ## To keep
#
# Two things for your own code. The first is the order of a step; with micro-batches the middle repeats. The second
# asks, before a `backward()`, whether something is left over from an earlier one.


# %% tags=["demonstration", "needs:zero-grad", "needs:micro-batches"]
def step(model, optimizer, loss_fn, parts):
    """One update from the mean over the rows of all parts; returns that mean. `loss_fn` is a mean over rows."""
    rows = sum(len(y) for _, y in parts)
    optimizer.zero_grad()
    total = 0.0
    for x, y in parts:
        loss = loss_fn(model(x), y) * (len(y) / rows)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def leftovers(model):
    """The names of the parameters whose .grad holds something."""
    return [name for name, parameter in model.named_parameters() if parameter.grad is not None and parameter.grad.any()]


model = nn.Linear(2, 1)
print(leftovers(model))
step(model, torch.optim.SGD(model.parameters(), lr=0.1), F.mse_loss, [(torch.ones(3, 2), torch.ones(3, 1))])
print(leftovers(model))

# %% [markdown]
# ## Where this bites in practice
#
# - [axolotl, issue 2262](https://github.com/axolotl-ai-cloud/axolotl/issues/2262): with eight accumulation steps,
#   loss and gradient norm come out about eight times too large. Adding means is not averaging.
# - [transformers, pull request 34191](https://github.com/huggingface/transformers/pull/34191), and
#   [35438](https://github.com/huggingface/transformers/pull/35438) two months later: a trainer used by many learns to
#   count tokens across the parts of a batch, and then to count them right.
# - [lingua, pull request 59](https://github.com/facebookresearch/lingua/pull/59): clipping after each part instead of
#   once.
# - [pytorch/examples, pull request 1172](https://github.com/pytorch/examples/pull/1172): an official example read
#   `.grad` after `zero_grad()` and met `None` from torch 2.0 on.
# - [pytorch, issue 83769](https://github.com/pytorch/pytorch/issues/83769): a tool that advises to clear with `None`
#   must first ask whether that changes what the optimizer does.

# %% [markdown]
# ## In five sentences
#
# 1. `backward()` adds to `.grad`, because the gradient of a sum is the sum of the gradients.
# 2. Each tracked leaf has its own meter, and somebody has to empty it once for each update, before the first
#    `backward()` of that update.
# 3. Zeros and `None` both empty it, but SGD and Adam may move a parameter of zeros and pass over one of `None`.
# 4. In a batch cut into parts, rows count equally and parts do not, and one `backward()` for each part keeps the
#    memory of one part.
# 5. Plain SGD that is never cleared is SGD with momentum 1, and sometimes it scores better than the right loop, so
#    judge a loop by its weights after a few steps and never by its loss alone.
