"""The collectives: what all processes of a group call together. Each returns None when it is done, or its Work with async_op.

Stands on groups and process_group; the package offers them on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import flambeau as torch
from flambeau.base.warn import deprecated
from flambeau.distributed import group_options as options
from flambeau.distributed.arguments import check_same_dtype, check_tensor, check_tensors, group_rank_of
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.reduce_ops import ReduceOp, supports_complex
from flambeau.distributed.registry import group_of, outside, warn_outside
from flambeau.distributed.work import Work

_REPLACED = "`torch.distributed.{}` is deprecated. Please use `torch.distributed.{}` instead."
_PRIVATE = "`torch.distributed.{}` is a private function and will be deprecated. Please use `torch.distributed.{}` instead."
_COALESCED = (
    "`torch.distributed.{}` will be deprecated. If you must use it, please revisit our documentation later at "
    "https://pytorch.org/docs/main/distributed.html#collective-functions"
)


def _check_complex(tensor: Any, op: Any, name: str) -> None:
    if tensor.dtype.is_complex and not supports_complex(op):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def _ended(work: Work, async_op: bool) -> Work | None:
    if _coalescing is not None:
        _coalescing.append(work)
        return work if async_op else None
    if async_op:
        return work
    work.wait()
    return None


def _with(kind: Any, async_op: bool, **attributes: Any) -> Any:
    made = kind()
    made.asyncOp = async_op
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


# ---------------------------------------------------------------------------------------------------- reductions


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Each process's tensor becomes the reduction of all, in place. Any dtype; bit operations on whole numbers only."""
    check_tensor(tensor, "tensor")
    if outside(group):
        return warn_outside("all_reduce")
    _check_complex(tensor, op, "all_reduce")
    return _ended(group_of(group).allreduce([tensor], _with(options.AllreduceOptions, async_op, reduceOp=op)), async_op)


@deprecated(_COALESCED.format("all_reduce_coalesced"))
def all_reduce_coalesced(tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """all_reduce of several tensors of one dtype."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    check_tensors(tensors, "tensor")
    check_same_dtype(tensors)
    if outside(group):
        return warn_outside("all_reduce_coalesced")
    if any(tensor.dtype.is_complex for tensor in tensors) and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    return _ended(
        group_of(group).allreduce_coalesced(tensors, _with(options.AllreduceCoalescedOptions, async_op, reduceOp=op)), async_op
    )


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The tensor of rank `dst` (in the world; group_dst: in the group) becomes the reduction of all."""
    if outside(group):
        return warn_outside("reduce")
    root = group_rank_of(group, dst, group_dst)
    check_tensor(tensor, "tensor")
    return _ended(group_of(group).reduce([tensor], _with(options.ReduceOptions, async_op, reduceOp=op, rootRank=root)), async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`output` becomes the reduction over all processes of input_list[rank]."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    check_same_dtype(output, input_list)
    if outside(group):
        return warn_outside("reduce_scatter")
    return _ended(
        group_of(group).reduce_scatter([output], [input_list], _with(options.ReduceScatterOptions, async_op, reduceOp=op)),
        async_op,
    )


def reduce_scatter_single(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`output` becomes the rank's part, along the first dimension, of the reduction of all `input`s."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    if outside(group):
        return warn_outside("reduce_scatter_tensor")
    return _ended(
        group_of(group)._reduce_scatter_base(output, input, _with(options.ReduceScatterOptions, async_op, reduceOp=op)), async_op
    )


@deprecated(_REPLACED.format("reduce_scatter_tensor", "reduce_scatter_single"))
def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The older name of reduce_scatter_single."""
    return reduce_scatter_single(output, input, op, group, async_op)


@deprecated(_PRIVATE.format("_reduce_scatter_base", "reduce_scatter_single"))
def _reduce_scatter_base(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    return reduce_scatter_single(output, input, op, group, async_op)


# ---------------------------------------------------------------------------------------------------- copies


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Every process's tensor becomes that of rank `src` (in the world; group_src: in the group)."""
    if outside(group):
        return warn_outside("broadcast")
    root = group_rank_of(group, src, group_src)
    check_tensor(tensor, "tensor")
    return _ended(group_of(group).broadcast([tensor], _with(options.BroadcastOptions, async_op, rootRank=root)), async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """tensor_list[r] becomes `tensor` of rank r, for all r. All have one shape and dtype."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    check_same_dtype(tensor_list, tensor)
    if outside(group):
        return warn_outside("all_gather")
    return _ended(group_of(group).allgather([tensor_list], [tensor], _with(options.AllgatherOptions, async_op)), async_op)


def all_gather_single(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """The inputs of all ranks one after another, or stacked, in `output_tensor`."""
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if outside(group):
        return warn_outside("all_gather_into_tensor")
    return _ended(
        group_of(group)._allgather_base(output_tensor, input_tensor, _with(options.AllgatherOptions, async_op)), async_op
    )


@deprecated(_REPLACED.format("all_gather_into_tensor", "all_gather_single"))
def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """The older name of all_gather_single."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


@deprecated(_PRIVATE.format("_all_gather_base", "all_gather_single"))
def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    return all_gather_single(output_tensor, input_tensor, group, async_op)


@deprecated(_COALESCED.format("all_gather_coalesced"))
def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """output_tensor_lists[r][i] becomes input_tensor_list[i] of rank r."""
    if outside(group):
        return warn_outside("all_gather_coalesced")
    check_tensors(input_tensor_list, "input_tensor_list")
    check_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for outputs in output_tensor_lists:
        check_tensors(outputs, "output_tensor_lists")
        check_same_dtype(outputs)
    return _ended(
        group_of(group).allgather_coalesced(output_tensor_lists, input_tensor_list, _with(options.AllgatherOptions, async_op)),
        async_op,
    )


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """At rank `dst` (default 0) gather_list[r] becomes `tensor` of rank r; others give no list."""
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
        check_same_dtype(tensor, gather_list)
    if outside(group):
        return warn_outside("gather")
    own = group_of(group)
    root = group_rank_of(group, dst, group_dst, 0)
    _only_at_root(own, root, gather_list, "gather_list", "destination")
    return _ended(
        own.gather([gather_list] if own.rank() == root else [], [tensor], _with(options.GatherOptions, async_op, rootRank=root)),
        async_op,
    )


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """`tensor` becomes scatter_list[rank] of rank `src` (default 0); others give no list."""
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
        check_same_dtype(tensor, scatter_list)
    if outside(group):
        return warn_outside("scatter")
    own = group_of(group)
    root = group_rank_of(group, src, group_src, 0)
    _only_at_root(own, root, scatter_list, "scatter_list", "source")
    return _ended(
        own.scatter(
            [tensor], [scatter_list] if own.rank() == root else [], _with(options.ScatterOptions, async_op, rootRank=root)
        ),
        async_op,
    )


def _only_at_root(group: ProcessGroup, root: int, listed: Any, name: str, kind: str) -> None:
    if group.rank() == root and not listed:
        raise ValueError(f"Argument ``{name}`` must be specified on {kind} rank.")
    if group.rank() != root and listed:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{kind} ranks.")


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Pieces of `input` along its first dimension go to the ranks in turn; those that come make `output`."""
    if outside(group):
        return warn_outside("all_to_all_single")
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_same_dtype(output, input)
    return _ended(
        group_of(group).alltoall_base(
            output, input, output_split_sizes or [], input_split_sizes or [], _with(options.AllToAllOptions, async_op)
        ),
        async_op,
    )


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """output_tensor_list[r] becomes input_tensor_list[rank] of rank r. Sizes may differ."""
    if outside(group):
        return warn_outside("all_to_all")
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    check_same_dtype(output_tensor_list, input_tensor_list)
    return _ended(
        group_of(group).alltoall(output_tensor_list, input_tensor_list, _with(options.AllToAllOptions, async_op)), async_op
    )


# ---------------------------------------------------------------------------------------------------- barriers


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None) -> Work | None:
    """Wait until all processes of the group have called this."""
    if outside(group):
        return warn_outside("barrier")
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    return _ended(group_of(group).barrier(_with(options.BarrierOptions, async_op, timeout=timeout)), async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """barrier that after the timeout raises RuntimeError with the first rank that is missing, or with all of them."""
    if outside(group):
        return warn_outside("monitored_barrier")
    own = group_of(group)
    if own.name() not in ("gloo", "mpi"):
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    return own.monitored_barrier(timeout, wait_all_ranks)


# ---------------------------------------------------------------------------------------------------- several at once

_coalescing: list[Work] | None = None


class _CoalescingManager:
    """The works of what was called inside of `_coalescing_manager`."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """Add one."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all."""
        for work in self.works:
            work.wait()


@contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool | None = False) -> Iterator[_CoalescingManager]:
    """What is called inside is begun at once and waited for at the end, or by the manager with async_ops."""
    global _coalescing
    manager = _CoalescingManager()
    before, _coalescing = _coalescing, manager.works
    try:
        yield manager
    finally:
        _coalescing = before
    if not async_ops:
        manager.wait()
