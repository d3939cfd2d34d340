"""Cases, requirements and specimens of unit 1."""

import contextlib

import numpy
import torch
from autogradlab.exercises import AtMost, Prediction, Same, exercise

# --------------------------------------------------------------------------------------------------- the whole game


@exercise(
    Same("`w` itself has moved one step down its slope", "arguments.w", weight=2),
    Same("the loss from before the step is returned, as a float", "returned.losses"),
    Same("`w` is still a tracked leaf", "arguments.w.requires_grad", "arguments.w.is_leaf"),
    Same("`x` has not moved", "arguments.x"),
    Same("recording is on when the call ends", "mode.grad"),
    arguments=("w", "x", "lr"),
    dtypes=("float32", "float64"),
)
def step_down(program, case):
    w, x = (case.uniform(low=0.5, high=2.0, requires_grad=True) for _ in range(2))
    if case.kind == 4:
        x = case.uniform(low=-2.0, high=-0.5, requires_grad=True)
    lr, losses = case.number(0.02, 0.09), []
    for _ in range([1, 1, 2, 3, 1][case.kind]):
        w.grad = None
        # One x for each step: whoever moves it has still moved w as far as was asked.
        losses.append(program(w, x.detach().clone().requires_grad_(), lr))
    return {"losses": losses}


# ------------------------------------------------------------------------------------------------ shapes and dtypes


def tensor_lines(variant):
    """Twelve expressions with the learner's own numbers in them."""
    draw = numpy.random.RandomState(variant)
    rows, columns = (int(number) for number in draw.permutation([2, 3, 4, 5])[:2])
    length, a, b = int(draw.randint(6, 10)), int(draw.randint(2, 9)), int(draw.randint(2, 9))
    return [
        f"torch.tensor([{a}, {b}, {a + b}])",
        f"torch.tensor([{a}, {b}.5])",
        f"torch.tensor(({rows}, {columns}))",
        f"torch.ones({rows}, {columns})",
        f"torch.Tensor({length})",
        f"torch.tensor([[True, False] * 3] * {rows})",
        f"torch.from_numpy(numpy.ones(({rows}, {columns})))",
        f"torch.full(({length},), {a})",
        f"torch.zeros_like(torch.tensor([{a}, {b}]))",
        f"torch.tensor([{a}, {b}]) / {b}",
        f"torch.ones({length}) + torch.tensor(0.5, dtype=torch.float64)",
        f"torch.ones({length}) + torch.tensor([0.5], dtype=torch.float64)",
    ]


@exercise(
    Prediction("lines 1 to 4: values or sizes, and the dtype that they give", slice(0, 4)),
    Prediction("lines 5 to 9: other constructors, and what each takes over", slice(4, 9), weight=2),
    Prediction("lines 10 to 12: what dtype comes of two", slice(9, None)),
    variants=100,
)
def shape_and_dtype(variant):
    lines = [f"{number:2}  {line}" for number, line in enumerate(tensor_lines(variant), 1)]
    return "\n".join(["What is the shape of each tensor, and its dtype?", *lines])


# ------------------------------------------------------------------------------------------------- four constructors


@contextlib.contextmanager
def unwritten_memory_is_nan():
    """Memory that nobody wrote to holds NaN instead of whatever lay there, so that no program is right by luck."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def entry(result, name):
    """One entry of a dict, or None where there is none."""
    return result.get(name) if isinstance(result, dict) else None


@exercise(
    Same("`bias` holds the listed numbers as float32", "returned.bias", weight=2),
    Same(
        "`bias` is a float32 leaf, and tracked",
        "returned.bias.requires_grad",
        "returned.bias.is_leaf",
        "returned.bias.dtype",
    ),
    Same("`state` is zeros of shape (rows, outputs)", "returned.state"),
    Same("`scale` is ones of shape (outputs,), float32", "returned.scale"),
    Same("`kernel` is what one `torch.randn` of shape (inputs, outputs) gives", "returned.kernel"),
    Same("the others are not tracked", *(f"returned.{name}.requires_grad" for name in ("state", "scale", "kernel"))),
    arguments=("rows", "inputs", "bias"),
    devices=("cpu",),
)
def start_values(program, case):
    rows, inputs, outputs = (case.size(2, 4) for _ in range(3))
    whole = [case.integer(-9, 9) for _ in range(outputs)]
    bias = [number + 0.25 for number in whole] if case.kind in (1, 3) else whole
    with unwritten_memory_is_nan():
        result = program(rows, inputs, bias)
    return {name: entry(result, name) for name in ("bias", "state", "scale", "kernel")}


# ---------------------------------------------------------------------------------------------------- shape errors


def line_a(a, b):
    return a @ b


def line_b(a, b):
    return a + b


def line_c(a, b):
    return torch.cat([a, b], dim=1)


def line_d(a, b):
    return a.T.view(-1) * b


def line_e(a, b):
    return torch.stack([a, b], dim=1)


lines = {"A": line_a, "B": line_b, "C": line_c, "D": line_d, "E": line_e}


def operands(case):
    """For each letter, two tensors that its line refuses."""
    a, b, c = (2 + number for number in case.permutation(3))
    last = 1 if case.kind == 3 else b
    return {
        "A": (case.normal(a, b), case.normal(c, b)),
        "B": (case.normal(b, c), case.normal(b)),
        "C": (case.normal(c, b), case.normal(a, b)),
        "D": (case.normal(b, a), case.normal(a * b)),
        "E": (case.normal(last), case.normal(last, 1)),
    }


@exercise(
    Same("A: one score for each row and each class", "returned.line A"),
    Same("B: to each row its own number is added", "returned.line B"),
    Same("C: the rows of `a`, then those of `b`", "returned.line C"),
    Same("D: `a` read column by column, times `b`", "returned.line D"),
    Same("E: two columns, `a` and `b`", "returned.line E"),
    Same("`a` and `b` are as they were", "arguments.a", "arguments.b"),
    arguments=("letter", "a", "b"),
    dtypes=("float32", "float64"),
)
def mended(program, case):
    return {f"line {letter}": case.attempt(program, letter, *pair) for letter, pair in operands(case).items()}


# ---------------------------------------------------------------------------------------------------- broadcasting

PAIRINGS = {
    "(N, 1) and (N,)": (True, False),
    "(N,) and (N, 1)": (False, True),
    "(N, 1) and (N, 1)": (True, True),
    "(N,) and (N,)": (False, False),
}


def went_back(loss, pred):
    """The gradient that a loss leaves in `pred`, and what the loss knows of where it comes from."""
    if not isinstance(loss, torch.Tensor):
        return None, "no tensor"
    if loss.requires_grad and loss.numel() == 1:
        loss.backward()
    if loss.grad_fn is None:
        return pred.grad, "tracked, and without a past" if loss.requires_grad else "untracked"
    return pred.grad, "the result of a recorded operation"


@exercise(
    Same(
        "in all four pairings it is the mean of the N squared differences",
        *(f"returned.the loss of {words}" for words in PAIRINGS),
        weight=2,
        raises=(ValueError,),
    ),
    Same("`pred` gets a gradient of its own shape", "returned.gradients", "returned.what the loss is"),
    Same("other shapes are refused with a ValueError", "returned.refusals"),
    Same("`pred` and `y` keep their shapes and values", "arguments.pred", "arguments.y"),
    arguments=("pred", "y"),
    dtypes=("float32", "float64"),
)
def mse(program, case):
    count = [3, 2, 1, case.integer(4, 7), 2][case.kind]
    values, targets = case.normal(count), case.normal(count)
    losses, gradients, pasts = {}, {}, {}
    for words, columns in PAIRINGS.items():
        pred, y = (one.unsqueeze(1) if is_column else one for one, is_column in zip((values, targets), columns))
        pred = pred.clone().requires_grad_()
        case.about(words)
        loss = losses[f"the loss of {words}"] = case.attempt(program, pred, y.clone())
        gradients[words], pasts[words] = went_back(loss, pred)
    more = count + 1
    strange = {
        f"({count},) and ({more},)": (case.normal(count), case.normal(more)),
        f"({more}, 1) and ({count}, 1)": (case.normal(more, 1), case.normal(count, 1)),
        f"(1, {more}) and ({more},)": (case.normal(1, more), case.normal(more)),
        f"({more},) and (1, {more})": (case.normal(more), case.normal(1, more)),
        f"({more}, 2) and ({more}, 2)": (case.normal(more, 2), case.normal(more, 2)),
        f"({more}, 3) and (3, {more})": (case.normal(more, 3), case.normal(3, more)),
        f"({more}, 1) and (1,)": (case.normal(more, 1), case.normal(1)),
        f"() and ({more},)": (case.normal(), case.normal(more)),
    }
    refusals = {}
    for words, (pred, y) in strange.items():
        case.about(words)
        answer = case.attempt(program, pred.requires_grad_(), y)
        refusals[words] = "ValueError" if isinstance(answer, ValueError) else type(answer).__name__
    return losses | {"gradients": gradients, "what the loss is": pasts, "refusals": refusals}


@exercise(
    Same("row i has a 1 in the column of its label and 0 elsewhere, in float32", "returned.table", weight=2),
    Same("it is not tracked, and `labels` is as it was", "returned.table.requires_grad", "arguments.labels"),
    AtMost("the number of operations does not depend on the number of labels", "cost.operations", 24),
    arguments=("labels", "classes"),
)
def one_hot(program, case):
    classes = case.size(3, 6)
    count = [3, 2, case.integer(20, 30), 0, 4][case.kind]
    labels = case.integers(0, classes - 1, 2 * count)[::2] if case.kind == 4 else case.integers(0, classes - 1, count)
    return {"table": program(labels, classes)}


# ----------------------------------------------------------------------------------------------------------- copies


def arrivals(case):
    """What arrives at a model's door, a kind for each case."""
    a, b = case.size(2, 3), case.size(4, 5)
    whole = case.random.randint(-9, 10, (a, b))
    broken = whole + 0.25
    return {
        0: lambda: whole.tolist(),
        1: lambda: broken.astype(numpy.float32),
        2: lambda: broken[::-1],
        3: lambda: case.normal(a, b, requires_grad=True),
        4: lambda: case.normal(a, b).T,
        5: lambda: whole > 0,
        6: lambda: torch.tensor(int(whole[0, 0])),
        7: lambda: numpy.zeros((0, b)),
        8: lambda: case.normal(a, b, dtype=torch.float64),
        9: lambda: case.normal(a, b) * 3,
    }[case.kind]()


@exercise(
    Same("a float32 tensor with the values of `obj` is returned", "returned.tensor", weight=2),
    Same("it shares no memory with `obj`", "returned.tensor.memory", weight=2),
    Same("it is contiguous and not tracked", "returned.contiguous", "returned.tensor.requires_grad"),
    Same("`obj` is as it was", "arguments.obj", "arguments.obj.requires_grad"),
    arguments=("obj",),
    devices=("cpu",),
    visible=10,
    fresh=20,
)
def to_model_input(program, case):
    with unwritten_memory_is_nan():
        result = program(arrivals(case))
    return {"tensor": result, "contiguous": isinstance(result, torch.Tensor) and result.is_contiguous()}


@exercise(
    Same("copies are told from views", "returned.a copy or a view", weight=2),
    Same("parts of one memory without a common element share nothing", "returned.parts of one memory"),
    Same("arrays and tensors are compared with each other", "returned.arrays"),
    Same("stretched, strided, tracked and empty tensors are told too", "returned.other cases"),
    Same("`a` and `b` are as they were", "arguments.a", "arguments.b"),
    arguments=("a", "b"),
    devices=("cpu",),
)
def shares_memory(program, case):
    rows, columns = case.size(3, 5), case.size(6, 8)
    t = case.normal(rows, columns)
    if case.kind == 1:
        t = case.integers(0, 9, rows, columns)
    if case.kind == 2:
        t = t > 0
    if case.kind == 4:
        t = torch.full((rows, columns), float("nan"))
    array = numpy.arange(12.0)
    array[5] = numpy.nan
    flat, tracked = t.view(-1), case.normal(4, requires_grad=True)

    def told(pairs):
        return {words: program(*pair) for words, pair in pairs.items()}

    return {
        "a copy or a view": told(
            {
                "t and t": (t, t),
                "t and t.clone()": (t, t.clone()),
                "t and t[1:]": (t, t[1:]),
                "t and t.T": (t, t.T),
                "t[1:] and t[:2]": (t[1:], t[:2]),
                "t and t[t == t]": (t, t[t == t]),
            }
        ),
        "parts of one memory": told(
            {
                "t[:1] and t[1:]": (t[:1], t[1:]),
                "the even and the odd elements": (flat[::2], flat[1::2]),
                "two columns": (t[:, 0], t[:, 1]),
                "a row and a column that cross": (t[1], t[:, 2]),
            }
        ),
        "arrays": told(
            {
                "array and from_numpy(array)": (array, torch.from_numpy(array)),
                "from_numpy(array)[3:] and array[:5]": (torch.from_numpy(array)[3:], array[:5]),
                "tensor(array) and array": (torch.tensor(array), array),
                "array and array[::-1]": (array, array[::-1]),
                "array[:6] and array[6:]": (array[:6], array[6:]),
            }
        ),
        "other cases": told(
            {
                "a row and the row stretched": (t[1], t[1].expand(3, columns)),
                "a row stretched and another row": (t[0].expand(3, columns), t[1]),
                "w and w.detach()": (tracked, tracked.detach()),
                "w and w * 1": (tracked, tracked * 1),
                "t and its empty part": (t, t[:0]),
                "every third and every second element": (flat[::3], flat[::2]),
            }
        ),
    }


# ------------------------------------------------------------------------------------------------------------ seeds


@exercise(
    Same("it is what `torch.randn(shape)` gives right after `torch.manual_seed(seed)`", "returned.samples", weight=2),
    Same("the caller's own stream of numbers goes on as if nothing had been drawn", "returned.the caller's numbers"),
    Same("NumPy's and Python's streams are as they were", "mode.numpy", "mode.python"),
    Same("whoever edits a sample does not change the next", "returned.sample after an edit"),
    arguments=("shape", "seed"),
    devices=("cpu",),
)
def sample(program, case):
    a, b = case.size(2, 4), case.size(2, 4)
    shape = [a, (a, b), torch.Size([b, a]), (a, 1, b), b][case.kind]
    seeds = [case.integer(1, 99), case.integer(100, 199), case.integer(300, 399)]
    torch.manual_seed(case.integer(200, 299))
    own = [torch.rand(2)]
    samples = []
    for seed in (seeds[0], seeds[1], seeds[1], seeds[0]):
        samples.append(program(shape, seed))
        own.append(torch.rand(2))
    edited = program(shape, seeds[2])  # a seed of its own, so that the edit shows in no other result
    if isinstance(edited, torch.Tensor):
        edited.zero_()
    return {"samples": samples, "the caller's numbers": own, "sample after an edit": program(shape, seeds[2])}


# ---------------------------------------------------------------------------------------------------------- strides


@exercise(
    Same("with the steps of an ordinary table, the table comes out", "returned.the table", weight=2),
    Same("its transpose and its rows are read by steps alone", "returned.the transpose", "returned.some rows"),
    Same("a step of 0 shows the same element again", "returned.stretched"),
    Same("any number of dimensions is read, none at all included", "returned.three dimensions", "returned.one number"),
    Same("the numbers in memory are as they were", "arguments.storage"),
    arguments=("storage", "shape", "strides", "offset"),
)
def window(program, case):
    rows, columns = case.size(2, 3), case.size(4, 5)
    storage = [10 + number for number in case.permutation(rows * columns * 2)]
    deep = [(2, rows * columns), (rows, columns), (columns, 1)]
    deep = [deep[place] for place in case.permutation(3)]
    start, skip = case.integer(1, columns - 1), case.integer(2, 3)
    return {
        "the table": program(storage, (rows, columns), (columns, 1), 0),
        "the transpose": program(storage, (columns, rows), (1, columns), start),
        "some rows": program(storage, (rows, 2), (columns, skip), start),
        "stretched": program(storage, (skip, rows), (0, columns), start),
        "three dimensions": program(storage, tuple(n for n, _ in deep), tuple(step for _, step in deep), 0),
        "one number": program(storage, (), (), start),
    }
