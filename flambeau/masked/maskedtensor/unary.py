"""Elementwise operators of one masked tensor: computed on the data, of which the mask stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.base.layout import sparse_coo, sparse_csr, strided
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.namespaces import ops
from flambeau.masked.maskedtensor.core import of_parts, rule

__all__ = ["INPLACE_UNARY_NAMES", "NATIVE_INPLACE_UNARY_FNS", "NATIVE_UNARY_FNS", "UNARY_NAMES"]

UNARY_NAMES = """abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil
    clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10 log1p log2
    logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh
    sqrt square tan tanh trunc""".split()
INPLACE_UNARY_NAMES = [name + "_" for name in UNARY_NAMES if name not in ("angle", "positive", "signbit", "isnan")]

#: The operators as torch.ops.aten has them.
NATIVE_UNARY_FNS = [getattr(ops.aten, name) for name in UNARY_NAMES]
NATIVE_INPLACE_UNARY_FNS = [getattr(ops.aten, name) for name in INPLACE_UNARY_NAMES]


def at_values(function: Callable[..., Any], data: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    """function(data, ...) of a strided tensor; of a sparse one its values, at the same places."""
    if data.layout is strided:
        return function(data, *rest, **kwargs)
    values = function(data.values(), *rest, **kwargs)  # type: ignore[attr-defined]
    if data.layout is sparse_coo:
        return torch.sparse_coo_tensor(data.indices(), values, data.shape, is_coalesced=True)  # type: ignore[attr-defined]
    assert data.layout is sparse_csr
    return torch.sparse_csr_tensor(data.crow_indices(), data.col_indices(), values, data.shape)  # type: ignore[attr-defined]


def _refuse_tensors(others: tuple[Any, ...]) -> None:
    if any(isinstance(x, Tensor) for x in others):
        raise TypeError("MaskedTensor unary ops do not support additional Tensor arguments")


@rule(*UNARY_NAMES, "__pow__")
def unary(func: Callable, input: Any, *rest: Any, **kwargs: Any) -> Any:
    """The operator of the data."""
    _refuse_tensors((*rest, *kwargs.values()))
    return of_parts(at_values(func, input.get_data(), *rest, **kwargs), input.get_mask())


@rule(*INPLACE_UNARY_NAMES)
def unary_in_place(func: Callable, input: Any, *rest: Any, **kwargs: Any) -> Any:
    """The tensor itself, whose data are replaced by the operator of the data."""
    _refuse_tensors((*rest, *kwargs.values()))
    input._set_data_mask(at_values(func, input._masked_data.clone(), *rest, **kwargs), input.get_mask())
    return input
