# %% [markdown]
# # 4 Running backward
#
# The graph is there, and `backward()` follows it from the loss to the leaves. This unit does what it does by hand, one
# operation at a time, until nothing about it is left to believe. At the end a program of your own takes its place and
# trains a network.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before
# most results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).

# %% tags=["setup"]
import inspect
import pathlib
import warnings
from collections import Counter

import numpy
import torch
from autogradlab import check, commit, figures, graph, reveal, unit
from torch.nn import functional as F

cases = unit("04_running_backward")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up

# %% [markdown]
# ## Warm-up: four questions
#
# A look back at the units before. The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.

# %% tags=["demonstration", "needs:stretching"]
print(cases.warm_up(7))

# %% [markdown]
# When the program has run: how many elements has `table`, how many nodes has the graph behind `x` (the leaf's own node
# counts too), how many routes lead from `x` to `w`, and is `y` a leaf? Answer with a list of four, for example
# `[8, 3, 2, True]`, and give your number as the variant.

# %% tags=["prediction"]
commit("warm_up", answer=None, confidence=None, variant=None, answers=4)


# %% tags=["demonstration", "needs:walking", "needs:leaves-and-results", "needs:photocopies"]
@reveal("warm_up", see="Warm-up: four questions", answers=4)
def _(variant):
    names = {}
    exec(cases.warm_up(variant), names)
    table, w, x, y = (names[name] for name in ("table", "w", "x", "y"))
    print("Each doubling is one node, and doubles the routes; detach() leaves the history behind.")
    return [table.numel(), len(graph.graph(x).nodes), torch.autograd.grad(x, w)[0], y.is_leaf]


# %% [markdown]
# ## A slope for each operation
#
# The first unit asked about `loss = (w * x + 1) ** 2` at `w = 2`, `x = 3`. A published lesson says 48 and 72 for the
# gradients in `x` and `w`; torch said 28 and 42. Who is right can be worked out without torch.
#
# The program is three operations: a product, a sum, which we call `z`, and a square. Each has a *slope of its own*: how
# many times as far its result moves as one of its inputs, where that moves a little. Nudge each input by a thousandth and
# look:


# %% tags=["demonstration", "teaches:local-slopes", "form:worked", "needs:first-gradient"]
def nudged(operation, value, by=0.001):
    """How much the result of an operation moves for each unit that its input moves."""
    return (operation(value + by) - operation(value)) / by


print(f"w * x in w, at x = 3:     {nudged(lambda w: w * 3.0, 2.0):.3f}")
print(f"w * x in x, at w = 2:     {nudged(lambda x: 2.0 * x, 3.0):.3f}")
print(f"product + 1, at 6:        {nudged(lambda product: product + 1.0, 6.0):.3f}")
print(f"z ** 2, at z = 7:         {nudged(lambda z: z**2, 7.0):.3f}")

# %% [markdown]
# A product's slope in one factor is the other factor. Adding a constant has slope 1, and a square has twice what goes
# in. (A nudge of a thousandth is not quite little enough to say exactly 14.)
#
# Now put them in a row. If `w` moves by a little, the product moves 3 times as much, `z` as much as the product, and the
# loss 14 times as much as `z`. Along a route slopes *multiply*.

# %% tags=["demonstration", "teaches:local-slopes", "form:worked", "needs:first-gradient"]
print("loss in w:", 14 * 1 * 3)
print("loss in x:", 14 * 1 * 2)
w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
((w * x + 1) ** 2).backward()
print("by torch: ", w.grad.item(), "and", x.grad.item())

# %% [markdown]
# ## You are the engine
#
# `backward()` goes the same way from the other end. It begins with a 1 at the loss, since the loss moves exactly as much
# as itself. Each node takes what arrives and multiplies it by its own slopes. The nodes can do that for you: call one
# with a gradient, and it returns what it sends along its edges.
#
# Start at `loss.grad_fn` with a 1, and hand each result on. What does the square send, what does the sum send to the
# product, and which two numbers does the product send? Answer with a list of four.

# %% tags=["prediction"]
commit("by_hand", answer=None, confidence=None, answers=4)


# %% tags=["demonstration", "teaches:calling-nodes", "form:worked", "needs:local-slopes", "needs:nodes-and-edges"]
@reveal("by_hand", see="You are the engine", answers=4)
def _():
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    loss = (w * x + 1.0) ** 2
    square = loss.grad_fn
    add = square.next_functions[0][0]
    product = add.next_functions[0][0]
    with torch.no_grad():
        sent_by_square = square(torch.tensor(1.0))
        sent_by_add = add(sent_by_square)
        sent_by_product = product(sent_by_add[0])
    print("the square: ", sent_by_square)
    print("the sum:    ", sent_by_add)
    print("the product:", sent_by_product)
    return [sent_by_square, sent_by_add[0], *sent_by_product]


# %% [markdown]
# The sum's second edge leads to `None`, and `None` is what it sends there: nobody asked about the constant. A node with
# one edge returns a tensor, a node with several a tuple. The node of the square has kept its input, 7, and from that it
# computes its slope, 14, when it is called; nothing has been worked out beforehand.
#
# Here is the same run as torch's own engine makes it, one step at a time:

# %% tags=["demonstration", "teaches:calling-nodes", "form:worked", "needs:local-slopes", "needs:nodes-and-edges"]
w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
graph.steps((w * x + 1.0) ** 2, names={"w": w, "x": x})

# %% [markdown]
# ## Two routes
#
# A tensor that is used twice moves the loss in two ways, and the two add up. Take `loss = z ** 2 + 5 * w` with
# `z = w * x + 1` and the same numbers. What is `w.grad`? And how often is a hook called that somebody put on `z`, if the
# loss is `z * 3 + z * 5`? (`z.register_hook(f)` has `f` called with the gradient of `z` on its way down.) Answer with a
# list of two numbers.

# %% tags=["prediction"]
commit("two_routes", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:local-slopes", "form:worked"]
@reveal("two_routes", see="Two routes", answers=2)
def _():
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    z = w * x + 1.0
    (z**2 + 5 * w).backward()
    total = w.grad.item()
    print("through z:", 14 * 3, " directly:", 5, " w.grad:", total)
    seen = []
    z = w * x + 1.0
    z.register_hook(lambda gradient: seen.append(gradient.item()))
    (z * 3 + z * 5).backward()
    print("the hook saw:", seen)
    return [total, len(seen)]


# %% [markdown]
# The hook sees one number, the sum. What arrives at `z` is complete before anything is handed on from there, which is
# why the engine needs no second visit. (The *engine* is the part of torch that goes backward.)

# %% [markdown]
# ## What backward() leaves behind
#
# `z = w * x` with both tracked, `v` a plain tensor, `loss = (z + v) ** 2`, then `g = loss.backward()`, and after that
# `z.retain_grad()`, which asks for the gradient of a result. Which of `g`, `w.grad`, `v.grad`, `z.grad` are `None`?
# Answer with a list of four `True` or `False`.

# %% tags=["prediction"]
commit("left_behind", answer=None, confidence=None, answers=4)


# %% tags=["demonstration", "teaches:deliveries", "form:worked", "needs:leaves-and-results", "needs:first-step"]
@reveal("left_behind", see="What backward() leaves behind", answers=4)
def _():
    w, x, v = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True), torch.tensor(1.0)
    z = w * x
    loss = (z + v) ** 2
    g = loss.backward()
    z.retain_grad()
    print("returned:", g, " w.grad:", w.grad, " v.grad:", v.grad, " z.grad, asked for afterwards:", z.grad)
    print("w itself:", w.item())
    early = w * x
    early.retain_grad()
    ((early + v) ** 2).backward()
    print("z.grad, asked for in time:", early.grad)
    return [g is None, w.grad is None, v.grad is None, z.grad is None]


# %% [markdown]
# `backward()` returns nothing and moves nothing. It leaves a gradient in the `.grad` of every *tracked leaf* that it
# reached; whoever wants that of a result says so before it passes. A weight changes when a line of yours changes it.
#
# There is a call that hands gradients over instead. `torch.autograd.grad(loss, tensors)` returns a *tuple*, one entry for
# each tensor asked about, also where there is only one, and leaves the `.grad` of every leaf alone. (A result that asked
# for its own with `retain_grad()` gets it here too.) Each call below has a graph of its own; *Twice through one graph*
# shows why.

# %% tags=["demonstration", "teaches:asking-for-gradients", "form:worked", "needs:deliveries"]
w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
z = w * x + 1.0
loss = z**2
print("about two leaves and a result:", torch.autograd.grad(loss, (w, x, z)))
print("about one:                    ", torch.autograd.grad((w * x + 1.0) ** 2, w))
print("w.grad afterwards:            ", w.grad)

# %% [markdown]
# ### Exercise: the chain rule by hand (spine, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell. It prints a program and ten questions.

# %% tags=["demonstration", "needs:local-slopes", "needs:deliveries"]
print(cases.chain.script(7))

# %% [markdown]
# Work the answers out on paper. In the answer cell, return your number and a list of ten, each of them a number or
# `None`, as in `return 7, [14, 3, None, ...]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The first four are about one operation each, as if nothing else were there. How much does `w * x - v` move when `v`
# moves up by 1?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# How many routes lead from `loss` to `w`, and how many to `x`? For the last three: what does `backward()` return, whom
# does it reach, and what does it change?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "chain", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:predict", "teaches:local-slopes", "needs:deliveries"]
def chain():
    """Your variant, and the ten answers about its program."""
    ### BEGIN SOLUTION
    return 7, [32, 7, 3, -1, 224, 227, 96, None, None, 3]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "chain_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("chain")

# %% [markdown]
# ## Twice through one graph
#
# Three losses of a tracked vector `x`: `(x ** 2).sum()`, `(x + 1).sum()` and `(x * 3).sum()`. For each, `backward()` is
# called twice on the same loss. For which does the second call raise an error? Answer with a list of three `True` or
# `False`.

# %% tags=["prediction"]
commit("second_call", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:second-pass", "form:worked", "needs:kept-for-backward", "needs:deliveries"]
def twice(loss_of, **first):
    """What a second backward() through one graph does: the error's first words, or x.grad."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = loss_of(x)
    loss.backward(**first)
    once = x.grad.tolist()
    try:
        loss.backward()
    except RuntimeError as error:
        return f"{once}, then {str(error).split(' (')[0]}"
    return f"{once}, then {x.grad.tolist()}"


@reveal("second_call", see="Twice through one graph", answers=3)
def _():
    losses = {
        "(x ** 2).sum()": lambda x: (x**2).sum(),
        "(x + 1).sum()": lambda x: (x + 1).sum(),
        "(x * 3).sum()": lambda x: (x * 3).sum(),
    }
    told = {line: twice(loss_of) for line, loss_of in losses.items()}
    for line, what in told.items():
        print(f"{line:15} {what}")
    print("kept by x * 3: ", (torch.ones(2, requires_grad=True) * 3).grad_fn._saved_other)
    return ["Trying" in what for what in told.values()]


# %% [markdown]
# A pass frees the tensors that nodes have kept. The square kept its input and `x * 3` kept the 3, as a tensor; a second
# pass asks for them and raises an error. Adding keeps no tensor, so that the second pass runs, and `.grad` shows both
# passes added up: a gradient is *added* to what `.grad` holds. (The unit on accumulating gradients is about that.) No
# error says that the loss was counted twice.
#
# `retain_graph=True` has a pass leave everything in place. Then a second one runs through the square, too:

# %% tags=["demonstration", "teaches:second-pass", "form:worked", "needs:kept-for-backward", "needs:deliveries"]
print("retained:        ", twice(lambda x: (x**2).sum(), retain_graph=True))
x = torch.tensor([1.0, 2.0], requires_grad=True)
for _ in range(2):
    (x**2).sum().backward()
print("two forwards:    ", x.grad.tolist())
y = torch.tensor(3.0, requires_grad=True)
cube = y * y * y
cube.backward(retain_graph=True)
print("y ** 3, one pass:", y.grad.item(), end="")
cube.backward()
print(", two:", y.grad.item(), "which is twice as much: each pass begins anew, with a 1")

# %% [markdown]
# So the error is a question: why does this program go backward through one graph twice? Mostly because somebody meant
# to compute forward again. `retain_graph=True` turns the question off, keeps the memory, and where the loss is the same
# one, counts the same data twice.
#
# Recording is another matter: `no_grad` stops new nodes from being made. A pass over nodes that exist needs none.

# %% tags=["demonstration", "teaches:second-pass", "form:worked", "needs:recording"]
x = torch.tensor(2.0, requires_grad=True)
loss = x**2
with torch.no_grad():
    loss.backward()
print("backward() inside no_grad:", x.grad)

# %% [markdown]
# ### Exercise: nine second passes (depth, review)
#
# Nine pieces of code that go backward, most of them more than once:

# %% tags=["demonstration", "needs:second-pass", "needs:asking-for-gradients"]
for letter, piece in cases.passes.items():
    print(letter, inspect.getsource(piece), sep=": ")

# %% [markdown]
# Each gets a tracked leaf `x`, a vector with values between 0.5 and 2 and without a gradient. `again(piece)` gets a
# letter from `"A"` to `"I"`. Return what happens:
#
# - `"raises"` if the piece raises an error; otherwise by what `x.grad` holds in the end,
# - `"none"` if it is `None`,
# - `"once"` if it is the gradient of the loss (of the first, where there are several),
# - `"twice"` if it is twice that,
# - `"more"` if it is anything larger.
#
# You may read, and you may run: `cases.passes["A"](x)`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For each graph: which of its nodes kept something, and has a pass been there that freed it?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Where nothing raises, count deliveries: which calls add to `x.grad`, and which hand their result back?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "again", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:second-pass", "needs:asking-for-gradients"]
def again(piece):
    """What becomes of `x.grad`: "raises", "none", "once", "twice" or "more"."""
    ### BEGIN SOLUTION
    outcomes = {
        "A": "raises",
        "B": "twice",
        "C": "raises",
        "D": "twice",
        "E": "twice",
        "F": "raises",
        "G": "once",
        "H": "once",
        "I": "none",
    }
    return outcomes[piece]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "again_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("again")

# %% [markdown]
# ## Two losses, one trunk
#
# Piece F is common in real programs: two losses are computed from one intermediate result, their *trunk*, and each goes
# backward by itself. The second finds that what the trunk had kept is gone. But the gradient of a sum is the sum of the
# gradients, so the two may as well be added before anybody goes backward:

# %% tags=["demonstration", "teaches:one-pass", "form:worked", "needs:second-pass"]
w = torch.tensor([1.0, 2.0], requires_grad=True)
passes = []
trunk = w.exp()
trunk.register_hook(lambda gradient: passes.append(gradient.tolist()))
a, b = (trunk * 2).sum(), trunk.sum() ** 2
(a + b).backward()
print("w.grad:         ", w.grad)
print("through a alone:", 2 * w.detach().exp())
print("through b alone:", 2 * w.detach().exp().sum() * w.detach().exp())
print("times that the trunk was gone through:", len(passes))

# %% [markdown]
# `torch.autograd.backward([a, b])` does the same without the addition: it starts at several losses and still visits
# each node once.

# %% [markdown]
# ### Exercise: one pass for all losses (depth, repair)
#
# A colleague met the error of piece F and found a way to silence it:


# %% tags=["demonstration", "needs:one-pass"]
def broken_joined(w, trunk, heads):
    losses = []
    h = trunk(w)
    for head in heads:
        loss = head(h)
        loss.backward(retain_graph=True)
        losses.append(loss)
    return losses


w = torch.tensor([0.5, -1.0], requires_grad=True)
print(broken_joined(w, torch.tanh, [torch.sum, lambda h: (h**2).mean()]))

# %% [markdown]
# Repair it as `joined(w, trunk, heads)`. `w` is a tracked leaf without a gradient, `trunk` a function of one tensor,
# and `heads` a list of two functions or more, each of which makes a loss (0-dim) of what the trunk returned. `trunk` and
# the passes through it are counted.
#
# Leave in `w.grad` the gradient of the *sum* of all losses. Compute the trunk once, go through it backward once, and
# leave nothing of it behind that was kept for backward. Return the losses as a list of floats, in the order of `heads`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# All losses must exist before anybody goes backward. What does `sum` do with a list of tensors?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Who asked for the graph to be kept, and does anybody still need it? `.item()` gives a float.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "joined", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:one-pass", "needs:second-pass"]
def joined(w, trunk, heads):
    """The losses as floats; the gradient of their sum is left in `w.grad`."""
    ### BEGIN SOLUTION
    h = trunk(w)
    losses = [head(h) for head in heads]
    sum(losses).backward()
    return [loss.item() for loss in losses]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "joined_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("joined")

# %% [markdown]
# What follows asks about many outputs at once, doubts a gradient and checks it, and replaces
# `backward()`.

# %% [markdown]
# ## Many outputs
#
# Depth. A loss is one number. Here is a function with two outputs of two inputs, `y = matrix @ x` with the matrix
# `[[1, 2], [3, 4]]`, so its slopes are the four numbers of the matrix: the *Jacobian*, one row for each output.
# `y.backward()` raises an error; `y.backward(torch.ones(2))` runs. What does `x.grad` hold then? Answer with a list of
# two numbers.

# %% tags=["prediction"]
commit("ones", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:vector-jacobian", "form:worked", "needs:deliveries", "needs:asking-for-gradients"]
@reveal("ones", see="Many outputs", answers=2)
def _():
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    try:
        (matrix @ x).backward()
    except RuntimeError as error:
        print("backward():", error)
    for weights in ([1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [10.0, 1.0]):
        (mix,) = torch.autograd.grad(matrix @ x, x, torch.tensor(weights))
        print(f"weights {weights}: {mix.tolist()}")
    (matrix @ x).backward(torch.ones(2))
    return x.grad.tolist()


# %% [markdown]
# The weights are what arrives at the last node in place of the 1. A pass starts from a weight for each output and answers
# for that *mix* of outputs alone: with ones it is the sum of the rows, and the single numbers cannot be read from it.
# Weights of 1 and 0 pick out a row. In the trade this product of weights and Jacobian is called a *vector-Jacobian
# product*, and it is all that a node can do.
#
# A mix may cancel out. Of `x - x.mean()` every output has slopes, and their sum is 0 whatever `x` is:

# %% tags=["demonstration", "teaches:vector-jacobian", "form:worked", "needs:deliveries"]
x = torch.tensor([1.0, 2.0, 3.0, 5.0], requires_grad=True)
print("all outputs:     ", torch.autograd.grad(x - x.mean(), x, torch.ones(4))[0].tolist())
print("the first output:", torch.autograd.grad((x - x.mean())[0], x)[0].tolist())
print("x[[0, 0, 2]]:    ", torch.autograd.grad(x[[0, 0, 2]], x, torch.ones(3))[0].tolist())

# %% [markdown]
# The last line picks the first element twice. Its one node adds up what arrives for both.

# %% [markdown]
# ### Exercise: row by row (depth, complete)
#
# `jacobian(f, x)` gets a function and a tracked leaf `x`, a vector of `n` elements. `f(x)` is a vector of `m` elements;
# `n` and `m` may differ. Return the matrix of shape `(m, n)` in whose row `i` stand the slopes of output `i`, in the
# dtype of `x`.
#
# `f` is counted, and is called once. `x.grad` may hold something, and holds it afterwards. The matrix is not tracked.
# The beginning and the end are given.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which weights pick out output `i`? `torch.zeros_like(y)` is a beginning.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Every row is a pass of its own through one graph. What must each of them leave in place for the next?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "jacobian", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:vector-jacobian", "teaches:asking-for-gradients", "needs:second-pass"]
def jacobian(f, x):
    """The slopes of each output of `f` in each element of `x`, one row for each output."""
    y, rows = f(x), []
    ### BEGIN SOLUTION
    for i in range(len(y)):
        weights = torch.zeros_like(y)
        weights[i] = 1.0
        (row,) = torch.autograd.grad(y, x, weights, retain_graph=True)
        rows.append(row)
    ### END SOLUTION
    return torch.stack(rows)


# %% nbgrader={"grade": true, "grade_id": "jacobian_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("jacobian")

# %% [markdown]
# That is one pass for each output, which is why gradients of one loss in a million weights are cheap and the Jacobian of
# a million outputs is not.

# %% [markdown]
# ## Nothing arrived, or a zero
#
# Depth. `loss = 3 * w + 0 * u`, and a third tracked leaf `v` that takes no part. After `loss.backward()`, what are
# `u.grad` and `v.grad`? Answer with a list of two, such as `[3, None]`.

# %% tags=["prediction"]
commit("unreached", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:unreached-leaves", "form:worked", "needs:deliveries", "needs:asking-for-gradients"]
@reveal("unreached", see="Nothing arrived, or a zero", answers=2)
def _():
    w, u, v = (torch.tensor(2.0, requires_grad=True) for _ in range(3))
    loss = 3 * w + 0 * u
    loss.backward()
    print("after backward():  u.grad", u.grad, " v.grad", v.grad)
    loss = 3 * w + 0 * u
    try:
        torch.autograd.grad(loss, v, retain_graph=True)
    except RuntimeError as error:
        print("grad():           ", str(error).split(".")[0])
    print("allow_unused:     ", torch.autograd.grad(loss, v, retain_graph=True, allow_unused=True))
    print("materialize_grads:", torch.autograd.grad(loss, v, materialize_grads=True))
    return [u.grad, v.grad]


# %% [markdown]
# A zero was computed: there is a route, and it came to nothing. `None` says that nothing arrived; here no edge leads
# there. The two are different faults, and filling in zeros hides the one that is in the graph.
#
# Whoever fills in a gradient by hand brings a tensor of the same shape and dtype, on the same device. A number, another
# shape and another dtype are refused:

# %% tags=["demonstration", "teaches:unreached-leaves", "form:worked", "needs:deliveries"]
x = torch.tensor([1.0, 2.0], requires_grad=True)
for value in (0, torch.ones(3), torch.ones(2, dtype=torch.float64), torch.ones(2)):
    try:
        x.grad = value
    except (TypeError, RuntimeError) as error:
        print(f"{type(error).__name__:12}", str(error).split(". ")[0])
    else:
        print("accepted:   ", x.grad)

# %% [markdown]
# ## A second opinion
#
# Depth. A gradient can be checked without knowing how it came about: nudge an input, and see how far the result moves.
# That is the quotient from the beginning of this unit, and how good it is depends on the nudge. `x ** 3` at `x = 2` has
# the slope 12. In float32, what is `((x + 1e-8) ** 3 - x ** 3) / 1e-8`? Answer with a number.

# %% tags=["prediction"]
commit("nudge", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:finite-differences", "form:worked", "needs:local-slopes", "needs:rounding"]
def one_sided(x, step):
    return ((x + step) ** 3 - x**3) / step


def central(x, step):
    return ((x + step) ** 3 - (x - step) ** 3) / (2 * step)


@reveal("nudge", see="A second opinion")
def _():
    print("step     one-sided, float32  central, float32  one-sided, float64  central, float64")
    x = {dtype: torch.tensor(2.0, dtype=dtype) for dtype in (torch.float32, torch.float64)}
    for step in (1e-2, 1e-4, 1e-6, 1e-8):
        quotients = [way(x[dtype], step).item() for dtype in x for way in (one_sided, central)]
        print(f"{step:.0e} {quotients[0]:19.10f} {quotients[1]:17.10f} {quotients[2]:19.10f} {quotients[3]:17.10f}")
    print("from 2 to the next float32:", (torch.nextafter(x[torch.float32], torch.tensor(3.0)) - 2).item())
    return one_sided(x[torch.float32], 1e-8)


# %% [markdown]
# The number after 2 in float32 is more than twenty steps of 1e-8 away, and `x + step` is rounded back to `x`. A step that
# is too small drowns in rounding; one that is too large meets the bend of the curve. In a *central* difference, from both
# sides, the bend cancels out, and what is left shrinks with the square of the step. Here is the error of all four over
# the step:

# %% tags=["demonstration", "teaches:finite-differences", "form:worked", "needs:rounding"]
steps = numpy.logspace(-1, -10, 28)
figure, axes = figures.axes(x="step", y="error of the slope")
for dtype in (torch.float32, torch.float64):
    x = torch.tensor(2.0, dtype=dtype)
    for way in (one_sided, central):
        errors = [abs(way(x, float(step)).item() - 12) + 1e-12 for step in steps]
        axes.loglog(steps, errors, label=f"{way.__name__}, {str(dtype).removeprefix('torch.')}")
figures.show(
    figure,
    alt="Central differences in float64 come closest, at steps between 1e-6 and 1e-5. Each of the four has a best step; "
    "larger steps and smaller ones make it worse.",
)

# %% [markdown]
# ### Exercise: a check of your own (depth, repair)
#
# This function is to give the gradient of any `f` by differences. It runs, and what it gives is no use:


# %% tags=["demonstration", "needs:finite-differences"]
def broken_fd_grad(f, x):
    gradient = torch.zeros_like(x)
    for i in range(x.numel()):
        moved = x
        moved.view(-1)[i] += 1e-8
        gradient.view(-1)[i] = (f(moved) - f(x)) / 1e-8
    return gradient


print(broken_fd_grad(lambda x: (x**3).sum(), torch.tensor([2.0, 3.0])))

# %% [markdown]
# Repair it as `fd_grad(f, x)`. `x` is a float32 or float64 tensor of any shape, also 0-dim, and it may be a transposed
# view. `f` takes a tensor of that shape and returns a 0-dim tensor; it computes in the dtype that it is given, and in
# NumPy, so that autograd finds nothing to follow. Return a new float64 tensor of the shape of `x`: the slopes of `f`, each
# right to one part in a million. `x` stays as it is.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# How many tensors are there after `moved = x`? And in which dtype should `f` compute, whatever `x` is?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Read the picture: which of the four ways, and which step? A copy that lies in one row is easier to walk along than `x`
# itself; `f` gets it back in its shape.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "fd_grad", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:finite-differences", "needs:rounding", "needs:sharing-or-copying"]
def fd_grad(f, x):
    """The slopes of `f` at `x` by central differences, in float64."""
    ### BEGIN SOLUTION
    point, step = x.double().reshape(-1), 1e-5
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up, down = point.clone(), point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / (2 * step)
    return slopes.view(x.shape)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fd_grad_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("fd_grad")

# %% [markdown]
# ## Kinks and ties
#
# Depth. `relu` has no slope at 0: from the left it is 0, from the right 1. torch does not refuse; it gives one of the
# allowed slopes, by convention, and the convention is not the same everywhere. What does it give for `x.relu()` at 0,
# and for `x.clamp(min=0)` at 0, which has the same values? Answer with a list of two numbers.

# %% tags=["prediction"]
commit("corner", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:kink-conventions", "form:worked", "needs:finite-differences"]
@reveal("corner", see="Kinks and ties", answers=2)
def _():
    slopes = {line: cases.slope_at("[0.0]", line) for line in ("x.relu()", "x.clamp(min=0.0)")}
    for line, slope in slopes.items():
        print(f"{line:18} at 0: {slope}, a millionth above it: {cases.slope_at('[1e-6]', line)}")
    print("a central difference at the corner:", nudged(lambda x: max(x, 0.0), -0.0005))
    return list(slopes.values())


# %% [markdown]
# The difference of both sides gives one half, which is neither. So test a gradient at points away from the corners. What
# does harm is another thing: an operation whose slope is not finite. The length of a vector can be written in two ways,
# and at zero one of them ends training without an error:

# %% tags=["demonstration", "teaches:kink-conventions", "form:worked", "needs:untaken-branch"]
for line in ("x.norm()", "(x ** 2).sum().sqrt()"):
    print(
        f"{line:22} at [3, 4]: {cases.slope_at('[3.0, 4.0]', line):.1f}   at [0, 0]: {cases.slope_at('[0.0, 0.0]', line)}"
    )
print(f"{'x.sqrt()':22} at [0]:    {cases.slope_at('[0.0]', 'x.sqrt()')}")

# %% [markdown]
# The root's slope at 0 is infinite, and the square behind it has the slope 0; infinity times zero is not a number.

# %% [markdown]
# ### Exercise: an atlas of kinks (depth, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell.

# %% tags=["demonstration", "needs:kink-conventions"]
print(cases.kinks.script(7))

# %% [markdown]
# Where two values tie, `max()` without `dim` and `maximum` share the gradient evenly among those that tie. `clamp` gives
# the slope 1 at its edges, `hardtanh` the slope 0. Most of the rest follows from this section and from the unit on
# building the graph; for what does not, try.
#
# Return your number and a list of eleven, each a number, `"inf"` or `"nan"`, as in `return 7, [0, "nan", 2.5, ...]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The number in front is the slope of the last step, and multiplies whatever comes before it.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# A staircase has one slope nearly everywhere. And a product of infinity and a number other than 0 stays infinite.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "kinks", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:predict", "teaches:kink-conventions", "needs:untaken-branch"]
def kinks():
    """Your variant, and what `x.grad[0]` holds for each of its lines."""
    ### BEGIN SOLUTION
    return 7, [0, 5, 0, 5, 0, 1.25, 2.5, 0, "inf", "nan", 0]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "kinks_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("kinks")

# %% [markdown]
# ## An operation of your own
#
# Depth. An operation is two functions: one computes forward, the other says what its node sends back. As a
# `torch.autograd.Function` both are written by you. `backward` gets what arrives, and returns one gradient for each
# argument of `forward` after `ctx`, `None` for what is no tensor:


# %% tags=["demonstration", "teaches:custom-functions", "form:worked", "needs:calling-nodes", "needs:kept-for-backward"]
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, exponent):
        ctx.save_for_backward(x)
        ctx.exponent = exponent  # a number may lie on ctx; tensors belong in save_for_backward
        return x**exponent

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.exponent * x ** (ctx.exponent - 1), None


x = torch.tensor([2.0, 3.0], requires_grad=True)
y = Power.apply(x, 3)
print("its node:", y.grad_fn.name())
print("behind factors 1 and 10:", torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]))[0].tolist())

# %% [markdown]
# The next operation is `x ** 2 * scale`, with a vector `x` and one number `scale`. There are ways to get its backward
# wrong that raise no error. Which of these four give the right gradients all the same, if the loss is a plain `.sum()`?
#
# - A: `backward` leaves `gradient` out, and returns the slopes
# - B: it returns a gradient in the shape of `x` for the one number
# - C: it returns `None` for both
# - D: `forward` keeps the tensors on `ctx`, as in `ctx.x = x`, and nobody edits them
#
# Answer with a list of four `True` or `False`.

# %% tags=["prediction"]
commit("four_ways", answer=None, confidence=None, answers=4)


# %% tags=["demonstration", "teaches:custom-functions", "form:worked", "needs:version-counter", "needs:stretching"]
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x**2 * scale

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return gradient * 2 * x * scale, (gradient * x**2).sum()


class NoUpstream(Scaled):
    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return 2 * x * scale, (x**2).sum()


class NoSum(Scaled):
    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return gradient * 2 * x * scale, gradient * x**2


class Nothing(Scaled):
    @staticmethod
    def backward(ctx, gradient):
        return None, None


class OnCtx(Scaled):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.x, ctx.scale = x, scale
        return x**2 * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.x * ctx.scale, (gradient * ctx.x**2).sum()


def tried(function, behind=1.0, edit=False):
    """The gradients in x and in scale, or that an error came."""
    x, scale = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(10.0, requires_grad=True)
    h = x.clone()
    loss = (behind * function.apply(h, scale)).sum()
    if edit:
        with torch.no_grad():
            h *= 2
    try:
        loss.backward()
    except RuntimeError:
        return "an error"
    return [grad if grad is None else grad.tolist() for grad in (x.grad, scale.grad)]


@reveal("four_ways", see="An operation of your own", answers=4)
def _():
    right = []
    for function in (Scaled, NoUpstream, NoSum, Nothing, OnCtx):
        print(f"{function.__name__:11} .sum() {tried(function)}")
        print(f"{'':11} a factor of 5 behind {tried(function, behind=5.0)}, edited {tried(function, edit=True)}")
        right.append(tried(function) == tried(Scaled))
    x, scale = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(10.0, requires_grad=True)
    sent = NoSum.backward(NoSum.apply(x, scale).grad_fn, torch.ones(2))[1]
    print("NoSum called directly sends a shape of", list(sent.shape), "for a number")
    return right[1:]


# %% [markdown]
# With a sum behind it, what arrives is a 1 everywhere, and leaving it out shows nothing; a factor behind the operation
# (here 5) brings it out. The surplus of `NoSum` is added up by the engine; a direct call of `backward` shows it. `ctx.x`
# is not watched: an edit between forward and backward goes unnoticed and the gradient is wrong, where `save_for_backward`
# raises an error. And what lies on `ctx` stays there after `backward()`.
#
# `torch.autograd.gradcheck` compares a backward with central differences, for every output by itself. It wants float64;
# in float32 it warns, and here it finds a fault where none is:

# %% tags=["demonstration", "teaches:custom-functions", "form:worked", "needs:finite-differences"]
for function in (Scaled, NoUpstream):
    for dtype in (torch.float64, torch.float32):
        x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        scale = torch.tensor(10.0, dtype=dtype, requires_grad=True)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            right = torch.autograd.gradcheck(function.apply, (x, scale), raise_exception=False)
        print(f"{function.__name__:10} {dtype!s:13} passes {right!s:5} warnings {len(warned)}")

# %% [markdown]
# ### Exercise: mend a backward (depth, review)
#
# This operation is `tanh(x * scale) + shift`. It has passed its only test, a `.sum().backward()` with one row.


# %% tags=["demonstration", "needs:custom-functions"]
class BrokenBend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.x, ctx.scale = x, scale
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        slope = 1 - torch.tanh(ctx.x.data * ctx.scale.data) ** 2
        return slope * ctx.scale, slope * ctx.x, None


# %% [markdown]
# Find what is wrong with it, and mend it as `Bend`. `x` is a table, tracked or not; `scale` is tracked, a vector as long
# as the rows or a single number (0-dim); `shift` is a Python float.
#
# - The gradients are right whatever comes behind. So are their own slopes, if every step of `backward` is one that
#   autograd can record (the next section asks it to).
# - Called directly, as in `Bend.backward(y.grad_fn, gradient)`, `backward` returns a gradient in the shape of `x`, one in
#   the shape of `scale`, and `None`.
# - If `x` was edited in place after `forward`, `backward()` raises an error. After a `backward()`, the result holds
#   nothing of `x` any more.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four things are wrong. Which lines should use `gradient`, which step is hidden from autograd, who looks after tensors
# between forward and backward, and what is added up for `scale`?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `sum_to_size` brings a gradient into a given shape, also into that of a single number.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "Bend", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:custom-functions", "needs:version-counter", "needs:stretching"]
class Bend(torch.autograd.Function):
    """tanh(x * scale) + shift, with a backward of its own."""

    @staticmethod
    def forward(ctx, x, scale, shift):
        ### BEGIN SOLUTION
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner * scale, (inner * x).sum_to_size(scale.shape), None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "Bend_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("Bend")

# %% [markdown]
# ## Slopes of slopes
#
# Depth. The way back computes with tensors, so it can be recorded like a way forward; `create_graph=True` asks for that.
# The gradient then has a history, and can go backward itself. For `y = x ** 3` at `x = 2`: what are the first, the second
# and the third slope? Answer with a list of three numbers.

# %% tags=["prediction"]
commit("slopes", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:slopes-of-slopes", "form:worked", "needs:asking-for-gradients", "needs:recording"]
@reveal("slopes", see="Slopes of slopes", answers=3)
def _():
    x = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x, create_graph=True)
    (third,) = torch.autograd.grad(second, x)
    print("recorded:    ", first)
    (bare,) = torch.autograd.grad(x**3, x)
    try:
        torch.autograd.grad(bare, x)
    except RuntimeError as error:
        print("not recorded:", bare, "and then", error)
    return [first, second, third]


# %% [markdown]
# That is good for more than curvature. A loss may contain a slope: "this function should not be steep" is a term that
# the weights can learn from. Here the slope in the *input* is the term, and its gradient arrives in the weight:

# %% tags=["demonstration", "teaches:slopes-of-slopes", "form:worked", "needs:asking-for-gradients", "needs:vector-jacobian"]
w = torch.tensor([1.0, -2.0], requires_grad=True)
x = torch.tensor([[1.0, 2.0], [0.5, 0.0]], requires_grad=True)
y = (x @ w) ** 2  # one number for each row
(slopes,) = torch.autograd.grad(y.sum(), x, create_graph=True)
print("slope of each row's number in that row:", slopes.tolist())
(slopes**2).sum().backward()
print("what the weight has to say about it:   ", w.grad.tolist())

# %% [markdown]
# `y.sum()` mixes the rows with weights of 1, and nothing is lost: the number of a row depends on that row alone, so each
# row of `slopes` has one contribution.

# %% [markdown]
# ### Exercise: a price on steepness (depth, write)
#
# `penalty(f, x)` gets a function that makes one number of each row of a table, `f(x)` of shape `(rows,)`, and a table `x`
# of shape `(rows, n)`, tracked or not. For each row take the slopes of its number in that row, and their length (the root
# of the sum of their squares). Return the mean over the rows of `(length - 1) ** 2`, 0-dim, in such a way that a
# `backward()` from it reaches the weights inside `f`, and does not reach `x`.
#
# `x` ends as it began, with its flag, and your call changes no `.grad`, neither that of `x` nor of any weight.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `x` may be untracked and must stay so. What can you track in its place?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# One call of `autograd.grad` gives all rows, as in the demonstration. Which argument makes its result something that can
# go backward? `norm(dim=1)` is the length of each row.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "penalty", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:write", "teaches:asking-for-gradients", "needs:slopes-of-slopes", "needs:vector-jacobian"]
def penalty(f, x):
    """How far the slopes of `f` in its rows are from length 1, squared, on average."""
    ### BEGIN SOLUTION
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "penalty_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("penalty")

# %% [markdown]
# ## Who adds up the surplus?
#
# Workshop. A bias `b` of 2 elements is added to a table of 5 rows: `y = table + b`. Each element of `b` is used in five
# places. You call the node of the addition with ones of shape (5, 2). Which shape has what it sends towards `b`?
# And which shape has `b.grad` after `y.sum().backward()`? Answer with a list of two lists.

# %% tags=["prediction"]
commit("surplus", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:sums-at-edges", "form:worked", "needs:calling-nodes", "needs:stretching"]
@reveal("surplus", see="Who adds up the surplus?", answers=2)
def _():
    table, b = torch.ones(5, 2), torch.zeros(2, requires_grad=True)
    y = table + b
    sent = y.grad_fn(torch.ones(5, 2))[1]
    y.sum().backward()
    print("the node sends:", list(sent.shape), " b.grad:", b.grad.tolist())
    return [list(sent.shape), list(b.grad.shape)]


# %% [markdown]
# The node of an addition hands on a gradient for each *use*, in the shape of its output, and so do those of `-`, `*` and
# `/`. The summing is done by the engine, at the edge, before the next node sees anything. The engine knows the shape that
# the receiver expects, because every node remembers for each of its results what it looked like. You find it in
# `_input_metadata`, whose underscore says that another version of torch may name it otherwise; `sum_to_size` does the
# adding up:

# %% tags=["demonstration", "teaches:sums-at-edges", "form:worked", "needs:calling-nodes"]
table, b = torch.ones(5, 2), torch.zeros(2, requires_grad=True)
y = table + b
receiver, index = y.grad_fn.next_functions[1]
shape = receiver._input_metadata[index].shape
print("the receiver expects:  ", shape)
print("summed to it:          ", y.grad_fn(torch.ones(5, 2))[1].sum_to_size(shape))
print("a number for all:      ", torch.ones(5, 2).sum_to_size([]))

# %% [markdown]
# Three more things to know before you build an engine. A node with several results is called with one gradient for each of
# them, `None` for a result of which nothing arrived. Called outside a `no_grad` block, nodes record what they compute with
# tracked tensors. And the node of a leaf, `AccumulateGrad`, does what its name says when it is called:

# %% tags=["demonstration", "teaches:calling-nodes", "form:worked", "needs:nodes-and-edges"]
v = torch.arange(4.0, requires_grad=True)
first, second = v.chunk(2)
chunk = first.grad_fn
print(
    "results of the node:", len(chunk._input_metadata), " nothing for the second:", chunk(torch.ones(2), None).tolist()
)
squares = v * v
print("what a call returns is tracked:", squares.grad_fn(torch.ones(4))[0].requires_grad)
with torch.no_grad():
    print("in no_grad:                    ", squares.grad_fn(torch.ones(4))[0].requires_grad)
leaf = chunk.next_functions[0][0]
leaf(torch.ones(4))
print("v.grad after a call of", leaf.name().split("::")[-1], "is", v.grad.tolist())

# %% [markdown]
# ### Exercise: your own backward (workshop, write)
#
# `my_backward(loss)` gets a 0-dim result of recorded operations and works out what `loss.backward()` would, without
# calling that or `autograd.grad`: it walks the nodes and calls them. Return a dict with one entry for each tracked leaf
# behind the loss: the leaf as key, its gradient as value, in the leaf's shape and with no graph behind it.
#
# Every `.grad` stays as it is, and nothing is freed, so that `loss.backward()` can run afterwards. There may be more
# routes than any walk could take, more nodes in a row than functions may call each other (150), nodes with several
# results, and broadcasting anywhere. All tensors of a graph have one dtype. None of its operations is a Function of your
# own; these are called in another way.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `routes`, in the unit on building the graph, hands numbers down the graph in the right order: it counts the edges into
# each node first, and a node goes on when all of them have been used. What is handed on here in place of a count?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Gradients meet at a node *and* an output index; add up those that meet at the same. At the start there is a
# `torch.ones_like(loss)` at index 0 of `loss.grad_fn`.
#
# </details>

# %% [markdown]
# <details><summary>Hint 3</summary>
#
# For each edge with a node at its end: sum what is sent to the shape that is expected there, put it where it belongs, use
# up the edge. A node returns a bare tensor where it has one edge.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "my_backward", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:write", "teaches:routes-and-nodes", "needs:calling-nodes", "needs:sums-at-edges"]
def my_backward(loss):
    """The gradient of the loss in each tracked leaf behind it, by leaf."""
    ### BEGIN SOLUTION
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            if hasattr(node, "variable"):
                found[node.variable] = arrived[node, 0]
                continue
            sent = node(*(arrived.get((node, index)) for index in range(len(node._input_metadata))))
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "my_backward_tests", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("my_backward")

# %% [markdown]
# ## Your engine trains
#
# scikit-learn's handwritten digits: 64 pixels, 32 numbers in between, 10 classes, at most 64 pictures at a time, a step of
# 0.5 against the gradient, 20 times through the data. The network is four tensors and one line of Python. It is trained
# twice from the same start, once with gradients of `torch.autograd.grad` and once with yours. (`F.cross_entropy` is a loss
# for classes: small where the right class has the largest of the ten numbers by far.)
#
# How far apart are the weights in the end: `"equal"` to the last bit, `"close"` up to rounding, or `"apart"`? Answer with
# a word.

# %% tags=["prediction"]
commit("two_engines", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:input-gradients", "needs:calling-nodes", "needs:asking-for-gradients", "needs:first-step"]
table = torch.from_numpy(numpy.load(pathlib.Path(cases.__file__).with_name("digits.npy")))
table = table[torch.from_numpy(numpy.random.RandomState(0).permutation(len(table)))]
pixels, digits = table[:, :64].float() / 16, table[:, 64].long()
training = len(table) * 4 // 5


def scores(weights, x):
    """Ten numbers for each picture."""
    return (x @ weights[0] + weights[1]).relu() @ weights[2] + weights[3]


def trained(gradients, epochs=20):
    """The weights after training with the gradients that `gradients(loss, weights)` gives."""
    torch.manual_seed(0)
    weights = [torch.empty(size) for size in ((64, 32), (32,), (32, 10), (10,))]
    weights = [weight.uniform_(-0.15, 0.15).requires_grad_() for weight in weights]
    for _ in range(epochs):
        for rows in torch.randperm(training).split(64):
            found = gradients(F.cross_entropy(scores(weights, pixels[rows]), digits[rows]), weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, found, strict=True):
                    weight -= 0.5 * gradient
    return weights


def read(weights, x):
    """How many of the pictures that were kept aside are read, in percent."""
    return 100 * (scores(weights, x).argmax(dim=1) == digits[training:]).float().mean().item()


def with_mine(loss, weights):
    found = my_backward(loss)
    return [found[weight] for weight in weights]


by_torch = trained(torch.autograd.grad)


@reveal("two_engines", see="Your engine trains")
def _():
    print(f"by torch.autograd.grad: {read(by_torch, pixels[training:]):.2f} % of the digits kept aside")
    try:
        by_me = trained(with_mine)
    except NotImplementedError:
        print("my_backward() is not written yet.")
        return "equal"
    print(f"by my_backward:         {read(by_me, pixels[training:]):.2f} %")
    equal = [torch.equal(*pair) for pair in zip(by_torch, by_me, strict=True)]
    print("equal to the last bit, weight by weight:", equal)
    near = all(torch.allclose(*pair, rtol=1e-3) for pair in zip(by_torch, by_me, strict=True))
    return "equal" if all(equal) else "close" if near else "apart"


# %% [markdown]
# For such a network this is what happens inside `backward()`. (torch's engine also runs hooks, serves several devices, and
# frees what was kept as it goes.) Where three gradients or more meet, a program that adds them up in another order may
# differ in the last bit; in this network no two edges lead to one node.

# %% [markdown]
# ## The gradient in the input
#
# `loss.backward()` is mostly asked about weights. The picture is an input like any other, and its gradient says which pixel
# to brighten so that the loss grows. Take the trained network, and move every pixel of the pictures kept aside by 0.1 (the
# brightness runs from 0 to 1) in the direction of the *sign* of its gradient. How many of them does the network still read?
# Answer in percent; a tenth of the right number more or less counts as right.

# %% tags=["prediction"]
commit("pushed", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:input-gradients", "form:worked", "needs:asking-for-gradients"]
@reveal("pushed", see="The gradient in the input", within=0.1)
def _():
    x = pixels[training:].clone().requires_grad_()
    loss = F.cross_entropy(scores(by_torch, x), digits[training:])
    (gradient,) = torch.autograd.grad(loss, x)
    torch.manual_seed(1)
    random_signs = torch.randint(0, 2, x.shape) * 2 - 1
    pushed = read(by_torch, x.detach() + 0.1 * gradient.sign())
    print(f"as they are:               {read(by_torch, x.detach()):5.1f} %")
    print(f"moved with random signs:   {read(by_torch, x.detach() + 0.1 * random_signs):5.1f} %")
    print(f"moved along the gradient:  {pushed:5.1f} %")
    return pushed


# %% [markdown]
# The same size of step does next to nothing in a random direction. In the direction that the gradient names, all 64 small
# moves pull together.

# %% [markdown]
# ## To keep
#
# `my_backward` is one thing to keep, as the answer to what `backward()` does. For your own code here is a shorter one: it
# compares the gradients of a loss with central differences, and names the tensors where they part.


# %% tags=["demonstration", "needs:finite-differences", "needs:asking-for-gradients"]
def suspects(loss_of, **tensors):
    """The names of the tensors in whose gradient autograd and differences part. All tensors are float64 leaves."""
    found = torch.autograd.grad(loss_of(**tensors), list(tensors.values()), materialize_grads=True)
    wrong = []
    for (name, tensor), gradient in zip(tensors.items(), found, strict=True):
        slopes = torch.empty(tensor.shape, dtype=torch.float64)
        for i in range(tensor.numel()):
            ends = []
            for step in (1e-6, -1e-6):
                moved = tensor.detach().clone(memory_format=torch.contiguous_format)
                moved.view(-1)[i] += step
                ends.append(loss_of(**(tensors | {name: moved})).item())
            slopes.view(-1)[i] = (ends[0] - ends[1]) / 2e-6
        if not torch.allclose(gradient, slopes, rtol=1e-3, atol=1e-5):  # as far as gradcheck lets them part
            wrong.append(name)
    return wrong


w = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
for function in (Scaled, NoUpstream):
    print(function.__name__, suspects(lambda w, scale, f=function: (3 * f.apply(w, scale)).sum(), w=w, scale=scale))

# %% [markdown]
# ## Where this bites in practice
#
# - [pytorch, issue 107007](https://github.com/pytorch/pytorch/issues/107007): the gradient of `x - x.mean()` is zero, and
#   somebody reports it as a fault of torch. A pass with ones answers for the sum of the outputs.
# - [wgan-gp, issue 35](https://github.com/caogang/wgan-gp/issues/35): why is there a `[0]` behind `autograd.grad` in a
#   penalty on slopes? Because it returns a tuple.
# - [pytorch, issue 6535](https://github.com/pytorch/pytorch/issues/6535): `None` in place of an error for a tensor that
#   takes no part, and a day of computing lost.
# - [micrograd, issue 53](https://github.com/karpathy/micrograd/issues/53) and
#   [pull request 8](https://github.com/karpathy/micrograd/pull/8): where results keep their gradients, a second pass
#   adds 45 where the first had added 27.
# - [pytorch, issue 25340](https://github.com/pytorch/pytorch/issues/25340),
#   [5569](https://github.com/pytorch/pytorch/issues/5569), and
#   [sru, pull request 171](https://github.com/asappresearch/sru/pull/171): tensors that lie on `ctx`, and memory that
#   does not come back.

# %% [markdown]
# ## In five sentences
#
# 1. Every node multiplies what arrives by its own slopes; along a route slopes multiply, and routes add up.
# 2. `backward()` returns nothing, moves nothing, and adds to the `.grad` of the tracked leaves that it reaches; `None`
#    there says that nothing arrived.
# 3. A pass frees what nodes kept, so that a second pass through the same graph raises an error, or runs and counts twice.
# 4. A pass answers for one mix of outputs: one number needs one pass, and a Jacobian one for each output.
# 5. A custom backward can be wrong without a word, and central differences in float64 are the second opinion.
