"""Sparse tensors from their parts.

Stands on ops.sparse.construction.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau.base import layout as layouts
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.sparse.construction import sparse_compressed_tensor, sparse_coo_tensor


def _compressed(kind: Any, check_invariants: bool | None = None) -> Any:
    """What makes tensors of one compressed layout, whichever the operator is told."""

    def make(
        bounds: Tensor, others: Tensor, values: Tensor, size: Any = None, *, dtype: Any = None, device: Any = None
    ) -> Tensor:
        return sparse_compressed_tensor(
            bounds, others, values, size, dtype=dtype, layout=kind, device=device, check_invariants=check_invariants)

    return make


implementation()(sparse_coo_tensor)
implementation("_sparse_coo_tensor_unsafe")(functools.partial(sparse_coo_tensor, check_invariants=False))
implementation()(sparse_compressed_tensor)
implementation("_sparse_compressed_tensor_unsafe")(functools.partial(sparse_compressed_tensor, check_invariants=False))
for _name in ("csr", "csc", "bsr", "bsc"):
    _kind = getattr(layouts, f"sparse_{_name}")
    implementation(f"sparse_{_name}_tensor")(_compressed(_kind))
    implementation(f"_sparse_{_name}_tensor_unsafe")(_compressed(_kind, False))
