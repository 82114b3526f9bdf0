"""torch.jit: TorchScript. `scripts` has script, trace and their kin; marks for the compiler are here, and what marks mean in
Python.

The compiler is loaded when it is first used: `frontend` makes graphs (`ir`) of Python's text, `passes` bring them into their
final
form, `execution` runs them, `printing` writes them as text.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from flambeau.base.lazy_import import submodules as _submodules
from flambeau.core.operator import unsupported as _unsupported
from flambeau.futures import Future
from flambeau.jit.awaitables import Await as _Await
from flambeau.jit.awaitables import _awaitable, _awaitable_nowait, _awaitable_wait
from flambeau.jit.execution.exceptions import Error
from flambeau.jit.marks import Attribute, _overload, _unwrap_optional, annotate, fork, is_scripting, isinstance, wait
from flambeau.jit.scripts import interface, script, script_if_tracing
from flambeau.jit.serialization import load, save
from flambeau.jit.tracing.current import is_tracing

_ADVICE = (
    "flambeau's programs have no such thing; compile functions and modules with torch.jit.script, and save weights with "
    "torch.save(module.state_dict())"
)
globals().update(
    _unsupported.all_of(
        "jit.",
        _ADVICE,
        "export_opnames last_executed_optimized_graph set_fusion_strategy jit_module_from_flatbuffer "
        "save_jit_module_to_flatbuffer _get_trace_graph",
        "RecursiveScriptClass ONNXTracedModule",
    )
)


_MODULES = ("RecursiveScriptModule", "ScriptModule", "script_method")
_TRACED = ("TopLevelTracedModule", "TracedModule")
_FROZEN = ("freeze", "optimize_for_inference", "run_frozen_optimizations")


def __getattr__(name: str) -> Any:
    # What stands on the compiler, which is loaded with it.
    if name in ("_recursive", "_state"):
        return _submodules(__name__)(name)
    if name == "ScriptFunction":
        from flambeau.jit.script_function import ScriptFunction as found
    elif name == "CompilationUnit":
        from flambeau.jit.compilation_unit import CompilationUnit as found
    elif name in _MODULES:
        from flambeau.jit import recursive, script_module

        del recursive  # it says how marked methods are compiled
        found = getattr(script_module, name)
    elif name in ("trace", "trace_module"):
        from flambeau.jit.tracing import entry

        found = getattr(entry, name)
    elif name in _TRACED:
        from flambeau.jit.tracing import modules

        found = getattr(modules, name)
    elif name in ("TracerWarning", "TracingCheckError"):
        from flambeau.jit.tracing import warnings as words

        found = getattr(words, name)
    elif name in _FROZEN:
        from flambeau.jit.freezing import entry as freezing

        found = getattr(freezing, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


class ScriptWarning(Warning):
    """A warning while scripting."""


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that scripting would keep; gives it back."""
    fn._torchscript_modifier = "export"  # type: ignore[attr-defined]
    return fn


def unused(fn: Any) -> Any:
    """Mark a function that scripting would replace by an error; gives it back."""
    if isinstance_property(fn):
        return fn
    fn._torchscript_modifier = "unused (ignored and replaced with raising of an exception)"
    return fn


def isinstance_property(fn: Any) -> bool:
    """Whether it is a property, which is left as it is."""
    return builtins.isinstance(fn, property)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function that scripting would leave to Python; with or without parentheses. Gives it back."""
    if callable(drop):
        drop._torchscript_modifier = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"  # type: ignore[attr-defined]
        return drop
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    if "drop_on_export" in kwargs:
        warnings.warn(
            "ignore(drop_on_export=True) has been deprecated. TorchScript will now drop the function call on "
            "compilation. "
            "Use torch.jit.unused now. {}",
            category=FutureWarning,
            stacklevel=2,
        )

    def mark(fn: Any) -> Any:
        fn._torchscript_modifier = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
        return fn

    return mark


def _drop(fn: Any) -> Any:
    """Mark a method that scripting leaves out, whatever its signature says; gives it back."""
    fn._torchscript_modifier = "_drop (function is fully ignored, declaration can be unscriptable)"
    return fn


def _unique_state_dict(module: Any, keep_vars: bool = False) -> dict[str, Any]:
    """A module's state_dict, in which a tensor of several names has its first only."""
    named = module.state_dict(keep_vars=True)
    found = {id(value): (name, value) for name, value in reversed(named.items())}
    kept = {name for name, _ in found.values()}
    return type(named)((name, value if keep_vars else value.detach()) for name, value in named.items() if name in kept)


_script_if_tracing = script_if_tracing
_isinstance = isinstance
_fork = fork
_wait = wait


_overload_method = _overload


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing is fused for scripts."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


@contextmanager
def optimized_execution(should_optimize: bool) -> Any:
    """Context without effect: there are no scripts to optimise."""
    yield


class strict_fusion:
    """Context without effect outside scripts."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
