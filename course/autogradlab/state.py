"""The global state that a program may leave changed: set to what torch starts with, watched, and put back."""

import random
import sys
import warnings

import numpy
import torch
import torch._tensor_str
import torch.nn.modules.module as modules
import torch.optim.optimizer as optimizers
import torch.utils._device

_autograd = torch._C._autograd
_left_open = []


def _set_inference_mode(enabled: bool):
    # torch offers only a guard; one that a program entered and never left is outweighed by one of ours.
    guard = torch.inference_mode(enabled)
    guard.__enter__()
    _left_open.append(guard)


def _set_default_device(device: str):
    # None, not "cpu": setting any device installs a mode that slows every factory function.
    torch.set_default_device(None if device == "cpu" else device)


def _set_autocast(enabled: bool):
    torch.set_autocast_enabled("cpu", enabled)
    torch.clear_autocast_cache()


def _saved_tensor_hooks() -> bool:
    return bool(_autograd._top_saved_tensors_default_hooks(False))


def _taken_hooks() -> list:
    """The default saved-tensor hooks, the last first, which are no longer in force."""
    taken = []
    while _saved_tensor_hooks():
        taken.append(_autograd._top_saved_tensors_default_hooks(False))
        _autograd._pop_saved_tensors_default_hooks()
    return taken


#: name -> (read, write, what torch starts with). Inference mode first: writing it writes the grad mode too.
MODES = {
    "inference mode": (torch.is_inference_mode_enabled, _set_inference_mode, False),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled, True),
    "default dtype": (
        lambda: str(torch.get_default_dtype())[6:],
        lambda name: torch.set_default_dtype(getattr(torch, name)),
        "float32",
    ),
    "default device": (lambda: str(torch.get_default_device()), _set_default_device, "cpu"),
    "threads": (torch.get_num_threads, torch.set_num_threads, None),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.anomaly_mode.set_detect_anomaly, False),
    "deterministic algorithms": (
        lambda: ("off", "warn", "on")[torch.get_deterministic_debug_mode()],
        lambda mode: torch.set_deterministic_debug_mode(("off", "warn", "on").index(mode)),
        "off",
    ),
    "autocast": (lambda: torch.is_autocast_enabled("cpu"), _set_autocast, False),
    "saved-tensor hooks": (_saved_tensor_hooks, lambda _: _taken_hooks(), False),
}

#: name -> (save, restore, seed, a value that moves on whenever something was drawn)
STREAMS = {
    "torch random stream": (
        torch.get_rng_state,
        torch.set_rng_state,
        # Not torch.manual_seed, which asks every kind of device as well: 20 times the time.
        torch.random.default_generator.manual_seed,
        lambda: torch.get_rng_state().numpy().tobytes(),
    ),
    # Looked up when used: importing numpy.random takes a while.
    "numpy random stream": (
        lambda: numpy.random.get_state(),
        lambda state: numpy.random.set_state(state),
        lambda seed: numpy.random.seed(seed),
        lambda: numpy.random.bytes(16),
    ),
    "python random stream": (random.getstate, random.setstate, random.seed, lambda: random.getrandbits(128)),
}

_GLOBAL_HOOKS = [
    value
    for module in (modules, optimizers)
    for name, value in vars(module).items()
    if name.startswith("_global_") and isinstance(value, dict)
]


class _Stack:
    """A stack of Python modes that intercept every call of torch."""

    def __init__(self, name: str, *which):
        self._length, self._pop, self._push = (
            getattr(torch._C, pattern.format(name))
            for pattern in ("_len_torch_{}_stack", "_pop_torch_{}_stack", "_push_on_torch_{}_stack")
        )
        self._which = which

    def taken(self) -> list:
        """The modes on the stack, the last first, which are no longer in force."""
        return [self._pop(*self._which) for _ in range(self._length())]

    def put(self, modes: list):
        """Puts back what was taken."""
        for mode in reversed(modes):
            self._push(mode)


_STACKS = [_Stack("function"), _Stack("dispatch", None)]


def _accelerator():
    """What reads and writes the simulated accelerator's settings; None where no such device is registered."""
    package = sys.modules.get("autogradlab.accelerator")
    if package is None or not package.is_registered():
        return None
    from autogradlab.accelerator import settings

    return settings


def _taken_device_contexts() -> tuple:
    """What makes the default device, which is no longer in force; the mode itself is on the function stack."""
    contexts = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), torch.utils._device.CURRENT_DEVICE
    _put_device_contexts(None, None)
    return contexts


def _put_device_contexts(default, current):
    torch._GLOBAL_DEVICE_CONTEXT.device_context = default
    torch.utils._device.CURRENT_DEVICE = current


class preserved(dict):
    """A block in which torch is as it starts, whatever the process had set before, and which changes nothing outside.

    Inside, recording is on, the dtype is float32, the device the CPU, no hook or mode is in force, warnings are silent,
    every random stream begins at `seed`, and the simulated accelerator, where there is one, has its first settings.
    After `settle`, and at the latest after the block, this dict holds what the block left changed,
    `{name: [before, after]}`, and the block's state is clean again.
    """

    _open = 0

    def __init__(self, seed: int):
        super().__init__()
        self._seed, self._settled = seed, False

    def __enter__(self):
        self._before = {name: read() for name, (read, _, _) in MODES.items()}
        self._start = {name: self._before[name] if clean is None else clean for name, (_, _, clean) in MODES.items()}
        self._guard = torch.inference_mode(False) if self._before["inference mode"] else None
        if self._guard is not None:
            self._guard.__enter__()
        self._hooks = _taken_hooks()
        self._hooks_refused = _autograd._saved_tensors_hooks_get_disabled_error_message()
        _autograd._saved_tensors_hooks_enable()
        self._stacks = [stack.taken() for stack in _STACKS]
        self._devices = _taken_device_contexts()
        for name, (read, write, _) in MODES.items():
            if read() != self._start[name]:
                write(self._start[name])
        self._global_hooks = [dict(hooks) for hooks in _GLOBAL_HOOKS]
        self._clear_global_hooks()
        self._tracing = sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()
        self._printing = dict(vars(torch._tensor_str.PRINT_OPTS))
        # Inside another block the streams are that block's to save: reading them takes most of the time.
        self._streams = {name: save() for name, (save, _, _, _) in STREAMS.items()} if preserved._open == 0 else {}
        self._probes = {}
        for name, (_, _, seed, probe) in STREAMS.items():
            seed(self._seed)
            self._probes[name] = probe()
            seed(self._seed)
        accelerator = _accelerator()
        self._accelerator = accelerator and accelerator.current()
        if accelerator is not None:
            accelerator.begin(self._seed)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        preserved._open += 1
        return self

    def settle(self):
        """Writes down what has been left changed since the block began, and cleans it."""
        self._settled = True
        after = {name: read() for name, (read, _, _) in MODES.items()}
        for stack in _STACKS:
            stack.taken()
        _taken_device_contexts()
        _autograd._saved_tensors_hooks_enable()
        for name, (read, write, _) in MODES.items():
            if after[name] != self._start[name]:
                self[name] = [self._start[name], after[name]]
                if read() != self._start[name]:
                    write(self._start[name])
        self._clear_global_hooks()
        for name, (_, _, _, probe) in STREAMS.items():
            if probe() != self._probes[name]:
                self[name] = ["untouched", "advanced"]

    def __exit__(self, *error):
        try:
            if not self._settled:
                self.settle()
        finally:
            self._put_back()

    def _put_back(self):
        preserved._open -= 1
        self._warnings.__exit__(None, None, None)
        for name, state in self._streams.items():
            STREAMS[name][1](state)
        accelerator = _accelerator()
        if accelerator is not None:
            # Registered inside the block, it goes on with what it starts with.
            accelerator.put_back(self._accelerator or accelerator.Settings())
        trace, profile, limit = self._tracing
        if sys.gettrace() is not trace:
            sys.settrace(trace)
        if sys.getprofile() is not profile:
            sys.setprofile(profile)
        sys.setrecursionlimit(limit)
        vars(torch._tensor_str.PRINT_OPTS).update(self._printing)
        for hooks, before in zip(_GLOBAL_HOOKS, self._global_hooks):
            hooks.clear()
            hooks.update(before)
        if self._guard is not None:
            self._guard.__exit__(None, None, None)
        _put_device_contexts(*self._devices)
        for stack, modes in zip(_STACKS, self._stacks):
            stack.put(modes)
        for name, (read, write, _) in MODES.items():
            if read() != self._before[name] and name != "saved-tensor hooks":
                write(self._before[name])
        for hooks in reversed(self._hooks):
            _autograd._push_saved_tensors_default_hooks(*hooks)
        if self._hooks_refused is not None:
            _autograd._saved_tensors_hooks_disable(self._hooks_refused)

    def _clear_global_hooks(self):
        for hooks in _GLOBAL_HOOKS:
            hooks.clear()
