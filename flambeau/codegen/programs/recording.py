"""The tape: what fb_launch and the doors of memory tell while a call is recorded, and the program that it makes.

It holds no tensor and no storage, only addresses, the serial numbers of memory, and weak references to storages. All that
changes or shows memory otherwise than by a launch is told too (runtime/memory.py: SHOWN, READ, MOVED, COUNTED, REBOUND); what a
program could not repeat refuses. Stands on program.py and the runtime; used by entry.py and by whoever records calls of its own.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import ref

from flambeau.base import rng
from flambeau.codegen.plan import Plan
from flambeau.codegen.programs.program import (
    CONSTANT,
    EXTERNAL,
    FRESH,
    KEPT,
    OUTPUT,
    Address,
    Buffer,
    Input,
    Lifted,
    Operand,
    Program,
    Refusal,
    Result,
    Step,
    Version,
)
from flambeau.codegen.runtime import memory, state
from flambeau.codegen.runtime.launch import bytes_spanned
from flambeau.codegen.runtime.launcher import INPUT_WORDS, OUTPUT_WORDS, PHASE_WORDS, PLAN_WORDS_BEFORE_OPERANDS, UNCOUNTED
from flambeau.codegen.runtime.threads import planned_threads

_HEAD = struct.Struct(f"{PLAN_WORDS_BEFORE_OPERANDS}q")


class _Memory:
    """What the tape knows of one memory: where it begins, whether it was there before, and what was done to it."""

    __slots__ = ("address", "size", "outer", "foreign", "shown", "content", "written", "low", "high", "blocks", "root", "index")

    def __init__(self, address: int, size: int, outer: bool, foreign: bool) -> None:
        self.address, self.size, self.outer, self.foreign = address, size, outer, foreign
        self.shown = foreign  # Python may have written to it
        self.content: bytes | None = None  # what Python wrote, once a step has read it
        self.written = False  # by a step
        self.low, self.high = 1 << 62, -(1 << 62)  # bytes that steps touch, from `address`
        self.blocks: dict[int, tuple[ref[Any], int]] = {}  # storages on it by identity, with their counts of writes before
        self.root: ref[Any] | None = None  # the storage that has it, where others are aliases
        self.index = -1

    def living(self) -> Any:
        """A storage on it that is still there, or None."""
        found = next((held for weak, _ in self.blocks.values() if (held := weak()) is not None), None)
        return self.root() if found is None and self.root is not None else found


class Launched(NamedTuple):
    """What the words of a launch say: its plan, how many results and operands it has, its flags and phases, and whether no kernel
    ran.
    """

    plan: Plan
    outputs: int
    inputs: int
    flags: int
    phases: int
    idle: bool

    @staticmethod
    def of(words: bytes) -> Launched:
        """Of the words that fb_launch tells."""
        _, n_out, n_in, _, n_phase, _, flags, _, _, plan_id = _HEAD.unpack_from(words)
        at = PLAN_WORDS_BEFORE_OPERANDS + OUTPUT_WORDS * n_out + INPUT_WORDS * n_in
        idle = not any(struct.unpack_from("q", words, 8 * (at + PHASE_WORDS * i + 1))[0] > 0 for i in range(n_phase))
        return Launched(ctypes.cast(plan_id, ctypes.py_object).value, n_out, n_in, flags, n_phase, idle)


class Busy(Exception):
    """Another call is being recorded; there is one tape at a time."""


class Tape:
    """Listens to this thread's launches from `begin` to `finish` (or `end`)."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.reason: str | None = None
        self._memories: dict[int, _Memory] = {}  # by serial number
        self._launches: list[tuple[Plan, bytes, list[tuple[int, int, Any]], tuple[Any, ...]]] = []
        self._lifted: dict[int, tuple[int, float]] = {}  # by identity of the number that operators are handed
        self._generators: dict[int, tuple[Any, float | None]] = {}
        self._reading = 0
        self._thread = threading.get_ident()
        self._first = state.words[state.SERIAL] + 1  # the first memory that is made in the call
        self._inputs: list[tuple[int, int, Any]] = []
        for x in inputs:
            self.add_input(x)
        self._threads = planned_threads()

    def add_input(self, x: Any) -> None:
        """A further input, behind the others: a tensor that was there before the call."""
        self._inputs.append((id(x._storage), x._offset, x._layout))
        if x._storage.size_class != memory.META:
            self._memory_of(x._storage)

    # ---- listening
    def begin(self) -> None:
        """Listen from now on. Raises Busy."""
        if state.words[state.TAPE]:
            raise Busy
        self._failures, self._uses = state.words[state.FAILURES], rng.uses[0]
        self._waits = {id(g): g.spare[1] for g in (rng.default_generator, *rng.by_address.values())}  # before the call
        state.words[state.TAPE] = id(self)

    def end(self) -> None:
        """Listen no longer."""
        if state.words[state.TAPE] == id(self):
            state.words[state.TAPE] = 0

    def refuse(self, reason: str) -> None:
        """There will be no program: the tape misses something."""
        if self.reason is None:
            self.reason = reason
            self._launches.clear()

    def lift(self, number: float) -> float:
        """The same number, as an input of the program when an operator is handed the object that this returns."""
        known = number * 1.0  # an object of its own
        self._lifted[id(known)] = len(self._lifted), known
        return known

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Values that are read in this block are the caller's matter."""
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1

    def __call__(self, *event: Any) -> None:
        """What the runtime calls: for a launch with words, arguments and results, for all else with its kind and an object."""
        if self.reason is not None:
            return
        try:
            own = threading.get_ident() == self._thread
            if len(event) == 3:
                self._launched(*event) if own else self._launched_elsewhere(*event)
            elif own:
                self._noted(*event)
        except Exception as error:
            self.refuse(f"the recorder failed: {error!r}")

    # ---- what happened
    def _launched(self, words: bytes, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        plan, n_out, n_in, flags, phases, idle = Launched.of(words)
        tensors = (*results, *arguments[n_out : n_out + n_in])
        if not phases and any(x._storage.size_class == memory.META for x in tensors):
            return  # nothing is computed of tensors without data
        layouts = (*plan.outputs, *plan.inputs)
        found = []
        for i, (tensor, layout) in enumerate(zip(tensors, layouts)):
            block = tensor._storage
            given = i < n_out and not flags & UNCOUNTED and (arguments[i] is not None or block.serial < self._first)
            held = self._memory_of(block, given)
            found.append((held, block.address - held.address + tensor._offset * layout.dtype.itemsize, layout))
        if idle:
            return
        written = [held for held, _, _ in found[:n_out]]
        for held, _, layout in found[n_out:]:
            if held.content is None or held not in written:  # else it was read before it was written to
                self._read(held, layout.numel)
        for held, _, _ in found[:n_out]:
            if held.foreign:
                self.refuse("an operator writes to memory of Python's that was made in the call")
            held.written = True
        for held, offset, layout in found:
            held.low, held.high = min(held.low, offset), max(held.high, offset + bytes_spanned(layout))
        numbers = tuple(map(self._number, arguments[n_out + n_in :]))
        serials = [x._storage.serial for x in tensors]
        self._launches.append((plan, words, [(s, o, y) for s, (_, o, y) in zip(serials, found)], numbers))

    def _read(self, held: _Memory, spanned: int) -> None:
        """A step reads memory, or is the first to write to it: what Python wrote there is a constant."""
        if held.outer or held.written:
            return
        if not held.shown:
            if spanned:
                self.refuse("memory is read that nothing wrote")
            return
        content = ctypes.string_at(held.address, held.size)
        if held.content is None:
            held.content = content
        elif held.content != content:
            self.refuse("Python writes to memory between operators that read it")

    def _number(self, number: Any) -> Any:
        if id(number) in self._lifted:
            return Lifted(self._lifted[id(number)][0])
        if number.__class__ is int:
            generator = rng.by_address.get(number)
            if generator is not None:
                spare = number == generator.spare_address
                known = self._generators.get(id(generator), (generator, None))
                if spare and known[1] is not None:
                    self.refuse("a second operator that draws normal samples one by one")
                if spare and id(generator) not in self._waits:
                    self.refuse("a random generator that was first used in the call")
                self._generators[id(generator)] = generator, self._waits.get(id(generator)) if spare else known[1]
                return Address(generator, spare)
            return number
        if number.__class__ in (float, bool, complex):
            return number
        if isinstance(number, (int, float, complex)) or hasattr(number, "dtype"):
            return number
        self.refuse(f"a number of type {type(number).__name__}")
        return number

    def _launched_elsewhere(self, words: bytes, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        if any(x._storage.serial in self._memories for x in results):
            self.refuse("another thread writes to memory that the call uses")

    def _noted(self, kind: int, thing: Any) -> None:
        if kind in (memory.COUNTED, memory.OVERWRITTEN):
            if thing.size_class != memory.META:
                self._read(self._memory_of(thing), 0)
            return
        block = thing if kind not in (memory.READ, memory.REBOUND) else thing._storage
        if block.size_class == memory.META:
            return
        held = self._memory_of(block)
        if kind == memory.REBOUND:
            if held.outer:
                self.refuse("a tensor that was there before gets other memory or another layout")
        elif kind == memory.MOVED:
            self.refuse("memory is copied or exchanged outside of operators")
        elif held.outer or held.written:
            if kind == memory.READ and self._reading:
                return
            self.refuse("a value is read" if kind == memory.READ else "memory is shown to Python or to NumPy")
        else:
            held.shown = True

    def _memory_of(self, block: Any, counted: bool = False) -> _Memory:
        """The record of a storage's memory. counted: its count of writes was just increased."""
        held = self._memories.get(block.serial)
        if held is None:
            foreign = block.size_class == memory.OWNED_ELSEWHERE
            outer = block.serial < self._first
            held = self._memories[block.serial] = _Memory(block.address, block.capacity, outer, foreign and not outer)
        elif block.address < held.address or block.address + block.capacity > held.address + held.size:
            if not held.outer:
                self.refuse("a part of memory that is larger than what was known of it")
            held.size = max(held.size, block.address + block.capacity - held.address)
        known = held.blocks.get(id(block))
        if known is None or known[0]() is not block:
            held.blocks[id(block)] = ref(block), block.writes - counted
            if type(block.owner) is type(block) and held.root is None:
                held.root = ref(block.owner)
        return held

    # ---- the program
    def finish(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Program | Refusal:
        """End, and make the program of which `outputs`, tensors, are the results. inputs: as they were given."""
        self.end()
        if self.reason is None:
            self._check(inputs, outputs)
        if self.reason is not None:
            return Refusal(self.reason)
        program = self._program(inputs, outputs)
        return Refusal(self.reason) if self.reason is not None else program

    def _check(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if state.words[state.FAILURES] != self._failures:
            self.refuse("an operator raised an exception")
        if rng.uses[0] != self._uses:
            self.refuse("Python reads or sets the state of a random generator")
        if [(id(x._storage), x._offset, x._layout) for x in inputs] != self._inputs:
            self.refuse("an input was given other memory or another layout")
        for x in outputs:
            known = any(x is y for y in inputs)
            if not known and (x._storage.size_class == memory.META or x._layout.flavor is not None):
                self.refuse("a result without memory of its own, or of a class of its own")
        touched = [m for m in self._memories.values() if m.outer and m.low < m.high]
        touched.sort(key=lambda m: m.address + m.low)
        end, written = 0, False
        for m in touched:
            if m.address + m.low < end and (written or m.written):
                self.refuse("two storages, one of which is written to, over the same memory")
            if m.address + m.high >= end:
                end, written = m.address + m.high, m.written
            written |= m.written

    def _program(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Program | Refusal:
        results = {x._storage.serial for x in outputs}
        first_input: dict[int, int] = {}
        for i, x in enumerate(inputs):
            first_input.setdefault(x._storage.serial, i)
        buffers: list[Buffer] = []
        anchors: dict[int, int] = {}  # where a buffer is found, in bytes from the memory's address
        for x in outputs:
            held = self._memory_of(x._storage)
            if not held.outer:
                self._read(held, x._layout.numel)  # of a constant that no step has read
                if held.foreign:
                    self.refuse("a result over memory of Python's")
        for serial, held in self._memories.items():
            anchors[serial] = 0
            wanted = held.low <= held.high or serial in results or serial in first_input
            if not wanted:
                continue
            held.index = len(buffers)
            low, high = (held.low, held.high) if held.low <= held.high else (0, 0)
            if serial in first_input:
                x = inputs[first_input[serial]]
                anchors[serial] = shift = x._storage.address + x._offset * x._layout.dtype.itemsize - held.address
                spanned = bytes_spanned(x._layout)
                low, high = (min(low - shift, 0), max(high - shift, spanned)) if low < high else (0, spanned)
                buffers.append(Buffer(EXTERNAL, low, high, held.size, held.written, first_input[serial]))
                continue
            block = held.living()
            if held.outer:
                if block is None:
                    self.refuse("memory is read that was there before the call and is gone after it")
                    return Refusal("")
                anchors[serial] = block.address - held.address
                shift = anchors[serial]
                buffers.append(Buffer(EXTERNAL, low - shift, high - shift, block.capacity, held.written, None, ref(block)))
            elif serial in results:
                buffers.append(Buffer(OUTPUT, low, high, held.size, held.written, None, None, held.content))
            elif held.content is not None and not held.written:
                buffers.append(Buffer(CONSTANT, low, high, held.size, False, None, None, held.content))
            elif block is not None:
                buffers.append(Buffer(KEPT, low, high, held.size, held.written, None, block, held.content))
            else:
                buffers.append(Buffer(FRESH, low, high, held.size, held.written, None, None, held.content))

        def operand(serial: int, offset: int, layout: Any) -> Operand:
            return Operand(self._memories[serial].index, offset - anchors[serial], layout)

        steps = tuple(Step(plan, words, tuple(operand(*x) for x in xs), numbers) for plan, words, xs, numbers in self._launches)
        given = []
        for i, x in enumerate(inputs):
            held = self._memories.get(x._storage.serial)
            if held is None:
                given.append(Input(x._layout, None))
                continue
            place = x._storage.address + x._offset * x._layout.dtype.itemsize - held.address - anchors[x._storage.serial]
            first = first_input[x._storage.serial]
            given.append(Input(x._layout, held.index, place, i == first or inputs[first]._storage is not x._storage))
        made = []
        for x in outputs:
            same = next((i for i, y in enumerate(inputs) if y is x), None)
            if same is not None:
                made.append(Result(None, same))
                continue
            held = self._memories[x._storage.serial]
            place = x._storage.address - held.address + x._offset * x._layout.dtype.itemsize
            made.append(Result(operand(x._storage.serial, place, x._layout), None, x._storage.writes))
        return Program(
            tuple(given),
            tuple(buffers),
            steps,
            tuple(value for _, value in sorted(self._lifted.values())),
            tuple(made),
            tuple(self._versions(inputs)),
            tuple(self._generators.values()),
            self._threads,
        )

    def _versions(self, inputs: Sequence[Any]) -> Iterator[Version]:
        """By how much the counts of storages that were there before have grown."""
        places = {}
        for i, x in enumerate(inputs):
            places.setdefault(id(x._storage), i)
        for held in self._memories.values():
            if held.outer:
                for key, (weak, before) in held.blocks.items():
                    block = weak()
                    if block is not None and block.writes != before:
                        yield Version(places.get(key), None if key in places else weak, block.writes - before)
