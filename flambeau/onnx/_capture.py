"""From a module to the functional graph of operators that is translated. Stands on torch.export; used by `_export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.dispatcher.overloads import OpOverload
from flambeau.export import Dim, ExportedProgram, default_decompositions
from flambeau.export._regions import is_stretch
from flambeau.export.dynamic_shapes import combined_args, dimensions_of, specs_of
from flambeau.onnx._quantized import decomposed
from flambeau.onnx._translate import missing
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["TorchExportError", "captured", "prepared"]

_DEPTH = 4  # what operators are taken apart into may have to be taken apart too


class TorchExportError(OnnxExporterError):
    """torch.export.export doesn't capture the model."""


def captured(model: Any, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any) -> ExportedProgram:
    """The program of a module. TorchExportError where torch.export.export refuses it, with its reason."""
    if isinstance(model, ExportedProgram):
        return model
    try:
        wide, wide_kwargs = _without_ones(model, args, kwargs, dynamic_shapes) if dynamic_shapes else (args, kwargs)
        with decomposed(model):
            program = torch.export.export(model, wide, wide_kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:
        text = f"Failed to export the model with torch.export: {type(error).__name__}: {error}"
        raise TorchExportError(text) from error
    program.example_inputs = args, dict(kwargs or {})
    return program


def _without_ones(model: Any, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any) -> tuple[Any, Any]:
    """The arguments with sizes of 2 where a size that may change is 1, which torch.export takes for a fixed one.

    A model is often exported with a batch of one; only shapes are read of example inputs.
    """
    said = dynamic_shapes.dynamic_shapes(model, args, kwargs) if hasattr(dynamic_shapes, "dynamic_shapes") else dynamic_shapes
    wider = {}
    for _, leaf, spec in specs_of(combined_args(model, args, kwargs), said):
        if not isinstance(leaf, torch.Tensor) or spec is None:
            continue
        made = leaf
        for dim, kind in enumerate(dimensions_of(leaf, spec)):
            if leaf.shape[dim] == 1 and kind not in (None, Dim.STATIC, Dim.AUTO) and not hasattr(kind, "value"):
                made = torch.cat([made, made], dim)
        wider[id(leaf)] = made
    return pytree.tree_map(lambda x: wider.get(id(x), x), (args, kwargs))


def prepared(program: ExportedProgram, custom: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """A program that writes nothing in place where another name could see it, without operators that have no translation.

    What it does under autocast, or with gradients switched, becomes part of the whole, with the casts.
    """
    if _writes_seen(program) or any(is_stretch(node) for node in program.graph.nodes):
        program = program.run_decompositions({})
    for _ in range(_DEPTH):
        absent = missing(program, custom)
        known = default_decompositions() if absent else {}
        table = {operator: known[operator] for operator in absent if operator in known}
        if not table:
            break
        program = program.run_decompositions(table)
    return program


def _writes_seen(program: ExportedProgram) -> bool:
    """Whether a tensor is written in place that is a view, or has one by then, which must see what is written."""
    first: dict[Any, Any] = {}
    viewed: set[Any] = set()
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args):
            marks = argument.alias_info
            if marks is None or not isinstance(value, torch.fx.Node):
                continue
            root = first.get(value, value)
            first[node] = root
            if not marks.is_write:
                viewed.add(root)
            elif root in viewed:
                return True
    return False
