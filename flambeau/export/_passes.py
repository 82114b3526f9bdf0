"""Passes over exported programs that run the graph again: subclasses say what becomes of each call.

`ExportPass` interprets a graph on the fake tensors of its inputs and records a new one; a method for each kind of call is where a
pass changes what it is about. Stands on fx's tracer and on symbolic sizes; programs know it as torch._export.pass_base and
torch._export.passes.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau._subclasses.symbolic.run import run
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload
from flambeau.export._decompose import SIZES
from flambeau.fx.experimental.proxy_mode import PythonKeyTracer
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.fx.proxy import Proxy

__all__ = ["ExportPass", "NodeMetadata", "ProxyValue", "ViewsAsCopies", "get_view_copy_of_view_op", "is_view_op", "view_copy_of"]


class NodeMetadata:
    """What a node says besides its call."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = dict(data)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def copy(self) -> NodeMetadata:
        """Another with the same entries."""
        return NodeMetadata(self.data)


class ProxyValue:
    """A value of the old graph as a pass sees it: `data`, on fake tensors, and `proxy`, what stands for it in the new graph."""

    def __init__(self, data: Any, proxy: Proxy) -> None:
        self.data, self.proxy_or_node = data, proxy

    @property
    def proxy(self) -> Proxy:
        """What stands for it in the new graph."""
        return self.proxy_or_node

    @property
    def node(self) -> Node:
        """Its node in the new graph."""
        return self.proxy_or_node.node

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self.data, torch.Tensor)

    def is_symint(self) -> bool:
        """Whether it is a size with a symbol."""
        return isinstance(self.data, torch.SymInt)

    def to_tensor(self) -> torch.Tensor:
        """The fake tensor."""
        assert isinstance(self.data, torch.Tensor)
        return self.data


def _data(x: Any) -> Any:
    return pytree.tree_map(lambda v: v.data if isinstance(v, ProxyValue) else v, x)


class ExportPass(PassBase):
    """A pass that records the graph again, by what its methods make of each call; by itself it changes nothing."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """The new graph module. RuntimeError for a graph whose inputs say nothing of themselves."""
        inputs = []
        for node in graph_module.graph.find_nodes(op="placeholder"):
            if "val" not in node.meta:
                raise RuntimeError(f"the input {node.name} of the graph has no meta['val']: export it with torch.export.export")
            inputs.append(node.meta["val"])
        return self.call_submodule(graph_module, tuple(inputs))

    def call_submodule(self, graph_module: GraphModule, inputs: tuple[Any, ...]) -> PassResult:
        """The new graph module of a graph, which takes these fake tensors."""
        outer = getattr(self, "_again", None)
        self._again = _Again(self, graph_module)
        try:
            with torch.fx.traceback.preserve_node_meta():
                self._again.run(*_data(inputs))
            graph = self._again.tracer.graph
            made = GraphModule(graph_module, graph)
            for name, module in self._again.modules.items():
                made.add_submodule(name, module)
            made.meta.update(graph_module.meta)
        finally:
            self._again = outer  # type: ignore[assignment]
        return PassResult(made, True)

    # ---- what becomes of each node

    def placeholder(self, name: str, arg: Any, meta: NodeMetadata) -> ProxyValue:
        """An input."""
        return self._again.record("placeholder", name, (), {}, meta, arg)

    def output(self, results: Any, meta: NodeMetadata) -> Any:
        """The results."""
        return self._again.record("output", "output", (tuple(results),), {}, meta, None)

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> ProxyValue:
        """An operator."""
        return self._fx("call_function", op, args, kwargs, meta)

    def call_sym(self, target: Any, args: tuple[Any, ...], meta: NodeMetadata) -> ProxyValue:
        """Arithmetic of sizes."""
        return self._fx("call_function", target, args, {}, meta)

    def call_getitem(self, value: Any, key: int, meta: NodeMetadata) -> ProxyValue:
        """A part of a result."""
        return self._fx("call_function", operator.getitem, (value, key), {}, meta)

    def call_higher_order(
        self, op: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> ProxyValue:
        """An operator that calls graphs, to which the pass is applied as well."""
        for x in args:
            if isinstance(x, ProxyValue) and isinstance(x.data, GraphModule):
                made = self.call(x.data)
                assert made is not None
                self._again.modules[str(x.node.target)] = made.graph_module
        return self._again.record("call_function", op, args, kwargs, meta, self._again.current.meta.get("val"))

    def _fx(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> ProxyValue:
        return self._again.record(kind, target, args, kwargs, meta, self._again.computed(target, _data(args), _data(kwargs)))


class _Again(Interpreter):
    """Runs a graph for a pass, which records another."""

    def __init__(self, own: ExportPass, module: GraphModule) -> None:
        super().__init__(module)
        self.own, self.tracer = own, PythonKeyTracer()
        self.tracer.root, self.tracer.graph, self.tracer.tensor_attrs = torch.nn.Module(), Graph(), {}
        self.modules: dict[str, GraphModule] = {}
        self.current: Node = next(iter(module.graph.nodes))
        values = pytree.tree_leaves([n.meta.get("val") for n in module.graph.nodes])
        self.fake_mode = next((x.fake_mode for x in values if isinstance(x, FakeTensor)), None)

    def run_node(self, n: Node) -> Any:
        """What the pass makes of a node."""
        self.current = n
        meta = NodeMetadata(n.meta)
        if n.op == "placeholder":
            return self.own.placeholder(str(n.target), next(self.args_iter), meta)
        if n.op == "get_attr":
            found = self.fetch_attr(str(n.target))
            return self.record("get_attr", n.target, (), {}, meta, found)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "output":
            return self.own.output(args[0], meta)
        if n.op != "call_function":
            raise RuntimeError(f"a pass over an exported program can't go into {n.op} of {n.target}")
        if n.target is operator.getitem:
            return self.own.call_getitem(args[0], args[1], meta)
        if isinstance(n.target, HigherOrderOperator):
            return self.own.call_higher_order(n.target, args, kwargs, meta)
        if isinstance(n.target, OpOverload):
            return self.own.call_operator(n.target, args, kwargs, meta)
        return self.own.call_sym(n.target, args, meta)

    def computed(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call on fake tensors; symbols that only a run tells keep their names."""
        env = getattr(self.fake_mode, "shape_env", None)
        fresh = self.current.meta.get("unbacked_bindings")
        with self.fake_mode or contextlib.nullcontext(), env.again(fresh) if env and fresh else contextlib.nullcontext():
            if target in SIZES:
                return SIZES[target](*args)
            if isinstance(target, OpOverload):
                return run(target, args, kwargs, env)
            return target(*args, **kwargs)

    def record(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata, data: Any
    ) -> ProxyValue:
        """A node of the new graph, with the name of the old one where it is the same call, and its value."""
        given, named = pytree.tree_map(lambda v: v.proxy if isinstance(v, ProxyValue) else v, (args, kwargs))
        name = self.current.name if target == self.current.target else None
        proxy = self.tracer.create_proxy(kind, target, given, named, name=name)
        proxy.node.meta = {**meta.data, **proxy.node.meta} if kind == "placeholder" else dict(meta.data)
        if kind == "call_function":
            proxy.node.meta["val"] = data
        if name is not None and proxy.node.name != name and all(n.name != name for n in self.tracer.graph.nodes):
            proxy.node.name = name
        return ProxyValue(data, proxy)


# ---------------------------------------------------------------- views


def view_copy_of(op: OpOverload) -> OpOverload | None:
    """The operator that gives a copy of what this one gives a view of; None if it gives none."""
    if not op.is_view or op.namespace != "aten":
        return None
    packet = getattr(torch.ops.aten, f"{op.overloadpacket.__name__}_copy", None)
    return getattr(packet, op._overloadname, None)


def is_view_op(schema: object) -> bool:
    """Whether a schema is that of an operator whose result is a view of its argument."""
    arguments = getattr(schema, "arguments", ())
    return any(a.alias_info is not None and not a.alias_info.is_write for a in arguments)


def get_view_copy_of_view_op(schema: object) -> OpOverload | None:
    """The operator that gives a copy of what the one of this schema gives a view of; None if it gives none."""
    namespace, _, name = str(getattr(schema, "name", "")).partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    return view_copy_of(getattr(packet, getattr(schema, "overload_name", "") or "default")) if is_view_op(schema) else None


class ViewsAsCopies(ExportPass):
    """Copies in the place of views, in a graph without writes."""

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> ProxyValue:
        """A copy for a view; any other operator as it is."""
        copy = view_copy_of(op) if isinstance(op, OpOverload) else None
        return super().call_operator(op if copy is None else copy, args, kwargs, meta)
