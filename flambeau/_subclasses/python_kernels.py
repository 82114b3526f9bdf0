"""Whether kernels that programs wrote for PyTorch's operators with `py_impl` are asked: torch._dispatch.python.

Stands on dispatcher.replaced, which puts a kernel in an operator's place; and the check of functionalization's views.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau._subclasses import functionalization
from flambeau.dispatcher import replaced
from flambeau.dispatcher.overloads import OpOverload

__all__ = ["enable_crossref_functionalize", "enable_python_dispatcher", "no_python_dispatcher"]

_undo: list[list[Callable[[], None]]] = []


def _kernels() -> Iterator[tuple[OpOverload, str, Callable[..., Any]]]:
    for overload in OpOverload.with_python_kernels:
        for key, kernel in overload.py_kernels.items():
            if getattr(key, "name", None) in replaced.KEYS:
                yield overload, key.name, kernel


@contextlib.contextmanager
def enable_python_dispatcher() -> Iterator[None]:
    """Context: operators of PyTorch are answered by the kernels that `py_impl` registered for them."""
    _undo.append([replaced.replace(overload._name, key, kernel) for overload, key, kernel in _kernels()])
    try:
        yield
    finally:
        for restore in _undo.pop():
            restore()


@contextlib.contextmanager
def no_python_dispatcher() -> Iterator[None]:
    """Context: they aren't, within a block of enable_python_dispatcher."""
    held = [restore for level in _undo for restore in level]
    for restore in held:
        restore()
    _undo[:] = [[] for _ in _undo]
    try:
        yield
    finally:
        if _undo:
            _undo[-1] = [replaced.replace(overload._name, key, kernel) for overload, key, kernel in _kernels()]


@contextlib.contextmanager
def enable_crossref_functionalize() -> Iterator[None]:
    """Context: compare every view of a value with that of the tensor that stands for it; AssertionError where they differ."""
    before = functionalization.checked(True)
    try:
        yield
    finally:
        functionalization.checked(before)
