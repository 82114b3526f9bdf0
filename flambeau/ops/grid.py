"""grid_sample and affine_grid: images looked up at given places.

The lookup is written in gathers and arithmetic, one graph node around it; its gradient differentiates that body, so every order
exists. Stands on the families of gathers and pointwise functions; offered by the namespace and flambeau.nn.functional.
"""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.base.dtype import int64
from flambeau.core import engine, modes
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
DEFAULT_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


# ---------------------------------------------------------------- places


def _place(coordinate: Tensor, size: int, align: bool) -> Tensor:
    """-1 ... 1 as positions of pixels."""
    if align:
        return (coordinate + 1) * ((size - 1) / 2)
    return ((coordinate + 1) * size - 1) / 2


def _clipped(x: Tensor, size: int) -> Tensor:
    """x within the image; outside, and on its edge, the gradient is zero."""
    inside = (x > 0).logical_and(x < size - 1)
    edge = NAMESPACE["where"](x.detach() > 0, x.detach(), 0).clamp(max=size - 1)
    return NAMESPACE["where"](inside, x, edge)


def _reflected(x: Tensor, size: int, align: bool) -> Tensor:
    """x mirrored at the edges, as often as it takes."""
    low, high = (0, 2 * (size - 1)) if align else (-1, 2 * size - 1)
    if low == high:
        return x * 0
    start, span = low / 2, (high - low) / 2
    distance = (x - start).abs()
    flips = (distance.detach() / span).floor()
    rest = distance - flips * span
    return NAMESPACE["where"](flips.remainder(2) == 0, rest + start, span - rest + start)


def _padded(x: Tensor, size: int, padding: str, align: bool) -> Tensor:
    if padding == "border":
        return _clipped(x, size)
    if padding == "reflection":
        return _clipped(_reflected(x, size, align), size)
    return x


def _cubic_weights(share: Tensor) -> list[Tensor]:
    """Weights of the four neighbours by the cubic convolution filter with a = -0.75."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((x - 5) * x + 8) * x * a - 4 * a

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


# ---------------------------------------------------------------- the lookup


def _taps(x: Tensor, size: int, mode: str, padding: str, align: bool) -> list[tuple[Tensor, Tensor | None]]:
    """(whole positions as floats, weights or None for 1) of the elements that a place takes along one axis."""
    if mode == "bicubic":
        first = x.detach().floor()
        return [
            (_padded(first + (k - 1), size, padding, align).detach(), weight)
            for k, weight in enumerate(_cubic_weights(x - first))
        ]
    x = _padded(x, size, padding, align)
    if mode == "nearest":
        return [(x.detach().round(), None)]
    first = x.detach().floor()
    share = x - first
    return [(first, 1 - share), (first + 1, share)]


def _look_up(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    sizes = input._layout.shape[2:]
    dims = len(sizes)
    batch, channels = input._layout.shape[:2]
    target = grid._layout.shape[1:-1]
    planes = input.reshape(batch, channels, sizes.numel())
    axes = []
    for d, size in enumerate(sizes):
        place = _place(grid.select(-1, dims - 1 - d), size, align).reshape(batch, target.numel())
        axes.append(_taps(place, size, mode, padding, align))
    total = None
    for taps in _every(axes):
        flat: Any = None
        inside: Any = None
        weight: Any = None
        for (position, share), size in zip(taps, sizes):
            within = (position >= 0).logical_and(position <= size - 1)
            index = position.clamp(0, size - 1).to(int64).clamp(0, size - 1)
            flat = index if flat is None else flat * size + index
            inside = within if inside is None else inside.logical_and(within)
            if share is not None:
                weight = share if weight is None else weight * share
        value = planes.gather(2, flat.unsqueeze(1).expand(batch, channels, target.numel()))
        factor = inside.to(value._layout.dtype) if weight is None else NAMESPACE["where"](inside, weight, 0)
        value = NAMESPACE["where"](inside.unsqueeze(1), value, 0) * factor.unsqueeze(1)
        total = value if total is None else total + value
    return total.reshape(batch, channels, *target)


def _every(axes: list[list[tuple]]) -> list[list[tuple]]:
    """All combinations of one tap per axis."""
    chosen: list[list[tuple]] = [[]]
    for taps in axes:
        chosen = [[*before, tap] for before in chosen for tap in taps]
    return chosen


@operator(method=False, function=False, node=lambda arguments: f"GridSampler{arguments[0]._layout.ndim - 2}DBackward0")
def look_up(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    """Elements of (N, C, spatial) at the places in grid (N, target, 2 or 3)."""
    return _look_up(input, grid, mode, padding, align)


@look_up.vjp
def _(g, input, grid, mode, padding, align, need):
    again = modes.local.grad
    with modes.enable_grad():
        given = [
            x if again and needed and x._node is not None else x.detach().requires_grad_(needed)
            for x, needed in ((input, need["input"]), (grid, need["grid"]))
        ]
        out = _look_up(*given, mode, padding, align)
        wanted = [x for x, name in zip(given, ("input", "grid")) if need[name]]
        made = iter(
            engine.grad((out,), wanted, (g,), create_graph=again, allow_unused=True)
            if out._node is not None
            else [None] * len(wanted)
        )
    found = [next(made) if need[name] else None for name in ("input", "grid")]
    return tuple(
        x * 0 if gradient is None and need[name] else gradient
        for gradient, x, name in zip(found, (input, grid), ("input", "grid"))
    )


@composite(method=False)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
    x, places = input._layout, grid._layout
    if x.ndim < 3:
        raise RuntimeError(
            f"grid_sampler(): expected input to have at least 3 dimensions, but got input with sizes {list(x.shape)}"
        )
    if x.shape[0] != places.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes {list(x.shape)} "
            f"and grid with sizes {list(places.shape)}"
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
    if x.dtype is not places.dtype:
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {places.dtype.scalar_name}")
    return look_up(input, grid, MODES[interpolation_mode], PADDINGS[padding_mode], bool(align_corners))


@composite(method=False)
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of (N, C, H, W)."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@composite(method=False)
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of (N, C, D, H, W)."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _number(what: str, value: str, names: tuple[str, ...], words: str) -> int:
    if value not in names:
        raise ValueError(f"nn.functional.grid_sample(): expected {what} to be {words}, but got: '{value}'")
    return names.index(value)


@composite(method=False, function=False)
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Elements of input (N, C, [D,] H, W) at places grid (N, [D',] H', W', 2 or 3), whose coordinates x, y[, z] go from -1 to 1.

    ValueError for unknown modes, RuntimeError for shapes that don't fit.
    """
    kind = _number("mode", mode, MODES, "'bilinear', 'nearest' or 'bicubic'")
    padding = _number("padding_mode", padding_mode, PADDINGS, "'zeros', 'border', or 'reflection'")
    if align_corners is None:
        warnings.warn(DEFAULT_CHANGED, stacklevel=3)
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
    return made.view(batch, *size[2:], len(size) - 2)


@affine_grid_generator.vjp
def _(g, size, align_corners):
    base = _base_grid(g, tuple(size[2:]), align_corners)
    batch, dims = g._layout.shape[0], len(size) - 2
    flat = g.reshape(batch, base._layout.shape[0], dims)
    return flat.transpose(1, 2).bmm(base.unsqueeze(0).expand(batch, *base._layout.shape))


@composite(method=False, function=False)
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) or (N, D, H, W, 3) for `grid_sample` that maps by theta (N, 2, 3) or (N, 3, 4).

    ValueError if theta's shape or dtype, or the size, don't fit.
    """
    if align_corners is None:
        warnings.warn(DEFAULT_CHANGED, stacklevel=3)
        align_corners = False
    layout = theta._layout
    if not layout.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {layout.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{size}."
        )
    dims = len(size) - 2
    if layout.ndim != 3 or tuple(layout.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got "
            f"{layout.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, tuple(size), bool(align_corners))
