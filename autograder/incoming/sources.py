"""What lies in a folder or a zip, name by name; nothing is followed, written or unpacked that could do harm."""

import functools
import lzma
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

try:
    import pwd
except ImportError:  # Windows has none
    pwd = None

from autograder.folders import GradingError
from autograder.intake.files import FILE_BYTES, LEFTOVERS, matches, read_unfollowed

#: What an archive of a whole class may hold.
ENTRIES = 200_000
CLASS_BYTES = 64 << 30
DEPTH = 16
#: What zipfile raises for an archive that is damaged, or made to be: some of it is not meant, and none is another's.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError, RuntimeError)
DAMAGED += (ValueError, OverflowError, MemoryError, struct.error, IndexError)
#: A large file that was packed this tightly is not text or figures of a person; deflate itself ends at 1032.
RATIO, LARGE = 300, 8 << 20


@dataclass(frozen=True)
class Entry:
    """One file of a source, by its relative name with slashes."""

    name: str
    source: "Source"

    def read(self) -> bytes:
        """Its bytes. Raises Refused where it is not what it seemed."""
        return self.source.read(self.name)


class Refused(Exception):
    """Why a file is not taken, in words with the way out."""


@dataclass
class Source:
    """A folder or a zip; `refused` says of each name that was left out why."""

    path: Path
    entries: list[Entry] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def read(self, name: str) -> bytes:
        raise NotImplementedError

    def owner(self, name: str) -> str:
        """The system's name of the user whom a file belongs to; empty where nothing says so."""
        return ""

    def close(self) -> None:
        """Nothing more is read."""


def opened(path: Path) -> Source:
    """The source at a path. Raises GradingError for what is neither a folder nor a zip that can be trusted."""
    if path.is_dir():
        return _Folder(path)
    if not path.exists():
        raise GradingError(f"There is no {path}. Expected a folder of submissions, or the zip that your system gave.")
    if not zipfile.is_zipfile(path):
        raise GradingError(
            f"{path} is neither a folder nor a zip. Expected one of them; unpack it, and name the folder."
        )
    return _Zip(path)


class _Folder(Source):
    def __init__(self, path: Path):
        super().__init__(path)
        self._statuses: dict[str, os.stat_result] = {}
        for name, status in self._walk():
            if stat.S_ISLNK(status.st_mode):
                self.refused[name] = "is a symbolic link: hand in the file itself"
            elif not stat.S_ISREG(status.st_mode):
                self.refused[name] = "is no ordinary file: remove it"
            elif reason := _unfit(name):
                self.refused[name] = reason
            elif status.st_size > FILE_BYTES:
                self.refused[name] = f"is larger than {FILE_BYTES >> 20} MiB: ask for it without outputs"
            else:
                self._statuses[name] = status
                self.entries.append(Entry(name, self))

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        for place, folders, names in os.walk(self.path):
            relative = Path(place).relative_to(self.path)
            links = [name for name in folders if Path(place, name).is_symlink()]
            folders[:] = sorted(name for name in set(folders) - set(links) if not matches(name, LEFTOVERS))
            for name in sorted([*names, *links]):
                if not matches(name, LEFTOVERS):
                    yield (relative / name).as_posix(), os.lstat(Path(place, name))

    def read(self, name: str) -> bytes:
        data = read_unfollowed(self.path / name, self._statuses[name])
        if data is None:
            raise Refused("changed while it was being read, or may not be read: put it back and try again")
        return data

    def owner(self, name: str) -> str:
        return _user(self._statuses[name].st_uid)


class _Zip(Source):
    """An archive, read entry by entry; nothing of it is unpacked but what a submission gets."""

    def __init__(self, path: Path):
        super().__init__(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except DAMAGED as error:
            raise GradingError(f"{path} cannot be read as a zip: {error}. Download it again.") from error
        self._infos: dict[str, zipfile.ZipInfo] = {}
        infos = [info for info in self._zip.infolist() if not info.filename.endswith("/")]
        self._check_whole(infos, path.stat().st_size)
        for info in infos:
            name = info.filename
            if any(matches(part, LEFTOVERS) for part in PurePosixPath(name).parts):
                continue
            reason = _unfit(name) or _unfit_info(info)
            if name in self._infos:
                reason = "is in the archive twice: pack it anew"
                self.entries = [entry for entry in self.entries if entry.name != name]
            if reason:
                self.refused[name] = reason
            else:
                self._infos[name] = info
                self.entries.append(Entry(name, self))

    def _check_whole(self, infos: list[zipfile.ZipInfo], size: int) -> None:
        """Refuses an archive that is made to be more than it is."""
        packed, unpacked = (
            (sum(sizes) for sizes in zip(*((one.compress_size, one.file_size) for one in infos))) if (infos) else (0, 0)
        )
        if packed > size:
            raise GradingError(
                f"{self.path} holds files that share their bytes, as a zip bomb does. Nothing was taken."
            )
        if len(infos) > ENTRIES or unpacked > CLASS_BYTES:
            raise GradingError(
                f"{self.path} holds {len(infos)} files of {unpacked >> 20} MiB in all. Expected at most {ENTRIES} of "
                f"{CLASS_BYTES >> 20} MiB; split it."
            )

    def read(self, name: str) -> bytes:
        info = self._infos[name]
        try:
            with self._zip.open(info) as file:
                # One byte more than it says tells whether it says the truth.
                data = file.read(info.file_size + 1)
        except DAMAGED as error:
            raise Refused(
                f"cannot be unpacked ({error or type(error).__name__}): download the archive again"
            ) from error
        if len(data) != info.file_size:
            raise Refused("is larger than the archive says, as in a zip bomb: ask for it again")
        return data

    def close(self) -> None:
        self._zip.close()


@functools.cache
def _user(number: int) -> str:
    if pwd is None:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # of another machine
        return ""


def _unfit(name: str) -> str:
    """Why a name cannot be that of a file within a submission, or an empty string."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "." in parts or "" in parts:
        return "has a path that leaves the archive: it was not taken"
    if "\\" in name or re.match(r"[A-Za-z]:", name):
        return "has a name that Windows reads as a path: rename it"
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "has signs in its name that nobody can see: rename it"
    return f"lies deeper than {DEPTH} folders: move it up" if len(parts) > DEPTH else ""


def _unfit_info(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "is a symbolic link or no ordinary file: hand in the file itself"
    if info.flag_bits & 1:
        return "is encrypted: pack it without a password"
    if info.file_size > FILE_BYTES:
        return f"is larger than {FILE_BYTES >> 20} MiB: ask for it without outputs"
    if info.file_size > LARGE and info.file_size > RATIO * max(info.compress_size, 1):
        return f"unpacks to {info.file_size // max(info.compress_size, 1)} times its size, as a zip bomb does"
    return ""
