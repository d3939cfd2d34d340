"""A filter on system calls: no sockets, no new processes, no programs, no signals to others, no privileges.

Refused calls answer with an ordinary errno, so that a library meets an OSError and not a killed process. The filter is
a program of classic BPF; see seccomp(2) and Documentation/userspace-api/seccomp_filter.rst.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
import termios
from collections.abc import Iterator

from autograder.sandbox import system

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
ALLOW, KILL = 0x7FFF0000, 0x80000000
_NEXT = None  # neither allowed nor refused yet: the rules below decide

_SET_MODE_FILTER = 1
#: What the C library makes threads with. Without the first two of them a thread has descriptors, or a working
#: directory, that are not those of its process.
_CLONE_FILES, _CLONE_FS, _CLONE_THREAD = 0x400, 0x200, 0x10000
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_F_SETOWN_EX = 15
_SET_PDEATHSIG, _SET_DUMPABLE = 1, 4
_TYPE_OF_SOCKET = 0xF
_OWNER = 0o700
_MAP_TYPE, _MAP_SHARED_VALIDATE = 0xF, 3
#: Added to the number of an argument of 64 bits.
_UPPER_HALF = 0.5


def _refuse(number: int) -> int:
    return 0x00050000 | number


_EPERM, _ENOSYS, _ENOMEM = (_refuse(number) for number in (errno.EPERM, errno.ENOSYS, errno.ENOMEM))
#: The caller is told that it worked, and nothing is done: copying a file sets its mode and its times, and neither
#: matters here, while the modes of files that can be read only are not covered by Landlock.
_IGNORE = _refuse(0)

DENIED = {
    "other processes": "ptrace process_vm_readv process_vm_writev kcmp pidfd_open pidfd_getfd pidfd_send_signal "
    "process_madvise process_mrelease migrate_pages move_pages",
    # Descriptors that travel in messages are open, and in no list of open files.
    "network": "socket connect bind listen accept accept4 sendmsg sendmmsg",
    "new processes": "execve execveat fork vfork",
    # Memory that no limit on a process counts, and descriptors that escape the limit on the size of files.
    # A page in a pipe keeps all of a large page in memory.
    "hidden memory": "memfd_create memfd_secret shmget shmat shmctl mq_open mq_unlink splice vmsplice tee",
    # Objects of System V have numbers, which can be guessed.
    "objects of others": "semget semop semtimedop semctl msgget msgsnd msgrcv msgctl",
    "mounts and namespaces": "mount umount2 pivot_root chroot setns unshare open_tree open_tree_attr move_mount fsopen "
    "fsconfig fsmount fspick mount_setattr statmount listmount listns",
    "kernel": "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register io_setup keyctl add_key "
    "request_key init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff sethostname "
    "setdomainname settimeofday clock_settime adjtimex clock_adjtime acct quotactl quotactl_fd lookup_dcookie "
    "personality syslog vhangup iopl ioperm modify_ldt fanotify_init uselib",
    "privileges": "setuid setgid setreuid setregid setgroups setresuid setresgid setfsuid setfsgid capset",
    # Landlock lets everybody watch which names are opened in any folder.
    "other files": "inotify_init inotify_init1 inotify_add_watch name_to_handle_at open_by_handle_at mknod mknodat "
    "chown fchown lchown fchownat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr "
    "removexattrat file_setattr",
    "priorities": "setpriority sched_setscheduler sched_setparam sched_setattr ioprio_set",
}
IGNORED = "chmod fchmod fchmodat fchmodat2"
#: Calls that set times, and which of their arguments holds them.
TIMES = {"utime": 1, "utimes": 1, "utimensat": 2, "futimesat": 2}
#: The C library falls back from these to calls whose arguments a filter can see.
UNKNOWN = "clone3 openat2"


def _checked(own: int, shared_memory: bool) -> Iterator[tuple]:
    """Yields (call, argument, mask, values, action where the masked argument is among them, action elsewhere)."""
    truncating = os.O_ACCMODE | os.O_TRUNC
    thread = _CLONE_FILES | _CLONE_FS | _CLONE_THREAD
    yield "clone", 0, thread, (thread,), ALLOW, _EPERM
    for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        yield name, 0, -1, (own,), ALLOW, _EPERM
    for name in ("prlimit64", "sched_setaffinity"):
        yield name, 0, -1, (0, own), ALLOW, _EPERM
    # Input typed into a terminal, and signals to whoever a descriptor is said to belong to.
    yield "ioctl", 1, -1, (termios.TIOCSTI, termios.TIOCLINUX, _FIOSETOWN, _SIOCSPGRP), _EPERM, ALLOW
    yield "fcntl", 1, -1, (fcntl.F_SETOWN, _F_SETOWN_EX, fcntl.F_SETSIG, fcntl.F_SETLEASE), _EPERM, ALLOW
    yield "prctl", 0, -1, (_SET_PDEATHSIG, _SET_DUMPABLE), _EPERM, ALLOW
    # A datagram socket of a pair can still send to any other socket; asyncio and multiprocessing use streams.
    yield "socketpair", 0, -1, (socket.AF_UNIX,), _NEXT, _EPERM
    yield "socketpair", 1, _TYPE_OF_SOCKET, (socket.SOCK_STREAM, socket.SOCK_SEQPACKET), ALLOW, _EPERM
    # Shared memory without a file stays whole as long as one page of it is mapped. So that the watch knows how much it
    # can be, it comes in pieces of a bounded size.
    if not shared_memory:
        shared = (mmap.MAP_SHARED, _MAP_SHARED_VALIDATE)
        nameless = tuple(kind | mmap.MAP_ANONYMOUS for kind in shared)
        yield "mmap", 3, _MAP_TYPE | mmap.MAP_ANONYMOUS, nameless, _NEXT, ALLOW
        yield "mmap", 1, -system.SHARED_BYTES, (0,), _NEXT, _ENOMEM
        yield "mmap", 1 + _UPPER_HALF, -1, (0,), ALLOW, _ENOMEM
    # Landlock takes opening a file only to read for reading, also where opening it empties it, before its ABI 3.
    for name, flags in (("open", 1), ("openat", 2)):
        yield name, flags, truncating, (os.O_RDONLY | os.O_TRUNC,), _EPERM, ALLOW
    # Folders that their owner cannot look into would hide files from the limits on disk and files.
    for name, mode in (("mkdir", 1), ("mkdirat", 2)):
        yield name, mode, _OWNER, (_OWNER,), ALLOW, _EPERM
    # Without a time it is `Path.touch`, which makes the file when it is told that this has failed.
    for name, times in TIMES.items():
        yield name, times, -1, (0,), _EPERM, _IGNORE
    yield "umask", 0, _OWNER, (0,), ALLOW, _EPERM


def program(machine: str, own: int, denied: str = "", shared_memory: bool = False) -> list[tuple[int, int, int, int]]:
    """The filter for the process with the number `own`, as instructions (code, jump if true, jump if false, value).

    `denied` names calls to be refused besides those that always are; with `shared_memory`, pieces of shared memory
    without a file may have any size.
    """
    numbers = system.numbers(machine)
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, system.ARCHITECTURES[machine]),
        (_RETURN, 0, 0, KILL),  # calls of another architecture have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, system.NEWEST_CALL + 1),
        (_RETURN, 0, 0, _ENOSYS),
    ]
    for name, argument, mask, values, listed, elsewhere in _checked(own, shared_memory):
        if name in numbers:
            instructions += _check(numbers[name], argument, mask, values, listed, elsewhere)
    for names, action in ((" ".join((*DENIED.values(), denied)), _EPERM), (IGNORED, _IGNORE), (UNKNOWN, _ENOSYS)):
        for name in names.split():
            if name in numbers:
                instructions += [(_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, action)]
    return [*instructions, (_RETURN, 0, 0, ALLOW)]


def _check(number: int, argument: int, mask: int, values: tuple, listed: int | None, elsewhere: int | None) -> list:
    """Instructions for one row of `_checked`, which looks at 32 bits of an argument."""
    last = [(_RETURN, 0, 0, elsewhere), (_RETURN, 0, 0, listed)]
    if listed is _NEXT:
        last[1] = (_LOAD, 0, 0, _NUMBER_AT)
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    body = [(_LOAD, 0, 0, int(_ARGUMENTS_AT + 8 * argument)), (_AND, 0, 0, mask), *tests, *last]
    return [(_EQUAL, 0, len(body), number), *body]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(denied: str = "", shared_memory: bool = False) -> None:
    """Puts the filter of `program` on this process for good. Raises OSError where the kernel refuses."""
    instructions = program(system.MACHINE, os.getpid(), denied, shared_memory)
    packed = b"".join(struct.pack("<HBBI", *row[:3], row[3] & 0xFFFFFFFF) for row in instructions)
    held = ctypes.create_string_buffer(packed, len(packed))
    described = _Program(len(instructions), ctypes.addressof(held))
    system.call("seccomp", _SET_MODE_FILTER, 0, ctypes.byref(described))
