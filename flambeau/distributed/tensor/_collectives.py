"""One step of a redistribution on local tensors: what a single collective along one dimension of a mesh does.

Parts are cut as torch.chunk does, so that the last ones may be shorter, or empty. Stands on `copying_collectives` and
`distributed_c10d`; used by `_redistribute` and `_api`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed import copying_collectives as functional
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed import watching
from flambeau.distributed.tensor.placement_types import Shard

__all__ = ["all_gather_parts", "broadcast_whole", "cut", "exchange_parts", "reduce", "reduce_scatter_parts", "scatter_parts"]


def _extent(size: int, count: int) -> int:
    """The size of a full part."""
    return -(-size // count)


def _sizes(size: int, count: int) -> list[int]:
    return [Shard.local_shard_size_and_offset(size, count, rank)[0] for rank in range(count)]


def _parts(tensor: torch.Tensor, dim: int, count: int) -> list[torch.Tensor]:
    places = [Shard.local_shard_size_and_offset(tensor.size(dim), count, rank) for rank in range(count)]
    return [tensor.narrow(dim, start, length) for length, start in places]


def _padded(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor, contiguous and filled up with zeros to a size along a dimension, so that every rank sends as much."""
    missing = size - tensor.size(dim)
    if missing == 0:
        return tensor.contiguous()
    shape = list(tensor.shape)
    shape[dim] = missing
    return torch.cat([tensor, tensor.new_zeros(shape)], dim)


def cut(tensor: torch.Tensor, dim: int, count: int, rank: int) -> torch.Tensor:
    """A rank's part, in memory of its own."""
    return _parts(tensor, dim, count)[rank].clone(memory_format=torch.contiguous_format)


def all_gather_parts(local: torch.Tensor, dim: int, size: int, group: Any) -> torch.Tensor:
    """The whole tensor, of `size` along `dim`, from every rank's part."""
    count = c10d.get_world_size(group)
    full = _extent(size, count)
    sent = _padded(local, dim, full)
    received = functional.all_gather_single(sent, 0, group).view(count, *sent.shape)
    if dim == 0 and full * count == size:
        return received.view(size, *sent.shape[1:])
    return torch.cat([part.narrow(dim, 0, length) for part, length in zip(received, _sizes(size, count), strict=True)], dim)


def reduce(local: torch.Tensor, op: str, group: Any) -> torch.Tensor:
    """The reduction of every rank's tensor ("sum", "avg", "product", "max", "min"), on every rank."""
    result: torch.Tensor = functional.all_reduce(local, op, group)
    return result


def reduce_scatter_parts(local: torch.Tensor, dim: int, op: str, group: Any) -> torch.Tensor:
    """This rank's part along `dim` of the reduction of every rank's tensor."""
    count, rank = c10d.get_world_size(group), c10d.get_rank(group)
    size = local.size(dim)
    full = _extent(size, count)
    sent = torch.cat([_padded(part, dim, full).unsqueeze(0) for part in _parts(local, dim, count)]).contiguous()
    received = functional.reduce_scatter_single(sent, op, 0, group).squeeze(0)
    return received.narrow(dim, 0, _sizes(size, count)[rank]).contiguous()


@watching.functional("shard_dim_alltoall", "_dtensor")
def exchange_parts(local: torch.Tensor, source: int, target: int, size: int, group: Any) -> torch.Tensor:
    """From a part along dimension `source`, which is `size` in the whole tensor, to a part along dimension `target`."""
    count, rank = c10d.get_world_size(group), c10d.get_rank(group)
    sent = [part.contiguous() for part in _parts(local, target, count)]
    shape = list(sent[rank].shape)
    received = [local.new_empty([*shape[:source], length, *shape[source + 1 :]]) for length in _sizes(size, count)]
    outgoing = torch.cat([part.reshape(-1) for part in sent])
    incoming = local.new_empty(sum(part.numel() for part in received))
    c10d.all_to_all_single(incoming, outgoing, [part.numel() for part in received], [part.numel() for part in sent], group=group)
    pieces = incoming.split([part.numel() for part in received])
    return torch.cat([piece.view(part.shape) for piece, part in zip(pieces, received, strict=True)], source)


def broadcast_whole(tensor: torch.Tensor, group: Any, source: int) -> torch.Tensor:
    """The tensor of the group's rank `source`."""
    result = tensor.clone(memory_format=torch.contiguous_format)
    c10d.broadcast(result, src=c10d.get_global_rank(group, source), group=group)
    return result


def scatter_parts(tensor: torch.Tensor, dim: int, group: Any, source: int) -> torch.Tensor:
    """This rank's part along `dim` of the tensor of the group's rank `source`."""
    count, rank = c10d.get_world_size(group), c10d.get_rank(group)
    full = _extent(tensor.size(dim), count)
    sent = [_padded(part, dim, full) for part in _parts(tensor, dim, count)]
    received = sent[rank].new_empty(sent[rank].shape)
    c10d.scatter(received, sent if rank == source else None, src=c10d.get_global_rank(group, source), group=group)
    return received.narrow(dim, 0, _sizes(tensor.size(dim), count)[rank]).contiguous()
