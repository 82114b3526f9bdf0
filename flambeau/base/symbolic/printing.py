"""Expressions as text: `text_of` as SymPy's str prints them, `repr_of` as its srepr does, which files of programs hold."""

from __future__ import annotations

from flambeau.base.symbolic.expressions import RELATIONS, Expr, coefficient, factors, printer

__all__ = ["repr_of", "text_of"]

_ATOM, _POW, _MUL, _ADD, _RELATION, _FUNCTION = 1000, 60, 50, 40, 35, 35
_SIGNS = {"Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">="}
_LOW = frozenset("FloorDiv CleanDiv Mod PythonMod ModularIndexing Where FloatTrueDiv IntTrueDiv".split())


def _precedence(e: Expr) -> int:
    if e.is_number:
        return _ADD if e.value < 0 else _ATOM
    if e.kind == "Mul" and coefficient(e)[0].value < 0:
        return _ADD
    found = {"Add": _ADD, "Mul": _MUL, "Pow": _POW, "And": 30, "Or": 20, "Not": 100, "PowByNatural": _MUL, "FloatPow": _POW}
    if e.kind in found:
        return found[e.kind]
    return _RELATION if e.kind in RELATIONS else _FUNCTION if e.kind in _LOW else 10 if e.kind == "Identity" else _ATOM


def _enclosed(e: Expr, level: float, strict: bool = False) -> str:
    own = _precedence(e)
    text = text_of(e, nested=True)
    return f"({text})" if own < level or (not strict and own <= level) else text


def _float_text(value: float, nested: bool) -> str:
    text = f"{value:.15g}"
    if "." not in text and "e" not in text and "n" not in text:
        text += ".0"
    if not nested and "e" not in text and "n" not in text:
        whole, _, rest = text.partition(".")
        digits = len(whole.lstrip("-").lstrip("0"))
        text = whole + "." + rest.ljust(15 - digits, "0")
    return text


def text_of(e: Expr, nested: bool = False) -> str:
    """As SymPy's str."""
    kind = e.kind
    if kind == "Integer":
        return str(e.value)
    if kind == "Float":
        return _float_text(e.value, nested)
    if kind == "Symbol":
        return e.name
    if kind in ("true", "false"):
        return "True" if kind == "true" else "False"
    if kind == "Add":
        return _sum(e)
    if kind == "Mul":
        c, _ = coefficient(e)
        sign = "-" if c.value < 0 else ""
        return sign + "*".join(_enclosed(f, _MUL) for f in factors(-e if sign else e))
    if kind == "Pow":
        return f"{_enclosed(e.args[0], _POW)}**{_enclosed(e.args[1], _POW)}"
    if kind in ("FloorDiv", "CleanDiv"):
        return f"({_enclosed(e.args[0], _ATOM - 0.5)}//{_enclosed(e.args[1], _ATOM - 0.5)})"
    if kind == "Identity":
        return f"({text_of(e.args[0], nested=True)})"
    if kind in _SIGNS:
        return f"{_enclosed(e.args[0], _RELATION)} {_SIGNS[kind]} {_enclosed(e.args[1], _RELATION)}"
    if kind in ("And", "Or"):
        sign, level = (" & ", 30) if kind == "And" else (" | ", 20)
        return sign.join(f"({text_of(a, nested=True)})" if a.kind in _SIGNS else _enclosed(a, level) for a in e.args)
    if kind == "Not":
        return f"~({text_of(e.args[0], nested=True)})"
    return f"{kind}({', '.join(text_of(a, nested=True) for a in e.args)})"


def _sum(e: Expr) -> str:
    parts: list[str] = []
    for term in e.args:
        text = text_of(term, nested=True)
        sign = "+"
        if text.startswith("-") and term.kind != "Add":
            sign, text = "-", text[1:]
        parts += [sign, f"({text})" if _precedence(term) < _ADD else text]
    return ("-" if parts[0] == "-" else "") + " ".join(parts[1:])


@printer
def _text(e: Expr) -> str:
    return text_of(e)


def repr_of(e: Expr) -> str:
    """As SymPy's srepr."""
    if e.kind == "Integer":
        return f"Integer({e.value})"
    if e.kind == "Float":
        return f"Float('{e.value:.17g}', precision=53)" if e.value % 1 else f"Float('{e.value}', precision=53)"
    if e.kind == "Symbol":
        assumed = [n for n in ("positive", "nonnegative", "integer") if getattr(e, "is_" + n)]
        if e.is_positive:
            assumed.remove("nonnegative")
        return f"Symbol({e.name!r}{''.join(f', {n}=True' for n in assumed)})"
    if not e.args:
        return e.kind
    args = list(e.args)
    if e.kind == "Mul" and args[0].kind == "Integer" and args[0].value < -1:
        minus = ["Integer(-1)", f"Integer({-args[0].value})"]
        return f"Mul({', '.join([*minus, *map(repr_of, args[1:])])})"
    return f"{RELATIONS.get(e.kind, e.kind)}({', '.join(map(repr_of, args))})"
