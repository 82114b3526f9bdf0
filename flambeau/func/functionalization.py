"""functionalize: a function without in-place operators that does what a function with them does."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.functional_tensor import FunctionalTensorMode, ViewCopyMode
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import tensor_from

__all__ = ["functionalize"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function with the results of `func`, and the same arguments written to after it, that a tracer sees without writes.

    remove: "mutations", or "mutations_and_views", with which views are copies as well; else RuntimeError. What `func` writes to
    its arguments is copied to them at the end. Only modes below autograd, as that of make_fx, see a difference; inside vmap and
    forward mode they see the writes.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with "
            "their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be replaced "
            "with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if not local.dispatch_modes or any(x._layout.flavor is not None for x in given):  # nobody looks, or a transform does
            return func(*args, **kwargs)
        copies = ViewCopyMode() if remove == "mutations_and_views" else contextlib.nullcontext()
        mode = FunctionalTensorMode(reads_before_views=False)
        with copies, mode:
            made = func(*args, **kwargs)
            results = pytree.tree_map(lambda x: _placed(x, mode) if isinstance(x, torch.Tensor) else x, made)
            written = [(x, mode.current(x)) for x in given if mode.written(x)]
        for x, value in written:
            if value is not x:
                torch.ops.aten.copy_.default(x, value)
        return results

    return wrapper


def _placed(tensor: torch.Tensor, mode: FunctionalTensorMode) -> torch.Tensor:
    """What a tensor stands for, with the place in the graph of gradients that the tensor has."""
    value: torch.Tensor = mode.current(tensor)
    if value is tensor or tensor._node is None:
        return value
    made = tensor_from(value._storage, value._offset, value._layout)
    made._node, made._index = tensor._node, tensor._index
    return made
