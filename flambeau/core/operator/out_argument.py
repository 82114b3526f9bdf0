"""`out=`: resizing the given tensor and copying a result into it, with PyTorch's checks.

Stands on core.tensor.tensor; used by the generated variants of every kind of operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import can_cast, float32, int32, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.base.warn import warn
from flambeau.codegen.runtime import state
from flambeau.core.autograd.inplace import refuse_shared, refuse_write
from flambeau.core.modes import modes
from flambeau.core.operator import out_rules, return_types
from flambeau.core.tensor import storage
from flambeau.core.tensor.tensor import Tensor


def resize(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Give a tensor another shape in place, in C order; its storage grows if it must, keeping the old elements. A tensor that
    has the shape stays as it is.
    """
    refuse_write(tensor)
    if tuple(tensor._layout.shape) == tuple(shape):
        return
    layout = Layout.contiguous(tuple(shape), tensor._layout.dtype, tensor._layout.device)
    needed = (tensor._offset * layout.dtype.itemsize) + layout.nbytes if layout.numel else 0
    held = tensor._storage      # read once: another thread may set the tensor on another
    if needed > held.capacity:
        storage.resize(held, needed)
    tensor._layout = layout.with_pending(tensor._layout.pending)


def resize_out(out: Tensor, shape: tuple[int, ...]) -> None:
    """Make `out=` fit a result of this shape; a non-empty tensor of another shape is resized with PyTorch's warning."""
    if tuple(out._layout.shape) == tuple(shape):
        return
    if out._layout.numel:
        warn(f"An output with one or more elements was resized since it had shape {list(out._layout.shape)}, which does "
             f"not match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
             "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
             "tensor t by resizing it, inplace, to zero elements with t.resize_(0).")
    resize(out, shape)


_SILENT = frozenset(("addbmm", "bernoulli", "multinomial", "narrow_copy", "log_sigmoid"))    # these resize `out` unasked
_ANY = frozenset(("sum", "nansum", "prod", "cumsum", "cumprod", "bernoulli"))    # these take any dtype of `out`
# those that refuse an `out` that shares elements with an input, and those that refuse it unless it is that input
_APART = frozenset("""
    gather take take_along_dim cat stack hstack vstack dstack column_stack index_select masked_select max min aminmax mode median
    nanmedian kthvalue nonzero cross linalg_cross diff outer ger""".split())
_ELEMENTWISE = frozenset("""
    where clamp cumsum cumprod logcumsumexp sort msort topk renorm index_add index_copy index_reduce scatter scatter_add
    scatter_reduce frexp polygamma nan_to_num""".split())
_FITTED_FIRST = frozenset("""
    var std mean kron stack dot vdot slice_scatter alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy
    select_copy slice_copy squeeze_copy t_copy transpose_copy unfold_copy unsqueeze_copy
    view_copy""".split())     # these resize `out` before they look at its dtype
_AS_MADE = frozenset("cholesky_inverse geqrf ormqr triangular_solve qr svd lu_solve".split())   # lie as the result where resized


def _check_apart(name: str, out: Tensor, inputs: Iterable[Any]) -> None:
    """RuntimeError where the operator `name` would write over elements that it has yet to read."""
    if name in _APART or name in _ELEMENTWISE:
        for read in inputs:
            if read is out and name in _APART and name != "stack" and read._layout.shape != (0,):    # without elements too
                raise RuntimeError(memory_order.OVERLAPS_INPUT)
            refuse_shared(out, read, name in _APART)


def offered(out: Tensor, implementation: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """`out`, with what the implementation computes: the next launch of this thread writes to it whose result would be a fresh one
    like it.
    """
    offer = (out, modes.local.thread_state)     # one word says both, so that no other thread comes in between
    try:
        state.words[state.OFFERED] = id(offer)
        result = implementation(*args, **kwargs)
    finally:
        if state.words[state.OFFERED] == id(offer):
            state.words[state.OFFERED] = 0
    if result._storage is out._storage and result._layout is out._layout:
        return out
    return copy_into(out, result)       # a step on the way took it


def convertible(dtype: DType, target: DType) -> None:
    """RuntimeError unless a result of one dtype may be written to a tensor of the other."""
    if not can_cast(dtype, target):
        raise RuntimeError(f"result type {dtype.scalar_name} can't be cast to the desired output type {target.scalar_name}")


def copy_into(out: Tensor, result: Any, name: str = "") -> Tensor:
    """Move a computed result into the tensor given as `out=` of the operator `name`."""
    dtype = result._layout.dtype
    if name:
        out_rules.check_dtype(name, out, dtype)
    out_rules.check_device(name, out, result._layout.device)
    if name not in _ANY:
        convertible(dtype, out._layout.dtype)
    other = out._layout.shape != result._layout.shape
    (resize if name in _SILENT else resize_out)(out, result._layout.shape)
    if other and (name.startswith("linalg_") or name in _AS_MADE) and out._layout.dtype is dtype and memory_order.is_dense(
            result._layout.shape, result._layout.strides):
        out._layout = result._layout
    out.copy_(result)
    return out


def of_kernel(error: BaseException) -> bool:
    """Whether an error is a kernel's refusal of a dtype, which comes after `out` has been resized."""
    return isinstance(error, NotImplementedError) and str(error).startswith('"')


#: Operators whose kernels refuse a dtype before `out` is resized.
_REFUSING_FIRST = frozenset("""
    logcumsumexp inner tensordot histc linalg_det linalg_cond linalg_tensorsolve cholesky_inverse mvlgamma special_multigammaln
    special_ndtr ndtr normal nansum nanmean""".split())
_FITTED_BEFORE_DATA = frozenset("""
    index_select gather take scatter scatter_add index_add index_copy mm matmul""".split())
_BAD_DATA = re.compile("out of (bounds|range)|expected m1 and m2 to have the same dtype")


def leave_fitted(name: str, error: BaseException, implementation: Callable[..., Any], given: Sequence[Any],
                 named: dict[str, Any], out: Any) -> None:
    """Give `out` of a call that failed the shape that PyTorch leaves it with: that of the result, if it was the kernel that
    failed. The shape is that of the result for zeros of a dtype that everything takes.
    """
    if name in ("dot", "vdot") or (name == "matmul" and all(isinstance(x, Tensor) and x.ndim == 1 for x in given[:2])):
        shapes: list[Any] = [()]
    elif name == "matmul" and (shape := _batched_product(*given[:2])) is not None:
        shapes = [shape]
    elif ((of_kernel(error) and name not in _REFUSING_FIRST)
          or (name in _FITTED_BEFORE_DATA and _BAD_DATA.search(str(error)) is not None)):
        first = given[0]
        if isinstance(first, Tensor) and isinstance(out, Tensor) and first._layout.dtype is not out._layout.dtype:
            return
        zero = Tensor.new_zeros

        def stand_in(x: Any) -> Any:
            if isinstance(x, (tuple, list)):
                return type(x)([stand_in(y) for y in x])
            if not isinstance(x, Tensor):
                return x
            held = x.dtype if name in _FITTED_BEFORE_DATA and x.dtype in (int32, int64) and x is not first else float32
            return zero(x, (), dtype=held).expand(x.shape)
        try:
            result = implementation(*map(stand_in, given), **{n: stand_in(x) for n, x in named.items()})
        except (RuntimeError, TypeError, ValueError, IndexError):
            return
        shapes = [x.shape for x in (result if isinstance(result, tuple) else (result,))]
        if name == "matmul" and first.ndim == 1 and given[1].ndim == 2:     # computed as a matrix of one row
            shapes = [(1, *shapes[0])]
    else:
        return
    for target, shape in zip(out if isinstance(out, (tuple, list)) else (out,), shapes):
        if isinstance(target, Tensor):
            resize_out(target, shape)


def _batched_product(a: Any, b: Any) -> tuple[int, ...] | None:
    """The shape of a product of batches of matrices, whether or not rows are as long as columns; None where it isn't one."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or not a.ndim or not b.ndim or max(a.ndim, b.ndim) < 3:
        return None
    try:
        batch = geometry.broadcast(a.shape[:-2], b.shape[:-2])
    except RuntimeError:
        return None
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


def deliver(out: Any, result: Any, name: str, inputs: Iterable[Any] = ()) -> Any:
    """Move what the operator `name` computed from `inputs`, a tensor or a tuple of them, into what was given as `out=`, and
    return that.
    """
    inputs = list(inputs)
    recorded = [*inputs, *(result if isinstance(result, tuple) else (result,))]
    out_rules.refuse_graph(name, recorded, out if isinstance(out, (tuple, list)) else (out,))
    out_rules.check_types(name, out, result, inputs)
    if not isinstance(result, tuple):
        if name in _FITTED_FIRST or (name == "matmul" and result._layout.ndim > 2):
            resize_out(out, result._layout.shape)
        out_rules.check_dtype(name, out, result._layout.dtype)
        _check_apart(name, out, inputs)
        return copy_into(out, result.detach(), name)
    for target, value in zip(out, result):
        out_rules.check_dtype(name, target, value._layout.dtype)
        _check_apart(name, target, inputs)
    for target, value in zip(out, result):
        copy_into(target, value.detach(), name)
    return return_types.of_out(type(result))(out)
