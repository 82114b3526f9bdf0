"""Which of equal elements `topk` and `kthvalue` name, for short rows: the ones that PyTorch names.

Neither is stable there. `topk` selects as C++'s standard library does (D. Musser, "Introspective sorting and selection
algorithms", 1997): introselect and introsort of what it selected, or a heap where few of many are wanted. `kthvalue` is
quickselect with the median of three as it stands in W. Press et al., "Numerical Recipes". Both work on keys, unsigned integers
of the elements' order (codegen.ordering.sorting), and places beside them; the answer depends on every exchange that they make.
Longer rows are served by kernels on vectors (codegen.ordering.selection and sorting), which name the first ones. Stands on
builder, launch and jit; used by ops.sorting.sort and ops.reduction.selection.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.codegen.builder import Function, Value, Variable, kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.ordering.sorting import sort_key
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered

SHORT = 256  # longest row whose ties are resolved so
INSERTED = 16  # longest stretch that introsort leaves to insertion
HEAPED = 64  # a heap serves where a row is so many times as long as what is wanted of it

Pair = tuple[Value, Value]


class _Pairs:
    """Keys and places in working memory, as 64-bit words."""

    def __init__(self, f: Function, memory: Value, length: Value):
        self.f, self.keys = f, memory
        self.places = f.at("i64", memory, length)

    def key(self, i: Value) -> Value:
        return self.f.load("i64", self.keys, i)

    def get(self, i: Value) -> Pair:
        return self.key(i), self.f.load("i64", self.places, i)

    def put(self, i: Value, pair: Pair) -> None:
        self.f.store(pair[0], self.keys, i)
        self.f.store(pair[1], self.places, i)

    def exchange(self, i: Value, j: Value) -> None:
        a, b = self.get(i), self.get(j)
        self.put(i, b)
        self.put(j, a)

    def exchange_if_above(self, i: Value, j: Value) -> None:
        with self.f.when(self.key(j).unsigned_below(self.key(i))):
            self.exchange(i, j)

    def pass_while(self, i: Variable, step: int, holds: Callable[[Value], Value]) -> None:
        """Move i on while its key passes."""
        with self.f.repeat(lambda: holds(self.key(i.get()))):
            i.add(step)


def _insertion_sort(f: Function, rows: _Pairs, first: Value, last: Value) -> None:
    hole = f.variable("i64")
    with f.loop(first + 1, last) as i:
        pair = rows.get(i)
        hole.set(i)

        def above() -> Value:
            before = f.maximum(hole.get() - 1, first)
            return (hole.get() > first) & pair[0].unsigned_below(rows.key(before))

        with f.repeat(above):
            rows.put(hole.get(), rows.get(hole.get() - 1))
            hole.add(-1)
        rows.put(hole.get(), pair)


def _partition(f: Function, rows: _Pairs, first: Value, last: Value) -> Value:
    """Exchange until what isn't above the median of three lies before what isn't below it; where that begins."""
    a, b, c = first + 1, first + ((last - first) >> 1), last - 1
    ab, bc, ac = (rows.key(x).unsigned_below(rows.key(y)) for x, y in ((a, b), (b, c), (a, c)))
    rows.exchange(first, f.select(ab, f.select(bc, b, f.select(ac, c, a)), f.select(ac, a, f.select(bc, c, b))))
    pivot = rows.key(first)
    i, j, going = f.variable("i64"), f.variable("i64"), f.variable("i1")
    i.set(first + 1)
    j.set(last)
    going.set(1)
    with f.repeat(going.get):
        rows.pass_while(i, 1, lambda key: key.unsigned_below(pivot))
        j.add(-1)
        rows.pass_while(j, -1, pivot.unsigned_below)
        with f.branches(i.get() < j.get()) as otherwise:
            rows.exchange(i.get(), j.get())
            i.add(1)
            otherwise()
            going.set(0)
    return i.get()


def _sink(f: Function, rows: _Pairs, first: Value, hole_at: Value, length: Value, pair: Pair) -> None:
    """Put a pair into a heap of `length` pairs from `first` on, one of whose places is free: to the bottom, then up."""
    hole, child, parent = (f.variable("i64") for _ in range(3))
    hole.set(hole_at)
    child.set(hole_at)
    with f.repeat(lambda: child.get() < ((length - 1) >> 1)):
        right = (child.get() + 1) * 2
        left = right - 1
        child.set(f.select(rows.key(first + right).unsigned_below(rows.key(first + left)), left, right))
        rows.put(first + hole.get(), rows.get(first + child.get()))
        hole.set(child.get())
    with f.when(((length & 1).equals(0)) & (length > 1) & child.get().equals((length - 2) >> 1)):
        child.set(child.get() * 2 + 1)
        rows.put(first + hole.get(), rows.get(first + child.get()))
        hole.set(child.get())

    def rises() -> Value:
        below_top = hole.get() > hole_at
        parent.set(f.select(below_top, (hole.get() - 1) >> 1, hole.get()))
        return below_top & rows.key(first + parent.get()).unsigned_below(pair[0])

    with f.repeat(rises):
        rows.put(first + hole.get(), rows.get(first + parent.get()))
        hole.set(parent.get())
    rows.put(first + hole.get(), pair)


def _heap_select(f: Function, rows: _Pairs, first: Value, middle: Value, last: Value) -> None:
    """The least of [first, last) to [first, middle), as a heap."""
    length = middle - first
    with f.loop(0, length >> 1) as i:
        parent = (length >> 1) - 1 - i
        _sink(f, rows, first, parent, length, rows.get(first + parent))
    with f.loop(middle, last) as i:
        pair = rows.get(i)
        with f.when(pair[0].unsigned_below(rows.key(first))):
            rows.put(i, rows.get(first))
            _sink(f, rows, first, f.i64(0), length, pair)


def _sort_heap(f: Function, rows: _Pairs, first: Value, last: Value) -> None:
    with f.loop(0, f.maximum(last - first - 1, 0)) as i:
        end = last - 1 - i
        pair = rows.get(end)
        rows.put(end, rows.get(first))
        _sink(f, rows, first, f.i64(0), end - first, pair)


def _most_rounds(f: Function, count: Value) -> Value:
    """2 floor(log2(count)): after so many partitions it's a heap's turn; `count` isn't 0."""
    return (f.i64(63) - f.call("i64", "llvm.ctlz.i64", count, f.value(1, "i1"))) * 2


def _introselect(f: Function, rows: _Pairs, place: Value, length: Value) -> None:
    """What the sorted row has at `place` to that place, and what isn't above it before it."""
    first, last, left = f.variable("i64"), f.variable("i64"), f.variable("i64")
    first.set(0)
    last.set(length)
    left.set(_most_rounds(f, length))
    with f.repeat(lambda: (last.get() - first.get()) > 3):
        with f.branches(left.get().equals(0)) as otherwise:
            _heap_select(f, rows, first.get(), place + 1, last.get())
            rows.exchange(first.get(), place)
            last.set(first.get())
            otherwise()
            left.add(-1)
            cut = _partition(f, rows, first.get(), last.get())
            before = cut <= place
            first.set(f.select(before, cut, first.get()))
            last.set(f.select(before, last.get(), cut))
    _insertion_sort(f, rows, first.get(), last.get())


def _introsort(f: Function, rows: _Pairs, count: Value) -> None:
    """The first `count` pairs in order."""
    stack = f.stack("i64", 3 * 64)  # stretches still to be partitioned: first, last, partitions left
    waiting, first, last, left = (f.variable("i64") for _ in range(4))
    f.store(f.i64(0), stack, 0)
    f.store(count, stack, 1)
    f.store(_most_rounds(f, f.maximum(count, 1)), stack, 2)
    waiting.set(1)
    with f.repeat(lambda: waiting.get() > 0):
        waiting.add(-1)
        at = waiting.get() * 3
        first.set(f.load("i64", stack, at))
        last.set(f.load("i64", stack, at + 1))
        left.set(f.load("i64", stack, at + 2))
        with f.repeat(lambda: (last.get() - first.get()) > INSERTED):
            with f.branches(left.get().equals(0)) as otherwise:
                _heap_select(f, rows, first.get(), last.get(), last.get())
                _sort_heap(f, rows, first.get(), last.get())
                last.set(first.get())
                otherwise()
                left.add(-1)
                cut = _partition(f, rows, first.get(), last.get())
                above = waiting.get() * 3
                f.store(cut, stack, above)
                f.store(last.get(), stack, above + 1)
                f.store(left.get(), stack, above + 2)
                waiting.add(1)
                last.set(cut)
    _insertion_sort(f, rows, f.i64(0), count)


def _quickselect(f: Function, rows: _Pairs, place: Value, length: Value) -> None:
    """What the sorted row has at `place` to that place."""
    low, high = f.variable("i64"), f.variable("i64")
    i, j, going = f.variable("i64"), f.variable("i64"), f.variable("i1")
    low.set(0)
    high.set(length - 1)
    with f.repeat(lambda: high.get() > low.get() + 1):
        second = low.get() + 1
        rows.exchange(low.get() + ((high.get() - low.get()) >> 1), second)
        rows.exchange_if_above(second, high.get())
        rows.exchange_if_above(low.get(), high.get())
        rows.exchange_if_above(second, low.get())
        pivot = rows.key(low.get())
        i.set(second)
        j.set(high.get())
        going.set(1)
        with f.repeat(going.get):
            i.add(1)
            rows.pass_while(i, 1, lambda key: key.unsigned_below(pivot))
            j.add(-1)
            rows.pass_while(j, -1, pivot.unsigned_below)
            with f.branches(j.get() < i.get()) as otherwise:
                going.set(0)
                otherwise()
                rows.exchange(i.get(), j.get())
        rows.exchange(low.get(), j.get())
        end = j.get()
        low.set(f.select(end <= place, i.get(), low.get()))
        high.set(f.select(end >= place, end - 1, high.get()))
    with f.when(high.get().equals(low.get() + 1)):
        rows.exchange_if_above(low.get(), high.get())


@compiled(INDEXED)
def _kernel(dtype: DType, which: str, descending: bool) -> str:
    """Over rows: constants (length, inner rows, strides outwards, inwards and along the row: of results, then of the input; k).

    which: "heap" or "select" (the k first, in order) or "place" (the k-th alone). Slots: values, places, input.
    """
    f = kernel()
    constants = f.pointer(f.parameter(0))
    length, inner_rows, *steps, k = (f.load("i64", constants, i) for i in range(9))
    values, places, source = f.buffer(0), f.buffer(1), f.buffer(2)
    rows = _Pairs(f, f.at("i64", f.pointer(f.parameter(1)), f["thread"] * (length * 2)), length)
    element = f"i{8 * dtype.itemsize}"
    with f.loop(f["begin"], f["end"]) as r:
        outer, inner = r.unsigned_div(inner_rows), r.unsigned_rem(inner_rows)
        out, x = outer * steps[0] + inner * steps[1], outer * steps[3] + inner * steps[4]
        with f.loop(0, length) as i:
            key = sort_key(f, dtype, descending, f.load(element, source, x + i * steps[5]))
            rows.put(i, (key if dtype.itemsize == 8 else f.convert(key, "i64", "zext"), i))
        if which == "place":
            _quickselect(f, rows, k - 1, length)
        elif which == "heap":
            _heap_select(f, rows, f.i64(0), k, length)
            _sort_heap(f, rows, f.i64(0), k)
        else:
            _introselect(f, rows, k - 1, length)
            _introsort(f, rows, k - 1)
        with f.loop(k - 1 if which == "place" else f.i64(0), k) as i:
            place = rows.get(i)[1]
            to = out if which == "place" else out + i * steps[2]
            f.store(f.load(element, source, x + place * steps[5]), values, to)
            f.store(place, places, to)
    return module(f)


def ties_plan(
    layout: Layout,
    outputs: tuple[Layout, Layout],
    geometry: tuple[int, ...],
    count: int,
    k: int,
    descending: bool = False,
    alone: bool = False,
) -> Callable:
    """launch(None, None, x) -> (values, places) of the k first of each of `count` rows in order, or of the k-th `alone`.

    geometry: length of a row, rows per outer step, then strides outwards, inwards and along a row, of the results and the input.
    """
    length = geometry[0]
    which = "place" if alone else "heap" if k * HEAPED <= length else "select"
    phases = []
    if count:
        phases.append(Phase(_kernel(layout.dtype, which, descending), count, max(1, 4096 // length), [*geometry, k]))
    return lowered(
        Plan(
            phases,
            outputs,
            [layout],
            scratch=16 * length * max(1, min(planned_threads(), count)),
            release=count * length > 1 << 15,
        )
    )
