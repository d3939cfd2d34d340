"""Back to the beginning of one exercise."""

import json
import os
import sys
from pathlib import Path

from autogradlab import answers
from autogradlab.checking import answer_source, exercise_named, forget, program_named
from autogradlab.merging import grade_id, source_of
from autogradlab.passages import Code, Folded, Passage

RELEASED = ".released"  # beside the units' folders: the files as they were given out


def reset(name: str) -> Passage:
    """The exercise's answer cell as it was given out: this cell turns into it where it is the answer cell.

    Elsewhere it appears in a new cell below. What the notebook's answer was is shown, folded; no file is changed.
    """
    unit, _, _ = exercise_named(name)
    stub = _stub(unit, name)
    if stub is None:
        return Passage(
            f"The beginning of {name} is not on this machine.",
            f"It stands in the notebook that was given out: unpack unit {unit.name} again, into another folder.",
        )
    before = answer_source(program_named(name))
    forget(name)
    parts = []
    if before and before.strip() != stub.strip():
        parts.append(Folded(f"What `{name}` was until now\n{before.rstrip()}"))
    shell = _shell()
    if shell is None or os.environ.get("NBGRADER_EXECUTION"):
        return Passage(f"{name} as it was given out:", Code(stub), *parts)
    in_answer_cell = _cell_id(shell) == name
    shell.set_next_input(stub, replace=in_answer_cell)
    if in_answer_cell:
        return Passage(f"{name} is as it was given out. Run the cell when you have written your answer.", *parts)
    return Passage(
        f"{name} as it was given out stands in a new cell below.",
        "Take its text into the answer cell, which alone is graded, and delete the new cell. Next time, call reset in "
        "the answer cell itself: then that cell turns into it.",
        *parts,
    )


def _stub(unit, name):
    """The text of the answer cell in the released notebook; None where that is nowhere here."""
    file = f"{unit.name}.ipynb"
    places = [Path(unit.directory).parent / RELEASED / unit.name, answers.ROOT / "release" / unit.name]
    for place in places:
        if (place / file).is_file():
            cells = json.loads((place / file).read_bytes())["cells"]
            return next((source_of(cell) for cell in cells if grade_id(cell) == name), None)
    return None


def _shell():
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def _cell_id(shell):
    """The id of the cell that runs, where the editor tells it."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return (parent or {}).get("metadata", {}).get("cellId")
