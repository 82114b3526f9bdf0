"""torch.distributed.tensor.parallel.loss: cross entropy of logits that are cut along the classes, without gathering them.

What is sent is a number per row: the largest logit, the sum of exponentials, the target's logit. Stands on `_composites`, whose
table it adds to while a `loss_parallel` block is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flambeau as torch
from flambeau.distributed.tensor import _collectives as collectives
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._composites import COMPOSITES
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride, local_shape_and_offset
from flambeau.distributed.tensor.placement_types import Replicate, Shard

__all__ = ["loss_parallel"]


def _classes(logits: Any, dim: int) -> int:
    """The dimension of the mesh that cuts the classes, which has to be its only one."""
    wanted = dim % logits.ndim
    if not isinstance(logits, DTensor) or logits.placements != (Shard(wanted),):
        raise ValueError(
            f"loss_parallel() should be enabled only on DTensors that are Shard({wanted}), the classes, on a mesh of one "
            f"dimension; got {getattr(logits, 'placements', 'a plain tensor')}. Redistribute the logits first"
        )
    return 0


def _like(x: DTensor, local: torch.Tensor) -> DTensor:
    spec = DTensorSpec(x.device_mesh, x.placements, x._spec._meta._replace(dtype=local.dtype))
    return DTensor(local, spec, requires_grad=False)


def _log_softmax(func: Any, x: Any, dim: int, half_to_float: bool) -> DTensor:
    group = x.device_mesh.get_group(_classes(x, dim))
    local = x._local_tensor.to(torch.float32) if half_to_float else x._local_tensor
    if local.numel():
        largest = local.amax(dim, keepdim=True)
    else:
        shape = [1 if k == dim % x.ndim else size for k, size in enumerate(local.shape)]
        largest = local.new_full(shape, -torch.inf)
    shifted = local - collectives.reduce(largest, "max", group)
    total = collectives.reduce(shifted.exp().sum(dim, keepdim=True), "sum", group)
    return _like(x, shifted - total.log())


def _log_softmax_backward(func: Any, gradient: Any, output: Any, dim: int, input_dtype: Any) -> DTensor:
    _classes(output, dim)
    # The gradient that `_nll_loss_backward` gives is of the softmax too: both are one formula there.
    return _like(gradient, gradient._local_tensor.to(input_dtype))


def _own_targets(x: DTensor, target: torch.Tensor, ignored: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets as they are in this rank's classes (0 where they are others'), and which are this rank's."""
    shape, offset = local_shape_and_offset(x.shape, x.device_mesh, x.placements)
    dim = 0 if x.ndim < 2 else 1
    own = target - offset[dim]
    mine = (own >= 0) & (own < shape[dim]) & (target != ignored)
    return own.masked_fill(~mine, 0), mine


def _whole(x: Any) -> Any:
    if not isinstance(x, DTensor):
        return x
    return x.redistribute(placements=[Replicate()] * x.device_mesh.ndim)._local_tensor


def _replicated(x: DTensor, local: torch.Tensor) -> DTensor:
    meta = TensorMeta(local.shape, contiguous_stride(local.shape), local.dtype)
    return DTensor(local, DTensorSpec(x.device_mesh, (Replicate(),), meta), requires_grad=False)


def _row_weights(target: torch.Tensor, weight: Any, ignored: int, dtype: Any) -> torch.Tensor:
    counted = target != ignored
    if weight is None:
        return counted.to(dtype)
    return weight[target.masked_fill(~counted, 0)] * counted


def _nll_loss_forward(func: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    dim = 0 if x.ndim < 2 else 1
    group = x.device_mesh.get_group(_classes(x, dim))
    labels, weights = _whole(target), _whole(weight)
    own, mine = _own_targets(x, labels, ignore_index)
    local = x._local_tensor
    if local.shape[dim]:
        picked = local.gather(dim, own.unsqueeze(dim)).squeeze(dim) * mine
    else:
        picked = torch.zeros(labels.shape, dtype=local.dtype)
    share = _row_weights(labels, weights, ignore_index, local.dtype)
    losses = -collectives.reduce(picked, "sum", group) * share
    total = share.sum()
    if reduction == 0:
        return _replicated(x, losses), _replicated(x, total.new_zeros(()))
    return _replicated(x, losses.sum() / total if reduction == 1 else losses.sum()), _replicated(x, total)


def _nll_loss_backward(
    func: Any, gradient: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total_weight: Any
) -> DTensor:
    """The gradient with respect to the logits: (softmax - one hot) of each row, times its share."""
    dim = 0 if x.ndim < 2 else 1
    _classes(x, dim)
    labels = _whole(target)
    own, mine = _own_targets(x, labels, ignore_index)
    share = _row_weights(labels, _whole(weight), ignore_index, x.dtype) * _whole(gradient)
    if reduction == 1:
        share = share / _whole(total_weight)
    result = x._local_tensor.exp()
    if result.shape[dim]:
        result = result.scatter_add(dim, own.unsqueeze(dim), -mine.to(result.dtype).unsqueeze(dim))
    return _like(x, result * share.unsqueeze(dim))


_PARALLEL = {
    "_log_softmax": _log_softmax,
    "_log_softmax_backward_data": _log_softmax_backward,
    "nll_loss_forward": _nll_loss_forward,
    "nll_loss2d_forward": _nll_loss_forward,
    "nll_loss_backward": _nll_loss_backward,
    "nll_loss2d_backward": _nll_loss_backward,
}


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which cross_entropy of logits cut along the classes is computed from the parts.

    Its backward belongs into the block as well. The logits are DTensors `Shard(1)` (`Shard(0)` of a vector) on a mesh of one
    dimension, ValueError otherwise; targets and weights are DTensors that every rank has. The loss is one that every rank has.
    """
    before = {name: COMPOSITES.get(name) for name in _PARALLEL}
    COMPOSITES.update(_PARALLEL)
    try:
        yield
    finally:
        for name, function in before.items():
            if function is None:
                COMPOSITES.pop(name, None)
            else:
                COMPOSITES[name] = function
