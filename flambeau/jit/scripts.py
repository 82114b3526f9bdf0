"""torch.jit.script and its kin: compile a function, a module, a class. The compiler is loaded when it is first used.

`jit` offers it all.
"""

from __future__ import annotations

import enum
import functools
import inspect
import os
from collections.abc import Callable
from types import MethodType
from typing import Any

from flambeau.base.warn import warn, warn_once
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.scripted import handed_back

__all__ = [
    "freeze",
    "interface",
    "load",
    "optimize_for_inference",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "trace",
    "trace_module",
]

_ADVICE = "save weights with torch.save(module.state_dict(), path) and load them into the same Python class"


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """A ScriptFunction for a function, a RecursiveScriptModule for a module, a class itself once its methods are compiled.

    What isn't annotated is a Tensor. Raises RuntimeError, with the line and a mark, for what no program can have; for a class of
    modules (pass an instance).
    """
    if optimize is not None:
        warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead",
            FutureWarning,
        )
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
        return obj
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
        raise RuntimeError(
            f"Type '{cls}' cannot be compiled since it inherits from nn.Module, pass an instance instead"
        )
    if issubclass(cls, enum.Enum):
        return cls
    if len(cls.mro()) > 2:
        raise RuntimeError(
            "TorchScript classes does not support inheritance yet. Please directly inherit from 'object'."
        )
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
        return fn(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def _notice(name: str) -> None:
    warn_once(
        f"torch.jit.{name}: flambeau doesn't trace yet, so what it is given comes back as it is and runs eagerly: "
        f"results are right, but there is no serialized program (save, graph, code) and no fused speed-up; {_ADVICE}"
    )


def _as_it_is(obj: Any) -> Any:
    """The object, marked so that a question for its program is answered clearly."""
    if isinstance(obj, Module):
        handed_back(obj)
    return obj


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """The function or module itself, which runs eagerly, for any shapes; the examples are not looked at. Warns once.

    Raises RuntimeError without examples.
    """
    if example_inputs is None and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    _notice("trace")
    return _as_it_is(func)


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Module:
    """The module itself, whose methods run eagerly; `inputs` are examples by method name. Warns once."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    _notice("trace_module")
    return _as_it_is(mod)


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """The module itself, its parameters as they are. Warns once. Raises RuntimeError for a module in training mode."""
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before "
            "freezing."
        )
    _notice("freeze")
    return _as_it_is(mod)


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The module itself. Warns once."""
    _notice("optimize_for_inference")
    return _as_it_is(mod)


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Nothing is frozen, so nothing is optimised; the module stays as it is. Warns once."""
    _notice("run_frozen_optimizations")


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raises NotImplementedError: there is no program to write."""
    raise NotImplementedError(f"torch.jit.save is not implemented in flambeau, which has no TorchScript: {_ADVICE}")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Raises NotImplementedError: an archive's program can't be run. Raises ValueError for a file that isn't there."""
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    raise NotImplementedError(
        "torch.jit.load is not implemented in flambeau, which has no TorchScript: make the module from its Python class and "
        "load weights that were saved with torch.save(module.state_dict(), path)"
    )
