"""Attention on the CPU with what PyTorch's kernel returns beside the result: the logarithms of the rows' sums.

The gradient takes both as they are given. So those of more keys than it is told of give these keys' share of the gradients, by
which attention of a sequence in parts is computed. Stands on ops.nn.attention.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, float64
from flambeau.core.modes import modes
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn.attention import (
    causal_mask,
    fusable,
    fused_attention,
    fused_gradients,
    fused_mask,
    masked_scores,
    scaled_dot_product_attention,
)


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    if query._layout.dtype in (float16, bfloat16):
        query, key = query.float(), key.float()
    return masked_scores((query @ key.transpose(-2, -1)) * scale, mask, causal_mask(query, key) if causal else None)


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
    factor = 1 / math.sqrt(query._layout.shape[-1]) if scale is None else scale
    if fusable(query, key, value, attn_mask, dropout_p):
        return fused_attention(query, key, value, fused_mask(query, attn_mask), is_causal, float(factor))
    result = scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    return result, _scores(query, key, attn_mask, is_causal, factor).logsumexp(-1)


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
    """The gradients of attention for query, key and value; NotImplementedError with dropout, whose draws it isn't given."""
    if dropout_p:
        raise NotImplementedError(
            "the gradient of attention with dropout is that of its own products: call scaled_dot_product_attention and backward"
        )
    if not grad_out.shape == out.shape == (*query.shape[:-1], value.shape[-1]) or logsumexp.shape != query.shape[:-1]:
        raise RuntimeError(
            f"attention of a query of shape {list(query.shape)} and values of shape {list(value.shape)} has no gradient, "
            f"result and logsumexp of shapes {list(grad_out.shape)}, {list(out.shape)} and {list(logsumexp.shape)}"
        )
    factor = 1 / math.sqrt(query._layout.shape[-1]) if scale is None else scale
    if fusable(query, key, value, attn_mask, dropout_p) and not modes.local.grad:
        wide = float64 if query._layout.dtype is float64 else float32
        kept = out.to(query._layout.dtype).contiguous(), logsumexp.to(wide).contiguous()  # as the kernel reads them
        given = grad_out, *kept, query, key, value, fused_mask(query, attn_mask)
        return fused_gradients(*given, is_causal, float(factor))
    scores = _scores(query, key, attn_mask, is_causal, factor)
    dtype = scores._layout.dtype
    grad, wide_out, wide_value = grad_out.to(dtype), out.to(dtype), value.to(dtype)
    weights = (scores - logsumexp.unsqueeze(-1)).exp()
    weights = NAMESPACE["where"](logsumexp.unsqueeze(-1) == -math.inf, 0.0, weights)  # rows that attend to nothing
    of_scores = weights * (grad @ wide_value.transpose(-2, -1) - (grad * wide_out).sum(-1, True)) * factor
    gradients = of_scores @ key.to(dtype), of_scores.transpose(-2, -1) @ query.to(dtype), weights.transpose(-2, -1) @ grad
    return tuple(gradient.to(x._layout.dtype) for gradient, x in zip(gradients, (query, key, value)))
