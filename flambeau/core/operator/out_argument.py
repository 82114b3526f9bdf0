"""`out=`: resizing the given tensor and copying a result into it, with PyTorch's checks.

Stands on core.tensor.tensor; used by the generated variants of every kind of operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import can_cast, float32, int32, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.base.warn import warn
from flambeau.codegen.runtime import state
from flambeau.codegen.runtime.launch import rebound
from flambeau.core.autograd import undefined
from flambeau.core.autograd.inplace import rebase, refuse_shared, refuse_write
from flambeau.core.modes import modes
from flambeau.core.operator import return_types
from flambeau.core.operator.facets import SILENT, OpDef
from flambeau.core.operator.out_rules import (
    ALIGNED,
    BEFORE_DATA,
    BEFORE_DTYPE,
    DISTINCT,
    OUT_ONLY,
    any_dtype,
    check_device,
    check_dtype,
    check_types,
    refuse_graph,
)
from flambeau.core.tensor import storage
from flambeau.core.tensor.tensor import Tensor


def resize(tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Give a tensor another shape in place, in C order or with these dense strides; its storage grows if it must, keeping the
    old elements. A tensor that has the shape stays as it is.
    """
    refuse_write(tensor)
    if tuple(tensor._layout.shape) == tuple(shape):
        return
    layout = Layout.contiguous(tuple(shape), tensor._layout.dtype, tensor._layout.device)
    needed = (tensor._offset * layout.dtype.itemsize) + layout.nbytes if layout.numel else 0
    held = tensor._storage  # read once: another thread may set the tensor on another
    if needed > held.capacity:
        storage.resize(held, needed)
    if strides is not None:
        layout = Layout.of(layout.shape, strides, layout.dtype, layout.device)
    rebound(tensor)
    tensor._layout = layout.with_pending(tensor._layout.pending)


def resize_out(out: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Make `out=` fit a result of this shape; a non-empty tensor of another shape is resized with PyTorch's warning."""
    if tuple(out._layout.shape) == tuple(shape):
        return
    if out._layout.numel:
        warn(
            f"An output with one or more elements was resized since it had shape {list(out._layout.shape)}, which does "
            f"not match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )
    resize(out, shape, strides)


def _check_apart(record: OpDef, out: Tensor, inputs: Iterable[Any]) -> None:
    """RuntimeError where the operator would write over elements that it has yet to read."""
    overlap = record.out.overlap
    if overlap is not None:
        for read in inputs:
            if read is out and overlap == DISTINCT and read._layout.shape != (0,):  # without elements too
                raise RuntimeError(memory_order.OVERLAPS_INPUT)
            refuse_shared(out, read, overlap != ALIGNED)


def donated(out: Tensor, implementation: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """`out`, with what the implementation computes: the next launch of this thread writes to it whose result would be a fresh one
    like it.
    """
    donation = (out, modes.local.thread_state)  # one word says both, so that no other thread comes in between
    try:
        state.words[state.DONATED] = id(donation)
        result = implementation(*args, **kwargs)
    finally:
        if state.words[state.DONATED] == id(donation):
            state.words[state.DONATED] = 0
    if result._storage is out._storage and result._layout is out._layout:
        return out
    return copy_into(out, result)  # a step on the way took it


def convertible(dtype: DType, target: DType) -> None:
    """RuntimeError unless a result of one dtype may be written to a tensor of the other."""
    if not can_cast(dtype, target):
        raise RuntimeError(f"result type {dtype.scalar_name} can't be cast to the desired output type {target.scalar_name}")


def copy_into(out: Tensor, result: Any, record: OpDef = SILENT) -> Tensor:
    """Move a computed result into the tensor given as `out=` of the operator."""
    dtype, rule = result._layout.dtype, record.out
    check_dtype(record, out, dtype)
    check_device(record, out, result._layout.device)
    if rule.dtype is not any_dtype:
        convertible(dtype, out._layout.dtype)
    other = out._layout.shape != result._layout.shape
    (resize_out if rule.warns else resize)(out, result._layout.shape)
    if (
        other
        and (record.name.startswith("linalg_") or rule.as_made)
        and out._layout.dtype is dtype
        and memory_order.is_dense(result._layout.shape, result._layout.strides)
    ):
        out._layout = result._layout
    out.copy_(result)
    return out


def of_kernel(error: BaseException) -> bool:
    """Whether an error is a kernel's refusal of a dtype, which comes after `out` has been resized."""
    return isinstance(error, NotImplementedError) and str(error).startswith('"')


_BAD_DATA = re.compile("out of (bounds|range)|expected m1 and m2 to have the same dtype")


def leave_fitted(
    record: OpDef, error: BaseException, implementation: Callable[..., Any], given: Sequence[Any], named: dict[str, Any], out: Any
) -> None:
    """Give `out` of a call that failed the shape that PyTorch leaves it with: that of the result, if it was the kernel that
    failed. The shape is that of the result for zeros of a dtype that everything takes.
    """
    rule, before_data = record.out, record.out.fitted == BEFORE_DATA
    refused = (of_kernel(error) and not rule.refuses_first) or (before_data and _BAD_DATA.search(str(error)) is not None)
    left = rule.left(given, refused) if rule.left is not None else None
    if left is not None:
        shapes: list[Any] = [left]
    elif refused:
        first = given[0]
        if isinstance(first, Tensor) and isinstance(out, Tensor) and first._layout.dtype is not out._layout.dtype:
            return
        zero = Tensor.new_zeros

        def stand_in(x: Any) -> Any:
            if isinstance(x, (tuple, list)):
                return type(x)([stand_in(y) for y in x])
            if not isinstance(x, Tensor):
                return x
            held = x.dtype if before_data and x.dtype in (int32, int64) and x is not first else float32
            return zero(x, (), dtype=held).expand(x.shape)

        try:
            result = implementation(*map(stand_in, given), **{n: stand_in(x) for n, x in named.items()})
        except (RuntimeError, TypeError, ValueError, IndexError):
            return
        shapes = [x.shape for x in (result if isinstance(result, tuple) else (result,))]
    else:
        return
    for target, shape in zip(out if isinstance(out, (tuple, list)) else (out,), shapes):
        if isinstance(target, Tensor):
            resize_out(target, shape)


def deliver(out: Any, result: Any, record: OpDef, inputs: Iterable[Any] = (), written: Sequence[Any] | None = None) -> Any:
    """Move what the operator computed from `inputs`, a tensor or a tuple of them, into what was given as `out=`, and return
    that. written: the arguments as they were written, where they are others.
    """
    inputs = list(inputs)
    recorded = [*inputs, *(result if isinstance(result, tuple) else (result,))]
    refuse_graph(record, recorded, out if isinstance(out, (tuple, list)) else (out,))
    check_types(record, out, len(result) if isinstance(result, tuple) else 1, lambda: inputs if written is None else written)
    with modes.no_grad():
        delivered = _delivered(out, result, record, inputs)
    record_write(record, delivered if isinstance(delivered, tuple) else (delivered,), inputs)
    return delivered


def record_write(record: OpDef, outs: Iterable[Tensor], inputs: Iterable[Any]) -> None:
    """Give what an operator without a derivative wrote its place in the graph, if it or an operand requires grad."""
    if record.out.graph != OUT_ONLY or not modes.local.grad:
        return
    inputs = [x for x in inputs if isinstance(x, Tensor)]
    for out in outs:
        dtype = out._layout.dtype
        operands = [out, *[x for x in inputs if x is not out]]
        if (dtype.is_floating_point or dtype.is_complex) and any(x._node is not None for x in operands):
            rebase(out, undefined.step_after("aten::" + (record.underneath or record.name), operands))


def _delivered(out: Any, result: Any, record: OpDef, inputs: list[Any]) -> Any:
    if not isinstance(result, tuple):
        left = record.out.left
        if record.out.fitted == BEFORE_DTYPE or (left is not None and left(inputs, False) is not None):
            resize_out(out, result._layout.shape)
        check_dtype(record, out, result._layout.dtype)
        _check_apart(record, out, inputs)
        return copy_into(out, result.detach(), record)
    for target, value in zip(out, result):
        check_dtype(record, target, value._layout.dtype)
        _check_apart(record, target, inputs)
    for target, value in zip(out, result):
        copy_into(target, value.detach(), record)
    return return_types.of_out(type(result))(out)
