"""Bounds on what a check in the notebook may take, so that a program without end costs seconds and not the kernel.

A program that runs on is interrupted after `SECONDS`; on Linux, one that takes more than `MEMORY` more than there was
gets a MemoryError, or PyTorch's own error, where elsewhere the system would end the kernel. Neither interrupts a single
long call into a library, nor a program that goes out of its way to catch every exception, twice.
"""

import contextlib
import ctypes
import signal
import sys
import threading

from autogradlab.observation import is_learner_file

SECONDS = 20.0  # less than Validate waits for a cell
MEMORY = 2 << 30
_AGAIN = 0.2  # seconds until a program that caught the interruption is interrupted again


class RanTooLong(KeyboardInterrupt):
    """The program ran on for too long; a kind of KeyboardInterrupt, which nothing of ours takes for an answer."""


def within(run, seconds: float = SECONDS, memory: int = MEMORY):
    """What `run()` returns; RanTooLong where a program of the learner's in it ran out of time."""
    with _memory_limit(memory), _time_limit(seconds):
        return run()


def ran_out_of_memory(raised: dict | None) -> bool:
    """Whether what a program raised, as a check's record has it, says that there was no more memory."""
    return raised is not None and (raised["type"] == "MemoryError" or "can't allocate memory" in raised["message"])


def _time_limit(seconds):
    is_main = threading.current_thread() is threading.main_thread()
    return _Alarm(seconds) if is_main and hasattr(signal, "setitimer") else _Watch(seconds)


class _Alarm:
    """Interrupts the block by the system's alarm, which also ends a wait such as `time.sleep`."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        self._trace = sys.gettrace()
        self._handler = signal.signal(signal.SIGALRM, self._late)
        self._timer = signal.setitimer(signal.ITIMER_REAL, self.seconds, _AGAIN)

    def __exit__(self, *raised):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        signal.setitimer(signal.ITIMER_REAL, *self._timer)  # somebody else's alarm comes late rather than never
        sys.settrace(self._trace)

    def _late(self, number, frame):
        mine = _learners_frames(frame)
        if not mine:
            return  # what tidies up is not interrupted
        # A program that catches whatever is raised would go on: its next line raises too, also that of the handler.
        for one in mine:
            one.f_trace = _raise
        sys.settrace(_raise)
        raise RanTooLong


def _raise(frame, event, argument):
    if event == "line" and is_learner_file(frame.f_code.co_filename):
        raise RanTooLong
    return _raise


class _Watch:
    """Interrupts the block's thread from another one, where there is no alarm."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        self._done, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._wait, args=(threading.get_ident(),), daemon=True)
        self._thread.start()

    def __exit__(self, *raised):
        with self._lock:
            self._done.set()

    def _wait(self, thread):
        wait = self.seconds
        while not self._done.wait(wait):
            wait = _AGAIN
            with self._lock:
                if not self._done.is_set() and _learners_frames(sys._current_frames().get(thread)):
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(RanTooLong))


def _learners_frames(frame) -> list:
    """The frames of the learner's own code that the bounds hold for, the innermost first; not of who set them."""
    found = []
    while frame is not None and frame.f_code is not within.__code__:
        if is_learner_file(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found


@contextlib.contextmanager
def _memory_limit(memory):
    """Lets the process take so much more private memory; where the system cannot bound that, nothing is bounded."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource  # there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = min(one for one in (_data_bytes() + memory, soft, hard) if one != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """The process's private memory, as RLIMIT_DATA counts it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        (line,) = (line for line in status if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024
