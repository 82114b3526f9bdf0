"""Dropout: of elements, of whole channels, and the forms that keep mean and variance (alpha dropout).

The mask is drawn as PyTorch draws it and kept as booleans; one kernel multiplies and scales. Stands on ops/random/samplers.py and
core.operator.pointwise; offered by the namespace and flambeau.nn.functional.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from flambeau.base.dtype import dtype as DType
from flambeau.base.small_floats import AS_BITS, from_bits, to_bits
from flambeau.core.modes import modes
from flambeau.core.operator import variants
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ops.random.samplers import keep_mask

ALPHA = 1.7580993408473766  # minus the limit of SELU for large negative inputs


@pointwise(name="dropout_kept", function=False, method=False, inplace=False, undecided=("mask",), node="Mul")
def kept(input: Tensor, mask: Tensor, scale: Number = 1.0):
    """input, scaled, where the mask is set, else 0."""
    return input * s.where(mask, scale, 0)


@pointwise(name="alpha_dropout_kept", function=False, method=False, inplace=False, undecided=("mask",), node="Add")
def kept_shifted(input: Tensor, mask: Tensor, scale: Number = 1.0, shift_kept: Number = 0.0, shift_dropped: Number = 0.0):
    """input, scaled and shifted, where the mask is set, else the other shift."""
    return input * s.where(mask, scale, 0) + s.where(mask, shift_kept, shift_dropped)


KEPT, KEPT_SHIFTED = kept.operator, kept_shifted.operator


def _in_dtype(dtype: DType, value: float) -> float:
    """A number rounded to a dtype."""
    if dtype in AS_BITS:
        return float(from_bits(to_bits([value], dtype), dtype)[0])
    return float(dtype.numpy.type(value))


@lru_cache(256)
def _scale(dtype: DType, p: float) -> float:
    """1 / (1 - p) with the rounding of a division in the dtype."""
    if p == 1:
        return 0.0
    wide = np.float64 if dtype.name == "float64" else np.float32
    return _in_dtype(dtype, float(wide(1) / wide(1 - p)))


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _mask(input: Tensor, p: float, feature: bool) -> Tensor:
    """What to keep: each element, or with `feature` each channel, with probability 1 - p."""
    dtype = input._layout.dtype
    if dtype.is_complex:
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{dtype.scalar_name}'")
    if not dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {dtype.scalar_name}")
    shape = None
    if feature:
        layout = input._layout
        if layout.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        shape = (*layout.shape[:2], *[1] * (layout.ndim - 2))
    with modes.no_grad():
        return keep_mask(input, shape, 1 - p)


def _drop(input: Tensor, p: float, train: bool, feature: bool, public: Callable, inplace: bool) -> Tensor:
    _check(p)
    if p == 0 or not train or input._layout.numel == 0:
        return input
    mask = _mask(input, p, feature)
    numbers = (_scale(input._layout.dtype, p),)
    if inplace:
        return variants.inplace(KEPT, public, [input, mask], numbers, ())
    return kept(input, mask, *numbers)


def _alpha_drop(input: Tensor, p: float, train: bool, feature: bool, public: Callable, inplace: bool) -> Tensor:
    _check(p)
    if p == 0 or not train or input._layout.numel == 0:
        return input
    mask = _mask(input, p, feature)
    if p == 1:
        return variants.inplace(KEPT, public, [input, mask], (0.0,), ()) if inplace else kept(input, mask, 0.0)
    a = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    numbers = (a, ALPHA * a * p, ALPHA * a * (p - 1))
    if inplace:
        return variants.inplace(KEPT_SHIFTED, public, [input, mask], numbers, ())
    return kept_shifted(input, mask, *numbers)


@composite(method=False)
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeros each element with probability p and scales the others by 1 / (1 - p). RuntimeError unless 0 <= p <= 1."""
    return _drop(input, p, train, False, dropout, False)


@composite(method=False)
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place `dropout`."""
    return _drop(input, p, train, False, dropout_, True)


@composite(method=False)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` of whole channels of (N, C, *)."""
    return _drop(input, p, train, True, feature_dropout, False)


@composite(method=False)
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place `feature_dropout`."""
    return _drop(input, p, train, True, feature_dropout_, True)


@composite(method=False)
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout to the negative limit of SELU, then an affine map that keeps mean 0 and variance 1."""
    return _alpha_drop(input, p, train, False, alpha_dropout, False)


@composite(method=False)
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place `alpha_dropout`."""
    return _alpha_drop(input, p, train, False, alpha_dropout_, True)


@composite(method=False)
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, *)."""
    return _alpha_drop(input, p, train, True, feature_alpha_dropout, False)


@composite(method=False)
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place `feature_alpha_dropout`."""
    return _alpha_drop(input, p, train, True, feature_alpha_dropout_, True)


@operator(method=False, node="NativeDropoutBackward0", function=False, jvp=LINEAR)
def scaled_where_kept(input: Tensor, mask: Tensor, scale: float) -> Any:
    """(input where the mask is set, scaled; the mask)."""
    return kept(input, mask, scale), mask


@scaled_where_kept.vjp
def _(gs, mask, scale):
    return kept(gs[0], mask, scale)


@composite(method=False)
def native_dropout(input: Tensor, p: float, train: bool | None) -> Any:
    """(`dropout` of input, the mask of the elements that are kept)."""
    if train is False or input._layout.numel == 0:
        return scaled_where_kept(input, keep_mask(input, None, 1.0), 1.0)
    return scaled_where_kept(input, _mask(input, p, False), _scale(input._layout.dtype, p))
