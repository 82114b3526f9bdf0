"""What a pickle writes in place of a storage: ("storage", type, key, location, number of elements), checked.

Stands on the storage markers; used by both readers.
"""

from __future__ import annotations

from typing import Any

from flambeau.core import storage_io
from flambeau.core.storage_types import StorageType
from flambeau.serialize.safe import Refused


def storage_identity(identity: Any, length: int) -> tuple[StorageType, str, str, int]:
    """(marker, key, location, number of elements) of a persistent id; anything malformed is an UnpicklingError."""
    assert isinstance(identity, tuple), f"saved_id must be a tuple, got {type(identity).__name__}"
    kind = _text(identity[0]) if identity else None
    assert kind == "storage", f"Unknown typename for persistent_load, expected 'storage' but got '{kind}'"
    if len(identity) != length:
        raise Refused(f"the persistent id of a storage has {length} parts, not {len(identity)}", "malformed")
    marker, key, location, numel = identity[1], _text(identity[2]), _text(identity[3]), identity[4]
    if not isinstance(marker, StorageType):
        raise Refused(f"expected the type of a storage, not {marker!r}", "malformed")
    if not isinstance(key, str) or not isinstance(location, str):
        raise Refused("key and location of a storage must be text", "malformed")
    if type(numel) is not int or not 0 <= numel * marker.itemsize <= storage_io.LARGEST:
        raise Refused(f"a storage can't have {numel!r} elements", "malformed")
    return marker, key, location, numel


def _text(value: Any) -> Any:
    """Names that Python 2 wrote are bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
