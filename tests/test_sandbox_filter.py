"""The filter's program answers each system call as meant, on both kinds of machine: it is run here, by hand."""

import errno
import fcntl
import mmap
import os
import re
import shutil
import socket
import subprocess
import termios

import pytest

from autograder.sandbox import seccomp, system

OWN = 4711
OTHER = 1
REFUSED, UNKNOWN, IGNORED, NO_MEMORY = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS, 0, errno.ENOMEM))
MACHINES = list(system.ARCHITECTURES)
both_machines = pytest.mark.parametrize("machine", MACHINES)
CLONE_THREAD, CLONE_VM, CLONE_FS, CLONE_FILES = 0x10000, 0x100, 0x200, 0x400


def answer(machine: str, number: int, *arguments: int, denied: str = "", architecture: int | None = None) -> int:
    """What the program returns for a call."""
    data = {0: number, 4: architecture or system.ARCHITECTURES[machine]}
    for place in range(6):
        value = arguments[place] if place < len(arguments) else 0
        data[16 + 8 * place] = value & 0xFFFFFFFF
        data[20 + 8 * place] = value >> 32 & 0xFFFFFFFF
    program = seccomp.program(machine, OWN, denied)
    held, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        value &= 0xFFFFFFFF
        at += 1
        if code == 0x20:
            held = data[value]
        elif code == 0x54:
            held &= value
        elif code == 0x15:
            at += if_true if held == value else if_false
        elif code == 0x35:
            at += if_true if held >= value else if_false
        else:
            assert code == 0x06
            return value


@both_machines
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("clone", (CLONE_THREAD | CLONE_VM | CLONE_FS | CLONE_FILES,), seccomp.ALLOW),
        ("clone", (CLONE_THREAD | CLONE_VM | CLONE_FS,), REFUSED),
        ("mmap", (0, 4096, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), seccomp.ALLOW),
        ("mmap", (0, 4096, 3, mmap.MAP_SHARED), seccomp.ALLOW),
        ("mmap", (0, 4096, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE), seccomp.ALLOW),
        ("mmap", (0, system.SHARED_BYTES, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS), NO_MEMORY),
        ("mmap", (0, (1 << 32) + 4096, 3, 3 | mmap.MAP_ANONYMOUS), NO_MEMORY),
        ("mmap", (0, 1 << 40, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), seccomp.ALLOW),
        ("clone", (CLONE_THREAD | CLONE_VM | CLONE_FILES,), REFUSED),
        ("clone", (CLONE_VM,), REFUSED),
        ("clone", (0,), REFUSED),
        ("clone3", (), UNKNOWN),
        ("openat2", (), UNKNOWN),
        ("kill", (OWN, 9), seccomp.ALLOW),
        ("kill", (OTHER, 9), REFUSED),
        ("kill", (0, 9), REFUSED),
        ("kill", (-1, 9), REFUSED),
        ("tgkill", (OWN, OTHER, 9), seccomp.ALLOW),
        ("tgkill", (OTHER, OTHER, 9), REFUSED),
        ("prlimit64", (0, 7), seccomp.ALLOW),
        ("prlimit64", (OTHER, 7), REFUSED),
        ("ioctl", (0, termios.TIOCSTI), REFUSED),
        ("ioctl", (0, 1 << 32 | termios.TIOCSTI), REFUSED),
        ("ioctl", (0, termios.TIOCLINUX), REFUSED),
        ("ioctl", (0, termios.FIONREAD), seccomp.ALLOW),
        ("fcntl", (3, fcntl.F_SETOWN), REFUSED),
        ("fcntl", (3, fcntl.F_GETFD), seccomp.ALLOW),
        ("prctl", (1, 0), REFUSED),
        ("prctl", (15, 0), seccomp.ALLOW),
        ("socket", (socket.AF_INET, socket.SOCK_STREAM), REFUSED),
        ("socketpair", (socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC), seccomp.ALLOW),
        ("socketpair", (socket.AF_UNIX, socket.SOCK_SEQPACKET), seccomp.ALLOW),
        ("socketpair", (socket.AF_UNIX, socket.SOCK_DGRAM), REFUSED),
        ("socketpair", (socket.AF_TIPC, socket.SOCK_STREAM), REFUSED),
        ("openat", (0, 0, os.O_RDONLY), seccomp.ALLOW),
        ("openat", (0, 0, os.O_WRONLY | os.O_TRUNC | os.O_CREAT), seccomp.ALLOW),
        ("openat", (0, 0, os.O_RDONLY | os.O_TRUNC), REFUSED),
        ("mkdirat", (0, 0, 0o777), seccomp.ALLOW),
        ("mkdirat", (0, 0, 0o300), REFUSED),
        ("umask", (0o077,), seccomp.ALLOW),
        ("umask", (0o400,), REFUSED),
        ("fchmod", (3, 0o777), IGNORED),
        ("utimensat", (0, 0, 1 << 20), IGNORED),
        ("utimensat", (0, 0, 0), REFUSED),
        ("ptrace", (), REFUSED),
        ("setresuid", (0, 0, 0), REFUSED),
        ("memfd_create", (), REFUSED),
        ("truncate", (), seccomp.ALLOW),
    ],
)
def test_a_call_is_answered_as_meant(machine, name, arguments, expected):
    assert answer(machine, system.numbers(machine)[name], *arguments) == expected


@both_machines
def test_every_call_that_is_denied_is_refused_whatever_its_arguments(machine):
    numbers = system.numbers(machine)
    names = [name for names in seccomp.DENIED.values() for name in names.split() if name in numbers]
    assert len(names) > 90
    for name in names:
        for arguments in ((), (OWN,) * 6, (2**64 - 1,) * 6):
            assert answer(machine, numbers[name], *arguments) == REFUSED, name


def test_every_name_in_the_rules_is_a_known_call():
    known = {name for each in MACHINES for name in system.numbers(each)}
    names = " ".join((*seccomp.DENIED.values(), seccomp.IGNORED, seccomp.UNKNOWN, *seccomp.TIMES)).split()
    assert set(names) <= known


def test_calls_that_later_kernels_add_are_unknown():
    assert answer("x86_64", system.NEWEST_CALL + 1) == UNKNOWN
    # The same calls under the numbers of the x32 interface.
    assert answer("x86_64", 0x40000000 + system.numbers("x86_64")["socket"]) == UNKNOWN


def test_calls_of_another_architecture_end_the_process():
    i386 = 0x40000003
    assert answer("x86_64", 20, architecture=i386) == seccomp.KILL


@both_machines
def test_further_calls_can_be_denied(machine):
    assert answer(machine, system.numbers(machine)["truncate"], denied="truncate") == REFUSED


@both_machines
def test_jumps_stay_within_the_program_and_its_length_within_the_kernels_bound(machine):
    program = seccomp.program(machine, OWN)
    assert len(program) < 4096
    for place, (_, if_true, if_false, _) in enumerate(program):
        assert place + 1 + max(if_true, if_false) < len(program) or if_true == if_false == 0


@pytest.mark.skipif(shutil.which("gcc") is None or not system.SUPPORTED, reason="needs a C compiler on Linux")
def test_the_numbers_are_those_of_the_kernels_headers():
    numbers = system.numbers(system.MACHINE)
    lines = "\n".join(f"#ifdef __NR_{name}\n@{name} __NR_{name}\n#endif" for name in numbers)
    source = f"#include <asm/unistd.h>\n{lines}\n"
    done = subprocess.run(["gcc", "-E", "-P", "-"], input=source, capture_output=True, text=True, check=True)
    found = {name: int(number) for name, number in re.findall(r"@(\w+) (\d+)", done.stdout)}
    assert len(found) > 100
    assert found == {name: numbers[name] for name in found}
