"""JSON of whatever shape read as a notebook of format 4.5, with what had to be changed for that."""

from collections import Counter

import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.intake.decoding import Unreadable, read_json

#: More than any notebook has, and few enough to be matched.
CELLS = 10_000
#: Characters of all sources; pictures belong to outputs and attachments, which this does not count.
SOURCES = 8 << 20
MAJOR, MINOR = 4, 5
TYPES = ("code", "markdown", "raw")


def read_notebook(data: bytes, name: str) -> tuple[NotebookNode, list[str]]:
    """The notebook without outputs, and a sentence for each repair. Raises Unreadable, in words."""
    content, repairs = read_json(data, name)
    if not isinstance(content, dict):
        raise Unreadable(_shape(name, f"it is a {_kind(content)}"))
    content = _upgraded(content, name, repairs)
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise Unreadable(_shape(name, f"its cells are a {_kind(cells)}" if "cells" in content else "it has no cells"))
    if len(cells) > CELLS:
        raise Unreadable(f"{name} has {len(cells)} cells, more than {CELLS}. Ask for the notebook without them.")
    kept = _cells(cells, name, repairs)
    if (size := sum(len(cell.source) for cell in kept)) > SOURCES:
        raise Unreadable(
            f"{name} has {size} characters in its cells, more than {SOURCES}. Ask for it with its data in files."
        )
    metadata = content.get("metadata")
    node = {"metadata": metadata if isinstance(metadata, dict) else {}, "nbformat": MAJOR, "nbformat_minor": MINOR}
    return nbformat.from_dict(node | {"cells": kept}), repairs


def _upgraded(content: dict, name: str, repairs: list[str]) -> dict:
    """The content in the shape of format 4."""
    major, minor = content.get("nbformat"), content.get("nbformat_minor", 0)
    if not _is_number(major):
        if "worksheets" in content or not isinstance(content.get("cells"), list):
            raise Unreadable(_shape(name, "it does not say its format"))
        repairs.append(f"{name} does not say its format; read as a notebook of format {MAJOR}.")
        return content
    if major > MAJOR:
        raise Unreadable(
            f"{name} is a notebook of format {major}, and this program knows {MAJOR}. "
            "Ask for it saved by an older program, or grade with a newer one."
        )
    if major < MAJOR:
        repairs.append(f"{name} was a notebook of format {major}; upgraded to {MAJOR}.")
        return _converted(content, name, major)
    if _is_number(minor) and minor > MINOR:
        repairs.append(f"{name} is of format {major}.{minor}; read as {MAJOR}.{MINOR}, which holds all that is graded.")
    return content


def _converted(content: dict, name: str, major: int) -> dict:
    """nbformat's own upgrade, which takes a sound notebook for granted."""
    try:
        node = nbformat.from_dict(content)
        if major < 3:
            node = nbformat.convert(node, 3)
        # Validation comes at the end, of what was made; only what the upgrade needs is looked at here.
        for sheet in node.worksheets:
            sheet.cells = [_plain_v3(cell) for cell in sheet.cells if isinstance(cell, dict)]
        upgraded = nbformat.v4.convert.upgrade(node, 3, 0)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError, nbformat.ValidationError) as error:
        cause = f"its upgrade from format {major} failed: {type(error).__name__}: {error}"
        raise Unreadable(_shape(name, cause)) from error
    # The upgrade makes ids up, which say nothing.
    return upgraded | {"cells": [{key: cell[key] for key in cell if key != "id"} for cell in upgraded.cells]}


def _plain_v3(cell: NotebookNode) -> NotebookNode:
    return NotebookNode(cell | {"outputs": []}) if cell.get("cell_type") == "code" else cell


def _cells(cells: list, name: str, repairs: list[str]) -> list[NotebookNode]:
    """Cells of the right shape; what is none is left out."""
    kept = []
    ids = Counter(cell["id"] for cell in cells if isinstance(cell, dict) and isinstance(cell.get("id"), str))
    for number, cell in enumerate(cells, 1):
        source = _text(cell.get("source")) if isinstance(cell, dict) else None
        if source is None:
            what = "its source is not text" if isinstance(cell, dict) else f"it is a {_kind(cell)}"
            repairs.append(f"Cell {number} of {name} is no cell ({what}); it was left out.")
            continue
        kind = cell.get("cell_type")
        if kind not in TYPES:
            repairs.append(f"Cell {number} of {name} has no type that is known ({str(kind)[:40]}); read as code.")
            kind = "code"
        metadata = cell.get("metadata")
        node = {"cell_type": kind, "source": source, "metadata": metadata if isinstance(metadata, dict) else {}}
        # A copied cell that kept its id says nothing of which is which.
        node["id"] = cell["id"] if ids.get(cell.get("id") if isinstance(cell.get("id"), str) else None) == 1 else ""
        if kind == "code":
            node |= {"outputs": [], "execution_count": None, "handed_in": _handed_in(cell)}
        elif attachments := _attachments(cell.get("attachments")):
            node["attachments"] = attachments
        kept.append(nbformat.from_dict(node))
    return kept


def _text(source: object) -> str | None:
    """A cell's source with the line ends that notebooks have, or None if it is no text."""
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        return None
    return "".join(lines).replace("\r\n", "\n")


def _attachments(value: object) -> dict | None:
    """Pictures in a text, where they have the shape that the format gives them."""
    if not isinstance(value, dict):
        return None
    return {
        name: bundle
        for name, bundle in value.items()
        if isinstance(bundle, dict) and all(isinstance(data, str) for data in bundle.values())
    }


def _handed_in(cell: dict) -> list[dict]:
    """The outputs that came with a cell, as far as they have the shape of one; nothing is graded by them."""
    outputs = cell.get("outputs")
    count = cell.get("execution_count")
    if not isinstance(outputs, list):
        return []
    return [output | {"count": count} for output in outputs if isinstance(output, dict)]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: object) -> str:
    names = {dict: "mapping", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")


def _shape(name: str, cause: str) -> str:
    return f"{name}, line 1: JSON, and not a notebook: {cause}. Ask for the notebook as JupyterLab saves it."
