"""Calls to the kernel that Python has no function for."""

import ctypes
import functools
import os
import platform
import sys

#: Numbers of system calls on x86_64 and on aarch64, where some do not exist. From the kernel's unistd headers.
_CALLS = """
ptrace 101 117 · process_vm_readv 310 270 · process_vm_writev 311 271 · kcmp 312 272 · pidfd_open 434 434
pidfd_getfd 438 438 · pidfd_send_signal 424 424 · process_madvise 440 440 · process_mrelease 448 448
migrate_pages 256 238 · move_pages 279 239 · socket 41 198 · connect 42 203 · bind 49 200 · listen 50 201
accept 43 202 · accept4 288 242 · socketpair 53 199 · sendmsg 46 211 · sendmmsg 307 269 · inotify_init 253 -
inotify_init1 294 26 · inotify_add_watch 254 27 · memfd_create 319 279 · mmap 9 222 · splice 275 76 · tee 276 77
vmsplice 278 75 · memfd_secret 447 447 · mount 165 40 · umount2 166 39 · pivot_root 155 41 · chroot 161 51
setns 308 268 · unshare 272 97 · open_tree 428 428 · move_mount 429 429 · fsopen 430 430 · fsconfig 431 431
fsmount 432 432 · fspick 433 433 · mount_setattr 442 442 · statmount 457 457 · listmount 458 458
open_tree_attr 467 467 · listns 470 470 · bpf 321 280 · perf_event_open 298 241 · userfaultfd 323 282
io_uring_setup 425 425 · io_uring_enter 426 426 · io_uring_register 427 427 · io_setup 206 0 · keyctl 250 219
add_key 248 217 · request_key 249 218 · init_module 175 105 · finit_module 313 273 · delete_module 176 106
kexec_load 246 104 · kexec_file_load 320 294 · reboot 169 142 · swapon 167 224 · swapoff 168 225 · sethostname 170 161
setdomainname 171 162 · settimeofday 164 170 · clock_settime 227 112 · adjtimex 159 171 · clock_adjtime 305 266
acct 163 89 · quotactl 179 60 · quotactl_fd 443 443 · name_to_handle_at 303 264 · open_by_handle_at 304 265
lookup_dcookie 212 18 · personality 135 92 · syslog 103 116 · vhangup 153 58 · iopl 172 - · ioperm 173 -
modify_ldt 154 - · fanotify_init 300 262 · uselib 134 - · setuid 105 146 · setgid 106 144 · setreuid 113 145
setregid 114 143 · setgroups 116 159 · setresuid 117 147 · setresgid 119 149 · setfsuid 122 151 · setfsgid 123 152
capset 126 91 · execve 59 221 · execveat 322 281 · fork 57 - · vfork 58 - · clone 56 220 · clone3 435 435 · mknod 133 -
mknodat 259 33 · shmget 29 194 · shmat 30 196 · shmctl 31 195 · semget 64 190 · semop 65 193 · semtimedop 220 192
semctl 66 191 · msgget 68 186 · msgsnd 69 189 · msgrcv 70 188 · msgctl 71 187 · mq_open 240 180 · mq_unlink 241 181
setpriority 141 140 · sched_setscheduler 144 119 · sched_setparam 142 118 · sched_setattr 314 274 · ioprio_set 251 30
sched_setaffinity 203 122 · chown 92 - · fchown 93 55 · lchown 94 - · fchownat 260 54 · setxattr 188 5 · lsetxattr 189 6
fsetxattr 190 7 · removexattr 197 14 · lremovexattr 198 15 · fremovexattr 199 16 · setxattrat 463 463
removexattrat 466 466 · file_setattr 469 469 · chmod 90 - · fchmod 91 52 · fchmodat 268 53 · fchmodat2 452 452
utime 132 - · utimes 235 - · utimensat 280 88 · futimesat 261 - · openat2 437 437 · open 2 - · openat 257 56
creat 85 - · truncate 76 45 · mkdir 83 - · mkdirat 258 34 · umask 95 166 · kill 62 129 · tkill 200 130 · tgkill 234 131
rt_sigqueueinfo 129 138 · rt_tgsigqueueinfo 297 240 · prlimit64 302 261 · ioctl 16 29 · fcntl 72 25 · prctl 157 167
landlock_create_ruleset 444 444 · landlock_add_rule 445 445 · landlock_restrict_self 446 446 · seccomp 317 277
close_range 436 436
"""
#: The highest number in use when this table was made (Linux 6.18); what a later kernel adds is unknown, and refused.
NEWEST_CALL = 470

#: The kernel's names for the machines that the sandbox knows, with the architecture's number in seccomp's data.
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@functools.cache
def numbers(machine: str) -> dict[str, int]:
    """The number of each system call that exists on this kind of machine."""
    column = list(ARCHITECTURES).index(machine) + 1
    rows = (row.split() for line in _CALLS.strip().splitlines() for row in line.split(" · "))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


MACHINE = platform.machine()
#: Less than this, a power of two, is one piece of shared memory without a file: the filter and the watch agree on it.
SHARED_BYTES = 1 << 27
SUPPORTED = sys.platform == "linux" and MACHINE in ARCHITECTURES and sys.maxsize > 2**32
NUMBERS = numbers(MACHINE) if SUPPORTED else {}
_M_ARENA_MAX = -8
_LIBC = ctypes.CDLL(None, use_errno=True) if SUPPORTED else None
if _LIBC is not None:
    _LIBC.syscall.restype = ctypes.c_long


def call(name: str, *arguments) -> int:
    """What the system call gives: whole numbers, bytes (given as their address) and None may be arguments.

    Raises OSError where the kernel refuses.
    """
    ctypes.set_errno(0)
    result = _LIBC.syscall(ctypes.c_long(NUMBERS[name]), *(_word(argument) for argument in arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _word(argument):
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if argument is None or isinstance(argument, int):
        return ctypes.c_void_p(argument) if argument is None else ctypes.c_long(argument)
    return argument


def share_arenas(number: int) -> None:
    """Lets all threads take memory from a few arenas: malloc reserves 64 MiB of addresses for each, one a thread."""
    if hasattr(_LIBC, "mallopt"):  # the C library of GNU
        _LIBC.mallopt(_M_ARENA_MAX, number)


def prctl(option: int, argument: int = 0) -> int:
    """What `prctl` gives for an option with one argument."""
    return call("prctl", option, argument, 0, 0, 0)
