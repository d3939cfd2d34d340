"""The course as a whole, from its units' texts: what comes when, how long it takes, and where what was asked is taught.

Made from it: the line below each notebook's title, the map in README.md, and docs/coverage.md.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.lessons import COURSE, Cell, ContentError, Lesson, Problem, read, regions, units

#: Words of text read in a minute: the mean over 190 studies of silent reading (Brysbaert 2019, J. Memory & Language).
WORDS_A_MINUTE = 238
#: Minutes to run a demonstration and look at what it shows, and to think about a prediction.
DEMONSTRATION, PREDICTION = 0.5, 1.0
#: Minutes for an exercise, and for each line of its solution that the learner writes.
EXERCISE, LINE = 2.0, 0.5
_BEGIN, _END = "<!-- course map, made by `python3 run.py build` -->", "<!-- end of the course map -->"


@dataclass(frozen=True, eq=False)
class Section:
    """A heading's stretch of a lesson: text and demonstrations, or one exercise."""

    heading: str
    cells: tuple[Cell, ...]

    @property
    def answer(self) -> Cell | None:
        """The answer cell, if this is an exercise."""
        return next((cell for cell in self.cells if cell.role == "solution" and cell.kind == "code"), None)

    @property
    def title(self) -> str:
        """The heading without the words around an exercise's title."""
        return re.sub(r"^Exercise: |\s*\([^()]*\)$", "", self.heading)

    def tagged(self, key: str) -> set[str]:
        """The values of the tags `key:value` of all cells."""
        return {value for cell in self.cells for value in cell.tagged(key)}

    @property
    def minutes(self) -> float:
        """What reading, running and answering take."""
        reading = sum(_words(cell.source) for cell in self.cells if cell.kind == "markdown") / WORDS_A_MINUTE
        running = sum(
            PREDICTION if cell.role == "prediction" else DEMONSTRATION
            for cell in self.cells
            if cell.role in ("prediction", "demonstration")
        )
        if self.answer is None:
            return reading + running
        solution = "\n".join(regions(self.answer.source.splitlines()))
        given = _words(self.answer.source) - _words(solution)
        written = sum(bool(line.strip()) for line in solution.splitlines())
        return reading + running + given / WORDS_A_MINUTE + EXERCISE + LINE * written


def _words(text: str) -> int:
    """The words to be read; a hint is read by who needs it."""
    return 0 if text.lstrip().startswith("<details>") else len(text.split())


def sections(lesson: Lesson) -> tuple[Section, ...]:
    """The lesson's sections in their order; the first begins with its title."""
    found: list[tuple[str, list[Cell]]] = []
    for cell in lesson.cells:
        heading = re.match(r"#{1,3} +(.+)", cell.source.lstrip()) if cell.kind == "markdown" else None
        if heading or not found:
            found.append((heading[1].strip() if heading else lesson.title, []))
        found[-1][1].append(cell)
    return tuple(Section(heading, tuple(cells)) for heading, cells in found)


class CourseMap:
    """All units of a course. Raises ContentError where one of them cannot be read."""

    def __init__(self, course: Path = COURSE):
        self.course = course
        self.lessons = [read(unit, course) for unit in units(course)]
        self._sections = {lesson.unit: sections(lesson) for lesson in self.lessons}
        self._everything = [section for found in self._sections.values() for section in found]

    # ------------------------------------------------------------------------------------------------- what is spine

    @cached_property
    def _spine(self) -> set[Section]:
        """The spine exercises, and the sections that show what they ask for.

        Of what an exercise teaches or needs, that is every section of its unit before it; of each concept beyond
        that, or that such a section needs, the one which shows it first; none that calls itself depth or a workshop.
        What shows no concept leads in or sums up, and belongs to it too, but for the warm-ups, what is to be kept, and
        where it bites.
        """
        first: dict[str, Section] = {}
        for section in self._everything:
            for concept in section.tagged("teaches") if section.answer is None else ():
                first.setdefault(concept, section)
        chosen = {one for one in self._everything if _leads(one)}
        wanted: list[str] = []
        for found in self._sections.values():
            for place, section in enumerate(found):
                if section.answer is None or "spine" not in section.answer.tagged("tier"):
                    continue
                asked = section.tagged("teaches") | section.tagged("needs")
                before = [one for one in found[:place] if _shows(one, asked)]
                chosen |= {section, *before}
                wanted += [need for one in (section, *before) for need in one.tagged("needs")]
        seen: set[str] = set()
        while wanted:
            concept = wanted.pop()
            if concept in first and concept not in seen:
                seen.add(concept)
                chosen.add(first[concept])
                wanted += first[concept].tagged("needs")
        return {section for section in chosen if section.answer is not None or not _goes_further(section)}

    def is_on_the_spine(self, section: Section) -> bool:
        """Whether who does the spine alone reads this section."""
        return section in self._spine

    def minutes(self, lesson: Lesson) -> tuple[float, float]:
        """Minutes for the spine of a unit, and for all of it."""
        found = self._sections[lesson.unit]
        return (
            sum(section.minutes for section in found if self.is_on_the_spine(section)),
            sum(section.minutes for section in found),
        )

    def exercises(self, lesson: Lesson) -> tuple[int, int]:
        """How many exercises the spine of a unit has, and how many all of it."""
        tiers = [exercise.tagged("tier") for exercise in lesson.exercises.values()]
        return sum("spine" in tier for tier in tiers), len(tiers)

    # ---------------------------------------------------------------------------------------------- in each notebook

    def below_title(self, lesson: Lesson) -> str:
        """The lesson's first cell with the unit's place in the course, and how long it takes, below the title.

        In a course of one unit there is nothing to be told of its place, and the cell stays as it is.
        """
        if len(self.lessons) == 1:
            return lesson.cells[0].source
        title, newline, rest = lesson.cells[0].source.partition("\n")
        return f"{title}\n\n{self._place(lesson)}{newline}{rest}"

    def _place(self, lesson: Lesson) -> str:
        place = self.lessons.index(next(one for one in self.lessons if one.unit == lesson.unit))
        titles = {one.unit: _numbered(one) for one in self.lessons}
        builds = f" It builds on {_listed([titles[unit] for unit in lesson.requires])}." if lesson.requires else ""
        (spine, everything), (few, all_of_them) = self.minutes(lesson), self.exercises(lesson)
        times = (
            f"The spine, {_counted(few)}, takes about {_duration(spine)}; "
            f"everything, {_counted(all_of_them)}, about {_duration(everything)}."
        )
        showing = [one for one in self._sections[lesson.unit] if one.answer is None and one.tagged("teaches")]
        spine_of_it = [f"*{section.title}*" for section in showing if self.is_on_the_spine(section)]
        optional = [f"*{section.title}*" for section in showing if not self.is_on_the_spine(section)]
        if not optional or not spine_of_it:
            skipped = ""
        elif len(optional) <= len(spine_of_it):
            skipped = f" Who does the spine alone can pass over {_listed(optional)}: run the cells, and go on."
        else:
            skipped = f" Who does the spine alone reads {_listed(spine_of_it)}, and runs the other cells unread."
        around = [
            f"{word}: [{_numbered(self.lessons[other])}]({_path(self.lessons[other])})."
            for word, other in (("The unit before", place - 1), ("The unit after", place + 1))
            if 0 <= other < len(self.lessons)
        ]
        first = f"Unit {place + 1} of {len(self.lessons)}.{builds} {times}{skipped}"
        return "\n\n".join([first, *([" ".join(around)] if around else [])])

    # -------------------------------------------------------------------------------------------------- in README.md

    def table(self) -> str:
        """The course map as Markdown: each unit with what it needs and how long it takes."""
        lines = ["| unit | builds on | spine | everything |", "| --- | --- | --- | --- |"]
        totals = [0.0, 0.0, 0, 0]
        for lesson in self.lessons:
            needs = ", ".join(_number(unit) for unit in lesson.requires) or "-"
            times, counts = self.minutes(lesson), self.exercises(lesson)
            totals = [old + new for old, new in zip(totals, (*times, *counts))]
            columns = [f"{_duration(time)}, {_counted(count)}" for time, count in zip(times, counts)]
            lines.append(f"| {_numbered(lesson)} | {needs} | {columns[0]} | {columns[1]} |")
        columns = [f"{_duration(time)}, {_counted(count)}" for time, count in zip(totals[:2], totals[2:])]
        lines.append(f"| the course | | {columns[0]} | {columns[1]} |")
        return "\n".join([*lines, "", self._plans(totals[0])])

    def _plans(self, spine: float) -> str:
        """What to do in about one, three and ten hours."""
        begun, _ = self.minutes(self.lessons[0])
        kept = [one for one in self._everything if one.answer is None or "workshop" not in one.answer.tagged("tier")]
        long = sum(section.minutes for section in kept)
        return (
            f"In an hour: the spine of {_numbered(self.lessons[0])}, {_duration(begun)}. In three: the spine of the "
            f"course, {_duration(spine)}. In ten: everything but the workshops, {_duration(long)}."
        )

    def readme(self, text: str) -> str:
        """The text of README.md with the map between its marks made anew; unchanged where it has no marks."""
        before, begin, rest = text.partition(_BEGIN)
        _, end, after = rest.partition(_END)
        return f"{before}{begin}\n{self.table()}\n{end}{after}" if end else text

    # ----------------------------------------------------------------------------------------------------- coverage

    def coverage(self) -> str:
        """docs/coverage.md: what the course was asked to teach, where it is taught, and which exercises ask for it."""
        file = self.course / "coverage.toml"
        lines = [
            "# What was asked, where it is taught, and which exercises ask for it",
            "",
            "Made by `python3 run.py build` from `course/coverage.toml` and the tags in the lessons. Where a statement",
            "is wrong or half true as measured, what is taught instead stands below it. Numbers are those of units.",
        ]
        heading = None
        for number, statement in enumerate(tomllib.loads(file.read_text(encoding="utf-8"))["statement"], 1):
            if statement["section"] != heading:
                heading = statement["section"]
                lines += ["", f"## {heading}", "", "| asked | taught in | asked for by |", "| --- | --- | --- |"]
            concepts = set(statement["concepts"])
            taught = [
                f"{number}: {section.title}" for number, section in self._everywhere() if _shows(section, concepts)
            ]
            asking = [
                f"{number}: {section.title}"
                for number, section in self._everywhere()
                if section.answer is not None and concepts & (section.tagged("teaches") | section.tagged("needs"))
            ]
            if not taught or not asking:
                raise ContentError(
                    [self._uncovered(file, number, statement, "exercise" if taught else "demonstration")]
                )
            corrected = f"<br>*{statement['corrected']}*" if "corrected" in statement else ""
            lines.append(f"| {statement['says']}{corrected} | {'; '.join(taught)} | {'; '.join(asking)} |")
        return "\n".join(lines) + "\n"

    def _everywhere(self) -> Iterator[tuple[str, Section]]:
        for lesson in self.lessons:
            for section in self._sections[lesson.unit]:
                yield _number(lesson.unit), section

    @staticmethod
    def _uncovered(file: Path, number: int, statement: dict, missing: str) -> Problem:
        starts = [
            line for line, text in enumerate(file.read_text(encoding="utf-8").split("\n"), 1) if text == "[[statement]]"
        ]
        message = f"no {missing} has one of the concepts {', '.join(statement['concepts'])}"
        return Problem(file, starts[number - 1], message, "Name a concept that a unit teaches and an exercise asks for")

    # ------------------------------------------------------------------------------------------------------- all pages

    def pages(self, into: Path) -> dict[Path, str]:
        """The pages made of the whole course, by their files below `into`; those that the course has."""
        found = {}
        if (self.course / "coverage.toml").is_file():
            found[into / "docs" / "coverage.md"] = self.coverage()
        readme = into / "README.md"
        if readme.is_file() and _BEGIN in readme.read_text(encoding="utf-8"):
            found[readme] = self.readme(readme.read_text(encoding="utf-8"))
        return found


def _goes_further(section: Section) -> bool:
    """Whether the section's own first word says that it is no part of the spine."""
    _, _, text = section.cells[0].source.partition("\n")
    return text.lstrip().startswith(("Depth.", "Workshop."))


def _leads(section: Section) -> bool:
    """Whether the section says what comes, or what came, and shows no concept of its own."""
    aside = section.heading.startswith(("Warm-up", "To keep", "Where this bites"))
    return section.answer is None and not section.tagged("teaches") and not aside


def _shows(section: Section, concepts: set[str]) -> bool:
    """Whether the section is one of those that show a concept, and no exercise."""
    return section.answer is None and bool(section.tagged("teaches") & concepts)


def _number(unit: str) -> str:
    return unit.partition("_")[0].lstrip("0")


def _numbered(lesson: Lesson) -> str:
    return f"{_number(lesson.unit)} {lesson.title}"


def _path(lesson: Lesson) -> str:
    return f"../{lesson.unit}/{lesson.unit}.ipynb"


def _counted(exercises: int) -> str:
    return f"{exercises} exercise{'' if exercises == 1 else 's'}"


def _duration(minutes: float) -> str:
    """Minutes in words, to the next five."""
    rounded = max(5, 5 * round(minutes / 5))
    hours, rest = divmod(rounded, 60)
    if not hours:
        return f"{rest} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def _listed(words: list[str]) -> str:
    """The words as a list within a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
