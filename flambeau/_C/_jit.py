"""torch._C's names for TorchScript: graphs read, run and rewritten in place, and compiled objects compared.

Stands on jit, which is loaded with it; torch._C offers the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.dispatcher.shaped_types import new_symbol as _new_symbolic_shape_symbol
from flambeau.jit.archive.values import tags_match
from flambeau.jit.awaitables import Await as _Await
from flambeau.jit.execution.run import run
from flambeau.jit.freezing import entry as freezing
from flambeau.jit.freezing import folding
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.parsing import parse_ir
from flambeau.jit.ir.types import unshaped
from flambeau.jit.passes import constants, dead_code, shapes, tuples
from flambeau.jit.passes.canonical import canonicalized as _jit_pass_canonicalize
from flambeau.jit.passes.common import eliminate_common as _jit_pass_cse
from flambeau.jit.passes.inlining import inline as _jit_pass_inline
from flambeau.jit.passes.patterns import rewrite
from flambeau.jit.passes.peephole import optimize as _jit_pass_peephole
from flambeau.jit.passes.peephole import optimize_lists as _jit_pass_peephole_list_idioms
from flambeau.jit.script_function import ScriptFunction
from flambeau.jit.script_module import ModuleCore
from flambeau.jit.tracing.running import schema_of

__all__ = [
    "ScriptModule", "_Await",
    "_jit_pass_canonicalize", "_jit_pass_cse", "_jit_pass_inline", "_jit_pass_peephole", "_jit_pass_peephole_list_idioms",
    "_new_symbolic_shape_symbol", "parse_ir",
]  # fmt: skip

ScriptModule = ModuleCore
_jit_pass_dce = dead_code.eliminate
_jit_pass_constant_pooling = constants.pool
_jit_pass_constant_propagation = constants.propagate
_jit_pass_constant_propagation_immutable_types = constants.propagate_immutable
_jit_pass_fold_frozen_conv_bn = folding.fold_norms
_jit_pass_lower_all_tuples = tuples.lower_simple


def _ivalue_tags_match(a: Any, b: Any) -> bool:
    """Whether two programs' attributes are values of the same types, all the way down."""
    return tags_match(a._module, b._module)


# ---------------------------------------------------------------- programs of graphs


def _create_function_from_graph(qualname: str, graph: Graph) -> ScriptFunction:
    """A function that does what a graph says."""
    made = Function(qualname)
    copy = graph.copy()
    made.set(copy, schema_of(made.name, copy))
    return ScriptFunction(made)


def _jit_interpret_graph(graph: Graph, inputs: Sequence[Any]) -> Any:
    """What a graph gives for these inputs."""
    made = Function("graph")
    made.set(graph, schema_of("graph", graph))
    return run(made, list(inputs))


def _freeze_module(
    module: ModuleCore, preservedAttrs: Sequence[str] = (), freezeInterfaces: bool = True, preserveParameters: bool = False
) -> ModuleCore:
    """A module's program whose attributes are constants, but for those that are preserved; see torch.jit.freeze.

    NotImplementedError for freezeInterfaces=False and preserveParameters=True.
    """
    if preserveParameters or not freezeInterfaces:
        raise NotImplementedError(
            "torch._C._freeze_module with preserveParameters or without freezeInterfaces is not implemented in flambeau; use "
            "torch.jit.freeze, whose preserved_attrs names what stays an attribute"
        )
    return freezing.frozen(module._module, list(preservedAttrs))._c


def _jit_pass_remove_dropout(module: ModuleCore) -> None:
    """Take dropout out of a module's forward. RuntimeError for a module in training."""
    if module._module.training:
        raise RuntimeError("Dropout removal module in training mode is not yet supported")
    folding.remove_dropout(module._module.script_type.methods["forward"].graph)


# ---------------------------------------------------------------- graphs rewritten in place


def _jit_pass_lint(graph: Graph) -> None:
    """RuntimeError for a graph whose nodes read what isn't there."""
    graph.lint()


def _jit_pass_erase_shape_information(graph: Graph) -> None:
    """Have the types say nothing of tensors but that they are such."""
    for value in _values(graph.block()):
        value.setType(unshaped(value.type()))


def _values(block: Block) -> list[Any]:
    found = list(block.inputs())
    for node in block.nodes():
        found += node.outputs()
        for inner in node.blocks():
            found += _values(inner)
    return found


def _jit_erase_non_input_shape_information(graph: Graph) -> None:
    """The same, but for the inputs."""
    inputs = {value: value.type() for value in graph.inputs()}
    _jit_pass_erase_shape_information(graph)
    for value, kind in inputs.items():
        value.setType(kind)


# ---------------------------------------------------------------- what is known of tensors


def _jit_pass_propagate_shapes_on_graph(graph: Graph) -> None:
    """Say in the types which sizes tensors have, as far as the inputs' types tell."""
    shapes.propagate_shapes(graph, frozenset({"sizes"}))


def _jit_pass_propagate_dtype(graph: Graph) -> bool:
    """Say in the types which dtypes tensors have, as far as the inputs' types tell; whether any was added."""
    return shapes.propagate_shapes(graph, frozenset({"dtype"}))


def _jit_pass_complete_shape_analysis(graph: Graph, inputs: Sequence[Any], with_grad: bool) -> None:
    """Say in the types all that is known of tensors when the program runs on these inputs."""
    tensors = [x for x in inputs if hasattr(x, "dtype")]
    shapes.describe_inputs(graph, tensors, with_grad)
    shapes.propagate_shapes(graph, frozenset({"sizes", "dtype", "strides", "device"}))


def _jit_pass_custom_pattern_based_rewrite_graph(
    pattern: str, fused_node_name: str, g: Graph, value_name_pairs: Sequence[tuple[str, str]] = ()
) -> None:
    """Put a graph in the place of every other graph like a pattern, both given as text, with the same inputs and outputs."""
    rewrite(g, parse_ir(pattern), parse_ir(fused_node_name))
