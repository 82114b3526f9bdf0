# ruff: noqa: E501
"""Expressions over sizes: the forms that SymPy gives them, their texts both ways, ranges; hostile texts are refused."""

from __future__ import annotations

import pytest

from flambeau.base.symbolic.expressions import Expr, as_expr, expand, rebuild, symbol
from flambeau.base.symbolic.printing import repr_of, text_of
from flambeau.base.symbolic.ranges import ValueRanges, decided, int_oo, range_of
from flambeau.base.symbolic.reading import read

# str and srepr of SymPy 1.14 for PyTorch 2.13's expressions; + stands for ", positive=True, integer=True", ~ for ", integer=True"
FORMS = """
s0 + s27  ::  Add(Symbol('s0'+), Symbol('s27'+))
s0*s27 + 1  ::  Add(Mul(Symbol('s0'+), Symbol('s27'+)), Integer(1))
s0*(s27 + 1)  ::  Mul(Symbol('s0'+), Add(Symbol('s27'+), Integer(1)))
2*s0 + 2  ::  Add(Mul(Integer(2), Symbol('s0'+)), Integer(2))
(s0 + 1)**2  ::  Pow(Add(Symbol('s0'+), Integer(1)), Integer(2))
s0**2  ::  Pow(Symbol('s0'+), Integer(2))
1 - s0  ::  Add(Integer(1), Mul(Integer(-1), Symbol('s0'+)))
-s0 + s27  ::  Add(Mul(Integer(-1), Symbol('s0'+)), Symbol('s27'+))
3 - 2*s0  ::  Add(Integer(3), Mul(Integer(-1), Integer(2), Symbol('s0'+)))
s0 - 1  ::  Add(Symbol('s0'+), Integer(-1))
(((s0 - 3)//2)) + 1  ::  Add(FloorDiv(Add(Symbol('s0'+), Integer(-3)), Integer(2)), Integer(1))
2*((s0//2))  ::  Mul(Integer(2), FloorDiv(Symbol('s0'+), Integer(2)))
((((((s0 - 3)//2)) - 1)//2)) + 1  ::  Add(FloorDiv(Add(FloorDiv(Add(Symbol('s0'+), Integer(-3)), Integer(2)), Integer(-1)), Integer(2)), Integer(1))
s0  ::  Symbol('s0'+)
s27  ::  Symbol('s27'+)
(s0//2)  ::  FloorDiv(Symbol('s0'+), Integer(2))
(s0//s27)  ::  FloorDiv(Symbol('s0'+), Symbol('s27'+))
Mod(s0, 4)  ::  Mod(Symbol('s0'+), Integer(4))
0  ::  Integer(0)
Mod(s0 + 4, 4)  ::  Mod(Add(Symbol('s0'+), Integer(4)), Integer(4))
PythonMod(s0, 4)  ::  PythonMod(Symbol('s0'+), Integer(4))
Min(s0, s27)  ::  Min(Symbol('s0'+), Symbol('s27'+))
Max(5, s0)  ::  Max(Integer(5), Symbol('s0'+))
Min(5, s0, s27)  ::  Min(Integer(5), Symbol('s0'+), Symbol('s27'+))
Max(s0, s0 + 1)  ::  Max(Symbol('s0'+), Add(Symbol('s0'+), Integer(1)))
IntTrueDiv(s0, 2)  ::  IntTrueDiv(Symbol('s0'+), Integer(2))
ToFloat(s0)  ::  ToFloat(Symbol('s0'+))
TruncToInt(2.5*ToFloat(s0))  ::  TruncToInt(Mul(Float('2.5', precision=53), ToFloat(Symbol('s0'+))))
2.0*ToFloat(s0)  ::  Mul(Float('2.0', precision=53), ToFloat(Symbol('s0'+)))
Eq(s0, s27)  ::  Equality(Symbol('s0'+), Symbol('s27'+))
Ne(s0, 4)  ::  Unequality(Symbol('s0'+), Integer(4))
s0 < 4  ::  StrictLessThan(Symbol('s0'+), Integer(4))
(s27 > 3) & (s0 < 4)  ::  And(StrictGreaterThan(Symbol('s27'+), Integer(3)), StrictLessThan(Symbol('s0'+), Integer(4)))
(s27 > 3) | (s0 < 4)  ::  Or(StrictGreaterThan(Symbol('s27'+), Integer(3)), StrictLessThan(Symbol('s0'+), Integer(4)))
Ne(s0, s27)  ::  Unequality(Symbol('s0'+), Symbol('s27'+))
Eq(Mod(s0, 4), 0)  ::  Equality(Mod(Symbol('s0'+), Integer(4)), Integer(0))
s0**2*s27  ::  Mul(Pow(Symbol('s0'+), Integer(2)), Symbol('s27'+))
s0**3  ::  Pow(Symbol('s0'+), Integer(3))
PowByNatural(s0, s27)  ::  PowByNatural(Symbol('s0'+), Symbol('s27'+))
5*s0*s27*s77  ::  Mul(Integer(5), Symbol('s0'+), Symbol('s27'+), Symbol('s77'+))
s77*(s0 + s27)  ::  Mul(Symbol('s77'+), Add(Symbol('s0'+), Symbol('s27'+)))
s27*((s0//2))  ::  Mul(Symbol('s27'+), FloorDiv(Symbol('s0'+), Integer(2)))
s0*s27  ::  Mul(Symbol('s0'+), Symbol('s27'+))
s0 + ((s27//2))  ::  Add(Symbol('s0'+), FloorDiv(Symbol('s27'+), Integer(2)))
s0*s27 - s0*s77 + s27  ::  Add(Mul(Symbol('s0'+), Symbol('s27'+)), Mul(Integer(-1), Symbol('s0'+), Symbol('s77'+)), Symbol('s27'+))
-2*s0*(s27 + 1)  ::  Mul(Integer(-1), Integer(2), Symbol('s0'+), Add(Symbol('s27'+), Integer(1)))
2*s0*(s27 + 1)  ::  Mul(Integer(2), Symbol('s0'+), Add(Symbol('s27'+), Integer(1)))
-s0 + 2*(((s0 + s27)//2)) + 1  ::  Add(Mul(Integer(-1), Symbol('s0'+)), Mul(Integer(2), FloorDiv(Add(Symbol('s0'+), Symbol('s27'+)), Integer(2))), Integer(1))
s0*s27*(s0 + 1)  ::  Mul(Symbol('s0'+), Symbol('s27'+), Add(Symbol('s0'+), Integer(1)))
s0 + u0  ::  Add(Symbol('s0'+), Symbol('u0'~))
-s0 + 2*u0  ::  Add(Mul(Integer(-1), Symbol('s0'+)), Mul(Integer(2), Symbol('u0'~)))
s0 < s27  ::  StrictLessThan(Symbol('s0'+), Symbol('s27'+))
s27 < s0  ::  StrictLessThan(Symbol('s27'+), Symbol('s0'+))
Eq(s27, s0)  ::  Equality(Symbol('s27'+), Symbol('s0'+))
Eq(2*s27, 4*s0)  ::  Equality(Mul(Integer(2), Symbol('s27'+)), Mul(Integer(4), Symbol('s0'+)))
Eq(s0 + 1, s27 + 1)  ::  Equality(Add(Symbol('s0'+), Integer(1)), Add(Symbol('s27'+), Integer(1)))
s0 - 1 <= 3  ::  LessThan(Add(Symbol('s0'+), Integer(-1)), Integer(3))
((s0 + 2)//3)  ::  FloorDiv(Add(Symbol('s0'+), Integer(2)), Integer(3))
((s0//2)) < 3  ::  StrictLessThan(FloorDiv(Symbol('s0'+), Integer(2)), Integer(3))
RoundToInt(1.5*ToFloat(s0))  ::  RoundToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s0'+))))
Eq(s0*s27, 2*s0)  ::  Equality(Mul(Symbol('s0'+), Symbol('s27'+)), Mul(Integer(2), Symbol('s0'+)))
FloatTrueDiv(ToFloat(s0), 2.0)  ::  FloatTrueDiv(ToFloat(Symbol('s0'+)), Float('2.0', precision=53))
Mod(s0*s27, 2*s0)  ::  Mod(Mul(Symbol('s0'+), Symbol('s27'+)), Mul(Integer(2), Symbol('s0'+)))
0.5*ToFloat(s0) + 1  ::  Add(Mul(Float('0.5', precision=53), ToFloat(Symbol('s0'+))), Integer(1))
FloorToInt(0.3*s0)  ::  FloorToInt(Mul(Float('0.29999999999999999', precision=53), Symbol('s0'+)))
-(((-s0)//2))  ::  Mul(Integer(-1), FloorDiv(Mul(Integer(-1), Symbol('s0'+)), Integer(2)))
Min(5, s0)  ::  Min(Integer(5), Symbol('s0'+))
(s0 - 1)*(s27 - 1)  ::  Mul(Add(Symbol('s0'+), Integer(-1)), Add(Symbol('s27'+), Integer(-1)))
s27*(2*s0 - 2)  ::  Mul(Symbol('s27'+), Add(Mul(Integer(2), Symbol('s0'+)), Integer(-2)))
s0*s27 + s0 - s27 - 1  ::  Add(Mul(Symbol('s0'+), Symbol('s27'+)), Symbol('s0'+), Mul(Integer(-1), Symbol('s27'+)), Integer(-1))
s0*((s27//s0))  ::  Mul(Symbol('s0'+), FloorDiv(Symbol('s27'+), Symbol('s0'+)))
(s0)  ::  Identity(Symbol('s0'+))
CeilToInt(0.3*s0)  ::  CeilToInt(Mul(Float('0.29999999999999999', precision=53), Symbol('s0'+)))
u0 >= 0  ::  GreaterThan(Symbol('u0'~), Integer(0))
(u0 >= 0) & (u0 <= 5)  ::  And(GreaterThan(Symbol('u0'~), Integer(0)), LessThan(Symbol('u0'~), Integer(5)))
3*((s0//3)) - 1  ::  Add(Mul(Integer(3), FloorDiv(Symbol('s0'+), Integer(3))), Integer(-1))
(((s0 - 1)//2)) - 1  ::  Add(FloorDiv(Add(Symbol('s0'+), Integer(-1)), Integer(2)), Integer(-1))
"""
A, B = symbol("s0", positive=True), symbol("s27", positive=True)


def _rows() -> list[tuple[str, str]]:
    rows = [line.split("  ::  ") for line in FORMS.strip().splitlines()]
    return [
        (text, form.replace("'+)", "', positive=True, integer=True)").replace("'~)", "', integer=True)")) for text, form in rows
    ]


@pytest.mark.parametrize(("text", "form"), _rows())
def test_texts_are_those_of_sympy_and_are_read_back(text: str, form: str) -> None:
    made = read(form)
    assert (text_of(made), repr_of(made)) == (text, form)
    again = read(text, {s.name: s for s in made.free_symbols})
    assert again == made or "Identity" in form


def test_building_simplifies() -> None:
    assert str(2 * (A + 1) - A - A) == "2"
    assert str((4 * A + 3) // 4) == "s0"
    assert str((A * B) // B) == "s0"
    assert str(((A - 3) // 2 - 1) // 2 + 1) == "((((((s0 - 3)//2)) - 1)//2)) + 1"
    assert str((A * (B + 1)) // (B + 1)) == "s0"
    assert str(expand((A - 1) * (B + 1))) == "s0*s27 + s0 - s27 - 1"
    assert rebuild("Mod", (4 * A * B, 2 * B)) == 0
    assert rebuild("Gt", (A + 1, as_expr(1))) == as_expr(True)
    assert rebuild("Eq", (A, A + 1)) == as_expr(False)
    assert str(rebuild("Not", (rebuild("Lt", (A, B)),))) == "s0 >= s27"
    assert (A * (B + 1)).xreplace({B: 4}) == 5 * A
    with pytest.raises(ZeroDivisionError):
        A // 0


def test_values_and_ranges_agree_with_python() -> None:
    known = {A: ValueRanges(2, 9), B: ValueRanges(3, 5)}
    for e, compute in (
        ((A - 5) // B, lambda a, b: (a - 5) // b),
        (rebuild("Mod", (A, B)), lambda a, b: a % b),
        (rebuild("Max", (A, B, as_expr(4))) * -2 + A, lambda a, b: max(a, b, 4) * -2 + a),
        ((A - B) ** 2, lambda a, b: (a - b) ** 2),
        (rebuild("TruncToInt", (0.5 * rebuild("ToFloat", (A,)),)), lambda a, b: a // 2),
    ):
        r = range_of(e, known)
        for a in range(2, 10):
            for b in range(3, 6):
                value = e.xreplace({A: a, B: b})
                assert value == compute(a, b) and value.value in r
    assert repr(range_of(A + 1, {})) == "VR[2, int_oo]"
    assert repr(range_of(-A, {A: ValueRanges(2, int_oo)})) == "VR[-int_oo, -2]"


def test_relations_that_ranges_decide() -> None:
    known = {A: ValueRanges(2, int_oo)}
    for text, answer in (("s0 >= 2", True), ("s0 < 2", False), ("s0 < 5", None), ("Eq(2*s0, 3)", False), ("Ne(s0, 1)", True),
                         ("Eq(s0, 1) | (s0 > 1)", True), ("Eq(s0, 7)", None)):  # fmt: skip
        assert decided(read(text, {"s0": A}), known) is answer, text


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "().__class__", "Symbol('s0', positive=f())", "a.b", "[1]", "lambda: 1", "9**9**9**9",
    "((2**64)**64)**64", "(" * 5000 + "1" + ")" * 5000, "-" * 90000 + "1", "a" * 200_000, "FloorDiv(1)", "FloorDiv(1, 0)", "", "'s'",
    "Symbol('s0; import os')", "Max()", "1 +", "x if y else z", "Float('1', x=2, **{})", "int_oo + 1", "f'{1}'",
])  # fmt: skip
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)


def test_infinity_is_read_and_printed() -> None:
    assert read("int_oo") is int_oo and repr(read("-int_oo")) == "-int_oo"
    assert read("IntInfinity()") is int_oo
    with pytest.raises(ValueError, match="Invalid ranges"):
        ValueRanges(3, 2)
    assert isinstance(read("s0 + 1"), Expr)
