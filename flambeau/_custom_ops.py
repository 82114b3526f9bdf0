"""torch._custom_ops: the older names of torch.library's registrations. A face over library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.fakes import get_ctx
from flambeau.dispatcher.infer import infer_schema
from flambeau.library import define, register_fake
from flambeau.library import impl as _impl

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]


def custom_op(qualname: str, func_or_schema: Callable | str | None = None) -> Any:
    """Define the operator "ns::name" with a schema, or with that of an annotated function; a decorator without one."""
    if isinstance(func_or_schema, str):
        define(qualname, func_or_schema)
        return None

    def register(function: Callable) -> Callable:
        define(qualname, infer_schema(function, mutates_args=()))
        return function

    return register if func_or_schema is None else register(func_or_schema)


def impl(qualname: str, *, device_types: Any = ("cpu", "cuda"), func: Callable | None = None) -> Any:
    """Register what computes the operator on types of devices; a decorator without `func`."""
    return _impl(qualname, device_types, func)


def impl_abstract(qualname: str, *, func: Callable | None = None) -> Any:
    """Register the fake of the operator; a decorator without `func`."""
    return register_fake(qualname, func)
