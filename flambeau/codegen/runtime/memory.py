"""Native storage: a caching allocator and the Python type whose instances own its blocks.

Blocks are 64-byte aligned and come in size classes (multiples of 64 up to 1 KiB, then four per doubling); a freed block goes to
its class's free list and serves the next request of that class without a page fault. Blocks of 2 MiB and more are aligned to
huge pages and the kernel is asked for them. Everything here runs under the interpreter's lock, so lists need no locks.
`Block` is what core.tensor.storage calls Storage.
"""

from __future__ import annotations

import ctypes
import os

from flambeau.codegen.builder import Function, Value
from flambeau.codegen.runtime import state

HUGE = 2 << 20
# fields of a Block, byte offsets: PyObject header 0..15
PTR, NBYTES, VERSION, CLASS, STATE, OWNER, INFERENCE = 16, 24, 32, 40, 48, 56, 64
EPOCH, EXPORTS, WEAK, DICT, SERIAL, MARK, SIZE = 72, 80, 88, 96, 104, 112, 120
OWNED_ELSEWHERE = -1  # size class of memory that `owner` keeps alive
WRITABLE = 2  # mark of an alias of inference memory (`.data`), which may be written to outside inference mode
LENT = 1  # of memory that NumPy looks at, which stays where it is
META = -2  # size class of the storage of a tensor without data; a kernel must not be given it
COPY_ON_WRITE = -3  # of memory that `owner` keeps alive for several tensors, until one of them writes to it
EXPOSED = -1  # mark of memory whose address is known outside, where anybody may write to it and nobody sees it
# What the recorder of launches is told that happened to a Block (of READ, REBOUND: to a tensor): the first item of a pair.
SHOWN, READ, MOVED, COUNTED, REBOUND, OVERWRITTEN = 1, 2, 3, 4, 5, 6


def size_class(f: Function, n: Value) -> tuple[Value, Value]:
    """(class index, bytes) that a request of n bytes is rounded to."""
    n = f.maximum(n, 1)
    small = (n + 63) >> 6
    last = n - 1
    zeros = f.call("i64", "llvm.ctlz.i64", last, Value(f, "i1", "false"))
    shift = f.maximum(f.i64(61) - zeros, 1)  # floor(log2(n - 1)) - 2
    quarter = last >> shift  # 4..7
    large = (shift - 8) * 4 + (quarter - 4) + 17
    is_small = n <= 1024
    return f.select(is_small, small, large), f.select(is_small, small << 6, (quarter + 1) << shift)


def allocate_function() -> Function:
    """ptr allocate(state, nbytes): a block, or null when there is no memory."""
    f = Function("fb_allocate", [("state", "ptr"), ("nbytes", "i64")], "ptr")
    s = f["state"]
    index, size = size_class(f, f["nbytes"])
    head = f.at("i64", s, index + state.FREE_LISTS)
    first = f.load("i64", head)
    result = f.variable("i64", 0)
    with f.branches(first.differs(0)) as otherwise:
        f.store(f.load("i64", f.pointer(first)), head)
        result.set(first)
        f.store(f.load("i64", s, state.CACHED) - size, s, state.CACHED)
        otherwise()
        large = size >= HUGE
        alignment = f.select(large, f.i64(HUGE), f.i64(64))
        rounded = f.select(large, (size + (HUGE - 1)) & ~(HUGE - 1), size)
        fresh = f.call("ptr", "aligned_alloc", alignment, rounded)
        address = f.address(fresh)
        with f.when(address.equals(0)):
            f.call("void", "fb_empty_cache", s, declare=False)
            retry = f.call("ptr", "aligned_alloc", alignment, rounded)
            result.set(f.address(retry))
        with f.when(address.differs(0)):
            result.set(address)
            with f.when(large):
                with f.when(f.load("i64", s, state.HUGE_PAGES).differs(0)):
                    f.call("i32", "madvise", fresh, rounded, f.value(14, "i32"))
    with f.when(result.get().differs(0)):
        now = f.load("i64", s, state.ALLOCATED) + size
        f.store(now, s, state.ALLOCATED)
        f.store(f.maximum(now, f.load("i64", s, state.ALLOCATED_PEAK)), s, state.ALLOCATED_PEAK)
        f.store(f.load("i64", s, state.ALLOCATIONS) + 1, s, state.ALLOCATIONS)
    f.ret(f.pointer(result.get()))
    return f


def release_function() -> Function:
    """void release(state, pointer, nbytes): give a block back to its free list, or to the system over the cache limit."""
    f = Function("fb_release", [("state", "ptr"), ("block", "ptr"), ("nbytes", "i64")])
    s = f["state"]
    index, size = size_class(f, f["nbytes"])
    f.store(f.load("i64", s, state.ALLOCATED) - size, s, state.ALLOCATED)
    cached = f.load("i64", s, state.CACHED) + size
    with f.branches(cached > f.load("i64", s, state.CACHE_LIMIT)) as otherwise:
        f.call("void", "free", f["block"])
        otherwise()
        head = f.at("i64", s, index + state.FREE_LISTS)
        f.store(f.load("i64", head), f["block"])
        f.store(f.address(f["block"]), head)
        f.store(cached, s, state.CACHED)
    return f


def empty_cache_function() -> Function:
    f = Function("fb_empty_cache", [("state", "ptr")])
    with f.loop(0, 256) as i:
        head = f.at("i64", f["state"], i + state.FREE_LISTS)
        with f.repeat(lambda: f.load("i64", head).differs(0)):
            block = f.pointer(f.load("i64", head))
            f.store(f.load("i64", block), head)
            f.call("void", "free", block)
    f.store(f.i64(0), f["state"], state.CACHED)
    return f


def name_memory(f: Function, s: Value, block: Value) -> None:
    """Emit: give a Block's memory a number that no other had. All Blocks on one memory have the same."""
    serial = f.load("i64", s, state.SERIAL) + 1
    f.store(serial, s, state.SERIAL)
    f.store(serial, f.at("i8", block, SERIAL))


def tell(f: Function, s: Value, event: Value) -> None:
    """Emit: call the recorder with the items of a tuple, which is taken over. It answers for its own exceptions."""
    recorder = f.load("ptr", s, state.TAPE)
    f.call("void", "Py_IncRef", recorder)
    answer = f.call("ptr", "PyObject_Call", recorder, event, f.pointer(f.i64(0)))
    f.call("void", "Py_DecRef", event)
    f.call("void", "Py_DecRef", recorder)
    with f.branches(f.address(answer).equals(0)) as otherwise:
        f.call("void", "PyErr_Clear")
        otherwise()
        f.call("void", "Py_DecRef", answer)


def note_function() -> Function:
    """void note(state, kind, object): tell the recorder that something other than a launch happened to an object."""
    f = Function("fb_note", [("state", "ptr"), ("kind", "i64"), ("object", "ptr")])
    event = f.call("ptr", "PyTuple_New", f.i64(2))
    f.call("i32", "PyTuple_SetItem", event, f.i64(0), f.call("ptr", "PyLong_FromLongLong", f["kind"]))
    f.call("void", "Py_IncRef", f["object"])
    f.call("i32", "PyTuple_SetItem", event, f.i64(1), f["object"])
    tell(f, f["state"], event)
    return f


def note(f: Function, s: Value, kind: int, object: Value) -> None:
    """Emit: tell the recorder, if there is one."""
    with f.when(f.load("i64", s, state.TAPE).differs(0)):
        f.call("void", "fb_note", s, f.i64(kind), object, declare=False)


def rebound_function() -> Function:
    """rebound(tensor): an existing tensor is about to get other memory, or another layout."""
    f = Function("fb_rebound", [("self", "ptr"), ("tensor", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    note(f, s, REBOUND, f["tensor"])
    none = f.load("ptr", s, state.NONE)
    f.call("void", "Py_IncRef", none)
    f.ret(none)
    return f


def pointer_function() -> Function:
    """Getter of Block.ptr: whoever has the address may read and write there."""
    f = Function("fb_pointer", [("self", "ptr"), ("nothing", "ptr")], "ptr")
    note(f, f.pointer(f.load("i64", f.at("i8", f["self"], STATE))), SHOWN, f["self"])
    f.ret(f.call("ptr", "PyLong_FromLongLong", f.load("i64", f.at("i8", f["self"], PTR))))
    return f


def writes_function() -> Function:
    """Getter of Block.writes."""
    f = Function("fb_writes", [("self", "ptr"), ("nothing", "ptr")], "ptr")
    f.ret(f.call("ptr", "PyLong_FromLongLong", f.load("i64", f.at("i8", f["self"], VERSION))))
    return f


def set_writes_function() -> Function:
    """Setter of Block.writes."""
    f = Function("fb_set_writes", [("self", "ptr"), ("value", "ptr"), ("nothing", "ptr")], "i32")
    with f.when(f.address(f["value"]).equals(0)):
        s = f.pointer(f.load("i64", f.at("i8", f["self"], STATE)))
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.TYPE_ERROR), f.load("ptr", s, state.NONE))
        f.ret(f.value(-1, "i32"))
    note(f, f.pointer(f.load("i64", f.at("i8", f["self"], STATE))), COUNTED, f["self"])
    number = f.call("i64", "PyLong_AsLongLong", f["value"])
    with f.when(number.equals(-1)):
        with f.when(f.address(f.call("ptr", "PyErr_Occurred")).differs(0)):
            f.ret(f.value(-1, "i32"))
    f.store(number, f.at("i8", f["self"], VERSION))
    f.ret(f.value(0, "i32"))
    return f


def unmark(f: Function, block: Value) -> None:
    """Emit: what was made of a Block's bytes is no longer valid, as they change, or may change from now on.

    Its mark, 0 for fresh memory, is whatever runtime.weight_cache sets; EXPOSED stays.
    """
    mark = f.at("i8", block, MARK)
    f.store(f.minimum(f.load("i64", mark), 0), mark)


def give_back(f: Function, s: Value, nbytes: Value) -> None:
    """Emit: there is no memory for `nbytes`; have some given back that is kept only because it saves time. Python code runs."""
    giver = f.load("ptr", s, state.GIVE_BACK)
    with f.when(f.address(giver).differs(0)):
        count = f.call("ptr", "PyLong_FromLongLong", nbytes)
        done = f.call("ptr", "PyObject_CallOneArg", giver, count)
        f.call("void", "Py_DecRef", count)
        with f.branches(f.address(done).equals(0)) as otherwise:
            f.call("void", "PyErr_Clear")
            otherwise()
            f.call("void", "Py_DecRef", done)


def dealloc_function() -> Function:
    """tp_dealloc of Block."""
    f = Function("fb_dealloc", [("self", "ptr")])
    with f.when(f.load("i64", f.at("i8", f["self"], WEAK)).differs(0)):
        f.call("void", "PyObject_ClearWeakRefs", f["self"])
    for kept in (OWNER, DICT):
        held = f.load("i64", f.at("i8", f["self"], kept))
        with f.when(held.differs(0)):
            f.call("void", "Py_DecRef", f.pointer(held))
    pointer = f.load("i64", f.at("i8", f["self"], PTR))
    owned = f.load("i64", f.at("i8", f["self"], CLASS)) >= 0
    with f.when(f.select(owned, pointer.differs(0), f.value(0, "i1"))):
        f.call(
            "void",
            "fb_release",
            f.pointer(f.load("i64", f.at("i8", f["self"], STATE))),
            f.pointer(pointer),
            f.load("i64", f.at("i8", f["self"], NBYTES)),
            declare=False,
        )
    type = f.load("ptr", f["self"], 1)
    f.call("void", "PyObject_Free", f["self"])
    f.call("void", "Py_DecRef", type)
    return f


def no_memory_function() -> Function:
    """void no_memory(state, nbytes): raise RuntimeError, as PyTorch does, with the number of bytes in its words."""
    f = Function("fb_no_memory", [("state", "ptr"), ("nbytes", "i64")])
    s = f["state"]
    count = f.call("ptr", "PyLong_FromLongLong", f["nbytes"])
    words = f.call("ptr", "PyUnicode_Format", f.load("ptr", s, state.NO_MEMORY_WORDS), count)
    f.call("void", "Py_DecRef", count)
    with f.when(f.address(words).differs(0)):
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), words)
        f.call("void", "Py_DecRef", words)
    return f


def new_block_function() -> Function:
    """ptr new_block(state, nbytes): a Block of fresh memory; ~nbytes, a negative number, makes one for a tensor without data,
    which has no address but a size.
    """
    f = Function("fb_new_block", [("state", "ptr"), ("nbytes", "i64")], "ptr")
    s, nbytes = f["state"], f["nbytes"]
    memory = f.variable("ptr", f.pointer(f.i64(0)))
    with f.when(nbytes >= 0):
        memory.set(f.call("ptr", "fb_allocate", s, nbytes, declare=False))
        with f.when(f.address(memory.get()).equals(0)):
            give_back(f, s, nbytes)
            memory.set(f.call("ptr", "fb_allocate", s, nbytes, declare=False))
            with f.when(f.address(memory.get()).equals(0)):
                f.call("void", "fb_no_memory", s, nbytes, declare=False)
                f.ret(f.pointer(f.i64(0)))
    block = f.call("ptr", "PyType_GenericAlloc", f.load("ptr", s, state.STORAGE_TYPE), f.i64(0))
    f.store(memory.get(), f.at("i8", block, PTR))
    f.store(f.select(nbytes < 0, f.i64(-1) - nbytes, nbytes), f.at("i8", block, NBYTES))
    f.store(f.select(nbytes < 0, f.i64(META), f.i64(0)), f.at("i8", block, CLASS))
    f.store(s, f.at("i8", block, STATE))
    f.store(f.load("i64", s, state.EPOCH), f.at("i8", block, EPOCH))
    name_memory(f, s, block)
    with f.when(f.load("i64", s, state.INFERENCE).differs(0)):
        f.store(f.call("i64", "fb_inference", s, declare=False), f.at("i8", block, INFERENCE))
    f.ret(block)
    return f


def inference_function() -> Function:
    """i64 inference(state): 1 if the calling thread is in inference mode."""
    f = Function("fb_inference", [("state", "ptr")], "i64")
    s = f["state"]
    mine = f.address(f.call("ptr", "PyThreadState_Get"))
    with f.loop(0, f.load("i64", s, state.INFERENCE)) as i:
        with f.when(f.load("i64", s, i + state.INFERENCE_THREADS).equals(mine)):
            f.ret(f.i64(1))
    f.ret(f.i64(0))
    return f


def guard_function() -> Function:
    """i64 guard(state): the oldest epoch of memory that the calling thread may write to.

    A block remembers the epoch in which it was allocated. A function that is differentiated must not write to what it
    captured: its transform begins an epoch and refuses this thread all memory of earlier ones (core.autograd.mutation_guard).
    """
    f = Function("fb_guard", [("state", "ptr")], "i64")
    s = f["state"]
    mine = f.address(f.call("ptr", "PyThreadState_Get"))
    with f.loop(0, f.load("i64", s, state.GUARDED)) as i:
        with f.when(f.load("i64", s, i * 2 + state.GUARDS).equals(mine)):
            f.ret(f.load("i64", s, i * 2 + (state.GUARDS + 1)))
    f.ret(f.i64(0))
    return f


def version_function() -> Function:
    """Getter of Block.version, which a graph reads of what it saves: RuntimeError for memory of inference mode."""
    f = Function("fb_version", [("self", "ptr"), ("nothing", "ptr")], "ptr")
    with f.when(f.load("i64", f.at("i8", f["self"], INFERENCE)).differs(0)):
        s = f.pointer(f.load("i64", f.at("i8", f["self"], STATE)))
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.SAVE_WORDS))
        f.ret(f.pointer(f.i64(0)))
    f.ret(f.call("ptr", "PyLong_FromLongLong", f.load("i64", f.at("i8", f["self"], VERSION))))
    return f


def before_write(f: Function, s: Value, block: Value) -> Value:
    """Give a Block that is copied on write memory of its own; whether that failed: an exception is set then."""
    failed = f.variable("i1", 0)
    with f.when(f.load("i64", f.at("i8", block, CLASS)).equals(COPY_ON_WRITE)):
        done = f.call("ptr", "PyObject_CallOneArg", f.load("ptr", s, state.MATERIALIZE), block)
        failed.set(f.address(done).equals(0))
        with f.when(f.address(done).differs(0)):
            f.call("void", "Py_DecRef", done)
    return failed.get()


def buffer_function() -> Function:
    """The buffer protocol of a Block: its bytes, writable. RuntimeError if there is no memory behind it."""
    f = Function("fb_buffer", [("self", "ptr"), ("view", "ptr"), ("flags", "i32")], "i32")
    with f.when(before_write(f, f.pointer(f.load("i64", f.at("i8", f["self"], STATE))), f["self"])):
        f.store(f.i64(0), f["view"], 1)
        f.ret(f.value(-1, "i32"))
    with f.when(f.load("i64", f.at("i8", f["self"], CLASS)).equals(META)):
        s = f.pointer(f.load("i64", f.at("i8", f["self"], STATE)))
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.META_WORDS))
        f.store(f.i64(0), f["view"], 1)  # its owner: nobody
        f.ret(f.value(-1, "i32"))
    note(f, f.pointer(f.load("i64", f.at("i8", f["self"], STATE))), SHOWN, f["self"])
    size = f.load("i64", f.at("i8", f["self"], NBYTES))
    failed = f.call(
        "i32",
        "PyBuffer_FillInfo",
        f["view"],
        f["self"],
        f.load("ptr", f.at("i8", f["self"], PTR)),
        size,
        f.value(0, "i32"),
        f["flags"],
    )
    with f.when((failed + 0).equals(0)):
        exports = f.at("i8", f["self"], EXPORTS)
        f.store(f.load("i64", exports) + 1, exports)
        unmark(f, f["self"])
    f.ret(failed)
    return f


def release_buffer_function() -> Function:
    """An array or another view of a Block's bytes is gone."""
    f = Function("fb_release_buffer", [("self", "ptr"), ("view", "ptr")])
    exports = f.at("i8", f["self"], EXPORTS)
    f.store(f.load("i64", exports) - 1, exports)
    f.ret()
    return f


def exchange_function() -> Function:
    """exchange(one, other): two Blocks change their memory, with its size and owner. One call, which nothing interrupts."""
    f = Function("fb_exchange", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    one, other = (f.load("ptr", f["args"], i) for i in range(2))
    for block in (one, other):
        note(f, s, MOVED, block)
    for field in (PTR, NBYTES, CLASS, OWNER, SERIAL):
        first, second = f.at("i8", one, field), f.at("i8", other, field)
        held = f.load("i64", first)
        f.store(f.load("i64", second), first)
        f.store(held, second)
    marks = [f.at("i8", block, MARK) for block in (one, other)]
    either = f.minimum(f.minimum(f.load("i64", marks[0]), f.load("i64", marks[1])), 0)  # EXPOSED goes with the memory, and stays
    for mark in marks:
        f.store(either, mark)
    none = f.load("ptr", s, state.NONE)
    f.call("void", "Py_IncRef", none)
    f.ret(none)
    return f


def copy_bytes_function() -> Function:
    """copy_bytes(into, source, count): the first bytes of a Block to another, as many as both have. One call, so that neither can
    get other memory meanwhile.
    """
    f = Function("fb_copy_bytes", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    count = f.variable("i64", f.call("i64", "PyLong_AsLongLong", f.load("ptr", f["args"], 2)))
    places = []
    for i in range(2):
        block = f.load("ptr", f["args"], i)
        note(f, s, MOVED, block)
        count.set(f.minimum(count.get(), f.load("i64", f.at("i8", block, NBYTES))))
        places.append(f.load("ptr", f.at("i8", block, PTR)))
    unmark(f, f.load("ptr", f["args"], 0))
    with f.when(count.get() > 0):
        f.call("ptr", "memmove", *places, count.get())
    none = f.load("ptr", s, state.NONE)
    f.call("void", "Py_IncRef", none)
    f.ret(none)
    return f


def owner_function() -> Function:
    """owner(block) -> the Block that keeps its memory alive: itself where another object does. A Block that owns its memory hands
    it over to a new one, which others may then refer to as well: when either gets other memory, this one stays while it is used.
    """
    f = Function("fb_owner", [("self", "ptr"), ("block", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    block = f["block"]
    unmark(f, block)
    kind, owner = f.at("i8", block, CLASS), f.at("i8", block, OWNER)
    with f.when(f.load("i64", kind) >= 0):
        size = f.load("i64", f.at("i8", block, NBYTES))
        made = f.call("ptr", "fb_new_block", s, f.i64(-1) - size, declare=False)
        with f.when(f.address(made).equals(0)):
            f.ret(made)
        for field in (PTR, CLASS, OWNER, SERIAL, MARK):
            f.store(f.load("i64", f.at("i8", block, field)), f.at("i8", made, field))
        f.store(made, owner)
        f.store(f.i64(OWNED_ELSEWHERE), kind)
    found = f.load("ptr", owner)
    is_block = f.variable("i64", 0)
    with f.when(f.address(found).differs(0)):
        is_block.set(f.select(f.load("i64", found, 1).equals(f.load("i64", s, state.STORAGE_TYPE)), f.i64(1), f.i64(0)))
    result = f.variable("ptr", block)
    with f.when(is_block.get().differs(0)):
        result.set(found)
    f.call("void", "Py_IncRef", result.get())
    f.ret(result.get())
    return f


def set_size_function() -> Function:
    """set_size(block, nbytes): another size for a Block without memory."""
    f = Function("fb_set_size", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    block, size = (f.load("ptr", f["args"], i) for i in range(2))
    with f.when(f.load("i64", f.at("i8", block, CLASS)).equals(META)):
        f.store(f.call("i64", "PyLong_AsLongLong", size), f.at("i8", block, NBYTES))
    none = f.load("ptr", s, state.NONE)
    f.call("void", "Py_IncRef", none)
    f.ret(none)
    return f


def functions() -> list[Function]:
    return [
        allocate_function(),
        release_function(),
        empty_cache_function(),
        dealloc_function(),
        note_function(),
        pointer_function(),
        rebound_function(),
        writes_function(),
        set_writes_function(),
        no_memory_function(),
        new_block_function(),
        inference_function(),
        guard_function(),
        version_function(),
        buffer_function(),
        release_buffer_function(),
        exchange_function(),
        copy_bytes_function(),
        owner_function(),
        set_size_function(),
    ]


class _MemberDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _GetSetDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    ]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


_T_LONGLONG, _T_OBJECT, _T_SIZE, _READONLY = 17, 6, 19, 1
_BF_GETBUFFER, _BF_RELEASEBUFFER, _TP_DEALLOC, _TP_MEMBERS, _TP_GETSET, _TP_DOC = 1, 2, 52, 72, 73, 56
_keep: list = []


def make_block_type(
    dealloc: int, version: int, pointer: int, writes: int, set_writes: int, buffer: int, release_buffer: int
) -> type:
    """The type of storages: a heap type with raw fields, a native destructor and the buffer protocol.

    Programs may set attributes; the garbage collector doesn't see a storage, so one whose attribute leads back to it is never
    freed.
    """
    members = (_MemberDef * 12)(
        _MemberDef(b"address", _T_LONGLONG, PTR, _READONLY, b"of the first byte, for who won't read or write there"),
        _MemberDef(b"serial", _T_LONGLONG, SERIAL, _READONLY, b"the number of its memory, which later memory has not"),
        _MemberDef(b"capacity", _T_LONGLONG, NBYTES, _READONLY, b"size in bytes"),
        _MemberDef(b"inference", _T_LONGLONG, INFERENCE, 0, b"1: allocated in inference mode; 2: an alias of such memory"),
        _MemberDef(b"epoch", _T_LONGLONG, EPOCH, 0, b"when it was allocated, counted in transforms that differentiate"),
        _MemberDef(b"size_class", _T_LONGLONG, CLASS, 0, b"-1: the memory belongs to another object; 1: an array looks at it"),
        _MemberDef(b"owner", _T_OBJECT, OWNER, _READONLY, b"that object, or None"),
        _MemberDef(b"exports", _T_LONGLONG, EXPORTS, _READONLY, b"how many arrays and other views show its bytes"),
        _MemberDef(
            b"mark", _T_LONGLONG, MARK, 0, b"what nobody changes while the bytes stay as they are; -1: they were shown outside"
        ),
        _MemberDef(b"__weaklistoffset__", _T_SIZE, WEAK, _READONLY, None),
        _MemberDef(b"__dictoffset__", _T_SIZE, DICT, _READONLY, None),
        _MemberDef(),
    )
    attributes = ctypes.cast(ctypes.pythonapi.PyObject_GenericGetDict, ctypes.c_void_p).value
    getters = (_GetSetDef * 5)(
        _GetSetDef(b"ptr", pointer, None, b"address of the first byte"),
        _GetSetDef(b"writes", writes, set_writes, b"counts in-place writes"),
        _GetSetDef(b"__dict__", attributes, None, b"the attributes that a program has set"),
        _GetSetDef(b"version", version, None, b"the number of in-place writes; RuntimeError for memory of inference mode"),
        _GetSetDef(),
    )
    doc = ctypes.c_char_p(b"A block of memory that the caching allocator owns, or that `owner` keeps alive.")
    slots = (_Slot * 7)(
        _Slot(_BF_GETBUFFER, buffer),
        _Slot(_BF_RELEASEBUFFER, release_buffer),
        _Slot(_TP_DEALLOC, dealloc),
        _Slot(_TP_MEMBERS, ctypes.addressof(members)),
        _Slot(_TP_GETSET, ctypes.addressof(getters)),
        _Slot(_TP_DOC, ctypes.cast(doc, ctypes.c_void_p).value),
        _Slot(0, None),
    )
    default, no_instantiation = 1 << 18, 1 << 7
    spec = _Spec(b"torch.storage.UntypedStorage", SIZE, 0, default | no_instantiation, slots)
    _keep.extend((members, getters, slots, spec, doc))
    create = ctypes.pythonapi.PyType_FromSpec
    create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return create(ctypes.addressof(spec))


def set_limits() -> None:
    """Cache at most half of the machine's memory; ask for huge pages unless the system says never."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    state.words[state.CACHE_LIMIT] = physical // 2
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as f:
            state.words[state.HUGE_PAGES] = int("[never]" not in f.read())
    except OSError:
        state.words[state.HUGE_PAGES] = 0
