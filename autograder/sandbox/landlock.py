"""Landlock: which files a process can reach, for good. See landlock(7) and include/uapi/linux/landlock.h."""

import os
import stat
import struct
from collections.abc import Iterable

from autograder.sandbox import system

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 16, 32, 128, 256
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
#: What a rule on a file, not on a folder, may grant.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

READ = READ_FILE | READ_DIR
#: No symbolic links, devices, sockets or named pipes: nothing that outlives the child or leads out of its folder.
SCRATCH = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV

_VERSION_FLAG = 1
_PATH_BENEATH = 1
#: The first ABI that knows a right, a rule about TCP ports, a scope; asking for an unknown one is an error.
_ABI_OF = {REFER: 2, TRUNCATE: (ABI_OF_TRUNCATE := 3), IOCTL_DEV: 5}
_ABI_OF_TCP, _ABI_OF_SCOPES = 4, 6
_TCP_BIND_AND_CONNECT = _ABSTRACT_SOCKETS_AND_SIGNALS = 3


def abi() -> int:
    """The version of Landlock that the kernel speaks. Raises OSError where it has none, or it is switched off."""
    return system.call("landlock_create_ruleset", None, 0, _VERSION_FLAG)


def restrict(rules: Iterable[tuple[str, int]]) -> None:
    """Leaves this process the rights that the rules grant beneath their paths, and none elsewhere.

    It also loses TCP, abstract sockets and signals to other processes where the kernel's Landlock covers these. A path
    that is not there grants nothing. Raises OSError where the kernel refuses.
    """
    version = abi()
    known = (1 << 13) - 1
    for right, since in _ABI_OF.items():
        known |= right if version >= since else 0
    attributes = struct.pack("<Q", known)
    if version >= _ABI_OF_TCP:
        attributes += struct.pack("<Q", _TCP_BIND_AND_CONNECT)
    if version >= _ABI_OF_SCOPES:
        attributes += struct.pack("<Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = system.call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path, rights in rules:
            _grant(ruleset, path, rights & known)
        system.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # a folder that this machine lacks, or that is closed to us anyhow
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        system.call("landlock_add_rule", ruleset, _PATH_BENEATH, struct.pack("<Qi", rights, place), 0)
    finally:
        os.close(place)
