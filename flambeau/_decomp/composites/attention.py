"""Attention and bags of embeddings, as exported graphs have them."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.composites.registry import composite
from flambeau._decomp.decompositions.layers import as_added_mask, attention_by_products

__all__: list[str] = []

aten = torch.ops.aten


@composite(aten.scaled_dot_product_attention.default)
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
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = as_added_mask(attn_mask, query.dtype)
    if query.dim() != 4 or dropout_p:
        return attention_by_products(query, key, value, attn_mask, dropout_p, is_causal, scale)[0]
    attend = aten._scaled_dot_product_flash_attention_for_cpu.default
    return attend(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]


@composite(aten.embedding_bag.default, aten.embedding_bag.padding_idx)
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
