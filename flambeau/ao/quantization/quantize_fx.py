"""prepare_fx, convert_fx and their kin: models are traced, observed and quantized as graphs. Stands on the passes of `fx`."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import flambeau as torch
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.quantization.backend_config import BackendConfig
from flambeau.ao.quantization.fx.convert import convert
from flambeau.ao.quantization.fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from flambeau.ao.quantization.fx.fuse import fuse
from flambeau.ao.quantization.fx.graph_module import ObservedGraphModule as ObservedGraphModule
from flambeau.ao.quantization.fx.prepare import prepare
from flambeau.ao.quantization.fx.tracer import QuantizationTracer
from flambeau.ao.quantization.fx.tracer import Scope as Scope
from flambeau.ao.quantization.fx.tracer import ScopeContextManager as ScopeContextManager
from flambeau.ao.quantization.qconfig_mapping import QConfigMapping
from flambeau.fx import GraphModule

__all__ = ["convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]

_PRESERVED = "_user_preserved_attributes"


def attach_preserved_attrs_to_model(model: Any, preserved: dict[str, Any]) -> None:
    """Keep attributes of a model on its graph module, and with its copies."""
    model.meta[_PRESERVED] = copy.copy(preserved)
    for name, value in preserved.items():
        setattr(model, name, value)


def _preserved(model: Any, names: list[str]) -> dict[str, Any]:
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _check_is_graph_module(model: Any) -> None:
    if not isinstance(model, GraphModule):
        raise ValueError(
            "input model must be a GraphModule, Got type:" + str(type(model)) + " Please make sure to follow the tutorials."
        )


def _config(kind: Any, given: Any, name: str) -> Any:
    """A config, of a dict too, which older programs pass."""
    if given is None:
        return kind()
    if isinstance(given, dict):
        warnings.warn(
            f"Passing a {name}_dict to prepare is deprecated and will not be supported in a future version. "
            f"Please pass in a {kind.__name__} instead.",
            FutureWarning,
            stacklevel=4,
        )
        return kind.from_dict(given)
    return given


def _swap_ff_with_fxff(model: Any) -> None:
    """FloatFunctional, which tracing can't look into, becomes FXFloatFunctional."""
    for name, child in list(model.named_children()):
        if isinstance(child, nnq.FloatFunctional):
            model._modules[name] = nnq.FXFloatFunctional()
        else:
            _swap_ff_with_fxff(child)


def _keep_arguments(graph_module: Any) -> None:
    for node in graph_module.graph.nodes:
        if not hasattr(node, "meta"):
            node.meta = {}


def _prepare_fx(
    model: Any,
    qconfig_mapping: Any,
    is_qat: bool,
    example_inputs: Any,
    prepare_custom_config: Any = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
    is_standalone_module: bool = False,
) -> GraphModule:
    custom = _config(PrepareCustomConfig, prepare_custom_config, "prepare_custom_config")
    if _equalization_config is not None:
        raise NotImplementedError("equalization of weights is not implemented in flambeau: leave _equalization_config out")
    if isinstance(qconfig_mapping, dict):
        qconfig_mapping = _config(QConfigMapping, qconfig_mapping, "qconfig")
    if isinstance(backend_config, dict):
        backend_config = BackendConfig.from_dict(backend_config)
    _swap_ff_with_fxff(model)
    names, classes = list(custom.non_traceable_module_names), list(custom.non_traceable_module_classes)
    if not is_standalone_module:
        names += list(custom.standalone_module_names)
        classes += list(custom.standalone_module_classes)
    for kinds in custom.float_to_observed_mapping.values():
        classes += list(kinds)
    tracer = QuantizationTracer(names, classes)
    graph = tracer.trace(model)
    graph._tracer_cls = None  # one that is made of a pickled graph is traced by a plain Tracer, which needs no arguments
    graph_module = GraphModule(model, graph)
    preserved = _preserved(model, custom.preserved_attributes)
    fuse_config = FuseCustomConfig().set_preserved_attributes(custom.preserved_attributes)
    graph_module = _fused(graph_module, is_qat, fuse_config, backend_config)
    made = prepare(
        graph_module,
        qconfig_mapping,
        is_qat,
        tracer.node_name_to_scope,
        example_inputs=example_inputs,
        prepare_custom_config=custom,
        backend_config=backend_config,
        is_standalone_module=is_standalone_module,
        prepare_standalone=_prepare_standalone_module_fx,
    )
    attach_preserved_attrs_to_model(made, preserved)
    return made


def _prepare_standalone_module_fx(
    model: Any,
    qconfig_mapping: Any,
    is_qat: bool,
    example_inputs: Any,
    prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """Prepare a module inside another by itself."""
    return _prepare_fx(
        model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config, None, backend_config, is_standalone_module=True
    )


def _fused(model: GraphModule, is_qat: bool, config: Any, backend_config: Any) -> GraphModule:
    _check_is_graph_module(model)
    return fuse(model, is_qat, config, backend_config)


def fuse_fx(model: Any, fuse_custom_config: Any = None, backend_config: Any = None) -> GraphModule:
    """A model, traced, with fused modules for what follows each other in it: for inference of a model in eval mode."""
    config = _config(FuseCustomConfig, fuse_custom_config, "fuse_custom_config")
    preserved = _preserved(model, config.preserved_attributes)
    graph_module = torch.fx.symbolic_trace(model)
    _keep_arguments(graph_module)
    made = _fused(graph_module, False, config, backend_config)
    attach_preserved_attrs_to_model(made, preserved)
    return made


def prepare_fx(
    model: Any,
    qconfig_mapping: Any,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: Any = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A model, traced and fused, with observers: run it with samples, then convert it.

    model: changed in place where modules are fused. qconfig_mapping: a QConfigMapping. example_inputs: of the model's forward.
    prepare_custom_config, backend_config: what else is to be said. NotImplementedError for equalization.
    """
    return _prepare_fx(model, qconfig_mapping, False, example_inputs, prepare_custom_config, _equalization_config, backend_config)


def prepare_qat_fx(
    model: Any,
    qconfig_mapping: Any,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A model in training mode, traced and fused, with fake quantizers: train it, then convert it."""
    return _prepare_fx(model, qconfig_mapping, True, example_inputs, prepare_custom_config, backend_config=backend_config)


def _convert_fx(
    graph_module: Any,
    is_reference: bool,
    convert_custom_config: Any = None,
    is_standalone_module: bool = False,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    is_decomposed: bool = False,
    keep_original_weights: bool = False,
) -> GraphModule:
    custom = _config(ConvertCustomConfig, convert_custom_config, "convert_custom_config")
    _check_is_graph_module(graph_module)
    kept = custom.preserved_attributes
    preserved = {name: getattr(graph_module, name) for name in kept if hasattr(graph_module, name)}
    preserved = {**graph_module.meta.get(_PRESERVED, {}), **preserved}
    made = convert(
        graph_module,
        is_reference,
        custom,
        is_standalone_module,
        _remove_qconfig_flag=_remove_qconfig,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        is_decomposed=is_decomposed,
        keep_original_weights=keep_original_weights,
    )
    attach_preserved_attrs_to_model(made, preserved)
    return made


def convert_fx(
    graph_module: Any,
    convert_custom_config: Any = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    keep_original_weights: bool = False,
) -> GraphModule:
    """The quantized model of one that prepare_fx or prepare_qat_fx gave and that has seen samples."""
    return _convert_fx(
        graph_module,
        is_reference=False,
        convert_custom_config=convert_custom_config,
        _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        keep_original_weights=keep_original_weights,
    )


def convert_to_reference_fx(
    graph_module: Any,
    convert_custom_config: Any = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """The same with float operators between quantize and dequantize, for backends that lower it themselves."""
    return _convert_fx(
        graph_module,
        is_reference=True,
        convert_custom_config=convert_custom_config,
        _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
    )


def _convert_to_reference_decomposed_fx(
    graph_module: Any, convert_custom_config: Any = None, qconfig_mapping: Any = None, backend_config: Any = None
) -> GraphModule:
    """The same in torch.ops.quantized_decomposed."""
    return _convert_fx(
        graph_module,
        is_reference=True,
        convert_custom_config=convert_custom_config,
        _remove_qconfig=False,
        qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
        is_decomposed=True,
    )


def _convert_standalone_module_fx(
    graph_module: Any, is_reference: bool = False, convert_custom_config: Any = None
) -> GraphModule:
    """Convert a module inside another."""
    return _convert_fx(graph_module, is_reference, convert_custom_config, is_standalone_module=True)
