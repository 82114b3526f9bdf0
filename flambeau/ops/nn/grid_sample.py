"""grid_sample and affine_grid: images looked up at given places.

Indices and weights of the pixels that a place takes part in are expressions of its coordinates. A lookup is one kernel made of
them, its gradient another (codegen.resampling.lookups). Where gradients of gradients are wanted, under transforms and for half
precision, they are pointwise operators, and the weighted sums of the image's elements, and their gradients of every order,
kernels (codegen.resampling.taps). Offered by the namespace and flambeau.nn.functional.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import bfloat16, float16, float32, float64, int32
from flambeau.base.layout import Layout
from flambeau.base.warn import warn
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.resampling import lookups
from flambeau.codegen.resampling import taps as kernels
from flambeau.codegen.targets import lowered
from flambeau.core.autograd import engine
from flambeau.core.autograd.inplace import owned
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.pointwise import RELEASE_FROM, Pointwise, call
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.scalar import constant
from flambeau.ir.simplify import simplify
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import plans

UNIT = 16384  # taps worth waking another thread for

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
DEFAULT_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


# ---------------------------------------------------------------- places: one axis, in scalar expressions


def _place(coordinate: Any, size: Any, align: bool) -> Any:
    """-1 ... 1 as positions of pixels."""
    if align:
        return (coordinate + 1) * ((size - 1) / 2)
    return ((coordinate + 1) * size - 1) / 2


def _clipped(x: Any, size: Any) -> Any:
    """x within the image; outside, and on its edge, the gradient is zero."""
    return s.where((x > 0) & (x < size - 1), x, s.where(x > 0, size - 1, 0))


def _reflected(x: Any, size: Any, align: bool) -> Any:
    """x mirrored at the edges, as often as it takes."""
    start, span = (0.0, size - 1) if align else (-0.5, size)
    distance = abs(x - start)
    flips = s.floor(distance / span)
    rest = distance - flips * span
    mirrored = s.where(flips - s.floor(flips * 0.5) * 2 == 0, rest + start, span - rest + start)
    return s.where(span == 0, x * 0, mirrored)


def _padded(x: Any, size: Any, padding: str, align: bool) -> Any:
    if padding == "border":
        return _clipped(x, size)
    if padding == "reflection":
        return _clipped(_reflected(x, size, align), size)
    return x


def _cubic_weight(share: Any, step: Any) -> Any:
    """The weight of neighbour 0, 1, 2 or 3 by the cubic convolution filter with a = -0.75."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((x - 5) * x + 8) * x * a - 4 * a

    return s.where(
        step < 1.5, s.where(step < 0.5, far(share + 1), near(share)), s.where(step < 2.5, near(1 - share), far(2 - share))
    )


def _tap(coordinate: Any, step: Any, size: Any, mode: str, padding: str, align: bool, placed: bool) -> tuple[Any, Any]:
    """(the whole position, the weight) of the tap of this number along one axis; placed: the coordinate is in pixels."""
    x = coordinate if placed else _place(coordinate, size, align)
    if mode == "bicubic":
        first = s.floor(x)
        return _padded(first + (step - 1), size, padding, align), _cubic_weight(x - first, step)
    x = _padded(x, size, padding, align)
    if mode == "nearest":
        return s.round(x), x * 0 + 1  # the gradient of a place is zero
    first = s.floor(x)
    return first + step, s.where(step < 0.5, 1 - (x - first), x - first)


# ---------------------------------------------------------------- the lookup

TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}


def _inside(position: Any, size: Any) -> Any:
    return (position >= 0) & (position <= size - 1)


def _weight(dims: int, values: Sequence[Any], *statics: Any) -> Any:
    """The weight of a tap: values are the coordinates, the tap's number along each axis, the sizes."""
    weight: Any = None
    inside: Any = None
    for coordinate, step, size in zip(values[:dims], values[dims:], values[2 * dims :]):
        position, share = _tap(coordinate, step, size, *statics)
        within = _inside(position, size)
        weight = share if weight is None else weight * share
        inside = within if inside is None else inside & within
    if dims == 3 or statics[0] == "nearest":
        return s.where(inside, weight, 0)
    return s.where(inside, weight, weight * 0)  # nan at infinite places: in two dimensions 0 times the weight is added


def _index(dims: int, values: Sequence[Any], *statics: Any) -> Any:
    """The index of a tap's element in its plane; -1 outside."""
    flat: Any = None
    inside: Any = None
    for coordinate, step, size in zip(values[:dims], values[dims:], values[2 * dims :]):
        position, _ = _tap(coordinate, step, size, *statics)
        within = _inside(position, size)
        whole = s.cast(s.where(within, position, 0), int32)
        flat = whole if flat is None else flat * s.cast(size, int32) + whole
        inside = within if inside is None else inside & within
    return s.where(inside, flat, -1)


def _declared(name: str, body: Callable, dims: int, **options: Any) -> Pointwise:
    """A pointwise operator of `dims` coordinates and as many numbers of taps."""

    def expression(*values: Any, mode: str, padding: str, align: bool, placed: bool, **sizes: Any) -> Any:
        return body(dims, (*values, *sizes.values()), mode, padding, align, placed)

    operands = [*[f"coordinate{d}" for d in range(dims)], *[f"tap{d}" for d in range(dims)]]
    return Pointwise(
        name,
        expression,
        operands,
        {f"size{d}": 1.0 for d in range(dims)},
        {"mode": "bilinear", "padding": "zeros", "align": False, "placed": False},
        **options,
    )


_WEIGHTS = {dims: _declared("grid_weights", _weight, dims, node=f"GridSampler{dims}D") for dims in (2, 3)}
_INDICES = {
    dims: _declared("grid_indices", _index, dims, kind=lambda common, *statics: (common, int32), differentiable=False)
    for dims in (2, 3)
}
_tap_numbers: dict[Any, list[Tensor]] = {}


def _numbers_of_taps(dims: int, mode: str, like: Layout) -> list[Tensor]:
    """For each axis, the number along it of every combination of taps: (taps, 1, 1), of the dtype and device of a layout."""
    key = dims, mode, like.dtype, like.device
    found = _tap_numbers.get(key)
    if found is None:
        numbers = np.indices((TAPS[mode],) * dims).reshape(dims, -1, 1, 1)
        found = _tap_numbers[key] = [NAMESPACE["tensor"](axis, dtype=like.dtype, device=like.device) for axis in numbers]
    return found


def look_up(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    """Elements of (N, C, spatial) at the places in grid (N, target, 2 or 3)."""
    own = input._layout.dtype
    sizes = input._layout.shape[2:]
    dims = len(sizes)
    batch, channels = input._layout.shape[:2]
    target = grid._layout.shape[1:-1]
    places = grid.reshape(batch, target.numel(), dims)
    coordinates = [places.select(-1, dims - 1 - d) for d in range(dims)]
    half = own in (float16, bfloat16)
    if half:  # every step is rounded to the half type, as in PyTorch: it decides which pixel a place is in
        coordinates = [_place(x, size, align).to(float32) for x, size in zip(coordinates, sizes)]
        input = input.to(float32)
    operands = [*coordinates, *_numbers_of_taps(dims, mode, input._layout)]
    numbers, statics = tuple([float(n) for n in sizes]), (mode, padding, align, half)
    weights = call(_WEIGHTS[dims], operands, numbers, statics)
    indices = call(_INDICES[dims], operands, numbers, statics)
    found = _sum(input.reshape(batch, channels, sizes.numel()), weights, indices, tuple(target))
    return found.to(own) if half else found


# ---------------------------------------------------------------- the lookup in one kernel: see codegen.resampling.lookups


@functools.cache
def _taps(dims: int, kind: Kind, mode: str, padding: str, align: bool) -> lookups.Taps:
    """Expressions for every tap of the coordinates and extents along all axes."""
    coordinates = [lookups.coordinate(d, kind) for d in range(dims)]
    extents = [lookups.extent(d, kind) for d in range(dims)]
    values = [
        (*coordinates, *[constant(float(step), coordinates[0].dtype) for step in steps], *extents)
        for steps in itertools.product(range(TAPS[mode]), repeat=dims)
    ]
    weights, indices = (
        [simplify(s.as_expr(body(dims, each, mode, padding, align, False))) for each in values] for body in (_weight, _index)
    )
    return lookups.Taps(dims, tuple(weights), tuple(indices))


def _lookup_plan(
    first: list[Layout], input: Tensor, grid: Tensor, mode: str, padding: str, align: bool, wanted: tuple[bool, bool] | None
) -> Callable:
    """The plan of a lookup, or of the gradients `wanted` of one (grid, input); first: layouts in front of theirs."""
    layout, own = input._layout, grid._layout
    sizes, places = layout.shape[2:], own.shape[1:-1].numel()
    batch, channels = layout.shape[:2]
    if sizes.numel() >= 1 << 31:
        raise NotImplementedError("grid_sample of images with 2^31 pixels and more; sample parts of the image")
    kind = kind_of(layout.dtype)
    taps = _taps(len(sizes), kind, mode, padding, align)
    units = batch * -(-places // kind.lanes)
    work = batch * places * len(taps.weights) * (channels + 4)
    constants = [batch, channels, sizes.numel(), places, -(-places // kind.lanes), *sizes]
    grain = max(1, units * UNIT // max(work, 1))
    inputs, scratch = [*first, layout, own], 0
    if wanted is None:
        phases = [Phase(lookups.forward_kernel(kind, taps), units, grain, constants)]
        outputs = [Layout.contiguous((batch, channels, *own.shape[1:-1]), layout.dtype, layout.device)]
    else:
        phases = [Phase(lookups.gradient_kernel(kind, taps, *wanted), units, grain, constants)]
        outputs = [Layout.contiguous(x.shape, x.dtype, x.device) for x, want in zip((own, layout), wanted) if want]
        if wanted[1]:
            scratch = lookups.scratch_of(kind, taps, batch, places)
            phases.append(
                Phase(
                    lookups.scatter_kernel(kind, taps, wanted[0]),
                    batch * channels,
                    max(1, batch * channels * UNIT // max(work, 1)),
                    constants,
                )
            )
    return lowered(Plan(phases, outputs, inputs, scratch=scratch, release=work >= RELEASE_FROM))


@operator(
    method=False,
    function=False,
    name="grid_lookup",
    node=lambda arguments: f"GridSampler{arguments[0]._layout.ndim - 2}DBackward0",
)
def _look_up_plain(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    """`look_up` of tensors of float32 or float64."""
    input, grid = contiguous(input), contiguous(grid)
    key = ("lookup", input._layout, grid._layout, mode, padding, align)
    launch = plans.get(key)
    if launch is None:
        launch = plans[key] = _lookup_plan([], input, grid, mode, padding, align, None)
    return launch(None, input, grid)


@_look_up_plain.vjp
def _(g, input, grid, mode, padding, align, need):
    if modes.local.grad or g._layout.flavor is not None:  # gradients of gradients
        with modes.enable_grad():
            chosen = [x for name, x in (("input", input), ("grid", grid)) if need[name]]
            found = iter(engine.grad(look_up(input, grid, mode, padding, align), chosen, [g], create_graph=True))
        return tuple([next(found) if need[name] else None for name in ("input", "grid")])
    wanted = need["grid"], need["input"]
    g, input, grid = contiguous(g), contiguous(input), contiguous(grid)
    key = ("lookup", g._layout, input._layout, grid._layout, mode, padding, align, wanted)
    launch = plans.get(key)
    if launch is None:
        launch = plans[key] = _lookup_plan([g._layout], input, grid, mode, padding, align, wanted)
    if not need["input"]:
        return None, launch(None, g, input, grid)
    if not need["grid"]:
        return launch(None, g, input, grid), None
    of_grid, of_input = launch(None, None, g, input, grid)
    return of_input, of_grid


# ---------------------------------------------------------------- weighted taps: see codegen.resampling.taps


def _run(
    form: str, first: Tensor, second: Tensor, indices: Tensor, sizes: tuple[int, ...], target: tuple[int, ...] = ()
) -> Tensor:
    """One of the kernels of codegen.resampling.taps; sizes: of (K, N, C, S, P); target: the shape that P places of a sum get."""
    first, second, indices = contiguous(first), contiguous(second), contiguous(indices)
    layout = first._layout
    key = ("taps", form, layout, second._layout, indices._layout, sizes, target)
    launch = plans.get(key)
    if launch is None:
        taps, batch, channels, size, places = sizes
        if size >= 1 << 31:
            raise NotImplementedError("grid_sample of images with 2^31 pixels and more; sample parts of the image")
        kind = kind_of(layout.dtype)
        blocks = -(-places // kind.lanes)
        kernel, shape, total = {
            "sum": (kernels.sum_kernel, (batch, channels, *target), batch * channels),
            "planes": (kernels.planes_kernel, (batch, channels, size), batch * channels),
            "weights": (kernels.weights_kernel, (taps, batch, places), batch * blocks),
        }[form]
        work = taps * batch * channels * places
        launch = plans[key] = lowered(
            Plan(
                [Phase(kernel(kind), total, max(1, total * UNIT // max(work, 1)), [*sizes, blocks])],
                [Layout.contiguous(shape, layout.dtype, layout.device)],
                [first._layout, second._layout, indices._layout],
                release=work >= RELEASE_FROM,
            )
        )
    return launch(None, first, second, indices)


@operator(
    method=False,
    function=False,
    name="grid_sampler",
    node=lambda arguments: f"GridSampler{len(arguments[3])}DBackward0",
    autocast=single,
)
def _sum(planes: Tensor, weights: Tensor, indices: Tensor, target: tuple[int, ...]) -> Tensor:
    """The sums (N, C, *target) of the elements of planes (N, C, S) at indices (K, N, P), times weights; target has P places."""
    batch, channels, size = planes._layout.shape
    taps, _, places = indices._layout.shape
    return _run("sum", planes, weights, indices, (taps, batch, channels, size, places), target)


@_sum.vjp
def _(g, planes, weights, indices, target, need):
    size = planes._layout.shape[2]
    return (
        _to_planes(g, weights, indices, size, target) if need["planes"] else None,
        _to_weights(g, planes, indices, target) if need["weights"] else None,
        None,
    )


@operator(method=False, function=False, name="grid_sampler_backward")
def _to_planes(grad: Tensor, weights: Tensor, indices: Tensor, size: int, target: tuple[int, ...]) -> Tensor:
    """The gradient of the planes."""
    batch, channels = grad._layout.shape[:2]
    taps, _, places = indices._layout.shape
    return _run("planes", grad, weights, indices, (taps, batch, channels, size, places))


@_to_planes.vjp
def _(g, grad, weights, indices, target, need):
    return (
        _sum(g, weights, indices, target) if need["grad"] else None,
        _to_weights(grad, g, indices, target) if need["weights"] else None,
        None,
    )


@operator(method=False, function=False, name="grid_sampler_backward")
def _to_weights(grad: Tensor, planes: Tensor, indices: Tensor, target: tuple[int, ...]) -> Tensor:
    """The gradient of the weights."""
    batch, channels = grad._layout.shape[:2]
    taps, _, places = indices._layout.shape
    return _run("weights", grad, planes, indices, (taps, batch, channels, planes._layout.shape[2], places))


@_to_weights.vjp
def _(g, grad, planes, indices, target, need):
    return (
        _sum(planes, g, indices, target) if need["grad"] else None,
        _to_planes(grad, g, indices, planes._layout.shape[2], target) if need["planes"] else None,
        None,
    )


@composite(method=False, autocast=single)
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """`grid_sample` with modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
    x, places = input._layout, grid._layout
    if not x.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if x.shape[0] != places.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes {list(x.shape)} "
            f"and grid with sizes {list(places.shape)}"
        )
    if x.ndim < 3:
        raise RuntimeError(
            f"grid_sampler(): expected input to have at least 3 dimensions, but got input with sizes {list(x.shape)}"
        )
    if places.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(places.shape)}"
        )
    for d in range(2, x.ndim):
        if x.shape[d] == 0:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(x.shape)} with dimension {d} being empty"
            )
    if x.ndim not in (4, 5) or places.ndim != x.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(x.shape)} and grid with sizes {list(places.shape)}"
        )
    if x.ndim == 5 and MODES[interpolation_mode] == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    shape = (*x.shape[:2], *places.shape[1:-1])
    if 0 in shape and x.ndim == 4 and not x.dtype.is_floating_point:
        return input.new_empty(shape)
    if x.dtype is not places.dtype and x.dtype.is_floating_point:
        if 0 not in shape:
            raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {places.dtype.scalar_name}")
        grid = grid.to(x.dtype)
        places = grid._layout
    if not x.dtype.is_floating_point:
        kernel = "grid_sampler_2d_cpu_kernel_impl" if x.ndim == 4 else "grid_sampler3d_cpu"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{x.dtype.scalar_name}'")
    plain = x.flavor is None and places.flavor is None and x.dtype in (float32, float64)
    return (_look_up_plain if plain else look_up)(
        input, grid, MODES[interpolation_mode], PADDINGS[padding_mode], bool(align_corners)
    )


@composite(method=False, autocast=single)
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """`grid_sampler` of (N, C, H, W)."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@composite(method=False, autocast=single)
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """`grid_sampler` of (N, C, D, H, W)."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _number(what: str, value: str, names: tuple[str, ...], words: str) -> int:
    if value not in names:
        raise ValueError(f"nn.functional.grid_sample(): expected {what} to be {words}, but got: '{value}'")
    return names.index(value)


@composite(method=False, function=False, autocast=single, underneath="grid_sampler")
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Elements of input (N, C, [D,] H, W) at places grid (N, [D',] H', W', 2 or 3), whose coordinates x, y[, z] go from -1 to 1.

    ValueError for unknown modes, RuntimeError for shapes that don't fit.
    """
    if ("lookup", input._layout, grid._layout, mode, padding_mode, align_corners) in plans:  # such a call was checked
        return _look_up_plain(input, grid, mode, padding_mode, align_corners)
    kind = _number("mode", mode, MODES, "'bilinear', 'nearest' or 'bicubic'")
    padding = _number("padding_mode", padding_mode, PADDINGS, "'zeros', 'border', or 'reflection'")
    if align_corners is None:
        warn(DEFAULT_CHANGED)
        align_corners = False
    return grid_sampler(input, grid, kind, padding, align_corners)


# ---------------------------------------------------------------- affine grids


def _base_grid(theta: Tensor, sizes: tuple[int, ...], align: bool) -> Tensor:
    """Homogeneous coordinates (places, dims + 1) of the pixels."""
    axes = []
    for n in sizes:
        steps = NAMESPACE["linspace"](-1, 1, n, dtype=theta._layout.dtype, device=theta._layout.device)
        if n <= 1:
            steps = steps * 0
        axes.append(steps if align else steps * ((n - 1) / n))
    dims = len(sizes)
    columns = [axis.view(*[-1 if d == i else 1 for i in range(dims)]).expand(*sizes) for d, axis in enumerate(axes)]
    return NAMESPACE["stack"]([*reversed(columns), NAMESPACE["ones_like"](columns[0])], dim=-1).reshape(-1, dims + 1)


@operator(method=False)
def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """Places of pixels under affine maps theta (N, 2, 3) or (N, 3, 4); size (N, C, [D,] H, W)."""
    base = _base_grid(theta, tuple(size[2:]), align_corners)
    batch = theta._layout.shape[0]
    made = base.unsqueeze(0).expand(batch, *base._layout.shape).bmm(theta.transpose(1, 2))
    return owned(made.view(batch, *size[2:], len(size) - 2))


@affine_grid_generator.vjp
def _(g, size, align_corners):
    base = _base_grid(g, tuple(size[2:]), align_corners)
    batch, dims = g._layout.shape[0], len(size) - 2
    flat = g.reshape(batch, base._layout.shape[0], dims)
    return flat.transpose(1, 2).bmm(base.unsqueeze(0).expand(batch, *base._layout.shape))


@composite(method=False, function=False, asks="is_floating_point")
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) or (N, D, H, W, 3) for `grid_sample` that maps by theta (N, 2, 3) or (N, 3, 4).

    ValueError if theta's shape or dtype, or the size, don't fit.
    """
    if align_corners is None:
        warn(DEFAULT_CHANGED)
        align_corners = False
    layout = theta._layout
    if not layout.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {layout.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."
        )
    dims = len(size) - 2
    if layout.ndim != 3 or tuple(layout.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {layout.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and min(size[2:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is not an "
            "intended use case of affine_grid. See the documentation of affine_grid for details."
        )
    return affine_grid_generator(theta, tuple(size), bool(align_corners))
