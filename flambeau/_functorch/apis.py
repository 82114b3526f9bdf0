"""torch._functorch.apis: vmap, grad and grad_and_value; chunk_vmap, which a chunk_size of vmap has replaced."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau._functorch.vmap import _process_batched_inputs
from flambeau.func import grad, grad_and_value, vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """vmap over that many chunks of the examples, one after another; randomness "same" draws the same for all."""

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        size = _process_batched_inputs(in_dims, args, func)[0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(-(-size // chunks), 1))(*args, **kwargs)

    return mapped
