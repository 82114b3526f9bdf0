"""Gradients that are one kernel, against numerical ones and those written in operators; gradients of gradients."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F


def leaf(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cosine_similarity_and_distance(dim):
    pair = leaf(3, 5, 4), leaf(3, 5, 4, seed=1)
    x, y = (t.detach().numpy() for t in pair)
    made = F.cosine_similarity(*pair, dim)
    wanted = (x * y).sum(dim) / np.sqrt((x * x).sum(dim) * (y * y).sum(dim))
    np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=1e-12)
    assert made.grad_fn.name() == "SumBackward1"
    for function in (lambda a, b: F.cosine_similarity(a, b, dim), lambda a, b: F.pairwise_distance(a, b, keepdim=dim == 0)):
        assert gradcheck(function, pair)
        assert gradgradcheck(function, pair)
    np.testing.assert_allclose(F.pairwise_distance(*pair).detach().numpy(), np.sqrt(((x - y + 1e-6) ** 2).sum(-1)), rtol=1e-12)


def test_comparisons_broadcast_and_may_compare_a_tensor_with_itself():
    matrix, row = leaf(4, 3), leaf(3, seed=1)
    for function in (F.cosine_similarity, F.pairwise_distance):
        assert gradcheck(lambda a, b, function=function: function(a, b[None]), (matrix, row))
    F.cosine_similarity(matrix, matrix).sum().backward()
    assert matrix.grad.abs().max() < 1e-12


def test_vectors_of_no_length():
    x, y = torch.zeros(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    F.cosine_similarity(x, y).sum().backward()
    assert torch.allclose(x.grad, torch.full((2, 3), 1 / (1e-8 * 3**0.5))) and not y.grad.any()
    x, y = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3)
    F.pairwise_distance(x, y, eps=0.0).sum().backward()
    assert not x.grad.any()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("shape", "pad"),
    [
        ((2, 3, 7), (2, 3)),
        ((3, 7), (1, 0)),
        ((2, 3, 5, 6), (1, 2, 2, 1)),
        ((2, 3, 5, 6), (-1, 2, 2, -1)),
        ((1, 2, 4, 5, 6), (1, 2, 3, 1, 2, 1)),
    ],
)
def test_padding_with_own_elements(mode, shape, pad):
    x = leaf(*shape)
    assert gradcheck(lambda t: F.pad(t, pad, mode=mode), x)
    assert gradgradcheck(lambda t: F.pad(t, pad, mode=mode) ** 2, x)
    upstream = torch.ones_like(F.pad(x, pad, mode=mode))
    places = F.pad(torch.arange(x.numel()).reshape(shape).double(), pad, mode=mode).long().reshape(-1)
    wanted = torch.zeros(x.numel(), dtype=torch.float64).index_add(0, places, upstream.reshape(-1)).reshape(shape)
    assert torch.autograd.grad(F.pad(x, pad, mode=mode), x, upstream)[0].equal(wanted)


def test_gates():
    for x, dim in ((leaf(6, 4), 0), (leaf(6, 4), -1), (leaf(4, 6).t(), 0), (leaf(3, 4, 2), 1)):
        assert gradcheck(lambda t, dim=dim: F.glu(t, dim), x)
        assert gradgradcheck(lambda t, dim=dim: F.glu(t, dim), x)
