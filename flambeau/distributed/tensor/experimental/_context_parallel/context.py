"""context_parallel: a block in which every rank has a part of some tensors' sequence, and attention sees the whole of it.

Attention is intercepted by a function mode, so that it is that of the thread which is in the block, under whatever name a
program calls it, and also where multi-head attention calls it. Stands on load_balancer and ring_attention.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau as torch
import flambeau.distributed as dist
import flambeau.nn.functional as F
from flambeau.core.tensor.tensor import Tensor
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.experimental._context_parallel.load_balancer import _HeadTailLoadBalancer, _LoadBalancer
from flambeau.distributed.tensor.experimental._context_parallel.options import _cp_options
from flambeau.distributed.tensor.experimental._context_parallel.ring_attention import ring_attention
from flambeau.ops.nn.attention import attending_by


class _SharedAttention(torch.overrides.TorchFunctionMode):
    """Attention of what the ranks of a group have together."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return ring_attention(self.group, *args, **kwargs)
        if func in (torch._native_multi_head_attention, torch._transformer_encoder_layer_fwd):
            raise NotImplementedError(
                "attention by PyTorch's fused kernel isn't that of a shared sequence: call "
                "torch.backends.mha.set_fastpath_enabled(False)"
            )
        with attending_by(functools.partial(ring_attention, self.group)):
            return func(*args, **kwargs)


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """A block in which each rank of a mesh has a part of a sequence, and `scaled_dot_product_attention` is that of the whole.

    Args:
        mesh: of one dimension.
        buffers: tensors with a dimension of the sequence: inputs, labels, tables of positions; no parameters. In the block they
            have this rank's part, in their own memory; afterwards they are as before.
        buffer_seq_dims: that dimension, of each.
        no_restore_buffers: those of them that may stay as they are in the block.

    A part is a piece of the head and one of the tail of the sequence, so that causal attention is as much work for every rank
    (`_cp_options.enable_load_balance`): its length must be a multiple of twice the number of ranks. Gradients are those of the
    whole, too. Ring attention: Liu, Zaharia and Abbeel 2023, https://arxiv.org/abs/2310.01889.

    Raises ValueError for lists that don't fit each other and lengths that can't be divided, RuntimeError for buffers that
    require a gradient.
    """
    buffers, dims, kept = list(buffers or ()), list(buffer_seq_dims or ()), set(no_restore_buffers or ())
    if len(dims) != len(buffers):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if not kept <= set(buffers):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    size = _group_of(mesh).size()
    balancers = [
        _HeadTailLoadBalancer(buffer.shape[dim], size, buffer.device) if _cp_options.enable_load_balance else None
        for buffer, dim in zip(buffers, dims)
    ]
    parts = [_part(mesh, *each) for each in zip(buffers, dims, balancers)]
    wholes = [(buffer, buffer.clone()) for buffer in buffers if buffer not in kept]
    try:
        for buffer, part in zip(buffers, parts):
            _become(buffer, part)
        with _SharedAttention(mesh.get_group()):
            yield
    finally:
        for buffer, whole in wholes:
            _become(buffer, whole)


def _context_parallel_shard(
    mesh: DeviceMesh,
    buffers: Sequence[Tensor] | Mapping[str, Tensor],
    seq_dims: Sequence[int] | Mapping[str, int],
    load_balancer: _LoadBalancer | None = None,
) -> list[Tensor]:
    """This rank's part of each tensor along its dimension of the sequence, in the balancer's order if there is one."""
    if isinstance(buffers, Mapping) and isinstance(seq_dims, Mapping):
        seq_dims, buffers = [seq_dims[name] for name in buffers], list(buffers.values())
    if len(buffers) != len(seq_dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    return [_part(mesh, buffer, dim, load_balancer) for buffer, dim in zip(buffers, seq_dims)]


@torch.no_grad()
def context_parallel_unshard(
    mesh: DeviceMesh, buffers: list[Tensor], seq_dims: list[int], load_balancer: _LoadBalancer | None = None
) -> list[Tensor]:
    """The whole of tensors of which every rank has a part, in the order of the sequence; without gradients.

    load_balancer: whose order the parts have; by default that of `context_parallel`.
    """
    group = _group_of(mesh)
    if len(buffers) != len(seq_dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    wholes = []
    for buffer, dim in zip(buffers, seq_dims):
        parts = [torch.empty_like(buffer, memory_format=torch.contiguous_format) for _ in range(group.size())]
        dist.all_gather(parts, buffer.contiguous(), group=group)
        whole = torch.cat(parts, dim)
        balancer = load_balancer
        if balancer is None and _cp_options.enable_load_balance:
            balancer = _HeadTailLoadBalancer(whole.shape[dim], group.size(), whole.device)
        wholes.append(whole if balancer is None else _in_order(whole, dim, balancer._generate_indices(restore=True)))
    return wholes


def _group_of(mesh: DeviceMesh) -> Any:
    if mesh.ndim != 1:
        raise ValueError(f"context parallelism takes a mesh of one dimension, not {mesh.ndim}: give one of it, as mesh['cp']")
    return mesh.get_group()


@torch.no_grad()
def _part(mesh: DeviceMesh, buffer: Tensor, dim: int, balancer: _LoadBalancer | None) -> Tensor:
    group = _group_of(mesh)
    if balancer is None and buffer.shape[dim] % group.size():
        raise ValueError(
            f"a sequence of {buffer.shape[dim]} positions can't be divided into equal parts for {group.size()} ranks: pad it to "
            f"a multiple of {group.size()}"
        )
    ordered = buffer if balancer is None else _in_order(buffer, dim, balancer._generate_indices())
    return ordered.chunk(group.size(), dim)[group.rank()].clone(memory_format=torch.contiguous_format)


def _in_order(whole: Tensor, dim: int, indices: Tensor | None) -> Tensor:
    """indices: of shape (1 or batch, length); with a batch, which is the tensor's first dimension, an order for each of it."""
    if indices is None:
        return whole
    if indices.shape[0] == 1:
        return whole.index_select(dim, indices[0])
    return torch.stack([each.index_select(dim % whole.ndim - 1, order) for each, order in zip(whole, indices)])


@torch.no_grad()
def _become(buffer: Tensor, value: Tensor) -> None:
    """Give a tensor another size and value, in its memory."""
    buffer.resize_(value.shape)
    buffer.copy_(value)
