"""torch.export._tree_utils: comparing the containers of inputs, and keywords in their order. Stands on utils._pytree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flambeau.utils._pytree import TreeSpec

__all__ = ["is_equivalent", "reorder_kwargs"]


def reorder_kwargs(user_kwargs: Mapping[str, Any], spec: TreeSpec) -> dict[str, Any]:
    """Keyword arguments in the order that `spec` has, the containers of (args, kwargs). ValueError for others than its."""
    wanted = spec.child(1).context
    if set(user_kwargs) != set(wanted):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {list(user_kwargs)} but expected {list(wanted)}"
        )
    return {name: user_kwargs[name] for name in wanted}


def is_equivalent(spec1: TreeSpec, spec2: TreeSpec, equivalence_fn: Callable[[type | None, Any, type | None, Any], bool]) -> bool:
    """Whether containers are alike by equivalence_fn(type, context, other type, other context), each with its parts."""
    if not equivalence_fn(spec1.type, spec1.context, spec2.type, spec2.context):
        return False
    parts, others = spec1.children(), spec2.children()
    return len(parts) == len(others) and all(is_equivalent(a, b, equivalence_fn) for a, b in zip(parts, others))
