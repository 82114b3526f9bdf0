"""Gathers and scatters as a step of plans; move.py lowers it for the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flambeau.base.layout import Layout
from flambeau.codegen.gather_scatter.move import Move, phases
from flambeau.codegen.plan import Phase, Slots
from flambeau.codegen.targets.cpu import CPU


class Moves(NamedTuple):
    """Moves one after the other, between operands of these layouts (outputs first)."""

    moves: Sequence[Move]
    operands: Sequence[Layout]

    @property
    def reads(self) -> Slots:
        sources = [(m.other if m.write else m.place).slot for m in self.moves]
        return tuple(dict.fromkeys([*sources, *(i.buffer.slot for m in self.moves for i in m.indices)]))

    @property
    def writes(self) -> Slots:
        return tuple(dict.fromkeys((m.place if m.write else m.other).slot for m in self.moves))

    def __str__(self) -> str:
        return (
            " and ".join(
                f"{'scatter' if m.write else 'gather'}{f' by {m.combine}' if m.combine else ''} of {list(m.sizes)}"
                for m in self.moves
            )
            or "no move"
        )


@CPU.lowers(Moves)
def _lowered(moves: Sequence[Move], operands: Sequence[Layout]) -> tuple[list[Phase], int]:
    if any(layout.device.type == "meta" for layout in operands):  # one that is read: what it would be tells nothing
        return [], 0
    return phases(moves, operands), 0
