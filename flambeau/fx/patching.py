"""What is exchanged in other modules while a trace runs, and put back behind it: wrapped functions, and methods of Module.

Stands on fx.proxy; used by fx._symbolic_trace.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import FrameType
from typing import Any

from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import Proxy

_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []
_ABSENT: Any = object()


def register_wrapped(fn_or_name: str | Callable[..., Any], frame: FrameType | None) -> Any:
    """Note that calls of a function from the module at whose top level `frame` is are to become nodes."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    if callable(fn_or_name):
        if isinstance(fn_or_name, str):
            raise AssertionError("Unexpected string with callable type")
        name = fn_or_name.__name__
    else:
        name = fn_or_name
    if frame is None:
        raise AssertionError("failed to get calling frame")
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _find_proxy(*objects_to_search: Any) -> Proxy | None:
    """The first proxy at any depth of containers."""
    found: list[Proxy] = []

    def note(x: Any) -> None:
        if isinstance(x, Proxy):
            found.append(x)

    map_aggregate(objects_to_search, note)
    return found[0] if found else None


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """orig_fn, or the node of its call if an argument is a proxy."""
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """The method, or the node of its call if an argument is a proxy."""
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


class _Patcher:
    """Exchanges names of modules and methods of classes until the end of a `with` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._visited: set[int] = set()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        """Exchange a global name; a builtin is shadowed."""
        old = frame_dict.get(name, _ABSENT)
        if deduplicate and getattr(old, "__fx_already_patched", False):
            return
        new_fn.__fx_already_patched = deduplicate  # type: ignore[attr-defined]
        frame_dict[name] = new_fn

        def undo() -> None:
            if old is _ABSENT:
                del frame_dict[name]
            else:
                frame_dict[name] = old

        self._undo.append(undo)

    def patch_method(self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        """Exchange a method."""
        old = getattr(cls, name)
        if deduplicate and getattr(old, "__fx_already_patched", False):
            return
        new_fn.__fx_already_patched = deduplicate  # type: ignore[attr-defined]
        setattr(cls, name, new_fn)
        self._undo.append(lambda: setattr(cls, name, old))

    def visit_once(self, thing: Any) -> bool:
        """Whether it is asked about for the first time."""
        if id(thing) in self._visited:
            return False
        self._visited.add(id(thing))
        return True

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._undo:
            self._undo.pop()()
        self._visited.clear()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    for (_, name), names in list(_wrapped_fns_to_patch.items()):
        original = names[name] if name in names else getattr(builtins, name, None)
        if original is not None:
            patcher.patch(names, name, _create_wrapped_func(original))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Wrap the functions that are to be wrapped among the global names of a function."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _create_wrapped_func(value))
