"""What is taken off late submissions, brought up to their scores as they are now."""

from collections.abc import Iterable

from autograder.folders import Folders
from autograder.gradebook import Writer


def settle(folders: Folders, assignments: Iterable[str]) -> list[tuple[str, str]]:
    """(assignment, student) of every submission whose penalty is another now.

    A person may have changed a score, a due date or an extension since the submission was graded, and nbgrader leaves
    the penalty at what it was then. What is taken off is the course's late submission plugin's to say.
    """
    with Writer(folders) as writer:
        return [(one, student) for one in assignments for student in writer.settle_penalties(one)]
