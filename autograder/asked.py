"""What an assignment asks for: its graded cells in their order, and the lines of tests that no page shows."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from autograder import gradebook
from autograder.execution import checked_exercise
from autograder.folders import Folders
from autograder.intake.master import role

#: Shorter lines of tests, such as `score` or `else:`, stand in many a text that has nothing to do with them.
SHORTEST_LINE = 12
LEFT_OUT = "(its message has lines of the test and is left out)"


@dataclass(frozen=True)
class AskedCell:
    """One graded cell; `exercise` is what its check names, else its grade_id, and unique in the assignment.

    `answers` are the grade_ids of the answer cells that it is about; `by_hand` says that a person marks it.
    """

    notebook: str
    id: str
    exercise: str
    by_hand: bool
    points: float
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """The graded cells of an assignment as source/ has them, or release/ where there is no source/."""

    cells: tuple[AskedCell, ...]
    tests: tuple[str, ...]

    @classmethod
    def of(cls, folders: Folders, assignment: str) -> "Asked":
        """Reads the assignment and generates nothing: what was graded can be told whatever became of source/."""
        steps = (folders.step(name, ".", assignment) for name in ("source", "release"))
        folder = next((step for step in steps if step.is_dir()), None)
        notebooks = sorted(folder.glob("*.ipynb")) if folder else []
        cells, tests = [], []
        known = gradebook.source_cells(folders, assignment)
        for path in notebooks:
            for cell, source in _graded(path.stem, gradebook.read_notebook(path).cells):
                cells.append(cell)
                if source is not None:
                    # The release lacks the hidden lines, and source/ may have changed since it was graded.
                    tests += [source, known.get(path.stem, {}).get(cell.id, {}).get("source") or ""]
        return cls(tuple(_told_apart(cells)), tuple(tests))

    @cached_property
    def _lines(self) -> set[str]:
        lines = {_bare(line) for test in self.tests for line in _code_lines(test)}
        return {line for line in lines if len(line) >= SHORTEST_LINE}

    def without_tests(self, text: str) -> str:
        """The text, `Type: message`, without its message where a line of an ordinary test cell is in that.

        A learner's program runs in one process with these tests and can read them; what it raises is shown.
        """
        name, _, _ = text.partition(": ")
        if not self._is_in(text):
            return text
        return LEFT_OUT if self._is_in(name) else f"{name}: {LEFT_OUT}"

    def _is_in(self, text: str) -> bool:
        bare = _bare(text)
        return any(line in bare for line in self._lines)


def _bare(text: str) -> str:
    """Text without what differs between a source, its copy with another indentation, and its repr."""
    return re.sub(r"\\n|[\s\\'\"]", "", text)


def _code_lines(test: str) -> Iterator[str]:
    """Yields the lines of a test that are not merely text, which may be the message that learners are to read."""
    try:
        nodes = [node for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Constant | ast.JoinedStr)]
    except SyntaxError:  # a magic of IPython
        nodes = []
    texts = {number for node in nodes for number in range(node.lineno + 1, node.end_lineno + 1)}
    for number, line in enumerate(test.splitlines(), 1):
        if number not in texts and not re.match(r"""\s*[A-Za-z]{0,2}['"]""", line):
            yield line


def _graded(notebook: str, cells) -> Iterator[tuple[AskedCell, str | None]]:
    """Yields a notebook's graded cells, each with its source if that is an ordinary test's."""
    answers, is_tested = [], False
    for cell in cells:
        settings, kind = cell.metadata.get("nbgrader", {}), role(cell.metadata)
        if kind == "answer":
            # Several tests in a row are about the same answers.
            answers, is_tested = ([], False) if is_tested else (answers, False)
            answers.append(settings["grade_id"])
        elif kind in ("test", "manual"):
            name, by_hand = checked_exercise(cell), kind == "manual"
            # What answers a task stands in cells of the learner's own, somewhere below it.
            about = () if settings.get("task") else (settings["grade_id"],) if by_hand else tuple(answers)
            asked = (notebook, settings["grade_id"], name or settings["grade_id"], by_hand)
            is_tested = is_tested or not by_hand
            yield (
                AskedCell(*asked, float(settings.get("points", 0)), about),
                None if by_hand or name else cell.source,
            )


def _told_apart(cells: list[AskedCell]) -> Iterator[AskedCell]:
    """Yields the cells; an exercise that two notebooks have bears the notebook's name before its own."""
    counts = Counter(cell.exercise for cell in cells)
    for cell in cells:
        exercise = cell.exercise if counts[cell.exercise] == 1 else f"{cell.notebook}: {cell.id}"
        yield AskedCell(cell.notebook, cell.id, exercise, cell.by_hand, cell.points, cell.answers)
