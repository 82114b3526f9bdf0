"""Functions for what few elements need: called with a whole vector, they return at once unless one of its elements needs more.

A `rarely` expression (ir.scalar) must not cost the elements that don't need it, nor make a kernel's loop long. So it becomes a
call of a function (common, size, operands ...) of this file. Used by codegen.scalar.
"""

from __future__ import annotations

import hashlib

_SUFFIX = {"float": "f32", "double": "f64"}
_SMALL = "noinline minsize optsize nounwind willreturn memory(none)"  # never hot, so that size and compile time count


def rare_function(kind: str, limit: str, operands: int, body: str, result: str, width: int) -> tuple[str, set[str]]:
    """(name, declarations) of a function (common, size, x0, x1 ...) with so many operands.

    It gives `common`; where |size| >= limit, the register `result` that the instructions of `body` compute from
    %size, %x0, %x1 ... kind: "float" or "double"; width: elements of the operands, 0 for single numbers.
    """
    digest = hashlib.blake2b(f"{limit}{body}{result}".encode(), digest_size=6).hexdigest()
    name = f"flambeau.rare.{digest}"
    inputs = ["%size", *(f"%x{i}" for i in range(operands))]
    given = ", ".join(f"{kind} {x}" for x in inputs)
    declarations = {
        f"declare {kind} @llvm.fabs.{_SUFFIX[kind]}({kind})",
        f"define internal {kind} @{name}.slow({given}) cold {_SMALL} {{\n{body}  ret {kind} {result}\n}}",
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
