"""How a forked child shuts itself in."""

import contextlib
import ctypes
import os
import resource
import signal
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autograder.sandbox import landlock, namespaces, seccomp, system
from autograder.sandbox.planning import LAYERS, Plan

_SET_PDEATHSIG, _SET_DUMPABLE, _SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION = 0x20080522
_LAST_DESCRIPTOR = 0xFFFFFFFF
_ARENAS = 4
#: env_start and env_end of proc_pid_stat(5), counted from the field behind the name.
_ENVIRONMENT_FIELDS = slice(47, 49)

_forking = os.getpid()


def _note_forking_process() -> None:
    global _forking
    _forking = os.getpid()


# So that a child can tell whether the process that forked it is gone already.
os.register_at_fork(before=_note_forking_process)


def enter(plan: Plan, scratch: Path, keep: Sequence[int] = ()) -> dict[str, str]:
    """Confines this process for good; returns every layer of LAYERS mapped to "on" or to the reason why it is not.

    To be called once, in a forked child, before any code of a learner. Afterwards the process leads its own session,
    dies with the thread that forked it, stands in `scratch` (an empty or prepared folder, the only one it can write
    to), has an environment of a few harmless variables, stdin closed to /dev/null, stdout and stderr as they were, the
    descriptors in `keep`, and no others. A layer that fails never keeps the others from being tried, and nothing is
    raised for it; only what no notebook can run without (the scratch folder) raises OSError.
    """
    place = os.path.realpath(scratch)
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setsid()
    os.chdir(place)
    _set_environment(place)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    steps = {
        "descriptors": lambda: _close_descriptors(keep),
        "namespaces": namespaces.unshare,
        "private root": lambda: namespaces.private_root(plan, place),
        "rlimits": lambda: _limit_resources(plan),
        "other uid": lambda: _become(plan, place),
        "landlock": lambda: _restrict_files(plan, place),
        "capabilities": _drop_capabilities,
        "seccomp": lambda: _filter_calls(plan),
    }
    entered = {}
    for layer in LAYERS:
        if layer == "landlock":
            _die_with_parent()
        if layer not in plan.layers:
            entered[layer] = plan.off[layer]
            continue
        try:
            steps[layer]()
            entered[layer] = "on"
        except OSError as error:
            entered[layer] = str(error)
    return entered


def _set_environment(scratch: str) -> None:
    os.environ.clear()
    _erase_first_environment()
    in_scratch = ("HOME", "TMPDIR", "MPLCONFIGDIR", "IPYTHONDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    os.environ.update(dict.fromkeys(in_scratch, scratch))
    os.environ.update(PATH="/usr/bin:/bin", LANG="C.UTF-8", USER="learner", LOGNAME="learner", MPLBACKEND="Agg")
    tempfile.tempdir = None
    os.umask(0o022)


def _erase_first_environment() -> None:
    """What the program was started with stays in memory, where /proc/self/environ shows it, unless written over."""
    start, end = (int(field) for field in _read("/proc/self/stat").rpartition(b")")[2].split()[_ENVIRONMENT_FIELDS])
    if start:  # 0 where the kernel does not tell
        ctypes.memset(start, 0, end - start)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _close_descriptors(keep: Sequence[int]) -> None:
    first = 3
    for descriptor in sorted(descriptor for descriptor in set(keep) if descriptor > 2):
        if descriptor > first:
            system.call("close_range", first, descriptor - 1, 0)
        first = descriptor + 1
    system.call("close_range", first, _LAST_DESCRIPTOR, 0)


def _limit_resources(plan: Plan) -> None:
    # Ignored, as Python has it, the signal leaves an OSError for a file that becomes too large.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    bounds = {
        resource.RLIMIT_CPU: plan.cpu_seconds,
        resource.RLIMIT_FSIZE: plan.limits["file_bytes"],
        resource.RLIMIT_NOFILE: plan.limits["descriptors"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if plan.address_space:
        system.share_arenas(_ARENAS)
        bounds[resource.RLIMIT_AS] = plan.address_space + _address_space()
    for kind, bound in bounds.items():
        _, hard = resource.getrlimit(kind)
        bound = int(bound) if hard == resource.RLIM_INFINITY else min(int(bound), hard)
        resource.setrlimit(kind, (bound, bound))


def _address_space() -> int:
    return int(_read("/proc/self/statm").split()[0]) * resource.getpagesize()


def _become(plan: Plan, scratch: str) -> None:
    """Becomes a user to whom nothing belongs, if that one can read what a notebook needs. Otherwise raises OSError."""
    _give(scratch, plan.uid, plan.uid)
    groups, group = os.getgroups(), os.getgid()
    os.setgroups([])
    os.setresgid(plan.uid, plan.uid, group)
    os.setresuid(plan.uid, plan.uid, 0)
    closed = next((path for path in plan.readable if not os.access(path, os.R_OK, effective_ids=True)), None)
    if not os.access(scratch, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        closed = "the scratch folder"
    if closed is None:
        os.setresgid(plan.uid, plan.uid, plan.uid)
        os.setresuid(plan.uid, plan.uid, plan.uid)
        return
    os.setresuid(0, 0, 0)
    os.setresgid(group, group, group)
    os.setgroups(groups)
    _give(scratch, 0, group)
    raise PermissionError(f"{closed} is not open to other users")


def _give(scratch: str, user: int, group: int) -> None:
    for folder, _, names in os.walk(scratch):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, user, group, follow_symlinks=False)


def _die_with_parent() -> None:
    # A change of user or of its namespace clears both, hence only now. The referee looks at descriptors and memory maps
    # in /proc, which are closed to it where a process is not dumpable.
    system.prctl(_SET_DUMPABLE, 1)
    system.prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _forking:
        os._exit(1)
    system.prctl(_SET_NO_NEW_PRIVS, 1)


def _restrict_files(plan: Plan, scratch: str) -> None:
    rules = [(path, landlock.READ) for path in plan.readable]
    rules += [(path, landlock.DEVICE) for path in plan.devices]
    landlock.restrict([*rules, (scratch, landlock.SCRATCH)])


def _drop_capabilities() -> None:
    system.call("capset", struct.pack("<Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _filter_calls(plan: Plan) -> None:
    try:
        denied = "" if landlock.abi() >= landlock.ABI_OF_TRUNCATE else "truncate"
    except OSError:
        denied = "truncate"
    # CUDA shares memory with its driver; its address space is not limited either.
    seccomp.install(denied, shared_memory=not plan.address_space)
