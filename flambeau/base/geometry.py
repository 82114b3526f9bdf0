"""The algebra of shapes and strides: pure functions on tuples of ints, no tensors.

Every view operator, the broadcasting and the output order of elementwise operators, loop collapsing and the aliasing
checks stand on this page. Strides count elements. Functions called `*_geometry` return `(shape, strides, offset)` where
offset is what the view adds to the storage offset. Errors are PyTorch's types and words.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.layout import contiguous as is_contiguous
from flambeau.base.layout import contiguous_strides

__all__ = [
    "as_strided_geometry", "broadcast", "broadcast_shapes", "channels_last_strides", "check_storage_bounds", "collapse",
    "contiguous_strides", "diagonal_geometry", "elementwise_strides", "expand_geometry", "extent", "has_overlap",
    "infer_size", "int_tuple", "is_channels_last", "is_contiguous", "is_dense", "movedim_order", "overlaps_itself",
    "permute_geometry", "preserved_strides", "reshape_strides", "same_order", "select_geometry", "slice_geometry",
    "squeeze_geometry", "suggested_strides", "suggests_channels_last", "transpose_geometry", "unfold_geometry",
    "unsqueeze_geometry", "wrap_dim", "wrap_dims", "wrap_reduction_dims",
]

Shape = tuple[int, ...]
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
        return _PLACES[ndim][dim]
    except IndexError:
        pass
    except TypeError as error:
        for explain in explanations:
            explain(error)
    count = ndim or 1
    if -count <= operator.index(dim) < count:
        return operator.index(dim) % count
    if not -1 << 63 <= operator.index(dim) < 1 << 63:       # TypeError for what is no integer
        raise ValueError("Overflow when unpacking long long")
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")


def wrap_real_dim(dim: int, ndim: int) -> int:
    """`wrap_dim` for operators that need a dimension: IndexError for a zero-dim tensor too."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def wrap_dims(dims: Sequence[int], ndim: int) -> Shape:
    """Every dimension counted from the front, each at most once. Raises IndexError, RuntimeError for repeats."""
    wrapped: list[int] = []
    for dim in dims:
        place = wrap_dim(dim, ndim)
        if place in wrapped:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        wrapped.append(place)
    return tuple(wrapped)


def wrap_reduction_dims(dims: int | Sequence[int] | None, ndim: int) -> Shape:
    """The dimensions a reduction removes, ascending: None and the empty sequence mean all of them."""
    if isinstance(dims, int):
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
            raise RuntimeError(f"The size of tensor a ({size_a}) must match the size of tensor b ({size_b}) at "
                               f"non-singleton dimension {dim + ndim}")
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
                    f"{position} had {shape}; but expected shape should be broadcastable to {result}")
            result[dim] = size
    return tuple(result)


def expand_geometry(shape: Shape, strides: Shape, sizes: Sequence[int], type_name: str = "torch.FloatTensor") -> Geometry:
    """Repeat dimensions of size 1 (and new leading ones) without copying; -1 keeps a size."""
    ndim, new = len(shape), len(sizes)
    if new < ndim:
        raise RuntimeError(
            f"expand({type_name}{{{list(shape)}}}, size={list(sizes)}): the number of sizes provided ({new}) must be "
            f"greater or equal to the number of dimensions in the tensor ({ndim})")
    lead = new - ndim
    out_shape: list[int] = []
    out_strides: list[int] = []
    for dim in range(new - 1, -1, -1):      # from the last one, which is the one that a refusal names
        size = sizes[dim]
        if dim < lead:
            if size < 0:
                raise RuntimeError(f"The expanded size of the tensor ({size}) isn't allowed in a leading, "
                                   f"non-existing dimension {dim}")
            out_shape.append(size)
            out_strides.append(0)
            continue
        old, stride = shape[dim - lead], strides[dim - lead]
        if size == -1 or size == old:
            out_shape.append(old)
            out_strides.append(stride)
            continue
        if old != 1 or size < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({old}) at non-singleton "
                f"dimension {dim}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(shape)}")
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
                "-1 can be any value and is ambiguous")
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


NOT_VIEWABLE = ("view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead.")


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
            f"ordering of dimensions i.e. input.dim() = {len(shape)} is not equal to len(dims) = {len(dims)}")
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
            f"of dims as destination ({list(destination)} dims)")
    origin = [wrap_dim(dim, ndim) for dim in source]
    target = [wrap_dim(dim, ndim) for dim in destination]
    for name, given, wrapped in (("source", source, origin), ("destination", destination, target)):
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
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
    return shape[:place] + shape[place + 1:], strides[:place] + strides[place + 1:], start * strides[place]


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
    return ((*shape[:place], length, *shape[place + 1:]), (*strides[:place], strides[place] * step, *strides[place + 1:]),
            first * strides[place])


def narrow_bounds(shape: Shape, dim: int, start: int, length: int) -> tuple[int, int]:
    """The dimension and start of `narrow`, checked. Raises RuntimeError and IndexError."""
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
    return ((*shape[:place], count, *shape[place + 1:], size),
            (*strides[:place], strides[place] * step, *strides[place + 1:], strides[place]), 0)


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


def as_strided_geometry(sizes: Sequence[int], strides: Sequence[int], offset: int, itemsize: int,
                        storage_nbytes: int) -> Geometry:
    """An arbitrary view of storage, checked to lie inside it; offset is the view's own storage offset."""
    if len(sizes) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(stride < 0 for stride in strides):
        raise RuntimeError("as_strided: Negative strides are not supported at the moment, got strides: "
                           f"{list(strides)}")
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    check_storage_bounds(sizes, strides, offset, itemsize, storage_nbytes)
    return tuple(sizes), tuple(strides), offset


def check_storage_bounds(sizes: Sequence[int], strides: Sequence[int], offset: int, itemsize: int,
                         storage_nbytes: int) -> None:
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
            f"{itemsize} requiring a storage size of {needed} are out of bounds for storage of size {storage_nbytes}")


# ---------------------------------------------------------------- memory order


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of storage a tensor reaches over, from its first element to its last, holes included."""
    reach = 1
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return 0
        reach += (size - 1) * stride
    return reach


def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether the elements fill a stretch of storage exactly once, in whatever order of dimensions."""
    if is_contiguous(shape, strides):
        return True
    step = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride != step:
            return False
        step *= size
    return True


_CHANNELS_LAST = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def channels_last_strides(shape: Shape) -> Shape:
    """Strides of a fresh channels_last (4 dimensions) or channels_last_3d (5) tensor."""
    order = _CHANNELS_LAST.get(len(shape))
    if order is None:
        raise RuntimeError("ChannelsLast stride indices can be computed only for 4 or 5 dimensions, "
                           f"got {len(shape)}")
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim] or 1
    return tuple(strides)


def is_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether the elements lie densely in channels_last order (what `is_contiguous(memory_format=...)` answers)."""
    order = _CHANNELS_LAST.get(len(shape))
    if order is None:
        return False
    step = 1
    for dim in order:
        if shape[dim] != 1:
            if strides[dim] != step:
                return False
            step *= shape[dim]
    return True


def suggests_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether operators should answer in channels_last order: the strides say so, gaps allowed, ambiguity excluded."""
    order = _CHANNELS_LAST.get(len(shape))
    if order is None or strides[1] == 0:
        return False
    least = 0
    for dim in order:
        if shape[dim] == 0 or strides[dim] < least:
            return False
        if dim == 0 and least == strides[1]:  # N111 and 1C11 fit both orders
            return False
        least = strides[dim]
        if shape[dim] > 1:
            least *= shape[dim]
    return True


def _memory_order(shape: Shape, operands: Sequence[Shape]) -> list[int]:
    """The dimensions from innermost to outermost in memory, as the operands' strides have it; doubts keep C order.

    Strides of an operand are those in the broadcast shape (0 where it is repeated).
    """
    order = list(range(len(shape) - 1, -1, -1))
    for position in range(1, len(order)):
        moving = position
        for other in range(position - 1, -1, -1):
            verdict = _compare(order[other], order[moving], shape, operands)
            if verdict > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif verdict < 0:
                break
    return order


def _compare(inner: int, outer: int, shape: Shape, operands: Sequence[Shape]) -> int:
    """Positive if `outer` should lie inside `inner`, negative if not, 0 if no operand tells."""
    for strides in operands:
        a, b = strides[inner], strides[outer]
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[inner] > shape[outer]:
            return 1
    return 0


def _strides_in_order(shape: Shape, order: Sequence[int]) -> Shape:
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def broadcast_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """Strides that walk an operand of `shape` over the shape `target` it broadcasts to. RuntimeError if it doesn't."""
    lead = len(target) - len(shape)
    if lead < 0 or any(size not in (1, target[dim + lead]) for dim, size in enumerate(shape)):
        raise RuntimeError(f"an operand of shape {list(shape)} doesn't broadcast to {list(target)}")
    return (0,) * lead + tuple([0 if size == 1 and target[dim + lead] != 1 else stride
                                for dim, (size, stride) in enumerate(zip(shape, strides, strict=True))])


def elementwise_strides(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> Shape:
    """Strides of the fresh result, of shape `shape`, of an elementwise operator on operands `(shape, strides)`.

    Operands agreeing on an order of dimensions give a result in that order; Python numbers are left out by the caller
    or passed as `((), ())`.
    """
    if all(own == shape for own, _ in operands):
        if all(is_contiguous(own, strides) for own, strides in operands):
            return contiguous_strides(shape)
        if len(shape) == 4 and all(is_channels_last(own, strides) for own, strides in operands):
            return channels_last_strides(shape)
        first = operands[0][1]
        if all(strides == first for _, strides in operands) and is_dense(shape, first):
            return first
    order = _memory_order(shape, [broadcast_strides(own, strides, shape) for own, strides in operands])
    if order == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    return _strides_in_order(shape, order)


def same_order(shape: Shape, strides: Shape, others: Shape) -> bool:
    """Whether elements at `strides`, perhaps with gaps, lie in memory in the order of the dense strides `others`."""
    dense = preserved_strides(shape, strides)
    return 0 in shape or all(a == b for size, a, b in zip(shape, dense, others) if size > 1)


def suggested_strides(shape: Shape, strides: Shape) -> Shape:
    """Strides of a fresh result in the memory format of a tensor like this one: channels_last, or else C order."""
    return channels_last_strides(shape) if suggests_channels_last(shape, strides) else contiguous_strides(shape)


def preserved_strides(shape: Shape, strides: Shape) -> Shape:
    """Strides of a fresh tensor like this one (`preserve_format`): the same if dense, else dense in the same order."""
    if is_dense(shape, strides):
        return strides
    order = _memory_order(shape, [strides])
    return contiguous_strides(shape) if order == list(range(len(shape) - 1, -1, -1)) else _strides_in_order(shape, order)


def collapse(shape: Shape, operands: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """The fewest loops that visit the same elements of every operand: `(sizes, strides of each operand)`.

    Dimensions of size 1 go; the others are ordered by the first operand's stride (largest outermost, the other
    operands decide between equals) and merged where every operand walks evenly across the seam. No loop at all is `()`;
    an empty shape gives `(0,)`. The order of visits may change, so reductions collapse kept and reduced dimensions
    separately.
    """
    if 0 in shape:
        return (0,), [(1,)] * len(operands)
    dims = [dim for dim in range(len(shape)) if shape[dim] != 1]
    if len(dims) > 1:
        dims.sort(key=lambda dim: [-abs(strides[dim]) for strides in operands])
    sizes: list[int] = []
    steps: list[list[int]] = []
    for dim in dims:
        step = [strides[dim] for strides in operands]
        if sizes and all(outer == own * shape[dim] for outer, own in zip(steps[-1], step, strict=True)):
            sizes[-1] *= shape[dim]
            steps[-1] = step
        else:
            sizes.append(shape[dim])
            steps.append(step)
    return tuple(sizes), [tuple([step[number] for step in steps]) for number in range(len(operands))]


# ---------------------------------------------------------------- aliasing

OVERLAPS_ITSELF = ("unsupported operation: more than one element of the written-to tensor refers to a single memory "
                   "location. Please clone() the tensor before performing the operation.")
OVERLAPS_INPUT = ("unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                  "memory location. Please clone() the tensor before performing the operation.")


def overlaps_itself(shape: Shape, strides: Shape) -> bool:
    """Whether two indices surely name one element (a repeated dimension); writes to such tensors are refused."""
    return 0 not in shape and any(stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=True))


def share_elements(written: tuple[Shape, Shape, int], read: tuple[Shape, Shape, int]) -> bool:
    """Whether two dense tensors `(shape, strides, offset)` of one storage and dtype have elements in common.

    As in PyTorch, tensors that are not dense count as free of overlap.
    """
    (shape_a, strides_a, start_a), (shape_b, strides_b, start_b) = written, read
    if 0 in shape_a or 0 in shape_b or not is_dense(shape_a, strides_a) or not is_dense(shape_b, strides_b):
        return False
    return start_a < start_b + math.prod(shape_b) and start_b < start_a + math.prod(shape_a)


def has_overlap(written: tuple[Shape, Shape, int], read: tuple[Shape, Shape, int]) -> bool:
    """Whether two dense tensors `(shape, strides, offset)` of one storage and dtype share elements, but are not the same."""
    if not share_elements(written, read):
        return False
    (shape_a, strides_a, start_a), (shape_b, strides_b, start_b) = written, read
    same_elements = start_a == start_b and math.prod(shape_a) == math.prod(shape_b)
    return not same_elements or strides_a != strides_b
