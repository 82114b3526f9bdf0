"""State dicts as flat ones: names joined by dots, and the paths by which values are put back. Used by `default_planner`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import flambeau as torch

__all__ = ["flatten_state_dict", "set_element", "unflatten_state_dict"]

Path = tuple[str | int, ...]


def _is_leaf(value: Any) -> bool:
    """Whether a value is stored in one piece: a list is, if nothing in it has tensors or names."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return not any(
        isinstance(item, torch.Tensor) or (isinstance(item, (Mapping, list)) and not _is_leaf(item)) for item in value
    )


def _items(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _items(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)) and not _is_leaf(value if isinstance(value, list) else list(value)):
        for index, item in enumerate(value):
            yield from _items(item, (*path, index))
    else:
        yield path, value


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The values by joined names, and the path of each. ValueError where two paths have one name."""
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _items(state_dict, ()):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    return flat, paths


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


def unflatten_state_dict(flat: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """The state dict of which these are the values."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        set_element(result, paths[name], value)
    return result
