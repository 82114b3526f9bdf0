"""Sparse gradients of dense tables: of Embedding(sparse=True), EmbeddingBag(sparse=True) and gather(sparse_grad=True).

Their values are steps of the graph, so that gradients of gradients exist. Used by ops.nn.embedding, ops.nn.embedding_bag
and ops.indexing.scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import int64
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.tensor import SparseCoo, coo


def of_rows(gradient: Tensor, indices: Tensor, rows: int, padding: int = -1) -> SparseCoo:
    """The gradient (*indices.shape, width) of rows that were read at `indices`, as that of the table of `rows` rows; those at
    the index `padding` get none."""
    width = gradient._layout.shape[-1]
    entries = gradient.reshape((indices._layout.numel, width))
    places = indices.reshape((1, -1)).to(int64, copy=True)  # the program may write to its own
    if padding >= 0:
        chosen = NAMESPACE["nonzero"](places[0] != padding).reshape(-1)
        places, entries = places.index_select(1, chosen), entries.index_select(0, chosen)
    return coo(places, entries, (rows, width))


def of_elements(gradient: Tensor, dim: int, index: Tensor, shape: Sequence[int]) -> SparseCoo:
    """The gradient of elements that were gathered along a dimension, as that of the tensor of this shape."""
    if not len(shape):
        return coo(NAMESPACE["zeros"]((0, 1), dtype=int64), gradient.sum().reshape(1), shape, True)
    own = index._layout.shape
    if not len(own):  # one element of a row
        return coo(index.to(int64).reshape((1, 1)), gradient.reshape(1), shape)
    lines = []
    for d, size in enumerate(own):
        line: Any = index if d == dim else NAMESPACE["arange"](size).reshape([-1 if e == d else 1 for e in range(len(own))])
        lines.append(line.to(int64).expand(own).reshape(-1))
    return coo(NAMESPACE["stack"](lines), gradient.reshape(-1), shape)
