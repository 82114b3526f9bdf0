"""Lists and dicts that refuse to be changed: the arguments of nodes, whose users are counted when they are assigned.

Stands on utils._pytree, where they are containers like the plain ones; used by fx.node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from flambeau.utils import _pytree
from flambeau.utils._pytree_nodes import MappingKey, SequenceKey

__all__ = ["immutable_dict", "immutable_list"]

_help_mutation = """
If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args
""".strip()


def _no_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_help_mutation}")


class immutable_list(list):
    """A list that raises TypeError when it is changed; hashable like the tuple of its items."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _no_mutation  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _no_mutation  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict that raises TypeError when it is changed; hashable like the set of its items."""

    __delitem__ = __ior__ = __setitem__ = _no_mutation  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _no_mutation  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


def _immutable_list_flatten(d: immutable_list) -> tuple[list[Any], Any]:
    return list(d), None


def _immutable_list_unflatten(values: Iterable[Any], context: Any) -> immutable_list:
    return immutable_list(values)


def _immutable_dict_flatten(d: immutable_dict) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _immutable_dict_unflatten(values: Iterable[Any], context: Any) -> immutable_dict:
    return immutable_dict(zip(context, values))


_pytree.register_pytree_node(
    immutable_list,
    _immutable_list_flatten,
    _immutable_list_unflatten,
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=lambda x: ([(SequenceKey(i), item) for i, item in enumerate(x)], None),
)
_pytree.register_pytree_node(
    immutable_dict,
    _immutable_dict_flatten,
    _immutable_dict_unflatten,
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=lambda x: ([(MappingKey(k), v) for k, v in x.items()], list(x)),
)
