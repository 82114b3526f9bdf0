"""What is called with each function and module that is compiled, which `torch._C._jit_set_emit_hooks` says: nothing, at first.

Stands on nothing, so that a suite can set hooks before there is a compiler; called by the front end, traces and `recursive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["disabled", "emitted_function", "emitted_module", "hooks", "set_hooks"]

Hook = Callable[[Any], Any] | None
_hooks: list[Hook] = [None, None]


def hooks() -> tuple[Hook, Hook]:
    """What is called with modules, and what with functions."""
    return _hooks[0], _hooks[1]


def set_hooks(module: Hook, function: Hook) -> None:
    """Have this called with each torch._C.ScriptModule and each ScriptFunction that is compiled from now on."""
    _hooks[:] = module, function


@contextmanager
def disabled() -> Iterator[None]:
    """Context: nothing is called with what is compiled."""
    before = hooks()
    set_hooks(None, None)
    try:
        yield
    finally:
        set_hooks(*before)


def emitted_module(module: Any) -> None:
    """Tell of a module: a RecursiveScriptModule, all of whose methods are there."""
    if _hooks[0] is not None:
        _hooks[0](module._c)


def emitted_function(function: Any) -> None:
    """Tell of a function (ir.function.Function)."""
    if _hooks[1] is not None:
        from flambeau.jit.script_function import ScriptFunction

        _hooks[1](ScriptFunction(function))
