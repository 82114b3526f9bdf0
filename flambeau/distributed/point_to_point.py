"""Messages from one process to another. Stands on groups and process_group; the package offers them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.naming import called
from flambeau.distributed.arguments import check_tensor, group_rank_of, refuse_self, world_rank_of
from flambeau.distributed.registry import group_of, outside, warn_outside
from flambeau.distributed.work import Work


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Begin to send a tensor to rank `dst` (in the world; group_dst: in the group); it must not change until that is done."""
    target = None if outside(group) else group_rank_of(group, dst, group_dst)
    check_tensor(tensor, "tensor")
    if target is None:
        return warn_outside("isend")
    refuse_self(group, target, "destination")
    return group_of(group).send([tensor], target, tag)


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work | None:
    """Begin to receive a tensor from rank `src`; None: from whichever rank sends first."""
    check_tensor(tensor, "tensor")
    if outside(group):
        return warn_outside("irecv")
    if src is None and group_src is None:
        return group_of(group).recv_anysource([tensor], tag)
    source = group_rank_of(group, src, group_src)
    refuse_self(group, source, "source")
    return group_of(group).recv([tensor], source, tag)


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to a rank, and wait until it may change."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor; the rank in the world that sent it, -1 outside of the group."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    if src is None and group_src is None:
        return world_rank_of(group, work.source_rank())
    return world_rank_of(group, group_rank_of(group, src, group_src))


@called("distributed.distributed_c10d", "P2POp")
class P2POp:
    """isend or irecv with its arguments, for batch_isend_irecv. Raises ValueError for another function."""

    def __init__(
        self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0, group_peer: int | None = None
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.group_peer = group_rank_of(group, peer, group_peer)
        self.peer = world_rank_of(group, self.group_peer)

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__} with peer {self.peer}, {list(self.tensor.shape)}, {self.tensor.dtype})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin all of these, in order."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if len({id(op.group) for op in p2p_op_list}) > 1:
        raise ValueError("All ops need to use the same group.")
    works = []
    for op in p2p_op_list:
        work = op.op(op.tensor, group=op.group, tag=op.tag, **{"group_dst" if op.op is isend else "group_src": op.group_peer})
        if work is not None:
            works.append(work)
    return works
