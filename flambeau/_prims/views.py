"""Primitive operators that give views of their argument, or tensors of another shape."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as torch
import flambeau._prims_common as utils
from flambeau._prims.registry import primitive


@primitive("as_strided")
def as_strided(a: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int) -> torch.Tensor:
    """The tensor of this geometry on the same memory. ValueError beyond its end."""
    if len(size) != len(stride):
        raise AssertionError(f"len(size)={len(size)} != len(stride)={len(stride)}")
    utils.validate_strides(stride)
    utils.validate_shape(size)
    needed = utils.compute_required_storage_length(size, stride, storage_offset)
    held = a.untyped_storage().nbytes() // a.element_size()
    if 0 not in size and held < needed:
        raise ValueError(
            f"Can't view a storage of size {held} with an offset of {storage_offset}, shape of {list(size)}, and "
            f"strides of {list(stride)}, which requires a storage of size {needed}"
        )
    return torch.as_strided(a, size, stride, storage_offset)


@primitive("as_strided_scatter")
def as_strided_scatter(
    a: torch.Tensor, src: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int
) -> torch.Tensor:
    """A copy of the tensor in which what as_strided shows is replaced."""
    if tuple(src.shape) != tuple(size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {src.shape}, slice size = {list(size)}"
        )
    return torch.as_strided_scatter(a, src, size, stride, storage_offset)


@primitive("broadcast_in_dim")
def broadcast_in_dim(a: torch.Tensor, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> torch.Tensor:
    """The tensor expanded to a shape of which its dimensions are the given ones."""
    if a.dim() != len(broadcast_dimensions):
        raise AssertionError(f"a.ndim ({a.dim()}) != len(broadcast_dimensions) ({len(broadcast_dimensions)})")
    before = -1
    for place in broadcast_dimensions:
        utils.validate_idx(len(shape), place)
        if place <= before:
            raise AssertionError(f"broadcast_dimensions must be strictly ascending: {place} <= {before}")
        before = place
    for dim, place in enumerate(broadcast_dimensions):
        if a.shape[dim] not in (1, shape[place]):
            raise RuntimeError(f"{a.shape[dim]} must be broadcastable to {shape[place]}")
    view = a
    for place in range(len(shape)):
        if place not in broadcast_dimensions:
            view = view.unsqueeze(place)
    return view.expand(tuple(shape))


def _collapsed_shape(a: torch.Tensor, start: int, end: int) -> tuple[int, ...]:
    """The sizes with those from start to end, both included, in one."""
    utils.validate_idx(a.dim(), start)
    utils.validate_idx(a.dim(), end)
    if end < start:
        raise ValueError(f"Attempting to collapse but end, {end}, is less than start, {start}!")
    shape = tuple(a.shape) or (1,)
    return (*shape[:start], utils.prod(shape[start : end + 1]), *shape[end + 1 :])


@primitive("collapse_view")
def collapse_view(a: torch.Tensor, start: int, end: int) -> torch.Tensor:
    """The dimensions from start to end as one. RuntimeError where no view of the memory is that."""
    shape = _collapsed_shape(a, start, end)
    try:
        return a.view(shape)
    except RuntimeError:
        raise RuntimeError("Attempting to view a collapsed tensor, but no such view exists!") from None


@primitive("collapse")
def collapse(a: torch.Tensor, start: int, end: int) -> torch.Tensor:
    """A copy with the dimensions from start to end in one."""
    return a.reshape(_collapsed_shape(a, start, end)).clone(memory_format=torch.contiguous_format)


@primitive("split_dim")
def split_dim(a: torch.Tensor, dim: int, outer_length: int) -> torch.Tensor:
    """One dimension as two, of which the outer one has this length. ValueError where that divides it with a remainder."""
    utils.validate_idx(a.dim(), dim)
    utils.validate_dim_length(outer_length)
    length = a.shape[dim]
    if length % outer_length:
        raise ValueError(
            f"Attempting to split dimension of length {length}, but outer length of {outer_length} divides it with a remainder!"
        )
    return a.view((*a.shape[:dim], outer_length, length // outer_length, *a.shape[dim + 1 :]))


@primitive("squeeze")
def squeeze(a: torch.Tensor, dimensions: Sequence[int]) -> torch.Tensor:
    """Without these dimensions, of one element each."""
    for dim in dimensions:
        utils.validate_idx(a.dim(), dim)
        if a.dim() and a.shape[dim] != 1:
            raise AssertionError(f"Cannot squeeze dimension {dim} with size {a.shape[dim]} (must be 1)")
    return torch.squeeze(a, tuple(dimensions))


@primitive("transpose")
def transpose(a: torch.Tensor, permutation: Sequence[int]) -> torch.Tensor:
    """The dimensions in another order. ValueError for what is no permutation."""
    if a.dim() != len(permutation):
        raise ValueError(
            f"Attempting to permute a tensor of rank {a.dim()}, but received a permutation of length {len(permutation)}!"
        )
    if not utils.is_valid_permutation(a.dim(), permutation):
        raise ValueError(f"Received an invalid permutation, {list(permutation)}!")
    return torch.permute(a, tuple(permutation))


@primitive("view_of")
def view_of(a: torch.Tensor) -> torch.Tensor:
    """Another tensor on the same memory."""
    return torch.ops.aten.alias.default(a)  # type: ignore[no-any-return]


@primitive("view_of_dtype")
def view_of_dtype(a: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The memory read as another dtype."""
    return a.view(dtype)


def _part(a: torch.Tensor, function: str) -> torch.Tensor:
    if not a.is_complex():
        raise RuntimeError("Only complex dtype is supported")
    made: torch.Tensor = getattr(torch, function)(a)
    return made


@primitive("real")
def real(a: torch.Tensor) -> torch.Tensor:
    """The real parts, a view. RuntimeError for real numbers."""
    return _part(a, "real")


@primitive("imag")
def imag(a: torch.Tensor) -> torch.Tensor:
    """The imaginary parts, a view. RuntimeError for real numbers."""
    return _part(a, "imag")


@primitive("conj")
def conj(a: torch.Tensor) -> torch.Tensor:
    """The conjugates, a view. RuntimeError for real numbers."""
    if not a.is_complex():
        raise RuntimeError("Expected complex dtype in prims.conj")
    return torch.conj(a)


@primitive("cat")
def cat(tensors: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
    """Tensors one after another along a dimension, that has to be counted from the front."""
    utils.check_same_device(*tensors, allow_cpu_scalar_tensors=False)
    if dim < 0:
        raise AssertionError(f"dim must be non-negative, got {dim}")
    rank = tensors[0].dim()
    for number, x in enumerate(tensors):
        if x.dim() != rank:
            raise AssertionError(
                f"All tensors must have the same number of dimensions. Expected {rank} but tensor {number} has {x.dim()}"
            )
    return torch.cat(tuple(tensors), dim)


@primitive("reshape")
def reshape(a: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A copy of another shape. ValueError where that has another number of elements."""
    utils.validate_shape(shape)
    count = utils.prod(shape)
    if count != a.numel():
        raise ValueError(f"Attempting to reshape a tensor with {a.numel()} elements to a shape with {count} elements!")
    return a.reshape(tuple(shape)).clone(memory_format=torch.contiguous_format)


@primitive("rev")
def rev(a: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """Backwards along these dimensions."""
    if len(set(dims)) != len(dims):
        double = next(d for d in dims if list(dims).count(d) > 1)
        raise RuntimeError(f"dim {double} appears multiple times in the list of dims")
    utils.validate_dimension_indices(a.dim(), dims)
    return torch.flip(a, tuple(dims))
