"""The global state that a program may leave changed: set to what torch starts with, watched, and put back."""

import contextlib
import random
import warnings

import numpy
import torch

_left_open = []


def _set_inference_mode(enabled: bool):
    # torch offers only a guard; one that a program entered and never left is outweighed by one of ours.
    guard = torch.inference_mode(enabled)
    guard.__enter__()
    _left_open.append(guard)


def _set_default_device(device: str):
    # None, not "cpu": setting any device installs a mode that slows every factory function.
    torch.set_default_device(None if device == "cpu" else device)


def _saved_tensor_hooks() -> bool:
    return bool(torch._C._autograd._top_saved_tensors_default_hooks(False))


def _drop_saved_tensor_hooks(_):
    while _saved_tensor_hooks():
        torch._C._autograd._pop_saved_tensors_default_hooks()


#: name -> (read, write, what torch starts with)
MODES = {
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled, True),
    "inference mode": (torch.is_inference_mode_enabled, _set_inference_mode, False),
    "default dtype": (
        lambda: str(torch.get_default_dtype())[6:],
        lambda name: torch.set_default_dtype(getattr(torch, name)),
        "float32",
    ),
    "default device": (lambda: str(torch.get_default_device()), _set_default_device, "cpu"),
    "threads": (torch.get_num_threads, torch.set_num_threads, None),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.anomaly_mode.set_detect_anomaly, False),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, False),
    "autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda enabled: torch.set_autocast_enabled("cpu", enabled),
        False,
    ),
    "saved-tensor hooks": (_saved_tensor_hooks, _drop_saved_tensor_hooks, None),
}

#: name -> (read, write, seed, equal)
STREAMS = {
    "torch random stream": (torch.get_rng_state, torch.set_rng_state, torch.manual_seed, torch.equal),
    "numpy random stream": (
        numpy.random.get_state,
        numpy.random.set_state,
        numpy.random.seed,
        lambda a, b: a[2:] == b[2:] and numpy.array_equal(a[1], b[1]),
    ),
    "python random stream": (random.getstate, random.setstate, random.seed, lambda a, b: a == b),
}


@contextlib.contextmanager
def preserved(seed: int):
    """A dict that holds, after the block, what the block left changed: `{name: [before, after]}`.

    Inside, torch is as it starts (recording on, float32, CPU) and every random stream begins at `seed`, whatever the
    process had set before; afterwards everything is as it was.
    """
    before = {name: read() for name, (read, _, _) in MODES.items()}
    streams = {name: read() for name, (read, _, _, _) in STREAMS.items()}
    changes = {}
    start = {name: before[name] if clean is None else clean for name, (_, _, clean) in MODES.items()}
    try:
        for name, (_, write, _) in MODES.items():
            if before[name] != start[name]:
                write(start[name])
        for _, _, set_seed, _ in STREAMS.values():
            set_seed(seed)
        seeded = {name: read() for name, (read, _, _, _) in STREAMS.items()}
        with warnings.catch_warnings():
            try:
                yield changes
            finally:
                for name, (read, write, _) in MODES.items():
                    after = read()
                    if after != start[name]:
                        changes[name] = [start[name], after]
                        write(start[name])
                for name, (read, _, _, equal) in STREAMS.items():
                    if not equal(seeded[name], read()):
                        changes[name] = ["untouched", "advanced"]
    finally:
        for name, (_, write, _) in MODES.items():
            if before[name] != start[name]:
                write(before[name])
        for name, (_, write, _, _) in STREAMS.items():
            write(streams[name])
