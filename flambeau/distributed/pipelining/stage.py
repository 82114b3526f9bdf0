"""torch.distributed.pipelining.stage: one part of a model on one process, and its messages with the parts before and behind it.

Activations go forward and their gradients back, a message each per tensor and microbatch. What shapes they have is told once,
with the first microbatch. Used by `schedules`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d

__all__ = ["PipelineStage"]


def _tensors(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


class PipelineStage:
    """A module that is one of the stages of a pipeline.

    Args:
        submodule: the part, whose results are the positional arguments of the next stage's: tensors.
        stage_index, num_stages: which part, of how many.
        device: where it computes.
        input_args, output_args: taken for what they allow: shapes are found with the first microbatch.
        group: the ranks of the pipeline, by default all. Stage i is on the group's rank i modulo its size.
    """

    def __init__(
        self,
        submodule: nn.Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        group: Any = None,
        dw_builder: Callable[..., Any] | None = None,
    ) -> None:
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if dw_builder is not None:
            raise NotImplementedError("dw_builder: backward passes aren't taken apart here; leave it out")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device = torch.device(device)
        self.group = group
        self.group_rank, self.group_size = c10d.get_rank(group), c10d.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        self.has_backward = False
        self._known: list[tuple[torch.Size, torch.dtype, bool]] | None = None  # of what comes in
        self._told = False
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
        self._sent: list[tuple[Any, torch.Tensor]] = []

    # Messages

    def _rank_of(self, stage: int) -> int:
        local = stage % self.group_size
        return local if self.group is None else c10d.get_global_rank(self.group, local)

    def _send(self, tensor: torch.Tensor, stage: int, tag: int) -> None:
        tensor = tensor.detach().contiguous()
        work = c10d.isend(tensor, self._rank_of(stage), group=self.group, tag=tag)
        self._sent.append((work, tensor))  # kept until it is out

    def _receive(self, shape: Any, dtype: Any, stage: int, tag: int) -> torch.Tensor:
        tensor = torch.empty(shape, dtype=dtype)
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
            told: list[Any] = [None]
            c10d.recv_object_list(told, self._rank_of(before), group=self.group)
            self._known = told[0]
        received = []
        for index, (shape, dtype, needs) in enumerate(self._known):
            tensor = self._receive(shape, dtype, before, self._tag(self.stage_index, microbatch, index, False))
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
            c10d.send_object_list([found], self._rank_of(after), group=self.group)
            self._told = True
        for index, output in enumerate(outputs):
            self._send(output, after, self._tag(after, microbatch, index, False))

    # Backward

    def backward_one_chunk(self, microbatch: int, loss: torch.Tensor | None, last: bool) -> None:
        """The backward of a microbatch; sends the gradients of what came in back to the stage before."""
        inputs, outputs = self.inputs.pop(microbatch), self.outputs.pop(microbatch)
        with self._synchronized(last):
            if self.is_last:
                assert loss is not None
                loss.backward()
            else:
                self._backward_from(microbatch, outputs)
        if self.is_first:
            return
        for index, tensor in enumerate(inputs):
            if tensor.requires_grad:
                gradient = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
                tag = self._tag(self.stage_index - 1, microbatch, index, True)
                self._send(gradient, self.stage_index - 1, tag)

    def _backward_from(self, microbatch: int, outputs: tuple[Any, ...]) -> None:
        wanted, gradients = [], []
        for index, output in enumerate(outputs):
            if not output.is_floating_point():
                continue
            tag = self._tag(self.stage_index, microbatch, index, True)
            gradient = self._receive(output.shape, output.dtype, self.stage_index + 1, tag)
            if output.requires_grad:
                wanted.append(output)
                gradients.append(gradient)
        if wanted:
            torch.autograd.backward(wanted, gradients)

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
