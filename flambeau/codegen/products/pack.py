"""Packing matrices into panels: `width` lanes side by side per step along k, so that register tiles read memory in order.

Three kernels by stride class: lanes contiguous (masked vector copies), k contiguous (square transposes), neither. Narrow dtypes
are widened on the way; bfloat16 and short integers pair two steps of k per lane for the CPU's dot products. Stands on kernel.py.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.element_type import TILE_SIDE, Kind, half_word, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, transpose_rows, vector
from flambeau.codegen.llvm import BRIEF

# `lanes` rows or columns in panels of `step` (at most `width`), `k` steps in blocks of `block`, to `destination` in slot `into`
CONSTANTS = (
    "slot", "offset", "batch1", "batch0_stride", "batch1_stride", "lane_stride", "k_stride", "lanes", "step", "panels",
    "depth", "k", "block", "destination", "into",
)  # fmt: skip


NARROW = 8  # lanes of a panel up to which rows are interleaved in registers
TOGETHER = 8  # narrow panels that are packed together from lanes side by side: a step of them is several cache lines


def stride_class(lane_stride: int, k_stride: int, lanes: int, depth: int) -> str:
    if lane_stride == 1 or lanes == 1:
        return "lane"
    return "depth" if k_stride == 1 or depth == 1 else "any"


def panels_together(kind: Kind, width: int, order: str) -> int:
    """How many panels one unit of work of `pack_kernel` packs."""
    return TOGETHER if order == "lane" and width < kind.lanes and not kind.pair else 1


def pack_units(kind: Kind, width: int, order: str, panels: int) -> int:
    """Units of work of `pack_kernel` for so many panels."""
    return -(-panels // panels_together(kind, width, order))


def interleaved(f: Kernel, rows: list[Value], lanes: int) -> list[Value]:
    """The elements of vectors taken in turn, one of each: as many vectors.

    Streams of elements are merged a few at a time; `size` elements of each lie together already.
    """
    streams, size = [[row] for row in rows], 1
    while len(streams) > 1:
        ways = next(n for n in range(2, len(streams) + 1) if len(streams) % n == 0)
        groups = [streams[first : first + ways] for first in range(0, len(streams), ways)]
        streams = [_merged(f, group, size, lanes) for group in groups]
        size *= ways
    return streams[0]


def _merged(f: Kernel, streams: list[list[Value]], size: int, lanes: int) -> list[Value]:
    """The vectors of a stream that takes `size` elements of each of the streams in turn."""
    made = []
    for start in range(0, len(streams) * len(streams[0]) * lanes, lanes):
        wanted = []  # of each lane: the vector that has it, and which of its lanes it is
        for at in range(start, start + lanes):
            turn, within = divmod(at, size)
            number, lane = divmod(turn // len(streams) * size + within, lanes)
            wanted.append(((turn % len(streams), number), lane))
        first, *others = sorted({source for source, _ in wanted})
        whole, order = streams[first[0]][first[1]], [lane for _, lane in wanted]
        for stream, number in others:
            order = [lanes + lane if source == (stream, number) else at for (source, lane), at in zip(wanted, order, strict=True)]
            whole, order = f.shuffle(whole, streams[stream][number], order), list(range(lanes))
        made.append(whole)
    return made


def pack_function(name: str = "pack", internal: bool = True) -> Kernel:
    """void pack(source, lane_stride, k_stride, lanes, depth, destination): a panel, or several; depth counts elements along k."""
    words = ("lane_stride", "k_stride", "lanes", "depth")
    arguments = [("source", "ptr"), *((word, "i64") for word in words), ("destination", "ptr")]
    return Kernel(name, arguments, internal=internal)


class _Panel:
    """Emits the packing of a panel: `full` whole steps of `width` lanes. Past the edge the last lane is packed again, or zeros:
    that is multiplied as well, and rubbish may take a processor far longer.
    """

    def __init__(self, kind: Kind, width: int, name: str, internal: bool = True) -> None:
        f = self.f = pack_function(name, internal)
        self.kind, self.width, self.chunk, self.per = kind, width, kind.lanes, 2 if kind.pair else 1
        self.source, self.target, self.full = f["source"], f["destination"], f["depth"] // self.per

    def at(self, lane: Value, k: Value | int) -> Value:
        """Where an element lies."""
        f = self.f
        return f.at(self.kind.storage, self.source, f.minimum(lane, f["lanes"] - 1) * f["lane_stride"] + k * f["k_stride"])

    def from_lanes(self) -> None:
        """Lanes lie side by side: copy vectors of them."""
        f, kind, width, per = self.f, self.kind, self.width, self.per
        counts = {start: min(self.chunk, width - start) for start in range(0, width, self.chunk)}
        masks = {start: f.mask(f["lanes"] - start, count) for start, count in counts.items()}
        with f.loop(0, self.full) as step:
            taken = [f.at(kind.storage, self.source, (step * per + h) * f["k_stride"]) for h in range(per)]
            goal = f.at(kind.item, self.target, step * width)
            for start, count in counts.items():
                rows = [f.masked_load(vector(kind.storage, count), f.at(kind.storage, row, start), masks[start]) for row in taken]
                if kind.pair:
                    low, high = (half_word(f, kind, row) for row in rows)
                    merged = f.shuffle(low, high, [h * count + i for i in range(count) for h in (0, 1)])
                    value = f.convert(merged, vector("i32", count), "bitcast")
                else:
                    value = widen(f, kind, rows[0])
                f.store(value, goal, start, align=4 if width % self.chunk else vector_bytes())

    def together(self, panels: int) -> None:
        """Lanes lie side by side, a few to each of the panels: step by step through all of them, if all are there."""
        f, kind, width = self.f, self.kind, self.width
        few, size = vector(kind.storage, width), BYTES[kind.storage]
        with f.branches(f["lanes"].equals(panels * width)) as otherwise:
            with f.loop(0, self.full) as step:
                row = f.at(kind.storage, self.source, step * f["k_stride"])
                for i in range(panels):
                    value = widen(f, kind, f.load(few, row, i * width, align=size))
                    f.store(value, self.target, (self.full * i + step) * width, align=BYTES[kind.item])
            otherwise()
            with f.loop(0, f["lanes"], width) as first:
                left = f.mask(f["lanes"] - first, width)
                with f.loop(0, self.full) as step:
                    row = f.at(kind.storage, self.source, step * f["k_stride"] + first)
                    value = widen(f, kind, f.masked_load(few, row, left, size))
                    f.store(value, self.target, first * self.full + step * width, align=BYTES[kind.item])

    def interleave(self) -> None:
        """Steps lie side by side, of few lanes: a vector of each lane at a time."""
        f, kind, width, chunk = self.f, self.kind, self.width, self.chunk
        rows = [self.at(f.i64(lane), 0) for lane in range(width)]
        whole = self.full & -chunk
        with f.loop(0, whole, chunk) as step:
            taken = [widen(f, kind, f.load(vector(kind.storage, chunk), row, step, align=BYTES[kind.storage])) for row in rows]
            for i, value in enumerate(interleaved(f, taken, chunk)):
                f.store(value, self.target, step * width + i * chunk, align=BYTES[kind.item])
        self.one_by_one(whole)

    def transpose(self) -> None:
        """Steps lie side by side, of many lanes: as many steps of a vector's lanes at a time as 16 bytes hold."""
        f, kind, width, chunk, item = self.f, self.kind, self.width, self.chunk, self.kind.item
        count = 16 // BYTES[item]
        whole = self.full & -count
        rows = f.stack("ptr", chunk)

        def piece(row: int) -> Value:
            place = f.at(kind.storage, f.load("ptr", rows, row), step * self.per)
            loaded = f.load(vector(kind.storage, count * self.per), place, align=BYTES[kind.storage])
            if kind.pair:
                return f.convert(half_word(f, kind, loaded), vector("i32", count), "bitcast")
            return widen(f, kind, loaded)

        with f.loop(0, width, chunk) as start:
            with f.loop(0, chunk) as row:
                f.store(self.at(start + row, 0), rows, row)
            used = f.mask(width - start, chunk)
            with f.loop(0, whole, count) as step:
                for i, value in enumerate(transpose_rows(f, item, chunk, piece)):
                    goal = f.at(item, self.target, (step + i) * width + start)
                    if width % chunk:
                        f.masked_store(value, goal, used, BYTES[item])
                    else:
                        f.store(value, goal, align=vector_bytes())
        self.one_by_one(whole)

    def one_by_one(self, first: Value) -> None:
        """Steps from `first` on, an element at a time."""
        f, kind = self.f, self.kind
        with f.loop(first, self.full) as step, f.loop(0, self.width) as lane:
            elements = [f.load(kind.storage, self.at(lane, step * self.per + h)) for h in range(self.per)]
            if kind.pair:
                low, high = (f.convert(half_word(f, kind, x), "i32", "zext") for x in elements)
                value = low | (high << 16)
            else:
                value = widen(f, kind, elements[0])
            f.store(value, self.target, step * self.width + lane)

    def end_pairs(self) -> None:
        """An odd last element is paired with zero, and tiles are filled up with zeros."""
        f, width = self.f, self.width
        with f.when((f["depth"] % 2).differs(0)), f.loop(0, width) as lane:
            value = f.load(self.kind.storage, self.at(lane, self.full * 2))
            f.store(f.convert(half_word(f, self.kind, value), "i32", "zext"), self.target, self.full * width + lane)
        if self.kind.tiles:
            steps, end = f.ceiling_division(f["depth"], 2), f.ceiling_division(f["depth"], 2 * TILE_SIDE) * TILE_SIDE
            with f.loop(steps * width, end * width, self.chunk) as place:
                f.store(f.value(0, vector(self.kind.item, self.chunk)), self.target, place, align=vector_bytes())


def pack_panel(kind: Kind, width: int, order: str, name: str = "pack", together: int = 1, internal: bool = True) -> Kernel:
    """The `pack_function` of so many panels `width` wide from an operand of that stride class."""
    panel = _Panel(kind, width, name, internal)
    if together > 1:
        panel.together(together)
    elif order == "lane":
        panel.from_lanes()
    elif order == "depth" and width <= NARROW and not kind.pair:
        panel.interleave()
    elif order == "depth":
        panel.transpose()
    else:
        panel.one_by_one(panel.f.i64(0))
    if kind.pair:
        panel.end_pairs()
    return panel.f


def packed_of(pack: Kernel, kind: Kind, width: int, together: int = 1) -> str:
    """The packing kernel of a phase: its range is batches x blocks of k x panels, of which a call of `pack` takes `together`."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    source, target = f.slot(c["slot"]), f.at("i8", f.slot(c["into"]), c["destination"])
    blocks = f.maximum(f.ceiling_division(c["k"], c["block"]), 1)
    per = 2 if kind.pair else 1
    with f.loop(f["begin"], f["end"]) as index:
        units = f.ceiling_division(c["panels"], together) if together > 1 else c["panels"]
        panel, rest = index.unsigned_rem(units) * together, index.unsigned_div(units)
        block, batch = rest.unsigned_rem(blocks), rest.unsigned_div(blocks)
        first, lane = block * c["block"], panel * c["step"]
        steps = f.minimum(c["block"], c["k"] - first)
        place = batch.unsigned_div(c["batch1"]) * c["batch0_stride"] + batch.unsigned_rem(c["batch1"]) * c["batch1_stride"]
        place = place + c["offset"] + lane * c["lane_stride"] + first * per * c["k_stride"]
        goal = batch * c["panels"] * c["k"] * width + first * c["panels"] * width + panel * steps * width
        f.call(
            "void",
            "pack",
            f.at(kind.storage, source, place),
            c["lane_stride"],
            c["k_stride"],
            f.minimum(c["step"] * together, c["lanes"] - lane),
            f.minimum(c["block"] * per, c["depth"] - first * per),
            f.at(kind.item, target, goal),
            declare=False,
        )
    return module(pack, f)


@compiled(BRIEF)
def pack_kernel(kind: Kind, width: int, order: str) -> str:
    together = panels_together(kind, width, order)
    text = packed_of(pack_panel(kind, width, order, together=together), kind, width, together)
    return text


@compiled(BRIEF, "pack")
def pack_address(kind: Kind, width: int, order: str) -> str:
    """Address of the `pack_panel`, for kernels that pack panels where they need them."""
    return module(pack_panel(kind, width, order, internal=False))
