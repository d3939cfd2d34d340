"""What the sandbox is to be made of here: plain data, made once, used for every child."""

import os
import platform
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder.sandbox import system

#: What a child tries to put around itself, in this order; the names are the keys of what `enter` returns.
LAYERS = (
    "descriptors",
    "cgroup",
    "namespaces",
    "private root",
    "rlimits",
    "other uid",
    "landlock",
    "capabilities",
    "seccomp",
)

#: Address space beyond what a child has when it is forked and what it may use: stacks of threads and arenas of malloc
#: reserve a lot of it. A small convolution net in training takes 0.9 GiB.
SPARE_ADDRESS_SPACE = 1 << 30

#: What libraries read of the system: shared libraries, time zones, fonts, what the machine has.
_SYSTEM = (
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/usr/share/fontconfig",
    "/etc/fonts",
    "/usr/share/locale",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self",
    # Where it can be written, it can be mapped as memory that stays when it is no longer mapped.
    "/dev/zero",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random")
#: What a CUDA runtime reads and opens.
_CUDA_SYSTEM = (
    "/proc/driver/nvidia",
    "/proc/devices",
    "/proc/modules",
    "/proc/version",
    "/sys/bus/pci",
    "/sys/devices",
)
_CUDA_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")
#: Parts of an installation of Python; its other folders may hold anything, a home's configuration for instance.
_PARTS = ("bin", "lib", "lib64", "include", "share", "etc/fonts", "pyvenv.cfg")
#: systemd takes these for users that exist only while a service runs: no file belongs to them.
_PASSING_UIDS = range(61184, 65520)


@dataclass(frozen=True)
class Plan:
    """Which layers a child is to try, and with what; `Plan.of(plan.plain())` is an equal plan."""

    host: str
    layers: tuple[str, ...]
    #: Layers that are not tried, each with the reason.
    off: dict[str, str]
    readable: tuple[str, ...]
    #: Device files that can be read and written.
    devices: tuple[str, ...]
    limits: dict[str, float]
    #: Bytes beyond what a child has when it is forked; 0 for no limit.
    address_space: int
    cpu_seconds: int
    #: The user that a child of root becomes.
    uid: int

    def plain(self) -> dict[str, Any]:
        """The plan as data that JSON can hold."""
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Plan":
        """The plan that `plain` made data of, also after a way through JSON."""
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()})


def plan(readable: Sequence[Path], limits, strong: bool = False, without: dict[str, str] | None = None) -> Plan:
    """The plan for this machine, made in the process that starts the warm parent, with the same interpreter.

    `readable` are folders and files that a child may read besides the interpreter, its packages and the system's
    libraries: the folder of autogradlab for instance. `limits` is an `autograder.engine.limits.Limits`. `strong` adds
    the layers that cost several milliseconds for each child. `without` maps layers that are not to be tried to the
    reason. Off Linux no layer is tried, and `off` says what to do.
    """
    host = f"{platform.system()} {platform.release()} {platform.machine()}"
    if not system.SUPPORTED:
        reason = "needs Linux on x86_64 or aarch64: use WSL2, or a container there"
        return Plan(host, (), dict.fromkeys(LAYERS, reason), (), (), asdict(limits), 0, 0, 0)
    cuda = _cuda_devices()
    off = _left_out(strong) | (without or {})
    return Plan(
        host=f"{host}, uid {os.getuid()}",
        layers=tuple(layer for layer in LAYERS if layer not in off),
        off=off,
        readable=_existing((*_interpreter(), *_SYSTEM, *(_CUDA_SYSTEM if cuda else ()), *map(str, readable))),
        devices=_existing((*_DEVICES, *cuda)),
        limits=asdict(limits),
        # CUDA reserves address space for all memory of the machine and its devices together.
        address_space=0 if cuda else int(limits.memory) + SPARE_ADDRESS_SPACE,
        cpu_seconds=int(limits.notebook_seconds * max(2, os.cpu_count() or 1)) + 1,
        uid=_free_uid(),
    )


def _left_out(strong: bool) -> dict[str, str]:
    off = {"cgroup": "left to whoever starts the grading, with systemd-run --scope -p MemoryMax=... for instance"}
    if not strong:
        off["private root"] = "not asked for: with its teardown it takes some 10 ms for each notebook"
    if os.getuid() != 0:
        off["other uid"] = "only root can become another user"
    return off


def _interpreter() -> list[str]:
    """What Python and its packages are made of; a virtual environment inside a repository, but not the repository."""
    parts = [os.path.join(prefix, part) for prefix in {sys.prefix, sys.base_prefix} for part in _PARTS]
    paths = sysconfig.get_paths()
    return [*parts, *(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")), sys.executable]


def _cuda_devices() -> tuple[str, ...]:
    """The device files of NVIDIA's driver, none where it has no accelerator."""
    numbered = sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))
    return (*numbered, *(f"/dev/{name}" for name in _CUDA_DEVICES)) if numbered else ()


def _existing(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that are there, without those beneath others; links stay as they are, as libraries name them."""
    found: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths}):
        if os.path.exists(path) and not (found and path.startswith(found[-1] + os.sep)):
            found.append(path)
    return tuple(found)


def _free_uid() -> int:
    """A user number that nobody has, another one for each process that makes a plan."""
    import pwd  # not there on Windows

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    start = os.getpid() % len(_PASSING_UIDS)
    return next(uid for uid in (*_PASSING_UIDS[start:], *_PASSING_UIDS[:start]) if uid not in taken)
