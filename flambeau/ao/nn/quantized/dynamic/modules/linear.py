"""A Linear with an integer or float16 weight, for float inputs. Stands on torch.ops.quantized."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.qat import dynamic as nnqatd
from flambeau.ao.nn.quantized.modules import linear
from flambeau.ao.nn.quantized.modules.utils import _quantize_weight

__all__ = ["Linear"]


class Linear(linear.Linear):
    """nn.Linear with a weight of qint8 or float16; inputs are quantized by their own range for the product."""

    _version = 4
    _relu = False

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = 4

    def forward(self, x: Any) -> Any:
        """The product in float32."""
        ops, packed = torch.ops.quantized, self._packed_params
        if packed.dtype is torch.qint8:
            operator = ops.linear_relu_dynamic if self._relu else ops.linear_dynamic
            reduce_range = self.version is not None and self.version >= 4
            return operator(x, packed._packed_params, reduce_range=reduce_range).to(x.dtype)
        if packed.dtype is torch.float16:
            operator = ops.linear_relu_dynamic_fp16 if self._relu else ops.linear_dynamic_fp16
            return operator(x, packed._packed_params).to(x.dtype)
        raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is torch.qint8 else "")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def from_reference(cls, ref_qlinear: Any) -> Any:  # type: ignore[override]
        """The module that a reference Linear becomes."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a Linear becomes, by its qconfig or the default one."""
        kinds = [nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, nni.LinearReLU, nnqatd.Linear]
        assert type(mod) in kinds, "nn.quantized.dynamic.Linear.from_float only works for one of" + str(
            [kind.__name__ for kind in kinds]
        )
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        qconfig = mod.qconfig
        if type(mod) is nni.LinearReLU:
            mod = mod[0]
        if qconfig is not None and qconfig.weight is not None:
            observer = qconfig.weight()
        else:
            from flambeau.ao.quantization.qconfig import default_dynamic_qconfig

            observer = default_dynamic_qconfig.weight()
        dtype = observer.dtype
        assert dtype in (torch.qint8, torch.float16), (
            f"The only supported dtypes for dynamic quantized linear are qint8 and float16 got: {dtype}"
        )
        observer(mod.weight)
        weight = _quantize_weight(mod.weight.float(), observer) if dtype is torch.qint8 else mod.weight.float()
        made = cls(mod.in_features, mod.out_features, dtype=dtype)
        made.set_weight_bias(weight, mod.bias)
        return made
