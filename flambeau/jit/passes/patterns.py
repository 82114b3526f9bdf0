"""Parts of a graph that look like a pattern are exchanged: torch._C._jit_pass_custom_pattern_based_rewrite_graph.

A pattern is a graph whose inputs stand for any values. Where its nodes are found, all in one block and read by nobody else, the
nodes of another graph stand afterwards. Stands on inlining, which copies them.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.inlining import insert_graph

__all__ = ["rewrite"]


def rewrite(graph: Graph, pattern: Graph, replacement: Graph) -> None:
    """Exchange every part of a graph that looks like the pattern. RuntimeError for a pattern of another number of outputs."""
    if len(list(pattern.outputs())) != len(list(replacement.outputs())):
        raise RuntimeError("a pattern and its replacement have the same outputs")
    _block(graph, graph.block(), pattern, replacement)


def _block(graph: Graph, block: Block, pattern: Graph, replacement: Graph) -> None:
    taken: set[Node] = set()
    last = next(iter(pattern.outputs())).node()
    for node in list(block.nodes()):
        for inner in node.blocks():
            _block(graph, inner, pattern, replacement)
        found = _Match(pattern, block)
        if node.owning_block is not block or not found.node(last, node) or not found.is_closed() or found.nodes() & taken:
            continue
        # PyTorch's matches don't overlap, and the first one in order is taken.
        taken |= found.nodes()
        with graph.insert_point_guard(node):
            made = insert_graph(graph, replacement, [found.values[value] for value in pattern.inputs()])
        for mine, theirs in zip(pattern.outputs(), made):
            found.values[mine].replaceAllUsesWith(theirs.setType(found.values[mine].type()))
        for old in reversed([each for each in block.nodes() if each in found.nodes()]):
            old.destroy()


class _Match:
    """What the nodes and values of a pattern are in a block."""

    def __init__(self, pattern: Graph, block: Block) -> None:
        self.pattern, self.block = pattern, block
        self.values: dict[Value, Value] = {}
        self.pairs: dict[Node, Node] = {}

    def nodes(self) -> set[Node]:
        return set(self.pairs.values())

    def node(self, wanted: Node, found: Node) -> bool:
        """Whether a node, with what makes its inputs, looks like one of the pattern."""
        if wanted in self.pairs:
            return self.pairs[wanted] is found
        if (
            wanted.kind() != found.kind() or found.owning_block is not self.block or found._blocks
            or wanted.inputsSize() != found.inputsSize() or wanted.outputsSize() != found.outputsSize()
            or any(found.attributes.get(name) != value for name, value in wanted.attributes.items())
        ):  # fmt: skip
            return False
        self.pairs[wanted] = found
        self.values.update(zip(wanted.outputs(), found.outputs()))
        return all(map(self.value, wanted.inputs(), found.inputs()))

    def value(self, wanted: Value, found: Value) -> bool:
        if wanted in self.values:
            return self.values[wanted] is found
        if wanted.node() is self.pattern.param_node():
            self.values[wanted] = found
            return True
        return wanted.offset() == found.offset() and self.node(wanted.node(), found.node())

    def is_closed(self) -> bool:
        """Whether the pattern's inputs and outputs are all known, and nobody else reads what its nodes give between them."""
        outputs = list(self.pattern.outputs())
        if any(value not in self.values for value in (*outputs, *self.pattern.inputs())):
            return False
        own = self.nodes()
        return all(
            use.user in own
            for wanted, found in self.values.items()
            if wanted not in outputs and wanted.node() in self.pairs
            for use in found.uses()
        )
