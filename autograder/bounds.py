"""Blocks that end when they take too much of this process's time or memory, whatever they are given to work on."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

#: Seconds of computing after which a block that goes on is ended once more.
_AGAIN = 0.05


class TooLong(BaseException):
    """A block took too long; no Exception, which the block itself would take for one of its data's."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """A block that is ended by TooLong after so many seconds of this process's own computing."""
    rung = False

    def ring(*_):
        nonlocal rung
        rung = True
        raise TooLong

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        # Signals come to the main thread alone; a formgrader that grades elsewhere is watched by its user.
        yield
        return
    previous = signal.signal(signal.SIGPROF, ring)
    # Again and again, because what is raised where an object is thrown away goes no further.
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)
    try:
        yield
    except SystemError as error:  # what Python makes of it where it was making a syntax tree
        if rung:
            raise TooLong from error
        raise
    finally:
        _stop()
        signal.signal(signal.SIGPROF, previous)


def _stop() -> None:
    """Stop the timer, which may ring once more before that is done."""
    while True:
        try:
            signal.setitimer(signal.ITIMER_PROF, 0)
            return
        except TooLong:
            continue


@contextlib.contextmanager
def no_more_than(memory: int) -> Iterator[None]:
    """A block in which this process can take so many bytes of addresses beyond what it has, on Linux."""
    if sys.platform != "linux":  # where nothing is confined at all
        yield
        return
    import resource  # which Windows lacks

    with open("/proc/self/statm", "rb") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [now + memory, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
