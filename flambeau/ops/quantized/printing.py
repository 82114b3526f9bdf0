"""How quantized tensors print: PyTorch's text, character for character. Stands on core.tensor.printing and conversion."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.printing import tensor_body, tensor_repr, with_suffixes
from flambeau.ops.quantized.conversion import dequantize
from flambeau.ops.quantized.tensor import PerTensor, QuantizedTensor, rule

INDENT = len("tensor(")


def quantized_repr(x: Any) -> str:
    """repr() of a quantized tensor."""
    quantizer = x._quantizer
    suffixes = [f"size={tuple(x._layout.shape)}", f"dtype={x.dtype}", f"quantization_scheme={quantizer.scheme}"]
    if isinstance(quantizer, PerTensor):
        suffixes += [f"scale={quantizer.scale}", f"zero_point={quantizer.zero_point}"]
    else:
        scales, zero_points = tensor_repr(quantizer.scales), tensor_repr(quantizer.zero_points)
        suffixes += [f"scale={scales}", f"zero_point={zero_points}", f"axis={quantizer.axis}"]
    return with_suffixes("tensor(" + tensor_body(dequantize(x), INDENT), suffixes, INDENT)


@rule("__repr__", "__str__")
def _repr(x: Any, **_: Any) -> str:
    shown = quantized_repr(x)
    return "Parameter containing:\n" + shown if getattr(x, "_is_param", False) else shown


@rule("__format__")
def _format(x: Any, specification: str) -> str:
    return dequantize(x).__format__(specification) if not x._layout.ndim else _repr(x)


QuantizedTensor.__repr__ = QuantizedTensor.__str__ = _repr  # type: ignore[assignment]
