"""torch._dynamo: functions as graphs for backends, by a tracer of segments, and the face of torch.compile.

For a backend that takes graphs a function's Python runs on every call; what it asks of torch is a graph up to where it asks for
a value (`segments`). The default one takes no graphs: flambeau.capture.
Stands on fx and _subclasses; used by torch.compile and torch.compiler.
"""

from __future__ import annotations

import sys as _sys

from flambeau._dynamo import backends, config, decorators, eval_frame, exc, external_utils, testing, utils
from flambeau._dynamo.backends.registry import list_backends, lookup_backend, register_backend
from flambeau._dynamo.compiled import reset
from flambeau._dynamo.decorators import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disable_nested_graph_breaks,
    disallow_in_graph,
    dont_skip_tracing,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    nonstrict_trace,
    patch_dynamo_config,
    run,
    set_stance,
    skip_frame,
    step_unsupported,
    substitute_in_graph,
)
from flambeau._dynamo.eval_frame import OptimizedModule, is_dynamo_supported, optimize, optimize_assert
from flambeau._dynamo.explaining import explain
from flambeau._dynamo.exporting import export
from flambeau._dynamo.external_utils import is_compiling
from flambeau.core.operator import unsupported as _unsupported

globals().update(_unsupported.all_of("_dynamo.", "no traces of compilations are kept; compile the function again", "replay"))

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "backends",
    "config",
    "decorators",
    "disable",
    "disable_nested_graph_breaks",
    "disallow_in_graph",
    "dont_skip_tracing",
    "error_on_graph_break",
    "eval_frame",
    "exc",
    "explain",
    "export",
    "external_utils",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "patch_dynamo_config",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "skip_frame",
    "step_unsupported",
    "substitute_in_graph",
    "testing",
    "utils",
]


def get_recursion_limit() -> int:
    """Python's limit of nested calls."""
    return _sys.getrecursionlimit()


def set_recursion_limit(limit: int) -> None:
    """Set Python's limit of nested calls."""
    _sys.setrecursionlimit(limit)


def reset_code_caches() -> None:
    """Forget what was compiled."""
    reset()
