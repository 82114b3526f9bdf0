"""torch._dynamo.export: a function as one graph that takes its arguments and gives its results, containers and all.

Stands on compiled and fx; torch.export.export is the form to keep and to load.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as torch
from flambeau import fx
from flambeau._dynamo import exc
from flambeau._dynamo.compiled import Compiled
from flambeau._dynamo.eval_frame import innermost_fn
from flambeau.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from flambeau.utils import _pytree as pytree

__all__ = ["ExportResult", "export"]


class ExportResult(NamedTuple):
    """The graph, and what it holds for: nothing that could be looked up."""

    graph_module: fx.GraphModule
    guards: Any


def export(f: Callable[..., Any], *extra_args: Any, aten_graph: bool = False, **extra_kwargs: Any) -> Any:
    """export(f)(*args) -> (graph_module, guards): f's graph for these arguments; parameters are attributes of the module.

    aten_graph: of aten's operators. Unsupported if f needs values, so that it is more than one graph. NotImplementedError for
    symbolic sizes, which torch.export.export has.
    """
    unknown = {name for name in ("dynamic_shapes", "decomposition_table") if extra_kwargs.pop(name, None) is not None}
    if unknown or extra_kwargs.pop("tracing_mode", "symbolic") not in ("symbolic", "real", "fake"):
        raise NotImplementedError(
            f"torch._dynamo.export({', '.join(sorted(unknown))}) is not implemented: use torch.export.export"
        )
    for name in ("pre_dispatch", "assume_static_by_default", "same_signature", "disable_constraint_solver"):
        extra_kwargs.pop(name, None)
    if extra_args or extra_kwargs:
        return _exported(f, extra_args, extra_kwargs, aten_graph)
    return lambda *args, **kwargs: _exported(f, args, kwargs, aten_graph)


def _exported(f: Callable[..., Any], args: Any, kwargs: Any, aten_graph: bool) -> ExportResult:
    graphs: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
        graphs.append((gm, example_inputs))
        return gm.forward

    f = innermost_fn(f)
    result = Compiled(f, backend, fullgraph=True)(*args, **kwargs)
    if len(graphs) > 1:
        raise exc.Unsupported(f"torch._dynamo.export: the function is {len(graphs)} graphs, as it needs values in between")
    gm, inputs = graphs[0] if graphs else (fx.GraphModule(torch.nn.Module(), _empty()), [])
    flat, in_spec = pytree.tree_flatten((tuple(args), kwargs))
    made = _with_arguments(gm, inputs, flat)
    returned = made.output_node().args[0]
    results, out_spec = pytree.tree_flatten(result)
    nodes = {id(x): node for x, node in zip(flat, made.find_nodes(op="placeholder")) if isinstance(x, torch.Tensor)}
    order = iter(returned)
    shown = []
    for x in results:
        if isinstance(x, torch.Tensor) and id(x) not in nodes:
            nodes[id(x)] = next(order)
        shown.append(nodes[id(x)] if isinstance(x, torch.Tensor) else x)
    made.output_node().args = (shown,)
    function = f.forward if isinstance(f, torch.nn.Module) else f
    names = [*inspect.signature(function).parameters][: len(args)]
    names += [f"arg{i}" for i in range(len(names), len(args))]
    made.set_codegen(_PyTreeCodeGen(_PyTreeInfo([*names, *kwargs], in_spec, out_spec)))
    exported = fx.GraphModule(gm, made)
    if aten_graph:
        from flambeau.fx.experimental.proxy_tensor import make_fx

        traced = make_fx(lambda *given: pytree.tree_leaves(exported(*given)))(*args)
        return ExportResult(traced, None)
    return ExportResult(exported, None)


def _empty() -> fx.Graph:
    graph = fx.Graph()
    graph.output(())
    return graph


def _with_arguments(gm: fx.GraphModule, inputs: list[Any], flat: list[Any]) -> fx.Graph:
    """The graph with a placeholder for each argument; other inputs are attributes of the module."""
    graph = gm.graph
    before = list(graph.find_nodes(op="placeholder"))
    own = dict(zip(map(id, inputs), before, strict=True))
    body = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(body):
        for i, x in enumerate(flat):
            node = graph.placeholder(f"arg{i}")
            if isinstance(x, torch.Tensor) and id(x) in own:
                _take_over(own.pop(id(x)), node)
        for x in inputs:
            if id(x) in own:
                name = str(own[id(x)].target)
                (gm.register_parameter if isinstance(x, torch.nn.Parameter) else gm.register_buffer)(name, x)
                _take_over(own[id(x)], graph.get_attr(name))
    for node in before:
        graph.erase_node(node)
    return graph


def _take_over(before: fx.Node, node: fx.Node) -> None:
    node.meta.update(before.meta)
    before.replace_all_uses_with(node)
