"""How the elements of a strided tensor lie in memory: density, orders of dimensions and the strides they give, overlap.

Pure functions on tuples of ints, strides in elements. The output order of elementwise operators, loop collapsing and the aliasing
checks stand on this page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flambeau.base.layout import contiguous as is_contiguous
from flambeau.base.layout import contiguous_strides

Shape = tuple[int, ...]


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
        raise RuntimeError(f"ChannelsLast stride indices can be computed only for 4 or 5 dimensions, got {len(shape)}")
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
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
    if shape == target:
        return strides
    lead = len(target) - len(shape)
    if lead < 0 or any(size not in (1, target[dim + lead]) for dim, size in enumerate(shape)):
        raise RuntimeError(f"an operand of shape {list(shape)} doesn't broadcast to {list(target)}")
    return (0,) * lead + tuple(
        [
            0 if size == 1 and target[dim + lead] != 1 else stride
            for dim, (size, stride) in enumerate(zip(shape, strides, strict=True))
        ]
    )


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


def format_strides(shape: Shape, strides: Shape) -> Shape:
    """Strides of a fresh result in the memory format in which a dense tensor lies, whatever the strides of dimensions of size 1
    say (C order wins where both fit); those that are suggested for other tensors."""
    if is_contiguous(shape, strides):
        return contiguous_strides(shape)
    return channels_last_strides(shape) if is_channels_last(shape, strides) else suggested_strides(shape, strides)


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
    first = operands[0]
    if is_contiguous(shape, first) and all(strides == first for strides in operands):
        numel = math.prod(shape)
        return ((numel,), [(1,)] * len(operands)) if numel != 1 else ((), [()] * len(operands))
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

OVERLAPS_ITSELF = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)
OVERLAPS_INPUT = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
    "memory location. Please clone() the tensor before performing the operation."
)


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
    return not same_elements or (strides_a != strides_b and (math.prod(shape_a) > 1 or len(shape_b) > 1))
