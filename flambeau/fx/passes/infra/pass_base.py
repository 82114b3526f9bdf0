"""A pass: a class whose `call` changes a graph module."""

from __future__ import annotations

import abc
from typing import NamedTuple

from flambeau.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass made, and whether it changed anything."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """To be subclassed with `call`; `requires` and `ensures` may check the module before and behind it."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - checks are optional
        """Raise for a module that the pass can't work on."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise if the pass didn't do what it should."""
