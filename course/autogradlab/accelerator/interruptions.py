"""Errors that arrive where PyTorch has no way to pass them on, kept until it has.

PyTorch calls two Python functions of a device from C++ that may not throw: the guard's `type_`, on the way out of every
node of a graph, and `__del__` of what a storage holds. Two kinds of errors are met there. One is pending already: a hook
failed, and PyTorch is about to report it. The other arrives by itself, because Python looks for Ctrl-C, and for what other
threads raise, at the beginning of every function. Either would end the process, or be lost.
"""

import threading
import types

_kept = {}


def keep(error: BaseException):
    """Keeps an error for `release`, in the thread that met it."""
    _kept[threading.get_ident()] = error


def release():
    """Raises what was kept in this thread, if anything was."""
    if not _kept:
        return
    error = _kept.pop(threading.get_ident(), None)
    if error is not None:
        try:
            raise error
        finally:
            # Else the error's traceback would hold this frame, which holds the error.
            del error


def from_the_first_instruction(function):
    """The same function, whose first `try` begins where the function does: before the look for interruptions.

    Expects a function that begins with a `try` and has no free variables.
    """
    table = function.__code__.co_exceptiontable
    start, length, target, depth, *_ = _numbers(table)
    assert start and not function.__code__.co_freevars, "the function does not begin with a try"
    earlier = bytearray().join(map(_bytes, (0, start, target, depth)))
    earlier[0] |= _ENTRY
    code = function.__code__.replace(co_exceptiontable=bytes(earlier) + table)
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__)


# The table's format: Objects/exception_handling_notes.txt in Python's source. An entry is start, length, target and depth,
# each in groups of six bits, the highest first.
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
