"""Distinct values: unique and unique_consecutive; and unravel_index.

unique sorts (codegen.ordering.sorting) and looks where neighbours differ. Written in other operators.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from flambeau.base.dtype import bool_, int64
from flambeau.base.geometry import wrap_dim
from flambeau.base.naming import named
from flambeau.core.autograd.inplace import owned
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.nonzero import positions
from flambeau.ops.sorting.sort import sort_along


def _row(input: Tensor) -> Tensor:
    return contiguous(input.detach()).reshape(-1)


def _runs(rows: Tensor, counted: bool) -> tuple[Tensor, Tensor | None]:
    """(where each run of equal elements, or of equal rows of a matrix, starts; how long it is, if that is `counted`)"""
    if rows._layout.ndim > 1:
        n = rows._layout.shape[0]
        changes = NAMESPACE["zeros"]((n,), dtype=int64, device=rows._layout.device)
        if n > 1:
            differ = (rows.narrow(0, 1, n - 1) != rows.narrow(0, 0, n - 1)).any(1)
            changes.narrow(0, 1, n - 1).copy_(differ)
        rows = changes.cumsum(0)
    bounds = positions(rows, flat=True, begins=True)
    runs = bounds._layout.numel - 1
    if runs < 0:
        return bounds, bounds.clone() if counted else None
    starts = bounds.narrow(0, 0, runs)
    return starts, bounds.narrow(0, 1, runs) - starts if counted else None


def _numbered(counts: Tensor) -> Tensor:
    """The number of its run for every element."""
    return NAMESPACE["repeat_interleave"](counts)


def _found_by(name: str, node: str) -> Any:
    """The operator that stands in the graph for a search: it hands on the values found in a tensor, and has no gradient."""

    @operator(method=False, function=False, name=name, node=node)
    def found(input: Tensor, values: Tensor) -> Tensor:
        """These values, as found in `input`."""
        return values

    return found


_of_sorted = _found_by("_unique2", "Unique2Backward0")
_of_runs = _found_by("unique_consecutive", "UniqueConsecutiveBackward0")
_of_slices = _found_by("unique_dim", "UniqueDimBackward0")


def _answer(values: Tensor, inverse: Tensor | None, counts: Tensor | None) -> Any:
    found = (values, *[x for x in (inverse, counts) if x is not None])
    return found if len(found) > 1 else values


def _check_dimensions(input: Tensor, dim: int) -> None:
    if not input._layout.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


@composite(method=False, underneath="_unique2", written_in_python=True)
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements in ascending order (with `dim`: distinct slices), and on request for each element the
    position of its value,
    and how often each occurs."""
    _orderable("unique" if dim is None else "unique_dim", input)
    if not known(input):
        raise needs_values(input, "_unique2" if dim is None else "unique_dim")
    if dim is not None:
        _check_dimensions(input, dim)
        return _unique_slices(input, dim, return_inverse, return_counts)
    row = _row(input)
    ordered, order = sort_along(row, -1, False)
    starts, counts = _runs(ordered, return_inverse or return_counts)
    inverse = None
    if counts is not None and return_inverse:
        numbers = NAMESPACE["empty_like"](order).scatter_(0, order, _numbered(counts))
        inverse = owned(numbers.reshape(input._layout.shape))
    return _answer(_of_sorted(input, ordered.index_select(0, starts)), inverse, counts if return_counts else None)


@named("unique")
def _unique_method(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """torch.unique of this tensor."""
    return NAMESPACE["unique"](self, sorted, return_inverse, return_counts, dim)


Tensor.unique = _unique_method  # type: ignore[attr-defined]


def _slices(input: Tensor, at: int) -> Tensor:
    """The slices along a dimension as rows of a matrix."""
    size = math.prod([n for d, n in enumerate(input._layout.shape) if d != at])
    if not size:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return contiguous(input.detach().movedim(at, 0)).reshape(input._layout.shape[at], size)


def _back(rows: Tensor, input: Tensor, at: int) -> Tensor:
    """Some of these rows as slices along the dimension that they were cut at."""
    others = [n for d, n in enumerate(input._layout.shape) if d != at]
    return owned(rows.reshape(rows._layout.shape[0], *others).movedim(0, at))


def _orderable(kernel: str, input: Tensor) -> None:
    """NotImplementedError for complex numbers."""
    if input._layout.dtype.is_complex:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{input._layout.dtype.scalar_name}'")


def _unique_slices(input: Tensor, dim: int, return_inverse: bool, return_counts: bool) -> Any:
    at = wrap_dim(dim, input._layout.ndim)
    rows = _slices(input, at)
    order = NAMESPACE["arange"](rows._layout.shape[0], device=rows._layout.device)
    for column in reversed(range(rows._layout.shape[1])):  # sorts are stable, so the first column decides in the end
        order = order.index_select(0, sort_along(rows.select(1, column).index_select(0, order), 0, False)[1])
    starts, counts = _runs(rows.index_select(0, order), return_inverse or return_counts)
    values = _of_slices(input, _back(rows.index_select(0, order.index_select(0, starts)), input, at))
    inverse = None
    if counts is not None and return_inverse:
        inverse = NAMESPACE["empty_like"](order).scatter_(0, order, _numbered(counts))
    return _answer(values, inverse, counts if return_counts else None)


@composite(written_in_python=True)
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The first of every run of equal neighbours (slices along `dim`), and on request each element's run and the
    runs' lengths."""
    _orderable("unique", input)
    if not known(input):
        raise needs_values(input, "unique_consecutive")
    if dim is None:
        row = _row(input)
        starts, counts = _runs(row, return_inverse or return_counts)
        inverse = None
        if counts is not None and return_inverse:
            inverse = owned(_numbered(counts).reshape(input._layout.shape))
        return _answer(_of_runs(input, row.index_select(0, starts)), inverse, counts if return_counts else None)
    _check_dimensions(input, dim)
    at = wrap_dim(dim, input._layout.ndim)
    rows = _slices(input, at)
    starts, counts = _runs(rows, return_inverse or return_counts)
    values = _of_runs(input, _back(rows.index_select(0, starts), input, at))
    inverse = _numbered(counts) if counts is not None and return_inverse else None
    return _answer(values, inverse, counts if return_counts else None)


@composite(method=False, written_in_python=True)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, one tensor for each dimension of `shape`, of flat positions."""
    if indices._layout.dtype.is_floating_point or indices._layout.dtype.is_complex or indices._layout.dtype is bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices._layout.dtype}")
    if not isinstance(shape, (tuple, list)):
        if not isinstance(shape, int):
            kind = type(next(iter(shape))) if isinstance(shape, str) and shape else type(shape)
            words = "sequence to only contain ints" if isinstance(shape, str) else "to be int or sequence of ints"
            raise TypeError(f"expected 'shape' {words}, but got {kind}")
        shape = (shape,)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    sizes = tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices = indices.to(int64)
    if not sizes:
        return ()
    as_row = functools.partial(NAMESPACE["tensor"], dtype=int64, device=indices._layout.device)
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    return tuple((indices.unsqueeze(-1).div(as_row(steps), rounding_mode="floor") % as_row(sizes)).unbind(-1))
