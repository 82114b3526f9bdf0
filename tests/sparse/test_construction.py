"""Sparse tensors made of their parts and of dense ones: shapes, layouts, checks, and back to dense ones."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

INDICES, VALUES = [[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 6.0]
DENSE = [[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 4.0, 5.0]]


def coo(**named: Any) -> Any:
    return torch.sparse_coo_tensor(torch.tensor(INDICES), torch.tensor(VALUES), (2, 3), **named)


def test_coordinates_add_up() -> None:
    x = coo()
    assert isinstance(x, torch.Tensor) and x.is_sparse and not x.is_sparse_csr and x.layout is torch.sparse_coo
    assert x.shape == (2, 3) and x.numel() == 6 and x._nnz() == 4 and x.sparse_dim() == 2 and x.dense_dim() == 0
    assert not x.is_coalesced() and x.to_dense().tolist() == [[0, 0, 9], [4, 0, 5]]
    y = x.coalesce()
    assert y.is_coalesced() and y.coalesce() is y and y._nnz() == 3
    assert y.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and y.values().tolist() == [9, 4, 5]


def test_parts_share_memory() -> None:
    values = torch.tensor(VALUES)
    x = torch.sparse_coo_tensor(torch.tensor(INDICES), values, (2, 3))
    values[0] = 30
    assert x.to_dense()[0, 2] == 36
    x._values()[1] = 40
    assert values[1] == 40
    copy = x.clone()
    copy._values()[1] = 0
    assert values[1] == 40


def test_sizes_are_found() -> None:
    assert torch.sparse_coo_tensor(INDICES, VALUES).shape == (2, 3)
    assert torch.sparse_coo_tensor([[0, 4]], torch.ones(2, 7)).shape == (5, 7)
    assert torch.sparse_coo_tensor((2, 3))._nnz() == 0 and torch.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0] * 3] * 2
    assert torch.sparse_csr_tensor([0, 1, 2], [0, 4], [1.0, 2.0]).shape == (2, 5)
    assert torch.sparse_csc_tensor([0, 1, 2], [0, 4], [1.0, 2.0]).shape == (5, 2)
    assert torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 3)).shape == (4, 6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool, torch.complex64, torch.float16])
def test_dtypes(dtype: Any) -> None:
    x = coo(dtype=dtype)
    assert x.dtype is dtype and x.coalesce().dtype is dtype
    assert x.to_dense().tolist() == torch.tensor([[0, 0, 9], [4, 0, 5]]).to(dtype).tolist()
    assert coo().to(dtype).dtype is dtype and coo().to(torch.float32)._nnz() == 4


def test_hybrid_tensors() -> None:
    x = torch.sparse_coo_tensor(INDICES, torch.arange(8.0).reshape(4, 2), (2, 3, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (2, 1)
    assert x.to_dense().tolist() == [[[0, 0], [0, 0], [6, 8]], [[2, 3], [0, 0], [4, 5]]]
    y = torch.arange(6.0).reshape(2, 3).to_sparse(1)
    assert y.indices().tolist() == [[0, 1]] and y.values().tolist() == [[0, 1, 2], [3, 4, 5]]


LAYOUTS = {
    "coo": (lambda x: x.to_sparse(), torch.sparse_coo),
    "csr": (lambda x: x.to_sparse_csr(), torch.sparse_csr),
    "csc": (lambda x: x.to_sparse_csc(), torch.sparse_csc),
    "bsr": (lambda x: x.to_sparse_bsr((1, 2)), torch.sparse_bsr),
    "bsc": (lambda x: x.to_sparse_bsc((1, 2)), torch.sparse_bsc),
}


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", LAYOUTS)
def test_every_layout_from_every_other(source: str, target: str) -> None:
    given = LAYOUTS[source][0](torch.tensor(DENSE))
    if source[0] == "b" and target[0] == "c" and target != "coo":
        with pytest.raises(RuntimeError, match=f"^sparse_compressed_to_sparse_{target}: expected SparseCsr or SparseCsc layout"):
            LAYOUTS[target][0](given)
        return
    made = LAYOUTS[target][0](given)
    assert made.layout is LAYOUTS[target][1] and made.shape == (3, 4) and made.to_dense().tolist() == DENSE


def test_conversions_keep_what_is_stored() -> None:
    zeros = torch.sparse_compressed_tensor(
        torch.tensor([0, 1, 2], dtype=torch.int32),
        torch.tensor([0, 3], dtype=torch.int32),
        torch.tensor([0.0, 5.0]),
        (2, 4),
        layout=torch.sparse_csr,
    )
    blocks = zeros.to_sparse_bsr((2, 2))
    assert blocks.crow_indices().tolist() == [0, 2] and blocks.values().tolist() == [[[0, 0], [0, 0]], [[0, 0], [0, 5]]]
    assert blocks.crow_indices().dtype is blocks.col_indices().dtype is torch.int32
    columns = zeros.to_sparse_csc()
    assert columns.ccol_indices().tolist() == [0, 1, 1, 1, 2] and columns.row_indices().dtype is torch.int32
    assert blocks.to_sparse()._indices().shape == (2, 8) and blocks.to_sparse_bsc((2, 2)).ccol_indices().tolist() == [0, 1, 2]
    slices = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 4.0]]]).to_sparse_csr(dense_dim=1)
    assert slices.to_sparse_bsr((1, 2)).values().tolist() == [[[[1, 2], [0, 0]]], [[[0, 0], [3, 4]]]]


NOT_CONVERTED = {
    "sparse_coo_to_sparse: conversion from Sparse to SparseBsr without blocksize argument given is not supported": lambda x: (
        x.to_sparse().to_sparse(layout=torch.sparse_bsr)
    ),
    "sparse_compressed_to_sparse_bsr: tensor sparse size (3,4) must be divisible by given blocksize (2,2)": lambda x: (
        x.to_sparse_csr().to_sparse_bsr((2, 2))
    ),
    "coo_to_sparse_csr: conversion from Sparse to SparseCsr for input tensors with sparse_dim()!=2 is not supported": lambda x: (
        torch.stack([x, x]).to_sparse().to_sparse_csr()
    ),
    "sparse_compressed_to_sparse_bsr: conversion from SparseCsr to SparseBsr for batched inputs is not supported": lambda x: (
        torch.stack([x, x]).to_sparse_csr().to_sparse_bsr((1, 2))
    ),
    "sparse_compressed_to_sparse_bsc: conversion from SparseBsr to SparseBsc with blocksize changed from [1, 2] to [3, 2] is not "
    "supported": lambda x: x.to_sparse_bsr((1, 2)).to_sparse_bsc((3, 2)),
    "sparse_compressed_to_sparse_csc: conversion from SparseCsr to SparseCsc with dense_dim argument given is not "
    "supported": lambda x: x.to_sparse_csr().to_sparse_csc(dense_dim=1),
}


@pytest.mark.parametrize("words", NOT_CONVERTED)
def test_conversions_that_are_refused(words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        NOT_CONVERTED[words](torch.tensor(DENSE))
    assert str(caught.value) == words


def test_tensors_like_others() -> None:
    x = torch.tensor(DENSE).to_sparse_csr()
    made = torch.full_like(x, 7)
    assert made.crow_indices().tolist() == x.crow_indices().tolist() and made.values().tolist() == [7] * 5
    assert torch.empty_like(x).values().shape == (5,) and torch.randn_like(x.to(torch.float32)).values().shape == (5,)
    assert torch.zeros_like(x, layout=torch.sparse_csc).ccol_indices().tolist() == [0] * 5
    assert torch.zeros_like(x, layout=torch.sparse_coo).layout is torch.sparse_coo
    with pytest.raises(RuntimeError, match="empty_like with different sparse layout is not supported"):
        torch.empty_like(x, layout=torch.sparse_csc)
    with pytest.raises(RuntimeError, match="memory format option is only supported by strided tensors"):
        torch.zeros_like(x.to_sparse(), memory_format=torch.contiguous_format)


def test_compressed_parts() -> None:
    x = torch.tensor(DENSE)
    rows, columns = x.to_sparse_csr(), x.to_sparse_csc()
    assert rows.is_sparse_csr and not rows.is_sparse and rows._nnz() == 5
    assert rows.crow_indices().tolist() == [0, 2, 3, 5] and rows.col_indices().tolist() == [1, 3, 0, 2, 3]
    assert columns.ccol_indices().tolist() == [0, 1, 2, 3, 5] and columns.row_indices().tolist() == [1, 0, 2, 0, 2]
    assert rows.values().tolist() == [1, 2, 3, 4, 5] and columns.values().tolist() == [3, 1, 4, 2, 5]
    batch = torch.stack([x, x.flip(0)[[2, 1, 0]]]).to_sparse_csr()
    assert batch.crow_indices().shape == (2, 4) and batch.to_dense().tolist() == [DENSE, DENSE]
    blocks = x.to_sparse_bsr((1, 2))
    assert blocks.values().shape == (4, 1, 2) and blocks.col_indices().tolist() == [0, 1, 0, 1]


def test_without_elements() -> None:
    for x in (
        torch.zeros(0, 3).to_sparse(),
        torch.zeros(3, 3).to_sparse_csr(),
        torch.zeros(2, 3, layout=torch.sparse_csr),
        torch.empty(2, 3, layout=torch.sparse_coo),
        torch.zeros_like(coo()),
        coo().zero_(),
    ):
        assert x._nnz() == 0 and x.to_dense().sum() == 0
    assert torch.tensor(2.0).to_sparse().to_dense() == 2


def test_old_constructors() -> None:
    x = torch.sparse.FloatTensor(torch.tensor(INDICES), torch.tensor(VALUES), torch.Size([2, 3]))
    assert x.to_dense().tolist() == [[0, 0, 9], [4, 0, 5]] and x.type() == "torch.sparse.FloatTensor"
    assert isinstance(x, torch.sparse.FloatTensor) and not isinstance(x, torch.FloatTensor)
    assert not isinstance(torch.ones(1), torch.sparse.FloatTensor) and not isinstance(x, torch.sparse.DoubleTensor)
    assert torch.sparse.LongTensor(2, 3).dtype is torch.int64 and torch.sparse.FloatTensor().shape == (0,)


def test_diagonals() -> None:
    x = torch.sparse.spdiags(torch.arange(9.0).reshape(3, 3), torch.tensor([0, -1, 2]), (3, 3))
    assert x.to_dense().tolist() == [[0, 0, 8], [3, 1, 0], [0, 4, 2]]


REFUSED = {
    "indices and values must have same nnz, but got nnz from indices: 2, nnz from values: 3": lambda: torch.sparse_coo_tensor(
        [[0, 1], [1, 0]], [1.0, 2, 3], (3, 3)
    ),
    "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = 1, sparse_dim = 2, dense_dim = 0": lambda: (
        torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2], (3,))
    ),
    "indices must be sparse_dim x nnz, but got: [2]": lambda: torch.sparse_coo_tensor(torch.tensor([0, 1]), torch.ones(2)),
    "found negative index -1 for dim 0": lambda: torch.sparse_coo_tensor([[0, -1], [0, 1]], [1.0, 2]),
    "size is inconsistent with indices: for dim 0, size is 2 but found index 5": lambda: torch.sparse_coo_tensor(
        [[0, 5], [0, 1]], [1.0, 2], (2, 2), check_invariants=True
    ),
    "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor": lambda: coo(
        is_coalesced=True, check_invariants=True
    ),
    "`crow_indices[..., -1] == nnz` is not satisfied.": lambda: torch.sparse_csr_tensor(
        [0, 1, 3], [0, 1], [1.0, 2], (2, 3), check_invariants=True
    ),
    "`crow_indices[..., 0] == 0` is not satisfied.": lambda: torch.sparse_csr_tensor(
        [1, 1, 2], [0, 1], [1.0, 2], (2, 3), check_invariants=True
    ),
    "`0 <= col_indices < ncols` is not satisfied.": lambda: torch.sparse_csr_tensor(
        [0, 1, 2], [0, 5], [1.0, 2], (2, 3), check_invariants=True
    ),
    "`row_indices[..., ccol_indices[..., i - 1]:ccol_indices[..., i]] for all i = 1, ..., ncols are sorted and distinct along "
    "the last dimension values` is not satisfied.": lambda: torch.sparse_csc_tensor(
        [0, 2, 2], [1, 0], [1.0, 2], (3, 2), check_invariants=True
    ),
    "crow_indices.shape[-1] must be equal to the number of rows + 1 (=4), but got 3": lambda: torch.sparse_csr_tensor(
        [0, 1, 2], [0, 1], [1.0, 2], (3, 3), check_invariants=True
    ),
    "dense_to_sparse: sparse_dim argument must be in [0,2] range, but 3 is given": lambda: torch.ones(2, 3).to_sparse(3),
    "sparse_compressed_tensor expected sparse compressed tensor layout but got Strided": lambda: torch.sparse_compressed_tensor(
        [0, 1], [0], [1.0], layout=torch.strided
    ),
    "Cannot get indices on an uncoalesced tensor, please call .coalesce() first": lambda: coo().indices(),
    "values expected sparse tensor layout but got Strided": lambda: torch.ones(2).values(),
    "crow_indices expected sparse row compressed tensor layout but got Sparse": lambda: coo().crow_indices(),
    "coalesce expected sparse coordinate tensor layout but got SparseCsr": lambda: torch.eye(2).to_sparse_csr().coalesce(),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(words: str) -> None:
    with pytest.raises(RuntimeError) as error:
        REFUSED[words]()
    assert str(error.value).split("\n")[0] == words


def test_checking_can_be_switched_on() -> None:
    checks = torch.sparse.check_sparse_tensor_invariants
    assert not checks.is_enabled()
    with checks(), pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor([[0, 5], [0, 1]], [1.0, 2], (2, 2))
    assert not checks.is_enabled() and checks(True)(checks.is_enabled)()


def test_places_outside_of_the_shape_are_never_read() -> None:
    far = torch.sparse_coo_tensor([[0, 10**6], [0, 1]], [1.0, 2], (2, 2))
    wide = torch.sparse_coo_tensor([[0, 1], [0, 10**6]], [1.0, 2], (2, 2))
    for x in (far, wide):
        with pytest.raises((RuntimeError, IndexError)):
            x @ torch.eye(2)
    for x in (
        far,
        torch.sparse_csr_tensor([0, 1, 2], [0, 10**6], [1.0, 2], (2, 2)),
        torch.sparse_csr_tensor([0, 10**6, 2], [0, 1], [1.0, 2], (2, 2)),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            x.to_dense()
        with pytest.raises((RuntimeError, IndexError)):
            (x @ torch.eye(2)).tolist()


def test_places_and_bounds() -> None:
    rows = torch.tensor([0, 0, 2, 3])
    bounds = torch._convert_indices_from_coo_to_csr(rows, 5)
    assert bounds.tolist() == [0, 2, 2, 3, 4, 4] and bounds.dtype is torch.int64
    assert torch._convert_indices_from_coo_to_csr(rows[:0], 2, out_int32=True).dtype is torch.int32
    columns = torch.tensor([1, 0, 2])
    bounds = torch.tensor([0, 2, 2, 3])
    assert torch._convert_indices_from_csr_to_coo(bounds, columns).tolist() == [[0, 0, 2], [1, 0, 2]]
    assert torch._convert_indices_from_csr_to_coo(bounds, columns, transpose=True).tolist() == [[1, 0, 2], [0, 0, 2]]
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        torch._convert_indices_from_coo_to_csr(rows.float(), 5)
    with pytest.raises(RuntimeError, match="supposed to be a vector, but got 2 dimensional"):
        torch._convert_indices_from_coo_to_csr(rows[None], 5)
