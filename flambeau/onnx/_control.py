"""Translations of control flow: cond as If, while_loop as Loop. Used by `_translate`.

Branches and bodies are graphs of their own, which read values of the graph around them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Graph, Value

__all__ = ["OPERATORS"]

_Inside = Callable[[Any, Sequence[Any]], list[Any]]


def _graph(b: Builder, name: str, inputs: Sequence[Value], write: Callable[[], list[Any]]) -> Graph:
    """A graph that gives what `write` does, all of which its own nodes make."""
    outer, sizes = b.graph, dict(b._sizes)
    b.graph = made = Graph(name)
    made.inputs = list(inputs)
    own = {id(v) for v in inputs}
    for x in write():
        value = x if isinstance(x, Value) else b.number(x, torch.int64)
        inside = any(value is y for node in made.nodes for y in node.outputs)
        if not inside or any(value is y for y in made.outputs) or id(value) in own:
            value = b.again(value)
        made.outputs.append(value)
    b.graph, b._sizes = outer, sizes
    return made


def _truth(b: Builder, x: Value) -> Value:
    return b.op("Squeeze", b.cast(x, torch.bool), shape=()) if x.shape != [] else b.cast(x, torch.bool)


def cond(b: Builder, inside: _Inside, pred: Any, true_graph: Any, false_graph: Any, operands: Sequence[Any]) -> Any:
    """One graph or the other, by a truth."""
    if isinstance(pred, bool):
        return tuple(inside(true_graph if pred else false_graph, operands))
    pred = _truth(b, pred)
    branches = {
        name: _graph(b, name, [], lambda g=graph: inside(g, operands))
        for name, graph in (("then_branch", true_graph), ("else_branch", false_graph))
    }
    count = len(branches["then_branch"].outputs)
    made = b.op("If", pred, outputs=count, attributes=branches)
    values = (made,) if count == 1 else made
    for value, x in zip(values, branches["then_branch"].outputs):
        value.dtype = x.dtype
    return tuple(values)


def while_loop(
    b: Builder, inside: _Inside, cond_graph: Any, body_graph: Any, carried: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """A graph again and again, while another says so."""
    start = [b.number(x, torch.int64) if isinstance(x, (int, Size)) else x for x in carried]
    first = _truth(b, inside(cond_graph, [*start, *more])[0])
    number, go_on = Value(dtype=torch.int64, shape=()), Value(dtype=torch.bool, shape=())
    inputs = [Value(dtype=x.dtype, shape=x.shape) for x in start]

    def write() -> list[Any]:
        made = inside(body_graph, [*inputs, *more])
        return [_truth(b, inside(cond_graph, [*made, *more])[0]), *made]

    body = _graph(b, "body", [number, go_on, *inputs], write)
    made = b.op("Loop", None, first, *start, outputs=len(start), attributes={"body": body})
    values = (made,) if len(start) == 1 else made
    for value, x in zip(values, start):
        value.dtype, value.shape = x.dtype, x.shape
    return tuple(values)


#: By the name of the operator in torch.ops.higher_order.
OPERATORS: dict[str, Callable[..., Any]] = {"cond": cond, "while_loop": while_loop}
