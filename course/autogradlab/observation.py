"""What a program did in a case, written down as plain data: the one thing that grading compares."""

import contextlib
import ctypes
import functools
import gc
import io
import linecache
import pathlib
import re
import sys
import sysconfig
import threading
import traceback

import numpy
import torch

from autogradlab.case import Case
from autogradlab.costs import Meter
from autogradlab.encoding import Encoder, EncodingError, memory_key, type_name
from autogradlab.state import preserved

MAX_TEXT = 20_000
MAX_GRAPH = 20_000
_LIBRARIES = tuple(str(pathlib.Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib"))
_OWN = str(pathlib.Path(__file__).resolve().parent)


class StepLimit(BaseException):
    """The program took more steps than the exercise allows. Not an Exception, so that a program cannot pass over it."""


class Forbidden(Exception):
    """The program called what the exercise asks it to rebuild."""


# ------------------------------------------------------------------------------------------------------ looking at


class _Looking(Encoder):
    """An encoder that also writes down the aspects of tensors, modules and optimizers that requirements ask for."""

    def __init__(self, aspects, labels):
        super().__init__()
        self.aspects, self.labels = aspects, labels
        self.path = ""

    def look(self, path: str, value):
        """The tree of `value`, whose name is `path`."""
        self.path = path
        return self._look(path, value, 0)

    def _look(self, path, value, depth):
        previous, self.path = self.path, path
        try:
            return self.encode(value, depth)
        except EncodingError as error:
            return {"$": "too large", "message": str(error)}
        finally:
            self.path = previous

    def container(self, value, tree):
        if "identity" in self.aspects and isinstance(tree, dict):
            tree["identity"] = self.labels.name(value, self.path)
        return tree

    def tensor(self, tensor, depth):
        tree = super().tensor(tensor, depth)
        aspects = self.aspects
        if "is_leaf" in aspects:
            tree["is_leaf"] = tensor.is_leaf
        if "grad_fn" in aspects:
            tree["grad_fn"] = tensor.grad_fn and _node_name(tensor.grad_fn)
        if "graph" in aspects:
            tree["graph"] = graph_of(tensor, self.labels)
        if "memory" in aspects:
            tree["memory"] = self.labels.sharing(tensor, self.path)
        if "identity" in aspects:
            tree["identity"] = self.labels.name(tensor, self.path)
        if "version" in aspects:
            tree["version"] = -1 if tensor.is_inference() else tensor._version
        if "grad" in aspects and depth <= 60:
            grad = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
            tree["grad"] = None if grad is None else super().tensor(grad, depth + 1)
        return tree

    def other(self, value, depth):
        if isinstance(value, torch.nn.Module):
            tree = {"$": "module", "type": type_name(value), "training": value.training}
            for kind in ("parameters", "buffers"):
                named = getattr(value, f"named_{kind}")()
                tree[kind] = {name: self._look(f"{self.path}.{name}", tensor, depth + 1) for name, tensor in named}
            return self.container(value, tree)
        if isinstance(value, torch.optim.Optimizer):
            return {"$": "optimizer", "type": type_name(value), "state": self.encode(value.state_dict(), depth + 1)}
        return super().other(value, depth)


class _Labels:
    """The names of the objects that a case passes in or gets back, by identity and by memory."""

    def __init__(self):
        self._objects = {}
        self._memories = {}
        self._keep = []

    def add(self, path: str, value):
        """Names `value` and what it holds, unless it has a name already."""
        self._keep.append(value)
        if isinstance(value, torch.Tensor):
            self._objects.setdefault(id(value), path)
            self._memories.setdefault(_memory(value), set()).add(path)
        elif isinstance(value, numpy.ndarray):
            self._objects.setdefault(id(value), path)
            self._memories.setdefault(_memory(value), set()).add(path)
        elif isinstance(value, (list, tuple, dict)):
            self._objects.setdefault(id(value), path)
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                self.add(f"{path}[{key!r}]", item)
        elif isinstance(value, torch.nn.Module):
            self._objects.setdefault(id(value), path)
            for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
                self.add(f"{path}.{name}", tensor)

    def name(self, value, own: str):
        """The name under which the same object is known already, else None."""
        path = self._objects.get(id(value))
        return None if path == own else path

    def sharing(self, value, own: str) -> list:
        """The names of everything else over the same memory, sorted."""
        return sorted(self._memories.get(_memory(value), set()) - {own})

    def leaf(self, tensor):
        """The name of a leaf, else None."""
        return self._objects.get(id(tensor))


def _memory(value):
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu" and value.layout is torch.strided and not hasattr(value, "_host"):
            start = value.untyped_storage().data_ptr()
            return ("cpu", start) if start else ("empty", id(value))
        return memory_key(value) if value.layout is torch.strided else ("layout", id(value))
    base = value
    while isinstance(base.base, numpy.ndarray):
        base = base.base
    return ("cpu", base.__array_interface__["data"][0])


def _node_name(node) -> str:
    return re.sub(r"\d+$", "", node.name())


def graph_of(tensor, labels=None) -> dict:
    """The graph behind a tensor: `nodes` by name without numbers, `edges` as `[node, output index]` or None.

    Nodes are numbered in the order in which a walk from the tensor meets them. Leaves carry their names.
    """
    if tensor.grad_fn is None:
        return {"nodes": [], "edges": []}
    numbers, order, pending = {}, [], [tensor.grad_fn]
    while pending:
        node = pending.pop()
        if node in numbers:
            continue
        if len(order) >= MAX_GRAPH:
            raise EncodingError(f"the graph has more than {MAX_GRAPH} nodes")
        numbers[node] = len(order)
        order.append(node)
        pending += [following for following, _ in reversed(node.next_functions) if following is not None]
    names = []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = labels.leaf(leaf) if labels is not None and leaf is not None else None
        names.append(_node_name(node) + (f" {label}" if label else ""))
    edges = [[None if to is None else [numbers[to], index] for to, index in node.next_functions] for node in order]
    return {"nodes": names, "edges": edges}


# ------------------------------------------------------------------------------------------------------ running


class _Calls:
    """Wraps a learner's function so that its calls, their arguments before and after, are noted."""

    def __init__(self, exercise, case, labels, describe, meter):
        self.exercise, self.case, self.labels, self.describe, self.meter = exercise, case, labels, describe, meter
        self.texts, self.after, self.returned_none, self.inside = [], [], [], 0
        self.aspects = exercise.aspects("arguments")

    def wrap(self, program):
        """The program, watched; a class goes in as it is."""
        if isinstance(program, type) or not callable(program):
            return program

        def watched(*args, **kwargs):
            return self.call(program, args, kwargs)

        with contextlib.suppress(AttributeError):
            functools.update_wrapper(watched, program)
        return watched

    def call(self, program, args, kwargs):
        names = [
            *self.exercise.arguments[: len(args)],
            *(f"argument {n + 1}" for n in range(len(self.exercise.arguments), len(args))),
        ]
        given = {**dict(zip(names, args)), **kwargs}
        for name, value in given.items():
            self.labels.add(name, value)
        if self.meter is not None:
            self.meter.exclude(list(given.values()))
        if self.describe and len(self.texts) < 8:
            self.texts.append(call_text(self.exercise.name, given))
        try:
            result = program(*args, **kwargs)
            self.returned_none.append(result is None)
            return result
        finally:
            if self.aspects and self.meter is None and len(self.after) < 64:
                self.after.append(_looked(self.aspects, self.labels, given))


def _looked(aspects, labels, values: dict) -> dict:
    looking = _Looking(aspects, labels)
    tree = {name: looking.look(name, value) for name, value in values.items()}
    try:
        return {"tree": tree, "storages": looking.finish()}
    except EncodingError as error:
        return {"tree": dict.fromkeys(tree, {"$": "too large", "message": str(error)}), "storages": []}


def call_text(name: str, given: dict) -> str:
    """A call as a learner would write it, cut to a readable length."""
    return f"{name}({', '.join(f'{key}={value_text(value)}' for key, value in given.items())})"


def value_text(value, limit: int = 300) -> str:
    """A value in one line of at most `limit` characters."""
    try:
        text = re.sub(r"\s+", " ", repr(value))
    except Exception as error:  # a learner's own __repr__
        text = f"<{type_name(value)} whose repr raises {type_name(error)}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


@contextlib.contextmanager
def _without(names):
    """Replaces what the exercise asks to rebuild by a function that says so."""
    replaced = []
    try:
        for name in names:
            owner = sys.modules[name.split(".")[0]]
            for part in name.split(".")[1:-1]:
                owner = getattr(owner, part)
            replaced.append((owner, name.split(".")[-1], getattr(owner, name.split(".")[-1])))
            setattr(owner, name.split(".")[-1], _refusal(name))
        yield
    finally:
        for owner, attribute, original in reversed(replaced):
            setattr(owner, attribute, original)


def _refusal(name):
    def refuse(*args, **kwargs):
        raise Forbidden(f"this exercise rebuilds what {name} does, so {name} is not at hand here")

    return refuse


class _Steps:
    """Counts Python calls and lines of everything but libraries; past `limit` raises StepLimit until the program ends."""

    def __init__(self, limit):
        self.limit, self.taken, self.previous = limit, 0, None
        self.over = threading.Event()
        self.done = threading.Event()
        self.thread = threading.get_ident()

    def _trace(self, frame, event, argument):
        if frame.f_code.co_filename.startswith((*_LIBRARIES, _OWN)):
            return None
        self._count()
        return self._trace_lines

    def _trace_lines(self, frame, event, argument):
        if event == "line":
            self._count()
        return self._trace_lines

    def _count(self):
        self.taken += 1
        if self.taken > self.limit:
            if not self.over.is_set():
                self.over.set()
                threading.Thread(target=self._insist, daemon=True).start()
            raise StepLimit(f"more than {self.limit} steps")

    def _insist(self):
        # A raise inside a trace function ends the tracing; a program that swallows it is told again and again.
        while not self.done.wait(0.05):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(StepLimit))

    def __enter__(self):
        self.previous = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *error):
        sys.settrace(self.previous)
        self.done.set()


def _run(exercise, program, case, *, meter=None, step_limit=None, describe=False):
    """One run of the case script: what it returned, what was raised, and the notes taken on the way."""
    labels = _Labels()
    calls = _Calls(exercise, case, labels, describe, meter)
    printed, raised, results = io.StringIO(), None, {}
    limit = min(filter(None, (exercise.budget, step_limit)), default=None)
    with contextlib.ExitStack() as stack:
        changes = stack.enter_context(preserved(case.seed))
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(_without(exercise.forbidden))
        if meter is not None:
            stack.enter_context(meter)
        try:
            with _Steps(limit) if limit else contextlib.nullcontext():
                results = exercise.script(calls.wrap(program), case)
        except KeyboardInterrupt:
            raise
        except (Exception, SystemExit, StepLimit) as error:
            raised = _raised(error)
    if raised is None and type(results) is not dict:
        raise TypeError(
            f"the case script of {exercise.name} must return a dict of named results, not {type_name(results)}"
        )
    return results, raised, changes, calls, labels, printed.getvalue()


def _raised(error) -> dict:
    frames = traceback.extract_tb(error.__traceback__)
    learner = [frame for frame in frames if is_learner_file(frame.filename)]
    names = [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, BaseException)]
    lines = []
    for frame in learner:
        lines.append(f"{_cell_name(frame.filename)}, line {frame.lineno}, in {frame.name}")
        source = linecache.getline(frame.filename, frame.lineno).strip()
        if source:
            lines.append(f"    {source}")
    return {"types": names, "message": str(error)[:2000], "traceback": "\n".join(lines), "inside": bool(learner)}


def is_learner_file(filename: str) -> bool:
    """Whether code of this file is neither a library's, nor ours, nor a case script."""
    if filename.startswith("<") and not filename.startswith(("<ipython", "<answer", "<attempt", "<mutant")):
        return False
    return not filename.startswith((*_LIBRARIES, _OWN)) and pathlib.PurePath(filename).name != "cases.py"


def _cell_name(filename: str) -> str:
    name = pathlib.PurePath(filename).name
    return name if name.endswith(".py") and not name[:-3].isdigit() else "your code"


def observe(
    exercise, program, seed: int, index: int, dtype=None, device="cpu", step_limit=None, describe=False
) -> dict:
    """What `program` does in case `index` of `exercise`, as plain data.

    Only the facets that the exercise's requirements name are written down. Costs are observed in a second run of a freshly
    built case, because hooks and modes change what they watch; `Flat` costs in two more, with the case scaled up.
    The process's own torch state, random streams and output are untouched. `step_limit` bounds Python calls and lines;
    `describe` adds the calls as text.
    """
    dtype = dtype or exercise.dtypes[0]

    def build(scale=None):
        return Case(exercise.name, seed, index, exercise.visible, dtype, device, scale)

    case = build()
    results, raised, changes, calls, labels, printed = _run(
        exercise, program, case, step_limit=step_limit, describe=describe
    )
    observation = {"dtype": dtype, "raised": raised, "mode": changes, "calls": dict(case.calls), "facts": case.facts}
    observation["returned_none"] = calls.returned_none[:64]
    for name, value in results.items():
        labels.add(name, value)
    aspects = exercise.aspects("returned")
    observation["returned"] = _looked(aspects, labels, results) if aspects else {"tree": {}, "storages": []}
    observation["arguments"] = calls.after
    if case.watched:
        for name, value in case.watched.items():
            labels.add(name, value)
        observation["watched"] = _looked(exercise.aspects("arguments"), labels, case.watched)
    if exercise.aspects("printed"):
        observation["printed"] = printed[:MAX_TEXT]
    if describe:
        observation["texts"] = calls.texts
    tracked = case.tracked
    del results, calls, labels, case
    if tracked:
        observation["kept"] = _kept(tracked)
    if exercise.aspects("cost") and raised is None:
        observation["cost"], scales = _cost(exercise, program, build())
        observation["cost_over"] = {
            name: [observation["cost"], *(_cost(exercise, program, build({name: factor}))[0] for factor in (2, 4))]
            for name in scales
            if name in exercise.flat_over
        }
    return observation


def _kept(tracked: dict) -> dict:
    alive = {name: reference() is not None for name, reference in tracked.items()}
    if any(alive.values()):
        gc.collect()
        alive = {name: reference() is not None for name, reference in tracked.items()}
    return alive


def _cost(exercise, program, case):
    """The costs of one run; None where the program raises only when it is watched."""
    meter = Meter()
    results, raised, *_ = _run(exercise, program, case, meter=meter)
    counts = meter.counts() if raised is None else None
    del results
    return counts, dict(case.scales)
