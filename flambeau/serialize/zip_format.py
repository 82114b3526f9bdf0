"""The zip format as far as saved files use it: its structures, and the directory of a file, checked before any use.

Stands on the standard library's struct. A directory that contradicts itself or the file's length is an error in the words
of PyTorch's reader; nothing that it says of sizes and positions is believed.
"""

from __future__ import annotations

import os
import struct
from typing import Any, NamedTuple

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR64 = struct.Struct("<4sIQI")
LOCAL_SIGNATURE, CENTRAL_SIGNATURE, END_SIGNATURE = b"PK\3\4", b"PK\1\2", b"PK\5\6"
END64_SIGNATURE, LOCATOR64_SIGNATURE = b"PK\6\6", b"PK\6\7"
#: The field that holds the numbers which don't fit in 32 bits.
EXTRA64 = 1
STORED, DEFLATED = 0, 8
ENCRYPTED, MASKED = 0x1 | 0x40, 0x2000
FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF

DAMAGED = (
    ". This is an internal miniz error. If you are seeing this error, there is a high likelihood that your checkpoint file "
    "is corrupted. This can happen if the checkpoint was not saved properly, was transferred incorrectly, or the file was "
    "modified after saving."
)
CORRUPTED = "invalid header or archive is corrupted"


def damaged(what: str) -> RuntimeError:
    """The error for a file that isn't a whole archive."""
    return RuntimeError(f"PytorchStreamReader failed {what}{DAMAGED}")


class Entry(NamedTuple):
    """What the directory says of one record; sizes and the place of its header are in bytes."""

    name: str
    method: int
    flags: int
    stored: int
    size: int
    header: int
    checksum: int


def length_of(file: Any) -> int:
    """The number of bytes of a seekable file (whose seek need not return anything)."""
    file.seek(0, os.SEEK_END)
    return file.tell()


def read_at(file: Any, place: int, size: int) -> bytes:
    """The bytes at a place; fewer where the file ends."""
    file.seek(place)
    return file.read(size)


def read_some(file: Any, target: memoryview) -> int:
    """Fill `target` from a file as far as it goes; the number of bytes."""
    filled, into = 0, getattr(file, "readinto", None)
    while filled < len(target):
        if into is not None:
            count = into(target[filled:])
        else:
            piece = file.read(min(len(target) - filled, 1 << 24))
            count = len(piece)
            target[filled : filled + count] = piece
        if not count:
            break
        filled += count
    return filled


def directory(file: Any) -> list[Entry]:
    """The entries of a seekable zip file. Raises RuntimeError for a file that isn't a whole archive."""
    length = length_of(file)
    if length < END.size:
        raise _unreadable("not a ZIP archive")
    count, size, start, disk = _end(file, length)
    if size < count * CENTRAL.size or start + size > length:
        raise _unreadable(CORRUPTED)
    content, place, entries = read_at(file, start, size), 0, []
    for _ in range(count):
        entry, taken = _entry(content, place, length, disk)
        entries.append(entry)
        place += taken
    return entries


def _unreadable(why: str) -> RuntimeError:
    return damaged(f"reading zip archive: {why}")


def _end(file: Any, length: int) -> tuple[int, int, int, int]:
    """(number of entries, size of the directory, its place, number of this disk), from the records behind it."""
    tail = min(length, END.size + FULL16)
    found = read_at(file, length - tail, tail).rfind(END_SIGNATURE, 0, tail - END.size + 4)
    if found < 0:
        raise _unreadable("failed finding central directory")
    place = length - tail + found
    _, disk, first_disk, here, count, size, start, _ = END.unpack(read_at(file, place, END.size))
    if place >= LOCATOR64.size + END64.size:
        locator = read_at(file, place - LOCATOR64.size, LOCATOR64.size)
        if locator.startswith(LOCATOR64_SIGNATURE):
            _, _, place64, disks = LOCATOR64.unpack(locator)
            if place64 > length - END64.size:
                raise _unreadable("not a ZIP archive")
            end64 = read_at(file, place64, END64.size)
            if end64.startswith(END64_SIGNATURE):
                _, following, _, _, disk, first_disk, here, count, size, start = END64.unpack(end64)
                if following < END64.size - 12:
                    raise _unreadable(CORRUPTED)
                if disks != 1:
                    raise _unreadable("unsupported multidisk archive")
                if max(count, here, size) > FULL32:
                    raise _unreadable("unsupported central directory size" if size > FULL32 else "too many files")
    if count != here or ((disk or first_disk) and (disk, first_disk) != (1, 1)):
        raise _unreadable("unsupported multidisk archive")
    return count, size, start, disk


def _entry(content: bytes, place: int, length: int, this_disk: int) -> tuple[Entry, int]:
    """(the entry at a place of the directory, the number of its bytes)."""
    if len(content) - place < CENTRAL.size or not content.startswith(CENTRAL_SIGNATURE, place):
        raise _unreadable(CORRUPTED)
    (
        _, _, _, flags, method, _, _, checksum, stored, size, name_size, extra_size, comment_size, disk, _, _, header,
    ) = CENTRAL.unpack_from(content, place)  # fmt: skip
    taken = CENTRAL.size + name_size + extra_size + comment_size
    if FULL32 not in (stored, size) and ((method == STORED and size != stored) or (size and not stored)):
        raise _unreadable(CORRUPTED)
    if disk == FULL16 or disk not in (this_disk, 1):
        raise _unreadable("unsupported multidisk archive")
    if stored != FULL32 and header + LOCAL.size + stored > length:
        raise _unreadable(CORRUPTED)
    if flags & MASKED:
        raise _unreadable("unsupported encryption")
    if place + taken > len(content):
        raise _unreadable(CORRUPTED)
    name_place = place + CENTRAL.size
    extra = content[name_place + name_size : name_place + name_size + extra_size]
    size, stored, header = _numbers64(extra, size, stored, header)
    name = content[name_place : name_place + name_size].decode("utf-8", "replace")
    return Entry(name, method, flags, stored, size, header, checksum), taken


def _numbers64(extra: bytes, *numbers: int) -> list[int]:
    """These numbers, those that are too large for 32 bits taken from the extra fields."""
    if FULL32 not in numbers:
        return list(numbers)
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, place)
        place += 4
        if place + size > len(extra):
            raise _unreadable(CORRUPTED)
        if kind == EXTRA64:
            if size < 8 * numbers.count(FULL32):
                raise _unreadable(CORRUPTED)
            large = iter(struct.unpack_from(f"<{size // 8}Q", extra, place))
            return [next(large) if number == FULL32 else number for number in numbers]
        place += size
    return list(numbers)
