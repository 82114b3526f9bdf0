"""Packed weights of files, which are as PyTorch writes them: `torch.ScriptObject`, a state, and the name of a class of C++.

Stands on packed; used by torch.ScriptObject when a file is read.
"""

from __future__ import annotations

from typing import Any

from flambeau.quantized_ops.packed import CellParams, ConvParams, EmbeddingParams, HalfLinearParams, LinearParams, PackedParams

__all__ = ["packed_of"]


def packed_of(state: Any, name: str) -> PackedParams:
    """The packed weight of a state and a class's name. NotImplementedError for other classes and versions."""
    kind = name.rpartition(".")[2]
    if kind == "LinearPackedParamsBase":
        weight, bias = state
        return LinearParams(weight, bias) if weight.is_quantized else HalfLinearParams(weight, bias)
    if kind in ("Conv2dPackedParamsBase", "Conv3dPackedParamsBase") and state[0] == "2":
        _, (vector, weight), (bias,) = state
        dims, *numbers = vector.tolist()
        stride, padding, dilation, output_padding = (numbers[i * dims : (i + 1) * dims] for i in range(4))
        groups, transposed = numbers[4 * dims :]
        return ConvParams(dims, weight, bias, stride, padding, dilation, groups, output_padding, bool(transposed))
    if kind == "EmbeddingPackedParamsBase":
        return EmbeddingParams(state[1][0])
    if kind == "CellParamsBase" and state[0] in ("quantized_dynamic", "quantized_fp16"):
        _, biases, _, numbers, (ih, hh) = state
        if state[0] == "quantized_fp16":
            return CellParams(ih, hh, ih.bias(), hh.bias(), False)
        return CellParams(ih, hh, biases[0], biases[1], bool(numbers[0]))
    raise NotImplementedError(f"flambeau can't read packed weights of {name} in this version: {state[0]!r}")
