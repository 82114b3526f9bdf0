"""The kernel that multiplies: its range is batches x tiles of rows x tiles of columns of C, which are made of register tiles.

Stands on micro.py, matrix.py and epilogue.py; gemm.py plans with it.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Constants, Kernel
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.products import matrix_unit as matrix_unit
from flambeau.codegen.products.epilogue import Epilogue, epilogue
from flambeau.codegen.products.matrix import OPERANDS, base_address, finish_tile

CONSTANTS = (
    "m",
    "n",
    "k",
    "tiles_m",
    "tiles_n",
    "before_m",
    "before_n",
    "tile_rows",
    "tile_columns",
    "height",
    "block",
    *OPERANDS,
    "a_panels",
    "b_panels",
    "a_place",
    "b_place",
    "slots",
    "slot_elements",
    "micro",
    "edge",
    "edge_columns",
    "pack",
    "depth",
)

#: Where the panels of B come from: a phase has packed them; each task packs one when it needs it, or all of its own beforehand;
#: or B is read where it lies.
PACKED, ONE, ALL, IN_PLACE = "packed", "one", "all", "in place"


class Variant(NamedTuple):
    """What a compute kernel is specialised on."""

    kind: Kind
    out: Kind
    vectors: int
    a_packed: bool
    b: str
    finish: Epilogue


class _Block(NamedTuple):
    """Steps along k that are multiplied together: the first, how many; whether they are the first and the last of all."""

    start: Value
    depth: Value
    first: Value
    last: Value


class _Panel(NamedTuple):
    """Columns of C, and where B's are: the number of the panel in its task, the first column, how many, their address."""

    number: Value
    j: Value
    columns: Value
    b: Value


class _Tile:
    """Emits the work on a tile of C, number `index` of the kernel's range."""

    def __init__(self, f: Kernel, c: Constants, v: Variant, index: Value) -> None:
        self.f, self.c, self.v, self.width = f, c, v, v.vectors * v.kind.lanes
        tile_n = index.unsigned_div(c["before_n"]).unsigned_rem(c["tiles_n"])
        tile_m = index.unsigned_div(c["before_m"]).unsigned_rem(c["tiles_m"])
        batch = index.unsigned_div(c["tiles_m"] * c["tiles_n"])
        outer, inner = batch.unsigned_div(c["batch1"]), batch.unsigned_rem(c["batch1"])
        self.i0, self.j0 = tile_m * c["tile_rows"], tile_n * c["tile_columns"]
        self.i1, self.j1 = f.minimum(self.i0 + c["tile_rows"], c["m"]), f.minimum(self.j0 + c["tile_columns"], c["n"])
        self.down = f.ceiling_division(self.i1 - self.i0, c["height"])
        self.across = f.ceiling_division(self.j1 - self.j0, self.width)
        self.blocks = f.maximum(f.ceiling_division(c["k"], c["block"]), 1)
        self.slots = f.at(v.kind.compute, f.scratch(c["slots"]), f["thread"] * c["slot_elements"])
        self.target = base_address(f, c, "c", v.out.storage, outer, inner)
        self.addend = base_address(f, c, "d", v.out.storage, outer, inner) if v.finish.addend else self.target

        def base(letter: str, packed: bool) -> Value:
            if not packed:
                return base_address(f, c, letter, v.kind.storage, outer, inner)
            panels = f.at("i8", f.slot(c[letter + "_slot"]), c[letter + "_place"])
            return f.at(v.kind.item, panels, outer * c[letter + "0"] + inner * c[letter + "1"])

        self.a, self.b = base("a", v.a_packed), base("b", v.b == PACKED)
        with f.loop(0, self.blocks) as number:
            start = number * c["block"]
            first, last = f.convert(number.equals(0), "i64", "zext"), (number + 1).equals(self.blocks)
            self._block(_Block(start, f.minimum(c["block"], c["k"] - start), first, last))

    def _block(self, block: _Block) -> None:
        """Columns by columns; where all panels are in the first-level cache, row by row, so that C is written in order."""
        f = self.f
        if self.v.b == ALL:
            with f.loop(0, self.across) as number:
                self._pack(block, self._panel(block, number))
            with f.loop(0, self.down) as row, f.loop(0, self.across) as number:
                self._multiply(block, row, self._panel(block, number))
            return
        with f.loop(0, self.across) as number:
            panel = self._panel(block, number)
            if self.v.b == ONE:
                self._pack(block, panel)
            with f.loop(0, self.down) as row:
                self._multiply(block, row, panel)

    def _panel(self, block: _Block, number: Value) -> _Panel:
        f, c, kind = self.f, self.c, self.v.kind
        j = self.j0 + number * self.width
        if self.v.b == PACKED:
            b = f.at(kind.item, self.b, block.start * c["b_panels"] * self.width + j * block.depth)
        elif self.v.b == IN_PLACE:
            b = f.at(kind.storage, self.b, block.start * c["b_step"] + j)
        else:
            panel = c["block"] * self.width
            b = f.at(kind.item, f.scratch(c["b_place"]), f["thread"] * (c["b_panels"] * panel))
            b = f.at(kind.item, b, number * panel) if self.v.b == ALL else b
        return _Panel(number, j, f.minimum(self.j1 - j, self.width), b)

    def _pack(self, block: _Block, panel: _Panel) -> None:
        f, c, kind = self.f, self.c, self.v.kind
        per = 2 if kind.pair else 1
        start = block.start * per
        source = f.at(kind.storage, self.b, start * c["b_step"] + panel.j * c["b_column"])
        elements = f.minimum(c["block"] * per, c["depth"] - start)
        f.call_pointer("void", f.pointer(c["pack"]), source, c["b_column"], c["b_step"], panel.columns, elements, panel.b)

    def _multiply(self, block: _Block, row: Value, panel: _Panel) -> None:
        """A register tile."""
        f, c, v, kind = self.f, self.c, self.v, self.v.kind
        height, compute, (number, j, columns, b) = c["height"], kind.compute, panel
        i = self.i0 + row * height
        rows = f.minimum(self.i1 - i, height)
        if v.a_packed:
            a = f.at(kind.item, self.a, block.start * c["a_panels"] * height + i * block.depth)
        else:
            a = f.at(kind.storage, self.a, i * c["a_row"] + block.start * c["a_step"])
        goal = f.at(v.out.storage, self.target, i * c["c_row"] + j * c["c_column"])
        place = f.select(self.blocks.equals(1), f.i64(0), row * self.across + number)
        tile, stride, finish = f.at(compute, self.slots, place * (height * self.width)), f.i64(self.width), block.last
        if v.finish.plain and v.out.storage == compute:  # whole tiles are added up where they belong
            direct = columns.equals(self.width) & rows.equals(height)
            tile, stride = f.select(direct, goal, tile), f.select(direct, c["c_row"], stride)
            finish = f.select(direct, f.value(0, "i1"), finish)
        arguments = [block.depth, a, b, tile, stride, block.first]
        if not kind.tiles:
            arguments += [c["a_row"], c["a_step"], c["b_step"], columns]
        if not v.a_packed:
            arguments.append(rows)
        micro = c["micro"]
        if v.b == IN_PLACE:
            # each of the first calls asks for a line of each row of the next panel
            lane = f.select(row < v.vectors, row * kind.lanes + self.width, f.i64(0))
            arguments.append(f.at(kind.storage, b, lane))
        else:
            micro = f.select(columns <= c["edge_columns"], c["edge"], micro)
        f.call_pointer("void", f.pointer(micro), *arguments)
        with f.when(finish):
            d = tile
            if v.finish.addend is not None:
                d = f.at(v.out.storage, self.addend, i * c["d_row"] + j * c["d_column"])
            finish_tile(f, c, tile, rows, columns, goal, d)


@compiled(BRIEF)
def tile_kernel(v: Variant) -> str:
    """Address of the kernel, whose constants are CONSTANTS."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    if v.kind.tiles:
        matrix_unit.configure(f)
    with f.loop(f["begin"], f["end"]) as index:
        _Tile(f, c, v, index)
    if v.kind.tiles:
        matrix_unit.release(f)
    return module(epilogue(v.kind, v.out, v.finish, v.vectors * v.kind.lanes), f)
