"""Comparisons, logic, bits and tests of elements.

Stands on core.operator.variants and ir.scalar. Comparisons with what is no number give NotImplemented to Python's
operators, so that `tensor == None` is False as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import FLOAT8, bool_, float8_e5m2, float8_e8m0fnu, float64, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import register_cache
from flambeau.base.naming import named
from flambeau.core.modes.modes import active
from flambeau.core.operator.annotations import Number, Operand
from flambeau.core.operator.define import composite
from flambeau.core.operator.out_rules import OUT_ONLY, Out, worded
from flambeau.core.operator.pointwise import in_common_order, like_first, overload
from flambeau.core.operator.publishing import NAMESPACE, alias
from flambeau.core.operator.row_program import KEPT, Rows
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.create import item
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype


@pointwise(
    kind="bool", operator="__eq__", name="eq", types="bif8c", node=overload("Eq", "Backward1", "Backward0"), of_arrays=True
)
def eq(input: Tensor, other: Operand):
    """input == other."""
    return input == other


@pointwise(kind="bool", operator="__ne__", name="ne", types="bif8c", node=overload("Ne", "Backward1", "Backward0"))
def ne(input: Tensor, other: Operand):
    """input != other."""
    return input != other


@pointwise(kind="bool", operator="__lt__", types="bif", node=overload("Lt", "Backward1", "Backward0"))
def lt(input: Tensor, other: Operand):
    """input < other."""
    return input < other


@pointwise(kind="bool", operator="__le__", types="bif", node=overload("Le", "Backward1", "Backward0"))
def le(input: Tensor, other: Operand):
    """input <= other."""
    return input <= other


@pointwise(kind="bool", operator="__gt__", types="bif", node=overload("Gt", "Backward1", "Backward0"))
def gt(input: Tensor, other: Operand):
    """input > other."""
    return input > other


@pointwise(kind="bool", operator="__ge__", types="bif", node=overload("Ge", "Backward1", "Backward0"))
def ge(input: Tensor, other: Operand):
    """input >= other."""
    return input >= other


for _name, _of in (("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"), ("greater_equal", "ge")):
    alias(_name, _of)


def _equal_stages(elements: tuple, numbers: tuple, common: Any) -> tuple:
    x, y = (cast(e, compute_dtype(common)) for e in elements)
    fold = Fold(("same",), (s.constant(1, bool_),), (x == y,), lambda a, b: (a[0] & b[0],))
    return Loop((fold,)), Row(((0, folded("same", bool_)),))


_EQUAL = Rows("equal", _equal_stages, lambda dtypes, common: [(bool_, KEPT)], float8=True)
_equals: dict[Any, Any] = register_cache({})


@composite(name="equal")
def _equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and elements, as one bool."""
    a, b = input._layout, other._layout
    if a.shape != b.shape:
        return False
    if not known(input) and a.device is b.device:
        raise needs_values(input, "equal")
    if a.flavor is not None or b.flavor is not None or a.device.type != "cpu" or b.device.type != "cpu":
        return bool(eq(input, other).all())
    launch = _EQUAL.launcher((input, other), tuple(range(a.ndim)), (), (promote_types(a.dtype, b.dtype),))
    _equals[a, b] = launch
    return bool(launch(None, input, other))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and elements, as one bool."""
    try:
        launch = _equals[input._layout, other._layout]
    except (KeyError, AttributeError):
        launch = None
    return _equal(input, other) if launch is None or active.count else item(launch(None, input, other))


_equal.operator.public = NAMESPACE["equal"] = Tensor.equal = equal


# ---------------------------------------------------------------- logic and bits


@pointwise(kind="bool", differentiable=False)
def logical_and(input: Tensor, other: Tensor):
    """Whether both are nonzero."""
    return s.logical_and(input, other)


@pointwise(kind="bool", differentiable=False)
def logical_or(input: Tensor, other: Tensor):
    """Whether either is nonzero."""
    return s.logical_or(input, other)


@pointwise(kind="bool", differentiable=False)
def logical_xor(input: Tensor, other: Tensor):
    """Whether exactly one is nonzero."""
    return s.logical_xor(input, other)


@pointwise(kind="bool", differentiable=False)
def logical_not(input: Tensor):
    """Whether input is zero."""
    return s.logical_not(input)


@pointwise(operator="__and__", reflected="__rand__", types="bi", differentiable=False, out=Out(graph=OUT_ONLY))
def bitwise_and(input: Operand, other: Operand):
    """The bits that both have. Raises NotImplementedError unless bool or integer."""
    return input & other


@pointwise(operator="__or__", reflected="__ror__", types="bi", differentiable=False, out=Out(graph=OUT_ONLY))
def bitwise_or(input: Operand, other: Operand):
    """The bits that either has. Raises NotImplementedError unless bool or integer."""
    return input | other


@pointwise(operator="__xor__", reflected="__rxor__", types="bi", differentiable=False, out=Out(graph=OUT_ONLY))
def bitwise_xor(input: Operand, other: Operand):
    """The bits that exactly one has. Raises NotImplementedError unless bool or integer."""
    return input ^ other


@pointwise(types="bi", differentiable=False, out=Out(as_computed=True, graph=OUT_ONLY))
def bitwise_not(input: Tensor):
    """The other bits. Raises NotImplementedError unless bool or integer."""
    return ~input


@pointwise(operator="__lshift__", types="i", kernel="lshift_cpu", differentiable=False, out=Out(graph=OUT_ONLY))
def bitwise_left_shift(input: Operand, other: Operand):
    """input shifted to the left by `other` bits; 0 beyond the width. Raises NotImplementedError unless integer."""
    return input << other


@pointwise(operator="__rshift__", types="i", kernel="rshift_cpu", differentiable=False, out=Out(graph=OUT_ONLY))
def bitwise_right_shift(input: Operand, other: Operand):
    """input shifted to the right by `other` bits, keeping the sign. Raises NotImplementedError unless integer."""
    return input >> other


@named("__invert__")
def _invert(self: Tensor) -> Tensor:
    """~self."""
    dtype = self._layout.dtype
    if dtype.is_floating_point or dtype.is_complex:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


@named("__rlshift__")
def _left_shift_of(self: Tensor, other: Any) -> Tensor:
    """other << self."""
    return bitwise_left_shift(other, self)


@named("__rrshift__")
def _right_shift_of(self: Tensor, other: Any) -> Tensor:
    """other >> self."""
    return bitwise_right_shift(other, self)


Tensor.__invert__, Tensor.__rlshift__, Tensor.__rrshift__ = _invert, _left_shift_of, _right_shift_of


# ---------------------------------------------------------------- tests


def _of_float8(name: str, *allowed: DType) -> Any:
    def check(computation: DType, *_: Any) -> None:
        if computation in FLOAT8 and computation not in allowed:
            raise NotImplementedError(f"\"{name}\" not implemented for '{computation.scalar_name}'")

    return check


@pointwise(kind="bool", inplace=False, out=False, types="bif8c")
def isnan(input: Tensor):
    """Whether an element (or a part of it) is NaN."""
    return s.isnan(input)


@pointwise(kind="bool", inplace=False, out=False, types="bif8c", check=_of_float8("isinf", float8_e5m2))
def isinf(input: Tensor):
    """Whether an element (or a part of it) is infinite."""
    return s.isinf(input)


@pointwise(kind="bool", inplace=False, out=False, types="bif8c", check=_of_float8("isfinite", float8_e5m2, float8_e8m0fnu))
def isfinite(input: Tensor):
    """Whether an element is neither NaN nor infinite."""
    return s.isfinite(input)


def _real_only(name: str) -> Any:
    def check(computation: DType, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> None:
        if computation.is_complex:
            raise RuntimeError(f"{name} does not support complex inputs.")

    return check


@pointwise(
    kind="bool",
    inplace=False,
    check=_real_only("isposinf"),
    out=Out(dtype=worded("isposinf does not support non-boolean outputs.")),
)
def isposinf(input: Tensor):
    """Whether an element is positive infinity."""
    return input == float("inf") if input.dtype.is_floating_point else s.constant(False, bool_)


@pointwise(
    kind="bool",
    inplace=False,
    check=_real_only("isneginf"),
    out=Out(dtype=worded("isneginf does not support non-boolean outputs.")),
)
def isneginf(input: Tensor):
    """Whether an element is negative infinity."""
    return input == float("-inf") if input.dtype.is_floating_point else s.constant(False, bool_)


@pointwise(kind="bool", inplace=False, out=False, types="bif8c")
def isreal(input: Tensor):
    """Whether the imaginary part of an element is zero."""
    return s.imag(input) == 0 if input.dtype.is_complex else s.constant(True, bool_)


isreal.operator.order = lambda shape, layouts: (
    in_common_order(shape, layouts) if layouts[0].dtype.is_complex else like_first(shape, layouts)
)


@pointwise(kind="bool", inplace=False, name="_close", function=False, method=False)
def _close(input: Tensor, other: Tensor, rtol: Number = 1e-05, atol: Number = 1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other|, or both are equal."""
    part = s.part_dtype(input.dtype)
    rtol, atol = s.cast(s.real(rtol), part), s.cast(s.real(atol), part)
    error = s.abs(input - other)
    near = (error <= atol + s.abs(rtol * s.abs(other))) & (error < float("inf"))
    near = near | (input == other)
    return near | (s.isnan(input) & s.isnan(other)) if equal_nan else near


@composite()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether elements are equal, or |input - other| <= atol + rtol * |other|; NaN equals NaN if equal_nan.

    Raises RuntimeError for unequal dtypes and negative tolerances.
    """
    mine, theirs = input._layout.dtype, other._layout.dtype
    if mine is not theirs:
        raise RuntimeError(f"{mine.scalar_name} did not match {theirs.scalar_name}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    if not (mine.is_floating_point or mine.is_complex):
        return _close_integers(input, other, float(rtol), float(atol))
    if mine in FLOAT8 and not rtol and not atol:  # which have no arithmetic, but are compared
        return eq(input, other) | (ne(input, input) & ne(other, other)) if equal_nan else eq(input, other)
    return _close(input, other, float(rtol), float(atol), bool(equal_nan))


@pointwise(kind=lambda common: (float64, bool_), inplace=False, name="_close_integers", function=False, method=False)
def _close_integers(input: Tensor, other: Tensor, rtol: Number = 1e-05, atol: Number = 1e-08):
    """isclose for integers and bool, computed in float64."""
    return s.abs(input - other) <= atol + s.abs(rtol * s.abs(other))


@composite()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether isclose holds for every element."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())
