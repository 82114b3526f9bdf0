"""A small structured assembler: Python control flow in, LLVM IR text out.

Stands on nothing; every kernel that is not a loop nest (the runtime, sorting, pooling, random numbers ...) is written with it,
and the loop-nest emitter uses it for its loops. Values carry their LLVM type, so `a + b`, `a < b` and `f.load(...)` read as
arithmetic. Mutable variables are stack slots, which LLVM turns into registers.

    f = Function("kernel", [("p", "ptr"), ("begin", "i64"), ("end", "i64"), ("thread", "i64")])
    with f.loop(f["begin"], f["end"]) as i:
        f.store(f.load("float", x, i) + 1.0, out, i)
    text = module(f)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

INTEGERS = {"i1", "i8", "i16", "i32", "i64", "i128"}
FLOATS = {"half", "bfloat", "float", "double"}
KERNEL_PARAMETERS = [("p", "ptr"), ("begin", "i64"), ("end", "i64"), ("thread", "i64")]
SCRATCH_WORD, BUFFER_WORDS = 1, 4  # words of a kernel's parameter block: its working memory, and the first buffer
WATCH_WORD, WATCH_LOOK = -1, 0  # the word before it: 0 or the address of a watch, whose first word is the function that looks


def scalar_type(type: str) -> str:
    """The element type of a vector type, or the type itself."""
    return type[type.index("x") + 2 : -1] if type[0] == "<" else type


def float_literal(value: float, type: str = "double") -> str:
    """An exact LLVM constant (hexadecimal bits of the double it is written as)."""
    if type == "float":
        value = struct.unpack("f", struct.pack("f", value))[0]
    return "0x" + struct.pack(">d", value).hex().upper()


#: What an integer operation may have on its right, and those that commute on either side, without changing anything.
NEUTRAL = {"add": "0", "sub": "0", "mul": "1", "sdiv": "1", "udiv": "1", "or": "0", "xor": "0", "shl": "0", "lshr": "0"}


class Value:
    """An SSA value: its LLVM type, its name, and the function that owns it."""

    __slots__ = ("f", "type", "name")

    def __init__(self, f: Function, type: str, name: str):
        self.f, self.type, self.name = f, type, name

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"

    def _binary(self, other, integer: str, floating: str | None, swap: bool = False) -> Value:
        other = self.f.value(other, self.type)
        a, b = (other, self) if swap else (self, other)
        kind = scalar_type(self.type)
        op = integer if kind in INTEGERS else floating
        if op is None:
            raise TypeError(f"no such operation on {self.type}")
        if kind in INTEGERS:
            if b.name == NEUTRAL.get(op):
                return a
            if a.name == NEUTRAL.get(op) and op in ("add", "mul", "or", "xor"):
                return b
        return self.f.emit(self.type, f"{op} {self.type} {a.name}, {b.name}")

    def __add__(self, other):
        return self._binary(other, "add", "fadd contract")

    def __radd__(self, other):
        return self._binary(other, "add", "fadd contract", True)

    def __sub__(self, other):
        return self._binary(other, "sub", "fsub contract")

    def __rsub__(self, other):
        return self._binary(other, "sub", "fsub contract", True)

    def __mul__(self, other):
        return self._binary(other, "mul", "fmul contract")

    def __rmul__(self, other):
        return self._binary(other, "mul", "fmul contract", True)

    def __truediv__(self, other):
        return self._binary(other, "sdiv", "fdiv")

    def __floordiv__(self, other):
        return self._binary(other, "sdiv", None)

    def __mod__(self, other):
        return self._binary(other, "srem", "frem")

    def __and__(self, other):
        return self._binary(other, "and", None)

    def __or__(self, other):
        return self._binary(other, "or", None)

    def __xor__(self, other):
        return self._binary(other, "xor", None)

    def __lshift__(self, other):
        return self._binary(other, "shl", None)

    def __rshift__(self, other):
        return self._binary(other, "lshr", None)

    def __neg__(self):
        return (
            self.f.value(0, self.type) - self
            if scalar_type(self.type) in INTEGERS
            else self.f.emit(self.type, f"fneg {self.type} {self.name}")
        )

    def exact_mul(self, other):
        return self._binary(other, "mul", "fmul")  # rounded before anything is added to it

    def unsigned_div(self, other):
        return self._binary(other, "udiv", None)

    def unsigned_rem(self, other):
        return self._binary(other, "urem", None)

    def _compare(self, other, integer: str, floating: str) -> Value:
        other = self.f.value(other, self.type)
        kind = scalar_type(self.type)
        result = "i1" if self.type[0] != "<" else self.type[: self.type.index("x") + 2] + "i1>"
        op = f"fcmp {floating}" if kind in FLOATS else f"icmp {integer}"
        return self.f.emit(result, f"{op} {self.type} {self.name}, {other.name}")

    def __lt__(self, other):
        return self._compare(other, "slt", "olt")

    def __le__(self, other):
        return self._compare(other, "sle", "ole")

    def __gt__(self, other):
        return self._compare(other, "sgt", "ogt")

    def __ge__(self, other):
        return self._compare(other, "sge", "oge")

    def equals(self, other) -> Value:
        return self._compare(other, "eq", "oeq")

    def differs(self, other) -> Value:
        return self._compare(other, "ne", "une")

    def unsigned_below(self, other) -> Value:
        return self._compare(other, "ult", "ult")

    def __bool__(self):
        raise TypeError("a kernel value has no truth while the kernel is being written; use f.when / f.select")


class Variable:
    """A mutable local: `v.get()`, `v.set(value)`."""

    def __init__(self, f: Function, type: str, slot: str):
        self.f, self.type, self.slot = f, type, slot

    def get(self) -> Value:
        return self.f.emit(self.type, f"load {self.type}, ptr {self.slot}")

    def set(self, value) -> None:
        value = self.f.value(value, self.type)
        self.f.line(f"store {self.type} {value.name}, ptr {self.slot}")

    def add(self, value) -> None:
        self.set(self.get() + value)


class Function:
    """One LLVM function under construction."""

    def __init__(
        self, name: str, parameters: list[tuple[str, str]], result: str = "void", linkage: str = "", attributes: str = ""
    ):
        self.name, self.parameters, self.result, self.linkage = name, parameters, result, linkage
        self.attributes = attributes
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.preheader: list[str] | None = None  # lines in front of the loop that is being written
        self.declarations: set[str] = set()
        self.metadata: list[str] = []
        self.counter = 0
        self.by_name = {n: Value(self, t, f"%{n}") for n, t in parameters}

    def __getitem__(self, name: str) -> Value:
        return self.by_name[name]

    # ---- plumbing
    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def label(self) -> str:
        self.counter += 1
        return f"b{self.counter}"

    def line(self, text: str) -> None:
        self.lines.append(" " + text)

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def emit(self, type: str, text: str) -> Value:
        name = self.fresh()
        self.lines.append(f" {name} = {text}")
        return Value(self, type, name)

    def value(self, x, type: str) -> Value:
        """`x` as a value of `type`: a Value as it is, a Python number as a constant (splat for vectors)."""
        if isinstance(x, Value):
            return x
        kind = scalar_type(type)
        literal = float_literal(float(x), kind) if kind in FLOATS else ("true" if x else "false") if kind == "i1" else str(int(x))
        if kind in ("half", "bfloat") and not isinstance(x, Value):
            literal = {0.0: "0.0", 1.0: "1.0"}[float(x)]
        if type[0] == "<":
            if float(x) == 0.0:
                return Value(self, type, "zeroinitializer")
            count = int(type[1 : type.index("x")])
            literal = "<" + ", ".join([f"{kind} {literal}"] * count) + ">"
        return Value(self, type, literal)

    def i64(self, x) -> Value:
        return self.value(x, "i64")

    def pointer(self, address: Value) -> Value:
        return self.emit("ptr", f"inttoptr i64 {address.name} to ptr")

    def address(self, pointer: Value) -> Value:
        return self.emit("i64", f"ptrtoint ptr {pointer.name} to i64")

    def splat(self, value: Value, lanes: int) -> Value:
        """A vector of `lanes` elements, all `value`."""
        type = f"<{lanes} x {value.type}>"
        first = self.emit(type, f"insertelement {type} poison, {value.type} {value.name}, i32 0")
        return self.emit(type, f"shufflevector {type} {first.name}, {type} poison, <{lanes} x i32> zeroinitializer")

    # ---- memory
    def stack(self, type: str, count: int = 1, align: int = 0) -> Value:
        """`count` elements on the stack, reserved once at function entry."""
        name = self.fresh()
        self.entry.append(f" {name} = alloca [{count} x {type}]" + (f", align {align}" if align else ""))
        return Value(self, "ptr", name)

    def variable(self, type: str, initial=None) -> Variable:
        name = self.fresh()
        self.entry.append(f" {name} = alloca {type}")
        v = Variable(self, type, name)
        if initial is not None:
            v.set(initial)
        return v

    def at(self, type: str, pointer: Value, index) -> Value:
        """Address of element `index` of an array of `type`."""
        index = self.value(index, "i64")
        if index.name == "0":
            return pointer
        return self.emit("ptr", f"getelementptr {type}, ptr {pointer.name}, i64 {index.name}")

    def fetch(self, place: Value, to_write: bool = False) -> None:
        """Ask for a cache line that will be read soon, or written; it may lie outside of all memory."""
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.line(f"call void @llvm.prefetch.p0(ptr {place.name}, i32 {to_write:d}, i32 3, i32 1)")

    def load(self, type: str, pointer: Value, index=None, align: int = 0, suffix: str = "") -> Value:
        if index is not None:
            pointer = self.at(scalar_type(type), pointer, index)
        return self.emit(type, f"load {type}, ptr {pointer.name}" + (f", align {align}" if align else "") + suffix)

    def store(self, value, pointer: Value, index=None, align: int = 0, suffix: str = "") -> None:
        if index is not None:
            pointer = self.at(scalar_type(value.type), pointer, index)
        self.line(f"store {value.type} {value.name}, ptr {pointer.name}" + (f", align {align}" if align else "") + suffix)

    # ---- control flow
    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Value, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition.name}, label %{then}, label %{otherwise}")

    @contextmanager
    def loop(self, begin, end, step=1, metadata: str = "") -> Iterator[Value]:
        """for i in range(begin, end, step), with a positive step."""
        begin, end = self.value(begin, "i64"), self.value(end, "i64")
        step = self.value(step, "i64")
        before, body, latch, after = self.label(), self.label(), self.label(), self.label()
        self.jump(before)
        self.start(before)
        outer, self.preheader, front = self.preheader, [], len(self.lines)
        self.lines.append("")
        self.branch(begin < end, body, after)
        self.start(body)
        i = Value(self, "i64", self.fresh())
        position = len(self.lines)
        self.lines.append("")
        yield i
        self.lines[front] = "\n".join(self.preheader)
        self.preheader = outer
        self.jump(latch)
        self.start(latch)
        following = self.emit("i64", f"add nsw i64 {i.name}, {step.name}")
        self.line(f"br i1 {(following < end).name}, label %{body}, label %{after}{metadata}")
        self.lines[position] = f" {i.name} = phi i64 [{begin.name}, %{before}], [{following.name}, %{latch}]"
        self.start(after)

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """What is written in this context comes first in the function: it must depend on its parameters alone."""
        self.lines, inside = self.entry, self.lines
        yield
        self.lines = inside

    @contextmanager
    def before_loop(self) -> Iterator[None]:
        """What is written in this context comes in front of the innermost loop being written, if there is one: it must not depend
        on anything in the loop.
        """
        if self.preheader is None:
            yield
            return
        self.lines, inside = self.preheader, self.lines
        yield
        self.lines = inside

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """if condition: ..."""
        then, after = self.label(), self.label()
        self.branch(condition, then, after)
        self.start(then)
        yield
        self.jump(after)
        self.start(after)

    @contextmanager
    def branches(self, condition: Value):
        """`with f.branches(c) as otherwise: ...; otherwise(); ...` is if/else."""
        then, other, after = self.label(), self.label(), self.label()
        self.branch(condition, then, other)
        self.start(then)

        def otherwise() -> None:
            self.jump(after)
            self.start(other)

        yield otherwise
        self.jump(after)
        self.start(after)

    @contextmanager
    def repeat(self, condition) -> Iterator[None]:
        """while condition(): ... (`condition` emits the test)."""
        test, body, after = self.label(), self.label(), self.label()
        self.jump(test)
        self.start(test)
        self.branch(condition(), body, after)
        self.start(body)
        yield
        self.jump(test)
        self.start(after)

    def ret(self, value: Value | None = None) -> None:
        """Return from the middle of the function; what follows is a new, unreachable-unless-branched block."""
        self.line(f"ret {value.type} {value.name}" if value is not None else "ret void")
        self.start(self.label())

    # ---- arithmetic
    def select(self, condition: Value, a, b) -> Value:
        type = a.type if isinstance(a, Value) else b.type
        a, b = self.value(a, type), self.value(b, type)
        return self.emit(type, f"select {condition.type} {condition.name}, {type} {a.name}, {type} {b.name}")

    def minimum(self, a: Value, b) -> Value:
        b = self.value(b, a.type)
        return self.select(a < b, a, b)

    def maximum(self, a: Value, b) -> Value:
        b = self.value(b, a.type)
        return self.select(a > b, a, b)

    def convert(self, value: Value, type: str, op: str) -> Value:
        """`op` is an LLVM cast: sext zext trunc fpext fptrunc sitofp uitofp fptosi bitcast ..."""
        return self.emit(type, f"{op} {value.type} {value.name} to {type}")

    def call(
        self, result: str, name: str, *arguments: Value, declare: bool = True, attributes: str = "", fast: str = ""
    ) -> Value | None:
        """fast: flags of an intrinsic on floats, such as "reassoc"."""
        if declare:
            types = ", ".join(a.type for a in arguments)
            self.declarations.add(f"declare {result} @{name}({types}){attributes}")
        listed = ", ".join(f"{a.type} {a.name}" for a in arguments)
        if result == "void":
            self.line(f"call void @{name}({listed})")
            return None
        return self.emit(result, f"call {fast} {result} @{name}({listed})")

    def call_pointer(self, result: str, pointer: Value, *arguments: Value) -> Value | None:
        listed = ", ".join(f"{a.type} {a.name}" for a in arguments)
        if result == "void":
            self.line(f"call void {pointer.name}({listed})")
            return None
        return self.emit(result, f"call {result} {pointer.name}({listed})")

    def fma(self, a: Value, b, c) -> Value:
        b, c = self.value(b, a.type), self.value(c, a.type)
        suffix = (
            a.type if a.type[0] != "<" else "v" + a.type[1:-1].replace(" x ", "").replace("float", "f32").replace("double", "f64")
        )
        suffix = {"float": "f32", "double": "f64"}.get(suffix, suffix)
        return self.call(a.type, f"llvm.fma.{suffix}", a, b, c)

    # ---- kernels
    def parameter(self, index: int) -> Value:
        """Word `index` of a kernel's parameter block, as an i64."""
        return self.load("i64", self["p"], index)

    def buffer(self, slot: int) -> Value:
        """Base address of buffer `slot` (outputs first, then inputs)."""
        return self.pointer(self.parameter(BUFFER_WORDS + slot))

    def leave_if_ended(self, result: Value | None = None) -> None:
        """Return, if the job is to end before its time: a handler of a signal has raised. Needs `p` and `thread`, as a kernel has
        them.
        """
        watch = self.parameter(WATCH_WORD)
        with self.when(watch.differs(0)):
            look = self.load("ptr", self.pointer(watch), WATCH_LOOK)
            with self.when(self.call_pointer("i64", look, self.pointer(watch), self["thread"]).differs(0)):
                self.ret(result)

    @contextmanager
    def stretches(self, begin, end, length: int = 1 << 18, result: Value | None = None) -> Iterator[tuple[Value, Value]]:
        """`with f.stretches(a, b) as (first, last)`: [a, b) in pieces; between two, a job that is to end is left with `result`.

        For what may take longer than a tenth of a second within one chunk: else nothing looks there whether the user wants to
        interrupt it.
        """
        end = self.i64(end)
        with self.loop(begin, end, length) as first:
            with self.when(first.differs(begin)):
                self.leave_if_ended(result)
            yield first, self.minimum(first + length, end)

    def text(self) -> str:
        listed = ", ".join(f"{t} %{n}" for n, t in self.parameters)
        tail = "ret void" if self.result == "void" else "unreachable"
        body = "\n".join(["entry:", *self.entry, *self.lines, " " + tail])
        return f"define {self.linkage} {self.result} @{self.name}({listed}) {self.attributes} {{\n{body}\n}}\n"


class Odometer:
    """The coordinates of a running index, the last of which moves fastest: found by division once, then by carrying."""

    def __init__(self, f: Function, sizes: Sequence[Value], first: Value):
        self.f, self.sizes = f, list(sizes)
        rest, found = first, []
        for size in reversed(self.sizes[1:]):
            found.append(rest.unsigned_rem(size))
            rest = rest.unsigned_div(size)
        self.coordinates = [f.variable("i64", value) for value in (rest, *reversed(found))]

    def read(self) -> list[Value]:
        """The coordinates."""
        return [coordinate.get() for coordinate in self.coordinates]

    def advance(self) -> None:
        """Move on by one."""
        f = self.f
        carry = f.value(1, "i1")
        for coordinate, size in zip(reversed(self.coordinates[1:]), reversed(self.sizes[1:])):
            following = coordinate.get() + f.convert(carry, "i64", "zext")
            carry = following.equals(size)
            coordinate.set(f.select(carry, f.i64(0), following))
        first = self.coordinates[0]
        first.set(first.get() + f.convert(carry, "i64", "zext"))


def kernel(name: str = "kernel", attributes: str = "nounwind") -> Function:
    """An empty function with the signature of a kernel."""
    return Function(name, KERNEL_PARAMETERS, attributes=attributes)


def module(*functions: Function) -> str:
    """The text of a module: declarations, functions, metadata."""
    own = {f.name for f in functions}
    declared = sorted({d for f in functions for d in f.declarations if d.split("@")[1].split("(")[0] not in own})
    return "\n".join([*declared, *(f.text() for f in functions), *(m for f in functions for m in f.metadata)])
