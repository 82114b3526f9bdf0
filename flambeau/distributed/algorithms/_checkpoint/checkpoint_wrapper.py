"""torch.distributed.algorithms._checkpoint.checkpoint_wrapper: modules whose activations are computed again, or offloaded.

They need no other process. A wrapper holds its module as `_checkpoint_wrapped_module`, a name that state dicts leave out,
and shows its attributes. Stands on nn and utils.checkpoint.
"""

from __future__ import annotations

import enum
import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau.nn.modules.module import Module

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """utils.checkpoint's use_reentrant=True or False."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module):
    """A module around another one, whose names in state dicts and among parameters are those of the other one."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._without_prefix)
        self._register_load_state_dict_pre_hook(self._with_prefix)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError("Subclasses should implement this class's forward().")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module.__getitem__(key)  # type: ignore[operator]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The parameters with their names in the wrapped module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _without_prefix(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> dict[str, Any]:
        _rename(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)
        return state_dict

    @staticmethod
    def _with_prefix(state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        _rename(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


def _rename(state_dict: dict[str, Any], old: str, new: str) -> None:
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key[len(old) :]] = state_dict.pop(key)


class OffloadWrapper(ActivationWrapper):
    """Keeps what the module saves for its backward pass in the CPU's memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Saves the module's arguments only, and runs it again in the backward pass.

    checkpoint_fn: what to use instead of utils.checkpoint.checkpoint; further arguments go to it.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl == CheckpointImpl.REENTRANT
            checkpoint_fn = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=reentrant)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """CheckpointWrapper(module, ...)."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """OffloadWrapper(module)."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[[Module, bool, int], bool] | None = None,
) -> None:
    """Wrap submodules in place, those inside first: where check_fn is true, or as a policy of fsdp.wrap says.

    The model itself is not wrapped.
    """

    def by_check(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return recurse or check_fn(module)

    policy = auto_wrap_policy or by_check
    for name, child in list(model.named_children()):
        setattr(model, name, _wrapped(child, checkpoint_wrapper_fn, policy)[0])


def _wrapped(module: Module, wrapper: Callable[[Module], Module], policy: Callable[..., bool]) -> tuple[Module, int]:
    """The module with its submodules wrapped, and itself; with the number of parameters that are inside of wrappers."""
    numel, inside = sum(parameter.numel() for parameter in module.parameters()), 0
    if policy(module=module, recurse=True, nonwrapped_numel=numel):
        for name, child in list(module.named_children()):
            child, wrapped = _wrapped(child, wrapper, policy)
            setattr(module, name, child)
            inside += wrapped
        if policy(module=module, recurse=False, nonwrapped_numel=numel - inside):
            return wrapper(module), numel
    return module, inside
