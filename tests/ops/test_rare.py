"""Operators that programs rarely call: covariances, finite differences, segments, masked reductions, dispatcher's names."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck


def sample(*shape: int, seed: int = 0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).requires_grad_(True)


def test_cov_and_corrcoef_follow_numpy():
    x = sample(3, 7)
    a = x.detach().numpy()
    f, w = np.array([1, 2, 3, 1, 1, 2, 1]), np.random.default_rng(1).random(7)
    assert np.allclose(torch.cov(x).detach().numpy(), np.cov(a))
    assert np.allclose(torch.corrcoef(x).detach().numpy(), np.corrcoef(a))
    both = torch.cov(x, correction=2, fweights=torch.tensor(f), aweights=torch.tensor(w)).detach().numpy()
    assert np.allclose(both, np.cov(a, ddof=2, fweights=f, aweights=w))
    assert torch.cov(x[0]).shape == ()
    assert gradcheck(torch.cov, (x,)) and gradcheck(torch.corrcoef, (x,))
    with pytest.raises(RuntimeError, match="fweights cannot be negative"):
        torch.cov(torch.ones(1, 2), fweights=torch.tensor([1, -1]))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_follows_numpy(order):
    x = sample(5, 6)
    a = x.detach().numpy()
    for mine, theirs in zip(torch.gradient(x, spacing=0.5, edge_order=order), np.gradient(a, 0.5, edge_order=order)):
        assert np.allclose(mine.detach().numpy(), theirs)
    places = np.array([0.0, 1.0, 1.5, 3.0, 3.25, 4.0])
    (mine,) = torch.gradient(x, spacing=[torch.tensor(places)], dim=1, edge_order=order)
    assert np.allclose(mine.detach().numpy(), np.gradient(a, places, axis=1, edge_order=order))
    assert gradcheck(lambda y: torch.gradient(y, edge_order=order), (x,))


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "max", "min"])
def test_segment_reduce(reduce):
    x, lengths = sample(6, 3), torch.tensor([2, 0, 3, 1])
    made = torch.segment_reduce(x, reduce, lengths=lengths, initial=1.0).detach().numpy()
    function = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}.get(reduce)
    parts = np.split(x.detach().numpy(), [2, 2, 5])
    for row, part in zip(made, parts):
        one = np.vstack([np.ones((1, 3)), part])
        expected = (one.sum(0) / max(len(part), 1)) if function is None else function(one, 0)
        assert np.allclose(row, expected)
    offsets = torch.tensor([0, 2, 2, 5, 6])
    assert torch.equal(torch.segment_reduce(x, reduce, offsets=offsets, initial=1.0), torch.tensor(made))
    assert gradcheck(lambda y: torch.segment_reduce(y, reduce, lengths=lengths, initial=1.0), (x,))
    with pytest.raises(RuntimeError, match="Expected all rows of lengths"):
        torch.segment_reduce(x, reduce, lengths=lengths + 1)


def test_masked_reductions():
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    m = torch.masked
    assert m.sum(x, 1, mask=mask).tolist() == [4, 0] and m.prod(x, 1, mask=mask).tolist() == [3, 1]
    assert m.mean(x, 1, mask=mask)[0] == 2 and m.mean(x, 1, mask=mask)[1].isnan()
    assert m.amax(x, 1, mask=mask).tolist() == [3, float("-inf")] and m.argmax(x, 1, mask=mask).tolist() == [2, 0]
    assert m.var(x, 1, mask=mask)[0] == 2 and m.cumsum(x, 1, mask=mask).tolist() == [[1, 1, 4], [0, 0, 0]]
    assert m.softmax(x, 1, mask=mask)[0, 1] == 0 and m.median(x, 1, mask=mask)[0] == 1
    assert m.norm(x, 2.0, mask=mask).item() == pytest.approx(10**0.5)


def test_group_norm_statistics_are_differentiable():
    x, weight, bias = sample(2, 4, 3), sample(4, seed=1), sample(4, seed=2)
    assert gradcheck(lambda *a: torch.native_group_norm(*a, 2, 4, 3, 2, 1e-5), (x, weight, bias))


def test_incomplete_gamma():
    x = torch.tensor([0.1, 1.0, 5.0, 40.0], dtype=torch.float64, requires_grad=True)
    assert torch.allclose(torch.igamma(torch.ones(4).double(), x), 1 - (-x).exp())
    assert torch.allclose(torch.igammac(torch.full((4,), 2.0).double(), x), (1 + x) * (-x).exp())
    assert torch.igamma(torch.tensor([0.0, -1.0]), torch.tensor([0.0, 1.0])).isnan().all()
    assert gradcheck(lambda y: torch.igamma(torch.full((4,), 3.0).double(), y), (x,))
    with pytest.raises(NotImplementedError, match="derivative for 'igamma: input'"):
        torch.igamma(x, x).sum().backward()


def test_dispatcher_names():
    aten = torch.ops.aten
    x = torch.tensor([[1.0, 2.0], [float("-inf")] * 2])
    assert str(aten.add.Tensor) == "aten.add.Tensor" and torch.equal(aten.add.Tensor(x[0], x[0]), x[0] * 2)
    assert aten._safe_softmax.default(x, 1)[1].tolist() == [0, 0]
    assert aten.native_dropout_backward(torch.ones(2), torch.tensor([True, False]), 2.0).tolist() == [2, 0]
    places = [torch.tensor([0, 9]), torch.tensor([1, 9])]
    assert torch._unsafe_masked_index(x, torch.tensor([True, False]), places, 7.0).tolist() == [2, 7]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        aten.nothing
    with pytest.raises(AttributeError, match="no overload name 'nothing'"):
        aten.add.nothing
    assert torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    assert torch._chunk_cat([torch.ones(2), torch.ones(3)], 0, 2).tolist() == [[1, 1, 1], [1, 1, 0]]


def test_hash_and_fake_quantize():
    assert torch.hash_tensor(torch.tensor([[1, 2], [3, 4]]), dim=1).tolist() == [3, 7]
    x = torch.tensor([-9.0, 0.25, 9.0], requires_grad=True)
    out = torch.fake_quantize_per_tensor_affine(x, 0.1, 2, 0, 50)
    assert torch.allclose(out, torch.tensor([-0.2, 0.2, 4.8]))
    out.sum().backward()
    assert x.grad.tolist() == [0, 1, 0]
