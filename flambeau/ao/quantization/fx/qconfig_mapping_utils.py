"""Which qconfig each node of a graph has, by a QConfigMapping. Stands on qconfig_mapping; used by prepare and convert."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from flambeau.ao.nn.intrinsic import _FusedModule
from flambeau.ao.quantization.backend_config import BackendConfig
from flambeau.ao.quantization.backend_config.utils import get_module_to_qat_module
from flambeau.ao.quantization.qconfig import qconfig_equals
from flambeau.ao.quantization.qconfig_mapping import _QCONFIG_STYLE_ORDER, QConfigMapping
from flambeau.ao.quantization.utils import type_before_parametrizations
from flambeau.fx import Graph

__all__ = ["check_converted_mapping", "node_qconfigs", "with_fused_types", "with_trained_types"]


def with_fused_types(model: Any, mapping: QConfigMapping) -> None:
    """Give fused classes the qconfig of the class that comes first in them. LookupError where the classes in it differ."""
    types = mapping.object_type_qconfigs
    if not types:
        return
    modules = dict(model.named_modules())
    for node in model.graph.nodes:
        fused = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(fused, _FusedModule):
            continue
        parts = list(fused._modules.values())
        first = types.get(type(parts[0]))
        for part in parts[1:]:
            if not qconfig_equals(types.get(type(part)), first):
                raise LookupError(
                    f"During fusion, we need to specify the same qconfigs for all module types in {type(fused)} "
                    f"offending type: {type(part)}"
                )
        if first is not None:
            types[type(fused)] = first


def with_trained_types(mapping: QConfigMapping, backend_config: BackendConfig) -> None:
    """Give the classes that are trained the qconfig of their float classes."""
    trained = get_module_to_qat_module(backend_config)
    for kind, qconfig in list(mapping.object_type_qconfigs.items()):
        if kind in trained:
            mapping.object_type_qconfigs[trained[kind]] = qconfig


def _get_object_type_qconfig(qconfig_mapping: QConfigMapping, object_type: Any, fallback_qconfig: Any) -> Any:
    """The qconfig of a class, function or method."""
    return qconfig_mapping.object_type_qconfigs.get(object_type, fallback_qconfig)


def _get_module_name_regex_qconfig(qconfig_mapping: QConfigMapping, module_name: str, fallback_qconfig: Any) -> Any:
    """The qconfig of a module by the first pattern that its name fits."""
    for pattern, qconfig in qconfig_mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, module_name):
            return qconfig
    return fallback_qconfig


def _get_module_name_qconfig(qconfig_mapping: QConfigMapping, module_name: str, fallback_qconfig: Any) -> Any:
    """The qconfig of a module by its name, or that of the nearest module around it that has one."""
    while module_name:
        if module_name in qconfig_mapping.module_name_qconfigs:
            return qconfig_mapping.module_name_qconfigs[module_name]
        module_name = module_name.rpartition(".")[0]
    return fallback_qconfig


def _maybe_adjust_qconfig_for_module_type_or_name(
    qconfig_mapping: QConfigMapping, module_type: Any, module_name: str, global_qconfig: Any
) -> Any:
    """The qconfig of a module: by its name, or a pattern of names, or its class, or the global one."""
    found = _get_object_type_qconfig(qconfig_mapping, module_type, global_qconfig)
    found = _get_module_name_regex_qconfig(qconfig_mapping, module_name, found)
    return _get_module_name_qconfig(qconfig_mapping, module_name, found)


def _maybe_adjust_qconfig_for_module_name_object_type_order(
    qconfig_mapping: QConfigMapping, cur_module_path: str, cur_object_type: Any, cur_object_type_idx: int, fallback_qconfig: Any
) -> Any:
    """The qconfig of the idx-th use of a kind in a module, if the mapping has one."""
    key = (cur_module_path, cur_object_type, cur_object_type_idx)
    return qconfig_mapping.module_name_object_type_order_qconfigs.get(key, fallback_qconfig)


def node_qconfigs(
    root: Any, modules: dict[str, Any], graph: Graph, mapping: QConfigMapping, scopes: dict[str, tuple[str, Any]]
) -> dict[str, Any]:
    """The qconfig of each node by its name; modules get theirs as the attribute `qconfig` too."""
    whole, types = mapping.global_qconfig, mapping.object_type_qconfigs
    made: dict[str, Any] = {}
    uses: dict[tuple[str, Any], int] = defaultdict(int)

    def next_use(path: str, kind: Any) -> int:
        uses[path, kind] += 1
        return uses[path, kind] - 1

    for node in graph.nodes:
        qconfig = None
        path, kind = scopes.get(node.name, ("", None))
        target = str(node.target)
        if node.op == "get_attr":
            qconfig = _maybe_adjust_qconfig_for_module_type_or_name(mapping, None, target.rpartition(".")[0], whole)
        elif node.op in ("call_function", "call_method"):
            by_kind = types.get(kind, whole)
            qconfig = _maybe_adjust_qconfig_for_module_type_or_name(mapping, node.target, path, by_kind)
            if node.op == "call_function":
                qconfig = _maybe_adjust_qconfig_for_module_name_object_type_order(
                    mapping, path, node.target, next_use(path, node.target), qconfig
                )
        elif node.op == "call_module":
            module = modules[target]
            if _is_observer(module):
                continue
            own = type_before_parametrizations(module)
            around = types.get(kind, whole) if kind is not own else whole
            qconfig = _maybe_adjust_qconfig_for_module_type_or_name(mapping, own, target, around)
            parent, kind = target.rpartition(".")[0], kind or own  # a fused module counts as what it was traced as
            qconfig = _maybe_adjust_qconfig_for_module_name_object_type_order(
                mapping, parent, kind, next_use(parent, kind), qconfig
            )
            module.qconfig = qconfig
        made[node.name] = qconfig
    return made


def _is_observer(module: Any) -> bool:
    from flambeau.ao.quantization.fake_quantize import FakeQuantizeBase
    from flambeau.ao.quantization.observer import ObserverBase

    return isinstance(module, ObserverBase | FakeQuantizeBase)


def check_converted_mapping(prepared: QConfigMapping, given: QConfigMapping) -> None:
    """AssertionError unless a mapping for convert says what the one of prepare said, or None for a name or class of it."""
    if not qconfig_equals(prepared.global_qconfig, given.global_qconfig):
        raise AssertionError("Expected global qconfigs to be the same in the prepare and convert quantization configs")
    for style in _QCONFIG_STYLE_ORDER[1:]:
        after, what = getattr(given, style), style.removesuffix("_qconfigs")
        for key, qconfig in getattr(prepared, style).items():
            if key not in after:
                raise AssertionError(f"Missing key {what} {key} in convert QConfigMapping when it was present in prepare")
            if after[key] is not None and not qconfig_equals(qconfig, after[key]):
                raise AssertionError(
                    f"Expected convert QConfigMapping to have the same qconfig as prepare for key {what} {key}; "
                    f"prepare: {qconfig}; convert: {after[key]}"
                )
