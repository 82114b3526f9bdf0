"""torch.fx._lazy_graph_module: the class of graph modules that tracers make.

PyTorch can put off writing the code until it is needed; here it is written at once, which costs well under a millisecond.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.fx.graph_module import GraphModule

_use_lazy_graph_module_flag = False
_force_skip_lazy_graph_module_flag = False


class _LazyGraphModule(GraphModule):
    """A GraphModule; its code is always up to date."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """The graph module itself."""
        return gm

    @staticmethod
    def force_recompile(gm: GraphModule) -> None:
        """Nothing is left to do."""

    def real_recompile(self) -> None:
        """Nothing is left to do."""

    @classmethod
    def _needs_recompile(cls) -> bool:
        return False


@contextlib.contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _force_skip_lazy_graph_module() -> Iterator[None]:
    yield


def _get_graph_module_cls() -> type[GraphModule]:
    return GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> GraphModule:
    return (graph_module_cls or GraphModule)(*args, **kwargs)
