"""A submission's folder read without following anything out of it: notebooks, data files, and what was refused."""

import fnmatch
import os
import stat
import sys
import sysconfig
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path

from autograder.intake.decoding import NOTEBOOK_BYTES
from autograder.intake.master import Master
from autograder.timestamps import FILE, handed_in_at

#: What one submission may hold.
FILES = 2000
DEPTH = 8
FILE_BYTES = 64 << 20
TOTAL_BYTES = 256 << 20

#: What operating systems and tools leave behind, which nobody handed in.
LEFTOVERS = (".ipynb_checkpoints", "__pycache__", "*.pyc", ".DS_Store", "__MACOSX", "Thumbs.db", "desktop.ini", ".git")
#: Files and folders that programs read for their settings.
SETTINGS = (".ipython", ".jupyter", ".config", ".local", "jupyter_*.json", "jupyter_*.py", "ipython*_config.py")
SETTINGS += ("ipython*_config.json", "nbgrader_config.py", "conftest.py", "sitecustomize.py", "usercustomize.py")
SETTINGS += ("pytest.ini", "pyproject.toml", "*.pth")
MODULES = (".py", ".so", ".pyd")
OWN_PACKAGES = frozenset({"autogradlab", "autograder"})


@dataclass
class Folder:
    """What a submission holds, by relative name: notebooks as far as their size allows, other files, and remarks."""

    notebooks: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    #: Notebook -> why it was not even opened.
    refused: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, root: Path) -> "Folder":
        """The folder's content; links, devices, strange names and what is too much are left out and flagged."""
        folder = cls()
        if root.is_symlink() or not root.is_dir():
            what = "a symbolic link" if root.is_symlink() else "not a folder"
            folder.flags.append(f"{root.name} is {what}; it was not opened.")
            return folder
        paths = list(folder._walk(root))
        # A file of several names is fine as long as all of them lie in the submission.
        names = Counter((status.st_dev, status.st_ino) for _, status in paths)
        total = 0
        for name, status in paths:
            refusal = _refusal(name, status, names[status.st_dev, status.st_ino])
            if not refusal and total + status.st_size > TOTAL_BYTES:
                refusal = f"is beyond the {TOTAL_BYTES >> 20} MiB that a submission may have"
            data = None if refusal else read_unfollowed(root / name, status)
            if data is None:
                folder._refuse(name, refusal or "changed while it was being read or may not be read")
                continue
            total += len(data)
            (folder.notebooks if is_notebook(name) else folder.files)[name] = data
        return folder

    def _refuse(self, name: str, reason: str) -> None:
        self.flags.append(f"{_printable(name)} {reason}; it was left out.")
        if is_notebook(name):
            self.refused[name] = f"{_printable(name)} {reason}. Ask for the notebook itself."

    def _walk(self, root: Path):
        """Yields relative name and status of everything that is no folder, up to the limits."""
        count = 0
        for place, folders, names in os.walk(root, onerror=self._closed):
            relative = Path(place).relative_to(root)
            folders.sort()
            for name in list(folders):
                inside = (relative / name).as_posix()
                if (root / inside).is_symlink():
                    self.flags.append(f"{_printable(inside)} is a symbolic link; it was left out.")
                elif matches(name, SETTINGS):
                    self.flags.append(f"{_printable(inside)} holds settings of programs; it was ignored.")
                elif not matches(name, LEFTOVERS) and len(relative.parts) < DEPTH:
                    continue
                elif not matches(name, LEFTOVERS):
                    self.flags.append(f"{_printable(inside)} lies deeper than {DEPTH} folders; it was left out.")
                folders.remove(name)
            for name in sorted(names):
                if matches(name, LEFTOVERS):
                    continue
                count += 1
                if count > FILES:
                    self.flags.append(f"The submission holds more than {FILES} files; the others were left out.")
                    return
                inside = (relative / name).as_posix()
                yield inside, os.lstat(root / inside)

    def _closed(self, error: OSError) -> None:
        self.flags.append(f"{_printable(Path(error.filename).name)} cannot be opened ({error.strerror}).")


def is_notebook(name: str) -> bool:
    """Whether a name is a notebook's; browsers add `.txt` or `.json`, and `(1)` in front of the ending."""
    return name.lower().endswith((".ipynb", ".ipynb.txt", ".ipynb.json"))


def travelling(folder: Folder, master: Master) -> tuple[dict[str, bytes], list[str]]:
    """All files that lie beside the notebook when it runs, and a sentence for each that the assignment's own replaces.

    Modules that would be taken for installed ones and settings of programs are ignored, with a flag in the folder's.
    """
    files, repairs = {}, []
    own = {*master.files, *(f"{notebook}.ipynb" for notebook in master.notebooks)}
    for name, data in folder.files.items():
        parts = name.split("/")
        if any(matches(part, master.ignored) for part in parts):
            continue
        if matches(parts[-1], SETTINGS):
            folder.flags.append(f"{_printable(name)} holds settings of programs; it was ignored.")
        elif shadowed := _shadows(name, master):
            folder.flags.append(f"{_printable(name)} bears the name of the module {shadowed}; it was ignored.")
        elif place := _in_the_place_of(name, own):
            folder.flags.append(f"{_printable(name)} is in the place of the assignment's own {place}; it was ignored.")
        elif name in master.files and name not in master.replaceable:
            if data != master.files[name]:
                repairs.append(f"{_printable(name)} had been changed; the assignment's own was put back.")
        else:
            files[name] = data
    if FILE in files and files[FILE].strip() and handed_in_at(files[FILE]) is None:
        folder.flags.append(f"{FILE} says no time that can be read; the submission is taken as if it had none.")
    return files | {name: data for name, data in master.files.items() if name not in files}, repairs


def _in_the_place_of(name: str, own: set[str]) -> str | None:
    """The assignment's file that cannot lie beside this one: where one is a file, the other has a folder."""
    return next((file for file in own if name.startswith(f"{file}/") or file.startswith(f"{name}/")), None)


def _shadows(name: str, master: Master) -> str | None:
    """The installed module that Python would find in this file instead; a folder of that name shadows as well."""
    first, *rest = name.split("/")
    if name in master.files or not name.lower().endswith(MODULES):
        return None
    module = first if rest else first.split(".")[0]
    return module if module.isidentifier() and _is_installed(module) else None


def _is_installed(module: str) -> bool:
    if module in sys.stdlib_module_names or module in OWN_PACKAGES:
        return True
    places = list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")))
    spec = PathFinder.find_spec(module, places)
    return spec is not None and spec.loader is not None


def matches(name: str, patterns) -> bool:
    """Whether a name is one of these patterns, whatever its case."""
    return any(fnmatch.fnmatch(name.lower(), pattern.lower()) for pattern in patterns)


def _refusal(name: str, status: os.stat_result, names: int) -> str:
    """Why a file is left out, or an empty string."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "is no ordinary file"
    if status.st_nlink > names:
        return "is a hard link to a file outside of the submission"
    if "\\" in name or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "has a name that other systems read as a path or cannot read"
    limit = NOTEBOOK_BYTES if is_notebook(name) else FILE_BYTES
    return f"is larger than {limit >> 20} MiB" if status.st_size > limit else ""


def read_unfollowed(path: Path, status: os.stat_result) -> bytes | None:
    """The file's content, or None if it is not the file any more that was looked at."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        now = os.fstat(descriptor)
        if (now.st_dev, now.st_ino, now.st_size) != (status.st_dev, status.st_ino, status.st_size):
            return None
        return file.read(status.st_size)


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)
