"""Tensors made of numbers, in aten's core operators."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import arange, aten, decomposes, full, where

__all__: list[str] = []
_CPU = torch.device("cpu")


def _ones_or_zeros(name: str, number: int) -> None:
    def of(dtype: Any) -> Any:
        return bool(number) if dtype is torch.bool else number

    @decomposes(f"{name}s.default")
    def fresh(size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
        dtype = dtype or torch.get_default_dtype()
        return full(size, of(dtype), dtype)

    @decomposes(f"{name}s_like.default")
    def alike(
        self: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None
    ) -> Any:
        given = {"dtype": dtype, "layout": layout, "device": device}
        named = {n: x for n, x in given.items() if x is not None}
        return aten.full_like.default(
            self, of(dtype or self.dtype), **named, pin_memory=False, memory_format=memory_format or torch.preserve_format
        )

    @decomposes(f"new_{name}s.default")
    def new(self: Any, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
        dtype = dtype or self.dtype
        return full(size, of(dtype), dtype)


_ones_or_zeros("zero", 0)
_ones_or_zeros("one", 1)


@decomposes("new_full.default")
def new_full(
    self: Any, size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    return full(size, fill_value, dtype or self.dtype)


@decomposes("new_empty.default")
def new_empty(self: Any, size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    return aten.empty.memory_format(list(size), dtype=dtype or self.dtype, layout=torch.strided, device=_CPU, pin_memory=False)


@decomposes("empty_like.default")
def empty_like(
    self: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None
) -> Any:
    order = list(range(self.dim()))
    if memory_format is None or memory_format is torch.preserve_format:
        order.sort(key=lambda d: -self.stride(d))
    elif memory_format is not torch.contiguous_format:
        return NotImplemented
    return aten.empty_permuted.default(
        list(self.shape), order, dtype=dtype or self.dtype, layout=torch.strided, device=_CPU, pin_memory=False
    )


def _given(**named: Any) -> dict[str, Any]:
    return {n: x for n, x in named.items() if x is not None}


@decomposes("arange.default")
def arange_from_0(end: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    return arange_start(0, end, dtype=dtype, device=device)


@decomposes("arange.start")
def arange_start(
    start: Any, end: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    return aten.arange.start_step(
        start, end, **_given(dtype=dtype), layout=torch.strided, **_given(device=device), pin_memory=False
    )


@decomposes("eye.default")
def eye(n: int, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    return eye_of_columns(n, n, dtype=dtype)


@decomposes("eye.m")
def eye_of_columns(n: int, m: int, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    small = torch.uint8 if n < 256 and m < 256 else torch.int64
    rows, columns = arange(0, n, dtype=small), arange(0, m, dtype=small)
    equal = aten.eq.Tensor(aten.unsqueeze.default(rows, -1), columns)
    dtype = dtype or torch.get_default_dtype()
    return equal if dtype is torch.bool else aten._to_copy.default(equal, dtype=dtype)


@decomposes("linspace.default")
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    dtype = dtype or torch.get_default_dtype()
    if steps == 0:
        return full([0], 0, dtype)
    if steps == 1:
        return full([1], start, dtype)
    inner = torch.int64 if not (dtype.is_floating_point or dtype.is_complex) else dtype
    step = (end - start) / (steps - 1)
    numbers = arange(0, steps)
    early = aten.lt.Scalar(numbers, steps / 2)

    def moved(x: Any) -> Any:
        return aten.mul.Tensor(aten._to_copy.default(x, dtype=inner), step)

    from_start = aten.add.Tensor(moved(numbers), start)
    from_end = aten.sub.Tensor(end, moved(aten.sub.Tensor(steps - 1, numbers)))
    return where(early, from_start, from_end)


@decomposes("bernoulli.default")
def bernoulli(self: Any, *, generator: Any = None) -> Any:
    if generator is not None:
        return NotImplemented
    noise = aten.rand.default(list(self.shape), dtype=torch.float32, device=_CPU, pin_memory=False)
    return aten._to_copy.default(aten.lt.Tensor(noise, self), dtype=self.dtype)
