"""torch.jit.trace and trace_module: functions and modules are run on examples, and come back as programs.

Stands on running, modules and checking; offered by jit.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flambeau as torch
from flambeau.jit.emit_hooks import emitted_function, emitted_module
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.names import qualified_name_of
from flambeau.jit.passes.inlining import inline
from flambeau.jit.script_function import ScriptFunction
from flambeau.jit.script_module import ScriptModule
from flambeau.jit.tracing import checking, modules
from flambeau.jit.tracing.current import local
from flambeau.jit.tracing.running import recorded, schema_of
from flambeau.nn import Module

__all__ = ["parameter_names", "trace", "trace_module"]


@contextmanager
def _naming(paths: dict[Any, Any]) -> Iterator[None]:
    before, local.names = local.names, paths
    try:
        yield
    finally:
        local.names = before


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
    """A program that does what func does on these examples: a ScriptFunction of a function, a module of a module.

    example_inputs: a tuple of tensors, and of lists, tuples and dicts of them, or one tensor; example_kwarg_inputs: the same by
    name. What depends on values (an `if` on a tensor, a tensor's number in Python) is a constant of the program: a TracerWarning
    says so. check_trace: run the program and the function on copies of the inputs (or on each of check_inputs) and compare.
    strict=False: results may be dicts and lists.

    Raises TracingCheckError for traces that don't repeat, RuntimeError for inputs and results that can't be traced, and for
    tensors from outside that require gradients.
    """
    warnings.warn("`torch.jit.trace` is deprecated. Please switch to `torch.compile` or `torch.export`.", DeprecationWarning)
    _say_optimize(optimize)
    _refuse_outplace(_force_outplace)
    if isinstance(func, ScriptModule):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.", stacklevel=2
        )
        return func
    owner = getattr(func, "__self__", None)
    by_name = isinstance(example_kwarg_inputs, dict)
    if isinstance(func, Module) or (isinstance(owner, Module) and func.__name__ == "forward"):
        if example_inputs is None:
            if not by_name:
                raise RuntimeError("example_kwarg_inputs should be a dict")
            example_inputs = example_kwarg_inputs
        return trace_module(
            func if isinstance(func, Module) else owner,
            {"forward": example_inputs},
            None,
            check_trace,
            None if check_inputs is None else [{"forward": inputs} for inputs in check_inputs],
            check_tolerance,
            strict,
            _module_class=_module_class,
            example_inputs_is_kwarg=by_name,
        )
    if isinstance(owner, Module):
        raise AttributeError("trace doesn't support compiling individual module's functions.\nPlease use trace_module")
    given = example_kwarg_inputs if by_name else _as_tuple(example_inputs)
    made = _traced_function(func, given, strict)
    if check_trace:
        for inputs in [given] if check_inputs is None else check_inputs:
            inputs = inputs if by_name else _as_tuple(inputs)
            with torch.no_grad():
                again = _traced_function(func, checking.cloned(inputs), strict)
            checking.check(
                made, func, again, inputs, check_tolerance, lambda again=again: (_inlined(made.graph), _inlined(again.graph))
            )
    return made


def _traced_function(func: Callable[..., Any], inputs: Any, strict: bool) -> Any:
    graph = recorded(func, inputs, parameter_names(func), strict)
    function = Function(qualified_name_of(func))
    function.set(graph, schema_of(function.name, graph))
    function.python = func
    emitted_function(function)
    return ScriptFunction(function)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """A module whose methods do what mod's do on these examples: inputs by the name of the method, otherwise as `trace`.

    The module has mod's own parameters and buffers, and programs for its submodules where they are called. Raises AttributeError
    for what is no module, NameError for examples by names that forward has not.
    """
    warnings.warn(
        "`torch.jit.trace_method` is deprecated. Please switch to `torch.compile` or `torch.export`.", DeprecationWarning
    )
    _say_optimize(optimize)
    _refuse_outplace(_force_outplace)
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    paths: dict[Any, Any] = {"__module": mod}
    _register(mod, "__module", paths)
    with _naming(paths):
        made = modules.traced(mod, _module_class)
        for name, examples in inputs.items():
            _trace_method(mod, made, name, examples, strict, example_inputs_is_kwarg)
            if check_trace:
                for each in [inputs] if check_inputs is None else check_inputs:
                    _check_method(mod, made, name, each, check_tolerance, strict, example_inputs_is_kwarg)
    return made


def _trace_method(mod: Module, made: Any, name: str, examples: Any, strict: bool, by_name: bool) -> None:
    method = getattr(mod, name)
    names = parameter_names(method)
    if by_name and isinstance(examples, dict):
        for key in examples:
            if key not in names:
                raise NameError(
                    f"'{key}' is not in forward() method's arguments,\n                         valid arguments name are "
                    f"[{','.join(names)}]"
                )
        given = examples
    else:
        given = _as_tuple(examples)
    function = mod if name == "forward" else method
    paths = {module: path for module, path in (local.names or {}).items() if isinstance(module, Module)}
    graph = recorded(function, given, names, strict, modules.recorded_module(made, mod, paths))
    modules.add_method(made, name, graph)
    emitted_module(made)


def _check_method(
    mod: Module, made: Any, name: str, inputs: dict[str, Any], tolerance: float, strict: bool, by_name: bool
) -> None:
    given = inputs[name] if isinstance(inputs, dict) and name in inputs else inputs
    with torch.no_grad():
        copies = {key: checking.cloned(x) for key, x in inputs.items()}
        again = trace_again(mod, copies, strict, by_name)
    function = mod if name == "forward" else getattr(mod, name)
    given = given if by_name and isinstance(given, dict) else _as_tuple(given)
    first, second = made._c._get_method(name), again._c._get_method(name)
    checking.check(first, function, second, given, tolerance, lambda: (_inlined(first.graph), _inlined(second.graph)))


def trace_again(mod: Module, inputs: dict[str, Any], strict: bool, by_name: bool) -> Any:
    """Another trace of a module, unchecked and without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return trace_module(mod, inputs, check_trace=False, strict=strict, example_inputs_is_kwarg=by_name)


def _inlined(graph: Graph) -> Graph:
    made = graph.copy()
    inline(made)
    return made


def _register(module: Module, prefix: str, paths: dict[Any, Any]) -> None:
    for name, child in module.named_children():
        paths[child] = f"{prefix}.{name}"
        _register(child, paths[child], paths)


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    if isinstance(inputs, (torch.Tensor, dict)):
        return (inputs,)
    return inputs if isinstance(inputs, tuple) else tuple(inputs)


def _say_optimize(optimize: Any) -> None:
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead", FutureWarning,
            stacklevel=3,
        )  # fmt: skip


def _refuse_outplace(wanted: bool) -> None:
    if wanted:
        raise NotImplementedError(
            "torch.jit.trace(_force_outplace=True) is not implemented in flambeau: writes stay writes; use torch.export and "
            "run_decompositions() for a graph without them"
        )


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of a function's positional parameters, without `self` of a method."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, p in found.parameters.items() if p.kind in kinds]
