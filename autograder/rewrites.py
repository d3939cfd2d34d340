"""Right answers in many styles: meaning-preserving rewrites of the reference and the alternatives.

A right answer that a check refuses is worse than a wrong one that it accepts, and nobody writes a hundred alternatives.
Steps (`rewrite_steps.py`) are composed at random, so that a short answer has a hundred forms too.
"""

from __future__ import annotations

import ast
import copy
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.kinds import annotated
from autograder.program_text import FUNCTIONS, Program, bound
from autograder.rewrite_steps import STEPS

# Past this many steps, or tries for each rewrite that is wanted, a program has no more forms.
MOST_STEPS = 8
TRIES = 40


@dataclass(frozen=True)
class Answer:
    """A right program to start from: what it is called, its text, and how to run it with notes (`kinds.annotated`)."""

    name: str
    source: str
    run: Callable[[str, dict[str, Any]], None] | None = None


@dataclass(frozen=True)
class Rewrite:
    """One form, the answer it was made from, and the steps that made it."""

    source: str
    answer: str
    steps: tuple[str, ...]


def rewrites(
    answers: Sequence[Answer],
    count: int = 100,
    seed: int = 0,
    forbidden: Iterable[str] = (),
    allow: Iterable[str] = (),
) -> list[Rewrite]:
    """Up to `count` forms, no two equal after their local names are made equal, and none equal to an answer.

    `forbidden` are functions that no step may bring in ("torch.autograd.grad"), `allow` permits "clone" (an extra copy
    of a new tensor outside of any graph) and "in-place" (on such a tensor).
    """
    chance = random.Random(seed)
    trees = [annotated(answer.source, answer.run) for answer in answers]
    seen = {_form(tree) for tree in trees}
    found: list[Rewrite] = []
    for attempt in range(count * TRIES):
        if len(found) == count:
            break
        which = attempt % len(answers)
        most = min(2 + attempt // count, MOST_STEPS)
        tree = copy.deepcopy(trees[which])
        steps = []
        for _ in range(chance.randint(1, most)):
            name = _one_step(Program(tree, chance, frozenset(forbidden), frozenset(allow)))
            if name is not None:
                steps.append(name)
        form = _form(tree)
        if form not in seen:
            seen.add(form)
            source = ast.unparse(ast.fix_missing_locations(tree))
            compile(source, "<rewrite>", "exec")
            found.append(Rewrite(source, answers[which].name, tuple(steps)))
    return found


def mix(made: Iterable[Rewrite]) -> Counter[str]:
    """How often each step was used, the most used first."""
    return Counter(step for one in made for step in one.steps)


def _one_step(program: Program) -> str | None:
    """Makes one change: a step at random, then one of its sites; the step's name, or None where none has a site."""
    names = sorted(STEPS)
    program.random.shuffle(names)
    for name in names:
        sites = list(STEPS[name](program))
        if sites:
            program.random.choice(sites)()
            return name
    return None


def _form(tree: ast.Module) -> str:
    """The tree as text, with local names numbered in their order: programs that differ in names alone are one form."""
    # Through the text, since a tree in memory may hold the same program in two ways (-1).
    tree = ast.parse(ast.unparse(ast.fix_missing_locations(tree)))
    fixed = {one.name for one in tree.body if isinstance(one, (*FUNCTIONS, ast.ClassDef))}
    renamed = bound(*tree.body) - fixed
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        for part in ("id", "arg", "name"):
            name = getattr(node, part, None)
            if name in renamed:
                setattr(node, part, numbers.setdefault(name, f"v{len(numbers)}"))
    return ast.dump(tree)
