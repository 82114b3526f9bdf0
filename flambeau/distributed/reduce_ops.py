"""ReduceOp: how the values of all processes are combined, and what that means for MPI.

Stands on the standard library; collectives and process groups use it, and the package offers its names on.
"""

from __future__ import annotations

import enum
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.base.dtype import dtype as DType
from flambeau.base.naming import called
from flambeau.base.warn import deprecated


@called("distributed.distributed_c10d", "ReduceOp.RedOpType")
class RedOpType(enum.IntEnum):
    """How the values of all processes are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"


class _ReduceOpType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (RedOpType, _Scaled))

    def __call__(cls, op: int) -> RedOpType:  # type: ignore[override]
        return RedOpType(op)


@called("distributed.distributed_c10d", "ReduceOp")
class ReduceOp(metaclass=_ReduceOpType):
    """The kinds of reduction, as attributes; ReduceOp(op) is the one of that number."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = RedOpType


@called("distributed.distributed_c10d", "_reduce_op")
class OlderReduceOp:
    """`torch.distributed.reduce_op`: the kinds of reduction under the name that they had before ReduceOp."""

    def __init__(self) -> None:
        for name, value in list(RedOpType.__members__.items())[:-1]:
            setattr(self, name, value)

    @deprecated("`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead")
    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class _Scaled:
    """The sum of what each process multiplied by a factor before. Attributes: op, factor."""

    op = RedOpType.PREMUL_SUM

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return other == self.op or (isinstance(other, _Scaled) and other.factor is self.factor)

    def __hash__(self) -> int:
        return hash(self.op)

    def __str__(self) -> str:
        return str(self.op)


def premul_sum(factor: Any) -> Any:
    """The ReduceOp that multiplies by a factor (a number, or a tensor of one element) and adds up."""
    return _Scaled(factor)


def kind_of(op: Any) -> RedOpType:
    """Which kind of reduction it is. Raises TypeError for what is none."""
    if isinstance(op, RedOpType):
        return op
    if isinstance(op, _Scaled):
        return op.op
    raise TypeError(f"op: a ReduceOp is needed, not {type(op).__name__}")


def combination_of(op: Any, dtype: DType) -> str:
    """Which function of codegen.combine combines elements of a dtype. Raises RuntimeError where that has no meaning."""
    kind = kind_of(op)
    if kind in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM):
        return "sum"
    if kind == RedOpType.UNUSED:
        raise RuntimeError("Unhandled ReduceOp")
    if kind in (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR) and (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if dtype.is_complex and kind in (RedOpType.MIN, RedOpType.MAX):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with complex dtype")
    return kind.name.lower()


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction is defined for complex numbers: not those that compare or look at bits."""
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def before(op: Any, tensor: Any) -> Any:
    """What a process gives to the reduction in place of a tensor of its own."""
    return tensor.mul(op.factor).to(tensor.dtype) if isinstance(op, _Scaled) else tensor


def after(op: Any, tensor: Any, size: int) -> None:
    """What is done to the result of a reduction among `size` processes, in place."""
    if kind_of(op) == RedOpType.AVG:
        if tensor.dtype is bool_:
            return
        tensor.div_(size, rounding_mode=None if tensor.dtype.is_floating_point or tensor.dtype.is_complex else "trunc")
