"""The memory of the simulated accelerator: storages on `sim:0`, each over host memory that holds its bytes.

A tensor on `sim` is an ordinary `torch.Tensor` with a storage of its own, so that views, parameters, version counters
and reference counts are PyTorch's own. The storage's Python object carries two attributes: `_host`, a CPU tensor over
the memory that holds the values, and `_allocation`, whose end is the moment the device's memory is given back. PyTorch
keeps a storage's Python object exactly as long as the storage.
"""

import math

import torch

from autogradlab.accelerator.interruptions import from_the_first_instruction, keep

DEVICE = torch.device("privateuseone:0")
CPU = torch.device("cpu")
CPU_KERNEL = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

_empty_tensor = torch._C._acc.create_empty_tensor
_storage_over = torch._C._construct_storage_from_data_pointer
_set = torch.ops.aten.set_.source_Storage_storage_offset
_as_strided = torch.ops.aten.as_strided.default._op
_empty_strided = torch.ops.aten.empty_strided.default._op


class Memory:
    """Bytes in use on the device, the most so far, and the most there can be."""

    __slots__ = ("allocated", "capacity", "peak")

    def __init__(self, capacity: int):
        self.allocated = self.peak = 0
        self.capacity = capacity

    def require(self, size: int):
        """Raises `torch.OutOfMemoryError` where `size` more bytes do not fit."""
        if self.allocated + size > self.capacity:
            free = max(self.capacity - self.allocated, 0)
            raise torch.OutOfMemoryError(
                f"sim out of memory. Tried to allocate {as_size(size)}. sim:0 has a total capacity of "
                f"{as_size(self.capacity)} of which {as_size(free)} is free. Of the rest, {as_size(self.allocated)} is "
                f"allocated by tensors that are still alive: {self.allocated:,} bytes. What keeps them alive?"
            )


#: One gibibyte: enough for the course, and a leak ends before the laptop's own memory does.
CAPACITY = 1 << 30
memory = Memory(CAPACITY)


def as_size(size: int) -> str:
    """Bytes as PyTorch's allocator prints them: `12.00 KiB`."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


class _Allocation:
    """Bytes taken on the device, for as long as this object lives."""

    size = 0

    def __init__(self, size):
        # Nothing between these lines lets another thread in, or an interruption: Python looks at calls and loops.
        self.size = size
        memory.allocated += size
        if memory.allocated > memory.peak:
            memory.peak = memory.allocated

    @from_the_first_instruction
    def __del__(self, memory=memory, keep=keep):
        try:
            memory.allocated -= self.size
        except BaseException as error:
            memory.allocated -= self.size
            keep(error)


def new_storage(host: torch.Tensor):
    """A storage on `sim:0` that takes over the memory of a CPU tensor. Raises `torch.OutOfMemoryError` when full."""
    host_storage = host.untyped_storage()
    size = host_storage.nbytes()
    memory.require(size)
    allocation = _Allocation(size)
    storage = _storage_over(host_storage.data_ptr(), DEVICE, size)
    storage._allocation = allocation
    storage._host = host
    return storage


def over(storage, host: torch.Tensor) -> torch.Tensor:
    """A tensor over a storage on `sim:0` with the dtype, offset, shape and strides of a CPU tensor."""
    tensor = _empty_tensor((0,), host.dtype)
    _set_boxed(CPU_KERNEL, tensor, storage, host.storage_offset(), host.size(), host.stride())
    return tensor


_set_boxed = _set._handle.redispatch_boxed


def place(tensor: torch.Tensor, storage, offset: int, size, stride) -> torch.Tensor:
    """The same tensor on `sim`, now over this part of this storage."""
    return _set_boxed(CPU_KERNEL, tensor, storage, offset, size, stride)


def to_device(host: torch.Tensor) -> torch.Tensor:
    """A tensor on `sim:0` that takes over the memory of a CPU tensor."""
    return over(new_storage(host), host)


def host_storage(tensor: torch.Tensor):
    """The storage object of a tensor on `sim`, with its host memory."""
    storage = tensor.untyped_storage()
    if not hasattr(storage, "_host"):
        # Made inside PyTorch: over no memory at all, or over the memory of another storage on sim for a moment.
        memory_of_other = _storage_over(storage.data_ptr(), CPU, storage.nbytes())
        storage._host = torch.empty(0, dtype=torch.uint8, device=CPU).set_(memory_of_other)
    return storage


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the memory of a tensor on `sim`: same dtype, shape and strides, same values."""
    try:
        host = tensor.untyped_storage()._host
    except AttributeError:
        host = host_storage(tensor)._host
    if (
        host.dtype is not tensor.dtype
        or host.size() != tensor.size()
        or host.stride() != tensor.stride()
        or host.storage_offset() != tensor.storage_offset()
    ):
        host = _host_view(host, tensor)
    if tensor.is_conj():
        host = host.conj()
    return torch._neg_view(host) if tensor.is_neg() else host


def _host_view(host, tensor):
    if host.dtype is tensor.dtype:
        return _as_strided(host, tensor.size(), tensor.stride(), tensor.storage_offset())
    view = torch.empty(0, dtype=tensor.dtype, device=CPU)
    return view.set_(host.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())


def extent(size, stride) -> int:
    """The number of elements that a tensor of these sizes and strides spans."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


def allocate(size, stride, dtype) -> torch.Tensor:
    """An uninitialised tensor on `sim:0`. Raises `torch.OutOfMemoryError` before anything is allocated."""
    memory.require(extent(size, stride) * dtype.itemsize)
    return to_device(_empty_strided(size, stride, dtype=dtype, device=CPU))


def contiguous_stride(size) -> list[int]:
    """The strides of a contiguous tensor."""
    steps = [1]
    for n in reversed(size[1:]):
        steps.append(steps[-1] * max(n, 1))
    return steps[::-1] if size else []


def resize(tensor: torch.Tensor, size, stride) -> torch.Tensor:
    """The same tensor with another shape; where its storage is too small, in a new one with the old bytes first."""
    storage, offset = host_storage(tensor), tensor.storage_offset()
    needed = (offset + extent(size, stride)) * tensor.element_size() if math.prod(size) else 0
    if needed > storage.nbytes():
        memory.require(needed)
        host = torch.empty(needed // tensor.element_size(), dtype=tensor.dtype, device=CPU)
        old = torch.empty(0, dtype=torch.uint8, device=CPU).set_(storage._host.untyped_storage())
        host.view(torch.uint8)[: len(old)].copy_(old)
        storage = new_storage(host)
    return place(tensor, storage, offset, size, stride)
