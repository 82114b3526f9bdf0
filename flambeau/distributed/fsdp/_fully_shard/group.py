"""The parameters of one fully sharded module, gathered in one all-gather and their gradients reduced in one reduce-scatter.

Stands on `parameter` and the collectives; used by `state`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.fsdp._fully_shard.parameter import ShardedParameter
from flambeau.distributed.fsdp.api import MixedPrecisionPolicy

__all__ = ["ParameterGroup"]


class ParameterGroup:
    """Parameters that are whole together.

    Args:
        mesh: of one dimension (cut), or of two (copies, cut).
        policy: the dtypes of computation and reduction.
    """

    def __init__(self, parameters: list[ShardedParameter], mesh: DeviceMesh, policy: MixedPrecisionPolicy) -> None:
        self.parameters, self.mesh, self.policy = parameters, mesh, policy
        self.shards = mesh.get_group(mesh.ndim - 1)
        self.copies = mesh.get_group(0) if mesh.ndim == 2 else None
        self.reduce_gradients = True
        self.all_reduce_gradients = True
        self.divide_factor: float | None = None
        self.is_whole = False
        self._unreduced: dict[int, torch.Tensor] = {}

    @torch.no_grad()
    def unshard(self) -> None:
        """Makes the parameters whole and registers them, unless they are."""
        if self.is_whole:
            return
        for parameter in self.parameters:
            parameter.refresh()
        padded = [parameter.padded_part() for parameter in self.parameters]
        for same in _by_dtype(padded):
            parts = [padded[i] for i in same]
            sent = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
            count = self.mesh.size(self.mesh.ndim - 1)
            received = sent.new_empty((count, sent.numel()))
            c10d.all_gather_single(received, sent, group=self.shards)
            start = 0
            for i in same:
                parameter = self.parameters[i]
                parameter.fill(received[:, start : start + parameter.extent])
                start += parameter.extent
        for parameter in self.parameters:
            assert parameter.whole is not None
            parameter.register(parameter.whole)
        self.is_whole = True

    def reshard(self) -> None:
        """Registers the parts, and gives back the wholes' memory."""
        if not self.is_whole:
            return
        for parameter in self.parameters:
            parameter.register(parameter.sharded)
            parameter.free()
        self.is_whole = False

    @torch.no_grad()
    def reduce(self) -> None:
        """Reduces the wholes' gradients over the ranks, and adds each rank's part to its parameter's.

        With `reduce_gradients` off they stay where they are, or are summed in the dtype that they are reduced in; with
        `all_reduce_gradients` off they are summed over the shards, and over the copies when it is on again.
        """
        if not self.reduce_gradients:
            for parameter in self.parameters if self.policy.reduce_dtype is not None else ():
                parameter.keep_gradient(self.policy.reduce_dtype)  # type: ignore[arg-type]
            return
        found = [(i, gradient) for i, p in enumerate(self.parameters) if (gradient := p.take_gradient()) is not None]
        for same in _by_dtype([gradient for _, gradient in found]):
            self._reduce_alike([found[k] for k in same])

    def _reduce_alike(self, found: list[tuple[int, torch.Tensor]]) -> None:
        dtype = self.policy.reduce_dtype or found[0][1].dtype
        padded = [self.parameters[i].padded_gradient(gradient, dtype) for i, gradient in found]
        sent = torch.cat(padded, 1) if len(padded) > 1 else padded[0].contiguous()
        received = sent.new_empty(sent.shape[1])
        factor = self.divide_factor
        count = self.mesh.size() if factor is None else factor
        c10d.reduce_scatter_single(received, sent.view(-1), op=c10d.ReduceOp.SUM, group=self.shards)
        start = 0
        for i, _ in found:
            extent = self.parameters[i].extent
            self._keep(i, received[start : start + extent], count)
            start += extent

    def _keep(self, i: int, reduced: torch.Tensor, count: float) -> None:
        if self.copies is not None:
            before = self._unreduced.pop(i, None)
            reduced = reduced if before is None else reduced + before
            if not self.all_reduce_gradients:
                self._unreduced[i] = reduced.clone()
                return
            reduced = reduced.contiguous()
            c10d.all_reduce(reduced, group=self.copies)
        self.parameters[i].add_gradient(reduced / count if count != 1 else reduced)

    def drop_gradients(self) -> None:
        """Forgets what isn't reduced."""
        self._unreduced.clear()
        for parameter in self.parameters:
            parameter.take_gradient()


def _by_dtype(tensors: list[torch.Tensor]) -> list[list[int]]:
    """The indices of tensors, those of one dtype together, as one message has one."""
    groups: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(i)
    return list(groups.values())
