"""Masks: nonzero, argwhere, masked_fill, masked_select, masked_scatter.

Stands on ops.indexing.nonzero (where the true elements are), ops.indexing.index and core.operator.pointwise.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import geometry, memory_order, scalar_range
from flambeau.base.dtype import bool_, int64
from flambeau.base.layout import Layout
from flambeau.core.autograd import inplace
from flambeau.core.operator.annotations import Operand
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import CONSTANT
from flambeau.core.operator.out_rules import DISTINCT, UNRECORDED, Out, worded
from flambeau.core.operator.pointwise import NUMBERS, Pointwise
from flambeau.core.operator.publishing import NAMESPACE, inner
from flambeau.core.tensor import indexing
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from, view_of
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ir.scalar import cast, where
from flambeau.ops.creation.copy import clone_raw, contiguous, copy_raw
from flambeau.ops.indexing.index import gather_index
from flambeau.ops.indexing.mutating import mutating
from flambeau.ops.indexing.nonzero import compressed, filled_from, positions

_NONZERO_DTYPE = worded("nonzero: Expected out tensor to have scalar type {have} but got scalar type{got}")


@operator(name="nonzero", out=Out(dtype=_NONZERO_DTYPE, graph=UNRECORDED, overlap=DISTINCT), jvp=CONSTANT)
def _nonzero(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero."""
    return positions(input)


_nonzero_public = inner(NAMESPACE["nonzero"], lambda: vars(Tensor)["nonzero"])


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: (number, ndim) int64, or with as_tuple a vector for each
    dimension."""
    if not as_tuple:
        return _nonzero_public(input, out=out)
    if out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    found = _nonzero_public(input if input._layout.ndim else input.detach().reshape(1))
    return tuple(found.unbind(1))


NAMESPACE["nonzero"] = nonzero
Tensor.nonzero = nonzero  # type: ignore[attr-defined]


@composite()
def argwhere(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero, (number, ndim)."""
    return nonzero(input)


@composite(out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of nonzero(input); missing ones are filled with `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    made = NAMESPACE["full"]((size, input._layout.ndim), fill_value, dtype=int64, device=input._layout.device)
    if not known(input):
        return made
    found = positions(input.detach())
    count = min(size, found._layout.shape[0])
    made.narrow(0, 0, count).copy_(found.narrow(0, 0, count))
    return made


# ---------------------------------------------------------------- masked_fill

_FILL = Pointwise(
    "masked_fill",
    lambda input, mask, value: where(mask, cast(value, input.dtype), input),
    ["input", "mask", "value"],
    undecided=("mask", "value"),
)
_FILL.idempotent = True


indexing.register_fill(_FILL.compute)


def _fill(input: Tensor, mask: Tensor, value: Any, out: Tensor | None) -> Tensor:
    layout = input._layout
    if mask._layout.dtype is not bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{_WORDS.get(mask._layout.dtype.name, mask._layout.dtype.name)}"
        )
    if value.__class__ not in NUMBERS:
        if isinstance(value, Tensor):
            if value._layout.ndim:
                raise RuntimeError(
                    "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                    f"{value._layout.ndim} dimension(s)."
                )
        else:
            value = value.item()
    if isinstance(value, Tensor) and value._layout.dtype.is_complex and not layout.dtype.is_complex:
        scalar_range.check(1j, layout.dtype)
        value = value.real
    elif value.__class__ in NUMBERS and (
        value.__class__ is complex
        or not scalar_range.always_fits(value.__class__, layout.dtype)
        or not -1 << 63 <= value < 1 << 63
    ):
        value = scalar_range.as_element(value, layout.dtype)
    return _FILL.compute((input, mask, value), (), (), out)


_WORDS = {"int64": "long int", "int32": "int", "uint8": "unsigned char", "float32": "float", "float64": "double"}


def _filled(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    if input._layout.dense() is input._layout and mask._layout.is_contiguous:
        return _fill(input, mask, value, None)
    shape = geometry.broadcast(input._layout.shape, mask._layout.shape)
    made = _fill(input, mask, value, empty_layout(Layout.contiguous(tuple(shape), input._layout.dtype, input._layout.device)))
    made._storage.writes = 0
    return made


@mutating(
    out=True,
    fresh=_filled,
    expanded="tensor[mask] = scalar",
    node=lambda arguments: f"MaskedFillBackward{int(isinstance(arguments[2], Tensor))}",
)
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> None:
    """input with `value` (a number or a zero-dim tensor) where the bool tensor `mask` (broadcast) is true."""
    shape = geometry.broadcast(input._layout.shape, mask._layout.shape)
    if tuple(shape) != tuple(input._layout.shape):
        raise RuntimeError(f"output with shape {list(input._layout.shape)} doesn't match the broadcast shape {list(shape)}")
    if mask._storage is input._storage:
        inplace.refuse_shared(input, mask, wholly=False)
        mask = clone_raw(mask)
    _fill(input, mask, value, input)


@masked_fill.vjp
def _(g, mask, need):
    theirs = None
    if need["value"]:
        theirs = g.masked_fill(mask.logical_not(), 0).sum()
    return g.masked_fill(mask, 0) if need["input"] else None, None, theirs


# ---------------------------------------------------------------- masked_select, masked_scatter


def _flat(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Raw: x broadcast to a shape, as one row."""
    layout = x._layout
    spread = Layout.of(
        tuple(shape), memory_order.broadcast_strides(layout.shape, layout.strides, tuple(shape)), layout.dtype, layout.device
    )
    whole = x if spread is layout else view_of(x, x._offset, spread)
    whole = contiguous(tensor_from(whole._storage, whole._offset, spread))
    return tensor_from(whole._storage, whole._offset, Layout.contiguous((spread.numel,), layout.dtype, layout.device))


@operator(out=Out(dtype=worded("masked_select(): self and result must have the same scalar type"), overlap=DISTINCT))
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of `input` where the bool tensor `mask` is true (both broadcast), in one row."""
    if mask._layout.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if not known(input):
        raise needs_values(input, "masked_select")
    layout = input._layout
    if layout.shape == mask._layout.shape and layout.is_contiguous and mask._layout.is_contiguous and layout.dtype.itemsize <= 8:
        return compressed(input, mask)
    shape = geometry.broadcast(mask._layout.shape, layout.shape)
    values, where = _flat(input, shape), _flat(mask, shape)
    return compressed(values, where) if layout.dtype.itemsize <= 8 else gather_index(values, (positions(where, flat=True),))


@masked_select.vjp
def _(g, mask, layouts):
    shape = geometry.broadcast(layouts[0].shape, mask._layout.shape)
    return NAMESPACE["zeros"](shape, dtype=g._layout.dtype, device=g._layout.device).masked_scatter(mask, g)


@mutating(out=False, fresh=lambda input, mask, source: _masked_scatter(input, mask, source))
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> None:
    """input with the elements of `source`, in order, where the bool tensor `mask` (broadcast) is true."""
    layout = input._layout
    if mask._layout.dtype is not bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask._layout.dtype.scalar_name}"
        )
    if source._layout.dtype is not layout.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{layout.dtype.scalar_name} and {source._layout.dtype.scalar_name}"
        )
    if not layout.numel:
        input._storage.writes += 1
        return
    if layout.dtype.itemsize > 8:  # complex128: the parts of a number share its mask
        real = NAMESPACE["view_as_real"]
        both = contiguous(mask.detach().expand(layout.shape)[..., None].expand(*layout.shape, 2))
        masked_scatter.write(real(input.detach()), both, real(contiguous(source.detach())))
        return
    where = mask if mask._layout.shape == layout.shape and mask._layout.is_contiguous else _shaped(mask, layout)
    values = contiguous(clone_raw(source) if source._storage is input._storage else source)
    if layout.is_contiguous:
        filled_from(input, where, values, input)
    else:
        whole = tensor_from(input._storage, input._offset, layout)
        copy_raw(whole, filled_from(contiguous(whole), where, values, None))


def _shaped(mask: Tensor, layout: Layout) -> Tensor:
    """Raw: a mask broadcast to the shape of a layout, contiguous."""
    flat = _flat(mask, tuple(layout.shape))
    return tensor_from(flat._storage, flat._offset, Layout.contiguous(tuple(layout.shape), bool_, layout.device))


def _masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    layout = input._layout
    if (
        layout.is_contiguous
        and mask._layout.is_contiguous
        and layout.shape == mask._layout.shape
        and layout.numel
        and mask._layout.dtype is bool_
        and source._layout.dtype is layout.dtype
        and layout.dtype.itemsize <= 8
    ):
        return filled_from(input, mask, contiguous(source), None)
    shape = geometry.broadcast(layout.shape, mask._layout.shape)
    spread = Layout.of(
        tuple(shape), memory_order.broadcast_strides(layout.shape, layout.strides, tuple(shape)), layout.dtype, layout.device
    )
    result = clone_raw(tensor_from(input._storage, input._offset, spread))
    if not result._layout.is_contiguous:
        result = contiguous(result)
    masked_scatter.write(result, mask, source)
    result._storage.writes = 0
    return result


@masked_scatter.vjp
def _(g, mask, need, layouts):
    theirs = None
    if need["source"]:
        shape = layouts[2].shape
        if not known(mask):
            return g.masked_fill(mask, 0) if need["input"] else None, None, g.new_empty(shape)
        chosen = g.masked_select(mask if mask._layout.shape == g._layout.shape else mask.expand(g._layout.shape))
        missing = layouts[2].numel - chosen._layout.numel
        if missing:
            chosen = NAMESPACE["cat"]((chosen, g.new_zeros((missing,))))
        theirs = chosen if len(shape) == 1 else chosen.reshape(shape)
    return g.masked_fill(mask, 0) if need["input"] else None, None, theirs
