"""Reductions of masked tensors: of the elements that the mask chooses; the result is masked where it chooses none."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.masked.maskedtensor.core import of_parts, rule
from flambeau.transform.levels import operator_of

__all__ = ["REDUCE_NAMES"]

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()


def _all(data: Tensor, dim: Any = None, keepdim: bool = False, mask: Any = None) -> Tensor:
    filled = data.masked_fill(~mask, True)  # type: ignore[attr-defined]
    return filled.all() if dim is None else filled.all(dim, keepdim)


def _function(name: str) -> Callable[..., Any]:
    return _all if name == "all" else getattr(importlib.import_module("flambeau.masked._ops"), name)


def _of_all(name: str, input: Any) -> Any:
    """The reduction to one element."""
    data, mask = input.get_data(), input.get_mask()
    if name in ("argmin", "argmax") and input.is_sparse_coo():
        at = int(_function(name)(data.values(), mask=mask.values()))
        place, strides, count = data.indices().unbind(1)[at].tolist(), [], 1
        for size in reversed(data.shape):
            strides.append(count)
            count *= size
        result = NAMESPACE["tensor"](sum(i * s for i, s in zip(place, reversed(strides))))
        return of_parts(result, mask.values().any())
    if input.is_sparse:
        data, mask = data.values(), mask.values()
    return of_parts(_function(name)(data, mask=mask), mask.any())


def _of_dims(name: str, input: Any, dim: Any, keepdim: bool, **more: Any) -> Any:
    """The reduction over dimensions. NotImplementedError, after a warning, for sparse data."""
    if input.is_sparse:
        warnings.warn(
            f"The sparse version of {name} is not implemented in reductions.\nIf you would like this operator to be "
            "supported, please file an issue for a feature request at https://github.com/pytorch/maskedtensor/issues "
            "with a minimal reproducible code snippet.\nIn the case that the semantics for the operator are not "
            "trivial, it would be appreciated to also include a proposal for the semantics.",
            stacklevel=2,
        )
        raise NotImplementedError(f"masked {name} over dimensions of sparse data is not implemented: take to_dense() first")
    mask = input.get_mask()
    ord = (more.pop("p", None),) if name == "norm" else ()
    result = _function(name)(input.get_data(), *ord, dim=dim, keepdim=keepdim, mask=mask, **more)
    for d in sorted([x % mask.ndim for x in ((dim,) if isinstance(dim, int) else dim)], reverse=True):
        mask = mask.any(d, keepdim)
    return of_parts(result, mask)


@rule(*REDUCE_NAMES)
def reduce(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """A reduction to one element, or over the dimensions `dim`."""
    declared = operator_of(func)
    given = dict(declared.signature.bind(*args, **kwargs).arguments)
    input, *rest = given.values()
    name = declared.name
    more = {key: value for key, value in zip(list(given)[1:], rest) if value is not None and value is not False}
    dim, keepdim = more.pop("dim", None), more.pop("keepdim", False)
    if dim is None or dim == ():
        return _of_all(name, input)
    return _of_dims(name, input, dim, keepdim, **more)


@rule("_is_any_true")
def is_any_true(func: Callable, input: Any) -> Any:
    """Whether a chosen element is True. ValueError unless they are booleans in a strided tensor."""
    if input.dtype is not dtypes.bool_:
        raise ValueError("__torch_dispatch__, aten._is_any_true: expected a boolean tensor")
    if input.is_sparse:
        raise ValueError("MaskedTensors with sparse data do not have aten._is_any_true")
    return of_parts((input.get_data() & input.get_mask()).any(), NAMESPACE["tensor"](True))
