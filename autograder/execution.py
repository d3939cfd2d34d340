"""nbgrader's execution of a submission, with demonstrations left out and a verdict asked of every check."""

import ast
import secrets
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader.preprocessors import DeduplicateIds, Execute
from nbgrader.utils import is_grade, is_solution
from traitlets import List

RECORD = "application/vnd.autogradlab+json"

# nbgrader's own lists with DeduplicateIds and Execute replaced.
SANITIZE_PREPROCESSORS = [
    "nbgrader.preprocessors.ClearOutput",
    "autograder.execution.DeduplicateCells",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
AUTOGRADE_PREPROCESSORS = [
    "autograder.execution.ExecuteAnswers",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]


class DeduplicateCells(DeduplicateIds):
    """nbgrader's DeduplicateIds, which leaves empty metadata that OverwriteCells then stumbles over."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, cell_index: int) -> tuple[NotebookNode, dict]:
        """The cell; an earlier copy of a cell with the same id is an ordinary cell from here on."""
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.metadata.get("nbgrader") == {}:
            del cell.metadata["nbgrader"]
        return cell, resources


class ExecuteAnswers(Execute):
    """nbgrader's Execute, of set-up, answers, checks and whatever the learner added or changed.

    Demonstrations that equal the release are not run, since nothing below needs them. Learners' own tags are dropped
    first, because nbgrader gives full marks to a test cell that did not run; for the same reason a `check("...")` that
    left no record is marked as failed. A determined cheat is not stopped: learners' code runs beside the check.
    """

    # ipykernel warns about its unencrypted sockets at every start; they are on this machine only.
    extra_arguments = List(["--IPKernelApp.log_level=40"]).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict, km=None) -> tuple[NotebookNode, dict]:
        """The notebook with outputs, as nbgrader's Execute gives it."""
        skip = f"skip-{secrets.token_hex(8)}"
        self.skip_cells_with_tag = skip
        demonstrations = self._demonstrations(resources["nbgrader"])
        for cell in nb.cells:
            untouched = "nbgrader" not in cell.metadata and cell.source.strip() in demonstrations
            cell.metadata["tags"] = [skip] if untouched else []
        try:
            nb, resources = super().preprocess(nb, resources, km)
        finally:
            for cell in nb.cells:
                del cell.metadata["tags"]
        for cell in nb.cells:
            demand_verdict(cell)
        return nb, resources

    def _demonstrations(self, ids: dict) -> set[str]:
        """Sources of the release's demonstration cells."""
        coursedir = self.parent.parent.coursedir  # preprocessor, exporter, converter
        folder = Path(coursedir.format_path(coursedir.release_directory, ".", ids["assignment"]))
        path = folder / f"{ids['notebook']}.ipynb"
        if not path.is_file():
            return set()
        released = nbformat.read(path, as_version=4)
        return {cell.source.strip() for cell in released.cells if "demonstration" in cell.metadata.get("tags", [])}


def checked_exercise(cell: NotebookNode) -> str | None:
    """The exercise that a test cell checks: its whole source is `check("name")`; None for every other cell."""
    if not is_grade(cell) or is_solution(cell) or cell.cell_type != "code":
        return None
    try:
        statements = ast.parse(cell.source).body
    except SyntaxError:
        return None
    match statements:
        case [ast.Expr(ast.Call(ast.Name("check"), [ast.Constant(str(name))], []))]:
            return name
    return None


def record_of(cell: NotebookNode) -> dict | None:
    """The record that `check` left in a cell's outputs, or None."""
    for output in cell.get("outputs", []):
        record = output.get("data", {}).get(RECORD)
        if isinstance(record, dict):
            return record
    return None


def error_of(cell: NotebookNode) -> str:
    """The last exception among a cell's outputs, as one line; empty if there is none."""
    errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
    return f"{errors[-1].ename}: {errors[-1].evalue}" if errors else ""


def demand_verdict(cell: NotebookNode) -> None:
    """Mark a check without a record as failed, since nbgrader reads no output as full marks."""
    name = checked_exercise(cell)
    if name is None or record_of(cell) is not None or error_of(cell):
        return
    message = f'check("{name}") ran and left no verdict; was the name check given to something else?'
    cell.outputs = [
        nbformat.v4.new_output("error", ename="NoVerdict", evalue=message, traceback=[f"NoVerdict: {message}"])
    ]
