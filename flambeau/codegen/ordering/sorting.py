"""Sorting and selection: rows by radix or insertion, one long row by sorted chunks and parallel merges, the k best by
threshold.

An element becomes a word: its key, an unsigned integer of the same order (NaN last, -0 equal to 0, inverted for descending),
in the high half, and its position in the low half. Words differ, so any sort of them is stable. Stands on builder, launch and
jit; used by ops.sorting.sort.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen.builder import Function, Value, Variable, kernel, module
from flambeau.codegen.element_type import kind_of, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import INDEXED, LIGHT
from flambeau.codegen.ordering.compact import element_type
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered

INSERTION = 48  # rows up to this length are sorted by insertion
LONG = 1 << 16  # rows from this length are cut among threads when there are few of them
BLOCK = 64  # elements that topk looks at together
LANES = 16  # elements that become words together
STRETCH = 1 << 18  # elements between two looks whether the job is to end
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


def word_type(dtype: DType) -> str:
    return "i128" if dtype.itemsize == 8 else "i64"


def word_bytes(dtype: DType) -> int:
    return 16 if dtype.itemsize == 8 else 8


def sort_key(f: Function, dtype: DType, descending: bool, x: Value) -> Value:
    """The sorting key of an element (or a vector of them) given as an integer of its size; same type."""
    type, bits = x.type, 8 * dtype.itemsize
    if dtype.is_floating_point:
        infinity = _INFINITY.get(dtype.name)
        if infinity is None:
            raise NotImplementedError(f"\"sorting_kernel_method_name\" not implemented for '{dtype.scalar_name}'")
        magnitude = x & ((1 << (bits - 1)) - 1)
        sign = f.emit(type, f"ashr {type} {x.name}, {f.value(bits - 1, type).name}")
        key = f.select(magnitude.equals(0), f.value(0, type), x) ^ (
            f.select(magnitude.equals(0), f.value(0, type), sign) | -(1 << (bits - 1))
        )
        key = f.select(magnitude > infinity, f.value(-1, type), key)
    elif dtype.is_signed:
        key = x ^ -(1 << (bits - 1))
    else:
        key = x
    return key ^ -1 if descending else key


def _element(f: Function, dtype: DType, descending: bool, word: Value) -> tuple[Value, Value | None]:
    """(the element of a word, as an integer of its size; whether that is a guess, because the key forgot a zero's
    sign or a NaN's bits)"""
    type, bits = f"i{8 * dtype.itemsize}", 8 * dtype.itemsize
    key = f.convert(word >> (64 if word.type == "i128" else 32), type, "trunc")
    key = key ^ -1 if descending else key
    sign = -(1 << (bits - 1))
    if not dtype.is_floating_point:
        return (key ^ sign if dtype.is_signed else key), None
    element = f.select(key < 0, key ^ sign, key ^ -1)
    unsure = f.emit("i1", f"or i1 {key.equals(sign).name}, {key.equals(-1).name}")
    return element, unsure


def _word(f: Function, dtype: DType, key: Value, position: Value) -> Value:
    word = word_type(dtype)
    half = 64 if word == "i128" else 32
    wide = key if key.type == word else f.convert(key, word, "zext")
    low = position if word == "i64" else f.convert(position, word, "zext")
    return (wide << half) | low


def _position(f: Function, word: Value) -> Value:
    return f.convert(word, "i64", "trunc") if word.type == "i128" else word & 0xFFFFFFFF


class _Words:
    """Words in memory, and their digits of 8 bits."""

    def __init__(self, f: Function, dtype: DType):
        self.f, self.word = f, word_type(dtype)
        self.half = 64 if self.word == "i128" else 32

    def load(self, pointer: Value, i: Any) -> Value:
        return self.f.load(self.word, pointer, i, align=8)

    def store(self, value: Value, pointer: Value, i: Any) -> None:
        self.f.store(value, pointer, i, align=8)

    def digit(self, word: Value, d: Any) -> Value:
        """Digit `d` of a word's key."""
        shift = self.f.i64(d) * 8
        if self.word == "i128":
            return (self.f.convert(word >> 64, "i64", "trunc") >> shift) & 255
        return (word >> (shift + 32)) & 255

    def sorted(self, source: Value, spare: Value, count: Value) -> Value:
        """Where `count` words lie sorted: at `source` or at `spare`, which is as large."""
        f = self.f
        found = f.call("ptr", "sort", source, spare, count, f["p"], f["thread"], declare=False)
        with f.when(count > STRETCH):  # it may have left them unsorted
            f.leave_if_ended()
        return found


def _sort_function(dtype: DType) -> Function:
    """sort(source, spare, count) -> which of both holds the sorted words: short rows by insertion, others digit by digit."""
    f = Function(
        "sort",
        [("source", "ptr"), ("spare", "ptr"), ("count", "i64"), ("p", "ptr"), ("thread", "i64")],
        "ptr",
        "internal",
        "noinline nounwind",
    )
    words, source, count = _Words(f, dtype), f["source"], f["count"]
    with f.when(count <= INSERTION):
        _insertion(f, words, source, count)
        f.ret(source)
    counts = f.stack("i64", 256 * dtype.itemsize, 64)
    _count_digits(f, words, dtype.itemsize, source, count, counts)
    here, there = f.variable("ptr", source), f.variable("ptr", f["spare"])
    total = f.variable("i64")
    with f.loop(0, dtype.itemsize) as d:
        mine = f.at("i64", counts, d * 256)
        before, after = here.get(), there.get()
        # a digit that all words share sorts nothing
        with f.when(f.load("i64", mine, words.digit(words.load(before, 0), d)).differs(count)):
            total.set(0)
            with f.loop(0, 256) as i:
                own = f.load("i64", mine, i)
                f.store(total.get(), mine, i)
                total.add(own)
            with f.stretches(0, count, STRETCH, result=source) as (first, last), f.loop(first, last) as i:
                word = words.load(before, i)
                slot = f.at("i64", mine, words.digit(word, d))
                place = f.load("i64", slot)
                f.store(place + 1, slot)
                words.store(word, after, place)
            here.set(after)
            there.set(before)
    f.ret(here.get())
    return f


def _insertion(f: Function, words: _Words, source: Value, count: Value) -> None:
    hole = f.variable("i64")
    with f.loop(1, count) as i:
        own = words.load(source, i)
        hole.set(i)

        def smaller() -> Value:
            before = words.load(source, f.maximum(hole.get() - 1, 0))
            return (hole.get() > 0) & own.unsigned_below(before)

        with f.repeat(smaller):
            words.store(words.load(source, hole.get() - 1), source, hole.get())
            hole.add(-1)
        words.store(own, source, hole.get())


def _count_digits(f: Function, words: _Words, digits: int, source: Value, count: Value, counts: Value) -> None:
    """How often every digit has every value."""
    with f.loop(0, 256 * digits) as i:
        f.store(f.i64(0), counts, i)

    def tally(digits: int) -> None:
        with f.stretches(0, count, STRETCH, result=source) as (first, last), f.loop(first, last) as i:
            word = words.load(source, i)
            for d in range(digits):
                slot = f.at("i64", counts, words.digit(word, d) + 256 * d)
                f.store(f.load("i64", slot) + 1, slot)

    if digits < 8:
        tally(digits)
        return
    # whole numbers are often small: their upper halves are then alike
    varied = f.variable("i64", 0)
    first = f.load("i64", source, 1)
    with f.stretches(0, count, STRETCH, result=source) as (begin, end), f.loop(begin, end) as i:
        varied.set(varied.get() | (f.load("i64", source, i * 2 + 1) ^ first))
    with f.branches((varied.get() >> 32).equals(0)) as otherwise:
        tally(4)
        for d in range(4, 8):
            f.store(count, counts, words.digit(words.load(source, 0), d) + 256 * d)
        otherwise()
        tally(8)


class _Rows:
    """Where rows lie: constants (length, inner rows, out's and x's outer, inner and element strides)."""

    def __init__(self, f: Function, dtype: DType):
        constants = f.pointer(f.parameter(0))
        (
            self.length,
            self.inner,
            self.out_outer,
            self.out_inner,
            self.out_step,
            self.outer,
            self.own_inner,
            self.step,
            self.extra,
        ) = (f.load("i64", constants, i) for i in range(9))
        self.f, self.dtype, self.type = f, dtype, f"i{8 * dtype.itemsize}"
        self.values, self.indices, self.x = f.buffer(0), f.buffer(1), f.buffer(2)

    def row(self, r: Value) -> tuple[Value, Value, Value]:
        f = self.f
        outer, inner = r.unsigned_div(self.inner), r.unsigned_rem(self.inner)
        target = outer * self.out_outer + inner * self.out_inner
        return (
            f.at(self.type, self.values, target),
            f.at("i64", self.indices, target),
            f.at(self.type, self.x, outer * self.outer + inner * self.own_inner),
        )

    def put(self, row: tuple[Value, Value, Value], i: Value, word: Value, descending: bool) -> None:
        """Element i of the result: from the word alone where that is possible, which spares a random access."""
        f = self.f
        values, indices, x = row
        position = _position(f, word)
        element, unsure = _element(f, self.dtype, descending, word)
        f.store(element, values, i * self.out_step)
        if unsure is not None:
            with f.when(unsure):
                f.store(f.load(self.type, x, position * self.step), values, i * self.out_step)
        f.store(position, indices, i * self.out_step)


def _build(f: Function, dtype: DType, descending: bool, rows: _Rows, x: Value, first: Value, last: Value, words: Value) -> None:
    """Words of the elements first..last of a row."""
    begin = f.variable("i64", first)
    if word_type(dtype) == "i64":
        wide = f"<{LANES} x i64>"
        steps = "<" + ", ".join(f"i64 {i}" for i in range(LANES)) + ">"
        with f.when(rows.step.equals(1)):
            whole = first + ((last - first) & -LANES)
            with f.stretches(first, whole, STRETCH) as (a, b), f.loop(a, b, LANES) as i:
                key = sort_key(f, dtype, descending, f.load(f"<{LANES} x {rows.type}>", x, i, align=dtype.itemsize))
                keys = key if key.type == wide else f.convert(key, wide, "zext")
                f.store((keys << 32) | (f.splat(i, LANES) + Value(f, wide, steps)), words, i - first, align=8)
            begin.set(whole)
    with f.stretches(begin.get(), last, STRETCH) as (a, b), f.loop(a, b) as i:
        key = sort_key(f, dtype, descending, f.load(rows.type, x, i * rows.step))
        f.store(_word(f, dtype, key, i), words, i - first, align=8)


@compiled(INDEXED)
def _rows_kernel(dtype: DType, descending: bool) -> str:
    f = kernel()
    rows, words = _Rows(f, dtype), _Words(f, dtype)
    mine = f.at("i8", f.pointer(f.parameter(1)), f["thread"] * (rows.length * (2 * word_bytes(dtype))))
    spare = f.at(words.word, mine, rows.length)
    with f.loop(f["begin"], f["end"]) as r:
        row = rows.row(r)
        _build(f, dtype, descending, rows, row[2], f.i64(0), rows.length, mine)
        result = words.sorted(mine, spare, rows.length)
        with f.stretches(0, rows.length, STRETCH) as (first, last), f.loop(first, last) as i:
            rows.put(row, i, words.load(result, i), descending)
    return module(f, _sort_function(dtype))


@compiled(INDEXED)
def _chunk_kernel(dtype: DType, descending: bool) -> str:
    """Sort chunk c of one row (constant: row number, chunk length) within the first half of the scratch."""
    f = kernel()
    rows, words = _Rows(f, dtype), _Words(f, dtype)
    chunk = f.load("i64", f.pointer(f.parameter(0)), 9)
    row = rows.row(rows.extra)
    scratch = f.pointer(f.parameter(1))
    other = f.at(words.word, scratch, rows.length)
    with f.loop(f["begin"], f["end"]) as c:
        first = f.minimum(c * chunk, rows.length)
        last = f.minimum(first + chunk, rows.length)
        mine, spare = f.at(words.word, scratch, first), f.at(words.word, other, first)
        count = last - first
        _build(f, dtype, descending, rows, row[2], first, last, mine)
        with f.when(count > 0):
            result = words.sorted(mine, spare, count)
            with f.when(f.address(result).differs(f.address(mine))):
                with f.stretches(0, count, STRETCH) as (begin, end), f.loop(begin, end) as i:
                    words.store(words.load(result, i), mine, i)
    return module(f, _sort_function(dtype))


@compiled()
def _merge_kernel(dtype: DType, descending: bool, final: bool) -> str:
    """Piece t of the merges of neighbouring runs (constants: row, run length, pieces per merge, which half is read)."""
    f = kernel()
    rows = _Rows(f, dtype)
    word = word_type(dtype)
    constants = f.pointer(f.parameter(0))
    run, pieces, second = (f.load("i64", constants, 9 + i) for i in range(3))
    scratch = f.pointer(f.parameter(1))
    source = f.at(word, scratch, second * rows.length)
    target = f.at(word, scratch, (f.i64(1) - second) * rows.length)
    row = rows.row(rows.extra)
    i, j, low, high = (f.variable("i64") for _ in range(4))

    def load(pointer: Value, index: Value) -> Value:
        return f.load(word, pointer, index, align=8)

    with f.loop(f["begin"], f["end"]) as t:
        pair, piece = t.unsigned_div(pieces), t.unsigned_rem(pieces)
        start = f.minimum(pair * run * 2, rows.length)
        middle = f.minimum(start + run, rows.length)
        end = f.minimum(middle + run, rows.length)
        a, b = f.at(word, source, start), f.at(word, source, middle)
        m, n = middle - start, end - middle

        def split(diagonal: Value) -> Value:
            """How many of the first `diagonal` merged words come from the first run."""
            low.set(f.maximum(diagonal - n, 0))
            high.set(f.minimum(diagonal, m))
            with f.repeat(lambda: low.get() < high.get()):
                at = (low.get() + high.get()) >> 1
                taken = load(a, at).unsigned_below(load(b, diagonal - at - 1))
                low.set(f.select(taken, at + 1, low.get()))
                high.set(f.select(taken, high.get(), at))
            return low.get()

        first, last = (m + n) * piece, (m + n) * (piece + 1)
        first, last = first.unsigned_div(pieces), last.unsigned_div(pieces)
        i.set(split(first))
        j.set(first - i.get())
        with f.stretches(first, last, STRETCH) as (begin, stop), f.loop(begin, stop) as k:
            at_a, at_b = i.get(), j.get()
            left = load(a, f.minimum(at_a, f.maximum(m - 1, 0)))
            right = load(b, f.select(at_b < n, at_b, f.i64(0) - 1))
            in_a, in_b = at_a < m, at_b < n
            less = left.unsigned_below(right)
            from_a = f.emit("i1", f"and i1 {in_a.name}, {f.select(in_b, less, f.value(1, 'i1')).name}")
            chosen = f.select(from_a, left, right)
            step = f.convert(from_a, "i64", "zext")
            i.set(at_a + step)
            j.set(at_b + (f.i64(1) - step))
            if final:
                rows.put(row, start + k, chosen, descending)
            else:
                f.store(chosen, f.at(word, target, start + k), align=8)
    return module(f)


def sort_plan(layout: Layout, outputs: tuple[Layout, Layout], geometry: tuple[int, ...], count: int, descending: bool):
    """launch(None, None, x) -> (values, indices).

    geometry: length of a row, rows per outer step, the outputs' (outer, inner, element) strides, the input's; count:
    rows.
    """
    length, dtype = geometry[0], layout.dtype
    if length >> 32 and dtype.itemsize < 8:
        raise NotImplementedError(f"sorting {length} elements of {dtype}: at most 2**32 are supported")
    threads = planned_threads()
    size = word_bytes(dtype)
    phases = []
    if not count or not length:
        return lowered(Plan([], outputs, [layout]))
    if length < LONG or threads == 1 or count >= threads:
        grain = max(1, 8192 // length)
        phases = [Phase(_rows_kernel(dtype, descending), count, grain, [*geometry, 0])]
        return lowered(
            Plan(phases, outputs, [layout], scratch=2 * size * length * min(threads, count), release=count * length > 1 << 15)
        )
    chunks = 1
    while chunks < threads:
        chunks *= 2
    chunk = -(-length // chunks)
    for row in range(count):
        phases.append(Phase(_chunk_kernel(dtype, descending), chunks, 1, [*geometry, row, chunk]))
        run, pairs, second = chunk, chunks // 2, 0
        while pairs:
            pieces = -(-4 * threads // pairs)
            phases.append(
                Phase(
                    _merge_kernel(dtype, descending and pairs == 1, pairs == 1),
                    pairs * pieces,
                    1,
                    [*geometry, row, run, pieces, second],
                )
            )
            run, pairs, second = 2 * run, pairs // 2, 1 - second
    return lowered(Plan(phases, outputs, [layout], scratch=2 * size * length, release=True))


# ---------------------------------------------------------------- the k best


FEW = 16  # best ones that are kept in order by insertion, candidate by candidate


@compiled(INDEXED)
def _best_kernel(dtype: DType, descending: bool, few: bool) -> str:
    """The k first of every row in sorted order (constants: k, room for candidates); few: k is at most FEW."""
    f = kernel()
    rows, words = _Rows(f, dtype), _Words(f, dtype)
    constants = f.pointer(f.parameter(0))
    k, room = f.load("i64", constants, 9), f.load("i64", constants, 10)
    buffer = f.at("i8", f.pointer(f.parameter(1)), f["thread"] * (room * (2 * word_bytes(dtype))))
    spare = f.at(words.word, buffer, room)
    count = f.variable("i64")
    threshold = f.variable(rows.type)

    def best_first() -> None:
        """Keep the k best candidates, in order, at the start of the buffer."""
        result = words.sorted(buffer, spare, count.get())
        count.set(f.minimum(count.get(), k))
        with f.when(f.address(result).differs(f.address(buffer))):
            with f.loop(0, count.get()) as i:
                words.store(words.load(result, i), buffer, i)

    def set_threshold() -> None:
        high = words.load(buffer, k - 1) >> words.half
        threshold.set(f.convert(high, rows.type, "trunc") if rows.type != words.word else high)

    hole = f.variable("i64")

    def insert(word: Value) -> None:
        """Put a candidate among the best so far, which are in order; the last of k drops out."""
        hole.set(f.minimum(count.get(), k - 1))
        with f.repeat(lambda: (hole.get() > 0) & word.unsigned_below(words.load(buffer, f.maximum(hole.get() - 1, 0)))):
            words.store(words.load(buffer, hole.get() - 1), buffer, hole.get())
            hole.add(-1)
        words.store(word, buffer, hole.get())
        count.set(f.minimum(count.get() + 1, k))
        with f.when(count.get().equals(k)):
            set_threshold()

    def scan(x: Value, first: Value, last: Value) -> None:
        """Look at elements first..last, at most a block of them."""
        keys, least = _block_keys(f, dtype, descending, rows, x, first, last)
        bound = threshold.get()
        full = count.get() >= k
        passes = f.select(full, least.unsigned_below(bound), f.value(1, "i1"))
        with f.when(passes):
            if few:
                with f.loop(0, last - first) as i:
                    key = f.load(rows.type, keys, i)
                    with f.when(f.select(count.get() >= k, key.unsigned_below(threshold.get()), f.value(1, "i1"))):
                        insert(_word(f, dtype, key, first + i))
                return
            with f.loop(0, last - first) as i:
                key = f.load(rows.type, keys, i)
                # written always, kept only when better than the k-th so far
                words.store(_word(f, dtype, key, first + i), buffer, count.get())
                better = f.select(full, key.unsigned_below(bound), f.value(1, "i1"))
                count.add(f.convert(better, "i64", "zext"))
            with f.when(count.get() > room - (BLOCK + 1)):
                best_first()
                set_threshold()

    with f.loop(f["begin"], f["end"]) as r:
        row = rows.row(r)
        count.set(0)
        threshold.set(-1)
        with f.stretches(0, rows.length, STRETCH) as (begin, end), f.loop(begin, end, BLOCK) as first:
            scan(row[2], first, f.minimum(first + BLOCK, end))
        if not few:
            best_first()
        with f.stretches(0, k, STRETCH) as (begin, end), f.loop(begin, end) as i:
            rows.put(row, i, words.load(buffer, i), descending)
    return module(f) if few else module(f, _sort_function(dtype))


def _block_keys(
    f: Function, dtype: DType, descending: bool, rows: _Rows, x: Value, first: Value, last: Value
) -> tuple[Value, Value]:
    """(where the keys of a block of elements lie, the least of them)"""
    keys, least = f.stack(rows.type, BLOCK, 64), f.variable(rows.type)
    together = rows.step.equals(1) & (last - first).equals(BLOCK)
    with f.branches(together) as otherwise:
        wide = f"<{BLOCK} x {rows.type}>"
        own = sort_key(f, dtype, descending, f.load(wide, x, first, align=dtype.itemsize))
        f.store(own, keys, align=64)
        least.set(f.call(rows.type, f"llvm.vector.reduce.umin.v{BLOCK}{rows.type}", own))
        otherwise()
        least.set(-1)
        with f.loop(0, last - first) as i:
            key = sort_key(f, dtype, descending, f.load(rows.type, x, (first + i) * rows.step))
            f.store(key, keys, i)
            before = least.get()
            least.set(f.select(key.unsigned_below(before), key, before))
    return keys, least.get()


def topk_plan(layout: Layout, outputs: tuple[Layout, Layout], geometry: tuple[int, ...], count: int, k: int, descending: bool):
    """launch(None, None, x) -> (values, indices) of the k first elements of each row in order. See sort_plan for the
    geometry."""
    length, dtype = geometry[0], layout.dtype
    if length >> 32 and dtype.itemsize < 8:
        raise NotImplementedError(f"topk of {length} elements of {dtype}: at most 2**32 are supported")
    if not count or not k:
        return lowered(Plan([], outputs, [layout]))
    threads = planned_threads()
    room = min(k + max(k, 128), length) + 2 * BLOCK + 2
    phases = [Phase(_best_kernel(dtype, descending, k <= FEW), count, max(1, 32768 // length), [*geometry, 0, k, room])]
    return lowered(
        Plan(
            phases,
            outputs,
            [layout],
            scratch=2 * word_bytes(dtype) * room * min(threads, max(count, 1)),
            release=count * length > 1 << 17,
        )
    )


# ---------------------------------------------------------------- binary search


SCANNED = 96  # boundaries that are counted one after the other


def _scan(f: Function, type: str, unsigned: bool, index: str, right: bool, n: Value, begin: Variable) -> None:
    """Advance `begin` by the values that make whole blocks: counts the boundaries before each, quicker than halving if few."""
    lanes = 32 if type in ("double", "i64") else 64
    out, boundaries, values = f.buffer(0), f.buffer(1), f.buffer(2)
    counts, every = f"<{lanes} x i32>", f.value(1, f"<{lanes} x i1>")
    found = f.variable(counts)
    whole = f["begin"] + ((f["end"] - f["begin"]) & -lanes)
    with f.loop(f["begin"], whole, lanes) as i:
        value = f.load(f"<{lanes} x {type}>", values, i, align=1)
        found.set(f.value(0, counts))
        with f.loop(0, n) as j:
            bound = f.splat(f.load(type, boundaries, j), lanes)
            if type not in ("float", "double") and unsigned:
                stop = value.unsigned_below(bound) if right else bound.unsigned_below(value) ^ every
            else:
                stop = bound > value if right else bound >= value
            found.add(f.convert(stop ^ every, counts, "zext"))
        result = found.get()
        f.store(result if index == "i32" else f.convert(result, f"<{lanes} x {index}>", "sext"), out, i, align=1)
    begin.set(whole)


def _compared(f: Function, type: str, pointer: Value, at: Value) -> Value:
    """Element `at` as it is compared: bfloat as float, for which not every processor has instructions."""
    if type != "bfloat":
        return f.load(type, pointer, at)
    kind = kind_of("bfloat16")
    return widen(f, kind, f.load(kind.storage, pointer, at))


@compiled(LIGHT)
def _search_kernel(type: str, unsigned: bool, index: str, right: bool, sorted_by: bool) -> str:
    """Where each value belongs in its row of boundaries (constants: boundaries and values per row)."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    n, per_row, shared = (f.load("i64", constants, i) for i in range(3))
    out, boundaries, values = f.buffer(0), f.buffer(1), f.buffer(2)
    found, length = f.variable("i64"), f.variable("i64")
    begin = f.variable("i64", f["begin"])
    if not sorted_by and type not in ("half", "bfloat"):
        last = f.load(type, boundaries, f.maximum(n - 1, 0))
        with f.when(shared.differs(0) & (n > 0) & (n <= SCANNED) & last.equals(last)):  # NaN sorts behind, but counts before
            _scan(f, type, unsigned, index, right, n, begin)
    with f.loop(begin.get(), f["end"]) as position:
        first = f.select(shared.differs(0), f.i64(0), position.unsigned_div(per_row) * n)
        value = _compared(f, type, values, position)

        def before(at: Value) -> Value:
            """Whether boundary `at` lies before the value, as 0 or 1."""
            place = at
            if sorted_by:
                place = f.load("i64", f.buffer(3), first + at)
                place = f.select(place.unsigned_below(n), place, f.i64(0))
            bound = _compared(f, type, boundaries, first + place)
            if type in ("half", "bfloat", "float", "double"):
                # written so that NaN comes last
                stop = bound > value if right else bound >= value
            elif unsigned:
                stop = value.unsigned_below(bound) if right else f.emit("i1", f"xor i1 {bound.unsigned_below(value).name}, true")
            else:
                stop = bound > value if right else bound >= value
            return f.convert(f.emit("i1", f"xor i1 {stop.name}, true"), "i64", "zext")

        found.set(0)
        length.set(n)
        with f.repeat(lambda: length.get() > 1):  # no branch depends on the value
            half = length.get() >> 1
            found.add(half & -before(found.get() + half - 1))
            length.set(length.get() - half)
        with f.when(length.get() > 0):
            found.add(before(found.get()))
        result = found.get()
        f.store(result if index == "i64" else f.convert(result, index, "trunc"), out, position)
    return module(f)  # simplification would make branches of it, which are mispredicted


def search_plan(boundaries: Layout, values: Layout, out: Layout, right: bool, sorter: Layout | None):
    """launch(None, boundaries, values[, sorter]); all contiguous, boundaries and values of one dtype."""
    dtype = boundaries.dtype
    type = element_type(dtype)
    n = boundaries.shape[-1]
    shared = boundaries.ndim == 1
    per_row = values.shape[-1] if values.ndim else 1
    address = _search_kernel(type, not dtype.is_signed, f"i{8 * out.dtype.itemsize}", right, sorter is not None)
    phases = [Phase(address, values.numel, 1024, [n, per_row, int(shared)])] if values.numel else []
    return lowered(
        Plan(phases, [out], [boundaries, values, *([] if sorter is None else [sorter])], release=values.numel > 1 << 15)
    )
