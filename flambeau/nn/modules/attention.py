"""MultiheadAttention: input projections, `F.multi_head_attention_forward`, output projection."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau.base.naming import public_module
from flambeau.core.modes import modes
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.nn import functional as F
from flambeau.nn.init import constant_, xavier_normal_, xavier_uniform_
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def canonical_mask(mask: Tensor | None, name: str, other_type: Any, other_name: str, target_type: Any,
                   check_other: bool = True) -> Tensor | None:  # fmt: skip
    """A mask as an additive one: -inf where a boolean mask is True."""
    if mask is None:
        return None
    if mask.dtype != flambeau.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.", stacklevel=3
        )
    if mask.is_floating_point():
        return mask
    return flambeau.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def blind_rows(attn_mask: Tensor | None, padding: Tensor | None, batch: int) -> Tensor:
    """Which queries, (N, L) or (N, 1), may look at no key in some head, by boolean masks: attn_mask (L, S) or (N * heads, L, S),
    padding (N, S). One is None at most."""
    forbidden = None
    if attn_mask is not None:
        forbidden = attn_mask.view(1 if attn_mask.dim() == 2 else batch, -1, *attn_mask.shape[-2:])
    if padding is not None:
        columns = padding.view(batch, 1, 1, padding.size(-1))
        forbidden = columns if forbidden is None else forbidden | columns
    return forbidden.all(-1).any(1)  # type: ignore[union-attr]


def blinded(output: Tensor, blind: Tensor | None) -> Tensor:
    """The output (N, L, E) with nan in the rows of queries that may look at no key."""
    if blind is None or (_is_told(blind) and not blind.any()):
        return output
    return output.masked_fill(blind.unsqueeze(-1), math.nan)


def _is_told(x: Tensor) -> bool:
    """Whether a program may look at the values: they are there, and nobody records what it does for others."""
    return x._layout.flavor is None and x.device.type == "cpu" and known(x) and not modes.local.dispatch_modes


def records(tensors: Iterable[Tensor | None]) -> bool:
    """Whether a call with these tensors is recorded for a gradient, and so doesn't take PyTorch's fused kernels."""
    return flambeau.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


class MultiheadAttention(Module):
    """Attention of several heads. query (L, N, E), key (S, N, kdim), value (S, N, vdim), output (L, N, E).

    With batch_first the batch comes first; without a batch the tensors have two dimensions. Weights: (N, L, S), or
    (N, heads, L, S) when not averaged.
    """

    __module__ = public_module("nn.modules.activation")

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def empty(*shape: int) -> Parameter:
            return Parameter(flambeau.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = empty(3 * embed_dim, embed_dim)
            self.register_parameter("q_proj_weight", None)
            self.register_parameter("k_proj_weight", None)
            self.register_parameter("v_proj_weight", None)
        else:
            self.q_proj_weight = empty(embed_dim, embed_dim)
            self.k_proj_weight = empty(embed_dim, self.kdim)
            self.v_proj_weight = empty(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = empty(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k = empty(1, 1, embed_dim)
            self.bias_v = empty(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            xavier_uniform_(self.in_proj_weight)
        else:
            xavier_uniform_(self.q_proj_weight)
            xavier_uniform_(self.k_proj_weight)
            xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Older files have one width only.
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(output, weights or None).

        Args:
            key_padding_mask: (N, S); True (or -inf) where a key is padding.
            attn_mask: (L, S) or (N * heads, L, S); True (or -inf) where attention is forbidden.
            is_causal: says that attn_mask is the causal one.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            return self._nested(query, key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights)
        batched = query.dim() == 3
        blind = None
        if not (self.training or need_weights) and (attn_mask is not None or key_padding_mask is not None) and batched:
            blind = self._blind_rows(query, key, value, attn_mask, key_padding_mask)
        mask_type = None if attn_mask is None else attn_mask.dtype
        key_padding_mask = canonical_mask(key_padding_mask, "key_padding_mask", mask_type, "attn_mask", query.dtype)
        attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        if self.batch_first and batched:
            # One transposed tensor stays one: the projection is then a single product.
            if key is value:
                if query is key:
                    query = key = value = query.transpose(1, 0)
                else:
                    query, key = query.transpose(1, 0), key.transpose(1, 0)
                    value = key
            else:
                query, key, value = (tensor.transpose(1, 0) for tensor in (query, key, value))
        separate: dict[str, Any] = {}
        if not self._qkv_same_embed_dim:
            separate = {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **separate,
        )
        if self.batch_first and batched:
            output = output.transpose(1, 0)
        return blinded(output, blind), weights

    def _nested(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, need_weights: bool,
        average: bool,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attention within each tensor of a nested one. AssertionError where PyTorch has no kernel for it."""
        learned = (self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias)
        reasons = (
            (not (query is key is value), "non-self attention was used (query, key, and value are not the same Tensor)"),
            (self.training, "training is enabled"),
            (not self.batch_first, "batch_first was not True"),
            (self.num_heads % 2 == 1, "self.num_heads is not even"),
            (not self._qkv_same_embed_dim, "_qkv_same_embed_dim was not True"),
            (self.bias_k is not None, "self.bias_k was not None"),
            (self.bias_v is not None, "self.bias_v was not None"),
            (self.add_zero_attn, "add_zero_attn was enabled"),
            (padding is not None or mask is not None, "supplying both src_key_padding_mask and src_mask at the same time "
             "                                 is not supported with NestedTensor input"),
            (flambeau.is_autocast_enabled(query.device.type), "autocast is enabled"),
            (self.in_proj_bias is None, ""),
            (query.layout is flambeau.jagged, "some Tensor argument has_torch_function"),
            (records((query, *learned)), "grad is enabled and at least one of query or the input/output projection weights or "
             "biases requires_grad"),
        )  # fmt: skip
        for holds, reason in reasons:
            if holds:
                raise AssertionError(
                    "MultiheadAttention does not support NestedTensor outside of its fast path. The fast path "
                    f"was not hit because {reason}"
                )
        return flambeau._native_multi_head_attention(  # type: ignore[no-any-return]
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight,
            self.out_proj.bias, None, need_weights, average)  # fmt: skip

    def _blind_rows(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, padding: Tensor | None
    ) -> Tensor | None:
        """The queries whose result is nan, because they may look at no key and PyTorch takes a fused kernel, or None."""
        masks = [mask for mask in (attn_mask, padding) if mask is not None]
        fused = (
            query is key is value and self.batch_first and self.num_heads % 2 == 0 and self._qkv_same_embed_dim
            and self.in_proj_bias is not None and query.dtype == self.in_proj_bias.dtype and self.bias_k is None
            and not self.add_zero_attn and all(mask.dtype == flambeau.bool for mask in masks)
            and not flambeau.is_autocast_enabled(query.device.type)
            and not records((query, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias))
        )  # fmt: skip
        return blind_rows(attn_mask, padding, query.size(0)) if fused else None

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """(mask, kind) of both masks: kind 0 attn_mask alone, 1 padding alone, 2 both as (N, heads, L, L)."""
        kind: int | None = None
        merged: Tensor | None = None
        if key_padding_mask is not None:
            kind = 1
            merged = key_padding_mask
        if attn_mask is not None:
            batch, length, _ = query.shape
            kind = 2
            if attn_mask.dim() == 3:
                expanded = attn_mask.view(batch, -1, length, length)
            else:
                expanded = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
            merged = expanded
            if key_padding_mask is not None:
                padding = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
                merged = expanded + padding
        return merged, kind
