"""What a backend can do: predicates of nodes. Stands on passes.tools_common; used by partitioners."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau as torch
from flambeau.fx.node import Node
from flambeau.fx.passes.shape_prop import TensorMetadata
from flambeau.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from flambeau.nn import Module

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

SupportedArgumentDTypes = tuple[Sequence[Sequence[torch.dtype]], dict[str, Sequence[torch.dtype]]] | None
SupportDict = Mapping[str, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Says whether a node can be done."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the node can be done."""
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """By the node's target (see get_node_target) and the dtypes of its arguments.

    support_dict: for each target None, or the dtypes that each positional argument and each argument by name may have.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the target is listed, and the arguments' dtypes are; inputs and outputs always can be done."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        args, kwargs = wanted
        for i, dtypes in enumerate(args):
            if len(node.args) <= i:
                return False
            given = node.args[i]
            if isinstance(given, Node) and _get_arg_dtype(given) not in dtypes:
                return False
        for name, dtypes in kwargs.items():
            given = node.kwargs.get(name)
            if isinstance(given, Node) and _get_arg_dtype(given) not in dtypes:
                return False
        return True


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """A predicate as an OperatorSupportBase."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all can do."""
    return create_op_support(lambda submods, node: all(x.is_node_supported(submods, node) for x in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What one of them can do."""
    return create_op_support(lambda submods, node: any(x.is_node_supported(submods, node) for x in op_support))


class OpSupports:
    """Predicates that are often needed."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: torch.dtype) -> OperatorSupportBase:
        """Not what takes a tensor of this dtype."""
        return create_op_support(lambda _, node: all(_get_arg_dtype(a) != dtype for a in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Not the nodes of these names."""
        return create_op_support(lambda _, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]
