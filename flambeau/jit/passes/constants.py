"""Constants: nodes whose inputs are known are worked out, `if` with a known condition becomes a branch, equal constants
become one.

Stands on effects and the executor's operators; runs last, and where an unary sign is emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import ListType, Type
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.constants import can_be_constant, same_constant
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.shaped import shaped
from flambeau.jit.ir.types import ClassType, FunctionType, NamedTupleType
from flambeau.jit.ir.values import Value
from flambeau.jit.passes import dead_code
from flambeau.jit.passes.aliases import Aliases
from flambeau.jit.passes.effects import has_side_effects, is_mutable, written

__all__ = ["NONDETERMINISTIC", "folded", "pool", "propagate", "propagate_immutable", "written_in"]

Unwritten = Callable[[Node], bool]
_NEVER = frozenset(
    "prim::If prim::Loop prim::Closure prim::Constant prim::Uninitialized prim::Guard prim::profile "
    "prim::unchecked_unwrap_optional "
    "prim::AutogradAdd prim::CreateObject prim::GetAttr prim::EmptyListLiteral prim::Load prim::Store aten::is_scripting "
    "prim::awaitable prim::Uninitialized".split()
)
#: Operators that give something else each time.
NONDETERMINISTIC = frozenset(
    "aten::rand aten::rand_like aten::randn aten::randn_like aten::randint aten::randint_like aten::randperm aten::bernoulli "
    "aten::multinomial aten::normal aten::poisson aten::dropout aten::rrelu aten::_fused_dropout".split()
)


def folded(node: Node, unwritten: Unwritten | None = None) -> list[Any] | None:
    """What a node gives whose inputs are all constants; None if that isn't known before it runs.

    unwritten(node): whether nothing writes to what the node reads and gives; then values may be some that can be changed.
    """
    from flambeau.jit.execution.operators import python_of

    kind = node.kind()
    if kind in _NEVER or kind in NONDETERMINISTIC or node._blocks or has_side_effects(node) or written(node):
        return None
    inputs = list(node.inputs())
    if any(value.node().kind() != "prim::Constant" for value in inputs):
        return None
    if any(is_mutable(v.type()) for v in node.outputs()) and (unwritten is None or not unwritten(node)):
        return None
    run = _listed if kind == "prim::ListConstruct" else python_of(node)
    if run is None:
        return None
    try:
        made = run(*(value.toIValue() for value in inputs))
    except Exception:
        return None
    results = [made] if node.outputsSize() == 1 else list(made)
    return results if all(map(can_be_constant, results)) else None


def _listed(*items: Any) -> list[Any]:
    return list(items)


def propagate_immutable(graph: Graph) -> bool:
    """Work out what is known, but for values that can be changed; whether anything was."""
    changed = _propagate(graph.block(), None)
    if changed:
        dead_code.eliminate(graph)
    return changed


def propagate(graph: Graph) -> bool:
    """Work out what is known, also tensors and lists that nothing writes to; whether anything was."""
    aliases = Aliases(graph)
    touched = {group for value in written_in(graph.block()) for group in aliases.groups(value)}
    touched |= {group for value in graph.outputs() for group in aliases.groups(value)}

    def unwritten(node: Node) -> bool:
        return not any(aliases.groups(value) & touched for value in (*node.inputs(), *node.outputs()))

    changed = _propagate(graph.block(), unwritten)
    if changed:
        dead_code.eliminate(graph)
    return changed


def written_in(block: Block) -> list[Value]:
    """The values that nodes of a block write to."""
    found: list[Value] = []
    for node in block.nodes():
        found += written(node)
        for inner in node.blocks():
            found += written_in(inner)
    return found


def _propagate(block: Block, unwritten: Unwritten | None) -> bool:
    changed = False
    for node in list(block.nodes()):
        if node.owning_block is None:
            continue
        changed |= _node(node, unwritten)
    return changed


def _node(node: Node, unwritten: Unwritten | None) -> bool:
    kind = node.kind()
    if kind == "prim::If":
        return _if(node, unwritten)
    if kind == "prim::Loop":
        return _loop(node, unwritten)
    if node._blocks:
        return any([_propagate(block, unwritten) for block in node.blocks()])
    if unwritten is None and any(is_mutable(value.type()) and not _is_constant(value.node()) for value in node.inputs()):
        return False
    made = _tuple(node) if kind == "prim::TupleConstruct" else folded(node, unwritten)
    if made is None:
        return False
    graph = node.owningGraph()
    with graph.insert_point_guard(node):
        for value, output in zip(made, list(node.outputs())):
            constant = graph.insertConstant(value, None, _kind_for(value, output.type()))
            output.replaceAllUsesWith(constant)
    return True


def _tuple(node: Node) -> list[Any] | None:
    """A tuple of constants that can't be changed, as one."""
    inputs = list(node.inputs())
    kind = node.output().type()
    if (
        not inputs
        or isinstance(kind, NamedTupleType)
        or any(
            not _is_constant(value.node()) or is_mutable(value.type()) or isinstance(value.type(), FunctionType)
            for value in inputs
        )
    ):
        return None
    return [tuple(value.toIValue() for value in inputs)]


def _is_constant(node: Node) -> bool:
    return node.kind() == "prim::Constant"


def _kind_for(value: Any, kind: Type) -> Type | None:
    if isinstance(value, Tensor):
        return shaped(value)
    return kind if isinstance(value, (list, tuple, dict)) or isinstance(kind, ListType) else None


def _if(node: Node, unwritten: Unwritten | None) -> bool:
    condition = node.inputsAt(0).toIValue()
    if condition is None:
        changed = any([_propagate(block, unwritten) for block in node.blocks()])
        return _remove_same_outputs(node) or changed
    chosen = list(node.blocks())[0 if condition else 1]
    _propagate(chosen, unwritten)
    for inner in list(chosen.nodes()):
        inner.moveBefore(node)
    for mine, theirs in zip(list(node.outputs()), list(chosen.outputs())):
        mine.replaceAllUsesWith(theirs)
    chosen.returnNode().removeAllInputs()
    node.destroy()
    return True


def _remove_same_outputs(node: Node) -> bool:
    """What both branches give alike is given by what they have it from."""
    true, false = (list(block.outputs()) for block in node.blocks())
    changed = False
    for index in range(node.outputsSize() - 1, -1, -1):
        a, b = true[index], false[index]
        same = a is b
        if not same and a.node().kind() == b.node().kind() == "prim::Constant" and a.type() == b.type():
            same = not is_mutable(a.type()) and same_constant(a.toIValue(), b.toIValue()) and not isinstance(a.type(), ClassType)
            if same and a.node().attributes.get("name") is not None:
                same = False
            if same:
                graph = node.owningGraph()
                clone = graph.createClone(a.node(), {}).insertBefore(node)
                a = clone.output()
        if same:
            node.outputsAt(index).replaceAllUsesWith(a)
            node.eraseOutput(index)
            for block in node.blocks():
                block.eraseOutput(index)
            changed = True
    return changed


def _loop(node: Node, unwritten: Unwritten | None) -> bool:
    count, start = node.inputsAt(0).toIValue(), node.inputsAt(1).toIValue()
    if (count is not None and count <= 0) or start is False:
        for mine, given in zip(list(node.outputs()), list(node.inputs())[2:]):
            mine.replaceAllUsesWith(given)
        node.destroy()
        return True
    return _propagate(next(node.blocks()), unwritten)


def pool(graph: Graph) -> None:
    """Equal constants become one, and all stand in front."""
    _pool(graph, graph.block(), [])


def _pool(graph: Graph, block: Block, found: list[Node]) -> None:
    for node in list(block.nodes()):
        if node._blocks:
            for inner in node.blocks():
                _pool(graph, inner, found)
            continue
        if node.kind() != "prim::Constant":
            continue
        same = next((other for other in found if _same(node, other)), None)
        if same is not None:
            node.replaceAllUsesWith(same)
            node.destroy()
            continue
        found.append(node)
        first = graph.block().first()
        if node is not first:
            node.moveBefore(first)


def _same(a: Node, b: Node) -> bool:
    if a.output().type() != b.output().type() or a.attributes.keys() != b.attributes.keys():
        return False
    return all(
        kind == b.attributes[name][0] and same_constant(value, b.attributes[name][1])
        for name, (kind, value) in a.attributes.items()
    )
