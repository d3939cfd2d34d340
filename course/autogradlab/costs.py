"""What a program costs: bytes its graphs hold, host syncs, transfers, operations; counted, never timed."""

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autogradlab.encoding import memory_key

_READS = {torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__}


class _Held:
    """A saved tensor, for as long as the graph keeps it."""

    def __init__(self, meter, tensor):
        # Detached: a result that held itself through its own node would never be freed.
        self.tensor = tensor.detach()
        self.meter, self.key = meter, memory_key(tensor)
        meter._hold(self.key, tensor.untyped_storage().nbytes())

    def __del__(self):
        self.meter._release(self.key)


class _Operations(TorchDispatchMode):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        meter, name = self.meter, func._schema.name
        result = func(*args, **(kwargs or {}))
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


class _Reads(TorchFunctionMode):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func not in _READS or self.meter.reading:
            return func(*args, **(kwargs or {}))
        self.meter.syncs += 1
        self.meter.reading = True
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.meter.reading = False


class Meter:
    """Counts, between `with meter:` and its end, what the code inside costs.

    `graph_bytes` are the bytes that graphs hold now for their backward (each storage once, parameters excluded),
    `peak_bytes` their maximum so far. `syncs` are reads of a tensor's values by Python (`item`, `float`, `bool`,
    `tolist`, `numpy`) and copies to the CPU from another device; `transfers` and `transfer_bytes` copies between devices;
    `operations` calls of torch's operators, forward and backward.
    """

    def __init__(self):
        self.graph_bytes = self.peak_bytes = 0
        self.syncs = self.transfers = self.transfer_bytes = self.operations = 0
        self.reading = False
        self._held = {}
        self._parameters = set()
        self._stack = contextlib.ExitStack()

    def exclude(self, value):
        """Leaves the storages of `value`'s parameters (leaves that require grad) out of the bytes."""
        for tensor in parameters_in(value):
            self._parameters.add(memory_key(tensor))

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
        self._stack.enter_context(_Reads(self))
        self._stack.enter_context(_Operations(self))
        return self

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
