"""Native functions that make storages and tensors, read the one element of a tensor, and ask about the thread.

Each `..._function` writes one, for launch.py to compile. Stands on memory.py and state.py.
"""

from __future__ import annotations

from flambeau.codegen.builder import Function, Value
from flambeau.codegen.runtime import memory, state

BUFFER_WORDS, BUFFER_STRIDES = 10, 0x18  # the size of a Py_buffer; PyBUF_STRIDES, writable or not


def object_slot(f: Function, object: Value, s: Value, slot: int) -> Value:
    return f.at("i8", object, f.load("i64", s, slot))


def incref(f: Function, object: Value) -> Value:
    f.call("void", "Py_IncRef", object)
    return object


def new_tensor(f: Function, s: Value, storage: Value, offset: Value, layout: Value, named: Value | None = None) -> Value:
    """A Tensor that takes over the reference to `storage` and gets its own to the others. named: its class, unless null."""
    kind = f.load("ptr", s, state.TENSOR_TYPE)
    if named is not None:
        kind = f.select(f.address(named).equals(0), kind, named)
    tensor = f.call("ptr", "PyType_GenericAlloc", kind, f.i64(0))
    f.store(storage, object_slot(f, tensor, s, state.SLOT_STORAGE))
    f.store(incref(f, offset), object_slot(f, tensor, s, state.SLOT_OFFSET))
    f.store(incref(f, layout), object_slot(f, tensor, s, state.SLOT_LAYOUT))
    f.store(incref(f, f.load("ptr", s, state.NONE)), object_slot(f, tensor, s, state.SLOT_NODE))
    f.store(incref(f, f.load("ptr", s, state.ZERO)), object_slot(f, tensor, s, state.SLOT_INDEX))
    return tensor


def data_offset(f: Function, s: Value, tensor: Value, item_size: Value) -> Value:
    """Bytes between the start of a tensor's storage and its first element."""
    return f.call("i64", "PyLong_AsLongLong", f.load("ptr", object_slot(f, tensor, s, state.SLOT_OFFSET))) * item_size


def named_class(f: Function, s: Value, layout: Value) -> Value:
    """The class that a layout names for its tensors, or null."""
    return f.load("ptr", object_slot(f, layout, s, state.SLOT_TENSOR_CLASS))


def tensor_from_function() -> Function:
    """tensor_from(storage, offset, layout) -> Tensor over existing memory, without a graph."""
    f = Function("fb_tensor_from", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    storage, offset, layout = (f.load("ptr", f["args"], i) for i in range(3))
    f.ret(new_tensor(f, s, incref(f, storage), offset, layout, named_class(f, s, layout)))
    return f


def view_of_function() -> Function:
    """view_of(tensor, offset, layout) -> Tensor that shares the storage, remembers its base and inherits what marks views."""
    f = Function("fb_view_of", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    source, offset, layout = (f.load("ptr", f["args"], i) for i in range(3))
    storage = f.load("ptr", object_slot(f, source, s, state.SLOT_STORAGE))
    view = new_tensor(f, s, incref(f, storage), offset, layout, named_class(f, s, layout))
    base = f.load("ptr", object_slot(f, source, s, state.SLOT_BASE))
    root = f.select(f.address(base).equals(0), source, base)
    f.store(incref(f, root), object_slot(f, view, s, state.SLOT_BASE))
    creation = f.load("ptr", object_slot(f, source, s, state.SLOT_CREATION))
    with f.when(f.address(creation).differs(0)):
        f.store(incref(f, creation), object_slot(f, view, s, state.SLOT_CREATION))
    f.ret(view)
    return f


def new_storage_function() -> Function:
    """new_storage(nbytes) -> Storage; new_storage(~nbytes) makes one without memory."""
    f = Function("fb_new_storage", [("self", "ptr"), ("size", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    f.ret(f.call("ptr", "fb_new_block", s, f.call("i64", "PyLong_AsLongLong", f["size"]), declare=False))
    return f


def _foreign_block(f: Function, s: Value, address: Value, size: Value, owner: Value) -> Value:
    """A Storage of `size` (a Python int) bytes at `address`, which `owner` keeps alive. If that is a storage, it is the same
    memory, or a part of it.
    """
    block = f.call("ptr", "PyType_GenericAlloc", f.load("ptr", s, state.STORAGE_TYPE), f.i64(0))
    f.store(address, f.at("i8", block, memory.PTR))
    f.store(f.call("i64", "PyLong_AsLongLong", size), f.at("i8", block, memory.NBYTES))
    f.store(f.i64(memory.OWNED_ELSEWHERE), f.at("i8", block, memory.CLASS))
    f.store(s, f.at("i8", block, memory.STATE))
    f.store(f.load("i64", s, state.EPOCH), f.at("i8", block, memory.EPOCH))
    f.store(incref(f, owner), f.at("i8", block, memory.OWNER))
    with f.branches(f.load("i64", owner, 1).equals(f.load("i64", s, state.STORAGE_TYPE))) as otherwise:
        f.store(f.load("i64", f.at("i8", owner, memory.SERIAL)), f.at("i8", block, memory.SERIAL))
        otherwise()
        memory.name_memory(f, s, block)
    return block


def wrap_storage_function() -> Function:
    """wrap_storage(address, nbytes, owner) -> Storage over memory that `owner` keeps alive."""
    f = Function("fb_wrap_storage", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    address, size, owner = (f.load("ptr", f["args"], i) for i in range(3))
    f.ret(_foreign_block(f, s, f.call("i64", "PyLong_AsLongLong", address), size, owner))
    return f


def wrap_buffer_function() -> Function:
    """wrap_buffer(owner, nbytes) -> Storage over the memory of an object with the buffer protocol, from its first element."""
    f = Function("fb_wrap_buffer", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    view = f.stack("i64", BUFFER_WORDS)
    owner = f.load("ptr", f["args"], 0)
    with f.when((f.call("i32", "PyObject_GetBuffer", owner, view, f.value(BUFFER_STRIDES, "i32")) + 0).differs(0)):
        f.ret(f.pointer(f.i64(0)))
    address = f.load("i64", view, 0)
    f.call("void", "PyBuffer_Release", view)
    f.ret(_foreign_block(f, s, address, f.load("ptr", f["args"], 1), owner))
    return f


# By dtype name: how the one element of a tensor is loaded, converted, and made an object.
READ = {
    "float32": ("float", "double", "fpext", "PyFloat_FromDouble"),
    "float64": ("double", None, None, "PyFloat_FromDouble"),
    "int64": ("i64", None, None, "PyLong_FromLongLong"),
    "int32": ("i32", "i64", "sext", "PyLong_FromLongLong"),
    "int16": ("i16", "i64", "sext", "PyLong_FromLongLong"),
    "int8": ("i8", "i64", "sext", "PyLong_FromLongLong"),
    "uint8": ("i8", "i64", "zext", "PyLong_FromLongLong"),
    "bool": ("i8", "i64", "zext", "PyBool_FromLong"),
}


def reader_function(name: str) -> Function:
    """read(tensor) -> the first element of a tensor of this dtype as a Python number. RuntimeError for one without memory, and
    for one that lies outside its storage.
    """
    f = Function(f"fb_read_{name}", [("self", "ptr"), ("tensor", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    storage = f.load("ptr", object_slot(f, f["tensor"], s, state.SLOT_STORAGE))
    with f.when(f.load("i64", f.at("i8", storage, memory.CLASS)).equals(memory.META)):
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.META_WORDS))
        f.ret(f.pointer(f.i64(0)))
    memory.note(f, s, memory.READ, f["tensor"])
    type, target, how, maker = READ[name]
    size = {"float": 4, "double": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1}[type]
    offset = data_offset(f, s, f["tensor"], f.i64(size))
    with f.when((offset < 0) | (offset + size > f.load("i64", f.at("i8", storage, memory.NBYTES)))):
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.OUTSIDE_WORDS))
        f.ret(f.pointer(f.i64(0)))
    value = f.load(type, f.pointer(f.load("i64", f.at("i8", storage, memory.PTR)) + offset), 0)
    f.ret(f.call("ptr", maker, value if target is None else f.convert(value, target, how)))
    return f


def empty_cache_call_function() -> Function:
    f = Function("fb_empty_cache_call", [("self", "ptr"), ("nothing", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    f.call("void", "fb_empty_cache", s, declare=False)
    f.ret(incref(f, f.load("ptr", s, state.NONE)))
    return f


def special_function() -> Function:
    """special(anything) -> whether a special mode is on in the calling thread, or one that concerns all threads. (A call with an
    argument is quicker than one without.)
    """
    f = Function("fb_special", [("self", "ptr"), ("anything", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    with f.when(f.load("i64", s, state.SPECIAL_EVERYWHERE).differs(0)):
        f.ret(incref(f, f.load("ptr", s, state.TRUE)))
    mine = f.address(f.call("ptr", "PyThreadState_Get"))
    with f.loop(0, f.load("i64", s, state.SPECIAL)) as i:
        with f.when(f.load("i64", s, i + state.SPECIAL_THREADS).equals(mine)):
            f.ret(incref(f, f.load("ptr", s, state.TRUE)))
    f.ret(incref(f, f.load("ptr", s, state.FALSE)))
    return f
