"""Functions that work on vectors: the structured assembler with masks, shuffles, constants of a phase and scratch memory.

Stands on builder.py; every kernel that is no loop nest is written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from flambeau.codegen.builder import BUFFER_WORDS, KERNEL_PARAMETERS, SCRATCH_WORD, Function, Value, scalar_type

BYTES = {"float": 4, "double": 8, "half": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}


def vector(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>"


def suffix(type: str) -> str:
    """How intrinsics spell a type."""
    if type[0] == "<":
        lanes, element = type[1:-1].split(" x ")
        return f"v{lanes}{_SUFFIX.get(element, element)}"
    return _SUFFIX.get(type, type)


class Kernel(Function):
    """A Function with vector helpers; `internal` helpers of a module are Kernels as well."""

    def __init__(self, name: str = "kernel", parameters: Sequence[tuple[str, str]] = KERNEL_PARAMETERS, internal: bool = False):
        super().__init__(
            name,
            list(parameters),
            linkage="internal" if internal else "",
            attributes="noinline nounwind" if internal else "nounwind",
        )

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        mask = ", ".join(f"i32 {i}" for i in order)
        return self.emit(
            vector(scalar_type(a.type), len(order)),
            f"shufflevector {a.type} {a.name}, {b.type} {b.name}, <{len(order)} x i32> <{mask}>",
        )

    def mask(self, count: Value, lanes: int) -> Value:
        """Lane i is on where i < count."""
        narrow = self.minimum(self.maximum(count, 0), lanes)
        wide = self.splat(self.convert(narrow, "i32", "trunc"), lanes)
        steps = "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">"
        return self.emit(vector("i1", lanes), f"icmp slt <{lanes} x i32> {steps}, {wide.name}")

    def masked_load(self, type: str, pointer: Value, mask: Value, align: int = 1) -> Value:
        name = f"llvm.masked.load.{suffix(type)}.p0"
        self.declarations.add(f"declare {type} @{name}(ptr, i32, {mask.type}, {type})")
        return self.emit(
            type, f"call {type} @{name}(ptr {pointer.name}, i32 {align}, {mask.type} {mask.name}, {type} zeroinitializer)"
        )

    def masked_store(self, value: Value, pointer: Value, mask: Value, align: int = 1) -> None:
        name = f"llvm.masked.store.{suffix(value.type)}.p0"
        self.declarations.add(f"declare void @{name}({value.type}, ptr, i32, {mask.type})")
        self.line(f"call void @{name}({value.type} {value.name}, ptr {pointer.name}, i32 {align}, {mask.type} {mask.name})")

    def ceiling_division(self, a: Value, b: Value | int) -> Value:
        b = self.i64(b)
        return (a + b - 1).unsigned_div(b)

    def constants(self, names: Sequence[str]) -> Constants:
        """The phase's constants by name, in the order in which the plan lists them."""
        return Constants(self, self.load("ptr", self["p"]), names)

    def slot(self, index: Value) -> Value:
        """Address of the buffer whose number is a value."""
        return self.pointer(self.load("i64", self["p"], index + BUFFER_WORDS))

    def scratch(self, offset: Value) -> Value:
        return self.at("i8", self.load("ptr", self["p"], SCRATCH_WORD), offset)


class Constants(Mapping[str, Value]):
    """A phase's constants by name, each loaded where it is used: LLVM takes long to place so many values in registers.

    That they never change is said, so that where code is simplified they are still loaded in front of loops.
    """

    def __init__(self, f: Kernel, block: Value, names: Sequence[str]) -> None:
        self._f, self._block, self._places = f, block, {name: i for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> Value:
        return self._f.load("i64", self._block, self._places[name], suffix=", !invariant.load !{}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def transpose_tile(f: Kernel, item: str, tile: Value, lanes: int, column: Value) -> list[Value]:
    """Columns `column`, `column` + 1, ... (as many as 16 bytes hold) of a tile of `lanes` rows of `lanes` items."""
    few = vector(item, 16 // BYTES[item])
    return transpose_rows(f, item, lanes, lambda r: f.load(few, tile, column + r * lanes, align=BYTES[item]))


def transpose_rows(f: Kernel, item: str, lanes: int, piece: Callable[[int], Value]) -> list[Value]:
    """Columns of `lanes` rows, of which `piece(row)` gives as many items as 16 bytes hold.

    The pieces are put side by side, so that all that is left are transpositions within 16 bytes: little code to compile.
    """
    count = 16 // BYTES[item]
    pieces = []
    for i in range(count):
        parts = [piece(r) for r in range(i, lanes, count)]
        while len(parts) > 1:
            size = 2 * int(parts[0].type[1:].split(" ")[0])
            parts = [f.shuffle(a, b, range(size)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        pieces.append(parts[0])
    return transpose_pieces(f, pieces)


def transpose_pieces(f: Kernel, rows: Sequence[Value]) -> list[Value]:
    """As many rows as 16 bytes hold items, transposed: the q-th 16 bytes of result i are item q * count + i of each row.

    For each such step a processor has an instruction, and LLVM finds it at once; other orders take it a third of a ms each.
    """
    pieces, count = list(rows), len(rows)
    lanes, distance = int(rows[0].type[1:].split(" ")[0]), 1
    while distance < count:
        low: list[int] = []
        for start in range(0, lanes, count):
            for first in range(start, start + count // 2, distance):
                low += [source + first + e for source in (0, lanes) for e in range(distance)]
        high = [i + count // 2 for i in low]
        following = list(pieces)
        for i in range(count):
            if not i & distance:
                a, b = pieces[i], pieces[i + distance]
                following[i], following[i + distance] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        pieces, distance = following, distance * 2
    return [pieces[i] for i in ((0, 2, 1, 3) if count == 4 else range(count))]
