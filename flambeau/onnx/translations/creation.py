"""Translations of what makes tensors: ranges, fills, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx._types import number_of


@translation("arange.default", "arange.start", "arange.start_step", "range")
def arange(b: Builder, *args: Any, **kwargs: Any) -> Value:
    """Numbers from a first one to before a last one."""
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = b.out.dtype if b.out.dtype in (torch.int64, torch.int32, torch.float32, torch.float64) else torch.float32
    return b.cast(b.op("Range", *(b.number(n, dtype) for n in (start, end, step)), dtype=dtype), b.out.dtype)


@translation("linspace.default")
def linspace(b: Builder, start: Any, end: Any, steps: int, **kwargs: Any) -> Value:
    """So many numbers from a first one to a last one."""
    return b.const(np.linspace(start, end, steps, dtype=np.float64), b.out.dtype)


@translation("scalar_tensor")
def scalar_tensor(b: Builder, number: Any, **kwargs: Any) -> Value:
    """A number as a tensor."""
    return b.number(number, b.out.dtype)


def _filled(number: int, *names: str) -> None:
    def write(b: Builder, size: list[Any], *args: Any, **kwargs: Any) -> Value:
        return b.full(size, number, b.out.dtype)

    def like(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
        return b.full(b.sizes(x), number, b.out.dtype)

    def new(b: Builder, x: Value, size: list[Any], *args: Any, **kwargs: Any) -> Value:
        return b.full(size, number, b.out.dtype)

    for name in names:
        translation(name)(write)
        translation(f"{name}_like")(like)
        translation(f"new_{name}")(new)


_filled(0, "zeros", "empty")
_filled(1, "ones")
translation("zero")(lambda b, x: b.full(b.sizes(x), 0, x.dtype))
translation("empty_strided")(lambda b, size, *args, **kwargs: b.full(size, 0, b.out.dtype))
translation("empty_permuted")(lambda b, size, *args, **kwargs: b.full(size, 0, b.out.dtype))
translation("new_empty_strided")(lambda b, x, size, *args, **kwargs: b.full(size, 0, b.out.dtype))


@translation("full")
def full(b: Builder, size: list[Any], fill_value: Any, **kwargs: Any) -> Value:
    """A tensor of one number."""
    return b.full(size, fill_value, b.out.dtype)


@translation("full_like", "fill", "fill.Tensor", "fill.Scalar")
def full_like(b: Builder, x: Value, fill_value: Any, **kwargs: Any) -> Value:
    """A tensor of one number, in another's shape."""
    return b.full(b.sizes(x), fill_value, b.out.dtype)


@translation("new_full")
def new_full(b: Builder, x: Value, size: list[Any], fill_value: Any, **kwargs: Any) -> Value:
    """A tensor of one number."""
    return b.full(size, fill_value, b.out.dtype)


@translation("copy")
def copy(b: Builder, x: Value, src: Value, non_blocking: bool = False) -> Value:
    """A source, in the shape and dtype of a tensor."""
    src = b.cast(src, x.dtype)
    return src if src.rank == x.rank and src.shape == x.shape else b.op("Expand", src, b.sizes(x))


@translation("eye.default", "eye.m")
def eye(b: Builder, n: Any, m: Any = None, **kwargs: Any) -> Value:
    """Ones on a diagonal."""
    zeros = b.full([n, n if m is None else m], 0, torch.float32)
    return b.cast(b.op("EyeLike", zeros, shape=zeros.shape), b.out.dtype)


@translation("tril_indices", "triu_indices")
def triangle_indices(b: Builder, row: int, col: int, offset: int = 0, **kwargs: Any) -> Value:
    """The places of a triangle."""
    places = np.tril_indices(row, offset, col) if "tril" in b.target else np.triu_indices(row, offset, col)
    return b.const(np.stack(places), b.out.dtype)


# ---------------------------------------------------------------- random numbers


def _random(op_type: str, name: str) -> None:
    def write(b: Builder, size: list[Any], *args: Any, **kwargs: Any) -> Value:
        return _made(b, op_type, b.full(size, 0, torch.float32))

    def like(b: Builder, x: Value, **kwargs: Any) -> Value:
        return _made(b, op_type, x)

    translation(name)(write)
    translation(f"{name}_like")(like)


def _made(b: Builder, op_type: str, like: Value) -> Value:
    """A tensor of random numbers in another's shape."""
    return b.op(f"{op_type}Like", like, dtype=b.out.dtype, attributes={"dtype": int(number_of(b.out.dtype))})


_random("RandomUniform", "rand")
_random("RandomNormal", "randn")


@translation("uniform")
def uniform(b: Builder, x: Value, low: float = 0.0, high: float = 1.0, **kwargs: Any) -> Value:
    """Random numbers between two."""
    return b.op("RandomUniformLike", x, low=float(low), high=float(high))


@translation("normal_functional", "normal.Tensor_float")
def normal(b: Builder, x: Value, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> Value:
    """Normal random numbers."""
    return b.op("RandomNormalLike", x, mean=float(mean), scale=float(std))


@translation("randint.default", "randint.low")
def randint(b: Builder, *args: Any, **kwargs: Any) -> Value:
    """Random integers."""
    low, high, size = (0, *args) if len(args) == 2 else args
    zeros = b.full(size, 0, torch.float32)
    return b.cast(b.op("Floor", b.op("RandomUniformLike", zeros, low=float(low), high=float(high))), b.out.dtype)


@translation("bernoulli.default")
def bernoulli(b: Builder, x: Value, **kwargs: Any) -> Value:
    """1 with the probability that an element says, else 0."""
    return b.op("Bernoulli", x)


@translation("bernoulli.p", "bernoulli.float")
def bernoulli_p(b: Builder, x: Value, p: float = 0.5, **kwargs: Any) -> Value:
    """1 with a probability, else 0."""
    return b.cast(b.op("Less", b.op("RandomUniformLike", x), float(p)), x.dtype)


@translation("multinomial")
def multinomial(b: Builder, x: Value, num_samples: int, replacement: bool = False, **kwargs: Any) -> Value:
    """Places drawn with the probabilities of rows."""
    from flambeau.onnx.translations._common import unsupported

    if not replacement and num_samples > 1:
        raise unsupported(b, "without replacement; draw with replacement=True")
    rows = x if x.rank == 2 else b.unsqueeze(x, 0)
    kind = {"dtype": int(number_of(torch.int64))}
    drawn = b.op("Multinomial", b.op("Log", rows), sample_size=num_samples, dtype=torch.int64, attributes=kind)
    return drawn if x.rank == 2 else b.squeeze(drawn, 0)
