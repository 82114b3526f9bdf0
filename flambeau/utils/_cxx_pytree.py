"""torch.utils._cxx_pytree: pytrees by the package optree, which is written in C++; without it importing this raises ImportError.

Containers are those of `utils._pytree`: what is registered there, before or after this module is imported, is registered in
optree's namespace "torch" too. None is a leaf, and a dict keeps its order. Stands on _pytree and optree; used by programs that
ask for it, never by flambeau itself.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from flambeau.core.operator import return_types
from flambeau.utils import _pytree as python_pytree
from flambeau.utils._pytree import Context as Context
from flambeau.utils._pytree import DumpableContext as DumpableContext
from flambeau.utils._pytree import (
    FlattenFn,
    FlattenWithKeysFn,
    FnAny,
    FromDumpableContextFn,
    KeyPath,
    PyTree,
    ToDumpableContextFn,
    TypeAny,
    UnflattenFn,
    map_only,
)
from flambeau.utils._pytree import is_namedtuple as is_namedtuple
from flambeau.utils._pytree import is_namedtuple_class as is_namedtuple_class
from flambeau.utils._pytree import is_namedtuple_instance as is_namedtuple_instance
from flambeau.utils._pytree import is_structseq as is_structseq
from flambeau.utils._pytree import is_structseq_class as is_structseq_class
from flambeau.utils._pytree import is_structseq_instance as is_structseq_instance

_ABSENT = (
    "torch.utils._cxx_pytree depends on `optree>=0.13.0`, which is an optional dependency of PyTorch. To use it, please "
    "upgrade your optree package via `python3 -m pip install --upgrade optree`"
)
try:
    import optree
except ImportError as error:
    raise ImportError(_ABSENT) from error
if tuple(map(int, optree.__version__.split(".")[:2])) < (0, 13):
    raise ImportError(_ABSENT)

__all__ = list(python_pytree.__all__)

if TYPE_CHECKING:
    PyTreeSpec: TypeAlias = Any
    TreeSpec: TypeAlias = Any
else:
    PyTreeSpec = TreeSpec = optree.PyTreeSpec
FlattenFunc, UnflattenFunc, FlattenWithKeysFunc = FlattenFn, UnflattenFn, FlattenWithKeysFn
_OPTIONS: dict[str, Any] = {"none_is_leaf": True, "namespace": "torch"}
_NO_PATHS = "KeyPaths are not yet supported in cxx_pytree."
# Containers that optree knows by itself.
_NATIVE = (tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque)

_in_order = optree.dict_insertion_ordered(True, namespace="torch")
_in_order.__enter__()  # for good, in this namespace; kept, since it ends where nobody holds it


# ---------------------------------------------------------------- the table


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """`_pytree.register_pytree_node`, for both kinds of pytrees; NotImplementedError for flatten_with_keys_fn."""
    if flatten_with_keys_fn is not None:
        raise NotImplementedError(_NO_PATHS)
    _in_optree(cls, flatten_fn, unflatten_fn)
    python_pytree._private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
    )


def _register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
) -> None:
    """The deprecated form of register_pytree_node, for these pytrees alone."""
    warnings.warn(
        "`torch.utils._cxx_pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._cxx_pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    _in_optree(cls, flatten_fn, unflatten_fn)


def _private_register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
) -> None:
    """Make a class a container of these pytrees alone."""
    _in_optree(cls, flatten_fn, unflatten_fn)


def _in_optree(cls: Any, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn) -> None:
    if cls not in _NATIVE and not optree.is_structseq_class(cls):
        optree.register_pytree_node(cls, flatten_fn, lambda context, children: unflatten_fn(children, context), namespace="torch")


for _result in [getattr(return_types, name) for name in return_types.__all__]:
    if _result not in python_pytree.SUPPORTED_NODES:
        python_pytree._register_named_result(_result)
for _definition in list(python_pytree.SUPPORTED_NODES.values()):
    _in_optree(_definition.type, _definition.flatten_fn, _definition.unflatten_fn)
python_pytree._nodes_followers.append(_in_optree)


# ---------------------------------------------------------------- structures


def _check_spec(treespec: Any) -> None:
    if not isinstance(treespec, (TreeSpec, python_pytree.TreeSpec)):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return optree.treespec_leaf(**_OPTIONS)


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of trees of these structures."""
    return optree.treespec_tuple(iterable, **_OPTIONS)


def treespec_dict(mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of trees of these structures."""
    return optree.treespec_dict(mapping, **kwargs, **_OPTIONS)


class _LeafSpecType(type(optree.PyTreeSpec)):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (TreeSpec, python_pytree.TreeSpec)) and instance.is_leaf()


class LeafSpec(optree.PyTreeSpec, metaclass=_LeafSpecType):
    """The structure of a leaf; deprecated: ask `treespec.is_leaf()`."""

    def __new__(cls) -> Any:
        return treespec_leaf()


# ---------------------------------------------------------------- apart and together


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether it is no container, or is_leaf says so."""
    return optree.tree_is_leaf(tree, is_leaf=is_leaf, **_OPTIONS)


def tree_flatten(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """(leaves from left to right, structure)."""
    return optree.tree_flatten(tree, is_leaf=is_leaf, **_OPTIONS)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The inverse of tree_flatten. Raises TypeError for what is no TreeSpec."""
    _check_spec(treespec)
    if isinstance(treespec, TreeSpec):
        return optree.tree_unflatten(treespec, leaves)
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Iterable[Any]:
    """The leaves one by one."""
    return optree.tree_iter(tree, is_leaf=is_leaf, **_OPTIONS)


def tree_leaves(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return optree.tree_leaves(tree, is_leaf=is_leaf, **_OPTIONS)


def tree_structure(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> TreeSpec:
    """The structure."""
    return optree.tree_structure(tree, is_leaf=is_leaf, **_OPTIONS)


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    """The tree of func(leaf, ...) for each leaf and what stands in its place in the other trees."""
    return optree.tree_map(func, tree, *rests, is_leaf=is_leaf, **_OPTIONS)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    """Call func for each leaf; returns the tree as it is."""
    return optree.tree_map_(func, tree, *rests, is_leaf=is_leaf, **_OPTIONS)


def tree_map_only(
    type_or_types_or_pred: TypeAny | Callable[[Any], bool],
    /,
    func: FnAny[Any],
    tree: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """tree_map of the leaves of some types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: TypeAny | Callable[[Any], bool],
    /,
    func: FnAny[Any],
    tree: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """tree_map_ of the leaves of some types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether the predicate holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether the predicate holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: TypeAny, /, pred: FnAny[bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether the predicate holds for all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: TypeAny, /, pred: FnAny[bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether the predicate holds for a leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def broadcast_prefix(prefix_tree: PyTree, full_tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[Any]:
    """The leaves of a tree that may be less deep than another, each as often as that one has leaves in its place.

    Raises ValueError if the tree doesn't fit.
    """
    found: list[Any] = []
    tree_map_(
        lambda leaf, part: found.extend([leaf] * tree_structure(part, is_leaf).num_leaves),
        prefix_tree,
        full_tree,
        is_leaf=is_leaf,
    )
    return found


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: Callable[[PyTree], bool] | None = None
) -> list[Any] | None:
    """broadcast_prefix over a tree of that structure; None if the tree doesn't fit."""
    _check_spec(treespec)
    try:
        return broadcast_prefix(tree, tree_unflatten([0] * treespec.num_leaves, treespec), is_leaf)
    except ValueError:
        return None


# ---------------------------------------------------------------- structures as text


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as JSON, as `_pytree` writes it."""
    _check_spec(treespec)
    return python_pytree.treespec_dumps(
        python_pytree.tree_structure(tree_unflatten([0] * treespec.num_leaves, treespec)), protocol
    )


@functools.lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that treespec_dumps wrote."""
    spec = python_pytree.treespec_loads(serialized)
    return tree_structure(spec.unflatten([0] * spec.num_leaves))


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as its tree is printed, with asterisks for leaves."""
    return repr(tree_unflatten([python_pytree._Asterisk("*")] * treespec.num_leaves, treespec))


# ---------------------------------------------------------------- paths, which PyTorch hasn't here


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """NotImplementedError, as in PyTorch."""
    raise NotImplementedError(_NO_PATHS)


def tree_leaves_with_path(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[tuple[KeyPath, Any]]:
    """NotImplementedError, as in PyTorch."""
    raise NotImplementedError(_NO_PATHS)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> PyTree:
    """NotImplementedError, as in PyTorch."""
    raise NotImplementedError(_NO_PATHS)


def keystr(kp: KeyPath) -> str:
    """NotImplementedError, as in PyTorch."""
    raise NotImplementedError(_NO_PATHS)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """NotImplementedError, as in PyTorch."""
    raise NotImplementedError(_NO_PATHS)
