"""Operators on sparse tensors: values and places recorded from PyTorch, and the words of those that don't exist."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch


def x() -> Any:
    return torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4, 5, 6], (2, 3))


def hybrid() -> Any:
    return torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], torch.arange(8.0).reshape(4, 2), (2, 3, 2))


D = torch.arange(6.0).reshape(2, 3)
M = torch.arange(12.0).reshape(3, 4)
ORDERED = [[0, 1, 1], [2, 0, 2]]
AS_GIVEN = [[0, 1, 1, 0], [2, 0, 2, 2]]

# by expression: places and values, which is also how many there are
COO: dict[str, tuple[Any, Any]] = {
    "x() + x()": (AS_GIVEN, [6, 8, 10, 12]),
    "x() - x()": (AS_GIVEN, [0, 0, 0, 0]),
    "torch.add(x(), x(), alpha=3)": (AS_GIVEN, [12, 16, 20, 24]),
    "x() * 2": (AS_GIVEN, [6, 8, 10, 12]),
    "2 * x()": (AS_GIVEN, [6, 8, 10, 12]),
    "x() / 2": (AS_GIVEN, [1.5, 2, 2.5, 3]),
    "x() // 2": (ORDERED, [4, 2, 2]),
    "x() * x()": (AS_GIVEN, [27, 16, 25, 54]),
    "x() * D": (AS_GIVEN, [6, 12, 25, 12]),
    "D * x()": (AS_GIVEN, [6, 12, 25, 12]),
    "x() * torch.tensor(2.0)": (AS_GIVEN, [6, 8, 10, 12]),
    "-x()": (AS_GIVEN, [-3, -4, -5, -6]),
    "abs(x())": (ORDERED, [9, 4, 5]),
    "x().sqrt().square()": (ORDERED, [9, 4, 5]),
    "x() ** 2": (ORDERED, [81, 16, 25]),
    "x().sign()": (ORDERED, [1, 1, 1]),
    "torch.relu(-x())": (ORDERED, [0, 0, 0]),
    "x().t()": ([[2, 0, 2, 2], [0, 1, 1, 0]], [3, 4, 5, 6]),
    "x().T": ([[2, 0, 2, 2], [0, 1, 1, 0]], [3, 4, 5, 6]),
    "x().index_select(0, torch.tensor([1, 0, 1]))": ([[0, 0, 1, 1, 2, 2], [0, 2, 2, 2, 0, 2]], [4, 5, 3, 6, 4, 5]),
    "x().index_select(1, torch.tensor([2]))": ([[0, 1, 0], [0, 0, 0]], [3, 5, 6]),
    "x()[0]": ([[2, 2]], [3, 6]),
    "x()[:, 2]": ([[0, 1, 0]], [3, 5, 6]),
    "x()[None]": ([[0, 0, 0, 0], *AS_GIVEN], [3, 4, 5, 6]),
    "x().unsqueeze(1)": ([[0, 1, 1, 0], [0, 0, 0, 0], [2, 0, 2, 2]], [3, 4, 5, 6]),
    "hybrid().select(2, 0)": (AS_GIVEN, [0, 2, 4, 6]),
    "torch.cat([x(), x()])": ([[0, 1, 1, 0, 2, 3, 3, 2], [2, 0, 2, 2, 2, 0, 2, 2]], [3, 4, 5, 6, 3, 4, 5, 6]),
    "torch.cat([x(), x()], 1)": ([[0, 1, 1, 0, 0, 1, 1, 0], [2, 0, 2, 2, 5, 3, 5, 5]], [3, 4, 5, 6, 3, 4, 5, 6]),
    "torch.stack([x(), x()])": (
        [[0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 0, 0, 1, 1, 0], [2, 0, 2, 2, 2, 0, 2, 2]],
        [3, 4, 5, 6, 3, 4, 5, 6],
    ),
    "torch.sparse.sum(x(), 0)": ([[0, 2]], [4, 14]),
    "torch.sparse.sum(hybrid(), 2)": (ORDERED, [14, 5, 9]),
    "x().sum(1)": ([[0, 1]], [9, 9]),
    "D.sparse_mask(x())": (AS_GIVEN, [2, 3, 5, 2]),
    "torch.mm(x(), x().t())": ([[0, 0, 1, 1], [0, 1, 0, 1]], [81, 45, 45, 41]),
    "torch.smm(x(), M[:, :2])": ([[0, 0, 1, 1], [0, 1, 0, 1]], [72, 81, 40, 49]),
    "x().copy_(x().coalesce())": (ORDERED, [9, 4, 5]),
    "x().clone().mul_(2)": (AS_GIVEN, [6, 8, 10, 12]),
    "x().neg_()": (AS_GIVEN, [-3, -4, -5, -6]),
    "x().transpose_(0, 1)": ([[2, 0, 2, 2], [0, 1, 1, 0]], [3, 4, 5, 6]),
    "x().coalesce().sin_().asin_()[1]": ([[0, 2]], [-0.8584, -1.2832]),
    "x().type(torch.float64)": (AS_GIVEN, [3, 4, 5, 6]),
    "x().sparse_resize_((3, 3), 2, 0)": (AS_GIVEN, [3, 4, 5, 6]),
}


@pytest.mark.parametrize("expression", COO)
def test_places_and_values(expression: str) -> None:
    made = eval(expression)
    places, values = COO[expression]
    assert made.layout is torch.sparse_coo and made._indices().tolist() == places
    assert made._values().tolist() == pytest.approx(values, abs=1e-4)


DENSE: dict[str, Any] = {
    "x() @ M": [[72, 81, 90, 99], [40, 49, 58, 67]],
    "torch.spmm(x(), M)": [[72, 81, 90, 99], [40, 49, 58, 67]],
    "torch.sparse.mm(x().long(), M.long())": [[72, 81, 90, 99], [40, 49, 58, 67]],
    "torch.mm(x().to(torch.complex64), M.to(torch.complex64)).real": [[72, 81, 90, 99], [40, 49, 58, 67]],
    "x().bfloat16() @ M.bfloat16()": [[72, 81, 90, 99], [40, 49, 58, 67]],
    "x().mv(M[:, 0])": [72, 40],
    "D.T @ x()": [[12, 0, 15], [16, 0, 29], [20, 0, 43]],
    "torch.addmm(torch.ones(2, 4), x(), M, beta=2, alpha=3)": [[218, 245, 272, 299], [122, 149, 176, 203]],
    "torch.bmm(torch.stack([D, D]).to_sparse(), torch.stack([M, M]))": [[[20, 23, 26, 29], [56, 68, 80, 92]]] * 2,
    "torch.nn.functional.linear(M.T, x(), torch.ones(2))": [[73, 41], [82, 50], [91, 59], [100, 68]],
    "D + x()": [[0, 1, 11], [7, 4, 10]],
    "D - x()": [[0, 1, -7], [-1, 4, 0]],
    "D.clone().add_(x(), alpha=2)": [[0, 1, 20], [11, 4, 15]],
    "D.clone().mul_(x())": [[0, 0, 18], [12, 0, 25]],
    "x()[1, 2]": 5,
    "x()[0][2]": 9,
    "hybrid()[0, 2]": [6, 8],
    "x().sum()": 18,
    "torch.sparse.sum(x(), dim=[0, 1])": 18,
    "x().norm(1)": 18,
    "x().any()": True,
    "torch.sparse.softmax(x(), 0).values() * 1000 // 1": [982, 1000, 17],
    "x().to_sparse_csr().sum(1, keepdim=True).to_dense()": [[9], [9]],
    "(x().to_sparse_csr() + D)": [[0, 1, 11], [7, 4, 10]],
    "(x().to_sparse_csr() * D).to_dense()": [[0, 0, 18], [12, 0, 25]],
    "torch.sparse.mm(x().to_sparse_csr(), M, 'amax')": [[72, 81, 90, 99], [40, 45, 50, 55]],
    "torch.sparse.mm(x().to_sparse_csr(), M, 'mean')": [[72, 81, 90, 99], [20, 24.5, 29, 33.5]],
    "torch.sparse.sampled_addmm(D.to_sparse_csr(), torch.ones(2, 4), torch.ones(4, 3)).values()": [5, 6, 7, 8, 9],
    "x().to_sparse_csr()[1].to_dense()": [4, 0, 5],
    "x().to_sparse_csr()[:, 2].to_dense()": [9, 5],
    "torch.stack([y.to_dense() for y in x()])": [[0, 0, 9], [4, 0, 5]],
    "hybrid().permute(1, 0, 2).to_dense()[2]": [[6, 8], [4, 5]],
    "torch.cat([hybrid(), hybrid()], 2).to_dense()[1, 2]": [4, 5, 4, 5],
}


@pytest.mark.parametrize("expression", DENSE)
def test_dense_results(expression: str) -> None:
    made = eval(expression)
    assert made.layout is torch.strided and made.tolist() == DENSE[expression]


REFUSED: dict[str, str] = {
    "x() + D": "add(sparse, dense) is not supported. Use add(dense, sparse) instead.",
    "x() + 2": "add(sparse, dense) is not supported. Use add(dense, sparse) instead.",
    "x() / D": "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape [2, 3] for divisor)",
    "torch.mm(x(), D)": "addmm: Argument #3 (dense): Expected dim 0 size 3, got 2",
    "torch.mm(x(), M.double())": "expected scalar type Float but found Double",
    "x().stride() and x().reshape(3, 2)": "reshape is not implemented for sparse tensors",
    "x().expand(2, 2, 3)": "expand is unsupported for Sparse tensors",
    "x().contiguous()": "unsupported memory format option Contiguous",
    "hybrid().transpose(0, 2)": "sparse transpose: transposed dimensions must be sparse Got sparse_dim: 2, d0: 0, d1: 2",
    "torch.cat([x(), D])": "Concatenating sparse tensors, but a dense tensor was found at position 1.",
    "x().abs_()": "abs_ requires coalesced input",
    "x().data_ptr()": "Cannot access data pointer of Tensor that doesn't have storage",
    "x().numpy()": "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.",
    "x().tolist()": "Cannot access data pointer of Tensor that doesn't have storage",
    "x().untyped_storage()": "Cannot access storage of SparseTensorImpl",
    "x().item()": "a Tensor with 6 elements cannot be converted to Scalar",
    "bool(x())": "Boolean value of Tensor with more than one value is ambiguous",
    "D.clone().copy_(x())": "copy_() between dense and sparse Tensors is not implemented! "
    "Found self type = torch.FloatTensor and src type = torch.sparse.FloatTensor",
    "x().norm(2, 0)": "norm_sparse currently only supports full reductions, so 'dim' must either be empty "
    "or contain all dimensions of the input",
    "torch.bmm(torch.stack([D, D]), torch.stack([M, M]).to_sparse())": "bmm_sparse: Tensor 'mat2' must be dense",
    "torch.eye(2).to_sparse_csr().stride()": "Sparse CSR tensors do not have strides",
    "torch.eye(2).to_sparse_csr().sum(0)": "reduction operations on CSR tensors with keepdim=False is unsupported",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_words_of_refusals(expression: str) -> None:
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as error:
        eval(expression)
    assert str(error.value) == REFUSED[expression]


ABSENT = {
    "x().exp()": "exp",
    "x().clamp(0, 1)": "clamp",
    "x() == x()": "eq.Tensor",
    "x() > 0": "gt.Scalar",
    "x()[0:1]": "as_strided",
    "x()[torch.tensor([0, 1])]": "index.Tensor",
    "x().softmax(1)": "_softmax",
    "x().view(3, 2)": "view",
    "x().max()": "max",
    "x().mean()": "mean.dim",
    "x().fill_(2)": "fill_.Scalar",
    "torch.where(D > 0, x(), D)": "where.self",
    "x().sort()": "sort.stable",
    "torch.nn.functional.dropout(x())": "bernoulli_.float",
    "torch.linalg.svd(x())": "_linalg_svd",
    "x().nonzero()": "nonzero",
    "torch.linalg.norm(x())": "linalg_vector_norm",
    "2 / x()": "reciprocal",
}


@pytest.mark.parametrize("expression", ABSENT)
def test_operators_that_don_t_exist(expression: str) -> None:
    with pytest.raises(NotImplementedError) as error:
        eval(expression)
    words = f"Could not run 'aten::{ABSENT[expression]}' with arguments from the 'SparseCPU' backend. "
    assert str(error.value).startswith(words)


def test_dense_tensors_have_no_places() -> None:
    assert D.sparse_dim() == 0 and D.dense_dim() == 2 and not D.is_sparse and D.to_dense() is D
    with pytest.raises(NotImplementedError, match="Could not run 'aten::_nnz' with arguments from the 'CPU' backend"):
        D._nnz()


def test_a_matrix_is_sorted_once_and_again_when_its_places_change() -> None:
    a = torch.sparse_coo_tensor(torch.tensor([[1, 0], [0, 1]]), torch.tensor([1.0, 2.0]), (2, 2))
    m = torch.tensor([[1.0], [10.0]])
    assert (a @ m).tolist() == [[20], [1]] and (a.t() @ m).tolist() == [[10], [2]]
    assert ((a * 2) @ m).tolist() == [[40], [2]]
    a._indices()[0, 0] = 0
    assert (a @ m).tolist() == [[21], [0]]


def test_large_products_agree_with_dense_ones() -> None:
    dense = torch.randn(300, 200).where(torch.rand(300, 200) < 0.05, torch.zeros(()))
    m, rows = torch.randn(200, 37), torch.randn(50, 300)
    for a in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((3, 4))):
        assert torch.allclose(a @ m, dense @ m, atol=1e-4) and torch.allclose(rows @ a, rows @ dense, atol=1e-4)
    square = dense.to_sparse() @ dense.t().to_sparse()
    assert torch.allclose(square.to_dense(), dense @ dense.t(), atol=1e-4)


def test_autocast_and_out() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x() @ M).dtype is torch.bfloat16 and torch.sparse.mm(x(), M).dtype is torch.bfloat16
    made = torch.empty(2, 4)
    assert torch.mm(x(), M, out=made) is made and made[1].tolist() == [40, 49, 58, 67]


def test_in_other_rooms() -> None:
    """Transforms differentiate through them, comparisons look at places and values, batches of them are refused."""
    assert torch.func.grad(lambda m: (x() @ m).sum())(M).tolist() == [[4] * 4, [0] * 4, [14] * 4]
    torch.testing.assert_close(x(), x())
    for actual, words in (
        (x() * 2, "Sparse COO values are not close!"),
        (x().t().t().coalesce(), "number of specified values"),
        (x().to_sparse_csr(), "The values for attribute 'layout' do not match"),
    ):
        with pytest.raises(AssertionError, match=words):
            torch.testing.assert_close(actual, x())
    torch.testing.assert_close(x().to_sparse_csr(), x(), check_layout=False)
    with pytest.raises(RuntimeError, match="Batches of sparse tensors are not currently supported by the default collate_fn"):
        torch.utils.data.default_collate([x(), x()])


def test_indices_between_layouts() -> None:
    rows, columns = torch.tensor([0, 0, 2]), torch.tensor([1, 2, 0])
    bounds = torch._convert_indices_from_coo_to_csr(rows, 3)
    assert bounds.tolist() == [0, 2, 2, 3]
    assert torch._convert_indices_from_coo_to_csr(rows, 3, out_int32=True).dtype is torch.int32
    assert torch._convert_indices_from_csr_to_coo(bounds, columns).tolist() == [[0, 0, 2], [1, 2, 0]]
    assert torch._convert_indices_from_csr_to_coo(bounds, columns, transpose=True).tolist() == [[1, 2, 0], [0, 0, 2]]


def test_nothing_is_read_of_a_tensor_without_memory() -> None:
    """What looks past the interception finds no memory."""
    for call in (lambda: torch.Tensor.reshape(x(), 6).tolist(), lambda: torch.Tensor.numpy(x()), lambda: torch.from_dlpack(x())):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError, BufferError, ValueError)):
            call()


def test_places_and_values_are_copied():
    rows = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    coo, csr, csc = rows.to_sparse().coalesce(), rows.to_sparse_csr(), rows.to_sparse_csc()
    for x, names in (
        (coo, ("indices", "values")),
        (csr, ("crow_indices", "col_indices", "values")),
        (csc, ("ccol_indices", "row_indices", "values")),
    ):
        for name in names:
            copied = getattr(torch, f"{name}_copy")(x)
            assert torch.equal(copied, getattr(x, name)())
            assert copied.data_ptr() != getattr(x, name)().data_ptr()


def test_writes_keep_the_dtype() -> None:
    x, y = (torch.tensor([[1, 0], [0, 3]], dtype=d).to_sparse() for d in (torch.uint8, torch.int16))
    for name in ("add_", "sub_", "mul_"):
        assert getattr(x.clone(), name)(y).dtype is torch.uint8
    with pytest.raises(RuntimeError, match="Can't convert result type Float to output Byte in mul operation"):
        x.mul_(y.float())
    assert x.float().floor_divide_(2).to_dense().tolist() == [[0, 0], [0, 1]]


def test_no_values_have_no_kind_of_places() -> None:
    empty = torch.sparse_coo_tensor(size=(2, 2))
    rows = torch.eye(2).to_sparse(1)
    assert (empty + rows).to_dense().tolist() == (rows + empty).to_dense().tolist() == [[1, 0], [0, 1]]


def test_sums_of_truth_values_and_whole_numbers_are_int64_as_of_strided_tensors():
    for dtype in (torch.bool, torch.int32):
        x = torch.tensor([[1, 0], [1, 1]]).to(dtype).to_sparse()
        assert x.sum(0).dtype is x.sum((0, 1)).dtype is x.sum(0, keepdim=True).dtype is torch.int64
        assert x.sum(0).to_dense().tolist() == [2, 1] and torch.sparse.sum(x, 0).dtype is dtype


def test_compressed_tensors_are_copied_into_such_of_the_same_places():
    def refused(target, source, words):
        with pytest.raises(RuntimeError, match=words):
            target.copy_(source)

    ones = torch.ones
    refused(ones(12, 18).to_sparse_bsr((2, 3)), ones(12, 18).to_sparse_bsr((3, 2)), "different block sizes is not supported")
    refused(ones(2, 3).to_sparse_csc(), ones(3, 2).to_sparse_csc(), "to match along dimension 1 for SparseCsc layout")
    refused(ones(2, 3).to_sparse_csr(), torch.eye(2, 3).to_sparse_csr(), "the same number of specified elements")
    target = torch.eye(3).to_sparse_csr()
    target.copy_(torch.eye(3).mul(2).to_sparse_csr())
    assert torch.equal(target.to_dense(), 2 * torch.eye(3))
    assert torch.select_copy(target, 0, 1).to_dense().tolist() == [0, 2, 0]
