"""Cases, requirements and specimens of unit 5."""

import itertools
import weakref

import numpy
import torch
from autogradlab.exercises import Flat, Prediction, Same, exercise
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

# ------------------------------------------------------------------------------------------------------- questions


def warm_up(variant):
    """Lines whose answers are known from the units before, with the learner's own numbers in them."""
    draw = numpy.random.RandomState(variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 6), (2, 6), (1, 5)))
    return f"""import torch

x = torch.tensor({a}.0)
w = torch.tensor({b}.0, requires_grad=True)
y = w * x - {c}
loss = y ** 2
loss.backward()
with torch.no_grad():
    w -= 0.5 * w.grad
(slope,) = torch.autograd.grad({c} * w * x, w)"""


def meter_script(variant):
    """The statements of the meter exercise, after each of which `w.grad` is read."""
    draw = numpy.random.RandomState(1000 + variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 7), (3, 9), (2, 6)))
    once, twice = f"({b} * w).backward()", "(w * w).backward()"
    emptied = ["w.grad.zero_()", "w.grad = None"]
    if variant % 2:
        emptied.reverse()
    return [
        f"w, v = torch.tensor({a}.0, requires_grad=True), torch.tensor({c}.0, requires_grad=True)",
        once,
        twice,
        emptied[0],
        f"loss = {c} * w; loss.backward(retain_graph=True)",
        "loss.backward()",
        twice,
        f"({b} * v).backward()",
        "with torch.no_grad(): w += 1",
        emptied[1],
        twice,
    ]


@exercise(
    Prediction("the first three readings: a meter that starts and adds", slice(0, 3)),
    Prediction("the next five readings: cleared, and added to again", slice(3, 8), weight=2),
    Prediction("the last three readings: around the update and the second clearing", slice(8, None)),
    variants=100,
)
def meter_reading(variant):
    lines = [f"{number:2}  {line}" for number, line in enumerate(meter_script(variant), 1)]
    return "\n".join(["What is w.grad after each line?", *lines])


# -------------------------------------------------------------------------------------------------- loops to repair


def as_floats(values, facts):
    """The numbers in a list, whatever they are wrapped in."""
    return [float(value) for value in values]


@exercise(
    Same("each entry is the gradient of its own step alone", "returned.gradients", view=as_floats, weight=2),
    Same("after the call `w.grad` holds the gradient of the last step", "arguments.w.grad"),
    Same("the entries are floats", "returned.gradients.type"),
    Same("each step goes backward once", "calls.backward"),
    arguments=("w", "x", "steps"),
    dtypes=("float32", "float64"),
)
def fresh_gradients(program, case):
    # Of any sign, and with a product so far from -1 that no gradient is near 0.
    signs = [(1, 1), (-1, 1), (1, -1), (-1, -1), (1, 1)][case.kind]
    w, x = ((sign * case.uniform(low=1.2, high=2.0)).requires_grad_() for sign in signs)
    if case.kind in (1, 3, 4):
        w.grad = case.uniform(low=1.0, high=9.0)
    # A hook runs whenever a gradient arrives, whichever call sent it; the step's own numbers are the same every time.
    w.register_hook(case.counted("backward", lambda gradient: None))
    low, high = [(2, 2), (2, 2), (3, 6), (1, 1), (3, 5)][case.kind]
    return {"gradients": program(w, x, case.integer(low, high))}


def loop_a(w, x, steps):
    for _ in range(steps):
        if x.grad is not None:
            x.grad.zero_()
        loss = (w * x + 1) ** 2
        loss.backward()


def loop_b(w, x, steps):
    for step in range(steps):
        if step > 1:
            w.grad = x.grad = None
        loss = (w * x + 1) ** 2
        loss.backward()


def loop_c(w, x, steps):
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        w.grad, x.grad = torch.autograd.grad(loss, (w, x))


def loop_d(w, x, steps):
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        w.grad.zero_()
        x.grad.zero_()


def loop_e(w, x, steps):
    for step in range(steps):
        x.grad = None
        if step < 2:
            w.grad = None
        loss = (w * x + 1) ** 2
        loss.backward()


loops = {"A": loop_a, "B": loop_b, "C": loop_c, "D": loop_d, "E": loop_e}


LONGEST = 100


@exercise(
    Same(
        "every tensor that the loop leaves with a wrong `.grad` is named, and no other",
        "returned.the check of your names",
        weight=2,
    ),
    Same("run for your number of steps, the loop leaves a wrong `.grad` there", "returned.the check of your numbers"),
    Same("with one step fewer it does not", "returned.the check of one step fewer"),
    arguments=("loop",),
)
def first_wrong(program, case):
    letter = "ABCDE"[case.kind]
    start = [case.uniform(low=0.5, high=2.0) for _ in range(2)]

    def gradients(loop, steps):
        w, x = (value.clone().requires_grad_() for value in start)
        loop(w, x, steps)
        return {"w": w.grad, "x": x.grad}

    fresh = gradients(loop_c, 1)

    def is_wrong(name, steps):
        return steps > 0 and not torch.allclose(gradients(loops[letter], steps)[name], fresh[name])

    ever = [name for name in fresh if any(is_wrong(name, steps) for steps in range(1, 10))]
    return review(program(letter), ever, is_wrong)


def review(answer, ever, is_wrong):
    """What is amiss in an answer, in words that do not give the right one away.

    ever: the names of the tensors whose gradient is ever wrong
    """
    parts = [f"the check of {part}" for part in ("your names", "your numbers", "one step fewer")]
    if not isinstance(answer, dict):
        return dict.fromkeys(parts, f"a value of type {type(answer).__name__} came back, and no dict")
    names = [f"{name} is named, and its .grad is right after any number of steps" for name in "wx" if name in answer]
    names = [line for line in names if line[0] not in ever]
    if len(answer) > sum(name in answer for name in "wx"):
        names.append('a key is neither "w" nor "x"')
    if any(name not in answer for name in ever):
        names.append("a tensor whose .grad can be wrong is not named")
    numbers, earlier = [], []
    for name in (name for name in ever if name in answer):
        steps = answer[name]
        is_number = isinstance(steps, (int, float, numpy.integer)) and not isinstance(steps, bool)
        if not is_number or steps not in range(1, LONGEST + 1):
            line = f"the entry of {name} is not a whole number from 1 to {LONGEST}"
            numbers, earlier = [*numbers, line], [*earlier, line]
            continue
        if not is_wrong(name, int(steps)):
            numbers.append(f"after that many steps {name}.grad is right")
        if is_wrong(name, int(steps) - 1):
            earlier.append(f"one step earlier {name}.grad is wrong already")
    return {part: "; ".join(lines) or "nothing amiss" for part, lines in zip(parts, (names, numbers, earlier))}


def network(case, *sizes):
    """Linear layers of these sizes with Tanh between them, filled with the case's numbers."""
    pairs = list(itertools.pairwise(sizes))
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair, dtype=case.dtype), nn.Tanh())]
    model = nn.Sequential(*layers[:-1]).to(case.device)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(case.uniform(*parameter.shape, low=-0.9, high=0.9))
    return model


def dirty(case, tensors):
    """Leaves a gradient of somebody else's in each tensor."""
    for tensor in tensors:
        tensor.grad = case.uniform(*tensor.shape, low=0.5, high=2.0)


def two_groups(model):
    """The parameters in two groups with their own learning rates, as an optimizer takes them."""
    parameters = list(model.parameters())
    return [{"params": parameters[:2], "lr": 0.05}, {"params": parameters[2:], "lr": 0.2}]


def optimizer_for(case, model):
    """One of five optimizers, the plain one first."""
    if case.kind in (0, 1):
        return torch.optim.SGD(model.parameters(), lr=0.3)
    if case.kind == 2:
        return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    if case.kind == 3:
        return torch.optim.Adam(model.parameters(), lr=0.1)
    return torch.optim.SGD(two_groups(model), lr=0.1, momentum=0.5, weight_decay=0.1)


@exercise(
    Same(
        "weights and optimizer end as after one clean update for each batch",
        "arguments.model",
        "arguments.optimizer",
        weight=2,
    ),
    Same("the losses are floats, each from before its update", "returned.losses"),
    arguments=("model", "optimizer", "loss_fn", "batches"),
    dtypes=("float32", "float64"),
)
def train(program, case):
    inputs, hidden, classes = case.size(2, 4), case.size(3, 5), 3
    model = network(case, inputs, hidden, classes)
    optimizer = optimizer_for(case, model)
    if case.kind in (1, 3, 4):
        dirty(case, model.parameters())
    batches = []
    for _ in range([2, 2, 3, 3, 4][case.kind]):
        rows = case.size(2, 12)
        batches.append((case.normal(rows, inputs), case.integers(0, classes, rows).to(case.device)))
    return {"losses": program(model, optimizer, F.cross_entropy, batches)}


# ---------------------------------------------------------------------------------------------------- micro-batches


@exercise(
    Same("`w.grad` is the gradient of the mean over all rows, as from one large batch", "arguments.w.grad", weight=2),
    Same("the mean loss over all rows is returned, as a float", "returned.loss"),
    Flat("never more than one batch's saved tensors are in memory", "cost.peak_bytes", over="batches"),
    Same("a batch's graph is gone when the next one goes backward", "returned.graphs of earlier batches still alive"),
    arguments=("w", "batches"),
    dtypes=("float32", "float64"),
)
def accumulate(program, case):
    features = case.size(2, 5)
    w = case.normal(features, requires_grad=True)
    if case.kind in (1, 2, 4):
        dirty(case, [w])
    count = [2, 2, 1, 4, 3][case.kind]
    sizes = [case.size(1, 12) for _ in range(count)]
    many = case.over("batches", count)
    # Longer runs in the smallest kind of case alone: they take most of the time of a check.
    rows = sizes * (many // count if case.kind == 0 else 1)
    batches = [(case.normal(size, features), case.normal(size)) for size in rows]
    graphs = Graphs()
    w.register_hook(graphs.arrived)
    with graphs:
        loss = program(w, batches)
    return {"loss": loss, "graphs of earlier batches still alive": graphs.most_alive}


class Graphs(TorchFunctionMode):
    """Follows the nodes of graphs; `most_alive`: of how many earlier batches there were any as a gradient arrived.

    Nodes without saved tensors cost few bytes, so that no peak shows them.
    """

    class Mark:
        """Lives exactly as long as the node in whose metadata it is put."""

    def __init__(self):
        super().__init__()
        self.marks, self.batch, self.most_alive = [], 0, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.grad_fn is not None:
            mark = result.grad_fn.metadata.setdefault(Graphs, Graphs.Mark())
            self.marks.append((self.batch, weakref.ref(mark)))
        return result

    def arrived(self, gradient):
        """Takes note of what is alive when a batch's gradient reaches the leaf."""
        self.marks = [(batch, mark) for batch, mark in self.marks if mark() is not None]
        self.most_alive = max(self.most_alive, len({batch for batch, _ in self.marks} - {self.batch}))
        self.batch += 1


@exercise(
    Same(
        "each parameter's `.grad` is that of the mean over all valid tokens, clipped once",
        "arguments.model.grad",
        weight=2,
    ),
    Same("the norm before clipping is returned, as a float", "returned.norm"),
    arguments=("model", "batches", "max_norm"),
    dtypes=("float32", "float64"),
    # A share of tokens that is the quotient of two counts is float32, whatever the model computes in.
    tolerance={"float64": 1e-6},
)
def token_gradient(program, case):
    features, classes = case.size(2, 4), case.size(3, 6)
    model = network(case, features, classes)
    if case.kind in (1, 4):
        dirty(case, model.parameters())
    least = [[[3, 1], [2]], [[2, 4], [1, 3, 2]], [[3, 2]], [[5, 1, 1], [2], [4, 4]], [[3], [0, 0], [5, 2]]][case.kind]
    lengths = [[length and case.integer(length, length + 2) for length in batch] for batch in least]
    batches = [padded(case, batch, features, classes) for batch in lengths]
    return {"norm": program(model, batches, [0.3, 90.0, 0.2, 70.0, 0.1][case.kind])}


def padded(case, lengths, features, classes):
    """Sequences of these lengths in one batch: inputs, and targets that are -100 behind each sequence's end."""
    longest = max(*lengths, 1) + 1
    targets = case.integers(0, classes, len(lengths), longest)
    for row, length in enumerate(lengths):
        targets[row, length:] = -100
    return case.normal(len(lengths), longest, features), targets.to(case.device)


# --------------------------------------------------------------------------------------- optimizers, notes, pendulum


@exercise(
    Same(
        "a frozen weight is the same after the step",
        "returned.frozen weights after call 2",
        "returned.frozen weights after call 3",
        weight=2,
    ),
    Same(
        "every other weight takes the optimizer's own step",
        "returned.all weights after call 1",
        "returned.other weights after call 2",
        "returned.other weights after call 3",
    ),
    Same(
        "weights that thaw go on as if they had rested: the optimizer's memory, groups and flags are untouched",
        "returned.all weights after call 4",
        "returned.param_groups after call 4",
        "returned.requires_grad after call 4",
    ),
    Same(
        "every weight that took the step still has its gradient",
        "returned.what call 3 did to the other gradients",
        "returned.what call 4 did to all gradients",
    ),
    arguments=("optimizer", "frozen"),
    dtypes=("float32", "float64"),
)
def frozen_step(program, case):
    inputs, hidden, outputs, rows = case.size(2, 3), case.size(4, 5), case.size(6, 7), case.size(8, 9)
    model = network(case, inputs, hidden, outputs)
    optimizer = {
        0: lambda: torch.optim.SGD(model.parameters(), lr=0.1),
        1: lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        2: lambda: torch.optim.Adam(model.parameters(), lr=0.1),
        3: lambda: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5),
        4: lambda: torch.optim.AdamW(two_groups(model), lr=0.1, weight_decay=0.2),
    }[case.kind]()
    x, y = case.normal(rows, inputs), case.normal(rows, outputs)
    named = dict(model.named_parameters())
    first = {name: parameter for name, parameter in named.items() if name.startswith("0.")}
    others = {name: parameter for name, parameter in named.items() if name not in first}

    def step(frozen):
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        before = gradients()
        program(optimizer, list(frozen.values()))
        after = gradients()
        return {name: fate(before[name], after[name]) for name in named if name not in frozen}

    def weights(parameters):
        return {name: parameter.detach().clone() for name, parameter in parameters.items()}

    def gradients():
        return {name: None if p.grad is None else p.grad.clone() for name, p in named.items()}

    step({})
    results = {"all weights after call 1": weights(named)}
    for call in (2, 3):
        fates = step(first)
        results |= {f"frozen weights after call {call}": weights(first)}
        results |= {f"other weights after call {call}": weights(others)}
    results |= {"what call 3 did to the other gradients": fates, "what call 4 did to all gradients": step({})}
    names = {parameter: name for name, parameter in named.items()}
    settings = ("lr", "momentum", "betas", "weight_decay")
    return results | {
        "all weights after call 4": weights(named),
        "param_groups after call 4": [
            {"params": [names.get(parameter, "a stranger") for parameter in group["params"]]}
            | {setting: group[setting] for setting in settings if setting in group}
            for group in optimizer.param_groups
        ],
        "requires_grad after call 4": {name: parameter.requires_grad for name, parameter in named.items()},
    }


def fate(before, after):
    """What a call did to a gradient, in a word."""
    if before is None or after is None:
        return "kept" if before is after else "removed"
    return "kept" if torch.equal(before, after) else "changed"


@exercise(
    Same("each entry of the diary keeps the gradients of its own step, None where there was none", "returned.vectors"),
    Same("the norms are floats, None where there was no gradient", "returned.norms"),
    Same("the diary holds no graph", "returned.vectors.grad_fn"),
    Same(
        "the model's own gradients stay as `backward()` left them",
        "arguments.model.grad",
        "returned.graphs behind the gradients of the model",
    ),
    arguments=("model", "backward", "steps"),
    dtypes=("float32", "float64"),
)
def diary(program, case):
    inputs, outputs = case.size(2, 3), case.size(4, 5)
    model = network(case, inputs, outputs)
    weight, bias = model.parameters()
    set_to_none = case.kind in (1, 3, 4)
    numbers = itertools.count()

    def backward():
        step = next(numbers)
        model.zero_grad(set_to_none=set_to_none)
        x = case.normal(case.integer(2, 4), inputs)
        if case.kind == 2 and step == 1:
            x = torch.zeros_like(x)  # without the bias every gradient is zero here, and no gradient is missing
        # In cases of kind 2 the bias never gets a gradient, in those of kind 3 in every second step.
        without_bias = case.kind == 2 or case.kind == 3 and step % 2 == 0
        output = F.linear(x, weight, None if without_bias else bias)
        loss = (output**2).mean()
        if case.kind == 4:
            weight.grad, bias.grad = torch.autograd.grad(loss, (weight, bias), create_graph=True)
        else:
            loss.backward()

    vectors, norms = program(model, backward, case.integer(3 if case.kind == 3 else 2, 4))
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.detach().zero_()
    graphs = {
        name: parameter.grad is not None and parameter.grad.requires_grad
        for name, parameter in model.named_parameters()
    }
    return {"vectors": vectors, "norms": norms, "graphs behind the gradients of the model": graphs}


@exercise(
    Same("with momentum 0 it is plain descent", "returned.the path of call 1", weight=2),
    Same("with momentum 1 it is the loop that never clears", "returned.the path of call 2"),
    Same("in between, velocity fades by that factor at each step", "returned.the path of call 3"),
    arguments=("slope", "start", "lr", "momentum", "steps"),
    dtypes=("float64",),
)
def pendulum(program, case):
    stiffness, start, lr = case.number(0.5, 2.0), case.number(2.0, 4.0), case.number(0.1, 0.5)
    pull = case.number(0.3, 0.9) if case.kind == 4 else 0.0
    steps = [2, 3, case.integer(4, 6), case.integer(20, 30), case.integer(5, 9)][case.kind]

    momenta = [0, 1, case.number(0.3, 0.9)]
    return {
        f"the path of call {number}": program(lambda w: stiffness * w + pull * w**3 / 30, start, lr, momentum, steps)
        for number, momentum in enumerate(momenta, 1)
    }
