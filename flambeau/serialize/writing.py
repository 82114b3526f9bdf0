"""torch.save: PyTorch's zip files, and on request its files from before version 1.6.

Stands on the pickler, the archive and base/whole_files. A file that exists already is only replaced once the new one is
complete: an exception while pickling, or a full disk, leaves the old one.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import sys
import zlib
from typing import IO, Any

from flambeau.base.whole_files import replacing
from flambeau.core.tensor.rebuild import writing
from flambeau.serialize import options
from flambeau.serialize.archive import ALIGNMENT, ArchiveWriter
from flambeau.serialize.legacy import MAGIC_NUMBER, PROTOCOL_VERSION
from flambeau.serialize.pickler import Storages, pickler_class

DEFAULT_PROTOCOL = 2


def save(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write `obj` to `f`, so that torch.load, here and in PyTorch, reads it back.

    obj: tensors, modules' state dicts, and anything that can be pickled. Tensors that share memory share it when they are
    loaded; a view takes its whole storage along. f: a path, or a binary file object with `write`.

    A path is written through a temporary file beside it, which then takes its place: if anything fails, a file that was
    there before is left as it was. Raises RuntimeError if the folder doesn't exist, AttributeError or TypeError for what
    can't be pickled or written to.
    """
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
        name = os.path.splitext(os.path.basename(path))[0] or "archive"
        opened: Any = replacing(path)
    else:
        if not hasattr(f, "write"):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        name, opened = "archive", contextlib.nullcontext(f)
    if _use_new_zipfile_serialization:
        # The pickle is complete before anything is opened.
        content, storages = pickled(obj, pickle_module, pickle_protocol)
        with opened as file:
            write_archive(file, name, content, storages, not _disable_byteorder_record)
    else:
        pieces = legacy_pieces(obj, pickle_module, pickle_protocol)
        with opened as file:
            for piece in pieces:
                file.write(piece)
    if hasattr(f, "flush"):
        f.flush()


def pickled(obj: object, pickle_module: Any, protocol: int) -> tuple[bytes, Storages]:
    """The pickle of an object, and the storages it refers to."""
    storages = Storages(lambda count, storage: str(count))
    buffer = io.BytesIO()
    pickler_class(pickle_module)(buffer, protocol, storages.identity).dump(obj)
    return buffer.getvalue(), storages


def write_archive(file: IO[bytes], name: str, content: bytes, storages: Storages, byteorder: bool = True) -> None:
    """Write the records in PyTorch's order."""
    archive = ArchiveWriter(file, name, checksums=options.get_crc32_options())
    checksum = archive.record("data.pkl", content)
    archive.record(".format_version", b"1")
    archive.record(".storage_alignment", str(ALIGNMENT).encode())
    if byteorder:
        archive.record("byteorder", sys.byteorder.encode())
    if options.skipping.active:
        for key, nbytes in storages.sizes(writing.fakes):
            archive.room(f"data/{key}", nbytes)
    else:
        for key, memory in storages.contents():
            checksum = zlib.crc32(struct.pack("<I", archive.record(f"data/{key}", memory)), checksum)
    archive.record("version", b"3\n")
    archive.record(".data/serialization_id", identity_of(archive, checksum))
    archive.close()


def identity_of(archive: ArchiveWriter, checksum: int) -> bytes:
    """PyTorch identifies a file by its names and checksums; any 40 digits that depend on the content will do."""
    paths = b"".join(entry[0] for entry in archive.directory)
    return f"{zlib.crc32(paths):020d}{checksum:020d}".encode()


def legacy_pieces(obj: object, pickle_module: Any, protocol: int) -> list[Any]:
    """The pieces of a file in the format before 1.6: five pickles, then each storage as its length and its bytes."""
    storages = Storages(lambda count, storage: str(count))
    buffer = io.BytesIO()
    identity = storages.identity
    counts: dict[str, int] = {}

    def legacy_identity(thing: Any) -> Any:
        found = identity(thing)
        if found is None:
            return None
        counts[found[2]] = found[4]
        return (*found, None)  # the sixth place described views of storages, which later versions never write

    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for head in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        pickle_module.dump(head, buffer, protocol=protocol)
    pickler_class(pickle_module)(buffer, protocol, legacy_identity).dump(obj)
    pickle_module.dump(sorted(counts), buffer, protocol=protocol)
    contents = dict(storages.contents())
    pieces: list[Any] = [buffer.getvalue()]
    for key in sorted(counts):
        pieces += [struct.pack("<q", counts[key]), contents[key]]
    return pieces
