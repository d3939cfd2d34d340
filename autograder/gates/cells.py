"""Gates on the cells of one lesson: tags, nbgrader metadata, answers and their tests, contracts and hints."""

import ast
import re

from autograder.lessons import Problem

FORMS = ("worked", "arrange", "complete", "repair", "write", "review", "predict")
TAGS = {
    "tier": ("spine", "depth", "workshop"),
    "form": FORMS,
    "teaches": None,  # any concept; gates.order knows which
    "needs": None,
}
# raises-exception lets a demonstration fail on purpose without stopping Run All.
ROLES = ("setup", "demonstration", "prediction", "raises-exception")

KEYS = {
    "solution": {"grade": False, "locked": False, "solution": True},
    "test": {"grade": True, "locked": True, "solution": False},
    "written": {"grade": True, "locked": False, "solution": True},
    "locked": {"grade": False, "locked": True, "solution": False},
}
# Other markers of nbgrader: what is hidden here is the seed, so that none of them has a use.
RESERVED = ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS", "BEGIN MARK SCHEME", "END MARK SCHEME", "AUTOTEST")

SPINE_EXERCISES = 15
SPINE_LINES = 12
CONTRACT_WORDS = 120


def cells(lesson):
    """Problems of a lesson's cells, each seen by itself or with its neighbours."""
    gates = (_tags, _metadata, _setup, _pairs, _answers, _markers, _contracts, _spine)
    return [problem for gate in gates for problem in gate(lesson)]


def _tags(lesson):
    for cell in lesson.cells:
        for tag in cell.tags:
            if not _known(tag):
                kinds = [*ROLES, *(f"{key}:{'|'.join(values or ('<concept>',))}" for key, values in TAGS.items())]
                yield Problem(lesson.file, cell.line, f"unknown tag {tag!r}", f"Known: {', '.join(kinds)}")
        if cell.kind == "code" and cell.role == "other":
            way_out = (
                "Tag it setup, demonstration or prediction, or give it the nbgrader metadata of an answer or a test"
            )
            yield Problem(lesson.file, cell.line, "nothing says what this cell is for", way_out)
        if sum(tag in cell.tags for tag in ROLES[:3]) > 1:
            yield Problem(
                lesson.file, cell.line, "the cell has two roles", "Keep one of setup, demonstration, prediction"
            )
        if cell.nbgrader and any(tag in cell.tags for tag in ("demonstration", "prediction")):
            yield Problem(
                lesson.file, cell.line, "a graded cell is no demonstration", "Take the tag or the metadata out"
            )
        if cell.role in ("demonstration", "text", "setup") and set(cell.tagged("form")) - {"worked"}:
            yield Problem(lesson.file, cell.line, "only an exercise has this form", "Use form:worked, or move the tag")
    for exercise in lesson.exercises.values():
        for key in ("tier", "form"):
            if len(exercise.tagged(key)) != 1:
                way_out = f"Tag it with one of {', '.join(f'{key}:{value}' for value in TAGS[key])}"
                yield Problem(lesson.file, exercise.line, f"{exercise.name} has not exactly one `{key}:` tag", way_out)
        if exercise.tagged("form") == ("worked",):
            way_out = "Tag the demonstration that shows it; an exercise is arranged, completed, repaired, written, ..."
            yield Problem(
                lesson.file, exercise.line, f"{exercise.name} is form:worked, but the learner works it", way_out
            )
        if not exercise.tagged("teaches"):
            way_out = "Tag it `teaches:<concept>`: what does who did it know better?"
            yield Problem(lesson.file, exercise.line, f"{exercise.name} teaches nothing", way_out)


def _known(tag):
    key, _, value = tag.partition(":")
    if key not in TAGS:
        return tag in ROLES
    return value in TAGS[key] if TAGS[key] else bool(value)


def _metadata(lesson):
    """What nbgrader asks of metadata (nbgraderformat/v3), and what this course asks besides."""
    for cell in lesson.cells:
        meta = cell.nbgrader
        if not meta:
            continue

        def problem(message, way_out, line=cell.line):
            return Problem(lesson.file, line, message, way_out)

        name = meta.get("grade_id", "")
        if meta.get("schema_version") != 3:
            yield problem(f"schema_version is {meta.get('schema_version')!r}", 'Write "schema_version": 3')
        if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name)):
            yield problem(
                f"grade_id {name!r} is no name", "Use letters, digits, `_` and `-`, 64 at most, a letter first"
            )
            continue
        role = "locked" if meta.get("locked") and not meta.get("grade") and not meta.get("solution") else cell.role
        if role not in KEYS or meta.get("task", False) is not False:
            yield problem(f"{name} is neither answer, test, written answer nor read-only", f"Use one of {_dialect()}")
            continue
        for key, value in KEYS[role].items():
            if meta.get(key) is not value:
                yield problem(f"{name}: `{key}` is {meta.get(key)!r}", f'Write "{key}": {str(value).lower()}')
        wanted = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
        wanted |= {"points"} if role in ("test", "written") else set()
        if set(meta) != wanted:
            missing, extra = sorted(wanted - set(meta)), sorted(set(meta) - wanted)
            yield problem(
                f"{name}: keys missing {missing}, not known here {extra}", f"Keys: {', '.join(sorted(wanted))}"
            )
        points = meta.get("points", 1)
        if not (isinstance(points, int) and not isinstance(points, bool) and points > 0):
            yield problem(f"{name}: points {points!r}", "Give a whole number from 1 up")
        if cell.kind == "markdown" and role in ("solution", "test"):
            yield problem(f"{name}: a Markdown cell cannot be run", "Make it a code cell, or a written answer")
        if cell.kind == "code" and role == "written":
            yield problem(
                f"{name}: an answer in code is graded by its test cell", 'Write "grade": false, without points'
            )


def _dialect():
    return "; ".join(
        f"{role}: {', '.join(f'{key} {str(v).lower()}' for key, v in keys.items())}" for role, keys in KEYS.items()
    )


def _setup(lesson):
    code = [cell for cell in lesson.cells if cell.kind == "code"]
    if not code or code[0].role != "setup":
        line = code[0].line if code else 1
        yield Problem(lesson.file, line, "the first code cell is not tagged setup", "Begin with imports and unit(...)")
    named = [name for cell in lesson.setup for name in re.findall(r"\bunit\(\s*[\"']([^\"']*)[\"']\s*\)", cell.source)]
    if named != [lesson.unit]:
        line = lesson.setup[0].line if lesson.setup else 1
        way_out = f'Write cases = unit("{lesson.unit}") in the first set-up cell, once'
        yield Problem(lesson.file, line, f"the set-up names the units {named}", way_out)


def _pairs(lesson):
    names = [cell.nbgrader.get("grade_id") for cell in lesson.cells]
    for position, cell in enumerate(lesson.cells):
        name = names[position]
        if cell.role == "solution":
            below = lesson.cells[position + 1] if position + 1 < len(lesson.cells) else None
            if below is None or below.role != "test" or names[position + 1] != f"{name}_tests":
                way_out = f'Put the test cell right below it, grade_id "{name}_tests", source check("{name}")'
                yield Problem(lesson.file, cell.line, f"{name} has no test cell", way_out)
        if cell.role == "test":
            exercise = (name or "").removesuffix("_tests")
            if position == 0 or lesson.cells[position - 1].role != "solution" or names[position - 1] != exercise:
                way_out = f'Put the answer cell, grade_id "{exercise}", right above it'
                yield Problem(lesson.file, cell.line, f"the test cell {name} has no answer cell", way_out)
            if cell.source != f'check("{exercise}")':
                way_out = f'Its whole source is check("{exercise}")'
                yield Problem(lesson.file, cell.line + 1, f"the test cell {name} is {cell.source!r}", way_out)


def _answers(lesson):
    for exercise in lesson.exercises.values():
        for what, source in (("the solution", exercise.solution), ("the stub", exercise.stub)):
            defined = _definition(source)
            if defined is None or defined.name != exercise.name:
                name = exercise.name
                way_out = f"The cell holds one `def {name}` or `class {name}`, everything else inside it"
                yield Problem(lesson.file, exercise.line, f"{what} of {name} defines something else", way_out)
                break


def _definition(source):
    """The function or class that is the whole of the source; None where it is anything else."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return body[0] if len(body) == 1 and isinstance(body[0], kinds) else None


def signature(exercise):
    """Names of the solution's parameters; none for a class."""
    defined = _definition(exercise.solution)
    if not isinstance(defined, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ()
    given = defined.args
    stars = [argument for argument in (given.vararg, given.kwarg) if argument]
    return tuple(argument.arg for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, *stars])


def _markers(lesson):
    for cell in lesson.cells:
        inside = False
        for number, line in enumerate(cell.source.split("\n"), cell.line + 1):
            for word in RESERVED:
                if word in line:
                    yield Problem(
                        lesson.file, number, f"`{word}` has no use here", "Take it out: what is hidden is the seed"
                    )
            if "BEGIN SOLUTION" not in line and "END SOLUTION" not in line:
                continue
            begins = "BEGIN" in line
            if cell.role != "solution":
                yield Problem(lesson.file, number, "a solution marker outside an answer cell", "Take it out")
            elif line.strip() != f"### {'BEGIN' if begins else 'END'} SOLUTION":
                yield Problem(lesson.file, number, f"the marker reads {line.strip()!r}", "Write ### BEGIN SOLUTION")
            elif begins == inside:
                yield Problem(lesson.file, number, "markers do not alternate", "Close each BEGIN with an END below it")
            inside = begins
    for exercise in lesson.exercises.values():
        if not any(region.strip() for region in exercise.regions):
            way_out = "Put ### BEGIN SOLUTION and ### END SOLUTION around what the learner writes"
            yield Problem(lesson.file, exercise.line, f"{exercise.name} marks no solution", way_out)


def _contracts(lesson):
    for exercise in lesson.exercises.values():
        if not exercise.contract:
            way_out = "Say in a Markdown cell above it what is given and what is asked"
            yield Problem(lesson.file, exercise.line, f"{exercise.name} has no contract", way_out)
        if not exercise.hints:
            way_out = "Put a Markdown cell `<details><summary>Hint 1</summary>` between contract and answer"
            yield Problem(lesson.file, exercise.line, f"{exercise.name} has no hint", way_out)


def _spine(lesson):
    spine = [exercise for exercise in lesson.exercises.values() if "tier:spine" in exercise.tags]
    for exercise in spine[SPINE_EXERCISES:]:
        message = f"{exercise.name} is spine exercise number {spine.index(exercise) + 1}"
        yield Problem(lesson.file, exercise.line, message, f"Keep {SPINE_EXERCISES}; tag it tier:depth")
    for exercise in spine:
        words = len(re.sub(r"```.*?```", " ", exercise.contract, flags=re.DOTALL).split())
        if words > CONTRACT_WORDS:
            message = f"the contract of {exercise.name} has {words} words"
            yield Problem(lesson.file, exercise.line, message, f"A spine contract has at most {CONTRACT_WORDS}")
        lines = [line.strip() for region in exercise.regions for line in region.split("\n")]
        count = sum(bool(line) and not line.startswith("#") for line in lines)
        if count > SPINE_LINES:
            message = f"the solution of {exercise.name} has {count} lines"
            yield Problem(
                lesson.file, exercise.line, message, f"A spine solution has at most {SPINE_LINES}; or tier:depth"
            )
