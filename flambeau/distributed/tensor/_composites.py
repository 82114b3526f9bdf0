"""Operators that are no single call on parts: written in others on DTensors, or in what each rank does by its place.

Used by `_dispatch`, which asks here first; NotImplemented: the general way serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride, local_shape_and_offset
from flambeau.distributed.tensor.placement_types import Partial, Replicate, Shard

__all__ = ["COMPOSITES"]

COMPOSITES: dict[str, Callable[..., Any]] = {}


def _composite(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPOSITES.update(dict.fromkeys(names, function))
        return function

    return register


def _whole(tensor: DTensor) -> DTensor:
    return tensor.redistribute(placements=[Replicate()] * tensor.device_mesh.ndim)


@_composite("_local_scalar_dense")
def _item(func: Any, tensor: DTensor) -> Any:
    return func(_whole(tensor)._local_tensor)


@_composite("equal", "allclose")
def _equal(func: Any, first: Any, second: Any, *rest: Any, **named: Any) -> bool:
    whole = [_whole(tensor)._local_tensor if isinstance(tensor, DTensor) else tensor for tensor in (first, second)]
    outside = any(isinstance(x, DTensor) and x.device_mesh.get_coordinate() is None for x in (first, second))
    return outside or bool(func(*whole, *rest, **named))


@_composite("is_same_size")
def _is_same_size(func: Any, first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape


def _rows(weight: DTensor) -> int | None:
    """The dimension of the mesh that alone cuts the rows of a table, or None."""
    cuts = [i for i, placement in enumerate(weight.placements) if placement.is_shard()]
    if len(cuts) == 1 and weight.placements[cuts[0]] == Shard(0):
        return cuts[0]
    return None


def _own_rows(indices: torch.Tensor, rows: int, spec: DTensorSpec) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices as they are in this rank's rows of a table, and which of them aren't there (0 in their place)."""
    (count, *_), (first, *_) = local_shape_and_offset(spec.shape, spec.mesh, spec.placements)
    own = indices - first
    missing = (own < 0) | (own >= count)
    return own.masked_fill(missing, 0), missing


@_composite("embedding")
def _embedding(func: Any, weight: Any, indices: Any, *rest: Any) -> Any:
    """Each rank looks up what its rows have and gives zeros for the others: a sum over the mesh is the result."""
    cut = _rows(weight) if isinstance(weight, DTensor) else None
    if cut is None or weight._local_tensor.shape[0] == 0:
        return NotImplemented
    mesh = weight.device_mesh
    if not isinstance(indices, DTensor):
        indices = DTensor.from_local(indices, mesh)
    if indices.placements[cut] != Replicate():
        indices = indices.redistribute(placements=[Replicate() if i == cut else p for i, p in enumerate(indices.placements)])
    own, missing = _own_rows(indices._local_tensor, weight.shape[0], weight._spec)
    found = func(weight._local_tensor, own).masked_fill_(missing.unsqueeze(-1), 0.0)
    shape = torch.Size((*indices.shape, weight.shape[1]))
    placements = tuple(Partial() if i == cut else p for i, p in enumerate(indices.placements))
    spec = DTensorSpec(mesh, placements, TensorMeta(shape, contiguous_stride(shape), weight.dtype))
    return DTensor(found, spec, requires_grad=False)


@_composite("new_empty_strided")
def _new_empty_strided(func: Any, x: DTensor, size: Any, stride: Any, **options: Any) -> Any:
    placements = x.placements if tuple(size) == tuple(x.shape) else (Replicate(),) * x.device_mesh.ndim
    placements = tuple(Replicate() if p.is_partial() else p for p in placements)
    part, _ = local_shape_and_offset(size, x.device_mesh, placements)
    local = x._local_tensor.new_empty(part, **{name: value for name, value in options.items() if value is not None})
    spec = DTensorSpec(x.device_mesh, placements, TensorMeta(torch.Size(size), tuple(stride), local.dtype))
    return DTensor(local, spec, requires_grad=False)
