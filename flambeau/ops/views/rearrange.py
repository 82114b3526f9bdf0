"""One tensor's elements in another order or number: flip, roll, repeat, tile, repeat_interleave, rot90.

Each is a handful of strided moves in one launch. Stands on codegen.gather_scatter.move and core.operator.define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import int64
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, contiguous_strides, register_cache
from flambeau.base.layout import contiguous_format as _C_ORDER
from flambeau.codegen.gather_scatter.move import Buffer, Move
from flambeau.core.autograd.inplace import owned
from flambeau.core.operator.arguments import ints, is_int, no_combination, refused, without_sizes
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, tensor_from, within_memory
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import make_plan

_plans: dict[Any, Callable] = register_cache({})


# ---------------------------------------------------------------- one tensor rearranged


def _moved(kind: str, input: Tensor, arguments: tuple, describe: Callable[[Layout], tuple[Layout, list[Move]]]) -> Tensor:
    """Run the moves that describe(layout) gives, keeping the plan by (kind, layout, arguments)."""
    key = (kind, input._layout, arguments)
    launch = _plans.get(key)
    if launch is None:
        out, moves = describe(input._layout)
        launch = _plans[key] = make_plan(moves, [out], [input._layout])
    return launch(None, input)


def _like(layout: Layout) -> Layout:
    return Layout.of(layout.shape, memory_order.preserved_strides(layout.shape, layout.strides), layout.dtype, layout.device)


@operator(name="flip", jvp=LINEAR)
def flip_dims(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    """`input` with the order along `dims` reversed; a copy."""

    def describe(layout: Layout) -> tuple[Layout, list[Move]]:
        given = (dims,) if isinstance(dims, int) else dims
        if layout.ndim > geometry.MOST_DIMS:
            raise geometry.too_many_dims()
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


@flip_dims.vjp
def _(g, dims):
    return (flip_dims(g, dims),)


def _method_with_sizes(name: str, argument: str, function: Callable) -> None:
    """x.name(1, 2) for x.name((1, 2))."""

    def method(self: Tensor, *given: Any, **keywords: Any) -> Tensor:
        if argument in keywords:
            if given:
                raise TypeError(f"{name}() got multiple values for argument '{argument}'")
            given = (keywords.pop(argument),)
        if not given:
            raise without_sizes(name, argument)
        if keywords:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(keywords))}'")
        return function(self, tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    setattr(Tensor, name, method)


_method_with_sizes("flip", "dims", flip_dims)


@composite()
def fliplr(input: Tensor) -> Tensor:
    """`input` with its second dimension reversed."""
    if input._layout.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip_dims(input, (1,))


@composite()
def flipud(input: Tensor) -> Tensor:
    """`input` with its first dimension reversed."""
    if input._layout.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip_dims(input, (0,))


@operator(jvp=LINEAR)
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """`input` moved by `shifts` along `dims`, what falls out coming in again; without dims the flattened tensor is
    moved."""
    steps = geometry.int_tuple(shifts)
    along = () if dims is None else geometry.int_tuple(dims)
    if not steps:
        raise RuntimeError("`shifts` required")
    if not along:
        if len(steps) > 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        whole = contiguous(tensor_from(input._storage, input._offset, input._layout))
        layout = whole._layout
        flat = tensor_from(whole._storage, whole._offset, Layout.contiguous((layout.numel,), layout.dtype, layout.device))
        made = rolled(flat, steps, (0,))
        return tensor_from(made._storage, 0, layout)
    if len(steps) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}")
    if not input._layout.numel:
        return input.detach().clone()
    if not input._layout.ndim:
        raise IndexError(f"Dimension specified as {along[0]} but tensor has no dimensions")
    return rolled(input, steps, along)


def rolled(input: Tensor, steps: tuple[int, ...], along: tuple[int, ...]) -> Tensor:
    """`roll` of a plain tensor, without a graph."""

    def describe(layout: Layout) -> tuple[Layout, list[Move]]:
        strides = memory_order.suggested_strides(layout.shape, layout.strides)
        out = Layout.of(layout.shape, strides, layout.dtype, layout.device)
        shift = [0] * layout.ndim
        for d, s in zip(along, steps):
            shift[wrap_dim(d, layout.ndim)] += s
        pieces: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)]
        for d, n in enumerate(layout.shape):
            k = shift[d] % n if n else 0
            parts = [(n - k, 0, k), (k, n - k, 0)] if k else [(n, 0, 0)]
            pieces = [
                ((*sizes, size), a + start * layout.strides[d], b + to * out.strides[d])
                for sizes, a, b in pieces
                for size, start, to in parts
            ]
        return out, [Move(layout.dtype, sizes, Buffer(1, a, layout.strides), Buffer(0, b, out.strides)) for sizes, a, b in pieces]

    return _moved("roll", input, (steps, along), describe)


@roll.vjp
def _(g, shifts, dims):
    return (g.roll([-shift for shift in geometry.int_tuple(shifts)], dims),)


@operator(name="repeat", function=False, method=False, jvp=LINEAR)
def _repeat(input: Tensor, repeats: tuple[int, ...]) -> Tensor:
    """`input` repeated along each dimension (new ones in front)."""

    def describe(layout: Layout) -> tuple[Layout, list[Move]]:
        new = len(repeats) - layout.ndim
        if new < 0:
            raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
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
        return (NAMESPACE["zeros"](shape, dtype=g._layout.dtype, device=g._layout.device),)
    whole = (*[1] * new, *shape)
    sizes = [x for n, r in zip(whole, repeats) for x in (r, n)]
    dims = tuple(2 * d for d in range(len(repeats)) if repeats[d] != 1 or d < new)
    g = g.reshape(sizes)
    return ((g.sum(dims) if dims else g).reshape(shape),)


def repeat(self: Tensor, *counts: Any, repeats: Any = None) -> Tensor:
    """This tensor repeated so many times along each dimension; more counts than dimensions put new ones in front."""
    repeats = counts if repeats is None else (repeats,)
    if not repeats:
        raise without_sizes("repeat", "repeats")
    given = tuple(repeats[0]) if len(repeats) == 1 and isinstance(repeats[0], (tuple, list)) else repeats
    if len(repeats) == 1 and given is repeats and not is_int(given[0]):
        raise refused("repeat", "repeats", "tuple of ints", given[0], 1)
    return _repeat(self, ints("repeat", "repeats", given, given is repeats))


Tensor.repeat = repeat  # type: ignore[attr-defined]


@composite(name="tile")
def _tile(input: Tensor, dims: Any) -> Tensor:
    """`input` repeated along each of its last dimensions."""
    given = geometry.int_tuple(dims)
    return _repeat(input, (*[1] * (input._layout.ndim - len(given)), *given))


_method_with_sizes("tile", "dims", _tile)


FEW = 4096  # elements that are moved sooner than a copy is looked up


def _repeat_plan(input: Tensor, repeats: Any, dim: int | None, *, output_size: int | None) -> Callable | None:
    """Elements repeated one number of times, as one move; where they are many, the copy that the composite makes is quicker."""
    layout = input._layout
    if repeats.__class__ is not int or layout.device.type != "cpu" or (dim is None and not layout.is_contiguous):
        return None
    if layout.numel * repeats > FEW:
        return None
    shape, strides = (layout.shape, layout.strides) if dim is not None and layout.ndim else ((layout.numel,), (1,))
    at = wrap_dim(dim or 0, len(shape))
    sizes = (*shape[: at + 1], repeats, *shape[at + 1 :])
    out = Layout.contiguous((*shape[:at], shape[at] * repeats, *shape[at + 1 :]), layout.dtype, layout.device)
    place = (*strides[: at + 1], 0, *strides[at + 1 :])
    return make_plan([Move(layout.dtype, sizes, Buffer(1, 0, place), Buffer(0, 0, contiguous_strides(sizes)))], [out], [layout])


@composite(planned=_repeat_plan)
def repeat_interleave(
    input: Tensor | None = None, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (slice along `dim`) repeated `repeats` times (a number, or a tensor with a count for each); without
    dim: flattened.

    repeat_interleave(repeats) gives the positions that these counts name.
    """
    if repeats is None or input is None:
        counts = input if repeats is None else repeats
        if counts is None:
            raise no_combination("repeat_interleave", ())
        if counts._layout.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return _counted(counts, output_size)
    if dim is None:
        input, dim = input.reshape(-1), 0
    at = wrap_dim(dim, input._layout.ndim)
    n = input._layout.shape[at] if input._layout.ndim else 1
    if not isinstance(repeats, Tensor) and not is_int(repeats):
        raise no_combination("repeat_interleave", (repeats,), {"dim": dim})
    if isinstance(repeats, Tensor) and repeats._layout.numel == 1 and (known(repeats) or output_size is None):
        _check_counts(repeats)
        count = int(repeats.item())
        if count < 0:
            raise RuntimeError("repeats can not be negative")
        if output_size is not None and output_size != n * count:
            raise RuntimeError("allocated size does not match required size")
        repeats = count
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        if output_size is not None and output_size != n * repeats:
            raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {n * repeats} but got {output_size}")
        lead, tail = input._layout.shape[:at], input._layout.shape[at + 1 :]
        whole = input.unsqueeze(at + 1).expand(*lead, n, repeats, *tail)
        return whole.clone(memory_format=_C_ORDER).reshape((*lead, n * repeats, *tail))
    if repeats._layout.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats._layout.numel != n:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats._layout.numel} and input.size({at}) = {n}"
        )
    return input.index_select(at, _counted(repeats, output_size))


def _check_counts(counts: Tensor) -> None:
    """NotImplementedError unless counts are int64 or int32."""
    if counts._layout.dtype.name not in ("int64", "int32"):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{counts._layout.dtype.scalar_name}'")


def _counted(counts: Tensor, output_size: int | None) -> Tensor:
    """Position i, counts[i] times; RuntimeError unless that makes output_size of them, where one is given."""
    if not known(counts):
        if output_size is None:
            words = "cannot repeat_interleave a meta tensor without output_size"
            raise needs_values(counts, "repeat_interleave.Tensor", RuntimeError(words))
        return counts.new_empty((output_size,))
    _check_counts(counts)
    n = counts._layout.numel
    if not n:
        return counts.detach().clone()
    ends = counts.detach().cumsum(0)
    if counts.min().item() < 0:
        raise RuntimeError("repeats can not be negative")
    total = int(ends[n - 1].item())
    if output_size is not None and output_size != total:
        raise RuntimeError("allocated size does not match required size")
    within_memory(Layout.contiguous((total,), counts._layout.dtype, counts._layout.device))
    # how many positions end before each place, which is the position that stands there
    ended = counts.new_zeros((total + 1,), dtype=int64)
    ended.index_add_(0, ends, counts.new_ones((1,), dtype=int64).expand(n))
    return ended.narrow(0, 0, total).cumsum(0).to(counts._layout.dtype)


@composite(node="Rot90Backward0")
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
        return flip_dims(input, (a, b))
    return owned(flip_dims(input, (b if turns == 1 else a,)).transpose(a, b))
