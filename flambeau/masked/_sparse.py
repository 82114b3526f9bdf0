"""Masks and reductions of sparse tensors: only elements that are there count, and the result is sparse in COO layout.

Stands on the operators of sparse tensors; used by masked._ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor

_BY_SCATTERING = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "any": "amax", "mean": "mean"}


def as_coo(x: Tensor) -> Tensor:
    """A sparse tensor in COO layout, each place once."""
    return x.to_sparse_coo().coalesce()  # type: ignore[attr-defined]


def where_sparse(mask: Tensor, input: Tensor, fill_value: Any) -> Tensor:
    """The elements of `input` that a mask of its layout chooses, 0 where the input has none there.

    fill_value: for elements of dense parts that the mask leaves out at a place that it has.
    """
    chosen, given = as_coo(mask), as_coo(input)
    kept = chosen.values() if chosen.values().ndim == 1 else chosen.values().flatten(1).any(1)  # type: ignore[attr-defined]
    places = chosen.indices()[:, kept]  # type: ignore[attr-defined]
    own, shape = given.indices(), given.shape[: places.shape[0]]  # type: ignore[attr-defined]
    keys, wanted = _key(own, shape), _key(places, shape)
    at = NAMESPACE["searchsorted"](keys, wanted)
    found = at.clamp(max=max(keys.shape[0] - 1, 0))
    values = given.values()  # type: ignore[attr-defined]
    fill = fill_value.to(values.dtype)
    if keys.shape[0]:
        there = keys[found] == wanted
        picked = values[found]
        picked = NAMESPACE["where"](there.reshape(-1, *(1,) * (values.ndim - 1)), picked, 0)
    else:
        picked = values.new_zeros((wanted.shape[0], *values.shape[1:]))
    if values.ndim > 1:  # of dense parts too, only what the mask chooses
        picked = NAMESPACE["where"](chosen.values()[kept], picked, fill)  # type: ignore[attr-defined]
    made = torch.sparse_coo_tensor(places, picked, input.shape, is_coalesced=True)
    return made.to_sparse_csr() if input.layout is not given.layout else made


def _key(places: Tensor, shape: Sequence[int]) -> Tensor:
    """One number for each place, in its order."""
    key = places.new_zeros(places.shape[1])
    for row, size in zip(places, shape):  # type: ignore[call-overload]
        key = key * size + row
    return key


def reduced(name: str, x: Tensor, dims: Sequence[int], keepdim: bool, identity: Any) -> Tensor:
    """The sum, prod, amax, amin, mean or any over dimensions of the elements that are there, in COO layout.

    identity: of the elements of all dimensions together if there are none.
    """
    given = as_coo(x)
    places, values = given.indices(), given.values()  # type: ignore[attr-defined]
    if len(dims) in (0, x.ndim):
        whole = getattr(values, name)() if values.numel() else values.new_full((), identity)
        return whole.reshape((1,) * x.ndim if keepdim else ()).to_sparse()
    sparse = places.shape[0]
    inner = [d - sparse + 1 for d in dims if d >= sparse]
    if name == "any":
        values = values.to(torch.uint8)
    if inner:
        for d in sorted(inner, reverse=True):
            values = getattr(values, _BY_SCATTERING[name])(d, keepdim)
    outer = [d for d in range(sparse) if d not in dims]
    if len(outer) < sparse:
        shape = [x.shape[d] for d in outer]
        keys = _key(places[outer], shape)
        order, group = NAMESPACE["unique"](keys, return_inverse=True)
        group = group.reshape(-1, *(1,) * (values.ndim - 1)).expand(values.shape)
        target = values.new_zeros((order.shape[0], *values.shape[1:]))
        values = target.scatter_reduce(0, group, values, _BY_SCATTERING[name], include_self=False)
        rows = []
        for size in reversed(shape):
            rows.append(order % size)
            order = order // size
        rows.reverse()
        if keepdim:
            zeros = values.new_zeros(values.shape[0], dtype=places.dtype)
            found = iter(rows)
            rows = [next(found) if d in outer else zeros for d in range(sparse)]
        places = NAMESPACE["stack"](rows) if rows else places.new_zeros((0, values.shape[0]))
    result = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
    if name == "any":
        values = values.to(torch.bool)
    return torch.sparse_coo_tensor(places, values, result, is_coalesced=True)
