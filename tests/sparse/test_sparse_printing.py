"""The text of sparse tensors, recorded from PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.core.tensor.printing import printoptions


def plain(values: Any = (1.0, 2.0)) -> Any:
    return torch.sparse_coo_tensor([[0, 1], [1, 0]], values if isinstance(values, torch.Tensor) else list(values), (2, 2))


TEXTS: list[tuple[Any, str]] = [
    (
        plain,
        """tensor(indices=tensor([[0, 1],
                       [1, 0]]),
       values=tensor([1., 2.]),
       size=(2, 2), nnz=2, layout=torch.sparse_coo)""",
    ),
    (
        lambda: plain(torch.tensor([1, 2], dtype=torch.int32)),
        """tensor(indices=tensor([[0, 1],
                       [1, 0]]),
       values=tensor([1, 2]),
       size=(2, 2), nnz=2, dtype=torch.int32, layout=torch.sparse_coo)""",
    ),
    (
        lambda: plain().half().requires_grad_(),
        """tensor(indices=tensor([[0, 1],
                       [1, 0]]),
       values=tensor([1., 2.]),
       size=(2, 2), nnz=2, dtype=torch.float16, layout=torch.sparse_coo,
       requires_grad=True)""",
    ),
    (
        lambda: torch.arange(2500.0).reshape(50, 50).to_sparse(),
        """tensor(indices=tensor([[ 0,  0,  0,  ..., 49, 49, 49],
                       [ 1,  2,  3,  ..., 47, 48, 49]]),
       values=tensor([1.0000e+00, 2.0000e+00, 3.0000e+00,  ...,
                      2.4970e+03, 2.4980e+03, 2.4990e+03]),
       size=(50, 50), nnz=2499, layout=torch.sparse_coo)""",
    ),
    (
        lambda: torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0, 2, dtype=torch.int32), (5, 2)),
        """tensor(indices=tensor([], size=(1, 0)),
       values=tensor([], size=(0, 2)),
       size=(5, 2), nnz=0, dtype=torch.int32, layout=torch.sparse_coo)""",
    ),
    (
        lambda: torch.eye(2).to_sparse_csr(),
        """tensor(crow_indices=tensor([0, 1, 2]),
       col_indices=tensor([0, 1]),
       values=tensor([1., 1.]), size=(2, 2), nnz=2, layout=torch.sparse_csr)""",
    ),
    (
        lambda: torch.sparse_bsc_tensor([0, 1, 2], [0, 0], torch.arange(12.0).reshape(2, 3, 2)),
        """tensor(ccol_indices=tensor([0, 1, 2]),
       row_indices=tensor([0, 0]),
       values=tensor([[[ 0.,  1.],
                       [ 2.,  3.],
                       [ 4.,  5.]],

                      [[ 6.,  7.],
                       [ 8.,  9.],
                       [10., 11.]]]), size=(3, 4), nnz=2,
       layout=torch.sparse_bsc)""",
    ),
    (
        lambda: torch.eye(2).requires_grad_().to_sparse_csr(),
        """tensor(crow_indices=tensor([0, 1, 2]),
       col_indices=tensor([0, 1]),
       values=tensor([1., 1.]), size=(2, 2), nnz=2, layout=torch.sparse_csr,
       grad_fn=<ToSparseCsrBackward0>)""",
    ),
    (
        lambda: torch.nn.Parameter(plain()),
        """Parameter containing:
tensor(indices=tensor([[0, 1],
                       [1, 0]]),
       values=tensor([1., 2.]),
       size=(2, 2), nnz=2, layout=torch.sparse_coo, requires_grad=True)""",
    ),
]


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_text(number: int) -> None:
    make, text = TEXTS[number]
    x = make()
    assert repr(x) == text and str(x) == text and f"{x}" == text


def test_in_a_narrow_window() -> None:
    with printoptions(linewidth=40):
        assert (
            repr(torch.eye(3).to_sparse_csr())
            == """tensor(crow_indices=tensor([0, 1, 2, 3]),
       col_indices=tensor([0, 1, 2]),
       values=tensor([1., 1., 1.]),
       size=(3, 3), nnz=3,
       layout=torch.sparse_csr)"""
        )
