"""What a program costs: bytes its graphs hold, host syncs, transfers, operations; counted, never timed."""

import contextlib

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autogradlab.encoding import memory_key


class _Held:
    """A saved tensor, for as long as the graph keeps it."""

    def __init__(self, meter, tensor):
        # Detached: a result that held itself through its own node would never be freed. Unseen by the mode: the
        # program did not ask for that operation.
        with torch._C._DisableTorchDispatch():
            self.tensor = tensor.detach()
        self.meter, self.keys = meter, []
        for part in _parts(tensor):
            self.keys.append(memory_key(part))
            meter._hold(self.keys[-1], part.untyped_storage().nbytes())

    def __del__(self):
        for key in self.keys:
            self.meter._release(key)


def _parts(tensor) -> list:
    """The tensors with a storage of their own that make up a tensor."""
    if tensor.layout is torch.strided and not tensor.is_nested:
        return [tensor]
    return [tensor._indices(), tensor._values()] if tensor.layout is torch.sparse_coo else []


class _Operations(TorchDispatchMode):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    @classmethod
    def _should_skip_dynamo(cls):
        # Nothing is compiled here, and being left out of compilation doubles the time of every operation.
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        meter, name = self.meter, func._schema.name
        result = func(*args, **kwargs) if kwargs else func(*args)
        meter.operations += 1
        if name == "aten::_local_scalar_dense":
            meter.syncs += not meter.reading
        elif name in ("aten::_to_copy", "aten::copy_"):
            source = args[1] if name == "aten::copy_" else args[0]
            if isinstance(source, torch.Tensor) and source.device != result.device:
                meter.transfers += 1
                meter.transfer_bytes += source.numel() * source.element_size()
                meter.syncs += result.device.type == "cpu"
        return result


@contextlib.contextmanager
def _counted_reads(meter):
    """Counts `tolist` and `numpy` (`numpy.asarray` calls it): on the CPU they run no operator that a mode would see."""

    def counted(name, read):
        def reading(tensor, *args, **kwargs):
            if meter.reading:
                return read(tensor, *args, **kwargs)
            meter.syncs += 1
            meter.reading = True
            try:
                return read(tensor, *args, **kwargs)
            finally:
                meter.reading = False

        return reading

    names = ("tolist", "numpy")
    before = {name: vars(torch.Tensor).get(name) for name in names}
    for name in names:
        setattr(torch.Tensor, name, counted(name, getattr(torch.Tensor, name)))
    try:
        yield
    finally:
        for name, method in before.items():
            if method is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, method)


class Meter:
    """Counts, between `with meter:` and its end, what the code inside costs.

    `graph_bytes` are the bytes that graphs hold now for their backward (each storage once, parameters excluded),
    `peak_bytes` their maximum so far. `syncs` are reads of a tensor's values by Python (`item`, `float`, `bool`,
    `tolist`, `numpy`) and copies to the CPU from another device; `transfers` and `transfer_bytes` copies between
    devices; `operations` calls of torch's operators, forward and backward. Parameters are those that modules register
    inside, and what `exclude` was given.
    """

    def __init__(self):
        self.graph_bytes = self.peak_bytes = 0
        self.syncs = self.transfers = self.transfer_bytes = self.operations = 0
        self.reading = False
        self._held = {}
        self._parameters = {}
        self._stack = contextlib.ExitStack()

    def exclude(self, value):
        """Leaves the storages of `value`'s parameters (leaves that require grad) out of the bytes."""
        for tensor in parameters_in(value):
            self._exclude(tensor)

    def _exclude(self, tensor):
        if tensor.layout is torch.strided:
            # The storage is kept, because its key would pass to another one when it is freed.
            self._parameters.setdefault(memory_key(tensor), tensor.untyped_storage())

    def _hold(self, key, size):
        count = self._held.get(key, (0, size))[0]
        self._held[key] = (count + 1, size)
        if count == 0 and key not in self._parameters:
            self.graph_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.graph_bytes)

    def _release(self, key):
        count, size = self._held[key]
        self._held[key] = (count - 1, size)
        if count == 1:
            del self._held[key]
            if key not in self._parameters:
                self.graph_bytes -= size

    def __enter__(self):
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: _Held(self, tensor), lambda held: held.tensor)
        self._stack.enter_context(hooks)
        self._stack.enter_context(_counted_reads(self))
        self._stack.enter_context(_Operations(self))
        registered = register_module_parameter_registration_hook(lambda module, name, tensor: self._register(tensor))
        self._stack.callback(registered.remove)
        return self

    def _register(self, tensor):
        if tensor is not None:
            self._exclude(tensor)

    def __exit__(self, *error):
        self._stack.close()

    def counts(self) -> dict:
        """The counts so far, as plain data."""
        names = ("graph_bytes", "peak_bytes", "syncs", "transfers", "transfer_bytes", "operations")
        return {name: int(getattr(self, name)) for name in names}


def parameters_in(value) -> list:
    """The leaves that require grad in `value`: tensors, modules and optimizers in any nest of containers."""
    found = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found += [leaf] if leaf.is_leaf and leaf.requires_grad else []
        elif isinstance(leaf, torch.nn.Module):
            found += [*leaf.parameters()]
        elif isinstance(leaf, torch.optim.Optimizer):
            found += [parameter for group in leaf.param_groups for parameter in group["params"]]
    return found
