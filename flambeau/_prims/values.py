"""Primitive operators that make tensors, copy and convert them, reduce and transform them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
import flambeau._prims_common as utils
from flambeau._prims.registry import primitive

# ---------------------------------------------------------------- conversions and copies


@primitive("convert_element_type")
def convert_element_type(a: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A copy in another dtype, or in its own."""
    strides = utils.compute_elementwise_output_strides(a)
    return torch.empty_strided(a.shape, strides, dtype=dtype, device=a.device).copy_(a)


@primitive("device_put")
def device_put(a: torch.Tensor, device: torch.device, non_blocking: bool = False) -> torch.Tensor:
    """The tensor on a device: itself where it is there."""
    return a.to(device, non_blocking=non_blocking)


@primitive("item")
def item(a: torch.Tensor) -> Any:
    """The one element as a number of Python's. RuntimeError for several."""
    return a.item()


@primitive("clone")
def clone(a: torch.Tensor, *, memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """A copy, in a memory format or in the order of the tensor."""
    return torch.clone(a, memory_format=memory_format or torch.preserve_format)


@primitive("copy_strided")
def copy_strided(a: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """A copy with these strides."""
    return torch.empty_strided(a.shape, tuple(stride), dtype=a.dtype, layout=a.layout, device=a.device).copy_(a)


@primitive("copy_to")
def copy_to(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a`, to which the elements of `b` are written. RuntimeError for another number of them."""
    if a.numel() != b.numel():
        raise RuntimeError(f"Attempting to copy {b.numel()} elements to a tensor with {a.numel()} elements!")
    return a.copy_(b)


@primitive("resize")
def resize(a: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """`a` in another shape."""
    return a.resize_(tuple(shape))


@primitive("maximum_value")
def maximum_value(dtype: torch.dtype) -> Any:
    """The largest number of a dtype."""
    if dtype is torch.bool:
        return True
    return torch.finfo(dtype).max if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).max


@primitive("minimum_value")
def minimum_value(dtype: torch.dtype) -> Any:
    """The least number of a dtype."""
    if dtype is torch.bool:
        return False
    return torch.finfo(dtype).min if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).min


# ---------------------------------------------------------------- factories


@primitive("empty")
def empty(shape: Sequence[int], *, dtype: torch.dtype, device: torch.device, requires_grad: bool) -> torch.Tensor:
    """A contiguous tensor without values."""
    return torch.empty(tuple(shape), dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("empty_strided")
def empty_strided(
    shape: Sequence[int], strides: Sequence[int], *, dtype: torch.dtype, device: torch.device, requires_grad: bool
) -> torch.Tensor:
    """A tensor of these strides without values."""
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("empty_permuted")
def empty_permuted(
    shape: Sequence[int], physical_layout: Sequence[int], *, dtype: torch.dtype, device: torch.device, requires_grad: bool
) -> torch.Tensor:
    """A dense tensor without values, whose dimensions lie in memory in this order, the outermost first."""
    if len(shape) != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in the tensor input does not match the length of the physical layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    return torch.empty_permuted(tuple(shape), tuple(physical_layout), dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("full")
def full(shape: Sequence[int], fill_value: Any, *, dtype: torch.dtype, device: torch.device, requires_grad: bool) -> torch.Tensor:
    """A tensor of one number."""
    return torch.full(tuple(shape), fill_value, dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("full_like")
def full_like(a: torch.Tensor, fill_value: Any, *, dtype: torch.dtype, device: torch.device, requires_grad: bool) -> torch.Tensor:
    """A tensor of one number in the shape and order of another."""
    return torch.full_like(a, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("iota")
def iota(length: int, *, start: int, step: int, dtype: torch.dtype, device: torch.device, requires_grad: bool) -> torch.Tensor:
    """`length` whole numbers in a row. RuntimeError for a floating dtype, and for steps of 0."""
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        raise RuntimeError("prims.iota only supports integer dtypes")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if length < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {length}: [{length}]")
    return torch.arange(start, start + length * step, step, dtype=dtype, device=device, requires_grad=requires_grad)


@primitive("scalar_tensor")
def scalar_tensor(s: Any, *, dtype: torch.dtype | None = None, device: torch.device | None = None) -> torch.Tensor:
    """A number as a tensor without dimensions."""
    return torch.scalar_tensor(s, dtype=dtype, device=device)


@primitive("normal")
def normal(
    shape: Sequence[int],
    *,
    mean: Any,
    std: Any,
    dtype: torch.dtype,
    device: torch.device,
    requires_grad: bool,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Samples of a normal distribution. RuntimeError for a negative deviation and for whole numbers."""
    if std < 0:
        raise RuntimeError(f"expected non-negative standard deviation, but got std={std}")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"expected a floating-point or complex dtype, but got dtype={dtype}")
    made = torch.empty(tuple(shape), dtype=dtype, device=device, requires_grad=requires_grad)
    with torch.no_grad():
        made.normal_(mean, std, generator=generator)
    return made


@primitive("uniform")
def uniform(
    shape: Sequence[int],
    *,
    low: float,
    high: float,
    dtype: torch.dtype,
    device: torch.device,
    stride: Sequence[int],
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Samples from low to high."""
    made = torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype, device=device)
    return made.uniform_(low, high, generator=generator)


@primitive("_make_token")
def make_token() -> torch.Tensor:
    """What is passed from one operator to the next so that their order stays: a tensor without elements."""
    return torch.empty(0)


@primitive("_sink_tokens")
def sink_tokens(tokens: Sequence[torch.Tensor]) -> None:
    """Where the order of operators ends."""


# ---------------------------------------------------------------- reductions and transforms


def _dims(a: torch.Tensor, dims: Sequence[int]) -> tuple[int, ...]:
    """Dimensions counted from the front. TypeError for None, RuntimeError where one comes twice."""
    given = tuple(dims)
    if len(set(given)) != len(given):
        double = next(d for d in given if given.count(d) > 1)
        raise RuntimeError(f"dim {double} appears multiple times in the list of dims")
    utils.validate_dimension_indices(a.dim(), given)
    return given


@primitive("sum")
def sum(inp: torch.Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The sums over dimensions, over all if none is given."""
    return torch.sum(inp, _dims(inp, dims), dtype=output_dtype)


@primitive("prod")
def prod(inp: torch.Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The products over dimensions; none is over none."""
    made = inp if output_dtype is None else inp.to(output_dtype)
    given = sorted(_dims(inp, dims), reverse=True)
    if not given:
        return made.clone() if made is inp else made
    for dim in given if inp.dim() else ():
        made = torch.prod(made, dim)
    return made


@primitive("amax")
def amax(inp: torch.Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The largest over dimensions, over all if none is given."""
    made = torch.amax(inp, _dims(inp, dims))
    return made if output_dtype is None else made.to(output_dtype)


@primitive("amin")
def amin(inp: torch.Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The least over dimensions, over all if none is given."""
    made = torch.amin(inp, _dims(inp, dims))
    return made if output_dtype is None else made.to(output_dtype)


@primitive("var")
def var(
    inp: torch.Tensor, dims: Sequence[int], correction: float | None = 1, *, output_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The variances over dimensions."""
    made = torch.var(inp, _dims(inp, dims), correction=correction)
    return made if output_dtype is None else made.to(output_dtype)


@primitive("xor_sum")
def xor_sum(inp: torch.Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """NotImplementedError, as PyTorch outside of its compiler."""
    _dims(inp, dims)
    raise NotImplementedError("xor_sum only implemented with inductor")


@primitive("fft_r2c")
def fft_r2c(a: torch.Tensor, *, dim: Sequence[int], onesided: bool) -> torch.Tensor:
    """The Fourier transform of real numbers. RuntimeError for complex ones."""
    if not a.is_floating_point():
        raise RuntimeError(f"Only supports floating point dtypes, but found: {a.dtype.scalar_name}")
    return torch.ops.aten._fft_r2c(a, list(dim), 0, onesided)  # type: ignore[no-any-return]


@primitive("fft_c2c")
def fft_c2c(a: torch.Tensor, *, dim: Sequence[int], forward: bool) -> torch.Tensor:
    """The Fourier transform of complex numbers, or back without its factor. RuntimeError for real ones."""
    return torch.ops.aten._fft_c2c(_complex(a), list(dim), 0, forward)  # type: ignore[no-any-return]


@primitive("fft_c2r")
def fft_c2r(a: torch.Tensor, *, dim: Sequence[int], last_dim_size: int) -> torch.Tensor:
    """The transform back to real numbers, without its factor. RuntimeError for real numbers."""
    return torch.ops.aten._fft_c2r(_complex(a), list(dim), 0, last_dim_size)  # type: ignore[no-any-return]


def _complex(a: torch.Tensor) -> torch.Tensor:
    if not a.is_complex():
        raise RuntimeError(f"Only supports complex dtypes, but found: {a.dtype.scalar_name}")
    return a


@primitive("svd")
def svd(A: torch.Tensor, *, full_matrices: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The singular value decomposition."""
    return tuple(torch.linalg.svd(A, full_matrices=full_matrices))  # type: ignore[return-value]
