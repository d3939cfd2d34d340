"""A private folder: what of the exercises a class has that others do not, and the numbers drawn for it."""

import hashlib
import random
import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autograder.lessons import ContentError, Problem

FILE = "private.toml"
KEYS = {"seed": str, "points": dict, "messages": dict, "numbers": dict, "replace": list}
_PLACE = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Replacement:
    """Words of one exercise, in its text, cases and attempts, that are others for this class."""

    exercise: str
    old: str
    new: str


@dataclass(frozen=True)
class Cohort:
    """One class: its seed, points by exercise, messages by ID, the numbers drawn by name, and replaced words."""

    folder: Path | None = None
    seed: str | None = None
    points: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    replacements: tuple[Replacement, ...] = ()

    @classmethod
    def of(cls, folder: Path | None) -> "Cohort":
        """The class of a private folder; without one, one in which nothing differs."""
        if folder is None:
            return cls()
        file = folder / FILE
        if not file.is_file():
            _refuse(file, f"there is no {FILE}", "Write one: docs/instructors.md shows it")
        try:
            settings = tomllib.loads(file.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            _refuse(file, f"not TOML: {error}", "Mend the line")
        for key, value in settings.items():
            if not isinstance(value, KEYS.get(key, ())):
                _refuse(file, f"`{key}` is not known or of another kind", f"Known: {', '.join(KEYS)}")
        seed = settings.get("seed")
        wanted = settings.get("numbers", {})
        if wanted and not seed:
            _refuse(file, "numbers are drawn from the seed, and there is none", 'Write seed = "words of your own"')
        numbers = {name: _drawn(file, seed, name, choice) for name, choice in wanted.items()}
        cohort = cls(folder, seed, settings.get("points", {}), settings.get("messages", {}), numbers)
        found = []
        for one in settings.get("replace", []):
            if not isinstance(one, dict) or {*one} != {"exercise", "old", "new"}:
                _refuse(file, f"{one!r} replaces nothing", 'Write [[replace]] with exercise, old and new = "…"')
            found.append(Replacement(one["exercise"], one["old"], cohort.filled(one["new"], file)))
        return cls(folder, seed, cohort.points, cohort.messages, numbers, tuple(found))

    def filled(self, text: str, file: Path) -> str:
        """The text with the class's numbers in the places `{{name}}`."""

        def value(place: re.Match) -> str:
            if place[1] not in self.numbers:
                line = text[: place.start()].count("\n") + 1
                known = ", ".join(self.numbers) or "none"
                _refuse(file, f"{place[0]} names no number of {FILE}", f"Numbers there: {known}", line)
            return self.numbers[place[1]]

        return _PLACE.sub(value, text)

    def replaced(self, exercise: str, text: str) -> str:
        """A text of the exercise as this class has it."""
        for one in self.replacements:
            if one.exercise == exercise:
                text = text.replace(one.old, one.new)
        return text

    def grading_seed(self, assignment: str) -> str | None:
        """The seed of the cases that the assignment is graded in, in hexadecimal, if the class has one of its own."""
        return None if self.seed is None else hashlib.sha256(f"cases {self.seed} {assignment}".encode()).hexdigest()

    def course(self, public: Path, place: Path) -> Path:
        """A copy of the course at `place` in which units of the private folder stand beside, or for, the public ones.

        Their texts have the class's numbers; misconceptions.toml has the entries of both.
        """
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(public, place, ignore=ignored)
        if self.folder is None:
            return place
        for unit in sorted(path for path in (self.folder / "units").glob("*") if path.is_dir()):
            shutil.rmtree(place / "units" / unit.name, ignore_errors=True)
            shutil.copytree(unit, place / "units" / unit.name, ignore=ignored)
            for file in (place / "units" / unit.name).rglob("*"):
                if file.suffix in (".py", ".toml"):
                    text = file.read_text(encoding="utf-8")
                    file.write_text(self.filled(text, unit / file.name), encoding="utf-8", newline="\n")
        return place

    def catalogue(self, public: Path) -> dict[str, dict]:
        """The misconceptions of the course with those of the private folder, and the class's messages."""
        entries = tomllib.loads((public / "misconceptions.toml").read_text(encoding="utf-8"))
        own = self.folder and self.folder / "misconceptions.toml"
        if own and own.is_file():
            entries |= tomllib.loads(self.filled(own.read_text(encoding="utf-8"), own))
        for identifier, message in self.messages.items():
            if identifier not in entries:
                _refuse(self.folder / FILE, f"messages names {identifier}, which is no misconception", "Look it up")
            entries[identifier] = entries[identifier] | {"message": message}
        return entries

    def check(self, exercises: Mapping[str, str]) -> None:
        """Refuses points and words for exercises that the assignment lacks, and words that none of its texts has.

        `exercises` has all that can be replaced in each.
        """
        file = self.folder / FILE if self.folder else Path(FILE)
        for one in self.replacements:
            if one.exercise in exercises and one.old not in exercises[one.exercise]:
                _refuse(file, f"{one.exercise} has no {one.old!r} to replace", "Copy the words from lesson.py")
        for name, points in self.points.items():
            if name in exercises and (type(points) is not int or points < 1):
                _refuse(file, f"the points of {name} are {points!r}", "Points are whole numbers from 1")


def _drawn(file: Path, seed: str, name: str, choice) -> str:
    dice = random.Random(f"{seed} {name}")
    if isinstance(choice, list) and len(choice) == 2 and all(type(one) is int for one in choice):
        return str(dice.randint(*sorted(choice)))
    if isinstance(choice, list) and choice and all(isinstance(one, str) for one in choice):
        return dice.choice(choice)
    way_out = 'Write [from, to] for a whole number or ["one", "of these"]'
    raise ContentError([Problem(file, 1, f"{name} = {choice!r} cannot be drawn", way_out)])


def _refuse(file: Path, message: str, way_out: str, line: int = 1):
    raise ContentError([Problem(file, line, message, way_out)])
