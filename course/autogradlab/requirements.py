"""Requirements: what an exercise asks, in words, and how two observations are compared on it.

A facet is named by a path: `<part>[.<name>|.*][.<aspect>]`. Parts are returned, raised, arguments, mode, cost, kept,
calls and printed. Aspects of tensors are values, shape, dtype, type, device, requires_grad, is_leaf, grad_fn, graph,
memory, identity, grad and version; without one, values with structure, type, shape and dtype are meant.
"""

import dataclasses
import functools
import math
import re
import typing

import numpy
import torch

from autogradlab.encoding import NUMPY_TYPES, EncodingError, Storages, decode_tensor, decode_tree
from autogradlab.state import MODES, STREAMS
from autogradlab.texts import number_text, value_text

PARTS = ("returned", "raised", "arguments", "mode", "cost", "kept", "calls", "printed")
DEFAULT_ASPECTS = frozenset({"values", "shape", "dtype"})
ASPECTS = DEFAULT_ASPECTS | {
    "type",
    "device",
    "requires_grad",
    "is_leaf",
    "grad_fn",
    "graph",
    "memory",
    "identity",
    "grad",
    "version",
}
COSTS = ("graph_bytes", "peak_bytes", "syncs", "transfers", "transfer_bytes", "operations")
MAX_COMPARED = 1 << 24


@dataclasses.dataclass(frozen=True)
class Facet:
    """One facet: a part of an observation, the name in it (None for all of it), and the aspects that are compared."""

    part: str
    name: str | None
    aspects: frozenset

    @staticmethod
    def parse(path: str) -> "Facet":
        """The facet of a path. Raises ValueError that names the path and what it may be."""
        part, *rest = path.split(".")
        if part not in PARTS:
            raise ValueError(f"facet {path!r}: {part!r} is not a part; use one of {', '.join(PARTS)}")
        aspects = (
            frozenset({rest.pop()})
            if part in ("returned", "arguments") and rest and rest[-1] in ASPECTS
            else DEFAULT_ASPECTS
        )
        if len(rest) > 1:
            raise ValueError(
                f"facet {path!r}: after a name only an aspect may follow; aspects are {', '.join(sorted(ASPECTS))}"
            )
        name = rest[0] if rest and rest[0] != "*" else None
        if part == "cost" and name not in COSTS:
            raise ValueError(f"facet {path!r}: a cost is one of {', '.join(COSTS)}")
        if part == "mode" and name is not None and not any(mode.startswith(name) for mode in (*MODES, *STREAMS)):
            raise ValueError(f"facet {path!r}: a mode is one of {', '.join((*MODES, *STREAMS))}")
        if part in ("raised", "printed") and name is not None:
            raise ValueError(f"facet {path!r}: {part} has no parts; use {part!r}")
        return Facet(part, name, aspects)

    def places(self, observation: dict) -> list:
        """The `Place` of everything that the facet names in the observation."""
        if self.part == "returned":
            return _named(observation["returned"], self.name, "")
        if self.part == "arguments":
            after, places = observation["arguments"], []
            for number, plain in enumerate(after):
                when = f" after call {number + 1}" if len(after) > 1 else " after the call"
                if self.name is None or self.name in plain["tree"]:
                    places += _named(plain, self.name, when, number)
            watched = observation.get("watched")
            if watched and (self.name is None or self.name in watched["tree"]):
                places += _named(watched, self.name, " at the end")
            return places or [Place(self.name or "the arguments", " after the call", ...)]
        value = observation.get(self.part)
        if self.part == "mode" and self.name is not None:
            value = {name: change for name, change in value.items() if name.startswith(self.name)}
        elif self.name is not None:
            value = None if value is None else value.get(self.name)
        return [Place(self.name or self.part, "", {"$": "plain", "value": value})]

    def is_in(self, observation: dict) -> bool:
        """Whether the observation holds what the facet names: a facet that names nothing could never differ."""
        if self.part in ("kept", "calls") and self.name is not None:
            return self.name in (observation.get(self.part) or {})
        return all(place.tree is not ... for place in self.places(observation))


class Place(typing.NamedTuple):
    """One thing that a facet names: its name, the moment of the look in words, and the tree, `...` if it is not there.

    `call` is the number of the call after which an argument was looked at, where there is one.
    """

    name: str
    when: str
    tree: object
    storages: Storages | None = None
    call: int | None = None


def _named(plain, name, when, call=None):
    storages = Storages(plain["storages"], MAX_COMPARED)
    names = plain["tree"] if name is None else [name]
    return [Place(key, when, plain["tree"].get(key, ...), storages, call) for key in names]


class Difference:
    """Where two observations part: in words, and what stands on either side.

    The texts may be functions that give them: most differences only ask to be there, and are never read. `result` is
    the named result in which it was found, `path` the place in that, and `call` the number of the call after which an
    argument differs, as far as they are known.
    """

    def __init__(self, words, yours, expected, path=""):
        self._words, self._yours, self._expected, self.path = words, yours, expected, path
        self.result = self.call = None

    @functools.cached_property
    def words(self) -> str:
        """What differs, in a sentence."""
        return _read(self._words)

    @functools.cached_property
    def yours(self) -> str:
        """What the program did there."""
        return _read(self._yours)

    @functools.cached_property
    def expected(self) -> str:
        """What the reference did there."""
        return _read(self._expected)

    def __repr__(self):
        return f"Difference({self.words!r}, {self.yours!r}, {self.expected!r})"


def _read(text) -> str:
    return text() if callable(text) else text


# --------------------------------------------------------------------------------------------- comparing two trees


_KINDS = {
    "tensor": "a tensor",
    "list": "a list",
    "dict": "a dict",
    "set": "a set",
    "frozenset": "a frozenset",
    "bytes": "bytes",
    "size": "a tuple",
    "complex": "a complex number",
    "array": "a NumPy array",
    "dtype": "a dtype",
    "int": "an int",
    "tuple": "a tuple",
    "sparse": "a sparse tensor",
    "ellipsis": "Ellipsis",
    "device": "a device",
    "slice": "a slice",
    "range": "a range",
    "unreadable": "something that could not be written down",
}


def kind_of(tree) -> str:
    """What a tree stands for, as a message names it."""
    if tree is ...:
        return "missing"
    if tree is None:
        return "None"
    if type(tree) is not dict:
        return {bool: "a bool", int: "an int", float: "a float", str: "a string", list: "a list"}[type(tree)]
    kind = tree["$"]
    if kind == "subclass" and tree["type"] in NUMPY_TYPES:
        return f"a NumPy {tree['type']}"
    if kind in ("subclass", "object", "module", "optimizer"):
        name = str(tree["type"])
        return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
    if kind == "exception":
        return f"the exception {tree['types'][0]}"
    if kind == "opaque tensor":
        return f"a tensor on {tree['device']}" if tree["layout"] == "strided" else f"a {tree['layout']} tensor"
    return _KINDS.get(kind, f"a {kind}")


def text_of(tree, storages, limit: int = 240) -> str:
    """A tree as the value that a learner would see, in one line."""
    if tree is ...:
        return "nothing"
    if type(tree) is dict and tree["$"] == "exception":
        return f"{tree['types'][0]}: {tree['message']}"[:limit]
    if type(tree) is dict and tree["$"] == "plain":
        return str(tree["value"])[:limit]
    if type(tree) is dict and tree["$"] in ("module", "optimizer", "object", "unreadable", "opaque tensor"):
        return kind_of(tree)
    try:
        return value_text(decode_tree(tree, storages), limit)
    except EncodingError as error:
        return f"unreadable ({error})"


class _Comparison:
    """Compares two trees on some aspects; stops at the first difference.

    `subject` is what messages call the whole, and `when` follows it; a path leads from the whole to a part. `raises`
    are names of exceptions that count as the same; with `naming`, which asks whether two mistakes are one, exceptions
    have to say the same too.
    """

    def __init__(self, aspects, tolerance, left, right, subject, when="", raises=frozenset(), naming=False):
        self.aspects, self.tolerance, self.left, self.right = aspects, tolerance, left, right
        self.subject, self.when, self.raises, self.naming = subject, when, raises, naming
        self.values, self.types = "values" in aspects, "type" in aspects or "values" in aspects

    def place(self, path) -> str:
        """The part at a path as a message names it: `losses[1]`, or `[1] of the list of losses`."""
        if " " in self.subject and path:
            return f"{path.removeprefix('.')} of {self.subject}{self.when}"
        return f"{self.subject}{path}{self.when}"

    def differ(self, path, words, mine, theirs):
        """The difference at a path; each text may be a function that gives it."""
        return Difference(lambda: f"{self.place(path)} {_read(words)}", mine, theirs, path)

    def between(self, path, words, mine, theirs):
        """The difference between two short texts that say the same as the sentence: `words` mine, expected theirs."""
        return self.differ(path, lambda: f"{words} {_read(mine)}, expected {_read(theirs)}", mine, theirs)

    def show(self, path, mine, theirs):
        """The difference between two values that are short enough to be shown."""

        @functools.cache
        def texts():
            if type(mine) is float and type(theirs) is float:
                return _numbers(mine, theirs)
            return text_of(mine, self.left), text_of(theirs, self.right)

        return self.between(path, "is", lambda: texts()[0], lambda: texts()[1])

    def shown(self, mine, theirs) -> tuple:
        """Functions that give the texts of two trees."""
        return lambda: text_of(mine, self.left), lambda: text_of(theirs, self.right)

    def compare(self, path, mine, theirs):
        """The first difference, else None."""
        if mine is ... or theirs is ...:
            return None if mine is theirs else self.show(path, mine, theirs)
        kinds = [_canonical(tree) for tree in (mine, theirs)]
        if kinds[0] != kinds[1]:
            yours, expected = self.shown(mine, theirs)

            def words():
                # Where None is right, the value tells more than its kind: a zero is not None.
                return f"is {yours() if theirs is None else kind_of(mine)}, expected {kind_of(theirs)}"

            return self.differ(path, words, yours, expected)
        if "identity" in self.aspects and type(mine) is dict and mine.get("identity") != theirs.get("identity"):
            yours, expected = (
                f"the same object as {tree['identity']}" if tree.get("identity") else "a new object"
                for tree in (mine, theirs)
            )
            return self.between(path, "is", yours, expected)
        return getattr(self, f"_{kinds[0].replace(' ', '_')}", self._leaf)(path, mine, theirs)

    def _items(self, path, mine, theirs):
        if len(mine) != len(theirs):
            yours, expected = (f"{len(items)} item{'s' * (len(items) != 1)}" for items in (mine, theirs))
            return self.between(path, "has", yours, expected)
        for position, pair in enumerate(zip(mine, theirs)):
            difference = self.compare(f"{path}[{position}]", *pair)
            if difference:
                return difference
        return None

    def _list(self, path, mine, theirs):
        return self._items(path, *(tree if type(tree) is list else tree["items"] for tree in (mine, theirs)))

    def _tuple(self, path, mine, theirs):
        return self._items(path, *(tree.get("items", tree.get("parts")) for tree in (mine, theirs)))

    def _set(self, path, mine, theirs):
        difference = self._items(path, mine["items"], theirs["items"])
        return difference and self.show(path, mine, theirs)

    _frozenset = _set

    def _dict(self, path, mine, theirs):
        keys = [{repr(key): (key, item) for key, item in tree["items"]} for tree in (mine, theirs)]
        for name in keys[1]:
            if name not in keys[0]:
                shown = text_of(keys[1][name][0], self.right)
                return self.differ(path, f"has no key {shown}", f"no key {shown}", f"the key {shown}")
        for name in keys[0]:
            if name not in keys[1]:
                shown = text_of(keys[0][name][0], self.left)
                words = f"has the key {shown}, which was not expected"
                return self.differ(path, words, f"the key {shown}", f"no key {shown}")
        for name, (key, item) in keys[1].items():
            text = "" if self.naming else text_of(key, self.right)
            difference = self.compare(f"{path}[{text}]", keys[0][name][1], item)
            if difference:
                return difference
        return None

    def _module(self, path, mine, theirs):
        if self.types and mine["type"] != theirs["type"]:
            return self.show(path, mine, theirs)
        if self.values:
            own = {"": mine["training"], **mine["modules"]}
            for name, training in {"": theirs["training"], **theirs["modules"]}.items():
                if name in own and own[name] != training:
                    return self.between(f"{path}{name and f'.{name}'}.training", "is", f"{own[name]}", f"{training}")
        for kind in ("parameters", "buffers"):
            if list(mine[kind]) != list(theirs[kind]):
                yours, expected = (", ".join(tree[kind]) or "none" for tree in (mine, theirs))
                words = f"the {kind} of {self.place(path)} are {yours}, expected {expected}"
                return Difference(words, yours, expected, path)
            for name, tensor in theirs[kind].items():
                difference = self.compare(f"{path}.{name}", mine[kind][name], tensor)
                if difference:
                    return difference
        return None

    def _optimizer(self, path, mine, theirs):
        if self.types and mine["type"] != theirs["type"]:
            return self.show(path, mine, theirs)
        if not self.values:
            return None
        difference = self.compare(f"{path}.state", mine["state"], theirs["state"])
        if difference is None and len(mine["groups"]) != len(theirs["groups"]):
            counts = [len(tree["groups"]) for tree in (mine, theirs)]
            yours, expected = (f"{count} parameter group{'s' * (count != 1)}" for count in counts)
            difference = self.between(path, "has", yours, expected)
        for position, (own, other) in enumerate(zip(mine["groups"], theirs["groups"])):
            # PyTorch adds options from one version to the next: what one side does not know is no difference.
            for option in [option for option in other if option in own]:
                place = f"{path}.param_groups[{position}][{option!r}]"
                difference = difference or self.compare(place, own[option], other[option])
        return difference

    def _subclass(self, path, mine, theirs):
        if self.types and mine["type"] != theirs["type"]:
            return self.between(path, "is", kind_of(mine), kind_of(theirs))
        return self.compare(path, mine["value"], theirs["value"])

    def _exception(self, path, mine, theirs):
        if not self.values or all(self.raises & set(tree["types"]) for tree in (mine, theirs)):
            return None
        alike = _raised_alike(mine, theirs) if self.naming else mine["types"][0] == theirs["types"][0]
        if alike:
            return None
        return self.differ(path, f"is {kind_of(mine)}, expected {kind_of(theirs)}", *self.shown(mine, theirs))

    def _object(self, path, mine, theirs):
        return self.show(path, mine, theirs) if self.types and mine["type"] != theirs["type"] else None

    def _unreadable(self, path, mine, theirs):
        return None if self.naming and mine == theirs else self.show(path, mine, theirs)

    def _float(self, path, mine, theirs):
        return self.show(path, mine, theirs) if self.values and not close(mine, theirs, self.tolerance) else None

    def _complex(self, path, mine, theirs):
        near = all(close(*pair, self.tolerance) for pair in zip(mine["parts"], theirs["parts"]))
        return self.show(path, mine, theirs) if self.values and not near else None

    def _array(self, path, mine, theirs):
        if not self.values or mine == theirs:
            return None
        if (mine["dtype"], mine["shape"]) != (theirs["dtype"], theirs["shape"]):
            yours, expected = (
                f"an array of shape {tuple(tree['shape'])}, {numpy.dtype(tree['dtype']).name}"
                for tree in (mine, theirs)
            )
            return self.between(path, "is", yours, expected)
        if "items" in mine:
            return self._items(path, mine["items"], theirs["items"])
        if mine["dtype"][1] not in "fc":
            return self.show(path, mine, theirs)
        return self._close(path, *map(_array_as_tensor, (mine, theirs)), self.shown(mine, theirs))

    def _leaf(self, path, mine, theirs):
        return self.show(path, mine, theirs) if self.values and mine != theirs else None

    def _sparse(self, path, mine, theirs):
        difference = self._properties(path, mine, theirs)
        return difference or self._items(path, mine["parts"], theirs["parts"])

    def _opaque_tensor(self, path, mine, theirs):
        return self._properties(path, mine, theirs)

    def _properties(self, path, mine, theirs):
        """Everything about two tensors but their values."""
        if "type" in self.aspects and mine["class"] != theirs["class"]:
            return self.differ(
                path, f"is a {mine['class']}, expected a {theirs['class']}", mine["class"], theirs["class"]
            )
        for aspect, words in _TENSOR_ASPECTS:
            if aspect in self.aspects and mine.get(aspect) != theirs.get(aspect):
                return self.between(path, words, *(_aspect_text(aspect, tree.get(aspect)) for tree in (mine, theirs)))
        if "graph" in self.aspects and mine["graph"] != theirs["graph"]:
            yours, expected = (", ".join(tree["graph"]["nodes"]) or "no graph" for tree in (mine, theirs))
            words = "is connected differently" if yours == expected else f"is {yours}, expected {expected}"
            return Difference(f"the graph behind {self.place(path)} {words}", yours, expected, path)
        return None

    def _tensor(self, path, mine, theirs):
        difference = self._properties(path, mine, theirs)
        if difference is None and "grad" in self.aspects:
            plain = _Comparison(DEFAULT_ASPECTS, self.tolerance, self.left, self.right, self.subject, self.when)
            difference = plain.compare(f"{path}.grad", mine.get("grad"), theirs.get("grad"))
        if difference is None and self.values and mine["shape"] != theirs["shape"]:
            # Also where nobody asked for the shape: values of two shapes have no places in common.
            return self.between(path, "has shape", *(_aspect_text("shape", tree["shape"]) for tree in (mine, theirs)))
        if difference or not self.values or _same_bytes(mine, theirs, self.left, self.right):
            return difference
        if math.prod(mine["shape"]) > MAX_COMPARED:
            shapes = [str(tuple(tree["shape"])) for tree in (mine, theirs)]
            return self.differ(path, "has too many elements to compare", *shapes)
        return self._close(path, decode_tensor(mine, self.left), decode_tensor(theirs, self.right))

    def _close(self, path, mine, theirs, shown=None):
        """The difference of two tensors of one shape; `shown` are texts to stand for them."""
        wrong = _far(mine, theirs, self.tolerance)
        if not wrong.any():
            return None
        if self.naming:
            return self.differ(path, "differs", "", "")
        place = tuple(wrong.nonzero()[0].tolist())
        yours, expected = _numbers(mine[place].item(), theirs[place].item())
        if mine.numel() == 1:
            index = f"[{', '.join(map(str, place))}]" if place else ""
            words = f"is {yours}, expected {expected}"
            return self.differ(f"{path}{index}", words, *(shown or (yours, expected)))
        index = ", ".join(map(str, place))

        @functools.cache
        def texts():
            both = [value_text(tensor, 240) for tensor in (mine, theirs)]
            return both if both[0] != both[1] else [f"{number} at [{index}]" for number in (yours, expected)]

        def words():
            count = f"{int(wrong.sum())} of {mine.numel()} values differ"
            return f"{self.place(path)}: {count}; at [{index}] it is {yours}, expected {expected}"

        return Difference(words, *(shown or (lambda: texts()[0], lambda: texts()[1])), path)


_TENSOR_ASPECTS = (
    ("shape", "has shape"),
    ("dtype", "has dtype"),
    ("device", "is on"),
    ("requires_grad", "has requires_grad"),
    ("is_leaf", "has is_leaf"),
    ("grad_fn", "has grad_fn"),
    ("memory", "shares memory with"),
    ("version", "has been edited in place"),
)


def _aspect_text(aspect, value) -> str:
    if aspect == "shape":
        return str(tuple(value))
    if aspect == "memory":
        return ", ".join(value) or "nothing"
    if aspect == "version":
        return "an unknown number of times" if value is None else f"{value} time{'s' * (value != 1)}"
    return str(value)


def _canonical(tree) -> str:
    if type(tree) is not dict:
        return type(tree).__name__
    return "tuple" if tree["$"] == "size" else tree["$"]


def _same_bytes(mine, theirs, left, right) -> bool:
    keys = ("dtype", "shape", "stride", "conj", "neg")
    if any(mine[key] != theirs[key] for key in keys) or mine["offset"] != theirs["offset"]:
        return False
    return left.raw(mine["storage"]) == right.raw(theirs["storage"])


def _far(mine, theirs, tolerance):
    """Which elements differ by more than the tolerance; NaN is near NaN alone, infinity near itself alone."""
    if not (mine.is_floating_point() or mine.is_complex()):
        unsigned = mine.dtype in (torch.uint16, torch.uint32, torch.uint64)
        return mine.to(torch.int64) != theirs.to(torch.int64) if unsigned else mine != theirs
    # Two right programs may differ in the last bit, however few bits there are.
    tolerance = max(tolerance, torch.finfo(mine.dtype).eps)
    wide = torch.complex128 if mine.is_complex() else torch.float64
    a, b = mine.resolve_conj().resolve_neg().to(wide), theirs.resolve_conj().resolve_neg().to(wide)
    near = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= tolerance * (1 + b.abs())) & b.isfinite()
    return ~near


def close(mine: float, theirs: float, tolerance: float) -> bool:
    """Whether a number is within the tolerance of the expected one; NaN is near NaN alone."""
    if mine == theirs or mine != mine and theirs != theirs:
        return True
    return abs(mine - theirs) <= tolerance * (1 + abs(theirs)) and math.isfinite(theirs)


def _numbers(mine, theirs) -> tuple:
    """Two numbers as texts: short, unless that would make them look the same."""
    if type(mine) is not float or type(theirs) is not float:
        return str(mine), str(theirs)
    short = number_text(mine), number_text(theirs)
    return short if short[0] != short[1] else (repr(mine), repr(theirs))


def _array_as_tensor(tree):
    array = decode_tree(tree, None)
    return torch.from_numpy(array.astype(numpy.complex128 if array.dtype.kind == "c" else numpy.float64))


# ------------------------------------------------------------------------------------------------------ the kinds


def _raised_difference(yours, expected, allowed) -> Difference | None:
    mine, theirs = yours["raised"], expected["raised"]
    if mine is None and theirs is None:
        return None
    if mine is not None and theirs is not None:
        names = [allowed & set(raised["types"]) for raised in (mine, theirs)]
        if all(names) or not allowed and mine["types"][0] == theirs["types"][0]:
            return None
    shown = [
        "no exception" if raised is None else f"{raised['types'][0]}: {raised['message']}" for raised in (mine, theirs)
    ]
    if mine is None:
        return Difference(f"it raised no exception, expected {theirs['types'][0]}", *shown)
    wanted = "no exception" if theirs is None else theirs["types"][0]
    return Difference(f"it raised {mine['types'][0]}, expected {wanted}", *shown)


class Requirement:
    """One thing that an exercise asks, in words, with a weight.

    A `coarse` requirement compares no more than whether it is met: two programs that miss it need have nothing else in
    common.
    """

    coarse = False
    raises = frozenset()

    def __init__(self, words: str, facets, weight: float, hidden: str | None):
        if not words or not words.strip():
            raise ValueError("a requirement needs words: what a right answer does")
        if weight <= 0:
            raise ValueError(f"requirement {words!r}: a weight is more than 0")
        self.words, self.weight, self.hidden = words, weight, hidden
        self.facets = tuple(Facet.parse(path) for path in facets)

    def difference(self, exercise, yours, expected) -> Difference | None:
        """Where `yours` misses the requirement in one case, `expected` being what the reference does; else None."""
        raise NotImplementedError

    def met(self, exercise, yours: list, expected: list) -> bool:
        """Whether the requirement holds over all cases."""
        return all(self.difference(exercise, *pair) is None for pair in zip(yours, expected))

    def stands_alone(self, yours: list, expected: list) -> bool:
        """Whether a miss says something about the program even where the gate is missed too.

        Most do not: what is wrong in the first place is wrong, or missing, wherever it is looked at afterwards.
        """
        return False

    def alike(self, exercise, yours: list, others: list, expected: list) -> bool:
        """Whether two programs did the same on this requirement's facets, in all cases."""
        return all(self.alike_once(exercise, *triple) for triple in zip(yours, others, expected))

    def alike_once(self, exercise, yours, other, expected) -> bool:
        """Whether two programs did the same on this requirement's facets in one case."""
        if not _raised_alike(yours["raised"], other["raised"], self.raises):
            return False
        if yours["raised"] is not None:
            return True
        return compare(exercise, self.facets, yours, other, self.raises, naming=True) is None


def _raised_alike(mine, theirs, allowed=frozenset()) -> bool:
    """The same exception with the same message, numbers and quoted values aside.

    The class alone would do for a verdict, not for a name: two mistakes that end in an AttributeError are not one.
    Of the exceptions that are `allowed` to say what they like, one is as good as the other.
    """
    if mine is None or theirs is None:
        return mine is theirs
    if all(allowed & set(raised["types"]) for raised in (mine, theirs)):
        return True
    return mine["types"][0] == theirs["types"][0] and _skeleton(mine["message"]) == _skeleton(theirs["message"])


def _skeleton(message: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", message)


def compare(exercise, facets, yours, expected, raises=frozenset(), naming=False) -> Difference | None:
    """The first difference of two observations on some facets."""
    tolerance = exercise.tolerance[expected["dtype"]]
    for facet in facets:
        mine, theirs = facet.places(yours), facet.places(expected)
        if len(mine) != len(theirs):
            return _count_difference(facet, len(mine), len(theirs))
        by_name = {(place.name, place.when): place for place in mine}
        for name, when, tree, storages, call in theirs:
            own = by_name.get((name, when)) or Place(name, when, ...)
            subject = name if facet.part == "arguments" else exercise.label(name)
            if type(tree) is dict and tree["$"] == "plain":
                difference = _plain_difference(facet.part, subject, own.tree["value"], tree["value"])
            else:
                sides = own.storages, storages
                comparison = _Comparison(facet.aspects, tolerance, *sides, subject, when, raises, naming)
                difference = comparison.compare("", own.tree, tree)
            if difference:
                difference.call = call
                difference.result = name if facet.part == "returned" else None
                return difference
    return None


def _count_difference(facet, mine: int, theirs: int) -> Difference:
    noun, after = ("result", "") if facet.part == "returned" else ("call", f" with {facet.name or 'arguments'}")
    yours, expected = (f"{count} {noun}{'s' * (count != 1)}{after}" for count in (mine, theirs))
    return Difference(f"there {'was' if mine == 1 else 'were'} {yours}, expected {theirs}", yours, expected)


def _plain_difference(part, label, mine, theirs) -> Difference | None:
    if part == "raised":
        return None
    if mine == theirs:
        return None
    if part == "mode":
        name = next(name for name in [*mine, *theirs] if mine.get(name) != theirs.get(name))
        before = (mine.get(name) or theirs.get(name))[0]
        shown = [str(change[name][1] if name in change else before) for change in (mine, theirs)]
        return Difference(f"after the call {name} is {shown[0]}, expected {shown[1]}", *shown)
    if part == "kept":
        shown = ["still alive" if value else "freed" for value in (mine, theirs)]
        return Difference(f"{label} is {shown[0]} after the result was dropped, expected {shown[1]}", *shown)
    if part == "calls":
        shown = [f"{value} time{'s' * (value != 1)}" for value in (mine, theirs)]
        return Difference(f"{label} was called {shown[0]}, expected {shown[1]}", *shown)
    return Difference(
        f"it printed {str(mine)[:200]!r}, expected {str(theirs)[:200]!r}", str(mine)[:200], str(theirs)[:200]
    )


class Same(Requirement):
    """Equals what the reference does on the facets, within the exercise's tolerance.

    `raises` are exception classes that count as the same. `view(value, facts)` turns the one facet's value into the
    plain data that is compared instead, where order, names or text do not matter.
    """

    def __init__(self, words: str, *facets: str, weight: float = 1, view=None, raises=(), hidden: str | None = None):
        super().__init__(words, facets or ("returned",), weight, hidden)
        if any(facet.part == "cost" for facet in self.facets):
            raise ValueError(f"requirement {words!r}: a cost is bounded by AtMost, AtLeast or Flat, never compared")
        if view is not None and len(self.facets) != 1:
            raise ValueError(f"requirement {words!r}: a view reads exactly one facet")
        self.view, self.raises = view, frozenset(cls.__name__ for cls in raises)

    def difference(self, exercise, yours, expected):
        difference = _raised_difference(yours, expected, self.raises)
        if difference:
            return difference
        if self.view is None:
            return compare(exercise, self.facets, yours, expected, self.raises)
        if yours["raised"] is not None:
            return None
        theirs = self._viewed(expected, expected["facts"])
        if isinstance(theirs, _Unreadable):
            raise ValueError(f"requirement {self.words!r}: its view fails on what the reference does: {theirs}")
        mine = self._viewed(yours, expected["facts"])
        if _plain_close(mine, theirs, exercise.tolerance[expected["dtype"]]):
            return None
        facet, shown = self.facets[0], [functools.partial(value_text, value, 240) for value in (mine, theirs)]
        subject = _subject(exercise, facet)
        if isinstance(mine, _Unreadable):
            places = facet.places(yours)
            shown[0] = lambda: ", ".join(text_of(place.tree, place.storages) for place in places)[:480]
            difference = Difference(f"{subject} does not have the form that was asked for ({mine})", *shown)
        else:
            difference = Difference(lambda: f"{subject} comes to {shown[0]()}, expected {shown[1]()}", *shown)
        difference.result = facet.name if facet.part == "returned" else None
        return difference

    def alike_once(self, exercise, yours, other, expected):
        if self.view is None or yours["raised"] is not None or other["raised"] is not None:
            return super().alike_once(exercise, yours, other, expected)
        values = (self._viewed(observation, expected["facts"]) for observation in (yours, other))
        return _plain_close(*values, exercise.tolerance[expected["dtype"]])

    def _viewed(self, observation, facts):
        places = self.facets[0].places(observation)
        try:
            values = [decode_tree(place.tree, place.storages) for place in places if place.tree is not ...]
            return plain_view(self.view(values[0] if len(values) == 1 else values, facts))
        except Exception as error:  # a learner's value of a shape that the view does not know
            return _Unreadable(f"{type(error).__name__}: {error}")


class _Unreadable(str):
    """Why a view could not read a value."""


def plain_view(value):
    """A view's value with tensors as nested lists, so that it can be compared and shown."""
    if isinstance(value, (torch.Tensor, numpy.ndarray, numpy.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain_view(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain_view(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {key: plain_view(item) for key, item in value.items()}
    return value


def _plain_close(mine, theirs, tolerance) -> bool:
    if type(mine) is float and type(theirs) is float:
        return close(mine, theirs, tolerance)
    if type(mine) is list and type(theirs) is list:
        return len(mine) == len(theirs) and all(_plain_close(*pair, tolerance) for pair in zip(mine, theirs))
    if type(mine) is dict and type(theirs) is dict:
        return mine.keys() == theirs.keys() and all(_plain_close(mine[key], theirs[key], tolerance) for key in mine)
    return type(mine) is type(theirs) and mine == theirs


class Seen:
    """An observation as a predicate reads it: decoded values by name, and all of it as plain data in `observation`."""

    def __init__(self, observation):
        self.observation = observation
        raised = observation["raised"]
        self.raised = None if raised is None else raised["types"][0]
        self.mode, self.calls, self.kept = observation["mode"], observation["calls"], observation.get("kept", {})
        self.printed, self.cost = observation.get("printed", ""), observation.get("cost") or {}

    @functools.cached_property
    def returned(self) -> dict:
        """The results by name."""
        return _decoded(self.observation["returned"])

    @functools.cached_property
    def arguments(self) -> list:
        """One dict of argument values by name for each call, as they were after it."""
        return [_decoded(plain) for plain in self.observation["arguments"]]

    @functools.cached_property
    def watched(self) -> dict:
        """The watched objects by name, as they were when the script ended."""
        return _decoded(self.observation["watched"])


def _decoded(plain):
    storages = Storages(plain["storages"], MAX_COMPARED)
    return {name: decode_tree(tree, storages) for name, tree in plain["tree"].items()}


class Holds(Requirement):
    """A predicate over what was seen and the case's facts: for exercises with several right answers.

    `predicate(seen, facts)` returns whether it holds; the facets are what a diagnosis compares.
    """

    def __init__(self, words: str, predicate, *facets: str, weight: float = 1, hidden: str | None = None):
        super().__init__(words, facets or ("returned",), weight, hidden)
        self.predicate = predicate

    def difference(self, exercise, yours, expected):
        difference = _raised_difference(yours, expected, frozenset())
        if difference:
            return difference
        try:
            if self.predicate(Seen(yours), expected["facts"]):
                return None
        except Exception as error:  # a learner's value of a shape that the predicate does not know
            words = f"it does not have the form that was asked for ({type(error).__name__}: {error})"
        else:
            words = f"not met: {self.words}"
        difference = Difference(
            words,
            lambda: _shown(exercise, self, yours),
            lambda: f"for example {_shown(exercise, self, expected)}",
        )
        if len(self.facets) == 1 and self.facets[0].part == "returned":
            difference.result = self.facets[0].name
        return difference


def _shown(exercise, requirement, observation) -> str:
    shown = []
    for facet in requirement.facets:
        for name, when, tree, storages, _ in facet.places(observation):
            subject = name if facet.part == "arguments" else exercise.label(name)
            shown.append(f"{subject}{when} = {text_of(tree, storages)}")
    return ", ".join(shown)[:480]


def _subject(exercise, facet) -> str:
    """What messages call the one thing that a facet names."""
    if facet.name is None:
        return {"returned": "the result", "arguments": "what was passed in"}.get(facet.part, f"the {facet.part}")
    return facet.name if facet.part == "arguments" else exercise.label(facet.name)


class _Bound(Requirement):
    coarse = True

    def __init__(self, words: str, facet: str, bound, weight: float = 1, hidden: str | None = None):
        super().__init__(words, (facet,), weight, hidden)
        if self.facets[0].part not in ("cost", "calls") or self.facets[0].name is None:
            raise ValueError(f"requirement {words!r}: a bound needs one cost or one counted call, not {facet!r}")
        self.bound = bound

    def difference(self, exercise, yours, expected):
        if yours["raised"] is not None or expected["raised"] is not None:
            return _raised_difference(yours, expected, frozenset())
        facet, bound = self.facets[0], self.bound(expected["facts"]) if callable(self.bound) else self.bound
        counts = yours.get(facet.part)
        if not counts:
            return Difference(
                f"{_cost_name(exercise, facet)} could not be measured: it fails when it is watched",
                "nothing",
                f"{self.sign} {bound}",
            )
        if self.within(counts[facet.name], bound):
            return None
        return Difference(
            f"{_cost_name(exercise, facet)}: {counts[facet.name]}, expected {self.sign} {bound}",
            str(counts[facet.name]),
            f"{self.sign} {bound}",
        )

    def stands_alone(self, yours, expected):
        # A bound is met or passed whatever was computed; what ended early was not measured.
        return not any(one["raised"] for one in yours)

    def alike_once(self, exercise, yours, other, expected):
        if not _raised_alike(yours["raised"], other["raised"]):
            return False
        # A cost is the same behaviour where it is met or missed alike, never by its number.
        return (self.difference(exercise, yours, expected) is None) == (
            self.difference(exercise, other, expected) is None
        )


class AtMost(_Bound):
    """A cost or a count of calls is at most `bound`, a number or a function of the case's facts."""

    sign = "at most"

    @staticmethod
    def within(count, bound):
        return count <= bound


class AtLeast(_Bound):
    """A cost or a count of calls is at least `bound`, a number or a function of the case's facts."""

    sign = "at least"

    @staticmethod
    def within(count, bound):
        return count >= bound


_COST_NAMES = {
    "graph_bytes": "bytes that graphs hold at the end",
    "peak_bytes": "bytes that graphs hold at their peak",
    "syncs": "reads of values by Python",
    "transfers": "transfers between devices",
    "transfer_bytes": "bytes transferred between devices",
    "operations": "operations",
}


def _cost_name(exercise, facet) -> str:
    return f"calls of {exercise.label(facet.name)}" if facet.part == "calls" else _COST_NAMES[facet.name]


class Flat(_Bound):
    """A cost that does not grow when `case.over(over, …)` gives two and four times as many."""

    def __init__(self, words: str, facet: str, over: str, weight: float = 1, hidden: str | None = None):
        super().__init__(words, facet, None, weight, hidden)
        if self.facets[0].part != "cost":
            raise ValueError(f"requirement {words!r}: only a cost is flat, not {facet!r}")
        self.over = over

    def difference(self, exercise, yours, expected):
        if yours["raised"] is not None or expected["raised"] is not None:
            return _raised_difference(yours, expected, frozenset())
        facet = self.facets[0]
        runs = (yours.get("cost_over") or {}).get(self.over)
        if not runs or None in runs:
            return Difference(
                f"{_cost_name(exercise, facet)} could not be measured: it fails when it is watched",
                "nothing",
                "the same",
            )
        counts = [run[facet.name] for run in runs]
        # From twice to four times as many, because the first runs still fill what a loop keeps of its last steps; an
        # eighth is room for noise, not for a share of every step.
        if 8 * counts[2] <= 9 * counts[1]:
            return None
        shown = " → ".join(map(str, counts))
        return Difference(
            f"{_cost_name(exercise, facet)}, with 1, 2 and 4 times as many {exercise.label(self.over)}: "
            f"{shown}, expected no growth",
            shown,
            "no growth",
        )


class Rate(Same):
    """Right, as `Same`, in at least this share of all cases."""

    def __init__(
        self,
        words: str,
        *facets: str,
        at_least: float,
        weight: float = 1,
        view=None,
        raises=(),
        hidden: str | None = None,
    ):
        super().__init__(words, *facets, weight=weight, view=view, raises=raises, hidden=hidden)
        if not 0 < at_least <= 1:
            raise ValueError(f"requirement {words!r}: a share is more than 0 and at most 1")
        self.at_least = at_least

    def met(self, exercise, yours, expected):
        right = sum(self.difference(exercise, *pair) is None for pair in zip(yours, expected))
        return right >= self.at_least * len(expected)


class Prediction(Requirement):
    """Answers that are data: those of the learner's own variant, compared item by item by their salted digests.

    `items` is the slice of answers that the requirement is about (all of them by default).
    """

    def __init__(self, words: str, items: slice | None = None, weight: float = 1, hidden: str | None = None):
        super().__init__(words, (), weight, hidden)
        self.items = items or slice(None)

    def difference(self, exercise, yours, expected):
        difference = _raised_difference(yours, expected, frozenset())
        if difference:
            return difference
        mine, theirs = yours["answers"], expected["answers"]
        if len(mine) != len(theirs):
            counts = [len(answers) for answers in (mine, theirs)]
            shown = [f"{count} answer{'s' * (count != 1)}" for count in counts]
            return Difference(f"there {'is' if counts[0] == 1 else 'are'} {shown[0]}, expected {counts[1]}", *shown)
        if mine[self.items] == theirs[self.items]:
            return None
        # All that are wrong, in whichever requirement: a learner reads them as one list.
        wrong = [n for n in range(len(theirs)) if mine[n] != theirs[n]]
        texts = yours.get("answer_texts") or ["…"] * len(mine)
        said = "; ".join(f"answer {n + 1}: {texts[n]}" for n in wrong)
        return Difference(
            f"{len(wrong)} of your {len(theirs)} answers {'are' if len(wrong) != 1 else 'is'} not what happens: "
            f"number{'s' * (len(wrong) != 1)} {_listed(wrong)}",
            said,
            "what running it shows",
        )

    def stands_alone(self, yours, expected):
        # Each answer is right or wrong by itself, once it is known which is which.
        return all(len(mine["answers"]) == len(theirs["answers"]) for mine, theirs in zip(yours, expected))

    def alike_once(self, exercise, yours, other, expected):
        if yours["raised"] is not None or other["raised"] is not None:
            return _raised_alike(yours["raised"], other["raised"])
        same_number = len(yours["answers"]) == len(other["answers"])
        return same_number and yours["answers"][self.items] == other["answers"][self.items]


def _listed(numbers) -> str:
    *most, last = (str(number + 1) for number in numbers)
    return f"{', '.join(most)} and {last}" if most else last


class Budget:
    """A run condition: past this many Python calls and lines the program is stopped, observed as raising StepLimit."""

    def __init__(self, steps: int):
        self.steps = steps


class Forbid:
    """A run condition: what the exercise rebuilds raises a sentence inside the case, for the reference too."""

    def __init__(self, *names: str):
        self.names = names
