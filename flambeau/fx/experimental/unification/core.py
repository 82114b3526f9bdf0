"""Fitting two values with variables to each other. Stands on unification.variable; used by unification.more and programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.fx.experimental.unification.variable import isvar

__all__ = ["reify", "unify"]

#: Further types: for each what its values hold, as a value of another type, and how to make one of that.
PARTS: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    slice: (lambda s: (s.start, s.stop, s.step), lambda old, parts: slice(*parts))
}


def _walk(value: Any, s: dict[Any, Any]) -> Any:
    while isvar(value) and value in s:
        value = s[value]
    return value


def reify(e: Any, s: dict[Any, Any]) -> Any:
    """A value with its variables replaced by what `s` has for them, at any depth of tuples, lists, dicts and slices."""
    if isvar(e):
        return reify(s[e], s) if e in s else e
    if type(e) in (tuple, list):
        return type(e)(reify(item, s) for item in e)
    if type(e) is dict:
        return {key: reify(value, s) for key, value in e.items()}
    parts = PARTS.get(type(e))
    return e if parts is None else parts[1](e, reify(parts[0](e), s))


def unify(u: Any, v: Any, s: dict[Any, Any]) -> Any:
    """`s` with what the variables of u and v must be for these to be equal; False where lengths or keys differ.

    NotImplementedError for values without parts that differ.
    """
    u, v = _walk(u, s), _walk(v, s)
    if u == v:
        return s
    for variable, value in ((u, v), (v, u)):
        if isvar(variable):
            return {**s, variable: value}
    if isinstance(u, (tuple, list)) and isinstance(v, (tuple, list)):
        return _unify_all(u, v, s) if len(u) == len(v) else False
    if type(u) is type(v) and isinstance(u, dict):
        return _unify_all(list(u.values()), [v[key] for key in u], s) if u.keys() == v.keys() else False
    parts = PARTS.get(type(u)) if type(u) is type(v) else None
    if parts is None:
        names = ", ".join(type(x).__name__ for x in (u, v, s))
        raise NotImplementedError(f"Could not find signature for _unify: <{names}>")
    return unify(parts[0](u), parts[0](v), s)


def _unify_all(us: Any, vs: Any, s: dict[Any, Any]) -> Any:
    for u, v in zip(us, vs):
        s = unify(u, v, s)
        if s is False:
            return False
    return s
