"""Common subexpressions: calls that have the same target and arguments are made once.

Stands on fx.passes.infra and torch.ops, whose schemas say what writes and what draws random numbers; used by programs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import flambeau as torch
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_aggregate
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.utils._pytree import tree_flatten

__all__ = ["CSEPass", "get_CSE_banned_ops"]

aten = torch.ops.aten
rand_ops = {
    getattr(aten, name)
    for name in """dropout _fused_dropout _standard_gamma bernoulli multinomial native_dropout normal poisson binomial rrelu
    rand_like rand randint randn randperm""".split()
}
inplace_ops = {getattr(aten, name) for name in """add_ sub_ mul_ div_ pow_ lerp_ relu_ sigmoid_ tanh_""".split()}


def get_CSE_banned_ops() -> set[Any]:
    """The operators whose calls are never merged: they draw random numbers, or write."""
    return rand_ops | inplace_ops


class CSEPass(PassBase):
    """Merges calls of operators that have the same target and arguments.

    banned_ops: packets (torch.ops.aten.add_) or overloads that are left alone; get_CSE_banned_ops() by default.
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = get_CSE_banned_ops() if banned_ops is None else banned_ops
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """The module with a new graph, and whether anything was merged."""
        modified = False
        made = Graph()
        copies: dict[Node, Any] = {}
        known: dict[Hashable, Node] = {}
        for node in graph_module.graph.nodes:
            if node.op == "output":
                output = made.output(map_aggregate(node.args[0], lambda x: copies.get(x, x) if isinstance(x, Node) else x))
                output.meta.update(node.meta)
                continue
            key = None if node.op in ("placeholder", "get_attr") or self._banned(node) else _key(node, copies)
            found = known.get(key) if key is not None else None
            if found is not None:
                modified, copies[node] = True, found
                continue
            copies[node] = made.node_copy(node, lambda x: copies[x])
            if key is not None:
                known[key] = copies[node]
        return PassResult(GraphModule(graph_module, made), modified)

    def _banned(self, node: Node) -> bool:
        if node.op != "call_function":
            return True
        return node.target in self.banned_ops or getattr(node.target, "overloadpacket", node.target) in self.banned_ops


def _key(node: Node, copies: dict[Node, Any]) -> Hashable:
    """What two calls have in common that give the same; None where an argument can't be compared."""
    parts = []
    for given in (node.args, node.kwargs):
        leaves, spec = tree_flatten(given)
        leaves = [copies[x] if isinstance(x, Node) else x for x in leaves]
        parts.append((tuple([(x, type(x)) for x in leaves]), str(spec)))
    key = (node.target, *parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key
