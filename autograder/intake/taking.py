"""The one call that makes a learner's folder ready for grading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nbformat.notebooknode import NotebookNode

from autograder.bounds import TooLong, at_most, no_more_than
from autograder.intake.decoding import Unreadable
from autograder.intake.files import Folder, travelling
from autograder.intake.master import Master, MasterNotebook
from autograder.intake.recognising import assign
from autograder.intake.restoring import restore
from autograder.pages import shown

#: Seconds of computing, and bytes of addresses, that taking in one submission may take.
SECONDS = 60
MEMORY = 2 << 30
#: Sentences of one kind that are told, and characters of one: a notebook of ten thousand cells has ten thousand.
SENTENCES, SENTENCE = 100, 1000


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


def take(folder: Path | Folder, master: Master) -> list[Taken]:
    """What became of each notebook of the assignment, in the master's order; nothing that was handed in raises."""
    try:
        with no_more_than(MEMORY), at_most(SECONDS):
            return [_told(one) for one in _taken(folder, master)]
    except TooLong:
        limit = f"{SECONDS} s"
    except MemoryError:
        limit = f"{MEMORY >> 20} MiB of memory"
    message = f"It took more than {limit} to be read, as no notebook does that a person wrote. Ask for it again."
    return [Taken(name, "unreadable", message=f"{name}.ipynb: {message}") for name in master.notebooks]


def _told(taken: Taken) -> Taken:
    """The same, with sentences that a terminal and a page can show: few, short, each one line without hidden signs."""
    repairs, flags = _few(taken.repairs), _few(taken.flags)
    return replace(taken, repairs=repairs, flags=flags, message=_line(taken.message))


def _few(sentences: Sequence[str]) -> tuple[str, ...]:
    kept = tuple(map(_line, sentences[:SENTENCES]))
    return (
        kept if len(sentences) <= SENTENCES else (*kept, f"There are {len(sentences) - SENTENCES} more of this kind.")
    )


def _line(sentence: str) -> str:
    return shown(sentence, SENTENCE).replace("\n", " ")


def _taken(folder: Path | Folder, master: Master) -> list[Taken]:
    found = replace(folder, flags=[*folder.flags]) if isinstance(folder, Folder) else Folder.read(folder)
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
