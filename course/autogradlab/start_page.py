"""The first page of a learner's copy: the map of the course, what is done, and how to work with it."""

from pathlib import Path

from autogradlab.outline import DONE, PARTLY, UNTOUCHED
from autogradlab.overview import alt_text, map_svg, next_words, state_of
from autogradlab.updates import put

PAGE, MAP = "start.md", "map.svg"

HELP = """\
## How to work with it

- Open a unit by its name above. Run a cell with Shift+Enter; Run, *Run All Cells* runs the whole notebook.
- Write your answer into the cell below an exercise, run it, then run the `check` below it. Nothing is sent anywhere.
- Hints stand folded above each answer; nobody counts whether you open them. Tab reaches them, Enter opens them.
- **Validate**, above the notebook, checks all of your saved answers in a fresh kernel. It lists those that are not
  right yet, also those that you have not begun.
- Ctrl+B (macOS: Command+B) hides the list of files and brings it back. With very large type, the button **Notebook**,
  above the notebook, opens it without anything around it.
- These help within any unit, in a cell of your own:

| write | and you get |
|---|---|
| `from autogradlab import progress; progress()` | this map, as it is now |
| `from autogradlab import smaller; smaller("exercise")` | a smaller case in which your answer does something else |
| `from autogradlab import reset; reset("exercise")` | the answer cell as it was given out |
| `from autogradlab import solutions; solutions("exercise")` | other right answers, once yours is right |

An update of the course keeps all that you wrote; of every file that it changes, a copy is in the folder `kept`.
"""


def write(units: list, folder: Path) -> None:
    """Writes the page and its picture into the folder of the learner's copy."""
    picture = map_svg(units)
    if picture is not None:
        put(picture, folder / MAP)
    put(page(units, picture is not None), folder / PAGE)


def page(units: list, has_picture: bool) -> str:
    """The page as Markdown, for these units as a learner has them."""
    lines = ["# Tensors and Autograd", "", next_words(units, _link), ""]
    lines += [
        "This page was made at the last start of `run.py lab`; what is done by now, `progress()` says in any unit.",
        "",
        "## The units",
        "",
        "| unit | state | requires | right | begun | untouched |",
        "|---|---|---|---|---|---|",
    ]
    for unit in units:
        requires = ", ".join(name.partition("_")[0].lstrip("0") for name in unit.requires) or "-"
        counts = " | ".join(str(unit.count(state)) for state in (DONE, PARTLY, UNTOUCHED))
        lines.append(f"| {_link(unit)} | {state_of(unit)} | {requires} | {counts} |")
    if has_picture:
        lines += ["", f"![{alt_text(units)}]({MAP})"]
    return "\n".join([*lines, "", HELP])


def _link(unit) -> str:
    """The unit's number and title, which lead to it."""
    return f"[{unit.number} {unit.title}]({unit.name}/{unit.name}.ipynb)"
