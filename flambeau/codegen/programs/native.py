"""fb_replay: all launches of a program in one native call, as fb_launch runs one of them.

A replay's tables are arrays of words, written by replay.py: what each word means stands here. `fb_replay` finds the memory of
externals, looks whether it may be used, writes addresses that are new into the frames of steps, runs their phases, and makes the
results. It answers None, with UNFIT or FAILED in the head, where it could not; nothing has happened after UNFIT. Stands on
codegen.runtime; used by replay.py.
"""

from __future__ import annotations

from flambeau.codegen.builder import WATCH_LOOK, WATCH_WORD, Function, Value, Variable, module
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.runtime import memory, state, threads
from flambeau.codegen.runtime.objects import data_offset, incref, new_tensor, object_slot

# the head
STATE, EXTERNALS, EXTERNAL_COUNT, OUTPUTS, OUTPUT_COUNT, STEPS, STEP_COUNT, PATCHES, RESULTS, RESULT_COUNT = range(10)
PARALLEL, NEW_BLOCK, RELEASES, ARGUMENTS, NUMBERS, NUMBER_COUNT, SAVES, SAVE_COUNT = range(10, 18)
UNFIT, FAILED, CODE, DEAD, TAKEN_BACK, INFERENCE, GUARD, LAYOUTS, PACKS, RUNS, HEAD_WORDS = range(18, 29)
# an external: which argument (or -1: `BLOCK` stays), its storage, the size of an element, the bytes that are touched, counted
# from where it is, where it is now and was at last, its patches, whether steps write to it, by how much its count of writes
# grows, whose memory it shares at what distance (its own, 0), and whether it is the same storage object
ARGUMENT, BLOCK, ITEM, LOW, HIGH, NOW, LAST, FIRST, PATCHED, WRITTEN, WRITES, LEADER, DISTANCE, SAME, EXTERNAL_WORDS = range(15)
# an output: its bytes, its storage, where it was at last, its patches, its count of writes
SIZE, MADE, MADE_LAST, MADE_FIRST, MADE_PATCHED, MADE_WRITES, OUTPUT_WORDS = range(7)
# a step: its frame, how many threads, its phases, what is copied before it: to where (a word that holds it), from where, bytes;
# and its weight, if it packs one: a constant, or 0
FRAME, THREADS, PHASES, PHASE_COUNT, INTO, FROM, BYTES, WEIGHT, STEP_WORDS = range(9)
# a constant, a weight that may be packed already: its external, the mark and count of writes that its storage had then (a mark of
# 0: it isn't packed), whether its memory is a block of its own, and the frame and phases of the step that finds it packed
IN_EXTERNAL, MARK, WRITES_THEN, ALIASED, PACKED_FRAME, PACKED_PHASES, PACKED_COUNT, CONSTANT_WORDS = range(8)
KERNEL, TOTAL, GRAIN, CONSTANTS, PHASE_WORDS = range(5)
PATCH_WORDS = 2  # the word's address, and bytes to be added
RESULT_WORDS = 3  # output, offset and layout (objects)
NUMBER_WORDS = 2  # first patch, patches
SAVE_WORDS = 4  # external, bytes from where it is, how many, where they are kept
# why it is unfit
OUTSIDE, PROTECTED, OVERLAP, GONE, DISTANT, TAPED, NUMBER, LAYOUT = range(1, 9)


class _Replay:
    """Writes fb_replay(self, args, nargs); self is the address of the head, as a number."""

    def __init__(self) -> None:
        f = self.f = Function("fb_replay", [("self", "ptr"), ("args", "ptr"), ("nargs", "i64")], "ptr")
        self.head = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
        self.s = self._pointer(STATE)
        self.patches = self._pointer(PATCHES)
        self.watch = f.stack("i64", threads.WATCH_WORDS)
        f.store(f.i64(0), self.watch, threads.WATCH_ENDED)
        f.store(f.i64(0), self.head, UNFIT)
        f.store(f.i64(0), self.head, FAILED)
        f.store(f.i64(0), self.head, PACKS)
        self.made = f.variable("i64", 0)  # outputs so far

    def _word(self, index: int) -> Value:
        return self.f.load("i64", self.head, index)

    def _pointer(self, index: int) -> Value:
        return self.f.load("ptr", self.head, index)

    def function(self) -> Function:
        f = self.f
        self._arguments()
        self._numbers()  # before an address is looked up: their conversion may run Python
        self._outputs()
        with f.when(self._word(DEAD).differs(0)):
            self._leave(GONE)
        changed = self._find()
        with f.when(changed.get().differs(0)):
            self._compare()
        self._save()
        self._patch_externals()
        self._count(1)
        self._run()
        with f.when(f.load("i64", self.watch, threads.WATCH_ENDED).differs(0)):
            self._drop()
            f.ret(f.pointer(f.i64(0)))
        with f.when(self._word(FAILED).differs(0)):
            with f.when(self._word(FAILED) <= self._word(TAKEN_BACK)):
                self._count(-1)
                self._save(back=True)
            self._drop()
            f.ret(self._none())
        self._finish()
        return f

    # ---- leaving
    def _none(self) -> Value:
        return incref(self.f, self.f.load("ptr", self.s, state.NONE))

    def _drop(self) -> None:
        """Let go of the outputs that were made."""
        f = self.f
        with f.loop(0, self.made.get()) as i:
            f.call("void", "Py_DecRef", f.load("ptr", self._output(i), MADE))

    def _leave(self, reason: int) -> None:
        self.f.store(self.f.i64(reason), self.head, UNFIT)
        self._drop()
        self.f.ret(self._none())

    # ---- memory
    def _arguments(self) -> None:
        """Leave unless there are as many arguments as are wanted, and tensors with the layouts of the recorded call."""
        f, s = self.f, self.s
        with f.when(f.load("i64", s, state.TAPE).differs(0)):
            self._leave(TAPED)
        count = self._word(ARGUMENTS)
        with f.when(f["nargs"].differs(count + self._word(NUMBER_COUNT))):
            self._leave(NUMBER)
        kind = f.load("ptr", s, state.TENSOR_TYPE)
        with f.loop(0, count) as i:
            given = f.load("ptr", f["args"], i)
            own = f.load("ptr", given, 1)
            with f.when(f.address(own).differs(f.address(kind))):
                with f.when((f.call("i32", "PyType_IsSubtype", own, kind) + 0).equals(0)):
                    self._leave(LAYOUT)
            layout = f.load("i64", object_slot(f, given, s, state.SLOT_LAYOUT))
            with f.when(layout.differs(f.load("i64", self._pointer(LAYOUTS), i))):
                self._leave(LAYOUT)

    def _external(self, i: Value) -> Value:
        return self.f.at("i64", self._pointer(EXTERNALS), i * EXTERNAL_WORDS)

    def _output(self, i: Value) -> Value:
        return self.f.at("i64", self._pointer(OUTPUTS), i * OUTPUT_WORDS)

    def _patch(self, first: Value, count: Value, address: Value) -> None:
        f = self.f
        with f.loop(first, first + count) as i:
            patch = f.at("i64", self.patches, i * PATCH_WORDS)
            f.store(address + f.load("i64", patch, 1), f.load("ptr", patch, 0))

    def _outputs(self) -> None:
        """Allocate: this may run anybody's destructors, so that addresses are looked up behind it."""
        f = self.f
        with f.loop(0, self._word(OUTPUT_COUNT)) as i:
            output = self._output(i)
            block = f.call_pointer("ptr", self._pointer(NEW_BLOCK), self.s, f.load("i64", output, SIZE))
            with f.when(f.address(block).equals(0)):
                self._drop()
                f.ret(f.pointer(f.i64(0)))
            f.store(block, output, MADE)
            self.made.set(i + 1)
            address = f.load("i64", f.at("i8", block, memory.PTR))
            with f.when(address.differs(f.load("i64", output, MADE_LAST))):
                f.store(address, output, MADE_LAST)
                self._patch(f.load("i64", output, MADE_FIRST), f.load("i64", output, MADE_PATCHED), address)
            f.store(f.load("i64", output, MADE_WRITES), f.at("i8", block, memory.VERSION))

    def _find(self) -> Variable:
        """Where the externals are; whether one is elsewhere than it was. Leaves, if one may not be used."""
        f, s = self.f, self.s
        changed, wrong = f.variable("i64", 0), f.variable("i64", 0)
        with f.loop(0, self._word(EXTERNAL_COUNT)) as i:
            external = self._external(i)
            argument = f.load("i64", external, ARGUMENT)
            offset = f.variable("i64", 0)
            with f.when(argument >= 0):
                tensor = f.load("ptr", f["args"], argument)
                f.store(f.load("ptr", object_slot(f, tensor, s, state.SLOT_STORAGE)), external, BLOCK)
                offset.set(data_offset(f, s, tensor, f.load("i64", external, ITEM)))
            block = f.load("ptr", external, BLOCK)
            kind = f.load("i64", f.at("i8", block, memory.CLASS))
            begin = offset.get() + f.load("i64", external, LOW)
            end = offset.get() + f.load("i64", external, HIGH)
            outside = (begin < 0) | (end > f.load("i64", f.at("i8", block, memory.NBYTES))) | kind.equals(memory.META)
            wrong.set(f.select(outside, f.i64(OUTSIDE), wrong.get()))
            with f.when(f.load("i64", external, WRITTEN).differs(0)):
                held = f.variable("i1", kind.equals(memory.COPY_ON_WRITE))
                with f.when(f.load("i64", f.at("i8", block, memory.INFERENCE)).equals(1)):
                    held.set(held.get() | f.call_pointer("i64", self._pointer(INFERENCE), s).equals(0))
                epoch = f.load("i64", f.at("i8", block, memory.EPOCH))
                with f.when(epoch < f.load("i64", s, state.GUARD)):
                    held.set(held.get() | (epoch < f.call_pointer("i64", self._pointer(GUARD), s)))
                wrong.set(f.select(held.get(), f.i64(PROTECTED), wrong.get()))
                memory.unmark(f, block)
            now = f.load("i64", f.at("i8", block, memory.PTR)) + offset.get()
            f.store(now, external, NOW)
            moved = now.differs(f.load("i64", external, LAST))
            changed.set(f.select(moved, f.i64(1), changed.get()))
        with f.when(wrong.get().differs(0)):
            f.store(wrong.get(), self.head, UNFIT)
            self._drop()
            f.ret(self._none())
        return changed

    def _compare(self) -> None:
        """Leave unless what shared memory still does, and what is written to still shares with nothing else."""
        f = self.f
        count = self._word(EXTERNAL_COUNT)
        with f.loop(0, count) as i:
            one = self._external(i)
            leader = f.load("i64", one, LEADER)
            with f.branches(leader.differs(i)) as otherwise:
                first = self._external(leader)
                distance = f.load("i64", one, NOW) - f.load("i64", first, NOW)
                same = f.convert(f.load("i64", one, BLOCK).equals(f.load("i64", first, BLOCK)), "i64", "zext")
                strange = distance.differs(f.load("i64", one, DISTANCE)) | same.differs(f.load("i64", one, SAME))
                with f.when(strange):
                    self._leave(DISTANT)
                otherwise()
                with f.when(f.load("i64", one, NOW).differs(f.load("i64", one, LAST))):
                    begin, end = (f.load("i64", one, NOW) + f.load("i64", one, word) for word in (LOW, HIGH))
                    written = f.load("i64", one, WRITTEN)
                    with f.loop(0, count) as j:
                        other = self._external(j)
                        apart = f.load("i64", other, LEADER).differs(i)
                        apart = apart & (f.load("i64", other, LOW) < f.load("i64", other, HIGH))
                        harm = (written | f.load("i64", other, WRITTEN)).differs(0)
                        place = f.load("i64", other, NOW)
                        meets = (place + f.load("i64", other, LOW) < end) & (begin < place + f.load("i64", other, HIGH))
                        with f.when(apart & harm & meets):
                            self._leave(OVERLAP)

    def _patch_externals(self) -> None:
        f = self.f
        with f.loop(0, self._word(EXTERNAL_COUNT)) as i:
            external = self._external(i)
            now = f.load("i64", external, NOW)
            with f.when(now.differs(f.load("i64", external, LAST))):
                f.store(now, external, LAST)
                self._patch(f.load("i64", external, FIRST), f.load("i64", external, PATCHED), now)

    def _numbers(self) -> None:
        """Write the numbers that are given, behind the tensors, into the frames."""
        f = self.f
        with f.loop(0, self._word(NUMBER_COUNT)) as i:
            number = f.at("i64", self._pointer(NUMBERS), i * NUMBER_WORDS)
            value = f.call("double", "PyFloat_AsDouble", f.load("ptr", f["args"], self._word(ARGUMENTS) + i))
            with f.when(value.equals(-1.0)):
                with f.when(f.address(f.call("ptr", "PyErr_Occurred")).differs(0)):
                    f.ret(f.pointer(f.i64(0)))
            first = f.load("i64", number, 0)
            with f.loop(first, first + f.load("i64", number, 1)) as j:
                f.store(value, f.load("ptr", f.at("i64", self.patches, j * PATCH_WORDS), 0))

    def _save(self, back: bool = False) -> None:
        """Keep what is written to before a step that may find bad data; back: put it there again."""
        f = self.f
        with f.loop(0, self._word(SAVE_COUNT)) as i:
            save = f.at("i64", self._pointer(SAVES), i * SAVE_WORDS)
            external = f.load("i64", save, 0)
            place = f.variable("i64", f.load("i64", save, 1))
            with f.when(external >= 0):
                place.add(f.load("i64", self._external(external), NOW))
            kept, count = f.load("ptr", save, 3), f.load("i64", save, 2)
            there = f.pointer(place.get())
            f.call("ptr", "memcpy", *((there, kept) if back else (kept, there)), count)

    def _count(self, sign: int) -> None:
        """Count the writes to storages that were there before."""
        f = self.f
        with f.loop(0, self._word(EXTERNAL_COUNT)) as i:
            external = self._external(i)
            writes = f.load("i64", external, WRITES)
            with f.when(writes.differs(0)):
                version = f.at("i8", f.load("ptr", external, BLOCK), memory.VERSION)
                f.store(f.load("i64", version) + writes * sign, version)

    # ---- the work
    def _run(self) -> None:
        f, s = self.f, self.s
        releases = self._word(RELEASES).differs(0)
        f.store(f.i64(1), self.head, RUNS)
        thread_state, watch = (f.variable("ptr", f.pointer(f.i64(0))) for _ in range(2))
        with f.when(releases):
            self._hold("Py_IncRef", 1)
            thread_state.set(f.call("ptr", "PyEval_SaveThread"))
            with f.when(f.call("i64", "pthread_self").equals(f.load("i64", s, state.MAIN_THREAD))):
                f.store(f.load("i64", s, state.WATCH), self.watch, WATCH_LOOK)
                f.store(f.i64(0), self.watch, threads.WATCH_TIME)
                f.store(thread_state.get(), self.watch, threads.WATCH_THREAD)
                f.store(s, self.watch, threads.WATCH_STATE)
                f.store(f.load("i64", s, state.FORKS), self.watch, threads.WATCH_FORKS)
                watch.set(self.watch)
        watched = watch.get()
        steps = f.variable("i64", self._word(STEP_COUNT))
        with f.loop(0, self._word(STEP_COUNT)) as i, f.when(i < steps.get()):
            step = f.at("i64", self._pointer(STEPS), i * STEP_WORDS)
            frame, phases, phase_count = (f.variable("i64", f.load("i64", step, word)) for word in (FRAME, PHASES, PHASE_COUNT))
            with f.when(f.load("i64", step, WEIGHT).differs(0)):
                self._find_packed(f.load("ptr", step, WEIGHT), frame, phases, phase_count)
            p = f.pointer(frame.get())
            with f.when(f.load("i64", step, BYTES).differs(0)):
                into = f.load("ptr", f.load("ptr", step, INTO), 0)
                f.call("ptr", "memcpy", into, f.load("ptr", step, FROM), f.load("i64", step, BYTES))
            f.store(f.address(watched), p, WATCH_WORD)
            number = f.load("i64", step, THREADS)
            single = (number <= 1) & f.address(watched).equals(0)
            with f.loop(0, phase_count.get()) as j, f.when(i < steps.get()):
                phase = f.at("i64", f.pointer(phases.get()), j * PHASE_WORDS)
                kernel, total, grain = f.load("ptr", phase, KERNEL), f.load("i64", phase, TOTAL), f.load("i64", phase, GRAIN)
                f.store(f.load("i64", phase, CONSTANTS), p, 0)
                with f.branches((total <= grain) | single) as otherwise:
                    with f.when(total > 0):
                        f.call_pointer("void", kernel, p, f.i64(0), total, f.i64(0))
                    otherwise()
                    f.call_pointer("void", self._pointer(PARALLEL), s, kernel, p, total, grain, number, watched)
                with f.when(f.address(watched).differs(0)):
                    look = f.load("ptr", watched, WATCH_LOOK)
                    with f.when(f.call_pointer("i64", look, watched, f.i64(0)).differs(0)):
                        steps.set(0)
            error = f.load("i64", p, 2)
            with f.when(error.differs(0)):
                f.store(i + 1, self.head, FAILED)
                f.store(error, self.head, CODE)
                f.store(f.i64(0), p, 2)
                steps.set(0)
        with f.when(releases):
            f.call("void", "PyEval_RestoreThread", thread_state.get())
            self._hold("Py_DecRef", -1)
        f.store(f.i64(0), self.head, RUNS)

    def _find_packed(self, constant: Value, frame: Variable, phases: Variable, count: Variable) -> None:
        """Take the frame and phases that find a weight packed, if its bytes are what they were; else note that the step packs."""
        f = self.f
        block = f.load("ptr", self._external(f.load("i64", constant, IN_EXTERNAL)), BLOCK)
        mark = f.load("i64", constant, MARK)
        valid = f.variable("i1", mark > 0)
        valid.set(valid.get() & f.load("i64", f.at("i8", block, memory.MARK)).equals(mark))
        valid.set(valid.get() & f.load("i64", f.at("i8", block, memory.VERSION)).equals(f.load("i64", constant, WRITES_THEN)))
        with f.when(f.load("i64", constant, ALIASED).differs(0) & valid.get()):
            owner = f.load("ptr", f.at("i8", block, memory.OWNER))
            valid.set(f.load("i64", f.at("i8", owner, memory.MARK)).equals(mark))
        with f.branches(valid.get()) as otherwise:
            frame.set(f.load("i64", constant, PACKED_FRAME))
            phases.set(f.load("i64", constant, PACKED_PHASES))
            count.set(f.load("i64", constant, PACKED_COUNT))
            otherwise()
            f.store(f.i64(1), self.head, PACKS)

    def _hold(self, how: str, more: int) -> None:
        """Refer to the storages of arguments while others may run, and have memory that they lose meanwhile kept."""
        f, s = self.f, self.s
        for word in (state.RUNNING, state.WRITING):
            f.store(f.load("i64", s, word) + more, s, word)
        with f.loop(0, self._word(EXTERNAL_COUNT)) as i:
            f.call("void", how, f.load("ptr", self._external(i), BLOCK))

    def _finish(self) -> None:
        """A tuple of tensors on the outputs."""
        f, s = self.f, self.s
        count = self._word(RESULT_COUNT)
        results = f.call("ptr", "PyTuple_New", count)
        with f.loop(0, count) as i:
            result = f.at("i64", self._pointer(RESULTS), i * RESULT_WORDS)
            block = f.load("ptr", self._output(f.load("i64", result, 0)), MADE)
            tensor = new_tensor(f, s, incref(f, block), f.load("ptr", result, 1), f.load("ptr", result, 2))
            f.call("i32", "PyTuple_SetItem", results, i, tensor)
        self._drop()
        f.ret(results)


@compiled_module()
def _text() -> str:
    return module(_Replay().function())


def address() -> int:
    """Where fb_replay lies."""
    return _text().functions()["fb_replay"]
