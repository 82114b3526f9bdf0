"""Object files to images: sections laid out one after the other, distances within and between objects filled in.

Stands on image.py and relocations.py.
"""

from __future__ import annotations

import struct

from flambeau.codegen.object_cache.image import Image, aligned
from flambeau.codegen.object_cache.relocations import MACHINES, Machine, Reach

_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, align, entry size
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
PROGRAM, SYMBOLS, RELOCATIONS, ZEROS = 1, 2, 4, 8  # section types
WRITABLE, ALLOCATED = 1, 2  # section flags
FUNCTION = 2  # symbol type


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


def link(*objects: bytes) -> Image:
    """Lay out the sections of relocatable ELF64 objects and resolve everything that does not depend on their address."""
    image, code = Image(b"", {}), bytearray()
    parts = [_Object(elf, code, image) for elf in objects]
    slots = _Slots(image, code, parts[0].machine)
    for part in parts:
        part.resolve(slots)
    image.code = bytes(code)
    return image


class _Object:
    """An object file whose sections have been put behind others."""

    def __init__(self, elf: bytes, code: bytearray, image: Image) -> None:
        (number,) = struct.unpack_from("<H", elf, 18)
        if elf[:6] != b"\x7fELF\x02\x01" or number not in MACHINES:
            raise NotImplementedError(
                "kernels can be loaded on x86-64 and AArch64 Linux only; this object is for another platform"
            )
        self.elf, self.machine = elf, MACHINES[number]
        (start,) = struct.unpack_from("<Q", elf, 40)
        size, count = struct.unpack_from("<HH", elf, 58)
        self.sections = [_SECTION.unpack_from(elf, start + i * size) for i in range(count)]
        self.place = _laid_out(elf, self.sections, code)
        self.symbols = _symbols(elf, self.sections, self.place, image)

    def resolve(self, slots: _Slots) -> None:
        """Fill in the distances to what this object refers to."""
        for _, kind, _, _, offset, length, _, target, _, _ in self.sections:
            if kind != RELOCATIONS or target not in self.place:
                continue
            for at, info, addend in _RELOCATION.iter_unpack(self.elf[offset : offset + length]):
                name, where = self.symbols[info >> 32]
                self._resolve(slots, at + self.place[target], info & 0xFFFFFFFF, name, where, addend)

    def _resolve(self, slots: _Slots, at: int, number: int, name: str, where: int | None, addend: int) -> None:
        if where is None:
            where = slots.image.functions.get(name)  # in another of the objects
        rule = self.machine.relocations.get(number)
        if rule is None or ((where is None) != (rule.reach is Reach.ADDRESS) and rule.reach is not Reach.CALL):
            raise NotImplementedError(f"relocation {number} against {name!r} is not supported")
        if rule.reach is Reach.WORD:
            assert where is not None
            slots.image.bases.append((at, where + addend))
            return
        if where is None:
            where = slots.address(name) if rule.reach is Reach.ADDRESS else slots.jump(name)
        rule.patch(slots.code, at, where + addend)


def _laid_out(elf: bytes, sections: list[tuple], code: bytearray) -> dict[int, int]:
    """Put the allocated sections' bytes behind `code`; where each begins."""
    place: dict[int, int] = {}
    size = len(code)
    for i, (_, kind, flags, _, _, length, _, _, align, _) in enumerate(sections):
        if flags & ALLOCATED and kind in (PROGRAM, ZEROS) and length:
            if flags & WRITABLE:
                raise NotImplementedError("a kernel has writable data, which images do not support")
            size = aligned(size, max(align, 1))
            place[i] = size
            size += length
    code.extend(bytes(size - len(code)))
    for i, start in place.items():
        _, kind, _, _, offset, length, *_ = sections[i]
        if kind == PROGRAM:
            code[start : start + length] = elf[offset : offset + length]
    return place


def _symbols(elf: bytes, sections: list[tuple], place: dict[int, int], image: Image) -> list[tuple[str, int | None]]:
    """(name, place in the image or None) of every symbol; the image learns of its functions."""
    symbols: list[tuple[str, int | None]] = []
    for _, kind, _, _, offset, length, link_to, *_ in sections:
        if kind != SYMBOLS:
            continue
        strings = sections[link_to][4]
        for name_at, info, _, home, value, _ in _SYMBOL.iter_unpack(elf[offset : offset + length]):
            end = elf.index(b"\0", strings + name_at)
            name = elf[strings + name_at : end].decode()
            where = place[home] + value if home in place else None
            symbols.append((name, where))
            if info & 15 == FUNCTION and where is not None:
                image.functions[name] = where
    return symbols
