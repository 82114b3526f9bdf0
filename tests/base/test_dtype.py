"""dtypes: the promotion lattice, limits, pickling; devices, sizes and layouts."""

import copy
import gc
import pickle

import pytest

from flambeau.base import device as devices
from flambeau.base import dtype as dtypes
from flambeau.base import layout as layouts
from flambeau.base.dtype import DIMENSIONED, NUMBER, ZERO_DIM, by_name, promote_types, result_dtype

# Row and column names are the first row; the entries are what PyTorch promotes to, by abbreviation.
PROMOTED = """
b8 u8 i8 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128
u8 u8 i16 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128
i8 i16 i8 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128
i16 i16 i16 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128
i32 i32 i32 i32 i32 i64 f16 bf16 f32 f64 c32 c64 c128
i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64 c32 c64 c128
f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c32 c64 c128
bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64 c64 c128
f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c64 c128
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 c128
c32 c32 c32 c32 c32 c32 c32 c64 c64 c128 c32 c64 c128
c64 c64 c64 c64 c64 c64 c64 c64 c64 c128 c64 c64 c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""


def test_promotion_table():
    table = [row.split() for row in PROMOTED.strip().splitlines()]
    by_abbreviation = {dtype.abbr: dtype for dtype in dtypes.all_dtypes().values()}
    order = [by_abbreviation[name] for name in table[0]]
    assert [[promote_types(a, b).abbr for b in order] for a in order] == table


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ([("int64", DIMENSIONED), ("float32", NUMBER)], "float32"),
        ([("float16", DIMENSIONED), ("float64", ZERO_DIM)], "float16"),
        ([("uint8", DIMENSIONED), ("int64", NUMBER)], "uint8"),
        ([("bool", DIMENSIONED), ("int64", NUMBER)], "int64"),
        ([("int32", ZERO_DIM), ("int64", NUMBER)], "int32"),
        ([("float16", DIMENSIONED), ("complex64", NUMBER)], "complex32"),
        ([("float32", DIMENSIONED), ("complex128", ZERO_DIM)], "complex64"),
        ([("int64", DIMENSIONED), ("float16", ZERO_DIM)], "float16"),
    ],
)
def test_ranks(operands, expected):
    assert result_dtype([(by_name(name), rank) for name, rank in operands]).name == expected


def test_unsupported_promotion():
    with pytest.raises(RuntimeError, match=r"attempted to promote UInt16 and Char$"):
        promote_types(dtypes.uint16, dtypes.int8)
    assert promote_types(dtypes.uint16, dtypes.float16) is dtypes.float16


def test_dtype_objects():
    assert repr(dtypes.float32) == "torch.float32"
    assert copy.deepcopy(dtypes.float32) is dtypes.float32
    with pytest.raises(TypeError, match=r"cannot create 'torch\.dtype' instances"):
        dtypes.dtype()
    assert dtypes.bfloat16.to_complex() is dtypes.complex64
    assert dtypes.complex128.to_real() is dtypes.float64
    assert by_name("half") is dtypes.float16


def test_limits():
    assert repr(dtypes.finfo(dtypes.bfloat16)) == (
        "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, "
        "tiny=1.17549e-38, dtype=bfloat16)"
    )
    assert (dtypes.iinfo(dtypes.uint8).min, dtypes.iinfo(dtypes.int64).max) == (0, 2**63 - 1)
    assert dtypes.finfo(dtypes.complex64).bits == 32
    with pytest.raises(TypeError, match="requires a floating point input type"):
        dtypes.finfo(dtypes.int8)
    with pytest.raises(TypeError, match="requires an integer input type"):
        dtypes.iinfo(dtypes.bits8)


def test_limits_of_quantized_types_are_those_of_their_integers():
    limits = dtypes.iinfo(dtypes.qint8)
    assert (limits.min, limits.max, limits.bits) == (-128, 127, 8) and limits != dtypes.iinfo(dtypes.int8)
    assert (dtypes.iinfo(dtypes.quint4x2).max, dtypes.iinfo(dtypes.qint32).min) == (255, -(2**31))
    with pytest.raises(NotImplementedError, match="\"dtype\" not implemented for 'QInt8'"):
        repr(limits)


def test_default_dtype():
    before = dtypes.get_default_dtype()
    try:
        dtypes.set_default_dtype(dtypes.float64)
        assert dtypes.number_dtype(1.5) is dtypes.float64
        assert dtypes.number_dtype(1j) is dtypes.complex128
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            dtypes.set_default_dtype(dtypes.int32)
    finally:
        dtypes.set_default_dtype(before)


def test_devices():
    device = devices.device
    assert device("cuda:1") is device("cuda", 1)
    assert device("cpu") != device("cpu:0")
    assert repr(device("cuda:1")) == "device(type='cuda', index=1)"
    assert pickle.loads(pickle.dumps(device("meta"))) is device("meta")
    for text, words in (("cpu:-1", "Invalid device string: 'cpu:-1'"), ("", "Device string must not be empty")):
        with pytest.raises(RuntimeError) as caught:
            device(text)
        assert str(caught.value) == words
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        raise devices.no_accelerator("cuda")


def test_sizes():
    size = layouts.Size([1, 2, 3])
    assert repr(size[1:] + (4,)) == "torch.Size([2, 3, 4])"
    assert repr((0,) + size) == "torch.Size([0, 1, 2, 3])"
    assert size.numel() == 6
    assert size == (1, 2, 3)
    assert pickle.loads(pickle.dumps(size)) == size
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 0 is 'float'\)"):
        layouts.Size([1.5])


def test_layouts_are_interned():
    layout = layouts.Layout.contiguous((2, 3), dtypes.float32, devices.cpu)
    assert layouts.Layout.of((2, 3), (3, 1), dtypes.float32, devices.cpu) is layout
    assert layout.with_dtype(dtypes.float64).with_dtype(dtypes.float32) is layout
    assert (layout.numel, layout.nbytes, layout.is_contiguous) == (6, 24, True)


def test_table_of_layouts_is_bounded():
    kept = layouts.Layout.contiguous((12345, 2), dtypes.float32, devices.cpu)
    for size in range(3 * layouts._LEAST_LIMIT):
        layouts.Layout.contiguous((size, 7), dtypes.float32, devices.cpu)
    gc.collect()
    assert len(layouts._table) <= 2 * layouts._LEAST_LIMIT
    assert layouts.Layout.contiguous((12345, 2), dtypes.float32, devices.cpu) is kept
