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
from flambeau.jit.execution.generate import runner_of
from flambeau.jit.execution.objects import python_value, script_object
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
    arguments = schema.arguments[first:]
    if (
        not kwargs
        and len(args) == len(arguments)
        and all(
            type(argument.type).__name__ in _PLAIN and isinstance(value, Tensor)
            for argument, value in zip(arguments, args)
        )
    ):
        return args
    rest = FunctionSchema(schema.name, "", arguments, schema.returns) if first else schema
    return calling.bind(rest, args, kwargs)


_PLAIN = (TensorType.__name__, "InferredTensorType")


def invoke(function: Function, args: Sequence[Any], kwargs: dict[str, Any], self_value: Any = None) -> Any:
    """What a function gives for a call from Python."""
    if watch is not None:
        made = watch(function, args, kwargs, self_value)
        if made is not NotImplemented:
            return made
    if self_value is None:
        values = bound(function.schema, args, kwargs)
    else:
        values = [self_value, *bound(function.schema, args, kwargs, 1)]
    try:
        made = runner_of(function)(*values)
    except Exception as error:
        from flambeau.jit.execution.tracebacks import told

        raise told(error, function.name) from None
    return python_value(made) if _has_objects(function.schema.returns[0].type) else made


def _has_objects(kind: Type) -> bool:
    """Whether a value of the type may be, or hold, an object of a compiled class."""
    if isinstance(kind, (ClassType, InterfaceType, AnyType)):
        return True
    return any(map(_has_objects, kind.containedTypes()))


ScriptObject.invoke = invoke
ClassType.from_python = script_object
