"""torch.onnx.errors: what exporting raises and warns of."""

from __future__ import annotations

from typing import Any

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]

_ADVICE = (
    "Write the model with other operators; or pass torch.onnx.export(custom_translation_table={{torch.ops.{target}: function}}) "
    "with a function that makes the nodes; or, with dynamo=False, call torch.onnx.register_custom_op_symbolic({name!r}, "
    "symbolic, {version}) before."
)


class OnnxExporterWarning(UserWarning):
    """A warning while exporting."""


class OnnxExporterError(RuntimeError):
    """An error while exporting."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator has no counterpart in ONNX, or none in the version of the operator set.

    name: "aten::relu", version: the operator set's, supported_version: the one from which it can be written, if there is one;
    where: the lines of the model that call it; target: the operator in torch.ops; what: the form that isn't there, and what to
    do.
    """

    def __init__(
        self, name: str, version: int, supported_version: int | None, where: str = "", target: str = "", what: str = ""
    ) -> None:
        self.what, self.supported_version = what, supported_version
        if supported_version is not None:
            text = (
                f"Exporting the operator '{name}' to ONNX opset version {version} is not supported. Support for this operator "
                f"was added in version {supported_version}, try exporting with this version"
            )
        elif name.startswith(("aten::", "prim::", "quantized::")):
            text = f"Exporting the operator '{name}' to ONNX opset version {version} is not supported"
            text += what and " " + what
        else:
            text = (
                f"ONNX export failed on an operator with unrecognized namespace {name}. If you are trying to export a custom "
                "operator, make sure you registered it with the right domain and version."
            )
        if target:
            text += f"\n\n{_ADVICE.format(target=target, name=name, version=version)}"
        if where:
            text += f"\n\nIt is called here:\n{where}"
        super().__init__(text)


class SymbolicValueError(OnnxExporterError):
    """A value of the graph isn't what a symbolic function expects."""

    def __init__(self, msg: str, value: Any) -> None:
        super().__init__(f"{msg}  [Caused by the value '{value}' in the graph.]")
