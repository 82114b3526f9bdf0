"""Stretches of an exported program where gradients are switched, or autocast is: one operator each, whose function is a graph.

While a module runs, each switch becomes a node; `fold` then moves what lies between two of them into a graph of its own, called
by torch.ops.higher_order.wrap_with_set_grad_enabled or wrap_with_autocast. Stands on fx; used by `_tracer` and
`_decompose`, and by onnx.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.core.modes.modes import local
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg

__all__ = ["Regions", "is_stretch"]

_OPERATORS = frozenset({"wrap_with_autocast", "wrap_with_set_grad_enabled"})


def _grad(enabled: bool) -> None:
    """Stands for a switch of gradients."""


def _autocast(*settings: Any) -> None:
    """Stands for the begin of a block of autocast, whose settings are those of wrap_with_autocast."""


def _autocast_end() -> None:
    """Stands for the end of the innermost block of autocast."""


_SWITCHES = (_grad, _autocast, _autocast_end)


def is_stretch(node: Node) -> bool:
    """Whether a node calls such an operator."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") in _OPERATORS


class Regions:
    """The switches in the graph of a tracer. grad: whether gradients are on."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.before = self.grad = local.grad

    def switched_grad(self, enabled: bool) -> None:
        """Gradients are on, or off, from here."""
        self.grad = enabled
        self.tracer.create_proxy("call_function", _grad, (enabled,), {})

    def switched_autocast(self, block: Any) -> None:
        """A block of autocast begins, or with None the innermost one ends."""
        if block is None:
            self.tracer.create_proxy("call_function", _autocast_end, (), {})
        else:
            settings = block.device, block.fast_dtype, block._enabled, block._cache_enabled
            self.tracer.create_proxy("call_function", _autocast, settings, {})

    def fold(self, graph: Graph, submodules: dict[str, Any]) -> None:
        """Move the stretches of `graph` into graphs of their own; submodules: the graphs that operators of it call."""
        if any(node.target in _SWITCHES for node in graph.nodes if node.op == "call_function"):
            inputs = {node: f"arg{i}_1" for i, node in enumerate(graph.find_nodes(op="placeholder"))}
            _Fold(graph, submodules, self.before, inputs).fold()


class _Stretch:
    """Nodes in a row, and the operator with its settings that they are the function of; None for nodes that stay."""

    def __init__(self, call: tuple[str, tuple[Any, ...]] | None) -> None:
        self.call, self.nodes = call, list[Node]()
        self.switches = list[Node]()


class _Fold:
    """The work on one graph. grad: whether gradients are on at its start; inputs: the names by which PyTorch's blocks of
    autocast know the program's inputs.
    """

    def __init__(self, graph: Graph, submodules: dict[str, Any], grad: bool, inputs: dict[Node, str]) -> None:
        self.graph, self.submodules, self.grad, self.inputs = graph, submodules, grad, inputs
        self.inside: dict[Node, str] = {}  # what a result of a stretch is called in its graph

    def fold(self) -> None:
        """Gradients first, then autocast: a block of either may lie within one of the other."""
        self._fold(self._by_grad())
        self._fold(self._by_autocast())

    # ---- the stretches

    def _by_grad(self) -> list[_Stretch]:
        """A stretch from each switch of gradients to the next; those inside blocks of autocast are the blocks' own."""
        found, depth, grad = [_Stretch(None)], 0, self.grad
        for node in self._calls():
            depth += (node.target is _autocast) - (node.target is _autocast_end)
            if node.target is _grad:
                grad = bool(node.args[0])
            if node.target is _grad and not depth:
                found.append(_Stretch(("wrap_with_set_grad_enabled", (grad,)) if grad != self.grad else None))
                found[-1].switches.append(node)
            else:
                found[-1].nodes.append(node)
        return found

    def _by_autocast(self) -> list[_Stretch]:
        """A stretch for each outermost block of autocast, and for what lies between two."""
        found, depth = [_Stretch(None)], 0
        for node in self._calls():
            if node.target is _autocast and not depth:
                found.append(_Stretch(("wrap_with_autocast", node.args)))
                found[-1].switches.append(node)
            elif node.target is _autocast_end and depth == 1:
                found[-1].switches.append(node)
            else:
                if not depth and found[-1].call is not None:
                    found.append(_Stretch(None))
                found[-1].nodes.append(node)
            depth += (node.target is _autocast) - (node.target is _autocast_end)
        return found

    def _calls(self) -> list[Node]:
        return [node for node in self.graph.nodes if node.op not in ("placeholder", "output")]

    # ---- a stretch as a graph

    def _fold(self, stretches: Sequence[_Stretch]) -> None:
        if len(stretches) == 1:
            return
        results = [self._results(s) for s in stretches]
        names = self.graph._graph_namespace
        for i in range(len(stretches)):  # PyTorch has a module of each stretch, and its results, before it inlines most
            names.create_name(f"submod_{i}", None)
        for made in results:
            for _ in made if len(made) > 1 else ():
                names.create_name("getitem", None)
        for i, stretch in enumerate(stretches):
            if stretch.call is not None:
                self._call(self._free(i), stretch, results[i])
            for node in stretch.switches:
                self.graph.erase_node(node)

    def _free(self, number: int) -> str:
        while f"submod_{number}" in self.submodules:
            number += 1
        return f"submod_{number}"

    def _results(self, stretch: _Stretch) -> list[Node]:
        """The nodes of a stretch that others use, in the order of use."""
        own = set(stretch.nodes)
        after = False
        found: dict[Node, None] = {}
        for node in self.graph.nodes:
            after = after or node in own
            if after and node not in own:
                found.update((x, None) for x in node.all_input_nodes if x in own)
        return list(found)

    def _call(self, name: str, stretch: _Stretch, results: list[Node]) -> None:
        """Put the call of a stretch's graph where its nodes were."""
        assert stretch.call is not None
        operation, settings = stretch.call
        given, module = self._module(stretch, results)
        self.submodules[name] = module
        higher_order = getattr(torch.ops.higher_order, operation)
        single = len(results) == 1
        with self.graph.inserting_before(stretch.switches[0]):
            origin = {"nn_module_stack": (stretch.nodes or stretch.switches)[0].meta.get("nn_module_stack", {})}
            function = self.graph.create_node("get_attr", name)
            shown = results[0].name if single else operation
            call = self.graph.create_node("call_function", higher_order, (*settings, function, *given), {}, name=shown)
            items = [
                self.graph.create_node("call_function", operator.getitem, (call, i), {}, name="getitem" if single else x.name)
                for i, x in enumerate(results)
            ]
        function.meta = dict(origin)
        call.meta = {**origin, "val": tuple(node.meta["val"] for node in results)}
        for node, item in zip(results, items):
            item.meta = dict(node.meta)
            node.replace_all_uses_with(item, lambda user: user not in stretch.nodes)
        for node in reversed(stretch.nodes):
            self.graph.erase_node(node)
        for node, item in zip(results, items):
            self.inside[item] = (call if single else item).name = node.name

    def _module(self, stretch: _Stretch, results: list[Node]) -> tuple[list[Node], GraphModule]:
        """The tensors and numbers of the graph around that a stretch uses, and the module of its own graph."""
        inner, known, submodules = Graph(), dict[Node, Node](), dict[str, Any]()
        inputs: dict[Node, str] = {}
        own = set(stretch.nodes)
        given = list(dict.fromkeys(x for node in stretch.nodes for x in node.all_input_nodes if x not in own))
        autocast = stretch.call is not None and stretch.call[0] == "wrap_with_autocast"
        for x in given:
            name = self.inputs.get(x) or self.inside.get(x, x.name) if autocast else x.name
            known[x] = inner.create_node("placeholder", name, name=name)
            known[x].meta = dict(x.meta)
            if x in self.inputs:
                inputs[known[x]] = self.inputs[x]
        for node in stretch.nodes:
            known[node] = inner.node_copy(node, known.__getitem__)
            if node.op == "get_attr":
                submodules[str(node.target)] = self.submodules.pop(str(node.target))
        inner.output(map_arg(tuple(results), known.__getitem__))
        grad = stretch.call[1][0] if stretch.call is not None and not autocast else self.grad
        _Fold(inner, submodules, grad, inputs).fold()
        return given, GraphModule(submodules, inner)
