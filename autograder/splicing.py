"""Parts of Python files put together: the statements that some names need, and other names where two files clash."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a file: its text with the comments right above, what it binds and what it reads."""

    text: str
    node: ast.stmt
    binds: frozenset[str]
    reads: frozenset[str]

    @property
    def is_import(self) -> bool:
        """Whether it only brings in modules or their names."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)


def statements(text: str) -> list[Statement]:
    """The statements of a file, its docstring left out."""
    tree, lines = ast.parse(text), text.splitlines()
    found = []
    for place, node in enumerate(tree.body):
        is_docstring = place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring:
            continue
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        own = "\n".join(lines[first - 1 : node.end_lineno])
        found.append(Statement(own, node, frozenset(bound(node)), frozenset(read(node))))
    return found


def bound(node: ast.stmt) -> set[str]:
    """The names that a statement at the top of a file binds there."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return _stored(node)


def read(node: ast.AST) -> set[str]:
    """The names that are read anywhere inside."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def needed(all_of: list[Statement], names: Iterable[str]) -> list[Statement]:
    """The statements that bind these names or what those read, and those that bind nothing, in the file's order."""
    chosen = {place for place, one in enumerate(all_of) if not one.binds}
    wanted = set(names).union(*(all_of[place].reads for place in chosen))
    while True:
        more = {place for place, one in enumerate(all_of) if one.binds & wanted} - chosen
        if not more:
            return [all_of[place] for place in sorted(chosen)]
        chosen |= more
        wanted = wanted.union(*(all_of[place].reads for place in more))


def imports(groups: Iterable[Iterable[Statement]]) -> str:
    """The import statements of several files as one block; what is imported twice stands in it once."""
    modules, names = {}, {}
    for statement in (one for group in groups for one in group if one.is_import):
        for alias in statement.node.names:
            if isinstance(statement.node, ast.Import):
                modules[ast.unparse(ast.Import([alias]))] = None
            else:
                names.setdefault(statement.node.module, {})[ast.unparse(alias)] = None
    lines = sorted(modules) + [
        f"from {module} import {', '.join(sorted(own))}" for module, own in sorted(names.items())
    ]
    return "\n".join(lines)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The program with other names for these, wherever the name of the file's top is meant and no local one."""
    if not names:
        return text
    finder = _Finder(text, names)
    finder.visit(ast.parse(text))
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()
    for line, column, length, new in sorted(set(finder.edits), reverse=True):
        place = starts[line - 1] + column
        data = data[:place] + new.encode() + data[place + length :]
    return data.decode()


def _stored(node: ast.AST) -> set[str]:
    """Names that are bound in the scope of the node itself, by whatever means."""
    found, waiting = set(), [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            found.add(one.id)
        elif isinstance(one, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and one.name:
            found.add(one.name)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            found |= bound(one)
        for child in ast.iter_child_nodes(one):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(child.name)
            elif not isinstance(child, (ast.Lambda, *_COMPREHENSIONS)):
                waiting.append(child)
    return found


class _Finder(ast.NodeVisitor):
    """Collects edits (line, column, length, new text) in bytes, of names that no scope around them binds."""

    def __init__(self, text: str, names: Mapping[str, str]):
        self._text, self._names, self._lines = text, names, text.splitlines()
        self._hidden: list[set[str]] = []
        self.edits: list[tuple[int, int, int, str]] = []

    def _is_meant(self, name: str) -> bool:
        return name in self._names and not any(name in hidden for hidden in self._hidden)

    def visit_Name(self, node: ast.Name) -> None:
        if self._is_meant(node.id):
            self.edits.append((node.lineno, node.col_offset, len(node.id.encode()), self._names[node.id]))

    def _definition(self, node) -> None:
        if self._is_meant(node.name):
            line = self._lines[node.lineno - 1]
            column = re.compile(rf"(?:class|def)\s+(?={node.name}\b)").search(line, node.col_offset).end()
            where = len(line[:column].encode())
            self.edits.append((node.lineno, where, len(node.name.encode()), self._names[node.name]))

    def visit_FunctionDef(self, node) -> None:
        self._definition(node)
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), node.returns):
            if part is not None:
                self.visit(part)
        self._inside(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        self._inside(node, [node.body])

    def _inside(self, node, body: list[ast.AST]) -> None:
        arguments = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        # One level down: the node itself is what `_stored` must not stop at.
        own = arguments.union(*(_stored(one) | _own_name(one) for one in body))
        top = {name for one in body for each in ast.walk(one) if isinstance(each, ast.Global) for name in each.names}
        self._hidden.append(own - top)
        for one in body:
            self.visit(one)
        self._hidden.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._definition(node)
        for part in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(part)
        own = set().union(*(_stored(one) | _own_name(one) for one in node.body))
        for one in node.body:
            # A method does not see what its class binds.
            is_method = isinstance(one, _SCOPES)
            self._hidden.append({getattr(one, "name", "")} if is_method else own)
            self.visit(one)
            self._hidden.pop()

    def _comprehension(self, node) -> None:
        self._hidden.append(set().union(*(_stored(one.target) for one in node.generators)))
        self.generic_visit(node)
        self._hidden.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Global(self, node: ast.Global) -> None:
        self._inner_text(node, [name for name in node.names if name in self._names])

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Before Python 3.12, what stands in the braces does not say where it stands.
        self._inner_text(node, [name for name in read(node) if self._is_meant(name)], r"\{[^{}]*\}")

    def _inner_text(self, node, names: list[str], where: str = r"(?s).+") -> None:
        if not names:
            return
        old = ast.get_source_segment(self._text, node)
        pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})(?!\w)")
        new = re.sub(where, lambda part: pattern.sub(lambda name: self._names[name[0]], part[0]), old)
        self.edits.append((node.lineno, node.col_offset, len(old.encode()), new))


def _own_name(node: ast.AST) -> set[str]:
    return {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else set()
