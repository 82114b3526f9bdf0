"""Elements that a mask chooses, and filling them, against NumPy: sizes beside those of vectors and chunks, dtypes, orders."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

DTYPES = ["float32", "float64", "float16", "int64", "int16", "uint8", "bool", "complex64", "complex128"]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 16384, 40001])
@pytest.mark.parametrize("dtype", DTYPES)
def test_chosen_and_filled(dtype, n):
    random = np.random.default_rng(n)
    values, source = (torch.tensor(random.integers(0, 100, n)).to(getattr(torch, dtype)) for _ in range(2))
    for share in (0.0, 0.3, 1.0):
        mask = torch.tensor(random.random(n) < share)
        x, m, s = values.numpy(), mask.numpy(), source.numpy()
        for got in (values[mask], values.masked_select(mask)):
            np.testing.assert_array_equal(got.numpy(), x[m])
        expected = x.copy()
        expected[m] = s[: m.sum()]
        np.testing.assert_array_equal(values.masked_scatter(mask, source).numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), x)
        written = values.clone()
        assert written.masked_scatter_(mask, source) is written and written._version == 1
        np.testing.assert_array_equal(written.numpy(), expected)


def test_other_orders_of_memory_and_shapes():
    x, m = torch.arange(12.0).view(3, 4), torch.arange(12).view(3, 4) % 3 == 0
    assert x.t()[m.t()].tolist() == x.t().masked_select(m.t()).tolist() == [0.0, 9.0, 6.0, 3.0]
    assert x.masked_select(torch.tensor([True, False, False, True])).tolist() == [0, 3, 4, 7, 8, 11]
    turned = x.clone().t()
    turned.masked_scatter_(m.t(), -torch.arange(4.0) - 1)
    assert turned[m.t()].tolist() == [-1, -2, -3, -4] and turned[~m.t()].tolist() == x.t()[~m.t()].tolist()
    row = x.masked_scatter(torch.tensor([True, False, False, True]), torch.full((6,), 9.0))
    assert row[:, 1:3].tolist() == x[:, 1:3].tolist() and row[:, ::3].eq(9).all() and row._version == 0
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        x.masked_scatter(m, torch.ones(3))
    assert x.masked_scatter(torch.zeros(3, 4, dtype=torch.bool), torch.ones(0)).equal(x)
    a, b = x.double().requires_grad_(), torch.ones(5).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: a.masked_scatter(m, b), (a, b))
    assert torch.autograd.gradcheck(lambda a: a[m] * a.masked_select(m), (x.double().requires_grad_(),))
