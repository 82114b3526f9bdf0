"""Interpolation: nearest, linear, cubic, area and antialiased resizing of images of one to three dimensions.

Each axis is resampled by tables of positions and weights, computed in PyTorch's precision so that the same elements are taken.
Stands on codegen.resampling.interpolate; offered by flambeau.nn.functional.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from flambeau.base import memory_order
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float64, uint8
from flambeau.base.layout import Layout, channels_last, channels_last_3d, register_cache
from flambeau.base.warn import warn
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.resampling import interpolate as kernels
from flambeau.codegen.runtime import launch as launching
from flambeau.codegen.targets import lowered
from flambeau.core.operator import facets
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, empty_layout, within_memory
from flambeau.ops.nn.adaptive_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

NEAREST, EXACT, LINEAR, CUBIC, LANCZOS = "nearest", "nearest-exact", "linear", "bicubic", "lanczos"
TITLES = {
    NEAREST: "UpsampleNearest{}D",
    EXACT: "UpsampleNearestExact{}D",
    CUBIC: "UpsampleBicubic{}D",
    LANCZOS: "UpsampleLanczos{}D",
}
LINEAR_TITLES = {1: "UpsampleLinear1D", 2: "UpsampleBilinear2D", 3: "UpsampleTrilinear3D"}
WORK = 1 << 14  # elements that a chunk of a kernel should touch
_plans: dict[Any, Callable] = register_cache({})


class Spec(NamedTuple):
    """What resampling to make: kind, size of the result, given scale factors (or None), corners aligned, antialiased."""

    mode: str
    size: tuple[int, ...]
    scales: tuple[float | None, ...]
    align_corners: bool = False
    antialias: bool = False

    def title(self) -> str:
        dims = len(self.size)
        name = LINEAR_TITLES[dims] if self.mode == LINEAR else TITLES[self.mode].format(dims)
        return name + ("Aa" if self.antialias else "")

    def kernel_name(self) -> str:
        """How PyTorch's errors call the kernel."""
        return {
            LINEAR: {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}.get(len(self.size), ""),
            NEAREST: f"nearest{len(self.size)}d",
            EXACT: f"nearest{len(self.size)}d",
        }.get(self.mode, f"{self.mode}2d")


# ---------------------------------------------------------------- tables


def _scale(size: int, count: int, given: float | None, align: bool, number: type) -> Any:
    """Input positions per output position."""
    if align:
        return number(size - 1) / number(count - 1) if count > 1 else number(0)
    return number(1.0 / given) if given is not None and given > 0 else number(size) / number(count)


def _nearest_table(size: int, count: int, given: float | None, exact: bool) -> np.ndarray:
    places = np.arange(count)
    if count == size:
        return places
    if count == 2 * size:
        return places >> 1
    scale = _scale(size, count, given, False, np.float32)
    source = (places.astype(np.float32) + np.float32(0.5 if exact else 0)) * scale
    return np.minimum(np.floor(source).astype(np.int64), size - 1)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution filter."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _axis_table(spec: Spec, size: int, count: int, given: float | None, number: type) -> tuple[np.ndarray, np.ndarray]:
    """(positions, weights), each (count, taps)."""
    if spec.mode in (NEAREST, EXACT):
        return _nearest_table(size, count, given, spec.mode == EXACT)[:, None], np.ones((count, 1), number)
    scale = _scale(size, count, given, spec.align_corners, number)
    places = np.arange(count).astype(number)
    if spec.antialias:
        return _antialiased(spec.mode, size, count, scale, number)
    if spec.mode == LINEAR:
        if count == size:
            return np.arange(count)[:, None], np.ones((count, 1), number)
        source = scale * places if spec.align_corners else np.maximum(scale * (places + number(0.5)) - number(0.5), number(0))
        first = np.minimum(source.astype(np.int64), size - 1)
        share = np.clip(source - first.astype(number), 0, 1).astype(number)
        return np.stack([first, np.minimum(first + 1, size - 1)], 1), np.stack([number(1) - share, share], 1)
    source = scale * places if spec.align_corners else scale * (places + number(0.5)) - number(0.5)
    first = np.floor(source)
    share = np.clip(source - first, 0, 1)
    offsets = np.arange(-1, 3)
    weights = _cubic(share[:, None] - offsets[None].astype(number), -0.75).astype(number)
    return np.clip(first.astype(np.int64)[:, None] + offsets, 0, size - 1), weights


def _antialiased(mode: str, size: int, count: int, scale: Any, number: type) -> tuple[np.ndarray, np.ndarray]:
    """Filters as wide as the distance of output positions in the input."""
    reach = {LINEAR: 1.0, CUBIC: 2.0, LANCZOS: 3.0}[mode] * max(float(scale), 1.0)
    center = np.asarray(scale * (np.arange(count).astype(number) + number(0.5)), np.float64)
    first = np.maximum((center - reach + 0.5).astype(np.int64), 0)
    taps = np.minimum((center + reach + 0.5).astype(np.int64), size) - first
    offsets = np.arange(max(1, int(taps.max(initial=1))))
    x = (first[:, None] + offsets - center[:, None] + 0.5) / max(float(scale), 1.0)
    if mode == LINEAR:
        weights = np.maximum(1 - np.abs(x), 0)
    elif mode == CUBIC:
        weights = _cubic(x, -0.5)
    else:
        weights = np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)
    weights = np.where(offsets < taps[:, None], weights, 0)
    total = weights.sum(1, keepdims=True)
    return np.minimum(first[:, None] + offsets, size - 1), (weights / np.where(total == 0, 1, total)).astype(number)


Axis = tuple[np.ndarray, np.ndarray]  # (positions, weights), each (count, taps)


def _fixed_point(axis: Axis) -> Axis:
    """The table by which bytes are resampled: each weight a multiple of a power of two that fits 16 bits."""
    positions, weights = axis[0], axis[1].copy()
    for k in range(weights.shape[1] - 1, 0, -1):  # taps beyond the border meet at the element there: one weight for all
        same = positions[:, k] == positions[:, k - 1]
        weights[:, k - 1] += np.where(same, weights[:, k], 0)
        weights[:, k] = np.where(same, 0, weights[:, k])
    bits = next((n for n in range(22) if int(0.5 + weights.max(initial=0) * (2 << n)) >= 1 << 15), 22)
    return positions, np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)) / (1 << bits)


def _transposed(axis: Axis, size: int) -> Axis:
    """For each input position, the output positions that take it, and their weights."""
    positions, weights = (x.reshape(-1) for x in axis)
    places = np.repeat(np.arange(len(axis[0])), axis[0].shape[1])
    used = np.flatnonzero(weights)
    used = used[np.argsort(positions[used], kind="stable")]
    counts = np.bincount(positions[used], minlength=size)
    column = np.arange(len(used)) - np.repeat(np.cumsum(counts) - counts, counts)
    taps = max(1, int(counts.max(initial=1)))
    made, shares = np.zeros((size, taps), np.int64), np.zeros((size, taps), weights.dtype)
    made[positions[used], column], shares[positions[used], column] = places[used], weights[used]
    return made, shares


def _tables(
    spec: Spec, sizes: tuple[int, ...], dtype: DType, backward: bool = False
) -> tuple[Tensor, Tensor, tuple[int, int, int]]:
    """(positions, weights, taps along z, y and x) as the kernels read them; backward: those of the gradient."""
    fixed = in_fixed_point(spec, dtype)
    number = np.float64 if dtype is float64 else np.float32
    axes: list[Axis] = [(np.zeros((1, 1), np.int64), np.ones((1, 1), number))] * (3 - len(sizes))
    for size, count, given in zip(sizes, spec.size, spec.scales):
        axis = (
            _fixed_point(_axis_table(spec, size, count, given, np.float64))
            if fixed
            else _axis_table(spec, size, count, given, number)
        )
        axes.append(_transposed(axis, size) if backward else axis)
    (z, y, x), taps = axes, tuple(positions.shape[1] for positions, _ in axes)
    flat_positions, flat_weights = (np.concatenate([x[i].T.reshape(-1), y[i].reshape(-1), z[i].reshape(-1)]) for i in (0, 1))
    return create.copy_array(flat_positions.astype(np.int32)), create.copy_array(flat_weights.astype(number)), taps


# ---------------------------------------------------------------- operators


def in_fixed_point(spec: Spec, dtype: DType) -> bool:
    """Whether an image is resampled axis by axis in integers, as bytes are by filters in two dimensions."""
    return dtype is uint8 and len(spec.size) == 2 and spec.mode not in (NEAREST, EXACT)


def _three(values: Any) -> tuple[int, ...]:
    return (1,) * (3 - len(values)) + tuple(values)


def _node(arguments: Any) -> str:
    return arguments[1].title() + "Backward0"


def _words(image: Layout, out: Layout, taps: tuple[int, int, int]) -> tuple[list[int], int]:
    row = -(-(image.shape[-1] * 8 + 256) // 64) * 64
    return [*_three(image.shape[2:]), *_three(out.shape[2:]), *taps, row], row


def _check_dtype(spec: Spec, layout: Layout) -> None:
    dtype = layout.dtype
    if dtype.is_floating_point or (dtype.name == "uint8" and len(spec.size) < 4):
        return
    last = (
        "_channels_last"
        if (layout.ndim >= 4 and layout.shape[1] > 3) or memory_order.suggests_channels_last(layout.shape, layout.strides)
        else ""
    )
    raise NotImplementedError(f"\"upsample_{spec.kernel_name()}{last}\" not implemented for '{dtype.scalar_name}'")


@operator(method=False, function=False, node=_node, jvp=facets.LINEAR)
def resample(input: Tensor, spec: Spec) -> Tensor:
    """An image (N, C, spatial) resampled to spec.size."""
    if not in_fixed_point(spec, input._layout.dtype):
        return _resample(input, spec)
    made = input
    for axis in (1, 0):  # each pass rounds to bytes
        size = list(made._layout.shape[2:])
        if size[axis] != spec.size[axis]:
            size[axis] = spec.size[axis]
            scales = tuple([given if d == axis else None for d, given in enumerate(spec.scales)])
            made = _resample(made, spec._replace(size=tuple(size), scales=scales))
    return made if made is not input else input.clone()


def _resample(input: Tensor, spec: Spec) -> Tensor:
    layout = input._layout
    key = layout, spec
    found = _plans.get(key)
    if layout.device.type == "meta":  # without tables, which are as long as the image
        _check_dtype(spec, layout)
        out, order = _result(layout, spec)
        return empty_layout(out) if order is None else empty_layout(out).contiguous(memory_format=order)
    if found is None:
        found = _plans[key] = _forward_plan(layout, spec)
    launch, tables, order = found
    if order is not None:
        return launch(None, input.contiguous(), *tables).contiguous(memory_format=order)
    return launch(None, input if layout.is_contiguous else input.contiguous(), *tables)


def _forward_plan(layout: Layout, spec: Spec) -> tuple[Callable, tuple, Any]:
    _check_dtype(spec, layout)
    image = Layout.contiguous(layout.shape, layout.dtype, layout.device)
    out, order = _result(layout, spec)
    within_memory(out)
    launch, tables = _plan(image, out, _tables(spec, layout.shape[2:], layout.dtype), spec.mode in (NEAREST, EXACT))
    return launch, tables, order


def _result(layout: Layout, spec: Spec) -> tuple[Layout, Any]:
    """The layout of a resampled image, and the memory format that it is then brought into."""
    order = None
    if layout.ndim >= 4 and memory_order.suggests_channels_last(layout.shape, layout.strides):
        order = channels_last if layout.ndim == 4 else channels_last_3d
    return Layout.contiguous((*layout.shape[:2], *spec.size), layout.dtype, layout.device), order


def _plan(
    image: Layout, out: Layout, tables: tuple[Tensor, Tensor, tuple[int, int, int]], copies: bool
) -> tuple[Callable, tuple]:
    """A launcher for contiguous images, and the tables to launch it with; copies: every output is one element."""
    positions, weights, taps = tables
    constants, row = _words(image, out, taps)
    kind, length = kind_of(image.dtype), out.shape[-1]
    rows = out.numel // length if out.numel else 0
    if copies:
        phase = Phase(kernels.nearest_kernel(kind.storage), rows, max(1, WORK // length), constants)
        return lowered(Plan([phase], [out], [image, positions._layout], release=out.numel >= RELEASE_FROM)), (positions,)
    row_taps = taps[0] * taps[1]
    kernel = kernels.forward_kernel(kind, row_taps if row_taps in (1, 2, 4) else 0, taps[2] if taps[2] in (1, 2, 4) else 0)
    work = max(length * taps[2] + image.shape[-1] * row_taps, 1)
    phase = Phase(kernel, rows, max(1, WORK // work), constants)
    scratch = row * launching.planned_threads()
    given = [image, positions._layout, weights._layout]
    return lowered(Plan([phase], [out], given, scratch=scratch, release=rows * work >= RELEASE_FROM)), (positions, weights)


@resample.vjp
def _(g, spec, layouts):
    return resample_backward(g, spec, layouts[0])


@operator(method=False, function=False, node=lambda arguments: arguments[1].title() + "BackwardBackward0")
def resample_backward(grad: Tensor, spec: Spec, image: Layout) -> Tensor:
    """The gradient of `resample` for an input of layout `image`."""
    if grad._layout.device.type == "meta":
        return empty_layout(Layout.contiguous(image.shape, grad._layout.dtype, image.device))
    grad = grad.contiguous()
    key = "backward", grad._layout, spec, image
    found = _plans.get(key)
    if found is None:
        out = Layout.contiguous(image.shape, grad._layout.dtype, image.device)
        tables = _tables(spec, image.shape[2:], grad._layout.dtype, backward=True)
        found = _plans[key] = _plan(grad._layout, out, tables, copies=False)
    launch, tables = found
    return launch(None, grad, *tables)


@resample_backward.vjp
def _(g, spec):
    return resample(g, spec)


# ---------------------------------------------------------------- the public function

MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}
LETTERS = {1: "W", 2: "HW", 3: "DHW"}


def _is_whole(value: Any) -> bool:
    try:
        return value.__index__() is not None
    except (AttributeError, TypeError):  # a tensor has the method, and refuses unless it holds an integer
        return False


def _sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The result's size, and the scale factors that the kernels are to use."""
    spatial = input._layout.shape[2:]
    dims = len(spatial)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,) * dims
        if len(sizes) != dims:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
                f"{list(spatial)} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                "output size in (o1, o2, ...,oK) format."
            )
        if not all(map(_is_whole, sizes)):
            error: Any = TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
                f"but got size with types {[type(n) for n in sizes]}"
            )
            error.decided = True
            raise error
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(n.__index__() for n in sizes), (None,) * dims
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = tuple(scale_factor) if isinstance(scale_factor, (list, tuple)) else (scale_factor,) * dims
    if len(factors) != dims:
        raise ValueError(
            f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(spatial)} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
            "format and scale_factor in (s1, s2, ...,sK) format."
        )
    wanted = [float(n) * float(factor) for n, factor in zip(spatial, factors)]
    if not all(abs(size) < 2**63 for size in wanted):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    sizes = tuple(map(math.floor, wanted))
    return sizes, (None,) * dims if recompute else tuple(float(factor) for factor in factors)


@composite(method=False, function=False, asks="dim")
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, [D, [H,]] W) resized to `size`, or by `scale_factor`.

    mode: nearest, nearest-exact, linear (3D input), bilinear, bicubic, lanczos (4D), trilinear (5D), area. antialias: bilinear,
    bicubic and lanczos shrink without aliasing. ValueError for arguments that don't go together, NotImplementedError for an
    input of another rank.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    layout = input._layout
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and layout.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    dims = layout.ndim - 2
    if mode == "area" and dims in (1, 2, 3):
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[dims - 1](input, sizes)
    if dims not in (1, 2, 3) or mode not in MODES.split(" | "):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {layout.ndim}D) for the modes: {MODES} (got {mode})"
        )
    if mode in ("bicubic", "lanczos") and dims != 2:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {layout.ndim}D) for the modes: {MODES} (got {mode})"
        )
    if layout.ndim != RANKS.get(mode, layout.ndim):
        raise NotImplementedError(f"Got {layout.ndim}D input, but {mode} mode needs {RANKS[mode]}D input")
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    spatial = layout.shape[2:]
    if layout.shape[0] and not layout.shape[1]:
        raise RuntimeError(f"Non-empty {layout.ndim}D data tensor expected but got a tensor with sizes {list(layout.shape)}")
    if min(*sizes, *spatial) < 1:
        listed = [", ".join(f"{letter}: {n}" for letter, n in zip(LETTERS[dims], values)) for values in (spatial, sizes)]
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({listed[0]}) output ({listed[1]})")
    kind = LINEAR if mode in ("linear", "bilinear", "trilinear") else mode
    return resample(input, Spec(kind, sizes, scales, bool(align_corners), bool(antialias)))


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The former name of `interpolate`."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest neighbour."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` bilinearly with aligned corners."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
