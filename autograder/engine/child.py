"""What runs in the sandbox: a learner's cells, and the cases that the referee asks for. Nothing here makes a verdict.

The module's own names are bound before a learner's code runs; what that code then does to this process can spoil its
own answers only, because they are compared outside.
"""

import ast
import builtins
import contextlib
import decimal
import fractions
import gc
import io
import linecache
import math
import numbers
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path

import numpy
import torch
from autogradlab import units
from autogradlab.checking import Answer, AnswerRaised
from autogradlab.encoding import EncodingError, encode
from autogradlab.observation import message_of, observe
from autogradlab.state import preserved
from IPython.core.formatters import PlainTextFormatter
from IPython.core.inputtransformer2 import TransformerManager

from autograder.engine.shell import MAX_TEXT, Shell, redirect
from autograder.engine.wire import ChildSide, Gone
from autograder.trials import Trial

_BUILTINS = dict(vars(builtins))
# Windows has none.
_TIMERS = [getattr(signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF") if hasattr(signal, name)]
_FILTERS = list(warnings.filters)
_NO_NUMBER = (type(None), bool, str, bytes, list, tuple, dict, set, frozenset, numpy.bool_)
_NUMBERS = {int, float, fractions.Fraction, decimal.Decimal, *(numpy.dtype(code).type for code in "bhilqBHILQefdg")}
_ARRAYS = (torch.Tensor, torch.nn.Parameter, numpy.ndarray)


class Child:
    """One notebook's process: answers requests until the referee has no more."""

    def __init__(self, channel: ChildSide, shell: Shell, scratch: Path, entered: dict[str, str]):
        self._channel, self._shell, self._scratch, self._entered = channel, shell, scratch, entered
        self._trials: dict[str, Trial] = {}
        self._format = PlainTextFormatter()
        shell.outputs.send = channel.event

    def serve(self) -> None:
        """Answer requests; returns when the referee closes the socket."""
        answers = {
            "open": self._open,
            "run": self._run,
            "test": self._test,
            "look": self._look,
            "observe": self._observe,
            "predict": self._predict,
        }
        with contextlib.suppress(Gone):
            while True:
                request = self._channel.request()
                try:
                    reply = answers[request["op"]](request)
                except MemoryError:
                    reply = {"failed": "MemoryError"}
                self._reply(reply)

    def _reply(self, reply: dict) -> None:
        self._settle()
        try:
            self._channel.reply(reply)
        except EncodingError as error:
            self._channel.reply({"failed": str(error)[:2000]})

    def _settle(self) -> None:
        """Put back what a cell may have changed of the process around it."""
        vars(builtins).update(_BUILTINS)
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        threading.setprofile(None)
        os.chdir(self._scratch)
        gc.enable()
        redirect(self._shell)
        self._shell.outputs.flush()

    def _open(self, request: dict) -> dict:
        """Seed every random stream; read the exercises of a unit, if there is one, before any cell has run."""
        seed = request["seed"]
        torch.manual_seed(seed)
        numpy.random.seed(seed % (1 << 32))
        random.seed(seed)
        redirect(self._shell)
        if request["unit"]:
            # A copy of its own: what a notebook does to the functions of `cases` is not what is observed.
            own = units.preload(request["unit"], self._scratch)
            del sys.modules[own.cases.__name__]
            units.preload(request["unit"], self._scratch)
            self._trials = {name: Trial(exercise) for name, exercise in own.exercises.items()}
            # Its functions bear the names of the answers; nobody is to take one for a solution.
            (self._scratch / "cases.py").unlink()
        return {"entered": self._entered}

    def _run(self, request: dict) -> dict:
        """Run an ordinary cell as a notebook does; its outputs, errors included, go out as events."""
        result = self._shell.run_cell(request["source"], store_history=True)
        error = result.error_before_exec or result.error_in_exec
        return {"count": self._shell.execution_count - 1, "error": None if error is None else _error(error)}

    # ---------------------------------------------------------------------------------------- ordinary test cells

    def _test(self, request: dict) -> dict:
        """Run a test cell of plain Python outside of the shell's hooks; `proof` comes back if it ran to its end."""
        self._shell.user_ns["__builtins__"] = builtins
        with warnings.catch_warnings():
            warnings.filters[:] = _FILTERS
            try:
                value = self._executed(request["source"])
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit and whatever else a learner's program raises is a failed test
                return {"proof": None, "error": _error(error)}
        return {"proof": request["proof"], "error": None} | self._value(value)

    def _executed(self, source: str):
        """The value of the cell's last line, if that is an expression; None otherwise."""
        file = f"<test {abs(hash(source))}>"
        text = TransformerManager().transform_cell(source)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        tree = ast.parse(text, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None and source.rstrip().endswith(";"):
            tree.body.append(last)
            last = None
        names = self._shell.user_ns
        exec(compile(tree, file, "exec"), names)
        return None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), names)

    def _value(self, value) -> dict:
        """The value of a test's last line: as text, and as a number where it is meant as a score."""
        if value is None:
            return {"text": None, "number": None, "kind": "none"}
        text = str(self._format(value))[:MAX_TEXT]
        kind = type(value)
        if kind in _NO_NUMBER:
            return {"text": text, "number": None, "kind": "other"}
        if kind in _ARRAYS:
            if math.prod(value.shape) != 1 or value.dtype in (torch.bool, numpy.dtype(bool)):
                return {"text": text, "number": None, "kind": "other"}
            value = value.item()
        if type(value) in _NUMBERS:
            return {"text": text, "number": float(value), "kind": "number"}
        # An object of a class that is none of these but passes for one stands where a number or nothing should: its
        # own methods would say how large it is.
        passes = isinstance(value, (numbers.Number, *_ARRAYS)) or kind.__module__ == "__main__"
        return {"text": text, "number": None, "kind": "own" if passes else "other"}

    # ----------------------------------------------------------------------------------------------------- exercises

    def _answer(self, request: dict) -> Answer:
        name = request["exercise"]
        return Answer(self._trials[name].exercise, self._shell.user_ns.get(name, ...))

    def _look(self, request: dict) -> dict:
        """What the notebook holds under an exercise's name."""
        return self._answer(request).look()

    def _observe(self, request: dict) -> dict:
        """What the program does in the cases asked for: (seed, index, dtype, device, whether costs count)."""
        name = request["exercise"]
        trial, program = self._trials[name], self._shell.user_ns.get(name, ...)
        describe, observations = request["describe"], []
        with preserved(0), contextlib.redirect_stderr(io.StringIO()):
            for seed, index, dtype, device, costed in request["cases"]:
                exercise = trial.exercise if costed else trial.cheap
                observations.append(observe(exercise, program, seed, index, dtype, device, describe=describe))
        return {"observations": observations}

    def _predict(self, request: dict) -> dict:
        """The answers of a prediction exercise: what the program returns."""
        try:
            return {"given": encode(self._answer(request).given()), "raised": None}
        except AnswerRaised as error:
            name, message = error.args
            return {"given": None, "raised": {"name": name, "value": message}}


def _error(error: BaseException) -> dict:
    """An exception as plain data, with the names of the files that it came through."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return {
        "name": type(error).__name__[:200],
        "value": message_of(error),
        "files": [Path(file).name for file in files[-40:]],
    }


def _close_output() -> None:
    """Leave the file behind that all children and their parent have for output: what one writes, another can read."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def serve(channel: ChildSide, shell: Shell, scratch: Path, entered: dict[str, str]) -> None:
    """Answer the referee's requests about one notebook; `entered` is what the sandbox said when it was entered."""
    _close_output()
    Child(channel, shell, scratch, entered).serve()
