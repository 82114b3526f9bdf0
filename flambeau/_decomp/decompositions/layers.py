"""Attention, norms, borders and rearranged images in aten's core operators."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import arange, aten, decomposes, full, like, scalar, where

__all__: list[str] = []


@decomposes("_safe_softmax.default")
def _safe_softmax(self: Any, dim: int, dtype: Any = None) -> Any:
    made = torch.softmax(self, dim, dtype=dtype)
    hidden = aten.eq.Scalar(self, -math.inf)
    none = aten.logical_not.default(aten.any.dim(aten.logical_not.default(hidden), dim, True))
    return where(none, like(made, 0), made)


@decomposes("_scaled_dot_product_flash_attention_for_cpu.default")
def _scaled_dot_product_flash_attention_for_cpu(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Any:
    made, shares = attention_by_products(query, key, value, attn_mask, dropout_p, is_causal, scale)
    made = aten.permute.default(made, [2, 0, 1, 3])
    made = aten.clone.default(made, memory_format=torch.contiguous_format)
    return aten.permute.default(made, [1, 2, 0, 3]), shares


def as_added_mask(mask: Any, dtype: torch.dtype) -> Any:
    """A mask of truths as numbers that are added: 0, or minus infinity."""
    never = aten.scalar_tensor.default(-math.inf, dtype=dtype, device=torch.device("cpu"))
    return aten.where.self(mask, scalar(0.0, dtype), never)


def attention_by_products(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None
) -> tuple[Any, Any]:
    """Attention, and its shares; heads of the query may share those of key and value. Halves are computed in float32."""
    if query.dtype in (torch.float16, torch.bfloat16):
        q, k, v = (aten._to_copy.default(x, dtype=torch.float32) for x in (query, key, value))
        made, shares = attention_by_products(q, k, v, mask, dropout, causal, scale)
        shares = aten._to_copy.default(shares, dtype=query.dtype)
        return aten._to_copy.default(made, dtype=query.dtype), shares
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    rows = aten.mul.Scalar(query, factor)
    if query.dim() > 3 and key.shape[-3] != query.shape[-3]:
        key, value = (_repeated(x, query.shape[-3] // x.shape[-3]) for x in (key, value))
    if causal:
        mask = as_added_mask(aten.tril.default(full([query.shape[-2], key.shape[-2]], True, torch.bool)), query.dtype)
    columns = aten.mul.Scalar(aten.transpose.int(key, -2, -1), factor)
    scores = torch.matmul(rows, columns)
    if mask is not None:
        scores = aten.add.Tensor(scores, mask)
    shares = aten._safe_softmax.default(scores, -1)
    if dropout:
        shares = aten.native_dropout.default(shares, dropout, True)[0]
    return torch.matmul(shares, value), shares


def _repeated(x: Any, count: int) -> Any:
    """Each head several times."""
    *lead, heads, rows, width = x.shape
    spread = aten.expand.default(aten.unsqueeze.default(x, x.dim() - 2), [*lead, heads, count, rows, width])
    return aten.clone.default(spread, memory_format=torch.contiguous_format).view([*lead, heads * count, rows, width])


@decomposes("_weight_norm_interface.default")
def _weight_norm_interface(v: Any, g: Any, dim: int = 0) -> Any:
    others = [d for d in range(v.dim()) if d != dim]
    norm = aten.linalg_vector_norm.default(v, 2, others, True)
    return aten.mul.Tensor(v, aten.div.Tensor(g, norm)), norm


@decomposes("native_dropout_backward.default")
def native_dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
    kept = aten._to_copy.default(mask, dtype=grad_output.dtype)
    return aten.mul.Tensor(grad_output, aten.mul.Tensor(kept, scale))


# ---------------------------------------------------------------- borders


def _bordered(self: Any, padding: Any, places: Any) -> Any:
    dims = len(padding) // 2
    lead = self.dim() - dims
    for i in range(dims):
        left, right = padding[2 * (dims - 1 - i) : 2 * (dims - i)]
        length = self.shape[lead + i]
        index = [None] * self.dim()
        index[lead + i] = places(arange(-left, length + right), length - 1)
        self = aten.index.Tensor(self, index)
    return self


@decomposes("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(self: Any, padding: Any) -> Any:
    def mirrored(x: Any, last: int) -> Any:
        inside = aten.abs.default(aten.sub.Tensor(last, aten.abs.default(x)))
        return aten.sub.Tensor(last, inside)

    return _bordered(self, padding, mirrored)


@decomposes("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(self: Any, padding: Any) -> Any:
    return _bordered(self, padding, lambda x, last: aten.clamp.default(x, 0, last))


# ---------------------------------------------------------------- images


def _contiguous(x: Any) -> Any:
    return aten.clone.default(x, memory_format=torch.contiguous_format)


@decomposes("pixel_shuffle.default")
def pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    *lead, channels, height, width = self.shape
    f, n = upscale_factor, len(lead)
    inner = channels // (f * f)
    parts = aten.view.default(self, [*lead, inner, f, f, height, width])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    moved = _contiguous(aten.permute.default(parts, order))
    return _contiguous(aten.view.default(moved, [*lead, inner, height * f, width * f]))


@decomposes("pixel_unshuffle.default")
def pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    *lead, channels, height, width = self.shape
    f, n = downscale_factor, len(lead)
    parts = aten.view.default(self, [*lead, channels, height // f, f, width // f, f])
    moved = _contiguous(aten.permute.default(parts, [*range(n), n, n + 2, n + 4, n + 1, n + 3]))
    return _contiguous(aten.view.default(moved, [*lead, channels * f * f, height // f, width // f]))


@decomposes("channel_shuffle.default")
def channel_shuffle(self: Any, groups: int) -> Any:
    count, channels, *rest = self.shape
    parts = aten.view.default(self, [count, groups, channels // groups, *rest])
    moved = aten.permute.default(parts, [0, 2, 1, *range(3, 3 + len(rest))])
    return moved.reshape(count, channels, *rest)


def _places(length: int, kernel: int, dilation: int, padding: int, stride: int) -> Any:
    """Where the windows along a dimension read: a row for each place in the window."""
    device = torch.device("cpu")

    def places(end: int, step: int, dim: int) -> Any:
        row = aten.arange.start_step(0, end, step, dtype=torch.int64, device=device, pin_memory=False)
        return aten.unsqueeze.default(row, dim)

    starts = places(length + 2 * padding - dilation * (kernel - 1), stride, 0)
    return aten.add.Tensor(starts, places(kernel * dilation, dilation, -1))


@decomposes("im2col.default")
def im2col(self: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if self.dim() == 3:
        return aten.squeeze.dim(im2col(aten.unsqueeze.default(self, 0), kernel_size, dilation, padding, stride), 0)
    count, channels, height, width = self.shape
    down = _places(height, kernel_size[0], dilation[0], padding[0], stride[0])
    across = _places(width, kernel_size[1], dilation[1], padding[1], stride[1])
    border = [padding[1], padding[1], padding[0], padding[0]]
    padded = aten.constant_pad_nd.default(self, border, 0.0)
    rows = aten.unsqueeze.default(aten.unsqueeze.default(down, -1), -1)
    windows = aten.index.Tensor(padded, [None, None, rows, across])
    moved = aten.permute.default(windows, [0, 1, 2, 4, 3, 5])
    return moved.reshape(count, channels * math.prod(kernel_size), down.shape[1] * across.shape[1])
