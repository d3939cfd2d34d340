"""Namespaces of the kernel: a network without devices, and a file tree that holds nothing but what may be read."""

import os
import shutil
import stat
import struct

from autograder.sandbox import system
from autograder.sandbox.planning import Plan

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 4096, 16384, 1 << 18
_DETACH = 2
_AT_RECURSIVE = 0x8000
_ATTRIBUTE_RDONLY, _ATTRIBUTE_NOSUID = 1, 2
#: What the tree itself may take, without the scratch folder: folders and empty files to mount on.
_TREE_BYTES = 4 << 20
#: So that a full scratch folder is over the limit, and not just at it.
_SPARE_BYTES, _SPARE_FILES = 1 << 20, 16


def unshare() -> None:
    """Leaves the network, System V objects and the host name behind, in a user namespace unless we are root."""
    apart = _NEW_NETWORK | _NEW_IPC | _NEW_UTS
    user, group = os.getuid(), os.getgid()
    if user == 0:
        system.call("unshare", apart)
        return
    system.call("unshare", apart | _NEW_USER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def private_root(plan: Plan, scratch: str) -> None:
    """Puts the process into a tree of what the plan makes readable, read-only, and a scratch folder in memory.

    What the scratch folder holds is copied; its size and its number of files are limited by the kernel. Paths stay as
    they were. Needs the right to mount: root, or the user namespace of `unshare`.
    """
    before = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        system.call("unshare", _NEW_MOUNTS)
        _mount(None, "/", None, _RECURSIVE | _PRIVATE)
        _mount("tmpfs", scratch, "tmpfs", _NOSUID | _NODEV, f"size={_TREE_BYTES},mode=755")
        for path in (*plan.readable, *plan.devices):
            _bind(path, scratch + path)
        inside = scratch + scratch
        os.makedirs(inside, exist_ok=True)
        read_only = struct.pack("<QQQQ", _ATTRIBUTE_RDONLY | _ATTRIBUTE_NOSUID, 0, 0, 0)
        here = -100  # AT_FDCWD
        system.call("mount_setattr", here, scratch.encode(), _AT_RECURSIVE, read_only, len(read_only))
        size = int(plan.limits["disk"]) + _SPARE_BYTES
        files = int(plan.limits["files"]) + _SPARE_FILES
        _mount("tmpfs", inside, "tmpfs", _NOSUID | _NODEV, f"size={size},nr_inodes={files},mode=700")
        shutil.copytree(f"/proc/self/fd/{before}", inside, dirs_exist_ok=True)
    finally:
        os.close(before)
    os.chdir(scratch)
    system.call("pivot_root", b".", b".")
    system.call("umount2", b".", _DETACH)
    os.chdir(scratch)


def _bind(path: str, place: str) -> None:
    source = os.path.realpath(path) if path != "/proc/self" else path
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "x", encoding="ascii"):
            pass
    _mount(source, place, None, _BIND | _RECURSIVE)


def _mount(source: str | None, place: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, place, kind, options)]
    system.call("mount", *encoded[:3], flags, encoded[3])
