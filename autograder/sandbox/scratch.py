"""Scratch folders: made, swept up after runs that were killed, and removed in whatever state they were left."""

import contextlib
import itertools
import os
import tempfile
from pathlib import Path

#: How their names begin; the number of the process that made them follows.
PREFIX = "grading-"


def make() -> Path:
    """A new folder that says which process it belongs to."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def sweep() -> None:
    """Removes the folders of processes that are no more; for systems that show processes in /proc."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}[0-9]*-*"):
        number = folder.name.removeprefix(PREFIX).split("-")[0]
        if not number.isdigit() or Path("/proc", number).exists():
            continue
        with contextlib.suppress(FileNotFoundError):  # another process sweeps, too
            # In a folder where everybody may write, a name alone says nothing.
            if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                remove(folder)


def remove(folder: Path) -> None:
    """Removes the folder of a child that has ended, however deep what is in it.

    Folders are lifted to the top one level at a time, where a recursion or a path would become too long. Links are
    removed and never followed; raises NotADirectoryError if the folder itself is one.
    """
    numbers = itertools.count()
    top = os.fspath(folder)
    if os.path.islink(top):
        # Where everybody may write, somebody else may have put it there.
        raise NotADirectoryError(f"{top} is a link")
    while entries := _entries(top):
        for path, is_folder in entries:
            if not is_folder:
                os.unlink(path)
                continue
            for inner, _ in _entries(path):
                os.rename(inner, _free(top, numbers))
            os.rmdir(path)
    os.rmdir(top)


def _entries(folder: str) -> list[tuple[str, bool]]:
    with os.scandir(folder) as found:
        return [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in found]


def _free(folder: str, numbers) -> str:
    """A path in the folder that is not taken."""
    paths = (os.path.join(folder, str(number)) for number in numbers)
    return next(path for path in paths if not os.path.lexists(path))
