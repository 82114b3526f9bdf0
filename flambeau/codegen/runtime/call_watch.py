"""A watch over a thread's calls: Python is told of each function that begins, but for those whose code it has said it knows.

It is what sys.setprofile gives, with the choice made by machine code: events other than calls, and calls of known code, cost some
nanoseconds. Stands on codegen.builder and cpython.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from types import CodeType
from typing import Any

from flambeau.codegen.builder import Function, module
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.runtime.cpython import BYTES_DATA

__all__ = ["CallWatch"]

CALL, C_CALL = 0, 4  # PyTrace_CALL, PyTrace_C_CALL
PLACES = 1 << 13  # of addresses of known code; a power of two
SHIFT = 4  # objects lie at multiples of this power of two
_set_profile = ctypes.pythonapi.PyEval_SetProfile
_set_profile.restype = None


def _watch_function() -> Function:
    """int watch(words, frame, event, argument), as PyEval_SetProfile calls it; words are those that CallWatch writes."""
    f = Function("fb_watch_calls", [("self", "ptr"), ("frame", "ptr"), ("event", "i32"), ("argument", "ptr")], "i32")
    event = f.convert(f["event"], "i64", "sext")
    words = f.at("i64", f.at("i8", f["self"], BYTES_DATA), 0)
    table, told, call, c_call, function, nothing = (f.load("i64", words, i) for i in range(6))
    arguments = f.stack("i64", 3)
    name = f.variable("i64", c_call)
    with f.branches(event.equals(CALL)) as otherwise:
        code = f.call("ptr", "PyFrame_GetCode", f["frame"])
        f.call("void", "Py_DecRef", code)  # its function holds it
        at = f.variable("i64", f.address(code))
        at.set(at.get().unsigned_div(1 << SHIFT) & (PLACES - 1))
        known = f.pointer(table)
        with f.repeat(lambda: f.load("i64", known, at.get()).differs(0)):
            with f.when(f.load("i64", known, at.get()).equals(f.address(code))):
                f.ret(f.value(0, "i32"))
            at.set((at.get() + 1) & (PLACES - 1))
        name.set(call)
        otherwise()
        with f.when(event.differs(C_CALL)):
            f.ret(f.value(0, "i32"))
        with f.when(f.address(f["argument"]).differs(function)):
            f.ret(f.value(0, "i32"))
    f.store(f.address(f["frame"]), arguments, 0)
    f.store(name.get(), arguments, 1)
    f.store(nothing, arguments, 2)
    with f.when(f.address(f["argument"]).differs(0)):
        f.store(f.address(f["argument"]), arguments, 2)
    made = f.call("ptr", "PyObject_Vectorcall", f.pointer(told), arguments, f.i64(3), f.pointer(f.i64(0)))
    with f.when(f.address(made).equals(0)):
        f.ret(f.value(-1, "i32"))
    f.call("void", "Py_DecRef", made)
    f.ret(f.value(0, "i32"))
    return f


@compiled_module()
def _native() -> str:
    return module(_watch_function())


class CallWatch:
    """told(frame, "call", None) for each function of Python that begins in this thread after `begin`, if its code
    isn't known, and told(frame, "c_call", function) for calls of one function in C.
    """

    def __init__(self, told: Callable[[Any, str, Any], None], function: Any) -> None:
        self._table = (ctypes.c_int64 * PLACES)()
        self._codes: list[CodeType] = []  # whose addresses are in the table
        self._held = told, "call", "c_call", function, None
        self._words = struct.pack("6q", ctypes.addressof(self._table), *map(id, self._held))
        native = ctypes.c_void_p(_native().functions()["fb_watch_calls"])
        self._begins = native, ctypes.py_object(self._words)  # as they are given, since a conversion may find no stack left

    def know(self, code: CodeType) -> None:
        """Calls of this code aren't told any more."""
        if len(self._codes) < PLACES // 2:
            self._codes.append(code)
            at = id(code) >> SHIFT & (PLACES - 1)
            while self._table[at]:
                at = (at + 1) & (PLACES - 1)
            self._table[at] = id(code)

    def begin(self) -> None:
        """Watch this thread's calls, in the place of any profile function."""
        _set_profile(*self._begins)
