"""Autograd's engine beside a device written in Python: one thread, and errors that reach the learner.

PyTorch asks the device's guard for its type on the way out of every failed node, where a C++ function may not throw. If
the node failed in a hook, Python's error is still pending there, the call into Python fails, and the process dies. So
the guard takes the pending error into its keeping, and `run_backward` raises it where PyTorch no longer knows it.
"""

import threading

import torch
from torch.autograd.variable import Variable

_DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1
_kept = threading.local()


class DeviceGuard(torch._C._acc.DeviceGuard):
    """Tells PyTorch the type of the device; there is one device and one stream, so there is nothing to guard."""

    def type_(self):
        try:
            # The end of a loop is where Python notices an error that is pending; any call would fail with it.
            for _ in _NOTHING:
                pass
        except BaseException as error:
            _kept.error = error
        return _DEVICE_TYPE


# Not a tuple or a list, for which Python has a short cut without that check.
_NOTHING = frozenset()


def start():
    """Starts autograd's engine before it can see a device for which it would start a thread.

    Without that thread, a process that has run a backward on sim can be forked, and the child can run backward as well;
    and a process whose first backward came before `register` is no different from one whose first comes after.
    """
    with torch.inference_mode(False), torch.enable_grad():
        torch.ones((), dtype=torch.float32, device="cpu", requires_grad=True).backward()


def adapt():
    """Lets the thread that calls backward run the nodes on sim too, because there is no other (see `start`)."""
    multithreading, set_multithreading = torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled

    class Engine(type(Variable._execution_engine)):
        def run_backward(self, *args, **kwargs):
            before = multithreading()
            set_multithreading(False)
            try:
                return super().run_backward(*args, **kwargs)
            except SystemError:
                error = vars(_kept).pop("error", None)
                if error is None:
                    raise
            finally:
                set_multithreading(before)
            try:
                raise error
            finally:
                # Else the error's traceback would hold this frame, which holds the error.
                del error

    Variable._execution_engine = Engine()
