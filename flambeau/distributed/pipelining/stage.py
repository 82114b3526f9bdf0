"""torch.distributed.pipelining.stage: one part of a model on one process, and its messages with the parts before and behind it.

Activations go forward and their gradients back, a message each per tensor and microbatch; stages of one rank hand them on as they
are. What shapes they have is told once, with the first microbatch. Stands on `_backward`; used by `schedules` and `_pipe`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

__all__ = ["PipelineStage", "build_stage"]


def _tensors(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


class PipelineStage:
    """A module that is one of the stages of a pipeline.

    Args:
        submodule: the part, whose results are the positional arguments of the next stage's: tensors.
        stage_index, num_stages: which part, of how many.
        device: where it computes.
        input_args, output_args, output_grads, input_grads: they make no difference: shapes are found with the first microbatch.
        group: the ranks of the pipeline, by default all. Stage i is on the group's rank i modulo its size, unless the schedule
            has another order.
        dw_builder: for a module that puts its weights' gradients off itself: called after its backward, it returns the function
            that computes them.
        get_mesh: None; meshes of DTensors aren't sent between stages (NotImplementedError).
    """

    def __init__(
        self,
        submodule: nn.Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
        get_mesh: Any = None,
    ) -> None:
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if get_mesh is not None:
            raise NotImplementedError("get_mesh: what goes between stages has to be plain tensors; call to_local() before")
        self.dw_builder = dw_builder
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device = torch.device(device)
        self.group = group
        self.group_rank, self.group_size = c10d.get_rank(group), c10d.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        self.stage_index_to_group_rank = {index: index % self.group_size for index in range(num_stages)}
        self.neighbors: dict[int, PipelineStage] = {}  # those of this rank
        self.has_backward = False
        self._known: list[tuple[torch.Size, torch.dtype, bool]] | None = None  # of what comes in
        self._told = False
        self._told_here: Any = None
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        """Whether the batch comes in here."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether the loss is here."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forgets what was kept for the microbatches' backward passes."""
        self.inputs: dict[int, tuple[Any, ...]] = {}
        self.outputs: dict[int, tuple[Any, ...]] = {}
        self._put_off: dict[int, Callable[[], None]] = {}  # weights' parts
        self._handed_on: dict[tuple[int, int, bool], torch.Tensor] = {}
        self._sent: list[tuple[Any, torch.Tensor]] = []

    # Messages

    def _rank_of(self, stage: int) -> int:
        local = self.stage_index_to_group_rank[stage]
        return local if self.group is None else c10d.get_global_rank(self.group, local)

    def _send(self, tensor: torch.Tensor, stage: int, microbatch: int, index: int, gradient: bool) -> None:
        tensor = tensor.detach()
        if stage in self.neighbors:
            self.neighbors[stage]._handed_on[microbatch, index, gradient] = tensor
            return
        tensor = tensor.contiguous()
        work = c10d.isend(tensor, self._rank_of(stage), group=self.group, tag=self._tag(stage, microbatch, index, gradient))
        self._sent.append((work, tensor))  # kept until it is out

    def _receive(self, shape: Any, dtype: Any, stage: int, microbatch: int, index: int, gradient: bool) -> torch.Tensor:
        if stage in self.neighbors:
            return self._handed_on.pop((microbatch, index, gradient)).detach()
        tensor = torch.empty(shape, dtype=dtype)
        tag = self._tag(self.stage_index, microbatch, index, gradient)
        c10d.recv(tensor, self._rank_of(stage), group=self.group, tag=tag)
        return tensor

    def _tag(self, stage: int, microbatch: int, index: int, gradient: bool) -> int:
        """A number of each message: two stages of one rank may await messages of the same rank."""
        return ((microbatch * self.num_stages + stage) * 64 + index) * 2 + gradient

    def finish_sends(self) -> None:
        """Waits until everything is out."""
        for work, _ in self._sent:
            if work is not None:
                work.wait()
        self._sent.clear()

    # Forward

    def forward_one_chunk(self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Runs a microbatch; sends what comes out on to the next stage. Returns it."""
        if not self.is_first:
            args = self._activations(microbatch)
        with torch.set_grad_enabled(self.has_backward):
            made = self.submod(*args, **(kwargs or {}))
        outputs = _tensors(made)
        self.inputs[microbatch], self.outputs[microbatch] = tuple(args), outputs
        if not self.is_last:
            self._pass_on(microbatch, outputs)
        return made

    def _activations(self, microbatch: int) -> tuple[torch.Tensor, ...]:
        before = self.stage_index - 1
        if self._known is None:
            told: list[Any] = [self._told_here]
            if before not in self.neighbors:
                c10d.recv_object_list(told, self._rank_of(before), group=self.group)
            self._known = told[0]
        received = []
        for index, (shape, dtype, needs) in enumerate(self._known):
            tensor = self._receive(shape, dtype, before, microbatch, index, False)
            received.append(tensor.requires_grad_(needs and self.has_backward))
        return tuple(received)

    def _pass_on(self, microbatch: int, outputs: tuple[Any, ...]) -> None:
        after = self.stage_index + 1
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise RuntimeError(
                    f"stage {self.stage_index} gave a {type(output).__name__}; what goes to the next stage has to be tensors"
                )
        if not self._told:
            found = [(output.shape, output.dtype, output.is_floating_point()) for output in outputs]
            if after in self.neighbors:
                self.neighbors[after]._told_here = found
            else:
                c10d.send_object_list([found], self._rank_of(after), group=self.group)
            self._told = True
        for index, output in enumerate(outputs):
            self._send(output, after, microbatch, index, False)

    # Backward

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: torch.Tensor | None = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """The backward of a microbatch; sends the gradients of what came in back to the stage before.

        full_backward: False: the weights' gradients are put off until `backward_weight_one_chunk`. last_backward: no other
        microbatch follows, so that data parallel modules reduce gradients.
        """
        inputs, outputs = self.inputs.pop(bwd_chunk_id), self.outputs.pop(bwd_chunk_id)
        if self.is_last:
            assert loss is not None
            pairs: list[tuple[torch.Tensor, Any]] = [(loss, None)]
        else:
            pairs = self._with_gradients(bwd_chunk_id, outputs)
        gradients = self._backward(bwd_chunk_id, inputs, pairs, full_backward, last_backward)
        if self.is_first:
            return
        for index, (tensor, gradient) in enumerate(zip(inputs, gradients, strict=True)):
            if tensor.requires_grad:
                gradient = gradient if gradient is not None else torch.zeros_like(tensor)
                self._send(gradient, self.stage_index - 1, bwd_chunk_id, index, True)

    def _backward(
        self, microbatch: int, inputs: tuple[Any, ...], pairs: list[Any], full: bool, last: bool
    ) -> list[torch.Tensor | None]:
        """Runs the backward, or its first part. Returns the inputs' gradients."""
        own = [value for value in inputs if isinstance(value, torch.Tensor)]
        apart = not full and not self._reduces and self.dw_builder is None
        if apart and self.is_first:  # nobody waits for the inputs' part
            self._put_off[microbatch] = lambda: self._run(pairs, last)
            return [None] * len(own)
        if apart and pairs:
            outputs, given = zip(*pairs, strict=True)
            weights = list(self.submod.parameters())
            found, groups = stage_backward_input(outputs, given, own, weights)
            self._put_off[microbatch] = lambda: stage_backward_weight(weights, groups) and None
            return list(found)
        self._run(pairs, last)
        put_off = self.dw_builder() if self.dw_builder is not None else lambda: None
        if full:
            put_off()
        else:
            self._put_off[microbatch] = put_off
        return [value.grad for value in own]

    def _run(self, pairs: list[Any], last: bool) -> None:
        with self._synchronized(last):
            if pairs:
                torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """The part of a microbatch's backward that was put off."""
        self._put_off.pop(bwd_chunk_id)()

    def _with_gradients(self, microbatch: int, outputs: tuple[Any, ...]) -> list[tuple[torch.Tensor, Any]]:
        """The outputs that need gradients, with those that the next stage sends."""
        result = []
        for index, output in enumerate(outputs):
            if not output.is_floating_point():
                continue
            gradient = self._receive(output.shape, output.dtype, self.stage_index + 1, microbatch, index, True)
            if output.requires_grad:
                result.append((output, gradient))
        return result

    @property
    def _reduces(self) -> bool:
        """Whether the module reduces gradients over ranks when its backward ends: it isn't taken apart then."""
        return hasattr(self.submod, "set_requires_gradient_sync") or hasattr(self.submod, "no_sync")

    @contextlib.contextmanager
    def _synchronized(self, last: bool) -> Any:
        """Gradients of a data parallel module are reduced with the last microbatch only."""
        if hasattr(self.submod, "set_requires_gradient_sync"):
            self.submod.set_requires_gradient_sync(last)
            yield
        elif not last and hasattr(self.submod, "no_sync"):
            with self.submod.no_sync():
                yield
        else:
            yield

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divides the parameters' gradients by a number, unless it is 1."""
        if grad_scale_factor != 1:
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(grad_scale_factor)


def build_stage(stage_module: nn.Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None) -> PipelineStage:
    """A stage of a model that `pipeline` has cut: `pipe_info` is `Pipe.info()`."""
    return PipelineStage(stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group)
