"""Arguments of functions and modules bound to their signatures, so that every call of one looks the same.

What PyTorch has in C++ is bound to the signatures of its schemas (fx.torch_signatures), what it writes in Python to that of the
function. Stands on these, on fx.calls and on fx.names.
"""

from __future__ import annotations

import enum
import inspect
import typing
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.core.operator.arguments import MISSING
from flambeau.fx.calls import plain_signature
from flambeau.fx.names import is_overload, public_name
from flambeau.fx.torch_signatures import is_in_cpp, schemas_of, signature_of_schema
from flambeau.fx.torch_signatures import python_type as _torchscript_type_to_python_type
from flambeau.nn import Module

__all__ = [
    "ArgsKwargsPair",
    "_torchscript_type_to_python_type",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]

_EXTRA = frozenset(("surplus", "axis", "keepdims", "out"))


class ArgsKwargsPair(NamedTuple):
    """Positional arguments, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function as Python knows it; of one of the package that of PyTorch's. None for what has none."""
    if public_name(function) is None:
        try:
            return inspect.signature(inspect.unwrap(function))
        except (TypeError, ValueError):
            return None
    parameters = [
        p.replace(default=p.empty if p.default is MISSING else p.default, annotation=p.empty)
        for p in plain_signature(function).parameters.values()
        if p.name not in _EXTRA and p.kind is not p.VAR_KEYWORD
    ]
    try:
        return inspect.Signature(parameters)
    except ValueError:  # a parameter without a default behind one that has a default
        return inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in parameters])


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of an operator's overloads, in PyTorch's order; None for a function that is no operator.

    return_schemas: (signatures, schemas), or (None, None).
    """
    schemas = schemas_of(op)
    if not schemas:
        return (None, None) if return_schemas else None
    signatures = [signature_of_schema(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def bound_arguments(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call by parameter with defaults filled in; None where the signature is unknown or doesn't fit."""
    signature = signature_of_schema(target._schema) if is_overload(target) else _signature(target)  # type: ignore[attr-defined]
    if signature is None:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return dict(bound.arguments)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call with defaults filled in; None where the signature is unknown or doesn't fit.

    What was given by position stays so, unless normalize_to_only_use_kwargs. RuntimeError for a call that fits several overloads
    of an operator, unless the types of its arguments tell which is meant.
    """
    kwargs = kwargs or {}
    if not is_in_cpp(target):
        signature = _signature(target) if callable(target) and not inspect.isbuiltin(target) else None
        if signature is None:
            return None
        return _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, normalize_to_only_use_kwargs)
    fitting = [each for each in get_signature_for_torch_op(target) or () if _fits(each, args, kwargs)]
    if len(fitting) > 1:
        if arg_types is None and kwarg_types is None:
            schemas = "\n".join(map(str, fitting))
            raise RuntimeError(
                f"Tried to normalize arguments to {torch.typename(target)} but the schema match was ambiguous! Please provide "
                f"argument types to the normalize_arguments() call. Available schemas:\n{schemas}"
            )
        fitting = [each for each in fitting if _is_of_types(each, arg_types or (), kwarg_types or {})]
    if not fitting:
        return None
    return _args_kwargs_to_normalized_args_kwargs(fitting[0], args, kwargs, normalize_to_only_use_kwargs)


def _fits(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _is_of_types(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether arguments of these types can be given to a function of this signature."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return all(type_matches(signature.parameters[name].annotation, kind) for name, kind in bound.arguments.items())


def normalize_module(
    root: Module, target: str, args: tuple[Any], kwargs: dict[str, Any] | None = None, normalize_to_only_use_kwargs: bool = False
) -> ArgsKwargsPair | None:
    """The same for a call of a submodule that is one of torch.nn; None for others. Raises RuntimeError if there is none."""
    try:
        submodule = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have that target!") from error
    if getattr(torch.nn, type(submodule).__name__, None) is not type(submodule):
        return None
    signature = inspect.signature(inspect.unwrap(submodule.forward))
    return _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _args_kwargs_to_normalized_args_kwargs(
    sig: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], normalize_to_only_use_kwargs: bool
) -> ArgsKwargsPair | None:
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in plain for p in sig.parameters.values()) and list(sig.parameters) != [
        "input", "from", "to", "generator",
    ]:  # fmt: skip
        return None
    try:
        bound = sig.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    new_args: list[Any] = []
    new_kwargs: dict[str, Any] = {}
    for place, name in enumerate(sig.parameters):
        if not normalize_to_only_use_kwargs and place < len(args):
            new_args.append(bound.arguments[name])
        else:
            new_kwargs[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(new_args), new_kwargs)


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError for a call that writes to one of its arguments: an in-place function, or one with `out`."""
    name = getattr(target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__") and public_name(target) is not None
    if in_place or kwargs.get("out") is not None or kwargs.get("inplace"):
        raise RuntimeError(
            f"Tried to trace mutable operation {name}. FX only supports functional code, so operations that mutate operands "
            "in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: object) -> object:
    """The type hint for arguments given as types: (int, int) gives tuple[int, ...], [int] gives list[int]."""
    if not isinstance(x, (list, tuple)):
        return x
    kind: Any = list if isinstance(x, list) else tuple
    if not x:
        return list[Any] if kind is list else tuple[Any, ...]
    base = x[0]
    for item in x:
        if isinstance(item, type) and isinstance(base, type) and issubclass(base, item):
            base = item
        elif not (isinstance(item, type) and isinstance(base, type) and issubclass(item, base)):
            warnings.warn(f"We were not able to successfully create type hint from the type {x}", stacklevel=2)
            return list[Any] if kind is list else tuple[Any, ...]
    return list[base] if kind is list else tuple[base, ...]  # type: ignore[valid-type]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of one type can be given where a signature asks for another."""
    origin = typing.get_origin(signature_type)
    if signature_type is argument_type:
        return True
    if origin is typing.Union and signature_type != argument_type:
        return any(type_matches(part, argument_type) for part in typing.get_args(signature_type))
    if origin is list:
        (inner,) = typing.get_args(signature_type) or (Any,)
        if inner is int and argument_type is int:
            return True
        parts = typing.get_args(argument_type)
        if typing.get_origin(argument_type) in (list, tuple):
            return all(part is ... or type_matches(inner, part) for part in parts)
    if signature_type is float and argument_type is int:
        return True
    numbers = (int, float, complex)
    if getattr(signature_type, "__name__", "") == "Number" and argument_type in numbers:
        return True
    if isinstance(argument_type, type) and isinstance(signature_type, type):
        return issubclass(argument_type, signature_type) or issubclass(argument_type, enum.Enum)
    return False
