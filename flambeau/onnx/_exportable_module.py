"""torch.onnx.ExportableModule: a module that says how it is exported. Used by `_export`."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import flambeau as torch

__all__ = ["ExportableModule"]


class ExportableModule(torch.nn.Module, abc.ABC):
    """A module with example inputs: torch.onnx.export(module), or module.to_onnx(), needs no more."""

    __module__ = "torch.onnx"

    @abc.abstractmethod
    def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        """The arguments to export with: positional ones, and those by name or None."""
        raise NotImplementedError

    def dynamic_shapes(self) -> Any:
        """Which sizes may change, as torch.export.export has them; None for none."""
        return None

    def input_names(self) -> Sequence[str] | None:
        """What inputs are called; None for the names of arguments."""
        return None

    def output_names(self) -> Sequence[str] | None:
        """What outputs are called; None for the names of operators."""
        return None

    def to_onnx(self, **kwargs: Any) -> Any:
        """torch.onnx.export of the module, with its arguments."""
        return torch.onnx.export(self, **kwargs)
