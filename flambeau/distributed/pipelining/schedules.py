"""torch.distributed.pipelining.schedules: in which order the stages of a rank run the microbatches of a step.

GPipe (Huang et al. 2019) runs all forwards first; 1F1B (Narayanan et al. 2019) alternates as soon as it can, so that fewer
microbatches are kept; with several stages on a rank, breadth first (Lamy-Poirier 2022), interleaved 1F1B (Narayanan et al. 2021),
or with the backward in two parts zero bubble and DualPipeV. Stands on `_orders`, `stage` and `microbatch`.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as torch
from flambeau.distributed.pipelining import _orders
from flambeau.distributed.pipelining._actions import Action, B, ComputationType, F, I, Order, W, format_order, merge_backwards
from flambeau.distributed.pipelining._actions import Action as _Action  # noqa: F401 - programs find it here
from flambeau.distributed.pipelining._actions import ComputationType as _ComputationType  # noqa: F401
from flambeau.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from flambeau.distributed.pipelining.stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
    "get_schedule_class",
]  # fmt: skip

_format_pipeline_order, _merge_bw = format_order, merge_backwards
FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = F, B, I, W
OVERLAP_F_B = ComputationType.OVERLAP_F_B
SEND_F, RECV_F = ComputationType.SEND_F, ComputationType.RECV_F
SEND_B, RECV_B = ComputationType.SEND_B, ComputationType.RECV_B
UNSHARD, RESHARD = ComputationType.UNSHARD, ComputationType.RESHARD
REDUCE_GRAD = ComputationType.REDUCE_GRAD


class _PipelineSchedule(ABC):
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
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._has_backward = loss_fn is not None
        self._requires_autograd = True
        self._stages_by_index: dict[int, PipelineStage] = {}

    def _take(self, stages: list[PipelineStage], stage_ranks: list[int]) -> None:
        """Takes this rank's stages, which learn where the others are."""
        self._stages_by_index = {stage.stage_index: stage for stage in stages if hasattr(stage, "stage_index")}
        for stage in stages:
            stage.stage_index_to_group_rank = dict(enumerate(stage_ranks))
            stage.neighbors = self._stages_by_index

    @abstractmethod
    def actions(self) -> Iterable[Action | None]:
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
        if self._has_backward and self._requires_autograd and not torch.is_grad_enabled():
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
        step = _Step(self, arg_chunks, kwarg_chunks, targets, loss_kwargs or {})
        for action in self.actions():
            step.run(action)
        step.end()
        if losses is not None and step.losses:
            losses[:] = [step.losses[microbatch] for microbatch in range(count)]
        if step.outputs and return_outputs:
            return merge_chunks([step.outputs[microbatch] for microbatch in range(count)], self._output_merge_spec)
        return None

    def eval(self, *args: Any, target: Any = None, losses: list[torch.Tensor] | None = None, **kwargs: Any) -> Any:
        """`step` without backward passes."""
        before, self._has_backward = self._has_backward, False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before


class _Step:
    """A step while it runs: the microbatches' arguments, and what came of them."""

    def __init__(self, schedule: _PipelineSchedule, args: Any, kwargs: Any, targets: Any, loss_kwargs: Any) -> None:
        self.schedule, self.args, self.kwargs, self.targets = schedule, args, kwargs, targets
        self.loss_kwargs = loss_kwargs
        self.stages, self.trains = schedule._stages_by_index, schedule._has_backward
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, torch.Tensor] = {}
        self.left = dict.fromkeys(self.stages, schedule._n_microbatches)
        for stage in self.stages.values():
            stage.clear_runtime_states()
            stage.has_backward = self.trains

    def run(self, action: Action | None) -> None:
        """Runs an action; those of messages and of sharded parameters do nothing, as both happen where they are needed."""
        if action is None or not action.is_compute_op:
            return
        if action.sub_actions is not None:
            for part in action.sub_actions:
                self.run(part)
            return
        microbatch = action.microbatch_index
        assert microbatch is not None
        stage, kind = self.stages[action.stage_index], action.computation_type
        if kind is F:
            self._forward(stage, microbatch)
        elif self.trains and kind is W:
            stage.backward_weight_one_chunk(microbatch)
        elif self.trains:
            self.left[action.stage_index] -= 1
            last = self.left[action.stage_index] == 0
            loss = self.losses.get(microbatch)
            stage.backward_one_chunk(microbatch, loss, full_backward=kind is B, last_backward=last)

    def _forward(self, stage: PipelineStage, microbatch: int) -> None:
        made = stage.forward_one_chunk(microbatch, self.args[microbatch], self.kwargs[microbatch])
        if not stage.is_last:
            return
        self.outputs[microbatch] = made
        loss_fn, target = self.schedule._loss_fn, self.targets[microbatch]
        if loss_fn is not None and target is not None:
            self.losses[microbatch] = loss_fn(made, target, **self.loss_kwargs)
        elif self.trains:
            raise RuntimeError("the last stage of a pipeline needs step(target=) to compute the loss")

    def end(self) -> None:
        """Waits for messages, and scales gradients."""
        for stage in self.stages.values():
            stage.finish_sends()
            if self.trains and self.schedule.scale_grads:
                stage.scale_grads(self.schedule._n_microbatches)


class PipelineScheduleSingle(_PipelineSchedule):
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
        super().__init__(n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage, self._num_stages = stage, stage.num_stages
        if n_microbatches < self._least_microbatches():
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than "
                f"or equal to the number of stages ({self._num_stages})."
            )
        self._take([stage], [index % stage.group_size for index in range(stage.num_stages)])

    def _least_microbatches(self) -> int:
        return 1


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forwards, without a loss."""

    def actions(self) -> Iterable[Action]:
        return [Action(self._stage.stage_index, F, microbatch) for microbatch in range(self._n_microbatches)]


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards."""

    def actions(self) -> Iterable[Action]:
        return [
            Action(self._stage.stage_index, kind, microbatch) for kind in (F, B) for microbatch in range(self._n_microbatches)
        ]


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward, once the first microbatches have filled the pipeline. ValueError with fewer than stages."""

    def _least_microbatches(self) -> int:
        return self._num_stages

    def actions(self) -> Iterable[Action]:
        own, count = self._stage.stage_index, self._n_microbatches
        ahead = min(count, self._num_stages - own)
        for microbatch in range(ahead):
            yield Action(own, F, microbatch)
        for microbatch in range(count):
            yield Action(own, B, microbatch)
            if microbatch + ahead < count:
                yield Action(own, F, microbatch + ahead)


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule of several stages per rank; `pipeline_order` has the actions of each rank.

    backward_requires_autograd: False lets `step` run without gradients enabled. use_full_backward: None, or True for schedules
    that don't take backwards apart anyway. defer_pp_recv makes no difference: messages are awaited when they are needed.
    """

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
    ) -> None:
        super().__init__(n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._requires_autograd, self._use_full_backward = backward_requires_autograd, use_full_backward
        self._stages, self._num_stages = stages, stages[0].num_stages
        self.pp_group_size, self.rank = stages[0].group_size, stages[0].group_rank
        self.n_local_stages = len(stages)
        self.pipeline_order: Order = {}
        self.stage_ranks = self._stage_ranks()
        self._take(stages, self.stage_ranks)

    def _stage_ranks(self) -> list[int]:
        """The rank of each stage."""
        return [stage % self.pp_group_size for stage in range(self._num_stages)]

    def _set_order(self, order: Order) -> None:
        """Takes the actions of each rank."""
        if self._use_full_backward and any(a and a.computation_type in (I, W) for each in order.values() for a in each):
            raise ValueError("use_full_backward=True: this schedule takes backwards apart; choose another")
        self.pipeline_order = order

    def actions(self) -> Iterable[Action | None]:
        if self.rank not in self.pipeline_order:
            raise RuntimeError(f"{type(self).__name__} has no order of rank {self.rank}; load one by _load_csv")
        return merge_backwards(self.pipeline_order[self.rank])

    def _load_csv(self, filename: str, format: str = "compute_only") -> None:
        """Takes an order from a file with a line for each rank; actions of messages are left out, as they follow from the others.

        ValueError for an order that can't run.
        """
        with open(filename, newline="") as file:
            rows = [[Action.from_str(text) for text in row] for row in csv.reader(file)]
        self._prepare_schedule_with_comms(dict(enumerate(rows)), format)

    def _prepare_schedule_with_comms(self, actions: Order, format: str = "compute_only") -> None:
        """Takes an order, as `_load_csv` does."""
        if format not in ("compute_only", "compute_comms"):
            raise AssertionError(f"format must be compute_only or compute_comms, not {format!r}")
        order = {rank: [a for a in row if a is None or a.is_compute_op] for rank, row in actions.items()}
        ranks: dict[int, int] = {}
        for rank, row in order.items():
            for action in row:
                for part in (action.sub_actions or (action,)) if action else ():
                    ranks[part.stage_index] = rank
        stage_ranks = [ranks.get(stage, stage % self.pp_group_size) for stage in range(self._num_stages)]
        trains = any(a and a.computation_type is not F for row in order.values() for a in row)
        _orders.check_order(order, stage_ranks.__getitem__, self._num_stages, self._n_microbatches, trains)
        self.stage_ranks = stage_ranks
        self._take(self._stages, stage_ranks)
        self._set_order(order)

    def _dump_csv(self, filename: str) -> None:
        """Writes the order, a line for each rank."""
        with open(filename, "w", newline="") as file:
            csv.writer(file).writerows(self.pipeline_order[rank] for rank in sorted(self.pipeline_order))


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    """A schedule whose order is loaded from a file by `_load_csv`."""


class _Looped(_PipelineScheduleRuntime):
    """A schedule that makes its own order."""

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, None, scale_grads,
            backward_requires_autograd,
        )  # fmt: skip
        self._set_order(self._made_order())

    @abstractmethod
    def _made_order(self) -> Order:
        """The actions of each rank."""


class ScheduleLoopedBFS(_Looped):
    """All microbatches through a stage before the next of the rank; backwards likewise."""

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        super().__init__(
            stages, n_microbatches, loss_fn, None, None, output_merge_spec, scale_grads, backward_requires_autograd,
            defer_pp_recv,
        )  # fmt: skip

    def _made_order(self) -> Order:
        own = [range(rank, self._num_stages, self.pp_group_size) for rank in range(self.pp_group_size)]
        return {rank: _orders.breadth_first(stages, self._n_microbatches) for rank, stages in enumerate(own)}


class _InRounds(_Looped):
    """A schedule whose microbatches go in rounds of as many as there are ranks. ValueError unless they fill them."""

    _called: str

    def _made_order(self) -> Order:
        rounds = max(1, self._n_microbatches // self.pp_group_size)
        self.microbatches_per_round = self._n_microbatches // rounds
        if self._n_microbatches % rounds:
            raise ValueError(
                f"{self._called} requires the number of microbatches to be a "
                f"multiple of the number of rounds ({rounds}), "
                f"but got {self._n_microbatches}."
            )
        return self._rounds_order()

    @abstractmethod
    def _rounds_order(self) -> Order:
        """The actions of each rank."""


class ScheduleInterleaved1F1B(_InRounds):
    """1F1B with several stages per rank."""

    _called = "Interleaved 1F1B"

    def _rounds_order(self) -> Order:
        ranks, count = self.pp_group_size, self._n_microbatches
        per_round = self.microbatches_per_round
        return {r: _orders.interleaved(r, ranks, self.n_local_stages, count, per_round) for r in range(ranks)}


class ScheduleInterleavedZeroBubble(_InRounds):
    """1F1B whose pauses are filled with weights' backwards (Qi et al. 2023), with one or several stages per rank."""

    _called = "Zero bubble"

    def _rounds_order(self) -> Order:
        ranks, loops = self.pp_group_size, self.n_local_stages
        limits = [(loops - 1) * self.microbatches_per_round + 2 * ranks - 1] * ranks
        return _orders.zero_bubble(self.stage_ranks, ranks, self._n_microbatches, limits)


class _VShaped(_Looped):
    """A schedule of two stages per rank: there in the order of the ranks, and back. ValueError for another number."""

    def _stage_ranks(self) -> list[int]:
        if self.n_local_stages != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {self.n_local_stages}.")
        ranks = range(self.pp_group_size)
        return [*ranks, *reversed(ranks)]


class ScheduleZBVZeroBubble(_VShaped):
    """Zero bubble with stages in a V: rank r has stages r and 2 * ranks - 1 - r (Qi et al. 2024).

    The first and the last stage are on the first rank, so that each rank keeps as many microbatches.
    """

    def _made_order(self) -> Order:
        ranks = self.pp_group_size
        return _orders.zero_bubble(self.stage_ranks, ranks, self._n_microbatches, [2 * ranks] * ranks)


class ScheduleDualPipeV(_VShaped):
    """Forwards of one stage beside backwards of the other, in a V (DeepSeek 2024). ValueError with fewer batches than stages."""

    def _made_order(self) -> Order:
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                "DualPipeV requires at least as many microbatches as stages, but got "
                f"{self._n_microbatches} microbatches and {self._num_stages} stages."
            )
        ranks = self.pp_group_size
        return {rank: _orders.dual_pipe_v(rank, ranks, self._n_microbatches) for rank in range(ranks)}


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """The schedule of a name, in any case: "GPipe", "1F1B", "DualPipeV" ... ValueError for others."""
    known: dict[str, Any] = {
        "1F1B": Schedule1F1B,
        "Interleaved1F1B": ScheduleInterleaved1F1B,
        "GPipe": ScheduleGPipe,
        "LoopedBFS": ScheduleLoopedBFS,
        "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
        "PipelineScheduleSingle": PipelineScheduleSingle,
        "PipelineScheduleMulti": PipelineScheduleMulti,
        "ZBVZeroBubble": ScheduleZBVZeroBubble,
        "DualPipeV": ScheduleDualPipeV,
    }
    for name, found in known.items():
        if name.lower() == schedule_name.lower():
            chosen: type[_PipelineSchedule] = found
            return chosen
    raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(known)}")
