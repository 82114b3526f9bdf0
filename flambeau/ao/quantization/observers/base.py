"""What observers have in common: constructors with some arguments given, and scale and zero point from a range.

Stands on nn and ao.quantization.utils.
"""

from __future__ import annotations

import functools
import warnings
from abc import ABCMeta, abstractmethod
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.utils import (
    calculate_qmin_qmax,
    check_min_max_valid,
    is_per_channel,
    is_per_tensor,
    validate_qmin_qmax,
)
from flambeau.base.naming import public_module
from flambeau.nn import Module


class _PartialWrapper:
    """A constructor with some of its arguments, of which observers and fake quantizers are made; `with_args` adds more."""

    def __init__(self, p: functools.partial[Any]) -> None:
        self.p = p
        self.callable_args: dict[str, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: call() for name, call in self.callable_args.items() if name not in keywords}
        return self.p(*args, **{**made, **keywords})

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """The constructor with more arguments."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        """The constructor with arguments that are made by a call each time."""
        made = _with_args(self)
        made.callable_args = {**self.callable_args, **kwargs}
        return made


def _with_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    """A constructor with these arguments, which can be given more."""
    made = _PartialWrapper(functools.partial(cls_or_self, **kwargs))
    return made


def _with_callable_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    """A constructor with arguments that are made by a call each time."""
    return _PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(Module, metaclass=ABCMeta):
    """What all observers have in common. dtype: of what is to be quantized; is_dynamic: whether ranges are found at run time."""

    __module__ = public_module("ao.quantization.observer")

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Any) -> Any:
        """x, which is looked at."""

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """The scale and zero point."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """What observers have in common that find a scale and zero point from a least and a greatest value.

    dtype, qscheme: of what is to be quantized; reduce_range: one bit is left unused; quant_min, quant_max: the integers, in place
    of the dtype's; eps: the least scale.
    """

    __module__ = public_module("ao.quantization.observer")

    _version = 3
    eps: Any
    min_val: Any
    max_val: Any

    def __init__(
        self,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = torch.finfo(torch.float32).eps,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers.                     reduce_range will be "
                "deprecated in a future release of PyTorch.",
                stacklevel=2,
            )
        self.reduce_range = reduce_range
        place = {k: v for k, v in (factory_kwargs or {}).items() if k in ("device", "dtype")}
        self.register_buffer("eps", torch.tensor([eps], **place))
        assert is_per_tensor(qscheme) or is_per_channel(qscheme), (
            "Default Observer only works for per_tensor_affine, per_tensor_symmetric, per_channel_affine, per_channel_symmetric "
            "and per_channel_float_qparams quantization scheme"
        )
        allowed = (torch.qint8, torch.quint8, torch.quint4x2, torch.qint32, torch.int8, torch.uint8, torch.int16, torch.int32)
        assert dtype in (*allowed, torch.uint16, torch.float8_e5m2, torch.float8_e4m3fn), (
            f"Default Observer only works for qint8, quint8, quint4x2, qint32, int8, uint8, int16, int32 data type, got {dtype}"
        )
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)  # type: ignore[arg-type]
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _calculate_qparams(self, min_val: Any, max_val: Any) -> tuple[Any, Any]:
        """The scale (float32) and zero point (int64) of a range, or of one for each channel."""
        if not check_min_max_valid(min_val, max_val):
            return torch.tensor([1.0], device=min_val.device), torch.tensor([0], device=min_val.device)
        low, high = self.quant_min, self.quant_max
        below, above = min_val.clamp(max=0), max_val.clamp(min=0)
        zero_point: Any = torch.zeros_like(below, dtype=torch.int64)
        if self.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric):
            scale = torch.max(torch.maximum(-below, above) / (float(high - low) / 2), self.eps)
            unsigned = {torch.quint8: 128, torch.uint8: 128, torch.uint16: 2**15}.get(self.dtype)
            if unsigned is not None:
                zero_point = zero_point + ((low + high) // 2 if self.has_customized_qrange else unsigned)
        elif self.qscheme is torch.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / float(high - low)
            scale = torch.where(scale > self.eps, scale, torch.ones_like(scale))
            zero_point = -min_val / scale
        else:
            scale = torch.max((above - below) / float(high - low), self.eps)
            zero_point = torch.clamp(low - torch.round(below / scale).to(torch.int), low, high)
        scale = scale.to(torch.float32)
        return scale.reshape(-1) if scale.dim() == 0 else scale, zero_point.reshape(-1) if zero_point.dim() == 0 else zero_point

    def reset_min_max_vals(self) -> None:
        """Forget what was seen. NotImplementedError here."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")
