"""QConfigMapping: which qconfig a model's parts get, by kind and by name. Stands on qconfig."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.fake_quantize import (
    FusedMovingAvgObsFakeQuantize,
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
    default_fused_wt_fake_quant,
    default_weight_fake_quant,
)
from flambeau.ao.quantization.observer import (
    _PartialWrapper,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from flambeau.ao.quantization.qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

_GLOBAL, _TYPES, _REGEX, _NAMES, _ORDERED = "", "object_type", "module_name_regex", "module_name", "module_name_object_type_order"
_QCONFIG_STYLE_ORDER = [
    "global_qconfig",
    "object_type_qconfigs",
    "module_name_regex_qconfigs",
    "module_name_qconfigs",
    "module_name_object_type_order_qconfigs",
]


class QConfigMapping:
    """The qconfig of everything, of kinds of modules and functions, of names by pattern, of names, and of a kind below a name;
    what is said more closely counts.
    """

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[tuple[str, Callable, int], Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> QConfigMapping:
        """The qconfig of what nothing else is said of."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: Any) -> QConfigMapping:
        """The qconfig of a class of modules, a function, or a method by name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> QConfigMapping:
        """The qconfig of modules whose names match a pattern."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> QConfigMapping:
        """The qconfig of a module by name."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name: str, object_type: Any, index: int, qconfig: Any) -> QConfigMapping:
        """The qconfig of the index-th use of a kind in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{self.__class__.__name__} ("]
        for style in _QCONFIG_STYLE_ORDER:
            value = getattr(self, style)
            if isinstance(value, dict) and value:
                lines.append(f" {style}")
                lines += [f"  {key}: {each}" for key, each in value.items()]
            else:
                lines.append(f" {style}\n  {value}")
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, which older programs pass."""
        ordered = [(*key, value) for key, value in self.module_name_object_type_order_qconfigs.items()]
        return {
            _GLOBAL: self.global_qconfig,
            _TYPES: list(self.object_type_qconfigs.items()),
            _REGEX: list(self.module_name_regex_qconfigs.items()),
            _NAMES: list(self.module_name_qconfigs.items()),
            _ORDERED: ordered,
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """What `to_dict` gave."""
        made = cls()
        if _GLOBAL in qconfig_dict:
            made.set_global(qconfig_dict[_GLOBAL])
        for pair in qconfig_dict.get(_TYPES, []):
            made.set_object_type(*pair)
        for pair in qconfig_dict.get(_REGEX, []):
            made.set_module_name_regex(*pair)
        for pair in qconfig_dict.get(_NAMES, []):
            made.set_module_name(*pair)
        for each in qconfig_dict.get(_ORDERED, []):
            made.set_module_name_object_type_order(*each)
        return made


def _fixed_qparams() -> dict[Any, Any]:
    """The observers of functions whose results lie in a range that is known."""
    positive, signed = default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_observer
    F = torch.nn.functional
    made: dict[Any, Any] = dict.fromkeys((torch.nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_"), positive)
    made |= dict.fromkeys((torch.nn.Sigmoid, torch.sigmoid, "sigmoid", "sigmoid_", torch.nn.Softmax), positive)
    return made | dict.fromkeys((torch.nn.Tanh, torch.tanh, "tanh", "tanh_"), signed)


_FIXED_QPARAMS_OP_TO_OBSERVER: dict[Any, _PartialWrapper] = _fixed_qparams()


def _default(base: Any, training: bool) -> QConfigMapping:
    weight = default_weight_fake_quant if training else default_weight_observer
    fused = training and base.activation.p.func is FusedMovingAvgObsFakeQuantize
    transposed = QConfig(base.activation, default_fused_wt_fake_quant if fused else weight)
    made = QConfigMapping().set_global(base).set_object_type("reshape", default_reuse_input_qconfig)
    functions = torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d, torch.nn.functional.conv_transpose3d
    for kind in (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d, *functions):
        made.set_object_type(kind, transposed)
    for norm in (torch.nn.functional.layer_norm, torch.nn.LayerNorm):
        made.set_object_type(norm, QConfig(base.activation, default_placeholder_observer))
    made.set_object_type(torch.nn.PReLU, default_quint8_weight_qconfig)
    fixed: dict[Any, Any] = {}
    for kind, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in fixed:
            activation: Any = observer
            if training:
                positive = observer is default_fixed_qparams_range_0to1_observer
                activation = (
                    default_fixed_qparams_range_0to1_fake_quant if positive else default_fixed_qparams_range_neg1to1_fake_quant
                )
            fixed[observer] = QConfig(activation, weight)
        made.set_object_type(kind, fixed[observer])
    return made


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """The mapping for post-training quantization with the kernels of a backend."""
    return _default(get_default_qconfig(backend, version), training=False)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The mapping for quantization-aware training for a backend."""
    return _default(get_default_qat_qconfig(backend, version), training=True)


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """The older form of get_default_qconfig_mapping."""
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """The older form of get_default_qat_qconfig_mapping."""
    return get_default_qat_qconfig_mapping(backend, version).to_dict()
