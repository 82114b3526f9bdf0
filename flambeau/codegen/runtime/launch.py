"""Plans that run: one Python call that allocates results, runs kernels on all threads, and returns Tensors.

`callable_of` packs kernels, extents, constants and result layouts into a block of words and wraps the native launcher around it
(METH_FASTCALL: about 0.1 us a call). The launcher reads tensors' slots, allocates what is given as None, converts scalars,
releases the interpreter's lock for long work and raises what a kernel's error word says. Operators keep plans by input layouts.
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
from flambeau.codegen.builder import WATCH_LOOK, WATCH_WORD, Function, Value, Variable, module
from flambeau.codegen.jit import KernelRef, compiled_module
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime import memory, state, threads
from flambeau.codegen.runtime.cpython import BYTES_DATA, check, slot_offset
from flambeau.codegen.runtime.threads import planned_threads

check()
PLAN_WORDS_BEFORE_OPERANDS = 10
MAX_OPERANDS = 240
BUFFER_WORDS, BUFFER_STRIDES = 10, 0x18  # the size of a Py_buffer; PyBUF_STRIDES, writable or not
SCALAR_FLOAT, SCALAR_INT, SCALAR_COMPLEX = 0, 1, 2
_KINDS = {"f": SCALAR_FLOAT, "i": SCALAR_INT, "c": SCALAR_COMPLEX}


class KernelCheck(Exception):
    """A kernel found bad data (an index out of range, say); args[0] is the code it left."""


_NO_MEMORY = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate %d bytes. Error code 12 (Cannot allocate memory)"
)
NO_DATA = "Tensor on device meta is not on the expected device cpu!"
OUTSIDE = (
    "a tensor reaches outside its storage: its memory was taken away or exchanged while it was used. Don't let one "
    "thread resize or set a tensor that another one computes with"
)
PENDING = (
    "a conjugate or negative view came to a kernel that reads memory as it is: hand over x.resolve_conj().resolve_neg(), "
    "or for a result a tensor of its own"
)
_FORKED = (
    "a signal's handler forked while an operator was at work: the threads that had a part in it are not in this process, "
    "so that its result is not to be had here"
)
INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
    "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)
_INFERENCE_SAVE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
    "it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)


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


def _named_class(f: Function, s: Value, layout: Value) -> Value:
    """The class that a layout names for its tensors, or null."""
    return f.load("ptr", object_slot(f, layout, s, state.SLOT_TENSOR_CLASS))


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the type was made by a class statement, or might have been
OUTPUT_WORDS, INPUT_WORDS, PHASE_WORDS = 4, 2, 4  # of a plan's description of each
RELEASES, UNCOUNTED = 1, 2  # a plan's flags: without the interpreter's lock; writes leave versions as they are


class _Launcher:
    """Writes fb_launch(self, args, nargs), a call of the plan in `self`, step by step.

    The frame `p` that kernels get holds: constants, scratch, error word, number of threads, then addresses of outputs and inputs,
    then numbers; before all of it, the address of the watch, or 0.
    """

    def __init__(self) -> None:
        f = self.f = Function("fb_launch", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
        self.plan = f.at("i8", f["self"], BYTES_DATA)
        self.s = f.load("ptr", self.plan, 0)
        self.n_out, self.n_in, self.n_scalar, self.n_phase, self.scratch_bytes, self.flags, self.kinds, self.threads = (
            f.load("i64", self.plan, i) for i in range(1, 9)
        )
        self.frame = f.at("i64", f.stack("i64", MAX_OPERANDS + 24, align=64), 8)
        self.results = f.stack("ptr", 16)
        self.held = f.stack("ptr", MAX_OPERANDS + 16)  # storages of the outputs and inputs
        f.store(f.i64(0), self.frame, 2)
        f.store(f.i64(0), self.frame, WATCH_WORD)
        # not 0 if there is work and an operand is without data; if one reaches outside its storage
        self.without_data, self.outside = f.variable("i64", 0), f.variable("i64", 0)
        self.to_place = f.variable("i64", 0)  # not 0 if memory is written to that was there before
        outputs = f.at("i64", self.plan, PLAN_WORDS_BEFORE_OPERANDS)
        inputs = f.at("i64", outputs, self.n_out * OUTPUT_WORDS)
        self.descriptions = outputs, inputs, f.at("i64", inputs, self.n_in * INPUT_WORDS)
        self.releases = (self.flags & RELEASES).differs(0)
        self.counted = f.select((self.flags & UNCOUNTED).differs(0), f.i64(0), f.i64(1))  # by how much a write moves versions
        self.kept = f.variable("i64", self.flags & RELEASES)  # whether the storages are referred to until the end
        self.watch = f.stack("i64", threads.WATCH_WORDS)
        f.store(f.i64(0), self.watch, threads.WATCH_ENDED)

    def function(self) -> Function:
        """The finished function."""
        f = self.f
        self._outputs()
        inputs = f.at("ptr", f["args"], self.n_out)
        self._inputs(inputs)
        self._refuse(self.without_data.get().differs(0), state.META_WORDS)
        self._refuse(self.outside.get().differs(0), state.OUTSIDE_WORDS)
        with f.when(self.releases):
            self._keep()  # another thread may meanwhile give these tensors other memory
        self._numbers(f.at("ptr", inputs, self.n_in))
        scratch = self._scratch()
        self._run()
        self._let_go()
        with f.when(self.scratch_bytes.differs(0)):
            f.call("void", "fb_release", self.s, scratch, self.scratch_bytes, declare=False)
        with f.when(f.load("i64", self.watch, threads.WATCH_ENDED).differs(0)):
            self._fail()
        self._finish()
        return f

    # ---- leaving early
    def _fail(self, made: Value | None = None) -> None:
        """Drop the `made` first results (all) and return NULL: an exception is set."""
        f = self.f
        f.store(f.load("i64", self.s, state.FAILURES) + 1, self.s, state.FAILURES)
        with f.loop(0, self.n_out if made is None else made) as j:
            f.call("void", "Py_DecRef", f.load("ptr", self.results, j))
        f.ret(f.pointer(f.i64(0)))

    def _raise(self, error: int, words: Value) -> None:
        self.f.call("void", "PyErr_SetObject", self.f.load("ptr", self.s, error), words)
        self._fail()

    def _refuse(self, condition: Value, words: int) -> None:
        """RuntimeError with the text in a word of the state if a condition holds."""
        with self.f.when(condition):
            self._raise(state.RUNTIME_ERROR, self.f.load("ptr", self.s, words))

    def _refuse_others(self, given: Value) -> None:
        """TypeError unless `given` is a Tensor, whose slots can be read."""
        f = self.f
        kind, tensor = f.load("ptr", given, 1), f.load("ptr", self.s, state.TENSOR_TYPE)
        with f.when(f.address(kind).differs(f.address(tensor))):
            with f.when((f.call("i32", "PyType_IsSubtype", kind, tensor) + 0).equals(0)):
                self._raise(state.TYPE_ERROR, kind)

    def _refuse_write(self, storage: Value) -> None:
        """Raise if this thread may not write to a storage: to memory of inference mode, or to what a transform captured."""
        f, s = self.f, self.s
        with f.when(f.load("i64", f.at("i8", storage, memory.INFERENCE)).equals(1)):
            with f.when(f.call("i64", "fb_inference", s, declare=False).equals(0)):
                self._raise(state.RUNTIME_ERROR, f.load("ptr", s, state.WRITE_WORDS))
        epoch = f.load("i64", f.at("i8", storage, memory.EPOCH))
        with f.when(epoch < f.load("i64", s, state.GUARD)):
            with f.when(epoch < f.call("i64", "fb_guard", s, declare=False)):
                self._raise(state.CAPTURED_ERROR, f.load("ptr", s, state.NONE))
        with f.when(memory.before_write(f, s, storage)):
            self._fail()
        memory.note(f, s, memory.OVERWRITTEN, storage)

    # ---- operands
    def _outputs(self) -> None:
        """Allocate the results given as None, unless this thread donates one like it; then count a write to the others.

        An allocation may set the collector to work, and so anybody's destructor: no address is looked up before the last one.
        """
        f, s = self.f, self.s
        none = f.load("ptr", s, state.NONE)
        target, to_place = f.variable("ptr"), self.to_place
        with f.loop(0, self.n_out) as i:
            target.set(f.load("ptr", f["args"], i))
            description = f.at("i64", self.descriptions[0], i * OUTPUT_WORDS)
            with f.when(f.load("i64", s, state.DONATED).differs(0)):
                self._take_donated(target, none, f.load("i64", description, 0))
            given = target.get()
            with f.branches(f.address(given).equals(f.address(none))) as otherwise:
                block = f.call("ptr", "fb_new_block", s, f.load("i64", description, 1), declare=False)
                with f.when(f.address(block).equals(0)):
                    self._fail(i)
                tensor = new_tensor(f, s, block, f.load("ptr", s, state.ZERO), f.load("ptr", description, 0))
                f.store(tensor, self.results, i)
                f.store(f.load("i64", f.at("i8", block, memory.PTR)), self.frame, i + 4)
                f.store(block, self.held, i)
                otherwise()
                f.store(incref(f, given), self.results, i)
                f.store(f.i64(0), self.held, i)
                to_place.set(self.n_out)
        with f.loop(0, to_place.get()) as i:  # what is copied on write is copied here
            with f.when(f.load("i64", self.held, i).equals(0)):
                given = f.load("ptr", self.results, i)
                self._refuse_others(given)
                self._refuse_write(f.load("ptr", object_slot(f, given, s, state.SLOT_STORAGE)))
        with f.loop(0, to_place.get()) as i:
            with f.when(f.load("i64", self.held, i).equals(0)):
                given = f.load("ptr", self.results, i)
                storage = f.load("ptr", object_slot(f, given, s, state.SLOT_STORAGE))
                self._place(given, storage, i, f.at("i64", self.descriptions[0], i * OUTPUT_WORDS + 2))
                version = f.at("i8", storage, memory.VERSION)
                f.store(f.load("i64", version) + self.counted, version)
                memory.unmark(f, storage)

    def _take_donated(self, target: Variable, none: Value, layout: Value) -> None:
        """Write to the donated tensor instead of a fresh one, if it has that layout."""
        f, s = self.f, self.s
        donation = f.load("ptr", s, state.DONATED)
        donor = f.call("i64", "PyLong_AsLongLong", f.call("ptr", "PyTuple_GetItem", donation, f.i64(1)))
        mine = f.address(f.call("ptr", "PyThreadState_Get")).equals(donor)
        with f.when(mine & f.address(target.get()).equals(f.address(none))):
            donated = f.call("ptr", "PyTuple_GetItem", donation, f.i64(0))
            with f.when(f.load("i64", object_slot(f, donated, s, state.SLOT_LAYOUT)).equals(layout)):
                target.set(donated)
                f.store(f.i64(0), s, state.DONATED)

    def _inputs(self, arguments: Value) -> None:
        f = self.f
        with f.loop(0, self.n_in) as i:
            given = f.load("ptr", arguments, i)
            self._refuse_others(given)
            storage = f.load("ptr", object_slot(f, given, self.s, state.SLOT_STORAGE))
            self._place(given, storage, self.n_out + i, f.at("i64", self.descriptions[1], i * INPUT_WORDS))

    def _place(self, tensor: Value, storage: Value, i: Value, description: Value) -> None:
        """Put operand i's address into the frame; description: its item size, and the bytes that its layout spans.

        Another thread may have given the tensor less memory since the plan was chosen by its layout.
        """
        f = self.f
        is_meta = f.load("i64", f.at("i8", storage, memory.CLASS)).equals(memory.META)
        self.without_data.set(f.select(is_meta, self.n_phase, self.without_data.get()))
        offset, span = data_offset(f, self.s, tensor, f.load("i64", description, 0)), f.load("i64", description, 1)
        reaches_out = (span > 0) & (offset + span > f.load("i64", f.at("i8", storage, memory.NBYTES)))
        self.outside.set(f.select(reaches_out, self.n_phase, self.outside.get()))
        f.store(storage, self.held, i)
        f.store(f.load("i64", f.at("i8", storage, memory.PTR)) + offset, self.frame, i + 4)

    def _keep(self) -> None:
        """Take a reference to each of the storages, and have memory that they lose meanwhile kept."""
        self._count_running(1)
        with self.f.loop(0, self.n_out + self.n_in) as i:
            self.f.call("void", "Py_IncRef", self.f.load("ptr", self.held, i))

    def _count_running(self, more: int) -> None:
        f, s = self.f, self.s
        f.store(f.load("i64", s, state.RUNNING) + more, s, state.RUNNING)
        writing = f.select(self.to_place.get().equals(0), f.i64(0), f.i64(more))
        f.store(f.load("i64", s, state.WRITING) + writing, s, state.WRITING)

    def _let_go(self) -> None:
        """Give back what `_keep` took, if it did."""
        f = self.f
        with f.when(self.kept.get().differs(0)):
            self._count_running(-1)
            with f.loop(0, self.n_out + self.n_in) as i:
                f.call("void", "Py_DecRef", f.load("ptr", self.held, i))

    # ---- numbers and working memory
    def _numbers(self, arguments: Value) -> None:
        """Convert numbers into the frame, behind the operands."""
        f = self.f
        slots = f.variable("ptr", f.at("i64", self.frame, self.n_out + self.n_in + 4))
        kind = f.variable("i64", self.kinds)
        with f.loop(0, self.n_scalar) as i:
            object = f.load("ptr", arguments, i)
            failed = f.variable("i1", 0)
            this = kind.get() & 3
            python = f.call("i64", "PyType_GetFlags", f.load("ptr", object, 1)) & HEAP_TYPE
            with f.when(f.select(self.kept.get().equals(0), python, f.i64(0)).differs(0)):
                self._keep()  # its conversion may run Python code, which may give the tensors other memory
                self.kept.set(f.i64(1))
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
                    self._let_go()
                    self._fail()
            slots.set(f.at("i64", slots.get(), 1))
            kind.set(kind.get() >> 2)

    def _scratch(self) -> Value:
        """Allocate working memory, if the plan needs any."""
        f, s = self.f, self.s
        scratch = f.variable("ptr", f.pointer(f.i64(0)))
        with f.when(self.scratch_bytes.differs(0)):
            scratch.set(f.call("ptr", "fb_allocate", s, self.scratch_bytes, declare=False))
            with f.when(f.address(scratch.get()).equals(0)):
                with f.when(self.kept.get().equals(0)):
                    self._keep()
                    self.kept.set(f.i64(1))
                memory.give_back(f, s, self.scratch_bytes)
                scratch.set(f.call("ptr", "fb_allocate", s, self.scratch_bytes, declare=False))
                with f.when(f.address(scratch.get()).equals(0)):
                    self._let_go()
                    f.call("void", "fb_no_memory", s, self.scratch_bytes, declare=False)
                    self._fail()
        f.store(scratch.get(), self.frame, 1)
        return scratch.get()

    # ---- the work
    def _run(self) -> None:
        """Run the phases, on all threads where they are long, without the interpreter's lock if the plan says so."""
        f, s, p = self.f, self.s, self.frame
        f.store(self.threads, p, 3)
        thread_state, watch = (f.variable("ptr", f.pointer(f.i64(0))) for _ in range(2))
        with f.when(self.releases):
            thread_state.set(f.call("ptr", "PyEval_SaveThread"))
            with f.when(f.call("i64", "pthread_self").equals(f.load("i64", s, state.MAIN_THREAD))):
                self._begin_watch(thread_state.get())
                watch.set(self.watch)
        single = (self.threads <= 1) & f.address(watch.get()).equals(0)
        phases = f.variable("i64", self.n_phase)
        with f.loop(0, self.n_phase) as i, f.when(i < phases.get()):
            phase = f.at("i64", self.descriptions[2], i * PHASE_WORDS)
            kernel, total, grain = f.load("ptr", phase, 0), f.load("i64", phase, 1), f.load("i64", phase, 2)
            f.store(f.at("i64", self.plan, f.load("i64", phase, 3)), p, 0)
            with f.branches((total <= grain) | single) as otherwise:
                with f.when(total > 0):
                    f.call_pointer("void", kernel, p, f.i64(0), total, f.i64(0))
                otherwise()
                f.call("void", "fb_parallel", s, kernel, p, total, grain, self.threads, watch.get(), declare=False)
            with f.when(f.address(watch.get()).differs(0)):
                with f.when(f.call("i64", "fb_watch", watch.get(), f.i64(0), declare=False).differs(0)):
                    phases.set(0)
        with f.when(self.releases):
            f.call("void", "PyEval_RestoreThread", thread_state.get())

    def _begin_watch(self, thread_state: Value) -> None:
        """Have this launch look now and then whether a signal waits for its handler."""
        f, watch = self.f, self.watch
        f.store(f.address(watch), self.frame, WATCH_WORD)
        f.store(f.load("i64", self.s, state.WATCH), watch, WATCH_LOOK)
        f.store(f.i64(0), watch, threads.WATCH_TIME)
        f.store(thread_state, watch, threads.WATCH_THREAD)
        f.store(self.s, watch, threads.WATCH_STATE)
        f.store(f.load("i64", self.s, state.FORKS), watch, threads.WATCH_FORKS)

    def _finish(self) -> None:
        """Raise what a kernel's error word says, or return the one result or a tuple of them."""
        f, s = self.f, self.s
        error = f.load("i64", self.frame, 2)
        with f.when(error.differs(0)):
            code = f.call("ptr", "PyLong_FromLongLong", error)
            f.call("void", "PyErr_SetObject", f.load("ptr", s, state.CHECK_ERROR), code)
            f.call("void", "Py_DecRef", code)
            self._fail()
        with f.when(f.load("i64", s, state.TAPE).differs(0)):
            f.call("void", "fb_recorded", s, f["self"], f["args"], f["nargs"], self.results, self.n_out, declare=False)
        with f.when(self.n_out.equals(1)):
            f.ret(f.load("ptr", self.results, 0))
        items = f.call("ptr", "PyTuple_New", self.n_out)
        with f.loop(0, self.n_out) as j:
            f.call("i32", "PyTuple_SetItem", items, j, f.load("ptr", self.results, j))
        f.ret(items)


def _tuple_of(f: Function, objects: Value, count: Value) -> Value:
    """A tuple of `count` objects."""
    made = f.call("ptr", "PyTuple_New", count)
    with f.loop(0, count) as i:
        f.call("i32", "PyTuple_SetItem", made, i, incref(f, f.load("ptr", objects, i)))
    return made


def recorded_function() -> Function:
    """void recorded(state, plan, arguments, count, results, made): tell the recorder of a launch that ran: the words of its plan,
    a tuple of its arguments and one of its results.
    """
    f = Function(
        "fb_recorded",
        [("state", "ptr"), ("plan", "ptr"), ("arguments", "ptr"), ("count", "i64"), ("results", "ptr"), ("made", "i64")],
    )
    event = f.call("ptr", "PyTuple_New", f.i64(3))
    given, made = _tuple_of(f, f["arguments"], f["count"]), _tuple_of(f, f["results"], f["made"])
    for i, part in enumerate((incref(f, f["plan"]), given, made)):
        f.call("i32", "PyTuple_SetItem", event, f.i64(i), part)
    memory.tell(f, f["state"], event)
    return f


ROWS_OPERANDS = 32  # that a row of `rows_plan` may have, numbers included


def launch_rows_function() -> Function:
    """launch_rows(tensors, numbers...): a plan for each row of a tuple of tensors, one after the other; see `rows_plan`."""
    f = Function("fb_launch_rows", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    words = f.at("i8", f["self"], BYTES_DATA)
    s, count, written, read, numbers = (f.load("i64", words, i) for i in range(5))
    plans, tensors = f.at("i64", words, 5), f.load("ptr", f["args"], 0)
    row = f.stack("ptr", ROWS_OPERANDS)
    behind = f.at("ptr", row, written * 2 + read)
    with f.loop(0, numbers) as j:
        f.store(f.load("ptr", f.at("ptr", f["args"], j + 1)), behind, j)
    with f.loop(0, count) as i:
        first = i * (written + read)
        with f.loop(0, written) as j:
            f.store(f.call("ptr", "PyTuple_GetItem", tensors, first + j), row, j)
        with f.loop(0, written + read) as j:
            f.store(f.call("ptr", "PyTuple_GetItem", tensors, first + j), row, written + j)
        made = f.call("ptr", "fb_launch", f.pointer(f.load("i64", plans, i)), row, written * 2 + read + numbers, declare=False)
        with f.when(f.address(made).equals(0)):
            f.ret(f.pointer(f.i64(0)))
        f.call("void", "Py_DecRef", made)
    f.ret(incref(f, f.load("ptr", f.pointer(s), state.NONE)))
    return f


def tensor_from_function() -> Function:
    """tensor_from(storage, offset, layout) -> Tensor over existing memory, without a graph."""
    f = Function("fb_tensor_from", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    storage, offset, layout = (f.load("ptr", f["args"], i) for i in range(3))
    f.ret(new_tensor(f, s, incref(f, storage), offset, layout, _named_class(f, s, layout)))
    return f


def view_of_function() -> Function:
    """view_of(tensor, offset, layout) -> Tensor that shares the storage, remembers its base and inherits what marks views."""
    f = Function("fb_view_of", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    source, offset, layout = (f.load("ptr", f["args"], i) for i in range(3))
    storage = f.load("ptr", object_slot(f, source, s, state.SLOT_STORAGE))
    view = new_tensor(f, s, incref(f, storage), offset, layout, _named_class(f, s, layout))
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
_READ = {
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
    type, target, how, maker = _READ[name]
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
        _Launcher().function(),
        recorded_function(),
        launch_rows_function(),
        new_storage_function(),
        wrap_storage_function(),
        wrap_buffer_function(),
        empty_cache_call_function(),
        special_function(),
        *map(reader_function, _READ),
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
    name: new_function(definition("read", addresses[f"fb_read_{name}"], METH_O), state.ADDRESS, None) for name in _READ
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
    w[state.WRITE_WORDS], w[state.SAVE_WORDS] = id(INFERENCE_WRITE), id(_INFERENCE_SAVE)
    w[state.RUNTIME_ERROR], w[state.NO_MEMORY_WORDS], w[state.META_WORDS] = id(RuntimeError), id(_NO_MEMORY), id(NO_DATA)
    w[state.OUTSIDE_WORDS], w[state.FORK_WORDS] = id(OUTSIDE), id(_FORKED)


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
