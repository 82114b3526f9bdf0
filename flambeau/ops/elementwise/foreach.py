"""torch._foreach_*: an operator over the tensors of lists, as optimizers call them.

On the CPU, PyTorch's foreach functions run the operator for each tensor in turn; so do these. Every function takes a list or
tuple of tensors first. Where an operator has a second operand, it is one number, a list of numbers, a list of tensors or, for
add, mul and div, one tensor of one element. Functions give a tuple of new tensors; those whose name ends with an underscore
write into the tensors and give the list back. Stands on the methods of tensors; flambeau.namespace offers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.core.tensor.tensor import Tensor

UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
sigmoid sign sin sinh sqrt tan tanh trunc""".split()
#: Operator -> its method for an operand that is a number, and for one that is a tensor.
BINARY = {
    "add": ("add", "add"), "sub": ("sub", "sub"), "mul": ("mul", "mul"), "div": ("div", "div"), "pow": ("pow", "pow"),
    "maximum": ("clamp_min", "maximum"), "minimum": ("clamp_max", "minimum"), "clamp_min": ("clamp_min", "clamp_min"),
    "clamp_max": ("clamp_max", "clamp_max"),
}  # fmt: skip
WITH_ALPHA = ("add", "sub")
WITH_ONE_TENSOR = ("add", "mul", "div")

Tensors = Sequence[Tensor]


def _are_tensors(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(isinstance(item, Tensor) for item in x)


def _checked(name: str, argument: str, place: int, tensors: Any, like: Any = None) -> Tensors:
    """The list of tensors; TypeError if it is none, RuntimeError if it is empty or not as long as `like`."""
    if not _are_tensors(tensors):
        wrong = type(tensors).__name__
        raise TypeError(f"{name}(): argument '{argument}' (position {place}) must be tuple of Tensors, not {wrong}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    if like is not None and len(tensors) != len(like):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(like)} and {len(tensors)}")
    return tensors


def _numbers(name: str, argument: str, place: int, value: Any, like: Tensors) -> list[Any]:
    """One number for each tensor: of one number, of a list of them, or of a tensor of them."""
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, (int, float, complex)):
        return [value] * len(like)
    if not (isinstance(value, (list, tuple)) and all(isinstance(x, (int, float, complex)) for x in value)):
        raise TypeError(f"{name}(): argument '{argument}' (position {place}) must be Number, not {type(value).__name__}")
    if len(value) != len(like):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return list(value)


def _check_packed(scalars: Tensor, count: int) -> None:
    """RuntimeError unless a tensor holds a number for each of so many tensors, one after the other."""
    if scalars.dim() != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead.")
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous")
    if scalars.numel() != count:
        raise RuntimeError(f"Expected length of scalars to match input of length {count} but got {scalars.numel()} instead.")


def _unary(operator: str, inplace: bool) -> Callable[..., Any]:
    method, name = operator + "_" * inplace, f"_foreach_{operator}" + "_" * inplace

    def foreach(self: Tensors) -> Any:
        made = [getattr(x, method)() for x in _checked(name, "self", 1, self)]
        return self if inplace else tuple(made)

    return _named(foreach, name, f"x.{method}() of each tensor.")


def _binary(operator: str, inplace: bool) -> Callable[..., Any]:
    name = f"_foreach_{operator}" + "_" * inplace
    of_number, of_tensor = BINARY[operator]
    if inplace:  # tensors have no maximum_(); clamp_min_ is it
        of_number, of_tensor = of_number + "_", (of_number if of_number.startswith("clamp") else of_tensor) + "_"

    def foreach(self: Tensors, other: Any, *, alpha: Any = 1) -> Any:
        if alpha != 1 and operator not in WITH_ALPHA:
            raise TypeError(f"{name}() got an unexpected keyword argument 'alpha'")
        if operator == "pow" and not inplace and isinstance(self, (int, float, complex)):
            return tuple(self**exponent for exponent in _checked(name, "exponent", 2, other))
        _checked(name, "self", 1, self)
        scale = {} if alpha == 1 else {"alpha": alpha}
        if isinstance(other, Tensor) and operator in WITH_ONE_TENSOR:
            if other.dim() or other.numel() != 1:
                raise RuntimeError(
                    f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and {other.numel()} elements."
                )
            made = [getattr(x, of_tensor)(other, **scale) for x in self]
        elif isinstance(other, (list, tuple)) and other and _are_tensors(other):
            _checked(name, "other", 2, other, self)
            if of_tensor not in ("add", "sub", "mul", "div", "pow"):  # whose sizes are compared before dtypes are
                for x, y in zip(self, other, strict=True):
                    geometry.broadcast(x.shape, y.shape)
            made = [getattr(x, of_tensor)(y, **scale) for x, y in zip(self, other, strict=True)]
        elif isinstance(other, Tensor) and other.dim():
            raise TypeError(f"{name}(): argument 'other' (position 2) must be tuple of Tensors, not Tensor")
        elif alpha != 1:
            raise TypeError(f"{name}(): argument 'other' (position 2) must be tuple of Tensors, not {type(other).__name__}")
        else:
            numbers = _numbers(name, "scalar", 2, other, self)
            made = [getattr(x, of_number)(number) for x, number in zip(self, numbers, strict=True)]
        return self if inplace else tuple(made)

    return _named(foreach, name, f"x.{of_tensor}(y) of each tensor and its operand.")


def _ternary(operator: str, inplace: bool) -> Callable[..., Any]:
    method, name = operator + "_" * inplace, f"_foreach_{operator}" + "_" * inplace

    def foreach(self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Any = None, *, scalars: Any = None) -> Any:
        _checked(name, "self", 1, self)
        _checked(name, "tensor1", 2, tensor1, self)
        _checked(name, "tensor2", 3, tensor2, self)
        given = scalars if value is None else value
        if isinstance(given, Tensor):
            _check_packed(given, len(self))
        values = _numbers(name, "scalars", 4, 1 if given is None else given, self)
        each = zip(self, tensor1, tensor2, values, strict=True)
        made = [getattr(x, method)(first, second, value=number) for x, first, second, number in each]
        return self if inplace else tuple(made)

    return _named(foreach, name, f"x.{method}(tensor1, tensor2, value=value) of each tensor.")


def _lerp(inplace: bool) -> Callable[..., Any]:
    method, name = "lerp" + "_" * inplace, "_foreach_lerp" + "_" * inplace

    def foreach(self: Tensors, tensors1: Tensors, weight: Any) -> Any:
        _checked(name, "self", 1, self)
        _checked(name, "tensors1", 2, tensors1, self)
        if _are_tensors(weight):
            weights: Sequence[Any] = _checked(name, "weights", 3, weight, self)
        else:
            weights = _numbers(name, "weight", 3, weight, self)
        made = [getattr(x, method)(end, w) for x, end, w in zip(self, tensors1, weights, strict=True)]
        return self if inplace else tuple(made)

    return _named(foreach, name, f"x.{method}(end, weight) of each tensor.")


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _foreach_clone(self: Tensors, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of each tensor."""
    given = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(x.clone(**given) for x in _checked("_foreach_clone", "self", 1, self))


def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> Tensors:
    """Each tensor takes the values of its source."""
    _checked("_foreach_copy_", "src", 2, src, _checked("_foreach_copy_", "self", 1, self))
    for x, source in zip(self, src, strict=True):
        x.copy_(source, non_blocking)
    return self


def _foreach_zero_(self: Tensors) -> Tensors:
    """Each tensor becomes zero."""
    for x in _checked("_foreach_zero_", "self", 1, self):
        x.zero_()
    return self


def _foreach_max(self: Tensors) -> tuple[Tensor, ...]:
    """The largest element of each tensor."""
    return tuple(x.max() for x in _checked("_foreach_max", "self", 1, self))


def _foreach_mm(self: Tensors, mat2: Tensors) -> tuple[Tensor, ...]:
    """The product of each matrix with its partner."""
    _checked("_foreach_mm", "mat2", 2, mat2, _checked("_foreach_mm", "self", 1, self))
    return tuple(x.mm(y) for x, y in zip(self, mat2, strict=True))


def _foreach_norm(self: Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor as a vector."""
    return tuple(x.norm(ord, dtype=dtype) for x in _checked("_foreach_norm", "self", 1, self))


def _foreach_powsum(self: Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of |x|^ord of each tensor."""
    return tuple(x.abs().pow(ord).sum(dtype=dtype) for x in _checked("_foreach_powsum", "self", 1, self))


def _table() -> dict[str, Callable[..., Any]]:
    """Every function by its name in torch."""
    made: list[Callable[..., Any]] = [
        _foreach_clone, _foreach_copy_, _foreach_zero_, _foreach_max, _foreach_mm, _foreach_norm, _foreach_powsum
    ]  # fmt: skip
    for inplace in (False, True):
        made += [_unary(operator, inplace) for operator in UNARY]
        made += [_binary(operator, inplace) for operator in BINARY]
        made += [_ternary(operator, inplace) for operator in ("addcmul", "addcdiv")]
        made.append(_lerp(inplace))
    return {function.__name__: function for function in made}


FOREACH = _table()
