"""What the native runtime relies on of CPython: the layout of a few objects, and the interpreter's lock.

The launcher is machine code that reads Python objects where CPython keeps their fields, and it counts references without
atomic instructions. Everything it takes for granted stands here and is checked when the package is imported, so that another
interpreter is refused in words and not by a wrong address. Public C functions it calls by name need no entry. Also relied
upon, by `sys.getrefcount` in base and core: that references in containers and slots are counted. Those of variables and arguments
are not all counted from 3.14 on. Used by codegen.runtime.
"""

from __future__ import annotations

import ctypes
import sys

#: Bytes before the first field of an object: the count of references and the type.
OBJECT_HEADER = 16
#: Where the bytes of a `bytes` object begin: header, size, cached hash.
BYTES_DATA = 32
_MEMBER_OF_DESCRIPTOR = 40  # PyMemberDescrObject.d_member, of a slot's descriptor
_OFFSET_OF_MEMBER = 16  # PyMemberDef.offset


class _Probe:
    __slots__ = ("first", "second")


def slot_offset(cls: type, name: str) -> int:
    """Where the slot `name` of an instance of `cls` lies, in bytes from its beginning."""
    descriptor = next(c.__dict__[name] for c in cls.__mro__ if name in c.__dict__)
    member = ctypes.c_void_p.from_address(id(descriptor) + _MEMBER_OF_DESCRIPTOR).value
    return ctypes.c_ssize_t.from_address(member + _OFFSET_OF_MEMBER).value


def refusal() -> str | None:
    """Why this interpreter can't run the native runtime; None where it can."""
    if sys.implementation.name != "cpython":
        return f"it reads objects as CPython lays them out, and this is {sys.implementation.name}"
    if "t" in sys.abiflags:
        return "it counts references under the interpreter's lock, and this is a free-threaded build: use one with the lock"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "its kernels are for little-endian machines of 64 bits"
    if object.__basicsize__ != OBJECT_HEADER or bytes.__basicsize__ - 1 != BYTES_DATA:
        return "objects have other headers here than in the builds of CPython that it knows (a debugging build?)"
    if (slot_offset(_Probe, "first"), slot_offset(_Probe, "second")) != (OBJECT_HEADER, OBJECT_HEADER + 8):
        return "the slots of a class lie elsewhere than in the builds of CPython that it knows"
    probe = object()
    count = ctypes.c_uint32.from_address(id(probe))  # the low half of the word, in every version
    before, held = count.value, [probe]
    if count.value != before + len(held):
        return "references are counted otherwise than in the builds of CPython that it knows"
    return None


def check() -> None:
    """Raise ImportError, with the reason, where the native runtime can't run."""
    reason = refusal()
    if reason is not None:
        raise ImportError(f"flambeau's native runtime can't run in this Python ({sys.version.split()[0]}): {reason}")
