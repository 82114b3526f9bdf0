"""Loops and comprehensions, as the emitter makes nodes of them.

Stands on tree, values and iterables; a part of the emitter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import DictType, ListType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.iterables import RangeValue
from flambeau.jit.frontend.matching import emit_builtin
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import INT, TENSOR, unify
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Loops"]


class Loops:
    """The emitter's loops."""

    def while_statement(self: Emitter, stmt: tree.While) -> None:
        """`while cond: ...`."""
        self._loop(stmt.range, lambda: self.statements(stmt.body), None, None, stmt.cond)

    def for_statement(self: Emitter, stmt: tree.For) -> None:
        """`for target in iter: ...`."""
        iterable = self.sugared(stmt.iter, 1).iterated(stmt.range, self)
        if iterable.unrolled():
            self._unrolled(stmt.range, lambda: self.statements(stmt.body), iterable, stmt.target)
        else:
            self._loop(stmt.range, lambda: self.statements(stmt.body), iterable, stmt.target, None)

    def _unrolled(self: Emitter, where: SourceRange, body: Callable[[], None], iterable: SugaredValue, target: tree.Expr) -> None:
        length = iterable.static_length()
        assert length is not None
        before, self.loop_status = self.loop_status, "unrolled"
        for number in range(length):
            index = self.integer(number, where)
            self.assign_each([target], [iterable.item(where, self, index)], where)
            body()
        self.loop_status = before

    def _loop(
        self: Emitter,
        where: SourceRange,
        body: Callable[[], None],
        iterable: SugaredValue | None,
        target: tree.Expr | None,
        cond: tree.Expr | None,
    ) -> None:
        graph = self.graph
        trips = iterable.length(where, self) if iterable is not None else self.integer(sys.maxsize, where)
        node = self.node("prim::Loop", where, outputs=0)
        block = node.addBlock()
        header = node.addBlock()
        self.push_frame(header)
        if cond is not None:
            with graph.insert_point_guard(header):
                go_on = self.to_bool(cond.range, self.expr_of_condition(cond))
        else:
            with graph.insert_point_guard(node):
                go_on = graph.insertConstant(True, where)
        header.registerOutput(go_on)
        self.pop_frame()
        node.addInput(trips)
        before, self.loop_status = self.loop_status, "loop"
        count = block.addInput().setType(INT)
        self.push_frame(block)
        with graph.insert_point_guard(block):
            if iterable is not None and target is not None:
                current = iterable.item(where, self, count).as_value(where, self)
                self.assign_each([target], [SimpleValue(current)], where)
            body()
        self.pop_frame()
        self.loop_status = before

    def _comprehended(self: Emitter, source: tree.Expr, where: SourceRange, target: tree.Expr, body: Callable[[], None]) -> None:
        """A loop whose variables nobody sees outside."""
        iterable = self.sugared(source, 1).iterated(where, self)
        if iterable.unrolled():
            self._unrolled(where, body, iterable, target)
            return
        block = self.environment.block
        self.push_frame(block)
        self._loop(where, body, iterable, target, None)
        self.pop_frame()

    def list_comprehension(self: Emitter, expr: tree.ListComp, hint: Type | None) -> Value:
        """`[elt for target in iter]`."""
        where, graph = expr.range, self.graph
        made = graph.insertNode(graph.create("prim::ListConstruct")).output().setType(ListType(TENSOR))
        state: dict[str, Type] = {}
        wanted = hint.element if isinstance(hint, ListType) else None
        if hint is not None and hint.written != "Any" and wanted is None and not hint.containedTypes():
            raise ErrorReport(where, f"Expected an annotation of type List, but got {hint}")

        def body() -> None:
            item = self.expr(expr.elt, wanted)
            if "element" not in state:
                state["element"] = wanted if wanted is not None and item.type().isSubtypeOf(wanted) else item.type()
                made.setType(ListType(state["element"]))
            merged = unify(state["element"], item.type())
            if merged is None or merged != state["element"]:
                raise ErrorReport(
                    where,
                    "Arguments for call are not valid"
                    if merged is None
                    else "the items of a list comprehension must be of one type",
                )
            emit_builtin(graph, where, "aten::append", [made, item])

        self._comprehended(expr.iter, where, expr.target, body)
        if "element" not in state and wanted is not None:
            made.setType(ListType(wanted))
        return made

    def dict_comprehension(self: Emitter, expr: tree.DictComp, hint: Type | None) -> Value:
        """`{key: value for target in iter}`."""
        where, graph = expr.range, self.graph
        made = graph.insertNode(graph.create("prim::DictConstruct")).output().setType(DictType(TENSOR, TENSOR))
        state: dict[str, Type] = {}
        wanted = hint if isinstance(hint, DictType) else None

        def body() -> None:
            key = self.expr(expr.key, wanted.key if wanted is not None else None)
            value = self.expr(expr.value, wanted.value if wanted is not None else None)
            if "dict" not in state:
                state["dict"] = wanted if wanted is not None else DictType(key.type(), value.type())
                made.setType(state["dict"])
            emit_builtin(graph, where, "aten::_set_item", [made, key, value])

        self._comprehended(expr.iter, where, expr.target, body)
        return made

    def range_of(self: Emitter, apply: tree.Apply) -> SugaredValue:
        """range(...)."""
        if apply.attributes:
            raise ErrorReport(apply.range, "range doesn't accept any keyword arguments")
        return RangeValue(apply.range, self, self.values_of(apply.inputs))
