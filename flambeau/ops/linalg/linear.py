"""linear: the product with the rows of a weight, to which a bias is added in its epilogue. Stands on ops.linalg.addmm."""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.small_floats import FORMATS
from flambeau.codegen.products.matrix import Matrix
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.annotations import Planned
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import Product, described
from flambeau.core.operator.out_rules import Out, exact
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.addmm import addmm
from flambeau.ops.linalg.matmul import adjoint, matmul, mm, product_plan, refuse_dtype, widened


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    a, w = input._layout, weight._layout
    if not a.is_contiguous and a.ndim > 2:
        return linear(input.contiguous(), weight, bias)
    if a.dtype in FORMATS:
        return widened(linear if bias is None else lambda bias, input, weight: linear(input, weight, bias), a.dtype)
    refuse_dtype("linear", input, weight)
    rows = a.numel // a.shape[-1] if a.shape[-1] else math.prod(a.shape[:-1])
    n, k = w.shape
    row = (a.strides[-2] if a.ndim == 2 else a.shape[-1]) if a.ndim > 1 else 0
    given = (input, weight) if bias is None else (bias, input, weight)
    slot = len(given) - 1
    return product_plan(
        given,
        (*a.shape[:-1], n),
        (rows, n, k),
        (1, 1),
        Matrix(slot, (0, 0, row, a.strides[-1])),
        Matrix(slot + 1, (0, 0, w.strides[1], w.strides[0])),
        None if bias is None else Matrix(1, (0, 0, 0, bias._layout.strides[0])),
    )


def _linear_vjp(g, input, weight, need):
    gx = gw = gb = None
    flat = g if g._layout.ndim == 2 else g.reshape(-1, g._layout.shape[-1])
    if need["input"]:
        gx = linear(g, adjoint(weight))
    if need["weight"]:
        x = input if input._layout.ndim == 2 else input.reshape(-1, input._layout.shape[-1])
        gw = mm(flat.t().conj() if flat.is_complex() else flat.t(), x)
        gw = gw.conj() if gw.is_complex() else gw
    if "bias" not in need:
        return gx, gw
    if need["bias"]:
        gb = flat.sum(0)
    return gb, gx, gw


# The bias is first, as in addmm: gradients reach leaves in the order of the operands.
@operator(node="AddmmBackward0", method=False, function=False, planned=True, jvp=Product("input", "weight", "bias"))
def _linear_with_bias(bias: Tensor, input: Tensor, weight: Tensor) -> Planned:
    return _linear(input, weight, bias)


@operator(node="MmBackward0", method=False, function=False, planned=True, jvp=Product("input", "weight"))
def _linear_plain(input: Tensor, weight: Tensor) -> Planned:
    return _linear(input, weight, None)


@operator(node="ViewBackward0", method=False, function=False, planned=True, jvp=Product("input", "weight", "bias"))
def _linear_batched(bias: Tensor, input: Tensor, weight: Tensor) -> Planned:
    return _linear(input, weight, bias)


@operator(node="UnsafeViewBackward0", method=False, function=False, planned=True, jvp=Product("input", "weight"))
def _linear_plain_batched(input: Tensor, weight: Tensor) -> Planned:
    return _linear(input, weight, None)


@operator(node="SqueezeBackward4", method=False, function=False, planned=True, jvp=Product("input", "weight"))
def _linear_plain_vector(input: Tensor, weight: Tensor) -> Planned:
    return _linear(input, weight, None)


_linear_with_bias.vjp(_linear_vjp)
_linear_plain.vjp(_linear_vjp)
_linear_batched.vjp(_linear_vjp)
_linear_plain_batched.vjp(_linear_vjp)
_linear_plain_vector.vjp(_linear_vjp)


@described(out=Out(dtype=exact))
@composite(method=False, function=False, autocast=lower, written_in_python=False)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (*, in) by (out, in) gives (*, out). RuntimeError if shapes or dtypes don't fit."""
    a, w = input._layout, weight._layout
    if (
        w.ndim == 2
        and a.ndim
        and a.shape[-1] == w.shape[1]
        and a.dtype is w.dtype
        and (bias is None or (bias._layout.dtype is a.dtype and bias._layout.shape == w.shape[:1]))
    ):
        if a.ndim == 2:
            return _linear_plain(input, weight) if bias is None else _linear_with_bias(bias, input, weight)
        if bias is not None:
            return _linear_batched(bias, input, weight)
        return _linear_plain_vector(input, weight) if a.ndim == 1 else _linear_plain_batched(input, weight)
    if not a.ndim or not w.ndim:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {a.ndim}D and {w.ndim}D")
    if w.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {w.ndim}D")
    if bias is None:
        return matmul(input, weight.t() if w.ndim == 2 else weight)
    if w.ndim == 1:
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    if a.ndim == 2:
        return addmm(bias, input, weight.t())
    if a.ndim > 2 and not a.is_contiguous and bias._layout.dtype is not a.dtype is w.dtype and not bias._layout.dtype.is_complex:
        return matmul(input, weight.t()).add_(bias)  # PyTorch multiplies, then adds, where it can't fold the input
    if bias._layout.ndim == 1 and a.shape[-1]:
        return addmm(bias, input.reshape(-1, a.shape[-1]), weight.t()).view(*a.shape[:-1], w.shape[0])
    return matmul(input, weight.t()) + bias
