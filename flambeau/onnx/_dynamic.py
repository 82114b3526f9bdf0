"""Which sizes may change: dynamic_axes as dynamic_shapes, and the names that sizes get in a model. Used by `_export`.

dynamic_axes has axes by the names of inputs and outputs, dynamic_shapes has a tree of torch.export's kinds of sizes, in which a
text stands for one that may change and is called so.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.onnx._graph import Graph, SymbolicDim, Value

__all__ = ["axis_names", "from_axes", "named_output_axes", "without_names"]


def _hint() -> Any:
    return torch.export.Dim.DYNAMIC


def from_axes(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_axes: Mapping[str, Any],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """dynamic_axes as dynamic_shapes, and the arguments in the order of forward's.

    RuntimeError for axes that aren't numbers, and for names that don't fit the inputs.
    """
    shapes: dict[str, Any] = {}
    for name, axes in dynamic_axes.items():
        if name in (output_names or ()):
            continue
        if axes is None:
            shapes[name] = None
        elif isinstance(axes, (dict, list)) and all(isinstance(k, int) for k in axes):
            shapes[name] = dict(axes) if isinstance(axes, dict) else dict.fromkeys(axes, _hint())
        else:
            raise RuntimeError(_failure("The axis in dynamic_axes must be in the form of: dict[int, str] or list[int]."))
    parameters = list(inspect.signature(model.forward).parameters.values())
    inputs = _in_order(parameters, args, kwargs or {})
    leaves, spec = pytree.tree_flatten([x for _, x in inputs])
    names = list(input_names or ())
    if not names:
        names = [name for name, x in inputs for _ in pytree.tree_leaves(x)]
        shapes = {name: shapes.get(name) for name in names}
    tensors = [x for x in leaves if x is not None]
    unknown = [name for name in shapes if name not in names]
    if unknown or len(names) > len(tensors):
        warnings.warn(
            f"Provided key {unknown[0]} for dynamic axes is not a valid input/output name", stacklevel=4
        ) if unknown else None
    ordered = iter([shapes.get(name) for name in names])
    flat = [None if x is None else next(ordered, None) for x in leaves]
    tree = tuple(pytree.tree_unflatten(flat, spec))
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):  # what *args takes is one tuple to torch.export
        named = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        tree = (*tree[:named], tree[named:])
    return tree, tuple(x for _, x in inputs), {}


def _in_order(parameters: list[inspect.Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """(name, value) of each argument that is given, in the order of the parameters."""
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    var = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    made = [(names[i] if i < len(names) else f"{var}_{i - len(names)}", x) for i, x in enumerate(args)]
    for name in names[len(args) :]:
        if name in kwargs:
            made.append((name, kwargs[name]))
    return made


def _failure(text: str) -> str:
    return (
        "# Failed to convert 'dynamic_axes' to 'dynamic_shapes'. Please provide 'dynamic_shapes' directly. Refer to the "
        f"documentation for 'torch.export.export' for more information on dynamic shapes. {text}"
    )


def _is_axes(x: Any) -> bool:
    """Whether it says of one tensor which of its sizes may change."""

    def size(n: Any) -> bool:
        return n is None or not isinstance(n, (dict, list, tuple))

    if isinstance(x, dict):
        return all(isinstance(k, int) and size(n) for k, n in x.items())
    return isinstance(x, (list, tuple)) and bool(x) and all(size(n) for n in x) and any(n is not None for n in x)


def without_names(dynamic_shapes: Any) -> Any:
    """dynamic_shapes as torch.export takes them: texts are sizes that may change."""

    def plain(x: Any) -> Any:
        return _hint() if isinstance(x, str) else x

    def axes(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(n) for k, n in x.items()}
        return type(x)(plain(n) for n in x) if isinstance(x, (list, tuple)) else x

    return pytree.tree_map(axes, dynamic_shapes, is_leaf=_is_axes)


def axis_names(inputs: Sequence[Value], dynamic_shapes: Any) -> dict[str, str]:
    """The names that sizes get, by those that they have in the model."""
    flat = pytree.tree_leaves(dynamic_shapes, is_leaf=lambda x: x is None or _is_axes(x))
    if len(flat) != len(inputs):
        warnings.warn(
            "# ONNX model has different number of inputs than the flatten dynamic_shapes. The dynamic axes will not be renamed.",
            stacklevel=4,
        )
        return {}
    names: dict[str, str] = {}
    for value, axes in zip(inputs, flat):
        pairs = axes.items() if isinstance(axes, dict) else enumerate(axes) if isinstance(axes, (list, tuple)) else ()
        for axis, kind in pairs:
            name = kind if isinstance(kind, str) else getattr(kind, "__name__", None)
            size = value.shape[axis] if value.shape else None
            if name is None or not isinstance(size, SymbolicDim) or size.value is None:
                continue
            if size.value in names and names[size.value] != name:
                warnings.warn(
                    f"# The axis name: {name} will not be used, since it shares the same shape constraints with another axis: "
                    f"{names[size.value]}.",
                    stacklevel=4,
                )
                continue
            names.setdefault(size.value, name)
    return names


def named_output_axes(graph: Graph, dynamic_axes: Mapping[str, Any]) -> None:
    """Give sizes of outputs the names that dynamic_axes has for them."""
    for value in graph.outputs:
        axes = dynamic_axes.get(value.name or "")
        if not axes or value.shape is None:
            continue
        if not isinstance(axes, dict):
            axes = {axis: f"{value.name}_dynamic_axes_{i + 1}" for i, axis in enumerate(axes)}
        for axis, name in axes.items():
            if -len(value.shape) <= axis < len(value.shape):
                value.shape[axis] = SymbolicDim(name)
