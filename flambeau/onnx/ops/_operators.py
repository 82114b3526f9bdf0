"""ONNX's own operators as torch.ops.onnx.<Name>.opset23: RotaryEmbedding and Attention, and how they are written.

Used by torch.onnx.ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx._types import DTYPE_OF
from flambeau.onnx.errors import UnsupportedOperatorError

__all__ = ["DECOMPOSITIONS", "call"]

#: What the operators are made of, by overload.
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {}
_VERSION = 23


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        made = torch.library.custom_op(f"onnx::{name}.opset{_VERSION}", function, mutates_args=(), schema=schema)
        made.register_fake(function)
        DECOMPOSITIONS[getattr(getattr(torch.ops.onnx, name), f"opset{_VERSION}")] = function
        return function

    return define


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """What an operator gives."""
    return getattr(getattr(torch.ops.onnx, name), f"opset{_VERSION}")(*args, **kwargs)


@_operator(
    "RotaryEmbedding",
    "(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *, bool interleaved=False, int num_heads=0, "
    "int rotary_embedding_dim=0) -> Tensor",
)
def rotary_embedding(
    x: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    """Pairs of elements turned by angles."""
    wanted = 3 if position_ids is None else 2
    torch._check(
        cos_cache.dim() == wanted and sin_cache.dim() == wanted,
        lambda: (
            f"cos_cache/sin_cache must be {wanted}D when position_ids is {'not ' * (wanted == 3)}provided. Received "
            f"cos_cache shape {cos_cache.shape}, sin_cache shape {sin_cache.shape}"
        ),
    )
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    if x.dim() == 3:
        torch._check(
            num_heads != 0, lambda: f"num_heads must be provided for 3D inputs. Received input tensor with shape {x.shape}"
        )
        heads = x.view(x.shape[0], x.shape[1], num_heads, -1)
    else:
        heads = x.transpose(1, 2)
    turned = rotary_embedding_dim or heads.shape[3]
    torch._check(
        cos_cache.shape[-1] == turned // 2,
        lambda: f"Last dimension of cos cache ({cos_cache.shape[-1]}) should match rotary_embedding_dim/2 ({turned // 2}).",
    )
    torch._check(
        sin_cache.shape[-1] == turned // 2,
        lambda: f"Last dimension of sin cache ({sin_cache.shape[-1]}) should match rotary_embedding_dim/2 ({turned // 2}).",
    )
    cos, sin = cos_cache.unsqueeze(2), sin_cache.unsqueeze(2)
    part, rest = heads[..., :turned], heads[..., turned:]
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    pair = cos * a - sin * b, sin * a + cos * b
    made = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    made = torch.cat([made, rest], -1)
    return made.reshape(x.shape) if x.dim() == 3 else made.transpose(1, 2).contiguous()


def _heads(x: torch.Tensor, count: int) -> torch.Tensor:
    if x.dim() == 4:
        return x
    torch._check(count != 0, lambda: "q_num_heads and kv_num_heads must be provided for 3D inputs")
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


@_operator(
    "Attention",
    "(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, Tensor? past_value=None, *, bool is_causal="
    "False, int kv_num_heads=0, int q_num_heads=0, int qk_matmul_output_mode=0, float? scale=None, float softcap=0.0, int? "
    "softmax_precision=None) -> (Tensor, Tensor, Tensor, Tensor)",
)
def attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """softmax(Q @ K.T * scale + mask) @ V."""
    q, k, v = _heads(Q, q_num_heads), _heads(K, kv_num_heads), _heads(V, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    keys, values = k.clone(), v.clone()
    torch._check(
        q.shape[1] % k.shape[1] == 0,
        lambda: f"q_num_heads ({q.shape[1]}) must be divisible by kv_num_heads ({k.shape[1]}) for GQA",
    )
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    root = math.sqrt(1 / math.sqrt(q.shape[3]) if scale is None else scale)
    scores = [(q * root) @ (k * root).transpose(-2, -1)]
    bias = torch.zeros(scores[0].shape[-2:], dtype=q.dtype)
    if is_causal:
        seen = torch.ones(scores[0].shape[-2:], dtype=torch.bool).tril(past)
        bias = bias.masked_fill(~seen, -math.inf)
    if attn_mask is not None:
        added = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill(~attn_mask, -math.inf) if (
            attn_mask.dtype == torch.bool) else attn_mask  # fmt: skip
        bias = bias + added
    scores.append(scores[-1] + bias)
    if softcap:
        scores[1:] = [softcap * torch.tanh(scores[0] / softcap) + bias]
    precise = scores[-1].to(DTYPE_OF[softmax_precision]) if softmax_precision else scores[-1]  # type: ignore[index]
    shares = precise.softmax(-1).nan_to_num(0.0).to(q.dtype)
    kinds = [scores[0], scores[-1], scores[-1], shares]
    made = shares @ v
    if Q.dim() == 3:
        made = made.transpose(1, 2).reshape(Q.shape[0], Q.shape[1], -1)
    return made, keys, values, kinds[qk_matmul_output_mode].clone()


# ---------------------------------------------------------------- in models


def _written(name: str, results: int) -> None:
    def write(b: Builder, *inputs: Value | None, **attributes: Any) -> Any:
        if b.wanted < _VERSION:
            raise UnsupportedOperatorError(f"onnx::{name}", b.wanted, _VERSION)
        numbers = {key: int(x) if isinstance(x, bool) else x for key, x in attributes.items()}
        kept = {key: x for key, x in numbers.items() if x is not None and not (key.endswith("_heads") and not x)}
        return b.op(name, *inputs, outputs=results, attributes=kept)

    translation(f"onnx::{name}")(write)


_written("RotaryEmbedding", 1)
_written("Attention", 4)
