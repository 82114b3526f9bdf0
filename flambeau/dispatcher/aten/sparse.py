"""Sparse tensors from their parts, and products of them.

Stands on ops.sparse.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau.base import layout as layouts
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.sparse import products, reductions
from flambeau.ops.sparse.construction import sparse_compressed_tensor, sparse_coo_tensor


def _compressed(kind: Any, check_invariants: bool | None = None) -> Any:
    """What makes tensors of one compressed layout, whichever the operator is told."""

    def make(
        bounds: Tensor, others: Tensor, values: Tensor, size: Any = None, *, dtype: Any = None, device: Any = None
    ) -> Tensor:
        return sparse_compressed_tensor(
            bounds, others, values, size, dtype=dtype, layout=kind, device=device, check_invariants=check_invariants
        )

    return make


implementation()(sparse_coo_tensor)
implementation("_sparse_coo_tensor_unsafe")(functools.partial(sparse_coo_tensor, check_invariants=False))
implementation()(sparse_compressed_tensor)
implementation("_sparse_compressed_tensor_unsafe")(functools.partial(sparse_compressed_tensor, check_invariants=False))
for _name in ("csr", "csc", "bsr", "bsc"):
    _kind = getattr(layouts, f"sparse_{_name}")
    implementation(f"sparse_{_name}_tensor")(_compressed(_kind))
    implementation(f"_sparse_{_name}_tensor_unsafe")(_compressed(_kind, False))


@implementation()
def _sparse_mm(sparse: Tensor, dense: Tensor) -> Any:
    """The product."""
    return products.sparse_mm(sparse, dense)


@implementation("_sparse_mm.reduce")
def _sparse_mm_reduced(sparse: Tensor, dense: Tensor, reduce: str) -> Any:
    """The product, with another reduction in place of the sum."""
    return products.sparse_mm(sparse, dense, reduce)


implementation("_sparse_addmm")(products.addmm)
implementation("sparse_sampled_addmm")(products.sampled_addmm)


@implementation("_sparse_softmax.int")
def _sparse_softmax(self: Tensor, dim: int, dtype: Any = None) -> Any:
    """Softmax along a dimension: what has no value counts as minus infinity."""
    return reductions.softmax(self, dim, dtype)


@implementation("_sparse_log_softmax.int")
def _sparse_log_softmax(self: Tensor, dim: int, dtype: Any = None) -> Any:
    """The logarithm of softmax."""
    return reductions.softmax(self, dim, dtype, logarithm=True)
