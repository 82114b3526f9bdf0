"""The signatures that PyTorch's functions in C++ have by their schemas: `torch.add` has one for each overload of aten::add.

Stands on the dispatcher's schemas and on fx.names, which knows the functions that PyTorch writes in Python. Used by
operator_schemas.
"""

from __future__ import annotations

import enum
import functools
import inspect
import keyword
import numbers
import typing
from typing import Any, Optional, TypeVar

import flambeau as torch
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TupleType, Type
from flambeau.fx.names import is_overload, public_name

__all__ = ["is_in_cpp", "python_type", "schemas_of", "signature_of_schema"]

#: Modules whose functions are PyTorch's operators.
_ROOMS = ("torch", "torch._C._nn", "torch._C._linalg", "torch._C._special", "torch._C._fft", "torch.functional")
#: Functions of these modules that PyTorch writes in Python around operators of the same name.
_AROUND = frozenset(f"torch.functional.{name}" for name in "cdist norm stft tensordot unique unique_consecutive".split())
_TYPES: dict[str, Any] = {
    "Tensor": torch.Tensor, "SymInt": int, "ScalarType": int, "Layout": int, "MemoryFormat": int, "QScheme": int, "int": int,
    "float": float, "bool": bool, "SymBool": bool, "str": str, "complex": complex, "Device": torch.device, "None": type(None),
    "NoneType": type(None), "Scalar": numbers.Number, "number": numbers.Number, "Generator": torch.Generator,
    "Stream": torch.Stream, "Storage": torch.storage.UntypedStorage, "Dimname": str, "Any": Any, "AnyEnumType": enum.Enum,
}  # fmt: skip


def is_in_cpp(function: object) -> bool:
    """Whether a function of the package stands for one that PyTorch has in C++, or is an operator of torch.ops."""
    if is_overload(function) or type(function).__name__ == "OpOverloadPacket":
        return True
    name = public_name(function)
    room = (name or "").rpartition(".")[0]
    return name is not None and (room == "torch" or room.startswith("torch._C."))


def schemas_of(function: Any) -> list[FunctionSchema]:
    """The schemas of the operators of a function, in PyTorch's order; none for what is no operator."""
    if is_overload(function):
        return [function._schema]
    if type(function).__name__ == "OpOverloadPacket":
        name = function._qualified_op_name
        known = builtin_schemas.overloads_of(name)
        if not known:
            return [getattr(function, overload)._schema for overload in function.overloads()]
        return [builtin_schemas.schema_of(name, overload) for overload in known]
    name = public_name(function)
    if name is None or name in _AROUND or name.rpartition(".")[0] not in _ROOMS:
        return []
    operator = "aten::" + name.rpartition(".")[2].removesuffix("_default")
    return [builtin_schemas.schema_of(operator, overload) for overload in builtin_schemas.overloads_of(operator)]


_LIST: Any = typing.List  # noqa: UP006  (as PyTorch's signatures print)
_DICT: Any = typing.Dict  # noqa: UP006


def python_type(kind: Type) -> Any:
    """A type of a schema or of TorchScript as signatures have it: Optional[List[int]], a TypeVar for one that is open."""
    if isinstance(kind, OptionalType):
        return Optional[python_type(kind.element)]  # noqa: UP045
    if isinstance(kind, ListType):
        return _LIST[python_type(kind.element)]
    if isinstance(kind, DictType):
        return _DICT[python_type(kind.key), python_type(kind.value)]
    if isinstance(kind, TupleType):
        return tuple(map(python_type, kind.elements()))
    found = _TYPES.get(kind.written)
    return found if found is not None else _variable(kind.written)


@functools.cache
def _variable(name: str) -> TypeVar:
    return TypeVar(name)


@functools.cache
def signature_of_schema(schema: FunctionSchema) -> inspect.Signature:
    """The signature of a schema, whose types are Python's; `self` is called `input`, as functions have it."""
    parameters: list[inspect.Parameter] = []
    for argument in schema.arguments:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        kind: Any = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        name = "input" if argument.name == "self" else argument.name
        if keyword.iskeyword(name):  # `from` of random_, which can be given by position only
            kind = inspect.Parameter.POSITIONAL_ONLY
            parameters = [p.replace(kind=kind) for p in parameters]
        parameters.append(_parameter(name, kind, default, python_type(argument.type)))
    results = [python_type(each.type) for each in schema.returns]
    returned = None if not results else results[0] if len(results) == 1 else tuple(results)
    return inspect.Signature(parameters, return_annotation=returned, __validate_parameters__=False)


def _parameter(name: str, kind: Any, default: Any, annotation: Any) -> inspect.Parameter:
    made = inspect.Parameter("_" if keyword.iskeyword(name) else name, kind, default=default, annotation=annotation)
    made._name = name  # type: ignore[attr-defined]
    return made
