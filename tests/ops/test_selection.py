"""Medians and k-th values against NumPy: values, positions, gradients; in every dtype and order of memory. Medians' positions are
those of a stable sort; which of equal elements kthvalue names in a short row is in test_ties.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 40, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"])
def test_positions_are_those_of_a_stable_sort(dtype, n):
    kind = getattr(torch, dtype)
    random = np.random.default_rng(n)
    for scale in (2, 60):
        x = torch.tensor(random.normal(size=(4, n)) * scale).abs().to(kind)
        if kind.is_floating_point:
            x[0, n // 2], x[1], x[2, 0] = float("nan"), float("nan"), -0.0
        values = x.double().numpy()
        order = np.argsort(np.where(values == 0, 0, values), axis=1, kind="stable")
        missing = np.isnan(values).sum(1)
        places = {"median": np.where(missing > 0, n - missing, (n - 1) // 2), "nanmedian": np.maximum(n - missing - 1, 0) // 2}
        for given, dim in ((x, 1), (x.t().contiguous(), 0), (x.t().contiguous().t(), 1), (x[:, None].expand(4, 2, n)[:, 1], 1)):
            for name, place in places.items():
                found, at = getattr(torch, name)(given, dim)
                expected = order[range(4), place]
                if name == "nanmedian" and kind.is_floating_point:
                    expected[1] = at[1].item()  # NaNs alone: see test_ties.py
                assert at.tolist() == expected.tolist() and at.is_contiguous()
                np.testing.assert_array_equal(found.double().numpy(), values[range(4), expected])
            for k in (1, (n + 1) // 2, n):
                at = given.kthvalue(k, dim)[1].tolist()
                if n > 256:
                    assert at == order[:, k - 1].tolist()
                np.testing.assert_array_equal(values[range(4), at], values[range(4), order[:, k - 1]])
        row = x[3]
        assert row.median() == row.double().numpy()[order[3, (n - 1) // 2]]
        assert row.median(0, keepdim=True)[0].shape == (1,) and row.kthvalue(1, 0, True)[1].shape == (1,)


def test_equal_and_ordered_rows():
    """What makes a selection slow or endless if it is careless."""
    n = 50000
    for row in (torch.zeros(n), torch.arange(n), torch.arange(n).flip(0), torch.arange(n) % 2, torch.full((n,), float("nan"))):
        values = row.double().numpy()
        place = 0 if np.isnan(values[0]) else (n - 1) // 2
        found, at = row.median(0)
        assert at == np.argsort(values, kind="stable")[place]
        np.testing.assert_array_equal(found.numpy(), values[at.item()])


def test_results_are_no_views_and_have_gradients():
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    found, at = x.median(1)
    assert found._base is None and not at.requires_grad
    found.sum().backward()
    assert x.grad.sum() == 5 and torch.equal(x.grad.nonzero()[:, 1], at)
    assert torch.autograd.gradcheck(lambda y: y.kthvalue(3, 0)[0], (x,))
    assert torch.autograd.gradcheck(lambda y: y.nanmedian(), (x,))


@pytest.mark.parametrize("n", [1, 2, 15, 33, 100, 256, 257])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "int32", "int16", "int8", "uint8"])
def test_modes_are_the_smallest_of_the_most_frequent(dtype, n):
    kind = getattr(torch, dtype)
    random = np.random.default_rng(n)
    for most in (2, 9, 120):
        x = torch.tensor(random.integers(0, most, (5, n))).to(kind)
        if kind.is_floating_point:
            x[0], x[1, n // 2] = float("nan"), float("nan")
        elif kind is not torch.uint8:
            x[0], x[1] = x[0] - 60, torch.iinfo(kind).max
        else:
            x[0] = 255
        for given, dim in ((x, 1), (x.t().contiguous(), 0), (x.t().contiguous().t(), 1)):
            values, places = given.mode(dim)
            for row, value, place in zip(x.double().numpy(), values.double().tolist(), places.tolist()):
                if np.isnan(row).all():
                    assert np.isnan(value) and place == 0
                    continue
                found, counts = np.unique(row[~np.isnan(row)], return_counts=True)
                assert value == found[counts.argmax()] and place == np.flatnonzero(row == value)[-1]
