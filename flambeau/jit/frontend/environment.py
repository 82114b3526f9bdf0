"""The variables of a function while it is compiled: a frame per block; first-class values are kept by Store and Load nodes.

Stands on ir and matching; used by the emitter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import ListType, Type
from flambeau.jit.frontend.matching import convert
from flambeau.jit.frontend.values import SimpleValue, SugaredValue, simple
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import unshaped
from flambeau.jit.ir.values import Value, meaningful

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Environment"]


class Environment:
    """A frame: what the variables of a block are, and the frame of the block around it."""

    def __init__(self, emitter: Emitter, block: Block, parent: Environment | None) -> None:
        self.emitter, self.block, self.parent = emitter, block, parent
        self.types: dict[str, Type] = {}
        self.values: dict[str, SugaredValue] = {}
        self.errors: dict[str, Callable[[], str]] = {}

    # ---- reading
    def _load(self, name: str, kind: Type) -> SugaredValue:
        graph = self.emitter.graph
        node = graph.insertNode(graph.create("prim::Load").set("name", "s", name))
        value = node.output().setType(kind)
        if meaningful(name):
            value.setDebugName(name)
        return SimpleValue(value)

    def in_this_frame(self, name: str) -> SugaredValue | None:
        """A variable of this block."""
        found = self.values.get(name)
        if found is not None:
            return found
        kind = self.types.get(name)
        return None if kind is None else self._load(name, kind)

    def in_parent_frame(self, name: str) -> SugaredValue | None:
        """A variable of the blocks around this one."""
        frame = self.parent
        while frame is not None:
            found = frame.in_this_frame(name)
            if found is not None:
                return found
            frame = frame.parent
        return None

    def in_any_frame(self, name: str) -> SugaredValue | None:
        """A variable, innermost first."""
        found = self.in_this_frame(name)
        return found if found is not None else self.in_parent_frame(name)

    def type_error(self, name: str) -> Callable[[], str] | None:
        """Why a variable can't be read, if a frame knows."""
        frame: Environment | None = self
        while frame is not None:
            if name in frame.errors:
                return frame.errors[name]
            frame = frame.parent
        return None

    def defined(self) -> list[str]:
        """The first-class variables of this block."""
        return list(self.types)

    def get(self, name: str, where: SourceRange, required: bool = True) -> SugaredValue | None:
        """What a name means: a variable, a word of the language, or what the resolver finds. ErrorReport if nothing is found."""
        found = self.in_any_frame(name)
        if found is None:
            found = self.emitter.global_name(name, where)
        if found is None and required:
            why = self.type_error(name)
            if why is not None:
                raise ErrorReport(where, f"{why()}and was used here")
            raise ErrorReport(where, f"undefined value {name}")
        return found

    def variable(self, name: str, where: SourceRange) -> Value:
        """The value of a variable. ErrorReport if there is none."""
        found = self.get(name, where)
        assert found is not None
        return found.as_value(where, self.emitter)

    # ---- writing
    def set_type(self, name: str, kind: Type) -> None:
        """What a variable's type is from now on."""
        self.types[name] = kind

    def set_error(self, name: str, why: Callable[[], str]) -> None:
        """Why a variable can't be read from now on."""
        self.errors[name] = why

    def set_value(self, where: SourceRange, name: str, value: Value) -> None:
        """Give a variable a first-class value."""
        self.set(where, name, SimpleValue(value))

    def set(self, where: SourceRange, name: str, value: SugaredValue, annotated: Type | None = None) -> None:
        """Give a variable a value. ErrorReport if a frame around has it with another type."""
        plain = simple(value)
        if plain is not None and not plain.hasDebugName() and meaningful(name) and plain.node().owning_block is self.block:
            plain.setDebugName(name)
        parent = self.in_parent_frame(name)
        if parent is not None:
            if annotated is not None:
                raise ErrorReport(
                    where,
                    f"Attempting to declare and annotate the type of variable '{name}' that is already defined in an outer block",
                )
            before = simple(parent)
            if plain is None:
                raise ErrorReport(
                    where,
                    f"Cannot re-assign '{name}' to a value of type {value.kind()} because {name} is not a "
                    "first-class value.  Only reassignments to first-class values are allowed",
                )
            if before is None:
                raise ErrorReport(
                    where,
                    f"Cannot re-assign '{name}' because it has type {parent.kind()} and {name} is not a first-class "
                    "value.  Only reassignments to first-class values are allowed",
                )
            plain = self._fitted(where, name, before.type(), plain)
        if plain is None:
            self.values[name] = value
            return
        if annotated is not None and not plain.type().isSubtypeOf(annotated):
            raise ErrorReport(
                where,
                f"Variable '{name}' is annotated with type {annotated} but is being assigned to a value of type {plain.type()}",
            )
        graph = self.emitter.graph
        graph.insertNode(graph.create("prim::Store", [plain], 0).set("name", "s", name)).setSourceRange(where)
        self.values.pop(name, None)
        self.types[name] = annotated if annotated is not None else plain.type()

    def _fitted(self, where: SourceRange, name: str, before: Type, value: Value) -> Value:
        value = convert(self.emitter.graph, where, unshaped(before), value, True)
        if value.type().isSubtypeOf(unshaped(before)):
            return value
        message = f"Variable '{name}' previously had type {before} but is now being assigned to a value of type {value.type()}"
        if isinstance(before, ListType) and isinstance(value.type(), ListType):
            message += (
                "\nEmpty lists default to List[Tensor]. Add a variable annotation to the assignment to create an empty "
                "list of another "
                "type (torch.jit.annotate(List[T, []]) where T is the type of elements in the list for Python 2)"
            )
        raise ErrorReport(where, message + "\n")
