"""Parts of a kernel's loop that stand in functions of their own, outside it.

What few elements need (`rarely`, ir.scalar) must not cost the others, nor make the loop long: its function gets a whole vector
and returns at once unless one of its elements needs more; so does that of what all or none may need (`sometimes`). What is long
and needed several times (`apart`) is written once; what is repeated until no element wants more (`repeat`) is a loop.
Used by codegen.scalar.
"""

from __future__ import annotations

from flambeau.codegen.object_cache.digest import sha256

_PURE = "noinline nounwind willreturn memory(none)"
_SMALL = f"{_PURE} minsize optsize"  # entered often, left at once
_COLD = f"{_PURE} cold optnone"  # LLVM spends as little time as it can on it
_SUFFIX = {"float": "f32", "double": "f64"}


def apart_function(parameters: list[str], body: str, result: str, kind: str) -> tuple[str, str]:
    """(name, definition) of a function that gives the register `result`, of type `kind`, of the instructions of `body`.

    parameters: "type %name" each.
    """
    name = f"flambeau.apart.{_digest(kind + ', '.join(parameters) + body + result)}"
    return name, f"define internal {kind} @{name}({', '.join(parameters)}) {_PURE} {{\n{body}  ret {kind} {result}\n}}"


def sometimes_function(types: list[str], body: str, result: str, width: int) -> tuple[str, set[str]]:
    """(name, declarations) of a function (common, needed, x0, x1 ...) of those types, for `width` elements (0: one).

    It gives `common`, or where `needed` holds the register `result` that the instructions of `body` compute from %x0, %x1 ...
    """
    kind, mask = types[:2]
    name = f"flambeau.sometimes.{_digest(', '.join(types) + body + result)}"
    names = ["%common", "%needed", *(f"%x{i}" for i in range(len(types) - 2))]
    parameters = ", ".join(f"{type} {x}" for type, x in zip(types, names))
    any, wanted, declarations = _any_of("%needed", width)
    return name, declarations | {
        f"define internal {kind} @{name}({parameters}) {_PURE} {{\n"
        f"{any}  br i1 {wanted}, label %other, label %done\n"
        f"other:\n{body}  %chosen = select {mask} %needed, {kind} {result}, {kind} %common\n  ret {kind} %chosen\n"
        f"done:\n  ret {kind} %common\n}}"
    }


def repeat_function(
    types: list[str], test: tuple[str, str], step: tuple[str, list[str]], limit: int, width: int
) -> tuple[str, set[str]]:
    """(name, declarations) of a function (x0, x1 ...) of those types that gives the first of its states after the last step.

    test, step: instructions on %x0, %x1 ... and the registers of the condition and of the next states, the first parameters.
    """
    body, following = step
    count, mask = len(following), f"<{width} x i1>" if width else "i1"
    name = f"flambeau.repeat.{_digest(', '.join(types) + str(test) + str(step) + str(limit))}"
    names = [f"%start{i}" if i < count else f"%x{i}" for i in range(len(types))]
    heads = "".join(f"  %x{i} = phi {types[i]} [%start{i}, %entry], [%kept{i}, %body]\n" for i in range(count))
    kept = "".join(f"  %kept{i} = select {mask} {test[1]}, {types[i]} {following[i]}, {types[i]} %x{i}\n" for i in range(count))
    any, wanted, declarations = _any_of(test[1], width)
    return name, declarations | {
        f"define internal {types[0]} @{name}({', '.join(f'{type} {x}' for type, x in zip(types, names))}) {_PURE} {{\n"
        f"entry:\n  br label %head\n"
        f"head:\n  %steps = phi i64 [0, %entry], [%next, %body]\n{heads}{test[0]}{any}"
        f"  %left = icmp ult i64 %steps, {limit}\n"
        f"  %goes = and i1 {wanted}, %left\n  br i1 %goes, label %body, label %done\n"
        f"body:\n{body}{kept}  %next = add i64 %steps, 1\n  br label %head\n"
        f"done:\n  ret {types[0]} %x0\n}}"
    }


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


def _any_of(mask: str, width: int) -> tuple[str, str, set[str]]:
    """(instructions, register, declarations) of whether any of a mask's elements is set; width 0: the mask is one bit."""
    if not width:
        return "", mask, set()
    call = f"i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1>"
    return f"  %any = call {call} {mask})\n", "%any", {f"declare {call})"}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def _for_vectors(name: str, kind: str, limit: str, inputs: list[str], width: int) -> set[str]:
    """The same function for `width` elements."""
    vector, suffix = f"<{width} x {kind}>", f"v{width}{_SUFFIX[kind]}"
    any, wanted, declarations = _any_of("%rare", width)
    elements = "".join(f"  {x}.i = extractelement {vector} {x}, i32 %i\n" for x in inputs)
    return declarations | {
        f"declare {vector} @llvm.fabs.{suffix}({vector})",
        f"define internal {vector} @{name}.v{width}({', '.join(f'{vector} {x}' for x in ('%common', *inputs))}) {_SMALL} {{\n"
        f"entry:\n  %magnitude = call {vector} @llvm.fabs.{suffix}({vector} %size)\n"
        f"  %rare = fcmp oge {vector} %magnitude, splat ({kind} {limit})\n"
        f"{any}  br i1 {wanted}, label %lane, label %done\n"
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
