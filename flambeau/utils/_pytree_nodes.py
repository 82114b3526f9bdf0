"""Which types are containers of a pytree, how each is taken apart and put together, and how its context is written as JSON.

`SUPPORTED_NODES` is the table; `register_pytree_node` and its relatives add to it. Stands on the named results and sizes of
core; used by utils._pytree, whose face offers all of it on.
"""

from __future__ import annotations

import dataclasses
import json
import pkgutil
import types
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from flambeau.base.layout import Size
from flambeau.core.operator import return_types

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
FlattenFn = FlattenFunc
UnflattenFunc = Callable[[Iterable[Any], Any], Any]
UnflattenFn = UnflattenFunc
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
R = TypeVar("R")
TypeAny = type[Any] | tuple[type[Any], ...] | types.UnionType
FnAny = Callable[[Any], R]  # a function of a leaf
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


# ---------------------------------------------------------------- steps of paths


class KeyEntry(Protocol):
    """A step of a path: hashable, `get(parent)` is the child it leads to."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any:
        """What the step leads to."""
        ...


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step into a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What the step leads to."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What the step leads to."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step into an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What the step leads to."""
        return getattr(obj, self.name)


KeyPath = tuple[KeyEntry, ...]
FlattenWithKeysFunc = Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Any]]
FlattenWithKeysFn = FlattenWithKeysFunc


# ---------------------------------------------------------------- the table


class NodeDef(NamedTuple):
    """How a type of container is taken apart and put together."""

    type: Any
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: FlattenWithKeysFunc | None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()
_nodes_followers: list[Callable[[Any, FlattenFunc, UnflattenFunc], None]] = []
"""What else is to know of each class that is registered: the face of optree, once it is imported."""


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFunc | None = None,
) -> None:
    """register_pytree_node, but a class that is registered is registered anew, with a warning."""
    if cls in SUPPORTED_NODES:
        warnings.warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.", stacklevel=2)
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    name = NO_SERIALIZED_TYPE_NAME_FOUND if serialized_type_name is None else serialized_type_name
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


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
    """Make a class a container: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x.

    serialized_type_name: what it is called in `treespec_dumps`; to_dumpable_context, from_dumpable_context: its context as
    what JSON holds, and back; flatten_with_keys_fn(x) -> ([(step, child), ...], context): for paths.
    Raises ValueError if it is a container already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )
    for follow in _nodes_followers:
        follow(cls, flatten_fn, unflatten_fn)


def _register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """The deprecated form of register_pytree_node, which may be called again for a class."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
            "`from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _deregister_pytree_node(cls: type) -> None:
    """Make a class a leaf again. Raises KeyError if it is no container."""
    del SUPPORTED_NODES[cls]
    node = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(node.serialized_type_name, None)
    CONSTANT_NODES.discard(cls)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a container of its fields, those that are None apart.

    field_names: the fields, needed for a class that is no dataclass; drop_field_names: fields that field_names leaves out, which
    get their defaults.
    Raises ValueError if field_names and the dataclass's fields differ.
    """
    dropped = list(drop_field_names or ())
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass."
            )
        names = list(field_names)
    else:
        wanted = {f.name for f in dataclasses.fields(cls) if f.init}
        names = [f.name for f in dataclasses.fields(cls) if f.init] if field_names is None else list(field_names)
        if missing := wanted - set(names) - set(dropped):
            raise ValueError(
                "field_names does not include all dataclass fields.\n"
                f"Missing fields in `field_names`: {missing}. If you want to include these fields in the pytree, please "
                "add them to `field_names`, otherwise please add them to `drop_field_names`.\n"
            )
        if unknown := set(names) - wanted:
            raise ValueError(
                "field_names does not include all dataclass fields.\n"
                f"Unexpected fields in `field_names`: {unknown}. Please remove these fields, or add default values to "
                "them.\n"
            )

    def fields(obj: Any) -> tuple[list[str], list[str]]:
        here = [name for name in names if getattr(obj, name) is not None]
        return here, [name for name in names if name not in here]

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        here, absent = fields(obj)
        return [getattr(obj, name) for name in here], [here, absent]

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        here, absent = fields(obj)
        return [(GetAttrKey(name), getattr(obj, name)) for name in here], [here, absent]

    def unflatten(children: Iterable[Any], context: Any) -> Any:
        here, absent = context
        return cls(**dict(zip(here, children)), **dict.fromkeys(absent))

    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a constant."""

    value: Any


def register_constant(cls: type) -> None:
    """Make a class a container without children: its instances belong to the structure.

    Raises TypeError unless the class compares and hashes its instances by what they are.
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is object.__hash__ or cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    _private_register_pytree_node(
        cls,
        lambda x: ([], ConstantNode(x)),
        lambda children, context: context.value,
        flatten_with_keys_fn=lambda x: ([], ConstantNode(x)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether register_constant was called for the class."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# ---------------------------------------------------------------- named tuples and named results


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class made by namedtuple."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(f) is str for f in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is an instance of a named tuple's class."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether it is a class of tuples with named items such as time.struct_time and torch.return_types.max."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, name, None), int) for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    )


def is_structseq_instance(obj: Any) -> bool:
    """Whether it is an instance of a class as is_structseq_class finds them."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether it is such a class or an instance of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a named tuple's class, which is a container already, a name in `treespec_dumps`."""
    node = _SerializeNodeDef(cls, serialized_type_name, None, None)
    SUPPORTED_SERIALIZED_TYPES[cls] = node
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def _get_node_type(tree: Any) -> Any:
    """What a tree is found by in SUPPORTED_NODES: its class, and collections.namedtuple for all named tuples."""
    cls = type(tree)
    if cls in SUPPORTED_NODES or not isinstance(tree, tuple):
        return cls
    if is_namedtuple_class(cls):
        return namedtuple
    if cls.__module__ == return_types.max.__module__:
        _register_named_result(cls)
    return cls


def _register_named_result(cls: Any) -> None:
    """Make a class of named results, torch.return_types.max, a container."""
    _private_register_pytree_node(
        cls, _tuple_flatten, lambda children, _: cls(children), flatten_with_keys_fn=_tuple_flatten_with_keys
    )


# ---------------------------------------------------------------- Python's containers


def _by_index(children: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def _by_key(mapping: Any) -> list[tuple[Any, Any]]:
    return [(MappingKey(key), value) for key, value in mapping.items()]


def _tuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), None


def _tuple_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_index(d), None


def _tuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return tuple(values)


def _list_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), None


def _list_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_index(d), None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _dict_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_key(d), list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return [(GetAttrKey(name), getattr(d, name)) for name in d._fields], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _namedtuple_serialize(context: Context) -> DumpableContext:
    if context not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    name = SUPPORTED_SERIALIZED_TYPES[context].serialized_type_name
    if name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we couldn't find a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return name


def _namedtuple_deserialize(dumpable_context: DumpableContext) -> Context:
    if dumpable_context not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumpable_context} because we couldn't find a serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


_ordereddict_flatten = _odict_flatten = _dict_flatten
_ordereddict_flatten_with_keys = _dict_flatten_with_keys


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values))


_odict_unflatten = _ordereddict_unflatten


def _defaultdict_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_key(d), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    factory, keys = context
    return defaultdict(factory, zip(keys, values))


def _defaultdict_serialize(context: Context) -> DumpableContext:
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__, "dict_context": keys}


def _defaultdict_deserialize(dumpable_context: DumpableContext) -> Context:
    names = ("default_factory_module", "default_factory_name", "dict_context")
    if not isinstance(dumpable_context, dict) or set(dumpable_context) != set(names):
        raise AssertionError(f"expected a dict of {', '.join(names)}, got {dumpable_context!r}")
    module, name, keys = (dumpable_context[each] for each in names)
    return [pkgutil.resolve_name(f"{module}:{name}"), keys]


def _deque_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_index(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque[Any]:
    return deque(values, maxlen=context)


for _cls, _parts in {
    tuple: (_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys, "builtins.tuple"),
    list: (_list_flatten, _list_unflatten, _list_flatten_with_keys, "builtins.list"),
    dict: (_dict_flatten, _dict_unflatten, _dict_flatten_with_keys, "builtins.dict"),
    namedtuple: (
        _namedtuple_flatten,
        _namedtuple_unflatten,
        _namedtuple_flatten_with_keys,
        "collections.namedtuple",
        _namedtuple_serialize,
        _namedtuple_deserialize,
    ),
    OrderedDict: (_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys, "collections.OrderedDict"),
    defaultdict: (
        _defaultdict_flatten,
        _defaultdict_unflatten,
        _defaultdict_flatten_with_keys,
        "collections.defaultdict",
        _defaultdict_serialize,
        _defaultdict_deserialize,
    ),
    deque: (_deque_flatten, _deque_unflatten, _deque_flatten_with_keys, "collections.deque"),
}.items():
    _flatten, _unflatten, _with_keys, _name, *_contexts = _parts
    _to, _from = _contexts or (None, None)
    _private_register_pytree_node(
        _cls,
        _flatten,
        _unflatten,
        serialized_type_name=_name,
        to_dumpable_context=_to,
        from_dumpable_context=_from,
        flatten_with_keys_fn=_with_keys,
    )
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
_private_register_pytree_node(
    Size,
    _tuple_flatten,
    lambda values, _: Size(values),
    serialized_type_name="torch.Size",
    flatten_with_keys_fn=_tuple_flatten_with_keys,
)


# ---------------------------------------------------------------- enumerations in JSON


class EnumEncoder(json.JSONEncoder):
    """Writes members of enumerations as {"__enum__": true, "fqn": "module:class", "name": ...}."""

    def default(self, o: object) -> Any:
        if isinstance(o, Enum):
            cls = type(o)
            return {"__enum__": True, "fqn": f"{cls.__module__}:{cls.__qualname__}", "name": o.name}
        return super().default(o)


def enum_object_hook(obj: dict[str, Any]) -> Enum | dict[str, Any]:
    """For json.loads: what EnumEncoder wrote as members of enumerations again. Raises TypeError for other classes."""
    if "__enum__" not in obj:
        return obj
    cls = pkgutil.resolve_name(obj["fqn"])
    if not (isinstance(cls, type) and issubclass(cls, Enum)):
        raise TypeError(f"Expected an Enum class, got {cls!r}")
    return cls[obj["name"]]


def type_test(type_or_types_or_pred: Any) -> Callable[[Any], bool]:
    """A predicate: instances of a type, of a tuple of types, or what a function says. Raises TypeError for others."""
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")
