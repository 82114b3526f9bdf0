"""Functions and methods of a program: a graph under a qualified name, with a schema, compiled when first asked for.

Stands on graph and dispatcher.schema; used by the front end, the printer, the executor and by what loads archives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.schema import Argument, FunctionSchema
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.ir.graph import Graph

__all__ = ["Function", "argument"]


def argument(name: str, kind: Type, default: Any = None, given: bool = False, kwarg_only: bool = False) -> Argument:
    """An argument of a function's schema."""
    return Argument(name, kind, None, default, given, kwarg_only)


class Function:
    """A function or a method. `define` fills in graph and schema; it runs once, when either is first asked for."""

    is_declaration = False  # whether it is a method of an interface: a schema, and no program

    def __init__(self, qualified_name: str, define: Callable[[Function], None] | None = None) -> None:
        self.qualified_name = qualified_name
        self._define, self._busy = define, False
        self._graph: Graph | None = None
        self._schema: FunctionSchema | None = None
        self.runners: dict[bool | str, Callable[..., Any]] = {}  # what execution.generate made of it
        self.facts: tuple[int, bool] | None = None  # what execution.calls knows of its schema
        self.python: Any = None  # the Python function that it was compiled from, or that an ignored one calls
        self.doc: str | None = None

    @property
    def name(self) -> str:
        """The last part of the qualified name."""
        return self.qualified_name.rpartition(".")[2]

    @property
    def is_busy(self) -> bool:
        """Whether it is being compiled."""
        return self._busy

    @property
    def graph(self) -> Graph:
        """The program. RuntimeError for a function that is asked for it while it is compiled."""
        self.ensure_defined()
        assert self._graph is not None
        return self._graph

    @property
    def schema(self) -> FunctionSchema:
        """What the arguments and results are."""
        if self._schema is None:
            self.ensure_defined()
        assert self._schema is not None
        return self._schema

    def set(self, graph: Graph, schema: FunctionSchema) -> None:
        """Give it its program."""
        self._graph, self._schema = graph, schema
        self.facts = None
        self.runners.clear()

    def declare(self, schema: FunctionSchema) -> None:
        """Give it its schema before its program, so that it may be called by itself."""
        self._schema = schema

    def ensure_defined(self) -> None:
        """Compile it if that is still to be done. RuntimeError if it is being compiled: it calls itself."""
        if self._define is None or self._graph is not None:
            return
        if self._busy:
            raise RecursionError(self.name)
        self._busy = True
        try:
            self._define(self)
        finally:
            self._busy = False
        self._define = None
