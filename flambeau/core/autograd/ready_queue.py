"""Which of the nodes that are ready runs next: the one made last; and of several leaves, which all count as made last of all,
the one that PyTorch runs first.

PyTorch keeps them in the C++ library's priority queue, which hands equal elements out in an order that follows from where
its two sifts put them. Nobody sees that order unless hooks wait at leaves, so the engine keeps its nodes in `Ready` where there
are some, and otherwise in a heap by the order of creation alone. Used by core.autograd.engine.
"""

from __future__ import annotations

from flambeau.core.autograd.node import Node

__all__ = ["Ready"]


class Ready:
    """Nodes in a binary heap, latest first, that treats equals as the C++ library's does."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __len__(self) -> int:
        return len(self.nodes)

    def push(self, node: Node) -> None:
        """Add a node: from the last place upwards, past parents made before it."""
        self.nodes.append(node)
        self._rise(len(self.nodes) - 1, node)

    def pop(self) -> Node:
        """Take the first node out. The hole goes down to a place without children, past the later of each two (of equals the
        right one); the last node is put there and rises.
        """
        nodes = self.nodes
        first, last = nodes[0], nodes.pop()
        if nodes:
            hole, count = 0, len(nodes)
            while (child := 2 * hole + 2) < count:
                if nodes[child].sequence < nodes[child - 1].sequence:
                    child -= 1
                nodes[hole] = nodes[child]
                hole = child
            if child == count:  # the last parent has a left child only
                nodes[hole] = nodes[child - 1]
                hole = child - 1
            self._rise(hole, last)
        return first

    def _rise(self, hole: int, node: Node) -> None:
        nodes = self.nodes
        while hole and nodes[parent := (hole - 1) // 2].sequence < node.sequence:
            nodes[hole] = nodes[parent]
            hole = parent
        nodes[hole] = node
