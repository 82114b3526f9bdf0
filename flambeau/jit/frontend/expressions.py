"""Expressions, as the emitter makes nodes of them.

Stands on tree and values; a part of the emitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.base.warn import warn
from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TupleType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import BuiltinFunction, MagicMethod, SpecialForm
from flambeau.jit.frontend.classes import NewObject
from flambeau.jit.frontend.matching import convert
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir import source
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import TENSOR, UnionType, make_union, unify
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Expressions"]

_BINARY = {
    "+": ("add", "__add__"), "-": ("sub", "__sub__"), "*": ("mul", "__mul__"), "/": ("div", "__truediv__"),
    "%": ("remainder", "__mod__"),
    "**": ("pow", "__pow__"), "@": ("matmul", "__matmul__"), "//": ("floordiv", "__floordiv__"), "&": ("__and__", "__and__"),
    "|": ("__or__", "__or__"), "^": ("__xor__", "__xor__"), "<<": ("__lshift__", "__lshift__"), ">>": ("__rshift__",
    "__rshift__"),
    "==": ("eq", "__eq__"), "!=": ("ne", "__ne__"), "<": ("lt", "__lt__"), ">": ("gt", "__gt__"), "<=": ("le", "__le__"),
    ">=": ("ge", "__ge__"), "in": ("__contains__", "__contains__"),
}  # fmt: skip


class Expressions:
    """The emitter's expressions."""

    def expr(self: Emitter, expr: tree.Expr, hint: Type | None = None) -> Value:
        """The first-class value of an expression; `hint`: the type that is wanted of it."""
        source.at(expr.range)
        value = self.sugared(expr, 1, hint).as_value(expr.range, self)
        return value

    def values_of(self: Emitter, exprs: list[tree.Expr]) -> list[Value]:
        """The values of expressions; starred ones are several."""
        found = []
        for expr in exprs:
            if isinstance(expr, tree.Starred):
                inner = self.sugared(expr.value, 1)
                plain = inner.as_value(expr.range, self) if isinstance(inner, SimpleValue) else None
                if plain is not None and not isinstance(plain.type(), TupleType):
                    raise ErrorReport(
                        expr.range,
                        "cannot statically infer the expected size of a list in this context"
                        if isinstance(plain.type(), ListType)
                        else f"{plain.type()} cannot be used as a tuple",
                    )
                found += [part.as_value(expr.range, self) for part in inner.as_tuple(expr.range, self)]
            else:
                found.append(self.expr(expr))
        return found

    def sugared(self: Emitter, expr: tree.Expr, binders: int, hint: Type | None = None) -> SugaredValue:
        """What an expression means, first-class or not."""
        match expr:
            case tree.Var():
                found = self.environment.get(expr.name, expr.range)
                assert found is not None
                return found
            case tree.Select():
                return self.sugared(expr.value, 1).attr(expr.range, self, expr.name)
            case tree.Apply():
                return self.apply(expr, binders, hint)
            case tree.Subscript():
                return self.subscript(expr, hint)
        return SimpleValue(self._plain(expr, hint))

    def apply(self: Emitter, expr: tree.Apply, binders: int, hint: Type | None = None) -> SugaredValue:
        """A call."""
        callee = self.sugared(expr.callee, 1)
        if isinstance(callee, NewObject):
            return callee.made(expr, self)
        if isinstance(callee, SpecialForm):
            return self.special_form(callee.form, expr, hint)
        args = self.values_of(expr.inputs)
        kwargs = [(name, self.expr(value)) for name, value in expr.attributes]
        return callee.call(expr.callee.range, self, args, kwargs, binders)

    def _plain(self: Emitter, expr: tree.Expr, hint: Type | None) -> Value:
        match expr:
            case tree.BinOp():
                if expr.op in ("and", "or", "is", "is not"):
                    return self.condition(expr).value
                return self._binary(expr)
            case tree.UnaryOp():
                if expr.op == "not":
                    return self.condition(expr).value
                return self._unary(expr)
            case tree.Const():
                if isinstance(expr.value, float):
                    return self.floating(expr.value, expr.range)
                if isinstance(expr.value, int):
                    return self.integer(self._checked_integer(expr), expr.range)
                return self.graph.insertConstant(expr.value, expr.range)
            case tree.StringLiteral():
                return self.graph.insertConstant(expr.text, expr.range)
            case tree.Literal():
                return self.graph.insertConstant(expr.value, expr.range)
            case tree.TernaryIf():
                return self.ternary(expr, hint)
            case tree.ListLiteral():
                return self._list(expr, hint)
            case tree.TupleLiteral():
                return self._tuple(expr, hint)
            case tree.DictLiteral():
                return self._dict(expr, hint)
            case tree.ListComp():
                return self.list_comprehension(expr, hint)
            case tree.DictComp():
                return self.dict_comprehension(expr, hint)
            case tree.Starred():
                raise ErrorReport(expr.range, "Unexpected starred expansion. File a bug report")
        raise ErrorReport(expr.range, f"Cannot emit expr for: {type(expr).__name__}")

    def _checked_integer(self: Emitter, expr: tree.Const) -> int:
        value = int(expr.value.real)
        if not -(2**63) <= value < 2**63:
            raise ErrorReport(expr.range, "Could not parse integer constant: it does not fit into 64 bits")
        return value

    # ---- signs
    def _binary(self: Emitter, expr: tree.BinOp) -> Value:
        if expr.op == "%":
            self.expr(expr.lhs)  # PyTorch looks whether it is a text first; what that makes isn't read
        lhs, rhs = self.expr(expr.lhs), self.expr(expr.rhs)
        return self.binary(expr.range, expr.op, *((rhs, lhs) if expr.op == "in" else (lhs, rhs)))

    def binary(self: Emitter, where: SourceRange, op: str, lhs: Value, rhs: Value) -> Value:
        """Two values with a sign between them."""
        name, method = _BINARY[op]
        if op == "+" and isinstance(lhs.type(), TupleType) and isinstance(rhs.type(), TupleType):
            parts = []
            for each in (lhs, rhs):
                parts += [part.as_value(where, self) for part in SimpleValue(each).as_tuple(where, self)]
            return self.tuple_of(parts)
        made = MagicMethod(method, BuiltinFunction(f"aten::{name}")).call(where, self, [lhs, rhs], [], 0)
        return made.as_value(where, self)

    def _unary(self: Emitter, expr: tree.UnaryOp) -> Value:
        from flambeau.jit.passes.constants import folded

        name, method = ("neg", "__neg__") if expr.op == "-" else ("bitwise_not", "__invert__")
        value = self.expr(expr.operand)
        made = (
            MagicMethod(method, BuiltinFunction(f"aten::{name}"))
            .call(expr.range, self, [value], [], 0)
            .as_value(expr.range, self)
        )
        found = folded(made.node()) if made.node().kind() == f"aten::{name}" else None
        return made if found is None else self.graph.insertConstant(found[0], expr.range)

    # ---- literals
    def _list(self: Emitter, expr: tree.ListLiteral, hint: Type | None) -> Value:
        graph, where = self.graph, expr.range
        wanted = self._hinted(hint, ListType)
        values = []
        inner = wanted.element if isinstance(wanted, ListType) else None
        for each in expr.inputs:
            values += self.values_of([each]) if isinstance(each, tree.Starred) else [self.expr(each, inner)]
        if hint is not None and wanted is None and hint.written != "Any":
            raise ErrorReport(
                where,
                f"Expected an annotation of type List, but got {hint}"
                if not isinstance(hint, (UnionType, OptionalType))
                else f"Expected an Union type annotation with an inner List type, but got {hint}",
            )
        element = inner
        if element is None and not values:
            node = graph.insertNode(graph.create("prim::EmptyListLiteral"))
            return node.output().setType(ListType(TENSOR))
        if element is None:
            element = values[0].type()
            for value in values[1:]:
                merged = unify(element, value.type(), True)
                assert merged is not None
                element = merged
            if isinstance(element, UnionType):
                warn(
                    "List consists of heterogeneous types, which means that it has been typed as containing "
                    f"{element}. To use any of the values in this List, it will be necessary to add an `assert "
                    f"isinstance` statement before "
                    f"first use to trigger type refinement.\n{where.highlight()}"
                )
        else:
            values = [convert(graph, where, element, value, False) for value in values]
            for value in values:
                if not value.type().isSubtypeOf(element):
                    raise ErrorReport(
                        where,
                        f"List type annotation `{wanted}` did not match the types of the given list elements, which were "
                        f"{make_union([v.type() for v in values])}",
                    )
        made = graph.insertNode(graph.create("prim::ListConstruct", values)).output()
        return made.setType(ListType(element))

    def _hinted(self: Emitter, hint: Type | None, kind: type) -> Type | None:
        """The part of a hint that a literal of a kind may be."""
        if hint is None or isinstance(hint, kind):
            return hint
        if isinstance(hint, OptionalType):
            return self._hinted(hint.element, kind)
        fitting = [member for member in hint.containedUnionTypes() if isinstance(member, kind)]
        return fitting[0] if len(fitting) == 1 else None

    def _tuple(self: Emitter, expr: tree.TupleLiteral, hint: Type | None) -> Value:
        wanted = self._hinted(hint, TupleType)
        kinds = wanted.elements() if isinstance(wanted, TupleType) and len(wanted.elements()) == len(expr.inputs) else None
        if kinds is not None and not any(isinstance(each, tree.Starred) for each in expr.inputs):
            return self.tuple_of([self.expr(each, kind) for each, kind in zip(expr.inputs, kinds)])
        return self.tuple_of(self.values_of(expr.inputs))

    def _dict(self: Emitter, expr: tree.DictLiteral, hint: Type | None) -> Value:
        graph, where = self.graph, expr.range
        wanted = self._hinted(hint, DictType)
        keys, values = [], []
        for key, value in zip(expr.keys, expr.values):
            keys.append(self.expr(key, wanted.key if isinstance(wanted, DictType) else None))
            values.append(self.expr(value, wanted.value if isinstance(wanted, DictType) else None))
        if hint is not None and wanted is None and hint.written != "Any":
            raise ErrorReport(
                where,
                f"Expected an annotation of type Dict, but got {hint}"
                if not isinstance(hint, (UnionType, OptionalType))
                else f"Expected an Union type annotation with an inner Dict type, but got {hint}",
            )
        kind = wanted if isinstance(wanted, DictType) else self._dict_type(expr, keys, values)
        pairs = [value for pair in zip(keys, values) for value in pair]
        for key, value in zip(keys, values):
            if not key.type().isSubtypeOf(kind.key):
                raise ErrorReport(
                    where,
                    f"Dict keys must contain only a single type. Expected: {kind.key} but found {key.type()} instead"
                    if wanted is None
                    else f"Dict type annotation `{kind}` did not match the type of an actual key type `{key.type()}`",
                )
            if not value.type().isSubtypeOf(kind.value):
                raise ErrorReport(
                    where, f"Dict type annotation `{kind}` did not match the type of an actual value type `{value.type()}`"
                )
        return graph.insertNode(graph.create("prim::DictConstruct", pairs)).output().setType(kind)

    def _dict_type(self: Emitter, expr: tree.DictLiteral, keys: list[Value], values: list[Value]) -> DictType:
        from flambeau.jit.ir.types import STRING

        if not keys:
            return DictType(STRING, TENSOR)
        kind = values[0].type()
        for value in values[1:]:
            merged = unify(kind, value.type(), True)
            assert merged is not None
            kind = merged
        if isinstance(kind, UnionType):
            warn(
                "Dict values consist of heterogeneous types, which means that the dict has been typed as containing "
                f"{kind}. To use any of the values in this Dict, it will be necessary to add an `assert isinstance` "
                f"statement before first use "
                f"to trigger type refinement.\n{expr.range.highlight()}"
            )
        return DictType(keys[0].type(), kind)
