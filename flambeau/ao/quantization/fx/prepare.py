"""Observers before and after what a backend can quantize. Stands on match_utils and qconfig_mapping_utils; used by quantize_fx.

Each node has a wish for the dtype of its inputs and of its result; an observer is put where a wish isn't fulfilled by what
comes before.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.backend_config import BackendConfig, DTypeConfig, ObservationType, get_native_backend_config
from flambeau.ao.quantization.backend_config.utils import (
    get_fusion_pattern_to_root_node_getter,
    get_module_to_qat_module,
    get_pattern_to_dtype_configs,
)
from flambeau.ao.quantization.fx.custom_config import PrepareCustomConfig, StandaloneModuleConfigEntry
from flambeau.ao.quantization.fx.graph_module import KEY, ObservedGraphModuleAttrs
from flambeau.ao.quantization.fx.match_utils import Match, default_root_node_getter, find_matches, sorted_by_size
from flambeau.ao.quantization.fx.qconfig_mapping_utils import node_qconfigs, with_fused_types, with_trained_types
from flambeau.ao.quantization.observer import (
    FixedQParamsObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    _is_activation_post_process,
)
from flambeau.ao.quantization.qconfig_mapping import QConfigMapping
from flambeau.ao.quantization.quantize import convert, propagate_qconfig_
from flambeau.ao.quantization.utils import _parent_name, type_before_parametrizations
from flambeau.fx import GraphModule, Node

__all__ = ["dtypes_are_supported", "prepare"]

_OBSERVED_DTYPES = {
    torch.quint8,
    torch.qint8,
    torch.qint32,
    torch.float16,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
}
_SHARE = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_NOT_OBSERVED = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
_FLOAT = PlaceholderObserver.with_args(dtype=torch.float)
_QUINT8 = PlaceholderObserver.with_args(dtype=torch.quint8)


@dataclass
class Wish:
    """The observers that a node would have for its inputs, weight, bias and result; None where it has no tensors."""

    input: Any = _FLOAT
    output: Any = _FLOAT
    weight: Any = None
    bias: Any = None
    weight_index: int | None = None
    bias_index: int | None = None


def _dtype(made: Any) -> tuple[Any, bool]:
    """The dtype of an observer, and whether it is for what is quantized at run time."""
    if made is None:
        return None, False
    seen = made() if not isinstance(made, torch.nn.Module) else made
    if isinstance(seen, torch.nn.Identity):
        return torch.float, False
    return seen.dtype, getattr(seen, "is_dynamic", False)


# ---------------------------------------------------------------- what a backend supports


def _satisfies(qconfig: Any, made: Any, constraints: Any, is_activation: bool = True) -> bool:
    """Whether an observer keeps to a backend's constraints."""
    if constraints.dtype is None or made is None:
        return True
    seen = made()
    low, high = constraints.quant_min_lower_bound, constraints.quant_max_upper_bound
    least_scale = constraints.scale_min_lower_bound
    exact_scale, exact_zero = constraints.scale_exact_match, constraints.zero_point_exact_match
    inner = getattr(seen, "activation_post_process", seen)
    if low is not None or high is not None:
        own_low, own_high = getattr(seen, "quant_min", None), getattr(seen, "quant_max", None)
        if own_low is None or own_high is None:
            return False
        if (low is not None and own_low < low) or (high is not None and own_high > high):
            return False
    if least_scale is not None:
        eps = getattr(inner, "eps", None)
        if eps is None or float(eps) < least_scale:
            return False
    if exact_scale is not None and exact_zero is not None:
        if not isinstance(inner, FixedQParamsObserver):
            return False
        return float(inner.scale) == exact_scale and int(inner.zero_point) == exact_zero
    return True


def _fits(made: Any, constraints: Any, dynamic: bool | None, qconfig: Any) -> bool:
    if constraints.dtype is None:
        return True
    dtype, is_dynamic = _dtype(made)
    return dtype == constraints.dtype and is_dynamic == bool(dynamic) and _satisfies(qconfig, made, constraints)


def dtypes_are_supported(pattern: Any, match: Match | None, qconfig: Any, backend: BackendConfig) -> bool:
    """Whether a backend computes a pattern with the dtypes of a qconfig."""
    if backend is None or pattern is None:
        return True
    if match is None:
        return True
    table = get_pattern_to_dtype_configs(backend)
    getter = get_fusion_pattern_to_root_node_getter(backend).get(pattern, default_root_node_getter)
    root, last = getter(match.nodes), match.last
    indexes = _indexes(root, backend)
    return any(_one_fits(root, last, qconfig, dtypes, indexes) for dtypes in table.get(pattern, []))


def _indexes(node: Node, backend: BackendConfig) -> dict[str, int]:
    """Which arguments of a call of a function are its weight and bias."""
    config = backend._pattern_complex_format_to_config.get(node.target) if node.op == "call_function" else None
    return config._input_type_to_index if config is not None else {}


def _role(root: Node, position: Any, indexes: dict[str, int]) -> str:
    for role in ("weight", "bias"):
        if position == role or (isinstance(position, int) and indexes.get(role) == position):
            return role
    return "activation"


def _one_fits(root: Node, last: Node, qconfig: Any, dtypes: DTypeConfig, indexes: dict[str, int]) -> bool:
    given = [*enumerate(root.args), *root.kwargs.items()]
    for position, value in given:
        if not isinstance(value, Node) and not (isinstance(value, list | tuple) and any(isinstance(v, Node) for v in value)):
            continue
        role = _role(root, position, indexes)
        if role == "activation":
            if not _fits(qconfig.activation, dtypes.input_dtype_with_constraints, dtypes.is_dynamic, qconfig):
                return False
        elif role == "weight":
            wanted = dtypes.weight_dtype_with_constraints
            if wanted.dtype is not None and not (
                _dtype(qconfig.weight)[0] == wanted.dtype and _satisfies(qconfig, qconfig.weight, wanted)
            ):
                return False
        elif dtypes.bias_dtype not in (None, torch.float):
            # Biases stay in float32, but for those that are held in half precision with everything else.
            if not (dtypes.bias_dtype is torch.float16 and _dtype(qconfig.activation)[0] is torch.float16):
                return False
    wanted = dtypes.output_dtype_with_constraints
    if wanted.dtype is None:
        return True
    dtype, is_dynamic = _dtype(qconfig.activation)
    dtype = torch.float if is_dynamic else dtype
    return dtype == wanted.dtype and (is_dynamic or _satisfies(qconfig, qconfig.activation, wanted))


# ---------------------------------------------------------------- wishes


def _has_tensor(node: Node, modules: dict[str, Any], cache: dict[Node, bool]) -> bool:
    """Whether a node's result may be, or come from, a tensor, and not only a size or a number."""
    if node in cache:
        return cache[node]
    cache[node] = made = _may_be_tensor(node, modules, cache)
    return made


def _may_be_tensor(node: Node, modules: dict[str, Any], cache: dict[Node, bool]) -> bool:
    if node.op == "placeholder":
        return True
    if node.op == "call_module":
        return True
    if node.op == "call_method" and node.target == "size":
        return False
    if node.op == "get_attr":
        return False
    if node.target is getattr and len(node.args) > 1 and node.args[1] in ("ndim", "shape"):
        return False
    return any(_has_tensor(each, modules, cache) for each in node.all_input_nodes)


def _args_have_no_tensors(node: Node, modules: dict[str, Any], cache: dict[Node, bool]) -> bool:
    inputs = node.all_input_nodes
    return not any(_has_tensor(each, modules, cache) for each in inputs)


def _is_number_of_tensors(node: Node) -> int:
    """How many of the operands of a binary operator are tensors."""
    operands = node.args[:2] if node.args else ()
    return sum(isinstance(each, Node) for each in operands)


class _Insertion:
    """One pass of prepare over a graph."""

    def __init__(
        self,
        model: GraphModule,
        qconfigs: dict[str, Any],
        matches: dict[str, Match],
        backend: BackendConfig,
        custom: PrepareCustomConfig,
        is_qat: bool,
    ) -> None:
        self.model, self.graph, self.qconfigs, self.matches = model, model.graph, qconfigs, matches
        self.backend, self.custom, self.is_qat = backend, custom, is_qat
        self.modules: dict[str, Any] = dict(model.named_modules(remove_duplicate=False))
        self.configs = backend._pattern_complex_format_to_config
        self.wishes: dict[Node, Wish] = {}
        self.observed: set[str] = set()
        self.tensors: dict[Node, bool] = {}
        self.number = 0

    # ---- wishes
    def kind(self, match: Match, node: Node) -> ObservationType:
        """How a match's result is observed."""
        config = self.configs[match.pattern]
        counted = config._num_tensor_args_to_observation_type
        if counted:
            return counted[_is_number_of_tensors(match.root)]
        return config.observation_type

    def supported(self, node: Node) -> bool:
        """Whether a node is in a match that has a qconfig which the backend supports."""
        match, qconfig = self.matches.get(node.name), self.qconfigs.get(node.name)
        if match is None or qconfig is None:
            return False
        if match.standalone or match.custom:
            return True
        own = self.qconfigs.get(match.root.name)
        return own is not None and dtypes_are_supported(match.pattern, match, own, self.backend)

    def wish(self, node: Node, inputs_seen: int) -> Wish:
        """The wish of a node."""
        if node.op == "placeholder":
            return Wish(None, _QUINT8 if inputs_seen in self.custom.input_quantized_indexes else _FLOAT)
        if node.op == "output":
            return Wish(_QUINT8 if 0 in self.custom.output_quantized_indexes else _FLOAT, _FLOAT)
        if node.op == "get_attr" or not self.supported(node):
            return Wish()
        match, qconfig = self.matches[node.name], self.qconfigs[node.name]
        if match.standalone:
            return Wish(None, None)
        if match.custom:
            return Wish(qconfig.activation, qconfig.activation)
        if self.kind(match, node) is _NOT_OBSERVED or _args_have_no_tensors(node, self.modules, self.tensors):
            return Wish(None, None)
        activation = qconfig.activation
        dynamic = _dtype(activation)[1]
        indexes = _indexes(node, self.backend)
        bias = PlaceholderObserver.with_args(
            dtype=torch.float16 if _dtype(activation)[0] is torch.float16 and not dynamic else torch.float
        )
        return Wish(
            activation, _FLOAT if dynamic else activation, qconfig.weight, bias, indexes.get("weight"), indexes.get("bias")
        )

    # ---- observers
    def insert(self, after: Node, observer: Any) -> Node:
        """A node of an observer of a node's result."""
        name = f"activation_post_process_{self.number}"
        while hasattr(self.model, name):
            self.number += 1
            name = f"activation_post_process_{self.number}"
        self.number += 1
        setattr(self.model, name, observer)
        self.modules[name] = observer
        with self.graph.inserting_after(after):
            return self.graph.create_node("call_module", name, (after,), {})

    def observer_of(self, node: Any) -> Any:
        """The observer that a node calls, or None."""
        if isinstance(node, Node) and node.op == "call_module":
            module = self.modules.get(str(node.target))
            if _is_activation_post_process(module):
                return module
        return None

    def output_dtype(self, node: Node) -> Any:
        """The dtype in which a node's result comes."""
        if self.observer_of(node) is not None:
            return self.observer_of(node).dtype
        if node.op == "call_module" and self.matches.get(node.name) is not None and self.matches[node.name].standalone:
            module = self.modules[str(node.target)]
            indexes = module.meta[KEY].standalone_module_output_quantized_idxs
            return torch.quint8 if indexes else torch.float
        if node in self.wishes:
            return _dtype(self.wishes[node].output)[0]
        return torch.float

    def of_argument(self, node: Node, value: Any, wish: Wish, first: bool, whole: Any) -> Any:
        """An argument, or an observer of it."""
        if isinstance(value, list | tuple):
            made = [self.of_argument(node, each, wish, first and i == 0, whole) for i, each in enumerate(value)]
            return type(value)(made) if not hasattr(value, "_fields") else type(value)(*made)
        if not isinstance(value, Node):
            return value
        if value.op != "get_attr" and not _has_tensor(value, self.modules, self.tensors):
            return value
        made = self.role(node, value, wish)
        match = self.matches.get(node.name)
        if match is not None and match.standalone:
            return self.of_standalone(node, value)
        dtype, dynamic = _dtype(made)
        if made is None or not self.needs(value, made, dtype, dynamic, first):
            return value
        source = value if self.observer_of(value) is None else value.args[0]
        for user in list(source.users):
            seen = self.observer_of(user)
            if seen is not None and seen.dtype == dtype and bool(getattr(seen, "is_dynamic", False)) == dynamic:
                return user
        return self.insert(value, made())

    def of_standalone(self, node: Node, value: Node) -> Any:
        module = self.modules[str(node.target)]
        wanted = module.meta[KEY].standalone_module_input_quantized_idxs or []
        position = list(node.args).index(value) if value in node.args else -1
        if position not in wanted or self.output_dtype(value) == torch.quint8:
            return value
        return self.insert(value, self.qconfigs[node.name].activation())

    def role(self, node: Node, value: Node, wish: Wish) -> Any:
        """The observer that a node would have for one of its arguments."""
        for which in ("weight", "bias"):
            index = getattr(wish, f"{which}_index")
            if index is None:
                continue
            if (index < len(node.args) and node.args[index] is value) or node.kwargs.get(which) is value:
                return getattr(wish, which)
        return wish.input

    def needs(self, value: Node, made: Any, dtype: Any, dynamic: bool, first: bool) -> bool:
        """Whether an argument has to be observed."""
        if dynamic:
            return first
        if isinstance(made(), ReuseInputObserver):
            return False
        return dtype in _OBSERVED_DTYPES and dtype != self.output_dtype(value)

    def of_inputs(self, node: Node, wish: Wish) -> None:
        """Observers of a node's arguments."""
        args = tuple(self.of_argument(node, each, wish, position == 0, node.args) for position, each in enumerate(node.args))
        kwargs = {name: self.of_argument(node, each, wish, False, node.args) for name, each in node.kwargs.items()}
        node.args, node.kwargs = args, kwargs

    def of_output(self, node: Node, root: Node) -> Node | None:
        """An observer of a match's result, where it has one."""
        match, wish = self.matches[node.name], self.wishes[node]
        if match.standalone:
            return None
        dtype, dynamic = _dtype(wish.output)
        if dtype not in _OBSERVED_DTYPES or dynamic or wish.output is None:
            return None
        observer = wish.output()
        if isinstance(observer, ReuseInputObserver):
            given = self.observer_of(root.args[0]) if root.args else None
            if given is None:
                return None
            observer = given
        made = self.insert(node, observer)
        return made

    def share(self, root: Node, made: Node) -> bool:
        """Let a match's result and all its inputs have the observer of the first. False if the first has none."""
        inputs = list(root.args[0]) if isinstance(root.args[0], list | tuple) else [root.args[0]]
        nodes = [each for each in inputs if isinstance(each, Node)]
        if not nodes and len(root.args) > 1 and isinstance(root.args[1], Node):
            nodes = [root.args[1]]
        first = self._nearest_observer(nodes[0]) if nodes else None
        if first is None:
            return False
        shared = self.observer_of(first)
        for each in nodes[1:]:
            found = self._nearest_observer(each)
            if found is not None:
                self.exchange(found, shared)
        self.exchange(made, shared)
        return True

    def _nearest_observer(self, node: Any) -> Node | None:
        """The observer that a value went through last, looking back through what doesn't change it."""
        while isinstance(node, Node) and self.observer_of(node) is None:
            if node.op == "placeholder" or not node.all_input_nodes:
                return None
            node = node.all_input_nodes[0]
        return node

    def exchange(self, node: Node, shared: Any) -> None:
        """Put one observer in the place of another."""
        parent, own = _parent_name(str(node.target))
        setattr(self.modules[parent] if parent else self.model, own, shared)
        self.modules[str(node.target)] = shared

    def replace_uses(self, node: Node, made: Node) -> None:
        """Let those who use a node use its observer."""
        for user in list(node.users):
            if user is not made:
                user.replace_input_with(node, made)

    # ---- the graph
    def run(self) -> None:
        """Insert all observers."""
        nodes = list(self.graph.nodes)
        inputs = 0
        for node in nodes:
            self.wishes[node] = self.wish(node, inputs)
            inputs += node.op == "placeholder"
        for node in nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                self.of_graph_output(node)
            elif node.op in ("call_module", "call_method", "call_function"):
                self.of_call(node)

    def of_call(self, node: Node) -> None:
        """Observers around one call."""
        match = self.matches.get(node.name)
        if match is None or not self.supported(node):
            return
        wish = self.wishes[node]
        if wish.input is None and wish.output is None and not match.standalone:
            return
        self.observed.add(node.name)
        root = match.root if not match.standalone and not match.custom else node
        if node is root or (match.flat and node in match.flat and not _within(node, match)):
            self.of_inputs(node, wish)
        if node is not match.last:
            return
        made = self.of_output(node, root)
        if made is None:
            return
        if match.pattern is not None and self.kind(match, node) is _SHARE:
            if not self.share(root, made):
                self.graph.erase_node(made)
                delattr(self.model, str(made.target))
                return
        self.replace_uses(node, made)
        if match.custom:
            self.exchange_custom(node, match)

    def exchange_custom(self, node: Node, match: Match) -> None:
        """The observed form of a module of the program's."""
        from flambeau.ao.quantization.quant_type import QuantType

        module = self.modules[str(node.target)]
        kinds: dict[Any, Any] = self.custom.float_to_observed_mapping.get(QuantType.STATIC, {})
        observed = kinds[type_before_parametrizations(module)].from_float(module)
        parent, own = _parent_name(str(node.target))
        setattr(self.modules[parent], own, observed)
        self.modules[str(node.target)] = observed

    def of_graph_output(self, node: Node) -> None:
        """Observers of results that are to stay quantized."""
        wanted = self.custom.output_quantized_indexes
        if not wanted:
            return

        def observed(value: Any) -> Any:
            if isinstance(value, Node):
                dtype = self.output_dtype(value)
                if dtype == torch.quint8:
                    return value
                qconfig = self.qconfigs.get(value.name)
                if qconfig is None:
                    raise AssertionError("Quantizing the output node without a qconfig is not supported")
                return self.insert(value, qconfig.activation())
            if isinstance(value, list | tuple):
                return type(value)([observed(each) for each in value])
            if isinstance(value, dict):
                return {key: observed(each) for key, each in value.items()}
            return value

        given = node.args[0]
        if len(wanted) == 1 and wanted[0] == 0 and not isinstance(given, tuple):
            node.args = (observed(given),)
        elif isinstance(given, tuple):
            node.args = (tuple(observed(each) if i in wanted or 0 in wanted else each for i, each in enumerate(given)),)


def _within(node: Node, match: Match) -> bool:
    """Whether one of a node's inputs is another node of its match."""
    return any(each in match.flat for each in node.all_input_nodes)


# ---------------------------------------------------------------- the pass


def _swap_for_training(model: Any, modules: dict[str, Any], backend: BackendConfig) -> None:
    mapping = get_module_to_qat_module(backend)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    modules.update(dict(model.named_modules(remove_duplicate=False)))


def _prepare_standalone(
    model: GraphModule, modules: dict[str, Any], custom: PrepareCustomConfig, qconfigs: dict[str, Any], is_qat: bool,
    backend: BackendConfig, matches: dict[str, Match], prepare_one: Any,
) -> None:  # fmt: skip
    for node in model.graph.nodes:
        match = matches.get(node.name)
        if match is None or not match.standalone or qconfigs.get(node.name) is None:
            continue
        name, module = str(node.target), modules[str(node.target)]
        entry = custom.standalone_module_names.get(name) or custom.standalone_module_classes.get(type(module))
        entry = entry or StandaloneModuleConfigEntry(None, (), None, None)
        mapping = entry.qconfig_mapping or QConfigMapping().set_global(qconfigs[node.name])
        observed = prepare_one(
            module,
            mapping,
            is_qat,
            entry.example_inputs,
            prepare_custom_config=entry.prepare_custom_config or PrepareCustomConfig(),
            backend_config=entry.backend_config or backend,
        )
        parent, own = _parent_name(name)
        setattr(modules[parent], own, observed)
        modules[name] = observed


def prepare(
    model: GraphModule,
    qconfig_mapping: Any,
    is_qat: bool,
    node_name_to_scope: dict[str, tuple[str, Any]],
    example_inputs: Any,
    prepare_custom_config: Any = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
    is_standalone_module: bool = False,
    prepare_standalone: Any = None,
) -> GraphModule:
    """The graph module with observers, which then has to see samples; changed in place.

    prepare_standalone: prepares a module inside it that is prepared by itself.
    """
    custom = prepare_custom_config or PrepareCustomConfig()
    if isinstance(custom, dict):
        custom = PrepareCustomConfig.from_dict(custom)
    if isinstance(qconfig_mapping, dict):
        qconfig_mapping = QConfigMapping.from_dict(qconfig_mapping)
    if isinstance(backend_config, dict):
        backend_config = BackendConfig.from_dict(backend_config)
    backend = get_native_backend_config() if backend_config is None else backend_config
    mapping, kept = copy.deepcopy(qconfig_mapping), copy.deepcopy(qconfig_mapping)
    root_getters = get_fusion_pattern_to_root_node_getter(backend)
    with_fused_types(model, mapping)
    flat = {**mapping.object_type_qconfigs, **mapping.module_name_qconfigs, "": mapping.global_qconfig}
    propagate_qconfig_(model, flat, custom.to_dict())
    modules: dict[str, Any] = dict(model.named_modules(remove_duplicate=False))
    if is_qat:
        with_trained_types(mapping, backend)
        _swap_for_training(model, modules, backend)
    qconfigs = node_qconfigs(model, modules, model.graph, mapping, node_name_to_scope)
    from flambeau.ao.quantization.quant_type import QuantType

    patterns = list(sorted_by_size(backend._pattern_complex_format_to_config))
    matches = find_matches(
        model.graph,
        modules,
        patterns,
        root_getters,
        (set(custom.standalone_module_names), set(custom.standalone_module_classes)),
        tuple(custom.float_to_observed_mapping.get(QuantType.STATIC, {})),
    )
    _prepare_standalone(model, modules, custom, qconfigs, is_qat, backend, matches, prepare_standalone)
    made = _Insertion(model, qconfigs, matches, backend, custom, is_qat)
    made.run()
    model = GraphModule(model, model.graph)
    attributes = ObservedGraphModuleAttrs(
        node_name_to_qconfig=qconfigs,
        node_name_to_scope=node_name_to_scope,
        prepare_custom_config=custom,
        equalization_node_name_to_qconfig={},
        qconfig_mapping=kept,
        is_qat=is_qat,
        observed_node_names=made.observed,
    )
    if is_standalone_module:
        attributes.is_observed_standalone_module = True
        attributes.standalone_module_input_quantized_idxs = custom.input_quantized_indexes
        attributes.standalone_module_output_quantized_idxs = custom.output_quantized_indexes
    model.meta[KEY] = attributes
    return model
