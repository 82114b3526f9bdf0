"""Partitions: the largest groups of nodes that a backend can do at a time. Stands on passes.utils.fuser_utils."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.names import _get_qualified_name
from flambeau.fx.node import Node
from flambeau.fx.passes.operator_support import OperatorSupportBase
from flambeau.fx.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

logger = logging.getLogger(__name__)


class Partition:
    """A group of nodes."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None
    ) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = {}
        listed = list(nodes or ())
        orders = list(node_orders) if node_orders is not None else [None] * len(listed)
        self.nodes.update(zip(listed, orders))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """One more node."""
        self.nodes.setdefault(node, node_order)

    def remove_node(self, node: Node) -> None:
        """One node less."""
        del self.nodes[node]

    def size(self) -> int:
        """The number of nodes."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Groups the nodes of a module that operator_support can do.

    allows_single_node_partition: groups of one node count; non_compute_ops: qualified names of functions that alone are no
    reason for a group; allowed_single_node_partition_ops: those that are one even alone; skip_horizontal_fusion: nodes join
    only where one uses the other.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """The groups; each can be put into a submodule without a circle between them."""
        nodes = list(self.graph_module.graph.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        supported = [node for node in nodes if self._is_node_supported(node) and node.op not in ("placeholder", "output")]
        group = {node: i for i, node in enumerate(supported)}
        members: dict[int, set[Node]] = {i: {node} for node, i in group.items()}
        for node in reversed(supported):
            near = [n for n in (*node.users, *node.all_input_nodes) if n in group]
            others = [] if self.skip_horizontal_fusion else [n for n in supported if n not in near]
            for other in [*near, *others]:
                one, two = group[node], group[other]
                if one != two and not self._circle(members[one] | members[two], group, members):
                    members[one] |= members.pop(two)
                    for n in members[one]:
                        group[n] = one
        found = [sorted(own, key=place.__getitem__) for own in members.values()]
        found.sort(key=lambda own: -place[own[-1]])
        kept = [own for own in found if self._counts(own)]
        return [Partition(i, own, [place[n] for n in own]) for i, own in enumerate(kept)]

    def _circle(self, own: set[Node], group: dict[Node, int], members: dict[int, set[Node]]) -> bool:
        """Whether what the nodes give would come back to them, through other groups or single nodes."""
        seen: set[Node] = set()
        waiting = [user for node in own for user in node.users if user not in own]
        while waiting:
            node = waiting.pop()
            if node in own:
                return True
            if node not in seen:
                together = members[group[node]] if node in group else {node}
                seen |= together
                waiting += [user for n in together for user in n.users if user not in seen]
        return False

    def _counts(self, own: list[Node]) -> bool:
        names = [_get_qualified_name(n.target) if callable(n.target) else str(n.target) for n in own]
        if len(own) == 1 and not self.allows_single_node_partition:
            return names[0] in self.allowed_single_node_partition_ops
        return self.allows_single_node_partition or any(name not in self.non_compute_ops for name in names)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The module with each group in a submodule `<prefix><number>`."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix=prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """propose_partitions and fuse_partitions."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take the functions of non_compute_ops at the borders of groups out of them."""
        wanted = set(self.non_compute_ops)
        for partition in partitions:
            changed = True
            while changed:
                changed = False
                for node in list(partition.nodes):
                    plain = node.op == "call_function" and _get_qualified_name(node.target) in wanted  # type: ignore[arg-type]
                    inner = any(n in partition.nodes for n in node.all_input_nodes)
                    outer = any(n in partition.nodes for n in node.users)
                    if plain and not (inner and outer):
                        partition.remove_node(node)
                        changed = True
