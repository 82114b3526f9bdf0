"""torch.jit.freeze, run_frozen_optimizations and optimize_for_inference.

Stands on attributes and folding; offered by jit.
"""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.archive.modules import fill
from flambeau.jit.freezing import folding
from flambeau.jit.freezing.attributes import Attributes, value_of
from flambeau.jit.ir.function import Function, argument
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.names import mangled
from flambeau.jit.ir.types import ClassType
from flambeau.jit.passes import constants, dead_code
from flambeau.jit.passes.inlining import inline
from flambeau.jit.script_module import RecursiveScriptModule, ScriptModule

__all__ = ["freeze", "frozen", "optimize_for_inference", "run_frozen_optimizations"]


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """A program for inference: calls written out, parameters and attributes constants, without what evaluation doesn't do.

    mod: a script module in evaluation. preserved_attrs: attributes and methods that stay; forward does. optimize_numerics: fold
    batch norms into convolutions, which changes the last bits of results. What the program changes stays an attribute.

    Raises RuntimeError for what is no script module, for one in training, and for names that it has not.
    """
    warnings.warn("`torch.jit.freeze` is deprecated. Please use `torch.compile` instead.", DeprecationWarning)
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    names = list(preserved_attrs or [])
    made = frozen(mod, names)
    run_frozen_optimizations(made, optimize_numerics, [name for name in names if made._c._has_method(name)])
    return made


def frozen(module: Any, names: list[str]) -> RecursiveScriptModule:
    """A module whose attributes are constants but for those of these names and what the program changes."""
    kind: ClassType = module.script_type
    kept = _kept(module, [name for name in names if name not in kind.methods])
    wanted = [name for name in dict.fromkeys(["forward", *names]) if name in kind.methods]
    found = Attributes(module)
    graphs = {}
    for name in wanted:
        graphs[name] = kind.methods[name].graph.copy()
        inline(graphs[name])
        found.look(graphs[name])
    for graph in graphs.values():
        found.fold(graph, kept)
        _tidied(graph)
    return _module_of(module, kind, graphs, {key for key in kept if key[0] == id(module)})


def _kept(module: Any, paths: list[str]) -> set[tuple[int, str]]:
    """The attributes of these names, and those on the way to them; of a submodule all that is in it. RuntimeError for others."""
    kept: set[tuple[int, str]] = set()
    for path in paths:
        owner = module
        for name in path.split("."):
            if not hasattr(owner, "script_type") or name not in owner.script_type.attributes:
                raise RuntimeError(f"Unknown name: {path}")
            kept.add((id(owner), name))
            owner = value_of(owner, name)
        _keep_all(owner, kept)
    return kept


def _keep_all(owner: Any, kept: set[tuple[int, str]]) -> None:
    if hasattr(owner, "script_type"):
        for name in owner.script_type.attributes:
            if (id(owner), name) not in kept:
                kept.add((id(owner), name))
                _keep_all(value_of(owner, name), kept)


def _tidied(graph: Graph) -> None:
    constants.propagate_immutable(graph)
    dead_code.eliminate(graph)
    constants.pool(graph)


def _module_of(module: Any, kind: ClassType, graphs: dict[str, Graph], kept: set[tuple[int, str]]) -> RecursiveScriptModule:
    """A module with these methods, and the attributes that they still use or that are kept."""
    made_kind = ClassType(mangled(kind.qualified_name), is_module=True)
    used = {name for _, name in kept}
    for graph in graphs.values():
        self_value = next(iter(graph.inputs()))
        for node in (*graph.findAllNodes("prim::GetAttr"), *graph.findAllNodes("prim::SetAttr")):
            if node.inputsAt(0) is self_value:
                used.add(node.s("name"))
    values = {}
    for name, attribute in kind.attributes.items():
        if name in used:
            made_kind.add_attribute(name, attribute.type, attribute.is_parameter, attribute.is_buffer)
            values[name] = value_of(module, name)
    for name, graph in graphs.items():
        function = Function(f"{made_kind.qualified_name}.{name}")
        schema = kind.methods[name].schema
        next(iter(graph.inputs())).setType(made_kind)
        function.set(graph, FunctionSchema(name, "", [argument("self", made_kind), *schema.arguments[1:]], schema.returns))
        made_kind.methods[name] = function
    made = RecursiveScriptModule(made_kind)
    fill(made, values)
    return made


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Take dropout that is off out of forward and other methods, and fold batch norms into convolutions (optimize_numerics)."""
    methods = mod.script_type.methods
    for name in dict.fromkeys(["forward", *(preserved_methods or [])]):
        if name not in methods:
            continue
        function = methods[name]
        folding.remove_dropout(function.graph)
        if optimize_numerics:
            folding.fold_norms(function.graph)
        _tidied(function.graph)
        function.set(function.graph, function.schema)


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The module, frozen if it is not yet: what else makes it fast is worked out when it runs.

    RuntimeError for what is no script module.
    """
    warnings.warn("`torch.jit.optimize_for_inference` is deprecated. Please use `torch.compile` instead.", DeprecationWarning)
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script "
            "your 'nn.Module'."
        )
    return freeze(mod.eval(), preserved_attrs=other_methods) if hasattr(mod, "training") else mod
