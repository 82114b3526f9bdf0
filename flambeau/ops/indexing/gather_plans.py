"""Plans that gather and scatter through index tensors: the common ground of indexing, embedding and scatter operators.

Turns layouts into codegen.gather_scatter.move's geometry, keeps the plans, and puts a kernel's error about an index
into PyTorch's words. Stands on codegen.gather_scatter.move and core.tensor.tensor; used by ops.indexing.index,
ops.indexing.scatter, ops.nn.embedding and ops.views.cat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flambeau.base import scalar_range
from flambeau.base.dtype import int32, int64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.gather_scatter.move import Buffer, Index, Move
from flambeau.codegen.gather_scatter.steps import Moves
from flambeau.codegen.plan import Plan, elementwise
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.create import array_of, make_tensor
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.ir.loops import Loop, Nest, element
from flambeau.ir.scalar import compute_dtype, constant

plans: dict[Any, Callable] = register_cache({})
INDEX_TYPES = {int64: "i64", int32: "i32"}


def make_plan(moves: Sequence[Move], outputs: Sequence[Layout], inputs: Sequence[Layout]) -> Callable:
    """A launcher that does the moves; on the meta device it only allocates."""
    work = sum(math.prod(m.sizes) for m in moves)
    return lowered(Plan([Moves(moves, (*outputs, *inputs))], outputs, inputs, release=work >= RELEASE_FROM))


def copy_and_move(layout: Layout, out: Layout, others: Sequence[Layout], moves: Sequence[Move]) -> Callable:
    """launch(None, tensor, *others): a copy of the tensor, of the layout `out`, then the moves between it (slot 0) and the
    others.
    """

    def later(buffer: Buffer) -> Buffer:
        return replace(buffer, slot=buffer.slot + 1) if buffer.slot else buffer

    moves = [
        replace(
            m, place=later(m.place), other=later(m.other), indices=tuple(replace(i, buffer=later(i.buffer)) for i in m.indices)
        )
        for m in moves
    ]
    copied = element(0, layout.dtype)
    nest = Nest("clone", (out.dtype,), (layout.dtype,), (Loop((), ((0, copied),)),))
    copy = elementwise(nest, out.shape, [out.strides, layout.strides])
    work = out.numel + sum(math.prod(m.sizes) for m in moves)
    return lowered(Plan([copy, Moves(moves, (out, layout, *others))], [out], [layout, *others], release=work >= RELEASE_FROM))


def zeros_and_move(out: Layout, inputs: Sequence[Layout], moves: Sequence[Move]) -> Callable:
    """launch(None, *inputs): zeros, then the moves from the inputs into them."""
    nest = Nest("zeros", (out.dtype,), (), (Loop((), ((0, constant(0, compute_dtype(out.dtype))),)),))
    zeros = elementwise(nest, out.shape, [out.strides])
    return lowered(Plan([zeros, Moves(moves, (out, *inputs))], [out], inputs, release=out.numel >= RELEASE_FROM))


def zeros_for(layout: Layout, g: Tensor) -> Tensor:
    """Zeros of the layout's shape and the gradient's dtype."""
    return NAMESPACE["zeros"](layout.shape, dtype=g._layout.dtype, device=g._layout.device)


def first_bad(index: Tensor, extent: int, wraps: bool) -> int | None:
    """The first value of an index tensor that is out of range."""
    values = array_of(index).reshape(-1)
    wrong = (values >= extent) | (values < (-extent if wraps else 0))
    return int(values[wrong.argmax()]) if wrong.any() else None


def checking_alone(launch: Callable, index: Layout, extent: int) -> Callable:
    """`launch(out, tensor, index)` of a plan that moves nothing, since slices are empty, with the check that its kernel would
    have made of the index."""
    if not index.numel or index.device.type == "meta":
        return launch

    def checked(out: Tensor | None, tensor: Tensor, index: Tensor) -> Tensor:
        if first_bad(index, extent, False) is not None:
            raise KernelCheck(1)
        return launch(out, tensor, index)

    return checked


def along(
    dim: int,
    layout: Layout,
    index: Layout,
    other: Layout,
    slots: tuple[int, int, int],
    write: bool = False,
    combine: str | None = None,
    sizes: Sequence[int] | None = None,
) -> Move:
    """A move for every element of `index` (gather, scatter): dimension `dim` of the place comes from the index.

    slots: parameter slots of the place, the other operand and the index.
    """
    sizes = tuple(index.shape if sizes is None else sizes)
    place = tuple(0 if d == dim else s for d, s in enumerate(layout.strides))
    i = Index(
        Buffer(slots[2], 0, index.strides),
        INDEX_TYPES[index.dtype],
        layout.strides[dim] if layout.ndim else 0,
        layout.shape[dim] if layout.ndim else 1,
    )
    return Move(
        layout.dtype,
        sizes,
        Buffer(slots[0], 0, place if layout.ndim else (0,) * len(sizes)),
        Buffer(slots[1], 0, other.strides),
        (i,),
        write,
        combine,
        wraps=False,
    )


def rows(
    dim: int,
    layout: Layout,
    index: Layout,
    other: Layout,
    slots: tuple[int, int, int],
    write: bool = False,
    combine: str | None = None,
    wraps: bool = False,
) -> Move:
    """A move of whole slices: positions of `other` along `dim` belong to positions index[j] of the place."""
    sizes = tuple(index.numel if d == dim else n for d, n in enumerate(layout.shape))
    place = tuple(0 if d == dim else s for d, s in enumerate(layout.strides))
    step = index.strides[0] if index.ndim else 0
    own = tuple(step if d == dim else 0 for d in range(layout.ndim))
    i = Index(Buffer(slots[2], 0, own), INDEX_TYPES[index.dtype], layout.strides[dim], layout.shape[dim])
    return Move(layout.dtype, sizes, Buffer(slots[0], 0, place), Buffer(slots[1], 0, other.strides), (i,), write, combine, wraps)


_fillings: dict[Any, Tensor] = {}


def filling(value: Any, dtype: Any, device: Any) -> Tensor:
    """A number as a zero-dim tensor of a dtype, not to be written to; RuntimeError in PyTorch's words where it can't
    be one."""
    # 0.0 and -0.0 are equal but not the same, so of the zeros only the plain ones are kept
    kept = value or value.__class__ is int or (value.__class__ is float and math.copysign(1.0, value) > 0)
    if device is not None and device.type == "meta":
        scalar_range.check(value, dtype)
        return empty_layout(Layout.contiguous((), dtype, device))
    found = _fillings.get((value, value.__class__, dtype)) if kept else None
    if found is not None:
        return found
    scalar_range.check(value, dtype)
    made = make_tensor(value, dtype)
    if kept:
        if len(_fillings) >= 256:
            _fillings.clear()
        _fillings[value, value.__class__, dtype] = made
    return made


__all__ = [
    "INDEX_TYPES",
    "KernelCheck",
    "along",
    "copy_and_move",
    "filling",
    "first_bad",
    "make_plan",
    "plans",
    "rows",
    "zeros_and_move",
    "zeros_for",
]
