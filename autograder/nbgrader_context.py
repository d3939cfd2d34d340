"""The one place that makes nbgrader at home here: its programs are found, its noise is not heard."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SAWarning


@contextmanager
def nbgrader_context() -> Iterator[None]:
    """Run nbgrader with this environment's programs on the path and without warnings that nobody here can act on."""
    path = os.environ.get("PATH", "")
    # nbgrader starts `alembic` by name when it makes a gradebook; without an activated environment that is not found.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), path])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Object of type .* not in session", SAWarning)
            yield
    finally:
        os.environ["PATH"] = path
