"""Maximum pooling in one to three dimensions, with fixed windows.

The maximum keeps where it found each value: as a byte for 2 x 2 windows that don't overlap, as the flat position in the plane
otherwise; gradients scatter to these places, gradients of gradients gather from them. Stands on codegen.pooling.windows and
ops/nn/pooling_windows.py; offered by flambeau.nn.functional and the namespace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import int32, int64, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.pooling import lines as pool_lines
from flambeau.codegen.pooling import pairs as pool_pairs
from flambeau.codegen.pooling import rows as pool_rows
from flambeau.codegen.pooling import windows as kernels
from flambeau.codegen.runtime import launch as launching
from flambeau.codegen.targets import lowered
from flambeau.core.autograd.node import one_step
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn import pooling_windows
from flambeau.ops.nn.pooling_windows import Window, frozen, one_number, window

WORK = 1 << 14  # elements that a chunk of a kernel should read
MOST_TAPS, MOST_STEP = 9, 4  # of windows along a row that have a kernel of their own
INDEX = {int64: "i64", int32: "i32"}
_plans: dict[Any, Callable] = register_cache({})


def kind_for(name: str, dtype: DType, integers: bool) -> Kind:
    """The kernel's kind of element; the dtypes that PyTorch doesn't pool are refused in its words."""
    if dtype.is_complex or dtype.name == "bool" or not (dtype.is_floating_point or integers):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")
    return kind_of(dtype)


def launcher(
    kernel: int, total: int, work: int, words: Sequence[int], outputs: list[Layout], inputs: list[Layout], slice: int = 0
) -> Callable:
    """A plan of one kernel over `total` rows or planes that cost `work` elements in all; slice: bytes of scratch per thread."""
    grain = max(1, WORK * total // max(work, 1))
    return lowered(
        Plan(
            [Phase(kernel, total, grain, words)],
            outputs,
            inputs,
            "",
            slice * launching.planned_threads(),
            release=work >= RELEASE_FROM,
        )
    )


# ---------------------------------------------------------------- places: scatter and gather


def _place_words(image: Layout, places: Layout, dims: int) -> Sequence[int]:
    return pooling_windows.constants(image, places, dims)


def _within(launch: Callable, *operands: Tensor) -> Tensor:
    """Launch; RuntimeError where a place that the forward pass found was overwritten since by one outside its plane."""
    try:
        return launch(None, *operands)
    except launching.KernelCheck as check:
        code = check.args[0]
        raise RuntimeError(f"index {code - (code > 0)} is out of bounds for the plane that was pooled") from None


@operator(method=False, function=False)
def scatter_planes(values: Tensor, index: Tensor, image: Layout, dims: int, accumulate: bool) -> Tensor:
    """Planes of zeros (like `image`) with `values` added, or stored, at flat positions of the last `dims` dimensions."""
    if index._layout.strides != values._layout.strides or not memory_order.is_dense(index._layout.shape, index._layout.strides):
        values = values.contiguous()
        index = index.contiguous()
    key = "scatter", values._layout, index._layout, image, dims, accumulate
    launch = _plans.get(key)
    if launch is None:
        layout = Layout.of(image.shape, image.strides, values._layout.dtype, image.device)
        kernel = kernels.scatter_kernel(
            kind_of(layout.dtype), INDEX[index._layout.dtype], pooling_windows.plane_is_dense(layout, dims), accumulate
        )
        launch = _plans[key] = launcher(
            kernel,
            pooling_windows.planes(layout, dims),
            layout.numel,
            _place_words(layout, values._layout, dims),
            [layout],
            [values._layout, index._layout],
        )
    return launch(None, values, index) if not accumulate else _within(launch, values, index)


@scatter_planes.vjp
def _(g, index, dims):
    return gather_planes(g, index, dims)


@operator(method=False, function=False)
def gather_planes(planes: Tensor, index: Tensor, dims: int) -> Tensor:
    """The elements of planes at the flat positions `index` of the last `dims` dimensions; those before them agree."""
    if not memory_order.is_dense(index._layout.shape, index._layout.strides):
        index = index.contiguous()
    key = "gather", planes._layout, index._layout, dims
    launch = _plans.get(key)
    if launch is None:
        source, places = planes._layout, index._layout
        out = Layout.of(places.shape, places.strides, source.dtype, source.device)
        kernel = kernels.gather_kernel(kind_of(source.dtype), INDEX[places.dtype], pooling_windows.plane_is_dense(source, dims))
        launch = _plans[key] = launcher(
            kernel, pooling_windows.planes(source, dims), out.numel, _place_words(source, out, dims), [out], [source, places]
        )
    return _within(launch, planes, index)


@gather_planes.vjp
def _(g, index, dims, layouts):
    return scatter_planes(g, index, image_like(layouts[0], dims), dims, True)


def image_like(layout: Layout, dims: int) -> Layout:
    """A dense layout of the same shape, in the same memory format."""
    return pooling_windows.result_layout(layout, dims, layout.shape[layout.ndim - dims :], volumes=True)


# ---------------------------------------------------------------- maximum


def pairs_fit(layout: Layout, w: Window, counts: tuple[int, ...]) -> bool:
    """Whether the kernels for 2 x 2 windows apply."""
    return (
        w.kernel == w.stride == (2, 2)
        and w.padding == (0, 0)
        and w.dilation == (1, 1)
        and layout.is_contiguous
        and layout.dtype.is_floating_point
        and all(2 * n <= size for n, size in zip(counts, layout.shape[-2:]))
    )


def pair_words(image: Layout, out: Layout) -> list[int]:
    return [*out.shape[-2:], *image.shape[-2:]]


def _maximum_plan(layout: Layout, w: Window, index: DType | None) -> tuple[Callable, int]:
    """(launcher, number of outputs); `index`: the dtype of the places to keep, uint8 standing for the smallest that will do."""
    dims = len(w.kernel)
    words = f"non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input"
    pooling_windows.check_image(w.name, layout, dims, words)
    kind = kind_for(w.name, layout.dtype, True)
    counts = pooling_windows.pooled_shape(layout, w)
    out = pooling_windows.result_layout(layout, dims, counts, volumes=True)
    outputs = [out]
    small = index is not int64 and dims == 2 and pairs_fit(layout, w, counts)
    if index is not None:
        volume = layout.shape[-dims:].numel()
        dtype = index if index is int64 else uint8 if small else int32 if volume < 1 << 31 else int64
        outputs.append(Layout.of(out.shape, out.strides, dtype, out.device))
    if small:
        rows = pooling_windows.planes(out, 2) * counts[0]
        kernel = pool_pairs.forward_kernel(kind, "max", index is not None)
        return launcher(kernel, rows, layout.numel, pair_words(layout, out), outputs, [layout]), len(outputs)
    tables = pooling_windows.maximum_tables(layout.shape[-dims:], counts, w)
    return windowed_maximum(kind, layout, outputs, tables, w.dilation, math.prod(w.kernel)), len(outputs)


def windowed_maximum(
    kind: Kind, layout: Layout, outputs: list[Layout], tables: list[pooling_windows.Table], steps: tuple[int, ...], taps: int
) -> Callable:
    """The plan of the maximum of the windows in `tables`, of about `taps` elements; outputs: maxima, and places if wanted."""
    dims, out = len(tables), outputs[0]
    index = INDEX[outputs[1].dtype] if len(outputs) > 1 else None
    rows = pooling_windows.planes(out, dims) * math.prod(out.shape[out.ndim - dims : -1])
    least = min(map(pooling_windows.least_taps, tables))
    if (
        kind.floating
        and layout.strides[-1] == 1 == steps[-1]
        and layout.shape[-dims:].numel() < 1 << 31
        and least > 0
        and pooling_windows.least_taps(tables[-1]) >= kind.lanes
    ):
        constants = pooling_windows.constants(layout, out, dims, tables, steps)
        return launcher(pool_lines.wide_kernel(kind, index), rows, out.numel * taps, constants, outputs, [layout])
    if kind.floating and layout.strides[-1] == 1 == out.strides[-1] and layout.shape[-dims:].numel() < 1 << 31 and least > 0:
        slice = (layout.shape[-1] * 12 + 256) // 64 * 64
        most = pooling_windows.most_taps(tables[-1])
        constants = pooling_windows.constants(layout, out, dims, tables, steps, most, slice=slice)
        return launcher(pool_rows.maximum_kernel(kind, index), rows, out.numel * taps, constants, outputs, [layout], slice)
    constants = pooling_windows.constants(layout, out, dims, tables, steps)
    kernel = kernels.forward_kernel(kind, "max", index, False)
    return launcher(kernel, rows, out.numel * taps, constants, outputs, [layout])


def _maximum(input: Tensor, w: Window, index: DType | None) -> Any:
    """The maximum alone, or with its places; nothing is recorded."""
    key = input._layout, w, index
    found = _plans.get(key)
    if found is None:
        found = _plans[key] = _maximum_plan(input._layout, w, index)
    launch, count = found
    return launch(None, input) if count == 1 else launch(None, None, input)


def _found_node(arguments: Any) -> str:
    return f"{arguments[3]}{arguments[4]}D{'WithIndices' if arguments[3] == 'MaxPool' else ''}Backward0"


@operator(method=False, function=False, node=_found_node)
def maximum_found(input: Tensor, value: Any, index: Any, title: str, dims: int) -> Tensor:
    """`value`, the maxima of windows of `input`, found at `index`: what records the pooling called `title`."""
    return value


@maximum_found.vjp
def _(g, index, title, dims, layouts):
    return maximum_backward(g, index, layouts[0], title, dims)


@operator(method=False, function=False, node=_found_node)
def maximum_found_at(input: Tensor, value: Any, index: Any, title: str, dims: int) -> Any:
    """`maximum_found` that gives the places to the caller too."""
    return value, index


@maximum_found_at.vjp
def _(gs, index, title, dims, layouts):
    return maximum_backward(gs[0], index, layouts[0], title, dims)


def maximum_backward(g: Tensor, index: Tensor, layout: Layout, title: str, dims: int) -> Tensor:
    """The gradient of the maximum of windows: each value goes where it came from."""
    if title == "AdaptiveMaxPool" and not g._layout.numel:
        pooling_windows.check_gradient(f"adaptive_max_pool{dims}d_backward", g._layout)
    if index._layout.dtype is uint8:
        return pairs_backward(g, index, Layout.contiguous(layout.shape, layout.dtype, layout.device))
    step = f"{title}{dims}DBackwardBackward0" if title.startswith("Adaptive") else f"{title}{dims}DWithIndicesBackwardBackward0"
    return one_step(step)(scatter_planes)(g, index, image_like(layout, dims), dims, True)


def recorded(input: Tensor, found: tuple[Tensor, Tensor], return_indices: bool, title: str, dims: int) -> Any:
    """(maxima, places) as the caller wants them, joined to the graph if the input is."""
    if input._node is None or not modes.local.grad:
        return found if return_indices else found[0]
    return (maximum_found_at if return_indices else maximum_found)(input, *found, title, dims)


@operator(method=False, function=False, node="MaxPool2DWithIndicesBackwardBackward0")
def pairs_backward(grad: Tensor, code: Tensor, image: Layout) -> Tensor:
    """The gradient of 2 x 2 maxima from the codes of their places."""
    if not grad._layout.is_contiguous:
        grad = grad.contiguous()
    key = "pairs", grad._layout, code._layout, image
    launch = _plans.get(key)
    if launch is None:
        kernel = pool_pairs.backward_kernel(kind_of(image.dtype), "max")
        rows = pooling_windows.planes(image, 2) * code._layout.shape[-2]
        launch = _plans[key] = launcher(
            kernel, rows, image.numel, pair_words(image, code._layout), [image], [grad._layout, code._layout]
        )
    return launch(None, grad, code)


@pairs_backward.vjp
def _(g, code):
    return pairs_gather(g, code)


@operator(method=False, function=False)
def pairs_gather(planes: Tensor, code: Tensor) -> Tensor:
    """The elements of 2 x 2 windows that the codes name."""
    if not planes._layout.is_contiguous:
        planes = planes.contiguous()
    key = "pick", planes._layout, code._layout
    launch = _plans.get(key)
    if launch is None:
        layout = planes._layout
        out = code._layout.with_dtype(layout.dtype)
        rows = pooling_windows.planes(layout, 2) * out.shape[-2]
        launch = _plans[key] = launcher(
            pool_pairs.gather_kernel(kind_of(layout.dtype)),
            rows,
            layout.numel,
            pair_words(layout, out),
            [out],
            [layout, code._layout],
        )
    return launch(None, planes, code)


@pairs_gather.vjp
def _(g, code, layouts):
    return pairs_backward(g, code, Layout.contiguous(layouts[0].shape, layouts[0].dtype, layouts[0].device))


def max_pool_planes(input: Tensor, w: Window, return_indices: bool) -> Any:
    """Maximum pooling of (N, C, spatial) or (C, spatial), recorded."""
    if not return_indices and (input._node is None or not modes.local.grad):
        return _maximum(input, w, None)
    return recorded(input, _maximum(input, w, int64 if return_indices else uint8), return_indices, "MaxPool", len(w.kernel))


@composite(method=False)
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maxima of windows of (N, C, H, W) or (C, H, W); with return_indices also their places (int64, flat in the plane).

    RuntimeError for a wrong rank, sizes that don't fit or padding of more than half a window.
    """
    w = window("max_pool2d", 2, frozen(kernel_size), frozen(stride), frozen(padding), frozen(dilation), ceil_mode)
    return max_pool_planes(input, w, return_indices)


@composite(method=False, autocast=single)
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maxima of windows of (N, C, D, H, W) or (C, D, H, W); with return_indices also their places (int64, flat in the volume)."""
    w = window("max_pool3d", 3, frozen(kernel_size), frozen(stride), frozen(padding), frozen(dilation), ceil_mode)
    return max_pool_planes(input, w, return_indices)


@composite(method=False)
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maxima of windows of (N, C, L) or (C, L); with return_indices also their positions (int64)."""
    layout = input._layout
    alone = not return_indices and (input._node is None or not modes.local.grad)
    key = "line", layout, frozen(kernel_size), frozen(stride), frozen(padding), frozen(dilation), ceil_mode
    if alone and (known := _plans.get(key)) is not None:
        return known(None, input)
    if layout.ndim not in (2, 3) or 0 in layout.shape[-2:]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
            f"{list(layout.shape)}"
        )
    kernel = one_number("max_pool1d", "kernel_size", kernel_size)
    step = kernel if stride is None or stride == () or stride == [] else one_number("max_pool1d", "stride", stride)
    pad, spread = one_number("max_pool1d", "padding", padding), one_number("max_pool1d", "dilation", dilation)
    if not return_indices:
        _check_line(layout.shape[-1], kernel, step, pad, spread, ceil_mode)
        if not layout.dtype.is_floating_point:
            raise NotImplementedError(f"\"max_pool1d_impl\" not implemented for '{layout.dtype.scalar_name}'")
    if (
        alone
        and layout.is_contiguous
        and layout.dtype.is_floating_point
        and layout.flavor is None
        and (kernel <= MOST_TAPS and step <= MOST_STEP)
    ):
        _plans[key] = launch = _line_plan(layout, kernel, step, pad, spread, ceil_mode)
        return launch(None, input)
    w = window("max_pool1d", 2, (1, kernel), (1, step), (0, pad), (1, spread), ceil_mode)
    made = max_pool_planes(input.unsqueeze(-2), w, return_indices)
    return tuple(x.squeeze(-2) for x in made) if return_indices else made.squeeze(-2)


def _line_plan(layout: Layout, kernel: int, step: int, pad: int, spread: int, ceil_mode: bool) -> Callable:
    """The plan of the maxima of small windows of contiguous rows."""
    size, kind = layout.shape[-1], kind_for("max_pool1d", layout.dtype, True)
    count = pooling_windows.pooled_size(size, kernel, step, pad, spread, ceil_mode)
    first = min(-(-pad // step), count)
    last = max(first, min(count, (size - 1 - (kernel - 1) * spread + pad) // step + 1))
    out = Layout.contiguous((*layout.shape[:-1], count), layout.dtype, layout.device)
    return launcher(
        pool_lines.line_kernel(kind, kernel, step, spread),
        layout.numel // size,
        out.numel * kernel,
        [size, count, pad, first, last],
        [out],
        [layout],
    )


def _check_line(size: int, kernel: int, step: int, pad: int, spread: int, ceil_mode: bool) -> None:
    """What max_pool1d refuses in its own words."""
    if kernel <= 0:
        raise RuntimeError(f"max_pool1d() kernel_size must be greater than zero, but got {kernel}")
    if step <= 0:
        raise RuntimeError(f"max_pool1d() stride must be greater than zero, but got {step}")
    if pad < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {pad}")
    if pad > ((kernel - 1) * spread + 1) // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={pad} and kernel_size={kernel}"
        )
    if spread <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {spread}")
    count = pooling_windows.pooled_size(size, kernel, step, pad, spread, ceil_mode)
    if count < 1:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool1d` that returns (maxima, positions)."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` that returns (maxima, places)."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool3d` that returns (maxima, places)."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


NAMESPACE["max_pool1d_with_indices"] = max_pool1d_with_indices
