"""A learner's program without who wrote it: no comments, no docstrings, no names, no numbers of students."""

import ast
import builtins
import keyword
import re
from collections.abc import Iterable

import torch

#: Shorter words than this stand in too many others to be a person's.
SHORTEST = 3
_WORD = re.compile(r"[^\W\d_]+|\d+")
#: Addresses of mail, and numbers as long as a student's.
_PERSONAL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|\d{6,}")
MASK = "…"


def words(texts: Iterable[str]) -> set[str]:
    """The words and numbers of these texts in lower case, those that are too short to tell left out."""
    found = {word.lower() for text in texts for word in _WORD.findall(text)}
    return {word for word in found if len(word) >= SHORTEST}


def people(entries: Iterable[Iterable[str | None]], known: Iterable[str]) -> set[str]:
    """The words that name the people of a class, from their ids, names and addresses of mail.

    `known` are texts that are not about people, such as the lesson: a learner who is called Max or Sum is not found out
    by a program that calls `max`, which would not run without it.
    """
    vocabulary = words([*known, *dir(builtins), *keyword.kwlist, *dir(torch), *dir(torch.Tensor), "learner", "student"])
    return words(text for entry in entries for text in entry if text) - vocabulary


def anonymous(tree: ast.Module, names: set[str]) -> ast.Module:
    """The program without comments (a tree has none), docstrings, unread texts, and these names.

    A variable or function that bears a name gets a neutral one; a text has MASK in place of the name, and a number of a
    student is 0. What the program does stays the same unless it does something with those texts and numbers.
    """
    tree = _Bare(_read(tree)).visit(tree)
    renamer = _Renamer(names, {name for name in _bound(tree) if _told(name, names)}, _all_names(tree))
    return ast.fix_missing_locations(renamer.visit(tree))


def mentions(text: str, names: set[str]) -> set[str]:
    """The names that a text still has."""
    return {word.lower() for word in _WORD.findall(text)} & names


def masked(text: str, names: set[str]) -> str:
    """A text with MASK in place of the names, and of what only a person has."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "\0", _PERSONAL.sub(MASK, text))
    return _WORD.sub(lambda word: MASK if word[0].lower() in names else word[0], split).replace("\0", "")


def _told(text: str, names: set[str]) -> bool:
    """Whether an identifier or a text has one of the names, or something that only a person has."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)  # adaLoss
    return bool(mentions(text, names) or mentions(split, names) or _PERSONAL.search(text))


def _read(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _bound(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias) and node.asname:
            found.add(node.asname)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return found


def _all_names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | _bound(tree)


class _Bare(ast.NodeTransformer):
    """Takes out docstrings, texts that stand alone, and texts kept under a name that nothing reads."""

    def __init__(self, read: set[str]):
        self._read = read

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        unread = len(names) == len(node.targets) and not self._read & set(names)
        return None if is_text and unread else self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        if getattr(node, "body", None) == [] and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]
        return node


class _Renamer(ast.NodeTransformer):
    """Puts neutral names in the place of those that were told, everywhere, keywords of calls included."""

    def __init__(self, names: set[str], told: set[str], taken: set[str]):
        self._names = names
        self._new: dict[str, str] = {}
        for name in sorted(told):
            number = 1
            while f"name_{number}" in taken or f"name_{number}" in self._new.values():
                number += 1
            self._new[name] = f"name_{number}"

    def _renamed(self, name: str | None) -> str | None:
        return self._new.get(name, name)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._renamed(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._renamed(node.arg)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = self._renamed(node.arg)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._renamed(node.name)
        return self.generic_visit(node)

    visit_ClassDef = visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._renamed(node.attr)  # a method of the learner's own class
        return self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        node.asname = self._renamed(node.asname)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._renamed(node.name)
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        node.names = [self._renamed(name) for name in node.names]
        return node

    visit_Nonlocal = visit_Global

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and _told(node.value, self._names):
            node.value = masked(node.value, self._names)
        elif type(node.value) is int and str(node.value) in self._names:
            node.value = 0
        return node
