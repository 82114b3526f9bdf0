"""What operators say of an `out` that they can't write to: a wrong type, dtype or device, or one that requires grad.

PyTorch's operators agree neither on the words nor on what they refuse, so there are tables, by name. Stands on
core.operator.arguments; used by core.operator.out_argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.base.dtype import can_cast
from flambeau.base.dtype import dtype as DType
from flambeau.core.modes import modes
from flambeau.core.operator.arguments import no_combination, refused_out
from flambeau.core.tensor.tensor import Tensor

_EXACT = frozenset("""
    mm bmm addmm matmul mv baddbmm max min sort topk aminmax argmax argmin softmax log_softmax gather tril triu norm diag
    linalg_inv linalg_svd linalg_qr linalg_solve linalg_det linalg_eigh linalg_cholesky inverse scatter scatter_add scatter_reduce
    renorm cross linalg_cross addbmm addmv index_add index_copy index_reduce isin msort slice_scatter take_along_dim
    alias_copy as_strided_copy diagonal_copy expand_copy permute_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unfold_copy unsqueeze_copy view_copy qr svd lu_solve lu_unpack triangular_solve linalg_cholesky_ex linalg_eigvalsh
    linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor linalg_lu_factor_ex
    linalg_lu_solve linalg_slogdet linalg_solve_ex linalg_svdvals linalg_vector_norm avg_pool2d avg_pool3d
    linear""".split())
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
_EXACT_TOO |= {
    **dict.fromkeys(("complex", "polar"), "Expected object of scalar type {have} but got scalar type {got} for argument 'out'"),
    **{name: name + " does not support non-boolean outputs." for name in ("signbit", "isposinf", "isneginf")},
    **dict.fromkeys(("quantile", "nanquantile"), "quantile() out tensor must be same dtype as the input tensor"),
    **dict.fromkeys(("inner", "tensordot"), "tensordot: Expected the output tensor to have dtype {have}, but got an output "
                                            "tensor with dtype {got}"),
    **dict.fromkeys(("log_sigmoid", "linalg_solve_triangular"), "expected scalar type {have} but found {got}"),
    **dict.fromkeys(("histc", "histogram"), "torch.histogram: input tensor and hist tensor should have the same dtype, but got "
                                            "input {own} and hist {other}"),
    "linalg_norm": "linalg.norm expected out tensor dtype {have} but got: {got}",
    "linalg_matrix_norm": "linalg.matrix_norm expected out tensor dtype {have} but got: {got}",
    "frexp": "torch.frexp() expects mantissa to have dtype {own} but got {other}",
    "linalg_multi_dot": "multi_dot(): expected out tensor to have dtype {own} but got {other}",
    "linalg_vecdot": "linalg.vecdot: Expected out of dtype{have} but found {got}",
    "ormqr": "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{have} and result has "
             "dtype {got}",
    "nan_to_num": "nan_to_num: dtype of out: {got} should be same as input: {have}",
    "heaviside": "heaviside is not yet implemented for tensors with different dtypes.",
    "hash_tensor": "Expected result to be of dtype uint64, but got {got}",
}
_EXACT_TOO |= {"diff": _EXACT_TOO["cummax"], "logcumsumexp": _EXACT_TOO["cummax"], "amin": _EXACT_TOO["amax"],
               "nanmedian": _EXACT_TOO["median"], "cummin": _EXACT_TOO["cummax"],
               "vdot": _EXACT_TOO["dot"], "bucketize": _EXACT_TOO["searchsorted"]}
_ELSEWHERE = frozenset("""
    max min avg_pool2d topk svd gather index_reduce scatter scatter_add scatter_reduce argmax argmin hash_tensor linalg_det
    linalg_cholesky linalg_cholesky_ex linalg_inv linalg_inv_ex linalg_svd linalg_svdvals""".split())     # name both devices
_FACTORIES = frozenset("arange linspace logspace ones zeros full empty eye".split())
_COMPLEX = frozenset("fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn ihfft".split())
_REAL = frozenset("hfft hfft2 hfftn irfft irfft2 irfftn".split())
_JOINING = frozenset("cat stack column_stack hstack vstack dstack row_stack _chunk_cat".split())
_CASTABLE = {
    **{name: (name, "result") for name in "cholesky cholesky_solve cholesky_inverse".split()},
    **{"linalg_" + name: ("linalg." + name, "result") for name in "cond pinv".split()},
    **{"linalg_" + name: (name, "result") for name in "tensorinv tensorsolve matrix_power".split()},
    **{"linalg_" + name: ("torch.linalg." + name, "result") for name in "matrix_rank householder_product".split()},
    "linalg_eig": ("torch.linalg.eig", "eigenvalues"), "linalg_eigvals": ("torch.linalg.eigvals", "eigenvalues"),
    "geqrf": ("torch.geqrf", "a"),
}

# The step that refuses to be recorded, where it has another name than the operator.
_STEPS = {
    "float_power": "pow", "square": "pow", "true_divide": "div", "column_stack": "cat", "hstack": "cat", "vstack": "cat",
    "dstack": "cat", "msort": "sort", "take_along_dim": "gather", "outer": "mul", "kron": "mul", "nanmean": "nansum",
    "norm": "linalg_vector_norm", "cross": "linalg_cross", "lu_solve": "linalg_lu_solve", "qr": "linalg_qr",
    "linalg_det": "_linalg_det", "linalg_eigh": "_linalg_eigh", "linalg_eigvalsh": "_linalg_eigh",
    "linalg_slogdet": "_linalg_slogdet", "linalg_solve": "_linalg_solve_ex", "linalg_solve_ex": "_linalg_solve_ex",
    "linalg_svd": "_linalg_svd", "linalg_svdvals": "_linalg_svd", "svd": "_linalg_svd", "linalg_inv": "linalg_inv_ex",
    "linalg_cholesky": "linalg_cholesky_ex", "linalg_lu_factor": "linalg_lu_factor_ex", "linalg_multi_dot": "mm",
    "log_sigmoid": "log_sigmoid_forward",
    **dict.fromkeys(("fft_fft", "fft_fft2", "fft_fftn", "fft_ifft", "fft_ifft2", "fft_ifftn"), "_fft_c2c"),
    **dict.fromkeys(("fft_hfft", "fft_hfft2", "fft_hfftn", "fft_irfft", "fft_irfft2", "fft_irfftn"), "_fft_c2r"),
    **dict.fromkeys(("fft_rfft", "fft_rfft2", "fft_rfftn"), "_fft_r2c"),
    **{name: "special_" + name for name in "i0e i1 i1e xlog1py zeta entr ndtri log_ndtr erfcx".split()},
}
# What writes to `out` unrecorded whatever its operands want, and refuses only a result that requires grad ...
_OUT_ONLY = frozenset("""
    conj_physical diagonal_copy alias_copy expand_copy floor_divide heaviside softmax log_softmax as_strided_copy view_copy
    permute_copy slice_scatter _chunk_cat histogram unfold_copy squeeze_copy unsqueeze_copy transpose_copy t_copy
    linalg_eigvals linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve""".split())
# ... and what is made of several steps, the last of which is a copy.
_COPIED = frozenset("""
    diff quantile nanquantile inner tensordot linalg_cond linalg_matrix_power linalg_norm linalg_matrix_norm linalg_tensorinv
    linalg_tensorsolve ndtr""".split())
_UNRECORDED = frozenset("""
    all any argmax argmin bucketize hash_tensor histc isin nonzero searchsorted""".split())    # have no derivative


_COMPARISONS = frozenset("eq ne lt le gt ge logical_and logical_or logical_xor logical_not".split())    # don't even look
_ALONG = frozenset(("sum", "prod", "median", "nanmedian"))     # take `out` only where they are told a dimension


def check_dim(name: str, given: Sequence[Any], out: Any) -> None:
    """TypeError for an `out` of one of the reductions that take none where they reduce all dimensions."""
    if name in _ALONG and given[1] is None:
        raise no_combination(name, given[:1], {"out": out})


def check_dtype(name: str, out: Tensor, have: DType) -> None:
    """Raise as PyTorch does if the operator can't write a result of this dtype to that tensor; most convert no dtypes."""
    got = out._layout.dtype
    if have is not got:
        words = {"have": have.scalar_name, "got": got.scalar_name, "own": have.c_name, "other": got.c_name}
        if name in _EXACT:
            raise RuntimeError(f"Expected out tensor to have dtype {have.c_name}, but got {got.c_name} instead")
        if name in _EXACT_TOO and not (name == "searchsorted" and got.name == "int32"):
            raise RuntimeError(_EXACT_TOO[name].format(**words))
        if name in _CASTABLE and not can_cast(have, got):
            title, what = _CASTABLE[name]
            raise RuntimeError(f"{title}: Expected {what} to be safely castable from {have.scalar_name} dtype, but got {what} "
                               f"with dtype {got.scalar_name}")
        short = name.removeprefix("fft_")
        if name.startswith("fft_") and (short in _COMPLEX or short in _REAL):
            title = short.replace("2", "n")
            if short in _COMPLEX and not got.is_complex:
                raise RuntimeError(f"{title} expects a complex output tensor, but got {got.scalar_name}")
            if short in _REAL and not got.is_floating_point:
                raise RuntimeError(f"{title} expects a floating point output tensor, but got {got.scalar_name}")
        if name in ("all", "any") and got.name != "uint8":
            raise RuntimeError(f"{name} only supports bool tensor for result, got: {got.scalar_name}")
        if name in _JOINING and not can_cast(have, got):
            raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {got.scalar_name}")


def check_types(name: str, out: Any, result: Any, inputs: Iterable[Any]) -> None:
    """TypeError unless `out` is a tensor, or as many of them as there are results."""
    if not isinstance(result, tuple):
        if not isinstance(out, Tensor):
            raise refused_out(name, list(inputs), out)
        return
    if not isinstance(out, (tuple, list)):
        raise refused_out(name, list(inputs), out, "tuple of Tensors")
    if not all(isinstance(each, Tensor) for each in out):
        raise refused_out(name, list(inputs), out, "tuple of Tensors")
    if len(out) != len(result):
        raise TypeError(f"expected tuple of {len(result)} elements but got {len(out)}")


def refuse_graph(name: str, inputs: Iterable[Any], outs: Iterable[Any]) -> None:
    """RuntimeError if a tensor of a call with `out=` requires grad, and that is being recorded."""
    if not modes.local.grad:
        return
    given = name not in _COMPARISONS and any(isinstance(x, Tensor) and x._node is not None for x in outs)
    if not given:
        if name in _OUT_ONLY or name in _COPIED or name in _UNRECORDED:
            return
        if not any(isinstance(x, Tensor) and x._node is not None for x in inputs):
            return
    elif name in _COPIED:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    title = ("aten::" if name in _OUT_ONLY else "") + _STEPS.get(name, name)
    raise RuntimeError(f"{title}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                       "arguments requires grad.")


def check_device(name: str, out: Tensor, device: Any) -> None:
    """RuntimeError unless the tensor given as `out=` of the operator `name` is where its result is."""
    own = out._layout.device
    if own.type == device.type:
        return
    if name in _ELSEWHERE:
        raise RuntimeError(f"Expected out tensor to have device {device}, but got {own} instead")
    if name in _FACTORIES:
        raise RuntimeError(f"device type {device} does not match device type of out parameter ({own})")
    raise RuntimeError(f"Attempting to copy from device {device} to device {own}, but cross-device copies are not allowed!")
