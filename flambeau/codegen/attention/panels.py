"""Panels of a head's operands, packed by the task that multiplies them, so that they are still in its cache.

Stands on products.pack; used by the kernels of this folder.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.kinds import Kind
from flambeau.codegen.products.pack import pack_panel


def panels_of(extent: int, width: int) -> int:
    """How many panels `width` wide cover an extent."""
    return -(-extent // width)


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
            f.call("void", name, f.at(kind.storage, source, first * strides[0]), *strides, f.minimum(lanes - first, self.panel),
                   steps, f.at(kind.compute, goal, first * steps), declare=False)
