"""Code images: compiled objects linked by ourselves into flat, relocatable bytes, and mapped into memory.

Stands on ctypes (mmap, symbol addresses) alone, so a kernel that is in the disk cache runs without LLVM being loaded at all.
An image holds the allocated sections of one ELF x86-64 object, its internal relocations already applied, a jump slot and an
address slot for each external function (memcpy, PyLong_AsLongLong ...), and the offsets of its functions.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field

PAGE = 4096
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_mmap = _LIBRARY.mmap
_mmap.restype, _mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                                 ctypes.c_int, ctypes.c_long]
_mprotect = _LIBRARY.mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
READ, WRITE, EXECUTE, PRIVATE_ANONYMOUS = 1, 2, 4, 0x22

R_64, R_PC32, R_PLT32, R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX = 1, 2, 4, 9, 41, 42


@dataclass
class Image:
    """Linked code: position-independent but for the absolute addresses listed in `bases` and `externals`."""

    code: bytes
    functions: dict[str, int]                                   # name -> offset
    externals: dict[int, str] = field(default_factory=dict)     # offset of an 8-byte slot -> symbol
    bases: list[tuple[int, int]] = field(default_factory=list)  # offset of an 8-byte word = base + addend

    def to_tuple(self) -> tuple:
        return self.code, self.functions, self.externals, self.bases


def _align(n: int, to: int) -> int:
    return (n + to - 1) // to * to


def link(elf: bytes) -> Image:
    """Lay out the sections of an ELF64 x86-64 relocatable object and resolve everything that does not depend on its address."""
    if elf[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", elf, 18)[0] != 62:
        raise NotImplementedError("kernels can be loaded on x86-64 Linux only; this object is for another platform")
    section_offset, = struct.unpack_from("<Q", elf, 40)
    entry_size, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, section_offset + i * entry_size) for i in range(count)]
    # (name, type, flags, address, offset, size, link, info, align, entry size)
    place: dict[int, int] = {}
    size = 0
    for i, (_, kind, flags, _, _, length, _, _, align, _) in enumerate(sections):
        if flags & 2 and kind in (1, 8) and length:  # allocated: PROGBITS or NOBITS
            if flags & 1:
                raise NotImplementedError("a kernel has writable data, which images do not support")
            size = _align(size, max(align, 1))
            place[i] = size
            size += length
    code = bytearray(size)
    for i, start in place.items():
        _, kind, _, _, offset, length, *_ = sections[i]
        if kind == 1:
            code[start:start + length] = elf[offset:offset + length]
    image = Image(b"", {})
    jump_slots: dict[str, int] = {}
    address_slots: dict[str, int] = {}

    def address_slot(name: str) -> int:
        if name not in address_slots:
            code.extend(bytes(_align(len(code), 8) - len(code)))
            address_slots[name] = len(code)
            image.externals[len(code)] = name
            code.extend(bytes(8))
        return address_slots[name]

    def jump_slot(name: str) -> int:
        if name not in jump_slots:
            slot = address_slot(name)
            jump_slots[name] = len(code)
            code.extend(b"\xff\x25" + struct.pack("<i", slot - (len(code) + 6)))  # jmp [rip + slot]
        return jump_slots[name]

    symbols: list[tuple[str, int | None]] = []
    for _, kind, _, _, offset, length, link_to, _, _, entry in sections:
        if kind != 2:
            continue
        strings = sections[link_to][4]
        for j in range(length // entry):
            name_at, info, _, home, value, _ = struct.unpack_from("<IBBHQQ", elf, offset + j * entry)
            end = elf.index(b"\0", strings + name_at)
            name = elf[strings + name_at:end].decode()
            where = place[home] + value if home in place else None
            symbols.append((name, where))
            if info & 15 == 2 and where is not None:
                image.functions[name] = where
    for _, kind, _, _, offset, length, _, target, _, entry in sections:
        if kind != 4 or target not in place:
            continue
        for j in range(length // entry):
            at, info, addend = struct.unpack_from("<QQq", elf, offset + j * entry)
            at += place[target]
            name, where = symbols[info >> 32]
            relocation = info & 0xFFFFFFFF
            if relocation == R_64 and where is not None:
                image.bases.append((at, where + addend))
            elif relocation in (R_PC32, R_PLT32):
                struct.pack_into("<i", code, at, (where if where is not None else jump_slot(name)) + addend - at)
            elif relocation in (R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX) and where is None:
                struct.pack_into("<i", code, at, address_slot(name) + addend - at)
            else:
                raise NotImplementedError(f"relocation {relocation} against {name!r} is not supported")
    image.code = bytes(code)
    return image


def symbol_address(name: str) -> int:
    """Address of a function of the C library or of the interpreter."""
    for library in (ctypes.pythonapi, _LIBRARY):
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    raise ImportError(f"a kernel needs the function {name!r}, which this process does not have")


def map_image(image: Image) -> dict[str, int]:
    """Put an image into executable memory for the rest of the process; addresses of its functions by name."""
    size = _align(max(len(image.code), 1), PAGE)
    base = _mmap(None, size, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        raise MemoryError("no memory for compiled code")
    ctypes.memmove(base, image.code, len(image.code))
    for offset, name in image.externals.items():
        ctypes.c_uint64.from_address(base + offset).value = symbol_address(name)
    for offset, addend in image.bases:
        ctypes.c_uint64.from_address(base + offset).value = base + addend
    if _mprotect(base, size, READ | EXECUTE):
        raise PermissionError("this system refuses executable memory, which compiled kernels need")
    return {name: base + offset for name, offset in image.functions.items()}
