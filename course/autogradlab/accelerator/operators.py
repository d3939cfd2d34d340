"""Kernels of the simulated accelerator that are not the CPU's own: making memory, crossing devices, what CPUs lack."""

import functools
import math

import torch

from autogradlab.accelerator import generators
from autogradlab.accelerator.counters import totals, trip
from autogradlab.accelerator.kernels import entry, fallback, kernel
from autogradlab.accelerator.memory import (
    CPU,
    CPU_KERNEL,
    DEVICE,
    allocate,
    contiguous_stride,
    host_storage,
    memory,
    on_host,
    place,
    resize,
    to_device,
)
from autogradlab.accelerator.recurrent import RECURRENT

aten = torch.ops.aten
_empty = aten.empty.memory_format._op
_to_copy = aten._to_copy.default._op
_index, _index_put = kernel(aten.index.Tensor), kernel(aten._index_put_impl_.default)


def is_sim(device) -> bool:
    """Whether a device is the simulated accelerator."""
    return device.type == DEVICE.type


def _checked(dtype, layout, device, pin_memory):
    if device is not None and is_sim(device) and device.index not in (None, 0):
        raise RuntimeError(f"There is no {device}: the simulated accelerator is one device, sim:0. Try device='sim'.")
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"sim holds dense tensors only, not {str(layout)[6:]} ones. Try it on the CPU.")
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned, and this one would be on sim. Try pin_memory=False.")
    return torch.get_default_dtype() if dtype is None else dtype


def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """`torch.empty` on sim."""
    dtype = _checked(dtype, layout, device, pin_memory)
    memory.require(math.prod(size) * dtype.itemsize)
    return to_device(_empty(size, dtype=dtype, device=CPU, memory_format=memory_format))


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`torch.empty_strided` on sim."""
    return allocate(size, stride, _checked(dtype, layout, device, pin_memory))


def zero_tensor(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Zeros, where other devices keep no memory for zeros that nobody has written to."""
    return empty(size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory).zero_()


def _stride(size, memory_format):
    if memory_format in (None, torch.contiguous_format, torch.preserve_format):
        return contiguous_stride(size)
    return _empty(size, device=torch.device("meta"), memory_format=memory_format).stride()


def resize_(tensor, size, *, memory_format=None):
    """`Tensor.resize_` on sim."""
    if list(tensor.size()) == list(size) and memory_format is None:
        return tensor
    return resize(tensor, size, _stride(size, memory_format))


def set_to_storage(tensor, source):
    """`Tensor.set_(storage)` on sim."""
    count = source.nbytes() // tensor.element_size()
    return aten.set_.source_Storage_storage_offset.redispatch(CPU_KERNEL, tensor, source, 0, [count], [1])


def set_to_part(tensor, source, storage_offset, size, stride=()):
    """`Tensor.set_(storage, offset, size, stride)` on sim."""
    stride = stride or contiguous_stride(size)
    return aten.set_.source_Storage_storage_offset.redispatch(CPU_KERNEL, tensor, source, storage_offset, size, stride)


def set_to_tensor(tensor, source):
    """`Tensor.set_(tensor)` on sim."""
    if source.device != DEVICE:
        raise RuntimeError(f"A tensor on {DEVICE} cannot be set to the memory of one on {source.device}. Try copy_.")
    return place(tensor, host_storage(source), source.storage_offset(), source.size(), source.stride())


def set_to_nothing(tensor):
    """`Tensor.set_()` on sim."""
    return set_to_tensor(tensor, allocate((0,), (1,), tensor.dtype))


def copy_from(source, target, non_blocking=False):
    """`target.copy_(source)` where either is on sim; every transfer passes through here."""
    _count(source, target.device)
    source = on_host(source) if is_sim(source.device) else source
    (on_host(target) if is_sim(target.device) else target).copy_(source)
    return target


def to_copy(tensor, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """`Tensor.to` where it copies; PyTorch's own asks for pinned memory when it is not to wait."""
    device = tensor.device if device is None else device
    dtype = _checked(tensor.dtype if dtype is None else dtype, layout, device, pin_memory)
    host = on_host(tensor) if is_sim(tensor.device) else tensor.cpu()
    if is_sim(device):
        memory.require(host.numel() * dtype.itemsize)
    _count(tensor, device)
    if is_sim(device):
        return to_device(_to_copy(host, dtype=dtype, memory_format=memory_format).resolve_conj().resolve_neg())
    return _to_copy(host, dtype=dtype, device=device, memory_format=memory_format)


def _count(source, target_device):
    size = source.numel() * source.element_size()
    if not is_sim(target_device):
        trip(syncs=1, to_host=size)
    elif not is_sim(source.device):
        trip(to_device=size)
    else:
        totals.operations += 1


def _prepared(indices, waits=True):
    # As on other devices, indices on the CPU travel, and a mask is first turned into the positions that it selects.
    prepared = []
    for index in indices:
        if index is not None and waits and index.dtype in (torch.bool, torch.uint8):
            trip(syncs=1)
        prepared.append(index.to(DEVICE) if index is not None and index.is_cpu else index)
    return prepared


def index(tensor, indices):
    """`tensor[indices]` with tensors as indices."""
    return _index(tensor, _prepared(indices))


def index_put_(tensor, indices, values, accumulate=False, unsafe=False):
    """`tensor[indices] = values` with tensors as indices; a single value under a mask needs no positions."""
    return _index_put(tensor, _prepared(indices, values.numel() != 1), values, accumulate, unsafe)


def copy_from_and_resize(source, target):
    """Like `copy_from`, after `target` has taken the source's shape."""
    return copy_from(source, target.resize_(source.size()))


def local_scalar(tensor):
    """`Tensor.item` on sim."""
    trip(syncs=1)
    return on_host(tensor).item()


def dropout(tensor, p, train):
    """`(result, mask)` of `native_dropout`, drawn from the device's own stream."""
    host = on_host(tensor)
    totals.operations += 1
    if train is False or p == 0:
        return to_device(host.clone()), to_device(torch.ones_like(host, dtype=torch.bool, device=CPU))
    mask = torch.empty_like(host, dtype=torch.bool, device=CPU)
    mask.bernoulli_(1 - p, generator=generators.default)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return to_device(host * mask * scale), to_device(mask)


def convolution(tensor, weight, bias, *settings):
    """A convolution by the CPU's kernels."""
    return fallback(aten.convolution.default, tensor, weight, bias, *settings)


def convolution_backward(gradient, tensor, weight, stride, padding, dilation, transposed, output_padding, groups, mask):
    """The gradients of a convolution by the CPU's kernels."""
    bias_size = [gradient.size(1)] if mask[2] else None
    return fallback(
        aten.convolution_backward.default,
        *(gradient, tensor, weight, bias_size, stride, padding, dilation, transposed, output_padding, groups, mask),
    )


def record_stream(tensor, stream):
    """Nothing: sim has one stream."""


#: Operators without a CPU kernel of their own that are one call when the CPU runs them as a whole; taken apart, the
#: last one refuses a device that it does not know.
_ALSO_WHOLE = {"clone", "mean", "sum", "mode.values"}

OPERATORS = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_efficientzerotensor": zero_tensor,
    "resize_": resize_,
    "set_.source_Storage": set_to_storage,
    "set_.source_Storage_storage_offset": set_to_part,
    "set_.source_Tensor": set_to_tensor,
    "set_": set_to_nothing,
    "index.Tensor": index,
    "_index_put_impl_": index_put_,
    "_to_copy": to_copy,
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": local_scalar,
    "native_dropout": dropout,
    "convolution_overrideable": convolution,
    "convolution_backward_overrideable": convolution_backward,
    "record_stream": record_stream,
    **RECURRENT,
}

#: Layouts of which sim has no tensors.
REFUSED_KEYS = ("SparsePrivateUse1", "SparseCsrPrivateUse1", "QuantizedPrivateUse1", "NestedTensorPrivateUse1")


def refuse_layout(op, *args, **kwargs):
    """Raises NotImplementedError: sim holds dense tensors only."""
    raise NotImplementedError(f"sim holds dense tensors only, and {op.name()} needs another layout. Try it on the CPU.")


def refuse_autocast(op, *args, **kwargs):
    """Raises RuntimeError: sim has no autocast."""
    raise RuntimeError(
        f"sim has no autocast, and {op.name()} is called where it is enabled. It computes in the dtype that the "
        'tensors have; another would not be faster. Try the code without torch.autocast("sim"), or with enabled=False.'
    )


def pinned(tensor, device=None):
    """A copy: with sim as the accelerator there is nothing to pin memory for."""
    return tensor.clone()


def register_kernels() -> list:
    """The libraries that hold the registrations; they last as long as these objects."""
    everything, own = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(fallback, "PrivateUse1")
    for key in REFUSED_KEYS:
        everything.fallback(refuse_layout, key)
    everything.fallback(refuse_autocast, "AutocastPrivateUse1")
    for name, function in OPERATORS.items():
        own.impl(name, entry(functools.partial(_apply, function)), "PrivateUse1")
    for name, whole in whole_kernels():
        own.impl(name, whole, "PrivateUse1")
    for name in ("_copy_from", "_copy_from_and_resize"):
        # They read conjugated tensors as they are; PyTorch would first make a copy, by calling them.
        for key in ("Conjugate", "Negative"):
            own.impl(name, torch.library.fallthrough_kernel, key)
    return [everything, own]


def _apply(function, args, kwargs):
    return function(*args, **kwargs)


@functools.cache
def whole_kernels() -> tuple:
    """The name and the kernel of each operator that is computed whole although PyTorch would take it apart."""
    return tuple((name, kernel(op)) for name, op in _taken_apart() if name not in OPERATORS)


def _taken_apart():
    """Operators that PyTorch takes apart for a device without a kernel of its own, and that have one for the CPU.

    Whole they are one call in Python instead of two or three, and give the CPU's bits.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        composite = has(name, "CompositeExplicitAutogradNonFunctional") or has(name, "CompositeExplicitAutograd")
        whole = has(name, "CPU") or rest in _ALSO_WHOLE or rest.startswith("_foreach_")
        if namespace != "aten" or not composite or not whole:
            continue
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(aten, packet), overload or "default")
        if torch.Tag.out not in op.tags or rest in _ALSO_WHOLE:
            yield rest, op
