"""Values come back from plain data as they were, and data that nobody wrote is refused."""

import collections
import enum
import json
import math
import struct
import tracemalloc

import numpy
import pytest
import torch
from autogradlab import encoding
from autogradlab.encoding import (
    DTYPES,
    MAGIC,
    MAX_BODY,
    MAX_HEADER,
    RAW,
    EncodingError,
    Opaque,
    Storages,
    decode,
    decode_tensor,
    encode,
    pack,
    unpack,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

RAW_DTYPES = sorted({dtype for name, dtype in DTYPES.items() if RAW.fullmatch(name)}, key=str)
Point = collections.namedtuple("Point", ["x", "y"])


def frame_of(header, body=b"", magic=MAGIC, header_length=None, body_length=None) -> bytes:
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    lengths = len(header) if header_length is None else header_length, len(body) if body_length is None else body_length
    return struct.pack("<4sIQ", magic, *lengths) + header + body


def there_and_back(value):
    """The value after a trip through plain data and through bytes; both ways have to agree."""
    plain = encode(value)
    frame = pack(plain)
    assert pack(unpack(frame)) == frame
    return decode(unpack(frame))


def same(a, b) -> bool:
    """Equality in every respect that plain data keeps; NaN equals NaN, -0.0 is not 0.0, 1 is not True."""
    if isinstance(a, torch.Tensor):
        return same_tensors(a, b)
    if isinstance(a, numpy.ndarray):
        if type(b) is not numpy.ndarray or (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        if a.dtype == object:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return isinstance(a, tuple) and hasattr(a, "_fields") and a._fields == b._fields and same(tuple(a), tuple(b))
    if isinstance(a, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, numpy.generic):
        return a.tobytes() == b.tobytes() or bool(a != a and b != b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(same, a, b)) and all(map(same, a.values(), b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def same_tensors(a, b) -> bool:
    if not isinstance(b, torch.Tensor) or (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        return False
    if (a.is_conj(), a.is_neg(), a.requires_grad) != (b.is_conj(), b.is_neg(), b.requires_grad):
        return False
    return bits(a) == bits(b)


def bits(tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.complex32:  # which torch copies only under protest
        plain = torch.view_as_real(plain)
    plain = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


@st.composite
def tensors(draw, dtypes=tuple(RAW_DTYPES), dimensions=3):
    """Tensors of any dtype, contiguous, strided, expanded, transposed, conjugated, negated, tracked or not."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.lists(st.integers(0, 4), max_size=dimensions))
    count = math.prod(shape)
    data = bytearray(draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize)))
    if dtype is torch.bool:
        data = bytearray(byte & 1 for byte in data)
    whole = torch.frombuffer(data, dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
    tensor = whole.view(dtype).reshape(shape)
    if draw(st.booleans()) and tensor.dim():
        tensor = tensor.transpose(0, -1)
    if draw(st.booleans()) and tensor.dim() and tensor.shape[0] > 1:
        tensor = tensor[1::2]
    if draw(st.booleans()) and tensor.dim() < dimensions:
        tensor = tensor.expand(draw(st.integers(0, 3)), *tensor.shape)
    if dtype in (torch.complex64, torch.complex128):
        tensor = draw(st.sampled_from([tensor, tensor.conj(), tensor.conj().imag, tensor.real]))
    if tensor.dtype in (torch.float32, torch.float64, torch.complex64) and tensor.is_leaf and draw(st.booleans()):
        tensor = tensor.detach().requires_grad_()
    return tensor


floats = st.floats(allow_nan=True, allow_infinity=True)
texts = st.text(st.characters(codec=None), max_size=20)
scalars = (
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | floats | texts | st.binary(max_size=20)
) | st.complex_numbers(allow_nan=True, allow_infinity=True)
numpy_scalars = numpy_strategies.scalar_dtypes().flatmap(
    lambda dtype: numpy_strategies.arrays(dtype, ()).map(lambda array: array[()])
)
numpy_arrays = numpy_strategies.arrays(
    numpy_strategies.scalar_dtypes(), numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
)
others = st.sampled_from(
    [
        ...,
        torch.Size([2, 3]),
        torch.Size([]),
        torch.bfloat16,
        torch.float4_e2m1fn_x2 if hasattr(torch, "float4_e2m1fn_x2") else torch.int8,
        torch.device("cpu"),
        torch.device("cuda:1"),
        slice(None, 3, -1),
        range(2, 20, 3),
        Point(1, 2.0),
        2**63,
        -(2**63) - 1,
        2**64,
        "\ud800",
        "\0",
        'a"b\\c',
        -0.0,
    ]
)
leaves = scalars | others | numpy_scalars | numpy_arrays | tensors()
numbers = st.integers() | st.floats(allow_nan=False)
hashables = st.none() | st.booleans() | numbers | texts | st.tuples(texts, st.integers())
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | st.frozensets(hashables, max_size=4)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(tensors())
def test_a_tensor_comes_back_with_its_bits_strides_and_flags(tensor):
    assert same(tensor, there_and_back(tensor))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_any_nest_of_values_comes_back(value):
    assert same(value, there_and_back(value))


@pytest.mark.parametrize("dtype", RAW_DTYPES, ids=str)
def test_every_dtype_comes_back_zero_dimensional_empty_and_expanded(dtype):
    whole = torch.arange(dtype.itemsize, dtype=torch.uint8).view(dtype)
    if dtype is torch.bool:
        whole = torch.tensor([True])
    for tensor in (whole, whole[0], whole[:0], whole[:0].reshape(0, 3), whole.expand(4, 1), whole.expand(0, 1)):
        assert same(tensor, there_and_back(tensor))


def test_every_float_dtype_keeps_nan_infinity_and_the_sign_of_zero():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0], dtype=dtype)
        assert same(tensor, there_and_back(tensor))


def test_every_raw_dtype_of_torch_is_covered():
    assert {torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32, torch.uint64, torch.bool} <= set(RAW_DTYPES)
    assert not {torch.quint8, torch.bits8} & set(RAW_DTYPES)


def test_views_come_back_as_views_of_one_memory():
    base = torch.arange(12.0).reshape(3, 4)
    row, column, whole, other = there_and_back([base[1], base[:, 2], base, base.clone()])
    whole[1, 2] = -1.0
    assert row[2] == column[1] == -1.0
    assert other[1, 2] == 6.0
    assert column.stride() == (4,)


def test_views_with_another_dtype_share_their_memory_too():
    base = torch.arange(4, dtype=torch.int32)
    numbers, raw = there_and_back((base[1:], base.view(torch.uint8)))
    raw.zero_()
    assert numbers.tolist() == [0, 0, 0]


def test_the_same_tensor_twice_is_written_once():
    tensor = torch.zeros(1000)
    assert len(pack(encode([tensor, tensor, tensor[1:]]))) < 4000 + 1000


def test_an_empty_tensor_beyond_its_memory_reads_nothing():
    for dtype in RAW_DTYPES:
        empty = torch.empty(0, dtype=torch.uint8).view(dtype).as_strided((0,), (1,), 1)
        assert encode(empty)["storages"] == [b""]
        assert there_and_back(empty).shape == (0,)


def test_a_view_carries_only_the_part_of_the_memory_that_it_shows():
    part = torch.zeros(1_000_000)[500_000:500_003]
    assert len(pack(encode(part))) < 500
    assert same(part, there_and_back(part))


def test_a_tensor_expanded_to_ten_trillion_elements_costs_bytes():
    bomb = torch.ones(1).expand(10**13)
    plain = encode(bomb)
    assert len(pack(plain)) < 500
    assert decode(plain).shape == (10**13,)
    with pytest.raises(EncodingError, match="too many elements"):
        decode_tensor(plain["tree"], Storages(plain["storages"], 1 << 20))


def test_what_spans_too_much_memory_is_refused():
    with pytest.raises(EncodingError, match="spans more than 64 MiB"):
        encode(torch.zeros(1).expand(1, 1).as_strided((1,), (1,)).new_empty(17_000_000))
    with pytest.raises(EncodingError, match="take more than 64 MiB"):
        encode([torch.empty(9_000_000), torch.empty(9_000_000)])
    with pytest.raises(EncodingError, match="take more than 64 MiB"):
        encode(["x" * 9_000_000, "y" * 9_000_000])
    with pytest.raises(EncodingError, match="take more than 64 MiB"):
        encode(numpy.zeros(9_000_000))


def test_a_parameter_comes_back_as_a_parameter():
    parameter = there_and_back(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert type(parameter) is torch.nn.Parameter
    assert not parameter.requires_grad


def test_a_tracked_result_comes_back_as_a_tracked_leaf():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    back = there_and_back(w * 2)
    assert back.requires_grad and back.is_leaf and back.tolist() == [2.0, 4.0]


def test_a_sparse_tensor_comes_back():
    dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    back = there_and_back(dense.to_sparse())
    assert back.layout is torch.sparse_coo
    assert torch.equal(back.to_dense(), dense)


class Colour(enum.IntEnum):
    RED = 3


class Word(str):
    pass


class Sized(list):
    def __iter__(self):
        while True:
            yield 0


def test_a_subclass_comes_back_as_what_it_holds():
    assert there_and_back([Colour.RED, Word("a"), collections.Counter("aab"), Sized([1, 2])]) == [
        3,
        "a",
        {"a": 2, "b": 1},
        [1, 2],
    ]
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    assert list(there_and_back(ordered)) == ["b", "a"]


def test_a_numpy_scalar_is_not_a_python_number():
    assert encode(numpy.float64(1.5))["tree"] != encode(1.5)["tree"]
    back = there_and_back([numpy.float64(1.5), numpy.bool_(True), numpy.int32(7), numpy.str_("a"), numpy.bytes_(b"b")])
    assert [type(value) for value in back] == [numpy.float64, numpy.bool_, numpy.int32, numpy.str_, numpy.bytes_]


def test_an_array_of_objects_comes_back():
    array = numpy.empty((2, 1), dtype=object)
    array[0, 0], array[1, 0] = [1, 2], [3, 4]
    back = there_and_back(array)
    assert back.shape == (2, 1) and back[0, 0] == [1, 2] and back[1, 0] == [3, 4]


@pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:Sparse CSR")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Linear(1, 1),
        lambda: len,
        object,
        lambda: (number for number in ()),
        lambda: torch.empty(2, device="meta"),
        lambda: torch.eye(2).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
    ids=["module", "function", "object", "generator", "meta", "csr", "nested"],
)
def test_what_is_no_data_comes_back_as_the_name_of_its_type(make):
    assert isinstance(there_and_back(make()), Opaque)


def test_a_tensor_whose_memory_was_released_is_not_read():
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    assert isinstance(there_and_back(tensor), Opaque)


def test_a_subclass_of_tensor_is_read_as_a_tensor():
    class Labelled(torch.Tensor):
        pass

    tensor = torch.arange(3.0).as_subclass(Labelled)
    assert encode(tensor)["tree"]["class"] == "Labelled"
    assert there_and_back([tensor, tensor[1:]])[1].tolist() == [1.0, 2.0]


def test_a_list_that_holds_itself_is_refused():
    cycle = []
    cycle.append(cycle)
    with pytest.raises(EncodingError, match="nested too deeply"):
        encode(cycle)


def test_a_long_list_of_numbers_is_written_and_a_longer_one_refused():
    assert there_and_back([0.5] * 100_000 + [1]) == [0.5] * 100_000 + [1]
    with pytest.raises(EncodingError, match="too many parts"):
        encode([0.5] * 300_000)


def test_a_list_of_doubled_lists_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(encoding, "MAX_NODES", 10_000)
    doubled = []
    for _ in range(50):
        doubled = [doubled, doubled]
    with pytest.raises(EncodingError, match="too many parts"):
        encode(doubled)


# ------------------------------------------------------------------------------------------------- plain data


plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.binary(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(texts.filter(lambda key: key != "$b"), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=200)
@given(plain_data)
def test_plain_data_comes_back_from_a_frame(plain):
    frame = pack(plain)
    assert unpack(frame) == plain
    assert pack(unpack(frame)) == frame


@pytest.mark.parametrize(
    "value", [(1, 2), {1: 2}, {"$b": [0, 0]}, object(), torch.ones(1), {1, 2}], ids=lambda value: type(value).__name__
)
def test_what_is_not_plain_is_not_packed(value):
    with pytest.raises(EncodingError):
        pack([value])


def test_what_could_not_be_unpacked_is_not_packed(monkeypatch):
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(EncodingError, match="nested too deeply"):
        pack(deep)
    for limit, value in (("MAX_MARKS", [[]] * 100), ("MAX_BODY", bytes(200)), ("MAX_HEADER", "x" * 100)):
        with monkeypatch.context() as patch:
            patch.setattr(encoding, limit, 100)
            with pytest.raises(EncodingError, match="too large for one frame"):
                pack(value)


# ------------------------------------------------------------------------------------------------- hostile data


GOOD = pack(
    encode(
        {"a": [torch.arange(6.0).reshape(2, 3).T, numpy.arange(3), numpy.float32(1)], "b": (Point(1, 2), {3, 4}, 1j)}
    )
)


def read(frame):
    """Everything that a reader does with a frame; nothing but EncodingError may come of it."""
    try:
        plain = unpack(frame)
    except EncodingError:
        return None
    try:
        if type(plain) is dict and plain.keys() >= {"tree", "storages"}:
            decode(plain)
    except EncodingError:
        return None
    return plain


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_frame_are_refused(data):
    with pytest.raises(EncodingError):
        unpack(data)


def test_every_frame_that_is_cut_short_or_goes_on_is_refused():
    for length in range(len(GOOD)):
        with pytest.raises(EncodingError):
            unpack(GOOD[:length])
    with pytest.raises(EncodingError):
        unpack(GOOD + b"\0")


@settings(max_examples=600)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_frame_with_changed_bytes_is_read_or_refused(changes):
    frame = bytearray(GOOD)
    for position, byte in changes:
        frame[position] = byte
    read(bytes(frame))


NUMBERS = [0, 1, -1, 3, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**30, 1.5, None, "x", True, [], [0], {}]


def places(tree, path=()):
    """The paths of everything inside a tree."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


TREES = [
    encode(value)
    for value in (
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6).expand(2, 6),
        torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse(),
        numpy.arange(4.0).reshape(2, 2),
        numpy.array([1, None], dtype=object),
        [numpy.float32(1), numpy.bytes_(b"ab"), numpy.datetime64(3, "s"), Colour.RED],
        {1: (2, 3), "x": Point(1, 2)},
        [{1, 2}, frozenset({3}), 1j, slice(1), range(3), torch.Size([2]), torch.float32, torch.device("cpu"), 2**70],
        [torch.nn.Parameter(torch.ones(2)), ValueError("x"), object()],
    )
]


@settings(max_examples=500)
@given(st.data())
def test_a_tree_with_anything_replaced_is_read_or_refused(data):
    plain = json.loads(json.dumps(unpack(pack(data.draw(st.sampled_from(TREES)))), default=bytes.hex))
    path = data.draw(st.sampled_from(list(places(plain["tree"]))[1:] or [()]))
    place = plain["tree"]
    for key in path[:-1]:
        place = place[key]
    if path:
        place[path[-1]] = data.draw(st.sampled_from(NUMBERS) | st.lists(st.sampled_from(NUMBERS), max_size=3))
    plain["storages"] = [bytes.fromhex(storage) for storage in plain["storages"]]
    with_bytes(plain["tree"])
    try:
        decode(plain)
    except EncodingError:
        return


def with_bytes(tree):
    """Puts the bytes of arrays back, where they still are text."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        if key == "data" and type(value) is str and len(value) % 2 == 0:
            tree[key] = bytes.fromhex(value) if all(c in "0123456789abcdef" for c in value) else value
        with_bytes(value)


def tensor_tree(**changes) -> dict:
    tree = {"$": "tensor", "dtype": "float32", "shape": [2], "stride": [1], "offset": 0, "storage": 0}
    return {"tree": tree | changes, "storages": [bytes(16)]}


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [5]},
        {"shape": [2], "stride": [2**61]},
        {"shape": [2**40], "stride": [1]},
        {"shape": [2**31, 2**31, 2**31], "stride": [0, 0, 0]},
        {"shape": [2**62], "stride": [0]},
        {"shape": [-1]},
        {"stride": [-1]},
        {"stride": [1, 1]},
        {"offset": -4},
        {"offset": 2},
        {"offset": 12},
        {"offset": 2**70},
        {"offset": True},
        {"shape": [True]},
        {"shape": [2.0]},
        {"shape": "22"},
        {"shape": [1] * 33, "stride": [1] * 33},
        {"storage": 1},
        {"storage": -1},
        {"storage": None},
        {"dtype": "quint8"},
        {"dtype": "bits8"},
        {"dtype": "float32\n"},
        {"dtype": "Tensor"},
        {"dtype": ["float32"]},
        {"requires_grad": True, "dtype": "int32"},
    ],
    ids=str,
)
def test_a_tensor_that_does_not_fit_its_memory_is_refused(changes):
    with pytest.raises(EncodingError):
        decode(tensor_tree(**changes))


def test_a_tensor_that_fits_is_read():
    assert decode(tensor_tree(shape=[2, 2], stride=[0, 1], offset=8)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def opaque(kind, **rest):
    return {"tree": {"$": kind, **rest}, "storages": [bytes(16)]}


@pytest.mark.parametrize(
    "plain",
    [
        opaque("subclass", type="bytes_", value=10**13),
        opaque("subclass", type="void", value=10**13),
        opaque("subclass", type="str_", value=5),
        opaque("subclass", type="float64", value="x"),
        opaque("subclass", type="int8", value=1000),
        opaque("array", dtype="V1000000000000", shape=[1], data=b""),
        opaque("array", dtype="O", shape=[1], data=b"12345678"),
        opaque("array", dtype="f8,O", shape=[1], data=b"1234567812345678"),
        opaque("array", dtype=[["a", "O"]], shape=[1], data=b"12345678"),
        opaque("array", dtype="<f4", shape=[-1], data=bytes(16)),
        opaque("array", dtype="<f4", shape=[3], data=bytes(16)),
        opaque("array", dtype="object", shape=[10**9], items=[1]),
        opaque("tuple", name="P", fields=[f"f{n}" for n in range(300)], items=list(range(300))),
        opaque("tuple", name="P; import os", fields=["x"], items=[1]),
        opaque("tuple", name="P", fields=["x y"], items=[1]),
        opaque("int", hex="zz"),
        opaque("int", hex=3),
        opaque("set", items=[[1]]),
        opaque("dict", items=[[1]]),
        opaque("dict", items=5),
        opaque("range", parts=[0, 1, 0]),
        opaque("range", parts=[0.5, 1, 1]),
        opaque("size", parts=[2**80]),
        opaque("bytes", data=10**12),
        opaque("array", dtype="<f4", shape=[1], data=10**12),
        opaque("dtype", name="os"),
        opaque("device", name="nowhere"),
        opaque("device", name=0),
        opaque("complex", parts=[1]),
        opaque("os.system"),
        opaque(3),
        {"tree": {"a": 1}, "storages": []},
        {"tree": None, "storages": ["x"]},
        {"tree": None, "storages": {}},
    ],
    ids=lambda plain: str(plain["tree"])[:60],
)
def test_a_value_that_nobody_writes_is_refused(plain):
    with pytest.raises(EncodingError):
        decode(plain)


def test_a_sparse_tensor_of_expanded_parts_allocates_nothing():
    index = {"$": "tensor", "dtype": "int64", "shape": [1, 2**33], "stride": [0, 0], "offset": 0, "storage": 0}
    value = index | {"dtype": "float32", "shape": [2**33], "stride": [0]}
    with pytest.raises(EncodingError):
        decode(opaque("sparse", shape=[4], parts=[index, value]))


@pytest.mark.parametrize(
    "frame",
    [
        frame_of({}, magic=b"XXXX"),
        frame_of({}, header_length=2**32 - 1),
        frame_of({}, header_length=MAX_HEADER + 1),
        frame_of({}, body_length=2**64 - 1),
        frame_of({}, body_length=MAX_BODY + 1),
        frame_of({}, b"x", body_length=0),
        frame_of(b"\xff\xfe"),
        frame_of(b"{"),
        frame_of(b"{}x"),
        frame_of(b""),
        frame_of(b"1" * 100_000),
        frame_of(b"[" * 100_000),
        frame_of(b"[" * 100_000 + b"]" * 100_000),
        frame_of(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        frame_of({"$b": [0, 5]}, b"1234"),
        frame_of({"$b": [5, 0]}, b"1234"),
        frame_of({"$b": [-1, 2]}, b"1234"),
        frame_of({"$b": [0.0, 2]}, b"1234"),
        frame_of({"$b": [True, 2]}, b"1234"),
        frame_of({"$b": [0, 2**64]}, b"1234"),
        frame_of({"$b": [0]}, b"1234"),
        frame_of({"$b": "01"}, b"1234"),
        frame_of({"$b": [0, 2], "a": 1}, b"1234"),
        frame_of(b"[" + b"[]," * ((1 << 20) + 1) + b"[]]"),
    ],
    ids=lambda frame: repr(frame[:60]),
)
def test_a_malformed_frame_is_refused(frame):
    with pytest.raises(EncodingError):
        unpack(frame)


def test_deep_data_is_refused_by_the_reader_of_values():
    tree = None
    for _ in range(200):
        tree = [tree]
    with pytest.raises(EncodingError, match="nested too deeply"):
        decode({"tree": tree, "storages": []})


def test_refusing_a_bomb_takes_no_memory():
    bombs = [
        tensor_tree(shape=[2**40], stride=[1]),
        opaque("subclass", type="bytes_", value=10**13),
        opaque("array", dtype="V1000000000000", shape=[1], data=b""),
    ]
    tracemalloc.start()
    try:
        for bomb in bombs:
            with pytest.raises(EncodingError):
                decode(bomb)
        for frame in (frame_of({}, body_length=2**64 - 1), frame_of({}, header_length=2**32 - 1)):
            with pytest.raises(EncodingError):
                unpack(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_decoding_asks_for_no_device_but_the_cpu():
    with torch.device("meta"):
        back = there_and_back([torch.ones(2, device="cpu"), torch.ones(2, device="cpu").to_sparse()])
    assert back[0].device.type == "cpu"
    assert back[1].device.type == "cpu"
