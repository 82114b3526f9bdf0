"""Marks in a model where tensors would be quantized and dequantized; in a model that isn't converted they change nothing."""

from __future__ import annotations

from typing import Any

from flambeau.nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Marks where quantized computing begins. `qconfig`: how it would be prepared."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """x itself."""
        return x


class DeQuantStub(QuantStub):
    """Marks where quantized computing ends."""


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """The module's result."""
        return self.dequant(self.module(self.quant(X)))
