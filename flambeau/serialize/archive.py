"""The container of a saved file: a zip archive of uncompressed records, each aligned to 64 bytes, as PyTorch writes it.

Stands on the standard library. `ArchiveWriter` writes records front to back and never seeks; `ArchiveReader` finds records
in a file that may be damaged or hostile: what it says of sizes and positions is checked against the file before any use.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from typing import IO, Any

ALIGNMENT = 64
#: Highest version of the container that is understood.
NEWEST_VERSION = 10
#: Compressed records may expand to this multiple of the file, or to COMPRESSED_LIMIT bytes if that is more.
EXPANSION_LIMIT = 32
COMPRESSED_LIMIT = 1 << 30

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR64 = struct.Struct("<4sIQI")
UTF8 = 0x800
DAY_ONE = 0x21  # 1 January 1980 in the zip format's date field; records carry no time, so equal content gives equal files
FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF

DAMAGED = (
    ". This is an internal miniz error. If you are seeing this error, there is a high likelihood that your checkpoint file "
    "is corrupted. This can happen if the checkpoint was not saved properly, was transferred incorrectly, or the file was "
    "modified after saving."
)


def damaged(what: str) -> RuntimeError:
    """The error for a file that isn't a whole archive."""
    return RuntimeError(f"PytorchStreamReader failed {what}{DAMAGED}")


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
        path = f"{self.folder}/{name}".encode()
        size = memoryview(content).nbytes
        checksum = zlib.crc32(content) if self.checksums else 0
        start = self.position
        extra = struct.pack("<HHQQ", 1, 16, size, size) if size >= FULL32 else b""
        # The first byte of the content lies on a multiple of 64: a field that readers skip fills the gap.
        gap = -(start + LOCAL.size + len(path) + len(extra) + 4) % ALIGNMENT
        extra += b"FB" + struct.pack("<H", gap) + b"Z" * gap
        shown = min(size, FULL32)
        need = 45 if size >= FULL32 else 20
        self.emit(
            LOCAL.pack(b"PK\3\4", need, UTF8, 0, 0, DAY_ONE, checksum, shown, shown, len(path), len(extra)) + path + extra
        )
        self.emit(content)
        self.directory.append((path, checksum, size, start))
        return checksum

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
                extra = struct.pack("<HH", 1, len(extra)) + extra
            shown = min(size, FULL32)
            need = 45 if extra else 20
            self.emit(
                CENTRAL.pack(
                    b"PK\1\2", need, need, UTF8, 0, 0, DAY_ONE, checksum, shown, shown, len(path), len(extra), 0, 0, 0, 0,
                    min(offset, FULL32),
                ) + path + extra
            )  # fmt: skip
        size, count = self.position - start, len(self.directory)
        if count >= FULL16 or size >= FULL32 or start >= FULL32:
            end64 = self.position
            self.emit(END64.pack(b"PK\6\6", END64.size - 12, 45, 45, 0, 0, count, count, size, start))
            self.emit(LOCATOR64.pack(b"PK\6\7", 0, end64, 1))
        shown = min(count, FULL16)
        self.emit(END.pack(b"PK\5\6", 0, 0, shown, shown, min(size, FULL32), min(start, FULL32), 0))


def is_archive(file: IO[bytes]) -> bool:
    """Whether the file continues with a zip record; its position is left as it was."""
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    return head == b"PK\3\4"


class ArchiveReader:
    """The records of an archive in a seekable binary file."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self.length = file.seek(0, os.SEEK_END)
        if self.length < 22:
            raise damaged("reading zip archive: not a ZIP archive")
        try:
            infos = zipfile.ZipFile(file).infolist()
        except (zipfile.BadZipFile, EOFError, ValueError, struct.error, NotImplementedError) as error:
            raise damaged("reading zip archive: failed finding central directory") from error
        if not infos:
            raise damaged("reading zip archive: the archive is empty")
        # Every record lies in one folder, whose name is that of the file when it was saved.
        folder, slash, _ = infos[0].orig_filename.partition("/")
        prefix = folder + slash if slash else ""
        self.records: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            if info.orig_filename.startswith(prefix):
                self.records.setdefault(info.orig_filename[len(prefix) :], info)
        stored = sum(info.compress_size for info in infos)
        expanded = sum(info.file_size for info in infos if info.compress_type != zipfile.ZIP_STORED)
        if stored > self.length:
            raise damaged("reading zip archive: records overlap or reach outside the file")
        if expanded > max(EXPANSION_LIMIT * self.length, COMPRESSED_LIMIT):
            raise RuntimeError(
                f"refusing a file of {self.length} bytes whose compressed records claim {expanded} bytes. If you trust it, "
                "unpack it and zip it again without compression"
            )

    def __contains__(self, name: str) -> bool:
        return name in self.records

    def info(self, name: str) -> zipfile.ZipInfo:
        """The directory entry of a record. Raises RuntimeError if there is none."""
        found = self.records.get(name)
        if found is None:
            raise damaged(f"locating file {name}: file not found")
        return found

    def size(self, name: str) -> int:
        """The size of a record's content in bytes."""
        return self.info(name).file_size

    def start(self, name: str) -> int:
        """Where in the file the content of a record begins. Raises RuntimeError if it isn't all inside the file."""
        info = self.info(name)
        self.file.seek(max(0, info.header_offset))
        header = self.file.read(LOCAL.size)
        if info.header_offset < 0 or len(header) < LOCAL.size or header[:4] != b"PK\3\4":
            raise damaged(f"reading file {name}: invalid header or archive is corrupted")
        fields = LOCAL.unpack(header)
        start = info.header_offset + LOCAL.size + fields[-2] + fields[-1]
        if start + info.compress_size > self.length:
            raise damaged(f"reading file {name}: file is too small")
        if info.flag_bits & 1:
            raise damaged(f"reading file {name}: encrypted records are not supported")
        if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
            raise damaged(f"reading file {name}: invalid header or archive is corrupted")
        return start

    def is_stored(self, name: str) -> bool:
        """Whether the content lies in the file as it is, uncompressed."""
        return self.info(name).compress_type == zipfile.ZIP_STORED

    def read_into(self, name: str, target: memoryview) -> None:
        """Fill `target`, whose size is that of the record."""
        info, start = self.info(name), self.start(name)
        self.file.seek(start)
        if info.compress_type == zipfile.ZIP_STORED:
            read_exactly(self.file, target, name)
        elif info.compress_type == zipfile.ZIP_DEFLATED:
            self.inflate_into(info, target, name)
        else:
            raise damaged(f"reading file {name}: unsupported method")

    def inflate_into(self, info: zipfile.ZipInfo, target: memoryview, name: str) -> None:
        """Decompress the record at which the file stands, never past the size that the directory gives."""
        inflater = zlib.decompressobj(-15)
        filled, left = 0, info.compress_size
        try:
            while filled < len(target) and not inflater.eof:
                content = inflater.unconsumed_tail
                if not content:
                    content = self.file.read(min(left, 1 << 20))
                    left -= len(content)
                    if not content:
                        break
                piece = inflater.decompress(content, min(len(target) - filled, 1 << 20))
                target[filled : filled + len(piece)] = piece
                filled += len(piece)
        except zlib.error as error:
            raise damaged(f"reading file {name}: decompression failed") from error
        if filled != len(target):
            raise damaged(f"reading file {name}: decompression failed")

    def read(self, name: str) -> bytes:
        """The content of a record."""
        content = bytearray(self.size(name))
        self.read_into(name, memoryview(content))
        return bytes(content)

    def check_version(self) -> None:
        """Raises RuntimeError if the container's version is missing, unreadable or newer than this reader."""
        name = "version" if "version" in self else ".data/version"
        if name not in self:
            raise RuntimeError('Expected hasRecord("version") to be true, but got false.')
        if self.size(name) > 64:
            raise damaged("reading file version: invalid header or archive is corrupted")
        text = self.read(name).decode("latin-1")
        try:
            version = int(text)
        except ValueError:
            raise RuntimeError(f"Couldn't parse the version {text} as Long Long.") from None
        if version < 1:
            raise RuntimeError(f"Attempted to read a PyTorch file with version {version}, but the minimum supported is 1.")
        if version > NEWEST_VERSION:
            raise RuntimeError(
                f"Attempted to read a PyTorch file with version {version}, but the maximum supported version for reading is "
                f"{NEWEST_VERSION}. The version of your PyTorch installation may be too old, please upgrade PyTorch to "
                "latest version to mitigate this issue."
            )


def read_exactly(file: IO[bytes], target: memoryview, name: str) -> None:
    """Fill `target` from the file. Raises RuntimeError at its end."""
    filled = 0
    into = getattr(file, "readinto", None)
    while filled < len(target):
        if into is not None:
            count = into(target[filled:])
        else:
            piece = file.read(min(len(target) - filled, 1 << 24))
            count = len(piece)
            target[filled : filled + count] = piece
        if not count:
            raise damaged(f"reading file {name}: file read failed")
        filled += count
