"""Operators on lists of DTensors, as optimizers call them (`_foreach_add_`): every rank on the lists of its parts.

They compute element by element, so that tensors in the same place of their lists have only to lie alike. Used by `_dispatch`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec
from flambeau.distributed.tensor._redistribute import redistribute_local_tensor
from flambeau.distributed.tensor.placement_types import Placement, Replicate

__all__ = ["dispatch"]


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an operator on lists; results lie as the first list's tensors."""
    if func._opname == "_foreach_norm":
        return _norms(*args, **kwargs)
    first = args[0]
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments)
    wanted = [_whole_sums(tensor, writes, func) if isinstance(tensor, DTensor) else None for tensor in first]

    def local(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and len(value) == len(wanted):
            return [_part(item, placements) for item, placements in zip(value, wanted, strict=True)]
        if isinstance(value, DTensor):
            return _part(value, (Replicate(),) * value.device_mesh.ndim)
        return value

    result = func(*map(local, args), **{name: local(value) for name, value in kwargs.items()})
    if writes or result is None:
        return None
    specs = [x._spec.with_placements(p) if p is not None else None for x, p in zip(first, wanted, strict=True)]
    return [made if spec is None else _wrapped(made, spec) for made, spec in zip(result, specs, strict=True)]


def _whole_sums(tensor: DTensor, writes: bool, func: Any) -> tuple[Placement, ...]:
    """How a list's tensor lies while it is computed with: as it does, with nothing left to be reduced."""
    if writes and tensor._spec.sums:
        raise RuntimeError(f"{func} writes to a DTensor that is {tensor.placements}: redistribute it first")
    return tuple(Replicate() if placement.is_partial() else placement for placement in tensor.placements)


def _part(value: Any, placements: tuple[Placement, ...] | None) -> Any:
    if not isinstance(value, DTensor):
        return value
    spec = value._spec
    return redistribute_local_tensor(value._local_tensor, spec, spec.with_placements(placements or spec.placements))


def _wrapped(made: torch.Tensor, spec: DTensorSpec) -> DTensor:
    meta = spec._meta._replace(dtype=made.dtype)
    return DTensor(made, DTensorSpec(spec.mesh, spec.placements, meta), requires_grad=False)


def _norms(tensors: Any, ord: float = 2, dtype: Any = None) -> list[torch.Tensor]:
    return [torch.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in tensors]
