"""Operators of programs on numbers, texts, lists and dicts: what answers `aten::len`, `aten::append`, `aten::floordiv`.

Tables of Python functions by name; arithmetic on integers wraps at 64 bits as in PyTorch. Used by operators.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["BITS", "CONTAINERS", "CONVERSIONS", "FUNCTIONS", "wrapped"]

FUNCTIONS: dict[str, Callable[..., Any]] = {}
# Operators that take a tensor for its only element.
CONVERSIONS = frozenset(
    "aten::Bool aten::Int aten::IntImplicit aten::Float aten::FloatImplicit aten::Complex aten::ComplexImplicit "
    "aten::ScalarImplicit aten::str aten::format aten::percentFormat aten::hash prim::id aten::__is__ aten::__isnot__".split()
)
# Operators on lists, whose items may be tensors.
CONTAINERS = frozenset(
    "aten::__getitem__ aten::_set_item aten::Delete aten::slice aten::append aten::add_ aten::mul_ aten::extend "
    "aten::insert aten::remove "
    "aten::reverse aten::clear aten::copy aten::list aten::pop aten::len aten::add aten::mul aten::index aten::count aten::sort "
    "aten::sorted aten::eq aten::ne aten::__contains__ aten::dict".split()
)
BITS = 2**63


def _register(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


def wrapped(value: Any) -> Any:
    """An integer within 64 bits."""
    if type(value) is int and not -BITS <= value < BITS:
        return (value + BITS) % (2 * BITS) - BITS
    return value


def _arithmetic(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        return wrapped(function(a, b))

    return run


for _name, _function in {"add": operator.add, "sub": operator.sub, "mul": operator.mul}.items():
    FUNCTIONS[f"aten::{_name}"] = _arithmetic(_function)
for _name in "eq ne lt le gt ge".split():
    FUNCTIONS[f"aten::{_name}"] = getattr(operator, _name)
for _name, _function in {
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__not__": operator.not_,
    "neg": operator.neg,
    "len": len,
}.items():
    FUNCTIONS[f"aten::{_name}"] = _function
for _name in (
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh degrees erf erfc exp expm1 fabs factorial frexp gamma gcd isfinite "
    "isinf isnan ldexp lgamma log1p modf radians sin sinh tan tanh"
).split():
    FUNCTIONS[f"aten::{_name}"] = getattr(math, _name)
for _name in (
    "capitalize center endswith expandtabs find isalnum isalpha isdecimal isdigit isidentifier islower isnumeric "
    "isprintable isspace istitle isupper join ljust lower lstrip partition replace rfind rindex rjust rpartition rsplit "
    "rstrip split splitlines startswith strip swapcase title upper zfill"
).split():
    FUNCTIONS[f"aten::{_name}"] = getattr(str, _name)


@_register("aten::div")
def _div(a: Any, b: Any) -> Any:
    if b == 0:
        if not isinstance(a, complex) and not isinstance(b, complex):
            raise (
                ZeroDivisionError("division by zero")
                if isinstance(a, int) and isinstance(b, int)
                else ZeroDivisionError("float division by zero")
            )
    return a / b


@_register("aten::floordiv")
def _floordiv(a: Any, b: Any) -> Any:
    return wrapped(a // b)


@_register("aten::remainder")
def _remainder(a: Any, b: Any) -> Any:
    return a % b


@_register("aten::pow")
def _pow(a: Any, b: Any) -> Any:
    return float(a) ** b if isinstance(a, int) and isinstance(b, int) and b < 0 else _as_pow(a, b)


def _as_pow(a: Any, b: Any) -> Any:
    return float(a**b) if isinstance(a, int) and isinstance(b, int) else a**b


@_register("aten::fmod", "aten::mathremainder")
def _fmod(a: Any, b: Any) -> Any:
    return math.fmod(a, b)


FUNCTIONS["aten::mathremainder"] = math.remainder


@_register("aten::sqrt")
def _sqrt(a: Any) -> Any:
    return cmath.sqrt(a) if isinstance(a, complex) else math.nan if a < 0 else math.sqrt(a)


@_register("aten::log")
def _log(a: Any, base: Any = None) -> Any:
    value = _log_of(a)
    return value if base is None else value / _log_of(base)


def _log_of(a: Any) -> Any:
    if isinstance(a, complex):
        return cmath.log(a)
    return -math.inf if a == 0 else math.nan if a < 0 else math.log(a)


@_register("aten::log10")
def _log10(a: Any) -> Any:
    return cmath.log10(a) if isinstance(a, complex) else -math.inf if a == 0 else math.nan if a < 0 else math.log10(a)


@_register("aten::ceil")
def _ceil(a: Any) -> Any:
    return math.ceil(a)


@_register("aten::floor")
def _floor(a: Any) -> Any:
    return math.floor(a)


@_register("aten::round")
def _round(a: Any, digits: Any = None) -> Any:
    return float(round(a)) if digits is None else round(a, digits)


@_register("prim::abs", "aten::abs")
def _abs(a: Any) -> Any:
    return abs(a)


@_register("aten::divmod")
def _divmod(a: Any, b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError(
            "integer division or modulo by zero" if isinstance(a, int) and isinstance(b, int) else "float divmod()"
        )
    return divmod(a, b)


@_register("prim::min")
def _min(a: Any, b: Any = None) -> Any:
    return min(a) if b is None else min(a, b)


@_register("prim::max")
def _max(a: Any, b: Any = None) -> Any:
    return max(a) if b is None else max(a, b)


@_register("aten::sum")
def _sum(values: list[Any]) -> Any:
    return sum(values)


@_register("aten::all")
def _all(values: list[Any]) -> bool:
    return all(values)


@_register("aten::any")
def _any(values: list[Any]) -> bool:
    return any(values)


# ---------------------------------------------------------------- conversions


@_register("aten::Bool")
def _bool(value: Any) -> bool:
    return bool(value)


@_register("aten::Int", "aten::IntImplicit")
def _int(value: Any) -> int:
    return int(value)


@_register("aten::Float", "aten::FloatImplicit")
def _float(value: Any) -> float:
    return float(value)


@_register("aten::Complex", "aten::ComplexImplicit")
def _complex(a: Any, b: Any = 0) -> complex:
    return complex(_number(a), _number(b)) if not isinstance(a, complex) else a + 1j * _number(b)


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


@_register("aten::ScalarImplicit")
def _scalar(value: Any) -> Any:
    return value.item()


@_register("aten::str")
def _str(value: Any) -> str:
    from flambeau.jit.execution.texts import text_of

    return text_of(value)


@_register("aten::format")
def _format(text: str, *values: Any) -> str:
    from flambeau.jit.execution.texts import formatted

    return formatted(text, values)


@_register("aten::percentFormat")
def _percent(text: str, *values: Any) -> str:
    from flambeau.jit.execution.texts import percent_formatted

    return percent_formatted(text, values)


@_register("aten::count")
def _count(container: Any, item: Any, start: int = 0, stop: int = -1) -> int:
    return container.count(item, start, None if stop == -1 else stop) if isinstance(container, str) else container.count(item)


FUNCTIONS["aten::ord"], FUNCTIONS["aten::chr"] = ord, chr
FUNCTIONS["aten::hex"], FUNCTIONS["aten::oct"], FUNCTIONS["aten::bin"] = hex, oct, bin
FUNCTIONS["aten::hash"] = hash
FUNCTIONS["prim::id"] = id


# ---------------------------------------------------------------- containers


@_register("aten::__getitem__")
def _getitem(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        if key not in container:
            raise KeyError(key)
        return container[key]
    try:
        return container[key]
    except IndexError:
        raise IndexError("list index out of range" if isinstance(container, list) else "string index out of range") from None


@_register("aten::_set_item")
def _set_item(container: Any, key: Any, value: Any) -> Any:
    try:
        container[key] = value
    except IndexError:
        raise IndexError("list index out of range") from None
    return container


@_register("aten::Delete")
def _delete(container: Any, key: Any) -> None:
    try:
        del container[key]
    except IndexError:
        raise IndexError("list index out of range") from None


@_register("aten::__contains__")
def _contains(container: Any, item: Any) -> bool:
    return item in container


@_register("aten::slice")
def _slice(container: Any, start: Any = None, stop: Any = None, step: Any = 1) -> Any:
    return container[start:stop:step]


@_register("aten::append")
def _append(container: list[Any], item: Any) -> list[Any]:
    container.append(item)
    return container


@_register("aten::add_")
def _extend_by(container: list[Any], other: list[Any]) -> list[Any]:
    container += other
    return container


@_register("aten::mul_")
def _repeat(container: list[Any], count: int) -> list[Any]:
    container *= count
    return container


for _name in "extend insert remove reverse clear".split():
    FUNCTIONS[f"aten::{_name}"] = (lambda name: lambda container, *args: getattr(container, name)(*args))(_name)


@_register("aten::index")
def _index(container: Any, item: Any, start: Any = 0, stop: Any = None) -> int:
    if isinstance(container, str):
        return container.index(item, start, None if stop == -1 else stop)
    try:
        return container.index(item)
    except ValueError:
        raise ValueError(f"'{item}' is not in list") from None


@_register("aten::copy", "aten::list")
def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


@_register("aten::dict")
def _dict(container: Any = ()) -> Any:
    return dict(container)


@_register("aten::sort")
def _sort(container: list[Any], reverse: bool = False) -> None:
    container.sort(reverse=reverse)


@_register("aten::sorted")
def _sorted(container: list[Any]) -> list[Any]:
    return sorted(container)


@_register("aten::pop")
def _pop(container: Any, *args: Any) -> Any:
    try:
        return container.pop(*args)
    except IndexError:
        raise IndexError("list index out of range" if container else "pop from empty list") from None


@_register("aten::keys")
def _keys(container: dict[Any, Any]) -> list[Any]:
    return list(container)


@_register("aten::values")
def _values(container: dict[Any, Any]) -> list[Any]:
    return list(container.values())


@_register("aten::items")
def _items(container: dict[Any, Any]) -> list[Any]:
    return list(container.items())


for _name in "get setdefault update popitem".split():
    FUNCTIONS[f"aten::{_name}"] = (lambda name: lambda container, *args: getattr(container, name)(*args))(_name)


@_register("prim::rangelist")
def _rangelist(count: int) -> list[int]:
    return list(range(count))


@_register("aten::__range_length")
def _range_length(start: int, stop: int, step: int) -> int:
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    return len(range(start, stop, step))


@_register("aten::__derive_index")
def _derive_index(index: int, start: int, step: int) -> int:
    return start + index * step


@_register("prim::StringIndex")
def _string_index(text: str, index: int) -> str:
    return text[index]


@_register("prim::unchecked_unwrap_optional", "aten::_unwrap_optional")
def _unwrap(value: Any) -> Any:
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


@_register("prim::EnumName")
def _enum_name(value: Any) -> str:
    return str(value.name)


@_register("prim::EnumValue")
def _enum_value(value: Any) -> Any:
    return value.value
