"""`flambeau.autograd`: gradients, custom Functions, gradient checks. A face over flambeau.core."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from flambeau.autograd import anomaly_mode, batched, function, functional, grad_mode, graph, variable
from flambeau.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from flambeau.autograd.function import NestedIOFunction
from flambeau.autograd.grad_mode import (
    _force_original_view_tracking,
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    is_view_replay_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from flambeau.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from flambeau.autograd.variable import Variable
from flambeau.base.lazy_import import submodules
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.autograd import engine, mutation_guard
from flambeau.core.autograd.function import Function
from flambeau.core.autograd.saved_tensors import SavedTensor
from flambeau.core.operator import unsupported

__all__ = [
    "Function",
    "GradcheckError",
    "NestedIOFunction",
    "SavedTensor",
    "Variable",
    "_force_original_view_tracking",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]

enforce_grad_layout_policy = unsupported.function(
    "autograd.enforce_grad_layout_policy", "gradients have the layout that their computation gives; call .contiguous() on them"
)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors`, weighted with `grad_tensors`, to the `grad` of the leaves they came from.

    tensors: a tensor or a sequence; those with more than one element need a weight of the same shape. retain_graph:
    keep the graph for another pass (default: create_graph). create_graph: record the pass for higher derivatives.
    inputs: the only tensors whose `grad` changes. Raises RuntimeError for mismatched shapes and freed graphs.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if mutation_guard.transformed():
        raise RuntimeError(mutation_guard.NO_BACKWARD)
    try:
        engine.backward(tensors, grad_tensors, retain_graph, create_graph, inputs)
    except Exception as error:
        filter_traceback(error)
        raise


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Sequence[Any]:
    """The gradients of `outputs`, weighted with `grad_outputs`, with respect to `inputs`, as a tuple.

    allow_unused: None for inputs the outputs don't depend on, instead of RuntimeError; materialize_grads: zeros for
    them; is_grads_batched: grad_outputs have a dimension more in front, and so have the results: one gradient per weight, all at
    once. No `grad` attribute changes.
    """
    try:
        if is_grads_batched:
            return batched.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
        return engine.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, only_inputs, allow_unused, materialize_grads
        )
    except Exception as error:
        filter_traceback(error)
        raise


def __getattr__(name: str) -> Any:
    """forward_ad and profiler, imported at first use, and what PyTorch's autograd shows of the profiler."""
    if name == "torch":
        return importlib.import_module("flambeau")
    if name in ("DeviceType", "ProfilerActivity", "_disable_profiler", "_profiler_enabled", "_record_function_with_args_enter",
                "_record_function_with_args_exit", "kineto_available"):  # fmt: skip
        return getattr(importlib.import_module("flambeau.autograd.profiler"), name)
    return _submodules(name)


_submodules = submodules(__name__)
