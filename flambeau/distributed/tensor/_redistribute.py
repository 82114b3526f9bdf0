"""From one placement to another: which collectives, in which order, and the gradient of it.

For each dimension of the tensor there is a list of mesh dimensions that cut it, in order of the cuts. Those that the old and the
new list begin with alike stay as they are; the others are undone from the last to the first, and the new ones made from the
first to the last. A cut that may move right away (its new place is next in the new list) goes by all-to-all, and a reduction
whose result is cut by reduce-scatter. Every rank derives the same steps, for they depend on sizes and placements alone.

Stands on `_collectives` and `_dtensor_spec`; used by `_api` and `_dispatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flambeau as torch
from flambeau.distributed.tensor import _collectives as collectives
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, nesting
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _NormPartial, _StridedShard

if TYPE_CHECKING:
    from flambeau.distributed.tensor._api import DTensor

__all__ = ["Redistribute", "redistribute_local_tensor"]


class _Steps:
    """A local tensor on its way, with the cuts that are made at this moment."""

    def __init__(self, local: torch.Tensor, current: DTensorSpec, target: DTensorSpec) -> None:
        self.local, self.mesh, self.shape = local, current.mesh, current.shape
        self.placements = list(current.placements)
        self.target = target.placements
        self.cuts: dict[int, list[int]] = {}
        for i, dim in nesting(self.placements):
            self.cuts.setdefault(dim, []).append(i)
        self.wanted: dict[int, list[int]] = {}
        for i, dim in nesting(self.target):
            self.wanted.setdefault(dim, []).append(i)
        self.place = self.mesh.get_coordinate() or ()

    def _size_before(self, dim: int, i: int) -> int:
        """The size along a tensor dimension of what mesh dimension `i`, the last that cuts it, cuts."""
        size = self.shape[dim]
        for outer in self.cuts.get(dim, []):
            if outer == i:
                break
            size = Shard.local_shard_size_and_offset(size, self.mesh.size(outer), self.place[outer])[0]
        return size

    def _goes_next(self, i: int) -> int | None:
        """The tensor dimension that mesh dimension `i` is to cut, if the cuts before it are made and no others are."""
        placement = self.target[i]
        if not isinstance(placement, (Shard, _StridedShard)):
            return None
        wanted, made = self.wanted[placement.dim], self.cuts.get(placement.dim, [])
        return placement.dim if made == wanted[: wanted.index(i)] else None

    def _keeps(self, dim: int, i: int) -> bool:
        """Whether this cut, and all before it, are in the target as well."""
        made, wanted = self.cuts[dim], self.wanted.get(dim, [])
        end = made.index(i) + 1
        return made[:end] == wanted[:end] and self.placements[i] == self.target[i]

    def undo_cuts(self) -> None:
        for i, dim in reversed(nesting(self.placements)):
            if self._keeps(dim, i):
                continue
            group, size = self.mesh.get_group(i), self._size_before(dim, i)
            self.cuts[dim].remove(i)
            after = self._goes_next(i)
            if after is not None and after != dim:
                self.local = collectives.exchange_parts(self.local, dim, after, size, group)
                self.cuts.setdefault(after, []).append(i)
                self.placements[i] = self.target[i]
            else:
                self.local = collectives.all_gather_parts(self.local, dim, size, group)
                self.placements[i] = Replicate()

    def reduce(self, at_once: bool) -> None:
        """Reduce what is partial and shall not stay so; `at_once`: only where the result may be cut right away."""
        for i, placement in enumerate(self.placements):
            if not isinstance(placement, Partial) or placement == self.target[i]:
                continue
            after, group = self._goes_next(i), self.mesh.get_group(i)
            if after is None and at_once:
                continue
            power = placement.norm_type if isinstance(placement, _NormPartial) else None
            if power is not None:
                self.local = self.local.abs() ** power
            if after is not None:
                self.local = collectives.reduce_scatter_parts(self.local, after, placement.reduce_op, group)
                self.cuts.setdefault(after, []).append(i)
                self.placements[i] = self.target[i]
            else:
                self.local = collectives.reduce(self.local, placement.reduce_op, group)
                self.placements[i] = Replicate()
            if power is not None:
                self.local = self.local ** (1 / power)

    def make_cuts(self) -> None:
        for i, dim in nesting(self.target):
            if self.placements[i] != self.target[i]:
                self.local = collectives.cut(self.local, dim, self.mesh.size(i), self.place[i])
                self.cuts.setdefault(dim, []).append(i)
                self.placements[i] = self.target[i]
        for i, placement in enumerate(self.target):
            if isinstance(placement, Partial) and self.placements[i] != placement:
                self.local = _share(self.local, placement, self.mesh.size(i))
                self.placements[i] = placement


def _share(whole: torch.Tensor, placement: Partial, count: int) -> torch.Tensor:
    """This rank's part of a tensor that all have, such that the parts' reduction is the tensor."""
    if isinstance(placement, _NormPartial):
        return whole / count ** (1 / placement.norm_type)
    if placement.reduce_op == "sum":
        return whole / count
    if placement.reduce_op in ("avg", "max", "min"):
        return whole
    raise NotImplementedError(f"a whole tensor can't be made {placement}; reduce it where it arises")


def redistribute_local_tensor(local: torch.Tensor, current: DTensorSpec, target: DTensorSpec) -> torch.Tensor:
    """This rank's part under the placements of `target`, from its part under those of `current`.

    Shapes are those of the parts, the dtype stays. Every rank of the mesh has to call it. NotImplementedError between meshes.
    """
    if current.mesh != target.mesh:
        raise NotImplementedError("Cross device mesh comm not supported yet!")
    if current.placements == target.placements or not current.mesh._is_current_rank_part_of_mesh():
        return local
    steps = _Steps(local, current, target)
    steps.reduce(at_once=True)
    steps.undo_cuts()
    steps.reduce(at_once=False)
    steps.make_cuts()
    return steps.local


def gradient_placements(placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """How a gradient is placed by default: as its tensor, but whole where that is partial."""
    return tuple(Replicate() if placement.is_partial() else placement for placement in placements)


class Redistribute(torch.autograd.Function):
    """A DTensor with other placements; its gradient goes back to those that the input has."""

    @staticmethod
    def forward(
        ctx: Any,
        input: DTensor,
        placements: tuple[Placement, ...],
        forward_dtype: torch.dtype | None = None,
        backward_dtype: torch.dtype | None = None,
    ) -> DTensor:
        ctx.placements, ctx.dtype, ctx.backward_dtype = input.placements, input.dtype, backward_dtype
        return _redistributed(input, placements, forward_dtype)

    @staticmethod
    def backward(ctx: Any, gradient: DTensor) -> tuple[DTensor, None, None, None]:  # type: ignore[override]
        # A gradient may stay partial where its tensor was; making a whole one partial would only scatter it.
        placements = tuple(
            now if now.is_partial() and then.is_partial() else Replicate() if then.is_partial() else then
            for now, then in zip(gradient.placements, ctx.placements, strict=True)
        )
        result = Redistribute.apply(gradient, placements, ctx.backward_dtype or ctx.dtype, None)
        return (result if result.dtype == ctx.dtype else result.to(ctx.dtype)), None, None, None


def _redistributed(input: DTensor, placements: tuple[Placement, ...], dtype: torch.dtype | None) -> DTensor:
    local, current = input._local_tensor, input._spec
    if dtype is not None and dtype != local.dtype:
        local = local.to(dtype)
    target = current.with_placements(placements)
    if dtype is not None:
        target = DTensorSpec(current.mesh, placements, current._meta._replace(dtype=dtype))
    moved = redistribute_local_tensor(local, current, target)
    return type(input)(moved.view_as(moved) if moved is input._local_tensor else moved, target, requires_grad=False)
