"""torch.SymInt, SymFloat and SymBool: numbers that know the expression which computes them.

Each has a node: an expression over symbols of a ShapeEnv, and the value that it has for the example. Arithmetic gives such
numbers again; whatever needs the number itself (`if`, `int`, `range`, an index) asks the ShapeEnv, which remembers the answer as
a guard. They are no ints: so nothing takes one for a constant unseen. Stands on `expressions`; `fx.experimental.shape_env` has
the ShapeEnv.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NoReturn

from flambeau.base.naming import PACKAGE
from flambeau.base.symbolic.expressions import Expr, as_expr, integer, rebuild

__all__ = ["SymBool", "SymFloat", "SymInt", "SymNode", "is_symbolic_number", "known_true", "plain_value", "sym_function"]


class SymNode:
    """What a symbolic number is: `_expr` in a ShapeEnv, of type `pytype`, with the value for the example."""

    __slots__ = ("_expr", "_value", "pytype", "shape_env")

    def __init__(self, expr: Any, shape_env: Any, pytype: type, hint: Any = None, fx_node: Any = None) -> None:
        self._expr, self.shape_env, self.pytype = as_expr(expr), shape_env, pytype
        self._value = hint

    @property
    def expr(self) -> Expr:
        """The expression, with what is known of its symbols put in."""
        return self.shape_env.replace(self._expr)  # type: ignore[no-any-return]

    @property
    def value(self) -> Any:
        """The value for the example; one that stands in where only a run tells it."""
        if self._value is None or not self.has_hint():  # what stands in may change
            self._value = self.pytype(self.shape_env.value_of(self._expr))
        return self._value

    @property
    def hint(self) -> Any:
        """The value for the example; None where only a run tells it."""
        return self.value if self.has_hint() else None

    def has_hint(self) -> bool:
        """Whether the example tells the value."""
        return not self.shape_env.unbacked_in(self.expr)

    def is_int(self) -> bool:
        """Whether it is an int."""
        return self.pytype is int

    def is_float(self) -> bool:
        """Whether it is a float."""
        return self.pytype is float

    def is_bool(self) -> bool:
        """Whether it is a bool."""
        return self.pytype is bool

    def is_symbolic(self) -> bool:
        """True."""
        return True

    def is_constant(self) -> bool:
        """False."""
        return False

    def is_nested_int(self) -> bool:
        """Whether it stands for the lengths of ragged rows (`nested_int`)."""
        return False

    def nested_int(self) -> None:
        """None."""

    def maybe_as_int(self) -> int | None:
        """The number, if no symbol is left in it."""
        found = self.expr
        return int(found) if found.is_number else None

    def require_hint(self, fallback: Any = None) -> Any:
        """The value for the example; `fallback` where only a run tells it."""
        return self.value if self.has_hint() or fallback is None else fallback

    def guard_int(self, file: Any = "", line: int = 0) -> int:
        """The number, which the program from here on depends on."""
        return int(self.shape_env.specialized(self))

    def guard_float(self, file: Any = "", line: int = 0) -> float:
        """The number, which the program from here on depends on."""
        return float(self.shape_env.specialized(self))

    def guard_bool(self, file: Any = "", line: int = 0) -> bool:
        """Whether it holds, which the program from here on depends on."""
        return bool(self.shape_env.evaluate(self.expr))

    def expect_true(self, file: Any = "", line: int = 0) -> bool:
        """The same, but a run checks what the example doesn't tell."""
        self.shape_env.asserted(self)
        return bool(self.shape_env.guard_or_defer_runtime_assert(self.expr, f"{file}:{line}"))

    guard_size_oblivious = guard_bool

    def str(self) -> str:
        """The text of the expression."""
        return str(self.expr)

    def __str__(self) -> Any:
        return self.str()

    def __repr__(self) -> Any:
        return f"SymNode({self._expr}, shape_env={self.shape_env!r}, pytype={self.pytype}, hint={self.hint}, fx_node=False)"


class _SymbolicNumber:
    """What the three classes share."""

    __slots__ = ("__weakref__", "node")
    __module__ = PACKAGE

    def __init__(self, node: Any) -> None:
        if not isinstance(node, SymNode):
            raise AttributeError(f"{type(node).__name__!r} object has no attribute 'is_constant'")
        self.node = node

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: non-nested {type(self).__name__}")

    def __repr__(self) -> str:
        return self.node.str()

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    __copy__ = None  # set below

    def __bool__(self) -> bool:
        if self.node.pytype is bool:
            return self.node.guard_bool()
        return self.node.shape_env.evaluate(rebuild("Ne", (self.node.expr, integer(0))))  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self.node.guard_int()

    def __float__(self) -> float:
        return self.node.guard_float()

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(f"{type(self).__name__}s can't be pickled: they belong to the ShapeEnv of a trace")


_SymbolicNumber.__copy__ = lambda self: self  # type: ignore[assignment, method-assign]


class SymInt(_SymbolicNumber):
    """An int that knows its expression; torch.SymInt(node)."""

    __module__ = PACKAGE

    __slots__ = ()
    is_symbolic_size = True  # torch.Size keeps it as it is

    def __index__(self) -> int:
        return self.node.guard_int()

    def __round__(self, ndigits: int | None = None) -> SymInt:
        return self

    def __trunc__(self) -> SymInt:
        return self

    __floor__ = __ceil__ = conjugate = __trunc__


class SymFloat(_SymbolicNumber):
    """A float that knows its expression; torch.SymFloat(node)."""

    __module__ = PACKAGE

    __slots__ = ()

    def __trunc__(self) -> Any:
        return _apply("trunc", self)

    def __floor__(self) -> Any:
        return _apply("floor", self)

    def __ceil__(self) -> Any:
        return _apply("ceil", self)

    def __round__(self, ndigits: int | None = None) -> Any:
        if ndigits is not None:
            raise NotImplementedError("round(SymFloat, ndigits) is not implemented in flambeau; round without digits")
        return _apply("round", self)

    def conjugate(self) -> SymFloat:
        """The number itself."""
        return self

    def is_integer(self) -> Any:
        """Whether it is whole."""
        return math.trunc(self) == self


class SymBool(_SymbolicNumber):
    """A truth that knows its expression; torch.SymBool(node)."""

    __module__ = PACKAGE

    __slots__ = ()
    is_symbolic_truth = True  # torch._check asserts it

    def __sym_not__(self) -> Any:
        return _apply("sym_not", self)


_CLASSES: dict[type, type[Any]] = {int: SymInt, float: SymFloat, bool: SymBool}


def is_symbolic_number(x: object) -> bool:
    """Whether it is a SymInt, SymFloat or SymBool."""
    return isinstance(x, _SymbolicNumber)


def known_true(x: Any) -> bool:
    """Whether a condition of sizes is known to hold for all sizes; nothing is guarded on."""
    return x.node.shape_env.decide(x.node.expr) is True if isinstance(x, SymBool) else bool(x)


def plain_value(x: Any) -> Any:
    """The value of a symbolic number for the example, without a guard; anything else as it is."""
    return x.node.value if isinstance(x, _SymbolicNumber) else x


# ---------------------------------------------------------------- arithmetic


def _floats(make: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: make(_as_float(a), _as_float(b))


def _as_float(e: Expr) -> Expr:
    return rebuild("ToFloat", (e,)) if e.is_integer else e


def _kind(kind: str) -> Callable[..., Expr]:
    return lambda *args: rebuild(kind, args)


def _floor_of_quotient(a: Expr, b: Expr) -> Expr:
    if a.is_integer and b.is_integer:
        return rebuild("FloorDiv", (a, b))
    return rebuild("ToFloat", (rebuild("FloorToInt", (rebuild("FloatTrueDiv", (_as_float(a), _as_float(b))),)),))


def _remainder(a: Expr, b: Expr) -> Expr:
    if not (a.is_integer and b.is_integer):
        a, b = _as_float(a), _as_float(b)
        return a - b * _floor_of_quotient(a, b)
    return rebuild("Mod" if a.is_nonnegative and b.is_nonnegative else "PythonMod", (a, b))


def _quotient(a: Expr, b: Expr) -> Expr:
    return rebuild("IntTrueDiv", (a, b)) if a.is_integer and b.is_integer else _floats(_kind("FloatTrueDiv"))(a, b)


def _power(a: Expr, b: Expr) -> Expr:
    return rebuild("PowByNatural", (a, b)) if a.is_integer and b.is_integer else _floats(_kind("FloatPow"))(a, b)


def _mixed(make: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """An operation of ints, or of floats."""
    return lambda a, b: make(a, b) if a.is_integer == b.is_integer else make(_as_float(a), _as_float(b))


def _magnitude(a: Expr) -> Expr:
    return a if a.is_nonnegative else rebuild("Max", (a, -a))


#: By the name of the operation: its expression.
_EXPRESSIONS: dict[str, Callable[..., Expr]] = {
    "add": _mixed(lambda a, b: a + b), "sub": _mixed(lambda a, b: a - b), "mul": _mixed(lambda a, b: a * b),
    "floordiv": _floor_of_quotient, "mod": _remainder, "truediv": _quotient, "pow": _power, "neg": lambda a: -a,
    "abs": _magnitude, "lshift": _kind("LShift"), "rshift": _kind("RShift"), "trunc": _kind("TruncToInt"),
    "floor": _kind("FloorToInt"), "ceil": _kind("CeilToInt"), "round": _kind("RoundToInt"), "sym_float": _as_float,
    "sym_max": _mixed(_kind("Max")), "sym_min": _mixed(_kind("Min")), "sym_not": _kind("Not"), "sym_ite": _kind("Where"),
    "sym_sqrt": lambda a: rebuild("OpaqueUnaryFn_sqrt", (_as_float(a),)), "sym_sum": lambda *args: sum(args[1:], args[0]),
    "eq": _mixed(_kind("Eq")), "ne": _mixed(_kind("Ne")), "lt": _mixed(_kind("Lt")), "le": _mixed(_kind("Le")),
    "gt": _mixed(_kind("Gt")), "ge": _mixed(_kind("Ge")), "and": _kind("And"), "or": _kind("Or"),
}  # fmt: skip
_VALUES: dict[str, Callable[..., Any]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "truediv": operator.truediv, "lshift": operator.lshift,
    "rshift": operator.rshift, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round, "sym_float": float,
    "sym_max": max, "sym_min": min, "sym_not": operator.not_, "sym_ite": lambda c, a, b: a if c else b, "sym_sqrt": math.sqrt,
    "sym_sum": lambda *args: sum(args), "and": operator.and_, "or": operator.or_,
    **{n: getattr(operator, n) for n in ("add", "sub", "mul", "pow", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip
#: By the name of the operation: the function that a graph calls for it; those of `torch` are entered where they are defined.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: getattr(operator, n) for n in (
        "add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge")},
    "abs": operator.abs, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round, "and": operator.and_,
    "or": operator.or_,
}  # fmt: skip


def _apply(name: str, *args: Any) -> Any:
    """An operation of numbers of which at least one is symbolic."""
    node: Any = next(a.node for a in args if isinstance(a, _SymbolicNumber))
    if node.is_nested_int():
        return node.apply(name, *args)
    env = node.shape_env
    value = _VALUES[name](*[plain_value(a) for a in args])
    expr = _EXPRESSIONS[name](*[a.node.expr if isinstance(a, _SymbolicNumber) else as_expr(a) for a in args])
    pytype = bool if isinstance(value, bool) else float if isinstance(value, float) else int
    made = _CLASSES[pytype](SymNode(expr, env, pytype, value))
    env.made(made, FUNCTIONS[name], args)
    return made


def sym_function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Have graphs call `function` for an operation; gives what computes it for symbolic numbers."""
    FUNCTIONS[name] = function
    return lambda *args: _apply(name, *args)


_NUMBERS = (int, float, _SymbolicNumber)
#: Operations that are done in floats if one operand is a float.
_PROMOTED = frozenset("add sub mul mod pow floordiv truediv eq ne lt le gt ge".split())


def _is_float(x: Any) -> bool:
    return isinstance(x, (float, SymFloat))


def _floated(x: Any) -> Any:
    """A number as a float; a node of its own if it is symbolic."""
    return _apply("sym_float", x) if isinstance(x, SymInt) else float(x) if type(x) is int else x


def _binary(name: str, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        if name in _PROMOTED and (_is_float(self) or _is_float(other)):
            self, other = _floated(self), _floated(other)
        return _apply(name, other, self) if reflected else _apply(name, self, other)

    method.__name__ = method.__qualname__ = f"__{'r' * reflected}{name}__"
    return method


for _cls in (SymInt, SymFloat):
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        setattr(_cls, f"__{_name}__", _binary(_name))
        setattr(_cls, f"__r{_name}__", _binary(_name, reflected=True))
    for _name in ("neg", "abs"):
        setattr(_cls, f"__{_name}__", lambda self, name=_name: _apply(name, self))
    _cls.__pos__ = lambda self: self  # type: ignore[operator]
for _compared in (SymInt, SymFloat, SymBool):
    for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(_compared, f"__{_name}__", _binary(_name))
for _name in ("lshift", "rshift"):
    setattr(SymInt, f"__{_name}__", _binary(_name))
    setattr(SymInt, f"__r{_name}__", _binary(_name, reflected=True))
for _name in ("and", "or"):
    setattr(SymBool, f"__{_name}__", _binary(_name))
    setattr(SymBool, f"__r{_name}__", _binary(_name, reflected=True))
SymFloat.__sym_float__ = lambda self: self  # type: ignore[attr-defined]


def _bitwise(name: str) -> Callable[[SymInt, Any], Any]:
    """Bits of a size have no expression: the size is specialized."""
    return lambda self, other: getattr(operator, name)(int(self), other if isinstance(other, int) else int(other))


for _name in ("and", "or", "xor"):
    setattr(SymInt, f"__{_name}__", _bitwise(_name + "_" * (_name != "xor")))
