"""Graphs as text, as PyTorch prints them: `%3 : int = prim::Constant[value=1]() # file:4:11`.

Stands on graph; used by Graph's and Node's __str__.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import FutureType

if TYPE_CHECKING:
    from flambeau.jit.ir.graph import Graph
    from flambeau.jit.ir.nodes import Node
    from flambeau.jit.ir.values import Value

__all__ = ["complex_text", "float_text", "graph_text", "node_text", "quoted"]

_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "'": "\\'", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\v": "\\v",
}  # fmt: skip


def quoted(text: str) -> str:
    """A text in quotes, bytes that aren't printable as octal numbers."""
    made = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in _ESCAPES:
            made.append(_ESCAPES[char])
        elif 32 <= byte < 127:
            made.append(char)
        else:
            # PyTorch writes the digits of a signed byte, each as a character from "0" on.
            signed = byte - 256 if byte > 127 else byte
            digits = (_quotient(signed, 64), _remainder(_quotient(signed, 8), 8), _remainder(signed, 8))
            made.append("\\" + "".join(chr(ord("0") + digit) for digit in digits))
    return f'"{"".join(made)}"'


def _quotient(a: int, b: int) -> int:
    return int(a / b)


def _remainder(a: int, b: int) -> int:
    return a - b * int(a / b)


def float_text(value: float) -> str:
    """A number with all its digits, and a point if it looks like an integer."""
    text = f"{value:.17g}"
    return text + "." if text.lstrip("-").isdigit() else text


def complex_text(value: complex) -> str:
    """A complex number with all its digits."""
    sign = "" if f"{value.imag:.17g}".startswith("-") else "+"
    return f"{float_text(value.real)}{sign}{float_text(value.imag)}j"


def value_text(value: Any) -> str:
    """A constant as it stands in the brackets of its node."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        return complex_text(value)
    if isinstance(value, Tensor):
        if value.numel() == 1 and not value.is_complex():
            number = value.item()
            return f"{{{int(number) if not isinstance(number, float) else f'{number:.6g}'}}}"
        return "<Tensor>"
    if value is None or isinstance(value, (list, tuple, dict)):
        return _nested(value)
    return quoted(str(value)) if not hasattr(value, "name") else _enum_text(value)


def _enum_text(value: Any) -> str:
    from flambeau.jit.ir.names import qualified_name_of

    return f"{qualified_name_of(type(value))}.{value.name}"


def _nested(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_nested, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_nested(k)}: {_nested(v)}" for k, v in value.items()) + "}"
    return value_text(value)


def _attributes(node: Node) -> str:
    if not node.attributes:
        return ""
    shown = []
    for name, (kind, value) in node.attributes.items():
        if kind in ("is", "fs", "ss"):
            text = f"[{', '.join(quoted(item) if kind == 'ss' else value_text(item) for item in value)}]"
        elif kind == "g":
            text = "<Graph>"
        elif kind == "ty":
            text = str(value)
        elif kind == "tys":
            text = f"[{', '.join(each.written for each in value)}]"
        elif kind == "s":
            text = quoted(str(value))
        else:
            text = value_text(value)
        shown.append(f"{name}={text}")
    return f"[{', '.join(shown)}]"


def _typed(values: list[Value], separator: str = ", ") -> str:
    return separator.join(f"%{value.debugName()} : {_type(value)}" for value in values)


def _type(value: Value) -> str:
    kind = value.type()
    return str(kind) if isinstance(kind, FutureType) else kind.written


def _named(values: list[Value]) -> str:
    return ", ".join(f"%{value.debugName()}" for value in values)


def node_text(node: Node, level: int, ranges: bool = True, groups: list[Node] | None = None) -> str:
    """The lines of a node and its blocks, indented by `level` steps."""
    indent = "  " * level
    outputs = _typed(list(node.outputs()))
    text = f"{indent}{outputs} = "
    if node.hasAttribute("Subgraph") and groups is not None:
        text += f"{node.kind()}_{len(groups)}"
        groups.append(node)
    elif node.kind() == "prim::PythonOp":
        text += f"^{node.s('name')}[]()"
    else:
        text += f"{node.kind()}{_attributes(node)}"
    text += f"({_named(list(node.inputs()))})"
    if node.scope:
        text += f", scope: {node.scope}"
    place = node._range.file_line_col() if ranges and node._range is not None else None
    if place is not None:
        text += f" # {place[0]}:{place[1]}:{place[2]}"
    text += "\n"
    for number, block in enumerate(node.blocks()):
        inner = "  " * (level + 1)
        text += f"{inner}block{number}({_typed(list(block.inputs()))}):\n"
        text += "".join(node_text(each, level + 2, ranges, groups) for each in block.nodes())
        text += f"{inner}  -> ({_named(list(block.outputs()))})\n"
    return text


def graph_text(graph: Graph, ranges: bool = True) -> str:
    """All of a graph."""
    groups: list[Node] = []
    text = f"graph({_typed(list(graph.inputs()), f',{chr(10)}      ')}):\n"
    text += "".join(node_text(node, 1, ranges, groups) for node in graph.nodes())
    text += f"  return ({_named(list(graph.outputs()))})\n"
    for number, node in enumerate(groups):
        text += f"with {node.kind()}_{number} = {graph_text(node.g('Subgraph'), ranges)}"
    return text
