"""State dicts as flat ones: names joined by dots, and the paths by which values are put back. Used by `default_planner`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.distributed.checkpoint._traverse import Path, items_of, set_element

__all__ = ["flatten_state_dict", "unflatten_state_dict"]


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The values by joined names, and the path of each. ValueError where two paths have one name."""
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in items_of(state_dict):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    return flat, paths


def unflatten_state_dict(flat: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """The state dict of which these are the values."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        set_element(result, paths[name], value)
    return result
