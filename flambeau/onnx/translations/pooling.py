"""Translations of pooling: maxima and means of windows, and of as many windows as an output has places."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import each, sized, unsupported
from flambeau.onnx.translations.convolution import batched


def _max_pool(dims: int, indices: bool) -> None:
    def write(
        b: Builder, x: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        if x.rank == dims + 1:
            made = write(b, b.unsqueeze(x, 0), kernel_size, stride, padding, dilation, ceil_mode)
            return tuple(b.squeeze(y, 0) for y in made) if indices else b.squeeze(made, 0)
        kernel = each(kernel_size, dims)
        given = {
            "kernel_shape": kernel,
            "strides": each(stride, dims) if stride not in ((), [], None) else kernel,
            "pads": each(padding, dims) * 2,
            "dilations": each(dilation, dims),
            "ceil_mode": int(ceil_mode),
            "shape": [1] * x.rank,
        }
        if not indices:
            return b.op("MaxPool", x, **given)
        found, places = b.op("MaxPool", x, outputs=2, **given)
        count: Any = 1
        for d in range(2, x.rank):
            count = count * b.size(x, d)
        return found, b.op("Mod", places, count, shape=found.shape)  # PyTorch counts within an image

    translation(f"max_pool{dims}d" + ("_with_indices" if indices else ""))(write)


def _avg_pool(dims: int) -> None:
    def write(
        b: Builder,
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        kernel = each(kernel_size, dims)
        given = {
            "kernel_shape": kernel,
            "strides": each(stride, dims) if stride not in ((), [], None) else kernel,
            "pads": each(padding, dims) * 2,
            "ceil_mode": int(ceil_mode),
            "count_include_pad": int(count_include_pad or divisor_override is not None),
            "shape": [1] * (dims + 2),
        }
        made = batched(b, x, dims + 2, lambda y: b.op("AveragePool", y, **given))
        if divisor_override is None:
            return made
        count = 1
        for k in kernel:
            count *= k
        return b.op("Mul", made, count / divisor_override)

    translation(f"avg_pool{dims}d")(write)


def _adaptive_avg_pool(dims: int) -> None:
    def write(b: Builder, x: Value, output_size: Any) -> Value:
        sizes = each(output_size, dims)
        if x.rank == dims + 2 and all(n == 1 for n in sizes):
            return b.op("GlobalAveragePool", x)
        known = [b.size(x, d - dims) for d in range(dims)]
        if not any(isinstance(n, Size) for n in known) and all(n % m == 0 for n, m in zip(known, sizes)):
            kernel = [n // m for n, m in zip(known, sizes)]
            return batched(b, x, dims + 2, lambda y: b.op(
                "AveragePool", y, kernel_shape=kernel, strides=kernel, shape=[1] * (dims + 2)))  # fmt: skip
        for d, size in enumerate(sizes):
            x = _averaged(b, x, x.rank - dims + d, size)
        return x

    translation(f"adaptive_avg_pool{dims}d", f"_adaptive_avg_pool{dims}d")(write)


def _averaged(b: Builder, x: Value, dim: int, count: Any) -> Value:
    """The means of as many neighbouring parts along a dimension: a product with a matrix of their weights."""
    size = b.size(x, dim)
    number, one = b.number(size, None), b.number(1, None)
    i = b.unsqueeze(b.op("Range", b.number(0, None), b.number(count, None), one, shape=(1,)), 1)
    place = b.op("Range", b.number(0, None), number, one)
    start = b.op("Div", b.op("Mul", i, number), count)
    end = b.op("Div", b.op("Add", b.op("Mul", b.op("Add", i, 1), number), count - 1), count)
    within = b.op("And", b.op("GreaterOrEqual", place, start), b.op("Less", place, end))
    lengths = b.cast(b.op("Sub", end, start), x.dtype)
    weights = b.op("Div", b.cast(within, x.dtype), lengths)
    shape = list(x.shape)
    shape[dim] = count
    if dim == x.rank - 1:
        return b.op("MatMul", x, b.op("Transpose", weights, perm=[1, 0]), shape=shape)
    last = b.op("MatMul", b.swap(x, dim, -1), b.op("Transpose", weights, perm=[1, 0]), shape=[1] * x.rank)
    made = b.swap(last, dim, -1)
    made.shape = shape
    return made


def _adaptive_max_pool(dims: int) -> None:
    def write(b: Builder, x: Value, output_size: Any) -> tuple[Value, Value]:
        if x.rank == dims + 1:
            return tuple(b.squeeze(y, 0) for y in write(b, b.unsqueeze(x, 0), output_size))  # type: ignore[return-value]
        known, sizes = sized(b, x, *range(2, x.rank)), each(output_size, dims)
        if any(n % m for n, m in zip(known, sizes)):
            raise unsupported(b, f"from {known} to {sizes}: ONNX has windows of one size; choose an output size that divides")
        kernel = [n // m for n, m in zip(known, sizes)]
        found, places = b.op("MaxPool", x, kernel_shape=kernel, strides=kernel, outputs=2, shape=[1] * x.rank)
        count = 1
        for n in known:
            count *= n
        return found, b.op("Mod", places, count, shape=found.shape)

    translation(f"adaptive_max_pool{dims}d")(write)


for _dims in (1, 2, 3):
    _max_pool(_dims, False)
    _max_pool(_dims, True)
    _avg_pool(_dims)
    _adaptive_avg_pool(_dims)
    _adaptive_max_pool(_dims)


@translation("max_unpool2d", "max_unpool3d")
def max_unpool(b: Builder, x: Value, indices: Value, output_size: Any, *rest: Any) -> Value:
    """Elements at the places that pooling took them from."""
    dims = len(output_size)
    count: Any = 1
    for n in output_size:
        count = count * n
    lead = b.sizes(x)[: x.rank - dims]
    flat, places = (b.reshape(y, [*lead, -1]) for y in (x, indices))
    zeros = b.full([*lead, count], 0, x.dtype)
    made = b.op("ScatterElements", zeros, b.cast(places, torch.int64), flat, axis=-1)
    return b.reshape(made, [*lead, *output_size])
