"""torch.onnx.symbolic_helper: what symbolic functions are decorated with and ask of their arguments.

An argument is a Value, or a number, text, list or None of the program as it is. Stands on `_graph`; used by programs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import flambeau as torch
from flambeau.core.operator import unsupported as _unsupported
from flambeau.onnx._graph import Value
from flambeau.onnx._types import as_tensor
from flambeau.onnx.errors import OnnxExporterError, SymbolicValueError
from flambeau.onnx.symbolics import ADVICE

globals().update(
    _unsupported.all_of("onnx.symbolic_helper.", ADVICE, "_interpolate_helper _node_get dequantize_helper quantize_helper")
)
_KINDS: dict[str, Callable[[Any], Any]] = {
    "i": int, "f": float, "b": bool, "s": str, "t": lambda x: x if isinstance(x, torch.Tensor) else torch.tensor(x),
    "is": lambda x: [int(n) for n in x], "fs": lambda x: [float(n) for n in x],
}  # fmt: skip


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a symbolic function with the kinds of its arguments behind the graph: "v" a value of the graph, "i" an int,
    "f" a float, "is" and "fs" lists of them, "b" a bool, "s" a text, "t" a tensor, "none" nothing.

    Calling it with more arguments raises AssertionError, with a value that isn't constant where a number is wanted
    SymbolicValueError.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]
        names = list(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(arg_descriptors) < len(args):
                raise AssertionError(
                    f"A mismatch between the number of arguments ({len(args)}) and their descriptors "
                    f"({len(arg_descriptors)}) was found at symbolic function '{function.__name__}'. "
                )
            parsed = [
                _parse_arg(x, kind, names[i] if i < len(names) else None, function.__name__)
                for i, (x, kind) in enumerate(zip(args, arg_descriptors))
            ]
            return function(g, *parsed, **kwargs)

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


# ---------------------------------------------------------------- constants


def _parse_arg(value: Any, desc: str, arg_name: str | None = None, node_name: str | None = None) -> Any:
    """An argument as the kind that it is wanted as. SymbolicValueError for a value that isn't constant."""
    if desc in ("none", "v") or value is None:
        return value
    if isinstance(value, Value):
        if value.constant is None:
            raise SymbolicValueError(
                f"Expected node type 'onnx::Constant' for argument '{arg_name}' of node '{node_name}', got a value that is "
                "computed.",
                value,
            )
        value = as_tensor(value.constant)
        if desc != "t":
            value = value.tolist()
    if desc not in _KINDS:
        raise OnnxExporterError(f"Unknown kind of argument '{desc}' of node '{node_name}'")
    if desc in ("is", "fs") and not isinstance(value, (list, tuple)):
        value = [value]
    return _KINDS[desc](value)


def _is_value(x: Any) -> bool:
    """Whether it is a value of the graph."""
    return isinstance(x, Value)


_is_tensor = _is_value


def _is_none(x: Any) -> bool:
    """Whether it is None."""
    return x is None


def _is_constant(value: Any) -> bool:
    """Whether it is known while the model is written."""
    return not isinstance(value, Value) or value.constant is not None


def _maybe_get_const(value: Any, descriptor: str) -> Any:
    """A constant as a kind; anything else as it is."""
    return _parse_arg(value, descriptor) if isinstance(value, Value) and value.constant is not None else value


def _maybe_get_scalar(value: Any) -> Any:
    """A constant without dimensions as a tensor; anything else as it is."""
    made = _maybe_get_const(value, "t")
    return made if isinstance(made, torch.Tensor) and not made.dim() else value


def _get_const(value: Any, desc: str, arg_name: str) -> Any:
    """A constant as a kind. SymbolicValueError for what is computed."""
    if not _is_constant(value):
        raise SymbolicValueError(f"ONNX symbolic expected a constant value of the '{arg_name}' argument, got '{value}'", value)
    return _parse_arg(value, desc)


def _unpack_list(list_value: Any) -> list[Any]:
    """The elements of a list. SymbolicValueError for what is none."""
    if not isinstance(list_value, (list, tuple)):
        raise SymbolicValueError(f"ONNX symbolic expected node type prim::ListConstruct, got '{list_value}'.", list_value)
    return list(list_value)


# ---------------------------------------------------------------- sizes


def _get_tensor_rank(x: Any) -> int | None:
    """How many dimensions a value has; None where that isn't known."""
    return x.type().dim() if isinstance(x, Value) else None


def _get_tensor_sizes(x: Any, allow_nonstatic: bool = True) -> list[int | None] | None:
    """The sizes of a value, None for those that may change; None for all of them unless that is allowed."""
    if not isinstance(x, Value):
        return None
    return x.type().varyingSizes() if allow_nonstatic else x.type().sizes()  # type: ignore[return-value]


def _get_tensor_dim_size(x: Any, dim: int) -> int | None:
    """One size of a value."""
    sizes = _get_tensor_sizes(x)
    return sizes[dim] if sizes else None


def _unimplemented(op: str, msg: str, value: Any = None) -> NoReturn:
    """Raise that an operator can't be written."""
    text = f"Unsupported: ONNX export of operator {op}, {msg}."
    raise SymbolicValueError(text, value) if isinstance(value, Value) else OnnxExporterError(text)


# ---------------------------------------------------------------- nodes whose numbers became inputs in later versions


def _unsqueeze_helper(g: Any, input: Value, axes_i: Sequence[int]) -> Any:
    """New dimensions."""
    return g.op("Unsqueeze", input, list(axes_i)) if len(axes_i) else input


def _squeeze_helper(g: Any, input: Value, axes_i: Sequence[int]) -> Any:
    """Without dimensions of size 1."""
    return g.op("Squeeze", input, list(axes_i))


def _reducesum_helper(
    g: Any, input: Value, axes_i: Sequence[int] | None = None, keepdims_i: int = 1, noop_with_empty_axes_i: int = 0
) -> Any:
    """A sum along dimensions."""
    axes = None if axes_i is None else list(axes_i)
    return g.op("ReduceSum", input, axes, keepdims_i=keepdims_i, noop_with_empty_axes_i=noop_with_empty_axes_i)


def _reshape_helper(g: Any, input: Value, shape: Any, allowzero: int = 0) -> Any:
    """Another shape."""
    return g.op("Reshape", input, shape, allowzero_i=allowzero)


def _slice_helper(g: Any, input: Value, axes: Any, starts: Any, ends: Any, steps: Any = None) -> Any:
    """A part along dimensions."""
    return g.op("Slice", input, starts, ends, axes, steps)


def _topk_helper(g: Any, input: Value, k: Any, dim: int, largest: bool = True, sorted: bool = False, out: Any = None) -> Any:
    """The first elements of an order, and their places."""
    count = k if isinstance(k, (list, tuple, Value)) else [k]
    return g.op("TopK", input, count, axis_i=dim, largest_i=int(largest), sorted_i=int(sorted), outputs=2)


def _sort_helper(g: Any, input: Value, dim: int, descending: bool = True, out: Any = None) -> Any:
    """All elements in order, and their places."""
    size = g.op("Shape", input, start_i=dim, end_i=dim + 1 or None)
    return g.op("TopK", input, size, axis_i=dim, largest_i=int(descending), outputs=2)


def check_training_mode(op_train_mode: int, op_name: str) -> None:
    """Nothing: operators are exported in the mode that the model was in."""
