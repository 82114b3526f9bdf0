"""Scalar expressions: the node, its dtypes, Python's operators on it, and what is done with whole expressions.

An `Expr` is an immutable node; equal expressions are the same object (hash-consing), so `is` compares, common
subexpressions are shared for free, and an Expr is a dictionary key. Dtypes here are compute dtypes: float16,
bfloat16 and float8 live in memory only and are widened to float32 by whoever loads them.

Stands on base.dtype. Used through ir.scalar, which adds the functions that have no operator in Python.
"""

from __future__ import annotations

import builtins
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from flambeau.base.dtype import (
    FLOAT8,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau.base.dtype import dtype as DType
from flambeau.base.locks import short_lock

Number = builtins.bool | int | float | complex
Operand: TypeAlias = "Expr | Number"

_PART = {complex64: float32, complex128: float64}
#: The complex dtype of a floating dtype.
COMPLEX_OF = {float32: complex64, float64: complex128}
_BITS = {float32: int32, float64: int64, int32: float32, int64: float64, uint32: float32, uint64: float64}
_COMPUTE = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128)


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which values stored as `dtype` are computed: float32 for smaller floats, else itself."""
    if dtype is float16 or dtype is bfloat16:
        return float32
    if dtype in _COMPUTE:
        return dtype
    if dtype in FLOAT8:
        return float32
    if dtype is complex32:
        return complex64
    raise NotImplementedError(f"no scalar code for dtype {dtype}; convert the tensor to a supported dtype first")


def part_dtype(dtype: DType) -> DType:
    """The dtype of the real part of a complex dtype; a real dtype is its own part."""
    return _PART.get(dtype, dtype)


class Expr:
    """A node of a scalar expression: `op` applied to `args`, giving a value of `dtype`.

    `value` is a constant's number, a leaf's name, or a parameter of the op (None mostly). Build expressions with
    Python operators and the functions of this module, never by calling the class.
    """

    __slots__ = ("__weakref__", "args", "dtype", "op", "value")

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    value: Any

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an Expr is immutable")

    def __reduce__(self):
        return make, (self.op, self.args, self.dtype, self.value)

    def __bool__(self) -> builtins.bool:
        raise TypeError("the value of an Expr is unknown while a body is traced; use where() instead of a branch")

    __hash__ = object.__hash__

    # Arithmetic. Python numbers adapt to the expression's dtype, see `promote`.
    def __add__(self, other):
        return arithmetic("add", self, other)

    def __radd__(self, other):
        return arithmetic("add", other, self)

    def __sub__(self, other):
        return arithmetic("sub", self, other)

    def __rsub__(self, other):
        return arithmetic("sub", other, self)

    def __mul__(self, other):
        return arithmetic("mul", self, other)

    def __rmul__(self, other):
        return arithmetic("mul", other, self)

    def __truediv__(self, other):
        return divide(self, other)

    def __rtruediv__(self, other):
        return divide(other, self)

    def __floordiv__(self, other):
        return floor_divide(self, other)

    def __rfloordiv__(self, other):
        return floor_divide(other, self)

    def __mod__(self, other):
        return remainder(self, other)

    def __rmod__(self, other):
        return remainder(other, self)

    def __pow__(self, other):
        return pow(self, other)

    def __rpow__(self, other):
        return pow(other, self)

    def __neg__(self):
        return make("neg", (self,), self.dtype)

    def __pos__(self):
        return self

    def __abs__(self):
        return abs(self)

    # Bits and logic.
    def __and__(self, other):
        return _bitwise("and", self, other)

    def __rand__(self, other):
        return _bitwise("and", other, self)

    def __or__(self, other):
        return _bitwise("or", self, other)

    def __ror__(self, other):
        return _bitwise("or", other, self)

    def __xor__(self, other):
        return _bitwise("xor", self, other)

    def __rxor__(self, other):
        return _bitwise("xor", other, self)

    def __lshift__(self, other):
        return _bitwise("shl", self, other)

    def __rlshift__(self, other):
        return _bitwise("shl", other, self)

    def __rshift__(self, other):
        return _bitwise("shr", self, other)

    def __rrshift__(self, other):
        return _bitwise("shr", other, self)

    def __invert__(self):
        if not is_integral(self.dtype):
            raise TypeError(f"~ needs a boolean or integer expression, got {self.dtype}")
        return make("not", (self,), self.dtype)

    # Comparisons give boolean expressions. Expressions as dictionary keys still work: hashes are identities.
    def __lt__(self, other):
        return _compare("lt", self, other)

    def __le__(self, other):
        return _compare("le", self, other)

    def __gt__(self, other):
        return _compare("gt", self, other)

    def __ge__(self, other):
        return _compare("ge", self, other)

    def __eq__(self, other):  # type: ignore[override]
        return _compare("eq", self, other)

    def __ne__(self, other):  # type: ignore[override]
        return _compare("ne", self, other)

    def __repr__(self) -> str:
        return show(self)


# Keyed by identities of the arguments, which live as long as the entry does.
_INTERNED: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()
_LOCK = short_lock()
_set = object.__setattr__


def _value_key(value: Any) -> Any:
    """A key that tells 0.0 from -0.0, 1 from 1.0 from True, and finds NaN equal to itself."""
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return type(value), value


def make(op: str, args: tuple[Expr, ...], dtype: DType, value: Any = None) -> Expr:
    """The one Expr with this content. `args` must already have the dtypes that the op wants."""
    key = (op, tuple(map(id, args)), dtype, None if value is None else _value_key(value))
    with _LOCK:
        found = _INTERNED.get(key)
        if found is None:
            found = Expr.__new__(Expr)
            _set(found, "op", op)
            _set(found, "args", args)
            _set(found, "dtype", dtype)
            _set(found, "value", value)
            _INTERNED[key] = found
        return found


def leaf(name: str, dtype: DType) -> Expr:
    """A value from outside: an input's element, a run-time scalar, an index. `dtype` must be a compute dtype."""
    if compute_dtype(dtype) is not dtype:
        raise TypeError(f"{dtype} is a storage dtype; a leaf takes its compute dtype {compute_dtype(dtype)}")
    return make("leaf", (), dtype, name)


def constant(value: Number, dtype: DType) -> Expr:
    """`value` as a constant of `dtype`: rounded to float32, wrapped to an integer's width, truth of a boolean."""
    return make("constant", (), dtype, constant_value(value, dtype))


def constant_value(value: Number, dtype: DType) -> Number:
    """The Python number that a constant of `dtype` made from `value` holds."""
    given: Any = value.item() if isinstance(value, np.generic) else value
    if dtype is bool_:
        return builtins.bool(given)
    if dtype.is_complex:
        whole = complex(given)
        part = part_dtype(dtype)
        return complex(constant_value(whole.real, part), constant_value(whole.imag, part))
    if dtype is float64:
        return float(given)
    if dtype is float32:
        with np.errstate(over="ignore"):
            return float(np.float32(given))
    bits = 8 * dtype.itemsize
    wrapped = int(given) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if dtype.is_signed and wrapped >> (bits - 1) else wrapped


def is_integral(dtype: DType) -> builtins.bool:
    """Whether `dtype` is boolean or an integer."""
    return not (dtype.is_floating_point or dtype.is_complex)


def is_constant(expr: Expr, value: Number | None = None) -> builtins.bool:
    """Whether `expr` is a constant (equal to `value` if that is given; 0 matches both zeros)."""
    return expr.op == "constant" and (value is None or expr.value == value)


def number_dtype(number: Number, like: DType | None) -> DType:
    """The dtype of `like` combined with a Python number: the number only decides when its kind is the larger."""
    kind = type(number)
    if kind is builtins.bool:
        return like or bool_
    if kind is int:
        return int64 if like is None or like is bool_ else like
    if kind is float:
        return get_compute_default() if like is None or is_integral(like) else like
    if kind is complex:
        if like is not None and like.is_complex:
            return like
        return COMPLEX_OF[like] if like in COMPLEX_OF else COMPLEX_OF[get_compute_default()]
    raise TypeError(f"expected an Expr or a Python number, got {kind.__name__}")


def get_compute_default() -> DType:
    """The compute dtype of PyTorch's default dtype."""
    return compute_dtype(get_default_dtype())


def as_expr(operand: Operand, like: DType | None = None) -> Expr:
    """`operand` as an Expr; a number takes the dtype that `number_dtype` gives it beside `like`."""
    if isinstance(operand, Expr):
        return operand
    number: Number = operand.item() if isinstance(operand, np.generic) else operand
    return constant(number, number_dtype(number, like))


def common_dtype(*operands: Operand) -> DType:
    """The dtype to which these operands promote."""
    result: Any = None
    for operand in operands:
        if isinstance(operand, Expr) and operand.dtype is not result:
            result = operand.dtype if result is None else promote_types(result, operand.dtype)
    for operand in operands:
        if not isinstance(operand, Expr):
            result = number_dtype(operand.item() if isinstance(operand, np.generic) else operand, result)
    return result


def promote(*operands: Operand) -> tuple[Expr, ...]:
    """The operands as expressions of their common dtype."""
    dtype = common_dtype(*operands)
    return tuple(cast(x, dtype) if isinstance(x, Expr) else constant(x, dtype) for x in operands)


def promote_floating(*operands: Operand) -> tuple[Expr, ...]:
    """Like `promote`, and integers become the default floating dtype."""
    dtype = common_dtype(*operands)
    if is_integral(dtype):
        dtype = get_compute_default()
    return tuple(cast(x, dtype) if isinstance(x, Expr) else constant(x, dtype) for x in operands)


def arithmetic(op: str, a: Operand, b: Operand) -> Expr:
    """The node of a sum, difference or product; of booleans, what PyTorch takes for it."""
    a, b = promote(a, b)
    if a.dtype is bool_:  # PyTorch: + is or, * is and; - is refused by the operator itself
        return make({"add": "or", "mul": "and", "sub": "xor"}[op], (a, b), bool_)
    return make(op, (a, b), a.dtype)


def _bitwise(op: str, a: Operand, b: Operand) -> Expr:
    a, b = promote(a, b)
    if not is_integral(a.dtype):
        raise TypeError(f"bitwise {op} needs boolean or integer expressions, got {a.dtype}")
    if op in ("shl", "shr") and a.dtype is bool_:
        raise TypeError("shifts need integer expressions")
    return make(op, (a, b), a.dtype)


def _compare(op: str, a: Operand, b: Operand) -> Expr:
    a, b = promote(a, b)
    if a.dtype.is_complex and op not in ("eq", "ne"):
        raise TypeError(f"complex numbers have no order ({op})")
    return make(op, (a, b), bool_)


# ---------------------------------------------------------------------------------------- conversion and selection


def cast(x: Operand, dtype: DType) -> Expr:
    """`x` converted to `dtype`: floats truncate to integers, complex drops its imaginary part, nonzero is true."""
    dtype = compute_dtype(dtype)
    if not isinstance(x, Expr):
        return constant(x, dtype)
    return x if x.dtype is dtype else make("cast", (x,), dtype)


def bitcast(x: Expr, dtype: DType) -> Expr:
    """The bits of `x` read as `dtype`, which must have the same size."""
    if x.dtype.itemsize != dtype.itemsize:
        raise TypeError(f"bitcast needs equal sizes, got {x.dtype} and {dtype}")
    return x if x.dtype is dtype else make("bitcast", (x,), dtype)


def bits_dtype(dtype: DType) -> DType:
    """The signed integer dtype as wide as a floating `dtype`."""
    return _BITS[dtype]


def where(condition: Operand, a: Operand, b: Operand) -> Expr:
    """`a` where `condition` holds, else `b`."""
    condition = cast(as_expr(condition), bool_)
    a, b = promote(a, b)
    return make("where", (condition, a, b), a.dtype)


def guard(value: Operand, bad: Operand) -> Expr:
    """`value`; where `bad` holds, the kernel leaves an error for its caller to report."""
    value = as_expr(value)
    return make("guard", (value, cast(as_expr(bad), bool_)), value.dtype)


def through_memory(x: Expr, dtype: DType) -> Expr:
    """`x` as it is read after it was stored as `dtype`, a storage dtype: rounded to that, and computed for itself: no product in
    it is contracted with a sum that it is an operand of. What stands between operators that share a kernel.
    """
    x = cast(x, dtype)
    return x if is_integral(x.dtype) else make("through", (x,), x.dtype, dtype)


def rarely(common: Expr, size: Expr, limit: float, slow: Callable[..., Expr], *operands: Expr) -> Expr:
    """`common`, but slow(size, *operands) where |size| >= limit; all of one floating dtype.

    Unlike `where` it doesn't compute `slow` for every element: that stands in a function of its own, entered only by
    vectors that hold such a size. For what is right to do, seldom needed and long.
    """
    names = ["size", *(f"x{i}" for i in range(len(operands)))]
    leaves = tuple(leaf(name, x.dtype) for name, x in zip(names, (size, *operands), strict=True))
    return make("rarely", (common, size, *operands), common.dtype, (float(limit), slow(*leaves)))


def sometimes(common: Expr, needed: Expr, other: Callable[..., Expr], *operands: Expr) -> Expr:
    """`common`, but other(*operands) where `needed` holds: for whole vectors at once, left out by those without such an element.

    `rarely` keeps the other way short and slow, this one keeps it quick: for what all elements of a tensor may need, or none.
    """
    value = other(*(leaf(f"x{i}", x.dtype) for i, x in enumerate(operands)))
    return make("sometimes", (common, needed, *operands), common.dtype, value)


def repeat(
    step: Callable[..., tuple[Expr, ...]], wanted: Callable[..., Expr], states: tuple[Expr, ...], *constants: Expr, limit: int
) -> Expr:
    """The first of states = step(*states, *constants), repeated while wanted(*states, *constants) holds, `limit` times at most.

    Series and fractions without a fixed length. An element that wants no more keeps its states while others go on.
    """
    inner = tuple(leaf(f"x{i}", x.dtype) for i, x in enumerate((*states, *constants)))
    return make("repeat", (*states, *constants), states[0].dtype, (tuple(step(*inner)), wanted(*inner), limit))


def apart(body: Callable[..., Expr], *operands: Expr) -> Expr:
    """body(*operands) in a function of its own: what is long and needed several times is compiled once. For real dtypes."""
    value = body(*(leaf(f"x{i}", x.dtype) for i, x in enumerate(operands)))
    return make("apart", operands, value.dtype, value)


def library(name: str, *operands: Expr) -> Expr:
    """A float64 function of the C library: a call for each element, for what must have its very bits, or is `rarely` wanted."""
    return make("library", operands, float64, name)


# -------------------------------------------------------------------------------------------- operators with a name


def divide(a: Operand, b: Operand) -> Expr:
    """True division; integers become the default floating dtype."""
    a, b = promote_floating(a, b)
    return make("div", (a, b), a.dtype)


def _division(op: str) -> Callable[[Operand, Operand], Expr]:
    def build(a: Operand, b: Operand) -> Expr:
        a, b = promote(a, b)
        if a.dtype.is_complex:
            raise TypeError(f"{op} is not defined for complex numbers")
        if a.dtype is bool_:
            raise TypeError(f"{op} is not defined for bool")
        return make(op, (a, b), a.dtype)

    build.__name__ = op
    build.__doc__ = _DIVISIONS[op]
    return build


_DIVISIONS = {
    "floor_divide": "floor(a / b), as PyTorch rounds it.",
    "trunc_divide": "trunc(a / b).",
    "remainder": "a - floor(a / b) * b: the sign is the divisor's.",
    "fmod": "a - trunc(a / b) * b: the sign is the dividend's.",
}
floor_divide = _division("floor_divide")
trunc_divide = _division("trunc_divide")
remainder = _division("remainder")
fmod = _division("fmod")


def abs(x: Operand) -> Expr:
    """Absolute value; of a complex number its (real) modulus."""
    x = as_expr(x)
    if x.dtype is bool_ or (is_integral(x.dtype) and not x.dtype.is_signed):
        return x
    return make("abs", (x,), part_dtype(x.dtype))


def pow(base: Operand, exponent: Operand) -> Expr:
    """base ** exponent with PyTorch's special cases; integers stay integers and wrap (a negative exponent gives 0,
    except for bases 1 and -1)."""
    base, exponent = promote(base, exponent)
    if base.dtype is bool_:
        return base | ~exponent
    return make("pow", (base, exponent), base.dtype)


# ------------------------------------------------------------------------------------------------ whole expressions


def trace(function: Callable[..., Any], *leaves: Expr) -> Any:
    """Call a body with leaves: an Expr, or a tuple of them if the body returns several."""
    result = function(*leaves)
    if isinstance(result, tuple):
        return tuple(as_expr(x) for x in result)
    return as_expr(result)


def topological(*roots: Expr) -> Iterator[Expr]:
    """Every node under `roots` once, arguments before their users (without recursion)."""
    seen: set[int] = set()
    stack: list[tuple[Expr, builtins.bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args) if id(arg) not in seen)


def outlined(node: Expr) -> tuple[Expr, ...]:
    """What the function of an `apart`, `sometimes` or `repeat` computes, on leaves x0, x1 ...; () for other nodes."""
    if node.op in ("apart", "sometimes"):
        return (node.value,)
    if node.op == "repeat":
        steps, wanted, _ = node.value
        return (*steps, wanted)
    return ()


def describe(*roots: Expr) -> str:
    """All that expressions are, a line per node: equal texts mean equal expressions."""
    numbers: dict[Expr, int] = {}
    lines = []
    for node in topological(*roots):
        numbers[node] = len(numbers)
        lines.append(f"{node.op} {node.dtype} {_description_of(node.value)} {[numbers[arg] for arg in node.args]}")
    return "\n".join([*lines, str([numbers[root] for root in roots])])


def _description_of(value: Any) -> str:
    if isinstance(value, Expr):
        return f"({describe(value)})"
    return f"({', '.join(map(_description_of, value))})" if isinstance(value, tuple) else repr(value)


def leaves_of(*roots: Expr) -> tuple[Expr, ...]:
    """The leaves under `roots`, in order of first use."""
    return tuple(node for node in topological(*roots) if node.op == "leaf")


def rewrite(roots: Iterable[Expr], rule: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    """Rebuild expressions bottom-up: `rule` sees each node with rewritten arguments and returns its replacement."""
    roots = tuple(roots)
    done: dict[Expr, Expr] = {}
    for node in topological(*roots):
        args = tuple(done[arg] for arg in node.args)
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        done[node] = rule(node if same else make(node.op, args, node.dtype, node.value))
    return tuple(done[root] for root in roots)


def substitute(expr: Expr, replacements: dict[Expr, Expr]) -> Expr:
    """`expr` with each key (a leaf or any subexpression) replaced by its value."""
    done: dict[Expr, Expr] = {}
    for node in topological(expr):
        if node in replacements:
            done[node] = replacements[node]
        else:
            done[node] = make(node.op, tuple(done[arg] for arg in node.args), node.dtype, node.value)
    return done[expr]


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
          "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip


def show(expr: Expr) -> str:
    """The expression as Python text (shared parts are repeated; long ones are cut)."""

    def text(node: Expr, depth: int) -> str:
        if node.op == "leaf":
            return str(node.value)
        if node.op == "constant":
            return repr(node.value)
        if depth > 12:
            return "..."
        args = [text(arg, depth + 1) for arg in node.args]
        if node.op in _INFIX:
            return f"({args[0]} {_INFIX[node.op]} {args[1]})"
        if node.op == "neg":
            return f"-{args[0]}"
        if node.op in ("cast", "bitcast"):
            args.append(node.dtype.name)
        return f"{node.op}({', '.join(args)})"

    return text(expr, 0)
