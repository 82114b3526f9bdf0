"""DLPack capsules and NumPy's arrays: memory is shared, and what can't be is refused in PyTorch's words."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.dlpack import from_dlpack, to_dlpack

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint16,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.complex32,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", [None, (0, 5), (1, 0)])
def test_memory_is_shared(dtype, version):
    x = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype)
    for given in (x, x.t(), x[1:, ::2], x[0, 0], x[:0]):
        for source in (given, to_dlpack(given), given.__dlpack__(max_version=version)):
            made = from_dlpack(source)
            assert made.dtype is dtype and made.shape == given.shape and made.data_ptr() == given.data_ptr()
            assert source is not given or made.stride() == given.stride()
    made = torch.from_dlpack(x)
    made.view(torch.uint8).fill_(0)
    assert not x.view(torch.uint8).any()
    assert torch.from_dlpack(made, copy=True).data_ptr() != made.data_ptr()
    del x
    assert made.shape == (2, 3)


def test_capsules_are_taken_once():
    capsule = to_dlpack(torch.ones(2, dtype=torch.bfloat16))
    torch.from_dlpack(capsule)
    for given in (capsule, 5):
        with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
            torch.from_dlpack(given)
    x = torch.arange(3.0)
    assert torch.asarray(to_dlpack(x)).data_ptr() == x.data_ptr() != torch.asarray(to_dlpack(x), copy=True).data_ptr()
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'"):
        torch.asarray(to_dlpack(x), dtype=torch.float64, copy=False)


def test_what_cannot_be_exported():
    x = torch.ones(2)
    for give, error, words in [
        (lambda: torch.ones(2, requires_grad=True).__dlpack__(), BufferError, "Can't export tensors that require gradient"),
        (lambda: torch.empty(2, device="meta").__dlpack__(), BufferError, "Cannot pack tensors on meta"),
        (lambda: torch.empty(2, device="meta").__dlpack_device__(), ValueError, "Unknown device type meta for Dlpack"),
        (lambda: x.__dlpack__(stream="invalid"), TypeError, "stream must be ``int`` or ``none``"),
        (lambda: x.__dlpack__(stream=1), AssertionError, "stream should be None on cpu"),
        (lambda: x.__dlpack__(dl_device=(2, 0)), BufferError, "CPU only"),
        (lambda: torch.from_dlpack(x, device="meta"), BufferError, "Cannot pack tensors on meta"),
    ]:
        with pytest.raises(error, match=words):
            give()


def test_arrays_are_compared():
    x = torch.tensor([1, 2, 3])
    array = np.array([1, 5, 3])
    for equal in (x == array, array == x):
        assert isinstance(equal, torch.Tensor) and equal.tolist() == [True, False, True]
    assert (x == np.array([[1], [2]])).tolist() == [[True, False, False], [False, True, False]]
    assert (x == np.array(["a", "b", "c"])) is False and (x == [1, 2, 3]) is False
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        x == np.array([1, 5])
