"""Cases, requirements and specimens of unit 3."""

import contextlib
import re
import sys
import warnings

import numpy
import torch
from autogradlab.exercises import Budget, Prediction, Same, exercise

# ------------------------------------------------------------------------------------------------------- questions


def warm_up(variant):
    """Lines whose answers are known from the units before, with the learner's own numbers in them."""
    draw = numpy.random.RandomState(3000 + variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 6), (2, 6), (3, 8)))
    return f"""import torch

table = torch.ones({a}, 1) + torch.zeros({b})
row = table[0]
row += {c}
w = torch.tensor({a}.0, requires_grad=True)
(w * w + {c} * w).backward()
with torch.no_grad():
    w -= 0.5 * w.grad"""


def tape(variant):
    """The lines of the tape exercise, each of which makes one tensor; with the tensor's name."""
    draw = numpy.random.RandomState(3100 + variant)
    a, b, c, d = (int(draw.randint(low, high)) for low, high in ((3, 9), (2, 9), (2, 9), (3, 9)))
    sign = "+-*"[variant % 3]
    return [
        ("w", f"w = torch.tensor({a}.0, requires_grad=True)"),
        ("x", f"x = torch.tensor({b}.0)"),
        ("y", f"y = x * {c}.0"),
        ("z", f"z = w {sign} x"),
        ("u", "u = z.clone()"),
        ("v", "v = z.detach()"),
        ("t", f"t = w > {d}"),
        ("s", "with torch.no_grad(): s = w.exp()"),
        ("r", f"with torch.no_grad(): r = torch.ones({b}, requires_grad=True)"),
        ("q", f"q = torch.tensor({c}.0, requires_grad=True).double()"),
        ("p", f"p = {b} * w if w > {d} else w.exp()"),
    ]


@exercise(
    Prediction("what was made and what was computed: the first four tensors", slice(0, 4), weight=2),
    Prediction("copies, cuts and comparisons: the next three", slice(4, 7)),
    Prediction("blocks, dtypes and branches: the last four", slice(7, None)),
    variants=100,
)
def read_tape(variant):
    lines = [f"{number:2}  {line}" for number, (_, line) in enumerate(tape(variant), 1)]
    return "\n".join(["Which of these tensors are tracked, which are leaves, and what made them?", *lines])


# ---------------------------------------------------------------------------------------------- leaves, and walking


@exercise(
    Same("a leaf comes back that is tracked", "returned.w.is_leaf", "returned.w.requires_grad", weight=2),
    Same("it holds the scaled values", "returned.w"),
    Same("a `backward()` from it fills its `.grad`", "returned.w.grad"),
    Same("`initial` is as before, its numbers and its flag", "arguments.initial", "arguments.initial.requires_grad"),
    Same("the two share no memory", "returned.w.memory"),
    arguments=("initial", "scale"),
    dtypes=("float32", "float64"),
)
def scaled_leaf(program, case):
    rows = case.size(2, 5)
    initial = case.normal(rows, case.size(2, 5), requires_grad=case.kind in (1, 4))
    if case.kind == 2:
        initial = case.normal(rows, requires_grad=True) * case.normal(rows)
    scale = 1.0 if case.kind in (3, 4) else case.number(0.1, 0.9)
    w = program(initial, scale)
    if isinstance(w, torch.Tensor) and w.requires_grad:
        (w * case.normal(*w.shape)).sum().backward()
    return {"w": w}


def doublings(tensor, count):
    """The tensor added to itself, again and again: each doubling is one node, and doubles the routes."""
    for _ in range(count):
        tensor = tensor + tensor
    return tensor


def tangle(case, leaves, steps):
    """A result in whose graph values are used again at random, and constants and untracked tensors take part."""
    values = list(leaves)
    for _ in range(steps):
        a, b = case.choice(values[-4:]), case.choice(values)
        constant = case.normal()
        values.append(case.choice([a * b, a + b, a - b, (a * constant).sin(), a + constant, a * 2.0]))
    return sum(values[-3:], torch.stack(values).sum())


class Swap(torch.autograd.Function):
    """One node with two inputs and two outputs."""

    @staticmethod
    def forward(ctx, a, b):
        return b * 2, a * 3

    @staticmethod
    def backward(ctx, of_first, of_second):
        return of_second * 3, of_first * 2


@exercise(
    Same("the number of nodes is right", "returned.nodes behind the tensor", weight=3),
    Same("a tensor without a `grad_fn` has 0", "returned.nodes behind a tensor without grad_fn"),
    Budget(250_000),
    arguments=("tensor",),
    labels={"nodes behind the tensor": "the number of nodes"},
)
def count_nodes(program, case):
    x, y = case.normal(requires_grad=True), case.normal(requires_grad=True)
    root = {
        0: lambda: x * y + case.number(1, 9),
        1: lambda: tangle(case, [x, y], case.integer(4, 9)),
        2: lambda: doublings(x, case.integer(36, 44)),
        3: lambda: pieces(case),
        4: lambda: chain(x, case.integer(420, 440)),
    }[case.kind]()
    with shallow():
        found = {"nodes behind the tensor": program(root)}
    bare = case.choice([x, case.normal(case.size(1, 4)), x.detach() * 2])
    return found | {"nodes behind a tensor without grad_fn": case.attempt(program, bare)}


def pieces(case):
    """A product of the pieces into which one node splits a vector."""
    count = case.integer(2, 4)
    parts = case.normal(count * case.size(2, 3), requires_grad=True).chunk(count)
    product = parts[0]
    for part in parts[1:]:
        product = product * part
    return product.sum()


@contextlib.contextmanager
def shallow(calls=300):
    """Lets functions call each other this deep and no deeper, wherever they run.

    How deep Python goes differs from one program to the next, and graphs as deep as the usual limit take long to make.
    """
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def chain(tensor, length):
    """A result at the end of a row of single steps."""
    for _ in range(length):
        tensor = tensor + 1.0
    return tensor


@exercise(
    Same("each leaf has its number of routes", "returned.the form of your answer", "returned.routes", weight=3),
    Same("nothing but leaves is counted", "returned.others"),
    Budget(250_000),
    arguments=("tensor",),
    labels={"routes": "the dict of routes by leaf", "others": "the number of entries beside the leaves"},
)
def routes(program, case):
    x, y, z = (case.normal(requires_grad=True) for _ in range(3))
    leaves = {"x": x, "y": y, "z": z}
    if case.kind == 0:
        root = x * x + x * y
    elif case.kind == 1:
        root = tangle(case, [x, y, z], case.integer(5, 10))
    elif case.kind == 2:
        # More routes than an int64 can count.
        root = doublings(x * y + z, case.integer(64, 80))
    elif case.kind == 3:
        leaves["v"] = case.normal(6, requires_grad=True)
        first, second, third = leaves["v"].split(2)
        frozen = case.normal(2)
        root = (first * second + second * frozen + third * x).sum()
    else:
        first, second = Swap.apply(x, y * z)
        root = chain(first * second + first, case.integer(420, 440))
    with shallow():
        found = program(root)
    return by_name(found, leaves)


def by_name(found, leaves):
    """An answer that is a dict by leaf, told by the names of the leaves."""
    if not isinstance(found, dict):
        form = f"a value of type {type(found).__name__} came back, and no dict"
        return {"the form of your answer": form, "routes": None, "others": None}
    known = {id(leaf): name for name, leaf in leaves.items()}
    named = {known[id(key)]: count for key, count in found.items() if id(key) in known}
    counts = {name: named.get(name) for name in leaves}
    return {"the form of your answer": "a dict", "routes": counts, "others": len(found) - len(named)}


# ------------------------------------------------------------------------------------------- what is kept, and spoilt


def edit_a(x):
    y = x * 2
    y.add_(1)
    return (y * 3).sum()


def edit_b(x):
    y = x.exp()
    loss = y.sum()
    y += 1
    return loss


def edit_c(x):
    y = x.exp()
    loss = y.sum()
    y.data.clamp_(max=1.0)
    return loss


def edit_d(x):
    y = x.exp()
    loss = y.sum()
    shown = y.detach().numpy()
    shown[:] = 0
    return loss


def edit_e(x):
    y = x.exp()
    loss = y.sum()
    y.detach().clamp_(max=1.0)
    return loss


def edit_f(x):
    y = x.exp().clone()
    y[0] = 0
    return y.sum()


def edit_g(x):
    y = x.relu()
    y += 1
    return y.sum()


def edit_h(x):
    y = x * x
    loss = (y * 3).sum()
    y.zero_()
    return loss


edits = dict(zip("ABCDEFGH", (edit_a, edit_b, edit_c, edit_d, edit_e, edit_f, edit_g, edit_h)))
# The same functions of x without an edit, so that their slopes are those of the loss that comes back.
unspoilt = {
    **dict.fromkeys("BCDE", lambda x: x.exp().sum()),
    "A": lambda x: ((x * 2 + 1) * 3).sum(),
    "F": lambda x: x[1:].exp().sum(),
    "G": lambda x: (x.relu() + 1).sum(),
    "H": lambda x: (x * x * 3).sum(),
}
FATES = ("right", "wrong", "raises")


@exercise(
    Same("the pieces that raise an error are told from those that run", "returned.whether it raises", weight=2),
    Same("the gradients that come are told right from wrong", "returned.whether the gradient is right"),
    arguments=("piece",),
    visible=8,
    fresh=16,
    devices=("cpu",),
)
def edited(program, case):
    letter = "ABCDEFGH"[case.kind]
    values = case.uniform(case.size(2, 4), low=0.5, high=2.0)
    return review(program(letter), fate(edits[letter], unspoilt[letter], values))


def slopes(function, values):
    """The gradient that `backward()` leaves, or None where it raises."""
    x = values.clone().requires_grad_()
    try:
        function(x).backward()
    except RuntimeError:
        return None
    return x.grad


def fate(function, same, values):
    """What becomes of the gradient of a function with an edit in it; `same` is the function without."""
    found = slopes(function, values)
    if found is None:
        return "raises"
    return "right" if torch.allclose(found, slopes(same, values)) else "wrong"


def review(answer, truth):
    """What is amiss in a verdict, in words that do not give the right one away."""
    parts = ("whether it raises", "whether the gradient is right")
    if answer not in FATES:
        return dict.fromkeys(parts, f"the verdict is none of {', '.join(FATES)}")
    told = "nothing amiss"
    raises = told if (answer == "raises") == (truth == "raises") else "backward() does the other thing here"
    if "raises" in (answer, truth):
        gradient = told if answer == truth else "whether a gradient comes is the question before"
    else:
        gradient = told if answer == truth else "compare the gradient with that of the piece without its edit"
    return dict(zip(parts, (raises, gradient)))


@exercise(
    Same("the bytes that the graph keeps are right", "returned.bytes", weight=3),
    Same("`build` is called once", "calls.build"),
    Same(
        "the graph keeps its tensors and no copies, and the loss can go backward",
        "returned.what the graph keeps",
        "returned.backward() from the loss",
    ),
    Same("nothing that was recorded stays alive", "kept.graph"),
    Same("an error inside `build` comes out, and afterwards nobody listens any more", "returned.after an error"),
    arguments=("build", "parameters"),
    dtypes=("float32", "float64"),
    devices=("cpu",),
)
def saved_bytes(program, case):
    n, m = case.size(3, 9), case.size(10, 16)
    w, x = case.normal(n, requires_grad=True), case.normal(n)
    square, frozen = case.normal(n, n, requires_grad=True), case.normal(n, m)
    parameters = {0: [w], 1: [w], 2: [square, frozen], 3: [], 4: [w]}[case.kind]
    losses, kept = [], []

    def build():
        h = {
            0: lambda: w * x,
            1: lambda: (w * x).exp(),
            2: lambda: (x @ square).tanh() @ frozen,
            3: lambda: (w * w).repeat(4).sigmoid(),
            4: lambda: (w.exp() * x * w).double(),
        }[case.kind]()
        mark = h.grad_fn.metadata[Mark] = Mark()
        case.track(graph=mark)
        if case.kind in (1, 3):  # these operations keep their output
            kept.append("itself" if h.grad_fn._saved_result.data_ptr() == h.data_ptr() else "a copy")
        # The same values are kept twice, or views of them.
        losses.append((h * h).sum() if case.kind != 3 else (h[:n] ** 2).sum() + h[n:].exp().sum())
        return losses[-1]

    def failing():
        raise ArithmeticError("the loss is not finite")

    found = program(case.counted("build", build), parameters)
    # A backward frees what was kept, and would end what keeps itself alive.
    error = case.attempt(losses[-1].backward) if case.kind in (0, 2, 4) else None
    losses.clear()
    raised = case.attempt(program, failing, parameters)
    listening = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    after = {"what came out": type(raised).__name__, "somebody still listens": listening}
    runs = "runs" if error is None else type(error).__name__
    return {"bytes": found, "what the graph keeps": kept, "backward() from the loss": runs, "after an error": after}


class Mark:
    """Lives exactly as long as the node in whose metadata it is put."""


# --------------------------------------------------------------------------------------------- where a gradient dies

STEPS = ("RoundBackward0", "FloorBackward0", "CeilBackward0", "TruncBackward0", "SignBackward0")


@exercise(
    Same("the verdict is right", "returned.verdict", weight=3),
    Same("`w` is as before, its `.grad` too", "arguments.w", "arguments.w.grad", "arguments.w.requires_grad"),
    Same("`backward()` can still run", "returned.backward() after your look"),
    Budget(250_000),
    arguments=("loss", "w"),
    visible=8,
    fresh=16,
)
def where_it_died(program, case):
    n = case.size(2, 5)
    w, v, x = case.normal(n, requires_grad=True), case.normal(n, requires_grad=True), case.normal(n)
    if case.kind in (0, 3):
        w.grad = case.normal(n)
    if case.kind == 0:
        loss = doublings(((w * x + v) ** 2).sum(), case.integer(36, 44))
    elif case.kind == 1:  # the flag came after the forward pass
        w = case.normal(n)
        loss = ((w * x) ** 2).sum()
        w.requires_grad_()
    elif case.kind == 2:  # NumPy in the middle, and another way that is whole
        h = torch.from_numpy((w * x).detach().cpu().numpy()).to(case.device)
        loss = (h.sin() * v).sum()
    elif case.kind == 3:  # read as a number and wrapped again
        loss = torch.tensor(((w * x) ** 2).sum().item(), requires_grad=True) * 0.5
    elif case.kind == 4:
        step = case.choice([torch.round, torch.floor, torch.ceil, torch.trunc, torch.sign])
        loss = (step(w * x) * v).sum()
    elif case.kind == 5:
        w = w * case.number(0.1, 0.9)
        loss = ((w * x) ** 2).sum()
    elif case.kind == 6:  # one way over a step, and one beside it
        loss = ((w * x).round() * v + w * 0.1).sum()
    else:  # whole, and zero here because of a factor
        loss = (w * torch.zeros_like(x) * v).sum()
    verdict = program(loss, w)
    after = "runs"
    if loss.requires_grad:
        error = case.attempt(loss.backward)
        after = "runs" if error is None else type(error).__name__
    return {"verdict": verdict, "backward() after your look": after}


@exercise(
    Same("the root of what is above 0, and 0 elsewhere", "returned.roots", weight=2),
    Same("the gradient is right above 0", "returned.slopes above 0"),
    Same("the gradient is 0 everywhere else", "returned.slopes at 0 and below"),
    Same("the second slope is finite as well", "returned.second slopes"),
    Same("no node on the way hands on a NaN", "returned.a pass that looks for NaN"),
    arguments=("x",),
    dtypes=("float32", "float64"),
)
def safe_sqrt(program, case):
    x = case.normal(case.size(4, 8))
    x[0], x[1] = abs(x[0]), -abs(x[1])
    if case.kind != 0:
        x[2] = 0.0
    if case.kind == 2:
        x[3] = 1e-12
    if case.kind == 3:
        x = x.abs() * 1e4
        x[-1] = 0.0
    if case.kind == 4:
        x = x.reshape(1, -1).repeat(case.size(2, 3), 1)
    x.requires_grad_()
    above = x.detach() > 0
    y = program(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    second = case.attempt(torch.autograd.grad, slope.sum(), x)
    if isinstance(second, tuple):
        second = second[0] * above * x.detach().abs() ** 1.5
    return {
        "roots": y.detach().clone(),
        "slopes above 0": slope.detach()[above] * x.detach()[above].sqrt(),
        "slopes at 0 and below": slope.detach()[~above],
        "second slopes": second,
        "a pass that looks for NaN": watched_pass(program, case, x),
    }


def watched_pass(program, case, x):
    """What PyTorch's own search for NaN says about a backward pass."""
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")  # it shows the forward line as a warning
        error = case.attempt(lambda: program(x).sum().backward())
    return "nothing found" if error is None else type(error).__name__


# ----------------------------------------------------------------------------------------------------- the picture

_NODE = re.compile(r'\s*"?(\w+)"?\s*\[\s*label\s*=\s*"((?:[^"\\]|\\["\\])*)"\s*\]\s*;?\s*')
_EDGE = re.compile(r'\s*"?(\w+)"?\s*->\s*"?(\w+)"?\s*\[\s*label\s*=\s*"?(\d+)"?\s*\]\s*;?\s*')


@exercise(
    Same("every node stands there once, under its label", "returned.the form of your text", "returned.nodes", weight=2),
    Same("every edge stands there, with its output index and in order", "returned.edges", weight=2),
    Same("the first line says how many nodes and edges there are", "returned.first line"),
    Same("drawn again from a new graph, the text is the same", "returned.drawn again"),
    Budget(400_000),
    arguments=("tensor", "names"),
    labels={"nodes": "the list of labels", "edges": "the list of edges by node", "drawn again": "the text drawn again"},
)
def picture(program, case):
    numbers = [case.number(1, 9) for _ in range(3)]
    length, names = case.integer(420, 440), ["x", "y", "v"]
    if case.kind == 3:
        names = ["x\\n", 'the "old" y', "v[0] -> v[1];"]

    def build():
        x, y = (torch.tensor(number, device=case.device, requires_grad=True) for number in numbers[:2])
        v = torch.full((4,), numbers[2], device=case.device, requires_grad=True)
        root = {
            0: lambda: (x * y + 1) ** 2,
            1: lambda: x * x - doublings(x, 2) + 3,
            2: lambda: (v.split(2)[1] * v.split(2)[0] + x).sum(),
            3: lambda: (v * x).sum() / y,
            4: lambda: chain(x * y, length),
        }[case.kind]()
        return root, dict(zip(names, (x, y, v)))

    (root, leaves), (other, others) = build(), build()
    with shallow():
        text, again = program(root, leaves), program(other, others)
    return read(text) | {"drawn again": "the same" if text == again else "another text"}


def read(text):
    """What a text in the agreed part of DOT says: labels and edges, with nodes numbered from the root."""
    found = dict.fromkeys(("nodes", "edges", "first line"))
    try:
        return found | parsed(text) | {"the form of your text": "as agreed"}
    except Unreadable as problem:
        return found | {"the form of your text": str(problem)}


class Unreadable(Exception):
    """What keeps a text from being read."""


def parsed(text):
    """The parts of a text; raises Unreadable where it is not in the agreed form."""
    if not isinstance(text, str):
        raise Unreadable(f"a value of type {type(text).__name__} came back, and no text")
    first, *lines = [line for line in text.splitlines() if line.strip()] or [""]
    counts = re.fullmatch(r"//\s*(\d+) nodes?, (\d+) edges?\.?\s*", first)
    if len(lines) < 2 or not re.fullmatch(r"digraph\s*\w*\s*\{", lines[0].strip()) or lines[-1].strip() != "}":
        raise Unreadable("below the first line there is no digraph { ... } around the lines")
    labels, leaving = statements(lines[1:-1])
    entered = {to for edges in leaving.values() for to, _ in edges}
    if not entered | set(leaving) <= set(labels):
        raise Unreadable("an edge has an end that no line declares")
    roots = [name for name in labels if name not in entered]
    if len(roots) != 1:
        raise Unreadable(f"{len(roots)} nodes have no edge that leads to them; expected one, the first")
    numbers, waiting = {}, [roots[0]]
    while waiting:
        name = waiting.pop()
        if name not in numbers:
            numbers[name] = len(numbers)
            waiting += [to for to, _ in reversed(leaving.get(name, []))]
    if len(numbers) < len(labels):
        raise Unreadable("no way along the edges leads from the first node to every other")
    return {
        "nodes": [labels[name] for name in numbers],
        "edges": [[[numbers[to], index] for to, index in leaving.get(name, [])] for name in numbers],
        "first line": [int(count) for count in counts.groups()] if counts else f"it reads {first[:60]!r}",
    }


def statements(lines):
    """The labels of the nodes by name, and by name of a node the edges that leave it."""
    labels, leaving = {}, {}
    for line in lines:
        node, edge = _NODE.fullmatch(line), _EDGE.fullmatch(line)
        if node and node[1] in labels:
            raise Unreadable("a node has two lines")
        if node:
            labels[node[1]] = re.sub(r"\\(.)", r"\1", node[2])
        elif edge:
            leaving.setdefault(edge[1], []).append((edge[2], int(edge[3])))
        else:
            raise Unreadable(f"this line is neither a node nor an edge: {line.strip()[:80]!r}")
    return labels, leaving
