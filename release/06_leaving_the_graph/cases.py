"""Cases, requirements and specimens of unit 6."""

import functools
import itertools
import weakref

import numpy
import torch
from autogradlab.exercises import Flat, Forbid, Prediction, Rate, Same, exercise
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

# ------------------------------------------------------------------------------------------------------- questions


def warm_up(variant):
    """Lines whose answers are known from the units before, with the learner's own numbers in them."""
    draw = numpy.random.RandomState(6000 + variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 7), (2, 7), (3, 9)))
    return f"""import torch

x = torch.tensor({b}.0)
w = torch.tensor({a}.0, requires_grad=True)
for _ in range(2):
    product = w * x
    product.backward()
copied, shared = w.detach().clone(), w.detach()
with torch.no_grad():
    w += {c}"""


#: What a line can still have of `y`: the history that leads back to `x`, the memory, both, or neither.
TIES = ("both", "history", "memory", "neither")


def ways(variant):
    """The lines of the scissors exercise in three groups of four, in an order of the learner's own."""
    draw = numpy.random.RandomState(6100 + variant)

    def one(*options):
        return options[draw.randint(len(options))]

    groups = [
        [
            "k = y.detach()",
            "k = y.clone()",
            one("k = y.detach().clone()", "k = y.clone().detach()"),
            "k = y.data",
        ],
        [
            one("k = y[:2]", "k = y.view(1, -1)", "k = y[None]"),
            one("k = y.float()", 'k = y.to("cpu")', "k = y.reshape(-1)"),
            one("k = y.double()", "k = y * 1", "k = y + 0"),
            one("k = y.detach().cpu()", "k = y.detach().float()", 'k = y.detach().to("cpu")'),
        ],
        [
            one("k = y.detach().numpy()", "k = y.data.numpy()"),
            "k = y.detach().requires_grad_()",
            "k = torch.tensor(y.tolist(), requires_grad=True)",
            one("with torch.no_grad(): k = y * 1", "with torch.no_grad(): k = y.clone()"),
        ],
    ]
    return [group[number] for group in groups for number in draw.permutation(4)]


def beginning(variant):
    """The lines above those of the scissors exercise."""
    draw = numpy.random.RandomState(6200 + variant)
    values = ", ".join(f"{draw.randint(1, 9)}.0" for _ in range(3))
    return f"x = torch.tensor([{values}], requires_grad=True)\ny = x * {draw.randint(2, 9)}"


@exercise(
    Prediction("cuts and copies: the first four lines", slice(0, 4), weight=2),
    Prediction("windows and conversions: the next four", slice(4, 8)),
    Prediction("NumPy, flags and blocks: the last four", slice(8, None)),
    variants=100,
)
def scissors(variant):
    lines = [f"{number:2}  {line}" for number, line in enumerate(ways(variant), 1)]
    return "\n".join([beginning(variant), "", "What does k still share with y?", *lines])


# ------------------------------------------------------------------------------------------------------- validation


class Interruption(Exception):
    """What ends a validation half way."""


def filled(case, module):
    """The module with the case's dtype, device and numbers in it."""
    module.to(device=case.device, dtype=case.dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(case.uniform(*parameter.shape, low=-0.9, high=0.9))
    return module


def dirty(case, tensors):
    """Leaves a gradient of somebody else's in each tensor."""
    for tensor in tensors:
        tensor.grad = case.uniform(*tensor.shape, low=0.5, high=2.0)


def number(value, facts):
    """The number in a result, whatever it is wrapped in; None where there is none."""
    return None if value is None else float(value.detach() if isinstance(value, torch.Tensor) else value)


@exercise(
    Same("the mean loss over all rows, with the model in evaluation", "returned.loss", view=number, weight=2),
    Same("it is a float", "returned.loss.type"),
    Same("no output of the model is tracked", "returned.some output was tracked"),
    Same(
        "the model ends as it began: weights, running statistics, gradients, and every module's own flag",
        "arguments.model",
        "arguments.model.requires_grad",
        "arguments.model.grad",
    ),
    Same("recording is switched as it was before", "returned.recording afterwards"),
    Same("an error in a batch comes out", "returned.what came out"),
    arguments=("model", "loss_fn", "batches"),
)
def evaluate(program, case):
    features, hidden, classes = case.size(2, 3), case.size(4, 5), case.size(6, 7)
    middle = nn.Sequential(nn.BatchNorm1d(hidden), nn.Tanh(), nn.Dropout(0.5))
    model = filled(case, nn.Sequential(nn.Linear(features, hidden), middle, nn.Linear(hidden, classes)))
    if case.kind in (1, 4):
        dirty(case, model.parameters())
    if case.kind == 2:
        middle[0].eval()  # as with frozen statistics
    if case.kind == 3:
        model.eval()
    tracked = []
    model.register_forward_hook(lambda module, args, output: tracked.append(output.requires_grad))
    rows = [case.size(2, 16) for _ in range([2, 3, 2, 3, 2][case.kind])]
    batches = [(case.normal(count, features), case.integers(0, classes, count)) for count in rows]

    def read():
        for number, batch in enumerate(batches):
            if case.kind == 4 and number == 1:
                raise Interruption("the second batch cannot be read")
            yield batch

    with torch.set_grad_enabled(case.kind != 3):
        found = case.attempt(program, model, F.cross_entropy, read() if case.kind in (1, 3, 4) else batches)
        recording = torch.is_grad_enabled()
    if isinstance(found, Exception) and not isinstance(found, Interruption):
        raise found
    error = type(found).__name__ if isinstance(found, Exception) else "a result"
    return {
        "loss": None if isinstance(found, Exception) else found,
        "some output was tracked": any(tracked),
        "recording afterwards": recording,
        "what came out": error,
    }


# ---------------------------------------------------------------------------------------------------- what logs keep


def log_a(model, batches):
    history = []
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        history.append(loss)
    return history


def log_b(model, batches):
    model.eval()
    history = []
    for x, y in batches:
        history.append(F.mse_loss(model(x), y))
    return history


def log_c(model, batches):
    history = []
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward(retain_graph=True)
        history.append(loss.item())
    return history


def log_d(model, batches):
    history = []
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward(retain_graph=True)
        history.append(loss)
    return history


def log_e(model, batches):
    history = []
    for x, y in batches:
        history.append(F.mse_loss(model(x), y).detach())
    return history


def log_f(model, batches):
    total, count = 0.0, 0
    for x, y in batches:
        total = total + F.mse_loss(model(x), y)
        count += 1
    return total.item() / count


def log_g(model, batches):
    average = model[0].weight.detach().clone()
    for x, y in batches:
        F.mse_loss(model(x), y).backward()
        average = 0.9 * average + 0.1 * model[0].weight
    return average


def log_h(model, batches):
    history = []
    with torch.no_grad():
        for x, y in batches:
            history.append(F.mse_loss(model(x), y))
    return history


logs = dict(zip("ABCDEFGH", (log_a, log_b, log_c, log_d, log_e, log_f, log_g, log_h)))
GROWTHS = ("tensors", "nodes", "nothing")


class Alive(TorchFunctionMode):
    """Counts, while it is in force, what graphs hold: nodes that operations left, and tensors that these saved."""

    class Mark:
        """Lives exactly as long as what it is put into."""

        def __init__(self, tensor=None):
            self.tensor = tensor

    def __init__(self):
        super().__init__()
        self.nodes, self.saved = weakref.WeakSet(), weakref.WeakSet()
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda mark: mark.tensor)

    def __enter__(self):
        self.hooks.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.hooks.__exit__(*error)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.grad_fn is not None:
            self.nodes.add(result.grad_fn.metadata.setdefault(Alive, Alive.Mark()))
        return result

    def pack(self, tensor):
        mark = Alive.Mark(tensor.detach())
        self.saved.add(mark)
        return mark


def growth(log, model, batches):
    """What graphs hold more at the beginning of each later step of a log."""
    counts = []

    def noted():
        for batch in batches:
            counts.append((len(alive.saved), len(alive.nodes)))
            yield batch

    with Alive() as alive:
        log(model, noted())
    saved, nodes = zip(*counts[1:])
    if saved[-1] > saved[-2] > saved[-3]:
        return "tensors"
    return "nodes" if nodes[-1] > nodes[-2] > nodes[-3] else "nothing"


@exercise(
    Same("whether anything grows is right", "returned.whether it grows", weight=2),
    Same("what grows is right", "returned.what grows"),
    arguments=("log",),
    visible=8,
    fresh=16,
    devices=("cpu",),
)
def what_grows(program, case):
    letter = "ABCDEFGH"[case.kind]
    features, hidden, rows = case.size(2, 4), case.size(5, 8), case.size(9, 12)
    model = filled(case, nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1)))
    batches = [(case.normal(rows, features), case.normal(rows, 1)) for _ in range(case.integer(5, 7))]
    return verdict_on(program(letter), growth(logs[letter], model, batches))


def verdict_on(answer, truth):
    """What is amiss in a verdict, in words that do not give the right one away."""
    parts = ("whether it grows", "what grows")
    if answer not in GROWTHS:
        return dict.fromkeys(parts, f"the verdict is none of {', '.join(GROWTHS)}")
    told = "what running it shows"
    if (answer == "nothing") != (truth == "nothing"):
        return dict.fromkeys(parts, "not what running it shows")
    return dict(zip(parts, (told, told if answer == truth else "not what running it shows")))


# ------------------------------------------------------------------------------------------------------------- cuts


@exercise(
    Same("the online weights make the optimizer's step on the prediction alone", "arguments.online", weight=2),
    Same("the target follows: each of its weights is moved by that share", "arguments.target", weight=2),
    Same("no gradient reaches the target", "arguments.target.grad"),
    Same(
        "the target's weights are the same tensors as before, and hold no history",
        "returned.weights of the target",
    ),
    Same("the losses are floats, from before the step", "returned.losses"),
    arguments=("online", "target", "optimizer", "batch", "gamma", "share"),
    dtypes=("float32", "float64"),
)
def bootstrap_step(program, case):
    features, hidden = case.size(2, 3), case.size(4, 5)
    online, target = (
        filled(case, nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))) for _ in range(2)
    )
    if case.kind == 3:
        target = online
    if case.kind == 4:
        target.requires_grad_(False)
    if case.kind in (1, 3):
        dirty(case, online.parameters())
    make = torch.optim.Adam if case.kind == 2 else torch.optim.SGD
    optimizer = make(online.parameters(), lr=0.1)
    before = list(target.parameters())
    gamma, share = case.number(0.5, 0.95), 1.0 if case.kind == 2 else case.number(0.1, 0.4)
    losses = []
    for _ in range(2):
        rows = case.size(6, 16)
        batch = case.normal(rows, features), case.normal(rows, 1), case.normal(rows, features)
        losses.append(program(online, target, optimizer, batch, gamma, share))
    weights = [
        {"the same tensor": old is new, "a leaf": new.is_leaf, "tracked": new.requires_grad}
        for old, new in zip(before, target.parameters())
    ]
    return {"losses": losses, "weights of the target": weights}


# ----------------------------------------------------------------------------------------------------------- chunks


@exercise(
    Same(
        "the gradients are those of the chunks, each without its past",
        "arguments.cell.grad",
        "arguments.head.grad",
        weight=2,
    ),
    Same("the loss over all places is returned, as a float", "returned.loss"),
    Same("the last state is returned, and holds no history", "returned.state", "returned.state.requires_grad"),
    Same("nothing goes back beyond the first state", "returned.gradient behind the first state"),
    Flat("never more than one chunk's saved tensors are in memory", "cost.peak_bytes", over="chunks"),
    arguments=("cell", "head", "h", "inputs", "targets", "size"),
    dtypes=("float32", "float64"),
)
def truncated(program, case):
    features, hidden, outputs, rows = case.size(2, 3), case.size(4, 5), case.size(6, 7), case.size(8, 9)
    cell, head = filled(case, nn.RNNCell(features, hidden)), filled(case, nn.Linear(hidden, outputs))
    if case.kind in (1, 4):
        dirty(case, [*cell.parameters(), *head.parameters()])
    size = [2, 2, 1, 4, 3][case.kind]
    chunks = case.over("chunks", 2)
    # Longer runs in the smallest kind of case alone: they take most of the time of a check.
    steps = {0: size * chunks, 1: 5, 2: case.integer(3, 5), 3: 4, 4: 7}[case.kind]
    first = case.normal(rows, hidden, requires_grad=case.kind == 4)
    h = first.tanh() if case.kind == 4 else first
    inputs, targets = ([case.normal(rows, size) for _ in range(steps)] for size in (features, outputs))
    loss, state = program(cell, head, h, inputs, targets, size)
    return {"loss": loss, "state": state, "gradient behind the first state": first.grad}


# ------------------------------------------------------------------------------------------------- straight through


@exercise(
    Same(
        "the nearest whole numbers come back, and inside the range the gradient is handed through",
        "returned.numbers",
        "returned.numbers.requires_grad",
        "returned.slopes inside",
        weight=2,
    ),
    Same("outside it is 0", "returned.slopes outside"),
    Same("a second derivative can be taken through it", "returned.second slopes"),
    Same("`x` is as before, and shares no memory with the result", "arguments.x", "returned.numbers.memory"),
    arguments=("x", "low", "high"),
    dtypes=("float32", "float64"),
)
def quantize(program, case):
    low, high = case.integer(-3, -1), case.integer(2, 4)
    x = case.uniform(case.size(6, 9), low=low + 0.05, high=high - 0.05)
    if case.kind != 0:
        x[0], x[1] = high + case.number(0.6, 3.0), low - case.number(0.6, 3.0)
    if case.kind in (2, 3):  # outside, and rounded into the range
        x[2], x[3] = high + case.number(0.1, 0.4), low - case.number(0.1, 0.4)
    if case.kind == 3:
        x = x.reshape(1, -1).repeat(case.size(2, 3), 1)
    x.requires_grad_()
    inside = (x.detach() >= low) & (x.detach() <= high)
    given = x * 1.0 if case.kind == 4 else x
    weights = case.normal(*x.shape)
    q = program(given, low, high)
    first = case.attempt(lambda: torch.autograd.grad((q * weights).sum(), x, retain_graph=True)[0])
    slopes = first if isinstance(first, torch.Tensor) else None
    second = "there are no first ones" if slopes is None else case.attempt(second_slopes, q, x)
    return {
        "numbers": q,
        "slopes inside": first if slopes is None else slopes[inside],
        "slopes outside": first if slopes is None else slopes[~inside],
        "second slopes": second,
    }


def second_slopes(q, x):
    """The slopes in x of the slope that a sum of squares of q has."""
    (slope,) = torch.autograd.grad((q**2).sum(), x, create_graph=True)
    return torch.autograd.grad(slope.sum(), x)[0]


# ------------------------------------------------------------------------------------------- a switch of one's own


def recording():
    """Whether a product of a tracked tensor is recorded here and now."""
    return (torch.ones(1, requires_grad=True) * 2).requires_grad


@exercise(
    Same("nothing is recorded in its block", "returned.in a block", weight=2),
    Same("blocks within blocks each put back what they found", "returned.within other blocks"),
    Same("an error comes out, and recording is as it was", "returned.after errors"),
    Same("a function below it runs unrecorded, with its arguments, its result and its name", "returned.a function"),
    Same("a generator below it runs unrecorded, and its caller is recorded meanwhile", "returned.a generator"),
    Forbid(
        "torch.no_grad",
        "torch.autograd.no_grad",
        "torch.autograd.grad_mode.no_grad",
        "torch.inference_mode",
        "torch.autograd.inference_mode",
        "torch.autograd.grad_mode.inference_mode",
    ),
    arguments=(),
)
def quiet(program, case):
    parts = {
        "in a block": block,
        "within other blocks": nested,
        "after errors": errors,
        "a function": wrapped_function,
        "a generator": wrapped_generator,
    }
    seen = {}
    for name, part in parts.items():
        with torch.enable_grad():  # what one part leaves switched off is not held against the next
            seen[name] = part(program, case)
    return seen


def block(program, case):
    """Products from before, in and after a block, each with whether it was recorded."""
    x, factors = case.normal(2, requires_grad=True), [case.number(0.5, 2.0) for _ in range(3)]
    products = [x * factors[0]]
    with program():
        products.append(x * factors[1])
    products.append(x * factors[2])
    return [[product.requires_grad, product.detach()] for product in products]


def nested(program, case):
    """What is recorded at each depth of blocks within blocks, some of them of one and the same object."""
    with torch.set_grad_enabled(case.kind != 4):
        notes, switch = [], program()
    with torch.set_grad_enabled(case.kind == 1):
        with switch:
            notes.append(recording())
            with torch.enable_grad():
                notes.append(recording())
                with switch if case.kind in (2, 3) else program():
                    notes.append(recording())
                notes.append(recording())
            notes.append(recording())
        notes.append(recording())
    with switch:
        notes.append(recording())
    return [*notes, recording()]


def errors(program, case):
    """What comes out of a block and of a function that raise, and whether recording is on afterwards."""

    def failing():
        raise Interruption("half way")

    def in_block():
        with program():
            failing()

    # A tool that a program left switched would hide what the next one does.
    notes = []
    for call in (in_block, program()(failing)) if case.kind != 4 else (program()(failing), in_block):
        with torch.enable_grad():
            notes += [type(case.attempt(call)).__name__, recording()]
    return notes


def wrapped_function(program, case):
    """What a decorated function sees, returns and is called."""
    a, b = case.integer(2, 9), case.integer(2, 9)

    @program()
    def total(first, *, second=0):
        return first + second, recording()

    return [total(a), total(a, second=b), recording(), total.__name__]


def wrapped_generator(program, case):
    """What a decorated generator and its caller see in turns, also where the caller leaves early."""
    count, early = case.integer(2, 4), case.kind in (2, 4)
    made = []

    @program()
    def counting(count):
        try:
            for value in range(count):
                made.append(value)
                yield value, recording()
        finally:
            made.append("closed")

    notes = []
    for value, inside in counting(count):
        notes.append([value, inside, recording(), len(made)])
        if early and value == 1:
            break
    return [notes, recording(), made, counting.__name__]


# ------------------------------------------------------------------------------------------------------------ leaks


def filled_network(case, *sizes):
    """Linear layers of these sizes with Tanh between them, filled with the case's numbers."""
    pairs = list(itertools.pairwise(sizes))
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair), nn.Tanh())]
    return filled(case, nn.Sequential(*layers[:-1]))


def names_in(found, facts):
    """The keys of an answer that is a dict, in order."""
    return sorted(map(str, found)) if isinstance(found, dict) else f"a value of type {type(found).__name__}"


def by_name(found, facts):
    """An answer that is a dict, in order."""
    if not isinstance(found, dict):
        return f"a value of type {type(found).__name__}"
    return {str(name): found[name] for name in sorted(found, key=str)}


@exercise(
    Same("the entries that leak are named, and no other", "returned.leaks", view=names_in),
    Same("what each of them piles up is right", "returned.leaks", view=by_name, weight=2),
    Same("`step` is called that many times, with the state", "calls.step", "returned.calls with another state"),
    Same("the gradients of the loop are its own", "arguments.model.grad"),
    Same("what the loop has dropped is gone", "returned.dropped graphs still alive"),
    arguments=("step", "state", "steps"),
    devices=("cpu",),
)
def find_leak(program, case):
    features, hidden, rows = case.size(2, 3), case.size(4, 6), case.size(7, 12)
    model = filled_network(case, features, hidden, 1)
    case.watch(model=model)
    x, y = case.normal(rows, features), case.normal(rows, 1)
    state, notes = {"losses": [], "last": None, "average": model[0].weight.detach().clone()}, {"alive": 0, "others": 0}
    if case.kind in (1, 3):
        state |= {"first": F.mse_loss(model(x), y), "window": []}
    if case.kind in (1, 2):
        state["batch"] = []
    if case.kind == 4:
        state |= {"total": 0.0, "notes": {"text": "a run", "hidden": []}}
    dropped, numbers = weakref.WeakSet(), itertools.count(1)
    # Emptied every four steps, `batch` holds as little after eight steps as after none, and more after ten.
    steps = {1: 8, 2: 10}.get(case.kind, 2 * case.integer(4, 5))

    def step(given):
        notes["others"] += given is not state
        notes["alive"] = max(notes["alive"], len(dropped))
        model.zero_grad()
        loss = F.mse_loss(model(x), y)
        dropped.add(loss.grad_fn.metadata.setdefault(Alive, Alive.Mark()))
        if case.kind in (2, 3):
            loss.backward()
        state["last"] = loss
        grow(case.kind, state, loss, model, x)
        # Logs that begin in the middle: with the second half, which is a leak by then, and one step later.
        number = next(numbers)
        for kinds, name, first in (
            ((2, 3), "from the middle", steps // 2 + 1),
            ((2,), "behind the middle", steps // 2 + 2),
        ):
            if case.kind in kinds and number >= first:
                state.setdefault(name, []).append(F.mse_loss(model(x), y))

    found = program(case.counted("step", step), state, steps)
    return {"leaks": found, "calls with another state": notes["others"], "dropped graphs still alive": notes["alive"]}


def grow(kind, state, loss, model, x):
    """What a loop of this kind keeps of a step; some of it piles up, and some only looks like it."""
    again = F.mse_loss(model(x), torch.zeros_like(loss).expand(len(x), 1))
    if kind == 0:
        state["losses"].append(again)
    elif kind == 1:
        state["losses"].append(loss.item())
        state["window"] = [*state["window"], again][-3:]
        state["batch"] = [] if len(state["batch"]) == 3 else [*state["batch"], again]
    elif kind == 2:
        state["losses"].append(loss.detach())
        state["average"] = 0.9 * state["average"] + 0.1 * model[0].weight
        state["batch"] = [] if len(state["batch"]) == 3 else [*state["batch"], again]
    elif kind == 3:
        again.backward()
        state["losses"].append(again)
        state["window"] = [*state["window"], F.mse_loss(model(x), x[:, :1])][-3:]
    else:
        state["total"] = state["total"] + again
        state.setdefault("kept", [0, 0]).append(loss.item())
        state["notes"]["hidden"].append(model[0](x).tanh())


# ----------------------------------------------------------------------------------------------- loops to look through


def loop_a(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop_b(model, optimizer, loss_fn, batches):
    losses = []
    optimizer.zero_grad()
    for x, y in batches:
        loss = loss_fn(model(x), y)
        losses.append(loss.detach().item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses


def loop_c(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        prediction = model(x).detach().requires_grad_()
        loss = loss_fn(prediction, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop_d(model, optimizer, loss_fn, batches):
    losses = []
    parameters = list(model.parameters())
    for x, y in batches:
        loss = loss_fn(model(x), y)
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            parameter.grad = gradient
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop_e(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.set_grad_enabled(False)
    return losses


def loop_f(model, optimizer, loss_fn, batches):
    def closure(x, y):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        return loss

    losses = []
    for x, y in batches:
        losses.append(optimizer.step(functools.partial(closure, x, y)).item())
    return losses


def loop_g(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer = type(optimizer)(model.parameters(), lr=optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop_h(model, optimizer, loss_fn, batches):
    losses, scores = [], []
    for x, y in batches:
        model.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        flags = {module: module.training for module in model.modules()}
        model.eval()
        with torch.no_grad():
            scores.append(loss_fn(model(x), y).item())
        for module, flag in flags.items():
            module.training = flag
    return losses


def loop_i(model, optimizer, loss_fn, batches):
    losses, scores = [], []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            scores.append(loss_fn(model(x), y).item())
    return losses


def loop_j(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        with torch.no_grad():
            wanted = y.clone()
        loss = loss_fn(model(x), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.tolist())
    return losses


def loop_k(model, optimizer, loss_fn, batches):
    losses = []
    flags = {module: module.training for module in model.modules()}
    model.eval()
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for module, flag in flags.items():
        module.training = flag
    return losses


def loop_l(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


loops = dict(
    zip(
        "ABCDEFGHIJKL",
        (loop_a, loop_b, loop_c, loop_d, loop_e, loop_f, loop_g, loop_h, loop_i, loop_j, loop_k, loop_l),
    )
)


def clears_once(model, optimizer, loss_fn, batches):
    losses = []
    optimizer.zero_grad()
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def starts_again(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.tensor(loss_fn(model(x), y).item(), requires_grad=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def shortens_the_first(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        weight = next(model.parameters())
        weight /= weight.norm()
    return losses


def shortens_the_last(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        bias = list(model.parameters())[-1]
        bias /= bias.norm()
    return losses


def forgets(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.state.clear()
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def stays_off(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        torch.set_grad_enabled(True)
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        torch.set_grad_enabled(False)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def stays_in_evaluation(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        model.eval()
    model.train()
    return losses


def looks_twice(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        model(batches[0][0])
    return losses


def leaves_a_part(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    list(model.modules())[-1].training = False
    return losses


def leaves_the_whole(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.training = False
    return losses


def clears_the_model(model, optimizer, loss_fn, batches):
    losses = [0.0] * len(batches)
    for number, (x, y) in enumerate(batches):
        model.zero_grad(set_to_none=True)
        output = model(x)
        loss = loss_fn(output, y)
        losses[number] += loss.item()
        loss.backward()
        optimizer.step()
    return losses


#: Of each kind of loop, those that a case chooses from. What gives one of a kind away gives the others away.
KINDS = (
    (loop_a, clears_once),
    (loop_b, clears_the_model),
    (loop_c, starts_again, shortens_the_first, shortens_the_last),
    (loop_d, loop_j),
    (loop_e, stays_off),
    (loop_f, loop_b),
    (loop_g, forgets),
    (loop_h,),
    (loop_i, looks_twice),
    (loop_j, loop_f),
    (loop_k, stays_in_evaluation),
    (loop_l, leaves_a_part, leaves_the_whole),
)


def truth(found, facts):
    """What `if` makes of a verdict."""
    return bool(found)


@exercise(
    Rate("at least eight verdicts of ten are right", "returned.suspicious", view=truth, at_least=0.8),
    Same("every verdict is right", "returned.suspicious", view=truth, weight=2),
    Same("each verdict is True or False", "returned.suspicious.type"),
    Same("recording is on afterwards, whatever the loop did", "returned.recording afterwards"),
    arguments=("train",),
    visible=12,
    fresh=12,
    devices=("cpu",),
)
def suspicious(program, case):
    train = case.specimen(case.choice(KINDS[case.kind]))
    found = program(train)
    return {"suspicious": found, "recording afterwards": torch.is_grad_enabled()}
