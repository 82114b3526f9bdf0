"""Methods of every tensor that have to do with quantized ones. They load ops.quantized when they are called.

Stands on core.operator.publishing; attaches to Tensor.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.publishing import public
from flambeau.core.tensor.tensor import Tensor


def _room() -> Any:
    from flambeau.ops import quantized

    return quantized.conversion


@public(namespace=False)
def dequantize(self: Tensor) -> Tensor:
    """The float32 numbers that a quantized tensor stands for; any other tensor as float32."""
    return _room().dequantize(self)  # type: ignore[no-any-return]


@public(namespace=False)
def int_repr(self: Tensor) -> Tensor:
    """A copy of the integers of a quantized tensor. NotImplementedError for others, as of all methods here."""
    return _room().int_repr(self)  # type: ignore[no-any-return]


@public(namespace=False)
def q_scale(self: Tensor) -> float:
    """The scale of a tensor that is quantized as a whole."""
    return _room().q_scale(self)  # type: ignore[no-any-return]


@public(namespace=False)
def q_zero_point(self: Tensor) -> int:
    """The integer that stands for 0, of a tensor that is quantized as a whole."""
    return _room().q_zero_point(self)  # type: ignore[no-any-return]


@public(namespace=False)
def q_per_channel_scales(self: Tensor) -> Tensor:
    """The scales of a tensor that is quantized by channels."""
    return _room().q_per_channel_scales(self)  # type: ignore[no-any-return]


@public(namespace=False)
def q_per_channel_zero_points(self: Tensor) -> Tensor:
    """The zero points of a tensor that is quantized by channels."""
    return _room().q_per_channel_zero_points(self)  # type: ignore[no-any-return]


@public(namespace=False)
def q_per_channel_axis(self: Tensor) -> int:
    """The dimension whose indices have scales of their own."""
    return _room().q_per_channel_axis(self)  # type: ignore[no-any-return]


@public(namespace=False)
def qscheme(self: Tensor) -> Any:
    """How the integers of a quantized tensor stand for numbers: torch.per_tensor_affine, per_channel_affine ..."""
    return _room().qscheme(self)
