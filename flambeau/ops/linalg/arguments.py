"""What operators of linear algebra ask of their arguments, in PyTorch's words, and small pieces of their gradients.

Used by ops.linalg.matrix_functions and its siblings.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bool_
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor


def order_of_norm(name: str, order: Any) -> Any:
    """The order of a norm. RuntimeError for a complex one."""
    if isinstance(order, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")
    return order


def floating(name: str, x: Tensor, low: bool = False) -> None:
    """RuntimeError unless x is float32, float64 or complex (`low`: half precision will do)."""
    dtype = x._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {dtype.scalar_name}")
    if not low and dtype.name in ("float16", "bfloat16"):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {dtype.scalar_name}")


COMPUTED = ("float32", "float64", "complex64", "complex128")


def computed(kernel: str, x: Tensor, empty: bool = False) -> None:
    """NotImplementedError, which names PyTorch's kernel, unless factorizations of x's dtype are computed.

    empty: nothing is computed of an empty tensor, so that its dtype doesn't matter.
    """
    dtype = x._layout.dtype
    if dtype.name not in COMPUTED and not (empty and not x._layout.numel):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


def factorizable(name: str, kernel: str, x: Tensor, empty: bool = True) -> None:
    """RuntimeError unless x is of floating or complex dtype, NotImplementedError where that is too short for the kernel."""
    floating(name, x, low=True)
    computed(kernel, x, empty)


def matrices(name: str, x: Tensor, letter: str = "A") -> None:
    if x._layout.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {letter} must have at least 2 dimensions.")


def square(name: str, x: Tensor, letter: str = "A") -> None:
    """RuntimeError unless x is a batch of square matrices."""
    matrices(name, x, letter)
    rows, columns = x._layout.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"{name}: {letter} must be batches of square matrices, but they are {rows} by {columns} matrices")


def half_diagonal(x: Tensor) -> Tensor:
    """The lower triangle with half the (real part of the) diagonal."""
    diagonal = x.diagonal(0, -2, -1)
    return x.tril(-1) + NAMESPACE["diag_embed"]((diagonal.real.to(x.dtype) if x.is_complex() else diagonal) / 2)


def constant_zero(x: Tensor) -> Tensor:
    """Zeros that depend on x in the graph, with zero derivative, whatever x holds."""
    return x.masked_fill(x.new_ones(x._layout.shape, dtype=bool_), 0)


def eye_like(x: Tensor) -> Tensor:
    return NAMESPACE["eye"](x._layout.shape[-1], dtype=x._layout.dtype, device=x._layout.device)
