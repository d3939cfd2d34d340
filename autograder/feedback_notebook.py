"""What a learner handed in, as a notebook with the verdict below each test and no line of a test that was hidden."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from autogradlab.verdicts import MIME
from nbformat.notebooknode import NotebookNode

from autograder import pages
from autograder.asked import Asked
from autograder.execution import checked_exercise
from autograder.folders import Folders
from autograder.graded_cells import UNGRADED
from autograder.intake.master import role
from autograder.records import GradedSubmission

NOT_SHOWN = "# The test is not shown."
#: Characters of a text that the verdicts repeat.
SHOWN = 2000


def write_all(folders: Folders, assignment: str, submission: GradedSubmission, asked: Asked) -> list[Path]:
    """The notebooks of one submission, written beside its page; none of a notebook that could not be graded."""
    place, written = folders.step("feedback", submission.student, assignment), []
    for notebook in submission.notebooks:
        name, path = notebook["notebook"], place / f"{notebook['notebook']}.ipynb"
        graded = folders.step("autograded", submission.student, assignment) / f"{name}.ipynb"
        if notebook["status"] in UNGRADED or not graded.is_file():
            path.unlink(missing_ok=True)  # an earlier run's
            continue
        released = folders.step("release", ".", assignment) / f"{name}.ipynb"
        node = with_verdicts(
            nbformat.v4.reads(graded.read_text(encoding="utf-8")),
            [row for row in submission.rows if row["notebook"] == name],
            dict(_sources(released)),
            asked,
        )
        written.append(pages.write(path, nbformat.v4.writes(node) + "\n"))
    return written


def with_verdicts(node: NotebookNode, rows: list[dict], released: dict[str, str], asked: Asked) -> NotebookNode:
    """The notebook as it was graded, for the learner: `released` has the tests as they may be seen, by grade_id."""
    told, cells = {row["cell"]: row for row in rows}, [_heading(rows)]
    for cell in node.cells:
        grade_id, its_role = cell.metadata.get("nbgrader", {}).get("grade_id"), role(cell.metadata)
        is_refereed = checked_exercise(cell) is not None
        kept = {key: cell[key] for key in ("cell_type", "id", "source", "attachments") if key in cell}
        if its_role in ("test", "setup") and not is_refereed:
            kept["source"] = released.get(grade_id, cell.source if its_role == "setup" else NOT_SHOWN)
        if cell.cell_type == "code":
            kept |= {"execution_count": cell.get("execution_count"), "outputs": []}
            if its_role != "test" or is_refereed:
                kept["outputs"] = list(_harmless(cell.outputs, asked))
        tags = cell.metadata.get("tags")
        cells.append(nbformat.from_dict(kept | {"metadata": {"tags": list(tags)} if tags else {}}))
        if grade_id in told:
            cells.append(_verdict(told[grade_id], is_refereed))
    kept = {key: node.metadata[key] for key in ("kernelspec", "language_info") if key in node.metadata}
    return nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": kept, "cells": cells})


def _sources(path: Path) -> Iterator[tuple[str, str]]:
    """Yields (grade_id, source) of the marked cells of a release, if there is one."""
    for cell in nbformat.read(path, as_version=4).cells if path.is_file() else ():
        if "grade_id" in cell.metadata.get("nbgrader", {}):
            yield cell.metadata.nbgrader.grade_id, cell.source


def _harmless(outputs: Iterable[NotebookNode], asked: Asked) -> Iterator[NotebookNode]:
    """Yields the outputs without those that have a line of an ordinary test, or could have one where nobody reads."""
    for output in outputs:
        data = output.get("data", {})
        texts = [text for kind, text in data.items() if kind.startswith("text/") and isinstance(text, str)]
        texts += [output.get("text", ""), output.get("evalue", ""), "\n".join(output.get("traceback", ()))]
        pictures = [kind for kind in data if not kind.startswith("text/") and kind != MIME]
        if not asked.tests or not (pictures or any(asked.without_tests(text) != text for text in texts)):
            yield output


def _heading(rows: list[dict]) -> NotebookNode:
    waiting = [row for row in rows if row["status"] == "to be marked"]
    score = sum(row["score"] for row in rows if row not in waiting)
    points = sum(row["points"] for row in rows)
    lines = [f"**This is what was graded: {pages.number(score)} of {pages.number(points)} points.**"]
    if waiting:
        lines.append(f"{pages.number(sum(row['points'] for row in waiting))} more wait for a person to mark them.")
    lines.append("The verdicts stand below the tests. Changes here are not handed in.")
    return _markdown("verdict-of-all", " ".join(lines))


def _verdict(row: dict, is_refereed: bool) -> NotebookNode:
    """A cell that says how an answer came out; what the referee said stands in its own output already."""
    sign, words = pages.STATUSES[row["status"]]
    lines = [f"**{sign} {_quiet(row['exercise'])}: {words}**"]
    if row["status"] != "to be marked":
        lines[0] += f", {pages.number(row['score'])} of {pages.number(row['points'])} points"
    if row["manual"] is not None and not row["by_hand"]:
        lines.append(f"A person has set them; the automatic score was {pages.number(row['automatic'] or 0.0)}.")
    lines += [_quiet(row[key]) for key in ("limit", "note") if row[key]]
    if not is_refereed and row["text"]:
        lines.append("\n".join(f"    {line}" for line in pages.shown(row["text"], SHOWN).splitlines()))
    for comment in row["comments"]:
        quoted = "\n".join(f"> {line}" for line in pages.shown(comment, SHOWN).splitlines())
        lines.append(f"> **Comment**\n>\n{quoted}")
    return _markdown(f"verdict-{row['cell']}", "\n\n".join(lines))


def _quiet(text: str) -> str:
    """Text of which Markdown makes nothing."""
    return "".join(f"\\{sign}" if sign in r"\`*_{}[]()#+-!<>|~$" else sign for sign in pages.shown(text, SHOWN))


def _markdown(identity: str, source: str) -> NotebookNode:
    safe = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in identity)
    return nbformat.from_dict({"cell_type": "markdown", "id": safe[:64], "metadata": {}, "source": source})
