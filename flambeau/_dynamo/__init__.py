"""torch._dynamo: PyTorch's capture of functions as graphs, which flambeau doesn't do: functions run eagerly.

Marks give functions back as they are, settings can be set, questions are answered, exceptions can be caught; what would have
to capture a function raises NotImplementedError. Stands on flambeau.compiler.
"""

from __future__ import annotations

import sys as _sys

from flambeau._dynamo import config, decorators, eval_frame, exc, external_utils, utils
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
from flambeau._dynamo.eval_frame import OptimizedModule, explain, export, optimize, optimize_assert
from flambeau._dynamo.external_utils import is_compiling
from flambeau.compiler import list_backends, reset
from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "_dynamo.", "functions are not captured to graphs, so there are no backends", "lookup_backend register_backend replay"
    )
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
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
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "patch_dynamo_config",
    "reset",
    "run",
    "set_stance",
    "skip_frame",
    "step_unsupported",
    "substitute_in_graph",
    "utils",
]


def get_recursion_limit() -> int:
    """Python's limit of nested calls."""
    return _sys.getrecursionlimit()


def set_recursion_limit(limit: int) -> None:
    """Set Python's limit of nested calls."""
    _sys.setrecursionlimit(limit)


def is_dynamo_supported() -> bool:
    """False: functions are not captured."""
    return False


def reset_code_caches() -> None:
    """Forget what was compiled: nothing."""
