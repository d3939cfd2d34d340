"""Cases, requirements and specimens of unit 7."""

import functools
import io
import itertools
import math

import numpy
import torch
from autogradlab.exercises import AtMost, Prediction, Same, exercise
from torch import nn
from torch.nn import functional as F

# ------------------------------------------------------------------------------------------------------- questions


def warm_up(variant):
    """Lines whose answers are known from the units before, with the learner's own numbers in them."""
    draw = numpy.random.RandomState(variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 8), (2, 9), (2, 6)))
    return f"""import torch

w = torch.tensor({a}.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.5)
({b} * w).backward()
(w * w).backward()
with torch.no_grad():
    score = {c} * w
total = w.grad.item()
optimizer.zero_grad()
optimizer.step()"""


# ------------------------------------------------------------------------------------------------------- the loop

HONEST = """
def loop(model, make_optimizer, loss_fn, train, held_out, *, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    optimizer = make_optimizer(model.parameters())
    losses, scores = [], []
    for epoch in range(epochs):
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        order = torch.randperm(len(x), generator=generator).to(x.device)
        model.train()
        total = 0.0
        for rows in order.split(size):
            optimizer.zero_grad()
            for some in rows.split(part):
                loss = loss_fn(model(x[some]), y[some]) * (len(some) / len(rows))
                loss.backward()
                total = total + loss.detach() * len(rows)
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
        losses.append((total / len(x)).item())
        model.eval()
        with torch.no_grad():
            score = (model(held_x).argmax(dim=1) == held_y).float().mean()
        scores.append(score.item())
    return losses, scores
""".lstrip()


def edited(*changes):
    """The loop with some of its lines changed: pairs of what stands there and what is to stand there."""
    text = HONEST
    for before, after in changes:
        if text.count(before) != 1:
            raise ValueError(f"{before!r} stands {text.count(before)} times in the loop; expected once")
        text = text.replace(before, after)
    return text


CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
BUILD = "    optimizer = make_optimizer(model.parameters())\n"
SHARE = " * (len(some) / len(rows))"
SCORE = HONEST[HONEST.index("        with torch.no_grad()") : HONEST.index("    return")]
CLEAR = "            optimizer.zero_grad()\n"
STEP = "            optimizer.step()\n"
FORWARD = "                loss = loss_fn"

#: One honest loop and twelve copies with a fault in each, as text.
LOOP_TEXTS = {
    "A": edited(("        model.train()\n", ""), ("    losses, scores =", "    model.train()\n    losses, scores =")),
    "B": edited((SHARE, " / len(rows.split(part))")),
    "C": edited((CLEAR, "")),
    "D": edited((BUILD, ""), ("        model.train()\n", f"        model.train()\n    {BUILD}")),
    "E": edited((CLIP, ""), ("                total =", f"    {CLIP}                total =")),
    "F": HONEST,
    "G": edited(("order.split(size):", "order.split(size)[: len(x) // size]:")),
    "H": edited(("1000 * seed + epoch", "1000 * seed")),
    "I": edited((SCORE, "        scores.append(loss_fn(model(held_x), held_y))\n")),
    "J": edited((SHARE, "")),
    "K": edited(("        model.eval()\n", "")),
    "L": edited((CLEAR, ""), (FORWARD, f"    {CLEAR}{FORWARD}")),
    "M": edited((CLEAR, ""), (FORWARD, f"    {CLEAR}{FORWARD}"), (f"{CLIP}{STEP}", f"    {CLIP}    {STEP}")),
}


def compiled(text):
    """The function `loop` of a text."""
    names = {"torch": torch, "nn": nn}
    exec(text, names)
    return names["loop"]


loops = {letter: compiled(text) for letter, text in LOOP_TEXTS.items()}

#: What can be switched on in a situation: its name, and which of the calm situation's settings it changes.
CALM = {"rows": 6, "size": 6, "part": 6, "epochs": 1, "max_norm": math.inf, "momentum": 0.0, "dropout": 0.0}
SWITCHES = {
    "equal parts": {"part": 3},
    "unequal parts": {"part": 4},
    "more batches": {"rows": 12},
    "short batch": {"rows": 9},
    "two epochs": {"epochs": 2},
    "momentum": {"momentum": 0.9},
    "clipping": {"max_norm": 0.05},
    "dropout": {"dropout": 0.5},
}


def weights_after(letter, switches=(), seed=0):
    """All weights of a small model, in one float64 vector, after this loop ran with these switches on."""
    return weights_in(letter, tuple(switch for switch in SWITCHES if switch in switches), seed).clone()


@functools.lru_cache(maxsize=4096)
def weights_in(letter, switches, seed):
    setting = CALM.copy()
    for switch in switches:
        setting |= SWITCHES[switch]
    draw = numpy.random.RandomState(seed)

    def numbers(*shape):
        return torch.tensor(draw.normal(size=shape))

    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(setting["dropout"]), nn.Linear(8, 3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbers(*parameter.shape) / 2)
    rows = [(numbers(count, 4), torch.tensor(draw.permutation(count) % 3)) for count in (setting["rows"], 5)]

    def make_optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.5, momentum=setting["momentum"])

    kept = {name: setting[name] for name in ("epochs", "size", "part", "max_norm")}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        loops[letter](model, make_optimizer, F.cross_entropy, *rows, seed=seed, **kept)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


# -------------------------------------------------------------------------------------------------- counting a loop


def loop_sizes(variant):
    """Rows, batch, part and epochs of the counting exercise; the last batch is short, and so is its last part."""
    draw = numpy.random.RandomState(7000 + variant)
    part, parts = int(draw.randint(4, 9)), int(draw.randint(3, 6))
    full, epochs = int(draw.randint(2, 6)), int(draw.randint(2, 5))
    last = part * int(draw.randint(1, parts - 1)) + int(draw.randint(1, part))
    size = part * parts
    return {"rows": size * full + last, "size": size, "part": part, "epochs": epochs}


@exercise(
    Prediction("the first two: how often the optimizer steps, how often something goes backward", slice(0, 2)),
    Prediction("the third: among how many rows the last update is shared", slice(2, 3)),
    Prediction("the last three: what waits, and what is recorded", slice(3, None)),
    variants=100,
)
def loop_count(variant):
    sizes = loop_sizes(variant)
    return f"""The honest loop runs with {sizes["rows"]} rows, size={sizes["size"]}, part={sizes["part"]}, \
epochs={sizes["epochs"]}. Over all epochs together:
1  How often does the optimizer step?
2  How often does something go backward?
3  In the last update, a row of the last part counts one over how many?
4  How often does Python wait for a value?
5  How often is the model called?
6  How many of these calls are recorded?"""


# ------------------------------------------------------------------------------------------------- seeds and epochs


def rows_of(epochs, facts):
    """The sizes of the batches of each epoch, and which rows are in them."""
    return [
        [[len(rows) for rows in batches], sorted(row for rows in batches for row in rows.tolist())]
        for batches in epochs
    ]


@exercise(
    Same("in every epoch each row comes once, `size` at a time", "returned.epochs", view=rows_of, weight=2),
    Same("the order is that of the seed and the epoch", "returned.epochs", weight=2),
    Same("the caller's own stream of numbers goes on as if nothing had been drawn", "returned.the caller's numbers"),
    arguments=("rows", "size", "seed", "epoch"),
    devices=("cpu",),
)
def epoch_batches(program, case):
    size = case.size(2, 4)
    rows = [2 * size, 3 * size + 1, size, 2 * size - 1, 4 * size + 1][case.kind]
    seed, first = case.integer(1, 99), case.integer(3, 9)
    torch.manual_seed(case.integer(200, 299))
    epochs, own = [], [torch.rand(2)]
    for epoch in (0, 1, first, 0):
        batches = program(rows, size, seed, epoch)
        epochs.append(list(batches) if isinstance(batches, tuple) else batches)
        own.append(torch.rand(2))
    return {"epochs": epochs, "the caller's numbers": own}


# ------------------------------------------------------------------------------------------------------- one update


def network(case, *sizes, middle=nn.Tanh):
    """Linear layers of these sizes with another layer between them, filled with the case's numbers."""
    pairs = list(itertools.pairwise(sizes))
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair), middle())]
    model = nn.Sequential(*layers[:-1]).to(case.device, case.dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(case.uniform(*parameter.shape, low=-0.9, high=0.9))
    return model


def dirty(case, model):
    """Leaves a gradient of somebody else's in each parameter."""
    for parameter in model.parameters():
        parameter.grad = case.uniform(*parameter.shape, low=0.5, high=2.0)


@exercise(
    Same(
        "weights and optimizer end as after updates from all rows at once, each clipped once",
        "arguments.model",
        "arguments.optimizer",
        weight=3,
    ),
    Same("the mean loss of all rows is returned, as a tensor", "returned.losses", "returned.losses.device"),
    Same("no history hangs on what is returned", "returned.losses.requires_grad"),
    AtMost("Python waits for no value", "cost.syncs", 0),
    AtMost(
        "never more than one part's saved tensors are in memory",
        "cost.peak_bytes",
        lambda facts: facts["bytes of a part"],
    ),
    arguments=("model", "optimizer", "loss_fn", "x", "y", "part", "max_norm"),
    dtypes=("float32", "float64"),
    fresh=6,
)
def update(program, case):
    features, hidden, classes = case.size(2, 4), case.size(2, 4), case.size(5, 6)
    model = network(case, features, hidden, classes)
    settings = [{}, {}, {"momentum": 0.9}, {"momentum": 0.5, "weight_decay": 0.1}, {"momentum": 0.9}][case.kind]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, **settings)
    if case.kind in (1, 3, 4):
        dirty(case, model)
    part, whole = case.size(7, 12), [2, 1, 2, 0, 3][case.kind]
    rows = part * whole + (0 if case.kind == 0 else part // 2)
    x, y = case.normal(rows, features), case.integers(0, classes, rows)
    # What is saved of x and y is all of them, whatever the part; half a part more than one is still one.
    row = (hidden + classes) * x.element_size()
    case.note(**{"bytes of a part": x.nbytes + y.nbytes + int(1.4 * part * row) + 64})
    max_norm = [90.0, 70.0, 0.05, 0.1, 0.02][case.kind]
    return {"losses": [program(model, optimizer, F.cross_entropy, x, y, part, max_norm) for _ in range(2)]}


# ------------------------------------------------------------------------------------------------ the twelve copies


@exercise(
    Same(
        "in the situation that you name the weights differ; where you name none, none makes them differ",
        "returned.the check of your situations",
        weight=2,
    ),
    Same("no switch is on that could be off", "returned.the check of superfluous switches"),
    Same("what keeps too much is told from what is honest", "returned.the check of your words"),
    arguments=("loop",),
    devices=("cpu",),
    fresh=5,
)
def expose(program, case):
    seed = case.integer(0, 10**6)

    def differs(letter, switches):
        yours, honest = (weights_after(one, switches, seed) for one in (letter, "F"))
        return not torch.allclose(yours, honest, rtol=1e-6, atol=1e-9)

    found = [looked_into(letter, program(letter), differs) for letter in ("ABC", "DEF", "GHI", "JK", "LM")[case.kind]]
    parts = ("situations", "superfluous switches", "words")
    return {
        f"the check of {'your ' * (part != 'superfluous switches')}{part}": "; ".join(filter(None, lines))
        or "nothing amiss"
        for part, lines in zip(parts, zip(*found))
    }


def looked_into(letter, answer, differs):
    """What is amiss in an answer on one loop, in words that do not give the right one away."""
    if isinstance(answer, str) and answer in ("memory", "nothing"):
        if letter not in "FI":
            return f"{letter}: there is a situation in which its weights differ", "", ""
        if letter == "F":
            return "", "", f"{letter}: it keeps no more after many epochs than after one" * (answer == "memory")
        return "", "", f"{letter}: with every epoch it keeps more" * (answer == "nothing")
    if not isinstance(answer, (list, tuple, set)):
        return f'{letter}: the answer is neither a list nor "memory" nor "nothing"', "", ""
    unknown = [repr(switch) for switch in answer if switch not in SWITCHES]
    if unknown:
        return f"{letter}: {', '.join(unknown)} is no switch", "", ""
    if not differs(letter, answer):
        return f"{letter}: with {', '.join(sorted(answer)) or 'no switch'} on, its weights are the honest ones", "", ""
    spare = [switch for switch in answer if differs(letter, [one for one in answer if one != switch])]
    return "", f"{letter}: its weights differ with {spare[0]} off as well" if spare else "", ""


# ---------------------------------------------------------------------------------------------------- a checkpoint


def restore(saved, model, optimizer, generator):
    """Puts everything back as it was when it was captured; returns the epoch."""
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    generator.set_state(saved["generator"])
    torch.set_rng_state(saved["torch"])
    return saved["epoch"]


def through_a_file(saved):
    """What comes back from a file that holds plain data and tensors alone."""
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@exercise(
    Same(
        "from a file, a new model goes on as the old one did", "returned.from the file", "returned.its steps", weight=2
    ),
    Same(
        "what was captured stays as it was while the training goes on",
        "returned.in the same process",
        "returned.the steps again",
    ),
    Same("the epoch comes back", "returned.epochs"),
    Same("capturing changes nothing", "returned.the steps after it"),
    arguments=("model", "optimizer", "generator", "epoch"),
    fresh=6,
)
def capture(program, case):
    features, hidden, outputs, rows = case.size(2, 3), case.size(4, 5), case.size(6, 7), case.size(9, 14)
    x, y = case.normal(rows, features), case.normal(rows, outputs)

    def beginning():
        model = network(case, features, hidden, outputs)
        optimizer = {
            0: lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            1: lambda: torch.optim.Adam(model.parameters(), lr=0.1),
            2: lambda: torch.optim.SGD(model.parameters(), lr=0.1),
            3: lambda: torch.optim.AdamW(model.parameters(), lr=0.1),
            4: lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5),
        }[case.kind]()
        return model, optimizer, torch.Generator().manual_seed(case.integer(1, 999))

    def steps(model, optimizer, generator):
        for _ in range(2):
            some = torch.randperm(rows, generator=generator)[:5].to(x.device)
            noise = torch.randn(5, features).to(x) / 5
            optimizer.zero_grad()
            F.mse_loss(model(x[some] + noise), y[some]).backward()
            optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    torch.manual_seed(case.integer(1, 999))
    old, new = beginning(), beginning()
    steps(*old)
    saved = program(*old, case.integer(1, 9))
    file = case.attempt(through_a_file, saved)
    after = steps(*old)
    again = case.attempt(restore, saved, *old)
    results = {"in the same process": "it came back" if type(again) is int else again, "the steps again": steps(*old)}
    back = case.attempt(restore, file, *new)
    results |= {"from the file": "it came back" if type(back) is int else back, "its steps": steps(*new)}
    return results | {"epochs": [again, back], "the steps after it": after}


# ---------------------------------------------------------------------------------------------- keeping the best


class WithNorm(nn.Module):
    """A layer with a memory between two others: its running mean moves while the model trains."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, outputs)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


@exercise(
    Same("each epoch's loss on the held-out rows is returned, as a float", "returned.losses", weight=2),
    Same("the model ends with all that it was after its best epoch", "arguments.model", weight=2),
    Same("the model ends in the mode in which it came", "returned.training modes"),
    Same("no pass over the held-out rows is recorded", "returned.held-out passes that were recorded"),
    Same("whoever records goes on recording", "mode.grad"),
    arguments=("model", "optimizer", "loss_fn", "train", "held_out", "epochs", "size", "part", "max_norm", "seed"),
    needs=("epoch_batches", "update"),
    fresh=6,
)
def fit(program, case):
    features, classes, rows = case.size(2, 3), case.size(4, 5), 10 if case.kind == 2 else case.size(9, 12)
    if case.kind == 2:
        model = WithNorm(features, classes).to(case.device, case.dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(case.uniform(*parameter.shape, low=-0.9, high=0.9))
    else:
        model = network(case, features, 6, classes, middle=nn.Tanh if case.kind in (0, 4) else Rests)
    model.train(case.kind != 3)
    x, y = case.normal(rows, features), case.integers(0, classes, rows)
    held_out = x.clone(), (y + 1) % classes
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.8)
    # Which epoch is the best one, and which the worst, is not left to chance: on the held-out rows the loss has a
    # factor that depends on how many epochs the optimizer has stepped through.
    factors = [[0.01, 100, 1], [1, 0.01, 100, 1], [100, 0.01, 1], [1, 100, 0.01, 1], [1, 100, 0.01]][case.kind]
    recorded, steps = [0], [0]

    def stepped(optimizer, args, kwargs):
        steps[0] += 1

    def loss_fn(output, wanted):
        loss = F.cross_entropy(output, wanted)
        epoch = min(steps[0] // math.ceil(rows / 5), len(factors))
        return loss * factors[epoch - 1] if len(output) == rows else loss

    def called(module, inputs, output):
        recorded[0] += len(inputs[0]) == rows and output.requires_grad

    optimizer.register_step_post_hook(stepped)
    handle = model.register_forward_hook(called)
    torch.manual_seed(case.integer(1, 999))
    settings = len(factors), 5, 3, [90.0, 0.5, 70.0, 60.0, 80.0][case.kind], case.integer(1, 99)
    losses = program(model, optimizer, loss_fn, (x, y), held_out, *settings)
    handle.remove()
    modes = {module.training for module in model.modules()}
    return {"losses": losses, "held-out passes that were recorded": recorded[0], "training modes": sorted(modes)}


class Rests(nn.Sequential):
    """A bend, and dropout after it."""

    def __init__(self):
        super().__init__(nn.Tanh(), nn.Dropout(0.4))


# ----------------------------------------------------------------------------------------------- an own optimizer


@exercise(
    Same("without momentum and decay it is plain descent", "returned.weights, plain", weight=2),
    Same(
        "with momentum, the velocity fades by that factor and takes the new slope whole", "returned.weights, momentum"
    ),
    Same("decay is part of the slope", "returned.weights, decay", "returned.weights, both"),
    Same("a parameter without a gradient rests, and its velocity waits", "returned.weights, some gradients missing"),
    Same(
        "step() leaves the gradients to the caller, and zero_grad() clears them",
        "returned.gradients",
        "returned.gradients after zero_grad()",
    ),
    Same("the parameters stay the tensors that they are, leaves and tracked", "returned.leaves"),
    arguments=(),
    dtypes=("float64",),
    fresh=6,
)
def OwnSGD(program, case):
    shapes = [(case.size(2, 4),), (case.size(2, 4), case.size(5, 6)), ()]
    starts = [case.normal(*shape) for shape in shapes]
    slopes = [[case.normal(*shape) for shape in shapes] for _ in range(4)]
    lr, momentum, decay = case.number(0.05, 0.2), case.number(0.3, 0.9), case.number(0.1, 0.5)
    gradients, leaves, cleared = [], [], []

    def path(missing=(), **settings):
        parameters = [start.clone().requires_grad_() for start in starts]
        optimizer = program(iter(parameters), lr, **settings)
        weights = []
        for step, now in enumerate(slopes):
            for number, (parameter, slope) in enumerate(zip(parameters, now)):
                if (step, number) in missing:
                    parameter.grad = None
                elif parameter.grad is None or case.kind % 2:
                    parameter.grad = slope.clone()
                else:
                    parameter.grad.copy_(slope)  # as after zero_grad(set_to_none=False): one buffer for all steps
            optimizer.step()
            weights.append([parameter.detach().clone() for parameter in parameters])
            gradients.append([None if one.grad is None else one.grad.clone() for one in parameters])
        leaves.append([parameter.is_leaf and parameter.requires_grad for parameter in parameters])
        optimizer.zero_grad()
        cleared.append([one.grad for one in parameters])
        return weights

    missing = [(0, 0), (2, 0), (2, 1), (3, 1)]
    return {
        "weights, plain": path(),
        "weights, momentum": path(momentum=momentum),
        "weights, decay": path(weight_decay=decay),
        "weights, both": path(momentum=momentum, weight_decay=decay),
        "weights, some gradients missing": path(missing, momentum=momentum, weight_decay=decay),
        "gradients": gradients,
        "gradients after zero_grad()": cleared,
        "leaves": leaves,
    }


# ------------------------------------------------------------------------------------------------ a budget of bytes


def bytes_saved(build, leaving_out=()):
    """What building a result saves for its backward pass, storage by storage, without those of some tensors."""
    left_out = {tensor.untyped_storage()._cdata for tensor in leaving_out}
    storages = {}

    def saved(tensor):
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
        build()
    return sum(storage.nbytes() for key, storage in storages.items() if key not in left_out)


@exercise(
    Same("no more rows would fit, and these do", "returned.rows", weight=3),
    AtMost("the model is called at most eight times for each number that comes back", "calls.model", 16),
    Same("no gradient is left behind, and none taken away", "arguments.model.grad"),
    arguments=("model", "loss_fn", "x", "y", "budget"),
)
def largest_part(program, case):
    features, classes, rows = case.size(2, 4), case.size(5, 7), case.size(26, 40)
    model = network(case, features, case.size(8, 12), classes)
    if case.kind in (1, 3):
        dirty(case, model)
    x, y = case.normal(rows, features), case.integers(0, classes, rows)
    part = case.integer(14, 24)
    exact, one = (
        bytes_saved(lambda some=some: F.cross_entropy(model(x[:some]), y[:some]), model.parameters())
        for some in (part, 1)
    )
    budgets = [one, [exact + 3, exact, one // 2, 4 * exact, exact - 1][case.kind]]
    model.register_forward_pre_hook(case.counted("model", lambda module, inputs: None))
    return {"rows": [program(model, F.cross_entropy, x, y, budget) for budget in budgets]}


# --------------------------------------------------------------------------------------------- layers and routes


@exercise(
    Same("each layer that a gradient reaches has the norm of the gradient at its output", "returned.norms", weight=3),
    Same("the norms are floats", "returned.norms.type"),
    Same("the gradients of the parameters are as they were", "arguments.model.grad"),
    Same("no hook is left behind", "returned.hooks left behind"),
    arguments=("model", "loss_fn", "x", "y"),
    dtypes=("float32", "float64"),
)
def layer_norms(program, case):
    features, classes, rows = case.size(2, 3), case.size(4, 5), case.size(6, 9)
    if case.kind == 0:
        model = nn.Linear(features, classes, bias=False).to(case.device, case.dtype)
        with torch.no_grad():
            model.weight.copy_(case.uniform(classes, features, low=-0.9, high=0.9))
    else:
        model = network(case, features, 7, 6, classes, middle=Bends if case.kind in (2, 4) else nn.Tanh)
    if case.kind in (1, 2):
        dirty(case, model)
    if case.kind == 3:
        model[0].requires_grad_(False)
    x, y = case.normal(rows, features), case.integers(0, classes, rows)
    norms = program(model, F.cross_entropy, x, y)
    hooks = [len(module._forward_hooks) + len(module._backward_hooks) for module in model.modules()]
    return {"norms": norms, "hooks left behind": sum(hooks)}


class Bends(nn.Sequential):
    """Two layers in one."""

    def __init__(self):
        super().__init__(nn.Tanh(), nn.Softplus())


def in_order(numbers, facts):
    """The numbers from the smallest to the largest."""
    return sorted(float(number) for number in numbers)


def together(numbers, facts):
    """Their sum."""
    return sum(float(number) for number in numbers)


@exercise(
    Same("together they are the gradient", "returned.contributions", view=together),
    Same(
        "there is one for each route, the product of the slopes along it",
        "returned.contributions",
        view=in_order,
        weight=2,
    ),
    Same("they are floats", "returned.contributions.type"),
    Same("every `.grad` is as it was", "returned.gradients"),
    AtMost("nothing is recorded on the way", "cost.peak_bytes", lambda facts: facts["bytes"]),
    arguments=("loss", "leaf"),
    dtypes=("float32", "float64"),
)
def contributions(program, case):
    a, b, c = (case.uniform(low=0.4, high=1.6, requires_grad=True) for _ in range(3))
    if case.kind in (1, 3):
        a.grad = case.uniform(low=1.0, high=2.0)
    number = case.number(2, 3)

    def build():
        h = a * b
        match case.kind:
            case 0:
                return h + a * number
            case 1:
                return h * h + torch.tanh(c) * h
            case 2:
                return torch.tanh(h + c) * (a * torch.tanh(h)) + a
            case 3:
                return doubled(h, c, 3)
            case _:
                return torch.exp(b * c) + (a - a.detach() * b) * c

    case.note(bytes=bytes_saved(build))
    found = program(build(), b if case.kind == 1 else a)
    return {"contributions": found, "gradients": [one.grad for one in (a, b, c)]}


def doubled(x, factor, times):
    """Twice as many routes with each time."""
    for _ in range(times):
        x = x + x * factor
    return x
