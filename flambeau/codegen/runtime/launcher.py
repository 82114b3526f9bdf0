"""The native launcher: the function that runs a plan's words, and what stands around it for rows of plans and for recordings.

It reads tensors' slots, allocates what is given as None, converts scalars, releases the interpreter's lock for long work and
raises what a kernel's error word says. launch.py packs the words. Stands on objects.py, memory.py and threads.py.
"""

from __future__ import annotations

from flambeau.codegen.builder import WATCH_LOOK, WATCH_WORD, Function, Value, Variable
from flambeau.codegen.runtime import memory, state, threads
from flambeau.codegen.runtime.cpython import BYTES_DATA
from flambeau.codegen.runtime.objects import data_offset, incref, new_tensor, object_slot

PLAN_WORDS_BEFORE_OPERANDS = 10
MAX_OPERANDS = 240
SCALAR_FLOAT, SCALAR_INT, SCALAR_COMPLEX = 0, 1, 2
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the type was made by a class statement, or might have been
OUTPUT_WORDS, INPUT_WORDS, PHASE_WORDS = 4, 2, 4  # of a plan's description of each
RELEASES, UNCOUNTED = 1, 2  # a plan's flags: without the interpreter's lock; writes leave versions as they are


class Launcher:
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
