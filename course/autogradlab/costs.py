"""What a program costs: bytes its graphs hold, host syncs, transfers, operations; counted, never timed."""

import contextlib
import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autogradlab.encoding import memory_key

# --------------------------------------------------------------------------------------------- bytes that graphs hold


class Held:
    """What a graph keeps of a saved tensor, for as long as it keeps it.

    kept: the tensor, detached, or what hooks of the program's own made of it
    """

    __slots__ = ("kept", "keys", "owner", "version")

    def __init__(self, owner, kept, version=None):
        self.owner, self.kept, self.version, self.keys = owner, kept, version, []
        for part in tensors_in(kept):
            self.keys.append(memory_key(part))
            owner._hold(self.keys[-1], part.untyped_storage().nbytes())

    def __del__(self):
        for key in self.keys:
            self.owner._release(key)


def tensors_in(kept) -> list:
    """The tensors with a storage of their own in what a graph keeps for one saved tensor."""
    while isinstance(kept, Held):
        kept = kept.kept
    return [part for leaf in tree_leaves(kept) if isinstance(leaf, torch.Tensor) for part in _parts(leaf)]


def _parts(tensor) -> list:
    if tensor.layout is torch.strided and not tensor.is_nested:
        return [tensor]
    with torch._C._DisableTorchDispatch():
        return [tensor._indices(), tensor._values()] if tensor.layout is torch.sparse_coo else []


def _detached(tensor):
    # A result that held itself through its own node would never be freed. No mode sees it: the program did not ask for
    # that operation. A class with operators of its own makes its detached tensor itself.
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return tensor.detach()
    with torch._C._DisableTorchDispatch():
        return tensor.detach()


class _Hooks:
    """Default saved-tensor hooks that count for `owner`; `below`: the pair of functions that would run without them."""

    def __init__(self, owner, below=None):
        self.owner, self.below = owner, below

    @property
    def pair(self):
        return self.pack, self.unpack

    def pack(self, tensor):
        with torch._C.DisableTorchFunction():
            parameter = parameter_of(tensor)
            if parameter is not None:
                self.owner._exclude(parameter)
            if self.below is None:
                return Held(self.owner, _detached(tensor), tensor._version)
        try:
            return Held(self.owner, self.below[0](tensor))
        except BaseException:
            # A checkpoint ends its second forward pass by an exception, when it has kept the last tensor.
            with torch._C.DisableTorchFunction():
                Held(self.owner, _detached(tensor))
            raise

    def unpack(self, held):
        if self.below is not None:
            return self.below[1](held.kept)
        tensor = held.kept
        # PyTorch itself does not look at versions where there are hooks.
        if tensor._version != held.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected version "
                f"{held.version} instead. Hint: enable anomaly detection to find the operation that failed to compute "
                "its gradient, with torch.autograd.set_detect_anomaly(True)."
            )
        return tensor


class _Replacing:
    """Functions that stand in for those of `owner` for as long as anybody needs them, in whatever thread and order.

    functions: names, each with what makes the new function of the old one
    """

    def __init__(self, owner, functions):
        self.owner, self.functions = owner, functions
        self.users, self.lock = 0, threading.Lock()

    @contextlib.contextmanager
    def in_force(self):
        with self.lock:
            if not self.users:
                self.before = {name: vars(self.owner).get(name) for name in self.functions}
                for name, function in self.functions.items():
                    setattr(self.owner, name, function(getattr(self.owner, name)))
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self._put_back()

    def _put_back(self):
        for name, function in self.before.items():
            if function is None:
                delattr(self.owner, name)
            else:
                setattr(self.owner, name, function)


_autograd = torch._C._autograd


class _Stack:
    """The thread's stack of default saved-tensor hooks, kept such that counting changes nothing for the program.

    While anybody counts, hooks that the program pushes are counted as well, and where it disables hooks, as
    `torch.func` does, those that only count step aside.
    """

    def __init__(self):
        self._aside = threading.local()
        self._replacing = _Replacing(
            _autograd,
            {
                "_push_saved_tensors_default_hooks": self._pushing,
                "_saved_tensors_hooks_disable": self._disabling,
                "_saved_tensors_hooks_enable": self._enabling,
            },
        )

    @contextlib.contextmanager
    def counting(self, owner):
        """Counts for `owner` what this thread saves."""
        below = self._top()
        if owner in _owners(below):
            raise RuntimeError("This is counting already: with each `with` block, expected a meter of its own.")
        hooks = _Hooks(owner, below)
        with self._replacing.in_force():
            self._put([hooks.pair])
            try:
                yield
            finally:
                # Not always the last: blocks in generators do not end in the order in which they began.
                self._put([pair for pair in self._taken() if _hooks_of(pair) is not hooks])

    def _top(self):
        return _autograd._top_saved_tensors_default_hooks(False) or None

    def _taken(self) -> list:
        """All pairs on the stack, the last first, which are no longer on it."""
        taken = []
        while self._top() is not None:
            taken.append(self._top())
            _autograd._pop_saved_tensors_default_hooks()
        return taken

    def _put(self, pairs):
        for pair in reversed(pairs):
            _autograd._push_saved_tensors_default_hooks(*pair)

    def _pushing(self, push):
        def pushed(pack, unpack):
            pair = pack, unpack
            if _hooks_of(pair) is None:
                for owner in reversed(_owners(self._top())):
                    pair = _Hooks(owner, pair).pair
            push(*pair)

        return pushed

    def _disabling(self, disable):
        def disabled(message):
            pairs = self._taken()
            if any(_is_the_programs(pair) for pair in pairs):
                self._put(pairs)
            elif pairs:
                self._aside.pairs = pairs
            disable(message)

        return disabled

    def _enabling(self, enable):
        def enabled():
            enable()
            self._put(self._aside.__dict__.pop("pairs", []))

        return enabled


def _hooks_of(pair):
    """The `_Hooks` that a pair of functions belongs to, else None."""
    hooks = getattr(pair[0], "__self__", None)
    return hooks if isinstance(hooks, _Hooks) else None


def _owners(pair) -> list:
    """Those for whom a pair of hooks counts, the last first."""
    owners = []
    while pair is not None and _hooks_of(pair) is not None:
        owners.append(_hooks_of(pair).owner)
        pair = _hooks_of(pair).below
    return owners


def _is_the_programs(pair) -> bool:
    while pair is not None and _hooks_of(pair) is not None:
        pair = _hooks_of(pair).below
    return pair is not None


_stack = _Stack()


class GraphBytes:
    """Counts, for what this thread records between `with` and its end, the bytes that graphs hold.

    `graph_bytes` are the bytes that graphs hold now for their backward (each storage once, parameters excluded), also
    after the block; `peak_bytes` is their maximum so far. Parameters are leaves that require grad, parameters of
    modules (frozen ones too), what modules register inside, and what `exclude` was given.
    """

    def __init__(self):
        self.graph_bytes = self.peak_bytes = 0
        self._held = {}
        self._parameters = {}
        self._blocks = contextlib.ExitStack()

    def exclude(self, value):
        """Leaves the storages of `value`'s parameters (leaves that require grad) out of the bytes."""
        for tensor in parameters_in(value):
            self._exclude(tensor)

    def _exclude(self, tensor):
        if tensor is None or tensor.layout is not torch.strided:
            return
        key = memory_key(tensor)
        if key not in self._parameters:
            # A weak reference frees the memory, but keeps the key from passing to another storage.
            self._parameters[key] = StorageWeakRef(tensor.untyped_storage())
            self.graph_bytes -= self._held.get(key, (0, 0))[1]

    def _place(self):
        """What to remember of the code that saves a storage."""

    def _hold(self, key, size):
        # Changed in place: between reading a number and writing it, nothing here can begin a garbage collection, which
        # may release others.
        known = self._held.get(key)
        if known is not None:
            known[0] += 1
            return
        self._held[key] = [1, size, self._place()]
        if key not in self._parameters:
            self.graph_bytes += size
            if self.graph_bytes > self.peak_bytes:
                self.peak_bytes = self.graph_bytes

    def _release(self, key):
        known = self._held[key]
        known[0] -= 1
        if not known[0]:
            del self._held[key]
            if key not in self._parameters:
                self.graph_bytes -= known[1]

    def __enter__(self):
        self._blocks.enter_context(_stack.counting(self))
        registered = register_module_parameter_registration_hook(lambda module, name, tensor: self._exclude(tensor))
        self._blocks.callback(registered.remove)
        return self

    def __exit__(self, *error):
        self._blocks.close()


def parameter_of(tensor):
    """The parameter whose memory this tensor is: a leaf that requires grad, or a module's; else None."""
    base = tensor._base if tensor._is_view() else tensor
    return base if base.is_leaf and base.requires_grad or isinstance(base, torch.nn.Parameter) else None


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


# ------------------------------------------------------------------------------------- syncs, transfers and operations


class _Operations(TorchDispatchMode):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    @classmethod
    def _should_skip_dynamo(cls):
        # Nothing is compiled here, and being left out of compilation doubles the time of every operation.
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs) if kwargs else func(*args)
        self.meter.operations += 1
        see = _seen.get(func)
        if see is None:
            see = _seen[func] = _how_to_see(func)
        if see is not _nothing:
            see(self.meter, args, result)
        return result


def _nothing(meter, args, result):
    """Most operators neither wait nor move anything."""


def _wait(meter, args, result):
    if not meter.reading:
        meter._sync()


def _copy_of_first(meter, args, result):
    _copy(meter, args[0], result.device)


def _copy_of_second(meter, args, result):
    _copy(meter, args[1], result.device)


def _copy(meter, source, device):
    if isinstance(source, torch.Tensor) and source.device != device:
        meter._transfer(source.device, device, source.numel() * source.element_size())
        if device.type == "cpu":
            _wait(meter, (), None)


def _new(meter, args, result):
    # `torch.tensor([1.0, 2.0], device=device)`
    if result.device.type not in ("cpu", "meta"):
        meter._transfer(torch.device("cpu"), result.device, result.numel() * result.element_size())


def _index(meter, args, result):
    waits = len(args) < 3 or args[2].numel() != 1
    for index in args[1]:
        if index is not None:
            # A mask is turned into the positions that it selects; a single value needs none.
            if waits and index.dtype in (torch.bool, torch.uint8):
                _wait(meter, (), None)
            if args[0].device.type != "meta":
                _copy(meter, index, args[0].device)


def _how_to_see(func):
    """How an operator waits for values, or moves them; `_nothing` for most."""
    known = {
        "aten::_to_copy": _copy_of_first,
        "aten::copy_": _copy_of_second,
        "aten::lift_fresh": _new,
        "aten::index": _index,
        "aten::index_put": _index,
        "aten::index_put_": _index,
    }
    if func._schema.name in known:
        return known[func._schema.name]
    # `item`, `equal`; `nonzero`, `unique`: a number in Python or a shape depends on values.
    waits = torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
    return _wait if waits else _nothing


_seen = {}


def _counted_read(read):
    """`tolist` or `numpy` (`numpy.asarray` calls it), counted: on the CPU they run no operator for a mode to see."""

    def reading(tensor, *args, **kwargs):
        meters = [meter for meter in _meters() if not meter.reading]
        for meter in meters:
            meter.reading = True
        try:
            values = read(tensor, *args, **kwargs)
        finally:
            for meter in meters:
                meter.reading = False
        for meter in meters:
            meter._sync()
        return values

    return reading


_reads = _Replacing(torch.Tensor, {"tolist": _counted_read, "numpy": _counted_read})
_of_thread = threading.local()


def _meters() -> list:
    """The meters that count in this thread."""
    return _of_thread.__dict__.setdefault("meters", [])


class Meter(GraphBytes):
    """Counts, besides `GraphBytes`, what this thread's code waits for, moves and computes between `with` and its end.

    `syncs` are the times that Python waits for a tensor's values: reads of them (`item`, `float`, `bool`, `tolist`,
    `numpy`), copies to the CPU from another device, and operators that make a number in Python or a shape out of values
    (`equal`, `nonzero`, `unique`, a mask as index). `transfers` and `transfer_bytes` are copies between devices;
    `operations` calls of torch's operators, forward and backward.
    """

    def __init__(self):
        super().__init__()
        self.syncs = self.transfers = self.transfer_bytes = self.operations = 0
        self.reading = False

    def _sync(self):
        self.syncs += 1

    def _transfer(self, source, target, size):
        self.transfers += 1
        self.transfer_bytes += size

    def __enter__(self):
        super().__enter__()
        self._blocks.enter_context(_reads.in_force())
        _meters().append(self)
        self._blocks.callback(_meters().remove, self)
        self._blocks.enter_context(_Operations(self))
        return self

    def counts(self) -> dict:
        """The counts so far, as plain data."""
        names = ("graph_bytes", "peak_bytes", "syncs", "transfers", "transfer_bytes", "operations")
        return {name: int(getattr(self, name)) for name in names}
