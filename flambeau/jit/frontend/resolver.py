"""What names mean where a function stands: the part that functions of Python and texts of archives share.

A resolver gives values of names and types of annotations. `python_resolver` looks names up in a function's globals and
closure, `text`
in a table. Stands on tree and the types; used by python_resolver and text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import DictType, FutureType, ListType, NamedType, OptionalType, TupleType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.values import SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INFERRED,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    make_union,
)

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Resolver", "type_of_words"]

_WORDS: dict[str, Type] = {
    "Tensor": TENSOR, "int": INT, "float": FLOAT, "bool": BOOL, "complex": COMPLEX, "str": STRING, "Device": DEVICE,
    "number": NUMBER,
    "None": NONE, "NoneType": NONE, "Any": ANY, "Generator": GENERATOR, "Capsule": NamedType("Capsule"),
    "Stream": NamedType("Stream"),
    "Storage": NamedType("Storage"), "list": NamedType("AnyListType"), "tuple": NamedType("AnyTupleType"), "Scalar": NUMBER,
    "t": NamedType("t"),
}  # fmt: skip


class Resolver:
    """Says what names mean."""

    def value(self, name: str, e: Emitter, where: SourceRange) -> SugaredValue | None:
        """What a name means that is no variable; None if it means nothing."""
        return None

    def named_type(self, expr: tree.Expr) -> Type | None:
        """The type of a name, or of names with points; None if there is none."""
        return None

    # ---- types
    def type_of(self, expr: tree.Expr) -> Type:
        """The type that an annotation says. ErrorReport if it says none."""
        found = self.named_type(expr)
        if found is None:
            found = type_of_words(self, expr)
        if found is None:
            raise ErrorReport(expr.range, f"Unknown type name '{expr.range.text()}'")
        return found

    def parameter_type(self, param: tree.Param) -> Type:
        """The type of a parameter: Tensor where nothing is said."""
        return INFERRED if param.type is None else self.type_of(param.type)

    # ---- defaults
    def fitting_default(self, value: Any, kind: Type, param: tree.Param) -> Any:
        """A default as the schema has it."""
        if kind == FLOAT and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return value

    def constant(self, expr: tree.Expr, kind: Type) -> Any:
        """The value of a default that stands in a text: a literal. ErrorReport for anything else."""
        match expr:
            case tree.Const() | tree.Literal():
                return expr.value
            case tree.StringLiteral():
                return expr.text
            case tree.UnaryOp(op="-"):
                return -self.constant(expr.operand, kind)
            case tree.ListLiteral():
                return [self.constant(each, kind) for each in expr.inputs]
            case tree.TupleLiteral():
                return tuple(self.constant(each, kind) for each in expr.inputs)
            case tree.BinOp(op="+"):
                return self.constant(expr.lhs, kind) + self.constant(expr.rhs, kind)
            case tree.Var(name="inf"):
                return float("inf")
            case tree.Var(name="nan"):
                return float("nan")
            case tree.Apply(callee=tree.Select(name="device"), inputs=[tree.StringLiteral() as name]):
                from flambeau.base.device import device

                return device(name.text)
        raise ErrorReport(expr.range, "a default must be a literal")


def type_of_words(resolver: Resolver, expr: tree.Expr) -> Type | None:
    """The type that an annotation says in the words that every program knows; None if it says none."""
    match expr:
        case tree.Var():
            return _WORDS.get(expr.name)
        case tree.Literal(value=None):
            return NONE
        case tree.Select():
            if isinstance(expr.value, tree.Var) and expr.value.name in ("torch", "typing"):
                return _WORDS.get({"device": "Device"}.get(expr.name, expr.name))
            return None
        case tree.Subscript():
            name = expr.value.name if isinstance(expr.value, (tree.Var, tree.Select)) else ""
            return _generic(resolver, name, expr)
        case tree.BinOp(op="|"):
            return make_union([resolver.type_of(expr.lhs), resolver.type_of(expr.rhs)])
        case tree.TupleLiteral():
            return TupleType([resolver.type_of(each) for each in expr.inputs])
    return None


def _generic(resolver: Resolver, name: str, expr: tree.Subscript) -> Type | None:
    count = {"List": 1, "list": 1, "Optional": 1, "Future": 1, "Await": 1, "Dict": 2, "dict": 2, "Final": 1}.get(name)
    if count is not None and len(expr.items) != count:
        raise ErrorReport(
            expr.range, f"{name} type must have exactly {'one element type' if count == 1 else 'two element types'}"
        )
    if name.startswith("BroadcastingList"):
        return ListType(resolver.type_of(expr.items[0]), int(name[len("BroadcastingList") :] or 1))
    if name in ("Tuple", "tuple"):
        if len(expr.items) == 1 and isinstance(expr.items[0], tree.TupleLiteral):
            return TupleType([resolver.type_of(each) for each in expr.items[0].inputs])
        return TupleType([resolver.type_of(each) for each in expr.items])
    if count is None and name != "Union":
        return None
    parts = [resolver.type_of(each) for each in expr.items]
    match name:
        case "List" | "list":
            return ListType(parts[0])
        case "Optional":
            return parts[0] if isinstance(parts[0], OptionalType) else make_union([parts[0], NONE])
        case "Future" | "Await":
            return FutureType(parts[0], name)
        case "Dict" | "dict":
            return DictType(*parts)
        case "Final":
            return parts[0]
    return make_union(parts)
