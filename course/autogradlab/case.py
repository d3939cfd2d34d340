"""A case: the numbers, sizes and helpers from which a case script builds one situation, the same on every machine."""

import ast
import hashlib
import inspect
import textwrap
import weakref

import numpy
import torch


def derived_seed(*parts) -> int:
    """A seed of 32 bits that depends on every part and on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


class Case:
    """One case of an exercise, rebuilt from `(exercise, seed, index, dtype, device)` wherever it is needed.

    All draws come from `numpy.random.RandomState`, whose streams are frozen, so that both sides of a comparison see the
    same numbers. `kind` is the index modulo the number of visible cases: cases of one kind differ in numbers and sizes
    only.
    """

    def __init__(
        self, exercise: str, seed: int, index: int, kinds: int, dtype: str = "float32", device: str = "cpu", scale=None
    ):
        self.index, self.kind, self.device = index, index % kinds, device
        self.dtype = getattr(torch, dtype)
        self.seed = derived_seed(exercise, seed, index)
        self.random = numpy.random.RandomState(self.seed)
        self.facts, self.watched, self.tracked, self.calls, self.scales = {}, {}, {}, {}, {}
        self.topic = None
        self._sizes = set()
        self._scale = scale or {}

    def _tensor(self, values, requires_grad=False, dtype=None):
        tensor = torch.tensor(values, dtype=dtype or self.dtype, device="cpu").to(self.device)
        return tensor.requires_grad_(requires_grad)

    def normal(self, *shape: int, requires_grad: bool = False, dtype=None) -> torch.Tensor:
        """A leaf of this shape, of the case's dtype and device; normal draws away from 0: 0.2 <= |value| <= 3.2."""
        draws = self.random.standard_normal(shape)
        return self._tensor(numpy.sign(draws) * (0.2 + numpy.minimum(abs(draws), 3.0)), requires_grad, dtype)

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, requires_grad: bool = False, dtype=None
    ) -> torch.Tensor:
        """A leaf of this shape, of the case's dtype and device, uniform in [low, high)."""
        return self._tensor(self.random.uniform(low, high, shape), requires_grad, dtype)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """An int64 tensor of this shape with values in [low, high)."""
        return self._tensor(self.random.randint(low, high, shape), dtype=torch.int64)

    def integer(self, low: int, high: int) -> int:
        """A Python int in [low, high]."""
        return int(self.random.randint(low, high + 1))

    def number(self, low: float, high: float) -> float:
        """A Python float in [low, high], with three decimals."""
        return round(float(self.random.uniform(low, high)), 3)

    def choice(self, options):
        """One of the options."""
        return options[self.random.randint(len(options))]

    def permutation(self, count: int) -> list:
        """The integers below `count` in random order."""
        return self.random.permutation(count).tolist()

    def size(self, low: int, high: int) -> int:
        """A Python int in [low, high] that this case has not given out as a size before."""
        free = [size for size in range(low, high + 1) if size not in self._sizes]
        if not free:
            raise ValueError(f"every size from {low} to {high} is taken in this case; widen the range")
        size = int(self.choice(free))
        self._sizes.add(size)
        return size

    def note(self, **facts):
        """Notes plain facts about the case, for bounds and predicates: None, bool, int, float, str, lists and dicts."""
        for name, fact in facts.items():
            if not _is_plain(fact):
                raise TypeError(f"the fact {name} is no plain data: {fact!r:.100}; note numbers, text, lists or dicts")
        self.facts.update(facts)

    def watch(self, **objects):
        """Has the objects looked at, under their names in `arguments`, when the script ends."""
        self.watched.update(objects)

    def track(self, **objects):
        """Follows the objects by weak references: `kept.<name>` is whether one outlives the results."""
        self.tracked.update({name: weakref.ref(value) for name, value in objects.items()})

    def counted(self, name: str, function):
        """`function`, with its calls counted in `calls.<name>`."""
        self.calls[name] = 0

        def counting(*args, **kwargs):
            self.calls[name] += 1
            return function(*args, **kwargs)

        return counting

    def over(self, name: str, count: int) -> int:
        """`count`, or a multiple of it in the repeated runs that `Flat` compares."""
        self.scales[name] = count
        return count * self._scale.get(name, 1)

    def about(self, name: str):
        """Says of the calls that follow, up to the next `about`, that the results under this name come from them.

        A name is that of a result, or a key of a dict in one. Where one such call is known, a difference shows it.
        """
        self.topic = name

    def attempt(self, function, *args, **kwargs):
        """What the call returns, or the exception that it raises."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return error.with_traceback(None)

    def specimen(self, function):
        """The function rebuilt from its source, with scrambled names, so that its name tells nothing.

        Keyword-only arguments keep their names. Raises TypeError for anything but a function that a file defines.
        """
        definition = None
        if inspect.isfunction(function):
            definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        if not isinstance(definition, ast.FunctionDef):
            raise TypeError(f"a specimen is made of a function that a file defines with def, not of {function!r:.100}")
        definition.decorator_list = []
        own, kept = set(), set()
        for node in ast.walk(definition):
            if isinstance(node, ast.arguments):
                own |= {argument.arg for argument in _arguments(node)}
                kept |= {argument.arg for argument in node.kwonlyargs}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.FunctionDef) or isinstance(node, ast.ExceptHandler) and node.name:
                own.add(node.name)
        own = sorted(own - kept)
        names = {name: f"v{self.random.randint(16**6):06x}_{position}" for position, name in enumerate(own)}
        tree = ast.Module([_Renaming(names).visit(definition)], [])
        namespace = dict(function.__globals__)
        exec(compile(ast.fix_missing_locations(tree), f"<specimen {definition.name}>", "exec"), namespace)
        return namespace[definition.name]


def _is_plain(value) -> bool:
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return value is None or type(value) in (bool, int, float, str)


def _arguments(node):
    every = [*node.posonlyargs, *node.args, node.vararg, node.kwarg]
    return [argument for argument in every if argument is not None]


class _Renaming(ast.NodeTransformer):
    """Renames what a function defines; its docstring goes."""

    def __init__(self, names):
        self.names = names

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_ExceptHandler(self, node):
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        return node

    def visit_Nonlocal(self, node):
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        if ast.get_docstring(node) is not None and len(node.body) > 1:
            node.body = node.body[1:]
        return node
