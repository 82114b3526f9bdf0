"""torch._dynamo._trace_wrapped_higher_order_op: indexing a tensor by numbers that are tensors, as masks of attention do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.modes.overrides import TorchFunctionMode
from flambeau.core.operator import unsupported as _unsupported

__all__ = ["TransformGetItemToIndex", "trace_wrapped"]

trace_wrapped = _unsupported.function("_dynamo.trace_wrapped", "functions are not captured to graphs; call the function itself")


class TransformGetItemToIndex(TorchFunctionMode):
    """Context: `x[i, j]` by tensors alone is a copy even where they are numbers, so that vmap may give many of each.

    Here vmap takes such indices without it, too; outside of vmap the context keeps `x[i]` from being a view.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
            if result._is_view() and all(isinstance(i, torch.Tensor) for i in indices):
                return result.clone()
        return result
