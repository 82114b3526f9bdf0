"""What a DTensor is apart from its data: the mesh, a placement per dimension of it, and the whole tensor's shape, stride, dtype.

Stands on `device_mesh` and `placement_types`; used by the whole room.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.placement_types import Placement, Replicate, Shard, _StridedShard

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """The whole tensor's shape, stride (in elements) and dtype."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclasses.dataclass(frozen=True)
class DTensorSpec:
    """A value: where the parts of a tensor lie. Equal specs are laid out alike."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "placements", tuple(self.placements))

    def __reduce__(self) -> tuple[Any, ...]:
        return DTensorSpec, (self.mesh, self.placements, self.tensor_meta)  # for torch.load(weights_only=True)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def _meta(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set")
        return self.tensor_meta

    @property
    def shape(self) -> torch.Size:
        """The whole tensor's shape."""
        return self._meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The whole tensor's stride."""
        return self._meta.stride

    @property
    def ndim(self) -> int:
        """The tensor's number of dimensions."""
        return len(self._meta.shape)

    @property
    def num_shards(self) -> int:
        """Into how many parts the tensor is cut."""
        return math.prod(self.mesh.size(i) for i, placement in enumerate(self.placements) if placement.is_shard())

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor, the mesh dimension that cuts it, or -1."""
        result = [-1] * self.ndim
        for i, placement in enumerate(self.placements):
            if isinstance(placement, (Shard, _StridedShard)):
                result[placement.dim] = i
        return result

    @property
    def sums(self) -> list[int]:
        """The mesh dimensions along which the parts are still to be reduced."""
        return [i for i, placement in enumerate(self.placements) if placement.is_partial()]

    def is_replicated(self) -> bool:
        """Whether every rank has the whole tensor."""
        return all(placement.is_replicate() for placement in self.placements)

    def is_sharded(self) -> bool:
        """Whether the tensor is cut."""
        return any(placement.is_shard() for placement in self.placements)

    def with_placements(self, placements: Sequence[Placement]) -> DTensorSpec:
        """The same tensor placed otherwise."""
        return DTensorSpec(self.mesh, tuple(placements), self.tensor_meta)

    def __str__(self) -> str:
        placed = "".join(str(placement) for placement in self.placements)
        if self.tensor_meta is None:
            return f"Spec(unknown shape({placed}))"
        dtype = torch.utils._dtype_abbrs.dtype_abbrs.get(self.tensor_meta.dtype, str(self.tensor_meta.dtype))
        return f"Spec({dtype}{list(self.tensor_meta.shape)}({placed}))"


def normalized(placements: Sequence[Placement] | None, ndim: int, mesh: DeviceMesh) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the front, or replicas where none are given.

    Raises ValueError where partial placements of several kinds are mixed.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    result: list[Placement] = []
    for placement in placements:
        if isinstance(placement, Shard) and placement.dim < 0:
            placement = Shard(placement.dim + ndim)
        elif isinstance(placement, _StridedShard) and placement.dim < 0:
            placement = _StridedShard(placement.dim + ndim, split_factor=placement.split_factor)
        result.append(placement)
    kinds = {getattr(placement, "reduce_op", None) for placement in result if placement.is_partial()}
    if len(kinds) > 1:
        raise ValueError(
            f"Mixing different Partial reduce types is not supported: {sorted(map(str, kinds))} in {tuple(result)}; "
            "reduce one of them first"
        )
    return tuple(result)


def nesting(placements: Sequence[Placement]) -> list[tuple[int, int]]:
    """(mesh dimension, tensor dimension) of the cuts, in the order in which they are made.

    Cuts are made from the mesh's first dimension to its last, but strided ones after the others of their dimension: that is what
    a strided cut is (what FSDP cuts further after tensor parallelism did).
    """
    plain = [(i, p.dim) for i, p in enumerate(placements) if isinstance(p, Shard)]
    return plain + [(i, p.dim) for i, p in enumerate(placements) if isinstance(p, _StridedShard)]


def local_shape_and_offset(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], coordinate: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the part at a place of the mesh (this process's by default), and where it begins in the whole tensor."""
    place: Any = coordinate if coordinate is not None else mesh.get_coordinate()
    if place is None:
        return (0,), (0,) * len(shape)
    local, offset = list(shape), [0] * len(shape)
    for i, dim in nesting(placements):
        if dim >= len(local):
            raise ValueError(f"Sharding dim {dim} greater than tensor ndim {len(local)}")
        size, start = Shard.local_shard_size_and_offset(local[dim], mesh.size(i), place[i])
        local[dim] = size
        offset[dim] += start
    return tuple(local), tuple(offset)


def contiguous_stride(shape: Sequence[int]) -> tuple[int, ...]:
    """The stride of a contiguous tensor of this shape."""
    return tuple(math.prod(max(size, 1) for size in shape[i + 1 :]) for i in range(len(shape)))


def whole_shape_and_stride(local: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[list[int], list[int]]:
    """The whole tensor's shape and stride, if every rank's part is like this one."""
    shape, stride = list(local.shape), list(local.stride())
    for i, placement in enumerate(placements):
        if isinstance(placement, (Shard, _StridedShard)):
            dim, count = placement.dim, mesh.size(i)
            if dim < 0:
                raise AssertionError("Shard placements should have negative dims normalized in the user-facing APIs")
            if dim >= local.ndim:
                raise AssertionError(f"Sharding dim {dim} greater than tensor ndim {local.ndim} for placement number {i}.")
            own = stride[dim]
            shape[dim] *= count
            stride = [step * count if k != dim and step >= own else step for k, step in enumerate(stride)]
    return shape, stride
