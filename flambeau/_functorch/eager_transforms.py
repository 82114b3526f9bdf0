"""torch._functorch.eager_transforms: derivatives of functions, and how they choose among arguments."""

from __future__ import annotations

from typing import Any

from flambeau.func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from flambeau.func.gradients import Argnums as argnums_t
from flambeau.func.gradients import chosen

__all__ = [
    "_slice_argnums", "argnums_t", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "vjp",
]  # fmt: skip


def _slice_argnums(args: tuple[Any, ...], argnums: argnums_t, as_tuple: bool = True) -> Any:
    """The arguments at argnums, as a tuple; unless as_tuple, one argument by itself. RuntimeError where they don't fit."""
    found = chosen(args, argnums)
    return found if as_tuple or not isinstance(argnums, int) else found[0]
