"""DistributedDataParallel: a module whose copies in several processes train as one, each on its part of the batch.

Stands on reducer and torch.distributed; programs wrap their modules in it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau as torch
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel import logging_data, sparse_gradients, uneven_inputs
from flambeau.nn.parallel import mixed_precision as lower_precision
from flambeau.nn.parallel.delayed_reduction import DelayedReduction
from flambeau.nn.parallel.gradient_buckets import check_annotations
from flambeau.nn.parallel.reducer import Reducer, first_limits

__all__ = ["DistributedDataParallel"]

_DEFAULT_MB = 25
_MixedPrecision = lower_precision.MixedPrecision


class DistributedDataParallel(Module):
    """Averages the gradients of `module` over the processes of a group, while its backward pass goes on.

    All processes make it with the same module; parameters and buffers become those of rank 0. Each process computes on its own
    part of a batch, and finds in `grad` the mean over all. Parameters:

    process_group: default all processes. bucket_cap_mb: how many megabytes of gradients travel together (25). broadcast_buffers:
    buffers become those of rank 0 before each forward pass. find_unused_parameters: look in the graph for parameters without
    gradients. gradient_as_bucket_view: `grad` is a view of what travels, which saves a copy. static_graph: every pass uses the
    same parameters, which the first finds out. init_sync: check and send parameters at the start. mixed_precision: dtypes of
    parameters, gradients and buffers (_MixedPrecision). delay_all_reduce_named_params: (name, parameter) whose gradients are
    exchanged together when the backward pass has reached param_to_hook_all_reduce. Gradients of embeddings with sparse=True stay
    sparse.

    Raises RuntimeError if no parameter requires a gradient, or the processes' parameters differ; ValueError for devices, of
    which the CPU has none.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = process_group or torch.distributed.distributed_c10d._get_default_group()
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        delayed = dict(delay_all_reduce_named_params or ())
        if delayed and param_to_hook_all_reduce is None:
            raise ValueError("delay_all_reduce_named_params needs param_to_hook_all_reduce, which says when they travel")
        ignored |= set(delayed)
        named = [(name, each) for name, each in module.named_parameters() if each.requires_grad and name not in ignored]
        if not named and not delayed:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if device_ids:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU "
                f"modules or CPU modules, but got device_ids {list(device_ids)}, output_device {output_device}, and module "
                f"parameters { ({each.device for _, each in named}) }."
            )
        for _, each in named:
            if isinstance(each, torch.nn.parameter.UninitializedParameter):
                raise RuntimeError(
                    "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a "
                    "dummy forward pass to correctly initialize the modules"
                )
        self.module, self.dim, self.device_ids, self.output_device = module, dim, None, None
        self.device, self.device_type, self.is_multi_device_module = named[0][1].device, named[0][1].device.type, False
        self.parameters_to_ignore = ignored
        self.broadcast_buffers = (
            broadcast_buffers
            if broadcast_buffers is not None
            else (forward_sync_buffers if forward_sync_buffers is not None else True)
        )
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((_DEFAULT_MB if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self._limits = (
            [int(each * (1 << 20)) for each in bucket_cap_mb_list]
            if bucket_cap_mb_list
            else first_limits(self.bucket_bytes_cap)
            if bucket_cap_mb is None
            else [self.bucket_bytes_cap]
        )
        self._join_config: Any = None
        self._divide_by_initial_world_size = True
        self.mixed_precision = mixed_precision
        if init_sync:
            torch.distributed.utils._verify_param_shape_across_processes(self.process_group, [each for _, each in named])
            self._send_from(
                0,
                [each.detach() for name, each in module.named_parameters() if name not in ignored]
                + [each.detach() for each in delayed.values()]
                + self._buffers_to_send(),
            )
        if mixed_precision is not None:
            lower_precision.cast_buffers(module, mixed_precision, ignored)
        self._make_reducer(named)
        self._delayed = (
            DelayedReduction(list(delayed.values()), param_to_hook_all_reduce, self.process_group, self) if delayed else None
        )

    def _make_reducer(self, named: Sequence[tuple[str, Any]]) -> None:
        ids = sparse_gradients.expected(self.module)
        sparse = [index for index, (_, each) in enumerate(named) if id(each) in ids]
        self.reducer = Reducer(
            [each for _, each in named],
            [name for name, _ in named],
            self.process_group,
            self._limits,
            self.find_unused_parameters,
            self.gradient_as_bucket_view,
            self.static_graph,
            sparse,
        )
        exchange = None if self.mixed_precision is None else lower_precision.hook(self.mixed_precision, self.process_group)
        self.reducer.hook = None if exchange is None else (None, exchange)

    def _buffers_to_send(self) -> list[Any]:
        return [each.detach() for name, each in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _send_from(self, rank: int, tensors: Sequence[Any]) -> None:
        """Make tensors those of a rank of the group."""
        torch.distributed.utils._sync_params_and_buffers(self.process_group, tensors, 0, rank)

    # ---------------------------------------------------------------------------------------------- passes

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward pass sends the buffers of rank 0."""
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_to_send())

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        self._before_forward()
        output = self._run(inputs, kwargs)
        self._after_forward(output)
        return output

    def _before_forward(self) -> None:
        if torch.is_grad_enabled() and self.require_backward_grad_sync:
            self.reducer.sync = True
        if self._join_config is not None and self._join_config.enable:
            uneven_inputs.begin(self)
        elif self.will_sync_module_buffers():
            self._send_from(0, self._buffers_to_send())

    def _after_forward(self, output: Any) -> None:
        if torch.is_grad_enabled() and self.require_backward_grad_sync:
            self.require_forward_param_sync = True
            leaves = (
                [each for each in torch.utils._pytree.tree_leaves(output) if isinstance(each, torch.Tensor)]
                if self.find_unused_parameters and not self.static_graph
                else []
            )
            self.reducer.prepare(leaves)
        else:
            self.require_forward_param_sync = False
        self.reducer.sync = self.require_backward_grad_sync

    def _run(self, inputs: Any, kwargs: Any) -> Any:
        if self.mixed_precision is None:
            return self.module(*inputs, **kwargs)
        return lower_precision.run(self.module, self.mixed_precision, self.parameters_to_ignore, inputs, kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Passes inside add to the gradients of this process only; the first one outside reduces the sum."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Any:
        """A context inside of which processes may have different numbers of batches: those that have ended take part with
        gradients of zero until all have. divide_by_initial_world_size: the mean is still over all processes, not over those that
        have data. throw_on_early_termination: all raise RuntimeError when the first has ended.
        """
        return torch.distributed.algorithms.Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> uneven_inputs.UnevenInputs:
        """What Join calls when this process's data have ended. Keywords that are meant for others are left alone."""
        return uneven_inputs.UnevenInputs(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of its collectives."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group of its collectives."""
        return self.process_group

    # ---------------------------------------------------------------------------------------------- settings

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """Have hook(state, bucket: torch.distributed.GradBucket) reduce each bucket, in place of the mean: it returns a Future of
        the flat result. Raises RuntimeError the second time,
        TypeError for what can't be called, ValueError for annotations that don't fit.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        check_annotations(hook)
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = state, hook

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        """Exchange gradients by one of torch.distributed.BuiltinCommHookType: as they are, or in float16."""
        hooks = torch.distributed.algorithms.ddp_comm_hooks.default_hooks
        kinds = torch.distributed.BuiltinCommHookType
        self.register_comm_hook(
            self.process_group,
            {kinds.ALLREDUCE: hooks.allreduce_hook, kinds.FP16_COMPRESS: hooks.fp16_compress_hook}[comm_hook_type],
        )

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What DDP works on, by PyTorch's names."""
        return logging_data.described(self)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Sequence[str]) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def __getstate__(self) -> dict[str, Any]:
        state = copy.copy(self.__dict__)
        for name in ("process_group", "reducer", "_delayed"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = torch.distributed.distributed_c10d._get_default_group()
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._make_reducer(
            [
                (name, each)
                for name, each in self.module.named_parameters()
                if each.requires_grad and name not in self.parameters_to_ignore
            ]
        )
