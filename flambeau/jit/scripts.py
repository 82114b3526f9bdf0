"""torch.jit.script and its kin: compile a function, a module, a class. The compiler is loaded when it is first used.

`jit` offers it all.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

from flambeau.base.warn import warn
from flambeau.jit.tracing.current import current
from flambeau.nn.modules.module import Module

__all__ = ["interface", "script", "script_if_tracing"]


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A ScriptFunction for a function, a RecursiveScriptModule for a module, a class itself once its methods are compiled.

    What isn't annotated is a Tensor. Raises RuntimeError, with the line and a mark, for what no program can have; for a class of
    modules (pass an instance).
    """
    if optimize is not None:
        warn("`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead", FutureWarning)
    from flambeau.jit.script_function import ScriptFunction
    from flambeau.jit.script_module import RecursiveScriptModule, ScriptModule

    if isinstance(obj, (ScriptFunction, RecursiveScriptModule, ScriptModule)):
        return obj
    prepare = getattr(obj, "__prepare_scriptable__", None)
    if prepare is not None and not isinstance(obj, type):
        obj = prepare()
    from flambeau.jit.ir.source import ErrorReport

    try:
        return _compiled(obj)
    except ErrorReport as error:
        raise RuntimeError(str(error)) from None


def _compiled(obj: Any) -> Any:
    if isinstance(obj, Module):
        from flambeau.jit.recursive import script_module_of

        return script_module_of(obj)
    if isinstance(obj, type):
        return _script_class(obj)
    if isinstance(obj, (list, dict)):
        from flambeau.jit.containers import container

        return container(obj)
    if inspect.isfunction(obj) or isinstance(obj, MethodType):
        return _script_function(obj)
    if callable(obj) or hasattr(obj, "__dict__"):
        return _script_object(obj)
    raise TypeError(f"torch.jit.script takes a function, class, module, list or dict, not {type(obj).__name__}")


def _script_function(obj: Any) -> Any:
    from flambeau.jit.frontend import functions
    from flambeau.jit.script_function import ScriptFunction

    if getattr(obj, "__script_if_tracing_wrapper", False):
        obj = obj.__original_fn
    unsupported = getattr(obj, "__script_unsupported", None)
    if unsupported is not None:
        raise RuntimeError(f"TorchScript error: {unsupported}")
    if functions.noted_overloads(obj):
        raise RuntimeError(
            f"Function {obj.__name__} cannot be directly compiled because it is overloaded. It must be used in a context of a "
            "function where its inputs can determine which overload to call."
        )
    made = functions.compiled(obj)
    return ScriptFunction(made) if made is not None else obj


def _script_class(cls: Any) -> Any:
    if issubclass(cls, Module):
        raise RuntimeError(f"Type '{cls}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
    if issubclass(cls, enum.Enum):
        return cls
    if len(cls.mro()) > 2:
        raise RuntimeError("TorchScript classes does not support inheritance yet. Please directly inherit from 'object'.")
    from flambeau.jit.frontend.python_classes import class_type

    class_type(cls)
    return cls


def _script_object(obj: Any) -> Any:
    from flambeau.jit.frontend.python_classes import class_type

    kind = class_type(type(obj))
    if kind is None:
        raise TypeError(f"torch.jit.script takes a function, class, module, list or dict, not {type(obj).__name__}")
    from flambeau.jit.execution.objects import script_object

    return script_object(obj, kind)


def interface(obj: Any) -> Any:
    """Decorate a class: its methods are what a module or an object must have to stand where it is the annotation."""
    if not isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    from flambeau.jit.frontend.python_classes import interface_type

    obj.__torch_script_interface__ = interface_type(obj, issubclass(obj, Module))  # type: ignore[attr-defined]
    return obj


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is compiled where a trace or a program calls it."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return script(fn)(*args, **kwargs) if current() is not None else fn(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper
