"""One recording: a function is run on its examples, and its graph comes back.

Stands on state, recorder and scopes; used by entry.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.execution import calls
from flambeau.jit.ir.function import argument
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.types import ClassType, unshaped
from flambeau.jit.ir.values import Value
from flambeau.jit.passes import dead_code, normalize, tuples
from flambeau.jit.script_module import ScriptModule
from flambeau.jit.tracing import programs, scopes
from flambeau.jit.tracing.current import tracing
from flambeau.jit.tracing.recorder import Recorder
from flambeau.jit.tracing.sizes import properties_seen
from flambeau.jit.tracing.state import TracingState, check_inputs
from flambeau.nn import Module

__all__ = ["recorded", "schema_of"]


class Traced:
    """The module whose method is recorded: what it is made of. paths: submodules by their names from "__module" on;
    tensor(path) is the parameter or buffer of a name; define(class, graph) adds a method to a submodule's class.
    """

    def __init__(
        self, kind: ClassType, paths: dict[Module, str], tensor: Callable[[str], Any], define: Callable[[ClassType, Graph], str]
    ) -> None:
        self.kind, self.paths, self.tensor, self.define = kind, paths, tensor, define


def recorded(
    func: Callable[..., Any],
    inputs: tuple[Any, ...] | dict[str, Any],
    names: list[str],
    strict: bool = True,
    module: Traced | None = None,
) -> Graph:
    """The graph of func(*inputs), or func(**inputs); names: of its parameters."""
    values = tuple(inputs.values()) if isinstance(inputs, dict) else inputs
    check_inputs(values)
    state = TracingState(strict)
    graph = state.graph
    if module is not None:
        _attributes(state, module)
    places = [graph.addInput() for _ in values]
    given = [state.input(x, place) for x, place in zip(values, places)]
    called = list(inputs) if isinstance(inputs, dict) else names
    for place, name in zip(places, called):
        place.setDebugName(name)
    paths = {} if module is None else module.paths
    with tracing(state), properties_seen(), _modules_followed(state, paths):
        with Recorder(state):
            made = func(**dict(zip(inputs, given))) if isinstance(inputs, dict) else func(*given)
        state.names = lambda tensor: ""
        state.where = lambda: None
        graph.registerOutput(state.output(made))
    if module is None:
        scopes.flattened(graph)
    else:
        scopes.methods_made(graph, lambda kind, inner: module.define(kind, _cleaned(inner)))
    return _cleaned(graph)


def _cleaned(graph: Graph) -> Graph:
    tuples.lower_simple(graph)
    dead_code.eliminate(graph)
    normalize.rename_aliases(graph)
    return graph


def _attributes(state: TracingState, module: Traced) -> None:
    self_value = state.graph.addInput("self").setType(module.kind)

    def seen(path: str, value: Value) -> None:
        if path == "__module":
            return
        tensor = module.tensor(path)
        if tensor is not None and state.known(tensor) is None:
            state.set(tensor, value)

    scopes.attribute_nodes(state.graph, self_value, module.kind, "__module", seen)


@contextlib.contextmanager
def _modules_followed(state: TracingState, paths: dict[Module, str]) -> Iterator[None]:
    """Have the state know which submodule's forward is running."""
    by_id = {id(module): path for module, path in paths.items()}
    own_call, own_forward = Module.__call__, Module._slow_forward

    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        return self._call_with_extras(args, kwargs)

    def forward(self: Module, *args: Any, **kwargs: Any) -> Any:
        path = by_id.get(id(self))
        if path is None or isinstance(self, ScriptModule):
            return own_forward(self, *args, **kwargs)
        state.enter(path)
        try:
            return own_forward(self, *args, **kwargs)
        finally:
            state.leave()

    Module.__call__, Module._slow_forward = call, forward  # type: ignore[method-assign]
    calls.watch = programs.called
    try:
        yield
    finally:
        Module.__call__, Module._slow_forward = own_call, own_forward  # type: ignore[method-assign]


def schema_of(name: str, graph: Graph) -> FunctionSchema:
    """The schema of a graph that nobody has declared: arguments by the names of its inputs, tensors of which nothing is said."""
    arguments = []
    for at, value in enumerate(graph.inputs()):
        word = _base(value.debugName()) if value.hasDebugName() else f"argument_{at}"
        arguments.append(argument(word, unshaped(value.type())))
    returns = [argument("", unshaped(value.type())) for value in graph.outputs()]
    return FunctionSchema(name, "", arguments, returns)


def _base(name: str) -> str:
    head, dot, digits = name.rpartition(".")
    return head if dot and digits.isdigit() else name
