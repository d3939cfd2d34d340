"""One page per learner: what was asked, what their programs did, and a question for each that went wrong."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autograder import feedback_notebook, pages, records
from autograder.asked import Asked
from autograder.folders import Folders
from autograder.graded_cells import STOPPED, UNGRADED
from autograder.penalties import settle
from autograder.records import GradedSubmission, Records

MAX_BYTES = 300_000
# Characters of learner text kept per field, and entries per list: the first that makes a page small enough is used.
LIMITS = (5_000, 1_000, 200, 50)


def feedback(
    unit: str, root: Path | None = None, students: Iterable[str] | None = None, notebooks: bool = False
) -> list[Path]:
    """The pages written to `feedback/`, one per learner with a result, in the folder where nbgrader puts its own.

    Penalties for lateness follow the scores as they are now. With `notebooks`, what was graded lies beside each page,
    with the verdicts in place.
    """
    folders = Folders(root)
    settle(folders, [unit])
    with opened(folders) as written:
        return written.write_all(unit, students, notebooks)


class FeedbackPages:
    """Writes the pages of a course whose records are open."""

    def __init__(self, folders: Folders, found: Records):
        self._folders, self._records = folders, found
        self._titles: dict[str, str] = {}

    def write(
        self,
        assignment: str,
        student: str,
        result: dict | None = None,
        nodes: Mapping[str, Mapping] | None = None,
    ) -> Path:
        """The page of one submission; what grading noted and the notebooks as they were run are read unless given."""
        return self._write(assignment, self._records.submission(assignment, student, result, nodes))

    def write_all(self, assignment: str, students: Iterable[str] | None = None, notebooks: bool = False) -> list[Path]:
        """The page of every submission with a result, or of those of these students."""
        written = []
        asked = Asked.of(self._folders, assignment) if notebooks else None
        for one in self._records.submissions(assignment, students):
            written.append(self._write(assignment, one))
            if asked is not None:
                feedback_notebook.write_all(self._folders, assignment, one, asked)
        return written

    def path(self, assignment: str, student: str) -> Path:
        """Where the page of a submission lies."""
        return self._folders.step("feedback", student, assignment) / f"{assignment}.html"

    def _write(self, assignment: str, submission: GradedSubmission) -> Path:
        if assignment not in self._titles:
            self._titles[assignment] = self._folders.title(assignment)
        text = page(self._titles[assignment], submission)
        return pages.write(self.path(assignment, submission.student), text)


@contextmanager
def opened(folders: Folders) -> Iterator[FeedbackPages]:
    """What writes the pages of a course, with its gradebook open for reading as long as the context is."""
    with records.opened(folders) as found:
        yield FeedbackPages(folders, found)


def page(title: str, submission: GradedSubmission) -> str:
    """The page of one learner; nobody's code or words but their own are in it, and no test's."""
    rows = submission.rows
    waiting = [row for row in rows if row["status"] == "to be marked"]
    score = sum(row["score"] for row in rows if row not in waiting)
    content = {
        "title": f"Feedback: {title}",
        "student": submission.student,
        "exercises": [row | {"anchor": f"exercise-{number}"} for number, row in enumerate(rows, 1)],
        "has_grade": any(row["status"] not in UNGRADED for row in rows),
        "notebooks": submission.notebooks,
        "reason": submission.reason,
        "score": score,
        "points": sum(row["points"] for row in rows),
        "waiting": sum(row["points"] for row in waiting),
        "penalty": submission.penalty,
        "left": max(score - submission.penalty, 0.0),
        "is_current": submission.is_current,
        "STOPPED": STOPPED,
        "UNGRADED": UNGRADED,
    }
    for limit in LIMITS:
        text = pages.render("feedback.html.j2", limit=limit, details=True, **content)
        if len(text.encode()) <= MAX_BYTES:
            return text
    return pages.render("feedback.html.j2", limit=LIMITS[-1], details=False, **content)
