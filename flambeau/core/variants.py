"""`out=`: resizing the given tensor and copying a result into it, with PyTorch's checks.

Stands on core.tensor; used by the generated variants of every kind of operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.base.dtype import can_cast
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.base.notices import warn
from flambeau.core import modes, returns, storage
from flambeau.core.arguments import refused
from flambeau.core.inplace import refuse_shared, refuse_write
from flambeau.core.tensor import Tensor


def resize(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Give a tensor another shape in place, in C order; its storage grows if it must, keeping the old elements. A tensor that
    has the shape stays as it is.
    """
    refuse_write(tensor)
    if tuple(tensor._layout.shape) == tuple(shape):
        return
    layout = Layout.contiguous(tuple(shape), tensor._layout.dtype, tensor._layout.device)
    needed = (tensor._offset * layout.dtype.itemsize) + layout.nbytes
    if needed > tensor._storage.capacity:
        if storage.owned_elsewhere(tensor._storage):
            raise RuntimeError("Trying to resize storage that is not resizable")
        grown = storage.empty(needed)
        storage.copy_bytes(grown, tensor._storage, tensor._storage.capacity)
        tensor._storage = grown
    tensor._layout = layout


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


_EXACT = frozenset("""
    mm bmm addmm matmul mv baddbmm max min sort topk aminmax argmax argmin softmax log_softmax gather tril triu norm diag
    linalg_inv linalg_svd linalg_qr linalg_solve linalg_det linalg_eigh linalg_cholesky inverse scatter scatter_add scatter_reduce
    renorm cross linalg_cross addbmm addmv index_add index_copy index_reduce isin msort slice_scatter take_along_dim
    alias_copy as_strided_copy diagonal_copy expand_copy permute_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unfold_copy unsqueeze_copy view_copy qr svd lu_solve lu_unpack triangular_solve linalg_cholesky_ex linalg_eigvalsh
    linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor linalg_lu_factor_ex
    linalg_lu_solve linalg_matrix_power linalg_slogdet linalg_solve_ex linalg_svdvals linalg_vector_norm""".split())
_EXACT_TOO = {
    "amax": "Expected the dtype for input and out to match, but got {have} for input's dtype and {got} for out's dtype.",
    "kthvalue": "output indices must be of scalar type {have}",
    "median": "Expected tensor for argument #1 'indices' to have scalar type {have}; but got torch.{got}Tensor instead (while "
              "checking arguments for median)",
    "mode": "expected scalar type '{have}' but got '{got}' for indices output",
    "cummax": "expected scalar_type {have} but found {got}",
    "nonzero": "nonzero: Expected out tensor to have scalar type {have} but got scalar type{got}",
    "index_select": "index_select(): self and result must have the same scalar type",
    "take": "take(): self and out expected to have the same dtype, but got self.dtype = {have} and out.dtype = {got}",
    "where": "Expected out type to be {have} but got {got}",
    "masked_select": "masked_select(): self and result must have the same scalar type",
    "dot": "result dtype {got} does not match input dtype {have}",
    "searchsorted": "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
                    "whether out_int32 flag is True, but we got output tensor's dtype {got} and out_int32 flag is False",
}
_EXACT_TOO |= {"amin": _EXACT_TOO["amax"], "nanmedian": _EXACT_TOO["median"], "cummin": _EXACT_TOO["cummax"],
               "vdot": _EXACT_TOO["dot"], "bucketize": _EXACT_TOO["searchsorted"]}
_SILENT = frozenset(("addbmm", "bernoulli", "multinomial", "narrow_copy", "log_sigmoid"))    # these resize `out` unasked
_ANY = frozenset(("sum", "nansum", "prod", "cumsum", "cumprod"))    # these compute in the dtype of `out`, whatever it is
_APART = frozenset("gather take cat stack index_select masked_select max min mode kthvalue nonzero cross linalg_cross".split())
_ELEMENTWISE = frozenset(("where", "clamp"))


def _check_apart(name: str, out: Tensor, inputs: Iterable[Any]) -> None:
    """RuntimeError where the operator `name` would write over elements that it has yet to read."""
    if name in _APART or name in _ELEMENTWISE:
        for read in inputs:
            refuse_shared(out, read, name in _APART)


def check_out(name: str, out: Any, result: Tensor) -> None:
    """Raise as PyTorch does if the operator can't write this result to that tensor; most convert no dtypes."""
    if not isinstance(out, Tensor):
        raise refused(name, "out", "Tensor", out)
    have, got = result._layout.dtype, out._layout.dtype
    if have is not got:
        words = {"have": have.scalar_name, "got": got.scalar_name}
        if name in _EXACT:
            raise RuntimeError(f"Expected out tensor to have dtype {have.c_name}, but got {got.c_name} instead")
        if name in _EXACT_TOO and not (name == "searchsorted" and got.name == "int32"):
            raise RuntimeError(_EXACT_TOO[name].format(**words))
        if name in ("all", "any") and got.name != "uint8":
            raise RuntimeError(f"{name} only supports bool tensor for result, got: {got.scalar_name}")
        if name in ("cat", "stack") and not can_cast(have, got):
            raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {got.scalar_name}")


def refuse_graph(name: str, tensors: Iterable[Any]) -> None:
    """RuntimeError if one of the operands and results of a call with `out=` requires grad, and that is being recorded."""
    if modes.local.grad and any(isinstance(x, Tensor) and x._node is not None for x in tensors):
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                           "arguments requires grad.")


def same_device(out: Tensor, device: Any) -> None:
    """RuntimeError unless the tensor given as `out=` is where the result is."""
    if out._layout.device.type != device.type:
        raise RuntimeError(f"Attempting to copy from device {device} to device {out._layout.device}, but cross-device copies are "
                           "not allowed!")


def convertible(dtype: DType, target: DType) -> None:
    """RuntimeError unless a result of one dtype may be written to a tensor of the other."""
    if not can_cast(dtype, target):
        raise RuntimeError(f"result type {dtype.scalar_name} can't be cast to the desired output type {target.scalar_name}")


def copy_into(out: Tensor, result: Any, name: str = "") -> Tensor:
    """Move a computed result into the tensor given as `out=` of the operator `name`."""
    dtype = result._layout.dtype
    if name:
        check_out(name, out, result)
    same_device(out, result._layout.device)
    if name not in _ANY:
        convertible(dtype, out._layout.dtype)
    (resize if name in _SILENT else resize_out)(out, result._layout.shape)
    out.copy_(result)
    return out


def deliver(out: Any, result: Any, name: str, inputs: Iterable[Any] = ()) -> Any:
    """Move what the operator `name` computed from `inputs`, a tensor or a tuple of them, into what was given as `out=`, and
    return that.
    """
    if not isinstance(result, tuple):
        check_out(name, out, result)
        _check_apart(name, out, inputs)
        return copy_into(out, result.detach(), name)
    inputs = list(inputs)
    for target, value in zip(out, result):
        check_out(name, target, value)
        _check_apart(name, target, inputs)
    for target, value in zip(out, result):
        copy_into(target, value.detach())
    return returns.of_out(type(result))(out)
