"""Products of sparse matrices with dense ones and with each other.

The kernels are those of `rows`; a matrix in whatever layout is first seen by its rows, or by its columns where it stands on
the right, which is kept with its places. Stands on rows and places.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import int64
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.conversions import coalesce, replace, to_dense, to_sparse
from flambeau.ops.sparse.places import by_columns, by_rows, places_of
from flambeau.ops.sparse.rows import FLOATS, chosen
from flambeau.ops.sparse.rows import product as product_of_rows
from flambeau.ops.sparse.tensor import SparseCompressed, SparseCoo, SparseTensor, coo, layouts, refused, renamed, rule


def _check(a: Any, b: Any) -> None:
    for name, x in (("mat1", a), ("mat2", b)):
        if x._layout.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x._layout.ndim}-D tensor")
    if a._layout.dtype is not b._layout.dtype:
        if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
            raise RuntimeError(
                f"mat1 dtype {a._layout.dtype.scalar_name} does not match mat2 dtype {b._layout.dtype.scalar_name}"
            )
        raise RuntimeError(f"expected scalar type {a._layout.dtype.scalar_name} but found {b._layout.dtype.scalar_name}")
    rows, wanted = b._layout.shape[0], a._layout.shape[1]
    if rows != wanted:
        if isinstance(a, SparseCoo) and not isinstance(b, SparseTensor):
            raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {wanted}, got {rows}")
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a._layout.shape[0]}x{wanted} and {rows}x{b._layout.shape[1]})"
        )


def product(a: Any, b: Any) -> Any:
    """The product of two matrices, one of which is sparse; of two sparse ones it is sparse."""
    _check(a, b)
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_product(a, b)
    if isinstance(a, SparseTensor):
        return _times_dense(a, b)
    if isinstance(b, SparseCompressed) and b.blocks:
        return a @ to_dense(b)
    return product_of_rows(by_columns(b), b._entries, a.t()).t()


def _times_dense(a: Any, b: Tensor) -> Tensor:
    if isinstance(a, SparseCompressed) and a.blocks:
        return to_dense(a) @ b
    if a._entries._layout.ndim > 1:
        raise RuntimeError("addmm: expected 2D sparse part and 0D dense part of argument #2")
    return product_of_rows(by_rows(a), a._entries, b)


def _sparse_product(a: Any, b: Any) -> Any:
    """Row by row: each element of a brings the row of b that it points to."""
    own = a.layout
    rows, others = by_rows(a), by_rows(b)
    entries, theirs = rows.entries(a._entries), others.entries(b._entries)
    high, wide = a._layout.shape[0], b._layout.shape[1]
    sizes = others.bounds.diff().index_select(0, rows.columns)
    owner = NAMESPACE["repeat_interleave"](NAMESPACE["arange"](sizes._layout.numel), sizes)
    first = others.bounds.index_select(0, rows.columns) - (sizes.cumsum(0) - sizes)
    at = NAMESPACE["arange"](owner._layout.numel) + first.index_select(0, owner)
    keys = rows.own.index_select(0, owner) * wide + others.columns.index_select(0, at)
    terms = entries.index_select(0, owner) * theirs.index_select(0, at)
    made = coalesce(coo(places_of(keys, (high, wide)), terms, (high, wide)))
    renamed(made, "SparseSparseMatmulBackward0")
    return made if own is layouts.sparse_coo else to_sparse(made, layout=layouts.sparse_csr)


@rule("mm")
def mm(input: Any, mat2: Any, **_: Any) -> Any:
    """input @ mat2."""
    made = product(input, mat2)
    return made if isinstance(made, SparseTensor) else renamed(made, "MmBackward0")


@rule("mv")
def mv(input: Any, vec: Any) -> Tensor:
    """A sparse matrix times a vector."""
    if isinstance(vec, SparseTensor):
        raise refused("mv", vec)
    return renamed(mm(input, vec.unsqueeze(1)).squeeze(1), "MvBackward0")


@rule("matmul", "__matmul__")
def matmul(input: Any, other: Any) -> Any:
    """input @ other: matrices, or a matrix and a vector."""
    if input._layout.ndim == 2 and other._layout.ndim == 2:
        return mm(input, other)
    if input._layout.ndim == 2 and other._layout.ndim == 1:
        return mv(input, other)
    if input._layout.ndim == 1 and other._layout.ndim == 2:
        return mv(other.t(), input)
    raise RuntimeError("expand is unsupported for Sparse tensors")


@rule("__rmatmul__")
def reflected(input: Any, other: Any) -> Any:
    """other @ input."""
    return matmul(other, input)


@rule("addmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    if isinstance(input, SparseTensor) and not (isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor)):
        raise RuntimeError("expand is unsupported for Sparse tensors")
    made = product(mat1, mat2)
    made = made * alpha if alpha != 1 else made
    return renamed((input * beta if beta != 1 else input) + made, "AddmmBackward0")


@rule("bmm")
def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of the matrices of two batches, the first sparse."""
    if isinstance(mat2, SparseTensor):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if not isinstance(input, SparseCoo):
        raise refused("bmm", input)
    count, high, deep = input._layout.shape
    if mat2._layout.shape[0] != count or mat2._layout.shape[1] != deep:
        raise RuntimeError(
            f"bmm_sparse: Tensor 'mat1' and 'mat2' don't fit: {list(input._layout.shape)} and {list(mat2._layout.shape)}"
        )
    batch, row, column = input._places.unbind(0)
    tall = coo(
        NAMESPACE["stack"]([batch * high + row, batch * deep + column]),
        input._entries,
        (count * high, count * deep),
        input._ordered,
    )
    wide = mat2._layout.shape[2]
    return renamed(product(tall, mat2.reshape(count * deep, wide)).reshape(count, high, wide), "BmmBackward0")


@rule("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias."""
    made = matmul(input, weight.t())
    return made if bias is None else made + bias


@rule("smm")
def smm(input: Any, mat: Tensor) -> SparseCoo:
    """A sparse matrix times a dense one, as a sparse matrix."""
    made = hspmm(input, mat)
    width, places = mat._layout.shape[1], made._places
    rows = NAMESPACE["repeat_interleave"](places[0], width)
    columns = NAMESPACE["arange"](width).repeat(places._layout.shape[1])
    return coo(NAMESPACE["stack"]([rows, columns]), made._entries.reshape(-1), made._layout.shape, True)


@rule("hspmm")
def hspmm(mat1: Any, mat2: Tensor) -> SparseCoo:
    """A sparse matrix times a dense one; the result has one sparse dimension: the rows that mat1 has elements in."""
    dense = product(mat1, mat2)
    rows = NAMESPACE["nonzero"](by_rows(mat1).bounds.diff()).reshape(1, -1)
    return coo(rows, dense.index_select(0, rows[0]), dense._layout.shape, True)


@rule("sspaddmm")
def sspaddmm(input: Any, mat1: Any, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> SparseCoo:
    """beta * input + alpha * (mat1 @ mat2), all sparse but mat2."""
    made = smm(mat1, mat2)
    entries = NAMESPACE["cat"]([input._entries * beta, made._entries * alpha])
    return coo(NAMESPACE["cat"]([input._places, made._places], 1), entries, made._layout.shape)


def sparse_mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """torch.sparse.mm."""
    if reduce not in (None, "sum"):
        return _reduced(mat1, mat2, reduce)
    made = mat1.mm(mat2)
    return made if isinstance(made, SparseTensor) else renamed(made, "SparseAddmmBackward0")


def _reduced(mat1: Any, mat2: Any, reduce: str | None) -> Tensor:
    """The mean, maximum or minimum of the products that the elements of each row of the result are sums of."""
    if not isinstance(mat1, SparseCompressed) or mat1.layout is not layouts.sparse_csr:
        raise refused("_sparse_mm_reduce_impl", mat1 if isinstance(mat1, SparseTensor) else mat2)
    reduce = {"max": "amax", "min": "amin"}.get(str(reduce), reduce)
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, prod, mean, amax or amin, got " + str(reduce))
    _check(mat1, mat2)
    rows = by_rows(mat1)
    sizes = rows.bounds.diff()
    if reduce == "mean":
        made = product_of_rows(rows, mat1._entries, mat2) / sizes.clamp(min=1).unsqueeze(1)
    else:
        terms = mat2.index_select(0, rows.columns) * mat1._entries.unsqueeze(1)
        shape = (sizes._layout.numel, mat2._layout.shape[1])
        at = rows.own.to(int64).unsqueeze(1).expand(terms._layout.shape)
        made = NAMESPACE["zeros"](shape, dtype=terms._layout.dtype).scatter_reduce(0, at, terms, reduce, include_self=False)
    return renamed(made, "SparseMmReduceImplBackward0")


def sampled_addmm(input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None) -> Any:
    """beta * input + alpha * (mat1 @ mat2), of which only the elements at the places of a CSR matrix are computed."""
    if not isinstance(input, SparseCompressed) or input.layout is not layouts.sparse_csr:
        raise refused("sparse_sampled_addmm", input)
    if mat1._layout.shape[-1] != mat2._layout.shape[-2]:
        raise RuntimeError(
            "sampled_addmm: mat1 and mat2 shapes cannot be multiplied "
            f"({mat1._layout.shape[-2]}x{mat1._layout.shape[-1]} and {mat2._layout.shape[-2]}x{mat2._layout.shape[-1]})"
        )
    if (mat1._layout.shape[-2], mat2._layout.shape[-1]) != tuple(input._layout.shape[-2:]):
        raise RuntimeError(
            "sampled_addmm: Expected self and the product of mat1 and mat2 to have the same shape, but got "
            f"{list(input._layout.shape)} and ({mat1._layout.shape[-2]}, {mat2._layout.shape[-1]})"
        )
    if input._bounds._layout.ndim > 1:
        raise NotImplementedError("sampled_addmm of batches: call it for each matrix")
    rows, other = by_rows(input), mat2.t()
    if mat1._layout.dtype in FLOATS and mat1._layout.dtype is mat2._layout.dtype:
        products = chosen(mat1, other, rows)
    else:
        products = (mat1.index_select(0, rows.own) * other.index_select(0, rows.columns)).sum(1)
    made = input.like(input._entries * beta + products * alpha)
    return renamed(made, "SparseSampledAddmmBackward0") if out is None else replace(out, made)
