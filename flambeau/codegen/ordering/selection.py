"""The k-th smallest element of every row and its position, by quickselect on vectors (C. Hoare, "Algorithm 65: find", 1961).

Elements become keys, unsigned integers of the same order (codegen.ordering.sorting); each round counts those below and above a
pivot and keeps one side, which a processor's compressing instruction makes dense. Of equal elements the position is that of a
stable sort. The most frequent element of a short row is found likewise on keys, each compared with all. Stands on builder,
launch and jit; used by ops.reduction.selection.
"""

from __future__ import annotations

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen.builder import Function, Value, kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.ordering.sorting import sort_key
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered

MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407  # Knuth's linear congruential generator
TOGETHER = 4  # elements whose number of equal ones is counted at once


class _Keys:
    """Keys of a dtype: their integer type, and how many make a vector."""

    def __init__(self, f: Function, dtype: DType):
        self.f, self.dtype = f, dtype
        self.element = f"i{8 * dtype.itemsize}"
        self.type, self.lanes, self.bytes = ("i64", 8, 8) if dtype.itemsize == 8 else ("i32", 16, 4)
        self.vector = f"<{self.lanes} x {self.type}>"
        self.largest = (1 << 8 * dtype.itemsize) - 1 if dtype.itemsize < 4 else -1  # that of NaN

    def of(self, x: Value) -> Value:
        """The key of an element, or of a vector of them."""
        key = sort_key(self.f, self.dtype, False, x)
        wide = self.vector if x.type[0] == "<" else self.type
        return key if key.type == wide else self.f.convert(key, wide, "zext")

    def read(self, x: Value, i: Value) -> Value:
        """The keys of the elements from i on."""
        return self.of(self.f.load(f"<{self.lanes} x {self.element}>", x, i, align=self.dtype.itemsize))

    def load(self, keys: Value, i: Value) -> Value:
        return self.f.load(self.vector, keys, i, align=self.bytes)

    def number(self, mask: Value) -> Value:
        """How many elements of a mask hold."""
        f = self.f
        bits = f.convert(f.convert(mask, f"i{self.lanes}", "bitcast"), "i64", "zext")
        return f.call("i64", "llvm.ctpop.i64", bits)

    def before(self, count: Value) -> Value:
        """The first elements of a mask, so many."""
        narrow = self.f.splat(self.f.convert(count, "i32", "trunc"), self.lanes)
        steps = ", ".join(f"i32 {i}" for i in range(self.lanes))
        return self.f.emit(f"<{self.lanes} x i1>", f"icmp sgt {narrow.type} {narrow.name}, <{steps}>")

    def pad(self, keys: Value, count: Value) -> None:
        """Largest keys behind the last one, so that whole vectors can be read."""
        self.f.store(self.f.value(-1, self.vector), keys, count, align=self.bytes)

    def keep(self, keys: Value, value: Value, mask: Value, place: Value) -> None:
        """Store those of a vector for which the mask holds, in one piece."""
        dense = self.f.call(
            self.vector,
            f"llvm.experimental.vector.compress.v{self.lanes}{self.type}",
            value,
            mask,
            Value(self.f, self.vector, "poison"),
        )
        self.f.store(dense, keys, place, align=self.bytes)


def _median_of_three(f: Function, a: Value, b: Value, c: Value) -> Value:
    low = f.select(a.unsigned_below(b), a, b)
    high = f.select(a.unsigned_below(b), b, a)
    return f.select(c.unsigned_below(low), low, f.select(c.unsigned_below(high), c, high))


def _build(f: Function, own: _Keys, x: Value, step: Value, length: Value, keys: Value) -> Value:
    """The keys of a row; how many are NaN's."""
    missing, begin = f.variable("i64"), f.variable("i64")
    missing.set(0)
    begin.set(0)
    floating = own.dtype.is_floating_point
    with f.when(step.equals(1)):
        whole = length & -own.lanes
        with f.stretches(0, whole) as (first, last), f.loop(first, last, own.lanes) as i:
            key = own.read(x, i)
            f.store(key, keys, i, align=own.bytes)
            if floating:
                missing.add(own.number(key.equals(own.largest)))
        begin.set(whole)
    if own.dtype.itemsize == own.bytes:  # of what lies apart the bits are collected first
        with f.when(step.differs(1)):
            with f.stretches(0, length) as (first, last), f.loop(first, last) as i:
                f.store(f.load(own.element, x, i * step), keys, i)
            with f.stretches(0, length) as (first, last), f.loop(first, last, own.lanes) as i:
                key = own.read(keys, i)
                f.store(key, keys, i, align=own.bytes)
                if floating:
                    missing.add(own.number(key.equals(own.largest) & own.before(length - i)))
            begin.set(length)
    with f.stretches(begin.get(), length) as (first, last), f.loop(first, last) as i:
        key = own.of(f.load(own.element, x, i * step))
        f.store(key, keys, i)
        if floating:
            missing.add(f.convert(key.equals(own.largest), "i64", "zext"))
    own.pad(keys, length)
    return missing.get()


def _find(f: Function, own: _Keys, keys: Value, length: Value, place: Value) -> tuple[Value, Value]:
    """(the key at a place of the sorted row, how many equal ones come before it); the keys are lost."""
    count, rank, going, seed = (f.variable("i64") for _ in range(4))
    less, more = f.variable("i64"), f.variable("i64")
    pivot = f.variable(own.type)
    count.set(length)
    rank.set(place)
    going.set(1)
    seed.set(length)
    with f.repeat(lambda: going.get().differs(0)):
        chosen = []
        for _ in range(3):
            seed.set(seed.get() * MULTIPLIER + INCREMENT)
            wide = f.convert(seed.get() >> 32, "i128", "zext") * f.convert(count.get(), "i128", "zext")
            chosen.append(f.load(own.type, keys, f.convert(wide >> 32, "i64", "trunc")))
        pivot.set(_median_of_three(f, *chosen))
        pivots = f.splat(pivot.get(), own.lanes)
        less.set(0)
        more.set(0)
        with f.stretches(0, count.get()) as (first, last), f.loop(first, last, own.lanes) as i:
            key = own.load(keys, i)
            less.add(own.number(key.unsigned_below(pivots)))
            more.add(own.number(pivots.unsigned_below(key)))
        read = (count.get() + (own.lanes - 1)) & -own.lanes
        within = f.minimum(read - more.get(), count.get())  # not above the pivot; what pads the end may equal it
        below = rank.get() < less.get()
        with f.branches(below | (rank.get() >= within)) as otherwise:
            end = f.variable("i64")
            end.set(0)
            with f.stretches(0, count.get()) as (first, last), f.loop(first, last, own.lanes) as i:
                key = own.load(keys, i)
                kept = f.select(below, key.unsigned_below(pivots), pivots.unsigned_below(key))
                own.keep(keys, key, kept, end.get())
                end.add(own.number(kept))
            rank.set(f.select(below, rank.get(), rank.get() - within))
            count.set(f.select(below, less.get(), count.get() - within))
            own.pad(keys, count.get())
            otherwise()
            rank.set(rank.get() - less.get())
            going.set(0)
    return pivot.get(), rank.get()


def _position(f: Function, own: _Keys, x: Value, step: Value, length: Value, key: Value, rank: Value) -> Value:
    """Where the equal element of that rank is in a row."""
    left, at = f.variable("i64"), f.variable("i64")
    left.set(rank)
    at.set(0)
    with f.when(step.equals(1)):
        keys, whole, going = f.splat(key, own.lanes), length & -own.lanes, f.variable("i1")
        going.set(1)
        with f.repeat(lambda: going.get() & (at.get() < whole)):
            found = own.number(own.read(x, at.get()).equals(keys))
            going.set(found <= left.get())
            left.set(f.select(going.get(), left.get() - found, left.get()))
            at.set(f.select(going.get(), at.get() + own.lanes, at.get()))

    def elsewhere() -> Value:
        same = own.of(f.load(own.element, x, f.minimum(at.get(), length - 1) * step)).equals(key)
        left.add(f.i64(0) - f.convert(same, "i64", "zext"))
        return (left.get() >= 0) & (at.get() < length - 1)

    with f.repeat(elsewhere):
        at.add(1)
    return at.get()


def _most_frequent(f: Function, own: _Keys, x: Value, step: Value, keys: Value, length: Value) -> Value:
    """Where the last of the elements is that are most frequent, the smallest of equally frequent ones; no two NaNs are equal."""
    best, most = f.variable(own.type), f.variable("i64", 0)
    counts = [f.variable("i64") for _ in range(TOGETHER)]
    best.set(-1)
    padding = ((length + (own.lanes - 1)) & -own.lanes) - length  # of largest keys, compared as well
    with f.loop(0, length, TOGETHER) as i:
        some = [f.load(own.type, keys, f.minimum(i + n, length - 1)) for n in range(TOGETHER)]
        alike = [f.splat(key, own.lanes) for key in some]
        for count in counts:
            count.set(0)
        f.leave_if_ended()
        with f.loop(i & -own.lanes, length, own.lanes) as j:  # those before have been counted with an equal one there
            others = own.load(keys, j)
            for count, key in zip(counts, alike):
                count.add(own.number(others.equals(key)))
        for count, key in zip(counts, some):
            number = count.get() - f.select(key.equals(-1), padding, f.i64(0))
            if own.dtype.is_floating_point:
                number = f.select(key.equals(own.largest), f.i64(1), number)
            with f.when((number > most.get()) | (number.equals(most.get()) & key.unsigned_below(best.get()))):
                best.set(key)
                most.set(number)
    return _position(f, own, x, step, length, best.get(), most.get() - 1)


@compiled()
def _kernel(dtype: DType, which: str) -> str:
    """Over rows: constants (length, inner rows, outer, inner and element strides, place). Slots: values, positions, input.

    which: "place" (of the sorted row), "median" (NaN if there is one), "nanmedian" or "mode".
    """
    f = kernel()
    own = _Keys(f, dtype)
    constants = f.pointer(f.parameter(0))
    length, inner_rows, outer, inner, step, place = (f.load("i64", constants, i) for i in range(6))
    values, positions, source = f.buffer(0), f.buffer(1), f.buffer(2)
    keys = f.at("i8", f.pointer(f.parameter(1)), f["thread"] * ((length + 2 * own.lanes) * own.bytes))
    with f.loop(f["begin"], f["end"]) as r:
        x = f.at(own.element, source, r.unsigned_div(inner_rows) * outer + r.unsigned_rem(inner_rows) * inner)
        missing = _build(f, own, x, step, length, keys)
        if which in ("place", "mode"):
            rank = place
        elif which == "median":
            rank = f.select(missing > 0, length - missing, (length - 1) >> 1)
        else:
            rank = f.maximum(length - missing - 1, 0) >> 1
        if which == "mode":
            position = _most_frequent(f, own, x, step, keys, length)
        else:
            position = _position(f, own, x, step, length, *_find(f, own, keys, length, rank))
            if which == "nanmedian":
                position = f.select(missing.equals(length), place, position)
        f.store(f.load(own.element, x, position * step), values, r)
        f.store(position, positions, r)
    return module(f)


def middle_of_equals(length: int) -> int:
    """The place that PyTorch's nanmedian names in a row of NaNs alone: what introselect, whose partitions exchange equal
    elements, brings to the front.
    """
    stretches = []
    while length > 3:
        stretches.append(length)
        length = 1 + (length - 1) // 2
    place = 0
    for stretch in reversed(stretches):
        middle = stretch // 2
        place = middle if place == 0 else 0 if stretch - place == middle else stretch - place
    return place


def selection_plan(
    layout: Layout, outputs: tuple[Layout, Layout], geometry: tuple[int, ...], rows: int, which: str, place: int = 0
):
    """launch(None, None, x) -> (values, positions), contiguous, an element for each row.

    geometry: length of a row, rows per outer step, the input's (outer, inner, element) strides.
    """
    length, dtype = geometry[0], layout.dtype
    if not rows:
        return lowered(Plan([], outputs, [layout]))
    size = 8 if dtype.itemsize == 8 else 4
    work = length * (length // 32 + 1) if which == "mode" else length
    threads = min(planned_threads(), rows)
    return lowered(
        Plan(
            [Phase(_kernel(dtype, which), rows, max(1, 16384 // work), [*geometry, place])],
            outputs,
            [layout],
            scratch=(length + 32) * size * max(threads, 1),
            release=rows * length > 1 << 17,
        )
    )
