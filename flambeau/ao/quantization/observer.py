"""Observers: modules through which values pass unchanged, and that then know a scale and zero point for them.

Stands on nn and ao.quantization.utils; used by fake_quantize, qconfig and quantize.
"""

from __future__ import annotations

import functools
import warnings
from abc import ABCMeta, abstractmethod
from collections import OrderedDict
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.utils import (
    calculate_qmin_qmax,
    check_min_max_valid,
    is_per_channel,
    is_per_tensor,
    validate_qmin_qmax,
)
from flambeau.nn import Module

__all__ = [
    "FixedQParamsObserver",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "RecordingObserver",
    "ReuseInputObserver",
    "UniformQuantizationObserverBase",
    "default_affine_fixed_qparams_observer",
    "default_debug_observer",
    "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer",
    "default_float_qparams_observer_4bit",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer",
    "default_weight_observer",
    "get_observer_state_dict",
    "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]


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


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the greatest of all values that passed. The arguments are those of UniformQuantizationObserverBase."""

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
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        place = {k: v for k, v in (factory_kwargs or {}).items() if k in ("device", "dtype")}
        self.register_buffer("min_val", torch.tensor(float("inf"), **place))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **place))
        if self.qscheme is torch.per_tensor_symmetric and self.reduce_range and self.dtype is torch.quint8:
            raise NotImplementedError(
                "Cannot reduce range for symmetric                                        quantization for quint8"
            )

    def forward(self, x_orig: Any) -> Any:
        """x_orig, whose range is taken in."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        self.min_val.copy_(torch.min(low, self.min_val))
        self.max_val.copy_(torch.max(high, self.max_val))
        return x_orig

    def calculate_qparams(self) -> tuple[Any, Any]:
        """The scale and zero point of the range, one-dimensional."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """The least and the greatest value of each call, averaged: each call moves them by `averaging_constant` of the difference."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = torch.finfo(torch.float32).eps,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MovingAverageMinMaxObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine, but "
                f"got: {qscheme}"
            )
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                f"MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant of {averaging_constant}"
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)

    def forward(self, x_orig: Any) -> Any:
        """x_orig, whose range is taken in."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        if not (self.min_val == float("inf") and self.max_val == float("-inf")):
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        self.min_val.copy_(low)
        self.max_val.copy_(high)
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the greatest value for each index of dimension `ch_axis`."""

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = torch.finfo(torch.float32).eps,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if not is_per_channel(qscheme):
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, torch.per_channel_affine and "
                "torch.per_channel_affine_float_qparams."
            )
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        place = {k: v for k, v in (factory_kwargs or {}).items() if k in ("device", "dtype")}
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([], **place))
        self.register_buffer("max_val", torch.tensor([], **place))
        if self.qscheme is torch.per_channel_symmetric and self.reduce_range and self.dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def _ranges(self, x_orig: Any) -> tuple[Any, Any]:
        rows = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis).flatten(1)
        return torch.aminmax(rows, dim=1)  # type: ignore[no-any-return]

    def _take(self, low: Any, high: Any) -> None:
        self.min_val.resize_(low.shape)
        self.max_val.resize_(high.shape)
        self.min_val.copy_(low)
        self.max_val.copy_(high)

    def forward(self, x_orig: Any) -> Any:
        """x_orig, whose ranges are taken in."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = self._ranges(x_orig)
        if self.min_val.numel() and self.max_val.numel():
            low, high = torch.min(low, self.min_val), torch.max(high, self.max_val)
        self._take(low, high)
        return x_orig

    def calculate_qparams(self) -> tuple[Any, Any]:
        """The scales and zero points of the ranges."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

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
        if version is not None and version < 3:
            for new, old in (("min_val", "min_vals"), ("max_val", "max_vals")):
                if prefix + old in state_dict:
                    state_dict[prefix + new] = state_dict.pop(prefix + old)
        for name in ("min_val", "max_val"):
            given = state_dict.get(prefix + name)
            if given is not None:
                getattr(self, name).resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)
        if strict:
            missing_keys += [prefix + name for name in ("min_val", "max_val") if prefix + name not in state_dict]

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val, self.max_val = torch.rand(0), torch.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """The least and the greatest value of each channel in each call, averaged over the calls."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = torch.finfo(torch.float32).eps,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig: Any) -> Any:
        """x_orig, whose ranges are taken in."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = self._ranges(x_orig)
        if self.min_val.numel() and self.max_val.numel():
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        self._take(low, high)
        return x_orig


class HistogramObserver(UniformQuantizationObserverBase):
    """A histogram of all values that passed, of which a range is chosen that leaves the least squared error.

    bins: how many; upsample_rate: into how many parts a bin is cut where the range grows.
    """

    histogram: Any

    def __init__(
        self,
        bins: int = 2048,
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
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        place = {k: v for k, v in (factory_kwargs or {}).items() if k in ("device", "dtype")}
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins, **place))
        self.register_buffer("min_val", torch.tensor(float("inf"), **place))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **place))
        self.dst_nbins = 2 ** (8 * dtype.itemsize)  # of the whole dtype, also where a bit is left unused
        self.upsample_rate = 16

    def _error(self, first: int, last: int) -> float:
        """The squared error of all values if the bins from `first` to `last` are the range that integers cover.

        The values of a bin count as evenly spread. Where they are rounded to is a step's middle, and the integral of the squared
        distance over the part of a bin within a step is a difference of cubes.
        """
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (last - first + 1) / (self.dst_nbins - 1)
        if step == 0.0:
            return 0.0
        begin = (torch.arange(self.bins, device=self.histogram.device) - first) * width
        end = begin + width
        from_step = torch.clamp(torch.div(begin, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
        to_step = torch.clamp(torch.div(end, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
        density = self.histogram / width
        half = torch.ones(self.bins, device=self.histogram.device) * (step / 2)

        def cubes(a: Any, b: Any) -> Any:
            return density * (b * b * b - a * a * a) / 3

        total = cubes(begin - (from_step + 0.5) * step, half)
        total += (to_step - from_step - 1) * cubes(torch.tensor(-step / 2), torch.tensor(step / 2))
        total += cubes(-half, end - (to_step * step + step / 2))
        return total.sum().item()  # type: ignore[no-any-return]

    def _non_linear_param_search(self) -> tuple[Any, Any]:
        """The range that is left after bins were cut off at either end, in small shares of the values, until the error grows."""
        assert self.histogram.size()[0] == self.bins, "bins mismatch"
        width = (self.max_val - self.min_val) / self.bins
        total = torch.sum(self.histogram).item()
        below = torch.cumsum(self.histogram, dim=0).tolist()
        share, low_share, high_share = 1e-5, 0.0, 1.0
        first, last = 0, self.bins - 1
        least = float("inf")
        while low_share < high_share:
            next_low, next_high = low_share + share, high_share - share
            left, right = first, last
            while left < last and below[left] < next_low * total:
                left += 1
            while right > first and below[right] > next_high * total:
                right -= 1
            next_first, next_last = first, last
            if left - first > last - right:
                next_first, low_share = left, next_low
            else:
                next_last, high_share = right, next_high
            if next_first == first and next_last == last:
                continue
            error = self._error(next_first, next_last)
            if error > least:
                break
            least, first, last = error, next_first, next_last
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _spread(self, histogram: Any, low: Any, high: Any, new_low: Any, new_high: Any) -> Any:
        """A histogram from low to high as one of a larger range: the parts of a bin go where their middles lie."""
        if self.bins == 0 or bool(low == high):
            count = histogram.sum()
            made = torch.zeros_like(histogram)
            place = 0 if bool(new_high == new_low) else int((low - new_low) / (new_high - new_low) * self.bins)
            made[min(max(place, 0), self.bins - 1)] = count
            return made
        parts = self.bins * self.upsample_rate
        counts = histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        middles = torch.linspace(low, high, parts + 1, device=low.device)[:-1] + 0.5 * (high - low) / parts
        edges = torch.linspace(new_low, new_high, self.bins + 1, device=low.device)
        places = (torch.bucketize(middles, edges, right=True) - 1).clamp(max=self.bins - 1)
        return torch.bincount(places, weights=counts, minlength=self.bins)

    def reset_histogram(self, x: Any, min_val: Any, max_val: Any) -> None:
        """The histogram of x alone, from min_val to max_val."""
        self.min_val.resize_(min_val.shape)
        self.min_val.copy_(min_val)
        self.max_val.resize_(max_val.shape)
        self.max_val.copy_(max_val)
        assert min_val.numel() == 1 and max_val.numel() == 1, "histogram min/max values must be scalar."
        made = torch.histc(x, self.bins, min=min_val, max=max_val)
        self.histogram.detach_().resize_(made.shape)
        self.histogram.copy_(made)

    def forward(self, x_orig: Any) -> Any:
        """x_orig, which is counted."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = torch.aminmax(x)
        if not (torch.isfinite(low) and torch.isfinite(high)):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = torch.aminmax(x)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self.reset_histogram(x, low, high)
            return x_orig
        new_low, new_high = torch.min(self.min_val, low), torch.max(self.max_val, high)
        counts = torch.histc(x, self.bins, min=new_low, max=new_high).to(self.histogram.device)
        if bool(new_low == self.min_val) and bool(new_high == self.max_val):
            counts = counts + self.histogram
        else:
            counts = counts + self._spread(self.histogram, self.min_val, self.max_val, new_low, new_high)
        self.histogram.detach_().resize_(counts.shape)
        self.histogram.copy_(counts)
        self.min_val.detach_().resize_(new_low.shape)
        self.min_val.copy_(new_low)
        self.max_val.detach_().resize_(new_high.shape)
        self.max_val.copy_(new_high)
        return x_orig

    def calculate_qparams(self) -> tuple[Any, Any]:
        """The scale and zero point of the range with the least error."""
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            check_min_max_valid(self.min_val, self.max_val)
            return torch.tensor([1.0], device=self.min_val.device), torch.tensor([0], device=self.min_val.device)
        assert self.bins == len(self.histogram), (
            "The number of bins in histogram should be equal to the number of bins supplied while making this observer"
        )
        return self._calculate_qparams(*self._non_linear_param_search())

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
        if version is None or version < 3:
            for name, usual in (("min_val", "inf"), ("max_val", "-inf")):
                given = state_dict.get(prefix + name)
                if given is not None and given.shape == torch.Size([0]):
                    state_dict[prefix + name] = torch.tensor(float(usual))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class FixedQParamsObserver(ObserverBase):
    """A scale and zero point that are given, for values whose range is known."""

    scale: Any
    zero_point: Any

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))
        self.dtype, self.qscheme = dtype, qscheme

    def forward(self, X: Any) -> Any:
        """X."""
        return X

    def calculate_qparams(self) -> tuple[Any, Any]:
        """What was given."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Nothing but a dtype: for values that are converted, or quantized at run time."""

    def __init__(
        self,
        dtype: Any = torch.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: Any = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = torch.finfo(torch.float32).eps if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True
            warnings.warn(
                "Please use `is_dynamic` instead of `compute_dtype`.                     "
                "`compute_dtype` will be deprecated in a future release                     of "
                "PyTorch.",
                stacklevel=2,
            )

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")


class RecordingObserver(ObserverBase):
    """Keeps every tensor that passes."""

    __annotations__ = {"tensor_val": list}

    def __init__(self, dtype: Any = torch.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Any] = []

    def forward(self, x: Any) -> Any:
        """x, of which a copy is kept."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Any]:
        """The tensors."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Looks at nothing."""

    def __init__(self, dtype: Any = torch.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype, self.custom_op = dtype, custom_op_name

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for NoopObserver")


class ReuseInputObserver(ObserverBase):
    """Says that the result of an operator is quantized as its input was."""

    def __init__(self) -> None:
        super().__init__(torch.quint8, is_dynamic=False)

    def forward(self, x: Any) -> Any:
        """x."""
        return x

    def calculate_qparams(self) -> Any:
        """Exception: there are none."""
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")


# ---------------------------------------------------------------- the state of all observers of a model


def _is_observer(module: Any) -> bool:
    return isinstance(module, ObserverBase)


def get_observer_state_dict(mod: Any) -> OrderedDict[str, Any]:
    """The entries of a model's state dict that belong to observers."""
    return OrderedDict(
        (key, value) for key, value in mod.state_dict().items() if "observer" in key or "activation_post_process" in key
    )


def load_observer_state_dict(mod: Any, obs_dict: Any) -> None:
    """Load what get_observer_state_dict gave. RuntimeError for entries that are missing or unknown."""
    missing: list[str] = []
    unexpected: list[str] = []
    for name, module in mod.named_modules():
        if _is_observer(module):
            module._load_from_state_dict(obs_dict, name + ".", {}, False, missing, unexpected, [])
    for key in missing:
        if "observer" in key or "activation_post_process" in key:
            raise Exception(f"Missing keys for observer {key} in state_dict")
    for key in unexpected:
        if "observer" in key or "activation_post_process" in key:
            raise Exception(f"Unexpected keys for observer {key} in state_dict")


# ---------------------------------------------------------------- usual observers

_SYMMETRIC = {"dtype": torch.qint8, "qscheme": torch.per_tensor_symmetric}
_BY_CHANNEL = {"dtype": torch.qint8, "qscheme": torch.per_channel_symmetric}
_BY_ROW = {"qscheme": torch.per_channel_affine_float_qparams, "ch_axis": 0}
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(**_SYMMETRIC)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**_SYMMETRIC, quant_min=-127, quant_max=127, eps=2**-12)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_BY_CHANNEL)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    **_BY_CHANNEL, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=torch.quint8, **_BY_ROW)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(dtype=torch.quint4x2, **_BY_ROW)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
