"""What answers an operator of a program: a Python function of the schema's arguments.

Numbers, texts and containers are answered by `scalars`; tensors by the package's operators of PyTorch's names, which get
dtypes and memory formats where the program has numbers. Stands on dispatcher; used by expressions and by constants.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TensorType, Type
from flambeau.jit.execution import scalars, special
from flambeau.jit.ir.codes import code_of, dtype_or_none, layout_of, memory_format_of
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import canonical

__all__ = ["answer_of", "converter_of", "on_tensors", "python_of"]

_CODES = {"ScalarType": dtype_or_none, "Layout": layout_of, "MemoryFormat": memory_format_of}


def python_of(node: Node) -> Callable[..., Any] | None:
    """What answers an operator's node; None for a word of the language, which generated code answers itself."""
    schema = node.note
    if not isinstance(schema, FunctionSchema):
        return scalars.FUNCTIONS.get(node.kind())
    return answer_of(node.kind(), schema)


def answer_of(symbol: str, schema: FunctionSchema) -> Callable[..., Any]:
    """What answers an overload. NotImplementedError, when called, where flambeau has nothing."""
    return _answer(symbol, schema.overload_name, schema)


@functools.cache
def _answer(symbol: str, overload: str, schema: FunctionSchema) -> Callable[..., Any]:
    found = _of_tables(symbol, schema)
    return _tensor_operator(schema) if found is None else found


def on_tensors(symbol: str, schema: FunctionSchema) -> bool:
    """Whether an overload is answered by the package's operator of its name."""
    return _of_tables(symbol, schema) is None


def _of_tables(symbol: str, schema: FunctionSchema) -> Callable[..., Any] | None:
    for key in (f"{symbol}.{schema.overload_name}", symbol):
        if key in special.FUNCTIONS:
            return special.FUNCTIONS[key]
    if symbol in scalars.CONVERSIONS or (symbol in scalars.FUNCTIONS and not _has_tensor(schema)):
        return scalars.FUNCTIONS[symbol]
    if symbol in scalars.CONTAINERS and isinstance(schema.arguments[0].type, (ListType, DictType)):
        return scalars.FUNCTIONS[symbol]
    return None


def _has_tensor(schema: FunctionSchema) -> bool:
    return any(_names_tensor(argument.type) for argument in schema.arguments)


def _names_tensor(kind: Type) -> bool:
    return isinstance(kind, TensorType) or any(map(_names_tensor, kind.containedTypes()))


def converter_of(kind: Type) -> Callable[[Any], Any] | None:
    """What makes the package's object of a program's number, for a type such as ScalarType; None for other types."""
    inner = kind.element if isinstance(kind, OptionalType) else kind
    return _CODES.get(inner.written)


def _tensor_operator(schema: FunctionSchema) -> Callable[..., Any]:
    from flambeau.dispatcher.namespaces import ops

    namespace, _, name = schema.name.partition("::")
    packet = getattr(getattr(ops, namespace), name)
    target = getattr(packet, schema.overload_name or "default")
    converters = [converter_of(argument.type) for argument in schema.arguments]
    positional = schema.positional
    names = [argument.name for argument in schema.arguments[positional:]]
    lists = [isinstance(canonical(result.type), ListType) for result in schema.returns]
    gives_code = len(schema.returns) == 1 and converter_of(schema.returns[0].type) is not None

    def run(*values: Any) -> Any:
        given = [value if convert is None or value is None else convert(value) for convert, value in zip(converters, values)]
        made = target(*given[:positional], **dict(zip(names, given[positional:])))
        if lists == [True]:
            return list(made)
        return code_of(made) if gives_code else made

    return run
