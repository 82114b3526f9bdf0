"""Modules that round values to what integers can hold while a model is trained. Stands on observer; used by qconfig and qat."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from flambeau.ao.quantization.utils import is_per_channel, is_per_tensor
from flambeau.nn import Module

__all__ = [
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant",
    "default_dynamic_fake_quant",
    "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit",
    "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant",
    "default_weight_fake_quant",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]


class FakeQuantizeBase(Module, metaclass=ABCMeta):
    """What fake quantizers have in common: two switches, whether values are rounded and whether ranges are observed."""

    fake_quant_enabled: Any
    observer_enabled: Any

    def __init__(self) -> None:
        super().__init__()
        # buffers, so that they are alike in all copies of a model that is trained in several processes
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    @abstractmethod
    def forward(self, x: Any) -> Any:
        """x rounded."""

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """The scale and zero point."""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round values, or no more."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Round values no more."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe ranges, or no more."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Observe ranges no more."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> Any:
        """A constructor with these arguments, for a qconfig."""
        made = _with_args(cls, **kwargs)
        made.__module__ = "torch.ao.quantization.fake_quantize"
        return made


class FakeQuantize(FakeQuantizeBase):
    """Rounds values to the integers of an observer's scale and zero point and back; gradients pass where it was in range.

    observer: a class of observers; quant_min, quant_max: the integers; observer_kwargs: the observer's arguments.
    """

    scale: Any
    zero_point: Any

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            assert quant_min <= quant_max, "quant_min must be less than or equal to quant_max"
            dtype = observer_kwargs.get("dtype", torch.quint8)
            if hasattr(observer, "p"):
                dtype = getattr(getattr(observer, "p", {}), "keywords", {}).get("dtype", dtype)
            info = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}.get(dtype, dtype)
            limits = torch.iinfo(info if info is not torch.quint4x2 else torch.uint8)
            assert limits.min <= quant_min, "quant_min out of bound"
            assert quant_max <= limits.max, "quant_max out of bound"
            observer_kwargs.update({"quant_min": quant_min, "quant_max": quant_max})
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        self.quant_min, self.quant_max = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        self.is_dynamic = self.activation_post_process.is_dynamic
        kind = torch.float if is_float_qparams(self.activation_post_process.qscheme) else torch.int
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([0], dtype=kind))
        self.dtype, self.qscheme = self.activation_post_process.dtype, self.activation_post_process.qscheme
        self.ch_axis = getattr(self.activation_post_process, "ch_axis", -1)
        assert is_per_channel(self.qscheme) or is_per_tensor(self.qscheme), (
            f"Only per channel and per tensor quantization are supported in fake quantize got qscheme: {self.qscheme}"
        )
        self.is_per_channel = is_per_channel(self.qscheme)

    def calculate_qparams(self) -> Any:
        """The scale and zero point of what was observed."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Any) -> Any:
        """X rounded, after its range was taken in."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            if self.scale.shape != scale.shape:
                self.scale.resize_(scale.shape)
                self.zero_point.resize_(zero_point.shape)
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] == 1:
            limits = (self.activation_post_process.quant_min, self.activation_post_process.quant_max)
            if self.is_per_channel:
                return torch.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, *limits)
            return torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)
        return X

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"quant_min={self.activation_post_process.quant_min}, quant_max={self.activation_post_process.quant_max}, "
            f"dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = self.scale
        destination[prefix + "zero_point"] = self.zero_point

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
        for name in ("scale", "zero_point"):
            given = state_dict.get(prefix + name)
            if given is not None:
                getattr(self, name).resize_(given.shape)
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


def is_float_qparams(qscheme: Any) -> bool:
    """Whether the zero points of a scheme are floats."""
    return qscheme is torch.per_channel_affine_float_qparams


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds values with a scale and zero point that are given."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        assert type(self.activation_post_process) is FixedQParamsObserver, (
            f"{self.__class__.__name__}'s observer must be a {FixedQParamsObserver.__name__}"
        )
        self._observer_ctr = observer
        self.scale, self.zero_point = self.activation_post_process.scale, self.activation_post_process.zero_point
        assert is_per_tensor(self.qscheme), (
            f"Only per tensor quantization is supported FixedQParamsFakeQuantize module, got qscheme:{self.qscheme}"
        )

    def calculate_qparams(self) -> Any:
        """What was given."""
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with a moving average of ranges; in PyTorch one operator."""

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, is_dynamic, **observer_kwargs)
        assert isinstance(self.activation_post_process, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)), (
            "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver"
        )
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.long))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.long))
        self.is_symmetric_quant = self.activation_post_process.qscheme in (
            torch.per_tensor_symmetric,
            torch.per_channel_symmetric,
        )

    def calculate_qparams(self) -> Any:
        """The scale and zero point of what was observed."""
        return self.activation_post_process.calculate_qparams()

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )

    def forward(self, X: Any) -> Any:
        """X rounded, after its range was taken in."""
        observer = self.activation_post_process
        return torch.fused_moving_avg_obs_fake_quant(
            X,
            self.observer_enabled,
            self.fake_quant_enabled,
            observer.min_val,
            observer.max_val,
            self.scale,
            self.zero_point,
            observer.averaging_constant,
            observer.quant_min,
            observer.quant_max,
            self.ch_axis,
            self.is_per_channel,
            self.is_symmetric_quant,
        )


# ---------------------------------------------------------------- usual fake quantizers

_MOVING = MovingAverageMinMaxObserver
_MOVING_BY_CHANNEL = MovingAveragePerChannelMinMaxObserver
_ACTIVATION = {"observer": _MOVING, "quant_min": 0, "quant_max": 255, "dtype": torch.quint8}
_WEIGHT = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}
_NARROW = {"quant_min": -127, "quant_max": 127, "dtype": torch.qint8, "eps": 2**-12}
default_fake_quant = FakeQuantize.with_args(
    observer=_MOVING, quant_min=0, quant_max=255, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=_MOVING, **_WEIGHT, qscheme=torch.per_tensor_symmetric, reduce_range=False
)
default_dynamic_fake_quant = FakeQuantize.with_args(**_ACTIVATION, is_dynamic=True, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=_MOVING_BY_CHANNEL, **_WEIGHT, qscheme=torch.per_channel_symmetric, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=_MOVING_BY_CHANNEL,
    qscheme=torch.per_channel_affine_float_qparams,
    dtype=torch.quint8,
    quant_min=0,
    quant_max=255,
    ch_axis=0,
    averaging_constant=1,
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=_MOVING_BY_CHANNEL,
    qscheme=torch.per_channel_affine_float_qparams,
    ch_axis=0,
    dtype=torch.quint4x2,
    averaging_constant=1,
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_ACTIVATION)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING, **_WEIGHT, qscheme=torch.per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING_BY_CHANNEL, **_WEIGHT, qscheme=torch.per_channel_symmetric
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING, **_NARROW, qscheme=torch.per_tensor_symmetric
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING_BY_CHANNEL, **_NARROW, qscheme=torch.per_channel_symmetric
)


# ---------------------------------------------------------------- for model.apply


def _is_fake_quant(mod: Any) -> bool:
    return isinstance(mod, FakeQuantizeBase)


def disable_fake_quant(mod: Any) -> None:
    """model.apply(disable_fake_quant): round values no more."""
    if _is_fake_quant(mod):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    """model.apply(enable_fake_quant): round values."""
    if _is_fake_quant(mod):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    """model.apply(disable_observer): observe ranges no more."""
    if _is_fake_quant(mod):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    """model.apply(enable_observer): observe ranges."""
    if _is_fake_quant(mod):
        mod.enable_observer()
