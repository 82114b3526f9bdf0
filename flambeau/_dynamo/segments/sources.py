"""Where a program has its tensors and modules: the expressions by which it reaches them, which name a graph's inputs.

Stands on nn; used by _dynamo.compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Sources", "placeholder_name"]

_DEEP = 4  # how far into containers and objects it looks


def placeholder_name(source: str) -> str:
    """The name of the input that is read by an expression: L['x'][0] is L_x_0_."""
    kept = "".join([c if c.isalnum() or c == "_" else "." for c in source])
    return "_".join([part.strip("_") for part in kept.split(".") if part]) + ("" if source.startswith("s") else "_")


class Sources:
    """The expressions by which a function reaches tensors and modules: from its arguments and variables, and its globals."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.found: dict[int, str] = {}
        self._seen: set[int] = set()
        for name, value in _arguments(function, args, kwargs).items():
            self._look(value, f"L['{name}']", _DEEP)
        scope = getattr(inspect.unwrap(_plain(function)), "__globals__", {})
        code = getattr(_plain(function), "__code__", None)
        for name in code.co_names if code is not None else ():
            if name in scope and not inspect.ismodule(scope[name]):
                self._look(scope[name], f"G['{name}']", _DEEP)

    def of(self, thing: Any) -> str | None:
        """The expression, or None where none was found."""
        return self.found.get(id(thing))

    def _look(self, value: Any, source: str, deep: int) -> None:
        if isinstance(value, Tensor):
            self.found.setdefault(id(value), source)
            return
        if not deep or id(value) in self._seen:
            return
        if isinstance(value, torch.nn.Module):
            self._seen.add(id(value))
            self._module(value, source, deep)
        elif isinstance(value, (list, tuple)):
            self._seen.add(id(value))
            for i, x in enumerate(value):
                self._look(x, f"{source}[{i}]", deep - 1)
        elif isinstance(value, dict):
            self._seen.add(id(value))
            for key, x in value.items():
                self._look(x, f"{source}[{key!r}]", deep - 1)
        elif not isinstance(value, (type, ModuleType)) and not inspect.isroutine(value):
            own = getattr(value, "__dict__", None)
            self._seen.add(id(value))
            for name, x in own.items() if type(own) is dict else ():
                self._look(x, f"{source}.{name}", deep - 1)

    def _module(self, module: Any, source: str, deep: int) -> None:
        self.found.setdefault(id(module), source)
        for kind in ("_parameters", "_buffers"):
            for name, x in getattr(module, kind).items():
                if x is not None:
                    self.found.setdefault(id(x), f"{source}.{kind}['{name}']")
        for name, child in module._modules.items():
            if child is not None and id(child) not in self._seen:
                self._seen.add(id(child))
                self._module(child, f"{source}._modules['{name}']", deep)
        for name, x in vars(module).items():
            if not name.startswith("_"):
                self._look(x, f"{source}.{name}", deep - 1)


def _plain(function: Any) -> Any:
    return getattr(function, "__func__", function)


def _arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments, the instance of a method and free variables, by name."""
    plain = _plain(function)
    own = getattr(function, "__self__", None)
    found: dict[str, Any] = {}
    if isinstance(own, torch.nn.Module) and type(own).__module__.partition(".")[0] == torch.__name__:  # one of the package's
        return {"fn": own, "args": args, "kwargs": kwargs}
    try:
        bound = inspect.signature(plain).bind(*((own, *args) if own is not None else args), **kwargs)
        found.update(bound.arguments)
    except (TypeError, ValueError):
        found["args"], found["kwargs"] = args, kwargs
    code, cells = getattr(plain, "__code__", None), getattr(plain, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars if code is not None else (), cells):
        try:
            found.setdefault(name, cell.cell_contents)
        except ValueError:
            continue
    return found
