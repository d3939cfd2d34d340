"""Notebooks damaged at random, as people, editors and bad luck damage them."""

import copy
import json

JUNK = [None, True, -1, 10**30, 1.5, "", "x", "\ud800", "\x00", "é\u2028", [], {}, [[]], {"a": {"b": [1]}}, ["a", 2]]


def drop(notebook, dice):
    cells = notebook["cells"]
    del cells[dice.randrange(len(cells))]


def double(notebook, dice):
    cells = notebook["cells"]
    cells.insert(dice.randrange(len(cells) + 1), copy.deepcopy(dice.choice(cells)))


def move(notebook, dice):
    cells = notebook["cells"]
    cells.insert(dice.randrange(len(cells)), cells.pop(dice.randrange(len(cells))))


def merge(notebook, dice):
    cells = notebook["cells"]
    place = dice.randrange(len(cells))
    if place + 1 < len(cells):
        below = cells.pop(place + 1)
        cells[place]["source"] = text(cells[place]) + "\n" + text(below)


def split(notebook, dice):
    cells = notebook["cells"]
    place = dice.randrange(len(cells))
    lines = text(cells[place]).splitlines(keepends=True)
    cut = dice.randrange(len(lines) + 1)
    lower = copy.deepcopy(cells[place])
    cells[place]["source"], lower["source"] = lines[:cut], lines[cut:]
    cells.insert(place + 1, lower)


def retype(notebook, dice):
    dice.choice(notebook["cells"])["cell_type"] = dice.choice(["code", "markdown", "raw", "heading", None])


def rewrite(notebook, dice):
    dice.choice(notebook["cells"])["source"] = dice.choice(["", "pass", "def f(:", "%%bash\nls", "a\r\nb", "x" * 10**5])


def strip(notebook, dice):
    share = dice.choice([0.2, 1.0])
    for cell in notebook["cells"]:
        if dice.random() < share:
            cell["metadata"] = {}
            cell.pop("id", None)


def rename(notebook, dice):
    marked = [
        cell for cell in notebook["cells"] if isinstance(cell.get("metadata"), dict) and "nbgrader" in cell["metadata"]
    ]
    if marked:
        marks = dice.choice(marked)["metadata"]["nbgrader"]
        if isinstance(marks, dict):
            others = [cell["metadata"]["nbgrader"] for cell in marked]
            ids = [other.get("grade_id") for other in others if isinstance(other, dict)]
            marks["grade_id"] = dice.choice([*ids, "stranger", "", 7])


def tag(notebook, dice):
    metadata = dice.choice(notebook["cells"]).get("metadata")
    if isinstance(metadata, dict):
        metadata["tags"] = dice.choice([["skip-execution"], ["a", 1], "setup", {"x": 1}])


def litter(notebook, dice):
    """Puts junk in the place of a value anywhere in the notebook."""
    node = notebook
    for _ in range(dice.randrange(1, 6)):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = dice.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and dice.random() < 0.8:
            node = node[key]
        else:
            node[key] = dice.choice(JUNK)
            return


DAMAGES = [drop, double, move, merge, split, retype, rewrite, strip, rename, tag, litter]


def text(cell):
    source = cell.get("source")
    return source if isinstance(source, str) else "".join(map(str, source)) if isinstance(source, list) else ""


def damaged(notebook, dice):
    """The bytes of a notebook after a few damages, sometimes of its bytes too."""
    notebook = copy.deepcopy(notebook)
    for _ in range(dice.randrange(1, 8)):
        cells = notebook.get("cells")
        if not isinstance(cells, list) or not cells or not all(isinstance(cell, dict) for cell in cells):
            break
        dice.choice(DAMAGES)(notebook, dice)
    encoding = dice.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])
    data = json.dumps(notebook, indent=dice.choice([None, 1])).encode(encoding)
    if dice.random() < 0.15:
        data = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data[: dice.randrange(len(data))] if dice.random() < 0.05 else data)
