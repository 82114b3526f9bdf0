"""What names mean in a Python function: its closure, its globals, Python's own words.

Stands on resolver, annotations and python_values; used by functions, module_types and python_classes.
"""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.annotations import Evaluate, parsed_annotation, type_of_annotation
from flambeau.jit.frontend.resolver import Resolver, type_of_words
from flambeau.jit.frontend.values import SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["AnnotationResolver", "PythonResolver", "closure_of", "names_of_frames"]

_ABSENT = object()


def closure_of(function: Any) -> dict[str, Any]:
    """What a function sees: its globals, and over them the variables of functions around it."""
    found = dict(getattr(function, "__globals__", {}))
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars, cells):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def names_of_frames(depth: int) -> Callable[[str], Any]:
    """A look-up of names as the caller so many frames up sees them."""
    import sys

    frame = sys._getframe(depth + 1)
    outer, inner = frame.f_globals, dict(frame.f_locals)
    return lambda name: inner[name] if name in inner else outer.get(name, getattr(builtins, name, None))


class AnnotationResolver(Resolver):
    """Says the types of annotations, whose names `look_up` finds."""

    def __init__(self, look_up: Evaluate, own_class: Type | None = None, class_name: str = "") -> None:
        self.look_up, self.own_class, self.class_name = look_up, own_class, class_name

    def object_of(self, expr: tree.Expr) -> Any:
        """The Python object of a name, or of names with points; `_ABSENT` if there is none."""
        if isinstance(expr, tree.Var):
            found = self.look_up(expr.name)
            return _ABSENT if found is None else found
        if isinstance(expr, tree.Select):
            inner = self.object_of(expr.value)
            if inner is _ABSENT:  # None, as PyTorch looks names up: isinstance(x, self.__class__) asks for NoneType
                inner = None
            return getattr(inner, expr.name, _ABSENT)
        return _ABSENT

    def named_type(self, expr: tree.Expr) -> Type | None:
        if isinstance(expr, tree.Var) and self.own_class is not None and expr.name == self.class_name:
            return self.own_class
        if isinstance(expr, tree.StringLiteral):
            try:
                return self.type_of(parsed_annotation(expr.text))
            except ErrorReport:
                raise ErrorReport(expr.range, f"Unknown type name '{expr.text}'") from None
        if isinstance(expr, (tree.Var, tree.Select)):
            found = self.object_of(expr)
            if found is _ABSENT:
                return None
            return type_of_annotation(found, expr.range, self.look_up)
        return None

    def type_of(self, expr: tree.Expr) -> Type:
        if isinstance(expr, tree.Subscript):
            origin = self.object_of(expr.value)
            name = getattr(origin, "_name", None) or getattr(origin, "__name__", None)
            if origin is not _ABSENT and name and isinstance(expr.value, (tree.Var, tree.Select)) and _is_generic(origin):
                expr = tree.Subscript(expr.range, tree.Var(expr.value.range, name), expr.items)
                found = type_of_words(self, expr)
                if found is not None:
                    return found
        return super().type_of(expr)


def _is_generic(origin: Any) -> bool:
    return (
        origin in (list, dict, tuple) or getattr(origin, "__module__", "") in ("typing", "collections") or origin is typing.Final
    )


class PythonResolver(AnnotationResolver):
    """Says what names mean in a Python function."""

    def value(self, name: str, e: Emitter, where: SourceRange) -> SugaredValue | None:
        from flambeau.jit.frontend.python_values import sugared

        if self.own_class is not None and name == self.class_name:
            from flambeau.jit.frontend.text import meaning

            return meaning(self.own_class)
        found = self.look_up(name)
        if found is None:
            return None
        return sugared(found, e, where)

    def fitting_default(self, value: Any, kind: Type, param: tree.Param) -> Any:
        from flambeau.jit.frontend.python_values import taken

        return taken(value, kind)
