"""embedding, embedding_bag and one_hot."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.ops.embedding import embedding, embedding_bag, one_hot


def table(rows: int = 5, size: int = 3):
    return torch.from_numpy(np.random.default_rng(0).standard_normal((rows, size))).requires_grad_(True)


def test_embedding_reads_rows_and_sums_gradients():
    w, i = table(), torch.tensor([[1, 2, 1], [4, 4, 4]])
    y = embedding(i, w)
    assert (
        np.array_equal(y.detach().numpy(), w.detach().numpy()[i.numpy()]) and y.grad_fn.name() == "EmbeddingBackward0"
    )
    y.sum().backward()
    assert w.grad[:, 0].tolist() == [0, 2, 1, 0, 3]
    assert gradcheck(lambda t: embedding(i, t), table()) and gradgradcheck(lambda t: embedding(i, t) ** 2, table())


def test_padding_frequency_and_norm():
    w = table()
    embedding(torch.tensor([1, 2]), w, padding_idx=-3).sum().backward()
    assert w.grad[:, 0].tolist() == [0, 1, 0, 0, 0]
    w = table()
    embedding(torch.tensor([1, 1, 2]), w, scale_grad_by_freq=True).sum().backward()
    assert w.grad[:, 0].tolist() == [0, 1, 1, 0, 0]
    w = table().detach() * 100
    embedding(torch.tensor([0, 2]), w, max_norm=1.0)
    lengths = np.linalg.norm(w.numpy(), axis=1)
    assert lengths[0] == pytest.approx(1, abs=1e-6) and lengths[1] > 1


def test_errors():
    with pytest.raises(IndexError, match="index out of range in self"):
        embedding(torch.tensor([5]), table())
    with pytest.raises(IndexError, match="index out of range in self"):
        embedding(torch.tensor([-1]), table())
    with pytest.raises(NotImplementedError, match="sparse gradients are not supported"):
        embedding(torch.tensor([1]), table(), sparse=True).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    w, i, offsets = table(), torch.tensor([0, 1, 1, 2, 4]), torch.tensor([0, 2, 2])
    found = embedding_bag(i, w, offsets, mode=mode).detach().numpy()
    rows = w.detach().numpy()[i.numpy()]
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    assert np.allclose(found, [reduce(rows[:2], 0), np.zeros(3), reduce(rows[2:], 0)])
    assert gradcheck(lambda t: embedding_bag(i, t, offsets, mode=mode), table())
    assert np.allclose(
        embedding_bag(i[:4].reshape(2, 2), w, mode=mode).detach().numpy(), [reduce(rows[:2], 0), reduce(rows[2:4], 0)]
    )


def test_one_hot():
    assert one_hot(torch.tensor([[1], [0]])).tolist() == [[[0, 1]], [[1, 0]]]
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        one_hot(torch.tensor([3]), 2)
    with pytest.raises(RuntimeError, match="Class values must be non-negative"):
        one_hot(torch.tensor([-1, 1]), 3)
