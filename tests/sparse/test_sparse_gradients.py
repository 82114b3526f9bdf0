"""Gradients that are sparse: of embeddings and gathers, how they add up, and optimizers that take them."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.nn import functional as F

AT = torch.tensor([1, 3, 1])


def table() -> Any:
    return torch.arange(10.0).reshape(5, 2).requires_grad_()


def look_up(w: Any, **named: Any) -> Any:
    return F.embedding(AT, w, sparse=True, **named)


def test_of_an_embedding() -> None:
    w = table()
    (look_up(w) * torch.tensor([[1.0], [2], [3]])).sum().backward()
    assert w.grad.layout is torch.sparse_coo and w.grad.shape == (5, 2) and not w.grad.is_coalesced()
    assert w.grad._indices().tolist() == [[1, 3, 1]] and w.grad._values().tolist() == [[1, 1], [2, 2], [3, 3]]
    w.grad = None
    look_up(w, padding_idx=1).sum().backward()
    assert w.grad._indices().tolist() == [[3]]
    layer = torch.nn.Embedding(5, 2, sparse=True)
    layer(AT).sum().backward()
    assert layer.weight.grad.is_sparse and layer.weight.grad.to_dense().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("named", "values"),
    [
        ({"mode": "sum"}, [[1, 1], [1, 1], [1, 1]]),
        ({"mode": "mean"}, [[0.5, 0.5], [0.5, 0.5], [1, 1]]),
        ({"mode": "sum", "per_sample_weights": torch.tensor([1.0, 2, 3])}, [[1, 1], [2, 2], [3, 3]]),
        ({"mode": "sum", "padding_idx": 1}, [[1, 1]]),
    ],
)
def test_of_bags(named: dict[str, Any], values: list[Any]) -> None:
    w = table()
    F.embedding_bag(AT, w, torch.tensor([0, 2]), sparse=True, **named).sum().backward()
    assert w.grad.is_sparse and w.grad._values().tolist() == values


def test_of_a_gather() -> None:
    w = table()
    index = torch.tensor([[1, 0], [1, 4]])
    torch.gather(w, 0, index, sparse_grad=True).mul(torch.tensor([[1.0, 2], [3, 4]])).sum().backward()
    assert w.grad.is_sparse and w.grad.to_dense().tolist() == [[0, 2], [4, 0], [0, 0], [0, 0], [0, 4]]


def test_they_add_up() -> None:
    """Sparse to sparse stays sparse, dense and sparse make dense, in one run and over several."""
    twice = [[0, 0], [4, 4], [0, 0], [2, 2], [0, 0]]
    w = table()
    (look_up(w).sum() + look_up(w).sum()).backward()
    assert w.grad.is_sparse and w.grad.to_dense().tolist() == twice
    w.grad = None
    look_up(w).sum().backward()
    look_up(w).sum().backward()
    assert w.grad.is_sparse and w.grad.to_dense().tolist() == twice
    for first, second in ((look_up, lambda w: w), (lambda w: w, look_up)):
        w.grad = None
        (first(w).sum() + second(w).sum()).backward()
        assert not w.grad.is_sparse and w.grad[:, 0].tolist() == [1, 3, 1, 2, 1]
        w.grad = None
        first(w).sum().backward()
        second(w).sum().backward()
        assert not w.grad.is_sparse and w.grad[:, 0].tolist() == [1, 3, 1, 2, 1]


def test_a_kept_gradient_is_not_written_to() -> None:
    w, g = table(), torch.sparse_coo_tensor(AT.unsqueeze(0), torch.ones(3, 2), (5, 2))
    w.backward(g)
    w.backward(g)
    assert g._values().tolist() == [[1, 1]] * 3 and w.grad.to_dense()[:, 0].tolist() == [0, 4, 0, 2, 0]


def steps(kind: Any, **named: Any) -> tuple[list[Any], list[Any]]:
    """The table after two steps with sparse gradients, and with dense ones."""
    found = []
    for sparse in (True, False):
        w = torch.nn.Parameter(torch.arange(10.0).reshape(5, 2))
        optimizer = kind([w], lr=0.1, **named)
        for _ in range(2):
            optimizer.zero_grad()
            F.embedding(AT, w, sparse=sparse).pow(2).sum().backward()
            optimizer.step()
        found.append(w.detach())
    return found[0], found[1]


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.SGD, {"maximize": True}),
        (torch.optim.Adagrad, {}),
    ],
)
def test_optimizers_that_take_them(kind: Any, named: dict[str, Any]) -> None:
    sparse, dense = steps(kind, **named)
    assert torch.allclose(sparse, dense, atol=1e-6)


def test_sparse_adam() -> None:
    w = torch.nn.Parameter(torch.arange(10.0).reshape(5, 2))
    optimizer = torch.optim.SparseAdam([w], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        look_up(w).pow(2).sum().backward()
        optimizer.step()
    expected = torch.tensor([[0.0, 1.0], [1.8002, 2.8001], [4, 5], [5.8, 6.8], [8, 9]])
    assert torch.allclose(w.detach(), expected, atol=1e-4)
    optimizer.zero_grad()
    w.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        optimizer.step()


def test_optimizers_that_don_t() -> None:
    for name in "Adamax NAdam RAdam ASGD Adadelta RMSprop Rprop Adafactor".split():
        with pytest.raises(RuntimeError, match=f"^{name} does not support sparse gradients$"):
            steps(getattr(torch.optim, name))
    for name in ("Adam", "AdamW"):
        with pytest.raises(RuntimeError, match="Adam does not support sparse gradients, please consider SparseAdam instead"):
            steps(getattr(torch.optim, name))
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        steps(torch.optim.SGD, weight_decay=0.1)


def test_clipping_refuses_them_as_pytorch_does() -> None:
    w = table()
    look_up(w).sum().backward()
    for clip in (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_):
        with pytest.raises(NotImplementedError, match=r"Could not run 'aten::.*' with arguments from the 'SparseCPU' backend"):
            clip([w], 1.0)


def test_gradients_of_gradients() -> None:
    w = torch.arange(10.0).double().reshape(5, 2).requires_grad_()
    (g,) = torch.autograd.grad(look_up(w).pow(3).sum(), w, create_graph=True)
    assert g.is_sparse and g.requires_grad
    (second,) = torch.autograd.grad(g.to_dense().sum(), w)
    expected = 6 * w.detach() * torch.tensor([[0.0], [2], [0], [1], [0]])
    assert torch.equal(second.to_dense() if second.is_sparse else second, expected)
