"""The `export` command: final scores in a file for people, for Canvas or for Moodle."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from autograder.exports.plugins import CanvasExport, CourseExport, MoodleExport, exported
from autograder.folders import Folders

FORMS = {"csv": CourseExport, "canvas": CanvasExport, "moodle": MoodleExport}


def export(
    assignments: Iterable[str] = (),
    root: Path | None = None,
    form: str = "csv",
    to: Path | None = None,
    into: Path | None = None,
    columns: Mapping[str, str] | None = None,
    partial: bool = False,
) -> tuple[Path, list[str]]:
    """The file that was written, and a sentence for each learner without a score in it.

    `into` is a file that the system exported, to be filled in; `columns` has names of columns by assignment. Without
    either the course's own configuration of the plugins holds.
    """
    traits: dict = {"assignment": list(assignments)}
    if to:
        traits["to"] = str(to)
    if form != "csv":
        traits |= {"partial": True} if partial else {}
        traits |= {"into": str(into)} if into else {}
        traits |= {"columns": dict(columns)} if columns else {}
    return exported(FORMS[form], Folders(root), **traits)
