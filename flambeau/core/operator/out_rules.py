"""What operators say of an `out` that they can't write to: a wrong type, dtype or device, or one that requires grad.

A declaration says so: `out=Out(dtype=exact, overlap=DISTINCT)` in the words defined here. Stands on core.operator.arguments;
used by core.operator.out_argument, and by declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.base.aten_schemas import arities, outs
from flambeau.base.dtype import can_cast
from flambeau.base.dtype import dtype as DType
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes import modes
from flambeau.core.operator.arguments import no_combination, refused_out
from flambeau.core.operator.facets import OpDef, Out
from flambeau.core.tensor.tensor import Tensor

__all__ = [
    "ALIGNED",
    "APART",
    "ASKED_DEVICE",
    "BEFORE_DATA",
    "BEFORE_DTYPE",
    "COPIED",
    "DISTINCT",
    "OUT_ONLY",
    "SAME_DEVICE",
    "UNRECORDED",
    "Out",
    "any_dtype",
    "bools",
    "castable",
    "check_device",
    "check_dim",
    "check_dtype",
    "check_early",
    "check_types",
    "complex_result",
    "exact",
    "joined",
    "real_result",
    "refuse_graph",
    "worded",
]

# ---------------------------------------------------------------- dtype=


def exact(have: DType, got: DType) -> None:
    """Only a tensor of the result's dtype is written to."""
    raise RuntimeError(f"Expected out tensor to have dtype {have.c_name}, but got {got.c_name} instead")


def worded(text: str) -> Callable[[DType, DType], None]:
    """Likewise, in words of the operator's own, where {have} and {got} stand for the dtypes, {own} and {other} for C's names."""

    def refuse(have: DType, got: DType) -> None:
        raise RuntimeError(text.format(have=have.scalar_name, got=got.scalar_name, own=have.c_name, other=got.c_name))

    return refuse


def castable(title: str, what: str = "result") -> Callable[[DType, DType], None]:
    """A tensor of any dtype to which the result's can be cast, in the words of linear algebra."""

    def refuse(have: DType, got: DType) -> None:
        if not can_cast(have, got):
            raise RuntimeError(
                f"{title}: Expected {what} to be safely castable from {have.scalar_name} dtype, but got {what} "
                f"with dtype {got.scalar_name}"
            )

    return refuse


def complex_result(title: str) -> Callable[[DType, DType], None]:
    """Only complex tensors."""

    def refuse(have: DType, got: DType) -> None:
        if not got.is_complex:
            raise RuntimeError(f"{title} expects a complex output tensor, but got {got.scalar_name}")

    return refuse


def real_result(title: str) -> Callable[[DType, DType], None]:
    """Only tensors of floating point numbers."""

    def refuse(have: DType, got: DType) -> None:
        if not got.is_floating_point:
            raise RuntimeError(f"{title} expects a floating point output tensor, but got {got.scalar_name}")

    return refuse


def bools(title: str) -> Callable[[DType, DType], None]:
    """Only truths and bytes."""

    def refuse(have: DType, got: DType) -> None:
        if got.name != "uint8":
            raise RuntimeError(f"{title} only supports bool tensor for result, got: {got.scalar_name}")

    return refuse


def joined(have: DType, got: DType) -> None:
    """What several tensors joined can be cast to."""
    if not can_cast(have, got):
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {got.scalar_name}")


def any_dtype(have: DType, got: DType) -> None:
    """A tensor of any dtype, whether or not the result's can be cast to it."""


# ---------------------------------------------------------------- device=

SAME_DEVICE = "Expected out tensor to have device {device}, but got {own} instead"
ASKED_DEVICE = "device type {device} does not match device type of out parameter ({own})"

# ---------------------------------------------------------------- graph=

OUT_ONLY = "out only"  # is recorded as a step without a derivative, and so refuses only a leaf
COPIED = "copied"  # is made of several steps, the last of which is a copy
UNRECORDED = "unrecorded"  # has no derivative

# ---------------------------------------------------------------- overlap=

DISTINCT = "distinct"  # no element in common, nor the very tensor
APART = "apart"  # no element in common
ALIGNED = "aligned"  # every element in common, at its place, or none

# ---------------------------------------------------------------- fitted=

BEFORE_DTYPE = "before dtype"  # resized before its dtype is looked at
BEFORE_DATA = "before data"  # resized before kernels find bad data

# ---------------------------------------------------------------- checks


def check_dim(record: OpDef, given: Sequence[Any], out: Any) -> None:
    """TypeError for an `out` of one of the reductions that take none where they reduce all dimensions."""
    if record.out.needs_dim and given[1] is None:
        raise no_combination(record.name, given[:1], {"out": out})


def check_dtype(record: OpDef, out: Tensor, have: DType) -> None:
    """Raise as PyTorch does if the operator can't write a result of this dtype to that tensor; most convert no dtypes."""
    if record.out.dtype is not None and have is not out._layout.dtype:
        record.out.dtype(have, out._layout.dtype)


def check_types(record: OpDef, out: Any, results: int, inputs: Callable[[], Sequence[Any]]) -> None:
    """TypeError unless `out` is a tensor, or as many of them as there are results; inputs() gives the arguments as written."""
    if results == 1:
        if not isinstance(out, Tensor):
            raise refused_out(record.name, list(inputs()), out)
        return
    if not isinstance(out, (tuple, list)):
        raise refused_out(record.name, list(inputs()), out, "tuple of Tensors")
    odd = next((at for at, each in enumerate(out) if not isinstance(each, Tensor)), None)
    if odd is not None:
        given = len(inputs())
        at = min((arity.most for arity in arities(record.name) if arity.most > given), default=given + 1) - 1
        raise TypeError(f"expected Tensor as element {odd} in argument {at}, but got {type(out[odd]).__name__}")
    if len(out) != results:
        raise TypeError(f"expected tuple of {results} elements but got {len(out)}")


def check_early(record: OpDef, out: Any, inputs: Callable[[], Sequence[Any]]) -> None:
    """The same before anything is computed, where the number of results is the same for every call."""
    if not isinstance(out, Tensor):
        results = outs(record.underneath or record.name)
        if results:
            check_types(record, out, results, inputs)


def refuse_graph(record: OpDef, inputs: Iterable[Any], outs: Iterable[Any]) -> None:
    """RuntimeError if a tensor of a call with `out=` requires grad, and that is being recorded."""
    if not modes.local.grad:
        return
    graph = record.out.graph
    if graph == UNRECORDED:
        return
    outs = [x for x in outs if isinstance(x, Tensor) and x._node is not None]
    if graph == OUT_ONLY:
        if not any(type(x._node) is AccumulateGrad for x in outs):
            return
    elif graph == COPIED:
        if not outs:
            return
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    elif not outs and not any(isinstance(x, Tensor) and x._node is not None for x in inputs):
        return
    title = ("aten::" if graph == OUT_ONLY else "") + (record.out.step or record.underneath or record.name)
    raise RuntimeError(
        f"{title}(): functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments requires grad."
    )


def check_device(record: OpDef, out: Tensor, device: Any) -> None:
    """RuntimeError unless the tensor given as `out=` of the operator is where its result is."""
    own = out._layout.device
    if own.type != device.type:
        raise RuntimeError(record.out.device.format(device=device, own=own))
