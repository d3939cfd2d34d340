"""Exercises and the programs around them: how `cases.py` and `attempts.py` are written, and how they are read."""

import ast
import copy
import dataclasses
import hashlib
import importlib.util
import linecache
import pathlib
import re
import sys

from autogradlab.requirements import (
    AtLeast,
    AtMost,
    Budget,
    Flat,
    Forbid,
    Holds,
    Prediction,
    Rate,
    Requirement,
    Same,
)

__all__ = [
    "AtLeast",
    "AtMost",
    "Attempt",
    "Budget",
    "Exercise",
    "Flat",
    "Forbid",
    "Holds",
    "Prediction",
    "Rate",
    "Same",
    "alternative",
    "exercise",
    "load_attempts",
    "load_cases",
    "misconception",
    "reference",
]

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


@dataclasses.dataclass(frozen=True)
class Exercise:
    """An exercise without its reference: the case script, what is required, and how it is run.

    `visible` cases (seed 0) are what learners see, `fresh` ones what grading draws; `needs` names the exercises whose
    answers this one calls; `variants` counts the variants of a prediction exercise (0 otherwise); `labels` says what
    messages call the script's results.
    """

    name: str
    script: object
    requirements: tuple
    arguments: tuple = ()
    needs: tuple = ()
    dtypes: tuple = ("float32",)
    visible: int = 5
    fresh: int = 12
    tolerance: dict = dataclasses.field(default_factory=lambda: dict(TOLERANCE))
    variants: int = 0
    devices: str = "any"
    budget: int | None = None
    forbidden: tuple = ()
    labels: dict = dataclasses.field(default_factory=dict)
    line: int = 0

    def label(self, name: str) -> str:
        """What messages call a result, a count or whatever else the case script gave this name."""
        return self.labels.get(name) or name.replace("_", " ")

    def aspects(self, part: str) -> frozenset:
        """The aspects of this part of an observation that some requirement compares; empty where none reads it."""
        return self._aspects[part]

    @property
    def _aspects(self):
        cached = self.__dict__.get("_cached_aspects")
        if cached is None:
            cached = dict.fromkeys(
                ("returned", "raised", "arguments", "mode", "cost", "kept", "calls", "printed"), frozenset()
            )
            for requirement in self.requirements:
                for facet in requirement.facets:
                    cached[facet.part] |= facet.aspects
            object.__setattr__(self, "_cached_aspects", cached)
        return cached

    @property
    def flat_over(self) -> frozenset:
        """The names over which some cost is required to be flat."""
        return frozenset(requirement.over for requirement in self.requirements if isinstance(requirement, Flat))

    @property
    def is_prediction(self) -> bool:
        """Whether the answer is data about the learner's own variant."""
        return self.variants > 0


def exercise(
    *conditions,
    arguments=(),
    needs=(),
    dtypes=("float32",),
    visible=5,
    fresh=12,
    tolerance=None,
    variants=0,
    devices="any",
    labels=None,
):
    """Declares the exercise that the decorated case script describes; the script's name is the exercise's.

    Conditions are requirements, of which the first is the gate, and the run conditions Budget and Forbid. `arguments`
    are the names of the answer's parameters, in order. `labels` maps names that the script gives its results to what
    learners read instead, in the singular: `{"late": "your list of late steps"}`; without one, the name is read, with
    spaces for underscores. Raises ValueError where the declaration contradicts itself.
    """
    requirements = tuple(condition for condition in conditions if isinstance(condition, Requirement))
    rest = [condition for condition in conditions if not isinstance(condition, Requirement)]

    def declare(script) -> Exercise:
        name = script.__name__
        if not requirements:
            raise ValueError(f"exercise {name}: it requires nothing; give at least one requirement")
        if any(not isinstance(condition, (Budget, Forbid)) for condition in rest):
            raise ValueError(f"exercise {name}: conditions are requirements, Budget or Forbid, not {rest!r}")
        words = [requirement.words for requirement in requirements]
        if len(set(words)) != len(words):
            raise ValueError(f"exercise {name}: two requirements have the same words")
        for requirement in requirements:
            for facet in requirement.facets:
                clash = facet.aspects & set(arguments) if facet.part == "arguments" and facet.name is None else ()
                if len(facet.aspects) == 1 and clash:
                    path = f"arguments.{min(clash)}"
                    raise ValueError(
                        f"exercise {name}: {path} is the aspect {min(clash)} of every argument; "
                        f"for the argument of that name write {path}.values"
                    )
        predictions = [isinstance(requirement, Prediction) for requirement in requirements]
        if any(predictions) != (variants > 0) or any(predictions) and not all(predictions):
            raise ValueError(
                f"exercise {name}: a prediction exercise has Prediction requirements alone and a number of variants"
            )
        unknown = set(dtypes) - set(TOLERANCE)
        if unknown and not set(dtypes) <= set(tolerance or {}):
            raise ValueError(f"exercise {name}: state the tolerance for {', '.join(sorted(unknown))}")
        return Exercise(
            name=name,
            script=script,
            requirements=requirements,
            arguments=tuple(arguments),
            needs=tuple(needs),
            dtypes=tuple(dtypes),
            visible=visible,
            fresh=fresh,
            tolerance=TOLERANCE | (tolerance or {}),
            variants=variants,
            devices=devices,
            budget=next((condition.steps for condition in rest if isinstance(condition, Budget)), None),
            forbidden=tuple(name for condition in rest if isinstance(condition, Forbid) for name in condition.names),
            labels=dict(labels or {}),
            line=script.__code__.co_firstlineno,
        )

    return declare


def load_module(path):
    """The module of a file, executed anew under a name that no other file's module has."""
    path = pathlib.Path(path).resolve()
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    linecache.checkcache(str(path))
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # inspect and dataclasses look a module up by its name
    specification.loader.exec_module(module)
    return module


def exercises_in(module) -> dict:
    """The exercises that a module declares, by name, in the order of the file."""
    found = [value for value in vars(module).values() if isinstance(value, Exercise)]
    return {exercise.name: exercise for exercise in sorted(found, key=lambda exercise: exercise.line)}


def load_cases(path) -> dict:
    """The exercises of one `cases.py`, by name."""
    return exercises_in(load_module(path))


# ------------------------------------------------------------------------------------------------------ attempts


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A program that somebody might hand in: a misconception, an alternative or, for predictions, the reference.

    `source` is its text without decorators, ready for the answer cell; `key` names it within its unit.
    """

    exercise: str
    kind: str
    id: str | None = None
    message: str | None = None
    variant: str | None = None
    same_as: str | None = None
    program: object = None
    source: str = ""
    file: str = ""
    line: int = 0

    @property
    def key(self) -> str:
        """What names the attempt within its exercise."""
        words = [self.id or self.kind, *([self.variant] if self.variant else [])]
        return " ".join(words)


_collected = None


def _attempt(kind, **details):
    def collect(program):
        attempt = Attempt(exercise=program.__name__, kind=kind, **details)
        if _collected is not None:
            _collected.append(attempt)
        return program

    return collect


def misconception(id: str, message: str | None = None, *, variant: str | None = None, same_as: str | None = None):
    """A wrong program that people write, by its ID in the catalogue.

    `message` replaces the catalogue's; `variant` tells several attempts with one ID apart; `same_as` names the ID that
    behaves the same on this exercise, so that the two count once.
    """
    return _attempt("misconception", id=id, message=message, variant=variant, same_as=same_as)


def alternative(words: str):
    """A right program that differs from the reference as the words say."""
    return _attempt("alternative", variant=words)


def reference(program):
    """The right answers of a prediction exercise, as a function of the variant."""
    return _attempt("reference")(program)


_DECORATORS = {"misconception", "alternative", "reference"}


def load_attempts(path, namespace: dict) -> list:
    """The attempts of one `attempts.py`, in its order.

    Each is executed in its own copy of `namespace` (what the lesson's set-up defines) and of the file's own names, so
    that one attempt never sees another. Errors name the file and the line.
    """
    global _collected
    path = pathlib.Path(path).resolve()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = ast.parse(text, filename=str(path))
    definitions = [node for node in tree.body if _decorator_of(node)]
    linecache.checkcache(str(path))
    own = {**namespace, "__name__": f"attempts of {path.parent.name}", "__file__": str(path)}
    previous, _collected = _collected, []
    try:
        exec(compile(tree, str(path), "exec"), own)
        collected = _collected
    finally:
        _collected = previous
    if len(collected) != len(definitions):
        raise ValueError(
            f"{path}: {len(collected)} attempts were declared by {len(definitions)} decorated definitions; "
            f"decorate top-level ones"
        )
    shared = {name: value for name, value in own.items() if name not in {node.name for node in definitions}}
    attempts = []
    for attempt, node in zip(collected, definitions):
        bare = copy.deepcopy(node)
        bare.decorator_list = []
        scope = {**namespace, **shared}
        exec(compile(ast.Module([bare], []), str(path), "exec"), scope)
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"
        attempts.append(
            dataclasses.replace(attempt, program=scope[node.name], source=source, file=str(path), line=node.lineno)
        )
    return attempts


def _decorator_of(node):
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return None
    for decorator in node.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(function, ast.Name) and function.id in _DECORATORS:
            return function.id
    return None


def normalised_source(source: str) -> str:
    """A source text without white space: what decides whether an answer is still the stub."""
    return re.sub(r"\s+", "", source)


def stub_digest(source: str) -> str:
    """The digest by which a stub is recognised."""
    return hashlib.sha256(normalised_source(source).encode()).hexdigest()


def define(name: str, text: str, namespace: dict):
    """The function or class `name` that `text` defines in a copy of `namespace`; its lines are found by tracebacks."""
    file = f"<answer {name} {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {**namespace, "__name__": "answer"}
    exec(compile(text, file, "exec"), scope)
    if name not in scope:
        raise NameError(f"the answer does not define {name}")
    return scope[name]
