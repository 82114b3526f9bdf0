"""Padding: constant (negative pads crop), reflect, replicate and circular.

A padded tensor is a few strided copies of parts of its input in one launch. Stands on codegen.gather_scatter.move; the faces are
flambeau.nn.functional.pad and torch.constant_pad_nd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import bool_, float32
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.gather_scatter.move import Buffer, Move
from flambeau.core.operator.arguments import ints, refused
from flambeau.core.operator.define import operator
from flambeau.core.operator.publishing import explained
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.indexing.gather_plans import filling, make_plan
from flambeau.ops.views.rearrange import flip_dims

_plans: dict[Any, Callable] = register_cache({})
_C_TYPES = {"float32": "float", "float64": "double", "int64": "int64_t"}


def _per_dimension(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """(before, after) of every dimension; `pad` starts at the last."""
    pad = ints("pad", "pad", pad, place=2)
    given = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(given)) + given[::-1]


def _output(layout: Layout, pads: list[tuple[int, int]], channels_last: bool) -> Layout:
    shape = tuple(n + a + b for n, (a, b) in zip(layout.shape, pads))
    if channels_last and layout.ndim in (4, 5) and memory_order.suggests_channels_last(layout.shape, layout.strides):
        return Layout.of(shape, memory_order.channels_last_strides(shape), layout.dtype, layout.device)
    return Layout.contiguous(shape, layout.dtype, layout.device)


def _constant_moves(layout: Layout, out: Layout, pads: list[tuple[int, int]]) -> list[Move]:
    sizes = tuple(n + min(a, 0) + min(b, 0) for n, (a, b) in zip(layout.shape, pads))
    source = sum(max(-a, 0) * s for (a, _), s in zip(pads, layout.strides))
    target = sum(max(a, 0) * s for (a, _), s in zip(pads, out.strides))
    moves = [Move(layout.dtype, sizes, Buffer(1, source, layout.strides), Buffer(0, target, out.strides))]
    zeros = (0,) * layout.ndim
    for d, (a, b) in enumerate(pads):
        # slabs before and after along d: earlier dimensions without their pads, later ones with them
        start = sum(max(pads[e][0], 0) * out.strides[e] for e in range(d))
        for size, at in ((max(a, 0), 0), (max(b, 0), out.shape[d] - max(b, 0))):
            slab = (*sizes[:d], size, *out.shape[d + 1 :])
            if size:
                moves.append(Move(layout.dtype, slab, Buffer(2, 0, zeros), Buffer(0, start + at * out.strides[d], out.strides)))
    return moves


@operator(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """`input` with `value` put before and after its last dimensions: pad = (before last, after last, before second
    last, ...).

    Negative counts crop. RuntimeError when the pads don't fit the dimensions.
    """
    layout = input._layout
    number = filling(value, layout.dtype, layout.device)
    key = ("constant", layout, pad if pad.__class__ is tuple else tuple(pad))
    launch = _plans.get(key)
    if launch is None:
        if len(pad) % 2:
            raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
        if len(pad) > 2 * layout.ndim:
            raise RuntimeError(
                f"Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
                f"{len(pad)}"
                f"while the input has {layout.ndim}dimensions."
            )
        pads = _per_dimension(pad, layout.ndim)
        for d, (n, (a, b)) in enumerate(zip(layout.shape, pads)):
            if n + min(a, 0) < 0 or n + min(a, 0) + min(b, 0) < 0:
                raise RuntimeError("narrow(): length must be non-negative.")
            if n + a + b < 0:
                raise RuntimeError(
                    f"The input size {n}, plus negative padding {a} and {b} resulted in a negative output size, "
                    f"which is "
                    f"invalid. Check dimension {d} of your input."
                )
        if all(a <= 0 and b <= 0 for a, b in pads):  # a copy of what is left
            out = _output(layout, pads, False)
            out = Layout.of(out.shape, memory_order.preserved_strides(out.shape, layout.strides), out.dtype, out.device)
        else:
            out = _output(layout, pads, True)
        launch = _plans[key] = make_plan(_constant_moves(layout, out, pads), [out], [layout, number._layout])
    return launch(None, input, number)


@constant_pad_nd.vjp
def _(g, pad):
    return (constant_pad_nd(g, tuple(-n for n in pad), 0),)


def _edge(mode: str, n: int, kept: int, before: int, after: int, right: bool) -> tuple[int, int]:
    """(index of the first element, step) of what is put before (after) a dimension of n elements.

    kept: how many are left where pads are negative. Circular padding goes round what is left, the others see the
    whole dimension.
    """
    if mode == "reflect":
        return (n - 2 if right else before), -1
    if mode == "replicate":
        return (n - 1 if right else 0), 0
    first = max(-before, 0)
    return (first if right else first + kept - before), 1


def _moves(layout: Layout, out: Layout, pads: list[tuple[int, int]], mode: str) -> list[Move]:
    pieces: list[tuple[tuple, tuple, int, int]] = [((), (), 0, 0)]
    for d, (n, (a, b)) in enumerate(zip(layout.shape, pads)):
        stride, step = layout.strides[d], out.strides[d]
        kept = n + min(a, 0) + min(b, 0)
        parts = [(kept, stride, max(-a, 0) * stride, max(a, 0) * step)]
        if a > 0:
            first, own = _edge(mode, n, kept, a, b, False)
            parts.append((a, own * stride, first * stride, 0))
        if b > 0:
            first, own = _edge(mode, n, kept, a, b, True)
            parts.append((b, own * stride, first * stride, (max(a, 0) + kept) * step))
        pieces = [
            ((*sizes, size), (*strides, own), source + first, target + at)
            for sizes, strides, source, target in pieces
            for size, own, first, at in parts
        ]
    return [
        Move(layout.dtype, sizes, Buffer(1, source, strides), Buffer(0, target, out.strides))
        for sizes, strides, source, target in pieces
    ]


def _in_float32(given: Sequence[Any], named: dict[str, Any]) -> Any:
    """Under autocast float32 where values are repeated or mirrored, but for mirrored volumes."""
    mode = named.get("mode", given[2] if len(given) > 2 else "constant")
    sizes = named.get("pad", given[1] if len(given) > 1 else ())
    return float32 if mode == "replicate" or (mode == "reflect" and len(sizes) < 6) else None


def _title(arguments: Sequence[Any]) -> str:
    _, pad, mode = arguments
    if mode == "circular":
        return "PadCircularBackward0"
    return f"{'Reflection' if mode == 'reflect' else 'Replication'}Pad{len(pad) // 2}DBackward0"


@operator(function=False, method=False, name="pad", node=_title, autocast=_in_float32)
def _mirrored(input: Tensor, pad: tuple[int, ...], mode: str) -> Tensor:
    """Padding with the tensor's own elements."""
    layout = input._layout
    key = (mode, layout, pad)
    launch = _plans.get(key)
    if launch is None:
        pads = _per_dimension(pad, layout.ndim)
        out = _output(layout, pads, mode != "circular" and layout.ndim == 4)
        launch = _plans[key] = make_plan(_moves(layout, out, pads, mode), [out], [layout])
    return launch(None, input)


@_mirrored.vjp
def _(g, pad, mode, layouts):
    layout = layouts[0]
    if g._layout.flavor is None and layout.numel and not layout.dtype.is_complex:
        return (_unmirrored(g, layout, pad, mode),)
    for d, (n, (a, b)) in enumerate(zip(layout.shape, _per_dimension(pad, layout.ndim))):
        if a or b:
            g = _folded(g, d, n, a, b, mode)
    return (g,)


@operator(
    function=False,
    method=False,
    name="pad_backward",
    node=lambda arguments: _title((None, *arguments[2:])).replace("Backward0", "BackwardBackward0"),
)
def _unmirrored(grad: Tensor, layout: Layout, pad: tuple[int, ...], mode: str) -> Tensor:
    """The gradient before padding: what went to several places gets the sum of their gradients."""
    key = ("backward", mode, layout, pad, grad._layout)
    launch = _plans.get(key)
    if launch is None:
        pads = _per_dimension(pad, layout.ndim)
        out = _output(layout, [(0, 0)] * layout.ndim, mode != "circular" and layout.ndim == 4)
        out = Layout.of(out.shape, out.strides, grad._layout.dtype, layout.device)
        moves = [
            replace(
                move,
                place=replace(move.place, slot=0),
                other=replace(move.other, slot=1),
                write=True,
                combine="add",
                serial=any(step == 0 and n > 1 for step, n in zip(move.place.strides, move.sizes)),
            )
            for move in _moves(out, grad._layout, pads, mode)
        ]
        if min(map(min, pads)) < 0:  # what was cropped has no gradient
            zeros = Move(out.dtype, out.shape, Buffer(2, 0, (0,) * out.ndim), Buffer(0, 0, out.strides))
            moves.insert(0, zeros)
        else:
            moves[0] = replace(moves[0], combine=None, serial=False)
        launch = _plans[key] = make_plan(moves, [out], [grad._layout, filling(0, out.dtype, out.device)._layout])
    return launch(None, grad, filling(0, grad._layout.dtype, layout.device))


@_unmirrored.vjp
def _(g, pad, mode):
    return (_mirrored(g, pad, mode),)


def _folded(g: Tensor, d: int, n: int, a: int, b: int, mode: str) -> Tensor:
    """The gradient before padding along one dimension of n elements."""

    def placed(part: Tensor, before: int) -> Tensor:
        after = n - before - part._layout.shape[d]
        return constant_pad_nd(part, (*[0] * (2 * (part._layout.ndim - 1 - d)), before, after)) if before or after else part

    left, right = max(a, 0), max(b, 0)
    total = placed(g.narrow(d, left, g._layout.shape[d] - left - right), max(-a, 0))
    if left:
        part = g.narrow(d, 0, left)
        total = total + (
            placed(flip_dims(part, (d,)), 1)
            if mode == "reflect"
            else placed(part.sum(d, keepdim=True), 0)
            if mode == "replicate"
            else placed(part, _edge(mode, n, n + min(a, 0) + min(b, 0), a, b, False)[0])
        )
    if right:
        part = g.narrow(d, g._layout.shape[d] - right, right)
        total = total + (
            placed(flip_dims(part, (d,)), n - 1 - right)
            if mode == "reflect"
            else placed(part.sum(d, keepdim=True), n - 1)
            if mode == "replicate"
            else placed(part, max(-a, 0))
        )
    return total


@explained
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """`input` padded: pad = (before last dimension, after it, before the second last, ...); negative counts crop.

    mode: "constant" (with `value`, default 0), "reflect", "replicate" or "circular"; the latter pad the last 1 to 3
    dimensions of a
    batch, or of a single sample.
    """
    pad = tuple(pad)
    if mode != "constant" and value is None and (mode, input._layout, pad) in _plans:  # such a call was checked
        return _mirrored(input, pad, mode)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    ndim = input._layout.ndim
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {ndim}"
        )
    if value is not None and not isinstance(value, (int, float, Tensor)):
        raise refused("pad", "value", "float", value, 4)
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    spatial = len(pad) // 2
    if not (1 <= spatial <= 3 and ndim in (spatial + 1, spatial + 2)):
        raise NotImplementedError(_UNPADDABLE.format(size=len(pad), ndim=ndim))
    _check(input._layout, pad, mode)
    if mode != "circular" and input._layout.dtype is bool_:
        kernel = "reflection" if mode == "reflect" else "replication"
        raise NotImplementedError(f"\"{kernel}_pad{spatial}d\" not implemented for 'Bool'")
    return _mirrored(input, pad, mode)


_UNPADDABLE = """Padding size {size} is not supported for {ndim}D input tensor.
Supported combinations for non-constant padding:
  - 2D or 3D input: padding size = 2 (pads last dimension)
  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)
  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"""


def _check(layout: Layout, pad: tuple[int, ...], mode: str) -> None:
    spatial = len(pad) // 2
    if mode != "circular" and any(n == 0 for n in layout.shape[layout.ndim - spatial - 1 :]):
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero "
            f"dimensions for input, but got: {list(layout.shape)}"
        )
    for d, (n, (a, b)) in enumerate(zip(layout.shape, _per_dimension(pad, layout.ndim))):
        if not (a or b):
            continue
        if mode == "reflect" and (a >= n or b >= n):
            raise RuntimeError(
                f"Argument #{4 + 2 * (layout.ndim - 1 - d)}: Padding size should be less than the corresponding input "
                f"dimension, but got: padding ({a}, {b}) at dimension {d} of input {list(layout.shape)}"
            )
        if mode == "circular":
            if a > n or b > n:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if n + a + b < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
        if n + a + b < 1 or not n:
            raise RuntimeError(f"input ({list(layout.shape)}) is too small for the padding ({a}, {b}) of dimension {d}")
