"""torch.distributed.fsdp.wrap: which submodules are wrapped. Policies are functions of a module and need no other process.

A policy is called as `policy(module, recurse, nonwrapped_numel)`: with recurse=True it says whether to go on into the
module's children, with False whether to wrap the module. Stands on nn; used by `_wrapping`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.nn.modules.activation import MultiheadAttention
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module."""
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]) -> bool:
    """Wrap the modules for which lambda_fn is true."""
    return True if recurse else lambda_fn(module)


def _module_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, module_classes: set[type[Module]]) -> bool:
    return True if recurse else isinstance(module, tuple(module_classes))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Wrap the instances of these classes."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]) -> bool:
    """Wrap what one of the policies wraps."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Wrap modules of at least min_num_params parameters that aren't wrapped yet, but for some containers.

    force_leaf_modules: classes whose children are left alone; exclude_wrap_modules: classes that aren't wrapped.
    """
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules  # type: ignore[attr-defined]
    excluded = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules  # type: ignore[attr-defined]
    others = leaves if recurse else excluded
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(others))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """The policy that wraps the instances of some classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes_str})"


class CustomPolicy:
    """The policy of a function: False leaves a module alone, True wraps it, a dict wraps it with these arguments."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


_wrapper: tuple[Callable[..., Module], dict[str, Any]] | None = None


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Context: `wrap(module)` is wrapper_cls(module, **wrapper_kwargs)."""
    global _wrapper
    before, _wrapper = _wrapper, (wrapper_cls, wrapper_kwargs)
    try:
        yield
    finally:
        _wrapper = before


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module wrapped as the surrounding enable_wrap says; the module itself outside of one."""
    if _wrapper is None:
        return module
    wrapper_cls, wrapper_kwargs = _wrapper
    return wrapper_cls(module, **{**wrapper_kwargs, **wrap_overrides})
