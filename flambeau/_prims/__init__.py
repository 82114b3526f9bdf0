"""torch._prims: the primitive operators, `torch.ops.prims`, in which PyTorch's references are written.

They convert and broadcast nothing, refuse what doesn't fit, and have no gradients. The operators are in elementwise, views and
values; context has the mode in which functions of torch are answered by their references. Stands on dispatcher and the public
operators.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn

import flambeau as torch
import flambeau._prims_common as utils
from flambeau._prims import context, elementwise, executor, registry, rng_prims, values, views
from flambeau._prims_common import RETURN_TYPE
from flambeau.dispatcher import builtin_schemas

__all__ = [
    *(name for name in builtin_schemas.names("prims") if not name.startswith("_") and name not in ("uniform", "view_of_dtype")),
    "context", "elementwise", "executor", "expand_dims", "rng_prims", "shift_right_logical", "utils", "values",
    "view_element_type", "views", "RETURN_TYPE",
]  # fmt: skip

registry.define_all()


class ELEMENTWISE_PRIM_TYPE_PROMOTION_KIND(enum.Enum):
    """What an elementwise primitive gives: its arguments' dtype, whole numbers, truth values, or the parts of complex ones."""

    DEFAULT, INT_TO_FLOAT, ALWAYS_BOOL, COMPLEX_TO_FLOAT = [(number,) for number in (0, 2, 3, 4)]


def expand_dims(a: torch.Tensor, dimensions: Sequence[int], ndim: Any = None) -> torch.Tensor:
    """A view with dimensions of one element in these places of the result."""
    rank = a.dim() + len(dimensions) if ndim is None else ndim
    places = sorted(utils.canonicalize_dims(rank, list(dimensions)))
    if len(set(places)) != len(places):
        raise ValueError("Received duplicate dimensions to expand!")
    sizes = iter(a.shape)
    kept = [dim for dim in range(rank) if dim not in places]
    shape = [1 if dim in places else next(sizes) for dim in range(rank)]
    made: torch.Tensor = torch.ops.prims.broadcast_in_dim(a, shape, kept)
    return made


def _uniform_helper(
    shape: Sequence[int], *, low: Any = 0.0, high: Any = 1.0, dtype: torch.dtype, device: Any, generator: Any = None
) -> torch.Tensor:
    """Samples from low to high in a contiguous tensor."""
    utils.validate_shape(shape)
    made: torch.Tensor = torch.ops.prims.uniform(
        shape,
        low=low,
        high=high,
        dtype=dtype,
        device=utils.canonicalize_device(device),
        stride=utils.make_contiguous_strides_for(shape),
        generator=generator,
    )
    return made


def shift_right_logical(*args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError, as PyTorch."""
    raise NotImplementedError("prims.shift_right_logical is not implemented; torch.bitwise_right_shift keeps the sign")


def __getattr__(name: str) -> Any:
    if name == "view_element_type":
        name = "view_of_dtype"
    if not name.startswith("__") and name in builtin_schemas.names("prims"):
        found = getattr(torch.ops.prims, name).default
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
