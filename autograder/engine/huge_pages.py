"""This process's memory in huge pages, so that forking it copies tens of page tables and not thousands."""

import ctypes
import sys

_SIZE = 2 << 20  # of a huge page on x86-64, and on ARM with pages of 4 KiB
_MADV_COLLAPSE = 25  # Linux 6.1


def collapse() -> None:
    """Have the system put anonymous memory that is in use now into huge pages; where it cannot, all stays as it was.

    A child's own memory comes in small pages as ever. Source: madvise(2), MADV_COLLAPSE.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split() for line in file]
    for place, rights, _, _, _, *name in lines:
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in place.split("-"))
            first, last = -(-start // _SIZE) * _SIZE, end // _SIZE * _SIZE
            if first < last:
                madvise(first, last - first, _MADV_COLLAPSE)  # a refusal leaves small pages, which are right as well
