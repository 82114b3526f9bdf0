"""Joining and rearranging tensors: cat, stack, repeat, tile, flip, roll, tril, triu, diag and their relatives.

Each is a handful of strided moves in one launch. Stands on codegen.move and core.declare.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base import geometry
from flambeau.base.dtype import promote_types
from flambeau.base.layout import Layout, register_cache
from flambeau.base.layout import contiguous_format as _C_ORDER
from flambeau.codegen.move import Buffer, Move
from flambeau.codegen.triangle import triangle_plan
from flambeau.core import overrides
from flambeau.core.create import array_of, from_array
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.modes import active, local
from flambeau.core.op import common_device
from flambeau.core.tensor import Tensor, tensor_from, wrap_dim
from flambeau.ops.copy import contiguous
from flambeau.ops.gathering import make_plan
from flambeau.ops.mutating import mutating

_plans: dict[Any, Callable] = register_cache({})
_cats: dict[Any, Callable] = register_cache({})
MOST_INPUTS = 200

# ruff: noqa: F821 - Tensors in annotations is read by core.declare


def _converted(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Raw tensors of the common dtype."""
    dtype = tensors[0]._layout.dtype
    for x in tensors[1:]:
        if x._layout.dtype is not dtype:
            dtype = promote_types(dtype, x._layout.dtype)
    return [x if x._layout.dtype is dtype else x.detach().to(dtype) for x in tensors]


def _is_list(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    made = list(tensors)
    for i, x in enumerate(made):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return made


def _in_groups(out: Layout, moves: list[tuple[Move, Layout]]) -> Callable:
    """launch(None, *tensors) for any number of inputs."""
    if len(moves) <= MOST_INPUTS:
        return make_plan([m for m, _ in moves], [out], [layout for _, layout in moves])

    def launch(target: Tensor | None, *tensors: Tensor) -> Tensor:
        for run, first in groups:
            target = run(target, *tensors[first:first + MOST_INPUTS])
        return target
    groups = []
    for first in range(0, len(moves), MOST_INPUTS):
        part = moves[first:first + MOST_INPUTS]
        own = [Move(m.dtype, m.sizes, Buffer(1 + i, 0, m.place.strides), m.other) for i, (m, _) in enumerate(part)]
        groups.append((make_plan(own, [out], [layout for _, layout in part]), first))
    return launch


def _cat_plan(tensors: list[Tensor], dim: int) -> tuple[Callable, list[Tensor]]:
    layouts = [x._layout for x in tensors]
    device = common_device(layouts)
    lead = None
    for i, layout in enumerate(layouts):
        if not layout.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        if lead is None and tuple(layout.shape) != (0,):
            lead = layout
    lead = lead or layouts[0]
    at = wrap_dim(dim, lead.ndim)
    total = 0
    for i, layout in enumerate(layouts):
        if tuple(layout.shape) == (0,):
            continue
        if layout.ndim != lead.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {lead.ndim} and {layout.ndim}")
        for d, (a, b) in enumerate(zip(lead.shape, layout.shape)):
            if d != at and a != b:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {a} but got size {b} for "
                    f"tensor number {i} in the list."
                )
        total += layout.shape[at]
    shape = tuple(total if d == at else n for d, n in enumerate(lead.shape))
    if lead.ndim in (4, 5) and all(
        geometry.suggests_channels_last(x.shape, x.strides) for x in layouts if x.ndim == lead.ndim
    ):
        out = Layout.of(shape, geometry.channels_last_strides(shape), lead.dtype, device)
    else:
        out = Layout.contiguous(shape, lead.dtype, device)
    moves = []
    offset = 0
    for i, layout in enumerate(layouts):
        sizes = layout.shape if layout.ndim == lead.ndim else (0,)
        strides = out.strides if layout.ndim == lead.ndim else (0,)
        moves.append(
            (
                Move(
                    layout.dtype, sizes, Buffer(1 + i, 0, layout.strides), Buffer(0, offset * out.strides[at], strides)
                ),
                layout,
            )
        )
        if layout.ndim == lead.ndim and tuple(layout.shape) != (0,):
            offset += layout.shape[at]
    return _in_groups(out, moves)


@operator(method=False, function=False, out=True, name="cat")
def _cat(tensors: Tensors, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """cat, told how long each tensor is along `dim`."""
    key = (dim, *[x._layout for x in tensors])
    launch = _cats.get(key)
    if launch is None:
        made = _converted(tensors)
        launch = _cat_plan(made, dim)
        if all(a is b for a, b in zip(made, tensors)):
            _cats[key] = launch
        tensors = made
    return launch(None, *tensors)


@_cat.vjp
def _(g, dim, sizes, need):
    made, at = [], 0
    for size, wanted in zip(sizes, need["tensors"]):
        made.append(
            None
            if not wanted
            else g.narrow(dim, at, size)
            if size >= 0
            else NAMESPACE["zeros"]((0,), dtype=g._layout.dtype)
        )
        at += max(size, 0)
    return (made,)


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along `dim`; they must agree in the other dimensions. dtypes are promoted."""
    if out is None and not active.count:
        try:
            launch = _cats[(dim, *[x._layout for x in tensors])]
        except (KeyError, AttributeError, TypeError):
            return _cat_checked(tensors, dim, out)
        if not local.grad:
            return launch(None, *tensors)
        for x in tensors:
            if x._node is not None:
                break
        else:
            return launch(None, *tensors)
        made = launch(None, *tensors)
        _cat.operator.record((tensors, dim, _sizes(tensors, dim)), made)
        return made
    return _cat_checked(tensors, dim, out)


def _sizes(tensors: Sequence[Tensor], dim: int) -> tuple[int, ...]:
    """How long each tensor is along `dim`; -1 stands for the empty vectors that fit to anything."""
    ndim = max([x._layout.ndim for x in tensors])
    at = dim + ndim if -ndim <= dim < 0 else dim
    return tuple([-1 if x._layout.ndim != ndim else x._layout.shape[at] if at < ndim else 0 for x in tensors])


def _cat_checked(tensors: Any, dim: int, out: Tensor | None) -> Tensor:
    given = _is_list("cat", tensors)
    if overrides.any_override(given):
        return overrides.dispatch(cat, [tensors, dim], {} if out is None else {"out": out}, given)
    if not given:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if isinstance(dim, str):
        raise NotImplementedError(
            "cat along a named dimension: named tensors are not supported; pass the number of the dimension"
        )
    return _cat(given, dim, _sizes(given, dim), out=out)


NAMESPACE.update(cat=cat, concat=cat, concatenate=cat)


@operator(method=False, function=False, out=True, name="stack")
def _stack(tensors: Tensors, dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""
    given = _is_list("stack", tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    key = ("stack", dim, *[x._layout for x in given])
    launch = _plans.get(key)
    if launch is None:
        first = given[0]._layout
        for i, x in enumerate(given):
            if tuple(x._layout.shape) != tuple(first.shape):
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                    f"{list(x._layout.shape)} at entry {i}"
                )
        at = wrap_dim(dim, first.ndim + 1)
        common_device([x._layout for x in given])
        given = _converted(given)
        dtype = given[0]._layout.dtype
        out = Layout.contiguous((*first.shape[:at], len(given), *first.shape[at:]), dtype, first.device)
        own = (*out.strides[:at], *out.strides[at + 1:])
        launch = _in_groups(
            out,
            [
                (
                    Move(dtype, first.shape, Buffer(1 + i, 0, x._layout.strides), Buffer(0, i * out.strides[at], own)),
                    x._layout,
                )
                for i, x in enumerate(given)
            ],
        )
        if all(x is y for x, y in zip(tensors, given)):
            _plans[key] = launch
    return launch(None, *given)


@_stack.vjp
def _(g, dim, need):
    return ([g.select(dim, i) if wanted else None for i, wanted in enumerate(need["tensors"])],)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape along a new dimension; dtypes are promoted."""
    if out is None and not active.count:
        try:
            launch = _plans[("stack", dim, *[x._layout for x in tensors])]
        except (KeyError, AttributeError, TypeError):
            return _stack_checked(tensors, dim, out)
        if not local.grad:
            return launch(None, *tensors)
        for x in tensors:
            if x._node is not None:
                break
        else:
            return launch(None, *tensors)
        made = launch(None, *tensors)
        _stack.operator.record((tensors, dim), made)
        return made
    return _stack_checked(tensors, dim, out)


def _stack_checked(tensors: Any, dim: int, out: Tensor | None) -> Tensor:
    given = _is_list("stack", tensors)
    if overrides.any_override(given):
        return overrides.dispatch(stack, [tensors, dim], {} if out is None else {"out": out}, given)
    return _stack(given, dim, out=out)


NAMESPACE["stack"] = stack


def _raised(name: str, tensors: Any, least: Callable) -> list[Tensor]:
    given = _is_list(name, tensors)
    if not given:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [least(x) for x in given]


@composite(method=False, out=True)
def hstack(tensors: Tensors) -> Tensor:
    """cat along the second dimension (the first for vectors)."""
    given = _raised("hstack", tensors, NAMESPACE["atleast_1d"])
    return cat(given, 0 if given[0]._layout.ndim == 1 else 1)


@composite(method=False, out=True)
def vstack(tensors: Tensors) -> Tensor:
    """cat along the first dimension, vectors as rows."""
    return cat(_raised("vstack", tensors, NAMESPACE["atleast_2d"]), 0)


@composite(method=False, out=True)
def row_stack(tensors: Tensors) -> Tensor:
    """vstack."""
    return cat(_raised("vstack", tensors, NAMESPACE["atleast_2d"]), 0)


@composite(method=False, out=True)
def dstack(tensors: Tensors) -> Tensor:
    """cat along the third dimension."""
    return cat(_raised("dstack", tensors, NAMESPACE["atleast_3d"]), 2)


@composite(method=False, out=True)
def column_stack(tensors: Tensors) -> Tensor:
    """cat along the second dimension, vectors as columns."""
    return hstack(
        _raised("column_stack", tensors, lambda x: x.reshape(x._layout.numel, 1) if x._layout.ndim <= 1 else x)
    )


# ---------------------------------------------------------------- one tensor rearranged


def _moved(
    kind: str, input: Tensor, arguments: tuple, describe: Callable[[Layout], tuple[Layout, list[Move]]]
) -> Tensor:
    """Run the moves that describe(layout) gives, keeping the plan by (kind, layout, arguments)."""
    key = (kind, input._layout, arguments)
    launch = _plans.get(key)
    if launch is None:
        out, moves = describe(input._layout)
        launch = _plans[key] = make_plan(moves, [out], [input._layout])
    return launch(None, input)


def _like(layout: Layout) -> Layout:
    return Layout.of(
        layout.shape, geometry.preserved_strides(layout.shape, layout.strides), layout.dtype, layout.device
    )


@operator(name="flip")
def _flip(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    """`input` with the order along `dims` reversed; a copy."""
    def describe(layout: Layout) -> tuple[Layout, list[Move]]:
        given = (dims,) if isinstance(dims, int) else dims
        chosen = [wrap_dim(d, layout.ndim) for d in given]
        for d in chosen:
            if chosen.count(d) > 1:
                raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        out = _like(layout)
        if not layout.ndim:
            chosen = []
        strides = tuple(-s if d in chosen else s for d, s in enumerate(layout.strides))
        offset = sum((layout.shape[d] - 1) * layout.strides[d] for d in chosen)
        return out, [Move(layout.dtype, layout.shape, Buffer(1, offset, strides), Buffer(0, 0, out.strides))]
    return _moved("flip", input, tuple(dims) if not isinstance(dims, int) else dims, describe)


@_flip.vjp
def _(g, dims):
    return (_flip(g, dims),)


def _method_with_sizes(name: str, argument: str, function: Callable) -> None:
    """x.name(1, 2) for x.name((1, 2))."""
    def method(self: Tensor, *given: Any, **keywords: Any) -> Tensor:
        if argument in keywords:
            given = (keywords[argument],)
        return function(self, tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    setattr(Tensor, name, method)


_method_with_sizes("flip", "dims", _flip)


@composite()
def fliplr(input: Tensor) -> Tensor:
    """`input` with its second dimension reversed."""
    if input._layout.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return _flip(input, (1,))


@composite()
def flipud(input: Tensor) -> Tensor:
    """`input` with its first dimension reversed."""
    if input._layout.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return _flip(input, (0,))


@operator()
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """`input` moved by `shifts` along `dims`, what falls out coming in again; without dims the flattened tensor is moved."""
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not steps:
        raise RuntimeError("`shifts` required")
    if not along:
        if len(steps) > 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        whole = contiguous(tensor_from(input._storage, input._offset, input._layout))
        layout = whole._layout
        flat = tensor_from(
            whole._storage, whole._offset, Layout.contiguous((layout.numel,), layout.dtype, layout.device)
        )
        made = _rolled(flat, steps, (0,))
        return tensor_from(made._storage, 0, layout)
    if len(steps) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}")
    return _rolled(input, steps, along)


def _rolled(input: Tensor, steps: tuple[int, ...], along: tuple[int, ...]) -> Tensor:
    def describe(layout: Layout) -> tuple[Layout, list[Move]]:
        out = Layout.contiguous(layout.shape, layout.dtype, layout.device)
        shift = [0] * layout.ndim
        for d, s in zip(along, steps):
            shift[wrap_dim(d, layout.ndim)] += s
        pieces: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)]
        for d, n in enumerate(layout.shape):
            k = shift[d] % n if n else 0
            parts = [(n - k, 0, k), (k, n - k, 0)] if k else [(n, 0, 0)]
            pieces = [((*sizes, size), a + start * layout.strides[d], b + to * out.strides[d])
                      for sizes, a, b in pieces for size, start, to in parts]
        return out, [
            Move(layout.dtype, sizes, Buffer(1, a, layout.strides), Buffer(0, b, out.strides)) for sizes, a, b in pieces
        ]

    return _moved("roll", input, (steps, along), describe)


@roll.vjp
def _(g, shifts, dims):
    return (g.roll(-shifts if isinstance(shifts, int) else tuple(-s for s in shifts), dims),)


@operator(name="repeat", function=False, method=False)
def _repeat(input: Tensor, repeats: tuple[int, ...]) -> Tensor:
    """`input` repeated along each dimension (new ones in front)."""
    def describe(layout: Layout) -> tuple[Layout, list[Move]]:
        new = len(repeats) - layout.ndim
        if new < 0:
            raise RuntimeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            )
        if any(r < 0 for r in repeats):
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(repeats)}: {list(repeats)}")
        shape = (*[1] * new, *layout.shape)
        strides = (*[0] * new, *layout.strides)
        out = Layout.contiguous(tuple(n * r for n, r in zip(shape, repeats)), layout.dtype, layout.device)
        sizes = tuple(x for n, r in zip(shape, repeats) for x in (r, n))
        source = tuple(x for s in strides for x in (0, s))
        target = tuple(x for n, s in zip(shape, out.strides) for x in (n * s, s))
        return out, [Move(layout.dtype, sizes, Buffer(1, 0, source), Buffer(0, 0, target))]
    return _moved("repeat", input, repeats, describe)


@_repeat.vjp
def _(g, repeats, layouts):
    shape = layouts[0].shape
    new = len(repeats) - len(shape)
    if 0 in repeats or 0 in shape:
        return (NAMESPACE["zeros"](shape, dtype=g._layout.dtype),)
    whole = (*[1] * new, *shape)
    sizes = [x for n, r in zip(whole, repeats) for x in (r, n)]
    dims = tuple(2 * d for d in range(len(repeats)) if repeats[d] != 1 or d < new)
    g = g.reshape(sizes)
    return ((g.sum(dims) if dims else g).reshape(shape),)


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """This tensor repeated so many times along each dimension; more counts than dimensions put new ones in front."""
    given = tuple(repeats[0]) if len(repeats) == 1 and isinstance(repeats[0], (tuple, list)) else repeats
    return _repeat(self, tuple([int(r) for r in given]))


Tensor.repeat = repeat  # type: ignore[attr-defined]


@composite(name="tile")
def _tile(input: Tensor, dims: Any) -> Tensor:
    """`input` repeated along each of its last dimensions."""
    given = (dims,) if isinstance(dims, int) else tuple(dims)
    return _repeat(input, (*[1] * (input._layout.ndim - len(given)), *given))


_method_with_sizes("tile", "dims", _tile)


@composite()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (slice along `dim`) repeated `repeats` times (a number, or a count for each); without dim: flattened.

    repeat_interleave(repeats) gives the positions that these counts name.
    """
    if repeats is None:
        counts = input
        if counts._layout.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return _counted(counts)
    if dim is None:
        input, dim = input.reshape(-1), 0
    at = wrap_dim(dim, input._layout.ndim)
    n = input._layout.shape[at] if input._layout.ndim else 1
    if isinstance(repeats, (tuple, list)):
        repeats = NAMESPACE["tensor"](repeats)
    if isinstance(repeats, Tensor) and repeats._layout.numel == 1:
        repeats = int(repeats.item())
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        lead, tail = input._layout.shape[:at], input._layout.shape[at + 1:]
        whole = input.unsqueeze(at + 1).expand(*lead, n, repeats, *tail)
        return whole.clone(memory_format=_C_ORDER).reshape((*lead, n * repeats, *tail))
    if repeats._layout.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats._layout.numel != n:
        raise RuntimeError("repeats must have the same size as input along dim, but got repeats.size(0) = "
                           f"{repeats._layout.numel} and input.size({at}) = {n}")
    return input.index_select(at, _counted(repeats))


def _counted(counts: Tensor) -> Tensor:
    """Position i, counts[i] times."""
    if counts._layout.dtype.name not in ("int64", "int32"):
        raise RuntimeError("repeats has to be Long or Int tensor")
    values = array_of(counts)
    if (values < 0).any():
        raise RuntimeError("repeats can not be negative")
    return from_array(np.repeat(np.arange(len(values), dtype=values.dtype), values)).to(counts._layout.dtype)


@composite()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """`input` turned by 90 degrees k times in the plane of two dimensions."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input._layout.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input._layout.ndim}")
    a, b = (wrap_dim(d, input._layout.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = k % 4
    if turns == 0:
        return input.clone(memory_format=_C_ORDER)
    if turns == 2:
        return _flip(input, (a, b))
    return _flip(input, (b,)).transpose(a, b) if turns == 1 else _flip(input, (a,)).transpose(a, b)


# ---------------------------------------------------------------- triangles and diagonals


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Tensor:
    layout = input._layout
    key = ("triangle", layout, diagonal, lower)
    launch = _plans.get(key)
    if launch is None:
        if layout.ndim < 2:
            raise RuntimeError(f"{'tril' if lower else 'triu'}: input tensor must have at least 2 dimensions")
        count = math.prod(layout.shape[:-2])
        step = geometry.reshape_strides(layout.shape[:-2], layout.strides[:-2], (count,)) if count else (0,)
        if step is None:
            return _triangle(contiguous(tensor_from(input._storage, input._offset, layout)), diagonal, lower)
        if layout.device.type == "meta":
            return Tensor.new_empty(input, layout.shape)
        out = Layout.contiguous(layout.shape, layout.dtype, layout.device)
        launch = _plans[key] = triangle_plan(
            layout, out, (count, layout.shape[-2] * layout.shape[-1], step[0]), lower, int(diagonal)
        )
    return launch(None, input)


@operator(inplace=True, out=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of a matrix (or batch of them): zeros above the given diagonal."""
    return _triangle(input, diagonal, True)


@tril.vjp
def _(g, diagonal):
    return (g.tril(diagonal),)


@operator(inplace=True, out=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of a matrix (or batch of them): zeros below the given diagonal."""
    return _triangle(input, diagonal, False)


@triu.vjp
def _(g, diagonal):
    return (g.triu(diagonal),)


@operator()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of `input` on a diagonal of the new dimensions dim1 and dim2."""
    layout = input._layout
    a, b = wrap_dim(dim1, layout.ndim + 1), wrap_dim(dim2, layout.ndim + 1)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = layout.shape[-1] + abs(offset)
    rest = iter(layout.shape[:-1])
    made = NAMESPACE["zeros"](
        tuple(n if d in (a, b) else next(rest) for d in range(layout.ndim + 1)),
        dtype=layout.dtype,
        device=layout.device,
    )
    made.diagonal(offset, a, b).copy_(tensor_from(input._storage, input._offset, layout))
    made._storage.version = 0
    return made


@diag_embed.vjp
def _(g, offset, dim1, dim2):
    return (g.diagonal(offset, dim1, dim2),)


@composite(out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with the vector on its diagonal, or the diagonal of a matrix."""
    if input._layout.ndim == 1:
        return diag_embed(input, diagonal)
    if input._layout.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input._layout.ndim}D")
    return input.diagonal(diagonal).clone(memory_format=_C_ORDER)


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of `input` on its diagonal."""
    return diag_embed(input.reshape(-1), offset)


@mutating(function=True, method=True, out=False, name="fill_diagonal")
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
    tensor_from(input._storage, input._offset, input._layout).as_strided((size,), (step,), input._offset).fill_(
        fill_value
    )


@_fill_diagonal.vjp
def _(g, wrap):
    return (g.fill_diagonal(0, wrap),)


# the out-of-place form is the rule's alone
_fill_diagonal_name = NAMESPACE.pop("fill_diagonal")


# ---------------------------------------------------------------- products


@composite(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given matrices (vectors as rows, numbers as 1 x 1) along its diagonal and zeros elsewhere."""
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not given:
        return NAMESPACE["empty"]((1, 0))
    for i, x in enumerate(given):
        if x._layout.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x._layout.ndim} dimensions"
            )
    given = [NAMESPACE["atleast_2d"](x) for x in given]
    dtype = given[0]._layout.dtype
    for x in given:
        dtype = promote_types(dtype, x._layout.dtype)
    columns = sum(x._layout.shape[1] for x in given)
    rows, at = [], 0
    for x in given:
        m, n = x._layout.shape
        row = [NAMESPACE["zeros"]((m, at), dtype=dtype), x, NAMESPACE["zeros"]((m, columns - at - n), dtype=dtype)]
        rows.append(cat([y for y in row if y._layout.shape[1]] or row[1:2], 1))
        at += n
    return cat(rows, 0)


@composite()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, one per row."""
    if input._layout.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._layout.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return NAMESPACE["empty"]((0,), dtype=input._layout.dtype)
    n = input._layout.numel
    chosen = (itertools.combinations_with_replacement if with_replacement else itertools.combinations)(range(n), r)
    rows = np.array(list(chosen), np.int64).reshape(-1, r)
    return input.index_select(0, from_array(rows.reshape(-1))).reshape((len(rows), r))


@composite(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, one per row."""
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    for x in given:
        if x._layout.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._layout.shape)}")
    if len(given) == 1:
        return given[0]
    grids = NAMESPACE["meshgrid"](*given, indexing="ij")
    return stack([x.reshape(-1) for x in grids], 1)


@composite(out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of `input` times all of `other`."""
    a, b = list(input._layout.shape), list(other._layout.shape)
    ndim = max(len(a), len(b))
    a, b = [1] * (ndim - len(a)) + a, [1] * (ndim - len(b)) + b
    left = input.reshape([x for n in a for x in (n, 1)])
    right = other.reshape([x for n in b for x in (1, n)])
    return (left * right).reshape([m * n for m, n in zip(a, b)])
