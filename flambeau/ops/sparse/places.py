"""Where the elements of sparse tensors lie: one number for a place, groups by row, and both kept with the tensor.

What is derived from the places of a tensor is kept under the version of their memory, and shared by the tensors that have
the same places, so that a matrix that is multiplied with again and again is sorted once. Stands on tensor; used by the
other modules of the room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.base.dtype import int64
from flambeau.core.derive import NAMESPACE
from flambeau.core.modes import no_grad
from flambeau.core.tensor import Tensor
from flambeau.ops.sparse.tensor import SparseCompressed, SparseCoo, compressed, coo, layout_of


class Rows(NamedTuple):
    """The elements of a matrix by rows: row r has those from bounds[r] up to bounds[r + 1]; `columns`: theirs; `order`: which
    of the tensor's elements each is, or None if they come in this order already."""

    bounds: Tensor
    columns: Tensor
    order: Tensor | None

    def entries(self, entries: Tensor) -> Tensor:
        """The values in this order."""
        return entries if self.order is None else entries.index_select(0, self.order)


def kept(x: Any, name: str, make: Callable[[], Any]) -> Any:
    """What `make` derives from the places of a sparse tensor, made once as long as nobody writes to them."""
    places = x._places if isinstance(x, SparseCoo) else x._others
    found = x._kept.get(name)
    version = places._storage.version
    if found is None or found[0] != version:
        with no_grad():
            found = x._kept[name] = (version, make())
    return found[1]


def keys_of(places: Tensor, shape: Sequence[int]) -> Tensor:
    """One number for each place: its position among all places of this shape in C order."""
    if not len(shape):
        return NAMESPACE["zeros"]((places._layout.shape[1],), dtype=int64)
    keys = places[0]
    for at, size in enumerate(shape[1:], 1):
        keys = keys * size + places[at]
    return keys


def places_of(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """The places with these numbers: (dimensions, count)."""
    found = []
    for size in reversed(shape):
        found.append(keys % size if size else keys)
        keys = keys // size if size else keys
    if not found:
        return NAMESPACE["zeros"]((0, keys._layout.numel), dtype=int64)
    return NAMESPACE["stack"](found[::-1])


def keys(x: SparseCoo) -> Tensor:
    """One number for the place of each element."""
    return kept(x, "keys", lambda: keys_of(x._places, x._layout.shape[: x._places._layout.shape[0]]))


def bounds_of(rows: Tensor, count: int) -> Tensor:
    """Where each of `count` rows begins and the last ends among elements that are sorted by their rows."""
    sizes = NAMESPACE["bincount"](rows, minlength=count)
    if sizes._layout.numel > count:
        raise RuntimeError(f"addmm: index out of row bound: {int(rows.max())} not between 1 and {count}")
    return NAMESPACE["cat"]([NAMESPACE["zeros"]((1,), dtype=int64), sizes.cumsum(0)])


def rows_of_bounds(bounds: Tensor) -> Tensor:
    """The row of each element."""
    sizes = bounds.diff()
    return NAMESPACE["repeat_interleave"](NAMESPACE["arange"](sizes._layout.numel, dtype=bounds._layout.dtype), sizes)


def _grouped(rows: Tensor, columns: Tensor, count: int, sorted: bool) -> Rows:
    order = None
    if not sorted:
        order = NAMESPACE["argsort"](rows, stable=True)
        rows, columns = rows.index_select(0, order), columns.index_select(0, order)
    return Rows(bounds_of(rows, count), columns.contiguous(), order)


def by_rows(x: Any) -> Rows:
    """The elements of a matrix (COO, CSR or CSC) by rows."""
    return kept(x, "rows", lambda: _by(x, 0))


def by_columns(x: Any) -> Rows:
    """The elements by columns; `columns` are then their rows."""
    return kept(x, "columns", lambda: _by(x, 1))


def _by(x: Any, dim: int) -> Rows:
    count = x._layout.shape[dim]
    if isinstance(x, SparseCoo):
        places = x._places
        return _grouped(places[dim], places[1 - dim], count, x._ordered and dim == 0)
    if x.by_rows == (dim == 0):
        return Rows(x._bounds, x._others, None)
    return _grouped(x._others, rows_of_bounds(x._bounds), count, False)


def dense_shape(x: SparseCoo) -> tuple[int, ...]:
    """The sizes of the dimensions of a value."""
    return tuple(x._entries._layout.shape[1:])


def places_of_values(x: Any) -> Tensor:
    """(2, count): row and column of each element of a CSR or CSC matrix."""
    if isinstance(x, SparseCoo):
        return x._places
    majors = rows_of_bounds(x._bounds)
    pair = [majors, x._others] if x.by_rows else [x._others, majors]
    return NAMESPACE["stack"](pair).to(int64)


def count_of(shape: Sequence[int]) -> int:
    """How many places there are."""
    return math.prod(shape)


__all__ = [
    "Rows",
    "SparseCompressed",
    "bounds_of",
    "by_columns",
    "by_rows",
    "compressed",
    "coo",
    "count_of",
    "dense_shape",
    "keys",
    "keys_of",
    "kept",
    "layout_of",
    "places_of",
    "places_of_values",
    "rows_of_bounds",
]
