"""What a node gives that can be told by looking at it and at what its inputs are made of: torch._C._jit_pass_peephole.

A rule looks at a node and says which value stands for its result, or which constant. Stands on aliases: lists and dicts count
only where nothing writes to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.schema_types import NumberType, OptionalType, TensorType
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import is_none, is_tensor
from flambeau.jit.ir.values import Value
from flambeau.jit.passes import dead_code
from flambeau.jit.passes.aliases import Aliases
from flambeau.jit.passes.constants import written_in

__all__ = ["optimize", "optimize_lists"]


class _Known:
    """A constant."""

    def __init__(self, value: Any) -> None:
        self.value = value


Rule = Callable[[Node, "_Unchanged"], "Value | _Known | None"]
_RULES: dict[str, list[Rule]] = {}
_CONTAINERS = frozenset("aten::len aten::__getitem__ prim::ListUnpack".split())


class _Unchanged:
    """Which values nothing writes to."""

    def __init__(self, graph: Graph) -> None:
        self.aliases = Aliases(graph)
        self.touched = {group for value in written_in(graph.block()) for group in self.aliases.groups(value)}

    def __call__(self, value: Value) -> bool:
        return not self.aliases.groups(value) & self.touched


def _rule(*kinds: str) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        for kind in kinds:
            _RULES.setdefault(kind, []).append(rule)
        return rule

    return enter


def optimize(graph: Graph, disable_shape_peepholes: bool = False) -> bool:
    """Put what is known of nodes in their places, and take out what nobody needs then; whether anything was known."""
    return _run(graph, lambda kind: True)


def optimize_lists(graph: Graph, refine_list_len: bool = False) -> bool:
    """The same, of lists alone. NotImplementedError for what branches say of lengths (refine_list_len)."""
    if refine_list_len:
        raise NotImplementedError(
            "torch._C._jit_pass_peephole_list_idioms(refine_list_len=True) is not implemented in flambeau; write the lengths as "
            "constants"
        )
    return _run(graph, _CONTAINERS.__contains__)


def _run(graph: Graph, wanted: Callable[[str], bool]) -> bool:
    changed = _block(graph.block(), _Unchanged(graph), wanted)
    if changed:
        dead_code.eliminate(graph)
    return changed


def _block(block: Block, unchanged: _Unchanged, wanted: Callable[[str], bool]) -> bool:
    changed = False
    for node in list(block.nodes()):
        if node.owning_block is None:
            continue
        for inner in node.blocks():
            changed |= _block(inner, unchanged, wanted)
        if node.kind() == "prim::If" and wanted("prim::If"):
            changed |= _if(node)
        for rule in _RULES.get(node.kind(), ()) if wanted(node.kind()) else ():
            found = rule(node, unchanged)
            if found is not None:
                _replace(node, found)
                changed = True
                break
    return changed


def _replace(node: Node, found: Value | _Known) -> None:
    if isinstance(found, _Known):
        graph = node.owningGraph()
        with graph.insert_point_guard(node):
            found = graph.insertConstant(found.value)
    node.output().replaceAllUsesWith(found)


def _if(node: Node) -> bool:
    """`if c: True else: False` is c."""
    branches = [list(block.outputs()) for block in node.blocks()]
    changed = False
    for out, one, other in zip(list(node.outputs()), *branches):
        if one.toIValue() is True and other.toIValue() is False and out.hasUses():
            out.replaceAllUsesWith(node.inputsAt(0))
            changed = True
    return changed


# ---------------------------------------------------------------- rules


@_rule("aten::len")
def _length(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    value = node.inputsAt(0)
    made = value.node()
    if made.kind() == "prim::ListConstruct" and unchanged(value):
        return _Known(made.inputsSize())
    if made.kind() == "prim::DictConstruct" and unchanged(value):
        keys = [key.toIValue() for key in list(made.inputs())[::2]]
        return _Known(len(set(keys))) if None not in keys else None
    return None


@_rule("aten::__getitem__")
def _item(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    value, wanted = node.inputsAt(0), node.inputsAt(1).toIValue()
    made = value.node()
    if not unchanged(value) or wanted is None:
        return None
    if made.kind() == "prim::ListConstruct" and isinstance(wanted, int):
        items = list(made.inputs())
        return items[wanted] if -len(items) <= wanted < len(items) else None
    if made.kind() == "prim::DictConstruct":
        parts = list(made.inputs())
        keys = [key.toIValue() for key in parts[::2]]
        if None not in keys and keys.count(wanted) == 1:
            return parts[2 * keys.index(wanted) + 1]
    return None


@_rule("aten::eq", "aten::ne")
def _same(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    one, other = node.inputsAt(0), node.inputsAt(1)
    if one is other and not is_tensor(one.type()) and one.type().written not in ("float", "complex", "float[]", "complex[]"):
        return _Known(node.kind() == "aten::eq")
    return None


def _is_number(value: Value, number: int) -> bool:
    known = value.toIValue()
    return isinstance(known, (int, float)) and not isinstance(known, bool) and known == number


@_rule("aten::add", "aten::sub", "aten::mul")
def _neutral(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    """An integer plus 0, or times 1. A tensor would be of another memory, and maybe of another dtype."""
    inputs = list(node.inputs())[:2]
    number = 1 if node.kind() == "aten::mul" else 0
    if any(value.type().written != "int" for value in (*inputs, *node.outputs())):
        return None
    if _is_number(inputs[1], number):
        return inputs[0]
    return inputs[1] if node.kind() != "aten::sub" and _is_number(inputs[0], number) else None


@_rule("aten::t")
def _twice(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    made = node.inputsAt(0).node()
    return made.inputsAt(0) if made.kind() == "aten::t" else None


@_rule("aten::type_as")
def _type_as(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    one, other = node.inputsAt(0).type(), node.inputsAt(1).type()
    if not (isinstance(one, TensorType) and isinstance(other, TensorType)):
        return None
    known = None not in (one.dtype(), one.device(), other.dtype(), other.device())
    return node.inputsAt(0) if known and one.dtype() is other.dtype() and one.device() == other.device() else None


_CONVOLUTIONS = {"aten::conv1d": 3, "aten::conv2d": 4, "aten::conv3d": 5}


@_rule("aten::dim")
def _dimensions(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    value = node.inputsAt(0)
    kind = value.type()
    if isinstance(kind, TensorType) and kind.dim() is not None:
        return _Known(kind.dim())
    known = _CONVOLUTIONS.get(value.node().kind())
    return _Known(known) if known is not None and unchanged(value) else None


@_rule("aten::size")
def _sizes(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    kind = node.inputsAt(0).type()
    sizes = kind.sizes() if isinstance(kind, TensorType) else None
    if sizes is None or not unchanged(node.inputsAt(0)):
        return None
    if node.inputsSize() == 1:
        return None if node.output().uses() and not unchanged(node.output()) else _Known(list(sizes))
    place = node.inputsAt(1).toIValue()
    return _Known(sizes[place]) if isinstance(place, int) and -len(sizes) <= place < len(sizes) else None


@_rule("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional")
def _cast(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    value = node.inputsAt(0)
    if node.kind() == "prim::unchecked_cast":
        fits = value.type().isSubtypeOf(node.output().type()) and not isinstance(value.type(), NumberType)
    else:
        fits = not isinstance(value.type(), OptionalType) and not is_none(value.type())
    return value if fits else None


@_rule("aten::__is__", "aten::__isnot__")
def _never_none(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    kinds = [node.inputsAt(0).type(), node.inputsAt(1).type()]
    nones = [is_none(kind) for kind in kinds]
    if all(nones):
        return _Known(node.kind() == "aten::__is__")
    if not any(nones):
        return None
    kind = kinds[nones.index(False)]
    may = isinstance(kind, OptionalType) or bool(kind.containedUnionTypes()) or kind.written == "Any"
    return None if may else _Known(node.kind() != "aten::__is__")


_ANSWERS = {
    "prim::dtype": lambda kind: kind.dtype(), "prim::device": lambda kind: kind.device(),
    "aten::is_floating_point": lambda kind: None if kind.dtype() is None else kind.dtype().is_floating_point,
    "aten::is_complex": lambda kind: None if kind.dtype() is None else kind.dtype().is_complex,
}  # fmt: skip


@_rule(*_ANSWERS)
def _answers(node: Node, unchanged: _Unchanged) -> Value | _Known | None:
    kind = node.inputsAt(0).type()
    found = _ANSWERS[node.kind()](kind) if isinstance(kind, TensorType) else None
    return None if found is None else _Known(found)
