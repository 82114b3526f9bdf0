"""prepare, convert, quantize_dynamic and their kin: modules of a model are observed, and exchanged for quantized ones.

Stands on qconfig, quantization_mappings and nn.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.intrinsic import _FusedModule
from flambeau.ao.quantization.fake_quantize import FakeQuantizeBase
from flambeau.ao.quantization.observer import ObserverBase
from flambeau.ao.quantization.qconfig import (
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from flambeau.ao.quantization.quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from flambeau.ao.quantization.stubs import DeQuantStub, QuantWrapper
from flambeau.ao.quantization.utils import (
    get_qparam_dict,
    has_no_children_ignoring_parametrizations,
    type_before_parametrizations,
)

__all__ = [
    "add_quant_dequant",
    "convert",
    "get_default_custom_config_dict",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]


def get_default_custom_config_dict() -> dict[str, Any]:
    """Classes of which programs may have observed and quantized forms of their own."""
    from flambeau.ao.nn import quantizable

    return {
        "float_to_observed_custom_module_class": {
            nn.LSTM: quantizable.LSTM,
            nn.MultiheadAttention: quantizable.MultiheadAttention,
        },
        "observed_to_quantized_custom_module_class": {
            quantizable.LSTM: nnq.LSTM,
            quantizable.MultiheadAttention: nnq.MultiheadAttention,
        },
    }


# ---------------------------------------------------------------- qconfigs of modules


def _propagate(module: Any, by_key: dict[Any, Any], parent: Any, prefix: str, custom: Any) -> None:
    qconfig = by_key.get(type_before_parametrizations(module), parent)
    qconfig = by_key.get(prefix, qconfig)
    qconfig = getattr(module, "qconfig", qconfig)
    _assert_valid_qconfig(qconfig, module)
    module.qconfig = qconfig
    for name, child in module.named_children():
        inner = f"{prefix}.{name}" if prefix else name
        settings = custom or {}
        left = name in settings.get("non_traceable_module_name", []) or type(child) in settings.get(
            "non_traceable_module_class", []
        )
        if qconfig is None or not left:
            _propagate(child, by_key, qconfig, inner, custom)


def propagate_qconfig_(module: Any, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None) -> None:
    """Give every module below this one the qconfig of its class or name in a dict, or else of the module around it, as the
    attribute `qconfig`.
    """
    _propagate(module, qconfig_dict or {}, None, "", prepare_custom_config_dict)


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    """Observe a module's result."""
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Any, input: Any) -> Any:
    """Observe a module's input."""
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module: Any, pre_hook: bool = False) -> None:
    assert hasattr(module, "activation_post_process"), "Expect activation_post_process attribute already attached to the module"
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _activation_is_memoryless(qconfig: Any) -> bool:
    """Whether an observer keeps nothing from one call to the next, as for modules that are quantized at run time."""

    def of(observer: Any) -> bool:
        return getattr(observer, "averaging_constant", None) == 1

    activation = qconfig.activation()
    return of(getattr(activation, "activation_post_process", activation))


def _quantized_leaves() -> tuple[type, ...]:
    return (nnq.FloatFunctional, nnq.QFunctional)


def _add_observers(module: Any, kinds: Any, non_leaf: Any, custom: dict[Any, Any]) -> None:
    def wanted(m: Any) -> bool:
        return getattr(m, "qconfig", None) is not None

    def insert(m: Any, special: Any = None) -> None:
        if wanted(m) and not isinstance(m, DeQuantStub):
            m.add_module("activation_post_process", m.qconfig.activation() if special is None else special())
            _register_activation_post_process_hook(m, pre_hook=_activation_is_memoryless(m.qconfig))

    for name, child in module.named_children():
        kind = type_before_parametrizations(child)
        if kind is nn.Dropout:
            continue
        if issubclass(kind, _quantized_leaves()):
            if wanted(child):
                assert hasattr(child, "activation_post_process"), (
                    f"functional class {kind} has no pre-defined `activation_post_process`"
                )
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _FusedModule) or (non_leaf is not None and kind in non_leaf):
            if wanted(child):
                insert(child)
        elif _has_special_act_post_process(child):
            insert(child, _get_special_act_post_process(child))
        elif wanted(child) and kind in custom:
            observed = custom[kind].from_float(child)
            setattr(module, name, observed)
            if not issubclass(custom[kind], tuple(no_observer_set())):
                insert(observed)
        else:
            _add_observers(child, kinds, non_leaf, custom)
    if (
        has_no_children_ignoring_parametrizations(module)
        and not isinstance(module, nn.Sequential)
        and type_before_parametrizations(module) in kinds
    ):
        insert(module)


def prepare(
    model: Any,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Any:
    """The model (a copy, unless inplace) with observers behind the modules that have a qconfig: run it with samples, then
    convert it.
    """
    custom_config = get_default_custom_config_dict() if prepare_custom_config_dict is None else prepare_custom_config_dict
    custom = custom_config.get("float_to_observed_custom_module_class", {})
    if not inplace:
        model = copy.deepcopy(model)
    kinds = get_default_qconfig_propagation_list() if allow_list is None else allow_list
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through `qconfig_dict` or by "
            "assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    _add_observers(model, kinds, observer_non_leaf_module_list, custom)
    return model


# ---------------------------------------------------------------- conversion


def _remove_activation_post_process(module: Any) -> None:
    if isinstance(getattr(module, "activation_post_process", None), (ObserverBase, FakeQuantizeBase)):
        delattr(module, "activation_post_process")
    for hooks, own in ((module._forward_pre_hooks, _observer_forward_pre_hook), (module._forward_hooks, _observer_forward_hook)):
        for handle in [handle for handle, hook in hooks.items() if hook is own]:
            hooks.pop(handle)


def _remove_qconfig(module: Any) -> None:
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


def swap_module(mod: Any, mapping: Any, custom_module_class_mapping: Any, use_precomputed_fake_quant: bool = False) -> Any:
    """The quantized form of a module that has a qconfig and one, else the module itself; its hooks stay, without observers."""
    if getattr(mod, "qconfig", None) is None:
        return mod
    kind = type_before_parametrizations(mod)
    if kind in custom_module_class_mapping:
        made = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        made = _from_float(mapping[kind], mod, use_precomputed_fake_quant)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        if hook is not _observer_forward_pre_hook:
            made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    return made


def _from_float(kind: Any, mod: Any, use_precomputed_fake_quant: bool) -> Any:
    if getattr(kind, "_IS_REFERENCE", False):
        weight = mod.qconfig.weight()
        weight(mod.weight)
        return kind.from_float(mod, get_qparam_dict(weight))
    if "use_precomputed_fake_quant" in inspect.signature(kind.from_float).parameters:
        return kind.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    return kind.from_float(mod)


def _convert(module: Any, mapping: Any, custom: dict[Any, Any], precomputed: bool) -> None:
    made = {}
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule) and type_before_parametrizations(child) not in custom:
            _convert(child, mapping, custom, precomputed)
        made[name] = swap_module(child, mapping, custom, precomputed)
    module._modules.update(made)


def convert(
    module: Any,
    mapping: Any = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """The model (a copy, unless inplace) with observed modules exchanged for quantized ones, by a mapping of classes."""
    if not inplace:
        module = copy.deepcopy(module)
    if mapping is None:
        mapping = (
            get_default_static_quant_reference_module_mappings() if is_reference else get_default_static_quant_module_mappings()
        )
    config = get_default_custom_config_dict() if convert_custom_config_dict is None else convert_custom_config_dict
    _convert(module, mapping, config.get("observed_to_quantized_custom_module_class", {}), use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


# ---------------------------------------------------------------- all at once


def add_quant_dequant(module: Any) -> Any:
    """The module with a QuantWrapper around every leaf that has a qconfig."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def quantize(model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """Observe a model while run_fn(model, *run_args) runs it, and convert it."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, get_default_static_quant_module_mappings() if mapping is None else mapping, inplace=True)
    return model


def _recurrent() -> Iterator[type]:
    yield from (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = torch.qint8, mapping: Any = None, inplace: bool = False
) -> Any:
    """A float model (a copy, unless inplace) with weights that are quantized, and activations that are while it runs.

    qconfig_spec: classes or names of modules (a set), or a dict of them with qconfigs; default: Linear and recurrent modules.
    dtype: qint8, float16, or for embeddings quint8 and quint4x2; ValueError for others without a spec.
    """
    by_dtype = {
        torch.qint8: default_dynamic_qconfig,
        torch.float16: float16_dynamic_qconfig,
        torch.quint8: float_qparams_weight_only_qconfig,
        torch.quint4x2: float_qparams_weight_only_qconfig_4bit,
    }
    if qconfig_spec is None:
        if dtype in (torch.qint8, torch.float16):
            qconfig_spec = dict.fromkeys(_recurrent(), by_dtype[dtype])
        elif dtype is torch.quint8:
            qconfig_spec = dict.fromkeys((nn.EmbeddingBag, nn.Embedding), by_dtype[dtype])
        elif dtype is torch.quint4x2:
            qconfig_spec = {nn.EmbeddingBag: by_dtype[dtype]}
        else:
            raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please")
    elif isinstance(qconfig_spec, set):
        if dtype not in by_dtype:
            raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
        qconfig_spec = dict(zip(qconfig_spec, itertools.repeat(by_dtype[dtype])))
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping, inplace=True)
    return model


def prepare_qat(model: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """The model (a copy, unless inplace) with modules that round their weights and activations as quantized ones will.

    AssertionError for a model that isn't in training mode.
    """
    assert model.training, "prepare_qat only works on models in training mode"
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """Train a model with rounded values by run_fn(model, *run_args), and convert it."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


def _get_observer_dict(mod: Any, target_dict: dict[str, Any], prefix: str = "") -> None:
    """Every observer below a module by name."""

    def within(name: str) -> str:
        return name if name == "" else name + "."

    if hasattr(mod, "activation_post_process"):
        target_dict[within(prefix) + "activation_post_process"] = mod.activation_post_process
    for name, child in mod.named_children():
        _get_observer_dict(child, target_dict, within(prefix) + name if prefix else name)
