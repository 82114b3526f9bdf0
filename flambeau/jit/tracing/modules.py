"""Modules that were traced: their class has the module's parameters, buffers and submodules, and the methods that were recorded.

Stands on script_module; used by entry.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.dispatcher.schema_types import OptionalType
from flambeau.jit.archive.modules import fill
from flambeau.jit.execution.runtime import ScriptObject
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.names import mangled, qualified_name_of
from flambeau.jit.ir.types import BOOL, TENSOR, ClassType
from flambeau.jit.script_module import RecursiveScriptModule, ScriptModule
from flambeau.jit.tracing.running import Traced, schema_of
from flambeau.nn import Module

__all__ = ["TopLevelTracedModule", "TracedModule", "add_method", "recorded_module", "traced"]


class TracedModule(RecursiveScriptModule):
    """What a trace makes of the modules inside a module."""

    def _get_name(self) -> str:
        return self.original_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "forward" not in self.script_type.methods:
            raise RuntimeError("Trace submodules cannot be called.")
        return super().__call__(*args, **kwargs)


class TopLevelTracedModule(TracedModule):
    """What a trace makes of a module."""


def traced(module: Module, module_class: Any = None) -> Any:
    """An empty program for a module: its class without methods, with the module's own parameters and buffers.

    ValueError for modules with backward hooks. A module that is a program already is itself.
    """
    if isinstance(module, ScriptModule):
        return module
    exported = _exported(module)
    if exported is not None:
        return exported
    if module._backward_hooks:
        raise ValueError("Modules that have backward hooks assigned can't be compiled: " + str(module))
    kind = ClassType(mangled(qualified_name_of(type(module))), is_module=True)
    values: dict[str, Any] = {}

    def add(name: str, value: Any, attribute: Any, **flags: bool) -> None:
        kind.add_attribute(name, attribute, **flags)
        values[name] = value

    for name, parameter in module._parameters.items():
        if parameter is not None:
            add(name, parameter, TENSOR, is_parameter=True)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            add(name, buffer, TENSOR, is_buffer=True)
    add("training", module.training, BOOL)
    add("_is_full_backward_hook", None, OptionalType(BOOL))
    for name, value in vars(module).items():
        if isinstance(value, ScriptObject):
            add(name, value, value.script_type)
    for name, child in module._modules.items():
        if child is not None:
            made = traced(child, TracedModule)
            add(name, made, made.script_type)
    found = (module_class or TopLevelTracedModule)(kind)
    fill(found, values)
    found.__dict__["_non_persistent_buffers_set"] = set(module._non_persistent_buffers_set)
    return found


def _exported(module: Module) -> Any:
    """The program of a module with methods that are marked to be exported; None for any other."""
    marked = [
        name for name in dir(type(module))
        if getattr(getattr(type(module), name, None), "_torchscript_modifier", None) == "export"
    ]  # fmt: skip
    return torch.jit.script(module) if marked else None


def recorded_module(made: Any, module: Module, paths: dict[Any, str]) -> Traced:
    """What the tracer needs to know of a module and the program that is made of it."""

    def tensor(path: str) -> Any:
        found: Any = made
        for name in path.split(".")[1:]:
            found = getattr(found, name, None)
        return found if isinstance(found, (torch.Tensor, ScriptModule)) else None

    def define(kind: ClassType, graph: Graph) -> str:
        name, number = "forward", 0
        while name in kind.methods:
            number += 1
            name = f"forward{number}"
        _add(kind, name, graph)
        return name

    return Traced(made.script_type, paths, tensor, define)


def _add(kind: ClassType, name: str, graph: Graph) -> None:
    function = Function(f"{kind.qualified_name}.{name}")
    function.set(graph, schema_of(name, graph))
    kind.methods[name] = function


def add_method(made: Any, name: str, graph: Graph) -> None:
    """Give a traced module a method."""
    _add(made.script_type, name, graph)
