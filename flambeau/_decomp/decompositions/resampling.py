"""Resampled images in aten's core operators: elements at places that are worked out, and sums of them."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import arange, aten, computed_in_float32, decomposes

__all__: list[str] = []


def _to(x: Any, dtype: Any) -> Any:
    return aten._to_copy.default(x, dtype=dtype)


def _step(size: int, made: int, factor: float | None) -> float:
    """How far apart the places of two elements of the result are."""
    return size / made if factor is None else 1.0 / factor


def _nearest(dims: int, name: str, offset: float) -> None:
    @decomposes(f"{name}{dims}d.default")
    def nearest(self: Any, output_size: Any, *scales: Any) -> Any:
        given = [*scales, *[None] * (dims - len(scales))]
        places = []
        for d in range(dims):
            numbers = arange(0, output_size[d], dtype=torch.float32)
            step = _step(self.shape[2 + d], output_size[d], given[d])
            place = _to(aten.mul.Tensor(aten.add.Tensor(numbers, offset), step), torch.int64)
            for _ in range(dims - 1 - d):
                place = aten.unsqueeze.default(place, -1)
            places.append(place)
        return aten.index.Tensor(self, [None, None, *places])


for _dims in (1, 3):
    _nearest(_dims, "upsample_nearest", 0.0)
for _dims in (1, 2, 3):
    _nearest(_dims, "_upsample_nearest_exact", 0.5)


@decomposes("upsample_linear1d.default")
@computed_in_float32
def upsample_linear1d(self: Any, output_size: Any, align_corners: bool, scales: float | None = None) -> Any:
    return _linear(self, output_size, align_corners, [scales])


@decomposes("upsample_trilinear3d.default")
@computed_in_float32
def upsample_trilinear3d(
    self: Any, output_size: Any, align_corners: bool, scales_d: Any = None, scales_h: Any = None, scales_w: Any = None
) -> Any:
    return _linear(self, output_size, align_corners, [scales_d, scales_h, scales_w])


def _linear(self: Any, output_size: Any, align_corners: bool, scales: list[Any]) -> Any:
    """The values between elements along each dimension."""
    dims = len(output_size)
    sizes = self.shape[2:]
    places, before, after = [], [], []
    for d, (made, size, factor) in enumerate(zip(output_size, sizes, scales)):
        numbers = _to(arange(0, made), torch.float32)
        if align_corners:
            place = aten.mul.Tensor(numbers, (size - 1) / (made - 1) if made > 1 else 0.0)
        else:
            place = aten.mul.Tensor(aten.add.Tensor(numbers, 0.5), _step(size, made, factor))
            place = aten.sub.Tensor(place, 0.5)
        place = aten.clamp_min.default(place, 0.0)
        places.append(aten.view.default(place, [made, *[1] * (dims - 1 - d)]))
        before.append(_to(places[-1], torch.int64))
        after.append(aten.clamp_max.default(aten.add.Tensor(before[-1], 1), size - 1))
    values = []
    for corner in range(2**dims):
        index = [after[d] if corner >> (dims - 1 - d) & 1 else before[d] for d in range(dims)]
        values.append(aten.index.Tensor(self, [None, None, *index]))
    for d in reversed(range(dims)):
        share = aten.clamp.default(aten.sub.Tensor(places[d], before[d]), 0.0, 1.0)
        values = [
            aten.add.Tensor(low, aten.mul.Tensor(aten.sub.Tensor(high, low), share))
            for low, high in zip(values[::2], values[1::2])
        ]
    return values[0]
