"""Parts of a kernel's loop that stand in functions of their own, outside it.

What few elements need (`rarely`, ir.scalar) must not cost the others, nor make the loop long: its function gets a whole vector
and returns at once unless one of its elements needs more. What is long and needed several times (`apart`) is written once.
What takes a number of steps that is known at run time only (`repeated`) is a loop there.
Used by codegen.scalar.
"""

from __future__ import annotations

import hashlib

_PURE = "noinline nounwind willreturn memory(none)"
_SMALL = f"{_PURE} minsize optsize"     # entered often, left at once
_COLD = f"{_PURE} cold optnone"         # LLVM spends as little time as it can on it
_SUFFIX = {"float": "f32", "double": "f64"}


def apart_function(parameters: list[str], body: str, result: str, kind: str) -> tuple[str, str]:
    """(name, definition) of a function that gives the register `result`, of type `kind`, of the instructions of `body`.

    parameters: "type %name" each.
    """
    name = f"flambeau.apart.{_digest(kind + ', '.join(parameters) + body + result)}"
    return name, f"define internal {kind} @{name}({', '.join(parameters)}) {_PURE} {{\n{body}  ret {kind} {result}\n}}"


def repeating_function(kind: str, width: int, operands: int, body: str, results: tuple[str, ...]) -> tuple[str, set[str]]:
    """(name, declarations) of a function (count, y0, y1 ..., x0, x1 ...) that takes steps from the values y until `count` of
    them or until y0 is NaN, element by element, and returns y0.

    The instructions of `body` compute the registers `results`, the next values, from %k, %y0 ..., %x0 ...; kind, width and
    operands (how many x) as in `rare_function`.
    """
    type, suffix = (f"<{width} x {kind}>", f"v{width}i1") if width else (kind, "")
    bit = f"<{width} x i1>" if width else "i1"
    name = f"flambeau.repeated.{_digest(type + body + ', '.join(results))}"
    values = range(len(results))
    given = ", ".join(f"{type} {x}" for x in ("%count", *(f"%s{i}" for i in values), *(f"%x{i}" for i in range(operands))))
    states = "".join(f"  %y{i} = phi {type} [%s{i}, %entry], [%n{i}, %step]\n" for i in values)
    chosen = "".join(f"  %n{i} = select {bit} %goes, {type} {result}, {type} %y{i}\n" for i, result in enumerate(results))
    if width:
        spread = (f"  %k.0 = insertelement {type} poison, {kind} %index, i64 0\n"
                  f"  %k = shufflevector {type} %k.0, {type} poison, <{width} x i32> zeroinitializer\n")
        some = f"  %any = call i1 @llvm.vector.reduce.or.{suffix}({bit} %goes)\n"
        declarations = {f"declare i1 @llvm.vector.reduce.or.{suffix}({bit})"}
    else:
        spread, some, declarations = f"  %k = fadd {kind} %index, 0.0\n", "  %any = and i1 %goes, true\n", set()
    return name, declarations | {
        f"define internal {type} @{name}({given}) noinline nounwind memory(none) {{\n"
        "entry:\n  br label %head\n"
        f"head:\n  %index = phi {kind} [0.0, %entry], [%after, %step]\n{states}{spread}"
        f"  %below = fcmp olt {type} %k, %count\n  %number = fcmp ord {type} %y0, %y0\n"
        f"  %goes = and {bit} %below, %number\n{some}"
        "  br i1 %any, label %step, label %done\n"
        f"step:\n{body}{chosen}  %after = fadd {kind} %index, 1.0\n  br label %head\n"
        f"done:\n  ret {type} %y0\n}}"}


def rare_function(kind: str, limit: str, operands: int, body: str, result: str, width: int) -> tuple[str, set[str]]:
    """(name, declarations) of a function (common, size, x0, x1 ...) with so many operands.

    It gives `common`; where |size| >= limit, the register `result` that the instructions of `body` compute from
    %size, %x0, %x1 ... kind: "float" or "double"; width: elements of the operands, 0 for single numbers.
    """
    name = f"flambeau.rare.{_digest(limit + body + result)}"
    inputs = ["%size", *(f"%x{i}" for i in range(operands))]
    given = ", ".join(f"{kind} {x}" for x in inputs)
    declarations = {
        f"declare {kind} @llvm.fabs.{_SUFFIX[kind]}({kind})",
        f"define internal {kind} @{name}.slow({given}) {_COLD} {{\n{body}  ret {kind} {result}\n}}",
        f"define internal {kind} @{name}({kind} %common, {given}) {_SMALL} {{\n"
        f"  %magnitude = call {kind} @llvm.fabs.{_SUFFIX[kind]}({kind} %size)\n"
        f"  %rare = fcmp oge {kind} %magnitude, {limit}\n"
        "  br i1 %rare, label %slow, label %done\n"
        f"slow:\n  %value = call {kind} @{name}.slow({given})\n  ret {kind} %value\n"
        f"done:\n  ret {kind} %common\n}}",
    }
    if not width:
        return name, declarations
    return f"{name}.v{width}", declarations | _for_vectors(name, kind, limit, inputs, width)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _for_vectors(name: str, kind: str, limit: str, inputs: list[str], width: int) -> set[str]:
    """The same function for `width` elements."""
    vector, mask, suffix = f"<{width} x {kind}>", f"<{width} x i1>", f"v{width}{_SUFFIX[kind]}"
    elements = "".join(f"  {x}.i = extractelement {vector} {x}, i32 %i\n" for x in inputs)
    return {
        f"declare {vector} @llvm.fabs.{suffix}({vector})",
        f"declare i1 @llvm.vector.reduce.or.v{width}i1({mask})",
        f"define internal {vector} @{name}.v{width}({', '.join(f'{vector} {x}' for x in ('%common', *inputs))}) {_SMALL} {{\n"
        f"entry:\n  %magnitude = call {vector} @llvm.fabs.{suffix}({vector} %size)\n"
        f"  %rare = fcmp oge {vector} %magnitude, splat ({kind} {limit})\n"
        f"  %any = call i1 @llvm.vector.reduce.or.v{width}i1({mask} %rare)\n"
        "  br i1 %any, label %lane, label %done\n"
        "lane:\n  %i = phi i32 [0, %entry], [%next, %lane]\n"
        f"  %kept = phi {vector} [%common, %entry], [%placed, %lane]\n"
        f"{elements}  %old = extractelement {vector} %kept, i32 %i\n"
        f"  %new = call {kind} @{name}({kind} %old, {', '.join(f'{kind} {x}.i' for x in inputs)})\n"
        f"  %placed = insertelement {vector} %kept, {kind} %new, i32 %i\n"
        "  %next = add i32 %i, 1\n"
        f"  %more = icmp ult i32 %next, {width}\n"
        "  br i1 %more, label %lane, label %done\n"
        f"done:\n  %result = phi {vector} [%common, %entry], [%placed, %lane]\n"
        f"  ret {vector} %result\n}}",
    }
