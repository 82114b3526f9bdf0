"""torch.utils._pytree: nested containers as a list of leaves and a TreeSpec.

Lists, tuples, named tuples, dicts, ordered and default dicts and deques are containers; others can be registered. Stands on the
standard library.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

PyTree = Any
Context = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
UnflattenFunc = Callable[[Iterable[Any], Any], Any]


class MappingKey(NamedTuple):
    """A step into a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What the step leads to."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """A step into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What the step leads to."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """A step into an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What the step leads to."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How a type of container is taken apart and put together."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


SUPPORTED_NODES: dict[type, NodeDef] = {}
BUILTIN_TYPES: set[type] = set()


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """Make a class a container: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x.

    Raises ValueError if it is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a container of its fields."""
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in (drop_field_names or ())]
    names = names if field_names is None else list(field_names)
    register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in names], names),
        lambda children, _: cls(**dict(zip(names, children))),
        flatten_with_keys_fn=lambda x: ([(GetAttrKey(n), getattr(x, n)) for n in names], names),
    )


def register_constant(cls: type) -> None:
    """Make a class a container without children: its instances belong to the structure."""
    register_pytree_node(cls, lambda x: ([], x), lambda children, x: x, flatten_with_keys_fn=lambda x: ([], x))


def _by_index(children: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def _by_key(mapping: Any) -> list[tuple[Any, Any]]:
    return [(MappingKey(key), value) for key, value in mapping.items()]


def _builtin(
    cls: type, flatten: FlattenFunc, unflatten: UnflattenFunc, keys: Callable[[Any], list[tuple[Any, Any]]]
) -> None:
    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=lambda x: (keys(x), flatten(x)[1]))
    BUILTIN_TYPES.add(cls)


_builtin(tuple, lambda x: (list(x), None), lambda children, _: tuple(children), _by_index)
_builtin(list, lambda x: (list(x), None), lambda children, _: list(children), _by_index)
_builtin(dict, lambda x: (list(x.values()), list(x)), lambda children, keys: dict(zip(keys, children)), _by_key)
_builtin(
    OrderedDict, lambda x: (list(x.values()), list(x)), lambda children, keys: OrderedDict(zip(keys, children)), _by_key
)
_builtin(
    defaultdict,
    lambda x: (list(x.values()), [x.default_factory, list(x)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children)),
    _by_key,
)
_builtin(deque, lambda x: (list(x), x.maxlen), lambda children, length: deque(children, length), _by_index)


class _NamedTupleNode:
    """Stands for all named tuples in the table."""


NAMED_TUPLE = NodeDef(
    _NamedTupleNode,
    lambda x: (list(x), type(x)),
    lambda children, cls: cls(*children),
    lambda x: ([(GetAttrKey(n), getattr(x, n)) for n in x._fields], type(x)),
)
NAMED_RESULT = NodeDef(
    _NamedTupleNode,
    lambda x: (list(x), type(x)),
    lambda children, cls: cls(tuple(children)),
    lambda x: (_by_index(x), type(x)),
)


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is an instance of a named tuple's class."""
    return is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class made by namedtuple."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(f) is str for f in fields)
    )


is_namedtuple = is_namedtuple_instance


def _definition(tree: Any, is_leaf: Callable[[Any], bool] | None) -> NodeDef | None:
    """How `tree` is taken apart; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    found = SUPPORTED_NODES.get(type(tree))
    if found is None and isinstance(tree, tuple):
        if is_namedtuple_instance(tree):
            return NAMED_TUPLE
        if hasattr(type(tree), "n_sequence_fields"):
            return NAMED_RESULT
    return found


class TreeSpec:
    """The structure of a tree.

    Attributes: type (None of a leaf), context, children_specs, num_leaves, num_nodes, num_children.
    """

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec], definition: NodeDef | None = None):
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.definition = definition or SUPPORTED_NODES.get(type)
        self.num_children = len(self.children_specs)
        self.num_leaves = 1 if type is None else sum(child.num_leaves for child in self.children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it stands for a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self.children_specs[index]

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        children = ""
        if self.children_specs:
            indent += 2
            children = self.children_specs[0].__repr__(indent)
            children += "," if self.num_children > 1 else ""
            children += ",".join("\n" + " " * indent + child.__repr__(indent) for child in self.children_specs[1:])
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a tree that stand where this structure has its leaves.

        Raises ValueError if the tree is built otherwise.
        """
        if self.is_leaf():
            return [tree]
        definition = _definition(tree, None)
        if definition is None or (type(tree) is not self.type):
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = definition.flatten_fn(tree)
        if self.type is dict and set(context) == set(self.context):
            children = [tree[key] for key in self.context]
        elif context != self.context and self.type not in (deque, defaultdict):
            raise ValueError(f"Node context mismatch for node type {self.type!r}.")
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        return [part for spec, child in zip(self.children_specs, children) for part in spec.flatten_up_to(child)]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves. Raises ValueError if their number is wrong."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        assert self.definition is not None
        return self.definition.unflatten_fn([child._build(leaves) for child in self.children_specs], self.context)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()
PyTreeSpec = TreeSpec


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether it is no container, or is_leaf says so."""
    return _definition(tree, is_leaf) is None


_is_leaf = tree_is_leaf


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """(leaves from left to right, structure)."""
    leaves: list[Any] = []

    def walk(part: Any) -> TreeSpec:
        definition = _definition(part, is_leaf)
        if definition is None:
            leaves.append(part)
            return _LEAF
        children, context = definition.flatten_fn(part)
        return TreeSpec(type(part), context, [walk(child) for child in children], definition)

    spec = walk(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The inverse of tree_flatten. Raises TypeError for what is no TreeSpec."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves one by one."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of func(leaf, ...) for each leaf and what stands in its place in the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(func(*items) for items in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call func for each leaf; returns the tree as it is."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for items in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests]):
        func(*items)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorator: call the function for instances of these types (or where the predicate holds), give others back."""
    wanted = type_or_types_or_pred
    check = wanted if callable(wanted) and not isinstance(wanted, type) else lambda x: isinstance(x, wanted)
    return lambda func: lambda x: func(x) if check(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """tree_map of the leaves of some types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """tree_map_ of the leaves of some types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether the predicate holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether the predicate holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether the predicate holds for all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether the predicate holds for a leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """([(path, leaf), ...], structure); a path is a tuple of MappingKey, SequenceKey and GetAttrKey."""
    return list(_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def _paths(
    path: tuple[Any, ...], tree: Any, is_leaf: Callable[[Any], bool] | None
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    definition = _definition(tree, is_leaf)
    if definition is None:
        yield path, tree
        return
    if definition.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn argument "
            "to register_pytree_node."
        )
    for key, child in definition.flatten_with_keys_fn(tree)[0]:
        yield from _paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[tuple[Any, ...], Any]]:
    """[(path, leaf), ...]."""
    return list(_paths((), tree, is_leaf))


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """tree_map of func(path, leaf, ...)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    return spec.unflatten(
        func(path, *items)
        for (path, *items) in [
            (path, leaf, *others) for (path, leaf), *others in zip(pairs, *[spec.flatten_up_to(rest) for rest in rests])
        ]
    )


def keystr(kp: tuple[Any, ...]) -> str:
    """A path as text, such as ['a'][1]."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of a call's arguments."""
    return [leaf for x in (*args, *kwargs.values()) for leaf in tree_leaves(x)]
