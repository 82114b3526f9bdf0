"""Older names of torch.library's registrations, which programs know as torch._custom_ops. Stands on custom_op_class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.fakes import get_ctx
from flambeau.library.custom_op_class import (
    _custom_op_with_schema,
    _find_custom_op,
    infer_schema,
    parse_qualname,
    validate_namespace,
)
from flambeau.library.custom_op_class import custom_op as _custom_op
from flambeau.library.registrations import register_fake

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract", "impl_backward", "impl_save_for_backward"]


def custom_op(qualname: str, func_or_schema: Callable | str | None = None) -> Any:
    """Define the operator "ns::name" with a schema, or with that of an annotated function; a decorator without one."""
    namespace, _ = parse_qualname(qualname)
    validate_namespace(namespace)
    if isinstance(func_or_schema, str):
        _custom_op_with_schema(qualname, func_or_schema)
        return None

    def register(function: Callable) -> Callable:
        _custom_op(qualname, infer_schema(function, mutates_args=()))(function)
        return function

    return register if func_or_schema is None else register(func_or_schema)


def _registered(register: Callable[[Callable], Callable], func: Callable | None) -> Any:
    return register if func is None else register(func)


def impl(qualname: str, *, device_types: Any = ("cpu", "cuda"), func: Callable | None = None) -> Any:
    """Register what computes the operator on types of devices; a decorator without `func`."""
    return _registered(_find_custom_op(qualname, True).impl(device_types), func)


def impl_abstract(qualname: str, *, func: Callable | None = None) -> Any:
    """Register the fake of the operator; a decorator without `func`."""
    return register_fake(qualname, func)


def impl_save_for_backward(qualname: str, *, func: Callable | None = None) -> Any:
    """Register what the operator's gradient keeps: func(inputs as a named tuple, output); a decorator without `func`."""
    return _registered(_find_custom_op(qualname, True).impl_save_for_backward(), func)


def impl_backward(qualname: str, output_differentiability: Any = None, *, func: Callable | None = None) -> Any:
    """Register the operator's gradient: func(ctx, saved, *gradients) -> {input: gradient}; a decorator without `func`."""
    return _registered(_find_custom_op(qualname, True).impl_backward(output_differentiability), func)


def _destroy(qualname: str) -> None:
    """Forget an operator."""
    _find_custom_op(qualname)._destroy()
