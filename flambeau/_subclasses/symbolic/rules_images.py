"""Rules of operators over images: convolutions, pools, resampling, borders. See `rules`."""

from __future__ import annotations

import math
from typing import Any

from flambeau._subclasses.symbolic.rules import Call, rule
from flambeau.base.symbolic.expressions import ZERO, Expr, integer, rebuild


def _each(value: Any, count: int, default: Any = None) -> list[int]:
    if value is None or value == []:
        value = default
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return items * count if len(items) == 1 else items


def _windows(size: Expr, kernel: Any, stride: int, padding: int, dilation: int) -> Expr:
    """How many windows there are."""
    return rebuild("FloorDiv", (size + (2 * padding - 1) - (kernel - 1) * dilation, integer(stride))) + 1


@rule("conv1d.default", "conv2d.default", "conv3d.default", "convolution.default")
def _convolution(call: Call) -> Any:
    own, weight = call.sizes("input"), call.sizes("weight")
    dims = len(weight) - 2
    if call["transposed"]:
        return None
    stride, padding, dilation = (_each(call[n], dims) for n in ("stride", "padding", "dilation"))
    call.holds("Eq", own[-dims - 1], weight[1] * int(call["groups"]))
    made = [_windows(*x) for x in zip(own[-dims:], weight[2:], stride, padding, dilation)]
    for size, k, p, d in zip(own[-dims:], weight[2:], padding, dilation):
        call.holds("Ge", size + 2 * p, (k - 1) * d + 1)
    return [(*own[: -dims - 1], weight[0], *made)]


def _pool(name: str, dims: int) -> None:
    @rule(f"{name}{dims}d", f"{name}{dims}d_with_indices")
    def make(call: Call) -> Any:
        own = call.sizes()
        kernel = _each(call["kernel_size"], dims)
        stride = _each(call["stride"], dims, kernel)
        padding, dilation = _each(call["padding"], dims), _each(call["dilation"] or 1, dims)
        if call["ceil_mode"]:
            return None
        made = [_windows(*x) for x in zip(own[-dims:], kernel, stride, padding, dilation)]
        for n in made:
            call.holds("Gt" if name == "max_pool" else "Ge", n, ZERO if name == "max_pool" else integer(1))
        results = 2 if call.name.endswith("indices") else 1
        return [(*own[:-dims], *map(call.env.replace, made))] * results


for _dims in (1, 2, 3):
    _pool("max_pool", _dims)
    _pool("avg_pool", _dims)


@rule("im2col", "unfold")
def _columns(call: Call) -> Any:
    own = call.sizes()
    if len(own) < 3 or call["kernel_size"] is None:
        return None
    kernel, dilation, padding, stride = (_each(call[n], 2) for n in ("kernel_size", "dilation", "padding", "stride"))
    blocks = [_windows(*x) for x in zip(own[-2:], kernel, stride, padding, dilation)]
    for n in blocks:
        call.holds("Ge", n, integer(1))
    return [(*own[:-3], own[-3] * (kernel[0] * kernel[1]), blocks[0] * blocks[1])]


@rule("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d",
      "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_nearest_exact2d", "_upsample_nearest_exact1d")  # fmt: skip
def _resampled(call: Call) -> Any:
    own = call.sizes("input" if "input" in call.given else "self")
    if call["output_size"] is not None:
        return [(*own[:2], *call.exprs("output_size"))]
    made = []
    for size, scale in zip(own[2:], call["scale_factors"] or ()):
        if isinstance(scale, float) and scale.is_integer():
            made.append(size * int(scale))
        elif size.is_number:
            made.append(integer(math.floor(size.value * scale)))
        else:
            made.append(rebuild("TruncToInt", (rebuild("ToFloat", (size,)) * float(scale),)))
    return [(*own[:2], *made)] if made else None
