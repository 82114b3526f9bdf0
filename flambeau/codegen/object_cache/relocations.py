"""What object files leave open, filled in: the relocations of x86-64 and AArch64 code, and jumps to functions far away.

Sources: the System V ABI for AMD64; ELF for the Arm 64-bit Architecture (AAELF64). Stands on nothing; used by link.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, Protocol


class Reach(Enum):
    """What a relocation refers to."""

    PLACE = auto()  # a place in the image, at its distance
    CALL = auto()  # a function, in the image or (by a jump slot) outside
    ADDRESS = auto()  # the 8 bytes where the address of something outside stands
    WORD = auto()  # a place in the image, as an absolute address of 8 bytes


class Relocation(NamedTuple):
    """A kind of relocation; patch(code, at, to) writes at offset `at` what reaches offset `to` of the same image."""

    reach: Reach
    patch: Callable[[bytearray, int, int], None] | None = None


class Machine(Protocol):
    """The rules of one kind of processor."""

    relocations: dict[int, Relocation]

    def jump(self, here: int, slot: int) -> bytes:
        """Code for offset `here` that jumps to the address which stands at offset `slot`."""


def _relative(code: bytearray, at: int, to: int) -> None:
    struct.pack_into("<i", code, at, to - at)


class AMD64:
    """x86-64: distances of 32 bits."""

    relocations = {
        1: Relocation(Reach.WORD),  # R_X86_64_64
        2: Relocation(Reach.CALL, _relative),  # PC32
        4: Relocation(Reach.CALL, _relative),  # PLT32
        **{kind: Relocation(Reach.ADDRESS, _relative) for kind in (9, 41, 42)},  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
    }

    def jump(self, here: int, slot: int) -> bytes:
        return b"\xff\x25" + struct.pack("<i", slot - (here + 6))  # jmp [rip + distance]


def _insert(code: bytearray, at: int, value: int, bits: int, shift: int) -> None:
    """Set a field of the instruction at `at`."""
    (word,) = struct.unpack_from("<I", code, at)
    mask = (1 << bits) - 1
    struct.pack_into("<I", code, at, word & ~(mask << shift) | (value & mask) << shift)


def _distance(bits: int, shift: int) -> Callable:
    """A signed distance in instructions, of `bits` bits."""

    def patch(code: bytearray, at: int, to: int) -> None:
        steps = (to - at) >> 2
        if not -(1 << bits - 1) <= steps < 1 << bits - 1:
            raise NotImplementedError(f"a jump over {to - at} bytes within a kernel's code is too far for its instruction")
        _insert(code, at, steps, bits, shift)

    return patch


def _page(code: bytearray, at: int, to: int) -> None:
    """adrp: the distance in pages of 4096 bytes; images begin on a page."""
    pages = (to >> 12) - (at >> 12)
    _insert(code, at, pages, 2, 29)
    _insert(code, at, pages >> 2, 19, 5)


def _within_page(scale: int) -> Callable:
    """The offset within the page, in units of 2 ** scale bytes."""

    def patch(code: bytearray, at: int, to: int) -> None:
        _insert(code, at, (to & 4095) >> scale, 12, 10)

    return patch


class AArch64:
    """64-bit Arm: addresses in two parts, a page and the place in it."""

    relocations = {
        257: Relocation(Reach.WORD),  # R_AARCH64_ABS64
        261: Relocation(Reach.PLACE, _relative),  # PREL32
        275: Relocation(Reach.PLACE, _page),  # ADR_PREL_PG_HI21
        277: Relocation(Reach.PLACE, _within_page(0)),  # ADD_ABS_LO12_NC
        **{
            kind: Relocation(Reach.PLACE, _within_page(scale))  # LDST8/16/32/64/128_ABS_LO12_NC
            for scale, kind in enumerate((278, 284, 285, 286, 299))
        },
        279: Relocation(Reach.PLACE, _distance(14, 5)),  # TSTBR14
        280: Relocation(Reach.PLACE, _distance(19, 5)),  # CONDBR19
        282: Relocation(Reach.CALL, _distance(26, 0)),  # JUMP26
        283: Relocation(Reach.CALL, _distance(26, 0)),  # CALL26
        311: Relocation(Reach.ADDRESS, _page),  # ADR_GOT_PAGE
        312: Relocation(Reach.ADDRESS, _within_page(3)),  # LD64_GOT_LO12_NC
    }

    def jump(self, here: int, slot: int) -> bytes:
        load = bytearray(struct.pack("<I", 0x58000010))  # ldr x16, distance
        _distance(19, 5)(load, 0, slot - here)
        return bytes(load) + struct.pack("<I", 0xD61F0200)  # br x16


#: by the number that ELF gives the processor
MACHINES: dict[int, Machine] = {62: AMD64(), 183: AArch64()}
