"""Plans that run: one Python call that allocates results, runs kernels on all threads, and returns Tensors.

`callable_of` packs kernels, extents, constants and result layouts into a block of words and wraps the native launcher
of launcher.py around it (METH_FASTCALL: about 0.1 us a call). Operators keep plans by input layouts. The native functions of
objects.py become Python's here, too.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from flambeau.base.errors import CapturedWrite
from flambeau.base.layout import Layout, entered
from flambeau.base.memory_order import extent
from flambeau.codegen.builder import module
from flambeau.codegen.jit import KernelRef, compiled_module
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime import memory, state, threads
from flambeau.codegen.runtime.cpython import check, slot_offset
from flambeau.codegen.runtime.launcher import (
    MAX_OPERANDS,
    PHASE_WORDS,
    RELEASES,
    ROWS_OPERANDS,
    SCALAR_COMPLEX,
    SCALAR_FLOAT,
    SCALAR_INT,
    UNCOUNTED,
    Launcher,
    launch_rows_function,
    recorded_function,
)
from flambeau.codegen.runtime.messages import (
    FORKED,
    INFERENCE_SAVE,
    INFERENCE_WRITE,
    NO_DATA,
    NO_MEMORY,
    OUTSIDE,
    PENDING,
    KernelCheck,
)
from flambeau.codegen.runtime.objects import (
    READ,
    empty_cache_call_function,
    new_storage_function,
    reader_function,
    special_function,
    tensor_from_function,
    view_of_function,
    wrap_buffer_function,
    wrap_storage_function,
)
from flambeau.codegen.runtime.threads import planned_threads

check()
_KINDS = {"f": SCALAR_FLOAT, "i": SCALAR_INT, "c": SCALAR_COMPLEX}


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


METH_NOARGS, METH_O, METH_FASTCALL = 4, 8, 0x80
new_function = ctypes.pythonapi.PyCFunction_NewEx
new_function.restype, new_function.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
_definitions: list[_MethodDef] = []


def definition(name: str, address: int, flags: int = METH_FASTCALL) -> int:
    definition = _MethodDef(name.encode(), address, flags, None)
    _definitions.append(definition)
    return ctypes.addressof(definition)


_new_method = ctypes.pythonapi.PyDescr_NewMethod
_new_method.restype, _new_method.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]


def identity_method(cls: type, name: str) -> Callable:
    """A method of a class that gives the address of an instance, as id() does: CPython's own conversion of a pointer, called with
    the instance, so that no Python code runs.
    """
    return _new_method(
        cls, definition(name, ctypes.cast(ctypes.pythonapi.PyLong_FromVoidPtr, ctypes.c_void_p).value or 0, METH_NOARGS)
    )


@compiled_module()
def _runtime() -> str:
    return module(
        *memory.functions(),
        *threads.functions(),
        Launcher().function(),
        recorded_function(),
        launch_rows_function(),
        new_storage_function(),
        wrap_storage_function(),
        wrap_buffer_function(),
        empty_cache_call_function(),
        special_function(),
        *map(reader_function, READ),
    )


@compiled_module()
def _tensors() -> str:
    return module(tensor_from_function(), view_of_function())


addresses = _runtime().functions() | _tensors().functions()
Block = memory.make_block_type(
    *[addresses[f"fb_{name}"] for name in ("dealloc", "version", "pointer", "writes", "set_writes", "buffer", "release_buffer")]
)
memory.set_limits()
threads.initialise(addresses["fb_worker"], addresses["fb_watch"])
_launcher = definition("launch", addresses["fb_launch"])
_rows_launcher = definition("launch_rows", addresses["fb_launch_rows"])
tensor_from: Callable = new_function(definition("tensor_from", addresses["fb_tensor_from"]), state.ADDRESS, None)
view_of: Callable = new_function(definition("view_of", addresses["fb_view_of"]), state.ADDRESS, None)
new_storage: Callable = new_function(definition("new_storage", addresses["fb_new_storage"], METH_O), state.ADDRESS, None)
wrap_storage: Callable = new_function(definition("wrap_storage", addresses["fb_wrap_storage"]), state.ADDRESS, None)
copy_bytes: Callable = new_function(definition("copy_bytes", addresses["fb_copy_bytes"]), state.ADDRESS, None)
exchange: Callable = new_function(definition("exchange", addresses["fb_exchange"]), state.ADDRESS, None)
owner_of: Callable = new_function(definition("owner_of", addresses["fb_owner"], METH_O), state.ADDRESS, None)
set_size: Callable = new_function(definition("set_size", addresses["fb_set_size"]), state.ADDRESS, None)
rebound: Callable = new_function(definition("rebound", addresses["fb_rebound"], METH_O), state.ADDRESS, None)
wrap_buffer: Callable = new_function(definition("wrap_buffer", addresses["fb_wrap_buffer"]), state.ADDRESS, None)
empty_cache: Callable = new_function(
    definition("empty_cache", addresses["fb_empty_cache_call"], METH_NOARGS), state.ADDRESS, None
)

special: Callable[[Any], bool] = new_function(definition("special", addresses["fb_special"], METH_O), state.ADDRESS, None)
_start_workers: Callable = new_function(definition("start_workers", addresses["fb_start_workers"], METH_O), state.ADDRESS, None)

readers: dict[str, Callable] = {
    name: new_function(definition("read", addresses[f"fb_read_{name}"], METH_O), state.ADDRESS, None) for name in READ
}


def bind(storage_class: type, tensor_class: type) -> None:
    """Tell the launcher the classes of its results and where a Tensor's slots lie."""
    w = state.words
    _tensor_class[:] = [tensor_class]
    w[state.TENSOR_TYPE], w[state.STORAGE_TYPE] = id(tensor_class), id(storage_class)
    for word, name in (
        (state.SLOT_STORAGE, "_storage"),
        (state.SLOT_OFFSET, "_offset"),
        (state.SLOT_LAYOUT, "_layout"),
        (state.SLOT_NODE, "_node"),
        (state.SLOT_INDEX, "_index"),
        (state.SLOT_BASE, "_root"),
        (state.SLOT_CREATION, "_creation"),
    ):
        w[word] = slot_offset(tensor_class, name)
    w[state.SLOT_TENSOR_CLASS] = slot_offset(Layout, "tensor_class")
    w[state.NONE], w[state.ZERO], w[state.CHECK_ERROR] = id(None), id(0), id(KernelCheck)
    w[state.TRUE], w[state.FALSE] = id(True), id(False)
    w[state.TYPE_ERROR], w[state.CAPTURED_ERROR] = id(TypeError), id(CapturedWrite)
    w[state.WRITE_WORDS], w[state.SAVE_WORDS] = id(INFERENCE_WRITE), id(INFERENCE_SAVE)
    w[state.RUNTIME_ERROR], w[state.NO_MEMORY_WORDS], w[state.META_WORDS] = id(RuntimeError), id(NO_MEMORY), id(NO_DATA)
    w[state.OUTSIDE_WORDS], w[state.FORK_WORDS] = id(OUTSIDE), id(FORKED)


def bytes_spanned(layout: Layout) -> int:
    """Bytes from the first element to behind the last one in memory; 0 without elements: wherever such a layout begins, it
    fits.
    """
    if not layout.numel:
        return 0
    if layout.is_contiguous:
        return layout.nbytes
    return extent(layout.shape, layout.strides) * layout.dtype.itemsize


def callable_of(plan: Plan, phases: Sequence[Phase], scratch: int, meta: bool = False, threads: int = 0) -> Callable:
    """A callable `launch(out_or_None..., inputs..., scalars...)` that runs a plan, which was lowered to phases with so many bytes
    of working memory for `threads` threads (as many as are planned now). meta: nothing is run, and results get no memory.
    """
    entered()
    _, outputs, inputs, scalars, _, release, _, counted = plan
    for layout in (*outputs, *inputs):
        if layout.pending:
            raise NotImplementedError(PENDING)
    operands = len(outputs) + len(inputs) + 2 * len(scalars)
    if operands > MAX_OPERANDS or len(outputs) > 16 or len(scalars) > 31:
        raise NotImplementedError(f"a kernel with {operands} operands; at most {MAX_OPERANDS} are supported")
    kinds, most = 0, threads or planned_threads()
    for k in reversed(scalars):
        kinds = kinds << 2 | _KINDS[k]
    head: list[SupportsIndex] = [
        state.ADDRESS,
        len(outputs),
        len(inputs),
        len(scalars),
        len(phases),
        scratch,
        (RELEASES if release else 0) | (0 if counted else UNCOUNTED),
        kinds,
        most,
        id(plan),
    ]
    for layout in outputs:
        span = bytes_spanned(layout)
        nbytes = max(layout.nbytes, span)
        head += (id(layout), ~nbytes if meta else nbytes, layout.dtype.itemsize, span)
    for layout in inputs:
        head += (layout.dtype.itemsize, bytes_spanned(layout))
    at = len(head) + PHASE_WORDS * len(phases)
    tail = array("q")
    parallel = False
    try:
        for kernel, total, grain, constants in phases:
            for constant in constants:  # kernels that this one calls
                if constant.__class__ is KernelRef:
                    constant.begin()
            head += (kernel.address or kernel.begin(), total, grain, at)
            at += len(constants)
            parallel |= total > grain
        for phase in phases:
            tail.extend(phase.constants)  # type: ignore[arg-type]
        words = struct.pack(f"{len(head)}q", *head) + tail.tobytes()
    except (struct.error, OverflowError):
        raise RuntimeError("numel: integer multiplication overflow") from None
    if parallel and state.words[state.WORKERS] < most - 1:
        _start_workers(most - 1)
    launch = new_function(_launcher, words, plan)  # which keeps alive what its words are addresses of
    return launch if not outputs or outputs[0].device.stand_ins is None else _of_class(outputs[0].tensor_class, launch)


def _of_class(tensor_class: type, launch: Callable) -> Callable:
    """A launcher whose results are of the class that their layouts name: the native one makes Tensors."""

    def launch_named(*arguments: object) -> object:
        for ask in watchers:
            ask()
        made = launch(*arguments)
        for x in made if made.__class__ is tuple else (made,):
            if x.__class__ is _tensor_class[0]:
                x.__class__ = tensor_class
        return made

    launch_named.__self__ = launch.__self__  # type: ignore[attr-defined]  # the words, for `rows_plan`
    return launch_named


_tensor_class: list[type] = []  # Tensor, once it is bound
#: Asked before a kernel would run for fake tensors, while somebody records what is computed of them.
watchers: list[Callable[[], None]] = []


def rows_plan(launches: Sequence[Callable], written: int, read: int, numbers: int) -> Callable:
    """A callable `launch(tensors, numbers...)` that runs a plan for each row of a tuple of tensors.

    A row is `written` tensors and `read` ones; its plan, one of `launches`, takes the written ones as results, all of the row as
    inputs, then the numbers.
    """
    if 2 * written + read + numbers > ROWS_OPERANDS:
        raise NotImplementedError(f"a row with {written} + {read} tensors and {numbers} numbers")
    entered()
    plans = [launch.__self__ for launch in launches]
    words = struct.pack(f"{5 + len(plans)}q", state.ADDRESS, len(plans), written, read, numbers, *map(id, plans))
    return new_function(_rows_launcher, words, tuple(launches))
