"""What autocast does to an operator: which ones compute in the lower precision, which in float32, which in the widest type given.

A declaration says so by one of the policies here (`autocast=lower`), as PyTorch does for the CPU. Generated variants come here
only while a special mode is on. Stands on core.modes.modes; used by core.operator.variants and core.operator.define.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.base.dtype import float32, promote_types
from flambeau.core.modes.modes import autocast_cast, get_autocast_dtype, local
from flambeau.core.operator.facets import OpDef
from flambeau.core.tensor.tensor import Tensor

# ---------------------------------------------------------------- policies: autocast= of a declaration


def lower(given: Sequence[Any], named: dict[str, Any]) -> Any:
    """Computed in the dtype of the block."""
    return get_autocast_dtype("cpu")


def single(given: Sequence[Any], named: dict[str, Any]) -> Any:
    """Computed in float32."""
    return float32


def widest(given: Sequence[Any], named: dict[str, Any]) -> Any:
    """Computed in the widest dtype of the arguments."""
    dtypes = [x._layout.dtype for x in _floats([*given, *named.values()])]
    return functools.reduce(promote_types, dtypes) if dtypes else None


def untouched(given: Sequence[Any], named: dict[str, Any]) -> Any:
    """Made of operators that autocast concerns, and yet computed in the dtype given."""
    return None


# ---------------------------------------------------------------- calls


def autocasting(operator: OpDef) -> bool:
    """Whether autocast is on in this thread and concerns the operator."""
    return operator.autocast is not None and bool(local.autocast_enabled.get("cpu"))


def _floats(arguments: Sequence[Any]) -> Iterator[Any]:
    for x in arguments:
        if isinstance(x, Tensor):
            if x._layout.dtype.is_floating_point:
                yield x
        elif isinstance(x, (tuple, list)):
            yield from _floats(x)


def _cast(x: Any, to: Any) -> Any:
    if isinstance(x, Tensor):
        return autocast_cast(x, to)
    if isinstance(x, (tuple, list)) and any(isinstance(y, Tensor) for y in x):
        return type(x)([_cast(y, to) for y in x])
    return x


@contextlib.contextmanager
def cast_arguments(operator: OpDef, given: Sequence[Any], named: dict[str, Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The arguments as autocast wants them for the operator; inside the block autocast is off."""
    to = operator.autocast(given, named) if operator.autocast is not None and autocasting(operator) else None
    if to is not None:  # from the last argument to the first, as graphs of PyTorch's show it
        casts = {n: _cast(named[n], to) for n in reversed(named)}
        given, named = [_cast(x, to) for x in reversed(given)][::-1], {n: casts[n] for n in named}
    before = local.autocast_enabled
    local.autocast_enabled = {}
    try:
        yield list(given), named
    finally:
        local.autocast_enabled = before
