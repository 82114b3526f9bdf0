"""Wrapping the submodules that a policy chooses, from the inside out. Used by FullyShardedDataParallel's `auto_wrap_policy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import nn
from flambeau.distributed.fsdp.wrap import CustomPolicy

__all__ = ["wrap_children"]


def wrap_children(module: nn.Module, policy: Any, wrapper: Callable[..., nn.Module], options: dict[str, Any]) -> int:
    """Replaces the children that the policy says by wrappers of them. Returns how many elements of parameters they have.

    A policy is called as `policy(module=, recurse=, nonwrapped_numel=)`; a CustomPolicy's function says with which options.
    """
    ignored = {id(parameter) for parameter in options.get("ignored_states", ())}
    wrapped = 0
    for name, child in list(module.named_children()):
        if isinstance(child, wrapper):  # type: ignore[arg-type]
            continue
        numel = sum(p.numel() for p in child.parameters() if id(p) not in ignored)
        if isinstance(policy, CustomPolicy):
            inside = wrap_children(child, policy, wrapper, options)
            chosen = policy._lambda_fn(child)
            chosen = {} if chosen is True else chosen
            if isinstance(chosen, dict):
                setattr(module, name, wrapper(child, **{**options, **chosen}))
                inside = numel
        else:
            inside = 0
            if policy(module=child, recurse=True, nonwrapped_numel=numel):
                inside = wrap_children(child, policy, wrapper, options)
            if policy(module=child, recurse=False, nonwrapped_numel=numel - inside):
                setattr(module, name, wrapper(child, **options))
                inside = numel
        wrapped += inside
    return wrapped
