"""Recurrent layers over many time steps: a task is some rows of the batch, which need nothing of each other, for all steps.

The recurrent weight is packed into panels once. In each step a task multiplies the panels of some units with its rows by the
register tiles of products, and has the cell's function (gates.py) turn the tile of every gate, which is in the cache, into new
states: a gate's columns are panels of their own, so that tiles of one place belong to the same units. The gradient goes the other
way: the product with the gates' gradients of the step that follows, then the cell's. Where the batch has too few rows for all
threads, tasks are some of the units and a phase does one step. Stands on products.micro, products.pack and gates.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.matrix import SCRATCH, SERIAL_WORK
from flambeau.codegen.products.micro import register_tile, steps_together, tile_addresses
from flambeau.codegen.products.pack import pack_kernel, stride_class
from flambeau.codegen.recurrent.cells import CELLS
from flambeau.codegen.recurrent.gates import BACKWARD, FORWARD, backward_gates, forward_gates
from flambeau.codegen.runtime.threads import planned_threads

CONSTANTS = (
    "start", "stop", "steps", "time", "way", "batch", "size", "rows", "units", "parts", "padded", "height", "tiles", "slice",
    "tile_part", "micro", "edge", "edge_columns", "gates", "given_time", "given_row",
    "inputs", "input_time", "input_row", "input_place",
)  # fmt: skip
LEAST_ROWS = 4  # that a task has, if the batch has them: fewer take no less time, since all panels are read for them
SUMS = 8  # of a register tile, at least: a processor begins as many multiplications before the first is done
TILE_COST = 0.25  # what a tile costs besides its rows, in rows
TILE_BYTES = 48 << 10  # of the tiles of all gates that a task holds
JOINED_ROWS = 16  # of a task, from which the panels of the input's weight may be read in every step
PACKED_BYTES = 64 << 10  # of panels that a task packs


class Steps(NamedTuple):
    """Time steps of a layer: how many, rows of the batch, units; strides of the recurrent weight, and of the projected input or
    the gradient of the outputs along time and rows. reverse: the last step comes first. inputs: features of the input, if it is
    not projected yet, whose strides are `given` then; and those of its weight.
    """

    mode: str
    count: int
    batch: int
    size: int
    weight: tuple[int, int]
    given: tuple[int, int]
    reverse: bool
    inputs: int = 0
    input_weight: tuple[int, int] = (0, 0)


class _Division(NamedTuple):
    """What a task is: rows of the batch and units; whether a phase is one step; and the register tile."""

    rows: int
    units: int
    stepwise: bool
    height: int
    vectors: int


def _up(a: int, b: int) -> int:
    return -(-a // b)


def divided(kind: Kind, steps: Steps) -> _Division:
    """The division of the work that takes least time."""
    threads, batch, size = planned_threads(), steps.batch, steps.size
    gates = CELLS[steps.mode].gates
    row_work = gates * size * size
    tasks = min(threads, _up(batch, LEAST_ROWS))
    by_rows = max(_up(batch, tasks), LEAST_ROWS) * row_work
    by_units = max(batch, LEAST_ROWS) * row_work // threads + SERIAL_WORK
    stepwise = threads > 1 and by_units < by_rows
    most, vectors = register_tile(batch if stepwise else _up(batch, tasks), size, kind.lanes)
    units = size
    if stepwise:
        vectors = max(1, min(vectors, size // (kind.lanes * threads)))
        groups = _up(size, vectors * kind.lanes)
        parts = min(groups, 2 * threads)
        units = _up(groups, parts) * vectors * kind.lanes
        tasks = min(_up(threads, parts), _up(batch, LEAST_ROWS))
    tasks = max(tasks, _up(batch * gates * vectors * kind.lanes * BYTES[kind.compute], TILE_BYTES))
    rows = min(batch, max(_up(batch, tasks), min(LEAST_ROWS, batch)))
    height = min(range(most, 0, -1), key=lambda height: _up(rows, height) * (max(height * vectors, SUMS) / vectors + TILE_COST))
    return _Division(rows, units, stepwise, height, vectors)


class _Layer:
    """Emits a kernel: for each task, step and panel of units the body that a subclass has."""

    def __init__(self, kind: Kind, mode: str, vectors: int) -> None:
        self.kind, self.cell = kind, CELLS[mode]
        self.width = vectors * kind.lanes
        f = self.f = Kernel()
        c = self.c = f.constants(CONSTANTS)
        with f.loop(f["begin"], f["end"]) as index:
            self.row = index.unsigned_div(c["parts"]) * c["rows"]
            self.rows = f.minimum(c["rows"], c["batch"] - self.row)
            first = index.unsigned_rem(c["parts"]) * c["units"]
            last = f.minimum(first + c["units"], c["size"])
            self.tiles = f.at(kind.compute, f.scratch(c["tiles"]), f["thread"] * c["slice"])
            with f.loop(c["start"], c["stop"]) as self.step:
                f.leave_if_ended()
                with f.loop(first, last, self.width) as self.unit:
                    self.units = f.minimum(last - self.unit, self.width)
                    self.body()

    def body(self) -> None:
        raise NotImplementedError

    def time(self, step: Value) -> Value:
        return self.c["time"] + self.c["way"] * step

    def states(self, slot: int, time: Value | None = None, first_unit: bool = True, parts: int = 1) -> Value:
        """Where the rows begin, with this panel's units or all, of `parts` numbers a unit: at a time, or of what has none."""
        f, c = self.f, self.c
        row = self.row if time is None else time * c["batch"] + self.row
        place = row * (c["size"] * parts)
        return f.at(self.kind.storage, f.buffer(slot), place + self.unit if first_unit else place)

    def multiply(self, a: Value, a_row: Value, panels: Value, part: int, depth: Value, adds: bool = False) -> None:
        """The tile of a part of the panels: the product with `depth` numbers of each row of `a`; or it is added to the tile."""
        f, c, kind = self.f, self.c, self.kind
        panel = f.at(kind.item, f.scratch(panels), (c["padded"] * part + self.unit) * depth)
        tile = f.at(kind.compute, self.tiles, c["tile_part"] * part)
        micro = f.pointer(f.select(self.units <= c["edge_columns"], c["edge"], c["micro"]))
        with f.loop(0, self.rows, c["height"]) as i:
            goal = f.at(kind.compute, tile, i * self.width)
            words = (f.i64(self.width), f.i64(not adds), a_row, f.i64(1), f.i64(0), self.units, self.rows - i)
            f.call_pointer("void", micro, depth, f.at(kind.storage, a, i * a_row), panel, goal, *words)

    def call_gates(
        self, tile: Value, tile_row: Value, time: Value, given: Value, operands: dict[str, Value], names: tuple
    ) -> None:
        """The cell's function of this panel's units; an operand that it doesn't look at may be any."""
        f, c = self.f, self.c
        place = time * c["given_time"] + self.row * c["given_row"] + self.unit
        known = {**operands, "tile": tile, "given": f.at(self.kind.storage, given, place)}
        words = (self.rows, self.units, c["size"], tile_row, c["tile_part"], c["given_row"])
        f.call_pointer("void", f.pointer(c["gates"]), *words, *[known.get(name, tile) for name in names])


class _Forward(_Layer):
    """Slots: outputs, last cell or cells, kept values; projected input, hidden, cell, weight, [bias]; or, joined, input, hidden,
    cell, weight, bias, the input's weight: the bias is what the projected input is else, the same for all rows and steps.
    """

    def __init__(self, kind: Kind, mode: str, vectors: int, keep: bool, biased: bool, joined: bool) -> None:
        self.keep, self.biased, self.joined = keep, biased, joined
        super().__init__(kind, mode, vectors)

    def body(self) -> None:
        f, c, cell = self.f, self.c, self.cell
        time, before, begins = self.time(self.step), self.time(self.step - 1), self.step.equals(0)
        a = f.select(begins, self.states(4, None, False), self.states(0, before, False))
        for part in range(cell.gates):
            if self.joined:
                place = time * c["input_time"] + self.row * c["input_row"]
                x = f.at(self.kind.storage, f.buffer(3), place)
                self.multiply(x, c["input_row"], c["input_place"], part, c["inputs"])
            self.multiply(a, c["size"], f.i64(0), part, c["size"], adds=self.joined)
        operands = {"hidden": f.select(begins, self.states(4), self.states(0, before)), "new_hidden": self.states(0, time)}
        if cell.has_cell:
            kept_before, here = (self.states(1, before), self.states(1, time)) if self.keep else (self.states(1),) * 2
            operands |= {"cell": f.select(begins, self.states(5), kept_before), "new_cell": here}
        if self.keep and cell.kept:
            operands["kept"] = self.states(2, time, parts=cell.kept)
        if self.biased:
            operands["bias"] = f.at(self.kind.storage, f.buffer(7), self.unit)
        self.call_gates(self.tiles, f.i64(self.width), time, f.buffer(7 if self.joined else 3), operands, FORWARD)


class _Backward(_Layer):
    """Slots: gradients of the projected input, of the product, of the hidden and cell states, what reaches the hidden state past
    the product; the gradient of the outputs, outputs, kept values, cells, hidden, cell, weight.
    """

    def body(self) -> None:
        f, c, cell, size, kind = self.f, self.c, self.cell, self.c["size"], self.kind
        time, before, after = (self.time(self.step + i) for i in (0, 1, -1))
        begins = self.step.equals(0)
        product = 0 if cell.adds else 1
        with f.when(self.step > 0):
            wide = size * cell.gates
            self.multiply(self.states(product, after, False, cell.gates), wide, f.i64(0), 0, wide)
        with f.branches(self.step < c["steps"]) as otherwise:
            tile, tile_row = f.select(begins, self.states(2), self.tiles), f.select(begins, size, f.i64(self.width))
            ends = (self.step + 1).equals(c["steps"])
            operands = {
                "kept": self.states(7, time, parts=cell.kept) if cell.kept else tile,
                "hidden": f.select(ends, self.states(9), self.states(6, before)),
                "new_hidden": self.states(6, time),
                "direct": self.states(4),
                "gates": self.states(0, time, parts=cell.gates),
                "product": self.states(1, time, parts=cell.gates),
            }
            if cell.has_cell:
                of_before = f.select(ends, self.states(10), self.states(8, before))
                operands |= {"cell": of_before, "new_cell": self.states(8, time), "grad_cell": self.states(3)}
            self.call_gates(tile, tile_row, time, f.buffer(5), operands, BACKWARD)
            otherwise()
            goal = self.states(2)
            with f.loop(0, self.rows) as i, f.loop(0, self.units) as j:
                value = f.load(kind.compute, self.tiles, i * self.width + j)
                f.store(value, goal, i * size + j)


@compiled(BRIEF)
def forward_kernel(kind: Kind, mode: str, vectors: int, keep: bool, biased: bool, joined: bool) -> str:
    """The range is blocks of rows x parts of the units."""
    return module(_Forward(kind, mode, vectors, keep, biased, joined).f)


@compiled(BRIEF)
def backward_kernel(kind: Kind, mode: str, vectors: int) -> str:
    """The range is blocks of rows x parts of the units."""
    return module(_Backward(kind, mode, vectors).f)


class _Packed(NamedTuple):
    """A weight to be packed: its slot, how many matrices, from one to the next, strides from unit to unit and along what is added
    up, how much that is.
    """

    slot: int
    matrices: int
    apart: int
    lane: int
    step: int
    depth: int

    def phase(self, kind: Kind, size: int, width: int, place: int) -> tuple[Phase, int]:
        """The phase that packs panels `width` wide at a place of the scratch memory, and where they end."""
        slot, matrices, apart, lane, step, depth = self
        panels, item = _up(size, width), BYTES[kind.compute]
        words = (slot, 0, matrices, 0, apart, lane, step, size, width, panels, depth, depth, depth, place, SCRATCH)
        grain = max(1, PACKED_BYTES // (width * depth * item))
        kernel = pack_kernel(kind, width, stride_class(lane, step, size, depth))
        end = place + (matrices * panels * width * depth * item + 127) // 64 * 64
        return Phase(kernel, matrices * panels, grain, words), end


def joins_input(mode: str, batch: int) -> bool:
    """Whether the product with the input is made in each step, too: this says nothing of threads, since sums follow from it."""
    return CELLS[mode].adds and batch >= JOINED_ROWS


def _phases(
    kind: Kind, steps: Steps, kernel_of: Callable, gates: object, packed: list[_Packed], forwards: bool
) -> tuple[list[Phase], int]:
    """The phases that pack weights, the recurrent one first, and one that takes all turns, or one for each."""
    rows, units, stepwise, height, vectors = divided(kind, steps)
    size, width, item = steps.size, vectors * kind.lanes, BYTES[kind.compute]
    phases, places = [], [0]
    for weight in packed:
        phase, end = weight.phase(kind, size, width, places[-1])
        phases.append(phase)
        places.append(end)
    work = rows * min(units, size) * sum(weight.depth for weight in packed)
    tile_part = _up(rows, height) * height * width
    slice_elements = (packed[0].matrices * tile_part * item + 63) // 64 * 64 // item
    parts, blocks = _up(size, units), _up(steps.batch, rows)
    way, count = (1 if steps.reverse != forwards else -1), steps.count + (not forwards)
    micro, edge, edge_columns = tile_addresses(kind, height, vectors, "rows", size, steps_together(work * steps.count))
    tasks, joined = blocks * parts, steps.inputs > 0
    together = tasks if work * tasks * (1 if stepwise else count) <= SERIAL_WORK else 1
    for start, stop in [(i, i + 1) for i in range(count)] if stepwise else [(0, count)]:
        constants = (
            start,
            stop,
            steps.count,
            0 if way > 0 else steps.count - 1,
            way,
            steps.batch,
            size,
            rows,
            units,
            parts,
            _up(size, width) * width,
            height,
            places[-1],
            slice_elements,
            tile_part,
            micro,
            edge,
            edge_columns,
            gates,
            *((0, 0) if joined else steps.given),
            steps.inputs,
            *steps.given,
            places[1],
        )
        phases.append(Phase(kernel_of(vectors), tasks, together, constants))
    return phases, places[-1] + slice_elements * item * planned_threads()


def forward_phases(dtype: DType, steps: Steps, keep: bool, biased: bool) -> tuple[list[Phase], int]:
    """Phases for the slots of `_Forward`, and the scratch bytes they need."""
    kind, cell, size, joined = kind_of(dtype), CELLS[steps.mode], steps.size, steps.inputs > 0
    packed = [
        _Packed(slot, cell.gates, size * row, row, column, depth)
        for slot, (row, column), depth in ((6, steps.weight, size), (8, steps.input_weight, steps.inputs))
        if depth
    ]

    def kernel_of(vectors: int) -> object:
        return forward_kernel(kind, steps.mode, vectors, keep, biased, joined)

    return _phases(kind, steps, kernel_of, forward_gates(kind, steps.mode, biased, keep), packed, True)


def backward_phases(dtype: DType, steps: Steps) -> tuple[list[Phase], int]:
    """Phases for the slots of `_Backward`, and the scratch bytes they need."""
    kind, cell = kind_of(dtype), CELLS[steps.mode]
    row, column = steps.weight
    packed = [_Packed(11, 1, 0, column, row, steps.size * cell.gates)]
    return _phases(
        kind, steps, lambda vectors: backward_kernel(kind, steps.mode, vectors), backward_gates(kind, steps.mode), packed, False
    )
