"""A Linear with an integer weight. Stands on torch.ops.quantized."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.quantized.modules.utils import (
    WeightedQuantizedModule,
    _hide_packed_params_repr,
    _quantize_weight,
    loaded,
    qparams_of,
)
from flambeau.nn.utils.fusion import fuse_linear_bn_weights
from flambeau.nn.utils.parametrize import type_before_parametrizations

__all__ = ["Linear", "LinearPackedParams"]


class LinearPackedParams(nn.Module):
    """The packed weight and bias of a Linear: qint8, or float16."""

    _version = 3

    def __init__(self, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([1, 1], scale=1, zero_point=0, dtype=torch.qint8)
        else:
            weight = torch.zeros([1, 1], dtype=torch.float)
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight: Any, bias: Any) -> None:
        """Pack another weight and bias. RuntimeError for a dtype that there are no kernels for."""
        if self.dtype is torch.qint8:
            self._packed_params = torch.ops.quantized.linear_prepack(weight, bias)
        elif self.dtype is torch.float16:
            self._packed_params = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def _weight_bias(self) -> Any:
        if self.dtype not in (torch.qint8, torch.float16):
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        return self._packed_params.unpack()

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

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
        version = local_metadata.get("version", None)
        if version is None or version < 2:
            self.dtype = torch.qint8
        else:
            self.dtype = state_dict.pop(prefix + "dtype")
        if version is None or version < 3:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        else:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A product with an integer weight; its input and its result are quantized tensors.

    in_features, out_features: the weight's sizes; bias_: whether there is a bias; dtype: qint8, or float16. `scale` and
    `zero_point` are the result's. RuntimeError for another dtype.
    """

    _version = 3
    _FLOAT_MODULE: Any = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = torch.zeros(out_features, dtype=torch.float) if bias_ else None
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=torch.qint8)
            weight.fill_(0)
        elif dtype is torch.float16:
            weight = torch.zeros([out_features, in_features], dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x: Any) -> Any:
        """The quantized product."""
        return torch.ops.quantized.linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

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
        self.scale = float(loaded(state_dict, prefix, "scale"))
        self.zero_point = int(loaded(state_dict, prefix, "zero_point"))
        version = local_metadata.get("version", None)
        if version is None or version == 1:
            weight, bias = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            state_dict.update({prefix + "_packed_params.weight": weight, prefix + "_packed_params.bias": bias})
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def _weight_bias(self) -> Any:
        return self._packed_params._weight_bias()

    def weight(self) -> Any:
        """The weight."""
        return self._weight_bias()[0]

    def bias(self) -> Any:
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take on another weight and bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_reference(cls, ref_qlinear: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The module that a reference Linear becomes, with this scale and zero point of the result."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed Linear becomes, or one that was trained with a rounded weight."""
        if hasattr(mod, "weight_fake_quant"):
            if type_before_parametrizations(mod).__name__ == "LinearBn1d":
                bn = mod.bn
                mod.weight, mod.bias = fuse_linear_bn_weights(
                    mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
                )
            observer, activation = mod.weight_fake_quant, mod
        else:
            kinds = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, Iterable) else [cls._FLOAT_MODULE]
            names = ", ".join(kind.__name__ for kind in kinds)
            assert type_before_parametrizations(mod) in kinds, (
                f"nnq.{cls.__name__}.from_float only works for {names}, but got: {type(mod)}"
            )
            assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
            activation = mod
            if type_before_parametrizations(mod) == nni.LinearReLU:
                mod = mod[0]
                if not hasattr(mod, "qconfig"):
                    mod.qconfig = activation.qconfig
            observer = mod.qconfig.weight()
        if not use_precomputed_fake_quant:
            observer(mod.weight)
        assert observer.dtype is torch.qint8, "Weight observer must have dtype torch.qint8"
        made = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        made.set_weight_bias(_quantize_weight(mod.weight.float(), observer), mod.bias)
        made.scale, made.zero_point = qparams_of(activation)
        return made
