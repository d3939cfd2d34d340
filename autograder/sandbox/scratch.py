"""Scratch folders, which a learner's code may leave in any state."""

import itertools
import os
from pathlib import Path


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
