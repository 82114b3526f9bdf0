"""Translations of convolutions, transposed ones, and their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import each, sized


def batched(b: Builder, x: Value, rank: int, write: Callable[[Value], Value]) -> Value:
    """What an operator on batches makes of one image too."""
    return write(x) if x.rank == rank else b.squeeze(write(b.unsqueeze(x, 0)), 0)


def _window(weight: Value, stride: Any, dilation: Any, groups: int) -> dict[str, Any]:
    dims = weight.rank - 2
    kernel = weight.shape[2:]
    return {
        "kernel_shape": list(kernel) if all(isinstance(k, int) for k in kernel) else None,
        "strides": each(stride, dims),
        "dilations": each(dilation, dims),
        "group": groups,
    }


def _conv(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    dims = weight.rank - 2
    window = _window(weight, stride, dilation, groups)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(window["dilations"], sized(b, weight, *range(2, weight.rank)))]
        pads = [n // 2 for n in total] + [n - n // 2 for n in total]
    else:
        pads = (each(0, dims) if padding == "valid" else each(padding, dims)) * 2
    return batched(b, x, weight.rank, lambda y: b.op("Conv", y, weight, bias, pads=pads, shape=[1] * weight.rank, **window))


for _dims in (1, 2, 3):
    translation(f"conv{_dims}d.default", f"conv{_dims}d.padding")(_conv)


def _conv_transpose(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Value:
    dims = weight.rank - 2
    window = _window(weight, stride, dilation, groups)
    return batched(
        b,
        x,
        weight.rank,
        lambda y: b.op(
            "ConvTranspose",
            y,
            weight,
            bias,
            pads=each(padding, dims) * 2,
            output_padding=each(output_padding, dims),
            shape=[1] * weight.rank,
            **window,
        ),
    )


for _dims in (1, 2, 3):
    translation(f"conv_transpose{_dims}d" + (".input" if _dims > 1 else ""))(_conv_transpose)


@translation("convolution", "_convolution")
def convolution(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *rest: Any,
) -> Value:
    """Either of them."""
    if transposed:
        return _conv_transpose(b, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(b, x, weight, bias, stride, padding, dilation, groups)


@translation("im2col")
def im2col(b: Builder, x: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """The windows of images as columns."""
    if x.rank == 3:
        return b.squeeze(im2col(b, b.unsqueeze(x, 0), kernel_size, dilation, padding, stride), 0)
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (each(n, 2) for n in (kernel_size, dilation, padding, stride))
    if ph or pw:
        x = b.op(
            "Pad",
            x,
            [0, 0, ph, pw, 0, 0, ph, pw],
            shape=[*x.shape[:2], *(_grown(n, 2 * p) for n, p in zip(x.shape[2:], (ph, pw)))],
        )
    sizes = b.sizes(x)
    for axis, k, d, s in ((2, kh, dh, sh), (4, kw, dw, sw)):
        count = (b.size(x, axis) - d * (k - 1) - 1) // s + 1
        first = b.op("Mul", b.range(0, count), s)
        places = b.op("Add", b.const([[i * d] for i in range(k)]), b.unsqueeze(first, 0))
        shape = list(x.shape)
        shape[axis : axis + 1] = [k, count if isinstance(count, int) else SymbolicDim(None)]
        x = b.op("Gather", x, places, axis=axis, shape=shape)
    columns = b.transpose(x, [0, 1, 2, 4, 3, 5])
    return b.reshape(columns, [sizes[0], sizes[1] * kh * kw, -1])


def _grown(n: Any, by: int) -> Any:
    return n + by if isinstance(n, int) else SymbolicDim(None)


@translation("col2im")
def col2im(b: Builder, x: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """Columns added up to images."""
    if x.rank == 2:
        return b.squeeze(col2im(b, b.unsqueeze(x, 0), output_size, kernel_size, dilation, padding, stride), 0)
    return b.op(
        "Col2Im",
        x,
        list(output_size),
        each(kernel_size, 2),
        dilations=each(dilation, 2),
        pads=each(padding, 2) * 2,
        strides=each(stride, 2),
        shape=[1] * 4,
    )
