"""Which quantized module stands for which float one. Stands on nn, nn.quantized, nn.intrinsic and nn.qat."""

from __future__ import annotations

import copy
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import qat as nnqat
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.intrinsic import qat as nniqat
from flambeau.ao.nn.intrinsic import quantized as nniq
from flambeau.ao.nn.quantized import dynamic as nnqd
from flambeau.ao.nn.quantized import reference as nnqr
from flambeau.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from flambeau.ao.quantization.stubs import DeQuantStub, QuantStub
from flambeau.ao.quantization.utils import get_combined_dict, type_before_parametrizations
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
    "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings",
    "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings",
    "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings",
    "get_quantized_operator",
    "get_static_quant_module_class",
    "no_observer_set",
]

_SAME = (
    "BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d "
    "ConvTranspose3d ELU Embedding EmbeddingBag "
    "GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU"
)
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnq, name) for name in _SAME.split()},
    NonDynamicallyQuantizableLinear: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    nni.BNReLU2d: nniq.BNReLU2d,
    nni.BNReLU3d: nniq.BNReLU3d,
    nni.ConvReLU1d: nniq.ConvReLU1d,
    nni.ConvReLU2d: nniq.ConvReLU2d,
    nni.ConvReLU3d: nniq.ConvReLU3d,
    nni.ConvAdd2d: nniq.ConvAdd2d,
    nni.ConvAddReLU2d: nniq.ConvAddReLU2d,
    nni.LinearReLU: nniq.LinearReLU,
    nni.LinearLeakyReLU: nniq.LinearLeakyReLU,
    nni.LinearTanh: nniq.LinearTanh,
    **{getattr(nniqat, f"ConvBn{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvBnReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    nniqat.ConvReLU2d: nniq.ConvReLU2d,
    nniqat.ConvReLU3d: nniq.ConvReLU3d,
    nniqat.LinearReLU: nniq.LinearReLU,
    nniqat.LinearBn1d: nnq.Linear,
    nnqat.Linear: nnq.Linear,
    nnqat.Conv2d: nnq.Conv2d,
    nnqat.Conv3d: nnq.Conv3d,
}
DEFAULT_QAT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.Conv2d: nnqat.Conv2d,
    nn.Conv3d: nnqat.Conv3d,
    nn.Linear: nnqat.Linear,
    NonDynamicallyQuantizableLinear: nnqat.Linear,
    **{getattr(nni, name): getattr(nniqat, name) for name in (
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d".split()
    )},
}  # fmt: skip
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.GRUCell: nnqd.GRUCell,
    nn.Linear: nnqd.Linear,
    NonDynamicallyQuantizableLinear: nnqd.Linear,
    nn.LSTM: nnqd.LSTM,
    nn.GRU: nnqd.GRU,
    nn.LSTMCell: nnqd.LSTMCell,
    nn.RNNCell: nnqd.RNNCell,
    nni.LinearReLU: nniq.dynamic.LinearReLU,
    nn.EmbeddingBag: nnq.EmbeddingBag,
    nn.Embedding: nnq.Embedding,
}
DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnqr, name) for name in (
        "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding EmbeddingBag "
        "GRUCell LSTMCell RNNCell LSTM".split()
    )},
}  # fmt: skip
_MAPPINGS = (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)
_INCLUDE_QCONFIG_PROPAGATE_LIST: set[Any] = {nn.Sequential}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: dict[Any, Any] = {
    torch.nn.functional.elu: torch.ops.quantized.elu,
    torch.nn.functional.hardswish: torch.ops.quantized.hardswish,
    torch.nn.functional.instance_norm: torch.ops.quantized.instance_norm,
    torch.nn.functional.layer_norm: torch.ops.quantized.layer_norm,
    torch.nn.functional.leaky_relu: torch.ops.quantized.leaky_relu,
    torch.nn.functional.dropout: torch.ops.quantized.dropout,
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[Any, Any] = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def no_observer_set() -> set[Any]:
    """Classes whose results aren't observed: their parts are."""
    from flambeau.ao.nn import quantizable

    return {quantizable.LSTM, quantizable.MultiheadAttention}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """A copy of the classes for static quantization."""
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings() -> dict[Any, Any]:
    """A copy of the classes for reference modules."""
    return copy.deepcopy(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """The classes for static quantization, trained embeddings among them."""
    made = get_default_static_quant_module_mappings()
    made[nnqat.EmbeddingBag], made[nnqat.Embedding] = nnq.EmbeddingBag, nnq.Embedding
    return made


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """A copy of the classes for quantization-aware training."""
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """The classes for quantization-aware training, embeddings among them."""
    made = get_default_qat_module_mappings()
    made[nn.EmbeddingBag], made[nn.Embedding] = nnqat.EmbeddingBag, nnqat.Embedding
    return made


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """The classes for dynamic quantization."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_default_qconfig_propagation_list() -> set[Any]:
    """The classes that are observed."""
    return {kind for mapping in _MAPPINGS for kind in mapping} | _INCLUDE_QCONFIG_PROPAGATE_LIST


def get_default_compare_output_module_list() -> set[Any]:
    """The classes whose results are compared between a float and a quantized model."""
    return {kind for mapping in _MAPPINGS for pair in mapping.items() for kind in pair} | _INCLUDE_QCONFIG_PROPAGATE_LIST


def get_default_float_to_quantized_operator_mappings() -> dict[Any, Any]:
    """Which operator of torch.ops.quantized stands for which function."""
    return DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS


def _class_of(kind: Any, defaults: dict[Any, Any], more: Any) -> Any:
    found = get_combined_dict(defaults, more or {}).get(kind)
    assert found is not None, f"Floating point module class {kind} does not have a corresponding quantized module class"
    return copy.deepcopy(found)


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Any = None, is_reference: bool = False
) -> Any:
    """The class for static quantization. AssertionError if there is none."""
    defaults = DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS if is_reference else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    return _class_of(float_module_class, defaults, additional_static_quant_mapping)


def get_dynamic_quant_module_class(float_module_class: Any, additional_dynamic_quant_mapping: Any = None) -> Any:
    """The class for dynamic quantization. AssertionError if there is none."""
    return _class_of(float_module_class, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping)


def get_quantized_operator(float_op: Any) -> Any:
    """The operator of torch.ops.quantized for a function. AssertionError if there is none."""
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    assert found is not None, f"Operator {float_op!s} does not have corresponding quantized op"
    return found


def _get_special_act_post_process(module: Any) -> Any:
    """What observes the results of a module whose range is known."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))


def _has_special_act_post_process(module: Any) -> bool:
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
