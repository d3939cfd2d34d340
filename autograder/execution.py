"""nbgrader's own doors, `nbgrader autograde` and the formgrader's button, with the engine behind them."""

import ast
import atexit
from pathlib import Path

from autogradlab.verdicts import MIME
from nbformat.notebooknode import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

# nbgrader's own lists, with intake and engine in the place of what repairs and runs a submission there.
SANITIZE_PREPROCESSORS = ["nbgrader.preprocessors.ClearOutput"]
AUTOGRADE_PREPROCESSORS = [
    "autograder.execution.ExecuteByEngine",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]


class NotGraded(Exception):
    """A submission that cannot be graded, in words; nbgrader reports it and goes on with the next."""


class ExecuteByEngine(NbGraderPreprocessor):
    """What stands in for nbgrader's Execute: the submission as it was handed in, taken in, run and judged by us.

    Outputs are such that nbgrader reads from them the very scores that `run.py grade` writes.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """The notebook as the engine ran it."""
        ids = resources["nbgrader"]
        root = Path(self.parent.parent.coursedir.root)  # preprocessor, exporter, converter
        for result, node, _ in _job_of(root, ids["assignment"], ids["student"]):
            if result["notebook"] == ids["notebook"]:
                if node is None:
                    raise NotGraded(f"{ids['student']}, {ids['assignment']}: {result['message']}")
                for sentence in (*result["repairs"], *result["flags"]):
                    self.log.warning("%s", sentence)
                node.metadata = nb.metadata | node.metadata
                return node, resources
        raise NotGraded(f"{ids['assignment']} has no notebook {ids['notebook']}; was it generated?")


def enter_assignment(assignment: str, student: str, notebooks: list[str]) -> None:
    """Have the gradebook know the assignment as source/ has it, which nbgrader asks for before it grades.

    It is called by nbgrader, which names the submission's notebooks by their paths.
    """
    from autograder.folders import Folders
    from autograder.intake import Master

    above = Path(notebooks[0]).resolve().parents
    root = next(folder for folder in above if (folder / "nbgrader_config.py").is_file())
    Master.of(Folders(root), assignment)


_jobs = {}


def _job_of(root: Path, assignment: str, student: str):
    """The results of one submission; the process that ran the last one is kept, since its start takes seconds."""
    # Not at the top: Jupyter's server reads the configuration, and this module with it, at every start.
    from autograder import grading

    job, submission = grading.one(root, assignment, student, _jobs)
    return job.grade(submission)


@atexit.register
def _end_jobs() -> None:
    for job in _jobs.values():
        job.close()


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
    """The record that a verdict left in a cell's outputs, or None."""
    for output in cell.get("outputs", []):
        record = output.get("data", {}).get(MIME)
        if isinstance(record, dict):
            return record
    return None
