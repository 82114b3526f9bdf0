"""torch.utils.data.graph: which pipes a pipe is made of."""

from __future__ import annotations

from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

DataPipeGraph = dict[int, tuple[Any, Any]]


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """{identity: (pipe, the same of the pipes among its attributes)}, of one pipe."""
    return _traversed(datapipe, set())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> DataPipeGraph:
    """traverse_dps, whatever only_datapipe says."""
    return traverse_dps(datapipe)


def _traversed(datapipe: Any, above: set[int]) -> DataPipeGraph:
    if id(datapipe) in above:
        return {}
    inner: DataPipeGraph = {}
    for pipe in _pipes_in(vars(datapipe), set()):
        inner.update(_traversed(pipe, above | {id(datapipe)}))
    return {id(datapipe): (datapipe, inner)}


def _pipes_in(value: Any, seen: set[int]) -> list[Any]:
    """The pipes among values, in lists and other collections and in objects of this package too."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        return [value]
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, dict):
        parts: list[Any] = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        parts = list(value)
    elif hasattr(value, "main_datapipe"):
        parts = [value.main_datapipe]
    else:
        return []
    return [pipe for part in parts for pipe in _pipes_in(part, seen)]
