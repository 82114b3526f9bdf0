"""Sparse tensors of different dtypes: their sums and products are computed in the common one, and written where it fits."""

import pytest

import flambeau as torch


@pytest.mark.parametrize("small", [torch.uint8, torch.int8])
@pytest.mark.parametrize("wide", [torch.int32, torch.float32])
def test_differences_are_taken_in_the_common_dtype(small, wide):
    a, b = torch.tensor([1, 0, 2], dtype=wide), torch.tensor([0, 1, 1], dtype=small)
    expected = (a - b).tolist()
    assert (a.to_sparse() - b.to_sparse()).to_dense().tolist() == expected
    assert (a - b.to_sparse()).tolist() == expected
    assert a.clone().sub_(b.to_sparse()).tolist() == expected
    assert a.to_sparse().sub_(b.to_sparse()).to_dense().tolist() == expected
    assert (torch.zeros(3, dtype=wide).to_sparse() - b.to_sparse()).to_dense().tolist() == [0, -1, -1]


@pytest.mark.parametrize("own, other", [("int32", "float32"), ("float32", "complex64"), ("bool", "uint8")])
@pytest.mark.parametrize("name", ["add_", "mul_"])
def test_what_a_dense_tensor_cannot_hold_is_not_written(name, own, other):
    dense = torch.ones(3).to(getattr(torch, own))
    sparse = torch.tensor([0, 1, 1]).to(getattr(torch, other)).to_sparse()
    with pytest.raises(RuntimeError, match=r"Can.t convert result type .* to output .* in add operation"):
        getattr(dense, name)(sparse)
    assert dense.tolist() == [1, 1, 1]


def test_booleans_have_no_differences():
    boolean, number = torch.tensor([True, False]), torch.ones(2)
    for a, b, words in ((boolean, number, "a bool tensor"), (number, boolean, "a bool tensor"), (boolean, boolean, "two bool")):
        for pair in ((a.to_sparse(), b.to_sparse()), (a, b.to_sparse())):
            with pytest.raises(RuntimeError, match=f"with {words}"):
                torch.sub(*pair)
