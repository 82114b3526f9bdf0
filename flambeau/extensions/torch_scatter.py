"""The operators of torch_scatter's compiled library: sums, products, means, minima and maxima of elements by groups.

Groups are given by an index for each element (`scatter`, in any order; `coo`, sorted) or by where each begins (`csr`). Written in
the public operators, which give their gradients; a gradient of minima and maxima goes to the first of equal elements. Stands on
`definitions`; the table of extensions imports it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.extensions.definitions import define

__all__ = ["register", "segment_csr_extreme"]


def _expanded(index: Tensor, src: Tensor, dim: int) -> Tensor:
    """The index for every element of src: a one-dimensional one runs along `dim`; dimensions that are missing come last."""
    if index.dim() == 1:
        index = index.reshape([1] * dim + [-1])
    return index.reshape([*index.shape, *[1] * (src.dim() - index.dim())]).expand(src.shape)


def _groups(index: Tensor, dim_size: int | None) -> int:
    if dim_size is not None:
        return dim_size
    return int(index.max()) + 1 if index.numel() else 0


def _result_shape(src: Tensor, dim: int, groups: int) -> list[int]:
    return [*src.shape[:dim], groups, *src.shape[dim + 1 :]]


def _given(out: Tensor | None, made: Tensor) -> Tensor:
    """What was made, written into `out` where there is one."""
    return made if out is None else out.copy_(made)


def _sum(src: Tensor, index: Tensor, dim: int, start: Tensor) -> Tensor:
    return start.scatter_add(dim, index, src)


def _mul(src: Tensor, index: Tensor, dim: int, start: Tensor) -> Tensor:
    return start.scatter_reduce(dim, index, src, "prod", include_self=True)


def _mean(src: Tensor, index: Tensor, dim: int, start: Tensor, rounding: str = "floor") -> Tensor:
    total = _sum(src, index, dim, start)
    counts = torch.zeros_like(start).scatter_add(dim, index, torch.ones_like(src)).clamp(min=1)
    return total / counts if total.is_floating_point() else total.div(counts, rounding_mode=rounding)


def _extreme(src: Tensor, index: Tensor, dim: int, start: Tensor | None, shape: list[int], name: str) -> tuple[Tensor, Tensor]:
    """(the least or greatest of each group and of `start`, where along `dim` the first such element is)."""
    length = src.size(dim)
    with torch.no_grad():
        values = src.detach()
        if start is None:
            limits = torch.finfo(src.dtype) if src.is_floating_point() else torch.iinfo(src.dtype)
            begin = src.new_full(shape, limits.max if name == "amin" else limits.min)
        else:
            begin = start.detach()
        best = begin.scatter_reduce(dim, index, values, name, include_self=True)
        is_best = values == best.gather(dim, index)
        if start is not None:
            is_best &= best.gather(dim, index) != begin.gather(dim, index)
        places = torch.arange(length).reshape([-1 if d == dim else 1 for d in range(src.dim())]).expand(src.shape)
        chosen = torch.full(shape, length).scatter_reduce(dim, index, torch.where(is_best, places, length), "amin")
    rest = src.new_zeros(shape) if start is None else start
    if not length:
        return rest.clone(), chosen
    return torch.where(chosen < length, src.gather(dim, chosen.clamp(max=length - 1)), rest), chosen


def _scatter(reduce: Callable[..., Tensor], identity: int) -> Callable[..., Tensor]:
    def answer(src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None) -> Tensor:
        dim = dim % src.dim()
        index = _expanded(index, src, dim)
        start = src.new_full(_result_shape(src, dim, _groups(index, dim_size)), identity) if out is None else out
        return _given(out, reduce(src, index, dim, start))

    return answer


def _scatter_extreme(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def answer(src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None) -> tuple[Tensor, Tensor]:
        dim = dim % src.dim()
        index = _expanded(index, src, dim)
        shape = _result_shape(src, dim, _groups(index, dim_size)) if out is None else list(out.shape)
        best, places = _extreme(src, index, dim, out, shape, name)
        return _given(out, best), places

    return answer


# ---------------------------------------------------------------- sorted groups


def _segment_coo(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    scatter = _scatter(reduce, 0)

    def answer(src: Tensor, index: Tensor, out: Tensor | None, dim_size: int | None) -> Tensor:
        return scatter(src, index, index.dim() - 1, out, dim_size)

    return answer


def _segment_coo_extreme(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    scatter = _scatter_extreme(name)

    def answer(src: Tensor, index: Tensor, out: Tensor | None, dim_size: int | None) -> tuple[Tensor, Tensor]:
        return scatter(src, index, index.dim() - 1, out, dim_size)

    return answer


def _gather_coo(src: Tensor, index: Tensor, out: Tensor | None) -> Tensor:
    dim = index.dim() - 1
    shape = [*src.shape[:dim], index.size(dim), *src.shape[dim + 1 :]]
    wide = index.reshape([*index.shape, *[1] * (src.dim() - index.dim())]).expand(shape)
    return _given(out, src.gather(dim, wide))


# ---------------------------------------------------------------- groups by their beginnings


def _group_of(indptr: Tensor, elements: int) -> Tensor:
    """The group of each of the elements along the last dimension; those that lie outside come behind the last group."""
    places = torch.arange(elements).expand(*indptr.shape[:-1], elements).contiguous()
    found = torch.searchsorted(indptr.contiguous(), places, right=True) - 1
    groups = indptr.size(-1) - 1
    return torch.where((found < 0) | (found >= groups), groups, found)


def _leading(indptr: Tensor, src: Tensor) -> Tensor:
    """The beginnings for each of src's leading indices."""
    dim = indptr.dim() - 1
    return indptr.expand(*src.shape[:dim], indptr.size(dim))


def _by_beginnings(src: Tensor, indptr: Tensor) -> tuple[Tensor, int, int]:
    dim = indptr.dim() - 1
    index = _group_of(_leading(indptr, src), src.size(dim))
    return index.reshape([*index.shape, *[1] * (src.dim() - dim - 1)]).expand(src.shape), dim, indptr.size(dim) - 1


def _segment_csr(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def answer(src: Tensor, indptr: Tensor, out: Tensor | None) -> Tensor:
        index, dim, groups = _by_beginnings(src, indptr)
        made = reduce(src, index, dim, src.new_zeros(_result_shape(src, dim, groups + 1)))
        return _given(out, made.narrow(dim, 0, groups).contiguous())

    return answer


def segment_csr_extreme(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """What answers (least or greatest, where it is) by (elements, beginnings, None); `name` as scatter_reduce has it."""

    def answer(src: Tensor, indptr: Tensor, out: Tensor | None) -> tuple[Tensor, Tensor]:
        index, dim, groups = _by_beginnings(src, indptr)
        best, places = _extreme(src, index, dim, None, _result_shape(src, dim, groups + 1), name)
        return _given(out, best.narrow(dim, 0, groups).contiguous()), places.narrow(dim, 0, groups).contiguous()

    return answer


def _gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None) -> Tensor:
    elements = int(indptr.flatten()[-1]) if indptr.numel() else 0
    return _gather_coo(src, _group_of(_leading(indptr, src), elements if out is None else out.size(indptr.dim() - 1)), out)


_REDUCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "sum": (_sum, _sum),
    "mean": (_mean, functools.partial(_mean, rounding="trunc")),
}  # of any groups, of sorted ones
_EXTREMES = {"min": "amin", "max": "amax"}


def _operators() -> dict[str, Callable[..., Any]]:
    """The operators' schemas, each with what answers it."""
    scatter, coo, csr = (
        "Tensor _0, Tensor _1, int _2, Tensor? _3, int? _4",
        "Tensor _0, Tensor _1, Tensor? _2, int? _3",
        "Tensor _0, Tensor _1, Tensor? _2",
    )
    one, two = "Tensor _0", "(Tensor _0, Tensor _1)"
    made: dict[str, Callable[..., Any]] = {
        "cuda_version() -> int _0": lambda: -1,
        f"scatter_mul({scatter}) -> {one}": _scatter(_mul, 1),
        f"gather_coo({csr}) -> {one}": _gather_coo,
        f"gather_csr({csr}) -> {one}": _gather_csr,
    }
    for name, (reduce, reduce_sorted) in _REDUCTIONS.items():
        made[f"scatter_{name}({scatter}) -> {one}"] = _scatter(reduce, 0)
        made[f"segment_{name}_coo({coo}) -> {one}"] = _segment_coo(reduce_sorted)
        made[f"segment_{name}_csr({csr}) -> {one}"] = _segment_csr(reduce_sorted)
    for name, reduction in _EXTREMES.items():
        made[f"scatter_{name}({scatter}) -> {two}"] = _scatter_extreme(reduction)
        made[f"segment_{name}_coo({coo}) -> {two}"] = _segment_coo_extreme(reduction)
        made[f"segment_{name}_csr({csr}) -> {two}"] = segment_csr_extreme(reduction)
    return made


def register() -> list[Any]:
    """Define the operators of `torch.ops.torch_scatter`; returns the library that holds them."""
    return define("torch_scatter", _operators())
