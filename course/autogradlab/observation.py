"""What a program did in a case, written down as plain data: the one thing that grading compares."""

import contextlib
import functools
import gc
import io
import itertools
import linecache
import pathlib
import sys
import traceback

import numpy
import torch

from autogradlab.case import Case
from autogradlab.costs import Meter
from autogradlab.encoding import Encoder, EncodingError, memory_key, type_name
from autogradlab.nodes import leaf_of, node_name, walk
from autogradlab.requirements import ASPECTS
from autogradlab.state import preserved
from autogradlab.steps import LIBRARIES, StepLimit, Steps
from autogradlab.texts import value_text

MAX_TEXT = 20_000
MAX_GRAPH = 20_000
MAX_LABELS = 10_000
MAX_LOOKS = 64
MAX_PARTS_DEEP = 3
MAX_FRAMES = 12
_NAMED_ASPECTS = {"memory", "identity", "graph"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


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
        try:
            return self.encode(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # looking runs a learner's own properties and methods, which may raise anything
            return _unreadable(error)

    def part(self, key, value, depth):
        previous, self.path = self.path, _part_path(self.path, key)
        try:
            return self.encode(value, depth)
        finally:
            self.path = previous

    def container(self, value, tree):
        if "identity" not in self.aspects:
            return tree
        tree = tree if isinstance(tree, dict) else {"$": "list", "items": tree}
        return tree | {"identity": self.labels.name(value, self.path)}

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
            tree["version"] = None if tensor.is_inference() else tensor._version
        if "grad" in aspects:
            grad = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
            tree["grad"] = None if grad is None else super().tensor(grad, depth + 1)
        return tree

    def other(self, value, depth):
        if isinstance(value, torch.nn.Module):
            tree = {"$": "module", "type": type_name(value), "training": value.training}
            tree["modules"] = {name: module.training for name, module in value.named_modules() if name}
            for kind in ("parameters", "buffers"):
                named = getattr(value, f"named_{kind}")()
                tree[kind] = {name: self.part(_Attribute(name), tensor, depth + 1) for name, tensor in named}
            return self.container(value, tree)
        if isinstance(value, torch.optim.Optimizer):
            state = value.state_dict()
            tree = {"$": "optimizer", "type": type_name(value), "state": self.encode(state["state"], depth + 1)}
            groups = state["param_groups"]
            tree["groups"] = [{str(key): self.encode(group[key], depth + 1) for key in group} for group in groups]
            return self.container(value, tree)
        return super().other(value, depth)


def _unreadable(error) -> dict:
    # Not the error's own words: they may be a learner's, and as long as they like.
    message = str(error) if isinstance(error, EncodingError) else f"looking at it raised {type_name(error)}"
    return {"$": "unreadable", "message": message}


class _Attribute(str):
    """The name of an attribute, where a path goes on with a dot."""


def _part_path(path: str, key) -> str:
    if type(key) is _Attribute:
        return f"{path}.{key}"
    return f"{path}[{key!r}]" if type(key) in (int, str) else f"{path}[a {type_name(key)}]"


class _Labels:
    """The names of the objects that a case passes in or gets back, by identity and by memory."""

    def __init__(self, needed: bool = True):
        self._needed = needed
        self._objects, self._memories = {}, {}
        self._roots, self._keep = [], []

    def add(self, path: str, value):
        """Names `value` and what it holds, unless it has a name already."""
        if self._needed:
            self._roots.append((path, value))
            self._name(path, value)

    def refresh(self):
        """Notes the memory that everything named lies in now: assigning to `.data` moves a tensor."""
        for path, value in self._roots:
            self._name(path, value)

    def _name(self, path, value):
        # A learner's own class may raise anything when it is looked into; its parts then have no names.
        with contextlib.suppress(Exception):
            self._walk(path, value, set())

    def _walk(self, path, value, seen):
        if isinstance(value, _PLAIN) or id(value) in seen or len(self._keep) > MAX_LABELS:
            return
        seen.add(id(value))
        # Kept alive, because what is freed leaves its identity and its memory to others.
        self._keep.append(value)
        self._objects.setdefault(id(value), path)
        if isinstance(value, (torch.Tensor, numpy.ndarray)):
            self._keep.append(_storage(value))
            self._memories.setdefault(_memory(value), set()).add(path)
        for key, part in _parts(value):
            self._walk(_part_path(path, key), part, seen)

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


def _parts(value):
    """What a container or module holds, by key; nothing for everything else."""
    if isinstance(value, (list, tuple)):
        base = list if isinstance(value, list) else tuple
        return enumerate(itertools.islice(base.__iter__(value), MAX_LABELS))
    if isinstance(value, dict):
        return itertools.islice(dict.items(value), MAX_LABELS)
    if isinstance(value, torch.nn.Module):
        named = [*torch.nn.Module.named_parameters(value), *torch.nn.Module.named_buffers(value)]
        return ((_Attribute(name), tensor) for name, tensor in named)
    return ()


def _storage(value):
    """The object that owns the memory of a tensor or array, else the value."""
    if isinstance(value, torch.Tensor):
        return value.untyped_storage() if value.layout is torch.strided and not value.is_nested else value
    while isinstance(value.base, numpy.ndarray):
        value = value.base
    return value


def _memory(value):
    owner = _storage(value)
    if owner is value and isinstance(value, torch.Tensor):
        return ("layout", id(value))
    if isinstance(value, numpy.ndarray):
        return ("cpu", owner.__array_interface__["data"][0])
    if value.device.type == "cpu":
        return ("cpu", owner.data_ptr()) if owner.data_ptr() else ("empty", id(value))
    return memory_key(value)


def _node_name(node) -> str:
    return node_name(node).rstrip("0123456789")


def graph_of(tensor, labels=None) -> dict:
    """The graph behind a tensor: `nodes` by name without numbers, `edges` as `[node, output index]` or None.

    Nodes are numbered in the order in which a walk from the tensor meets them. Leaves carry their names.
    """
    if tensor.grad_fn is None:
        return {"nodes": [], "edges": []}
    order = walk(tensor.grad_fn)
    if len(order) > MAX_GRAPH:
        raise EncodingError(f"the graph has more than {MAX_GRAPH} nodes")
    numbers = {node: number for number, node in enumerate(order)}
    names = []
    for node in order:
        leaf = leaf_of(node)
        label = labels.leaf(leaf) if labels is not None and leaf is not None else None
        names.append(_node_name(node) + (f" {label}" if label else ""))
    edges = [[None if to is None else [numbers[to], index] for to, index in node.next_functions] for node in order]
    return {"nodes": names, "edges": edges}


# ------------------------------------------------------------------------------------------------------ running


_RAISED = object()


class _Calls:
    """Wraps a learner's function so that its calls, their arguments before and after, are noted."""

    def __init__(self, exercise, case, labels, describe, meter):
        self.exercise, self.case, self.labels, self.describe, self.meter = exercise, case, labels, describe, meter
        self.texts, self.topics, self.after, self.returned_none = [], [], [], []
        # The results themselves are kept only where calls are told: elsewhere that would keep their graphs alive.
        self.results, self.raising, self.count = [], None, 0
        self.aspects = exercise.aspects("arguments")

    def wrap(self, program):
        """The program, watched; a class goes in as it is."""
        if isinstance(program, type) or not callable(program):
            return program

        def watched(*args, **kwargs):
            return self.call(program, args, kwargs)

        with contextlib.suppress(Exception):  # an object that is called may have attributes that raise
            functools.update_wrapper(watched, program)
        return watched

    def call(self, program, args, kwargs):
        """What the program returns."""
        given = {**dict(zip(self._names(len(args)), args)), **kwargs}
        if self.meter is None:
            for name, value in given.items():
                self.labels.add(name, value)
        else:
            self.meter.exclude(list(given.values()))
        number, self.count = self.count, self.count + 1
        told = self.describe and number < MAX_LOOKS
        if told:
            self.texts.append(call_text(self.exercise.name, given))
            self.topics.append(self.case.topic)
            self.results.append(_RAISED)
        try:
            result = program(*args, **kwargs)
            self.returned_none.append(result is None)
            if told:
                self.results[number] = result
            return result
        except BaseException as error:
            self.raising = number
            if told:
                self.results[number] = error
            raise
        finally:
            if self.aspects and self.meter is None and len(self.after) < MAX_LOOKS:
                self.after.append(_looked(self.aspects, self.labels, given))

    def sources(self, results: dict) -> dict:
        """The number of the call that a named result or a part of one comes from, by name or path."""
        return self._sources({name: (name, value) for name, value in results.items()}, 0)

    def _sources(self, values: dict, depth) -> dict:
        """The same of values by path, each with the name or key under which it stands."""
        found = self._matched({path: value for path, (_, value) in values.items()})
        for path, (key, value) in values.items():
            calls = [number for number, topic in enumerate(self.topics) if type(key) is str and topic == key]
            if len(calls) == 1:
                found[path] = calls[0]
            if depth < MAX_PARTS_DEEP and type(value) in (dict, list, tuple):
                pairs = value.items() if type(value) is dict else enumerate(value)
                parts = {
                    f"{path}[{value_text(key, 240)}]": (key, part) for key, part in itertools.islice(pairs, MAX_LOOKS)
                }
                found |= self._sources(parts, depth + 1)
        return found

    def _matched(self, values: dict) -> dict:
        """The calls that returned these values: in their order, or where only one call can have."""
        own = list(values.values())
        if own and len(own) == len(self.results) and all(mine is result for mine, result in zip(own, self.results)):
            return dict(zip(values, range(len(own))))
        # Objects that Python hands out more than once say nothing about where they come from.
        shared = (type(None), bool, int, str, bytes)
        calls = {name: [n for n, result in enumerate(self.results) if result is one] for name, one in values.items()}
        return {name: n[0] for name, n in calls.items() if len(n) == 1 and type(values[name]) not in shared}

    def _names(self, count):
        declared = self.exercise.arguments
        return [*declared[:count], *(f"argument {number + 1}" for number in range(len(declared), count))]


def _looked(aspects, labels, values: dict) -> dict:
    if "memory" in aspects:
        labels.refresh()
    looking = _Looking(aspects, labels)
    tree = {name: looking.look(name, value) for name, value in values.items()}
    try:
        return {"tree": tree, "storages": looking.finish()}
    except EncodingError as error:
        return {"tree": dict.fromkeys(tree, _unreadable(error)), "storages": []}


def call_text(name: str, given: dict) -> str:
    """A call as a learner would write it, cut to a readable length."""
    return f"{name}({', '.join(f'{key}={value_text(value)}' for key, value in given.items())})"


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


class _Printed(io.StringIO):
    """Keeps the beginning of what is printed."""

    def write(self, text):
        if self.tell() < MAX_TEXT:
            super().write(text[:MAX_TEXT])
        return len(text)


def _run(exercise, program, case, observation=None, *, meter=None, step_limit=None, describe=False):
    """What one run of the case script raised, and its costs where a meter watches it.

    Without a meter, everything else that it did is written into `observation`.
    """
    labels = _Labels(bool((exercise.aspects("returned") | exercise.aspects("arguments")) & _NAMED_ASPECTS))
    calls = _Calls(exercise, case, labels, describe, meter)
    printed, raised, results = _Printed(), None, {}
    watched = calls.wrap(program)
    with contextlib.ExitStack() as stack:
        changes = stack.enter_context(preserved(case.seed))
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(_Printed()))
        with _without(exercise.forbidden), meter or contextlib.nullcontext():
            try:
                if step_limit:
                    results = Steps(step_limit).run(lambda: exercise.script(watched, case))
                else:
                    results = exercise.script(watched, case)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit and whatever else a program raises is what it does
                raised = _raised(error, describe)
        if raised is None:
            _check_results(exercise, results)
        if observation is not None:
            text = printed.getvalue()[:MAX_TEXT]
            changes.settle()
            observation |= {"raised": raised, "mode": dict(changes), "calls": dict(case.calls), "facts": case.facts}
            _write_down(exercise, observation, results, case, calls, labels)
            if exercise.aspects("printed"):
                observation["printed"] = text
        # Before the results are dropped: the bytes that their graphs hold count.
        return raised, meter and meter.counts()


def _check_results(exercise, results):
    if type(results) is not dict or not all(type(name) is str for name in results):
        raise TypeError(f"the case script of {exercise.name} must return a dict of named results, not {results!r:.200}")
    clash = ASPECTS & results.keys()
    if clash:
        raise ValueError(
            f"the case script of {exercise.name} calls a result {min(clash)!r}, which is the name of an aspect; "
            f"give it another name"
        )


def _write_down(exercise, observation, results, case, calls, labels):
    for name, value in results.items():
        labels.add(name, value)
    aspects = exercise.aspects("returned")
    observation["returned"] = _looked(aspects, labels, results) if aspects else {"tree": {}, "storages": []}
    observation["arguments"], observation["returned_none"] = calls.after, calls.returned_none[:MAX_LOOKS]
    if case.watched:
        for name, value in case.watched.items():
            labels.add(name, value)
        observation["watched"] = _looked(exercise.aspects("arguments"), labels, case.watched)
    if calls.describe:
        observation |= {"texts": calls.texts, "call_count": calls.count}
        observation |= {"sources": calls.sources(results), "raising": calls.raising}


def _raised(error, describe: bool) -> dict:
    names = [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, BaseException)]
    frames = _learner_frames(error)
    # A traceback quotes the program, and a recording of what a program did must not.
    quoted = {"traceback": _traceback_text(frames)} if describe else {}
    return {"types": names, "message": message_of(error), "inside": bool(frames)} | quoted


def message_of(error) -> str:
    """What an exception says, cut to a readable length."""
    try:
        text = str(error)[:2000]
    except Exception:  # a learner's own __str__
        return ""
    # How it goes on depends on which call happened to be the last one, and so on how deep the caller stood.
    deep = "maximum recursion depth exceeded"
    return deep if isinstance(error, RecursionError) and text.startswith(deep) else text


def _learner_frames(error) -> list:
    """File, line and function of the learner's own part of a traceback."""
    if isinstance(error, StepLimit):
        every = error.frames
    else:
        walked = traceback.walk_tb(error.__traceback__)
        every = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]
    return [frame for frame in every if is_learner_file(frame[0])]


def learners_traceback(error) -> str:
    """Where in the learner's own code an exception came from, as text."""
    return _traceback_text(_learner_frames(error))


def _traceback_text(frames: list) -> str:
    lines = []
    for position, (file, line, name) in enumerate(frames):
        if len(frames) > MAX_FRAMES and position == MAX_FRAMES // 2:
            lines.append(f"… {len(frames) - MAX_FRAMES} calls more …")
        if MAX_FRAMES // 2 <= position < len(frames) - MAX_FRAMES // 2:
            continue
        lines.append(f"{_cell_name(file)}, line {line}, in {name}")
        source = linecache.getline(file, line).strip()
        if source:
            lines.append(f"    {source}")
    return "\n".join(lines)


def is_learner_file(filename: str) -> bool:
    """Whether code of this file is neither a library's, nor ours, nor a case script."""
    if filename.startswith("<") and not filename.startswith(("<ipython", "<answer", "<attempt", "<mutant")):
        return False
    return not filename.startswith(LIBRARIES) and pathlib.PurePath(filename).name != "cases.py"


def _cell_name(filename: str) -> str:
    name = pathlib.PurePath(filename).name
    return name if name.endswith(".py") and not name[:-3].isdigit() else "your code"


def observe(
    exercise, program, seed: int, index: int, dtype=None, device="cpu", step_limit=None, describe=False
) -> dict:
    """What `program` does in case `index` of `exercise`, as plain data.

    Only the facets that the exercise's requirements name are written down. Costs are observed in a second run of a
    freshly built case, because hooks and modes change what they watch; `Flat` costs in two more, with the case scaled
    up. The process's own torch state, random streams and output are untouched; `sim` becomes known to it where that is
    the device. `step_limit` bounds Python calls and lines; `describe` adds what messages quote, the calls and the
    traceback, and leaves the costs out.
    """
    dtype = dtype or exercise.dtypes[0]
    if device == "sim":
        from autogradlab import accelerator  # nobody else needs it

        accelerator.register(note=False)
    limit = min(filter(None, (exercise.budget, step_limit)), default=None)

    def build(scale=None):
        return Case(exercise.name, seed, index, exercise.visible, dtype, device, scale)

    observation, case = {"dtype": dtype}, build()
    with _collectable(bool(exercise.aspects("kept"))):
        raised, _ = _run(exercise, program, case, observation, step_limit=limit, describe=describe)
        tracked = case.tracked
        del case
        if tracked:
            observation["kept"] = _kept(tracked)
    if exercise.aspects("cost") and raised is None and not describe:
        costs, scales = _cost(exercise, program, build(), limit)
        observation["cost"] = costs
        observation["cost_over"] = {
            name: [costs, *(_cost(exercise, program, build({name: factor}), limit)[0] for factor in (2, 4))]
            for name in scales
            if name in exercise.flat_over
        }
    return observation


@contextlib.contextmanager
def _collectable(needed: bool):
    """Leaves only what is made inside to the garbage collector, which takes long over everything of a notebook."""
    needed = needed and not gc.get_freeze_count()
    if needed:
        gc.freeze()
    try:
        yield
    finally:
        if needed:
            gc.unfreeze()


def _kept(tracked: dict) -> dict:
    alive = {name: reference() is not None for name, reference in tracked.items()}
    if any(alive.values()):
        gc.collect()
        alive = {name: reference() is not None for name, reference in tracked.items()}
    return alive


def _cost(exercise, program, case, limit):
    """The costs of one run; None where the program raises only when it is watched."""
    # Watched runs are bounded as well, with room for the larger cases that Flat asks for.
    raised, counts = _run(exercise, program, case, meter=Meter(), step_limit=limit and 16 * limit)
    return (counts if raised is None else None), dict(case.scales)
