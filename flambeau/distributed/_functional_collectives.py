"""torch.distributed._functional_collectives: collectives that return their results and leave their arguments alone.

Results are AsyncCollectiveTensors, as in PyTorch, though they are done when they are returned: `wait()` or any operator gives a
plain tensor. They are differentiable where PyTorch's are: sums, gathered parts and exchanged ones. `group` is a ProcessGroup, its
name, a mesh of one dimension, a mesh and a dimension of it, or a list of ranks. Stands on `copying_collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.distributed import _operators
from flambeau.distributed import copying_collectives as copying
from flambeau.distributed.watching import functional

__all__ = [
    "AsyncCollectiveTensor", "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd",
    "all_gather_single_coalesced", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_reduce_coalesced",
    "all_to_all_single", "all_to_all_single_autograd", "broadcast", "permute_tensor", "reduce_scatter_single",
    "reduce_scatter_single_autograd", "reduce_scatter_single_coalesced", "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip

#: Their results may be waited for as well.
_VIEWS = (torch.Tensor.view, torch.Tensor.reshape, torch.reshape)


class AsyncCollectiveTensor(torch.Tensor):
    """A collective's result. Operators take `elem`, the plain tensor, in its place; `wait()` returns it."""

    elem: torch.Tensor
    completed: bool

    @staticmethod
    def __new__(cls, elem: torch.Tensor) -> AsyncCollectiveTensor:
        made: AsyncCollectiveTensor = elem.as_subclass(cls)
        made.elem, made.completed = elem, False
        return made

    def wait(self) -> torch.Tensor:
        """The plain tensor, of the same memory and history."""
        self.completed = True
        return self.elem

    trigger_wait = wait

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # tensor_contents: as the base class has it
        return f"AsyncCollectiveTensor({self.wait()})"

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        plain, named = torch.utils._pytree.tree_map_only(AsyncCollectiveTensor, _elem, (tuple(args), kwargs or {}))
        result = func(*plain, **named)
        given = args[0] if args else None
        if isinstance(given, AsyncCollectiveTensor) and isinstance(result, torch.Tensor):
            if result is plain[0]:
                return given
            if func in _VIEWS:
                return AsyncCollectiveTensor(result)
        return result


def _elem(tensor: AsyncCollectiveTensor) -> torch.Tensor:
    return tensor.elem


def wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The plain tensor of a collective's result; any other tensor is returned as it is."""
    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def all_reduce(self: torch.Tensor, reduceOp: str, group: Any, tag: str = "") -> torch.Tensor:
    """The reduction of all ranks' tensors, of their shape and dtype: sum, avg, product, min, max, band, bor or bxor.

    Raises:
        ValueError: for another reduction, or a group that is none.
        RuntimeError: in the backward pass, if it isn't a sum.
    """
    return AsyncCollectiveTensor(copying.all_reduce_autograd(wait_tensor(self), reduceOp, group, tag))


@functional("all_reduce_coalesced")
def all_reduce_coalesced(self: Sequence[torch.Tensor], reduceOp: str, group: Any, tag: str = "") -> list[torch.Tensor]:
    """all_reduce of several tensors."""
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def broadcast(self: torch.Tensor, src: int, group: Any, tag: str = "") -> torch.Tensor:
    """The tensor of rank `src` of the world; it has no gradient."""
    return AsyncCollectiveTensor(copying.broadcast(wait_tensor(self), src, group, tag))


def all_gather_single(self: torch.Tensor, gather_dim: int, group: Any, tag: str = "") -> torch.Tensor:
    """The tensors of all ranks one after another along a dimension: a plain tensor but along the first."""
    made: torch.Tensor = copying.all_gather_single_autograd(wait_tensor(self), gather_dim, group, tag)
    return made if gather_dim else AsyncCollectiveTensor(made)


@functional("all_gather_into_tensor_coalesced")
def all_gather_into_tensor_coalesced(self: Sequence[torch.Tensor], group: Any, tag: str = "") -> list[torch.Tensor]:
    """all_gather_single along the first dimension of several tensors."""
    return [all_gather_single(each, 0, group, tag) for each in self]


def reduce_scatter_single(self: torch.Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> torch.Tensor:
    """This rank's part, along a dimension, of the reduction of all ranks' tensors.

    Raises:
        AssertionError: if that dimension isn't a multiple of the group's size.
        RuntimeError: in the backward pass, if it is neither a sum nor an average.
    """
    return AsyncCollectiveTensor(copying.reduce_scatter_single_autograd(wait_tensor(self), reduceOp, scatter_dim, group, tag))


@functional("reduce_scatter_tensor_coalesced")
def reduce_scatter_tensor_coalesced(
    inputs: Sequence[torch.Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[torch.Tensor]:
    """reduce_scatter_single of several tensors, each along its own dimension."""
    return [reduce_scatter_single(each, reduceOp, dim, group, tag) for each, dim in zip(inputs, scatter_dim)]


def all_to_all_single(
    self: torch.Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> torch.Tensor:
    """What all ranks send this one, along the first dimension; sizes by rank, equal ones without them."""
    return AsyncCollectiveTensor(
        copying.all_to_all_single_autograd(wait_tensor(self), output_split_sizes, input_split_sizes, group, tag)
    )


def permute_tensor(self: torch.Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> torch.Tensor:
    """The tensor of the rank whose entry in `src_dst` is this one's number."""
    own = copying.group_of(group, tag)
    if sorted(src_dst) != list(range(own.size())):
        raise ValueError("src_dst must be a permutation of the group's ranks")
    sent, received = [0] * own.size(), [0] * own.size()
    sent[src_dst[own.rank()]] = self.numel()
    received[list(src_dst).index(own.rank())] = self.numel()
    return all_to_all_single(self.reshape(-1), received, sent, own).reshape(self.shape)


all_gather_tensor = all_gather_single_autograd = all_gather_tensor_autograd = all_gather_single
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_tensor = reduce_scatter_single_autograd = reduce_scatter_tensor_autograd = reduce_scatter_single
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
all_to_all_single_autograd = all_to_all_single
_operators.wrap_by(AsyncCollectiveTensor)
