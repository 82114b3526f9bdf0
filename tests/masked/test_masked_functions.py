"""Masks of inputs and results, and masked reductions of sparse tensors. Expected values by PyTorch."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import masked

INTS = torch.tensor([[2, 3, 4], [5, 6, 7]], dtype=torch.int32)
MASK = torch.tensor([[True, True, False], [True, True, True]])


def test_masks_of_inputs_and_results() -> None:
    x = torch.ones(2, 3)
    assert masked._input_mask(x, mask=MASK[:1]).tolist() == [[True, True, False]] * 2
    assert masked._output_mask(masked.sum, x, 1, keepdim=True, mask=MASK[:1] & False).tolist() == [[False], [False]]
    assert masked._output_mask(masked.norm, x, 2.0, 1, mask=MASK).tolist() == [True, True]
    assert masked._output_mask(masked.softmax, x, 1, mask=MASK).tolist() == MASK.tolist()
    with pytest.raises(ValueError, match="requires explicit mask"):
        masked._input_mask(x)
    with pytest.raises(ValueError, match="expected masked operation"):
        masked._output_mask(torch.sin, x, mask=MASK)
    with pytest.raises(IndexError, match="dimensionality higher"):
        masked._input_mask(x, mask=torch.ones(1, 1, 1))
    assert masked._combine_input_and_mask(masked.amax, x, MASK)[0].tolist() == [1, 1, -float("inf")]
    assert masked._reduction_identity("prod", INTS).dtype is torch.int32
    assert masked._reduction_identity("mean", x) is None
    with pytest.raises(NotImplementedError, match="identity of softmax"):
        masked._reduction_identity("softmax", x)


def test_where_of_sparse_tensors() -> None:
    x = torch.tensor([[1.0, 0, 3], [0, 5, 0]])
    for to_sparse in (lambda t: t.to_sparse(), lambda t: t.to_sparse_csr()):
        found = masked._where(to_sparse(MASK), to_sparse(x), torch.tensor(7.0))
        assert found.layout is to_sparse(x).layout and found.values().tolist() == [1, 0, 0, 5, 0]
    hybrid = masked._where(MASK.to_sparse(1), x.to_sparse(1), torch.tensor(7.0))
    assert hybrid.values().tolist() == [[1, 0, 7], [0, 5, 0]]


@pytest.mark.parametrize("name, rows, columns", [
    ("sum", [5, 18], [7, 9, 7]), ("prod", [6, 210], [10, 18, 7]), ("amax", [3, 7], [5, 6, 7]),
    ("amin", [2, 5], [2, 3, 7])])  # fmt: skip
def test_reductions_of_sparse_tensors(name: str, rows: list[int], columns: list[int]) -> None:
    reduce = getattr(masked, name)
    x, mask = INTS.to_sparse(), MASK.to_sparse()
    made = reduce(x, 1, mask=mask)
    assert made.layout is torch.sparse_coo and made.to_dense().tolist() == rows
    assert made.dtype is (torch.int64 if name in ("sum", "prod") else torch.int32)
    assert reduce(x, 0, mask=MASK).to_dense().tolist() == columns  # a dense mask goes with it
    assert reduce(INTS, 0, mask=mask).tolist() == columns  # and a sparse one with dense input
    assert reduce(x, 0, keepdim=True, mask=mask).to_dense().tolist() == [columns]
    assert reduce(x, mask=mask).to_dense().item() == reduce(INTS, mask=MASK).item()
    by_rows = reduce(INTS.to_sparse_csr(), 1, keepdim=True, mask=MASK.to_sparse_csr())
    assert by_rows.layout is torch.sparse_csr and by_rows.to_dense().flatten().tolist() == rows
    half = torch.stack([INTS, INTS]).to_sparse(1)
    assert reduce(half, 2, mask=torch.stack([MASK, MASK]).to_sparse(1)).to_dense().tolist() == [rows] * 2
    if name != "sum":
        with pytest.raises(ValueError, match=f"masked {name} expects explicit mask for sparse_coo"):
            reduce(x, 1)


def test_elements_that_are_not_there_are_zeros_where_the_mask_chooses_them() -> None:
    x = torch.tensor([[-1, 0, 1], [0, 3, 4]])
    assert masked.amax(x.to_sparse(), 1, mask=MASK.to_sparse()).to_dense().tolist() == [0, 4]
    assert masked.prod(x.to_sparse(), 1, mask=MASK.to_sparse()).to_dense().tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="keepdim=False is unsupported"):
        masked.sum(x.to_sparse_csr(), 1)
    with pytest.raises(ValueError, match="masked mean expects strided"):
        masked.mean(x.double().to_sparse(), 1)


def test_sparse_mask_of_a_number() -> None:
    place = torch.tensor(True).to_sparse().coalesce()
    assert torch.tensor(3.0).sparse_mask(place).values().tolist() == [3.0]


def test_reductions_of_sparse_tensors_over_everything():
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    x = torch.tensor([[1.0, 0, 2], [0, 0, 3]]).to_sparse()
    for name, expected in (("amin", float("inf")), ("amax", float("-inf")), ("prod", 1.0), ("sum", 0.0)):
        for dim in ((), (0, 1)):
            made = getattr(torch.masked, name)(x, dim, mask=nothing)
            assert made.is_sparse and made.shape == () and made.to_dense().item() == expected
            assert made._nnz() == (expected != 0)
    assert torch.masked.amin(x, (), keepdim=True, mask=~nothing).shape == (1, 1)


def test_what_a_sparse_mask_chooses():
    mask = torch.tensor([[1, 0, 0], [0, 0, 0]], dtype=torch.bool)
    x = torch.ones(2, 3)
    made = masked._ops._output_mask(torch.masked.sum, x.to_sparse(), 1, mask=mask.to_sparse())
    assert made.to_dense().tolist() == [True, False]


def test_no_dimension_is_all_but_for_products():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.masked.prod(x, dim=[], keepdim=True).tolist() == x.tolist()
    assert torch.masked.sum(x, dim=[]).item() == 10


def test_means_of_compressed_rows_count_what_both_have():
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [0.0, 5.0]]).to_sparse_csr()
    mask = torch.tensor([[False, True], [True, True], [True, False]]).to_sparse_csr()
    for dtype in (torch.float16, torch.float32):
        made = torch.masked.mean(x.to(dtype), dim=1, mask=mask, keepdim=True)
        assert (made.layout, made.dtype, made.shape) == (torch.sparse_csr, dtype, (3, 1))
        assert made.to_dense().flatten().tolist() == [1, 2.5, 0]
    assert torch.masked.mean(x, dim=(0, 1), mask=mask, keepdim=True).to_dense().tolist() == [[1.5]]
    with pytest.raises(ValueError, match="masked mean expects explicit mask for sparse_csr tensor input"):
        torch.masked.mean(x, dim=0, keepdim=True)
