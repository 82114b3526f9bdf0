"""One parameter of a fully sharded module: its part as a DTensor, and the whole while the module runs.

The whole is one nn.Parameter for the life of the module, whose memory is given back between uses: what autograd saved of it in
the forward is the same storage, filled again for the backward. Used by `group`.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.core.autograd.engine import run_post_accumulate_hooks
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from flambeau.distributed.tensor.placement_types import Placement, Replicate, Shard, _StridedShard

__all__ = ["ShardedParameter"]


class ShardedParameter:
    """A parameter cut along one dimension over the ranks of a group.

    Args:
        owners: the modules that have it, with its name there: more than one where modules share it.
        mesh: of one dimension (cut), or of two (copies, cut).
        dim: the dimension that is cut.
        dtype: what it is computed with; None: its own.
    """

    def __init__(self, owners: list[tuple[nn.Module, str]], mesh: DeviceMesh, dim: int, dtype: torch.dtype | None) -> None:
        self.owners, self.mesh, self.dim, self.dtype = owners, mesh, dim, dtype
        parameter = self.registered
        self.divided: DTensorSpec | None = parameter._spec if isinstance(parameter, DTensor) else None
        whole = parameter._local_tensor if isinstance(parameter, DTensor) else parameter.detach()
        if not whole.is_contiguous():
            raise NotImplementedError(
                f"FSDP does not support non-contiguous parameters yet: param.shape={whole.shape} param.stride()={whole.stride()}"
            )
        self.shape = whole.shape
        self.count, self.rank = mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
        if dim and self.shape[dim] % self.count:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {dim}: {tuple(self.shape)} (world size: {self.count})"
            )
        #: The length of this rank's part along the dimension, and where it begins.
        self.place = Shard.local_shard_size_and_offset(self.shape[dim], self.count, self.rank)
        part = whole.narrow(dim, self.place[1], self.place[0]).clone(memory_format=torch.contiguous_format)
        self.full_shape = parameter.shape
        self.spec = self._sharded_spec(parameter.dtype)
        self.requires_grad = parameter.requires_grad
        self.sharded = nn.Parameter(self._as_dtensor(part), requires_grad=self.requires_grad)
        self.whole: nn.Parameter | None = None
        self._kept: torch.Tensor | None = None  # gradients of the whole in a dtype that they aren't computed in
        self.register(self.sharded)

    # Where it is registered

    @property
    def registered(self) -> Any:
        module, name = self.owners[0]
        return module._parameters[name]

    def register(self, parameter: nn.Parameter) -> None:
        for module, name in self.owners:
            module._parameters[name] = parameter

    def refresh(self) -> None:
        """Takes what is registered for the part: loading and moving modules may have replaced it."""
        found = self.registered
        if found is not self.sharded and found is not self.whole:
            if not isinstance(found, DTensor) or found._spec.placements != self.spec.placements:
                raise RuntimeError(
                    f"parameter {self.owners[0][1]} of a fully sharded module was replaced by one that isn't sharded alike: "
                    f"{type(found).__name__} of {tuple(found.shape)}; assign DTensors with the placements {self.spec.placements}"
                )
            self.sharded = found

    # The part

    def _sharded_spec(self, dtype: torch.dtype) -> DTensorSpec:
        placements: list[Placement] = [Replicate()] * (self.mesh.ndim - 1) + [Shard(self.dim)]
        mesh = self.mesh
        if self.divided is not None:
            mesh = _joined(self.mesh, self.divided.mesh)
            inner = [i for i, placement in enumerate(self.divided.placements) if placement.is_shard(self.dim)]
            if inner:
                factor = math.prod(self.divided.mesh.size(i) for i in inner)
                placements[-1] = _StridedShard(self.dim, split_factor=factor)
            placements += self.divided.placements
        return DTensorSpec(mesh, tuple(placements), TensorMeta(self.full_shape, contiguous_stride(self.full_shape), dtype))

    def _as_dtensor(self, part: torch.Tensor) -> DTensor:
        meta = self.spec._meta._replace(dtype=part.dtype)
        return DTensor(part, DTensorSpec(self.spec.mesh, self.spec.placements, meta), requires_grad=False)

    @property
    def extent(self) -> int:
        """The elements that every rank sends: those of a full part."""
        shape = list(self.shape)
        shape[self.dim] = -(-shape[self.dim] // self.count)
        return math.prod(shape)

    def padded_part(self) -> torch.Tensor:
        """The part, flat, in the dtype that is computed with, filled up to the extent."""
        part = self.sharded.detach()._local_tensor.reshape(-1)
        if self.dtype is not None and part.dtype != self.dtype:
            part = part.to(self.dtype)
        missing = self.extent - part.numel()
        return part if missing == 0 else torch.cat([part, part.new_zeros(missing)])

    # The whole

    def fill(self, parts: torch.Tensor) -> None:
        """Fills the whole from all ranks' padded parts, (ranks, extent)."""
        numel = math.prod(self.shape)
        if self.dim == 0:
            flat = parts.reshape(-1)[:numel].view(self.shape)
        else:
            shape = list(self.shape)
            shape[self.dim] //= self.count
            flat = torch.cat([part.view(shape) for part in parts], self.dim)
        if self.whole is None:
            # Not a view of what was received: its memory is given back by itself.
            self.whole = self._as_parameter(flat.clone(memory_format=torch.contiguous_format))
            return
        local = self._local_whole()
        storage = local.untyped_storage()
        if storage.nbytes() == 0:
            storage.resize_(numel * local.element_size())
        local.data.copy_(flat)  # `.data`: what autograd saved of it is valid again, its version stays

    def _as_parameter(self, local: torch.Tensor) -> nn.Parameter:
        if self.divided is None:
            return nn.Parameter(local, requires_grad=self.requires_grad)
        meta = self.divided._meta._replace(dtype=local.dtype)
        spec = DTensorSpec(self.divided.mesh, self.divided.placements, meta)
        return nn.Parameter(DTensor(local, spec, requires_grad=False), requires_grad=self.requires_grad)

    def _local_whole(self) -> torch.Tensor:
        assert self.whole is not None
        return self.whole._local_tensor if isinstance(self.whole, DTensor) else self.whole

    def free(self) -> None:
        """Gives back the whole's memory."""
        if self.whole is not None:
            self._local_whole().untyped_storage().resize_(0)

    # Gradients

    def keep_gradient(self, dtype: torch.dtype) -> None:
        """Adds the whole's gradient to those that were kept, in the dtype that they are reduced in."""
        if self.whole is not None and self.whole.grad is not None and self.whole.grad.dtype != dtype:
            gradient = self.take_gradient()
            self._kept = None if gradient is None else gradient.to(dtype)

    def take_gradient(self) -> torch.Tensor | None:
        """The whole's gradient, with those that were kept, which it has no longer."""
        kept, self._kept = self._kept, None
        gradient = self._taken()
        return gradient if kept is None else kept if gradient is None else kept + gradient

    def _taken(self) -> torch.Tensor | None:
        if self.whole is None or self.whole.grad is None:
            return None
        gradient = self.whole.grad
        self.whole.grad = None
        if isinstance(gradient, DTensor):
            assert self.divided is not None
            placements = [Replicate() if p.is_partial() else p for p in self.divided.placements]
            return gradient.redistribute(placements=placements)._local_tensor
        return gradient

    def padded_gradient(self, gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A whole gradient as every rank's padded part, (ranks, extent)."""
        gradient = gradient if gradient.dtype == dtype else gradient.to(dtype)
        full = -(-self.shape[self.dim] // self.count)
        missing = full * self.count - self.shape[self.dim]
        if missing:
            shape = list(self.shape)
            shape[self.dim] = missing
            gradient = torch.cat([gradient, gradient.new_zeros(shape)], self.dim)
        if self.dim == 0:
            return gradient.reshape(self.count, -1)
        return torch.stack([part.reshape(-1) for part in gradient.chunk(self.count, self.dim)])

    def add_gradient(self, reduced: torch.Tensor) -> None:
        """Adds this rank's padded part of the reduced gradient to the part's, and runs the part's hooks for that."""
        shape = list(self.shape)
        shape[self.dim] = self.place[0]
        part = reduced[: math.prod(shape)].view(shape)
        dtype = self.sharded.dtype
        gradient = self._as_dtensor(part.to(dtype) if part.dtype != dtype else part.clone())
        if self.sharded.grad is None:
            self.sharded.grad = gradient
        else:
            self.sharded.grad += gradient
        extras = self.sharded._node.extras if self.sharded._node is not None else None
        if extras is not None:
            run_post_accumulate_hooks(self.sharded, extras)


def _joined(outer: DeviceMesh, inner: DeviceMesh) -> DeviceMesh:
    """The mesh of both meshes' dimensions, which are of one root."""
    root = inner._get_root_mesh()
    if outer._get_root_mesh() != root:
        raise ValueError(
            f"FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh but got: "
            f"DP's global mesh: {outer._get_root_mesh()}\nTP/EP's global mesh: {root}"
        )
    names = (*(outer.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
    mesh = inner._derived((*outer._axes, *inner._axes), names)
    mesh._groups = [*outer.get_all_groups(), *inner.get_all_groups()]
    return mesh
