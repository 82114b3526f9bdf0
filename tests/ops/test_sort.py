"""Order, selection, search and distinct values: against NumPy, for every dtype and for rows that take each way
through the kernels."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck


def data(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = np.random.default_rng(len(shape)).standard_normal(shape) * 50
    if dtype == "bool":
        return values > 0
    if dtype[0] != "f":
        return values.astype(np.int64).astype(dtype)
    made = values.astype(dtype)
    flat = made.reshape(-1)
    flat[::7], flat[::5], flat[1::5] = np.nan, 0.0, -0.0
    return made


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "bool"])
@pytest.mark.parametrize("shape", [(5,), (7, 33), (3, 100), (100, 3), (4, 5, 6), (70000,), (2, 70000)])
def test_sort_is_stable_and_puts_nan_last(shape, dtype):
    x = data(shape, dtype)
    for dim in range(len(shape)):
        order = np.argsort(x, dim, kind="stable")
        values, indices = torch.sort(torch.from_numpy(x), dim)
        assert np.array_equal(indices.numpy(), order)
        assert np.array_equal(values.numpy(), np.take_along_axis(x, order, dim), equal_nan=dtype[0] == "f")
    if dtype[0] != "f":
        falling = x.shape[-1] - 1 - np.flip(np.argsort(np.flip(x, -1), -1, kind="stable"), -1)
        assert np.array_equal(torch.argsort(torch.from_numpy(x), descending=True).numpy(), falling)


def test_sort_results_have_names():
    found = torch.tensor([3.0, 1.0, 2.0]).sort(descending=True)
    assert found.values.tolist() == [3, 2, 1] and found.indices.tolist() == [0, 2, 1]
    assert repr(found).startswith("torch.return_types.sort(\nvalues=")


@pytest.mark.parametrize("k", [1, 5, 50, 300, 4999, 5000])
def test_topk(k):
    x = np.random.default_rng(0).standard_normal((6, 5000)).astype("f4")
    values, indices = torch.topk(torch.from_numpy(x), k)
    assert np.array_equal(values.numpy(), -np.sort(-x, 1)[:, :k])
    assert np.array_equal(np.take_along_axis(x, indices.numpy(), 1), values.numpy())
    down = torch.topk(torch.from_numpy(x.T.copy()), k, 0, largest=False).values
    assert np.array_equal(down.numpy(), np.sort(x, 1)[:, :k].T)


def test_topk_sees_improving_data():
    x = np.arange(20000, dtype="f4")
    assert torch.topk(torch.from_numpy(x), 3).indices.tolist() == [19999, 19998, 19997]
    assert torch.topk(torch.tensor([1.0, float("nan"), 3.0]), 2).indices.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        torch.topk(torch.zeros(3), 4)


def test_kthvalue_and_gradients():
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 4))).requires_grad_(True)
    assert np.array_equal(x.kthvalue(2).values.detach().numpy(), np.sort(x.detach().numpy(), 1)[:, 1])
    for call in (
        lambda t: t.sort(0).values,
        lambda t: t.topk(2).values,
        lambda t: t.kthvalue(2, 0, True).values,
        lambda t: t.msort(),
    ):
        assert gradcheck(call, x)
    assert x.sort().values.grad_fn.name() == "SortBackward0" and x.topk(1).values.grad_fn.name() == "TopkBackward0"


def test_search():
    rng = np.random.default_rng(0)
    edges, x = np.sort(rng.standard_normal(100)), rng.standard_normal((30, 7))
    te, tx = torch.from_numpy(edges), torch.from_numpy(x)
    for side in ("left", "right"):
        assert np.array_equal(torch.searchsorted(te, tx, side=side).numpy(), np.searchsorted(edges, x, side))
        assert np.array_equal(torch.bucketize(tx, te, right=side == "right").numpy(), np.searchsorted(edges, x, side))
    assert torch.searchsorted(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[2], [2]]), out_int32=True).dtype is torch.int32
    assert torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 5])).tolist() == [False, True, False]


def test_distinct_values_and_counts():
    x = np.random.default_rng(0).integers(0, 50, (40, 30))
    values, inverse, counts = torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    assert all(np.array_equal(a.numpy().reshape(-1), b.reshape(-1)) for a, b in zip((values, inverse, counts), expected))
    assert torch.unique(torch.tensor([[1, 2], [1, 2], [0, 5]]), dim=0).tolist() == [[0, 5], [1, 2]]
    assert torch.unique_consecutive(torch.tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]
    assert np.array_equal(torch.bincount(torch.from_numpy(x.reshape(-1))).numpy(), np.bincount(x.reshape(-1)))
    y = np.random.default_rng(1).standard_normal(1000)
    assert np.array_equal(torch.histc(torch.from_numpy(y), 10, -1, 1).numpy(), np.histogram(y, 10, (-1, 1))[0])


@pytest.mark.parametrize("n", [1, 2, 7, 60, 96, 97, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8"])
def test_buckets_of_few_and_many_boundaries(dtype, n):
    random, kind = np.random.default_rng(n), getattr(torch, dtype)
    boundaries = torch.tensor(np.sort(random.integers(0, 50, n))).to(kind)
    for count in (1, 31, 64, 1000):
        values = torch.tensor(random.integers(0, 55, count)).to(kind)
        if kind.is_floating_point and count > 31:
            values[3], values[5], values[6] = float("nan"), float("inf"), -float("inf")
        for right in (False, True):
            expected = np.searchsorted(boundaries.numpy(), values.numpy(), side="right" if right else "left")
            for short in (False, True):
                made = torch.bucketize(values, boundaries, right=right, out_int32=short)
                assert made.dtype is (torch.int32 if short else torch.int64)
                np.testing.assert_array_equal(made.numpy(), expected)


def test_bfloat16_is_searched_on_every_processor():
    boundaries = torch.tensor([1.0, 2.0, 3.0, 4.0]).to(torch.bfloat16)
    values = torch.tensor([0.5, 2.0, 3.5, 9.0, float("nan")]).to(torch.bfloat16)
    assert torch.searchsorted(boundaries, values).tolist() == [0, 1, 3, 4, 4]
    assert torch.bucketize(values, boundaries, right=True).tolist() == [0, 2, 3, 4, 4]


def test_stable_may_be_none():
    assert torch.tensor([3, 1, 2]).sort(stable=None)[1].tolist() == [1, 2, 0]
    with pytest.raises(TypeError, match="argsort"):
        torch.argsort(torch.ones(2), stable=None)
