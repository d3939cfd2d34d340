"""Autograd's engine beside a device written in Python: one thread, and errors that reach the learner."""

import torch
from torch.autograd.variable import Variable

from autogradlab.accelerator.interruptions import backward, from_the_first_instruction, keep, release


def start():
    """Starts autograd's engine before it can see a device for which it would start a thread.

    Without that thread, a process that has run a backward on sim can be forked, and the child can run backward as well;
    and a process whose first backward came before `register` is no different from one whose first comes after.
    """
    with torch.inference_mode(False), torch.enable_grad():
        torch.ones((), dtype=torch.float32, device="cpu", requires_grad=True).backward()


# Arguments instead of names, because a look into the module could fail while an error is pending. The set is no tuple,
# for which Python's loops have a short cut.
def _type(self, nothing=frozenset(), kind=torch._C._autograd.DeviceType.PrivateUse1):
    """The type of the device; an error that is pending or arrives is kept (see interruptions.py)."""
    try:
        # The end of a loop is where Python notices an error that is pending; any call would fail with it.
        for _ in nothing:
            pass
    except BaseException as error:
        keep(error)
    return kind


class DeviceGuard(torch._C._acc.DeviceGuard):
    """Tells PyTorch the type of the device; there is one device and one stream, so there is nothing to guard."""

    type_ = from_the_first_instruction(_type)


def adapt():
    """Lets the thread that calls backward run the nodes on sim too, because there is no other (see `start`)."""
    multithreading, set_multithreading = torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled

    class Engine(type(Variable._execution_engine)):
        def run_backward(self, *args, **kwargs):
            before = multithreading()
            set_multithreading(False)
            try:
                with backward():
                    result = super().run_backward(*args, **kwargs)
            except SystemError:
                # What PyTorch says where the error that it was to report was kept instead.
                release()
                raise
            finally:
                set_multithreading(before)
            release()
            return result

    Variable._execution_engine = Engine()
