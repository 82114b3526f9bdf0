"""Translations of other resolutions and other places: interpolate, grid_sample, affine_grid."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation


def _resized(b: Builder, x: Value, sizes: Any, scales: Any, **how: Any) -> Value:
    axes = list(range(2, x.rank))
    if sizes is not None:
        return b.op("Resize", x, None, None, list(sizes), axes=axes, **how)
    return b.op("Resize", x, None, b.const([float(s) for s in scales], torch.float32), axes=axes, **how)


def _is_whole(b: Builder, x: Value, sizes: Any, scales: Any) -> bool:
    """Whether each element is repeated as often, or every other one left out, so that no place is between two."""
    if sizes is None:
        return all(float(s).is_integer() or s == 0.5 for s in scales)
    known = [(n, b.size(x, i + 2)) for i, n in enumerate(sizes)]
    return all(isinstance(n, int) and isinstance(m, int) and m and n % m == 0 for n, m in known)


def _nearest(b: Builder, x: Value, sizes: Any, scales: Any, exact: bool) -> Value:
    """The elements at places times a factor, rounded down in float32; Resize rounds otherwise where a place is a whole number."""
    for axis in range(2, x.rank):
        size = b.size(x, axis)
        if sizes is None:
            factor = float(scales[axis - 2])
            count = int(size * factor) if isinstance(size, int) else (size * factor).rounded("Floor")
            scale = b.const(1 / factor, torch.float32)
        else:
            count = sizes[axis - 2]
            scale = b.op("Div", b.number(size, torch.float32), b.number(count, torch.float32))
        places = b.cast(b.range(0, count), torch.float32)
        places = b.op("Floor", b.op("Mul", b.op("Add", places, 0.5) if exact else places, scale))
        index = b.op("Min", b.cast(places, torch.int64), b.number(size - 1, torch.int64))
        x = b.op("Gather", x, index, axis=axis, shape=[*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])
    return x


def _interpolation(name: str, **how: Any) -> None:
    aligns = how["mode"] != "nearest"

    def written(b: Builder, x: Value, sizes: Any, scales: Any, align_corners: bool | None) -> Value:
        if sizes is None or not any(s is None for s in scales or [None]):
            sizes = None
        if not aligns and not _is_whole(b, x, sizes, scales):
            return _nearest(b, x, sizes, scales, how["coordinate_transformation_mode"] == "half_pixel")
        return _resized(b, x, sizes, scales, **how, **_places(align_corners))

    def vec(b: Builder, x: Value, output_size: Any, *rest: Any) -> Value:
        return written(b, x, output_size, rest[-1], rest[0] if aligns else None)

    def default(b: Builder, x: Value, output_size: Any, *rest: Any) -> Value:
        return written(b, x, output_size, list(rest[1:] if aligns else rest), rest[0] if aligns else None)

    translation(f"{name}.vec")(vec)
    translation(f"{name}.default")(default)


def _places(align_corners: bool | None) -> dict[str, Any]:
    if align_corners is None:
        return {}
    return {"coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel"}


for _dims, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    _interpolation(f"upsample_nearest{_dims}d", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    _interpolation(
        f"_upsample_nearest_exact{_dims}d",
        mode="nearest",
        coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_ceil",
    )
    _interpolation(f"upsample_{_linear}{_dims}d", mode="linear")
_interpolation("upsample_bicubic2d", mode="cubic", cubic_coeff_a=-0.75)


@translation("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(b: Builder, x: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Value:
    """Values at places between -1 and 1."""
    names = ("linear", "nearest", "cubic") if b.opset >= 20 else ("bilinear", "nearest", "bicubic")
    return b.op(
        "GridSample",
        x,
        grid,
        mode=names[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=int(align_corners),
    )


@translation("affine_grid_generator")
def affine_grid_generator(b: Builder, theta: Value, size: list[Any], align_corners: bool) -> Value:
    """The places that an affine map gives: coordinates between -1 and 1, with a one, times the map."""
    dims = len(size) - 2
    lines = []
    for i, n in enumerate(reversed(size[2:])):  # x first, whose dimension is the last
        count = b.number(n, theta.dtype)
        line = b.cast(b.range(0, n), theta.dtype)
        if align_corners:
            line = b.op("Sub", b.op("Div", b.op("Mul", line, 2), b.op("Max", b.op("Sub", count, 1), 1)), 1)
        else:
            line = b.op("Sub", b.op("Div", b.op("Add", b.op("Mul", line, 2), 1), count), 1)
        line = b.reshape(line, [-1 if d == dims - 1 - i else 1 for d in range(dims)])
        lines.append(b.unsqueeze(b.op("Expand", line, size[2:], shape=[1] * dims), dims))
    lines.append(b.full([*size[2:], 1], 1, theta.dtype))
    points = b.reshape(b.op("Concat", *lines, axis=dims), [1, -1, dims + 1])
    made = b.op("MatMul", points, b.op("Transpose", theta, perm=[0, 2, 1]))
    return b.reshape(made, [*[size[0]], *size[2:], dims])
