"""Where the elements of sparse tensors lie: one number for a place, groups by row, and both kept with the tensor.

What is derived from the places of a tensor is kept under the version of their memory, and shared by the tensors that have
the same places, so that a matrix that is multiplied with again and again is sorted once. Stands on tensor; used by the
other modules of the room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import bfloat16, bool_, float16, int8, int32, int64
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.rows import Rows, bounds_of, rows_of_bounds
from flambeau.ops.sparse.tensor import SparseCoo


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


def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of `size` rows begins among elements sorted by their rows, and where the last one ends: (size + 1,)."""
    return bounds_of(input, size).to(int32 if out_int32 else int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """(2, count): row and column of each element of a matrix in compressed rows; transpose: column and row."""
    pair = [rows_of_bounds(crow_indices), col_indices]
    return NAMESPACE["stack"](pair[::-1] if transpose else pair).to(int32 if out_int32 else int64)


def _grouped(rows: Tensor, columns: Tensor, shape: tuple[int, int], sorted: bool) -> Rows:
    order = None
    if not sorted:
        order = NAMESPACE["argsort"](rows, stable=True)
        rows, columns = rows.index_select(0, order), columns.index_select(0, order)
    return Rows(bounds_of(rows, shape[0]), columns.contiguous(), order, shape[1])


def by_rows(x: Any) -> Rows:
    """The elements of a matrix (COO, CSR or CSC) by rows."""
    return kept(x, "rows", lambda: _by(x, 0))


def by_columns(x: Any) -> Rows:
    """The elements by columns; `columns` are then their rows."""
    return kept(x, "columns", lambda: _by(x, 1))


def _by(x: Any, dim: int) -> Rows:
    shape = x._layout.shape[dim], x._layout.shape[1 - dim]
    if isinstance(x, SparseCoo):
        places = x._places
        return _grouped(places[dim], places[1 - dim], shape, x._ordered and dim == 0)
    if x.by_rows == (dim == 0):
        return Rows(x._bounds, x._others, None, shape[1])
    return _grouped(x._others, rows_of_bounds(x._bounds), shape, False)


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


def added_up(entries: Tensor, at: Tensor, count: int) -> Tensor:
    """Values that go to the same of `count` places added up (count, *dense dimensions); of truths, whether there is one."""
    shape = (count, *entries._layout.shape[1:])
    if entries._layout.dtype is bool_:
        return added_up(entries.to(int8), at, count).ne(0)
    zeros = NAMESPACE["zeros"](shape, dtype=entries._layout.dtype)
    if entries._layout.dtype in (bfloat16, float16):  # rounded after every step, as gradients of dense tables are
        return zeros.index_put((at,), entries, True)
    return zeros.index_add(0, at, entries)
