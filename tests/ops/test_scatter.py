"""gather, scatter and the reducing scatters, masks and positions."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck


def leaf(*shape: int, seed: int = 0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).requires_grad_(True)


INDEX = torch.tensor([[0, 0, 1], [1, 2, 2]])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter_add_follow_numpy(dim):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 6, 7)).astype("f4")
    i = rng.integers(0, x.shape[dim], (5, 6, 7))
    t, ti = torch.from_numpy(x), torch.from_numpy(i)
    assert np.array_equal(t.gather(dim, ti).numpy(), np.take_along_axis(x, i, dim))
    expected = np.zeros_like(x)
    grid = list(np.indices(x.shape))
    grid[dim] = i
    np.add.at(expected, tuple(grid), x)
    assert np.allclose(torch.zeros(5, 6, 7).scatter_add(dim, ti, t).numpy(), expected, atol=1e-6)


def test_large_scatters_are_the_same_on_every_run():
    rng = np.random.default_rng(2)
    x, i = rng.standard_normal((512, 512)).astype("f4"), rng.integers(0, 512, (512, 512))
    for dim in (0, 1):
        first = torch.zeros(512, 512).scatter_add(dim, torch.from_numpy(i), torch.from_numpy(x)).numpy()
        grid = [np.indices(x.shape)[0], np.indices(x.shape)[1]]
        grid[dim] = i
        expected = np.zeros_like(x)
        np.add.at(expected, tuple(grid), x)
        assert np.array_equal(first, expected)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce, include_self):
    assert gradcheck(
        lambda x, y: x.scatter_reduce(1, INDEX, y, reduce, include_self=include_self), (leaf(3, 4), leaf(2, 3, seed=1))
    )


def test_gradients():
    assert gradcheck(lambda x: x.gather(1, INDEX), leaf(3, 4)) and gradgradcheck(lambda x: x.gather(1, INDEX) ** 2, leaf(3, 4))
    unique = torch.tensor([[0, 1], [2, 3]])
    assert gradcheck(lambda x, y: x.scatter(1, unique, y), (leaf(3, 4), leaf(3, 4, seed=1)))
    assert gradcheck(lambda x, y: (x * 1).scatter_add_(1, INDEX, y), (leaf(3, 4), leaf(2, 3, seed=1)))
    assert gradcheck(lambda x, y: x.select_scatter(y, 0, 1), (leaf(3, 4), leaf(4, seed=1)))
    assert gradcheck(lambda x, y: x.slice_scatter(y, 1, 0, 4, 2), (leaf(3, 4), leaf(3, 2, seed=1)))
    assert gradcheck(lambda x, y: x.diagonal_scatter(y), (leaf(3, 4), leaf(3, seed=1)))
    mask = torch.tensor([True, False, True, False])
    assert gradcheck(lambda x, y: x.masked_fill(mask, y), (leaf(3, 4), leaf(1, seed=1)[0].detach().requires_grad_(True)))
    assert gradcheck(lambda x: x.masked_select(mask), leaf(3, 4))
    assert gradcheck(lambda x, y: x.masked_scatter(mask, y), (leaf(3, 4), leaf(4, 4, seed=1)))


def test_scalar_and_reduce_arguments():
    x = torch.ones(2, 3)
    i = torch.tensor([[1, 1, 0]])
    assert x.scatter(0, i, 5.0).tolist() == [[1, 1, 5], [5, 5, 1]]
    assert x.scatter(0, i, 5.0, reduce="add").tolist() == [[1, 1, 6], [6, 6, 1]]
    assert x.scatter(0, i, 5.0, reduce="multiply").tolist() == [[1, 1, 5], [5, 5, 1]]
    with pytest.raises(RuntimeError, match="reduce argument must be either add or multiply"):
        x.scatter(0, i, 5.0, reduce="foo")


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x, i: x.gather(0, i), "index 7 is out of bounds for dimension 0 with size 2"),
        (lambda x, i: x.gather(0, -i), "index -7 is out of bounds"),
        (lambda x, i: x.scatter_(0, i, 1.0), "index 7 is out of bounds"),
        (lambda x, i: x.gather(0, i[0]), "Index tensor must have the same number of dimensions as input tensor"),
        (lambda x, i: x.scatter_add(0, i, x.double()), r"scatter\(\): Expected self.dtype to be equal to src.dtype"),
    ],
)
def test_errors(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(torch.zeros(2, 3), torch.tensor([[7]]))


def test_nonzero():
    rng = np.random.default_rng(3)
    for shape in [(7,), (3, 5), (40, 50, 60), (0, 3)]:
        x = rng.integers(0, 2, shape).astype("f4")
        t = torch.from_numpy(x)
        assert np.array_equal(torch.nonzero(t).numpy(), np.argwhere(x))
        assert all(np.array_equal(a.numpy(), b) for a, b in zip(t.nonzero(as_tuple=True), np.nonzero(x)))
    assert torch.nonzero(torch.tensor([float("nan"), -0.0])).tolist() == [[0]]
    assert torch.nonzero(torch.tensor(3.0)).shape == (1, 0)


def test_masked_fill_refuses():
    x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        x.masked_fill(torch.tensor([1, 0, 1]), 1.0)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(x > 0, 1j)
    assert torch.zeros(2, dtype=torch.int32).masked_fill(torch.tensor([True, False]), 1.5).tolist() == [1, 0]


def test_as_strided_scatter_keeps_the_order_in_memory_and_gives_gradients_to_what_it_shows():
    x = torch.arange(18.0).reshape(3, 6)[:, ::2]
    made = torch.as_strided_scatter(x, torch.full((2,), -1.0), (2,), (3,), 1)
    assert made.stride() == (6, 2) and made.tolist() == [[0, 2, -1], [6, 8, 10], [12, 14, 16]]
    assert x.tolist() == [[0, 2, 4], [6, 8, 10], [12, 14, 16]] and not made._is_view()
    x, src = leaf(3, 3), leaf(2, 2, seed=1)
    made = torch.as_strided_scatter(x, src, (2, 2), (1, 2), 1)
    mine, theirs = torch.autograd.grad((made * torch.arange(9.0).reshape(3, 3)).sum(), (x, src))
    assert mine.tolist() == [[0, 1, 2], [3, 4, 0], [0, 0, 0]]  # PyTorch's: of the elements shown, not of the others
    assert theirs.tolist() == [[1, 3], [2, 4]]
    assert gradcheck(lambda src: torch.as_strided_scatter(x.detach(), src, (2, 2), (1, 2), 1) ** 2, (src,))
    assert gradgradcheck(lambda src: torch.as_strided_scatter(x.detach(), src, (2, 2), (1, 2), 1) ** 2, (src,))
    for shape in ((3,), (1,)):
        with pytest.raises(RuntimeError, match=r"expected src to have a size equal to the slice of self. src size"):
            torch.as_strided_scatter(x, torch.ones(shape), (2, 2), (1, 2))
    with pytest.raises(RuntimeError, match="as_strided_scatter is currently only supported for contiguous inputs"):
        torch.as_strided_scatter(x.detach().t().requires_grad_(), src, (2, 2), (1, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_16_bits_are_rounded_once_at_one_place(dtype):
    large = 2048.0 if dtype is torch.float16 else 256.0  # to which a one is too little to add
    start, ones = torch.full((1, 1), large, dtype=dtype), torch.ones(2, 1, dtype=dtype)
    twice = torch.zeros(2, 1, dtype=torch.int64)
    for made in (
        start.scatter_add(0, twice, ones),
        start.clone().scatter_add_(0, twice, ones),
        start.scatter_reduce(0, twice, ones, "sum"),
        start.scatter(0, twice, ones, reduce="add"),
        start.index_add(0, twice[:, 0], ones),
        start[0].scatter_add(0, twice[:, 0], ones[:, 0]),
    ):
        assert made.item() == large + 2
    assert start[0].index_add(0, twice[:, 0], ones[:, 0]).item() == large  # as in PyTorch
    thirds = torch.full((2, 1), 1 / 3, dtype=dtype)
    assert torch.ones(1, 1, dtype=dtype).scatter_reduce(0, twice, thirds, "prod").equal(thirds[:1].double().square().to(dtype))
    leaf = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    leaf.gather(0, torch.zeros(3, 1, dtype=torch.int64)).backward(torch.tensor([[large], [1], [1]], dtype=dtype))
    assert leaf.grad.item() == large + 2


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_products_have_the_bits_of_mul(dtype):
    a, b = torch.randn(2, 500, dtype=dtype)
    place = torch.arange(500)
    for made in (a.scatter_reduce(0, place, b, "prod"), a.clone().scatter_reduce_(0, place, b, "prod")):
        assert made.equal(a * b)
