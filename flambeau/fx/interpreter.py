"""Running a graph node by node, to be overridden: Interpreter gives values, Transformer another graph.

Stands on fx.graph_module and fx.proxy.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flambeau as torch
from flambeau.fx import traceback as fx_traceback
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Argument, Node, Target, map_aggregate, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.nn import Module

__all__ = ["Interpreter", "Transformer"]

log = logging.getLogger(__name__)
_NO_DEFAULT = inspect.Signature.empty


class Interpreter:
    """Interpreter(module).run(*args) computes what module(*args) does, one node at a time.

    Each kind of node has a method of its own, with the node's target and the values of its arguments.
    garbage_collect_values: values are dropped behind their last use; graph: another graph than module.graph.
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            seen: set[Node] = set()
            self.user_to_last_uses: dict[Node, list[Node]] = {}
            for node in reversed(self.graph.nodes):
                for used in node._input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """What the graph returns for the arguments. initial_env: values of nodes that are not to be run.

        Raises what a node raises, with a line that says which.
        """
        self.env = initial_env if initial_env is not None else {}
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._say_where(error, node)
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, []):
                    self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def _say_where(self, error: Exception, node: Node) -> None:
        text = f"While executing {node.format_node()}"
        text = f"{error.args[0]}\n\n{text}" if error.args else str(text)
        text += f"\nOriginal traceback:\n{node.stack_trace}\nUse tlparse to see full graph. "
        text += "(https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured-pt2-logs)"
        error.args = (text, *error.args[1:])
        if isinstance(error, KeyError):
            raise RuntimeError(*error.args) from error

    def boxed_run(self, args_list: list[Any]) -> Any:
        """run(*args_list), but the list is emptied first, so that the inputs can be freed on the way."""
        env = dict(zip(self.graph.find_nodes(op="placeholder"), args_list))
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of one node; those of its inputs are in `env`."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument of run, or the default; all that are left for `*args`."""
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """target(*args, **kwargs)."""
        if isinstance(target, str):
            raise AssertionError(f"Expected callable target, got str: {target}")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """args[0].target(*args[1:], **kwargs)."""
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The submodule called."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What is returned."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The value at a dotted path of the module. Raises RuntimeError if there is none."""
        parts = target.split(".")
        value: Any = self.module
        for i, part in enumerate(parts):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Arguments with the values of the nodes in them."""

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues")
            return self.env[used]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Transformer(module).transform() is the module with a new graph, made by running the old one on proxies."""

    def __init__(self, module: GraphModule) -> None:
        from flambeau.fx._symbolic_trace import Tracer

        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.tensor_attrs: dict[torch.Tensor, str] = {}

            def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A proxy of an input of the new graph."""
        default = next(iter(args)) if args else _NO_DEFAULT
        extra = () if default is _NO_DEFAULT else (default,)
        return self.tracer.create_proxy("placeholder", str(target), extra, {})

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A proxy of an attribute."""
        return self.tracer.create_proxy("get_attr", str(target), args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The submodule called on proxies: a node where the tracer takes it for a leaf, which is always so by default."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A node of the call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The transformed module."""
        from flambeau.fx._lazy_graph_module import _make_graph_module

        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(a: Any) -> Any:
                return a.node if isinstance(a, Proxy) else a

            made = self.new_graph.output(map_aggregate(result, strip))
            old = self.graph.output_node()
            for name, value in old.meta.items():
                made.meta.setdefault(name, value)
        return _make_graph_module(self.module, self.new_graph)
