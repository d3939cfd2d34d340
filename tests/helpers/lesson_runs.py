"""A unit's lesson run as a whole, for the tests that compare what it says with what happens."""

import contextlib
import io
import time
import types
import warnings

import pytest
import torch
from autogradlab.diagnosis import judge
from autogradlab.recorded import visible

from autograder import lessons


def executed(lesson):
    """The names, the output and the processor time of all cells but the checks, with every reveal shown.

    A warning is an error.
    """
    cells = [cell for cell in lesson.cells if cell.kind == "code" and cell.role != "test"]
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setenv("AUTOGRADLAB_REVEAL", "all")
        began = time.process_time()
        names = lessons.execute(lesson, cells)
        seconds = time.process_time() - began
    return types.SimpleNamespace(names=names, output=output.getvalue(), seconds=seconds)


def unanswered(lesson, cells):
    """The lines that these cells print when nothing was predicted."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        lessons.execute(lesson, cells)
    return output.getvalue().splitlines()


def prose(lesson):
    """All text of the lesson in one line."""
    return " ".join(" ".join(cell.source for cell in lesson.cells if cell.kind == "markdown").split())


def verdict(lesson, exercise, program):
    """The verdict on a program in the visible cases, with no wrong program at hand."""
    reference = lessons.references(lesson)[exercise.name]
    return judge(exercise, visible(exercise, program), visible(exercise, reference), [])


def tracked(*values):
    """Tracked leaves of float32: a number makes a 0-dim one, a list a vector."""
    leaves = [torch.tensor(value, dtype=torch.float32, requires_grad=True) for value in values]
    return leaves if len(leaves) > 1 else leaves[0]


def nodes_behind(tensor):
    """All nodes behind a tensor, each once."""
    seen, waiting = [], [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.append(node)
            waiting += [following for following, _ in node.next_functions]
    return seen
