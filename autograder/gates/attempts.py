"""Gates on attempts.py and the catalogue: known IDs, messages that end in a question, enough of each kind."""

import ast
import functools
import re
import tomllib
from dataclasses import dataclass

from autograder.lessons import ContentError, Problem, line_of, read, units

MISCONCEPTIONS = 5
ALTERNATIVES = 2
KINDS = ("misconception", "alternative", "reference")
KEYS = {"unit", "name", "message", "wrong", "right", "measured", "seen", "silent", "cuda", "demonstration"}


@dataclass(frozen=True)
class Declared:
    """One attempt as attempts.py declares it, read without running anything."""

    exercise: str
    kind: str
    arguments: tuple
    keywords: dict
    line: int


def attempts(lesson):
    """Problems of a unit's attempts.py."""
    file = lesson.directory / "attempts.py"
    if not file.is_file():
        return []  # gates.text says so
    try:
        declared, problems = read_attempts(file)
    except SyntaxError:
        return []  # gates.text says so
    entries = read_catalogue(lesson.course)
    problems += _known(lesson, file, declared, entries)
    problems += _told_apart(file, declared)
    return [*problems, *_enough(lesson, file, declared)]


def read_catalogue(course):
    """The entries of misconceptions.toml by ID; empty where it cannot be read, which `catalogue` reports."""
    try:
        return tomllib.loads((course / "misconceptions.toml").read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return {}


def catalogue(course):
    """Problems of misconceptions.toml."""
    file = course / "misconceptions.toml"
    try:
        entries = tomllib.loads(file.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        place = re.search(r"at line (\d+)", str(error))
        return [Problem(file, int(place[1]) if place else 1, f"cannot be read: {error}", "Mend it")]
    headings_of = functools.cache(lambda unit: headings(unit, course))  # hundreds of entries name a few lessons
    return [problem for name, entry in entries.items() for problem in _entry(course, file, name, entry, headings_of)]


def _entry(course, file, name, entry, headings_of):
    line = line_of(file, rf"\[{re.escape(name)}\]")
    if not re.fullmatch(r"[A-Z]\d\d", name) or not isinstance(entry, dict):
        yield Problem(file, line, f"{name!r} is no ID", "An ID is a letter and two digits, its entry a table [A01]")
        return
    for key in ("unit", "name", "message"):
        if not (isinstance(entry.get(key), str) and entry[key].strip()):
            yield Problem(file, line, f"{name} has no {key}", f'Write {key} = "..."')
            return
    for key in sorted(set(entry) - KEYS):
        yield Problem(file, line, f"{name}: unknown key `{key}`", f"Known: {', '.join(sorted(KEYS))}")
    if not entry["message"].rstrip().endswith("?"):
        yield Problem(
            file, line, f"the message of {name} does not end in a question", "End it with what the learner may ask"
        )
    if not 2 <= len(entry["name"].split()) <= 4:
        yield Problem(file, line, f"the name of {name} is {entry['name']!r}", "Tables want two to four words")
    if "demonstration" in entry:
        unit, _, heading = str(entry["demonstration"]).partition("#")
        if unit not in units(course):
            yield Problem(file, line, f"{name}: demonstration names {unit!r}, which is no unit", "Use unit#Heading")
            return
        known = headings_of(unit)
        if known is not None and heading not in known:
            way_out = f"Headings there: {', '.join(known) or 'none'}"
            yield Problem(file, line, f"{name}: demonstration {heading!r} is no heading of {unit}", way_out)


def headings(unit, course):
    """The headings of a lesson as Jupyter's links name them; None where the lesson cannot be read."""
    try:
        lesson = read(unit, course)
    except ContentError:
        return None  # that unit's own gates say so
    prose = [re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL) for cell in lesson.cells if cell.kind == "markdown"]
    found = [heading for source in prose for heading in re.findall(r"^#{1,6} +(.+?) *$", source, flags=re.MULTILINE)]
    return [re.sub(r"[`*]", "", heading).replace(" ", "-") for heading in found]


def read_attempts(file):
    """The attempts that a file declares, and the problems of those that cannot be read without running the file."""
    declared, problems = [], []
    for node in ast.parse(file.read_text("utf-8")).body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            kind = getattr(call.func, "id", None)
            if kind not in KINDS:
                continue
            try:
                arguments = tuple(ast.literal_eval(argument) for argument in call.args)
                keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
            except ValueError:
                way_out = "Write IDs, messages and words as texts, so that they can be found"
                problems.append(Problem(file, node.lineno, f"an argument of @{kind} is computed", way_out))
                continue
            declared.append(Declared(node.name, kind, arguments, keywords, node.lineno))
    return declared, problems


def _known(lesson, file, declared, entries):
    for attempt in declared:
        name = f"{attempt.exercise} ({attempt.kind} {' '.join(map(str, attempt.arguments[:1]))})".replace(" )", ")")
        if attempt.exercise not in lesson.exercises:
            way_out = f"Exercises here: {', '.join(lesson.exercises) or 'none'}"
            yield Problem(file, attempt.line, f"{name}: there is no such exercise", way_out)
        if attempt.kind != "misconception":
            continue
        given, same_as = attempt.arguments[:1], attempt.keywords.get("same_as")
        for identity in [*given, *([same_as] if same_as else [])]:
            if identity not in entries and identity != "TODO":
                way_out = "Take one of course/misconceptions.toml, or add it there"
                yield Problem(file, attempt.line, f"{name}: {identity!r} is no known misconception", way_out)
        if not given:
            yield Problem(file, attempt.line, f"{name} names no ID", 'Write @misconception("A01")')
        message = attempt.keywords.get("message") or (attempt.arguments[1] if len(attempt.arguments) > 1 else None)
        if message is not None and not message.rstrip().endswith("?"):
            way_out = "End it with a question that the learner can answer by looking"
            yield Problem(file, attempt.line, f"{name}: the message does not end in a question", way_out)
        others = {each.arguments[:1] for each in declared if each.exercise == attempt.exercise and each is not attempt}
        if same_as and (same_as,) not in others:
            way_out = "same_as names the ID of another attempt at the same exercise"
            yield Problem(file, attempt.line, f"{name}: nothing here is {same_as!r}", way_out)


def _told_apart(file, declared):
    seen = {}
    for attempt in declared:
        words = attempt.keywords.get("variant", attempt.arguments[:1] if attempt.kind == "alternative" else None)
        key = (attempt.exercise, attempt.kind, attempt.arguments[:1], words)
        if key in seen and "TODO" not in attempt.arguments:
            way_out = 'Tell them apart: variant="short words" for a misconception, other words for an alternative'
            yield Problem(file, attempt.line, f"{attempt.exercise} has the same attempt at line {seen[key]}", way_out)
        seen.setdefault(key, attempt.line)


def _enough(lesson, file, declared):
    for exercise in lesson.exercises.values():
        own = [attempt for attempt in declared if attempt.exercise == exercise.name]
        wrong = sum(attempt.kind == "misconception" and "same_as" not in attempt.keywords for attempt in own)
        right = sum(attempt.kind == "alternative" for attempt in own)
        line = own[0].line if own else 1
        if wrong < MISCONCEPTIONS:
            way_out = f"Write {MISCONCEPTIONS}; `new {lesson.unit}/{exercise.name} --from-mutants` proposes some"
            yield Problem(file, line, f"{exercise.name} has {wrong} misconceptions", way_out)
        if right < ALTERNATIVES:
            way_out = f"Write {ALTERNATIVES} right programs that differ from the solution as far as they can"
            yield Problem(file, line, f"{exercise.name} has {right} alternatives", way_out)
