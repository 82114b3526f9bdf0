"""torch.jit.CompilationUnit: functions that are compiled from a text, which is read and never executed as Python.

Stands on frontend.text; `jit` offers it.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.naming import public_module
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.text import TextResolver, define_from_tree, parse_text
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.source import ErrorReport
from flambeau.jit.script_function import ScriptFunction

__all__ = ["CompilationUnit"]


class CompilationUnit:
    """Functions by name, as attributes. `lang`: a text of definitions, in which `torch.x` is the operator aten::x.

    The functions of one text may call each other. Raises RuntimeError, with the line and a mark, for what no program can have.
    """

    __module__ = public_module("jit")

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, Function] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str) -> None:
        """Compile a text's definitions and add them. RuntimeError for a name that is there already."""
        try:
            found = [_definition(each) for each in parse_text(lang, "<string>")]
            known: dict[str, Function] = {}  # a text's functions see each other, and none of another text
            for each in found:
                if each.name in self._functions:
                    raise RuntimeError(f"method '{each.name}' already defined.")
                made = define_from_tree(each.name, each, TextResolver(known.get))
                known[each.name] = self._functions[each.name] = made
            for each in found:
                self._functions[each.name].ensure_defined()
        except ErrorReport as error:
            raise RuntimeError(str(error)) from None

    def find_function(self, name: str) -> ScriptFunction | None:
        """The function of a name; None if there is none."""
        found = self._functions.get(name)
        return None if found is None else ScriptFunction(found)

    def get_functions(self) -> list[ScriptFunction]:
        """All of them, in the order in which they were defined."""
        return [ScriptFunction(each) for each in self._functions.values()]

    def __getattr__(self, name: str) -> Any:
        found = self.find_function(name) if "_functions" in self.__dict__ else None
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found


def _definition(found: tree.Def | tree.ClassDef) -> tree.Def:
    if not isinstance(found, tree.Def):
        raise ErrorReport(found.range, "a CompilationUnit has functions only; compile a class with torch.jit.script")
    return found
