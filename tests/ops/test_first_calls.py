"""What a first call costs is the kernels that it needs: operators that are one formula are one kernel, and copies state their
vectors, which compiles in a third of the time."""

import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch

PROGRAM = """
import flambeau as torch
from flambeau.codegen import jit
F = torch.nn.functional
x, y = torch.rand(8, 16), torch.rand(8, 16)
sign = torch.ones(8)
x * 3.25
def needed(call):
    before = jit.loaded()
    call()
    return jit.loaded() - before
def backward(call):
    leaf = x.clone().requires_grad_()
    out = call(leaf)
    weights = torch.ones_like(out)
    return needed(lambda: torch.autograd.grad(out, leaf, weights))
print(needed(lambda: torch.special.laguerre_polynomial_l(x, 5)),
      needed(lambda: torch.hann_window(9)),
      needed(lambda: F.gaussian_nll_loss(x, y, y + 1, reduction="none")),
      needed(lambda: F.poisson_nll_loss(x, y, reduction="none")),
      needed(lambda: torch.quantile(x, 0.3, 1)),
      backward(lambda x: x.std(1)),
      backward(lambda x: x.logsumexp(1)))
"""


def test_kernels_of_a_first_call():
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    polynomial, window, gaussian, poisson, quantile, deviation, logsumexp = map(int, made.split())
    assert (polynomial, window, poisson, logsumexp) == (1, 1, 1, 1)
    assert gaussian <= 5  # y + 1, two for the refusal of negative variances, two of its own
    assert quantile <= 7  # a fill, a sort, a gather and four of its own
    assert deviation <= 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("size", [1, 3, 8, 31, 33, 64, 100, 300])
def test_copies_of_rows_of_every_length(dtype, size):
    values = (np.arange(3 * size) % 251).reshape(3, size).astype(dtype)
    x = torch.from_numpy(values)
    np.testing.assert_array_equal(x.roll((1, size // 2), (0, 1)).numpy(), np.roll(values, (1, size // 2), (0, 1)))
    np.testing.assert_array_equal(x.flip(1).numpy(), values[:, ::-1])
    np.testing.assert_array_equal(x.flip((0, 1)).numpy(), values[::-1, ::-1])
    np.testing.assert_array_equal(x.index_select(0, torch.tensor([2, 0, 2])).numpy(), values[[2, 0, 2]])
    np.testing.assert_array_equal(torch.nn.functional.pad(x, (2, 1)).numpy(), np.pad(values, ((0, 0), (2, 1))))
    filled = x.clone().index_fill_(0, torch.tensor([1]), 7)
    np.testing.assert_array_equal(filled.numpy(), np.concatenate([values[:1], np.full((1, size), 7, dtype), values[2:]]))
