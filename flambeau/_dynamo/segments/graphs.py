"""Segments as graphs: what a backend of torch.compile is called with.

Nodes are torch's functions and methods as the program wrote them, named by the variables that it puts their results in;
placeholders are named by where their tensors come from. Stands on fx, segment, spelling and sources; used by _dynamo.compiled.
"""

from __future__ import annotations

import operator
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau import fx
from flambeau._dynamo.segments.segment import Call, Place, Segment
from flambeau._dynamo.segments.spelling import INPLACE, of_package, spelled, stored_names
from flambeau._dynamo.segments.values import thawed
from flambeau._subclasses.fake_tensor import FakeTensorConverter, FakeTensorMode
from flambeau.core.tensor.tensor import Tensor

__all__ = ["graph_of"]

_modes: list[FakeTensorMode] = []  # for examples, which no thread makes any in at the moment


def graph_of(
    segment: Segment, order: Sequence[int], names: Sequence[str], sources: Callable[[Any], str | None], results: Sequence[int]
) -> fx.GraphModule:
    """The graph of a segment whose tensors from outside come in this order and have these names; it gives the
    values with the numbers `results`.

    sources(module): the expression by which the program reaches a module.
    """
    graph = fx.Graph()
    nodes: dict[int, fx.Node] = {}
    for at, name in zip(order, names, strict=True):
        number, tensor, _, _ = segment.outside[at]
        node = nodes[number] = graph.placeholder(name, type_expr=_annotation(tensor))
        node.name = graph._graph_namespace.create_name(name.lower(), node)
        node.meta["tensor_dict"] = {}
        node.meta["real"] = tensor
    switch, grad = torch._C._set_grad_enabled, segment.grad
    for call in segment.calls:
        if call.grad is not grad:
            grad = call.grad
            graph.call_function(switch, (grad,))
        _add(graph, call, nodes, sources)
    if grad is not segment.grad:
        graph.call_function(switch, (segment.grad,))
    graph.output(tuple([nodes[number] for number in results]))
    _drop_unused_items(graph)
    _add_examples(graph)
    return fx.GraphModule(torch.nn.Module(), graph)


def _annotation(tensor: Tensor) -> Any:
    return torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor


def _add(graph: fx.Graph, call: Call, nodes: dict[int, fx.Node], sources: Callable[[Any], str | None]) -> None:
    args, kwargs = thawed(call.args, nodes.__getitem__), thawed(call.kwargs, nodes.__getitem__)
    kind, target, args = spelled(call.function, call.places, args)
    node = graph.create_node(kind, target, args, kwargs)
    _describe(node, call.places, sources)
    names = stored_names(call.places)
    parts: dict[tuple[int, ...], fx.Node] = {(): node}
    for path, number in call.made:
        for end in range(1, len(path) + 1):
            if path[:end] not in parts:
                part = parts[path[:end]] = graph.call_function(operator.getitem, (parts[path[: end - 1]], path[end - 1]))
                _describe(part, call.places, sources)
                part.meta["item"] = True
        if number not in nodes or target in INPLACE or isinstance(names, str):
            nodes[number] = parts[path]
        if isinstance(names, tuple) and len(path) == 1 and path[0] < len(names) and names[path[0]]:
            parts[path]._rename(str(names[path[0]]))
    if isinstance(names, str) and call.made and call.made[0][0] == ():
        node._rename(names)


def _drop_unused_items(graph: fx.Graph) -> None:
    """Take out items of results that nothing uses; the names that they had stay taken."""
    for node in reversed(graph.nodes):
        if node.target is operator.getitem and not node.users and isinstance(node.args[0], fx.Node) and "item" in node.meta:
            graph.erase_node(node)


def _describe(node: fx.Node, places: Sequence[Place], sources: Callable[[Any], str | None]) -> None:
    """Where in the program a node comes from."""
    node.meta["source_fn_stack"] = [(node.name, node.target)]
    lines = [p for p in reversed(places) if not of_package(p)] or list(reversed(places))
    frames = traceback.StackSummary.extract(((_Frame(p), _line(p)) for p in lines), lookup_lines=False)  # type: ignore[misc]
    node.meta["stack_trace"] = "".join(frames.format())
    stack: dict[str, tuple[str, type]] = {}
    for place in reversed(places[:-1]):
        if isinstance(place.module, torch.nn.Module):
            stack[str(id(place.module))] = _path(sources(place.module) or "L['self']"), type(place.module)
    if stack:
        node.meta["nn_module_stack"] = stack


_MEMBER = re.compile(r"\._modules\['([^']*)'\]")


def _path(source: str) -> str:
    return _MEMBER.sub(r".\1", source)


def _line(place: Place) -> int:
    for number, (line, *_) in enumerate(place.code.co_positions()):
        if number == place.instruction // 2:
            return line or place.code.co_firstlineno
    return place.code.co_firstlineno


class _Frame:
    """As much of a frame as traceback needs."""

    def __init__(self, place: Place) -> None:
        self.f_code, self.f_globals = place.code, place.scope
        self.f_locals: dict[str, Any] = {}


# ---------------------------------------------------------------- examples


def _add_examples(graph: fx.Graph) -> None:
    """Give nodes the tensors without data that they stand for."""
    try:
        mode = _modes.pop()
    except IndexError:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.fake_tensor_converter = FakeTensorConverter()
    grad = torch.is_grad_enabled()
    try:
        for node in graph.nodes:
            if node.op == "placeholder":
                node.meta["example_value"] = mode.from_tensor(node.meta.pop("real"))
                continue
            given = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta.get("example_value"))
            if node.op == "output":
                continue
            with mode:
                call = node.target if callable(node.target) else getattr(torch.Tensor, node.target)
                made = call(*given[0], **given[1])
            if made is not None:
                node.meta["example_value"] = made
    finally:
        torch.set_grad_enabled(grad)
        _modes.append(mode)
