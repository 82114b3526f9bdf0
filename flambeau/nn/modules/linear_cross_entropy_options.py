"""LinearCrossEntropyOptions: how a linear layer and its cross entropy are to be computed in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_POLICIES = ("accurate", "balanced", "compact", "auto")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """Settings of the chunked form of `linear_cross_entropy`.

    Args:
        allow_retain_graph: whether backward may run more than once.
        batch_chunk_size: rows of the input per piece; None chooses by chunking_method.
        chunking_method: "auto", "aspect_ratio:<number>" or None.
        acc_policy: "accurate", "balanced", "compact" or "auto".
        acc_dtype: dtype of the accumulators; None chooses by acc_policy.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method = self.chunking_method
        if method is not None and method != "auto":
            name, _, ratio = method.partition(":")
            if name != "aspect_ratio" or (ratio and not ratio.isdigit()):
                raise ValueError(f"invalid chunking_method: {method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
