"""Nodes that nothing needs go: what they give isn't read, they have no side effects, and what they change isn't read either.

Stands on effects; runs after tuples and after constants have changed something.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.aliases import Aliases
from flambeau.jit.passes.effects import has_side_effects, written

__all__ = ["eliminate"]


def eliminate(graph: Graph) -> None:
    """Take out what nothing needs."""
    _Elimination(graph).run()


class _Elimination:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.aliases = Aliases(graph)
        self.live: set[Node] = set()
        self.live_values: set[Value] = set()
        self.live_groups: set[int] = set()

    def run(self) -> None:
        self._mark_return(self.graph.block())
        changed = True
        while changed:
            changed = self._mark(self.graph.block())
        self._sweep(self.graph.block())

    def _read(self, value: Value) -> None:
        self.live_values.add(value)
        self.live_groups |= self.aliases.reachable(value)

    def _mark_return(self, block: Block) -> None:
        for value in block.outputs():
            self._read(value)

    def _keep(self, node: Node) -> bool:
        if node in self.live:
            return False
        self.live.add(node)
        for value in node.inputs():
            self._read(value)
        return True

    def _needed(self, node: Node) -> bool:
        if has_side_effects(node) and not node._blocks:
            return True
        if any(value in self.live_values for value in node.outputs()):
            return True
        return any(self._is_seen(value) for value in written(node))

    def _is_seen(self, value: Value) -> bool:
        groups = self.aliases.groups(value)
        return bool(groups & self.live_groups) or self.aliases.is_outside(value)

    def _mark(self, block: Block) -> bool:
        """Find more that is needed, from the end on; whether anything was found."""
        changed = False
        for node in reversed(list(block.nodes())):
            for inner in node.blocks():
                changed |= self._mark(inner)
            if node not in self.live and (self._needed(node) or self._holds_live(node)):
                changed |= self._keep(node)
            if node in self.live and node._blocks:
                changed |= self._mark_outputs(node)
        return changed

    def _holds_live(self, node: Node) -> bool:
        return any(child in self.live for inner in node.blocks() for child in inner.nodes())

    def _mark_outputs(self, node: Node) -> bool:
        """In blocks whose node is kept, what makes the outputs that are read is kept."""
        before = len(self.live_values)
        for block in node.blocks():
            outputs = list(block.outputs())
            if node.kind() == "prim::Loop":
                self._read(outputs[0])
                outputs = outputs[1:]
                carried = list(block.inputs())[1:]
                for value, taken, out in zip(outputs, carried, node.outputs()):
                    if out in self.live_values or taken in self.live_values:
                        self._read(value)
            else:
                for value, out in zip(outputs, node.outputs()):
                    if out in self.live_values:
                        self._read(value)
        return len(self.live_values) != before

    def _sweep(self, block: Block) -> None:
        for node in reversed(list(block.nodes())):
            if node not in self.live:
                _detach(node)
                node.destroy()
                continue
            if node.kind() == "prim::If":
                _drop_if_outputs(node)
            elif node.kind() == "prim::Loop":
                self._drop_loop_outputs(node)
            for inner in node.blocks():
                self._sweep(inner)

    def _drop_loop_outputs(self, node: Node) -> None:
        body = next(node.blocks())
        for index in range(node.outputsSize() - 1, -1, -1):
            out, taken = node.outputsAt(index), list(body.inputs())[index + 1]
            if not out.hasUses() and all(use.user is body.returnNode() and use.offset == index + 1 for use in taken.uses()):
                body.eraseOutput(index + 1)
                body.eraseInput(index + 1)
                node.eraseOutput(index)
                node.removeInput(index + 2)


def _detach(node: Node) -> None:
    for value in node.outputs():
        for use in value.uses():
            if use.user.kind() == "prim::Return":
                made = node.owningGraph().create("prim::Uninitialized").insertBefore(node)
                value.replaceAllUsesWith(made.output().setType(value.type()))
                break


def _drop_if_outputs(node: Node) -> None:
    for index in range(node.outputsSize() - 1, -1, -1):
        if not node.outputsAt(index).hasUses():
            node.eraseOutput(index)
            for block in node.blocks():
                block.eraseOutput(index)
