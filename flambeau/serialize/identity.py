"""What a pickle writes in place of a storage: ("storage", type, key, location, number of elements), checked.

Stands on the storage markers; used by both readers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.tensor import storage_io
from flambeau.core.tensor.storage_types import StorageType
from flambeau.serialize.keys import shown


class StorageIdentity(NamedTuple):
    """A storage as a file names it."""

    marker: StorageType
    key: str
    location: str
    numel: int


def parts(identity: Any) -> tuple[Any, ...]:
    """What follows the word "storage" in a persistent id. Raises AssertionError in PyTorch's words for anything else."""
    assert isinstance(identity, tuple), f"saved_id must be a tuple, got {type(identity).__name__}"
    kind = text(identity[0])
    assert kind == "storage", f"Unknown typename for persistent_load, expected 'storage' but got '{shown(kind)}'"
    return identity[1:]


def storage_identity(marker: Any, key: Any, location: Any, numel: Any) -> StorageIdentity:
    """These parts, checked. Raises AttributeError, TypeError or RuntimeError for what can't describe a storage."""
    if not isinstance(marker, StorageType):
        raise AttributeError(f"'{type(marker).__name__}' object has no attribute 'dtype': the type of a storage was expected")
    if type(numel) is not int or numel < 0:
        raise TypeError(f"a storage can't have {shown(numel)} elements")
    if numel * marker.itemsize > storage_io.LARGEST:
        raise RuntimeError(f"a storage can't have {numel} elements: that is more memory than there can be")
    if not isinstance(location := text(location), str):
        raise TypeError(f"expected string or bytes-like object, got '{type(location).__name__}'")
    return StorageIdentity(marker, shown(text(key)), location, numel)


def text(value: Any) -> Any:
    """Names that Python 2 wrote are bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
