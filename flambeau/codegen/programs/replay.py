"""Programs that run: the tables of a program, with memory for what is fresh, and the call of the native replay.

A `Replay` is what callers have. It keeps `_Frames`, of which a call takes one that nobody uses: several threads have one each.
Stands on program.py, arena.py, passes.py and native.py.
"""

from __future__ import annotations

import ctypes
import struct
import time
from array import array
from collections.abc import Sequence
from typing import Any
from weakref import ref

from flambeau.base.flags import flags
from flambeau.codegen.programs import native
from flambeau.codegen.programs.arena import arrange
from flambeau.codegen.programs.constants import Constant, prepared
from flambeau.codegen.programs.passes import improve
from flambeau.codegen.programs.program import (
    CONSTANT,
    EXTERNAL,
    FRESH,
    KEPT,
    OUTPUT,
    Address,
    Lifted,
    Operand,
    Program,
    Step,
    Unfit,
    lifetimes,
    may_refuse,
)
from flambeau.codegen.runtime import launch, launcher, state
from flambeau.codegen.runtime.cpython import BYTES_DATA
from flambeau.codegen.runtime.threads import planned_threads

LONG = 200_000  # nanoseconds from which on other Python threads may run meanwhile
STEP_BYTES = 1 << 10  # of the tables of a step, about
MOST_SAVED = 1 << 20  # bytes that are kept for the case that a kernel finds bad data
GENERATOR_BYTES, SPARE_BYTES = 2500, 16
_REASONS = {
    native.OUTSIDE: "a tensor has no memory, or less than it had",
    native.PROTECTED: "memory that is written to is copied on write, or must not be written to here",
    native.OVERLAP: "memory that is written to is shared with another tensor",
    native.GONE: "memory of the recorded call is gone",
    native.DISTANT: "inputs share memory in another way",
    native.TAPED: "a call is being recorded",
    native.NUMBER: "another number of inputs",
    native.LAYOUT: "an input of another layout",
}


class Replay:
    """A program that can be called: `replay(*inputs)`, with tensors of the layouts that it was recorded with, gives its outputs,
    new ones each time. Lifted numbers may stand behind the inputs. Raises Unfit where the function itself must run.

    `program` is what was recorded. What passes make of it is run as soon as its kernels are there; settled: they are waited for;
    improved: whether passes run at all.
    """

    def __init__(self, program: Program, settled: bool = False, improved: bool = True) -> None:
        self.program = program
        self._threads, self._numbers, self._given = program.threads, program.numbers, len(program.inputs)
        self._plain = all(r.operand is not None and program.buffers[r.operand.buffer].kind == OUTPUT for r in program.outputs)
        self._waits = [(g, w) for g, w in program.generators if w is not None]
        self.form = _Form(program)
        self._coming = improve(program) if improved else None
        if self._coming is not None:
            self._take(settled or flags.compile == "check")

    @property
    def nbytes(self) -> int:
        """About how many bytes it keeps between calls, for as many threads as have called it at once."""
        return self.form.nbytes

    def __str__(self) -> str:
        return str(self.form.program)

    def run(self, inputs: Sequence[Any], numbers: Sequence[float] = ()) -> tuple[Any, ...]:
        """The outputs for these inputs, and these values of the lifted numbers."""
        return self(*inputs, *numbers)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        if self._numbers and len(arguments) == self._given:
            arguments += self._numbers  # those of the recorded call
        if planned_threads() != self._threads:
            raise Unfit("another number of threads")
        for generator, waits in self._waits:
            if generator.spare[1] != waits:
                raise Unfit("a normal sample waits in a random generator, or none does")
        if self._coming is not None:
            self._take()
        form = self.form
        try:
            frames = form.free.pop()
        except IndexError:
            frames = form.frames()
        try:
            made = frames.launch(*arguments)
            if made is None:
                self._complain(form.program, frames)
            if frames.words[native.PACKS]:
                for constant in frames.constants:
                    constant.renew(arguments)
        finally:
            form.free.append(frames)
        return made if self._plain else self._composed(made, arguments)  # type: ignore[no-any-return]

    def _take(self, wait: bool = False) -> None:
        """Run from now on what passes made of the program, if its kernels are there."""
        coming = self._coming
        made = coming.take(wait) if coming is not None else None
        if made is not None:
            self.form, self._coming = _Form(made), None

    def forget(self) -> None:
        """Give back the memory that replays have between them."""
        self.form = _Form(self.form.program)

    def _composed(self, made: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        fresh, results = iter(made), []
        for result in self.program.outputs:
            if result.operand is None:
                results.append(inputs[result.input or 0])
                continue
            buffer = self.program.buffers[result.operand.buffer]
            if buffer.kind == OUTPUT:
                results.append(next(fresh))
                continue
            layout, place = result.operand.layout, result.operand.offset // result.operand.layout.dtype.itemsize
            if buffer.input is not None:
                held = inputs[buffer.input]._storage
                place += inputs[buffer.input]._offset
            else:
                held = buffer.block()
            results.append(launch.tensor_from(held, place, layout))
        return tuple(results)

    def _complain(self, program: Program, frames: _Frames) -> None:
        unfit, failed = frames.words[native.UNFIT], frames.words[native.FAILED]
        if unfit:
            raise Unfit(_REASONS[unfit])
        step = program.steps[failed - 1]
        if failed - 1 <= frames.takes_back:
            raise Unfit("a kernel found bad data")
        raise RuntimeError(f"a kernel found bad data (code {frames.words[native.CODE]}): {str(step.plan).split(chr(10))[0]}")


class _Form:
    """A program as it is run, with the frames that nobody uses."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.free: list[_Frames] = []
        self._arena = _arranged(program)
        self._made = 0  # how many frames

    def frames(self) -> _Frames:
        """New ones."""
        made = _Frames(self.program, self._arena)
        self._made += 1
        return made

    @property
    def nbytes(self) -> int:
        """About how many bytes all frames have."""
        program = self.program
        contents = sum(len(b.content) for b in program.buffers if b.content is not None)
        scratch = max((_scratch_of(step.words) for step in program.steps), default=0)
        return max(1, self._made) * (self._arena[1] + scratch + contents + STEP_BYTES * len(program.steps))


def _arranged(program: Program) -> tuple[dict[int, int], int]:
    """Where fresh buffers lie in the arena, and its bytes."""
    touched = lifetimes(program.steps, len(program.buffers))
    fresh = [i for i, b in enumerate(program.buffers) if b.kind == FRESH]
    offsets, size = arrange([touched[i] for i in fresh], [program.buffers[i].size for i in fresh])
    return dict(zip(fresh, offsets)), size


def _scratch_of(words: bytes) -> int:
    """The bytes of working memory that a plan needs."""
    needed: int = struct.unpack_from("q", words, 8 * 5)[0]
    return needed


class _Frames:
    """The tables of a program, and the memory of one replay at a time."""

    def __init__(self, program: Program, arena: tuple[dict[int, int], int]) -> None:
        buffers, steps = program.buffers, program.steps
        self._kept: list[Any] = [program]
        self._packed: list[tuple[Any, Operand, int, int]] = []  # weights: how they are packed, and where their words are
        self.takes_back = -1  # the last of the steps whose complaint is taken back with all that was done before
        self._trials, self._quickest = 3, 1 << 62
        self._prepared = [prepared(program, step) for step in steps]
        places = self._places(program, *arena)
        uses: list[list[tuple[int, int]]] = [[] for _ in buffers]  # by buffer: words that hold an address in it, and how far
        pokes: list[list[int]] = [[] for _ in program.numbers]
        touched = lifetimes(steps, len(buffers))
        copies: dict[int, list[int]] = {}
        for i, b in enumerate(buffers):
            if b.content is not None and b.kind != CONSTANT:
                copies.setdefault(max(touched[i][0], 0), []).append(i)
        table = array("q")
        for at, step in enumerate(steps):
            for given in copies.pop(at, ()):
                table.extend(self._copy(given, buffers[given].content or b"", places, uses))
            table.extend([*self._step(step, places, uses, pokes), self._constant(at, step, places, uses)])
        for rest in copies.values():
            for given in rest:
                table.extend(self._copy(given, buffers[given].content or b"", places, uses))
        patches = array("q")
        spans = []
        for use in uses:
            spans.append((len(patches) // native.PATCH_WORDS, len(use)))
            for word, offset in use:
                patches.extend((word, offset))
        numbers = array("q")
        for poke in pokes:
            numbers.extend((len(patches) // native.PATCH_WORDS, len(poke)))
            for word in poke:
                patches.extend((word, 0))
        externals = self._externals(program, spans)
        outputs, number_of = array("q"), {}
        results = array("q")
        for result in program.outputs:
            if result.operand is None or buffers[result.operand.buffer].kind != OUTPUT:
                continue
            own = result.operand.buffer
            if own not in number_of:
                number_of[own] = len(number_of)
                outputs.extend((buffers[own].size, 0, 0, *spans[own], result.writes))
            place = result.operand.offset // result.operand.layout.dtype.itemsize
            self._kept.append(place)
            results.extend((number_of[own], id(self._kept[-1]), id(result.operand.layout)))
        saves = self._saves(program)
        head = array("q", bytes(8 * native.HEAD_WORDS))
        for word, value in (
            (native.STATE, state.ADDRESS),
            (native.EXTERNALS, self._table(externals)),
            (native.EXTERNAL_COUNT, len(externals) // native.EXTERNAL_WORDS),
            (native.OUTPUTS, self._table(outputs)),
            (native.OUTPUT_COUNT, len(number_of)),
            (native.STEPS, self._table(table)),
            (native.STEP_COUNT, len(table) // native.STEP_WORDS),
            (native.PATCHES, self._table(patches)),
            (native.RESULTS, self._table(results)),
            (native.RESULT_COUNT, len(results) // native.RESULT_WORDS),
            (native.PARALLEL, launch.addresses["fb_parallel"]),
            (native.NEW_BLOCK, launch.addresses["fb_new_block"]),
            (native.INFERENCE, launch.addresses["fb_inference"]),
            (native.GUARD, launch.addresses["fb_guard"]),
            (native.RELEASES, any(step.plan.release for step in steps)),
            (native.ARGUMENTS, len(program.inputs)),
            (native.LAYOUTS, self._table(array("q", [id(x.layout) for x in program.inputs]))),
            (native.NUMBERS, self._table(numbers)),
            (native.NUMBER_COUNT, len(program.numbers)),
            (native.SAVES, self._table(saves)),
            (native.SAVE_COUNT, len(saves) // native.SAVE_WORDS),
            (native.TAKEN_BACK, self.takes_back + 1),
        ):
            head[word] = int(value)
        self.words = (ctypes.c_int64 * native.HEAD_WORDS).from_address(self._table(head))
        self.constants = self._constants(program)
        self._watch(program)
        self._native = launch.new_function(_definition(), ctypes.addressof(self.words), self._kept)
        self.launch: Any = self._tried

    def _tried(self, *arguments: Any) -> Any:
        """The native call, one of the first times: finds out whether it is long, and so releases the lock."""
        start = time.perf_counter_ns()
        made = self._native(*arguments)
        self._trials -= 1
        self._quickest = min(self._quickest, time.perf_counter_ns() - start)
        if not self._trials:
            self.words[native.RELEASES] |= self._quickest > LONG
            self.launch = self._native
        return made

    def _table(self, words: array[int]) -> int:
        """Where the words lie from now on."""
        held = (ctypes.c_int64 * max(len(words), 1)).from_buffer_copy(words.tobytes() or bytes(8))
        self._kept.append(held)
        return ctypes.addressof(held)

    def _memory(self, size: int) -> int:
        """Memory that lives as long as the tables."""
        block = launch.new_storage(size)
        self._kept.append(block)
        return int(block.address)

    def _places(self, program: Program, offsets: dict[int, int], size: int) -> list[int]:
        """By buffer: where it lies, for what stays in its place; 0 for others."""
        places = [0] * len(program.buffers)
        self.arena_bytes = size
        base = self.arena = self._memory(size) if offsets else 0
        for i, offset in offsets.items():
            places[i] = base + offset
        for i, b in enumerate(program.buffers):
            if b.kind == CONSTANT:
                places[i] = self._memory(b.size)
                ctypes.memmove(places[i], b.content or b"", b.size)
        words = [step.words for step in program.steps] + [one.words for one in self._prepared if one is not None]
        needed = max(map(_scratch_of, words), default=0)
        self._scratch = self._memory(needed) if needed else 0
        return places

    def _copy(self, buffer: int, content: bytes, places: list[int], uses: list[list[tuple[int, int]]]) -> list[int]:
        """A step without phases that puts bytes from Python into a buffer."""
        source, word = self._memory(len(content)), self._table(array("q", [places[buffer]]))
        ctypes.memmove(source, content, len(content))
        uses[buffer].append((word, 0))
        frame = self._table(array("q", bytes(8 * 8)))
        return [frame + 8, 1, 0, 0, word, source, len(content), 0]

    def _step(self, step: Step, places: list[int], uses: list[list[tuple[int, int]]], pokes: list[list[int]]) -> list[int]:
        head = struct.unpack_from(f"{launcher.PLAN_WORDS_BEFORE_OPERANDS}q", step.words)
        n_out, n_in, n_phase, scratch, threads = head[1], head[2], head[4], head[5], head[8]
        frame = array("q", [0, 0, self._scratch if scratch else 0, 0, threads])
        moving = []
        for operand in step.operands:
            place = places[operand.buffer]
            if not place:
                moving.append((len(frame), operand.buffer, operand.offset))
            frame.append(place + operand.offset)
        lifted = []
        for kind, number in zip(step.plan.scalars, step.numbers):
            if number.__class__ is Lifted:
                if kind != "f":
                    raise NotImplementedError("a lifted number that is no float for its kernel")
                lifted.append((len(frame), number.index))
                frame.append(0)
            elif number.__class__ is Address:
                frame.append(number.generator.spare_address if number.spare else number.generator.state_address)
            elif kind == "i":
                frame.append(int(number))
            elif kind == "f":
                frame.extend(struct.unpack("q", struct.pack("d", number)))
            else:
                frame.extend(struct.unpack("2q", struct.pack("2d", complex(number).real, complex(number).imag)))
        base = self._table(frame)
        for at, buffer, offset in moving:
            uses[buffer].append((base + 8 * at, offset))
        for at, index in lifted:
            pokes[index].append(base + 8 * at)
        words, phases = id(step.words) + BYTES_DATA, array("q")
        first = launcher.PLAN_WORDS_BEFORE_OPERANDS + launcher.OUTPUT_WORDS * n_out + launcher.INPUT_WORDS * n_in
        for i in range(n_phase):
            kernel, total, grain, at = struct.unpack_from("4q", step.words, 8 * (first + launcher.PHASE_WORDS * i))
            phases.extend((kernel, total, grain, words + 8 * at))
        return [base + 8, threads, self._table(phases), n_phase, 0, 0, 0]

    def _constant(self, at: int, step: Step, places: list[int], uses: list[list[tuple[int, int]]]) -> int:
        """The words of a step's weight; 0 if it has none that may be packed already."""
        found = self._prepared[at]
        if found is None:
            return 0
        own = len(places)  # what is packed is one more buffer, whose address constants.py writes
        places.append(0)
        uses.append([])
        twin = Step(found.plan, found.words, (*step.operands, Operand(own, 0, found.plan.inputs[-1])), ())
        frame, _, phases, count, *_ = self._step(twin, places, uses, [])
        words = self._table(array("q", [0, 0, 0, 0, frame, phases, count]))
        self._kept.append(found)
        self._packed.append((found, step.operands[found.operand], words, uses[own][0][0]))
        return words

    def _constants(self, program: Program) -> list[Constant]:
        made = []
        for found, operand, address, place in self._packed:
            words = (ctypes.c_int64 * native.CONSTANT_WORDS).from_address(address)
            words[native.IN_EXTERNAL] = self._entries[operand.buffer]
            held = ctypes.c_int64.from_address(place)
            made.append(Constant(found, operand, program.buffers[operand.buffer], words, held, self.words))
        return made

    def _externals(self, program: Program, spans: list[tuple[int, int]]) -> array[int]:
        table: array[int] = array("q")
        self._entries: dict[int, int] = {}  # of buffers
        writes = {v.input: v.writes for v in program.versions if v.input is not None}
        others = [(v.block(), v.writes) for v in program.versions if v.block is not None]
        self._blocks: list[Any] = []
        for i, given in enumerate(program.inputs):
            if given.buffer is None:
                continue
            entry = len(table) // native.EXTERNAL_WORDS
            buffer = program.buffers[given.buffer]
            item = given.layout.dtype.itemsize
            if buffer.input == i:
                self._entries[given.buffer] = entry
                span = spans[given.buffer]
                table.extend((i, 0, item, buffer.low, buffer.high, 0, 0, *span, buffer.written, writes.get(i, 0), entry, 0, 1))
            else:
                leader = self._entries[given.buffer]
                table.extend((i, 0, item, 0, 0, 0, 0, 0, 0, 0, writes.get(i, 0), leader, given.offset, not given.own))
        for i, buffer in enumerate(program.buffers):
            if buffer.kind == KEPT or (buffer.kind == EXTERNAL and buffer.input is None):
                entry = len(table) // native.EXTERNAL_WORDS
                block = buffer.block if buffer.kind == KEPT else buffer.block()
                if block is None:
                    raise Unfit(_REASONS[native.GONE])
                grows = sum(n for held, n in others if held is block)
                others = [(held, n) for held, n in others if held is not block]
                grows += buffer.kind == KEPT
                self._entries[i] = entry
                table.extend((-1, id(block), 1, buffer.low, buffer.high, 0, 0, *spans[i], buffer.written, grows, entry, 0, 1))
        for held, n in others:
            if held is not None:
                entry = len(table) // native.EXTERNAL_WORDS
                table.extend((-1, id(held), 1, 0, 0, 0, 0, 0, 0, 0, n, entry, 0, 1))
                self._blocks.append(ref(held))
        return table

    def _watch(self, program: Program) -> None:
        """Note when a storage dies that the tables have the address of."""
        words = self.words

        def gone(_: Any) -> None:
            words[native.DEAD] = 1

        blocks = [held() for held in self._blocks]
        blocks += [b.block() for b in program.buffers if b.kind == EXTERNAL and b.input is None]
        self._blocks = [ref(held, gone) for held in blocks if held is not None]
        if len(self._blocks) != len(blocks):
            words[native.DEAD] = 1

    def _saves(self, program: Program) -> array[int]:
        """What is kept to be taken back: externals and generators that a step changes before, or while, one may find bad data."""
        last = max((i for i, step in enumerate(program.steps) if may_refuse(step)), default=-1)
        saved: dict[int, tuple[int, int]] = {}
        states: dict[int, int] = {}
        for step in program.steps[: last + 1]:
            for operand in step.written:
                buffer = program.buffers[operand.buffer]
                if buffer.kind == EXTERNAL:
                    saved[operand.buffer] = buffer.low, buffer.high
            for number in step.numbers:
                if number.__class__ is Address:
                    address = number.generator.spare_address if number.spare else number.generator.state_address
                    states[address] = SPARE_BYTES if number.spare else GENERATOR_BYTES
        table: array[int] = array("q")
        if sum(high - low for low, high in saved.values()) > MOST_SAVED:
            return table
        self.takes_back = last
        for buffer, (low, high) in saved.items():
            table.extend((self._entries[buffer], low, high - low, self._memory(high - low)))
        for address, size in states.items():
            table.extend((-1, address, size, self._memory(size)))
        return table


_definitions: list[int] = []


def _definition() -> int:
    if not _definitions:
        _definitions.append(launch.definition("replay", native.address()))
    return _definitions[0]
