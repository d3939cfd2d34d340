"""The tree of an answer under change: who holds which node, which names are taken, what may be moved."""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from autograder.kinds import is_one_of, is_tensor, kinds

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
WORDS = ("amount", "current", "entry", "figure", "given", "outcome", "part", "piece", "portion", "quantity", "share")

# Tensor methods that exist as torch functions with the tensor first, and do nothing but compute.
TENSOR_METHODS = {
    *("sum", "mean", "exp", "log", "abs", "sqrt", "square", "clone", "detach", "reshape", "flatten", "squeeze"),
    *("unsqueeze", "transpose", "matmul", "mul", "add", "sub", "div", "neg", "pow", "sin", "cos", "tanh", "sigmoid"),
    *("relu", "clamp", "argmax", "argmin", "dot", "mv", "mm", "cumsum", "prod", "numel", "isfinite", "isnan"),
    *("all", "any", "round", "sign", "t", "eq", "ne", "lt", "le", "gt", "ge", "zeros_like", "ones_like"),
}
ONLY_FUNCTIONS = {"zeros_like", "ones_like"}
PURE_TENSOR_METHODS = (TENSOR_METHODS - ONLY_FUNCTIONS) | {
    *("item", "tolist", "view", "size", "dim", "to", "float", "double", "long", "int", "bool", "norm", "contiguous"),
}
PURE_TORCH = TENSOR_METHODS | {
    "stack",
    "cat",
    "zeros",
    "ones",
    "tensor",
    "full",
    "arange",
    "equal",
    "allclose",
    "where",
}
PURE_ATTRIBUTES = {"grad", "shape", "dtype", "device", "requires_grad", "is_leaf", "grad_fn", "ndim", "T", "data"}
PURE_BUILT_IN = {"len", "float", "int", "bool", "abs", "range", "min", "max", "isinstance", "type"}


@dataclass
class Program:
    """A tree with its lookups; made anew after every change."""

    tree: ast.Module
    random: random.Random
    forbidden: frozenset[str] = frozenset()
    allow: frozenset[str] = frozenset()
    where: dict[ast.AST, tuple[ast.AST, str, int | None]] = field(init=False)
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.where = {}
        self.names = set(dir(builtins))
        for node in ast.walk(self.tree):
            for name in ("id", "arg", "name", "attr", "asname"):
                self.names.add(getattr(node, name, None) or "")
            self.names.update(getattr(node, "names", []) if isinstance(node, ast.Global | ast.Nonlocal) else [])
            for part, value in ast.iter_fields(node):
                for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(child, ast.AST):
                        self.where[child] = (node, part, index)

    # --- looking ---

    def holder(self, node: ast.AST) -> ast.AST:
        return self.where[node][0]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.where:
            node = self.holder(node)
            yield node

    def scope(self, node: ast.AST) -> ast.AST:
        """The nearest function, lambda, comprehension or class around a node, else the module."""
        return next((one for one in self.ancestors(node) if isinstance(one, SCOPES)), self.tree)

    def nodes(self, *types: type) -> Iterator[ast.AST]:
        """Nodes inside functions, outside annotations, decorators, defaults, patterns and formatted text."""
        for node in ast.walk(self.tree):
            if isinstance(node, types) and self._is_behaviour(node):
                yield node

    def _is_behaviour(self, node: ast.AST) -> bool:
        inside = False
        while node in self.where:
            holder, part, _ = self.where[node]
            if part in ("annotation", "returns", "decorator_list", "pattern", "format_spec", "type_params", "bases"):
                return False
            if isinstance(holder, ast.arguments | ast.JoinedStr):
                return False
            inside = inside or (part == "body" and isinstance(holder, FUNCTIONS))
            node = holder
        return inside

    def statements(self, *types: type) -> Iterator[ast.stmt]:
        """Statements of functions (docstrings and declarations of names aside)."""
        for node in self.nodes(*(types or (ast.stmt,))):
            holder, part, index = self.where[node]
            text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            declares = isinstance(node, ast.Global | ast.Nonlocal)
            first = index == 0 and part == "body" and isinstance(holder, FUNCTIONS)
            in_class = isinstance(self.scope(node), ast.ClassDef)
            if index is not None and not (text and first) and not declares and not in_class:
                yield node

    def following(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements after this one in its block."""
        holder, part, index = self.where[statement]
        return getattr(holder, part)[index + 1 :]

    def in_loop(self, node: ast.AST) -> bool:
        for one in self.ancestors(node):
            if isinstance(one, FUNCTIONS):
                return False
            if isinstance(one, ast.For | ast.While):
                return True
        return False

    def nodes_of_functions(self) -> Iterator[ast.FunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS))

    def is_own(self, name: str, function: ast.AST) -> bool:
        """Whether this function alone binds the name, as a parameter or a plain variable; inner scopes may read it."""
        for node in ast.walk(function):
            if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
                return False
            if isinstance(node, ast.ExceptHandler | ast.alias | ast.MatchAs | ast.MatchStar) and name in bound(node):
                return False
            if node is not function and isinstance(node, SCOPES) and name in bound(node):
                return False
        return isinstance(function, FUNCTIONS) and (name in stored(function) or name in parameters(function))

    def is_local(self, name: str, function: ast.AST) -> bool:
        """Whether moreover no inner scope reads it."""
        inner = (node for node in ast.walk(function) if node is not function and isinstance(node, SCOPES))
        return self.is_own(name, function) and not any(name in mentioned(node) for node in inner)

    def uses(self, *names: str) -> bool:
        return bool(self.names & set(names) & mentioned(self.tree))

    def may_call(self, name: str) -> bool:
        """Whether a step may bring in this function of torch."""
        return name not in self.forbidden and "torch" not in bound(self.tree)

    # --- moving ---

    def fresh(self) -> str:
        """A name that nothing in the program has."""
        word = self.random.choice(WORDS)
        name = word
        number = 2
        while name in self.names:
            name, number = f"{word}_{number}", number + 1
        self.names.add(name)
        return name

    def replace(self, old: ast.AST, new: ast.AST) -> None:
        holder, part, index = self.where[old]
        if index is None:
            setattr(holder, part, new)
        else:
            getattr(holder, part)[index] = new

    def splice(self, old: ast.stmt, new: list[ast.stmt]) -> None:
        """Puts statements where one stood."""
        holder, part, index = self.where[old]
        getattr(holder, part)[index : index + 1] = new

    def is_stable(self, node: ast.AST) -> bool:
        """Whether it gives the same object whenever it is read: a constant, a variable of its own, a module's part."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.keyword):
            return self.is_stable(node.value)
        if isinstance(node, ast.Name):
            return not self.uses_declarations()
        if isinstance(node, ast.Attribute):
            method = is_tensor(node.value) and node.attr in PURE_TENSOR_METHODS
            return (is_one_of(node.value, "python module") or method) and self.is_stable(node.value)
        return False

    def uses_declarations(self) -> bool:
        return any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(self.tree))

    def is_pure(self, node: ast.AST) -> bool:
        """Whether it computes from what it reads and changes nothing."""
        children = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr | ast.keyword)]
        if isinstance(node, ast.Constant | ast.Name | ast.Slice | ast.keyword | ast.Tuple | ast.List):
            known = True
        elif isinstance(node, ast.Attribute):
            known = node.attr in PURE_ATTRIBUTES or is_one_of(node.value, "python module")
        elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.IfExp):
            known = all(is_tensor(one) or is_one_of(one, *PLAIN) for one in children)
        elif isinstance(node, ast.Subscript):
            known = is_tensor(node.value) or is_one_of(node.value, "list", "tuple", "dict", "str")
        elif isinstance(node, ast.Call):
            return self._is_pure_call(node)
        else:
            return False
        return known and all(self.is_pure(one) for one in children)

    def _is_pure_call(self, node: ast.Call) -> bool:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and is_tensor(node.func.value):
            known = node.func.attr in PURE_TENSOR_METHODS and self.is_pure(node.func.value)
        elif isinstance(node.func, ast.Attribute):
            known = is_torch(node.func.value) and node.func.attr in PURE_TORCH
        else:
            known = isinstance(node.func, ast.Name) and node.func.id in PURE_BUILT_IN and self.is_built_in(node.func.id)
            known = known and all(is_tensor(one) or is_one_of(one, *PLAIN, "list", "tuple") for one in arguments)
        return known and all(self.is_pure(one) for one in arguments)

    def is_built_in(self, name: str) -> bool:
        return name not in bound(self.tree)

    def moves_ahead(self, node: ast.expr, root: ast.AST) -> bool:
        """Whether `node` could as well be evaluated before anything else in `root`, and is evaluated exactly once."""
        pure = self.is_pure(node)
        while node is not root:
            holder = self.holder(node)
            before = evaluated_before(holder, node)
            if before is None:
                return False
            if not all(self.is_stable(one) or (pure and self.is_pure(one)) for one in before):
                return False
            node = holder
        return True


PLAIN = ("int", "float", "bool", "str", "NoneType", "dtype", "device", "Size", "nan")


def is_torch(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "torch" and is_one_of(node, "python module")


def evaluated_before(holder: ast.AST, node: ast.AST) -> list[ast.AST] | None:
    """What `holder` evaluates before its part `node`; None where it may evaluate that never, or more than once."""
    if isinstance(holder, ast.Call):
        order = [holder.func, *holder.args, *holder.keywords]
    elif isinstance(holder, ast.BinOp):
        order = [holder.left, holder.right]
    elif isinstance(holder, ast.Compare):
        order = [holder.left, holder.comparators[0]]
    elif isinstance(holder, ast.BoolOp):
        order = [holder.values[0]]
    elif isinstance(holder, ast.IfExp):
        order = [holder.test]
    elif isinstance(holder, ast.Tuple | ast.List | ast.Set):
        order = list(holder.elts)
    elif isinstance(holder, ast.Subscript):
        order = [holder.value, holder.slice]
    elif isinstance(holder, ast.UnaryOp):
        order = [holder.operand]
    elif isinstance(holder, ast.Attribute | ast.keyword):
        order = [holder.value]
    else:
        return None
    found = next((at for at, one in enumerate(order) if one is node), None)
    return None if found is None else order[:found]


def mentioned(*nodes: ast.AST) -> set[str]:
    """Names that are read, bound or deleted anywhere inside."""
    found = set()
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                found.add(one.id)
            elif isinstance(one, ast.Global | ast.Nonlocal):
                found.update(one.names)
    return found | bound(*nodes)


def bound(*nodes: ast.AST) -> set[str]:
    """Names that anything inside binds."""
    found = set()
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
                found.add(one.id)
            elif isinstance(one, ast.arg):
                found.add(one.arg)
            elif isinstance(one, (*FUNCTIONS, ast.ClassDef)):
                found.add(one.name)
            elif isinstance(one, ast.alias):
                found.add((one.asname or one.name).split(".")[0])
            elif isinstance(one, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and one.name:
                found.add(one.name)
    return found


def stored(function: ast.AST) -> set[str]:
    """Names that a plain assignment, loop or `with` inside binds (inner scopes included)."""
    return {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}


def parameters(function: ast.AST) -> set[str]:
    """Names of the parameters of a function or lambda; none for anything else."""
    if not isinstance(function, (*FUNCTIONS, ast.Lambda)):
        return set()
    return {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}


def contains(node: ast.AST | list, *types: type) -> bool:
    return any(
        isinstance(one, types) for root in (node if isinstance(node, list) else [node]) for one in ast.walk(root)
    )


def ends(block: list[ast.stmt]) -> bool:
    """Whether nothing after this block is reached through it."""
    last = block[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and ends(last.body) and ends(last.orelse)
    return isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break)


def leaves_loop(block: list[ast.stmt]) -> bool:
    """Whether a `break` or `continue` in the block belongs to a loop around it."""
    for statement in block:
        if isinstance(statement, ast.Break | ast.Continue):
            return True
        if isinstance(statement, ast.For | ast.While | ast.AsyncFor):
            inner = statement.orelse
        elif isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            inner = []
        else:
            inner = [one for part in ("body", "orelse", "finalbody") for one in getattr(statement, part, [])]
            inner += [one for handler in getattr(statement, "handlers", []) for one in handler.body]
            inner += [one for case in getattr(statement, "cases", []) for one in case.body]
        if leaves_loop(inner):
            return True
    return False


def like(new: ast.expr, old: ast.AST) -> ast.expr:
    """The new node with the kinds of the one it replaces."""
    if kinds(old):
        new.kinds = kinds(old)
    return new


def read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def call(function: str | ast.expr, *arguments: ast.expr, **keywords: ast.expr) -> ast.Call:
    func = read(function) if isinstance(function, str) else function
    return ast.Call(func, list(arguments), [ast.keyword(name, value) for name, value in keywords.items()])


def negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)
