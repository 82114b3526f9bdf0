"""torch.distributed.checkpoint._traverse: the values of nested state dicts by their paths. Used by `_nested_dict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import flambeau as torch

__all__ = ["Path", "get_element", "items_of", "set_element", "traverse_state_dict"]

Path = tuple[str | int, ...]


def _is_leaf(value: Any) -> bool:
    """Whether a value is stored in one piece: a list is, if nothing in its lists has tensors or names; a tuple always."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return not any(isinstance(item, (torch.Tensor, Mapping)) or (isinstance(item, list) and not _is_leaf(item)) for item in value)


def items_of(value: Any, path: Path = (), is_leaf: Callable[[Any], bool] = _is_leaf) -> Iterator[tuple[Path, Any]]:
    """The values that are stored in one piece, with their paths."""
    if not isinstance(value, (Mapping, list, tuple)) or is_leaf(value):
        yield path, value
        return
    pairs = ((str(key), item) for key, item in value.items()) if isinstance(value, Mapping) else enumerate(value)
    for key, item in pairs:
        yield from items_of(item, (*path, key), is_leaf)


def traverse_state_dict(
    state_dict: Mapping[str, Any], visitor: Callable[[Path, Any], None], keep_traversing: Callable[[Any], bool] | None = None
) -> None:
    """Calls `visitor(path, value)` with each value that is stored in one piece.

    keep_traversing: which lists and tuples are opened; by default the lists that have tensors or names.
    """

    def is_leaf(value: Any) -> bool:
        assert keep_traversing is not None
        return not isinstance(value, Mapping) and not keep_traversing(value)

    for path, value in items_of(state_dict, (), _is_leaf if keep_traversing is None else is_leaf):
        visitor(path, value)


def set_element(root: Any, path: Path, value: Any) -> None:
    """Puts a value at a path, with the dicts and lists on the way if they aren't there."""
    for place, key in enumerate(path[:-1]):
        root = _at(root, key, [] if isinstance(path[place + 1], int) else {})
    key = path[-1]
    if isinstance(key, int):
        root.extend([None] * (key + 1 - len(root)))
        root[key] = value
    else:
        root[_own_key(root, key)] = value


def _own_key(root: Any, key: str) -> Any:
    """The key that is written so: names may be numbers, as those of an optimizer's states."""
    return key if key in root else next((own for own in root if str(own) == key), key)


def _at(root: Any, key: str | int, new: Any) -> Any:
    if isinstance(key, int):
        root.extend([None] * (key + 1 - len(root)))
        if root[key] is None:
            root[key] = new
        return root[key]
    return root.setdefault(_own_key(root, key), new)


def get_element(root: Any, path: Path, default_value: Any = None) -> Any:
    """The value at a path, or another if there is none."""
    for key in path:
        if isinstance(key, int):
            if not isinstance(root, (list, tuple)) or len(root) <= key:
                return default_value
        elif not isinstance(root, Mapping) or _own_key(root, key) not in root:
            return default_value
        root = root[key if isinstance(key, int) else _own_key(root, key)]
    return root
