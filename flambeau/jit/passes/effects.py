"""What a node does besides giving values: side effects, and writes to what it reads.

Stands on ir and operators' schemas; used by dead_code and constants.
"""

from __future__ import annotations

from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TensorType, TupleType, Type
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import ClassType, InterfaceType
from flambeau.jit.ir.values import Value

__all__ = ["has_side_effects", "is_mutable", "written"]

_EFFECTS = frozenset(
    "prim::RaiseException prim::Print prim::SetAttr prim::PythonOp prim::CallFunction prim::CallMethod prim::Enter prim::Exit "
    "prim::ReturnStmt prim::LoopContinuation prim::BreakStmt prim::ContinueStmt prim::fork prim::awaitable aten::wait aten::warn "
    "aten::manual_seed aten::save prim::profile prim::IgnoredPythonOp".split()
)


def has_side_effects(node: Node) -> bool:
    """Whether a node does something that is seen elsewhere, so that it stays even if nothing reads what it gives."""
    if node.kind() in _EFFECTS:
        return True
    return any(has_side_effects(inner) for block in node.blocks() for inner in block.nodes())


def written(node: Node) -> list[Value]:
    """The values that a node changes."""
    schema = node.note
    if schema is None or not hasattr(schema, "arguments"):
        return []
    return [value for argument, value in zip(schema.arguments, node.inputs()) if argument.is_write]


def is_mutable(kind: Type) -> bool:
    """Whether a value of the type can be changed."""
    if isinstance(kind, (ListType, DictType, TensorType, ClassType, InterfaceType)):
        return True
    if isinstance(kind, (OptionalType, TupleType)) or kind.containedUnionTypes():
        return any(map(is_mutable, kind.containedTypes()))
    return kind.written == "Any" or (kind.written[:1].islower() and len(kind.written) == 1)
