"""Automatic mutants of an answer: its source with one small thing changed.

`ast` and not a mutation library: those change files on disk and run a test suite for each, know nothing of `detach` or
`zero_`, and cannot say which mutant is which after the line above it has moved.
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

ARITHMETIC = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Div],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.BitXor: [ast.BitAnd],
    ast.LShift: [ast.RShift],
    ast.RShift: [ast.LShift],
}
COMPARISON = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
SIGNS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.And: "and",
    ast.Or: "or",
}
# Calls that hand a value on in another form: the value itself is a mutant.
DROPPED = {
    *("detach", "detach_", "clone", "item", "sum", "mean", "zero_", "contiguous", "tolist", "cpu", "numpy"),
    *(
        "float",
        "double",
        "long",
        "int",
        "bool",
        "abs",
        "neg",
        "sqrt",
        "square",
        "exp",
        "log",
        "relu",
        "sigmoid",
        "tanh",
    ),
    *("squeeze", "unsqueeze", "reshape", "view", "flatten", "t", "transpose", "permute", "requires_grad_", "round"),
    *("to", "type", "copy", "deepcopy", "norm", "clamp", "cumsum", "expand", "list", "tuple", "sorted", "reversed"),
    *("set", "zeros_like", "ones_like", "no_grad", "as_tensor", "retain_grad"),
}
REPLACED = {
    "detach": ["clone"],
    "clone": ["detach"],
    "item": ["detach"],
    "sum": ["mean"],
    "mean": ["sum"],
    "zeros": ["ones"],
    "ones": ["zeros"],
    "zeros_like": ["ones_like"],
    "ones_like": ["zeros_like"],
    "zero_": ["detach"],
    "min": ["max"],
    "max": ["min"],
    "argmin": ["argmax"],
    "argmax": ["argmin"],
    "minimum": ["maximum"],
    "maximum": ["minimum"],
    "any": ["all"],
    "all": ["any"],
    "add": ["sub"],
    "sub": ["add"],
    "mul": ["div"],
    "div": ["mul"],
    "add_": ["sub_"],
    "sub_": ["add_"],
    "mul_": ["div_"],
    "div_": ["mul_"],
    "no_grad": ["enable_grad"],
    "enable_grad": ["no_grad"],
    "inference_mode": ["enable_grad"],
    "train": ["eval"],
    "eval": ["train"],
    "stack": ["cat"],
    "cat": ["stack"],
    "copy_": ["add_"],
}
BUILT_IN = {"sum", "min", "max", "any", "all", "abs", "float", "int", "bool", "round"}
SYMMETRIC = {
    *("min", "max", "add", "mul", "equal", "allclose", "isclose", "dot", "maximum", "minimum", "eq", "ne"),
    *("logical_and", "logical_or", "mse_loss", "l1_loss", "gcd", "hypot", "isinstance"),
}
REDUCTIONS = {"sum": "mean", "mean": "sum", "none": "mean"}
MODULES = {"torch", "F", "nn", "optim", "math", "np", "numpy", "functional", "autograd", "itertools", "copy", "time"}


@dataclass(frozen=True)
class Mutant:
    """One changed program, and where and how it was changed."""

    source: str
    operator: str
    line: int  # in the file that the answer stands in
    text: str  # that line, stripped: it outlives edits above it
    change: str  # "`+` became `-`"
    occurrence: int  # counts mutants that agree in text, operator and change

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.operator, self.text, self.change, self.occurrence)

    @property
    def description(self) -> str:
        return f"line {self.line}: {self.change}"


@dataclass(frozen=True)
class _Change:
    """A place in the tree, what to put there, and the words for it."""

    operator: str
    node: ast.AST
    words: str
    put: Callable[[], Callable[[], None]]  # makes the change and returns what undoes it


def mutants(source: str, first_line: int = 1) -> list[Mutant]:
    """All mutants of one answer, in the order of its lines, each source once and none equal to the answer.

    `source` is the text of the answer (one function or class), `first_line` the number that its first line has in
    the lesson.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    original = ast.unparse(tree)
    seen = {original}
    counts: dict[tuple[str, str, str], int] = {}
    found = []
    changes = sorted(_changes(tree), key=lambda change: (change.node.lineno, change.node.col_offset))
    for change in changes:
        undo = change.put()
        text = ast.unparse(ast.fix_missing_locations(tree))
        undo()
        if text in seen or not _compiles(text):
            continue
        seen.add(text)
        line = lines[change.node.lineno - 1].strip()
        place = (change.operator, line, change.words)
        counts[place] = counts.get(place, 0) + 1
        found.append(
            Mutant(text, change.operator, first_line + change.node.lineno - 1, line, change.words, counts[place])
        )
    return found


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(text, "<mutant>", "exec")
    except (SyntaxError, SyntaxWarning):
        return False
    return True


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for holder, field, index, node in _slots(tree):
        if isinstance(node, ast.expr):
            for operator, words, new in _expressions(node, holder, field):
                yield _Change(operator, node, words, _replacing(holder, field, index, new))
        elif isinstance(node, ast.stmt) and index is not None:
            for operator, words, new in _statements(node, holder, field, index):
                yield _Change(operator, node, words, _replacing(holder, field, index, new))
    for node in ast.walk(tree):
        yield from _in_place(node)


def _slots(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    """Each statement and expression that may change, with the node, field and index that hold it."""
    for field, value in ast.iter_fields(node):
        if _is_fixed(node, field):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_docstring(node, field, index, child):
                continue
            if isinstance(child, ast.expr) and not isinstance(child, ast.Slice | ast.Starred):
                if isinstance(getattr(child, "ctx", ast.Load()), ast.Load):
                    yield node, field, index, child
            elif isinstance(child, ast.stmt):
                yield node, field, index, child
            yield from _slots(child)


def _is_fixed(node: ast.AST, field: str) -> bool:
    """Whether this field is no behaviour: annotations, messages, the inside of formatted text, patterns."""
    return (
        field in ("annotation", "returns", "type_params", "format_spec")
        or (isinstance(node, ast.Assert) and field == "msg")
        or isinstance(node, ast.JoinedStr | ast.Raise)
        or (isinstance(node, ast.match_case) and field == "pattern")
        or (isinstance(node, ast.ExceptHandler) and field == "type")
    )


def _is_docstring(node: ast.AST, field: str, index: int | None, child: ast.AST) -> bool:
    return (
        field == "body"
        and index == 0
        and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and isinstance(child, ast.Expr)
        and isinstance(child.value, ast.Constant)
        and isinstance(child.value.value, str)
    )


def _replacing(holder: ast.AST, field: str, index: int | None, new: ast.AST | list | None) -> Callable:
    """A change of one field, to another node, to several statements, or to nothing."""

    def put() -> Callable[[], None]:
        old = getattr(holder, field)
        if index is None:
            setattr(holder, field, new)
        else:
            instead = [] if new is None else new if isinstance(new, list) else [new]
            setattr(holder, field, [*old[:index], *instead, *old[index + 1 :]])
        return lambda: setattr(holder, field, old)

    return put


def _short(node: ast.AST) -> str:
    """The code of a node as one line that fits into a sentence."""
    first, *rest = ast.unparse(node).splitlines()
    return f"`{first} ...`" if rest or len(first) > 60 else f"`{first}`"


def _became(old: ast.AST, new: ast.AST) -> str:
    return f"{_short(old)} became {_short(new)}"


# --- expressions -----------------------------------------------------------------------------------------------------


def _expressions(node: ast.expr, holder: ast.AST, field: str) -> Iterator[tuple[str, str, ast.expr]]:
    if isinstance(node, ast.BinOp):
        for sign in ARITHMETIC[type(node.op)]:
            words = f"`{SIGNS[type(node.op)]}` became `{SIGNS[sign]}`"
            yield "arithmetic", words, ast.BinOp(node.left, sign(), node.right)
        yield "operand", f"{_short(node)} became {_short(node.left)}", node.left
        yield "operand", f"{_short(node)} became {_short(node.right)}", node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        if not isinstance(node.operand, ast.Constant):
            yield "negation", _became(node, node.operand), node.operand
        elif isinstance(node.op, ast.USub):
            yield "number", _became(node, node.operand), node.operand
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        words = f"`{SIGNS[type(node.op)]}` became `{SIGNS[other]}`"
        yield "boolean", words, ast.BoolOp(other(), node.values)
        for value in node.values:
            rest = [one for one in node.values if one is not value]
            new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield "boolean", f"{_short(value)} was dropped", new
    elif isinstance(node, ast.Compare):
        for at, sign in enumerate(node.ops):
            for other in COMPARISON[type(sign)]:
                words = f"`{SIGNS[type(sign)]}` became `{SIGNS[other]}`"
                ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                yield "comparison", words, ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.Constant):
        yield from _constants(node, holder, field)
    elif isinstance(node, ast.Call):
        yield from _calls(node, holder)
    elif isinstance(node, ast.IfExp):
        yield "condition", _became(node, node.body), node.body
        yield "condition", _became(node, node.orelse), node.orelse
    elif isinstance(node, ast.Tuple) and isinstance(holder, ast.Return | ast.Yield | ast.Subscript | ast.Assign):
        for at in range(len(node.elts) - 1):
            swapped = ast.Tuple(_swapped(node.elts, at), ast.Load())
            yield "swap", _became(node, swapped), swapped
    if field == "iter" and not (isinstance(node, ast.Call) and _name(node) == "range"):
        for shorter in ("[1:]", "[:-1]"):
            new = ast.parse(f"list({ast.unparse(node)}){shorter}", mode="eval").body
            yield "loop", _became(node, new), new
    if _is_condition(holder, field):
        if not isinstance(node, ast.UnaryOp | ast.Constant):
            negated = ast.UnaryOp(ast.Not(), node)
            yield "condition", _became(node, negated), negated
        for value in (True, False):
            yield "condition", _became(node, ast.Constant(value)), ast.Constant(value)


def _is_condition(holder: ast.AST, field: str) -> bool:
    return (field == "test" and isinstance(holder, ast.If | ast.While)) or (
        field == "ifs" and isinstance(holder, ast.comprehension)
    )


def _swapped(items: list, at: int) -> list:
    return [*items[:at], items[at + 1], items[at], *items[at + 2 :]]


def _constants(node: ast.Constant, holder: ast.AST, field: str) -> Iterator[tuple[str, str, ast.expr]]:
    value = node.value
    if value is None:
        # `return` has its own operator, and `is 0` is refused by Python itself.
        if not isinstance(holder, ast.Compare | ast.Return):
            yield "None", "`None` became `0`", ast.Constant(0)
    elif isinstance(value, bool):
        if not _is_condition(holder, field):
            yield "bool", f"`{value}` became `{not value}`", ast.Constant(not value)
    elif isinstance(value, int | float):
        for new in (value + 1, value - 1, type(value)(0)):
            yield "number", f"`{value}` became `{new}`", ast.Constant(new)
    elif isinstance(value, str) and value and not isinstance(holder, ast.Expr):
        new = REDUCTIONS.get(value, "")
        yield "text", f"`{value!r}` became `{new!r}`", ast.Constant(new)


def _name(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def _is_module(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in MODULES) or (
        isinstance(node, ast.Attribute) and node.attr in MODULES and _is_module(node.value)
    )


def _calls(node: ast.Call, holder: ast.AST) -> Iterator[tuple[str, str, ast.expr]]:
    name = _name(node)
    method = isinstance(node.func, ast.Attribute) and not _is_module(node.func.value)
    # A call that is a whole statement is dropped by deleting the statement.
    whole = isinstance(holder, ast.Expr | ast.withitem)
    if name in DROPPED and not whole:
        kept = node.func.value if method else node.args[0] if node.args else None
        if kept is not None and not isinstance(kept, ast.Starred):
            yield "call", _became(node, kept), kept
    if name in REPLACED and not (isinstance(node.func, ast.Name) and name not in BUILT_IN):
        for other in REPLACED[name]:
            if isinstance(node.func, ast.Attribute):
                new = ast.Call(ast.Attribute(node.func.value, other, ast.Load()), node.args, node.keywords)
            elif other in BUILT_IN:
                new = ast.Call(ast.Name(other, ast.Load()), node.args, node.keywords)
            else:
                continue
            yield "call", f"`{name}` became `{other}`", new
    for at in range(len(node.args) - 1):
        pair = node.args[at : at + 2]
        if name not in SYMMETRIC and not any(isinstance(argument, ast.Starred) for argument in pair):
            swapped = ast.Call(node.func, _swapped(node.args, at), node.keywords)
            yield "swap", _became(node, swapped), swapped
    for at, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = [*node.keywords[:at], *node.keywords[at + 1 :]]
            words = f"`{keyword.arg}={ast.unparse(keyword.value)}` was dropped"
            yield "keyword", words, ast.Call(node.func, node.args, rest)
    if name == "range" and isinstance(node.func, ast.Name) and node.args:
        yield from _ranges(node)


def _ranges(node: ast.Call) -> Iterator[tuple[str, str, ast.expr]]:
    def bound(at: int, sign: type) -> ast.Call:
        moved = ast.BinOp(node.args[at], sign(), ast.Constant(1))
        return ast.Call(node.func, [*node.args[:at], moved, *node.args[at + 1 :]], [])

    last = min(len(node.args) - 1, 1)
    wider, narrower = bound(last, ast.Add), bound(last, ast.Sub)
    later = bound(0, ast.Add) if last else ast.Call(node.func, [ast.Constant(1), *node.args], [])
    for new in (wider, narrower, later):
        yield "range", _became(node, new), new


# --- statements ------------------------------------------------------------------------------------------------------


def _statements(
    node: ast.stmt, holder: ast.AST, field: str, index: int
) -> Iterator[tuple[str, str, ast.stmt | list | None]]:
    if isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return", f"{_short(node)} became `return None`", ast.Return(ast.Constant(None))
        if _is_last(node, holder, field, index):
            return
    elif isinstance(node, ast.Break):
        yield "loop", "`break` became `continue`", ast.Continue()
    elif isinstance(node, ast.Continue):
        yield "loop", "`continue` became `break`", ast.Break()
    elif isinstance(node, ast.With | ast.Try):
        yield "block", f"{_short(node)} was taken away from around its body", list(node.body)
    elif isinstance(node, ast.AugAssign):
        for sign in ARITHMETIC[type(node.op)]:
            words = f"`{SIGNS[type(node.op)]}=` became `{SIGNS[sign]}=`"
            yield "arithmetic", words, ast.AugAssign(node.target, sign(), node.value)
        yield "arithmetic", f"`{SIGNS[type(node.op)]}=` became `=`", ast.Assign([node.target], node.value)
    if _is_deletable(node, holder):
        gone = ast.Pass() if len(getattr(holder, field)) == 1 and field != "orelse" else None
        yield "statement", f"{_short(node)} was deleted", gone


def _is_last(node: ast.stmt, holder: ast.AST, field: str, index: int) -> bool:
    return isinstance(holder, ast.FunctionDef) and field == "body" and index == len(holder.body) - 1


def _is_deletable(node: ast.stmt, holder: ast.AST) -> bool:
    """Whether anything but a NameError can come of deleting it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return isinstance(holder, ast.ClassDef)
    # Without its handlers a `try` is its body, which "block" makes.
    return not isinstance(node, ast.ClassDef | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Pass)


def _in_place(node: ast.AST) -> Iterator[_Change]:
    """Changes of something that is neither an expression nor a statement of its own."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        for at, decorator in enumerate(node.decorator_list):
            yield _Change(
                "decorator",
                decorator,
                f"`@{ast.unparse(decorator)}` was dropped",
                _replacing(node, "decorator_list", at, None),
            )
    elif isinstance(node, ast.Slice):
        for field in ("lower", "upper", "step"):
            bound = getattr(node, field)
            if bound is not None:
                new = copy.copy(node)
                setattr(new, field, None)
                words = f"`[{ast.unparse(node)}]` became `[{ast.unparse(new)}]`"
                yield _Change("slice", bound, words, _replacing(node, field, None, None))
    elif isinstance(node, ast.Try) and node.finalbody and not node.handlers:
        words = "what stood in `finally` moved to the end of `try`"
        yield _Change("block", node.finalbody[0], words, _unprotected(node))


def _unprotected(node: ast.Try) -> Callable:
    def put() -> Callable[[], None]:
        body, last = node.body, node.finalbody
        node.body, node.finalbody = [*body, *last], [ast.Pass()]

        def undo() -> None:
            node.body, node.finalbody = body, last

        return undo

    return put
