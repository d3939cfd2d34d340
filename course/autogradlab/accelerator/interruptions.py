"""Errors that arrive where PyTorch cannot pass them on, kept until it can.

At every node of a graph, forward and backward, PyTorch asks the guard of a device written in Python for the device's
type, from C++ that may not throw: an error met there ends the process. Three kinds are met. One is pending already,
because a hook failed and PyTorch is about to report it. One comes from another thread, which Python looks for where
functions begin. And Ctrl-C (the stop button of a notebook) is looked for inside the call into Python, before any
function of ours.
"""

import _signal
import _thread
import contextlib
import signal
import sys
import threading
import time
import types

_kept = {}


def keep(error: BaseException):
    """Keeps an error for `release`, in the thread that met it."""
    _kept[threading.get_ident()] = error


def release():
    """Raises what was kept in this thread, if anything was; called where an error may be raised."""
    if _interrupts.noted is not None and _interrupts.in_main_thread():
        _interrupts.deliver()
    if not _kept:
        return
    error = _kept.pop(threading.get_ident(), None)
    if error is not None:
        try:
            raise error
        finally:
            # Else the error's traceback would hold this frame, which holds the error.
            del error


# ------------------------------------------------------------------------------------------------ Ctrl-C


class _Interrupts:
    """Notes Ctrl-C while operations on sim are under way, for the next one or the end of backward to raise.

    Elsewhere it goes to the handler that was there before, at once. What is not raised soon is sent again, so that a
    program that has turned to something else is interrupted all the same.
    """

    SOON, AGAIN = 0.05, 0.1

    def __init__(self):
        self.handler = self.noted = None
        self.last, self.backwards = 0.0, 0
        self.main = threading.main_thread().ident

    def in_main_thread(self):
        return _thread.get_ident() == self.main

    def watch(self):
        """Takes Ctrl-C over where it is not yet; a notebook sets its handler anew for every cell."""
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler is not _arrive and self.in_main_thread():
            self.handler = handler
            signal.signal(signal.SIGINT, _arrive)

    def arrive(self, number, frame):
        if not self.backwards and time.monotonic() - self.last > self.SOON:
            self.noted = None
            self.handler(number, frame)
        elif self.noted is None:
            self.noted = number
            _thread.start_new_thread(self._send_again, (number,))

    def _send_again(self, number):
        while self.noted is not None:
            time.sleep(self.AGAIN)
            if self.noted is None:
                return
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(self.main, number)
            else:
                _thread.interrupt_main(number)

    def deliver(self):
        number, self.noted = self.noted, None
        self.handler(number, sys._getframe())


_interrupts = _Interrupts()
# One object, so that it is known again.
_arrive = _interrupts.arrive
_handler, _SIGINT, _now = _signal.getsignal, int(signal.SIGINT), time.monotonic


def begin_operation():
    """Called where an operation on sim begins; raises what was kept."""
    if _kept or _interrupts.noted is not None:
        release()
    if _handler(_SIGINT) is not _arrive:
        _interrupts.watch()


def end_operation():
    """Called where an operation on sim ends, before PyTorch asks the guard."""
    _interrupts.last = _now()


@contextlib.contextmanager
def backward():
    """Notes Ctrl-C as long as backward runs, and raises it at its end if no operation did."""
    if not _interrupts.in_main_thread():
        yield
        return
    _interrupts.watch()
    _interrupts.backwards += 1
    try:
        yield
    finally:
        _interrupts.backwards -= 1


# ------------------------------------------------------------------------------------------------ other threads


def from_the_first_instruction(function):
    """The same function, whose first `try` begins where it does: before the look for what other threads raise.

    Expects a function that begins with a `try` and has no free variables.
    """
    table = function.__code__.co_exceptiontable
    start, _, target, depth, *_ = _numbers(table)
    assert not function.__code__.co_freevars, "free variables are made ready before the function begins"
    if not start:
        return function
    earlier = bytearray().join(map(_bytes, (0, start, target, depth)))
    earlier[0] |= _ENTRY
    code = function.__code__.replace(co_exceptiontable=bytes(earlier) + table)
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__)


# The table's format: Objects/exception_handling_notes.txt in Python's source. An entry is start, length, target and
# depth, each in groups of six bits, the highest first.
_ENTRY, _MORE = 0x80, 0x40


def _numbers(table):
    value = 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & _MORE:
            yield value
            value = 0


def _bytes(number):
    groups = [number & 0x3F]
    while number := number >> 6:
        groups.append(number & 0x3F | _MORE)
    return bytes(reversed(groups))
