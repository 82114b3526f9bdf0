"""Plans: one Python call that allocates results, runs kernels on all threads, and returns Tensors.

`plan(...)` packs kernels, extents, constants and result layouts into a block of words and wraps the native launcher around it
(METH_FASTCALL: about 0.1 us a call). The launcher reads tensors' slots, allocates what is given as None, converts scalars,
releases the interpreter's lock for long work and raises what a kernel's error word says. Operators keep plans by input layouts.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flambeau.base.errors import CapturedWrite
from flambeau.codegen import memory, state, threads
from flambeau.codegen.builder import Function, Value, module
from flambeau.codegen.jit import EXPLICIT, compile_module

PLAN_WORDS_BEFORE_OPERANDS = 8
MAX_OPERANDS = 240
BUFFER_WORDS, BUFFER_STRIDES = 10, 0x18          # the size of a Py_buffer; PyBUF_STRIDES, writable or not
BYTES_DATA = bytes.__basicsize__ - 1
assert BYTES_DATA == 32, "plans are read from bytes objects, whose layout is not the expected one"
SCALAR_FLOAT, SCALAR_INT, SCALAR_COMPLEX = 0, 1, 2
_KINDS = {"f": SCALAR_FLOAT, "i": SCALAR_INT, "c": SCALAR_COMPLEX}


class KernelCheck(Exception):
    """A kernel found bad data (an index out of range, say); args[0] is the code it left."""


class Phase(NamedTuple):
    """One kernel of a plan: run over [0, total) in chunks of `grain`, with `constants` at p[0]."""

    kernel: int
    total: int
    grain: int
    constants: Sequence[int]


_NO_MEMORY = ("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
              "allocate %d bytes. Error code 12 (Cannot allocate memory)")
NO_DATA = "Tensor on device meta is not on the expected device cpu!"
INFERENCE_WRITE = ("Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
                   "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.")
_INFERENCE_SAVE = ("Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                   "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
                   "it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.")


def _object_slot(f: Function, object: Value, s: Value, slot: int) -> Value:
    return f.at("i8", object, f.load("i64", s, slot))


def _incref(f: Function, object: Value) -> Value:
    f.call("void", "Py_IncRef", object)
    return object


def _new_tensor(f: Function, s: Value, storage: Value, offset: Value, layout: Value) -> Value:
    """A Tensor that takes over the reference to `storage` and gets its own to the others."""
    tensor = f.call("ptr", "PyType_GenericAlloc", f.load("ptr", s, state.TENSOR_TYPE), f.i64(0))
    f.store(storage, _object_slot(f, tensor, s, state.SLOT_STORAGE))
    f.store(_incref(f, offset), _object_slot(f, tensor, s, state.SLOT_OFFSET))
    f.store(_incref(f, layout), _object_slot(f, tensor, s, state.SLOT_LAYOUT))
    f.store(_incref(f, f.load("ptr", s, state.NONE)), _object_slot(f, tensor, s, state.SLOT_NODE))
    f.store(_incref(f, f.load("ptr", s, state.ZERO)), _object_slot(f, tensor, s, state.SLOT_INDEX))
    return tensor


def _data_address(f: Function, s: Value, tensor: Value, item_size: Value) -> Value:
    storage = f.load("ptr", _object_slot(f, tensor, s, state.SLOT_STORAGE))
    offset = f.call("i64", "PyLong_AsLongLong", f.load("ptr", _object_slot(f, tensor, s, state.SLOT_OFFSET)))
    return f.load("i64", f.at("i8", storage, memory.PTR)) + offset * item_size


def _refuse_others(f: Function, s: Value, given: Value, results: Value, made: Value) -> None:
    """Emit: raise TypeError, dropping the `made` first results, unless `given` is a Tensor, whose slots can be read."""
    kind, tensor = f.load("ptr", given, 1), f.load("ptr", s, state.TENSOR_TYPE)
    with f.when(f.address(kind).differs(f.address(tensor))):
        with f.when((f.call("i32", "PyType_IsSubtype", kind, tensor) + 0).equals(0)):
            with f.loop(0, made) as j:
                f.call("void", "Py_DecRef", f.load("ptr", results, j))
            f.call("void", "PyErr_SetObject", f.load("ptr", s, state.TYPE_ERROR), kind)
            f.ret(f.pointer(f.i64(0)))


def _refuse_inference(f: Function, s: Value, results: Value, made: Value) -> None:
    """Emit: unless this thread is in inference mode, raise RuntimeError, dropping the `made` first results."""
    with f.when(f.call("i64", "fb_inference", s, declare=False).equals(0)):
        with f.loop(0, made) as j:
            f.call("void", "Py_DecRef", f.load("ptr", results, j))
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.WRITE_WORDS))
        f.ret(f.pointer(f.i64(0)))


def _refuse_captured(f: Function, s: Value, epoch: Value, results: Value, made: Value) -> None:
    """Emit: if memory of this epoch is none that this thread may write to, raise, dropping the `made` first results."""
    with f.when(epoch < f.call("i64", "fb_guard", s, declare=False)):
        with f.loop(0, made) as j:
            f.call("void", "Py_DecRef", f.load("ptr", results, j))
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.CAPTURED_ERROR), f.load("ptr", s, state.NONE))
        f.ret(f.pointer(f.i64(0)))


def _keep(f: Function, held: Value, count: Value) -> None:
    """Emit: take a reference to each of the storages."""
    with f.loop(0, count) as i:
        f.call("void", "Py_IncRef", f.load("ptr", held, i))


def _let_go(f: Function, held: Value, kept: Value, count: Value) -> None:
    """Emit: give back what `_keep` took, if it did."""
    with f.when(kept.differs(0)):
        with f.loop(0, count) as i:
            f.call("void", "Py_DecRef", f.load("ptr", held, i))


HEAP_TYPE = 1 << 9      # Py_TPFLAGS_HEAPTYPE: the type was made by a class statement, or might have been


def launch_function() -> Function:
    f = Function("fb_launch", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    plan = f.at("i8", f["self"], BYTES_DATA)
    null = f.pointer(f.i64(0))
    s = f.load("ptr", plan, 0)
    n_out, n_in, n_scalar, n_phase, scratch_bytes, flags, kinds = (f.load("i64", plan, i) for i in range(1, 8))
    p = f.stack("i64", MAX_OPERANDS + 16, align=64)
    results = f.stack("ptr", 16)
    held = f.stack("ptr", MAX_OPERANDS + 16)              # storages of the outputs and inputs
    f.store(f.i64(0), p, 2)
    without_data = f.variable("i64", 0)
    none = f.load("ptr", s, state.NONE)
    with f.loop(0, n_out) as i:
        given = f.load("ptr", f["args"], i)
        description = f.at("i64", plan, i * 3 + PLAN_WORDS_BEFORE_OPERANDS)
        with f.branches(f.address(given).equals(f.address(none))) as otherwise:
            block = f.call("ptr", "fb_new_block", s, f.load("i64", description, 1), declare=False)
            with f.when(f.address(block).equals(0)):
                with f.loop(0, i) as j:
                    f.call("void", "Py_DecRef", f.load("ptr", results, j))
                f.ret(null)
            tensor = _new_tensor(f, s, block, f.load("ptr", s, state.ZERO), f.load("ptr", description, 0))
            f.store(tensor, results, i)
            f.store(f.load("i64", f.at("i8", block, memory.PTR)), p, i + 4)
            f.store(block, held, i)
            otherwise()
            _refuse_others(f, s, given, results, i)
            storage = f.load("ptr", _object_slot(f, given, s, state.SLOT_STORAGE))
            with f.when(f.load("i64", f.at("i8", storage, memory.INFERENCE)).equals(1)):
                _refuse_inference(f, s, results, i)
            epoch = f.load("i64", f.at("i8", storage, memory.EPOCH))
            with f.when(epoch < f.load("i64", s, state.GUARD)):
                _refuse_captured(f, s, epoch, results, i)
            is_meta = f.load("i64", f.at("i8", storage, memory.CLASS)).equals(memory.META)
            without_data.set(f.select(is_meta, n_phase, without_data.get()))
            version = f.at("i8", storage, memory.VERSION)
            f.store(_incref(f, given), results, i)
            f.store(storage, held, i)
            f.store(f.load("i64", version) + 1, version)
            f.store(_data_address(f, s, given, f.load("i64", description, 2)), p, i + 4)
    inputs = f.at("i64", plan, n_out * 3 + PLAN_WORDS_BEFORE_OPERANDS)
    arguments = f.at("ptr", f["args"], n_out)
    slots = f.at("i64", p, n_out + 4)
    with f.loop(0, n_in) as i:
        given = f.load("ptr", arguments, i)
        _refuse_others(f, s, given, results, n_out)
        storage = f.load("ptr", _object_slot(f, given, s, state.SLOT_STORAGE))
        is_meta = f.load("i64", f.at("i8", storage, memory.CLASS)).equals(memory.META)
        without_data.set(f.select(is_meta, n_phase, without_data.get()))
        f.store(storage, held, n_out + i)
        f.store(_data_address(f, s, given, f.load("i64", inputs, i)), slots, i)
    with f.when(without_data.get().differs(0)):
        with f.loop(0, n_out) as j:
            f.call("void", "Py_DecRef", f.load("ptr", results, j))
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.META_WORDS))
        f.ret(null)
    arguments, slots = f.at("ptr", arguments, n_in), f.variable("ptr", f.at("i64", slots, n_in))
    kind = f.variable("i64", kinds)
    releases = (flags & 1).differs(0)
    kept = f.variable("i64", flags & 1)
    with f.when(releases):
        _keep(f, held, n_out + n_in)        # another thread may meanwhile give these tensors other memory
    with f.loop(0, n_scalar) as i:
        object = f.load("ptr", arguments, i)
        failed = f.variable("i1", 0)
        this = kind.get() & 3
        python = f.call("i64", "PyType_GetFlags", f.load("ptr", object, 1)) & HEAP_TYPE
        with f.when(f.select(kept.get().equals(0), python, f.i64(0)).differs(0)):
            _keep(f, held, n_out + n_in)    # its conversion may run Python code, which may do so too
            kept.set(f.i64(1))
        with f.when(this.equals(SCALAR_FLOAT)):
            value = f.call("double", "PyFloat_AsDouble", object)
            f.store(value, slots.get())
            failed.set(value.equals(-1.0))
        with f.when(this.equals(SCALAR_INT)):
            value = f.call("i64", "PyLong_AsLongLong", object)
            f.store(value, slots.get())
            failed.set(value.equals(-1))
        with f.when(this.equals(SCALAR_COMPLEX)):
            pair = f.call("{ double, double }", "PyComplex_AsCComplex", object)
            f.store(f.emit("double", f"extractvalue {pair.type} {pair.name}, 0"), slots.get())
            slots.set(f.at("i64", slots.get(), 1))
            f.store(f.emit("double", f"extractvalue {pair.type} {pair.name}, 1"), slots.get())
        with f.when(failed.get()):
            with f.when(f.address(f.call("ptr", "PyErr_Occurred")).differs(0)):
                _let_go(f, held, kept.get(), n_out + n_in)
                with f.loop(0, n_out) as j:
                    f.call("void", "Py_DecRef", f.load("ptr", results, j))
                f.ret(null)
        slots.set(f.at("i64", slots.get(), 1))
        kind.set(kind.get() >> 2)
    scratch = f.variable("ptr", null)
    with f.when(scratch_bytes.differs(0)):
        scratch.set(f.call("ptr", "fb_allocate", s, scratch_bytes, declare=False))
        with f.when(f.address(scratch.get()).equals(0)):
            _let_go(f, held, kept.get(), n_out + n_in)
            with f.loop(0, n_out) as j:
                f.call("void", "Py_DecRef", f.load("ptr", results, j))
            f.call("void", "fb_no_memory", s, scratch_bytes, declare=False)
            f.ret(null)
    f.store(scratch.get(), p, 1)
    workers = f.load("i64", s, state.THREADS)
    f.store(workers, p, 3)
    thread_state = f.variable("ptr", null)
    with f.when(releases):
        thread_state.set(f.call("ptr", "PyEval_SaveThread"))
    phases = f.at("i64", inputs, n_in)
    with f.loop(0, n_phase) as i:
        phase = f.at("i64", phases, i * 4)
        kernel, total, grain = f.load("ptr", phase, 0), f.load("i64", phase, 1), f.load("i64", phase, 2)
        f.store(f.at("i64", plan, f.load("i64", phase, 3)), p, 0)
        with f.branches(f.select(total <= grain, f.value(1, "i1"), workers <= 1)) as otherwise:
            with f.when(total > 0):
                f.call_pointer("void", kernel, p, f.i64(0), total, f.i64(0))
            otherwise()
            f.call("void", "fb_parallel", s, kernel, p, total, grain, declare=False)
    with f.when(releases):
        f.call("void", "PyEval_RestoreThread", thread_state.get())
    _let_go(f, held, kept.get(), n_out + n_in)
    with f.when(scratch_bytes.differs(0)):
        f.call("void", "fb_release", s, scratch.get(), scratch_bytes, declare=False)
    error = f.load("i64", p, 2)
    with f.when(error.differs(0)):
        with f.loop(0, n_out) as j:
            f.call("void", "Py_DecRef", f.load("ptr", results, j))
        code = f.call("ptr", "PyLong_FromLongLong", error)
        f.call("void", "PyErr_SetObject", f.load("ptr", s, state.CHECK_ERROR), code)
        f.call("void", "Py_DecRef", code)
        f.ret(null)
    with f.when(n_out.equals(1)):
        f.ret(f.load("ptr", results, 0))
    items = f.call("ptr", "PyTuple_New", n_out)
    with f.loop(0, n_out) as j:
        f.call("i32", "PyTuple_SetItem", items, j, f.load("ptr", results, j))
    f.ret(items)
    return f


def tensor_from_function() -> Function:
    """tensor_from(storage, offset, layout) -> Tensor over existing memory, without a graph."""
    f = Function("fb_tensor_from", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    storage, offset, layout = (f.load("ptr", f["args"], i) for i in range(3))
    f.ret(_new_tensor(f, s, _incref(f, storage), offset, layout))
    return f


def view_of_function() -> Function:
    """view_of(tensor, offset, layout) -> Tensor that shares the storage and remembers its base."""
    f = Function("fb_view_of", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    source, offset, layout = (f.load("ptr", f["args"], i) for i in range(3))
    storage = f.load("ptr", _object_slot(f, source, s, state.SLOT_STORAGE))
    view = _new_tensor(f, s, _incref(f, storage), offset, layout)
    base = f.load("ptr", _object_slot(f, source, s, state.SLOT_BASE))
    root = f.select(f.address(base).equals(0), source, base)
    f.store(_incref(f, root), _object_slot(f, view, s, state.SLOT_BASE))
    f.ret(view)
    return f


def new_storage_function() -> Function:
    """new_storage(nbytes) -> Storage."""
    f = Function("fb_new_storage", [("self", "ptr"), ("size", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    f.ret(f.call("ptr", "fb_new_block", s, f.call("i64", "PyLong_AsLongLong", f["size"]), declare=False))
    return f


def _foreign_block(f: Function, s: Value, address: Value, size: Value, owner: Value) -> Value:
    """A Storage of `size` (a Python int) bytes at `address`, which `owner` keeps alive."""
    block = f.call("ptr", "PyType_GenericAlloc", f.load("ptr", s, state.STORAGE_TYPE), f.i64(0))
    f.store(address, f.at("i8", block, memory.PTR))
    f.store(f.call("i64", "PyLong_AsLongLong", size), f.at("i8", block, memory.NBYTES))
    f.store(f.i64(memory.OWNED_ELSEWHERE), f.at("i8", block, memory.CLASS))
    f.store(s, f.at("i8", block, memory.STATE))
    f.store(f.load("i64", s, state.EPOCH), f.at("i8", block, memory.EPOCH))
    f.store(_incref(f, owner), f.at("i8", block, memory.OWNER))
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
_READ = {"float32": ("float", "double", "fpext", "PyFloat_FromDouble"), "float64": ("double", None, None, "PyFloat_FromDouble"),
         "int64": ("i64", None, None, "PyLong_FromLongLong"), "int32": ("i32", "i64", "sext", "PyLong_FromLongLong"),
         "bool": ("i8", "i64", "zext", "PyBool_FromLong")}


def reader_function(name: str) -> Function:
    """read(tensor) -> the first element of a tensor of this dtype as a Python number; no checks."""
    f = Function(f"fb_read_{name}", [("self", "ptr"), ("tensor", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    type, target, how, maker = _READ[name]
    size = {"float": 4, "double": 8, "i64": 8, "i32": 4, "i8": 1}[type]
    value = f.load(type, f.pointer(_data_address(f, s, f["tensor"], f.i64(size))), 0)
    f.ret(f.call("ptr", maker, value if target is None else f.convert(value, target, how)))
    return f


def empty_cache_call_function() -> Function:
    f = Function("fb_empty_cache_call", [("self", "ptr"), ("nothing", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    f.call("void", "fb_empty_cache", s, declare=False)
    f.ret(_incref(f, f.load("ptr", s, state.NONE)))
    return f


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


METH_NOARGS, METH_O, METH_FASTCALL = 4, 8, 0x80
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
_definitions: list[_MethodDef] = []


def _definition(name: str, address: int, flags: int = METH_FASTCALL) -> int:
    definition = _MethodDef(name.encode(), address, flags, None)
    _definitions.append(definition)
    return ctypes.addressof(definition)


def _compile_runtime() -> dict[str, int]:
    return compile_module(module(*memory.functions(), *threads.functions(), launch_function(), tensor_from_function(),
                                 view_of_function(), new_storage_function(), wrap_storage_function(), wrap_buffer_function(),
                                 empty_cache_call_function(), *map(reader_function, _READ)), pipeline=EXPLICIT)


_address = _compile_runtime()
Block = memory.make_block_type(_address["fb_dealloc"], _address["fb_version"], _address["fb_buffer"])
memory.set_limits()
pool = threads.Pool(_address["fb_worker"])
_launcher = _definition("launch", _address["fb_launch"])
tensor_from: Callable = _new_function(_definition("tensor_from", _address["fb_tensor_from"]), state.ADDRESS, None)
view_of: Callable = _new_function(_definition("view_of", _address["fb_view_of"]), state.ADDRESS, None)
new_storage: Callable = _new_function(_definition("new_storage", _address["fb_new_storage"], METH_O), state.ADDRESS, None)
wrap_storage: Callable = _new_function(_definition("wrap_storage", _address["fb_wrap_storage"]), state.ADDRESS, None)
wrap_buffer: Callable = _new_function(_definition("wrap_buffer", _address["fb_wrap_buffer"]), state.ADDRESS, None)
empty_cache: Callable = _new_function(_definition("empty_cache", _address["fb_empty_cache_call"], METH_NOARGS),
                                      state.ADDRESS, None)

readers: dict[str, Callable] = {
    name: _new_function(_definition("read", _address[f"fb_read_{name}"], METH_O), state.ADDRESS, None) for name in _READ}


def bind(storage_class: type, tensor_class: type) -> None:
    """Tell the launcher the classes of its results and where a Tensor's slots lie."""
    def slot_offset(name: str) -> int:
        descriptor = next(c.__dict__[name] for c in tensor_class.__mro__ if name in c.__dict__)
        member = ctypes.c_void_p.from_address(id(descriptor) + 40).value  # PyMemberDescrObject.d_member
        return ctypes.c_ssize_t.from_address(member + 16).value           # PyMemberDef.offset
    w = state.words
    w[state.TENSOR_TYPE], w[state.STORAGE_TYPE] = id(tensor_class), id(storage_class)
    for word, name in ((state.SLOT_STORAGE, "_storage"), (state.SLOT_OFFSET, "_offset"), (state.SLOT_LAYOUT, "_layout"),
                       (state.SLOT_NODE, "_node"), (state.SLOT_INDEX, "_index"), (state.SLOT_BASE, "_root")):
        w[word] = slot_offset(name)
    w[state.NONE], w[state.ZERO], w[state.CHECK_ERROR] = id(None), id(0), id(KernelCheck)
    w[state.TYPE_ERROR], w[state.CAPTURED_ERROR] = id(TypeError), id(CapturedWrite)
    w[state.WRITE_WORDS], w[state.SAVE_WORDS] = id(INFERENCE_WRITE), id(_INFERENCE_SAVE)
    w[state.RUNTIME_ERROR], w[state.NO_MEMORY_WORDS], w[state.META_WORDS] = id(RuntimeError), id(_NO_MEMORY), id(NO_DATA)


def plan(phases: Sequence[Phase], outputs: Sequence = (), inputs: Sequence[int] = (), scalars: str = "", scratch: int = 0,
         release: bool = False) -> Callable:
    """A callable `launch(out_or_None..., inputs..., scalars...)` that runs `phases`.

    outputs: the Layout of each result (allocated when the argument is None, returned in any case); inputs: the item size of
    each input tensor; scalars: a letter each, "f" (passed as a double), "i" (int64), "c" (two doubles); scratch: bytes of
    working memory; release: let other Python threads run meanwhile (worth it from about 100 us of work).
    Results on the meta device get no memory and nothing is run.
    """
    meta = any(layout.device.type == "meta" for layout in outputs)
    if meta:
        phases, scratch = (), 0
    operands = len(outputs) + len(inputs) + 2 * len(scalars)
    if operands > MAX_OPERANDS or len(outputs) > 16 or len(scalars) > 31:
        raise NotImplementedError(f"a kernel with {operands} operands; at most {MAX_OPERANDS} are supported")
    kinds = sum(_KINDS[k] << (2 * i) for i, k in enumerate(scalars))
    head = [state.ADDRESS, len(outputs), len(inputs), len(scalars), len(phases), scratch, int(release), kinds]
    for layout in outputs:
        head += (id(layout), -1 if meta else layout.nbytes, layout.dtype.itemsize)
    head += inputs
    at = len(head) + 4 * len(phases)
    tail: list[int] = []
    parallel = False
    for kernel, total, grain, constants in phases:
        head += (kernel, total, grain, at)
        tail += constants
        at += len(constants)
        parallel |= total > grain
    if parallel and state.words[state.WORKERS] < state.words[state.THREADS] - 1:
        pool.ensure()
    try:
        words = struct.pack(f"{at}q", *head, *tail)
    except struct.error:
        raise RuntimeError("numel: integer multiplication overflow") from None
    return _new_function(_launcher, words, tuple(outputs))


def set_threads(n: int) -> None:
    state.words[state.THREADS] = n
    pool.ensure()


def get_threads() -> int:
    return state.words[state.THREADS]
