"""Nested Python data as an array of values: what torch.tensor makes of numbers, lists of lists, and sequences of other kinds.

The shape is read off the first elements, the dtype off all of them, and then every element is converted by its own rules:
those of an index for integers, of a float for floating point. Tensors of one element are numbers. Stands on NumPy; used by
core.tensor.create.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from flambeau.base import dtype as dtypes
from flambeau.base.dtype import bool_, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.small_floats import AS_BITS, to_bits
from flambeau.base.warn import warn_once
from flambeau.core.tensor.tensor import Tensor

__all__ = ["infer_dtype", "shape_of", "type_name", "values_of"]

DEEPEST = 128  # dimensions that nested sequences may have
OVERFLOW = "Overflow when unpacking long long"
REQUIRES_GRAD = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
    "Consider using tensor.detach() first."
)
_HEAP_TYPE = 1 << 9
_PLAIN = {bool, int, float, complex}


def _is_sequence(x: Any) -> bool:
    if x.__class__ in (list, tuple):
        return True
    return hasattr(x, "__len__") and hasattr(x, "__getitem__") and not isinstance(x, (Tensor, np.generic, dict))


def type_name(x: Any) -> str:
    """A type's name as C sees it: with its module if it isn't made by a class statement."""
    kind = type(x)
    return kind.__name__ if kind.__flags__ & _HEAP_TYPE or kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def shape_of(data: Any) -> tuple[int, ...]:
    """The lengths along first elements. ValueError for more than 128 dimensions: of text, or of a list that holds itself."""
    sizes: list[int] = []
    inner = data
    while _is_sequence(inner):
        if isinstance(inner, str) or len(sizes) == DEEPEST:
            raise ValueError(f"too many dimensions '{type(inner).__name__}'")
        sizes.append(len(inner))
        if not sizes[-1]:
            break
        try:
            inner = inner[0]
        except Exception:
            raise ValueError(f"could not determine the shape of object type '{type_name(inner)}'") from None
    return tuple(sizes)


def infer_dtype(data: Any) -> DType:
    """The dtype of nested data: that which all elements promote to; the default one of no elements. RuntimeError for what is
    no number, TypeError for text.
    """
    plain: set[type] = set()
    others: set[DType] = set()
    _collect(data, plain, others)
    kinds = {bool: bool_, int: int64, float: get_default_dtype(), complex: get_default_dtype().to_complex()}
    result = None
    for found in (*others, *[kinds[kind] for kind in plain]):
        result = found if result is None else dtypes.promote_types(result, found)
    return result or get_default_dtype()


def _collect(x: Any, plain: set[type], others: set[DType]) -> None:
    if isinstance(x, (list, tuple)):
        if not x:
            plain.add(float)
        for item in x:
            if item.__class__ in _PLAIN:
                plain.add(item.__class__)
            elif item is x:
                raise TypeError("new(): self-referential lists are incompatible")
            else:
                _collect(item, plain, others)
    elif isinstance(x, Tensor):
        others.add(x._layout.dtype)
    elif isinstance(x, (np.generic, np.ndarray)):
        others.add(dtypes.from_numpy(x.dtype))
    elif isinstance(x, (bool, int, float, complex)):
        plain.add(next(kind for kind in (bool, int, float, complex) if isinstance(x, kind)))
    elif isinstance(x, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(x).__name__}'")
    elif _is_sequence(x):
        for i in range(len(x)):
            _collect(x[i], plain, others)
    else:
        raise RuntimeError(f"Could not infer dtype of {type_name(x)}")


def values_of(data: Any, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The values of data of that shape as an array that can be copied to a tensor (of bfloat16 and float8, their bits).

    ValueError where a length differs from the first one, TypeError for elements of another kind, RuntimeError for those that
    don't fit.
    """
    flat: list[Any] = []
    if 0 not in shape:
        _flatten(data, shape, 0, flat)
    if not set(map(type, flat)) <= _PLAIN:
        convert = (
            _as_real
            if dtype.is_floating_point
            else _as_complex
            if dtype.is_complex
            else _as_bool
            if dtype is bool_
            else _as_integer
        )
        flat = [convert(x, dtype) for x in flat]
    elif not dtype.is_complex and dtype is not bool_:
        other = next((x for x in flat if x.__class__ is complex), None)
        if other is not None:
            (_as_real if dtype.is_floating_point else _as_integer)(other, dtype)  # raises
    return _packed(flat, dtype).reshape(shape)


def _flatten(x: Any, shape: tuple[int, ...], depth: int, flat: list[Any]) -> None:
    if depth == len(shape):
        flat.append(x)
        return
    if isinstance(x, np.ndarray) and x.shape == shape[depth:] and x.ndim:
        flat.extend(x.reshape(-1).tolist())
        return
    try:
        items = x if x.__class__ in (list, tuple) else list(x)
    except TypeError:
        raise TypeError("not a sequence") from None
    if len(items) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(items)})")
    for item in items:
        if isinstance(item, np.ndarray):
            warn_once(
                "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to "
                "a single numpy.ndarray with numpy.array() before converting to a tensor."
            )
    if depth + 1 == len(shape):
        flat.extend(items)
    else:
        for item in items:
            _flatten(item, shape, depth + 1, flat)


def _number_of(tensor: Tensor) -> Any:
    if tensor._layout.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if tensor._node is not None:
        warn_once(REQUIRES_GRAD)
    return tensor.item()


def _as_real(x: Any, dtype: DType) -> float:
    if isinstance(x, Tensor):
        x = _number_of(x)
        if isinstance(x, complex):
            if x.imag:
                raise RuntimeError("value cannot be converted to type double without overflow")
            return x.real
    if not isinstance(x, complex):
        if hasattr(x, "__float__"):
            return float(x)
        if hasattr(x, "__index__"):
            return float(operator.index(x))
    raise TypeError(f"must be real number, not {type_name(x)}")


def _as_complex(x: Any, dtype: DType) -> complex:
    if isinstance(x, Tensor):
        return complex(_number_of(x))
    return complex(x) if isinstance(x, complex) else _as_real(x, dtype)


def _as_integer(x: Any, dtype: DType) -> int | float:
    if isinstance(x, Tensor):
        kind = x._layout.dtype
        if x._layout.numel != 1 or kind.is_floating_point or kind.is_complex:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(_number_of(x))
    if isinstance(x, (float, int)):
        return float(x) if isinstance(x, float) else int(x)
    if dtype.name == "uint64":
        raise TypeError("an integer is required")
    return operator.index(x)


def _as_bool(x: Any, dtype: DType) -> bool:
    return bool(x) if isinstance(x, (complex, np.bool_)) else bool(_as_integer(x, dtype))


def _packed(flat: list[Any], dtype: DType) -> np.ndarray:
    """Plain numbers as an array of the dtype."""
    if dtype in AS_BITS:
        with np.errstate(over="ignore"):
            return to_bits(np.array(flat) if dtype.is_complex else np.array(flat, np.float64).astype(np.float32), dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.is_floating_point or dtype.is_complex:
            return np.array(flat, np.complex128 if dtype.is_complex else np.float64).astype(dtype.numpy)
        if dtype is bool_:
            return np.array([bool(x) for x in flat], bool)
    return _integers(flat, dtype)


def _integers(flat: list[Any], dtype: DType) -> np.ndarray:
    """Numbers as elements of an integer dtype: as 64 bits first, as C takes them, and then as the dtype; an unsigned one of less
    than 64 bits wraps negative numbers around.
    """
    info = np.iinfo(dtype.numpy)
    kinds = set(map(type, flat))
    if dtype.name == "uint64":
        if not kinds <= {int, bool}:
            raise TypeError("an integer is required")
        if flat and min(flat) < 0:
            raise OverflowError("can't convert negative int to unsigned")
        if flat and max(flat) > info.max:
            raise OverflowError("int too big to convert")
        return np.array(flat, np.uint64)
    if float in kinds:
        limit = min(int(info.max), (1 << 63) - 512)  # int64's largest number is no double
        if not all(info.min <= x <= limit for x in flat if x.__class__ is float):
            raise _too_large(dtype)
        flat = [int(x) for x in flat]
    try:
        array = np.array(flat, np.int64)
    except OverflowError:
        raise ValueError(OVERFLOW) from None
    if array.size and dtype is not int64:
        low, high = int(array.min()), int(array.max())
        if high > info.max or low < (info.min or -info.max):
            raise _too_large(dtype)
    return array.astype(dtype.numpy)


def _too_large(dtype: DType) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
