"""Blocks that end when they take too much of this process's time or memory, whatever they are given to work on."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator


class TooLong(BaseException):
    """A block took too long; no Exception, which the block itself would take for one of its data's."""


class at_most:
    """A block that is ended by TooLong after so many seconds of this process's own computing."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        # Signals come to the main thread alone; a formgrader that grades elsewhere is watched by its user.
        self._rings = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        self._rung, self._previous = False, None

    def __enter__(self) -> None:
        if self._rings:
            self._previous = signal.signal(signal.SIGPROF, self._ring)
            # Again and again, because what is raised where an object is thrown away goes no further.
            signal.setitimer(signal.ITIMER_PROF, self._seconds, self._seconds)

    def __exit__(self, kind, error, trace) -> None:
        if self._rings:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._previous)
        if self._rung and isinstance(error, SystemError):  # what Python makes of it where it was making a syntax tree
            raise TooLong from error

    def _ring(self, number, frame) -> None:
        while frame is not None:
            if frame.f_code is at_most.__exit__.__code__:
                return  # the block is being left, and nothing may keep that from stopping the timer
            frame = frame.f_back
        self._rung = True
        raise TooLong


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
