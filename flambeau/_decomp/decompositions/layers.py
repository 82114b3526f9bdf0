"""Attention, norms, borders and rearranged images in aten's core operators."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import arange, aten, decomposes, like, where
from flambeau.dispatcher.aten.composites.attention import attention_by_products

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


@decomposes("native_batch_norm.default")
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        return aten._native_batch_norm_legit_no_training.default(input, weight, bias, running_mean, running_var, momentum, eps)
    if running_mean is None:
        return aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, eps)
    return aten._native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, True, momentum, eps)
