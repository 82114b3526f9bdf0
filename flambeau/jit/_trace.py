"""torch.jit._trace: the names by which libraries look into traces."""

from __future__ import annotations

from typing import Any

from flambeau.jit.tracing.current import is_tracing, submodule_names
from flambeau.jit.tracing.entry import trace, trace_module
from flambeau.jit.tracing.modules import TopLevelTracedModule, TracedModule
from flambeau.jit.tracing.warnings import TracerWarning, TracingCheckError

__all__ = ["TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "is_tracing", "trace", "trace_module"]


def __getattr__(name: str) -> Any:
    if name == "_trace_module_map":
        return submodule_names()
    raise AttributeError(f"module 'torch.jit._trace' has no attribute '{name}'")
