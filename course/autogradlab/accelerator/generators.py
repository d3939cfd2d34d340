"""Random numbers on the simulated accelerator: a stream of its own that gives what the CPU gives for the same seed."""

import contextlib
import weakref

import torch

_CGenerator = torch._C.Generator


class SimGenerator(_CGenerator):
    """A generator for `sim`: `torch.Generator(device="sim")`."""

    @property
    def device(self):
        """`device(type='sim', index=0)`"""
        return torch.device("sim:0")

    def clone_state(self):
        """Another generator for `sim` in the same state."""
        return in_state(self.get_state())

    def __reduce__(self):
        return in_state, (self.get_state(),)


def in_state(state) -> SimGenerator:
    """A new generator for `sim` in the state that another one's `get_state` gave."""
    return generator().set_state(state)


#: Generators for sim by the address of PyTorch's object: in a kernel, their Python object is another one.
_known = weakref.WeakValueDictionary()


def generator() -> SimGenerator:
    """A new generator for `sim`."""
    made = SimGenerator(device="cpu")
    _known[made._cdata] = made
    return made


#: The generator that draws where none is given.
default = generator()


def checked(given):
    """`given`, if it is a generator for `sim`; else raises RuntimeError as other devices do."""
    if given._cdata not in _known:
        raise RuntimeError(f"Expected a 'sim' device type for generator but found '{given.device.type}'")
    return given


@contextlib.contextmanager
def as_default():
    """Inside, operators that cannot be given a generator draw from the device's."""
    state = torch.random.default_generator.get_state()
    torch.random.default_generator.set_state(default.get_state())
    try:
        yield
    finally:
        default.set_state(torch.random.default_generator.get_state())
        torch.random.default_generator.set_state(state)
