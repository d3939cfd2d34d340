"""The autograded/ folder of a submission, replaced as a whole or not at all."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode


class Autograded:
    """A new version of the folder at `place`, written beside it; `install` puts it in place, `undo` takes it back.

    Without any notebook there is no new version, and installing that removes the old one.
    """

    def __init__(self, place: Path, permissions: int):
        self._place, self._permissions = place, permissions
        self._new, self._old = _beside(place)
        self._moved = self._placed = False

    def write(self, notebooks: Mapping[str, NotebookNode], files: Mapping[str, bytes]) -> None:
        """Write the new version beside the old; what an interrupted run has left there is removed first."""
        self._remove(self._new)
        self._remove(self._old)
        for name, data in files.items() if notebooks else ():
            self._write(self._new / name, data)
        for name, node in notebooks.items():
            self._write(self._new / f"{name}.ipynb", (nbformat.v4.writes(_for_nbgrader(node)) + "\n").encode())

    def install(self) -> None:
        """Put the new version in the place of the old one, which is kept aside until `finish`."""
        if self._place.exists():
            self._place.rename(self._old)
            self._moved = True
        if self._new.exists():
            self._new.rename(self._place)
            self._placed = True

    def undo(self) -> None:
        """Put the old version back and forget the new one."""
        if self._placed:
            self._place.rename(self._new)
        if self._moved:
            self._old.rename(self._place)
        self._remove(self._new)

    def finish(self) -> None:
        """Forget the old version."""
        self._remove(self._old)

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(self._permissions)

    @staticmethod
    def _remove(folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)


def is_half_done(place: Path) -> bool:
    """Whether a run that was killed has left something beside the folder: what it was writing is not known to hold."""
    return any(path.exists() for path in _beside(place))


def _beside(place: Path) -> tuple[Path, Path]:
    """Where the new version is written, and where the old one is kept until the new one is in its place."""
    return place.with_name(f".{place.name}.new"), place.with_name(f".{place.name}.old")


def _for_nbgrader(node: NotebookNode) -> NotebookNode:
    """The notebook without what intake noted in its cells for the run alone."""
    cells = []
    for cell in node.cells:
        metadata = {key: value for key, value in cell.metadata.items() if key != "autogradlab"}
        cells.append(NotebookNode(cell | {"metadata": NotebookNode(metadata)}))
    return NotebookNode(node | {"cells": cells})
