"""torch.nn.attention.bias: causal masks of scaled_dot_product_attention that say what they are, for other than square scores."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

import flambeau as torch
from flambeau.base.warn import warn

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Where the mask's diagonal begins or ends: the upper left corner of the scores or the lower right one."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(torch.Tensor):
    """A causal mask of queries and keys, for `scaled_dot_product_attention(attn_mask=...)`; it is made where it is needed.

    Raises AssertionError for a variant that is no CausalVariant. Where a LOWER_RIGHT mask has more queries than keys, the
    first queries see nothing.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        return torch.Tensor._make_subclass(cls, torch.empty(int(variant), seq_len_q, seq_len_kv))

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!")

    def _materialize(self, device: Any = None) -> Any:
        """The mask as a bool tensor of shape (queries, keys)."""
        diagonal = 0 if self.variant == CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q
        return torch.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=torch.bool).tril(diagonal=diagonal)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return repr(self._materialize())

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    corner = attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant == CausalVariant.UPPER_LEFT
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        None if corner else attn_mask._materialize(query.device),
        dropout_p,
        corner,
        scale=scale,
        enable_gqa=enable_gqa,
    )


def causal_upper_left(*size: int) -> CausalBias:
    """The mask through which query i sees keys up to i, of the size (queries, keys)."""
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask through which the last query sees all keys and each one before one key less, of the size (queries, keys)."""
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
