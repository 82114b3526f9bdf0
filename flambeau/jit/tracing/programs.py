"""Calls of compiled functions and modules in a trace: one node each, whose program stays as it is.

Stands on execution.calls, which asks here while a thread traces; used by running.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.core.modes import modes
from flambeau.dispatcher.schema_types import DictType, ListType, TupleType
from flambeau.jit.execution.calls import bound
from flambeau.jit.execution.run import run
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.shaped import shaped
from flambeau.jit.ir.types import FunctionType, unshaped
from flambeau.jit.ir.values import Value
from flambeau.jit.tracing.current import current, tracing
from flambeau.jit.tracing.state import TracingState

__all__ = ["called"]


def called(function: Function, args: Sequence[Any], kwargs: dict[str, Any], self_value: Any) -> Any:
    """What a call of a compiled function gives in a trace, recorded; NotImplemented outside of one."""
    state, stack = current(), modes.local.dispatch_modes
    if state is None or not stack or not hasattr(stack[-1], "state"):
        return NotImplemented
    recorder = stack.pop()
    try:
        with tracing(None):
            values = list(bound(function.schema, args, kwargs, 0 if self_value is None else 1))
        inputs = [state.value(x) for x in values]
        if self_value is None:
            constant = state.graph.insertNode(state.graph.create("prim::Constant").set("name", "s", function.name))
            constant.note = function
            constant.output().setType(FunctionType(function))
            node = state.graph.insertNode(state.graph.create("prim::CallFunction", [constant.output(), *inputs]))
        else:
            owner = state.known(self_value)
            if owner is None:
                raise RuntimeError(
                    f"a {type(self_value).__name__} that is no submodule of the traced module can't be called in a trace: make "
                    "it an attribute of the module"
                )
            node = state.graph.insertNode(state.graph.create("prim::CallMethod", [owner, *inputs]).s_("name", function.name))
            values.insert(0, self_value)
        with tracing(None):
            made = run(function, values)
        node.output().setType(unshaped(function.schema.returns[0].type))
        _give(state, made, node.output())
        return made
    finally:
        stack.append(recorder)


def _give(state: TracingState, x: Any, value: Value) -> None:
    """Say which value a result is, its parts what is taken out of it."""
    graph, kind = state.graph, value.type()
    if isinstance(x, torch.Tensor):
        value.setType(shaped(x))
        state.set(x, value)
    elif isinstance(x, (tuple, list)) and isinstance(kind, (TupleType, ListType)):
        name = "prim::TupleUnpack" if isinstance(kind, TupleType) else "prim::ListUnpack"
        node = graph.insertNode(graph.create(name, [value], len(x)))
        kinds = kind.elements() if isinstance(kind, TupleType) else [kind.element] * len(x)
        for item, each, part in zip(x, kinds, node.outputs()):
            _give(state, item, part.setType(each))
    elif isinstance(x, dict) and isinstance(kind, DictType):
        for key, item in x.items():
            overload = "Dict_str" if isinstance(key, str) else "Dict_int"
            node = state.node("aten::__getitem__", [value, state.constant(key)], overload)
            _give(state, item, node.output().setType(kind.value))
