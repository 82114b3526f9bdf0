"""Distances, and losses that are made of them, as exported graphs have them; reductions are PyTorch's numbers."""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.device import cpu
from flambeau.base.layout import contiguous_format, preserve_format
from flambeau.dispatcher.aten.composites.helpers import where
from flambeau.dispatcher.aten.composites.registry import aten, composite

__all__: list[str] = []


def _reduced(loss: Any, reduction: int) -> Any:
    return aten.mean.default(loss) if reduction == 1 else aten.sum.default(loss) if reduction == 2 else loss


@composite("cosine_similarity.default")
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    norms = [aten.clone.default(aten.linalg_vector_norm.default(x, 2, [dim], True)) for x in (x1, x2)]
    least = aten.scalar_tensor.default(eps, dtype=norms[0].dtype, device=cpu)
    first, second = (aten.clamp_min_.Tensor(n, least) for n in norms)
    right = aten.div.Tensor(x2, second)
    return aten.sum.dim_IntList(aten.mul.Tensor(aten.div.Tensor(x1, first), right), [dim])


@composite("pairwise_distance.default")
def pairwise_distance(x1: Any, x2: Any, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Any:
    apart = aten.add.Scalar(aten.sub.Tensor(x1, x2), eps)
    return aten.norm.ScalarOpt_dim(apart, float(p), [max(x1.dim(), x2.dim()) - 1], *([True] if keepdim else []))


@composite("triplet_margin_loss.default")
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Any:
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = aten.minimum.default(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(aten.clamp_min.default(aten.sub.Tensor(aten.add.Scalar(near, margin), far), 0), reduction)


@composite("margin_ranking_loss.default")
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Any:
    apart = aten.sub.Tensor(input1, input2)
    loss = aten.add.Scalar(aten.mul.Tensor(aten.neg.default(target), apart), margin)
    return _reduced(aten.clamp_min_.default(loss, 0), reduction)


def _ones_like(x: Any, value: Any) -> Any:
    return aten.fill_.Scalar(aten.empty_like.default(x, memory_format=preserve_format), value)


def _nothing_like(x: Any) -> Any:
    return aten.zeros_like.default(x, memory_format=contiguous_format)


@composite("hinge_embedding_loss.default")
def hinge_embedding_loss(self: Any, target: Any, margin: float = 1.0, reduction: int = 1) -> Any:
    nothing = _nothing_like(self)
    apart = aten.clamp_min_.default(aten.sub_.Tensor(_ones_like(self, margin), self), 0)
    unlike = where(aten.ne.Scalar(target, 1), apart, nothing)
    return _reduced(aten.add.Tensor(unlike, where(aten.ne.Scalar(target, -1), self, nothing)), reduction)


@composite("cosine_embedding_loss.default")
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Any:
    axis = target.dim()
    small = 9.999999960041972e-13  # 1e-12 as a float32, whatever the dtype

    def dot(x: Any, y: Any) -> Any:
        return aten.sum.dim_IntList(aten.mul.Tensor(x, y), [axis])

    product = dot(input1, input2)
    sizes = [aten.add.Scalar(dot(x, x), small) for x in (input1, input2)]
    cosine = aten.div.Tensor(product, aten.sqrt_.default(aten.mul.Tensor(*sizes)))
    nothing = _nothing_like(cosine)
    like = aten.sub_.Tensor(_ones_like(cosine, 1), cosine)
    unlike = aten.clamp_min_.default(aten.sub.Scalar(cosine, margin), 0)
    first = where(aten.eq.Scalar(target, 1), like, nothing)
    return _reduced(aten.add.Tensor(first, where(aten.eq.Scalar(target, -1), unlike, nothing)), reduction)


@composite("poisson_nll_loss.default")
def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    if log_input:
        product = aten.mul.Tensor(target, input)
        loss = aten.sub.Tensor(aten.exp.default(input), product)
    else:
        logs = aten.mul.Tensor(target, aten.log.default(aten.add.Scalar(input, eps)))
        loss = aten.sub.Tensor(input, logs)
    if full:
        sizes = aten.mul.Scalar(aten.log.default(aten.mul.Scalar(target, 2 * math.pi)), 0.5)
        stirling = aten.add.Tensor(aten.sub.Tensor(aten.mul.Tensor(target, aten.log.default(target)), target), sizes)
        loss = aten.add.Tensor(loss, aten.masked_fill.Scalar(stirling, aten.le.Scalar(target, 1), 0))
    return _reduced(loss, reduction)


@composite("cdist.default")
def cdist(x1: Any, x2: Any, p: float = 2, compute_mode: int | None = None) -> Any:
    return aten._cdist_forward.default(x1, x2, p, compute_mode)
