"""Files from before PyTorch 1.6 (and of `_use_new_zipfile_serialization=False`): a stream of pickles, then raw storages.

The stream: a magic number, a version, facts about the machine, the object, the list of storage keys; then for each key
the number of elements and the bytes. Stands on storage_io and locations; the pickles are read by the function it is given.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import IO, Any

from flambeau.core.tensor import rebuild, storage_io
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.storage_types import StorageReference, StorageType
from flambeau.ops.interop.typed_storage import of, retyped
from flambeau.serialize.identity import parts, storage_identity, text
from flambeau.serialize.keys import shown
from flambeau.serialize.locations import restorer
from flambeau.serialize.zip_format import length_of, read_some

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def load(file: IO[bytes], map_location: Any, unpickle: Callable[[IO[bytes], Callable[[Any], Any]], Any]) -> Any:
    """The object in the file, which stands behind its last byte afterwards.

    Raises RuntimeError for files that are damaged or in another format, EOFError for those that end early.
    """
    return LegacyLoad(file, map_location, unpickle).load()


class LegacyLoad:
    """One reading of a legacy file: storages are made when the pickle names them and filled from its end."""

    def __init__(self, file: IO[bytes], map_location: Any, unpickle: Callable[..., Any]):
        self.file, self.unpickle, self.restore = file, unpickle, restorer(map_location)
        start = file.tell()
        seekable = getattr(file, "seekable", None)
        self.left = length_of(file) - start if seekable is None or seekable() else storage_io.LARGEST
        file.seek(start)
        self.filled: dict[str, tuple[Any, StorageType, int]] = {}
        self.references: dict[str, StorageReference | Storage] = {}
        self.views: dict[str, StorageReference] = {}

    def plain(self) -> Any:
        """The next pickle, in which no storage may occur."""
        return self.unpickle(self.file, self.refuse)

    @staticmethod
    def refuse(identity: Any) -> Any:
        raise RuntimeError("Invalid file: a storage in the header; corrupt file?")

    def load(self) -> Any:
        """The object in the file."""
        if self.plain() != MAGIC_NUMBER:
            raise RuntimeError("Invalid magic number; corrupt file?")
        version = self.plain()
        if version != PROTOCOL_VERSION:
            raise RuntimeError(f"Invalid protocol version: {shown(version)}")
        self.plain()  # facts about the machine: the storages are little-endian on every one
        rebuild.reading.values_follow = True
        try:
            result = self.unpickle(self.file, self.persistent_load)
        finally:
            rebuild.reading.values_follow = False
        keys = self.plain()
        keys = [shown(text(key)) for key in keys]
        for key in keys:
            assert key in self.filled, f"storage key '{key}' not found in deserialized_objects"
        if set(keys) != set(self.filled):
            raise RuntimeError("Invalid list of storages; corrupt file?")
        for key in keys:
            self.fill(key)
        return result

    def persistent_load(self, identity: Any) -> Any:
        """The storage that a persistent id means, itself if it is of bytes; ("module", class, source...) means the class."""
        if isinstance(identity, tuple) and len(identity) > 1 and identity[0] in ("module", b"module"):
            return identity[1]
        of_type, key, place, count, view = parts(identity)
        marker, key, location, numel = storage_identity(of_type, key, place, count)
        reference = self.references.get(key)
        if reference is None:
            nbytes = numel * marker.itemsize
            if nbytes > self.left:
                raise RuntimeError(f"unexpected EOF, expected {nbytes - self.left} more bytes. The file might be corrupted.")
            storage = storage_io.allocate(nbytes)
            self.filled[key] = storage, marker, numel
            placed = self.restore(storage, location)
            reference = placed if marker.dtype is None else of(placed, marker.dtype)
            self.references[key] = reference
        if view is not None:
            reference = self.part(reference, marker, view)
        return retyped(reference, marker)

    def part(self, whole: Any, marker: StorageType, view: Any) -> StorageReference:
        """A storage that is a stretch of another, as PyTorch 0.3 wrote them: (key, offset, number of elements)."""
        if not (isinstance(view, tuple) and len(view) == 3 and all(type(number) is int for number in view[1:])):
            raise RuntimeError("Invalid view of a storage; corrupt file?")
        key, offset, size = shown(view[0]), view[1] * marker.itemsize, view[2] * marker.itemsize
        if key not in self.views:
            held = whole if isinstance(whole, Storage) else whole.storage
            if offset < 0 or size < 0 or offset + size > held.capacity:
                raise RuntimeError("A view of a storage reaches outside it; corrupt file?")
            part = storage_io.on_meta(size) if storage_io.without_memory(held) else storage_io.stretch(held, offset, size)
            self.views[key] = of(part, marker.dtype)
        return self.views[key]

    def fill(self, key: str) -> None:
        """Read the content of a storage."""
        storage, marker, numel = self.filled[key]
        head = self.file.read(8)
        if len(head) != 8:
            raise RuntimeError(f"unexpected EOF, expected {8 - len(head)} more bytes. The file might be corrupted.")
        (count,) = struct.unpack("<q", head)
        if count != numel:
            raise RuntimeError(f"storage has wrong byte size: expected {numel * marker.itemsize} got {count * marker.itemsize}")
        memory = storage_io.memory_of(storage)
        done = read_some(self.file, memory)
        if done < len(memory):
            raise RuntimeError(f"unexpected EOF, expected {len(memory) - done} more bytes. The file might be corrupted.")
