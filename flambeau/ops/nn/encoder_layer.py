"""A layer of a transformer encoder in one call, torch._transformer_encoder_layer_fwd, and the calls that it is made of.

Programs that replace a module's fast path by hand call them. Written in other operators; loaded when a program asks for it.
"""

from __future__ import annotations

import math

from flambeau.base.dtype import bool_
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.define import composite
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.elementwise.activation import gelu, relu
from flambeau.ops.linalg.linear import linear
from flambeau.ops.linalg.matmul import matmul
from flambeau.ops.reduction.softmax import softmax

__all__ = ["_masked_softmax", "_native_multi_head_attention", "_transform_bias_rescale_qkv", "_transformer_encoder_layer_fwd"]

PADS, MASKS, ALL = 1, 0, 2  # what a mask is: of keys (batch, keys), of pairs (queries, keys), of every score


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise RuntimeError(words)


@composite(method=False)
def _masked_softmax(self: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None) -> Tensor:
    """The softmax of scores (batch, heads, queries, keys) along `dim`, the last one by default, without those where a
    boolean mask is True. mask_type: 0 for a mask (queries, keys), 1 for (batch, keys), 2 for one of the scores' shape.

    RuntimeError for a mask of another dtype, shape or kind. What has nothing left is NaN.
    """
    _expect(mask._layout.dtype is bool_, "Mask should be a boolean tensor")
    scores, given = self._layout.shape, mask._layout.shape
    if scores != given:
        if mask_type is None:
            raise RuntimeError("Mask Type should be defined")
        _expect(
            mask_type in (MASKS, PADS, ALL), "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)"
        )
        _expect(mask_type != ALL, "For mask_type == 2 mask shape should match input shape")
        if mask_type == PADS:
            _expect(len(scores) == 4 and given == (scores[0], scores[3]), "For mask_type == 1 mask shape should be (B, L)")
            mask = mask.reshape(given[0], 1, 1, given[1])
        else:
            _expect(given == scores[2:], "For mask_type == 0 mask shape should be (L, L)")
    return softmax(self.masked_fill(mask, -math.inf), -1 if dim is None else dim)


@composite(method=False)
def _transform_bias_rescale_qkv(qkv: Tensor, qkv_bias: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each (batch, heads, length, size of a head), of their projections side by side in `qkv`
    (batch, length, 3 * heads * size): with the bias added, queries divided by the root of a head's size.

    RuntimeError if the last dimension can't be divided so.
    """
    _expect(qkv._layout.ndim == 3, f"expected 3-D `qkv`, got {qkv._layout.ndim}-D tensor")
    batch, length, width = qkv._layout.shape
    size = width // 3
    _expect(width % 3 == 0 and num_heads > 0 and size % num_heads == 0, "Expected D % num_head == 0 to be true, but got false.")
    _expect(qkv_bias._layout.shape == (width,), f"expected `qkv_bias` of {width} elements, got {list(qkv_bias._layout.shape)}")
    parts = (qkv + qkv_bias).view(batch, length, 3, num_heads, size // num_heads).permute(2, 0, 3, 1, 4)
    q, k, v = parts.unbind(0)
    return contiguous(q / math.sqrt(size // num_heads)), contiguous(k), contiguous(v)


@composite(method=False, autocast=lower)
def _native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention of many heads over batches (batch, length, embed_dim): the projected result, and the weights (batch,
    length, length), of each head in front if they aren't averaged; None if they aren't needed.

    query, key and value have one shape; masks are those of `_masked_softmax`. RuntimeError for shapes that don't fit.
    """
    shapes = [x._layout.shape for x in (query, key, value)]
    _expect(len(shapes[0]) == 3, f"expected 3-D `query`, got {len(shapes[0])}-D tensor")
    _expect(shapes[0][2] == embed_dim, f"passed-in embed_dim {embed_dim} didn't match last dim of query {shapes[0][2]}")
    for name, shape in zip(("key", "value"), shapes[1:]):
        _expect(len(shape) == 3, f"expected 3-D `{name}`, got {len(shape)}-D tensor")
    _expect(shapes[0] == shapes[1] == shapes[2], "expected `query`/`key`/`value` shapes to match")
    weight, bias = qkv_weight._layout.shape, qkv_bias._layout.shape
    _expect(len(weight) == 2, f"expected 2-D `qkv_weight`, got {len(weight)}-D tensor")
    _expect(weight[0] == 3 * embed_dim, "expected `qkv_weight` first dim to be 3x embed_dim")
    _expect(weight[1] == embed_dim, "expected `qkv_weight` second dim to be embed_Dim")
    _expect(len(bias) == 1, f"expected 1-D `qkv_bias`, got {len(bias)}-D tensor")
    _expect(bias[0] == 3 * embed_dim, "expected `qkv_bias` first dim and first dim of query to be equal")
    _expect(num_head > 0 and embed_dim % num_head == 0, "`embed_dim` must divide evenly by `num_heads`")
    if query is key and key is value:
        projected = linear(query, qkv_weight)
    else:
        parts = zip((query, key, value), qkv_weight.chunk(3))
        projected = NAMESPACE["cat"]([linear(x, w) for x, w in parts], 2)
    q, k, v = _transform_bias_rescale_qkv(projected, qkv_bias, num_head)
    scores = matmul(q, k.transpose(-2, -1))
    if mask is None:
        weights = softmax(scores, -1)
    else:
        weights = _masked_softmax(scores, mask if mask._layout.dtype is bool_ else mask.to(bool_), 3, mask_type)
    result = linear(matmul(weights, v).transpose(1, 2).reshape(shapes[0]), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


@composite(method=False)
def _transformer_encoder_layer_fwd(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """A layer of a transformer encoder over (batch, length, embed_dim): attention and two linear layers, each with the
    input added and a layer norm, which comes first if `norm_first`. Masks are those of `_masked_softmax`.
    """
    layer_norm = NAMESPACE["layer_norm"]

    def attend(x: Tensor) -> Tensor:
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed(x: Tensor) -> Tensor:
        inner = linear(x, ffn_weight_1, ffn_bias_1)
        return linear(gelu(inner) if use_gelu else relu(inner), ffn_weight_2, ffn_bias_2)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed(x), norm_weight_2, norm_bias_2)
