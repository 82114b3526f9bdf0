"""What translations share: dtypes of operands, dimensions, constants of a dtype. Stands on `_builder`."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Value
from flambeau.onnx.errors import UnsupportedOperatorError

__all__ = ["INT64_MAX", "axes_of", "common_dtype", "each", "sized", "together", "unsupported"]

INT64_MAX = 2**63 - 1


def common_dtype(x: Any, y: Any) -> torch.dtype:
    """The dtype in which PyTorch compares two operands, tensors or numbers."""
    return torch.result_type(_stand_in(x), _stand_in(y))


def _stand_in(x: Any) -> Any:
    if isinstance(x, Value):
        return torch.empty((1,) * min(x.rank, 1), dtype=x.dtype, device="meta")
    return 1 if isinstance(x, Size) else x


def together(b: Builder, *xs: Any) -> list[Value]:
    """Operands in the dtype of the operator's result."""
    return [b.value(x, b.out.dtype) for x in xs]


def axes_of(x: Value, dim: Any) -> list[int]:
    """Dimensions, counted from the first; all where None or none is given."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.rank))
    return [d % max(x.rank, 1) for d in ([dim] if isinstance(dim, int) else dim)]


def each(x: Any, count: int) -> list[Any]:
    """A list of numbers, one for each dimension."""
    if not isinstance(x, (list, tuple)):
        return [x] * count
    return list(x) * (count if len(x) == 1 else 1)


def sized(b: Builder, x: Value, *dims: int) -> list[int]:
    """Sizes that must be numbers. UnsupportedOperatorError where one is known only when the model runs."""
    found = [b.size(x, d) for d in dims]
    if any(isinstance(n, Size) for n in found):
        raise unsupported(b, "where the size of a dimension is dynamic; keep it fixed")
    return found


def unsupported(b: Builder, what: str) -> UnsupportedOperatorError:
    """The error of an operator that ONNX doesn't have in this form; `_translate` adds where it was called."""
    return UnsupportedOperatorError(b.target, b.wanted, None, what=what)
