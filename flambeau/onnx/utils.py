"""torch.onnx.utils: the older names of torch.onnx's functions. Stands on `_export` and modes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau.onnx._export import export
from flambeau.onnx._flags import is_in_onnx_export
from flambeau.onnx.modes import TrainingMode, select_model_mode_for_export
from flambeau.onnx.symbolics import register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = [
    "export", "exporter_context", "is_in_onnx_export", "model_signature", "register_custom_op_symbolic",
    "select_model_mode_for_export", "setup_onnx_logging", "unconvertible_ops", "unregister_custom_op_symbolic",
]  # fmt: skip


@contextlib.contextmanager
def setup_onnx_logging(verbose: bool) -> Iterator[None]:
    """Nothing: exporting says what it does through `verbose`."""
    yield


@contextlib.contextmanager
def exporter_context(model: Any, mode: TrainingMode, verbose: bool) -> Iterator[None]:
    """The model in the mode in which it is exported."""
    with select_model_mode_for_export(model, mode):
        yield


def model_signature(model: torch.nn.Module | Callable[..., Any]) -> inspect.Signature:
    """The signature of a module's forward, or of a function."""
    return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)


def unconvertible_ops(
    model: torch.nn.Module, args: Any, training: TrainingMode = TrainingMode.EVAL, opset_version: int | None = None
) -> tuple[Any, list[str]]:
    """The exported program of a module, and the names of its operators that have no translation: "aten::linalg_qr"."""
    from flambeau.onnx._capture import captured, prepared
    from flambeau.onnx._translate import missing

    with select_model_mode_for_export(model, training):
        program = prepared(captured(model, tuple(args) if isinstance(args, (list, tuple)) else (args,), None, None), {})
    return program, [str(operator._schema.name) for operator in missing(program, {})]
