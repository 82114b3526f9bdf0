"""Moving elements: strided copies, gathers through index tensors, and scatters that overwrite or combine.

One kernel family serves cat, flip, roll, pad, fold, index, gather, embedding, index_put, scatter_add and their relatives. A
`Move` says which axes are walked, how the two buffers step along them, and which index tensors add to the place in the first
one. Indices are checked before memory is touched; a bad one leaves INDEX_ERROR and moves nothing. Scatters are deterministic:
each thread owns a range of destinations and meets the sources in order. Stands on builder, launch and jit; used by ops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.base.memory_order import extent
from flambeau.codegen.builder import Function, Odometer, Value, kernel, module
from flambeau.codegen.element_type import kind_of, narrow, widen
from flambeau.codegen.jit import KernelRef
from flambeau.codegen.llvm import LIGHT, VECTORISED
from flambeau.codegen.plan import Phase
from flambeau.codegen.runtime.threads import planned_threads

INDEX_ERROR = 1
COMPLEX_PRODUCT = "product"  # how complex numbers combine by "mul"; sums are those of their parts
UNIT = 32768  # bytes of work worth waking a second thread for, times four
MOVED = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "i128"}
BYTES = {type: size for size, type in MOVED.items() if size <= 8}  # of the elements that vectors are made of
VECTOR = 64  # bytes
ARITHMETIC = {
    "uint8": "i8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
    "float64": "double",
    "bool": "i8",
}

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Buffer:
    """An operand: its parameter slot (outputs first, then inputs), first element, and a stride per axis."""

    slot: int
    offset: int
    strides: Strides


@dataclass(frozen=True)
class Index:
    """An index tensor: its buffer, its integer type, and the stride and size of the dimension that it indexes."""

    buffer: Buffer
    type: str
    stride: int
    extent: int


@dataclass(frozen=True)
class Move:
    """For every position of `sizes`: place + indices -> other, or with `write` other -> place + indices.

    combine: None (overwrite), "add", "mul", "min", "max": what a write does with the element that is there.
    wraps: negative indices count from the end. serial: destinations may coincide, so one thread does all of it.
    """

    dtype: DType
    sizes: Strides
    place: Buffer
    other: Buffer
    indices: tuple[Index, ...] = ()
    write: bool = False
    combine: str | None = None
    wraps: bool = True
    serial: bool = False


@dataclass(frozen=True)
class _Form:
    type: str
    unsigned: bool
    outer: int
    classes: str  # inner stride of place and other: 0, 1, r (-1) or x
    indices: tuple[str, ...]  # integer type and inner class of each index
    write: bool
    combine: str | None
    wraps: bool
    split: str  # how a write is divided: "" by units, "owned" by destination, "columns" by the inner axis

    def in_vectors(self) -> bool:
        """Whether rows are plain copies into neighbouring elements, which the text states in vectors."""
        target, source = tuple(self.classes) if self.write else tuple(reversed(self.classes))
        return (
            target == "1"
            and source in "01r"
            and self.combine is None
            and self.type in BYTES
            and all(described[-1] == "0" for described in self.indices)
        )


def _class(stride: int) -> str:
    return {0: "0", 1: "1", -1: "r"}.get(stride, "x")


def combined(f: Function, combine: str, a: Value, b: Value, unsigned: bool) -> Value:
    """a and b added, multiplied, ... ; half and bfloat16 in float32; NaN wins in min and max."""
    type = a.type
    if type == "half":
        wide = combined(f, combine, f.convert(a, "float", "fpext"), f.convert(b, "float", "fpext"), unsigned)
        return f.convert(wide, type, "fptrunc")
    if type == "bfloat":  # in integers: where the processor has no instruction, LLVM calls a function of its own library
        kind = kind_of("bfloat16")
        x, y = (widen(f, kind, f.convert(value, kind.storage, "bitcast")) for value in (a, b))
        return f.convert(narrow(f, kind, combined(f, combine, x, y, unsigned)), type, "bitcast")
    if combine == "add":
        return a + b
    if combine == "mul":
        return a * b
    if type in ("float", "double"):
        better = b < a if combine == "min" else b > a
        return f.select(f.emit("i1", f"or i1 {better.name}, {b.differs(b).name}"), b, a)
    sign = "u" if unsigned else "s"
    return f.call(type, f"llvm.{sign}{combine}.{type}", a, b)


@cache
def _kernel(form: _Form) -> KernelRef:
    single = {*form.classes, *(described[-1] for described in form.indices)} == {"0"}  # elements to a row
    return KernelRef(
        _text,
        (form,),
        LIGHT if single or form.in_vectors() else VECTORISED,
        describe=repr,
        name=f"move.{form.combine or ('write' if form.write else 'read')}.{form.type}",
    )


def _text(form: _Form) -> str:
    return _Writer(form).text()


class _Writer:
    """Writes the kernel of a form: constants, the walk over the units, and what a unit does."""

    def __init__(self, form: _Form):
        self.form, self.f = form, kernel()
        f = self.f
        self.constants, self.position = f.pointer(f.parameter(0)), itertools.count()
        self.sizes = self._several()
        self.chunks, self.length, self.chunk, self.units, self.parts = (self._constant() for _ in range(5))
        self.place, self.place_strides, self.place_inner = self._buffer(form.type), self._several(), self._constant()
        self.other, self.other_strides, self.other_inner = self._buffer(form.type), self._several(), self._constant()
        self.indices = [
            _Indices(described, self._buffer(described[:-1]), self._several(), *(self._constant() for _ in range(3)))
            for described in form.indices
        ]
        self.error = f.variable("i64", 0)

    def _constant(self) -> Value:
        return self.f.load("i64", self.constants, next(self.position))

    def _several(self) -> list[Value]:
        return [self._constant() for _ in range(self.form.outer)]

    def _buffer(self, type: str) -> Value:
        slot, offset = self._constant(), self._constant()
        return self.f.at(type, self.f.pointer(self.f.load("i64", self.f["p"], slot + 4)), offset)

    def text(self) -> str:
        f, whole = self.f, self.f.i64(0)
        if self.form.split == "owned":
            extent = self.indices[0].extent
            with f.loop(f["begin"], f["end"]) as part:
                mine = [(extent * (part + k)).unsigned_div(self.parts) for k in (0, 1)]
                self._walk(whole, self.units, owned=mine)
        elif self.form.split == "columns":
            with f.loop(f["begin"], f["end"]) as part:
                columns = [f.minimum((part + k) * self.chunk, self.length) for k in (0, 1)]
                self._walk(whole, self.units, columns=columns)
        else:
            self._walk(f["begin"], f["end"])
        with f.when(self.error.get().differs(0)):
            f.store(self.error.get(), f["p"], 2)
        return module(f)

    def _walk(self, first: Value, last: Value, columns: Sequence[Value] = (), owned: list[Value] | None = None) -> None:
        """Units `first` to `last`; columns: which of each row's elements; owned: which destinations of the first index."""
        f = self.f
        odometer = Odometer(f, [*self.sizes, self.chunks], first)
        with f.loop(first, last):
            *at, chunk = odometer.read()
            begin = chunk * self.chunk
            begin, end = columns or (begin, f.minimum(begin + self.chunk, self.length))
            self._unit(at, begin, end, owned)
            odometer.advance()

    def _unit(self, at: list[Value], begin: Value, end: Value, owned: list[Value] | None) -> None:
        """Elements `begin` to `end` of the row at outer coordinates `at`."""
        f, form = self.f, self.form
        base = f.at(form.type, self.place, _offset(f, at, self.place_strides))
        partner = f.at(form.type, self.other, _offset(f, at, self.other_strides))
        rows = [_offset(f, at, index.strides) for index in self.indices]
        fixed = [k for k, index in enumerate(self.indices) if index.kind == "0"]
        varying = [k for k, index in enumerate(self.indices) if index.kind != "0"]

        def run(base: Value) -> None:
            first = self._vectors(base, partner, begin, end) if form.in_vectors() else begin
            with f.loop(first, end) as j:
                own = f.at(form.type, base, _step(f, form.classes[0], j, self.place_inner))
                theirs = f.at(form.type, partner, _step(f, form.classes[1], j, self.other_inner))
                self._resolve(varying, rows, j, own, owned, lambda place: self._transfer(place, theirs))

        # the first index decides ownership, so it is resolved first when it is fixed along the row
        self._resolve(fixed, rows, None, base, owned, run)

    def _vectors(self, base: Value, partner: Value, begin: Value, end: Value) -> Value:
        """Copy whole vectors of the elements from `begin` on, long ones while they last; where they end."""
        f, form = self.f, self.form
        source, target, kind = (partner, base, form.classes[1]) if form.write else (base, partner, form.classes[0])
        size = BYTES[form.type]
        for width in (4 * VECTOR // size, VECTOR // 2 // size):
            vector = f"<{width} x {form.type}>"
            last = begin + ((end - begin) & -width)
            with f.loop(begin, last, width) as j:
                if kind == "0":
                    value = f.splat(f.load(form.type, source), width)
                elif kind == "1":
                    value = f.load(vector, source, j, align=size)
                else:
                    value = f.load(vector, source, -j - (width - 1), align=size)
                    order = ", ".join(f"i32 {width - 1 - i}" for i in range(width))
                    value = f.emit(vector, f"shufflevector {vector} {value.name}, {vector} poison, <{width} x i32> <{order}>")
                f.store(value, target, j, align=size)
            begin = last
        return begin

    def _resolve(
        self,
        which: list[int],
        rows: list[Value],
        j: Value | None,
        base: Value,
        owned: list[Value] | None,
        then: Callable[[Value], None],
    ) -> None:
        """Move `base` by the indices `which` (nested, so that a bad one stops the move), then write `then(base)`."""
        if not which:
            then(base)
            return
        f, k = self.f, which[0]
        index = self.indices[k]
        value = f.load(index.type, index.buffer, rows[k] if j is None else rows[k] + _step(f, index.kind, j, index.inner))
        if value.type == "i32":
            value = f.convert(value, "i64", "sext")
        if self.form.wraps:
            value = f.select(value < 0, value + index.extent, value)
        with f.branches(value.unsigned_below(index.extent)) as otherwise:
            moved = f.at(self.form.type, base, value * index.stride)
            if owned is None or k:
                self._resolve(which[1:], rows, j, moved, owned, then)
            else:
                mine = f.emit("i1", f"and i1 {(value >= owned[0]).name}, {(value < owned[1]).name}")
                with f.when(mine):
                    self._resolve(which[1:], rows, j, moved, owned, then)
            otherwise()
            self.error.set(INDEX_ERROR)

    def _transfer(self, place: Value, other: Value) -> None:
        f, form = self.f, self.form
        align = 8 if form.type == "i128" else 0
        if not form.write:
            f.store(f.load(form.type, place, align=align), other, align=align)
        elif form.combine is None:
            f.store(f.load(form.type, other, align=align), place, align=align)
        elif form.combine == COMPLEX_PRODUCT:
            part = "float" if form.type == "i64" else "double"
            (a, b), (c, d) = ([f.load(part, pointer, i) for i in (0, 1)] for pointer in (place, other))
            f.store(a.exact_mul(c) - b.exact_mul(d), place, 0)  # the bits of a product anywhere else (ir.complex)
            f.store(a.exact_mul(d) + b.exact_mul(c), place, 1)
        else:
            f.store(combined(f, form.combine, f.load(form.type, place), f.load(form.type, other), form.unsigned), place)


@dataclass(frozen=True)
class _Indices:
    """Indices in a kernel: where they lie, their strides, and what one of them moves by and may be."""

    described: str
    buffer: Value
    strides: list[Value]
    inner: Value
    stride: Value
    extent: Value

    @property
    def type(self) -> str:
        return self.described[:-1]

    @property
    def kind(self) -> str:
        """The stride class along the row."""
        return self.described[-1]


def _offset(f: Function, at: list[Value], strides: list[Value]) -> Value:
    total = f.i64(0)
    for coordinate, stride in zip(at, strides):
        total = total + coordinate * stride
    return total


def _step(f: Function, kind: str, j: Value, stride: Value) -> Value:
    """How far element `j` of a row lies from its start."""
    return f.i64(0) if kind == "0" else j if kind == "1" else -j if kind == "r" else j * stride


def _axes(move: Move, buffers: list[Buffer]) -> tuple[list[int], list[tuple[int, ...]]]:
    """The axes of a move in the order of its loops, merged where all buffers allow it: sizes, and strides in each buffer."""
    order = list(range(len(move.sizes)))
    if not (move.write and move.indices):
        target = move.place if move.write else move.other
        order.sort(key=lambda d: -abs(target.strides[d]) if target.strides[d] else 0)
    elif len(order) > 1 and not any(move.place.strides[d] for d in (order[0], order[-1])):
        order.sort(key=lambda d: not move.place.strides[d])  # an axis that no index reaches can be divided among threads
    sizes: list[int] = []
    steps: list[tuple[int, ...]] = []
    for d in order:
        if move.sizes[d] == 1:
            continue
        own = tuple(b.strides[d] for b in buffers)
        if sizes and all(before == s * move.sizes[d] for before, s in zip(steps[-1], own)):
            sizes[-1] *= move.sizes[d]
            steps[-1] = own
        else:
            sizes.append(move.sizes[d])
            steps.append(own)
    if not sizes:
        sizes, steps = [1], [(0,) * len(buffers)]
    return sizes, steps


def _divided(move: Move, outer: list[int], length: int, steps: list[tuple[int, ...]]) -> tuple[str, int, int, int, int]:
    """How the rows are divided among threads: (way to split them, units, units at a time, elements of a unit, parts)."""
    rows, inner = math.prod(outer), steps[-1]
    work = rows * length
    threads = planned_threads()
    unit = UNIT * 4 // move.dtype.itemsize
    if move.indices:
        unit //= 2
    split = ""
    parts = 1
    chunk = length
    grain = 1
    if move.write and (move.indices or move.serial):
        # positions along an axis that no index reaches never meet, so such an axis may be divided among threads
        lead = bool(outer) and steps[0][0] != 0
        total = grain = rows
        if move.serial or work <= unit or threads == 1:
            pass
        elif lead and outer[0] >= 2 * threads:
            grain = rows // outer[0] * max(1, outer[0] // (4 * threads))
        elif inner[0] and length * move.dtype.itemsize >= 64 * threads:
            split = "columns"
            chunk = -(-length // threads)
            chunk += -chunk % max(1, 64 // move.dtype.itemsize)
            total = parts = -(-length // chunk)
            grain = 1
        elif not any(inner[2:]) and length * move.dtype.itemsize >= 128 and move.indices[0].extent >= threads:
            split = "owned"
            total = parts = min(4 * threads, move.indices[0].extent)
            grain = 1
    else:
        if length > unit:
            pieces = max(-(-length // unit), 1)
            if rows < 4 * threads:
                chunk = -(-length // pieces)
        total = rows * -(-length // chunk)
        grain = max(1, unit // chunk)
        if total > grain:
            grain = max(1, min(grain, -(-total // (4 * threads))))
    return split, total, grain, chunk, parts


def phase(move: Move) -> Phase | None:
    """The phase that does a move; None when there is nothing to do."""
    if 0 in move.sizes:
        return None
    product = move.dtype.is_complex and move.combine == "mul" and move.dtype.itemsize in (8, 16)
    if move.dtype.is_complex and move.combine is not None and not product:
        move = _as_real(move)
    buffers = [move.place, move.other, *[i.buffer for i in move.indices]]
    sizes, steps = _axes(move, buffers)
    outer, length = sizes[:-1], sizes[-1]
    inner = steps[-1]
    if move.combine is None or product:
        type = MOVED[move.dtype.itemsize]
    elif move.dtype.name in ARITHMETIC:
        type = ARITHMETIC[move.dtype.name]
    else:
        raise NotImplementedError(f"\"scatter_gather_tensor_cpu\" not implemented for '{move.dtype.scalar_name}'")
    combine = COMPLEX_PRODUCT if product else move.combine
    if move.dtype.name == "bool" and combine is not None:
        combine = {"add": "max", "mul": "min"}.get(combine, combine)
    split, total, grain, chunk, parts = _divided(move, outer, length, steps)
    chunks = 1 if split == "columns" else -(-length // chunk)
    form = _Form(
        type,
        not move.dtype.is_signed,
        len(outer),
        _class(inner[0]) + _class(inner[1]),
        tuple(i.type + _class(s) for i, s in zip(move.indices, inner[2:])),
        move.write,
        combine,
        move.wraps,
        split,
    )
    constants = [*outer, chunks, length, chunk, math.prod(outer) * chunks, parts]
    for k, b in enumerate(buffers):
        constants += [b.slot, b.offset, *[s[k] for s in steps]]
        if k >= 2:
            constants += [move.indices[k - 2].stride, move.indices[k - 2].extent]
    return Phase(_kernel(form), total, grain, constants)


def _as_real(move: Move) -> Move:
    """A sum of complex numbers as one of their parts."""
    if move.combine != "add":
        raise NotImplementedError(f"scatters of complex numbers that combine by {move.combine!r}: sums and products are there")

    def halves(b: Buffer) -> Buffer:
        return Buffer(b.slot, 2 * b.offset, (*[2 * s for s in b.strides], 1))

    indices = tuple(
        replace(i, buffer=replace(i.buffer, strides=(*i.buffer.strides, 0)), stride=2 * i.stride) for i in move.indices
    )
    return replace(
        move,
        dtype=move.dtype.to_real(),
        sizes=(*move.sizes, 2),
        place=halves(move.place),
        other=halves(move.other),
        indices=indices,
    )


def phases(moves: Sequence[Move], operands: Sequence[Layout]) -> list[Phase]:
    """The phases of several moves between operands (outputs first). RuntimeError for one that would leave them."""
    for move in moves:
        _check_reach(move, operands)
    return [p for p in map(phase, moves) if p is not None]


def _check_reach(move: Move, operands: Sequence[Layout]) -> None:
    """RuntimeError unless all that a move touches, wherever its indices point to, lies in its operands.

    The launcher sees to it that operands lie in their storages, and the kernel that indices are in range: so whatever an
    operator has forgotten to check, no memory but the operands' is touched.
    """
    if 0 in move.sizes:
        return
    chosen = [(index.extent, index.stride) for index in move.indices]
    for buffer, more in ((move.place, chosen), (move.other, []), *[(index.buffer, []) for index in move.indices]):
        if buffer is move.place and 0 in [index.extent for index in move.indices]:
            continue  # which no index is in range of
        layout = operands[buffer.slot]
        steps = [(n - 1) * stride for n, stride in (*zip(move.sizes, buffer.strides), *more) if n > 0]
        low, high = buffer.offset + sum(s for s in steps if s < 0), buffer.offset + sum(s for s in steps if s > 0)
        if low < 0 or high >= extent(layout.shape, layout.strides):
            raise RuntimeError(
                f"elements {low} to {high} of an operand of size {list(layout.shape)} and strides "
                f"{list(layout.strides)} would be read or written: the sizes of the operands don't fit"
            )
