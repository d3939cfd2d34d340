"""What runs on the simulated accelerator: every operator of PyTorch, by the CPU's kernel over the same memory.

One fallback serves the PrivateUse1 dispatch key: it hands CPU tensors over the operands' memory to the CPU's kernel and
puts the results on the device. It runs below autograd, so that the graph, views and version counters are PyTorch's own.
What crosses devices, and what a CPU has no kernel for, is in operators.py.
"""

import math

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

# A key that no kernel is registered for, so that it leads to the operator as PyTorch takes it apart.
_TAKEN_APART = torch._C.DispatchKeySet(torch._C.DispatchKey.IPU)
_ALSO_APART = {"aten::clone", "aten::mean", "aten::sum"}
_PLAIN = {int, float, bool, complex, str, type(None), torch.dtype, torch.memory_format, torch.layout}
_LARGEST_ITEM = torch.complex128.itemsize
_mode_enabled = torch._C._is_torch_function_mode_enabled
_modes_off = torch._C.DisableTorchFunction

#: Operators whose result has a row for each row of the last but one operand, and a column for each of the last.
_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
#: A whole number from here on may be a size, and not a dimension.
_SIZE = 1024


class _Plan:
    """What has to be known about one operator to run it; made once."""

    __slots__ = (
        "any_number",
        "apart",
        "call",
        "elementwise",
        "generator",
        "name",
        "product",
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
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        structured = has(op.name(), "CompositeExplicitAutogradNonFunctional")
        self.apart = None in self.results and (structured or self.name in _ALSO_APART)
        self.product = self.name in _PRODUCTS
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
    return entry(lambda args, kwargs: _run(plan, args, kwargs))


def entry(run):
    """What PyTorch calls, for `run(args, kwargs)`."""

    def enter(*args, **kwargs):
        begin_operation()
        if _mode_enabled():
            # A mode of the caller's, such as a default device, is not meant for the calls in here.
            with _modes_off():
                result = run(args, kwargs)
        else:
            result = run(args, kwargs)
        end_operation()
        return result

    return enter


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
    if plan.apart and call is plan.call and not _surely_fits(plan, operands, args):
        # Taken apart, the operator asks for the memory of its results before it computes them.
        return plan.redispatch(_TAKEN_APART, *args, **kwargs)
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


def _surely_fits(plan, operands, args) -> bool:
    """Whether there is room for the results, by an upper bound of their length."""
    room = (memory.capacity - memory.allocated) // _LARGEST_ITEM
    hosts = [host for _, host in operands]
    if plan.product and math.prod(hosts[-2].shape[:-1]) * math.prod(hosts[-1].shape[-1:]) <= room:
        return True
    longest = second = 0
    for host in hosts:
        length = host.numel()
        if length > longest:
            longest, second = length, longest
        elif length > second:
            second = length
    sizes = 1
    for value in args:
        for number in value if type(value) is list else (value,):
            if type(number) is int and number >= _SIZE:
                sizes *= number
    # At most an element for each pair of elements of the two longest operands, for each element of a given size.
    if longest * max(second, 1) * sizes <= room:
        return True
    return plan.elementwise and longest <= room and len({host.size() for host in hosts if host.dim()}) == 1
