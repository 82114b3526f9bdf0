"""Expressions over integers and floats with symbols: building one brings it into the form that SymPy would have.

An Expr is a kind and its arguments, immutable and compared by structure. Sums collect like terms, products like bases; a number
times a sum is distributed, nothing else is expanded. Functions (floor division, minima, conversions) are in `functions`,
relations in `relations`, the printed form in `printing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "ONE", "ZERO", "Expr", "as_expr", "builder", "expand", "factors", "float_of", "integer", "power", "printer", "product",
    "rebuild", "sort_key", "sum_of", "symbol", "terms",
]  # fmt: skip


class Expr:
    """An expression: `kind` names it as SymPy's classes do ("Integer", "Symbol", "Add", "FloorDiv", "Eq", ...).

    args: the expressions that it is made of; value: the number of an Integer or Float; name: a symbol's. A symbol is an integer
    unless `is_integer` is False; `is_positive` and `is_nonnegative` are what is assumed of it, or what follows.
    """

    __slots__ = ("__weakref__", "_hash", "args", "is_integer", "is_nonnegative", "is_positive", "kind", "name", "value")

    def __init__(self, kind: str, args: tuple[Expr, ...] = (), *, value: Any = None, name: str = "", integer: bool = True,
                 positive: bool = False, nonnegative: bool = False) -> None:  # fmt: skip
        self.kind, self.args, self.value, self.name = kind, args, value, name
        self.is_integer, self.is_positive, self.is_nonnegative = integer, positive, nonnegative or positive
        self._hash = hash((kind, args, value, name, integer, positive, nonnegative))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr):
            if isinstance(other, (int, float)):
                return self.value == other and self.kind in ("Integer", "Float")
            return NotImplemented
        return (
            self._hash == other._hash
            and (self.kind, self.name, self.value, self.is_integer) == (other.kind, other.name, other.value, other.is_integer)
            and (self.is_positive, self.is_nonnegative) == (other.is_positive, other.is_nonnegative)
            and self.args == other.args
        )

    @property
    def is_number(self) -> bool:
        """Whether it is an Integer or a Float."""
        return self.kind in ("Integer", "Float")

    @property
    def is_symbol(self) -> bool:
        """Whether it is a symbol."""
        return self.kind == "Symbol"

    @property
    def free_symbols(self) -> set[Expr]:
        """The symbols in it."""
        found: set[Expr] = set()
        waiting = [self]
        while waiting:
            e = waiting.pop()
            if e.kind == "Symbol":
                found.add(e)
            waiting += e.args
        return found

    def xreplace(self, values: Mapping[Any, Any]) -> Expr:
        """The expression with other expressions, or numbers, in the place of some of its parts."""
        found = values.get(self)
        if found is not None:
            return as_expr(found)
        if not self.args:
            return self
        args = tuple([a.xreplace(values) for a in self.args])
        return self if args == self.args else rebuild(self.kind, args)

    subs = xreplace

    def __add__(self, other: Any) -> Expr:
        return sum_of(self, as_expr(other))

    def __radd__(self, other: Any) -> Expr:
        return sum_of(as_expr(other), self)

    def __sub__(self, other: Any) -> Expr:
        return sum_of(self, product(integer(-1), as_expr(other)))

    def __rsub__(self, other: Any) -> Expr:
        return sum_of(as_expr(other), product(integer(-1), self))

    def __mul__(self, other: Any) -> Expr:
        return product(self, as_expr(other))

    def __rmul__(self, other: Any) -> Expr:
        return product(as_expr(other), self)

    def __neg__(self) -> Expr:
        return product(integer(-1), self)

    def __floordiv__(self, other: Any) -> Expr:
        return rebuild("FloorDiv", (self, as_expr(other)))

    def __rfloordiv__(self, other: Any) -> Expr:
        return rebuild("FloorDiv", (as_expr(other), self))

    def __mod__(self, other: Any) -> Expr:
        return rebuild("Mod", (self, as_expr(other)))

    def __pow__(self, exponent: int) -> Expr:
        return power(self, exponent)

    def __int__(self) -> int:
        if not self.is_number:
            raise TypeError(f"Cannot convert {self} to int")
        return int(self.value)

    def __bool__(self) -> bool:
        if self.kind in ("true", "false"):
            return self.kind == "true"
        raise TypeError("cannot determine truth value of an expression with symbols")

    def __str__(self) -> str:
        return _PRINTERS[-1](self)

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.kind, self.args, self.value, self.name, self.is_integer, self.is_positive, self.is_nonnegative)


def _again(kind: str, args: tuple[Expr, ...], value: Any, name: str, integer: bool, positive: bool, nonneg: bool) -> Expr:
    return Expr(kind, args, value=value, name=name, integer=integer, positive=positive, nonnegative=nonneg)


_integers: dict[int, Expr] = {}


def integer(value: int) -> Expr:
    """A whole number."""
    found = _integers.get(value)
    if found is None:
        found = Expr("Integer", value=value, positive=value > 0, nonnegative=value >= 0)
        if -64 <= value <= 4096:
            _integers[value] = found
    return found


def float_of(value: float) -> Expr:
    """A float."""
    return Expr("Float", value=float(value), integer=False, positive=value > 0, nonnegative=value >= 0)


ZERO, ONE = integer(0), integer(1)


def symbol(name: str, *, integer: bool = True, positive: bool = False, nonnegative: bool = False) -> Expr:
    """A symbol with what is assumed of it; symbols of one name and other assumptions are different."""
    return Expr("Symbol", name=name, integer=integer, positive=positive, nonnegative=nonnegative)


def as_expr(value: Any) -> Expr:
    """A number or truth as an expression; expressions as they are."""
    if isinstance(value, Expr):
        return value
    if value is True or value is False:
        return Expr("true" if value else "false", integer=False)
    if isinstance(value, int):
        return integer(int(value))
    if isinstance(value, float):
        return float_of(value)
    raise TypeError(f"expected a number or an expression, got {type(value)}")


# ---------------------------------------------------------------- sums and products


def coefficient(e: Expr) -> tuple[Expr, Expr]:
    """(number, rest) whose product it is."""
    if e.is_number:
        return e, ONE
    if e.kind == "Mul" and e.args[0].is_number:
        rest = e.args[1:]
        return e.args[0], rest[0] if len(rest) == 1 else _product(rest)
    return ONE, e


def terms(e: Expr) -> tuple[Expr, ...]:
    """What it is the sum of."""
    return e.args if e.kind == "Add" else (e,)


def factors(e: Expr) -> tuple[Expr, ...]:
    """What it is the product of."""
    return e.args if e.kind == "Mul" else (e,)


def base_and_exponent(e: Expr) -> tuple[Expr, int]:
    """(base, exponent) of a power; (itself, 1) of anything else."""
    return (e.args[0], int(e.args[1])) if e.kind == "Pow" else (e, 1)


def _number(value: Any) -> Expr:
    return integer(value) if isinstance(value, int) else float_of(value)


def _signed(kind: str, args: tuple[Expr, ...], strict: Callable[[Iterable[bool]], bool]) -> Expr:
    """An expression that is positive if its arguments are not negative, and all or any of them (`strict`) positive."""
    whole, nonnegative = all(a.is_integer for a in args), all(a.is_nonnegative for a in args)
    positive = nonnegative and strict(a.is_positive for a in args)
    return Expr(kind, args, integer=whole, positive=positive, nonnegative=nonnegative)


def _product(args: tuple[Expr, ...]) -> Expr:
    return _signed("Mul", args, all)


def sum_of(*args: Expr) -> Expr:
    """A sum: numbers added, like terms collected, in the order in which SymPy prints them."""
    number: Any = 0
    counts: dict[Expr, Any] = {}
    for arg in args:
        for term in terms(arg):
            if term.is_number:
                number += term.value
                continue
            c, rest = coefficient(term)
            counts[rest] = counts.get(rest, 0) + c.value
    made = [product(_number(c), rest) if c != 1 else rest for rest, c in counts.items() if c != 0]
    if number != 0 or isinstance(number, float):
        made.append(_number(number))
    if not made:
        return ZERO
    if len(made) == 1:
        return made[0]
    own = tuple(ordered_terms(made))
    return _signed("Add", own, any)


def product(*args: Expr) -> Expr:
    """A product: numbers multiplied, like bases collected, a number distributed over a sum."""
    number: Any = 1
    exponents: dict[Expr, int] = {}
    for arg in args:
        for factor in factors(arg):
            if factor.is_number:
                number *= factor.value
                continue
            base, exponent = base_and_exponent(factor)
            exponents[base] = exponents.get(base, 0) + exponent
    if number == 0 and isinstance(number, int):
        return ZERO
    made = [power(base, n) for base, n in exponents.items() if n]
    if not made:
        return _number(number)
    if number == 1 and isinstance(number, int):
        if len(made) == 1:
            return made[0]
    elif len(made) == 1 and made[0].kind == "Add":
        return sum_of(*[product(_number(number), t) for t in made[0].args])
    made.sort(key=sort_key)
    if number != 1 or isinstance(number, float):
        made.insert(0, _number(number))
    return _product(tuple(made))


def power(base: Expr, exponent: int) -> Expr:
    """A power with a whole exponent that isn't negative."""
    if exponent < 0:
        raise ValueError("negative exponents have no place among sizes")
    if exponent == 0:
        return ONE
    if exponent == 1:
        return base
    if base.is_number:
        return _number(base.value**exponent)
    if base.kind == "Pow":
        return power(base.args[0], int(base.args[1]) * exponent)
    if base.kind == "Mul":
        return product(*[power(f, exponent) for f in base.args])
    nonnegative = base.is_nonnegative or exponent % 2 == 0
    return Expr("Pow", (base, integer(exponent)), integer=base.is_integer, positive=base.is_positive, nonnegative=nonnegative)


def expand(e: Expr) -> Expr:
    """The expression with products of sums multiplied out."""
    if not e.args:
        return e
    args = [expand(a) for a in e.args]
    if e.kind == "Pow":
        made = args[0]
        for _ in range(int(e.args[1]) - 1):
            made = _spread(made, args[0])
        return made
    if e.kind == "Mul":
        made = args[0]
        for other in args[1:]:
            made = _spread(made, other)
        return made
    return e if tuple(args) == e.args else rebuild(e.kind, tuple(args))


def _spread(a: Expr, b: Expr) -> Expr:
    return sum_of(*[product(x, y) for x in terms(a) for y in terms(b)])


# ---------------------------------------------------------------- the order in which SymPy prints

#: SymPy's names of relations, by which it sorts them.
RELATIONS = {
    "Eq": "Equality", "Ne": "Unequality", "Lt": "StrictLessThan", "Le": "LessThan", "Gt": "StrictGreaterThan",
    "Ge": "GreaterThan",
}  # fmt: skip
_UNORDERED = ("And", "Or", "Not", "Min", "Max")


def _class_key(e: Expr) -> tuple[int, int, str]:
    if e.is_number:
        return 1, 0, "Number"
    if e.is_symbol:
        return 2, 0, e.kind
    if e.kind in ("Mul", "Add", "Pow"):
        return 3, ("Mul", "Add", "Pow").index(e.kind), e.kind
    if e.kind in RELATIONS or e.kind in _UNORDERED:
        return 5, 0, RELATIONS.get(e.kind, e.kind)
    return 4, len(e.args), e.kind


def sort_key(e: Expr) -> tuple[Any, ...]:
    """SymPy's default key: the kind, the arguments, the exponent, the coefficient."""
    number, rest = coefficient(e)
    base, exponent = base_and_exponent(rest)
    if not base.args:
        inner: tuple[Any, ...] = (base.name or str(base.value if base.is_number else base.kind),)
        args: tuple[Any, ...] = (1, inner)
    else:
        args = (len(base.args), tuple([sort_key(a) for a in base.args]))
    return _class_key(base), args, exponent, number.value


def ordered_terms(terms: Sequence[Expr]) -> list[Expr]:
    """The terms of a sum by descending powers, the first generator counting most."""
    if len(terms) == 2:  # 1 - x rather than -x + 1
        first, second = sorted(terms, key=lambda t: not t.is_number)
        if first.is_number and first.value > 0 and second.kind == "Mul" and len(second.args) == 2:
            c = second.args[0]
            if c.is_number and c.value < 0:
                return [first, second]
    powers: list[tuple[Expr, dict[Expr, int]]] = []
    for term in terms:
        _, rest = coefficient(term)
        powers.append((term, {} if rest.is_number else dict(base_and_exponent(f) for f in factors(rest))))
    generators = sorted({g for _, own in powers for g in own}, key=sort_key)
    return [t for t, own in sorted(powers, key=lambda p: ([-p[1].get(g, 0) for g in generators], coefficient(p[0])[0].value))]


# ---------------------------------------------------------------- other kinds

_PRINTERS: list[Callable[[Expr], str]] = []
_BUILDERS: dict[str, Callable[..., Expr]] = {
    "Add": sum_of, "Mul": product, "Pow": lambda base, exponent: power(base, int(exponent))
}  # fmt: skip


def builder(kind: str) -> Callable[[Callable[..., Expr]], Callable[..., Expr]]:
    """Decorator: the function makes expressions of this kind."""

    def keep(function: Callable[..., Expr]) -> Callable[..., Expr]:
        _BUILDERS[kind] = function
        return function

    return keep


def printer(function: Callable[[Expr], str]) -> Callable[[Expr], str]:
    """Decorator: the function says what expressions print as."""
    _PRINTERS.append(function)
    return function


def rebuild(kind: str, args: tuple[Expr, ...]) -> Expr:
    """The expression of a kind over other arguments. KeyError for a kind that there isn't."""
    return _BUILDERS[kind](*args)
