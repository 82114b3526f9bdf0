"""Functions of Python as functions of programs: compiled once each, with their overloads; and those that stay Python.

Stands on python_source and the emitter; used by script and by python_values.
"""

from __future__ import annotations

import builtins
import inspect
from typing import Any
from weakref import WeakKeyDictionary

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.emit_hooks import emitted_function
from flambeau.jit.frontend import library, tree
from flambeau.jit.frontend.emitter import Emitter
from flambeau.jit.frontend.python_resolver import PythonResolver, closure_of
from flambeau.jit.frontend.python_source import DROPPED, UNUSED, definition_of
from flambeau.jit.ir.function import Function, argument
from flambeau.jit.ir.names import mangled, qualified_name_of
from flambeau.jit.ir.source import ErrorReport, SourceRange, compiling
from flambeau.jit.ir.types import ANY, INFERRED
from flambeau.jit.marks import NOTED

__all__ = ["compile_function", "compiled", "defaults_of", "ignored", "is_ignored", "look_up_of", "overloads_of"]

_made: WeakKeyDictionary[Any, Function] = WeakKeyDictionary()
_IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"


def look_up_of(function: Any) -> Any:
    """A look-up of names as a function sees them."""
    table = closure_of(function)
    return lambda name: table[name] if name in table else getattr(builtins, name, None)


def defaults_of(function: Any) -> dict[str, Any]:
    """The defaults of a function's parameters."""
    return {
        name: p.default for name, p in inspect.signature(function).parameters.items() if p.default is not inspect.Parameter.empty
    }


def is_ignored(function: Any) -> bool:
    """Whether a function stays Python."""
    return getattr(function, "_torchscript_modifier", None) == _IGNORE


def is_unused(function: Any) -> bool:
    """Whether a call of a function is an error when it is reached."""
    return getattr(function, "_torchscript_modifier", None) in (UNUSED, DROPPED)


def compile_function(function: Any, look_up: Any = None, qualified_name: str | None = None) -> Function:
    """A Python function, compiled."""
    short = library.functional_name(function)
    name = qualified_name or (f"__torch__.torch.nn.functional.{short}" if short else qualified_name_of(function))
    made = Function(name)
    made.python = function
    made.doc = function.__doc__
    _made[function] = made
    source = library.substitute(function)
    made._define = lambda each: _define(each, source, look_up if look_up is not None else look_up_of(source))
    try:
        made.ensure_defined()
    except BaseException:
        _made.pop(function, None)
        raise
    emitted_function(made)
    return made


def _define(made: Function, function: Any, look_up: Any) -> None:
    with compiling(made.name):
        definition = definition_of(function, made.name)
        Emitter(made, PythonResolver(look_up)).define(definition, None, defaults_of(function))


def compiled(function: Any, where: SourceRange | None = None) -> Function | None:
    """The program's function of a Python function, compiled if it hasn't been; None for one that stays Python."""
    if is_ignored(function):
        return None
    found = _made.get(function)
    if found is not None:
        return found
    script = getattr(function, "__script_if_tracing_wrapper", False)
    if script:
        function = function.__original_fn
    return compile_function(function)


def ignored(function: Any) -> Function:
    """A function that stays Python, with a schema from its annotations; a program calls it as it is."""
    made = Function(getattr(function, "__name__", type(function).__name__))
    made.python = function
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ErrorReport(None, f"Could not get the signature of {function}") from None
    resolver = PythonResolver(look_up_of(function) if hasattr(function, "__code__") else lambda name: None)
    arguments = []
    for name, parameter in signature.parameters.items():
        kind = _annotated(parameter.annotation, resolver)
        given = parameter.default is not inspect.Parameter.empty
        arguments.append(argument(name, kind, parameter.default if given else None, given))
    annotated = signature.return_annotation
    result = _annotated(annotated, resolver)
    made.declare(FunctionSchema(made.name, "", arguments, [argument("", result)]))
    return made


def _annotated(annotation: Any, resolver: PythonResolver) -> Type:
    from flambeau.jit.frontend.annotations import type_of_annotation

    if annotation is inspect.Parameter.empty:
        return INFERRED
    found = type_of_annotation(annotation, None, resolver.look_up)
    return found if found is not None else ANY


# ---------------------------------------------------------------- overloads


def noted_overloads(function: Any) -> list[Any]:
    """The signatures that were noted for a method."""
    return NOTED.get(_overload_key(function), [])


def _overload_key(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def merged_definition(function: Any, declared: Any, name: str, self_name: str | None = None) -> tree.Def:
    """The body of a function with the parameters and result of another."""
    declaration = definition_of(declared, name, self_name)
    definition = definition_of(function, name, self_name)
    return tree.Def(
        definition.range, definition.name, declaration.params, declaration.returns, definition.body, definition.name_range
    )


def overloads_of(function: Any, where: SourceRange | None = None) -> list[Function]:
    """The function, compiled with each of the signatures that were noted for it; none if there are none."""
    found = getattr(function, "_script_overloads", None)
    if found is not None:
        return list(found)
    source = library.substitute(function)
    noted = noted_overloads(source)
    if not noted:
        return []
    short = library.functional_name(function)
    name = f"__torch__.torch.nn.functional.{short}" if short else qualified_name_of(function)
    if function in noted:
        raise RuntimeError(f"Can't find an implementation for overloaded function {name}")
    made = [_overload(source, each, mangled(name)) for each in noted]
    function._script_overloads = made
    return made


def _overload(function: Any, declared: Any, name: str) -> Function:
    made = Function(name)
    made.python = function
    look_up = look_up_of(function)

    def define(each: Function) -> None:
        with compiling(each.name):
            merged = merged_definition(function, declared, each.name)
            Emitter(each, PythonResolver(look_up)).define(merged, None, defaults_of(declared) or defaults_of(function))

    made._define = define
    return made
