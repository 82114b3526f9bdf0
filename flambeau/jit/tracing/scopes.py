"""Methods of what submodules recorded.

While a module is traced, a call of a submodule is a prim::TracedModuleForward with a block, and parameters are prim::TracedAttr
of the whole module. Here attributes are read where they are used, blocks take what they read from outside, and each becomes
a method of its module's class. The order of the steps, and of the nodes that they make, is that of PyTorch's. Used by running.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.dispatcher.schema_types import NoneType, TensorType, TupleType, Type
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import ClassType
from flambeau.jit.ir.values import Value

__all__ = ["attribute_nodes", "flattened", "methods_made"]

_FORWARD, _ATTRIBUTE = "prim::TracedModuleForward", "prim::TracedAttr"
_TENSOR = TensorType()


def attribute_nodes(graph: Graph, value: Value, kind: ClassType, prefix: str, seen: Callable[[str, Value], None]) -> None:
    """A node for each attribute of a module and of its submodules, at the end of the graph; seen(path, value) is told of each."""
    seen(prefix, value)
    for name, attribute in kind.attributes.items():
        path = f"{prefix}.{name}"
        node = graph.insertNode(graph.create(_ATTRIBUTE)).s_("scope", path)
        node.output().setType(attribute.type)
        if isinstance(attribute.type, ClassType) and attribute.type.is_module:
            attribute_nodes(graph, node.output(), attribute.type, path, seen)
        else:
            seen(path, node.output())


def flattened(graph: Graph) -> None:
    """Nodes of submodules stand in the graph itself, as for a function."""
    _values_reach(graph.block())
    _tuples_returned(graph.block())
    _inlined(graph.block())


def methods_made(graph: Graph, define: Callable[[ClassType, Graph], str]) -> None:
    """Calls of methods in the place of blocks; define(class, graph) makes a method and gives its name."""
    _attributes_read(graph)
    _values_reach(graph.block())
    _tuples_returned(graph.block())
    _lifted(graph.block())
    _called(graph, define)


# ---------------------------------------------------------------- attributes


def _attributes_read(graph: Graph) -> None:
    self_value = next(iter(graph.inputs()))
    nodes = [node for node in graph.nodes() if node.kind() == _ATTRIBUTE]
    paths = {node.output(): node.s("scope") for node in nodes}
    by_path = {path: value for value, path in paths.items()}
    by_path["__module"] = self_value
    _take_self(graph.block(), by_path)
    _read_attributes(graph.block(), "__module", self_value, paths)
    for node in reversed(nodes):
        node.destroy()


def _take_self(block: Block, by_path: dict[str, Value]) -> None:
    for node in block.nodes():
        for inner in node.blocks():
            if node.kind() == _FORWARD:
                value = by_path[node.s("scope")]
                node.addInput(value)
                inner.addInput("self").setType(value.type())
            _take_self(inner, by_path)


def _read_attributes(block: Block, prefix: str, self_value: Value, paths: dict[Value, str]) -> list[Value]:
    """Read each attribute below `prefix` that the block uses; the attributes used that are not below it."""
    local: dict[Value, Value] = {}
    outside: list[Value] = []
    graph = block.owningGraph()

    def resolve(node: Node, at: int) -> None:
        value = node.inputsAt(at)
        path = paths.get(value)
        if path is None:
            return
        if value not in local:
            if path.startswith(prefix + "."):
                with graph.insert_point_guard(block.first()):
                    local[value] = _chain(graph, self_value, path[len(prefix) + 1 :].split("."))
            else:
                local[value] = block.addInput().copyMetadata(value)
                outside.append(value)
        node.replaceInput(at, local[value])

    for node in list(block.nodes()):
        if node.kind() == _FORWARD:
            inner = next(iter(node.blocks()))
            for value in _read_attributes(inner, node.s("scope"), next(iter(inner.inputs())), paths):
                node.addInput(value)
                resolve(node, node.inputsSize() - 1)
    for node in list(block.nodes()):
        for at in range(node.inputsSize()):
            resolve(node, at)
    ending = block.returnNode()
    for at in range(ending.inputsSize()):
        resolve(ending, at)
    return outside


def _chain(graph: Graph, value: Value, names: list[str]) -> Value:
    for name in names:
        kind = value.type()
        assert isinstance(kind, ClassType)
        node = graph.insertNode(graph.create("prim::GetAttr", [value])).s_("name", name)
        found = kind.attribute(name)
        value = node.output().setType(found if found is not None else _TENSOR)
        value.setDebugName(name if name.isidentifier() else "_" + name)
    return value


# ---------------------------------------------------------------- values of other blocks


def _values_reach(block: Block, above: frozenset[Block] = frozenset(), moved: dict[Value, Value] | None = None) -> None:
    """Let a value that a block made be given by it where others read it."""
    moved = {} if moved is None else moved
    around = above | {block}
    for node in [*block.nodes(), block.returnNode()]:
        for at in range(node.inputsSize()):
            value = node.inputsAt(at)
            home = value.node().owningBlock()
            while home is not None and home not in around:
                if value not in moved:
                    owner = home.owningNode()
                    assert owner is not None
                    home.registerOutput(value)
                    moved[value] = owner.addOutput().setType(value.type())
                value = moved[value]
                home = value.node().owningBlock()
            if value is not node.inputsAt(at):
                node.replaceInput(at, value)
        for inner in node.blocks():
            _values_reach(inner, around, moved)


def _tuples_returned(block: Block) -> None:
    """Let a block with several results give a tuple, and one without any None."""
    graph = block.owningGraph()
    for node in block.nodes():
        for inner in node.blocks():
            _tuples_returned(inner)
            values = list(inner.outputs())
            if node.kind() != _FORWARD or len(values) == 1:
                continue
            if not values:
                nothing = inner.appendNode(graph.create("prim::Constant"))
                inner.registerOutput(nothing.output().setType(NoneType()))
                node.addOutput().setType(NoneType())
                continue
            made = inner.appendNode(graph.create("prim::TupleConstruct", values))
            kind = TupleType([value.type() for value in values])
            made.output().setType(kind)
            for at in reversed(range(len(values))):
                inner.eraseOutput(at)
            inner.registerOutput(made.output())
            whole = node.addOutput().setType(kind)
            parts = graph.create("prim::TupleUnpack", [whole], len(values)).insertAfter(node)
            for before, after in zip(list(node.outputs())[:-1], parts.outputs()):
                after.setType(before.type())
                before.replaceAllUsesWith(after)
            for at in reversed(range(len(values))):
                node.eraseOutput(at)


# ---------------------------------------------------------------- blocks


def _inlined(block: Block) -> None:
    for node in block.nodes():
        for inner in node.blocks():
            _inlined(inner)
            if node.kind() == _FORWARD:
                for each in list(inner.nodes()):
                    each.moveBefore(node)
                for mine, theirs in zip(list(node.outputs()), list(inner.outputs())):
                    mine.replaceAllUsesWith(theirs)
                node.destroy()


def _lifted(block: Block) -> None:
    """A graph of its own for each block, with inputs for what it reads from outside."""
    for node in block.nodes():
        if node.kind() != _FORWARD:
            continue
        inner = next(iter(node.blocks()))
        _lifted(inner)
        made = Graph()
        inside: set[Value] = set()
        known: dict[Value, Value] = {}
        for value in inner.inputs():
            known[value] = made.addInput().copyMetadata(value)
        _copied(made.block(), inner, made, known, inside, node)
        node.set("Subgraph", "g", made)
        node.eraseBlock(0)


def _copied(target: Block, source: Block, graph: Graph, known: dict[Value, Value], inside: set[Value], node: Node) -> None:
    def read(value: Value) -> Value:
        if value not in known:
            known[value] = graph.addInput().copyMetadata(value)
            node.addInput(value)
        return known[value]

    for each in source.nodes():
        made = graph.createClone(each, read, copy_blocks=False)
        known.update(zip(each.outputs(), made.outputs()))
        target.appendNode(made)
    for value in source.outputs():
        target.registerOutput(read(value))


def _called(graph: Graph, define: Callable[[ClassType, Graph], str]) -> None:
    for node in list(graph.nodes()):
        if node.kind() != _FORWARD:
            continue
        inner = node.g("Subgraph")
        _called(inner, define)
        kind = node.inputsAt(0).type()
        assert isinstance(kind, ClassType)
        name = define(kind, inner)
        results = list(inner.outputs())
        made = graph.create("prim::CallMethod", list(node.inputs())).s_("name", name)
        made.insertBefore(node)
        if results:
            made.output().setType(_plain(results[0].type()))
            node.output().replaceAllUsesWith(made.output())
        node.destroy()


def _plain(kind: Type) -> Type:
    """The type as schemas have it."""
    from flambeau.jit.ir.types import unshaped

    return unshaped(kind)
