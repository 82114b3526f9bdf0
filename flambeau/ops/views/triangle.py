"""Triangles and diagonals: tril, triu, diag, diag_embed, diagflat, fill_diagonal_. Stands on codegen.gather_scatter.triangle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, register_cache
from flambeau.base.layout import contiguous_format as _C_ORDER
from flambeau.codegen.gather_scatter.move import Buffer, Move
from flambeau.codegen.gather_scatter.triangle import triangle_plan
from flambeau.core.autograd.node import one_step
from flambeau.core.operator.annotations import Planned
from flambeau.core.operator.arguments import is_int
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import Out, exact
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import zeros_and_move
from flambeau.ops.indexing.mutating import mutating

_plans: dict[Any, Callable] = register_cache({})


# ---------------------------------------------------------------- triangles and diagonals


def _batch(layout: Layout) -> tuple[int, int] | None:
    """How many matrices there are and how far apart, if they lie evenly."""
    count = math.prod(layout.shape[:-2])
    step = geometry.reshape_strides(layout.shape[:-2], layout.strides[:-2], (count,)) if layout.numel else (0,)
    return None if step is None else (count, step[0])


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Planned:
    layout = input._layout
    if layout.ndim < 2:
        raise RuntimeError(f"{'tril' if lower else 'triu'}: input tensor must have at least 2 dimensions")
    batch = _batch(layout)
    if batch is None:  # the matrices of a copy lie evenly
        dense = contiguous(tensor_from(input._storage, input._offset, layout))
        return _triangle(dense, diagonal, lower)(None, dense)
    out = Layout.contiguous(layout.shape, layout.dtype, layout.device)
    steps = batch[0], layout.shape[-2] * layout.shape[-1], batch[1]
    return triangle_plan(layout, out, steps, lower, int(diagonal))


def _into(lower: bool) -> Callable[[Tensor, int], bool]:
    """What writes a triangle in place."""

    def write(input: Tensor, diagonal: int) -> bool:
        layout = input._layout
        if not is_int(diagonal):
            raise TypeError("the diagonal must be an int")
        key = ("in place", layout, diagonal, lower)
        launch = _plans.get(key)
        if launch is None:
            batch = _batch(layout) if layout.ndim > 1 else None
            if batch is None or layout.flavor is not None:
                return False
            # of an expanded matrix one row after the other, each of which zeroes elements of all
            serial = memory_order.overlaps_itself(layout.shape, layout.strides)
            launch = _plans[key] = triangle_plan(layout, layout, (*batch, batch[1]), lower, int(diagonal), serial)
        launch(input, input)
        return True

    return write


@operator(inplace=_into(True), out=Out(dtype=exact), planned=True, jvp=LINEAR)
def tril(input: Tensor, diagonal: int = 0) -> Planned:
    """The lower triangle of a matrix (or batch of them): zeros above the given diagonal."""
    return _triangle(input, diagonal, True)


@tril.vjp
def _(g, diagonal):
    return (g.tril(diagonal),)


@operator(inplace=_into(False), out=Out(dtype=exact), planned=True, jvp=LINEAR)
def triu(input: Tensor, diagonal: int = 0) -> Planned:
    """The upper triangle of a matrix (or batch of them): zeros below the given diagonal."""
    return _triangle(input, diagonal, False)


@triu.vjp
def _(g, diagonal):
    return (g.triu(diagonal),)


@operator(planned=True, jvp=LINEAR)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Planned:
    """Zeros with the last dimension of `input` on a diagonal of the new dimensions dim1 and dim2."""
    layout = input._layout
    a, b = wrap_dim(dim1, layout.ndim + 1), wrap_dim(dim2, layout.ndim + 1)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = layout.shape[-1] + abs(offset)
    rest = iter(layout.shape[:-1])
    shape = tuple([n if d in (a, b) else next(rest) for d in range(layout.ndim + 1)])
    out = Layout.contiguous(shape, layout.dtype, layout.device)
    own, strides, first = geometry.diagonal_geometry(out.shape, out.strides, offset, a, b)
    along = Move(layout.dtype, tuple(own), Buffer(1, 0, layout.strides), Buffer(0, first, strides))
    return zeros_and_move(out, [layout], [along])


@diag_embed.vjp
def _(g, offset, dim1, dim2):
    return (g.diagonal(offset, dim1, dim2),)


def _diag_plan(input: Tensor, diagonal: int) -> Callable | None:
    """The plan of diag_embed that makes a matrix."""
    return diag_embed.operator.kept.get((input._layout, diagonal, -2, -1)) if input._layout.ndim == 1 else None


@one_step("DiagonalBackward0_copy")
def _diagonal_copy(input: Tensor, diagonal: int) -> Tensor:
    return input.diagonal(diagonal).clone(memory_format=_C_ORDER)


@composite(out=Out(dtype=exact), planned=_diag_plan)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with the vector on its diagonal, or the diagonal of a matrix."""
    if input._layout.ndim == 1:
        return diag_embed(input, diagonal)
    if input._layout.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input._layout.ndim}D")
    return _diagonal_copy(input, diagonal)


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of `input` on its diagonal."""
    return diag_embed(input.reshape(-1), offset)


@mutating(function=False, out=False, name="fill_diagonal", overlaps=True)
def _fill_diagonal(input: Tensor, fill_value: Any, wrap: bool = False) -> None:
    """Write `fill_value` to the main diagonal."""
    shape = input._layout.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and any(n != shape[0] for n in shape):
        raise RuntimeError("all dimensions of input must be of equal length")
    strides = input._layout.strides
    step, size = sum(strides), min(shape)
    if wrap and len(shape) == 2 and shape[0] > shape[1]:
        raw = tensor_from(input._storage, input._offset, input._layout)
        n = -(-shape[0] * shape[1] // (shape[1] + 1))
        if input._layout.is_contiguous:
            raw.as_strided((n,), (shape[1] + 1,), input._offset).fill_(fill_value)
        else:
            for start in range(0, shape[0], shape[1] + 1):
                raw[start:].diagonal().fill_(fill_value)
        return
    tensor_from(input._storage, input._offset, input._layout).as_strided((size,), (step,), input._offset).fill_(fill_value)


@_fill_diagonal.vjp
def _(g, wrap):
    return (_fill_diagonal(g, 0, wrap),)


del Tensor.fill_diagonal  # the out-of-place form is the rule's alone
