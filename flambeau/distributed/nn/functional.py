"""torch.distributed.nn.functional: collectives with gradients, whose backward passes are collectives as well.

So all processes must take part in the backward pass. Stands on collectives and autograd.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed import collectives
from flambeau.distributed.reduce_ops import ReduceOp
from flambeau.distributed.registry import get_default_group, get_group_rank

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _group(group: Any) -> Any:
    world = getattr(torch.distributed.group, "WORLD", None)
    return group if group is not None and group is not world else get_default_group()


def _root(group: Any, rank: int) -> int:
    return get_group_rank(group, rank)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group = src, group
        made = tensor.detach().clone()
        collectives.broadcast(made, src, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, gradient)
        return None, None, total if ctx.group.rank() == _root(ctx.group, ctx.src) else torch.zeros_like(total)


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        made = tensor.detach().clone()
        collectives.reduce(made, dst, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, gradient.contiguous())


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.op, ctx.group = op, group
        made = tensor.detach().clone(memory_format=torch.contiguous_format)
        collectives.all_reduce(made, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, gradient)


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Any, *tensors: Any) -> Any:
        ctx.group, ctx.shapes = group, [each.shape for each in tensors]
        made = [torch.empty_like(each) for each in outputs]
        collectives.all_to_all(made, [each.detach().contiguous() for each in tensors], group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        made = [gradients[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *_AllToAll.apply(ctx.group, made, *gradients)


class _AllToAllSingle(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Any, received: Any, sent: Any, tensor: Any) -> Any:
        ctx.group, ctx.shape, ctx.splits = group, tensor.shape, (sent, received)
        made = torch.empty_like(output)
        collectives.all_to_all_single(made, tensor.detach().contiguous(), received, sent, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        made = gradient.new_empty(ctx.shape)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, made, *ctx.splits, gradient.contiguous())


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of rank `src`; its gradient is the sum of all ranks', there."""
    return _Broadcast.apply(src, _group(group), tensor)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """At rank `dst` the reduction of all ranks' tensors; its gradient goes to all."""
    return _Reduce.apply(dst, op, _group(group), tensor)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The reduction of all ranks' tensors; the gradient is reduced as well."""
    return _AllReduce.apply(op, _group(group), tensor)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> Any:
    """What all ranks send this one, with the shapes of `output_tensor_list`."""
    return _AllToAll.apply(_group(group), output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """What all ranks send this one, with the shape of `output`."""
    return _AllToAllSingle.apply(_group(group), output, output_split_sizes, input_split_sizes, input)


def all_gather(tensor: Any, group: Any = None) -> Any:
    """The tensors of all ranks; the gradient of each is summed over the ranks."""
    own = _group(group)
    return all_to_all([torch.empty_like(tensor) for _ in range(own.size())], [tensor] * own.size(), own)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """At rank `dst` the tensors of all ranks, elsewhere zeros; the gradient comes back from there, in a backward pass of all."""
    own = _group(group)
    root, zero = _root(own, dst), torch.zeros_like(tensor)
    given = [tensor if rank == root else zero for rank in range(own.size())]
    return all_to_all([torch.empty_like(tensor) for _ in range(own.size())], given, own)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """The tensor with this rank's number of rank `src`."""
    own = _group(group)
    shape = tensors[0]
    return all_to_all([torch.empty_like(shape) for _ in range(own.size())], list(tensors), own)[_root(own, src)]


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The reduction of input_list[rank] over all ranks, with the shape of `output`. Of sums and averages."""
    own = _group(group)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(f"reduce_scatter with a gradient takes ReduceOp.SUM and AVG, not {op}")
    made = all_to_all([torch.empty_like(output) for _ in range(own.size())], list(input_list), own)
    total = sum(made[1:], made[0])
    return total / own.size() if op == ReduceOp.AVG else total
