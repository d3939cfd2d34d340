"""A unit's lesson run as a whole, for the tests that compare what it says with what happens."""

import contextlib
import io
import time
import types
import warnings

import pytest

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
