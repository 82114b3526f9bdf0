"""Elementwise operators of two tensors, one of them masked at least: masks must match, or the other is a plain tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.layout import sparse_coo, strided
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.namespaces import ops
from flambeau.masked.maskedtensor.core import MaskedTensor, get_data, masks_match, match, of_parts, rule
from flambeau.masked.maskedtensor.unary import at_values

__all__ = ["INPLACE_BINARY_NAMES", "NATIVE_INPLACE_BINARY_FNS", "NATIVE_BINARY_FNS", "BINARY_NAMES"]

BINARY_NAMES = """add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide
    floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater
    greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal""".split()
INPLACE_BINARY_NAMES = [
    name + "_" for name in BINARY_NAMES
    if name not in ("logaddexp", "logaddexp2", "equal", "fmin", "minimum", "maximum", "fmax")
]  # fmt: skip

#: The operators as torch.ops.aten has them.
NATIVE_BINARY_FNS = [getattr(ops.aten, name) for name in BINARY_NAMES]
NATIVE_INPLACE_BINARY_FNS = [getattr(ops.aten, name) for name in INPLACE_BINARY_NAMES]


def _computed(func: Callable, first: Any, second: Any, *rest: Any, **kwargs: Any) -> Tensor:
    """The operator of the data. Raises ValueError unless masks, and the places of sparse data, match."""
    if any(isinstance(x, Tensor) for x in (*rest, *kwargs.values())):
        raise TypeError("MaskedTensor binary ops do not support Tensor arguments aside from the lhs and rhs")
    if not masks_match(first, second):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    a, b = get_data(first), get_data(second)
    if isinstance(a, Tensor) and a.layout is not strided:
        if isinstance(b, Tensor) and b.layout is a.layout:
            coo = a.layout is sparse_coo
            parts = ("indices",) if coo else ("crow_indices", "col_indices")
            if not all(match(getattr(a, part)(), getattr(b, part)()) for part in parts):
                raise ValueError(
                    f"sparse_{'coo' if coo else 'csr'} indices must match. If you need support for this, please open an "
                    "issue on Github."
                )
            if a.shape != b.shape:
                raise ValueError("input1 and input2 must have the same size for binary functions.")
            b = b.values()
        return at_values(func, a, b, *rest, **kwargs)
    return func(a, b, *rest, **kwargs)


@rule(*BINARY_NAMES, "__rsub__", "rsub", "__rtruediv__", "__rfloordiv__", "__rmod__")
def binary(func: Callable, first: Any, second: Any, *rest: Any, **kwargs: Any) -> Any:
    """The operator of the data; the mask is that of the masked operand, in the shape of the result."""
    data = _computed(func, first, second, *rest, **kwargs)
    mask = (first if isinstance(first, MaskedTensor) else second).get_mask()
    return of_parts(data, mask.expand_as(data) if data.layout is strided else mask)


@rule(*INPLACE_BINARY_NAMES)
def binary_in_place(func: Callable, first: Any, second: Any, *rest: Any, **kwargs: Any) -> Any:
    """The tensor itself, whose data are replaced by the operator of the data."""
    held = first
    if isinstance(first, MaskedTensor):
        held = of_parts(first._masked_data.clone(), first.get_mask())
    data = _computed(func, held, second, *rest, **kwargs)
    if isinstance(first, MaskedTensor):
        first._set_data_mask(data, first.get_mask())
    return first
