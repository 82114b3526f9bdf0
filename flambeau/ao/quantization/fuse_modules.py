"""fuse_modules: modules that follow each other become one, which quantized kernels have. Stands on nn.intrinsic."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.quantization.utils import get_combined_dict, type_before_parametrizations

__all__ = [
    "fuse_conv_bn",
    "fuse_conv_bn_relu",
    "fuse_convtranspose_bn",
    "fuse_known_modules",
    "fuse_linear_bn",
    "fuse_modules",
    "fuse_modules_qat",
    "get_fuser_method",
]

_CONV_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_CONV_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}
_CONV_BN_RELU = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_BN_RELU = {nn.BatchNorm2d: nni.BNReLU2d, nn.BatchNorm3d: nni.BNReLU3d}


def _one_mode(*modules: Any) -> None:
    modes = {m.training for m in modules}
    assert len(modes) == 1, "Conv and BN both must be in the same mode (train or eval)."


def _check_norm(conv: Any, bn: Any) -> None:
    assert bn.num_features == conv.out_channels, "Output channel of Conv must match num_features of BatchNorm"
    assert bn.affine, "Only support fusing BatchNorm with affine set to True"
    assert bn.track_running_stats, "Only support fusing BatchNorm with tracking_running_stats set to True"


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution and its batch norm: a module of both to be trained, or the convolution with changed weights."""
    _one_mode(conv, bn)
    if is_qat:
        _check_norm(conv, bn)
        made = _CONV_BN.get(type(conv))
        if made is None:
            raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
        return made(conv, bn)
    return nn.utils.fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """A convolution, its batch norm and a ReLU."""
    _one_mode(conv, bn, relu)
    if is_qat:
        _check_norm(conv, bn)
        made = _CONV_BN_RELU.get(type(conv))
        if made is None:
            raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn, relu)}")
        return made(conv, bn, relu)
    made = _CONV_RELU.get(type(conv))
    if made is None:
        raise NotImplementedError(f"Cannot fuse eval modules: {(conv, bn, relu)}")
    return made(nn.utils.fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A Linear and its batch norm."""
    assert linear.training == bn.training, "Linear and BN both must be in the same mode (train or eval)."
    if is_qat:
        assert bn.num_features == linear.out_features, "Output features of Linear must match num_features of BatchNorm1d"
        assert bn.affine, "Only support fusing BatchNorm1d with affine set to True"
        assert bn.track_running_stats, "Only support fusing BatchNorm1d with tracking_running_stats set to True"
        return nni.LinearBn1d(linear, bn)
    return nn.utils.fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """A transposed convolution and its batch norm; not while training."""
    assert convt.training == bn.training, "ConvTranspose and BN both must be in the same mode (train or eval)."
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return nn.utils.fuse_conv_bn_eval(convt, bn, transpose=True)


def _joined(kind: Any) -> Callable[..., Any]:
    return lambda is_qat, *modules: kind(*modules)


def _sequential_wrapper2(sequential: Any) -> Callable[..., Any]:
    """A class of two modules as a fuser method."""
    return lambda is_qat, m1, m2: sequential(m1, m2)


DEFAULT_OP_LIST_TO_FUSER_METHOD: dict[tuple[Any, ...], Callable[..., Any]] = {
    **dict.fromkeys(((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)), fuse_conv_bn),
    **{
        (conv, bn, nn.ReLU): fuse_conv_bn_relu
        for conv, bn in ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))
    },
    **{(conv, nn.ReLU): _joined(kind) for conv, kind in _CONV_RELU.items()},
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _joined(nni.LinearReLU),
    **{(bn, nn.ReLU): _joined(kind) for bn, kind in _BN_RELU.items()},
    **dict.fromkeys(
        ((nn.ConvTranspose1d, nn.BatchNorm1d), (nn.ConvTranspose2d, nn.BatchNorm2d), (nn.ConvTranspose3d, nn.BatchNorm3d)),
        fuse_convtranspose_bn,
    ),
}


def get_fuser_method(op_list: Sequence[Any], additional_fuser_method_mapping: Any = None) -> Callable[..., Any]:
    """What joins modules of these classes. AssertionError if nothing does."""
    found = get_combined_dict(DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {}).get(tuple(op_list))
    assert found is not None, f"did not find fuser method for: {tuple(op_list)} "
    return found  # type: ignore[no-any-return]


def fuse_known_modules(mod_list: Sequence[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """The fused module, and an Identity in the place of each of the others; hooks before the first and after the last stay."""
    method = get_fuser_method([type_before_parametrizations(m) for m in mod_list], additional_fuser_method_mapping)
    fused = method(is_qat, *mod_list)
    first, last = mod_list[0], mod_list[-1]
    for handle, hook in list(first._forward_pre_hooks.items()):
        fused.register_forward_pre_hook(hook)
        del first._forward_pre_hooks[handle]
    for handle, hook in list(last._forward_hooks.items()):
        fused.register_forward_hook(hook)
        del last._forward_hooks[handle]
    made = [fused]
    for _ in range(1, len(mod_list)):
        identity = nn.Identity()
        identity.training = first.training
        made.append(identity)
    return made


def _fuse(model: Any, names: Sequence[str], is_qat: bool, fuser_func: Any, more: Any) -> None:
    modules = []
    for name in names:
        modules.append(model.get_submodule(name))
    for name, module in zip(names, fuser_func(modules, is_qat, more)):
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, module)


def _all(model: Any, modules_to_fuse: Any, is_qat: bool, inplace: bool, fuser_func: Any, fuse_custom_config_dict: Any) -> Any:
    if not inplace:
        model = copy.deepcopy(model)
    more = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    lists = [modules_to_fuse] if all(isinstance(each, str) for each in modules_to_fuse) else modules_to_fuse
    for names in lists:
        _fuse(model, names, is_qat, fuser_func, more)
    return model


def fuse_modules(
    model: Any,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Any = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:
    """The model (a copy, unless inplace) in which modules, by names in the order in which they follow each other, are one.

    modules_to_fuse: a list of names, or several lists. Conv, BatchNorm and ReLU, Linear and ReLU, ... AssertionError for a
    sequence that isn't known.
    """
    return _all(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Any = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:
    """The same for a model that is to be trained: batch norms stay."""
    return _all(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
