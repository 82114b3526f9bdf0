"""Reads and writes at places that tensors name, in aten's core operators."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.helpers import aten, decomposes, full, scalar, where

__all__: list[str] = []


@decomposes("masked_fill.Scalar")
def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    number = float(value) if self.dtype.is_floating_point else value
    return where(mask, scalar(number, self.dtype), self)


@decomposes("masked_fill.Tensor")
def masked_fill_tensor(self: Any, mask: Any, value: Any) -> Any:
    if value.dtype is not self.dtype:
        value = aten._to_copy.default(value, dtype=self.dtype)
    return where(mask, value, self)


@decomposes("_unsafe_index.Tensor")
def _unsafe_index(self: Any, indices: Any) -> Any:
    return aten.index.Tensor(self, indices)


@decomposes("_unsafe_index_put.default")
def _unsafe_index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    return aten.index_put.default(self, indices, values, *([True] if accumulate else []))


def _put(self: Any, dim: int, index: Any, source: Any, accumulate: bool) -> Any:
    lead = dim % max(self.dim(), 1)
    given = [*[None] * lead, index]
    return aten.index_put.default(self, given, source, *([True] if accumulate else []))


@decomposes("index_add.default")
def index_add(self: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    if alpha != 1:
        source = aten.mul.Tensor(source, alpha)
    return _put(self, dim, index, source, True)


@decomposes("index_copy.default")
def index_copy(self: Any, dim: int, index: Any, source: Any) -> Any:
    return _put(self, dim, index, source, False)


def _chosen(self: Any, dim: int, index: Any) -> list[int]:
    shape = list(self.shape)
    if shape:
        shape[dim] = index.numel()
    return shape


@decomposes("index_fill.int_Scalar")
def index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    number = aten.scalar_tensor.default(
        value, dtype=self.dtype, layout=torch.strided, device=torch.device("cpu"), pin_memory=False
    )
    return index_fill_tensor(self, dim, index, number)


@decomposes("index_fill.int_Tensor")
def index_fill_tensor(self: Any, dim: int, index: Any, value: Any) -> Any:
    return _put(self, dim, index, aten.expand.default(value, _chosen(self, dim, index)), False)


@decomposes("take.default")
def take(self: Any, index: Any) -> Any:
    return aten.index.Tensor(self.reshape(-1), [index])


@decomposes("renorm.default")
def renorm(self: Any, p: Any, dim: int, maxnorm: float) -> Any:
    dim = dim % self.dim()
    others = [d for d in range(self.dim()) if d != dim]
    norm = aten.linalg_vector_norm.default(self, p, others, True)
    scale = aten.mul.Tensor(aten.reciprocal.default(aten.add.Tensor(norm, 1e-07)), maxnorm)
    return aten.mul.Tensor(self, where(aten.gt.Scalar(norm, maxnorm), scale, 1.0))


@decomposes("embedding_dense_backward.default")
def embedding_dense_backward(grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    if scale_grad_by_freq:
        return NotImplemented
    hidden = aten.unsqueeze.default(aten.eq.Scalar(indices, padding_idx), -1)
    grad = aten.masked_fill.Scalar(grad_output, hidden, 0)
    table = full([num_weights, *grad_output.shape[indices.dim() :]], 0, grad_output.dtype)
    return aten.index_put.default(table, [indices], grad, True)
