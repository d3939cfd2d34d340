"""What kinds of value the expressions of an answer had while its cases ran.

`x += y` means one thing for a float and another for a tensor, and the text does not say which it is. So the answer is
run once with every expression noted, and the notes stay on the nodes of its tree, as `node.kinds`.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable
from typing import Any

import torch

NOTE = "_note_kind"


def annotated(source: str, run: Callable[[str, dict[str, Any]], None] | None = None) -> ast.Module:
    """The tree of an answer whose expressions know their kinds.

    `run` receives the answer's text with notes in it, and the names that this text needs beside those of the lesson;
    it calls the program as the cases do. Without it only constants have kinds.
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    noted: dict[int, set[str]] = {}

    def note(number: int, value: Any) -> Any:
        noted.setdefault(number, set()).add(kind(value))
        return value

    if run is not None:
        instrumented = copy.deepcopy(tree)
        numbers = {node: number for number, node in enumerate(ast.walk(instrumented))}
        text = ast.unparse(ast.fix_missing_locations(_Notes(numbers).visit(instrumented)))
        run(text, {NOTE: note})
    for number, node in enumerate(nodes):
        if number in noted:
            node.kinds = frozenset(noted[number])
        elif isinstance(node, ast.Constant):
            node.kinds = frozenset([kind(node.value)])
    return tree


def kind(value: Any) -> str:
    """The kind of one value in words that the tests below understand."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        number = "floating" if value.is_floating_point() else "boolean" if value.dtype == torch.bool else "integral"
        return f"tensor {number}{' tracked' if value.requires_grad else ''}"
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, types.ModuleType):
        return "python module"
    if isinstance(value, torch.optim.Optimizer) and type(value).__module__.startswith("torch."):
        return "optimizer"
    if isinstance(value, torch.nn.Module) and type(value).zero_grad is torch.nn.Module.zero_grad:
        return "module"
    return type(value).__name__


def kinds(node: ast.AST) -> frozenset[str]:
    """The kinds a node was seen with; none where it never ran."""
    return getattr(node, "kinds", frozenset())


def is_tensor(node: ast.AST, *words: str) -> bool:
    """Whether it was always a tensor, and one that all the words fit ("floating")."""
    return bool(kinds(node)) and all(
        one.split()[0] == "tensor" and set(words) <= set(one.split()) for one in kinds(node)
    )


def is_untracked(node: ast.AST) -> bool:
    """Whether it was always a tensor that does not require a gradient."""
    return is_tensor(node) and not any("tracked" in one.split() for one in kinds(node))


def is_one_of(node: ast.AST, *allowed: str) -> bool:
    """Whether it was always of one of these kinds."""
    return bool(kinds(node)) and kinds(node) <= set(allowed)


def is_number(node: ast.AST) -> bool:
    """Whether it was always a Python number, and never NaN."""
    return is_one_of(node, "int", "float", "bool")


class _Notes(ast.NodeTransformer):
    """Puts a note around every expression that is read."""

    def __init__(self, numbers: dict[ast.AST, int]) -> None:
        self.numbers = numbers

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        if isinstance(node, ast.JoinedStr | ast.pattern | ast.Constant):
            return node
        number = self.numbers[node]
        if isinstance(node, ast.Call):
            # What is called is no value of interest, and `super` must stay itself.
            if isinstance(node.func, ast.Attribute):
                node.func.value = self.visit(node.func.value)
            elif not isinstance(node.func, ast.Name):
                node.func = self.visit(node.func)
            node.args = [self.visit(argument) for argument in node.args]
            for keyword in node.keywords:
                keyword.value = self.visit(keyword.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [one for statement in node.body for one in _listed(self.visit(statement))]
            return node
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                node.value = self.visit(node.value)
            return node
        else:
            self.generic_visit(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            before = _noted(self.numbers[node.target], ast.Name(node.target.id, ast.Load()))
            return [ast.Expr(before), node]
        reads = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if isinstance(node, ast.expr) and reads and not isinstance(node, ast.Starred | ast.Slice) and not _slices(node):
            return _noted(number, node)
        return node


def _slices(node: ast.AST) -> bool:
    """Whether a node is an index such as `:, None`, which is a value only between brackets."""
    return isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts)


def _listed(node: ast.AST | list[ast.AST]) -> list[ast.AST]:
    return node if isinstance(node, list) else [node]


def _noted(number: int, node: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(number), node], [])
