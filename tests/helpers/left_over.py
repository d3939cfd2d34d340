"""Processes that a grading run should have taken with it."""

import os
import re
import time
from pathlib import Path

from autograder.sandbox import scratch


def processes_of(root):
    """Processes that were started with something of this folder in their environment, or work in an orphaned one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment, place = (process / "environ").read_bytes(), os.readlink(process / "cwd")
        except OSError:
            continue
        maker = re.search(rf"/{scratch.PREFIX}(\d+)-", place)
        if str(root).encode() in environment or maker and not Path("/proc", maker[1]).exists():
            found.append(int(process.name))
    return found


def left_over(root):
    """The processes that are there still after a while, since ending takes its time."""
    deadline = time.monotonic() + 10
    while (found := processes_of(root)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
