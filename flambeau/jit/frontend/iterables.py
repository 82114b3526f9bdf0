"""What loops go through: ranges, and several iterables at once (zip, enumerate).

Stands on values; used by loops and forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import ListType, Type
from flambeau.jit.frontend.matching import emit_builtin
from flambeau.jit.frontend.values import SimpleValue, SugaredTuple, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import INT
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["IterableTree", "RangeValue"]


class RangeValue(SugaredValue):
    """range(start, stop, step)."""

    def __init__(self, where: SourceRange, e: Emitter, inputs: list[Value], static_length: int | None = None) -> None:
        for value in inputs:
            if value.type() != INT:
                raise ErrorReport(
                    where, f"all inputs of range must be ints, found {value.type()} in argument {inputs.index(value)}"
                )
        if not 1 <= len(inputs) <= 3:
            raise ErrorReport(
                where,
                f"range expected at most 3 arguments, got {len(inputs)}"
                if inputs
                else "range expected at least 1 arguments, got 0",
            )
        self._static_length = static_length
        self._only_end = len(inputs) == 1
        graph = e.graph
        if self._only_end:
            self.end = inputs[0]
            self.start = graph.insertConstant(0, where)
            self.step = graph.insertConstant(1, where)
        else:
            self.start, self.end = inputs[:2]
            self.step = inputs[2] if len(inputs) == 3 else graph.insertConstant(1, where)

    def kind(self) -> str:
        return "range"

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        return self

    def static_length(self) -> int | None:
        return self._static_length

    def unrolled(self) -> bool:
        return self._static_length is not None

    def length(self, where: SourceRange, e: Emitter) -> Value:
        if self._static_length is not None:
            return e.graph.insertConstant(self._static_length, where)
        if self._only_end:
            return self.end
        return emit_builtin(e.graph, where, "aten::__range_length", [self.start, self.end, self.step])

    def item(self, where: SourceRange, e: Emitter, index: Value, hint: Type | None = None) -> SugaredValue:
        if self._only_end:
            return SimpleValue(index)
        return SimpleValue(emit_builtin(e.graph, where, "aten::__derive_index", [index, self.start, self.step]))


class IterableTree(SugaredValue):
    """Several iterables, of which each step of a loop takes one item."""

    def __init__(self, children: list[SugaredValue], static_length: int | None, unrolled: bool) -> None:
        self.children, self._static_length, self._unrolled = children, static_length, unrolled

    @classmethod
    def of(cls, where: SourceRange, e: Emitter, children: list[SugaredValue]) -> IterableTree:
        """The iterables together. ErrorReport where one of them is written out and another's length isn't known."""
        length: int | None = None
        unrolled = False
        for number, child in enumerate(children):
            if child.unrolled():
                size = child.static_length()
                if number == 0 or length is None:
                    if (
                        number > 0
                        and not unrolled
                        and any(c.static_length() is None and not isinstance(c, RangeValue) for c in children[:number])
                    ):
                        raise ErrorReport(
                            where,
                            "Can not iterate over a module list or tuple with a value that does not have a statically "
                            "determinable length\n",
                        )
                    length = size
                elif size is not None:
                    length = min(length, size)
                unrolled = True
            elif unrolled and child.static_length() is None:
                raise ErrorReport(
                    where,
                    "Can not iterate over a module list or tuple with a value that does not have a statically "
                    "determinable length\n",
                )
        return cls(children, length, unrolled)

    def kind(self) -> str:
        return "iterabletree"

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        return self

    def unrolled(self) -> bool:
        return self._unrolled

    def static_length(self) -> int | None:
        return self._static_length

    def _bases(self) -> list[SugaredValue]:
        found: list[SugaredValue] = []
        for child in self.children:
            found += child._bases() if isinstance(child, IterableTree) else [child]
        return found

    def length(self, where: SourceRange, e: Emitter) -> Value:
        if self._unrolled and self._static_length is not None:
            return e.graph.insertConstant(self._static_length, where)
        lengths = [child.length(where, e) for child in self._bases()]
        node = e.graph.insertNode(e.graph.create("prim::ListConstruct", lengths))
        return emit_builtin(e.graph, where, "prim::min", [node.output().setType(ListType(INT))])

    def item(self, where: SourceRange, e: Emitter, index: Value, hint: Type | None = None) -> SugaredValue:
        return SugaredTuple([child.item(where, e, index, hint) for child in self.children])

    def as_tuple(self, where: SourceRange, e: Emitter, size: int | None = None) -> list[SugaredValue]:
        return self.children
