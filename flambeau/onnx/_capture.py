"""From a module to the functional graph of operators that is translated. Stands on torch.export; used by `_export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flambeau as torch
from flambeau.dispatcher.overloads import OpOverload
from flambeau.export import ExportedProgram
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["TorchExportError", "captured", "prepared"]


class TorchExportError(OnnxExporterError):
    """torch.export.export doesn't capture the model."""


def captured(model: Any, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any) -> ExportedProgram:
    """The program of a module. TorchExportError where torch.export.export refuses it, with its reason."""
    if isinstance(model, ExportedProgram):
        return model
    try:
        return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:
        text = f"Failed to export the model with torch.export: {type(error).__name__}: {error}"
        raise TorchExportError(text) from error


def prepared(program: ExportedProgram, custom: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """A program that writes nothing in place where another name could see it, without operators that have no translation."""
    return program.run_decompositions({}) if _writes_seen(program) else program


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
