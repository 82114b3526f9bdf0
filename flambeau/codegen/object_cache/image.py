"""Code images: compiled objects linked by ourselves into flat, relocatable bytes, and mapped into memory.

Stands on ctypes (mmap, symbol addresses) alone, so a kernel that is in the disk cache runs without LLVM being loaded at all.
An image holds the allocated sections of one object (link.py makes it), its internal relocations already applied, a jump slot and
an address slot for each external function (memcpy, PyLong_AsLongLong ...), and the offsets of its functions.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

PAGE = 4096
FAR = 1 << 40  # bytes; no address in an image is as far from its beginning
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_mmap = _LIBRARY.mmap
_mmap.restype, _mmap.argtypes = (
    ctypes.c_void_p,
    [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long],
)
_mprotect = _LIBRARY.mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
READ, WRITE, EXECUTE, PRIVATE_ANONYMOUS = 1, 2, 4, 0x22


@dataclass
class Image:
    """Linked code: position-independent but for the absolute addresses listed in `bases` and `externals`."""

    code: bytes
    functions: dict[str, int]  # name -> offset
    externals: dict[int, str] = field(default_factory=dict)  # offset of an 8-byte slot -> symbol
    bases: list[tuple[int, int]] = field(default_factory=list)  # offset of an 8-byte word = base + addend

    def to_tuple(self) -> tuple:
        return self.code, self.functions, self.externals, self.bases

    @staticmethod
    def from_tuple(parts: Any) -> Image | None:
        """The image of which `to_tuple` made this, or None for what can't be one: nothing in it lies outside its code."""
        try:
            code, functions, externals, bases = parts
            slots = len(code) - 8
            whole = (
                type(code) is bytes
                and len(functions) > 0
                and all([type(name) is str and 0 <= at < len(code) for name, at in functions.items()])
                and all([type(name) is str and 0 <= at <= slots for at, name in externals.items()])
                and all([0 <= at <= slots and -FAR < addend < FAR for at, addend in bases])
            )
        except (TypeError, ValueError, AttributeError):
            return None
        return Image(code, functions, externals, bases) if whole else None


def aligned(n: int, to: int) -> int:
    """The first multiple of `to` from n on."""
    return (n + to - 1) // to * to


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
    size = aligned(max(len(image.code), 1), PAGE)
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
