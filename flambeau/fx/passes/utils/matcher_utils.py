"""Finding a pattern in a graph: by data flow from what the pattern returns back to its inputs.

Stands on fx.node; used by fx.subgraph_rewriter.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import flambeau as torch
from flambeau.fx.attributes import _get_attr
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]

logger = logging.getLogger(__name__)


@dataclass
class InternalMatch:
    """One place where a pattern was found; nodes_map leads from the pattern's nodes to the graph's."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            anchors=self.anchors,
            nodes_map=self.nodes_map.copy(),
            placeholder_nodes=self.placeholder_nodes.copy(),
            returning_nodes=self.returning_nodes.copy(),
        )


class SubgraphMatcher:
    """Finds a pattern, a graph whose inputs stand for anything.

    match_output: the pattern's output must be the graph's; match_placeholder: inputs match inputs only;
    remove_overlapping_matches: of matches that share a node only the first counts; ignore_literals: numbers and other values
    among the arguments need not be equal. Raises ValueError for an empty pattern, AssertionError for a pattern with nodes
    that nobody uses.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places where the pattern is, in the order of the graph.

        What is inside a match, but not returned by it, is used by nobody outside.
        """
        candidates = [
            (anchor, [node for node in graph.nodes if self._nodes_are_equal(anchor, node, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        found = [
            match
            for match in self._complete(candidates, InternalMatch(anchors=self.pattern_anchors), node_name_match)
            if self._is_contained(match.nodes_map)
        ]
        matches = []
        for match in found:
            match.placeholder_nodes = [match.nodes_map[pn] for pn in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
            matches.append(match)
        return self._remove_overlapping_matches(matches) if self.remove_overlapping_matches else matches

    def _complete(self, candidates: list[tuple[Node, list[Node]]], match: InternalMatch, name: str) -> Iterator[InternalMatch]:
        """The matches that lead from each anchor to one of its candidates."""
        if not candidates:
            yield copy.copy(match)
            return
        (anchor, nodes), *rest = candidates
        for node in nodes:
            attempt = copy.copy(match)
            if self._match_nodes(anchor, node, attempt, name):
                yield from self._complete(rest, attempt, name)

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        pattern_owner, graph_owner = pn.graph.owning_module, gn.graph.owning_module
        if pattern_owner is None or graph_owner is None:
            return pn.target == gn.target
        one, other = _get_attr(pattern_owner, str(pn.target)), _get_attr(graph_owner, str(gn.target))
        if type(one) is not type(other):
            return False
        if isinstance(one, torch.Tensor):
            return isinstance(other, torch.Tensor)
        return pn.target == gn.target

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        matched = {gn for gn in nodes_map.values() if isinstance(gn, Node)}
        for pn, gn in nodes_map.items():
            if pn.op == "placeholder" or not isinstance(gn, Node) or pn in self.pattern_returning_nodes:
                continue
            if any(user not in matched for user in gn.users):
                return False
        return True

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            own = {gn for pn, gn in match.nodes_map.items() if pn.op not in ("placeholder", "output") and isinstance(gn, Node)}
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node) and isinstance(gn, Node):
            raise AssertionError("pn and gn cannot both be Node")
        if isinstance(pn, Node):
            if pn.op == "placeholder":
                if pn in match.nodes_map:
                    return match.nodes_map[pn] == gn
                match.nodes_map[pn] = gn
                return True
            return False
        return not isinstance(gn, Node) and type(gn) is type(pn) and gn == pn

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if any(gn is other for other in match.nodes_map.values()):
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        before = match.nodes_map.copy()
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if self._match_arguments(pn, gn, match):
            return True
        match.nodes_map.clear()
        match.nodes_map.update(before)
        return False

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        if len(pn.args) != len(gn.args) or pn.kwargs.keys() != gn.kwargs.keys():
            args = _same_form(pn, gn)
            if args is None:
                return False
            own, others = args
        else:
            own = [*pn.args, *[pn.kwargs[key] for key in sorted(pn.kwargs)]]
            others = [*gn.args, *[gn.kwargs[key] for key in sorted(pn.kwargs)]]
        return all(self._match_value(a, b, match) for a, b in zip(own, others))

    def _match_value(self, a: Any, b: Any, match: InternalMatch) -> bool:
        if isinstance(a, Node) and isinstance(b, Node):
            return self._match_nodes(a, b, match)
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(self._match_value(x, y, match) for x, y in zip(a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._match_value(a[key], b[key], match) for key in a)
        if isinstance(a, Node) or isinstance(b, Node):
            return self._match_literals(a, b, match)
        return self.ignore_literals or self._match_literals(a, b, match)


def _same_form(pn: Node, gn: Node) -> tuple[list[Any], list[Any]] | None:
    """The arguments of two calls of a function bound to its signature, where they are written in different ways."""
    if pn.op != "call_function":
        return None
    from flambeau.fx.operator_schemas import bound_arguments

    one = bound_arguments(pn.target, pn.args, pn.kwargs)  # type: ignore[arg-type]
    other = bound_arguments(gn.target, gn.args, gn.kwargs)  # type: ignore[arg-type]
    if one is None or other is None or one.keys() != other.keys():
        return None
    return list(one.values()), list(other.values())
