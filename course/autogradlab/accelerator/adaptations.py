"""The few places where PyTorch has no hook for a backend written in Python, and what is put there instead.

None of them changes what code without `sim` does; every one looks for `sim` first and passes on what is not about it.
"""

import functools

import torch

from autogradlab.accelerator import engine, generators, operators, sim
from autogradlab.accelerator.memory import new_storage

#: What torch.accelerator asks PyTorch's allocator for, and sim has in its own module.
_ACCELERATOR = (
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "synchronize",
)


def _names_sim(device):
    return device is not None and str(device).partition(":")[0] == "sim"


def adapt() -> list:
    """Puts all adaptations in place; the result has to be kept."""
    _storages()
    _modules()
    _generators()
    engine.adapt()
    for name in _ACCELERATOR:
        setattr(torch.accelerator, name, getattr(sim, name))
    torch.accelerator.get_memory_info = sim.mem_get_info
    return [_pinning()]


def _storages():
    # PyTorch asks for an allocator of the device, finds a null pointer, and the process dies.
    make = torch._C.StorageBase.__new__

    def __new__(cls, *args, device=None, **kwargs):
        if _names_sim(device):
            host = make(cls, *args, **kwargs)
            return new_storage(torch.empty(0, dtype=torch.uint8, device="cpu").set_(host))
        return make(cls, *args, **kwargs) if device is None else make(cls, *args, device=device, **kwargs)

    torch.UntypedStorage.__new__ = __new__


def _modules():
    # On CUDA a parameter that moves stays the same object, because an optimizer may hold it.
    original = torch.nn.Module._apply

    @functools.wraps(original)
    def _apply(module, fn, recurse=True):
        before = dict(module._parameters)
        result = original(module, fn, recurse)
        for name, parameter in before.items():
            moved = module._parameters[name]
            if moved is not parameter and (moved.device.type == "sim") != (parameter.device.type == "sim"):
                torch._C._swap_tensor_impl(parameter, moved)
                module._parameters[name] = parameter
        return result

    torch.nn.Module._apply = _apply


def _generators():
    original = torch._C.Generator

    class _Type(type):
        def __call__(cls, device="cpu"):
            return generators.generator() if _names_sim(device) else original(device=device)

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, original)

    class Generator(metaclass=_Type):
        __doc__, __module__, __qualname__ = original.__doc__, "torch", "Generator"

    torch.Generator = Generator


def _pinning():
    # With an accelerator at hand, PyTorch asks it for pinned memory, and sim has none to give.
    library = torch.library.Library("aten", "IMPL")
    library.impl("_pin_memory", operators.pinned, "CPU")
    return library
