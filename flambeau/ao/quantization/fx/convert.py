"""Observers become quantize and dequantize, and modules with weights their reference forms. Stands on prepare's notes.

Used by quantize_fx, which then lowers the result.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import flambeau as torch
from flambeau.ao.nn.intrinsic import _FusedModule
from flambeau.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from flambeau.ao.quantization.backend_config.utils import (
    get_fused_module_classes,
    get_pattern_to_dtype_configs,
    get_qat_module_classes,
    get_root_module_to_quantized_reference_module,
)
from flambeau.ao.quantization.fx.constants import constant_value
from flambeau.ao.quantization.fx.custom_config import ConvertCustomConfig
from flambeau.ao.quantization.fx.graph_module import KEY, _is_observed_standalone_module
from flambeau.ao.quantization.fx.lower import lower_to_native_backend
from flambeau.ao.quantization.fx.qconfig_mapping_utils import (
    check_converted_mapping,
    node_qconfigs,
    with_fused_types,
    with_trained_types,
)
from flambeau.ao.quantization.observer import _is_activation_post_process
from flambeau.ao.quantization.qconfig import qconfig_equals
from flambeau.ao.quantization.qconfig_mapping import QConfigMapping
from flambeau.ao.quantization.quant_type import QuantType
from flambeau.ao.quantization.quantize import _remove_qconfig
from flambeau.ao.quantization.stubs import DeQuantStub
from flambeau.ao.quantization.utils import (
    _parent_name,
    get_qparam_dict,
    is_per_channel,
    to_underlying_dtype,
    type_before_parametrizations,
    weight_is_quantized,
)
from flambeau.fx import GraphModule, Node

__all__ = ["convert"]

_QUANTIZED = (torch.quint8, torch.qint8, torch.qint32)
_STATIC_DTYPES = (*_QUANTIZED, torch.uint8, torch.int8, torch.int16, torch.int32, torch.float8_e5m2, torch.float8_e4m3fn)


def new_attribute(model: Any, prefix: str, value: Any) -> str:
    """Keep a value as a buffer under `prefix` and the first number that is free; its name."""
    prefix, number = prefix.replace(".", "_"), 0
    while hasattr(model, f"{prefix}{number}"):
        number += 1
    name = f"{prefix}{number}"
    made = value.detach().clone() if isinstance(value, torch.Tensor) else torch.tensor(value)
    model.register_buffer(name, made)
    return name


class _Conversion:
    """One pass of convert over a graph."""

    def __init__(
        self, model: GraphModule, backend: BackendConfig, custom: ConvertCustomConfig, decomposed: bool, remove_qconfig: bool
    ) -> None:
        self.model, self.graph, self.backend, self.custom, self.decomposed = model, model.graph, backend, custom, decomposed
        notes = model.meta[KEY]
        self.notes, self.scopes, self.is_qat = notes, notes.node_name_to_scope, notes.is_qat
        self.qconfigs: dict[str, Any] = notes.node_name_to_qconfig
        self.modules: dict[str, Any] = dict(model.named_modules(remove_duplicate=False))
        self.root_classes: dict[Any, Any] = get_root_module_to_quantized_reference_module(backend)
        self.qat_classes = get_qat_module_classes(backend)
        self.fused_classes = get_fused_module_classes(backend)
        self.custom_classes: dict[Any, Any] = custom.observed_to_quantized_mapping.get(QuantType.STATIC, {})
        self.quantized_custom: set[str] = set()

    # ---- observers
    def prefix(self, node: Node) -> str:
        """The beginning of the names for what an observer found."""
        observed = node.args[0]
        if self.qconfigs.get(observed.name) is None:
            users = list(node.users)
            first = users[0].name if users else observed.name
            path = self.scopes.get(first, ("", None))[0]
            return f"{path}_input"
        return self.scopes.get(observed.name, ("", None))[0]

    def attribute(self, prefix: str, key: str, value: Any) -> Node:
        """A node of a value that is kept."""
        return self.graph.create_node("get_attr", new_attribute(self.model, f"{prefix}_{key}_", value))

    def of_observer(self, node: Node, module: Any) -> None:
        """Quantize and dequantize in the place of an observer, as its dtype says."""
        source = node.args[0]
        dtype = getattr(module, "dtype", torch.float)
        dynamic = getattr(module, "is_dynamic", False)
        if any(self._is_custom_quantized(user) for user in (source, *node.users)) and not dynamic:
            if self._is_custom_quantized(source):
                node.replace_all_uses_with(source)
                self.graph.erase_node(node)
                return
        with self.graph.inserting_before(node):
            made = None
            if dtype in _STATIC_DTYPES and not dynamic:
                made = self._static(node, source, module)
            elif dynamic and dtype is not torch.float16:
                made = self._dynamic(source, module)
            elif dtype is torch.float16:
                half = self.graph.create_node("call_method", "to", (source, torch.float16))
                made = self.graph.create_node("call_method", "dequantize", (half,))
        if made is None:
            node.replace_all_uses_with(source)
        else:
            node.replace_all_uses_with(made)
        self.graph.erase_node(node)

    def _is_custom_quantized(self, node: Node) -> bool:
        return node.name in self.quantized_custom

    def _limits(self, module: Any) -> tuple[int, int]:
        return module.quant_min, module.quant_max

    def _static(self, node: Node, source: Node, module: Any) -> Node:
        scale, zero_point = module.calculate_qparams()
        scheme = getattr(module, "qscheme", torch.per_tensor_affine)
        by_channel = is_per_channel(scheme)
        dtype, prefix = module.dtype, self.prefix(node)
        if not by_channel:
            scale, zero_point = float(scale), int(zero_point)
        axis = (int(module.ch_axis),) if by_channel else ()
        if not self.decomposed:
            function = torch.quantize_per_channel if by_channel else torch.quantize_per_tensor
            kept = (self.attribute(prefix, "scale", scale), self.attribute(prefix, "zero_point", zero_point))
            made = self.graph.create_node("call_function", function, (source, *kept, *axis, dtype))
            return self.graph.create_node("call_method", "dequantize", (made,))
        kind, operators = to_underlying_dtype(dtype), torch.ops.quantized_decomposed
        given: tuple[Any, ...] = (scale, zero_point)
        if by_channel:
            given = (self.attribute(prefix, "scale", scale), self.attribute(prefix, "zero_point", zero_point), *axis)
        given = (*given, *self._limits(module), kind)
        which = "per_channel" if by_channel else "per_tensor"
        made = self.graph.create_node("call_function", getattr(operators, f"quantize_{which}").default, (source, *given))
        return self.graph.create_node("call_function", getattr(operators, f"dequantize_{which}").default, (made, *given))

    def _dynamic(self, source: Node, module: Any) -> Node:
        if not self.decomposed:
            reduce_range = torch.backends.quantized.engine in ("fbgemm", "x86")
            made = self.graph.create_node(
                "call_function", torch.quantize_per_tensor_dynamic, (source, module.dtype, reduce_range)
            )
            return self.graph.create_node("call_method", "dequantize", (made,))
        operators, kind = torch.ops.quantized_decomposed, to_underlying_dtype(module.dtype)
        symmetric = getattr(module, "qscheme", None) is torch.per_tensor_symmetric
        choose = operators.choose_qparams_symmetric.tensor if symmetric else operators.choose_qparams.tensor
        low, high = self._limits(module)
        eps = getattr(module, "eps", torch.finfo(torch.float32).eps)
        eps = float(eps) if isinstance(eps, torch.Tensor) else eps
        chosen = self.graph.create_node("call_function", choose, (source, low, high, eps, kind))
        scale = self.graph.create_node("call_function", operator.getitem, (chosen, 0))
        zero_point = self.graph.create_node("call_function", operator.getitem, (chosen, 1))
        given = (scale, zero_point, low, high, kind)
        made = self.graph.create_node("call_function", operators.quantize_per_tensor.tensor, (source, *given))
        return self.graph.create_node("call_function", operators.dequantize_per_tensor.tensor, (made, *given))

    # ---- weights of functions
    def run_weight_observers(self) -> None:
        """Let observers of weights that are constants see them."""
        for node in self.graph.nodes:
            if node.op != "call_function":
                continue
            config = self.backend._pattern_complex_format_to_config.get(node.target)
            if config is None or not config._input_type_to_index:
                continue
            index = config._input_type_to_index.get("weight")
            weight = node.args[index] if index is not None and index < len(node.args) else node.kwargs.get("weight")
            if isinstance(weight, Node) and weight.op == "call_module":
                constant_value(weight, self.model, self.modules)

    # ---- modules with weights
    def _supported(self, kind: type, qconfig: Any) -> bool:
        """Whether the backend has the weight's dtype for a class."""
        configs = get_pattern_to_dtype_configs(self.backend).get(kind, [])
        activation, weight = qconfig.activation(), qconfig.weight()
        dynamic = getattr(activation, "is_dynamic", False)
        for each in configs:
            if each.weight_dtype not in (None, weight.dtype) or each.input_dtype not in (None, activation.dtype):
                continue
            if bool(each.is_dynamic) == dynamic:
                return True
        return False

    def of_weighted(self, node: Node, module: Any) -> None:
        """The reference form of a module with a weight."""
        qconfig = module.qconfig if hasattr(module, "qconfig") else None
        if qconfig is None:
            qconfig = self.qconfigs.get(node.name)
        kind, name = type_before_parametrizations(module), str(node.target)
        observer = None
        if kind in self.qat_classes:
            observer = module.weight_fake_quant
            module = module.to_float()
            module.qconfig = qconfig
            self._put(name, module)
        if qconfig is None or not weight_is_quantized(qconfig) or not self._supported(kind, qconfig):
            return
        root, fused = module, None
        if isinstance(module, _FusedModule):
            fused, root = module, module[0]
        reference = self.root_classes.get(type_before_parametrizations(root))
        if reference is None:
            return
        parameters = self._qparams(root, qconfig, observer)
        made = reference.from_float(root, parameters)
        if fused is not None:
            fused[0] = made
        else:
            self._put(name, made)

    def _put(self, name: str, module: Any) -> None:
        parent, own = _parent_name(name)
        setattr(self.modules[parent], own, module)
        self.modules[name] = module

    def _qparams(self, root: Any, qconfig: Any, observer: Any) -> dict[str, Any]:
        """What the weights of a module are quantized by."""
        nn = torch.nn
        if isinstance(root, nn.RNNCellBase | nn.RNNBase):
            names = (
                ["weight_ih", "weight_hh"]
                if isinstance(root, nn.RNNCellBase)
                else [n for n in root._flat_weights_names if n.startswith("weight")]
            )
            made: dict[str, Any] = {}
            for name in names:
                seen = qconfig.weight()
                if seen.dtype is torch.qint8:
                    seen(getattr(root, name))
                made[name] = self._one(seen, integers=torch.int)
            return {**made, "is_decomposed": self.decomposed}
        if observer is None:
            observer = qconfig.weight()
        if observer.dtype is not torch.float16:
            observer(root.weight)
        made = self._one(observer)
        if isinstance(root, nn.Embedding | nn.EmbeddingBag) and made["qscheme"] is not torch.per_channel_affine_float_qparams:
            raise AssertionError(
                "Embedding weights requires a qscheme of torch.per_channel_affine_float_qparams Got " + str(observer.qscheme)
            )
        return made

    def _one(self, observer: Any, integers: Any = None) -> dict[str, Any]:
        made = get_qparam_dict(observer)
        if integers is not None and "zero_point" in made:
            made["zero_point"] = made["zero_point"].to(integers)
        return {**made, "is_decomposed": self.decomposed}

    # ---- other calls
    def of_custom(self, node: Node, module: Any) -> None:
        """The quantized form of a module of the program's, between quantized tensors."""
        made = self.custom_classes[type_before_parametrizations(module)].from_observed(module)
        self._put(str(node.target), made)
        if getattr(getattr(module, "qconfig", None), "activation", None) is None:
            return
        given = []
        for each in node.args:
            given.append(_quantized_source(each))
        node.args = tuple(given)
        self.quantized_custom.add(node.name)
        with self.graph.inserting_after(node):
            float_again = self.graph.create_node("call_method", "dequantize", (node,))
        for user in list(node.users):
            if user is not float_again:
                user.replace_input_with(node, float_again)
        for user in list(float_again.users):
            if user.op == "call_module" and _is_activation_post_process(self.modules.get(str(user.target))):
                user.replace_all_uses_with(float_again)
                self.graph.erase_node(user)

    def of_standalone(self, node: Node, module: Any, is_reference: bool) -> None:
        """A module that was prepared by itself, converted by itself."""
        notes = module.meta[KEY]
        args = list(node.args)
        for index in notes.standalone_module_input_quantized_idxs or []:
            if index < len(args):
                args[index] = _quantized_source(args[index])
        node.args = tuple(args)
        if notes.standalone_module_output_quantized_idxs:
            with self.graph.inserting_after(node):
                float_again = self.graph.create_node("call_method", "dequantize", (node,))
            for user in list(node.users):
                if user is not float_again:
                    user.replace_input_with(node, float_again)
        made = convert(module, is_reference, is_standalone_module=True, backend_config=self.backend)
        self._put(str(node.target), made)

    def run(self, is_reference: bool) -> None:
        """Convert all nodes."""
        self.run_weight_observers()
        config = self.notes.prepare_custom_config
        inputs = 0
        for node in list(self.graph.nodes):
            if node.op == "placeholder":
                if inputs in config.input_quantized_indexes:
                    with self.graph.inserting_after(node):
                        made = self.graph.create_node("call_method", "dequantize", (node,))
                    for user in list(node.users):
                        if user is not made:
                            user.replace_input_with(node, made)
                inputs += 1
            elif node.op == "output":
                self._of_output(node, config.output_quantized_indexes)
            elif node.op == "call_module" and not node._erased:
                self._of_module(node, is_reference)

    def _of_module(self, node: Node, is_reference: bool) -> None:
        module = self.modules[str(node.target)]
        kind = type_before_parametrizations(module)
        if _is_activation_post_process(module):
            self.of_observer(node, module)
        elif isinstance(module, DeQuantStub):
            with self.graph.inserting_before(node):
                made = self.graph.create_node("call_method", "dequantize", (node.args[0],))
            node.replace_all_uses_with(made)
            self.graph.erase_node(node)
        elif _is_observed_standalone_module(module):
            self.of_standalone(node, module, is_reference)
        elif kind in self.custom_classes:
            self.of_custom(node, module)
        elif kind in self.root_classes or kind in self.qat_classes or kind in self.fused_classes:
            self.of_weighted(node, module)

    def _of_output(self, node: Node, indexes: list[int]) -> None:
        if not indexes:
            return
        given = node.args[0]
        if isinstance(given, list | tuple):
            whole = 0 in indexes and len(indexes) == 1 and not isinstance(given, tuple)
            node.args = (type(given)([_quantized_tree(v) if whole or i in indexes else v for i, v in enumerate(given)]),)
        elif 0 in indexes:
            node.args = (_quantized_tree(given),)


def _quantized_source(value: Any) -> Any:
    """What a value was dequantized from."""
    if isinstance(value, Node) and value.op == "call_method" and value.target == "dequantize":
        return value.args[0]
    return value


def _quantized_tree(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_quantized_tree(each) for each in value])
    if isinstance(value, dict):
        return {key: _quantized_tree(each) for key, each in value.items()}
    return _quantized_source(value)


def convert(
    model: GraphModule,
    is_reference: bool = False,
    convert_custom_config: Any = None,
    is_standalone_module: bool = False,
    _remove_qconfig_flag: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    is_decomposed: bool = False,
    keep_original_weights: bool = False,
) -> GraphModule:
    """The quantized form of a prepared graph module, or its reference form. AssertionError for a module that wasn't prepared."""
    custom = convert_custom_config or ConvertCustomConfig()
    if isinstance(custom, dict):
        custom = ConvertCustomConfig.from_dict(custom)
    if isinstance(qconfig_mapping, dict):
        qconfig_mapping = QConfigMapping.from_dict(qconfig_mapping)
    if isinstance(backend_config, dict):
        backend_config = BackendConfig.from_dict(backend_config)
    backend = get_native_backend_config() if backend_config is None else backend_config
    if KEY not in model.meta:
        raise AssertionError("incoming model must be produced by prepare_fx")
    notes = model.meta[KEY]
    modules = dict(model.named_modules(remove_duplicate=False))
    if qconfig_mapping is not None:
        mapping = copy.deepcopy(qconfig_mapping)
        check_converted_mapping(notes.qconfig_mapping, mapping)
        if notes.is_qat:
            with_trained_types(mapping, backend)
        with_fused_types(model, mapping)
        again = node_qconfigs(model, modules, model.graph, mapping, notes.node_name_to_scope)
        for name, qconfig in notes.node_name_to_qconfig.items():
            if qconfig is not None and not qconfig_equals(qconfig, again.get(name)):
                if again.get(name) is not None:
                    raise AssertionError(
                        f"Expected k {name} to have the same value in prepare and convert QConfigMappings, but {qconfig} was "
                        f"updated to {again[name]}"
                    )
            notes.node_name_to_qconfig[name] = again.get(name, qconfig)
        _drop_observers_without_qconfig(model, modules)
    made = _Conversion(model, backend, custom, is_decomposed, _remove_qconfig_flag)
    made.run(is_reference)
    model.graph.eliminate_dead_code()
    preserved, kept = dict(model.meta), made
    model = GraphModule(model, model.graph)
    model.meta.update({key: value for key, value in preserved.items() if key != KEY})
    if not is_reference:
        model = lower_to_native_backend(model, kept.scopes, keep_original_weights)
    if _remove_qconfig_flag:
        _remove_qconfig(model)
    return model


def _drop_observers_without_qconfig(model: GraphModule, modules: dict[str, Any]) -> None:
    """Take out the observers between calls that convert's mapping leaves in float."""
    qconfigs = model.meta[KEY].node_name_to_qconfig
    for node in list(model.graph.nodes):
        if node.op != "call_module" or not _is_activation_post_process(modules.get(str(node.target))):
            continue
        source = node.args[0]
        if all(each.name in qconfigs and qconfigs[each.name] is None for each in (source, *node.users)):
            node.replace_all_uses_with(source)
            model.graph.erase_node(node)
