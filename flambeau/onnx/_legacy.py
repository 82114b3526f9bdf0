"""What torch.onnx.export(dynamo=False) has besides: its versions, and the symbolic functions of a program's own.

Stands on `symbolics`; used by `_export`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.onnx._builder import Builder
from flambeau.onnx._constants import ONNX_DEFAULT_OPSET
from flambeau.onnx._graph_context import GraphContext
from flambeau.onnx.errors import OnnxExporterWarning
from flambeau.onnx.symbolics import SYMBOLICS

__all__ = ["WARNING", "caller", "checked_opset", "symbolics"]

WARNING = (
    "You are using the legacy TorchScript-based ONNX export. Starting in PyTorch 2.9, the new torch.export-based ONNX exporter "
    "has become the default. Learn more about the new export logic: https://docs.pytorch.org/docs/stable/onnx_export.html. For "
    "exporting control flow: "
    "https://pytorch.org/tutorials/beginner/onnx/export_control_flow_model_to_onnx_tutorial.html"
)
_OLDEST, _NEWEST = 7, 20


def checked_opset(version: int | None) -> int:
    """The version to write. RuntimeError outside of 7 to 20."""
    version = ONNX_DEFAULT_OPSET if version is None else version
    if version > _NEWEST:
        warnings.warn(
            f"Exporting to ONNX opset version {version} is not supported. by 'torch.onnx.export()'. The highest opset version "
            f"supported is {_NEWEST}. To use a newer opset version, consider 'torch.onnx.export(..., dynamo=True)'. ",
            OnnxExporterWarning,
            stacklevel=3,
        )
    if not _OLDEST <= version <= _NEWEST:
        raise RuntimeError(f"Unsupported onnx_opset_version: {version}")
    return version


def symbolics(version: int) -> dict[str, Callable[..., Any]]:
    """The symbolic functions that were registered, by operator: of each the newest that isn't newer than the operator set."""
    found = {}
    for name, functions in SYMBOLICS.items():
        fitting = [v for v in functions if v <= version]
        if fitting:
            found[name] = functions[max(fitting)]
    return found


def caller(version: int, custom_opsets: Mapping[str, int] | None) -> Callable[..., Any]:
    """How symbolic functions are called: with a graph, and all arguments of the operator, also those that have defaults."""

    def call(builder: Builder, target: Any, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        given = [
            args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            for i, argument in enumerate(target._schema.arguments)
        ]
        return function(GraphContext(builder, version, dict(custom_opsets or {})), *given)

    return call
