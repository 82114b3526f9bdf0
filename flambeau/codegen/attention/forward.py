"""The attention kernel: blocks of rows of softmax(Q K^T * scale + mask) V, which never leave the cache.

Keys and values are packed into panels once, shared by all rows of a head. A task is a head, or a block of its rows where there
are few heads: the register tiles of the contraction template make its scores, each row is masked and turned into exponentials
in place, and tiles over the values' panels make the result, divided by the row's sum as it is stored. Stands on products.micro,
panels.py and scores.py; ops/nn/attention.py runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.attention.decode import few_phases, is_few
from flambeau.codegen.attention.panels import Packer, block_of, packed_bytes, packing, panels_of, tile_of
from flambeau.codegen.attention.scores import Attention, Place, Rows, softmax_address
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind, kind_of, narrow
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import bits_of
from flambeau.codegen.products.micro import micro_address, steps_together
from flambeau.codegen.products.pack import stride_class
from flambeau.codegen.runtime.threads import planned_threads

CONSTANTS = (
    "heads", "rows", "columns", "depth", "width", "block", "row_step", "padded", "q_n", "q_h", "q_row", "q_step", "m_n",
    "m_h", "m_row", "m_step", "k_panels", "k_place", "v_panels", "v_place", "own_place", "slice", "scale",
    "score_tile", "value_tile", "softmax", "k_n", "k_h", "k_row", "k_step", "v_n", "v_h", "v_row", "v_step",
)  # fmt: skip
BLOCK_BYTES = 192 << 10  # scores of a block of rows
HEADS = 4  # to each thread, from which a head's rows are one task
DEPTH = 512  # steps along the keys of one tile of the result


@dataclass
class Block:
    """A unit of work: rows [first, first + count) of the queries of one head of one sample, and how many keys they see."""

    plane: Value
    first: Value
    count: Value
    columns: Value


class Forward:
    """The kernel of attention: for each block of rows the scores, their exponentials, and the sums of values these weigh.

    orders: how keys and values lie, if a task takes a head's rows and packs both; else they are packed already, and it takes a
    block of rows.
    """

    def __init__(self, kind: Kind, vectors: int, masked: str | None, causal: bool, orders: tuple[str, str] | None) -> None:
        self.kind, self.causal = kind, causal
        self.panel = vectors * kind.lanes
        f = self.f = Kernel()
        c = self.c = f.constants(CONSTANTS)
        self.rows = Rows(f, c, kind, "softmax", masked, 5)
        self.packer = Packer(f, kind, self.panel)
        own = f.scratch(c["own_place"] + f["thread"] * c["slice"])
        keys, values = c["k_panels"] * c["depth"] * self.panel, c["v_panels"] * c["columns"] * self.panel
        own_values = f.at(kind.compute, own, keys)
        self.scores = own if orders is None else f.at(kind.compute, own_values, values)
        self.sums = f.at(kind.compute, self.scores, c["block"] * c["padded"])
        self.result = f.at(kind.compute, self.sums, (c["block"] + 15) & -16)
        self.blocks = f.ceiling_division(c["rows"], c["block"])
        with f.loop(f["begin"], f["end"]) as index:
            if orders is None:
                plane, number = index.unsigned_div(self.blocks), index.unsigned_rem(self.blocks)
                # a triangle's long rows first: the threads then finish together
                number = self.blocks - 1 - number if causal else number
                all_keys = f.at(kind.compute, f.scratch(c["k_place"]), plane * keys)
                all_values = f.at(kind.compute, f.scratch(c["v_place"]), plane * values)
                self.block(plane, number, all_keys, all_values)
            else:
                self.pack(index, orders, own, own_values)
                with f.loop(0, self.blocks) as number:
                    self.block(index, number, own, own_values)

    def pack(self, plane: Value, orders: tuple[str, str], keys: Value, values: Value) -> None:
        """The keys and values of a head into panels."""
        f, c = self.f, self.c
        n, h = plane.unsigned_div(c["heads"]), plane.unsigned_rem(c["heads"])
        source = f.at(self.kind.storage, f.buffer(3), n * c["k_n"] + h * c["k_h"])
        self.packer.pack(orders[0], source, (c["k_row"], c["k_step"]), c["columns"], c["depth"], keys)
        source = f.at(self.kind.storage, f.buffer(4), n * c["v_n"] + h * c["v_h"])
        self.packer.pack(orders[1], source, (c["v_step"], c["v_row"]), c["width"], c["columns"], values)

    def block(self, plane: Value, number: Value, keys: Value, values: Value) -> None:
        f, c, kind = self.f, self.c, self.kind
        first = number * c["block"]
        count = f.minimum(c["block"], c["rows"] - first)
        n, h = plane.unsigned_div(c["heads"]), plane.unsigned_rem(c["heads"])
        query = f.at(kind.storage, f.buffer(2), n * c["q_n"] + h * c["q_h"] + first * c["q_row"])
        columns = f.minimum(c["columns"], first + count) if self.causal else c["columns"]
        block = Block(plane, first, count, columns)
        self.score(block, query, keys)
        logarithms = f.at(kind.compute, f.buffer(1), plane * c["rows"] + first)
        self.rows.call(Place(n, h, first), self.scores, count, columns, self.sums, logarithms)
        target = f.at(kind.storage, f.buffer(0), (plane * c["rows"] + first) * c["width"])
        with f.loop(0, c["width"], self.panel) as j:
            self.weigh(block, values, j)
            self.store(block, target, j)

    def score(self, block: Block, query: Value, keys: Value) -> None:
        """The products of queries and keys."""
        f, c, compute = self.f, self.c, self.kind.compute
        with f.loop(0, block.columns, self.panel) as j, f.loop(0, block.count, c["row_step"]) as i:
            f.call_pointer(
                "void",
                f.pointer(c["score_tile"]),
                c["depth"],
                f.at(self.kind.storage, query, i * c["q_row"]),
                f.at(compute, keys, j * c["depth"]),
                f.at(compute, self.scores, i * c["padded"] + j),
                c["padded"],
                f.i64(1),
                c["q_row"],
                c["q_step"],
                f.i64(0),
                f.i64(self.panel),
                block.count - i,
            )

    def weigh(self, block: Block, values: Value, j: Value) -> None:
        """The products of exponentials and a panel of values."""
        f, c, compute, panel = self.f, self.c, self.kind.compute, self.panel
        with f.loop(0, block.columns, DEPTH) as k, f.loop(0, block.count, c["row_step"]) as i:
            f.call_pointer(
                "void",
                f.pointer(c["value_tile"]),
                f.minimum(block.columns - k, DEPTH),
                f.at(compute, self.scores, i * c["padded"] + k),
                f.at(compute, values, j * c["columns"] + k * panel),
                f.at(compute, self.result, i * panel),
                f.i64(panel),
                f.convert(k.equals(0), "i64", "zext"),
                c["padded"],
                f.i64(1),
                f.i64(0),
                f.i64(panel),
                block.count - i,
            )

    def store(self, block: Block, target: Value, j: Value) -> None:
        """A panel of results, divided by the sums of their rows."""
        f, c, kind, lanes = self.f, self.c, self.kind, self.kind.lanes
        with f.loop(0, block.count) as i:
            factor = f.splat(f.load(kind.compute, self.sums, i), lanes)
            for part in range(0, self.panel, lanes):
                left = c["width"] - j - part
                with f.when(left > 0):
                    place = f.at(kind.compute, self.result, i * self.panel + part)
                    value = narrow(f, kind, f.load(vector(kind.compute, lanes), place, align=BYTES[kind.compute]) * factor)
                    goal = f.at(kind.storage, target, i * c["width"] + j + part)
                    f.masked_store(value, goal, f.mask(left, lanes), BYTES[kind.storage])


@compiled(BRIEF)
def attention_kernel(kind: Kind, vectors: int, masked: str | None, causal: bool, orders: tuple[str, str] | None) -> str:
    """The range is batches x heads, and x blocks of rows without `orders`. Slots: out, logarithms of the rows' sums, q, k, v,
    [mask].
    """
    made = Forward(kind, vectors, masked, causal, orders)
    return module(*made.packer.functions, made.f)


def attention_phases(dtype: DType, a: Attention, scale: float) -> tuple[list[Phase], int]:
    """Phases for slots (out, logarithms, query, key, value, [mask]) and the scratch bytes they need."""
    kind = kind_of(dtype)
    if is_few(kind, a):
        return few_phases(kind, a, scale)
    threads = planned_threads()
    whole = kind_of("float64" if kind.compute == "double" else "float32")
    size = BYTES[kind.compute]
    most, vectors = tile_of(a, kind)
    panel = vectors * kind.lanes
    padded = panels_of(a.columns, panel) * panel
    block = block_of(a, most, padded * size, BLOCK_BYTES)
    planes, blocks = a.batch * a.heads, panels_of(a.rows, block)
    by_head = blocks == 1 or planes >= HEADS * threads
    softmax = softmax_address(kind, a.masked, a.causal)
    phases: list[Phase] = []
    scratch, places, orders = 0, [], []
    for slot, strides, lane, step, lanes, steps in (
        (3, a.key, a.key[2], a.key[3], a.columns, a.depth),
        (4, a.value, a.value[3], a.value[2], a.width, a.columns),
    ):
        places.append((panels_of(lanes, panel), scratch))
        orders.append(stride_class(lane, step, lanes, steps))
        if not by_head:
            phases.append(packing(kind, panel, slot, strides, a.heads, planes, lane, step, lanes, steps, scratch))
            scratch += packed_bytes(kind, panel, planes, lanes, steps)
    packed = (padded * a.depth + panels_of(a.width, panel) * panel * a.columns) if by_head else 0
    slice_bytes = ((packed + block * padded + block + 32 + block * panel) * size + 127) // 64 * 64
    together = steps_together(a.work)
    words = (
        a.heads,
        a.rows,
        a.columns,
        a.depth,
        a.width,
        block,
        most,
        padded,
        *a.query,
        *(a.mask or (0, 0, 0, 0)),
        *places[0],
        *places[1],
        scratch,
        slice_bytes,
        bits_of(scale, kind),
        micro_address(kind, most, vectors, "rows" if a.query[3] == 1 else "strided", True, together=together),
        micro_address(whole, most, vectors, "rows", True, together=together),
        softmax,
        *a.key,
        *a.value,
    )
    tasks, rows = (planes, a.rows) if by_head else (planes * blocks, block)
    kernel = attention_kernel(kind, vectors, a.masked, a.causal, (orders[0], orders[1]) if by_head else None)
    phases.append(Phase(kernel, tasks, max(1, 200_000 // max(rows * a.columns * a.depth, 1)), words))
    return phases, scratch + slice_bytes * max(threads, 1)
