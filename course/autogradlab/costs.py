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

    __slots__ = ("__weakref__", "kept", "keys", "owner", "place", "version")

    def __init__(self, owner, kept, version=None):
        self.owner, self.kept, self.version, self.keys = owner, kept, version, []
        self.place = owner._place()
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


_autograd = torch._C._autograd
_STACKING = ("_push_saved_tensors_default_hooks", "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable")
_push, _disable, _enable = _originals = [getattr(_autograd, name) for name in _STACKING]


class _Stack:
    """The thread's stack of default saved-tensor hooks, kept such that counting changes nothing for the program.

    While anybody counts, hooks that the program pushes are counted as well, and where it disables hooks, as
    `torch.func` does, those that only count step aside.
    """

    def __init__(self):
        self._users, self._lock = 0, threading.Lock()
        self._aside = threading.local()

    @contextlib.contextmanager
    def counting(self, owner):
        """Counts for `owner` what this thread saves."""
        below = self._top()
        if below is not None and _hooks_of(below) is not None and _hooks_of(below).owner is owner:
            raise RuntimeError("This is counting already: with each `with` block, expected a meter of its own.")
        hooks = _Hooks(owner, below)
        with self._replaced():
            _push(*hooks.pair)
            try:
                yield
            finally:
                self._remove(hooks)

    @contextlib.contextmanager
    def _replaced(self):
        with self._lock:
            self._users += 1
            _replace(self._pushed, self._disabled, self._enabled)
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    _replace(*_originals)

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
            _push(*pair)

    def _remove(self, hooks):
        # Not always the last: blocks in generators do not end in the order in which they began.
        pairs = self._taken()
        self._put([pair for pair in pairs if _hooks_of(pair) is not hooks])

    def _pushed(self, pack, unpack):
        pair, top = (pack, unpack), self._top()
        if _hooks_of(pair) is None:
            for owner in reversed(_owners(top)):
                pair = _Hooks(owner, pair).pair
        _push(*pair)

    def _disabled(self, message):
        pairs = self._taken()
        if any(_is_the_programs(pair) for pair in pairs):
            self._put(pairs)
        elif pairs:
            self._aside.pairs = pairs
        _disable(message)

    def _enabled(self):
        _enable()
        self._put(self._aside.__dict__.pop("pairs", []))


def _replace(*functions):
    for name, function in zip(_STACKING, functions):
        setattr(_autograd, name, function)


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
        """What a `Held` remembers of the code that saved its tensor."""

    def _hold(self, key, size):
        # Changed in place: between reading a number and writing it, nothing here can begin a garbage collection, which
        # may release others.
        known = self._held.get(key)
        if known is not None:
            known[0] += 1
            return
        self._held[key] = [1, size]
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
    def __init__(self, counts):
        super().__init__()
        self.counts = counts

    @classmethod
    def _should_skip_dynamo(cls):
        # Nothing is compiled here, and being left out of compilation doubles the time of every operation.
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs) if kwargs else func(*args)
        self.counts.operations += 1
        see = _seen.get(func)
        if see is None:
            see = _seen[func] = _how_to_see(func)
        if see is not _nothing:
            see(self.counts, args, result)
        return result


def _nothing(counts, args, result):
    """Most operators neither wait nor move anything."""


def _wait(counts, args, result):
    if not counts.reading:
        counts._sync()


def _copy_of_first(counts, args, result):
    _copy(counts, args[0], result.device)


def _copy_of_second(counts, args, result):
    _copy(counts, args[1], result.device)


def _copy(counts, source, device):
    if isinstance(source, torch.Tensor) and source.device != device:
        counts._transfer(source.device, device, source.numel() * source.element_size())
        if device.type == "cpu":
            _wait(counts, (), None)


def _new(counts, args, result):
    # `torch.tensor([1.0, 2.0], device=device)`
    if result.device.type not in ("cpu", "meta"):
        counts._transfer(torch.device("cpu"), result.device, result.numel() * result.element_size())


def _index(counts, args, result):
    waits = len(args) < 3 or args[2].numel() != 1
    for index in args[1]:
        if index is not None:
            # A mask is turned into the positions that it selects; a single value needs none.
            if waits and index.dtype in (torch.bool, torch.uint8):
                _wait(counts, (), None)
            if args[0].device.type != "meta":
                _copy(counts, index, args[0].device)


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


@contextlib.contextmanager
def _counted_reads(counts):
    """Counts `tolist` and `numpy` (`numpy.asarray` calls it): on the CPU they run no operator that a mode would see."""
    thread = threading.get_ident()

    def counted(name, read):
        def reading(tensor, *args, **kwargs):
            if counts.reading or threading.get_ident() != thread:
                return read(tensor, *args, **kwargs)
            counts.reading = True
            try:
                values = read(tensor, *args, **kwargs)
            finally:
                counts.reading = False
            counts._sync()
            return values

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


class Counts:
    """Counts, between `with` and its end, what this thread's code waits for, moves and computes.

    `syncs` are the times that Python waits for a tensor's values: reads of them (`item`, `float`, `bool`, `tolist`,
    `numpy`), copies to the CPU from another device, and operators that make a number in Python or a shape out of values
    (`equal`, `nonzero`, `unique`, a mask as index). `transfers` and `transfer_bytes` are copies between devices;
    `operations` calls of torch's operators, forward and backward.
    """

    def __init__(self):
        self.syncs = self.transfers = self.transfer_bytes = self.operations = 0
        self.reading = False
        self._blocks = contextlib.ExitStack()

    def _sync(self):
        self.syncs += 1

    def _transfer(self, source, target, size):
        self.transfers += 1
        self.transfer_bytes += size

    def __enter__(self):
        self._blocks.enter_context(_counted_reads(self))
        self._blocks.enter_context(_Operations(self))
        return self

    def __exit__(self, *error):
        self._blocks.close()


class Meter(GraphBytes, Counts):
    """Counts all that the code between `with meter:` and its end costs: see `GraphBytes` and `Counts`."""

    def __init__(self):
        GraphBytes.__init__(self)
        Counts.__init__(self)

    def __enter__(self):
        GraphBytes.__enter__(self)
        return Counts.__enter__(self)

    def counts(self) -> dict:
        """The counts so far, as plain data."""
        names = ("graph_bytes", "peak_bytes", "syncs", "transfers", "transfer_bytes", "operations")
        return {name: int(getattr(self, name)) for name in names}
