"""Gates between a lesson's answer cells and cases.py: the same exercises, the same parameters, only public imports."""

import ast
import sys

from autogradlab.exercises import load_cases

from autograder.gates.attempts import read_attempts
from autograder.gates.cells import signature
from autograder.lessons import Problem, problem_in

IMPORTS = {"torch", "numpy"}
OWN_IMPORT = "autogradlab.exercises"


def exercises(lesson):
    """Problems of a unit's cases.py, as far as they show without running a case."""
    file = lesson.directory / "cases.py"
    if not file.is_file():
        return []  # gates.text says so
    try:
        tree = ast.parse(file.read_text("utf-8"))
        cases = load_cases(file)
    except SyntaxError:
        return []  # gates.text says so
    except Exception as error:  # an author's module may raise anything
        return [problem_in(error, lesson.directory, file)]
    problems = [*_imports(file, tree), *_names(lesson, file, tree, cases), *_needs(lesson, file, cases)]
    return [*problems, *_references(lesson, file, cases)]


def _imports(file, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "." * node.level]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            root = module.partition(".")[0]
            if not (root in IMPORTS or root in sys.stdlib_module_names or module == OWN_IMPORT):
                way_out = f"cases.py imports {', '.join(sorted(IMPORTS))}, {OWN_IMPORT} and the standard library"
                yield Problem(file, node.lineno, f"imports {module}", way_out)


def _names(lesson, file, tree, cases):
    scripts = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in cases and node.decorator_list:
            if node.name in scripts:
                first = scripts[node.name]
                yield Problem(
                    file, node.lineno, f"{node.name} is declared at line {first} already", "Rename one of them"
                )
            scripts.setdefault(node.name, node.lineno)
    for name, exercise in cases.items():
        if name not in lesson.exercises:
            way_out = f'Add an answer cell with grade_id "{name}" to lesson.py, or take the exercise out'
            yield Problem(file, exercise.line, f"{name} has no answer cell", way_out)
        elif exercise.arguments != signature(lesson.exercises[name]):
            wanted = signature(lesson.exercises[name])
            message = f"{name}: arguments={exercise.arguments!r}, but the solution takes {wanted!r}"
            yield Problem(
                file, exercise.line, message, f"Write arguments={wanted!r}" if wanted else "Take arguments= out"
            )
    for name, exercise in lesson.exercises.items():
        if name not in cases:
            way_out = f"Write @exercise(...) def {name}(program, case) in cases.py"
            yield Problem(lesson.file, exercise.line, f"{name} has no cases", way_out)


def _needs(lesson, file, cases):
    order = list(lesson.exercises)
    for name, exercise in cases.items():
        for other in exercise.needs:
            if name in order and other not in order[: order.index(name)]:
                way_out = f"Exercises above it: {', '.join(order[: order.index(name)]) or 'none'}"
                yield Problem(file, exercise.line, f"{name} needs {other}, which is not above it", way_out)


def _references(lesson, file, cases):
    """A prediction's right answers stand in attempts.py, as a function of the variant."""
    try:
        declared, _ = read_attempts(lesson.directory / "attempts.py")
    except (OSError, SyntaxError):
        return  # gates.text says so
    known = [attempt.exercise for attempt in declared if attempt.kind == "reference"]
    for name, exercise in cases.items():
        if known.count(name) != exercise.is_prediction:
            way_out = "Only a prediction has one: @reference def name(variant) in attempts.py, returning the answers"
            yield Problem(file, exercise.line, f"{name} has {known.count(name)} @reference attempts", way_out)
