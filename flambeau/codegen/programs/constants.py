"""Constants of programs: weights that are packed once, for as long as they stay as they are.

A step that packs an operand which the program doesn't write to gets a second frame, whose kernels find it packed. `fb_replay`
takes that while the weight's storage has the mark that it had when it was packed (runtime.weight_cache says what a mark tells);
else the step packs as ever, and `renew` looks afterwards whether the weight is worth being kept now. What is packed is shared
with eager calls and other threads, and counts among what the cache bounds. Stands on native.py and weight_cache; used by replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.codegen.programs import native
from flambeau.codegen.programs.program import EXTERNAL, Buffer, Operand, Program, Step
from flambeau.codegen.runtime import launch, weight_cache
from flambeau.codegen.targets.cpu import CPU

__all__ = ["Constant", "prepared"]


def prepared(program: Program, step: Step) -> weight_cache.Prepared | None:
    """The form of a step that finds its weight packed, if it has one and that is worth being kept."""
    halves = CPU.prepacked(step.plan)
    if halves is None or not weight_cache.pays(halves, weight_cache.LEAST_WORK_REPLAYED):
        return None
    buffer = program.buffers[step.operands[halves.operand].buffer]
    return weight_cache.Prepared(step.plan, halves) if buffer.kind == EXTERNAL and not buffer.written else None


class Constant:
    """A weight of a step: where its words are, and what of it is packed at the moment.

    words: a constant's, as native.py has them; place: the word of the frame that has the address of what is packed; head: that of
    the program's tables.
    """

    def __init__(
        self, prepared: weight_cache.Prepared, operand: Operand, buffer: Buffer, words: Any, place: Any, head: Any
    ) -> None:
        self.prepared, self.operand, self.buffer = prepared, operand, buffer
        self.words, self.place, self.head = words, place, head
        self.packed: Any = None

    def forget(self, mark: int) -> None:
        """What was packed of a weight that had this mark isn't kept any more."""
        if self.words[native.MARK] != mark:  # something else was packed since
            return
        self.words[native.MARK] = 0
        if not self.head[native.RUNS]:  # else `renew` lets go of it, after the replay that may be reading it
            self.packed = None

    def is_valid(self, held: Any) -> bool:
        """Whether the weight's storage has the bytes that are packed."""
        words = self.words
        mark = words[native.MARK]
        if mark <= 0 or held.mark != mark or held.writes != words[native.WRITES_THEN]:
            return False
        return not words[native.ALIASED] or bool(held.owner.mark == mark)

    def renew(self, inputs: Sequence[Any]) -> None:
        """Have the weight packed for the next replay, if it stays as it is."""
        held = self.buffer.block() if self.buffer.input is None else inputs[self.buffer.input]._storage
        if held is None or self.is_valid(held):
            return
        words = self.words
        words[native.MARK], self.packed = 0, None
        place = self.operand.offset // self.operand.layout.dtype.itemsize
        if self.buffer.input is not None:
            place += inputs[self.buffer.input]._offset
        kept = self.prepared.find(launch.tensor_from(held, place, self.operand.layout))
        if kept is None:
            return
        self.packed = kept.packed
        self.place.value = kept.packed._storage.address
        words[native.WRITES_THEN], words[native.ALIASED] = kept.writes, kept.aliased
        kept.dropped.add(self)
        words[native.MARK] = kept.mark
