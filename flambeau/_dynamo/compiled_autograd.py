"""torch._dynamo.compiled_autograd: backward passes as graphs, which are not made here: the engine runs them."""

from __future__ import annotations

from flambeau.core.operator import unsupported as _unsupported

__all__ = ["compiled_autograd_enabled", "in_compiled_autograd_region"]

compiled_autograd_enabled = in_compiled_autograd_region = False

globals().update(
    _unsupported.all_of(
        "_dynamo.compiled_autograd.",
        "backward passes are not captured; a backend on aot_autograd gets graphs of a function's own backward pass",
        "_enable _disable reset",
    )
)
