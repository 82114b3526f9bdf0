"""Arguments of recorded calls as hashable values: what a segment is found by, and what its graph is made of.

`frozen` takes arguments apart, with numbers in the place of tensors; `thawed` puts them together again. Stands on core; used by
segment and graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType, NoneType
from typing import Any

from flambeau._dynamo.segments.sizes import Recorded, SizeInt
from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import Size, layout, memory_format
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Unrecordable", "frozen", "thawed", "values_in", "with_numbers"]

_ATOMS = frozenset((NoneType, bool, int, str, bytes, EllipsisType, dtype, layout, memory_format))
_VALUE, _FLOAT, _COMPLEX, _SLICE, _DICT, _RANGE = "value", "float", "complex", "slice", "dict", "range"
_SEQUENCES: dict[type, str] = {list: "list", tuple: "tuple", Size: "Size"}
_MADE: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "Size": lambda items: _size(items)}


class Unrecordable(Exception):
    """An argument that no graph can have."""


def frozen(given: Any, number: Callable[[Any], int]) -> Any:
    """`given` as a hashable value; number(x) is what stands for a tensor or a size that may differ. Raises Unrecordable."""
    if isinstance(given, Tensor):
        return _VALUE, number(given)
    kind = given.__class__
    if kind in _ATOMS:
        return kind, given
    if kind is SizeInt and given.origin is None:
        return int, int(given)
    if kind is SizeInt or kind is Recorded:
        return _VALUE, number(given)
    if kind is device:
        return kind, given.shown  # one of a tensor without data is that of the tensor
    if kind is float:
        return _FLOAT, given.hex()  # 0.0 is another number than -0.0, and NaN is NaN
    if kind is complex:
        return _COMPLEX, given.real.hex(), given.imag.hex()
    if kind in _SEQUENCES:
        return (_SEQUENCES[kind], *[frozen(x, number) for x in given])
    if kind is slice:
        return (_SLICE, *[frozen(x, number) for x in (given.start, given.stop, given.step)])
    if kind is dict:
        return (_DICT, *[(key, frozen(x, number)) for key, x in given.items() if _named(key)])
    if kind is range:
        return _RANGE, given
    raise Unrecordable(kind)


def _named(key: Any) -> bool:
    if key.__class__ is not str:
        raise Unrecordable(key.__class__)
    return True


def thawed(value: Any, tensor: Callable[[int], Any]) -> Any:
    """What was frozen; tensor(number) is what a number stands for."""
    kind = value[0]
    if kind == _VALUE:
        return tensor(value[1])
    if kind == _FLOAT:
        return float.fromhex(value[1])
    if kind == _COMPLEX:
        return complex(*map(float.fromhex, value[1:]))
    if kind == _SLICE:
        return slice(*[thawed(x, tensor) for x in value[1:]])
    if kind == _DICT:
        return {key: thawed(x, tensor) for key, x in value[1:]}
    made = _MADE.get(kind) if kind.__class__ is str else None
    return value[1] if made is None else made([thawed(x, tensor) for x in value[1:]])


def with_numbers(value: Any, numbers: dict[int, int]) -> Any:
    """What was frozen, with ints in the place of the values that these are."""
    kind = value[0]
    if kind == _VALUE:
        return (int, numbers[value[1]]) if value[1] in numbers else value
    if kind == _DICT:
        return (kind, *[(key, with_numbers(x, numbers)) for key, x in value[1:]])
    return (kind, *[with_numbers(x, numbers) for x in value[1:]]) if kind == _SLICE or kind in _MADE else value


def _size(items: list[Any]) -> Any:
    """A Size; a tuple where values stand for some of the numbers."""
    return Size(items) if all(x.__class__ is int for x in items) else tuple(items)


def values_in(value: Any) -> list[int]:
    """The numbers of the tensors in what was frozen, from the left."""
    found: list[int] = []
    thawed(value, found.append)
    return found
