"""Convolutions with integer weights. Stands on torch.ops.quantized."""

from __future__ import annotations

from typing import Any, ClassVar

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn.intrinsic import qat as nniqat
from flambeau.ao.nn.quantized.modules.utils import WeightedQuantizedModule, _quantize_weight, loaded
from flambeau.nn.modules.utils import _pair, _single, _triple
from flambeau.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_MODES = {"zeros", "reflect"}
_TUPLE = {1: _single, 2: _pair, 3: _triple}


def _reverse_repeat_padding(padding: Any) -> list[int]:
    """The padding of each dimension twice, the last dimension first, as nn.functional.pad takes it."""
    return [n for n in reversed(padding) for _ in (0, 1)]


class _ConvNd(WeightedQuantizedModule):
    """What all convolutions have in common. dims: of the image; the packed parameters hold the weight and the bias."""

    dims: ClassVar[int]
    _transposed: ClassVar[bool] = False
    _FLOAT_MODULE: ClassVar[Any]
    _NNIQAT_CONV_BN_MODULE: ClassVar[Any] = None
    _NNI_CONV_RELU_MODULE: ClassVar[Any] = None
    _RELU: ClassVar[str] = ""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode)

    def _set(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
    ) -> None:
        super().__init__()
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in (_MODES if not self._transposed else {"zeros"}):
            raise NotImplementedError(
                f"Currently only zero-padding is supported! Got {padding_mode}"
                if self._transposed
                else f"'padding_mode' {padding_mode} is not supported by quantized convolution"
            )
        as_tuple = _TUPLE[self.dims]
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = map(as_tuple, (kernel_size, stride, padding, dilation))
        self.transposed, self.output_padding = self._transposed, as_tuple(output_padding)
        self.groups, self.padding_mode = groups, padding_mode
        shape = [in_channels, out_channels // groups] if self._transposed else [out_channels, in_channels // groups]
        weight = torch._empty_affine_quantized([*shape, *self.kernel_size], scale=1, zero_point=0, dtype=torch.qint8)
        weight.fill_(0)
        self.set_weight_bias(weight, torch.zeros(out_channels, dtype=torch.float) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    # ---- packed parameters
    def _operator(self, end: str) -> Any:
        return getattr(torch.ops.quantized, f"conv{'_transpose' if self._transposed else ''}{self.dims}d{end}")

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take on another weight and bias."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self.dims
        more = (self.output_padding,) if self._transposed else ()
        self._packed_params = self._operator("_prepack")(w, b, self.stride, padding, *more, self.dilation, self.groups)

    def _weight_bias(self) -> Any:
        return self._operator("_unpack")(self._packed_params)

    def weight(self) -> Any:
        """The weight."""
        return self._weight_bias()[0]

    def bias(self) -> Any:
        """The bias, or None."""
        return self._weight_bias()[1]

    # ---- the call
    def _padded(self, input: Any) -> Any:
        if input.dim() != self.dims + 2:
            shape = "(N, C, " + {1: "L", 2: "H, W", 3: "D, H, W"}[self.dims] + ")"
            raise ValueError(f"Input shape must be `{shape}`!")
        if self.padding_mode == "zeros":
            return input
        return nn.functional.pad(input, _reverse_repeat_padding(self.padding), mode=self.padding_mode)

    def forward(self, input: Any) -> Any:
        """The quantized convolution."""
        operator = self._operator(self._RELU)
        operator = operator.new if self.dims > 1 and not self._transposed else operator
        return operator(self._padded(input), self._packed_params, self.scale, self.zero_point)

    # ---- text and state
    def _get_name(self) -> str:
        return f"Quantized{'ConvTranspose' if self._transposed else 'Conv'}{self.dims}d"

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
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
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self.scale = float(loaded(state_dict, prefix, "scale"))
        self.zero_point = int(loaded(state_dict, prefix, "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self).__new__(type(self))
        nn.Module.__init__(made)
        made.__dict__.update(
            {key: value for key, value in self.__dict__.items() if key not in made.__dict__ or key == "training"}
        )
        memo[id(self)] = made
        return made

    def __copy__(self) -> Any:
        return self.__deepcopy__({})

    # ---- from float modules
    @classmethod
    def get_qconv(cls, mod: Any, activation_post_process: Any, weight_post_process: Any = None) -> Any:
        """The module with the weight of `mod`, which an observer has seen, and the scale that another gives."""
        if weight_post_process is None:
            weight_post_process = mod.qconfig.weight()
        weight_post_process(mod.weight)
        assert weight_post_process.dtype is torch.qint8, "Weight observer must have a dtype of qint8"
        weight = _quantize_weight(mod.weight.float(), weight_post_process)
        more = (mod.output_padding,) if cls._transposed else ()
        dilation = (
            (mod.groups, mod.bias is not None, mod.dilation)
            if cls._transposed
            else (mod.dilation, mod.groups, mod.bias is not None)
        )
        kind: Any = cls
        made = kind(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, *more, *dilation, mod.padding_mode
        )
        made.set_weight_bias(weight, mod.bias)
        if activation_post_process is not None and activation_post_process.dtype is not torch.float:
            scale, zero_point = activation_post_process.calculate_qparams()
            made.scale, made.zero_point = float(scale), int(zero_point)
        return made

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The module that a reference convolution becomes, with this scale and zero point of the result."""
        kind: Any = cls
        more = {"output_padding": ref_qconv.output_padding} if cls._transposed else {}
        made = kind(
            ref_qconv.in_channels,
            ref_qconv.out_channels,
            ref_qconv.kernel_size,
            ref_qconv.stride,
            ref_qconv.padding,
            dilation=ref_qconv.dilation,
            groups=ref_qconv.groups,
            bias=ref_qconv.bias is not None,
            padding_mode=ref_qconv.padding_mode,
            **more,
        )
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed convolution becomes, or one that was trained with a rounded weight."""
        if hasattr(mod, "weight_fake_quant"):
            if type(mod) is cls._NNIQAT_CONV_BN_MODULE:
                bn = mod.bn
                mod.weight, mod.bias = fuse_conv_bn_weights(
                    mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
                )
            assert hasattr(mod, "activation_post_process"), "Input QAT module must have observer attached"
            return cls.get_qconv(mod, mod.activation_post_process, mod.weight_fake_quant)
        assert type(mod) is cls._FLOAT_MODULE, (
            f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__} but got:{type(mod)}"
        )
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined."
        activation = getattr(mod, "activation_post_process", None)
        if type(mod) in (cls._NNI_CONV_RELU_MODULE, nni.ConvAdd2d, nni.ConvAddReLU2d):
            qconfig, mod = mod.qconfig, mod[0]
            if not hasattr(mod, "qconfig"):
                mod.qconfig = qconfig
        return cls.get_qconv(mod, activation, mod.qconfig.weight())


class Conv1d(_ConvNd):
    """A convolution in one dimension with an integer weight; nn.Conv1d's arguments."""

    dims = 1
    _FLOAT_MODULE = nn.Conv1d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBn1d
    _NNI_CONV_RELU_MODULE = nni.ConvReLU1d

    def _padded(self, input: Any) -> Any:
        if input.dim() != 3:
            raise ValueError("Input shape must be `(N, C, L)`!")
        return super()._padded(input)


class Conv2d(_ConvNd):
    """A convolution in two dimensions with an integer weight; nn.Conv2d's arguments."""

    dims = 2
    _FLOAT_MODULE = nn.Conv2d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBn2d
    _NNI_CONV_RELU_MODULE = nni.ConvReLU2d


class Conv3d(_ConvNd):
    """A convolution in three dimensions with an integer weight; nn.Conv3d's arguments."""

    dims = 3
    _FLOAT_MODULE = nn.Conv3d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBn3d
    _NNI_CONV_RELU_MODULE = nni.ConvReLU3d


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions have in common."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed transposed convolution becomes."""
        assert type(mod) is cls._FLOAT_MODULE, f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined."
        return cls.get_qconv(mod, getattr(mod, "activation_post_process", None), mod.qconfig.weight())


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution in one dimension with an integer weight."""

    dims = 1
    _FLOAT_MODULE = nn.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution in two dimensions with an integer weight."""

    dims = 2
    _FLOAT_MODULE = nn.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution in three dimensions with an integer weight."""

    dims = 3
    _FLOAT_MODULE = nn.ConvTranspose3d
