"""torch._dynamo.eval_frame: modules as torch.compile gives them back; the switch in Python's interpreter is not here."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import flambeau as torch
from flambeau.core.operator import unsupported as _unsupported
from flambeau.nn.modules.module import Module

_ADVICE = "functions are not captured to graphs; call the function itself, or hand it to torch.compile"
explain = _unsupported.function("_dynamo.explain", _ADVICE)
export = _unsupported.function("_dynamo.export", _ADVICE)


class OptimizedModule(Module):
    """A module around the one that torch.compile was given, `_orig_mod`, whose calls are its calls.

    Names of parameters begin with `_orig_mod.`, as they do in PyTorch. Its own are its hooks, what is registered with it and
    `forward`; any other attribute is read from, written to and deleted from the module within.
    """

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()

        def forward(*args: Any, **kwargs: Any) -> Any:
            return mod(*args, **kwargs)

        del self.__dict__["training"]
        self.__dict__.update(dynamo_ctx=dynamo_ctx, forward=forward)
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


def is_dynamo_supported() -> bool:
    """False: functions are not captured."""
    return False


def is_inductor_supported() -> bool:
    """False: there are no graphs to compile."""
    return False


def optimize(backend: Any = "inductor", *, nopython: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """A decorator: torch.compile with this backend; nopython is its fullgraph."""
    return lambda fn: torch.compile(fn, backend=backend, fullgraph=nopython)


def optimize_assert(backend: Any = "inductor", **kwargs: Any) -> Callable[..., Any]:
    """optimize with nopython=True."""
    return optimize(backend, nopython=True)


def innermost_fn(fn: Any) -> Any:
    """The function that a chain of compiled forms stands for: a compiled module's is its module's forward."""
    return fn._orig_mod.forward if isinstance(fn, OptimizedModule) else fn


def reset_code(code: Any) -> None:
    """Forget what was compiled for a code object: nothing."""


def skip_code(code: Any) -> None:
    """Leave a code object to Python, which runs it anyway."""
