"""Sizes in an exported graph: each read once, from the inputs, at the start; and the checks of what only a run tells.

Stands on fx.experimental.size_expressions; used by `_export` when a trace is done.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as torch
from flambeau._subclasses.symbolic.state import kept
from flambeau.base.symbolic.expressions import Expr, as_expr
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.base.symbolic.ranges import decided, int_oo
from flambeau.fx.experimental.size_expressions import lowered
from flambeau.fx.experimental.size_nodes import drop_unused_sizes
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

__all__ = ["settle_inner_sizes", "settle_sizes"]

_aten = torch.ops.aten


def settle_sizes(graph: Graph, env: Any) -> None:
    """Have the sizes of a graph come from its inputs, each computed once, and add the checks of what only a run tells."""
    _Sizes(graph, env).settle()


def settle_inner_sizes(graph: Graph, env: Any) -> None:
    """The same of a graph that an operator calls, whose sizes are computed where the program computes them."""
    _Sizes(graph, env, inner=True).settle()


class _Sizes:
    def __init__(self, graph: Graph, env: Any, inner: bool = False) -> None:
        self.graph, self.env, self.inner = graph, env, inner
        self.nodes: dict[Expr, Node] = {}
        self.read: list[Node] = []
        self.waiting = {s: list(found) for s, found in env.deferred_runtime_asserts.items()}
        self.asserted: set[Expr] = set()
        self.origin: dict[str, Any] = {}

    def settle(self) -> None:
        drop_unused_sizes(self.graph, self.env)
        nodes = list(self.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"]
        start = nodes[len(inputs)]
        with self.graph.inserting_before(start):
            for node in inputs:
                self._of_input(node)
            if not self.inner:
                self._assert_all(None)
        for node, following in zip(nodes[len(inputs) :], nodes[len(inputs) + 1 :]):
            with self.graph.inserting_before(following):
                self.origin = {k: node.meta[k] for k in ("stack_trace", "nn_module_stack") if k in node.meta}
                self._of_call(node)
        for node in reversed(self.read):
            if not node.users:
                self.graph.erase_node(node)

    def _of_input(self, node: Node) -> None:
        value = node.meta.get("val")
        if is_symbolic_number(value):
            self.nodes.setdefault(value.node.expr, node)
        elif isinstance(value, torch.Tensor) and kept(value) is not None:
            for i, e in enumerate(kept(value).sizes):  # as they were named: others may stand for them by now
                if e.is_symbol and e not in self.nodes:
                    self._size(node, i, e, self.env.create_symintnode(e))

    def _size(self, node: Node, dim: int, e: Expr, value: Any) -> None:
        made = self.graph.call_function(_aten.sym_size.int, (node, dim))
        made.meta = {**self.origin, "val": value}
        self.nodes[e] = made
        self.read.append(made)

    def _of_call(self, node: Node) -> None:
        value = node.meta.get("val")
        if is_symbolic_number(value) and self.inner:
            self.nodes.setdefault(value.node.expr, node)
        elif is_symbolic_number(value):
            e = value.node.expr
            known = self.nodes.get(e)
            if known is None and _reads_a_size(node) and e.free_symbols <= self.nodes.keys():
                with self.graph.inserting_before(node):
                    known = lowered(e, self.nodes.get, self._make, self.env)
                    self.nodes[e] = known
            if known is not None:
                node.replace_all_uses_with(known)
                self.graph.erase_node(node)
            elif e.args or e.is_symbol:
                self.nodes[e] = node
        if isinstance(value, (list, tuple)):
            return  # its items have nodes of their own
        for s in _bound_by(node):
            self._assert_known(node, value, s)
        for s in self._defined(value):
            if s not in self.nodes:
                self._bind(node, value, s)
            self._assert_range(s)
            self._assert_all(s)

    def _defined(self, value: Any) -> list[Expr]:
        """The symbols that only a run tells, which come with a value for the first time."""
        found: dict[Expr, None] = {}
        if isinstance(value, torch.Tensor) and kept(value) is not None:
            exprs = [n.node.expr for n in value.shape if is_symbolic_number(n)]
        else:
            exprs = [value.node.expr] if is_symbolic_number(value) else []
        for e in exprs:
            found.update(dict.fromkeys(s for s in e.free_symbols if s in self.env.unbacked and s not in self.asserted))
        self.asserted.update(found)
        return sorted(found, key=lambda s: s.name)

    def _bind(self, node: Node, value: Any, s: Expr) -> None:
        if isinstance(value, torch.SymBool) and s in _bound_by(node):
            self._read_size(node, value, s)
        if isinstance(value, torch.Tensor):
            for i, n in enumerate(value.shape):
                if is_symbolic_number(n) and n.node.expr == s:
                    self._size(node, i, s, n)
                    return

    def _read_size(self, node: Node, value: Any, s: Expr) -> None:
        """The node of a size, or of a truth as a number, that was called `s`, whatever stands for it by now."""
        if isinstance(value, torch.SymBool):
            made = self.nodes[s] = self.graph.call_function(torch.sym_ite, (node, 1, 0))
            made.meta = {**self.origin, "val": self.env.create_symintnode(s)}
            self.read.append(made)
            return
        found = kept(value) if isinstance(value, torch.Tensor) else None
        if found is not None and s in found.sizes:
            self._size(node, found.sizes.index(s), s, self.env.create_symintnode(s))

    # ---- checks

    def _assert_known(self, node: Node, value: Any, s: Expr) -> None:
        """What a number, or a size, must be: the program has learned it from what was done with it."""
        e = self.env.replace(s)
        if e == s or not e.free_symbols <= self.nodes.keys():
            return
        if is_symbolic_number(value) and value.node._expr == s:
            self.nodes[s] = node
        else:
            self._read_size(node, value, s)
        if s not in self.nodes:
            return
        self.asserted.add(s)
        for kind in ("Ge", "Le") if e.is_number else ("Eq",):
            self._assert(Expr(kind, (s, e), integer=False))

    def _assert_range(self, s: Expr) -> None:
        r = self.env.var_to_range[s]
        high = int_oo if r.upper >= sys.maxsize - 1 else r.upper
        if s not in self.nodes:
            return
        for kind, bound in (("Ge", r.lower), ("Le", high)):
            if abs(bound) != int_oo:
                self._assert(Expr(kind, (s, as_expr(bound)), integer=False))

    def _assert_all(self, s: Expr | None) -> None:
        for found in self.waiting.pop(s, []):
            e = found.expr
            if s is None and decided(self.env.simplify(e), self.env.var_to_range):
                continue  # ranges and what stands for symbols say it
            if (
                e.kind in ("Le", "Ge", "Lt", "Gt")
                and s is not None
                and {a.kind for a in e.args} <= {"Symbol", "Integer"}
                and (len(e.free_symbols) == 1)
            ):
                continue  # the range says it
            missing = [x for x in e.free_symbols if x not in self.nodes]
            if missing:
                self.waiting.setdefault(min(missing, key=str), []).append(found)
            elif e not in self.asserted:
                self.asserted.add(e)
                self._assert(e)

    def _assert(self, e: Expr) -> None:
        node = lowered(e, self.nodes.get, self._make, self.env)
        made = self.graph.call_function(
            _aten._assert_scalar.default, (node, f"Runtime assertion failed for expression {e} on node '{node}'")
        )
        made.meta = dict(self.origin)

    def _make(self, function: Callable[..., Any], args: tuple[Any, ...], value: Any) -> Node:
        made = self.graph.call_function(function, args)
        made.meta = {**self.origin, "val": value}
        if is_symbolic_number(value):
            self.nodes.setdefault(value.node.expr, made)
        return made


def _bound_by(node: Node) -> Iterable[Expr]:
    """The symbols that come with a node, or with the list that it is an item of."""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return _bound_by(node.args[0])
    found: Iterable[Expr] = node.meta.get("unbacked_bindings", ())
    return found


def _reads_a_size(node: Node) -> bool:
    return (
        node.op == "call_function"
        and node.target in (_aten.sym_size.int, _aten.sym_stride.int, _aten.sym_storage_offset.default)
        and isinstance(node.args[0], Node)
        and node.args[0].op != "placeholder"
    )
