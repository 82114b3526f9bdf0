"""torch.onnx keeps what programs say of their operators; exporting says what to do instead."""

from __future__ import annotations

import importlib

import pytest

import flambeau as torch
from flambeau.onnx.symbolics import SYMBOLICS


def test_symbolic_functions_are_kept() -> None:
    @torch.onnx.symbolic_helper.parse_args("v", "f")
    def symbolic(g, x, scale):
        return g, x, scale

    torch.onnx.register_custom_op_symbolic("testonnx::scale", symbolic, 11)
    assert SYMBOLICS["testonnx::scale"] == {11: symbolic} and symbolic("g", 1, 2.0) == ("g", 1, 2.0)
    with pytest.raises(AssertionError, match="A mismatch between the number of arguments"):
        symbolic("g", 1, 2, 3)
    torch.onnx.unregister_custom_op_symbolic("testonnx::scale", 11)
    assert not SYMBOLICS["testonnx::scale"]
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"Failed to register operator scale. The symbolic name must match"):
        torch.onnx.register_custom_op_symbolic("scale", symbolic, 11)


def test_operator_sets_can_be_imported() -> None:
    opset = importlib.import_module("flambeau.onnx.symbolic_opset9")
    assert opset is torch.onnx.symbolic_opset9
    with pytest.raises(NotImplementedError, match=r"torch\.onnx\.symbolic_opset9\.linalg_qr is not implemented in flambeau"):
        opset.linalg_qr(None)
    with pytest.raises(AttributeError):
        _ = opset.no_such_operator
    assert torch.onnx.TensorProtoDataType.INT64 == 7
