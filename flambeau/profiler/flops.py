"""How many floating-point operations an operator's call takes, for `profile(with_flops=True)`: products, convolutions, sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.tensor.tensor import Tensor

__all__ = ["flops", "scaled"]


def _product(a: Tensor, b: Tensor) -> int:
    return 2 * a.numel() * b.shape[-1]


def _conv2d(input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> int:
    if isinstance(padding, str):  # "valid" or "same"
        padding = [0 if padding == "valid" else d * (k - 1) / 2 for d, k in zip(_pair(dilation), weight.shape[2:])]
    places = math.prod(
        int((n + 2 * p - d * (k - 1) - 1) // s) + 1
        for n, k, s, p, d in zip(input.shape[-2:], weight.shape[2:], _pair(stride), _pair(padding), _pair(dilation))
    )
    batch = input.shape[0] if input.dim() == 4 else 1
    return 2 * batch * weight.numel() * places  # a weight has the inputs of its group only


def _pair(value: Any) -> Sequence[Any]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * 2 if len(values) == 1 else values


def _elements(input: Tensor, *_: Any) -> int:
    return input.numel()


_COUNTS: dict[str, Callable[..., int]] = {
    "mm": lambda a, b: _product(a, b), "bmm": lambda a, b: _product(a, b),
    "addmm": lambda added, a, b, *_: _product(a, b), "baddbmm": lambda added, a, b, *_: _product(a, b),
    "linear": lambda input, weight, *_: 2 * input.numel() * weight.shape[0],    # one kernel here
    "conv2d": _conv2d, "add": _elements, "mul": _elements,
}  # fmt: skip


def flops(name: str, given: Sequence[Any]) -> int:
    """The operations of `aten::name` with these arguments; 0 for what isn't counted."""
    count = _COUNTS.get(name)
    if count is None or not given or not isinstance(given[0], Tensor) or given[0].is_nested:
        return 0
    return count(*given)


def scaled(least: int) -> tuple[str, float]:
    """The unit for a column of numbers from `least` on, and what it stands for."""
    power = min(int(math.log10(max(least, 1)) // 3), 5)
    return ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[power], 1000.0**power
