"""torch.utils._pytree: nested containers as a list of leaves and a TreeSpec.

Lists, tuples, named tuples, dicts, ordered and default dicts, deques and named results are containers; others can be
registered (`_pytree_nodes`). Stands on that table alone.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flambeau.utils import _pytree_nodes
from flambeau.utils._pytree_nodes import (
    BUILTIN_TYPES,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    Context,
    DumpableContext,
    EnumEncoder,
    FlattenFn,
    FnAny,
    FromDumpableContextFn,
    KeyPath,
    PyTree,
    ToDumpableContextFn,
    TypeAny,
    UnflattenFn,
    _get_node_type,
    enum_object_hook,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_pytree_node,
    type_test,
)

__all__ = [
    "PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn",
    "FromDumpableContextFn", "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node",
    "tree_is_leaf", "tree_flatten", "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves",
    "tree_leaves_with_path", "tree_structure", "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_all", "tree_any", "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads",
    "treespec_pprint", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq",
    "is_structseq_class", "is_structseq_instance",
]  # fmt: skip

globals().update((name, value) for name, value in vars(_pytree_nodes).items() if not name.startswith("__"))
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


# ---------------------------------------------------------------- structures


class TreeSpec:
    """The structure of a tree.

    Attributes: type (None of a leaf), context, num_leaves, num_nodes, num_children. Raises through unflatten and
    flatten_up_to a ValueError where leaves or trees don't fit.
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_leaves = 1 if type is None else sum([child.num_leaves for child in children_specs])
        self.num_nodes = 1 + sum([child.num_nodes for child in children_specs])

    @property
    def context(self) -> Any:
        """What a container is made from beside its children."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The children's structures; deprecated: use children() or child(index)."""
        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a single child, or "
            "`treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Whether it stands for a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        indent += 2
        children = (",\n" + " " * indent).join(child.__repr__(indent) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self._context == other._context and self._children == other._children

    def __hash__(self) -> int:
        if self.type is None:
            return hash(None)
        context: Any = self._context
        if self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        elif self.type in (dict, OrderedDict):
            context = tuple(context)
        try:
            return hash((self.type, context, tuple(self._children)))
        except TypeError:  # a context of a registered type that can't be hashed
            return hash((self.type, repr(context), tuple(self._children)))

    def __reduce__(self) -> Any:
        return (LeafSpec, ()) if self.type is None else (TreeSpec, (self.type, self._context, self._children))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a tree that stand where this structure has its leaves.

        Raises ValueError if the tree is built otherwise.
        """
        found: list[Any] = []
        self._collect(tree, found)
        return found

    def _collect(self, tree: Any, found: list[Any]) -> None:
        if self.type is None:
            found.append(tree)
            return
        for spec, child in zip(self._children, self._children_of(tree)):
            spec._collect(child, found)

    def _children_of(self, tree: Any) -> list[Any]:
        """The children of a tree in this structure's order, after its type, number of children and context are checked."""
        kind = _get_node_type(tree)
        if self.type not in BUILTIN_TYPES:
            if kind is not self.type:
                raise ValueError(f"Type mismatch; expected {self.type!r}, but got {kind!r}.")
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            self._check_arity(len(children))
            if context != self._context:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
            return children
        dicts = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind is not self.type and not dicts:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        self._check_arity(len(tree))
        if dicts:
            return self._values_in_order(tree)
        if self.type is namedtuple and type(tree) is not self._context:
            raise ValueError(f"Node context mismatch; expected {self._context!r}, but got {type(tree)!r}.")
        return SUPPORTED_NODES[kind].flatten_fn(tree)[0]

    def _check_arity(self, found: int) -> None:
        if found != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {found}.")

    def _values_in_order(self, tree: Any) -> list[Any]:
        wanted = self._context[1] if self.type is defaultdict else self._context
        if set(wanted) != set(tree):
            missing, extra = set(wanted) - set(tree), set(tree) - set(wanted)
            said = [f"missing key(s): {missing}"] * bool(missing) + [f"extra key(s): {extra}"] * bool(extra)
            raise ValueError(f"Node keys mismatch; {'; '.join(said)}.")
        return [tree[key] for key in wanted]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves. Raises ValueError if their number is wrong."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([child._build(leaves) for child in self._children], self._context)


class _LeafSpecType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        warnings.warn(
            "`isinstance(treespec, LeafSpec)` is deprecated, use `isinstance(treespec, TreeSpec) and treespec.is_leaf()` "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        return isinstance(instance, TreeSpec) and instance.type is None


class LeafSpec(TreeSpec, metaclass=_LeafSpecType):
    """The structure of a leaf. Asking `isinstance` of it is deprecated: `treespec.is_leaf()` answers the same."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF_SPEC = LeafSpec()
PyTreeSpec = TreeSpec


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of trees of these structures. Raises ValueError for what is none."""
    children = list(iterable)
    if any(not isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpecs, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of trees of these structures. Raises ValueError for what is none."""
    given = dict(mapping, **kwargs)
    if any(not isinstance(child, TreeSpec) for child in given.values()):
        raise ValueError(f"Expected a dictionary of TreeSpecs, got: {given!r}.")
    return TreeSpec(dict, list(given), list(given.values()))


def _is_constant_holder(spec: TreeSpec) -> bool:
    """Whether it is the structure of a constant."""
    return is_constant_class(spec.type)


def _retrieve_constant(spec: TreeSpec) -> Any:
    """The constant of whose structure it is."""
    return spec.unflatten([])


# ---------------------------------------------------------------- apart and together


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether it is no container, or is_leaf says so."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """(leaves from left to right, structure)."""
    leaves: list[Any] = []
    spec = _flatten(tree, is_leaf, leaves)
    return leaves, spec


def _flatten(tree: Any, is_leaf: Callable[[PyTree], bool] | None, leaves: list[Any]) -> TreeSpec:
    # a function inside tree_flatten that calls itself would keep the leaves until the collector comes
    if is_leaf is None or not is_leaf(tree):
        kind = _get_node_type(tree)
        definition = SUPPORTED_NODES.get(kind)
        if definition is not None:
            children, context = definition.flatten_fn(tree)
            return TreeSpec(kind, context, [_flatten(child, is_leaf, leaves) for child in children])
    leaves.append(tree)
    return _LEAF_SPEC


def _check_spec(treespec: Any) -> None:
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The inverse of tree_flatten. Raises TypeError for what is no TreeSpec."""
    _check_spec(treespec)
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return list(tree_iter(tree, is_leaf))


def tree_iter(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Iterator[Any]:
    """The leaves one by one."""
    if is_leaf is None or not is_leaf(tree):
        definition = SUPPORTED_NODES.get(_get_node_type(tree))
        if definition is not None:
            for child in definition.flatten_fn(tree)[0]:
                yield from tree_iter(child, is_leaf)
            return
    yield tree


def tree_structure(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Any:
    """The tree of func(leaf, ...) for each leaf and what stands in its place in the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([func(*items) for items in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests])])


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Any:
    """Call func for each leaf; returns the tree as it is."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for items in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests]):
        func(*items)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorator: call the function for instances of these types (or where the predicate holds), give others back.

    Raises TypeError for what is neither a type, a tuple or union of types, nor a function.
    """
    wanted = type_test(type_or_types_or_pred)
    return lambda func: functools.wraps(func)(lambda x: func(x) if wanted(x) else x)


def tree_map_only(
    type_or_types_or_pred: TypeAny | Callable[[Any], bool],
    /,
    func: FnAny[Any],
    tree: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> Any:
    """tree_map of the leaves of some types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: TypeAny | Callable[[Any], bool],
    /,
    func: FnAny[Any],
    tree: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> Any:
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


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of a call's arguments."""
    return [leaf for x in (*args, *kwargs.values()) for leaf in tree_iter(x)]


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: Callable[[PyTree], bool] | None = None
) -> list[Any] | None:
    """The leaves of a tree that may be less deep than the structure: each stands for all leaves in its place.

    None if the tree doesn't fit.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.is_leaf() or kind is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children()):
        leaves = _broadcast_to_and_flatten(child, spec, is_leaf)
        if leaves is None:
            return None
        found += leaves
    return found


# ---------------------------------------------------------------- paths


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """([(path, leaf), ...], structure); a path is a tuple of MappingKey, SequenceKey and GetAttrKey."""
    return list(_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def _paths(path: KeyPath, tree: Any, is_leaf: Callable[[Any], bool] | None) -> Iterator[tuple[KeyPath, Any]]:
    definition = None
    if is_leaf is None or not is_leaf(tree):
        definition = SUPPORTED_NODES.get(_get_node_type(tree))
    if definition is None:
        yield path, tree
        return
    if definition.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {definition.type}. Please pass a flatten_with_keys_fn argument "
            "to register_pytree_node."
        )
    for key, child in definition.flatten_with_keys_fn(tree)[0]:
        yield from _paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[tuple[KeyPath, Any]]:
    """[(path, leaf), ...]."""
    return list(_paths((), tree, is_leaf))


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> Any:
    """tree_map of func(path, leaf, ...)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(path, leaf, *rest) for (path, leaf), *rest in zip(pairs, *others)])


def keystr(kp: KeyPath) -> str:
    """A path as text, such as ['a'][1]."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# ---------------------------------------------------------------- structures as text


def _to_json(treespec: TreeSpec) -> dict[str, Any]:
    if treespec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_SERIALIZED_TYPES.get(treespec.type)
    if node is None:
        raise NotImplementedError(f"Serializing {treespec.type} in pytree is not registered.")
    if node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {treespec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    if node.to_dumpable_context is not None:
        context = node.to_dumpable_context(treespec.context)
    else:
        try:
            context = json.dumps(treespec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                "using _register_pytree_node."
            ) from error
    children = [_to_json(child) for child in treespec.children()]
    return {"type": node.serialized_type_name, "context": context, "children_spec": children}


def _from_json(schema: Mapping[str, Any]) -> TreeSpec:
    if schema["type"] is None and schema["context"] is None and len(schema["children_spec"]) == 0:
        return _LEAF_SPEC
    if schema["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {schema['type']} in pytree is not registered.")
    cls = SERIALIZED_TYPE_TO_PYTHON_TYPE[schema["type"]]
    decode = SUPPORTED_SERIALIZED_TYPES[cls].from_dumpable_context
    context = schema["context"]
    context = json.loads(context, object_hook=enum_object_hook) if decode is None else decode(context)
    return TreeSpec(cls, context, [_from_json(child) for child in schema["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as JSON: [protocol, structure].

    Raises NotImplementedError for types without a serialized name, ValueError for an unknown protocol.
    """
    _check_spec(treespec)
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _to_json(treespec)), cls=EnumEncoder)


def _check_protocol(protocol: Any) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]}")


@functools.lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that treespec_dumps wrote. Raises ValueError for an unknown protocol."""
    protocol, schema = json.loads(serialized)
    _check_protocol(protocol)
    return _from_json(schema)


class _Asterisk(str):
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as its tree is printed, with asterisks for leaves."""
    return repr(tree_unflatten([_Asterisk("*")] * treespec.num_leaves, treespec))


# ---------------------------------------------------------------- deprecated names


def _renamed(function: Callable[..., Any], message: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(message, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return call


def _private(old: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return _renamed(
        function,
        f"torch.utils._pytree.{old} is private and will be removed in a future release. Please use "
        f"torch.utils._pytree.{function.__name__} instead.",
    )


_is_leaf = _private("_is_leaf", tree_is_leaf)
_is_namedtuple_instance = _private("_is_namedtuple_instance", is_namedtuple_instance)
pytree_to_str = _renamed(treespec_dumps, "`pytree_to_str` is deprecated. Please use `treespec_dumps` instead.")
str_to_pytree = _renamed(treespec_loads, "`str_to_pytree` is deprecated. Please use `treespec_loads` instead.")
