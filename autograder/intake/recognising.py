"""Which file of a submission is which notebook of the assignment: by name, else by its cells, never by guessing."""

from dataclasses import dataclass, field

from nbformat.notebooknode import NotebookNode

from autograder.intake.decoding import Unreadable
from autograder.intake.files import Folder
from autograder.intake.master import Master, MasterNotebook
from autograder.intake.matching import grade_id_of, plain
from autograder.intake.notebooks import read_notebook

#: A file is a notebook of the assignment under another name if it holds this share of its marked cells.
SHARE = 0.5


@dataclass
class Chosen:
    """What stands for one notebook of the assignment: a notebook, why there is none to read, or nothing at all."""

    notebook: NotebookNode | Unreadable | None = None
    repairs: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


@dataclass
class _File:
    name: str
    node: NotebookNode | Unreadable
    repairs: list[str] = field(default_factory=list)


def assign(folder: Folder, master: Master) -> dict[str, Chosen]:
    """What was handed in for each notebook of the assignment."""
    files = {name: _read(name, folder) for name in sorted([*folder.notebooks, *folder.refused])}
    chosen: dict[str, Chosen] = {}
    free = dict(files)
    for name, notebook in master.notebooks.items():
        file = free.get(f"{name}.ipynb")
        if file is not None and (isinstance(file.node, Unreadable) or _share(file.node, notebook) > 0):
            del free[file.name]
            chosen[name] = Chosen(file.node, file.repairs)
    for name, notebook in master.notebooks.items():
        if name not in chosen:
            chosen[name] = _under_another_name(name, notebook, free, master)
    handed_in = [name for name in master.notebooks if chosen[name].notebook is not None]
    _say_what_is_left(free, chosen, master)
    if not handed_in:
        for name in master.notebooks:
            chosen[name].notebook = Unreadable(_nothing(name, folder))
    return {name: chosen[name] for name in master.notebooks}


def _read(name: str, folder: Folder) -> _File:
    if name in folder.refused:
        return _File(name, Unreadable(folder.refused[name]))
    try:
        node, repairs = read_notebook(folder.notebooks[name], name)
    except Unreadable as error:
        return _File(name, error)
    return _File(name, node, repairs)


def _under_another_name(name: str, notebook: MasterNotebook, free: dict[str, _File], master: Master) -> Chosen:
    """The one file that holds this notebook's cells; of several that say the same, the first."""
    exact = free.get(f"{name}.ipynb")
    fitting = [file for file in free.values() if _fits(file, notebook, master)]
    different = {_content(file.node) for file in fitting}
    if len(different) == 1:
        file = fitting[0]
        for other in fitting:
            del free[other.name]
        also = f" (the same as {', '.join(other.name for other in fitting[1:])})" if fitting[1:] else ""
        return Chosen(file.node, [*file.repairs, f"{file.name}{also} was recognised by its cells as {name}.ipynb."])
    if different:
        names = ", ".join(file.name for file in fitting)
        for file in fitting:
            del free[file.name]
        return Chosen(
            Unreadable(
                f"{names}: each may be {name}.ipynb, and they differ. Expected one notebook of that name. "
                "Ask which one counts, and rename it."
            )
        )
    if exact is not None:  # of the right name, and without a single cell of the assignment
        del free[exact.name]
        return Chosen(exact.node, exact.repairs)
    broken = [file for file in free.values() if isinstance(file.node, Unreadable)]
    if len(broken) == 1 and (len(master.notebooks) == 1 or _stem(broken[0].name).startswith(name)):
        del free[broken[0].name]
        return Chosen(broken[0].node)
    return Chosen()


def _fits(file: _File, notebook: MasterNotebook, master: Master) -> bool:
    """Whether a file holds enough of this notebook, and of no other one as much."""
    if isinstance(file.node, Unreadable):
        return False
    share = _share(file.node, notebook)
    others = [_share(file.node, other) for other in master.notebooks.values() if other is not notebook]
    return share >= SHARE and share > max(others, default=0)


def _share(node: NotebookNode, notebook: MasterNotebook) -> float:
    """The share of a notebook's marked cells that are there by id or by source; without any, of all its cells."""
    ids = {grade_id_of(cell) for cell in node.cells} | {cell.id for cell in node.cells if cell.id}
    sources = {plain(cell.source) for cell in node.cells}
    marked = [cell for cell in notebook.cells if cell.id is not None] or list(notebook.cells)
    text = "\n".join(plain(cell.source) for cell in node.cells)
    there = sum(
        cell.id in ids or cell.cell_id in ids or plain(cell.released) in sources or _begins(cell, text)
        for cell in marked
    )
    return there / len(marked) if marked else float(bool(node.cells))


def _begins(cell, text: str) -> bool:
    """Whether an answer's first line, as its `def`, stands anywhere; that of a text says too little."""
    first = plain(cell.released).split("\n")[0]
    return cell.type == "code" and first.startswith(("def ", "class ", "async def ")) and first in text


def _content(node: NotebookNode) -> tuple:
    return tuple((cell.cell_type, plain(cell.source)) for cell in node.cells)


def _stem(name: str) -> str:
    return name.rsplit("/", 1)[-1].split(".")[0]


def _say_what_is_left(free: dict[str, _File], chosen: dict[str, Chosen], master: Master) -> None:
    """Flags notebooks that nothing is graded of, above all other versions of those that are."""
    graded = {_content(one.notebook) for one in chosen.values() if isinstance(one.notebook, NotebookNode)}
    for file in free.values():
        if not isinstance(file.node, Unreadable) and _content(file.node) in graded:
            continue
        if isinstance(file.node, Unreadable):
            sentence = f"{file.name} lies beside and cannot be read: {file.node}"
        elif versions := [name for name, ours in master.notebooks.items() if _share(file.node, ours) >= SHARE]:
            sentence = f"{file.name} looks like another version of {versions[0]}.ipynb; it was not graded."
        else:
            sentence = f"{file.name} is no notebook of the assignment; it was not graded."
        for one in chosen.values():
            one.flags.append(sentence)


def _nothing(name: str, folder: Folder) -> str:
    others = sorted([*folder.notebooks, *folder.files])
    shown = ", ".join(others[:8]) + (f" and {len(others) - 8} more" if len(others) > 8 else "")
    return f"The folder holds {shown or 'nothing'}. Expected {name}.ipynb; ask for it."
