"""`grade --regrade`: only what a change can have touched is graded again, and it is told whose marks moved, and why."""

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from autograder.asked import Asked
from autograder.folders import Folders, versions
from autograder.graded import Graded
from autograder.intake import Master
from autograder.pages import number

#: What the whole unit is graded with, and how a change of it is told.
PARTS = {
    "submission": "the submission changed",
    "assignment": "the assignment's notebooks or files changed",
    "limits": "the limits changed",
    "seed": "other cases were drawn",
    "engine": "the grader or a library changed",
    "shared": "what all exercises of the unit share changed",
}
#: What belongs to one exercise.
OWN = {"cases": "its cases or requirements changed", "reference": "its reference changed"}
ATTEMPTS = "its misconceptions changed"
#: Files beside the notebooks that learners' own checks read, made of what the parts of the exercises say already.
MADE = ("recorded.bin", "cases.py")
_HEADER = re.compile(r"^# %%(.*)$", re.MULTILINE)
_GRADE_ID = re.compile(r'"grade_id": "([^"]+)"')


@dataclass(frozen=True)
class Change:
    """What is another than when a submission was graded; `exercise` is None for what concerns all of them."""

    exercise: str | None
    words: str
    #: Whether right answers stay right: misconceptions tell only of wrong ones.
    wrong_only: bool = False

    def touches(self, cells: Mapping[str, Mapping], exercises: Mapping[str, str]) -> bool:
        """Whether the grade of one of these cells, by grade_id, may be another now."""
        if self.exercise is None:
            return True
        for name, cell in cells.items():
            is_judged = exercises.get(name, name) == self.exercise and cell["reason"] not in (
                "not attempted",
                "missing",
            )
            if is_judged and not (self.wrong_only and cell["reason"] is None):
                return True
        return False


class Makings:
    """Digests of all that the grades of a run's assignments are made of."""

    def __init__(self, folders: Folders, settings, masters: Mapping[str, Master]):
        self._folders, self._settings, self._masters = folders, settings, masters
        self._units: dict[str, dict] = {}
        self._submissions: dict[tuple[str, str], str] = {}

    def of(self, assignment: str, student: str) -> dict:
        """What a submission's grade is made of, to be kept with it; the submission is read once."""
        if assignment not in self._units:
            self._units[assignment] = self._unit(assignment)
        if (assignment, student) not in self._submissions:
            folder = self._folders.step("submitted", student, assignment)
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            handed_in = _digest(*(part for path in files for part in (path.name, path.read_bytes())))
            self._submissions[assignment, student] = handed_in
        return {"submission": self._submissions[assignment, student]} | self._units[assignment]

    def _unit(self, assignment: str) -> dict:
        master, settings = self._masters[assignment], self._settings
        files = {name: data for name, data in master.files.items() if name not in MADE}
        found = {
            "assignment": replace(master, files=files).digest[:16],
            "limits": _digest(json.dumps(asdict(settings.limits), sort_keys=True), str(settings.all_cells)),
            "seed": _digest(settings.seeds[assignment]),
            "engine": _engine(),
        }
        directory = self._folders.root / "course" / "units" / assignment
        if not (directory / "lesson.py").is_file():
            return found | {"shared": _digest(), "exercises": {}}
        try:
            return found | _knowledge(directory)
        except (SyntaxError, tomllib.TOMLDecodeError):  # which is told where the unit is read for grading
            return found | {"shared": _digest(*_beside(directory, but=()).values()), "exercises": {}}


def _knowledge(directory: Path) -> dict:
    """The digests of a unit's exercises, and of what they share, from its texts: no program of it is run for that."""
    cases = _split(directory / "cases.py")
    attempts = _split(directory / "attempts.py")
    setup, solutions = _lesson((directory / "lesson.py").read_text(encoding="utf-8"))
    catalogue = tomllib.loads((directory.parent.parent / "misconceptions.toml").read_text(encoding="utf-8"))
    others = {name: data for name, data in _beside(directory).items() if name not in ("unit.toml",)}
    shared = [
        cases.pop("", ""),
        attempts.pop("", ""),
        setup,
        *(text for pair in sorted(others.items()) for text in pair),
    ]
    exercises = {}
    for name in solutions:
        needed = _needed(name, cases)
        own = _of_kind(attempts.get(name, ""), "misconception")
        told = [json.dumps(entry, default=str) for key, entry in catalogue.items() if repr(key) in own]
        references = [
            part for each in needed for part in (solutions.get(each, ""), _of_kind(attempts.get(each, ""), "reference"))
        ]
        exercises[name] = {
            "cases": _digest(cases.get(name, "")),
            "reference": _digest(*references),
            "attempts": _digest(own, *told),
        }
    return {"shared": _digest(*shared), "exercises": exercises}


def _beside(directory: Path, but: tuple[str, ...] = ("lesson.py", "cases.py", "attempts.py", "unit.toml")) -> dict:
    """The unit's other files by relative name, as data that its cases read."""
    found = sorted(path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {name: path.read_bytes() for path in found if (name := path.relative_to(directory).as_posix()) not in but}


def _split(path: Path) -> dict[str, str]:
    """Name -> the text of its decorated definitions; under "" everything that all of them share."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        is_own = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list
        name = node.name if is_own else ""
        segments = [ast.unparse(node)]  # so that comments and line breaks make no difference
        found[name] = "\n".join([found[name], *segments] if name in found else segments)
    return found


def _of_kind(attempts: str, *kinds: str) -> str:
    """Those of the attempts at an exercise whose decorator is one of these kinds."""
    found = []
    for node in ast.parse(attempts).body:
        names = {name.id for one in node.decorator_list for name in ast.walk(one) if isinstance(name, ast.Name)}
        if names & set(kinds):
            found.append(ast.unparse(node))
    return "\n".join(found)


def _needed(name: str, cases: Mapping[str, str], seen: tuple[str, ...] = ()) -> list[str]:
    """The exercise and all that its decorator says that it needs, and those need."""
    if name in seen or name not in cases:
        return []
    found = [name]
    for node in ast.walk(ast.parse(cases[name])):
        if isinstance(node, ast.keyword) and node.arg == "needs":
            named = {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
            for need in sorted(named & set(cases)):
                found += [one for one in _needed(need, cases, (*seen, name)) if one not in found]
    return found


def _lesson(text: str) -> tuple[str, dict[str, str]]:
    """The code that is no answer, demonstration or test, and the solution of each answer by grade_id."""
    marks = list(_HEADER.finditer(text))
    setup, solutions = [], {}
    for mark, following in zip(marks, [*marks[1:], None]):
        header, source = mark[1], text[mark.end() : following.start() if following else len(text)].strip()
        grade_id = _GRADE_ID.search(header)
        if "[markdown]" in header or "[raw]" in header or "demonstration" in header:
            continue
        if grade_id and '"solution": true' in header:
            solutions[grade_id[1]] = source
        elif not grade_id:
            setup.append(source)
    return "\n".join(setup), solutions


@cache
def _engine() -> str:
    """A digest of the modules that grade, as they import each other, of the learners' package and of the libraries."""
    seen: set[Path] = set()
    waiting = [
        _module(name) for name in ("autograder.engine.job", "autograder.engine.child", "autograder.engine.parent")
    ]
    while waiting:
        path = waiting.pop()
        if path is None or path in seen:
            continue
        seen.add(path)
        waiting += [_module(name) for name in _imports(ast.parse(path.read_text(encoding="utf-8")))]
    (package,) = find_spec("autogradlab").submodule_search_locations
    files = sorted(seen | set(Path(package).rglob("*.py")))
    return _digest(json.dumps(versions()), *(part for path in files for part in (path.name, path.read_bytes())))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module(name: str) -> Path | None:
    """The file of one of our own modules; None for any other, and for what is a name within a module."""
    package, *rest = name.split(".")
    if package != "autograder":
        return None
    (folder,) = find_spec(package).submodule_search_locations
    place = Path(folder, *rest)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d " % len(data) + data)
    return digest.hexdigest()[:16]


def changes(before: Mapping | None, now: Mapping) -> list[Change]:
    """What is another than when the grade was made; the exercises' own changes only where nothing else is."""
    if before is None:
        return [Change(None, "what it was made of was not noted")]
    common = [Change(None, words) for part, words in PARTS.items() if before[part] != now[part]]
    if common:
        return common
    found = []
    for name, own in now["exercises"].items():
        earlier = before["exercises"].get(name)
        if earlier is None:
            return [Change(None, f"{name} is new")]
        found += [Change(name, words) for part, words in OWN.items() if earlier[part] != own[part]]
        if earlier["attempts"] != own["attempts"]:
            found.append(Change(name, ATTEMPTS, wrong_only=True))
    return found


@dataclass(frozen=True)
class Move:
    """One answer whose grade is another than before; `counts` is a person's mark, which stands whatever moved."""

    student: str
    unit: str
    exercise: str
    before: Mapping
    now: Mapping
    why: str
    counts: float | None = None

    @property
    def moved_marks(self) -> bool:
        """Whether the score that counts is another now."""
        return self.counts is None and self.before["score"] != self.now["score"]

    def words(self) -> str:
        """The move as a sentence."""
        line = f"{self.student}, {self.unit}, {self.exercise}: {_points(self.before)} → {_points(self.now)}"
        stands = "" if self.counts is None else f"; the mark by hand, {number(self.counts)}, stands"
        line += f" of {number(self.now['max'])}: was {_told(self.before)}, is {_told(self.now)}{stands}"
        return f"{line}. Why: {self.why}."


def _points(cell: Mapping) -> str:
    return "none" if cell["score"] is None else number(cell["score"])


def _told(cell: Mapping) -> str:
    reason = cell["reason"] or ("right" if cell["score"] is not None else "to be marked")
    return " ".join([reason, *cell["misconceptions"]])


def moves(
    folders: Folders, graded: Graded, before: Mapping, found: Iterable[Change], by_hand: Mapping[tuple[str, str], float]
) -> Iterator[Move]:
    """Yields the answers of a submission that came out another way than `before`, the earlier result."""
    exercises = exercises_of(folders, graded.unit)
    earlier = {notebook["notebook"]: notebook["cells"] for notebook in before.get("notebooks", ())}
    for notebook in graded.notebooks:
        name = notebook["notebook"]
        for cell, entry in notebook["cells"].items():
            was = earlier.get(name, {}).get(cell)
            if was is None or all(was[key] == entry[key] for key in ("score", "reason", "misconceptions")):
                continue
            exercise = exercises.get(cell, cell)
            own = [one.words for one in found if one.exercise in (None, exercise)]
            why = "; ".join(own) or "; ".join(f"{one.exercise}: {one.words}" for one in found)
            yield Move(graded.student, graded.unit, exercise, was, entry, why, by_hand.get((name, cell)))


def exercises_of(folders: Folders, assignment: str) -> dict[str, str]:
    """grade_id of a graded cell -> the exercise that it is about."""
    return {cell.id: cell.exercise for cell in Asked.of(folders, assignment).cells}
