"""Windows of pooling: arguments checked as PyTorch checks them, output sizes, and the tables that the kernels walk.

Stands on base.layout and core.operator.arguments; used, with the kernels of codegen.pooling.windows, by ops/nn/max_pool.py
and its siblings.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from flambeau.base import memory_order
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.core.operator.arguments import ints, is_int, refused

Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # per output position: first input position, taps, extent for the divisor
_POSITIONS = {"kernel_size": 2, "stride": 3, "padding": 4, "dilation": 5}
WORDS = {1: "one int", 2: "two ints", 3: "three ints"}


class Window(NamedTuple):
    """The checked arguments of a pooling operator: its name, and one number per spatial dimension."""

    name: str
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool
    count_include_pad: bool = True
    divisor: int = 0


def frozen(value: Any) -> Any:
    """A list (or Size) of numbers as a tuple, which can be a key."""
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _numbers(name: str, argument: str, value: Any, dims: int, position: int) -> tuple[int, ...]:
    if isinstance(value, tuple):
        numbers = ints(name, argument, value, place=position)
    elif is_int(value):
        numbers = (value.__index__(),)
    else:
        raise refused(name, argument, "tuple of ints", value, position)
    if len(numbers) not in (1, dims):
        if argument == "stride":
            raise RuntimeError(f"{name}: stride must either be omitted, a single int, or a tuple of {WORDS[dims]}")
        if argument == "dilation":
            raise RuntimeError(f"{name}: dilation must be either a single int, or a tuple of {WORDS[dims]}")
        raise RuntimeError(f"{name}: {argument} must either be a single int, or a tuple of {WORDS[dims]}")
    return numbers * dims if len(numbers) == 1 else numbers


@lru_cache(maxsize=4096, typed=True)
def window(
    name: str,
    dims: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Window:
    """Checked arguments; stride None or () means the kernel's size."""
    kernel = _numbers(name, "kernel_size", kernel_size, dims, 2)
    strides = kernel if stride is None or stride == () else _numbers(name, "stride", stride, dims, 3)
    pads = _numbers(name, "padding", padding, dims, 4)
    steps = _numbers(name, "dilation", dilation, dims, 5)
    if divisor is not None and divisor == 0:
        raise RuntimeError("divisor must be not zero")
    if 0 in strides:
        raise RuntimeError("stride should not be zero")
    letters = "THW"[3 - dims :]
    for what, values, prefix in (("kernel size", kernel, "k"), ("stride", strides, "d"), ("dilation", steps, "dilation")):
        if min(values) <= 0:
            listed = " ".join(f"{prefix}{letter}: {v}" for letter, v in zip(letters, values))
            raise RuntimeError(f"{what} should be greater than zero, but got {listed}")
    for pad, size, step in zip(pads, kernel, steps):
        if pad < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {pad}")
        if pad > ((size - 1) * step + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={size} and dilation={step}"
            )
    return Window(name, kernel, strides, pads, steps, bool(ceil_mode), bool(count_include_pad), divisor or 0)


def pooled_size(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows lie along an axis."""
    reach = size + 2 * pad - dilation * (kernel - 1) - 1 + (stride - 1 if ceil_mode else 0)
    count = reach // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def check_image(name: str, layout: Layout, dims: int, words: str) -> None:
    """Refuse an input of the wrong rank, or with empty dimensions other than the batch."""
    shape = layout.shape
    if layout.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(words)
    if 0 in shape[layout.ndim - dims - 1 :]:
        if dims == 3:
            full = {"max_pool3d": "max_pool3d_with_indices_out_cpu_template"}.get(name, name)
            raise RuntimeError(
                f"{full}(): Expected input's non-batch dimensions to have positive length, but input has a shape of "
                f"{list(shape)} and non-batch dimension 0 has length zero!"
            )
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(shape)}"
        )


def pooled_shape(layout: Layout, w: Window) -> tuple[int, ...]:
    """Spatial shape of the result; RuntimeError where nothing would be left."""
    dims = len(w.kernel)
    sizes = layout.shape[layout.ndim - dims :]
    counts = tuple(pooled_size(*numbers, w.ceil_mode) for numbers in zip(sizes, w.kernel, w.stride, w.padding, w.dilation))
    if min(counts) < 1:
        channels = layout.shape[layout.ndim - dims - 1]
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (channels, *sizes)))}). Calculated output size: "
            f"({'x'.join(map(str, (channels, *counts)))}). Output size is too small"
        )
    return counts


def maximum_tables(sizes: Sequence[int], counts: Sequence[int], w: Window) -> list[Table]:
    """Windows clipped to the image, in steps of the dilation."""
    tables: list[Table] = []
    for size, count, kernel, stride, pad, step in zip(sizes, counts, w.kernel, w.stride, w.padding, w.dilation):
        first = np.arange(count) * stride - pad
        end = np.minimum(first + (kernel - 1) * step + 1, size)
        first = np.where(first < 0, first - first // step * step, first)
        taps = np.maximum(0, -((first - end) // step))
        tables.append((first, taps, taps))
    return tables


def mean_tables(sizes: Sequence[int], counts: Sequence[int], w: Window) -> list[Table]:
    """Windows clipped to the image; the extent counts padding if it takes part in the mean."""
    tables: list[Table] = []
    for size, count, kernel, stride, pad in zip(sizes, counts, w.kernel, w.stride, w.padding):
        first = np.arange(count) * stride - pad
        end = np.minimum(first + kernel, size + pad)
        begin = np.maximum(first, 0)
        taps = np.maximum(0, np.minimum(end, size) - begin)
        tables.append((begin, taps, end - first if w.count_include_pad else taps))
    return tables


def adaptive_tables(sizes: Sequence[int], counts: Sequence[int]) -> list[Table]:
    """`count` windows that cover the axis as evenly as can be."""
    tables: list[Table] = []
    for size, count in zip(sizes, counts):
        whole, rest = divmod(size, max(count, 1))  # apart: a product of the two sizes might not fit an integer
        at = np.arange(count)
        begin = at * whole + at * rest // max(count, 1)
        taps = (at + 1) * whole - -(at + 1) * rest // max(count, 1) - begin
        tables.append((begin, taps, taps))
    return tables


def least_taps(table: Table) -> int:
    """The elements of an axis in its smallest window; 1 where there is no window."""
    return int(table[1].min()) if len(table[1]) else 1


def most_taps(table: Table) -> int:
    """The elements of an axis in its largest window; 1 where there is no window."""
    return int(table[1].max()) if len(table[1]) else 1


def check_gradient(name: str, layout: Layout) -> None:
    """RuntimeError for a gradient of adaptive pooling without elements, unless for want of images."""
    for dim in range(1, layout.ndim):
        if layout.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, but "
                f"grad_output has sizes {list(layout.shape)} with dimension {dim} being empty"
            )


def three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Values of one to three spatial dimensions as those of z, y, x."""
    return (fill,) * (3 - len(values)) + tuple(values)


def result_layout(layout: Layout, dims: int, counts: Sequence[int], dtype: DType | None = None, volumes: bool = False) -> Layout:
    """Where the result lies: channels last if the input is an image that does (or a volume, with `volumes`, also one without a
    batch), contiguous otherwise.
    """
    shape = (*layout.shape[: layout.ndim - dims], *counts)
    dtype = dtype or layout.dtype
    orders = layout.ndim == dims + 2 and (dims == 2 or volumes)
    if orders and memory_order.suggests_channels_last(layout.shape, layout.strides):
        return Layout.of(shape, memory_order.channels_last_strides(shape), dtype, layout.device)
    if (
        volumes
        and layout.ndim == dims + 1 == 4
        and not layout.is_contiguous
        and memory_order.is_channels_last((1, *layout.shape), (layout.numel, *layout.strides))
    ):
        return Layout.of(shape, memory_order.channels_last_strides((1, *shape))[1:], dtype, layout.device)
    return Layout.contiguous(shape, dtype, layout.device)


def constants(
    image: Layout,
    result: Layout,
    dims: int,
    tables: Sequence[Table] = (),
    steps: Sequence[int] = (),
    divisor: int = 0,
    table_plane: int = 0,
    slice: int = 0,
) -> array[int]:
    """The constants of a phase (pooling.windows.GEOMETRY and the tables): image strides and size, result strides and size."""

    def strides(layout: Layout) -> tuple[int, ...]:
        own = layout.strides
        batch = own[0] if layout.ndim == dims + 2 else 0
        return batch, own[layout.ndim - dims - 1], *three(own[layout.ndim - dims :], 0)

    words = array(
        "q",
        [
            image.shape[image.ndim - dims - 1],
            *three(result.shape[result.ndim - dims :], 1),
            *strides(image),
            *strides(result),
            *three(image.shape[image.ndim - dims :], 1),
            *three(steps or (1,) * dims, 1),
            divisor,
            table_plane,
            slice,
        ],
    )
    if tables:
        single: Table = (np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.int64))
        for table in [single] * (3 - dims) + list(tables):
            for column in table:
                words.frombytes(column.tobytes())
    return words


def planes(layout: Layout, dims: int) -> int:
    """Number of images of one channel."""
    return layout.shape[layout.ndim - dims - 1] * (layout.shape[0] if layout.ndim == dims + 2 else 1)


def plane_is_dense(layout: Layout, dims: int) -> bool:
    """Whether the elements of a plane lie in order without gaps."""
    expected = 1
    for size, stride in zip(reversed(layout.shape[layout.ndim - dims :]), reversed(layout.strides[layout.ndim - dims :])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def one_number(name: str, argument: str, value: Any) -> int:
    """A number given alone or as a sequence of one. TypeError for what is no int."""
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise RuntimeError(
                f"{name}() {argument} must be an int, list of ints or tuple of ints of size 1 but got size {len(value)}"
            )
        return ints(name, argument, value, place=_POSITIONS[argument])[0]
    if not is_int(value):
        raise refused(name, argument, "tuple of ints", value, _POSITIONS[argument])
    return int(value)


def check_rank(layout: Layout, name: str) -> None:
    """Refuse what is neither (N, C, L) nor (C, L)."""
    if layout.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {layout.ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {name})"
        )
