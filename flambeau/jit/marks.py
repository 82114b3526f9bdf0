"""torch.jit's words that mean something both to the compiler and in Python: annotate, isinstance, fork, wait ...

Stands on futures; offered by `jit`, and known to `frontend.library`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.futures import Future

__all__ = [
    "NOTED", "Attribute", "_copy_to_script_wrapper", "_overload", "_unwrap_optional", "annotate", "fork", "is_scripting",
    "isinstance", "wait",
]  # fmt: skip

#: The signatures that were noted for a function or method, by its module and name.
NOTED: dict[str, list[Any]] = {}


class Attribute(NamedTuple):
    """A value with its type, for a script module's attributes."""

    value: Any
    type: Any


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """func(*args, **kwargs) as a Future; it runs at once, as in an unscripted program."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of a Future. RuntimeError for None."""
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


def is_scripting() -> bool:
    """False."""
    return False


def _overload(func: Callable[..., Any]) -> Callable[..., Any]:
    """Note one of the signatures of a function or method, which is compiled for each; gives it back."""
    NOTED.setdefault(f"{func.__module__}.{func.__qualname__}", []).append(func)
    return func


def _copy_to_script_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that a script module takes over as it is; gives it back."""
    fn._torchscript_modifier = "copy this Python method to the script wrapper"  # type: ignore[attr-defined]
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for scripts."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, which may be a generic such as list[int] (whose items are then looked at)."""
    from typing import Union, get_args, get_origin

    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    origin, arguments = get_origin(target_type), get_args(target_type)
    if origin is None:
        return (
            target_type is Any
            or (obj is None and target_type is None)
            or (target_type is not None and builtins.isinstance(obj, target_type))
        )
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        return any(isinstance(obj, each if each is not type(None) else None) for each in arguments)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is tuple:
        return len(obj) == len(arguments) and all(isinstance(x, t) for x, t in zip(obj, arguments))
    if origin is dict:
        return all(isinstance(k, arguments[0]) and isinstance(v, arguments[1]) for k, v in obj.items())
    return all(isinstance(x, arguments[0]) for x in obj)


def _unwrap_optional(x: Any) -> Any:
    """The value. Raises AssertionError for None."""
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x
