"""Sparse tensors in pickles and files, in PyTorch's format. Stands on construction; core.rebuild is its like for dense ones."""

from __future__ import annotations

from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.naming import called
from flambeau.core.rebuild import reading, refuse_graph
from flambeau.core.tensor import Tensor
from flambeau.ops.sparse.construction import sparse_compressed_tensor, sparse_coo_tensor
from flambeau.ops.sparse.conversions import COMPRESSED
from flambeau.ops.sparse.tensor import SparseCoo, rule


@rule("__reduce_ex__", "__reduce__")
def reduce(x: Any, protocol: int = 2) -> tuple[Any, ...]:
    """The (function, arguments) by which pickle writes a sparse tensor."""
    refuse_graph(x)
    entries, shape = x._entries.detach(), x._layout.shape
    if isinstance(x, SparseCoo):
        return rebuild_sparse_tensor, (x.layout, (x._places, entries, shape, bool(x._ordered)))
    return rebuild_sparse_tensor, (x.layout, (x._bounds, x._others, entries, shape))


@called("_utils", "_rebuild_sparse_tensor")
def rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    """A sparse tensor from the parts that a file holds. RuntimeError for parts that don't fit together."""
    if not isinstance(data, tuple) or not all(isinstance(part, Tensor) for part in data[:2]):
        raise TypeError("a sparse tensor in a file must be made of tensors")
    check = not getattr(reading, "values_follow", False)  # a legacy file has the numbers behind the pickle
    if layout is layouts.sparse_coo:
        places, entries, size, *ordered = data
        return sparse_coo_tensor(
            places, entries, size, check_invariants=check, is_coalesced=bool(ordered and ordered[0])
        )
    if layout in COMPRESSED:
        bounds, others, entries, size = data
        return sparse_compressed_tensor(bounds, others, entries, size, layout=layout, check_invariants=check)
    raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
