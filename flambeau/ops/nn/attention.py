"""Scaled dot product attention and the multi-head attention built on it.

Attention over (batch, heads, length, features) without dropout is one operator that keeps only the result and the logarithm
of each row's sum of exponentials for its gradient; every other case is a composite. Stands on ops/linalg/matmul.py and
ops/reduction/softmax.py; offered by flambeau.nn.functional.
"""

from __future__ import annotations

import contextlib
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bfloat16, bool_, float16, float32, float64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.attention.scores import Attention
from flambeau.codegen.attention.steps import Attend, AttendBackward
from flambeau.codegen.plan import Plan
from flambeau.codegen.runtime import launch as launching
from flambeau.codegen.targets import lowered
from flambeau.core.autograd.node import one_step
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.linear import linear
from flambeau.ops.linalg.matmul import matmul
from flambeau.ops.nn.dropout import dropout
from flambeau.ops.reduction.softmax import softmax

NEGATIVE = float("-inf")
_plans: dict[Any, Callable] = register_cache({})


def _check(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None) -> None:
    layouts = [x._layout for x in (query, key, value)]
    if len({layout.dtype for layout in layouts}) > 1:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query._layout.dtype.c_name} "
            "key.dtype: "
            f"{key._layout.dtype.c_name} and value.dtype: {value._layout.dtype.c_name} instead."
        )
    if min(layout.ndim for layout in layouts) < 2:
        q, k, v = (layout.ndim for layout in layouts)
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {q} key.dim: {k} and "
            f"value.dim: {v} instead."
        )
    if attn_mask is not None:
        dtype = attn_mask._layout.dtype
        if dtype is not bool_ and dtype is not layouts[0].dtype and dtype is not float32:
            raise RuntimeError(
                f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{attn_mask._layout.dtype.c_name} and  query.dtype: {query._layout.dtype.c_name} instead."
            )


def causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """True where a position of the query may look at one of the key."""
    ones = NAMESPACE["ones"](query._layout.shape[-2], key._layout.shape[-2], dtype=bool_, device=query._layout.device)
    return ones.tril()


def masked_scores(scores: Tensor, attn_mask: Tensor | None, causal: Tensor | None) -> Tensor:
    """Scores with -inf, or the mask added, where they don't count."""
    if causal is not None:
        scores = scores.masked_fill(causal.logical_not(), NEGATIVE)
    if attn_mask is not None:
        if attn_mask._layout.dtype is bool_:
            return scores.masked_fill(attn_mask.logical_not(), NEGATIVE)
        return scores + (attn_mask if attn_mask._layout.dtype is scores._layout.dtype else attn_mask.to(scores._layout.dtype))
    return scores


def weights_of(scores: Tensor, masked: bool) -> Tensor:
    """The softmax of scores; rows in which nothing counts are zero."""
    if not masked:
        return softmax(scores, -1)
    nothing = (scores == NEGATIVE).all(-1, True)
    return softmax(scores.masked_fill(nothing, 0), -1).masked_fill(nothing, 0)


_batched_product = one_step("UnsafeViewBackward0")(matmul)
_empty_product = one_step("AddBackward0")(matmul)


def attention_by_products(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool, scale: float
) -> Tensor:
    """Attention as two matrix products and a softmax, for any shapes that broadcast; in float32 for narrower dtypes."""
    dtype = query._layout.dtype
    if dtype in (float16, bfloat16):
        if attn_mask is not None and attn_mask._layout.dtype is not bool_:
            attn_mask = attn_mask.float()
        return attention_by_products(query.float(), key.float(), value.float(), attn_mask, dropout_p, is_causal, scale).to(dtype)
    root = math.sqrt(abs(scale))
    scores = matmul(query * (root if scale >= 0 else -root), (key * root).transpose(-2, -1))
    scores = masked_scores(scores, attn_mask, causal_mask(query, key) if is_causal else None)
    weights = weights_of(scores, attn_mask is not None or is_causal)
    if dropout_p > 0:
        weights = dropout(weights, dropout_p, True)
    if value._layout.ndim == 2 and value._layout.numel:
        return matmul(weights, value)
    return (_batched_product if value._layout.numel else _empty_product)(weights, value)


@operator(method=False, function=False, node="ScaledDotProductFlashAttentionForCpuBackward0", differentiable=1)
def fused_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float) -> Any:
    """(attention, logarithm of the sums of exponentials of the scores (batch, heads, length))."""
    layouts = query._layout, key._layout, value._layout, None if attn_mask is None else attn_mask._layout
    plan_key = *layouts, is_causal, scale, launching.planned_threads()
    launch = _plans.get(plan_key)
    if launch is None:
        launch = _plans[plan_key] = _fused_plan(*layouts, is_causal, scale)
    return launch(None, None, query, key, value) if attn_mask is None else launch(None, None, query, key, value, attn_mask)


def _sizes(q: Layout, k: Layout, v: Layout, mask: Layout | None, is_causal: bool) -> Attention:
    batch, heads, rows, depth = q.shape
    columns, width = v.shape[-2:]
    wide = float64 if q.dtype is float64 else float32
    if not q.dtype is k.dtype is v.dtype or (mask is not None and mask.dtype not in (bool_, wide)):
        raise RuntimeError("attention of tensors of different dtypes")  # a saved tensor may have got other data
    if k.shape != (batch, heads, columns, depth) or v.shape[:2] != q.shape[:2]:
        raise RuntimeError(
            f"attention of a query of shape {list(q.shape)} over keys of shape {list(k.shape)} and values of "
            f"shape {list(v.shape)}"
        )
    mask_strides = None
    if mask is not None:
        scores = (batch, heads, rows, columns)
        together = tuple(geometry.broadcast(scores, mask.shape))
        if together != scores:
            raise RuntimeError(f"output with shape {list(scores)} doesn't match the broadcast shape {list(together)}")
        mask_strides = memory_order.broadcast_strides(mask.shape, mask.strides, scores)
    return Attention(
        batch,
        heads,
        rows,
        columns,
        depth,
        width,
        q.strides,
        k.strides,
        v.strides,
        mask_strides,
        mask is not None and mask.dtype is bool_,
        is_causal,
    )


def _fused_plan(q: Layout, k: Layout, v: Layout, mask: Layout | None, is_causal: bool, scale: float) -> Callable:
    sizes = _sizes(q, k, v, mask, is_causal)
    batch, heads, rows, columns, depth, width = sizes[:6]
    out = Layout.contiguous((batch, heads, rows, width), q.dtype, q.device)
    logarithms = Layout.contiguous((batch, heads, rows), float64 if q.dtype is float64 else float32, q.device)
    work = batch * heads * rows * columns * (depth + width)
    return lowered(
        Plan(
            [Attend(q.dtype, sizes, scale)],
            [out, logarithms],
            [layout for layout in (q, k, v, mask) if layout is not None],
            release=work >= RELEASE_FROM,
        )
    )


@fused_attention.vjp
def _(g, outs, query, key, value, attn_mask, is_causal, scale):
    if modes.local.grad:
        return _gradients_by_products(g, *outs, query, key, value, attn_mask, is_causal, scale)
    return *fused_gradients(g, *outs, query, key, value, attn_mask, is_causal, scale), None


def _gradients_by_products(
    g: Tensor,
    out: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float,
) -> tuple:
    """The gradients in differentiable operators, for gradients of gradients."""
    scores = masked_scores(
        matmul(query, key.transpose(-2, -1)) * scale, attn_mask, causal_mask(query, key) if is_causal else None
    )
    weights = weights_of(scores, attn_mask is not None or is_causal)
    d_scores = weights * (matmul(g, value.transpose(-2, -1)) - (g * out).sum(-1, True)) * scale
    return (matmul(d_scores, key), matmul(d_scores.transpose(-2, -1), query), matmul(weights.transpose(-2, -1), g), None)


def fused_gradients(
    g: Tensor,
    out: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value by one kernel; nothing is recorded.

    out, lse: of these keys, or of more keys of which these are some, whose share of the gradients the results then are.
    """
    layouts = query._layout, key._layout, value._layout, None if attn_mask is None else attn_mask._layout
    plan_key = "backward", g._layout, *layouts, is_causal, scale, launching.planned_threads()
    launch = _plans.get(plan_key)
    if launch is None:
        sizes = _sizes(*layouts, is_causal)
        if (
            g._layout.shape != (*query._layout.shape[:3], value._layout.shape[3])
            or out._layout.shape != g._layout.shape
            or (g._layout.dtype is not query._layout.dtype)
        ):
            raise RuntimeError(
                f"the gradient of attention has shape {list(g._layout.shape)}, but its query now has shape "
                f"{list(query._layout.shape)}"
            )
        step = AttendBackward(layouts[0].dtype, sizes, g._layout.strides, scale)
        outputs = [Layout.contiguous(layout.shape, layout.dtype, layout.device) for layout in layouts[:3]]
        given = (g, query, key, value, out, lse) if attn_mask is None else (g, query, key, value, out, lse, attn_mask)
        work = sizes.batch * sizes.heads * sizes.rows * sizes.columns * sizes.depth
        launch = _plans[plan_key] = lowered(Plan([step], outputs, [x._layout for x in given], release=work >= RELEASE_FROM))
    given = (g, query, key, value, out, lse)
    return launch(None, None, None, *given) if attn_mask is None else launch(None, None, None, *given, attn_mask)


def fusable(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float) -> bool:
    """Whether fused_attention takes these operands."""
    q, k, v = query._layout, key._layout, value._layout
    if dropout_p or not (q.ndim == k.ndim == v.ndim == 4) or not q.dtype.is_floating_point or 0 in (*q.shape, *k.shape):
        return False
    if q.shape[:2] != k.shape[:2] or k.shape[:3] != v.shape[:3] or not q.shape[3] == k.shape[3] == v.shape[3]:
        return False
    return attn_mask is None or (attn_mask._node is None and attn_mask._layout.ndim in (2, 4))


def fused_mask(query: Tensor, attn_mask: Tensor | None) -> Tensor | None:
    """A mask as the kernels read it: bools, or numbers in the precision of the scores."""
    wide = float64 if query._layout.dtype is float64 else float32
    if attn_mask is None or attn_mask._layout.dtype in (bool_, wide):
        return attn_mask
    return attn_mask.to(wide)


@composite(method=False, function=False, autocast=lower, written_in_python=False)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T * scale + mask) value.

    query (..., L, E), key (..., S, E), value (..., S, Ev), result (..., L, Ev). attn_mask broadcasts to (..., L, S): True where a
    position takes part, or numbers to add. scale: 1 / sqrt(E) unless given. enable_gqa: key and value may have fewer heads, each
    shared by several of the query's. RuntimeError for dtypes or ranks that don't go together.
    """
    _check(query, key, value, attn_mask)
    if is_causal and attn_mask is not None and query._layout.ndim != 4:  # PyTorch's fused kernel, of 4-d operands, takes both
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if scale is None:
        scale = 1 / math.sqrt(query._layout.shape[-1] or 1)
    if enable_gqa:
        if _goes_together(query, key, value, attn_mask, dropout_p, is_causal):
            rows, batch, heads = query._layout.shape, key._layout.shape[0], key._layout.shape[1]
            whole = query.reshape(batch, heads, -1, rows[3])  # type: ignore[attr-defined]
            made = scaled_dot_product_attention(whole, key, value, attn_mask, scale=scale)
            return made.reshape(*rows[:3], value._layout.shape[3])
        key, value = _shared_heads(query, key), _shared_heads(query, value)
    if dropout_p and not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    if fusable(query, key, value, attn_mask, dropout_p):
        return fused_attention(query, key, value, fused_mask(query, attn_mask), is_causal, float(scale))[0]
    return attention_by_products(query, key, value, attn_mask, dropout_p, is_causal, scale)


def _goes_together(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
) -> bool:
    """Whether the rows of the query's heads that share keys are rows of one head, so that keys and values stay as they are: while
    nothing is recorded, and if the mask is the same for all of these rows.
    """
    q, k, v = query._layout, key._layout, value._layout
    if is_causal or dropout_p or not (q.ndim == k.ndim == v.ndim == 4) or k.shape[:3] != v.shape[:3]:
        return False
    if 0 in (*q.shape, *k.shape) or q.shape[1] % k.shape[1] or q.shape[0] != k.shape[0]:
        return False
    if attn_mask is not None:
        mask = attn_mask._layout.shape
        if len(mask) not in (2, 4) or any(size != 1 for size in mask[-3:-1]):
            return False
    given = query, key, value, *(() if attn_mask is None else (attn_mask,))
    return not (modes.local.grad and any(x._node is not None for x in given))


def _shared_heads(query: Tensor, x: Tensor) -> Tensor:
    heads, own = query._layout.shape[-3], x._layout.shape[-3]
    if heads == own:
        return x
    if own == 0 or heads % own:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    return x.repeat_interleave(heads // own, -3)


# ---------------------------------------------------------------- several heads


def canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask as numbers to add: -inf where a boolean mask is True. AssertionError unless it is bool or floating."""
    if mask is None:
        return None
    floating = mask._layout.dtype.is_floating_point
    if mask._layout.dtype is not bool_ and not floating:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask._layout.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.", stacklevel=3
        )
    if floating:
        return mask
    return NAMESPACE["zeros_like"](mask, dtype=target_type).masked_fill_(mask, NEGATIVE)


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Whether the inputs are batched. AssertionError for ranks that don't go together."""
    ndim = query.dim()
    if ndim not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor")
    kind = "batched" if ndim == 3 else "unbatched"
    if key.dim() != ndim or value.dim() != ndim:
        raise AssertionError(
            f"For {kind} ({ndim}-D) `query`, expected `key` and `value` to be {ndim}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != ndim - 1:
        raise AssertionError(
            f"For {kind} ({ndim}-D) `query`, expected `key_padding_mask` to be `None` or {ndim - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} ({ndim}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                f"{attn_mask.dim()}-D tensor instead"
            )
        if ndim == 2 and attn_mask.dim() == 3:
            expected = (num_heads, query.size(0), key.size(0))
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return ndim == 3


def _project(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value through one stacked projection, in as few products as they allow."""
    width = query.size(-1)
    if key is value:
        if query is key:
            made = linear(query, weight, bias)
            made = made.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return made[0], made[1], made[2]
        w_q, w_kv = weight.split([width, width * 2])
        b_q, b_kv = (None, None) if bias is None else bias.split([width, width * 2])
        q, kv = linear(query, w_q, b_q), linear(key, w_kv, b_kv)
        kv = kv.unflatten(-1, (2, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return q, kv[0], kv[1]
    weights = weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))


def _append(x: Tensor, extra: Tensor, dim: int) -> Tensor:
    return NAMESPACE["cat"]([x, extra], dim=dim)


def _padded(mask: Tensor | None) -> Tensor | None:
    """A mask with a column of zeros for one more key."""
    if mask is None:
        return None
    return _append(
        mask, NAMESPACE["zeros"](*mask._layout.shape[:-1], 1, dtype=mask._layout.dtype, device=mask._layout.device), -1
    )


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise AssertionError(words)


def _canonical_masks(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: bool, need_weights: bool, dtype: Any
) -> tuple[Tensor | None, Tensor | None, bool]:
    """Both masks as numbers to add, and whether the kernel's own triangle stands for attn_mask."""
    other = None if attn_mask is None else attn_mask._layout.dtype
    key_padding_mask = canonical_mask(key_padding_mask, "key_padding_mask", other, "attn_mask", dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None and not need_weights:
        return None, None, True  # the hint says that the mask is nothing but the triangle
    attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", dtype, False)
    return key_padding_mask, attn_mask, is_causal and key_padding_mask is None


def _project_separately(query: Tensor, key: Tensor, value: Tensor, weights: tuple, bias: Tensor | None) -> Any:
    """(q, k, v) by a weight of its own for each; a bias holds all three."""
    _expect(
        key.shape[:2] == value.shape[:2], f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
    )
    for weight, name in zip(weights, "qkv"):
        _expect(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))


_local = threading.local()


@contextlib.contextmanager
def attending_by(function: Callable[..., Tensor]) -> Iterator[None]:
    """A block in which this thread's multi_head_attention_forward calls `function` in place of scaled_dot_product_attention."""
    before = getattr(_local, "attend", None)
    _local.attend = function
    try:
        yield
    finally:
        _local.attend = before


@composite(method=False, function=False, asks="dim")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """Project, attend with `num_heads` heads, project back: (result (L, N, E), weights (N, [heads,] L, S) or None).

    query (L, N, E), key and value (S, N, ...), or all without N. Masks are True (or -inf) where a key must not be looked at.
    AssertionError for shapes that don't go together.
    """
    attend = getattr(_local, "attend", None)
    if attend is None:
        attend = scaled_dot_product_attention
    elif need_weights or bias_k is not None or add_zero_attn:
        raise NotImplementedError(
            "multi-head attention whose keys several ranks have gives no weights and adds no keys of its own: pass "
            "need_weights=False, and leave out add_bias_kv and add_zero_attn"
        )
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_keys, same_values = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same_keys else key.unsqueeze(1)
        value = key if same_values else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    size = key.size(0)
    dtype = query._layout.dtype
    key_padding_mask, attn_mask, is_causal = _canonical_masks(key_padding_mask, attn_mask, is_causal, need_weights, dtype)
    _expect(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    _expect(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        q, k, v = _project_separately(query, key, value, (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    else:
        _expect(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
        _expect(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        expected = (length, size) if attn_mask.dim() == 2 else (batch * num_heads, length, size)
        if tuple(attn_mask.shape) != expected:
            raise RuntimeError(f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {expected}.")
        attn_mask = attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask
    if bias_k is not None and bias_v is not None:
        _expect(static_k is None, "bias cannot be added to static key.")
        _expect(static_v is None, "bias cannot be added to static value.")
        k, v = _append(k, bias_k.repeat(1, batch, 1), 0), _append(v, bias_v.repeat(1, batch, 1), 0)
        attn_mask, key_padding_mask = _padded(attn_mask), _padded(key_padding_mask)
    else:
        _expect(bias_k is None, "bias_k is not None but bias_v is None")
        _expect(bias_v is None, "bias_v is not None but bias_k is None")
    heads = batch * num_heads
    q = q.view(length, heads, head).transpose(0, 1)
    k, v = _in_heads("static_k", static_k, k, heads, head), _in_heads("static_v", static_v, v, heads, head)
    if add_zero_attn:
        zeros = NAMESPACE["zeros"](heads, 1, head, dtype=k._layout.dtype, device=k._layout.device)
        k, v = _append(k, zeros, 1), _append(v, zeros, 1)
        attn_mask, key_padding_mask = _padded(attn_mask), _padded(key_padding_mask)
    size = k.size(1)
    if key_padding_mask is not None:
        attn_mask = _with_padding(attn_mask, key_padding_mask, batch, num_heads, size)
    if not training:
        dropout_p = 0.0
    if need_weights:
        sizes, out_proj = (length, batch, width, num_heads), (out_proj_weight, out_proj_bias)
        return _with_weights(q, k, v, attn_mask, dropout_p, sizes, *out_proj, average_attn_weights, batched, is_causal)
    if attn_mask is not None:
        attn_mask = (
            attn_mask.unsqueeze(0)
            if attn_mask.size(0) == 1 and attn_mask.dim() == 3
            else attn_mask.view(batch, num_heads, -1, size)
        )
    q = q.view(batch, num_heads, length, head)
    k, v = (x.view(batch, num_heads, size, head) for x in (k, v))
    out = attend(q, k, v, attn_mask, dropout_p, is_causal)
    out = out.permute(2, 0, 1, 3).contiguous().view(batch * length, width)
    out = linear(out, out_proj_weight, out_proj_bias).view(length, batch, out_proj_weight._layout.shape[0])
    return (out if batched else out.squeeze(1)), None


def _in_heads(name: str, static: Tensor | None, x: Tensor, heads: int, head: int) -> Tensor:
    """Keys or values (S, N, E) as (heads of all samples, S, head width); or those that were given in this form."""
    if static is None:
        return x.view(x.shape[0], heads, head).transpose(0, 1)
    _expect(static.size(0) == heads, f"expecting {name}.size(0) of {heads}, but got {static.size(0)}")
    _expect(static.size(2) == head, f"expecting {name}.size(2) of {head}, but got {static.size(2)}")
    return static


def _with_padding(attn_mask: Tensor | None, padding: Tensor, batch: int, num_heads: int, size: int) -> Tensor:
    """The mask with that of padded keys (N, S) added for every head."""
    _expect(
        tuple(padding.shape) == (batch, size), f"expecting key_padding_mask shape of {(batch, size)}, but got {padding.shape}"
    )
    padding = padding.view(batch, 1, 1, size).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, size)
    return padding if attn_mask is None else attn_mask + padding


def _with_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    sizes: tuple[int, int, int, int],
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    average: bool,
    batched: bool,
    is_causal: bool,
) -> Any:
    """The rest of multi-head attention when the weights are asked for."""
    length, batch, width, num_heads = sizes
    _expect(not (is_causal and attn_mask is None), "FIXME: is_causal not implemented for need_weights")
    scaled = q * math.sqrt(1.0 / q.size(-1))
    scores = (
        scaled.bmm(k.transpose(-2, -1)) if attn_mask is None else NAMESPACE["baddbmm"](attn_mask, scaled, k.transpose(-2, -1))
    )
    weights = softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p, True)
    out = weights.bmm(v).transpose(0, 1).contiguous().view(length * batch, width)
    out = linear(out, out_proj_weight, out_proj_bias).view(length, batch, out_proj_weight._layout.shape[0])
    weights = weights.view(batch, num_heads, length, k.size(1))
    if average:
        weights = weights.mean(1)
    return (out, weights) if batched else (out.squeeze(1), weights.squeeze(0))
