"""Script modules get their values: those of a file, of a traced module, or of one that is frozen.

Stands on script_module; used by loading, tracing and freezing.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.jit.execution.runtime import place_of
from flambeau.jit.script_module import RecursiveScriptModule, install_hooks
from flambeau.nn.parameter import Parameter

__all__ = ["fill"]


def fill(module: RecursiveScriptModule, values: dict[str, Any]) -> None:
    """Give a module the values of its attributes, parameters and buffers among them; it has no others."""
    kind = module.script_type
    own = module.__dict__
    own.pop("_is_full_backward_hook", None)
    own["script_attributes"].clear()
    for name, value in values.items():
        place = place_of(kind, name)
        if place == "_parameters" and isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value, value.requires_grad)
        own[place][name] = value
    install_hooks(module)
