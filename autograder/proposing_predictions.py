"""A model of wrong answers to a prediction, as a class's answers tell it: which right ones it changes, and how."""

import ast
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from autogradlab.exercises import Attempt, Exercise
from autogradlab.predictable import NoAnswer, normalise

from autograder.anonymous import mentions
from autograder.engine.runner import LOOKED_INTO


@dataclass(frozen=True)
class Given:
    """One learner's answers, beside the right ones of the same variant."""

    student: str
    variant: int
    answers: tuple
    right: tuple

    @property
    def missed(self) -> tuple[int, ...]:
        """The places of the wrong answers."""
        return tuple(place for place, one in enumerate(self.answers) if not _same(one, self.right[place]))


@dataclass(frozen=True)
class Model:
    """Answers that the same changes of the right ones make: `changes` has an expression for each place.

    An expression reads `right`, the right answers, and `variant`. `general` are the places whose expression holds for
    whatever variant; at the others it knows those alone that the class was given.
    """

    changes: Mapping[int, str]
    general: frozenset[int]
    given: tuple[Given, ...]


def models(rows: Iterable[Mapping], exercise: Exercise, reference: Callable, names: set[str]) -> list[Model]:
    """The models of the answers in these rows, as `records` has them, that of the most answers first.

    Left out are answers that are no literals, to a variant that there is not, that are more or fewer than the right
    ones, or that bear one of `names`.
    """
    left: dict[tuple[int, ...], list[Given]] = {}
    for row in rows:
        found = _given(row, exercise, reference)
        if found is not None and found.missed and not mentions(repr(found.answers), names):
            left.setdefault(found.missed, []).append(found)
    made = []
    for missed, given in left.items():
        while given:
            made.append(_model(missed, given))
            given = [one for one in given if one not in made[-1].given]
    return sorted(made, key=lambda one: -len(one.given))


def program(model: Model, exercise: str, reference: Attempt) -> str:
    """The model as an attempt: the right answers, worked out as the reference does, with the changes."""
    lines = ["def right_answers(variant):", *_body(reference.source)]
    lines += ["right = list(right_answers(variant))", "answers = list(right)"]
    lines += [f"answers[{place}] = {change}" for place, change in sorted(model.changes.items())]
    return f"def {exercise}(variant):\n" + textwrap.indent("\n".join([*lines, "return answers"]), "    ")


def literal(code: str, name: str) -> tuple[int, tuple] | None:
    """The variant and the answers that an answer's cell returns, if both are written out in it; it is not run."""
    if len(code) > LOOKED_INTO:
        return None
    try:
        own = [one for one in ast.parse(code).body if isinstance(one, ast.FunctionDef) and one.name == name]
        assigned, returned = _ends(own[-1]) if own else ({}, None)
        if returned is None:
            return None
        value = ast.literal_eval(_Filled(assigned).visit(returned))
        ast.literal_eval(repr(value))  # 1e999 is an infinity, which nobody can write out
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):  # a magic of IPython, or worked out
        return None
    match value:
        case (int() as variant, list() | tuple() as answers) if not isinstance(variant, bool):
            return variant, tuple(answers)
    return None


def _given(row: Mapping, exercise: Exercise, reference: Callable) -> Given | None:
    variant, answers = literal(row["code"], exercise.name) or (None, ())
    if variant is None or not 0 <= variant < exercise.variants:
        return None
    right = tuple(reference(variant))
    try:
        written = [normalise(one) for one in answers]
    except NoAnswer:
        return None
    return Given(row["student"], variant, answers, right) if len(written) == len(right) else None


def _ends(function: ast.FunctionDef) -> tuple[dict[str, ast.expr], ast.expr | None]:
    """What the function's own lines assign to single names, and what the last of them returns."""
    assigned, returned = {}, None
    for line in function.body:
        match line:
            case ast.Assign([ast.Name(name)], value):
                assigned[name] = value
            case ast.Return(value):
                returned = value
    return assigned, returned


class _Filled(ast.NodeTransformer):
    """Puts in place of a name what was assigned to it."""

    def __init__(self, assigned: Mapping[str, ast.expr]):
        self._assigned = assigned

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._assigned.get(node.id, node)


# ------------------------------------------------------------------------------------------------- what was changed


def _model(missed: tuple[int, ...], given: list[Given]) -> Model:
    """The model of as many of these answers as have the most frequent change at each place that was missed."""
    changes, general = {}, set()
    for place in missed:
        counts = Counter(change for one in given for change in _changes(one, place))
        change, times = counts.most_common(1)[0] if counts else ("", 0)
        if 2 * times > len(given):
            given = [one for one in given if change in _changes(one, place)]
            general.add(place)
        else:
            known: dict[int, object] = {}
            for one in given:
                known.setdefault(one.variant, one.answers[place])
            given = [one for one in given if _same(known[one.variant], one.answers[place])]
            change = f"{known!r}.get(variant, right[{place}])"
        changes[place] = change
    return Model(changes, frozenset(general), tuple(given))


def _changes(one: Given, place: int) -> list[str]:
    """The expressions that make this answer of the right ones, the likeliest first."""
    yours, right = one.answers[place], one.right[place]
    found = [f"right[{other}]" for other, value in enumerate(one.right) if other != place and _same(value, yours)]
    found.append(repr(yours))
    if _is_number(yours) and _is_number(right):
        found += [f"-right[{place}]"] if _same(yours, -right) else []
        found += [f"right[{place}] + {_short(yours - right)}"] if _same(right + _short(yours - right), yours) else []
        if right and _same(right * _short(yours / right), yours):
            found.append(f"right[{place}] * {_short(yours / right)}")
    return found


def _same(one: object, other: object) -> bool:
    return normalise(one) == normalise(other)


def _is_number(value: object) -> bool:
    """Whether it is a number that floats hold whole."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 53


def _short(value: float) -> float:
    """The number as somebody would write it."""
    return int(value) if float(value).is_integer() else float(f"{value:.5g}")


def _body(source: str) -> list[str]:
    """The lines of a definition below its head."""
    (function,) = ast.parse(source).body
    lines = source.splitlines()[function.body[0].lineno - 1 : function.end_lineno]
    return textwrap.indent(textwrap.dedent("\n".join(lines)), "    ").splitlines()
