"""embedding, embedding_bag and one_hot."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.ops.nn.embedding import embedding, one_hot
from flambeau.ops.nn.embedding_bag import embedding_bag


def table(rows: int = 5, size: int = 3):
    return torch.from_numpy(np.random.default_rng(0).standard_normal((rows, size))).requires_grad_(True)


def test_embedding_reads_rows_and_sums_gradients():
    w, i = table(), torch.tensor([[1, 2, 1], [4, 4, 4]])
    y = embedding(i, w)
    assert np.array_equal(y.detach().numpy(), w.detach().numpy()[i.numpy()]) and y.grad_fn.name() == "EmbeddingBackward0"
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
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        embedding(torch.tensor([1]), table(), sparse=True, scale_grad_by_freq=True).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_bags_of_wide_rows_and_many_indices(mode, dtype):
    generator = np.random.default_rng(0)
    values, indices = generator.integers(-8, 8, (50, 77)), generator.integers(0, 50, 2000)
    w = torch.tensor(values, dtype=getattr(torch, dtype)).requires_grad_()
    offsets = np.arange(0, 2000, 4)
    offsets[7] = offsets[8]
    found = embedding_bag(torch.tensor(indices), w, torch.tensor(offsets), mode=mode, padding_idx=3)
    found.sum().backward()
    gradient = np.zeros((50, 77))
    for b, (begin, end) in enumerate(zip(offsets, [*offsets[1:], 2000])):
        bag = indices[begin:end][indices[begin:end] != 3]
        if not len(bag):
            assert not found[b].any()
            continue
        rows = values[bag]
        wanted = {"sum": rows.sum(0), "mean": rows.mean(0), "max": rows.max(0)}[mode]
        assert np.allclose(found[b].double().tolist(), wanted, rtol=1e-2 if w.element_size() == 2 else 1e-6)
        if mode == "max":
            gradient[bag[rows.argmax(0)], np.arange(77)] += 1
        else:
            np.add.at(gradient, bag, 1 if mode == "sum" else 1 / len(bag))
    assert np.allclose(w.grad.double().tolist(), gradient, rtol=2e-2 if w.element_size() == 2 else 1e-5)


@pytest.mark.parametrize("padding", [None, 1])
def test_gradients_of_weighted_bags(padding):
    i, offsets = torch.tensor([0, 1, 1, 2, 4]), torch.tensor([0, 2, 2])
    factors = torch.tensor([0.5, -1.0, 2.0, 3.0, 1.0], dtype=torch.float64, requires_grad=True)

    def weighted(table, factors):
        return embedding_bag(i, table, offsets, mode="sum", per_sample_weights=factors, padding_idx=padding)

    assert gradcheck(weighted, (table(), factors)) and gradgradcheck(weighted, (table(), factors))
    assert gradgradcheck(lambda t: embedding_bag(i, t, offsets, mode="mean", padding_idx=padding) ** 2, table())
    w = table()
    embedding_bag(i, w, offsets, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert w.grad[:, 0].tolist() == [1, 1, 1, 0, 1]


def test_what_bags_refuse():
    w, i = torch.ones(5, 4), torch.tensor([0, 1, 2, 3, 4])
    assert embedding_bag(i, w, torch.tensor([0, 2, 4]), mode="sum", include_last_offset=True)[:, 0].tolist() == [2, 2]
    assert embedding_bag(i.int(), w, torch.tensor([0, 2]), mode="sum")[:, 0].tolist() == [2, 3]
    for offsets in ([0, 9, 3], [0, -1, 3]):
        with pytest.raises(IndexError, match="index out of range in self"):
            embedding_bag(i, w, torch.tensor(offsets))
    for bad in (5, -2):
        with pytest.raises(RuntimeError, match=f"Index 1 of input takes value {bad} which is not in the valid range"):
            embedding_bag(torch.tensor([0, bad]), w, torch.tensor([0]))
        with pytest.raises(RuntimeError, match=f"but found idx to be {bad}"):
            embedding_bag(torch.tensor([0, bad]), w, torch.tensor([0]), mode="max")
    with pytest.raises(RuntimeError, match="'weight' to have one of the following scalar types: Half, BFloat16, Float, Double"):
        embedding_bag(i, w.long(), torch.tensor([0]))
    with pytest.raises(RuntimeError, match="FloatTensor does not equal torch"):
        embedding_bag(i, w, torch.tensor([0]), mode="sum", per_sample_weights=torch.ones(5).double())


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


def test_bags_with_all_that_their_gradient_needs() -> None:
    """torch.embedding_bag and what its operators give, as recorded from PyTorch."""
    table = torch.arange(12.0).reshape(4, 3)
    indices, offsets = torch.tensor([0, 1, 1, 3]), torch.tensor([0, 2, 2])

    def parts(*settings, table=table, bag=torch.embedding_bag):
        return [part.tolist() for part in bag(table, indices, offsets, False, *settings)[1:]]

    assert torch.embedding_bag(table, indices, offsets)[0].tolist() == [[3, 5, 7], [0, 0, 0], [12, 14, 16]]
    assert parts() == [[], [0, 0, 0], [0, 0, 0]]
    assert parts(table=table.double()) == [[0, 0, 2, 2], [0, 0, 0], [0, 0, 0]]
    assert parts(1) == [[0, 0, 2, 2], [2, 0, 2], [2, 0, 2]]
    assert parts(1, False, None, True, 1) == [[0, 0, 1, 1], [1, 1], [1, 1]]
    assert parts(0, False, None, True, 1) == [[0, 0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert parts(2, False, None, False, -1) == [[0, 0, 2, 2], [2, 0, 1], [[1] * 3, [0] * 3, [1] * 3]]  # without the last row
    for bag in (torch._embedding_bag, torch._embedding_bag_forward_only, torch.ops.aten._embedding_bag):
        assert parts(2, False, None, False, -1, bag=bag) == [[0, 0, 2, 2], [2, 0, 2], [[1] * 3, [0] * 3, [3] * 3]]
    assert torch.embedding_bag(table, indices.int(), offsets.int(), mode=1)[1].dtype is torch.int32
    table.requires_grad_()
    torch.embedding_bag(table, indices, offsets, mode=2)[0].sum().backward()
    assert table.grad[:, 0].tolist() == [0, 1, 0, 1]
    with pytest.raises(RuntimeError, match=r"`mode` must be sum, mean, or max"):
        torch.embedding_bag(table, indices, offsets, mode=3)
    with pytest.raises(RuntimeError, match="per_sample_weights only supported with mode='sum'"):
        torch.embedding_bag(table, indices, offsets, mode=1, per_sample_weights=torch.ones(4))
