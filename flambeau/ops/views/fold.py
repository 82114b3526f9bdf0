"""Blocks of images: unfold (im2col), fold (col2im), pixel_shuffle, pixel_unshuffle, channel_shuffle.

Stands on codegen.gather_scatter.move. Faces: flambeau.nn.functional; the first two are torch.nn.functional's, not the
tensor method `unfold`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, register_cache
from flambeau.codegen.gather_scatter.move import Buffer, Move
from flambeau.core.autograd.node import one_step
from flambeau.core.operator.define import operator
from flambeau.core.operator.facets import LINEAR, described
from flambeau.core.operator.publishing import NAMESPACE, explained
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import clone, suggested_format
from flambeau.ops.indexing.gather_plans import make_plan

_plans: dict[Any, Callable] = register_cache({})


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, (tuple, list)):
        return (int(value[0]), int(value[0])) if len(value) == 1 else (int(value[0]), int(value[1]))
    return int(value), int(value)


class _Blocks:
    """The geometry of sliding blocks over an image of size (h, w)."""

    def __init__(self, size: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any):
        self.size = tuple(size)
        self.kernel, self.dilation, self.padding, self.stride = (_pair(kernel), _pair(dilation), _pair(padding), _pair(stride))
        for name, values, least in (("kernel", self.kernel, 1), ("stride", self.stride, 1), ("dilation", self.dilation, 1)):
            if min(values) < least:
                raise RuntimeError(
                    f"{name} size should be greater than zero, but got {name}_height: {values[0]} {name}_width: {values[1]}"
                    if name == "kernel"
                    else f"{name} should be greater than zero, but got {name}_height: {values[0]} {name}_width: {values[1]}"
                )
        if min(self.padding) < 0:
            raise RuntimeError(
                f"padding should be non-negative, but got pad_height: {self.padding[0]} pad_width: {self.padding[1]}"
            )
        self.counts = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(self.size, self.padding, self.dilation, self.kernel, self.stride)
        )

    def inside(self, axis: int, k: int) -> tuple[int, int, int]:
        """For kernel position k: (first block, number of blocks, first pixel) that lie in the image, not in the
        padding."""
        s, n = self.stride[axis], self.size[axis]
        shift = k * self.dilation[axis] - self.padding[axis]
        first = max(0, -(shift // s)) if shift < 0 else 0
        last = min(self.counts[axis], (n - 1 - shift) // s + 1)
        return first, max(0, last - first), first * s + shift

    def moves(self, image: Layout, columns: Layout, slots: tuple[int, int], write: bool) -> list[Move]:
        """A move for each kernel position between the image (the place) and its columns."""
        n, c = image.shape[:2]
        found = []
        (kh, kw), ow = self.kernel, self.counts[1]
        batch, rows, step = columns.strides
        for i in range(kh):
            top, height, y = self.inside(0, i)
            for j in range(kw):
                left, width, x = self.inside(1, j)
                if height and width:
                    place = Buffer(
                        slots[0],
                        y * image.strides[2] + x * image.strides[3],
                        (
                            image.strides[0],
                            image.strides[1],
                            self.stride[0] * image.strides[2],
                            self.stride[1] * image.strides[3],
                        ),
                    )
                    other = Buffer(
                        slots[1], (i * kw + j) * rows + (top * ow + left) * step, (batch, rows * kh * kw, ow * step, step)
                    )
                    found.append(
                        Move(image.dtype, (n, c, height, width), place, other, write=write, combine="add" if write else None)
                    )
        return found


def _refuse_integers(kernel: str, dtype: DType) -> None:
    if not (dtype.is_floating_point or dtype.is_complex or dtype is bool_):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


@operator(function=False, method=False, name="im2col", node="Im2ColBackward0", jvp=LINEAR)
def _im2col(input: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """unfold on (N, C, H, W)."""
    key = ("im2col", input._layout, kernel_size, dilation, padding, stride)
    launch = _plans.get(key)
    if launch is None:
        layout = input._layout
        _refuse_integers("im2col_out_cpu", layout.dtype)
        blocks = _Blocks(layout.shape[2:], kernel_size, dilation, padding, stride)
        if min(blocks.counts) < 1:
            raise RuntimeError(
                f"Given input with spatial size ({layout.shape[2]}, {layout.shape[3]}), kernel_size={blocks.kernel}, "
                f"dilation={blocks.dilation}, padding={blocks.padding}, calculated shape of the array of sliding "
                f"blocks as "
                f"{blocks.counts}, but its components must be at least one."
            )
        (kh, kw), (oh, ow) = blocks.kernel, blocks.counts
        out = Layout.contiguous((layout.shape[0], layout.shape[1] * kh * kw, oh * ow), layout.dtype, layout.device)
        # with padding the columns start as zeros, and the moves leave out what lies in it
        padded = any(blocks.padding)
        launch = make_plan(blocks.moves(layout, out, (1, 0), False), [out], [layout]), out if padded else None
        _plans[key] = launch
    run, cleared = launch
    return run(None if cleared is None else NAMESPACE["zeros"](cleared.shape, dtype=cleared.dtype, device=cleared.device), input)


@_im2col.vjp
def _(g, kernel_size, dilation, padding, stride, layouts):
    return (_col2im(g, tuple(layouts[0].shape[2:]), kernel_size, dilation, padding, stride),)


@operator(function=False, method=False, name="col2im", node="Col2ImBackward0", jvp=LINEAR)
def _col2im(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """fold on (N, C * kernel, blocks)."""
    layout = input._layout
    key = ("col2im", layout, output_size, kernel_size, dilation, padding, stride)
    found = _plans.get(key)
    if found is None:
        _refuse_integers("col2im_out_cpu", layout.dtype)
        blocks = _Blocks(_pair(output_size), kernel_size, dilation, padding, stride)
        kh, kw = blocks.kernel
        if layout.shape[1] % (kh * kw):
            raise RuntimeError(
                "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                f"input.size(1)={layout.shape[1]} and kernel_size=({kh}, {kw})."
            )
        if min(blocks.counts) < 1:
            raise RuntimeError(
                f"Given output_size={blocks.size}, kernel_size={blocks.kernel}, dilation={blocks.dilation}, "
                f"padding={blocks.padding}, stride={blocks.stride}, calculated shape of the array of sliding blocks as "
                f"{blocks.counts}, which is too small (non-positive)"
            )
        if layout.shape[2] != blocks.counts[0] * blocks.counts[1]:
            raise RuntimeError(
                f"Given output_size={blocks.size}, kernel_size={blocks.kernel}, dilation={blocks.dilation}, "
                f"padding={blocks.padding}, stride={blocks.stride}, expected size of input's dimension 2 to match the "
                f"calculated number of sliding blocks {blocks.counts[0]} * {blocks.counts[1]} = "
                f"{blocks.counts[0] * blocks.counts[1]}, but got input.size(2)={layout.shape[2]}."
            )
        out = Layout.contiguous((layout.shape[0], layout.shape[1] // (kh * kw), *blocks.size), layout.dtype, layout.device)
        found = _plans[key] = make_plan(blocks.moves(out, layout, (0, 1), True), [out], [layout]), out
    launch, out = found
    made = launch(NAMESPACE["zeros"](out.shape, dtype=out.dtype, device=out.device), input)
    made._storage.writes = 0
    return made


@_col2im.vjp
def _(g, kernel_size, dilation, padding, stride):
    return (_im2col(g, kernel_size, dilation, padding, stride),)


@operator(function=False, method=False, name="unfold_backward", jvp=LINEAR)
def unfold_backward(input: Tensor, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements (the last dimension of `input`), `step` apart along `dim`, added up where they overlap; of shape
    input_sizes."""
    layout, shape = input._layout, tuple(input_sizes)
    key = ("unfold_backward", layout, shape, dim, size, step)
    found = _plans.get(key)
    if found is None:
        out = Layout.contiguous(shape, layout.dtype, layout.device)
        place = tuple(s * step if d == dim else s for d, s in enumerate(out.strides))
        moves = []
        for start in range(0, size, step):  # as far as no two windows meet
            sizes = (*layout.shape[:-1], min(step, size - start))
            moves.append(
                Move(
                    layout.dtype,
                    sizes,
                    Buffer(0, start * out.strides[dim], (*place, out.strides[dim])),
                    Buffer(1, start * layout.strides[-1], layout.strides),
                    write=True,
                    combine="add",
                )
            )
        found = _plans[key] = make_plan(moves, [out], [layout]), out
    launch, out = found
    made = launch(NAMESPACE["zeros"](out.shape, dtype=out.dtype, device=out.device), input)
    made._storage.writes = 0
    return made


@unfold_backward.vjp
def _(g, dim, size, step):
    return (g.unfold(dim, size, step),)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


@one_step("Im2ColBackward0")
def _columns_of_one(input: Tensor, *arguments: Any) -> Tensor:
    return _im2col(input.unsqueeze(0), *arguments).squeeze(0)


@one_step("Col2ImBackward0")
def _image_of_one(input: Tensor, *arguments: Any) -> Tensor:
    return _col2im(input.unsqueeze(0), *arguments).squeeze(0)


@described(underneath="im2col")
@explained
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sliding blocks of images (N, C, H, W) as columns: (N, C * product of kernel_size, number of blocks); the batch
    may be missing."""
    ndim = input._layout.ndim
    if not ndim:
        raise IndexError("Dimension specified as 1 but tensor has no dimensions")
    if ndim < 2 or (ndim == 2 and input._layout.shape[1]):  # the sizes of dimensions 1 and 2 are asked for in turn
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {ndim})")
    if ndim not in (3, 4) or 0 in input._layout.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            "input, but "
            f"got: {list(input._layout.shape)}"
        )
    arguments = [_hashable(v) for v in (kernel_size, dilation, padding, stride)]
    if ndim == 4:
        return _im2col(input, *arguments)
    return _columns_of_one(input, *arguments)


@described(underneath="col2im")
@explained
def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Images (N, C, *output_size) in which overlapping columns (N, C * product of kernel_size, blocks) are summed;
    undoes `unfold`."""
    ndim = input._layout.ndim
    if ndim not in (2, 3) or 0 in input._layout.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            "input, "
            f"but got: {list(input._layout.shape)}"
        )
    arguments = [_hashable(v) for v in (output_size, kernel_size, dilation, padding, stride)]
    if ndim == 3:
        return _col2im(input, *arguments)
    return _image_of_one(input, *arguments)


# ---------------------------------------------------------------- shuffles


def _fresh(input: Tensor, made: Tensor) -> Tensor:
    """The result in memory of its own, in the memory format of the input."""
    order = suggested_format(input._layout)
    return made.clone(memory_format=order) if made._storage is input._storage else made.detach().contiguous(memory_format=order)


_orders: dict[Any, tuple[Layout, Layout]] = register_cache({})


def _rearranged(input: Tensor, key: tuple, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """The elements of `input` in the shape `split`, its dimensions put in order, in the shape `shape`."""
    layout = input._layout
    parts = input.reshape(split).permute(*order)
    if layout.flavor is None and parts._storage is input._storage and suggested_format(layout) is contiguous_format:
        _orders[key] = (parts._layout, Layout.contiguous(shape, layout.dtype, layout.device))
    return _fresh(input, parts.reshape(shape))


def _again(input: Tensor, key: tuple) -> Tensor | None:
    """The rearrangement that was found before for such a call."""
    known = _orders.get(key)
    if known is None:
        return None
    parts = clone(tensor_from(input._storage, input._offset, known[0]), memory_format=contiguous_format)
    return tensor_from(parts._storage, parts._offset, known[1])


@operator(method=False, jvp=LINEAR)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C * r * r, H, W) as (*, C, H * r, W * r)."""
    key = ("pixel_shuffle", input._layout, upscale_factor)
    if (made := _again(input, key)) is not None:
        return made
    shape, r = input._layout.shape, upscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if shape[-3] % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            "but "
            f"input.size(-3)={shape[-3]} is not divisible by {r * r}"
        )
    lead, (c, h, w) = shape[:-3], shape[-3:]
    n = len(lead)
    return _rearranged(
        input,
        key,
        (*lead, c // (r * r), r, r, h, w),
        (*range(n), n, n + 3, n + 1, n + 4, n + 2),
        (*lead, c // (r * r), h * r, w * r),
    )


@pixel_shuffle.vjp
def _(g, upscale_factor):
    return (pixel_unshuffle(g, upscale_factor),)


@operator(method=False, jvp=LINEAR)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H * r, W * r) as (*, C * r * r, H, W)."""
    key = ("pixel_unshuffle", input._layout, downscale_factor)
    if (made := _again(input, key)) is not None:
        return made
    shape, r = input._layout.shape, downscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    for name, at in (("height", -2), ("width", -1)):
        if shape[at] % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({at})={shape[at]} is "
                f"not divisible by {r}"
            )
    lead, (c, h, w) = shape[:-3], shape[-3:]
    n = len(lead)
    return _rearranged(
        input,
        key,
        (*lead, c, h // r, r, w // r, r),
        (*range(n), n, n + 2, n + 4, n + 1, n + 3),
        (*lead, c * r * r, h // r, w // r),
    )


@pixel_unshuffle.vjp
def _(g, downscale_factor):
    return (pixel_shuffle(g, downscale_factor),)


@operator(method=False, jvp=LINEAR)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels (dimension 1) of `groups` groups interleaved."""
    key = ("channel_shuffle", input._layout, groups)
    if (made := _again(input, key)) is not None:
        return made
    shape = input._layout.shape
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if shape[1] % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups.")
    n, c, *spatial = shape
    return _rearranged(input, key, (n, groups, c // groups, *spatial), (0, 2, 1, *range(3, len(shape) + 1)), shape)


@channel_shuffle.vjp
def _(g, groups, layouts):
    return (channel_shuffle(g, layouts[0].shape[1] // groups),)


NAMESPACE["native_channel_shuffle"] = NAMESPACE["channel_shuffle"]
