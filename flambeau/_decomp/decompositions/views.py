"""Views, their copies and their inverses, in aten's core operators."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import arange, aten, decomposes, where

__all__: list[str] = []


@decomposes("t.default")
def t(self: Any) -> Any:
    return aten.permute.default(self, list(reversed(range(self.dim()))))


@decomposes("transpose.int")
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    order = list(range(self.dim()))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return aten.permute.default(self, order)


@decomposes("detach.default")
def detach(self: Any) -> Any:
    return aten.alias.default(self)


@decomposes("_unsafe_view.default")
def _unsafe_view(self: Any, size: Any) -> Any:
    return aten.view.default(self, list(size))


@decomposes("_reshape_alias.default")
def _reshape_alias(self: Any, size: Any, stride: Any) -> Any:
    return aten.view.default(self, list(size))


@decomposes("squeeze.default")
def squeeze(self: Any) -> Any:
    return aten.squeeze.dims(self, list(range(self.dim())))


@decomposes("squeeze.dim")
def squeeze_dim(self: Any, dim: int) -> Any:
    return aten.squeeze.dims(self, [dim])


@decomposes("split.Tensor")
def split(self: Any, split_size: int, dim: int = 0) -> Any:
    return aten.split_with_sizes.default(self, _sizes(self, split_size, dim), *([dim] if dim else []))


@decomposes("unsafe_split.Tensor")
def unsafe_split(self: Any, split_size: int, dim: int = 0) -> Any:
    return split(self, split_size, dim)


@decomposes("unsafe_split_with_sizes.default")
def unsafe_split_with_sizes(self: Any, split_sizes: Any, dim: int = 0) -> Any:
    return aten.split_with_sizes.default(self, list(split_sizes), *([dim] if dim else []))


def _sizes(self: Any, each: int, dim: int) -> list[int]:
    length = self.shape[dim]
    whole, rest = (length // each, length % each) if each else (1, 0)
    return [each] * whole + [rest] * bool(rest) or [0]


@decomposes("unbind.int")
def unbind(self: Any, dim: int = 0) -> Any:
    dim = dim % self.dim()
    parts = [aten.slice.Tensor(self, dim, i, i + 1) for i in range(self.shape[dim])]
    return tuple(aten.squeeze.dims(x, [dim]) for x in parts)


def _copied(name: str, *overloads: str) -> None:
    for overload in overloads:
        view = getattr(getattr(aten, name), overload)

        @decomposes(f"{name}_copy.{overload}")
        def copied(*args: Any, view: Any = view, **kwargs: Any) -> Any:
            made = view(*args, **kwargs)
            several = isinstance(made, (list, tuple))
            copies = [aten.clone.default(x, memory_format=torch.contiguous_format) for x in (made if several else [made])]
            return copies if several else copies[0]


_copied("alias", "default")
_copied("diagonal", "default")
_copied("expand", "default")
_copied("squeeze", "default", "dim", "dims")
_copied("t", "default")
_copied("transpose", "int")
_copied("unfold", "default")
_copied("unsqueeze", "default")
_copied("split_with_sizes", "default")


@decomposes("select_scatter.default")
def select_scatter(self: Any, src: Any, dim: int, index: int) -> Any:
    dim = dim % self.dim()
    length = self.shape[dim]
    numbers = arange(0, length)
    shape = [-1 if d == dim else 1 for d in range(self.dim())]
    chosen = aten.eq.Scalar(aten.view.default(numbers, shape), index % length)
    spread = aten.expand.default(aten.unsqueeze.default(src, dim), list(self.shape))
    return where(chosen, spread, self)


@decomposes("stack.default")
def stack(tensors: Any, dim: int = 0) -> Any:
    first = tensors[0].shape
    dim = dim % (len(first) + 1)
    if dim < len(first):
        together = aten.cat.default(list(tensors), *([dim] if dim else []))
        return aten.view.default(together, [*first[:dim], len(tensors), *first[dim:]])
    return aten.cat.default([aten.unsqueeze.default(x, dim) for x in tensors], *([dim] if dim else []))


@decomposes("roll.default")
def roll(self: Any, shifts: Any, dims: Any = ()) -> Any:
    shifts, dims = list(shifts), list(dims)
    if not dims:
        return aten.view.default(roll(self.reshape(self.numel()), shifts, [0]), list(self.shape))
    if self.numel() == 0:
        return aten.clone.default(self)
    for shift, dim in zip(shifts, dims):
        length = self.shape[dim]
        places = aten.fmod.Scalar(aten.add.Tensor(arange(0, length), (length - shift) % length), length)
        self = aten.index_select.default(self, dim, places)
    return self


@decomposes("rot90.default")
def rot90(self: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    first, second = dims
    k = k % 4
    if k == 1:
        return aten.transpose.int(aten.flip.default(self, [second]), first, second)
    if k == 2:
        return aten.flip.default(self, [first, second])
    if k == 3:
        return aten.transpose.int(aten.flip.default(self, [first]), first, second)
    return aten.clone.default(self, memory_format=torch.contiguous_format)


def _triangle(self: Any, diagonal: int, compare: Any) -> Any:
    rows, columns = self.shape[-2:]
    across = aten.unsqueeze.default(arange(0, columns), -2)
    down = aten.unsqueeze.default(arange(0, rows), -1)
    kept = compare(aten.sub.Tensor(across, down), diagonal)
    return aten.logical_and.default(kept, self) if self.dtype is torch.bool else where(kept, self, 0)


@decomposes("tril.default")
def tril(self: Any, diagonal: int = 0) -> Any:
    return _triangle(self, diagonal, aten.le.Scalar)


@decomposes("triu.default")
def triu(self: Any, diagonal: int = 0) -> Any:
    return _triangle(self, diagonal, aten.ge.Scalar)
