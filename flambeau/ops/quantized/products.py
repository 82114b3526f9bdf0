"""Products and convolutions of quantized activations with packed weights: their plans.

The step is codegen.quantized.steps; `Weights` is what it reads, made once and kept by packed parameters. Used by quantized_ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.base.dtype import float32, int8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.plan import Plan
from flambeau.codegen.quantized.integer_products import SCALARS
from flambeau.codegen.quantized.steps import Geometry, IntegerProduct, packing, rows
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Geometry", "Weights", "multiply", "packed_rows"]

_plans: dict[Any, Callable] = register_cache({})


class Weights(NamedTuple):
    """A weight's integers as kernels read them, of k bytes to a column; `columns` of each group; scales (float32, one or one
    for each column), sums of columns without their zero points (int32), bias (float32) or None, zero points (int32) or None if
    all are 0. depthwise: the integers are (k taps, channels) of int16, without their zero points.
    """

    codes: Tensor
    k: int
    columns: int
    groups: int
    scales: Tensor
    sums: Tensor
    bias: Tensor | None
    zeros: Tensor | None
    depthwise: bool = False


def packed_rows(codes: Tensor, groups: int) -> Tensor:
    """Rows (groups n, k) of int8 as the columns that kernels read: (groups, blocks, steps along k, columns, bytes of a step)."""
    (count, k), (columns, together) = codes._layout.shape, packing()
    n = count // groups
    codes = codes.reshape(groups, n, k)  # type: ignore[attr-defined]
    codes = NAMESPACE["constant_pad_nd"](codes, [0, -k % together, 0, -n % columns])
    blocks = codes.reshape(groups, -(-n // columns), columns, -(-k // together), together)  # type: ignore[attr-defined]
    return blocks.transpose(2, 3).contiguous()  # type: ignore[no-any-return]


def multiply(x: Tensor, w: Weights, out: Layout, result: str, scalars: Sequence[Any], geometry: Geometry | None = None) -> Tensor:
    """What a product or convolution gives, of layout `out`, whose columns lie side by side.

    x: rows (m, k), or an image (N, channels, depth, height, width), with its last axis (rows) or its channels side by side, of
    uint8 or int8 codes; rows may be float32, to be quantized. result: "codes", "floats" or "sums". scalars: those of the kernel.
    """
    given = [x, w.codes, w.scales, w.sums]
    bias = w.bias is not None and result != "sums"
    if bias:
        given.append(w.bias)
    if w.zeros is not None:
        given.append(w.zeros)
    key = "quantized product", result, bias, geometry, w.k, w.columns, w.groups, w.depthwise, out, *[y._layout for y in given]
    launch = _plans.get(key)
    if launch is None:
        step = _step(x._layout, w, result, geometry, bias)
        layouts = [y._layout for y in given]
        launch = _plans[key] = lowered(Plan([step], [out], layouts, SCALARS, release=step.work >= RELEASE_FROM))
    return launch(None, *given, *scalars)  # type: ignore[no-any-return]


def _step(x: Layout, w: Weights, result: str, geometry: Geometry | None, bias: bool) -> IntegerProduct:
    source = "floats" if x.dtype is float32 else "signed" if x.dtype is int8 else "unsigned"
    if geometry is None:
        images, geometry, strides, channels = 1, rows(x.shape[0]), (0, 0, 0, x.strides[0]), w.k
    else:
        image, _, *others = x.strides
        images, strides, channels = x.shape[0], (image, *others), x.shape[1] // w.groups  # type: ignore[assignment]
    zeros, one_scale, sizes = w.zeros is not None, w.scales._layout.numel == 1, (w.columns, w.groups, w.k)
    return IntegerProduct(images, geometry, strides, channels, *sizes, source, result, one_scale, bias, zeros, w.depthwise)
