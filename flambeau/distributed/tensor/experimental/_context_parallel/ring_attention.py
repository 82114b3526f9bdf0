"""Attention of a sequence that several ranks have parts of: each rank's queries meet the keys and values of all ranks in turn.

What a rank's queries get of one part is merged with what they got before by the logarithms of the sums of exponentials, which
the attention kernel gives with its result; its backward takes those of the whole, and so gives each part's share of the
gradients. Liu, Zaharia and Abbeel 2023, https://arxiv.org/abs/2310.01889; the order of causal parts is that of load_balancer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau as torch
import flambeau.distributed as dist
from flambeau.core.tensor.tensor import Tensor
from flambeau.distributed.tensor.experimental._context_parallel.options import _cp_options, _RotateMethod

aten = torch.ops.aten


def ring_attention(
    group: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """scaled_dot_product_attention of this rank's queries with the keys and values of all ranks of a group.

    Tensors are (batch, heads, this rank's length, features), of equal sizes on all ranks. Raises NotImplementedError for a mask
    and for dropout, which would have to be those of the whole sequence.
    """
    if attn_mask is not None or dropout_p:
        what = "a mask" if attn_mask is not None else "dropout"
        raise NotImplementedError(f"attention under context_parallel takes no {what}: use is_causal=True, or leave the block")
    if any(each.dim() != 4 for each in (query, key, value)):
        raise NotImplementedError(
            "attention under context_parallel takes tensors of shape (batch, heads, length, features), not of shapes "
            f"{', '.join(str(tuple(each.shape)) for each in (query, key, value))}: unsqueeze them"
        )
    if is_causal and query.shape[2] != key.shape[2]:
        raise NotImplementedError(
            f"causal attention under context_parallel takes as many queries as keys, not {query.shape[2]} and {key.shape[2]}"
        )
    if enable_gqa and key.shape[1] != query.shape[1]:
        key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
    return _RingAttention.apply(query, key, value, is_causal, scale, group)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None, group: Any) -> Tensor:
        query, key, value = (each.contiguous() for each in (query, key, value))
        ctx.causal, ctx.scale, ctx.group = causal, scale, group
        ctx.balanced, ctx.method = _cp_options.enable_load_balance, _cp_options.rotate_method
        result, logsumexp = _Sum(), None
        for source, keys, values in _rotated(key, value, group, ctx.method):
            met = _meeting(source, group.rank(), query.shape[2], causal, ctx.balanced)
            if met is None:
                continue
            queries, positions, masked = met
            result.add(
                queries,
                *aten._scaled_dot_product_flash_attention_for_cpu(
                    query[:, :, queries], keys[:, :, positions], values[:, :, positions], 0.0, masked, scale=scale
                ),
            )
        total, logsumexp = result.value, result.logsumexp
        total = total.to(query.dtype)
        ctx.save_for_backward(query, key, value, total, logsumexp)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, total, logsumexp = ctx.saved_tensors
        grad = grad.contiguous()
        precision = torch.float32 if _cp_options.convert_to_f32 and query.itemsize < 4 else query.dtype
        of_query = torch.zeros_like(query, dtype=precision)
        returned = _Returned(key, value, precision, ctx.group, ctx.method)
        for source, keys, values in _rotated(key, value, ctx.group, ctx.method):
            met = _meeting(source, ctx.group.rank(), query.shape[2], ctx.causal, ctx.balanced)
            if met is not None:
                queries, positions, masked = met
                parts = (query[:, :, queries], keys[:, :, positions], values[:, :, positions], total[:, :, queries])
                shares = aten._scaled_dot_product_flash_attention_for_cpu_backward(
                    grad[:, :, queries], *parts, logsumexp[:, :, queries], 0.0, masked, scale=ctx.scale
                )
                of_query[:, :, queries] += shares[0]
                returned.add(source, positions, *shares[1:])
            returned.rotate()
        of_key, of_value = returned.own()
        return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype), None, None, None


def _meeting(source: int, rank: int, length: int, causal: bool, balanced: bool) -> tuple[slice, slice, bool] | None:
    """Which queries of `rank` attend to which keys of `source`, and whether causally; None if none do."""
    everything, half = slice(None), length // 2
    if not causal or source == rank:
        return everything, everything, causal
    if not balanced:
        return (everything, everything, False) if source < rank else None
    if source < rank:  # all queries come after its piece of the head, and before its piece of the tail
        return everything, slice(0, half), False
    return slice(half, length), everything, False  # the tail's queries come after both of its pieces


class _Sum:
    """Parts of attention, merged: the value of each query over all keys so far, and its logarithm of the sum of exponentials."""

    value: Tensor
    logsumexp: Tensor

    def __init__(self) -> None:
        self.empty = True

    def add(self, queries: slice, value: Tensor, logsumexp: Tensor) -> None:
        """The first part must be of all queries."""
        if self.empty:
            precision = torch.float32 if _cp_options.convert_to_f32 and value.itemsize < 4 else value.dtype
            self.value, self.logsumexp, self.empty = value.to(precision), logsumexp, False
            return
        before = self.logsumexp[:, :, queries]
        after = torch.logaddexp(before, logsumexp)
        mine = self.value[:, :, queries]
        mine.mul_((before - after).exp().unsqueeze(-1)).add_(value * (logsumexp - after).exp().unsqueeze(-1))
        before.copy_(after)


def _rotated(key: Tensor, value: Tensor, group: Any, method: _RotateMethod) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(rank, its keys, its values) of all ranks, this one's first."""
    size, rank = group.size(), group.rank()
    if method is _RotateMethod.ALL_GATHER:
        everyone = [each.new_empty(size, *each.shape) for each in (key, value)]
        works = [dist.all_gather_single(whole, own, group=group, async_op=True) for whole, own in zip(everyone, (key, value))]
        yield rank, key, value
        for work in works:
            work.wait()
        for step in range(1, size):
            source = (rank - step) % size
            yield source, everyone[0][source], everyone[1][source]
        return
    for step in range(size):
        following = None
        if step < size - 1:
            following = _Passing([key, value], group)
        yield (rank - step) % size, key, value
        if following is not None:
            key, value = following.received()


class _Passing:
    """Tensors on their way to the next rank of a ring, and those that come from the one before."""

    def __init__(self, tensors: list[Tensor], group: Any) -> None:
        rank, ranks = group.rank(), dist.get_process_group_ranks(group)
        behind, ahead = ranks[rank - 1], ranks[(rank + 1) % len(ranks)]
        self._given, self._taken = tensors, [torch.empty_like(each) for each in tensors]
        self._works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, each, ahead, group) for each in self._given]
            + [dist.P2POp(dist.irecv, each, behind, group) for each in self._taken]
        )

    def received(self) -> list[Tensor]:
        for work in self._works:
            work.wait()
        return self._taken


class _Returned:
    """Gradients of keys and values, summed where they are computed, on their way to the rank whose they are."""

    def __init__(self, key: Tensor, value: Tensor, precision: torch.dtype, group: Any, method: _RotateMethod) -> None:
        self._group, self._gathered = group, method is _RotateMethod.ALL_GATHER
        shape = (group.size(),) if self._gathered else ()
        self._sums = [each.new_zeros(*shape, *each.shape, dtype=precision) for each in (key, value)]

    def add(self, source: int, positions: slice, *shares: Tensor) -> None:
        """source: whose keys and values they are of; with "alltoall" those whose turn it is."""
        for total, share in zip(self._sums, shares):
            (total[source] if self._gathered else total)[:, :, positions] += share

    def rotate(self) -> None:
        """The sums go to the next rank, as the keys and values do."""
        if not self._gathered and self._group.size() > 1:
            self._sums = _Passing(self._sums, self._group).received()

    def own(self) -> list[Tensor]:
        """This rank's, when all ranks have added theirs."""
        if not self._gathered:
            return self._sums
        mine = [total.new_empty(total.shape[1:]) for total in self._sums]
        for result, total in zip(mine, self._sums):
            dist.reduce_scatter_single(result, total, group=self._group)
        return mine
