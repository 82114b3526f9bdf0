"""Observers: modules through which values pass unchanged, and that then know a scale and zero point for them.

Their classes are in the files of `observers`; here are those that are usual, and the state of all observers of a model. Used by
fake_quantize, qconfig and quantize.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.observers.base import ObserverBase, UniformQuantizationObserverBase
from flambeau.ao.quantization.observers.base import _PartialWrapper as _PartialWrapper
from flambeau.ao.quantization.observers.base import _with_args as _with_args
from flambeau.ao.quantization.observers.histogram import HistogramObserver
from flambeau.ao.quantization.observers.ranges import (
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from flambeau.ao.quantization.observers.without_ranges import (
    FixedQParamsObserver,
    NoopObserver,
    PlaceholderObserver,
    RecordingObserver,
    ReuseInputObserver,
)

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


# ---------------------------------------------------------------- the state of all observers of a model


def _is_activation_post_process(module: Any) -> bool:
    """Whether a module observes or rounds what passes through it."""
    return isinstance(module, ObserverBase) or hasattr(module, "fake_quant_enabled")


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
