"""A bound on the steps of a program: one that never ends costs milliseconds, even if it catches every exception."""

import ctypes
import dis
import functools
import os
import pathlib
import sys
import threading

import torch

# The standard library, and where packages are; sysconfig would say so as well, but takes ten milliseconds.
_places = [pathlib.Path(os.__file__).parent, pathlib.Path(torch.__file__).parents[1]]
_OWN = pathlib.Path(__file__).parent
#: Folders whose code is neither a learner's nor an author's.
LIBRARIES = tuple(f"{form}{os.sep}" for place in (*_places, _OWN) for form in {str(place), str(place.resolve())})
_set_pending = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_pending.restype = None


class StepLimit(BaseException):
    """The program took more steps than the exercise allows. Not an Exception, so that a program cannot pass over it.

    `frames` tell where it was then, as (file, line, function), the outermost first.
    """

    frames = ()


class _Insisting(StepLimit):
    """A StepLimit that is raised again as soon as somebody has caught it.

    A raise inside a trace function ends the tracing, so a program that swallows it would run on unwatched. Creating
    this exception therefore makes another one pending; that happens in C, so that no code of ours is interrupted by it.
    """


class Steps:
    """Counts Python calls and lines of everything but libraries, up to `limit`."""

    def __init__(self, limit: int):
        self.limit, self.taken, self._frames = limit, 0, None

    def run(self, program):
        """What `program()` returns. Raises StepLimit where it takes too many steps, whatever it catches."""
        thread, previous = ctypes.c_ulong(threading.get_ident()), sys.gettrace()
        _Insisting.__init__ = staticmethod(functools.partial(_set_pending, thread, ctypes.py_object(_Insisting)))
        raise_once = functools.partial(_set_pending, thread, ctypes.py_object(StepLimit))
        try:
            sys.settrace(self._enter)
            result = program()
        except BaseException:
            if self.taken <= self.limit:
                raise
            # Replaces what is pending by an exception that does not come again, and meets it here; contextlib.suppress
            # is Python code, which what is pending would hit.
            try:  # noqa: SIM105
                raise_once()
            except StepLimit:
                pass
        finally:
            sys.settrace(previous)
        if self.taken <= self.limit:
            return result
        error = StepLimit(f"more than {self.limit} steps")
        error.frames = self._frames
        raise error

    def _enter(self, frame, event, argument):
        if frame.f_code.co_filename.startswith(LIBRARIES):
            return None
        if _has_silent_loop(frame.f_code):
            frame.f_trace_opcodes = True
        return self._count(frame, event, argument)

    def _count(self, frame, event, argument):
        self.taken += 1
        if self.taken > self.limit:
            self._frames = self._frames or _frames_within(Steps.run.__code__, frame)
            raise _Insisting
        return self._count


def _frames_within(outermost, frame) -> list:
    """The frames from the one below `outermost`'s down to `frame`; where a program recurses, its last 1000."""
    frames = []
    while frame is not None and frame.f_code is not outermost and len(frames) < 1000:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return frames[::-1]


@functools.lru_cache(maxsize=1024)
def _has_silent_loop(code) -> bool:
    """Whether the code may go round in a loop of which tracing shows no line, as `while True: pass` does."""
    target = None
    for instruction in dis.get_instructions(code):
        if instruction.is_jump_target:
            target = instruction.offset
        if "JUMP" in instruction.opname and instruction.argval == target:
            return True
        if instruction.opname != "NOP":
            target = None
    return False
