# %% [markdown]
# # 3 Building the graph
#
# While a program computes forward, PyTorch writes down what it does. The record is called a *graph*, and everything
# that `backward()` can do later depends on what was written. This unit reads the record itself: what a line leaves
# behind, what it keeps, and where it stops.
#
# Exercises marked **spine** carry the unit. **Depth** goes further, **workshop** builds something to keep. Before
# many results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).

# %% tags=["setup"]
import gc
import inspect
import math
import time
import warnings
import weakref
from collections import Counter

import numpy
import torch
from autogradlab import check, commit, graph, memory, output, reveal, unit
from autogradlab.graph.rendering import NoRenderer, svg
from torch import nn

cases = unit("03_building_the_graph")
torch.set_num_threads(1)  # tensors this small are done before a second thread has woken up

# %% [markdown]
# ## Warm-up: four questions
#
# A look back at the units before. The numbers are yours: change 7 to any whole number from 0 to 99, and run the cell.

# %% tags=["demonstration", "needs:constructors"]
print(cases.warm_up(7))

# %% [markdown]
# When the program has run: how many columns has `table`, what is `table[0, 0]`, what is `table[1, 0]`, and what is
# `w`? Answer with a list of four numbers, and give your number as the variant.

# %% tags=["prediction"]
commit("warm_up", answer=None, confidence=None, variant=None, answers=4)


# %% tags=["demonstration", "needs:first-gradient", "needs:sharing-or-copying", "needs:first-step"]
@reveal("warm_up", see="Warm-up: four questions", answers=4)
def _(variant):
    names = {}
    exec(cases.warm_up(variant), names)
    table, w = names["table"], names["w"]
    print("A row is a window on the table, so that += reaches the table, and no other row.")
    return [table.shape[1], table[0, 0].item(), table[1, 0].item(), w.item()]


# %% [markdown]
# ## Eight minutes first: what is back there?
#
# Nothing is explained yet. A result knows how it was made: `grad_fn` names the operation that made it, and
# `next_functions` leads on from there. Look at what these lines print:

# %% tags=["demonstration", "needs:first-gradient"]
x = torch.tensor(3.0, requires_grad=True)
w = torch.tensor(2.0, requires_grad=True)
loss = (w * x + 1.0) ** 2
print(loss.grad_fn)
for entry in loss.grad_fn.next_functions:
    print("   ", entry)
    for further in entry[0].next_functions:
        print("       ", further)

# %% [markdown]
# Write something that counts how many operations lie behind a tensor. Nothing here is graded. After eight minutes go
# on, whatever you have: further down your count stands beside others.


# %% tags=["demonstration", "needs:first-gradient"]
def count_behind(tensor):
    return 0  # your lines


print(count_behind(loss))

# %% [markdown]
# ## What a line leaves behind
#
# `x` is an ordinary tensor here, `w` is tracked. Five lines compute with them; nobody calls `backward()`. Which
# results have a `grad_fn`?
#
# `w * 2`, `x * 2`, `w > 1`, `w.clone()`, `w * x`
#
# Answer with a list of five `True` or `False`.

# %% tags=["prediction"]
commit("recorded", answer=None, confidence=None, answers=5)


# %% tags=["demonstration", "teaches:recording", "form:worked", "needs:constructors"]
@reveal("recorded", see="What a line leaves behind", answers=5)
def _():
    x = torch.tensor(3.0)
    w = torch.tensor(2.0, requires_grad=True)
    results = {"w * 2": w * 2, "x * 2": x * 2, "w > 1": w > 1, "w.clone()": w.clone(), "w * x": w * x}
    for line, result in results.items():
        print(f"{line:10} {result.requires_grad!s:6} {result.grad_fn}")
    return [result.grad_fn is not None for result in results.values()]


# %% [markdown]
# An operation is recorded when a tracked tensor goes in and the operation has a derivative. `grad_fn` stands there
# right after the forward line: the record is made while you walk forward, and `backward()` only follows it. A
# comparison gives `True` or `False`, for which there is no derivative, so nothing is recorded. A copy by `clone()` is
# an operation like any other.
#
# Some lines leave no record on purpose: `detach()` hands the same numbers on without the past, and in a `no_grad`
# block nothing that is computed is recorded. A change of dtype looks as harmless, and is recorded like a product:

# %% tags=["demonstration", "teaches:recording", "form:worked", "needs:sharing-or-copying"]
w = torch.tensor(2.0, requires_grad=True)
print("detach():   ", w.detach().requires_grad, w.detach().grad_fn)
with torch.no_grad():
    print("in no_grad: ", (w * 2).requires_grad, (w * 2).grad_fn)
    print("made there: ", torch.ones(2, requires_grad=True).requires_grad)
print("double():   ", w.double().requires_grad, w.double().grad_fn)

# %% [markdown]
# `no_grad` stops the recording of operations and changes no flag that you set: a tensor made there with
# `requires_grad=True` is tracked.

# %% [markdown]
# ## Leaves and results
#
# A *leaf* is a tensor behind which no history stands. The lesson from which this course grew says that leaves are the
# tensors "you created directly". Is that so? Here are six tensors. Which are leaves?
#
# - `a = torch.ones(2)` and `b = torch.ones(2)`, then `a + b`
# - `torch.ones(2, requires_grad=True)`
# - `torch.ones(2, requires_grad=True) * 2`
# - `torch.ones(2, requires_grad=True).double()`
# - `(torch.ones(2) * 2).requires_grad_()`
# - `(torch.ones(2, requires_grad=True) * 2).detach()`
#
# Answer with a list of six `True` or `False`, for `a + b` first.

# %% tags=["prediction"]
commit("six_leaves", answer=None, confidence=None, answers=6)


# %% tags=["demonstration", "teaches:leaves-and-results", "form:worked", "needs:recording"]
@reveal("six_leaves", see="Leaves and results", answers=6)
def _():
    tracked = torch.ones(2, requires_grad=True)
    tensors = {
        "a + b, not tracked": torch.ones(2) + torch.ones(2),
        "ones, tracked": tracked,
        "tracked * 2": tracked * 2,
        "tracked.double()": tracked.double(),
        "(ones * 2).requires_grad_()": (torch.ones(2) * 2).requires_grad_(),
        "(tracked * 2).detach()": (tracked * 2).detach(),
    }
    print(f"{'':28} is_leaf  tracked  grad_fn")
    for line, tensor in tensors.items():
        name = tensor.grad_fn and tensor.grad_fn.name()
        print(f"{line:28} {tensor.is_leaf!s:8} {tensor.requires_grad!s:8} {name}")
    return [tensor.is_leaf for tensor in tensors.values()]


# %% [markdown]
# Read down the columns: a tensor is a leaf exactly where its `grad_fn` is `None`. Who wrote the line does not matter.
# `ones(...) * 2` is one line of yours, and what it names is a result.
#
# An *optimizer*, such as `torch.optim.SGD`, takes the step down for you, with every tensor that it was given.
#
# Being a leaf matters because `backward()` fills the `.grad` of tracked leaves, and that of a result only where
# somebody asked for it with `retain_grad()`. An optimizer that is made as below refuses any other result:

# %% tags=["demonstration", "teaches:leaves-and-results", "form:worked", "needs:first-gradient"]
named_in_time = (torch.ones(2) * 0.5).requires_grad_()
named_too_late = torch.ones(2, requires_grad=True) * 0.5
asked_for = torch.ones(2, requires_grad=True) * 0.5
asked_for.retain_grad()
(named_in_time + named_too_late + asked_for).sum().backward()
print("named in time:   leaf", named_in_time.is_leaf, "and .grad", named_in_time.grad)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    print("named too late:  leaf", named_too_late.is_leaf, "and .grad", named_too_late.grad)
print("  a warning:    ", str(warned[0].message).split(". ")[0])
print("asked for:       leaf", asked_for.is_leaf, "and .grad", asked_for.grad)
try:
    torch.optim.SGD([named_too_late], lr=0.1)
except ValueError as error:
    print("an optimizer:   ", error)

# %% [markdown]
# In the line of `named_too_late` two tracked tensors were made. The leaf received the gradient and has no name; the
# name belongs to the result. Shape the values first, and switch the recording on last. An optimizer does take
# `asked_for`, and moves the result; the leaf stays where it is, and the next forward pass computes the old values anew.
#
# Edges, below, are what `next_functions` lists. An edge leads to `AccumulateGrad` where the way back ends at a tracked
# leaf, and to `None` where nothing was tracked.
#
# The flag of a leaf that holds floats can be changed at any time: it says what is recorded from there on, and whether
# `backward()` leaves something there. The flag of a result follows from its history:

# %% tags=["demonstration", "teaches:leaves-and-results", "form:worked", "needs:recording"]
w, v = torch.tensor(2.0), torch.tensor(5.0, requires_grad=True)
early = w * v
w.requires_grad_()
late = w * v
print("before the flag, edges lead to", [node and node.name() for node, _ in early.grad_fn.next_functions])
print("after the flag, edges lead to ", [node and node.name() for node, _ in late.grad_fn.next_functions])
w.requires_grad_(False)
late.backward()
print("frozen after the forward:      w.grad", w.grad, "and v.grad", v.grad)
try:
    late.requires_grad = False
except RuntimeError as error:
    print("the flag of a result:         ", str(error).split(".")[0])

# %% [markdown]
# ## One step too many
#
# A descent on `w**2`, written without `no_grad`: `w = w - 0.1 * w.grad`. The first step works. What is `w.is_leaf`
# after it, and what is `w.grad` after the second `backward()`? Answer with a list of two, such as `[True, 3.2]`.

# %% tags=["prediction"]
commit("second_step", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:leaves-and-results", "form:worked", "needs:first-step"]
def grad_of(tensor):
    """Its .grad, None for results: torch warns where somebody reads the .grad of one."""
    return tensor.grad if tensor.is_leaf else None


@reveal("second_step", see="One step too many", answers=2)
def _():
    w = torch.tensor(2.0, requires_grad=True)
    (w**2).backward()
    w = w - 0.1 * w.grad
    leaf = w.is_leaf
    (w**2).backward()
    print("w is now", w)
    print("and its .grad", grad_of(w))
    u = torch.tensor(2.0, requires_grad=True)
    (u**2).backward()
    try:
        u -= 0.1 * u.grad
    except RuntimeError as error:
        print("in place, recorded:", error)
    with torch.no_grad():
        u -= 0.1 * u.grad
    print("in place, in no_grad:", u)
    return [leaf, grad_of(w)]


# %% [markdown]
# The update put a new tensor under the name `w`, a result with the old leaf behind it. The old leaf collects the second
# gradient on top of the first, and no name leads to it. `no_grad` and an edit in place keep the leaf, and record
# nothing.

# %% [markdown]
# ### Exercise: read the tape (spine, predict)
#
# Change 7 to your own number from 0 to 99 and run the cell. It prints a program of numbered lines, each of which names
# one tensor.

# %% tags=["demonstration", "needs:recording", "needs:leaves-and-results"]
print(cases.read_tape.script(7))

# %% [markdown]
# For each of its lines, say of the tensor that it names: is `requires_grad` `True`, is `is_leaf` `True`, and which
# operation does `grad_fn` name? Take the word before `Backward`, out of `"Add"`, `"Clone"`, `"Exp"`, `"Gt"`, `"Mul"`,
# `"Sub"`, `"ToCopy"`, or `None`.
#
# In the answer cell, return your number and a list with one list of three for each line, as in `return 7, [[True,
# False, "Mul"], [False, True, None], ...]`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For each line: is anything tracked among what goes in, and is the line an operation that is being recorded?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The second answer follows from the third. Of a line with `if` in it, the side that runs makes the tensor that is named.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "read_tape", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:spine", "form:predict", "teaches:recording", "needs:leaves-and-results"]
def read_tape():
    """Your variant, and for each line whether its tensor is tracked, whether it is a leaf, and what made it."""
    ### BEGIN SOLUTION
    plain, flagged = [False, True, None], [True, True, None]
    product, copy = [True, False, "Sub"], [True, False, "Clone"]
    cast, branch = [True, False, "ToCopy"], [True, False, "Exp"]
    return 7, [flagged, plain, plain, product, copy, plain, plain, plain, flagged, cast, branch]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "read_tape_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("read_tape")

# %% [markdown]
# ### Exercise: a leaf with the right values (depth, repair)
#
# Weights are to begin as scaled copies of given values. This function runs, and no optimizer takes what it returns:


# %% tags=["demonstration", "needs:leaves-and-results"]
def broken_scaled_leaf(initial, scale):
    return initial.requires_grad_() * scale


print(broken_scaled_leaf(torch.ones(2), 0.5).is_leaf)

# %% [markdown]
# Repair it as `scaled_leaf(initial, scale)`. `initial` is a float tensor of any shape; it may be tracked, and it may be
# the result of an operation. `scale` is a float. Return a new tensor of the same shape and dtype that
#
# - holds the values times `scale`,
# - is a leaf and is tracked, so that a `backward()` from it fills its `.grad`,
# - shares no memory with `initial`.
#
# `initial` ends as it began: its numbers, and its `requires_grad`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# When is the tensor that you return no result of a recorded operation?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Three moments: leave the past behind, shape the values, switch the recording on.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "scaled_leaf", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:leaves-and-results", "needs:recording", "needs:sharing-or-copying"]
def scaled_leaf(initial, scale):
    """A tracked leaf that holds the initial values times `scale`."""
    ### BEGIN SOLUTION
    return (initial.detach() * scale).requires_grad_()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "scaled_leaf_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("scaled_leaf")

# %% [markdown]
# ## Is this description correct?
#
# The same lesson says of the graph: "each node is a tensor and each edge represents a function that produced it". Here
# is the graph of `(w * x + 1) ** 2` as PyTorch has it.

# %% tags=["demonstration", "teaches:nodes-and-edges", "form:worked", "needs:leaves-and-results"]
x = torch.tensor(3.0, requires_grad=True)
w = torch.tensor(2.0, requires_grad=True)
loss = (w * x + 1.0) ** 2
graph.draw(loss, names={"w": w, "x": x})

# %% [markdown]
# It is the other way round. The nodes are *operations*: each is an object that can carry a gradient one step back. A
# tensor is no node; a result points at the node of the operation that made it, by its `grad_fn`. An edge is a pair: the
# next node, and the number of the output of that node which was used.
#
# At the end of the way to a tracked leaf stands a node called `AccumulateGrad`, which holds the leaf in its attribute
# `variable`. The number 1 is not tracked, and there the edge leads to `None`. The exponent 2 is no input that a
# gradient could go to, and has no edge at all.

# %% tags=["demonstration", "teaches:nodes-and-edges", "form:worked", "needs:leaves-and-results"]
add = loss.grad_fn.next_functions[0][0]
print("add:  ", add.next_functions)
product = add.next_functions[0][0]
print("times:", [(node.name(), index) for node, index in product.next_functions])
print("leaf: ", product.next_functions[0][0].variable is w)
try:
    print(add.shape)
except AttributeError as error:
    print("no tensor:", error)

# %% [markdown]
# Two shapes to look at before you walk. `x * x` uses one tensor twice. `v.chunk(2)` is one operation with two results,
# `first` and `second`, of which the product is taken. How many edges leave `x * x`, to how many different nodes do
# they lead, and how many nodes are behind `first * second`? Answer with a list of three numbers.

# %% tags=["prediction"]
commit("edges", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:nodes-and-edges", "form:worked", "needs:recording"]
@reveal("edges", see="Is this description correct?", answers=3)
def _():
    x, v = torch.tensor(3.0, requires_grad=True), torch.ones(4, requires_grad=True)
    square = x * x
    edges = square.grad_fn.next_functions
    first, second = v.chunk(2)
    product = first * second
    output.show(graph.draw(product, names={"v": v}))
    print("one machine, two chutes:", first.grad_fn is second.grad_fn, [t.output_nr for t in (first, second)])
    return [len(edges), len({node for node, _ in edges}), len(graph.graph(product).nodes)]


# %% [markdown]
# ## A trillion routes
#
# Add a tensor to itself: `x = x + x`. From the result two edges lead to the one node behind `x`. Do it 40 times.
#
# How many nodes has the graph (the leaf's counts too), what is the gradient, and how long does `backward()` take? The
# last answer is `"A"` for less than a second, `"B"` for some minutes, `"C"` for days. Answer with a list of three.

# %% tags=["prediction"]
commit("trillion", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:walking", "form:worked", "needs:nodes-and-edges"]
def on_every_route(node):
    """How many nodes a walk meets that goes down every route."""
    return 1 + sum(on_every_route(following) for following, _ in node.next_functions if following is not None)


@reveal("trillion", see="A trillion routes", answers=3)
def _():
    x = torch.tensor(1.0, requires_grad=True, dtype=torch.float64)
    y = cases.doublings(x, 40)
    began = time.perf_counter()
    y.backward()
    took = time.perf_counter() - began
    print(f"backward(): {took * 1000:.2f} ms for {int(x.grad.item()):,} routes")
    began = time.perf_counter()
    met = on_every_route(cases.doublings(x, 12).grad_fn)
    walk = time.perf_counter() - began
    print(f"a walk down every route, 12 doublings: {met} visits for 13 nodes, {walk * 1000:.0f} ms")
    print(f"the same for 40 doublings, at that pace: {walk * 2**28 / 86400:.0f} days")
    return [len(graph.graph(y).nodes), x.grad, "A" if took < 1 else "B" if took < 86400 else "C"]


# %% [markdown]
# Nodes are few, and routes double with every line. The gradient is a sum over all routes, and PyTorch gets it without
# walking them: it visits each node once, when everything that arrives there has arrived.
#
# So a walk needs two things: a list of nodes that wait, and a set of those it has seen. Here is one without the set,
# which collects the names of what it meets down the first edge of each node:


# %% tags=["demonstration", "teaches:walking", "form:worked", "needs:nodes-and-edges"]
def down_the_first_edge(tensor):
    names, waiting = [], [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        names.append(node.name())
        if node.next_functions:
            waiting.append(node.next_functions[0][0])
    return names


print(down_the_first_edge(loss))

# %% [markdown]
# And your count from the beginning, beside these two walks and the number that is right, which has the leaves' own
# nodes in it. Three graphs: the loss from above, ten doublings, and the product of the two chunks.

# %% tags=["demonstration", "needs:walking"]
v = torch.ones(4, requires_grad=True)
graphs = {
    "loss": loss,
    "doublings": cases.doublings(x, 10),
    "chunks": v.chunk(2)[0] * v.chunk(2)[1],
}
counts = [
    [name, count_behind(tensor), on_every_route(tensor.grad_fn), len(down_the_first_edge(tensor)), nodes]
    for name, tensor in graphs.items()
    for nodes in [len(graph.graph(tensor).nodes)]
]
output.Table(["graph", "yours", "every route", "first edge", "nodes"], counts)

# %% [markdown]
# ### Exercise: count the nodes (depth, repair)
#
# This count is right for `w * x`, and goes wrong in four ways:


# %% tags=["demonstration", "needs:walking"]
def broken_count_nodes(tensor):
    def count(node):
        return 1 + sum(count(following) for following, _ in node.next_functions)

    return count(tensor.grad_fn)


print(broken_count_nodes(w * x))

# %% [markdown]
# Repair it as `count_nodes(tensor)`: the number of different nodes behind a tensor, the leaves' own nodes
# (`AccumulateGrad`) among them. Each counts once, over however many edges it is reached. A `None` at the end of an edge
# is no node. A tensor without a `grad_fn` has 0.
#
# Graphs may have routes by the billion and be deeper than functions may call each other: `check` allows 300 calls. The
# number of steps is limited too.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Try `w + 1`, a leaf, ten doublings, and `cases.chain(w, 2000)`.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The loop above follows one edge. What has to change for all edges, and where do you ask whether a node was seen?
# Keep the nodes themselves in the set.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "count_nodes", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:walking", "needs:nodes-and-edges"]
def count_nodes(tensor):
    """The number of different nodes in the graph behind a tensor."""
    ### BEGIN SOLUTION
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return len(seen)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "count_nodes_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("count_nodes")

# %% [markdown]
# ## A new graph for every call
#
# Nobody declares a graph. It is what ran, so an `if` or a loop of Python needs no special form. This function
# multiplies a number as often as a list is long, and takes a branch:


# %% tags=["demonstration", "teaches:dynamic-graphs", "form:worked", "needs:recording"]
def along(w, sentence):
    state = w * 0.0
    for word in sentence:
        state = state + word * w
    return 3 * state if state > 0 else -5 * state


w = torch.tensor(2.0, requires_grad=True)
for sentence in ([1.0], [1.0, 4.0, 2.0]):
    print(len(sentence), "words:", len(graph.graph(along(w, sentence)).nodes), "nodes")

# %% [markdown]
# What is the gradient of `along` for the sentence `[1.0, 4.0, 2.0]`, and for `[-1.0, 0.5]`? Does the first graph have a
# node for the condition `state > 0`? Answer with a list of three, such as `[12, -2, True]`.

# %% tags=["prediction"]
commit("branches", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:dynamic-graphs", "form:worked", "needs:nodes-and-edges", "needs:first-gradient"]
@reveal("branches", see="A new graph for every call", answers=3)
def _():
    slopes = []
    for sentence in ([1.0, 4.0, 2.0], [-1.0, 0.5]):
        w = torch.tensor(2.0, requires_grad=True)
        along(w, sentence).backward()
        slopes.append(w.grad.item())
    w = torch.tensor(2.0, requires_grad=True)
    longer, shorter = along(w, [1.0, 4.0, 2.0]), along(w, [-1.0, 0.5])
    output.show(graph.compare(longer, shorter, names={"w": w}, titles=("three words", "two words")))
    kinds = {node.name for node in graph.graph(longer).nodes}
    print("operations:", sorted(kinds))
    return [*slopes, any(kind.startswith("Gt") for kind in kinds)]


# %% [markdown]
# Autograd never sees the `if`. It is shown operations as they run, so the gradient is that of the branch taken: 3
# times the sum of the words, or -5 times. The other branch is in no graph.

# %% [markdown]
# ## What a node keeps
#
# To go backward, an operation often needs values from the forward pass. The slope of `exp` is its own output; the slope
# of `x * x` needs the input; `x + 1` has the slope 1 and needs nothing. What PyTorch's own nodes have kept stands in
# their attributes that begin with `_saved_`.
#
# For `x.exp()`, `x + 1`, `x ** 2`, `x.relu()`, which puts a zero for what is negative, and `x * 3`: which of the two
# tensors is kept, `x` or the result? Answer with a list of five words out of `"input"`, `"output"` and `"nothing"`.

# %% tags=["prediction"]
commit("kept", answer=None, confidence=None, answers=5)


# %% tags=["demonstration", "teaches:kept-for-backward", "form:worked", "needs:nodes-and-edges"]
def kept_by(result, x):
    """What the node of a result has kept of its tensors."""
    node, kept = result.grad_fn, []
    for name in dir(node):
        saved = getattr(node, name) if name.startswith("_saved_") else None
        if isinstance(saved, torch.Tensor):
            kept += [
                word for word, tensor in (("input", x), ("output", result)) if saved.data_ptr() == tensor.data_ptr()
            ]
    return " and ".join(kept) or "nothing"


@reveal("kept", see="What a node keeps", answers=5)
def _():
    x = torch.tensor([0.5, -1.5], requires_grad=True)
    results = {"exp": x.exp(), "x + 1": x + 1, "x ** 2": x**2, "relu": x.relu(), "x * 3": x * 3}
    for line, result in results.items():
        print(f"{line:7} keeps {kept_by(result, x)}")
    return [kept_by(result, x) for result in results.values()]


# %% [markdown]
# Numbers are kept as well: the node of `x * 3` has the 3, which is all that its slope needs.
#
# A tensor that is kept takes memory until `backward()` frees it, or until nobody holds the result any more; that long
# the nodes themselves stay in any case. A *storage* is the memory of a tensor and of all its windows.

# %% tags=["demonstration", "teaches:kept-for-backward", "form:worked", "needs:first-gradient"]
x = torch.randn(1000, requires_grad=True)
loss = (x.exp() ** 2).sum()
print("before:", memory.held_by(loss).text.splitlines()[0])
loss.backward()
print("after: ", memory.held_by(loss).text.splitlines()[0])

# %% [markdown]
# ## Painting over what was kept
#
# A node keeps a tensor and no copy of it. So what if somebody writes into that tensor before `backward()` has run? Each
# tensor counts its edits in place, in `_version`, and a node remembers the number it saw.

# %% tags=["demonstration", "teaches:version-counter", "form:worked", "needs:kept-for-backward"]
x = torch.tensor([0.5, 1.5], requires_grad=True)
y = x.exp()
print("kept at version", y._version)
y += 1
print("now at version ", y._version)
try:
    y.sum().backward()
except RuntimeError as error:
    print(str(error).split("; expected")[0].split("[torch.")[1])

# %% [markdown]
# Not every edit is one too many. `y = x * 2` keeps nothing of `y`, and `y.add_(1)` is recorded and harmless. The
# question to ask of an edit in place is: does any node still need the old value?
#
# Three ways to write zeros into `y = x.exp()` after `loss = y.sum()`: `y.zero_()`, `y.data.zero_()`, and
# `y.detach().numpy()[:] = 0`. What does `loss.backward()` do then: raise an error (`"raises"`), leave the right
# gradient (`"right"`), or a wrong one (`"wrong"`)? Answer with a list of three words.

# %% tags=["prediction"]
commit("painted", answer=None, confidence=None, answers=3)


# %% tags=["demonstration", "teaches:version-counter", "form:worked", "needs:kept-for-backward", "needs:sharing-or-copying"]
@reveal("painted", see="Painting over what was kept", answers=3)
def _():
    def by_numpy(y):
        y.detach().numpy()[:] = 0

    fates = []
    ways = {"y.zero_()": torch.Tensor.zero_, "y.data.zero_()": lambda y: y.data.zero_(), "NumPy": by_numpy}
    ways["y.detach().zero_()"] = lambda y: y.detach().zero_()
    for name, write in ways.items():
        x = torch.tensor([0.5, 1.5], requires_grad=True)
        y = x.exp()
        loss = y.sum()
        write(y)
        try:
            loss.backward()
        except RuntimeError:
            fates.append("raises")
        else:
            fates.append("right" if torch.allclose(x.grad, x.detach().exp()) else "wrong")
        print(f"{name:20} version {y._version}: {fates[-1]:7} {x.grad}")
    print("the right gradient:              ", torch.tensor([0.5, 1.5]).exp())
    return fates[:3]


# %% [markdown]
# The version counter makes a wrong gradient into an error. It compares numbers of edits and no values: after `y += 0`
# it refuses too. `.data` and NumPy write past it, and the wrong gradient comes without a word. `detach()` shares the
# counter as it shares the memory, so that a write through it is found.

# %% [markdown]
# ### Exercise: eight edits (depth, review)
#
# Eight pieces of code with an edit in place:

# %% tags=["demonstration", "needs:version-counter"]
for letter, piece in cases.edits.items():
    print(letter, inspect.getsource(piece), sep=": ")

# %% [markdown]
# Each gets a tracked leaf `x`, a vector with values between 0.5 and 2, and returns a loss; then `loss.backward()` runs.
# `edited(piece)` gets a letter from `"A"` to `"H"`. Return
#
# - `"raises"` if that `backward()` raises an error,
# - `"right"` if it leaves the gradient of the loss that was returned,
# - `"wrong"` if it leaves another one.
#
# You may read, and you may run: `cases.edits["A"](x)`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For each piece: what did the nodes before the edit keep, and is it among what the edit overwrites?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Where a piece runs, compare `x.grad` with the slope that you work out by hand. The loss is what was computed before a
# later edit.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "edited", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:version-counter", "needs:kept-for-backward", "needs:sharing-or-copying"]
def edited(piece):
    """What `backward()` does after the edit: "right", "wrong" or "raises"."""
    ### BEGIN SOLUTION
    verdicts = {
        "A": "right",
        "B": "raises",
        "C": "wrong",
        "D": "wrong",
        "E": "raises",
        "F": "right",
        "G": "raises",
        "H": "right",
    }
    return verdicts[piece]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "edited_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("edited")

# %% [markdown]
# What follows counts what graphs keep, finds where gradients die, counts routes without walking
# them, and draws the picture with a program of your own.

# %% [markdown]
# ## The bill
#
# Depth. `torch.autograd.graph.saved_tensors_hooks(pack, unpack)` is a block in which `pack` is called with each tensor
# as it is kept; what it returns is kept instead, and `unpack` turns that back when `backward()` needs it. Here `pack`
# only looks:


# %% tags=["demonstration", "teaches:counting-kept-bytes", "form:worked", "needs:kept-for-backward"]
def looking(tensor):
    print("kept: shape", tuple(tensor.shape), "of a storage of", tensor.untyped_storage().nbytes(), "bytes")
    return tensor.detach()


x = torch.ones(6, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(looking, lambda kept: kept):
    h = x.exp()
    loss = (h[:2] * h[:2]).sum() + (h * h).sum()

# %% [markdown]
# Five tensors were kept, and all of them lie on one storage of 24 bytes. Two views of a storage have the same
# `tensor.untyped_storage().data_ptr()`, the address at which it begins, which makes it a good key for a dict while the
# storage is kept. The parameters of a model are in memory anyway, and belong on another bill.
#
# `looking` returns `tensor.detach()`: a result that is kept in the node that made it would keep itself alive.


# %% tags=["demonstration", "teaches:counting-kept-bytes", "form:worked", "needs:kept-for-backward"]
def alive_after(pack):
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        h = x.exp()
    there = weakref.ref(h)
    del h
    gc.collect()
    return there() is not None


print("pack returns the tensor:         still alive", alive_after(lambda tensor: tensor))
print("pack returns tensor.detach():    still alive", alive_after(lambda tensor: tensor.detach()))

# %% [markdown]
# ### Exercise: what a graph keeps, in bytes (depth, complete)
#
# `saved_bytes(build, parameters)` calls `build()` once, without arguments; it computes a loss and returns it, and all
# that it records leads to that loss. Return, as an int, the bytes of the storages that the graph keeps for its
# backward. A storage counts once and whole, however many nodes keep it or views of it. The storages of `parameters`, a
# list of tensors, do not count, whether they are tracked or not.
#
# The graph keeps its own tensors and no copies, and can go backward as ever. Where nobody holds the loss, nothing that
# `build` recorded stays alive. An error inside `build` comes out of `saved_bytes`, and then too nobody listens any
# more. The sum at the end is given; fill `storages`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `look` is the place where you learn of a storage: its address, and `.nbytes()`. What does it hand back?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# `with` undoes what it did, whatever happens inside. A parameter has an address too: `storages.pop(address, None)`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "saved_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:counting-kept-bytes", "needs:kept-for-backward"]
def saved_bytes(build, parameters):
    """The bytes that the graph of `build()` keeps for its backward, without those of the parameters."""
    storages = {}
    ### BEGIN SOLUTION

    def look(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    for parameter in parameters:
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    ### END SOLUTION
    return sum(storages.values())


# %% nbgrader={"grade": true, "grade_id": "saved_bytes_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("saved_bytes")

# %% [markdown]
# ## Where gradients die
#
# Depth. Six losses that should move `w`; `x` is not tracked, and `v` is another tracked vector. All of them are
# numbers, and most of them run backward without an error. For which does `w.grad` hold something other than zeros
# afterwards? Answer with a list of six `True` or `False`.
#
# 1. `((w * x) ** 2).sum()`
# 2. half of it in NumPy: `y = torch.from_numpy(numpy.sin((w * x).detach().numpy()))`, and the loss is `(y * v).sum()`
# 3. wrapped again: `torch.tensor(((w * x) ** 2).sum().item(), requires_grad=True)`
# 4. a count: `(w * x > 0.5).float().sum()`
# 5. rounded: `(w * x).round().sum()`
# 6. by Python's own mathematics: `math.sin(w[0].item()) * v.sum()`

# %% tags=["prediction"]
commit("dead", answer=None, confidence=None, answers=6)


# %% tags=["demonstration", "teaches:dead-ends", "form:worked", "needs:first-gradient", "needs:nodes-and-edges"]
@reveal("dead", see="Where gradients die", answers=6)
def _():
    x = torch.tensor([1.0, 2.0])
    losses = {
        "tensors only": lambda w, v: ((w * x) ** 2).sum(),
        "NumPy": lambda w, v: (torch.from_numpy(numpy.sin((w * x).detach().numpy())) * v).sum(),
        "wrapped again": lambda w, v: torch.tensor(((w * x) ** 2).sum().item(), requires_grad=True),
        "a count": lambda w, v: (w * x > 0.5).float().sum(),
        "rounded": lambda w, v: (w * x).round().sum(),
        "math.sin": lambda w, v: math.sin(w[0].item()) * v.sum(),
    }
    alive = []
    for name, compute in losses.items():
        w, v = (torch.tensor([0.7, 0.4], requires_grad=True) for _ in range(2))
        loss, said = compute(w, v), ""
        try:
            loss.backward()
        except RuntimeError as error:
            said = str(error).split(" and ")[0]
        print(f"{name:14} grad_fn {(loss.grad_fn and loss.grad_fn.name())!s:14} w.grad {w.grad} {said}")
        alive.append(w.grad is not None and bool(w.grad.any()))
    return alive


# %% [markdown]
# Three deaths. *Nothing recorded*: the loss has no `grad_fn`, because the flag came late, a comparison stands in the
# way, or the number was wrapped anew; only in some of these cases does `backward()` complain. *No route*: the loss has
# a graph, and its edges do not lead to `w`. *Flat*: every route to `w` runs over a step such as `round`, whose slope is
# zero. A count and a rounding need a smooth stand-in, or the gradient is handed past the step:

# %% tags=["demonstration", "teaches:dead-ends", "form:worked", "needs:recording"]
for name, forward in {
    "round": lambda x: x.round(),
    "handed past": lambda x: x + (x.round() - x).detach(),
}.items():
    x = torch.tensor([0.7, 1.2], requires_grad=True)
    y = forward(x)
    y.sum().backward()
    print(f"{name:12} values {y.detach()} gradient {x.grad}")

# %% [markdown]
# ### Exercise: where did it die? (depth, review)
#
# `where_it_died(loss, w)` gets a scalar and a tensor that should have received a gradient from it. Return the first of
# these that holds:
#
# - `"no leaf"`: `w` is a result, so that a gradient passes on through it;
# - `"nothing recorded"`: no graph hangs on `loss`;
# - `"no route"`: no way along the edges leads from `loss` to `w`;
# - `"flat"`: every such way goes over a node whose name is in `cases.STEPS`;
# - `"alive"`: none of these. A gradient that happens to be zero is alive.
#
# Judge by looking. `w` stays as it is, its `.grad` too, and a `backward()` after your call runs as it would have.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is the walk of `count_nodes`. Which node tells you that you have arrived at `w`? Compare with `is`.
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Walk twice: once over all nodes, once without entering those in `cases.STEPS`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "where_it_died", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:review", "teaches:dead-ends", "needs:walking", "needs:leaves-and-results"]
def where_it_died(loss, w):
    """Why no gradient comes from `loss` to `w`, or "alive"."""
    ### BEGIN SOLUTION
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"

    def arrives(closed):
        seen, waiting = set(), [loss.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen and node.name() not in closed:
                seen.add(node)
                waiting += [following for following, _ in node.next_functions]
        return any(getattr(node, "variable", None) is w for node in seen)

    if not arrives(()):
        return "no route"
    return "alive" if arrives(cases.STEPS) else "flat"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "where_it_died_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("where_it_died")

# %% [markdown]
# ## Not a number, from the branch not taken
#
# Depth. `torch.where(condition, a, b)` picks from `a` or `b`, element by element. Somebody wants a root that is 0 for
# everything that is not positive, and writes `torch.where(x > 0, x.sqrt(), 0.0)`. The values are right. What is the
# gradient at `x = 4`, and what at `x = 0`? Answer with a list of two, such as `[0.25, 0]`; not a number is `"nan"`.

# %% tags=["prediction"]
commit("root", answer=None, confidence=None, answers=2)


# %% tags=["demonstration", "teaches:untaken-branch", "form:worked", "needs:first-gradient"]
def slopes_of(root):
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    root(x).sum().backward()
    return x.grad.tolist()


@reveal("root", see="Not a number, from the branch not taken", answers=2)
def _():
    ways = {
        "where around the root": lambda x: torch.where(x > 0, x.sqrt(), 0.0),
        "times a mask": lambda x: (x > 0) * x.sqrt(),
        "a tiny shift": lambda x: (x + 1e-6).sqrt(),
    }
    for name, way in ways.items():
        print(f"{name:22} values {way(torch.tensor([4.0, 0.0])).tolist()}  slopes {slopes_of(way)}")
    four, zero = slopes_of(ways["where around the root"])
    return [four, "nan" if math.isnan(zero) else zero]


# %% [markdown]
# `where` is an operation, and both of its branches have run. The branch that was dropped gets a gradient of zero, and
# the slope of the root at 0 is infinite: zero times infinity is not a number. A mask does the same.
#
# The remedy is to change what goes *in*. The slope of the logarithm is infinite at 0 too; here it never sees a 0:

# %% tags=["demonstration", "teaches:untaken-branch", "form:worked", "needs:first-gradient"]
x = torch.tensor([4.0, 0.0], requires_grad=True)
harmless = torch.where(x > 0, x, 1.0)
y = torch.where(x > 0, harmless.log(), 0.0)
y.sum().backward()
print("values", y.detach(), "slopes", x.grad)

# %% [markdown]
# ### Exercise: a root without surprises (depth, repair)
#
# Repair `torch.where(x > 0, x.sqrt(), 0.0)` as `safe_sqrt(x)`, for a float tensor of any shape. Return a tensor of the
# same shape and dtype: the root where `x` is positive, and 0 elsewhere, exactly. Its gradient in `x` is that of the
# root where `x` is positive, however small, and 0 elsewhere. The gradient of that gradient is finite as well wherever
# that of the root is, and no node on the way back hands on a NaN, so that `torch.autograd.detect_anomaly()`, which
# looks at each of them, finds none.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which numbers must `sqrt` never see, and what could it see in their place?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# Two times `where`: one in front of the root, one behind it.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "safe_sqrt", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:repair", "teaches:untaken-branch", "needs:dead-ends"]
def safe_sqrt(x):
    """The root where x is positive, 0 elsewhere, with finite slopes everywhere."""
    ### BEGIN SOLUTION
    harmless = torch.where(x > 0, x, 1.0)
    return torch.where(x > 0, harmless.sqrt(), 0.0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "safe_sqrt_tests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("safe_sqrt")

# %% [markdown]
# ## Weights that nobody registered
#
# Depth. A *module* collects tensors, and `parameters()` lists those it counts as its own; an optimizer updates what it
# is given from that list. A module notices an `nn.Parameter` or another module that is assigned to an attribute. Here
# is one with four weights. How many does `parameters()` list?


# %% tags=["demonstration", "needs:leaves-and-results"]
class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.shift = torch.tensor(1.0, requires_grad=True)
        self.layers = [nn.Linear(1, 1)]  # a weight and a bias

    def forward(self, x):
        return self.layers[0](x) * self.scale + self.shift


# %% tags=["prediction"]
commit("listed", answer=None, confidence=None)


# %% tags=["demonstration", "teaches:registered-weights", "form:worked", "needs:leaves-and-results", "needs:first-step"]
@reveal("listed", see="Weights that nobody registered")
def _():
    torch.manual_seed(0)
    model = Hidden()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [model.scale.item(), model.shift.item(), model.layers[0].weight.item()]
    model(torch.ones(3, 1)).sum().backward()
    optimizer.step()
    after = [model.scale.item(), model.shift.item(), model.layers[0].weight.item()]
    for name, old, new in zip(("scale", "shift", "layers[0].weight"), before, after, strict=True):
        print(f"{name:17} moved by {abs(new - old):.3f}")
    print("shift has a gradient all the same:", model.shift.grad)
    model.shift, model.layers = nn.Parameter(torch.tensor(1.0)), nn.ModuleList(model.layers)
    print("with nn.Parameter and nn.ModuleList:", len(list(model.parameters())), "parameters")
    return len(list(Hidden().parameters()))


# %% [markdown]
# The graph is whole, the gradients arrive, and nobody ever reads three of the four. No error says so. The plain tensor
# becomes an `nn.Parameter`, the list an `nn.ModuleList`.

# %% [markdown]
# ## Routes without walking them
#
# The gradient of `x * x + x * y` in `x` has a part for each route from the result to `x`. Routes can be counted
# without walking them: hand a 1 to the root, let each node hand what it has to each of its edges, and add up what
# arrives. A node may only hand on when everything that leads to it has arrived. For that the edges into each node are
# counted first:


# %% tags=["demonstration", "teaches:routes-and-nodes", "form:worked", "needs:walking"]
def edges_into(root):
    """For each node behind the root, how many edges lead to it."""
    into, waiting = Counter(), [root]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    return into


x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
for node, count in edges_into((x * x + x * y).grad_fn).items():
    print(f"{node.name():16} {count}")

# %% [markdown]
# Three edges lead to the leaf `x`. In this graph they are its three routes, because every node on the way has one edge
# into it. After a doubling that is so no more.

# %% tags=["demonstration", "teaches:routes-and-nodes", "form:worked", "needs:walking"]
twice = cases.doublings(x, 2)
print("edges into:", list(edges_into(twice.grad_fn).values()), "and the slope is", end=" ")
print(torch.autograd.grad(twice, x)[0].item())

# %% [markdown]
# ### Exercise: count the routes (depth, complete)
#
# `routes(tensor)` gets a result. Return a dict with one entry for each tracked leaf behind it: the leaf itself as key,
# and as value, an int, the number of different routes along the edges from `tensor` to the leaf. There may be more
# routes than any walk could take, and more nodes in a row than functions may call each other (300).
#
# The first half is given: `into` says how many edges lead to each node. Complete the second: a node is `ready` once all
# its edges have been used, and has then `ways[node]` routes leading to it.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take a node that is ready. What does it add to `ways` of the node at the end of each edge, and what to `into`?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The node of a leaf has an attribute `variable`; use `hasattr`. Two edges to one node count twice.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "routes", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:depth", "form:complete", "teaches:routes-and-nodes", "needs:walking", "needs:nodes-and-edges"]
def routes(tensor):
    """The number of routes to each tracked leaf behind a tensor, by leaf."""
    into, waiting = Counter(), [tensor.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    ways, ready, found = Counter({tensor.grad_fn: 1}), [tensor.grad_fn], {}
    ### BEGIN SOLUTION
    while ready:
        node = ready.pop()
        if hasattr(node, "variable"):
            found[node.variable] = ways[node]
        for following, _ in node.next_functions:
            if following is not None:
                ways[following] += ways[node]
                into[following] -= 1
                if into[following] == 0:
                    ready.append(following)
    ### END SOLUTION
    return found


# %% nbgrader={"grade": true, "grade_id": "routes_tests", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("routes")

# %% [markdown]
# With a gradient in place of the 1, and a slope on every edge, this is how PyTorch goes backward. Unit 4 does that.

# %% [markdown]
# ## A picture of your own
#
# Workshop. graphviz draws what it is told in a small language called DOT. A node has a name and a label, an edge an
# arrow and a label; where there is a label, the name is for the text only and is not drawn.


# %% tags=["demonstration", "teaches:dot-text", "form:worked", "needs:nodes-and-edges"]
def show_dot(text, alt):
    """Shows DOT as a picture, or as the text that it is where nothing here can draw."""
    try:
        picture = output.Picture(svg(text), alt=alt, text=text)
    except NoRenderer:
        print(text)
    else:
        output.show(picture)


text = """digraph {
    a [label="MulBackward0"]
    b [label="the \\"weight\\""]
    a -> b [label="0"]
    a -> b [label="0"]
}"""
show_dot(text, "Two edges lead from MulBackward0 to the leaf called the weight.")

# %% [markdown]
# ### Exercise: draw the graph (workshop, write)
#
# `picture(tensor, names)` returns the graph behind a result as one string. `names` is a dict from names to all tracked
# leaves behind it. One statement stands on each line:
#
# - first a comment that counts, such as `// 5 nodes, 4 edges`; then `digraph {`, and `}` as the last line;
# - for each node one line `n1 [label="MulBackward0"]`, with a name of your choice in front, made of letters, digits and
#   `_`. The label is `node.name()`, or for the node of a leaf the leaf's name. In a label write `\\` for `\` and `\"`
#   for `"`;
# - for each edge one line `n1 -> n2 [label="0"]`, labelled with its output index, those of one node in the order of
#   `next_functions`. Edges to `None` are left out and not counted; two edges between the same nodes are two lines.
#
# The same program run twice gives the same text, whatever addresses its objects have. Graphs may be deeper than
# functions may call each other (300).

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Give each node a number when you first meet it, in a dict. What is a good name for number 3?
#
# </details>

# %% [markdown]
# <details><summary>Hint 2</summary>
#
# The name of a leaf is that whose tensor `is` the node's `variable`; `==` compares numbers. Count when all lines are
# there, and put the comment in front.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "picture", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["tier:workshop", "form:write", "teaches:walking", "needs:dot-text", "needs:nodes-and-edges"]
def picture(tensor, names):
    """The graph behind a tensor in the DOT language, leaves under their names."""
    ### BEGIN SOLUTION
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "picture_tests", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("picture")

# %% [markdown]
# Your picture of the loss from the beginning, once it is written. Below it, folded, is its text:

# %% tags=["demonstration", "needs:dot-text"]
w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
try:
    drawn = picture((w * x + 1.0) ** 2, {"w": w, "x": x})
except NotImplementedError:
    print("picture() is not written yet.")
else:
    show_dot(drawn, f"Your graph of (w * x + 1) ** 2: {drawn.splitlines()[0].removeprefix('// ')}.")

# %% [markdown]
# ## To keep
#
# `picture` is one thing for your own code. The other is short: where a chain of results should lead from the weights to
# the loss, it names the first link that is not tracked. A flat step is tracked, and so is a number that was wrapped
# anew with a flag of its own: those it does not find, and `where_it_died` does.


# %% tags=["demonstration", "needs:recording", "needs:dead-ends"]
def first_break(**results):
    """The name of the first result that is not tracked, in the order in which they are given."""
    return next((name for name, tensor in results.items() if not tensor.requires_grad), None)


w = torch.tensor([0.7, 0.4], requires_grad=True)
hidden = w * 3.0
shown = torch.from_numpy(numpy.sin(hidden.detach().numpy()))
loss = shown.sum()
print("first break:", first_break(w=w, hidden=hidden, shown=shown, loss=loss))

# %% [markdown]
# ## Where this bites in practice
#
# - [pytorch, issue 52248](https://github.com/pytorch/pytorch/issues/52248) and
#   [68425](https://github.com/pytorch/pytorch/issues/68425): gradients that are not numbers, from the branch of `where`
#   that was not taken.
# - [pytorch, issue 6990](https://github.com/pytorch/pytorch/issues/6990): what `.data` hides and `detach()` reports, on
#   an output that is set to zero; in [33629](https://github.com/pytorch/pytorch/issues/33629) PyTorch clears its own
#   tests of `.data`, because it "leads to many bugs in user code".
# - [pytorch/tutorials, issue 3716](https://github.com/pytorch/tutorials/issues/3716): a reader asks why an official
#   tutorial sets the flag of its weights on a line of its own, and
#   [3186](https://github.com/pytorch/tutorials/issues/3186) asks for a page on what a leaf is.
# - [d2l-en, issue 989](https://github.com/d2l-ai/d2l-en/issues/989): "`detach` or `clone`?"

# %% [markdown]
# ## In five sentences
#
# 1. The forward pass writes the graph, one node for each recorded operation, and every call writes a new one from what
#    really ran.
# 2. A leaf is a tensor without `grad_fn`, and `backward()` fills the `.grad` of tracked leaves, and of no result that
#    did not ask.
# 3. Nodes are operations, edges are pairs of a node and an output index, and where nothing is tracked an edge leads to
#    `None`.
# 4. Routes multiply and nodes do not, so a walk keeps a set of what it has seen.
# 5. A node keeps tensors and no copies, so an edit in place is harmless only where no node needs the old value, and one
#    that slips past the version counter is never reported.
