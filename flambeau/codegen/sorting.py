"""Sorting and selection: rows by radix or insertion, one long row by sorted chunks and parallel merges, the k best by
threshold.

An element becomes a word: its key, an unsigned integer of the same order (NaN last, -0 equal to 0, inverted for
descending), in the
high half, and its position in the low half. Words differ, so any sort of them is stable. Stands on builder, launch
and jit; used by
ops.sort.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen import launch as launching
from flambeau.codegen import state
from flambeau.codegen.builder import Function, Value, Variable, kernel, module
from flambeau.codegen.jit import compile_kernel
from flambeau.codegen.launch import Phase

INSERTION = 48          # rows up to this length are sorted by insertion
LONG = 1 << 16          # rows from this length are cut among threads when there are few of them
BLOCK = 64              # elements that topk looks at together
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


def word_type(dtype: DType) -> str:
    return "i128" if dtype.itemsize == 8 else "i64"


def word_bytes(dtype: DType) -> int:
    return 16 if dtype.itemsize == 8 else 8


def _key(f: Function, dtype: DType, descending: bool, x: Value) -> Value:
    """The sorting key of an element given as an integer of its size; same type."""
    type, bits = x.type, 8 * dtype.itemsize
    if dtype.is_floating_point:
        infinity = _INFINITY[dtype.name]
        magnitude = x & ((1 << (bits - 1)) - 1)
        sign = f.emit(type, f"ashr {type} {x.name}, {bits - 1}")
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


def _position(f: Function, dtype: DType, word: Value) -> Value:
    return f.convert(word, "i64", "trunc") if word.type == "i128" else word & 0xFFFFFFFF


class _Sorter:
    """Emits the sort of `count` words at `source`, with `spare` as large; the result's address is in the returned
    variable."""

    def __init__(self, f: Function, dtype: DType):
        self.f, self.dtype, self.word = f, dtype, word_type(dtype)
        self.half = 64 if self.word == "i128" else 32
        self.digits = dtype.itemsize
        self.counts = f.stack("i64", 256 * self.digits, 64)
        self.source, self.spare = f.variable("ptr"), f.variable("ptr")

    def load(self, pointer: Value, i: Any) -> Value:
        return self.f.load(self.word, pointer, i, align=8)

    def store(self, value: Value, pointer: Value, i: Any) -> None:
        self.f.store(value, pointer, i, align=8)

    def digit(self, word: Value, d: int) -> Value:
        shifted = word >> (self.half + 8 * d)
        return self.f.convert(shifted, "i64", "trunc") & 255 if self.word == "i128" else shifted & 255

    def sort(self, source: Value, spare: Value, count: Value) -> Variable:
        f = self.f
        self.source.set(source)
        self.spare.set(spare)
        with f.branches(count <= INSERTION) as otherwise:
            self.insertion(source, count)
            otherwise()
            self.radix(count)
        return self.source

    def insertion(self, words: Value, count: Value) -> None:
        f = self.f
        hole = f.variable("i64")
        with f.loop(1, count) as i:
            own = self.load(words, i)
            hole.set(i)

            def smaller() -> Value:
                before = self.load(words, f.maximum(hole.get() - 1, 0))
                return f.emit("i1", f"and i1 {(hole.get() > 0).name}, {own.unsigned_below(before).name}")
            with f.repeat(smaller):
                self.store(self.load(words, hole.get() - 1), words, hole.get())
                hole.add(-1)
            self.store(own, words, hole.get())

    def radix(self, count: Value) -> None:
        f, counts = self.f, self.counts
        with f.loop(0, 256 * self.digits) as i:
            f.store(f.i64(0), counts, i)
        words = self.source.get()

        def count_digits(digits: int) -> None:
            with f.loop(0, count) as i:
                word = self.load(words, i)
                for d in range(digits):
                    slot = f.at("i64", counts, self.digit(word, d) + 256 * d)
                    f.store(f.load("i64", slot) + 1, slot)
        if self.digits < 8:
            count_digits(self.digits)
        else:
            # whole numbers are often small: their upper halves are then alike
            first = self.load(words, 0)
            varied = f.variable(self.word, 0)
            with f.loop(0, count) as i:
                varied.set(varied.get() | (self.load(words, i) ^ first))
            with f.branches((varied.get() >> (self.half + 32)).equals(0)) as otherwise:
                count_digits(4)
                for d in range(4, 8):
                    f.store(count, counts, self.digit(first, d) + 256 * d)
                otherwise()
                count_digits(8)
        total = f.variable("i64")
        for d in range(self.digits):
            mine = f.at("i64", counts, 256 * d)
            # a digit that all words share sorts nothing
            useful = f.load("i64", mine, self.digit(self.load(self.source.get(), 0), d)).differs(count)
            with f.when(useful):
                total.set(0)
                with f.loop(0, 256) as i:
                    own = f.load("i64", mine, i)
                    f.store(total.get(), mine, i)
                    total.add(own)
                source, spare = self.source.get(), self.spare.get()
                with f.loop(0, count) as i:
                    word = self.load(source, i)
                    slot = f.at("i64", mine, self.digit(word, d))
                    at = f.load("i64", slot)
                    f.store(at + 1, slot)
                    self.store(word, spare, at)
                self.source.set(spare)
                self.spare.set(source)


class _Rows:
    """Where rows lie: constants (length, inner rows, out's and x's outer, inner and element strides)."""

    def __init__(self, f: Function, dtype: DType):
        constants = f.pointer(f.parameter(0))
        (self.length, self.inner, self.out_outer, self.out_inner, self.out_step, self.outer, self.own_inner, self.step,
         self.extra) = (f.load("i64", constants, i) for i in range(9))
        self.f, self.dtype, self.type = f, dtype, f"i{8 * dtype.itemsize}"
        self.values, self.indices, self.x = f.buffer(0), f.buffer(1), f.buffer(2)

    def row(self, r: Value) -> tuple[Value, Value, Value]:
        f = self.f
        outer, inner = r.unsigned_div(self.inner), r.unsigned_rem(self.inner)
        target = outer * self.out_outer + inner * self.out_inner
        return (f.at(self.type, self.values, target), f.at("i64", self.indices, target),
                f.at(self.type, self.x, outer * self.outer + inner * self.own_inner))

    def put(self, row: tuple[Value, Value, Value], i: Value, word: Value, descending: bool) -> None:
        """Element i of the result: from the word alone where that is possible, which spares a random access."""
        f = self.f
        values, indices, x = row
        position = _position(f, self.dtype, word)
        element, unsure = _element(f, self.dtype, descending, word)
        f.store(element, values, i * self.out_step)
        if unsure is not None:
            with f.when(unsure):
                f.store(f.load(self.type, x, position * self.step), values, i * self.out_step)
        f.store(position, indices, i * self.out_step)


def _build(
    f: Function, dtype: DType, descending: bool, rows: _Rows, x: Value, first: Value, last: Value, words: Value
) -> None:
    """Words of the elements first..last of a row."""
    with f.branches(rows.step.equals(1)) as otherwise:
        for step in (f.i64(1), rows.step):
            with f.loop(first, last) as i:
                key = _key(f, dtype, descending, f.load(rows.type, x, i if step is not rows.step else i * step))
                f.store(_word(f, dtype, key, i), words, i - first, align=8)
            if step is not rows.step:
                otherwise()


@cache
def _rows_kernel(dtype: DType, descending: bool) -> int:
    f = kernel()
    rows = _Rows(f, dtype)
    sorter = _Sorter(f, dtype)
    mine = f.at("i8", f.pointer(f.parameter(1)), f["thread"] * (rows.length * (2 * word_bytes(dtype))))
    spare = f.at(sorter.word, mine, rows.length)
    with f.loop(f["begin"], f["end"]) as r:
        row = rows.row(r)
        _build(f, dtype, descending, rows, row[2], f.i64(0), rows.length, mine)
        words = sorter.sort(mine, spare, rows.length).get()
        with f.loop(0, rows.length) as i:
            rows.put(row, i, sorter.load(words, i), descending)
    return compile_kernel(module(f))


@cache
def _chunk_kernel(dtype: DType, descending: bool) -> int:
    """Sort chunk c of one row (constant: row number, chunk length) within the first half of the scratch."""
    f = kernel()
    rows = _Rows(f, dtype)
    sorter = _Sorter(f, dtype)
    chunk = f.load("i64", f.pointer(f.parameter(0)), 9)
    row = rows.row(rows.extra)
    scratch = f.pointer(f.parameter(1))
    other = f.at(sorter.word, scratch, rows.length)
    with f.loop(f["begin"], f["end"]) as c:
        first = f.minimum(c * chunk, rows.length)
        last = f.minimum(first + chunk, rows.length)
        mine, spare = f.at(sorter.word, scratch, first), f.at(sorter.word, other, first)
        count = last - first
        _build(f, dtype, descending, rows, row[2], first, last, mine)
        with f.when(count > 0):
            words = sorter.sort(mine, spare, count).get()
            with f.when(f.address(words).differs(f.address(mine))):
                with f.loop(0, count) as i:
                    sorter.store(sorter.load(words, i), mine, i)
    return compile_kernel(module(f))


@cache
def _merge_kernel(dtype: DType, descending: bool, final: bool) -> int:
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
        with f.loop(first, last) as k:
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
    return compile_kernel(module(f))


def sort_plan(dtype: DType, outputs: tuple[Layout, Layout], geometry: tuple[int, ...], count: int, descending: bool):
    """launch(None, None, x) -> (values, indices).

    geometry: length of a row, rows per outer step, the outputs' (outer, inner, element) strides, the input's; count:
    rows.
    """
    length = geometry[0]
    if length >> 32 and dtype.itemsize < 8:
        raise NotImplementedError(f"sorting {length} elements of {dtype}: at most 2**32 are supported")
    threads = state.words[state.THREADS]
    size = word_bytes(dtype)
    phases = []
    if not count or not length:
        return launching.plan([], outputs, [dtype.itemsize])
    if length < LONG or threads == 1 or count >= threads:
        grain = max(1, 8192 // length)
        phases = [Phase(_rows_kernel(dtype, descending), count, grain, [*geometry, 0])]
        return launching.plan(
            phases,
            outputs,
            [dtype.itemsize],
            scratch=2 * size * length * min(threads, count),
            release=count * length > 1 << 15,
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
    return launching.plan(phases, outputs, [dtype.itemsize], scratch=2 * size * length, release=True)


# ---------------------------------------------------------------- the k best


@cache
def _best_kernel(dtype: DType, descending: bool) -> int:
    """The k first of every row in sorted order (constants: k, room for candidates)."""
    f = kernel()
    rows = _Rows(f, dtype)
    sorter = _Sorter(f, dtype)
    constants = f.pointer(f.parameter(0))
    k, room = f.load("i64", constants, 9), f.load("i64", constants, 10)
    buffer = f.at("i8", f.pointer(f.parameter(1)), f["thread"] * (room * (2 * word_bytes(dtype))))
    spare = f.at(sorter.word, buffer, room)
    count = f.variable("i64")
    threshold = f.variable(rows.type)
    keys = f.stack(rows.type, BLOCK, 64)
    least = f.variable(rows.type)

    def best_first() -> None:
        """Keep the k best candidates, in order, at the start of the buffer."""
        words = sorter.sort(buffer, spare, count.get()).get()
        count.set(f.minimum(count.get(), k))
        with f.when(f.address(words).differs(f.address(buffer))):
            with f.loop(0, count.get()) as i:
                sorter.store(sorter.load(words, i), buffer, i)

    def scan(x: Value, first: Value, last: Value, step: Value | None) -> None:
        """Look at elements first..last, at most a block of them."""
        least.set(-1)
        with f.loop(0, last - first) as i:
            at = first + i
            key = _key(f, dtype, descending, f.load(rows.type, x, at if step is None else at * step))
            f.store(key, keys, i)
            before = least.get()
            least.set(f.select(key.unsigned_below(before), key, before))
        bound = threshold.get()
        full = count.get() >= k
        passes = f.select(full, least.get().unsigned_below(bound), f.value(1, "i1"))
        with f.when(passes):
            with f.loop(0, last - first) as i:
                key = f.load(rows.type, keys, i)
                # written always, kept only when better than the k-th so far
                sorter.store(_word(f, dtype, key, first + i), buffer, count.get())
                better = f.select(full, key.unsigned_below(bound), f.value(1, "i1"))
                count.add(f.convert(better, "i64", "zext"))
            with f.when(count.get() > room - (BLOCK + 1)):
                best_first()
                high = sorter.load(buffer, k - 1) >> sorter.half
                threshold.set(f.convert(high, rows.type, "trunc") if rows.type != sorter.word else high)
    with f.loop(f["begin"], f["end"]) as r:
        row = rows.row(r)
        count.set(0)
        threshold.set(-1)
        with f.branches(rows.step.equals(1)) as otherwise:
            for step in (None, rows.step):
                whole = rows.length - rows.length.unsigned_rem(BLOCK)
                with f.loop(0, whole, BLOCK) as first:
                    scan(row[2], first, first + BLOCK, step)
                with f.when(whole < rows.length):
                    scan(row[2], whole, rows.length, step)
                if step is None:
                    otherwise()
        best_first()
        with f.loop(0, k) as i:
            rows.put(row, i, sorter.load(buffer, i), descending)
    return compile_kernel(module(f))


def topk_plan(
    dtype: DType, outputs: tuple[Layout, Layout], geometry: tuple[int, ...], count: int, k: int, descending: bool
):
    """launch(None, None, x) -> (values, indices) of the k first elements of each row in order. See sort_plan for the
    geometry."""
    length = geometry[0]
    if length >> 32 and dtype.itemsize < 8:
        raise NotImplementedError(f"topk of {length} elements of {dtype}: at most 2**32 are supported")
    if not count or not k:
        return launching.plan([], outputs, [dtype.itemsize])
    threads = state.words[state.THREADS]
    room = min(k + max(k, 128), length) + 2 * BLOCK + 2
    phases = [Phase(_best_kernel(dtype, descending), count, max(1, 32768 // length), [*geometry, 0, k, room])]
    return launching.plan(
        phases,
        outputs,
        [dtype.itemsize],
        scratch=2 * word_bytes(dtype) * room * min(threads, max(count, 1)),
        release=count * length > 1 << 17,
    )


# ---------------------------------------------------------------- binary search


@cache
def _search_kernel(type: str, unsigned: bool, index: str, right: bool, sorted_by: bool) -> int:
    """Where each value belongs in its row of boundaries (constants: boundaries and values per row)."""
    f = kernel()
    constants = f.pointer(f.parameter(0))
    n, per_row, shared = (f.load("i64", constants, i) for i in range(3))
    out, boundaries, values = f.buffer(0), f.buffer(1), f.buffer(2)
    low, high = f.variable("i64"), f.variable("i64")
    with f.loop(f["begin"], f["end"]) as position:
        first = f.select(shared.differs(0), f.i64(0), position.unsigned_div(per_row) * n)
        value = f.load(type, values, position)
        low.set(0)
        high.set(n)
        with f.repeat(lambda: low.get() < high.get()):
            at = (low.get() + high.get()) >> 1
            place = at
            if sorted_by:
                place = f.load("i64", f.buffer(3), first + at)
                place = f.select(place.unsigned_below(n), place, f.i64(0))
            bound = f.load(type, boundaries, first + place)
            if type in ("half", "bfloat", "float", "double"):
                # written so that NaN comes last
                stop = bound > value if right else bound >= value
            elif unsigned:
                stop = value.unsigned_below(bound) if right else f.emit(
                    "i1", f"xor i1 {bound.unsigned_below(value).name}, true")
            else:
                stop = bound > value if right else bound >= value
            high.set(f.select(stop, at, high.get()))
            low.set(f.select(stop, low.get(), at + 1))
        found = low.get()
        f.store(found if index == "i64" else f.convert(found, index, "trunc"), out, position)
    return compile_kernel(module(f))


_ELEMENT = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def search_plan(boundaries: Layout, values: Layout, out: Layout, right: bool, sorter: Layout | None):
    """launch(None, boundaries, values[, sorter]); all contiguous, boundaries and values of one dtype."""
    dtype = boundaries.dtype
    type = _ELEMENT.get(dtype.name, f"i{8 * dtype.itemsize}")
    n = boundaries.shape[-1]
    shared = boundaries.ndim == 1
    per_row = values.shape[-1] if values.ndim else 1
    address = _search_kernel(type, not dtype.is_signed, f"i{8 * out.dtype.itemsize}", right, sorter is not None)
    phases = [Phase(address, values.numel, 1024, [n, per_row, int(shared)])] if values.numel else []
    return launching.plan(phases, [out], [dtype.itemsize, dtype.itemsize, *([8] if sorter is not None else [])],
                          release=values.numel > 1 << 15)
