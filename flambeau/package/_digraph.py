"""A directed graph: what a package's modules need of one another."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

from flambeau.base.naming import public_module

__all__ = ["DiGraph"]


class DiGraph:
    """A directed graph whose nodes have attributes: any hashable things."""

    __module__ = public_module("package._digraph")

    def __init__(self) -> None:
        self._node: dict[Any, dict[str, Any]] = {}
        self._succ: dict[Any, dict[Any, None]] = {}
        self._pred: dict[Any, dict[Any, None]] = {}
        self._node_order: dict[Any, int] = {}

    def add_node(self, n: Hashable, **kwargs: Any) -> None:
        """Add a node, or attributes to one that is there."""
        if n not in self._node:
            self._node[n], self._succ[n], self._pred[n] = {}, {}, {}
            self._node_order[n] = len(self._node_order)
        self._node[n].update(kwargs)

    def add_edge(self, u: Hashable, v: Hashable) -> None:
        """Add an edge from u to v, and the nodes that aren't there."""
        self.add_node(u)
        self.add_node(v)
        self._succ[u][v] = self._pred[v][u] = None

    def successors(self, n: Hashable) -> Iterator[Any]:
        """What edges lead to from a node. ValueError if there is no such node."""
        return self._neighbours(self._succ, n)

    def predecessors(self, n: Hashable) -> Iterator[Any]:
        """Where edges to a node come from. ValueError if there is no such node."""
        return self._neighbours(self._pred, n)

    def _neighbours(self, edges: dict[Any, dict[Any, None]], n: Hashable) -> Iterator[Any]:
        if n not in edges:
            raise ValueError(f"The node {n} is not in the digraph.")
        return iter(edges[n])

    @property
    def edges(self) -> Iterator[tuple[Any, Any]]:
        """All edges, as pairs of nodes."""
        return ((u, v) for u, successors in self._succ.items() for v in successors)

    @property
    def nodes(self) -> dict[Any, dict[str, Any]]:
        """The attributes of the nodes."""
        return self._node

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)

    def __contains__(self, n: object) -> bool:
        try:
            return n in self._node
        except TypeError:  # it can't be hashed
            return False

    def forward_transitive_closure(self, src: Hashable) -> set[Any]:
        """All that can be reached from a node, itself among it."""
        return self._reached(self._succ, src)

    def backward_transitive_closure(self, src: Hashable) -> set[Any]:
        """All from where a node can be reached, itself among it."""
        return self._reached(self._pred, src)

    def _reached(self, edges: dict[Any, dict[Any, None]], src: Hashable) -> set[Any]:
        found, waiting = {src}, deque([src])
        while waiting:
            for n in self._neighbours(edges, waiting.popleft()):
                if n not in found:
                    found.add(n)
                    waiting.append(n)
        return found

    def all_paths(self, src: Hashable, dst: Hashable) -> str:
        """The part of the graph that lies on paths from src to dst, in the DOT language."""
        made = DiGraph()
        if src not in self or dst not in self:
            return made.to_dot()
        between = self.forward_transitive_closure(src) & self.backward_transitive_closure(dst)
        for u, v in self.edges:
            if u in between and v in between:
                made.add_edge(u, v)
        return made.to_dot()

    def first_path(self, dst: Hashable) -> list[Any]:
        """One of the paths to a node, from a node that no edge leads to."""
        path = [dst]
        while True:
            before = [n for n in self.predecessors(path[-1]) if n not in path]
            if not before:
                return path[::-1]
            path.append(min(before, key=self._node_order.__getitem__))

    def to_dot(self) -> str:
        """The graph in the DOT language."""
        edges = "\n".join(f'"{u}" -> "{v}";' for u, v in self.edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"
