"""Assignments, plain and augmented, to variables, attributes, items and several at once.

Stands on tree and values; a part of the emitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import ListType, OptionalType, TupleType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import BuiltinFunction, MagicMethod
from flambeau.jit.frontend.matching import emit_builtin
from flambeau.jit.frontend.values import SimpleValue, SugaredValue, simple
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import BOOL, COMPLEX, FLOAT, INT, NUMBER, TENSOR, ClassType, is_tensor
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Assignments"]

_AUGMENTED = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "fmod", "|": "bitwise_or", "&": "bitwise_and", "^": "bitwise_xor",
    "<<": "__lshift__", ">>": "__rshift__", "**": "pow",
}  # fmt: skip
_IN_PLACE_METHODS = {
    "+": "__iadd__", "-": "__isub__", "*": "__imul__", "/": "__itruediv__", "%": "__imod__", "|": "__ior__", "&": "__iand__",
    "^": "__ixor__", "<<": "__ilshift__", ">>": "__irshift__", "**": "__ipow__",
}  # fmt: skip


def _operator(op: str, kind: Type) -> str:
    in_place = is_tensor(kind)
    name = _AUGMENTED[op]
    if not in_place and op in "%|&^":
        name = {"%": "remainder", "|": "__or__", "&": "__and__", "^": "__xor__"}[op]
    if in_place and op in ("<<", ">>"):
        name = {"<<": "__ilshift__", ">>": "__irshift__"}[op]
        return f"aten::{name}"
    return f"aten::{name}{'_' if in_place else ''}"


class Assignments:
    """The emitter's assignments."""

    # ---- plain
    def assignment(self: Emitter, stmt: tree.Assign) -> None:
        """`targets = value`."""
        if len(stmt.targets) == 1:
            self._single(stmt, stmt.targets[0])
            return
        # a = b = value: the value is worked out once, for a name that no program can have.
        name = self.temporary_name("$tmp_assign_")
        value = self.sugared(stmt.value, 1)
        self.environment.set(stmt.value.range, name, value)
        for target in stmt.targets:
            self._single(tree.Assign(stmt.range, [target], tree.Var(stmt.value.range, name)), target)

    def temporary_name(self: Emitter, prefix: str) -> str:
        """A name that nothing has."""
        self.temporaries = getattr(self, "temporaries", -1) + 1
        return f"{prefix}{self.temporaries}"

    def _single(self: Emitter, stmt: tree.Assign, target: tree.Expr) -> None:
        if isinstance(target, tree.Var):
            kind = self.resolver.type_of(stmt.type) if stmt.type is not None else None
            value = self.sugared(stmt.value, 1, kind)
            self.environment.set(target.range, target.name, value, kind)
        elif isinstance(target, (tree.TupleLiteral, tree.ListLiteral)):
            count = self._targets(target.inputs, stmt.range)
            starred = any(isinstance(each, tree.Starred) for each in target.inputs)
            value = self.sugared(stmt.value, count)
            self._to_tuple(target, value, stmt.value.range, count, starred)
        elif isinstance(target, tree.Select):
            self._to_attribute(target, stmt)
        elif isinstance(target, tree.Subscript):
            self._to_item(stmt.range, target, self.expr(stmt.value))
        else:
            raise ErrorReport(target.range, "unexpected expression on left-hand side of assignment")

    def _targets(self: Emitter, targets: list[tree.Expr], where: SourceRange) -> int:
        """How many values the targets need. ErrorReport for targets that nothing can be assigned to."""
        starred = 0
        needed = len(targets)
        for target in targets:
            if isinstance(target, tree.Starred):
                if not isinstance(target.value, tree.Var):
                    raise ErrorReport(where, "Starred expressions on the left-hand side must be variables")
                starred += 1
                needed -= 1
            elif not isinstance(target, (tree.Var, tree.TupleLiteral, tree.ListLiteral, tree.Subscript, tree.Select)):
                raise ErrorReport(where, "Assignment must be a variable, subscript, or starred expression")
        if starred > 1:
            raise ErrorReport(where, "Only one starred expression is allowed on the lhs")
        if starred and needed == 0:
            raise ErrorReport(
                where, "A Starred expression may only appear on the lhs within the presence of another non-starred expression"
            )
        return needed

    def _to_tuple(self: Emitter, target: Any, value: SugaredValue, where: SourceRange, count: int, starred: bool) -> None:
        parts = value.as_tuple(where, self, None if starred else count)
        if len(parts) < count:
            raise ErrorReport(
                target.range, f"need {'at least ' if starred else ''}{count} values to unpack but found only {len(parts)}"
            )
        if len(parts) > count and not starred:
            raise ErrorReport(target.range, f"too many values to unpack: need {count} but found {len(parts)}")
        self.assign_each(target.inputs, parts, where, count)

    def assign_each(
        self: Emitter, targets: list[tree.Expr], parts: list[SugaredValue], where: SourceRange, count: int = 1
    ) -> None:
        """Each target gets its part; a starred one those that are left."""
        at = 0
        for target in targets:
            if isinstance(target, tree.Starred):
                taken = len(parts) - count
                rest = parts[at : at + taken]
                at += taken
                assert isinstance(target.value, tree.Var)
                value = self.tuple_of([part.as_value(target.range, self) for part in rest])
                self.environment.set_value(target.value.range, target.value.name, value)
                continue
            part = parts[at]
            at += 1
            if isinstance(target, tree.Var):
                self.environment.set(target.range, target.name, part)
            elif isinstance(target, tree.Subscript):
                self._to_item(target.range, target, part.as_value(where, self))
            elif isinstance(target, (tree.TupleLiteral, tree.ListLiteral)):
                inner = self._targets(target.inputs, where)
                starred = any(isinstance(each, tree.Starred) for each in target.inputs)
                self._to_tuple(target, part, where, inner, starred)
            elif isinstance(target, tree.Select):
                self.sugared(target.value, 1).set_attr(target.range, self, target.name, part.as_value(where, self))
            else:
                raise ErrorReport(target.range, "unexpected expression on left-hand side of assignment")

    def _to_attribute(self: Emitter, target: tree.Select, stmt: tree.Assign) -> None:
        obj = self.sugared(target.value, 1)
        kind = self.resolver.type_of(stmt.type) if stmt.type is not None else None
        if kind is None:
            held = simple(obj)
            if held is not None and isinstance(held.type(), ClassType):
                kind = held.type().attribute(target.name)  # type: ignore[attr-defined]
        value = self.expr(stmt.value, kind)
        obj.set_attr(stmt.range, self, target.name, value)

    def _to_item(self: Emitter, where: SourceRange, target: tree.Subscript, value: Value) -> None:
        obj = self.sugared(target.value, 1).as_value(target.value.range, self)
        if is_tensor(obj.type()):
            sliced, indices = self.sliced(target.range, obj, target.items)
            converted = self._as_tensor(value, sliced)
            if not indices:
                emit_builtin(self.graph, where, "aten::copy_", [sliced, converted])
            else:
                emit_builtin(self.graph, where, "aten::index_put_", [sliced, self._index_list(indices), converted])
            return
        self._check_item(target, obj.type())
        index = self.expr(target.items[0])
        MagicMethod("__setitem__", BuiltinFunction("aten::_set_item")).call(where, self, [obj, index, value], [], 0)

    def _check_item(self: Emitter, target: tree.Subscript, kind: Type) -> None:
        if len(target.items) != 1 or isinstance(target.items[0], tree.SliceExpr):
            raise ErrorReport(
                target.items[0].range,
                "Sliced expression not yet supported for subscripted assignment. File a bug if you want this",
            )
        if isinstance(kind, TupleType):
            raise ErrorReport(target.range, f"'{kind}' object does not support item assignment. Use .append() instead")

    def _index_list(self: Emitter, indices: list[Value]) -> Value:
        made = self.graph.insertNode(self.graph.create("prim::ListConstruct", indices)).output()
        return made.setType(ListType(OptionalType(TENSOR)))

    def _as_tensor(self: Emitter, value: Value, like: Value) -> Value:
        if value.type() in (INT, FLOAT, COMPLEX, BOOL, NUMBER):
            kind = emit_builtin(self.graph, None, "prim::dtype", [like])
            where = emit_builtin(self.graph, None, "prim::device", [like])
            return emit_builtin(self.graph, None, "aten::tensor", [value], [("dtype", kind), ("device", where)])
        return value

    # ---- augmented
    def augmented(self: Emitter, stmt: tree.AugAssign) -> None:
        """`target += value`."""
        target = stmt.target
        if isinstance(target, tree.Var):
            self._augment_variable(stmt, target)
        elif isinstance(target, tree.Select):
            self._augment_attribute(stmt, target)
        elif isinstance(target, tree.Subscript):
            self._augment_item(stmt, target)
        else:
            raise ErrorReport(target.range, "unexpected expression on left-hand side of augmented assignment")

    def _in_place(self: Emitter, stmt: tree.AugAssign, value: Value) -> Value:
        """A value that may be changed in place, after that."""
        other = self.expr(stmt.value)
        kind = value.type()
        if isinstance(kind, ClassType):
            name = _IN_PLACE_METHODS[stmt.op]
            if name not in kind.methods:
                name = name.replace("__i", "__", 1)
            made = SimpleValue(value).attr(stmt.range, self, name).call(stmt.range, self, [other], [], 0)
            return made.as_value(stmt.range, self)
        symbol = "aten::add_" if isinstance(kind, ListType) and stmt.op == "+" else _operator(stmt.op, kind)
        return emit_builtin(self.graph, stmt.range, symbol, [value, other])

    def _augment_variable(self: Emitter, stmt: tree.AugAssign, target: tree.Var) -> None:
        value = self.expr(target)
        kind = value.type()
        if is_tensor(kind) or isinstance(kind, (ListType, ClassType)):
            made = self._in_place(stmt, value)
        else:
            made = self.binary(stmt.range, stmt.op, value, self.expr(stmt.value))
        self.environment.set_value(target.range, target.name, made)

    def _augment_attribute(self: Emitter, stmt: tree.AugAssign, target: tree.Select) -> None:
        obj = self.sugared(target.value, 1)
        value = obj.attr(target.range, self, target.name).as_value(target.range, self)
        kind = value.type()
        if is_tensor(kind) or isinstance(kind, (ListType, ClassType)):
            made = self._in_place(stmt, value)
        else:
            made = emit_builtin(self.graph, stmt.range, _operator(stmt.op, kind), [value, self.expr(stmt.value)])
        obj.set_attr(stmt.range, self, target.name, made)

    def _augment_item(self: Emitter, stmt: tree.AugAssign, target: tree.Subscript) -> None:
        graph = self.graph
        obj = self.sugared(target.value, 1).as_value(target.value.range, self)
        if not is_tensor(obj.type()):
            self._check_item(target, obj.type())
            index = self.expr(target.items[0])
            value = self.expr(stmt.value)
            if isinstance(obj.type(), ClassType):
                item = SimpleValue(obj).attr(stmt.range, self, "__getitem__").call(stmt.range, self, [index], [], 1)
                before = item.as_value(stmt.range, self)
            else:
                before = emit_builtin(graph, stmt.range, "aten::__getitem__", [obj, index])
            after = emit_builtin(graph, stmt.range, _operator(stmt.op, before.type()), [before, value])
            MagicMethod("__setitem__", BuiltinFunction("aten::_set_item")).call(stmt.range, self, [obj, index, after], [], 0)
            return
        sliced, indices = self.sliced(target.range, obj, target.items)
        value = self.expr(stmt.value)
        symbol = _operator(stmt.op, obj.type())
        if not indices:
            emit_builtin(graph, stmt.range, symbol, [sliced, value])
            return
        places = self._index_list(indices)
        before = emit_builtin(graph, stmt.range, "aten::index", [sliced, places])
        after = emit_builtin(graph, stmt.range, symbol, [before, value])
        emit_builtin(graph, stmt.range, "aten::index_put_", [sliced, places, after])
