"""One notebook from its first cell to its last: every bad cell costs itself, and every test cell gets a score."""

import ast
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from autogradlab.verdicts import CheckResult
from nbformat.notebooknode import NotebookNode

from autograder.engine import referee
from autograder.engine.comparing import plain_text
from autograder.engine.knowledge import Unit
from autograder.engine.limits import QUESTIONS
from autograder.engine.outputs import Left, assemble, error, harmless_to_nbgrader
from autograder.engine.supervisor import Child, Parent, Stopped
from autograder.execution import checked_exercise

#: Characters of a source that is parsed here: its tree takes some six hundred times as much.
LOOKED_INTO = 1 << 18
CLEAN_SESSION = (
    "It is missed in the notebook as it stands, and met in a fresh session with the set-up cells and this exercise "
    "alone: an earlier cell changed something that all cells share. The better result counts."
)


@dataclass
class Scored:
    """What one graded cell came to, as the record keeps it."""

    score: float | None
    max: float
    reason: str | None = None
    message: str = ""
    misconceptions: list[str] = field(default_factory=list)
    refereed: bool = False
    needs_manual: bool = False
    seconds: float = 0.0
    second_try: bool = False


class NotebookRun:
    """Runs one restored notebook; `cells` maps each graded cell's id to what it came to."""

    def __init__(
        self,
        parent: Parent,
        notebook: NotebookNode,
        files: Mapping[str, bytes],
        unit: Unit | None,
        seed: int,
        all_cells: bool = False,
    ):
        self._parent, self._limits = parent, parent.limits
        self._notebook, self._files, self._unit, self._seed = notebook, files, unit, seed
        self._all_cells = all_cells
        self._child: Child | None = None
        self._history: list[str] = []
        self._deadline, self._left = 0.0, Left()
        # Of the answer cells that the next test is about: was one written, and was one stopped?
        self._answers: list[NotebookNode] = []
        self._stopped: Stopped | None = None
        self._is_tested = False
        self._stopped_exercises: dict[str, Stopped] = {}
        # Exercises whose answer's cell ended with an error, with the error.
        self._broken: dict[str, str] = {}
        self.cells: dict[str, Scored] = {}

    def run(self) -> None:
        """Run every cell; outputs are in the notebook afterwards. Raises EngineError where the grader itself fails."""
        self._deadline = time.monotonic() + self._limits.notebook_seconds
        try:
            for cell in self._notebook.cells:
                self._one(cell)
        finally:
            self._close()

    def _one(self, cell: NotebookNode) -> None:
        role = cell.metadata["autogradlab"]["role"]
        if role == "manual":
            self._manual(cell)
        elif cell.cell_type != "code":
            return
        elif role == "test":
            start = time.monotonic()
            scored = self._check(cell) if self._is_check(cell) else self._test(cell)
            scored.seconds = round(time.monotonic() - start, 4)
            self.cells[cell.metadata.nbgrader.grade_id] = scored
            self._is_tested = True
        elif role != "demonstration" or self._changed(cell) or self._all_cells:
            if role == "answer":
                self._next_answer(cell)
            self._run(cell)

    def _next_answer(self, cell: NotebookNode) -> None:
        """Several tests in a row are about the same answers; an answer below a test begins anew."""
        if self._is_tested:
            self._answers, self._stopped, self._is_tested = [], None, False
        self._answers.append(cell)

    @staticmethod
    def _changed(cell: NotebookNode) -> bool:
        return cell.metadata["autogradlab"]["changed"]

    def _is_check(self, cell: NotebookNode) -> bool:
        return self._unit is not None and checked_exercise(cell) in self._unit.exercises

    # ------------------------------------------------------------------------------------------------ asking a child

    def _new_child(self) -> Child:
        child = Child(self._parent, self._files)
        child.open({"op": "open", "seed": self._seed, "unit": self._unit and self._unit.name})
        return child

    def _ask(self, request: dict, foreseen: bytes | None = None) -> tuple[dict | bytes, list[dict]]:
        """The child's reply and outputs; a child that was lost is replaced first, and its cells are run again.

        A request whose child was killed gets a second child, because it need not have been the learner's doing.
        """
        try:
            return self._ask_once(request, foreseen)
        except Stopped as stopped:
            if not stopped.killed:
                raise
        return self._ask_once(request, foreseen)

    def _ask_once(self, request: dict, foreseen: bytes | None) -> tuple[dict | bytes, list[dict]]:
        while self._child is None:
            self._child = self._new_child()
            for source in list(self._history):
                try:
                    self._asked(self._child, {"op": "run", "source": source})
                except Stopped:
                    # It went well before, so it depends on something that nobody controls; the rest goes on without.
                    self._history.remove(source)
                    self._child = None
                    break
        try:
            return self._asked(self._child, request, foreseen)
        except Stopped:
            self._child = None
            raise

    def _asked(self, child: Child, request: dict, foreseen: bytes | None = None) -> tuple[dict | bytes, list[dict]]:
        """What the child answers within the time that is left."""
        left = self._deadline - time.monotonic()
        try:
            return child.ask(request, max(min(self._limits.cell_seconds, left), 0.0), foreseen)
        except Stopped as stopped:
            if stopped.reason == "timeout" and left < self._limits.cell_seconds:
                limit = f"The time limit of {self._limits.notebook_seconds:g} s for one notebook was reached."
                raise Stopped("timeout", limit, stopped.outputs) from stopped
            raise

    def _close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    # ------------------------------------------------------------------------------------------------ ordinary cells

    def _run(self, cell: NotebookNode) -> None:
        try:
            reply, events = self._ask({"op": "run", "source": cell.source})
        except Stopped as stopped:
            cell.outputs = [*assemble(stopped.outputs, self._left), error("Stopped", stopped.message)]
            self._note_stop(cell, stopped)
            return
        self._history.append(cell.source)
        count = reply.get("count")
        cell.execution_count = count if type(count) is int and 0 < count < 1 << 31 else None
        cell.outputs = assemble(events, self._left, cell.execution_count)
        raised = reply.get("error")
        limit = limit_in(raised)
        if limit is not None:
            self._note_stop(cell, Stopped(limit, f"The cell ended with {_said(raised)}."))
        self._broken |= dict.fromkeys(self._answered_in(cell), _said(raised) if type(raised) is dict else "")

    def _note_stop(self, cell: NotebookNode, stopped: Stopped) -> None:
        self._stopped = stopped
        self._stopped_exercises |= dict.fromkeys(self._answered_in(cell), stopped)

    def _answered_in(self, cell: NotebookNode) -> list[str]:
        """The exercises that the cell is the answer to, or whose names it defines."""
        own = cell.metadata.get("nbgrader", {}).get("grade_id")
        names = self._unit.exercises if self._unit else ()
        told = {own, *(defined_in(cell.source) if names else ())}
        return [name for name in names if name in told]

    def _manual(self, cell: NotebookNode) -> None:
        settings, changed = cell.metadata.nbgrader, self._changed(cell)
        if cell.cell_type == "code" and changed:
            self._run(cell)
        untouched = settings.get("solution") and not changed
        reason = "not attempted" if untouched else None
        score = 0.0 if untouched else None
        points = float(settings.get("points", 0))
        self.cells[settings.grade_id] = Scored(score, points, reason, needs_manual=not untouched)

    # -------------------------------------------------------------------------------------------------- checks

    def _check(self, cell: NotebookNode) -> Scored:
        """The score of a `check("…")`, with a second try in a clean session where the first is missed."""
        name = checked_exercise(cell)
        result, reason = self._verdict(name, self._ask)
        points, status = float(cell.metadata.nbgrader.points), result.record["status"]
        scored = Scored(0.0, points, reason, refereed=True)
        stopped = self._stopped_exercises.get(name)
        if status == "not attempted" and stopped is not None:
            result, scored.reason = self._refused(name, stopped), stopped.reason
        elif status == "not attempted" and self._broken.get(name):
            sentence = f"{name} is not defined: its cell ended with {self._broken[name]}. Which line of it did that?"
            result, scored.reason = referee.refused(self._unit, name, sentence), "wrong"
        # Whatever limit was reached, a thread of an earlier cell may have reached it.
        if scored.reason not in (None, "not attempted") or any(map(self._changed, self._answers)) and scored.reason:
            better, better_reason = self._second_verdict(name)
            if better is not None and float(better) > float(result):
                better.record["text"] += f"\n\n{CLEAN_SESSION}"
                result, scored.reason, scored.second_try = better, better_reason, True
                scored.message = CLEAN_SESSION
        known = self._unit.exercises[name].points
        # The gradebook's points, should they differ from the unit's.
        scored.score = round(float(result) * points / known, 6) if known else 0.0
        scored.misconceptions = [one["id"] for one in result.record["misconceptions"]]
        if scored.reason is not None and not scored.message:
            scored.message = result.record["text"]
        if points != known:
            result = CheckResult(scored.score, result.record | {"score": scored.score, "points": points}, result.html)
        cell.outputs = [_result(referee.output(result))]
        return scored

    def _verdict(self, name: str, ask) -> tuple[CheckResult, str | None]:
        """The verdict, and why it is not all of the points."""
        try:
            result = referee.check(self._unit, name, lambda *request: ask(*request)[0])
        except Stopped as stopped:
            return self._refused(name, stopped), stopped.reason
        status = result.record["status"]
        raised = result.record["raised"]
        limit = limit_in({"name": raised["type"], "value": raised["message"], "files": []}) if raised else None
        return result, limit or {"right": None, "not attempted": "not attempted"}.get(status, "wrong")

    def _refused(self, name: str, stopped: Stopped) -> CheckResult:
        sentence = f"{name} was stopped. {stopped.message} {QUESTIONS[stopped.reason]}"
        return referee.refused(self._unit, name, sentence)

    def _second_verdict(self, name: str) -> tuple[CheckResult | None, str | None]:
        """The verdict in a fresh child with set-up and what the exercise needs; None where that changes nothing."""
        wanted = set(self._unit.needed(name))
        sources = [cell.source for cell in self._notebook.cells if _belongs(cell, wanted)]
        return self._cleanly(sources, lambda ask: self._verdict(name, ask)) or (None, None)

    def _cleanly(self, sources: list[str], judged):
        """What `judged` makes of a fresh child with these cells alone; None where it is stopped, or no cleaner."""
        if not self._is_cleaner(sources):
            return None
        child = self._new_child()
        try:
            for source in sources:
                self._asked(child, {"op": "run", "source": source})
            return judged(lambda *request: self._asked(child, *request))
        except Stopped:
            return None
        finally:
            child.close()

    def _is_cleaner(self, sources: list[str]) -> bool:
        """Whether a session with these cells alone leaves out any that has been run."""
        return sources != self._history and not set(self._history) < set(sources)

    # -------------------------------------------------------------------------------------------- ordinary test cells

    def _test(self, cell: NotebookNode) -> Scored:
        """The score of an ordinary test cell, as nbgrader would give it; not refereed."""
        points = float(cell.metadata.nbgrader.points)
        outcome = self._tested(cell, points, self._ask)
        if outcome.scored.score < points and outcome.scored.reason != "invalid score":
            second = self._second_test(cell, points)
            if second is not None and second.scored.score > outcome.scored.score:
                outcome = second
                outcome.scored.second_try, outcome.scored.message = True, CLEAN_SESSION
        cell.outputs = outcome.outputs
        scored = outcome.scored
        if scored.reason is not None:
            if self._stopped is not None and scored.reason == "wrong":
                scored.reason, scored.message = self._stopped.reason, self._stopped.message
            elif self._answers and not any(map(self._changed, self._answers)) and scored.score == 0:
                missing = any(answer.metadata["autogradlab"].get("missing") for answer in self._answers)
                scored.reason = "missing" if missing else "not attempted"
        return scored

    def _tested(self, cell: NotebookNode, points: float, ask) -> "_Tested":
        # The child learns the proof with the request and gives it back only when the cell has come to its end.
        proof = secrets.token_hex(16)
        try:
            reply, events = ask({"op": "test", "source": cell.source, "proof": proof})
        except Stopped as stopped:
            said = [*harmless_to_nbgrader(assemble(stopped.outputs, self._left)), error("Stopped", stopped.message)]
            return _Tested(Scored(0.0, points, stopped.reason, stopped.message), said)
        printed = harmless_to_nbgrader(assemble(events, self._left))
        if reply.get("proof") != proof:
            raised = reply.get("error") if type(reply.get("error")) is dict else {}
            reason, said = limit_in(raised) or "wrong", _said(raised)
            shown = error(plain_text(raised.get("name")) or "NotRun", plain_text(raised.get("value")))
            return _Tested(Scored(0.0, points, reason, said), [*printed, shown])
        return _scored_value(reply, points, printed)

    def _second_test(self, cell: NotebookNode, points: float) -> "_Tested | None":
        """The test in a fresh child with the set-up cells and the answers that it is about; None where stopped."""
        own = {id(answer) for answer in self._answers}
        sources = [
            other.source
            for other in self._notebook.cells
            if other.cell_type == "code" and (other.metadata["autogradlab"]["role"] == "setup" or id(other) in own)
        ]
        return self._cleanly(sources, lambda ask: self._tested(cell, points, ask)) if own else None


@dataclass
class _Tested:
    scored: Scored
    outputs: list[NotebookNode]


def _scored_value(reply: dict, points: float, printed: list[NotebookNode]) -> _Tested:
    """The score of a test cell that came to its end with this value in its last line."""
    number, kind, text = reply.get("number"), reply.get("kind"), reply.get("text")
    shown = [_result({"text/plain": plain_text(text)})] if type(text) is str else []
    if kind in ("none", "other"):
        return _Tested(Scored(points, points), printed + shown)
    if kind == "number" and type(number) is float and 0 <= number <= points:
        told = plain_text(text) if float_of(text) == number else f"{number!r}"
        scored = Scored(number, points, None if number == points else "wrong")
        return _Tested(scored, [*printed, _result({"text/plain": told})])
    found = plain_text(text)[:200] if type(text) is str else "nothing"
    said = f"The test's last line gave {found}, which is not a number from 0 to {points:g}."
    return _Tested(Scored(0.0, points, "invalid score", said), [*printed, error("InvalidScore", said)])


def float_of(text) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _result(data: dict) -> NotebookNode:
    return NotebookNode(output_type="execute_result", metadata={}, execution_count=None, data=data)


def _belongs(cell: NotebookNode, exercises: set[str]) -> bool:
    """Whether a cell is set-up or the answer to one of the exercises."""
    if cell.cell_type != "code":
        return False
    is_setup = cell.metadata["autogradlab"]["role"] == "setup"
    return is_setup or cell.metadata.get("nbgrader", {}).get("grade_id") in exercises


def defined_in(source: str) -> set[str]:
    """The functions and classes that a cell's source defines at its top level; none of one of endless length."""
    if len(source) > LOOKED_INTO:
        return set()
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    kinds = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    return {statement.name for statement in body if isinstance(statement, kinds)}


def limit_in(raised) -> str | None:
    """The limit that an exception speaks of, so that the reason is the cause and not the symptom."""
    if type(raised) is not dict:
        return None
    name, value = plain_text(raised.get("name")), plain_text(raised.get("value"))
    files = [file for file in raised["files"] if type(file) is str] if type(raised.get("files")) is list else []
    refusals = ("can't allocate memory", "not enough memory", "CUDA out of memory")
    if name == "MemoryError" or any(words in value for words in refusals):
        return "memory"
    if "can't start new thread" in value:
        return "threads"
    if name == "OSError" and "Too many open files" in value:
        return "files"
    if name == "OSError" and ("No space left" in value or "File too large" in value or "quota" in value):
        return "disk"
    starters = {"subprocess.py", "popen_fork.py", "popen_spawn_posix.py", "popen_forkserver.py", "process.py"}
    if name in ("PermissionError", "BlockingIOError") and starters & set(files):
        return "processes"
    return None


def _said(raised) -> str:
    return f"{plain_text(raised.get('name'))}: {plain_text(raised.get('value'))}"[:2000]
