"""torch.fx._pytree: the leaves of a container by the structure that another of its kind had.

Used by the generated code of graphs whose inputs are containers. Stands on utils._pytree.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.utils._pytree import PyTree, TreeSpec, tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

FlattenFuncSpec = Callable[[PyTree, TreeSpec], list]
FlattenFuncExactMatchSpec = Callable[[PyTree, TreeSpec], bool]
FlattenFnSpec, FlattenFnExactMatchSpec = FlattenFuncSpec, FlattenFuncExactMatchSpec

SUPPORTED_NODES: dict[type[Any], FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type[Any], FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type[Any], flatten_fn_spec: FlattenFuncSpec, flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None
) -> None:
    """Say how the children of a container are listed by a spec, and how to tell whether it fits the spec exactly."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type[Any]) -> None:
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of `pytree` in the order of `spec`, whose keys and lengths it must have. RuntimeError for a container
    of a program's own with another structure."""
    if spec.is_leaf():
        return [pytree]
    flatten = SUPPORTED_NODES.get(spec.type)
    if flatten is None:  # a program's own container
        leaves, found = tree_flatten(pytree)
        if found != spec:
            raise RuntimeError(f"Real spec {found} of object {pytree} is different from expected spec {spec}.")
        return leaves
    leaves = []
    for child, child_spec in zip(flatten(pytree, spec), spec.children()):
        leaves += tree_flatten_spec(child, child_spec)
    return leaves


def _dict_flatten_spec(d: dict, spec: TreeSpec) -> list[Any]:
    return [d[key] for key in spec.context]


def _items_flatten_spec(d: Any, spec: TreeSpec) -> list[Any]:
    return [d[i] for i in range(spec.num_children)]


def _dict_flatten_spec_exact_match(d: dict, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


_items_exact_match = _dict_flatten_spec_exact_match

register_pytree_flatten_spec(dict, _dict_flatten_spec, _dict_flatten_spec_exact_match)
register_pytree_flatten_spec(list, _items_flatten_spec, _items_exact_match)
register_pytree_flatten_spec(tuple, _items_flatten_spec, _items_exact_match)
register_pytree_flatten_spec(namedtuple, _items_flatten_spec, _items_exact_match)  # type: ignore[arg-type]
for _name in dir(torch.return_types):
    _kind = getattr(torch.return_types, _name)
    if isinstance(_kind, type) and issubclass(_kind, tuple):
        register_pytree_flatten_spec(_kind, _items_flatten_spec, _items_exact_match)
