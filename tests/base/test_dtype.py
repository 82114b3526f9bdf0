"""dtypes: the promotion lattice, limits, pickling; devices, sizes and layouts."""

import copy
import gc
import pickle

import pytest

from flambeau.base import device as devices
from flambeau.base import dtype as dtypes
from flambeau.base import layout as layouts
from flambeau.base.dtype import DIMENSIONED, NUMBER, ZERO_DIM, by_name, promote_types, result_dtype

ORDER = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128".split()
# Rows and columns in that order, as PyTorch promotes.
PROMOTED = """
bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
uint8 uint8 int16 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
int8 int16 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
int16 int16 int16 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
int32 int32 int32 int32 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
int64 int64 int64 int64 int64 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
float16 float16 float16 float16 float16 float16 float16 float32 float32 float64 complex32 complex64 complex128
bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 bfloat16 float32 float64 complex64 complex64 complex128
float32 float32 float32 float32 float32 float32 float32 float32 float32 float64 complex64 complex64 complex128
float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 complex128 complex128 complex128
complex32 complex32 complex32 complex32 complex32 complex32 complex32 complex64 complex64 complex128 complex32 complex64 complex128
complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex128 complex64 complex64 complex128
complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128
""".split()  # noqa: E501


def test_promotion_table():
    pairs = [(a, b) for a in ORDER for b in ORDER]
    assert [promote_types(by_name(a), by_name(b)).name for a, b in pairs] == PROMOTED


@pytest.mark.parametrize(("operands", "expected"), [
    ([("int64", DIMENSIONED), ("float32", NUMBER)], "float32"),
    ([("float16", DIMENSIONED), ("float64", ZERO_DIM)], "float16"),
    ([("uint8", DIMENSIONED), ("int64", NUMBER)], "uint8"),
    ([("bool", DIMENSIONED), ("int64", NUMBER)], "int64"),
    ([("int32", ZERO_DIM), ("int64", NUMBER)], "int32"),
    ([("float16", DIMENSIONED), ("complex64", NUMBER)], "complex32"),
    ([("float32", DIMENSIONED), ("complex128", ZERO_DIM)], "complex64"),
    ([("int64", DIMENSIONED), ("float16", ZERO_DIM)], "float16"),
])
def test_ranks(operands, expected):
    assert result_dtype([(by_name(name), rank) for name, rank in operands]).name == expected


def test_unsupported_promotion():
    with pytest.raises(RuntimeError, match="^Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                                           "promote UInt16 and Char$"):
        promote_types(dtypes.uint16, dtypes.int8)
    assert promote_types(dtypes.uint16, dtypes.float16) is dtypes.float16


def test_dtype_objects():
    assert repr(dtypes.float32) == "torch.float32"
    assert copy.deepcopy(dtypes.float32) is dtypes.float32
    with pytest.raises(TypeError, match="cannot create 'torch.dtype' instances"):
        dtypes.dtype()
    assert dtypes.bfloat16.to_complex() is dtypes.complex64
    assert dtypes.complex128.to_real() is dtypes.float64
    assert by_name("half") is dtypes.float16


def test_limits():
    assert repr(dtypes.finfo(dtypes.bfloat16)) == (
        "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, "
        "tiny=1.17549e-38, dtype=bfloat16)")
    assert (dtypes.iinfo(dtypes.uint8).min, dtypes.iinfo(dtypes.int64).max) == (0, 2**63 - 1)
    assert dtypes.finfo(dtypes.complex64).bits == 32
    with pytest.raises(TypeError, match="requires a floating point input type"):
        dtypes.finfo(dtypes.int8)


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
