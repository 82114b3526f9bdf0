"""Attention on the CPU with what PyTorch's kernel returns beside the result: the logarithms of the rows' sums.

Stands on ops.nn.attention.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.core.operator.variants import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradients_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn.attention import scaled_dot_product_attention


def _attend(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None) -> Any:
    return scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale=scale)


@implementation()
def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Attention of (batch, heads, rows, width), and logsumexp of the scores, (batch, heads, rows)."""
    result = _attend(query, key, value, attn_mask, dropout_p, is_causal, scale)
    factor = 1 / math.sqrt(query._layout.shape[-1]) if scale is None else scale
    scores = (query @ key.transpose(-2, -1)) * factor
    if is_causal:
        rows, columns = scores.shape[-2:]
        scores = scores.masked_fill(NAMESPACE["ones"](rows, columns, dtype=bool_, device=scores.device).triu(1), -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    return result, scores.logsumexp(-1)


@implementation()
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """The gradients of attention for query, key and value."""
    return gradients_of(
        lambda q, k, v: _attend(q, k, v, attn_mask, dropout_p, is_causal, scale), (query, key, value), grad_out
    )
