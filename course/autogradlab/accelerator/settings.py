"""What can be set on the simulated accelerator, and put back: capacity, latency and the stream of random numbers."""

import dataclasses

import torch

from autogradlab.accelerator import counters, generators
from autogradlab.accelerator.memory import CAPACITY, memory


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a moment, at first those of a device that was just registered; no stream is none to put back."""

    capacity: int = CAPACITY
    latency: float = 0.0
    stream: torch.Tensor | None = None


def current() -> Settings:
    """The settings as they are now."""
    return Settings(memory.capacity, counters.latency.seconds, generators.default.get_state())


def put_back(settings: Settings) -> None:
    """Makes the settings those of an earlier moment."""
    memory.capacity, counters.latency.seconds = settings.capacity, settings.latency
    if settings.stream is not None:
        generators.default.set_state(settings.stream)


def begin(seed: int) -> None:
    """Makes the settings those of a device that was just registered, with the stream of random numbers at `seed`."""
    put_back(Settings())
    generators.default.manual_seed(seed)
