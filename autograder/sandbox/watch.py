"""Which limit a child is over, seen from outside."""

import os
import stat
import time
from pathlib import Path

from autograder.sandbox.system import SHARED_BYTES

#: The share of the time that walks through the scratch folder may take, and the seconds between two at most: what is
#: written in between is not seen.
_SHARE = 0.03
_LONGEST_PAUSE = 1.0
#: Folders in folders; in deeper ones every look would take long.
_DEPTH = 64


class Watch:
    """Looks at one child: make it when the child is ready and has run nothing yet."""

    def __init__(self, pid: int, scratch: Path, limits):
        """`limits` is an `autograder.engine.limits.Limits`; memory that the child has now does not count."""
        self._process = f"/proc/{pid}"
        self._limits = limits
        self._scratch = os.path.realpath(scratch)
        self._memory_before = _Status(self._process).memory
        self._next_walk = 0.0

    def look(self) -> str | None:
        """The limit that is over now ("memory", "threads", "processes", "disk", "files"), "died", or None.

        None also for a child that has ended; "died" for one whose first thread has ended before the others, so that
        nothing about it can be seen any more. The scratch folder is walked so seldom that walking takes a small
        share of the time, and at least once a second.
        """
        try:
            return self._over()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            if self._has_ended():
                return None
            raise

    def _has_ended(self) -> bool:
        try:
            return _Status(self._process).ended
        except (FileNotFoundError, ProcessLookupError):
            return True

    def _over(self) -> str | None:
        status = _Status(self._process)
        if status.ended and status.threads > 1:
            return "died"
        if status.memory - self._memory_before > self._limits.memory:
            return "memory"
        if status.threads > self._limits.threads:
            return "threads"
        began = time.monotonic()
        if began < self._next_walk:
            return None
        if self._has_children():
            return "processes"
        with open(f"{self._process}/maps", encoding="utf-8", errors="surrogateescape") as file:
            deleted = [line[: -len("\n")] for line in file if line.endswith(" (deleted)\n")]
        if status.memory + self._shared(deleted) - self._memory_before > self._limits.memory:
            return "memory"
        over = self._over_in_scratch(deleted)
        ended = time.monotonic()
        self._next_walk = ended + min((ended - began) / _SHARE, _LONGEST_PAUSE)
        return over

    @staticmethod
    def _shared(deleted: list[str]) -> int:
        """Bytes that pieces of shared memory without a file may have, of which a page is mapped at least."""
        pieces = {line.split(maxsplit=5)[4] for line in deleted if line.endswith("/dev/zero (deleted)")}
        return SHARED_BYTES * len(pieces)

    def _has_children(self) -> bool:
        for thread in os.listdir(f"{self._process}/task"):
            try:
                with open(f"{self._process}/task/{thread}/children", "rb") as file:
                    if file.read():
                        return True
            except (FileNotFoundError, ProcessLookupError):
                continue  # this thread has ended, or the kernel was built without this list
        return False

    def _over_in_scratch(self, deleted: list[str]) -> str | None:
        files, size = 0, 0
        seen: set[int] = set()
        # As the child sees it: a private root has a scratch folder of its own at the same path.
        top = f"{self._process}/root{self._scratch}"
        folders = [(top, 0)]
        while folders:
            folder, depth = folders.pop()
            try:
                entries = os.scandir(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed since
            except OSError:
                if folder == top:
                    raise
                return "files"  # deeper than a path can be long, or closed to us; no notebook needs such folders
            with entries:
                for entry in entries:
                    files += 1
                    if files > self._limits.files:
                        return "files"
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    except OSError:
                        return "files"
                    if stat.S_ISDIR(found.st_mode):
                        if depth >= _DEPTH:
                            return "files"  # as below
                        folders.append((entry.path, depth + 1))
                    if found.st_ino not in seen:
                        seen.add(found.st_ino)
                        size += found.st_blocks * 512
        size += self._removed_but_held(seen, deleted)
        return "disk" if size > self._limits.disk else None

    def _removed_but_held(self, seen: set[int], deleted: list[str]) -> int:
        """Bytes of files in the scratch folder that have no name any more, and are open or in a line of its maps."""
        size = 0
        for descriptor in os.listdir(f"{self._process}/fd"):
            link = f"{self._process}/fd/{descriptor}"
            try:
                if not self._is_removed(os.readlink(link)):
                    continue
                found = os.stat(link)
            except FileNotFoundError:
                continue
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                size += found.st_blocks * 512
        for line in deleted:
            fields = line.split(maxsplit=5)
            if self._is_removed(fields[5]) and int(fields[4]) not in seen:
                seen.add(int(fields[4]))
                # Its size is hidden from us: as large as a file may be.
                size += int(self._limits.file_bytes)
        return size

    def _is_removed(self, path: str) -> bool:
        return path.endswith(" (deleted)") and path.startswith(self._scratch + os.sep)


class _Status:
    """Bytes in memory and swap, and the number of threads of a process, and whether it has ended."""

    def __init__(self, process: str):
        with open(f"{process}/status", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines())
        # A process that is ending, or that has ended and was not waited for, has no memory and lacks these lines.
        self.memory = sum(int(fields[name].split()[0]) * 1024 for name in (b"VmRSS", b"VmSwap") if name in fields)
        self.threads = int(fields[b"Threads"])
        self.ended = b"VmRSS" not in fields
