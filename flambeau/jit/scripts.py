"""torch.jit.script, trace and freeze without a TorchScript compiler: functions and modules come back as they are.

Each of them warns once of what that means. What only a compiled program has (graph, code, save) raises NotImplementedError
where a program asks for it. Stands on nn, whose Module knows which modules were handed back; `jit` offers it all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flambeau.base.warn import warn_once
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.scripted import PROGRAM_ATTRIBUTES, handed_back, objection

_ADVICE = "save weights with torch.save(module.state_dict(), path) and load them into the same Python class"


def _notice(name: str) -> None:
    warn_once(
        f"torch.jit.{name}: flambeau has no TorchScript compiler, so what it is given comes back as it is and runs eagerly: "
        f"results are right, but there is no serialized program (save, graph, code) and no fused speed-up; {_ADVICE}"
    )


class _Program:
    """Stands at a function for what its compiled form would have there; any use raises NotImplementedError."""

    def __init__(self, name: str):
        self.__dict__["name"] = name

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise objection(self.__dict__["name"])

    __call__ = __getattr__ = __getitem__ = __iter__ = __len__ = __str__ = __repr__ = _refuse


def _as_it_is(obj: Any) -> Any:
    """The object, marked so that a question for its program is answered clearly."""
    if isinstance(obj, Module):
        handed_back(obj)
    elif isinstance(obj, FunctionType):
        for name in PROGRAM_ATTRIBUTES:
            obj.__dict__.setdefault(name, _Program(name))
    return obj


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class, module or container itself, which runs eagerly.

    Warns once. Raises RuntimeError for a class of modules (pass an instance), TypeError for what can't be a script.
    """
    if isinstance(obj, type) and issubclass(obj, Module):
        raise RuntimeError(f"Type '{obj}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
    if not (callable(obj) or isinstance(obj, (list, dict))):
        raise TypeError(f"torch.jit.script takes a function, class, module, list or dict, not {type(obj).__name__}")
    _notice("script")
    return _as_it_is(obj)


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


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method itself, in a class derived from ScriptModule. Warns once."""
    _notice("script_method")
    return fn


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


class ScriptModule(Module):
    """A module whose methods a program marks with script_method; here it is a Module whose methods run eagerly."""

    def __init__(self) -> None:
        super().__init__()
        _notice("ScriptModule")
        handed_back(self)


class RecursiveScriptModule(ScriptModule):
    """What PyTorch's script() makes of a module. There are none here: making one raises NotImplementedError."""

    def __init__(self, cpp_module: Any = None) -> None:
        raise NotImplementedError(f"torch.jit.RecursiveScriptModule is not implemented in flambeau: {_ADVICE}")


class TracedModule(ScriptModule):
    """What PyTorch's trace() makes of the modules inside a module. Making one raises NotImplementedError."""

    def __init__(self, orig: Any, id_set: Any = None, _compilation_unit: Any = None) -> None:
        raise NotImplementedError(f"torch.jit.TracedModule is not implemented in flambeau: {_ADVICE}")


class TopLevelTracedModule(TracedModule):
    """What PyTorch's trace() makes of a module. Making one raises NotImplementedError."""
