"""Functions for what few elements need, which LLVM's loop vectoriser can call with a whole vector.

A `rarely` expression (ir.scalar) must not cost the elements that don't need it, nor keep a loop from becoming vectors.
So it becomes a call of a function (common, size, operands ...) of this file, with variants for vectors that the call
names in LLVM's "vector-function-abi-variant" attribute: they return `common` after one comparison unless a lane needs
more. Used by codegen.scalar.
"""

from __future__ import annotations

import hashlib

#: The lengths of vectors that the loop vectoriser picks.
LANES = {"float": (4, 8, 16), "double": (2, 4, 8, 16)}
_SUFFIX = {"float": "f32", "double": "f64"}
_PURE = "nounwind willreturn memory(none)"
_SMALL = f"noinline minsize optsize {_PURE}"  # never hot, so that their size and compile time count


def rare_function(kind: str, limit: str, operands: int, body: str, result: str) -> tuple[str, str, set[str]]:
    """(name, attributes of a call, declarations) of a function (common, size, x0, x1 ...) with so many operands.

    It gives `common`; where |size| >= limit, the register `result` that the instructions of `body` compute from
    %size, %x0, %x1 ... kind: "float" or "double".
    """
    suffix = _SUFFIX[kind]
    digest = hashlib.blake2b(f"{limit}{body}{result}".encode(), digest_size=6).hexdigest()
    name = f"flambeau.rare.{digest}"
    inputs = ["%size", *(f"%x{i}" for i in range(operands))]
    given = ", ".join(f"{kind} {x}" for x in inputs)
    declarations = {
        f"declare {kind} @llvm.fabs.{suffix}({kind})",
        f"define internal {kind} @{name}.slow({given}) cold {_SMALL} {{\n{body}  ret {kind} {result}\n}}",
        f"define internal {kind} @{name}({kind} %common, {given}) {_SMALL} {{\n"
        f"  %magnitude = call {kind} @llvm.fabs.{suffix}({kind} %size)\n"
        f"  %rare = fcmp oge {kind} %magnitude, {limit}\n"
        "  br i1 %rare, label %slow, label %done\n"
        f"slow:\n  %value = call {kind} @{name}.slow({given})\n  ret {kind} %value\n"
        f"done:\n  ret {kind} %common\n}}",
    }
    for lanes in LANES[kind]:
        declarations |= _vector_variant(name, kind, limit, inputs, lanes)
    letters = "v" * (1 + len(inputs))
    variants = ",".join(f"_ZGV_LLVM_N{lanes}{letters}_{name}({name}.v{lanes})" for lanes in LANES[kind])
    return name, f'{_PURE} "vector-function-abi-variant"="{variants}"', declarations


def _vector_variant(name: str, kind: str, limit: str, inputs: list[str], lanes: int) -> set[str]:
    """The function for vectors of `lanes`. Hidden and not internal: nothing refers to it before loops are vectorised."""
    vector, mask, suffix = f"<{lanes} x {kind}>", f"<{lanes} x i1>", f"v{lanes}{_SUFFIX[kind]}"
    elements = "".join(f"  {x}.i = extractelement {vector} {x}, i32 %i\n" for x in inputs)
    return {
        f"declare {vector} @llvm.fabs.{suffix}({vector})",
        f"declare i1 @llvm.vector.reduce.or.v{lanes}i1({mask})",
        f"define hidden {vector} @{name}.v{lanes}({', '.join(f'{vector} {x}' for x in ('%common', *inputs))}) {_SMALL} {{\n"
        f"entry:\n  %magnitude = call {vector} @llvm.fabs.{suffix}({vector} %size)\n"
        f"  %rare = fcmp oge {vector} %magnitude, <{', '.join([f'{kind} {limit}'] * lanes)}>\n"
        f"  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1({mask} %rare)\n"
        "  br i1 %any, label %lane, label %done\n"
        "lane:\n  %i = phi i32 [0, %entry], [%next, %lane]\n"
        f"  %kept = phi {vector} [%common, %entry], [%placed, %lane]\n"
        f"{elements}  %old = extractelement {vector} %kept, i32 %i\n"
        f"  %new = call {kind} @{name}({kind} %old, {', '.join(f'{kind} {x}.i' for x in inputs)})\n"
        f"  %placed = insertelement {vector} %kept, {kind} %new, i32 %i\n"
        "  %next = add i32 %i, 1\n"
        f"  %more = icmp ult i32 %next, {lanes}\n"
        "  br i1 %more, label %lane, label %done\n"
        f"done:\n  %result = phi {vector} [%common, %entry], [%placed, %lane]\n"
        f"  ret {vector} %result\n}}",
    }
