"""Who answers operators below autograd: asked by generated functions on their way past a plan that they found or didn't find.

A mode below autograd makes its thread a special one, and tensors of classes that answer operators have layouts under which no
plan is kept. So calls that such a mode or class answers come to the slow way of a function, where `looking` has somebody asked
before anything else is done; calls that find a plan pay nothing, and nor do other threads. Functions that were written by hand
are exchanged instead (core.modes.interception, which says who is asked).
Stands on base.functions.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

from flambeau.base.functions import twin

__all__ = ["LOOK_THEMSELVES", "NOBODY", "like", "looking", "own_form", "someone"]

NOBODY = object()
#: How many modes and values there are that may answer; core.modes.interception counts them.
someone: Any = SimpleNamespace(count=0)
#: Functions that look by themselves.
LOOK_THEMSELVES: set[Callable[..., Any]] = set()
#: Asked with (function, args, kwargs) of a call: what is answered to it, or NOBODY.
ask: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] = None  # type: ignore[assignment]


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def looking(slow: Callable[..., Any], call_of: Callable[..., Call | None]) -> Callable[..., Any]:
    """`slow`, but somebody is asked first. call_of(*arguments of slow) gives the call of a public function that it serves, as
    (function, args, kwargs), or None for one that is wrong by itself. `own` of the form that looks is `slow`.
    """

    def look(*given: Any) -> Any:
        if someone.count:
            call = call_of(*given)
            if call is not None and call[0] in LOOK_THEMSELVES:  # not a function around this one, which has looked
                answer = ask(*call)
                if answer is not NOBODY:
                    return answer
        return slow(*given)

    look.own, look.call_of = slow, call_of  # type: ignore[attr-defined]
    return look


def like(function: Any, code: CodeType, asks: Callable[..., Any], seen: Callable[[], Any] | None = None) -> Any:
    """A generated function as an object of its own; code: the function's own.

    asks(slow, call_of, seen): a form of something on the slow way in which classes that override calls are asked, before `slow`,
    for `seen()`: the object itself, unless it is given.
    """
    scope = function.__globals__
    own: dict[str, Any] = dict(scope)
    shown = seen or (lambda: made)

    def called(call_of: Callable[..., Call | None]) -> Callable[..., Call | None]:
        def call(*given: Any) -> Call | None:
            found = call_of(*given)
            return found and (made, *found[1:])

        return call

    for name, value in scope.items():
        if value.__class__ is not FunctionType:
            continue
        if value.__globals__ is scope:
            if value not in LOOK_THEMSELVES:
                own[name] = twin(value, scope=own)
        elif hasattr(value, "call_of"):
            call_of = called(value.call_of)
            own[name] = asks(looking(value.own, call_of), call_of, shown)
    made = twin(function, code, own)
    LOOK_THEMSELVES.add(made)
    return made


_own_scopes: dict[int, dict[str, Any]] = {}  # by the identity of a scope, which its functions keep alive


def own_form(function: Any, code: CodeType) -> Any:
    """A function that looks by itself in a form that doesn't; code: its own, whatever it has at the moment."""
    scope = function.__globals__
    own = _own_scopes.get(id(scope))
    if own is None:
        own = {name: getattr(value, "own", value) for name, value in scope.items()}
        for name, value in scope.items():
            if isinstance(value, FunctionType) and value.__globals__ is scope and value not in LOOK_THEMSELVES:
                own[name] = twin(value, scope=own)
        _own_scopes[id(scope)] = own
    return twin(function, code, own)
