"""cat, stack, repeat, flip, roll, triangles, diagonals, padding and blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.ops.views.fold import fold, unfold
from flambeau.ops.views.pad import pad


def leaf(*shape: int, seed: int = 0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).requires_grad_(True)


def test_cat_and_stack_follow_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 4, 5))
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    for d in (-3, -1, 0, 1, 2):
        assert np.array_equal(torch.cat([ta, tb], d).numpy(), np.concatenate([a, b], d))
    for d in (-1, 0, 1, 3):
        assert np.array_equal(torch.stack([ta, tb], d).numpy(), np.stack([a, b], d))
    assert np.array_equal(
        torch.cat([ta.transpose(0, 2), tb.transpose(0, 2)], 1).numpy(), np.concatenate([a.T.transpose(0, 1, 2), b.T], 1)
    )
    assert torch.cat([ta, ta.int()]).dtype is torch.float64
    assert torch.cat([torch.ones(2), torch.ones(1)] * 150).shape == (450,)
    assert torch.cat([torch.zeros(0), torch.ones(2, 3)]).shape == (2, 3)


@pytest.mark.parametrize(
    "tensors, dim, kind, words",
    [
        ([], 0, ValueError, "expected a non-empty list of Tensors"),
        ([torch.zeros(2, 3), torch.zeros(3)], 0, RuntimeError, "Tensors must have same number of dimensions: got 2 and 1"),
        (
            [torch.zeros(2, 3), torch.zeros(3, 2)],
            0,
            RuntimeError,
            "Expected size 3 but got size 2 for tensor number 1 in the list",
        ),
        ([torch.zeros(2)], 5, IndexError, "Dimension out of range"),
        ([torch.tensor(1.0)], 0, RuntimeError, "zero-dimensional tensor .at position 0. cannot be concatenated"),
    ],
)
def test_cat_refuses(tensors, dim, kind, words):
    with pytest.raises(kind, match=words):
        torch.cat(tensors, dim)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.cat([x, x[:1] * 2]),
        lambda x: torch.stack([x, x * x], 1),
        lambda x: x.flip(0),
        lambda x: x.roll(1, 1),
        lambda x: x.roll(2),
        lambda x: x.repeat(2, 1, 2),
        lambda x: x.tile(2),
        lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 0),
        lambda x: x.repeat_interleave(2, 1),
        lambda x: x.rot90(),
        lambda x: x.tril(),
        lambda x: x.triu(1),
        lambda x: torch.diag_embed(x, 1),
        lambda x: x.diag(),
        lambda x: torch.diagflat(x),
        lambda x: torch.kron(x, x),
        lambda x: torch.block_diag(x, x[0]),
        lambda x: torch.combinations(x[0]),
        lambda x: torch.cartesian_prod(x[0], x[1]),
        lambda x: (x * 1).fill_diagonal_(2.0),
        lambda x: torch.hstack([x, x]),
        lambda x: torch.column_stack([x[0], x[1]]),
    ],
)
def test_gradients(call):
    assert gradcheck(call, leaf(3, 4))


def test_rearrangements_follow_numpy():
    x = np.arange(24.0).reshape(2, 3, 4)
    t = torch.from_numpy(x)
    assert np.array_equal(t.flip(0, 2).numpy(), x[::-1, :, ::-1])
    assert np.array_equal(t.roll((1, -1), (0, 2)).numpy(), np.roll(x, (1, -1), (0, 2)))
    assert np.array_equal(t.repeat(2, 1, 1, 3).numpy(), np.tile(x, (2, 1, 1, 3)))
    assert np.array_equal(t.transpose(0, 2).tril(1).numpy(), np.tril(x.T, 1)) and np.array_equal(
        t.triu(-1).numpy(), np.triu(x, -1)
    )
    assert np.array_equal(t.rot90(1, (1, 2)).numpy(), np.rot90(x, 1, (1, 2)))
    assert torch.block_diag(torch.ones(1, 2), torch.tensor(3.0)).tolist() == [[1, 1, 0], [0, 0, 3]]


@pytest.mark.parametrize(
    "mode, other", [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding(mode, other):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 6))
    found = pad(torch.from_numpy(x), (1, 2, 3, 0), mode)
    assert np.array_equal(found.numpy(), np.pad(x, ((0, 0), (0, 0), (3, 0), (1, 2)), mode=other))
    for pads in ((1, 2, 3, 1), (1, -1, -2, 2)):
        assert gradcheck(lambda t, pads=pads: pad(t, pads, mode), leaf(1, 2, 5, 6))
    assert gradgradcheck(lambda t: pad(t, (1, 1), mode) ** 2, leaf(2, 3))


def test_padding_refuses():
    with pytest.raises(RuntimeError, match="Padding size should be less than the corresponding input dimension"):
        pad(torch.zeros(1, 2, 3), (3, 3), "reflect")
    with pytest.raises(RuntimeError, match="wrapping around more than once"):
        pad(torch.zeros(1, 2, 3), (4, 3), "circular")
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode foo"):
        pad(torch.zeros(1, 2, 3), (1, 1), "foo")


def test_blocks():
    x = leaf(1, 2, 5, 5)
    columns = unfold(x, 2, 1, 1, 2)
    assert columns.shape == (1, 8, 9)
    counts = fold(unfold(torch.ones(1, 1, 4, 4), 3, 1, 1, 1), (4, 4), 3, 1, 1, 1)
    assert counts[0, 0].tolist() == [[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]]
    assert gradcheck(lambda t: unfold(t, (2, 3), 2, 1, (1, 2)), leaf(1, 2, 5, 6)) and gradcheck(
        lambda t: fold(t, (4, 5), 2), leaf(1, 8, 12)
    )
    shuffled = torch.pixel_shuffle(torch.arange(8.0).reshape(1, 4, 1, 2), 2)
    assert shuffled[0, 0].tolist() == [[0, 2, 1, 3], [4, 6, 5, 7]]
    assert gradcheck(lambda t: torch.pixel_unshuffle(t, 2), leaf(1, 1, 4, 6)) and gradcheck(
        lambda t: torch.channel_shuffle(t, 2), leaf(1, 6, 1, 2)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "complex64", "complex128", "bfloat16"])
def test_choices_follow_itertools(dtype):
    x = torch.arange(18).to(getattr(torch, dtype))[::2]
    values = x.tolist()
    for n in (0, 1, 2, 9):
        for r in (1, 2, 3, 9):
            for again, choices in ((False, itertools.combinations), (True, itertools.combinations_with_replacement)):
                if r < 9 or n < 9 or not again:
                    made = torch.combinations(x[:n], r, again)
                    assert made.tolist() == [list(row) for row in choices(values[:n], r)] and made.shape[1] == r
                    assert made.dtype is x.dtype
    wanted = itertools.product(values, values[:2], values[:3])
    assert torch.cartesian_prod(x, x[:2], x[:3]).tolist() == [list(row) for row in wanted]
    assert torch.cartesian_prod(x, x[:0]).shape == (0, 2) and torch.cartesian_prod(x) is x
    many = torch.combinations(torch.arange(300), 2)  # by several threads
    assert many.t().equal(torch.triu_indices(300, 300, 1))


def test_gradients_of_choices():
    x, y = leaf(4), leaf(3)
    for function in (lambda t: torch.combinations(t, 3, True) ** 2, lambda t: torch.combinations(t, 1) ** 2):
        assert gradcheck(function, x) and gradgradcheck(function, x)
    assert gradcheck(lambda a, b: torch.cartesian_prod(a, b, a) ** 2, (x, y))
    assert gradgradcheck(lambda a, b: torch.cartesian_prod(a, b, a) ** 2, (x, y))
    torch.cartesian_prod(y.detach(), x).sum().backward()
    assert x.grad.tolist() == [3.0] * 4
    rows = torch.arange(6.0).reshape(2, 3)
    made = torch.func.vmap(lambda t: torch.combinations(t))(rows)
    assert made.tolist() == [torch.combinations(t).tolist() for t in rows]


def test_triangles_in_place():
    for shape in ((4, 5), (5, 4), (2, 3, 4, 4), (0, 3)):
        for turn in (False, True):
            for diagonal in (-1, 0, 2):
                for lower in (True, False):
                    x = torch.arange(1.0, 1 + np.prod(shape)).reshape(shape)
                    x = x.mT if turn else x
                    wanted = (np.tril if lower else np.triu)(x.numpy(), diagonal)
                    assert (x.tril_(diagonal) if lower else x.triu_(diagonal=diagonal)) is x and x._version == 1
                    assert np.array_equal(x.numpy(), wanted)
    x = leaf(3, 3)
    assert gradcheck(lambda t: (t * 1).tril_() ** 2 + (t * 1).triu_(1), x)
    with pytest.raises(RuntimeError, match="leaf"):
        x.tril_()
