"""checkpoint: a module that keeps its inputs only, and computes the rest again in the backward pass, without a wrapper."""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = ["checkpoint"]


def checkpoint(module: Any, **kwargs: Any) -> Any:
    """Have a module's forward computed again in its backward pass, and give it back: its class and names of states stay.

    kwargs: as of torch.utils.checkpoint.checkpoint. Raises ValueError for use_reentrant=True, which needs a wrapper.
    """
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. Please use torch.utils.checkpoint.checkpoint instead."
        )
    forward = module.forward

    def again(*args: Any, **named: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(forward, *args, use_reentrant=False, **kwargs, **named)

    module.forward = again
    return module
