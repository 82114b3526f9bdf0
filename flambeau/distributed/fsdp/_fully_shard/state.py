"""What a fully sharded module does around its forward and backward.

Before the forward its parameters are gathered, and freed after it; a hook on what the forward returns gathers them for the
backward. When every parameter of a module has its gradient, these are reduced and the parameters freed; what has none by the end
of the backward is left to a callback of the engine. Stands on `group`; used by `api`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed.fsdp._fully_shard.group import ParameterGroup
from flambeau.distributed.fsdp.api import MixedPrecisionPolicy

__all__ = ["FSDPState", "RootContext"]


class RootContext:
    """What the states of one model share: that a backward is under way, and what it gathered."""

    def __init__(self) -> None:
        self.states: list[FSDPState] = []
        self.in_backward = False
        self.is_last_backward = True

    def begin_backward(self) -> None:
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self.end_backward)

    def end_backward(self) -> None:
        """Reduces what no module's hooks did: gradients of modules of which some parameters have none."""
        for state in self.states:
            state.after_backward()
        self.in_backward = False


class FSDPState:
    """The state of one module that fully_shard was called on."""

    def __init__(self, module: nn.Module, policy: MixedPrecisionPolicy, reshard_after_forward: bool | None) -> None:
        self.module, self.policy = module, policy
        self.group: ParameterGroup | None = None
        self.asked_reshard = reshard_after_forward
        self.reshard_after_forward = reshard_after_forward is not False
        self.reshard_after_backward = True
        self.unshard_in_backward = True
        self.prefetched: list[FSDPState] = []
        self.context: RootContext | None = None
        self.is_root = False
        self._pending: set[int] = set()
        self._hooked = False
        self._due = False

    @property
    def _is_root(self) -> bool | None:
        """Whether the module is the outermost; None before its first forward."""
        return None if self.context is None else self.is_root

    def find_root(self) -> None:
        """The module whose forward runs first is the root of all that are in it."""
        if self.context is not None:
            return
        context = RootContext()
        self.is_root = True
        names = {module: name for name, module in self.module.named_modules()}
        for module, name in names.items():
            state = getattr(module, "_fsdp_state", None)
            if isinstance(state, FSDPState):
                if state.context is context:  # of several modules that are gathered together
                    continue
                if state.context is not None:
                    raise RuntimeError(
                        f"FSDP state has already been lazily initialized for {name}\n"
                        "FSDP requires running forward through the root module first"
                    )
                state.check_materialized(names)
                state.context = context
                context.states.append(state)
        if self.asked_reshard is None:
            self.reshard_after_forward = False  # its backward comes right away

    def check_materialized(self, names: dict[nn.Module, str]) -> None:
        """RuntimeError where parameters are on the meta device; `names` are those of modules."""
        parameters = self.group.parameters if self.group is not None else ()
        left = []
        for parameter in parameters:
            if parameter.registered.is_meta:
                module, own = parameter.owners[0]
                left.append(f"{names[module]}.{own}" if names.get(module) else own)
        if left:
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training, but the following were still on meta "
                f"device: {left}\nFor example, call module.to_empty(device) to materialize to device and call "
                "module.reset_parameters() on each module to initialize values."
            )

    # Forward

    def before_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self.find_root()
        if self.policy.cast_forward_inputs and self.policy.param_dtype is not None:
            args, kwargs = _mapped((args, kwargs), _cast_to(self.policy.param_dtype))
        if self.group is not None:
            self.group.unshard()
            self._hook_parameters()
        for state in self.prefetched:
            if state.group is not None:
                state.group.unshard()
        return args, kwargs

    def after_forward(self, output: Any) -> Any:
        assert self.context is not None
        if self.policy.output_dtype is not None:
            output = _mapped(output, _cast_to(self.policy.output_dtype))
        if self.context.in_backward and self._due:  # a forward run again by checkpointing
            return output
        if self.group is not None and self.reshard_after_forward:
            self.group.reshard()
        tensors: list[torch.Tensor] = []
        _mapped(output, lambda x: tensors.append(x) if x.requires_grad and x.grad_fn is not None else None)
        if tensors:
            torch.autograd.graph.register_multi_grad_hook(tensors, lambda _: self.before_backward(), mode="any")
        return output

    # Backward

    def before_backward(self) -> None:
        assert self.context is not None
        self.context.begin_backward()
        if self.group is None:
            return
        if self.unshard_in_backward:
            self.group.unshard()
        self._due = True
        trained = [p for p in self.group.parameters if p.whole is not None and p.whole.requires_grad]
        self._pending = {id(p) for p in trained}

    def _hook_parameters(self) -> None:
        if self._hooked or self.group is None:
            return
        self._hooked = True
        for parameter in self.group.parameters:
            if parameter.whole is not None and parameter.whole.requires_grad:
                parameter.whole.register_post_accumulate_grad_hook(self._arrival(id(parameter)))

    def _arrival(self, key: int) -> Callable[[Any], None]:
        def arrived(_: Any) -> None:
            self._pending.discard(key)
            if self._due and not self._pending:
                self.after_backward()

        return arrived

    def after_backward(self) -> None:
        """Reduces the gradients that are there, and frees the parameters."""
        if self.group is None:
            return
        self.group.reduce()
        if self.reshard_after_backward:
            self.group.reshard()
        self._due = False

    def reset(self) -> None:
        """Forgets an iteration that an exception ended."""
        self._pending, self._due = set(), False
        if self.group is not None:
            self.group.drop_gradients()
            self.group.reshard()


def _cast_to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.to(dtype) if x.is_floating_point() and x.dtype != dtype else x


def _mapped(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """A value with the tensors in it (in lists, tuples, dicts and data classes' fields that are those) replaced."""
    return torch.utils._pytree.tree_map(lambda x: function(x) if isinstance(x, torch.Tensor) else x, value)
