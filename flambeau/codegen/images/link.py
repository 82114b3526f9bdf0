"""Object files to images: sections laid out one after the other, distances between them filled in.

Stands on image.py and relocations.py.
"""

from __future__ import annotations

import struct

from flambeau.codegen.images.image import Image, aligned
from flambeau.codegen.images.relocations import MACHINES, Machine, Reach

_SECTION = struct.Struct("<IIQQQQIIQQ")     # name, type, flags, address, offset, size, link, info, align, entry size
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
PROGRAM, SYMBOLS, RELOCATIONS, ZEROS = 1, 2, 4, 8       # section types
WRITABLE, ALLOCATED = 1, 2                              # section flags
FUNCTION = 2                                            # symbol type


class _Slots:
    """Room behind the sections for the addresses of functions outside, and for jumps to them."""

    def __init__(self, image: Image, code: bytearray, machine: Machine):
        self.image, self.code, self.machine = image, code, machine
        self.addresses: dict[str, int] = {}
        self.jumps: dict[str, int] = {}

    def address(self, name: str) -> int:
        """Where the address of an external function will stand."""
        if name not in self.addresses:
            at = self._end()
            self.addresses[name] = at
            self.image.externals[at] = name
            self.code.extend(bytes(8))
        return self.addresses[name]

    def jump(self, name: str) -> int:
        """Where code stands that jumps to an external function."""
        if name not in self.jumps:
            slot = self.address(name)
            at = self.jumps[name] = self._end()
            self.code.extend(self.machine.jump(at, slot))
        return self.jumps[name]

    def _end(self) -> int:
        self.code.extend(bytes(aligned(len(self.code), 8) - len(self.code)))
        return len(self.code)


def link(elf: bytes) -> Image:
    """Lay out the sections of a relocatable ELF64 object and resolve everything that does not depend on its address."""
    number, = struct.unpack_from("<H", elf, 18)
    if elf[:6] != b"\x7fELF\x02\x01" or number not in MACHINES:
        raise NotImplementedError("kernels can be loaded on x86-64 and AArch64 Linux only; this object is for another platform")
    machine = MACHINES[number]
    start, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    sections = [_SECTION.unpack_from(elf, start + i * size) for i in range(count)]
    code, place = _laid_out(elf, sections)
    image = Image(b"", {})
    slots = _Slots(image, code, machine)
    symbols = _symbols(elf, sections, place, image)
    for _, kind, _, _, offset, length, _, target, _, _ in sections:
        if kind != RELOCATIONS or target not in place:
            continue
        for at, info, addend in _RELOCATION.iter_unpack(elf[offset:offset + length]):
            at += place[target]
            name, where = symbols[info >> 32]
            rule = machine.relocations.get(info & 0xFFFFFFFF)
            if rule is None or ((where is None) != (rule.reach is Reach.ADDRESS) and rule.reach is not Reach.CALL):
                raise NotImplementedError(f"relocation {info & 0xFFFFFFFF} against {name!r} is not supported")
            if rule.reach is Reach.WORD:
                image.bases.append((at, where + addend))
                continue
            if where is None:
                where = slots.address(name) if rule.reach is Reach.ADDRESS else slots.jump(name)
            rule.patch(code, at, where + addend)
    image.code = bytes(code)
    return image


def _laid_out(elf: bytes, sections: list[tuple]) -> tuple[bytearray, dict[int, int]]:
    """The allocated sections' bytes, and where each begins."""
    place: dict[int, int] = {}
    size = 0
    for i, (_, kind, flags, _, _, length, _, _, align, _) in enumerate(sections):
        if flags & ALLOCATED and kind in (PROGRAM, ZEROS) and length:
            if flags & WRITABLE:
                raise NotImplementedError("a kernel has writable data, which images do not support")
            size = aligned(size, max(align, 1))
            place[i] = size
            size += length
    code = bytearray(size)
    for i, start in place.items():
        _, kind, _, _, offset, length, *_ = sections[i]
        if kind == PROGRAM:
            code[start:start + length] = elf[offset:offset + length]
    return code, place


def _symbols(elf: bytes, sections: list[tuple], place: dict[int, int], image: Image) -> list[tuple[str, int | None]]:
    """(name, place in the image or None) of every symbol; the image learns of its functions."""
    symbols: list[tuple[str, int | None]] = []
    for _, kind, _, _, offset, length, link_to, *_ in sections:
        if kind != SYMBOLS:
            continue
        strings = sections[link_to][4]
        for name_at, info, _, home, value, _ in _SYMBOL.iter_unpack(elf[offset:offset + length]):
            end = elf.index(b"\0", strings + name_at)
            name = elf[strings + name_at:end].decode()
            where = place[home] + value if home in place else None
            symbols.append((name, where))
            if info & 15 == FUNCTION and where is not None:
                image.functions[name] = where
    return symbols
