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
        self._new = place.with_name(f".{place.name}.new")
        self._old = place.with_name(f".{place.name}.old")
        self._moved = self._placed = False

    def write(self, notebooks: Mapping[str, NotebookNode], files: Mapping[str, bytes]) -> None:
        """Write the new version beside the old; what an interrupted run has left there is removed first."""
        self._remove(self._new)
        self._remove(self._old)
        for name, data in files.items() if notebooks else ():
            self._write(self._new / name, data)
        for name, node in notebooks.items():
            self._write(self._new / f"{name}.ipynb", (nbformat.v4.writes(node) + "\n").encode())

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
