"""The container of a saved file: a zip archive of uncompressed records, each aligned to 64 bytes, as PyTorch writes it.

Stands on the format of zip files. `ArchiveWriter` writes records front to back and never seeks; `ArchiveReader` finds records
in a file that may be damaged or hostile: what it says of sizes and positions is checked against the file before any use.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from typing import IO, Any

from flambeau.serialize.zip_format import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    CORRUPTED,
    DEFLATED,
    ENCRYPTED,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    EXTRA64,
    FULL16,
    FULL32,
    LOCAL,
    LOCAL_SIGNATURE,
    LOCATOR64,
    LOCATOR64_SIGNATURE,
    STORED,
    Entry,
    damaged,
    directory,
    length_of,
    read_at,
    read_some,
)

ALIGNMENT = 64
#: Highest version of the container that is understood.
NEWEST_VERSION = 10
#: Compressed records may expand to this multiple of the file, or to COMPRESSED_LIMIT bytes if that is more.
EXPANSION_LIMIT = 32
COMPRESSED_LIMIT = 1 << 30
#: No compressed record is larger than this multiple of its bytes in the file: deflate writes two bits for 258 bytes at best.
DEEPEST_COMPRESSION = 1032

LONGEST_WORD = 64  # bytes of a version, or of another word, that are looked at

UTF8 = 0x800
DAY_ONE = 0x21  # 1 January 1980 in the zip format's date field; records carry no time, so equal content gives equal files


class ArchiveWriter:
    """Writes records to a binary file object; all of them lie in one folder of the archive."""

    def __init__(self, file: IO[bytes], folder: str, checksums: bool = True):
        self.file, self.folder, self.checksums = file, folder, checksums
        self.position = 0
        self.directory: list[tuple[bytes, int, int, int]] = []

    def emit(self, content: Any) -> None:
        """Write all bytes of `content`, also to files whose write takes only a part."""
        rest = memoryview(content).cast("B")
        self.position += len(rest)
        while len(rest):
            written = self.file.write(rest)
            if written is None:  # file-likes that don't count
                return
            rest = rest[written:]

    def record(self, name: str, content: Any) -> int:
        """Add a record; `content` is a bytes-like object. Returns its checksum."""
        size = memoryview(content).nbytes
        checksum = zlib.crc32(content) if self.checksums else 0
        self.header(name, size, checksum)
        self.emit(content)
        return checksum

    def room(self, name: str, size: int) -> int:
        """Add a record whose content is to be written later by somebody who knows where it lies; it is zeros. Returns 0."""
        self.header(name, size, 0)
        zeros = bytes(min(size, 1 << 20))
        while size:
            self.emit(zeros[:size])
            size -= min(size, len(zeros))
        return 0

    def header(self, name: str, size: int, checksum: int) -> None:
        """Write what stands before the content of a record, and note it for the directory."""
        path = f"{self.folder}/{name}".encode()
        start = self.position
        extra = struct.pack("<HHQQ", EXTRA64, 16, size, size) if size >= FULL32 else b""
        # The first byte of the content lies on a multiple of 64: a field that readers skip fills the gap.
        gap = -(start + LOCAL.size + len(path) + len(extra) + 4) % ALIGNMENT
        extra += b"FB" + struct.pack("<H", gap) + b"Z" * gap
        shown = min(size, FULL32)
        need = 45 if size >= FULL32 else 20
        self.emit(
            LOCAL.pack(LOCAL_SIGNATURE, need, UTF8, 0, 0, DAY_ONE, checksum, shown, shown, len(path), len(extra)) + path + extra
        )
        self.directory.append((path, checksum, size, start))

    def close(self) -> None:
        """Write the central directory; the file object stays open."""
        start = self.position
        for path, checksum, size, offset in self.directory:
            extra = b""
            if size >= FULL32:
                extra += struct.pack("<QQ", size, size)
            if offset >= FULL32:
                extra += struct.pack("<Q", offset)
            if extra:
                extra = struct.pack("<HH", EXTRA64, len(extra)) + extra
            shown = min(size, FULL32)
            need = 45 if extra else 20
            self.emit(
                CENTRAL.pack(
                    CENTRAL_SIGNATURE, need, need, UTF8, 0, 0, DAY_ONE, checksum, shown, shown, len(path), len(extra), 0, 0, 0, 0,
                    min(offset, FULL32),
                ) + path + extra
            )  # fmt: skip
        size, count = self.position - start, len(self.directory)
        if count >= FULL16 or size >= FULL32 or start >= FULL32:
            end64 = self.position
            self.emit(END64.pack(END64_SIGNATURE, END64.size - 12, 45, 45, 0, 0, count, count, size, start))
            self.emit(LOCATOR64.pack(LOCATOR64_SIGNATURE, 0, end64, 1))
        shown = min(count, FULL16)
        self.emit(END.pack(END_SIGNATURE, 0, 0, shown, shown, min(size, FULL32), min(start, FULL32), 0))


def is_archive(file: IO[bytes]) -> bool:
    """Whether the file continues with a zip record; its position is left as it was."""
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    return head == LOCAL_SIGNATURE


class Behind:
    """A binary file from a place on, which is its beginning; it can be read and nothing else."""

    def __init__(self, file: IO[bytes], start: int):
        self.file, self.start = file, start
        into = getattr(file, "readinto", None)
        if into is not None:
            self.readinto = into

    def read(self, size: int) -> bytes:
        """The next bytes."""
        return self.file.read(size)

    def tell(self) -> int:
        """Where the file stands."""
        return self.file.tell() - self.start

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        self.file.seek(place + self.start if whence == os.SEEK_SET else place, whence)
        return self.tell()


class ArchiveReader:
    """The records of an archive that a seekable binary file continues with."""

    def __init__(self, file: IO[bytes]):
        start = file.tell()
        #: Where the archive begins in the file, from which its own places are counted.
        self.begins, self.file = start, Behind(file, start) if start else file
        entries = directory(self.file)
        self.length = length_of(self.file)
        if not entries:
            raise RuntimeError("archive does not contain any files")
        # Every record lies in one folder, whose name is that of the file when it was saved.
        folder, slash, _ = entries[0].name.partition("/")
        if not slash:
            raise RuntimeError(f"file in archive is not in a subdirectory: {entries[0].name}")
        prefix, outside, twice = folder + slash, [], ""
        self.records: dict[str, Entry] = {}
        for entry in entries:
            if entry.name.startswith(prefix):
                if self.records.setdefault(entry.name[len(prefix) :], entry) is not entry:
                    twice = entry.name
            else:
                outside.append(entry.name)
        self.check_version()
        if outside:
            raise RuntimeError(f"file in archive is not in a subdirectory {prefix}: {outside[0]}")
        if twice:  # readers of zip files differ in which they take: what one has checked isn't what another one loads
            raise damaged(f"reading zip archive: two records have the name {twice}")
        if sum(entry.stored for entry in entries) > self.length:
            raise damaged("reading zip archive: records overlap or reach outside the file")
        expanded = sum(entry.size for entry in entries if entry.method != STORED)
        if expanded > max(EXPANSION_LIMIT * self.length, COMPRESSED_LIMIT):
            raise RuntimeError(
                f"refusing a file of {self.length} bytes whose compressed records claim {expanded} bytes. If you trust it, "
                "unpack it and zip it again without compression"
            )

    def __contains__(self, name: str) -> bool:
        return name in self.records

    def entry(self, name: str) -> Entry:
        """The directory entry of a record. Raises RuntimeError if there is none, or one that can't be read."""
        found = self.records.get(name)
        if found is None:
            raise damaged(f"locating file {name}: file not found")
        if found.flags & ENCRYPTED:
            raise damaged(f"retrieving file meta-data for {name}: unsupported encryption")
        if found.method not in (STORED, DEFLATED):
            raise damaged(f"retrieving file meta-data for {name}: unsupported method")
        return found

    def size(self, name: str) -> int:
        """The size of a record's content in bytes."""
        return self.entry(name).size

    def start(self, name: str) -> int:
        """Where in the file the content of a record begins. Raises RuntimeError if it isn't all inside the file."""
        entry = self.entry(name)
        header = read_at(self.file, entry.header, LOCAL.size)
        if len(header) < LOCAL.size or not header.startswith(LOCAL_SIGNATURE):
            raise damaged(f"reading file {name}: {CORRUPTED}")
        *_, name_size, extra_size = LOCAL.unpack(header)
        start = entry.header + LOCAL.size + name_size + extra_size
        if start + entry.stored > self.length:
            raise damaged(f"reading file {name}: {CORRUPTED}")
        possible = entry.size == entry.stored if entry.method == STORED else entry.size <= entry.stored * DEEPEST_COMPRESSION
        if not possible:
            raise damaged(f"reading file {name}: {CORRUPTED}")
        return start

    def check_sums(self) -> None:
        """RuntimeError if a record's bytes aren't those that were written. One without a checksum isn't looked at."""
        for name, entry in self.records.items():
            if entry.checksum:
                with self.open(name) as record:
                    checksum = 0
                    while piece := record.read(1 << 20):
                        checksum = zlib.crc32(piece, checksum)
                if checksum != entry.checksum:
                    raise damaged(f"reading file {name}: its checksum is another than when it was written: {CORRUPTED}")

    def is_stored(self, name: str) -> bool:
        """Whether the content lies in the file as it is, uncompressed."""
        return self.entry(name).method == STORED

    def read_into(self, name: str, target: memoryview) -> None:
        """Fill `target`, whose size is that of the record."""
        start, entry = self.start(name), self.entry(name)
        if entry.method == STORED:
            self.file.seek(start)
            read_exactly(self.file, target, name)
        else:
            read_exactly(_Inflated(self.file, start, entry, name), target, name)

    def open(self, name: str) -> IO[bytes]:
        """The content of a record as a file, of which a compressed one is decompressed as far as it is read."""
        place, entry = self.start(name), self.entry(name)
        if entry.method != STORED:
            return io.BufferedReader(_Inflated(self.file, place, entry, name))
        content = bytearray(entry.size)  # a size that the file has
        self.read_into(name, memoryview(content))
        return io.BytesIO(content)

    def beginning(self, name: str) -> bytes:
        """The first bytes of a record that holds a word."""
        with self.open(name) as record:
            return record.read(LONGEST_WORD)

    def check_version(self) -> None:
        """Raises RuntimeError if the container's version is missing, unreadable or newer than this reader."""
        name = "version" if "version" in self else ".data/version"
        if name not in self:
            raise RuntimeError(
                'Expected hasRecord("version") to be true, but got false.  (Could this error message be improved?  If so, '
                "please report an enhancement request to PyTorch.)"
            )
        content = self.beginning(name)
        number = re.match(rb"\s*[+-]?\d{1,18}", content)
        if number is None:
            raise RuntimeError(f"Couldn't parse the version {content.decode(errors='replace')} as Long Long.")
        version = int(number[0])
        if version < 1:
            raise RuntimeError(f"Attempted to read a PyTorch file with version {version}, but the minimum supported is 1.")
        if version > NEWEST_VERSION:
            raise RuntimeError(
                f"Attempted to read a PyTorch file with version {version}, but the maximum supported version for reading is "
                f"{NEWEST_VERSION}. The version of your PyTorch installation may be too old, please upgrade PyTorch to "
                "latest version to mitigate this issue."
            )


class _Inflated(io.RawIOBase):
    """A compressed record, decompressed as it is read, never past the size that the directory gives."""

    def __init__(self, file: Any, start: int, entry: Entry, name: str):
        self.file, self.place, self.name = file, start, name
        self.end, self.left = start + entry.stored, entry.size
        self.inflater = zlib.decompressobj(-15)

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, target: Any) -> int:
        """Decompress some bytes; 0 at the end. Raises RuntimeError if the record ends before its size."""
        wanted = min(len(target), self.left)
        piece = b""
        while wanted and not piece:
            if self.inflater.eof:
                raise self.failed()
            content = self.inflater.unconsumed_tail
            if not content:
                content = read_at(self.file, self.place, min(self.end - self.place, 1 << 16))
                self.place += len(content)
                if not content:
                    raise self.failed()
            try:
                piece = self.inflater.decompress(content, wanted)
            except zlib.error as error:
                raise self.failed() from error
        target[: len(piece)] = piece
        self.left -= len(piece)
        return len(piece)

    def failed(self) -> RuntimeError:
        """The error for a record that is no compressed content of its size."""
        return damaged(f"reading file {self.name}: decompression failed")


def read_exactly(file: Any, target: memoryview, name: str) -> None:
    """Fill `target` from the file. Raises RuntimeError at its end."""
    if read_some(file, target) < len(target):
        raise damaged(f"reading file {name}: file read failed")
