"""The smallest cut between two nodes of a network, by Dinic's algorithm.

E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet Mathematics
Doklady 11 (1970): flow is sent along shortest paths, all of one length at a time, until none is left; what can still be
reached from the source then is its side of a smallest cut. Stands on the standard library; used by `partitioners`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable

__all__ = ["Network"]


class Network:
    """Edges with capacities between names: `edge`, then `reachable`, the source's side of a smallest cut."""

    def __init__(self) -> None:
        self._number: dict[Hashable, int] = {}
        self._names: list[Hashable] = []
        self._out: list[list[int]] = []  # per node the edges that leave it
        self._to: list[int] = []  # per edge where it leads; its reverse is the edge's number with the last bit turned
        self._left: list[float] = []  # per edge what it can still carry

    def _node(self, name: Hashable) -> int:
        found = self._number.get(name)
        if found is None:
            found = self._number[name] = len(self._names)
            self._names.append(name)
            self._out.append([])
        return found

    def edge(self, start: Hashable, end: Hashable, capacity: float = math.inf) -> None:
        """Let so much flow from one node to another."""
        a, b = self._node(start), self._node(end)
        for at, to, left in ((a, b, capacity), (b, a, 0.0)):
            self._out[at].append(len(self._to))
            self._to.append(to)
            self._left.append(left)

    def reachable(self, source: Hashable, sink: Hashable) -> set[Hashable]:
        """The names on the source's side of a smallest cut. ValueError where every cut is infinite."""
        s, t = self._node(source), self._node(sink)
        while True:
            levels = self._levels(s)
            if levels[t] < 0:
                return {name for name, level in zip(self._names, levels) if level >= 0}
            untried = [0] * len(self._names)
            while (sent := self._send(s, t, levels, untried)) > 0:
                if sent == math.inf:
                    raise ValueError("no cut of these edges is finite")

    def _levels(self, source: int) -> list[int]:
        """Per node how many edges with something left lead to it, -1 for those out of reach."""
        levels = [-1] * len(self._names)
        levels[source] = 0
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for e in self._out[at]:
                to = self._to[e]
                if self._left[e] > 0 and levels[to] < 0:
                    levels[to] = levels[at] + 1
                    queue.append(to)
        return levels

    def _send(self, source: int, sink: int, levels: list[int], untried: list[int]) -> float:
        """Send as much as one shortest path takes; 0 where there is none left."""
        path: list[int] = []
        at = source
        while at != sink:
            edges = self._out[at]
            while untried[at] < len(edges):
                e = edges[untried[at]]
                if self._left[e] > 0 and levels[self._to[e]] == levels[at] + 1:
                    break
                untried[at] += 1
            if untried[at] == len(edges):
                if not path:
                    return 0.0
                at = self._to[path.pop() ^ 1]  # nothing leads on from there
                untried[at] += 1
                continue
            path.append(edges[untried[at]])
            at = self._to[path[-1]]
        amount = min(self._left[e] for e in path)
        if amount != math.inf:
            for e in path:
                self._left[e] -= amount
                self._left[e ^ 1] += amount
        return amount
