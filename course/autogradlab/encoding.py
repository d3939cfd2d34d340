"""Values as plain data, and plain data as bytes: nothing live in between, nothing pickled.

`encode` turns a value into a tree of None, bool, int, float, str, bytes, lists and tagged dicts, with the memory of its
tensors as raw bytes beside it; `decode` gives an equal value back. `pack` and `unpack` carry plain data as one frame:

    4 bytes magic | u32 length of the header | u64 length of the body | header (JSON) | body (raw bytes)

The decoder trusts nothing: every size, count, depth and bound is checked before anything is allocated.
"""

import collections
import ctypes
import json
import struct

import numpy
import torch

MAX_DEPTH = 64
MAX_BYTES = 1 << 26
MAX_HEADER = 1 << 24
MAX_NODES = 1 << 20
MAX_DIMENSIONS = 32
MAGIC = b"AGL1"
_FRAME = struct.Struct("<4sIQ")
_ALIGNMENT = 16
DTYPES = {str(value)[6:]: value for value in vars(torch).values() if isinstance(value, torch.dtype)}


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
        self._nodes = 0

    def encode(self, value, depth=0):
        """The plain tree of `value`; `finish` must be called before the tree is used."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise EncodingError(f"a value of type {type_name(value)} is nested too deeply or has too many parts")
        if value is None or type(value) in (bool, float, str):
            return value
        if type(value) is int:
            return value if -(1 << 63) <= value < 1 << 63 else {"$": "int", "hex": hex(value)}
        if isinstance(value, torch.Tensor):
            return self.tensor(value, depth)
        if type(value) is list:
            return self.container(value, [self.encode(item, depth + 1) for item in value])
        known = _ENCODERS.get(type(value))
        if known is not None:
            return known(self, value, depth)
        return self.other(value, depth)

    def container(self, value, tree):
        """The tree of a container, for subclasses to annotate."""
        return tree

    def tensor(self, tensor, depth):
        """The tree of a tensor: how to read it from its storage."""
        tree = {"$": "tensor", "class": type_name(tensor), "dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape)}
        tree |= {"device": tensor.device.type, "requires_grad": tensor.requires_grad}
        if tensor.layout is torch.sparse_coo:
            plain = tensor.detach().coalesce()
            return tree | {
                "$": "sparse",
                "parts": [self.encode(t, depth + 1) for t in (plain.indices(), plain.values())],
            }
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            return tree | {"$": "opaque tensor", "layout": str(tensor.layout)[6:]}
        base, key = _readable(tensor)
        size = base.element_size()
        low = base.storage_offset() * size
        last = sum((n - 1) * stride for n, stride in zip(base.shape, base.stride()))
        high = low + (last + 1) * size if base.numel() else low
        memory = self._memories.setdefault(key, {"base": base, "low": low, "high": high, "trees": []})
        if base.numel():
            if memory["low"] == memory["high"]:
                memory["low"], memory["high"] = low, high
            memory["low"], memory["high"] = min(memory["low"], low), max(memory["high"], high)
        if memory["high"] - memory["low"] > MAX_BYTES:
            raise EncodingError(f"a tensor of shape {tuple(tensor.shape)} spans more than {MAX_BYTES >> 20} MiB")
        tree |= {"stride": list(base.stride()), "offset": low, "conj": base.is_conj(), "neg": base.is_neg()}
        memory["trees"].append(tree)
        return tree

    def other(self, value, depth):
        """The tree of a value that is known by its type alone."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            items = [self.encode(item, depth + 1) for item in value]
            return self.container(
                value, {"$": "tuple", "name": type_name(value), "fields": list(value._fields), "items": items}
            )
        if isinstance(value, BaseException):
            names = [cls.__name__ for cls in type(value).__mro__ if issubclass(cls, BaseException)]
            return {"$": "exception", "types": names, "message": str(value)[:2000]}
        if isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return {"$": "subclass", "type": type_name(value), "value": self.encode(value.item(), depth + 1)}
        for base in (bool, int, float, str, tuple, list, dict, set):
            if isinstance(value, base):
                plain = dict(value) if base is dict else base(value)
                return self.container(
                    value, {"$": "subclass", "type": type_name(value), "value": self.encode(plain, depth + 1)}
                )
        return {"$": "object", "type": type_name(value)}

    def finish(self) -> list:
        """The storages, as bytes; offsets in the trees become offsets into them."""
        storages = []
        for memory in self._memories.values():
            low = memory["low"] - memory["low"] % _ALIGNMENT
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
    with torch.no_grad():
        base = tensor.detach()
    key = memory_key(tensor)
    if tensor.device.type != "cpu" or type(base) is not torch.Tensor or base.untyped_storage().nbytes() == 0:
        base = base.cpu()
        base = base.clone() if type(base) is torch.Tensor else torch.tensor(base.tolist(), dtype=tensor.dtype)
        return base, ("copy", key, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
    return base, key


def memory_key(tensor):
    """What two tensors have in common exactly if they share a storage."""
    host = getattr(tensor, "_host", tensor)
    return tensor.device.type, host.untyped_storage()._cdata


def _memory_bytes(base, low, high) -> bytes:
    if high <= low:
        return b""
    return ctypes.string_at(base.untyped_storage().data_ptr() + low, high - low)


def _encode_dict(encoder, value, depth):
    items = [[encoder.encode(key, depth + 1), encoder.encode(item, depth + 1)] for key, item in value.items()]
    return encoder.container(value, {"$": "dict", "items": items})


def _encode_set(encoder, value, depth):
    items = sorted((encoder.encode(item, depth + 1) for item in value), key=repr)
    return encoder.container(value, {"$": type_name(value), "items": items})


def _encode_tuple(encoder, value, depth):
    return encoder.container(value, {"$": "tuple", "items": [encoder.encode(item, depth + 1) for item in value]})


def _encode_array(encoder, value, depth):
    if value.dtype.hasobject:
        return {
            "$": "array",
            "dtype": "object",
            "shape": list(value.shape),
            "items": [encoder.encode(v, depth + 1) for v in value.ravel().tolist()],
        }
    if value.nbytes > MAX_BYTES:
        raise EncodingError(f"an array of shape {value.shape} takes more than {MAX_BYTES >> 20} MiB")
    return {"$": "array", "dtype": value.dtype.str, "shape": list(value.shape), "data": value.tobytes()}


def _encode_parts(name, *attributes):
    def encode_parts(encoder, value, depth):
        return {"$": name, "parts": [encoder.encode(getattr(value, a), depth + 1) for a in attributes]}

    return encode_parts


_ENCODERS = {
    dict: _encode_dict,
    tuple: _encode_tuple,
    set: _encode_set,
    frozenset: _encode_set,
    bytes: lambda encoder, value, depth: {"$": "bytes", "data": value},
    complex: _encode_parts("complex", "real", "imag"),
    slice: _encode_parts("slice", "start", "stop", "step"),
    range: _encode_parts("range", "start", "stop", "step"),
    type(Ellipsis): lambda encoder, value, depth: {"$": "ellipsis"},
    torch.Size: lambda encoder, value, depth: {"$": "size", "parts": list(value)},
    torch.dtype: lambda encoder, value, depth: {"$": "dtype", "name": str(value)[6:]},
    torch.device: lambda encoder, value, depth: {"$": "device", "name": str(value)},
    numpy.ndarray: _encode_array,
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
    """The memory of a decoded value: bytes on the outside, one torch storage for each on demand."""

    def __init__(self, blobs):
        if type(blobs) is not list or not all(type(blob) is bytes for blob in blobs):
            raise EncodingError("the storages are not a list of bytes")
        self._blobs = blobs
        self._made = {}

    def __getitem__(self, index):
        if type(index) is not int or not 0 <= index < len(self._blobs):
            raise EncodingError(f"there is no storage {index!r}")
        if index not in self._made:
            blob = self._blobs[index]
            made = (
                torch.frombuffer(bytearray(blob), dtype=torch.uint8).untyped_storage()
                if blob
                else torch.UntypedStorage(0)
            )
            self._made[index] = made
        return self._made[index]

    def raw(self, index) -> bytes:
        """The bytes of one storage."""
        return self._blobs[index]


def decode_tensor(tree: dict, storages: Storages) -> torch.Tensor:
    """The tensor of one tree, on the CPU, without history and not tracked."""
    dtype = DTYPES.get(tree.get("dtype"))
    shape, stride, offset = tree.get("shape"), tree.get("stride"), tree.get("offset")
    for sizes in (shape, stride):
        if (
            type(sizes) is not list
            or len(sizes) > MAX_DIMENSIONS
            or not all(type(n) is int and 0 <= n < 1 << 62 for n in sizes)
        ):
            raise EncodingError("a tensor's shape or stride is not a list of sizes")
    if dtype is None or len(shape) != len(stride) or type(offset) is not int or offset < 0 or offset % dtype.itemsize:
        raise EncodingError("a tensor's dtype, stride or offset is malformed")
    storage = storages[tree.get("storage")]
    last = sum((n - 1) * step for n, step in zip(shape, stride))
    if _count(shape) and offset + (last + 1) * dtype.itemsize > storage.nbytes():
        raise EncodingError("a tensor reaches beyond its storage")
    if _count(shape) > 1 << 62:
        raise EncodingError("a tensor has too many elements")
    tensor = torch.empty(0, dtype=dtype, device="cpu")
    if _count(shape):
        tensor.set_(storage, offset // dtype.itemsize, shape, stride)
    else:
        tensor = torch.empty_strided(shape, stride, dtype=dtype, device="cpu")
    if tree.get("conj"):
        tensor = tensor.conj()
    return torch._neg_view(tensor) if tree.get("neg") else tensor


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
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        if isinstance(error, EncodingError):
            raise
        raise EncodingError(f"the data of a {tree['$']} is malformed: {error}") from error


def _decode_tensor(tree, read, storages):
    tensor = decode_tensor(tree, storages)
    if tree.get("class") == "Parameter":
        return torch.nn.Parameter(tensor, requires_grad=bool(tree.get("requires_grad")))
    return tensor.requires_grad_() if tree.get("requires_grad") else tensor


def _decode_sparse(tree, read, storages):
    indices, values = map(read, tree["parts"])
    return torch.sparse_coo_tensor(indices, values, tree["shape"], check_invariants=True).coalesce()


def _decode_tuple(tree, read, storages):
    items = [read(item) for item in tree["items"]]
    if "fields" in tree:
        return collections.namedtuple(tree["name"], tree["fields"])(*items)
    return tuple(items)


def _decode_array(tree, read, storages):
    if tree["dtype"] == "object":
        array = numpy.empty(len(tree["items"]), dtype=object)
        array[:] = [read(item) for item in tree["items"]]
        return array.reshape(tree["shape"])
    dtype = numpy.dtype(tree["dtype"])
    if dtype.hasobject:
        raise EncodingError("an array of objects has no raw bytes")
    return numpy.frombuffer(bytearray(tree["data"]), dtype=dtype).reshape(tree["shape"])


def _decode_subclass(tree, read, storages):
    value = read(tree["value"])
    numpy_type = getattr(numpy, tree["type"], None) if isinstance(tree["type"], str) else None
    if (
        isinstance(numpy_type, type)
        and issubclass(numpy_type, numpy.generic)
        and isinstance(value, (bool, int, float, complex, str))
    ):
        return numpy_type(value)
    return value


_DECODERS = {
    "int": lambda tree, read, storages: int(tree["hex"], 16),
    "tensor": _decode_tensor,
    "sparse": _decode_sparse,
    "opaque tensor": lambda tree, read, storages: Opaque(f"{tree['layout']} tensor on {tree['device']}"),
    "dict": lambda tree, read, storages: {read(key): read(item) for key, item in tree["items"]},
    "tuple": _decode_tuple,
    "set": lambda tree, read, storages: {read(item) for item in tree["items"]},
    "frozenset": lambda tree, read, storages: frozenset(read(item) for item in tree["items"]),
    "bytes": lambda tree, read, storages: bytes(tree["data"]),
    "complex": lambda tree, read, storages: complex(*map(read, tree["parts"])),
    "slice": lambda tree, read, storages: slice(*map(read, tree["parts"])),
    "range": lambda tree, read, storages: range(*map(read, tree["parts"])),
    "ellipsis": lambda tree, read, storages: Ellipsis,
    "size": lambda tree, read, storages: torch.Size(tree["parts"]),
    "dtype": lambda tree, read, storages: DTYPES[tree["name"]],
    "device": lambda tree, read, storages: torch.device(tree["name"]),
    "array": _decode_array,
    "subclass": _decode_subclass,
    "exception": lambda tree, read, storages: Opaque(str(tree["types"][0])),
    "object": lambda tree, read, storages: Opaque(str(tree["type"])),
}


# --------------------------------------------------------------------------------------------------- plain to bytes


def pack(plain) -> bytes:
    """Plain data as one frame; equal data gives equal bytes."""
    blobs, length = [], 0

    def lift(value):
        nonlocal length
        if type(value) in (bytes, bytearray):
            blobs.append(bytes(value))
            length += len(value)
            return {"$b": [length - len(value), len(value)]}
        if type(value) is list:
            return [lift(item) for item in value]
        if type(value) is dict:
            return {key: lift(value[key]) for key in sorted(value)}
        if value is None or type(value) in (bool, int, float, str):
            return value
        raise EncodingError(f"a {type_name(value)} is not plain data")

    header = json.dumps(lift(plain), sort_keys=True, separators=(",", ":")).encode()
    return _FRAME.pack(MAGIC, len(header), length) + header + b"".join(blobs)


def unpack(frame: bytes, max_header: int = MAX_HEADER, max_body: int = 4 * MAX_BYTES):
    """The plain data of one frame. Raises EncodingError where it is not exactly one well-formed frame."""
    if len(frame) < _FRAME.size:
        raise EncodingError("the frame is cut short")
    magic, header_length, body_length = _FRAME.unpack_from(frame)
    if magic != MAGIC or header_length > max_header or body_length > max_body:
        raise EncodingError("this is not a frame, or it is too large")
    if len(frame) != _FRAME.size + header_length + body_length:
        raise EncodingError("the frame's length is not what it says")
    body = memoryview(frame)[_FRAME.size + header_length :]
    try:
        header = json.loads(bytes(frame[_FRAME.size : _FRAME.size + header_length]).decode("utf-8"))
        return _lower(header, body)
    except RecursionError as error:
        raise EncodingError("the frame is nested too deeply") from error
    except ValueError as error:
        raise EncodingError(f"the frame's header is malformed: {error}") from error


def _lower(value, body):
    if type(value) is list:
        return [_lower(item, body) for item in value]
    if type(value) is dict:
        if "$b" in value:
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
        return {key: _lower(item, body) for key, item in value.items()}
    return value
