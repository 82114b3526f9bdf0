"""torch.sparse: products, sums and softmax of sparse tensors, diagonals, and the old names of their types.

Sparse tensors themselves are made by torch.sparse_coo_tensor and its relatives, or by Tensor.to_sparse. Stands on
ops.sparse; used by programs.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import layout as _layouts
from flambeau.core.operator import unsupported as _unsupported
from flambeau.core.tensor import legacy_types as _legacy
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse import construction as _construction
from flambeau.ops.sparse import products as _products
from flambeau.ops.sparse import reductions as _reductions
from flambeau.ops.sparse.construction import spdiags
from flambeau.ops.sparse.products import sampled_addmm
from flambeau.ops.sparse.tensor import SparseCoo as _SparseCoo
from flambeau.sparse.checks import check_sparse_tensor_invariants

__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse matrix and a dense one (dense), or of two sparse ones (sparse).

    reduce, of a CSR matrix: "sum", "mean", "amax" or "amin" of the products instead of their sum.
    """
    return _products.sparse_mm(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2), mat1 being sparse."""
    return mat.addmm(mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements of a COO tensor, or along dimensions: sparse as long as a sparse dimension is left."""
    return _reductions.sparse_sum(input, dim, dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along a dimension of a COO tensor: what has no value counts as minus infinity."""
    return _reductions.softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    return _reductions.softmax(input, dim, dtype, logarithm=True)


class _SparseType(_legacy.tensortype):
    """The class of torch.sparse.FloatTensor and its siblings."""

    layout = _layouts.sparse_coo
    is_sparse = True

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _SparseCoo) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor):
            return _construction.sparse_coo_tensor(*args, **kwargs)
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args or (0,)
        return _construction.empty_sparse(tuple(shape), _layouts.sparse_coo, cls.dtype)


_TYPES = {
    name: _SparseType(name, (), {"element": kind.dtype, "is_cuda": False, "__module__": "torch.sparse"})
    for name, kind in _legacy.CPU.items()
    if name != "BoolTensor"
}
globals().update(_TYPES)
globals().update(
    _unsupported.all_of(
        "sparse.",
        "2:4 sparse matrices are a matter of CUDA; use dense ones",
        "to_sparse_semi_structured spsolve as_sparse_gradcheck",
        "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS",
    )
)
