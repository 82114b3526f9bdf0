"""A matcher whose pattern names some of its nodes: it returns, last, a dict from names to them.

Stands on passes.utils.matcher_utils; used by programs.
"""

from __future__ import annotations

from typing import Any

from flambeau.fx.graph import Graph, _PyTreeCodeGen
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """The pattern without the names in its output, and these."""
    output = gm.graph.output_node()
    returned: Any = output.args[0]
    codegen = gm.graph._codegen
    if isinstance(codegen, _PyTreeCodeGen) and codegen.pytree_info.out_spec is not None:
        returned = tree_unflatten(list(returned), codegen.pytree_info.out_spec)
    if not isinstance(returned, tuple) or len(returned) < 2 or not isinstance(returned[-1], dict):
        raise AssertionError("Expecting the pattern to return a tuple that ends with a dict from names to nodes")
    *results, names = returned
    leaves, spec = tree_flatten(results)
    if isinstance(codegen, _PyTreeCodeGen):
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=spec)
    output.args = (leaves,)
    gm.recompile()
    return gm, dict(names)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """SubgraphMatcher whose matches have a `name_node_map`: the nodes that were found, by the names that the pattern gives them.

    pattern_gm: returns (results..., {"name": node}).
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places in a graph where the pattern is."""
        found = super().match(graph, node_name_match)
        for each in found:
            each.name_node_map = {name: each.nodes_map[node] for name, node in self.name_node_map.items()}
        return found
