"""Reductions in aten's core operators."""

from __future__ import annotations

import math
from typing import Any

from flambeau._decomp.helpers import aten, computed_in_float32, decomposes, where

__all__: list[str] = []


@decomposes("sum.default")
def sum(self: Any, *, dtype: Any = None) -> Any:
    return aten.sum.dim_IntList(self, [], **({} if dtype is None else {"dtype": dtype}))


@decomposes("all.default")
def all(self: Any) -> Any:
    return aten.logical_not.default(aten.any.dims(aten.logical_not.default(self)))


@decomposes("all.dim")
def all_dim(self: Any, dim: int, keepdim: bool = False) -> Any:
    return aten.logical_not.default(aten.any.dim(aten.logical_not.default(self), dim, *([True] if keepdim else [])))


@decomposes("all.dims")
def all_dims(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    along = [] if dim is None and not keepdim else [dim, True] if keepdim else [dim]
    return aten.logical_not.default(aten.any.dims(aten.logical_not.default(self), *along))


@decomposes("aminmax.default")
def aminmax(self: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    along: list[Any] = [] if dim is None else [[dim]]
    along += [[], True][len(along) :] if keepdim else []
    return aten.amin.default(self, *along), aten.amax.default(self, *along)


@decomposes("count_nonzero.default")
def count_nonzero(self: Any, dim: int | None = None) -> Any:
    return aten.sum.dim_IntList(aten.ne.Scalar(self, 0), None if dim is None else [dim])


@decomposes("count_nonzero.dim_IntList")
def count_nonzero_dims(self: Any, dim: Any) -> Any:
    return aten.sum.dim_IntList(aten.ne.Scalar(self, 0), list(dim))


@decomposes("logsumexp.default")
@computed_in_float32
def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Any:
    along = list(dim)
    if not self.numel():
        return aten.log.default(aten.sum.dim_IntList(aten.exp.default(self), along, keepdim))
    largest = aten.amax.default(self, along, True)
    finite = where(aten.eq.Scalar(aten.abs.default(largest), math.inf), 0.0, largest)
    moved = finite if keepdim else aten.squeeze.dims(finite, along)
    parts = aten.exp.default(aten.sub.Tensor(self, finite))
    total = aten.sum.dim_IntList(parts, along, *([True] if keepdim else []))
    return aten.add.Tensor(aten.log.default(total), moved)


@decomposes("nansum.default")
def nansum(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    named = {} if dtype is None else {"dtype": dtype}
    known = where(aten.isnan.default(self), 0, self)
    return aten.sum.dim_IntList(known, None if dim is None else list(dim), *([True] if keepdim else []), **named)


@decomposes("std.correction")
def std(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    along, named = _spread(dim, correction, keepdim)
    return aten.sqrt.default(aten.var.correction(self, *along, **named))


@decomposes("std_mean.correction")
def std_mean(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    along, named = _spread(dim, correction, keepdim)
    variance, mean = aten.var_mean.correction(self, *along, **named)
    return aten.sqrt.default(variance), mean


def _spread(dim: Any, correction: Any, keepdim: bool) -> tuple[list[Any], dict[str, Any]]:
    named: dict[str, Any] = {"correction": 1.0 if correction is None else float(correction)}
    if keepdim:
        named["keepdim"] = True
    return ([] if dim is None else [list(dim)]), named


@decomposes("norm.Scalar")
def norm(self: Any, p: Any = 2) -> Any:
    return aten.linalg_vector_norm.default(self, *([] if p == 2 else [p]))


@decomposes("norm.ScalarOpt_dim")
def norm_dim(self: Any, p: Any, dim: Any, keepdim: bool = False) -> Any:
    return aten.linalg_vector_norm.default(self, 2 if p is None else p, list(dim), *([True] if keepdim else []))


@decomposes("trace.default")
def trace(self: Any) -> Any:
    return aten.sum.default(aten.diagonal_copy.default(self))
