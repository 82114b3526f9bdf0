"""Which of the ways that a rule gives is taken: for each dimension of the mesh the one that moves least.

Stands on `_ops.registry`; used by `_dispatch`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from flambeau.distributed.tensor._dtensor_spec import DTensorSpec
from flambeau.distributed.tensor._ops import pointwise
from flambeau.distributed.tensor._ops.registry import REGISTERED, RESHAPES, RULES, OpCall, R, Rule, Way, is_ours
from flambeau.distributed.tensor.placement_types import Placement, Shard, _StridedShard

__all__ = ["Sharding", "propagate", "rule_of"]

#: What is added for each step that takes time but sends nothing, so that of two ways that send as much the shorter one is taken.
_CUT = 1.0
_MESSAGE = 1e4  # bytes that could be sent in the time that a message takes to begin


@dataclasses.dataclass(frozen=True)
class Sharding:
    """How operands have to lie, and how results lie then."""

    operands: tuple[DTensorSpec, ...]
    results: tuple[DTensorSpec, ...]


def _size(spec: DTensorSpec) -> float:
    """The bytes of a rank's part, about."""
    return math.prod(spec.shape) * spec._meta.dtype.itemsize / spec.num_shards


def _cost(spec: DTensorSpec, mesh_dim: int, wanted: Placement) -> float:
    """About how many bytes a rank sends so that an operand lies as wanted along a dimension of the mesh."""
    now = spec.placements[mesh_dim]
    count = spec.mesh.size(mesh_dim)
    if now == wanted:
        return 0.0
    bytes_ = _size(spec)
    if now.is_replicate():
        return _CUT + (bytes_ * 1e-3 if wanted.is_partial() else 0.0)
    if now.is_partial():
        if wanted.is_partial():
            return math.inf
        return _MESSAGE + bytes_ * (count - 1) / count * (1 if wanted.is_shard() else 2)
    if wanted.is_partial():
        return math.inf
    if wanted.is_replicate():
        return _MESSAGE + bytes_ * (count - 1)
    return 2 * _MESSAGE + bytes_ * (count - 1) / count


def _possible(call: OpCall, way: Way, mesh_dim: int) -> bool:
    """Whether what has to be cut for this way is large enough for every rank to get some."""
    for spec, wanted in zip(call.operands, way.operands, strict=True):
        if isinstance(wanted, (Shard, _StridedShard)) and spec.placements[mesh_dim] != wanted:
            if wanted.dim >= spec.ndim or spec.shape[wanted.dim] < spec.mesh.size(mesh_dim):
                return False
    return True


def rule_of(func: Any) -> Rule:
    """The rule of an overload. Raises NotImplementedError where there is none."""
    ours = is_ours(func)
    rule = REGISTERED.get(func) or (RULES.get(func._opname) if ours else None)
    if rule is None and (ours or func.declaration is not None) and any(tag.name == "pointwise" for tag in func.tags):
        rule = pointwise.pointwise
    if rule is None:
        raise NotImplementedError(
            f"Operator {func} does not have a sharding strategy registered. Call it on full_tensor() or to_local(), or register "
            "a rule (flambeau.distributed.tensor.experimental.register_sharding)"
        )
    return rule


def _ways(call: OpCall) -> Iterable[Way]:
    rule = rule_of(call.func)
    yield Way((R,) * len(call.results), (R,) * len(call.operands))
    strided = {p.split_factor for p in map(call.now, range(len(call.operands))) if isinstance(p, _StridedShard)}
    for way in rule(call):
        yield way
        if len(strided) == 1 and not (is_ours(call.func) and call.func._opname in RESHAPES):
            yield _as_strided(way, *strided)


def _as_strided(way: Way, factor: int) -> Way:
    """The same way of parts that are cut strided: unless sizes change, it matters not which elements a rank has."""

    def each(placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
        return tuple(_StridedShard(p.dim, split_factor=factor) if isinstance(p, Shard) else p for p in placements)

    return Way(each(way.results), each(way.operands))


def propagate(call: OpCall, written: int | None) -> Sharding:
    """How a call is computed from parts.

    `written` is the operand that the call writes to, which has to stay where it is. Raises NotImplementedError for an operator
    without a rule, RuntimeError where a written operand would have to move.
    """
    mesh = call.operands[0].mesh
    chosen: list[Way] = []
    for mesh_dim in range(mesh.ndim):
        call.mesh_dim = mesh_dim
        best, least = None, math.inf
        for way in _ways(call):
            if written is not None:
                own = call.now(written)
                if way.operands[written] != own or (way.results and way.results[0] != own):
                    continue
            if not _possible(call, way, mesh_dim):
                continue
            cost = sum(_cost(spec, mesh_dim, wanted) for spec, wanted in zip(call.operands, way.operands, strict=True))
            if cost < least:
                best, least = way, cost
        if best is None:
            placed = [spec.placements for spec in call.operands]
            raise RuntimeError(
                f"{call.func}: an operator that writes its operand can't change where that lies, but from operands placed as "
                f"{placed} the result would lie otherwise; use the operator that makes a new tensor, or redistribute first"
            )
        chosen.append(best)
    operands = tuple(spec.with_placements([way.operands[index] for way in chosen]) for index, spec in enumerate(call.operands))
    results = tuple(
        DTensorSpec(mesh, tuple(way.results[index] for way in chosen), meta) for index, meta in enumerate(call.results)
    )
    return Sharding(operands, results)
