"""Results that operators make in memory of their own are no views of what they went through: `detach_` takes them."""

from __future__ import annotations

import pytest

import flambeau as torch

MADE = {
    "quantile": lambda x: torch.quantile(x, 0.5),
    "quantile along": lambda x: torch.quantile(x, torch.tensor([0.1, 0.6]), dim=0, keepdim=True),
    "nanquantile": lambda x: torch.nanquantile(x, 0.3, 1),
    "kron": lambda x: torch.kron(x, x),
    "rot90": lambda x: torch.rot90(x, 1),
    "rot90 back": lambda x: torch.rot90(x, -1),
    "vector by matrix": lambda x: torch.matmul(x[0], x),
    "batch by vector": lambda x: torch.matmul(x.expand(2, 3, 3), x[0]),
    "solve": lambda x: torch.linalg.solve(x, x[0]),
    "matrix_exp": lambda x: torch.matrix_exp(x),
    "affine_grid": lambda x: torch.nn.functional.affine_grid(x[None, :2], (1, 1, 2, 3), align_corners=False),
    "vander": lambda x: torch.vander(x[0], 4, increasing=True),
    "stft": lambda x: torch.stft(x.reshape(-1), 4, 2, window=torch.ones(4), return_complex=True),
    "segment_reduce": lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 1])),
    "multinomial": lambda x: torch.multinomial(x[0].abs(), 4, replacement=True),
    "binomial": lambda x: torch.binomial(torch.ones(3, 3), torch.full((3, 3), 0.5)),
    "histogramdd": lambda x: torch.histogramdd(x, [2, 2, 2]).hist,
    "inverse of unique": lambda x: torch.unique(x, return_inverse=True)[1],
    "unique slices": lambda x: torch.unique(x, dim=0),
    "dense of sparse": lambda x: x.to_sparse().to_dense(),
    "dense of compressed": lambda x: x.to_sparse_csr().to_dense(),
    "indices": lambda x: x.to_sparse().coalesce().indices(),
    "row bounds": lambda x: x.to_sparse_csr().crow_indices(),
}


@pytest.mark.parametrize("name", MADE)
def test_a_result_is_no_view(name):
    x = torch.tensor([[3.0, 1.0, 0.5], [-1.0, 4.0, 2.0], [0.25, -2.0, 5.0]])
    for _ in range(2):  # when it is planned, and by the plan
        assert not MADE[name](x)._is_view()
    made = MADE[name](x.requires_grad_())
    assert not made._is_view() and made._base is None
    assert not made.detach_().requires_grad


def test_a_result_is_written_to_in_the_graph():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    made = torch.rot90(x)
    part = made[0]
    part.mul_(3)
    made.sum().backward()
    assert made.tolist() == [[6.0, 12.0], [1.0, 3.0]]
    assert x.grad.tolist() == [[1.0, 3.0], [1.0, 3.0]]
