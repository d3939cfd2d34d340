"""`report --propose`: the most frequent answer that nothing recognises, as a skeleton for attempts.py."""

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autogradlab.exercises import Exercise, load_cases

from autograder import gradebook, lessons, pages, private, records
from autograder.anonymous import anonymous, masked, mentions, people
from autograder.engine.runner import LOOKED_INTO
from autograder.folders import Folders, GradingError
from autograder.gates.attempts import read_catalogue
from autograder.gates.text import ruff_formatted
from autograder.proposing_predictions import models, program
from autograder.unrecognised import Group, groups, is_unrecognised

#: So many other ways of writing the same are shown, and so much of a text.
OTHERS, TEXT = 3, 200
READ = (
    "TODO: read it before anything runs it, since build and audit run attempts outside of the sandbox. Names on the "
    "class's list were removed; others nobody can know."
)

MODEL = (
    "TODO: which wrong mental model gives these answers? Write that in place of the changes, so that it holds for "
    "every variant. The class's answers alone tell what changed, not why."
)


@dataclass(frozen=True)
class Proposal:
    """What to paste into attempts.py and into misconceptions.toml, once the TODOs are filled in, and where it lies."""

    unit: str
    exercise: str
    attempt: str
    entry: str
    files: tuple[Path, Path]


def propose(exercise: str, units: Iterable[str], root: Path | None = None) -> Proposal:
    """The largest group of answers to the exercise that no misconception explains, written beside the class report.

    Where none of them can be an attempt, it is the next group. Raises GradingError where no unit of these has the
    exercise, where nothing is left to propose, or where nothing of what learners wrote can be an attempt.
    """
    folders = Folders(root)
    course = folders.root / "course"
    unit = next((one for one in units if _has(course, one, exercise)), None)
    if unit is None:
        raise GradingError(f"No unit of {course} that has been graded has the exercise {exercise}. Is the name right?")
    lesson = lessons.read(unit, course)
    exercises = load_cases(lesson.directory / "cases.py")
    declared = exercises[exercise]
    with records.opened(folders) as found:
        rows = [row for one in found.submissions(unit) for row in one.rows if row["exercise"] == exercise]
    left = groups(rows)
    if not left:
        raise GradingError(f"Every wrong answer to {exercise} was recognised; there is nothing to propose.")
    names = _people(folders, lesson)
    identifier = next_id(read_catalogue(course), unit)
    if declared.is_prediction:
        text = _predicted(rows, lesson, exercises, declared, identifier, names)
    else:
        text = _programmed(left, lesson, declared, identifier, names)
    # Two empty lines, so that it can be put at the file's end as it is.
    formatted = ruff_formatted(lesson.directory / "attempts.py", text)
    attempt = f"\n\n{formatted}"
    entry = _entry(unit, identifier)
    place = folders.reports(unit)
    files = (place / f"propose_{exercise}.py", place / f"propose_{exercise}.toml")
    for file, text in zip(files, (attempt, entry), strict=True):
        private.write(file, text)
    return Proposal(unit, exercise, attempt, entry, files)


def _programmed(left: list[Group], lesson, declared: Exercise, identifier: str, names: set[str]) -> str:
    """The first of the groups of which an attempt can be made, as that attempt."""
    known = {*lessons.namespace(lesson, declared.needs), *vars(builtins)}
    for group in left:
        if written := ways((code for _, code in group.answers), declared, known, names):
            return _attempt(group, written, identifier, names)
    raise GradingError(
        f"{len(left)} groups of answers to {declared.name} are not recognised, and none of them can be made an "
        f"attempt: it defines {declared.name} at the top of its cell, runs by itself and bears nobody's name. Read "
        "them in their feedback pages."
    )


def _predicted(rows: list[dict], lesson, exercises, declared: Exercise, identifier: str, names: set[str]) -> str:
    """The model that makes most of the unrecognised answers to a prediction, as an attempt."""
    (reference,) = (
        one for one in lessons.attempts(lesson, exercises) if one.exercise == declared.name and one.kind == "reference"
    )
    wrong = [row for row in rows if is_unrecognised(row)]
    if not (found := models(wrong, declared, reference.program, names)):
        raise GradingError(
            f"Of {len(wrong)} answers to {declared.name} that nothing recognises, none has a variant and as many "
            "answers as there are questions written out, without anybody's name. Read them in their feedback pages."
        )
    model, *_ = found
    about = [MODEL, f"{len(model.given)} of {len(wrong)} answers that nothing recognised are so."]
    if bound := sorted(model.changes.keys() - model.general):
        places = ", ".join(map(str, bound))
        about.append(f"TODO: a rule for every variant at {places}: no change of the right answers makes most of them.")
    comment = "\n".join(f"# {line}" for words in about for line in _wrapped(words))
    return f'{comment}\n@misconception("{identifier}")\n{program(model, declared.name, reference)}\n'


def _has(course: Path, unit: str, exercise: str) -> bool:
    is_there = (course / "units" / unit / "lesson.py").is_file()
    return is_there and exercise in lessons.read(unit, course).exercises


def _people(folders: Folders, lesson) -> set[str]:
    """The words that name somebody of the class."""
    with gradebook.opened(folders) as book:
        entries = [(one.id, one.first_name, one.last_name, one.email, one.lms_user_id) for one in book.students]
    handed_in = [(student,) for _, student in folders.submissions([lesson.unit])]
    return people([*entries, *handed_in], [lesson.text, (lesson.directory / "cases.py").read_text("utf-8")])


def next_id(catalogue: Mapping, unit: str) -> str:
    """The ID that goes on where the unit's letter ends; a letter of its own for a unit that has none."""
    letters = Counter(name[0] for name, entry in catalogue.items() if entry.get("unit") == unit)
    used = {name[0] for name in catalogue}
    free = [chr(code) for code in range(ord("A"), ord("Z") + 1) if chr(code) not in used]
    for letter in [letter for letter, _ in letters.most_common()] + free:
        numbers = [int(name[1:]) for name in catalogue if name[0] == letter and name[1:].isdigit()]
        if max(numbers, default=0) < 99:
            return f"{letter}{max(numbers, default=0) + 1:02d}"
    raise GradingError("No ID of the form A01 is free in misconceptions.toml.")


# ------------------------------------------------------------------------------------------- a learner's program


def ways(codes: Iterable[str], exercise: Exercise, known: set[str], names: set[str]) -> list[tuple[str, int]]:
    """The different programs among the sources, ready for attempts.py, each with how many wrote it, most first.

    Left out are those that are no attempt by themselves: they lean on what `known` does not have, still bear a name of
    `names`, or do not define the exercise at the top of the cell.
    """
    counts: Counter[str] = Counter()
    for code in codes:
        program = whole(code, exercise.name)
        if program is None:
            continue
        try:
            text = ast.unparse(anonymous(program, names))
            if not mentions(text, names) and not _missing(ast.parse(text), known):
                counts[text] += 1
        except RecursionError:
            continue  # deeper than anybody would paste
    return counts.most_common()


def whole(code: str, name: str) -> ast.Module | None:
    """The definition of `name` with what else of the cell it uses moved into it; None where that cannot be made.

    An attempt is one definition without decorators, so helpers and decorators move inside.
    """
    if len(code) > LOOKED_INTO:
        return None
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a magic of IPython, or nothing that was to be read
        return None
    own = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
    if not own:
        return None
    answer = own[-1]
    helpers = _helpers([node for node in tree.body if node not in own], answer)
    if isinstance(answer, ast.ClassDef):
        return None if helpers or answer.decorator_list else ast.Module([answer], [])
    if answer.decorator_list:
        inner = ast.FunctionDef("decorated", answer.args, answer.body, answer.decorator_list, None, None)
        call = ast.Call(ast.Name("decorated", ast.Load()), *_passed_on(answer.args))
        answer = ast.FunctionDef(name, _without_defaults(answer.args), [inner, ast.Return(call)], [], None, None)
    answer.body = [*helpers, *answer.body]
    return ast.fix_missing_locations(ast.Module([answer], []))


def _helpers(others: list[ast.stmt], answer: ast.AST) -> list[ast.stmt]:
    """The statements of the cell that bind what the answer reads, and what those read, in their order."""
    wanted, chosen = _loaded(answer), []
    while more := [node for node in others if node not in chosen and _bound_at_top(node) & wanted]:
        chosen += more
        wanted |= set().union(*map(_loaded, more))
    return [node for node in others if node in chosen]


def _loaded(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _bound_at_top(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _passed_on(arguments: ast.arguments) -> tuple[list[ast.expr], list[ast.keyword]]:
    def read(argument: ast.arg) -> ast.Name:
        return ast.Name(argument.arg, ast.Load())

    passed = [read(one) for one in (*arguments.posonlyargs, *arguments.args)]
    passed += [ast.Starred(read(arguments.vararg), ast.Load())] if arguments.vararg else []
    keywords = [ast.keyword(one.arg, read(one)) for one in arguments.kwonlyargs]
    keywords += [ast.keyword(None, read(arguments.kwarg))] if arguments.kwarg else []
    return passed, keywords


def _without_defaults(arguments: ast.arguments) -> ast.arguments:
    """The same parameters for the outer function; it keeps the defaults too, which are values of the same kind."""
    return ast.parse(f"def f({ast.unparse(arguments)}): pass").body[0].args


def _missing(tree: ast.Module, known: set[str]) -> set[str]:
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            bound |= _bound_at_top(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return _loaded(tree) - bound - known


# ------------------------------------------------------------------------------------------------- what is written


def _attempt(group: Group, written: list[tuple[str, int]], identifier: str, names: set[str]) -> str:
    (first, times), *others = written
    about = [READ, f"{len(group.answers)} answers did this, {times} of them written so (names and comments aside)."]
    about += [f"Missed: {words}" for words in group.missed]
    facts = {"call": group.call, "yours": group.yours, "expected": group.expected, "told": group.told}
    # What a program raised or gave back may hold its author's name as well.
    about += [f"{key}: {_line(text, names)}" for key, text in facts.items() if text]
    comment = "\n".join(f"# {line}" for words in about for line in _wrapped(words))
    text = f'{comment}\n@misconception("{identifier}")\n{first}\n'
    for other, count in others[:OTHERS]:
        lines = other.splitlines()
        text += f"\n\n# TODO: delete this; {count} wrote it so:\n" + "\n".join(f"#   {line}" for line in lines) + "\n"
    return text


def _line(text: str, names: set[str]) -> str:
    return pages.shown(" ".join(masked(text, names).split()), TEXT)


def _wrapped(words: str, width: int = 110) -> list[str]:
    return re.findall(rf".{{1,{width}}}(?:\s+|$)|\S{{{width},}}", words) or [words]


def _entry(unit: str, identifier: str) -> str:
    return (
        f'\n[{identifier}]\nunit = "{unit}"\nname = "TODO: two to four words"\n'
        'message = "TODO: what the program did, never what its author thought. Which question leads on?"\n'
    )
