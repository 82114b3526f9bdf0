"""`value[items]`: items, slices, and tensors' places in several dimensions.

Stands on tree and values; a part of the emitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import ListType, OptionalType, TupleType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.matching import emit_builtin
from flambeau.jit.frontend.values import SimpleValue, SugaredTuple, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import INT, NONE, TENSOR, is_none, is_tensor
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Subscripts"]


class Subscripts:
    """The emitter's subscripts."""

    def subscript(self: Emitter, expr: tree.Subscript, hint: Type | None = None) -> SugaredValue:
        """`value[items]`."""
        value = self.sugared(expr.value, 1)
        where, place = expr.range, expr.value.range
        if len(expr.items) != 1:
            return SimpleValue(self._many(where, value.as_value(place, self), expr.items))
        item = expr.items[0]
        if isinstance(item, tree.SliceExpr):
            if isinstance(value, SugaredTuple) or value.kind() == "module":
                return self._sugared_slice(where, value, item)
            plain = value.as_value(place, self)
            dim = self.graph.insertConstant(0, where) if is_tensor(plain.type()) else None
            return SimpleValue(self._slice(where, plain, dim, item))
        index = self.expr(item)
        if isinstance(value, SimpleValue):
            kind = value.value.type()
            if isinstance(kind, TupleType):
                return SimpleValue(self.tuple_item(where, value.value, index))
            if is_tensor(kind):
                return SimpleValue(self._many(where, value.value, expr.items))
        return value.item(where, self, index, hint)

    def tuple_item(self: Emitter, where: SourceRange, value: Value, index: Value) -> Value:
        """An item of a tuple, at a place that is a constant."""
        kind = value.type()
        assert isinstance(kind, TupleType)
        number = index.toIValue()
        if isinstance(number, int) and not isinstance(number, bool):
            count = len(kind.elements())
            if not -count <= number < count:
                raise ErrorReport(where, f"Tuple index out of range. Tuple is length {count} and index is {number}")
            result: Type = kind.elements()[number]
        else:
            if index.type() != INT:
                raise ErrorReport(where, "tuple index must be an integer")
            kinds = kind.elements()
            if not kinds or any(each != kinds[0] for each in kinds):
                raise ErrorReport(
                    where, f"Cannot index into a {kind} with a non-integer literal because we cannot resolve the output type"
                )
            result = kinds[0]
        node = self.graph.create("prim::TupleIndex", [value, index])
        return self.graph.insertNode(node).output().setType(result)

    # ---- slices
    def _bounds(self: Emitter, where: SourceRange, expr: tree.SliceExpr) -> list[int | None]:
        found = []
        for part in (expr.start, expr.stop, expr.step):
            number = None if part is None else self.expr(part).toIValue()
            if part is not None and not isinstance(number, int):
                raise ErrorReport(where, "tuple slices must be integer constants")
            found.append(number)
        return found

    def _sugared_slice(self: Emitter, where: SourceRange, value: SugaredValue, expr: tree.SliceExpr) -> SugaredValue:
        start, stop, step = self._bounds(where, expr)
        return SugaredTuple(value.as_tuple(where, self)[start:stop:step])

    def _slice(self: Emitter, where: SourceRange, value: Value, dim: Value | None, expr: tree.SliceExpr) -> Value:
        graph = self.graph
        if isinstance(value.type(), TupleType):
            return self._tuple_slice(where, value, expr)
        args = [value] if dim is None else [value, dim]
        given = [None if part is None else self.expr(part) for part in (expr.start, expr.stop, expr.step)]
        step = given[2] if given[2] is not None else graph.insertConstant(1, where)
        args += [graph.insertConstant(None) if part is None else part for part in given[:2]]
        return emit_builtin(graph, where, "aten::slice", [*args, step])

    def _tuple_slice(self: Emitter, where: SourceRange, value: Value, expr: tree.SliceExpr) -> Value:
        start, stop, step = self._bounds(where, expr)
        kind = value.type()
        assert isinstance(kind, TupleType)
        places = range(len(kind.elements()))[start:stop:step]
        return self.tuple_of([self.tuple_item(where, value, self.graph.insertConstant(i)) for i in places])

    # ---- tensors
    def _many(self: Emitter, where: SourceRange, value: Value, items: list[tree.Expr]) -> Value:
        if not is_tensor(value.type()):
            raise ErrorReport(where, "Unsupported operation: attempted to use multidimensional indexing on a non-tensor type")
        value, indices = self.sliced(where, value, items)
        if not indices:
            return value
        made = self.graph.insertNode(self.graph.create("prim::ListConstruct", indices)).output()
        return emit_builtin(self.graph, where, "aten::index", [value, made.setType(ListType(OptionalType(TENSOR)))])

    def sliced(self: Emitter, where: SourceRange, value: Value, items: list[tree.Expr]) -> tuple[Value, list[Value]]:
        """A tensor's part by integers, slices and None; and the tensors that are to choose from it, by dimension."""
        graph = self.graph
        dims = [0] * len(items)
        found: list[Value | None] = [None] * len(items)

        def place(number: int, dim: int, backwards: bool) -> int:
            item = items[number]
            dims[number] = dim
            if isinstance(item, tree.SliceExpr):
                return dim - 1 if backwards else dim + 1
            self.sugared(item, 1)  # PyTorch looks at what it means first; what that makes isn't read
            index = self.expr(item, NONE if isinstance(item, tree.Literal) and item.value is None else None)
            if isinstance(index.type(), ListType):
                index = emit_builtin(graph, None, "aten::tensor", [index], [("dtype", graph.insertConstant(4))])
            found[number] = index
            kind = index.type()
            if is_none(kind):
                return dim if backwards else dim + 1
            if kind == INT:
                return dim - 1 if backwards else dim
            if kind.isSubtypeOf(OptionalType(TENSOR)):
                if backwards:
                    raise ErrorReport(where, "Ellipses followed by tensor indexing is currently not supported")
                return dim + 1
            raise ErrorReport(
                where,
                f"Unsupported operation: indexing tensor with unsupported index type '{kind}'. Only ints, slices, lists "
                "and tensors are supported",
            )

        dim, first = 0, len(items)
        for number, item in enumerate(items):
            if isinstance(item, tree.Dots):
                first = number
                break
            dim = place(number, dim, False)
        back = -1
        for number in range(len(items) - 1, first, -1):
            if isinstance(items[number], tree.Dots):
                raise ErrorReport(where, "An index can only have a single ellipsis ('...')")
            back = place(number, back, True)
        indices: list[Value | None] = []
        for number, item in enumerate(items):
            index = found[number]
            if index is None:
                if isinstance(item, tree.SliceExpr):
                    value = self._slice(where, value, graph.insertConstant(dims[number], where), item)
                continue
            if is_none(index.type()):
                value = emit_builtin(graph, where, "aten::unsqueeze", [value, graph.insertConstant(dims[number], where)])
            elif index.type() == INT:
                value = emit_builtin(graph, where, "aten::select", [value, graph.insertConstant(dims[number], where), index])
            else:
                indices += [None] * (dims[number] + 1 - len(indices))
                indices[dims[number]] = index
        return value, [graph.insertConstant(None) if index is None else index for index in indices]
