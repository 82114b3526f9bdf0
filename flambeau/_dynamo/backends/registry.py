"""torch._dynamo.backends.registry: backends by name: the package's own, those that programs register or install.

A backend is called with a GraphModule and the list of its inputs, and gives a callable that takes these inputs and gives a tuple.
Installed packages offer backends as entry points of the group "torch_dynamo_backends". Used by torch.compile.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._dynamo.exc import InvalidBackend

__all__ = ["lookup_backend", "list_backends", "register_backend", "register_debug_backend", "register_experimental_backend"]

_GROUP = "torch_dynamo_backends"
_registered: dict[str, Callable[..., Any]] = {}


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Let a backend be used by name, that of the function by default; gives it back. Without a function, a decorator."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    called = name or compiler_fn.__name__
    if called in _registered:
        raise AssertionError(f"duplicate name: {called}")
    if called not in _entry_points():
        _registered[called] = compiler_fn
        compiler_fn._tags = tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def lookup_backend(compiler_fn: Any) -> Any:
    """The backend of a name; a callable as it is. Raises InvalidBackend for an unknown name."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    found = _registered.get(compiler_fn)
    if found is None:
        entry = _entry_points().get(compiler_fn)
        if entry is None:
            raise InvalidBackend(name=compiler_fn)
        found = _registered[compiler_fn] = entry.load()
    return found


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the backends that have none of these tags."""
    excluded = set(exclude_tags or ())
    names = {name for name, fn in _registered.items() if not excluded.intersection(getattr(fn, "_tags", ()))}
    return sorted(names | set(_entry_points()))


@functools.cache
def _entry_points() -> dict[str, Any]:
    return {point.name: point for point in importlib.metadata.entry_points(group=_GROUP)}
