# %% [markdown]
# # 1 Creating tensors
#
# If you know NumPy, you know most of what a tensor looks like, and this unit is about the rest. It begins with the
# whole game: in ten minutes you will have run a program forward, backward, and one step down. Everything after that
# answers questions which those ten minutes raise.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before some
# results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain). A wrong guess costs
# nothing.

# %% tags=["setup"]
import inspect
import math
import warnings

import numpy
import torch
from autogradlab import accelerator, check, commit, figures, reveal, unit
from torch.nn import functional as F

cases = unit("01_creating_tensors")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up

# %% [markdown]
# ## A page says 48 and 72
#
# A published lesson shows this program:
#
# ```python
# x = torch.tensor(3.0, requires_grad=True)
# w = torch.tensor(2.0, requires_grad=True)
# z = w * x + 1.0
# loss = z**2
# loss.backward()
# ```
#
# `x.grad` is then how fast `loss` grows when `x` does, and `w.grad` the same for `w`. The page says that they are 48
# and 72. What do you say? Work it out on paper, and answer with a list of two numbers, `x.grad` first.

# %% tags=["prediction"]
commit("two_slopes", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:first-gradient", "form:worked"]
@reveal("two_slopes", see="Three things that happened", answers=2)
def _():
    x = torch.tensor(3.0, requires_grad=True)
    w = torch.tensor(2.0, requires_grad=True)
    z = w * x + 1.0
    loss = z**2
    loss.backward()
    print("z:", z.item(), "  loss:", loss.item())
    print("by hand, 2 * z * w and 2 * z * x:", 2 * z.item() * w.item(), 2 * z.item() * x.item())
    print("by torch, x.grad and w.grad:     ", x.grad.item(), w.grad.item())
    return [x.grad, w.grad]


# %% [markdown]
# ## Three things that happened
#
# `requires_grad=True` asked torch to watch a tensor: it is *tracked*. The two lines in the middle computed a number,
# and torch took notes. `backward()` went through the notes from the end to the beginning and left how fast the loss
# grows with `x` and with `w`, the two that you asked to have watched, in their `.grad`.
#
# And a page was wrong. This course will not ask you to believe numbers: those that matter come out of a cell that you
# can run, and change.

# %% [markdown]
# ## One step down
#
# `w.grad` is positive, so a slightly larger `w` makes the loss larger, and a slightly smaller one makes it smaller. A
# *step* moves `w` by its gradient times a small *learning rate*, downwards. With `w` at 2, a gradient of 42 and a
# learning rate of 0.01, what is `w` after the step, and is the loss at the new `w` below 49? Answer with a list of a
# number and `True` or `False`.

# %% tags=["prediction"]
commit("one_step", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:first-step", "form:worked", "needs:first-gradient"]
@reveal("one_step", see="One step down", answers=2)
def _():
    x = torch.tensor(3.0, requires_grad=True)
    w = torch.tensor(2.0, requires_grad=True)
    loss = (w * x + 1.0) ** 2
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
    after = (w * x + 1.0) ** 2
    print("w:", round(w.item(), 4), "  loss before:", loss.item(), "  loss after:", round(after.item(), 4))
    return [w, after.item() < loss.item()]


# %% [markdown]
# `-=` changes the tensor `w` itself. `with torch.no_grad():` has torch look away: the step is no part of the
# computation whose slopes you want. Without it torch refuses the line, because `w` is a tensor that you asked it to
# watch.

# %% [markdown]
# ### Exercise: one step down (spine, complete)
#
# Complete `step_down(w, x, lr)`. `w` and `x` are tracked float tensors of one value each (shape `()`), their `.grad`
# is None, and `lr` is a float.
#
# Move `w` itself one step down the slope of `(w * x + 1) ** 2`, by `lr` times its gradient. Return the loss from before
# the step as a Python float; `loss.item()` gives that.
#
# `x` does not move, `w` is still tracked, and what `no_grad` switched off is on again. What `.grad` holds at the end is
# up to you.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four lines are missing: one that fills `w.grad`, two that use it, and the `return`.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The demonstration has the first three, with numbers where you have names. It prints where you return.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "step_down", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:complete", "teaches:first-step", "needs:first-gradient"]
def step_down(w, x, lr):
    """The loss before the step, as a float; `w` has moved."""
    loss = (w * x + 1) ** 2
    ### BEGIN SOLUTION
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
    return loss.item()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "step_down_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("step_down")

# %% [markdown]
# That is the whole game. Training a network is these lines in a loop, with more numbers, and with `.grad` set back to
# None before each round: `backward()` adds to what it finds there. Unit 5 is about that. What is still open: where do
# tensors come from, and what did torch decide for you when you typed `3.0`?

# %% [markdown]
# ## A bridge from NumPy
#
# Much has only changed its name: an axis is a `dim`, `concatenate` is `cat`, `copy` is `clone`. `to` converts as
# `astype` does, with one difference that comes below: it copies only where something has to change.

# %% tags=["demonstration", "teaches:beyond-arrays", "form:worked"]
array, tensor = numpy.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
bridge = {
    "array.sum(axis=1)": "tensor.sum(dim=1)",
    "numpy.concatenate([array, array])": "torch.cat([tensor, tensor])",
    "numpy.expand_dims(array, 1)": "tensor.unsqueeze(1)",
    "array.astype(numpy.int64)": "tensor.to(torch.int64)",
    "array.transpose(1, 0)": "tensor.permute(1, 0)",
    "array.copy()": "tensor.clone()",
    "array[array > 2]": "tensor[tensor > 2]",
}
for ours, theirs in bridge.items():
    same = numpy.array_equal(eval(ours), eval(theirs).numpy())
    print(f"{ours:34} {theirs:28} same values: {same}")

# %% [markdown]
# Some names look alike and do something else. The last two pairs are the ones that bite, because neither complains.

# %% tags=["demonstration", "teaches:beyond-arrays", "form:worked"]
for line in ("array.size", "tensor.size()", "array.max(axis=1)", "tensor.max(dim=1)", "array.std()", "tensor.std()"):
    print(f"{line:18} {eval(line)}".replace("\n", " "))
print(f"{'array.dtype':18} {array.dtype}")
print(f"{'tensor.dtype':18} {tensor.dtype}")

# %% [markdown]
# A `dim` given to `max` brings the places along with the values. Inside `std`, NumPy divides the sum of the squares by
# the number of elements, and torch by one less. And `6.0` became 64 bits there, 32 bits here; that gets a section of
# its own.
#
# Then there are two things that no NumPy array can do. A tensor has a place: it can live on a GPU, and operations on it
# run there. And it can be tracked, as you saw. The second device here is simulated, so that a laptop has one too; where it
# cannot be had, the last line says why.

# %% tags=["demonstration", "teaches:beyond-arrays", "form:worked", "needs:first-gradient"]
t = torch.ones(2, requires_grad=True)
print("place:  ", t.device)
print("tracked:", t.requires_grad, "  so its results know where they come from:", (t * 3).grad_fn.name())
print(accelerator.why_unavailable() or torch.zeros(2, device=accelerator.register(note=False)))

# %% [markdown]
# For these two it is worth learning another type. Places are the subject of unit 2, and tracking that of the units
# after it. First: how to make one.

# %% [markdown]
# ## Four constructors
#
# Four calls cover most of what you will need.

# %% tags=["demonstration", "teaches:constructors", "form:worked"]
made = {
    "torch.tensor([0.2, 0.5, 0.3])": torch.tensor([0.2, 0.5, 0.3]),
    "torch.zeros(4, 128)": torch.zeros(4, 128),
    "torch.ones(128)": torch.ones(128),
    "torch.randn(64, 3, 3, 3)": torch.randn(64, 3, 3, 3),
}
for line, one in made.items():
    print(f"{line:30} {one.shape!s:28} {one.dtype} {one.device}")
noise = made["torch.randn(64, 3, 3, 3)"]
print(f"randn: mean {noise.mean().item():.2f}, standard deviation {noise.std().item():.2f}")

# %% [markdown]
# - `tensor` when you have the *values*: data, labels, constants.
# - `zeros` for what will be added to: a state, a counter, a bias at the start.
# - `ones` for what will be multiplied: a scale, a mask that lets everything through.
# - `randn` for weights that must not all be alike: normal numbers, mean 0, standard deviation 1. (`rand` is uniform
#   from 0 up to 1, which it never reaches.)

# %% [markdown]
# The first takes values, the other three take a size. What are the shapes of these four?
#
# ```python
# torch.tensor((2, 3))
# torch.zeros((2, 3))
# torch.tensor(3)
# torch.Tensor(3)
# ```
#
# Answer with a list of four shapes, each a list, like `[[4], [], [5, 5], [1]]`.

# %% tags=["prediction", "needs:constructors"]
commit("values_or_size", answer=None, confidence=None, answers=4)


# %% tags=["demonstration", "teaches:constructors", "form:worked"]
@reveal("values_or_size", see="Values or a size", answers=4)
def _():
    made = [torch.tensor((2, 3)), torch.zeros((2, 3)), torch.tensor(3), torch.Tensor(3)]
    for one in made:
        print(tuple(one.shape), one.dtype, one.tolist())
    return [one.shape for one in made]


# %% [markdown]
# ## Values or a size
#
# `torch.tensor` read the brackets as two values, `zeros` as a size of 2 by 3. `torch.Tensor`, with a capital T, is an
# old constructor that takes a number for a size: three elements, and nobody has written into them. What it shows is
# what lay in that memory before. `torch.empty` says openly what it does: it reserves memory, and you fill it. Run this
# cell a few times. Now and then the leftovers look like zeros, and that is the worst case, because it passes a test.

# %% tags=["demonstration", "teaches:constructors", "form:worked"]
for _ in range(3):
    print("empty:", torch.empty(3).tolist(), "  zeros:", torch.zeros(3).tolist())

# %% [markdown]
# A shape is a `torch.Size`: a tuple that can also count elements. It compares with tuples, unpacks, and can be sliced.

# %% tags=["demonstration", "teaches:constructors", "form:worked"]
shape = torch.randn(64, 3, 28, 28).shape
count, *rest = shape
print(shape, isinstance(shape, tuple), shape == (64, 3, 28, 28), count, rest, shape[2:], shape.numel())

# %% [markdown]
# ## Who chose this dtype?
#
# With `torch.tensor` the values choose: Python's whole numbers make int64, `True` and `False` bool, numbers with a point
# the default dtype, which is float32 until somebody sets another. An array brings its own dtype along, and so does a
# number that NumPy computed. `zeros`, `ones` and `randn` take the default; `full` asks its fill value, and the `_like`
# constructors take over the dtype that they are shown.

# %% tags=["demonstration", "teaches:inferred-dtype", "form:worked", "needs:constructors"]
lines = [
    "torch.tensor([1, 2])",
    "torch.tensor([1, 2.0])",
    "torch.tensor([True, False])",
    "torch.tensor(numpy.array([1.0, 2.0]))",
    "torch.tensor([numpy.mean([1.0, 2.0])])",
    "torch.ones(2)",
    "torch.full((2,), 1)",
    "torch.zeros_like(torch.tensor([1, 2]))",
    "torch.tensor([1, 2], dtype=torch.float32)",
]
for line in lines:
    print(f"{line:44} {eval(line).dtype}")

# %% [markdown]
# Why float32? It takes half the memory of float64, and rounds a number in the eighth digit or so, which learning seldom
# notices. What it means for speed belongs to unit 2.
#
# And why does it matter that a list of whole numbers gives int64? Three lines, two errors, and one that says nothing:

# %% tags=["demonstration", "teaches:inferred-dtype", "form:worked"]
print("bytes of a million numbers:", torch.ones(10**6).nbytes, torch.ones(10**6, dtype=torch.float64).nbytes)
for line in ("torch.tensor([1, 2, 3]).mean()", "torch.tensor([1, 2], requires_grad=True)"):
    try:
        eval(line)
    except RuntimeError as error:
        print(f"{line}\n    {error}")
whole = torch.zeros_like(torch.tensor([1, 2]))
whole[0] = 0.7
print("0.7, written into zeros_like of whole numbers:", whole)

# %% [markdown]
# A mean of whole numbers need not be whole, and a gradient asks what happens when a value moves *a little*. Both want
# a dtype with fractions. The last line cut the fraction off and kept quiet.

# %% [markdown]
# ### Exercise: the start of a layer (spine, repair)
#
# A colleague makes the tensors with which a small layer starts.


# %% tags=["demonstration", "needs:constructors", "needs:inferred-dtype"]
def broken_start_values(rows, inputs, bias):
    bias = torch.tensor(bias)
    return {
        "bias": bias,
        "state": torch.empty(rows, len(bias)),
        "scale": torch.ones_like(bias),
        "kernel": torch.rand(inputs, len(bias)),
    }


print(broken_start_values(2, 3, [4, -1, 0, 2]))

# %% [markdown]
# It runs, and no entry is right for every list. Repair it as `start_values(rows, inputs, bias)`. `rows` and `inputs`
# are ints, `bias` is a list of Python numbers, one for each output: whole ones, fractions or both. Return a dict of
# four new float32 tensors:
#
# - `"bias"`: the listed numbers, tracked (`requires_grad`);
# - `"state"`: zeros, shape (rows, outputs);
# - `"scale"`: ones, shape (outputs,);
# - `"kernel"`: normal random numbers, shape (inputs, outputs), drawn by one call, as they come. Set no seed.
#
# Only `"bias"` is tracked. The list stays as it is.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Print the dtypes of the four entries, once with `[4, -1]` and once with `[4.5, -1]`. Which of them follow the list?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `dtype=torch.float32` and `requires_grad=True` are arguments of all four constructors. `empty` promises nothing, and
# `rand` is not `randn`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "start_values", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:repair", "teaches:constructors", "needs:inferred-dtype"]
def start_values(rows, inputs, bias):
    """Bias, state, scale and kernel of a layer, as float32 tensors in a dict."""
    ### BEGIN SOLUTION
    outputs = len(bias)
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, outputs),
        "scale": torch.ones(outputs),
        "kernel": torch.randn(inputs, outputs),
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "start_values_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("start_values")

# %% [markdown]
# ## Two dtypes meet
#
# A byte, `torch.uint8`, holds whole numbers from 0 to 255. What is `torch.tensor([200], dtype=torch.uint8) + 100`?
# Answer with a number.

# %% tags=["prediction"]
commit("byte", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:promotion", "form:worked", "needs:inferred-dtype"]
@reveal("byte", see="Two dtypes meet")
def _():
    byte = torch.tensor([200], dtype=torch.uint8)
    for line in ("byte + 100", "byte + torch.tensor(100)", "byte + torch.tensor([100])", "byte + 100.0"):
        result = eval(line, {"byte": byte, "torch": torch})
        print(f"{line:28} {result!s:18} {result.dtype}")
    return (byte + 100).item()


# %% [markdown]
# A Python number does not widen a tensor, and 300 wraps around to 44. A tensor *without dimensions*, beside one that
# has some, counts as a number and does not widen it either; a tensor with dimensions does. A change of *kind*, from
# whole numbers to fractions, gets through in any case: `+ 100.0` needs them. The same with two sorts of floats, where
# it costs memory:

# %% tags=["demonstration", "teaches:promotion", "form:worked", "needs:inferred-dtype"]
single = torch.ones(3)
for line in (
    "single + torch.tensor(1.0, dtype=torch.float64)",
    "single + torch.tensor([1.0], dtype=torch.float64)",
    "single + torch.from_numpy(numpy.ones(3))",
    "torch.tensor([7, 8]) / 2",
    "torch.tensor([7, 8]) // 2",
    "torch.tensor([7, 8]) > 7",
):
    print(f"{line:52} {eval(line).dtype}")
try:
    torch.from_numpy(numpy.ones((1, 2))) @ torch.ones(2, 3)
except RuntimeError as error:
    print("and @ refuses:", error)

# %% [markdown]
# So a vector of float64, NumPy's default, plus one of float32 is float64, and a matrix of float64 times one of float32
# stops the program. Convert once, where data comes in.

# %% [markdown]
# ## Which numbers there are
#
# A dtype also decides which numbers exist. A float of 32 bits is never 0.1, only close to it, and beyond 2 to the
# power of 24 it leaves whole numbers out:

# %% tags=["demonstration", "teaches:rounding", "form:worked", "needs:inferred-dtype"]
print("0.1 as float32:           ", torch.tensor(0.1).item())
print("item() == 0.1:            ", torch.tensor(0.1).item() == 0.1)
print("tensor([0.1]) == 0.1:     ", torch.tensor([0.1]) == 0.1)
print("close enough:             ", math.isclose(torch.tensor(0.1).item(), 0.1, rel_tol=1e-6))
print("16777217.0 as float32:    ", torch.tensor(16777217.0).item(), "  as int64:", torch.tensor(16777217).item())
print("arange(1, 1.3, 0.1):      ", torch.arange(1, 1.3, 0.1).tolist())
print("linspace(1, 1.2, 3):      ", torch.linspace(1, 1.2, 3).tolist())

# %% [markdown]
# Of a float tensor `item()` makes a Python float, which has 64 bits: so it is the number that float32 made of 0.1, and
# not equal to the one that 64 bits make of it.
# The tensor of the third line rounds the 0.1 beside it to float32 first, and finds the same number.
#
# Compare floats with a tolerance, keep the numbers that are names (ids, labels) whole, and count elements instead of
# step sizes: an inexact step decides by rounding whether one more fits below the end.

# %% [markdown]
# ### Exercise: shape and dtype (depth, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell. It prints twelve numbered lines.

# %% tags=["demonstration", "needs:promotion", "needs:constructors"]
print(cases.shape_and_dtype.script(7))

# %% [markdown]
# For each line: the shape of the tensor, and its dtype. Work it out before you run any of them.
#
# In the answer cell, return your number and a list with one pair for each line, the shape as a list and the dtype, as
# in `return 7, [[[3], "int64"], [[], "bool"]]` for two lines. `torch.int64` and tuples are as good.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two questions for each line. Are the numbers in the brackets values or a size? And who chooses the dtype: the values,
# the default, or the tensor that was shown?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The last two lines differ in one pair of brackets. How many dimensions has each of the small tensors?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "shape_and_dtype", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:predict", "teaches:promotion", "needs:inferred-dtype"]
def shape_and_dtype():
    """Your variant, and the shape and dtype of each of its lines."""
    ### BEGIN SOLUTION
    lines = cases.tensor_lines(7)
    tensors = [eval(line) for line in lines]
    return 7, [[list(one.shape), one.dtype] for one in tensors]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "shape_and_dtype_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("shape_and_dtype")

# %% [markdown]
# ## Reading a shape error
#
# Many of the errors that you will meet are about shapes, and they are good errors: most name two sizes that had to
# agree, as these do. (`cat` with a `dim` is NumPy's `concatenate` with an `axis`.)

# %% tags=["demonstration", "teaches:shape-errors", "form:worked", "needs:constructors"]
for line in (
    "torch.ones(4, 3) @ torch.ones(5, 3)",
    "torch.ones(4, 3) + torch.ones(4)",
    "torch.cat([torch.ones(4, 3), torch.ones(2, 3)], dim=1)",
    "torch.ones(2, 3).view(4, 2)",
):
    try:
        eval(line)
    except RuntimeError as error:
        print(f"{line}\n    {error}")

# %% [markdown]
# - `mat1 and mat2 ... (4x3 and 5x3)`: the two numbers in the middle, 3 and 5, had to be equal.
# - `tensor a (3) must match ... b (4) at non-singleton dimension 1`: the shapes are lined up *from the right*, so that
#   the 4 of `(4,)` stands below the 3 of `(4, 3)`. Dimensions count from 0.
# - `except in dimension 1`: everywhere else they had to agree, and in dimension 0 there are 4 and 2.
# - `invalid for input of size 6`: 4 times 2 is not 6.

# %% [markdown]
# ## A shape that fits is not enough
#
# An error tells you that two sizes disagree, never which of them is wrong. For that you must know what each dimension
# *means*. Here is a repair that silences an error and ruins the data:

# %% tags=["demonstration", "teaches:reshaping", "form:worked", "needs:shape-errors"]
table = torch.arange(6).reshape(2, 3)
print("table:\n", table)
print("table.view(3, 2), the same line of numbers, cut elsewhere:\n", table.view(3, 2))
print("table.T, rows become columns:\n", table.T)
print("both have the shape", tuple(table.view(3, 2).shape), "and agree:", torch.equal(table.view(3, 2), table.T))

# %% [markdown]
# Three tools change a shape without touching a value: `t[:, None]` (or `unsqueeze(1)`) adds a dimension of size 1 after
# the first, `squeeze(1)` removes dimension 1 where its size is 1 and leaves any other size alone, `reshape` re-reads the
# numbers row by row. `view` is `reshape` that promises not to copy, and refuses where it would have to. A bare
# `squeeze()` removes *every* size of 1, which is one too many when a batch has a single row.

# %% tags=["demonstration", "teaches:reshaping", "form:worked", "needs:shape-errors"]
column = torch.ones(1, 1)
print("squeeze(1):", tuple(column.squeeze(1).shape), "  squeeze():", tuple(column.squeeze().shape))
try:
    table.T.view(6)
except RuntimeError as error:
    print("view:   ", error)
print("reshape:", table.T.reshape(6))
try:
    if table > 2:
        print("never printed")
except RuntimeError as error:
    print("if:     ", error)
print("(table > 2).any():", (table > 2).any().item(), "  (table > 2).all():", (table > 2).all().item())

# %% [markdown]
# ### Exercise: five lines that stop (depth, review)
#
# Each of these lines raises an error. Read the messages.

# %% tags=["demonstration", "needs:shape-errors", "needs:reshaping"]
shapes = {"A": [(4, 3), (2, 3)], "B": [(3, 4), (3,)], "C": [(2, 3), (4, 3)], "D": [(2, 3), (6,)], "E": [(4,), (4, 1)]}
for letter, (first, second) in shapes.items():
    print(inspect.getsource(cases.lines[letter]).strip().replace("\n   ", ""))
    try:
        cases.lines[letter](torch.ones(first), torch.ones(second))
    except RuntimeError as error:
        print(f"    a {first}, b {second}: {error}\n")

# %% [markdown]
# `mended(letter, a, b)` returns what the line was meant to give, as a new tensor:
#
# - A: `a` (rows, features), `b` (classes, features): the score of each row for each class, (rows, classes), a sum of
#   products over features.
# - B: `a` (rows, columns), `b` (rows,): each row plus its own number.
# - C: `a` and `b` with equally many columns: the rows of `a`, then those of `b`.
# - D: `a` (rows, columns), `b` (rows * columns,): `a` read column by column, times `b`.
# - E: `a` (n,), `b` (n, 1), n from 1 up: shape (n, 2), `a` the first column, `b` the second.
#
# Sizes vary from call to call. `a` and `b` stay as they are.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For each letter, write the shapes below each other, lined up from the right, with a name for every dimension. Which
# dimension of `b` belongs to which of `a`?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A and D need the two words that are not each other: transpose and reshape. Try B and E with sizes that differ, then E
# with n = 1.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "mended", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:shape-errors", "needs:reshaping"]
def mended(letter, a, b):
    """What the line of this letter was meant to give."""
    ### BEGIN SOLUTION
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b])
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mended_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("mended")

# %% [markdown]
# ## When no error comes
#
# Shapes that differ are not always refused. *Broadcasting* lines them up from the right, and stretches every size of 1
# to its partner's; a missing dimension counts as 1. That is how one bias is added to a whole batch.

# %% tags=["demonstration", "teaches:stretching", "form:worked", "needs:shape-errors"]
for first, second in [((4, 3), (3,)), ((4, 3), (4, 1)), ((4, 1), (3,)), ((4, 1), (4,)), ((2, 1, 3), (5, 1))]:
    print(f"{first!s:10} + {second!s:7} gives {tuple((torch.ones(first) + torch.ones(second)).shape)}")

# %% [markdown]
# Look at the last but one, and then at this. Twenty points lie exactly on the line `y = 3 * x + 1`; `x` has the shape
# (20, 1), as models like it, and `y` the shape (20,), as files give it. A model `x * w + b` starts at 0 and walks down
# its slope for 300 steps, with the loss `((x * w + b - y) ** 2).mean()`. Which `w` does it arrive at? Answer with a
# number.

# %% tags=["prediction"]
commit("slope_found", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:stretching", "form:worked", "needs:first-step"]
x = torch.linspace(-1, 1, 20).unsqueeze(1)
y = 3 * x.squeeze(1) + 1


def fit(loss_of, steps=300, lr=0.1):
    w, b = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for _ in range(steps):
        w.grad = b.grad = None
        loss = loss_of(x * w + b, y)
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
    return w.item(), b.item(), loss.item()


def plain(pred, y):
    return ((pred - y) ** 2).mean()


def squeezed(pred, y):
    return ((pred.squeeze(1) - y) ** 2).mean()


@reveal("slope_found", see="The perfect model scores worse than no model", within=0.01)
def _():
    found = {"plain": fit(plain), "squeezed": fit(squeezed)}
    for name, (w, b, loss) in found.items():
        print(f"{name:9} w {w:8.6f}   b {b:8.6f}   loss {loss:8.6f}")
    print(f"the plain loss of the true line: {plain(3 * x + 1, y).item():.6f}")
    print(f"the variance of y:               {y.var(correction=0).item():.6f}")
    figure, axes = figures.axes(x="x", y="y")
    axes.plot(x.flatten(), y, linestyle="", label="the points")
    for name, (w, b, _) in found.items():
        axes.plot(x.flatten(), (x * w + b).flatten(), label=f"fitted with the {name} loss")
    figures.show(figure, alt="The squeezed loss finds the line through the points; the plain one finds a flat line.")
    return round(found["plain"][0], 6)


# %% [markdown]
# ## The perfect model scores worse than no model
#
# `(20, 1)` minus `(20,)` is a table of 20 by 20: every prediction compared with every target. The best answer to all
# targets at once is their mean, so the slope goes to 0 and the loss stops at the variance of `y`. The true line scores
# twice as badly. No error, no warning, and a loss that falls as it should. (`correction=0` has torch's `var` divide by
# the number of elements, as NumPy's does.)
#
# One line finds it: print `(pred - y).shape`. One line prevents it: refuse every pair of shapes but those that you
# expect. And `F.mse_loss`, torch's own, at least warns:

# %% tags=["demonstration", "teaches:stretching", "form:worked"]
print("the shape of the difference:", tuple((3 * x + 1 - y).shape))
equal = torch.tensor([1.0, 2.0, 3.0])
print("the loss of three predictions that are all right:", plain(equal.unsqueeze(1), equal).item())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    F.mse_loss(equal.unsqueeze(1), equal)
print("F.mse_loss:", str(caught[0].message).split(". ")[0])

# %% [markdown]
# ### Exercise: a loss that looks at shapes (spine, repair)
#
# Repair `plain` as `mse(pred, y)`. Both are float tensors of N values, each of shape (N, 1) or (N,), in all four
# pairings, N from 1 up; `pred` is tracked. Return the mean of the N squared differences, a tensor of shape `()` through
# which `backward()` leaves a gradient of `pred`'s own shape in `pred.grad`.
#
# Refuse every other pair with a ValueError: different N, any other number of dimensions, a second dimension of another
# size than 1. A row (1, N) is no column, even where N elements meet N.
#
# `pred` and `y` keep their shapes and values.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First look, then compute. `t.shape in ((n,), (n, 1))` asks both questions about a shape at once; where does `n` come
# from?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# When both shapes are known to be right, `reshape(-1)` makes either into (N,). For a tensor without dimensions `len`
# raises a TypeError; `numel()` does not.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "mse", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:repair", "teaches:stretching", "needs:reshaping"]
def mse(pred, y):
    """The mean squared difference of N pairs; ValueError where the shapes are not those of N pairs."""
    ### BEGIN SOLUTION
    n = pred.numel()
    for tensor in (pred, y):
        if tensor.shape not in ((n,), (n, 1)):
            raise ValueError(f"expected shapes ({n},) or ({n}, 1), not {tuple(pred.shape)} and {tuple(y.shape)}")
    return ((pred.reshape(-1) - y.reshape(-1)) ** 2).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "mse_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("mse")

# %% [markdown]
# ## Copy, share, or only a name
#
# Four tensors are made from one array: `torch.tensor(a)`, `torch.as_tensor(a)`, `torch.from_numpy(a)`, and
# `torch.from_numpy(a).clone()`, where `clone` is NumPy's `copy`. Then `a[0] = 9`. Which of the four show the 9? Answer
# with a list of four `True` or `False`.

# %% tags=["prediction"]
commit("who_shows_nine", answer=None, confidence=None, answers=4)


# %% tags=["demonstration", "teaches:sharing-or-copying", "form:worked", "needs:constructors"]
@reveal("who_shows_nine", see="Copy, share, or only a name", answers=4)
def _():
    a = numpy.array([1.0, 2.0, 3.0])
    made = {
        "torch.tensor(a)": torch.tensor(a),
        "torch.as_tensor(a)": torch.as_tensor(a),
        "torch.from_numpy(a)": torch.from_numpy(a),
        "torch.from_numpy(a).clone()": torch.from_numpy(a).clone(),
    }
    a[0] = 9
    for line, one in made.items():
        print(f"{line:28} {one.tolist()}")
    return [one[0].item() == 9 for one in made.values()]


# %% [markdown]
# `torch.tensor` copies, always. `from_numpy` opens a second window on the memory that is there, and `as_tensor` does so
# where nothing has to be converted.

# %% [markdown]
# ## Two windows on one memory
#
# Slices, `view`, `.T`, `expand` and `.numpy()` are such windows too. `.to` and `.float()` copy only if something has to
# change, and hand back the *same tensor* if not:

# %% tags=["demonstration", "teaches:sharing-or-copying", "form:worked"]
single, double = numpy.ones(3, dtype=numpy.float32), numpy.ones(3)
from_single, from_double = torch.from_numpy(single).float(), torch.from_numpy(double).float()
single[0] = double[0] = 9
print("float() of a float32 array:", from_single.tolist(), "  of a float64 array:", from_double.tolist())
t = torch.zeros(2, 3)
print(
    "t.float() is t:            ",
    t.float() is t,
    "  t.to(torch.float32, copy=True) is t:",
    t.to(t.dtype, copy=True) is t,
)
row = t[0]
row[1] = 5
print("a slice was written to:    ", t.tolist())

# %% [markdown]
# So `torch.from_numpy(a).float()`, tested with float64 arrays, is a copy in every test, and shares memory on the day
# when somebody sends float32.

# %% [markdown]
# ## An experiment that could not have failed
#
# How would you test whether `t` shares `a`'s memory? Here are two experiments, and one of them could not have failed:

# %% tags=["demonstration", "teaches:edit-or-rebind", "form:worked", "needs:sharing-or-copying"]
a = numpy.array([1.0, 2.0])
t = torch.from_numpy(a)
a = a + 1  # a new array; the name moved to it
print("after a = a + 1:", t.tolist())
a = numpy.array([1.0, 2.0])
t = torch.from_numpy(a)
a += 1  # the same array, edited
print("after a += 1:   ", t.tolist())

before = torch.tensor([1.0])
same, other = before, before.clone()
same += 1
print("before, after same += 1:", before.tolist(), "  the clone:", other.tolist())

# %% [markdown]
# `t = ...` never copies; it moves the name `t`. `t += ...`, `t[0] = ...`, and methods like `add_` and `zero_`, with an
# underscore at the end, edit the numbers in place, and every name and every window shows it. That is why the step down
# wrote `w -= ...` and not `w = w - ...`.
#
# `x` holds `[1, 2, 3]` and `mask` is `x > 1`. After `x[mask][0] = 5`, what is `x`? Answer with a list of three numbers.

# %% tags=["prediction"]
commit("mask_then_index", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:sharing-or-copying", "form:worked", "needs:edit-or-rebind"]
@reveal("mask_then_index", see="Two windows on one memory")
def _():
    x = torch.tensor([1, 2, 3])
    x[x > 1][0] = 5
    print("a mask, then an index:  ", x.tolist())
    sliced = torch.tensor([1, 2, 3])
    sliced[1:][0] = 5
    print("a slice, then an index: ", sliced.tolist())
    masked = torch.tensor([1, 2, 3])
    masked[masked > 1] = 5
    print("the mask as the target: ", masked.tolist())
    return x


# %% [markdown]
# A mask picks elements that need not lie at even steps, so no window shows them: the first pair of brackets made a
# copy, and the 5 went there. Two more edges of sharing complain at least:

# %% tags=["demonstration", "teaches:sharing-or-copying", "form:worked"]
backwards = numpy.arange(3.0)[::-1]
for line in ("torch.from_numpy(backwards)", "torch.zeros(1).expand(3).add_(1)"):
    try:
        eval(line)
    except (RuntimeError, ValueError) as error:
        print(f"{line}\n    {str(error).split('. ')[0]}")
print("copied first:", torch.from_numpy(backwards.copy()).tolist(), torch.zeros(1).repeat(3).add_(1).tolist())

# %% [markdown]
# An array may be read backwards through memory, and a tensor may not. And `expand` shows one cell three times, so that
# three results would have one place between them.

# %% [markdown]
# ## The photocopier
#
# What happens to tracking when a tensor is copied? `torch.tensor(t)` is a photocopier: the numbers survive, the history
# does not. The same numbers by `stack` keep theirs.

# %% tags=["demonstration", "teaches:photocopies", "form:worked", "needs:first-gradient", "needs:sharing-or-copying"]
a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
torch.set_warn_always(True)  # the first of the two warnings comes only once in a program otherwise
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print("torch.tensor(a * 2):", torch.tensor(a * 2))
    print("torch.tensor([a, b]):", torch.tensor([a, b]))
torch.set_warn_always(False)
print("warnings:", *sorted({str(one.message).split(". ")[0].split("\n")[0] for one in caught}), sep="\n    ")
print("torch.stack([a, b]):", torch.stack([a, b]))
for line in ("a.clone()", "a.detach()", "a.detach().clone()"):
    print(f"{line + ':':20} {eval(line)!s:38} in the memory of a: {eval(line).data_ptr() == a.data_ptr()}")

# %% [markdown]
# `clone()` copies the numbers and stays in the story. `detach()` leaves the story and shares the numbers. Whoever wants
# a copy without a past says both: `t.detach().clone()`.

# %% [markdown]
# ### Exercise: at the border (depth, complete)
#
# Everything that enters a model passes here. Complete `to_model_input(obj)`. `obj` is a list of Python numbers
# (nested or not), an array or a tensor; of any shape (`()` and empty too), of any dtype of whole numbers, floats or
# bools that torch has; an array may be read backwards, a tensor may be tracked or transposed.
#
# Return a new float32 tensor of the same shape and values. It is contiguous (row after row in memory, which
# `t.contiguous()` sees to), is not tracked, and *never* shares memory with `obj`. `obj` stays as it is, values and
# tracking. The line that is given makes `obj` an untracked tensor or an array; go on from there.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which of the inputs are float32 already? Follow one of them through your line: does anything copy it?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `torch.tensor` trips over arrays that are read backwards. `numpy.array(something)` makes a new array out of lists and
# arrays, and `.to(torch.float32, copy=True)` copies whatever the dtype was.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "to_model_input", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:sharing-or-copying", "needs:photocopies"]
def to_model_input(obj):
    """The numbers of `obj` as a contiguous, untracked float32 tensor in memory of its own."""
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    ### BEGIN SOLUTION
    if isinstance(obj, numpy.ndarray):
        obj = torch.from_numpy(obj.copy())
    return obj.to(torch.float32, copy=True).contiguous()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "to_model_input_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("to_model_input")

# %% [markdown]
# ## A seed begins a sequence
#
# `torch.manual_seed(0)`, then `a = torch.rand(2)`, then `b = torch.rand(2)`. Are `a` and `b` equal? And if the three
# lines run again, is the new `b` equal to the old one? Answer with a list of two `True` or `False`.

# %% tags=["prediction"]
commit("two_draws", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:random-streams", "form:worked", "needs:constructors"]
@reveal("two_draws", see="A seed begins a sequence", answers=2)
def _():
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        runs.append([torch.rand(2).tolist(), torch.rand(2).tolist()])
        print("a:", runs[-1][0], "  b:", runs[-1][1])
    return [runs[0][0] == runs[0][1], runs[0][1] == runs[1][1]]


# %% [markdown]
# After a seed, the same calls in the same order give the same numbers again; the second call does not repeat the first.
# And there is *one* sequence for everybody on a device: whoever draws in between moves all later numbers on, and whoever
# seeds begins it anew for all. Here a function seeds, and its caller's "random" numbers repeat:


# %% tags=["demonstration", "teaches:random-streams", "form:worked"]
def broken_sample(shape, seed):
    torch.manual_seed(seed)
    return torch.randn(shape)


for round_number in range(3):
    broken_sample(2, seed=1)
    print("round", round_number, "draws", torch.rand(3).tolist())

# %% [markdown]
# A `torch.Generator` is a sequence of one's own. It gives the numbers that the common one of its device gives for the
# same seed and the same calls, and nobody else's draws touch it. The manual promises this for one version of torch on
# one sort of device: elsewhere a seed may give other numbers.

# %% tags=["demonstration", "teaches:random-streams", "form:worked"]
generator = torch.Generator().manual_seed(1)
print("of one's own:", torch.randn(2, generator=generator).tolist(), torch.randn(2, generator=generator).tolist())
torch.manual_seed(1)
print("of everybody:", torch.randn(2).tolist(), torch.randn(2).tolist())

# %% [markdown]
# ### Exercise: seeds you own (depth, repair)
#
# Repair `broken_sample` as `sample(shape, seed)`. `shape` is an int, a tuple or a `torch.Size`, `seed` an int. Return a
# new float32 tensor, every time the one that `torch.randn(shape)` gives right after `torch.manual_seed(seed)`.
#
# The caller's own random numbers, torch's, NumPy's and Python's, go on as if you had drawn none. Calls do not depend on
# each other, and whoever edits a tensor that you returned changes no later one.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which sequence do you draw from, and who else uses it?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `manual_seed` of a generator returns the generator, and `torch.randn` takes a size of any of the three forms.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "sample", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:random-streams", "needs:constructors"]
def sample(shape, seed):
    """Normal random numbers that depend on the shape and the seed alone."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sample_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("sample")

# %% [markdown]
# What follows uses broadcasting on purpose, and then looks below the shape, at the memory.

# %% [markdown]
# ## Broadcasting on purpose
#
# Depth. What stretched your loss into a table can build tables that you want. A column against a row compares every
# pair, without a loop:

# %% tags=["demonstration", "teaches:stretching", "form:worked"]
hours = torch.tensor([9, 12, 15])
print(hours[:, None] < torch.arange(10, 15))
print((hours[:, None] - hours).abs())

# %% [markdown]
# ### Exercise: one row for each label (depth, write)
#
# `one_hot(labels, classes)` gets an int64 tensor of shape (N,) with labels from 0 to `classes - 1`, on any device, and
# the int `classes`. N may be 0, and some classes may not occur.
#
# Return a new float32 tensor of shape (N, classes) on the device of `labels`: row i holds a 1 in the column of label i
# and 0 elsewhere. It is not tracked, and `labels` stays as it is. However many labels there are, the number of torch
# operations stays below 25: no loop over the labels.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which two shapes stretch to (N, classes), and what would you compare? A new tensor is made where it is needed with
# `device=labels.device`.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A comparison gives a bool tensor. `torch.arange(classes)` is the row of all column numbers.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "one_hot", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:write", "teaches:stretching", "needs:inferred-dtype"]
def one_hot(labels, classes):
    """A table with one row for each label and one column for each class."""
    ### BEGIN SOLUTION
    return (labels.unsqueeze(1) == torch.arange(classes, device=labels.device)).float()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "one_hot_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("one_hot")

# %% [markdown]
# ## Below the shape
#
# Depth. A tensor is a line of numbers in memory, and three facts on how to read it: a *shape*, a *stride* for each
# dimension (how many numbers to go on for the next index there), and an *offset* (at which number to begin). A
# transpose swaps two strides and copies nothing. `expand` is a stride of 0.

# %% tags=["demonstration", "teaches:strides", "form:worked", "needs:sharing-or-copying", "needs:reshaping"]
t = torch.arange(12).reshape(3, 4)
views = ("t", "t.T", "t[1:]", "t[:, 1]", "t[::2, ::3]", "t[0].expand(5, 4)")
for line in views:
    one = eval(line)
    print(f"{line:18} shape {tuple(one.shape)!s:8} stride {one.stride()!s:8} offset {one.storage_offset()}")
begins = {eval(line).untyped_storage().data_ptr() for line in views}
print("lines of numbers:", len(begins), "  numbers in it:", t.untyped_storage().nbytes() // t.element_size())

# %% [markdown]
# So where does a tensor begin? `data_ptr()` is the address of its first element. Does it tell whether two tensors share
# memory?

# %% tags=["demonstration", "teaches:strides", "form:worked"]
pairs = {"t and t[1:]": (t, t[1:]), "t[:, 0] and t[:, 1]": (t[:, 0], t[:, 1]), "t and t.clone()": (t, t.clone())}
for words, (one, other) in pairs.items():
    address = one.data_ptr() == other.data_ptr()
    memory = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    print(f"{words:20} same first address: {address!s:5}  same line of numbers: {memory}")

# %% [markdown]
# ### Exercise: same memory or not? (depth, review)
#
# Before somebody edits a tensor in place, a colleague asks whether another one would change:


# %% tags=["demonstration", "needs:strides"]
def broken_shares_memory(a, b):
    return a.data_ptr() == b.data_ptr()


print(broken_shares_memory(t, t), broken_shares_memory(t, t.T), broken_shares_memory(t, t.clone()))

# %% [markdown]
# Three right answers, and it is wrong. Find where, and mend it as `shares_memory(a, b)`.
#
# `a` and `b` are each a tensor on the CPU, tracked or not, or a NumPy array, of any shape and of one dtype that both
# torch and NumPy have. Return `True` if at least one element of `a` lies in the same place of memory as an element of
# `b`, so that writing it would change both; else `False`. Two columns of one table have no element in common. Empty
# ones share nothing.
#
# When you return, `a` and `b` hold what they held before.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Give each element its address: the first address, and steps of the stride. When do two such sets meet?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# There is no need to compute it by hand. NumPy has an exact test for two arrays, which `dir(numpy)` will show you; it
# takes a tensor that is not tracked for the array over the same memory. `t.detach()` is a window that is not tracked.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "shares_memory", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:strides", "needs:sharing-or-copying"]
def shares_memory(a, b):
    """Whether an element of `a` and one of `b` lie in the same place."""
    ### BEGIN SOLUTION
    arrays = [one.detach() if isinstance(one, torch.Tensor) else one for one in (a, b)]
    return numpy.shares_memory(*arrays)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "shares_memory_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("shares_memory")

# %% [markdown]
# ## Read a table without moving it
#
# Workshop. Now build the reading yourself: from a plain list, a shape, strides and an offset to nested lists. torch can
# show what should come out:

# %% tags=["demonstration", "teaches:strides", "form:worked"]
numbers = torch.arange(10, 22)
for shape, strides, offset in [((3, 4), (4, 1), 0), ((4, 3), (1, 4), 0), ((2, 2), (4, 3), 1), ((2, 3), (0, 1), 5)]:
    print(shape, strides, offset, torch.as_strided(numbers, shape, strides, offset).tolist())

# %% [markdown]
# ### Exercise: a view calculator (workshop, complete)
#
# `window(storage, shape, strides, offset)` gets a flat list of ints, two tuples of equal length, and the number at
# which to begin. Return what the view shows: nested lists, as `tolist()` would give them, and the bare number where
# `shape` is empty. The element at index (i, j, ...) is `storage[offset + i * strides[0] + j * strides[1] + ...]`.
# Every size is at least 1. `storage` stays as it is.
#
# The case without dimensions is given. Complete the other one; the function may call itself.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The first dimension is a list of views with one dimension less. Where does each of them begin?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `shape[1:]` and `strides[1:]` are those of the smaller views. The i-th begins `i * strides[0]` further on.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "window", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:complete", "teaches:strides", "needs:reshaping"]
def window(storage, shape, strides, offset):
    """What a view of this shape, with these strides, shows of the numbers in `storage`."""
    if not shape:
        return storage[offset]
    ### BEGIN SOLUTION
    starts = [offset + i * strides[0] for i in range(shape[0])]
    return [window(storage, shape[1:], strides[1:], start) for start in starts]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "window_tests", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("window")

# %% [markdown]
# ## To keep
#
# Two functions for your own code. The first says in a line what this unit taught you to ask of a tensor. The second
# stands where two shapes must be equal.


# %% tags=["demonstration", "needs:strides", "needs:stretching"]
def about(t):
    """Shape, dtype, place, tracking, layout and bytes of a tensor in one line."""
    tracked = "tracked" if t.requires_grad else "untracked"
    layout = "contiguous" if t.is_contiguous() else f"stride {t.stride()}"
    return f"{tuple(t.shape)} {str(t.dtype)[6:]} on {t.device}, {tracked}, {layout}, {t.nbytes} bytes"


def same_shape(a, b):
    """Passes both on, if they have one shape."""
    if a.shape != b.shape:
        raise ValueError(f"shapes {tuple(a.shape)} and {tuple(b.shape)} would be stretched to fit each other")
    return a, b


print(about(torch.zeros(2, 3, requires_grad=True)))
print(about(torch.from_numpy(numpy.ones((2, 3))).T))
try:
    same_shape(3 * x + 1, y)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Where this bites in practice
#
# - [pytorch, issue 16045](https://github.com/pytorch/pytorch/issues/16045): a regression with predictions of shape
#   [100, 1] and targets of shape [100] does not find its line, and nothing complained. The warning came of it.
# - [FARM, issue 229](https://github.com/deepset-ai/FARM/issues/229): a library for language models squeezed its
#   predictions and not its targets, and a warning gave it away.
# - [mrdbourke/pytorch-deep-learning, issues 926](https://github.com/mrdbourke/pytorch-deep-learning/issues/926) and
#   [1279](https://github.com/mrdbourke/pytorch-deep-learning/issues/1279): a much used course writes
#   `array = array + 1`, sees the tensor unchanged, and concludes that `from_numpy` copies.
# - [pytorch/tutorials, pull request 3733](https://github.com/pytorch/tutorials/pull/3733): a note proposed for the
#   official tutorial, on which conversions share memory.
# - [pytorch, issue 61410](https://github.com/pytorch/pytorch/issues/61410): a list of tracked tensors becomes a tensor,
#   and the tracking is gone.
# - [deepxde, pull request 1318](https://github.com/lululxvi/deepxde/pull/1318): the same in a library for physics,
#   where a reviewer asks why `as_tensor` will not do.

# %% [markdown]
# ## What you can do now
#
# | You can | You did it in |
# |---|---|
# | Run a program forward and backward, and take one step down the slope. | `step_down` |
# | Choose among the constructors, and say of a tensor which shape and dtype it will have before it exists. | `start_values`, `shape_and_dtype` |
# | Read a shape error, and mend the line that raised it. | `mended` |
# | Find broadcasting that nobody asked for, and use it where it is wanted. | `mse`, `one_hot` |
# | Tell from a line of code whether it copies a tensor, shares its memory, or only moves a name. | `to_model_input`, `shares_memory` |
# | Draw random numbers that can be drawn again, without disturbing anybody else's. | `sample` |
# | Explain how one line of numbers in memory becomes tables of any shape. | `window`, `shares_memory` |

# %% [markdown]
# ## In five sentences
#
# 1. A tensor is an array with a place and, if you ask for it, a memory of how it was computed, from which `backward()`
#    works out how a result depends on it.
# 2. `tensor` takes values and lets them choose the dtype; `zeros`, `ones` and `randn` take a size and give float32 by
#    default.
# 3. Most errors about shapes name two sizes that disagree, and broadcasting happens where no error comes: print
#    the shape of a difference before you take its mean.
# 4. `=` moves a name, `+=` edits the tensor under every name, and whether a line copies or shares depends on the line
#    and on what it is given: look it up, and try it out with each.
# 5. A seed begins a sequence that everybody shares, so own a generator where numbers have to come again.
