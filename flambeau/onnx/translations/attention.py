"""Translations of attention: scaled_dot_product_attention, kept whole from version 23 on."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations.activation import dropped


@translation("scaled_dot_product_attention")
def scaled_dot_product_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(query @ key.T * scale + mask) @ value."""
    if b.wanted >= 23 and query.rank == 4 and not dropout_p:
        if attn_mask is not None:
            attn_mask = _whole(b, attn_mask, b.size(query, -2), b.size(key, -2))
        return b.op("Attention", query, key, value, attn_mask, is_causal=int(is_causal), scale=scale)
    if enable_gqa:
        key, value = (_repeated(b, x, b.size(query, -3), b.size(x, -3)) for x in (key, value))
    width = b.size(query, -1)
    root: Any = math.sqrt(scale) if scale is not None else None if isinstance(width, Size) else width**-0.25
    if root is None:
        root = b.op("Pow", b.number(width, query.dtype), -0.25)
    scores = b.op("MatMul", b.op("Mul", query, root), b.op("Mul", b.swap(key, -2, -1), root))
    if is_causal:
        attn_mask = _causal(b, b.size(query, -2), b.size(key, -2))
    if attn_mask is None:
        shares = b.op("Softmax", scores, axis=-1)
    elif attn_mask.dtype == torch.bool:
        shares = b.op("Softmax", b.op("Where", attn_mask, scores, b.number(-math.inf, scores.dtype)), axis=-1)
    else:
        shares = b.op("Softmax", b.op("Add", scores, b.cast(attn_mask, scores.dtype)), axis=-1)
    if attn_mask is not None and not is_causal:  # a row that may see nothing gets zeros
        shares = b.op("Where", b.op("IsNaN", shares), b.number(0, scores.dtype), shares)
        shares.dtype = scores.dtype
    return b.op("MatMul", dropped(b, shares, dropout_p, bool(dropout_p)), value)


def _whole(b: Builder, mask: Value, length: Any, source: Any) -> Value:
    """A mask of all pairs: ONNX's operator doesn't repeat one row."""
    if all(n is m or (isinstance(n, int) and n == m) for n, m in zip(mask.shape[-2:], (length, source))):
        return mask
    return b.op("Expand", mask, [*[1] * (mask.rank - 2), length, source])


def _causal(b: Builder, length: Any, source: Any) -> Value:
    """A mask of the keys that aren't behind a query."""
    ones = b.full([length, source], 1, torch.int64)
    return b.cast(b.op("Trilu", ones, upper=0, shape=ones.shape), torch.bool)


def _repeated(b: Builder, x: Value, heads: int, own: int) -> Value:
    """Heads of keys or values, each as often as queries share it."""
    if heads == own:
        return x
    sizes = b.sizes(x)
    wide = b.op("Expand", b.unsqueeze(x, x.rank - 2), [*sizes[:-2], heads // own, *sizes[-2:]], shape=[1] * (x.rank + 1))
    made = b.reshape(wide, [*sizes[:-3], heads, *sizes[-2:]])
    made.shape = [*x.shape[:-3], heads, *x.shape[-2:]] if x.shape is not None else [SymbolicDim(None)] * x.rank
    return made
