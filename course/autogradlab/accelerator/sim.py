"""`torch.sim`: the simulated accelerator's own functions, named after those of `torch.cuda`.

Wherever a device can be given, it may be left out: there is one, `sim:0`.
"""

import torch

from autogradlab.accelerator import counters, generators
from autogradlab.accelerator.memory import as_size, memory


def is_available() -> bool:
    """True: this module is there only where the accelerator is."""
    return True


def is_initialized() -> bool:
    """True: there is nothing to start."""
    return True


def device_count() -> int:
    """1"""
    return 1


def current_device() -> int:
    """0"""
    return 0


def set_device(device) -> None:
    """Nothing, for the one device; raises RuntimeError for any other."""
    _check(device)


def get_device_name(device=None) -> str:
    """`simulated accelerator`"""
    _check(device)
    return "simulated accelerator"


class device:
    """A context in which the one device is the current one, as it always is."""

    def __init__(self, device):
        _check(device)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def _check(device):
    if isinstance(device, int):
        device = torch.device("sim", device)
    if device is not None and (torch.device(device).type, torch.device(device).index or 0) != ("sim", 0):
        raise RuntimeError(f"Expected sim or sim:0, the one simulated accelerator, but got {device}.")


def synchronize(device=None) -> None:
    """Nothing: an operation on sim is done when its call returns."""
    _check(device)


def memory_allocated(device=None) -> int:
    """Bytes of the storages that are alive, each counted once."""
    _check(device)
    return memory.allocated


def max_memory_allocated(device=None) -> int:
    """The most bytes so far, or since `reset_peak_memory_stats`."""
    _check(device)
    return memory.peak


def reset_peak_memory_stats(device=None) -> None:
    """Begins the maximum anew, from what is allocated now."""
    _check(device)
    memory.peak = memory.allocated


def memory_reserved(device=None) -> int:
    """The same as `memory_allocated`: nothing is kept back."""
    return memory_allocated(device)


def max_memory_reserved(device=None) -> int:
    """The same as `max_memory_allocated`: nothing is kept back."""
    return max_memory_allocated(device)


def memory_stats(device=None) -> dict[str, int]:
    """What is allocated and the most so far, under the names that `torch.cuda.memory_stats` has for them."""
    _check(device)
    return {"allocated_bytes.all.current": memory.allocated, "allocated_bytes.all.peak": memory.peak}


def empty_cache() -> None:
    """Nothing: memory is free as soon as the last tensor over it is gone."""


def mem_get_info(device=None) -> tuple[int, int]:
    """`(free, capacity)` in bytes."""
    _check(device)
    return max(memory.capacity - memory.allocated, 0), memory.capacity


def set_capacity(size: int) -> None:
    """Lets the device have `size` bytes; tensors that are alive stay, even if they take more."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"The capacity is a number of bytes, and {size!r} is not one. Try 16 * 2**20 for 16 MiB.")
    memory.capacity = size


def memory_summary(device=None) -> str:
    """What is allocated, the most so far and the capacity, in a few lines."""
    free, capacity = mem_get_info(device)
    rows = [("allocated", memory.allocated), ("at most", memory.peak), ("free", free), ("capacity", capacity)]
    return "sim:0, simulated accelerator\n" + "\n".join(f"{name:<10}{as_size(size):>14}" for name, size in rows)


def set_transfer_latency(seconds: float) -> None:
    """Makes every trip between the CPU and the device take `seconds` longer; 0 switches it off."""
    if not seconds >= 0:
        raise ValueError(f"The latency is a number of seconds from 0 on, and {seconds!r} is not. Try 0.1.")
    counters.latency.seconds = float(seconds)


def manual_seed(seed: int) -> None:
    """Begins the device's stream of random numbers at `seed`; `torch.manual_seed` does it too."""
    generators.default.manual_seed(seed)


def seed() -> None:
    """Begins the device's stream of random numbers somewhere."""
    generators.default.seed()


def initial_seed() -> int:
    """The seed of the device's stream of random numbers."""
    return generators.default.initial_seed()


manual_seed_all, seed_all = manual_seed, seed


def get_rng_state(device="sim"):
    """The state of the device's stream, as a tensor on the CPU."""
    _check(device)
    return generators.default.get_state()


def set_rng_state(new_state, device="sim") -> None:
    """Puts the device's stream into a state that `get_rng_state` gave."""
    _check(device)
    generators.default.set_state(new_state)


def _is_in_bad_fork() -> bool:
    return False


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What `torch.autocast` asks for before it can be refused: a block that is not enabled has to be possible."""
    return [torch.bfloat16, torch.float16]
