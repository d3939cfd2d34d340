"""Attempts to get out of the sandbox, made from inside by our own code, and what they are aimed at."""

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from autograder.sandbox import system

#: From Linux's asm-generic/resource.h; Python's own module is not there on every system.
_RLIMIT_CPU = 0
#: Each layer of the report with its attempts, and for each attempt the answers that only the sandbox gives.
ATTEMPTS = {
    "files": {
        "read a secret": ("EACCES", "ENOENT"),
        "list a folder": ("EACCES", "ENOENT"),
        "write outside": ("EACCES", "ENOENT", "EROFS"),
        "empty a file outside": ("EACCES", "ENOENT", "EPERM"),
        "link to a secret": ("EACCES", "EPERM", "EXDEV", "ENOENT"),
    },
    "network": {
        "TCP": ("EPERM", "EACCES"),
        "UDP": ("EPERM", "EACCES"),
        "unix socket": ("EPERM", "EACCES"),
        "abstract socket": ("EPERM", "EACCES"),
        "datagram from a pair": ("EPERM", "EACCES"),
    },
    "processes": {"fork": ("EPERM",), "run a program": ("EPERM",), "new user namespace": ("EPERM",)},
    "grader": {
        "signal": ("EPERM",),
        "trace": ("EPERM",),
        "read memory": ("EPERM",),
        "open its memory": ("EACCES", "EPERM", "ENOENT"),
        "open its environment": ("EACCES", "EPERM", "ENOENT"),
    },
    "memory": {"256 GiB of addresses": ("ENOMEM",), "nameless file": ("EPERM",)},
    "disk": {"file of 1 TiB": ("EFBIG",)},
    "time": {"raise a limit": ("EPERM",)},
}
_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17
_NEW_USER = 0x10000000
_MESSAGE = b"from inside"


class Targets:
    """Things that a child must not reach, held outside: `with Targets(folder) as targets:`.

    `folder` is an existing folder outside of every scratch folder. `targets.plain` is the data to give to
    `escape_attempts` in the child; `targets.reached()` names the attempts that this side saw succeed.
    """

    def __init__(self, folder: Path, secret: Path | None = None):
        """`secret` is a file that must not be readable, the gradebook for instance; by default one made in `folder`."""
        self._folder = folder
        self._secret = secret
        self._open = contextlib.ExitStack()
        self.plain: dict[str, str | int] = {}

    def __enter__(self) -> "Targets":
        with contextlib.ExitStack() as opened:
            place = Path(tempfile.mkdtemp(prefix="targets-", dir=self._folder))
            opened.callback(shutil.rmtree, place)
            self._kept = place / "kept"
            self._kept.write_bytes(_MESSAGE)
            self._written = place / "written"
            # A socket's path has at most 108 bytes, which a course's folder may take up by itself.
            short = tempfile.mkdtemp(prefix="targets-", dir="/tmp")
            opened.callback(shutil.rmtree, short)
            abstract = f"targets-{secrets.token_hex(8)}"
            self._sockets = {
                "TCP": _listening(opened, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
                "UDP": _listening(opened, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
                "unix socket": _listening(opened, socket.AF_UNIX, socket.SOCK_STREAM, f"{short}/stream"),
                "abstract socket": _listening(opened, socket.AF_UNIX, socket.SOCK_STREAM, f"\0{abstract}"),
                "datagram from a pair": _listening(opened, socket.AF_UNIX, socket.SOCK_DGRAM, f"{short}/datagram"),
            }
            self._memory = ctypes.create_string_buffer(_MESSAGE)
            self.plain = {
                "secret": os.fspath(self._secret or self._kept),
                "folder": os.fspath(place),
                "kept": os.fspath(self._kept),
                "written": os.fspath(self._written),
                "tcp": self._sockets["TCP"].getsockname()[1],
                "udp": self._sockets["UDP"].getsockname()[1],
                "stream": f"{short}/stream",
                "datagram": f"{short}/datagram",
                "abstract": abstract,
                "process": os.getpid(),
                "address": ctypes.addressof(self._memory),
            }
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_) -> None:
        self._open.close()

    def reached(self) -> list[str]:
        """The attempts that this side saw succeed since it was entered, whatever the child says."""
        names = [name for name, listener in self._sockets.items() if _heard(listener)]
        if self._written.exists():
            names.append("write outside")
        if self._kept.read_bytes() != _MESSAGE:
            names.append("empty a file outside")
        return names


def _listening(opened: contextlib.ExitStack, family: int, kind: int, address) -> socket.socket:
    listener = opened.enter_context(socket.socket(family, kind))
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen()
    listener.setblocking(False)
    return listener


def _heard(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(64))
        listener.accept()[0].close()
        return True
    except BlockingIOError:
        return False


def escape_attempts(targets: dict) -> dict[str, str]:
    """Tries to get out, from inside an entered child: each attempt's name mapped to an errno name or "allowed".

    The names are those in ATTEMPTS. Takes a few milliseconds; leaves nothing behind in the child.
    """
    return {name: _outcome(attempt) for name, attempt in _attempts(targets).items()}


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return "allowed"


def _attempts(targets: dict) -> dict[str, Callable[[], object]]:
    process, address = targets["process"], targets["address"]
    return {
        "read a secret": lambda: _open(targets["secret"], os.O_RDONLY),
        "list a folder": lambda: os.listdir(targets["folder"]),
        "write outside": lambda: _open(targets["written"], os.O_WRONLY | os.O_CREAT),
        "empty a file outside": lambda: os.truncate(targets["kept"], 0),
        "link to a secret": lambda: _link(targets["secret"]),
        "TCP": lambda: _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", targets["tcp"])),
        "UDP": lambda: _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", targets["udp"])),
        "unix socket": lambda: _connect(socket.AF_UNIX, socket.SOCK_STREAM, targets["stream"]),
        "abstract socket": lambda: _connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + targets["abstract"]),
        "datagram from a pair": lambda: _send_from_pair(targets["datagram"]),
        "fork": _fork,
        "run a program": lambda: os.execv("/nonexistent", ["nonexistent"]),  # a program that is there would replace us
        "new user namespace": lambda: system.call("unshare", _NEW_USER),
        "signal": lambda: os.kill(process, 0),
        "trace": lambda: _trace(process),
        "read memory": lambda: _read_memory(process, address),
        "open its memory": lambda: _open(f"/proc/{process}/mem", os.O_RDONLY),
        "open its environment": lambda: _open(f"/proc/{process}/environ", os.O_RDONLY),
        "256 GiB of addresses": _reserve,
        "nameless file": lambda: os.close(os.memfd_create("probe")),
        "file of 1 TiB": _large_file,
        "raise a limit": _raise_limit,
    }


def _open(path: str, flags: int) -> None:
    os.close(os.open(path, flags | os.O_CLOEXEC))


def _link(secret: str) -> None:
    os.link(secret, "probe-link")
    os.unlink("probe-link")


def _connect(family: int, kind: int, address) -> None:
    with socket.socket(family, kind) as end:
        end.settimeout(1)
        end.connect(address)
        end.send(_MESSAGE)


def _send_from_pair(address: str) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(_MESSAGE, address)


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _trace(process: int) -> None:
    system.call("ptrace", _PTRACE_SEIZE, process, 0, 0)
    system.call("ptrace", _PTRACE_DETACH, process, 0, 0)


def _read_memory(process: int, address: int) -> None:
    here = ctypes.create_string_buffer(len(_MESSAGE))
    local, remote = (struct.pack("QQ", place, len(_MESSAGE)) for place in (ctypes.addressof(here), address))
    system.call("process_vm_readv", process, local, 1, remote, 1, 0)


def _reserve() -> None:
    # Addresses alone: what the machine has of memory, and how the kernel overcommits it, must not decide.
    mmap.mmap(-1, 1 << 38, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()


def _large_file() -> None:
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), 1 << 40)


def _raise_limit() -> None:
    unlimited = struct.pack("QQ", 2**64 - 1, 2**64 - 1)
    system.call("prlimit64", 0, _RLIMIT_CPU, unlimited, None)
