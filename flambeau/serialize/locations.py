"""Where the storages of a file go: map_location, and the locations that programs register.

A file names the device each storage was on ("cpu", "cuda:0"). Stands on storage_io; used by both readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.base.device import device as Device
from flambeau.core.tensor import storage_io
from flambeau.core.tensor.storage import Storage

_HINT = (
    "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
    "storages to the CPU."
)


def _to_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _to_meta(storage: Any, location: str) -> Any:
    return storage_io.on_meta(storage.capacity) if location == "meta" else None


def _to_accelerator(storage: Any, location: str) -> Any:
    kind = location.partition(":")[0]
    if kind in ("cuda", "xpu"):
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is False. {_HINT}"
        )
    if kind in ("hpu", "npu", "mtia"):
        raise RuntimeError(f"The {kind.upper()} device module is not registered. {_HINT}")
    if kind == "mps":
        raise RuntimeError(f"torch.UntypedStorage(): Storage device not recognized: mps. {_HINT}")
    return None


_registry: list[tuple[int, Callable[[Any], Any], Callable[[Any, str], Any]]] = [
    (10, lambda storage: None if storage_io.without_memory(storage) else "cpu", _to_cpu),
    (20, lambda storage: None, _to_accelerator),
    (30, lambda storage: "meta" if storage_io.without_memory(storage) else None, _to_meta),
]


def register_package(priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]) -> None:
    """Add a kind of location. tagger(storage) gives the tag to write or None; deserializer(storage, tag) the storage to
    use or None. Lower priorities are asked first."""
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The location that a file gives to a storage."""
    for _, tagger, _ in _registry:
        tag = tagger(storage)
        if tag is not None:
            return tag
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage that stands for `storage` at a location. Raises RuntimeError for a location that isn't there."""
    for _, _, deserializer in _registry:
        found = deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})")


def restorer(map_location: Any) -> Callable[[Any, str], Any]:
    """The function (storage, location) -> storage that a map_location argument describes."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, str | bytes):
        where = os.fsdecode(map_location)
        return lambda storage, location: default_restore_location(storage, where)
    if isinstance(map_location, Device):
        # torch.device("cpu", 0) is the CPU like torch.device("cpu").
        where = map_location.type if map_location.type in ("cpu", "meta") else str(map_location)
        return lambda storage, location: default_restore_location(storage, where)

    def restore(storage: Any, location: str) -> Any:
        found = map_location(storage, location)
        if found is None:
            return default_restore_location(storage, location)
        found = getattr(found, "_untyped_storage", found)
        if not isinstance(found, Storage):
            raise TypeError(f"map_location must return a storage or None, not {type(found).__name__}")
        return found

    return restore


def wants_no_data(map_location: Any) -> bool:
    """Whether every storage goes to meta, so that no bytes need be read."""
    return map_location == "meta" or (isinstance(map_location, Device) and map_location.type == "meta")
