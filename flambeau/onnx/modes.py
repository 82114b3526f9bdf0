"""What torch.onnx says of the mode of a model, and of what operators become. Used by `_export`."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import flambeau as torch

__all__ = ["OperatorExportTypes", "TrainingMode", "select_model_mode_for_export"]


class TrainingMode(enum.IntEnum):
    """In which mode a model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """What operators become."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


@contextlib.contextmanager
def select_model_mode_for_export(model: Any, mode: TrainingMode) -> Iterator[None]:
    """The model in evaluation or training while the context is on. TypeError for what is no TrainingMode."""
    if not isinstance(mode, TrainingMode):
        raise TypeError(f"'mode' should be a torch.onnx.TrainingMode enum, but got '{type(mode)}'.")
    before = {m: m.training for m in model.modules()} if isinstance(model, torch.nn.Module) else {}
    if before and mode != TrainingMode.PRESERVE:
        model.train(mode == TrainingMode.TRAINING)
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training
