"""torch.jit.ScriptFunction: a compiled function, as torch.jit.script gives it back.

Stands on ir, execution and printing; `jit` offers it.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.naming import public_module
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.execution.calls import invoke
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.graph import Graph
from flambeau.jit.passes.inlining import inline
from flambeau.jit.printing.code import ConstantTable, code_of

__all__ = ["ConstMap", "ScriptFunction", "ScriptMethod"]


class ConstMap:
    """The constants of a text by their names `c0` and so on."""

    __module__ = public_module("jit._script")

    def __init__(self, table: ConstantTable) -> None:
        self.const_mapping = {f"c{number}": value for number, value in enumerate(table.values)}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["const_mapping"][name]
        except KeyError:
            raise AttributeError(name) from None


class _Program:
    """What functions and methods have in common."""

    _script_function: Function

    @property
    def graph(self) -> Graph:
        """The program."""
        return self._script_function.graph

    @property
    def inlined_graph(self) -> Graph:
        """The program with the bodies of what it calls in the calls' places."""
        graph = self._script_function.graph.copy()
        inline(graph)
        return graph

    @property
    def code(self) -> str:
        """The program as text that can be compiled again."""
        return code_of(self._script_function)

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        """The text, and the constants that it refers to."""
        table = ConstantTable()
        text = code_of(self._script_function, table)
        return text, ConstMap(table)

    @property
    def schema(self) -> FunctionSchema:
        """What the arguments and results are."""
        return self._script_function.schema

    @property
    def name(self) -> str:
        """The name."""
        return self._script_function.name

    @property
    def qualified_name(self) -> str:
        """The name with that of its module or class in front."""
        return self._script_function.qualified_name

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The program as it runs for these arguments: with the bodies of what it calls."""
        return self.inlined_graph

    def get_debug_state(self) -> None:
        """Nothing is kept of runs."""
        return


class ScriptFunction(_Program):
    """A compiled function. Calling it converts the arguments to the types of its schema; RuntimeError where they don't fit."""

    __module__ = public_module("jit")

    def __init__(self, function: Function) -> None:
        self._script_function = function
        self.__name__ = function.name
        self.__doc__ = function.doc
        original = function.python
        if original is not None:
            self.__dict__["__wrapped__"] = original
            self.__qualname__ = getattr(original, "__qualname__", function.name)
            self.__module__ = original.__module__
        self._torchdynamo_inline = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return invoke(self._script_function, args, kwargs)

    def save(self, filename: Any, _extra_files: Any = None) -> None:
        """Write the function to a file, as the forward of a module."""
        from flambeau.jit.archive.saving import of_function, write

        write(of_function(self._script_function), filename, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes that save would write."""
        from flambeau.jit.archive.saving import of_function, written

        return written(of_function(self._script_function), _extra_files)

    def _debug_flush_compilation_cache(self) -> None:
        return None

    def __deepcopy__(self, memo: Any) -> ScriptFunction:
        return self

    def __reduce__(self) -> Any:
        import pickle

        raise pickle.PickleError("ScriptFunction cannot be pickled")

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction object at {id(self):#x}>"


class ScriptMethod(_Program):
    """A compiled method of a module or an object."""

    __module__ = public_module("")

    def __init__(self, function: Function, owner: Any) -> None:
        self._script_function, self.owner = function, owner
        self.__name__, self.__doc__ = function.name, function.doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return invoke(self._script_function, args, kwargs, self.owner)
