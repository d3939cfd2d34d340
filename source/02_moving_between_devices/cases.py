"""Cases, requirements and specimens of unit 2."""

import collections
import contextlib
import copy
import math
from unittest import mock

import numpy
import torch
from autogradlab.exercises import AtMost, Flat, Prediction, Same, exercise
from torch.utils._python_dispatch import TorchDispatchMode

#: Where the exercises about places are looked at: grading repeats every case with its tensors on the second.
BOTH = ("cpu", "sim")


def other(device):
    """The one of the two places that this is not. The lesson's set-up has made both known to torch."""
    return "cpu" if torch.device(device).type == "sim" else "sim"


class Crossings(TorchDispatchMode):
    """Counts what the program alone sends across and reads, not what building its situation does."""

    def __init__(self):
        super().__init__()
        self.trips = self.waits = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        name = func._schema.name
        if name in ("aten::_to_copy", "aten::copy_"):
            source = args[name == "aten::copy_"]
            self.trips += source.device.type != result.device.type
        self.waits += name in ("aten::_local_scalar_dense", "aten::equal", "aten::nonzero")
        return result


# ------------------------------------------------------------------------------------------------------- questions


def warm_up(variant):
    """Lines whose answers are known from unit 1, with the learner's own numbers in them."""
    draw = numpy.random.RandomState(variant)
    a, b, c = (int(draw.randint(low, high)) for low, high in ((2, 9), (2, 9), (3, 7)))
    return f"""import numpy
import torch

array = numpy.array([{a}.0, {b}.0])
copied, shared = torch.tensor(array), torch.from_numpy(array)
array[0] = {a + b}
column = torch.ones({c}, 1)
w = torch.tensor({b}.0, requires_grad=True)
({a} * w).backward()"""


def placement_lines(variant):
    """The expressions of the placement exercise, in an order of the learner's own."""
    draw = numpy.random.RandomState(2000 + variant)
    a, b = int(draw.randint(2, 9)), int(draw.randint(2, 9))
    meetings = [
        f"y * {a}",
        "x + y",
        f"y + torch.tensor({b}.0)",
        f"y + torch.ones(1) * {b}",
        "y.sum()",
        "x * y.sum()",
    ]
    births = [
        "x",
        "torch.zeros(len(y))",
        f"torch.zeros_like(y) + {a}",
        f"torch.full(y.shape, {b}.0)",
        "x + y.cpu()",
        "y + x.to(y.device)",
    ]
    return [lines[place] for lines in (meetings, births) for place in draw.permutation(6)]


def placement_start(variant):
    """The lines that come before the expressions."""
    size = 3 + variant % 5
    return [f"x = torch.ones({size})", 'y = x.to("sim")', 'x.to("sim")']


@exercise(
    Prediction("lines 1 to 6: where tensors meet, and what comes of it", slice(0, 6)),
    Prediction("lines 7 to 12: where tensors are made, and which twin is asked for", slice(6, None)),
    variants=100,
)
def placement(variant):
    lines = [f"{number:2}  {line}" for number, line in enumerate(placement_lines(variant), 1)]
    begin = [f"    {line}" for line in placement_start(variant)]
    return "\n".join([*begin, "Where is each of these, or does it raise an error?", *lines])


# ---------------------------------------------------------------------------------------------------- choosing one


@contextlib.contextmanager
def machine(cuda, mps):
    """torch believes that it runs on a machine with these accelerators, and with no other."""
    best = torch.device("cuda") if cuda else torch.device("mps") if mps else None
    answers = [
        (torch.cuda, "is_available", cuda),
        (torch.cuda, "device_count", int(cuda)),
        (torch.backends.mps, "is_available", mps),
        (torch.mps, "is_available", mps),
        (torch.accelerator, "is_available", cuda or mps),
        (torch.accelerator, "current_accelerator", best),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, answer in answers:
            stack.enter_context(mock.patch.object(owner, name, lambda *args, answer=answer, **kwargs: answer))
        yield


@exercise(
    Same(
        "with no preference it is CUDA, else MPS, else the CPU",
        "returned.with CUDA alone",
        "returned.with CUDA and MPS",
        "returned.with MPS alone",
        "returned.with none",
        weight=3,
    ),
    Same("a preference is kept as it is, its number included", "returned.preferred"),
    Same("a word that torch does not know raises torch's own RuntimeError", "returned.an unknown word"),
    arguments=("prefer",),
    devices=("cpu",),
)
def pick_device(program, case):
    here = [(False, False), (True, False), (False, True), (True, True), (False, False)][case.kind]
    number = case.integer(1, 7)
    wishes = [f"cuda:{number}", "cpu", torch.device("cuda", number), "meta", torch.device("mps")]
    unknown = case.choice(["gpu", "nvidia", "cuda0", "mp5"])

    def found(name, cuda, mps, *arguments):
        case.about(name)
        with machine(cuda, mps):
            return case.attempt(program, *arguments)

    preferred = {str(wish): found(str(wish), *here, wish) for wish in (wishes[case.kind], wishes[0], wishes[2])}
    answer = found("an unknown word", *here, unknown)
    return {
        "with CUDA alone": found("with CUDA alone", True, False, None),
        "with CUDA and MPS": found("with CUDA and MPS", True, True, None),
        "with MPS alone": found("with MPS alone", False, True, None),
        "with none": found("with none", False, False),
        "preferred": preferred,
        "an unknown word": type(answer).__name__ if isinstance(answer, Exception) else answer,
    }


# ------------------------------------------------------------------------------------------------------- one batch


def batch_of(case, target):
    """A batch as a data loader hands it over, with some tensors that are at the target already."""
    rows = case.size(3, 6)
    image, label = case.normal(rows, case.size(2, 5)), case.integers(0, 9, rows)
    there = case.normal(rows).to(target)
    weight = case.normal(rows, requires_grad=True)
    tracked = weight * 2
    match case.kind:
        case 0:
            return {"image": image, "label": label, "name": "a"}
        case 1:
            return [image, (label, case.number(1, 2)), None]
        case 2:
            return {"image": image, "there": there, "deep": {"more": [label, there], 3: "cuda"}}
        case 3:
            return (tracked, {"weight": weight, "label": label})
        case _:
            return {"all there": there, "pair": (there, [there])}


@exercise(
    Same(
        "every tensor is in its place in the batch, on the device, with its values and its dtype",
        "returned.moved",
        "returned.moved.device",
        weight=2,
    ),
    Same("a tensor that was there already comes back itself", "returned.moved.identity"),
    Same("a list is a list, a tuple a tuple, and the rest comes back as it was", "returned.kinds"),
    Same(
        "tracked tensors stay linked with where they came from",
        "returned.moved.requires_grad",
        "returned.moved.grad_fn",
    ),
    Same("`batch` is as it was", "arguments.batch", "arguments.batch.device"),
    Same("each tensor that is elsewhere makes one trip", "returned.trips"),
    arguments=("batch", "device"),
    devices=BOTH,
)
def to_device(program, case):
    target = torch.device(other(case.device))
    batch = batch_of(case, target)
    with Crossings() as seen:
        moved = program(batch, target)
    return {"moved": only_tensors(moved), "kinds": kinds(moved), "trips": seen.trips}


def only_tensors(value):
    """The tensors of a nested batch in their places, in new containers of which list and tuple are one."""
    if isinstance(value, dict):
        return {key: only_tensors(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [only_tensors(part) for part in value]
    return value if isinstance(value, torch.Tensor) else None


def kinds(value):
    """The types of a nested batch, in words."""
    if isinstance(value, dict):
        return {str(key): kinds(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(kinds, value)]
    return "tensor" if isinstance(value, torch.Tensor) else repr(value)


@exercise(
    Same(
        "a list comes back, with every tensor on the device, in its values, its shape and its dtype",
        "returned.moved",
        "returned.moved.device",
        weight=2,
    ),
    Same("there is one trip, and none to the place where they are", "returned.trips", weight=2),
    Same("tracked tensors stay linked with what comes of them", "returned.moved.requires_grad", "returned.gradients"),
    Same("`tensors` is as it was", "arguments.tensors", "arguments.tensors.device"),
    arguments=("tensors", "device"),
    devices=BOTH,
    dtypes=("float32", "float64"),
)
def one_trip(program, case):
    a, b = case.size(2, 4), case.size(5, 7)
    shapes = [[(a,), (b,)], [(a, b), (b,), ()], [(), (a,), (0, b)], [(b, a, 2)], [(a, b), (a, b)]][case.kind]
    tensors = [case.normal(*shape, requires_grad=case.kind != 1) for shape in shapes]
    moved, trips, gradients = {}, {}, {}
    for words, place in (("elsewhere", other(case.device)), ("where they are", case.device)):
        case.about(words)
        with Crossings() as seen:
            moved[words] = program(tensors, torch.device(place))
        trips[words] = seen.trips
        gradients[words] = gradients_of(moved[words], tensors)
    return {"moved": moved, "trips": trips, "gradients": gradients}


def gradients_of(moved, tensors):
    """What the squares of the moved tensors send back to the tensors; None where there is no link."""
    tracked = [t for t in tensors if t.requires_grad]
    results = (
        [one for one in moved if isinstance(one, torch.Tensor) and one.requires_grad] if isinstance(moved, list) else []
    )
    if not tracked or not results:
        return None
    return torch.autograd.grad([one.square().sum() for one in results], tracked, allow_unused=True)


# ----------------------------------------------------------------------------------------------- helpers at home


@exercise(
    Same(
        "in either place each row's mean is that of its first numbers",
        "returned.means",
        weight=2,
    ),
    Same("the means are where `x` is", "returned.means.device"),
    Same("nothing crosses between the places", "returned.trips"),
    Same("Python waits for no value", "returned.waits"),
    Same("`x` and `lengths` are as they were", "arguments.x", "arguments.lengths"),
    arguments=("x", "lengths"),
    devices=BOTH,
    dtypes=("float32", "float64"),
)
def masked_mean(program, case):
    rows, places = case.size(2, 4), case.size(5, 8)
    x = case.normal(rows, places)
    if case.kind == 2:
        x = (case.integers(-9, 10, rows, places) / 2).to(torch.float16)
    lengths = case.integers(1, places, rows)
    if case.kind == 3:
        x, lengths = x[:1], lengths[:1]
    means, trips, waits = {}, {}, {}
    for words, place in (("here", case.device), ("elsewhere", other(case.device))):
        given = x.to(place), lengths.to(place)
        case.about(words)
        with Crossings() as seen:
            means[words] = program(*given)
        trips[words], waits[words] = seen.trips, seen.waits
    return {"means": means, "trips": trips, "waits": waits}


# -------------------------------------------------------------------------------------------------- leaf on arrival


@exercise(
    Same(
        "on either device it is a float32 tensor with the values of `init`",
        "returned.tensors",
        "returned.tensors.device",
        weight=2,
    ),
    Same("on either device it is tracked, and a leaf", "returned.tensors.requires_grad", "returned.tensors.is_leaf"),
    Same(
        "it shares no memory with `init`, and `init` is as it was",
        "returned.tensors.memory",
        "arguments.init",
        "arguments.init.requires_grad",
        "arguments.init.device",
        weight=2,
    ),
    arguments=("init", "device"),
    devices=BOTH,
)
def make_param(program, case):
    size = case.size(2, 5)
    init = {
        0: lambda: case.normal(size),
        1: lambda: [case.integer(-9, 9) for _ in range(size)],
        2: lambda: case.integers(-9, 9, size),
        3: lambda: case.normal(size, requires_grad=True) * 2,
        4: lambda: case.normal(size, 2, dtype=torch.float64),
    }[case.kind]()
    tensors = {}
    for place in (case.device, other(case.device)):
        case.about(place)
        tensors[place] = program(init, torch.device(place))
    return {"tensors": tensors}


# ------------------------------------------------------------------------------------------------------ kept values


@exercise(
    Same("each entry holds what `w` was after its step, wherever `w` lives", "returned.logs", weight=2),
    Same(
        "every entry is an untracked tensor on the CPU that shares no memory with `w` or another entry",
        "returned.logs.device",
        "returned.logs.requires_grad",
        "returned.logs.memory",
        weight=2,
    ),
    Same("`step` is called `steps` times, and `w` is where it took it", "returned.weights", "calls.step"),
    arguments=("w", "step", "steps"),
    devices=BOTH,
    dtypes=("float32", "float64"),
)
def weight_log(program, case):
    size, steps = case.size(2, 4), [3, 2, 4, 1, case.integer(3, 5)][case.kind]
    values, factor = case.normal(size), case.number(0.5, 0.9)
    weights = [values.clone(), values.to(other(case.device))]
    logs, count = {}, []

    def descend(w):
        def step():
            count.append(1)
            with torch.no_grad():
                w.mul_(factor)
                w.grad = None

        return step

    for w, words in zip(weights, ("here", "elsewhere")):
        w.requires_grad_(case.kind != 1)
        case.about(words)
        logs[words] = program(w, case.counted("step", descend(w)), steps)
    return {"logs": logs, "weights": [w.detach() for w in weights]}


# ------------------------------------------------------------------------------------------------------ fewer waits


@exercise(
    Same("each entry is the mean of its window, the short last one included", "returned.means", weight=2),
    Same("the entries are floats", "returned.means.type"),
    Same("`step` is called once for each step", "calls.step"),
    AtMost("Python waits for values once for each window", "cost.syncs", lambda facts: facts["windows"]),
    Flat("however long a window is, nothing recorded for an earlier step is kept", "cost.peak_bytes", over="every"),
    arguments=("step", "steps", "every"),
    devices=BOTH,
)
def window_means(program, case):
    every = case.over("every", [2, 3, 4, 1, 5][case.kind])
    steps = every * case.integer(2, 3) + [0, 1, 3, 0, 2][case.kind]
    w, scale = case.normal(case.size(4, 8), requires_grad=True), case.number(0.9, 0.97)
    case.note(windows=math.ceil(steps / every))

    def step():
        with torch.no_grad():
            w.mul_(scale)
        return (w * 1.5).square().sum()

    return {"means": program(case.counted("step", step), steps, every)}


# -------------------------------------------------------------------------------------------------- a whole module


@exercise(
    Same(
        "in either place and in its float dtype the module returns the right table, where `x` is and of its dtype",
        "returned.outputs",
        "returned.outputs.device",
        weight=2,
    ),
    Same(
        "`parameters()` lists `weight` and `scale`, `state_dict()` has `mask` as well, and both weights get gradients",
        "returned.parameters",
        "returned.names in the state",
        "returned.gradients",
        weight=2,
    ),
    Same("a copy of the module returns what the module returns", "returned.outputs of copies"),
    Same("in `forward` nothing crosses, and Python waits for no value", "returned.trips", "returned.waits"),
    devices=BOTH,
    dtypes=("float32", "float64"),
    labels={
        "outputs": "what the module returns",
        "outputs of copies": "what a copy returns",
        "parameters": "the list of parameters",
        "gradients": "the gradients",
        "names in the state": "the list of names in state_dict()",
    },
)
def Masked(program, case):
    outputs, inputs, rows = case.size(2, 3), case.size(4, 5), case.size(6, 7)
    mask = case.integers(0, 2, outputs, inputs + 1).cpu() > 0
    mask[0, 0], mask[-1, -1] = False, True
    # Whole numbers and halves are exact in float16 too, in whatever order they are added up.
    dtype = torch.float16 if case.kind == 3 else case.dtype
    weight, x = case.integers(-3, 4, outputs, inputs + 1), case.integers(-4, 5, rows, inputs) / 2
    scale = case.choice([0.5, 2.0])
    found = {name: {} for name in ("outputs", "outputs of copies", "gradients", "trips", "waits")}
    for words, place in (("here", case.device), ("elsewhere", other(case.device))):
        module = program(mask.clone()).to(place, dtype)
        if case.kind != 0:  # there the module is as it starts
            with torch.no_grad():
                module.weight.copy_(weight)
                module.scale.fill_(scale)
        given = x.to(place, dtype)
        with Crossings() as seen:
            y = found["outputs"][words] = case.attempt(module, given)
        found["trips"][words], found["waits"][words] = seen.trips, seen.waits
        found["outputs of copies"][words] = case.attempt(returned_by_a_copy, module, given)
        if isinstance(y, torch.Tensor) and y.requires_grad:
            y.sum().backward()
        parameters = dict(module.named_parameters())
        found["gradients"][words] = {name: parameter.grad for name, parameter in parameters.items()}
    return found | {"parameters": sorted(parameters), "names in the state": sorted(module.state_dict())}


def returned_by_a_copy(module, x):
    """What a copy of the module returns."""
    return copy.deepcopy(module)(x)


# --------------------------------------------------------------------------------------------------------- stopwatch


class Kitchen:
    """A device that takes orders at once and carries them out when somebody waits, by a clock of its own."""

    def __init__(self):
        self.now, self.orders = 0.0, collections.deque()

    def order(self, seconds, work=None):
        """Take an order that will need so long; returns before anything is done."""
        self.orders.append((seconds, work))
        self.now += 0.001

    def wait(self):
        """Return when every order is carried out."""
        while self.orders:
            seconds, work = self.orders.popleft()
            self.now += seconds
            if work is not None:
                work()

    def clock(self):
        """The time in seconds."""
        return self.now


@exercise(
    Same("what it returns is the time that the work needs", "returned.seconds", weight=2),
    Same("the first call, which is slow, is not in it", "returned.after a slow start"),
    Same("work that was waiting when the stopwatch began is not in it", "returned.with work waiting"),
    Same("`fn` is called once before the timings, and once for each of them", "returned.calls"),
    Same("one slow call and one quick call among many change nothing", "returned.with an outlier"),
    arguments=("fn", "sync", "clock", "repeats"),
    devices=("cpu",),
)
def bench(program, case):
    usual, calls = case.number(1, 2), []

    def measured(repeats, times, waiting=0.0):
        kitchen = Kitchen()
        if waiting:
            kitchen.order(waiting)
        coming = iter(times)

        def fn():
            calls.append(repeats)
            kitchen.order(next(coming, usual))

        return program(fn, kitchen.wait, kitchen.clock, repeats)

    repeats = [1, 3, 5, 3, 7][case.kind]
    many = 2 * case.integer(2, 4) + 1
    slow = case.number(20, 30)
    return {
        "calls": calls,
        "seconds": measured(repeats, [usual]),
        "after a slow start": measured(repeats, [slow]),
        "with work waiting": measured(1, [], waiting=slow),
        "with an outlier": measured(many, [usual, usual, usual / 4, slow]),
    }
