"""`return`, `break` and `continue` in the middle become conditions: what stands behind is done only where nothing has left.

Stands on ir; runs after ssa.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.dispatcher.schema_types import Type
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import BOOL, is_tensor, unify
from flambeau.jit.ir.values import Value
from flambeau.jit.passes.withs import exits_to_blocks, from_blocks

__all__ = ["transform"]

WONT, WILL, MIGHT, THROWS = "wont", "will", "might", "throws"


def transform(graph: Graph) -> None:
    """Take LoopContinuation and ReturnStmt nodes out."""
    exits_to_blocks(graph)
    _Transformer(graph, "prim::LoopContinuation").transform(graph.block())
    _Transformer(graph, "prim::ReturnStmt").transform(graph.block())
    inline_consecutive_ifs(graph.block())
    from_blocks(graph)


class _Exit:
    """Whether a block is left, and with what."""

    def __init__(self, status: str, has_exited: Value | None = None, values: Sequence[Value] = ()) -> None:
        self.status, self.has_exited, self.values = status, has_exited, list(values)


class _Transformer:
    """Takes the exits of one kind out."""

    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph, self.kind = graph, kind
        self.target: Block | None = None
        self._missing: dict[Any, Value] = {}
        with graph.insert_point_guard(graph.block().first()):
            self.true = graph.insertConstant(True)
            self.false = graph.insertConstant(False)
            self.thrown = self._uninitialized(BOOL)

    def _uninitialized(self, kind: Type) -> Value:
        # Two tensor types are the same to PyTorch only if they are one object.
        key = id(kind) if is_tensor(kind) else str(kind)
        if key not in self._missing:
            with self.graph.insert_point_guard(self.graph.block().first()):
                self._missing[key] = self.graph.insertNode(self.graph.create("prim::Uninitialized")).output().setType(kind)
        return self._missing[key]

    def _like(self, values: Sequence[Value]) -> list[Value]:
        return [self._uninitialized(value.type()) for value in values]

    def _is_target(self, block: Block) -> bool:
        owner = block.owningNode()
        if owner is not None and owner.kind() == "prim::Loop":
            return self.kind == "prim::LoopContinuation"
        return owner is None or owner.kind() == "prim::Closure"

    # ---- blocks
    def transform(self, block: Block) -> _Exit:
        before = self.target
        if self._is_target(block) and (self.kind == "prim::ReturnStmt" or block.owningNode() is not None):
            self.target = block
        found = _Exit(WONT)
        node = block.first()
        while node is not block.returnNode():
            following = node.next()
            kind = node.kind()
            if kind == "prim::RaiseException":
                found = _Exit(THROWS)
            elif kind == self.kind:
                found = _Exit(WILL, self.true, list(node.inputs()))
                node.destroy()
            elif kind == "prim::If":
                found = self._if(node)
            elif kind == "prim::With":
                found = self.transform(next(node.blocks()))
                found = self._with(node, found)
            elif kind == "prim::Closure":
                self.transform(next(node.blocks()))
            elif kind == "prim::Loop":
                found = self._loop(node)
            if found.status in (WILL, THROWS):
                self._destroy_after(block, following)
                break
            if found.status == MIGHT:
                if following is not block.returnNode():
                    found = self._guard(block, found, following)
                break
            node = following
        if self.target is block:
            if found.status == MIGHT:
                made = self.graph.create("prim::If", 0).insertBefore(block.returnNode())
                made.addBlock()
                made.addBlock()
                assert found.has_exited is not None
                made.addInput(found.has_exited)
                outputs = self._add_outputs(made, found.values, list(block.outputs()))
                _replace_outputs(block, outputs)
            elif found.status == WILL:
                _replace_outputs(block, found.values)
            if found.status != THROWS:
                found = _Exit(WONT)
        self.target = before
        return found

    def _destroy_after(self, block: Block, first: Node) -> None:
        nodes = []
        while first is not block.returnNode():
            nodes.append(first)
            first = first.next()
        for node in nodes:
            for value in node.outputs():
                if value.hasUses():
                    value.replaceAllUsesWith(self._uninitialized(value.type()))
        for node in reversed(nodes):
            node.destroy()

    def _add_outputs(self, node: Node, true: Sequence[Value], false: Sequence[Value]) -> list[Value]:
        blocks = list(node.blocks())
        made = []
        for a, b in zip(true, false):
            blocks[0].registerOutput(a)
            blocks[1].registerOutput(b)
            made.append(node.addOutput().setType(unify(a.type(), b.type(), True) or a.type()))
        return made

    def _if(self, node: Node) -> _Exit:
        true_block, false_block = node.blocks()
        true, false = self.transform(true_block), self.transform(false_block)
        status = _together(true.status, false.status)
        if status in (WONT, THROWS):
            return _Exit(status)
        if true.status in (WONT, THROWS):
            true = _Exit(true.status, self.false if true.status == WONT else self.thrown, self._like(false.values))
        elif false.status in (WONT, THROWS):
            false = _Exit(false.status, self.false if false.status == WONT else self.thrown, self._like(true.values))
        if status == WILL:
            has_exited = self.true
        else:
            assert true.has_exited is not None and false.has_exited is not None
            has_exited = self._add_outputs(node, [true.has_exited], [false.has_exited])[0]
        return _Exit(status, has_exited, self._add_outputs(node, true.values, false.values))

    def _with(self, node: Node, inner: _Exit) -> _Exit:
        if inner.status == THROWS:
            return _Exit(THROWS)
        if inner.status == WONT:
            return inner
        block = next(node.blocks())
        values = []
        for value in [inner.has_exited, *inner.values]:
            assert value is not None
            block.registerOutput(value)
            values.append(node.addOutput().setType(value.type()))
        return _Exit(inner.status, values[0], values[1:])

    def _guard(self, block: Block, found: _Exit, first: Node) -> _Exit:
        graph = self.graph
        made = graph.create("prim::If", 0).insertBefore(first)
        assert found.has_exited is not None
        made.addInput(found.has_exited)
        left, stayed = made.addBlock(), made.addBlock()
        node = first
        while node is not block.returnNode():
            following = node.next()
            node.moveBefore(stayed.returnNode())
            node = following
        for missing, value in zip(self._like(list(block.outputs())), list(block.outputs())):
            left.registerOutput(missing)
            stayed.registerOutput(value)
            made.addOutput().setType(value.type())
        _replace_outputs(block, list(made.outputs()))
        graph.create(self.kind, found.values, 0).insertBefore(left.returnNode())
        return self._if(made)

    def _loop(self, node: Node) -> _Exit:
        body = next(node.blocks())
        found = self.transform(body)
        if found.status in (WONT, THROWS):
            return _Exit(WONT)
        graph = self.graph
        assert found.has_exited is not None
        with graph.insert_point_guard(body):
            made = graph.insertNode(graph.create("prim::If", 0))
            made.addInput(found.has_exited)
            made.addBlock().registerOutput(self.false)
            made.addBlock().registerOutput(next(body.outputs()))
            go_on = made.addOutput().setType(BOOL)
        body.replaceOutput(0, go_on)
        # The order in which values are made is PyTorch's: it numbers them.
        body.addInput().setType(BOOL)
        outputs = [node.addOutput().setType(BOOL)]
        for value in found.values:
            outputs.append(node.addOutput().setType(value.type()))
            body.addInput().setType(value.type())
        for start, value in zip([self.false, *self._like(found.values)], [found.has_exited, *found.values]):
            node.addInput(start)
            body.registerOutput(value)
        return _Exit(MIGHT, outputs[0], outputs[1:])


def _together(true: str, false: str) -> str:
    if true == false:
        return true
    if true == THROWS:
        return false
    return true if false == THROWS else MIGHT


def _replace_outputs(block: Block, values: Sequence[Value]) -> None:
    block.returnNode().removeAllInputs()
    for value in values:
        block.registerOutput(value)


# ---------------------------------------------------------------- ifs in a row


def inline_consecutive_ifs(block: Block) -> None:
    """An `if` on what the one in front of it has just found out goes into its branches."""
    for node in list(block.nodes()):
        if node.owning_block is None:
            continue
        if node.kind() == "prim::If":
            _inline_following(node)
        for inner in node.blocks():
            inline_consecutive_ifs(inner)


def _constant(value: Value) -> bool | None:
    return value.toIValue() if value.node().kind() == "prim::Constant" else None


def _inline_following(first: Node) -> None:
    block = first.owning_block
    assert block is not None
    while True:
        second = first.next()
        if second is block.returnNode() or second.kind() != "prim::If":
            return
        if second.inputsAt(0).node() is not first:
            return
        offset = second.inputsAt(0).offset()
        known = [_constant(list(inner.outputs())[offset]) for inner in first.blocks()]
        if None in known or known[0] == known[1]:
            return
        _merge(first, second, bool(known[0]))


def _merge(first: Node, second: Node, in_order: bool) -> None:
    """Put copies of the branches of the second `if` behind those of the first."""
    seconds = list(second.blocks())
    if not in_order:
        seconds.reverse()
    for block, taken in zip(list(first.blocks()), seconds):
        outputs = list(block.outputs())
        copied = first.addBlock()
        copied.cloneFrom(taken, dict(zip(first.outputs(), outputs)))
        for node in list(copied.nodes()):
            node.moveBefore(block.returnNode())
        for value in copied.outputs():
            block.registerOutput(value)
        first.eraseBlock(2)
    for value in second.outputs():
        value.replaceAllUsesWith(first.addOutput().copyMetadata(value))
    second.destroy()
