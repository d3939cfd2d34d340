# %% [markdown]
# # 2 Moving between devices
#
# A tensor has a place. On a machine without a GPU or another accelerator all numbers lie in one, so that everything in
# this unit seems not to matter, until the same program runs on a machine that has one and says something else. Here you
# have a second place, a simulated accelerator called `sim`, and can try both.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before most
# results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain). A wrong guess costs
# nothing.

# %% tags=["setup"]
import statistics
import time

import numpy
import torch
from autogradlab import accelerator, check, commit, reveal, unit
from torch import nn

cases = unit("02_moving_between_devices")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up
device = accelerator.register()

# %% [markdown]
# ## Warm-up: four questions
#
# A look back at unit 1. The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell. Then read
# the program that it prints, and work it out on paper.

# %% tags=["demonstration", "needs:constructors", "needs:first-gradient", "needs:sharing-or-copying"]
print(cases.warm_up(7))

# %% [markdown]
# When the program has run: what is `copied[0]`, what is `shared[0]`, what is the shape of `column - torch.ones(2)`, and
# what is `w.grad`? Answer with a list of four, for example `[1, 2, [3, 4], 5]`, and give your number as the variant.

# %% tags=["prediction"]
commit("look_back", answer=None, confidence=None, variant=None, answers=4)


# %% tags=["demonstration", "needs:constructors", "needs:stretching"]
@reveal("look_back", see="Same program, two histories", answers=4)
def _(variant):
    names = {}
    exec(cases.warm_up(variant), names)
    stretched = names["column"] - torch.ones(2)
    print("torch.tensor copied the array before it was edited; from_numpy looks through another window at it.")
    return [names["copied"][0], names["shared"][0], stretched.shape, names["w"].grad]


# %% [markdown]
# ## Same program, two histories
#
# This program takes three steps down `w**2` from 1 and notes `w` after each of them, as many programs do that keep a
# log. `.detach()` takes the numbers without the tracking, and `.cpu()` brings them to the CPU.


# %% tags=["demonstration", "needs:first-step"]
def history(place):
    w = torch.tensor(1.0, device=place, requires_grad=True)
    log = []
    for _ in range(3):
        w.grad = None
        (w**2).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        log.append(w.detach().cpu())
    return [round(value.item(), 3) for value in log]


# %% [markdown]
# Each step makes `w` a fifth smaller: 0.8, then 0.64, then 0.512. What do `history("cpu")` and `history("sim")` return?
# Answer with a list of two lists of three numbers, the CPU's first.

# %% tags=["prediction"]
commit("two_histories", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "needs:first-step"]
@reveal("two_histories", see="A copy only where it must be", answers=2)
def _():
    results = {place: history(place) for place in ("cpu", "sim")}
    for place, log in results.items():
        print(f"{place:4}", log)
    return list(results.values())


# %% [markdown]
# One program, no error, and two different logs; and the one on the CPU, where you would try it first, is wrong. At the
# end of this unit you can say which line does it, and why. First: what is a place?

# %% [markdown]
# ## An address is not a house
#
# `torch.device` writes down an address: a kind and, if you like, a number. Nobody looks whether anything is there. Only
# the first tensor that is sent there finds out.

# %% tags=["demonstration", "teaches:device-names", "form:worked", "needs:constructors"]
print("the kinds here:      cpu,", device.type)
print("CUDA is here:       ", torch.cuda.is_available())
for words in ("cuda", "cuda:3", "meta"):
    address = torch.device(words)
    print(f"an address:          {address!r:38} kind {address.type}, number {address.index}")
try:
    torch.device("gpu")
except RuntimeError as error:
    print("'gpu' raises:       ", error)

# %% [markdown]
# The last message can be read as a menu: it lists the words that torch was built to know, whether or not your machine
# has such a thing. (`sim` stands there as `privateuseone`, the place kept free for devices that come later.) `meta` is
# a place without numbers: a tensor there has a shape and a dtype, and no values.
#
# Now compare addresses. A tensor on the accelerator says that it lives at `sim:0`. Which of these three are `True`?
#
# ```python
# y = torch.ones(2, device="sim")
# y.device == "sim"
# y.device == torch.device("sim")
# y.device.type == "sim"
# ```
#
# Answer with a list of three `True` or `False`.

# %% tags=["prediction"]
commit("same_address", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:device-names", "form:worked"]
@reveal("same_address", see="An address is not a house", answers=3)
def _():
    y = torch.ones(2, device="sim")
    print("y.device:", repr(y.device))
    results = [y.device == "sim", y.device == torch.device("sim"), y.device.type == "sim"]
    print("compared with text, with an address, by kind:", *results)
    print("torch.device('cuda').index is not None:", torch.device("cuda").index is not None)
    return results


# %% [markdown]
# A device is never equal to a piece of text, and an address with a number is not equal to one without. Compare the kind.
# The last line is from a tutorial, where it guards a move to the GPU: it is `False` on every machine there is. Whoever
# wants to know whether something is there has to ask: `torch.cuda.is_available()`, and for Apple's GPUs
# `torch.backends.mps.is_available()`.

# %% [markdown]
# ### Exercise: choose a device (depth, repair)
#
# Left to choose, a colleague's function always ends on the CPU:


# %% tags=["demonstration", "needs:device-names"]
def broken_pick_device(prefer=None):
    device = torch.device("cuda")
    if device.index is not None:
        return device
    return prefer or "cpu"


print(broken_pick_device())

# %% [markdown]
# Repair it as `pick_device(prefer=None)`. It returns a `torch.device`.
#
# - With a preference, text such as `"cuda:1"` or a `torch.device`, it returns that address, number included, without
#   asking whether anything is there. Where torch does not know the word, torch's own `RuntimeError` comes out.
# - Without one it returns `cuda` where CUDA is available, else `mps` where MPS is, else `cpu`, all without a number.
#
# The check makes torch believe in machines of all four kinds, so that yours need not have a GPU.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which two questions does the text above the exercise ask of a machine, and in which order do you need them?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `torch.device` takes text as well as a device, and complains of words by itself. The preference comes first.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "pick_device", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:device-names"]
def pick_device(prefer=None):
    """The preferred device, or the best one that this machine has."""
    ### BEGIN SOLUTION
    if prefer is not None:
        return torch.device(prefer)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "pick_device_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("pick_device")

# %% [markdown]
# ## A twin, not a move
#
# The lesson from which this course grew says that you move a tensor with `.to("cuda")`, and that all later operations
# on it run on the GPU. Look at who is where; `device`, made at the top of this notebook, is the accelerator's address,
# a `torch.device`:

# %% tags=["demonstration", "teaches:twins", "form:worked", "needs:edit-or-rebind"]
x = torch.ones(3)
x.to(device)
print("after x.to(device):      x is on", x.device)
y = x.to(device)
print("after y = x.to(device):  y is on", y.device, "and x on", x.device)
x += 1
print("after x += 1:            x", x.tolist(), " y", y.tolist())
print("y.to(device) is y:      ", y.to(device) is y)
print("x.to('cpu') is x:       ", x.to("cpu") is x)

# %% [markdown]
# `.to` leaves the tensor where it is and gives you a *twin* on the other side, with memory of its own. Keep the twin:
# `x = x.to(device)`. Where there is nothing to change, though, you get the tensor itself, and no second memory.
#
# So it went with the log on the CPU: `.cpu()` had nothing to change there, and every entry is a window on the memory of
# `w`, which shows what the last step left in it.
#
# The page is right about the rest: what is computed from the twin alone stays where the twin is.

# %% tags=["demonstration", "teaches:places", "form:worked", "needs:promotion"]
for line in ("(y * 2).device", "y.sum().device", "torch.zeros(3).device", "torch.zeros_like(y).device"):
    print(f"{line:28} {eval(line)}")
for line in ("x + y", "y + torch.ones(1)", "x * y.sum()", "y.numpy()"):
    try:
        eval(line)
    except (RuntimeError, TypeError) as error:
        print(f"{line}\n    {type(error).__name__}: {error}")
print("y + torch.tensor(2.0)       ", y + torch.tensor(2.0))

# %% [markdown]
# In arithmetic two tensors in two places do not meet, with one exception, the last line: a tensor *without dimensions*
# on the CPU is treated like a Python number. A vector of one element is not, and neither is a tensor without dimensions
# that lives on the accelerator. (Outside arithmetic there are others: an index may come from the CPU, and `a.copy_(b)`
# fetches the numbers of `b` from anywhere.)

# %% [markdown]
# Two ways out look like cures and are none. `with torch.device(...)` says where a constructor makes its tensor that is
# shown no tensor and no device; what `from_numpy` returns lies in the array's memory, and stays there. And the place `meta`, where tensors have a shape, a
# dtype and no values, is a poor judge of whether a program mixes places:

# %% tags=["demonstration", "teaches:places", "form:worked", "needs:sharing-or-copying"]
array = numpy.ones(2)
with torch.device(device):
    for line in ("torch.zeros(2)", "torch.tensor([1.0])", "torch.as_tensor(array)", "torch.from_numpy(array)"):
        print(f"{line:26} {eval(line).device}")
for line in (
    "torch.ones(2, 2) + torch.ones(2, 2, device='meta')",
    "torch.ones(2, 2) @ torch.ones(2, 2, device='meta')",
):
    try:
        print(f"{line}: no error, shape {tuple(eval(line).shape)} on {eval(line).device}")
    except RuntimeError as error:
        print(f"{line}: {error}")

# %% [markdown]
# The product of a CPU matrix and a meta matrix ran, in this version of torch, and returned numbers that nobody computed.

# %% [markdown]
# ### Exercise: where is it? (depth, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell.

# %% tags=["demonstration", "needs:places", "needs:twins"]
print(cases.placement.script(7))

# %% [markdown]
# The three lines at the top run first, and each numbered line stands for itself. Where does its tensor live: `"cpu"`,
# `"sim"`, or does the line raise an `"error"`?
#
# In the answer cell, return your number and a list of twelve, as in `return 7, ["cpu", "error", "sim", ...]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Of the three lines at the top, which ones gave a name to something?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Where two tensors meet, ask of each: where is it, and how many dimensions has it? A constructor that is shown no
# tensor and no device makes its tensor on the CPU, unless a `with torch.device(...)` says otherwise.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "placement", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:predict", "teaches:places", "teaches:twins"]
def placement():
    """Your variant, and for each line where its tensor lives, or "error"."""
    ### BEGIN SOLUTION
    return 7, ["sim", "sim", "error", "error", "sim", "error", "cpu", "sim", "sim", "cpu", "cpu", "cpu"]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "placement_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("placement")

# %% [markdown]
# ## One lorry, not four taxis
#
# Every copy between two places is a trip, and a trip costs time whatever it carries. `accelerator.counts()` counts the
# trips and their bytes. In this cell each trip takes a twentieth of a second, so that you feel them.

# %% tags=["demonstration", "teaches:few-trips", "form:worked", "needs:twins", "needs:inferred-dtype"]
batch = torch.ones(4, 250)
with accelerator.limits(latency_seconds=0.05):
    for words, move in (
        ("four taxis, float32", lambda: [row.to(device) for row in batch]),
        ("one lorry,  float32", lambda: batch.to(device)),
        ("one lorry,  float64", lambda: batch.double().to(device)),
    ):
        began = time.perf_counter()
        with accelerator.counts() as seen:
            move()
        seconds = time.perf_counter() - began
        print(f"{words}: {seen.transfers} trips, {seen.bytes_to_device} bytes, {seconds:.2f} seconds")

# %% [markdown]
# The bytes are the same for taxis and lorry, and twice as many in float64. Half the bytes to move and to keep is one
# reason why float32 is the default; another is that most GPUs compute float32 faster, which a simulated one cannot
# show.

# %% [markdown]
# ### Exercise: move a batch (spine, complete)
#
# A data loader hands over plain dicts, lists and tuples in each other, with tensors and other things in them. Complete
# `to_device(batch, device)`: the same structure with every tensor on `device`, a `torch.device`.
#
# - A list stays a list, a tuple a tuple. What is neither tensor, dict, list nor tuple comes back as it is.
# - A tensor that is there already comes back itself; every other makes one trip. Values, dtype and tracking stay: a
#   tracked tensor's twin knows where it came from.
# - `batch` and what is in it do not change.
#
# Dicts are done. The function may call itself.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three cases are left: a tensor, a list or tuple, and everything else. `isinstance(value, (list, tuple))` asks for two
# types at once.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `type(batch)` is `list` or `tuple`, and both can be called with a generator: `type(batch)(... for part in batch)`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "to_device", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:complete", "teaches:few-trips", "needs:twins"]
def to_device(batch, device):
    """The batch with all its tensors on the device."""
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    ### BEGIN SOLUTION
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(part, device) for part in batch)
    return batch
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "to_device_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("to_device")

# %% [markdown]
# Many small tensors make many trips, unless they travel as one. `torch.cat` makes one new tensor of several, and `split`
# cuts a tensor into pieces of given lengths, without copying:

# %% tags=["demonstration", "teaches:few-trips", "form:worked", "needs:reshaping"]
joined = torch.cat([torch.ones(1), torch.zeros(2), torch.ones(3)])
print(joined.tolist(), [piece.tolist() for piece in joined.split([1, 2, 3])])

# %% [markdown]
# ### Exercise: all in one trip (depth, write)
#
# `one_trip(tensors, device)` gets a list of at least one tensor. All are of one float dtype and live in one place, their
# shapes differ: some may have no dimensions, and some no elements.
#
# Return a list of tensors on `device`, a `torch.device`, with the values, the shapes and the dtype of `tensors`, in their
# order. Everything travels in one trip; where `device` is where they are, there is no trip at all. Tracked tensors stay
# linked with what comes of them, and `tensors` does not change.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Pack, move, unpack. What has to be remembered of each tensor, so that it can be unpacked?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `t.flatten()` has one dimension and `t.numel()` elements, also where `t` has no dimensions; `view(t.shape)` gives the
# shape back.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "one_trip", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:write", "teaches:few-trips", "needs:twins", "needs:reshaping"]
def one_trip(tensors, device):
    """The tensors on the device, after one trip for all of them."""
    ### BEGIN SOLUTION
    packed = torch.cat([t.flatten() for t in tensors]).to(device)
    pieces = packed.split([t.numel() for t in tensors])
    return [piece.view(t.shape) for piece, t in zip(pieces, tensors)]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "one_trip_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("one_trip")

# %% [markdown]
# ## Helpers are born at home
#
# A function that runs in every place makes what it needs in the place of its input, and in its dtype. The first of these
# two does not, and works for years on a laptop:


# %% tags=["demonstration", "teaches:helpers-at-home", "form:worked", "needs:places", "needs:promotion"]
def with_first_step(x):
    return torch.cat([torch.zeros(1), x])


def with_first_step_at_home(x):
    return torch.cat([x.new_zeros(1), x])


for function in (with_first_step, with_first_step_at_home):
    for x in (torch.ones(2), torch.ones(2, dtype=torch.float16), torch.ones(2, device=device)):
        try:
            result = function(x)
            print(f"{function.__name__:24} {x.dtype} on {x.device}: {result.dtype} on {result.device}")
        except RuntimeError as error:
            print(f"{function.__name__:24} {x.dtype} on {x.device}: {str(error)[:60]}...")

# %% [markdown]
# `x.new_zeros(size)` asks `x` for place and dtype; so do `zeros_like(x)` and `torch.zeros(size, device=x.device,
# dtype=x.dtype)`. The second line of output is the quiet one: float16 went in, and float32 came out.

# %% [markdown]
# ### Exercise: a mean that is at home anywhere (depth, repair)
#
# The rows of `x` have different lengths and are filled up to one with numbers that mean nothing. This is the mean of
# each row without the filling, on one machine:


# %% tags=["demonstration", "needs:helpers-at-home"]
def broken_masked_mean(x, lengths):
    mask = torch.zeros(x.shape)
    for row, length in enumerate(lengths):
        mask[row, : int(length)] = 1
    return (x * mask).sum(dim=1) / lengths


print(broken_masked_mean(torch.tensor([[1.0, 3.0, 0.0], [5.0, 0.0, 0.0]]), torch.tensor([2, 1])))

# %% [markdown]
# Repair it as `masked_mean(x, lengths)`. `x` has shape (rows, places), any float dtype, and finite numbers, in the
# filling too; `lengths` is int64 of shape (rows,), from 1 to `places`, and lives where `x` lives.
#
# Return a tensor of shape (rows,): the mean of the first `lengths[i]` numbers of row i, in the place and the dtype of
# `x`. Nothing crosses between places, and no value is read: each `int(length)` of the loop reads one, and Python waits
# for it. `x` and `lengths` do not change.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Number the places of a row, where `x` is: `torch.arange(x.shape[1], device=x.device)`. Which of them count in row i?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `lengths[:, None]` is a column. Compare a row with it, and broadcasting makes the whole mask; a mask of `True` and
# `False` times a float tensor keeps the float tensor's dtype.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "masked_mean", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:helpers-at-home", "needs:stretching", "needs:places"]
def masked_mean(x, lengths):
    """The mean of each row's first numbers, in the place and the dtype of `x`."""
    ### BEGIN SOLUTION
    mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x * mask).sum(dim=1) / lengths
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "masked_mean_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("masked_mean")

# %% [markdown]
# ## What the optimizer will not take
#
# An *optimizer* does the step of unit 1 for you. `torch.optim.SGD([w], lr=0.1)` is given the tensors that shall move,
# and its `step()` moves each of them by `lr` times its gradient, downwards. What it takes are *leaves*: tensors that no
# recorded operation made, and others only on special request. Is this line, with `place` one of the two, good for an
# optimizer?
#
# ```python
# w = torch.randn(3, requires_grad=True).to(place)
# ```
#
# Answer with a list of two, for `"cpu"` and for `"sim"`: `True` if `w` is a leaf there.

# %% tags=["prediction"]
commit("moved_leaf", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:leaf-on-arrival", "form:worked", "needs:twins", "needs:first-gradient"]
@reveal("moved_leaf", see="What the optimizer will not take", answers=2)
def _():
    leaves = []
    for place in ("cpu", "sim"):
        w = torch.randn(3, requires_grad=True).to(place)
        leaves.append(w.is_leaf)
        try:
            torch.optim.SGD([w], lr=0.1)
            print(f"{place}: leaf {w.is_leaf}, the optimizer takes it")
        except ValueError as error:
            print(f"{place}: leaf {w.is_leaf}, made by {w.grad_fn.name()}; the optimizer: {error}")
    return leaves


# %% [markdown]
# A real move is an operation, and on a tracked tensor torch records it. So `w` is a *result*, of a tensor on the
# CPU that has no name any more, and the gradient goes there. On the CPU `.to` does nothing, and all seems well.
#
# The order decides. Make it there, or move first and track afterwards:

# %% tags=["demonstration", "teaches:leaf-on-arrival", "form:worked", "needs:photocopies"]
start = torch.randn(3)
made = {
    "torch.randn(3, device=device, requires_grad=True)": torch.randn(3, device=device, requires_grad=True),
    "start.to(device).requires_grad_()": start.to(device).requires_grad_(),
    "start.to('cpu').requires_grad_()": start.to("cpu").requires_grad_(),
}
for line, w in made.items():
    print(f"{line:50} leaf {w.is_leaf}, on {w.device}, start itself: {w is start}")
print("start is tracked now:", start.requires_grad)

# %% [markdown]
# The third line is the second with another place, and it has put a flag on somebody else's tensor: where `.to` has
# nothing to do, it hands back what it was given. `start.to(device, copy=True)` copies in any case.

# %% [markdown]
# ### Exercise: a leaf on arrival (depth, repair)
#
# This is how a colleague makes weights:


# %% tags=["demonstration", "needs:leaf-on-arrival"]
def broken_make_param(init, device):
    return torch.as_tensor(init).requires_grad_().to(device)


print(broken_make_param([0.5, 2.0], "cpu").is_leaf, broken_make_param([0.5, 2.0], "sim").is_leaf)

# %% [markdown]
# Repair it as `make_param(init, device)`. `init` is a list of numbers or a tensor of any shape: whole numbers or
# floats, in any place, tracked or not, even the result of recorded operations.
#
# Return a float32 tensor on `device` with the values of `init`. It is a leaf, it is tracked, and it has its own memory,
# so that whoever edits `init` later does not move the weight. `init` stays as it was, its flag included.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four things to do: leave the past behind, bring it to the right place and dtype, own the memory, track. Which comes
# last?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `.detach()` leaves the past behind without copying. `.to` takes a device, a dtype and `copy=True` together.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "make_param", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:leaf-on-arrival", "needs:twins", "needs:photocopies"]
def make_param(init, device):
    """A tracked float32 leaf on the device, with the values of `init` and its own memory."""
    ### BEGIN SOLUTION
    values = torch.as_tensor(init).detach()
    return values.to(device, torch.float32, copy=True).requires_grad_()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "make_param_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("make_param")

# %% [markdown]
# ## A copy only where it must be
#
# Back to the two histories. `.detach()`, `.cpu()`, `.numpy()` and `.to()` all give you the values, and none of them
# promises a copy by itself. Which of them looked through another window, and which took a picture? Here `w` is edited after five
# lines that keep it:

# %% tags=["demonstration", "teaches:kept-values", "form:worked", "needs:sharing-or-copying", "needs:twins"]
for place in ("cpu", "sim"):
    w = torch.ones(1, device=place)
    kept = {
        "w.detach()": w.detach(),
        "w.detach().cpu()": w.detach().cpu(),
        "w.detach().cpu().numpy()": w.detach().cpu().numpy(),
        "w.detach().clone()": w.detach().clone(),
        "w.detach().cpu().clone()": w.detach().cpu().clone(),
    }
    w += 1
    for line, value in kept.items():
        print(f"{place:4} {line:26} {value.item()}")

# %% [markdown]
# `.cpu()` copies only if it has to. From an accelerator it has to; on the CPU it hands over the tensor itself, and every
# later edit rewrites the whole log. `.clone()` copies always. For one number there is `.item()`, which gives a number of
# Python's.
#
# So this line, from the same lesson, is right for a loss, which nobody edits, and wrong for a weight on the CPU:
# `history.append(w.detach().cpu().numpy())`.

# %% [markdown]
# ### Exercise: a log that stays (depth, review)
#
# This runs on a laptop and on a GPU. Judge it: which of its entries are right, and where?


# %% tags=["demonstration", "needs:kept-values"]
def broken_weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(w.cpu())
    return log


# %% [markdown]
# Mend it as `weight_log(w, step, steps)`. `w` is a float tensor, tracked or not, on any device; each call of `step()`,
# without arguments, edits `w` in place. Call it `steps` times.
#
# Return a list of `steps` tensors: what `w` was after each step. Each is on the CPU and untracked, of the dtype and
# shape of `w`, and shares no memory with `w` or with another entry.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three demands: on the CPU, no past, own memory. Which of them does `w.cpu()` meet on the CPU, and which on the
# accelerator?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The last demonstration shows five lines. One of them meets all three demands in both places.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "weight_log", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:kept-values", "needs:twins"]
def weight_log(w, step, steps):
    """What `w` was after each step, as untracked tensors on the CPU."""
    ### BEGIN SOLUTION
    log = []
    for _ in range(steps):
        step()
        log.append(w.detach().cpu().clone())
    return log
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "weight_log_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("weight_log")

# %% [markdown]
# What follows asks what crossing costs: waiting, memory, and time.

# %% [markdown]
# ## Who waits for whom
#
# The lesson also says that data does not come back to the CPU unless you explicitly ask. Which of these lines ask?
# An accelerator works through its orders while Python runs on. Whenever Python needs a *value*, it must wait until the
# orders are done. `t` is a whole number on the accelerator. How often does each line wait?
#
# ```python
# t + 1
# if t > 0: pass
# f"{t}"
# range(t)
# t.tolist()
# t.shape
# ```
#
# Answer with a list of six whole numbers.

# %% tags=["prediction"]
commit("waits", answer=None, confidence=None, answers=6)


# %% tags=["demonstration", "teaches:host-waits", "form:worked", "needs:places"]
@reveal("waits", see="Who waits for whom", answers=6)
def _():
    t = torch.tensor(3, device=device)
    found = []
    for line in ("t + 1", "if t > 0: pass", 'f"{t}"', "range(t)", "t.tolist()", "t.shape"):
        with accelerator.counts() as seen:
            exec(line, {"t": t})
        found.append(seen.syncs)
        print(f"{line:16} waits {seen.syncs}")
    return found


# %% [markdown]
# No line says "wait", and four of the six do. In a loop that reads a loss in every step, the accelerator stands idle
# once for every step. Ten steps, read in each of them or once at the end:

# %% tags=["demonstration", "teaches:host-waits", "form:worked"]
losses = [torch.tensor(float(number), device=device) for number in range(10)]
with accelerator.counts() as each:
    total = 0.0
    for loss in losses:
        total += loss.item()
print("item() in every step:", total, " waits:", each.syncs)
with accelerator.counts() as once:
    total = torch.zeros((), device=device)
    for loss in losses:
        total += loss.detach()
    total = total.item()
print("item() at the end:   ", total, " waits:", once.syncs)

# %% [markdown]
# `.detach()` matters where the loss is tracked: a running total of tracked losses is itself a result, and keeps alive
# what is recorded for each of them.

# %% [markdown]
# ### Exercise: a log that waits less (depth, review)
#
# This logs the mean loss of every window of `every` steps. Find what is wrong with it; there are two things, and no
# error shows either.


# %% tags=["demonstration", "needs:host-waits"]
def broken_window_means(step, steps, every):
    means, total = [], 0.0
    for number in range(1, steps + 1):
        total += step().item()
        if number % every == 0:
            means.append(total / every)
            total = 0.0
    return means


print(broken_window_means(lambda: torch.tensor(1.0, device=device), 7, 3))

# %% [markdown]
# Mend it as `window_means(step, steps, every)`. `step()`, without arguments, takes one step of a training and returns its
# loss: a tracked tensor without dimensions, on any device. Call it `steps` times; `steps` and `every` are whole numbers
# from 1.
#
# Return a list of floats, one for each window: the mean of its losses. Where `steps` is no multiple of `every`, the last
# window is shorter, and its mean is that of the losses it has.
#
# Python waits for a value at most once for each window, and what was recorded for a loss is not kept beyond its step.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What can you add to without knowing its value? When does a window end, besides at a multiple of `every`?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `total = total + step().detach()` stays on the device. Count the losses of the window along with it.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "window_means", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:host-waits", "needs:places"]
def window_means(step, steps, every):
    """The mean loss of each window of `every` steps, as floats."""
    ### BEGIN SOLUTION
    means = []
    for start in range(0, steps, every):
        count = min(every, steps - start)
        total = 0.0
        for _ in range(count):
            total = total + step().detach()
        means.append(total.item() / count)
    return means
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "window_means_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("window_means")

# %% [markdown]
# ## A module moves itself
#
# A *module* (`nn.Module`) is an object that holds weights, and it has a method `to` as well. Same word, another
# contract. Here are four tensors in one module:


# %% tags=["demonstration", "teaches:passengers", "form:worked", "needs:twins", "needs:leaf-on-arrival"]
class Luggage(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.ones(3))
        self.mask = torch.ones(3)
        self.inner = nn.Linear(3, 1)


model = Luggage()
before = model.weight
moved = model.to(device)
print("moved is model:             ", moved is model)
print("the same weight, still leaf:", model.weight is before, model.weight.is_leaf)
for name in ("weight", "scale", "mask", "inner.weight"):
    owner = model.inner if "." in name else model
    print(f"{name:13} on {getattr(owner, name.split('.')[-1]).device}")

# %% [markdown]
# The module moved itself, so that there is no other one left behind. It does what a tensor's own `.to` never does: on
# the way to an accelerator each of its weights is the same object as before, with its numbers in another place, so that
# an optimizer that was given the weights still holds the right ones. On the passenger list are parameters, buffers and the modules inside. `mask` is
# a plain attribute and stayed: `register_buffer` puts a tensor on the list that is no weight.

# %% [markdown]
# ### Exercise: a module for any place (depth, repair)
#
# This module multiplies rows by a table of weights, some of which a mask switches off, and by one more number. Each row
# gets a 1 at its end first, for a weight that is added as it is. Four things tie the module to the CPU, to float32, or
# keep a weight from learning:


# %% tags=["demonstration", "needs:passengers", "needs:helpers-at-home", "needs:host-waits"]
class BrokenMasked(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask
        self.weight = nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.tensor(1.0, requires_grad=True)

    def forward(self, x):
        x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale.item()


print(BrokenMasked(torch.tensor([[True, False, True]]))(torch.tensor([[5.0, 7.0]])))

# %% [markdown]
# Repair it as `Masked(mask)`, of the same arithmetic and the same start. `mask` is a bool table of shape (outputs,
# inputs + 1), on the CPU; `x` has shape (rows, inputs), and is where the module is and of its float dtype.
#
# - After `module.to(place, dtype)` the module works there, and the output is where `x` is and of its dtype.
# - `parameters()` lists `weight` and `scale` and nothing else. Both get gradients from what the module returns.
#   `state_dict()`, which gives by name what belongs into a file, has `mask` as well.
# - A `copy.deepcopy` of the module returns what the module returns.
# - In `forward` nothing crosses between places, and Python waits for no value.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which of the three attributes are on the passenger list of `Luggage` above, and as what should the others be put there?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Two calls in `forward` are left. Of which tensor could the column of ones take place and dtype? And what does a number
# from `.item()` know of the weight it was read from?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "Masked", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:passengers", "needs:helpers-at-home", "needs:host-waits"]
class Masked(nn.Module):
    """Rows times a masked table of weights, times a scale, in any place and float dtype."""

    def __init__(self, mask):
        super().__init__()
        ### BEGIN SOLUTION
        self.register_buffer("mask", mask)
        self.weight = nn.Parameter(torch.ones(mask.shape))
        self.scale = nn.Parameter(torch.tensor(1.0))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "Masked_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("Masked")

# %% [markdown]
# ## How much fits
#
# A device has so many bytes, and a tensor holds its share until no name, no list and no window leads to it any more.
# Let the accelerator have one MiB to spare, and send it batches of shape (256, 64) in float32, keeping each of them
# in a list. Which is the first that does not fit? Answer with its number, counting from 1.

# %% tags=["prediction"]
commit("out_of_memory", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:device-memory", "form:worked", "needs:inferred-dtype"]
@reveal("out_of_memory", see="How much fits")
def _():
    batch, kept = torch.ones(256, 64), []
    print("bytes of one batch:", batch.nbytes)
    with accelerator.limits(capacity=torch.sim.memory_allocated() + 2**20):
        try:
            for _ in range(100):
                kept.append(batch.to(device))
        except torch.OutOfMemoryError as error:
            number = len(kept) + 1
            print(str(error).split(" Tried")[0], "at batch", number)
        kept.clear()
        for _ in range(100):
            latest = batch.to(device)
        print("without the list, 100 batches went through; the last is on", latest.device)
    return number


# %% [markdown]
# The error comes where memory is asked for, which need not be the line that holds too much: here the list does, and
# `.to` is blamed. So look for who keeps, not for who asks.
#
# And measure with a meter that is plugged in. `torch.cuda.memory_allocated()` counts what tensors take on a CUDA device,
# and nothing else:

# %% tags=["demonstration", "teaches:device-memory", "form:worked"]
before = torch.sim.memory_allocated()
large = torch.zeros(2**18, device=device)
print("torch.sim:                        ", torch.sim.memory_allocated() - before, "bytes more")
if not torch.cuda.is_available():
    print("torch.cuda.memory_allocated() says", torch.cuda.memory_allocated())
window = large[:1]
del large
print("torch.sim, with a window of one:  ", torch.sim.memory_allocated() - before, "bytes more")
del window
print("torch.sim, with no name left:     ", torch.sim.memory_allocated() - before, "bytes more")

# %% [markdown]
# ## Order taken, dinner not cooked
#
# Workshop. A GPU takes an order and lets Python go on; `sim` does not, so that this needs a model. A `Kitchen` takes
# orders at once, and carries them out when somebody waits. It has a clock of its own.

# %% tags=["demonstration", "teaches:honest-timing", "form:worked", "needs:host-waits"]
kitchen = cases.Kitchen()
start = kitchen.clock()
kitchen.order(2.0)
print("read when the order is taken: ", round(kitchen.clock() - start, 3), "seconds")
start = kitchen.clock()
kitchen.order(2.0)
kitchen.wait()
print("read after the wait:          ", round(kitchen.clock() - start, 3), "seconds")
start = kitchen.clock()
kitchen.order(2.0)
kitchen.wait()
print("once more, nothing left over: ", round(kitchen.clock() - start, 3), "seconds")

# %% [markdown]
# The first reading timed placing an order. The second timed two dinners, because the first was still waiting to be
# cooked. Only the third is a measurement: wait, start the clock, work, wait, read the clock. On CUDA the wait is
# `torch.cuda.synchronize()`.
#
# The same holds for values. A copy that is only ordered, as by `.to("cpu", non_blocking=True)` from a GPU, need not have
# arrived when Python goes on:

# %% tags=["demonstration", "teaches:honest-timing", "form:worked"]
source, arrived = torch.ones(2), torch.zeros(2)
kitchen.order(1.0, lambda: arrived.copy_(source))
print("read at once:        ", arrived.tolist())
kitchen.wait()
print("read after the wait: ", arrived.tolist())

# %% [markdown]
# Two more things disturb a stopwatch: the first call is often slow, because something is loaded or compiled, and now and
# then one call is, for reasons of the machine. A call before the clock starts deals with the one, and the *median* of several
# timings with the other.

# %% [markdown]
# ### Exercise: an honest stopwatch (workshop, complete)
#
# `bench(fn, sync, clock, repeats)` measures how long `fn()` takes. `fn` may only order work, `sync()` returns when all
# ordered work is done, `clock()` gives the time in seconds; all three take no arguments. There may be work waiting when
# you begin, and the first call of `fn` is slower than the rest.
#
# Call `fn` once without timing it. Then time it `repeats` times, each time from no work waiting to all work done, and
# return the median of the timings. Complete the loop.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Before you start the clock and before you read it, ask: is anything still waiting to be done?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The first call orders work too. After it, and after each timed call, `sync()`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "bench", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:complete", "teaches:honest-timing", "needs:host-waits"]
def bench(fn, sync, clock, repeats):
    """The median time of a call of `fn` with all the work that it orders, in seconds."""
    timings = []
    ### BEGIN SOLUTION
    fn()
    sync()
    for _ in range(repeats):
        start = clock()
        fn()
        sync()
        timings.append(clock() - start)
    ### END SOLUTION
    return statistics.median(timings)


# %% nbgrader={"grade": true, "grade_id": "bench_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("bench")

# %% [markdown]
# ## To keep
#
# Two functions for your own code. The first says where everything is that a batch or a program holds. The second counts
# what a call costs; where it says that a step waits ten times, you know what to look for.


# %% tags=["demonstration", "needs:places", "needs:host-waits", "needs:few-trips"]
def places_of(**tensors):
    """The names of the tensors by place, for example {'cpu': ['x'], 'sim:0': ['y']}."""
    found = {}
    for name, tensor in tensors.items():
        found.setdefault(str(tensor.device), []).append(name)
    return found


def crossings(function, *arguments):
    """What a call sent across and how often it waited, in one line."""
    with accelerator.counts() as seen:
        function(*arguments)
    return f"{seen.transfers} trips, {seen.bytes_to_device + seen.bytes_to_host} bytes, {seen.syncs} waits"


print(places_of(x=torch.ones(2), y=torch.ones(2, device=device), z=torch.zeros(3)))
print(crossings(lambda batch: batch.to(device).sum().item(), torch.ones(4, 3)))

# %% [markdown]
# ## Where this bites in practice
#
# - [discuss.pytorch.org 28461](https://discuss.pytorch.org/t/how-to-define-a-leaf-tensor/28461): a weight is tracked and
#   then moved, and is no leaf any more.
# - [PyTorch-Wavelet-Toolbox, pull request 19](https://github.com/v0lta/PyTorch-Wavelet-Toolbox/pull/19): helper tensors
#   made on the CPU inside functions that run on GPUs.
# - [allennlp, issue 5652](https://github.com/allenai/allennlp/issues/5652): a tensor on a GPU is handed to NumPy.
# - [pytorch, issue 126097](https://github.com/pytorch/pytorch/issues/126097): another line that gives one result on a CPU
#   and another on a GPU: a block of a table is overwritten with its own transpose.
# - [mrdbourke/pytorch-deep-learning](https://github.com/mrdbourke/pytorch-deep-learning): a much used course has to note
#   that the moved tensor must be assigned.

# %% [markdown]
# ## What you can do now
#
# | You can | You did it in |
# |---|---|
# | Say where every tensor of a program lives, and which line will refuse to mix two places. | `placement`, `masked_mean`, `Masked` |
# | Choose a device on a machine that you have not seen, without asking for one that is not there. | `pick_device` |
# | Move a batch of any form in as few trips as it has tensors. | `to_device`, `one_trip` |
# | Make a weight that is a leaf where it is used, and keep its past values apart from it. | `make_param`, `weight_log` |
# | Count how often a program waits for its device, and have it wait less. | `window_means` |
# | Measure time and memory on a device so that the numbers mean what they say. | `bench` |

# %% [markdown]
# ## In five sentences
#
# 1. A tensor lives in one place, and its `.to` leaves it there: you get a twin elsewhere, or the tensor itself where
#    nothing has to change.
# 2. Arithmetic wants all its tensors in one place and leaves the result there; only a CPU tensor without dimensions may
#    join from elsewhere.
# 3. A move of a tracked tensor is an operation, so make weights where they will live, or track them on arrival.
# 4. `.cpu()` copies only where it must, `.detach()` and `.numpy()` never do, so a program that keeps values clones them.
# 5. Every trip, every value that Python reads and every byte that somebody keeps has its price, and all three can be
#    counted on any machine.
