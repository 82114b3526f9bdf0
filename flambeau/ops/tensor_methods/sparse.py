"""Methods of every tensor that have to do with sparse ones. They load ops.sparse when they are called.

Stands on core.operator.variants; attaches to Tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.operator.publishing import public
from flambeau.core.tensor.tensor import Tensor


def _room() -> Any:
    from flambeau.ops import sparse

    return sparse


@public(namespace=False)
def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Any:
    """The tensor in a sparse layout (COO by default) with the elements that aren't zero.

    sparse_dim: how many dimensions, from the first, have places; slices along the others are values. layout: another
    sparse layout; blocksize: of torch.sparse_bsr and sparse_bsc; dense_dim: how many last dimensions belong to a value.
    """
    return _room().conversions.to_sparse(self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


@public(namespace=False)
def to_sparse_coo(self: Tensor) -> Any:
    """The tensor in coordinate format, with the elements that aren't zero."""
    return _room().conversions.to_sparse_coo(self)


@public(namespace=False)
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
    """The matrix, or batch of matrices, in compressed rows."""
    return _room().conversions.to_sparse_csr(self, dense_dim)


@public(namespace=False)
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
    """The matrix, or batch of matrices, in compressed columns."""
    return _room().conversions.to_sparse_csc(self, dense_dim)


@public(namespace=False)
def to_sparse_bsr(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Any:
    """The matrix, or batch of matrices, in compressed rows of blocks of this size."""
    return _room().conversions.to_sparse_bsr(self, blocksize, dense_dim)


@public(namespace=False)
def to_sparse_bsc(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Any:
    """The matrix, or batch of matrices, in compressed columns of blocks of this size."""
    return _room().conversions.to_sparse_bsc(self, blocksize, dense_dim)


@public(namespace=False)
def sparse_mask(self: Tensor, mask: Tensor) -> Any:
    """The elements at the places of a sparse tensor of this shape: that one with other values."""
    return _room().conversions.sparse_mask(self, mask)


@public(namespace=False)
def coalesce(self: Tensor) -> Any:
    """A COO tensor with its places in order and values at the same place added up. RuntimeError for other layouts."""
    return _room().conversions.coalesce(self)


@public(namespace=False)
def is_coalesced(self: Tensor) -> bool:
    """Whether the places of a COO tensor are known to be in order and without repetition. RuntimeError for other layouts."""
    return _room().facts.is_coalesced(self)


@public(namespace=False)
def sparse_dim(self: Tensor) -> int:
    """The number of dimensions with places: 0 of a dense tensor."""
    return 0


@public(namespace=False)
def dense_dim(self: Tensor) -> int:
    """The number of dimensions of a value: all of them of a dense tensor."""
    return self._layout.ndim


@public(namespace=False)
def indices(self: Tensor) -> Tensor:
    """The places (sparse dimensions, count) of a coalesced COO tensor. RuntimeError for others."""
    return _room().facts.indices(self)


@public(namespace=False)
def values(self: Tensor) -> Tensor:
    """The values of a sparse tensor, of COO a coalesced one. RuntimeError for others."""
    return _room().facts.values(self)


@public(namespace=False)
def crow_indices(self: Tensor) -> Tensor:
    """Where each row of a CSR or BSR tensor begins among its elements. RuntimeError for others."""
    return _room().facts.crow_indices(self)


@public(namespace=False)
def col_indices(self: Tensor) -> Tensor:
    """The columns of the elements of a CSR or BSR tensor. RuntimeError for others."""
    return _room().facts.col_indices(self)


@public(namespace=False)
def ccol_indices(self: Tensor) -> Tensor:
    """Where each column of a CSC or BSC tensor begins among its elements. RuntimeError for others."""
    return _room().facts.ccol_indices(self)


@public(namespace=False)
def row_indices(self: Tensor) -> Tensor:
    """The rows of the elements of a CSC or BSC tensor. RuntimeError for others."""
    return _room().facts.row_indices(self)


@public(namespace=False)
def _nnz(self: Tensor) -> int:
    """The number of elements of a sparse tensor. NotImplementedError for a dense one."""
    return _room().facts.nnz(self)


@public(namespace=False)
def _indices(self: Tensor) -> Tensor:
    """The places of a COO tensor, coalesced or not. NotImplementedError for others."""
    return _room().facts.all_indices(self)


@public(namespace=False)
def _values(self: Tensor) -> Tensor:
    """The values of a COO tensor outside the graph, coalesced or not. NotImplementedError for others."""
    return _room().facts.all_values(self)


@public(namespace=False)
def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say whether the places of a COO tensor are in order and without repetition."""
    return _room().conversions._coalesced_(self, coalesced)


@public(namespace=False)
def smm(self: Tensor, mat: Tensor) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix."""
    return _room().products.smm(self, mat)


@public(namespace=False)
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * self + alpha * (mat1 @ mat2), all sparse but mat2."""
    return _room().products.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


@public(namespace=False)
def resize_as_sparse_(self: Tensor, other: Tensor) -> Any:
    """Give a sparse tensor the shape of another. RuntimeError for dense ones."""
    return _room().facts.resize_as_sparse_(self, other)


@public(namespace=False)
def sparse_resize_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Any:
    """Give a COO tensor another shape in place."""
    return _room().facts.sparse_resize_(self, size, sparse_dim, dense_dim)


@public(namespace=False)
def sparse_resize_and_clear_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Any:
    """Give a COO tensor another shape in place, without elements."""
    return _room().facts.sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)
