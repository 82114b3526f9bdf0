"""Dimensions and shapes. Part of torch._prims_common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau._prims_common.checks import validate_shape

__all__ = [
    "apply_perm", "canonicalize_dim", "canonicalize_dims", "compute_reduction_output_shape", "extract_dims_from_varargs",
    "extract_shape_from_varargs", "infer_size", "infer_size_shapes", "invert_perm", "is_expandable_to", "is_valid_permutation",
    "reduction_dims", "set_correction",
]  # fmt: skip


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
    for size in shape:
        if size < -1:
            raise RuntimeError(
                f"invalid shape dimension {size}. If this was symbolic, it was assumed to not be -1."
                "If this was meant to be inferred, please explicitly pass in -1."
            )
    known = math.prod(size for size in shape if size != -1)
    if -1 in shape and known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension "
            "size -1 can be any value and is ambiguous"
        )
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
    shape = extract_dims_from_varargs(shape)
    if validate:
        validate_shape(shape)
    return tuple(shape)


def extract_dims_from_varargs(dims: Any) -> Any:
    """Dimensions, given one by one or as one sequence."""
    return dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims


def infer_size_shapes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to. RuntimeError where they don't."""
    found = []
    for place in range(max(len(a), len(b)), 0, -1):
        one, other = (x[-place] if place <= len(x) else 1 for x in (a, b))
        if one != other and 1 not in (one, other):
            raise RuntimeError(
                f"The size of tensor a ({one}) must match the size of tensor b ({other}) at non-jagged "
                f"dimension {max(len(a), len(b)) - place}"
            )
        found.append(other if one == 1 else one)
    return tuple(found)


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
