"""Selective checkpointing: which operators' results a checkpointed stretch keeps, and which are computed again.

Two modes below autograd. The first, around the first run, keeps the results that a policy names; the second, around the run that
the backward pass makes, hands them out again in the place of calls. A face of torch.utils.checkpoint.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.base.naming import public_module
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_map

__all__ = ["SAC_IGNORED_OPS", "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]

#: Operators that a policy isn't asked about: they cost nothing.
SAC_IGNORED_OPS: set[Any] = {ops.aten.detach.default, ops.prim.device.default}


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing does with an operator's results; what prefers may be overruled by a compiler."""

    __module__ = public_module("utils.checkpoint")

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVES = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """What a policy is told of a call: `is_recompute`, whether it is made by the run of the backward pass."""

    __module__ = public_module("utils.checkpoint")

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _Kept:
    """A result, which must not be written to until it is asked for."""

    def __init__(self, value: Any, aliases: bool) -> None:
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex() or aliases):
            value = value.detach()
        self.value = value
        self.version = value._version if isinstance(value, torch.Tensor) else None

    def get(self, allow_mutation: bool) -> Any:
        if self.version is not None and not allow_mutation and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value


class _Mode(TorchDispatchMode):
    recomputes = False

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, list[Any]], allow_mutation: bool = False) -> None:
        super().__init__()
        self.policy, self.kept, self.allow_mutation = policy, kept, allow_mutation

    def saves(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Whether the policy has a call's result kept."""
        if func in SAC_IGNORED_OPS:
            return False
        answer = self.policy(SelectiveCheckpointContext(is_recompute=self.recomputes), func, *args, **kwargs)
        return answer if isinstance(answer, bool) else answer in _SAVES


class _First(_Mode):
    """Keeps the results that the policy names."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        saves = self.saves(func, args, kwargs)
        made = func(*args, **kwargs)
        if saves:
            aliases = any(result.alias_info is not None for result in func._schema.returns)
            self.kept[func].append(tree_map(lambda x: _Kept(x, aliases), made))
        return made


class _Again(_Mode):
    """Hands out what was kept, in the order of the calls."""

    recomputes = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.saves(func, args, kwargs):
            return func(*args, **kwargs)
        found = self.kept.get(func)
        if found is None:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not found:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed "
                "under selective activation checkpoint."
            )
        return tree_map(lambda x: x.get(self.allow_mutation), found.pop(0))


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The contexts of the two runs of a checkpointed function, as `checkpoint(..., context_fn=)` asks for them.

    policy_fn_or_list: a function (context, overload, *args, **kwargs) -> CheckpointPolicy (or whether to save), or the overloads
    whose results are kept. allow_cache_entry_mutation: whether kept results may be written to meanwhile. ValueError for a list
    with anything but overloads, TypeError for what is neither.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                more = ""
                if isinstance(op, OpOverloadPacket):
                    more = (
                        " Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                        f"`torch.ops.{op}`, change it to `torch.ops.{op}.default`."
                    )
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{more}")
        saved = frozenset(policy_fn_or_list)

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict[Any, list[Any]] = defaultdict(list)
    return _First(policy, kept), _Again(policy, kept, allow_cache_entry_mutation)
