"""Variables become values: Load and Store nodes go, blocks of `if` and loops get inputs and outputs for what they change.

Stands on ir; the first of the passes.
"""

from __future__ import annotations

from flambeau.dispatcher.schema_types import Type
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import unify
from flambeau.jit.ir.values import Value, meaningful

__all__ = ["convert"]


def convert(graph: Graph) -> None:
    """Take Load and Store nodes out, and say at every `break` and `continue` what the loop goes on with."""
    _Carried(graph).block(graph.block())
    _LoopExits(graph).run()
    inline_conditions(graph.block())
    _Erased(graph).block(graph.block())


class _Frame:
    def __init__(self, parent: _Frame | None) -> None:
        self.parent = parent
        self.types: dict[str, Type] = {}

    def find(self, name: str) -> Type | None:
        frame: _Frame | None = self
        while frame is not None:
            if name in frame.types:
                return frame.types[name]
            frame = frame.parent
        return None


class _Carried:
    """Gives `if` and loops inputs and outputs for the variables that they change."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.frame: _Frame | None = None

    def block(self, block: Block) -> _Frame:
        self.frame = frame = _Frame(self.frame)
        for node in list(block.nodes()):
            kind = node.kind()
            if kind == "prim::If":
                self._if(node)
            elif kind == "prim::Loop":
                self._loop(node)
            elif kind == "prim::Closure":
                for inner in node.blocks():
                    self.block(inner)
            elif kind == "prim::Store":
                frame.types[node.s("name")] = node.input().type()
            elif kind == "prim::ListComprehensionScope":
                self.block(next(node.blocks()))
        self.frame = frame.parent
        return frame

    def _load(self, name: str, kind: Type) -> Value:
        node = self.graph.insertNode(self.graph.create("prim::Load").set("name", "s", name))
        return node.output().setType(kind)

    def _block_output(self, block: Block, kind: Type, name: str) -> None:
        with self.graph.insert_point_guard(block):
            block.registerOutput(self._load(name, kind))

    def _node_output(self, node: Node, kind: Type, name: str) -> None:
        made = node.addOutput().setType(kind)
        if meaningful(name):
            made.setDebugName(name)
        assert self.frame is not None
        with self.graph.insert_point_guard(node.next()):
            self.graph.insertNode(self.graph.create("prim::Store", [made], 0).set("name", "s", name))
        self.frame.types[name] = kind

    def _if(self, node: Node) -> None:
        true, false = node.blocks()
        a, b = self.block(true), self.block(false)
        outer = self.frame
        changed = sorted(
            {name for name in a.types if (b.types.get(name) or (outer and outer.find(name)))}
            | {name for name in b.types if (a.types.get(name) or (outer and outer.find(name)))}
        )
        for name in changed:
            around = outer.find(name) if outer is not None else None
            true_type, false_type = a.types.get(name) or around, b.types.get(name) or around
            assert true_type is not None and false_type is not None
            unified = unify(true_type, false_type, True, around)
            assert unified is not None
            self._block_output(true, true_type, name)
            self._block_output(false, false_type, name)
            self._node_output(node, unified, name)

    def _loop(self, node: Node) -> None:
        body = next(node.blocks())
        inner = self.block(body)
        for name, kind in sorted(inner.types.items()):
            around = self.frame.find(name) if self.frame is not None else None
            if around is None:
                continue
            unified = unify(around, kind, True)
            assert unified is not None
            with self.graph.insert_point_guard(node):
                node.addInput(self._load(name, around))
            taken = body.addInput().setType(unified)
            if meaningful(name):
                taken.setDebugName(name)
            self.graph.create("prim::Store", [taken], 0).set("name", "s", name).insertBefore(body.first())
            self._block_output(body, kind, name)
            self._node_output(node, unified, name)


class _LoopExits:
    """`break` and `continue` become LoopContinuation nodes: whether the loop goes on, and with what."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.loop: Node | None = None
        with graph.insert_point_guard(graph.block().first()):
            self.false = graph.insertConstant(False)

    def run(self) -> None:
        self._block(self.graph.block())

    def _block(self, block: Block) -> None:
        for node in list(block.nodes()):
            kind = node.kind()
            if kind == "prim::Loop":
                before, self.loop = self.loop, node
                self._block(next(node.blocks()))
                self.loop = before
            elif kind in ("prim::BreakStmt", "prim::ContinueStmt"):
                self._exit(node)
            else:
                for inner in node.blocks():
                    self._block(inner)

    def _exit(self, node: Node) -> None:
        graph, loop = self.graph, self.loop
        assert loop is not None
        made = graph.create("prim::LoopContinuation", 0).insertAfter(node)
        if node.kind() == "prim::BreakStmt":
            made.addInput(self.false)
        else:
            _copy_header(graph, loop, made)
        body = next(loop.blocks())
        with graph.insert_point_guard(made):
            for value in body.outputs():
                load = value.node()
                assert load.kind() == "prim::Load"
                made.addInput(graph.insertNode(graph.createClone(load, {})).output())
        node.destroy()


def _copy_header(graph: Graph, loop: Node, before: Node) -> None:
    """A copy of a loop's condition in front of a node that reads it."""
    header = list(loop.blocks())[1]
    mapping: dict[Value, Value] = {}
    for node in header.nodes():
        graph.createClone(node, mapping).insertBefore(before)
    out = next(header.outputs())
    before.addInput(mapping.get(out, out))


def inline_conditions(block: Block) -> None:
    """A loop's condition stands in front of it and at the end of its body."""
    graph = block.owningGraph()
    for node in list(block.nodes()):
        for inner in node.blocks():
            inline_conditions(inner)
        if node.kind() != "prim::Loop":
            continue
        body, header = node.blocks()
        mapping: dict[Value, Value] = {}
        for each in list(header.nodes()):
            graph.createClone(each, mapping).insertBefore(node)
        out = next(header.outputs())
        node.insertInput(1, mapping.get(out, out))
        for each in list(header.nodes()):
            each.moveBefore(body.returnNode())
        body.insertOutput(0, out)
        node.eraseBlock(1)


class _Erased:
    """Puts values in the place of Load nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.frames: list[dict[str, Value]] = []

    def _find(self, name: str) -> Value:
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        raise RuntimeError(f"variable {name} has no value")

    def block(self, block: Block) -> None:
        self.frames.append({})
        for node in list(block.nodes()):
            kind = node.kind()
            if kind == "prim::Store":
                self.frames[-1][node.s("name")] = node.input()
                node.destroy()
            elif kind == "prim::Load":
                node.output().replaceAllUsesWith(self._find(node.s("name")))
                node.destroy()
            elif kind == "prim::ListComprehensionScope":
                inner = next(node.blocks())
                self.block(inner)
                for each in list(inner.nodes()):
                    each.moveBefore(node)
                node.destroy()
            else:
                for inner in node.blocks():
                    self.block(inner)
        self.frames.pop()
