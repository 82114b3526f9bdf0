"""How reference modules keep what their weights are quantized by. Stands on nn; used by the reference modules."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.nn import Module

__all__ = ["ReferenceQuantizedModule"]

_BY_CHANNEL = (torch.per_channel_affine, torch.per_channel_affine_float_qparams)
_SCHEMES = (None, torch.per_tensor_affine, *_BY_CHANNEL)
_DEFAULT = {"qscheme": torch.per_tensor_affine, "dtype": torch.quint8, "scale": 1.0, "zero_point": 0}


class WeightQParams:
    """How one weight is quantized, kept as attributes and buffers `{name}_scale`, `{name}_zero_point`, ... of a module."""

    @staticmethod
    def keep(module: Any, name: str, given: dict[str, Any], device: Any) -> None:
        """Keep the parameters of a weight. AssertionError for an unknown scheme."""
        scheme, dtype = given["qscheme"], given["dtype"]
        if scheme not in _SCHEMES:
            raise AssertionError(f"qscheme: {scheme} is not support in {module._get_name()}")
        setattr(module, f"{name}_qscheme", scheme)
        setattr(module, f"{name}_dtype", dtype)
        module.is_decomposed = given.get("is_decomposed", False)
        if scheme is None:
            module.register_buffer(f"{name}_scale", torch.tensor(1.0, dtype=torch.float, device=device))
            module.register_buffer(f"{name}_zero_point", torch.tensor(0, dtype=torch.int, device=device))
            module.register_buffer(f"{name}_axis", torch.tensor(0, dtype=torch.int, device=device))
            setattr(module, f"{name}_axis_int", 0)
            return
        scale, zero_point = given["scale"], given["zero_point"]
        if isinstance(scale, torch.Tensor):
            scale = scale.detach().clone()
        else:
            scale = torch.tensor(scale, dtype=torch.float, device=device)
        if isinstance(zero_point, torch.Tensor):
            zero_point = zero_point.detach().clone()
        else:
            kind = torch.float if scheme is torch.per_channel_affine_float_qparams else torch.int
            zero_point = torch.tensor(zero_point, dtype=kind, device=device)
        axis = given["axis"] if scheme in _BY_CHANNEL else 0
        module.register_buffer(f"{name}_scale", scale)
        module.register_buffer(f"{name}_zero_point", zero_point)
        module.register_buffer(f"{name}_axis", torch.as_tensor(axis, dtype=torch.int, device=device).clone())
        setattr(module, f"{name}_axis_int", int(axis))
        setattr(module, f"{name}_quant_min", given.get("quant_min"))
        setattr(module, f"{name}_quant_max", given.get("quant_max"))

    @staticmethod
    def of(module: Any, name: str) -> dict[str, Any]:
        """The parameters of a weight that is kept."""
        return {
            key: getattr(module, f"{name}_{key}", None)
            for key in ("qscheme", "dtype", "scale", "zero_point", "axis_int", "quant_min", "quant_max")
        }


def quantized(weight: Any, qparams: dict[str, Any], decomposed: bool) -> Any:
    """A weight as a quantized tensor, or as a tensor of integers if decomposed; in half precision where the dtype is float16."""
    scheme, dtype, axis = qparams["qscheme"], qparams["dtype"], qparams["axis_int"]
    scale, zero_point = qparams["scale"], qparams["zero_point"]
    if dtype is torch.float16:
        return weight.to(torch.float16)
    if scheme not in _SCHEMES[1:]:
        raise ValueError(f"Unsupported dtype and qscheme: {dtype}, {scheme}")
    if not decomposed:
        if scheme is torch.per_tensor_affine:
            return torch.quantize_per_tensor(weight, scale, zero_point, dtype)
        return torch.quantize_per_channel(weight, scale, zero_point, axis, dtype)
    from flambeau.ao.quantization.utils import to_underlying_dtype

    kind = to_underlying_dtype(dtype)
    least, most = qparams["quant_min"], qparams["quant_max"]
    operators = torch.ops.quantized_decomposed
    if scheme is torch.per_tensor_affine:
        return operators.quantize_per_tensor(weight, scale.item(), int(zero_point.item()), least, most, kind)
    return operators.quantize_per_channel(weight, scale, zero_point, axis, least, most, kind)


def dequantized(weight: Any, qparams: dict[str, Any], decomposed: bool) -> Any:
    """A weight as it is after it was quantized."""
    if qparams["qscheme"] not in _SCHEMES[1:]:
        return weight
    integers = quantized(weight, qparams, decomposed)
    if qparams["dtype"] is torch.float16 or not decomposed:
        return integers.to(torch.float) if qparams["dtype"] is torch.float16 else integers.dequantize()
    scale, zero_point, axis = qparams["scale"], qparams["zero_point"], qparams["axis_int"]
    least, most = qparams["quant_min"], qparams["quant_max"]
    operators = torch.ops.quantized_decomposed
    if qparams["qscheme"] is torch.per_tensor_affine:
        return operators.dequantize_per_tensor(integers, scale.item(), int(zero_point.item()), least, most, integers.dtype)
    return operators.dequantize_per_channel(integers, scale, zero_point, axis, least, most, integers.dtype)


class ReferenceQuantizedModule(Module):
    """A float module that rounds its weight, `weight`, as a quantized one would have it."""

    def _init_weight_qparams(self, weight_qparams: dict[str, Any] | None, device: Any) -> None:
        WeightQParams.keep(self, "weight", dict(_DEFAULT) if weight_qparams is None else weight_qparams, device)

    def get_weight(self) -> Any:
        """The weight after it was quantized, as floats."""
        return dequantized(self.weight, WeightQParams.of(self, "weight"), self.is_decomposed)

    def get_quantized_weight(self) -> Any:
        """The quantized weight."""
        return quantized(self.weight, WeightQParams.of(self, "weight"), self.is_decomposed)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for key in ("qscheme", "dtype"):
            destination[f"{prefix}weight_{key}"] = getattr(self, f"weight_{key}")

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for key in ("qscheme", "dtype"):
            if f"{prefix}weight_{key}" in state_dict:
                setattr(self, f"weight_{key}", state_dict.pop(f"{prefix}weight_{key}"))
        for key in ("scale", "zero_point"):
            # A scale by channel may take the place of one for the whole weight.
            found, own = state_dict.get(f"{prefix}weight_{key}"), getattr(self, f"weight_{key}")
            if found is not None and own is not None and found.shape != own.shape:
                setattr(self, f"weight_{key}", torch.empty_like(found))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)
        self.weight_axis_int = int(self.weight_axis)
