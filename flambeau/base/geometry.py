"""The algebra of shapes and views: pure functions on tuples of ints, no tensors.

Dimensions, broadcasting and every view operator stand on this page. Strides count elements. Functions called `*_geometry` return
`(shape, strides, offset)` where offset is what the view adds to the storage offset. Errors are PyTorch's types and words.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.layout import contiguous_strides
from flambeau.base.memory_order import Shape, extent
from flambeau.base.tracebacks import filter_traceback

Geometry = tuple[Shape, Shape, int]

# ---------------------------------------------------------------- dimensions


explanations: list[Callable[[BaseException], None]] = []
"""What to ask for the words of a refusal where a dimension is no integer."""
_PLACES = ((0,), *(tuple(range(count)) for count in range(1, 65)))


def wrap_dim(dim: int, ndim: int) -> int:
    """The dimension counted from the front; a zero-dim tensor has the dimensions -1 and 0.

    Raises IndexError, TypeError for what is no integer.
    """
    try:
        try:
            return _PLACES[ndim][dim]
        except IndexError:
            pass
        except TypeError as error:
            for explain in explanations:
                explain(error)
        count = ndim or 1
        if -count <= operator.index(dim) < count:
            return operator.index(dim) % count
        if not -1 << 63 <= operator.index(dim) < 1 << 63:  # TypeError for what is no integer
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")
    except Exception as error:
        filter_traceback(error)
        raise


def wrap_real_dim(dim: int, ndim: int) -> int:
    """`wrap_dim` for operators that need a dimension: IndexError for a zero-dim tensor too."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


MOST_DIMS = 64  # that operators can be told to go along
TOO_MANY_DIMS = "only tensors with up to 64 dims are supported"


def wrap_dims(dims: Sequence[int], ndim: int) -> Shape:
    """Every dimension counted from the front, each at most once. Raises IndexError, RuntimeError for repeats."""
    if ndim > MOST_DIMS:
        raise RuntimeError(TOO_MANY_DIMS)
    wrapped: list[int] = []
    for dim in dims:
        place = wrap_dim(dim, ndim)
        if place in wrapped:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        wrapped.append(place)
    return tuple(wrapped)


MOST_DIMS = 64  # of tensors whose dimensions are chosen: PyTorch keeps a choice in a word


def too_many_dims() -> RuntimeError:
    return RuntimeError("only tensors with up to 64 dims are supported")


def wrap_reduction_dims(dims: int | Sequence[int] | None, ndim: int) -> Shape:
    """The dimensions a reduction removes, ascending: None and the empty sequence mean all of them. RuntimeError for single ones
    of more than 64.
    """
    if ndim > MOST_DIMS and dims is not None:
        raise too_many_dims()
    if isinstance(dims, int):
        if ndim > MOST_DIMS:
            raise RuntimeError(TOO_MANY_DIMS)
        return (wrap_dim(dims, ndim),) if ndim else (wrap_dim(dims, ndim),)[:0]
    if dims is None or len(dims) == 0:
        return tuple(range(ndim))
    wrapped = wrap_dims(dims, ndim)
    return tuple(sorted(wrapped)) if ndim else ()


def int_tuple(value: Any) -> Shape:
    """One integer of any kind, or a list or tuple of them, as a tuple of ints. TypeError for anything else."""
    if isinstance(value, (tuple, list)):
        return tuple([operator.index(item) for item in value])
    return (operator.index(value),)


# ---------------------------------------------------------------- broadcasting


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of an elementwise operator's operands. Raises RuntimeError in the operators' words."""
    result = shapes[0]
    for shape in shapes[1:]:
        if shape != result:
            result = _broadcast_pair(result, shape)
    return result


def _broadcast_pair(a: Shape, b: Shape) -> Shape:
    ndim = max(len(a), len(b))
    sizes: list[int] = []
    for dim in range(-1, -1 - ndim, -1):
        size_a = a[dim] if -dim <= len(a) else 1
        size_b = b[dim] if -dim <= len(b) else 1
        if size_a == size_b or size_b == 1:
            sizes.append(size_a)
        elif size_a == 1:
            sizes.append(size_b)
        else:
            raise RuntimeError(
                f"The size of tensor a ({size_a}) must match the size of tensor b ({size_b}) at "
                f"non-singleton dimension {dim + ndim}"
            )
    sizes.reverse()
    return tuple(sizes)


def broadcast_shapes(*shapes: int | Sequence[int] | None) -> Shape:
    """The public `broadcast_shapes`: the same rule, an int counting as a shape of one dimension, and its own words."""
    for shape in shapes:
        if not isinstance(shape, (int, tuple, list, type(None))):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    given = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes if shape is not None]
    result = [1] * max((len(shape) for shape in given), default=0)
    for position, shape in enumerate(given):
        for dim in range(-1, -1 - len(shape), -1):
            size = shape[dim]
            if size < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({size}): ({size})")
            if size == 1 or size == result[dim]:
                continue
            if result[dim] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {dim}! Mismatching argument at index "
                    f"{position} had {shape}; but expected shape should be broadcastable to {result}"
                )
            result[dim] = size
    return tuple(result)


def expand_geometry(shape: Shape, strides: Shape, sizes: Sequence[int], type_name: str = "torch.FloatTensor") -> Geometry:
    """Repeat dimensions of size 1 (and new leading ones) without copying; -1 keeps a size."""
    ndim, new = len(shape), len(sizes)
    if new < ndim:
        raise RuntimeError(
            f"expand({type_name}{{{list(shape)}}}, size={list(sizes)}): the number of sizes provided ({new}) must be "
            f"greater or equal to the number of dimensions in the tensor ({ndim})"
        )
    lead = new - ndim
    out_shape: list[int] = []
    out_strides: list[int] = []
    for dim in range(new - 1, -1, -1):  # from the last one, which is the one that a refusal names
        size = sizes[dim]
        if dim < lead:
            if size < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {dim}"
                )
            # one that doesn't repeat has a stride as a contiguous tensor has it
            out_strides.append(out_shape[-1] * out_strides[-1] if size == 1 and ndim else 0)
            out_shape.append(size)
            continue
        old, stride = shape[dim - lead], strides[dim - lead]
        if size == -1 or size == old:
            out_shape.append(old)
            out_strides.append(stride)
            continue
        if old != 1 or size < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({old}) at non-singleton "
                f"dimension {dim}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(shape)}"
            )
        out_shape.append(size)
        out_strides.append(0)
    return tuple(out_shape[::-1]), tuple(out_strides[::-1]), 0


# ---------------------------------------------------------------- views


def infer_size(sizes: Sequence[int], numel: int) -> Shape:
    """Fill in the one -1 of `sizes` so that they hold `numel` elements. Raises RuntimeError."""
    unknown: int | None = None
    known = 1
    for position, size in enumerate(sizes):
        if size == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = position
        elif size < 0:
            raise RuntimeError(f"invalid shape dimension {size} at index {position} of shape {list(sizes)}")
        else:
            known *= size
    if unknown is None:
        if known == numel:
            return tuple(sizes)
    elif known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified dimension size "
                "-1 can be any value and is ambiguous"
            )
    elif numel % known == 0:
        filled = list(sizes)
        filled[unknown] = numel // known
        return tuple(filled)
    raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")


def reshape_strides(shape: Shape, strides: Shape, new_shape: Shape) -> Shape | None:
    """Strides that show the same elements in `new_shape` (same number of elements), or None if a copy is needed."""
    if 0 in shape:
        return strides if shape == new_shape else contiguous_strides(new_shape)
    if not shape:
        return (1,) * len(new_shape)
    result = [0] * len(new_shape)
    place = len(new_shape) - 1
    # Old dimensions form blocks that are evenly spaced in memory; each block must be a product of new dimensions.
    block_stride, block_numel, placed_numel = strides[-1], 1, 1
    for dim in range(len(shape) - 1, -1, -1):
        block_numel *= shape[dim]
        if dim and (shape[dim - 1] == 1 or strides[dim - 1] == block_numel * block_stride):
            continue
        while place >= 0 and (placed_numel < block_numel or new_shape[place] == 1):
            result[place] = placed_numel * block_stride
            placed_numel *= new_shape[place]
            place -= 1
        if placed_numel != block_numel:
            return None
        if dim:
            block_stride, block_numel, placed_numel = strides[dim - 1], 1, 1
    return tuple(result) if place == -1 else None


NOT_VIEWABLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
    "two contiguous subspaces). Use .reshape(...) instead."
)


def view_geometry(shape: Shape, strides: Shape, sizes: Sequence[int]) -> Geometry:
    """The elements in another shape; RuntimeError if that takes a copy."""
    new_shape = infer_size(sizes, math.prod(shape))
    new_strides = reshape_strides(shape, strides, new_shape)
    if new_strides is None:
        raise RuntimeError(NOT_VIEWABLE)
    return new_shape, new_strides, 0


def permute_geometry(shape: Shape, strides: Shape, dims: Sequence[int]) -> Geometry:
    """The dimensions in the order `dims`."""
    if len(dims) != len(shape):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {len(shape)} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(dim, len(shape)) for dim in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return tuple([shape[dim] for dim in order]), tuple([strides[dim] for dim in order]), 0


def transpose_geometry(shape: Shape, strides: Shape, dim0: int, dim1: int) -> Geometry:
    """Two dimensions swapped."""
    a, b = wrap_dim(dim0, len(shape)), wrap_dim(dim1, len(shape))
    if a == b:
        return shape, strides, 0
    sizes, steps = list(shape), list(strides)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    steps[a], steps[b] = steps[b], steps[a]
    return tuple(sizes), tuple(steps), 0


def movedim_order(ndim: int, source: Sequence[int], destination: Sequence[int]) -> Shape:
    """The permutation that moves the dimensions `source` to `destination` and keeps the others in order."""
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same number "
            f"of dims as destination ({list(destination)} dims)"
        )
    origin = [wrap_dim(dim, ndim) for dim in source]
    target = [wrap_dim(dim, ndim) for dim in destination]
    for name, given, wrapped in (("source", source, origin), ("destination", destination, target)):
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    if not ndim:  # of a number, which has a dimension only to those who ask for one
        return ()
    order = [-1] * ndim
    for here, there in zip(origin, target, strict=True):
        order[there] = here
    rest = iter([dim for dim in range(ndim) if dim not in origin])
    return tuple(next(rest) if dim < 0 else dim for dim in order)


def squeeze_geometry(shape: Shape, strides: Shape, dims: Sequence[int] | None) -> Geometry:
    """Without the dimensions of size 1: all of them, or those among `dims`."""
    chosen = range(len(shape)) if dims is None else wrap_dims(dims, len(shape))
    kept = [dim for dim in range(len(shape)) if shape[dim] != 1 or dim not in chosen]
    return tuple([shape[dim] for dim in kept]), tuple([strides[dim] for dim in kept]), 0


def unsqueeze_geometry(shape: Shape, strides: Shape, dim: int) -> Geometry:
    """With a new dimension of size 1 at `dim`."""
    place = wrap_dim(dim, len(shape) + 1)
    step = shape[place] * strides[place] if place < len(shape) else 1
    return (*shape[:place], 1, *shape[place:]), (*strides[:place], step, *strides[place:]), 0


def select_geometry(shape: Shape, strides: Shape, dim: int, index: int) -> Geometry:
    """Without dimension `dim`, at position `index` of it. Raises IndexError."""
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    place = wrap_dim(dim, len(shape))
    size = shape[place]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {place}")
    start = index + size if index < 0 else index
    return shape[:place] + shape[place + 1 :], strides[:place] + strides[place + 1 :], start * strides[place]


def slice_geometry(shape: Shape, strides: Shape, dim: int, start: int | None, end: int | None, step: int) -> Geometry:
    """Positions start, start + step, ... before end of dimension `dim`; bounds are clipped as Python clips them."""
    if not shape:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    place = wrap_dim(dim, len(shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    size = shape[place]
    first = 0 if start is None else min(max(start + size if start < 0 else start, 0), size)
    last = size if end is None else min(max(end + size if end < 0 else end, first), size)
    last = max(last, first)
    length = (last - first + step - 1) // step
    return (
        (*shape[:place], length, *shape[place + 1 :]),
        (*strides[:place], strides[place] * step, *strides[place + 1 :]),
        first * strides[place],
    )


def narrow_bounds(shape: Shape, dim: int, start: int, length: int) -> tuple[int, int]:
    """The dimension and start of `narrow`, checked. Raises RuntimeError and IndexError."""
    try:
        if not shape:
            raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
        if length < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
        place = wrap_dim(dim, len(shape))
        size = shape[place]
        if not -size <= start <= size:
            raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
        first = start + size if start < 0 else start
        if first + length > size:
            raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
        return place, first
    except Exception as error:
        filter_traceback(error)
        raise


def unfold_geometry(shape: Shape, strides: Shape, dim: int, size: int, step: int) -> Geometry:
    """Windows of `size` elements every `step` along `dim`; the windows' elements become the last dimension."""
    place = wrap_dim(dim, len(shape))
    length = shape[place] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {place} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not shape:
        return (size,), (1,), 0
    count = (length - size) // step + 1
    return (
        (*shape[:place], count, *shape[place + 1 :], size),
        (*strides[:place], strides[place] * step, *strides[place + 1 :], strides[place]),
        0,
    )


def diagonal_geometry(shape: Shape, strides: Shape, offset: int, dim1: int, dim2: int) -> Geometry:
    """The diagonal of two dimensions as the last dimension."""
    a, b = wrap_dim(dim1, len(shape)), wrap_dim(dim2, len(shape))
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = max(min(shape[a], shape[b] - offset) if offset >= 0 else min(shape[a] + offset, shape[b]), 0)
    start = 0
    if length:
        start = offset * strides[b] if offset >= 0 else -offset * strides[a]
    kept = [dim for dim in range(len(shape)) if dim not in (a, b)]
    return ((*[shape[dim] for dim in kept], length), (*[strides[dim] for dim in kept], strides[a] + strides[b]), start)


def as_strided_geometry(
    sizes: Sequence[int], strides: Sequence[int], offset: int, itemsize: int, storage_nbytes: int
) -> Geometry:
    """An arbitrary view of storage, checked to lie inside it; offset is the view's own storage offset."""
    if len(sizes) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(stride < 0 for stride in strides):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}")
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    check_storage_bounds(sizes, strides, offset, itemsize, storage_nbytes)
    return tuple(sizes), tuple(strides), offset


def check_storage_bounds(sizes: Sequence[int], strides: Sequence[int], offset: int, itemsize: int, storage_nbytes: int) -> None:
    """Raise RuntimeError unless a tensor of this geometry lies inside a storage of so many bytes."""
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if len(sizes) != len(strides):
        raise RuntimeError(f"unequal size length ({len(sizes)}) and stride length ({len(strides)})")
    if any(stride < 0 for stride in strides):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    if 0 in sizes:
        return
    needed = (offset + extent(sizes, strides)) * itemsize
    if needed >= 1 << 64:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    if needed > storage_nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{itemsize} requiring a storage size of {needed} are out of bounds for storage of size {storage_nbytes}"
        )
