"""A call from Python: arguments fitted to the schema, and errors told with the lines of the program that they come from.

Stands on dispatcher.calling and generate; used by ScriptFunction and script modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import calling
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import AnyType, TensorType, Type
from flambeau.jit.execution.objects import python_value, script_object
from flambeau.jit.execution.run import run
from flambeau.jit.execution.runtime import ScriptObject
from flambeau.jit.ir.types import ClassType, InterfaceType

if TYPE_CHECKING:
    from flambeau.jit.ir.function import Function

__all__ = ["bound", "invoke"]

#: Asked first while a program is traced: watch(function, args, kwargs, self) gives the result, or NotImplemented.
watch: Callable[..., Any] | None = None


def bound(schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any], first: int = 0) -> Sequence[Any]:
    """The arguments in the schema's order, converted to its types. RuntimeError, in PyTorch's words, if they don't fit.

    first: how many of the schema's arguments are there already (`self`).
    """
    rest = FunctionSchema(schema.name, "", schema.arguments[first:], schema.returns) if first else schema
    return calling.bind(rest, args, kwargs)


def _facts_of(function: Function, is_method: bool) -> tuple[int, bool]:
    """How many arguments a call from Python has if all are tensors, else -1; whether what it gives may hold objects."""
    schema = function.schema
    arguments = schema.arguments[is_method:]
    tensors = all(isinstance(argument.type, TensorType) for argument in arguments)
    function.facts = len(arguments) if tensors else -1, _has_objects(schema.returns[0].type)
    return function.facts


def invoke(function: Function, args: Sequence[Any], kwargs: dict[str, Any], self_value: Any = None) -> Any:
    """What a function gives for a call from Python."""
    if watch is not None:
        made = watch(function, args, kwargs, self_value)
        if made is not NotImplemented:
            return made
    tensors, objects = function.facts or _facts_of(function, self_value is not None)
    values: Sequence[Any]
    if not kwargs and len(args) == tensors and all([isinstance(value, Tensor) for value in args]):
        values = args if self_value is None else (self_value, *args)
    elif self_value is None:
        values = bound(function.schema, args, kwargs)
    else:
        values = [self_value, *bound(function.schema, args, kwargs, 1)]
    try:
        made = run(function, values)
    except Exception as error:
        from flambeau.jit.execution.tracebacks import told

        raise told(error, function.name) from None
    return python_value(made) if objects else made


def _has_objects(kind: Type) -> bool:
    """Whether a value of the type may be, or hold, an object of a compiled class."""
    if isinstance(kind, (ClassType, InterfaceType, AnyType)):
        return True
    return any(map(_has_objects, kind.containedTypes()))


ScriptObject.invoke = invoke
ClassType.from_python = script_object
