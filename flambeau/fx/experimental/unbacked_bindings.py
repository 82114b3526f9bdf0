"""Where in the result of a node a symbol lies that only a run tells: `node.meta["unbacked_bindings"]`, by symbol a path of keys.

Used by the tracers of torch.export; symbolic_shapes has the names for programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

import flambeau.utils._pytree as pytree
from flambeau._subclasses.symbolic.state import kept
from flambeau.base.symbolic.expressions import Expr
from flambeau.base.symbolic.numbers import SymBool, is_symbolic_number
from flambeau.core.tensor.tensor import Tensor
from flambeau.fx.graph import Graph
from flambeau.utils._pytree_nodes import SequenceKey

__all__ = ["CallMethodKey", "ConvertIntKey", "bind_unbacked", "bindings_of"]


@dataclasses.dataclass(frozen=True)
class CallMethodKey:
    """What a method without arguments gives."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}()"

    def get(self, o: Any) -> Any:
        """The value of an object at this key."""
        return getattr(o, self.name)()


@dataclasses.dataclass(frozen=True)
class ConvertIntKey:
    """A truth as 0 or 1."""

    def __str__(self) -> str:
        return ".cast_symbool_to_symint_guardless()"

    def get(self, b: bool) -> int:
        """The value of a truth at this key."""
        return int(b)


Path = tuple[Any, ...]


def bindings_of(value: Any, symbols: Collection[Expr]) -> dict[Expr, Path]:
    """By symbol, where it lies in the result of a node, for those of `symbols` that do."""
    found: dict[Expr, Path] = {}
    for path, leaf in pytree.tree_leaves_with_path(value):
        for key, e in _expressions(leaf):
            if e in symbols:
                found.setdefault(e, (*path, *key))
    return found


def _expressions(leaf: Any) -> Iterator[tuple[Path, Expr]]:
    if isinstance(leaf, SymBool):
        e = leaf.node._expr
        if e.kind == "Eq":
            yield (ConvertIntKey(),), e.args[0]
    elif is_symbolic_number(leaf):
        yield (), leaf.node._expr
    elif isinstance(leaf, Tensor) and (own := kept(leaf)) is not None:
        for method, exprs in (("size", own.sizes), ("stride", own.strides)):
            for i, e in enumerate(exprs):
                yield (CallMethodKey(method), SequenceKey(i)), e
        yield (CallMethodKey("storage_offset"),), own.offset


def bind_unbacked(graph: Graph, env: Any) -> None:
    """Have the nodes of a graph say which symbols come with them for the first time."""
    left = set(env.unbacked)
    for node in graph.nodes:
        found = bindings_of(node.meta.get("val"), left) if node.op == "call_function" else {}
        if found:
            node.meta["unbacked_bindings"] = found
            left -= found.keys()
