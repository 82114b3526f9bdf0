"""The nodes of symbolic numbers in a graph: sizes of tensors, and what a program computes with them, each when it is first used,
or arithmetic at once if it is to be `eager`.

Stands on proxies; used by the tracers of make_fx and of torch.export.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau._subclasses.symbolic.state import kept
from flambeau.base.symbolic.expressions import Expr
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.fx.proxy import Proxy

__all__ = ["SizeNodes", "drop_unused_sizes"]


class SizeNodes:
    """Knows how every expression of a trace comes to be. While `attached` to the ShapeEnv it learns of arithmetic."""

    def __init__(self, tracer: Any, env: Any, eager: bool = False) -> None:
        self.tracer, self.env, self.eager = tracer, env, eager
        self.origins: dict[Expr, Callable[[], Proxy]] = {}
        self.proxies: dict[Expr, Proxy] = {}
        self.calls: dict[int, tuple[Any, Any]] = {}  # by a node's identity: the node, what computes it or its proxy

    def __enter__(self) -> SizeNodes:
        self.env.recorders.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.env.recorders.remove(self)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Context: what is computed here isn't learned of."""
        before, self.env.recorders = self.env.recorders, [r for r in self.env.recorders if r is not self]
        try:
            yield
        finally:
            self.env.recorders = before

    # ---- origins

    def of_tensor(self, tensor: torch.Tensor, proxy: Proxy) -> None:
        """The sizes of a tensor that a proxy stands for may be had from it."""
        found = kept(tensor)
        if found is None:
            return
        for name, exprs in (("sym_size", found.sizes), ("sym_stride", found.strides)):
            for dim, e in enumerate(exprs):
                if not e.is_number:
                    self.origins.setdefault(e, lambda n=name, d=dim: self._read(n, proxy, d))  # type: ignore[misc]
        if not found.offset.is_number:
            self.origins.setdefault(found.offset, lambda: self._read("sym_storage_offset", proxy))

    def of_number(self, number: Any, proxy: Proxy) -> None:
        """A number that a proxy stands for."""
        proxy.node.meta["val"] = number
        self.proxies.setdefault(number.node._expr, proxy)

    def _read(self, name: str, proxy: Proxy, dim: int | None = None) -> Proxy:
        packet = getattr(torch.ops.aten, name)
        overload, args = (packet.default, (proxy,)) if dim is None else (packet.int, (proxy, dim))
        made = self.tracer.create_proxy("call_function", overload, args, {})
        value = proxy.node.meta["val"]
        reading = {"sym_size": "size", "sym_stride": "stride", "sym_storage_offset": "storage_offset"}[name]
        made.node.meta["val"] = getattr(value, reading)(*([] if dim is None else [dim]))
        return made  # type: ignore[no-any-return]

    def computed(self, number: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """A number was computed by a function."""
        e = number.node._expr
        if not e.args and not e.is_symbol:
            return
        self.calls[id(number.node)] = number.node, lambda: self._call(number, function, args)
        if self.eager:
            self.proxy(number)

    def asserted(self, number: Any) -> None:
        """A condition is asserted: it is in the graph from here on."""
        self.proxy(number)

    def _call(self, number: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> Proxy:
        given = [self.tracer.unwrap_proxy(a) if isinstance(a, torch.Tensor) else self.proxy(a) for a in args]
        arguments = (given,) if function is torch.sym_sum else (*given, None) if function is round else tuple(given)
        made = self.tracer.create_proxy("call_function", function, arguments, {})
        made.node.meta["val"] = number
        return made  # type: ignore[no-any-return]

    # ---- use

    def proxy(self, number: Any) -> Any:
        """The proxy of a symbolic number; a number where no symbol is left in it, and anything else as it is."""
        if not is_symbolic_number(number):
            return number
        e, known = number.node._expr, number.node.expr
        if known.is_number or known.kind in ("true", "false"):
            return known.kind == "true" if known.kind in ("true", "false") else number.node.pytype(known.value)
        own = self.calls.get(id(number.node))
        if own is not None:  # computed by the program: a node of its own, though another may be equal
            made = own[1] if isinstance(own[1], Proxy) else own[1]()
            self.calls[id(number.node)] = number.node, made
            self.proxies.setdefault(e, made)
            return made
        for key in (e, known):
            if key in self.proxies:
                return self.proxies[key]
        origin = self.origins.get(e) or self.origins.get(known)
        made = self._composed(known, number) if origin is None else origin()
        self.proxies[e] = made
        return made

    def _composed(self, e: Expr, number: Any) -> Proxy:
        """An expression that nobody computed as such, from its parts."""
        from flambeau.fx.experimental.size_expressions import lowered

        def node_of(part: Expr) -> Any:
            found = self.proxies.get(part)
            if found is None and part in self.origins:
                found = self.proxies[part] = self.origins[part]()
            return found

        return lowered(e, node_of, self._made, self.env)

    def _made(self, function: Callable[..., Any], args: tuple[Any, ...], value: Any) -> Proxy:
        made = self.tracer.create_proxy("call_function", function, args, {})
        made.node.meta["val"] = value
        return made  # type: ignore[no-any-return]

    def drop_unused(self) -> None:
        """Erase numbers that are computed and not used."""
        drop_unused_sizes(self.tracer.graph, self.env)


def drop_unused_sizes(graph: Any, env: Any) -> None:
    """Erase the nodes of symbolic numbers that aren't used, but for those that only a run tells."""
    for node in reversed(list(graph.nodes)):
        value = node.meta.get("val")
        if node.op != "call_function" or node.users or not is_symbolic_number(value):
            continue
        if value.node._expr not in env.unbacked and "unbacked_bindings" not in node.meta:
            graph.erase_node(node)
