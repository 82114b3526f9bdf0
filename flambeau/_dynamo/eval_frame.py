"""torch._dynamo.eval_frame: functions and modules as torch.compile gives them back; no switch in the interpreter.

Stands on backends and compiled, which have their graphs traced; used by torch.compile.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sized
from typing import Any

import flambeau as torch
from flambeau._dynamo import config
from flambeau._dynamo.backends.registry import lookup_backend
from flambeau._dynamo.compiled import Compiled, stance, units
from flambeau._dynamo.segments.tracer import tracing
from flambeau.capture.entry import Captured
from flambeau.core.modes.modes import local
from flambeau.nn.modules.module import Module

__all__ = ["OptimizedModule", "innermost_fn", "optimize", "optimize_assert"]


class OptimizedModule(Module):
    """A module around the one that torch.compile was given, `_orig_mod`, whose calls are its compiled calls.

    Names of parameters begin with `_orig_mod.`, as they do in PyTorch. Its own are its hooks, what is registered with it and
    `forward`; any other attribute is read from, written to and deleted from the module within. dynamo_ctx: makes the compiled
    form of a callable; None: the module runs as it is.
    """

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        del self.__dict__["training"]
        self.__dict__.update(dynamo_ctx=dynamo_ctx, forward=mod.__call__ if dynamo_ctx is None else dynamo_ctx(mod))
        self._modules["_orig_mod"] = mod

    def __reduce__(self) -> Any:
        return type(self), (self._orig_mod, self.dynamo_ctx)

    def __getattr__(self, name: str) -> Any:
        within = self.__dict__["_modules"]["_orig_mod"]
        return within if name == "_orig_mod" else getattr(within, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod":
            type(self).__init__(self, value, self.dynamo_ctx)
        elif name in self.__dict__:
            self.__dict__[name] = value
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            del self.__dict__[name]
        else:
            delattr(self._orig_mod, name)

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


# ---------------------------------------------------------------- what makes compiled forms


class Replayed:
    """Makes of a callable one whose calls are replayed where guards hold, and which is told that it is compiled."""

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        captured = Captured(fn, "dynamo")
        units.add(captured)
        forced: list[Callable[..., Any]] = []  # the form of it that a stance with another backend asks for
        settings = vars(config)["_settings"]  # its own look-up takes longer than a small call

        def compiled(*args: Any, **kwargs: Any) -> Any:
            before = local.exporting
            if before or stance.name == "force_eager" or settings.get("disable"):
                return fn(*args, **kwargs)
            if stance.force_backend is not None:
                if not forced:
                    forced.append(Compiled(fn, lookup_backend("eager")))
                return forced[0](*args, **kwargs)
            local.exporting = "dynamo"
            try:
                return captured(*args, **kwargs)
            finally:
                local.exporting = before

        return compiled


class Traced:
    """Makes of a callable one whose graphs go to a backend."""

    def __init__(self, backend: Any, fullgraph: bool = False, dynamic: bool | None = None, options: Any = None) -> None:
        self.backend, self.fullgraph, self.dynamic, self.options = backend, fullgraph, dynamic, options

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        backend = lookup_backend(self.backend)
        if self.options:
            backend = functools.wraps(backend)(functools.partial(backend, options=self.options))
        return Compiled(fn, backend, fullgraph=self.fullgraph, dynamic=self.dynamic)


class Disabled:
    """Makes of a callable one of which no graph has anything."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        def disabled(*args: Any, **kwargs: Any) -> Any:
            tracer = tracing()
            before, local.exporting = local.exporting, ""
            try:
                if tracer is None:
                    return fn(*args, **kwargs)
                reason = "Skip calling `torch.compiler.disable()`d function"
                return tracer.aside_from(reason, fn, args, kwargs)
            finally:
                local.exporting = before

        return disabled


def wrapped(fn: Any, context: Any) -> Any:
    """A function or module in the form that a context makes of it; a class, whose instances' calls are, is changed in place."""
    fn = innermost_fn(fn)
    if isinstance(fn, Module):
        return OptimizedModule(fn, context)
    if isinstance(fn, type):
        if any("__call__" in vars(base) for base in fn.__mro__):
            fn.__call__ = wrapped(fn.__call__, context)  # type: ignore[attr-defined, method-assign]
        return fn
    made = context(fn)

    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    if inspect.isroutine(fn) or hasattr(fn, "__name__"):
        functools.update_wrapper(compile_wrapper, fn)
    compile_wrapper._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    compile_wrapper._torchdynamo_disable = isinstance(context, Disabled)  # type: ignore[attr-defined]
    return compile_wrapper


def innermost_fn(fn: Any) -> Any:
    """The function that a chain of compiled forms stands for; a compiled module's module."""
    while True:
        if isinstance(fn, OptimizedModule):
            fn = fn._orig_mod
        elif inspect.isfunction(fn) and hasattr(fn, "_torchdynamo_orig_callable"):
            fn = fn._torchdynamo_orig_callable
        else:
            return fn


def optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, **kwargs: Any) -> Any:
    """A decorator: torch.compile with this backend; nopython is its fullgraph."""
    return lambda fn: torch.compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic)


def optimize_assert(backend: Any = "inductor", *, dynamic: bool | None = None, **kwargs: Any) -> Any:
    """optimize with nopython=True."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def is_dynamo_supported() -> bool:
    """True: functions are traced."""
    return True


def is_inductor_supported() -> bool:
    """True: the default backend takes every function."""
    return True


def reset_code(code: Any) -> None:
    """Forget what was compiled: all of it, as graphs aren't kept by code."""
    torch._dynamo.reset()


def skip_code(code: Any) -> None:
    """Leave a code object to Python, which runs it anyway."""
