"""A second device for everybody: `sim`, a simulated accelerator in pure Python.

It simulates where tensors live and what memory they take, not speed: the CPU computes. `register()` makes it known to
PyTorch; nothing is registered by importing this module. Afterwards `sim` is a device like `cuda`, and `torch.sim` has
its functions, named after those of `torch.cuda`. `counts()` counts what crosses between the CPU and it. See
docs/accelerator.md.
"""

import contextlib

import torch

from autogradlab.accelerator.counters import NAMES, Counts, latency, totals

__all__ = [
    "NAMES",
    "Counts",
    "Unavailable",
    "counts",
    "is_available",
    "is_registered",
    "limits",
    "prepare",
    "register",
    "totals",
    "why_unavailable",
]

_HOOK = "_setup_privateuseone_for_python_backend"
_registered = []


class Unavailable(RuntimeError):
    """There is no simulated accelerator here; the message is one sentence that says why."""


def why_unavailable() -> str | None:
    """One sentence that says why there can be no simulated accelerator here, or None where there can."""
    if _registered:
        return None
    holder = torch._C._get_privateuse1_backend_name()
    if holder != "privateuseone":
        return (
            f"The simulated accelerator cannot be used beside the backend {holder!r}, which holds PyTorch's one place "
            "for other devices in this process; everything else works."
        )
    parts = (
        hasattr(torch.utils.backend_registration, _HOOK),
        hasattr(getattr(torch._C, "_acc", None), "create_empty_tensor"),
        hasattr(torch._C, "_construct_storage_from_data_pointer"),
        hasattr(torch._C, "_swap_tensor_impl"),
    )
    if not all(parts):
        return (
            f"The simulated accelerator needs a newer PyTorch than {torch.__version__}, which has no hook for a device "
            "written in Python; everything else works, on the CPU and on real accelerators."
        )
    return None


def is_available() -> bool:
    """Whether `register()` would succeed, or has."""
    return why_unavailable() is None


def is_registered() -> bool:
    """Whether PyTorch knows the device in this process."""
    return bool(_registered)


def register(note: bool = True) -> torch.device:
    """The device `sim`, made known to PyTorch if it was not yet.

    The first call of a process shows a note that says what is simulated, unless `note` is false. Raises `Unavailable`.
    """
    if not _registered:
        reason = why_unavailable()
        if reason is not None:
            raise Unavailable(reason)
        _registered.extend(_set_up())
        if note:
            _show_note()
    return torch.device("sim")


def prepare() -> None:
    """Do beforehand what `register()` needs and nobody sees, so that it is soon done in a process forked from here."""
    if not _registered and is_available():
        from autogradlab.accelerator import adaptations, engine, operators, sim  # noqa: F401 -- see _set_up

        operators.whole_kernels()


def _set_up():
    # Imported here, because these files use what only newer versions of PyTorch have.
    from autogradlab.accelerator import adaptations, engine, operators, sim

    engine.start()
    getattr(torch.utils.backend_registration, _HOOK)("sim", backend_module=sim, device_guard=engine.DeviceGuard())
    return [*operators.register_kernels(), *adaptations.adapt()]


def _show_note():
    from autogradlab.output import Notice, show

    show(
        Notice(
            "sim is a simulated accelerator: it shows where tensors live and what memory they take, not speed.",
            "The CPU computes for it. Errors, memory and transfers are those of a real device; times are not.",
        )
    )


def counts() -> Counts:
    """What is counted from now on: `with counts() as seen: ...`, then `seen.syncs`, `seen.transfers` and so on."""
    return Counts()


@contextlib.contextmanager
def limits(capacity: int | None = None, latency_seconds: float | None = None):
    """Inside, the device has `capacity` bytes, and every trip to or from it takes `latency_seconds` longer."""
    register()
    before = torch.sim.mem_get_info()[1], latency.seconds
    try:
        if capacity is not None:
            torch.sim.set_capacity(capacity)
        if latency_seconds is not None:
            torch.sim.set_transfer_latency(latency_seconds)
        yield
    finally:
        torch.sim.set_capacity(before[0])
        torch.sim.set_transfer_latency(before[1])
