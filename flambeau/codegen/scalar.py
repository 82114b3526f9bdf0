"""Scalar expressions to LLVM IR text.

`Lowering` turns an `Expr` into straight-line instructions, one SSA value per shared subexpression. They work on single
numbers or, with a `width`, on that many elements at once: the same text with vector types, which LLVM splits into the
machine's own. Named functions (exp, sin, ...) are first expanded to their bodies. Stands on ir.scalar, ir.functions and
codegen.loops.outline. Used by the nest compiler and by simd.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from flambeau.base.dtype import FLOAT8, bfloat16, bool_, complex32, float16, float32, float64, int32, int64, uint64
from flambeau.base.dtype import dtype as DType
from flambeau.codegen import small_floats
from flambeau.codegen.loops.outline import apart_function, rare_function, repeat_function, sometimes_function
from flambeau.ir.functions import expand
from flambeau.ir.scalar import Expr, compute_dtype, is_integral, leaf, leaves_of, part_dtype, substitute, topological

__all__ = ["Lowering", "compute_dtype", "literal", "llvm_type", "memory_type"]

#: A register value: an SSA name or literal, or the two parts of a complex number.
Value = str | tuple[str, str]

LINE = 64  # bytes of a cache line
STREAMS = "!nontemporal !0"  # a store past the caches; the module must hold STREAMS_METADATA
STREAMS_METADATA = "!0 = !{i32 1}"

_FLOATS = {float32: "float", float64: "double"}
_COMPARISONS = {  # op -> ordered float predicate, signed predicate, unsigned predicate
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
}
_FLOAT_OPS = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv contract"}
_INT_OPS = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_INTRINSICS = {"floor": 1, "ceil": 1, "trunc": 1, "round": 1, "sqrt": 1, "abs": 1, "copysign": 2, "fma": 3}
_INTRINSIC_NAMES = {"round": "roundeven", "abs": "fabs"}


def llvm_type(dtype: DType) -> str:
    """The type of `dtype` in a register; of a complex dtype, the type of one part."""
    dtype = part_dtype(compute_dtype(dtype))
    if dtype is bool_:
        return "i1"
    return _FLOATS.get(dtype) or f"i{8 * dtype.itemsize}"


def memory_type(dtype: DType) -> str:
    """The type of an element of `dtype` in memory; a complex element is an array of its two parts."""
    if dtype is bool_:
        return "i8"
    if dtype is float16:
        return "half"
    if dtype is bfloat16:
        return "i16"
    if dtype in FLOAT8:
        return "i8"
    if dtype is complex32:
        return "[2 x half]"
    if dtype.is_complex:
        return f"[2 x {llvm_type(dtype)}]"
    return llvm_type(dtype)


def parts_of(value: Value) -> tuple[str, ...]:
    """The registers of a number: one, or two of a complex one."""
    return value if isinstance(value, tuple) else (value,)


def joined(parts: Sequence[str]) -> Value:
    """The number that registers hold."""
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def literal(value: object, dtype: DType) -> str:
    """A constant of a real dtype as LLVM writes it, exact to the last bit."""
    if dtype is bool_:
        return "true" if value else "false"
    if is_integral(dtype):
        return str(int(value))  # type: ignore[call-overload]
    number = float(np.float32(value)) if dtype is float32 else float(value)  # type: ignore[arg-type]
    if number != number:
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _stored_part(dtype: DType) -> DType:
    """The dtype in which a complex `dtype` stores its two parts."""
    return float16 if dtype is complex32 else part_dtype(dtype)


def _unreported(bad: object) -> None:
    raise NotImplementedError("a guard in a kernel that can't report errors; check the data before the launch")


class Lowering:
    """Emits the instructions of expressions into one basic block.

    emit: appends an IR line. fresh: returns a new SSA name such as "%v12". Values are remembered per object: use one
    Lowering for one straight-line region, where every earlier value dominates every later one. `declarations` collects
    the `declare` lines (and internal definitions) that the module needs; `report` gets the conditions of guards.

    width: 0 for single numbers, else how many elements a register holds. mask: a register of `width` bits that says which
    of them exist (None: all); the others are neither read nor written, and their values are zero or meaningless.
    """

    def __init__(self, emit: Callable[[str], object], fresh: Callable[[], str], width: int = 0, mask: str | None = None) -> None:
        self.emit = emit
        self.fresh = fresh
        self.width, self.mask = width, mask
        self.declarations: set[str] = set()
        self.report: Callable[[Any], object] = _unreported
        self._values: dict[Expr, Value] = {}
        self._expanded: dict[Expr, Expr] = {}
        self._stand_ins: dict[Expr, Expr] = {}  # subexpression whose value is known -> the leaf in its place

    def value(self, expr: Expr, env: dict[Expr, Value]) -> Value:
        """The register that holds `expr`; `env` binds leaves (or any subexpressions) to registers."""
        values = self._values
        known = values.get(expr)
        if known is not None:
            return known
        values.update(env)
        if expr in values:
            return values[expr]
        root = self._expanded.get(expr)
        if root is None:
            for node in env:
                if node.args and node not in self._stand_ins:  # a rewriting must not look into it
                    stand_in = self._stand_ins[node] = leaf(f"known{len(self._stand_ins)}", node.dtype)
                    values[stand_in] = env[node]
            root = self._expanded[expr] = expand(substitute(expr, self._stand_ins) if self._stand_ins else expr)
        for node in topological(root):
            if node not in values:
                values[node] = self._lower(node, [values[arg] for arg in node.args])
        values[expr] = values[root]
        return values[root]

    # ------------------------------------------------------------------------------------------------ instructions

    def _line(self, text: str) -> str:
        name = self.fresh()
        self.emit(f"{name} = {text}")
        return name

    def _call(self, name: str, result: str, args: list[tuple[str, str]]) -> str:
        self.declarations.add(f"declare {result} @{name}({', '.join(kind for kind, _ in args)})")
        return self._line(f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in args)})")

    def type(self, kind: str) -> str:
        """The register type of `kind` numbers: itself, or a vector of them."""
        return f"<{self.width} x {kind}>" if self.width else kind

    def fixed(self, kind: str, text: str) -> str:
        """A literal of type `kind` in every element."""
        return f"splat ({kind} {text})" if self.width else text

    def _suffix(self, kind: str) -> str:
        """How the names of intrinsics spell `type(kind)`."""
        short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(kind, kind)
        return f"v{self.width}{short}" if self.width else short

    def splat(self, kind: str, value: str) -> str:
        """One number (a register or a literal) in every element."""
        if not self.width:
            return value
        if not value.startswith("%"):
            return self.fixed(kind, value)
        type = self.type(kind)
        first = self._line(f"insertelement {type} poison, {kind} {value}, i64 0")
        return self._line(f"shufflevector {type} {first}, {type} poison, <{self.width} x i32> zeroinitializer")

    def spread(self, dtype: DType, value: Value) -> Value:
        """A value of `dtype` that is the same for all elements."""
        kind = llvm_type(dtype)
        return joined([self.splat(kind, part) for part in parts_of(value)])

    def counting(self, first: str) -> str:
        """first, first + 1, ... as i64."""
        if not self.width:
            return first
        steps = ", ".join(f"i64 {i}" for i in range(self.width))
        return self._line(f"add {self.type('i64')} {self.splat('i64', first)}, <{steps}>")

    def select(self, condition: str, kind: str, a: str, b: str) -> str:
        type = self.type(kind)
        return self._line(f"select {self.type('i1')} {condition}, {type} {a}, {type} {b}")

    def any(self, condition: str) -> str:
        """Whether `condition` holds for an element that exists, as an i1."""
        if not self.width:
            return condition
        bits = self.type("i1")
        if self.mask:
            condition = self._line(f"and {bits} {condition}, {self.mask}")
        return self._call(f"llvm.vector.reduce.or.{self._suffix('i1')}", "i1", [(bits, condition)])

    def first(self, condition: str) -> str:
        """The number, as an i64, of the first element for which `condition` holds, if it holds for any that exists."""
        if not self.width:
            return "0"
        bits = f"i{self.width}"
        whole = self._line(f"bitcast {self.type('i1')} {condition} to {bits}")
        place = self._call(f"llvm.cttz.{bits}", bits, [(bits, whole), ("i1", "true")])
        return place if self.width == 64 else self._line(f"{'zext' if self.width < 64 else 'trunc'} {bits} {place} to i64")

    def _lower(self, node: Expr, args: list[Value]) -> Value:
        op, dtype = node.op, node.dtype
        if op == "guard":
            self.report(args[1])
            return args[0]
        if op == "through":
            return joined(
                [self._through(_stored_part(node.value) if dtype.is_complex else node.value, x) for x in parts_of(args[0])]
            )
        if op == "leaf":
            raise KeyError(f"leaf {node.value!r} has no value in the environment")
        if dtype.is_complex:
            if op == "constant":
                part = part_dtype(dtype)
                kind = llvm_type(part)
                return (self.fixed(kind, literal(node.value.real, part)), self.fixed(kind, literal(node.value.imag, part)))
            if op == "complex":
                return args[0], args[1]  # type: ignore[return-value]
            raise NotImplementedError(f"no code for the complex op {op!r}; give it an expansion in ir.complex")
        if op == "constant":
            return self.fixed(llvm_type(dtype), literal(node.value, dtype))
        if op in ("real", "imag"):
            return args[0][op == "imag"]
        return self._lower_real(node, args)  # type: ignore[arg-type]

    def _through(self, dtype: DType, value: str) -> str:
        """A number that was stored as the real floating `dtype`, as LLVM can't combine it with what it is used for."""
        kind = llvm_type(dtype)
        read = self.widen(dtype, self.narrow(dtype, value))
        return self._call(f"llvm.arithmetic.fence.{self._suffix(kind)}", self.type(kind), [(self.type(kind), read)])

    def _lower_real(self, node: Expr, args: list[str]) -> str:
        op, dtype = node.op, node.dtype
        kind = llvm_type(dtype)
        if op in _COMPARISONS:
            operand = node.args[0].dtype
            floating, signed, unsigned = _COMPARISONS[op]
            if operand.is_floating_point:
                return self._line(f"fcmp {floating} {self.type(llvm_type(operand))} {args[0]}, {args[1]}")
            predicate = signed if operand.is_signed and operand is not bool_ else unsigned
            return self._line(f"icmp {predicate} {self.type(llvm_type(operand))} {args[0]}, {args[1]}")
        if op == "where":
            return self.select(args[0], kind, args[1], args[2])
        if op == "cast":
            return self.cast(args[0], node.args[0].dtype, dtype)
        if op == "bitcast":
            source = llvm_type(node.args[0].dtype)
            return args[0] if source == kind else self._line(f"bitcast {self.type(source)} {args[0]} to {self.type(kind)}")
        if op in _OUTLINED:
            return _OUTLINED[op](self, node, kind, args)
        if dtype.is_floating_point:
            return self._lower_float(node, kind, args)
        return self._lower_integer(node, kind, args)

    def _lower_float(self, node: Expr, kind: str, args: list[str]) -> str:
        op, type = node.op, self.type(kind)
        if op in _FLOAT_OPS:
            instruction = _FLOAT_OPS[op] if node.value is None else _FLOAT_OPS[op].split()[0]
            return self._line(f"{instruction} {type} {args[0]}, {args[1]}")
        if op == "neg":
            return self._line(f"fneg {type} {args[0]}")
        if op in _INTRINSICS:
            name = f"llvm.{_INTRINSIC_NAMES.get(op, op)}.{self._suffix(kind)}"
            return self._call(name, type, [(type, arg) for arg in args])
        if op == "library":
            types = ", ".join(["double"] * len(args))
            self.declarations.add(f"declare double @{node.value}({types}) nounwind willreturn memory(none)")
            return self._each("double", f"@{node.value}", args)
        if op in ("minimum", "maximum"):
            # Picks the second operand if that is NaN; then puts back a NaN in the first.
            better = self._line(f"fcmp {'olt' if op == 'minimum' else 'ogt'} {type} {args[0]}, {args[1]}")
            picked = self.select(better, kind, args[0], args[1])
            nan = self._line(f"fcmp uno {type} {args[0]}, {args[0]}")
            return self.select(nan, kind, args[0], picked)
        if op in ("fmin", "fmax"):
            better = self._line(f"fcmp {'ole' if op == 'fmin' else 'oge'} {type} {args[0]}, {args[1]}")
            picked = self.select(better, kind, args[0], args[1])
            nan = self._line(f"fcmp uno {type} {args[1]}, {args[1]}")
            return self.select(nan, kind, args[0], picked)
        raise NotImplementedError(f"no code for the op {op!r}; give it a body in ir.functions")

    def _rarely(self, node: Expr, kind: str, args: list[str]) -> str:
        limit, slow = node.value
        body, (result,), needed = _text_of((slow,), 0)
        name, declarations = rare_function(kind, literal(limit, node.dtype), len(args) - 2, body, result, self.width)
        self.declarations |= needed | declarations
        type = self.type(kind)
        return self._line(f"call {type} @{name}({', '.join(f'{type} {arg}' for arg in args)})")

    def _sometimes(self, node: Expr, kind: str, args: list[str]) -> str:
        body, (result,), needed = _text_of((node.value,), self.width)
        types = [self.type(llvm_type(arg.dtype)) for arg in node.args]
        name, declarations = sometimes_function(types, body, result, self.width)
        self.declarations |= needed | declarations
        return self._line(f"call {types[0]} @{name}({', '.join(f'{type} {arg}' for type, arg in zip(types, args))})")

    def _repeat(self, node: Expr, kind: str, args: list[str]) -> str:
        steps, wanted, limit = node.value
        test, (holds,), needed = _text_of((wanted,), self.width, "%w")
        body, following, more = _text_of(steps, self.width)
        types = [self.type(llvm_type(arg.dtype)) for arg in node.args]
        name, declarations = repeat_function(types, (test, holds), (body, following), limit, self.width)
        self.declarations |= needed | more | declarations
        return self._line(f"call {types[0]} @{name}({', '.join(f'{type} {arg}' for type, arg in zip(types, args))})")

    def _apart(self, node: Expr, kind: str, args: list[str]) -> str:
        body, (result,), needed = _text_of((node.value,), self.width)
        types = [self.type(llvm_type(arg.dtype)) for arg in node.args]
        name, definition = apart_function([f"{type} %x{i}" for i, type in enumerate(types)], body, result, self.type(kind))
        self.declarations |= needed | {definition}
        return self._line(f"call {self.type(kind)} @{name}({', '.join(f'{type} {arg}' for type, arg in zip(types, args))})")

    def _lower_integer(self, node: Expr, kind: str, args: list[str]) -> str:
        op, dtype, type = node.op, node.dtype, self.type(kind)
        signed = dtype.is_signed and dtype is not bool_
        if op in _INT_OPS:
            return self._line(f"{_INT_OPS[op]} {type} {args[0]}, {args[1]}")
        if op == "neg":
            return self._line(f"sub {type} {self.fixed(kind, '0')}, {args[0]}")
        if op == "not":
            return self._line(f"xor {type} {args[0]}, {self.fixed(kind, 'true' if kind == 'i1' else '-1')}")
        if op in ("shl", "shr"):
            return self._shift(op, kind, signed, 8 * dtype.itemsize, node.args[1], args)
        if op in ("minimum", "maximum", "fmin", "fmax"):
            name = f"{'s' if signed else 'u'}{'min' if op.endswith(('min', 'minimum')) else 'max'}"
            if kind == "i1":
                return self._line(f"{'and' if name == 'umin' else 'or'} {type} {args[0]}, {args[1]}")
            return self._call(f"llvm.{name}.{self._suffix(kind)}", type, [(type, args[0]), (type, args[1])])
        if op == "abs":
            return self._absolute(kind, args[0])
        if op in ("trunc_divide", "fmod", "floor_divide", "remainder"):
            return self._integer_division(op, kind, signed, args)
        if op == "gcd":
            return self._gcd(kind, signed, args)
        raise NotImplementedError(f"no code for the op {op!r} on {dtype}; give it a body in ir.functions")

    def _absolute(self, kind: str, value: str) -> str:
        type = self.type(kind)
        return self._call(f"llvm.abs.{self._suffix(kind)}", type, [(type, value), ("i1", "false")])

    def _shift(self, op: str, kind: str, signed: bool, bits: int, amount: Expr, args: list[str]) -> str:
        # PyTorch: a shift by a negative amount or by the width and more leaves 0, or the sign of a signed right shift.
        type = self.type(kind)
        instruction = "shl" if op == "shl" else "ashr" if signed else "lshr"
        if amount.op == "constant" and 0 <= amount.value < bits:
            return self._line(f"{instruction} {type} {args[0]}, {args[1]}")
        fits = self._line(f"icmp ult {type} {args[1]}, {self.fixed(kind, str(bits))}")
        safe = self.select(fits, kind, args[1], self.fixed(kind, str(bits - 1) if instruction == "ashr" else "0"))
        shifted = self._line(f"{instruction} {type} {args[0]}, {safe}")
        return shifted if instruction == "ashr" else self.select(fits, kind, shifted, self.fixed(kind, "0"))

    def _integer_division(self, op: str, kind: str, signed: bool, args: list[str]) -> str:
        # Never traps: a zero divisor becomes 1 (the caller reports it), and so does -1, whose quotient is a negation.
        n, d = args
        type, one, zero = self.type(kind), self.fixed(kind, "1"), self.fixed(kind, "0")
        unsafe = self._line(f"icmp eq {type} {d}, {zero}")
        if not signed:
            divisor = self.select(unsafe, kind, one, d)
            return self._line(f"{'udiv' if op.endswith('divide') else 'urem'} {type} {n}, {divisor}")
        minus = self._line(f"icmp eq {type} {d}, {self.fixed(kind, '-1')}")
        either = self._line(f"or {self.type('i1')} {unsafe}, {minus}")
        divisor = self.select(either, kind, one, d)
        quotient = self._line(f"sdiv {type} {n}, {divisor}")
        product = self._line(f"mul {type} {quotient}, {divisor}")
        rest = self._line(f"sub {type} {n}, {product}")  # 0 when the divisor was replaced
        if op == "fmod":
            return rest
        crossing = ""
        if op in ("floor_divide", "remainder"):
            signs = self._line(f"xor {type} {rest}, {divisor}")
            opposite = self._line(f"icmp slt {type} {signs}, {zero}")
            inexact = self._line(f"icmp ne {type} {rest}, {zero}")
            crossing = self._line(f"and {self.type('i1')} {opposite}, {inexact}")
        if op == "remainder":
            adjusted = self._line(f"add {type} {rest}, {divisor}")
            return self.select(crossing, kind, adjusted, rest)
        negated = self._line(f"sub {type} {zero}, {n}")
        quotient = self.select(minus, kind, negated, quotient)
        if op == "trunc_divide":
            return quotient
        lower = self._line(f"add {type} {quotient}, {self.fixed(kind, '-1')}")
        return self.select(crossing, kind, lower, quotient)

    def _gcd(self, kind: str, signed: bool, args: list[str]) -> str:
        if signed:
            args = [self._absolute(kind, arg) for arg in args]
        self.declarations.add(
            f"define internal {kind} @flambeau.gcd.{kind}({kind} %a, {kind} %b) {{\n"
            f"entry:\n  br label %head\n"
            f"head:\n  %x = phi {kind} [%a, %entry], [%y, %body]\n  %y = phi {kind} [%b, %entry], [%r, %body]\n"
            f"  %end = icmp eq {kind} %y, 0\n  br i1 %end, label %done, label %body\n"
            f"body:\n  %r = urem {kind} %x, %y\n  br label %head\n"
            f"done:\n  ret {kind} %x\n}}"
        )
        return self._each(kind, f"@flambeau.gcd.{kind}", args)

    def _each(self, kind: str, function: str, args: list[str]) -> str:
        """function(*args), a call for each element."""
        if not self.width:
            return self._line(f"call {kind} {function}({', '.join(f'{kind} {arg}' for arg in args)})")
        type, result = self.type(kind), "poison"
        for i in range(self.width):
            own = [self._line(f"extractelement {type} {arg}, i64 {i}") for arg in args]
            one = self._line(f"call {kind} {function}({', '.join(f'{kind} {x}' for x in own)})")
            result = self._line(f"insertelement {type} {result}, {kind} {one}, i64 {i}")
        return result

    # -------------------------------------------------------------------------------------------------- conversion

    def cast(self, value: str, source: DType, target: DType) -> str:
        """`value` of a real compute dtype `source` converted to `target`."""
        if source is target:
            return value
        kind = llvm_type(source)
        a, b = self.type(kind), self.type(llvm_type(target))
        if target is bool_:
            if source.is_floating_point:
                return self._line(f"fcmp une {a} {value}, {self.fixed(kind, literal(0.0, source))}")
            return self._line(f"icmp ne {a} {value}, {self.fixed(kind, '0')}")
        if source.is_floating_point and target.is_floating_point:
            return self._line(f"{'fpext' if target is float64 else 'fptrunc'} {a} {value} to {b}")
        unsigned = source is bool_ or not source.is_signed
        if target.is_floating_point:
            return self._line(f"{'uitofp' if unsigned else 'sitofp'} {a} {value} to {b}")
        if source.is_floating_point:
            return self._float_to_integer(value, source, target)
        wide, narrow = target.itemsize, 0 if source is bool_ else source.itemsize
        if wide == narrow:
            return value
        return self._line(f"{'trunc' if wide < narrow else 'zext' if unsigned else 'sext'} {a} {value} to {b}")

    def _float_to_integer(self, value: str, source: DType, target: DType) -> str:
        # Narrow integers go through 32 or 64 bits and wrap, as x86 code does; freeze defines what is out of range.
        kind, result = llvm_type(source), llvm_type(target)
        a = self.type(kind)
        if target is uint64:
            top = self.fixed(kind, literal(2.0**63, source))
            large = self._line(f"fcmp oge {a} {value}, {top}")
            lowered = self._line(f"fsub {a} {value}, {top}")
            inside = self.select(large, kind, lowered, value)
            low = self._frozen_fptosi(inside, a, "i64")
            high = self._line(f"xor {self.type('i64')} {low}, {self.fixed('i64', '-9223372036854775808')}")
            return self.select(large, "i64", high, low)
        register = "i64" if target is int64 or (target.itemsize == 4 and target is not int32) else "i32"
        wide = self._frozen_fptosi(value, a, register)
        return wide if register == result else self._line(f"trunc {self.type(register)} {wide} to {self.type(result)}")

    def _frozen_fptosi(self, value: str, source: str, target: str) -> str:
        raw = self._line(f"fptosi {source} {value} to {self.type(target)}")
        return self._line(f"freeze {self.type(target)} {raw}")

    # ------------------------------------------------------------------------------------------------------ memory

    def load(self, dtype: DType, pointer: str) -> Value:
        """The elements of `dtype` from `pointer` on, widened to the compute dtype."""
        if not dtype.is_complex:
            return self.widen(dtype, self._load(dtype, pointer))
        part = _stored_part(dtype)
        if self.width:
            return self._load_pairs(part, pointer)
        real, imaginary = (self._load(part, at) for at in self._part_pointers(part, pointer))
        return self.widen(part, real), self.widen(part, imaginary)

    def gather(self, dtype: DType, pointers: list[str]) -> Value:
        """One element of `dtype` from each of `width` pointers, widened to the compute dtype."""
        if not dtype.is_complex:
            return self.widen(dtype, self._gather(dtype, pointers))
        part = _stored_part(dtype)
        pairs = [self._part_pointers(part, pointer) for pointer in pointers]
        real, imaginary = (self._gather(part, list(places)) for places in zip(*pairs))
        return self.widen(part, real), self.widen(part, imaginary)

    def _part_pointers(self, part: DType, pointer: str) -> tuple[str, str]:
        return pointer, self._line(f"getelementptr {memory_type(part)}, ptr {pointer}, i64 1")

    def _load(self, dtype: DType, pointer: str) -> str:
        kind, size = memory_type(dtype), dtype.itemsize
        type = self.type(kind)
        if self.mask:
            return self._call(
                f"llvm.masked.load.{self._suffix(kind)}.p0",
                type,
                [("ptr", pointer), ("i32", str(size)), (self.type("i1"), self.mask), (type, "zeroinitializer")],
            )
        return self._line(f"load {type}, ptr {pointer}, align {size}")

    def _gather(self, dtype: DType, pointers: list[str]) -> str:
        kind, result = memory_type(dtype), "poison"
        for i, pointer in enumerate(pointers):
            one = self._line(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
            result = self._line(f"insertelement {self.type(kind)} {result}, {kind} {one}, i64 {i}")
        return result

    def _pairs(self) -> Lowering:
        """The same for the 2 x width parts of complex numbers that lie side by side."""
        mask = None
        if self.mask:
            order = ", ".join(f"i32 {i // 2}" for i in range(2 * self.width))
            bits = self.type("i1")
            mask = self._line(f"shufflevector {bits} {self.mask}, {bits} poison, <{2 * self.width} x i32> <{order}>")
        pairs = Lowering(self.emit, self.fresh, 2 * self.width, mask)
        pairs.declarations = self.declarations
        return pairs

    def _load_pairs(self, part: DType, pointer: str) -> tuple[str, str]:
        pairs = self._pairs()
        both = pairs.widen(part, pairs._load(part, pointer))
        type, n = pairs.type(llvm_type(part)), self.width
        halves = [", ".join(f"i32 {2 * i + k}" for i in range(n)) for k in range(2)]
        real, imaginary = (self._line(f"shufflevector {type} {both}, {type} poison, <{n} x i32> <{order}>") for order in halves)
        return real, imaginary

    def widen(self, dtype: DType, raw: str) -> str:
        """A number of the real `dtype` as it lies in memory as its compute dtype."""
        if dtype is bool_:
            return self._line(f"icmp ne {self.type('i8')} {raw}, {self.fixed('i8', '0')}")
        if dtype is float16:
            return self._line(f"fpext {self.type('half')} {raw} to {self.type('float')}")
        if dtype is bfloat16:
            integer = self.type("i32")
            wide = self._line(f"zext {self.type('i16')} {raw} to {integer}")
            bits = self._line(f"shl {integer} {wide}, {self.fixed('i32', '16')}")
            return self._line(f"bitcast {integer} {bits} to {self.type('float')}")
        if dtype in FLOAT8:
            return small_floats.widen(self, dtype, raw)
        return raw

    def store(self, dtype: DType, value: Value, pointer: str, streams: bool = False) -> None:
        """Store values of the compute dtype of `dtype`, narrowed to `dtype`, from `pointer` on.

        streams: past the caches; `pointer` must then be a multiple of LINE bytes, or of the register if that is smaller.
        """
        if not isinstance(value, tuple):
            self._store(dtype, value, pointer, streams)
            return
        part = _stored_part(dtype)
        if not self.width:
            for number, at in zip(value, self._part_pointers(part, pointer)):
                self._store(part, number, at)
            return
        type, n = self.type(llvm_type(part)), self.width
        order = ", ".join(f"i32 {i // 2 + n * (i % 2)}" for i in range(2 * n))
        both = self._line(f"shufflevector {type} {value[0]}, {type} {value[1]}, <{2 * n} x i32> <{order}>")
        self._pairs()._store(part, both, pointer, streams)

    def scatter(self, dtype: DType, value: Value, pointers: list[str]) -> None:
        """Store one of `width` values at each pointer, in order."""
        if not isinstance(value, tuple):
            self._scatter(dtype, value, pointers)
            return
        part = _stored_part(dtype)
        pairs = [self._part_pointers(part, pointer) for pointer in pointers]
        for number, places in zip(value, zip(*pairs)):
            self._scatter(part, number, list(places))

    def _store(self, dtype: DType, value: str, pointer: str, streams: bool = False) -> None:
        kind, size = memory_type(dtype), dtype.itemsize
        type, value = self.type(kind), self.narrow(dtype, value)
        if self.mask:
            name, bits = f"llvm.masked.store.{self._suffix(kind)}.p0", self.type("i1")
            self.declarations.add(f"declare void @{name}({type}, ptr, i32, {bits})")
            self.emit(f"call void @{name}({type} {value}, ptr {pointer}, i32 {size}, {bits} {self.mask})")
        elif streams:
            self.emit(f"store {type} {value}, ptr {pointer}, align {min(LINE, self.width * size)}, {STREAMS}")
        else:
            self.emit(f"store {type} {value}, ptr {pointer}, align {size}")

    def _scatter(self, dtype: DType, value: str, pointers: list[str]) -> None:
        kind, value = memory_type(dtype), self.narrow(dtype, value)
        for i, pointer in enumerate(pointers):
            one = self._line(f"extractelement {self.type(kind)} {value}, i64 {i}")
            self.emit(f"store {kind} {one}, ptr {pointer}, align {dtype.itemsize}")

    def narrow(self, dtype: DType, value: str) -> str:
        """A value of the compute dtype of the real `dtype` as its memory type."""
        if dtype is bool_:
            return self._line(f"zext {self.type('i1')} {value} to {self.type('i8')}")
        if dtype is float16:
            return self._line(f"fptrunc {self.type('float')} {value} to {self.type('half')}")
        if dtype is bfloat16:  # round to nearest even in integer arithmetic; NaN stays NaN
            integer, single = self.type("i32"), self.type("float")
            sixteen = self.fixed("i32", "16")
            bits = self._line(f"bitcast {single} {value} to {integer}")
            high = self._line(f"lshr {integer} {bits}, {sixteen}")
            odd = self._line(f"and {integer} {high}, {self.fixed('i32', '1')}")
            bias = self._line(f"add {integer} {odd}, {self.fixed('i32', '32767')}")
            rounded = self._line(f"add {integer} {bits}, {bias}")
            short = self._line(f"lshr {integer} {rounded}, {sixteen}")
            nan = self._line(f"fcmp uno {single} {value}, {self.fixed('float', literal(0.0, float32))}")
            kept = self.select(nan, "i32", self.fixed("i32", "32704"), short)  # 0x7FC0
            return self._line(f"trunc {integer} {kept} to {self.type('i16')}")
        if dtype in FLOAT8:
            return small_floats.narrow(self, dtype, value)
        return value


@lru_cache(maxsize=64)
def _text_of(results: Sequence[Expr], width: int, prefix: str = "%r") -> tuple[str, list[str], frozenset[str]]:
    """A function whose parameters are the leaves of its results: its instructions, the registers of the results, declarations."""
    lines: list[str] = []
    names = (f"{prefix}{i}" for i in itertools.count())
    inside = Lowering(lambda line: lines.append(f"  {line}\n"), lambda: next(names), width)
    environment: dict[Expr, Value] = {x: f"%{x.value}" for x in leaves_of(*results)}
    registers = [str(inside.value(result, environment)) for result in results]
    return "".join(lines), registers, frozenset(inside.declarations)


#: How ops are written that stand in a function of their own, by op.
_OUTLINED = {"rarely": Lowering._rarely, "sometimes": Lowering._sometimes, "repeat": Lowering._repeat, "apart": Lowering._apart}
