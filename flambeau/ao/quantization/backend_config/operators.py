"""Tables of the patterns that quantized kernels have, as BackendPatternConfigs for given dtypes.

Stands on backend_config, nn and its quantized rooms; used by `backends`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import qat as nnqat
from flambeau.ao.nn.intrinsic import qat as nniqat
from flambeau.ao.nn.quantized import reference as nnqr
from flambeau.ao.quantization.backend_config.backend_config import BackendPatternConfig, DTypeConfig, ObservationType
from flambeau.ao.quantization.fuse_modules import (
    _sequential_wrapper2,
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
)
from flambeau.ao.quantization.qconfig_mapping import _FIXED_QPARAMS_OP_TO_OBSERVER

F = nn.functional
Configs = list[BackendPatternConfig]
_OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_NONE = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
_WEIGHT_AND_BIAS = {"weight": 1, "bias": 2}

# The patterns that have no more to them than how they are observed.
DEFAULT_OPS: tuple[Any, ...] = (
    nn.ELU,
    nn.LeakyReLU,
    nn.Hardswish,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
    nn.Dropout,
    nn.PReLU,
    F.elu,
    F.hardswish,
    F.leaky_relu,
    F.dropout,
)
SHARING_OPS: tuple[Any, ...] = (
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.Hardtanh,
    nn.Identity,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.MaxPool3d,
    nn.PixelShuffle,
    nn.PixelUnshuffle,
    nn.ReLU,
    nn.ReLU6,
    F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d,
    F.adaptive_avg_pool3d,
    F.hardtanh,
    F.hardtanh_,
    F.interpolate,
    F.max_pool1d,
    F.max_pool2d,
    F.max_pool3d,
    F.pixel_shuffle,
    F.pixel_unshuffle,
    F.relu,
    F.relu6,
    F.avg_pool1d,
    F.avg_pool2d,
    F.avg_pool3d,
    torch.clamp,
    torch.flatten,
    torch.mean,
    torch.narrow,
    torch.repeat_interleave,
    torch.transpose,
    torch.squeeze,
    torch.stack,
    torch.unsqueeze,
    operator.floordiv,
    *(
        "contiguous clamp detach detach_ mean permute repeat repeat_interleave reshape resize_ relu relu_ squeeze squeeze_ "
        "transpose unsqueeze unsqueeze_ view"
    ).split(),
)
UNOBSERVED_OPS = ("shape", "size")


def plain(patterns: Iterable[Any], dtypes: list[DTypeConfig], observed: ObservationType = _OWN) -> Configs:
    """Patterns that are all observed in one way."""
    return [BackendPatternConfig(p).set_dtype_configs(dtypes).set_observation_type(observed) for p in patterns]


def _pattern(pattern: Any, dtypes: list[DTypeConfig], **attributes: Any) -> BackendPatternConfig:
    made = BackendPatternConfig(pattern).set_dtype_configs(dtypes)
    for name, value in attributes.items():
        if value is not None:
            setattr(made, name, value)
    return made


def convolutions(dtypes: list[DTypeConfig]) -> Configs:
    """Convolutions and transposed ones of one to three dimensions, alone and with batch norm and ReLU."""
    made: Configs = []
    for n in (1, 2, 3):
        conv, bn, transposed = (getattr(nn, f"{kind}{n}d") for kind in ("Conv", "BatchNorm", "ConvTranspose"))
        function, transposed_function = getattr(F, f"conv{n}d"), getattr(F, f"conv_transpose{n}d")
        trained = getattr(nnqat, f"Conv{n}d")
        reference = {"root_module": conv, "reference_quantized_module": getattr(nnqr, f"Conv{n}d")}
        with_relu, with_bn, with_both = (getattr(nni, f"Conv{kind}{n}d") for kind in ("ReLU", "Bn", "BnReLU"))
        trained_relu, trained_bn, trained_both = (getattr(nniqat, f"Conv{kind}{n}d") for kind in ("ReLU", "Bn", "BnReLU"))
        relu = {"fuser_method": _sequential_wrapper2(with_relu), "fused_module": with_relu}
        both = {"fuser_method": fuse_conv_bn_relu, "fused_module": with_both}
        transposed_root = {"root_module": transposed, "reference_quantized_module": getattr(nnqr, f"ConvTranspose{n}d")}
        rows: list[tuple[Any, dict[str, Any]]] = [
            (conv, {**reference, "qat_module": trained}),
            (trained, reference),
            (function, {"_input_type_to_index": dict(_WEIGHT_AND_BIAS)}),
            ((conv, nn.ReLU), relu),
            ((conv, F.relu), relu),
            (with_relu, {"qat_module": trained_relu}),
            (trained_relu, reference),
            ((function, nn.ReLU), {}),
            ((function, F.relu), {}),
            ((conv, bn), {"fuser_method": fuse_conv_bn, "fused_module": with_bn}),
            ((conv, bn, nn.ReLU), both),
            ((conv, bn, F.relu), {**both, "root_module": conv}),
            (with_bn, {"qat_module": trained_bn}),
            (with_both, {"qat_module": trained_both}),
            (trained_bn, reference),
            (trained_both, reference),
            (transposed, transposed_root),
            ((transposed, getattr(nn, f"BatchNorm{n}d")), {**transposed_root, "fuser_method": fuse_convtranspose_bn}),
            (transposed_function, {"_input_type_to_index": dict(_WEIGHT_AND_BIAS)}),
        ]
        made += [_pattern(pattern, dtypes, **attributes) for pattern, attributes in rows]
    return made


def linears(dtypes: list[DTypeConfig]) -> Configs:
    """Linear, alone and with batch norm and ReLU."""
    reference = {"root_module": nn.Linear, "reference_quantized_module": nnqr.Linear}
    relu = {"fuser_method": _sequential_wrapper2(nni.LinearReLU), "fused_module": nni.LinearReLU}
    rows: list[tuple[Any, dict[str, Any]]] = [
        (nn.Linear, {**reference, "qat_module": nnqat.Linear}),
        (nnqat.Linear, reference),
        (F.linear, {"_input_type_to_index": dict(_WEIGHT_AND_BIAS)}),
        ((nn.Linear, nn.ReLU), relu),
        ((nn.Linear, F.relu), relu),
        (nni.LinearReLU, {**reference, "qat_module": nniqat.LinearReLU}),
        (nniqat.LinearReLU, reference),
        ((F.linear, nn.ReLU), {}),
        ((F.linear, F.relu), {}),
        ((nn.Linear, nn.BatchNorm1d), {"fuser_method": fuse_linear_bn, "fused_module": nni.LinearBn1d}),
        (nni.LinearBn1d, {**reference, "qat_module": nniqat.LinearBn1d}),
        (nniqat.LinearBn1d, reference),
    ]
    return [_pattern(pattern, dtypes, **attributes) for pattern, attributes in rows]


def binary(dtypes: list[DTypeConfig]) -> Configs:
    """Sums and products, alone and with ReLU; where one operand is a number, the result is in the other's range."""
    counted = {0: _OWN, 1: _SHARED, 2: _OWN}
    return [
        _pattern(pattern, dtypes, _num_tensor_args_to_observation_type=counted)
        for function in (operator.add, torch.add, operator.mul, torch.mul)
        for pattern in ((function, nn.ReLU), (function, F.relu), (function, torch.relu), function)
    ]


def norms_by_groups(dtypes: list[DTypeConfig]) -> Configs:
    """The functions of group and instance norm."""
    return [
        _pattern(F.group_norm, dtypes, _input_type_to_index={"weight": 2, "bias": 3}),
        _pattern(F.instance_norm, dtypes, _input_type_to_index={"weight": 3, "bias": 4}),
    ]


def defaults(dtypes: list[DTypeConfig]) -> Configs:
    """Functions whose results have a range of their own."""
    return plain(DEFAULT_OPS, dtypes) + norms_by_groups(dtypes)


def fixed_ranges(dtypes: list[DTypeConfig]) -> Configs:
    """Functions whose results lie in a range that is known."""
    return plain(_FIXED_QPARAMS_OP_TO_OBSERVER, dtypes)


def sharing(dtypes: list[DTypeConfig]) -> Configs:
    """Functions that leave the range as it is."""
    return plain(SHARING_OPS, dtypes, _SHARED)


def unobserved(dtypes: list[DTypeConfig]) -> Configs:
    """Questions that don't look at the numbers."""
    return plain(UNOBSERVED_OPS, dtypes, _NONE)


def batch_norms(dtypes: list[DTypeConfig]) -> Configs:
    """Batch norms, alone and with ReLU."""
    made: Configs = []
    for bn, fused in ((nn.BatchNorm2d, nni.BNReLU2d), (nn.BatchNorm3d, nni.BNReLU3d)):
        relu = {"fuser_method": _sequential_wrapper2(fused), "fused_module": fused}
        made += [_pattern((bn, each), dtypes, **relu) for each in (nn.ReLU, F.relu)] + [_pattern(bn, dtypes)]
    return made + [_pattern(fused, dtypes) for fused in (nni.BNReLU2d, nni.BNReLU3d)]


def layer_norms(dtypes: list[DTypeConfig]) -> Configs:
    """Layer norms."""
    return [_pattern(nn.LayerNorm, dtypes), _pattern(F.layer_norm, dtypes, _input_type_to_index={"weight": 2, "bias": 3})]


def recurrent(dtypes: list[DTypeConfig]) -> Configs:
    """Recurrent modules, which are quantized at run time."""
    return [
        _pattern(kind, dtypes, root_module=kind, reference_quantized_module=getattr(nnqr, kind.__name__))
        for kind in (nn.GRUCell, nn.LSTMCell, nn.RNNCell, nn.LSTM, nn.GRU)
    ]


def embeddings(dtypes: list[DTypeConfig]) -> Configs:
    """Embeddings, of which only the weights are quantized."""
    made: Configs = []
    for kind, trained in ((nn.Embedding, nnqat.Embedding), (nn.EmbeddingBag, nnqat.EmbeddingBag)):
        reference = {"root_module": kind, "reference_quantized_module": getattr(nnqr, kind.__name__)}
        made += [_pattern(kind, dtypes, **reference, qat_module=trained), _pattern(trained, dtypes, **reference)]
    return made
