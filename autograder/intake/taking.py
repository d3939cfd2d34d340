"""The one call that makes a learner's folder ready for grading."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nbformat.notebooknode import NotebookNode

from autograder.intake.decoding import Unreadable
from autograder.intake.files import Folder, travelling
from autograder.intake.master import Master, MasterNotebook
from autograder.intake.recognising import assign
from autograder.intake.restoring import restore


@dataclass(frozen=True)
class Taken:
    """One notebook of a submission, ready to be run; plain data that can be sent to another process.

    `status` is `readable`; `unreadable`, when `message` says why, with file, line and cause; or `skipped`, when other
    notebooks of the assignment were handed in and this one was not, which nbgrader marks with 0.
    """

    notebook: str
    status: str
    #: nbformat 4.5, without outputs: every cell of the master that has a grade_id once, locked sources restored, with
    #: `autogradlab` in each cell's metadata: `role`, `changed`, and `missing` for an answer that was put back. A role
    #: is `setup`, `demonstration`, `answer`, `test`, `manual` (a person marks it), `given` (any other cell of the
    #: release) or `added`.
    node: NotebookNode | None = None
    #: What was changed, a sentence each.
    repairs: tuple[str, ...] = ()
    #: What an instructor should look at, a sentence each.
    flags: tuple[str, ...] = ()
    message: str = ""
    #: Everything that lies beside the notebook while it runs: the learner's files, over them the assignment's own.
    files: Mapping[str, bytes] = field(default_factory=dict)


def take(folder: Path, master: Master) -> list[Taken]:
    """What became of each notebook of the assignment, in the master's order; nothing that was handed in raises."""
    found = Folder.read(folder)
    files, replaced = travelling(found, master)
    taken = []
    for name, chosen in assign(found, master).items():
        repairs, flags = [*replaced], [*found.flags, *chosen.flags]
        if isinstance(chosen.notebook, Unreadable):
            taken.append(Taken(name, "unreadable", None, tuple(repairs), tuple(flags), str(chosen.notebook), files))
        elif chosen.notebook is None:
            message = f"{name}.ipynb was not handed in. It gets 0, as nbgrader gives; expected it in the folder."
            taken.append(Taken(name, "skipped", None, tuple(repairs), tuple(flags), message, files))
        else:
            repairs += chosen.repairs
            taken.append(_restored(chosen.notebook, master.notebooks[name], repairs, flags, files))
    return taken


def _restored(node, master: MasterNotebook, repairs: list[str], flags: list[str], files: Mapping[str, bytes]) -> Taken:
    """The notebook in the master's shape, or unreadable if it has nothing of the master's."""
    try:
        restored = restore(node, master)
    except Unreadable as error:
        return Taken(master.name, "unreadable", None, tuple(repairs), tuple(flags), str(error), files)
    repairs, flags = [*repairs, *restored.repairs], [*flags, *restored.flags]
    return Taken(master.name, "readable", restored.node, tuple(repairs), tuple(flags), "", files)
