"""torch._custom_op.impl: the oldest form of custom operators. A face over library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.fakes import get_ctx
from flambeau.dispatcher.infer import infer_schema
from flambeau.library import define, impl, register_fake
from flambeau.library.registrations import lookup

__all__ = ["CustomOp", "custom_op", "get_ctx", "infer_schema"]


class CustomOp:
    """An operator by its name; call it, and register its kernels with the methods."""

    def __init__(self, qualname: str) -> None:
        self._qualname = qualname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return lookup(self._qualname)(*args, **kwargs)

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def impl(self, device_types: Any, _stacklevel: int = 2) -> Callable[[Callable], Callable]:
        """Decorator: what computes it on types of devices."""
        made: Callable[[Callable], Callable] = impl(self._qualname, device_types)
        return made

    def impl_abstract(self, _stacklevel: int = 2) -> Callable[[Callable], Callable]:
        """Decorator: its fake."""
        made: Callable[[Callable], Callable] = register_fake(self._qualname)
        return made


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[[Callable], CustomOp]:
    """Decorator: the operator "ns::name" with a schema, or with that of the function's annotations."""

    def register(function: Callable) -> CustomOp:
        define(qualname, infer_schema(function, mutates_args=()) if manual_schema is None else manual_schema)
        return CustomOp(qualname)

    return register
