"""What runs on the simulated accelerator: every operator of PyTorch, by the CPU's kernel over the same memory.

One fallback serves the PrivateUse1 dispatch key: it hands CPU tensors over the operands' memory to the CPU's kernel and
puts the results on the device. It runs below autograd, so that the graph, views and version counters are PyTorch's own.
What crosses devices, and what a CPU has no kernel for, is in operators.py.
"""

import torch

from autogradlab.accelerator import generators
from autogradlab.accelerator.counters import totals, trip
from autogradlab.accelerator.interruptions import begin_operation, end_operation
from autogradlab.accelerator.memory import (
    CPU,
    CPU_KERNEL,
    DEVICE,
    memory,
    new_storage,
    on_host,
    over,
    place,
    to_device,
)

_META = torch.device("meta")
_PLAIN = {int, float, bool, complex, str, type(None), torch.dtype, torch.memory_format, torch.layout}
_LARGEST_ITEM = torch.complex128.itemsize
_mode_enabled = torch._C._is_torch_function_mode_enabled
_modes_off = torch._C.DisableTorchFunction
_empty_strided = torch.ops.aten.empty_strided.default._op

#: The number of elements of results that are told more simply than by running the operator on outlines.
_LENGTHS = {
    "aten::mm": lambda a, b: a.size(0) * b.size(1),
    "aten::addmm": lambda c, a, b: a.size(0) * b.size(1),
    "aten::bmm": lambda a, b: a.size(0) * a.size(1) * b.size(2),
    "aten::baddbmm": lambda c, a, b: a.size(0) * a.size(1) * b.size(2),
}


class _Plan:
    """What has to be known about one operator to run it; made once."""

    __slots__ = (
        "any_number",
        "call",
        "elementwise",
        "fresh",
        "generator",
        "length",
        "name",
        "redispatch",
        "results",
        "swaps_stream",
        "synchronises",
        "tensors",
        "view",
        "writes",
    )

    def __init__(self, op):
        schema, tags = op._schema, op.tags
        self.name, self.call, self.any_number = schema.name, op._op, op.overloadpacket
        self.redispatch = op._handle.redispatch_boxed
        # Arguments by place: a position, or a name where only a name is possible.
        self.tensors, self.writes, self.generator, owners = [], [], None, {}
        for position, argument in enumerate(schema.arguments):
            where = argument.name if argument.kwarg_only else position
            if str(argument.type) == "Tensor":
                self.tensors.append(where)
            elif str(argument.type) == "Optional[Generator]":
                self.generator = where, argument.name
            if argument.alias_info is not None:
                owners.update(dict.fromkeys(argument.alias_info.before_set, where))
                if argument.alias_info.is_write:
                    self.writes.append(where)
        # For each result the place of the argument that it is, or None for a fresh one.
        infos = [result.alias_info for result in schema.returns]
        self.view = any(info is not None and not info.is_write for info in infos)
        self.results = [None if info is None else owners[next(iter(info.before_set))] for info in infos]
        self.fresh = None in self.results
        self.length = _LENGTHS.get(self.name)
        self.elementwise = torch.Tag.pointwise in tags
        self.swaps_stream = torch.Tag.nondeterministic_seeded in tags and self.generator is None
        # index.Tensor is tagged as well, but it waits only for masks (see operators.index).
        self.synchronises = torch.Tag.data_dependent_output in tags or (
            torch.Tag.dynamic_output_shape in tags and self.name != "aten::index"
        )


_kernels = {}


def fallback(op, *args, **kwargs):
    """What `op` returns on `sim`."""
    run = _kernels.get(id(op))
    if run is None:
        run = _kernels[id(op)] = kernel(op)
    return run(*args, **kwargs)


def kernel(op):
    """The fallback for one operator, to be registered where PyTorch would otherwise take the operator apart."""
    plan = _Plan(op)

    def run(*args, **kwargs):
        begin_operation()
        if _mode_enabled():
            # A mode of the caller's, such as a default device, is not meant for the calls in here.
            with _modes_off():
                result = _run(plan, args, kwargs)
        else:
            result = _run(plan, args, kwargs)
        end_operation()
        return result

    return run


def _run(plan, args, kwargs):
    if plan.view:
        return plan.redispatch(CPU_KERNEL, *args, **kwargs)
    operands = []
    host_args = [to_host(value, operands) for value in args]
    host_kwargs = {name: to_host(value, operands) for name, value in kwargs.items()} if kwargs else {}
    if plan.writes:
        _check_written(plan, args, kwargs)
    if plan.generator is not None:
        _give_generator(plan, host_args, host_kwargs)
    call = plan.call
    for where in plan.tensors:
        # PyTorch hands over a number where it had wrapped one into a tensor; another overload takes it as it is.
        if type(_at(args, kwargs, where)) in _PLAIN:
            call = plan.any_number
    if plan.fresh:
        _foresee(plan, call, args, kwargs, operands)
    totals.operations += 1
    if plan.synchronises:
        trip(syncs=1)
    try:
        if plan.swaps_stream:
            with generators.as_default():
                result = call(*host_args, **host_kwargs)
        else:
            result = call(*host_args, **host_kwargs)
    except NotImplementedError as error:
        raise NotImplementedError(
            f"sim cannot run {plan.name}: the CPU, which computes for it, has no kernel for these arguments. "
            f"PyTorch said: {str(error).splitlines()[0]}"
        ) from error
    for where in plan.writes:
        _keep_up(_at(args, kwargs, where), _at(host_args, host_kwargs, where))
    results = plan.results
    if len(results) == 1:
        return to_sim(result, operands, plan) if results[0] is None else _at(args, kwargs, results[0])
    if not results:
        return None
    return tuple(
        to_sim(value, operands, plan) if where is None else _at(args, kwargs, where)
        for value, where in zip(result, results, strict=True)
    )


def _at(args, kwargs, where):
    if type(where) is int:
        return args[where] if where < len(args) else None
    return kwargs.get(where)


def to_host(value, operands):
    """The CPU's form of one argument; the tensors in it are noted in `operands`, beside their CPU form."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        if value.is_cpu:
            if value.dim():
                _refuse_devices(value.device)
            operands.append((None, value))
            return value
        if value.device != DEVICE:
            _refuse_devices(value.device)
        host = on_host(value)
        operands.append((value, host))
        return host
    if isinstance(value, list | tuple):
        return [to_host(item, operands) for item in value]
    return CPU if isinstance(value, torch.device) else value


def _refuse_devices(other):
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE} and {other}!"
    )


def _check_written(plan, args, kwargs):
    for where in plan.writes:
        written = _at(args, kwargs, where)
        if isinstance(written, torch.Tensor) and written.is_cpu:
            _refuse_devices(CPU)


def _give_generator(plan, args, kwargs):
    where, name = plan.generator
    given = _at(args, kwargs, where)
    chosen = generators.default if given is None else generators.checked(given)
    if type(where) is int and where < len(args):
        args[where] = chosen
    else:
        kwargs[name] = chosen


def to_sim(value, operands, plan):
    """The device's form of one result."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_nested:
            kind = "quantized" if value.is_quantized else "nested" if value.is_nested else str(value.layout)[6:]
            raise NotImplementedError(
                f"sim holds dense tensors only, and {plan.name} gives a {kind} tensor. Try it on the CPU: x.cpu()."
            )
        if value._is_zerotensor() or value.is_conj() or value.is_neg():
            value = value.clone().resolve_conj().resolve_neg()
        shared = value.untyped_storage()._cdata
        for tensor, host in operands:
            if host.untyped_storage()._cdata == shared:
                if tensor is None:
                    return to_device(value.clone())
                return tensor if host is value else over(tensor.untyped_storage(), value)
        return to_device(value)
    if isinstance(value, list | tuple):
        return [to_sim(item, operands, plan) for item in value]
    return value


def _keep_up(tensor, host):
    """Gives a tensor that was written to the shape that the CPU's kernel gave its CPU form."""
    if not isinstance(tensor, torch.Tensor) or (host.size() == tensor.size() and host.stride() == tensor.stride()):
        return
    storage = tensor.untyped_storage()
    if host.untyped_storage().nbytes() != storage.nbytes():
        storage = new_storage(host)
    place(tensor, storage, host.storage_offset(), host.size(), host.stride())


def _foresee(plan, call, args, kwargs, operands):
    """Raises `torch.OutOfMemoryError` where the results cannot fit, before the CPU computes them."""
    room = (memory.capacity - memory.allocated) // _LARGEST_ITEM
    if plan.length is not None and plan.length(*[host for _, host in operands]) <= room:
        return
    longest = second = 0
    for _, host in operands:
        length = host.numel()
        if length > longest:
            longest, second = length, longest
        elif length > second:
            second = length
    # At most an element for each pair of elements of the two longest operands; or none more than the longest has.
    if longest * max(second, 1) <= room:
        return
    if plan.elementwise and longest <= room and len({host.size() for _, host in operands if host.dim()}) == 1:
        return
    try:
        outlines = call(*map(_outline, args), **{name: _outline(value) for name, value in kwargs.items()})
    except (IndexError, RuntimeError, TypeError, ValueError):
        # The size depends on values, or the call is at fault and will say so itself.
        return
    outlines = [outlines] if len(plan.results) == 1 else outlines
    fresh = [outline for outline, where in zip(outlines, plan.results, strict=True) if where is None]
    memory.require(sum(t.numel() * t.element_size() for t in _tensors(fresh)))


def _outline(value):
    """The form of an argument, without its memory."""
    if isinstance(value, torch.Tensor):
        if value.is_cpu:
            return value
        return _empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, list | tuple):
        return [_outline(item) for item in value]
    return _META if isinstance(value, torch.device) else value


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
