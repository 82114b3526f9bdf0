"""Attention and bags of embeddings, as exported graphs have them."""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.device import cpu
from flambeau.base.layout import contiguous_format
from flambeau.dispatcher.aten.composites.helpers import full, scalar
from flambeau.dispatcher.aten.composites.registry import aten, composite

__all__ = ["as_added_mask", "attention_by_products"]


def as_added_mask(mask: Any, dtype: dtypes.dtype) -> Any:
    """A mask of truths as numbers that are added: 0, or minus infinity."""
    never = aten.scalar_tensor.default(-math.inf, dtype=dtype, device=cpu)
    return aten.where.self(mask, scalar(0.0, dtype), never)


def attention_by_products(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None
) -> tuple[Any, Any]:
    """Attention, and its shares; heads of the query may share those of key and value. Halves are computed in float32."""
    if query.dtype in (dtypes.float16, dtypes.bfloat16):
        q, k, v = (aten._to_copy.default(x, dtype=dtypes.float32) for x in (query, key, value))
        made, shares = attention_by_products(q, k, v, mask, dropout, causal, scale)
        shares = aten._to_copy.default(shares, dtype=query.dtype)
        return aten._to_copy.default(made, dtype=query.dtype), shares
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    rows = aten.mul.Scalar(query, factor)
    if query.dim() > 3 and key.shape[-3] != query.shape[-3]:
        key, value = (_repeated(x, query.shape[-3] // x.shape[-3]) for x in (key, value))
    if causal:
        mask = as_added_mask(aten.tril.default(full([query.shape[-2], key.shape[-2]], True, dtypes.bool_)), query.dtype)
    columns = aten.mul.Scalar(aten.transpose.int(key, -2, -1), factor)
    scores = aten.matmul.default(rows, columns)
    if mask is not None:
        scores = aten.add.Tensor(scores, mask)
    shares = aten._safe_softmax.default(scores, -1)
    if dropout:
        shares = aten.native_dropout.default(shares, dropout, True)[0]
    return aten.matmul.default(shares, value), shares


def _repeated(x: Any, count: int) -> Any:
    """Each head several times."""
    *lead, heads, rows, width = x.shape
    spread = aten.expand.default(aten.unsqueeze.default(x, x.dim() - 2), [*lead, heads, count, rows, width])
    return aten.clone.default(spread, memory_format=contiguous_format).view([*lead, heads * count, rows, width])


@composite("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        attn_mask = as_added_mask(attn_mask, query.dtype)
    if query.dim() != 4 or dropout_p:
        return attention_by_products(query, key, value, attn_mask, dropout_p, is_causal, scale)[0]
    attend = aten._scaled_dot_product_flash_attention_for_cpu.default
    return attend(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]


@composite("embedding_bag.default", "embedding_bag.padding_idx")
def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    row = -1 if padding_idx is None else padding_idx % weight.shape[0]
    bag = aten._embedding_bag.default if weight.requires_grad else aten._embedding_bag_forward_only.default
    return bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, row)
