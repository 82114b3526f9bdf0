"""torch._prims_common: small questions about dtypes, shapes and strides. Stands on what tensors answer themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch

_COMPLEX_OF = {
    torch.float16: torch.complex32, torch.bfloat16: torch.complex64, torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}  # fmt: skip
_REAL_OF = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPUTED_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
_KINDS = (bool, int, float, complex)

# ---------------------------------------------------------------- dtypes


def is_boolean_dtype(dtype: torch.dtype) -> bool:
    """Whether it is torch.bool."""
    return dtype is torch.bool


def is_float_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a floating point type."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a complex type."""
    return dtype.is_complex


def is_integer_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a type of whole numbers; torch.bool is none."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def is_low_precision_dtype(dtype: torch.dtype) -> bool:
    """Whether it is float16, bfloat16 or complex32."""
    return dtype in _COMPUTED_IN


def is_grad_dtype(dtype: torch.dtype) -> bool:
    """Whether tensors of it may require grad."""
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of the parts of a complex type. Raises KeyError for another."""
    return _REAL_OF[dtype]


def corresponding_complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex type that holds a floating point type. Raises KeyError for another."""
    return _COMPLEX_OF[dtype]


def get_computation_dtype(dtype: torch.dtype) -> torch.dtype:
    """What is computed in for it: float32 for the half types, complex64 for complex32, else itself."""
    return _COMPUTED_IN.get(dtype, dtype)


def dtype_to_type(dtype: torch.dtype) -> type:
    """The class of Python's numbers for it: bool, int, float or complex."""
    if dtype is torch.bool:
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


def type_to_dtype(typ: type) -> torch.dtype:
    """The dtype of a class of Python's numbers. Raises ValueError for another class."""
    if typ is bool:
        return torch.bool
    if typ is int:
        return torch.int64
    if typ is float:
        return torch.get_default_dtype()
    if typ is complex:
        return corresponding_complex_dtype(torch.get_default_dtype())
    raise ValueError(f"Invalid type {typ}!")


def get_dtype(x: Any) -> torch.dtype:
    """The dtype of a tensor or a number."""
    return x.dtype if isinstance(x, torch.Tensor) else type_to_dtype(type(x))


def get_higher_type(a: type, b: type) -> type:
    """The later of two in the order bool, int, float, complex."""
    if a not in _KINDS or b not in _KINDS:
        raise RuntimeError(f"Expected builtin {_KINDS}, found {a}, {b}")
    return max(a, b, key=_KINDS.index)


def is_weakly_lesser_type(a: type, b: type) -> bool:
    """Whether a comes no later than b in the order bool, int, float, complex."""
    return get_higher_type(a, b) is b


def can_safe_cast_to(*, cast_to: torch.dtype, cast_from: torch.dtype) -> bool:
    """Whether the kind of numbers stays or widens."""
    return is_weakly_lesser_type(dtype_to_type(cast_from), dtype_to_type(cast_to))


def dtype_or_default(dtype: torch.dtype | None) -> torch.dtype:
    """The dtype, or the default one for None."""
    return torch.get_default_dtype() if dtype is None else dtype


# ---------------------------------------------------------------- shapes and dimensions


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from the front. Raises IndexError out of range; wrap_scalar: no dimensions count as one."""
    if rank == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx % rank


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """canonicalize_dim of one dimension, or of each as a tuple."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, index, wrap_scalar) for index in indices)


def is_valid_permutation(rank: int, perm: Sequence[int]) -> bool:
    """Whether it names each of `rank` dimensions once, counted from the front."""
    return isinstance(perm, Sequence) and sorted(perm) == list(range(rank))


def apply_perm(inp: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    """The items in the order of a permutation."""
    if len(inp) != len(perm):
        raise AssertionError(f"Length mismatch: len(inp)={len(inp)}, len(perm)={len(perm)}")
    return [inp[place] for place in perm]


def invert_perm(perm: Sequence[int]) -> list[int]:
    """The permutation that takes it back."""
    return sorted(range(len(perm)), key=perm.__getitem__)


def infer_size(shape: Sequence[int], numel: int) -> tuple[int, ...]:
    """The shape with -1 replaced by what makes `numel` elements. Raises RuntimeError where nothing does."""
    if sum(size == -1 for size in shape) > 1:
        raise RuntimeError("only one dimension can be inferred")
    known = math.prod(size for size in shape if size != -1)
    if -1 not in shape:
        fits = known == numel
    else:
        fits = known > 0 and numel % known == 0
    if not fits:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


def is_expandable_to(shape: Sequence[int], desired: Sequence[int]) -> bool:
    """Whether a tensor of the first shape expands to the second."""
    if len(shape) > len(desired):
        return False
    return all(own in (1, other) for own, other in zip(reversed(shape), reversed(desired), strict=False))


def extract_shape_from_varargs(shape: Any, validate: bool = True) -> tuple[int, ...]:
    """The sizes, given one by one or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = shape[0]
    return tuple(shape)


def compute_reduction_output_shape(shape: Sequence[int], dimensions: Sequence[int]) -> tuple[int, ...]:
    """The shape without the dimensions."""
    return tuple(size for place, size in enumerate(shape) if place not in dimensions)


def reduction_dims(shape: Sequence[int], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions counted from the front, all for None. Raises RuntimeError where one comes twice."""
    if dims is None:
        return tuple(range(len(shape)))
    found = tuple(canonicalize_dim(len(shape), dim) for dim in dims)
    if len(set(found)) != len(found):
        raise RuntimeError("duplicate value in the list of dims")
    return found


def set_correction(unbiased: bool | None = None, correction: float | None = None) -> float:
    """What is taken off the number of values in a variance: 1 unless one of the two says another."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("cannot specify both correction and unbiased arguments")
    if correction is None:
        correction = 1.0 if unbiased is None or unbiased else 0.0
    if correction < 0:
        raise ValueError("correction argument should be non-negative")
    return float(correction)


# ---------------------------------------------------------------- strides


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor; row_major=False: of one whose matrices are stored column by column."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(shape) >= 2:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)


def make_channels_last_strides_for(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor of 3, 4 or 5 dimensions whose second varies fastest. Raises RuntimeError for others."""
    if len(shape) not in (3, 4, 5):
        raise RuntimeError(f"no channels last format strides exist in {len(shape)} dimensions")
    batch, *spatial, channels = make_contiguous_strides_for([shape[0], *shape[2:], shape[1]])
    return (batch, channels, *spatial)


def is_contiguous(a: torch.Tensor, false_if_dde: bool = False) -> bool:
    """Whether the elements lie one after another."""
    return a.is_contiguous()


def is_contiguous_or_false(a: torch.Tensor) -> bool:
    """is_contiguous; sizes are always known here."""
    return a.is_contiguous()


def is_contiguous_for_memory_format(
    a: torch.Tensor, *, memory_format: torch.memory_format, false_if_dde: bool = False
) -> bool:
    """Whether the elements lie one after another in the order of the format."""
    return a.is_contiguous(memory_format=memory_format)


def is_contiguous_for_memory_format_or_false(a: torch.Tensor, *, memory_format: torch.memory_format) -> bool:
    """is_contiguous_for_memory_format; sizes are always known here."""
    return a.is_contiguous(memory_format=memory_format)


def suggest_memory_format(x: torch.Tensor) -> torch.memory_format:
    """channels_last or channels_last_3d for strided tensors whose strides are of that order, else contiguous_format."""
    if x.layout is torch.strided:
        for rank, memory_format in ((4, torch.channels_last), (5, torch.channels_last_3d)):
            if x.dim() == rank and x.stride() == make_channels_last_strides_for(x.shape):
                return memory_format
    return torch.contiguous_format


# ---------------------------------------------------------------- checks


def is_cpu_scalar_tensor(a: object) -> bool:
    """Whether it is a tensor without dimensions on the CPU."""
    return isinstance(a, torch.Tensor) and a.dim() == 0 and a.device.type == "cpu"


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    """Raise the exception with the message that s() gives unless b."""
    if not b:
        raise exc_type(s())


def prod(xs: Sequence[Any]) -> Any:
    """The product of numbers; 1 of none."""
    return math.prod(xs)
