"""Translations of borders: constants, reflections, repetitions of the edge, the other side."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import INT64_MAX

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _padded(b: Builder, x: Value, pad: list[Any], mode: str, value: Any = None) -> Value:
    rank = x.rank
    if mode == "circular":
        return _around(b, x, pad)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if mode == "constant" and x.dtype == torch.bool:
        return b.cast(b.op("Pad", b.cast(x, torch.int32), before + after, int(bool(value)), mode="constant"), torch.bool)
    number = b.value(value, x.dtype) if mode == "constant" and value else None
    return b.op("Pad", x, before + after, number, mode=_MODES[mode])


def _around(b: Builder, x: Value, pad: list[Any]) -> Value:
    """The border is the other side: along each dimension, the end, the whole, the start."""
    for i in range(len(pad) // 2):
        dim = x.rank - 1 - i
        left, right = pad[2 * i], pad[2 * i + 1]
        shape = [SymbolicDim(None) if d == dim else n for d, n in enumerate(x.shape or [])]
        parts = [x]
        if not isinstance(left, int) or left > 0:
            parts.insert(0, b.slice(x, dim, -left, INT64_MAX))
        if not isinstance(right, int) or right > 0:
            parts.append(b.slice(x, dim, 0, right))
        x = b.op("Concat", *parts, axis=dim, shape=shape) if len(parts) > 1 else x
        for cut, end in ((left, False), (right, True)):
            if isinstance(cut, int) and cut < 0:
                x = b.slice(x, dim, 0, cut) if end else b.slice(x, dim, -cut, INT64_MAX)
    return x


@translation("pad")
def pad(b: Builder, x: Value, pad: list[Any], mode: str = "constant", value: float | None = None) -> Value:
    """A border of a kind."""
    return _padded(b, x, pad, mode, value)


@translation("constant_pad_nd")
def constant_pad_nd(b: Builder, x: Value, pad: list[Any], value: Any = 0) -> Value:
    """A border of a number."""
    return _padded(b, x, pad, "constant", value)


def _border(name: str, mode: str) -> None:
    translation(name)(lambda b, x, padding: _padded(b, x, padding, mode))


for _dims in (1, 2, 3):
    _border(f"reflection_pad{_dims}d", "reflect")
    _border(f"replication_pad{_dims}d", "replicate")
_border("_pad_circular", "circular")
