"""torch.utils._contextlib: context managers that decorate functions, as no_grad does. Stands on core.modes.modes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.core.modes.modes import _BareDecorator as _NoParamDecoratorContextManager
from flambeau.core.modes.modes import _Decorator as _DecoratorContextManager
from flambeau.core.modes.modes import _wrap_generator

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """The function with every call inside a context: `ctx` is a context manager, or a function that makes one per call.

    Raises AssertionError for what could be either, and RuntimeError for a class that would be decorated with a context that is
    to be made again; a generator function needs one that is.
    """
    managed = hasattr(ctx, "__enter__")
    if managed and callable(ctx):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), making it ambiguous which "
            "interface to use.  If you intended to pass a context manager factory, rewrite your call as "
            "context_decorator(lambda: ctx()); if you intended to pass a context manager directly, rewrite your call as "
            "context_decorator(lambda: ctx)"
        )
    factory: Callable[[], Any] = (lambda: ctx) if managed else ctx
    if inspect.isclass(func):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all methods should have the "
            "context manager applied; additionally, decorating a class at definition-site will prevent use of the identifier as "
            "a conventional type.  To specify which methods to decorate, decorate each of them individually."
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(factory, func)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with factory():
            return func(*args, **kwargs)

    return inside
