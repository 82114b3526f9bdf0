"""Which values are written where they are read, and which get a line and a name of their own.

A value is written in place if it is read once, in its own block, by a node that comes right behind it once what that node's
other inputs are made of is written in place too; so the order of the text is the order of the graph. Used by code.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.values import Value

__all__ = ["in_place"]

_NAMED = ("prim::isinstance",)
_READ_LATER = ("prim::fork", "prim::awaitable", "prim::rpc_async")


def in_place(block: Block) -> set[Node]:
    """The nodes of a block, and of the blocks in it, that are written where they are read."""
    found: set[Node] = set()
    _block(block, found)
    return found


def _can(value: Value) -> bool:
    node = value.node()
    uses = value.uses()
    if node.outputsSize() != 1 or len(uses) != 1 or node._blocks:
        return False
    use = uses[0]
    if value.hasDebugName() and use.user.kind() != "prim::Return":
        return False
    if use.user.kind() == "prim::Loop" and use.offset >= 2:
        return False
    return use.user.kind() not in _READ_LATER and node.kind() not in _NAMED


def _before(node: Node) -> Node:
    node = node.prev()
    while node.kind() == "prim::Constant":
        node = node.prev()
    return node


def _value(point: Node, value: Value, found: set[Node]) -> Node:
    node = value.node()
    if node is point and _can(value):
        point = _node(point, found)
        found.add(node)
    elif node.kind() == "prim::Constant":
        found.add(node)
    return point


def _node(node: Node, found: set[Node]) -> Node:
    if node in found:
        return node
    for block in node.blocks():
        _block(block, found)
    point = _before(node)
    for value in reversed(list(node.inputs())):
        point = _value(point, value, found)
    return point


def _block(block: Block, found: set[Node]) -> None:
    _node(block.returnNode(), found)
    for node in reversed(list(block.nodes())):
        _node(node, found)
