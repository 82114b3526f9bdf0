"""Scalar expressions to LLVM IR text.

`Lowering` turns an `Expr` into straight-line instructions, one SSA value per shared subexpression. It is branch-free,
so LLVM's loop vectoriser widens whatever loop the caller puts around it. Named functions (exp, sin, ...) are first
expanded to their bodies. Stands on ir.scalar, ir.functions and codegen.rare. Used by the nest compiler and the epilogues of gemm.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base.dtype import (
    bfloat16,
    bool_,
    complex32,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint64,
)
from flambeau.base.dtype import (
    dtype as DType,
)
from flambeau.codegen.rare import rare_function
from flambeau.ir.functions import expand
from flambeau.ir.scalar import Expr, compute_dtype, is_integral, leaves_of, part_dtype, topological

__all__ = ["Lowering", "compute_dtype", "literal", "llvm_type", "memory_type"]

#: A register value: an SSA name or literal, or the two parts of a complex number.
Value = str | tuple[str, str]

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
    if dtype is complex32:
        return "[2 x half]"
    if dtype.is_complex:
        return f"[2 x {llvm_type(dtype)}]"
    return llvm_type(dtype)


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


def _unreported(bad: object) -> None:
    raise NotImplementedError("a guard in a kernel that can't report errors; check the data before the launch")


class Lowering:
    """Emits the instructions of expressions into one basic block.

    emit: appends an IR line. fresh: returns a new SSA name such as "%v12". Values are remembered per object: use one
    Lowering for one straight-line region, where every earlier value dominates every later one. `declarations` collects
    the `declare` lines (and internal definitions) that the module needs; `report` gets the conditions of guards.
    """

    def __init__(self, emit: Callable[[str], object], fresh: Callable[[], str]) -> None:
        self.emit = emit
        self.fresh = fresh
        self.declarations: set[str] = set()
        self.report: Callable[[Any], object] = _unreported
        self._values: dict[Expr, Value] = {}
        self._expanded: dict[Expr, Expr] = {}

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
            root = self._expanded[expr] = expand(expr, frozenset(env))
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

    def _select(self, condition: str, kind: str, a: str, b: str) -> str:
        return self._line(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def _lower(self, node: Expr, args: list[Value]) -> Value:
        op, dtype = node.op, node.dtype
        if op == "guard":
            self.report(args[1])
            return args[0]
        if op == "leaf":
            raise KeyError(f"leaf {node.value!r} has no value in the environment")
        if dtype.is_complex:
            if op == "constant":
                part = part_dtype(dtype)
                return literal(node.value.real, part), literal(node.value.imag, part)
            if op == "complex":
                return args[0], args[1]  # type: ignore[return-value]
            raise NotImplementedError(f"no code for the complex op {op!r}; give it an expansion in ir.complex")
        if op == "constant":
            return literal(node.value, dtype)
        if op in ("real", "imag"):
            return args[0][op == "imag"]
        return self._lower_real(node, args)  # type: ignore[arg-type]

    def _lower_real(self, node: Expr, args: list[str]) -> str:
        op, dtype = node.op, node.dtype
        kind = llvm_type(dtype)
        if op in _COMPARISONS:
            operand = node.args[0].dtype
            floating, signed, unsigned = _COMPARISONS[op]
            if operand.is_floating_point:
                return self._line(f"fcmp {floating} {llvm_type(operand)} {args[0]}, {args[1]}")
            predicate = signed if operand.is_signed and operand is not bool_ else unsigned
            return self._line(f"icmp {predicate} {llvm_type(operand)} {args[0]}, {args[1]}")
        if op == "where":
            return self._select(args[0], kind, args[1], args[2])
        if op == "cast":
            return self.cast(args[0], node.args[0].dtype, dtype)
        if op == "bitcast":
            source = llvm_type(node.args[0].dtype)
            return args[0] if source == kind else self._line(f"bitcast {source} {args[0]} to {kind}")
        if dtype.is_floating_point:
            return self._lower_float(node, kind, args)
        return self._lower_integer(node, kind, args)

    def _lower_float(self, node: Expr, kind: str, args: list[str]) -> str:
        op = node.op
        if op in _FLOAT_OPS:
            instruction = _FLOAT_OPS[op] if node.value is None else _FLOAT_OPS[op].split()[0]
            return self._line(f"{instruction} {kind} {args[0]}, {args[1]}")
        if op == "neg":
            return self._line(f"fneg {kind} {args[0]}")
        if op in _INTRINSICS:
            suffix = "f32" if kind == "float" else "f64"
            name = f"llvm.{_INTRINSIC_NAMES.get(op, op)}.{suffix}"
            return self._call(name, kind, [(kind, arg) for arg in args])
        if op == "frem":
            return self._line(f"frem {kind} {args[0]}, {args[1]}")
        if op == "rarely":
            return self._rarely(node, kind, args)
        if op in ("minimum", "maximum"):
            # Picks the second operand if that is NaN; then puts back a NaN in the first.
            better = self._line(f"fcmp {'olt' if op == 'minimum' else 'ogt'} {kind} {args[0]}, {args[1]}")
            picked = self._select(better, kind, args[0], args[1])
            nan = self._line(f"fcmp uno {kind} {args[0]}, {args[0]}")
            return self._select(nan, kind, args[0], picked)
        if op in ("fmin", "fmax"):
            better = self._line(f"fcmp {'ole' if op == 'fmin' else 'oge'} {kind} {args[0]}, {args[1]}")
            picked = self._select(better, kind, args[0], args[1])
            nan = self._line(f"fcmp uno {kind} {args[1]}, {args[1]}")
            return self._select(nan, kind, args[0], picked)
        raise NotImplementedError(f"no code for the op {op!r}; give it a body in ir.functions")

    def _rarely(self, node: Expr, kind: str, args: list[str]) -> str:
        limit, slow = node.value
        lines: list[str] = []
        names = (f"%r{i}" for i in itertools.count())
        inside = Lowering(lambda line: lines.append(f"  {line}\n"), lambda: next(names))
        result = inside.value(slow, {x: f"%{x.value}" for x in leaves_of(slow)})
        name, attributes, declarations = rare_function(
            kind, literal(limit, node.dtype), len(args) - 2, "".join(lines), str(result)
        )
        self.declarations |= inside.declarations | declarations
        return self._line(f"call {kind} @{name}({', '.join(f'{kind} {arg}' for arg in args)}) {attributes}")

    def _lower_integer(self, node: Expr, kind: str, args: list[str]) -> str:
        op, dtype = node.op, node.dtype
        signed = dtype.is_signed and dtype is not bool_
        if op in _INT_OPS:
            return self._line(f"{_INT_OPS[op]} {kind} {args[0]}, {args[1]}")
        if op == "neg":
            return self._line(f"sub {kind} 0, {args[0]}")
        if op == "not":
            return self._line(f"xor {kind} {args[0]}, {'true' if kind == 'i1' else -1}")
        if op in ("shl", "shr"):
            return self._shift(op, kind, signed, 8 * dtype.itemsize, args)
        if op in ("minimum", "maximum", "fmin", "fmax"):
            name = f"{'s' if signed else 'u'}{'min' if op.endswith(('min', 'minimum')) else 'max'}"
            if kind == "i1":
                return self._line(f"{'and' if name == 'umin' else 'or'} i1 {args[0]}, {args[1]}")
            return self._call(f"llvm.{name}.{kind}", kind, [(kind, args[0]), (kind, args[1])])
        if op == "abs":
            self.declarations.add(f"declare {kind} @llvm.abs.{kind}({kind}, i1)")
            return self._line(f"call {kind} @llvm.abs.{kind}({kind} {args[0]}, i1 false)")
        if op in ("trunc_divide", "fmod", "floor_divide", "remainder"):
            return self._integer_division(op, kind, signed, args)
        if op == "gcd":
            return self._gcd(kind, signed, args)
        raise NotImplementedError(f"no code for the op {op!r} on {dtype}; give it a body in ir.functions")

    def _shift(self, op: str, kind: str, signed: bool, bits: int, args: list[str]) -> str:
        # PyTorch: a shift by a negative amount or by the width and more leaves 0, or the sign of a signed right shift.
        if args[1].isdigit() and int(args[1]) < bits:
            return self._line(f"{'shl' if op == 'shl' else 'ashr' if signed else 'lshr'} {kind} {args[0]}, {args[1]}")
        fits = self._line(f"icmp ult {kind} {args[1]}, {bits}")
        if op == "shr" and signed:
            amount = self._select(fits, kind, args[1], str(bits - 1))
            return self._line(f"ashr {kind} {args[0]}, {amount}")
        amount = self._select(fits, kind, args[1], "0")
        shifted = self._line(f"{'shl' if op == 'shl' else 'lshr'} {kind} {args[0]}, {amount}")
        return self._select(fits, kind, shifted, "0")

    def _integer_division(self, op: str, kind: str, signed: bool, args: list[str]) -> str:
        # Never traps: a zero divisor becomes 1 (the caller reports it), and so does -1, whose quotient is a negation.
        n, d = args
        unsafe = self._line(f"icmp eq {kind} {d}, 0")
        if not signed:
            divisor = self._select(unsafe, kind, "1", d)
            return self._line(f"{'udiv' if op.endswith('divide') else 'urem'} {kind} {n}, {divisor}")
        minus = self._line(f"icmp eq {kind} {d}, -1")
        either = self._line(f"or i1 {unsafe}, {minus}")
        divisor = self._select(either, kind, "1", d)
        quotient = self._line(f"sdiv {kind} {n}, {divisor}")
        product = self._line(f"mul {kind} {quotient}, {divisor}")
        rest = self._line(f"sub {kind} {n}, {product}")  # 0 when the divisor was replaced
        if op == "fmod":
            return rest
        crossing = inexact = ""
        if op in ("floor_divide", "remainder"):
            signs = self._line(f"xor {kind} {rest}, {divisor}")
            opposite = self._line(f"icmp slt {kind} {signs}, 0")
            inexact = self._line(f"icmp ne {kind} {rest}, 0")
            crossing = self._line(f"and i1 {opposite}, {inexact}")
        if op == "remainder":
            adjusted = self._line(f"add {kind} {rest}, {divisor}")
            return self._select(crossing, kind, adjusted, rest)
        negated = self._line(f"sub {kind} 0, {n}")
        quotient = self._select(minus, kind, negated, quotient)
        if op == "trunc_divide":
            return quotient
        lower = self._line(f"add {kind} {quotient}, -1")
        return self._select(crossing, kind, lower, quotient)

    def _gcd(self, kind: str, signed: bool, args: list[str]) -> str:
        if signed:
            self.declarations.add(f"declare {kind} @llvm.abs.{kind}({kind}, i1)")
            args = [self._line(f"call {kind} @llvm.abs.{kind}({kind} {arg}, i1 false)") for arg in args]
        self.declarations.add(
            f"define internal {kind} @flambeau.gcd.{kind}({kind} %a, {kind} %b) {{\n"
            f"entry:\n  br label %head\n"
            f"head:\n  %x = phi {kind} [%a, %entry], [%y, %body]\n  %y = phi {kind} [%b, %entry], [%r, %body]\n"
            f"  %end = icmp eq {kind} %y, 0\n  br i1 %end, label %done, label %body\n"
            f"body:\n  %r = urem {kind} %x, %y\n  br label %head\n"
            f"done:\n  ret {kind} %x\n}}"
        )
        return self._line(f"call {kind} @flambeau.gcd.{kind}({kind} {args[0]}, {kind} {args[1]})")

    # -------------------------------------------------------------------------------------------------- conversion

    def cast(self, value: str, source: DType, target: DType) -> str:
        """`value` of a real compute dtype `source` converted to `target`."""
        if source is target:
            return value
        a, b = llvm_type(source), llvm_type(target)
        if target is bool_:
            if source.is_floating_point:
                return self._line(f"fcmp une {a} {value}, {literal(0.0, source)}")
            return self._line(f"icmp ne {a} {value}, 0")
        if source.is_floating_point and target.is_floating_point:
            return self._line(f"{'fpext' if b == 'double' else 'fptrunc'} {a} {value} to {b}")
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
        a, b = llvm_type(source), llvm_type(target)
        if target is uint64:
            top = literal(2.0**63, source)
            large = self._line(f"fcmp oge {a} {value}, {top}")
            lowered = self._line(f"fsub {a} {value}, {top}")
            inside = self._select(large, a, lowered, value)
            low = self._frozen_fptosi(inside, a, "i64")
            high = self._line(f"xor i64 {low}, -9223372036854775808")
            return self._select(large, "i64", high, low)
        register = "i64" if target is int64 or (target.itemsize == 4 and target is not int32) else "i32"
        wide = self._frozen_fptosi(value, a, register)
        return wide if register == b else self._line(f"trunc {register} {wide} to {b}")

    def _frozen_fptosi(self, value: str, source: str, target: str) -> str:
        raw = self._line(f"fptosi {source} {value} to {target}")
        return self._line(f"freeze {target} {raw}")

    # ------------------------------------------------------------------------------------------------------ memory

    def load(self, dtype: DType, pointer: str, metadata: str = "") -> Value:
        """The element of `dtype` at `pointer`, widened to its compute dtype. `metadata` is appended to the loads."""
        if dtype.is_complex:
            part = float16 if dtype is complex32 else part_dtype(dtype)
            second = self._line(f"getelementptr {memory_type(part)}, ptr {pointer}, i64 1")
            return self._load(part, pointer, metadata), self._load(part, second, metadata)
        return self._load(dtype, pointer, metadata)

    def _load(self, dtype: DType, pointer: str, metadata: str) -> str:
        raw = self._line(f"load {memory_type(dtype)}, ptr {pointer}{metadata}")
        if dtype is bool_:
            return self._line(f"icmp ne i8 {raw}, 0")
        if dtype is float16:
            return self._line(f"fpext half {raw} to float")
        if dtype is bfloat16:
            wide = self._line(f"zext i16 {raw} to i32")
            bits = self._line(f"shl i32 {wide}, 16")
            return self._line(f"bitcast i32 {bits} to float")
        return raw

    def store(self, dtype: DType, value: Value, pointer: str, metadata: str = "") -> None:
        """Store a value of the compute dtype of `dtype` at `pointer`, narrowed to `dtype`."""
        if dtype.is_complex:
            part = float16 if dtype is complex32 else part_dtype(dtype)
            self._store(part, value[0], pointer, metadata)
            second = self._line(f"getelementptr {memory_type(part)}, ptr {pointer}, i64 1")
            self._store(part, value[1], second, metadata)
        else:
            self._store(dtype, value, pointer, metadata)  # type: ignore[arg-type]

    def _store(self, dtype: DType, value: str, pointer: str, metadata: str) -> None:
        self.emit(f"store {memory_type(dtype)} {self.narrow(dtype, value)}, ptr {pointer}{metadata}")

    def narrow(self, dtype: DType, value: str) -> str:
        """A value of the compute dtype of the real `dtype` as its memory type."""
        if dtype is bool_:
            return self._line(f"zext i1 {value} to i8")
        if dtype is float16:
            return self._line(f"fptrunc float {value} to half")
        if dtype is bfloat16:  # round to nearest even in integer arithmetic; NaN stays NaN
            bits = self._line(f"bitcast float {value} to i32")
            high = self._line(f"lshr i32 {bits}, 16")
            odd = self._line(f"and i32 {high}, 1")
            bias = self._line(f"add i32 {odd}, 32767")
            rounded = self._line(f"add i32 {bits}, {bias}")
            short = self._line(f"lshr i32 {rounded}, 16")
            nan = self._line(f"fcmp uno float {value}, {literal(0.0, float32)}")
            kept = self._select(nan, "i32", "32704", short)  # 0x7FC0
            return self._line(f"trunc i32 {kept} to i16")
        return value
