"""Segments as graphs: what a backend of torch.compile is called with.

Nodes are torch's functions and methods as the program wrote them, named by the variables that it puts their results in;
placeholders are named by where their tensors come from. Stands on fx, segment, spelling and sources; used by _dynamo.compiled.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import flambeau as torch
from flambeau import fx
from flambeau._dynamo.segments import environment
from flambeau._dynamo.segments.segment import Body, Call, Place, Segment
from flambeau._dynamo.segments.sizes import SIZES, numel_of, size_of
from flambeau._dynamo.segments.sources import placeholder_name
from flambeau._dynamo.segments.spelling import INPLACE, of_package, spelled, stored_names
from flambeau._dynamo.segments.values import thawed
from flambeau._subclasses.fake_tensor import FakeTensorConverter, FakeTensorMode
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.overloads import HigherOrderOperator
from flambeau.fx.experimental.shape_env import ShapeEnv, Source
from flambeau.fx.experimental.size_errors import ConstraintViolationError
from flambeau.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

__all__ = ["Input", "graph_of"]

_BEGINS = {"autocast": torch.amp.autocast_mode._enter_autocast, "inference": torch.autograd.grad_mode._enter_inference_mode}
_ENDS = {"autocast": torch.amp.autocast_mode._exit_autocast, "inference": torch.autograd.grad_mode._exit_inference_mode}
_NAMES_OF_BODIES = {"autograd_function_apply": ("fwd_body", "bwd_body"), "cond": ("cond_true", "cond_false")}
_modes: list[FakeTensorMode] = []  # for examples, which no thread makes any in at the moment


class Input(NamedTuple):
    """What a graph's input is: a value from outside by its place, tensors before numbers; with dim, the size of a dimension."""

    at: int
    dim: int | None = None


def graph_of(
    segment: Segment, order: Sequence[int], names: Sequence[str], sources: Callable[[Any], str | None], results: Sequence[int]
) -> tuple[fx.GraphModule, list[Input]]:
    """The graph of a segment whose values from outside come in this order and are reached by these expressions, and what its
    inputs are; it gives the values with the numbers `results`.

    sources(module): the expression by which the program reaches a module. Where sizes may differ between calls, nodes have
    examples with symbols, which are inputs of their own.
    """
    with _example_mode(bool(segment.dynamic or segment.ints)) as mode:
        building = _Building(segment, mode)
        for at, name in zip(order, names, strict=True):
            building.input(at, name)
        building.fill(segment.calls, segment.grad, segment.environment, sources)
        building.graph.output(tuple([building.nodes[number] for number in results]))
        _drop_unused_items(building.graph)
        building.add_examples()
        building.finish()
    return building.module(), building.inputs


class _Blocks:
    """The blocks of autocast and inference mode that are open at the end of a graph."""

    def __init__(self, graph: fx.Graph, around: tuple[Any, ...] | None) -> None:
        self.graph, self.around = graph, around
        self.open: list[tuple[tuple[Any, ...], fx.Node, bool]] = []  # what each is, its node, and grad mode before it

    def enter(self, call: Call | None, grad: bool) -> bool:
        """End and begin blocks until they are those of the call, or none are left; gives the grad mode there."""
        state = None if call is None else call.environment
        wanted = environment.blocks(state, self.around) if state is not None and self.around is not None else ()
        assert wanted is not None  # the segment would have been computed before
        same = 0
        while same < min(len(wanted), len(self.open)) and wanted[same] == self.open[same][0]:
            same += 1
        while len(self.open) > same:
            (kind, *_), node, before = self.open.pop()
            self.graph.call_function(_ENDS[kind], (node,))
            grad = before if kind == "inference" else grad  # the end of autocast leaves grad mode as it is
        for kind, *args in wanted[same:]:
            node = self.graph.call_function(_BEGINS[kind], tuple(args))
            self.open.append(((kind, *args), node, grad))
            grad = not args[0] if kind == "inference" else grad
        return grad


class _Building:
    """A graph with its inputs so far."""

    def __init__(self, segment: Segment, mode: FakeTensorMode) -> None:
        self.segment, self.mode = segment, mode
        self.graph = fx.Graph()
        self.nodes: dict[int, fx.Node] = {}
        self.inputs: list[Input] = []
        self.symbols: dict[str, fx.Node] = {}
        self.marked: list[tuple[str, int, Any]] = []  # dimensions that are to be dynamic: (of what, which, its size)
        self.inner: dict[str, tuple[_Building, Body]] = {}  # the graphs within, by the names of the attributes that hold them

    def fill(
        self, calls: Sequence[Call], grad: bool, around: tuple[Any, ...] | None, sources: Callable[[Any], str | None]
    ) -> None:
        """Add nodes for calls, inside a state of the thread."""
        graph, outer = self.graph, grad
        opened = _Blocks(graph, around)
        for call in calls:
            grad = opened.enter(call, grad)
            if call.grad is not grad:
                grad = call.grad
                graph.call_function(torch._C._set_grad_enabled, (grad,))
            if not self.size(call):
                self.add(call, sources)
        grad = opened.enter(None, grad)
        if grad is not outer:
            graph.call_function(torch._C._set_grad_enabled, (outer,))

    def body(self, body: Body, name: str, sources: Callable[[Any], str | None]) -> fx.Node:
        """The attribute that holds the graph of a function that a call is given."""
        inner = _Building(self.segment, self.mode)
        for number in body.inputs:
            outside = self.nodes.get(number)
            node = inner._placeholder(Input(-1), "grad" if outside is None else outside.name, None, None)
            node.target, inner.nodes[number] = node.name, node
        inner.fill(body.calls, body.grad, body.environment, sources)
        inner.graph.output(thawed(body.outputs, inner.nodes.__getitem__))
        _drop_unused_items(inner.graph)
        place = next(f"{name}_{i}" for i in itertools.count() if f"{name}_{i}" not in self.inner)
        self.inner[place] = inner, body
        return self.graph.get_attr(place)

    def stand_within(self, functions: list[Any]) -> None:
        """Note at the nodes which calls, from without, they are in."""
        for node in self.graph.nodes:
            if "source_fn_stack" in node.meta:
                node.meta["source_fn_stack"] = [*functions, *node.meta["source_fn_stack"]]
        for inner, _ in self.inner.values():
            inner.stand_within(functions)

    def module(self) -> fx.GraphModule:
        """The graph, and those within, as a module."""
        root = torch.nn.Module()
        for name, (inner, _) in self.inner.items():
            root.add_module(name, inner.module())
        return fx.GraphModule(root, self.graph)

    def add_examples(self) -> None:
        """Give nodes the tensors without data that they stand for."""
        grad, before, nesting = torch.is_grad_enabled(), environment.current(), local.autocast_nesting
        try:
            for node in self.graph.nodes:
                if node.op in ("call_function", "call_method"):
                    made = self._example(node)
                    if made is not None:
                        node.meta["example_value"] = made
        finally:
            environment.switch(before)
            environment.leave_autocast(nesting)
            torch.set_grad_enabled(grad)

    def _example(self, node: fx.Node) -> Any:
        modules: dict[str, Any] = {}
        likes: dict[int, fx.Node] = {}
        for function in node.args:
            if isinstance(function, fx.Node) and function.op == "get_attr":
                inner, body = self.inner[str(function.target)]
                for number, placeholder in inner.nodes_of_inputs(body):
                    like = likes.get(number) or self.nodes.get(number) or likes[body.likes[number]]
                    placeholder.meta["example_value"] = like.meta.get("example_value")
                inner.add_examples()
                likes.update(inner.nodes)
                modules[str(function.target)] = inner.module()
        args, kwargs = fx.node.map_arg(
            (node.args, node.kwargs),
            lambda n: modules[n.target] if n.op == "get_attr" else n.meta.get("example_value"),  # type: ignore[index, return-value]
        )
        call = node.target
        if call is torch.ops.higher_order.tag_activation_checkpoint:
            call, kwargs = torch.ops.higher_order.wrap, {}  # nothing is computed twice here
        if not callable(call):  # what FakeTensor has of its own says sizes as symbols
            call = getattr(type(args[0]) if call in ("size", "numel") else torch.Tensor, call)
        with self.mode:
            return call(*args, **kwargs)

    def nodes_of_inputs(self, body: Body) -> list[tuple[int, fx.Node]]:
        """The inputs' numbers and placeholders, if this is the graph of a body."""
        return list(zip(body.inputs, self.graph.find_nodes(op="placeholder"), strict=True))

    def input(self, at: int, source: str) -> None:
        """The placeholder of a value from outside; before it, those of the symbols that it is the first to have."""
        outside, env = self.segment.outside, self.mode.shape_env
        if at >= len(outside):
            number, value = self.segment.ints[at - len(outside)]
            symbol = env.create_symintnode(env.create_symbol(int(value), Source(source), positive=None), hint=int(value))
            self.nodes[number] = self._placeholder(Input(at), placeholder_name(source), torch.SymInt, symbol)
            self.symbols.setdefault(str(symbol), self.nodes[number])
            return
        number, tensor, _, _ = outside[at]
        dims = self.segment.dynamic.get(number)
        if dims is None:
            example = self.mode.from_tensor(tensor, static_shapes=True)
        else:
            kinds = [DimDynamic.DUCK if dim in dims else DimDynamic.STATIC for dim in range(tensor._layout.ndim)]
            example = self.mode.from_tensor(
                tensor, static_shapes=False, source=source, symbolic_context=StatelessSymbolicContext(kinds)
            )
            for dim in sorted(dims):
                size = example.shape[dim]
                if str(size) not in self.symbols:
                    self.symbols[str(size)] = self._placeholder(Input(at, dim), str(size), torch.SymInt, size)
                if dim in tensor.__dict__.get("_dynamo_dynamic_indices", ()):
                    self.marked.append((source, dim, size))
        node = self.nodes[number] = self._placeholder(Input(at), placeholder_name(source), _annotation(tensor), example)
        kept = ("_dynamo_static_input_type", "tag")
        node.meta["tensor_dict"] = {key: tensor.__dict__[key] for key in kept if key in tensor.__dict__}

    def _placeholder(self, given: Input, name: str, kind: Any, example: Any) -> fx.Node:
        node = self.graph.placeholder(name, type_expr=kind)
        node.name = self.graph._graph_namespace.create_name(name.lower(), node)
        node.meta["example_value"] = example
        self.inputs.append(given)
        return node

    def size(self, call: Call) -> bool:
        """Take in a call that reads or computes a size; False for others."""
        if call.function not in SIZES:
            return False
        args = thawed(call.args, self.nodes.__getitem__)
        if call.function is size_of and args[0].op == "placeholder" and args[0].meta["example_value"] is not None:
            node = self.symbols.get(str(args[0].meta["example_value"].shape[args[1]]))
        else:
            node = None
        if node is None and call.function is size_of:
            node = self.graph.call_method("size", args)
        elif node is None and call.function is numel_of:
            node = self.graph.call_method("numel", args)
        self.nodes[call.made[0][1]] = self.graph.call_function(call.function, args) if node is None else node
        return True

    def add(self, call: Call, sources: Callable[[Any], str | None]) -> None:
        """The node of another call, and those of the items of its result."""
        graph, nodes = self.graph, self.nodes
        args, kwargs = thawed(call.args, nodes.__getitem__), thawed(call.kwargs, nodes.__getitem__)
        if isinstance(call.function, HigherOrderOperator):
            prefixes = _NAMES_OF_BODIES.get(call.function.__name__, ("wrap_body",))
            bodies = [self.body(x, name, sources) for x, name in zip(args, prefixes)]
            args = (*bodies, *args[len(bodies) :])
        kind, target, args = spelled(call.function, call.places, args)
        node = graph.create_node(kind, target, args, kwargs)
        _describe(node, call.places, sources)
        for given in args:
            if isinstance(given, fx.Node) and given.target in self.inner:
                self.inner[str(given.target)][0].stand_within(node.meta["source_fn_stack"])
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

    def finish(self) -> None:
        """Sizes that turned out to be numbers, or inputs, are these."""
        for node in list(self.graph.find_nodes(op="call_method", target="size")):
            if len(node.args) != 2:
                continue
            example = node.meta.get("example_value")
            instead = example if example.__class__ is int else self.symbols.get(str(example))
            if instead is not None:
                for user in list(node.users):
                    user.args, user.kwargs = fx.node.map_arg((user.args, user.kwargs), _replacing(node, instead))
                self.graph.erase_node(node)
        for source, dim, size in self.marked:
            if size.__class__ is int or self.mode.shape_env.replace(size.node._expr).is_number:
                where = f"{source}.size()[{dim}]"
                raise ConstraintViolationError(
                    f'Constraints violated ({where})! For more information, run with TORCH_LOGS="+dynamic".\n'
                    f"  - You marked {where} as dynamic but your code specialized it to be a constant ({size}). If you're using "
                    "mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with "
                    "either Dim.STATIC or Dim.AUTO."
                )


def _replacing(node: fx.Node, instead: Any) -> Callable[[fx.Node], Any]:
    """A function that gives another value for a node, and other nodes as they are."""
    return lambda x: instead if x is node else x


def _annotation(tensor: Tensor) -> Any:
    return torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor


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


@contextlib.contextmanager
def _example_mode(symbols: bool) -> Iterator[FakeTensorMode]:
    """A mode for examples that no other thread is in; with symbols for sizes if that is wanted."""
    if symbols:
        yield FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        return
    try:
        mode = _modes.pop()
    except IndexError:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.fake_tensor_converter = FakeTensorConverter()
    try:
        yield mode
    finally:
        _modes.append(mode)
