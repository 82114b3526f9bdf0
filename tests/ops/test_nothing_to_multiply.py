"""Operands of several dtypes where there is nothing to compute, weights without dimensions, diagonals of what overlaps."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.mark.parametrize(
    ("dtype", "weight", "made"),
    [
        ("float32", "float64", "float32"),
        ("float64", "float32", "float64"),
        ("int64", "float32", "float32"),
        ("float32", "int64", "float32"),
        ("float32", "complex64", "complex64"),
    ],
)
def test_convolutions_of_empty_batches(dtype, weight, made):
    a, b, c = (getattr(torch, name) for name in (dtype, weight, made))
    for n in (1, 2, 3):
        x, w = torch.zeros(0, 2, *[5] * n, dtype=a), torch.zeros(3, 2, *[2] * n, dtype=b)
        for _ in range(2):
            result = getattr(F, f"conv{n}d")(x, w)
            assert result.shape == (0, 3, *[4] * n) and result.dtype is c
        assert getattr(F, f"conv_transpose{n}d")(x, w.transpose(0, 1)).dtype is c


def test_convolutions_of_no_channels_promote():
    assert F.conv2d(torch.zeros(2, 0, 5, 5), torch.zeros(3, 0, 2, 2, dtype=torch.float64)).dtype is torch.float64
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.conv2d(torch.zeros(1, 2, 5, 5), torch.zeros(3, 2, 2, 2, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="bias type"):
        F.conv2d(torch.zeros(0, 2, 5, 5), torch.zeros(3, 2, 2, 2), torch.zeros(3, dtype=torch.float64))


def test_batches_of_matrices_without_products():
    for made in (
        torch.bmm(torch.zeros(0, 2, 3), torch.zeros(0, 3, 2).double()),
        torch.einsum("bij,bjk->bik", torch.zeros(0, 2, 3), torch.zeros(0, 3, 2).double()),
        torch.einsum("ij,jk->ik", torch.zeros(2, 0), torch.zeros(0, 2).double()),
        torch.einsum("i,i->", torch.zeros(0), torch.zeros(0).double()),
    ):
        assert made.dtype is torch.float64 and not made.any()
    with pytest.raises(RuntimeError, match="expected scalar type"):
        torch.bmm(torch.zeros(1, 2, 3), torch.zeros(1, 3, 2).double())


def test_grids_of_empty_batches():
    x, grid = torch.zeros(0, 2, 3, 3), torch.zeros(0, 4, 4, 2)
    assert F.grid_sample(x, grid.double(), align_corners=False).dtype is torch.float32
    assert F.grid_sample(x.long(), grid, align_corners=False).dtype is torch.int64
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.grid_sample(torch.zeros(1, 2, 3, 3), torch.zeros(1, 4, 4, 2).double(), align_corners=False)


@pytest.mark.parametrize(
    ("shape", "size", "made"),
    [((1, 1), (1, 3), [[2.0]]), ((1, 1), (3, 3), [[2.0]]), ((2, 1), (2, 5), [[2.0], [2.0]]), ((1, 3), (2, 3), [[2.0, 2.0, 0.0]])],
)
def test_a_diagonal_of_what_overlaps(shape, size, made):
    x = torch.zeros(shape)
    x.expand(size).fill_diagonal_(2.0)
    assert x.tolist() == made


def test_a_weight_without_dimensions_has_any_dtype():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    made = torch.lerp(a, b, torch.tensor(1j))
    assert made.dtype is torch.complex64 and made.tolist() == [1 + 2j, 2 + 3j]
    assert torch.lerp(a, b, torch.tensor(0.5, dtype=torch.float64)).dtype is torch.float32
    assert torch.lerp(a.double(), b.double(), torch.tensor(0.5)).tolist() == [2.0, 3.5]
    assert torch.lerp(a[0], b[0], torch.tensor(0.5, dtype=torch.float64)).dtype is torch.float64
    assert torch.lerp(a, b, 1 + 0j).dtype is torch.float32
    with pytest.raises(RuntimeError, match="result type ComplexFloat can't be cast to the desired output type Float"):
        a.lerp_(b, torch.tensor(1j))
    with pytest.raises(RuntimeError, match="expected dtype float for `weight` but got dtype double"):
        torch.lerp(a, b, torch.tensor([0.5, 0.5], dtype=torch.float64))
