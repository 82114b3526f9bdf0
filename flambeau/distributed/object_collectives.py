"""Collectives of any objects that pickle takes, by collectives of their bytes. As with any pickle, the other processes must be
trusted. Stands on collectives and point_to_point; the package offers them on.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import flambeau as torch
from flambeau.distributed import collectives, point_to_point
from flambeau.distributed.arguments import group_rank_of
from flambeau.distributed.registry import get_rank, get_world_size, outside, warn_outside


def _packed(thing: Any) -> tuple[Any, Any]:
    """An object as bytes, and their number."""
    stream = io.BytesIO()
    pickle.Pickler(stream).dump(thing)
    data = torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)
    return data, torch.tensor([data.numel()])


def _unpacked(data: Any, size: int) -> Any:
    return pickle.loads(data[:size].numpy().tobytes())


def _widened(data: Any, size: int) -> Any:
    made = torch.zeros(size, dtype=torch.uint8)
    made[: data.numel()] = data
    return made


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """object_list[r] becomes `obj` of rank r."""
    if outside(group):
        return warn_outside("all_gather_object")
    data, size = _packed(obj)
    count = get_world_size(group)
    sizes = torch.empty(count, dtype=torch.int64)
    collectives.all_gather_single(sizes, size, group)
    largest = int(sizes.max())
    everyone = torch.empty(count, largest, dtype=torch.uint8)
    collectives.all_gather_single(everyone, _widened(data, largest), group)
    for rank in range(count):
        object_list[rank] = _unpacked(everyone[rank], int(sizes[rank]))
    return None


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, group_dst: int | None = None
) -> None:
    """At rank `dst` (default 0) object_gather_list[r] becomes `obj` of rank r."""
    if outside(group):
        return warn_outside("gather_object")
    root, own, count = group_rank_of(group, dst, group_dst, 0), get_rank(group), get_world_size(group)
    if own == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if own != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _packed(obj)
    sizes = torch.empty(count, dtype=torch.int64)
    collectives.all_gather_single(sizes, size, group)
    largest = int(sizes.max())
    everyone = [torch.empty(largest, dtype=torch.uint8) for _ in range(count)] if own == root else None
    collectives.gather(_widened(data, largest), everyone, group=group, group_dst=root)
    if everyone is not None and object_gather_list is not None:
        for rank in range(count):
            object_gather_list[rank] = _unpacked(everyone[rank], int(sizes[rank]))
    return None


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """The objects become those of rank `src` (default 0). All lists have one length."""
    if outside(group):
        return warn_outside("broadcast_object_list")
    root = group_rank_of(group, src, group_src, 0)
    sends = get_rank(group) == root
    pieces = [_packed(each) for each in object_list] if sends else []
    sizes = torch.cat([size for _, size in pieces]) if pieces else torch.empty(len(object_list), dtype=torch.int64)
    collectives.broadcast(sizes, group=group, group_src=root)
    data = torch.cat([piece for piece, _ in pieces]) if pieces else torch.empty(int(sizes.sum()), dtype=torch.uint8)
    collectives.broadcast(data, group=group, group_src=root)
    if not sends:
        _divide(data, sizes, object_list)
    return None


def _divide(data: Any, sizes: Any, objects: list[Any]) -> None:
    start = 0
    for index, size in enumerate(sizes.tolist()):
        objects[index] = _unpacked(data[start : start + size], size)
        start += size


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """scatter_object_output_list[0] becomes scatter_object_input_list[rank] of rank `src` (default 0)."""
    if outside(group):
        return warn_outside("scatter_object_list")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root, own, count = group_rank_of(group, src, group_src, 0), get_rank(group), get_world_size(group)
    pieces = []
    if own == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != count:
            raise ValueError("Expected argument scatter_object_input_list to have one object for each rank on the source rank.")
        pieces = [_packed(each) for each in scatter_object_input_list]
    sizes = torch.cat([size for _, size in pieces]) if pieces else torch.empty(count, dtype=torch.int64)
    collectives.broadcast(sizes, group=group, group_src=root)
    largest = int(sizes.max())
    made = torch.empty(largest, dtype=torch.uint8)
    collectives.scatter(made, [_widened(piece, largest) for piece, _ in pieces] or None, group=group, group_src=root)
    scatter_object_output_list[0] = _unpacked(made, int(sizes[own]))
    return None


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a rank."""
    if outside(group):
        return warn_outside("send_object_list")
    target = group_rank_of(group, dst, group_dst)
    pieces = [_packed(each) for each in object_list]
    point_to_point.send(torch.cat([size for _, size in pieces]), group=group, group_dst=target)
    point_to_point.send(torch.cat([piece for piece, _ in pieces]), group=group, group_dst=target)
    return None


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive as many objects as the list has; the rank in the world that sent them."""
    if outside(group):
        warn_outside("recv_object_list")
        return -1
    sizes = torch.empty(len(object_list), dtype=torch.int64)
    sender = point_to_point.recv(sizes, src, group, group_src=group_src)
    data = torch.empty(int(sizes.sum()), dtype=torch.uint8)
    point_to_point.recv(data, group=group, group_src=group_rank_of(group, sender, None))
    _divide(data, sizes, object_list)
    return sender


__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]
