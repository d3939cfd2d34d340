"""Cases, requirements and specimens of unit 5."""

import itertools

import numpy
import torch
from autogradlab.exercises import Flat, Prediction, Same, exercise
from torch import nn
from torch.nn import functional as F

# ------------------------------------------------------------------------------------------------------- questions


def warm_up(variant):
    """Nine lines whose answers are known from the units before, with the learner's own numbers in them."""
    draw = numpy.random.RandomState(variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 6), (2, 6), (1, 5)))
    return f"""import torch

x = torch.tensor({a}.0)
w = torch.tensor({b}.0, requires_grad=True)
y = w * x - {c}
loss = y ** 2
loss.backward()
with torch.no_grad():
    w -= 0.5 * w.grad"""


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
    arguments=("w", "x", "steps"),
    dtypes=("float32", "float64"),
)
def fresh_gradients(program, case):
    w, x = (case.uniform(low=0.5, high=2.0, requires_grad=True) for _ in range(2))
    if case.kind in (1, 3, 4):
        w.grad = case.uniform(low=1.0, high=9.0)
    low, high = [(2, 2), (2, 2), (3, 6), (1, 1), (3, 5)][case.kind]
    return {"gradients": program(w, x, case.integer(low, high))}


def loop_a(w, x, steps):
    for _ in range(steps):
        if w.grad is not None:
            w.grad.zero_()
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


@exercise(
    Same(
        "every tensor that the loop leaves with a wrong `.grad` is named, and no other",
        "returned.named_in_vain",
        "returned.overlooked",
        weight=2,
    ),
    Same("run for your number of steps, the loop leaves a wrong `.grad` there", "returned.right_by_then"),
    Same("with one step fewer it does not", "returned.wrong_before"),
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
    after = {steps: gradients(loops[letter], steps) for steps in range(1, 10)}
    wrong = {
        name: [steps for steps, found in after.items() if not torch.allclose(found[name], value)]
        for name, value in fresh.items()
    }
    answer = program(letter)
    if not isinstance(answer, dict):
        return {"named_in_vain": [f"a {type(answer).__name__}, not a dict"], "overlooked": 0}
    # What is shown beside an answer must not give the right one away: lists of what is amiss, not names to copy.
    return {
        "named_in_vain": sorted(str(name) for name in answer if not wrong.get(name)),
        "overlooked": sum(bool(steps) and name not in answer for name, steps in wrong.items()),
        "right_by_then": sorted(name for name in answer if wrong.get(name) and answer[name] not in wrong[name]),
        "wrong_before": sorted(name for name in answer if wrong.get(name) and answer[name] - 1 in wrong[name]),
    }


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
    Flat("never more than one batch's graph is in memory", "cost.peak_bytes", over="batches"),
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
    return {"loss": program(w, batches)}


@exercise(
    Same(
        "each parameter's `.grad` is that of the mean over all valid tokens, clipped once",
        "arguments.model.grad",
        weight=2,
    ),
    Same("the norm before clipping is returned, as a float", "returned.norm"),
    arguments=("model", "batches", "max_norm"),
    dtypes=("float32", "float64"),
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
    Same("a frozen weight is the same after the step", "returned.frozen", weight=2),
    Same("every other weight takes the optimizer's own step", "returned.others"),
    Same(
        "weights that thaw go on as if they had rested: the optimizer's memory, groups and flags are untouched",
        "returned.thawed",
        "returned.settings",
    ),
    arguments=("optimizer", "frozen"),
    dtypes=("float32", "float64"),
)
def frozen_step(program, case):
    inputs, hidden, outputs, rows = case.size(2, 3), case.size(4, 5), case.size(6, 7), case.size(8, 9)
    model = network(case, inputs, hidden, outputs)
    first, last = (list(model[number].parameters()) for number in (0, 2))
    optimizer = {
        0: lambda: torch.optim.SGD(model.parameters(), lr=0.1),
        1: lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        2: lambda: torch.optim.Adam(model.parameters(), lr=0.1),
        3: lambda: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5),
        4: lambda: torch.optim.AdamW(two_groups(model), lr=0.1, weight_decay=0.2),
    }[case.kind]()
    x, y = case.normal(rows, inputs), case.normal(rows, outputs)

    def step(frozen):
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        program(optimizer, frozen)
        return [[parameter.detach().clone() for parameter in layer] for layer in (first, last)]

    step([])
    both = [step(first) for _ in range(2)]
    thawed = step([])
    settings = [(group["lr"], len(group["params"])) for group in optimizer.param_groups]
    return {
        "frozen": [one for one, _ in both],
        "others": [other for _, other in both],
        "thawed": thawed,
        "settings": [*settings, *(parameter.requires_grad for parameter in model.parameters())],
    }


@exercise(
    Same("each entry of the diary keeps the gradients of its own step, None where there was none", "returned.vectors"),
    Same("the norms are floats, None where there was no gradient", "returned.norms"),
    Same("the diary holds no graph", "returned.vectors.grad_fn"),
    arguments=("model", "backward", "steps"),
    dtypes=("float32", "float64"),
)
def diary(program, case):
    inputs, outputs = case.size(2, 3), case.size(4, 5)
    model = network(case, inputs, outputs)
    weight, bias = model.parameters()
    set_to_none = case.kind in (1, 3, 4)

    def backward():
        model.zero_grad(set_to_none=set_to_none)
        x = case.normal(case.integer(2, 4), inputs)
        output = F.linear(x, weight, None if case.kind in (2, 3) else bias)
        loss = (output**2).mean()
        if case.kind == 4:
            weight.grad, bias.grad = torch.autograd.grad(loss, (weight, bias), create_graph=True)
        else:
            loss.backward()

    vectors, norms = program(model, backward, case.integer(2, 4))
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.detach().zero_()
    return {"vectors": vectors, "norms": norms}


@exercise(
    Same("with momentum 0 it is plain descent", "returned.plain", weight=2),
    Same("with momentum 1 it is the loop that never clears", "returned.swing"),
    Same("in between, velocity fades by that factor at each step", "returned.between"),
    arguments=("slope", "start", "lr", "momentum", "steps"),
    dtypes=("float64",),
)
def pendulum(program, case):
    stiffness, start, lr = case.number(0.5, 2.0), case.number(2.0, 4.0), case.number(0.1, 0.5)
    pull = case.number(0.3, 0.9) if case.kind == 4 else 0.0
    steps = [2, 3, case.integer(4, 6), case.integer(20, 30), case.integer(5, 9)][case.kind]

    def path(momentum):
        return program(lambda w: stiffness * w + pull * w**3 / 30, start, lr, momentum, steps)

    return {"plain": path(0), "swing": path(1), "between": path(case.number(0.3, 0.9))}
