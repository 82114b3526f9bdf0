"""Functions for what few elements need, which LLVM's loop vectoriser can call with a whole vector.

A `rarely` expression (ir.scalar) must not cost the elements that don't need it, nor keep a loop from becoming vectors.
So it becomes a call of a function (x, common) of this file, with variants for vectors that the call names in LLVM's
"vector-function-abi-variant" attribute: they return `common` after one comparison unless a lane holds a rare x.
Used by codegen.scalar.
"""

from __future__ import annotations

import hashlib

#: The lengths of vectors that the loop vectoriser picks.
LANES = {"float": (4, 8, 16), "double": (2, 4, 8)}
_SUFFIX = {"float": "f32", "double": "f64"}
_PURE = "nounwind willreturn memory(none)"
_SMALL = f"noinline minsize optsize {_PURE}"  # never hot, so that their size and compile time count


def rare_function(kind: str, limit: str, body: str, result: str) -> tuple[str, str, set[str]]:
    """(name, attributes of a call, declarations) of the function (x, common) -> common, or `result` if |x| >= limit.

    kind: "float" or "double". body: the instructions that compute `result` from %x.
    """
    suffix = _SUFFIX[kind]
    digest = hashlib.blake2b(f"{limit}{body}{result}".encode(), digest_size=6).hexdigest()
    name = f"flambeau.rare.{digest}"
    declarations = {
        f"declare {kind} @llvm.fabs.{suffix}({kind})",
        f"define internal {kind} @{name}.slow({kind} %x) cold {_SMALL} {{\n{body}  ret {kind} {result}\n}}",
        f"define internal {kind} @{name}({kind} %x, {kind} %common) {_SMALL} {{\n"
        f"  %size = call {kind} @llvm.fabs.{suffix}({kind} %x)\n"
        f"  %rare = fcmp oge {kind} %size, {limit}\n"
        "  br i1 %rare, label %slow, label %done\n"
        f"slow:\n  %value = call {kind} @{name}.slow({kind} %x)\n  ret {kind} %value\n"
        f"done:\n  ret {kind} %common\n}}",
    }
    for lanes in LANES[kind]:
        declarations |= _vector_variant(name, kind, limit, lanes)
    variants = ",".join(f"_ZGV_LLVM_N{lanes}vv_{name}({name}.v{lanes})" for lanes in LANES[kind])
    return name, f'{_PURE} "vector-function-abi-variant"="{variants}"', declarations


def _vector_variant(name: str, kind: str, limit: str, lanes: int) -> set[str]:
    """The function for vectors of `lanes`. Hidden and not internal: nothing refers to it before loops are vectorised."""
    vector, mask, suffix = f"<{lanes} x {kind}>", f"<{lanes} x i1>", f"v{lanes}{_SUFFIX[kind]}"
    return {
        f"declare {vector} @llvm.fabs.{suffix}({vector})",
        f"declare i1 @llvm.vector.reduce.or.v{lanes}i1({mask})",
        f"define hidden {vector} @{name}.v{lanes}({vector} %x, {vector} %common) {_SMALL} {{\n"
        f"entry:\n  %size = call {vector} @llvm.fabs.{suffix}({vector} %x)\n"
        f"  %rare = fcmp oge {vector} %size, <{', '.join([f'{kind} {limit}'] * lanes)}>\n"
        f"  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1({mask} %rare)\n"
        "  br i1 %any, label %lane, label %done\n"
        "lane:\n  %i = phi i32 [0, %entry], [%next, %lane]\n"
        f"  %kept = phi {vector} [%common, %entry], [%placed, %lane]\n"
        f"  %element = extractelement {vector} %x, i32 %i\n"
        f"  %old = extractelement {vector} %kept, i32 %i\n"
        f"  %new = call {kind} @{name}({kind} %element, {kind} %old)\n"
        f"  %placed = insertelement {vector} %kept, {kind} %new, i32 %i\n"
        "  %next = add i32 %i, 1\n"
        f"  %more = icmp ult i32 %next, {lanes}\n"
        "  br i1 %more, label %lane, label %done\n"
        f"done:\n  %result = phi {vector} [%common, %entry], [%placed, %lane]\n"
        f"  ret {vector} %result\n}}",
    }
