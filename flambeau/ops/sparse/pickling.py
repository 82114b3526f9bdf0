"""Sparse tensors in pickles and files, in PyTorch's format. Stands on construction; core.tensor.rebuild is its like for
dense ones."""

from __future__ import annotations

from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.naming import called, findable
from flambeau.core.tensor.rebuild import reading, refuse_graph
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.compression import COMPRESSED
from flambeau.ops.sparse.construction import Invariants, sparse_compressed_tensor, sparse_coo_tensor
from flambeau.ops.sparse.tensor import SparseCoo, rule


@rule("__reduce_ex__", "__reduce__")
def reduce(x: Any, protocol: int = 2) -> tuple[Any, ...]:
    """The (function, arguments) by which pickle writes a sparse tensor."""
    refuse_graph(x)
    entries, shape = x._entries.detach(), x._layout.shape
    if isinstance(x, SparseCoo):
        return findable(rebuild_sparse_tensor), (x.layout, (x._places, entries, shape, bool(x._ordered)))
    return findable(rebuild_sparse_tensor), (x.layout, (x._bounds, x._others, entries, shape))


@called("_utils", "_rebuild_sparse_tensor")
def rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    """A sparse tensor from the parts that a file holds.

    Whether they fit together is checked if check_sparse_tensor_invariants is on. Parts that don't are never read past their
    ends: operators check where they read.
    """
    if not isinstance(data, tuple) or not all(isinstance(part, Tensor) for part in data[:2]):
        raise TypeError("a sparse tensor in a file must be made of tensors")
    check = Invariants.enabled and not getattr(reading, "values_follow", False)  # there the numbers come after the pickle
    if layout is layouts.sparse_coo:
        places, entries, size, *ordered = data
        ordered = ordered[0] if ordered else False
        if not isinstance(ordered, bool):
            raise TypeError(f"is_coalesced of a sparse tensor in a file must be bool, not {type(ordered).__name__}")
        return sparse_coo_tensor(places, entries, size, check_invariants=check, is_coalesced=ordered)
    if layout in COMPRESSED:
        bounds, others, entries, size = data
        return sparse_compressed_tensor(bounds, others, entries, size, layout=layout, check_invariants=check)
    raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
