"""Collectives that return their results, plain tensors, and leave their arguments alone.

They are waited for before they return. `group` is a ProcessGroup, its name, a mesh of one dimension, a mesh and a dimension of
it, or a list of ranks. Those with _autograd are differentiable. Stands on collectives; `_operators` makes operators of them,
`_functional_collectives` gives them to programs, `tensor._collectives` moves parts of DTensors by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.distributed import _operators, collectives
from flambeau.distributed.groups import new_group
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.reduce_ops import ReduceOp
from flambeau.distributed.registry import get_default_group, named_group
from flambeau.distributed.watching import functional

_OPS = {name.lower(): getattr(ReduceOp, name) for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")}
_lists: dict[tuple[ProcessGroup, tuple[int, ...]], ProcessGroup] = {}


def group_of(group: Any, tag: str = "") -> ProcessGroup:
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        return named_group(group)
    if isinstance(group, (list, tuple)) and all(isinstance(rank, int) for rank in group):
        world = get_default_group()
        if sorted(group) == list(range(world.size())):
            return world
        key = world, tuple(group)
        if key not in _lists:
            _lists[key] = new_group(list(group), use_local_synchronization=True)
        return _lists[key]
    if hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _op(name: str) -> Any:
    if name.lower() not in _OPS:
        raise ValueError(f"Unsupported reduce operation: {name}")
    return _OPS[name.lower()]


@functional("all_reduce")
def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """The reduction of all ranks' tensors."""
    made = self.detach().clone(memory_format=torch.contiguous_format)
    collectives.all_reduce(made, _op(reduceOp), group_of(group, tag))
    return made


@functional("all_reduce_coalesced")
def all_reduce_coalesced(self: Sequence[Any], reduceOp: str, group: Any, tag: str = "") -> list[Any]:
    """all_reduce of several tensors."""
    return [all_reduce(each, reduceOp, group, tag) for each in self]


@functional("broadcast")
def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """The tensor of rank `src` of the world."""
    made = self.detach().clone(memory_format=torch.contiguous_format)
    collectives.broadcast(made, src, group_of(group, tag))
    return made


@functional("all_gather_into_tensor")
def all_gather_single(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """The tensors of all ranks one after another along a dimension."""
    own = group_of(group, tag)
    given = self.detach().contiguous()
    made = given.new_empty((own.size() * given.shape[0], *given.shape[1:]))
    collectives.all_gather_single(made, given, own)
    return torch.cat(torch.chunk(made, own.size(), dim=0), dim=gather_dim) if gather_dim else made


@functional("all_gather_into_tensor_coalesced")
def all_gather_into_tensor_coalesced(self: Sequence[Any], group: Any, tag: str = "") -> list[Any]:
    """all_gather_single along the first dimension of several tensors."""
    return [all_gather_single(each, 0, group, tag) for each in self]


@functional("reduce_scatter_tensor")
def reduce_scatter_single(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """This rank's part, along a dimension, of the reduction of all ranks' tensors."""
    own = group_of(group, tag)
    if self.shape[scatter_dim] % own.size():
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]} must be a multiple of group_size {own.size()})"
        )
    given = self.detach()
    given = torch.cat(torch.chunk(given, own.size(), dim=scatter_dim)) if scatter_dim else given.contiguous()
    made = given.new_empty((given.shape[0] // own.size(), *given.shape[1:]))
    collectives.reduce_scatter_single(made, given, _op(reduceOp), own)
    return made


@functional("reduce_scatter_tensor_coalesced")
def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Any], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Any]:
    """reduce_scatter_single of several tensors."""
    return [reduce_scatter_single(each, reduceOp, dim, group, tag) for each, dim in zip(inputs, scatter_dim)]


@functional("all_to_all_single")
def all_to_all_single(
    self: Any, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None, group: Any, tag: str = ""
) -> Any:
    """What all ranks send this one, along the first dimension."""
    own = group_of(group, tag)
    given = self.detach().contiguous()
    rows = sum(output_split_sizes) if output_split_sizes else given.shape[0]
    made = given.new_empty((rows, *given.shape[1:]))
    collectives.all_to_all_single(made, given, list(output_split_sizes or []), list(input_split_sizes or []), own)
    return made


# ---------------------------------------------------------------------------------------------------- with gradients


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Any, op: str, group: Any) -> Any:
        ctx.op, ctx.group = op.lower(), group
        return all_reduce(given, op, group)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.op != "sum":
            raise RuntimeError(f"all_reduce backward only supports 'sum' reduction, got '{ctx.op}'")
        return all_reduce(gradient, "sum", ctx.group), None, None


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Any, dim: int, group: Any) -> Any:
        ctx.dim, ctx.group = dim, group
        return all_gather_single(given, dim, group)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return reduce_scatter_single(gradient, "sum", ctx.dim, ctx.group), None, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Any, op: str, dim: int, group: Any) -> Any:
        ctx.dim, ctx.group, ctx.op = dim, group, op.lower()
        return reduce_scatter_single(given, op, dim, group)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.op not in ("sum", "avg"):
            raise RuntimeError(f"reduce_scatter_tensor backward only supports 'sum' and 'avg' reduction, got '{ctx.op}'")
        divisor = ctx.group.size() if ctx.op == "avg" else 1
        return all_gather_single(gradient / divisor, ctx.dim, ctx.group), None, None, None


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Any, received: Any, sent: Any, group: Any) -> Any:
        ctx.splits, ctx.group = (sent, received), group
        return all_to_all_single(given, received, sent, group)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        sent, received = ctx.splits
        return all_to_all_single(gradient, sent, received, ctx.group), None, None, None


def all_reduce_autograd(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """all_reduce, with a gradient if it sums."""
    return _AllReduce.apply(self, reduceOp, group_of(group, tag))


def all_gather_single_autograd(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """all_gather_single, with a gradient."""
    return _AllGather.apply(self, gather_dim, group_of(group, tag))


def reduce_scatter_single_autograd(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """reduce_scatter_single, with a gradient."""
    return _ReduceScatter.apply(self, reduceOp, scatter_dim, group_of(group, tag))


def all_to_all_single_autograd(self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = "") -> Any:
    """all_to_all_single, with a gradient."""
    return _AllToAll.apply(self, output_split_sizes, input_split_sizes, group_of(group, tag))


# ---------------------------------------------------------------------------------------------- as operators of torch.ops

_operators.define(
    {
        "all_reduce": all_reduce,
        "all_reduce_coalesced": all_reduce_coalesced,
        "all_gather_into_tensor": lambda given, size, group: all_gather_single(given, 0, group),
        "all_gather_into_tensor_coalesced": lambda given, size, group: all_gather_into_tensor_coalesced(given, group),
        "reduce_scatter_tensor": lambda given, op, size, group: reduce_scatter_single(given, op, 0, group),
        "reduce_scatter_tensor_coalesced": lambda given, op, size, group: reduce_scatter_tensor_coalesced(
            given, op, [0] * len(given), group
        ),
        "all_to_all_single": all_to_all_single,
        "broadcast": broadcast,
        "wait_tensor": lambda tensor: tensor.view_as(tensor),
    }
)
