"""Values as plain data, and plain data as bytes: nothing live in between, nothing pickled.

`encode` turns a value into a tree of None, bool, int, float, str, bytes, lists and tagged dicts, with the memory of its
tensors as raw bytes beside it; `decode` gives an equal value back. `pack` and `unpack` carry plain data as one frame:

    4 bytes magic | u32 length of the header | u64 length of the body | header (JSON) | body (raw bytes)

The decoder trusts nothing: every size, count, depth and bound is checked before anything is allocated.
"""

import collections
import ctypes
import json
import re
import struct
import types

import numpy
import torch

MAX_DEPTH = 64
MAX_BYTES = 1 << 26
MAX_HEADER = 1 << 24
MAX_BODY = 1 << 28
MAX_NODES = 1 << 17
MAX_MARKS = 1 << 21
MAX_DIMENSIONS = 32
MAX_FIELDS = 255
MAGIC = b"AGL1"
_FRAME = struct.Struct("<4sIQ")
_ALIGNMENT = 16
DTYPES = {str(value)[6:]: value for value in vars(torch).values() if isinstance(value, torch.dtype)}
#: The dtypes whose values are their bytes and nothing else: no quantized ones, no parts of a byte.
RAW = re.compile(r"bool|bfloat16|u?int(8|16|32|64)|float(16|32|64)|float8_\w+|complex(32|64|128)")
_NUMPY_DTYPE = re.compile(r"[<>|=]?[biufcSUmMV]\d{1,9}(\[\d*\w{1,8}\])?")


class EncodingError(ValueError):
    """A value that cannot be written as plain data, or data that is not what `encode` or `pack` writes."""


def type_name(value) -> str:
    """The name of a value's type, as messages show it."""
    return type(value).__name__


# ---------------------------------------------------------------------------------------------------- live to plain


class Encoder:
    """Encodes values that are looked at in one moment; tensors that share memory share one entry of `storages`."""

    def __init__(self):
        self._memories = {}
        self._nodes = self._bytes = 0

    def encode(self, value, depth=0):
        """The plain tree of `value`; `finish` must be called before the tree is used."""
        self._count(1)
        if depth > MAX_DEPTH:
            raise EncodingError("the value is nested too deeply")
        if value is None or type(value) in (bool, float):
            return value
        if type(value) is str:
            self.take(4 * len(value))
            return value
        if type(value) is int:
            self.take(value.bit_length() // 8)
            return value if -(1 << 63) <= value < 1 << 63 else {"$": "int", "hex": hex(value)}
        if isinstance(value, torch.Tensor):
            return self.tensor(value, depth)
        if type(value) is list:
            return self.container(value, self.items(value, depth))
        known = _ENCODERS.get(type(value))
        if known is not None:
            return known(self, value, depth)
        return self.other(value, depth)

    def _count(self, parts):
        self._nodes += parts
        if self._nodes > MAX_NODES:
            raise EncodingError("the value has too many parts")

    def take(self, size: int):
        """Counts the bytes of a value; raises EncodingError when they become too many."""
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise EncodingError(f"the values take more than {MAX_BYTES >> 20} MiB")

    def items(self, values, depth) -> list:
        """The trees of a container's items, in order."""
        values = list(values)
        if depth < MAX_DEPTH and all(type(value) in (float, bool) for value in values):
            self._count(len(values))
            return values
        return [self.part(position, value, depth + 1) for position, value in enumerate(values)]

    def part(self, key, value, depth):
        """The tree of what a container holds under `key`, for subclasses that follow the path to it."""
        return self.encode(value, depth)

    def container(self, value, tree):
        """The tree of a container, for subclasses to annotate."""
        return tree

    def tensor(self, tensor, depth):
        """The tree of a tensor: how to read it from its storage."""
        shape = list(tensor.shape) if not tensor.is_nested else [tensor.size(0)]
        tree = {"$": "tensor", "class": type_name(tensor), "dtype": str(tensor.dtype)[6:], "shape": shape}
        tree |= {"device": tensor.device.type, "requires_grad": tensor.requires_grad}
        if tensor.layout is torch.sparse_coo:
            plain = tensor.detach().coalesce()
            return tree | {
                "$": "sparse",
                "parts": [self.encode(t, depth + 1) for t in (plain.indices(), plain.values())],
            }
        opaque = tree | {"$": "opaque tensor", "layout": "nested" if tensor.is_nested else str(tensor.layout)[6:]}
        if opaque["layout"] != "strided" or tensor.device.type == "meta" or not RAW.fullmatch(tree["dtype"]):
            return opaque
        base, key = _readable(tensor)
        size = base.element_size()
        low = base.storage_offset() * size
        last = sum((n - 1) * stride for n, stride in zip(base.shape, base.stride()))
        high = low + (last + 1) * size if base.numel() else low
        if base.numel() and high > base.untyped_storage().nbytes():
            return opaque | {"layout": "released"}
        memory = self._memories.setdefault(key, {"base": base, "low": low, "high": high, "trees": []})
        if base.numel():
            if memory["low"] == memory["high"]:
                memory["low"], memory["high"] = low, high
            memory["low"], memory["high"] = min(memory["low"], low), max(memory["high"], high)
        if memory["high"] - memory["low"] > MAX_BYTES:
            raise EncodingError(f"a tensor of shape {tuple(shape)} spans more than {MAX_BYTES >> 20} MiB")
        tree |= {"stride": list(base.stride()), "offset": low, "conj": base.is_conj(), "neg": base.is_neg()}
        memory["trees"].append(tree)
        return tree

    def other(self, value, depth):
        """The tree of a value that is known by its type alone."""
        fields = getattr(value, "_fields", None) if isinstance(value, tuple) else None
        if isinstance(fields, tuple) and len(fields) == len(value) and all(type(name) is str for name in fields):
            tree = {"$": "tuple", "name": type_name(value), "fields": list(fields), "items": self.items(value, depth)}
            return self.container(value, tree)
        if isinstance(value, BaseException):
            names = [cls.__name__ for cls in type(value).__mro__ if issubclass(cls, BaseException)]
            return {"$": "exception", "types": names, "message": str(value)[:2000]}
        if isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return _numpy_scalar(self, value, depth)
        for base, as_plain in _PLAIN_FORMS.items():
            if isinstance(value, base):
                plain = as_plain(value)
                tree = {"$": "subclass", "type": type_name(value), "value": self.encode(plain, depth + 1)}
                return self.container(value, tree)
        return self.container(value, {"$": "object", "type": type_name(value)})

    def finish(self) -> list:
        """The storages, as bytes; offsets in the trees become offsets into them."""
        storages = []
        for memory in self._memories.values():
            # Where all tensors are empty there is nothing to read, wherever they say that it lies.
            low = memory["low"] - memory["low"] % _ALIGNMENT if memory["low"] < memory["high"] else memory["low"]
            for tree in memory["trees"]:
                tree["storage"] = len(storages)
                tree["offset"] = max(tree["offset"] - low, 0) if _count(tree["shape"]) else 0
            storages.append(_memory_bytes(memory["base"], low, memory["high"]))
        if sum(map(len, storages)) > MAX_BYTES:
            raise EncodingError(f"the tensors take more than {MAX_BYTES >> 20} MiB")
        return storages


def _count(shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _readable(tensor):
    """A tensor over the same memory that can be read here, and what identifies that memory."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        base = tensor.detach()
    key = memory_key(tensor)
    if tensor.device.type == "cpu" and type(base) is torch.Tensor:
        return base, key
    if tensor.numel() * tensor.element_size() > MAX_BYTES:
        raise EncodingError(f"a tensor of shape {tuple(tensor.shape)} takes more than {MAX_BYTES >> 20} MiB")
    base = base.cpu()
    base = base.clone() if type(base) is torch.Tensor else torch.tensor(base.tolist(), dtype=tensor.dtype, device="cpu")
    return base, ("copy", key, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())


def memory_key(tensor):
    """What two tensors have in common exactly if they share a storage."""
    return tensor.device.type, tensor.untyped_storage()._cdata


def _memory_bytes(base, low, high) -> bytes:
    if high <= low:
        return b""
    return ctypes.string_at(base.untyped_storage().data_ptr() + low, high - low)


def _encode_dict(encoder, value, depth):
    items = [[encoder.encode(key, depth + 1), encoder.part(key, item, depth + 1)] for key, item in value.items()]
    return encoder.container(value, {"$": "dict", "items": items})


def _encode_set(encoder, value, depth):
    items = sorted((encoder.encode(item, depth + 1) for item in value), key=repr)
    return encoder.container(value, {"$": type_name(value), "items": items})


def _encode_tuple(encoder, value, depth):
    return encoder.container(value, {"$": "tuple", "items": encoder.items(value, depth)})


def _encode_array(encoder, value, depth):
    shape = list(value.shape)
    if value.dtype.hasobject:
        items = [encoder.encode(item, depth + 1) for item in value.ravel().tolist()]
        return encoder.container(value, {"$": "array", "dtype": "object", "shape": shape, "items": items})
    encoder.take(value.nbytes)
    tree = {"$": "array", "dtype": value.dtype.str, "shape": shape, "data": value.tobytes()}
    return encoder.container(value, tree)


def _encode_bytes(encoder, value, depth):
    encoder.take(len(value))
    return {"$": "bytes", "data": value}


def _numpy_scalar(encoder, value, depth):
    # The dtype's name, because the class of a bool is called otherwise from one NumPy to the next.
    name = value.dtype.name if value.dtype.kind in "biufc" else type_name(value)
    plain = numpy.asarray(value) if value.dtype.char in "gGmMV" else value.item()
    return {"$": "subclass", "type": name, "value": encoder.encode(plain, depth + 1)}


def _encode_parts(name, *attributes):
    def encode_parts(encoder, value, depth):
        return {"$": name, "parts": [encoder.encode(getattr(value, a), depth + 1) for a in attributes]}

    return encode_parts


_ENCODERS = {
    dict: _encode_dict,
    tuple: _encode_tuple,
    set: _encode_set,
    frozenset: _encode_set,
    bytes: _encode_bytes,
    complex: _encode_parts("complex", "real", "imag"),
    slice: _encode_parts("slice", "start", "stop", "step"),
    range: _encode_parts("range", "start", "stop", "step"),
    type(Ellipsis): lambda encoder, value, depth: {"$": "ellipsis"},
    torch.Size: lambda encoder, value, depth: {"$": "size", "parts": list(value)},
    torch.dtype: lambda encoder, value, depth: {"$": "dtype", "name": str(value)[6:]},
    torch.device: lambda encoder, value, depth: {"$": "device", "name": str(value)},
    numpy.ndarray: _encode_array,
}


#: What a subclass holds, read by its base's own methods: a learner's class may have others that never end.
_PLAIN_FORMS = {
    bool: bool,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    dict: lambda value: dict(dict.items(value)),
    **{base: lambda value, base=base: base(base.__iter__(value)) for base in (tuple, list, set, frozenset)},
}


def encode(value) -> dict:
    """`value` as plain data: `{"tree": …, "storages": [bytes, …]}`.

    Raises EncodingError where the value is nested more than 64 deep or its memory exceeds 64 MiB. Live objects that are
    no data (modules, functions) are kept as the name of their type.
    """
    encoder = Encoder()
    tree = encoder.encode(value)
    return {"tree": tree, "storages": encoder.finish()}


# ---------------------------------------------------------------------------------------------------- plain to live


class Opaque:
    """Stands for a live object of which only the type was kept."""

    def __init__(self, name: str):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Opaque) and other.name == self.name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"<{self.name}>"


def decode(plain: dict):
    """The value that `encode` was given, with shapes, strides, dtypes and shared memory as they were.

    Tensors come back on the CPU, without history. Raises EncodingError where the data is not what `encode` writes.
    """
    return decode_tree(plain["tree"], Storages(plain["storages"]))


class Storages:
    """The memory of a decoded value: bytes on the outside, one torch storage for each on demand.

    `elements` bounds the elements of a decoded tensor, for whoever computes with it: a few bytes can be expanded to any
    shape.
    """

    def __init__(self, blobs, elements: int | None = None):
        if type(blobs) is not list or not all(type(blob) is bytes for blob in blobs):
            raise EncodingError("the storages are not a list of bytes")
        self._blobs, self.elements = blobs, elements
        self._made = {}

    def __getitem__(self, index):
        blob = self.raw(index)
        if index not in self._made:
            # A writable copy, because torch warns of memory that it may not write.
            made = torch.frombuffer(bytearray(blob), dtype=torch.uint8) if blob else torch.empty(0, dtype=torch.uint8)
            self._made[index] = made.untyped_storage()
        return self._made[index]

    def raw(self, index) -> bytes:
        """The bytes of one storage."""
        if type(index) is not int or not 0 <= index < len(self._blobs):
            raise EncodingError(f"there is no storage {index!r}")
        return self._blobs[index]


def _sizes(value) -> bool:
    return (
        type(value) is list
        and len(value) <= MAX_DIMENSIONS
        and all(type(size) is int and 0 <= size < 1 << 62 for size in value)
    )


def decode_tensor(tree: dict, storages: Storages) -> torch.Tensor:
    """The tensor of one tree, on the CPU, without history and not tracked."""
    name, shape, stride, offset = (tree.get(key) for key in ("dtype", "shape", "stride", "offset"))
    if not (_sizes(shape) and _sizes(stride) and _sizes([offset]) and len(shape) == len(stride)):
        raise EncodingError("a tensor's shape, stride or offset is malformed")
    if type(name) is not str or not RAW.fullmatch(name) or name not in DTYPES or offset % DTYPES[name].itemsize:
        raise EncodingError("a tensor's dtype or offset is malformed")
    dtype, count, storage = DTYPES[name], _count(shape), storages[tree.get("storage")]
    last = sum((n - 1) * step for n, step in zip(shape, stride))
    if count and offset + (last + 1) * dtype.itemsize > storage.nbytes():
        raise EncodingError("a tensor reaches beyond its storage")
    if count > min(storages.elements or 1 << 62, 1 << 62):
        raise EncodingError(f"a tensor of shape {tuple(shape)} has too many elements")
    try:
        # By way of bytes, because an empty tensor of complex32 cannot be made without a warning.
        whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
        values = whole[: storage.nbytes() // dtype.itemsize * dtype.itemsize].view(dtype)
        tensor = values.as_strided(shape, stride, offset // dtype.itemsize if count else 0)
        tensor = tensor.conj() if tree.get("conj") else tensor
        signed = dtype.is_floating_point or dtype.is_complex
        return torch._neg_view(tensor) if tree.get("neg") and signed else tensor
    except (RuntimeError, TypeError) as error:
        raise EncodingError(f"a tensor is malformed: {error}") from error


def decode_tree(tree, storages: Storages, depth=0):
    """The value of one plain tree."""
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if depth > MAX_DEPTH:
        raise EncodingError("the data is nested too deeply")
    if type(tree) is list:
        return [decode_tree(item, storages, depth + 1) for item in tree]
    if type(tree) is not dict or type(tree.get("$")) is not str or tree["$"] not in _DECODERS:
        raise EncodingError("the data holds something that no value is written as")
    try:
        return _DECODERS[tree["$"]](tree, lambda item: decode_tree(item, storages, depth + 1), storages)
    except EncodingError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
        raise EncodingError(f"the data of a {tree['$']} is malformed: {error}") from error


def _decode_tensor(tree, read, storages):
    tensor = decode_tensor(tree, storages)
    if tree.get("class") == "Parameter":
        tensor = torch.nn.Parameter(tensor, requires_grad=bool(tree.get("requires_grad")))
    elif tree.get("requires_grad"):
        tensor.requires_grad_()
    if tree.get("grad") is not None:
        tensor.grad = read(tree["grad"])
    return tensor


def _decode_sparse(tree, read, storages):
    indices, values = (read(part) for part in tree["parts"])
    if not _sizes(tree["shape"]) or not all(_has_own_memory(tensor) for tensor in (indices, values)):
        raise EncodingError("a sparse tensor is malformed")
    options = {"device": "cpu", "check_invariants": True, "is_coalesced": True}
    return torch.sparse_coo_tensor(indices, values, tree["shape"], **options)


def _has_own_memory(tensor) -> bool:
    """Whether a tensor is not larger than the memory it came with: a copy of it may be made."""
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _decode_tuple(tree, read, storages):
    items = [read(item) for item in tree["items"]]
    if "fields" not in tree:
        return tuple(items)
    if len(tree["fields"]) > MAX_FIELDS or type(tree["name"]) is not str:
        raise EncodingError("a named tuple has too many fields")
    return collections.namedtuple(tree["name"], tree["fields"])(*items)


def _decode_array(tree, read, storages):
    if not _sizes(tree["shape"]):
        raise EncodingError("an array's shape is not a list of sizes")
    if tree["dtype"] == "object":
        array = numpy.empty(len(tree["items"]), dtype=object)
        for position, item in enumerate(tree["items"]):
            array[position] = read(item)
        return array.reshape(tree["shape"])
    if type(tree["dtype"]) is not str or not _NUMPY_DTYPE.fullmatch(tree["dtype"]):
        raise EncodingError("an array's dtype is malformed")
    dtype = numpy.dtype(tree["dtype"])
    return numpy.frombuffer(bytearray(_bytes(tree)), dtype=dtype).reshape(tree["shape"])


def _bytes(tree) -> bytes:
    # Given a number, bytes and bytearray allocate so many bytes.
    if type(tree["data"]) is not bytes:
        raise EncodingError("raw data is bytes")
    return tree["data"]


def _decode_size(tree, read, storages):
    if not all(type(size) is int and abs(size) < 1 << 63 for size in tree["parts"]):
        raise EncodingError("a size is made of whole numbers")
    return torch.Size(tree["parts"])


def _decode_complex(tree, read, storages):
    real, imaginary = tree["parts"]
    return complex(real, imaginary)


def _decode_subclass(tree, read, storages):
    value = read(tree["value"])
    numpy_type = NUMPY_TYPES.get(tree["type"]) if type(tree["type"]) is str else None
    if numpy_type is None:
        return value
    if isinstance(value, numpy.ndarray) and value.shape == () and type(value[()]) is numpy_type:
        return value[()]
    # Given a number, numpy.bytes_ and numpy.void allocate so many bytes.
    wanted = {numpy.str_: str, numpy.bytes_: bytes}.get(numpy_type, (bool, int, float, complex))
    if isinstance(value, wanted) and numpy_type is not numpy.void:
        return numpy_type(value)
    raise EncodingError("a NumPy scalar is malformed")


def _decode_module(tree, read, storages):
    parts = {kind: {name: read(tensor) for name, tensor in tree[kind].items()} for kind in ("parameters", "buffers")}
    return types.SimpleNamespace(type=tree["type"], training=tree["training"], **parts)


def _decode_optimizer(tree, read, storages):
    groups = [{name: read(option) for name, option in group.items()} for group in tree["groups"]]
    return {"state": read(tree["state"]), "param_groups": groups}


#: The NumPy scalars that come back as themselves, by the name they are written with.
NUMPY_TYPES = {numpy.dtype(kind).name: numpy.dtype(kind).type for kind in "gG?bhqliBHQLIefdFD"}
NUMPY_TYPES |= {
    kind.__name__: kind for kind in (numpy.str_, numpy.bytes_, numpy.datetime64, numpy.timedelta64, numpy.void)
}


def _decode_device(tree, read, storages):
    if type(tree["name"]) is not str:
        raise EncodingError("a device has a name")
    return torch.device(tree["name"])


_DECODERS = {
    "list": lambda tree, read, storages: [read(item) for item in tree["items"]],
    "module": _decode_module,
    "optimizer": _decode_optimizer,
    "unreadable": lambda tree, read, storages: Opaque("a value that could not be written down"),
    "int": lambda tree, read, storages: int(tree["hex"], 16),
    "tensor": _decode_tensor,
    "sparse": _decode_sparse,
    "opaque tensor": lambda tree, read, storages: Opaque(f"{tree['layout']} tensor on {tree['device']}"),
    "dict": lambda tree, read, storages: {read(key): read(item) for key, item in tree["items"]},
    "tuple": _decode_tuple,
    "set": lambda tree, read, storages: {read(item) for item in tree["items"]},
    "frozenset": lambda tree, read, storages: frozenset(read(item) for item in tree["items"]),
    "bytes": lambda tree, read, storages: _bytes(tree),
    "complex": _decode_complex,
    "slice": lambda tree, read, storages: slice(*map(read, tree["parts"])),
    "range": lambda tree, read, storages: range(*map(read, tree["parts"])),
    "ellipsis": lambda tree, read, storages: Ellipsis,
    "size": _decode_size,
    "dtype": lambda tree, read, storages: DTYPES[tree["name"]],
    "device": _decode_device,
    "array": _decode_array,
    "subclass": _decode_subclass,
    "exception": lambda tree, read, storages: Opaque(str(tree["types"][0])),
    "object": lambda tree, read, storages: Opaque(str(tree["type"])),
}


# --------------------------------------------------------------------------------------------------- plain to bytes


def pack(plain) -> bytes:
    """Plain data as one frame; equal data in equal order gives equal bytes.

    Raises EncodingError for what `unpack` would refuse.
    """
    blobs, length = [], 0

    def lift(value):
        nonlocal length
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) is bytes:
            blobs.append(value)
            length += len(value)
            return {"$b": [length - len(value), len(value)]}
        if type(value) is list:
            return [lift(item) for item in value]
        if type(value) is not dict:
            raise EncodingError(f"a {type_name(value)} is not plain data")
        if "$b" in value or not all(type(key) is str for key in value):
            raise EncodingError("the keys of plain data are strings, and none of them is $b")
        return {key: lift(item) for key, item in value.items()}

    try:
        header = json.dumps(lift(plain), separators=(",", ":")).encode()
    except RecursionError as error:
        raise EncodingError("the data is nested too deeply") from error
    if len(header) > MAX_HEADER or _marks(header) > MAX_MARKS or length > MAX_BODY:
        raise EncodingError("the data is too large for one frame")
    return _FRAME.pack(MAGIC, len(header), length) + header + b"".join(blobs)


def unpack(frame: bytes):
    """The plain data of one frame. Raises EncodingError where it is not exactly one well-formed frame."""
    if len(frame) < _FRAME.size:
        raise EncodingError("the frame is cut short")
    magic, header_length, body_length = _FRAME.unpack_from(frame)
    if magic != MAGIC or header_length > MAX_HEADER or body_length > MAX_BODY:
        raise EncodingError("this is not a frame, or it is too large")
    if len(frame) != _FRAME.size + header_length + body_length:
        raise EncodingError("the frame's length is not what it says")
    header = bytes(frame[_FRAME.size : _FRAME.size + header_length])
    if _marks(header) > MAX_MARKS:
        raise EncodingError("the frame has too many parts")
    try:
        return _lower(json.loads(header.decode("utf-8")), memoryview(frame)[_FRAME.size + header_length :])
    except EncodingError:
        raise
    except RecursionError as error:
        raise EncodingError("the frame is nested too deeply") from error
    except ValueError as error:
        raise EncodingError(f"the frame's header is malformed: {error}") from error


def _marks(header: bytes) -> int:
    """At least the number of values that a header makes: a few bytes of text can become gigabytes of empty lists."""
    return sum(header.count(mark) for mark in (b",", b"[", b"{"))


def _lower(value, body):
    """The plain data of a parsed header, with its references into the body replaced by the bytes; changes `value`."""
    if type(value) is list:
        for position, item in enumerate(value):
            if type(item) in (list, dict):
                value[position] = _lower(item, body)
        return value
    if type(value) is not dict:
        return value
    if "$b" not in value:
        for key, item in value.items():
            if type(item) in (list, dict):
                value[key] = _lower(item, body)
        return value
    place = value["$b"]
    if (
        len(value) != 1
        or type(place) is not list
        or len(place) != 2
        or not all(type(n) is int and n >= 0 for n in place)
    ):
        raise EncodingError("a reference into the frame's body is malformed")
    if place[0] + place[1] > len(body):
        raise EncodingError("a reference reaches beyond the frame's body")
    return bytes(body[place[0] : place[0] + place[1]])
