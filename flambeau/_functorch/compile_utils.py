"""torch._functorch.compile_utils: graphs of operators made smaller, and what programs ask of them. Stands on fx."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import fx
from flambeau.dispatcher.overloads import OpOverload
from flambeau.utils import _pytree as pytree

__all__ = [
    "fx_graph_cse", "get_aten_target", "get_outputs", "get_placeholders", "raise_getitems", "strip_overloads",
]  # fmt: skip

aten = torch.ops.aten


def get_aten_target(node: fx.Node) -> Callable[..., Any]:
    """The operator that a node calls, whichever of its overloads."""
    return getattr(node.target, "overloadpacket", node.target)  # type: ignore[arg-type, return-value]


def get_placeholders(graph: fx.Graph) -> list[fx.Node]:
    """The inputs of a graph."""
    return list(graph.find_nodes(op="placeholder"))


def get_outputs(graph: fx.Graph) -> list[Any]:
    """The results of a graph."""
    return pytree.tree_leaves(graph.output_node().args[0])


def strip_overloads(gm: fx.GraphModule) -> None:
    """Let a graph call operators by their names, without saying which overload."""
    for node in gm.graph.nodes:
        if isinstance(node.target, OpOverload):
            node.target = node.target.overloadpacket
    gm.recompile()


def raise_getitems(gm: fx.GraphModule) -> fx.GraphModule:
    """Move what takes one of several results of a node right behind it."""
    for node in list(gm.graph.nodes):
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node) and node.args[0].next is not node:
            last = node.args[0]
            while last.next.target is operator.getitem and last.next.args[0] is node.args[0]:
                last = last.next
            if last is not node:
                last.append(node)
    gm.recompile()
    return gm


def _alike(value: Any) -> Any:
    """A key of an argument: 1, 1.0 and True are different ones."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple([_alike(x) for x in value])
    if isinstance(value, dict):
        return "dict", tuple([(k, _alike(x)) for k, x in value.items()])
    if isinstance(value, slice):
        return "slice", _alike((value.start, value.stop, value.step))
    if isinstance(value, fx.Node):
        return value
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), repr(value) if isinstance(value, float) else value


def fx_graph_cse(fx_g: fx.Graph) -> fx.Graph:
    """A graph in which a call that another one has made before is left out.

    Random operators are made as often as before, and so is what has no memory to be the same: a fresh tensor that is returned, or
    written to later.
    """
    made = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    known: dict[Any, fx.Node] = {}
    returned = {_memory_of(x) for x in get_outputs(fx_g) if isinstance(x, fx.Node)}
    written = _written(fx_g)
    for node in fx_g.nodes:
        repeatable = node.op == "call_function" and _is_repeatable(node) and _memory_of(node) not in written
        if repeatable:
            args, kwargs = pytree.tree_map(lambda x: env[x] if isinstance(x, fx.Node) else x, (node.args, node.kwargs))
            first = known.setdefault((node.target, _alike(args), _alike(kwargs)), node)
            # Two results that lie in memory of their own must not become one.
            if first is not node and not (_memory_of(node) in returned and _memory_of(first) in returned):
                env[node] = env[first]
                continue
        env[node] = made.node_copy(node, lambda n: env[n])
    made._codegen = fx_g._codegen
    return made


def _memory_of(node: fx.Node) -> fx.Node:
    """The node whose memory a chain of views shows."""
    while isinstance(node.target, OpOverload) and node.target.is_view and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _written(graph: fx.Graph) -> set[fx.Node]:
    found = set()
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            for argument, x in zip(node.target._schema.arguments, node.args):
                if argument.is_write and isinstance(x, fx.Node):
                    found.add(_memory_of(x))
    return found


#: What has no values yet, and so isn't the same twice.
_EMPTY = frozenset("empty empty_like new_empty empty_strided new_empty_strided empty_permuted".split())


def _is_repeatable(node: fx.Node) -> bool:
    target = get_aten_target(node)
    if isinstance(node.target, OpOverload):
        if torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable:
            return False
    if node.is_impure() or node.target is torch.manual_seed:
        return False
    return getattr(target, "__name__", "") not in _EMPTY and "rand" not in getattr(target, "__name__", "")
