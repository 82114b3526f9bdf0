"""What references and primitive operators demand of their arguments, and how two tensors are compared.

Part of torch._prims_common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau._prims_common.promotion import NUMBERS
from flambeau._prims_common.strides import check_significant_strides, compute_required_storage_length

__all__ = [
    "alert_not_deterministic", "check_fp_or_complex", "check_in_bounds_for_storage", "check_is_matrix", "check_layout",
    "check_pin_memory", "check_same_device", "check_same_dtype", "check_same_shape", "compare_tensor_meta", "extract_shape",
    "is_cpu_scalar_tensor", "is_same_shape", "same_shape", "validate_dim_length", "validate_dimension_indices",
    "validate_exclusive_idx", "validate_idx", "validate_no_repeating_dims", "validate_shape", "validate_strides",
]  # fmt: skip


def is_cpu_scalar_tensor(a: object) -> bool:
    """Whether it is a tensor without dimensions on the CPU."""
    return isinstance(a, torch.Tensor) and a.dim() == 0 and a.device.type == "cpu"


def _tensors(args: Sequence[Any], what: str) -> list[torch.Tensor]:
    for x in args:
        if not isinstance(x, (torch.Tensor, *NUMBERS)):
            raise RuntimeError(f"Unexpected type when checking for same {what}, {type(x)}!")
    return [x for x in args if isinstance(x, torch.Tensor)]


def check_same_device(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """Raises RuntimeError for tensors on several devices; numbers don't count."""
    found = [x for x in _tensors(args, "device") if not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(x))]
    for x in found:
        if x.device != found[0].device:
            raise RuntimeError(f"Tensor on device {x.device} is not on the expected device {found[0].device}!")


def check_same_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """Raises RuntimeError for tensors of several shapes; numbers don't count."""
    found = [x for x in _tensors(args, "shape") if not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(x))]
    for x in found:
        if x.shape != found[0].shape:
            raise RuntimeError(f"Shape {x.shape} is not the expected shape {found[0].shape}!")


def check_same_dtype(*args: Any) -> None:
    """Raises RuntimeError for tensors of several dtypes; numbers don't count."""
    found = _tensors(args, "dtype")
    for x in found:
        if x.dtype is not found[0].dtype:
            raise RuntimeError(f"Tensor with dtype {x.dtype} is not the expected dtype of {found[0].dtype}!")


def extract_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> torch.Size | None:
    """The one shape that the tensors have; None where they have several, or there is none."""
    found = _tensors(args, "shape")
    with_dimensions = [x for x in found if not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(x))] or found
    shapes = {x.shape for x in with_dimensions}
    return shapes.pop() if len(shapes) == 1 else None


def is_same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are the same."""
    return tuple(a) == tuple(b)


same_shape = is_same_shape


def validate_dim_length(length: int) -> None:
    """Raises RuntimeError for a negative size."""
    torch._check(length >= 0)


def validate_shape(shape: Sequence[int]) -> None:
    """Raises RuntimeError for a negative size, AssertionError for what is no sequence."""
    if not isinstance(shape, Sequence):
        raise AssertionError(f"shape must be a Sequence, got {type(shape)}")
    for size in shape:
        validate_dim_length(size)


def validate_strides(strides: Sequence[int]) -> None:
    """Raises AssertionError for a negative stride, and for what is no sequence."""
    if not isinstance(strides, Sequence):
        raise AssertionError(f"strides must be a Sequence, got {type(strides)}")
    for stride in strides:
        if stride < 0:
            raise AssertionError(f"stride must be non-negative, got {stride}")


def validate_idx(rank: int, idx: int) -> None:
    """Raises AssertionError for what is no dimension counted from the front; no dimensions count as one."""
    if not 0 <= idx < max(rank, 1):
        raise AssertionError(f"idx {idx} is out of bounds for rank {rank}")


def validate_dimension_indices(rank: int, indices: Sequence[int]) -> None:
    """validate_idx of each."""
    for idx in indices:
        validate_idx(rank, idx)


def validate_exclusive_idx(rank: int, ex_idx: int) -> None:
    """Raises AssertionError for what is no end of a range of dimensions."""
    if not 0 < ex_idx <= rank:
        raise AssertionError(f"ex_idx {ex_idx} is out of bounds for rank {rank} (must be in (0, rank])")


def validate_no_repeating_dims(dims: Sequence[int]) -> None:
    """Raises RuntimeError where one comes twice."""
    if len(set(dims)) != len(dims):
        raise RuntimeError("duplicate value in the list of dims")


def check_fp_or_complex(dtype: torch.dtype, fn_name: str, allow_low_precision_dtypes: bool = True) -> None:
    """Raises RuntimeError for whole numbers, and for half types where these aren't allowed."""
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{fn_name}: Expected a floating point or complex tensor as input. Got {dtype}")
    if not allow_low_precision_dtypes and dtype in (torch.float16, torch.bfloat16, torch.complex32):
        raise RuntimeError(f"{fn_name}: Half precision dtypes not supported. Got {dtype}")


def check_is_matrix(A: torch.Tensor, f_name: str, arg_name: str = "A") -> None:
    """Raises RuntimeError for fewer than two dimensions."""
    if A.dim() < 2:
        raise RuntimeError(f"{f_name}: The input tensor {arg_name} must have at least 2 dimensions.")


def check_layout(layout: torch.layout) -> None:
    """Raises NotImplementedError for any layout but strided."""
    if layout is not torch.strided:
        raise NotImplementedError(f"PrimTorch doesn't support layout={layout}")


def check_pin_memory(pin_memory: bool) -> None:
    """Raises NotImplementedError for pinned memory."""
    if pin_memory:
        raise NotImplementedError("PrimTorch does not support pinned memory")


def check_in_bounds_for_storage(a: Any, shape: Sequence[int], strides: Sequence[int], storage_offset: int) -> None:
    """Raises ValueError where a tensor of this geometry would reach beyond a typed storage."""
    needed = compute_required_storage_length(shape, strides, storage_offset)
    if a.size() < needed:
        raise ValueError(
            f"Can't view a storage of size {a.size()} with an offset of {storage_offset}, shape of {tuple(shape)}, "
            f"and strides of {tuple(strides)}, which requires a storage of size {needed}"
        )


def alert_not_deterministic(caller: str) -> None:
    """Raises RuntimeError, or warns, where `torch.use_deterministic_algorithms` asks for it."""
    if not torch.are_deterministic_algorithms_enabled():
        return
    message = (
        f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. "
        "You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's "
        "acceptable for your application."
    )
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(message)
    import warnings

    warnings.warn(message, UserWarning, stacklevel=2)


def compare_tensor_meta(
    a: torch.Tensor,
    b: torch.Tensor,
    check_strides: bool = False,
    *,
    allow_rhs_unbacked: bool = False,
    check_conj: bool = True,
    check_sizes: bool = True,
) -> None:
    """Raises MetadataMismatchError where two tensors differ in shape, dtype, device, or in whether they are views of conjugates
    or negatives; check_strides: in strides that matter or in the offset too. AssertionError for what is no tensor.
    """
    from flambeau._subclasses.fake_tensor import MetadataMismatchError

    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, torch.Tensor):
            raise AssertionError(f"{name} must be TensorLike, got {type(x)}")
    if check_sizes and a.shape != b.shape:
        raise MetadataMismatchError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype is not b.dtype:
        raise MetadataMismatchError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device and {str(a.device), str(b.device)} != {"cuda", "cuda:0"}:
        raise MetadataMismatchError(f"Devices {a.device} and {b.device} are not equal!")
    if check_strides:
        same, dim = check_significant_strides(a, b)
        if not same:
            raise MetadataMismatchError(f"Stride mismatch! Strides are {a.stride()} and {b.stride()} (mismatched at {dim})!")
        if a.storage_offset() != b.storage_offset():
            raise MetadataMismatchError(
                f"Storage offset mismatch! Storage offsets are {a.storage_offset()} and {b.storage_offset()}!"
            )
    if check_conj and a.is_conj() != b.is_conj():
        raise MetadataMismatchError(f"Conj mismatch! is_conj is set to {a.is_conj()} and {b.is_conj()}")
    if a.is_neg() != b.is_neg():
        raise MetadataMismatchError(f"Neg mismatch! is_neg is set to {a.is_neg()} and {b.is_neg()}")
