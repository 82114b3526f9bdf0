"""torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook: exchanging gradients as products of thin matrices.

PowerSGD (Vogels et al. 2019, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization). Stands on low_rank
and default_hooks; DistributedDataParallel.register_comm_hook takes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, low_rank
from flambeau.distributed.collectives import all_reduce
from flambeau.distributed.registry import get_default_group

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

logger = logging.getLogger(__name__)


class PowerSGDState:
    """The settings of PowerSGD, and what it keeps from one iteration to the next.

    process_group: None: the default group. matrix_approximation_rank: columns of the thin matrices. start_powerSGD_iter: until
    then gradients are exchanged whole. min_compression_rate: matrices that would not shrink by that factor travel whole.
    use_error_feedback: what an approximation left out is added to the next gradient. warm_start: begin with the last iteration's
    matrices. orthogonalization_epsilon: added to the lengths of columns. random_seed: of the first matrices, the same on all
    processes. compression_stats_logging_frequency: iterations between two lines of the log. batch_tensors_with_same_shape: take
    matrices of one shape together.

    Raises ValueError for start_powerSGD_iter below 2 with error feedback or warm start, since buckets change in iteration 1.
    """

    __slots__ = [
        "process_group", "matrix_approximation_rank", "start_powerSGD_iter", "min_compression_rate",
        "orthogonalization_epsilon", "use_error_feedback", "warm_start", "batch_tensors_with_same_shape", "rng", "error_dict",
        "p_memory_dict", "q_memory_dict", "iter", "total_numel_before_compression", "total_numel_after_compression",
        "compression_stats_logging_frequency", "next_stats_report",
    ]  # fmt: skip

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only "
                "be applied after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Any] = {}
        self.p_memory_dict: dict[int, Any] = {}
        self.q_memory_dict: dict[int, Any] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0

    def __getstate__(self) -> dict[str, Any]:
        logger.warning("NOTE: Process group is not serializable and excluded from a saved state.")
        return {name: getattr(self, name) for name in self.__slots__ if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.process_group = get_default_group()
        logger.warning(
            "NOTE: Process group will be set to a default group (i.e. the world size).                "
            "If a different group is desired, please set `self.process_group` after PowerSGD state is loaded."
        )
        for name, value in state.items():
            setattr(self, name, value)

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1
        if self.iter == self.start_powerSGD_iter:
            logger.info("Start to apply PowerSGD after %s iterations.", self.iter)

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer numbers have travelled, how many there were, and how many have travelled."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after > 0 else 0, before, after

    def _count(self, bucket: Any, before: int, after: int) -> None:
        self.total_numel_before_compression += before
        self.total_numel_after_compression += after
        if bucket.is_last() and self.iter >= self.next_stats_report:
            logger.info(
                "Compression stats: iter %s, total before compression %s, total after compression %s, rate %s",
                self.iter,
                *self.compression_stats()[1:],
                self.compression_stats()[0],
            )
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency

    def _with_error(self, index: int, buffer: Any) -> Any:
        """Add what the last approximation of a bucket left out; a copy of the sum, None without error feedback."""
        if not self.use_error_feedback:
            return None
        error = self.error_dict.get(index)
        if error is None or error.shape != buffer.shape:
            self.error_dict[index] = torch.zeros_like(buffer)
        else:
            buffer.add_(error)
        return buffer.clone()

    def _thin(self, index: int, shapes: list[tuple[int, int, int]], dtype: Any) -> tuple[list[Any], list[Any]]:
        """Matrices P and orthonormal Q for matrices of shapes [n, rows, columns]; Q is the last iteration's in a warm start."""
        ranks = [min(rows, columns, self.matrix_approximation_rank) for _, rows, columns in shapes]
        of_p = [(count, rows, rank) for (count, rows, _), rank in zip(shapes, ranks, strict=True)]
        of_q = [(count, columns, rank) for (count, _, columns), rank in zip(shapes, ranks, strict=True)]
        known = self.warm_start and index in self.p_memory_dict
        if not known:
            for memory, wanted in ((self.p_memory_dict, of_p), (self.q_memory_dict, of_q)):
                memory[index] = torch.empty(sum(a * b * c for a, b, c in wanted), dtype=dtype)
        p, q = low_rank.carve(self.p_memory_dict[index], of_p), low_rank.carve(self.q_memory_dict[index], of_q)
        if not known:
            low_rank.fill_normal(q, int(self.rng.randint(1_000_000_000)))
        for each in q:
            low_rank.orthonormalize(each, self.orthogonalization_epsilon)
        return p, q


def _after(flat: Any, group: Any, then: Callable[[], Any]) -> Any:
    """A Future of then(), which is called when flat is the sum over the group."""
    work = all_reduce(flat, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value() and then())


def _iterate(state: PowerSGDState, group: Any, index: int, matrices: list[Any], finish: Callable[[], Any]) -> Any:
    """Put approximations of the means over a group in the place of matrices[n, rows, columns]: a Future of finish()."""
    p, q = state._thin(index, [tuple(each.shape) for each in matrices], matrices[0].dtype)
    for each, thin, right in zip(matrices, p, q, strict=True):
        torch.bmm(each, right, out=thin)
    _reduce(state.p_memory_dict[index], group)
    for thin in p:
        low_rank.orthonormalize(thin, state.orthogonalization_epsilon)
    for each, thin, right in zip(matrices, p, q, strict=True):
        torch.bmm(each.transpose(1, 2), thin, out=right)

    def put_back() -> Any:
        state.q_memory_dict[index].div_(group.size())
        for each, thin, right in zip(matrices, p, q, strict=True):
            torch.bmm(thin, right.transpose(1, 2), out=each)
        if not state.warm_start:
            state.p_memory_dict.clear()
            state.q_memory_dict.clear()
        return finish()

    return _after(state.q_memory_dict[index], group, put_back)


def _reduce(flat: Any, group: Any) -> None:
    all_reduce(flat, group=group)


def _divided(state: PowerSGDState, bucket: Any) -> tuple[list[Any], list[Any]]:
    """The gradients of a bucket that are worth compressing, as matrices, and the others."""
    thin, whole, before, after = [], [], 0, 0
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0] if gradient.ndim else 1, -1)
        rows, columns = matrix.shape
        rank = min(rows, columns, state.matrix_approximation_rank)
        worth, elements, travel = low_rank.worth_it(rows, columns, rank, state.min_compression_rate)
        (thin if worth else whole).append(matrix)
        before += elements
        after += travel if worth else elements
    state._count(bucket, before, after)
    return thin, whole


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """A Future of approximate means of gradients: matrices travel as two thin ones, those that would not shrink whole."""
    group = state.process_group if state.process_group is not None else get_default_group()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks.allreduce_hook(group, bucket)
    buffer, index = bucket.buffer(), bucket.index()
    before = state._with_error(index, buffer)
    thin, whole = _divided(state, bucket)
    if whole:
        flat = torch.cat([each.reshape(-1) for each in whole])
        _reduce(flat, group)
        for each, part in zip(whole, (flat / group.size()).split([each.numel() for each in whole]), strict=True):
            each.copy_(part.view(each.shape))
    groups = low_rank.alike(thin)  # random numbers are drawn in this order, whether batches are made or not
    if not state.batch_tensors_with_same_shape:
        groups = [[each] for members in groups for each in members]
    matrices = [torch.stack(each) if len(each) > 1 else each[0].unsqueeze(0) for each in groups]

    def finish() -> Any:
        for members, batch in zip(groups, matrices, strict=True):
            if len(members) > 1:
                for member, found in zip(members, batch.unbind(0), strict=True):
                    member.copy_(found)
        return _finished(state, bucket, buffer, before)

    if not matrices:
        future: Any = torch.futures.Future()
        future.set_result(finish())
        return future
    return _iterate(state, group, index, matrices, finish)


def _finished(state: PowerSGDState, bucket: Any, buffer: Any, before: Any) -> Any:
    if before is not None:
        state.error_dict[bucket.index()] = before - buffer
    state.maybe_increase_iter(bucket)
    return buffer


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """A Future of an approximate mean of a whole bucket, seen as one square matrix: faster than powerSGD_hook, and less exact."""
    group = state.process_group if state.process_group is not None else get_default_group()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks.allreduce_hook(group, bucket)
    buffer, index = bucket.buffer(), bucket.index()
    side = low_rank.side(buffer.numel())
    square = torch.nn.functional.pad(buffer, (0, side * side - buffer.numel()))
    state._count(bucket, buffer.numel(), 2 * side * state.matrix_approximation_rank)
    before = state._with_error(index, square)

    def finish() -> Any:
        _finished(state, bucket, square, before)
        return buffer.copy_(square[: buffer.numel()])

    return _iterate(state, group, index, [square.view(1, side, side)], finish)
