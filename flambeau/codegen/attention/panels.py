"""Panels of a head's operands: packed by the task that multiplies them, so that they are still in its cache, or by a phase.

Stands on products.pack; used by the kernels of this folder, and for distances.
"""

from __future__ import annotations

from flambeau.codegen.attention.scores import Attention
from flambeau.codegen.builder import Value
from flambeau.codegen.element_type import Kind
from flambeau.codegen.kernel import BYTES, Kernel
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.matrix import SCRATCH
from flambeau.codegen.products.micro import register_tile
from flambeau.codegen.products.pack import pack_kernel, pack_panel, pack_units, stride_class

BLOCK_ROWS = 112  # of scores, at most


def panels_of(extent: int, width: int) -> int:
    """How many panels `width` wide cover an extent."""
    return -(-extent // width)


def tile_of(a: Attention, kind: Kind) -> tuple[int, int]:
    """Rows and vectors of the register tile of all products of an attention."""
    return register_tile(a.rows, min(a.width, a.columns), kind.lanes)


def block_of(a: Attention, most: int, row_bytes: int, block_bytes: int) -> int:
    """Rows of a block: whole tiles of `most`, whose scores take at most so many bytes, unless one tile takes more."""
    return max(1, min(BLOCK_ROWS // most, block_bytes // (row_bytes * most), -(-a.rows // most))) * most


class Packer:
    """Emits the packing of operands into panels `panel` wide; `functions` are what the module has to hold for it."""

    def __init__(self, f: Kernel, kind: Kind, panel: int) -> None:
        self.f, self.kind, self.panel = f, kind, panel
        self._packs: dict[str, Kernel] = {}

    @property
    def functions(self) -> list[Kernel]:
        return list(self._packs.values())

    def pack(self, order: str, source: Value, strides: tuple[Value, Value], lanes: Value, steps: Value, goal: Value) -> None:
        """Pack `lanes` rows or columns of `steps` elements, whose strides are (from lane to lane, from step to step).

        order: the stride class of these, as products.pack has it.
        """
        f, kind = self.f, self.kind
        name = f"pack_{order}"
        if order not in self._packs:
            self._packs[order] = pack_panel(kind, self.panel, order, name)
        with f.loop(0, lanes, self.panel) as first:
            f.call(
                "void",
                name,
                f.at(kind.storage, source, first * strides[0]),
                *strides,
                f.minimum(lanes - first, self.panel),
                steps,
                f.at(kind.compute, goal, first * steps),
                declare=False,
            )


def packing(
    kind: Kind,
    panel: int,
    slot: int,
    strides: tuple[int, int, int, int],
    heads: int,
    planes: int,
    lane: int,
    step: int,
    lanes: int,
    steps: int,
    place: int,
) -> Phase:
    """The phase that packs an operand's heads into panels at byte `place` of the scratch: `lanes` rows or columns `lane` apart
    side by side, their `steps` elements `step` apart one after the other.
    """
    panels = panels_of(lanes, panel)
    words = (slot, 0, heads, strides[0], strides[1], lane, step, lanes, panel, panels, steps, steps, steps, place, SCRATCH)
    order = stride_class(lane, step, lanes, steps)
    total = planes * pack_units(kind, panel, order, panels)
    kernel = pack_kernel(kind, panel, order)
    return Phase(kernel, total, max(1, min(total, 65536 // (panel * steps) + 1)), words)


def packed_bytes(kind: Kind, panel: int, planes: int, lanes: int, steps: int) -> int:
    """The scratch that `packing` fills."""
    return (planes * panels_of(lanes, panel) * panel * steps * BYTES[kind.compute] + 127) // 64 * 64
