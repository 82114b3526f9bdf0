"""torch.onnx.symbolic_helper: what symbolic functions are decorated with. Stands on core.operator.unsupported.

A decorated function keeps what it was told of its arguments, for an exporter; called without one, it gets them as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.operator import unsupported as _unsupported
from flambeau.onnx.symbolics import ADVICE

globals().update(
    _unsupported.all_of(
        "onnx.symbolic_helper.",
        ADVICE,
        "_get_const _get_tensor_dim_size _get_tensor_rank _get_tensor_sizes _interpolate_helper _maybe_get_const "
        "_maybe_get_scalar _node_get _reducesum_helper _reshape_helper _slice_helper _sort_helper _squeeze_helper "
        "_topk_helper _unimplemented _unpack_list _unsqueeze_helper check_training_mode dequantize_helper quantize_helper",
    )
)
_KINDS = ("v", "i", "is", "f", "fs", "b", "s", "t", "none")


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a symbolic function with the kinds of its arguments behind the graph: "v" a value of the graph, "i" an int,
    "f" a float, "is" and "fs" lists of them, "b" a bool, "s" a text, "t" a tensor, "none" nothing.

    Calling it with more arguments raises AssertionError.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]

        @functools.wraps(function)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(arg_descriptors) < len(args):
                raise AssertionError(f"A mismatch between the number of arguments ({len(args)}) and their descriptors "
                                     f"({len(arg_descriptors)}) was found at symbolic function '{function.__name__}'. ")
            return function(g, *args, **kwargs)

        return wrapper

    return decorate


def quantized_args(
    *arg_q_descriptors: bool, scale: float | None = None, zero_point: int | None = None, quantize_output: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a symbolic function that also takes quantized values; there are none, so it gets its arguments as they are."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function._arg_q_descriptors = arg_q_descriptors  # type: ignore[attr-defined]
        return function

    return decorate


def _is_value(x: Any) -> bool:
    """False: there is no graph whose value it could be."""
    return False


def _is_none(x: Any) -> bool:
    """Whether it is None."""
    return x is None
