"""torch.distributed.pipelining.schedules: in which order the stages of a rank run the microbatches of a step.

A schedule is a list of actions for each rank: forward or backward, of a stage, with a microbatch. GPipe (Huang et al. 2019) runs
all forwards first; 1F1B (Narayanan et al. 2019) alternates as soon as it can, so that fewer microbatches are kept; with several
stages on a rank, breadth first (Lamy-Poirier 2022) or interleaved 1F1B (Narayanan et al. 2021). Stands on `stage` and
`microbatch`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from flambeau.distributed.pipelining.stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS", "get_schedule_class",
]  # fmt: skip


class Action(NamedTuple):
    """A stage runs a microbatch, forward or backward."""

    stage: int
    backward: bool
    microbatch: int


class _Schedule(ABC):
    """Runs steps of a pipeline.

    Args:
        n_microbatches: into how many a batch is cut.
        loss_fn: `(output, target) -> loss` of a microbatch, on the last stage; None: forward only.
        args_chunk_spec, kwargs_chunk_spec: how arguments are cut, `TensorChunkSpec`s; by default along the first dimension.
        output_merge_spec: how results are joined.
        scale_grads: divide the gradients by the number of microbatches, as losses are averages over one each.
    """

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None,
        args_chunk_spec: Any,
        kwargs_chunk_spec: Any,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        self._stages = {stage.stage_index: stage for stage in stages}
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._has_backward = loss_fn is not None
        self._num_stages = stages[0].num_stages

    @abstractmethod
    def actions(self) -> Iterator[Action]:
        """What this rank does in a step, in order."""

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[torch.Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One step with a whole batch: forward and, with a loss, backward of every microbatch.

        The first stage's rank gives the batch, the last's the target. Keyword arguments are cut too, and each rank gives its own.
        `losses` is filled with the microbatches' on the last stage, where the joined results are returned; None elsewhere.
        """
        if self._has_backward and not torch.is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; "
                "it should not be used under torch.no_grad() context. "
                "Please call eval() instead."
            )
        count = self._n_microbatches
        arg_chunks, kwarg_chunks = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
        )
        targets = list(torch.tensor_split(target, count)) if target is not None else [None] * count
        outputs: dict[int, Any] = {}
        found: dict[int, torch.Tensor] = {}
        for stage in self._stages.values():
            stage.clear_runtime_states()
            stage.has_backward = self._has_backward
        left = dict.fromkeys(self._stages, count)
        for action in self.actions():
            stage, microbatch = self._stages[action.stage], action.microbatch
            if action.backward:
                if self._has_backward:
                    left[action.stage] -= 1
                    stage.backward_one_chunk(microbatch, found.get(microbatch), last=left[action.stage] == 0)
                continue
            made = stage.forward_one_chunk(microbatch, arg_chunks[microbatch], kwarg_chunks[microbatch])
            if stage.is_last:
                outputs[microbatch] = made
                if self._loss_fn is not None and targets[microbatch] is not None:
                    found[microbatch] = self._loss_fn(made, targets[microbatch], **(loss_kwargs or {}))
                elif self._has_backward:
                    raise RuntimeError("the last stage of a pipeline needs step(target=) to compute the loss")
        for stage in self._stages.values():
            stage.finish_sends()
            if self._has_backward and self.scale_grads:
                stage.scale_grads(count)
        if losses is not None and found:
            losses[:] = [found[microbatch] for microbatch in range(count)]
        if outputs and return_outputs:
            return merge_chunks([outputs[microbatch] for microbatch in range(count)], self._output_merge_spec)
        return None

    def eval(self, *args: Any, target: Any = None, losses: list[torch.Tensor] | None = None, **kwargs: Any) -> Any:
        """`step` without backward passes."""
        before, self._has_backward = self._has_backward, False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before


class PipelineScheduleSingle(_Schedule):
    """A schedule of one stage per rank."""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        self._stage = stage


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards."""

    def actions(self) -> Iterator[Action]:
        for backward in (False, True):
            for microbatch in range(self._n_microbatches):
                yield Action(self._stage.stage_index, backward, microbatch)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward, once the first microbatches have filled the pipeline. ValueError with fewer than stages."""

    def __init__(self, stage: PipelineStage, n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stage, n_microbatches, *args, **kwargs)
        if n_microbatches < self._num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than "
                f"or equal to the number of stages ({self._num_stages})."
            )

    def actions(self) -> Iterator[Action]:
        own, count = self._stage.stage_index, self._n_microbatches
        ahead = min(count, self._num_stages - own)
        for microbatch in range(ahead):
            yield Action(own, False, microbatch)
        for microbatch in range(count):
            yield Action(own, True, microbatch)
            if microbatch + ahead < count:
                yield Action(own, False, microbatch + ahead)


class PipelineScheduleMulti(_Schedule):
    """A schedule of several stages per rank: stage i is on rank i modulo the number of ranks."""

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        **_: Any,
    ) -> None:
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        self.pp_group_size, self.rank = stages[0].group_size, stages[0].group_rank
        self.n_local_stages = len(stages)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through a stage before the next of the rank; backwards likewise."""

    def actions(self) -> Iterator[Action]:
        stages = sorted(self._stages)
        for stage in stages:
            for microbatch in range(self._n_microbatches):
                yield Action(stage, False, microbatch)
        for stage in reversed(stages):
            for microbatch in reversed(range(self._n_microbatches)):
                yield Action(stage, True, microbatch)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages per rank. ValueError unless the microbatches fill rounds of as many as there are ranks."""

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stages, n_microbatches, *args, **kwargs)
        rounds = max(1, n_microbatches // self.pp_group_size)
        self.microbatches_per_round = n_microbatches // rounds
        if n_microbatches % rounds:
            raise ValueError(
                "Interleaved 1F1B requires the number of microbatches to be a "
                f"multiple of the number of rounds ({rounds}), "
                f"but got {n_microbatches}."
            )

    def actions(self) -> Iterator[Action]:
        total = self.n_local_stages * self._n_microbatches
        ahead = (self.n_local_stages - 1) * self.microbatches_per_round + 2 * (self.pp_group_size - 1 - self.rank)
        ahead = min(total, ahead)
        forwards = [self._run(place, False) for place in range(total)]
        backwards = [self._run(place, True) for place in range(total)]
        yield from forwards[:ahead]
        for place in range(total):
            if place + ahead < total:
                yield forwards[place + ahead]
            yield backwards[place]

    def _run(self, place: int, backward: bool) -> Action:
        """The action at a place among all forwards, or backwards: rounds of microbatches through the rank's stages in turn."""
        size = self.microbatches_per_round
        turn, within = divmod(place, size)
        loop, local = divmod(turn, self.n_local_stages)
        if backward:
            local = self.n_local_stages - 1 - local
        return Action(local * self.pp_group_size + self.rank, backward, loop * size + within)


def get_schedule_class(schedule_name: str) -> type[_Schedule]:
    """The schedule of a name: "GPipe", "1F1B", "LoopedBFS", "Interleaved1F1B". ValueError for others."""
    known: dict[str, type[_Schedule]] = {
        "1f1b": Schedule1F1B,
        "gpipe": ScheduleGPipe,
        "loopedbfs": ScheduleLoopedBFS,
        "interleaved1f1b": ScheduleInterleaved1F1B,
    }
    found = known.get(schedule_name.lower())
    if found is None:
        raise ValueError(f"Unknown schedule name: {schedule_name}. Valid options are {list(known)}")
    return found
