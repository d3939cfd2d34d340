"""Small changes of a program's text that leave what it does as it was.

A step yields its sites: functions that make the change at one place. It yields only where the change is safe for
values, aliasing, graph and in-place effects, given the kinds of value that were seen (`kinds.py`). Two steps need the
exercise's permission, in `Program.allow`: "clone" and "in-place".
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator
from functools import partial

from autograder.kinds import is_number, is_one_of, is_tensor, is_untracked, kinds
from autograder.program_text import (
    FUNCTIONS,
    ONLY_FUNCTIONS,
    SCOPES,
    TENSOR_METHODS,
    Program,
    assign,
    bound,
    call,
    contains,
    ends,
    evaluated_before,
    is_torch,
    leaves_loop,
    like,
    mentioned,
    negated,
    parameters,
    read,
    stored,
)

Site = Callable[[], None]
Step = Callable[[Program], Iterator[Site]]
STEPS: dict[str, Step] = {}

OPERATOR_METHODS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
IN_PLACE_METHODS = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
OPPOSITES = {ast.Is: ast.IsNot, ast.In: ast.NotIn, ast.IsNot: ast.Is, ast.NotIn: ast.In}
OPPOSITE_ORDER = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
MIRRORED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
COMPUTED = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
PARAMETER_NAMES = {
    "sum": ("input", "dim"),
    "mean": ("input", "dim"),
    "stack": ("tensors", "dim"),
    "cat": ("tensors", "dim"),
    "squeeze": ("input", "dim"),
    "unsqueeze": ("input", "dim"),
    "grad": ("outputs", "inputs", "grad_outputs"),
}


def step(name: str) -> Callable[[Step], Step]:
    def register(function: Step) -> Step:
        STEPS[name] = function
        return function

    return register


# --- names and variables ---------------------------------------------------------------------------------------------


@step("local name")
def local_name(program: Program) -> Iterator[Site]:
    for function in program.nodes_of_functions():
        for name in sorted(stored(function) - parameters(function)):
            if program.is_own(name, function):
                yield partial(_rename, program, function, name)


def _rename(program: Program, function: ast.AST, name: str) -> None:
    new = program.fresh()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = new


@step("second name for a parameter")
def alias(program: Program) -> Iterator[Site]:
    for function in program.nodes_of_functions():
        for name in sorted(parameters(function) - stored(function)):
            if program.is_own(name, function):
                yield partial(_alias, program, function, name)


def _alias(program: Program, function: ast.FunctionDef, name: str) -> None:
    new = program.fresh()
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                node.id = new
    function.body.insert(_after_docstring(function), assign(new, read(name)))


def _after_docstring(function: ast.FunctionDef) -> int:
    return int(ast.get_docstring(function, clean=False) is not None)


@step("intermediate variable")
def intermediate(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign, ast.AugAssign, ast.Return, ast.Expr, ast.If, ast.For, ast.With):
        compound = isinstance(statement, ast.If | ast.For | ast.With)
        if compound and program.in_loop(statement):
            continue
        if isinstance(statement, ast.AugAssign) and not isinstance(statement.target, ast.Name):
            continue
        root = _first_expression(statement)
        if root is None or (isinstance(statement, ast.AugAssign) and not program.is_stable(read(statement.target.id))):
            continue
        for node in _expressions(root):
            # A variable would keep a generator open that the loop closes when it is left.
            closes = isinstance(statement, ast.For) and node is root and not is_one_of(root, "list", "tuple", "range")
            dropped = isinstance(statement, ast.Expr) and node is root
            if program.moves_ahead(node, root) and not closes and not dropped:
                yield partial(_extract, program, statement, node)


def _first_expression(statement: ast.stmt) -> ast.expr | None:
    if isinstance(statement, ast.If):
        return statement.test
    if isinstance(statement, ast.For):
        return statement.iter
    if isinstance(statement, ast.With):
        return statement.items[0].context_expr
    return statement.value


def _expressions(root: ast.expr) -> Iterator[ast.expr]:
    """Expressions inside `root` that a variable can stand for."""
    for node in ast.walk(root):
        plain = isinstance(
            node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.Call | ast.Subscript | ast.Attribute
        )
        once = not contains(node, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
        if plain and once and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield node


def _extract(program: Program, statement: ast.stmt, node: ast.expr) -> None:
    # Inside a loop the temporary is given up as early as before, so that no step holds the graph of the one before.
    brief = program.in_loop(statement) and not isinstance(statement, ast.Return)
    name = program.fresh()
    program.replace(node, like(read(name), node))
    after = [ast.Delete([ast.Name(name, ast.Del())])] if brief else []
    program.splice(statement, [assign(name, node), statement, *after])


@step("variable used where it stood")
def inlined(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign):
        target, rest = statement.targets[0], program.following(statement)
        if len(statement.targets) > 1 or not isinstance(target, ast.Name) or not rest:
            continue
        function = program.scope(statement)
        uses = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == target.id]
        if len(uses) != 2 or not program.is_local(target.id, function):
            continue
        use, after = next(one for one in uses if one is not target), rest[0]
        simple = isinstance(after, ast.Assign | ast.Return | ast.Expr)
        if simple and after.value is not None and after in program.ancestors(use) and isinstance(use.ctx, ast.Load):
            in_value = use is after.value or after.value in program.ancestors(use)
            if in_value and program.moves_ahead(use, after.value):
                before_is_pure = _nothing_before(program, use, after.value) or program.is_pure(statement.value)
                if before_is_pure:
                    yield partial(_inline, program, statement, use)


def _nothing_before(program: Program, node: ast.expr, root: ast.expr) -> bool:
    """Whether all that `root` evaluates before `node` is stable."""
    while node is not root:
        holder = program.holder(node)
        if not all(program.is_stable(one) for one in evaluated_before(holder, node) or []):
            return False
        node = holder
    return True


def _inline(program: Program, statement: ast.Assign, use: ast.Name) -> None:
    program.replace(use, statement.value)
    program.splice(statement, [])


# --- forms of an operation -------------------------------------------------------------------------------------------


@step("method as function")
def method_as_function(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        method = node.func
        if not isinstance(method, ast.Attribute) or not is_tensor(method.value) or not _few(node):
            continue
        varied = method.attr == "reshape" and not (node.args and isinstance(node.args[0], ast.Tuple))
        known = method.attr in TENSOR_METHODS - ONLY_FUNCTIONS and program.may_call(f"torch.{method.attr}")
        if known and not varied:
            new = _torch_call(method.attr, [method.value, *node.args], node)
            new.keywords = node.keywords
            yield partial(program.replace, node, new)


def _few(node: ast.Call) -> bool:
    """Whether the arguments mean the same to the method and to the function: at most one without a name."""
    return len(node.args) <= 1 and not contains(node.args, ast.Starred) and all(one.arg for one in node.keywords)


def _torch_call(name: str, arguments: list[ast.expr], old: ast.expr) -> ast.expr:
    torch = read("torch")
    torch.kinds = frozenset(["python module"])
    return like(call(ast.Attribute(torch, name, ast.Load()), *arguments), old)


@step("function as method")
def function_as_method(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        function, keywords = node.func, {one.arg for one in node.keywords}
        if not isinstance(function, ast.Attribute) or not is_torch(function.value) or contains(node.args, ast.Starred):
            continue
        known = function.attr in TENSOR_METHODS - ONLY_FUNCTIONS and not keywords & {"out", None}
        if known and node.args and is_tensor(node.args[0]):
            new = call(ast.Attribute(node.args[0], function.attr, ast.Load()), *node.args[1:])
            new.keywords = node.keywords
            yield partial(program.replace, node, like(new, node))


@step("method of the class")
def method_of_the_class(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        method = node.func
        if isinstance(method, ast.Attribute) and is_tensor(method.value):
            torch = read("torch")
            torch.kinds = frozenset(["python module"])
            owner = ast.Attribute(ast.Attribute(torch, "Tensor", ast.Load()), method.attr, ast.Load())
            new = ast.Call(owner, [method.value, *node.args], node.keywords)
            if program.may_call(f"torch.Tensor.{method.attr}"):
                yield partial(program.replace, node, like(new, node))


@step("operator as function")
def operator_as_function(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.BinOp):
        name = OPERATOR_METHODS.get(type(node.op))
        if name and is_tensor(node.left) and (is_tensor(node.right) or is_number(node.right)):
            function = _torch_call(name, [node.left, node.right], node)
            method = like(call(ast.Attribute(node.left, name, ast.Load()), node.right), node)
            yield from (partial(program.replace, node, new) for new in (function, method))
            if name == "pow" and isinstance(node.right, ast.Constant) and node.right.value == 2:
                yield partial(program.replace, node, _torch_call("square", [node.left], node))
        elif name == "mul" and is_number(node.left) and is_tensor(node.right) and _swappable(program, node):
            yield partial(program.replace, node, _torch_call(name, [node.right, node.left], node))
    for node in program.nodes(ast.UnaryOp):
        if isinstance(node.op, ast.USub) and is_tensor(node.operand):
            yield partial(program.replace, node, _torch_call("neg", [node.operand], node))


def _swappable(program: Program, node: ast.BinOp | ast.Compare) -> bool:
    """Whether the operands may be evaluated the other way round."""
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.left, node.comparators[0])
    return (
        (program.is_pure(left) and program.is_pure(right))
        or isinstance(left, ast.Constant)
        or isinstance(right, ast.Constant)
    )


@step("function as operator")
def function_as_operator(program: Program) -> Iterator[Site]:
    operators = {name: sign for sign, name in OPERATOR_METHODS.items()}
    for node in program.nodes(ast.Call):
        if not isinstance(node.func, ast.Attribute) or node.keywords or contains(node.args, ast.Starred):
            continue
        method = is_tensor(node.func.value)
        operands = [node.func.value, *node.args] if method else node.args if is_torch(node.func.value) else []
        if len(operands) == 2 and node.func.attr in operators and is_tensor(operands[0]):
            if is_tensor(operands[1]) or is_number(operands[1]):
                new = ast.BinOp(operands[0], operators[node.func.attr](), operands[1])
                yield partial(program.replace, node, like(new, node))
        elif len(operands) == 1 and node.func.attr == "square" and is_tensor(operands[0], "floating"):
            new = ast.BinOp(operands[0], ast.Pow(), ast.Constant(2))
            new.right.kinds = frozenset(["int"])
            yield partial(program.replace, node, like(new, node))


@step("commuted operands")
def commuted(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.BinOp):
        if not isinstance(node.op, ast.Add | ast.Mult) or not _swappable(program, node):
            continue
        numbers = is_number(node.left) and is_number(node.right)
        # The graph lists its inputs in order, so that only tensors outside of it commute.
        tensors = is_untracked(node) and is_untracked(node.left) and is_untracked(node.right)
        mixed = (is_tensor(node.left) and is_number(node.right)) or (is_number(node.left) and is_tensor(node.right))
        if numbers or tensors or mixed:
            new = ast.BinOp(node.right, node.op, node.left)
            yield partial(program.replace, node, like(new, node))


@step("mirrored comparison")
def mirrored(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Compare):
        one = len(node.ops) == 1 and type(node.ops[0]) in MIRRORED
        if one and _swappable(program, node) and is_number(node.left) and is_number(node.comparators[0]):
            new = ast.Compare(node.comparators[0], [MIRRORED[type(node.ops[0])]()], [node.left])
            yield partial(program.replace, node, like(new, node))


@step("comparison turned round")
def turned_round(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Compare):
        sign = type(node.ops[0])
        if len(node.ops) > 1:
            continue
        numbers = is_number(node.left) and is_number(node.comparators[0])
        other = OPPOSITES.get(sign) or (OPPOSITE_ORDER.get(sign) if numbers else None)
        if other:
            yield partial(program.replace, node, negated(ast.Compare(node.left, [other()], node.comparators)))


@step("constant as a computation")
def constant_computed(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Constant):
        holder = program.holder(node)
        if isinstance(holder, ast.Expr):
            continue
        if isinstance(node.value, bool):
            new = negated(ast.Constant(not node.value))
        elif isinstance(node.value, int):
            new = ast.BinOp(ast.Constant(node.value - 1), ast.Add(), ast.Constant(1))
        elif isinstance(node.value, float) and node.value * 2 / 2 == node.value:
            new = ast.BinOp(ast.Constant(node.value * 2), ast.Div(), ast.Constant(2))
        else:
            continue
        yield partial(program.replace, node, like(new, node))


@step("constant computed here")
def constant_folded(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.BinOp):
        constants = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
        if constants and type(node.op) in COMPUTED and is_number(node.left) and is_number(node.right):
            value = COMPUTED[type(node.op)](node.left.value, node.right.value)
            # A negative number is no constant in the grammar.
            if value >= 0:
                yield partial(program.replace, node, like(ast.Constant(value), node))


@step("assignment with operator")
def augmented(program: Program) -> Iterator[Site]:
    plain = ("int", "float", "bool", "str", "tuple")
    for node in program.statements(ast.AugAssign):
        if isinstance(node.target, ast.Name) and is_one_of(node.target, *plain):
            left = like(read(node.target.id), node.target)
            target = like(ast.Name(node.target.id, ast.Store()), node.target)
            value = like(ast.BinOp(left, node.op, node.value), left)
            yield partial(program.splice, node, [ast.Assign([target], value)])
    for node in program.statements(ast.Assign):
        target, value = node.targets[0], node.value
        if len(node.targets) > 1 or not isinstance(target, ast.Name) or not isinstance(value, ast.BinOp):
            continue
        if isinstance(value.left, ast.Name) and value.left.id == target.id and is_one_of(value.left, *plain):
            new = ast.AugAssign(like(ast.Name(target.id, ast.Store()), value.left), value.op, value.right)
            yield partial(program.splice, node, [new])


@step("attribute by name")
def attribute_by_name(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Attribute):
        called = isinstance(program.holder(node), ast.Call) and program.holder(node).func is node
        of_module = is_one_of(node.value, "python module")
        if isinstance(node.ctx, ast.Load) and not called and not of_module and not node.attr.startswith("__"):
            yield partial(program.replace, node, like(call("getattr", node.value, ast.Constant(node.attr)), node))
    for node in program.statements(ast.Assign):
        target = node.targets[0]
        simple = len(node.targets) == 1 and isinstance(target, ast.Attribute) and not target.attr.startswith("__")
        # `setattr` reads the object first, the assignment the value first.
        if simple and isinstance(target.value, ast.Name) and program.is_stable(target.value):
            new = ast.Expr(call("setattr", target.value, ast.Constant(target.attr), node.value))
            yield partial(program.splice, node, [new])


# --- calls -----------------------------------------------------------------------------------------------------------


@step("keyword argument")
def keyword_argument(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        if not node.args or contains(node.args, ast.Starred):
            continue
        names = _parameter_names(program, node)
        if len(names) >= len(node.args) and all(one.arg for one in node.keywords):
            yield partial(_name_last_argument, node, names[len(node.args) - 1])


def _parameter_names(program: Program, node: ast.Call) -> list[str]:
    if isinstance(node.func, ast.Attribute):
        names = list(PARAMETER_NAMES.get(node.func.attr, ()))
        if is_tensor(node.func.value):
            return names[1:]
        autograd = node.func.attr == "grad" and ast.unparse(node.func.value) == "torch.autograd"
        # A lone tensor stays in its place, where `torch.sum(x)` is what people write.
        return names if autograd or (is_torch(node.func.value) and node.func.attr != "grad") else []
    if isinstance(node.func, ast.Name):
        around = list(program.ancestors(node))
        found = [one for one in program.nodes_of_functions() if one.name == node.func.id]
        # An inner function that is plainly visible here, and the only thing of this name.
        plain = len(found) == 1 and not found[0].decorator_list and not found[0].args.posonlyargs
        visible = plain and program.scope(found[0]) in around and isinstance(program.scope(found[0]), FUNCTIONS)
        if visible and not _is_variable(program, node.func.id):
            return [one.arg for one in found[0].args.args]
    return []


def _is_variable(program: Program, name: str) -> bool:
    return name in stored(program.tree) or any(name in parameters(one) for one in ast.walk(program.tree))


def _name_last_argument(node: ast.Call, name: str) -> None:
    node.keywords.insert(0, ast.keyword(name, node.args.pop()))


@step("keywords from a dict")
def keywords_from_a_dict(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        if node.keywords and all(one.arg for one in node.keywords):
            names, values = [ast.Constant(one.arg) for one in node.keywords], [one.value for one in node.keywords]
            new = ast.Call(node.func, node.args, [ast.keyword(None, ast.Dict(names, values))])
            yield partial(program.replace, node, like(new, node))


@step("arguments from a list")
def arguments_from_a_list(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        if node.args and not contains(node.args, ast.Starred, ast.GeneratorExp):
            for display in (ast.List, ast.Tuple):
                starred = ast.Starred(display(node.args, ast.Load()), ast.Load())
                yield partial(program.replace, node, like(ast.Call(node.func, [starred], node.keywords), node))


@step("default stated")
def default_stated(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        for name, value in _defaults(program, node):
            if all(one.arg and one.arg != name for one in node.keywords):
                yield partial(node.keywords.append, ast.keyword(name, ast.Constant(value)))


def _defaults(program: Program, node: ast.Call) -> list[tuple[str, object]]:
    if isinstance(node.func, ast.Name):
        known = {"enumerate": [("start", 0)], "sum": [("start", 0)], "zip": [("strict", False)]}
        one = len(node.args) == 1 or node.func.id == "zip"
        return known.get(node.func.id, []) if one and program.is_built_in(node.func.id) else []
    if not isinstance(node.func, ast.Attribute) or contains(node.args, ast.Starred):
        return []
    if node.func.attr == "zero_grad" and not node.args and is_one_of(node.func.value, "optimizer", "module"):
        return [("set_to_none", True)]
    if node.func.attr == "backward" and not node.args and is_tensor(node.func.value):
        return [("retain_graph", False), ("gradient", None), ("create_graph", False)]
    if node.func.attr in ("stack", "cat") and len(node.args) == 1 and is_torch(node.func.value):
        return [("dim", 0)]
    return []


@step("list grown another way")
def grown(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Expr):
        node = statement.value
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
            continue
        owner, item = node.func.value, node.args[0]
        if node.func.attr != "append" or not isinstance(owner, ast.Name) or not is_one_of(owner, "list"):
            continue
        one = ast.List([item], ast.Load())
        yield partial(program.replace, node, call(ast.Attribute(owner, "extend", ast.Load()), one))
        if program.is_own(owner.id, program.scope(statement)):
            target = ast.Name(owner.id, ast.Store())
            target.kinds = frozenset(["list"])
            yield partial(program.splice, statement, [ast.AugAssign(target, ast.Add(), one)])


@step("display as call")
def display_as_call(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.List, ast.Dict, ast.ListComp):
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        empty = not (node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [node]))
        name = "dict" if isinstance(node, ast.Dict) else "list"
        if not program.is_built_in(name):
            continue
        if empty:
            yield partial(program.replace, node, like(call(name), node))
        elif isinstance(node, ast.ListComp):
            yield partial(program.replace, node, like(call(name, ast.GeneratorExp(node.elt, node.generators)), node))
        elif isinstance(node, ast.List):
            yield partial(program.replace, node, like(call(name, ast.Tuple(node.elts, ast.Load())), node))


@step("wrapped and unwrapped")
def wrapped_value(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign, ast.Return):
        if statement.value is not None and not contains(statement.value, ast.Yield, ast.YieldFrom, ast.NamedExpr):
            single = ast.Tuple([statement.value], ast.Load())
            new = like(ast.Subscript(single, ast.Constant(0), ast.Load()), statement.value)
            new.value.kinds, new.slice.kinds = frozenset(["tuple"]), frozenset(["int"])
            yield partial(program.replace, statement.value, new)


@step("lambda called at once")
def thunk(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign, ast.Return, ast.Expr):
        root = statement.value
        if root is None or program.uses("super", "__class__", "locals", "eval", "exec"):
            continue
        for node in _expressions(root):
            if program.scope(node) is program.scope(statement):
                yield partial(program.replace, node, like(call(ast.Lambda(_no_arguments(), node)), node))


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


# --- loops -----------------------------------------------------------------------------------------------------------


@step("loop as comprehension")
def loop_as_comprehension(program: Program) -> Iterator[Site]:
    for start in program.statements(ast.Assign):
        rest = program.following(start)
        if not rest or not isinstance(rest[0], ast.For) or rest[0].orelse or len(start.targets) > 1:
            continue
        target, loop, function = start.targets[0], rest[0], program.scope(start)
        if not isinstance(target, ast.Name) or not isinstance(start.value, ast.List) or start.value.elts:
            continue
        if not program.is_local(target.id, function):
            continue
        tests, body = [], loop.body
        while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
            tests, body = [*tests, body[0].test], body[0].body
        item = _appended(body, target.id)
        if item is None or target.id in mentioned(item, loop.iter, *tests) or contains(function, ast.Try):
            continue
        if contains([item, *tests], ast.Lambda, ast.NamedExpr, ast.Yield, ast.Await) or program.uses("super", "locals"):
            continue
        loop_names = mentioned(loop.target)
        inside = sum(name in loop_names for name in _name_list(loop))
        everywhere = sum(name in loop_names for name in _name_list(function))
        if inside == everywhere and all(program.is_local(name, function) for name in loop_names):
            comprehension = ast.ListComp(item, [ast.comprehension(loop.target, loop.iter, tests, 0)])
            comprehension.kinds = frozenset(["list"])
            yield partial(_two_into_one, program, start, loop, ast.Assign([target], comprehension))


def _appended(body: list[ast.stmt], name: str) -> ast.expr | None:
    if len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
        return None
    made = body[0].value
    if ast.unparse(made.func) != f"{name}.append" or len(made.args) != 1 or made.keywords:
        return None
    return None if isinstance(made.args[0], ast.Starred) else made.args[0]


def _name_list(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def _two_into_one(program: Program, first: ast.stmt, second: ast.stmt, new: ast.stmt) -> None:
    holder, part, index = program.where[first]
    getattr(holder, part)[index : index + 2] = [new]


@step("comprehension as loop")
def comprehension_as_loop(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign, ast.Return):
        made = statement.value
        if not isinstance(made, ast.ListComp):
            continue
        generators = made.generators
        targets = set().union(*(stored(one.target) for one in generators))
        inner = [made.elt, *(part for one in generators for part in (one.iter, *one.ifs))]
        # In the first iterable a target's name is another variable.
        plain = not contains(inner, *SCOPES, ast.NamedExpr) and not targets & mentioned(generators[0].iter)
        if plain and not any(one.is_async for one in generators):
            yield partial(_loop, program, statement, made)


def _loop(program: Program, statement: ast.Assign | ast.Return, made: ast.ListComp) -> None:
    result = program.fresh()
    for name in sorted(set().union(*(stored(generator.target) for generator in made.generators))):
        _rename(program, made, name)
    owner = read(result)
    owner.kinds = frozenset(["list"])
    body: list[ast.stmt] = [ast.Expr(call(ast.Attribute(owner, "append", ast.Load()), made.elt))]
    for generator in reversed(made.generators):
        for test in reversed(generator.ifs):
            body = [ast.If(test, body, [])]
        body = [ast.For(generator.target, generator.iter, body, [])]
    empty = ast.List([], ast.Load())
    result_read = read(result)
    result_read.kinds = frozenset(["list"])
    program.replace(made, result_read)
    program.splice(statement, [assign(result, empty), *body, statement])


@step("range spelt out")
def range_spelt_out(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id != "range" or not program.is_built_in("range"):
            continue
        if contains(node.args, ast.Starred):
            continue
        if len(node.args) == 1:
            yield partial(node.args.insert, 0, _integer(0))
        elif len(node.args) == 2:
            yield partial(node.args.append, _integer(1))
            if isinstance(node.args[0], ast.Constant) and node.args[0].value == 0:
                yield partial(node.args.pop, 0)


def _integer(value: int) -> ast.Constant:
    new = ast.Constant(value)
    new.kinds = frozenset(["int"])
    return new


@step("loop over a range as while")
def range_as_while(program: Program) -> Iterator[Site]:
    for loop in program.statements(ast.For):
        made = loop.iter
        ranged = isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "range"
        counted = ranged and len(made.args) <= 2 and all(is_one_of(one, "int") for one in made.args)
        if counted and program.is_built_in("range") and not loop.orelse:
            yield partial(_while, program, loop, made)


def _while(program: Program, loop: ast.For, made: ast.Call) -> None:
    counter, stop = program.fresh(), program.fresh()
    counted, limit = read(counter), read(stop)
    counted.kinds = limit.kinds = frozenset(["int"])
    first = made.args[0] if len(made.args) == 2 else _integer(0)
    step = ast.AugAssign(ast.Name(counter, ast.Store()), ast.Add(), _integer(1))
    step.target.kinds = frozenset(["int"])
    taken = ast.Assign([loop.target], counted)
    test = ast.Compare(copy.copy(counted), [ast.Lt()], [limit])
    body = [taken, step, *loop.body]
    program.splice(loop, [assign(counter, first), assign(stop, made.args[-1]), ast.While(test, body, [])])


@step("loop over an iterator")
def loop_over_an_iterator(program: Program) -> Iterator[Site]:
    for loop in program.statements(ast.For):
        _, target, items = loop, loop.target, loop.iter
        if program.is_built_in("enumerate"):
            pair = ast.Tuple([ast.Name(program.fresh(), ast.Store()), target], ast.Store())
            yield partial(_loop_over, loop, pair, call("enumerate", items))
        if program.is_built_in("zip"):
            yield partial(_loop_over, loop, ast.Tuple([target], ast.Store()), call("zip", items))
        if program.is_built_in("iter"):
            yield partial(_loop_over, loop, target, call("iter", items))
        if is_one_of(items, "tuple", "range") and program.is_built_in("list"):
            yield partial(_loop_over, loop, target, call("list", items))


def _loop_over(loop: ast.For, target: ast.expr, items: ast.expr) -> None:
    loop.target, loop.iter = target, items


@step("loop target unpacked inside")
def unpacked_inside(program: Program) -> Iterator[Site]:
    for loop in program.statements(ast.For):
        if isinstance(loop.target, ast.Tuple) and not contains(loop.body, ast.Delete):
            yield partial(_unpack, program, loop)


def _unpack(program: Program, loop: ast.For) -> None:
    name = program.fresh()
    loop.body.insert(0, ast.Assign([loop.target], read(name)))
    loop.target = ast.Name(name, ast.Store())


@step("loop by hand")
def loop_by_hand(program: Program) -> Iterator[Site]:
    for loop in program.statements(ast.For):
        if not loop.orelse and is_one_of(loop.iter, "list", "tuple", "range") and program.is_built_in("next"):
            yield partial(_next, program, loop)


def _next(program: Program, loop: ast.For) -> None:
    items = program.fresh()
    taken = ast.Assign([loop.target], call("next", read(items)))
    done = ast.ExceptHandler(read("StopIteration"), None, [ast.Break()])
    body = [ast.Try([taken], [done], [], []), *loop.body]
    program.splice(loop, [assign(items, call("iter", loop.iter)), ast.While(ast.Constant(True), body, [])])


@step("condition inside the loop")
def condition_inside(program: Program) -> Iterator[Site]:
    for loop in program.statements(ast.While):
        if not loop.orelse and not isinstance(loop.test, ast.Constant):
            body = [ast.If(negated(loop.test), [ast.Break()], []), *loop.body]
            yield partial(program.splice, loop, [ast.While(ast.Constant(True), body, [])])


# --- conditions and blocks -------------------------------------------------------------------------------------------


@step("branches swapped")
def branches_swapped(program: Program) -> Iterator[Site]:
    for node in program.statements(ast.If):
        test = node.test.operand if _is_not(node.test) else negated(node.test)
        yield partial(program.splice, node, [ast.If(test, node.orelse or [ast.Pass()], node.body)])
    for node in program.nodes(ast.IfExp):
        yield partial(program.replace, node, like(ast.IfExp(negated(node.test), node.orelse, node.body), node))


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


@step("rest in else")
def rest_in_else(program: Program) -> Iterator[Site]:
    for node in program.statements(ast.If):
        rest = program.following(node)
        if ends(node.body) and not node.orelse and rest:
            yield partial(_into_else, program, node)
        elif ends(node.body) and node.orelse:
            yield partial(program.splice, node, [ast.If(node.test, node.body, []), *node.orelse])


def _into_else(program: Program, node: ast.If) -> None:
    holder, part, index = program.where[node]
    block = getattr(holder, part)
    node.orelse = block[index + 1 :]
    del block[index + 1 :]


@step("conditional expression as branches")
def expression_as_branches(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign, ast.Return):
        choice = statement.value
        if not isinstance(choice, ast.IfExp):
            continue
        if isinstance(statement, ast.Return):
            branches = [ast.Return(choice.body)], [ast.Return(choice.orelse)]
        elif len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            branches = [assign(name, choice.body)], [assign(name, choice.orelse)]
        else:
            continue
        yield partial(program.splice, statement, [ast.If(choice.test, *branches)])


@step("branches as conditional expression")
def branches_as_expression(program: Program) -> Iterator[Site]:
    for node in program.statements(ast.If):
        if len(node.body) != 1 or len(node.orelse) != 1:
            continue
        one, other = node.body[0], node.orelse[0]
        if isinstance(one, ast.Return) and isinstance(other, ast.Return) and one.value and other.value:
            yield partial(program.splice, node, [ast.Return(ast.IfExp(node.test, one.value, other.value))])
        elif isinstance(one, ast.Assign) and isinstance(other, ast.Assign):
            targets = [*one.targets, *other.targets]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            if len(targets) == 2 and len(names) == 1 and all(isinstance(target, ast.Name) for target in targets):
                value = ast.IfExp(node.test, one.value, other.value)
                yield partial(program.splice, node, [assign(targets[0].id, value)])


@step("conditions nested")
def conditions_nested(program: Program) -> Iterator[Site]:
    for node in program.statements(ast.If):
        if node.orelse:
            continue
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            first, *others = node.test.values
            rest = others[0] if len(others) == 1 else ast.BoolOp(ast.And(), others)
            yield partial(program.splice, node, [ast.If(first, [ast.If(rest, node.body, [])], [])])
        if len(node.body) == 1 and isinstance(node.body[0], ast.If) and not node.body[0].orelse:
            both = ast.BoolOp(ast.And(), [node.test, node.body[0].test])
            yield partial(program.splice, node, [ast.If(both, node.body[0].body, [])])


@step("De Morgan")
def de_morgan(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.BoolOp):
        holder, part, _ = program.where[node]
        if part == "test" and isinstance(holder, ast.If | ast.While | ast.IfExp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield partial(program.replace, node, negated(ast.BoolOp(other, [negated(one) for one in node.values])))


@step("truth asked for")
def truth_asked_for(program: Program) -> Iterator[Site]:
    for node in program.statements(ast.If, ast.While):
        if not isinstance(node.test, ast.Constant):
            yield partial(program.replace, node.test, negated(negated(node.test)))
            if program.is_built_in("bool"):
                yield partial(program.replace, node.test, call("bool", node.test))


@step("block around a statement")
def block_around(program: Program) -> Iterator[Site]:
    for node in program.statements():
        if isinstance(node, (ast.Pass, *FUNCTIONS, ast.ClassDef)):
            continue
        yield partial(program.splice, node, [ast.If(ast.Constant(True), [node], [])])
        yield partial(program.splice, node, [ast.Try([node], [], [], [ast.Pass()])])
        if not leaves_loop([node]) and program.is_built_in("range"):
            once = ast.For(ast.Name(program.fresh(), ast.Store()), call("range", _integer(1)), [node], [])
            yield partial(program.splice, node, [once])


@step("statement without effect")
def without_effect(program: Program) -> Iterator[Site]:
    for node in program.statements():
        for extra in (ast.Pass(), ast.Expr(ast.Constant("note")), ast.Assert(ast.Constant(True))):
            yield partial(program.splice, node, [extra, node])
        yield partial(program.splice, node, [assign(program.fresh(), _integer(0)), node])


@step("lines in another order")
def reordered(program: Program) -> Iterator[Site]:
    for first in program.statements(ast.Assign):
        pair = _independent(program, first)
        if pair and program.is_pure(pair[0].value) and program.is_pure(pair[1].value):
            yield partial(_swap, program, *pair)


def _independent(program: Program, first: ast.Assign) -> tuple[ast.Assign, ast.Assign] | None:
    """This assignment and the next, where each gives a variable that the other does not read."""
    rest, function = program.following(first), program.scope(first)
    if not rest or not isinstance(rest[0], ast.Assign):
        return None
    pair = (first, rest[0])
    if any(len(one.targets) > 1 or not isinstance(one.targets[0], ast.Name) for one in pair):
        return None
    one, other = (statement.targets[0].id for statement in pair)
    if one == other or one in mentioned(pair[1].value) or other in mentioned(first.value):
        return None
    return pair if program.is_local(one, function) and program.is_local(other, function) else None


def _swap(program: Program, first: ast.stmt, second: ast.stmt) -> None:
    holder, part, index = program.where[first]
    getattr(holder, part)[index : index + 2] = [second, first]


@step("two assignments in one")
def in_one(program: Program) -> Iterator[Site]:
    for first in program.statements(ast.Assign):
        pair = _independent(program, first)
        if pair and not contains([one.value for one in pair], ast.Yield, ast.YieldFrom):
            targets = ast.Tuple([one.targets[0] for one in pair], ast.Store())
            values = ast.Tuple([one.value for one in pair], ast.Load())
            yield partial(_two_into_one, program, *pair, ast.Assign([targets], values))


@step("one assignment in two")
def in_two(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign):
        target, value = statement.targets[0], statement.value
        if len(statement.targets) > 1 or not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
            continue
        names = [one.id for one in target.elts if isinstance(one, ast.Name)]
        if len(names) == len(target.elts) == len(value.elts) == len(set(names)) and not contains(value, ast.Starred):
            function = program.scope(statement)
            if not set(names) & mentioned(value) and all(program.is_local(name, function) for name in names):
                pairs = zip(names, value.elts, strict=True)
                yield partial(program.splice, statement, [assign(name, one) for name, one in pairs])


@step("gradients off another way")
def gradients_off(program: Program) -> Iterator[Site]:
    for node in program.nodes(ast.With):
        made = node.items[0].context_expr
        if ast.unparse(made) == "torch.no_grad()" and program.may_call("torch.set_grad_enabled"):
            torch = read("torch")
            torch.kinds = frozenset(["python module"])
            new = call(ast.Attribute(torch, "set_grad_enabled", ast.Load()), ast.Constant(False))
            yield partial(program.replace, made, new)


@step("body in a function of its own")
def own_function(program: Program) -> Iterator[Site]:
    for function in program.nodes_of_functions():
        start = _after_docstring(function)
        body = function.body[start:]
        changed = bound(*body) & parameters(function)
        special = contains(function.body, ast.Yield, ast.YieldFrom, ast.Await, ast.Nonlocal, ast.Global)
        if not body or changed or special or isinstance(function, ast.AsyncFunctionDef):
            continue
        if function.args.posonlyargs or program.uses("super", "__class__", "locals") or _depth(program, function) > 1:
            continue
        yield partial(_own_function, program, function, start)


def _depth(program: Program, function: ast.AST) -> int:
    return sum(isinstance(one, FUNCTIONS) for one in program.ancestors(function))


def _own_function(program: Program, function: ast.FunctionDef, start: int) -> None:
    name = program.fresh()
    inner = ast.FunctionDef(
        name=name, args=_no_arguments(), body=function.body[start:], decorator_list=[], type_params=[]
    )
    function.body[start:] = [inner, ast.Return(call(name))]


@step("lambda as def")
def lambda_as_def(program: Program) -> Iterator[Site]:
    for statement in program.statements(ast.Assign):
        made, target = statement.value, statement.targets[0]
        if isinstance(made, ast.Lambda) and len(statement.targets) == 1 and isinstance(target, ast.Name):
            body = [ast.Return(made.body)]
            new = ast.FunctionDef(name=target.id, args=made.args, body=body, decorator_list=[], type_params=[])
            yield partial(program.splice, statement, [new])


@step("def as lambda")
def def_as_lambda(program: Program) -> Iterator[Site]:
    for function in program.statements(*FUNCTIONS):
        body = function.body
        plain = isinstance(function, ast.FunctionDef) and not function.decorator_list and len(body) == 1
        if plain and isinstance(body[0], ast.Return) and body[0].value is not None and not contains(body, ast.Yield):
            yield partial(_lambda, program, function, body[0].value)


def _lambda(program: Program, function: ast.FunctionDef, value: ast.expr) -> None:
    for one in ast.walk(function.args):
        if isinstance(one, ast.arg):
            one.annotation = None
    program.splice(function, [assign(function.name, ast.Lambda(function.args, value))])


# --- with the exercise's permission ----------------------------------------------------------------------------------


@step("extra clone")
def extra_clone(program: Program) -> Iterator[Site]:
    if "clone" in program.allow:
        for node in program.nodes(ast.BinOp, ast.Call):
            # A new tensor that no graph knows may be any new tensor of the same values.
            if is_untracked(node) and _is_new(node):
                yield partial(program.replace, node, like(call(ast.Attribute(node, "clone", ast.Load())), node))


def _is_new(node: ast.expr) -> bool:
    """Whether this tensor was made by this expression and shares memory with no other."""
    if isinstance(node, ast.BinOp):
        return type(node.op) in OPERATOR_METHODS
    new = {"clone", "add", "sub", "mul", "div", "pow", "square", "exp", "log", "sum", "mean", "abs", "sqrt", "matmul"}
    return isinstance(node.func, ast.Attribute) and node.func.attr in new and bool(kinds(node))


@step("in place on a new tensor")
def in_place(program: Program) -> Iterator[Site]:
    if "in-place" in program.allow:
        for node in program.nodes(ast.BinOp):
            name = IN_PLACE_METHODS.get(type(node.op))
            operands = isinstance(node.left, ast.BinOp | ast.Call) and is_number(node.right)
            if (
                name
                and operands
                and is_untracked(node.left)
                and is_tensor(node.left, "floating")
                and _is_new(node.left)
            ):
                method = ast.Attribute(node.left, name, ast.Load())
                yield partial(program.replace, node, like(call(method, node.right), node))
