"""unique and unique_consecutive along a dimension, repeat_interleave by counts, hashes, windows: against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch

DTYPES = [torch.int64, torch.float32, torch.bool, torch.uint8, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), [((20, 2), 0), ((3, 30), 1), ((4, 2, 6), 2), ((9,), 0), ((4, 5, 2), -2)])
def test_unique_slices(dtype, shape, dim):
    x = np.random.default_rng(0).integers(0, 2, shape)
    t = torch.from_numpy(x).to(dtype)
    values, inverse, counts = torch.unique(t, dim=dim, return_inverse=True, return_counts=True)
    want = np.unique(x, axis=dim, return_inverse=True, return_counts=True)
    assert values.dtype is dtype
    for got, expected in zip((values.to(torch.int64), inverse, counts), want, strict=True):
        assert np.array_equal(got.numpy(), expected.reshape(got.shape))
    assert torch.equal(values.index_select(dim, inverse), t)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_consecutive_slices(dtype):
    rows = [[0, 1], [0, 1], [1, 1], [0, 1], [0, 0], [0, 0], [0, 0]]
    for t, dim in ((torch.tensor(rows).to(dtype), 0), (torch.tensor(rows).to(dtype).t(), 1)):
        values, inverse, counts = torch.unique_consecutive(t, dim=dim, return_inverse=True, return_counts=True)
        assert values.select(dim, 1).tolist() == t.select(dim, 2).tolist() and values.shape[dim] == 4
        assert inverse.tolist() == [0, 0, 1, 2, 3, 3, 3] and counts.tolist() == [2, 1, 1, 3]
        assert torch.equal(values.index_select(dim, inverse), t)


def test_unique_of_nan_and_empty():
    nan = torch.tensor([[1.0, math.nan], [1.0, math.nan], [0.0, -0.0], [-0.0, 0.0]])
    assert torch.unique_consecutive(nan, dim=0, return_counts=True)[1].tolist() == [1, 1, 2]
    for function in (torch.unique, torch.unique_consecutive):
        assert function(torch.empty(0, 3), dim=0).shape == (0, 3)
        with pytest.raises(RuntimeError, match="There are 0 sized dimensions"):
            function(torch.empty(4, 0), dim=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_repeat_interleave_by_counts(dtype):
    for counts in ([1, 2, 0, 3], [0, 0], [], [0, 1, 0], [5], [0, 0, 2]):
        got = torch.repeat_interleave(torch.tensor(counts, dtype=dtype))
        assert got.dtype is dtype and got.tolist() == np.repeat(np.arange(len(counts)), counts).tolist()
    x = torch.arange(6.0).reshape(2, 3)
    got = x.repeat_interleave(torch.tensor([2, 0, 1], dtype=dtype), dim=1)
    assert got.tolist() == [[0.0, 0.0, 2.0], [3.0, 3.0, 5.0]]
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([-1, 2], dtype=dtype))


def test_hash_is_the_exclusive_or_of_the_patterns():
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    bits = x.view(np.uint64)
    t = torch.from_numpy(x)
    assert torch.hash_tensor(t).item() == int(np.bitwise_xor.reduce(bits, axis=None))
    assert torch.hash_tensor(t, dim=(0, 2), keepdim=True).tolist() == np.bitwise_xor.reduce(bits, (0, 2), keepdims=True).tolist()
    half = torch.tensor([1.5, 2.0], dtype=torch.bfloat16)
    assert torch.hash_tensor(half).item() == torch.hash_tensor(half.double()).item()
    assert torch.hash_tensor(torch.tensor([-1, 3, 7])).item() == (2**64 - 1) ^ 3 ^ 7


def test_map2():
    x = torch.arange(6).reshape(2, 3)
    assert x.map2_(torch.ones(3, dtype=torch.int64), torch.tensor([[1], [2]]), lambda a, b, c: a * c + b) is x
    assert x.tolist() == [[1, 2, 3], [7, 9, 11]]


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows(periodic, dtype):
    def numpy_window(function, size, *more):
        return function(size + periodic, *more)[:size] if size > 1 else np.ones(size)

    for name, reference in (("hann", np.hanning), ("hamming", np.hamming), ("blackman", np.blackman), ("bartlett", np.bartlett)):
        for size in (0, 1, 2, 9, 64):
            got = getattr(torch, f"{name}_window")(size, periodic, dtype=dtype)
            assert got.dtype is dtype
            np.testing.assert_allclose(got.numpy(), numpy_window(reference, size), atol=1e-7 if dtype is torch.float32 else 1e-15)
    for size in (1, 2, 33):
        got = torch.kaiser_window(size, periodic, 5.0, dtype=dtype).numpy()
        np.testing.assert_allclose(got, numpy_window(np.kaiser, size, 5.0), atol=1e-7 if dtype is torch.float32 else 1e-14)
    got = torch.signal.windows.gaussian(5, std=2.0, sym=not periodic, dtype=dtype).numpy()
    places = np.arange(5) - (5 if periodic else 4) / 2
    np.testing.assert_allclose(got, np.exp(-((places / 2) ** 2) / 2), rtol=1e-6)
    assert torch.hann_window(4, requires_grad=True).requires_grad


def test_values_found_in_a_tensor_that_requires_grad_say_so():
    x = torch.tensor([1.0, 1.0, 2.0], requires_grad=True)
    assert [type(made.grad_fn).__name__ for made in (torch.unique(x), torch.unique_consecutive(x), torch.unique(x, dim=0))] == [
        "Unique2Backward0", "UniqueConsecutiveBackward0", "UniqueDimBackward0"]  # fmt: skip
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    assert values.requires_grad and not inverse.requires_grad and not counts.requires_grad
    with torch.no_grad():
        assert not torch.unique(x).requires_grad


def test_a_new_tensor_of_another_has_the_dtype_of_the_first():
    with pytest.warns(UserWarning, match="copy construct"):
        assert torch.ones(2).double().new_tensor(torch.tensor([1, 2])).dtype is torch.float64
    assert torch.ones(2).int().type_as(torch.ones(1, device="meta")).device.type == "meta"
